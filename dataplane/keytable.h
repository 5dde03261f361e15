/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table from key bytes to small indices, fixed in size: open addressing with linear probing and
 * backward-shift deletion, keys copied into one arena. Finding, adding and removing are O(1); nothing
 * is allocated after init. An index stays the same for as long as its key is in the table.
 *
 * A bucket has the beginning of its key: of a short one, which most are, a search looks at nothing else.
 *
 * Not synchronised; in the data plane the holder of the worker's turn owns it.
 */
#ifndef APUS_DATAPLANE_KEYTABLE_H
#define APUS_DATAPLANE_KEYTABLE_H

#include "shm/reserve.h"

#include <stddef.h>
#include <stdint.h>

/** "No such key". */
#define APUS_DP_NO_KEY UINT32_MAX

/** Bytes of a key that stand in its bucket. */
#define APUS_DP_KEYTABLE_HEAD 20

struct apus_dp_keytable_bucket {
	uint32_t place; /* index + 1; 0: empty */
	uint32_t hash;  /* of the key, its lower bits */
	uint32_t length;
	uint8_t head[APUS_DP_KEYTABLE_HEAD];
};

struct apus_dp_keytable {
	uint32_t capacity; /* keys */
	uint32_t count;
	uint32_t key_bytes_max; /* room per key */
	uint32_t bucket_mask;   /* buckets - 1; buckets ≥ 2 * capacity, a power of two */
	uint32_t free_count;
	uint32_t rest_bytes; /* of the longest key, behind its head */
	struct apus_dp_keytable_bucket *buckets;
	uint32_t *free_indices;          /* stack, encoded */
	uint32_t *hashes;                /* per index */
	uint8_t *rests;                  /* capacity * rest_bytes */
	struct apus_shm_reserve reserve; /* all of these, untouched until used */
};

/** Allocates a table for `capacity` (≥ 1) keys of at most key_bytes_max bytes. Returns 0 or APUS_ENOMEM. */
int apus_dp_keytable_init(struct apus_dp_keytable *table, uint32_t capacity,
			  uint32_t key_bytes_max);
/** Frees it; a zeroed table is allowed. */
void apus_dp_keytable_fini(struct apus_dp_keytable *table);
/** Index of a key, or APUS_DP_NO_KEY. */
uint32_t apus_dp_keytable_find(const struct apus_dp_keytable *table, const uint8_t *key,
			       uint32_t key_bytes);
/** Adds a key that is not in the table; APUS_DP_NO_KEY if it is full or the key too long. */
uint32_t apus_dp_keytable_add(struct apus_dp_keytable *table, const uint8_t *key,
			      uint32_t key_bytes);
/** Removes the key of an index in use. */
void apus_dp_keytable_remove(struct apus_dp_keytable *table, uint32_t idx);

#endif
