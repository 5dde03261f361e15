/* SPDX-License-Identifier: Apache-2.0 */
/* Table from key bytes to indices; see keytable.h. */
#include "dataplane/keytable.h"

#include <apus/core.h>

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

int apus_dp_keytable_init(struct apus_dp_keytable *table, uint32_t capacity, uint32_t key_bytes_max)
{
	uint32_t buckets = 4;

	memset(table, 0, sizeof(*table));
	while (buckets < 2 * (uint64_t)capacity)
		buckets *= 2;
	table->capacity = capacity;
	table->key_bytes_max = key_bytes_max;
	table->bucket_mask = buckets - 1;
	table->buckets = malloc(buckets * sizeof(*table->buckets));
	table->free_indices = calloc(capacity, sizeof(*table->free_indices));
	table->hashes = calloc(capacity, sizeof(*table->hashes));
	table->lengths = calloc(capacity, sizeof(*table->lengths));
	table->keys = calloc(capacity, key_bytes_max ? key_bytes_max : 1);
	if (!table->buckets || !table->free_indices || !table->hashes || !table->lengths ||
	    !table->keys) {
		apus_dp_keytable_fini(table);
		return APUS_ENOMEM;
	}
	memset(table->buckets, 0xff, buckets * sizeof(*table->buckets));
	for (uint32_t i = 0; i < capacity; i++)
		table->free_indices[i] = capacity - 1 - i;
	table->free_count = capacity;
	return 0;
}

void apus_dp_keytable_fini(struct apus_dp_keytable *table)
{
	free(table->buckets);
	free(table->free_indices);
	free(table->hashes);
	free(table->lengths);
	free(table->keys);
	memset(table, 0, sizeof(*table));
}

static uint8_t *key_at(const struct apus_dp_keytable *table, uint32_t idx)
{
	return table->keys + (size_t)idx * table->key_bytes_max;
}

uint32_t apus_dp_keytable_find(const struct apus_dp_keytable *table, const uint8_t *key,
			       uint32_t key_bytes)
{
	uint64_t hash = XXH3_64bits(key, key_bytes);
	uint32_t b = (uint32_t)hash & table->bucket_mask;

	/* Ends: at least half of the buckets are empty. */
	for (;; b = (b + 1) & table->bucket_mask) {
		uint32_t idx = table->buckets[b];

		if (idx == APUS_DP_NO_KEY)
			return idx;
		if (table->hashes[idx] == hash && table->lengths[idx] == key_bytes &&
		    (key_bytes == 0 || memcmp(key_at(table, idx), key, key_bytes) == 0))
			return idx;
	}
}

uint32_t apus_dp_keytable_add(struct apus_dp_keytable *table, const uint8_t *key,
			      uint32_t key_bytes)
{
	uint64_t hash;
	uint32_t b, idx;

	if (table->free_count == 0 || key_bytes > table->key_bytes_max)
		return APUS_DP_NO_KEY;
	hash = XXH3_64bits(key, key_bytes);
	b = (uint32_t)hash & table->bucket_mask;
	while (table->buckets[b] != APUS_DP_NO_KEY)
		b = (b + 1) & table->bucket_mask;
	idx = table->free_indices[--table->free_count];
	table->buckets[b] = idx;
	table->hashes[idx] = hash;
	table->lengths[idx] = key_bytes;
	/* Of a type without key there is nothing, and no address of it. */
	if (key_bytes)
		memcpy(key_at(table, idx), key, key_bytes);
	table->count++;
	return idx;
}

/* Moves later members of the probe run into the hole, so that no tombstones are needed and probes stay
 * short for ever. */
static void close_hole(struct apus_dp_keytable *table, uint32_t hole)
{
	uint32_t mask = table->bucket_mask;

	for (uint32_t b = (hole + 1) & mask; table->buckets[b] != APUS_DP_NO_KEY;
	     b = (b + 1) & mask) {
		uint32_t home = (uint32_t)table->hashes[table->buckets[b]] & mask;

		if (((b - home) & mask) < ((b - hole) & mask))
			continue; /* its home lies behind the hole: it may not move in front of it */
		table->buckets[hole] = table->buckets[b];
		hole = b;
	}
	table->buckets[hole] = APUS_DP_NO_KEY;
}

void apus_dp_keytable_remove(struct apus_dp_keytable *table, uint32_t idx)
{
	uint32_t b = (uint32_t)table->hashes[idx] & table->bucket_mask;

	while (table->buckets[b] != idx)
		b = (b + 1) & table->bucket_mask;
	close_hole(table, b);
	table->free_indices[table->free_count++] = idx;
	table->count--;
}
