/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Round trips: the leader writes, the follower writes what it has read, until it is back. "Written and read": each
 * side copies the payload out of memory of its own and into it; lent: only its number is touched.
 *
 * Without a rate the next sample leaves when the last has come back, and the time is that of the trip alone. With
 * one, samples are due by the clock, and timed from when each was due: what waits behind a stall counts as late
 * (no coordinated omission).
 */
#include "routes.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define AHEAD_NS 60000 /* what a sleep may be late */

static uint64_t consume(struct inlet *in, const void *sample)
{
	struct side *s = in->side;
	uint64_t number;

	if (s->o->lent) {
		memcpy(&number, sample, sizeof(number));
		return number;
	}
	memcpy(s->sink, sample, in->bytes);
	memcpy(&number, s->sink, sizeof(number));
	return number;
}

/* Round trips that are not counted. */
static uint64_t warm_up(const struct side *s)
{
	return s->o->bytes[s->size_idx] > 65536 && !s->o->lent ? 10 : 200;
}

/* ---- the follower ---- */

static void echo(struct side *s)
{
	s->arrived = false;
	if (!s->o->lent)
		memcpy(s->source, s->sink, sizeof(s->number));
	s->number--; /* routes_put() counts it up again */
	while (!routes_put(s))
		routes_poll(s);
}

static void on_ping(void *user, const void *sample)
{
	struct inlet *in = user;
	struct side *s = in->side;

	s->number = consume(in, sample);
	s->arrived = true;
	if (!s->peer->poll)
		echo(s);
}

void latency_follow(struct side *s, uint32_t order)
{
	while (routes_order_stands(s, order)) {
		routes_poll(s);
		if (s->peer->poll && s->arrived)
			echo(s);
	}
}

/* ---- the leader ---- */

static void next_trip(struct side *s)
{
	s->arrived = false;
	if (!s->closed)
		while (!routes_put(s))
			routes_poll(s);
}

static void on_pong(void *user, const void *sample)
{
	struct inlet *in = user;
	struct side *s = in->side;
	uint64_t number = consume(in, sample);
	int64_t now = now_ns();

	if (s->interval_ns) {
		int64_t due = s->start_ns + (int64_t)number * s->interval_ns;

		if (number > warm_up(s))
			histogram_add(s->histogram, (uint64_t)(now > due ? now - due : 0));
		return;
	}
	if (number != s->number)
		return;
	if (number > warm_up(s))
		histogram_add(s->histogram, (uint64_t)(now - s->start_ns));
	s->start_ns = now;
	s->arrived = true;
	if (!s->peer->poll)
		next_trip(s);
}

static void run_closed(struct side *s)
{
	int64_t end = now_ns() + s->o->block_ms * NS_PER_MS;

	s->closed = false;
	s->start_ns = now_ns();
	next_trip(s);
	while (s->start_ns < end && now_ns() < end + NS_PER_SEC) {
		routes_poll(s);
		if (s->peer->poll && s->arrived)
			next_trip(s);
	}
	s->closed = true;
	for (end = now_ns() + 50 * NS_PER_MS; !s->arrived && now_ns() < end;)
		routes_poll(s);
}

static void sleep_until(int64_t ns)
{
	struct timespec at = {.tv_sec = ns / NS_PER_SEC, .tv_nsec = ns % NS_PER_SEC};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static void run_paced(struct side *s)
{
	uint64_t last = warm_up(s) + (uint64_t)s->o->block_ms * s->o->rate / 1000;

	s->interval_ns = NS_PER_SEC / s->o->rate;
	s->start_ns = now_ns() + NS_PER_MS;
	while (s->number < last) {
		int64_t due = s->start_ns + (int64_t)(s->number + 1) * s->interval_ns;

		/* One that has threads needs the core for them. */
		if (!s->peer->poll && due - now_ns() > 2 * AHEAD_NS)
			sleep_until(due - AHEAD_NS);
		while (now_ns() < due)
			if (s->peer->poll)
				routes_poll(s);
		while (!routes_put(s))
			routes_poll(s);
	}
	for (int64_t end = now_ns() + 100 * NS_PER_MS; now_ns() < end;)
		routes_poll(s);
}

void latency_lead(struct side *s)
{
	static struct histogram histogram;

	memset(&histogram, 0, sizeof(histogram));
	s->histogram = &histogram;
	s->number = 0;
	s->interval_ns = 0;
	if (s->o->rate)
		run_paced(s);
	else
		run_closed(s);
	routes_print_histogram(s, &histogram);
}

void latency_open(struct side *s)
{
	static const char *const topics[2] = {"ping", "pong"};
	uint32_t idx = s->idx & 1;

	for (uint32_t i = 0; i < s->o->size_count; i++) {
		struct inlet *in = &s->in[i][0];

		*in = (struct inlet){.side = s, .bytes = s->o->bytes[i]};
		s->out[i] = routes_open(s, i, true, topics[idx], NULL, NULL);
		if (s->idx == 2) {
			(void)routes_open(s, i, true, topics[1], NULL, NULL);
			continue;
		}
		in->end = routes_open(s, i, false, topics[!idx], idx ? on_ping : on_pong, in);
	}
}
