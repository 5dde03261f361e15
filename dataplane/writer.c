/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer's side of the protocol; see writer.h. In this file: life, writing, sending, acknowledgements,
 * heartbeats. Large samples are in writer_frag.c, adoption of snapshots in writer_adopt.c.
 */
#include "dataplane/reader.h"
#include "dataplane/writer_internal.h"

#include <apus/participant.h>

#include <stdlib.h>
#include <string.h>

#define NONE APUS_SHM_NO_SLOT

/* First heartbeat after a write that nobody has acknowledged yet; doubles up to the configured period. */
#define HB_FIRST_NS (4 * APUS_NS_PER_MS)
/* Data messages ask for an acknowledgement every so many samples, so that a KEEP_ALL history drains without
 * waiting for the timer; less often where the history holds many, for each answer costs a datagram. */
#define HB_ASK_EVERY     32
#define HB_ASK_EVERY_MAX 1024
/* What a DATA costs beside its payload, for the budget of a repair. */
#define DATA_OVERHEAD_BYTES 64
/* Samples filtered out are declared irrelevant within this time, merged, or with the next passing one. */
#define GAP_FLUSH_NS APUS_NS_PER_MS

static void hb_timer_fn(struct apus_dp_timer *timer, struct apus_mono now);
static void gap_timer_fn(struct apus_dp_timer *timer, struct apus_mono now);
static void batch_timer_fn(struct apus_dp_timer *timer, struct apus_mono now);

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
	w->gap_timer.fn = gap_timer_fn;
	w->pace_timer.fn = apus_dp_writer_pace_fn;
	w->batch_timer.fn = batch_timer_fn;
	w->first = 1;
	if (config->proof_secret)
		w->first = APUS_DP_PROOF_FIRST + (apus_seq)(config->proof_secret >> 46);
	w->last = w->sent = w->min_acked = w->first - 1;
	w->states = calloc(config->match_max, sizeof(*w->states));
	w->order = calloc(config->match_max, sizeof(*w->order));
	w->order_new = calloc(config->match_max, sizeof(*w->order_new));
	w->destinations = calloc(config->match_max, sizeof(*w->destinations));
	if (!w->states || !w->order || !w->order_new || !w->destinations)
		goto fail;
	rc = apus_dp_cache_init(&w->cache, &config->cache, worker->config.segment_flags);
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
	free(writer->states);
	free(writer->order);
	free(writer->order_new);
	free(writer->destinations);
	free(writer->deadlines);
	free(writer);
}

/* --- sending ----------------------------------------------------------------------------------- */

/* last: the newest number to tell of. */
static void put_heartbeat_to(struct apus_dp_writer *w, struct apus_wire_builder *b,
			     struct apus_eid reader, apus_seq last, bool final)
{
	apus_seq first = apus_dp_cache_first(&w->cache, w->last + 1);
	struct apus_wire_heartbeat hb = {
		.reader = reader,
		.writer = w->eid,
		.first = first <= last ? first : last + 1,
		.last = last,
		.count = ++w->hb_count,
		.final = final,
	};

	if (apus_wire_heartbeat(b, &hb) == 0)
		apus_counter_add(&w->counters.heartbeats, 1);
}

static void put_heartbeat(struct apus_dp_writer *w, struct apus_wire_builder *b,
			  struct apus_eid reader, bool final)
{
	put_heartbeat_to(w, b, reader, w->sent, final);
}

struct apus_wire_inline_out apus_dp_writer_inline_qos(const struct apus_dp_writer *w,
						      const struct apus_dp_entry *e)
{
	struct apus_wire_inline_out qos = {0};

	apus_dp_marks_put(&e->marks, &qos);
	if (e->kind != APUS_ALIVE) {
		qos.status_info = e->kind; /* the bits are those of StatusInfo_t */
		qos.key_hash = w->cache.instances[e->instance_idx].key_hash;
	}
	return qos;
}

static void put_sample(struct apus_dp_writer *w, uint32_t slot, const struct apus_dp_addr *to,
		       const struct apus_prefix *dest, struct apus_eid reader, bool hash_only)
{
	const struct apus_dp_entry *e = &w->cache.entries[slot];
	struct apus_wire_data_out d = {
		.reader = reader,
		.writer = w->eid,
		.seq = e->seq,
		.payload = apus_dp_cache_payload(&w->cache, slot),
		.payload_bytes = e->payload_bytes,
		.key_only = e->key_only,
	};

	if (e->kind != APUS_ALIVE)
		d.qos = apus_dp_writer_inline_qos(w, e);
	apus_counter_add(&w->counters.data_sent, 1);
	if (hash_only && e->kind != APUS_ALIVE && e->key_only) {
		d.payload = NULL;
		d.payload_bytes = 0;
		d.key_only = false;
	}
	apus_dp_out_data(&w->worker->out, to, dest, e->source, &d);
}

/* True if [from, to] holds a multiple of n. */
static bool passes(apus_seq from, apus_seq to, apus_seq n)
{
	return to / n != (from - 1) / n;
}

static apus_seq ask_every(const struct apus_dp_writer *w)
{
	uint32_t n = w->config.cache.depth ? 0 : w->config.cache.max_samples / 4;

	if (n < HB_ASK_EVERY)
		return HB_ASK_EVERY;
	return n < HB_ASK_EVERY_MAX ? n : HB_ASK_EVERY_MAX;
}

/* Data messages ask for an answer (a HEARTBEAT without the final flag) when a reader has never been
 * heard, every so many samples, and when a KEEP_ALL history is half full. from: the first of them. */
static bool wants_answer(const struct apus_dp_writer *w, const struct apus_dp_destination *d,
			 apus_seq from)
{
	const struct apus_dp_writer_state *s = &w->states[d->first_state];

	return s->heard.ns == 0 || passes(from, w->sent, ask_every(w)) ||
	       (w->config.cache.depth == 0 && w->cache.count * 2 >= w->config.cache.max_samples &&
		passes(from, w->sent, 4));
}

/* A run of irrelevant numbers on its way into one GAP. */
struct gap_run {
	apus_seq start, end; /* start … end - 1; start 0 = none */
};

static void put_gap(struct apus_dp_writer *w, const struct apus_dp_writer_state *s,
		    struct gap_run *run)
{
	struct apus_wire_gap gap = {
		.reader = s->eid, .writer = w->eid, .start = run->start, .set = {.base = run->end}};

	if (run->start == 0)
		return;
	if (apus_wire_gap(apus_dp_out_at(&w->worker->out, &s->addr, &s->prefix, APUS_DP_GAP_BYTES),
			  &gap) == 0)
		apus_counter_add(&w->counters.gaps, 1);
	run->start = 0;
}

void apus_dp_writer_gap(struct apus_dp_writer *w, const struct apus_dp_writer_state *s,
			apus_seq start, apus_seq end)
{
	struct gap_run run = {start, end};

	put_gap(w, s, &run);
}

void apus_dp_writer_flush_gap(struct apus_dp_writer *writer, struct apus_dp_writer_state *state)
{
	struct gap_run run = {state->gap_start, state->gap_end};

	put_gap(writer, state, &run);
	state->gap_start = 0;
}

/* Evaluates the filters of the readers, each different one once, and keeps the verdicts with the sample.
 * A lifecycle change passes; so does what cannot be evaluated: the reader applies its filter anyway. */
static void judge(struct apus_dp_writer *w, uint32_t slot)
{
	struct apus_dp_entry *e = &w->cache.entries[slot];
	const struct apus_dp_predicate *last = NULL;
	enum apus_dp_verdict verdict = APUS_DP_PASS;

	if (e->kind != APUS_ALIVE)
		return;
	for (uint32_t i = 0; i < w->match_count; i++) {
		uint32_t idx = w->order[i];
		const struct apus_dp_predicate *p = w->states[idx].predicate;

		if (!p)
			continue;
		if (p != last)
			verdict = apus_dp_predicate_eval(p, apus_dp_cache_payload(&w->cache, slot),
							 e->payload_bytes);
		last = p;
		if (verdict == APUS_DP_REJECT)
			e->rejected[idx / 64] |= UINT64_C(1) << idx % 64;
	}
}

/* True if some reader behind a destination wants the sample; then it goes once, for all of them. */
static bool wanted(const struct apus_dp_writer *w, uint32_t slot, uint32_t destination)
{
	if (!w->destinations[destination].filtered)
		return true;
	for (uint32_t i = 0; i < w->match_count; i++)
		if (w->states[w->order[i]].destination == destination &&
		    !w->states[w->order[i]].local &&
		    !apus_dp_writer_is_rejected(w, slot, w->order[i]))
			return true;
	return false;
}

/* Notes, or says, that numbers are irrelevant for the readers behind a destination. */
static void leave_out(struct apus_dp_writer *w, apus_seq seq, uint32_t destination)
{
	apus_counter_add(&w->counters.filtered, 1);
	for (uint32_t i = 0; i < w->match_count; i++) {
		struct apus_dp_writer_state *s = &w->states[w->order[i]];

		if (s->destination != destination || s->local || !s->reliable)
			continue;
		if (s->gap_start == 0)
			s->gap_start = seq;
		s->gap_end = seq + 1;
	}
}

static void flush_gaps(struct apus_dp_writer *w, uint32_t destination)
{
	for (uint32_t i = 0; i < w->match_count; i++) {
		struct apus_dp_writer_state *s = &w->states[w->order[i]];

		if (s->destination == destination && s->gap_start)
			apus_dp_writer_flush_gap(w, s);
	}
}

/* What a HEARTBEAT behind some samples has to say. */
struct follow_up {
	bool heartbeat; /* there is one */
	bool ask;       /* it asks for an answer whatever wants_answer() says */
	bool left_out;  /* some samples were not wanted */
};

static void send_one(struct apus_dp_writer *w, uint32_t slot, uint32_t i, struct apus_mono now,
		     struct follow_up *f)
{
	const struct apus_dp_destination *d = &w->destinations[i];
	const struct apus_prefix *dest = d->one_participant ? &d->prefix : NULL;

	if (!wanted(w, slot, i)) {
		leave_out(w, w->cache.entries[slot].seq, i);
		f->left_out = true;
		return;
	}
	if (d->filtered)
		flush_gaps(w, i);
	if (!apus_dp_writer_is_large(w, slot)) {
		put_sample(w, slot, &d->addr, dest, d->eid, d->hash_only_dispose);
		f->heartbeat = true;
		return;
	}
	apus_counter_add(&w->counters.data_sent, 1);
	if (apus_dp_writer_push(w, slot, i, now))
		f->heartbeat = f->ask = true;
}

/* Sends the samples from one slot on to a destination, and one HEARTBEAT. Returns true if some stayed. */
static bool send_to(struct apus_dp_writer *w, uint32_t first, uint32_t i, struct apus_mono now)
{
	const struct apus_dp_destination *d = &w->destinations[i];
	const struct apus_prefix *dest = d->one_participant ? &d->prefix : NULL;
	struct follow_up f = {0};

	for (uint32_t slot = first; slot != NONE; slot = w->cache.entries[slot].next)
		send_one(w, slot, i, now, &f);
	if (d->reliable && f.heartbeat)
		put_heartbeat(
			w, apus_dp_out_at(&w->worker->out, &d->addr, dest, APUS_DP_HEARTBEAT_BYTES),
			d->eid, !f.ask && !wants_answer(w, d, w->cache.entries[first].seq));
	return f.left_out;
}

/* Sends the samples from one slot on to everybody. */
static void send_to_destinations(struct apus_dp_writer *w, uint32_t first, struct apus_mono now)
{
	bool left_out = false;

	for (uint32_t slot = first; w->filtered_count && slot != NONE;
	     slot = w->cache.entries[slot].next)
		judge(w, slot);
	for (uint32_t i = 0; i < w->destination_count; i++)
		left_out |= send_to(w, first, i, now);
	if (left_out && !apus_dp_timer_armed(&w->gap_timer))
		apus_dp_wheel_arm(&w->worker->wheel, &w->gap_timer,
				  apus_mono_add(now, GAP_FLUSH_NS));
}

/* --- same worker ------------------------------------------------------------------------------- */

/* Hands one sample to a reader of this worker; false if the reader refused and wants it again. */
static bool deliver_local(struct apus_dp_writer *w, struct apus_dp_writer_state *s, uint32_t slot,
			  struct apus_mono now)
{
	const struct apus_dp_entry *e = &w->cache.entries[slot];
	struct apus_dp_local_sample sample = {
		.writer = &w->config.guid,
		.match_id = s->match_id,
		.seq = e->seq,
		.source = e->source,
		.kind = e->kind,
		.key_only = e->key_only,
		.payload = apus_dp_cache_payload(&w->cache, slot),
		.payload_bytes = e->payload_bytes,
		.marks = e->marks,
	};

	return apus_dp_reader_local(s->local, &sample, now) || !s->reliable;
}

/* Serves one local reader from its cursor. In the common case the cursor is right behind the last. */
static bool advance_local(struct apus_dp_writer *w, struct apus_dp_writer_state *s,
			  struct apus_mono now)
{
	uint32_t slot =
		s->acked + 1 <= w->sent ? apus_dp_cache_find(&w->cache, s->acked + 1) : NONE;
	apus_seq before = s->acked;

	if (slot == NONE && s->acked < w->sent)
		for (slot = w->cache.head; slot != NONE; slot = w->cache.entries[slot].next)
			if (w->cache.entries[slot].seq > s->acked)
				break;
	for (; slot != NONE && w->cache.entries[slot].seq <= w->sent;
	     slot = w->cache.entries[slot].next) {
		if (!deliver_local(w, s, slot, now))
			return s->acked != before;
		s->acked = w->cache.entries[slot].seq;
	}
	if (s->acked < w->sent)
		s->acked = w->sent;
	return s->acked != before;
}

/* --- acknowledgement ----------------------------------------------------------------------------- */

/* Recomputes what all have acknowledged, and frees what a volatile writer no longer needs. The heartbeat timer
 * stays as it is: in a stream it would be armed again at once, and it ends by itself when nobody lags. */
static void acknowledged(struct apus_dp_writer *w)
{
	apus_seq low = w->sent, active = w->sent;

	for (uint32_t i = 0; i < w->match_count; i++) {
		const struct apus_dp_writer_state *s = &w->states[w->order[i]];

		if (!s->reliable)
			continue;
		if (s->acked < low)
			low = s->acked;
		if (s->acked < active && !s->demoted)
			active = s->acked;
	}
	if (!w->config.transient_local)
		apus_dp_cache_remove_to(&w->cache, low);
	w->min_acked = low;
	w->min_active = active;
}

void apus_dp_writer_settle(struct apus_dp_writer *writer)
{
	acknowledged(writer);
}

void apus_dp_writer_retry_local(struct apus_dp_writer *writer, struct apus_mono now)
{
	bool moved = false;

	for (uint32_t i = 0; i < writer->match_count; i++) {
		struct apus_dp_writer_state *s = &writer->states[writer->order[i]];

		if (s->local && s->acked < writer->sent)
			moved |= advance_local(writer, s, now);
	}
	if (moved)
		acknowledged(writer);
}

/* --- writing ----------------------------------------------------------------------------------- */

/* Serves all destinations with what is held. leave: the datagrams leave at once, before the books are kept,
 * which is off the samples' path and may free slots that datagrams refer to. */
static void serve(struct apus_dp_writer *w, struct apus_mono now, bool leave)
{
	uint32_t first = w->cache.tail;
	apus_seq from = w->sent + 1;

	if (w->sent == w->last)
		return;
	if (from != w->last) {
		first = apus_dp_cache_find(&w->cache, from);
		apus_counter_add(&w->counters.batches, 1);
	}
	leave |= w->held_largest > APUS_DP_OUT_COPY_BYTES;
	w->sent = w->last;
	w->held_bytes = w->held_largest = 0;
	if (w->local_count)
		apus_dp_writer_retry_local(w, now);
	if (w->destination_count)
		send_to_destinations(w, first, now);
	if (leave)
		apus_dp_out_flush(&w->worker->out);
	acknowledged(w); /* best-effort and unmatched writers forget at once */
	if (w->min_acked < w->sent)
		apus_dp_writer_lagging(w, now);
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
	return writer->local_count || writer->filtered_count ||
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

	if (rc == APUS_EAGAIN && w->sent < w->last) {
		serve(w, now, true);
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

/* Whoever is not meant gets a GAP. Readers beyond those verdicts are kept for get the sample. */
static void direct(struct apus_dp_writer *w, uint32_t slot, const struct apus_prefix *to)
{
	struct apus_dp_entry *e = &w->cache.entries[slot];

	for (uint32_t i = 0; i < w->match_count; i++) {
		uint32_t idx = w->order[i];

		if (idx < APUS_DP_VERDICTS && !apus_prefix_equal(&w->states[idx].prefix, to))
			e->rejected[idx / 64] |= UINT64_C(1) << idx % 64;
	}
}

int apus_dp_writer_write(struct apus_dp_writer *writer, uint32_t slot,
			 const struct apus_dp_write *change, struct apus_mono now)
{
	struct apus_dp_entry e = {
		.seq = writer->last + 1,
		.source = change->source,
		.payload_bytes = change->payload_bytes,
		.kind = change->kind,
		.key_only = change->key_only,
		.marks = change->marks,
	};
	int rc = reserve(writer, change, &e.instance_idx, now);
	uint32_t displaced;

	if (rc != 0)
		return rc;
	if (would_displace_held(writer, e.instance_idx))
		serve(writer, now, false);
	e.offset_bytes = writer->written_bytes;
	writer->written_bytes += change->payload_bytes;
	displaced = apus_dp_cache_add(&writer->cache, slot, &e);
	if (writer->config.directed)
		direct(writer, slot, change->to);
	writer->last++;
	apus_counter_add(&writer->counters.written, 1);
	if (writer->has_status)
		apus_dp_writer_wrote(writer, e.instance_idx, change->kind, now);
	if (displaced)
		apus_counter_add(&writer->counters.displaced, displaced);
	hold(writer, change->payload_bytes, change->more, now);
	return 0;
}

/* --- requests ---------------------------------------------------------------------------------- */

struct apus_dp_writer_state *apus_dp_writer_find_state(struct apus_dp_writer *w,
						       const struct apus_guid *guid)
{
	uint32_t low = 0, high = w->match_count;

	while (low < high) {
		uint32_t mid = (low + high) / 2;
		struct apus_dp_writer_state *s = &w->states[w->order[mid]];
		int c = apus_guid_compare(&s->guid, guid);

		if (c == 0)
			return s;
		if (c < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

/* True if a number was sent to a reader on request just now; else notes that it is. A number 256 away may
 * be taken for it: that one is then asked for again. */
static bool just_repaired(struct apus_dp_writer_state *s, apus_seq seq, struct apus_mono now)
{
	uint64_t bit = UINT64_C(1) << (uint64_t)seq % 64;
	uint64_t *word = &s->repaired[(uint64_t)seq / 64 % 4];

	if (now.ns - s->repaired_at.ns >= APUS_DP_SUPPRESS_NS) {
		memset(s->repaired, 0, sizeof(s->repaired));
		s->repaired_at = now;
	}
	if (*word & bit)
		return true;
	*word |= bit;
	return false;
}

/* An answer under way. */
struct repair {
	struct apus_mono now;
	struct gap_run run;
	uint32_t budget; /* bytes that may still be sent; what is left over is asked for again */
};

/* Sends one sample again, within the budget. */
static void repair_sample(struct apus_dp_writer *w, struct apus_dp_writer_state *s, uint32_t slot,
			  struct repair *r)
{
	const struct apus_dp_entry *e = &w->cache.entries[slot];
	uint32_t bytes = e->payload_bytes + DATA_OVERHEAD_BYTES;

	if (r->budget == 0)
		return;
	if (s->unsent_seq && e->seq >= s->unsent_seq && apus_dp_writer_is_large(w, slot))
		return; /* it will come unasked */
	if (just_repaired(s, e->seq, r->now)) {
		apus_counter_add(&w->counters.suppressed, 1);
		return;
	}
	if (apus_dp_writer_is_large(w, slot)) {
		bytes = apus_dp_writer_push_again(w, slot, s, r->budget);
		apus_counter_add(&w->counters.data_sent, bytes > 0);
	} else {
		put_sample(w, slot, &s->addr, &s->prefix, s->eid, s->hash_only_dispose);
	}
	apus_counter_add(&w->counters.repairs, bytes > 0);
	r->budget -= bytes < r->budget ? bytes : r->budget;
}

/* Answers a request for one number: the sample, or a place in the run of irrelevant ones. */
static void repair_one(struct apus_dp_writer *w, struct apus_dp_writer_state *s, apus_seq seq,
		       struct repair *r)
{
	uint32_t slot = seq >= s->relevant ? apus_dp_cache_find(&w->cache, seq) : NONE;

	if (slot == NONE || apus_dp_writer_is_rejected(w, slot, (uint32_t)(s - w->states))) {
		if (r->run.start && r->run.end == seq) {
			r->run.end = seq + 1;
			return;
		}
		put_gap(w, s, &r->run);
		r->run = (struct gap_run){seq, seq + 1};
		return;
	}
	put_gap(w, s, &r->run);
	repair_sample(w, s, slot, r);
}

/* The whole irrelevant past of a late joiner goes into one GAP, however long it is. */
static apus_seq skip_past(struct apus_dp_writer *w, const struct apus_dp_writer_state *s,
			  apus_seq base, struct gap_run *run)
{
	apus_seq first = apus_dp_cache_first(&w->cache, w->last + 1);

	if (first < s->relevant)
		first = s->relevant;
	if (base >= first)
		return base;
	*run = (struct gap_run){base, first};
	return first;
}

static void repair(struct apus_dp_writer *w, struct apus_dp_writer_state *s,
		   const struct apus_wire_seqset *set, struct apus_mono now)
{
	struct repair r = {.now = now, .budget = s->push_bytes};
	apus_seq from = skip_past(w, s, set->base, &r.run);

	for (uint32_t i = 0; i < set->num_bits; i++) {
		apus_seq seq = set->base + i;

		if (seq >= from && seq <= w->sent && apus_wire_bit_test(set->bitmap, i))
			repair_one(w, s, seq, &r);
	}
	put_gap(w, s, &r.run);
}

static bool acknack_is_fresh(struct apus_dp_writer *w, struct apus_dp_writer_state *s,
			     const struct apus_wire_acknack *a, struct apus_mono now)
{
	if (s->heard.ns && !apus_wire_count_newer(a->count, s->ack_count) &&
	    now.ns - s->heard.ns < APUS_DP_COUNT_FORGET_NS) {
		apus_counter_add(&w->counters.acknacks_stale, 1);
		return false;
	}
	if (a->set.base > w->last + 1) {
		apus_counter_add(&w->counters.acknacks_forged, 1);
		return false;
	}
	return true;
}

/* An ACKNACK that answers a HEARTBEAT, as opposed to the pre-emptive one of a reader that has heard none:
 * no bits, base 0 or 1, not final (RTPS 2.5 §8.4.15.5). One that never sets the final flag is believed at
 * its third. */
static bool shows_listening(struct apus_dp_writer_state *s, const struct apus_wire_acknack *a)
{
	return a->final || a->set.num_bits || a->set.base > 1 || ++s->early_acks >= 3;
}

/* Has an awaited reader answered? */
static bool has_answered(const struct apus_dp_writer *w, struct apus_dp_writer_state *s,
			 const struct apus_wire_acknack *a, const struct apus_dp_addr *from)
{
	if (!w->config.proof_secret)
		return shows_listening(s, a);
	if (s->wrong_answers >= APUS_DP_WRONG_ANSWERS || a->set.base <= 1)
		return false;
	if (a->set.base == s->challenge + 1 ||
	    (a->set.base >= w->first && from &&
	     memcmp(from->ip, s->addr.ip, sizeof(from->ip)) == 0))
		return true;
	s->wrong_answers++;
	return false;
}

unsigned apus_dp_writer_acknack(struct apus_dp_writer *writer, const struct apus_guid *reader,
				const struct apus_wire_acknack *acknack,
				const struct apus_dp_addr *from, struct apus_mono now)
{
	struct apus_dp_writer_state *s = apus_dp_writer_find_state(writer, reader);
	bool missing = acknack->set.num_bits > 0, greeted = false;
	unsigned answer = APUS_DP_ANSWER_MATCHED;

	if (!s || !s->reliable || s->local)
		return APUS_DP_ANSWER_NONE;
	if (!acknack_is_fresh(writer, s, acknack, now))
		return answer;
	apus_counter_add(&writer->counters.acknacks, 1);
	apus_dp_writer_heard(writer, s);
	s->heard = now;
	s->ack_count = acknack->count;
	if (s->awaited && has_answered(writer, s, acknack, from)) {
		/* From here on it is sent to, and asks for what was written meanwhile. */
		s->awaited = false;
		apus_dp_writer_derive(writer);
		greeted = s->acked < writer->sent;
		if (writer->config.proof_secret)
			answer |= APUS_DP_ANSWER_PROVED;
	} else if (apus_dp_writer_unproved(writer, s)) {
		apus_dp_writer_heartbeat(writer, s);
		return answer;
	}
	if (acknack->set.base > 0 && acknack->set.base - 1 > s->acked) {
		s->acked = acknack->set.base - 1;
		apus_dp_writer_push_acked(s);
		acknowledged(writer);
	}
	if (missing)
		repair(writer, s, &acknack->set, now);
	/* A request is followed by where things stand, and an ACKNACK without the final flag is always
	 * answered: a reader that has just matched may be waiting for the first HEARTBEAT. */
	if (greeted || s->awaited)
		apus_dp_writer_heartbeat(writer, s);
	else if (missing || !acknack->final)
		put_heartbeat(writer,
			      apus_dp_out_at(&writer->worker->out, &s->addr, &s->prefix,
					     APUS_DP_HEARTBEAT_BYTES),
			      s->eid, s->acked >= writer->sent);
	return answer;
}

/* --- heartbeats -------------------------------------------------------------------------------- */

void apus_dp_writer_heartbeat(struct apus_dp_writer *writer, struct apus_dp_writer_state *state)
{
	put_heartbeat_to(writer,
			 apus_dp_out_at(&writer->worker->out, &state->addr, &state->prefix,
					APUS_DP_HEARTBEAT_BYTES),
			 state->eid,
			 apus_dp_writer_unproved(writer, state) ? state->challenge
			 : state->awaited                       ? state->relevant - 1
								: writer->sent,
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

	for (uint32_t i = 0; i < w->match_count; i++) {
		struct apus_dp_writer_state *s = &w->states[w->order[i]];

		if (!s->reliable || (s->acked >= w->sent && !s->awaited))
			continue;
		lagging = true;
		if (s->local || s->unsent_seq)
			continue; /* a HEARTBEAT follows when all is sent */
		if (apus_dp_writer_ask(w, s, now))
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

/* Runs of filtered-out samples that no passing one has carried along: GAP and where things stand. */
static void gap_timer_fn(struct apus_dp_timer *timer, struct apus_mono now)
{
	struct apus_dp_writer *w =
		(struct apus_dp_writer *)((char *)timer -
					  offsetof(struct apus_dp_writer, gap_timer));

	(void)now;
	for (uint32_t i = 0; i < w->match_count; i++) {
		struct apus_dp_writer_state *s = &w->states[w->order[i]];

		if (!s->gap_start)
			continue;
		apus_dp_writer_flush_gap(w, s);
		apus_dp_writer_heartbeat(w, s);
	}
}

void apus_dp_writer_say_alive(struct apus_dp_writer *w, struct apus_mono now)
{
	for (uint32_t i = 0; i < w->match_count; i++) {
		struct apus_dp_writer_state *s = &w->states[w->order[i]];
		apus_seq last = s->awaited ? s->relevant - 1 : w->last;
		apus_seq first = apus_dp_cache_first(&w->cache, w->last + 1);
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
		hb.count = ++w->hb_count;
		if (apus_wire_heartbeat(apus_dp_out_at(&w->worker->out, &s->addr, &s->prefix,
						       APUS_DP_HEARTBEAT_BYTES),
					&hb) == 0)
			apus_counter_add(&w->counters.heartbeats, 1);
	}
}
