/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a writer tells a process that one of its rings has something: a bit a ring, and a flag that says that its
 * worker sleeps. Both lie in the page the two processes share; the bell itself is an eventfd of the sleeper.
 *
 * No wake-up is lost, because each side writes, by an exchange, before it reads:
 *
 *     writer  exchange tail; test the ready bit, set it; test the sleep flag, ring
 *     reader  exchange ready words with 0; read the tails of those rings
 *     sleeper exchange the sleep flag with 1; test the ready words and tails once more; sleep
 *
 * A spinning reader costs a writer two loads. A peer that writes nonsense here wakes its own peer in vain, or
 * does not wake it; neither can stop anybody else.
 */
#ifndef APUS_SHM_BELL_H
#define APUS_SHM_BELL_H

#include "shm/atomic.h"

/** Rings of one peer process that one ready set can tell apart; a multiple of 64. */
#define APUS_SHM_BELL_RINGS 1024

/** What a writer's process and a reader's share, one each way. */
struct apus_shm_bell {
	apus_shm_word asleep; /* the reader's worker sleeps */
	uint8_t pad[120];
	apus_shm_word ready[APUS_SHM_BELL_RINGS / 64];
};

/**
 * The writer's half, after a push: says that ring `ring_idx` (< APUS_SHM_BELL_RINGS) has something. True: the
 * reader sleeps and this caller is to ring its eventfd (nobody else will).
 */
static inline bool apus_shm_bell_signal(struct apus_shm_bell *bell, uint32_t ring_idx)
{
	apus_shm_word *ready = &bell->ready[ring_idx / 64];
	uint64_t bit = UINT64_C(1) << (ring_idx % 64);

	/* Seq_cst: B1, behind the exchange of the tail. Seen set: the reader has yet to clear it, and reads the tail
	 * after that. */
	if (!(apus_shm_load(ready, seq_cst) & bit))
		(void)apus_shm_fetch_or(ready, bit, seq_cst);
	/* Seq_cst: B2, behind the bit; pairs with the exchange in apus_shm_bell_doze(). */
	if (apus_shm_load(&bell->asleep, seq_cst) == 0)
		return false;
	/* Who takes the flag rings. */
	return apus_shm_exchange(&bell->asleep, 0, seq_cst) != 0;
}

/** The reader's half: the rings of 64 that were signalled; their tails are to be read after this call. */
static inline uint64_t apus_shm_bell_take(struct apus_shm_bell *bell, uint32_t word)
{
	/* Relaxed: an exchange only where there is something; what is set meanwhile is seen next time. */
	if (apus_shm_load(&bell->ready[word], relaxed) == 0)
		return 0;
	/* Seq_cst: B1; the tails are read behind it. */
	return apus_shm_exchange(&bell->ready[word], 0, seq_cst);
}

/**
 * The sleeper's half: announces that it will sleep. False: something has come already; do not sleep. True: sleep
 * on the eventfd, then call apus_shm_bell_wake(). words: how many ready words are in use.
 */
static inline bool apus_shm_bell_doze(struct apus_shm_bell *bell, uint32_t words)
{
	uint64_t any = 0;

	/* Seq_cst exchange: B2; the ready words are tested behind it. */
	(void)apus_shm_exchange(&bell->asleep, 1, seq_cst);
	for (uint32_t i = 0; i < words; i++)
		any |= apus_shm_load(&bell->ready[i], seq_cst);
	if (any == 0)
		return true;
	apus_shm_store(&bell->asleep, 0, relaxed);
	return false;
}

/** Awake again. */
static inline void apus_shm_bell_wake(struct apus_shm_bell *bell)
{
	/* Relaxed: a needless ring costs one more look. */
	apus_shm_store(&bell->asleep, 0, relaxed);
}

#endif
