/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a reader's sequence window classifies, acknowledges and loses exactly the right numbers, at
 * constant cost, and finds back after forged ones. Method: the rules of window.h one by one with concrete
 * numbers; then random operations against a model that keeps one byte a number.
 */
#include "dataplane/window.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "wire/message.h"

#define SEC APUS_NS_PER_SEC

static struct apus_mono at(int64_t ns)
{
	return (struct apus_mono){1000 * SEC + ns};
}

static struct apus_dp_window started(enum apus_dp_window_start start)
{
	/* More than a test has at a time. */
	static struct apus_dp_window_bits bits[16];
	static unsigned used;
	struct apus_dp_window w;

	apus_dp_window_init(&w, &bits[used++ % 16], true, start);
	return w;
}

static bool gap(struct apus_dp_window *w, apus_seq start, apus_seq base)
{
	struct apus_wire_seqset set = {.base = base};

	return apus_dp_window_gap(w, start, &set);
}

static unsigned heartbeat(struct apus_dp_window *w, apus_seq first, apus_seq last)
{
	return apus_dp_window_heartbeat(w, first, last, w->heartbeat_count.last + 1, true, false,
					at(0));
}

/** Delivers a number and everything that was waiting for it. */
static void deliver(struct apus_dp_window *w, apus_seq seq)
{
	apus_dp_window_done(w, seq);
	while (apus_dp_window_ready(w, &seq))
		apus_dp_window_done(w, seq);
}

static void in_order_out_of_order_duplicate(void **state)
{
	struct apus_dp_window w = started(APUS_DP_FROM_FIRST);
	apus_seq seq = -7;

	(void)state;
	assert_int_equal(apus_dp_window_check(&w, 1), APUS_DP_SEQ_NEW_IN_ORDER);
	deliver(&w, 1);
	assert_int_equal(apus_dp_window_check(&w, 1), APUS_DP_SEQ_DUPLICATE);
	assert_int_equal(apus_dp_window_check(&w, 3), APUS_DP_SEQ_NEW_OUT_OF_ORDER);
	apus_dp_window_hold(&w, 3);
	assert_true(apus_dp_window_is_held(&w, 3));
	assert_int_equal(apus_dp_window_check(&w, 3), APUS_DP_SEQ_DUPLICATE);
	assert_false(apus_dp_window_ready(&w, &seq));
	assert_int_equal(seq, -7);
	apus_dp_window_done(&w, 2);
	assert_true(apus_dp_window_ready(&w, &seq));
	assert_int_equal(seq, 3);
	apus_dp_window_done(&w, 3);
	assert_int_equal(w.next, 4);
	assert_int_equal(apus_dp_window_check(&w, 4 + APUS_DP_WINDOW_NUMBERS), APUS_DP_SEQ_BEYOND);
	assert_int_equal(apus_dp_window_check(&w, 3 + APUS_DP_WINDOW_NUMBERS),
			 APUS_DP_SEQ_NEW_OUT_OF_ORDER);
	assert_int_equal(apus_dp_window_check(&w, 0), APUS_DP_SEQ_BEYOND);
	assert_int_equal(apus_dp_window_check(&w, -5), APUS_DP_SEQ_BEYOND);
	assert_int_equal(w.lost, 0);
}

/** Where a volatile reader starts: DATA, GAP and HEARTBEAT, each as the first thing heard. */
static void start_of_a_volatile_reader(void **state)
{
	struct apus_dp_window w = started(APUS_DP_FROM_MATCH);

	(void)state;
	assert_int_equal(apus_dp_window_check(&w, 41), APUS_DP_SEQ_NEW_IN_ORDER);
	deliver(&w, 41);
	assert_int_equal(w.next, 42);
	assert_int_equal(apus_dp_window_check(&w, 40), APUS_DP_SEQ_DUPLICATE);

	w = started(APUS_DP_FROM_MATCH);
	assert_true(gap(&w, 1, 30));
	assert_int_equal(w.next, 30);

	w = started(APUS_DP_FROM_MATCH);
	assert_int_equal(heartbeat(&w, 3, 10), 0); /* final, nothing wanted of 3 … 10 */
	assert_int_equal(w.next, 11);
	/* 9 was overtaken by that HEARTBEAT: it, and so 10, were written after the match. */
	assert_int_equal(apus_dp_window_check(&w, 9), APUS_DP_SEQ_NEW_IN_ORDER);
	deliver(&w, 9);
	assert_int_equal(w.next, 10);
	assert_true(apus_dp_window_has_missing(&w));
	assert_int_equal(apus_dp_window_check(&w, 8), APUS_DP_SEQ_DUPLICATE);
	assert_int_equal(w.lost, 0);
	/* Once something is delivered, nothing moves below it. */
	w = started(APUS_DP_FROM_MATCH);
	heartbeat(&w, 3, 10);
	deliver(&w, 11);
	assert_int_equal(apus_dp_window_check(&w, 9), APUS_DP_SEQ_DUPLICATE);
}

static void moving_the_start_never_aliases_held_numbers(void **state)
{
	struct apus_dp_window w = started(APUS_DP_FROM_MATCH);

	(void)state;
	heartbeat(&w, 1, 2000); /* next 2001 */
	apus_dp_window_hold(&w, 2001 + 1023);
	assert_int_equal(apus_dp_window_check(&w, 2000), APUS_DP_SEQ_DUPLICATE);
	w = started(APUS_DP_FROM_MATCH);
	heartbeat(&w, 1, 2000);
	assert_int_equal(apus_dp_window_check(&w, 3), APUS_DP_SEQ_NEW_IN_ORDER);
	apus_dp_window_hold(&w, 2001); /* not in use by 3 … but its ring place is */
	assert_int_equal(apus_dp_window_check(&w, 3), APUS_DP_SEQ_DUPLICATE);
	assert_int_equal(apus_dp_window_check(&w, 2000), APUS_DP_SEQ_NEW_IN_ORDER);
}

static void history_before_the_match_is_not_lost(void **state)
{
	struct apus_dp_window w = started(APUS_DP_FROM_FIRST);

	(void)state;
	assert_int_equal(heartbeat(&w, 91, 100), APUS_DP_HB_ACK | APUS_DP_HB_ADVANCED);
	assert_int_equal(w.next, 91);
	assert_int_equal(w.lost, 0);
	deliver(&w, 91);
	/* 92 … 94 are gone before they came: these are lost. */
	assert_int_equal(heartbeat(&w, 95, 100), APUS_DP_HB_ACK | APUS_DP_HB_ADVANCED);
	assert_int_equal(w.lost, 3);
	/* Held samples survive the writer's forgetting them. */
	apus_dp_window_hold(&w, 97);
	heartbeat(&w, 101, 100);
	assert_int_equal(w.next, 97);
	assert_int_equal(w.lost, 8); /* and 95, 96, 98, 99, 100 */
	deliver(&w, 97);
	assert_int_equal(w.next, 101);
	assert_int_equal(w.lost, 8);
}

static void heartbeat_flags_and_counts(void **state)
{
	struct apus_dp_window w = started(APUS_DP_FROM_FIRST);

	(void)state;
	assert_int_equal(apus_dp_window_heartbeat(&w, 1, 0, 10, true, false, at(0)), 0);
	/* Not final: to be answered although nothing is missing. */
	assert_int_equal(apus_dp_window_heartbeat(&w, 1, 0, 11, false, true, at(1)),
			 APUS_DP_HB_ACK | APUS_DP_HB_LIVELINESS);
	assert_int_equal(apus_dp_window_heartbeat(&w, 1, 5, 11, false, true, at(2)),
			 APUS_DP_HB_IGNORED);
	assert_int_equal(apus_dp_window_heartbeat(&w, 1, 5, 3, false, false, at(3)),
			 APUS_DP_HB_IGNORED);
	assert_int_equal(w.highest, 0);
	assert_int_equal(apus_dp_window_heartbeat(&w, 0, 5, 12, true, false, at(3)),
			 APUS_DP_HB_IGNORED);
	assert_int_equal(apus_dp_window_heartbeat(&w, 5, 3, 12, true, false, at(3)),
			 APUS_DP_HB_IGNORED);
	assert_int_equal(apus_dp_window_heartbeat(&w, 1, 5, 12, true, false, at(4)),
			 APUS_DP_HB_ACK);
}

static void forged_counts_silence_a_writer_for_a_second(void **state)
{
	struct apus_dp_count c = {0};

	(void)state;
	assert_true(apus_dp_count_accept(&c, INT32_MIN, at(0))); /* the first, whatever it is */
	c = (struct apus_dp_count){0};
	assert_true(apus_dp_count_accept(&c, 7, at(0)));
	assert_false(apus_dp_count_accept(&c, 7, at(0)));
	assert_true(apus_dp_count_accept(&c, INT32_MIN + 6, at(1))); /* forged: 7 + 2^31 - 1 */
	assert_false(apus_dp_count_accept(&c, 8, at(2)));
	assert_false(apus_dp_count_accept(&c, 9, at(SEC)));
	assert_true(apus_dp_count_accept(&c, 10, at(SEC + 1)));
	assert_true(apus_dp_count_accept(&c, 11, at(SEC + 2)));
	assert_true(apus_dp_count_accept(&c, INT32_MAX, at(SEC + 3)));
	assert_true(apus_dp_count_accept(&c, INT32_MIN, at(SEC + 4))); /* wraps */
}

static void acknack_names_what_is_missing(void **state)
{
	struct apus_dp_window w = started(APUS_DP_FROM_FIRST);
	struct apus_wire_seqset set;
	bool final;

	(void)state;
	/* Pre-emptive: base 1, no bits, wants a HEARTBEAT. */
	apus_dp_window_acknack(&w, &set, &final);
	assert_int_equal(set.base, 1);
	assert_int_equal(set.num_bits, 0);
	assert_false(final);
	deliver(&w, 1);
	apus_dp_window_hold(&w, 4);
	heartbeat(&w, 1, 6);
	apus_dp_window_acknack(&w, &set, &final);
	assert_int_equal(set.base, 2);
	assert_int_equal(set.num_bits, 5);
	assert_int_equal(set.bitmap[0], 0xd8000000); /* 2 3 . 5 6 */
	assert_false(final);
	heartbeat(&w, 1, 4);
	deliver(&w, 2);
	deliver(&w, 3);
	apus_dp_window_acknack(&w, &set, &final);
	assert_int_equal(set.base, 5);
	assert_int_equal(set.num_bits, 0);
	assert_true(final);
	/* Never more than 256, never beyond the window. */
	heartbeat(&w, 1, INT64_MAX);
	apus_dp_window_acknack(&w, &set, &final);
	assert_int_equal(set.base, 5);
	assert_int_equal(set.num_bits, 256);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(set.bitmap[i], 0xffffffff);
}

/** Base passes over what is held in front, and a hole after 300 held numbers is still found. */
static void acknack_base_is_the_first_missing(void **state)
{
	struct apus_dp_window w = started(APUS_DP_FROM_FIRST);
	struct apus_wire_seqset set;
	bool final;

	(void)state;
	for (apus_seq s = 2; s <= 300; s++)
		apus_dp_window_hold(&w, s);
	heartbeat(&w, 1, 302);
	apus_dp_window_acknack(&w, &set, &final);
	assert_int_equal(set.base, 1);
	assert_int_equal(set.num_bits, 1); /* 301 and 302 are more than 255 above */
	apus_dp_window_done(&w, 1);        /* 2 is ready and waits for its delivery */
	apus_dp_window_acknack(&w, &set, &final);
	assert_int_equal(set.base, 301);
	assert_int_equal(set.num_bits, 2);
}

static void gaps_with_lists(void **state)
{
	struct apus_dp_window w = started(APUS_DP_FROM_FIRST);
	/* 1 … 4 and 6, 8 */
	struct apus_wire_seqset set = {.base = 5, .num_bits = 4, .bitmap = {0x50000000}};

	(void)state;
	assert_true(apus_dp_window_gap(&w, 1, &set));
	assert_int_equal(w.next, 5);
	deliver(&w, 5);
	assert_int_equal(w.next, 7);
	deliver(&w, 7);
	assert_int_equal(w.next, 9);
	assert_int_equal(w.lost, 0);
	assert_false(gap(&w, 2, 9)); /* old news */
	assert_false(gap(&w, 0, 90));
	assert_false(gap(&w, 20, 10));
	assert_int_equal(w.next, 9);
}

/** 2^62 numbers cost what ten cost: the test ends. */
static void huge_ranges(void **state)
{
	const apus_seq huge = INT64_C(1) << 62;
	struct apus_dp_window w = started(APUS_DP_FROM_FIRST);

	(void)state;
	gap(&w, 2, huge); /* 1 is missing: only remembered */
	assert_int_equal(w.next, 1);
	assert_int_equal(apus_dp_window_check(&w, 1000), APUS_DP_SEQ_DUPLICATE);
	deliver(&w, 1);
	assert_int_equal(w.next, huge);
	deliver(&w, huge);
	heartbeat(&w, huge + huge / 2, huge + huge / 2 + 3);
	assert_int_equal(w.next, huge + huge / 2);
	assert_int_equal(w.lost, 0); /* not before something confirms it */
	deliver(&w, w.next);
	assert_int_equal(w.lost, huge / 2 - 1);
}

static void numbers_near_the_end(void **state)
{
	struct apus_dp_window w = started(APUS_DP_FROM_MATCH);
	struct apus_wire_seqset set = {.base = INT64_MAX, .num_bits = 256};
	bool final;

	(void)state;
	memset(set.bitmap, 0xff, sizeof(set.bitmap));
	assert_int_equal(apus_dp_window_check(&w, INT64_MAX), APUS_DP_SEQ_BEYOND);
	assert_int_equal(apus_dp_window_check(&w, APUS_DP_SEQ_MAX), APUS_DP_SEQ_NEW_IN_ORDER);
	deliver(&w, APUS_DP_SEQ_MAX - 1);
	deliver(&w, APUS_DP_SEQ_MAX);
	assert_int_equal(w.next, APUS_DP_SEQ_MAX + 1);
	assert_int_equal(apus_dp_window_check(&w, w.next), APUS_DP_SEQ_BEYOND);
	apus_dp_window_gap(&w, APUS_DP_SEQ_MAX, &set);
	heartbeat(&w, INT64_MAX, INT64_MAX);
	heartbeat(&w, INT64_MAX, INT64_MAX - 1);
	apus_dp_window_acknack(&w, &set, &final);
	assert_int_equal(w.next, APUS_DP_SEQ_MAX + 1);
	assert_int_equal(set.num_bits, 0);
	assert_int_equal(w.lost, 0);
}

/** Decision of the refusal: stays missing, is counted once, and is lost when it finally goes. */
static void refused_numbers(void **state)
{
	struct apus_dp_window w = started(APUS_DP_FROM_FIRST);

	(void)state;
	assert_true(apus_dp_window_refuse(&w, 1));
	assert_false(apus_dp_window_refuse(&w, 1));
	assert_true(apus_dp_window_was_refused(&w, 1));
	assert_true(apus_dp_window_has_missing(&w));
	assert_int_equal(apus_dp_window_check(&w, 1), APUS_DP_SEQ_NEW_IN_ORDER);
	apus_dp_window_hold(&w, 2);
	deliver(&w, 1);
	assert_false(apus_dp_window_was_refused(&w, 1));
	assert_int_equal(w.next, 3);
	assert_int_equal(w.lost, 0);
	assert_true(apus_dp_window_refuse(&w, 3));
	gap(&w, 3, 5); /* 3 had been there, 4 never: one is lost */
	assert_int_equal(w.lost, 1);
	assert_true(apus_dp_window_refuse(&w, 5));
	heartbeat(&w, 6, 5);
	assert_int_equal(w.lost, 2);
	assert_int_equal(w.next, 6);
}

/** GAP 2 … 2^40 and HEARTBEAT far ahead, forged; then true ones. */
static void forged_jumps_are_undone(void **state)
{
	struct apus_dp_window w = started(APUS_DP_FROM_FIRST);
	const apus_seq far = INT64_C(1) << 40;

	(void)state;
	heartbeat(&w, 1, 0);
	deliver(&w, 1);
	gap(&w, 2, far);
	assert_int_equal(w.next, far);
	assert_int_equal(heartbeat(&w, 1, 3), APUS_DP_HB_RESTORED | APUS_DP_HB_ACK);
	assert_int_equal(w.next, 2);
	deliver(&w, 2);
	heartbeat(&w, far, far + 5);
	assert_int_equal(w.next, far);
	assert_int_equal(heartbeat(&w, 1, 4), APUS_DP_HB_RESTORED | APUS_DP_HB_ACK);
	assert_int_equal(w.next, 3);
	assert_int_equal(w.lost, 0);
	deliver(&w, 3);
	deliver(&w, 4);
	/* A true HEARTBEAT far ahead of nothing: what is announced is asked for, until it is taken back. */
	assert_int_equal(heartbeat(&w, 1, far), APUS_DP_HB_ACK);
	assert_int_equal(heartbeat(&w, 1, 4), 0);
	assert_false(apus_dp_window_has_missing(&w));
	/* An old HEARTBEAT does not take back what was delivered. */
	assert_int_equal(heartbeat(&w, 1, 2), 0);
	assert_int_equal(w.next, 5);
	/* The same for a volatile reader that has only heard the forged one. */
	w = started(APUS_DP_FROM_MATCH);
	heartbeat(&w, far, far + 5);
	assert_int_equal(heartbeat(&w, 1, 7), APUS_DP_HB_RESTORED);
	assert_int_equal(w.next, 8);
}

/* Data after a forged jump must not make the jump true: 2^40 is delivered, and the writer still wins. */
static void forged_data_after_a_forged_jump(void **state)
{
	const apus_seq far = INT64_C(1) << 40;
	struct apus_wire_seqset to_far = {.base = far};
	struct apus_dp_window_bits bits = {0};
	struct apus_dp_window w;
	int32_t count = 0;

	(void)state;
	apus_dp_window_init(&w, &bits, true, APUS_DP_FROM_FIRST);
	for (apus_seq seq = 1; seq <= 10; seq++)
		apus_dp_window_done(&w, seq);
	apus_dp_window_gap(&w, 11, &to_far);
	for (apus_seq seq = far; seq < far + 100; seq++) {
		assert_int_equal(apus_dp_window_check(&w, seq), APUS_DP_SEQ_NEW_IN_ORDER);
		apus_dp_window_done(&w, seq);
	}
	assert_true(apus_dp_window_heartbeat(&w, 1, 12, ++count, true, false, at(0)) &
		    APUS_DP_HB_RESTORED);
	assert_int_equal(w.next, 11);
	assert_int_equal(apus_dp_window_check(&w, 11), APUS_DP_SEQ_NEW_IN_ORDER);

	/* A jump that the writer made itself is true once a window's worth has followed it. */
	apus_dp_window_heartbeat(&w, far, far, ++count, true, false, at(0));
	for (apus_seq seq = far; seq < far + APUS_DP_WINDOW_NUMBERS; seq++)
		apus_dp_window_done(&w, seq);
	apus_dp_window_heartbeat(&w, far, far + 5000, ++count, true, false, at(0));
	assert_int_equal(w.next, far + APUS_DP_WINDOW_NUMBERS);
	to_far.base = 2 * far;
	apus_dp_window_gap(&w, w.next, &to_far);
	assert_true(apus_dp_window_heartbeat(&w, far, far + 5000, ++count, true, false, at(0)) &
		    APUS_DP_HB_RESTORED);
	assert_int_equal(w.next, far + APUS_DP_WINDOW_NUMBERS);
}

/* A DATA that a jump has skipped takes it back, if nothing was delivered behind it. */
static void data_denies_a_jump(void **state)
{
	const apus_seq far = INT64_C(1) << 40;
	struct apus_dp_window w = started(APUS_DP_FROM_FIRST);
	struct apus_wire_seqset set;
	bool final;

	(void)state;
	heartbeat(&w, 1, 0);
	deliver(&w, 1);
	assert_int_equal(apus_dp_window_deny(&w, 1), APUS_DP_DENY_NOTHING);
	gap(&w, 2, 40); /* too small to be in doubt */
	assert_int_equal(apus_dp_window_deny(&w, 3), APUS_DP_DENY_NOTHING);
	gap(&w, 40, far);
	assert_int_equal(apus_dp_window_deny(&w, 1), APUS_DP_DENY_NOTHING);
	assert_int_equal(apus_dp_window_deny(&w, far), APUS_DP_DENY_NOTHING);
	assert_int_equal(apus_dp_window_check(&w, 41), APUS_DP_SEQ_DUPLICATE);
	assert_int_equal(apus_dp_window_deny(&w, 41), APUS_DP_DENY_RESTORED);
	assert_int_equal(w.next, 2);
	assert_int_equal(apus_dp_window_check(&w, 41), APUS_DP_SEQ_NEW_OUT_OF_ORDER);
	assert_int_equal(w.lost, 0);
	/* A count that looks old is believed. */
	assert_true(apus_dp_window_heartbeat(&w, 1, 41, -5, false, false, at(1)) & APUS_DP_HB_ACK);
	deliver(&w, 2);

	/* Behind this one something was delivered: it is told apart from a late duplicate by asking. */
	gap(&w, 3, far);
	deliver(&w, far);
	assert_int_equal(apus_dp_window_deny(&w, 3), APUS_DP_DENY_ASK);
	assert_int_equal(w.next, far + 1);
	apus_dp_window_acknack(&w, &set, &final);
	assert_int_equal(set.base, 3);
	assert_int_equal(set.num_bits, 0);
	assert_false(final);
	/* It was a duplicate: the jump stands. */
	assert_int_equal(apus_dp_window_heartbeat(&w, far, far, -4, true, false, at(2)), 0);
	assert_int_equal(w.next, far + 1);
	apus_dp_window_acknack(&w, &set, &final);
	assert_int_equal(set.base, far + 1);
	assert_true(final);
	/* It was none: the jump is taken back. */
	assert_int_equal(apus_dp_window_deny(&w, 3), APUS_DP_DENY_ASK);
	assert_true(apus_dp_window_heartbeat(&w, 1, 7, -9, true, false, at(3)) &
		    APUS_DP_HB_RESTORED);
	assert_int_equal(w.next, 3);
}

/* A forged HEARTBEAT that fits the forged jumps must not make the first of them forgotten. */
static void forged_heartbeat_after_forged_data(void **state)
{
	const apus_seq far = INT64_C(1) << 40;
	struct apus_wire_seqset small = {.base = 200}, large = {.base = far},
				end = {.base = far + 900};
	struct apus_dp_window_bits bits = {0};
	struct apus_dp_window w;
	int32_t count = 0;

	(void)state;
	apus_dp_window_init(&w, &bits, true, APUS_DP_FROM_FIRST);
	for (apus_seq seq = 1; seq <= 10; seq++)
		apus_dp_window_done(&w, seq);
	apus_dp_window_gap(&w, 11, &small);
	apus_dp_window_gap(&w, 11, &large);
	apus_dp_window_done(&w, far);
	apus_dp_window_gap(&w, 11, &end);
	assert_int_equal(w.next, far + 900);
	assert_true(
		apus_dp_window_heartbeat(&w, far + 500, far + 600, ++count, true, false, at(0)) &
		APUS_DP_HB_RESTORED);
	assert_int_equal(w.next, far + 500);
	assert_true(apus_dp_window_heartbeat(&w, 1, 12, ++count, true, false, at(0)) &
		    APUS_DP_HB_RESTORED);
	assert_int_equal(w.next, 11);
}

static void numbers_done_with_are_wanted_once_more(void **state)
{
	struct apus_dp_window w = started(APUS_DP_FROM_FIRST);
	struct apus_wire_seqset set;
	bool final;

	(void)state;
	heartbeat(&w, 1, 5);
	for (apus_seq seq = 1; seq <= 4; seq++)
		deliver(&w, seq);
	assert_false(apus_dp_window_reopen(&w, 0));
	assert_false(apus_dp_window_reopen(&w, 5)); /* not done with */
	assert_int_equal(w.next, 5);
	assert_true(apus_dp_window_reopen(&w, 3));
	apus_dp_window_acknack(&w, &set, &final);
	assert_int_equal(set.base, 3);
	assert_int_equal(set.num_bits, 3);
	assert_false(final);
	assert_int_equal(apus_dp_window_check(&w, 2), APUS_DP_SEQ_DUPLICATE);
	assert_int_equal(apus_dp_window_check(&w, 3), APUS_DP_SEQ_NEW_IN_ORDER);
	/* A HEARTBEAT that says the same changes nothing, and what is gone by now ends the wait. */
	heartbeat(&w, 1, 5);
	assert_int_equal(w.next, 3);
	heartbeat(&w, 5, 5);
	assert_int_equal(w.next, 5);
	deliver(&w, 5);
	assert_int_equal(w.next, 6);
	apus_dp_window_init(&w, w.bits, false, APUS_DP_FROM_MATCH);
	deliver(&w, 3);
	assert_false(apus_dp_window_reopen(&w, 2));
}

static void best_effort(void **state)
{
	struct apus_dp_window_bits bits = {0};
	struct apus_dp_window w;

	(void)state;
	apus_dp_window_init(&w, &bits, false, APUS_DP_FROM_FIRST);
	assert_int_equal(apus_dp_window_check(&w, 50), APUS_DP_SEQ_NEW_IN_ORDER);
	apus_dp_window_done(&w, 50);
	assert_int_equal(w.lost, 0);
	assert_int_equal(apus_dp_window_check(&w, 49), APUS_DP_SEQ_DUPLICATE);
	assert_int_equal(apus_dp_window_check(&w, 50), APUS_DP_SEQ_DUPLICATE);
	assert_int_equal(apus_dp_window_check(&w, 50000), APUS_DP_SEQ_NEW_IN_ORDER);
	apus_dp_window_done(&w, 53);
	assert_int_equal(w.lost, 2);
	assert_false(gap(&w, 54, 60));
	assert_int_equal(w.next, 54);
	apus_dp_window_done(&w, 60);
	assert_int_equal(w.lost, 2);
	assert_true(apus_dp_window_refuse(&w, 61));
	assert_int_equal(w.next, 62);
	assert_int_equal(apus_dp_window_heartbeat(&w, 70, 90, 1, false, true, at(0)),
			 APUS_DP_HB_LIVELINESS);
	assert_false(apus_dp_window_has_missing(&w));
	assert_int_equal(w.next, 62);
}

static uint64_t rng_state;

static uint32_t rnd(uint32_t n)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return (uint32_t)((rng_state >> 20) % n);
}

/** A best-effort window that has had sample 10. */
static struct apus_dp_window best_effort_at_10(void)
{
	static struct apus_dp_window_bits bits; /* of the one a test has at a time */
	struct apus_dp_window w;

	apus_dp_window_init(&w, &bits, false, APUS_DP_FROM_MATCH);
	gap(&w, 1, 7); /* before anything has come it says nothing */
	apus_dp_window_done(&w, 10);
	assert_int_equal(w.lost, 0);
	return w;
}

static void pass(struct apus_dp_window *w, apus_seq seq, uint64_t lost)
{
	uint64_t before = w->lost;

	assert_int_equal(apus_dp_window_check(w, seq), APUS_DP_SEQ_NEW_IN_ORDER);
	assert_int_equal(apus_dp_window_skips(w, seq), lost);
	apus_dp_window_done(w, seq);
	assert_int_equal(w->lost - before, lost);
	assert_int_equal(w->next, seq + 1);
}

/** What a GAP names in front of a sample is not lost, however much it is; what it does not name is. */
static void best_effort_gaps_before_samples(void **state)
{
	const apus_seq far = (apus_seq)1 << 40;
	struct apus_wire_seqset list = {.base = 16, .num_bits = 8};
	struct apus_dp_window w = best_effort_at_10();

	(void)state;
	gap(&w, 11, far);
	pass(&w, far, 0);
	gap(&w, far + 1, far + 2000);
	pass(&w, far + 2000, 0);
	pass(&w, far + 2002, 1); /* no GAP any more */

	w = best_effort_at_10();
	gap(&w, 13, 20); /* 11, 12 were sent and have not come; nor has 20 */
	pass(&w, 21, 3);
	gap(&w, 5, 30); /* begins below */
	pass(&w, 30, 0);
	gap(&w, 20, 25); /* late */
	pass(&w, 32, 1);

	/* Several, in order, for a sample with 14 between them lost; bits of a list. */
	w = best_effort_at_10();
	gap(&w, 11, 14);
	list.bitmap[0] = 0x50000000; /* 17, 19 */
	assert_false(apus_dp_window_gap(&w, 15, &list));
	pass(&w, 22, 5); /* 14, 16, 18, 20, 21 */

	/* A sample in front of a range leaves it as it is. */
	w = best_effort_at_10();
	gap(&w, 11, 13);
	gap(&w, 16, 20);
	pass(&w, 14, 1);
	pass(&w, 20, 1);
	/* The same range again, and grown. */
	gap(&w, 21, 25);
	gap(&w, 21, 25);
	gap(&w, 21, 28);
	pass(&w, 29, 1);
	/* Refused samples are passed like others. */
	gap(&w, 30, 40);
	assert_true(apus_dp_window_refuse(&w, 40));
	assert_int_equal(w.lost, 3);
}

/** Forged: whatever is named, the samples come, and what they skip is lost but for what true GAPs name. */
static void best_effort_forged_gaps(void **state)
{
	const apus_seq far = (apus_seq)1 << 40;
	struct apus_wire_seqset end = {.base = INT64_MAX, .num_bits = 256};
	struct apus_dp_window w = best_effort_at_10();

	(void)state;
	memset(end.bitmap, 0xff, sizeof(end.bitmap));
	gap(&w, 2, far);
	pass(&w, 11, 0);
	gap(&w, 2, far);
	pass(&w, 14, 2); /* 14 itself denies it */
	pass(&w, 17, 2); /* and it is forgotten */
	/* In front of a true one. */
	gap(&w, 2, far);
	gap(&w, 20, 25);
	pass(&w, 25, 2);
	/* Behind where the samples are: in force until they get there. */
	gap(&w, 30, far);
	gap(&w, 26, 28);
	pass(&w, 29, 1);
	gap(&w, 40, far);
	pass(&w, 32, 2);
	pass(&w, 45, 12);
	assert_false(apus_dp_window_gap(&w, APUS_DP_SEQ_MAX, &end));
	assert_false(apus_dp_window_gap(&w, 46, &end));
	pass(&w, 47, 1);
	assert_false(gap(&w, 0, far));
	assert_false(gap(&w, 60, 50));
	assert_false(gap(&w, -5, 50));
	pass(&w, 49, 1);
	pass(&w, APUS_DP_SEQ_MAX, (uint64_t)(APUS_DP_SEQ_MAX - 50));
	assert_int_equal(apus_dp_window_check(&w, APUS_DP_SEQ_MAX + 1), APUS_DP_SEQ_BEYOND);
}

/** Ranges that lie above the sample excuse nothing to it, nor to those that follow, however many there are. */
static void best_effort_gaps_beyond(void **state)
{
	const apus_seq far = (apus_seq)1 << 40;
	struct apus_wire_seqset bit = {.base = 2 * far, .num_bits = 1, .bitmap = {0x80000000}};
	struct apus_dp_window w = best_effort_at_10();

	(void)state;
	gap(&w, far, 2 * far);
	gap(&w, (apus_seq)1 << 62, ((apus_seq)1 << 62) + 1);
	pass(&w, 1000, 989);
	for (apus_seq seq = 2000; seq <= 100000; seq += 1000)
		pass(&w, seq, 999);
	/* True ones go on counting below them. */
	gap(&w, 100001, 100007);
	pass(&w, 100009, 2);
	gap(&w, 100010, 100013);
	gap(&w, 100014, 100016);
	pass(&w, 100016, 1);

	w = best_effort_at_10();
	assert_false(apus_dp_window_gap(&w, far, &bit));
	pass(&w, 110, 99);

	/* Only what is below the sample may excuse it; the rest stays for the next. */
	w = best_effort_at_10();
	gap(&w, 25, 30);
	gap(&w, 35, 40);
	pass(&w, 22, 11);
	pass(&w, 40, 7); /* 23, 24, 30…34 */
	/* Nothing is counted twice when a range takes in others. */
	gap(&w, 43, 48);
	gap(&w, 53, 58);
	gap(&w, 43, 58);
	pass(&w, 59, 3); /* 41, 42, 58 */
	/* One that another has overtaken counts beside it. */
	gap(&w, 70, 75);
	gap(&w, 60, 65);
	pass(&w, 66, 1);
	pass(&w, 75, 3); /* 67…69 */
}

/** A writer that filters, each of whose datagrams, a GAP and a sample, may be lost: then what it spoke of is. With
 *  forged GAPs between them every sample is taken all the same, and no more than that is lost. */
static void best_effort_stream(bool forged)
{
	struct apus_dp_window w = best_effort_at_10();
	apus_seq seq = 10;
	uint64_t lost = 0;

	rng_state = 7;
	for (int i = 0; i < 100000; i++) {
		apus_seq run = rnd(3) ? rnd(4) : rnd(5000);

		if (forged && rnd(4) == 0)
			gap(&w, w.next + rnd(30), (apus_seq)1 << (20 + rnd(20)));
		seq += run + 1;
		if (rnd(5) == 0) {
			lost += (uint64_t)run + 1;
			continue;
		}
		if (run)
			gap(&w, seq - run, seq);
		if (forged && apus_dp_window_skips(&w, seq) < lost)
			lost = apus_dp_window_skips(&w, seq);
		pass(&w, seq, lost);
		lost = 0;
	}
}

static void best_effort_random(void **state)
{
	(void)state;
	best_effort_stream(false);
	best_effort_stream(true);
}

/* ---- random operations against a model ------------------------------------------------------ */

#define UNIVERSE (1 << 16)
#define MARGIN   16384

enum { MISSING, SETTLED, HELD };

/** What the head of window.h says, one byte a number. */
struct model {
	uint8_t state[UNIVERSE];
	bool refused[UNIVERSE];
	apus_seq next, highest, delivered_end, far_first, far_end, jump_from, jump_to, since_jump;
	uint64_t lost, pending;
	bool heartbeat_seen;
};

static void model_advance(struct model *m)
{
	while (m->state[m->next] == SETTLED)
		m->next++;
	if (m->far_end && m->next >= m->far_first) {
		if (m->far_end > m->next)
			m->next = m->far_end;
		m->far_first = m->far_end = 0;
	}
	for (; m->far_first < m->far_end && m->far_first < m->next + APUS_DP_WINDOW_NUMBERS;
	     m->far_first++)
		m->state[m->far_first] = SETTLED;
	if (m->far_first >= m->far_end)
		m->far_first = m->far_end = 0;
}

static uint64_t model_give_up(struct model *m, apus_seq first, apus_seq end, bool lost)
{
	apus_seq limit = m->next + APUS_DP_WINDOW_NUMBERS, n = first < m->next ? m->next : first;
	uint64_t count = 0;

	for (; n < end && n < limit; n++) {
		if (m->state[n] != MISSING)
			continue;
		count += lost || m->refused[n];
		m->state[n] = SETTLED;
		m->refused[n] = false;
	}
	if (n < end) {
		for (apus_seq i = n; lost && i < end; i++)
			count += !(i >= m->far_first && i < m->far_end);
		if (m->far_end == 0 || end < m->far_first) {
			m->far_first = n;
			m->far_end = end;
		} else if (n <= m->far_end) {
			m->far_first = n < m->far_first ? n : m->far_first;
			m->far_end = end > m->far_end ? end : m->far_end;
		}
	}
	model_advance(m);
	return count;
}

static void model_jump(struct model *m, apus_seq before)
{
	if (m->next == before || m->next - m->delivered_end <= APUS_DP_WINDOW_JUMP ||
	    (m->jump_to && m->since_jump < APUS_DP_WINDOW_NUMBERS))
		return;
	m->jump_from = m->delivered_end;
	m->jump_to = m->next;
	m->since_jump = 0;
}

static void model_appeared(struct model *m, apus_seq seq)
{
	if (seq > m->highest)
		m->highest = seq;
	m->lost += m->pending;
	m->pending = 0;
}

static void both_done(struct apus_dp_window *w, struct model *m, apus_seq seq)
{
	apus_seq before;

	apus_dp_window_done(w, seq);
	model_appeared(m, seq);
	if (seq + 1 > m->delivered_end)
		m->delivered_end = seq + 1;
	m->since_jump++;
	m->state[seq] = SETTLED;
	m->refused[seq] = false;
	before = m->next;
	model_advance(m);
	model_jump(m, before);
}

static void both_refuse(struct apus_dp_window *w, struct model *m, apus_seq seq)
{
	assert_int_equal(apus_dp_window_refuse(w, seq), !m->refused[seq]);
	model_appeared(m, seq);
	m->state[seq] = MISSING;
	m->refused[seq] = true;
}

static void step_data(struct apus_dp_window *w, struct model *m)
{
	apus_seq seq = m->next - 4 + rnd(rnd(4) ? 40 : APUS_DP_WINDOW_NUMBERS + 20);
	enum apus_dp_seq_verdict want = APUS_DP_SEQ_NEW_OUT_OF_ORDER;

	if (rnd(2))
		seq = m->next;
	if (seq < 1 || seq >= m->next + APUS_DP_WINDOW_NUMBERS)
		want = APUS_DP_SEQ_BEYOND;
	else if (seq < m->next || m->state[seq] != MISSING)
		want = APUS_DP_SEQ_DUPLICATE;
	else if (seq == m->next)
		want = APUS_DP_SEQ_NEW_IN_ORDER;
	assert_int_equal(apus_dp_window_check(w, seq), want);
	if (want == APUS_DP_SEQ_NEW_OUT_OF_ORDER) {
		apus_dp_window_hold(w, seq);
		model_appeared(m, seq);
		m->state[seq] = HELD;
		m->refused[seq] = false;
	} else if (want == APUS_DP_SEQ_NEW_IN_ORDER) {
		if (rnd(5))
			both_done(w, m, seq);
		else
			both_refuse(w, m, seq);
	}
}

static void step_ready(struct apus_dp_window *w, struct model *m)
{
	apus_seq seq;

	while (m->state[m->next] == HELD) {
		assert_true(apus_dp_window_ready(w, &seq));
		assert_int_equal(seq, m->next);
		if (rnd(20))
			both_done(w, m, seq);
		else
			both_refuse(w, m, seq);
	}
	assert_false(apus_dp_window_ready(w, &seq));
}

static void step_gap(struct apus_dp_window *w, struct model *m)
{
	apus_seq start = m->next - 8 + rnd(rnd(3) ? 30 : 1200);
	apus_seq base = start + rnd(rnd(4) ? 8 : 2000);
	struct apus_wire_seqset set = {.base = base, .num_bits = rnd(257)};
	apus_seq before = m->next;

	for (uint32_t i = 0; i < set.num_bits; i++) {
		if (rnd(6) == 0)
			apus_wire_bit_set(set.bitmap, i);
	}
	if (start >= 1) {
		m->lost += model_give_up(m, start, base, false);
		for (uint32_t i = 0; i < set.num_bits; i++) {
			if (apus_wire_bit_test(set.bitmap, i))
				m->lost += model_give_up(m, base + i, base + i + 1, false);
		}
	}
	model_jump(m, before);
	assert_int_equal(apus_dp_window_gap(w, start, &set), m->next != before);
}

static void model_heartbeat(struct model *m, apus_seq first, apus_seq last)
{
	apus_seq before = m->next;

	if (last + 1 < m->next) {
		bool denied = m->jump_to > last + 1;
		apus_seq end =
			denied && m->jump_from < m->delivered_end ? m->jump_from : m->delivered_end;
		apus_seq target = first > end ? first : end;

		if (target <= last + 1) {
			memset(m->state + target, MISSING, (size_t)(UNIVERSE - target));
			memset(m->refused + target, 0, (size_t)(UNIVERSE - target));
			m->next = target;
			m->delivered_end = end;
			if (target < m->jump_to || m->jump_to == 0 ||
			    m->since_jump >= APUS_DP_WINDOW_NUMBERS) {
				bool large = target - end > APUS_DP_WINDOW_JUMP;

				m->jump_from = large ? end : 0;
				m->jump_to = large ? target : 0;
				m->since_jump = 0;
			}
			m->far_first = m->far_end = 0;
			m->pending = 0;
			m->highest = last;
		}
	} else {
		m->lost += m->pending;
		m->pending = 0;
		if (first > m->next) {
			bool owed = m->heartbeat_seen || m->delivered_end > 1;
			bool large = first - m->next > APUS_DP_WINDOW_NUMBERS;
			uint64_t lost = model_give_up(m, m->next, first, true);

			if (owed)
				*(large ? &m->pending : &m->lost) += lost;
		}
		m->highest = last > m->delivered_end - 1 ? last : m->delivered_end - 1;
	}
	m->heartbeat_seen = true;
	model_jump(m, before);
}

static void step_heartbeat(struct apus_dp_window *w, struct model *m, int32_t *count)
{
	apus_seq first = m->next - 20 + rnd(rnd(8) ? 22 : 1500);
	apus_seq last;

	if (first < 1)
		first = 1;
	last = first - 1 + rnd(rnd(4) ? 40 : 1500);
	if (rnd(10) == 0) {
		assert_int_equal(apus_dp_window_heartbeat(w, first, last, *count - (int32_t)rnd(9),
							  false, false, at(0)),
				 APUS_DP_HB_IGNORED);
		return;
	}
	*count += 1 + (int32_t)rnd(3);
	apus_dp_window_heartbeat(w, first, last, *count, true, false, at(0));
	model_heartbeat(m, first, last);
}

static void compare_acknack(const struct apus_dp_window *w, const struct model *m)
{
	struct apus_wire_seqset set;
	apus_seq end = m->next + APUS_DP_WINDOW_NUMBERS, base = m->next;
	bool final;

	if (end > m->highest + 1)
		end = m->highest + 1;
	while (base < end && m->state[base] != MISSING)
		base++;
	apus_dp_window_acknack(w, &set, &final);
	assert_int_equal(set.base, base);
	assert_int_equal(apus_dp_window_has_missing(w), base <= m->highest);
	for (apus_seq s = base; s < base + 256; s++)
		assert_int_equal(apus_wire_seqset_test(&set, s), s < end && m->state[s] == MISSING);
}

static void random_operations(void **state)
{
	static struct model m;
	struct apus_dp_window_bits bits = {0};
	struct apus_dp_window w;
	uint64_t held_steps = 0, restarts = 0;
	int32_t count = 0;

	(void)state;
	rng_state = 0x9e3779b97f4a7c15;
	m.next = UNIVERSE;
	for (uint32_t step = 0; step < 300000; step++) {
		if (m.next > UNIVERSE - MARGIN) {
			memset(&m, 0, sizeof(m));
			m.next = m.delivered_end = 1;
			count = 0;
			apus_dp_window_init(&w, &bits, true, APUS_DP_FROM_FIRST);
			apus_dp_window_heartbeat(&w, 1, 0, ++count, true, false, at(0));
			m.heartbeat_seen = true;
			restarts++;
		}
		switch (rnd(16)) {
		case 0: step_gap(&w, &m); break;
		case 1: step_heartbeat(&w, &m, &count); break;
		default: step_data(&w, &m); break;
		}
		held_steps += m.state[m.next] == HELD;
		step_ready(&w, &m);
		assert_int_equal(w.next, m.next);
		assert_int_equal(w.highest, m.highest);
		assert_int_equal(w.lost, m.lost);
		if (rnd(8) == 0)
			compare_acknack(&w, &m);
	}
	assert_true(restarts > 3); /* the run went through all of the universe, several times */
	assert_true(held_steps > 1000);
}

/* ---- runs ----------------------------------------------------------------------------------- */

static uint32_t below(uint32_t n)
{
	static uint64_t random = 11;

	random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(random >> 33) % n;
}

static void disturb(struct apus_dp_window *w)
{
	apus_seq seq = w->next + below(90);

	switch (below(6)) {
	case 0:
		if (apus_dp_window_check(w, seq) == APUS_DP_SEQ_NEW_OUT_OF_ORDER)
			apus_dp_window_hold(w, seq);
		break;
	case 1: gap(w, seq, seq + 1 + below(10)); break;
	case 2: gap(w, w->next + 1500, w->next + 1500 + below(100)); break;
	case 3:
		if (apus_dp_window_check(w, seq) <= APUS_DP_SEQ_NEW_OUT_OF_ORDER)
			apus_dp_window_refuse(w, seq);
		break;
	case 4: heartbeat(w, w->next > 3 ? w->next - 3 : 1, w->next + below(200)); break;
	default: deliver(w, w->next); break;
	}
}

/* Whatever the window knows, a run that it allows leaves it as so many samples one by one do. */
static void runs(void **state)
{
	uint32_t allowed = 0, refused = 0;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		struct apus_dp_window_bits bits[2] = {0};
		struct apus_dp_window one, all;
		bool reliable = below(4) > 0;

		apus_dp_window_init(&one, &bits[0], reliable, below(2));
		for (uint32_t i = below(8); i > 0; i--)
			disturb(&one);
		for (int i = 0; i < 6; i++) {
			uint32_t count = 1 + below(64);
			apus_seq seq = one.next + (below(4) ? 0 : below(3));

			all = one;
			all.bits = &bits[1];
			bits[1] = bits[0];
			if (apus_dp_window_run(&one, seq, count) == 0) {
				refused++;
				deliver(&one, one.next);
				continue;
			}
			allowed++;
			for (uint32_t n = 0; n < count; n++) {
				assert_int_equal(apus_dp_window_check(&one, seq + n),
						 APUS_DP_SEQ_NEW_IN_ORDER);
				apus_dp_window_done(&one, seq + n);
			}
			apus_dp_window_done_run(&all, seq, count);
			assert_memory_equal(&bits[0], &bits[1], sizeof(bits[0]));
			all.bits = one.bits;
			assert_memory_equal(&one, &all, sizeof(one));
		}
	}
	assert_true(allowed > 10000 && refused > 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_order_out_of_order_duplicate),
		cmocka_unit_test(start_of_a_volatile_reader),
		cmocka_unit_test(moving_the_start_never_aliases_held_numbers),
		cmocka_unit_test(history_before_the_match_is_not_lost),
		cmocka_unit_test(heartbeat_flags_and_counts),
		cmocka_unit_test(forged_counts_silence_a_writer_for_a_second),
		cmocka_unit_test(acknack_names_what_is_missing),
		cmocka_unit_test(acknack_base_is_the_first_missing),
		cmocka_unit_test(gaps_with_lists),
		cmocka_unit_test(huge_ranges),
		cmocka_unit_test(numbers_near_the_end),
		cmocka_unit_test(refused_numbers),
		cmocka_unit_test(forged_jumps_are_undone),
		cmocka_unit_test(forged_data_after_a_forged_jump),
		cmocka_unit_test(data_denies_a_jump),
		cmocka_unit_test(forged_heartbeat_after_forged_data),
		cmocka_unit_test(numbers_done_with_are_wanted_once_more),
		cmocka_unit_test(best_effort),
		cmocka_unit_test(best_effort_gaps_before_samples),
		cmocka_unit_test(best_effort_forged_gaps),
		cmocka_unit_test(best_effort_gaps_beyond),
		cmocka_unit_test(best_effort_random),
		cmocka_unit_test(random_operations),
		cmocka_unit_test(runs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
