/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of day and monotonic time for who asks at every sample: a count of the processor's, and what it was when
 * the system's clocks were read last, which is done anew every millisecond. A third of what a system's clock costs.
 *
 * What is in between is extrapolated by the speed between the last two readings, if the one before was the same within a
 * thousandth: off by less than a microsecond, and monotonic time never before what this clock has told already. Where the
 * processor's count cannot be relied on, or its speed is not known yet, the system's clocks are read each time.
 *
 * Invariants: scale is nanoseconds a tick in units of 2^-32; span_ticks is 0 unless it is confirmed. One thread at a
 * time.
 */
#ifndef APUS_BASE_QUICK_CLOCK_H
#define APUS_BASE_QUICK_CLOCK_H

#include "base/clock.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#define APUS_QUICK_TICKS() __rdtsc()
#else
#define APUS_QUICK_TICKS() UINT64_C(0)
#endif

/** All zero is a clock that has not been read yet. */
struct apus_quick_clock {
	uint64_t ticks; /* the count when the clocks were read, */
	struct apus_mono mono;
	struct apus_wall wall; /* and what they said */
	uint64_t span_ticks;   /* valid for so many */
	uint64_t scale;
	uint64_t base_ticks;        /* from where the speed is measured; */
	struct apus_mono base_mono; /* 0: nowhere yet */
	struct apus_mono told;      /* the latest */
	bool is_confirmed;          /* the last two speeds agreed */
	bool is_asked, is_reliable; /* whether the count may be used at all */
};

/** Does the processor count at one speed, whatever it does? (x86: invariant TSC) */
bool apus_quick_clock_is_reliable(void);
/** Reads the system's clocks. */
void apus_quick_clock_sync(struct apus_quick_clock *clock);
/** What sync() has read: the count and the clocks, and whether that was at one instant. */
void apus_quick_clock_take(struct apus_quick_clock *clock, uint64_t ticks, struct apus_mono mono,
			   struct apus_wall wall, bool is_sharp);

/** Nanoseconds since the clocks were read; reads them if that is too long ago. */
static inline int64_t apus_quick_clock_since(struct apus_quick_clock *clock)
{
	uint64_t ticks = APUS_QUICK_TICKS() - clock->ticks;

	if (__builtin_expect(ticks < clock->span_ticks, 1))
		return (int64_t)((ticks * clock->scale) >> 32);
	apus_quick_clock_sync(clock);
	return 0;
}

/** As apus_mono_now(). */
static inline struct apus_mono apus_quick_mono(struct apus_quick_clock *clock)
{
	int64_t since = apus_quick_clock_since(clock);

	if (clock->mono.ns + since > clock->told.ns)
		clock->told.ns = clock->mono.ns + since;
	return clock->told;
}

/** As apus_wall_now(): it may be set back, which is seen within a millisecond. */
static inline struct apus_wall apus_quick_wall(struct apus_quick_clock *clock)
{
	int64_t since = apus_quick_clock_since(clock);

	return (struct apus_wall){clock->wall.ns + since};
}

#endif
