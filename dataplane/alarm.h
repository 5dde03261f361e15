/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When statuses of time have to be looked at unasked: a heap of endpoints by the instant at which a deadline or
 * lease of theirs runs out next, behind one timer a worker. Only endpoints that somebody waits for are in it;
 * without any there is no timer.
 *
 * An instant in the heap may be too early (activity has moved the real one): the look that it causes finds
 * nothing and says when to look again. It is never too late: whoever starts something that runs out earlier says
 * so with apus_dp_alarm_hint().
 *
 * Under the turn. Nothing allocates after init.
 */
#ifndef APUS_DATAPLANE_ALARM_H
#define APUS_DATAPLANE_ALARM_H

#include "base/clock.h"
#include "dataplane/wheel.h"

/** An endpoint's place. Zero-initialise and set `fn` once. */
struct apus_dp_alarm {
	struct apus_mono due;
	uint32_t idx; /* in the heap + 1; 0 = not there */
	bool wanted;  /* somebody waits for a status of time */
	/** Looks; returns when to look next, INT64_MAX for not before a hint. */
	struct apus_mono (*fn)(struct apus_dp_alarm *alarm, struct apus_mono now);
};

/** The alarms of one worker. */
struct apus_dp_alarms {
	struct apus_dp_alarm **heap;
	uint32_t count, capacity;
	struct apus_dp_timer timer;
	struct apus_dp_wheel *wheel;
};

/** Room for `capacity` endpoints. Returns 0 or APUS_ENOMEM. */
int apus_dp_alarms_init(struct apus_dp_alarms *alarms, uint32_t capacity,
			struct apus_dp_wheel *wheel);
void apus_dp_alarms_fini(struct apus_dp_alarms *alarms);

/** Something runs out at `due` at the latest: look then, or earlier. O(1) unless it is the earliest so far. */
void apus_dp_alarm_set(struct apus_dp_alarms *alarms, struct apus_dp_alarm *alarm,
		       struct apus_mono due);
/** Takes it out. */
void apus_dp_alarm_cancel(struct apus_dp_alarms *alarms, struct apus_dp_alarm *alarm);

/** The same as set() if anybody waits and it is earlier than what is known; one or two comparisons else. */
static inline void apus_dp_alarm_hint(struct apus_dp_alarms *alarms, struct apus_dp_alarm *alarm,
				      struct apus_mono due)
{
	if (alarm->wanted && (!alarm->idx || due.ns < alarm->due.ns))
		apus_dp_alarm_set(alarms, alarm, due);
}

#endif
