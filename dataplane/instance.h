/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instances a reader knows: an open-addressing table of fixed capacity over canonical key bytes
 * (wire/key.h), and a second one over 16-byte key hashes, for peers that send only those.
 *
 * Look-up, insertion and removal are O(1) in expectation whatever keys a peer chooses: the table hash is
 * seeded. No memory but what init was given. A keyless topic has exactly one instance, of key length 0.
 *
 * An instance is *idle* when nothing would be missed if it went: it holds no sample and is not pinned, and
 * has no registered writer or is disposed of. When the table is full the longest idle one makes room.
 */
#ifndef APUS_DATAPLANE_INSTANCE_H
#define APUS_DATAPLANE_INSTANCE_H

#include "base/clock.h"
#include "base/guid.h"
#include "dataplane/status.h"

/** "No index" in every idx of this unit and of history.h. */
#define APUS_DP_NONE UINT32_MAX

/** One instance. Written by instance.c, history.c and admit.c only. */
struct apus_dp_instance {
	apus_instance handle; /* 0 = free; never the same again when the place is reused */
	uint64_t hash;        /* of the key bytes */
	uint8_t key_hash[16];
	uint8_t alias_hash[16]; /* the key hash in another vendor's form, if hashes have one */
	uint32_t key_bytes;

	uint8_t state;    /* enum apus_instance_state (1, 2, 4) */
	bool view_new;    /* not accessed since it was (re)born */
	bool ever_stored; /* a sample was stored; before that it only remembers an owner */
	uint32_t disposed_generation_count;
	uint32_t no_writers_generation_count;

	uint32_t sample_count;   /* entries with valid data in the history */
	uint32_t first, last;    /* its entries, oldest first; APUS_DP_NONE = none */
	uint32_t invalid;        /* its entry without data, or APUS_DP_NONE */
	uint32_t pins;           /* loans and withheld entries that need its key */
	uint32_t withheld_count; /* samples with data of coherent sets under way */
	uint32_t writer_count;   /* bits set in its writer map */
	uint32_t owner;          /* match slot of the owner; APUS_DP_NONE = nobody */

	/* Destination order by source: nothing older than this is shown any more (history.c). */
	struct apus_wall floor_time;
	struct apus_guid floor_writer;
	apus_seq floor_seq;

	struct apus_mono not_alive_since; /* of the present state; for the purge delays */
	uint32_t purge_prev, purge_next;  /* list of instances in its state; valid if purge_state */
	uint8_t purge_state;              /* the list it is in: its state; 0 = none */

	/* Scratch of one read or take (history_access.c). */
	uint64_t walked_stamp, ranked_stamp; /* calls that used what follows */
	uint32_t ranked_count;               /* its samples ranked so far */
	uint32_t ranked_generation;          /* of the latest of them */

	struct apus_mono last_accepted; /* for the minimum separation; 0 = never */
	struct apus_dp_deadline deadline;

	uint32_t idle_prev, idle_next; /* list of idle instances; valid while `idle` */
	bool idle;
	bool occupied; /* it has entries, as far as the table has noted */
};

/** Computes the key hash of a key; see apus_wire_key_hash(). */
typedef void apus_dp_key_hash_fn(const void *context, const uint8_t *key, size_t key_bytes,
				 uint8_t hash_out[16]);

/** How large a table is. */
struct apus_dp_instances_options {
	uint32_t capacity;             /* 1 … 2^24 */
	uint32_t key_bytes_max;        /* 0 = keyless, capacity must be 1 */
	uint32_t match_count_max;      /* writers */
	uint64_t seed;                 /* of the table hash; random in production */
	apus_dp_key_hash_fn *key_hash; /* NULL: key hashes are not looked up */
	apus_dp_key_hash_fn
		*alias_hash; /* a second form they are looked up in; NULL: there is none */
	const void *key_hash_context;
	void (*dropped)(void *context,
			const struct apus_dp_instance *instance); /* before reuse; may be NULL */
	void *dropped_context;
	/** The memory given to init is zero: nothing of it is touched before it is used. False: it is cleared. */
	bool zeroed;
};

/** The table. Fields are private. */
struct apus_dp_instances {
	struct apus_dp_instances_options options;
	struct apus_dp_instance *items; /* [capacity]; an instance keeps its place and address */
	uint8_t *keys;                  /* [capacity * key_bytes_max] */
	uint64_t *writers;              /* [capacity * writer_words] */
	uint32_t *by_key;               /* [bucket_count] item index and 1, or 0 */
	uint32_t *by_hash;              /* [bucket_count] or NULL */
	uint32_t *by_alias;             /* likewise */
	uint32_t bucket_mask;
	uint32_t writer_words;
	uint32_t count;
	uint32_t free_first; /* free places, linked by idle_next, encoded: zero links all */
	uint32_t idle_first, idle_last; /* longest idle first */
	uint32_t *generations;          /* [capacity] times a place was used */
	uint64_t *occupied;             /* [capacity] bits: the instance has entries */
};

/** Bytes of memory init needs; 0 if the options are out of range. */
size_t apus_dp_instances_bytes(const struct apus_dp_instances_options *options);
/** Lays the table out in `memory` (16-byte aligned, of the size above, any contents). Returns 0 or
 *  APUS_EINVAL. */
int apus_dp_instances_init(struct apus_dp_instances *t,
			   const struct apus_dp_instances_options *options, void *memory);

/** Finds by canonical key; NULL if unknown. */
struct apus_dp_instance *apus_dp_instances_find(const struct apus_dp_instances *t,
						const uint8_t *key, size_t key_bytes);
/** The instance of a keyless table; NULL: nothing has come yet. */
static inline struct apus_dp_instance *apus_dp_instances_only(const struct apus_dp_instances *t)
{
	return t->count ? &t->items[0] : NULL;
}
/** Finds by key hash; NULL if unknown or hashes are not looked up. alias: it is of the second form. */
struct apus_dp_instance *apus_dp_instances_find_hash(const struct apus_dp_instances *t,
						     const uint8_t key_hash[16], bool alias);
/** Finds by handle; NULL if it never existed or is gone. */
struct apus_dp_instance *apus_dp_instances_get(const struct apus_dp_instances *t,
					       apus_instance handle);
/** True if insert() would succeed for a new key of this length. Changes nothing. */
bool apus_dp_instances_room(const struct apus_dp_instances *t, size_t key_bytes);
/**
 * Adds an instance for a key that find() does not know: ALIVE, NEW, counts 0, idle. If the table is full
 * the longest idle instance goes (its `dropped` call comes first). NULL if there is none, or the key is
 * too long; nothing changed then.
 */
struct apus_dp_instance *apus_dp_instances_insert(struct apus_dp_instances *t, const uint8_t *key,
						  size_t key_bytes);
/** Frees an idle instance (its `dropped` call comes first). */
void apus_dp_instances_drop(struct apus_dp_instances *t, struct apus_dp_instance *instance);
/** The next instance with entries behind the place that `handle` names (NONE: the first); NULL at the end. The
 *  order is that of places: total, and the same as long as an instance lives. The handle may be dead. */
struct apus_dp_instance *apus_dp_instances_next_occupied(const struct apus_dp_instances *t,
							 apus_instance handle);
/** Index of an instance, and back. */
uint32_t apus_dp_instances_idx(const struct apus_dp_instances *t,
			       const struct apus_dp_instance *instance);
static inline struct apus_dp_instance *apus_dp_instances_at(const struct apus_dp_instances *t,
							    uint32_t idx)
{
	return &t->items[idx];
}
/** Its canonical key; `instance->key_bytes` long, valid as long as the instance. */
const uint8_t *apus_dp_instances_key(const struct apus_dp_instances *t,
				     const struct apus_dp_instance *instance);

/** Registers writer `slot` for an instance, or ends that; true if this changed something. The caller
 *  calls apus_dp_instances_settle() when it is done with the instance. */
bool apus_dp_instances_register(struct apus_dp_instances *t, struct apus_dp_instance *instance,
				uint32_t slot);
bool apus_dp_instances_unregister(struct apus_dp_instances *t, struct apus_dp_instance *instance,
				  uint32_t slot);
bool apus_dp_instances_is_registered(const struct apus_dp_instances *t,
				     const struct apus_dp_instance *instance, uint32_t slot);
/** Puts an instance on or off the idle list according to its fields; after every change of samples,
 *  pins, writers or state. */
void apus_dp_instances_place(struct apus_dp_instances *t, struct apus_dp_instance *instance);
static inline void apus_dp_instances_settle(struct apus_dp_instances *t,
					    struct apus_dp_instance *instance)
{
	/* One with entries, as most are between two samples of a stream, stays where it is. */
	if (instance->first == APUS_DP_NONE || !instance->occupied || instance->idle)
		apus_dp_instances_place(t, instance);
}

/** The next instance in the table after `idx` (APUS_DP_NONE to begin), NULL at the end. */
struct apus_dp_instance *apus_dp_instances_next(const struct apus_dp_instances *t, uint32_t idx);

#endif
