/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table from 32 bits of a hash to slot numbers of an array kept elsewhere.
 *
 * Open addressing with linear probing, at most half full, so that a look-up touches one or two lines of the
 * table and, because the bits of the hash stand beside the slot number, no slot but the one it looks for.
 * Removal closes the hole, so entries of equal bits keep the order in which they were added. Never grows:
 * whoever makes it says how many entries there will be at most. Untouched parts of a small one cost no memory.
 *
 * Thread rule: none of its own. Nothing allocates after init.
 */
#ifndef APUS_CONTROL_HASHTABLE_H
#define APUS_CONTROL_HASHTABLE_H

#include "base/fresh.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/** From this size on a table asks for huge pages: its lines are touched in no order, each on a page of its own. */
#define APUS_CTL_TABLE_HUGE_BYTES ((size_t)2 << 20)

/** No slot. */
#define APUS_CTL_TABLE_NONE UINT32_MAX

struct apus_ctl_table_entry {
	uint32_t bits;
	uint32_t slot; /* plus 1; 0 = empty */
};

struct apus_ctl_table {
	struct apus_ctl_table_entry *at;
	uint32_t mask;
};

/** Makes room for `capacity` entries; false without memory. */
static inline bool apus_ctl_table_init(struct apus_ctl_table *t, uint32_t capacity)
{
	size_t size = 8, bytes;

	while (size / 2 < capacity)
		size *= 2;
	bytes = size * sizeof(*t->at);
	t->mask = (uint32_t)(size - 1);
	if (bytes < APUS_CTL_TABLE_HUGE_BYTES) {
		t->at = apus_fresh_alloc(size, sizeof(*t->at));
		return t->at != NULL;
	}
	t->at = aligned_alloc(APUS_CTL_TABLE_HUGE_BYTES, bytes);
	if (!t->at)
		return false;
	(void)madvise(t->at, bytes, MADV_HUGEPAGE); /* without them it is slower, not wrong */
	memset(t->at, 0, bytes);
	return true;
}

static inline void apus_ctl_table_fini(struct apus_ctl_table *t)
{
	size_t size = (size_t)t->mask + 1;

	if (size * sizeof(*t->at) < APUS_CTL_TABLE_HUGE_BYTES)
		apus_fresh_free(t->at, size, sizeof(*t->at));
	else
		free(t->at);
	t->at = NULL;
}

/** The bits of a hash a table works with. */
static inline uint32_t apus_ctl_table_bits(uint64_t hash)
{
	return (uint32_t)(hash >> 32 ^ hash);
}

/** Begins to load the line where a search begins. */
static inline void apus_ctl_table_prefetch(const struct apus_ctl_table *t, uint32_t bits)
{
	__builtin_prefetch(&t->at[bits & t->mask]);
}

/** The next slot entered with these bits, APUS_CTL_TABLE_NONE after the last. *at: `bits` at first. */
static inline uint32_t apus_ctl_table_next(const struct apus_ctl_table *t, uint32_t bits,
					   uint32_t *at)
{
	for (;; (*at)++) {
		const struct apus_ctl_table_entry *e = &t->at[*at & t->mask];

		if (!e->slot)
			return APUS_CTL_TABLE_NONE;
		if (e->bits == bits) {
			(*at)++;
			return e->slot - 1;
		}
	}
}

/** Enters a slot. Room is certain. */
static inline void apus_ctl_table_add(struct apus_ctl_table *t, uint32_t bits, uint32_t slot)
{
	uint32_t at = bits;

	while (t->at[at & t->mask].slot)
		at++;
	t->at[at & t->mask] = (struct apus_ctl_table_entry){bits, slot + 1};
}

/** Takes a slot out that was entered with these bits. */
static inline void apus_ctl_table_remove(struct apus_ctl_table *t, uint32_t bits, uint32_t slot)
{
	uint32_t mask = t->mask, hole = bits & mask;

	while (t->at[hole].slot != slot + 1)
		hole = (hole + 1) & mask;
	for (uint32_t i = (hole + 1) & mask; t->at[i].slot; i = (i + 1) & mask) {
		/* An entry may not move in front of the place where its search begins. */
		if (((i - t->at[i].bits) & mask) < ((i - hole) & mask))
			continue;
		t->at[hole] = t->at[i];
		hole = i;
	}
	t->at[hole].slot = 0;
}

#endif
