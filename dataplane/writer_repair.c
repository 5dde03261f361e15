/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What readers ask of a writer: acknowledgements in, samples again and GAPs out (RTPS 2.5 §8.4.9.2); see
 * writer.h. Requests for fragments are in writer_frag.c.
 */
#include "dataplane/writer_internal.h"

#include <string.h>

#define NONE APUS_SHM_NO_SLOT

/* What a DATA costs beside its payload, for the budget of a repair. */
#define DATA_OVERHEAD_BYTES 64

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

/* An answer under way. */
struct repair {
	struct apus_mono now;
	struct apus_dp_gap_run run;
	struct apus_wire_seqset sent; /* small samples */
	uint32_t sent_count;
	uint32_t budget; /* bytes that may still be sent; what is left over is asked for again */
};

/* Puts the DATA of a sample for one reader. */
static void put_again(struct apus_dp_writer *w, const struct apus_dp_writer_state *s, uint32_t slot)
{
	const uint32_t idx = (uint32_t)(s - w->states);
	const struct apus_dp_writer_target target = {
		.to = &s->addr,
		.dest = &s->prefix,
		.reader = s->eid,
		.hash_only = s->hash_only_dispose,
		.inline_qos = s->inline_qos,
		.states = &idx,
		.state_count = 1,
	};

	apus_dp_writer_put_sample(w, slot, &target);
}

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
	if (apus_dp_writer_is_recent(w, &s->repaired, e->seq, r->now)) {
		apus_counter_add(&w->counters.suppressed, 1);
		return;
	}
	apus_dp_writer_note_recent(w, &s->repaired, e->seq, r->now);
	if (apus_dp_writer_is_large(w, slot)) {
		bytes = apus_dp_writer_push_again(w, slot, s, r->budget);
		apus_counter_add(&w->counters.data_sent, bytes > 0);
	} else {
		put_again(w, s, slot);
		(void)apus_wire_seqset_add(&r->sent, e->seq);
		r->sent_count++;
	}
	apus_counter_add(&w->counters.repairs, bytes > 0);
	r->budget -= bytes < r->budget ? bytes : r->budget;
}

/* Answers a request for one number: the sample, or a place in the run of irrelevant ones. */
static void repair_one(struct apus_dp_writer *w, struct apus_dp_writer_state *s, apus_seq seq,
		       struct repair *r)
{
	uint32_t slot = seq >= s->relevant ? apus_dp_cache_find(&w->cache, seq) : NONE;

	const struct apus_dp_marker *marker = slot == NONE && seq >= s->relevant && w->marker_count
						      ? apus_dp_writer_marker(w, seq, seq)
						      : NULL;

	if (marker) {
		apus_dp_writer_put_gap(w, s, &r->run);
		apus_dp_writer_put_marker(w, marker, &s->addr, &s->prefix, s->eid);
		apus_counter_add(&w->counters.repairs, 1);
		return;
	}
	if (slot == NONE || apus_dp_writer_is_rejected(w, slot, (uint32_t)(s - w->states))) {
		if (r->run.start && r->run.end == seq) {
			r->run.end = seq + 1;
			return;
		}
		apus_dp_writer_put_gap(w, s, &r->run);
		r->run = (struct apus_dp_gap_run){seq, seq + 1};
		return;
	}
	apus_dp_writer_put_gap(w, s, &r->run);
	repair_sample(w, s, slot, r);
}

/* The whole irrelevant past of a late joiner goes into one GAP, however long it is. */
static apus_seq skip_past(struct apus_dp_writer *w, const struct apus_dp_writer_state *s,
			  apus_seq base, struct apus_dp_gap_run *run)
{
	apus_seq first = apus_dp_cache_first(&w->cache, w->last + 1);
	const struct apus_dp_marker *marker;

	if (w->marker_count && (marker = apus_dp_writer_marker(w, base, first - 1)))
		first = marker->seq;
	if (first < s->relevant)
		first = s->relevant;
	if (base >= first)
		return base;
	*run = (struct apus_dp_gap_run){base, first};
	return first;
}

/* Sends the small samples of a repair once more, in datagrams of their own. */
static void send_copy(struct apus_dp_writer *w, struct apus_dp_writer_state *s, struct repair *r)
{
	if (r->sent_count)
		apus_dp_out_flush(&w->worker->out);
	for (uint32_t i = 0; i < r->sent.num_bits && r->budget; i++) {
		uint32_t slot = NONE, bytes;

		if (apus_wire_bit_test(r->sent.bitmap, i))
			slot = apus_dp_cache_find(&w->cache, r->sent.base + i);
		if (slot == NONE)
			continue;
		bytes = w->cache.entries[slot].payload_bytes + DATA_OVERHEAD_BYTES;
		put_again(w, s, slot);
		r->budget -= bytes < r->budget ? bytes : r->budget;
	}
}

static void repair(struct apus_dp_writer *w, struct apus_dp_writer_state *s,
		   const struct apus_wire_seqset *set, struct apus_mono now)
{
	struct repair r = {.now = now, .sent = {.base = set->base}, .budget = s->push_bytes};
	apus_seq from = skip_past(w, s, set->base, &r.run);

	for (uint32_t i = 0; i < set->num_bits; i++) {
		apus_seq seq = set->base + i;

		if (seq >= from && seq <= apus_dp_writer_told(w, s) &&
		    apus_wire_bit_test(set->bitmap, i))
			repair_one(w, s, seq, &r);
	}
	apus_dp_writer_put_gap(w, s, &r.run);
	for (uint32_t c = apus_dp_writer_copies(s, r.sent_count); c > 1; c--)
		send_copy(w, s, &r);
}

void apus_dp_writer_answer(struct apus_dp_writer *w, struct apus_dp_writer_state *s,
			   const struct apus_wire_seqset *set, struct apus_mono now)
{
	if (set->num_bits)
		repair(w, s, set, now);
	apus_dp_writer_cover(w, s, apus_dp_writer_told(w, s));
	apus_dp_writer_put_heartbeat(
		w, apus_dp_out_at(&w->worker->out, &s->addr, &s->prefix, APUS_DP_HEARTBEAT_BYTES),
		s->eid, apus_dp_writer_first(w, s), apus_dp_writer_told(w, s),
		apus_dp_writer_acked_by(w, s) >= w->sent);
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

	if (!s || !s->reliable || s->local || s->shm)
		return APUS_DP_ANSWER_NONE;
	if (!acknack_is_fresh(writer, s, acknack, now))
		return answer;
	apus_counter_add(&writer->counters.acknacks, 1);
	if (acknack->set.base - 1 > s->confirmed)
		s->confirmed = acknack->set.base - 1;
	apus_dp_writer_heard(writer, s);
	s->acked = apus_dp_writer_acked_by(writer, s);
	s->heard = now;
	s->ack_count = acknack->count;
	apus_dp_writer_purge(writer, now);
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
		apus_dp_writer_window_acked(writer, s, acknack->set.base - 1);
		apus_dp_writer_owing_acked(writer, s, acknack->set.base - 1);
		apus_dp_writer_push_acked(s);
		apus_dp_writer_settle(writer);
		apus_dp_writer_window_learn(writer, s, true, missing);
		if (s->waiting_seq)
			apus_dp_writer_window_move(writer, s, now);
		if (s->unsent_seq && apus_dp_prefix_is_apus(&s->prefix))
			apus_dp_writer_push_on(writer, s);
		/* It takes what it gets and lacks more: the next HEARTBEAT need not keep it waiting. One that makes
		 * no progress may be full, and is asked ever more rarely. */
		if (missing)
			apus_dp_writer_lagging(writer, now);
	} else {
		apus_dp_writer_window_learn(writer, s, false, missing);
	}
	if (s->request.num_bits)
		apus_dp_writer_request_acked(writer, s, acknack->set.base, now);
	/* A request is followed by where things stand, and an ACKNACK without the final flag is always
	 * answered: a reader that has just matched may be waiting for the first HEARTBEAT. */
	if (greeted || s->awaited) {
		if (missing)
			repair(writer, s, &acknack->set, now);
		apus_dp_writer_heartbeat(writer, s);
	} else if (missing ? !apus_dp_writer_put_off(writer, s, &acknack->set, now)
			   : !acknack->final) {
		apus_dp_writer_answer(writer, s, &acknack->set, now);
	}
	return answer;
}
