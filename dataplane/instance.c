/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instance table: up to three bucket arrays with linear probing and backward-shift deletion over one array of
 * instances that never move. Buckets are at least twice the places, so a probe ends soon.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "dataplane/instance.h"

#include <apus/participant.h>
#include <string.h>

#define CAPACITY_MAX (1u << 24)
#define MATCHES_MAX  (1u << 16)
#define KEY_MAX      (1u << 16)

/* ---- layout --------------------------------------------------------------------------------- */

/** Byte offsets of the parts in the memory given to init. */
struct layout {
	size_t items, writers, by_key, by_hash, by_alias, generations, occupied, keys, total;
	uint32_t buckets, writer_words;
};

static size_t place(size_t *at, size_t count, size_t item_bytes)
{
	size_t here = *at;

	*at += (count * item_bytes + 15) & ~(size_t)15;
	return here;
}

static bool lay_out(const struct apus_dp_instances_options *o, struct layout *l)
{
	if (o->capacity < 1 || o->capacity > CAPACITY_MAX || o->match_count_max > MATCHES_MAX ||
	    o->key_bytes_max > KEY_MAX || (o->key_bytes_max == 0 && o->capacity != 1))
		return false;
	memset(l, 0, sizeof(*l));
	l->buckets = 4;
	while (l->buckets < 2 * o->capacity)
		l->buckets *= 2;
	l->writer_words = (o->match_count_max + 63) / 64;
	l->items = place(&l->total, o->capacity, sizeof(struct apus_dp_instance));
	l->writers = place(&l->total, o->capacity, l->writer_words * sizeof(uint64_t));
	l->by_key = place(&l->total, l->buckets, sizeof(uint32_t));
	l->by_hash = place(&l->total, o->key_hash ? l->buckets : 0, sizeof(uint32_t));
	l->by_alias = place(&l->total, o->alias_hash ? l->buckets : 0, sizeof(uint32_t));
	l->generations = place(&l->total, o->capacity, sizeof(uint32_t));
	l->occupied = place(&l->total, (o->capacity + 63) / 64, sizeof(uint64_t));
	l->keys = place(&l->total, o->capacity, o->key_bytes_max);
	return true;
}

size_t apus_dp_instances_bytes(const struct apus_dp_instances_options *options)
{
	struct layout l;

	return lay_out(options, &l) ? l.total : 0;
}

int apus_dp_instances_init(struct apus_dp_instances *t,
			   const struct apus_dp_instances_options *options, void *memory)
{
	struct layout l;
	uint8_t *base = memory;

	if (!lay_out(options, &l))
		return APUS_EINVAL;
	if (!options->zeroed)
		memset(memory, 0, l.total);
	memset(t, 0, sizeof(*t));
	t->options = *options;
	t->items = (struct apus_dp_instance *)(base + l.items);
	t->writers = (uint64_t *)(base + l.writers);
	t->by_key = (uint32_t *)(base + l.by_key);
	t->by_hash = options->key_hash ? (uint32_t *)(base + l.by_hash) : NULL;
	t->by_alias = options->alias_hash ? (uint32_t *)(base + l.by_alias) : NULL;
	t->generations = (uint32_t *)(base + l.generations);
	t->occupied = (uint64_t *)(base + l.occupied);
	t->keys = base + l.keys;
	t->bucket_mask = l.buckets - 1;
	t->writer_words = l.writer_words;
	t->idle_first = t->idle_last = APUS_DP_NONE;
	return 0;
}

/* ---- buckets -------------------------------------------------------------------------------- */

static uint64_t hash_bytes(const struct apus_dp_instances *t, const uint8_t *bytes, size_t count)
{
	return count ? XXH3_64bits_withSeed(bytes, count, t->options.seed) : t->options.seed;
}

/** The hash that places item `idx` in the given bucket array. */
static uint64_t bucket_hash(const struct apus_dp_instances *t, const uint32_t *buckets,
			    uint32_t idx)
{
	const struct apus_dp_instance *i = &t->items[idx];

	if (buckets == t->by_key)
		return i->hash;
	return hash_bytes(t, buckets == t->by_alias ? i->alias_hash : i->key_hash, 16);
}

static void bucket_add(struct apus_dp_instances *t, uint32_t *buckets, uint32_t idx)
{
	uint32_t b = (uint32_t)bucket_hash(t, buckets, idx) & t->bucket_mask;

	while (buckets[b] != 0)
		b = (b + 1) & t->bucket_mask;
	buckets[b] = idx + 1;
}

static void bucket_remove(struct apus_dp_instances *t, uint32_t *buckets, uint32_t idx)
{
	uint32_t hole = (uint32_t)bucket_hash(t, buckets, idx) & t->bucket_mask;

	while (buckets[hole] != idx + 1)
		hole = (hole + 1) & t->bucket_mask;
	for (uint32_t b = (hole + 1) & t->bucket_mask; buckets[b] != 0;
	     b = (b + 1) & t->bucket_mask) {
		uint32_t home = (uint32_t)bucket_hash(t, buckets, buckets[b] - 1) & t->bucket_mask;

		/* Its probe path from home to b passes over the hole: it can move there. */
		if (((b - home) & t->bucket_mask) >= ((b - hole) & t->bucket_mask)) {
			buckets[hole] = buckets[b];
			hole = b;
		}
	}
	buckets[hole] = 0;
}

/* ---- looking up ----------------------------------------------------------------------------- */

uint32_t apus_dp_instances_idx(const struct apus_dp_instances *t,
			       const struct apus_dp_instance *instance)
{
	return (uint32_t)(instance - t->items);
}

const uint8_t *apus_dp_instances_key(const struct apus_dp_instances *t,
				     const struct apus_dp_instance *instance)
{
	return t->keys + (size_t)apus_dp_instances_idx(t, instance) * t->options.key_bytes_max;
}

struct apus_dp_instance *apus_dp_instances_find(const struct apus_dp_instances *t,
						const uint8_t *key, size_t key_bytes)
{
	uint64_t hash;

	if (key_bytes > t->options.key_bytes_max)
		return NULL;
	hash = hash_bytes(t, key, key_bytes);
	for (uint32_t b = (uint32_t)hash & t->bucket_mask; t->by_key[b] != 0;
	     b = (b + 1) & t->bucket_mask) {
		struct apus_dp_instance *i = &t->items[t->by_key[b] - 1];

		if (i->hash == hash && i->key_bytes == key_bytes &&
		    (key_bytes == 0 || memcmp(apus_dp_instances_key(t, i), key, key_bytes) == 0))
			return i;
	}
	return NULL;
}

struct apus_dp_instance *apus_dp_instances_find_hash(const struct apus_dp_instances *t,
						     const uint8_t key_hash[16], bool alias)
{
	const uint32_t *buckets = alias ? t->by_alias : t->by_hash;

	if (!buckets)
		return NULL;
	for (uint32_t b = (uint32_t)hash_bytes(t, key_hash, 16) & t->bucket_mask; buckets[b] != 0;
	     b = (b + 1) & t->bucket_mask) {
		struct apus_dp_instance *i = &t->items[buckets[b] - 1];

		if (memcmp(alias ? i->alias_hash : i->key_hash, key_hash, 16) == 0)
			return i;
	}
	return NULL;
}

struct apus_dp_instance *apus_dp_instances_get(const struct apus_dp_instances *t,
					       apus_instance handle)
{
	uint32_t idx = (uint32_t)handle - 1; /* 0 becomes out of range */

	if (handle == APUS_INSTANCE_NONE || idx >= t->options.capacity ||
	    t->items[idx].handle != handle)
		return NULL;
	return &t->items[idx];
}

struct apus_dp_instance *apus_dp_instances_next(const struct apus_dp_instances *t, uint32_t idx)
{
	for (idx = idx == APUS_DP_NONE ? 0 : idx + 1; idx < t->options.capacity; idx++) {
		if (t->items[idx].handle != APUS_INSTANCE_NONE)
			return &t->items[idx];
	}
	return NULL;
}

/* ---- idle list ------------------------------------------------------------------------------ */

static void idle_unlink(struct apus_dp_instances *t, struct apus_dp_instance *i)
{
	if (i->idle_prev != APUS_DP_NONE)
		t->items[i->idle_prev].idle_next = i->idle_next;
	else
		t->idle_first = i->idle_next;
	if (i->idle_next != APUS_DP_NONE)
		t->items[i->idle_next].idle_prev = i->idle_prev;
	else
		t->idle_last = i->idle_prev;
	i->idle = false;
}

static void idle_append(struct apus_dp_instances *t, struct apus_dp_instance *i)
{
	uint32_t idx = apus_dp_instances_idx(t, i);

	i->idle_prev = t->idle_last;
	i->idle_next = APUS_DP_NONE;
	if (t->idle_last != APUS_DP_NONE)
		t->items[t->idle_last].idle_next = idx;
	else
		t->idle_first = idx;
	t->idle_last = idx;
	i->idle = true;
}

struct apus_dp_instance *apus_dp_instances_next_occupied(const struct apus_dp_instances *t,
							 apus_instance handle)
{
	uint32_t idx = (uint32_t)handle; /* the place behind it: handles count from 1 */
	uint64_t word;

	if (idx >= t->options.capacity)
		return NULL;
	word = t->occupied[idx / 64] & ~UINT64_C(0) << (idx & 63);
	for (idx /= 64; word == 0;) {
		if (++idx >= (t->options.capacity + 63) / 64)
			return NULL;
		word = t->occupied[idx];
	}
	return &t->items[idx * 64 + (uint32_t)__builtin_ctzll(word)];
}

static void note_occupied(struct apus_dp_instances *t, struct apus_dp_instance *i)
{
	uint32_t idx = apus_dp_instances_idx(t, i);
	uint64_t bit = UINT64_C(1) << (idx & 63);

	i->occupied = i->first != APUS_DP_NONE;
	if (i->first != APUS_DP_NONE)
		t->occupied[idx / 64] |= bit;
	else
		t->occupied[idx / 64] &= ~bit;
}

void apus_dp_instances_place(struct apus_dp_instances *t, struct apus_dp_instance *instance)
{
	bool idle = instance->first == APUS_DP_NONE && instance->pins == 0 &&
		    (instance->writer_count == 0 || instance->state == APUS_STATE_DISPOSED);

	note_occupied(t, instance);
	if (idle && !instance->idle)
		idle_append(t, instance);
	else if (!idle && instance->idle)
		idle_unlink(t, instance);
}

/* ---- adding --------------------------------------------------------------------------------- */

static uint64_t *writer_map(const struct apus_dp_instances *t, const struct apus_dp_instance *i)
{
	return t->writers + (size_t)apus_dp_instances_idx(t, i) * t->writer_words;
}

/* What a link of zero among the free places stands for: in a fresh table each leads to the next. */
static uint32_t next_of_fresh(const struct apus_dp_instances *t, uint32_t idx)
{
	return idx + 1 < t->options.capacity ? idx + 1 : APUS_DP_NONE;
}

bool apus_dp_instances_room(const struct apus_dp_instances *t, size_t key_bytes)
{
	return key_bytes <= t->options.key_bytes_max &&
	       (t->free_first != APUS_DP_NONE || t->idle_first != APUS_DP_NONE);
}

void apus_dp_instances_drop(struct apus_dp_instances *t, struct apus_dp_instance *i)
{
	uint32_t idx = apus_dp_instances_idx(t, i);

	if (t->options.dropped)
		t->options.dropped(t->options.dropped_context, i);
	idle_unlink(t, i);
	bucket_remove(t, t->by_key, idx);
	if (t->by_hash)
		bucket_remove(t, t->by_hash, idx);
	if (t->by_alias)
		bucket_remove(t, t->by_alias, idx);
	i->handle = APUS_INSTANCE_NONE;
	i->idle_next = t->free_first ^ next_of_fresh(t, idx);
	t->free_first = idx;
	t->count--;
}

struct apus_dp_instance *apus_dp_instances_insert(struct apus_dp_instances *t, const uint8_t *key,
						  size_t key_bytes)
{
	struct apus_dp_instance *i;
	uint32_t idx;

	if (!apus_dp_instances_room(t, key_bytes))
		return NULL;
	if (t->free_first == APUS_DP_NONE)
		apus_dp_instances_drop(t, &t->items[t->idle_first]);
	idx = t->free_first;
	i = &t->items[idx];
	t->free_first = i->idle_next ^ next_of_fresh(t, idx);
	memset(i, 0, sizeof(*i));
	memset(writer_map(t, i), 0, t->writer_words * sizeof(uint64_t));
	i->handle = (apus_instance)++t->generations[idx] << 32 | (idx + 1);
	i->hash = hash_bytes(t, key, key_bytes);
	i->key_bytes = (uint32_t)key_bytes;
	if (key_bytes > 0)
		memcpy(t->keys + (size_t)idx * t->options.key_bytes_max, key, key_bytes);
	i->state = APUS_STATE_ALIVE;
	i->floor_time = APUS_WALL_NONE;
	i->view_new = true;
	i->first = i->last = i->invalid = i->owner = APUS_DP_NONE;
	bucket_add(t, t->by_key, idx);
	if (t->by_hash) {
		t->options.key_hash(t->options.key_hash_context, key, key_bytes, i->key_hash);
		bucket_add(t, t->by_hash, idx);
	}
	if (t->by_alias) {
		t->options.alias_hash(t->options.key_hash_context, key, key_bytes, i->alias_hash);
		bucket_add(t, t->by_alias, idx);
	}
	t->count++;
	idle_append(t, i);
	return i;
}

/* ---- writers -------------------------------------------------------------------------------- */

bool apus_dp_instances_is_registered(const struct apus_dp_instances *t,
				     const struct apus_dp_instance *instance, uint32_t slot)
{
	return slot < t->options.match_count_max &&
	       (writer_map(t, instance)[slot / 64] >> (slot & 63) & 1);
}

bool apus_dp_instances_register(struct apus_dp_instances *t, struct apus_dp_instance *instance,
				uint32_t slot)
{
	if (slot >= t->options.match_count_max ||
	    apus_dp_instances_is_registered(t, instance, slot))
		return false;
	writer_map(t, instance)[slot / 64] |= UINT64_C(1) << (slot & 63);
	instance->writer_count++;
	return true;
}

bool apus_dp_instances_unregister(struct apus_dp_instances *t, struct apus_dp_instance *instance,
				  uint32_t slot)
{
	if (!apus_dp_instances_is_registered(t, instance, slot))
		return false;
	writer_map(t, instance)[slot / 64] &= ~(UINT64_C(1) << (slot & 63));
	instance->writer_count--;
	return true;
}
