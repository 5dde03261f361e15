/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the graph share: graph.c (tables, participants, removal), graph_admit.c (admission
 * and refresh of endpoints) and graph_match.c (who fits whom, and the matches themselves).
 */
#ifndef APUS_CONTROL_GRAPH_INTERNAL_H
#define APUS_CONTROL_GRAPH_INTERNAL_H

#include "control/graph.h"
#include "control/hashtable.h"

/** Built-in endpoints of one participant. */
#define BUILTIN_COUNT 12

/** All endpoints of one topic and type; members in four lists, [is_writer][is_local], oldest first. */
struct apus_ctl_group {
	uint32_t topic_bits; /* of the hash of the topic */
	uint32_t next_free;
	uint32_t count[2][2];
	uint32_t first[2][2], last[2][2];
};

/** Free slots of an array: those given back, last first, then those never used, which are not touched
 *  before that. */
struct apus_ctl_free {
	uint32_t first;  /* given back; linked through the slots */
	uint32_t unused; /* lowest slot never used */
};

/** Where the group of a topic and type is, or belongs. */
struct apus_ctl_group_place {
	uint32_t idx; /* APUS_CTL_NONE: there is none yet */
	uint32_t topic_bits;
};

/** What a candidate came to, between counting and committing. */
struct apus_ctl_verdict {
	uint32_t idx;
	int policy; /* APUS_POLICY_NONE: match it */
};

struct apus_ctl_graph {
	struct apus_ctl_graph_config config;
	struct apus_ctl_graph_counters counters;

	struct apus_ctl_participant *participants; /* [0] is ourselves */
	uint32_t participant_count;                /* remote ones */
	struct apus_ctl_free participant_free;
	uint32_t participant_first, participant_last;
	struct apus_ctl_table participant_table;

	struct apus_ctl_endpoint *endpoints;
	uint32_t endpoint_capacity;
	struct apus_ctl_free endpoint_free;
	uint32_t first[2], last[2];      /* [is_local] in order of admission */
	uint32_t user_count[2][2];       /* [is_local][is_writer], without built-in ones */
	uint32_t builtin[BUILTIN_COUNT]; /* our own, APUS_CTL_NONE where not added */
	struct apus_ctl_table endpoint_table;
	uint64_t record_bytes;

	struct apus_ctl_group *groups;
	struct apus_ctl_free group_free;
	struct apus_ctl_table group_table;

	struct apus_ctl_match *matches;
	uint32_t match_capacity; /* built-in ones included */
	struct apus_ctl_free match_free;
	uint32_t match_count; /* without built-in ones */
	uint64_t match_last_id;
	struct apus_ctl_table match_table;
	uint64_t freed;   /* grows with every end of a match or an endpoint */
	bool match_ended; /* since the last refill */
	uint32_t starved_count;

	uint32_t dirty_first, dirty_last;
	struct apus_ctl_verdict *verdicts; /* scratch, one per endpoint */

	void (*match_end)(void *user, const struct apus_ctl_match *match);
	void *match_end_user;
};

/** What the record of an endpoint takes of the budget. */
static inline size_t apus_ctl_graph_kept_bytes(const struct apus_ctl_endpoint *e)
{
	return e->locators ? (size_t)((const char *)(e->locators + 1) - (const char *)e->record)
			   : apus_wire_endpoint_record_bytes(e->record);
}

static inline struct apus_ctl_endpoint *endpoint_at(const struct apus_ctl_graph *g, uint32_t idx)
{
	return &g->endpoints[idx];
}

/* ---- graph_match.c ---- */

/** Judges every candidate of a record, into g->verdicts; returns their number. With `self`, pairs already
 *  matched are left out. is_local: the record is of a local endpoint. */
uint32_t apus_ctl_graph_judge(struct apus_ctl_graph *g, uint32_t group,
			      const struct apus_wire_endpoint_record *record, bool is_local,
			      const struct apus_ctl_endpoint *self);
/** Number of matches the verdicts would make for an endpoint with room for `room` of them. */
uint32_t apus_ctl_graph_wanted(const struct apus_ctl_graph *g, uint32_t verdict_count,
			       uint32_t room);
/** Tells an endpoint, if it is local, of the policy at which it failed with another, if that is one of QoS. */
void apus_ctl_graph_tell_incompatible(struct apus_ctl_graph *g, struct apus_ctl_endpoint *endpoint,
				      const struct apus_ctl_endpoint *other, int policy);
/** Tells the local counterparts with which an endpoint failed at a QoS policy (DDS 1.4 §2.2.4.1), and the endpoint
 *  of them if it is new. A later version of its record is news to the counterparts only. */
void apus_ctl_graph_count_incompatible(struct apus_ctl_graph *g, struct apus_ctl_endpoint *endpoint,
				       uint32_t verdict_count, bool is_new);
/** Makes the matches the verdicts ask for, as far as there is room, and counts the others. */
void apus_ctl_graph_apply(struct apus_ctl_graph *g, struct apus_ctl_endpoint *endpoint,
			  uint32_t verdict_count);
/** Ends the matches of an endpoint for which `end` says so; NULL: all. leaves: it is about to leave the graph. */
void apus_ctl_graph_unmatch(struct apus_ctl_graph *g, struct apus_ctl_endpoint *endpoint,
			    bool (*end)(const struct apus_ctl_graph *g,
					const struct apus_ctl_match *match),
			    bool leaves);
/** Puts all local counterparts of an endpoint into the dirty list, and itself if it is local. */
void apus_ctl_graph_touch(struct apus_ctl_graph *g, struct apus_ctl_endpoint *endpoint);
/** The same, but what those it is matched with are marked for is `dirty`. */
void apus_ctl_graph_touch_as(struct apus_ctl_graph *g, struct apus_ctl_endpoint *endpoint,
			     uint32_t dirty);
/** Gives room that has become free to local endpoints that went without. At the end of public calls. */
void apus_ctl_graph_refill(struct apus_ctl_graph *g);
/** Matches two built-in endpoints unless they are. Room is certain. */
void apus_ctl_graph_match_builtin(struct apus_ctl_graph *g, struct apus_ctl_endpoint *ours,
				  struct apus_ctl_endpoint *theirs);

/* ---- graph.c ---- */

/** The bits of a record's topic that the table of groups works with. */
uint32_t apus_ctl_graph_topic_bits(const struct apus_ctl_graph *g,
				   const struct apus_wire_endpoint_record *record);
/** Finds the group of a topic and type. */
struct apus_ctl_group_place apus_ctl_graph_group(const struct apus_ctl_graph *g,
						 const struct apus_wire_endpoint_record *record,
						 uint32_t topic_bits);
/** Counts how many endpoints, local and remote, use the topic with another type, and tells the local ones of
 *  them. is_local: whose record it is. Returns the number if it is ours. */
uint32_t apus_ctl_graph_inconsistent(struct apus_ctl_graph *g,
				     const struct apus_wire_endpoint_record *record,
				     struct apus_ctl_group_place own, bool is_local);
/** Takes a slot and links it everywhere but into a group. The slot is certain to be there. */
struct apus_ctl_endpoint *apus_ctl_graph_link(struct apus_ctl_graph *g,
					      const struct apus_guid *guid,
					      struct apus_ctl_participant *participant,
					      bool is_writer, bool is_builtin);
/** Links an endpoint with its record into its group, which is made if need be. */
void apus_ctl_graph_link_group(struct apus_ctl_graph *g, struct apus_ctl_endpoint *endpoint,
			       struct apus_ctl_group_place place);
/** Resolves the addresses of an endpoint anew; true if they changed. */
bool apus_ctl_graph_resolve(const struct apus_ctl_graph *g, struct apus_ctl_endpoint *endpoint);

#endif
