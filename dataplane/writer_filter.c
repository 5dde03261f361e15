/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filtering at the writer: one verdict for each sample and matched reader, kept with the sample, so that a
 * repair long after is answered by it and never by a fresh evaluation (see docs/decisions).
 *
 * The filters of all readers stand in the snapshot's index, each different one once; a sample is looked up
 * there, and only the readers of filters it passes are touched. A verdict names them, or has a bit for each if
 * they are many; whoever else had a filter then rejects the sample. Samples from before a match, or from before
 * its filter, are not filtered.
 *
 * Of those who reject nothing is touched (they are lazy): a sample is sent to the destinations of those who
 * pass it. A reader is told later of what it rejected, by one GAP for all numbers behind `covered`: with the
 * next sample it passes, in front of a HEARTBEAT, or by the timer, some readers a time.
 */
#include "dataplane/filter_index.h"
#include "dataplane/writer_internal.h"

#include <apus/participant.h>
#include <string.h>

static uint32_t words_of(const struct apus_dp_writer *w)
{
	return (w->config.match_max + 63) / 64;
}

static uint64_t *many_of(const struct apus_dp_writer *w, uint32_t slot)
{
	return w->filtering.many + (size_t)slot * words_of(w);
}

/* With `base` NULL only the bytes are counted, which are returned. */
static size_t lay_out(struct apus_dp_writer *w, void *base)
{
	struct apus_dp_writer_filtering *f = &w->filtering;
	size_t n = w->config.match_max, slots = w->cache.slot_count, at = 0;

	f->verdicts = apus_shm_reserve_part(base, &at, slots, sizeof(*f->verdicts));
	f->many = apus_shm_reserve_part(base, &at, slots * words_of(w), sizeof(*f->many));
	f->to = apus_shm_reserve_part(base, &at, w->config.directed ? slots : 1, sizeof(*f->to));
	f->passed = apus_shm_reserve_part(base, &at, n, sizeof(*f->passed));
	f->followers = apus_shm_reserve_part(base, &at, n, sizeof(*f->followers));
	return at;
}

/* What matches without filters need, too, is in the writer's match_memory. */
int apus_dp_writer_filter_init(struct apus_dp_writer *w)
{
	int rc = apus_shm_reserve(lay_out(w, NULL), APUS_SHM_LAZY, &w->filtering.reserve);

	if (rc == 0)
		lay_out(w, w->filtering.reserve.base);
	return rc;
}

void apus_dp_writer_filter_fini(struct apus_dp_writer *w)
{
	apus_shm_unreserve(&w->filtering.reserve);
}

/* Of this worker's readers also those are that are not indexed, or gone: they are passed over when chosen, so one that
 * becomes indexed, or ceases to be, changes nothing here. */
static bool is_follower(const struct apus_dp_writer_state *s)
{
	return s->predicate || s->local_generation;
}

/* Groups the states of one filter: first[id] … first[id + 1] of `followers`. A counting sort. */
static void group_by_filter(struct apus_dp_writer *w)
{
	struct apus_dp_writer_filtering *f = &w->filtering;
	uint32_t filters = f->index ? f->index->filter_count : 0;

	memset(f->first, 0, (filters + 1) * sizeof(*f->first));
	for (uint32_t i = 0; i < w->match_count; i++) {
		const struct apus_dp_writer_state *s = &w->states[w->order[i]];

		if (is_follower(s))
			f->first[s->filter_id]++;
	}
	for (uint32_t id = 1; id <= filters; id++)
		f->first[id] += f->first[id - 1];
	/* Each group is filled from its end, which leaves its start in `first`. */
	for (uint32_t i = w->match_count; i-- > 0;) {
		struct apus_dp_writer_state *s = &w->states[w->order[i]];

		bool passed_by =
			s->destination != UINT32_MAX && w->destinations[s->destination].filtered;

		if (is_follower(s))
			f->followers[--f->first[s->filter_id]] = (struct apus_dp_writer_follower){
				w->order[i], passed_by ? s->destination : UINT32_MAX,
				!s->predicate};
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

/* Samples that are not sent yet are judged by the filters of then. */
static void note_periods(struct apus_dp_writer *w)
{
	for (uint32_t i = 0; i < w->match_count; i++) {
		struct apus_dp_writer_state *s = &w->states[w->order[i]];

		if (s->predicate && s->filtered_to != INT64_MAX) {
			s->filtered_from = w->sent + 1;
			s->filtered_to = INT64_MAX;
		} else if (!s->predicate && s->filtered_to == INT64_MAX) {
			s->filtered_to = w->sent + 1;
		}
	}
}

/* Who becomes lazy has heard of all that was sent or waits for it; who no longer is has to be told. One that
 * is not served any more asks for what it misses. */
static void find_lazy(struct apus_dp_writer *w)
{
	w->filtering.lazy_count = 0;
	for (uint32_t i = 0; i < w->match_count; i++) {
		struct apus_dp_writer_state *s = &w->states[w->order[i]];
		bool served = s->destination != UINT32_MAX;
		bool lazy = s->reliable && served && w->destinations[s->destination].filtered;

		if (s->lazy && !lazy && served)
			apus_dp_writer_cover(w, s, apus_dp_writer_told(w, s));
		if (lazy && !s->lazy) {
			s->covered = apus_dp_writer_told(w, s);
			s->pending_bytes = 0;
		}
		s->lazy = lazy;
		w->filtering.lazy_count += lazy;
	}
}

void apus_dp_writer_open(struct apus_dp_writer *w, struct apus_dp_writer_state *s)
{
	struct apus_dp_writer_filtering *f = &w->filtering;

	s->open_at = f->open_local_count;
	f->local_visits[f->open_local_count++] = (uint32_t)(s - w->states);
}

void apus_dp_writer_close(struct apus_dp_writer *w, const struct apus_dp_writer_state *s)
{
	struct apus_dp_writer_filtering *f = &w->filtering;
	uint32_t last = f->local_visits[--f->open_local_count];

	f->local_visits[s->open_at] = last;
	w->states[last].open_at = s->open_at;
}

static void find_open(struct apus_dp_writer *w)
{
	struct apus_dp_writer_filtering *f = &w->filtering;

	f->open_count = 0;
	for (uint32_t i = 0; i < w->destination_count; i++)
		if (!w->destinations[i].filtered)
			f->visits[f->open_count++] = i;
	f->open_local_count = 0;
	for (uint32_t i = 0; i < w->match_count; i++)
		if (w->states[w->order[i]].local && !w->states[w->order[i]].indexed)
			apus_dp_writer_open(w, &w->states[w->order[i]]);
}

void apus_dp_writer_filter_derive(struct apus_dp_writer *w)
{
	note_periods(w);
	group_by_filter(w);
	group_by_destination(w);
	find_open(w);
	find_lazy(w);
}

static bool has_passed(const struct apus_dp_writer *w, uint32_t slot, uint32_t idx)
{
	const struct apus_dp_writer_verdict *v = &w->filtering.verdicts[slot];

	if (v->count > APUS_DP_VERDICT_FEW)
		return many_of(w, slot)[idx / 64] >> idx % 64 & 1;
	for (uint32_t i = 0; i < v->count; i++)
		if (v->state[i] == idx)
			return true;
	return false;
}

static void note_passed(struct apus_dp_writer *w, uint32_t slot, uint32_t idx)
{
	struct apus_dp_writer_verdict *v = &w->filtering.verdicts[slot];
	uint64_t *many = many_of(w, slot);

	if (v->count < APUS_DP_VERDICT_FEW) {
		v->state[v->count++] = idx;
		return;
	}
	if (v->count == APUS_DP_VERDICT_FEW) {
		memset(many, 0, words_of(w) * sizeof(*many));
		for (uint32_t i = 0; i < APUS_DP_VERDICT_FEW; i++)
			many[v->state[i] / 64] |= UINT64_C(1) << v->state[i] % 64;
	}
	v->count++;
	many[idx / 64] |= UINT64_C(1) << idx % 64;
}

bool apus_dp_writer_is_rejected(const struct apus_dp_writer *w, uint32_t slot, uint32_t state_idx)
{
	const struct apus_dp_writer_state *s = &w->states[state_idx];
	const struct apus_dp_entry *e = &w->cache.entries[slot];

	if (!e->judged)
		return false;
	if (w->config.directed)
		return !apus_prefix_equal(&w->filtering.to[slot], &s->prefix);
	return e->seq >= s->filtered_from && e->seq < s->filtered_to &&
	       !has_passed(w, slot, state_idx);
}

void apus_dp_writer_direct(struct apus_dp_writer *w, uint32_t slot, const struct apus_prefix *to)
{
	w->filtering.to[slot] = *to;
	w->cache.entries[slot].judged = true;
}

void apus_dp_writer_choose(struct apus_dp_writer *w)
{
	w->filtering.visit++;
	w->filtering.visit_count = w->filtering.open_count;
	w->filtering.local_visit_count = w->filtering.open_local_count;
}

static void choose_local(struct apus_dp_writer *w, uint32_t state)
{
	struct apus_dp_writer_state *s = &w->states[state];

	/* Its reader may be gone. */
	if (!s->indexed || s->visited == w->filtering.visit)
		return;
	s->visited = w->filtering.visit;
	w->filtering.local_visits[w->filtering.local_visit_count++] = state;
}

static void choose(struct apus_dp_writer *w, uint32_t destination)
{
	struct apus_dp_destination *d = &w->destinations[destination];

	if (d->visited == w->filtering.visit)
		return;
	d->visited = w->filtering.visit;
	w->filtering.visits[w->filtering.visit_count++] = destination;
}

/* A lifecycle change passes; so does what cannot be evaluated: the reader applies its filter anyway. */
bool apus_dp_writer_judge(struct apus_dp_writer *w, uint32_t slot)
{
	struct apus_dp_writer_filtering *f = &w->filtering;
	struct apus_dp_entry *e = &w->cache.entries[slot];
	uint32_t count;

	if (e->kind != APUS_ALIVE || !f->index || e->judged)
		return false;
	f->verdicts[slot].count = 0;
	e->judged = true;
	count = apus_dp_filter_index_match(f->index, apus_dp_cache_payload(&w->cache, slot),
					   e->payload_bytes, f->passed, &e->unsure);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t id = f->passed[i];

		for (uint32_t k = f->first[id]; k < f->first[id + 1]; k++) {
			const struct apus_dp_writer_follower *to = &f->followers[k];

			if (to->local) {
				choose_local(w, to->state);
				continue;
			}
			if (w->config.reliable) {
				__builtin_prefetch(&w->states[to->state]);
				__builtin_prefetch(&w->states[to->state].covered);
			}
			note_passed(w, slot, to->state);
			if (to->destination != UINT32_MAX)
				choose(w, to->destination);
		}
	}
	return true;
}

static void put_word(uint8_t *at, uint32_t word)
{
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(word >> 8 * i);
}

/* Signature i is spoken for by bit 31 - i of the one word of results (RTPS 2.5 §9.6.4.1). */
uint32_t apus_dp_writer_filter_info(const struct apus_dp_writer *w, uint32_t slot,
				    const uint32_t *states, uint32_t count,
				    uint8_t out[APUS_DP_FILTER_INFO_BYTES])
{
	const struct apus_dp_entry *e = &w->cache.entries[slot];
	uint32_t results = 0, n = 0;

	if (!e->judged || e->unsure || w->filtered_count == 0)
		return 0;
	for (uint32_t i = 0; i < count && n < APUS_DP_FILTER_INFO_MAX; i++) {
		const struct apus_dp_writer_state *s = &w->states[states[i]];

		if (!s->filter_info || e->seq < s->filtered_from || e->seq >= s->filtered_to ||
		    e->seq < s->signed_from)
			continue;
		memcpy(out + 12 + 16 * n, s->filter_signature, 16);
		results |= (uint32_t)has_passed(w, slot, states[i]) << (31 - n);
		n++;
	}
	put_word(out, 1);
	put_word(out + 4, results);
	put_word(out + 8, n);
	return n ? 12 + 16 * n : 0;
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

void apus_dp_writer_keep_covered(struct apus_dp_writer *w)
{
	for (uint32_t i = 0; i < w->match_count; i++) {
		struct apus_dp_writer_state *s = &w->states[w->order[i]];

		if (!s->reliable)
			s->covered = s->destination == UINT32_MAX
					     ? w->sent
					     : w->destinations[s->destination].covered;
	}
}

/* What was left out before number `seq` goes in front of it, into its datagram: who gets that one hears of these.
 * Everybody behind the address can be told at once where no reader is reliable; one that is, and not served yet,
 * would take it for irrelevant to itself. */
static void cover_best_effort(struct apus_dp_writer *w, struct apus_dp_destination *d, apus_seq seq)
{
	apus_seq start = d->covered + 1;

	d->covered = seq;
	if (APUS_LIKELY(start >= seq))
		return;
	if (d->state_count == 1 || !w->config.reliable) {
		apus_dp_writer_gap_to(w, &d->addr, d->one_participant ? &d->prefix : NULL, d->eid,
				      start, seq);
		return;
	}
	for (uint32_t i = 0; i < d->state_count; i++) {
		const struct apus_dp_writer_state *s =
			&w->states[w->filtering.by_destination[d->first_idx + i]];

		if (!s->reliable)
			apus_dp_writer_gap_to(w, &d->addr, &s->prefix, s->eid, start, seq);
	}
}

void apus_dp_writer_note(struct apus_dp_writer *w, apus_seq seq, uint32_t slot,
			 uint32_t destination)
{
	struct apus_dp_destination *d = &w->destinations[destination];

	if (d->best_effort)
		cover_best_effort(w, d, seq);
	for (uint32_t i = 0; d->reliable && i < d->state_count; i++) {
		struct apus_dp_writer_state *s = apus_dp_writer_behind(w, destination, i);

		if (!s->reliable)
			continue;
		if (s->lazy) {
			apus_dp_writer_cover(w, s, seq - 1);
			s->covered = seq;
		}
		if (slot != APUS_SHM_NO_SLOT && s->predicate &&
		    apus_dp_writer_is_rejected(w, slot, (uint32_t)(s - w->states)))
			continue;
		apus_dp_writer_owes(w, s, seq);
		if (slot != APUS_SHM_NO_SLOT)
			apus_dp_writer_window_sent(w, s, slot);
	}
}

void apus_dp_writer_note_run(struct apus_dp_writer *w, apus_seq last, uint32_t destination)
{
	struct apus_dp_destination *d = &w->destinations[destination];

	if (d->best_effort)
		d->covered = last;
	for (uint32_t i = 0; d->reliable && i < d->state_count; i++) {
		struct apus_dp_writer_state *s = apus_dp_writer_behind(w, destination, i);

		if (s->reliable)
			apus_dp_writer_owes(w, s, last);
	}
}

void apus_dp_writer_cover_behind(struct apus_dp_writer *w, uint32_t destination, apus_seq last)
{
	const struct apus_dp_destination *d = &w->destinations[destination];

	for (uint32_t i = 0; d->filtered && i < d->state_count; i++)
		apus_dp_writer_cover(w, apus_dp_writer_behind(w, destination, i), last);
}

void apus_dp_writer_cover(struct apus_dp_writer *w, struct apus_dp_writer_state *s, apus_seq last)
{
	if (!s->lazy || s->covered >= last)
		return;
	apus_dp_writer_gap(w, s, s->covered + 1, last + 1);
	s->covered = last;
}

/* Says to some readers what they reject and where things stand. */
void apus_dp_writer_gap_fn(struct apus_dp_timer *timer, struct apus_mono now)
{
	struct apus_dp_writer *w =
		(struct apus_dp_writer *)((char *)timer -
					  offsetof(struct apus_dp_writer, gap_timer));
	struct apus_dp_writer_filtering *f = &w->filtering;
	uint32_t told = 0;

	for (uint32_t n = 0; n < w->match_count; n++) {
		uint32_t at = f->gap_cursor < w->match_count ? f->gap_cursor : 0;
		struct apus_dp_writer_state *s = &w->states[w->order[at]];
		apus_seq last = apus_dp_writer_told(w, s);

		if (s->lazy && s->covered < last) {
			if (told++ == APUS_DP_GAPS_A_TIME) {
				apus_dp_wheel_arm(&w->worker->wheel, timer,
						  apus_mono_add(now, APUS_DP_GAP_FLUSH_NS));
				return;
			}
			apus_dp_writer_cover(w, s, last);
			/* Who owes nothing need not answer: what it misses it finds missing later. */
			apus_dp_writer_put_heartbeat(
				w,
				apus_dp_out_at(&w->worker->out, &s->addr, &s->prefix,
					       APUS_DP_HEARTBEAT_BYTES),
				s->eid, apus_dp_writer_first(w, s), last, !s->owing_at);
		}
		f->gap_cursor = at + 1;
	}
}
