/* SPDX-License-Identifier: Apache-2.0 */
/* The heap of alarms; see alarm.h. */
#include "dataplane/alarm.h"

#include "base/fresh.h"

#include <apus/core.h>

static void fire(struct apus_dp_timer *timer, struct apus_mono now);

int apus_dp_alarms_init(struct apus_dp_alarms *alarms, uint32_t capacity,
			struct apus_dp_wheel *wheel)
{
	*alarms = (struct apus_dp_alarms){.capacity = capacity, .wheel = wheel};
	alarms->timer.fn = fire;
	alarms->heap = apus_fresh_alloc((size_t)capacity + 1, sizeof(*alarms->heap));
	return alarms->heap ? 0 : APUS_ENOMEM;
}

void apus_dp_alarms_fini(struct apus_dp_alarms *alarms)
{
	apus_fresh_free(alarms->heap, (size_t)alarms->capacity + 1, sizeof(*alarms->heap));
	alarms->heap = NULL;
}

static void place(struct apus_dp_alarms *a, uint32_t i, struct apus_dp_alarm *alarm)
{
	a->heap[i] = alarm;
	alarm->idx = i + 1;
}

static void sift_up(struct apus_dp_alarms *a, uint32_t i)
{
	struct apus_dp_alarm *x = a->heap[i];

	for (; i > 0 && x->due.ns < a->heap[(i - 1) / 2]->due.ns; i = (i - 1) / 2)
		place(a, i, a->heap[(i - 1) / 2]);
	place(a, i, x);
}

static void sift_down(struct apus_dp_alarms *a, uint32_t i)
{
	struct apus_dp_alarm *x = a->heap[i];

	for (;;) {
		uint32_t child = 2 * i + 1;

		if (child >= a->count)
			break;
		if (child + 1 < a->count && a->heap[child + 1]->due.ns < a->heap[child]->due.ns)
			child++;
		if (a->heap[child]->due.ns >= x->due.ns)
			break;
		place(a, i, a->heap[child]);
		i = child;
	}
	place(a, i, x);
}

/* The timer follows the earliest alarm; a timer that is too early is left to find out. */
static void follow(struct apus_dp_alarms *a)
{
	if (a->count == 0)
		apus_dp_wheel_cancel(a->wheel, &a->timer);
	else if (!apus_dp_timer_armed(&a->timer) || a->heap[0]->due.ns < a->timer.due.ns)
		apus_dp_wheel_arm(a->wheel, &a->timer, a->heap[0]->due);
}

void apus_dp_alarm_set(struct apus_dp_alarms *alarms, struct apus_dp_alarm *alarm,
		       struct apus_mono due)
{
	struct apus_mono before = alarm->due;

	if (due.ns == INT64_MAX) {
		apus_dp_alarm_cancel(alarms, alarm);
		return;
	}
	alarm->due = due;
	if (!alarm->idx) {
		if (alarms->count == alarms->capacity)
			return; /* cannot happen: one place an endpoint */
		place(alarms, alarms->count++, alarm);
		sift_up(alarms, alarm->idx - 1);
	} else if (due.ns < before.ns) {
		sift_up(alarms, alarm->idx - 1);
	} else {
		sift_down(alarms, alarm->idx - 1);
	}
	follow(alarms);
}

void apus_dp_alarm_cancel(struct apus_dp_alarms *alarms, struct apus_dp_alarm *alarm)
{
	uint32_t i = alarm->idx - 1;
	struct apus_dp_alarm *last;

	if (!alarm->idx)
		return;
	alarm->idx = 0;
	last = alarms->heap[--alarms->count];
	if (last != alarm) {
		place(alarms, i, last);
		sift_up(alarms, i);
		sift_down(alarms, last->idx - 1);
	}
	follow(alarms);
}

static void fire(struct apus_dp_timer *timer, struct apus_mono now)
{
	struct apus_dp_alarms *a =
		(struct apus_dp_alarms *)((char *)timer - offsetof(struct apus_dp_alarms, timer));

	/* Each look gives a later instant, so every endpoint is looked at once. */
	while (a->count && a->heap[0]->due.ns <= now.ns) {
		struct apus_dp_alarm *alarm = a->heap[0];
		struct apus_mono next = alarm->fn(alarm, now);

		if (next.ns <= now.ns)
			next.ns = now.ns + 1;
		apus_dp_alarm_set(a, alarm, next);
	}
	follow(a);
}
