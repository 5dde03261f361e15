/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two workers joined by a wire in memory: datagrams sent by one are delivered to the other with chosen
 * loss, duplication and reordering, and with injected time. For protocol tests without sockets.
 *
 * Snapshots are built by hand, so that nothing of control/ takes part.
 */
#ifndef APUS_TESTS_DATAPLANE_WIRE_PAIR_H
#define APUS_TESTS_DATAPLANE_WIRE_PAIR_H

#include "dataplane/group.h"
#include "dataplane/reader.h"
#include "dataplane/worker.h"
#include "dataplane/writer.h"

#define WIRE_DATAGRAMS 512
#define WIRE_BYTES     4096

struct wire_datagram {
	uint32_t length;
	struct apus_dp_addr to;
	uint8_t bytes[WIRE_BYTES];
};

/* A one-way wire. */
struct wire {
	struct wire_datagram ring[WIRE_DATAGRAMS];
	uint32_t head, tail;
	uint32_t loss_percent, duplicate_percent, reorder_percent;
	uint64_t random;
	uint64_t sent, sent_bytes, dropped, overflow;
	struct apus_dp_addr last_to; /* where the latest was sent */
	uint32_t capacity;           /* datagrams that wait at most; 0 = WIRE_DATAGRAMS */
};

struct wire_queue {
	struct apus_dp_queue base;
	struct wire *in, *out;
};

struct wire_side {
	struct wire_queue queue;
	struct apus_dp_worker *worker;
	struct apus_prefix prefix;
};

struct wire_pair {
	struct apus_dp_epoch epoch;
	struct wire a_to_b, b_to_a;
	struct wire_side a, b;
	struct apus_mono now;
};

/** Creates both sides. */
void wire_pair_init(struct wire_pair *p, uint64_t seed);
/** The same with GUID prefixes that begin with a vendor's number (0x01ee is Apus), and another fragment
 *  size. */
void wire_pair_init_as(struct wire_pair *p, uint64_t seed, uint16_t vendor,
		       uint32_t fragment_bytes);
void wire_pair_fini(struct wire_pair *p);
void wire_set(struct wire_pair *p, uint32_t loss, uint32_t duplicate, uint32_t reorder);
/** Lets time pass in steps of 100 us, polling both sides at each. */
void wire_run(struct wire_pair *p, int64_t ns);
/** Uniform 0 … n - 1. */
uint32_t wire_random(uint64_t *state, uint32_t n);

/** A writer on side a and a reader on side b of the built-in ShapeType; key colour. */
struct wire_endpoints {
	struct apus_dp_writer *writer;
	struct apus_dp_reader *reader;
	struct apus_wire_keyplan plan;
	struct apus_dp_writer_snapshot *writer_snapshot;
	struct apus_dp_filter_index *filter_index; /* of that snapshot */
	struct apus_dp_reader_snapshot *reader_snapshot;
	uint64_t match_id;
	uint64_t generation; /* of the snapshots */
};

struct wire_options {
	bool reliable, transient_local, keep_all;
	uint32_t depth, max_samples, reader_max_samples;
	uint32_t reader_depth;       /* not 0: the reader keeps so many, whatever the writer does */
	bool by_source, by_instance; /* of the reader's history */
	const struct apus_dp_predicate *predicate; /* applied at the writer */
	/* Not 0: the writer says what became of it under this signature, and the reader, whose filter it is, too,
	 * believes it under `reader_signature`. */
	uint8_t signature, reader_signature;
	bool keyless;          /* colour is no key */
	uint32_t blob_bytes;   /* not 0: Blob instead of ShapeType, with so much data at most */
	uint32_t assembly_max; /* of the reader */
	uint32_t number;       /* of the endpoints, where there are several pairs */
	struct apus_dp_publisher *publisher; /* of the writer, or NULL */
	uint32_t batch_bytes;                /* of the writer */
	int64_t batch_delay_ns;
	uint64_t proof_secret; /* of the writer; 0: nothing is to be proved */
	uint32_t lent_slots;   /* of the writer, for readers in shared memory */
	struct apus_dp_shm_out
		*shm_out; /* the ends of the match, if it is one through shared memory */
	struct apus_dp_shm_in *shm_in;
};

void wire_endpoints_init(struct wire_pair *p, struct wire_endpoints *e,
			 const struct wire_options *options);
/** Publishes the match to writer and reader; `matched` false ends it. */
void wire_match(struct wire_pair *p, struct wire_endpoints *e, bool matched,
		const struct wire_options *options);
/** Replaces the reader, which must not be matched, by a new one; options->number is to differ. */
void wire_renew_reader(struct wire_pair *p, struct wire_endpoints *e,
		       const struct wire_options *options);
void wire_endpoints_fini(struct wire_pair *p, struct wire_endpoints *e);
/** Writes colour, x, 2x, 30. Returns what the writer returned. */
int wire_write(struct wire_pair *p, struct wire_endpoints *e, const char *color, int32_t x,
	       enum apus_change kind);
/** The same with a source time. */
int wire_write_at(struct wire_pair *p, struct wire_endpoints *e, const char *color, int32_t x,
		  enum apus_change kind, int64_t source_ns);
/** Writes a Blob with kid 1 and so many bytes of wire_blob_byte(). Returns what the writer returned. */
int wire_write_blob(struct wire_pair *p, struct wire_endpoints *e, uint32_t bytes);
static inline uint8_t wire_blob_byte(uint32_t i)
{
	return (uint8_t)(31 * i + 7);
}

#endif
