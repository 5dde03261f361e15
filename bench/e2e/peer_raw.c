/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floor in the benchmark of routes: what shared memory does when nobody asks for more than the bytes.
 *
 * "ring": payloads are copied into slots, of which a reader learns by a position of its own in a line of its own; the
 * writer looks at a reader's position only when it might be full (the usual single-producer ring with cached
 * positions). "flag": one slot, its number beside the payload; the writer waits for nobody, so it is for round
 * trips alone. No types, history, discovery, death, or second thought.
 */
#include "common.h"
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CHANNELS    32
#define READERS_MAX 8

/* One way of one size. Each position has a line, and a neighbour, of its own. */
struct channel {
	char topic[32];
	uint32_t bytes, slot_bytes, slot_count; /* power of two */
	_Atomic uint32_t readers;
	struct {
		_Alignas(128) _Atomic uint64_t tail; /* writer: slots filled */
		_Alignas(128) _Atomic uint64_t head; /* reader: slots read */
	} position[READERS_MAX];
	_Alignas(128) uint8_t *slots; /* mapped before the fork: the same address on both sides */
};

struct endpoint {
	struct peer_options options;
	struct channel *channel;
	uint32_t reader_idx;
	uint64_t next;              /* position */
	uint64_t seen[READERS_MAX]; /* writer: heads as read last */
	bool is_flag;
};

static struct channel *channels;

static void *share(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		die("no shared memory");
	memset(at, 0, bytes);
	return at;
}

/* Before the fork: a channel for a topic of this size. */
static void raw_prepare(const struct peer_options *o)
{
	struct channel *c;
	uint32_t count = 1;

	if (!channels)
		channels = share(CHANNELS * sizeof(*channels));
	for (c = channels; c->bytes; c++)
		if (c == channels + CHANNELS - 2)
			die("too many channels");
	while (count * 2 <= o->history)
		count *= 2;
	snprintf(c->topic, sizeof(c->topic), "%s", o->topic);
	c->bytes = o->bytes;
	c->slot_count = count;
	c->slot_bytes = (o->bytes + 8 + 63) / 64 * 64;
	c->slots = share((size_t)c->slot_bytes * count);
}

static void *raw_open(const struct peer_options *o)
{
	struct endpoint *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->options = *o;
	e->is_flag = o->route && strcmp(o->route, "flag") == 0;
	for (e->channel = channels; e->channel->bytes; e->channel++)
		if (e->channel->bytes == o->bytes && strcmp(e->channel->topic, o->topic) == 0)
			break;
	if (!e->channel->bytes)
		return NULL;
	if (!o->writer)
		/* Relaxed: counted before anything is written. */
		e->reader_idx =
			atomic_fetch_add_explicit(&e->channel->readers, 1, memory_order_relaxed);
	return e;
}

static uint32_t raw_matched(void *endpoint)
{
	struct endpoint *e = endpoint;

	/* Relaxed: a count to wait for. */
	return e->options.writer ? atomic_load_explicit(&e->channel->readers, memory_order_relaxed)
				 : 1;
}

static uint8_t *slot_at(const struct channel *c, uint64_t position)
{
	return c->slots + (size_t)c->slot_bytes * (position & (c->slot_count - 1));
}

/* True if all readers have read what the next slot holds. */
static bool has_room(struct endpoint *e, uint32_t readers)
{
	struct channel *c = e->channel;

	for (uint32_t i = 0; i < readers; i++) {
		if (e->next - e->seen[i] < c->slot_count)
			continue;
		/* Acquire, pairs with the release in ring_poll(): it has read the slot. */
		e->seen[i] = atomic_load_explicit(&c->position[i].head, memory_order_acquire);
		if (e->next - e->seen[i] == c->slot_count)
			return false;
	}
	return true;
}

static void *raw_loan(void *endpoint)
{
	struct endpoint *e = endpoint;
	struct channel *c = e->channel;

	if (e->is_flag)
		return c->slots + 8;
	/* Relaxed: no reader comes while it runs. */
	return has_room(e, atomic_load_explicit(&c->readers, memory_order_relaxed))
		       ? slot_at(c, e->next)
		       : NULL;
}

static bool raw_publish(void *endpoint, void *loan)
{
	struct endpoint *e = endpoint;
	struct channel *c = e->channel;
	/* Relaxed: as above. */
	uint32_t readers = atomic_load_explicit(&c->readers, memory_order_relaxed);

	(void)loan;
	e->next++;
	if (e->is_flag) {
		/* Release, pairs with flag_poll(): the payload is there. */
		atomic_store_explicit((_Atomic uint64_t *)c->slots, e->next, memory_order_release);
		return true;
	}
	for (uint32_t i = 0; i < readers; i++)
		/* Release, pairs with the acquire in ring_poll(): the payload is there. */
		atomic_store_explicit(&c->position[i].tail, e->next, memory_order_release);
	return true;
}

static bool raw_write(void *endpoint, const void *sample)
{
	struct endpoint *e = endpoint;
	void *loan = raw_loan(endpoint);

	if (!loan)
		return false;
	memcpy(loan, sample, e->options.bytes);
	return raw_publish(endpoint, loan);
}

static uint32_t raw_write_many(void *endpoint, const void *samples, uint32_t count)
{
	struct endpoint *e = endpoint;
	uint32_t n = 0;

	while (n < count &&
	       raw_write(endpoint, (const uint8_t *)samples + (size_t)n * e->options.bytes))
		n++;
	return n;
}

static uint32_t flag_poll(struct endpoint *e)
{
	struct channel *c = e->channel;
	/* Acquire, pairs with raw_publish(). */
	uint64_t number = atomic_load_explicit((_Atomic uint64_t *)c->slots, memory_order_acquire);

	if (number == e->next)
		return 0;
	e->next = number;
	e->options.on_sample(e->options.user, c->slots + 8);
	return 1;
}

static uint32_t ring_poll(struct endpoint *e)
{
	struct channel *c = e->channel;
	uint64_t tail, begun = e->next;

	/* Acquire, pairs with raw_publish(). */
	tail = atomic_load_explicit(&c->position[e->reader_idx].tail, memory_order_acquire);
	if (!e->options.batch && tail > begun)
		tail = begun + 1;
	for (; e->next != tail; e->next++)
		e->options.on_sample(e->options.user, slot_at(c, e->next));
	if (tail != begun)
		/* Release, pairs with has_room(): the slots have been read. */
		atomic_store_explicit(&c->position[e->reader_idx].head, tail, memory_order_release);
	return (uint32_t)(tail - begun);
}

static uint32_t raw_poll(void *endpoint)
{
	struct endpoint *e = endpoint;

	if (e->options.writer)
		return 0;
	return e->is_flag ? flag_poll(e) : ring_poll(e);
}

static void raw_drain(void *endpoint)
{
	(void)endpoint;
}

static const char *raw_version(void)
{
	return "";
}

static const char *const routes[] = {"ring", "flag", NULL};

static const struct peer raw = {.name = "raw",
				.batches = true,
				.open = raw_open,
				.matched = raw_matched,
				.write = raw_write,
				.drain = raw_drain,
				.routes = routes,
				.version = raw_version,
				.prepare = raw_prepare,
				.poll = raw_poll,
				.write_many = raw_write_many,
				.loan = raw_loan,
				.publish = raw_publish};
const struct peer *const peer_raw = &raw;
