/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring of packets of any length between two processes: one producer, one consumer, the bytes themselves in the ring.
 *
 * Both map all of it writable, and neither trusts the other: each end keeps its own position to itself and only ever
 * reads the other's. What it reads is copied once, checked, and the copy is used; a position or a record that cannot
 * be makes every later call of that end return APUS_SHM_BROKEN.
 *
 *     head <= tail <= head + capacity       counts of bytes that never wrap; place = position & (capacity - 1)
 *
 * A record is a header of 32 bytes and its bytes, padded to 64, and never split: one that does not fit behind the last
 * is put at the beginning, with a record in front of it that says so. So at least half of the ring can be in one
 * packet. Packets are taken in order and given back in order.
 *
 * The bytes of a packet are in memory that the producer can still change: who parses them checks what it copies, or
 * does not care.
 *
 * Thread rule: one thread at a time on each end. Constant time but for copying, no allocation, no system call.
 */
#ifndef APUS_SHM_PACKETS_H
#define APUS_SHM_PACKETS_H

#include "shm/ring.h"

/** Bytes of a record's header, and what records are padded to. */
#define APUS_SHM_PACKET_HEADER 32u
#define APUS_SHM_PACKET_ALIGN  64u
/** Words in a header that mean something to the two ends only. */
#define APUS_SHM_PACKET_WORDS 3

/** The shared half in front of the bytes. Each word has a line, and the one beside it, for itself. */
struct apus_shm_packets {
	apus_shm_word tail; /* the producer's */
	uint8_t pad0[120];
	apus_shm_word head; /* the consumer's */
	uint8_t pad1[120];
	apus_shm_word asleep; /* the consumer sleeps, or is about to */
	uint8_t pad2[120];
	uint8_t bytes[];
};

/** A packet as an end handles it. */
struct apus_shm_packet {
	uint32_t length;
	uint32_t mark;                        /* the producer's, opaque */
	uint64_t word[APUS_SHM_PACKET_WORDS]; /* likewise */
	uint8_t *bytes;                       /* `length` of them, 32-byte aligned, in the ring */
	uint64_t end;                         /* consumer: the position behind it */
};

/** The producer's end, private memory. */
struct apus_shm_packet_producer {
	struct apus_shm_packets *shared;
	uint64_t capacity;
	uint64_t tail;      /* written so far */
	uint64_t published; /* of it visible */
	uint64_t head;      /* as seen last */
	bool broken;
};

/** The consumer's end, private memory. */
struct apus_shm_packet_consumer {
	struct apus_shm_packets *shared;
	uint64_t capacity;
	uint64_t next; /* position of the next packet to take */
	uint64_t head; /* given back up to here */
	uint64_t tail; /* as seen last */
	bool broken;
};

/** Bytes of memory for a ring of `capacity` bytes, a power of two of 4 KiB…1 GiB; 0 for another number. */
size_t apus_shm_packets_bytes(uint64_t capacity);

/** Attaches an end to zeroed memory. */
void apus_shm_packet_producer_init(struct apus_shm_packet_producer *end,
				   struct apus_shm_packets *shared, uint64_t capacity);
void apus_shm_packet_consumer_init(struct apus_shm_packet_consumer *end,
				   struct apus_shm_packets *shared, uint64_t capacity);

/**
 * Finds room for a packet of `length` bytes: DONE, with packet_out->bytes to be filled; NOTHING if there is none now;
 * BROKEN. Nothing is visible until apus_shm_packet_commit() and then apus_shm_packet_publish().
 */
enum apus_shm_ring_result apus_shm_packet_reserve(struct apus_shm_packet_producer *end,
						  uint32_t length,
						  struct apus_shm_packet *packet_out);

/** Ends the packet that was reserved: writes its header. */
void apus_shm_packet_commit(struct apus_shm_packet_producer *end,
			    const struct apus_shm_packet *packet);

/** Shows what has been committed to the consumer. True: the consumer sleeps, and this caller is to wake it. */
bool apus_shm_packet_publish(struct apus_shm_packet_producer *end);

/** The next packet; it stays the consumer's until it is given back. DONE, NOTHING, BROKEN. */
enum apus_shm_ring_result apus_shm_packet_take(struct apus_shm_packet_consumer *end,
					       struct apus_shm_packet *packet_out);

/** Gives back all packets up to the position `end` of one that was taken. */
void apus_shm_packet_give_back(struct apus_shm_packet_consumer *end, uint64_t position);

/** Says that the consumer will sleep. False: there is a packet already; do not. */
bool apus_shm_packet_doze(struct apus_shm_packet_consumer *end);

/** Awake again. */
static inline void apus_shm_packet_wake(struct apus_shm_packet_consumer *end)
{
	/* Relaxed: a needless ring costs one more look. */
	apus_shm_store(&end->shared->asleep, 0, relaxed);
}

/** True if there is something to take; also of a broken ring. */
bool apus_shm_packet_has_more(const struct apus_shm_packet_consumer *end);

#endif
