/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Liveliness on the wire (RTPS 2.5 §8.4.13): the participant message that asserts all AUTOMATIC, or all
 * MANUAL_BY_PARTICIPANT, writers of a participant at once. Control sends it, three times in the shortest lease
 * concerned, and hands what it hears to the workers, whose readers keep the leases.
 *
 * AUTOMATIC: as long as this process runs, unasked. MANUAL_BY_PARTICIPANT: only if such a writer has written, or
 * the application asserted, since the last message.
 */
#include "control/domain.h"

#include <string.h>

#define NEVER ((struct apus_mono){INT64_MAX})

/* --- what comes in ------------------------------------------------------------------------------- */

void apus_ctl_domain_on_alive(struct apus_participant *p,
			      const struct apus_wire_liveliness *message, struct apus_mono now)
{
	struct apus_dp_pulse pulse = {
		.prefix = message->prefix,
		.liveliness = message->kind == APUS_WIRE_LIVELINESS_AUTOMATIC
				      ? APUS_AUTOMATIC
				      : APUS_MANUAL_BY_PARTICIPANT,
		.at = now,
	};

	for (uint32_t i = 0; i < p->worker_count; i++)
		apus_dp_worker_post_pulse(p->workers[i], &pulse);
}

/* --- what goes out ------------------------------------------------------------------------------- */

/* Under lock and the control turn. */
static int say(struct apus_participant *p, uint32_t kind)
{
	struct apus_ctl_discovery_ops ops = apus_ctl_domain_ops(p);
	struct apus_wire_liveliness message = {.prefix = p->prefix, .kind = kind};
	struct apus_guid key = {.bytes = {[15] = (uint8_t)kind}};
	uint8_t payload[64];
	int n = apus_wire_liveliness_encode(&message, payload, sizeof(payload));

	if (n < 0)
		return n;
	memcpy(key.bytes, p->prefix.bytes, sizeof(p->prefix.bytes));
	return ops.write(ops.user, (struct apus_eid){APUS_CTL_EID_MESSAGE_WRITER}, &key, payload,
			 (size_t)n, false);
}

static void shorter(int64_t *period_ns, int64_t lease_ns)
{
	int64_t third = lease_ns / 3 > APUS_NS_PER_MS ? lease_ns / 3 : APUS_NS_PER_MS;

	if (*period_ns == 0 || third < *period_ns)
		*period_ns = third;
}

void apus_ctl_domain_alive_changed(struct apus_participant *p)
{
	struct apus_ctl_alive *a = &p->alive;

	a->automatic_ns = a->manual_ns = 0;
	for (const struct apus_writer *w = p->writers; w; w = w->next) {
		const struct apus_dp_writer_config *c = &w->dp->config;

		if (!apus_dp_is_finite(c->lease_ns))
			continue;
		if (c->liveliness == APUS_AUTOMATIC)
			shorter(&a->automatic_ns, c->lease_ns);
		else if (c->liveliness == APUS_MANUAL_BY_PARTICIPANT)
			shorter(&a->manual_ns, c->lease_ns);
	}
	a->automatic_due.ns = a->manual_due.ns = 0; /* at once: readers are waiting for it */
}

/* Tells the readers of this process, and others, that a manual writer was active on some worker. */
static void pass_manual(struct apus_participant *p, struct apus_mono now)
{
	struct apus_dp_pulse pulse = {
		.prefix = p->prefix, .liveliness = APUS_MANUAL_BY_PARTICIPANT, .at = now};
	uint64_t active = 0; /* workers, as bits */

	for (uint32_t i = 0; i < p->worker_count; i++) {
		/* Relaxed: a number; nothing is published with it. */
		uint64_t count =
			atomic_load_explicit(&p->workers[i]->manual_count, memory_order_relaxed);

		if (count != p->alive.manual_seen[i])
			active |= UINT64_C(1) << i;
		p->alive.manual_seen[i] = count;
	}
	if (!active)
		return;
	for (uint32_t i = 0; i < p->worker_count; i++) {
		/* A worker with activity of its own knows its writers' state better than we do. */
		pulse.readers_only = active >> i & 1;
		apus_dp_worker_post_pulse(p->workers[i], &pulse);
		/* What we have just caused is no activity. Relaxed as above. */
		p->alive.manual_seen[i] =
			atomic_load_explicit(&p->workers[i]->manual_count, memory_order_relaxed);
	}
	say(p, APUS_WIRE_LIVELINESS_MANUAL);
}

/* How often to assert automatic writers; 0: not at all. Participants that a Discovery Server told of announce
 * nothing to us: that they acknowledge this message is how we know that they live. */
static int64_t automatic_period(const struct apus_participant *p)
{
	int64_t probe_ns = apus_ctl_discovery_probe_ns(p->discovery);
	int64_t own_ns = p->alive.automatic_ns;

	return probe_ns && (own_ns == 0 || probe_ns < own_ns) ? probe_ns : own_ns;
}

struct apus_mono apus_ctl_domain_alive_turn(struct apus_participant *p, struct apus_mono now)
{
	struct apus_ctl_alive *a = &p->alive;
	struct apus_mono next = NEVER;
	int64_t period_ns = automatic_period(p);

	if (period_ns) {
		struct apus_mono latest = apus_mono_add(now, period_ns);

		if (latest.ns < a->automatic_due.ns)
			a->automatic_due = latest;
		if (now.ns >= a->automatic_due.ns) {
			say(p, APUS_WIRE_LIVELINESS_AUTOMATIC);
			a->automatic_due = latest;
		}
		next = a->automatic_due;
	}
	if (a->manual_ns) {
		if (now.ns >= a->manual_due.ns) {
			pass_manual(p, now);
			a->manual_due = apus_mono_add(now, a->manual_ns);
		}
		if (a->manual_due.ns < next.ns)
			next = a->manual_due;
	}
	return next;
}

int apus_participant_assert_liveliness(struct apus_participant *participant)
{
	struct apus_participant *p = participant;
	struct apus_dp_pulse pulse = {.liveliness = APUS_MANUAL_BY_PARTICIPANT};
	int rc;

	if (!p)
		return APUS_EINVAL;
	if (!apus_dp_alive(p->fork_count))
		return APUS_ECLOSED;
	pulse.prefix = p->prefix;
	for (uint32_t i = 0; i < p->worker_count; i++) {
		apus_dp_worker_take_turn(p->workers[i]);
		pulse.at = apus_mono_now();
		apus_dp_worker_apply_pulse(p->workers[i], &pulse);
		apus_dp_worker_end_turn(p->workers[i]);
	}
	pthread_mutex_lock(&p->lock);
	apus_dp_worker_take_turn(p->control);
	rc = say(p, APUS_WIRE_LIVELINESS_MANUAL);
	apus_dp_worker_end_turn(p->control);
	pthread_mutex_unlock(&p->lock);
	return rc == APUS_ELIMIT ? APUS_EAGAIN : rc;
}
