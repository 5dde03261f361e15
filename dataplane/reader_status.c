/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reader's statuses of time, and telling those who watch: what is derived when asked, and the alarm for those
 * who do not want to ask.
 */
#include "dataplane/reader_internal.h"

#include <apus/status.h>

#define NEVER ((struct apus_mono){INT64_MAX})
/** Kinds of status that time alone may change. Lapses may leave instances without writers: data. */
#define TIMED                                                                     \
	(APUS_STATUS_REQUESTED_DEADLINE_MISSED | APUS_STATUS_LIVELINESS_CHANGED | \
	 APUS_STATUS_DATA_AVAILABLE)

static int64_t period_of(const struct apus_dp_reader *r)
{
	return r->inbox.history.options.deadline_ns;
}

/* --- derived when asked --------------------------------------------------------------------------- */

void apus_dp_reader_note_flips(struct apus_dp_reader *r)
{
	if (r->lapsed_told != r->inbox.lapsed) {
		r->lapsed_told = r->inbox.lapsed;
		apus_dp_reader_raise(r);
	}
	if (r->flips_told == r->inbox.peers.flips)
		return;
	r->flips_told = r->inbox.peers.flips;
	apus_dp_watched_tell(&r->watched, APUS_STATUS_LIVELINESS_CHANGED);
}

void apus_dp_reader_expire(struct apus_dp_reader *reader, struct apus_mono now)
{
	if (now.ns < reader->inbox.peers.due_ns && now.ns < reader->inbox.late.due_ns)
		return;
	apus_dp_inbox_catch_up(&reader->inbox, now);
	apus_dp_reader_note_flips(reader);
}

void apus_dp_reader_pulse(struct apus_dp_reader *reader, const struct apus_prefix *prefix,
			  uint8_t liveliness, struct apus_mono at)
{
	for (uint32_t i = 0; i < reader->match_count; i++) {
		const struct apus_dp_reader_state *s = &reader->states[reader->order[i]];

		if (s->liveliness != liveliness || !apus_prefix_equal(&s->prefix, prefix))
			continue;
		apus_dp_inbox_assert(&reader->inbox, s->slot, at);
		apus_dp_alarm_hint(&reader->worker->alarms, &reader->alarm,
				   apus_dp_lease_due(&reader->inbox.peers.peers[s->slot].lease));
	}
	apus_dp_reader_note_flips(reader);
}

uint64_t apus_dp_reader_deadlines(const struct apus_dp_reader *reader, struct apus_mono now,
				  apus_instance *last_out)
{
	const struct apus_dp_instances *t = &reader->inbox.history.instances;
	int64_t period = period_of(reader), latest = 0;

	*last_out = APUS_INSTANCE_NONE;
	if (!apus_dp_is_finite(period))
		return reader->inbox.history.deadline_changed
			       ? apus_dp_history_deadlines_missed(&reader->inbox.history, now)
			       : reader->inbox.history.counters.deadline_gone;
	for (const struct apus_dp_instance *i = apus_dp_instances_next(t, APUS_DP_NONE); i;
	     i = apus_dp_instances_next(t, apus_dp_instances_idx(t, i))) {
		int64_t since = i->deadline.since.ns;

		if (since == 0 || now.ns - since < period)
			continue;
		since += (now.ns - since) / period * period;
		if (since > latest && t->options.key_bytes_max)
			*last_out = i->handle;
		if (since > latest)
			latest = since;
	}
	return apus_dp_history_deadlines_missed(&reader->inbox.history, now);
}

/* --- telling -------------------------------------------------------------------------------------- */

void apus_dp_reader_note_lost(struct apus_dp_reader_state *s)
{
	struct apus_dp_reader *r = s->reader;

	if (APUS_LIKELY(s->lost_seen == s->window.lost))
		return;
	r->window_lost += s->window.lost - s->lost_seen;
	s->lost_seen = s->window.lost;
	apus_dp_watched_tell(&r->watched, APUS_STATUS_SAMPLE_LOST);
}

void apus_dp_reader_lose(struct apus_dp_reader_state *s)
{
	s->window.lost++;
	apus_dp_reader_note_lost(s);
}

/* What runs out earlier than the alarm knows, now that a sample was stored. */
static void hint(struct apus_dp_reader *r, struct apus_mono now)
{
	if (apus_dp_is_finite(period_of(r)))
		apus_dp_alarm_hint(&r->worker->alarms, &r->alarm, apus_mono_add(now, period_of(r)));
	if (r->inbox.peers.leased)
		apus_dp_alarm_hint(&r->worker->alarms, &r->alarm, apus_mono_add(now, r->lease_min));
	if (r->inbox.late.waiting_count)
		apus_dp_alarm_hint(&r->worker->alarms, &r->alarm,
				   (struct apus_mono){r->inbox.late.due_ns});
}

void apus_dp_reader_note(struct apus_dp_reader *r, const struct apus_dp_admission *admission,
			 struct apus_mono now)
{
	if (admission->result == APUS_DP_REFUSED) {
		r->last_refusal = (int)admission->refusal;
		r->last_refused = admission->instance;
		apus_dp_watched_tell(&r->watched,
				     APUS_STATUS_SAMPLE_REJECTED | APUS_STATUS_SAMPLE_LOST);
	} else if (admission->result == APUS_DP_DISPLACED) {
		apus_dp_watched_tell(&r->watched, APUS_STATUS_SAMPLE_LOST);
	}
	if (APUS_UNLIKELY(r->alarm.wanted))
		hint(r, now);
	apus_dp_reader_note_flips(r);
}

void apus_dp_reader_set_timing(struct apus_dp_reader *reader,
			       const struct apus_dp_reader_timing *timing, struct apus_mono now)
{
	struct apus_dp_inbox *inbox = &reader->inbox;
	const struct apus_dp_history_options *o = &inbox->history.options;

	apus_dp_reader_expire(reader,
			      now); /* lapses take effect at their instants, under the old rules */
	inbox->options.separation_ns = timing->separation_ns;
	inbox->options.lifespan_ns = timing->lifespan_ns;
	if (o->purge_no_writers_ns != timing->purge_no_writers_ns ||
	    o->purge_disposed_ns != timing->purge_disposed_ns)
		apus_dp_history_set_purge(&inbox->history, timing->purge_no_writers_ns,
					  timing->purge_disposed_ns, now);
	if (o->deadline_ns != timing->deadline_ns)
		apus_dp_history_set_deadline(&inbox->history, timing->deadline_ns, now);
	inbox->options.history.deadline_ns = timing->deadline_ns; /* admission has a copy */
	apus_dp_reader_want_alarm(reader, now);
}

/* --- looking unasked ------------------------------------------------------------------------------ */

static struct apus_mono earlier(struct apus_mono a, struct apus_mono b)
{
	return apus_mono_before(a, b) ? a : b;
}

/* When the next lease lapses or deadline is missed, if nothing happens. Also finds the shortest lease. */
static struct apus_mono next_due(struct apus_dp_reader *r, struct apus_mono now)
{
	const struct apus_dp_instances *t = &r->inbox.history.instances;
	const struct apus_dp_peers *p = &r->inbox.peers;
	struct apus_mono due = {r->inbox.late.due_ns};

	r->lease_min = APUS_INFINITE_NS;
	for (uint32_t i = 0; p->leased && i < p->capacity; i++) {
		const struct apus_dp_lease *l = &p->peers[i].lease;

		if (!p->peers[i].used || !apus_dp_is_finite(l->lease_ns))
			continue;
		if (l->lease_ns < r->lease_min)
			r->lease_min = l->lease_ns;
		due = earlier(due, apus_dp_lease_due(l));
	}
	if (!(r->watched.mask & APUS_STATUS_REQUESTED_DEADLINE_MISSED))
		return due;
	for (const struct apus_dp_instance *i = apus_dp_instances_next(t, APUS_DP_NONE); i;
	     i = apus_dp_instances_next(t, apus_dp_instances_idx(t, i)))
		due = earlier(due, apus_dp_deadline_due(&i->deadline, period_of(r), now));
	return due;
}

struct apus_mono apus_dp_reader_alarm(struct apus_dp_alarm *alarm, struct apus_mono now)
{
	struct apus_dp_reader *r =
		(struct apus_dp_reader *)((char *)alarm - offsetof(struct apus_dp_reader, alarm));

	apus_dp_reader_expire(r, now);
	/* Whether a deadline was missed is the watcher's to find out: it has the cursor. */
	if (apus_dp_is_finite(period_of(r)))
		apus_dp_watched_tell(&r->watched, APUS_STATUS_REQUESTED_DEADLINE_MISSED);
	return next_due(r, now);
}

void apus_dp_reader_want_alarm(struct apus_dp_reader *reader, struct apus_mono now)
{
	bool timed = apus_dp_is_finite(period_of(reader)) || reader->inbox.peers.leased ||
		     reader->config.inbox.late;

	reader->alarm.wanted = timed && (reader->event_wanted || (reader->watched.mask & TIMED));
	if (reader->alarm.wanted)
		apus_dp_alarm_set(&reader->worker->alarms, &reader->alarm, next_due(reader, now));
	else
		apus_dp_alarm_cancel(&reader->worker->alarms, &reader->alarm);
}
