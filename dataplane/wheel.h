/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timer wheel of one worker: 256 slots of about one millisecond (2^20 ns). Timers are nodes inside their
 * owners, so that arming and cancelling allocate nothing and cost O(1). A timer further away than one
 * round stays in its slot and is looked at once a round; leases and heartbeats are few enough for that.
 *
 * Owned by the holder of the worker's turn. Time is an argument.
 */
#ifndef APUS_DATAPLANE_WHEEL_H
#define APUS_DATAPLANE_WHEEL_H

#include "base/clock.h"

#include <stddef.h>

#define APUS_DP_WHEEL_SLOTS 256
/** Resolution: a timer fires up to this many ns late, never early. */
#define APUS_DP_WHEEL_TICK_NS (INT64_C(1) << 20)

struct apus_dp_timer;

/** Called when a timer is due; it is disarmed already and may be armed again. */
typedef void apus_dp_timer_fn(struct apus_dp_timer *timer, struct apus_mono now);

/** A timer. Zero-initialise it and set `fn` once. */
struct apus_dp_timer {
	struct apus_dp_timer *next, **link; /* link == NULL: not armed */
	struct apus_mono due;
	apus_dp_timer_fn *fn;
};

struct apus_dp_wheel {
	int64_t tick; /* first tick not yet processed */
	uint32_t armed_count;
	struct apus_dp_timer *slots[APUS_DP_WHEEL_SLOTS];
};

/** Starts an empty wheel at `now`. */
void apus_dp_wheel_init(struct apus_dp_wheel *wheel, struct apus_mono now);
/** Arms, or moves, a timer. An instant in the past fires at the next run. */
void apus_dp_wheel_arm(struct apus_dp_wheel *wheel, struct apus_dp_timer *timer,
		       struct apus_mono due);
/** Disarms; an unarmed timer is allowed. */
void apus_dp_wheel_cancel(struct apus_dp_wheel *wheel, struct apus_dp_timer *timer);
/** Fires what is due at `now`; returns how many fired. */
int apus_dp_wheel_run(struct apus_dp_wheel *wheel, struct apus_mono now);
/** The earliest instant at which run() might have work: exact within one round, else one round ahead.
 *  INT64_MAX ns if nothing is armed. */
struct apus_mono apus_dp_wheel_next(const struct apus_dp_wheel *wheel);

static inline bool apus_dp_timer_armed(const struct apus_dp_timer *timer)
{
	return timer->link != NULL;
}

#endif
