/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of the graph: creation, participants, look-up, removal, the dirty list.
 *
 * All tables are arrays of slots with a free list and links in the slots; a slot number is stable for
 * the life of what is in it. Hash tables have a fixed size, so nothing is ever rehashed.
 */
#include "control/graph_internal.h"

#include "base/fresh.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* The built-in endpoints: bit in PID_BUILTIN_ENDPOINT_SET, entity id (RTPS 2.5 table 9.4, §9.3.1.5).
 * The counterpart of row i is row i ^ 1. */
static const struct {
	uint32_t bit;
	uint32_t eid;
} builtins[BUILTIN_COUNT] = {
	{APUS_WIRE_BUILTIN_SPDP_WRITER, APUS_CTL_EID_SPDP_WRITER},
	{APUS_WIRE_BUILTIN_SPDP_READER, APUS_CTL_EID_SPDP_READER},
	{APUS_WIRE_BUILTIN_PUBLICATIONS_WRITER, APUS_CTL_EID_PUBLICATIONS_WRITER},
	{APUS_WIRE_BUILTIN_PUBLICATIONS_READER, APUS_CTL_EID_PUBLICATIONS_READER},
	{APUS_WIRE_BUILTIN_SUBSCRIPTIONS_WRITER, APUS_CTL_EID_SUBSCRIPTIONS_WRITER},
	{APUS_WIRE_BUILTIN_SUBSCRIPTIONS_READER, APUS_CTL_EID_SUBSCRIPTIONS_READER},
	{APUS_WIRE_BUILTIN_MESSAGE_WRITER, APUS_CTL_EID_MESSAGE_WRITER},
	{APUS_WIRE_BUILTIN_MESSAGE_READER, APUS_CTL_EID_MESSAGE_READER},
	{APUS_WIRE_BUILTIN_TYPE_REQUEST_WRITER, APUS_CTL_EID_TYPE_REQUEST_WRITER},
	{APUS_WIRE_BUILTIN_TYPE_REQUEST_READER, APUS_CTL_EID_TYPE_REQUEST_READER},
	{APUS_WIRE_BUILTIN_TYPE_REPLY_WRITER, APUS_CTL_EID_TYPE_REPLY_WRITER},
	{APUS_WIRE_BUILTIN_TYPE_REPLY_READER, APUS_CTL_EID_TYPE_REPLY_READER},
};

/* ---- creation ----------------------------------------------------------------------------------- */

static uint32_t endpoint_slots(const struct apus_ctl_graph_config *c)
{
	return c->local_endpoints + c->remote_writers + c->remote_readers +
	       BUILTIN_COUNT * (c->participants + 1);
}

static uint32_t user_slots(const struct apus_ctl_graph_config *c)
{
	return c->local_endpoints + c->remote_writers + c->remote_readers;
}

static bool allocate(struct apus_ctl_graph *g)
{
	uint32_t users = user_slots(&g->config);
	uint32_t participants = g->config.participants + 1;

	g->endpoint_capacity = endpoint_slots(&g->config);
	g->match_capacity = g->config.matches + BUILTIN_COUNT * g->config.participants;
	g->participants = apus_fresh_alloc(participants, sizeof(*g->participants));
	g->endpoints = apus_fresh_alloc(g->endpoint_capacity, sizeof(*g->endpoints));
	g->groups = apus_fresh_alloc(users, sizeof(*g->groups));
	g->matches = apus_fresh_alloc(g->match_capacity, sizeof(*g->matches));
	g->verdicts = apus_fresh_alloc(g->endpoint_capacity, sizeof(*g->verdicts));
	return apus_ctl_table_init(&g->participant_table, participants) &&
	       apus_ctl_table_init(&g->endpoint_table, g->endpoint_capacity) &&
	       apus_ctl_table_init(&g->group_table, users) &&
	       apus_ctl_table_init(&g->match_table, g->match_capacity) && g->participants &&
	       g->endpoints && g->groups && g->matches && g->verdicts;
}

static void begin_lists(struct apus_ctl_graph *g)
{
	g->participant_free.first = g->endpoint_free.first = APUS_CTL_NONE;
	g->group_free.first = g->match_free.first = APUS_CTL_NONE;
	g->participant_first = g->participant_last = APUS_CTL_NONE;
	g->dirty_first = g->dirty_last = APUS_CTL_NONE;
	memset(g->first, 0xff, sizeof(g->first));
	memset(g->last, 0xff, sizeof(g->last));
	memset(g->builtin, 0xff, sizeof(g->builtin));
}

static struct apus_ctl_participant *
link_participant(struct apus_ctl_graph *g, const struct apus_wire_participant_record *record);
static void resolve_participant(struct apus_ctl_graph *g, struct apus_ctl_participant *p);

int apus_ctl_graph_create(const struct apus_ctl_graph_config *config,
			  const struct apus_wire_participant_record *self,
			  struct apus_ctl_graph **graph_out)
{
	uint64_t slots = (uint64_t)config->local_endpoints + config->remote_writers +
			 config->remote_readers + 8 * ((uint64_t)config->participants + 1);
	struct apus_ctl_graph *g;
	struct apus_ctl_participant *p;

	if (!config->participants || !config->local_endpoints || !config->remote_writers ||
	    !config->remote_readers || !config->matches || !config->matches_per_endpoint ||
	    slots > INT32_MAX || config->matches > INT32_MAX - 8 * (uint64_t)config->participants ||
	    !apus_prefix_equal(&config->prefix, &self->prefix))
		return APUS_EINVAL;
	g = calloc(1, sizeof(*g));
	if (!g)
		return APUS_ENOMEM;
	g->config = *config;
	if (!allocate(g)) {
		apus_ctl_graph_destroy(g);
		return APUS_ENOMEM;
	}
	begin_lists(g);
	p = link_participant(g, self);
	p->local = p->same_host = p->proved = true;
	resolve_participant(g, p);
	*graph_out = g;
	return 0;
}

void apus_ctl_graph_destroy(struct apus_ctl_graph *g)
{
	if (!g)
		return;
	for (uint32_t i = 0; i < g->endpoint_free.unused; i++)
		free(g->endpoints[i].record);
	apus_fresh_free(g->participants, g->config.participants + 1, sizeof(*g->participants));
	apus_fresh_free(g->endpoints, g->endpoint_capacity, sizeof(*g->endpoints));
	apus_fresh_free(g->groups, user_slots(&g->config), sizeof(*g->groups));
	apus_fresh_free(g->matches, g->match_capacity, sizeof(*g->matches));
	apus_fresh_free(g->verdicts, g->endpoint_capacity, sizeof(*g->verdicts));
	apus_ctl_table_fini(&g->participant_table);
	apus_ctl_table_fini(&g->endpoint_table);
	apus_ctl_table_fini(&g->group_table);
	apus_ctl_table_fini(&g->match_table);
	free(g);
}

/* ---- look-up ------------------------------------------------------------------------------------ */

static uint32_t bits_of(const struct apus_ctl_graph *g, const void *bytes, size_t count)
{
	return apus_ctl_table_bits(XXH3_64bits_withSeed(bytes, count, g->config.hash_seed));
}

struct apus_ctl_endpoint *apus_ctl_graph_endpoint(const struct apus_ctl_graph *g,
						  const struct apus_guid *guid)
{
	uint32_t bits = bits_of(g, guid, sizeof(*guid)), at = bits, idx;

	while ((idx = apus_ctl_table_next(&g->endpoint_table, bits, &at)) != APUS_CTL_TABLE_NONE)
		if (apus_guid_equal(&g->endpoints[idx].guid, guid))
			return endpoint_at(g, idx);
	return NULL;
}

struct apus_ctl_participant *apus_ctl_graph_participant(const struct apus_ctl_graph *g,
							const struct apus_prefix *prefix)
{
	uint32_t bits = bits_of(g, prefix, sizeof(*prefix)), at = bits, idx;

	while ((idx = apus_ctl_table_next(&g->participant_table, bits, &at)) != APUS_CTL_TABLE_NONE)
		if (apus_prefix_equal(&g->participants[idx].record.prefix, prefix))
			return &g->participants[idx];
	return NULL;
}

static bool same_text(const struct apus_wire_endpoint_record *a, struct apus_wire_text in_a,
		      const struct apus_wire_endpoint_record *b, struct apus_wire_text in_b)
{
	return in_a.bytes == in_b.bytes && memcmp(apus_wire_record_text(a, in_a),
						  apus_wire_record_text(b, in_b), in_a.bytes) == 0;
}

/* Any member of a group: they all name the same topic and type. */
static const struct apus_wire_endpoint_record *member(const struct apus_ctl_graph *g,
						      const struct apus_ctl_group *group)
{
	for (int writer = 0; writer < 2; writer++)
		for (int local = 0; local < 2; local++)
			if (group->first[writer][local] != APUS_CTL_NONE)
				return g->endpoints[group->first[writer][local]].record;
	return NULL;
}

uint32_t apus_ctl_graph_topic_bits(const struct apus_ctl_graph *g,
				   const struct apus_wire_endpoint_record *record)
{
	return bits_of(g, apus_wire_record_text(record, record->topic), record->topic.bytes);
}

struct apus_ctl_group_place apus_ctl_graph_group(const struct apus_ctl_graph *g,
						 const struct apus_wire_endpoint_record *record,
						 uint32_t topic_bits)
{
	uint32_t at = topic_bits, idx;

	while ((idx = apus_ctl_table_next(&g->group_table, topic_bits, &at)) !=
	       APUS_CTL_TABLE_NONE) {
		const struct apus_wire_endpoint_record *m = member(g, &g->groups[idx]);

		if (same_text(m, m->topic, record, record->topic) &&
		    same_text(m, m->type, record, record->type))
			break;
	}
	return (struct apus_ctl_group_place){idx, topic_bits};
}

/* Counts one more endpoint of other type for each local member of a group. */
static void tell_inconsistent(struct apus_ctl_graph *g, const struct apus_ctl_group *group)
{
	for (int writer = 0; writer < 2; writer++) {
		uint32_t idx = group->first[writer][true];

		for (; idx != APUS_CTL_NONE; idx = g->endpoints[idx].group_next) {
			g->endpoints[idx].inconsistent_topics++;
			apus_ctl_graph_mark_dirty(g, endpoint_at(g, idx), APUS_CTL_DIRTY_STATUS);
		}
	}
}

uint32_t apus_ctl_graph_inconsistent(struct apus_ctl_graph *g,
				     const struct apus_wire_endpoint_record *record,
				     struct apus_ctl_group_place own, bool is_local)
{
	uint32_t at = own.topic_bits, count = 0, idx;

	while ((idx = apus_ctl_table_next(&g->group_table, own.topic_bits, &at)) !=
	       APUS_CTL_TABLE_NONE) {
		struct apus_ctl_group *group = &g->groups[idx];
		const struct apus_wire_endpoint_record *m;

		if (idx == own.idx)
			continue;
		m = member(g, group);
		if (!same_text(m, m->topic, record, record->topic))
			continue;
		for (int writer = 0; writer < 2; writer++)
			count += group->count[writer][false] + group->count[writer][true];
		tell_inconsistent(g, group);
	}
	return is_local ? count : 0;
}

struct apus_ctl_endpoint *apus_ctl_graph_endpoint_at(const struct apus_ctl_graph *g, uint32_t idx)
{
	return endpoint_at(g, idx);
}

struct apus_ctl_endpoint *apus_ctl_graph_next_endpoint(const struct apus_ctl_graph *g,
						       const struct apus_ctl_endpoint *endpoint)
{
	uint32_t idx = endpoint ? endpoint->next : g->first[true];

	if (idx == APUS_CTL_NONE && (!endpoint || endpoint->is_local))
		idx = g->first[false];
	return idx == APUS_CTL_NONE ? NULL : endpoint_at(g, idx);
}

struct apus_ctl_participant *
apus_ctl_graph_next_participant(const struct apus_ctl_graph *g,
				const struct apus_ctl_participant *participant)
{
	uint32_t idx = participant ? participant->next : g->participant_first;

	return idx == APUS_CTL_NONE ? NULL : &g->participants[idx];
}

/* ---- linking and unlinking ---------------------------------------------------------------------- */

bool apus_ctl_graph_resolve(const struct apus_ctl_graph *g, struct apus_ctl_endpoint *e)
{
	const struct apus_ctl_participant *p = e->participant;
	const struct apus_ctl_locator_policy *policy = &g->config.locators;
	const struct apus_ctl_locator_side side = {
		.same_host = p->same_host,
		.proof = g->config.await_proof && !p->local ? &p->proof : NULL,
		.from = &p->from};
	static const struct apus_wire_endpoint_locators none;
	const struct apus_wire_endpoint_locators *own = e->locators ? e->locators : &none;
	struct apus_dp_addr unicast, multicast = {0};

	if (e->is_builtin) {
		unicast = p->metatraffic;
	} else {
		apus_ctl_locators_unicast(policy, &side, &own->unicast, &p->record.default_unicast,
					  &unicast, &e->reason);
		if (!e->is_writer)
			apus_ctl_locators_multicast(policy, &own->multicast,
						    &p->record.default_multicast, &multicast);
	}
	if (apus_dp_addr_equal(&unicast, &e->unicast) &&
	    apus_dp_addr_equal(&multicast, &e->multicast))
		return false;
	e->unicast = unicast;
	e->multicast = multicast;
	return true;
}

struct apus_ctl_endpoint *apus_ctl_graph_link(struct apus_ctl_graph *g,
					      const struct apus_guid *guid,
					      struct apus_ctl_participant *p, bool is_writer,
					      bool is_builtin)
{
	uint32_t idx = g->endpoint_free.first;
	struct apus_ctl_endpoint *e;

	if (idx == APUS_CTL_NONE)
		idx = g->endpoint_free.unused++;
	else
		g->endpoint_free.first = g->endpoints[idx].next;
	e = endpoint_at(g, idx);
	*e = (struct apus_ctl_endpoint){.guid = *guid,
					.idx = idx,
					.is_writer = is_writer,
					.is_local = p->local,
					.is_builtin = is_builtin,
					.participant = p,
					.first_match = APUS_CTL_NONE,
					.last_match = APUS_CTL_NONE,
					.match_limit = UINT32_MAX,
					.next = APUS_CTL_NONE,
					.prev = g->last[p->local],
					.of_participant_next = p->first_endpoint,
					.of_participant_prev = APUS_CTL_NONE,
					.group = APUS_CTL_NONE};
	apus_ctl_table_add(&g->endpoint_table, bits_of(g, guid, sizeof(*guid)), idx);
	*(e->prev == APUS_CTL_NONE ? &g->first[p->local] : &g->endpoints[e->prev].next) = idx;
	g->last[p->local] = idx;
	if (p->first_endpoint != APUS_CTL_NONE)
		g->endpoints[p->first_endpoint].of_participant_prev = idx;
	p->first_endpoint = idx;
	if (!is_builtin) {
		p->endpoint_count++;
		g->user_count[p->local][is_writer]++;
	}
	return e;
}

static uint32_t make_group(struct apus_ctl_graph *g, uint32_t topic_bits)
{
	uint32_t idx = g->group_free.first;
	struct apus_ctl_group *group;

	if (idx == APUS_CTL_NONE)
		idx = g->group_free.unused++;
	else
		g->group_free.first = g->groups[idx].next_free;
	group = &g->groups[idx];
	*group = (struct apus_ctl_group){.topic_bits = topic_bits};
	memset(group->first, 0xff, sizeof(group->first));
	memset(group->last, 0xff, sizeof(group->last));
	apus_ctl_table_add(&g->group_table, topic_bits, idx);
	return idx;
}

void apus_ctl_graph_link_group(struct apus_ctl_graph *g, struct apus_ctl_endpoint *e,
			       struct apus_ctl_group_place place)
{
	bool w = e->is_writer, l = e->is_local;
	struct apus_ctl_group *group;

	e->group = place.idx == APUS_CTL_NONE ? make_group(g, place.topic_bits) : place.idx;
	group = &g->groups[e->group];
	e->group_next = APUS_CTL_NONE;
	e->group_prev = group->last[w][l];
	*(e->group_prev == APUS_CTL_NONE ? &group->first[w][l]
					 : &g->endpoints[e->group_prev].group_next) = e->idx;
	group->last[w][l] = e->idx;
	group->count[w][l]++;
}

static void unlink_group(struct apus_ctl_graph *g, struct apus_ctl_endpoint *e)
{
	struct apus_ctl_group *group = &g->groups[e->group];
	bool w = e->is_writer, l = e->is_local;

	*(e->group_prev == APUS_CTL_NONE ? &group->first[w][l]
					 : &g->endpoints[e->group_prev].group_next) = e->group_next;
	*(e->group_next == APUS_CTL_NONE ? &group->last[w][l]
					 : &g->endpoints[e->group_next].group_prev) = e->group_prev;
	group->count[w][l]--;
	if (group->count[0][0] + group->count[0][1] + group->count[1][0] + group->count[1][1])
		return;
	apus_ctl_table_remove(&g->group_table, group->topic_bits, e->group);
	group->next_free = g->group_free.first;
	g->group_free.first = e->group;
}

static void unlink_dirty(struct apus_ctl_graph *g, struct apus_ctl_endpoint *e)
{
	if (!e->dirty)
		return;
	e->dirty = 0;
	*(e->dirty_prev == APUS_CTL_NONE ? &g->dirty_first
					 : &g->endpoints[e->dirty_prev].dirty_next) = e->dirty_next;
	*(e->dirty_next == APUS_CTL_NONE ? &g->dirty_last
					 : &g->endpoints[e->dirty_next].dirty_prev) = e->dirty_prev;
}

static void unlink_orders(struct apus_ctl_graph *g, struct apus_ctl_endpoint *e)
{
	struct apus_ctl_participant *p = e->participant;

	*(e->prev == APUS_CTL_NONE ? &g->first[e->is_local] : &g->endpoints[e->prev].next) =
		e->next;
	*(e->next == APUS_CTL_NONE ? &g->last[e->is_local] : &g->endpoints[e->next].prev) = e->prev;
	*(e->of_participant_prev == APUS_CTL_NONE
		  ? &p->first_endpoint
		  : &g->endpoints[e->of_participant_prev].of_participant_next) =
		e->of_participant_next;
	if (e->of_participant_next != APUS_CTL_NONE)
		g->endpoints[e->of_participant_next].of_participant_prev = e->of_participant_prev;
}

/* Takes an endpoint out of everything; O(1) but for its matches. */
static void drop_endpoint(struct apus_ctl_graph *g, struct apus_ctl_endpoint *e)
{
	apus_ctl_graph_unmatch(g, e, NULL, true);
	unlink_dirty(g, e);
	unlink_orders(g, e);
	apus_ctl_table_remove(&g->endpoint_table, bits_of(g, &e->guid, sizeof(e->guid)), e->idx);
	if (e->group != APUS_CTL_NONE)
		unlink_group(g, e);
	if (!e->is_builtin) {
		e->participant->endpoint_count--;
		g->user_count[e->is_local][e->is_writer]--;
		g->record_bytes -= apus_ctl_graph_kept_bytes(e);
	}
	g->starved_count -= e->starved;
	free(e->record);
	e->record = NULL;
	e->locators = NULL;
	g->freed++;
	e->next = g->endpoint_free.first;
	g->endpoint_free.first = e->idx;
}

int apus_ctl_graph_remove_endpoint(struct apus_ctl_graph *g, const struct apus_guid *guid)
{
	struct apus_ctl_endpoint *e = apus_ctl_graph_endpoint(g, guid);

	if (!e)
		return APUS_ENOENT;
	for (int i = 0; e->is_local && i < BUILTIN_COUNT; i++)
		if (g->builtin[i] == e->idx)
			g->builtin[i] = APUS_CTL_NONE;
	drop_endpoint(g, e);
	apus_ctl_graph_refill(g);
	return 0;
}

/* ---- participants ------------------------------------------------------------------------------- */

static struct apus_ctl_participant *
link_participant(struct apus_ctl_graph *g, const struct apus_wire_participant_record *record)
{
	uint32_t idx = g->participant_free.first;
	struct apus_ctl_participant *p;

	if (idx == APUS_CTL_NONE)
		idx = g->participant_free.unused++;
	else
		g->participant_free.first = g->participants[idx].next;
	p = &g->participants[idx];
	memset(p, 0, sizeof(*p));
	p->record = *record;
	p->proved = !g->config.await_proof;
	p->idx = idx;
	p->first_endpoint = p->next = APUS_CTL_NONE;
	p->prev = g->participant_last;
	*(p->prev == APUS_CTL_NONE ? &g->participant_first : &g->participants[p->prev].next) = idx;
	g->participant_last = idx;
	apus_ctl_table_add(&g->participant_table,
			   bits_of(g, &record->prefix, sizeof(record->prefix)), idx);
	return p;
}

/* Do we speak with a participant through row `i`? */
static bool speaks_through(const struct apus_ctl_participant *p, int i)
{
	switch (builtins[i].eid) {
	case APUS_CTL_EID_SPDP_WRITER:
	case APUS_CTL_EID_SPDP_READER: return p->role == APUS_CTL_SERVER;
	case APUS_CTL_EID_PUBLICATIONS_WRITER:
	case APUS_CTL_EID_PUBLICATIONS_READER:
	case APUS_CTL_EID_SUBSCRIPTIONS_WRITER:
	case APUS_CTL_EID_SUBSCRIPTIONS_READER: return p->role != APUS_CTL_RELAYED;
	default: return true;
	}
}

/* Makes or drops the endpoint that stands for row `i` of a participant's built-in ones. */
static void sync_builtin(struct apus_ctl_graph *g, struct apus_ctl_participant *p, int i)
{
	struct apus_eid eid = {builtins[i].eid};
	struct apus_guid guid = apus_guid_make(&p->record.prefix, eid);
	struct apus_ctl_endpoint *e = apus_ctl_graph_endpoint(g, &guid);
	bool present = p->record.builtin_endpoints & builtins[i].bit && speaks_through(p, i);

	if (e && !present)
		drop_endpoint(g, e);
	if (!present || g->builtin[i ^ 1] == APUS_CTL_NONE)
		return;
	if (!e)
		e = apus_ctl_graph_link(g, &guid, p, !(i & 1), true);
	if (apus_ctl_graph_resolve(g, e))
		apus_ctl_graph_touch(g, e);
	apus_ctl_graph_match_builtin(g, endpoint_at(g, g->builtin[i ^ 1]), e);
}

static void resolve_participant(struct apus_ctl_graph *g, struct apus_ctl_participant *p)
{
	const struct apus_ctl_locator_side side = {.same_host = p->same_host, .from = &p->from};

	apus_ctl_locators_unicast(&g->config.locators, &side, &p->record.metatraffic_unicast,
				  &p->record.default_unicast, &p->metatraffic, NULL);
	if (p->role == APUS_CTL_SERVER)
		p->metatraffic = p->server;
	for (int i = 0; i < BUILTIN_COUNT && !p->local; i++)
		sync_builtin(g, p, i);
	for (uint32_t e = p->first_endpoint; e != APUS_CTL_NONE;
	     e = g->endpoints[e].of_participant_next)
		if (apus_ctl_graph_resolve(g, endpoint_at(g, e)))
			apus_ctl_graph_touch(g, endpoint_at(g, e));
}

/* A participant that was known by the word of a server speaks for itself now, under numbers of its own: each of
 * its records is newer than what was told. */
static void set_role(struct apus_ctl_graph *g, struct apus_ctl_participant *p,
		     const struct apus_ctl_source *source)
{
	if (p->role == APUS_CTL_RELAYED && source->role != APUS_CTL_RELAYED)
		for (uint32_t e = p->first_endpoint; e != APUS_CTL_NONE;
		     e = g->endpoints[e].of_participant_next)
			g->endpoints[e].generation = 0;
	p->role = source->role;
	p->server = source->server;
	p->from = source->from;
}

static int add_participant(struct apus_ctl_graph *g,
			   const struct apus_wire_participant_record *record, bool same_host,
			   const struct apus_ctl_source *source,
			   struct apus_ctl_participant **participant_out)
{
	struct apus_ctl_participant *p = apus_ctl_graph_participant(g, &record->prefix);
	int result = APUS_CTL_ADMITTED;

	if (p && p->local)
		return APUS_EINVAL;
	if (p) {
		result = memcmp(&p->record, record, sizeof(*record)) == 0 &&
					 p->same_host == same_host && p->role == source->role &&
					 apus_dp_addr_equal(&p->server, &source->server)
				 ? APUS_CTL_UNCHANGED
				 : APUS_CTL_CHANGED;
	} else if (g->participant_count == g->config.participants) {
		apus_counter_add(&g->counters.refused_participants, 1);
		return APUS_ELIMIT;
	} else {
		p = link_participant(g, record);
		g->participant_count++;
	}
	if (result != APUS_CTL_UNCHANGED) {
		p->record = *record;
		p->same_host = same_host;
		set_role(g, p, source);
		resolve_participant(g, p);
		apus_ctl_graph_refill(g);
	}
	if (participant_out)
		*participant_out = p;
	return result;
}

int apus_ctl_graph_add_participant(struct apus_ctl_graph *g,
				   const struct apus_wire_participant_record *record,
				   bool same_host, struct apus_ctl_participant **participant_out)
{
	const struct apus_ctl_source unknown = {.role = APUS_CTL_PEER};

	return add_participant(g, record, same_host, &unknown, participant_out);
}

int apus_ctl_graph_add_participant_from(struct apus_ctl_graph *g,
					const struct apus_wire_participant_record *record,
					const struct apus_dp_addr *from,
					struct apus_ctl_participant **participant_out)
{
	const struct apus_ctl_source source = {.role = APUS_CTL_PEER, .from = *from};

	return apus_ctl_graph_add_participant_as(g, record, &source, participant_out);
}

static bool is_loopback(const struct apus_dp_addr *addr)
{
	static const uint8_t one[16] = {[15] = 1};

	return addr->family == AF_INET ? addr->ip[12] == 127
				       : memcmp(addr->ip, one, sizeof(one)) == 0;
}

/* What a server tells came from the server's host: whether they are on ours their addresses say. Loopback alone
 * is the address of whoever uses nothing else; beside others it says nothing. */
static bool on_this_host(const struct apus_ctl_graph *g,
			 const struct apus_wire_participant_record *record)
{
	const struct apus_wire_locators *at = &record->metatraffic_unicast;
	uint32_t usable = 0, loopback = 0;
	struct apus_dp_addr addr;

	for (uint32_t i = 0; i < at->count; i++) {
		if (!apus_dp_addr_from_locator(&at->at[i], &addr))
			continue;
		usable++;
		if (is_loopback(&addr))
			loopback++;
		else if (apus_ctl_locators_same_host(&g->config.locators, &addr))
			return true;
	}
	return usable && usable == loopback;
}

int apus_ctl_graph_add_participant_as(struct apus_ctl_graph *g,
				      const struct apus_wire_participant_record *record,
				      const struct apus_ctl_source *source,
				      struct apus_ctl_participant **participant_out)
{
	bool same_host = source->role == APUS_CTL_RELAYED
				 ? on_this_host(g, record)
				 : apus_ctl_locators_same_host(&g->config.locators, &source->from);

	return add_participant(g, record, same_host, source, participant_out);
}

void apus_ctl_graph_set_policy(struct apus_ctl_graph *g,
			       const struct apus_ctl_locator_policy *policy)
{
	g->config.locators = *policy;
	for (uint32_t i = g->participant_first; i != APUS_CTL_NONE; i = g->participants[i].next) {
		struct apus_ctl_participant *p = &g->participants[i];

		if (p->role == APUS_CTL_RELAYED)
			p->same_host = on_this_host(g, &p->record);
		else if (p->from.family)
			p->same_host = apus_ctl_locators_same_host(policy, &p->from);
		resolve_participant(g, p);
	}
}

/* Matches the endpoints of a participant, in order of admission. */
static void match_all(struct apus_ctl_graph *g, const struct apus_ctl_participant *p)
{
	uint32_t idx = p->first_endpoint;

	while (idx != APUS_CTL_NONE && g->endpoints[idx].of_participant_next != APUS_CTL_NONE)
		idx = g->endpoints[idx].of_participant_next;
	for (; idx != APUS_CTL_NONE; idx = g->endpoints[idx].of_participant_prev) {
		struct apus_ctl_endpoint *e = endpoint_at(g, idx);

		if (!e->is_builtin)
			apus_ctl_graph_apply(
				g, e, apus_ctl_graph_judge(g, e->group, e->record, false, e));
	}
}

void apus_ctl_graph_prove(struct apus_ctl_graph *g, struct apus_ctl_participant *p)
{
	bool first = !p->proved;

	if (!g->config.await_proof || p->local ||
	    (p->proved && apus_dp_addr_equal(&p->proof, &p->metatraffic)))
		return;
	p->proved = true;
	p->proof = p->metatraffic;
	resolve_participant(g, p);
	if (first)
		match_all(g, p);
}

void apus_ctl_graph_set_self(struct apus_ctl_graph *g,
			     const struct apus_wire_participant_record *record)
{
	g->participants[0].record = *record;
	g->participants[0].record.prefix = g->config.prefix;
	resolve_participant(g, &g->participants[0]);
}

int apus_ctl_graph_remove_participant(struct apus_ctl_graph *g, const struct apus_prefix *prefix)
{
	struct apus_ctl_participant *p = apus_ctl_graph_participant(g, prefix);

	if (!p || p->local)
		return APUS_ENOENT;
	while (p->first_endpoint != APUS_CTL_NONE)
		drop_endpoint(g, endpoint_at(g, p->first_endpoint));
	apus_ctl_table_remove(&g->participant_table, bits_of(g, prefix, sizeof(*prefix)), p->idx);
	*(p->prev == APUS_CTL_NONE ? &g->participant_first : &g->participants[p->prev].next) =
		p->next;
	*(p->next == APUS_CTL_NONE ? &g->participant_last : &g->participants[p->next].prev) =
		p->prev;
	p->next = g->participant_free.first;
	g->participant_free.first = p->idx;
	g->participant_count--;
	apus_ctl_graph_refill(g);
	return 0;
}

int apus_ctl_graph_add_builtin(struct apus_ctl_graph *g, struct apus_eid eid,
			       const struct apus_ctl_local *local,
			       struct apus_ctl_endpoint **endpoint_out)
{
	struct apus_guid guid = apus_guid_make(&g->config.prefix, eid);
	struct apus_ctl_endpoint *e;
	int i = 0;

	while (i < BUILTIN_COUNT && builtins[i].eid != eid.value)
		i++;
	if (i == BUILTIN_COUNT)
		return APUS_EINVAL;
	if (g->builtin[i] != APUS_CTL_NONE)
		return APUS_EEXIST;
	e = apus_ctl_graph_link(g, &guid, &g->participants[0], !(i & 1), true);
	e->local = *local;
	g->builtin[i] = e->idx;
	for (struct apus_ctl_participant *p = NULL; (p = apus_ctl_graph_next_participant(g, p));)
		if (!p->local)
			sync_builtin(g, p, i ^ 1);
	if (endpoint_out)
		*endpoint_out = e;
	return 0;
}

/* ---- the dirty list ----------------------------------------------------------------------------- */

void apus_ctl_graph_mark_dirty(struct apus_ctl_graph *g, struct apus_ctl_endpoint *e,
			       uint32_t dirty)
{
	if (!e->dirty) {
		e->dirty_next = APUS_CTL_NONE;
		e->dirty_prev = g->dirty_last;
		*(g->dirty_last == APUS_CTL_NONE ? &g->dirty_first
						 : &g->endpoints[g->dirty_last].dirty_next) =
			e->idx;
		g->dirty_last = e->idx;
	}
	e->dirty |= dirty;
}

struct apus_ctl_endpoint *apus_ctl_graph_take_dirty(struct apus_ctl_graph *g, uint32_t *dirty_out)
{
	struct apus_ctl_endpoint *e;

	if (g->dirty_first == APUS_CTL_NONE)
		return NULL;
	e = endpoint_at(g, g->dirty_first);
	*dirty_out = e->dirty;
	unlink_dirty(g, e);
	return e;
}

void apus_ctl_graph_on_match_end(struct apus_ctl_graph *g,
				 void (*hook)(void *user, const struct apus_ctl_match *match),
				 void *user)
{
	g->match_end = hook;
	g->match_end_user = user;
}

/* ---- figures ------------------------------------------------------------------------------------ */

const struct apus_ctl_locator_policy *apus_ctl_graph_policy(const struct apus_ctl_graph *g)
{
	return &g->config.locators;
}

uint32_t apus_ctl_graph_participant_capacity(const struct apus_ctl_graph *g)
{
	return g->config.participants + 1;
}

uint32_t apus_ctl_graph_endpoint_capacity(const struct apus_ctl_graph *g)
{
	return g->endpoint_capacity;
}

uint32_t apus_ctl_graph_match_capacity(const struct apus_ctl_graph *g)
{
	return g->match_capacity;
}

uint32_t apus_ctl_graph_participant_count(const struct apus_ctl_graph *g)
{
	return g->participant_count;
}

uint32_t apus_ctl_graph_match_count(const struct apus_ctl_graph *g)
{
	return g->match_count;
}

uint64_t apus_ctl_graph_freed(const struct apus_ctl_graph *graph)
{
	return graph->freed;
}

uint64_t apus_ctl_graph_record_bytes(const struct apus_ctl_graph *g)
{
	return g->record_bytes;
}

const struct apus_ctl_graph_counters *apus_ctl_graph_counters(const struct apus_ctl_graph *g)
{
	return &g->counters;
}
