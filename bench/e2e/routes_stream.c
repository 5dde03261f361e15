/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One way, to one or several readers of the other side. Streams: as many as go, counted where they arrive. Fan-out:
 * what a write costs the writer, by the number of readers; it writes a few samples at a time and then waits
 * until all have been read, so that no full queue is in the time.
 */
#include "routes.h"

#include <stdio.h>
#include <string.h>

#define BURST      16 /* writes timed together */
#define IDLE_NS    (300 * NS_PER_MS)
#define POLL_EVERY 16

static void on_sample(void *user, const void *sample)
{
	struct inlet *in = user;
	struct side *s = in->side;
	uint64_t number;

	if (s->o->lent) {
		memcpy(&number, sample, sizeof(number));
	} else {
		memcpy(s->sink, sample, in->bytes);
		memcpy(&number, s->sink, sizeof(number));
	}
	in->disordered += number <= in->last;
	in->last = number;
	in->count++;
	if (in->count % 64 == 1 || in->count < 64)
		in->last_ns = now_ns();
	if (in->count == 1)
		in->first_ns = in->last_ns;
	if (s->o->mode == MODE_FANOUT)
		/* Relaxed: a count to wait for. */
		atomic_store_explicit(&s->shared->received[in->idx], number, memory_order_relaxed);
}

/* ---- the follower ---- */

static uint64_t count_of(const struct side *s)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < s->o->readers; i++)
		n += ((volatile const struct inlet *)&s->in[s->size_idx][i])->count;
	return n;
}

static void report(struct side *s)
{
	struct inlet *in = s->in[s->size_idx];

	s->shared->count = count_of(s);
	s->shared->disordered = 0;
	for (uint32_t i = 0; i < s->o->readers; i++)
		s->shared->disordered += in[i].disordered;
	s->shared->first_ns = in[0].first_ns;
	s->shared->last_ns = in[0].last_ns;
}

void stream_follow(struct side *s, uint32_t order)
{
	uint64_t seen = 0;
	int64_t moved = now_ns();

	for (uint32_t i = 0; i < s->o->readers; i++)
		s->in[s->size_idx][i].count = s->in[s->size_idx][i].last = 0;
	while (routes_order_stands(s, order)) {
		uint64_t sent, count;

		for (uint32_t i = 0; i < POLL_EVERY; i++)
			routes_poll(s);
		/* Acquire, pairs with stream_lead(). */
		sent = atomic_load_explicit(&s->shared->sent, memory_order_acquire);
		if (sent == UINT64_MAX)
			continue;
		count = count_of(s);
		if (count != seen)
			moved = now_ns();
		seen = count;
		if (count < sent * s->o->readers && now_ns() - moved < IDLE_NS)
			continue;
		report(s);
		/* Release, pairs with stream_lead(). */
		atomic_store_explicit(&s->shared->sent, 0, memory_order_release);
		while (routes_order_stands(s, order))
			routes_poll(s);
	}
}

/* ---- the leader ---- */

static uint64_t write_single(struct side *s)
{
	while (!routes_put(s))
		routes_poll(s);
	return 1;
}

static uint64_t write_batch(struct side *s)
{
	uint32_t bytes = s->o->bytes[s->size_idx], n;

	for (uint32_t i = 0; i < BATCH; i++) {
		uint64_t number = s->number + i + 1;

		memcpy(s->source + (size_t)i * bytes, &number, sizeof(number));
	}
	n = s->peer->write_many(s->out[s->size_idx], s->source, BATCH);
	s->number += n;
	if (n == 0)
		routes_poll(s);
	return n;
}

static void run_stream(struct side *s)
{
	bool many = s->o->batch && s->peer->write_many && s->o->bytes[s->size_idx] <= 65536;
	int64_t end = now_ns() + s->o->block_ms * NS_PER_MS;

	do {
		for (uint32_t i = 0; i < POLL_EVERY; i++)
			(void)(many ? write_batch(s) : write_single(s));
		if (s->peer->poll)
			routes_poll(s);
	} while (now_ns() < end);
	s->peer->drain(s->out[s->size_idx]);
}

static void await_all(struct side *s)
{
	int64_t limit = now_ns() + NS_PER_SEC;

	for (uint32_t i = 0; i < s->o->readers; i++)
		/* Relaxed: a count to wait for. */
		while (atomic_load_explicit(&s->shared->received[i], memory_order_relaxed) !=
			       s->number &&
		       now_ns() < limit)
			routes_poll(s);
}

static void run_fanout(struct side *s, struct histogram *h)
{
	int64_t end = now_ns() + s->o->block_ms * NS_PER_MS, now, start;

	do {
		start = now_ns();
		for (uint32_t i = 0; i < BURST; i++)
			write_single(s);
		now = now_ns();
		if (s->number > 100 * BURST)
			histogram_add(h, (uint64_t)(now - start) / BURST);
		await_all(s);
	} while (now < end);
}

void stream_lead(struct side *s)
{
	static struct histogram h;
	struct shared *m = s->shared;
	double seconds;

	memset(&h, 0, sizeof(h));
	/* Relaxed: the follower has not begun to look at it. */
	s->number = 0;
	if (s->o->mode == MODE_FANOUT)
		run_fanout(s, &h);
	else
		run_stream(s);
	/* Release, pairs with stream_follow(). */
	atomic_store_explicit(&m->sent, s->number, memory_order_release);
	/* Acquire, pairs with stream_follow(): the report is there. */
	while (atomic_load_explicit(&m->sent, memory_order_acquire) != 0)
		routes_poll(s);
	/* Relaxed: the next order publishes it. */
	atomic_store_explicit(&m->sent, UINT64_MAX, memory_order_relaxed);
	seconds = (double)(m->last_ns - m->first_ns) / 1e9;
	printf("\"sent\":%llu,\"received\":%llu,\"disordered\":%llu,\"samples_per_second\":%.0f",
	       (unsigned long long)s->number, (unsigned long long)m->count,
	       (unsigned long long)m->disordered,
	       seconds > 0 ? (double)m->count / s->o->readers / seconds : 0);
	if (s->o->mode == MODE_FANOUT) {
		printf(",");
		routes_print_histogram(s, &h);
	}
}

void stream_open(struct side *s)
{
	/* Relaxed: nobody looks at it before the first order. */
	atomic_store_explicit(&s->shared->sent, UINT64_MAX, memory_order_relaxed);
	for (uint32_t i = 0; i < s->o->size_count; i++) {
		if (s->idx != 1) {
			s->out[i] = routes_open(s, i, true, "stream", NULL, NULL);
			continue;
		}
		for (uint32_t k = 0; k < s->o->readers; k++) {
			struct inlet *in = &s->in[i][k];

			*in = (struct inlet){.side = s, .idx = k, .bytes = s->o->bytes[i]};
			in->end = routes_open(s, i, false, "stream", on_sample, in);
		}
	}
}
