/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader's history. All entries live in one array; an entry is free (linked by `next`), in the history
 * (in the reception list and its instance's list), or only lent (in no list, loans > 0).
 */
#include "dataplane/history_internal.h"

#include <apus/participant.h>
#include <string.h>

#define COUNT_MAX (1u << 24)

/* ---- layout --------------------------------------------------------------------------------- */

static bool is_sane(const struct apus_dp_history_options *o)
{
	return o->max_samples >= 1 && o->max_samples <= COUNT_MAX && o->max_loans <= COUNT_MAX &&
	       o->max_samples_per_instance >= 1 && o->release && o->purge_no_writers_ns >= 0 &&
	       o->purge_disposed_ns >= 0 &&
	       (o->keep_all || (o->depth >= 1 && o->depth <= o->max_samples_per_instance));
}

static uint32_t entry_capacity(const struct apus_dp_history_options *o)
{
	return o->max_samples + o->instances.capacity + o->max_loans;
}

static size_t instances_part(const struct apus_dp_history_options *o)
{
	return (apus_dp_instances_bytes(&o->instances) + 15) & ~(size_t)15;
}

size_t apus_dp_history_bytes(const struct apus_dp_history_options *options)
{
	size_t instances = instances_part(options);

	if (!is_sane(options) || instances == 0)
		return 0;
	return instances + (size_t)entry_capacity(options) * sizeof(struct apus_dp_sample);
}

/* ---- purge delays --------------------------------------------------------------------------- */

/** The delays of the two states, and the lists of the instances that wait for them. */
static uint32_t purge_list(uint8_t state)
{
	return state == APUS_STATE_DISPOSED;
}

static int64_t purge_delay(const struct apus_dp_history *h, uint8_t state)
{
	int64_t ns = state == APUS_STATE_ALIVE      ? 0
		     : state == APUS_STATE_DISPOSED ? h->options.purge_disposed_ns
						    : h->options.purge_no_writers_ns;

	return ns == APUS_INFINITE_NS ? 0 : ns;
}

static void purge_unlink(struct apus_dp_history *h, struct apus_dp_instance *i)
{
	struct apus_dp_instances *t = &h->instances;
	uint32_t list = purge_list(i->purge_state);

	if (i->purge_state == 0)
		return;
	*(i->purge_prev == APUS_DP_NONE ? &h->purge_first[list]
					: &t->items[i->purge_prev].purge_next) = i->purge_next;
	*(i->purge_next == APUS_DP_NONE ? &h->purge_last[list]
					: &t->items[i->purge_next].purge_prev) = i->purge_prev;
	i->purge_state = 0;
}

/** Every change of state; the clock has been set. A delay runs from here. */
static void set_state(struct apus_dp_history *h, struct apus_dp_instance *i, uint8_t state)
{
	uint32_t list = purge_list(state), idx = apus_dp_instances_idx(&h->instances, i);

	purge_unlink(h, i);
	i->state = state;
	if (purge_delay(h, state) == 0)
		return;
	i->not_alive_since = h->clock;
	i->purge_state = state;
	i->purge_prev = h->purge_last[list];
	i->purge_next = APUS_DP_NONE;
	*(i->purge_prev == APUS_DP_NONE ? &h->purge_first[list]
					: &h->instances.items[i->purge_prev].purge_next) = idx;
	h->purge_last[list] = idx;
}

/** An instance goes: its misses stay in the total. */
static void on_dropped(void *context, const struct apus_dp_instance *instance)
{
	struct apus_dp_history *h = context;

	h->counters.deadline_gone +=
		apus_dp_deadline_missed(&instance->deadline, h->options.deadline_ns, h->clock);
	purge_unlink(h, apus_dp_instances_at(&h->instances,
					     apus_dp_instances_idx(&h->instances, instance)));
}

int apus_dp_history_init(struct apus_dp_history *h, const struct apus_dp_history_options *options,
			 void *memory)
{
	struct apus_dp_instances_options instances = options->instances;

	if (apus_dp_history_bytes(options) == 0)
		return APUS_EINVAL;
	memset(h, 0, sizeof(*h));
	h->options = *options;
	instances.dropped = on_dropped;
	instances.dropped_context = h;
	apus_dp_instances_init(&h->instances, &instances, memory);
	h->entries = (struct apus_dp_sample *)((uint8_t *)memory + instances_part(options));
	h->entry_count = entry_capacity(options);
	if (!options->instances.zeroed)
		memset(h->entries, 0, (size_t)h->entry_count * sizeof(*h->entries));
	h->first = h->last = APUS_DP_NONE;
	h->own_stamp = 1;
	h->stamp = options->stamp ? options->stamp : &h->own_stamp;
	for (uint32_t i = 0; i < 2; i++)
		h->purge_first[i] = h->purge_last[i] = APUS_DP_NONE;
	h->purges = purge_delay(h, APUS_STATE_DISPOSED) || purge_delay(h, APUS_STATE_NO_WRITERS);
	return 0;
}

static void release_slot(struct apus_dp_history *h, struct apus_dp_sample *e)
{
	uint32_t slot_ref = e->record.slot_ref;

	e->record.slot_ref = APUS_DP_NONE;
	if (slot_ref != APUS_DP_NONE)
		h->options.release(h->options.release_context, slot_ref);
}

void apus_dp_history_fini(struct apus_dp_history *h)
{
	for (uint32_t i = 0; i < h->entry_count; i++) {
		if (h->entries[i].in_history || h->entries[i].withheld || h->entries[i].loans > 0)
			release_slot(h, &h->entries[i]);
	}
	h->entry_count = 0;
}

/* ---- lists ---------------------------------------------------------------------------------- */

/** Into both lists, before `later` (NONE: at the end), which belongs to the same instance. */
static void link_before(struct apus_dp_history *h, struct apus_dp_instance *i, uint32_t idx,
			uint32_t later)
{
	struct apus_dp_sample *e = &h->entries[idx];
	struct apus_dp_sample *l = later == APUS_DP_NONE ? NULL : &h->entries[later];

	e->prev = l ? l->prev : h->last;
	e->next = later;
	*(e->prev == APUS_DP_NONE ? &h->first : &h->entries[e->prev].next) = idx;
	*(l ? &l->prev : &h->last) = idx;
	e->instance_prev = l ? l->instance_prev : i->last;
	e->instance_next = later;
	*(e->instance_prev == APUS_DP_NONE ? &i->first
					   : &h->entries[e->instance_prev].instance_next) = idx;
	*(l ? &l->instance_prev : &i->last) = idx;
	e->in_history = true;
}

static void unlink_entry(struct apus_dp_history *h, struct apus_dp_instance *i,
			 struct apus_dp_sample *e)
{
	*(e->prev == APUS_DP_NONE ? &h->first : &h->entries[e->prev].next) = e->next;
	*(e->next == APUS_DP_NONE ? &h->last : &h->entries[e->next].prev) = e->prev;
	*(e->instance_prev == APUS_DP_NONE ? &i->first
					   : &h->entries[e->instance_prev].instance_next) =
		e->instance_next;
	*(e->instance_next == APUS_DP_NONE ? &i->last
					   : &h->entries[e->instance_next].instance_prev) =
		e->instance_prev;
	e->in_history = false;
}

void apus_dp_history_free_entry(struct apus_dp_history *h, struct apus_dp_sample *e)
{
	uint32_t idx = (uint32_t)(e - h->entries);

	release_slot(h, e);
	e->next = h->free_first ^ apus_dp_history_next_of_fresh(h, idx);
	h->free_first = idx;
}

void apus_dp_history_remove(struct apus_dp_history *h, struct apus_dp_sample *e)
{
	struct apus_dp_instance *i = apus_dp_history_instance(h, e);

	unlink_entry(h, i, e);
	if (e->valid_data) {
		i->sample_count--;
		h->sample_count--;
	} else {
		i->invalid = APUS_DP_NONE;
		h->invalid_count--;
	}
	if (e->loans == 0)
		apus_dp_history_free_entry(h, e);
	apus_dp_instances_settle(&h->instances, i);
}

/** KEEP_LAST: a further sample displaces the instance's oldest. */
static bool is_full(const struct apus_dp_history *h, const struct apus_dp_instance *i)
{
	return !h->options.keep_all && i->sample_count > 0 &&
	       (i->sample_count >= h->options.depth ||
		h->sample_count + h->withheld_count >= h->options.max_samples);
}

static int compare_source(const struct apus_dp_record *a, const struct apus_dp_record *b);

/** The entry that a new one with data goes before: NONE, unless the order is by source and it comes late. A
 *  walk over what it overtakes, max_samples_per_instance at most. */
static uint32_t later_entry(const struct apus_dp_history *h, const struct apus_dp_instance *i,
			    const struct apus_dp_sample *e)
{
	uint32_t later = APUS_DP_NONE;

	if (!h->options.by_source)
		return later;
	for (uint32_t idx = i->last; idx != APUS_DP_NONE; idx = h->entries[idx].instance_prev) {
		if (compare_source(&h->entries[idx].record, &e->record) < 0)
			break;
		later = idx;
	}
	return later;
}

/** There is always a free entry; see entry_capacity(). */
static uint32_t add_entry(struct apus_dp_history *h, struct apus_dp_instance *i,
			  const struct apus_dp_record *record, bool valid_data)
{
	uint32_t idx = apus_dp_history_take_entry(h);
	struct apus_dp_sample *e = &h->entries[idx];

	/* Field by field: a free entry's flags and loans are zero, and its record may be in place already. */
	if (record != &e->record)
		e->record = *record;
	e->instance_idx = apus_dp_instances_idx(&h->instances, i);
	e->disposed_generation_count = i->disposed_generation_count;
	e->no_writers_generation_count = i->no_writers_generation_count;
	e->stamp = ++*h->stamp;
	e->valid_data = valid_data;
	e->read = e->withheld = false;
	e->change = 0;
	e->loans = 0;
	link_before(h, i, idx, valid_data ? later_entry(h, i, e) : APUS_DP_NONE);
	return idx;
}

/* ---- order by source ------------------------------------------------------------------------ */

static int compare_source(const struct apus_dp_record *a, const struct apus_dp_record *b)
{
	int c;

	if (a->source_time.ns != b->source_time.ns)
		return a->source_time.ns < b->source_time.ns ? -1 : 1;
	c = apus_guid_compare(&a->writer, &b->writer);
	if (c != 0)
		return c;
	return a->seq < b->seq ? -1 : a->seq > b->seq;
}

static int compare_floor(const struct apus_dp_instance *i, const struct apus_dp_record *r)
{
	struct apus_dp_record floor = {
		.writer = i->floor_writer, .seq = i->floor_seq, .source_time = i->floor_time};

	return compare_source(&floor, r);
}

void apus_dp_history_raise_floor(struct apus_dp_history *h, struct apus_dp_instance *instance,
				 const struct apus_dp_record *record)
{
	if (!h->options.by_source || compare_floor(instance, record) >= 0)
		return;
	instance->floor_time = record->source_time;
	instance->floor_writer = record->writer;
	instance->floor_seq = record->seq;
}

bool apus_dp_history_in_order(const struct apus_dp_history *h,
			      const struct apus_dp_instance *instance,
			      const struct apus_dp_record *record, bool with_data)
{
	const struct apus_dp_sample *first, *last;

	if (!h->options.by_source || !instance)
		return true;
	if (compare_floor(instance, record) > 0)
		return false;
	if (instance->sample_count == 0)
		return true;
	first = &h->entries[instance->first];
	last = &h->entries[instance->last];
	if (!last->valid_data)
		last = &h->entries[last->instance_prev];
	if (!with_data) /* the latest says what the state is */
		return compare_source(&last->record, record) < 0;
	return !is_full(h, instance) || compare_source(&first->record, record) < 0;
}

bool apus_dp_history_follows(const struct apus_dp_history *h, const struct apus_dp_record *a,
			     const struct apus_dp_record *b)
{
	return !h->options.by_source || compare_source(a, b) < 0;
}

/* ---- filling -------------------------------------------------------------------------------- */

enum apus_dp_refusal apus_dp_history_room(const struct apus_dp_history *h,
					  const struct apus_dp_instance *instance, size_t key_bytes)
{
	if (!instance && !apus_dp_instances_room(&h->instances, key_bytes))
		return APUS_DP_REFUSED_INSTANCES;
	if (!h->options.keep_all && instance && instance->sample_count > 0)
		return APUS_DP_REFUSED_NOT; /* it has one to give */
	if (h->sample_count + h->withheld_count >= h->options.max_samples)
		return APUS_DP_REFUSED_SAMPLES;
	if (instance && instance->sample_count + instance->withheld_count >=
				h->options.max_samples_per_instance)
		return APUS_DP_REFUSED_PER_INSTANCE;
	return APUS_DP_REFUSED_NOT;
}

/** Removes the instance's oldest sample with data. */
static void displace_oldest(struct apus_dp_history *h, struct apus_dp_instance *i)
{
	uint32_t idx = i->first; /* an entry without data is always the last of its instance */

	h->counters.displaced++;
	if (!h->entries[idx].read)
		h->counters.displaced_lost++;
	apus_dp_history_remove(h, &h->entries[idx]);
}

/** Data arrived: an instance that was not alive is born again (DDS 1.4 §2.2.2.5.1.5). */
static void enliven(struct apus_dp_history *h, struct apus_dp_instance *i)
{
	if (i->state == APUS_STATE_DISPOSED)
		i->disposed_generation_count++;
	else if (i->state == APUS_STATE_NO_WRITERS)
		i->no_writers_generation_count++;
	else
		return;
	set_state(h, i, APUS_STATE_ALIVE);
	i->view_new = true;
}

uint32_t apus_dp_history_store(struct apus_dp_history *h, struct apus_dp_instance *instance,
			       const struct apus_dp_record *record, bool *displaced_out)
{
	uint32_t idx;

	apus_dp_history_tick(h, record->reception_time);
	h->any_expires |= record->expires_at.ns != INT64_MAX;
	*displaced_out = is_full(h, instance);
	if (*displaced_out)
		displace_oldest(h, instance);
	if (instance->invalid != APUS_DP_NONE)
		apus_dp_history_remove(h, &h->entries[instance->invalid]);
	enliven(h, instance);
	instance->ever_stored = true;
	idx = add_entry(h, instance, record, true);
	instance->sample_count++;
	h->sample_count++;
	h->counters.stored++;
	apus_dp_instances_register(&h->instances, instance, record->match_slot);
	apus_dp_instances_settle(&h->instances, instance);
	return idx;
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

uint32_t apus_dp_history_room_for(const struct apus_dp_history *h,
				  const struct apus_dp_instance *instance, uint32_t count)
{
	uint32_t all = h->sample_count + h->withheld_count;
	uint32_t own = instance->sample_count + instance->withheld_count;
	uint32_t own_max =
		h->options.keep_all ? h->options.max_samples_per_instance : h->options.depth;

	if (all >= h->options.max_samples || own >= own_max)
		return 0;
	return least(count, least(h->options.max_samples - all, own_max - own));
}

/** As add_entry() for samples with data, each behind the one before. */
static void append_run(struct apus_dp_history *h, struct apus_dp_instance *i,
		       const struct apus_dp_record *common, const struct apus_dp_run_item *items,
		       uint32_t count)
{
	uint32_t prev = h->last, instance_prev = i->last, idx = h->free_first;
	uint32_t instance_idx = apus_dp_instances_idx(&h->instances, i);

	*(prev == APUS_DP_NONE ? &h->first : &h->entries[prev].next) = idx;
	*(instance_prev == APUS_DP_NONE ? &i->first : &h->entries[instance_prev].instance_next) =
		idx;
	for (uint32_t n = 0; n < count; n++) {
		struct apus_dp_sample *e = &h->entries[idx];

		e->record = *common;
		e->record.seq = items[n].seq;
		e->record.source_time = items[n].source_time;
		e->record.slot_ref = items[n].slot_ref;
		e->instance_idx = instance_idx;
		e->disposed_generation_count = i->disposed_generation_count;
		e->no_writers_generation_count = i->no_writers_generation_count;
		e->stamp = ++*h->stamp;
		e->valid_data = e->in_history = true;
		e->read = e->withheld = false;
		e->change = 0;
		e->loans = 0;
		e->prev = prev;
		e->instance_prev = instance_prev;
		/* Of the next free entry; what it is if there is none, nobody looks at. */
		e->next ^= apus_dp_history_next_of_fresh(h, idx);
		prev = instance_prev = idx;
		idx = e->instance_next = e->next;
	}
	h->free_first = idx;
	h->last = i->last = prev;
	h->entries[prev].next = h->entries[prev].instance_next = APUS_DP_NONE;
}

void apus_dp_history_store_run(struct apus_dp_history *h, struct apus_dp_instance *instance,
			       const struct apus_dp_record *common,
			       const struct apus_dp_run_item *items, uint32_t count)
{
	apus_dp_history_tick(h, common->reception_time);
	h->any_expires |= common->expires_at.ns != INT64_MAX;
	if (instance->invalid != APUS_DP_NONE)
		apus_dp_history_remove(h, &h->entries[instance->invalid]);
	enliven(h, instance);
	instance->ever_stored = true;
	append_run(h, instance, common, items, count);
	instance->sample_count += count;
	h->sample_count += count;
	h->counters.stored += count;
	apus_dp_instances_register(&h->instances, instance, common->match_slot);
	apus_dp_instances_settle(&h->instances, instance);
}

/** Puts the instance's entry without data at the end of the history. */
static void tell_state(struct apus_dp_history *h, struct apus_dp_instance *i,
		       const struct apus_dp_record *record)
{
	struct apus_dp_record bare = *record;

	if (i->invalid != APUS_DP_NONE)
		apus_dp_history_remove(h, &h->entries[i->invalid]);
	bare.slot_ref = APUS_DP_NONE;
	bare.expires_at.ns = INT64_MAX;
	i->invalid = add_entry(h, i, &bare, false);
	h->invalid_count++;
}

bool apus_dp_history_dispose(struct apus_dp_history *h, struct apus_dp_instance *instance,
			     const struct apus_dp_record *record, bool with_entry)
{
	apus_dp_history_tick(h, record->reception_time);
	if (!instance->ever_stored || instance->state == APUS_STATE_DISPOSED)
		return false;
	set_state(h, instance, APUS_STATE_DISPOSED);
	apus_dp_history_raise_floor(h, instance, record);
	apus_dp_deadline_stop(&instance->deadline, h->options.deadline_ns, record->reception_time);
	if (with_entry)
		tell_state(h, instance, record);
	apus_dp_instances_settle(&h->instances, instance);
	return true;
}

bool apus_dp_history_unregister(struct apus_dp_history *h, struct apus_dp_instance *instance,
				const struct apus_dp_record *record)
{
	bool changed = false;

	apus_dp_history_tick(h, record->reception_time);
	if (instance->owner == record->match_slot)
		instance->owner = APUS_DP_NONE;
	if (!apus_dp_instances_unregister(&h->instances, instance, record->match_slot))
		return false;
	if (instance->writer_count == 0 && instance->state == APUS_STATE_ALIVE) {
		set_state(h, instance, APUS_STATE_NO_WRITERS);
		apus_dp_deadline_stop(&instance->deadline, h->options.deadline_ns,
				      record->reception_time);
		tell_state(h, instance, record);
		changed = true;
	}
	apus_dp_instances_settle(&h->instances, instance);
	return changed;
}

uint32_t apus_dp_history_writer_gone(struct apus_dp_history *h, const struct apus_dp_record *record)
{
	uint32_t changed = 0;
	struct apus_dp_instance *i = apus_dp_instances_next(&h->instances, APUS_DP_NONE);

	while (i) {
		changed += apus_dp_history_unregister(h, i, record);
		i = apus_dp_instances_next(&h->instances, apus_dp_instances_idx(&h->instances, i));
	}
	return changed;
}

/* ---- purging -------------------------------------------------------------------------------- */

/** Forgets the samples of an instance, and the instance itself if no writer holds it. */
static void purge_instance(struct apus_dp_history *h, struct apus_dp_instance *i)
{
	while (i->first != APUS_DP_NONE) {
		h->counters.purged += h->entries[i->first].valid_data;
		apus_dp_history_remove(h, &h->entries[i->first]);
	}
	if (i->idle && i->writer_count == 0)
		apus_dp_instances_drop(&h->instances, i);
}

void apus_dp_history_purge(struct apus_dp_history *h, struct apus_mono now)
{
	static const uint8_t states[2] = {APUS_STATE_NO_WRITERS, APUS_STATE_DISPOSED};

	if (!h->purges)
		return;
	apus_dp_history_tick(h, now);
	for (uint32_t list = 0; list < 2; list++) {
		int64_t delay = purge_delay(h, states[list]);

		while (h->purge_first[list] != APUS_DP_NONE) {
			struct apus_dp_instance *i = &h->instances.items[h->purge_first[list]];

			if (apus_mono_before(h->clock, apus_mono_add(i->not_alive_since, delay)))
				break;
			purge_unlink(h, i);
			purge_instance(h, i);
		}
	}
}

void apus_dp_history_set_purge(struct apus_dp_history *h, int64_t no_writers_ns,
			       int64_t disposed_ns, struct apus_mono now)
{
	struct apus_dp_instances *t = &h->instances;

	apus_dp_history_tick(h, now);
	h->options.purge_no_writers_ns = no_writers_ns;
	h->options.purge_disposed_ns = disposed_ns;
	h->purges = purge_delay(h, APUS_STATE_DISPOSED) || purge_delay(h, APUS_STATE_NO_WRITERS);
	for (struct apus_dp_instance *i = apus_dp_instances_next(t, APUS_DP_NONE); i;
	     i = apus_dp_instances_next(t, apus_dp_instances_idx(t, i)))
		set_state(h, i, i->state);
}

void apus_dp_history_set_deadline(struct apus_dp_history *h, int64_t deadline_ns,
				  struct apus_mono now)
{
	struct apus_dp_instances *t = &h->instances;
	int64_t before = h->options.deadline_ns;

	apus_dp_history_tick(h, now);
	for (struct apus_dp_instance *i = apus_dp_instances_next(t, APUS_DP_NONE); i;
	     i = apus_dp_instances_next(t, apus_dp_instances_idx(t, i))) {
		bool runs = i->deadline.since.ns != 0 && apus_dp_is_finite(before);

		apus_dp_deadline_stop(&i->deadline, before, now);
		if (runs && apus_dp_is_finite(deadline_ns))
			i->deadline.since = now;
	}
	h->options.deadline_ns = deadline_ns;
	h->deadline_changed = true;
}

/* ---- the rest ------------------------------------------------------------------------------- */

const uint8_t *apus_dp_history_key(const struct apus_dp_history *h,
				   const struct apus_dp_sample *entry, uint32_t *key_bytes_out)
{
	const struct apus_dp_instance *i = apus_dp_history_instance(h, entry);

	*key_bytes_out = i->key_bytes;
	return apus_dp_instances_key(&h->instances, i);
}

uint32_t apus_dp_history_prune(struct apus_dp_history *h,
			       bool (*keep)(void *context, const struct apus_dp_sample *entry),
			       void *context, uint64_t filter_generation)
{
	uint32_t pruned = 0, next;

	for (uint32_t idx = h->first; idx != APUS_DP_NONE; idx = next) {
		struct apus_dp_sample *e = &h->entries[idx];

		next = e->next;
		if (e->valid_data && !keep(context, e)) {
			apus_dp_history_remove(h, e);
			pruned++;
		} else {
			e->record.filter_generation = filter_generation;
		}
	}
	h->counters.pruned += pruned;
	return pruned;
}

uint64_t apus_dp_history_deadlines_missed(const struct apus_dp_history *h, struct apus_mono now)
{
	uint64_t missed = h->counters.deadline_gone;
	const struct apus_dp_instance *i = apus_dp_instances_next(&h->instances, APUS_DP_NONE);

	while (i) {
		missed += apus_dp_deadline_missed(&i->deadline, h->options.deadline_ns, now);
		i = apus_dp_instances_next(&h->instances, apus_dp_instances_idx(&h->instances, i));
	}
	return missed;
}
