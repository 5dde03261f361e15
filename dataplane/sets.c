/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Withheld samples: entries of the history that are in none of its lists but in one of a set, linked by `next`.
 * They are charged to max_samples (changes of state, too, as long as they are withheld), so there is an entry
 * for each, and room when they are released.
 */
#include "dataplane/sets.h"

#include "dataplane/history_internal.h"

enum apus_dp_refusal apus_dp_sets_room(const struct apus_dp_history *h,
				       const struct apus_dp_instance *instance, size_t key_bytes,
				       bool with_data)
{
	if (!instance && !apus_dp_instances_room(&h->instances, key_bytes))
		return APUS_DP_REFUSED_INSTANCES;
	if (h->sample_count + h->withheld_count >= h->options.max_samples)
		return APUS_DP_REFUSED_SAMPLES;
	if (h->options.keep_all && with_data && instance &&
	    instance->sample_count + instance->withheld_count >=
		    h->options.max_samples_per_instance)
		return APUS_DP_REFUSED_PER_INSTANCE;
	return APUS_DP_REFUSED_NOT;
}

void apus_dp_sets_withhold(struct apus_dp_history *h, struct apus_dp_set *set,
			   struct apus_dp_instance *instance, const struct apus_dp_record *record,
			   uint8_t change, bool with_data)
{
	uint32_t idx = apus_dp_history_take_entry(h);
	struct apus_dp_sample *e = &h->entries[idx];

	apus_dp_history_tick(h, record->reception_time);
	*e = (struct apus_dp_sample){
		.record = *record,
		.instance_idx = apus_dp_instances_idx(&h->instances, instance),
		.next = APUS_DP_NONE,
		.valid_data = with_data,
		.change = change,
		.withheld = true,
	};
	*(set->count++ ? &h->entries[set->tail].next : &set->head) = idx;
	set->tail = idx;
	instance->pins++;
	instance->withheld_count += with_data;
	h->withheld_count++;
	apus_dp_instances_settle(&h->instances, instance);
}

/** Entry and pin go; the slot is the caller's. */
static void let_go(struct apus_dp_history *h, struct apus_dp_sample *e)
{
	struct apus_dp_instance *i = apus_dp_history_instance(h, e);

	i->pins--;
	i->withheld_count -= e->valid_data;
	h->withheld_count--;
	e->withheld = false;
	e->record.slot_ref = APUS_DP_NONE;
	apus_dp_history_free_entry(h, e);
	apus_dp_instances_settle(&h->instances, i);
}

struct apus_dp_instance *apus_dp_sets_pop(struct apus_dp_history *h, struct apus_dp_set *set,
					  struct apus_dp_record *record_out, uint8_t *change_out,
					  bool *with_data_out)
{
	struct apus_dp_sample *e;
	struct apus_dp_instance *i;

	if (set->count == 0)
		return NULL;
	e = &h->entries[set->head];
	i = apus_dp_history_instance(h, e);
	*record_out = e->record;
	*change_out = e->change;
	*with_data_out = e->valid_data;
	set->head = e->next;
	set->count--;
	let_go(h, e);
	return i;
}

static void release_slot(struct apus_dp_history *h, uint32_t slot_ref)
{
	if (slot_ref != APUS_DP_NONE)
		h->options.release(h->options.release_context, slot_ref);
}

uint32_t apus_dp_sets_drop(struct apus_dp_history *h, struct apus_dp_set *set)
{
	struct apus_dp_record record;
	uint32_t dropped = 0;
	uint8_t change;
	bool with_data;

	while (apus_dp_sets_pop(h, set, &record, &change, &with_data)) {
		release_slot(h, record.slot_ref);
		dropped += with_data;
	}
	return dropped;
}

uint32_t apus_dp_sets_prune(struct apus_dp_history *h, struct apus_dp_set *set,
			    bool (*keep)(void *context, const struct apus_dp_sample *entry),
			    void *context, uint64_t filter_generation)
{
	uint32_t pruned = 0, last = APUS_DP_NONE, next, idx = set->count ? set->head : APUS_DP_NONE;

	for (; idx != APUS_DP_NONE; idx = next) {
		struct apus_dp_sample *e = &h->entries[idx];

		next = e->next;
		if (!e->valid_data || keep(context, e)) {
			e->record.filter_generation = filter_generation;
			last = idx;
			continue;
		}
		*(last == APUS_DP_NONE ? &set->head : &h->entries[last].next) = next;
		if (next == APUS_DP_NONE)
			set->tail = last;
		set->count--;
		release_slot(h, e->record.slot_ref);
		let_go(h, e);
		pruned++;
	}
	h->counters.pruned += pruned;
	return pruned;
}
