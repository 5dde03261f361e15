/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission of endpoints. Every check comes before the first change, so a refusal has nothing to undo;
 * a match id is spent only when the match is certain.
 */
#include "control/graph_internal.h"

#include <stdlib.h>
#include <string.h>

/* An endpoint that contradicts itself can match nothing sensible. 0 means "not limited" in a limit. */
static bool contradicts(const struct apus_wire_endpoint_record *record)
{
	const struct apus_qos *q = &record->qos;

	if (q->history == APUS_KEEP_LAST && q->max_samples_per_instance &&
	    q->depth > q->max_samples_per_instance)
		return true;
	if (q->max_samples && q->max_samples_per_instance > q->max_samples)
		return true;
	return !record->is_writer && q->deadline_ns < q->time_filter_ns;
}

static int refuse(struct apus_counter *reason, int result)
{
	apus_counter_add(reason, 1);
	return result;
}

/* The checks that do not depend on who is known. */
static int check(struct apus_ctl_graph *g, const struct apus_wire_endpoint_record *record,
		 bool is_local, apus_seq generation, struct apus_ctl_participant **participant_out)
{
	struct apus_prefix prefix = apus_guid_prefix(&record->guid);

	if (apus_prefix_equal(&prefix, &g->config.prefix) != is_local || generation < 1)
		return APUS_EINVAL;
	*participant_out = apus_ctl_graph_participant(g, &prefix);
	if (!*participant_out)
		return refuse(&g->counters.refused_orphans, APUS_ENOENT);
	if (contradicts(record))
		return refuse(&g->counters.refused_qos, APUS_EQOS);
	return 0;
}

/* Is there a place in the table of its kind? */
static int check_table(struct apus_ctl_graph *g, bool is_writer, bool is_local)
{
	if (is_local)
		return g->user_count[true][false] + g->user_count[true][true] <
				       g->config.local_endpoints
			       ? 0
			       : refuse(&g->counters.refused_local, APUS_ELIMIT);
	if (is_writer)
		return g->user_count[false][true] < g->config.remote_writers
			       ? 0
			       : refuse(&g->counters.refused_writers, APUS_ELIMIT);
	return g->user_count[false][false] < g->config.remote_readers
		       ? 0
		       : refuse(&g->counters.refused_readers, APUS_ELIMIT);
}

/* What is kept of a record: the part in use and, if it names any, its locators behind that. */
struct kept {
	struct apus_wire_endpoint_record *record;
	struct apus_wire_endpoint_locators *locators;
};

static bool has_locators(const struct apus_wire_endpoint_record *record)
{
	const struct apus_wire_endpoint_locators *l = &record->locators;

	return l->unicast.count || l->unicast.skipped_count || l->multicast.count ||
	       l->multicast.skipped_count;
}

static size_t head_bytes(const struct apus_wire_endpoint_record *record)
{
	const size_t unit = _Alignof(struct apus_wire_endpoint_locators);

	return (apus_wire_endpoint_record_bytes(record) + unit - 1) / unit * unit;
}

static size_t kept_bytes(const struct apus_wire_endpoint_record *record)
{
	return has_locators(record)
		       ? head_bytes(record) + sizeof(struct apus_wire_endpoint_locators)
		       : apus_wire_endpoint_record_bytes(record);
}

/* False without memory. */
static bool keep(const struct apus_wire_endpoint_record *record, struct kept *kept_out)
{
	uint8_t *memory = malloc(kept_bytes(record));

	if (!memory)
		return false;
	memcpy(memory, record, apus_wire_endpoint_record_bytes(record));
	*kept_out = (struct kept){.record = (void *)memory};
	if (has_locators(record)) {
		kept_out->locators = (void *)(memory + head_bytes(record));
		*kept_out->locators = record->locators;
	}
	return true;
}

static uint32_t match_limit(const struct apus_ctl_graph *g,
			    const struct apus_wire_endpoint_record *record, bool is_local)
{
	if (!is_local)
		return UINT32_MAX;
	return record->qos.max_matches ? record->qos.max_matches : g->config.matches_per_endpoint;
}

static int admit(struct apus_ctl_graph *g, struct apus_ctl_participant *participant,
		 const struct apus_wire_endpoint_record *record, const struct apus_ctl_local *local,
		 apus_seq generation, uint32_t topic_bits, struct apus_ctl_endpoint **endpoint_out)
{
	uint32_t limit = match_limit(g, record, local), verdicts;
	struct apus_ctl_endpoint *e;
	struct apus_ctl_group_place place;
	struct kept kept;
	int result = check_table(g, record->is_writer, local);

	if (result)
		return result;
	if (g->record_bytes + kept_bytes(record) > g->config.record_bytes)
		return refuse(&g->counters.refused_bytes, APUS_ELIMIT);
	place = apus_ctl_graph_group(g, record, topic_bits);
	verdicts = apus_ctl_graph_judge(g, place.idx, record, local, NULL);
	if (apus_ctl_graph_wanted(g, verdicts, limit) > g->config.matches - g->match_count)
		return refuse(&g->counters.refused_matches, APUS_ELIMIT);
	if (!keep(record, &kept))
		return refuse(&g->counters.refused_bytes, APUS_ENOMEM);

	e = apus_ctl_graph_link(g, &record->guid, participant, record->is_writer, false);
	e->record = kept.record;
	e->locators = kept.locators;
	e->generation = generation;
	e->match_limit = limit;
	if (local)
		e->local = *local;
	g->record_bytes += apus_ctl_graph_kept_bytes(e);
	e->inconsistent_topics = apus_ctl_graph_inconsistent(g, e->record, place, local);
	apus_ctl_graph_link_group(g, e, place);
	apus_ctl_graph_resolve(g, e);
	apus_ctl_graph_count_incompatible(g, e, verdicts, true);
	apus_ctl_graph_apply(g, e, verdicts);
	if (local) /* even without a match its first snapshot is due: a reader's carries the filter */
		apus_ctl_graph_mark_dirty(g, e, APUS_CTL_DIRTY_MATCHES);
	*endpoint_out = e;
	return APUS_CTL_ADMITTED;
}

/* ---- refresh ------------------------------------------------------------------------------------ */

static bool same_names(const struct apus_wire_endpoint_record *a,
		       const struct apus_wire_endpoint_record *b)
{
	return a->is_writer == b->is_writer &&
	       strcmp(apus_wire_record_text(a, a->topic), apus_wire_record_text(b, b->topic)) ==
		       0 &&
	       strcmp(apus_wire_record_text(a, a->type), apus_wire_record_text(b, b->type)) == 0;
}

static bool same_bytes(const struct apus_ctl_endpoint *e,
		       const struct apus_wire_endpoint_record *record)
{
	size_t bytes = apus_wire_endpoint_record_bytes(record);

	if (bytes != apus_wire_endpoint_record_bytes(e->record) ||
	    memcmp(e->record, record, bytes) != 0 || has_locators(record) != (e->locators != NULL))
		return false;
	return !e->locators ||
	       memcmp(e->locators, &record->locators, sizeof(record->locators)) == 0;
}

/* The state kept for a match depends on these: when they change, the match ends and is made anew. */
static bool same_protocol(const struct apus_wire_endpoint_record *a,
			  const struct apus_wire_endpoint_record *b)
{
	return a->qos.reliability == b->qos.reliability && a->qos.durability == b->qos.durability;
}

static bool no_longer_fits(const struct apus_ctl_graph *g, const struct apus_ctl_match *m)
{
	return apus_ctl_graph_mismatch(endpoint_at(g, m->writer)->record,
				       endpoint_at(g, m->reader)->record, &g->config.types);
}

/* To the one that changes, what was matched until now becomes incompatible and nothing else. Its counterparts
 * learn of its new record as if it were remote: apus_ctl_graph_count_incompatible(). */
static void tell_parted(struct apus_ctl_graph *g, struct apus_ctl_endpoint *e)
{
	struct apus_ctl_match *m = NULL;

	while ((m = apus_ctl_graph_next_match(g, e, m))) {
		struct apus_ctl_endpoint *w = endpoint_at(g, m->writer);
		struct apus_ctl_endpoint *r = endpoint_at(g, m->reader);

		apus_ctl_graph_tell_incompatible(
			g, e, e->is_writer ? r : w,
			apus_ctl_graph_mismatch(w->record, r->record, &g->config.types));
	}
}

static void install(struct apus_ctl_graph *g, struct apus_ctl_endpoint *e, const struct kept *kept,
		    apus_seq generation)
{
	bool as_before =
		!e->is_writer && e->record->expects_inline_qos == kept->record->expects_inline_qos;

	if (!same_protocol(e->record, kept->record))
		apus_ctl_graph_unmatch(g, e, NULL, false);
	g->record_bytes -= apus_ctl_graph_kept_bytes(e);
	free(e->record);
	e->record = kept->record;
	e->locators = kept->locators;
	g->record_bytes += apus_ctl_graph_kept_bytes(e);
	e->generation = generation;
	if (e->is_local)
		tell_parted(g, e);
	apus_ctl_graph_unmatch(g, e, no_longer_fits, false);
	/* Of what a writer is told of a reader that stays matched only the filter is left. */
	as_before &= !apus_ctl_graph_resolve(g, e);
	apus_ctl_graph_touch_as(g, e, as_before ? APUS_CTL_DIRTY_FILTERS : APUS_CTL_DIRTY_MATCHES);
}

static int refresh(struct apus_ctl_graph *g, struct apus_ctl_endpoint *e,
		   const struct apus_wire_endpoint_record *record, apus_seq generation)
{
	struct kept kept;
	uint32_t verdicts;

	if (generation <= e->generation) {
		apus_counter_add(&g->counters.stale, 1);
		return APUS_CTL_UNCHANGED;
	}
	if (e->is_builtin || !same_names(e->record, record))
		return APUS_EIMMUTABLE;
	if (same_bytes(e, record)) {
		/* Said again. Only the generation of its filter is new, and with it what is published. */
		e->generation = generation;
		if (record->filter.present)
			apus_ctl_graph_touch_as(g, e, APUS_CTL_DIRTY_FILTERS);
		return APUS_CTL_UNCHANGED;
	}
	if (g->record_bytes - apus_ctl_graph_kept_bytes(e) + kept_bytes(record) >
	    g->config.record_bytes)
		return refuse(&g->counters.refused_bytes, APUS_ELIMIT);
	if (!keep(record, &kept))
		return refuse(&g->counters.refused_bytes, APUS_ENOMEM);
	install(g, e, &kept, generation);
	verdicts = apus_ctl_graph_judge(g, e->group, e->record, e->is_local, e);
	apus_ctl_graph_count_incompatible(g, e, verdicts, false);
	apus_ctl_graph_apply(g, e, verdicts);
	return APUS_CTL_CHANGED;
}

/* In a large graph nothing of what an admission needs is in the caches. What can be named beforehand is
 * loaded while the GUID is looked up. Returns the bits of the topic. */
static uint32_t begin_loads(const struct apus_ctl_graph *g,
			    const struct apus_wire_endpoint_record *record)
{
	uint32_t bits = apus_ctl_graph_topic_bits(g, record);
	uint32_t slot = g->endpoint_free.first;

	apus_ctl_table_prefetch(&g->group_table, bits);
	if (slot == APUS_CTL_NONE)
		slot = g->endpoint_free.unused;
	if (slot < g->endpoint_capacity)
		for (size_t at = 0; at < sizeof(struct apus_ctl_endpoint); at += 64)
			__builtin_prefetch((const char *)&g->endpoints[slot] + at, 1);
	return bits;
}

int apus_ctl_graph_add_endpoint(struct apus_ctl_graph *g,
				const struct apus_wire_endpoint_record *record,
				const struct apus_ctl_local *local, apus_seq generation,
				struct apus_ctl_endpoint **endpoint_out)
{
	uint32_t topic_bits = begin_loads(g, record);
	struct apus_ctl_endpoint *e = apus_ctl_graph_endpoint(g, &record->guid);
	struct apus_ctl_participant *participant;
	int result = check(g, record, e ? e->is_local : local != NULL, generation, &participant);

	if (result)
		return result;
	result = e ? refresh(g, e, record, generation)
		   : admit(g, participant, record, local, generation, topic_bits, &e);
	if (result < 0)
		return result;
	apus_ctl_graph_refill(g);
	if (endpoint_out)
		*endpoint_out = e;
	return result;
}
