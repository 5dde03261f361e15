/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The atomic operations the shared-memory protocol is made of, each by one name.
 *
 * Words that two processes share are touched through these and nothing else, so that the same source runs on
 * the processor and inside the explorer of tests/model, which replaces them to try every order the C11 memory
 * model permits. All are of 64 bits: no operation is ever split.
 */
#ifndef APUS_SHM_ATOMIC_H
#define APUS_SHM_ATOMIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/** A word that two processes share. */
typedef _Atomic uint64_t apus_shm_word;

#ifndef APUS_SHM_EXPLORED

/*
 * Points between two steps on shared memory, for tests that stop a process there: with APUS_SHM_POINTS each access has
 * one before and one behind it, told to a function of the test's. Otherwise nothing.
 */
#ifdef APUS_SHM_POINTS
void apus_shm_point(const char *file, int line, bool after);
#define APUS_SHM_POINT(after) apus_shm_point(__FILE__, __LINE__, after)
/* An access that gives a value, between its points. */
#define APUS_SHM_STEP(access)             \
	(__extension__({                  \
		APUS_SHM_POINT(false);    \
		uint64_t value_ = access; \
		APUS_SHM_POINT(true);     \
		value_;                   \
	}))
#else
#define APUS_SHM_POINT(after) ((void)0)
#define APUS_SHM_STEP(access) (access)
#endif

#define apus_shm_load(word, order) APUS_SHM_STEP(atomic_load_explicit(word, memory_order_##order))
#define apus_shm_store(word, value, order)                                \
	do {                                                              \
		APUS_SHM_POINT(false);                                    \
		atomic_store_explicit(word, value, memory_order_##order); \
		APUS_SHM_POINT(true);                                     \
	} while (0)
#define apus_shm_exchange(word, value, order) \
	APUS_SHM_STEP(atomic_exchange_explicit(word, value, memory_order_##order))
#define apus_shm_fetch_or(word, value, order) \
	APUS_SHM_STEP(atomic_fetch_or_explicit(word, value, memory_order_##order))
/** One attempt, strong; `expected` is a value. Relaxed on failure. */
#define apus_shm_replace(word, expected, value, order)                                         \
	(__extension__({                                                                       \
		uint64_t expected_ = (expected);                                               \
		APUS_SHM_STEP(atomic_compare_exchange_strong_explicit(                         \
			word, &expected_, value, memory_order_##order, memory_order_relaxed)); \
	}))

#endif
#endif
