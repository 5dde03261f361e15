/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slot pools: a fixed number of equal slots in one segment, with who holds them kept privately.
 *
 * A slot is bytes; its layout belongs to the user. Holds are plain counts in ordinary memory, never in
 * the segment: they are owned by whoever holds the turn of the pool's worker, and a process that only
 * maps the segment can neither see nor disturb them. Acquire and release are O(1) and touch one line
 * of private memory each. Free slots are handed out last-in-first-out, so that a warm one is reused.
 *
 * Thread rule: all calls on one pool under the turn of its worker. Nothing allocates after init, and a pool that is
 * not used stays untouched: zero memory is a stack of all slots, the lowest on top.
 */
#ifndef APUS_SHM_POOL_H
#define APUS_SHM_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/reserve.h"
#include "shm/segment.h"

/** "No slot". */
#define APUS_SHM_NO_SLOT UINT32_MAX

struct apus_shm_pool {
	struct apus_shm_segment segment;
	uint32_t slot_bytes; /* stride, a multiple of 64 */
	uint32_t slot_count;
	uint32_t free_count;
	uint32_t *free_slots; /* stack of free_count slot indices, each by apus_shm_pool_code() */
	uint32_t *holds;      /* per slot; 0 = free */
	struct apus_shm_reserve reserve; /* both */
};

/** What slot index zero stands for at this place of the stack, and back: the lowest index is on top of a fresh one,
 *  so that a short-lived pool stays in few pages. */
static inline uint32_t apus_shm_pool_code(const struct apus_shm_pool *pool, uint32_t place,
					  uint32_t code)
{
	return code ^ (pool->slot_count - 1 - place);
}

/**
 * Creates a pool of slot_count slots of at least slot_bytes bytes, 64-byte aligned. segment_flags:
 * APUS_SHM_… bits.
 * Returns 0, APUS_EINVAL (zero or absurd sizes) or APUS_ENOMEM. On failure nothing is left behind.
 */
int apus_shm_pool_init(struct apus_shm_pool *pool, uint32_t slot_bytes, uint32_t slot_count,
		       unsigned segment_flags);
/** Releases the memory, whatever is still held. A zeroed pool is allowed. */
void apus_shm_pool_fini(struct apus_shm_pool *pool);

/** Takes a free slot with one hold, or returns APUS_SHM_NO_SLOT. */
static inline uint32_t apus_shm_pool_acquire(struct apus_shm_pool *pool)
{
	uint32_t idx;

	if (pool->free_count == 0)
		return APUS_SHM_NO_SLOT;
	pool->free_count--;
	idx = apus_shm_pool_code(pool, pool->free_count, pool->free_slots[pool->free_count]);
	pool->holds[idx] = 1;
	return idx;
}

/** Adds a hold to a held slot. */
static inline void apus_shm_pool_hold(struct apus_shm_pool *pool, uint32_t slot_idx)
{
	pool->holds[slot_idx]++;
}

/** Drops one hold; the last one frees the slot. */
static inline void apus_shm_pool_release(struct apus_shm_pool *pool, uint32_t slot_idx)
{
	if (--pool->holds[slot_idx] == 0) {
		pool->free_slots[pool->free_count] =
			apus_shm_pool_code(pool, pool->free_count, slot_idx);
		pool->free_count++;
	}
}

/** Address of a slot. */
static inline void *apus_shm_pool_slot(const struct apus_shm_pool *pool, uint32_t slot_idx)
{
	return (uint8_t *)pool->segment.base + (size_t)slot_idx * pool->slot_bytes;
}

#endif
