/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a writer takes over a newly published snapshot: states of matches that stay are kept, new ones are
 * begun, those of matches that ended are dropped; then destinations are derived once, so that a send is a
 * walk over an array.
 *
 * Snapshot and states are both sorted by GUID, so one merge pass pairs them.
 */
#include "dataplane/reader.h"
#include "dataplane/shm_match.h"
#include "dataplane/writer_internal.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static struct apus_dp_writer_state *free_state(struct apus_dp_writer *w)
{
	for (; w->free_state < w->config.match_max; w->free_state++)
		if (w->states[w->free_state].match_id == 0)
			return &w->states[w->free_state];
	return NULL;
}

static void end_state(struct apus_dp_writer *w, uint32_t idx)
{
	apus_dp_writer_skipped(w, &w->states[idx], 0);
	w->states[idx].match_id = 0;
	if (idx < w->free_state)
		w->free_state = idx;
}

/* Asks a reader to prove that it receives what is sent to its present address: it is told a number that
 * depends on the address and on our secret, far enough below APUS_DP_PROOF_FIRST. */
static void challenge(const struct apus_dp_writer *w, struct apus_dp_writer_state *s)
{
	struct {
		struct apus_guid
			reader; /* not the match: a reader that outlives it remembers the number */
		struct apus_dp_addr addr;
	} key = {s->guid, s->addr};
	uint64_t hash;

	hash = XXH3_64bits_withSeed(&key, sizeof(key), w->config.proof_secret);
	s->challenge = (apus_seq)(2 + hash % (uint64_t)(APUS_DP_PROOF_FIRST - 4));
	s->awaited = s->reliable;
	s->mark = true;
}

static void begin_state(struct apus_dp_writer *w, struct apus_dp_writer_state *s,
			const struct apus_dp_reader_match *m)
{
	bool history = w->config.transient_local && m->transient_local;

	memset(s, 0, sizeof(*s));
	s->match_id = m->match_id;
	s->guid = m->guid;
	s->prefix = apus_guid_prefix(&m->guid);
	s->eid = apus_guid_eid(&m->guid);
	s->destination = UINT32_MAX;
	s->reliable = m->reliable && w->config.reliable;
	apus_dp_writer_push_begin(s);
	s->window_bytes = APUS_DP_WINDOW_FIRST_BYTES;
	s->window_limit = APUS_DP_WINDOW_LIMIT_BYTES;
	s->relevant = history ? 1 : w->last + 1;
	s->acked = history ? 0 : w->last;
	s->confirmed = s->acked;
	s->awaited = s->reliable && !history;
	apus_dp_writer_owing_begin(s);
}

/* What a refreshed match may change: where it is reached. */
static void refresh_state(struct apus_dp_writer *w, struct apus_dp_writer_state *s,
			  const struct apus_dp_reader_match *m)
{
	bool moved = !apus_dp_addr_equal(&s->addr, &m->unicast);

	s->addr = m->unicast;
	s->multicast = m->multicast;
	s->inline_qos = m->inline_qos;
	if (moved && w->config.proof_secret)
		challenge(w, s);
	s->hash_only_dispose = m->hash_only_dispose;
	s->predicate = m->predicate;
	s->filter_id = m->filter_id;
	s->filter_info = m->filter_info;
	if (memcmp(s->filter_signature, m->filter_signature, sizeof(s->filter_signature)) != 0)
		s->signed_from = w->sent + 1;
	memcpy(s->filter_signature, m->filter_signature, sizeof(s->filter_signature));
	s->local = m->local ? apus_dp_worker_reader(w->worker, s->eid) : NULL;
	s->local_generation = s->local ? m->local_generation : 0;
	if (m->shm && s->shm != m->shm)
		m->shm->cursor = s->acked;
	s->shm = m->shm;
	if (s->local || s->shm)
		s->awaited = false;
}

/* Merges the snapshot with the present states. order_new receives the states in snapshot order; states
 * of the old order that were not taken over end. A match beyond match_max is left out, counted. */
static uint32_t merge(struct apus_dp_writer *w, const struct apus_dp_writer_snapshot *snap)
{
	uint32_t old = 0, n = 0;

	for (uint32_t k = 0; k < snap->match_count; k++) {
		const struct apus_dp_reader_match *m = &snap->match[k];
		struct apus_dp_writer_state *s = NULL;

		while (old < w->match_count &&
		       apus_guid_compare(&w->states[w->order[old]].guid, &m->guid) < 0)
			end_state(w, w->order[old++]);
		if (old < w->match_count && w->states[w->order[old]].match_id == m->match_id) {
			s = &w->states[w->order[old++]];
			s->mark = false; /* unless its address has changed */
		} else {
			/* The same reader in a new match begins afresh. */
			if (old < w->match_count &&
			    apus_guid_equal(&w->states[w->order[old]].guid, &m->guid))
				end_state(w, w->order[old++]);
			s = free_state(w);
			if (!s) {
				apus_counter_add(&w->counters.matches_refused, 1);
				continue;
			}
			begin_state(w, s, m);
			s->mark = true;
		}
		refresh_state(w, s, m);
		w->order_new[n++] = (uint32_t)(s - w->states);
	}
	while (old < w->match_count)
		end_state(w, w->order[old++]);
	return n;
}

static bool is_served(const struct apus_dp_writer_state *s)
{
	return !s->local && !s->shm && s->addr.family && !s->awaited && !s->demoted;
}

/* The place of an address in the table: the one that `same` accepts, or a free one. */
static uint32_t *find_addr(struct apus_dp_writer *w, const struct apus_dp_addr *addr,
			   const struct apus_dp_addr *of(const struct apus_dp_writer *, uint32_t))
{
	uint32_t at = (uint32_t)XXH3_64bits(addr, sizeof(*addr)) & w->by_addr_mask;

	while (w->by_addr[at] && !apus_dp_addr_equal(of(w, w->by_addr[at] - 1), addr))
		at = (at + 1) & w->by_addr_mask;
	return &w->by_addr[at];
}

static const struct apus_dp_addr *addr_of_destination(const struct apus_dp_writer *w, uint32_t i)
{
	return &w->destinations[i].addr;
}

static const struct apus_dp_addr *group_of_state(const struct apus_dp_writer *w, uint32_t i)
{
	return &w->states[i].multicast;
}

static void clear_table(struct apus_dp_writer *w)
{
	memset(w->by_addr, 0, ((size_t)w->by_addr_mask + 1) * sizeof(*w->by_addr));
}

/* Finds the groups that reach more than one address at the same time: `group_pays` of the first member of
 * each. Then the table has these. Returns false if there are none. */
static bool find_groups(struct apus_dp_writer *w)
{
	bool any = false;

	for (uint32_t i = 0; i < w->match_count; i++) {
		struct apus_dp_writer_state *s = &w->states[w->order[i]];
		uint32_t *place;

		s->group_pays = false;
		if (!s->multicast.family || !is_served(s))
			continue;
		if (!any)
			clear_table(w);
		any = true;
		place = find_addr(w, &s->multicast, group_of_state);
		if (*place == 0)
			*place = w->order[i] + 1;
		else if (!apus_dp_addr_equal(&w->states[*place - 1].addr, &s->addr))
			w->states[*place - 1].group_pays = true;
	}
	for (uint32_t i = 0; any && i < w->match_count; i++) {
		struct apus_dp_writer_state *s = &w->states[w->order[i]];

		if (s->multicast.family && is_served(s))
			s->group_pays = w->states[*find_addr(w, &s->multicast, group_of_state) - 1]
						.group_pays;
	}
	return any;
}

static bool is_awaiting(const struct apus_dp_writer *w)
{
	for (uint32_t i = 0; i < w->match_count; i++)
		if (w->states[w->order[i]].awaited && !w->states[w->order[i]].demoted)
			return true;
	return false;
}

static void add_destination(struct apus_dp_writer *w, uint32_t idx, const struct apus_dp_addr *addr)
{
	struct apus_dp_writer_state *s = &w->states[idx];
	uint32_t *place = find_addr(w, addr, addr_of_destination);
	struct apus_dp_destination *d;

	if (*place) {
		s->destination = *place - 1;
		d = &w->destinations[s->destination];
		d->eid.value = 0;
		d->filtered = d->filtered && (s->predicate || w->config.directed);
		d->reliable |= s->reliable;
		d->best_effort |= !s->reliable;
		if (!s->reliable && s->covered < d->covered)
			d->covered = s->covered;
		d->hash_only_dispose &= s->hash_only_dispose;
		d->inline_qos |= s->inline_qos;
		d->filter_info |= s->filter_info;
		d->one_participant =
			d->one_participant && apus_prefix_equal(&d->prefix, &s->prefix);
		return;
	}
	s->destination = w->destination_count;
	d = &w->destinations[w->destination_count++];
	*place = w->destination_count;
	*d = (struct apus_dp_destination){
		.addr = *addr,
		.prefix = s->prefix,
		.eid = s->eid,
		.one_participant = true,
		.reliable = s->reliable,
		.best_effort = !s->reliable,
		.covered = s->reliable ? w->sent : s->covered,
		.filtered = s->predicate || w->config.directed,
		.hash_only_dispose = s->hash_only_dispose,
		.inline_qos = s->inline_qos,
		.filter_info = s->filter_info,
		.first_state = idx,
	};
}

/* Where a reader's samples go: to its group if that reaches another address at the same time. Not while a reader
 * is awaited, which must not hear of samples before its turn (docs/decisions/0006). Repairs go to the one who
 * asked. */
static void derive_destinations(struct apus_dp_writer *w)
{
	bool groups = !is_awaiting(w) && find_groups(w);

	clear_table(w);
	for (uint32_t i = 0; i < w->match_count; i++) {
		struct apus_dp_writer_state *s = &w->states[w->order[i]];

		s->destination = UINT32_MAX;
		if (is_served(s))
			add_destination(w, w->order[i],
					groups && s->group_pays ? &s->multicast : &s->addr);
	}
}

void apus_dp_writer_derive(struct apus_dp_writer *w)
{
	apus_dp_writer_owing_sync(w);
	apus_dp_writer_keep_covered(w);
	apus_dp_writer_derive_indexed(w);
	w->destination_count = 0;
	w->local_count = 0;
	w->shm_count = 0;
	w->filtered_count = 0;
	w->awaited_count = 0;
	w->demoted_count = 0;
	for (uint32_t i = 0; i < w->match_count; i++) {
		struct apus_dp_writer_state *s = &w->states[w->order[i]];

		if (s->local) {
			w->local_count++;
			s->predicate = NULL; /* the reader's own test is just as near */
		} else if (s->shm) {
			w->shm_count++;
		}
		w->filtered_count += s->predicate != NULL;
		w->awaited_count += s->awaited;
		w->demoted_count += s->demoted;
	}
	derive_destinations(w);
	apus_dp_writer_owing_derive(w);
	for (uint32_t i = 0; i < w->match_count; i++) {
		struct apus_dp_writer_state *s = &w->states[w->order[i]];

		/* Who shares a destination has no window; it asks for what it was not sent. */
		if (s->destination == UINT32_MAX || apus_dp_writer_windowed(w, s->destination) != s)
			apus_dp_writer_stop_waiting(w, s);
	}
	apus_dp_writer_filter_derive(w);
	/* Relaxed: a number for other threads to look at; nothing is published with it. */
	atomic_store_explicit(&w->matched, w->match_count - w->awaited_count, memory_order_relaxed);
}

static bool greet_one(struct apus_dp_writer *w, struct apus_dp_writer_state *s)
{
	if (!s->reliable || s->local || s->shm || !s->addr.family)
		return false;
	apus_dp_writer_heartbeat(w, s);
	return true;
}

void apus_dp_writer_greet(struct apus_dp_writer *writer, const struct apus_guid *reader)
{
	struct apus_dp_writer_state *s = apus_dp_writer_find_state(writer, reader);

	if (s)
		(void)greet_one(writer, s);
}

/* A reader that has just matched learns at once what there is: see docs/decisions/0006. */
static void greet(struct apus_dp_writer *w, struct apus_mono now)
{
	for (uint32_t i = 0; i < w->match_count; i++) {
		struct apus_dp_writer_state *s = &w->states[w->order[i]];

		if (!s->mark)
			continue;
		s->mark = false;
		if (greet_one(w, s) && (s->awaited || s->acked < w->sent))
			apus_dp_writer_lagging(w, now);
	}
	if (w->local_count)
		apus_dp_writer_retry_local(w, now);
	if (w->shm_count)
		apus_dp_writer_serve_shm(w, now);
}

void apus_dp_writer_adopt(struct apus_dp_writer *writer, struct apus_mono now)
{
	/* T3: seq_cst, pairs with S1 in apus_dp_writer_publish(). */
	const struct apus_dp_writer_snapshot *snap = atomic_load(&writer->port.snapshot);
	uint32_t *swap = writer->order;

	if (!snap || snap->generation == writer->adopted_generation)
		return;
	writer->match_count = merge(writer, snap);
	writer->order = writer->order_new;
	writer->order_new = swap;
	writer->adopted_generation = snap->generation;
	writer->filtering.index = snap->index;
	writer->inline_list = snap->inline_list;
	writer->inline_bytes = snap->inline_bytes;
	apus_counter_add(&writer->worker->counters.adoptions, 1);
	apus_dp_writer_derive(writer);
	greet(writer, now);
	apus_dp_writer_settle(writer);
}
