/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptor rings; see ring.h. The letters name pairs of accesses:
 *
 *   T  the tail: published by the writer, read by the reader; orders the cells written before it
 *   H  the head: moved by the reader (or by a displacing writer); orders the reads of the cell it gives up
 */
#include "shm/ring.h"

#include <string.h>

#define CAPACITY_MAX (UINT32_C(1) << 20)
/* A writer that displaces as fast as its reader claims wins every contest; the reader must not wait for it. */
#define CLAIM_ATTEMPTS 8

size_t apus_shm_ring_bytes(uint32_t capacity)
{
	if (capacity == 0 || capacity > CAPACITY_MAX || (capacity & (capacity - 1)) != 0)
		return 0;
	return sizeof(struct apus_shm_ring_out) +
	       (size_t)capacity * APUS_SHM_DESC_WORDS * sizeof(apus_shm_word);
}

void apus_shm_ring_writer_init(struct apus_shm_ring_writer *ring, struct apus_shm_ring_out *out,
			       struct apus_shm_ring_in *in, uint32_t capacity)
{
	*ring = (struct apus_shm_ring_writer){.out = out, .in = in, .capacity = capacity};
}

void apus_shm_ring_reader_init(struct apus_shm_ring_reader *ring,
			       const struct apus_shm_ring_out *out, struct apus_shm_ring_in *in,
			       uint32_t capacity)
{
	*ring = (struct apus_shm_ring_reader){.out = out, .in = in, .capacity = capacity};
}

static size_t cell_at(uint64_t position, uint32_t capacity)
{
	return (size_t)(position & (capacity - 1)) * APUS_SHM_DESC_WORDS;
}

/* --- the writer's end ---------------------------------------------------------------------------- */

/* Looks at the head again. False: it is nonsense, now and for good. */
static bool refresh_head(struct apus_shm_ring_writer *r)
{
	/* Acquire: H, pairs with the release in advance() and claim(): the reader has read the cells before. */
	uint64_t head = apus_shm_load(&r->in->head, acquire);

	/* It never goes back, and never passes the tail. */
	if (head < r->head || head > r->tail)
		r->broken = true;
	else
		r->head = head;
	return !r->broken;
}

static void publish(struct apus_shm_ring_writer *r, const struct apus_shm_desc *desc)
{
	apus_shm_word *cell = &r->out->cells[cell_at(r->tail, r->capacity)];

	/* Relaxed: T publishes them; a reader that is too late discards what it has read (claim). */
	for (int i = 0; i < APUS_SHM_DESC_WORDS; i++)
		apus_shm_store(&cell[i], desc->word[i], relaxed);
	/* Seq_cst exchange: T, pairs with the acquire in refresh_tail(). Sequentially consistent so that flags
	 * tested behind it are tested behind it; an exchange, because a release store could still wait in the store
	 * buffer while they are read. */
	(void)apus_shm_exchange(&r->out->tail, ++r->tail, seq_cst);
}

enum apus_shm_ring_result apus_shm_ring_push(struct apus_shm_ring_writer *ring,
					     const struct apus_shm_desc *desc)
{
	if (ring->broken)
		return APUS_SHM_BROKEN;
	if (ring->tail - ring->head == ring->capacity) {
		if (!refresh_head(ring))
			return APUS_SHM_BROKEN;
		if (ring->tail - ring->head == ring->capacity)
			return APUS_SHM_NOTHING;
	}
	publish(ring, desc);
	return APUS_SHM_DONE;
}

/* A full ring: the oldest descriptor back, unless the reader is quicker. */
static bool take_back(struct apus_shm_ring_writer *r, struct apus_shm_desc *desc_out)
{
	const apus_shm_word *cell = &r->out->cells[cell_at(r->head, r->capacity)];
	uint64_t head = r->head++;

	/* Relaxed: no one else writes cells. */
	for (int i = 0; i < APUS_SHM_DESC_WORDS; i++)
		desc_out->word[i] = apus_shm_load(&cell[i], relaxed);
	/* Acquire: H, on success and on failure the cell may be written next; what the reader read of it came
	 * before its own compare-exchange, which failed or will fail against this one. */
	return apus_shm_replace(&r->in->head, head, head + 1, acq_rel);
}

enum apus_shm_ring_result apus_shm_ring_push_over(struct apus_shm_ring_writer *ring,
						  const struct apus_shm_desc *desc,
						  struct apus_shm_desc *displaced_out,
						  bool *has_displaced_out)
{
	*has_displaced_out = false;
	if (ring->broken)
		return APUS_SHM_BROKEN;
	if (ring->tail - ring->head == ring->capacity) {
		if (!refresh_head(ring))
			return APUS_SHM_BROKEN;
		if (ring->tail - ring->head == ring->capacity) {
			*has_displaced_out = take_back(ring, displaced_out);
			/* The reader was quicker, or it has written nonsense: which of them, the head tells. */
			if (!*has_displaced_out && !refresh_head(ring))
				return APUS_SHM_BROKEN;
		}
	}
	publish(ring, desc);
	return APUS_SHM_DONE;
}

enum apus_shm_ring_result apus_shm_ring_take_back(struct apus_shm_ring_writer *ring,
						  struct apus_shm_desc *displaced_out)
{
	if (ring->broken || !refresh_head(ring))
		return APUS_SHM_BROKEN;
	if (ring->tail == ring->head)
		return APUS_SHM_NOTHING;
	if (take_back(ring, displaced_out))
		return APUS_SHM_DONE;
	return refresh_head(ring) ? APUS_SHM_NOTHING : APUS_SHM_BROKEN;
}

uint32_t apus_shm_ring_waiting(struct apus_shm_ring_writer *ring)
{
	if (ring->broken || !refresh_head(ring))
		return ring->capacity;
	return (uint32_t)(ring->tail - ring->head);
}

/* --- the reader's end ---------------------------------------------------------------------------- */

/* Is there a descriptor at the head? Looks at the tail again if need be. */
static enum apus_shm_ring_result look(struct apus_shm_ring_reader *r)
{
	if (r->broken)
		return APUS_SHM_BROKEN;
	if (r->head < r->tail)
		return APUS_SHM_DONE;
	/* Acquire: T, pairs with the exchange in publish(): the cells before it are written. */
	r->tail = apus_shm_load(&r->out->tail, acquire);
	if (r->tail == r->head)
		return APUS_SHM_NOTHING;
	if (r->tail - r->head > r->capacity) {
		r->broken = true;
		return APUS_SHM_BROKEN;
	}
	return APUS_SHM_DONE;
}

bool apus_shm_ring_has_more(const struct apus_shm_ring_reader *ring)
{
	/* Seq_cst: T; a sleeper looks once more behind its flag (bell.h). */
	return apus_shm_load(&ring->out->tail, seq_cst) != ring->head;
}

static void copy_cell(const struct apus_shm_ring_reader *r, struct apus_shm_desc *desc_out)
{
	const apus_shm_word *cell = &r->out->cells[cell_at(r->head, r->capacity)];

	/* Relaxed: ordered by T before, and by H behind. */
	for (int i = 0; i < APUS_SHM_DESC_WORDS; i++)
		desc_out->word[i] = apus_shm_load(&cell[i], relaxed);
}

enum apus_shm_ring_result apus_shm_ring_peek(struct apus_shm_ring_reader *ring,
					     struct apus_shm_desc *desc_out)
{
	enum apus_shm_ring_result result = look(ring);

	if (result == APUS_SHM_DONE)
		copy_cell(ring, desc_out);
	return result;
}

void apus_shm_ring_advance(struct apus_shm_ring_reader *ring)
{
	/* Release: H, pairs with the acquire in refresh_head(): the cell has been read. */
	apus_shm_store(&ring->in->head, ++ring->head, release);
}

/* One attempt. NOTHING: empty, or with *beaten_out the writer was quicker. */
static enum apus_shm_ring_result try_claim(struct apus_shm_ring_reader *r,
					   struct apus_shm_desc *desc_out, bool *beaten_out)
{
	/* Acquire: H, pairs with the writer's compare-exchange in take_back(): its tail is then visible, too. */
	uint64_t head = apus_shm_load(&r->in->head, acquire);

	*beaten_out = false;
	/* Acquire: T, pairs with the exchange in publish(). */
	r->tail = apus_shm_load(&r->out->tail, acquire);
	if (head < r->head || head > r->tail) {
		r->broken = true;
		return APUS_SHM_BROKEN;
	}
	r->head = head;
	if (head == r->tail)
		return APUS_SHM_NOTHING;
	copy_cell(r, desc_out);
	/* Release: H, what was read of the cell was read before; it is valid because nobody moved the head
	 * meanwhile, and the writer writes this cell only behind a later head. */
	if (!apus_shm_replace(&r->in->head, head, head + 1, acq_rel)) {
		*beaten_out = true;
		return APUS_SHM_NOTHING;
	}
	r->head = head + 1;
	return APUS_SHM_DONE;
}

enum apus_shm_ring_result apus_shm_ring_claim(struct apus_shm_ring_reader *ring,
					      struct apus_shm_desc *desc_out, uint64_t *lost_out)
{
	enum apus_shm_ring_result result = ring->broken ? APUS_SHM_BROKEN : APUS_SHM_NOTHING;
	bool beaten = !ring->broken;

	*lost_out = 0;
	for (int i = 0; i < CLAIM_ATTEMPTS && beaten; i++)
		result = try_claim(ring, desc_out, &beaten);
	if (result == APUS_SHM_DONE) {
		*lost_out = ring->head - 1 - ring->claimed;
		ring->claimed = ring->head;
	}
	return result;
}
