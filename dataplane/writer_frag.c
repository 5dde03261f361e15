/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large samples at the writer (RTPS 2.5 §8.4.14): DATA_FRAG out, NACK_FRAG in.
 *
 * A reader's socket buffer is small (212,992 bytes unless somebody raised it, of which small datagrams
 * waste half) and the writer is fast, so a large sample is not poured out at once. To each reliable reader
 * at most `push_bytes` are under way unasked: the beginning of the sample, and nothing while the reader has
 * that much before it that is not acknowledged. A HEARTBEAT follows, and the reader requests the rest, so
 * much at a time. push_bytes learns: it halves when some of what was sent is asked for again, and grows when all
 * has come: fast below push_limit (three quarters of where it last failed), slowly above. To an Apus reader it stays as
 * it is when single fragments are missing: the wire loses those, a full buffer loses runs. So a transfer settles at
 * what the path holds, whatever buffers were configured.
 *
 * While acknowledgements keep coming from an Apus reader that has a destination to itself, each of them sends the
 * next samples on, as far as push_bytes goes: `unsent_seq` and `unsent_fragment` say from where. It is told of
 * samples up to there only, so it requests none of what will come unasked. A sample that push_bytes cannot hold as a
 * whole, and whatever waits when acknowledgements stay away, goes by request as above.
 *
 * A foreign reader takes its time to request (Fast DDS 2.9: 5 ms, Cyclone DDS 0.10: 100 ms), so the rest
 * is sent to it unasked too, in portions of push_bytes every PACE_NS, and the HEARTBEAT that makes it request
 * comes at the end.
 *
 * A best-effort reader gets it all: it could not ask. If all readers of a destination are, see writer_pace.c.
 */
#include "dataplane/writer_internal.h"

#define NONE APUS_SHM_NO_SLOT

/* Bounds of push_bytes. The lower one fits the smallest buffer with small fragments; the upper one keeps
 * what one lost datagram can cost within reason. */
#define PUSH_MIN_BYTES ((uint32_t)64 * 1024)
#define PUSH_MAX_BYTES ((uint32_t)4 * 1024 * 1024)

/* Random loss, too, leaves runs: so much longer than single holes are those of a full buffer. */
#define RUN_FRAGMENTS 4

/* What a reader that asks late gets in one answer, at least. */
#define LATE_ANSWER_BYTES ((uint32_t)192 * 1024)

/* So far ahead of what a foreign reader has acknowledged samples are sent unasked. Interop: Cyclone DDS 0.10.2 puts 16
 * together at a time and throws others away. */
#define AHEAD_SAMPLES 12
#define AHEAD_BYTES   ((uint32_t)1024 * 1024)

/* Time between portions of a large sample for a foreign reader. */
#define PACE_NS APUS_DP_WRITER_PACE_NS

uint32_t apus_dp_writer_fragment_count(const struct apus_dp_writer *w, uint32_t slot)
{
	uint32_t size = w->worker->config.fragment_bytes;

	return (w->cache.entries[slot].payload_bytes + size - 1) / size;
}

/* The payload from `offset` on, a multiple of the fragment size. */
static const uint8_t *payload_at(const struct apus_dp_writer *w, uint32_t slot, uint32_t offset)
{
	if (w->outside && w->outside_slot == slot && offset > 0)
		return w->outside + (offset - w->outside_at);
	return apus_dp_cache_payload(&w->cache, slot) + offset;
}

static void put_fragment(struct apus_dp_writer *w, uint32_t slot, uint32_t n,
			 const struct apus_dp_writer_target *target)
{
	uint8_t info[APUS_DP_FILTER_INFO_BYTES];
	const struct apus_dp_entry *e = &w->cache.entries[slot];
	uint32_t size = w->worker->config.fragment_bytes;
	uint32_t offset = (n - 1) * size;
	struct apus_wire_data_frag_out f = {
		.reader = target->reader,
		.writer = w->eid,
		.seq = e->seq,
		.first = n,
		.count = 1,
		.fragment_bytes = (uint16_t)size,
		.sample_bytes = e->payload_bytes,
		.payload = payload_at(w, slot, offset),
		.payload_bytes =
			e->payload_bytes - offset < size ? e->payload_bytes - offset : size,
		.key_only = e->key_only,
		.qos = apus_dp_writer_inline_qos(w, e),
	};

	if (target->inline_qos)
		apus_dp_writer_add_inline(w, e, &f.qos);
	/* Once a sample, and of one reader: with more the datagram could be longer than the network's packets. */
	else if (n == 1 && e->judged && target->state_count == 1 && !apus_dp_marks_any(&e->marks)) {
		f.qos.filter_info = info;
		f.qos.filter_info_bytes =
			apus_dp_writer_filter_info(w, slot, target->states, 1, info);
		apus_counter_add(&w->counters.filter_info, f.qos.filter_info_bytes > 0);
	}
	apus_dp_out_frag(&w->worker->out, target->to, target->dest, e->source, &f);
	apus_counter_add(&w->counters.fragments, 1);
}

void apus_dp_writer_put_fragment(struct apus_dp_writer *w, uint32_t slot, uint32_t n,
				 const struct apus_dp_destination *d)
{
	const struct apus_dp_writer_target target = {
		.to = &d->addr,
		.dest = d->one_participant ? &d->prefix : NULL,
		.reader = d->eid,
		.inline_qos = d->inline_qos,
		.states = w->filtering.by_destination + d->first_idx,
		.state_count = d->filter_info ? d->state_count : 0,
	};

	put_fragment(w, slot, n, &target);
}

/* The same for one reader. */
static void put_for(struct apus_dp_writer *w, uint32_t slot, uint32_t n,
		    const struct apus_dp_writer_state *s)
{
	const uint32_t idx = (uint32_t)(s - w->states);
	const struct apus_dp_writer_target target = {
		.to = &s->addr,
		.dest = &s->prefix,
		.reader = s->eid,
		.inline_qos = s->inline_qos,
		.states = &idx,
		.state_count = s->filter_info,
	};

	put_fragment(w, slot, n, &target);
}

void apus_dp_writer_push_begin(struct apus_dp_writer_state *s)
{
	s->push_bytes = APUS_DP_PUSH_FIRST_BYTES;
	s->push_limit = apus_dp_prefix_is_apus(&s->prefix) ? APUS_DP_WINDOW_LIMIT_BYTES
							   : APUS_DP_PUSH_FIRST_BYTES;
}

static uint32_t at_least(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static void grow(struct apus_dp_writer_state *s)
{
	uint32_t slowly = s->push_bytes / (s->push_bytes < APUS_DP_WINDOW_LIMIT_BYTES ? 32 : 256);
	uint32_t more = s->push_bytes + (s->push_bytes < s->push_limit ? s->push_bytes : slowly);

	if (s->push_bytes < s->push_limit && more > s->push_limit)
		more = s->push_limit;
	s->push_bytes = more < PUSH_MAX_BYTES ? more : PUSH_MAX_BYTES;
}

static void shrink(struct apus_dp_writer_state *s)
{
	s->push_limit = at_least(s->push_bytes / 4 * 3, PUSH_MIN_BYTES);
	s->push_bytes = at_least(s->push_bytes / 2, PUSH_MIN_BYTES);
}

void apus_dp_writer_push_acked(struct apus_dp_writer_state *s)
{
	if (s->pushed_seq == 0 || s->acked < s->pushed_seq)
		return;
	if (!s->push_lost)
		grow(s);
	s->pushed_seq = 0;
}

/* Fragments 1 … count of a sample have been sent to a reader. */
static void note_pushed(struct apus_dp_writer_state *s, apus_seq seq, uint32_t count)
{
	if (s->pushed_seq && s->pushed_seq != seq && s->acked < s->pushed_seq)
		return; /* the older one is still being followed */
	s->push_lost = s->push_lost && s->pushed_seq == seq;
	s->pushed_seq = count ? seq : 0;
	s->pushed_to = count;
}

uint64_t apus_dp_writer_outstanding(const struct apus_dp_writer *w, apus_seq from, uint32_t slot)
{
	const struct apus_dp_entry *e = &w->cache.entries[slot];
	uint32_t first = w->cache.head;

	if (from >= e->seq)
		return 0;
	if (w->cache.entries[first].seq < from) {
		first = apus_dp_cache_find(&w->cache, from);
		if (first == NONE)
			return 0; /* displaced; what is behind it is unknown, and little */
	}
	return e->offset_bytes - w->cache.entries[first].offset_bytes;
}

static uint64_t outstanding(const struct apus_dp_writer *w, const struct apus_dp_writer_state *s,
			    uint32_t slot)
{
	return apus_dp_writer_outstanding(w, s->acked + 1, slot);
}

/* What all readers behind a destination have room for. */
static uint64_t room(const struct apus_dp_writer *w, uint32_t slot, uint32_t destination)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < w->destinations[destination].state_count; i++) {
		const struct apus_dp_writer_state *s = apus_dp_writer_behind(w, destination, i);
		uint64_t behind;

		if (!s->reliable)
			return UINT64_MAX;
		behind = s->unsent_seq ? s->push_bytes : outstanding(w, s, slot);
		behind = behind < s->push_bytes ? s->push_bytes - behind : 0;
		if (behind < least)
			least = behind;
	}
	return least;
}

/* How many of the first fragments go into so many bytes. */
static uint32_t fitting(const struct apus_dp_writer *w, uint32_t slot, uint64_t bytes)
{
	uint64_t n = bytes / w->worker->config.fragment_bytes;
	uint32_t count = apus_dp_writer_fragment_count(w, slot);

	return n < count ? (uint32_t)n : count;
}

/* True if the rest of a sample follows unasked: by the timer, or with acknowledgements of those before it. */
static bool rest_follows(const struct apus_dp_writer *w, const struct apus_dp_writer_state *s,
			 uint32_t slot)
{
	if (!apus_dp_prefix_is_apus(&s->prefix) || s->unsent_seq)
		return true;
	return w->destinations[s->destination].eid.value && !s->lazy && outstanding(w, s, slot) > 0;
}

/* The rest of a sample, and the large ones after it, follow. */
static void leave_rest(struct apus_dp_writer *w, struct apus_dp_writer_state *s, apus_seq seq,
		       uint32_t fragment, struct apus_mono now)
{
	if (s->unsent_seq)
		return;
	s->unsent_seq = seq;
	s->unsent_fragment = fragment;
	if (!apus_dp_prefix_is_apus(&s->prefix) && !apus_dp_timer_armed(&w->pace_timer))
		apus_dp_wheel_arm(&w->worker->wheel, &w->pace_timer, apus_mono_add(now, PACE_NS));
}

bool apus_dp_writer_push(struct apus_dp_writer *w, uint32_t slot, uint32_t destination,
			 struct apus_mono now)
{
	const struct apus_dp_destination *d = &w->destinations[destination];
	uint32_t count = fitting(w, slot, room(w, slot, destination));
	bool later = d->reliable;

	if (!d->reliable) {
		apus_dp_writer_pace_begin(w, slot, destination, now);
		return true;
	}
	for (uint32_t n = 1; n <= count; n++)
		apus_dp_writer_put_fragment(w, slot, n, d);
	for (uint32_t i = 0; d->reliable && i < d->state_count; i++) {
		struct apus_dp_writer_state *s = apus_dp_writer_behind(w, destination, i);

		if (!s->reliable)
			continue;
		note_pushed(s, w->cache.entries[slot].seq, count);
		if (count < apus_dp_writer_fragment_count(w, slot) && rest_follows(w, s, slot))
			leave_rest(w, s, w->cache.entries[slot].seq, count + 1, now);
		later &= s->unsent_seq != 0;
	}
	return !later;
}

/* From which fragment on a sample is unsent; 0 = it is sent, or another reader of it is served aside. */
static uint32_t unsent_from(const struct apus_dp_writer *w, const struct apus_dp_writer_state *s,
			    uint32_t slot)
{
	apus_seq seq = w->cache.entries[slot].seq;

	if (seq < s->relevant || seq > w->sent || !apus_dp_writer_is_large(w, slot) ||
	    apus_dp_writer_is_rejected(w, slot, (uint32_t)(s - w->states)))
		return 0;
	return seq == s->unsent_seq ? s->unsent_fragment : 1;
}

uint32_t apus_dp_writer_find_from(const struct apus_dp_writer *w, apus_seq seq)
{
	uint32_t slot = apus_dp_cache_find(&w->cache, seq);

	if (slot != NONE)
		return slot;
	for (slot = w->cache.head; slot != NONE; slot = w->cache.entries[slot].next)
		if (w->cache.entries[slot].seq >= seq)
			break;
	return slot;
}

/* Fragments first … last have just been sent: a request for them has crossed with them. */
static void note_sent(struct apus_dp_writer_state *s, apus_seq seq, uint32_t first, uint32_t last,
		      struct apus_mono now)
{
	s->answered_seq = seq;
	s->answered_first = first;
	s->answered_last = last;
	s->answered_at = now;
}

/* Has a foreign reader as many samples before this one as it may be willing to put together at a time? */
static bool is_far_ahead(const struct apus_dp_writer *w, const struct apus_dp_writer_state *s,
			 uint32_t slot)
{
	return w->cache.entries[slot].seq - s->acked > AHEAD_SAMPLES &&
	       outstanding(w, s, slot) > AHEAD_BYTES;
}

/* One portion for a reader; then, if nothing is left, the HEARTBEAT. */
static void push_portion(struct apus_dp_writer *w, struct apus_dp_writer_state *s,
			 struct apus_mono now)
{
	uint32_t size = w->worker->config.fragment_bytes, budget = s->push_bytes;
	uint32_t slot = apus_dp_writer_find_from(w, s->unsent_seq > s->acked ? s->unsent_seq
									     : s->acked + 1);

	for (; slot != NONE; slot = w->cache.entries[slot].next) {
		uint32_t n = unsent_from(w, s, slot),
			 count = apus_dp_writer_fragment_count(w, slot), first = n;

		s->held_up = n && is_far_ahead(w, s, slot);
		if (s->held_up) {
			s->unsent_seq = w->cache.entries[slot].seq;
			s->unsent_fragment = n;
			return;
		}
		for (; n && n <= count && budget >= size; n++, budget -= size)
			put_for(w, slot, n, s);
		if (n > first) {
			note_pushed(s, w->cache.entries[slot].seq, n - 1);
			note_sent(s, w->cache.entries[slot].seq, first, n - 1, now);
		}
		if (n > count && w->cache.entries[slot].next != NONE)
			apus_dp_writer_heartbeat(w, s); /* so that it acknowledges meanwhile */
		s->unsent_seq = w->cache.entries[slot].seq;
		s->unsent_fragment = n;
		if (n && n <= count)
			return;
	}
	s->unsent_seq = 0;
	s->held_up = false;
	apus_dp_writer_heartbeat(w, s);
}

void apus_dp_writer_pace_fn(struct apus_dp_timer *timer, struct apus_mono now)
{
	struct apus_dp_writer *w =
		(struct apus_dp_writer *)((char *)timer -
					  offsetof(struct apus_dp_writer, pace_timer));
	bool more = false;

	for (uint32_t i = 0; i < w->match_count; i++) {
		struct apus_dp_writer_state *s = &w->states[w->order[i]];

		if (s->waiting_seq && !apus_dp_prefix_is_apus(&s->prefix)) {
			s->paced_seq = s->waiting_seq;
			s->pending_bytes = 0; /* counts from there, too */
			apus_dp_writer_window_move(w, s, now);
			more |= s->waiting_seq != 0;
		}
		if (s->unsent_seq == 0 || apus_dp_prefix_is_apus(&s->prefix))
			continue;
		push_portion(w, s, now);
		more |= s->unsent_seq != 0;
	}
	if (w->paces)
		more |= apus_dp_writer_pace_on(w);
	if (more)
		apus_dp_wheel_arm(&w->worker->wheel, timer, apus_mono_add(now, PACE_NS));
	else
		apus_dp_writer_lagging(w, now);
}

/* Sends fragments of one sample as far as push_bytes goes. False: some of it waits. */
static bool push_rest(struct apus_dp_writer *w, struct apus_dp_writer_state *s, uint32_t slot,
		      uint32_t from)
{
	uint64_t before = outstanding(w, s, slot);
	uint32_t count = apus_dp_writer_fragment_count(w, slot), n = from;
	uint32_t to = before < s->push_bytes ? fitting(w, slot, s->push_bytes - before) : 0;

	for (; n <= to; n++)
		put_for(w, slot, n, s);
	if (n > from)
		note_pushed(s, w->cache.entries[slot].seq, n - 1);
	s->unsent_seq = w->cache.entries[slot].seq;
	s->unsent_fragment = n;
	/* Nothing is before it whose acknowledgement would send the rest: it is asked for. */
	if (n <= count && before == 0)
		s->unsent_seq = 0;
	return n > count;
}

void apus_dp_writer_push_on(struct apus_dp_writer *w, struct apus_dp_writer_state *s)
{
	uint32_t slot = apus_dp_writer_find_from(w, s->unsent_seq > s->acked ? s->unsent_seq
									     : s->acked + 1);

	for (; slot != NONE && w->cache.entries[slot].seq <= w->sent;
	     slot = w->cache.entries[slot].next) {
		uint32_t from = unsent_from(w, s, slot);

		if (from == 0)
			continue;
		if (!push_rest(w, s, slot, from)) {
			if (s->unsent_seq == 0)
				apus_dp_writer_heartbeat(w, s);
			return;
		}
		s->unsent_seq = w->cache.entries[slot].seq + 1; /* it is told so far */
		s->unsent_fragment = 1;
		apus_dp_writer_heartbeat(w, s);
	}
	s->unsent_seq = 0;
	apus_dp_writer_heartbeat(w, s);
}

uint32_t apus_dp_writer_push_again(struct apus_dp_writer *w, uint32_t slot,
				   struct apus_dp_writer_state *s, uint32_t budget)
{
	apus_seq seq = w->cache.entries[slot].seq;
	uint64_t behind = outstanding(w, s, slot);
	uint64_t left = behind < s->push_bytes ? s->push_bytes - behind : 0;
	uint32_t count = fitting(w, slot, left < budget ? left : budget);

	if (count == 0)
		return 0; /* those before it come first */
	if (s->pushed_seq == seq)
		shrink(s); /* not one fragment has come */
	for (uint32_t n = 1; n <= count; n++)
		put_for(w, slot, n, s);
	note_pushed(s, seq, count);
	return count * w->worker->config.fragment_bytes;
}

/* Do the fragments asked for again, up to number `to`, lack in runs? */
static bool lacks_runs(const struct apus_wire_nack_frag *nack, uint32_t to)
{
	uint32_t missing = 0, runs = 0;
	bool before = false;

	for (uint32_t i = 0; i < nack->set.num_bits && nack->set.base + i <= to; i++) {
		bool lacks = apus_wire_bit_test(nack->set.bitmap, i);

		missing += lacks;
		runs += lacks && !before;
		before = lacks;
	}
	return missing >= 2 * runs + RUN_FRAGMENTS;
}

/* Learns from a request, and keeps the mark of what has been sent. */
static void learn(struct apus_dp_writer_state *s, const struct apus_wire_nack_frag *nack)
{
	if (s->pushed_seq != nack->seq) {
		s->pushed_seq = nack->seq;
		s->pushed_to = 0;
		s->push_lost = true; /* nothing is known of how it went */
	} else if (nack->set.base <= s->pushed_to) {
		if (apus_dp_prefix_is_apus(&s->prefix) && !lacks_runs(nack, s->pushed_to))
			return;
		if (!s->push_lost)
			shrink(s);
		s->push_lost = true;
	} else {
		if (!s->push_lost)
			grow(s);
		s->push_lost = false;
	}
}

/* True if fragment n was sent in the last answer, and that was just now. */
static bool just_sent(const struct apus_dp_writer *w, const struct apus_dp_writer_state *s,
		      apus_seq seq, uint32_t n, struct apus_mono now)
{
	return s->answered_seq == seq && n >= s->answered_first && n <= s->answered_last &&
	       now.ns - s->answered_at.ns < w->worker->config.nack_suppression_ns;
}

/* That was all for now: whoever still misses something may say so at once. An Apus reader is told by
 * HEARTBEAT_FRAG, which it answers with one request; Fast DDS 2.9 ignores those. */
static void invite(struct apus_dp_writer *w, struct apus_dp_writer_state *s, apus_seq seq,
		   uint32_t fragments)
{
	struct apus_wire_heartbeat_frag hb = {
		.reader = s->eid,
		.writer = w->eid,
		.seq = seq,
		.last = fragments,
		.count = ++w->frag_hb_count,
	};

	if (!apus_dp_prefix_is_apus(&s->prefix)) {
		apus_dp_writer_heartbeat(w, s);
		return;
	}
	(void)apus_wire_heartbeat_frag(
		apus_dp_out_at(&w->worker->out, &s->addr, &s->prefix, APUS_DP_HEARTBEAT_BYTES),
		&hb);
}

/* Sends those of `sent` once more, as far as the budget goes. */
static void send_copy(struct apus_dp_writer *w, struct apus_dp_writer_state *s, uint32_t slot,
		      const struct apus_wire_fragset *sent, uint32_t *budget)
{
	uint32_t size = w->worker->config.fragment_bytes;

	for (uint32_t i = 0; i < sent->num_bits && *budget >= size; i++) {
		if (!apus_wire_bit_test(sent->bitmap, i))
			continue;
		put_for(w, slot, sent->base + i, s);
		*budget -= size;
	}
}

/* Sends requested fragments within the budget; those left over are asked for again. */
static void answer(struct apus_dp_writer *w, struct apus_dp_writer_state *s, uint32_t slot,
		   const struct apus_wire_nack_frag *nack, struct apus_mono now)
{
	uint32_t count = apus_dp_writer_fragment_count(w, slot),
		 size = w->worker->config.fragment_bytes;
	uint32_t budget = apus_dp_prefix_asks_late(&s->prefix)
				  ? at_least(s->push_bytes, LATE_ANSWER_BYTES)
				  : s->push_bytes;
	struct apus_wire_fragset sent = {.base = nack->set.base};
	uint32_t first = 0, last = 0, sent_count = 0;

	for (uint32_t i = 0; i < nack->set.num_bits && budget >= size; i++) {
		uint32_t n = nack->set.base + i;

		if (!apus_wire_bit_test(nack->set.bitmap, i) || n > count)
			continue;
		if (s->unsent_seq == nack->seq && n >= s->unsent_fragment)
			break; /* they will come unasked */
		if (just_sent(w, s, nack->seq, n, now)) {
			apus_counter_add(&w->counters.suppressed, 1);
			continue;
		}
		put_for(w, slot, n, s);
		(void)apus_wire_fragset_add(&sent, n);
		sent_count++;
		budget -= size;
		first = first ? first : n;
		last = n;
	}
	if (last > s->pushed_to)
		s->pushed_to = last;
	if (first == 0)
		return;
	note_sent(s, nack->seq, first, last, now);
	/* More of the same is no help against a full buffer. */
	for (uint32_t c = apus_dp_writer_copies(s, sent_count);
	     c > 1 && !lacks_runs(nack, UINT32_MAX); c--)
		send_copy(w, s, slot, &sent, &budget);
	apus_dp_writer_lagging(w, now);
	invite(w, s, nack->seq, count);
}

bool apus_dp_writer_nack_frag(struct apus_dp_writer *writer, const struct apus_guid *reader,
			      const struct apus_wire_nack_frag *nack, struct apus_mono now)
{
	struct apus_dp_writer_state *s = apus_dp_writer_find_state(writer, reader);
	uint32_t slot;

	if (!s || !s->reliable || s->local || s->shm)
		return false;
	if (s->frag_count && !apus_wire_count_newer(nack->count, s->frag_count) &&
	    now.ns - s->frag_heard.ns < APUS_DP_COUNT_FORGET_NS) {
		apus_counter_add(&writer->counters.acknacks_stale, 1);
		return true;
	}
	if (apus_dp_writer_unproved(writer, s))
		return true;
	if (nack->seq > writer->last) {
		apus_counter_add(&writer->counters.acknacks_forged, 1);
		return true;
	}
	apus_dp_writer_heard(writer, s);
	s->frag_count = nack->count;
	s->frag_heard = now;
	apus_counter_add(&writer->counters.nack_frags, 1);
	slot = nack->seq >= s->relevant ? apus_dp_cache_find(&writer->cache, nack->seq) : NONE;
	if (slot == NONE ||
	    apus_dp_writer_is_rejected(writer, slot, (uint32_t)(s - writer->states))) {
		apus_dp_writer_gap(writer, s, nack->seq, nack->seq + 1);
		return true;
	}
	if (!apus_dp_writer_is_large(writer, slot))
		return true; /* it was never cut: nonsense */
	learn(s, nack);
	answer(writer, s, slot, nack, now);
	return true;
}
