/* SPDX-License-Identifier: Apache-2.0 */
/* Table from key bytes to indices; see keytable.h. */
#include "dataplane/keytable.h"

#include <apus/core.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

int apus_dp_keytable_init(struct apus_dp_keytable *table, uint32_t capacity, uint32_t key_bytes_max)
{
	uint32_t buckets = 2; /* one is always free */

	memset(table, 0, sizeof(*table));
	while (buckets < 2 * (uint64_t)capacity)
		buckets *= 2;
	table->capacity = capacity;
	table->key_bytes_max = key_bytes_max;
	table->bucket_mask = buckets - 1;
	if (key_bytes_max > APUS_DP_KEYTABLE_HEAD)
		table->rest_bytes = key_bytes_max - APUS_DP_KEYTABLE_HEAD;
	/* Zero pages until they are used. */
	table->buckets = calloc(buckets, sizeof(*table->buckets));
	table->free_indices = calloc(capacity, sizeof(*table->free_indices));
	table->hashes = calloc(capacity, sizeof(*table->hashes));
	table->rests = calloc(capacity, table->rest_bytes + 1);
	if (!table->buckets || !table->free_indices || !table->hashes || !table->rests) {
		apus_dp_keytable_fini(table);
		return APUS_ENOMEM;
	}
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
	free(table->rests);
	memset(table, 0, sizeof(*table));
}

static uint8_t *rest_at(const struct apus_dp_keytable *table, uint32_t idx)
{
	return table->rests + (size_t)idx * table->rest_bytes;
}

static uint32_t hash_of(const uint8_t *key, uint32_t key_bytes)
{
	return (uint32_t)XXH3_64bits(key, key_bytes);
}

static bool is_key(const struct apus_dp_keytable *table, const struct apus_dp_keytable_bucket *b,
		   const uint8_t *key, uint32_t key_bytes)
{
	const uint32_t head = APUS_DP_KEYTABLE_HEAD;

	if (key_bytes <= head)
		return key_bytes == 0 || memcmp(b->head, key, key_bytes) == 0;
	return memcmp(b->head, key, head) == 0 &&
	       memcmp(rest_at(table, b->place - 1), key + head, key_bytes - head) == 0;
}

uint32_t apus_dp_keytable_find(const struct apus_dp_keytable *table, const uint8_t *key,
			       uint32_t key_bytes)
{
	uint32_t hash = hash_of(key, key_bytes);

	/* Ends: at least half of the buckets are empty. */
	for (uint32_t at = hash & table->bucket_mask;; at = (at + 1) & table->bucket_mask) {
		const struct apus_dp_keytable_bucket *b = &table->buckets[at];

		if (b->place == 0)
			return APUS_DP_NO_KEY;
		if (b->hash == hash && b->length == key_bytes && is_key(table, b, key, key_bytes))
			return b->place - 1;
	}
}

/* Of a type without key there is nothing, and no address of it. */
static void put_key(struct apus_dp_keytable *table, struct apus_dp_keytable_bucket *b,
		    const uint8_t *key, uint32_t key_bytes)
{
	const uint32_t head = APUS_DP_KEYTABLE_HEAD;

	if (key_bytes)
		memcpy(b->head, key, key_bytes < head ? key_bytes : head);
	if (key_bytes > head)
		memcpy(rest_at(table, b->place - 1), key + head, key_bytes - head);
}

uint32_t apus_dp_keytable_add(struct apus_dp_keytable *table, const uint8_t *key,
			      uint32_t key_bytes)
{
	uint32_t hash, at, idx;

	if (table->free_count == 0 || key_bytes > table->key_bytes_max)
		return APUS_DP_NO_KEY;
	hash = hash_of(key, key_bytes);
	for (at = hash & table->bucket_mask; table->buckets[at].place;)
		at = (at + 1) & table->bucket_mask;
	idx = table->free_indices[--table->free_count];
	table->buckets[at] = (struct apus_dp_keytable_bucket){
		.place = idx + 1, .hash = hash, .length = key_bytes};
	table->hashes[idx] = hash;
	put_key(table, &table->buckets[at], key, key_bytes);
	table->count++;
	return idx;
}

/* Moves later members of the probe run into the hole, so that no tombstones are needed and probes stay
 * short for ever. */
static void close_hole(struct apus_dp_keytable *table, uint32_t hole)
{
	uint32_t mask = table->bucket_mask;

	for (uint32_t b = (hole + 1) & mask; table->buckets[b].place; b = (b + 1) & mask) {
		uint32_t home = table->buckets[b].hash & mask;

		if (((b - home) & mask) < ((b - hole) & mask))
			continue; /* its home lies behind the hole: it may not move in front of it */
		table->buckets[hole] = table->buckets[b];
		hole = b;
	}
	table->buckets[hole].place = 0;
}

void apus_dp_keytable_remove(struct apus_dp_keytable *table, uint32_t idx)
{
	uint32_t b = table->hashes[idx] & table->bucket_mask;

	while (table->buckets[b].place != idx + 1)
		b = (b + 1) & table->bucket_mask;
	close_hole(table, b);
	table->free_indices[table->free_count++] = idx;
	table->count--;
}
