/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a reader takes over a newly published snapshot: the states of matched writers are merged with it
 * (both are sorted by GUID), and a new filter generation takes effect after the queued samples have been
 * tested against it. A sample is never tested against a filter that is partly installed: expression,
 * parameters and program are one immutable object.
 */
#include "dataplane/group.h"
#include "dataplane/reader_internal.h"
#include "dataplane/cache.h"
#include "dataplane/worker.h"
#include "dataplane/writer.h"

#include <string.h>

/* --- matches ------------------------------------------------------------------------------------- */

static struct apus_dp_reader_state **bucket(struct apus_dp_worker *worker,
					    const struct apus_guid *guid)
{
	return &worker->by_writer[apus_guid_hash(guid) & worker->by_writer_mask];
}

static void chain(struct apus_dp_reader_state *s)
{
	struct apus_dp_reader_state **head = bucket(s->reader->worker, &s->guid);

	s->chain_next = *head;
	*head = s;
}

static void unchain(struct apus_dp_reader_state *s)
{
	struct apus_dp_reader_state **link = bucket(s->reader->worker, &s->guid);

	while (*link != s)
		link = &(*link)->chain_next;
	*link = s->chain_next;
}

static void unqueue_ack(struct apus_dp_reader_state *s)
{
	struct apus_dp_reader_state **link = &s->reader->worker->ack_list;

	if (!s->ack_queued)
		return;
	while (*link != s)
		link = &(*link)->ack_next;
	*link = s->ack_next;
	s->ack_queued = false;
}

/* Into the worker's list of matches through shared memory, or out of it (NULL). */
static void join_ring(struct apus_dp_reader_state *s, struct apus_dp_shm_in *shm)
{
	struct apus_dp_reader_state **link = &s->reader->worker->shm_first;

	if (s->shm) {
		apus_dp_lent_end(s->reader, s->shm);
		while (*link != s)
			link = &(*link)->shm_next;
		*link = s->shm_next;
		s->reader->shm_count--;
	}
	s->shm = shm;
	if (!shm)
		return;
	s->reader->shm_count++;
	s->shm_next = s->reader->worker->shm_first;
	s->reader->worker->shm_first = s;
	/* This may be another thread's turn, and the worker's asleep: it must raise this bell, too. */
	apus_dp_worker_wake(s->reader->worker);
}

static void end_state(struct apus_dp_reader *r, uint32_t idx, struct apus_mono now)
{
	struct apus_dp_reader_state *s = &r->states[idx];

	/* A writer that has left, or was killed, had published what is in the ring. */
	if (s->shm)
		apus_dp_shm_drain_all(s, now);
	apus_dp_reader_drop_held(s);
	apus_dp_group_unmatch(s, now);
	s->match_id = 0;
	apus_dp_reader_sweep_fragments(s);
	unqueue_ack(s);
	join_ring(s, NULL);
	apus_dp_wheel_cancel(&r->worker->wheel, &s->timer);
	unchain(s);
	s->match_id = 0;
	apus_dp_reader_note_lost(s);
	if (!r->config.sink && apus_dp_inbox_unmatch(&r->inbox, s->slot, now) > 0)
		apus_dp_reader_raise(r);
}

static struct apus_dp_reader_state *begin_state(struct apus_dp_reader *r,
						const struct apus_dp_writer_match *m)
{
	struct apus_dp_reader_state *s = NULL;

	for (uint32_t i = 0; i < r->config.match_max && !s; i++)
		if (r->states[i].match_id == 0)
			s = &r->states[i];
	if (!s) {
		apus_counter_add(&r->counters.matches_refused, 1);
		return NULL;
	}
	memset(s, 0, sizeof(*s));
	s->match_id = m->match_id;
	s->guid = m->guid;
	s->prefix = apus_guid_prefix(&m->guid);
	s->eid = apus_guid_eid(&m->guid);
	s->reader = r;
	s->slot = (uint32_t)(s - r->states);
	s->reliable = m->reliable && r->config.reliable;
	s->timer.fn = apus_dp_reader_timer;
	s->mark = true;
	apus_dp_window_init(&s->window, &r->window_bits[s->slot], s->reliable,
			    m->past_unwanted ? APUS_DP_FROM_MATCH : APUS_DP_FROM_FIRST);
	chain(s);
	return s;
}

static void refresh_state(struct apus_dp_reader_state *s, const struct apus_dp_writer_match *m,
			  struct apus_mono now)
{
	struct apus_dp_reader *r = s->reader;

	s->addr = m->unicast;
	if (m->shm != s->shm)
		join_ring(s, m->shm);
	s->publisher = m->publisher;
	s->local = m->local && apus_dp_worker_writer(r->worker, s->eid) != NULL;
	s->liveliness = m->liveliness;
	s->filter_trusted = m->filter_trusted;
	if (!r->config.sink)
		/* An AUTOMATIC writer of this process lives as long as we do. */
		apus_dp_inbox_match(&r->inbox, s->slot, &s->guid, m->strength,
				    m->local && m->liveliness == APUS_AUTOMATIC ? APUS_INFINITE_NS
										: m->lease_ns,
				    m->lifespan_ns, now);
}

static uint32_t merge(struct apus_dp_reader *r, const struct apus_dp_reader_snapshot *snap,
		      struct apus_mono now)
{
	uint32_t old = 0, n = 0;

	for (uint32_t k = 0; k < snap->match_count; k++) {
		const struct apus_dp_writer_match *m = &snap->match[k];
		struct apus_dp_reader_state *s;

		while (old < r->match_count &&
		       apus_guid_compare(&r->states[r->order[old]].guid, &m->guid) < 0)
			end_state(r, r->order[old++], now);
		if (old < r->match_count && r->states[r->order[old]].match_id == m->match_id) {
			s = &r->states[r->order[old++]];
		} else {
			/* The same writer in a new match begins afresh. */
			if (old < r->match_count &&
			    apus_guid_equal(&r->states[r->order[old]].guid, &m->guid))
				end_state(r, r->order[old++], now);
			s = begin_state(r, m);
			if (!s)
				continue;
		}
		refresh_state(s, m, now);
		r->order_new[n++] = (uint32_t)(s - r->states);
	}
	while (old < r->match_count)
		end_state(r, r->order[old++], now);
	return n;
}

/* A reliable writer on another host or worker hears from us at once: it may be waiting for that. */
static void greet(struct apus_dp_reader *r, struct apus_mono now)
{
	for (uint32_t i = 0; i < r->match_count; i++) {
		struct apus_dp_reader_state *s = &r->states[r->order[i]];

		if (s->mark && s->reliable && !s->local && !s->shm)
			apus_dp_reader_greet(s, now);
		s->mark = false;
	}
}

/* Writers of this worker may choose by another filter than ours is now. */
static void tell_writers(struct apus_dp_reader *r)
{
	for (uint32_t i = 0; i < r->match_count; i++) {
		struct apus_dp_reader_state *s = &r->states[r->order[i]];
		struct apus_dp_writer *w =
			s->local ? apus_dp_worker_writer(r->worker, s->eid) : NULL;

		if (w)
			apus_dp_writer_refilter(w, r);
	}
}

/* --- filter -------------------------------------------------------------------------------------- */

static enum apus_dp_verdict apply(const void *context, const uint8_t *payload, size_t payload_bytes)
{
	return apus_dp_predicate_eval(context, payload, payload_bytes);
}

struct keep_context {
	const struct apus_dp_reader *reader;
	const struct apus_dp_predicate *filter;
};

static bool keep(void *context, const struct apus_dp_sample *entry)
{
	const struct keep_context *c = context;
	const uint8_t *payload;
	uint32_t bytes;

	if (entry->record.slot_ref == APUS_SHM_NO_SLOT)
		return true;
	payload = apus_dp_reader_payload(c->reader, entry->record.slot_ref, &bytes);
	return apus_dp_predicate_eval(c->filter, payload, bytes) == APUS_DP_PASS;
}

/* Returns whether the filter has changed. */
static bool adopt_filter(struct apus_dp_reader *r, const struct apus_dp_reader_snapshot *snap)
{
	struct keep_context c = {r, snap->filter};

	if (r->config.sink || snap->filter_generation == r->inbox.filter_generation)
		return false;
	memcpy(r->filter_signature, snap->filter_signature, sizeof(r->filter_signature));
	apus_dp_inbox_set_filter(&r->inbox, snap->filter ? apply : NULL, snap->filter,
				 snap->filter_generation, snap->filter ? keep : NULL, &c);
	return true;
}

void apus_dp_reader_adopt(struct apus_dp_reader *reader, struct apus_mono now)
{
	/* T3: seq_cst, pairs with S1 in apus_dp_reader_publish(). */
	const struct apus_dp_reader_snapshot *snap = atomic_load(&reader->port.snapshot);
	uint32_t *swap = reader->order;
	bool filter_changed;

	if (!snap || snap->generation == reader->adopted_generation)
		return;
	apus_dp_reader_count_skipped(reader); /* by the filter of then */
	filter_changed = adopt_filter(reader, snap);
	reader->match_count = merge(reader, snap, now);
	reader->order = reader->order_new;
	reader->order_new = swap;
	reader->adopted_generation = snap->generation;
	tell_writers(reader);
	apus_counter_add(&reader->worker->counters.adoptions, 1);
	/* Relaxed: a number for other threads to look at; nothing is published with it. */
	atomic_store_explicit(&reader->matched, reader->match_count, memory_order_relaxed);
	if (!reader->config.sink) {
		apus_dp_reader_want_alarm(reader, now);
		apus_dp_reader_note_flips(reader);
	}
	greet(reader, now);
	/* What it has pruned has made room, and nobody may take anything for long. A writer that is asked visits other
	 * readers, too, so they must have adopted what is theirs: their old filters may be gone already. */
	if (filter_changed) {
		reader->ask_next = reader->worker->ask_first;
		reader->worker->ask_first = reader;
	}
}

void apus_dp_reader_detach(struct apus_dp_reader *reader, struct apus_mono now)
{
	for (uint32_t i = 0; i < reader->match_count; i++)
		end_state(reader, reader->order[i], now);
	reader->match_count = 0;
	apus_dp_alarm_cancel(&reader->worker->alarms, &reader->alarm);
}
