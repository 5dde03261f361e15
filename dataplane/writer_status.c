/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A writer's statuses of time: offered deadlines an instance, and the lease of a manual writer.
 *
 * MANUAL_BY_PARTICIPANT writers are asserted together, whichever of them writes. Walking all of them at each
 * write would cost N; so the worker keeps one instant for all, and books each of them only when the time since
 * the last booking reaches the shortest lease. Between two bookings no silence can have been as long as any of the
 * leases, so the latest instant alone tells everything (writer_lease()).
 */
#include "dataplane/worker.h"
#include "dataplane/writer_internal.h"

#include <apus/status.h>

#include <stdlib.h>
#include <string.h>

static bool is_manual(const struct apus_dp_writer *w)
{
	return w->config.liveliness != APUS_AUTOMATIC && apus_dp_is_finite(w->config.lease_ns);
}

static bool is_grouped(const struct apus_dp_writer *w)
{
	return is_manual(w) && w->config.liveliness == APUS_MANUAL_BY_PARTICIPANT;
}

static struct apus_mono alarm_fn(struct apus_dp_alarm *alarm, struct apus_mono now);

int apus_dp_writer_create_status(struct apus_dp_writer *writer)
{
	writer->alarm.fn = alarm_fn;
	writer->has_status = is_manual(writer) || apus_dp_is_finite(writer->config.deadline_ns);
	writer->expires = apus_dp_is_finite(writer->config.lifespan_ns);
	if (!apus_dp_is_finite(writer->config.deadline_ns))
		return 0;
	writer->deadlines = calloc(writer->config.cache.max_instances, sizeof(*writer->deadlines));
	return writer->deadlines ? 0 : APUS_ENOMEM;
}

void apus_dp_writer_enlist(struct apus_dp_writer *writer, struct apus_mono now)
{
	struct apus_dp_worker *worker = writer->worker;
	int64_t lease_ns = writer->config.lease_ns;

	apus_dp_lease_init(&writer->lease, is_manual(writer) ? lease_ns : 0, now);
	if (!is_grouped(writer))
		return;
	if (worker->manual_lease_ns == 0) {
		worker->manual_base = worker->manual_last = now;
		worker->manual_lease_ns = lease_ns;
	} else if (lease_ns < worker->manual_lease_ns) {
		worker->manual_lease_ns = lease_ns;
	}
}

/* --- liveliness ----------------------------------------------------------------------------------- */

/* Brings one writer's lease up to what its worker knows. */
static struct apus_dp_lease *writer_lease(struct apus_dp_writer *w)
{
	struct apus_mono last = w->worker->manual_last;

	if (is_grouped(w) && w->lease.alive && last.ns > w->lease.since.ns)
		w->lease.since = last; /* no silence before it was long enough to matter */
	return &w->lease;
}

static void tell_lapse(struct apus_dp_writer *w)
{
	apus_dp_watched_tell(&w->watched, APUS_STATUS_LIVELINESS_LOST);
}

void apus_dp_writer_expire(struct apus_dp_writer *writer, struct apus_mono now)
{
	if (apus_dp_lease_expire(writer_lease(writer), now))
		tell_lapse(writer);
}

static void assert_lease(struct apus_dp_writer *w, struct apus_mono now)
{
	if (now.ns < w->lease.since.ns)
		return;
	apus_dp_writer_expire(w, now);
	apus_dp_lease_assert(&w->lease, now);
	apus_dp_alarm_hint(&w->worker->alarms, &w->alarm, apus_dp_lease_due(&w->lease));
}

void apus_dp_worker_manual(struct apus_dp_worker *worker, struct apus_mono now)
{
	if (worker->manual_lease_ns == 0)
		return;
	/* Relaxed: a number that control compares with an earlier one of itself. */
	atomic_fetch_add_explicit(&worker->manual_count, 1, memory_order_relaxed);
	if (now.ns <= worker->manual_last.ns)
		return;
	if (now.ns - worker->manual_base.ns >= worker->manual_lease_ns) {
		for (uint32_t i = 0; i < worker->writer_count; i++)
			if (is_grouped(worker->writers[i]))
				assert_lease(worker->writers[i], now);
		worker->manual_base = now;
	}
	worker->manual_last = now;
}

void apus_dp_writer_assert(struct apus_dp_writer *writer, struct apus_mono now)
{
	if (is_grouped(writer)) {
		apus_dp_worker_manual(writer->worker, now);
		return;
	}
	assert_lease(writer, now);
	apus_dp_writer_say_alive(writer, now);
}

/* --- deadlines ------------------------------------------------------------------------------------ */

void apus_dp_writer_set_timing(struct apus_dp_writer *writer, int64_t deadline_ns,
			       int64_t lifespan_ns, struct apus_dp_deadline **spare,
			       struct apus_mono now)
{
	int64_t before = writer->config.deadline_ns;

	if (lifespan_ns != writer->config.lifespan_ns) {
		writer->config.lifespan_ns = lifespan_ns;
		writer->expires |= apus_dp_is_finite(lifespan_ns);
		writer->mixed_until = writer->last;
	}
	if (deadline_ns == before)
		return;
	for (uint32_t i = 0; writer->deadlines && i < writer->config.cache.max_instances; i++) {
		struct apus_dp_deadline *d = &writer->deadlines[i];
		bool runs = d->since.ns != 0 && apus_dp_is_finite(before);

		apus_dp_deadline_stop(d, before, now);
		if (runs && apus_dp_is_finite(deadline_ns))
			d->since = now;
	}
	if (!writer->deadlines) {
		writer->deadlines = *spare;
		*spare = NULL;
	}
	writer->config.deadline_ns = deadline_ns;
	writer->has_status = is_manual(writer) || writer->deadlines;
	apus_dp_writer_want_alarm(writer, now);
}

void apus_dp_writer_new_instance(struct apus_dp_writer *writer, uint32_t instance_idx)
{
	if (!writer->deadlines)
		return;
	/* Unregistered and stopped before it was forgotten: only what is banked counts. */
	writer->deadline_gone += writer->deadlines[instance_idx].folded;
	memset(&writer->deadlines[instance_idx], 0, sizeof(writer->deadlines[instance_idx]));
}

uint64_t apus_dp_writer_deadlines(const struct apus_dp_writer *writer, struct apus_mono now,
				  uint32_t *last_out)
{
	int64_t period = writer->config.deadline_ns, latest = 0;
	uint64_t missed = writer->deadline_gone;

	*last_out = APUS_DP_NO_KEY;
	for (uint32_t i = 0; writer->deadlines && i < writer->config.cache.max_instances; i++) {
		const struct apus_dp_deadline *d = &writer->deadlines[i];
		int64_t since = d->since.ns;

		missed += apus_dp_deadline_missed(d, period, now);
		if (since == 0 || now.ns - since < period)
			continue;
		since += (now.ns - since) / period * period;
		if (since <= latest)
			continue;
		latest = since;
		*last_out = i;
	}
	return missed;
}

void apus_dp_writer_wrote(struct apus_dp_writer *writer, uint32_t instance_idx, uint8_t kind,
			  struct apus_mono now)
{
	int64_t period = writer->config.deadline_ns;

	if (is_grouped(writer))
		apus_dp_worker_manual(writer->worker, now);
	else if (is_manual(writer))
		assert_lease(writer, now);
	if (!writer->deadlines)
		return;
	if (kind != APUS_ALIVE) {
		apus_dp_deadline_stop(&writer->deadlines[instance_idx], period, now);
		return;
	}
	apus_dp_deadline_activity(&writer->deadlines[instance_idx], period, now);
	apus_dp_alarm_hint(&writer->worker->alarms, &writer->alarm, apus_mono_add(now, period));
}

/* --- lifespan ------------------------------------------------------------------------------------- */

struct apus_mono apus_dp_writer_expiry(const struct apus_dp_writer *writer, struct apus_wall source,
				       struct apus_mono now)
{
	int64_t age = 0, wall;

	if (!apus_dp_is_finite(writer->config.lifespan_ns))
		return (struct apus_mono){INT64_MAX};
	/* The age at the writing is taken once against the wall clock; from here on time is monotonic. */
	wall = apus_wall_now().ns;
	if (source.ns != APUS_WALL_NONE.ns && source.ns < wall &&
	    __builtin_sub_overflow(wall, source.ns, &age))
		age = INT64_MAX;
	if (age >= writer->config.lifespan_ns)
		return now;
	return apus_mono_add(now, writer->config.lifespan_ns - age);
}

uint32_t apus_dp_writer_purge(struct apus_dp_writer *writer, struct apus_mono now)
{
	struct apus_dp_cache *c = &writer->cache;
	uint32_t count = 0, slot = c->head;

	if (!writer->expires)
		return 0;
	while (slot != APUS_SHM_NO_SLOT && c->entries[slot].seq <= writer->sent) {
		uint32_t next = c->entries[slot].next;

		if (c->entries[slot].expires_at.ns <= now.ns) {
			apus_dp_cache_remove(c, slot);
			count++;
		} else if (c->entries[slot].seq > writer->mixed_until) {
			break; /* those behind it expire later */
		}
		slot = next;
	}
	apus_counter_add(&writer->counters.expired, count);
	return count;
}

/* --- looking unasked ------------------------------------------------------------------------------ */

static struct apus_mono next_due(struct apus_dp_writer *w, struct apus_mono now)
{
	struct apus_mono due = {INT64_MAX};

	if (w->watched.mask & APUS_STATUS_LIVELINESS_LOST)
		due = apus_dp_lease_due(writer_lease(w));
	if (!(w->watched.mask & APUS_STATUS_OFFERED_DEADLINE_MISSED))
		return due;
	for (uint32_t i = 0; w->deadlines && i < w->config.cache.max_instances; i++) {
		struct apus_mono d =
			apus_dp_deadline_due(&w->deadlines[i], w->config.deadline_ns, now);

		if (d.ns < due.ns)
			due = d;
	}
	return due;
}

static struct apus_mono alarm_fn(struct apus_dp_alarm *alarm, struct apus_mono now)
{
	struct apus_dp_writer *w =
		(struct apus_dp_writer *)((char *)alarm - offsetof(struct apus_dp_writer, alarm));

	apus_dp_writer_expire(w, now);
	/* Whether a deadline was missed is the watcher's to find out: it has the cursor. */
	if (w->deadlines)
		apus_dp_watched_tell(&w->watched, APUS_STATUS_OFFERED_DEADLINE_MISSED);
	return next_due(w, now);
}

void apus_dp_writer_want_alarm(struct apus_dp_writer *writer, struct apus_mono now)
{
	writer->alarm.wanted = writer->has_status &&
			       (writer->watched.mask & (APUS_STATUS_LIVELINESS_LOST |
							APUS_STATUS_OFFERED_DEADLINE_MISSED));
	if (writer->alarm.wanted)
		apus_dp_alarm_set(&writer->worker->alarms, &writer->alarm, next_due(writer, now));
	else
		apus_dp_alarm_cancel(&writer->worker->alarms, &writer->alarm);
}
