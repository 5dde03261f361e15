/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings of packets; see packets.h. The letters name pairs of accesses:
 *
 *   T  the tail: published by the producer; orders headers and bytes written before it
 *   H  the head: moved by the consumer; orders its reads of the bytes it gives up
 *   B  the flag of a sleeping consumer: each side writes, by an exchange, before it reads (shm/bell.h)
 */
#include "shm/packets.h"

#define CAPACITY_MIN (UINT64_C(1) << 12)
#define CAPACITY_MAX (UINT64_C(1) << 30)
/* Length of the record that fills the end of the ring. */
#define SKIP UINT32_MAX

size_t apus_shm_packets_bytes(uint64_t capacity)
{
	if (capacity < CAPACITY_MIN || capacity > CAPACITY_MAX || (capacity & (capacity - 1)) != 0)
		return 0;
	return sizeof(struct apus_shm_packets) + (size_t)capacity;
}

void apus_shm_packet_producer_init(struct apus_shm_packet_producer *end,
				   struct apus_shm_packets *shared, uint64_t capacity)
{
	*end = (struct apus_shm_packet_producer){.shared = shared, .capacity = capacity};
}

void apus_shm_packet_consumer_init(struct apus_shm_packet_consumer *end,
				   struct apus_shm_packets *shared, uint64_t capacity)
{
	*end = (struct apus_shm_packet_consumer){.shared = shared, .capacity = capacity};
}

static uint64_t record_bytes(uint32_t length)
{
	return ((uint64_t)length + APUS_SHM_PACKET_HEADER + APUS_SHM_PACKET_ALIGN - 1) &
	       ~(uint64_t)(APUS_SHM_PACKET_ALIGN - 1);
}

static uint8_t *place(struct apus_shm_packets *shared, uint64_t capacity, uint64_t position)
{
	return shared->bytes + (position & (capacity - 1));
}

static apus_shm_word *header(struct apus_shm_packets *shared, uint64_t capacity, uint64_t position)
{
	return (apus_shm_word *)(void *)place(shared, capacity, position);
}

/* --- the producer's end -------------------------------------------------------------------------- */

/* True if `bytes` are free behind the tail; looks at the head again if it has to. */
static bool has_room(struct apus_shm_packet_producer *p, uint64_t bytes)
{
	uint64_t head;

	if (p->tail + bytes - p->head <= p->capacity)
		return true;
	/* Acquire: H, pairs with the release in give_back(): the consumer has read the bytes before. */
	head = apus_shm_load(&p->shared->head, acquire);
	/* It never goes back, never passes what was published, and stands between records. */
	if (head < p->head || head > p->published || head % APUS_SHM_PACKET_ALIGN != 0) {
		p->broken = true;
		return false;
	}
	p->head = head;
	return p->tail + bytes - head <= p->capacity;
}

enum apus_shm_ring_result apus_shm_packet_reserve(struct apus_shm_packet_producer *end,
						  uint32_t length, struct apus_shm_packet *packet)
{
	uint64_t bytes = record_bytes(length);
	uint64_t to_end = end->capacity - (end->tail & (end->capacity - 1));
	uint64_t skipped = bytes > to_end ? to_end : 0;

	if (end->broken)
		return APUS_SHM_BROKEN;
	if (bytes > end->capacity)
		return APUS_SHM_NOTHING;
	if (!has_room(end, skipped + bytes))
		return end->broken ? APUS_SHM_BROKEN : APUS_SHM_NOTHING;
	if (skipped) {
		/* Relaxed: T publishes it with the rest. */
		apus_shm_store(header(end->shared, end->capacity, end->tail), SKIP, relaxed);
		end->tail += skipped;
	}
	packet->length = length;
	packet->bytes = place(end->shared, end->capacity, end->tail) + APUS_SHM_PACKET_HEADER;
	return APUS_SHM_DONE;
}

void apus_shm_packet_commit(struct apus_shm_packet_producer *end,
			    const struct apus_shm_packet *packet)
{
	apus_shm_word *at = header(end->shared, end->capacity, end->tail);

	/* Relaxed: T publishes them. */
	apus_shm_store(&at[0], packet->length | (uint64_t)packet->mark << 32, relaxed);
	for (int i = 0; i < APUS_SHM_PACKET_WORDS; i++)
		apus_shm_store(&at[1 + i], packet->word[i], relaxed);
	end->tail += record_bytes(packet->length);
}

bool apus_shm_packet_publish(struct apus_shm_packet_producer *end)
{
	if (end->published == end->tail)
		return false;
	end->published = end->tail;
	/* Seq_cst exchange: T, pairs with the acquire in refresh_tail(); and B: the flag is read behind it. */
	(void)apus_shm_exchange(&end->shared->tail, end->tail, seq_cst);
	/* Seq_cst: B, pairs with the exchange in doze(): one of the two sides sees what the other wrote. */
	if (apus_shm_load(&end->shared->asleep, seq_cst) == 0)
		return false;
	/* Who takes the flag rings. */
	return apus_shm_exchange(&end->shared->asleep, 0, seq_cst) != 0;
}

/* --- the consumer's end -------------------------------------------------------------------------- */

/* Looks at the tail again. False: it is nonsense. */
static bool refresh_tail(struct apus_shm_packet_consumer *c)
{
	/* Acquire: T, pairs with the exchange in publish(): headers and bytes are visible. */
	uint64_t tail = apus_shm_load(&c->shared->tail, acquire);

	if (tail < c->tail || tail - c->head > c->capacity || tail % APUS_SHM_PACKET_ALIGN != 0)
		c->broken = true;
	else
		c->tail = tail;
	return !c->broken;
}

/* Passes over the end of the ring if the record there says so. False: broken. */
static bool pass_end(struct apus_shm_packet_consumer *c, uint64_t first)
{
	uint64_t at = c->next & (c->capacity - 1);

	if ((uint32_t)first != SKIP)
		return true;
	/* A producer never skips a whole ring, nor to where there is nothing. */
	if (at == 0 || c->capacity - at >= c->tail - c->next)
		return false;
	c->next += c->capacity - at;
	return true;
}

static bool read_record(struct apus_shm_packet_consumer *c, struct apus_shm_packet *out)
{
	const apus_shm_word *at = header(c->shared, c->capacity, c->next);
	uint64_t first = apus_shm_load(&at[0], relaxed), before = c->next, bytes;

	/* Relaxed, here and below: T has made them visible; what is read is a copy, and only that is checked. */
	if (!pass_end(c, first))
		return false;
	if (c->next != before) {
		at = header(c->shared, c->capacity, c->next);
		first = apus_shm_load(&at[0], relaxed);
	}
	out->length = (uint32_t)first;
	bytes = record_bytes(out->length);
	if (bytes > c->tail - c->next || bytes > c->capacity - (c->next & (c->capacity - 1)))
		return false;
	out->mark = (uint32_t)(first >> 32);
	for (int i = 0; i < APUS_SHM_PACKET_WORDS; i++)
		out->word[i] = apus_shm_load(&at[1 + i], relaxed);
	out->bytes = place(c->shared, c->capacity, c->next) + APUS_SHM_PACKET_HEADER;
	c->next += bytes;
	out->end = c->next;
	return true;
}

enum apus_shm_ring_result apus_shm_packet_take(struct apus_shm_packet_consumer *end,
					       struct apus_shm_packet *packet_out)
{
	if (end->broken)
		return APUS_SHM_BROKEN;
	if (end->next == end->tail) {
		if (!refresh_tail(end))
			return APUS_SHM_BROKEN;
		if (end->next == end->tail)
			return APUS_SHM_NOTHING;
	}
	if (read_record(end, packet_out))
		return APUS_SHM_DONE;
	end->broken = true;
	return APUS_SHM_BROKEN;
}

void apus_shm_packet_give_back(struct apus_shm_packet_consumer *end, uint64_t position)
{
	end->head = position;
	/* Release: H, pairs with the acquire in has_room(): our reads of the bytes come before. */
	apus_shm_store(&end->shared->head, position, release);
}

bool apus_shm_packet_has_more(const struct apus_shm_packet_consumer *end)
{
	/* Seq_cst: B, behind the exchange in doze(); elsewhere a hint. */
	return end->broken || apus_shm_load(&end->shared->tail, seq_cst) != end->next;
}

bool apus_shm_packet_doze(struct apus_shm_packet_consumer *end)
{
	/* Seq_cst exchange: B; the tail is read behind it. */
	(void)apus_shm_exchange(&end->shared->asleep, 1, seq_cst);
	return !apus_shm_packet_has_more(end);
}
