/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptor rings; see ring.h. The letters name pairs of accesses:
 *
 *   C  the stamp of a cell: written last by the writer, read first by the reader; orders the rest of the cell
 *   T  the tail: published by the writer for a reader that is about to sleep (bell.h)
 *   H  the head: moved by the reader (or by a displacing writer); orders the reads of the cell it gives up
 */
#include "shm/ring.h"

#include <string.h>

#define CAPACITY_MAX (UINT32_C(1) << 20)

/* Stamp and descriptor. */
#define HEAD_WORDS (1 + APUS_SHM_DESC_WORDS)

static uint32_t words_for(uint32_t inline_bytes)
{
	uint32_t words = HEAD_WORDS + (inline_bytes + 7) / 8;

	return (words + APUS_SHM_CELL_ALIGN - 1) / APUS_SHM_CELL_ALIGN * APUS_SHM_CELL_ALIGN;
}

uint32_t apus_shm_ring_inline_bytes(uint32_t cell_words)
{
	return (cell_words - HEAD_WORDS) * 8;
}

size_t apus_shm_ring_bytes(uint32_t capacity, uint32_t inline_bytes)
{
	if (capacity == 0 || capacity > CAPACITY_MAX || (capacity & (capacity - 1)) != 0 ||
	    inline_bytes > APUS_SHM_INLINE_MAX)
		return 0;
	return sizeof(struct apus_shm_ring_out) +
	       (size_t)capacity * words_for(inline_bytes) * sizeof(apus_shm_word);
}

void apus_shm_ring_writer_init(struct apus_shm_ring_writer *ring, struct apus_shm_ring_out *out,
			       struct apus_shm_ring_in *in, uint32_t capacity,
			       uint32_t inline_bytes)
{
	*ring = (struct apus_shm_ring_writer){
		.out = out, .in = in, .capacity = capacity, .cell_words = words_for(inline_bytes)};
}

void apus_shm_ring_reader_init(struct apus_shm_ring_reader *ring,
			       const struct apus_shm_ring_out *out, struct apus_shm_ring_in *in,
			       uint32_t capacity, uint32_t inline_bytes)
{
	*ring = (struct apus_shm_ring_reader){
		.out = out, .in = in, .capacity = capacity, .cell_words = words_for(inline_bytes)};
}

static size_t cell_at(uint64_t position, uint32_t capacity, uint32_t cell_words)
{
	return (size_t)(position & (capacity - 1)) * cell_words;
}

/* --- the writer's end ---------------------------------------------------------------------------- */

/* Looks at the head again. False: it is nonsense, now and for good. */
static bool refresh_head(struct apus_shm_ring_writer *r)
{
	/* Acquire: H, pairs with the release in give() and claim(): the reader has read the cells before. */
	uint64_t head = apus_shm_load(&r->in->head, acquire);

	/* It never goes back, and never passes the tail. */
	if (head < r->head || head > r->tail)
		r->broken = true;
	else
		r->head = head;
	return !r->broken;
}

static apus_shm_word *writer_cell(const struct apus_shm_ring_writer *r, uint64_t position)
{
	return &r->out->cells[cell_at(position, r->capacity, r->cell_words)];
}

/* Payload into words, the last ones first: a reader that polls the stamp's line then takes it away once. */
static void put_payload(apus_shm_word *words, const uint8_t *payload, uint32_t bytes)
{
	uint32_t whole = bytes / 8;
	uint64_t word = 0;

	/* Relaxed throughout: C orders them; a reader that is too late discards what it has read. */
	if (bytes % 8) {
		/* Payloads are mostly padded to a multiple of 4: a copy of known size is two instructions. */
		if (bytes % 8 == 4)
			memcpy(&word, payload + (size_t)whole * 8, 4);
		else
			memcpy(&word, payload + (size_t)whole * 8, bytes % 8);
		apus_shm_store(&words[whole], word, relaxed);
	}
	while (whole-- > 0) {
		memcpy(&word, payload + (size_t)whole * 8, 8);
		apus_shm_store(&words[whole], word, relaxed);
	}
}

/* Cells so far ahead of the tail are fetched for writing: what comes first of them a reader may be looking at. */
#define AHEAD 2

/* The line of a cell that is written soon is on its way when it is. The reader had it last, and the exchange in
 * publish() would wait for it. */
static void fetch_ahead(const struct apus_shm_ring_writer *ring)
{
#if defined(__x86_64__) && !defined(APUS_SHM_EXPLORED)
	__asm__ volatile("prefetchw %0" : : "m"(*writer_cell(ring, ring->tail + AHEAD)));
#else
	(void)ring;
#endif
}

void apus_shm_ring_put(struct apus_shm_ring_writer *ring, const struct apus_shm_desc *desc,
		       const void *payload, uint32_t payload_bytes)
{
	apus_shm_word *cell = writer_cell(ring, ring->tail);

	if (payload_bytes)
		put_payload(cell + HEAD_WORDS, payload, payload_bytes);
	/* Relaxed: C, as above. */
	for (int i = 0; i < APUS_SHM_DESC_WORDS; i++)
		apus_shm_store(&cell[1 + i], desc->word[i], relaxed);
	/* Release: C, pairs with the acquire in apus_shm_ring_peek() and _look(). */
	apus_shm_store(&cell[0], ++ring->tail, release);
	fetch_ahead(ring);
}

bool apus_shm_ring_publish(struct apus_shm_ring_writer *ring)
{
	if (ring->published == ring->tail)
		return false;
	ring->published = ring->tail;
	/* Seq_cst exchange: T, pairs with apus_shm_ring_has_more(). Sequentially consistent so that flags tested
	 * behind it are tested behind it; an exchange, because a release store could still wait in the store buffer
	 * while they are read. */
	(void)apus_shm_exchange(&ring->out->tail, ring->tail, seq_cst);
	return true;
}

enum apus_shm_ring_result apus_shm_ring_reserve(struct apus_shm_ring_writer *ring)
{
	if (ring->broken)
		return APUS_SHM_BROKEN;
	if (ring->tail - ring->head < ring->capacity)
		return APUS_SHM_DONE;
	if (!refresh_head(ring))
		return APUS_SHM_BROKEN;
	return ring->tail - ring->head == ring->capacity ? APUS_SHM_NOTHING : APUS_SHM_DONE;
}

enum apus_shm_ring_result apus_shm_ring_push(struct apus_shm_ring_writer *ring,
					     const struct apus_shm_desc *desc)
{
	enum apus_shm_ring_result result = apus_shm_ring_reserve(ring);

	if (result != APUS_SHM_DONE)
		return result;
	apus_shm_ring_put(ring, desc, NULL, 0);
	(void)apus_shm_ring_publish(ring);
	return APUS_SHM_DONE;
}

/* A full ring: the oldest descriptor back, unless the reader is quicker. */
static bool take_back(struct apus_shm_ring_writer *r, struct apus_shm_desc *desc_out)
{
	const apus_shm_word *cell = writer_cell(r, r->head);
	uint64_t head = r->head++;

	/* Relaxed: no one else writes cells. */
	for (int i = 0; i < APUS_SHM_DESC_WORDS; i++)
		desc_out->word[i] = apus_shm_load(&cell[1 + i], relaxed);
	/* Acquire: H, on success and on failure the cell may be written next; what the reader read of it came
	 * before its own compare-exchange, which failed or will fail against this one. */
	return apus_shm_replace(&r->in->head, head, head + 1, acq_rel);
}

enum apus_shm_ring_result apus_shm_ring_reserve_over(struct apus_shm_ring_writer *ring,
						     struct apus_shm_desc *displaced_out,
						     bool *has_displaced_out)
{
	enum apus_shm_ring_result result = apus_shm_ring_reserve(ring);

	*has_displaced_out = false;
	if (result != APUS_SHM_NOTHING)
		return result;
	*has_displaced_out = take_back(ring, displaced_out);
	/* The reader was quicker, or it has written nonsense: which of them, the head tells. */
	return *has_displaced_out || refresh_head(ring) ? APUS_SHM_DONE : APUS_SHM_BROKEN;
}

enum apus_shm_ring_result apus_shm_ring_push_over(struct apus_shm_ring_writer *ring,
						  const struct apus_shm_desc *desc,
						  struct apus_shm_desc *displaced_out,
						  bool *has_displaced_out)
{
	enum apus_shm_ring_result result =
		apus_shm_ring_reserve_over(ring, displaced_out, has_displaced_out);

	if (result != APUS_SHM_DONE)
		return result;
	apus_shm_ring_put(ring, desc, NULL, 0);
	(void)apus_shm_ring_publish(ring);
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

uint64_t apus_shm_ring_oldest(const struct apus_shm_ring_writer *ring)
{
	/* Relaxed: cells are this side's own. */
	return apus_shm_load(&writer_cell(ring, ring->head)[1], relaxed);
}

/* --- the reader's end ---------------------------------------------------------------------------- */

static const apus_shm_word *reader_cell(const struct apus_shm_ring_reader *r)
{
	return &r->out->cells[cell_at(r->head, r->capacity, r->cell_words)];
}

bool apus_shm_ring_has_more(const struct apus_shm_ring_reader *ring)
{
	/* Seq_cst: T; a sleeper looks once more behind its flag (bell.h). What was put and not published yet may
	 * have been taken already: then it is not equal, either, and the sleeper looks again. */
	return apus_shm_load(&ring->out->tail, seq_cst) != ring->head;
}

static void copy_cell(const apus_shm_word *cell, struct apus_shm_desc *desc_out)
{
	/* Relaxed: ordered by C before, and by H behind. */
	for (int i = 0; i < APUS_SHM_DESC_WORDS; i++)
		desc_out->word[i] = apus_shm_load(&cell[1 + i], relaxed);
}

void apus_shm_ring_payload(const struct apus_shm_ring_reader *ring, void *payload_out,
			   uint32_t payload_bytes)
{
	const apus_shm_word *words = reader_cell(ring) + HEAD_WORDS;
	uint32_t max = apus_shm_ring_inline_bytes(ring->cell_words);
	uint8_t *out = payload_out;
	uint64_t word;

	if (payload_bytes > max)
		payload_bytes = max;
	/* Relaxed throughout: as in copy_cell(). */
	for (; payload_bytes >= 8; payload_bytes -= 8, out += 8) {
		word = apus_shm_load(words++, relaxed);
		memcpy(out, &word, 8);
	}
	if (payload_bytes == 0)
		return;
	word = apus_shm_load(words, relaxed);
	/* As in put_payload(). */
	if (payload_bytes == 4)
		memcpy(out, &word, 4);
	else
		memcpy(out, &word, payload_bytes);
}

enum apus_shm_ring_result apus_shm_ring_peek(struct apus_shm_ring_reader *ring,
					     struct apus_shm_desc *desc_out)
{
	const apus_shm_word *cell = reader_cell(ring);
	uint64_t stamp;

	if (ring->broken)
		return APUS_SHM_BROKEN;
	/* Acquire: C, pairs with the release in apus_shm_ring_put(): the rest of the cell is written. */
	stamp = apus_shm_load(&cell[0], acquire);
	if (stamp != ring->head + 1) {
		/* It is of a lap before; one of a lap to come would have been written too early. */
		ring->broken = stamp > ring->head;
		return ring->broken ? APUS_SHM_BROKEN : APUS_SHM_NOTHING;
	}
	copy_cell(cell, desc_out);
	return APUS_SHM_DONE;
}

void apus_shm_ring_advance(struct apus_shm_ring_reader *ring)
{
	ring->head++;
}

void apus_shm_ring_give(struct apus_shm_ring_reader *ring)
{
	if (ring->given == ring->head)
		return;
	ring->given = ring->head;
	/* Release: H, pairs with the acquire in refresh_head(): the cells have been read. */
	apus_shm_store(&ring->in->head, ring->head, release);
}

enum apus_shm_ring_result apus_shm_ring_look(struct apus_shm_ring_reader *ring,
					     struct apus_shm_desc *desc_out)
{
	const apus_shm_word *cell;
	uint64_t head;

	if (ring->broken)
		return APUS_SHM_BROKEN;
	/* Relaxed: what is read under a head that has moved is not claimed. */
	head = apus_shm_load(&ring->in->head, relaxed);
	if (head < ring->head) {
		ring->broken = true;
		return APUS_SHM_BROKEN;
	}
	ring->head = head;
	cell = reader_cell(ring);
	/* Acquire: C, pairs with the release in apus_shm_ring_put(). Another stamp is of a lap before, or the writer
	 * has displaced this one and filled the cell again. */
	if (apus_shm_load(&cell[0], acquire) != head + 1)
		return APUS_SHM_NOTHING;
	copy_cell(cell, desc_out);
	return APUS_SHM_DONE;
}

enum apus_shm_ring_result apus_shm_ring_claim(struct apus_shm_ring_reader *ring, uint64_t *lost_out)
{
	*lost_out = 0;
	/* Release: H, what was read of the cell was read before; it is valid because nobody moved the head
	 * meanwhile, and the writer writes this cell only behind a later head. */
	if (!apus_shm_replace(&ring->in->head, ring->head, ring->head + 1, acq_rel))
		return APUS_SHM_NOTHING;
	*lost_out = ring->head - ring->claimed;
	ring->claimed = ++ring->head;
	return APUS_SHM_DONE;
}
