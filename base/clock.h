/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clock types. Monotonic and wall time are different structs, so that one can never be passed for the
 * other: every status, lease and timer is derived from monotonic time, wall time only ever goes onto
 * the wire and into sample information. Functions take time as an argument; only the edges (a worker's
 * loop, a public call) read a clock, once.
 */
#ifndef APUS_BASE_CLOCK_H
#define APUS_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define APUS_NS_PER_SEC INT64_C(1000000000)
#define APUS_NS_PER_MS  INT64_C(1000000)
#define APUS_NS_PER_US  INT64_C(1000)

/** An instant of CLOCK_MONOTONIC in ns. 0 never occurs and means "not set". */
struct apus_mono {
	int64_t ns;
};

/** An instant of CLOCK_REALTIME in ns since 1970. INT64_MIN means "no time stamp". */
struct apus_wall {
	int64_t ns;
};

#define APUS_WALL_NONE ((struct apus_wall){INT64_MIN})

static inline struct apus_mono apus_mono_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (struct apus_mono){ts.tv_sec * APUS_NS_PER_SEC + ts.tv_nsec};
}

static inline struct apus_wall apus_wall_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (struct apus_wall){ts.tv_sec * APUS_NS_PER_SEC + ts.tv_nsec};
}

/** `t + duration_ns`, saturating: an infinite duration gives an instant that never comes. */
static inline struct apus_mono apus_mono_add(struct apus_mono t, int64_t duration_ns)
{
	int64_t sum;

	if (__builtin_add_overflow(t.ns, duration_ns, &sum))
		sum = INT64_MAX;
	return (struct apus_mono){sum};
}

static inline bool apus_mono_before(struct apus_mono a, struct apus_mono b)
{
	return a.ns < b.ns;
}

#endif
