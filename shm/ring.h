/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring of descriptors from one writer to one reader in another process. A descriptor names a slot of the
 * writer's pool; the payload itself never moves.
 *
 * Who may write what: the cells and the tail lie in memory of the writer that the reader maps read-only; the
 * head lies in a page both write. Positions are 64-bit counts that never wrap; cell = position & mask.
 *
 *     head <= tail <= head + capacity                     the ring, at all times
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

/** Words of a descriptor; two descriptors fit into a cache line. */
#ifndef APUS_SHM_DESC_WORDS
#define APUS_SHM_DESC_WORDS 4
#endif

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
	uint8_t pad
		[120]; /* the reader polls the tail: nothing else in its line or the neighbouring one */
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
	uint64_t head; /* as seen last: there is at least room up to it */
	uint32_t capacity;
	bool broken;
};

/** The reader's end, private memory. */
struct apus_shm_ring_reader {
	const struct apus_shm_ring_out *out;
	struct apus_shm_ring_in *in;
	uint64_t head;    /* the next position to take, as far as this side knows */
	uint64_t tail;    /* as seen last */
	uint64_t claimed; /* behind the last one claimed: what lies between was displaced */
	uint32_t capacity;
	bool broken;
};

/** Bytes of the writer's half for a power of two of cells; 0 for another number, or more than 2^20. */
size_t apus_shm_ring_bytes(uint32_t capacity);

/** Attaches an end to zeroed halves (position 0). capacity: as given to apus_shm_ring_bytes(). */
void apus_shm_ring_writer_init(struct apus_shm_ring_writer *ring, struct apus_shm_ring_out *out,
			       struct apus_shm_ring_in *in, uint32_t capacity);
void apus_shm_ring_reader_init(struct apus_shm_ring_reader *ring,
			       const struct apus_shm_ring_out *out, struct apus_shm_ring_in *in,
			       uint32_t capacity);

/**
 * Appends a descriptor, visible to the reader at once. DONE; NOTHING if the ring is full (nothing has
 * changed); BROKEN.
 *
 * The tail goes out by a sequentially consistent exchange: a caller that tests a flag of the reader afterwards
 * (shm/bell.h) is ordered behind it.
 */
enum apus_shm_ring_result apus_shm_ring_push(struct apus_shm_ring_writer *ring,
					     const struct apus_shm_desc *desc);

/**
 * Appends to a ring that displaces. If it is full its oldest descriptor comes back in *displaced_out and
 * *displaced_out_valid is set: the caller has its slot again. DONE or BROKEN.
 */
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

/** True if the writer has published more than this side has taken; also of a broken ring. */
bool apus_shm_ring_has_more(const struct apus_shm_ring_reader *ring);

/** The oldest descriptor of a ring that pushes back; it stays until apus_shm_ring_advance(). */
enum apus_shm_ring_result apus_shm_ring_peek(struct apus_shm_ring_reader *ring,
					     struct apus_shm_desc *desc_out);

/** Takes what peek returned out of the ring: the writer may use its cell again. */
void apus_shm_ring_advance(struct apus_shm_ring_reader *ring);

/**
 * Takes the oldest descriptor of a ring that displaces. *lost_out: how many were displaced since the last one
 * taken. The reader has the slot from then on. At most a few attempts when the writer displaces at the same time;
 * then NOTHING, and the caller comes back.
 */
enum apus_shm_ring_result apus_shm_ring_claim(struct apus_shm_ring_reader *ring,
					      struct apus_shm_desc *desc_out, uint64_t *lost_out);

#endif
