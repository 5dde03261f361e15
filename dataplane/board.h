/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What control knows of one endpoint's standing in the domain, shown to other threads: matches, incompatible
 * QoS, inconsistent topics.
 *
 * Control writes it under its lock; anybody reads it without one (a sequence lock over words that are all
 * atomic). A reader repeats while a write is under way, which is a copy of a few hundred bytes.
 */
#ifndef APUS_DATAPLANE_BOARD_H
#define APUS_DATAPLANE_BOARD_H

#include <apus/qos.h>

#include "base/atomics.h"
#include "base/guid.h"

#include <string.h>

/** Cumulative, except `current`. Kept small: every endpoint has one. */
struct apus_dp_graph_status {
	uint64_t total;       /* arrivals */
	uint64_t transitions; /* arrivals and departures */
	uint64_t incompatible;
	uint64_t inconsistent;
	struct apus_guid last_match;
	struct apus_guid last_incompatible;
	uint32_t current;
	int32_t last_policy;                                 /* enum apus_policy */
	uint32_t by_policy[(APUS_POLICY_COUNT + 1) / 2 * 2]; /* to a whole number of words */
};

#define APUS_DP_BOARD_WORDS (sizeof(struct apus_dp_graph_status) / sizeof(uint64_t))
_Static_assert(sizeof(struct apus_dp_graph_status) % sizeof(uint64_t) == 0, "copied by words");

/** Zero-initialise. */
struct apus_dp_board {
	_Atomic uint64_t version; /* odd while a write is under way */
	_Atomic uint64_t words[APUS_DP_BOARD_WORDS];
};

/** Shows `status`. One writer at a time. */
static inline void apus_dp_board_write(struct apus_dp_board *b,
				       const struct apus_dp_graph_status *status)
{
	uint64_t words[APUS_DP_BOARD_WORDS];
	/* Relaxed: only we write it. */
	uint64_t version = atomic_load_explicit(&b->version, memory_order_relaxed);

	memcpy(words, status, sizeof(words));
	/* B1, relaxed: the release stores below cannot be seen without it. */
	atomic_store_explicit(&b->version, version + 1, memory_order_relaxed);
	for (size_t i = 0; i < APUS_DP_BOARD_WORDS; i++)
		/* B2 release, pairs with B5: who reads a new word finds the odd version (or a later one)
		 * afterwards. */
		atomic_store_explicit(&b->words[i], words[i], memory_order_release);
	/* B3 seq_cst, pairs with B4: the words are there before the even version. In the one order with the
	 * wait targets (watch.h): who looks after it said it would sleep sees this, or is woken. */
	atomic_store(&b->version, version + 2);
}

/** Copies what was shown last. */
static inline void apus_dp_board_read(const struct apus_dp_board *b,
				      struct apus_dp_graph_status *status_out)
{
	uint64_t words[APUS_DP_BOARD_WORDS], before, after;

	do {
		/* B4: seq_cst, pairs with B3. */
		before = atomic_load(&b->version);
		for (size_t i = 0; i < APUS_DP_BOARD_WORDS; i++)
			/* B5: acquire, pairs with B2. */
			words[i] = atomic_load_explicit(&b->words[i], memory_order_acquire);
		/* Relaxed: ordered behind the words by their acquire. */
		after = atomic_load_explicit(&b->version, memory_order_relaxed);
	} while (before != after || (before & 1));
	memcpy(status_out, words, sizeof(words));
}

/** What was shown last, for the one who writes it. */
static inline void apus_dp_board_mine(const struct apus_dp_board *b,
				      struct apus_dp_graph_status *status_out)
{
	uint64_t words[APUS_DP_BOARD_WORDS];

	for (size_t i = 0; i < APUS_DP_BOARD_WORDS; i++)
		/* Relaxed: only we write it. */
		words[i] = atomic_load_explicit(&b->words[i], memory_order_relaxed);
	memcpy(status_out, words, sizeof(words));
}

#endif
