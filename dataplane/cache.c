/* SPDX-License-Identifier: Apache-2.0 */
/* A writer's history cache; see cache.h. */
#include "dataplane/cache.h"

#include <apus/participant.h>

#include <string.h>

#define NONE APUS_SHM_NO_SLOT

/* The parts of the cache's memory; with `base` NULL only their bytes are counted, which are returned. */
static size_t lay_out(struct apus_dp_cache *cache, void *base)
{
	size_t at = 0;

	cache->entries =
		apus_shm_reserve_part(base, &at, cache->slot_count, sizeof(*cache->entries));
	cache->instances = apus_shm_reserve_part(base, &at, cache->limits.max_instances,
						 sizeof(*cache->instances));
	cache->by_seq = apus_shm_reserve_part(base, &at, (size_t)cache->seq_mask + 1,
					      sizeof(*cache->by_seq));
	return at;
}

int apus_dp_cache_init(struct apus_dp_cache *cache, const struct apus_dp_cache_limits *limits,
		       unsigned segment_flags)
{
	uint32_t slots = limits->max_samples + 1 + limits->lent_slots + limits->loaned_slots;
	uint32_t buckets = 4;
	int rc;

	memset(cache, 0, sizeof(*cache));
	if (limits->max_samples == 0 || limits->max_samples > (1u << 28) ||
	    limits->lent_slots > (1u << 23) || limits->loaned_slots > (1u << 23) ||
	    limits->max_instances == 0 || limits->payload_bytes_max < 4 ||
	    limits->payload_bytes_max > (1u << 30) ||
	    limits->small_bytes > limits->payload_bytes_max)
		return APUS_EINVAL;
	while (buckets < 2 * slots)
		buckets *= 2;
	cache->limits = *limits;
	cache->seq_mask = buckets - 1;
	cache->head = cache->tail = NONE;
	cache->slot_count = limits->small_bytes ? 2 * slots : slots;
	rc = apus_shm_reserve(lay_out(cache, NULL), APUS_SHM_LAZY, &cache->reserve);
	if (rc != 0)
		goto fini;
	lay_out(cache, cache->reserve.base);
	rc = apus_dp_keytable_init(&cache->keys, limits->max_instances, limits->key_bytes_max);
	if (rc != 0)
		goto fini;
	rc = apus_shm_pool_init(&cache->pool,
				APUS_DP_SLOT_PAYLOAD + ((limits->payload_bytes_max + 3) & ~3u),
				slots, segment_flags);
	if (rc == 0 && limits->small_bytes)
		rc = apus_shm_pool_init(&cache->small,
					APUS_DP_SLOT_PAYLOAD + ((limits->small_bytes + 3) & ~3u),
					slots, segment_flags);
	if (rc == 0)
		return 0;
fini:
	apus_dp_cache_fini(cache);
	return rc;
}

void apus_dp_cache_fini(struct apus_dp_cache *cache)
{
	apus_shm_pool_fini(&cache->pool);
	apus_shm_pool_fini(&cache->small);
	apus_dp_keytable_fini(&cache->keys);
	apus_shm_unreserve(&cache->reserve);
	memset(cache, 0, sizeof(*cache));
}

/* --- sequence number -> slot ------------------------------------------------------------------- */

/* A bucket holds a slot and 1: zero memory is empty. */
static uint32_t at(const struct apus_dp_cache *cache, uint32_t bucket)
{
	return cache->by_seq[bucket] - 1;
}

static void put(struct apus_dp_cache *cache, uint32_t bucket, uint32_t slot)
{
	cache->by_seq[bucket] = slot + 1;
}

/* Consecutive numbers spread over consecutive buckets: the common window is dense and never collides. */
static uint32_t home(const struct apus_dp_cache *cache, apus_seq seq)
{
	return (uint32_t)seq & cache->seq_mask;
}

uint32_t apus_dp_cache_find(const struct apus_dp_cache *cache, apus_seq seq)
{
	uint32_t b = home(cache, seq);

	for (;; b = (b + 1) & cache->seq_mask) {
		uint32_t slot = at(cache, b);

		if (slot == NONE || cache->entries[slot].seq == seq)
			return slot;
	}
}

static void index_add(struct apus_dp_cache *cache, uint32_t slot)
{
	uint32_t first = home(cache, cache->entries[slot].seq), b = first;

	while (at(cache, b) != NONE)
		b = (b + 1) & cache->seq_mask;
	put(cache, b, slot);
	cache->strays += b != first;
}

/* Closes the hole that an entry leaves with strays behind it. The window is one dense run, so without strays it
 * must not be walked. */
static void index_remove(struct apus_dp_cache *cache, uint32_t slot)
{
	uint32_t mask = cache->seq_mask;
	uint32_t first = home(cache, cache->entries[slot].seq), hole = first, seen = 0;

	while (at(cache, hole) != slot)
		hole = (hole + 1) & mask;
	cache->strays -= hole != first;
	for (uint32_t b = (hole + 1) & mask; seen < cache->strays && at(cache, b) != NONE;
	     b = (b + 1) & mask) {
		uint32_t h = home(cache, cache->entries[at(cache, b)].seq);

		seen += b != h;
		if (((b - h) & mask) < ((b - hole) & mask))
			continue; /* may not move in front of its home */
		put(cache, hole, at(cache, b));
		if (hole == h) {
			cache->strays--;
			seen--;
		}
		hole = b;
	}
	put(cache, hole, NONE);
}

/* --- instances --------------------------------------------------------------------------------- */

uint32_t apus_dp_cache_evict(struct apus_dp_cache *cache, apus_seq acked)
{
	uint32_t evicted = 0;

	for (uint32_t i = 0; i < cache->limits.max_instances; i++) {
		struct apus_dp_cache_instance *inst = &cache->instances[i];

		if (!inst->unregistered ||
		    (inst->count && cache->entries[inst->newest].seq > acked))
			continue;
		while (inst->count)
			apus_dp_cache_remove(cache, inst->oldest);
		apus_dp_keytable_remove(&cache->keys, i);
		memset(inst, 0, sizeof(*inst));
		evicted++;
	}
	return evicted;
}

uint32_t apus_dp_cache_instance(struct apus_dp_cache *cache, const uint8_t *key, uint32_t key_bytes,
				bool *new_out)
{
	uint32_t idx;

	*new_out = false;
	if (cache->limits.key_bytes_max == 0 && key_bytes == 0 && cache->keys.count)
		return cache->keyless_idx;
	idx = apus_dp_keytable_find(&cache->keys, key, key_bytes);
	*new_out = idx == APUS_DP_NO_KEY;
	if (idx != APUS_DP_NO_KEY)
		return idx;
	idx = apus_dp_keytable_add(&cache->keys, key, key_bytes);
	if (idx == APUS_DP_NO_KEY)
		return idx;
	cache->keyless_idx = idx;
	memset(&cache->instances[idx], 0, sizeof(cache->instances[idx]));
	cache->instances[idx].oldest = cache->instances[idx].newest = NONE;
	return idx;
}

enum apus_dp_room apus_dp_cache_room(const struct apus_dp_cache *cache, uint32_t instance_idx)
{
	const struct apus_dp_cache_instance *inst = &cache->instances[instance_idx];

	if (cache->limits.depth) {
		if (inst->count >= cache->limits.depth)
			return APUS_DP_ROOM;
	} else if (inst->count >= cache->limits.max_samples_per_instance) {
		return APUS_DP_ROOM_FULL;
	}
	return cache->count >= cache->limits.max_samples ? APUS_DP_ROOM_FULL : APUS_DP_ROOM;
}

/* --- samples ----------------------------------------------------------------------------------- */

static void list_append(struct apus_dp_cache *cache, uint32_t slot)
{
	struct apus_dp_entry *e = &cache->entries[slot];
	struct apus_dp_cache_instance *inst = &cache->instances[e->instance_idx];

	e->next = NONE;
	e->prev = cache->tail;
	if (cache->tail != NONE)
		cache->entries[cache->tail].next = slot;
	else
		cache->head = slot;
	cache->tail = slot;
	e->inst_next = NONE;
	e->inst_prev = inst->newest;
	if (inst->newest != NONE)
		cache->entries[inst->newest].inst_next = slot;
	else
		inst->oldest = slot;
	inst->newest = slot;
	inst->count++;
	cache->count++;
}

static void list_remove(struct apus_dp_cache *cache, uint32_t slot)
{
	struct apus_dp_entry *e = &cache->entries[slot];
	struct apus_dp_cache_instance *inst = &cache->instances[e->instance_idx];

	*(e->prev != NONE ? &cache->entries[e->prev].next : &cache->head) = e->next;
	*(e->next != NONE ? &cache->entries[e->next].prev : &cache->tail) = e->prev;
	*(e->inst_prev != NONE ? &cache->entries[e->inst_prev].inst_next : &inst->oldest) =
		e->inst_next;
	*(e->inst_next != NONE ? &cache->entries[e->inst_next].inst_prev : &inst->newest) =
		e->inst_prev;
	inst->count--;
	cache->count--;
}

void apus_dp_cache_remove(struct apus_dp_cache *cache, uint32_t slot)
{
	index_remove(cache, slot);
	list_remove(cache, slot);
	cache->entries[slot].seq = 0;
	apus_dp_cache_abandon(cache, slot);
}

/* The oldest sample, which is the oldest of its instance as well, goes: without strays nobody moves. */
static void remove_head(struct apus_dp_cache *cache)
{
	uint32_t slot = cache->head;
	struct apus_dp_entry *e = &cache->entries[slot];
	struct apus_dp_cache_instance *inst = &cache->instances[e->instance_idx];

	if (APUS_UNLIKELY(cache->strays)) {
		apus_dp_cache_remove(cache, slot);
		return;
	}
	put(cache, home(cache, e->seq), NONE);
	cache->head = e->next;
	*(e->next != NONE ? &cache->entries[e->next].prev : &cache->tail) = NONE;
	inst->oldest = e->inst_next;
	*(e->inst_next != NONE ? &cache->entries[e->inst_next].inst_prev : &inst->newest) = NONE;
	inst->count--;
	cache->count--;
	e->seq = 0;
	apus_dp_cache_abandon(cache, slot);
}

uint32_t apus_dp_cache_add(struct apus_dp_cache *cache, uint32_t slot,
			   const struct apus_dp_entry *entry)
{
	struct apus_dp_cache_instance *inst = &cache->instances[entry->instance_idx];
	uint32_t displaced = 0;

	while (cache->limits.depth && inst->count >= cache->limits.depth) {
		apus_dp_cache_remove(cache, inst->oldest);
		displaced++;
	}
	if (entry != &cache->entries[slot])
		cache->entries[slot] = *entry;
	inst->unregistered = (entry->kind & APUS_UNREGISTER) != 0;
	list_append(cache, slot);
	index_add(cache, slot);
	return displaced;
}

uint32_t apus_dp_cache_remove_to(struct apus_dp_cache *cache, apus_seq seq)
{
	uint32_t removed = 0;

	while (cache->head != NONE && cache->entries[cache->head].seq <= seq) {
		remove_head(cache);
		removed++;
	}
	return removed;
}
