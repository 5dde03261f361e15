/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishers and subscribers in the data plane: what the endpoints of one group share. All of them belong
 * to one worker, whose turn owns the mutable state here, so nothing is locked.
 *
 * On the wire (RTPS 2.5 §8.7.5, §8.7.6, §9.6.4), which both halves keep to:
 *
 * - Each change written inside a coherent set has PID_COHERENT_SET = its writer's first number of the set.
 * - Where the publisher's scope is GROUP, every change (also outside sets, also markers) has
 *   PID_GROUP_SEQ_NUM, which counts the changes of all writers of the publisher, from 1; and inside a set
 *   PID_GROUP_COHERENT_SET = the group number the set begins with.
 * - A set ends with a marker: a DATA without payload, with a number of its own, and PID_COHERENT_SET =
 *   SEQUENCENUMBER_UNKNOWN. Topic scope: of each writer that wrote in the set. Group scope: of every
 *   writer of the publisher, with PID_GROUP_COHERENT_SET = the group number the set began with.
 * - A reader also takes any change of the writer that is not in the set for its end.
 * - A writer that is a member of a publisher announces PID_GROUP_ENTITY_ID.
 */
#ifndef APUS_DATAPLANE_GROUP_H
#define APUS_DATAPLANE_GROUP_H

#include <apus/group.h>

#include "base/clock.h"
#include "base/guid.h"
#include "dataplane/history.h"

struct apus_dp_worker;
struct apus_dp_reader;
struct apus_dp_reader_state;

/** The writers' half. */
struct apus_dp_publisher {
	uint8_t access_scope; /* enum apus_access_scope */
	bool coherent_access, ordered_access;
	struct apus_eid eid;     /* announced as PID_GROUP_ENTITY_ID by its writers */
	apus_seq group_seq;      /* last group number given; 0 = none */
	uint32_t coherent_depth; /* begin_coherent calls not ended yet */
	apus_seq
		set_first; /* group number the present set begins with; 0 = nothing written in it */
	uint32_t suspended; /* suspend calls not resumed yet */
};

/** Begins a coherent set of the publisher's writers; calls nest. Returns 0, APUS_EQOS (it offers none),
 *  APUS_ELIMIT. This and what follows: under the worker's turn. */
int apus_dp_publisher_begin(struct apus_dp_publisher *publisher);
/** Ends one; with the outermost the set is complete. Returns 0, APUS_EINVAL (none is begun). */
int apus_dp_publisher_end(struct apus_dp_publisher *publisher, struct apus_dp_worker *worker,
			  struct apus_wall source, struct apus_mono now);
/** The publisher's writers hold everything from now on; calls nest. Returns 0, APUS_ELIMIT. */
int apus_dp_publisher_suspend(struct apus_dp_publisher *publisher, struct apus_dp_worker *worker);
/** Ends one suspension; with the outermost what is held leaves. Returns 0, APUS_EINVAL (none). */
int apus_dp_publisher_resume(struct apus_dp_publisher *publisher, struct apus_dp_worker *worker,
			     struct apus_mono now);

/** The readers' half. */
struct apus_dp_subscriber {
	uint8_t access_scope;
	bool coherent_access, ordered_access;
	uint32_t access_depth; /* begin_access calls not ended yet */
	uint64_t stamp;        /* of the latest sample of all its readers; starts at 1 */
	uint64_t frozen;       /* while access_depth > 0 at group scope: what was there before */
	struct apus_dp_reader *first; /* its readers, linked by group_next */
};

/** A reader enters or leaves its subscriber's list, if it has one; under the turn. */
void apus_dp_group_join(struct apus_dp_reader *reader);
void apus_dp_group_leave(struct apus_dp_reader *reader);
/** For apus_dp_inbox_options.group_end; context is the reader. */
bool apus_dp_group_end(void *context, uint32_t slot, struct apus_mono now);
/** A change of a writer was accepted: sets of its publisher may have waited for it. */
void apus_dp_group_passed(struct apus_dp_reader_state *state, const struct apus_dp_marks *marks,
			  struct apus_mono now);
/** A match ends: sets of its publisher that it has not passed can never be complete. */
void apus_dp_group_unmatch(struct apus_dp_reader_state *state, struct apus_mono now);
/** The readers that have something, as apus_subscriber_readers(); apus_dp_reader_config.user of each. Returns
 *  their number. O(samples listed * readers^2). */
uint32_t apus_dp_group_list(struct apus_dp_subscriber *subscriber,
			    const struct apus_dp_select *select, struct apus_mono now,
			    void **users_out, uint32_t max);
/** The frozen view has ended: what came meanwhile wakes whoever waits. */
void apus_dp_group_thaw(struct apus_dp_subscriber *subscriber, struct apus_mono now);
/** Entries above this stamp are not to be seen now; 0 = all are. */
static inline uint64_t apus_dp_group_stamp_max(const struct apus_dp_subscriber *subscriber)
{
	return subscriber->access_depth && subscriber->access_scope == APUS_SCOPE_GROUP
		       ? subscriber->frozen
		       : 0;
}

/** What the public handles point to; made by control's composition root. */
struct apus_publisher {
	struct apus_dp_publisher dp;
	struct apus_participant *participant;
	struct apus_dp_worker *worker;
	uint32_t worker_idx;
	uint32_t fork_count;
	uint32_t member_count;               /* under control's lock */
	struct apus_publisher *next, **link; /* the participant's list */
};

struct apus_subscriber {
	struct apus_dp_subscriber dp;
	struct apus_participant *participant;
	struct apus_dp_worker *worker;
	uint32_t worker_idx;
	uint32_t fork_count;
	uint32_t member_count;
	struct apus_subscriber *next, **link;
};

#endif
