/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The benchmark of routes, inside: one implementation (peer.h) on one of its routes, between two sides on two cores
 * of one host. The leader gives orders through a page of memory; the follower carries them out. Both have all
 * endpoints open before the first.
 */
#ifndef BENCH_E2E_ROUTES_H
#define BENCH_E2E_ROUTES_H

#include "common.h"
#include "histogram.h"
#include "peer.h"

#define READERS_MAX  8
#define SETTINGS_MAX 16
#define BATCH        64 /* samples of one batched write, or taken at a time */

enum mode { MODE_LATENCY, MODE_STREAM, MODE_FANOUT, MODE_START, MODES };

struct routes_options {
	enum mode mode;
	const char *route;
	uint32_t bytes[SIZES_MAX];
	uint32_t size_count;
	uint32_t block_ms;
	uint32_t rate; /* latency: samples a second by the clock; 0: each when the last is back */
	uint32_t readers; /* stream, fanout */
	uint32_t repeats; /* start */
	bool reliable, batch, lent;
	uint32_t domain;
	int core[2];
	const char *hgrm; /* prefix of files, or NULL */
	/* Of each side: its network namespace and its address there, or NULL; and what it sets. */
	const char *netns[2], *address[2];
	const char *settings[2][SETTINGS_MAX + 1];
	uint32_t setting_count;
};

/* What both sides see, beside the page that times a cache line. */
struct shared {
	struct meeting meeting;
	_Alignas(128) _Atomic uint32_t order;                 /* leader */
	_Alignas(128) _Atomic uint32_t begun;                 /* follower */
	_Alignas(128) _Atomic uint32_t opened;                /* leader: its endpoints are */
	_Alignas(128) _Atomic uint64_t received[READERS_MAX]; /* follower, as it goes */
	_Alignas(128) _Atomic uint64_t sent; /* leader, when a block is over; else UINT64_MAX */
	/* Follower, before it begins the next order. */
	uint64_t count, disordered;
	int64_t first_ns, last_ns;
	bool failed;
};

struct side;

/* A reader: what its samples do to its side. */
struct inlet {
	struct side *side;
	void *end;
	uint32_t idx, bytes;
	uint64_t count, last, disordered;
	int64_t first_ns, last_ns;
};

/* One of the two sides. */
struct side {
	const struct routes_options *o;
	const struct peer *peer;
	struct shared *shared;
	uint32_t idx; /* 0 leads */
	void *out[SIZES_MAX];
	struct inlet in[SIZES_MAX][READERS_MAX];
	uint8_t *source, *sink; /* BATCH samples, but at least one of the largest */
	/* The block under way. */
	uint32_t size_idx;
	struct histogram *histogram;
	uint64_t number; /* of the sample last written */
	int64_t start_ns, interval_ns;
	bool arrived, closed;
};

/** Order 0: nothing. Then the cache line, the blocks (one a size, ORDER_BLOCK + its index), and the end. */
enum { ORDER_LINE = 1, ORDER_END = 2, ORDER_BLOCK = 16 };

/* ---- routes.c ---- */

/** One look at everything a side has open of this size; idle if its threads do that. */
void routes_poll(struct side *s);
/** Leader: gives an order; returns when it is begun. */
void routes_order(struct side *s, uint32_t order);
/** Follower: true as long as the order is the last one. */
bool routes_order_stands(const struct side *s, uint32_t order);
/** Writes the next sample, by copy or in place; false if there was no room. */
bool routes_put(struct side *s);

/* ---- routes_latency.c, routes_stream.c ---- */

/** Opens the endpoints of a mode; callbacks as it needs them. */
void latency_open(struct side *s);
void stream_open(struct side *s);
/** Leader: one block of one size; prints a JSON object. Follower: until the order ends. */
void latency_lead(struct side *s);
void latency_follow(struct side *s, uint32_t order);
void stream_lead(struct side *s);
void stream_follow(struct side *s, uint32_t order);

/** Opens one writer, or one reader whose samples come to `on_sample`. Ends the process on failure. */
void *routes_open(struct side *s, uint32_t size_idx, bool writer, const char *topic,
		  void (*on_sample)(void *user, const void *sample), void *user);
/** Prints the quantiles and buckets of a histogram as members of a JSON object; also to FILE.hgrm. */
void routes_print_histogram(const struct side *s, const struct histogram *h);

#endif
