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

#include "base/guid.h"

struct apus_dp_worker;

/** The writers' half. */
struct apus_dp_publisher {
	uint8_t access_scope; /* enum apus_access_scope */
	bool coherent_access, ordered_access;
	struct apus_eid eid; /* announced as PID_GROUP_ENTITY_ID by its writers */
	apus_seq group_seq;  /* last group number given; 0 = none */
};

/** The readers' half. */
struct apus_dp_subscriber {
	uint8_t access_scope;
	bool coherent_access, ordered_access;
	uint32_t access_depth; /* begin_access calls not ended yet */
};

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
