/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How slots come back from another process: a bitmap that the reader sets and the writer collects.
 *
 * Who holds a slot is the writer's private knowledge: for each reader one bit a slot in ordinary memory that
 * nobody else maps. Pushing a descriptor sets the bit; the reader gives the slot back by one fetch-or in the
 * shared bitmap, from any of its threads; the writer collects 64 slots by one exchange and believes only what
 * its own bits say the reader had. So a reader can give back twice, or give back what it never had, and only
 * harms itself; one that was killed at any instruction leaves nothing that dropping its bits does not put right.
 *
 * Thread rule: giving back, any thread of the reader; all else under the writer's turn. Nothing allocates after
 * init.
 */
#ifndef APUS_SHM_RETURNS_H
#define APUS_SHM_RETURNS_H

#include "shm/atomic.h"

/** Words of a bitmap for slot_count slots. */
#define APUS_SHM_RETURN_WORDS(slot_count) (((slot_count) + 63u) / 64u)

/** What one reader holds of one pool; private to the writer. */
struct apus_shm_held {
	uint64_t *bits;
	apus_shm_word
		*returned; /* the shared bitmap; NULL: nothing comes back (the reader is gone) */
	uint32_t words;
	uint32_t count; /* slots held */
	uint32_t next;  /* word to look at first when collecting */
};

/** Called with a slot that came back. */
typedef void (*apus_shm_held_fn)(void *user, uint32_t slot_idx);

/** Returns 0 or APUS_ENOMEM. `returned`: zeroed, APUS_SHM_RETURN_WORDS(slot_count) words. */
int apus_shm_held_init(struct apus_shm_held *held, uint32_t slot_count, apus_shm_word *returned);
/** Frees the private half; slots still held must have been dropped. A zeroed one is allowed. */
void apus_shm_held_fini(struct apus_shm_held *held);

/** Marks a slot as the reader's. Not one that is marked already. */
void apus_shm_held_add(struct apus_shm_held *held, uint32_t slot_idx);
/** Takes a mark back, for a descriptor that was displaced. False if there is none. */
bool apus_shm_held_remove(struct apus_shm_held *held, uint32_t slot_idx);
bool apus_shm_held_has(const struct apus_shm_held *held, uint32_t slot_idx);

/**
 * Collects what came back, at most `words_max` words of the bitmap, going on where the last call stopped; calls
 * `back` for each slot, once. Returns how many. What the reader never had is ignored; *false_out (may be NULL)
 * counts it.
 */
uint32_t apus_shm_held_collect(struct apus_shm_held *held, uint32_t words_max,
			       apus_shm_held_fn back, void *user, uint64_t *false_out);
/** All of it comes back: the reader is dead or has detached for good. Returns how many. */
uint32_t apus_shm_held_drop(struct apus_shm_held *held, apus_shm_held_fn back, void *user);

/** The reader's half: gives a slot back. Any thread; wait-free. Giving back twice does nothing more. */
static inline void apus_shm_return(apus_shm_word *returned, uint32_t slot_idx)
{
	/* Release: R, pairs with the acquire in collect(): the reader has read the payload before. */
	(void)apus_shm_fetch_or(&returned[slot_idx / 64], UINT64_C(1) << (slot_idx % 64), release);
}

#endif
