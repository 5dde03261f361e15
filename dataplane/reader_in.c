/* SPDX-License-Identifier: Apache-2.0 */
/* Arrival at a reader: submessages in, samples through the one admission path; see reader.h. */
#include "dataplane/group.h"
#include "dataplane/reader_internal.h"
#include "dataplane/writer.h"

#include <apus/status.h>

#include <endian.h>
#include <string.h>
#include <unistd.h>

/* News: so many times something became readable. */
static void raise_for(struct apus_dp_reader *reader, uint32_t news)
{
	uint64_t one = 1;

	reader->news += news;
	apus_dp_watched_tell(&reader->watched, APUS_STATUS_DATA_AVAILABLE);
	if (!reader->event_wanted || reader->event_raised)
		return;
	reader->event_raised = true;
	(void)!write(reader->event_fd, &one, sizeof(one));
}

void apus_dp_reader_raise(struct apus_dp_reader *reader)
{
	raise_for(reader, 1);
}

static enum apus_dp_admit_result to_sink(struct apus_dp_reader_state *s,
					 const struct apus_dp_incoming *in, struct apus_mono now)
{
	struct apus_dp_sink_sample sample = {
		.writer = s->guid,
		.seq = in->seq,
		.change = in->change,
		.key_only = in->key_only,
		.payload = in->payload,
		.payload_bytes = in->payload_bytes,
		.key_hash = in->key_hash,
		.from = in->origin ? in->origin->from : NULL,
		.datagram_bytes = in->origin ? in->origin->datagram_bytes : 0,
		.source = in->source,
		.related_writer = in->marks.related_writer,
		.related_seq = in->marks.related_seq,
	};

	s->reader->config.sink(s->reader->config.sink_user, &sample, now);
	return APUS_DP_STORED;
}

/* Names the instance of a notice by its key hash: by the key that a short hash holds in clear, else by the
 * hash itself. Interop: what a hash is made of depends on the vendor, see wire/key.h. */
static void name_by_hash(struct apus_dp_reader_state *s, const struct apus_dp_incoming *in,
			 struct apus_dp_arrival *a, uint8_t *key)
{
	struct apus_dp_reader *r = s->reader;
	int n;

	if (r->plan->fast_differs && s->guid.bytes[0] == 0x01 && s->guid.bytes[1] == 0x0f) {
		a->key_hash = in->key_hash;
		a->hash_is_alias = true;
		return;
	}
	n = apus_wire_key_from_clear(r->plan, in->key_hash, key, APUS_DP_KEY_BYTES_MAX);
	if (n >= 0 && (!r->plan->use_md5 ||
		       apus_dp_instances_find(&r->inbox.history.instances, key, (size_t)n))) {
		a->key = key;
		a->key_bytes = (size_t)n;
	} else {
		a->key_hash = in->key_hash;
	}
}

/* Names the instance: by the key in the payload, else by its hash (a notice for an instance already
 * known). False: it names none. */
static bool name_instance(struct apus_dp_reader_state *s, const struct apus_dp_incoming *in,
			  struct apus_dp_arrival *a, uint8_t *key)
{
	struct apus_dp_reader *r = s->reader;
	int n;

	if (r->plan->max_bytes == 0)
		return true;
	if (in->payload) {
		n = apus_wire_key_extract(r->plan, in->payload, in->payload_bytes, in->key_only,
					  key, APUS_DP_KEY_BYTES_MAX);
		if (n < 0)
			return false;
		a->key = key;
		a->key_bytes = (size_t)n;
		return true;
	}
	if (!in->key_hash)
		return false;
	name_by_hash(s, in, a, key);
	return true;
}

/* Does what is stored depend on the time of day? */
static bool wants_wall(const struct apus_dp_reader_state *s)
{
	const struct apus_dp_inbox *inbox = &s->reader->inbox;

	return inbox->peers.peers[s->slot].lifespan_ns != APUS_INFINITE_NS ||
	       inbox->options.lifespan_ns != APUS_INFINITE_NS || inbox->options.history.by_source;
}

/* Were numbers lost between the last one admitted and this one? */
static bool has_lost(const struct apus_dp_reader_state *s, apus_seq seq)
{
	if (s->damaged)
		return true;
	if (s->last_admitted == 0)
		return false;
	if (s->shm)
		return s->shm_hole;
	if (s->local)
		return seq != s->last_admitted + 1;
	/* A count that has run full (a forged jump does that) tells nothing any more. */
	if (s->window.lost == UINT64_MAX && seq != s->last_admitted + 1)
		return true;
	return s->window.lost + s->window.lost_pending != s->lost_before ||
	       (!s->reliable && apus_dp_window_skips(&s->window, seq));
}

static void note_admitted(struct apus_dp_reader_state *s, apus_seq seq)
{
	s->last_admitted = seq;
	s->damaged = false;
	/* What a best-effort window skips it books only when this number is settled. */
	s->lost_before = s->window.lost + s->window.lost_pending;
	if (!s->reliable && !s->local && !s->shm)
		s->lost_before += apus_dp_window_skips(&s->window, seq);
}

static void tell_available(struct apus_dp_reader *r)
{
	apus_counter_add(&r->counters.delivered, 1);
	apus_dp_reader_raise(r);
}

/* A marker: the set of its writer ends. */
static enum apus_dp_admit_result end_set(struct apus_dp_reader_state *s,
					 const struct apus_dp_incoming *in, struct apus_mono now)
{
	struct apus_dp_inbox *inbox = &s->reader->inbox;
	bool available = false, waits;

	if (!inbox->sets)
		return APUS_DP_IGNORED;
	/* A marker behind a set that waits for its group waits with it. */
	waits = inbox->sets[s->slot].ended;
	if (!apus_dp_inbox_end_set(inbox, s->slot, has_lost(s, in->seq), now, &available) &&
	    waits && s->reliable)
		return APUS_DP_REFUSED;
	note_admitted(s, in->seq);
	if (available)
		tell_available(s->reader);
	apus_dp_group_passed(s, &in->marks, now);
	return APUS_DP_NOTICE;
}

/* One word of results, as Apus sends. */
enum apus_dp_filter_word apus_dp_reader_filter_word(const struct apus_dp_reader_state *s,
						    const uint8_t *info, uint32_t info_bytes)
{
	struct {
		uint32_t words, results, count;
	} head;
	const uint8_t *signature;

	if (!info || !s->filter_trusted || info_bytes < sizeof(head))
		return APUS_DP_FILTER_UNKNOWN;
	memcpy(&head, info, sizeof(head));
	head.words = le32toh(head.words);
	head.results = le32toh(head.results);
	head.count = le32toh(head.count);
	if (head.words != 1 || head.count > 32 || head.count > (info_bytes - sizeof(head)) / 16)
		return APUS_DP_FILTER_UNKNOWN;
	signature = info + sizeof(head);
	for (uint32_t i = 0; i < head.count; i++, signature += 16)
		if (memcmp(signature, s->reader->filter_signature, 16) == 0)
			return head.results >> (31 - i) & 1 ? APUS_DP_FILTER_PASSED
							    : APUS_DP_FILTER_REJECTED;
	return APUS_DP_FILTER_UNKNOWN;
}

/* Without a window (same worker, shared memory) a reliable writer offers the number that was refused until it is
 * admitted. If a later one comes instead, the writer has given it up. */
static void note_given_up(struct apus_dp_reader_state *s, apus_seq seq)
{
	if (APUS_LIKELY(s->refused == 0) || seq <= s->refused)
		return;
	s->refused = 0;
	apus_dp_reader_lose(s);
}

static void note_refused(struct apus_dp_reader_state *s, apus_seq seq,
			 const struct apus_dp_admission *admission)
{
	/* For best effort it is lost already; a wait for other samples is no refusal. */
	if (s->reliable && (s->local || s->shm) && admission->refusal != APUS_DP_REFUSED_NOT)
		s->refused = seq;
}

static enum apus_dp_admit_result to_inbox(struct apus_dp_reader_state *s,
					  const struct apus_dp_incoming *in, struct apus_mono now)
{
	struct apus_dp_reader *r = s->reader;
	uint8_t key[APUS_DP_KEY_BYTES_MAX];
	struct apus_dp_admission admission;
	enum apus_dp_admit_result result;
	struct apus_dp_arrival a = {
		.match_slot = s->slot,
		.seq = in->seq,
		.reliable = s->reliable,
		.refused_before =
			s->refused == in->seq || apus_dp_window_was_refused(&s->window, in->seq),
		.has_data = in->payload && !in->key_only,
		.change = in->change & (APUS_DP_DISPOSE | APUS_DP_UNREGISTER),
		.source_time = in->source,
		.marks = in->marks,
		.publisher = s->publisher,
		.lost = has_lost(s, in->seq),
		.payload = in->payload,
		.payload_bytes = in->payload_bytes,
	};

	note_given_up(s, in->seq);
	if (s->began == 0)
		s->began = in->seq;
	a.began = s->began;
	if (!a.has_data && a.change == 0 && apus_dp_marks_end(&in->marks))
		return end_set(s, in, now);
	if (!a.has_data && a.change == 0) {
		/* Neither data nor a change of state: nothing a reader could show. */
		apus_counter_add(&r->counters.bad_key, 1);
		s->damaged = true;
		return APUS_DP_MALFORMED;
	}
	if (!name_instance(s, in, &a, key)) {
		apus_counter_add(&r->counters.bad_key, 1);
		s->damaged = true;
		return APUS_DP_MALFORMED;
	}
	if (r->inbox.filter && a.has_data)
		a.filter_word = in->filter_word ? in->filter_word
						: apus_dp_reader_filter_word(s, in->filter_info,
									     in->filter_info_bytes);
	apus_counter_add(&r->counters.filter_info,
			 a.filter_word != APUS_DP_FILTER_UNKNOWN && !s->local);
	a.wall_now = wants_wall(s) ? apus_wall_now() : APUS_WALL_NONE;
	if (r->config.inbox.history.by_source && a.source_time.ns == APUS_WALL_NONE.ns)
		a.source_time = a.wall_now; /* the writer sent none: as if written on arrival */
	result = apus_dp_admit(&r->inbox, &a, now, &admission);
	if (admission.available) {
		apus_counter_add(&r->counters.delivered, 1);
		apus_dp_reader_raise(r);
	}
	if (result != APUS_DP_REFUSED || admission.refusal != APUS_DP_REFUSED_NOT)
		apus_dp_reader_note(r, &admission, now);
	if (result == APUS_DP_REFUSED) {
		note_refused(s, in->seq, &admission);
		return result;
	}
	s->refused = 0;
	note_admitted(s, in->seq);
	apus_dp_group_passed(s, &in->marks, now);
	return result;
}

enum apus_dp_admit_result apus_dp_reader_admit(struct apus_dp_reader_state *s,
					       const struct apus_dp_incoming *in,
					       struct apus_mono now)
{
	struct apus_dp_reader *r = s->reader;
	enum apus_dp_admit_result result;

	if (in->payload_bytes > r->config.payload_bytes_max) {
		apus_counter_add(&r->counters.too_large, 1);
		s->damaged = true;
		apus_dp_reader_lose(s);
		return APUS_DP_MALFORMED;
	}
	result = r->config.sink ? to_sink(s, in, now) : to_inbox(s, in, now);
	apus_counter_add(&r->counters.results[result], 1);
	return result;
}

/* --- submessages --------------------------------------------------------------------------------- */

enum apus_dp_seq_verdict apus_dp_reader_check(struct apus_dp_reader_state *s, apus_seq seq,
					      struct apus_mono now)
{
	enum apus_dp_seq_verdict v = apus_dp_window_check(&s->window, seq);

	if (APUS_LIKELY(v != APUS_DP_SEQ_DUPLICATE))
		return v;
	switch (apus_dp_window_deny(&s->window, seq)) {
	case APUS_DP_DENY_NOTHING: return v;
	case APUS_DP_DENY_ASK: apus_dp_reader_ask(s, now, 0); return v;
	case APUS_DP_DENY_RESTORED: break;
	}
	apus_dp_reader_drop_held(s); /* the window has forgotten them */
	return apus_dp_window_check(&s->window, seq);
}

void apus_dp_reader_arrive(struct apus_dp_reader_state *s, const struct apus_dp_incoming *in,
			   struct apus_mono now)
{
	struct apus_dp_reader *r = s->reader;

	apus_counter_add(&r->counters.received, 1);
	switch (apus_dp_reader_check(s, in->seq, now)) {
	case APUS_DP_SEQ_NEW_IN_ORDER:
		apus_dp_reader_settle(s, in->seq, apus_dp_reader_admit(s, in, now));
		if (s->held_first)
			apus_dp_reader_drain(s, now);
		break;
	case APUS_DP_SEQ_NEW_OUT_OF_ORDER:
		apus_dp_reader_hold_back(s, in);
		apus_dp_reader_ask(s, now, APUS_DP_HOLE_NS);
		break;
	case APUS_DP_SEQ_DUPLICATE: apus_counter_add(&r->counters.duplicates, 1); break;
	case APUS_DP_SEQ_BEYOND: apus_counter_add(&r->counters.beyond, 1); break;
	}
	apus_dp_reader_note_lost(s);
}

static void from_data(const struct apus_wire_data *data, const struct apus_dp_origin *origin,
		      struct apus_dp_incoming *in_out)
{
	*in_out = (struct apus_dp_incoming){
		.seq = data->seq,
		.source = origin->timestamp,
		.change = (uint8_t)(data->qos.status_info &
				    (APUS_WIRE_STATUS_DISPOSED | APUS_WIRE_STATUS_UNREGISTERED)),
		.key_only = data->key_only,
		.payload = data->payload,
		.payload_bytes = data->payload ? data->payload_bytes : 0,
		.key_hash = data->qos.has_key_hash ? data->qos.key_hash : NULL,
		.filter_info = data->qos.filter_info,
		.filter_info_bytes = data->qos.filter_info_bytes,
		.origin = origin,
	};
	apus_dp_marks_read(&data->qos, &in_out->marks);
}

void apus_dp_reader_data(struct apus_dp_reader_state *state, const struct apus_wire_data *data,
			 const struct apus_dp_origin *origin, struct apus_mono now)
{
	struct apus_dp_incoming in;

	if (state->local || state->shm) {
		apus_counter_add(&state->reader->counters.other_route, 1);
		return;
	}
	from_data(data, origin, &in);
	apus_dp_reader_arrive(state, &in, now);
}

/* Puts payloads into slots while there are any and they are not too large; returns of how many. */
static uint32_t store_run(struct apus_dp_reader *r, const struct apus_wire_run *run,
			  struct apus_wall source_time, uint32_t count,
			  struct apus_dp_run_item *items_out)
{
	uint32_t n = 0;

	while (n < count && r->pool.free_count > 0 &&
	       run->payload_bytes[n] <= r->config.payload_bytes_max) {
		items_out[n] = (struct apus_dp_run_item){
			.seq = run->first + n,
			.source_time = source_time,
			.slot_ref = apus_dp_reader_store(r, run->payload[n], run->payload_bytes[n]),
		};
		n++;
	}
	return n;
}

void apus_dp_reader_admit_run(struct apus_dp_reader_state *s, const struct apus_dp_run_item *items,
			      uint32_t count, struct apus_mono now)
{
	static const struct apus_dp_admission stored = {.result = APUS_DP_STORED};
	const struct apus_dp_arrival common = {.match_slot = s->slot, .publisher = s->publisher};
	struct apus_dp_reader *r = s->reader;

	note_given_up(s, items[0].seq);
	s->refused = 0;
	if (s->began == 0)
		s->began = items[0].seq;
	apus_dp_admit_run(&r->inbox, &common, items, count, now);
	note_admitted(s, items[count - 1].seq);
	apus_counter_add(&r->counters.received, count);
	apus_counter_add(&r->counters.delivered, count);
	apus_counter_add(&r->counters.results[APUS_DP_STORED], count);
	raise_for(r, count);
	apus_dp_reader_note(r, &stored, now);
	apus_dp_reader_note_lost(s);
}

/* Admits the samples of a run at once as far as nothing but room has a say; returns how many. */
static uint32_t arrive_run(struct apus_dp_reader_state *s, const struct apus_wire_run *run,
			   const struct apus_dp_origin *origin, struct apus_mono now)
{
	struct apus_dp_reader *r = s->reader;
	struct apus_dp_run_item items[APUS_WIRE_RUN_MAX];
	uint32_t n;

	if (s->local || s->shm || r->config.sink || s->held_first)
		return 0;
	n = apus_dp_window_run(&s->window, run->first, run->count);
	if (n)
		n = apus_dp_admit_run_room(&r->inbox, s->slot, n, now);
	n = store_run(r, run, origin->timestamp, n, items);
	if (n == 0)
		return 0;
	apus_dp_window_done_run(&s->window, run->first, n);
	apus_dp_reader_admit_run(s, items, n, now);
	return n;
}

void apus_dp_reader_run(struct apus_dp_reader_state *state, const struct apus_wire_run *run,
			const struct apus_dp_origin *origin, struct apus_mono now)
{
	for (uint32_t i = arrive_run(state, run, origin, now); i < run->count; i++) {
		struct apus_wire_data data;

		apus_wire_run_data(run, i, &data);
		apus_dp_reader_data(state, &data, origin, now);
	}
}

void apus_dp_reader_stateless(struct apus_dp_reader *reader, const struct apus_guid *writer,
			      const struct apus_wire_data *data,
			      const struct apus_dp_origin *origin, struct apus_mono now)
{
	struct apus_dp_incoming in;
	struct apus_dp_reader_state nobody = {.guid = *writer, .reader = reader};

	from_data(data, origin, &in);
	apus_counter_add(&reader->counters.received, 1);
	if (in.payload_bytes > reader->config.payload_bytes_max)
		apus_counter_add(&reader->counters.too_large, 1);
	else
		to_sink(&nobody, &in, now);
}

/* Several heartbeats within the delay get one answer. */
static void answer_later(struct apus_dp_reader_state *s, struct apus_mono now, int64_t delay_ns)
{
	struct apus_mono due = apus_mono_add(now, delay_ns);

	s->answer_due = true;
	if (!apus_dp_timer_armed(&s->timer) || apus_mono_before(due, s->timer.due))
		apus_dp_wheel_arm(&s->reader->worker->wheel, &s->timer, due);
}

/* An assertion of one writer's liveliness. */
static void assert_writer(struct apus_dp_reader_state *s, struct apus_mono now)
{
	struct apus_dp_reader *r = s->reader;

	apus_dp_inbox_assert(&r->inbox, s->slot, now);
	apus_dp_alarm_hint(&r->worker->alarms, &r->alarm,
			   apus_dp_lease_due(&r->inbox.peers.peers[s->slot].lease));
	apus_dp_reader_note_flips(r);
}

void apus_dp_reader_heartbeat(struct apus_dp_reader_state *state,
			      const struct apus_wire_heartbeat *heartbeat, struct apus_mono now)
{
	int64_t delay_ns = state->reader->worker->config.ack_delay_ns;
	unsigned result;

	if (state->local || state->shm)
		return;
	if (!state->reliable) {
		/* To a best-effort match it can only say that the writer lives. */
		if (heartbeat->liveliness && !state->reader->config.sink &&
		    apus_dp_count_accept(&state->window.heartbeat_count, (int32_t)heartbeat->count,
					 now))
			assert_writer(state, now);
		return;
	}
	apus_counter_add(&state->reader->counters.heartbeats, 1);
	result = apus_dp_window_heartbeat(&state->window, heartbeat->first, heartbeat->last,
					  (int32_t)heartbeat->count, heartbeat->final,
					  heartbeat->liveliness, now);
	if (result & APUS_DP_HB_RESTORED)
		apus_dp_reader_drop_held(state); /* the window has forgotten them */
	if (result & APUS_DP_HB_ADVANCED) {
		apus_dp_reader_drain(state, now);
		apus_dp_reader_sweep_fragments(state);
	}
	apus_dp_reader_note_lost(state);
	if (result & APUS_DP_HB_LIVELINESS && !state->reader->config.sink)
		assert_writer(state, now);
	if (!(result & APUS_DP_HB_ACK))
		return;
	if (state->assembly_count && !heartbeat->final)
		apus_dp_reader_settle_fragments(state, heartbeat->last);
	if (apus_dp_window_has_missing(&state->window))
		apus_dp_reader_ask(state, now, delay_ns);
	else if (delay_ns == 0)
		apus_dp_reader_queue_ack(state);
	else
		answer_later(state, now, delay_ns);
}

void apus_dp_reader_gap(struct apus_dp_reader_state *state, const struct apus_wire_gap *gap,
			struct apus_mono now)
{
	/* A best-effort reader learns from it what was left out and is not lost. */
	if (state->local || state->shm)
		return;
	apus_counter_add(&state->reader->counters.gaps, 1);
	if (apus_dp_window_gap(&state->window, gap->start, &gap->set))
		apus_dp_reader_drain(state, now);
	apus_dp_reader_sweep_fragments(state);
	apus_dp_reader_note_lost(state);
}

bool apus_dp_reader_local(struct apus_dp_reader *reader, const struct apus_dp_local_sample *sample,
			  struct apus_mono now)
{
	struct apus_dp_incoming in = {
		.seq = sample->seq,
		.source = sample->source,
		.change = sample->kind,
		.key_only = sample->key_only,
		.payload = sample->payload_bytes ? sample->payload : NULL,
		.payload_bytes = sample->payload_bytes,
		.filter_word =
			sample->filter_passed ? APUS_DP_FILTER_PASSED : APUS_DP_FILTER_UNKNOWN,
		.marks = sample->marks,
	};

	for (uint32_t i = 0; i < reader->match_count; i++) {
		struct apus_dp_reader_state *s = &reader->states[reader->order[i]];

		if (s->match_id != sample->match_id)
			continue;
		apus_counter_add(&reader->counters.received, 1);
		if (apus_dp_reader_admit(s, &in, now) != APUS_DP_REFUSED)
			return true;
		reader->any_refused = true;
		return false;
	}
	/* The reader has not adopted this match yet: the writer offers again. */
	return false;
}

void apus_dp_reader_skipped(struct apus_dp_reader *reader, uint64_t count)
{
	apus_counter_add(&reader->counters.received, count);
	apus_counter_add(&reader->counters.results[APUS_DP_REJECTED_FILTER], count);
	reader->inbox.counters.results[APUS_DP_REJECTED_FILTER] += count;
}

void apus_dp_reader_count_skipped(struct apus_dp_reader *reader)
{
	for (uint32_t i = 0; i < reader->match_count; i++) {
		struct apus_dp_reader_state *s = &reader->states[reader->order[i]];
		struct apus_dp_writer *w =
			s->local ? apus_dp_worker_writer(reader->worker, s->eid) : NULL;

		if (w)
			apus_dp_writer_count_skipped(w, reader);
	}
}

void apus_dp_reader_assert_local(struct apus_dp_reader *reader, uint64_t match_id,
				 struct apus_mono now)
{
	for (uint32_t i = 0; i < reader->match_count; i++)
		if (reader->states[reader->order[i]].match_id == match_id)
			assert_writer(&reader->states[reader->order[i]], now);
}
