/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring of descriptors from one writer to one reader in another process. A descriptor names a slot of the
 * writer's pool, where the payload stays; a small payload may stand in the cell itself, behind its descriptor.
 *
 * Who may write what: the cells and the tail lie in memory of the writer that the reader maps read-only; the
 * head lies in a page both write. Positions are 64-bit counts that never wrap; cell = position & mask.
 *
 *     head <= tail <= head + capacity                     the ring, at all times
 *
 * A cell is a stamp, the descriptor, and room for a payload; the stamp is written last and says of which position it is
 * (its number + 1). So the reader looks at the cell it waits for, and has what is in it with the same cache line. The
 * tail is for who is about to sleep: it is published once after any number of cells.
 *
 * A ring that pushes back (reliable): only the reader moves the head, when it has admitted a sample, so what
 * it has not admitted stays in the ring and a full ring stops the writer. A ring that displaces (best effort):
 * a push into a full ring takes the oldest descriptor back; writer and reader contend for it by one
 * compare-exchange of the head, and the winner has the slot. The loss is the jump in the positions.
 *
 * Neither side trusts the other: a head or tail outside of the invariant makes every later call return
 * APUS_SHM_BROKEN, and the match ends. A descriptor's contents are for the caller to bound.
 *
 * Thread rule: one thread at a time on each end (the turn of that worker). Constant time, no allocation.
 */
#ifndef APUS_SHM_RING_H
#define APUS_SHM_RING_H

#include "shm/atomic.h"

#include <stddef.h>

/** Words of a descriptor. */
#ifndef APUS_SHM_DESC_WORDS
#define APUS_SHM_DESC_WORDS 4
#endif
/** A cell is a multiple of so many words: of a cache line. */
#ifndef APUS_SHM_CELL_ALIGN
#define APUS_SHM_CELL_ALIGN 8
#endif
/** Most bytes of a payload in a cell. */
#define APUS_SHM_INLINE_MAX 472

/** What a call found; the positive value is success. */
enum apus_shm_ring_result {
	APUS_SHM_DONE = 1,
	APUS_SHM_NOTHING = 0, /* empty for the reader, full for the writer */
	APUS_SHM_BROKEN = -1, /* the other side wrote nonsense */
};

/** A descriptor as either side handles it; opaque to the ring. */
struct apus_shm_desc {
	uint64_t word[APUS_SHM_DESC_WORDS];
};

/** The writer's half in memory; `capacity` cells follow. */
struct apus_shm_ring_out {
	apus_shm_word tail;
	uint8_t pad[120]; /* nothing else in its line or the neighbouring one */
	apus_shm_word cells[];
};

/** The reader's half: in the page both may write. */
struct apus_shm_ring_in {
	apus_shm_word head;
	uint8_t pad[120];
};

/** The writer's end, private memory. */
struct apus_shm_ring_writer {
	struct apus_shm_ring_out *out;
	struct apus_shm_ring_in *in;
	uint64_t tail;
	uint64_t published; /* the tail as the reader may see it */
	uint64_t head;      /* as seen last: there is at least room up to it */
	uint32_t capacity;
	uint32_t cell_words;
	bool broken;
};

/** The reader's end, private memory. */
struct apus_shm_ring_reader {
	const struct apus_shm_ring_out *out;
	struct apus_shm_ring_in *in;
	uint64_t head;    /* the next position to take, as far as this side knows */
	uint64_t given;   /* a ring that pushes back: the head as the writer may see it */
	uint64_t claimed; /* behind the last one claimed: what lies between was displaced */
	uint32_t capacity;
	uint32_t cell_words;
	bool broken;
};

/** Bytes of the writer's half for a power of two of cells with room for so many bytes of payload; 0 for another
 *  number, more than 2^20 cells, or more than APUS_SHM_INLINE_MAX bytes. */
size_t apus_shm_ring_bytes(uint32_t capacity, uint32_t inline_bytes);

/** Attaches an end to zeroed halves (position 0). capacity, inline_bytes: as given to apus_shm_ring_bytes(). */
void apus_shm_ring_writer_init(struct apus_shm_ring_writer *ring, struct apus_shm_ring_out *out,
			       struct apus_shm_ring_in *in, uint32_t capacity,
			       uint32_t inline_bytes);
void apus_shm_ring_reader_init(struct apus_shm_ring_reader *ring,
			       const struct apus_shm_ring_out *out, struct apus_shm_ring_in *in,
			       uint32_t capacity, uint32_t inline_bytes);

/** Bytes of payload that fit into a cell: at least as many as asked for. */
uint32_t apus_shm_ring_inline_bytes(uint32_t cell_words);

/** Is there room for one more descriptor? DONE; NOTHING if the ring is full (nothing has changed); BROKEN. */
enum apus_shm_ring_result apus_shm_ring_reserve(struct apus_shm_ring_writer *ring);
/**
 * The same in a ring that displaces. If it is full its oldest descriptor comes back in *displaced_out and
 * *has_displaced_out is set: the caller has its slot again. DONE or BROKEN.
 */
enum apus_shm_ring_result apus_shm_ring_reserve_over(struct apus_shm_ring_writer *ring,
						     struct apus_shm_desc *displaced_out,
						     bool *has_displaced_out);
/** Appends a descriptor, for which there is room, with a payload in its cell (NULL, 0: none; at most what fits). A
 *  reader that looks sees it at once. */
void apus_shm_ring_put(struct apus_shm_ring_writer *ring, const struct apus_shm_desc *desc,
		       const void *payload, uint32_t payload_bytes);
/**
 * Tells a reader that is about to sleep of what was put since the last time. True if there was something.
 *
 * The tail goes out by a sequentially consistent exchange: a caller that tests a flag of the reader afterwards
 * (shm/bell.h) is ordered behind it.
 */
bool apus_shm_ring_publish(struct apus_shm_ring_writer *ring);

/** reserve(), put() and publish() in one. */
enum apus_shm_ring_result apus_shm_ring_push(struct apus_shm_ring_writer *ring,
					     const struct apus_shm_desc *desc);

/** The same with reserve_over(). */
enum apus_shm_ring_result apus_shm_ring_push_over(struct apus_shm_ring_writer *ring,
						  const struct apus_shm_desc *desc,
						  struct apus_shm_desc *displaced_out,
						  bool *has_displaced_out);

/**
 * Takes the oldest descriptor of a ring that displaces back, for its slot. NOTHING: the reader has taken them all, or
 * was quicker.
 */
enum apus_shm_ring_result apus_shm_ring_take_back(struct apus_shm_ring_writer *ring,
						  struct apus_shm_desc *displaced_out);

/** How many descriptors the reader has not taken; the whole capacity once it is broken. */
uint32_t apus_shm_ring_waiting(struct apus_shm_ring_writer *ring);

/** First word of the oldest descriptor the reader had not taken when this side last looked; there is one. */
uint64_t apus_shm_ring_oldest(const struct apus_shm_ring_writer *ring);

/** True if the writer has published more than this side has taken; also of a broken ring. */
bool apus_shm_ring_has_more(const struct apus_shm_ring_reader *ring);

/** True if there is something to be taken, or was a moment ago: for who polls. */
static inline bool apus_shm_ring_is_ready(const struct apus_shm_ring_reader *ring)
{
	size_t at = (size_t)(ring->head & (ring->capacity - 1)) * ring->cell_words;

	/* Relaxed: a hint; who takes it reads the stamp again. Behind the head are stamps of laps before. */
	return !ring->broken && apus_shm_load(&ring->out->cells[at], relaxed) > ring->head;
}

/** The oldest descriptor of a ring that pushes back; it stays until apus_shm_ring_advance(). */
enum apus_shm_ring_result apus_shm_ring_peek(struct apus_shm_ring_reader *ring,
					     struct apus_shm_desc *desc_out);
/** Copies the payload in the cell of the descriptor that peek() or look() returned; at most what fits. */
void apus_shm_ring_payload(const struct apus_shm_ring_reader *ring, void *payload_out,
			   uint32_t payload_bytes);

/** Passes over what peek returned. The writer may use its cell again after apus_shm_ring_give(). */
void apus_shm_ring_advance(struct apus_shm_ring_reader *ring);
/** Lets the writer know how far this side has come: once after any number of apus_shm_ring_advance(). */
void apus_shm_ring_give(struct apus_shm_ring_reader *ring);

/**
 * The oldest descriptor of a ring that displaces. It and its payload are this reader's once apus_shm_ring_claim() has
 * returned DONE; until then they may be overwritten while they are read. NOTHING: there is none, or the writer
 * displaces it at this moment.
 */
enum apus_shm_ring_result apus_shm_ring_look(struct apus_shm_ring_reader *ring,
					     struct apus_shm_desc *desc_out);
/**
 * Takes what look() returned out of the ring. *lost_out: how many were displaced since the last one taken. The reader
 * has the slot from then on. NOTHING: the writer was quicker, and what was read is to be forgotten. A reader comes
 * back a few times only: a writer that displaces as fast as its reader claims wins every contest.
 */
enum apus_shm_ring_result apus_shm_ring_claim(struct apus_shm_ring_reader *ring,
					      uint64_t *lost_out);

#endif
