/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a writer wakes a reader that sleeps: a flag in the page the two processes share, and an eventfd of the
 * sleeper that is rung only if the flag is up.
 *
 * No wake-up is lost, because each side writes, by an exchange, before it reads:
 *
 *     writer   exchange the tail; test the flag; ring
 *     sleeper  exchange the flag with 1; read the tails once more; sleep
 *
 * A reader that polls costs its writers one load of a line that nobody writes. A peer that writes nonsense here
 * wakes its own peer in vain, or does not wake it; it can stop nobody else.
 */
#ifndef APUS_SHM_BELL_H
#define APUS_SHM_BELL_H

#include "shm/ring.h"

/** One ring's bell; in the page both may write. */
struct apus_shm_bell {
	apus_shm_word asleep; /* the reader's worker sleeps, or is about to */
	uint8_t pad[120];
};

/** The writer's half, after a push. True: the reader sleeps and this caller is to ring its eventfd. */
static inline bool apus_shm_bell_signal(struct apus_shm_bell *bell)
{
	/* Seq_cst: B, behind the exchange of the tail; pairs with the exchange in apus_shm_bell_doze(): one of the two
	 * sides sees what the other wrote. */
	if (apus_shm_load(&bell->asleep, seq_cst) == 0)
		return false;
	/* Who takes the flag rings; relaxed would do, but it is not worth a thought on this path. */
	return apus_shm_exchange(&bell->asleep, 0, seq_cst) != 0;
}

/**
 * The sleeper's half: announces that it will sleep. False: the ring has something already; do not sleep. True:
 * sleep on the eventfd, then call apus_shm_bell_wake().
 */
static inline bool apus_shm_bell_doze(struct apus_shm_bell *bell,
				      const struct apus_shm_ring_reader *ring)
{
	/* Seq_cst exchange: B; the tail is read behind it. */
	(void)apus_shm_exchange(&bell->asleep, 1, seq_cst);
	return !apus_shm_ring_has_more(ring);
}

/** Awake again. */
static inline void apus_shm_bell_wake(struct apus_shm_bell *bell)
{
	/* Relaxed: a needless ring costs one more look. */
	apus_shm_store(&bell->asleep, 0, relaxed);
}

#endif
