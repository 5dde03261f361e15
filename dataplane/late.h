/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Late delivery: the sample of each instance that the minimum separation suppressed last, kept until the
 * separation has passed (DDS 1.4 §2.2.3.12: in the steady state a reliable reader has the last value).
 *
 * Two things an instance, in arrays by instance index: the sample that waits, and the instant at which the
 * instance may be shown one again. The separation is the same for all, so those instants rise in the order in
 * which they are set: a list replaces a timer an instance, and everything here is O(1).
 *
 * Invariants: an instance with a waiting sample is in the list; due_ns is not later than the first instant at
 * which a waiting sample is due, INT64_MAX if none waits.
 */
#ifndef APUS_DATAPLANE_LATE_H
#define APUS_DATAPLANE_LATE_H

#include "dataplane/history.h"

struct apus_dp_late_item {
	struct apus_dp_record record; /* of the waiting sample; valid if `waits` */
	struct apus_mono due;         /* valid if `listed` */
	uint32_t prev, next;
	uint8_t change; /* bits of enum apus_dp_change */
	bool listed, waits;
};

struct apus_dp_late {
	struct apus_dp_late_item *items; /* [capacity]; NULL: late delivery is off */
	uint32_t capacity;
	uint32_t first, last; /* by due */
	uint32_t waiting_count;
	int64_t due_ns;
};

/** Bytes of memory for this many instances. */
size_t apus_dp_late_bytes(uint32_t capacity);
/** memory: 16-byte aligned, of the size above; NULL: off. */
void apus_dp_late_init(struct apus_dp_late *late, uint32_t capacity, void *memory);
/** A sample of the instance was shown, or is to be tried again: not before `due`, which is not earlier than
 *  any instant set before. */
void apus_dp_late_defer(struct apus_dp_late *late, uint32_t idx, struct apus_mono due);
/** A sample waits from now on. The instance has been deferred and none waits yet. */
void apus_dp_late_put(struct apus_dp_late *late, uint32_t idx, const struct apus_dp_record *record,
		      uint8_t change);
/** The sample that waits, or NULL. */
static inline const struct apus_dp_late_item *apus_dp_late_of(const struct apus_dp_late *late,
							      uint32_t idx)
{
	return late->items && late->items[idx].waits ? &late->items[idx] : NULL;
}
/** It waits no longer; the caller has its record. */
void apus_dp_late_take(struct apus_dp_late *late, uint32_t idx);
/** The next instance whose waiting sample is due by `now`, or APUS_DP_NONE. Deals with those that are due and
 *  wait for nothing. */
uint32_t apus_dp_late_due(struct apus_dp_late *late, struct apus_mono now);
/** The instance with a waiting sample that comes after `idx` (NONE: the first) in the list, or NONE. */
uint32_t apus_dp_late_next(const struct apus_dp_late *late, uint32_t idx);

#endif
