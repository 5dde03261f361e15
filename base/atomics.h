/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Alignment and atomics helpers. Names say the order, so that the comment beside each use only has to
 * say the partner. Counters are relaxed: one writer, any number of readers, nothing is ordered by them.
 */
#ifndef APUS_BASE_ATOMICS_H
#define APUS_BASE_ATOMICS_H

#include <stdatomic.h>
#include <stdint.h>

/** Distance that keeps two writers from sharing a line; twice the line because of the adjacent-line
 *  prefetcher of x86. */
#define APUS_CACHE_LINE    128
#define APUS_CACHE_ALIGNED __attribute__((aligned(APUS_CACHE_LINE)))

#define APUS_LIKELY(x)   __builtin_expect(!!(x), 1)
#define APUS_UNLIKELY(x) __builtin_expect(!!(x), 0)

#define APUS_ARRAY_LENGTH(a) (sizeof(a) / sizeof((a)[0]))

/** A counter with a single writer, read by anybody at any time. */
struct apus_counter {
	_Atomic uint64_t value;
};

static inline void apus_counter_add(struct apus_counter *c, uint64_t n)
{
	/* Relaxed load and store: only the owner writes, so no read-modify-write is needed; readers
	 * want a recent value and nothing published with it. */
	uint64_t v = atomic_load_explicit(&c->value, memory_order_relaxed);

	/* Relaxed for the same reason. */
	atomic_store_explicit(&c->value, v + n, memory_order_relaxed);
}

static inline uint64_t apus_counter_get(const struct apus_counter *c)
{
	/* Relaxed: a snapshot for a person or a test, ordering nothing. */
	return atomic_load_explicit(&c->value, memory_order_relaxed);
}

static inline void apus_cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif
