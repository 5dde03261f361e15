/* SPDX-License-Identifier: Apache-2.0 */
/* Watches and targets; see watch.h for who may call what, and for the order that loses no wake-up. */
#include "dataplane/watch.h"

#include <string.h>
#include <unistd.h>

void apus_dp_target_init(struct apus_dp_target *target, int fd)
{
	memset(target, 0, sizeof(*target));
	target->fd = fd;
}

static void append(struct apus_dp_target *t, struct apus_dp_watch *w)
{
	if (w->ready)
		return;
	w->ready = true;
	w->ready_next = NULL;
	if (t->ready_last)
		t->ready_last->ready_next = w;
	else
		t->ready_first = w;
	t->ready_last = w;
}

bool apus_dp_target_collect(struct apus_dp_target *target)
{
	/* L3: seq_cst, pairs with F1. */
	struct apus_dp_watch *w = atomic_exchange(&target->pending, NULL), *oldest = NULL;
	bool any = w != NULL;

	while (w) { /* newest first: turn it round */
		struct apus_dp_watch *next = w->pending_next;

		w->pending_next = oldest;
		oldest = w;
		w = next;
	}
	while (oldest) {
		struct apus_dp_watch *next = oldest->pending_next;

		/* seq_cst, pairs with the exchange in fire(): what was done before a firing that found it set
		 * is visible to the look that follows, and a later firing queues anew. */
		atomic_exchange(&oldest->queued, false);
		append(target, oldest);
		oldest = next;
	}
	return any;
}

struct apus_dp_watch *apus_dp_target_next(struct apus_dp_target *target)
{
	struct apus_dp_watch *w = target->ready_first;

	if (!w)
		return NULL;
	target->ready_first = w->ready_next;
	if (!target->ready_first)
		target->ready_last = NULL;
	w->ready = false;
	return w;
}

void apus_dp_target_keep(struct apus_dp_target *target, struct apus_dp_watch *watch)
{
	append(target, watch);
}

void apus_dp_target_forget(struct apus_dp_target *target, struct apus_dp_watch *watch)
{
	struct apus_dp_watch **link = &target->ready_first, *before = NULL;

	apus_dp_target_collect(target);
	if (!watch->ready)
		return;
	while (*link != watch) {
		before = *link;
		link = &before->ready_next;
	}
	*link = watch->ready_next;
	if (target->ready_last == watch)
		target->ready_last = before;
	watch->ready = false;
}

void apus_dp_target_raise(struct apus_dp_target *target)
{
	uint64_t one = 1;

	/* F3: seq_cst, pairs with L2. */
	if (!atomic_exchange(&target->raised, true))
		(void)!write(target->fd, &one, sizeof(one));
}

void apus_dp_target_lower(struct apus_dp_target *target)
{
	uint64_t count;

	/* L1; the descriptor never blocks. */
	(void)!read(target->fd, &count, sizeof(count));
	/* L2: seq_cst, pairs with F3. */
	atomic_store(&target->raised, false);
}

void apus_dp_watch_fire(struct apus_dp_watch *watch)
{
	struct apus_dp_target *t = watch->target;
	struct apus_dp_watch *head;

	/* seq_cst, pairs with the exchange in collect(). */
	if (atomic_exchange(&watch->queued, true))
		return;
	/* Relaxed: the exchange below decides. */
	head = atomic_load_explicit(&t->pending, memory_order_relaxed);
	do
		watch->pending_next = head;
	while (!atomic_compare_exchange_weak(&t->pending, &head, watch)); /* F1: seq_cst, with L3 */
	/* F2: seq_cst, pairs with whoever sets it before it lowers and collects. */
	if (atomic_load(&t->interest))
		apus_dp_target_raise(t);
}

void apus_dp_watched_fire(struct apus_dp_watched *watched, uint32_t kinds)
{
	for (struct apus_dp_watch *w = watched->first; w; w = w->next)
		if (w->mask & kinds)
			apus_dp_watch_fire(w);
}

/* Adds `by` to the count of each kind of `mask`, and brings the mask of all in line. */
static void count(struct apus_dp_watched *watched, uint32_t mask, int by)
{
	for (; mask; mask &= mask - 1) {
		int bit = __builtin_ctz(mask);

		watched->count[bit] += (uint32_t)by;
		if (watched->count[bit])
			watched->mask |= UINT32_C(1) << bit;
		else
			watched->mask &= ~(UINT32_C(1) << bit);
	}
}

void apus_dp_watched_set(struct apus_dp_watched *watched, struct apus_dp_watch *watch,
			 uint32_t mask)
{
	count(watched, mask, 1);
	count(watched, watch->mask, -1);
	if (!watch->mask && mask) {
		watch->next = watched->first;
		watch->link = &watched->first;
		if (watch->next)
			watch->next->link = &watch->next;
		watched->first = watch;
	} else if (watch->mask && !mask) {
		*watch->link = watch->next;
		if (watch->next)
			watch->next->link = watch->link;
		watch->next = NULL;
	}
	watch->mask = mask;
}
