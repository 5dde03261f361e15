/* SPDX-License-Identifier: Apache-2.0 */
/* Table from key bytes to indices; see keytable.h. */
#include "dataplane/keytable.h"

#include <apus/core.h>

#include <stdbool.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* The parts of the table's memory; with `base` NULL only their bytes are counted, which are returned. */
static size_t lay_out(struct apus_dp_keytable *table, void *base)
{
	uint32_t n = table->capacity;
	size_t at = 0;

	table->buckets = apus_shm_reserve_part(base, &at, (size_t)table->bucket_mask + 1,
					       sizeof(*table->buckets));
	table->free_indices = apus_shm_reserve_part(base, &at, n, sizeof(*table->free_indices));
	table->hashes = apus_shm_reserve_part(base, &at, n, sizeof(*table->hashes));
	table->rests = apus_shm_reserve_part(base, &at, n, table->rest_bytes + 1);
	return at;
}

/* What index zero stands for at this place of the stack of free ones, and back: so zero memory is the full stack, the
 * lowest on top. */
static uint32_t code(const struct apus_dp_keytable *table, uint32_t place, uint32_t idx)
{
	return idx ^ (table->capacity - 1 - place);
}

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
	if (apus_shm_reserve(lay_out(table, NULL), APUS_SHM_LAZY, &table->reserve) != 0)
		return APUS_ENOMEM;
	lay_out(table, table->reserve.base);
	table->free_count = capacity;
	return 0;
}

void apus_dp_keytable_fini(struct apus_dp_keytable *table)
{
	apus_shm_unreserve(&table->reserve);
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
	table->free_count--;
	idx = code(table, table->free_count, table->free_indices[table->free_count]);
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
	table->free_indices[table->free_count] = code(table, table->free_count, idx);
	table->free_count++;
	table->count--;
}
