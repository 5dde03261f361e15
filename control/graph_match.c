/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who fits whom, and the matches themselves.
 *
 * Candidates come from the group of an endpoint's topic and type, so a pair that cannot match is never
 * looked at. A remote endpoint is compared with local ones only: what others say to each other is none
 * of our business.
 */
#include "control/graph_internal.h"

#include <string.h>

/* ---- the rule ----------------------------------------------------------------------------------- */

/* Both have told their type. Equal ones need no further look, whatever the policy. */
static int different_types(const struct apus_wire_endpoint_record *writer,
			   const struct apus_wire_endpoint_record *reader,
			   const struct apus_ctl_type_rule *types)
{
	if (apus_wire_type_hash_equal(&writer->types.minimal, &reader->types.minimal))
		return APUS_POLICY_NONE;
	if (reader->qos.consistency.kind == APUS_DISALLOW_TYPE_COERCION || !types->assignable)
		return APUS_POLICY_TYPE;
	return types->assignable(types->user, writer, reader);
}

static int type_mismatch(const struct apus_wire_endpoint_record *writer,
			 const struct apus_wire_endpoint_record *reader,
			 const struct apus_ctl_type_rule *types)
{
	const char *writer_type = apus_wire_record_text(writer, writer->type);
	const char *reader_type = apus_wire_record_text(reader, reader->type);

	if (strcmp(writer_type, reader_type) != 0)
		return APUS_POLICY_TYPE;
	if (writer->types.minimal.kind && reader->types.minimal.kind)
		return different_types(writer, reader, types);
	if (reader->qos.consistency.force_type_validation)
		return APUS_POLICY_TYPE_CONSISTENCY;
	return types->strict ? APUS_POLICY_TYPE : APUS_POLICY_NONE;
}

int apus_ctl_graph_mismatch(const struct apus_wire_endpoint_record *writer,
			    const struct apus_wire_endpoint_record *reader,
			    const struct apus_ctl_type_rule *types)
{
	const char *writer_partitions[APUS_WIRE_PARTITIONS_MAX];
	const char *reader_partitions[APUS_WIRE_PARTITIONS_MAX];
	struct apus_qos offered, requested;
	int policy;

	if (strcmp(apus_wire_record_text(writer, writer->topic),
		   apus_wire_record_text(reader, reader->topic)) != 0)
		return APUS_POLICY_TOPIC;
	policy = type_mismatch(writer, reader, types);
	if (policy != APUS_POLICY_NONE)
		return policy;
	apus_wire_endpoint_record_qos(writer, writer_partitions, &offered);
	apus_wire_endpoint_record_qos(reader, reader_partitions, &requested);
	return apus_qos_mismatch(&offered, &requested);
}

/* ---- candidates --------------------------------------------------------------------------------- */

uint32_t apus_ctl_graph_judge(struct apus_ctl_graph *g, uint32_t group,
			      const struct apus_wire_endpoint_record *record, bool is_local,
			      const struct apus_ctl_endpoint *self)
{
	bool writer = record->is_writer;
	uint32_t count = 0;

	if (group == APUS_CTL_NONE)
		return 0;
	/* Local counterparts first, then remote ones, each in order of admission. */
	for (int local = 1; local >= (is_local ? 0 : 1); local--) {
		uint32_t idx = g->groups[group].first[!writer][local];

		for (; idx != APUS_CTL_NONE; idx = g->endpoints[idx].group_next) {
			const struct apus_ctl_endpoint *other = endpoint_at(g, idx);

			if (self &&
			    apus_ctl_graph_match(g, writer ? self : other, writer ? other : self))
				continue;
			g->verdicts[count].idx = idx;
			g->verdicts[count++].policy = apus_ctl_graph_mismatch(
				writer ? record : other->record, writer ? other->record : record,
				&g->config.types);
		}
	}
	return count;
}

static bool has_room(const struct apus_ctl_endpoint *endpoint)
{
	return endpoint->match_count < endpoint->match_limit;
}

uint32_t apus_ctl_graph_wanted(const struct apus_ctl_graph *g, uint32_t verdict_count,
			       uint32_t room)
{
	uint32_t wanted = 0;

	for (uint32_t i = 0; i < verdict_count && wanted < room; i++)
		wanted += g->verdicts[i].policy == APUS_POLICY_NONE &&
			  has_room(endpoint_at(g, g->verdicts[i].idx));
	return wanted;
}

/* A different partition is a different place, and a different type another topic: neither is
 * incompatible QoS. */
static bool is_qos_policy(int policy)
{
	return policy != APUS_POLICY_NONE && policy != APUS_POLICY_PARTITION &&
	       policy != APUS_POLICY_TOPIC && policy != APUS_POLICY_TYPE;
}

void apus_ctl_graph_tell_incompatible(struct apus_ctl_graph *g, struct apus_ctl_endpoint *endpoint,
				      const struct apus_ctl_endpoint *other, int policy)
{
	if (!endpoint->is_local || !is_qos_policy(policy))
		return;
	endpoint->incompatible_total++;
	endpoint->incompatible_policy = policy;
	if (endpoint->local.board) {
		struct apus_dp_graph_status shown;

		apus_dp_board_mine(endpoint->local.board, &shown);
		shown.last_incompatible = other->guid;
		if (policy < APUS_POLICY_COUNT)
			shown.by_policy[policy]++;
		apus_dp_board_write(endpoint->local.board, &shown);
	}
	apus_ctl_graph_mark_dirty(g, endpoint, APUS_CTL_DIRTY_STATUS);
}

void apus_ctl_graph_count_incompatible(struct apus_ctl_graph *g, struct apus_ctl_endpoint *endpoint,
				       uint32_t verdict_count, bool is_new)
{
	for (uint32_t i = 0; i < verdict_count; i++) {
		struct apus_ctl_endpoint *other = endpoint_at(g, g->verdicts[i].idx);

		if (is_new)
			apus_ctl_graph_tell_incompatible(g, endpoint, other, g->verdicts[i].policy);
		apus_ctl_graph_tell_incompatible(g, other, endpoint, g->verdicts[i].policy);
	}
}

/* ---- making and ending -------------------------------------------------------------------------- */

static uint32_t pair_bits(uint32_t writer, uint32_t reader)
{
	uint64_t h = ((uint64_t)writer << 32 | reader) * UINT64_C(0x9e3779b97f4a7c15);

	return (uint32_t)(h >> 32);
}

struct apus_ctl_match *apus_ctl_graph_match(const struct apus_ctl_graph *g,
					    const struct apus_ctl_endpoint *writer,
					    const struct apus_ctl_endpoint *reader)
{
	uint32_t bits = pair_bits(writer->idx, reader->idx), at = bits, idx;

	while ((idx = apus_ctl_table_next(&g->match_table, bits, &at)) != APUS_CTL_TABLE_NONE)
		if (g->matches[idx].writer == writer->idx && g->matches[idx].reader == reader->idx)
			return &g->matches[idx];
	return NULL;
}

struct apus_ctl_match *apus_ctl_graph_next_match(const struct apus_ctl_graph *g,
						 const struct apus_ctl_endpoint *endpoint,
						 const struct apus_ctl_match *match)
{
	uint32_t idx = endpoint->first_match;

	if (match)
		idx = endpoint->is_writer ? match->writer_next : match->reader_next;
	return idx == APUS_CTL_NONE ? NULL : &g->matches[idx];
}

static uint32_t *next_link(struct apus_ctl_match *m, bool of_writer)
{
	return of_writer ? &m->writer_next : &m->reader_next;
}

static uint32_t *prev_link(struct apus_ctl_match *m, bool of_writer)
{
	return of_writer ? &m->writer_prev : &m->reader_prev;
}

/* dirty: what a local endpoint is marked for. */
static void note_transition(struct apus_ctl_graph *g, struct apus_ctl_endpoint *e,
			    const struct apus_ctl_match *m, uint32_t dirty)
{
	e->transitions++;
	if (!e->is_local)
		return;
	if (e->local.board) {
		struct apus_dp_graph_status shown;

		apus_dp_board_mine(e->local.board, &shown);
		shown.last_match = endpoint_at(g, e->is_writer ? m->reader : m->writer)->guid;
		apus_dp_board_write(e->local.board, &shown);
	}
	apus_ctl_graph_mark_dirty(g, e, dirty);
}

/* Appends a match to an endpoint's list and counts its arrival. */
static void append(struct apus_ctl_graph *g, struct apus_ctl_endpoint *e, struct apus_ctl_match *m)
{
	*next_link(m, e->is_writer) = APUS_CTL_NONE;
	*prev_link(m, e->is_writer) = e->last_match;
	if (e->last_match == APUS_CTL_NONE)
		e->first_match = m->idx;
	else
		*next_link(&g->matches[e->last_match], e->is_writer) = m->idx;
	e->last_match = m->idx;
	e->match_count++;
	e->matched_total++;
	note_transition(g, e, m, APUS_CTL_DIRTY_MATCHES);
}

/* leaves: as end() has it. */
static void detach(struct apus_ctl_graph *g, struct apus_ctl_endpoint *e, struct apus_ctl_match *m,
		   bool leaves)
{
	uint32_t next = *next_link(m, e->is_writer), prev = *prev_link(m, e->is_writer);

	*(prev == APUS_CTL_NONE ? &e->first_match : next_link(&g->matches[prev], e->is_writer)) =
		next;
	*(next == APUS_CTL_NONE ? &e->last_match : prev_link(&g->matches[next], e->is_writer)) =
		prev;
	e->match_count--;
	/* A reader of this process is out of its writers' reach already: apus_dp_worker_remove_reader(). */
	note_transition(g, e, m,
			e->is_writer && leaves && endpoint_at(g, m->reader)->is_local
				? APUS_CTL_DIRTY_FILTERS
				: APUS_CTL_DIRTY_MATCHES);
}

static void make(struct apus_ctl_graph *g, struct apus_ctl_endpoint *writer,
		 struct apus_ctl_endpoint *reader)
{
	uint32_t idx = g->match_free.first;
	struct apus_ctl_match *m;

	if (idx == APUS_CTL_NONE)
		idx = g->match_free.unused++;
	else
		g->match_free.first = g->matches[idx].next_free;
	m = &g->matches[idx];
	m->idx = idx;
	m->id = ++g->match_last_id;
	m->writer = writer->idx;
	m->reader = reader->idx;
	apus_ctl_table_add(&g->match_table, pair_bits(writer->idx, reader->idx), idx);
	append(g, writer, m);
	append(g, reader, m);
	g->match_count += !writer->is_builtin;
}

/* leaves: one of both is about to leave the graph. */
static void end(struct apus_ctl_graph *g, struct apus_ctl_match *m, bool leaves)
{
	struct apus_ctl_endpoint *writer = endpoint_at(g, m->writer);
	struct apus_ctl_endpoint *reader = endpoint_at(g, m->reader);

	if (g->match_end)
		g->match_end(g->match_end_user, m);
	apus_ctl_table_remove(&g->match_table, pair_bits(m->writer, m->reader), m->idx);
	detach(g, writer, m, leaves);
	detach(g, reader, m, leaves);
	g->match_count -= !writer->is_builtin;
	m->id = 0;
	m->next_free = g->match_free.first;
	g->match_free.first = m->idx;
	g->match_ended = true;
	g->freed++;
}

void apus_ctl_graph_renew_match(struct apus_ctl_graph *g, struct apus_ctl_match *m)
{
	struct apus_ctl_endpoint *ends[2] = {endpoint_at(g, m->writer), endpoint_at(g, m->reader)};

	if (g->match_end)
		g->match_end(g->match_end_user, m);
	m->id = ++g->match_last_id;
	for (int i = 0; i < 2; i++)
		if (ends[i]->is_local)
			apus_ctl_graph_mark_dirty(g, ends[i], APUS_CTL_DIRTY_MATCHES);
}

void apus_ctl_graph_match_builtin(struct apus_ctl_graph *g, struct apus_ctl_endpoint *ours,
				  struct apus_ctl_endpoint *theirs)
{
	struct apus_ctl_endpoint *writer = ours->is_writer ? ours : theirs;
	struct apus_ctl_endpoint *reader = ours->is_writer ? theirs : ours;

	if (!apus_ctl_graph_match(g, writer, reader))
		make(g, writer, reader);
}

static void starve(struct apus_ctl_graph *g, struct apus_ctl_endpoint *endpoint)
{
	if (!endpoint->is_local || endpoint->starved)
		return;
	endpoint->starved = true;
	g->starved_count++;
}

void apus_ctl_graph_apply(struct apus_ctl_graph *g, struct apus_ctl_endpoint *endpoint,
			  uint32_t verdict_count)
{
	for (uint32_t i = 0; i < verdict_count; i++) {
		struct apus_ctl_endpoint *other = endpoint_at(g, g->verdicts[i].idx);

		if (g->verdicts[i].policy != APUS_POLICY_NONE || !endpoint->participant->proved ||
		    !other->participant->proved)
			continue;
		if (g->match_count < g->config.matches && has_room(endpoint) && has_room(other)) {
			make(g, endpoint->is_writer ? endpoint : other,
			     endpoint->is_writer ? other : endpoint);
			continue;
		}
		apus_counter_add(&g->counters.unmatched_full, 1);
		starve(g, endpoint);
		starve(g, other);
	}
}

void apus_ctl_graph_unmatch(struct apus_ctl_graph *g, struct apus_ctl_endpoint *endpoint,
			    bool (*ends)(const struct apus_ctl_graph *g,
					 const struct apus_ctl_match *match),
			    bool leaves)
{
	struct apus_ctl_match *m = apus_ctl_graph_next_match(g, endpoint, NULL), *next;

	for (; m; m = next) {
		next = apus_ctl_graph_next_match(g, endpoint, m);
		if (!ends || ends(g, m))
			end(g, m, leaves);
	}
}

void apus_ctl_graph_touch(struct apus_ctl_graph *g, struct apus_ctl_endpoint *endpoint)
{
	apus_ctl_graph_touch_as(g, endpoint, APUS_CTL_DIRTY_MATCHES);
}

void apus_ctl_graph_touch_as(struct apus_ctl_graph *g, struct apus_ctl_endpoint *endpoint,
			     uint32_t dirty)
{
	struct apus_ctl_match *m = NULL;

	if (endpoint->is_local)
		apus_ctl_graph_mark_dirty(g, endpoint, APUS_CTL_DIRTY_MATCHES);
	while ((m = apus_ctl_graph_next_match(g, endpoint, m))) {
		struct apus_ctl_endpoint *other =
			endpoint_at(g, endpoint->is_writer ? m->reader : m->writer);

		if (other->is_local)
			apus_ctl_graph_mark_dirty(g, other, dirty);
	}
}

void apus_ctl_graph_refill(struct apus_ctl_graph *g)
{
	uint32_t idx = g->match_ended && g->starved_count ? g->first[true] : APUS_CTL_NONE;

	g->match_ended = false;
	for (; idx != APUS_CTL_NONE; idx = g->endpoints[idx].next) {
		struct apus_ctl_endpoint *e = endpoint_at(g, idx);

		if (!e->starved || !has_room(e) || g->match_count == g->config.matches)
			continue;
		/* Starved anew below if there is still no room for everybody. */
		e->starved = false;
		g->starved_count--;
		apus_ctl_graph_apply(g, e, apus_ctl_graph_judge(g, e->group, e->record, true, e));
	}
}

void apus_ctl_graph_types_changed(struct apus_ctl_graph *g)
{
	for (uint32_t idx = g->first[true]; idx != APUS_CTL_NONE; idx = g->endpoints[idx].next) {
		struct apus_ctl_endpoint *e = endpoint_at(g, idx);

		if (!e->is_builtin)
			apus_ctl_graph_apply(g, e,
					     apus_ctl_graph_judge(g, e->group, e->record, true, e));
	}
}
