/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sequence window of a best-effort match: what a sample skips is lost, unless GAPs said that it is irrelevant
 * (a writer that filters sends them in front of the next sample that passes).
 *
 * Remembered are one range, [far_first, far_end), and of earlier ones below it how many numbers they had and where
 * the last of them ended. They excuse nothing to a sample below that end, for then it is not known how many of them lie
 * below the sample. Nothing is remembered below `next`, nor across a sample that the range names: then that was a lie.
 * The later of two ranges is believed where they contradict each other.
 */
#include "dataplane/window.h"

#include "wire/message.h"

static apus_seq seq_min(apus_seq a, apus_seq b)
{
	return a < b ? a : b;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void forget(struct apus_dp_window *w)
{
	w->far_first = w->far_end = 0;
	w->skipped = 0;
	w->skipped_end = 0;
}

/* [first, end) below the range that is remembered; only their number is kept. */
static void remember_below(struct apus_dp_window *w, apus_seq first, apus_seq end)
{
	if (first < w->skipped_end)
		w->skipped = 0;
	w->skipped += (uint64_t)(end - first);
	w->skipped_end = end;
}

static void remember(struct apus_dp_window *w, apus_seq first, apus_seq end)
{
	if (first < w->next)
		first = w->next;
	if (first >= end)
		return;
	if (end <=
	    w->far_first) { /* overtaken by the one above, or that one is a lie: room for both */
		remember_below(w, first, end);
		return;
	}
	if (first > w->far_end)
		remember_below(w, w->far_first, w->far_end);
	else if (end >= w->far_end)
		first = seq_min(first, w->far_first);
	if (first < w->skipped_end)
		w->skipped = 0;
	w->far_first = first;
	w->far_end = end;
}

void apus_dp_window_note_gap(struct apus_dp_window *w, apus_seq start,
			     const struct apus_wire_seqset *list)
{
	apus_seq base = seq_min(list->base, APUS_DP_SEQ_MAX + 1);

	if (!w->started)
		return; /* nothing before the first sample is lost */
	remember(w, start, base);
	for (uint32_t i = 0; i < list->num_bits && i < APUS_WIRE_SET_BITS; i++)
		if (base + i <= APUS_DP_SEQ_MAX && apus_wire_bit_test(list->bitmap, i))
			remember(w, base + i, base + i + 1);
}

uint64_t apus_dp_window_skips(const struct apus_dp_window *w, apus_seq seq)
{
	uint64_t n, named = seq >= w->skipped_end ? w->skipped : 0;

	if (!w->started || seq <= w->next)
		return 0;
	n = (uint64_t)(seq - w->next);
	if (seq >= w->far_end)
		named += (uint64_t)(w->far_end - w->far_first);
	return n - least(n, named);
}

void apus_dp_window_pass(struct apus_dp_window *w, apus_seq seq)
{
	apus_dp_window_add_lost(&w->lost, apus_dp_window_skips(w, seq));
	if (seq >= w->far_first)
		forget(w);
	else if (seq >= w->skipped_end)
		w->skipped = 0;
	else
		w->skipped = least(w->skipped, (uint64_t)(w->skipped_end - seq - 1));
	w->started = true;
	if (seq > w->highest)
		w->highest = seq;
	w->next = seq + 1;
}
