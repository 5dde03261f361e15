/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that an endpoint has from its creation and may never use: zeroed, and not touched before the user touches it.
 *
 * Heap memory would do so only as long as it is fresh, and what is used lies between what is not, so that every page
 * is in use. Here pieces of one size lie together, 64 to a mapping, and those of thousands of endpoints without
 * samples cost address space only. Large pieces are mappings of their own.
 *
 * The system's answer to a mapping is the refusal; what it promised and cannot give later ends the process, as with any
 * memory (docs/decisions/0022).
 */
#ifndef APUS_SHM_RESERVE_H
#define APUS_SHM_RESERVE_H

#include <stddef.h>

#include "shm/segment.h"

struct apus_shm_shelf;

/** One piece. Plain values; empty when zero. */
struct apus_shm_reserve {
	void *base;                   /* 128-byte aligned */
	struct apus_shm_shelf *shelf; /* what it is a piece of; NULL: it lies in … */
	void *whole;                  /* … this memory of its own */
	size_t whole_bytes;
};

/** Gets at least `bytes` (≥ 1) zero bytes. flags: without APUS_SHM_LAZY they are touched now. Returns 0 or
 *  APUS_ENOMEM, with *reserve_out empty. Any thread. */
int apus_shm_reserve(size_t bytes, unsigned flags, struct apus_shm_reserve *reserve_out);
/** Gives it back; it becomes empty. An empty one is allowed. Any thread. */
void apus_shm_unreserve(struct apus_shm_reserve *reserve);

/** The part of `count` items behind `*at`, which moves behind it, 16-byte aligned. With base NULL only `*at` moves: a
 *  first pass measures, a second one lays out. */
static inline void *apus_shm_reserve_part(void *base, size_t *at, size_t count, size_t item_bytes)
{
	size_t here = *at;

	*at += (count * item_bytes + 15) & ~(size_t)15;
	return base ? (char *)base + here : NULL;
}

#endif
