/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sequence window of a best-effort match: what a sample skips is lost, unless GAPs said that it is irrelevant
 * (a writer that filters sends them in front of the next sample that passes).
 *
 * Remembered are the range that was named last, [far_first, far_end), and of those below it how many numbers
 * they had. Nothing is remembered below `next`, nor across a sample that a range names: then that was a lie.
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

static void remember(struct apus_dp_window *w, apus_seq first, apus_seq end)
{
	if (first < w->next)
		first = w->next;
	if (first >= end)
		return;
	if (end < w->far_end) {
		w->skipped = 0; /* the one before claims more than it can know */
	} else if (first <= w->far_end) {
		first = seq_min(first, w->far_first);
	} else {
		w->skipped += (uint64_t)(w->far_end - w->far_first);
	}
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
	uint64_t n, named = w->skipped;

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
	if (seq >= w->far_first) {
		w->far_first = w->far_end = 0;
		w->skipped = 0;
	} else if (w->started) {
		w->skipped -= least(w->skipped, (uint64_t)(seq - w->next));
	}
	w->started = true;
	if (seq > w->highest)
		w->highest = seq;
	w->next = seq + 1;
}
