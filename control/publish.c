/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshot builder and reclaim; see the header.
 *
 * A generation is one block: the list it waits in, the filters it holds, and the snapshot itself. The
 * retired ones stand in one queue in the order of their epochs, so a reclaim looks at the front only.
 */
#include "control/publish.h"

#include "base/fresh.h"

#include "control/filter_index.h"
#include "control/filter_pool.h"

#include <stdlib.h>
#include <string.h>

/* Vendor id of Fast DDS (eProsima), for the deviation noted in dataplane/snapshot.h. */
#define VENDOR_EPROSIMA 0x010f
#define VENDOR_CYCLONE  0x0110

/* What ends in a snapshot. */
#define NEWS (APUS_CTL_DIRTY_MATCHES | APUS_CTL_DIRTY_FILTERS)
/* News of filters wait so long for each match of their writer after its last snapshot, if it has so many. */
#define PUT_OFF_NS      5000
#define PUT_OFF_MATCHES 256

/* An index of filters, shared by the generations that have the same ones. */
struct shared_index {
	struct apus_dp_filter_index *index;
	uint32_t refs;
};

/* A snapshot with what it keeps alive. */
struct generation {
	struct generation *next; /* in the queue of retired ones */
	uint64_t epoch;          /* when it was replaced */
	uint64_t incarnation;    /* of the endpoint, to count the right one's */
	uint32_t endpoint_idx;
	uint32_t filter_count;
	void *snapshot;
	struct shared_index
		*index; /* writers: over `filter`, whose places are the ids; may be NULL */
	struct apus_ctl_shared_filter *filter[]; /* each once; the snapshot follows them */
};

/* What is published for one local endpoint. */
struct published {
	struct generation *current;
	struct apus_mono at;  /* writers: when that was published */
	uint64_t incarnation; /* grows when the slot is given up */
	uint64_t number;      /* of the last snapshot */
	uint32_t retired;     /* generations waiting for reclaim */
	uint32_t filtered;    /* writers: matches that count against filter_remote_readers */
	struct apus_ctl_shared_filter *filter; /* readers: their own */
	uint64_t filter_generation;
};

/* What is known of the filter of one match, so that a snapshot costs no compilation. */
struct match_filter {
	uint64_t match_id;
	apus_seq generation;
	struct apus_ctl_shared_filter *filter;
	uint8_t signature[16];
	bool counted; /* in published.filtered */
	bool never; /* came when the writer filtered for as many as it may; decision of a lifetime */
};

/* An endpoint that is marked again for another turn. */
struct put_off {
	uint32_t endpoint, dirty;
};

struct apus_ctl_publisher {
	struct apus_ctl_publisher_config config;
	struct apus_ctl_publisher_counters counters;
	struct apus_ctl_graph *graph;
	struct apus_ctl_filter_pool pool;
	uint64_t stamp; /* of the snapshot being built */
	const struct apus_dp_turn **turns;
	struct published *published;  /* by endpoint slot */
	struct match_filter *filters; /* by match slot */
	struct put_off *put_off;      /* scratch, by endpoint slots */
	struct generation *retired_first, *retired_last;
	uint32_t retired_count;
};

static void on_match_end(void *user, const struct apus_ctl_match *match);

/* ---- life --------------------------------------------------------------------------------------- */

static void free_tables(struct apus_ctl_publisher *p)
{
	uint32_t endpoints = apus_ctl_graph_endpoint_capacity(p->graph);

	free(p->turns);
	apus_fresh_free(p->published, endpoints, sizeof(*p->published));
	apus_fresh_free(p->filters, apus_ctl_graph_match_capacity(p->graph), sizeof(*p->filters));
	apus_fresh_free(p->put_off, endpoints, sizeof(*p->put_off));
}

int apus_ctl_publisher_create(const struct apus_ctl_publisher_config *config,
			      struct apus_ctl_graph *graph,
			      struct apus_ctl_publisher **publisher_out)
{
	uint32_t endpoints = apus_ctl_graph_endpoint_capacity(graph);
	struct apus_ctl_publisher *p = calloc(1, sizeof(*p));

	if (!p)
		return APUS_ENOMEM;
	p->config = *config;
	p->graph = graph;
	p->turns = calloc(config->turn_count + 1, sizeof(*p->turns));
	p->published = apus_fresh_alloc(endpoints, sizeof(*p->published));
	p->filters = apus_fresh_alloc(apus_ctl_graph_match_capacity(graph), sizeof(*p->filters));
	p->put_off = apus_fresh_alloc(endpoints, sizeof(*p->put_off));
	if (!p->turns || !p->published || !p->filters || !p->put_off ||
	    apus_ctl_filter_pool_init(&p->pool, config->filter_unique, &config->filter_limits)) {
		free_tables(p);
		free(p);
		return APUS_ENOMEM;
	}
	p->pool.custom = config->custom_filter;
	p->pool.custom_user = config->user;
	p->pool.no_builtin = config->no_builtin_filter;
	memcpy(p->turns, config->turns, config->turn_count * sizeof(*p->turns));
	apus_ctl_graph_on_match_end(graph, on_match_end, p);
	*publisher_out = p;
	return 0;
}

static void drop_index(struct shared_index *index)
{
	if (!index || --index->refs)
		return;
	apus_ctl_filter_index_free(index->index);
	free(index);
}

static void free_generation(struct apus_ctl_publisher *p, struct generation *generation)
{
	drop_index(generation->index);
	for (uint32_t i = 0; i < generation->filter_count; i++)
		apus_ctl_filter_pool_drop(&p->pool, generation->filter[i]);
	free(generation);
}

void apus_ctl_publisher_destroy(struct apus_ctl_publisher *p)
{
	struct generation *next;

	if (!p)
		return;
	apus_ctl_graph_on_match_end(p->graph, NULL, NULL);
	for (struct generation *r = p->retired_first; r; r = next) {
		next = r->next;
		free_generation(p, r);
	}
	for (uint32_t i = 0; i < apus_ctl_graph_endpoint_capacity(p->graph); i++) {
		if (p->published[i].current)
			free_generation(p, p->published[i].current);
		apus_ctl_filter_pool_drop(&p->pool, p->published[i].filter);
	}
	for (uint32_t i = 0; i < apus_ctl_graph_match_capacity(p->graph); i++)
		apus_ctl_filter_pool_drop(&p->pool, p->filters[i].filter);
	apus_ctl_filter_pool_fini(&p->pool);
	free_tables(p);
	free(p);
}

/* ---- retire and reclaim ------------------------------------------------------------------------- */

bool apus_ctl_publisher_passed(const struct apus_ctl_publisher *p, uint64_t epoch)
{
	for (uint32_t i = 0; i < p->config.turn_count; i++)
		if (!apus_dp_turn_passed(p->turns[i], epoch))
			return false;
	return true;
}

static void retire(struct apus_ctl_publisher *p, struct generation *generation, uint64_t epoch)
{
	if (!generation)
		return;
	generation->epoch = epoch;
	generation->next = NULL;
	*(p->retired_last ? &p->retired_last->next : &p->retired_first) = generation;
	p->retired_last = generation;
	p->retired_count++;
	p->published[generation->endpoint_idx].retired++;
}

uint32_t apus_ctl_publisher_reclaim(struct apus_ctl_publisher *p)
{
	struct generation *g;

	while ((g = p->retired_first) && apus_ctl_publisher_passed(p, g->epoch)) {
		struct published *owner = &p->published[g->endpoint_idx];

		p->retired_first = g->next;
		if (!g->next)
			p->retired_last = NULL;
		p->retired_count--;
		owner->retired -= owner->incarnation == g->incarnation;
		free_generation(p, g);
		apus_counter_add(&p->counters.reclaimed, 1);
	}
	return p->retired_count;
}

/* ---- filters of matches ------------------------------------------------------------------------- */

static void stop_using(struct apus_ctl_publisher *p, struct apus_ctl_shared_filter *filter)
{
	if (filter)
		filter->users--;
	apus_ctl_filter_pool_drop(&p->pool, filter);
}

static void forget_filter(struct apus_ctl_publisher *p, const struct apus_ctl_match *match)
{
	struct match_filter *f = &p->filters[match->idx];

	if (f->match_id != match->id)
		return;
	p->published[match->writer].filtered -= f->counted;
	stop_using(p, f->filter);
	memset(f, 0, sizeof(*f));
}

static void on_match_end(void *user, const struct apus_ctl_match *match)
{
	struct apus_ctl_publisher *p = user;

	forget_filter(p, match);
	if (p->config.match_ended)
		p->config.match_ended(p->config.user, match);
}

/* May this writer leave out what this reader rejects? */
static bool may_filter(const struct apus_ctl_publisher *p, const struct apus_ctl_endpoint *writer,
		       const struct apus_ctl_endpoint *reader)
{
	/* A reader of a writer with a finite lease takes every sample as a sign of life. For local ones
	 * see may_index(). */
	return p->config.writer_filtering && writer->is_local && !reader->is_local &&
	       writer->local.type && reader->record && reader->record->filter.present &&
	       writer->record && writer->record->qos.lease_ns == APUS_INFINITE_NS;
}

/* May this writer find out for this reader of the same process what its filter rejects? Only by the same program
 * over the very same type. A reader of a writer with a finite lease takes every sample as a sign of life. */
static bool may_index(const struct apus_ctl_publisher *p, const struct apus_ctl_endpoint *writer,
		      const struct apus_ctl_endpoint *reader)
{
	const struct apus_wire_type_hash *complete;

	if (!writer->is_local || !reader->is_local || reader->is_builtin || !writer->local.type ||
	    !p->published[reader->idx].filter || !reader->record->filter.present ||
	    writer->record->qos.lease_ns != APUS_INFINITE_NS)
		return false;
	complete = &reader->record->types.complete;
	return reader->local.type == writer->local.type ||
	       (complete->kind != 0 &&
		apus_wire_type_hash_equal(complete, &writer->record->types.complete));
}

/* Counts a match with a filter against its writer's limit, once; false: never filter for it. */
static bool within_limit(struct apus_ctl_publisher *p, struct match_filter *f, uint32_t writer)
{
	if (!f->counted && !f->never) {
		if (p->published[writer].filtered < p->config.filter_remote_readers) {
			p->published[writer].filtered++;
			f->counted = true;
		} else {
			f->never = true;
		}
	}
	return !f->never;
}

/* Does no other reader have the filter that a match of this one has? Looked for only if it matters. */
static bool makes_room(const struct apus_ctl_publisher *p, const struct apus_ctl_endpoint *reader,
		       const struct apus_ctl_shared_filter *filter)
{
	uint32_t users = 0;

	if (!filter || !filter->counted || p->pool.count < p->pool.capacity)
		return false;
	for (struct apus_ctl_match *m = NULL;
	     (m = apus_ctl_graph_next_match(p->graph, reader, m)) != NULL;)
		users +=
			p->filters[m->idx].match_id == m->id && p->filters[m->idx].filter == filter;
	return users == filter->users;
}

/* The compiled filter of a match, NULL for none. Compiles when the reader's record is new. */
static struct apus_ctl_shared_filter *filter_of(struct apus_ctl_publisher *p,
						const struct apus_ctl_match *match,
						const struct apus_ctl_endpoint *writer,
						const struct apus_ctl_endpoint *reader)
{
	struct match_filter *f = &p->filters[match->idx];
	struct apus_ctl_shared_filter *old = f->filter;
	bool replaces;

	if (f->match_id == match->id && f->generation == reader->generation)
		return f->filter;
	replaces = makes_room(p, reader, old);
	f->match_id = match->id;
	f->generation = reader->generation;
	f->filter = NULL;
	if (may_filter(p, writer, reader)) {
		apus_wire_endpoint_record_signature(reader->record, f->signature);
		if (within_limit(p, f, match->writer))
			f->filter = apus_ctl_filter_pool_get(&p->pool, writer->local.type,
							     reader->record, writer->local.context,
							     replaces);
		if (!f->filter)
			apus_counter_add(&p->counters.filters_refused, 1);
	} else if (may_index(p, writer, reader)) {
		f->filter = apus_ctl_filter_pool_get_local(&p->pool, writer->local.type,
							   reader->record);
	}
	if (f->filter)
		f->filter->users++;
	/* Dropped last: the same text under a new generation is not compiled again. */
	stop_using(p, old);
	return f->filter;
}

/* ---- building ----------------------------------------------------------------------------------- */

static struct generation *new_generation(struct apus_ctl_publisher *p,
					 const struct apus_ctl_endpoint *e, size_t snapshot_bytes,
					 uint32_t filters)
{
	size_t head = sizeof(struct generation) + filters * sizeof(struct apus_ctl_shared_filter *);
	struct generation *g;

	head = (head + 15) & ~(size_t)15;
	g = calloc(1, head + snapshot_bytes);
	if (!g)
		return NULL;
	g->endpoint_idx = e->idx;
	g->incarnation = p->published[e->idx].incarnation;
	g->snapshot = (char *)g + head;
	return g;
}

/* SPDP is matched with Discovery Servers only, and reliable with them. */
static bool reliable(const struct apus_ctl_endpoint *e)
{
	return e->is_builtin || e->record->qos.reliability == APUS_RELIABLE;
}

/* What the TypeLookup service says is of use only to whoever asked. */
static bool is_volatile_builtin(const struct apus_ctl_endpoint *e)
{
	switch (apus_guid_eid(&e->guid).value) {
	case APUS_CTL_EID_TYPE_REQUEST_WRITER:
	case APUS_CTL_EID_TYPE_REQUEST_READER:
	case APUS_CTL_EID_TYPE_REPLY_WRITER:
	case APUS_CTL_EID_TYPE_REPLY_READER: return true;
	default: return false;
	}
}

static bool keeps_history(const struct apus_ctl_endpoint *e)
{
	return e->is_builtin ? !is_volatile_builtin(e)
			     : e->record->qos.durability >= APUS_TRANSIENT_LOCAL;
}

/* The place of a filter in a generation's list, which has each once. */
static uint32_t enter_filter(struct apus_ctl_publisher *p, struct generation *g,
			     struct apus_ctl_shared_filter *filter)
{
	if (filter->stamp != p->stamp) {
		filter->stamp = p->stamp;
		filter->id = g->filter_count;
		g->filter[g->filter_count++] = apus_ctl_filter_pool_hold(filter);
	}
	return filter->id;
}

/* Of a class of the application only itself knows whether two instances think alike. */
static bool is_builtin_class(const struct apus_ctl_publisher *p,
			     const struct apus_wire_endpoint_record *record)
{
	return !p->config.no_builtin_filter &&
	       strcmp(apus_wire_record_text(record, record->filter.class_name),
		      APUS_CTL_FILTER_CLASS) == 0;
}

/* What a Discovery Server tells of an endpoint has no number of its own participant, by which filters are told
 * apart. */
static bool is_numbered(const struct apus_ctl_endpoint *e)
{
	return e->participant->role != APUS_CTL_RELAYED;
}

/* May a reader take a writer's word for what its filter makes of a sample? Only if that runs the same program
 * over the same type, names, labels and all. */
static bool is_trusted(const struct apus_ctl_publisher *p, const struct apus_ctl_endpoint *reader,
		       const struct apus_ctl_endpoint *writer)
{
	const struct apus_wire_type_hash *ours = &reader->record->types.complete;

	return p->config.filter_info && reader->record->filter.present && is_numbered(writer) &&
	       writer->participant->record.vendor == APUS_WIRE_VENDOR && ours->kind != 0 &&
	       apus_wire_type_hash_equal(ours, &writer->record->types.complete) &&
	       is_builtin_class(p, reader->record);
}

static bool wants_inline_qos(const struct apus_ctl_endpoint *reader)
{
	return !reader->is_builtin && (reader->record->expects_inline_qos ||
				       reader->participant->record.expects_inline_qos);
}

static bool expects_inline_qos(const struct apus_ctl_publisher *p,
			       const struct apus_ctl_endpoint *writer)
{
	const struct apus_ctl_match *m = NULL;

	while ((m = apus_ctl_graph_next_match(p->graph, writer, m)))
		if (wants_inline_qos(apus_ctl_graph_endpoint_at(p->graph, m->reader)))
			return true;
	return false;
}

/* False: the match has no route yet. */
static bool fill_reader(struct apus_ctl_publisher *p, const struct apus_ctl_endpoint *writer,
			const struct apus_ctl_match *match, struct generation *g,
			struct apus_dp_reader_match *out)
{
	const struct apus_ctl_endpoint *reader =
		apus_ctl_graph_endpoint_at(p->graph, match->reader);
	const struct apus_wire_participant_record *participant = &reader->participant->record;
	struct apus_ctl_shared_filter *filter;
	struct apus_dp_shm_out *shm = NULL;

	if (p->config.route_out && !writer->is_builtin && !reader->is_local &&
	    p->config.route_out(p->config.user, match, writer, reader, &shm) ==
		    APUS_CTL_ROUTE_PENDING)
		return false;
	filter = filter_of(p, match, writer, reader);
	*out = (struct apus_dp_reader_match){
		.guid = reader->guid,
		.match_id = match->id,
		.reliable = reliable(reader) && reliable(writer),
		.transient_local = keeps_history(reader) && keeps_history(writer),
		.local = reader->is_local,
		.hash_only_dispose = !reader->is_builtin && participant->vendor == VENDOR_EPROSIMA,
		.inline_qos = wants_inline_qos(reader),
		.unicast = reader->unicast,
		.multicast = reader->multicast,
		.shm = shm,
	};
	if (!reader->is_builtin && reader->record->filter.present)
		out->filter_generation = (uint64_t)reader->generation;
	if (filter && reader->is_local) {
		out->local_generation = p->published[reader->idx].filter_generation;
		out->filter_id = enter_filter(p, g, filter);
	} else if (filter) {
		out->predicate = filter->predicate;
		out->filter_id = enter_filter(p, g, filter);
		out->filter_info = p->config.filter_info && is_numbered(reader) &&
				   is_builtin_class(p, reader->record);
		memcpy(out->filter_signature, p->filters[match->idx].signature,
		       sizeof(out->filter_signature));
	}
	return true;
}

static bool fill_writer(const struct apus_ctl_publisher *p, const struct apus_ctl_endpoint *reader,
			const struct apus_ctl_match *match, struct apus_dp_writer_match *out)
{
	const struct apus_ctl_endpoint *writer =
		apus_ctl_graph_endpoint_at(p->graph, match->writer);
	struct apus_dp_shm_in *shm = NULL;

	if (p->config.route_in && !reader->is_builtin && !writer->is_local &&
	    p->config.route_in(p->config.user, match, writer, reader, &shm) ==
		    APUS_CTL_ROUTE_PENDING)
		return false;
	*out = (struct apus_dp_writer_match){
		.guid = writer->guid,
		.match_id = match->id,
		.reliable = reliable(reader) && reliable(writer),
		.transient_local = keeps_history(reader) && keeps_history(writer),
		.local = writer->is_local,
		.lease_ns = APUS_INFINITE_NS,
		.lifespan_ns = APUS_INFINITE_NS,
		.unicast = writer->unicast,
		.shm = shm,
	};
	if (!writer->is_builtin) {
		out->filter_trusted = !writer->is_local && is_trusted(p, reader, writer);
		out->past_unwanted = keeps_history(writer) && !keeps_history(reader) &&
				     writer->participant->record.vendor == VENDOR_CYCLONE;
		out->publisher = writer->record->group;
		out->strength = writer->record->qos.strength;
		out->liveliness = writer->record->qos.liveliness;
		out->lease_ns = writer->record->qos.lease_ns;
		out->lifespan_ns = writer->record->qos.lifespan_ns;
	}
	return true;
}

/* Both kinds of match begin with their GUID. */
_Static_assert(offsetof(struct apus_dp_reader_match, guid) == 0 &&
		       offsetof(struct apus_dp_writer_match, guid) == 0,
	       "by_guid() compares the first member");

static int by_guid(const void *a, const void *b)
{
	return apus_guid_compare(a, b);
}

static bool same_filters(const struct generation *a, const struct generation *b)
{
	return a && b->filter_count == a->filter_count &&
	       memcmp(a->filter, b->filter, a->filter_count * sizeof(a->filter[0])) == 0;
}

/* The index over a generation's filters: the one of the generation before, if those are the same. */
static bool make_index(const struct apus_type *type, struct generation *g,
		       const struct generation *old)
{
	struct apus_ctl_index_filter *filters;
	int result = APUS_ENOMEM;

	if (g->filter_count == 0)
		return true;
	if (same_filters(old, g)) {
		g->index = old->index;
		g->index->refs++;
		return true;
	}
	filters = malloc(g->filter_count * sizeof(*filters));
	g->index = calloc(1, sizeof(*g->index));
	for (uint32_t i = 0; filters && i < g->filter_count; i++)
		filters[i] =
			(struct apus_ctl_index_filter){g->filter[i]->predicate, g->filter[i]->term};
	if (filters && g->index)
		result = apus_ctl_filter_index_build(type, filters, g->filter_count,
						     &g->index->index);
	free(filters);
	if (result == 0)
		g->index->refs = 1;
	else
		free(g->index);
	if (result != 0)
		g->index = NULL;
	return result == 0;
}

static bool publish_writer(struct apus_ctl_publisher *p, struct apus_ctl_endpoint *e)
{
	struct published *s = &p->published[e->idx];
	struct apus_dp_writer_snapshot *snapshot;
	struct apus_ctl_match *m = NULL;
	struct generation *g, *old = s->current;
	uint64_t epoch;

	size_t bytes = sizeof(*snapshot) + e->match_count * sizeof(snapshot->match[0]);
	bool inline_qos = expects_inline_qos(p, e);

	g = new_generation(p, e, bytes + (inline_qos ? APUS_WIRE_INLINE_QOS_BYTES : 0),
			   e->match_count);
	if (!g)
		return false;
	p->stamp++;
	snapshot = g->snapshot;
	if (inline_qos) {
		snapshot->inline_list = (uint8_t *)snapshot + bytes;
		snapshot->inline_bytes =
			apus_wire_inline_qos_encode(e->record, (uint8_t *)snapshot + bytes);
	}
	while ((m = apus_ctl_graph_next_match(p->graph, e, m)))
		snapshot->match_count +=
			fill_reader(p, e, m, g, &snapshot->match[snapshot->match_count]);
	if (!make_index(e->local.type, g, old)) {
		free_generation(p, g);
		return false;
	}
	snapshot->index = g->index ? g->index->index : NULL;
	snapshot->generation = ++s->number;
	qsort(snapshot->match, snapshot->match_count, sizeof(snapshot->match[0]), by_guid);
	s->current = g;
	apus_dp_writer_publish(p->config.epoch, e->local.writer_port, snapshot, &epoch);
	retire(p, old, epoch);
	return true;
}

static bool publish_reader(struct apus_ctl_publisher *p, struct apus_ctl_endpoint *e)
{
	struct published *s = &p->published[e->idx];
	struct apus_dp_reader_snapshot *snapshot;
	struct apus_ctl_match *m = NULL;
	struct generation *g, *old = s->current;
	uint64_t epoch;

	g = new_generation(p, e, sizeof(*snapshot) + e->match_count * sizeof(snapshot->match[0]),
			   1);
	if (!g)
		return false;
	snapshot = g->snapshot;
	snapshot->generation = ++s->number;
	snapshot->filter_generation = s->filter_generation;
	if (s->filter) {
		snapshot->filter = s->filter->predicate;
		if (e->record->filter.present)
			apus_wire_endpoint_record_signature(e->record, snapshot->filter_signature);
		g->filter[g->filter_count++] = apus_ctl_filter_pool_hold(s->filter);
	}
	while ((m = apus_ctl_graph_next_match(p->graph, e, m)))
		snapshot->match_count +=
			fill_writer(p, e, m, &snapshot->match[snapshot->match_count]);
	qsort(snapshot->match, snapshot->match_count, sizeof(snapshot->match[0]), by_guid);
	s->current = g;
	apus_dp_reader_publish(p->config.epoch, e->local.reader_port, snapshot, &epoch);
	retire(p, old, epoch);
	return true;
}

/* ---- turns -------------------------------------------------------------------------------------- */

/* Publishes one endpoint; false if it has to wait for a reclaim (or for memory). */
static bool publish(struct apus_ctl_publisher *p, struct apus_ctl_endpoint *e)
{
	bool has_port = e->is_writer ? e->local.writer_port != NULL : e->local.reader_port != NULL;

	if (!has_port)
		return true;
	if (p->published[e->idx].retired >= p->config.generations ||
	    !(e->is_writer ? publish_writer(p, e) : publish_reader(p, e)))
		return false;
	apus_counter_add(&p->counters.published, 1);
	return true;
}

/* When a writer with news of filters is published next; 0: now. A snapshot of so many matches costs this time
 * about a tenth of the pause between two. */
static struct apus_mono due_at(const struct apus_ctl_publisher *p,
			       const struct apus_ctl_endpoint *e, struct apus_mono now)
{
	const struct published *s = &p->published[e->idx];
	struct apus_mono due = {0};

	if (!e->is_writer || e->is_builtin || !s->current || e->match_count < PUT_OFF_MATCHES)
		return due;
	due = apus_mono_add(s->at, (int64_t)e->match_count * PUT_OFF_NS);
	return apus_mono_before(now, due) ? due : (struct apus_mono){0};
}

/* What of an endpoint's news has to wait: bits of `dirty`. */
static uint32_t publish_news(struct apus_ctl_publisher *p, struct apus_ctl_endpoint *e,
			     uint32_t dirty, struct apus_mono now, struct apus_mono *due)
{
	struct apus_mono later = {0};

	if (!(dirty & NEWS))
		return 0;
	if (!(dirty & APUS_CTL_DIRTY_MATCHES))
		later = due_at(p, e, now);
	if (later.ns) {
		if (!due->ns || apus_mono_before(later, *due))
			*due = later;
		return APUS_CTL_DIRTY_FILTERS;
	}
	if (!publish(p, e))
		return APUS_CTL_DIRTY_MATCHES;
	if (now.ns != INT64_MAX)
		p->published[e->idx].at = now;
	return 0;
}

uint32_t apus_ctl_publisher_turn_at(struct apus_ctl_publisher *p, struct apus_mono now,
				    struct apus_mono *due_out)
{
	struct apus_ctl_endpoint *e;
	uint32_t dirty, waits, put_off = 0, deferred = 0;

	due_out->ns = 0;
	apus_ctl_publisher_reclaim(p);
	while ((e = apus_ctl_graph_take_dirty(p->graph, &dirty))) {
		waits = publish_news(p, e, dirty, now, due_out);
		if (waits) {
			p->put_off[put_off].endpoint = e->idx;
			p->put_off[put_off++].dirty = waits;
			deferred += waits == APUS_CTL_DIRTY_MATCHES;
			dirty &= waits == APUS_CTL_DIRTY_MATCHES ? ~NEWS : ~0u;
		}
		if (dirty && p->config.published)
			p->config.published(p->config.user, e, dirty);
	}
	for (uint32_t i = 0; i < put_off; i++)
		apus_ctl_graph_mark_dirty(
			p->graph, apus_ctl_graph_endpoint_at(p->graph, p->put_off[i].endpoint),
			p->put_off[i].dirty);
	apus_counter_add(&p->counters.deferred, deferred);
	return deferred;
}

uint32_t apus_ctl_publisher_turn(struct apus_ctl_publisher *p)
{
	struct apus_mono unused;

	return apus_ctl_publisher_turn_at(p, (struct apus_mono){INT64_MAX}, &unused);
}

int apus_ctl_publisher_reserve_filter(struct apus_ctl_publisher *p,
				      const struct apus_ctl_endpoint *reader,
				      struct apus_dp_predicate *predicate,
				      const struct apus_wire_endpoint_record *record,
				      struct apus_ctl_shared_filter **reserved_out)
{
	*reserved_out = NULL;
	if (!reader->is_local || reader->is_writer)
		return APUS_EINVAL;
	if (!predicate)
		return 0;
	*reserved_out = apus_ctl_filter_pool_wrap(&p->pool, predicate, reader->local.type, record,
						  p->published[reader->idx].filter);
	if (*reserved_out)
		return 0;
	return p->pool.own >= p->pool.capacity ? APUS_ELIMIT : APUS_ENOMEM;
}

void apus_ctl_publisher_cancel_filter(struct apus_ctl_publisher *p,
				      struct apus_ctl_shared_filter *reserved)
{
	apus_ctl_filter_pool_drop(&p->pool, reserved);
}

void apus_ctl_publisher_commit_filter(struct apus_ctl_publisher *p,
				      struct apus_ctl_endpoint *reader,
				      struct apus_ctl_shared_filter *reserved, uint64_t generation)
{
	struct published *s = &p->published[reader->idx];

	apus_ctl_filter_pool_drop(&p->pool, s->filter);
	s->filter = reserved;
	s->filter_generation = generation;
	apus_ctl_graph_mark_dirty(p->graph, reader, APUS_CTL_DIRTY_MATCHES);
}

int apus_ctl_publisher_set_filter(struct apus_ctl_publisher *p, struct apus_ctl_endpoint *reader,
				  struct apus_dp_predicate *predicate, uint64_t generation)
{
	struct apus_ctl_shared_filter *filter;
	int rc = APUS_EINVAL;

	if (generation > p->published[reader->idx].filter_generation)
		rc = apus_ctl_publisher_reserve_filter(p, reader, predicate, reader->record,
						       &filter);
	if (rc == 0)
		apus_ctl_publisher_commit_filter(p, reader, filter, generation);
	else
		apus_ctl_filter_free(predicate);
	return rc;
}

uint64_t apus_ctl_publisher_forget(struct apus_ctl_publisher *p, struct apus_ctl_endpoint *e)
{
	struct published *s = &p->published[e->idx];
	uint64_t epoch;

	if (e->is_writer && e->local.writer_port)
		apus_dp_writer_publish(p->config.epoch, e->local.writer_port, NULL, &epoch);
	else if (!e->is_writer && e->local.reader_port)
		apus_dp_reader_publish(p->config.epoch, e->local.reader_port, NULL, &epoch);
	else
		/* acquire: the epoch of whatever was published last; nothing is in a port to be seen. */
		epoch = atomic_load_explicit(&p->config.epoch->current, memory_order_acquire);
	retire(p, s->current, epoch);
	apus_ctl_filter_pool_drop(&p->pool, s->filter);
	*s = (struct published){.incarnation = s->incarnation + 1, .filtered = s->filtered};
	/* A later publication would put a snapshot back into the port. */
	if (e->is_writer)
		e->local.writer_port = NULL;
	else
		e->local.reader_port = NULL;
	return epoch;
}

uint32_t apus_ctl_publisher_filter_count(const struct apus_ctl_publisher *p)
{
	return p->pool.count;
}

const struct apus_ctl_publisher_counters *
apus_ctl_publisher_counters(const struct apus_ctl_publisher *p)
{
	return &p->counters;
}
