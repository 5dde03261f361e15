/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RTPS Time_t and Duration_t: 32 bits of seconds, 32 bits of 2^-32 s (RTPS 2.5 §9.3.2.1), against ns.
 *
 * ns → wire rounds the fraction up, wire → ns rounds to the nearest: every ns value survives the round
 * trip, both with a receiver that truncates and from a sender that truncates.
 */
#ifndef APUS_WIRE_TIME_H
#define APUS_WIRE_TIME_H

#include <apus/core.h>
#include "base/clock.h"

/** Time_t or Duration_t in host order. Time_t seconds are unsigned (1970 … 2106), Duration_t signed. */
struct apus_wire_time {
	uint32_t seconds;
	uint32_t fraction; /**< units of 2^-32 s */
};

/** TIME_INVALID: no time stamp. */
#define APUS_WIRE_TIME_INVALID ((struct apus_wire_time){UINT32_MAX, UINT32_MAX})
/** DURATION_INFINITE. */
#define APUS_WIRE_DURATION_INFINITE ((struct apus_wire_time){INT32_MAX, UINT32_MAX})

/** Fraction → ns, 0 … 10^9 inclusive (the largest fractions round up to a whole second). */
static inline int64_t apus_wire_fraction_to_ns(uint32_t fraction)
{
	return (int64_t)(((uint64_t)fraction * UINT64_C(1000000000) + UINT64_C(0x80000000)) >> 32);
}

/** ns (0 … 999,999,999) → fraction. */
static inline uint32_t apus_wire_fraction_from_ns(uint32_t ns)
{
	return (uint32_t)((((uint64_t)ns << 32) + UINT64_C(999999999)) / UINT64_C(1000000000));
}

/** Time_t → wall time. TIME_INVALID gives APUS_WALL_NONE; TIME_INFINITE is an instant in 2106. */
static inline struct apus_wall apus_wire_time_to_wall(struct apus_wire_time t)
{
	if (t.seconds == UINT32_MAX && t.fraction == UINT32_MAX)
		return APUS_WALL_NONE;
	return (struct apus_wall){(int64_t)t.seconds * APUS_NS_PER_SEC +
				  apus_wire_fraction_to_ns(t.fraction)};
}

/** Wall time → Time_t. What Time_t cannot say (none, before 1970, after 2106) gives TIME_INVALID. */
static inline struct apus_wire_time apus_wire_time_from_wall(struct apus_wall wall)
{
	if (wall.ns < 0 || wall.ns / APUS_NS_PER_SEC >= (int64_t)UINT32_MAX)
		return APUS_WIRE_TIME_INVALID;
	return (struct apus_wire_time){
		(uint32_t)(wall.ns / APUS_NS_PER_SEC),
		apus_wire_fraction_from_ns((uint32_t)(wall.ns % APUS_NS_PER_SEC))};
}

/** Duration_t → ns, negative ones included. Interop: the seconds alone decide about infinity, because
 *  both 0xffffffff and the 0x7fffffff of DDS 1.4 are seen as its fraction. */
static inline int64_t apus_wire_duration_to_ns(struct apus_wire_time d)
{
	if (d.seconds == INT32_MAX)
		return APUS_INFINITE_NS;
	return (int64_t)(int32_t)d.seconds * APUS_NS_PER_SEC + apus_wire_fraction_to_ns(d.fraction);
}

/** ns → Duration_t. Negative durations become 0, those of 2^31 - 1 s and more infinite. */
static inline struct apus_wire_time apus_wire_duration_from_ns(int64_t duration_ns)
{
	if (duration_ns < 0)
		return (struct apus_wire_time){0, 0};
	if (duration_ns / APUS_NS_PER_SEC >= INT32_MAX)
		return APUS_WIRE_DURATION_INFINITE;
	return (struct apus_wire_time){
		(uint32_t)(duration_ns / APUS_NS_PER_SEC),
		apus_wire_fraction_from_ns((uint32_t)(duration_ns % APUS_NS_PER_SEC))};
}

#endif
