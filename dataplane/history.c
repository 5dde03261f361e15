/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader's history. All entries live in one array; an entry is free (linked by `next`), in the history
 * (in the reception list and its instance's list), or only lent (in no list, loans > 0).
 */
#include "dataplane/history.h"

#include <apus/participant.h>
#include <string.h>

#define COUNT_MAX (1u << 24)

/* ---- layout --------------------------------------------------------------------------------- */

static bool is_sane(const struct apus_dp_history_options *o)
{
	return o->max_samples >= 1 && o->max_samples <= COUNT_MAX && o->max_loans <= COUNT_MAX &&
	       o->max_samples_per_instance >= 1 && o->release &&
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

/** An instance goes: its misses stay in the total. */
static void on_dropped(void *context, const struct apus_dp_instance *instance)
{
	struct apus_dp_history *h = context;

	h->counters.deadline_gone +=
		apus_dp_deadline_missed(&instance->deadline, h->options.deadline_ns, h->clock);
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
	for (uint32_t i = 0; i < h->entry_count; i++) {
		memset(&h->entries[i], 0, sizeof(h->entries[i]));
		h->entries[i].next = i + 1 < h->entry_count ? i + 1 : APUS_DP_NONE;
	}
	h->first = h->last = APUS_DP_NONE;
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
		if (h->entries[i].in_history || h->entries[i].loans > 0)
			release_slot(h, &h->entries[i]);
	}
	h->entry_count = 0;
}

/* ---- lists ---------------------------------------------------------------------------------- */

static struct apus_dp_instance *instance_of(const struct apus_dp_history *h,
					    const struct apus_dp_sample *e)
{
	return apus_dp_instances_at(&h->instances, e->instance_idx);
}

static void link_last(struct apus_dp_history *h, struct apus_dp_instance *i, uint32_t idx)
{
	struct apus_dp_sample *e = &h->entries[idx];

	e->prev = h->last;
	e->next = APUS_DP_NONE;
	*(h->last == APUS_DP_NONE ? &h->first : &h->entries[h->last].next) = idx;
	h->last = idx;
	e->instance_prev = i->last;
	e->instance_next = APUS_DP_NONE;
	*(i->last == APUS_DP_NONE ? &i->first : &h->entries[i->last].instance_next) = idx;
	i->last = idx;
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

static void free_entry(struct apus_dp_history *h, struct apus_dp_sample *e)
{
	release_slot(h, e);
	e->next = h->free_first;
	h->free_first = (uint32_t)(e - h->entries);
}

/** Takes an entry out of the history; what is lent stays until it is returned. */
static void remove_entry(struct apus_dp_history *h, struct apus_dp_sample *e)
{
	struct apus_dp_instance *i = instance_of(h, e);

	unlink_entry(h, i, e);
	if (e->valid_data) {
		i->sample_count--;
		h->sample_count--;
	} else {
		i->invalid = APUS_DP_NONE;
		h->invalid_count--;
	}
	if (e->loans == 0)
		free_entry(h, e);
	apus_dp_instances_settle(&h->instances, i);
}

/** There is always a free entry; see entry_capacity(). */
static uint32_t add_entry(struct apus_dp_history *h, struct apus_dp_instance *i,
			  const struct apus_dp_record *record, bool valid_data)
{
	uint32_t idx = h->free_first;
	struct apus_dp_sample *e = &h->entries[idx];

	h->free_first = e->next;
	*e = (struct apus_dp_sample){
		.record = *record,
		.instance_idx = apus_dp_instances_idx(&h->instances, i),
		.disposed_generation_count = i->disposed_generation_count,
		.no_writers_generation_count = i->no_writers_generation_count,
		.valid_data = valid_data,
	};
	link_last(h, i, idx);
	return idx;
}

static void tick(struct apus_dp_history *h, struct apus_mono now)
{
	if (apus_mono_before(h->clock, now))
		h->clock = now;
}

/* ---- filling -------------------------------------------------------------------------------- */

enum apus_dp_refusal apus_dp_history_room(const struct apus_dp_history *h,
					  const struct apus_dp_instance *instance, size_t key_bytes)
{
	if (!instance && !apus_dp_instances_room(&h->instances, key_bytes))
		return APUS_DP_REFUSED_INSTANCES;
	if (!h->options.keep_all && instance && instance->sample_count > 0)
		return APUS_DP_REFUSED_NOT; /* it has one to give */
	if (h->sample_count >= h->options.max_samples)
		return APUS_DP_REFUSED_SAMPLES;
	if (instance && instance->sample_count >= h->options.max_samples_per_instance)
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
	remove_entry(h, &h->entries[idx]);
}

/** Data arrived: an instance that was not alive is born again (DDS 1.4 §2.2.2.5.1.5). */
static void enliven(struct apus_dp_instance *i)
{
	if (i->state == APUS_STATE_DISPOSED)
		i->disposed_generation_count++;
	else if (i->state == APUS_STATE_NO_WRITERS)
		i->no_writers_generation_count++;
	else
		return;
	i->state = APUS_STATE_ALIVE;
	i->view_new = true;
}

uint32_t apus_dp_history_store(struct apus_dp_history *h, struct apus_dp_instance *instance,
			       const struct apus_dp_record *record, bool *displaced_out)
{
	uint32_t idx;

	tick(h, record->reception_time);
	h->any_expires |= record->expires_at.ns != INT64_MAX;
	*displaced_out = !h->options.keep_all && instance->sample_count > 0 &&
			 (instance->sample_count >= h->options.depth ||
			  h->sample_count >= h->options.max_samples);
	if (*displaced_out)
		displace_oldest(h, instance);
	if (instance->invalid != APUS_DP_NONE)
		remove_entry(h, &h->entries[instance->invalid]);
	enliven(instance);
	instance->ever_stored = true;
	idx = add_entry(h, instance, record, true);
	instance->sample_count++;
	h->sample_count++;
	h->counters.stored++;
	apus_dp_instances_register(&h->instances, instance, record->match_slot);
	apus_dp_instances_settle(&h->instances, instance);
	return idx;
}

/** Puts the instance's entry without data at the end of the history. */
static void tell_state(struct apus_dp_history *h, struct apus_dp_instance *i,
		       const struct apus_dp_record *record)
{
	struct apus_dp_record bare = *record;

	if (i->invalid != APUS_DP_NONE)
		remove_entry(h, &h->entries[i->invalid]);
	bare.slot_ref = APUS_DP_NONE;
	bare.expires_at.ns = INT64_MAX;
	i->invalid = add_entry(h, i, &bare, false);
	h->invalid_count++;
}

bool apus_dp_history_dispose(struct apus_dp_history *h, struct apus_dp_instance *instance,
			     const struct apus_dp_record *record, bool with_entry)
{
	tick(h, record->reception_time);
	if (!instance->ever_stored || instance->state == APUS_STATE_DISPOSED)
		return false;
	instance->state = APUS_STATE_DISPOSED;
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

	tick(h, record->reception_time);
	if (instance->owner == record->match_slot)
		instance->owner = APUS_DP_NONE;
	if (!apus_dp_instances_unregister(&h->instances, instance, record->match_slot))
		return false;
	if (instance->writer_count == 0 && instance->state == APUS_STATE_ALIVE) {
		instance->state = APUS_STATE_NO_WRITERS;
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

/* ---- reading -------------------------------------------------------------------------------- */

static bool wants(const struct apus_dp_select *s, const struct apus_dp_instance *i,
		  const struct apus_dp_sample *e)
{
	if (s->instance_states && !(s->instance_states & i->state))
		return false;
	if (s->sample_states && !(s->sample_states & (e->read ? 1 : 2)))
		return false;
	if (s->view_states && !(s->view_states & (i->view_new ? 1 : 2)))
		return false;
	return !s->match || s->match(s->match_context, e);
}

static bool is_expired(const struct apus_dp_sample *e, struct apus_mono now)
{
	return e->record.expires_at.ns != INT64_MAX && now.ns >= e->record.expires_at.ns;
}

/** Where a walk with this select begins: an instance has a list of its own. */
static uint32_t walk_first(const struct apus_dp_history *h, const struct apus_dp_select *s)
{
	const struct apus_dp_instance *i;

	if (s->instance == APUS_INSTANCE_NONE)
		return h->first;
	i = apus_dp_instances_get(&h->instances, s->instance);
	return i ? i->first : APUS_DP_NONE;
}

static uint32_t walk_next(const struct apus_dp_select *s, const struct apus_dp_sample *e)
{
	return s->instance == APUS_INSTANCE_NONE ? e->next : e->instance_next;
}

static void lend(struct apus_dp_history *h, struct apus_dp_sample *e, struct apus_dp_loan *out)
{
	struct apus_dp_instance *i = instance_of(h, e);

	*out = (struct apus_dp_loan){
		.entry_idx = (uint32_t)(e - h->entries),
		.entry = e,
		.instance = h->options.instances.key_bytes_max ? i->handle : APUS_INSTANCE_NONE,
		.instance_state = i->state,
		.read_before = e->read,
		.view_new = i->view_new,
	};
	e->loans++;
	h->loan_count++;
	i->pins++;
}

int apus_dp_history_access(struct apus_dp_history *h, const struct apus_dp_select *select,
			   bool take, struct apus_mono now, struct apus_dp_loan *loans_out,
			   uint32_t max)
{
	const struct apus_dp_select all = {0};
	uint32_t room = h->options.max_loans - h->loan_count;
	uint32_t count = 0, next;

	tick(h, now);
	if (room == 0 && max > 0)
		return APUS_ELIMIT;
	if (max > room)
		max = room;
	if (!select)
		select = &all;
	for (uint32_t idx = walk_first(h, select); idx != APUS_DP_NONE && count < max; idx = next) {
		struct apus_dp_sample *e = &h->entries[idx];

		next = walk_next(select, e);
		if (!wants(select, instance_of(h, e), e))
			continue;
		if (!is_expired(e, now)) {
			lend(h, e, &loans_out[count++]);
		} else if (take) {
			h->counters.expired++;
			remove_entry(h, e);
		}
	}
	/* Only now, so that the whole batch was judged and shown by the state before the call. */
	for (uint32_t i = 0; i < count; i++) {
		struct apus_dp_sample *e = &h->entries[loans_out[i].entry_idx];

		e->read = true;
		instance_of(h, e)->view_new = false;
		if (take)
			remove_entry(h, e);
	}
	return (int)count;
}

int apus_dp_history_return(struct apus_dp_history *h, uint32_t entry_idx)
{
	struct apus_dp_sample *e;
	struct apus_dp_instance *i;

	if (entry_idx >= h->entry_count || h->entries[entry_idx].loans == 0)
		return APUS_EINVAL;
	e = &h->entries[entry_idx];
	i = instance_of(h, e);
	e->loans--;
	h->loan_count--;
	i->pins--;
	if (e->loans == 0 && !e->in_history)
		free_entry(h, e);
	apus_dp_instances_settle(&h->instances, i);
	return 0;
}

bool apus_dp_history_available(const struct apus_dp_history *h, const struct apus_dp_select *select,
			       struct apus_mono now)
{
	const struct apus_dp_select all = {0};

	if (!select)
		select = &all;
	for (uint32_t idx = walk_first(h, select); idx != APUS_DP_NONE;
	     idx = walk_next(select, &h->entries[idx])) {
		const struct apus_dp_sample *e = &h->entries[idx];

		if (wants(select, instance_of(h, e), e) && !is_expired(e, now))
			return true;
	}
	return false;
}

const uint8_t *apus_dp_history_key(const struct apus_dp_history *h,
				   const struct apus_dp_sample *entry, uint32_t *key_bytes_out)
{
	const struct apus_dp_instance *i = instance_of(h, entry);

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
			remove_entry(h, e);
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
