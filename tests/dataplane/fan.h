/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One writer of the ShapeType and many readers with a filter each, every reader at an address of its own (or, for
 * benches, on the writer's worker). The
 * readers are the user's: it sees each datagram and says what is acknowledged. For tests and benches of what
 * a writer does with many filters; nothing leaves the process.
 */
#ifndef APUS_TESTS_DATAPLANE_FAN_H
#define APUS_TESTS_DATAPLANE_FAN_H

#include "dataplane/filter_index.h"
#include "dataplane/reader.h"
#include "dataplane/worker.h"
#include "dataplane/writer.h"
#include "wire/key.h"

struct apus_ctl_filter_term;

struct fan_options {
	bool reliable;
	uint32_t depth; /* 0: KEEP_ALL */
	uint32_t max_samples;
	uint32_t per_address; /* readers that share an address; 0 stands for 1 */
	uint32_t batch_bytes;
	bool local;   /* readers of the writer's worker, which keep the last sample */
	bool unaware; /* these: the writer does not know their filters */
	uint32_t
		best_effort_every; /* of a reliable writer: so many readers apart one is not reliable; 0: none */
};

struct fan {
	struct apus_dp_queue queue; /* first: what the worker knows */
	struct apus_dp_epoch epoch;
	struct apus_dp_worker *worker;
	struct apus_dp_writer *writer;
	struct apus_dp_writer_snapshot *snapshot;
	struct apus_dp_reader **readers; /* local ones */
	struct apus_dp_reader_snapshot **reader_snapshots;
	bool local, unaware;
	struct apus_dp_filter_index *index;
	struct apus_dp_predicate **predicates;
	struct apus_ctl_filter_term *terms;
	struct apus_wire_keyplan plan;
	struct apus_mono now;
	uint32_t count, per_address, best_effort_every;
	uint64_t datagrams;
	/* A datagram to an address (of readers address * per_address …); NULL: they vanish. */
	void (*hear)(struct fan *fan, uint32_t address, const uint8_t *bytes, uint32_t length);
	void *user;
};

/** The expression of a reader's filter; NULL: it has none. */
typedef const char *fan_expression_fn(void *user, uint32_t reader, char text[128]);

/** Creates everything; readers are matched and have answered, so the next sample is theirs. */
void fan_init(struct fan *fan, uint32_t count, fan_expression_fn *expression, void *user,
	      const struct fan_options *options);
void fan_fini(struct fan *fan);
/** A local reader is created again, as fan_init() does it, or goes away before the writer's snapshot says so. */
void fan_join(struct fan *fan, uint32_t reader);
void fan_leave(struct fan *fan, uint32_t reader);
/** Other filters for the same readers. */
void fan_refilter(struct fan *fan, fan_expression_fn *expression);
/** Writes colour and x (y = 2x, size 30); as apus_write() does it. Returns what the writer does. */
int fan_write(struct fan *fan, const char *color, int32_t x);
/** Lets time pass and timers run. */
void fan_run(struct fan *fan, int64_t ns);
/** An ACKNACK of a reader: all up to `seq` acknowledged, the numbers in `missing` (a bit each from seq + 1 on)
 *  asked for. */
void fan_ack(struct fan *fan, uint32_t reader, apus_seq seq, uint32_t missing, uint32_t count);

#endif
