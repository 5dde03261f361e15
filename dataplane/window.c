/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader's sequence window. The bitmaps are rings: number s has bit s mod NUMBERS, and only the bits of
 * [next, next + NUMBERS) may be set. Invariants between calls:
 *   - settled and held are disjoint, refused is disjoint from both;
 *   - `next` itself is not settled, so it is missing, held, or above everything known;
 *   - the far range is empty or starts at or above next + NUMBERS.
 */
#include "dataplane/window.h"

#include <string.h>

#include "wire/message.h"

/* ---- bit ranges on a ring ------------------------------------------------------------------- */

struct span {
	uint32_t pos, left; /* what remains */
	uint32_t word;
	uint64_t mask;
};

static struct span span_begin(apus_seq first, uint32_t count)
{
	return (struct span){.pos = apus_dp_window_index(first), .left = count};
}

static bool span_next(struct span *s)
{
	uint32_t bit = s->pos & 63;
	uint32_t n = 64 - bit;

	if (s->left == 0)
		return false;
	if (n > s->left)
		n = s->left;
	s->word = s->pos / 64;
	s->mask = (n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1) << bit;
	s->pos = (s->pos + n) & (APUS_DP_WINDOW_NUMBERS - 1);
	s->left -= n;
	return true;
}

static bool bit_test(const uint64_t *bits, apus_seq seq)
{
	uint32_t i = apus_dp_window_index(seq);

	return bits[i / 64] >> (i & 63) & 1;
}

static void bit_set(uint64_t *bits, apus_seq seq)
{
	uint32_t i = apus_dp_window_index(seq);

	bits[i / 64] |= UINT64_C(1) << (i & 63);
}

static void bit_clear(uint64_t *bits, apus_seq seq)
{
	uint32_t i = apus_dp_window_index(seq);

	bits[i / 64] &= ~(UINT64_C(1) << (i & 63));
}

static void clear_all(struct apus_dp_window *w)
{
	memset(w->bits, 0, sizeof(*w->bits));
	w->far_first = w->far_end = 0;
}

/** Forgets the bits of [first, end), which need not be smaller than the ring. */
static void clear_range(struct apus_dp_window *w, apus_seq first, apus_seq end)
{
	apus_seq n = end - first;
	struct span s = span_begin(first, n < APUS_DP_WINDOW_NUMBERS ? (uint32_t)n
								     : APUS_DP_WINDOW_NUMBERS);

	while (span_next(&s)) {
		/* What is clear is not written: a match without samples has not touched it. */
		if (!((w->bits->settled[s.word] | w->bits->held[s.word] |
		       w->bits->refused[s.word]) &
		      s.mask))
			continue;
		w->bits->settled[s.word] &= ~s.mask;
		w->bits->held[s.word] &= ~s.mask;
		w->bits->refused[s.word] &= ~s.mask;
	}
}

static apus_seq window_end(const struct apus_dp_window *w)
{
	return w->next + APUS_DP_WINDOW_NUMBERS;
}

static bool in_window(const struct apus_dp_window *w, apus_seq seq)
{
	return seq >= w->next && seq < window_end(w);
}

static apus_seq seq_min(apus_seq a, apus_seq b)
{
	return a < b ? a : b;
}

static apus_seq seq_max(apus_seq a, apus_seq b)
{
	return a > b ? a : b;
}

/* ---- moving --------------------------------------------------------------------------------- */

/** Moves `next` over the settled numbers that follow it directly. */
static void slide(struct apus_dp_window *w)
{
	for (;;) {
		uint32_t i = apus_dp_window_index(w->next);
		uint64_t open = ~w->bits->settled[i / 64] >> (i & 63);
		uint32_t rest = 64 - (i & 63);
		uint32_t run = open ? (uint32_t)__builtin_ctzll(open) : rest;

		if (run == 0)
			return;
		if (run > rest)
			run = rest;
		clear_range(w, w->next, w->next + run);
		w->next += run;
	}
}

/** The part of the far range that the window has reached becomes bits. */
static void absorb_far(struct apus_dp_window *w)
{
	apus_seq end = seq_min(w->far_end, window_end(w));
	struct span s;

	if (w->far_first >= end)
		return;
	s = span_begin(w->far_first, (uint32_t)(end - w->far_first));
	while (span_next(&s))
		w->bits->settled[s.word] |= s.mask; /* none is held: they were beyond */
	w->far_first = end;
	if (w->far_first >= w->far_end)
		w->far_first = w->far_end = 0;
}

/** Restores the invariants after numbers were settled. */
static void advance(struct apus_dp_window *w)
{
	slide(w);
	if (w->far_end > 0 && w->next >= w->far_first) {
		/* Everything up to the far range is settled, so the ring is empty. */
		w->next = seq_max(w->next, w->far_end);
		w->far_first = w->far_end = 0;
	}
	absorb_far(w);
}

/** Adds [first, end) above the window to the far range; of two that do not touch, the lower is kept,
 *  since the higher will be told again by the time it matters. */
static void far_add(struct apus_dp_window *w, apus_seq first, apus_seq end)
{
	if (w->far_end == 0 || end < w->far_first) {
		w->far_first = first;
		w->far_end = end;
	} else if (first <= w->far_end) {
		w->far_first = seq_min(w->far_first, first);
		w->far_end = seq_max(w->far_end, end);
	}
}

static uint64_t far_overlap(const struct apus_dp_window *w, apus_seq first, apus_seq end)
{
	apus_seq a = seq_max(first, w->far_first), b = seq_min(end, w->far_end);

	return a < b ? (uint64_t)(b - a) : 0;
}

/**
 * Settles all missing numbers of [first, end). Returns how many of them count as lost: with `lost` all,
 * else those that had been refused before.
 */
static uint64_t give_up(struct apus_dp_window *w, apus_seq first, apus_seq end, bool lost)
{
	apus_seq near_end, far;
	uint64_t count = 0;

	first = seq_max(first, w->next);
	near_end = seq_min(end, window_end(w));
	if (first < near_end) {
		struct span s = span_begin(first, (uint32_t)(near_end - first));

		while (span_next(&s)) {
			uint64_t m = s.mask & ~w->bits->settled[s.word] & ~w->bits->held[s.word];
			uint64_t counted = lost ? m : m & w->bits->refused[s.word];

			count += (uint64_t)__builtin_popcountll(counted);
			w->bits->settled[s.word] |= m;
			w->bits->refused[s.word] &= ~m;
		}
	}
	far = seq_max(first, window_end(w));
	if (far < end) {
		if (lost)
			count += (uint64_t)(end - far) - far_overlap(w, far, end);
		far_add(w, far, end);
	}
	advance(w);
	return count;
}

static void start_at(struct apus_dp_window *w, apus_seq next, bool movable)
{
	w->next = next;
	w->delivered_end = next;
	w->started = true;
	w->start_movable = movable;
}

/** True if a DATA below `next` may still move the start: nothing of the ring it needs is in use. */
static bool can_move_start(const struct apus_dp_window *w, apus_seq seq)
{
	apus_seq n = seq_min(w->next - seq, APUS_DP_WINDOW_NUMBERS);
	struct span s = span_begin(seq, (uint32_t)n);

	if (!w->start_movable)
		return false;
	while (span_next(&s)) {
		if ((w->bits->settled[s.word] | w->bits->held[s.word] | w->bits->refused[s.word]) &
		    s.mask)
			return false;
	}
	return true;
}

/** A number has shown up: starts the window there if need be, and confirms what came before it. */
static void appeared(struct apus_dp_window *w, apus_seq seq)
{
	if (!w->started || (seq < w->next && w->start_movable))
		start_at(w, seq, false);
	w->highest = seq_max(w->highest, seq);
	apus_dp_window_add_lost(&w->lost, w->lost_pending);
	w->lost_pending = 0;
}

/** After anything that moves `next`: remembers a large jump, unless an earlier one is still in doubt. */
static void note_jump(struct apus_dp_window *w, apus_seq before)
{
	if (w->next == before || w->next - w->delivered_end <= APUS_DP_WINDOW_JUMP)
		return;
	if (w->jump_to && w->since_jump < APUS_DP_WINDOW_NUMBERS)
		return;
	w->jump_from = w->delivered_end;
	w->jump_to = w->next;
	w->since_jump = 0;
}

/* ---- public --------------------------------------------------------------------------------- */

bool apus_dp_count_accept(struct apus_dp_count *c, int32_t count, struct apus_mono now)
{
	bool newer = (int32_t)((uint32_t)count - (uint32_t)c->last) > 0;
	bool aged = c->at.ns == 0 || now.ns - c->at.ns >= APUS_DP_COUNT_AGE_NS;

	if (!newer && !aged)
		return false;
	c->last = count;
	c->at = now;
	return true;
}

static bool is_clear(const struct apus_dp_window_bits *bits)
{
	uint64_t any = 0;

	for (size_t i = 0; i < APUS_DP_WINDOW_WORDS; i++)
		any |= bits->settled[i] | bits->held[i] | bits->refused[i];
	return any == 0;
}

void apus_dp_window_init(struct apus_dp_window *w, struct apus_dp_window_bits *bits, bool reliable,
			 enum apus_dp_window_start start)
{
	memset(w, 0, sizeof(*w));
	w->bits = bits;
	if (!is_clear(bits))
		memset(bits, 0, sizeof(*bits));
	w->next = 1;
	w->delivered_end = 1;
	w->reliable = reliable;
	w->started = reliable && start == APUS_DP_FROM_FIRST;
}

bool apus_dp_window_reopen(struct apus_dp_window *w, apus_seq from)
{
	if (!w->reliable || !w->started || from < 1 || from >= w->next)
		return false;
	clear_all(w);
	w->next = w->delivered_end = from;
	w->start_movable = w->denied = false;
	w->jump_from = w->jump_to = 0;
	w->since_jump = 0;
	return true;
}

enum apus_dp_seq_verdict apus_dp_window_check(const struct apus_dp_window *w, apus_seq seq)
{
	if (seq < 1 || seq > APUS_DP_SEQ_MAX)
		return APUS_DP_SEQ_BEYOND;
	if (!w->started || seq == w->next)
		return w->started && bit_test(w->bits->held, seq) ? APUS_DP_SEQ_DUPLICATE
								  : APUS_DP_SEQ_NEW_IN_ORDER;
	if (seq < w->next)
		return can_move_start(w, seq) ? APUS_DP_SEQ_NEW_IN_ORDER : APUS_DP_SEQ_DUPLICATE;
	if (!w->reliable)
		return APUS_DP_SEQ_NEW_IN_ORDER;
	if (seq >= window_end(w))
		return APUS_DP_SEQ_BEYOND;
	if (bit_test(w->bits->settled, seq) || bit_test(w->bits->held, seq))
		return APUS_DP_SEQ_DUPLICATE;
	return APUS_DP_SEQ_NEW_OUT_OF_ORDER;
}

/** Settles one number of the window. */
static void settle(struct apus_dp_window *w, apus_seq seq)
{
	apus_seq before = w->next;

	if (!in_window(w, seq))
		return;
	bit_clear(w->bits->held, seq);
	bit_clear(w->bits->refused, seq);
	bit_set(w->bits->settled, seq);
	advance(w);
	note_jump(w, before);
}

void apus_dp_window_reject(struct apus_dp_window *w, apus_seq seq)
{
	if (!w->started || seq < w->next)
		start_at(w, seq, true);
	settle(w, seq);
}

void apus_dp_window_done(struct apus_dp_window *w, apus_seq seq)
{
	if (!w->reliable) {
		apus_dp_window_pass(w, seq);
		return;
	}
	appeared(w, seq);
	w->start_movable = false;
	w->delivered_end = seq_max(w->delivered_end, seq + 1);
	w->since_jump += w->since_jump < APUS_DP_WINDOW_NUMBERS;
	settle(w, seq);
}

uint32_t apus_dp_window_run(const struct apus_dp_window *w, apus_seq seq, uint32_t count)
{
	struct span s;

	if (seq < 1 || seq > APUS_DP_SEQ_MAX - (apus_seq)count || !w->started || seq < w->next)
		return 0;
	if (!w->reliable)
		return count;
	if (seq != w->next || w->far_end || count > APUS_DP_WINDOW_NUMBERS)
		return 0;
	s = span_begin(seq, count);
	while (span_next(&s))
		if ((w->bits->settled[s.word] | w->bits->held[s.word] | w->bits->refused[s.word]) &
		    s.mask)
			return 0;
	return count;
}

void apus_dp_window_done_run(struct apus_dp_window *w, apus_seq seq, uint32_t count)
{
	apus_seq last = seq + (apus_seq)count - 1, before = w->next;

	if (!w->reliable) {
		apus_dp_window_pass(w, seq);
		w->next = last; /* nothing is skipped from here on */
		apus_dp_window_pass(w, last);
		return;
	}
	appeared(w, last);
	w->start_movable = false;
	w->delivered_end = seq_max(w->delivered_end, last + 1);
	w->since_jump = w->since_jump + count < APUS_DP_WINDOW_NUMBERS ? w->since_jump + count
								       : APUS_DP_WINDOW_NUMBERS;
	w->next = last + 1; /* no bit is set on the way, */
	advance(w);         /* but some may be behind it */
	note_jump(w, before);
}

void apus_dp_window_hold(struct apus_dp_window *w, apus_seq seq)
{
	if (!w->started || !in_window(w, seq))
		return;
	appeared(w, seq);
	bit_clear(w->bits->refused, seq);
	bit_set(w->bits->held, seq);
}

bool apus_dp_window_refuse(struct apus_dp_window *w, apus_seq seq)
{
	bool first;

	if (!w->reliable) {
		apus_dp_window_pass(w, seq);
		return true;
	}
	appeared(w, seq);
	if (!in_window(w, seq))
		return false;
	first = !bit_test(w->bits->refused, seq);
	bit_clear(w->bits->held, seq);
	bit_set(w->bits->refused, seq);
	return first;
}

bool apus_dp_window_was_refused(const struct apus_dp_window *w, apus_seq seq)
{
	return w->started && in_window(w, seq) && bit_test(w->bits->refused, seq);
}

bool apus_dp_window_is_held(const struct apus_dp_window *w, apus_seq seq)
{
	return w->started && in_window(w, seq) && bit_test(w->bits->held, seq);
}

bool apus_dp_window_ready(const struct apus_dp_window *w, apus_seq *seq_out)
{
	if (!apus_dp_window_is_held(w, w->next))
		return false;
	*seq_out = w->next;
	return true;
}

bool apus_dp_window_gap(struct apus_dp_window *w, apus_seq start,
			const struct apus_wire_seqset *list)
{
	apus_seq end = seq_min(list->base, APUS_DP_SEQ_MAX + 1);
	apus_seq before;
	uint64_t lost;

	if (start < 1 || list->base < start || start > APUS_DP_SEQ_MAX)
		return false;
	if (!w->reliable) {
		apus_dp_window_note_gap(w, start, list);
		return false;
	}
	if (!w->started)
		start_at(w, start, false);
	before = w->next;
	lost = give_up(w, start, end, false);
	for (uint32_t i = 0; i < list->num_bits && i < APUS_WIRE_SET_BITS; i++) {
		if (end + i <= APUS_DP_SEQ_MAX && apus_wire_bit_test(list->bitmap, i))
			lost += give_up(w, end + i, end + i + 1, false);
	}
	apus_dp_window_add_lost(&w->lost, lost);
	note_jump(w, before);
	return w->next != before;
}

/** The window has come from `from`, one above what was delivered, to `to`: a jump in doubt if it is large;
 *  whatever was in doubt before is not any more. */
static void doubt(struct apus_dp_window *w, apus_seq from, apus_seq to)
{
	bool large = to - from > APUS_DP_WINDOW_JUMP;

	w->jump_from = large ? from : 0;
	w->jump_to = large ? to : 0;
	w->since_jump = 0;
}

/** Goes back to the first number that was not really delivered. Returns false if there is none. */
static bool restore(struct apus_dp_window *w, apus_seq first, apus_seq last)
{
	/* Nothing that came after a jump it denies was the writer's. */
	bool denied = w->jump_to > last + 1;
	apus_seq end = denied ? seq_min(w->delivered_end, w->jump_from) : w->delivered_end;
	apus_seq target = seq_max(first, end);

	if (w->start_movable) {
		start_at(w, last + 1, true);
	} else if (target > last + 1) {
		return false;
	} else {
		w->next = target;
		w->delivered_end = end;
		/* This HEARTBEAT may be the forged one: what it skips is in doubt in its turn, unless an
		 * earlier jump still is, the first of which a true one takes back. */
		if (target < w->jump_to || w->since_jump == APUS_DP_WINDOW_NUMBERS || !w->jump_to)
			doubt(w, end, target);
	}
	clear_all(w);
	w->lost_pending = 0;
	w->highest = last;
	return true;
}

enum apus_dp_denial apus_dp_window_deny(struct apus_dp_window *w, apus_seq seq)
{
	if (!w->reliable || !w->jump_to || seq < w->jump_from || seq >= w->jump_to ||
	    seq >= w->next || w->since_jump == APUS_DP_WINDOW_NUMBERS)
		return APUS_DP_DENY_NOTHING;
	w->heartbeat_count.at.ns = 0; /* the true one's count may look old */
	if (w->since_jump) {
		w->denied = true;
		return APUS_DP_DENY_ASK;
	}
	w->next = w->delivered_end = w->jump_from;
	w->highest = w->jump_from - 1;
	clear_all(w);
	w->lost_pending = 0;
	doubt(w, w->next, w->next);
	return APUS_DP_DENY_RESTORED;
}

/** Numbers below `first` are gone. */
static void lose_below(struct apus_dp_window *w, apus_seq first)
{
	/* What was gone before a transient-local reader came was never owed to it. */
	bool owed = w->heartbeat_seen || w->delivered_end > 1;
	bool large = first - w->next > APUS_DP_WINDOW_NUMBERS;
	uint64_t lost = give_up(w, w->next, first, true);

	if (owed)
		apus_dp_window_add_lost(large ? &w->lost_pending : &w->lost, lost);
}

unsigned apus_dp_window_heartbeat(struct apus_dp_window *w, apus_seq first, apus_seq last,
				  int32_t count, bool final, bool liveliness, struct apus_mono now)
{
	unsigned result = liveliness ? APUS_DP_HB_LIVELINESS : 0;
	apus_seq before;

	if (first < 1 || last < first - 1 || !apus_dp_count_accept(&w->heartbeat_count, count, now))
		return APUS_DP_HB_IGNORED;
	if (!w->reliable)
		return result;
	w->denied = false;
	first = seq_min(first, APUS_DP_SEQ_MAX + 1);
	last = seq_min(last, APUS_DP_SEQ_MAX);
	if (!w->started)
		start_at(w, last + 1, true);
	before = w->next;
	if (last + 1 < w->next) {
		if (restore(w, first, last))
			result |= APUS_DP_HB_RESTORED;
	} else {
		apus_dp_window_add_lost(&w->lost, w->lost_pending);
		w->lost_pending = 0;
		if (first > w->next)
			lose_below(w, first);
		w->highest = seq_max(last, w->delivered_end - 1);
	}
	note_jump(w, before);
	w->heartbeat_seen = true;
	if (w->next > before)
		result |= APUS_DP_HB_ADVANCED;
	if (!final || apus_dp_window_has_missing(w))
		result |= APUS_DP_HB_ACK;
	return result;
}

/** One above the highest number that can be asked for. */
static apus_seq ask_end(const struct apus_dp_window *w)
{
	return seq_max(w->next, seq_min(w->highest + 1, window_end(w)));
}

/** The first missing number, or ask_end(). */
static apus_seq first_missing(const struct apus_dp_window *w)
{
	apus_seq seq = w->next, end = ask_end(w);
	struct span s = span_begin(seq, (uint32_t)(end - seq));

	while (span_next(&s)) {
		uint64_t m = s.mask & ~w->bits->settled[s.word] & ~w->bits->held[s.word];

		if (m)
			return seq + __builtin_ctzll(m) - __builtin_ctzll(s.mask);
		seq += __builtin_popcountll(s.mask);
	}
	return end;
}

bool apus_dp_window_has_missing(const struct apus_dp_window *w)
{
	return w->reliable && w->started && first_missing(w) <= w->highest;
}

void apus_dp_window_acknack(const struct apus_dp_window *w, struct apus_wire_seqset *set_out,
			    bool *final_out)
{
	apus_seq end = ask_end(w);

	memset(set_out, 0, sizeof(*set_out));
	if (w->denied && w->jump_to && w->since_jump < APUS_DP_WINDOW_NUMBERS) {
		set_out->base = w->jump_from;
		*final_out = false;
		return;
	}
	set_out->base = w->started ? first_missing(w) : 1;
	for (apus_seq seq = set_out->base; seq < end && w->started; seq++) {
		if (seq - set_out->base >= APUS_WIRE_SET_BITS)
			break;
		if (!bit_test(w->bits->settled, seq) && !bit_test(w->bits->held, seq))
			(void)apus_wire_seqset_add(set_out, seq);
	}
	*final_out = w->heartbeat_seen && !apus_dp_window_has_missing(w);
}
