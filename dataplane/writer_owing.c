/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has to acknowledge something: the reliable readers that were sent samples, as a heap by what they have
 * acknowledged. So what all have acknowledged is at its top, and a reader that nothing is sent to, because it
 * rejects everything or has acknowledged everything, costs a sample nothing.
 *
 * A reader in the heap has a valid `acked`; one outside has done with all that was sent. Readers that are
 * served by no destination (awaited, demoted, without an address, of this worker and not indexed) are *pinned*: in
 * the heap for good.
 */
#include "dataplane/writer_internal.h"

/* In `owing_at` of a new match, which is no place. */
#define FRESH UINT32_MAX

static apus_seq acked_at(const struct apus_dp_writer *w, uint32_t at)
{
	return w->states[w->owing[at]].acked;
}

static void put_at(struct apus_dp_writer *w, uint32_t at, uint32_t idx)
{
	w->owing[at] = idx;
	w->states[idx].owing_at = at + 1;
}

static void sift_up(struct apus_dp_writer *w, uint32_t at, uint32_t idx)
{
	for (; at && acked_at(w, (at - 1) / 2) > w->states[idx].acked; at = (at - 1) / 2)
		put_at(w, at, w->owing[(at - 1) / 2]);
	put_at(w, at, idx);
}

static void sift_down(struct apus_dp_writer *w, uint32_t at, uint32_t idx)
{
	for (uint32_t child; (child = 2 * at + 1) < w->owing_count; at = child) {
		if (child + 1 < w->owing_count && acked_at(w, child + 1) < acked_at(w, child))
			child++;
		if (acked_at(w, child) >= w->states[idx].acked)
			break;
		put_at(w, at, w->owing[child]);
	}
	put_at(w, at, idx);
}

static void enter(struct apus_dp_writer *w, uint32_t idx)
{
	sift_up(w, w->owing_count++, idx);
}

static void leave(struct apus_dp_writer *w, struct apus_dp_writer_state *s)
{
	uint32_t at = s->owing_at - 1, last = w->owing[--w->owing_count];

	s->owing_at = 0;
	s->pending_bytes = 0;
	if (&w->states[last] == s)
		return;
	if (at && acked_at(w, (at - 1) / 2) > w->states[last].acked)
		sift_up(w, at, last);
	else
		sift_down(w, at, last);
}

void apus_dp_writer_owing_begin(struct apus_dp_writer_state *s)
{
	s->owing_at = FRESH;
	s->pinned = true;
}

void apus_dp_writer_owing_sync(struct apus_dp_writer *w)
{
	for (uint32_t i = 0; i < w->match_count; i++) {
		struct apus_dp_writer_state *s = &w->states[w->order[i]];

		if (s->reliable && !s->indexed)
			s->acked = apus_dp_writer_acked_by(w, s);
		else if (s->indexed && !s->owing_at && s->acked < w->sent)
			s->acked = w->sent;
	}
}

void apus_dp_writer_owing_derive(struct apus_dp_writer *w)
{
	w->owing_count = 0;
	for (uint32_t i = 0; i < w->match_count; i++) {
		struct apus_dp_writer_state *s = &w->states[w->order[i]];

		/* It learns by HEARTBEATs of all there is. */
		if (s->pinned)
			s->owed_last = w->sent;
		s->pinned = s->destination == UINT32_MAX && !s->indexed;
		s->owing_at = 0;
		if (s->reliable && (s->pinned || s->acked < w->sent))
			enter(w, w->order[i]);
		else
			s->pending_bytes = 0;
	}
}

void apus_dp_writer_owing_pin(struct apus_dp_writer *w, struct apus_dp_writer_state *s)
{
	s->pinned = true;
	if (s->reliable && !s->owing_at)
		enter(w, (uint32_t)(s - w->states));
}

void apus_dp_writer_owing_unpin(struct apus_dp_writer *w, struct apus_dp_writer_state *s)
{
	s->pinned = false;
	s->owed_last = w->sent; /* it has been offered all there is */
	if (s->owing_at && s->acked >= w->sent)
		leave(w, s);
}

void apus_dp_writer_owing_drop(struct apus_dp_writer *w, struct apus_dp_writer_state *s)
{
	if (s->owing_at)
		leave(w, s);
}

void apus_dp_writer_owes(struct apus_dp_writer *w, struct apus_dp_writer_state *s, apus_seq seq)
{
	s->owed_last = seq;
	if (s->owing_at)
		return;
	s->acked = seq - 1;
	enter(w, (uint32_t)(s - w->states));
}

void apus_dp_writer_owing_moved(struct apus_dp_writer *w, struct apus_dp_writer_state *s)
{
	if (s->owing_at)
		sift_down(w, s->owing_at - 1, w->owing[s->owing_at - 1]);
}

void apus_dp_writer_owing_acked(struct apus_dp_writer *w, struct apus_dp_writer_state *s,
				apus_seq seq)
{
	s->acked = seq;
	/* What waits for room in its window it has yet to be sent. */
	if (s->owing_at && !s->pinned && seq >= s->owed_last && !s->waiting_seq && !s->unsent_seq)
		leave(w, s);
	else
		apus_dp_writer_owing_moved(w, s);
}
