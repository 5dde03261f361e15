/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A writer's history cache (RTPS 2.5 §8.2.2): which samples can still be asked for, in order of sequence
 * number and per instance, with their slots.
 *
 * One entry a slot, so the slot index is the entry's name: a table from sequence number to slot, a list
 * in sequence order, and a list per instance (oldest first) for KEEP_LAST. All O(1). The cache knows no
 * readers: the writer says what is acknowledged.
 *
 * Owned by the holder of the worker's turn. Nothing allocates after init.
 */
#ifndef APUS_DATAPLANE_CACHE_H
#define APUS_DATAPLANE_CACHE_H

#include "base/atomics.h"
#include "base/clock.h"
#include "base/guid.h"
#include "dataplane/keytable.h"
#include "dataplane/marks.h"
#include "shm/pool.h"

/** Offset of the payload in a slot: 4 bytes in front of a multiple of 8, so that what follows the
 *  encapsulation header is aligned for every CDR type; the room before it is the slot's header. */
#define APUS_DP_SLOT_PAYLOAD 60

/** Sizes of a cache, all ≥ 1 except key_bytes_max. */
struct apus_dp_cache_limits {
	uint32_t max_samples;
	uint32_t max_instances;
	uint32_t max_samples_per_instance; /* KEEP_ALL */
	uint32_t depth;                    /* KEEP_LAST; 0 = KEEP_ALL */
	uint32_t payload_bytes_max;
	uint32_t key_bytes_max; /* 0 = keyless */
	/** Not 0: most payloads are this small. They get slots of that size, and the others, for which there
	 *  are as many large ones, only cost memory when they come. */
	uint32_t small_bytes;
	uint32_t loaned_slots; /* the application may be filling */
	uint32_t lent_slots;   /* may be out with readers of other processes, beyond the history */
};

/** One sample of the cache. Fields are the cache's except where a comment says so. */
struct apus_dp_entry {
	apus_seq seq;            /* 0 = not in the cache */
	struct apus_wall source; /* source timestamp */
	uint64_t offset_bytes;   /* the user's: payload bytes of all samples before it */
	uint32_t payload_bytes;  /* 0 = no payload */
	uint32_t instance_idx;
	uint32_t next, prev; /* by sequence number */
	uint32_t inst_next;  /* newer sample of the instance */
	uint32_t inst_prev;
	uint8_t kind;                /* enum apus_change */
	bool key_only;               /* the payload is a key */
	struct apus_mono expires_at; /* the user's: its lifespan ends; INT64_MAX = never */
	struct apus_dp_marks marks;
	bool loaned; /* the user's: the application is filling the slot; not in the cache */
	bool judged; /* the user's: it holds verdicts of filters for this sample */
	bool unsure; /* the user's: some of them could not be found out */
};

/** One instance. */
struct apus_dp_cache_instance {
	uint32_t oldest, newest; /* slots */
	uint32_t count;
	bool unregistered;
	uint8_t key_hash[16];
};

struct apus_dp_cache {
	struct apus_dp_cache_limits limits;
	struct apus_shm_pool pool;
	struct apus_shm_pool small; /* slots from pool.slot_count on; empty without small_bytes */
	uint32_t slot_count;        /* of both */
	struct apus_dp_keytable keys;
	uint32_t keyless_idx;          /* without keys: of the one instance, once there is one */
	struct apus_dp_entry *entries; /* per slot */
	struct apus_dp_cache_instance *instances; /* per key index */
	uint32_t *by_seq;                /* open addressing on the sequence number; slot + 1 */
	struct apus_shm_reserve reserve; /* these three, untouched until used */
	uint32_t seq_mask;
	uint32_t strays;     /* entries of by_seq that are not in their own bucket */
	uint32_t head, tail; /* by sequence number; APUS_SHM_NO_SLOT = empty */
	uint32_t count;
};

/** Allocates; returns 0, APUS_EINVAL or APUS_ENOMEM. */
int apus_dp_cache_init(struct apus_dp_cache *cache, const struct apus_dp_cache_limits *limits,
		       unsigned segment_flags);
/** Frees; a zeroed cache is allowed. */
void apus_dp_cache_fini(struct apus_dp_cache *cache);

/** A free slot to serialise into, or APUS_SHM_NO_SLOT; give it to add() or abandon(). There is always one
 *  while count ≤ max_samples: the pool has a spare. */
static inline uint32_t apus_dp_cache_acquire(struct apus_dp_cache *cache)
{
	return apus_shm_pool_acquire(&cache->pool);
}

/** The same for a payload whose size is known. */
static inline uint32_t apus_dp_cache_acquire_for(struct apus_dp_cache *cache,
						 uint32_t payload_bytes)
{
	uint32_t slot;

	if (payload_bytes > cache->limits.small_bytes)
		return apus_shm_pool_acquire(&cache->pool);
	slot = apus_shm_pool_acquire(&cache->small);
	return slot == APUS_SHM_NO_SLOT ? slot : cache->pool.slot_count + slot;
}

static inline void apus_dp_cache_abandon(struct apus_dp_cache *cache, uint32_t slot)
{
	if (slot < cache->pool.slot_count)
		apus_shm_pool_release(&cache->pool, slot);
	else
		apus_shm_pool_release(&cache->small, slot - cache->pool.slot_count);
}

/** Where the payload of a slot lies. */
static inline uint8_t *apus_dp_cache_payload(const struct apus_dp_cache *cache, uint32_t slot)
{
	if (APUS_UNLIKELY(slot >= cache->pool.slot_count))
		return (uint8_t *)apus_shm_pool_slot(&cache->small, slot - cache->pool.slot_count) +
		       APUS_DP_SLOT_PAYLOAD;
	return (uint8_t *)apus_shm_pool_slot(&cache->pool, slot) + APUS_DP_SLOT_PAYLOAD;
}

/** Index of an instance, registering it if new; APUS_DP_NO_KEY if there is no room or the key too long. */
uint32_t apus_dp_cache_instance(struct apus_dp_cache *cache, const uint8_t *key, uint32_t key_bytes,
				bool *new_out);

/**
 * Forgets the instances that are unregistered and of which everything up to their last sample is
 * acknowledged, with what they hold: a late joiner need not hear of them (DDS 1.4 §2.2.3.5,
 * service_cleanup_delay 0). A walk over all instances, for a cache at its limit. Returns how many went.
 */
uint32_t apus_dp_cache_evict(struct apus_dp_cache *cache, apus_seq acked);

/** What stands in the way of one more sample of an instance. */
enum apus_dp_room {
	APUS_DP_ROOM = 0,     /* nothing; KEEP_LAST may displace the instance's oldest */
	APUS_DP_ROOM_FULL = 1 /* a limit: samples must be acknowledged or removed first */
};
enum apus_dp_room apus_dp_cache_room(const struct apus_dp_cache *cache, uint32_t instance_idx);

/**
 * Adds the sample in `slot` as `entry` says (seq, source, payload_bytes, instance_idx, kind, key_only),
 * displacing the instance's oldest under KEEP_LAST; it may be the slot's own already. seq must exceed all before. Returns the number of
 * samples displaced.
 */
uint32_t apus_dp_cache_add(struct apus_dp_cache *cache, uint32_t slot,
			   const struct apus_dp_entry *entry);
/** Slot of a sequence number, or APUS_SHM_NO_SLOT. */
uint32_t apus_dp_cache_find(const struct apus_dp_cache *cache, apus_seq seq);
/** Removes one sample. */
void apus_dp_cache_remove(struct apus_dp_cache *cache, uint32_t slot);
/** Removes all samples up to and including `seq`; returns how many. */
uint32_t apus_dp_cache_remove_to(struct apus_dp_cache *cache, apus_seq seq);

/** Lowest sequence number held, or `otherwise` if the cache is empty. */
static inline apus_seq apus_dp_cache_first(const struct apus_dp_cache *cache, apus_seq otherwise)
{
	return cache->head == APUS_SHM_NO_SLOT ? otherwise : cache->entries[cache->head].seq;
}

#endif
