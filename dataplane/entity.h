/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the public handles of writers and readers point to: the data plane's object, and what a data call
 * needs beside it. Made and unmade by control's composition root; data calls (dataplane/api_*.c) only use
 * what is here.
 */
#ifndef APUS_DATAPLANE_ENTITY_H
#define APUS_DATAPLANE_ENTITY_H

#include <apus/participant.h>
#include <apus/status.h>

#include "dataplane/batch_time.h"
#include "dataplane/group.h"
#include "dataplane/reader.h"
#include "dataplane/worker.h"
#include "dataplane/writer.h"
#include "wire/fixed.h"

struct apus_ctl_endpoint;

/** Longest name of a filter class. */
#define APUS_CTL_CLASS_BYTES 255
struct apus_condition;

/**
 * The listening of one endpoint. A status goes to the endpoint's own callback, else to the participant's; so
 * there are two watches with disjoint masks, and one cursor serves both. Only endpoints that somebody listens to have
 * one.
 */
struct apus_dp_listening {
	struct apus_dp_watch own, inherited;
	struct apus_listener listener; /* its own; zero = none */
	struct apus_observer seen;
	struct apus_dp_listening *next, **link; /* of the participant; under the listeners' lock */
	bool is_writer;
	union {
		struct apus_writer *writer;
		struct apus_reader *reader;
	};
};

struct apus_writer {
	struct apus_dp_writer *dp;
	struct apus_dp_worker *worker;
	const struct apus_type *type;
	const struct apus_wire_keyplan *plan; /* shared */
	int representation;                   /* enum apus_representation */
	struct apus_wire_fixed fixed;         /* the type's layout under it, if that is fixed */
	_Atomic bool autodispose;             /* set under control's lock */
	struct apus_qos qos; /* complete, without partitions; under control's lock */
	int64_t max_blocking_ns;
	struct apus_dp_batch_time batch_time;
	uint32_t loan_max;
	uint32_t loan_count; /* under the turn */
	size_t scratch_bytes; /* of the worker's scratch: a decoded sample and its arena, apus_write_cdr() */
	uint32_t fork_count; /* of its maker; see apus_dp_alive() */
	struct apus_participant *participant;
	struct apus_ctl_endpoint *endpoint;
	struct apus_publisher *publisher;    /* NULL: a group of its own */
	struct apus_writer *next, **link;    /* the participant's list */
	struct apus_dp_board board;          /* written under control's lock */
	struct apus_dp_listening *listening; /* NULL: nobody listens; under the listeners' lock */
	bool deaf;                           /* likewise: being deleted */
	struct apus_condition *conditions;   /* under control's lock */
	char topic[];
};

struct apus_reader {
	struct apus_dp_reader *dp;
	struct apus_dp_worker *worker;
	const struct apus_type *type;
	uint8_t *
		values; /* the arena of apus_take_next() and its like; first of what is behind this struct */
	uint32_t value_bytes;
	uint32_t fork_count;
	uint64_t filter_generation; /* under control's lock */
	struct apus_qos qos;        /* as in struct apus_writer */
	const char *filter_class;   /* behind this struct, as `topic` */
	struct apus_participant *participant;
	struct apus_ctl_endpoint *endpoint;
	struct apus_subscriber *subscriber; /* NULL: a group of its own */
	struct apus_reader *next, **link;
	struct apus_dp_board board; /* as in struct apus_writer */
	struct apus_dp_listening *listening;
	bool deaf;
	struct apus_condition *conditions;
	const char *topic;
};

/** How often this process image has been forked from one that used Apus; set by an atfork handler. */
extern uint32_t apus_dp_fork_count;
/** Installs the atfork handler once. Any thread. */
void apus_dp_fork_guard(void);

/** False in a child of the process that made the handle: there it is dead. */
static inline bool apus_dp_alive(uint32_t fork_count)
{
	return APUS_LIKELY(fork_count == apus_dp_fork_count);
}

/** api_reader.c: a take or read of samples that satisfy `query` (NULL: all) besides. */
int apus_dp_access(struct apus_reader *r, struct apus_sample *samples_out, uint32_t max,
		   const struct apus_select *select, const struct apus_dp_predicate *query,
		   bool take);
/** api_loan.c: the slot that was lent as `sample`, or APUS_SHM_NO_SLOT. Under the turn. */
uint32_t apus_dp_loan_slot(const struct apus_writer *w, const void *sample);
/** Passes time while a call waits: polls a driven worker, else sleeps a little. Not under the turn. */
void apus_dp_pass_time(struct apus_dp_worker *worker);
/** The same for a call that gives up at that instant: it is not slept through. */
void apus_dp_pass_time_until(struct apus_dp_worker *worker, struct apus_mono until);

#endif
