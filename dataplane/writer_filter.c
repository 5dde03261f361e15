/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filtering at the writer: one verdict for each sample and matched reader, kept with the sample, so that a
 * repair long after is answered by it and never by a fresh evaluation (see docs/decisions).
 *
 * The filters of all readers stand in the snapshot's index, each different one once; a sample is looked up
 * there, and only the readers of filters it passes are touched. Verdicts are bits, one a state, set for those
 * who reject. They are sized when the writer is created and mean something only where the entry is judged.
 */
#include "dataplane/filter_index.h"
#include "dataplane/writer_internal.h"

#include <apus/participant.h>
#include <stdlib.h>
#include <string.h>

static uint32_t words_of(const struct apus_dp_writer *w)
{
	return (w->config.match_max + 63) / 64;
}

static uint64_t *verdicts_of(const struct apus_dp_writer_filtering *f, uint32_t words,
			     uint32_t slot)
{
	return f->verdicts + (size_t)slot * words;
}

int apus_dp_writer_filter_init(struct apus_dp_writer *w)
{
	struct apus_dp_writer_filtering *f = &w->filtering;
	size_t words = words_of(w), n = w->config.match_max;

	f->filtered = calloc(words, sizeof(*f->filtered));
	/* Zero pages until a sample is judged. */
	f->verdicts = calloc(words * (w->config.cache.max_samples + 1), sizeof(*f->verdicts));
	f->passed = calloc(n, sizeof(*f->passed));
	f->first = calloc(n + 1, sizeof(*f->first));
	f->states = calloc(n, sizeof(*f->states));
	f->by_destination = calloc(n, sizeof(*f->by_destination));
	return f->filtered && f->verdicts && f->passed && f->first && f->states && f->by_destination
		       ? 0
		       : APUS_ENOMEM;
}

void apus_dp_writer_filter_fini(struct apus_dp_writer *w)
{
	struct apus_dp_writer_filtering *f = &w->filtering;

	free(f->filtered);
	free(f->verdicts);
	free(f->passed);
	free(f->first);
	free(f->states);
	free(f->by_destination);
}

/* Groups the states of one filter: first[id] … first[id + 1] of `states`. A counting sort. */
static void group_by_filter(struct apus_dp_writer *w)
{
	struct apus_dp_writer_filtering *f = &w->filtering;
	uint32_t filters = f->index ? f->index->filter_count : 0;

	memset(f->first, 0, (filters + 1) * sizeof(*f->first));
	memset(f->filtered, 0, words_of(w) * sizeof(*f->filtered));
	for (uint32_t i = 0; i < w->match_count; i++) {
		uint32_t idx = w->order[i];

		if (!w->states[idx].predicate)
			continue;
		f->first[w->states[idx].filter_id]++;
		f->filtered[idx / 64] |= UINT64_C(1) << idx % 64;
	}
	for (uint32_t id = 1; id <= filters; id++)
		f->first[id] += f->first[id - 1];
	/* Each group is filled from its end, which leaves its start in `first`. */
	for (uint32_t i = w->match_count; i-- > 0;) {
		struct apus_dp_writer_state *s = &w->states[w->order[i]];

		if (s->predicate)
			f->states[--f->first[s->filter_id]] = w->order[i];
	}
}

/* The same by destination, whose first_idx and state_count become valid. */
static void group_by_destination(struct apus_dp_writer *w)
{
	struct apus_dp_writer_filtering *f = &w->filtering;
	uint32_t at = 0;

	for (uint32_t i = 0; i < w->match_count; i++) {
		const struct apus_dp_writer_state *s = &w->states[w->order[i]];

		if (s->destination != UINT32_MAX)
			w->destinations[s->destination].state_count++;
	}
	for (uint32_t i = 0; i < w->destination_count; i++) {
		at += w->destinations[i].state_count;
		w->destinations[i].first_idx = at;
	}
	for (uint32_t i = w->match_count; i-- > 0;) {
		const struct apus_dp_writer_state *s = &w->states[w->order[i]];

		if (s->destination != UINT32_MAX)
			f->by_destination[--w->destinations[s->destination].first_idx] =
				w->order[i];
	}
}

void apus_dp_writer_filter_derive(struct apus_dp_writer *w)
{
	group_by_filter(w);
	group_by_destination(w);
}

void apus_dp_writer_forget_verdicts(struct apus_dp_writer *w, uint32_t idx)
{
	uint32_t words = words_of(w);

	for (uint32_t slot = w->cache.head; slot != APUS_SHM_NO_SLOT;
	     slot = w->cache.entries[slot].next)
		if (w->cache.entries[slot].judged)
			verdicts_of(&w->filtering, words, slot)[idx / 64] &=
				~(UINT64_C(1) << idx % 64);
}

bool apus_dp_writer_is_rejected(const struct apus_dp_writer *w, uint32_t slot, uint32_t state_idx)
{
	return w->cache.entries[slot].judged &&
	       (verdicts_of(&w->filtering, words_of(w), slot)[state_idx / 64] >> state_idx % 64 &
		1);
}

void apus_dp_writer_direct(struct apus_dp_writer *w, uint32_t slot, const struct apus_prefix *to)
{
	uint32_t words = words_of(w);
	uint64_t *verdicts = verdicts_of(&w->filtering, words, slot);

	memset(verdicts, 0, words * sizeof(*verdicts));
	w->cache.entries[slot].judged = true;
	for (uint32_t i = 0; i < w->match_count; i++) {
		uint32_t idx = w->order[i];

		if (!apus_prefix_equal(&w->states[idx].prefix, to))
			verdicts[idx / 64] |= UINT64_C(1) << idx % 64;
	}
}

/* A lifecycle change passes; so does what cannot be evaluated: the reader applies its filter anyway. */
void apus_dp_writer_judge(struct apus_dp_writer *w, uint32_t slot)
{
	struct apus_dp_writer_filtering *f = &w->filtering;
	struct apus_dp_entry *e = &w->cache.entries[slot];
	uint32_t words = words_of(w), count;
	uint64_t *verdicts = verdicts_of(f, words, slot);

	if (e->kind != APUS_ALIVE || !f->index || e->judged)
		return;
	memcpy(verdicts, f->filtered, words * sizeof(*verdicts));
	e->judged = true;
	count = apus_dp_filter_index_match(f->index, apus_dp_cache_payload(&w->cache, slot),
					   e->payload_bytes, f->passed);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t id = f->passed[i];

		for (uint32_t k = f->first[id]; k < f->first[id + 1]; k++)
			verdicts[f->states[k] / 64] &= ~(UINT64_C(1) << f->states[k] % 64);
	}
}

bool apus_dp_writer_wanted(const struct apus_dp_writer *w, uint32_t slot, uint32_t destination)
{
	const struct apus_dp_destination *d = &w->destinations[destination];
	const uint32_t *states = w->filtering.by_destination + d->first_idx;

	if (!d->filtered)
		return true;
	for (uint32_t i = 0; i < d->state_count; i++)
		if (!apus_dp_writer_is_rejected(w, slot, states[i]))
			return true;
	return false;
}

void apus_dp_writer_leave_out(struct apus_dp_writer *w, uint32_t slot, uint32_t destination)
{
	const struct apus_dp_destination *d = &w->destinations[destination];
	apus_seq seq = w->cache.entries[slot].seq;

	apus_counter_add(&w->counters.filtered, 1);
	for (uint32_t i = 0; i < d->state_count; i++) {
		struct apus_dp_writer_state *s =
			&w->states[w->filtering.by_destination[d->first_idx + i]];

		if (!s->reliable)
			continue;
		if (s->gap_start == 0)
			s->gap_start = seq;
		s->gap_end = seq + 1;
		apus_dp_writer_window_skip(w, s, slot);
	}
}

void apus_dp_writer_flush_gaps(struct apus_dp_writer *w, uint32_t destination)
{
	const struct apus_dp_destination *d = &w->destinations[destination];

	for (uint32_t i = 0; i < d->state_count; i++) {
		struct apus_dp_writer_state *s =
			&w->states[w->filtering.by_destination[d->first_idx + i]];

		if (s->gap_start)
			apus_dp_writer_flush_gap(w, s);
	}
}
