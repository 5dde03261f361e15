/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer's side of the protocol; see writer.h. In this file: life, writing and holding, readers of the
 * same worker, what is acknowledged, heartbeats. Its other files: writer_send.c, writer_repair.c, writer_frag.c
 * (large samples), writer_adopt.c (snapshots), writer_demote.c (silent readers), writer_status.c.
 */
#include "dataplane/reader.h"
#include "dataplane/writer_internal.h"

#include <apus/participant.h>

#include <stdlib.h>
#include <string.h>

#define NONE APUS_SHM_NO_SLOT

/* First heartbeat after a write that nobody has acknowledged yet; doubles up to the configured period. */
#define HB_FIRST_NS (4 * APUS_NS_PER_MS)

static void hb_timer_fn(struct apus_dp_timer *timer, struct apus_mono now);
static void batch_timer_fn(struct apus_dp_timer *timer, struct apus_mono now);

/* What matches need: touched when there are any. States and destinations begin at cache lines and are whole ones. With
 * `base` NULL only the bytes are counted, which are returned. */
static size_t lay_out_matches(struct apus_dp_writer *w, void *base)
{
	struct apus_dp_writer_filtering *f = &w->filtering;
	uint32_t n = w->config.match_max;
	size_t at = 0;

	w->states = apus_shm_reserve_part(base, &at, n, sizeof(*w->states));
	w->destinations = apus_shm_reserve_part(base, &at, n, sizeof(*w->destinations));
	w->order = apus_shm_reserve_part(base, &at, n, sizeof(*w->order));
	w->order_new = apus_shm_reserve_part(base, &at, n, sizeof(*w->order_new));
	w->owing = apus_shm_reserve_part(base, &at, n, sizeof(*w->owing));
	w->by_addr =
		apus_shm_reserve_part(base, &at, (size_t)w->by_addr_mask + 1, sizeof(*w->by_addr));
	f->first = apus_shm_reserve_part(base, &at, (size_t)n + 1, sizeof(*f->first));
	f->by_destination = apus_shm_reserve_part(base, &at, n, sizeof(*f->by_destination));
	f->visits = apus_shm_reserve_part(base, &at, n, sizeof(*f->visits));
	f->local_visits = apus_shm_reserve_part(base, &at, n, sizeof(*f->local_visits));
	return at;
}
_Static_assert(sizeof(struct apus_dp_writer_state) % APUS_CACHE_LINE == 0, "an array of lines");

int apus_dp_writer_create(struct apus_dp_worker *worker, const struct apus_dp_writer_config *config,
			  struct apus_dp_writer **writer_out)
{
	struct apus_dp_writer *w;
	int rc = APUS_ENOMEM;

	if (config->match_max == 0)
		return APUS_EINVAL;
	w = calloc(1, sizeof(*w));
	if (!w)
		return APUS_ENOMEM;
	w->worker = worker;
	w->config = *config;
	w->eid = apus_guid_eid(&config->guid);
	w->hb_timer.fn = hb_timer_fn;
	w->gap_timer.fn = apus_dp_writer_gap_fn;
	w->pace_timer.fn = apus_dp_writer_pace_fn;
	w->batch_timer.fn = batch_timer_fn;
	w->answer_timer.fn = apus_dp_writer_answer_fn;
	w->shm_timer.fn = apus_dp_writer_shm_fn;
	w->first = 1;
	if (config->proof_secret)
		w->first = APUS_DP_PROOF_FIRST + (apus_seq)(config->proof_secret >> 46);
	w->last = w->sent = w->min_acked = w->first - 1;
	for (w->by_addr_mask = 7; w->by_addr_mask < 2 * config->match_max;)
		w->by_addr_mask = 2 * w->by_addr_mask + 1;
	/* Of many matches most never are. */
	rc = apus_shm_reserve(lay_out_matches(w, NULL), APUS_SHM_LAZY, &w->match_memory);
	if (rc != 0)
		goto fail;
	lay_out_matches(w, w->match_memory.base);
	rc = APUS_ENOMEM;
	if (config->publisher) {
		w->markers = calloc(APUS_DP_MARKER_MAX, sizeof(*w->markers));
		if (!w->markers)
			goto fail;
	}
	rc = apus_dp_cache_init(&w->cache, &config->cache,
				worker->config.segment_flags |
					(config->cache.lent_slots ? APUS_SHM_OWN : 0));
	if (rc == 0)
		rc = apus_dp_writer_filter_init(w);
	if (rc == 0)
		rc = apus_dp_writer_create_status(w);
	if (rc != 0)
		goto fail;
	*writer_out = w;
	return 0;
fail:
	apus_dp_writer_destroy(w);
	return rc;
}

void apus_dp_writer_destroy(struct apus_dp_writer *writer)
{
	if (!writer)
		return;
	apus_dp_cache_fini(&writer->cache);
	apus_shm_unreserve(&writer->match_memory);
	free(writer->markers);
	free(writer->deadlines);
	apus_dp_writer_filter_fini(writer);
	free(writer);
}

/* In the common case the cursor is right behind the last. */
uint32_t apus_dp_writer_slot_behind(const struct apus_dp_writer *w, apus_seq cursor)
{
	uint32_t slot = cursor + 1 <= w->sent ? apus_dp_cache_find(&w->cache, cursor + 1) : NONE;

	if (slot == NONE && cursor < w->sent)
		for (slot = w->cache.head; slot != NONE; slot = w->cache.entries[slot].next)
			if (w->cache.entries[slot].seq > cursor)
				break;
	return slot;
}

/* --- acknowledgement ----------------------------------------------------------------------------- */

/* The heartbeat timer stays as it is: in a stream it would be armed again at once, and it ends by itself when
 * nobody lags. */
void apus_dp_writer_settle(struct apus_dp_writer *writer)
{
	apus_seq low = writer->sent;

	if (writer->owing_count && writer->states[writer->owing[0]].acked < low)
		low = writer->states[writer->owing[0]].acked;
	if (writer->paces && apus_dp_writer_pace_low(writer) <= low)
		low = apus_dp_writer_pace_low(writer) - 1;
	if (!writer->config.transient_local)
		apus_dp_cache_remove_to(&writer->cache, low);
	writer->min_acked = low;
}

/* --- writing ----------------------------------------------------------------------------------- */

/* The first sample that is held; the ends of sets among the numbers have no slot. */
static uint32_t first_held(const struct apus_dp_writer *w)
{
	for (apus_seq seq = w->sent + 1; seq <= w->last; seq++) {
		uint32_t slot = apus_dp_cache_find(&w->cache, seq);

		if (slot != NONE)
			return slot;
	}
	return NONE;
}

/* Serves all destinations with what is held. leave: the datagrams leave at once, before the books are kept,
 * which is off the samples' path and may free slots that datagrams refer to. */
static void serve(struct apus_dp_writer *w, struct apus_mono now, bool leave)
{
	uint32_t first = w->cache.tail;
	apus_seq from = w->sent + 1;

	if (w->sent == w->last)
		return;
	if (w->refilter)
		apus_dp_writer_derive(w);
	if (from != w->last) {
		first = first_held(w);
		apus_counter_add(&w->counters.batches, 1);
	} else if (first != NONE && w->cache.entries[first].seq < from) {
		first = NONE; /* only the end of a set */
	}
	leave |= w->held_largest > APUS_DP_OUT_COPY_BYTES;
	w->sent = w->last;
	w->held_bytes = w->held_largest = 0;
	apus_dp_writer_judge_all(w, from, first);
	/* Nothing is settled in between: only sending makes the others owe an acknowledgement. */
	if (w->local_count)
		apus_dp_writer_serve_local(w, from, now);
	if (w->shm_count)
		apus_dp_writer_serve_shm(w, now);
	if (w->destination_count)
		apus_dp_writer_send(w, from, first, now);
	if (leave)
		apus_dp_out_flush(&w->worker->out);
	apus_dp_writer_settle(w); /* best-effort and unmatched writers forget at once */
	if (w->min_acked < w->sent)
		apus_dp_writer_lagging(w, now);
}

void apus_dp_writer_serve(struct apus_dp_writer *w, struct apus_mono now)
{
	serve(w, now, false);
}

void apus_dp_writer_release(struct apus_dp_writer *writer, struct apus_mono now)
{
	if (!writer->suspended)
		serve(writer, now, false);
}

void apus_dp_writer_many_done(struct apus_dp_writer *writer, struct apus_mono now)
{
	if (writer->config.batch_bytes == 0)
		apus_dp_writer_release(writer, now);
}

void apus_dp_writer_suspend(struct apus_dp_writer *writer)
{
	writer->suspended++;
}

void apus_dp_writer_resume(struct apus_dp_writer *writer, struct apus_mono now)
{
	if (writer->suspended && --writer->suspended == 0)
		serve(writer, now, false);
}

/* The timer is not stopped when a batch leaves, so it may find a younger one. */
static void batch_timer_fn(struct apus_dp_timer *timer, struct apus_mono now)
{
	struct apus_dp_writer *w =
		(struct apus_dp_writer *)((char *)timer -
					  offsetof(struct apus_dp_writer, batch_timer));
	struct apus_mono due = apus_mono_add(w->held_since, w->config.batch_delay_ns);

	if (w->sent == w->last || w->suspended)
		return;
	if (apus_mono_before(now, due))
		apus_dp_wheel_arm(&w->worker->wheel, timer, due);
	else
		serve(w, now, false);
}

/* Keeps the newest sample back, or sends what is held with it. */
static void hold(struct apus_dp_writer *w, uint32_t payload_bytes, bool more, struct apus_mono now)
{
	bool first = w->sent + 1 == w->last, batch = w->config.batch_bytes != 0;

	w->held_bytes += payload_bytes;
	if (payload_bytes > w->held_largest)
		w->held_largest = payload_bytes;
	if (w->suspended)
		return;
	if (batch ? w->held_bytes >= w->config.batch_bytes : !more) {
		serve(w, now, true);
		return;
	}
	if (!batch || !first)
		return;
	w->held_since = now;
	if (!apus_dp_timer_armed(&w->batch_timer))
		apus_dp_wheel_arm(&w->worker->wheel, &w->batch_timer,
				  apus_mono_add(now, w->config.batch_delay_ns));
}

bool apus_dp_writer_needs_time(const struct apus_dp_writer *writer, uint32_t payload_bytes)
{
	return writer->local_count || writer->filtered_count || writer->has_status ||
	       payload_bytes > writer->worker->config.fragment_bytes ||
	       (writer->config.batch_bytes && writer->sent == writer->last) ||
	       (writer->config.reliable && writer->match_count &&
		(writer->hb_period_ns != HB_FIRST_NS || !apus_dp_timer_armed(&writer->hb_timer)));
}

static int try_reserve(struct apus_dp_writer *w, const struct apus_dp_write *change,
		       uint32_t *idx_out)
{
	bool is_new;

	*idx_out = apus_dp_cache_instance(&w->cache, change->key, change->key_bytes, &is_new);
	if (is_new && *idx_out != APUS_DP_NO_KEY)
		apus_dp_writer_new_instance(w, *idx_out);
	if (*idx_out == APUS_DP_NO_KEY)
		return APUS_ELIMIT;
	if (is_new && change->key_hash)
		memcpy(w->cache.instances[*idx_out].key_hash, change->key_hash, 16);
	return apus_dp_cache_room(&w->cache, *idx_out) == APUS_DP_ROOM ? 0 : APUS_EAGAIN;
}

static int reserve(struct apus_dp_writer *w, const struct apus_dp_write *change, uint32_t *idx_out,
		   struct apus_mono now)
{
	int rc = try_reserve(w, change, idx_out);

	if (rc == APUS_EAGAIN && apus_dp_writer_purge(w, now) > 0)
		rc = try_reserve(w, change, idx_out);
	if (rc == APUS_EAGAIN && w->sent < w->last) {
		serve(w, now, true);
		rc = try_reserve(w, change, idx_out);
	}
	if (rc != 0 && w->shm_count) {
		apus_dp_writer_look_at_shm(w, now);
		rc = try_reserve(w, change, idx_out);
	}
	if (rc != 0 && apus_dp_cache_evict(&w->cache, w->min_acked) > 0)
		rc = try_reserve(w, change, idx_out);
	/* An instance that is new is kept: what it needs is room for a sample. */
	if (rc == APUS_EAGAIN && apus_dp_writer_give_up(w, *idx_out))
		rc = try_reserve(w, change, idx_out);
	if (rc == APUS_ELIMIT)
		apus_counter_add(&w->counters.refused_instances, 1);
	if (rc == APUS_EAGAIN)
		apus_counter_add(&w->counters.refused_full, 1);
	return rc;
}

void apus_dp_writer_lagging(struct apus_dp_writer *writer, struct apus_mono now)
{
	struct apus_mono due = apus_mono_add(now, HB_FIRST_NS);

	if (writer->hb_period_ns == HB_FIRST_NS && apus_dp_timer_armed(&writer->hb_timer))
		return;
	writer->hb_period_ns = HB_FIRST_NS;
	if (!apus_dp_timer_armed(&writer->hb_timer) || apus_mono_before(due, writer->hb_timer.due))
		apus_dp_wheel_arm(&writer->worker->wheel, &writer->hb_timer, due);
}

/* True if one more sample of the instance makes KEEP_LAST displace one that has not been sent. */
static bool would_displace_held(const struct apus_dp_writer *w, uint32_t instance_idx)
{
	const struct apus_dp_cache_instance *inst = &w->cache.instances[instance_idx];

	return w->sent < w->last && w->config.cache.depth && inst->count >= w->config.cache.depth &&
	       w->cache.entries[inst->oldest].seq > w->sent;
}

int apus_dp_writer_write(struct apus_dp_writer *writer, uint32_t slot,
			 const struct apus_dp_write *change, struct apus_mono now)
{
	/* In place: it is the slot's own, and nobody else's until it is added. */
	struct apus_dp_entry *e = &writer->cache.entries[slot];
	uint32_t displaced, instance_idx;
	int rc;

	apus_dp_writer_pace_flush(writer);
	rc = reserve(writer, change, &instance_idx, now);
	if (rc != 0)
		return rc;
	if (would_displace_held(writer, instance_idx))
		serve(writer, now, false);
	*e = (struct apus_dp_entry){
		.seq = writer->last + 1,
		.source = change->source,
		.offset_bytes = writer->written_bytes,
		.payload_bytes = change->payload_bytes,
		.instance_idx = instance_idx,
		.kind = change->kind,
		.key_only = change->key_only,
		.marks = change->marks,
		.expires_at = apus_dp_writer_expiry(writer, change->source, now),
	};
	if (writer->config.publisher)
		apus_dp_writer_mark(writer, e->seq, &e->marks);
	writer->written_bytes += change->payload_bytes;
	writer->written_bytes +=
		apus_dp_writer_overhead(writer, !change->more && !writer->suspended);
	if (writer->config.cache.lent_slots)
		apus_dp_writer_mark_slot(writer, slot);
	displaced = apus_dp_cache_add(&writer->cache, slot, e);
	if (writer->config.directed)
		apus_dp_writer_direct(writer, slot, change->to);
	writer->last++;
	apus_counter_add(&writer->counters.written, 1);
	if (writer->has_status)
		apus_dp_writer_wrote(writer, instance_idx, change->kind, now);
	if (displaced)
		apus_counter_add(&writer->counters.displaced, displaced);
	hold(writer, change->payload_bytes, change->more, now);
	return 0;
}

/* --- heartbeats -------------------------------------------------------------------------------- */

void apus_dp_writer_heartbeat(struct apus_dp_writer *writer, struct apus_dp_writer_state *state)
{
	/* In front of the GAP it would have the reader ask for what it does not want. */
	apus_dp_writer_cover(writer, state, apus_dp_writer_told(writer, state));
	apus_dp_writer_put_heartbeat(writer,
				     apus_dp_out_at(&writer->worker->out, &state->addr,
						    &state->prefix, APUS_DP_HEARTBEAT_BYTES),
				     state->eid, apus_dp_writer_first(writer, state),
				     apus_dp_writer_unproved(writer, state) ? state->challenge
				     : state->awaited                       ? state->relevant - 1
						      : apus_dp_writer_told(writer, state),
				     false);
}

/* While somebody lags: a heartbeat to each who does, at a period that doubles up to the configured one
 * and starts over with the next write. */
static void hb_timer_fn(struct apus_dp_timer *timer, struct apus_mono now)
{
	struct apus_dp_writer *w =
		(struct apus_dp_writer *)((char *)timer -
					  offsetof(struct apus_dp_writer, hb_timer));
	bool lagging = false;

	apus_dp_writer_purge(w, now);
	for (uint32_t i = 0; i < w->owing_count; i++) {
		struct apus_dp_writer_state *s = &w->states[w->owing[i]];

		if (s->acked >= w->sent && !s->awaited)
			continue;
		lagging = true;
		if (s->unsent_seq && apus_dp_prefix_is_apus(&s->prefix) &&
		    now.ns - s->heard.ns >= HB_FIRST_NS)
			s->unsent_seq = 0; /* no acknowledgement sends it on: it is asked for */
		if (s->local || s->shm || (s->unsent_seq && !s->held_up))
			continue; /* a HEARTBEAT follows when all is sent */
		if (s->waiting_seq && s->acked + 1 >= s->waiting_seq)
			apus_dp_writer_window_move(w, s, now);
		else if (apus_dp_writer_ask(w, s, now))
			apus_dp_writer_heartbeat(w, s);
	}
	if (apus_dp_writer_demote_silent(w, now))
		apus_dp_writer_settle(w);
	if (w->local_count)
		apus_dp_writer_retry_local(w, now);
	if (!lagging)
		return;
	w->hb_period_ns = w->hb_period_ns * 2 < w->worker->config.heartbeat_ns
				  ? w->hb_period_ns * 2
				  : w->worker->config.heartbeat_ns;
	apus_dp_wheel_arm(&w->worker->wheel, &w->hb_timer, apus_mono_add(now, w->hb_period_ns));
}

void apus_dp_writer_say_alive(struct apus_dp_writer *w, struct apus_mono now)
{
	for (uint32_t i = 0; i < w->match_count; i++) {
		struct apus_dp_writer_state *s = &w->states[w->order[i]];
		apus_seq last = s->awaited ? s->relevant - 1 : apus_dp_writer_told(w, s);
		apus_seq first = apus_dp_writer_first(w, s);
		struct apus_wire_heartbeat hb = {
			.reader = s->eid,
			.writer = w->eid,
			.first = first <= last ? first : last + 1,
			.last = last,
			.final = !s->awaited,
			.liveliness = true,
		};

		if (s->local) {
			apus_dp_reader_assert_local(s->local, s->match_id, now);
			continue;
		}
		if (s->shm) {
			apus_dp_writer_assert_shm(s);
			continue;
		}
		apus_dp_writer_cover(w, s, last);
		hb.count = ++w->hb_count;
		if (apus_wire_heartbeat(apus_dp_out_at(&w->worker->out, &s->addr, &s->prefix,
						       APUS_DP_HEARTBEAT_BYTES),
					&hb) == 0)
			apus_counter_add(&w->counters.heartbeats, 1);
	}
}
