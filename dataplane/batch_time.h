/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source time that samples of a batch share. Reading the clock for each, and an INFO_TS for each on both sides, are
 * a quarter of what a small sample of a fast stream costs. How many samples one reading serves follows from how fast the
 * last ones came, so those of a slow writer each have their own. Pure code: who uses it reads the clock.
 */
#ifndef APUS_DATAPLANE_BATCH_TIME_H
#define APUS_DATAPLANE_BATCH_TIME_H

#include "base/clock.h"

/** Samples that share a time, at most. */
#define APUS_DP_BATCH_RUN_MAX 127
/** A run that took less may be twice as long next time; one that took longer must be half as long, and one that took
 *  four times as long, none. */
#define APUS_DP_BATCH_RUN_NS (8 * APUS_NS_PER_US)

/** All zero at first; under the turn of the writer's worker. */
struct apus_dp_batch_time {
	struct apus_wall time; /* when the clock was read last */
	int64_t tick;          /* of the worker's wheel then */
	uint32_t left, run;    /* samples it serves yet, and serves all in all */
};

/** True if the next sample has the time of the last ones, `b->time`. The wheel's tick bounds its age where a clock has been
 *  read for another reason. Ask only while a batch is being gathered. */
static inline bool apus_dp_batch_time_serves(struct apus_dp_batch_time *b, int64_t tick)
{
	if (b->left == 0 || b->tick != tick)
		return false;
	b->left--;
	return true;
}

/** The clock has been read for a sample. */
static inline void apus_dp_batch_time_set(struct apus_dp_batch_time *b, struct apus_wall now,
					  int64_t tick)
{
	int64_t took_ns;

	if (__builtin_sub_overflow(now.ns, b->time.ns, &took_ns) || took_ns < 0 ||
	    took_ns > 4 * APUS_DP_BATCH_RUN_NS)
		b->run = 0;
	else if (took_ns > APUS_DP_BATCH_RUN_NS)
		b->run /= 2;
	else if (b->run < APUS_DP_BATCH_RUN_MAX)
		b->run += b->run + 1;
	b->left = b->run;
	b->time = now;
	b->tick = tick;
}

#endif
