/* SPDX-License-Identifier: Apache-2.0 */
/* The list of instances by the instant at which they may be shown a sample again; see late.h. */
#include "dataplane/late.h"

#define NONE APUS_DP_NONE

size_t apus_dp_late_bytes(uint32_t capacity)
{
	return (capacity * sizeof(struct apus_dp_late_item) + 15) & ~(size_t)15;
}

void apus_dp_late_init(struct apus_dp_late *late, uint32_t capacity, void *memory)
{
	*late = (struct apus_dp_late){.items = memory,
				      .capacity = memory ? capacity : 0,
				      .first = NONE,
				      .last = NONE,
				      .due_ns = INT64_MAX};
	for (uint32_t i = 0; i < late->capacity; i++)
		late->items[i] = (struct apus_dp_late_item){.prev = NONE, .next = NONE};
}

/* The head may wait for nothing: then the instant is early, which costs a look and no more. */
static void follow(struct apus_dp_late *l)
{
	l->due_ns = l->waiting_count ? l->items[l->first].due.ns : INT64_MAX;
}

static void unlink_item(struct apus_dp_late *l, struct apus_dp_late_item *x)
{
	if (!x->listed)
		return;
	*(x->prev == NONE ? &l->first : &l->items[x->prev].next) = x->next;
	*(x->next == NONE ? &l->last : &l->items[x->next].prev) = x->prev;
	x->listed = false;
}

void apus_dp_late_defer(struct apus_dp_late *late, uint32_t idx, struct apus_mono due)
{
	struct apus_dp_late_item *x = &late->items[idx];

	unlink_item(late, x);
	/* A clock that stepped back must not put the list out of order. */
	if (late->last != NONE && apus_mono_before(due, late->items[late->last].due))
		due = late->items[late->last].due;
	x->due = due;
	x->prev = late->last;
	x->next = NONE;
	*(x->prev == NONE ? &late->first : &late->items[x->prev].next) = idx;
	late->last = idx;
	x->listed = true;
	follow(late);
}

void apus_dp_late_put(struct apus_dp_late *late, uint32_t idx, const struct apus_dp_record *record,
		      uint8_t change)
{
	struct apus_dp_late_item *x = &late->items[idx];

	x->record = *record;
	x->change = change;
	x->waits = true;
	late->waiting_count++;
	follow(late);
}

void apus_dp_late_take(struct apus_dp_late *late, uint32_t idx)
{
	late->items[idx].waits = false;
	late->waiting_count--;
	follow(late);
}

uint32_t apus_dp_late_due(struct apus_dp_late *late, struct apus_mono now)
{
	uint32_t idx = late->first;

	for (; idx != NONE && late->items[idx].due.ns <= now.ns; idx = late->first) {
		if (late->items[idx].waits)
			return idx;
		unlink_item(late, &late->items[idx]);
	}
	follow(late);
	return NONE;
}

uint32_t apus_dp_late_next(const struct apus_dp_late *late, uint32_t idx)
{
	idx = idx == NONE ? late->first : late->items[idx].next;
	while (idx != NONE && !late->items[idx].waits)
		idx = late->items[idx].next;
	return idx;
}
