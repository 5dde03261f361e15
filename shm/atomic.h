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

#define apus_shm_load(word, order)         atomic_load_explicit(word, memory_order_##order)
#define apus_shm_store(word, value, order) atomic_store_explicit(word, value, memory_order_##order)
#define apus_shm_exchange(word, value, order) \
	atomic_exchange_explicit(word, value, memory_order_##order)
#define apus_shm_fetch_or(word, value, order) \
	atomic_fetch_or_explicit(word, value, memory_order_##order)
/** One attempt, strong; `expected` is a value. Relaxed on failure. */
#define apus_shm_replace(word, expected, value, order)                                        \
	(__extension__({                                                                      \
		uint64_t expected_ = (expected);                                              \
		atomic_compare_exchange_strong_explicit(                                      \
			word, &expected_, value, memory_order_##order, memory_order_relaxed); \
	}))

#endif
#endif
