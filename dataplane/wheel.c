/* SPDX-License-Identifier: Apache-2.0 */
/* Timer wheel; see wheel.h. */
#include "dataplane/wheel.h"

#include <string.h>

/* A timer sits in the slot of the first tick that begins at or after its due instant, so that firing
 * at a tick's beginning is never early. */
static int64_t tick_of(struct apus_mono due)
{
	if (due.ns > INT64_MAX - APUS_DP_WHEEL_TICK_NS)
		return INT64_MAX / APUS_DP_WHEEL_TICK_NS;
	return (due.ns + APUS_DP_WHEEL_TICK_NS - 1) / APUS_DP_WHEEL_TICK_NS;
}

static void unlink_timer(struct apus_dp_timer *timer)
{
	*timer->link = timer->next;
	if (timer->next)
		timer->next->link = timer->link;
	timer->link = NULL;
	timer->next = NULL;
}

static void link_timer(struct apus_dp_timer **head, struct apus_dp_timer *timer)
{
	timer->next = *head;
	timer->link = head;
	if (*head)
		(*head)->link = &timer->next;
	*head = timer;
}

void apus_dp_wheel_init(struct apus_dp_wheel *wheel, struct apus_mono now)
{
	memset(wheel, 0, sizeof(*wheel));
	wheel->tick = now.ns / APUS_DP_WHEEL_TICK_NS;
}

void apus_dp_wheel_arm(struct apus_dp_wheel *wheel, struct apus_dp_timer *timer,
		       struct apus_mono due)
{
	int64_t tick = tick_of(due);

	if (apus_dp_timer_armed(timer))
		unlink_timer(timer);
	else
		wheel->armed_count++;
	if (tick < wheel->tick)
		tick = wheel->tick;
	timer->due = due;
	link_timer(&wheel->slots[tick % APUS_DP_WHEEL_SLOTS], timer);
}

void apus_dp_wheel_cancel(struct apus_dp_wheel *wheel, struct apus_dp_timer *timer)
{
	if (!apus_dp_timer_armed(timer))
		return;
	unlink_timer(timer);
	wheel->armed_count--;
}

/* Fires the due timers of one slot. The slot's list is moved aside first: a callback may arm timers
 * into this very slot (next round), and cancel any timer, also one still in the list moved aside. */
static int run_slot(struct apus_dp_wheel *wheel, struct apus_dp_timer **slot, struct apus_mono now)
{
	struct apus_dp_timer *list = *slot;
	int fired = 0;

	if (!list)
		return 0;
	*slot = NULL;
	list->link = &list;
	while (list) {
		struct apus_dp_timer *timer = list;

		unlink_timer(timer);
		if (apus_mono_before(now, timer->due)) {
			link_timer(slot, timer);
			continue;
		}
		wheel->armed_count--;
		timer->fn(timer, now);
		fired++;
	}
	return fired;
}

int apus_dp_wheel_run(struct apus_dp_wheel *wheel, struct apus_mono now)
{
	int64_t last = now.ns / APUS_DP_WHEEL_TICK_NS;
	int fired = 0;

	/* After a long sleep one round covers every slot. */
	if (last - wheel->tick >= APUS_DP_WHEEL_SLOTS)
		wheel->tick = last - APUS_DP_WHEEL_SLOTS + 1;
	while (wheel->tick <= last) {
		struct apus_dp_timer **slot = &wheel->slots[wheel->tick % APUS_DP_WHEEL_SLOTS];

		wheel->tick++; /* first, so that a callback that arms "now" lands in a later slot */
		if (wheel->armed_count)
			fired += run_slot(wheel, slot, now);
	}
	return fired;
}

struct apus_mono apus_dp_wheel_next(const struct apus_dp_wheel *wheel)
{
	if (wheel->armed_count == 0)
		return (struct apus_mono){INT64_MAX};
	for (int64_t i = 0; i < APUS_DP_WHEEL_SLOTS; i++) {
		const struct apus_dp_timer *t =
			wheel->slots[(wheel->tick + i) % APUS_DP_WHEEL_SLOTS];
		int64_t round_end = (wheel->tick + i + 1) * APUS_DP_WHEEL_TICK_NS;

		for (; t; t = t->next)
			if (t->due.ns < round_end)
				return (struct apus_mono){(wheel->tick + i) *
							  APUS_DP_WHEEL_TICK_NS};
	}
	return (struct apus_mono){(wheel->tick + APUS_DP_WHEEL_SLOTS) * APUS_DP_WHEEL_TICK_NS};
}
