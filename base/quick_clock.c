/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the system's clocks beside the processor's count; see quick_clock.h. */
#include "base/quick_clock.h"

/* A reading that took longer was interrupted, and says little of when it was made. */
#define READING_TICKS_MAX 2048
/* Between readings whose distance gives the speed. */
#define BASE_NS_MIN (APUS_NS_PER_MS / 2)
#define BASE_NS_MAX APUS_NS_PER_SEC
#define SPAN_NS     APUS_NS_PER_MS
/* A count slower than 10 MHz is none. */
#define SCALE_MAX (UINT64_C(100) << 32)

bool apus_quick_clock_is_reliable(void)
{
#if defined(__x86_64__)
	unsigned a, b, c, d;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8);
#else
	return false;
#endif
}

/* The speed since the base is that found before: it is believed. Otherwise it waits for the next one that says so. */
static bool confirm_speed(struct apus_quick_clock *c, uint64_t ticks, int64_t ns)
{
	uint64_t scale, before = c->scale;

	if (ticks == 0)
		return false;
	scale = ((uint64_t)ns << 32) / ticks; /* ns is at most 10^9: no overflow */
	if (scale == 0 || scale > SCALE_MAX)
		return false;
	c->scale = scale;
	return (scale > before ? scale - before : before - scale) <= before >> 10;
}

void apus_quick_clock_take(struct apus_quick_clock *clock, uint64_t ticks, struct apus_mono mono,
			   struct apus_wall wall, bool is_sharp)
{
	int64_t ns = mono.ns - clock->base_mono.ns;

	clock->ticks = ticks;
	clock->mono = mono;
	clock->wall = wall;
	clock->span_ticks = 0;
	if (!is_sharp) {
		clock->base_mono.ns = 0;
		return;
	}
	if (clock->base_mono.ns == 0 || ns < 0)
		ns = BASE_NS_MAX + 1; /* the first one */
	if (ns < BASE_NS_MIN)
		return;
	if (ns > BASE_NS_MAX ? clock->is_confirmed
			     : confirm_speed(clock, ticks - clock->base_ticks, ns)) {
		clock->is_confirmed = true;
		clock->span_ticks = ((uint64_t)SPAN_NS << 32) / clock->scale;
	} else {
		clock->is_confirmed = false;
	}
	clock->base_ticks = ticks;
	clock->base_mono = mono;
}

void apus_quick_clock_sync(struct apus_quick_clock *clock)
{
	uint64_t before, after;
	struct apus_mono mono;
	struct apus_wall wall;

	if (!clock->is_asked) {
		clock->is_asked = true;
		clock->is_reliable = apus_quick_clock_is_reliable();
	}
	before = APUS_QUICK_TICKS();
	mono = apus_mono_now();
	wall = apus_wall_now();
	after = APUS_QUICK_TICKS();
	apus_quick_clock_take(clock, before, mono, wall,
			      clock->is_reliable && after - before <= READING_TICKS_MAX);
}
