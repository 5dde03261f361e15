/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the history share: history.c (filling, states, order), history_access.c (reading). Nothing
 * else includes this.
 */
#ifndef APUS_DATAPLANE_HISTORY_INTERNAL_H
#define APUS_DATAPLANE_HISTORY_INTERNAL_H

#include "dataplane/history.h"

static inline struct apus_dp_instance *apus_dp_history_instance(const struct apus_dp_history *h,
								const struct apus_dp_sample *e)
{
	return apus_dp_instances_at(&h->instances, e->instance_idx);
}

/** The latest time seen; it never runs backwards. */
static inline void apus_dp_history_tick(struct apus_dp_history *h, struct apus_mono now)
{
	if (apus_mono_before(h->clock, now))
		h->clock = now;
}

/** What a link of zero among the free entries stands for: in a fresh history each leads to the next, so that zero
 *  memory need not be touched. */
static inline uint32_t apus_dp_history_next_of_fresh(const struct apus_dp_history *h, uint32_t idx)
{
	return idx + 1 < h->entry_count ? idx + 1 : APUS_DP_NONE;
}

/** Takes the first free entry, which is certain to be there. */
static inline uint32_t apus_dp_history_take_entry(struct apus_dp_history *h)
{
	uint32_t idx = h->free_first;

	h->free_first = h->entries[idx].next ^ apus_dp_history_next_of_fresh(h, idx);
	return idx;
}

/** Takes an entry out of the history; what is lent stays until it is returned. */
void apus_dp_history_remove(struct apus_dp_history *h, struct apus_dp_sample *e);
/** An entry in no list and not lent: lets its slot go. */
void apus_dp_history_free_entry(struct apus_dp_history *h, struct apus_dp_sample *e);
/** BY_SOURCE: nothing older than this record is shown from here on. */
void apus_dp_history_raise_floor(struct apus_dp_history *h, struct apus_dp_instance *instance,
				 const struct apus_dp_record *record);

#endif
