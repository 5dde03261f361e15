/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded ring of pointers or small items between one producer and one consumer at a time. Producers may be
 * different threads if something else orders them (here: a port's claim word, a worker's turn).
 *
 * The index words are the ring; the items are the owner's array of `mask + 1` places.
 */
#ifndef APUS_DPDK_RING_H
#define APUS_DPDK_RING_H

#include "base/atomics.h"

#include <stdbool.h>

struct apus_dpdk_ring {
	uint32_t mask;                            /* places minus one, a power of two minus one */
	APUS_CACHE_ALIGNED _Atomic uint32_t tail; /* producer; next place to fill */
	APUS_CACHE_ALIGNED _Atomic uint32_t head; /* consumer; next place to empty */
};

static inline void apus_dpdk_ring_init(struct apus_dpdk_ring *r, uint32_t places)
{
	r->mask = places - 1;
	/* Relaxed: nobody knows the ring yet. */
	atomic_store_explicit(&r->tail, 0, memory_order_relaxed);
	atomic_store_explicit(&r->head, 0, memory_order_relaxed);
}

/** Producer: the place to fill, false if the ring is full. */
static inline bool apus_dpdk_ring_reserve(struct apus_dpdk_ring *r, uint32_t *place_out)
{
	/* Relaxed: only producers, who are ordered, write it. */
	uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);

	/* Acquire: R3, pairs with R4: the consumer is done with the place before it is overwritten. */
	if (tail - atomic_load_explicit(&r->head, memory_order_acquire) > r->mask)
		return false;
	*place_out = tail & r->mask;
	return true;
}

/** Producer: the place reserved last is filled. */
static inline void apus_dpdk_ring_push(struct apus_dpdk_ring *r)
{
	/* Relaxed load: ours. */
	uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);

	/* R1: seq_cst, pairs with R2 (as a release: the item is there before it is seen), and comes before the
	 * producer's look at whether the consumer sleeps (A1): one of both sees the other. */
	atomic_store(&r->tail, tail + 1);
}

/** Consumer: the place of the oldest item; false if there is none. */
static inline bool apus_dpdk_ring_peek(struct apus_dpdk_ring *r, uint32_t *place_out)
{
	/* Relaxed: only consumers, who are ordered, write it. */
	uint32_t head = atomic_load_explicit(&r->head, memory_order_relaxed);

	/* R2: seq_cst, pairs with R1. */
	if (atomic_load(&r->tail) == head)
		return false;
	*place_out = head & r->mask;
	return true;
}

/** Consumer: done with the item looked at last. */
static inline void apus_dpdk_ring_pop(struct apus_dpdk_ring *r)
{
	/* Relaxed load: ours. */
	uint32_t head = atomic_load_explicit(&r->head, memory_order_relaxed);

	/* Release: R4, pairs with R3. */
	atomic_store_explicit(&r->head, head + 1, memory_order_release);
}

#endif
