/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A match whose samples go through shared memory: the writer's end and the reader's end.
 *
 * The ring is one more transport under the reliable protocol, not a second protocol: a writer keeps a cursor for
 * each such reader, stops when the ring or the reader's quota of slots is full, and goes on from its history,
 * which displaces as its QoS says. The reader takes a descriptor out of the ring only when it has admitted the
 * sample, so the head of the ring is its acknowledgement. A best-effort ring displaces its oldest.
 *
 * A small payload goes in the cell of the ring, behind its descriptor: then there is no slot to be held, fetched and
 * given back, and the quota does not count it. Whether it does, the writer decides for each sample.
 *
 * A descriptor says all that is to be known of a sample but its payload:
 *
 *     word 0  sequence number
 *     word 1  the number before it that concerned this reader (0: none)
 *     word 2  slot (24 bits), flags (8 bits), payload bytes (32 bits)
 *     word 3  source time
 *
 * but for what is said of a sample beside (dataplane/marks.h), which stands in front of its slot, and ends of sets,
 * which have no slot: their number in the group's count is word 3, and how many numbers before it the set began, plus
 * one, are the 32 bits; 0: the group does not count.
 *
 * Numbers between two of a reader's that its filter rejected do not concern it. If word 1 is above the last number it
 * was given, some that did concern it will not come: they were displaced, in the ring or in the history.
 *
 * The reader copies the payload into a slot of its own before it looks at it, and gives the writer's slot back at
 * once: nothing is parsed in memory that another process can change. Payloads of a fixed layout need no parsing;
 * large ones stay where they are as long as the reader's history and its application hold them (reader_lent.c), up to
 * half of the slots the writer grants it: the other half keeps the stream going whatever the reader keeps.
 *
 * Control creates both ends and owns them; a snapshot hands them to the data plane. When the match ends control
 * keeps the writer's end until the reader has let go of it or is dead, then calls apus_dp_shm_out_drop().
 */
#ifndef APUS_DATAPLANE_SHM_MATCH_H
#define APUS_DATAPLANE_SHM_MATCH_H

#include "base/atomics.h"
#include "base/clock.h"
#include "base/guid.h"
#include "shm/bell.h"
#include "shm/pool.h"
#include "shm/returns.h"
#include "shm/ring.h"

struct apus_dp_worker;
struct apus_dp_reader_state;

/** A pool that readers of other processes map has less than so many slots: what a descriptor can name. */
#define APUS_DP_SHM_SLOTS_MAX (UINT32_C(1) << 24)

/** Flag of a descriptor beside enum apus_change: the payload is a key. */
#define APUS_DP_SHM_KEY_ONLY 0x80u
/** No sample: the writer asserts its liveliness. */
#define APUS_DP_SHM_ASSERTION 0x40u
/** There are marks in front of the slot. */
#define APUS_DP_SHM_MARKED 0x20u
/** No sample: a set ends. */
#define APUS_DP_SHM_END 0x10u
/** The payload is in the ring. There is no slot. */
#define APUS_DP_SHM_INLINE 0x08u

/** What both processes may write: the reader's half of the ring, its bell, and the slots that come back. */
struct apus_dp_shm_page {
	struct apus_shm_ring_in ring;
	struct apus_shm_bell bell;
	apus_shm_word asked, answered; /* is anybody there? The reader copies one into the other */
	uint8_t pad[112];
	apus_shm_word returned[]; /* APUS_SHM_RETURN_WORDS(slots of the pool) */
};

/** Bytes of a page for a pool of so many slots. */
size_t apus_dp_shm_page_bytes(uint32_t slot_count);

/** The writer's end. */
struct apus_dp_shm_out {
	struct apus_shm_ring_writer ring;
	struct apus_shm_held held;
	struct apus_shm_pool *pool; /* the writer's; slots the reader has are held here */
	struct apus_dp_shm_page *page;
	int bell_fd;           /* eventfd of the reader's worker; -1: it never sleeps */
	uint32_t quota;        /* slots the reader may have at a time */
	uint32_t inline_bytes; /* payloads up to here go in the ring */
	apus_seq cursor;       /* everything up to here was put into the ring, or passed over */
	apus_seq before;       /* the last number in the ring; 0: none */
	struct apus_mono
		moved; /* when the reader last got further, answered, or owed nothing; 0: never looked */
	struct apus_mono asked_at; /* when it was last asked whether it is there */
	uint64_t asked;            /* the question it has not answered; 0: none */
	uint64_t questions;        /* so far */
	uint64_t false_returns;    /* slots that came back and were not the reader's */
};

/** The reader's end. */
struct apus_dp_shm_in {
	struct apus_shm_ring_reader ring;
	struct apus_dp_shm_page *page;
	const uint8_t *slots; /* the writer's pool */
	uint32_t slot_bytes, slot_count;
	uint32_t payload_bytes_max; /* that fit into a slot */
	uint32_t inline_bytes;      /* that fit into a cell of the ring */
	uint32_t lend_max;          /* slots that may stay with the reader's history */
	bool ended;                 /* the match has; under the turn */
	/* Slots that stay. Changed under the turn; as long as there are any, control leaves the memory mapped. */
	_Atomic uint32_t lent;
};

/** Prepares a writer's end; `out` and `page` are zeroed shared memory, the ring has cells for payloads of at least
 *  inline_bytes (apus_shm_ring_bytes()). Returns 0, APUS_EINVAL (sizes) or
 *  APUS_ENOMEM. Control. */
int apus_dp_shm_out_init(struct apus_dp_shm_out *end, struct apus_shm_ring_out *out,
			 struct apus_dp_shm_page *page, uint32_t capacity, uint32_t inline_bytes,
			 struct apus_shm_pool *pool, uint32_t quota, int bell_fd);
/** The reader has let go, or is dead: its slots are free. Under the turn of the writer's worker. */
void apus_dp_shm_out_drop(struct apus_dp_shm_out *end);
/** Frees private memory; after apus_dp_shm_out_drop(). A zeroed one is allowed. */
void apus_dp_shm_out_fini(struct apus_dp_shm_out *end);

/** Prepares a reader's end over mapped memory. quota: slots that the writer grants. Returns 0 or APUS_EINVAL: sizes
 *  that contradict each other, or more than `slots_bytes` holds. Control. */
int apus_dp_shm_in_init(struct apus_dp_shm_in *end, const struct apus_shm_ring_out *out,
			struct apus_dp_shm_page *page, uint32_t capacity, uint32_t inline_bytes,
			const uint8_t *slots, size_t slots_bytes, uint32_t slot_bytes,
			uint32_t slot_count, uint32_t quota);

/* ---- reader: reader_shm.c, under the turn ---------------------------------------------------------- */

/** Takes samples out of all rings of a worker, a burst of each. Returns how many. */
int apus_dp_shm_receive(struct apus_dp_worker *worker, struct apus_mono now);
/** The set that kept a match from going on is out of the way: it is looked at again. */
void apus_dp_shm_unstall(struct apus_dp_reader_state *state);
/** Before a worker sleeps: asks all writers to wake it. False: something has come; do not sleep. */
bool apus_dp_shm_doze(struct apus_dp_worker *worker);
/** Awake again. */
void apus_dp_shm_awake(struct apus_dp_worker *worker);

#endif
