/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The discovery graph: participants, endpoints and matches, within capacities fixed at creation.
 *
 * Iteration follows the order of admission, the same on every machine. Tables beside it find an endpoint
 * by GUID, a participant by prefix, the candidates of an endpoint by topic, a match by its pair. A pair
 * is matched at most once. A match's id is never used again, so whoever keys state by it never confuses
 * a match with its successor.
 *
 * Admission: a known key is refreshed in the slot it holds; a new one needs room in its table, in the
 * byte budget of records and in the match table for all the matches it would make, and all of that is
 * checked before anything is written. A refusal changes nothing but the counter of its reason.
 *
 * What changed is pulled, not pushed: an endpoint of ours whose matches (or their addresses, filters, or
 * its statuses) changed stands in the dirty list until apus_ctl_graph_take_dirty() hands it out.
 *
 * Thread rule: calls are serialised by control's lock. No clock, no I/O. Memory is allocated at creation,
 * but for one block per endpoint record, when its contents grow.
 */
#ifndef APUS_CONTROL_GRAPH_H
#define APUS_CONTROL_GRAPH_H

#include "base/clock.h"
#include "control/locators.h"
#include "dataplane/snapshot.h"
#include "wire/record.h"

struct apus_type;
struct apus_ctl_graph;

/** Index that stands for "none". */
#define APUS_CTL_NONE UINT32_MAX

/** Entity ids of the built-in endpoints (RTPS 2.5 table 9.4). */
#define APUS_CTL_EID_PARTICIPANT          0x000001c1u
#define APUS_CTL_EID_SPDP_WRITER          0x000100c2u
#define APUS_CTL_EID_SPDP_READER          0x000100c7u
#define APUS_CTL_EID_PUBLICATIONS_WRITER  0x000003c2u
#define APUS_CTL_EID_PUBLICATIONS_READER  0x000003c7u
#define APUS_CTL_EID_SUBSCRIPTIONS_WRITER 0x000004c2u
#define APUS_CTL_EID_SUBSCRIPTIONS_READER 0x000004c7u
#define APUS_CTL_EID_MESSAGE_WRITER       0x000200c2u
#define APUS_CTL_EID_MESSAGE_READER       0x000200c7u
/* The TypeLookup service (XTypes 1.3 §7.6.3.3.4). */
#define APUS_CTL_EID_TYPE_REQUEST_WRITER 0x000300c3u
#define APUS_CTL_EID_TYPE_REQUEST_READER 0x000300c4u
#define APUS_CTL_EID_TYPE_REPLY_WRITER   0x000301c3u
#define APUS_CTL_EID_TYPE_REPLY_READER   0x000301c4u

/** How types are compared beyond their names. */
struct apus_ctl_type_rule {
	bool strict; /**< an absent type hash never matches */
	/** Both have told their type, and it is not the same: APUS_POLICY_NONE if the reader's is assignable
	 *  from the writer's, else what it fails at. NULL: never. The answer may change later; then
	 *  apus_ctl_graph_types_changed() looks again. */
	int (*assignable)(void *user, const struct apus_wire_endpoint_record *writer,
			  const struct apus_wire_endpoint_record *reader);
	void *user;
};

/** What the graph needs to know when it is made. */
struct apus_ctl_graph_config {
	struct apus_prefix prefix; /**< our own */
	uint32_t participants;     /**< remote ones */
	uint32_t local_endpoints;  /**< without built-in ones */
	uint32_t remote_writers;
	uint32_t remote_readers;
	uint32_t record_bytes;         /**< of all endpoint records together */
	uint32_t matches;              /**< without those of built-in endpoints */
	uint32_t matches_per_endpoint; /**< where qos.max_matches is 0 */
	struct apus_ctl_type_rule types;
	/** Match the endpoints of a participant, and route to an address, only after
	 *  apus_ctl_graph_prove(); false: everything counts as proved. */
	bool await_proof;
	uint64_t
		hash_seed; /**< random: keeps strangers from choosing colliding keys; no other effect */
	struct apus_ctl_locator_policy locators;
};

/** What a participant is to us. */
enum apus_ctl_role {
	APUS_CTL_PEER = 0, /**< speaks for itself */
	/** A Discovery Server of ours: tells of others, speaks SPDP with us reliably, and is reached where the
	 *  configuration says. */
	APUS_CTL_SERVER = 1,
	/** Known by the word of such a server only: no SPDP and no SEDP with it. */
	APUS_CTL_RELAYED = 2,
};

/** Where an announcement comes from, and what that makes of the participant. */
struct apus_ctl_source {
	enum apus_ctl_role role;
	struct apus_dp_addr from;   /**< family 0: unknown */
	struct apus_dp_addr server; /**< APUS_CTL_SERVER: where it is reached */
};

/** A participant. Read-only outside graph.c and discovery.c. */
struct apus_ctl_participant {
	enum apus_ctl_role role;
	struct apus_dp_addr server; /**< a server's address as configured; else family 0 */
	struct apus_wire_participant_record record; /**< with its prefix */
	uint32_t idx;                               /**< its slot, below the capacity + 1 */
	bool local;                                 /**< this participant */
	bool same_host;                             /**< its announcements come from this host */
	bool proved;                                /**< it has answered: its endpoints may match */
	struct apus_dp_addr proof; /**< the address it answered at; family 0 = none */
	struct apus_dp_addr from;  /**< where it last announced itself; family 0 = unknown */
	uint32_t endpoint_count;   /**< built-in ones not counted */
	struct apus_dp_addr
		metatraffic;     /**< where its discovery traffic goes; family 0 = nowhere */
	uint32_t next, prev;     /**< order of admission; free list */
	uint32_t first_endpoint; /**< its endpoints, newest first, linked by of_participant */
};

/** How a local endpoint hangs in the data plane. Copied; everything it points to outlives the endpoint. */
struct apus_ctl_local {
	void *owner;                             /**< the domain's own object */
	struct apus_dp_writer_port *writer_port; /**< writers */
	struct apus_dp_reader_port *reader_port; /**< readers */
	const struct apus_type *type;            /**< NULL for built-in endpoints */
	struct apus_dp_board *board;             /**< its statuses are shown here; may be NULL */
	uint32_t context; /**< which worker evaluates custom filters for it */
};

/** Why a local endpoint stands in the dirty list (bits). */
#define APUS_CTL_DIRTY_MATCHES 1u /**< matches, their addresses or filters: publish */
#define APUS_CTL_DIRTY_STATUS  2u /**< incompatible QoS, inconsistent topic */
/** Writers: nothing is new but the filters of readers that stay, or which readers of this process are still there.
 *  The data plane can do without this for a while: see apus_ctl_publisher_turn_at(). */
#define APUS_CTL_DIRTY_FILTERS 4u

/** An endpoint, ours or another's. Read-only outside graph.c. */
struct apus_ctl_endpoint {
	struct apus_guid guid;
	uint32_t idx; /**< its slot, below apus_ctl_graph_endpoint_capacity() */
	bool is_writer;
	bool is_local;
	bool is_builtin;             /**< has no record; reliable and transient-local */
	struct apus_ctl_local local; /**< if is_local */
	struct apus_ctl_participant *participant; /**< never NULL */
	struct apus_wire_endpoint_record
		*record; /**< compact: up to the text that is used; owned by the graph */
	const struct apus_wire_endpoint_locators *locators; /**< behind it; NULL: it has none */
	apus_seq
		generation; /**< SEDP sequence number of the record; the generation of its filter */
	struct apus_dp_addr unicast; /**< where traffic to it goes, resolved; family 0 = nowhere */
	struct apus_dp_addr multicast;       /**< family 0 = none */
	enum apus_ctl_locator_reason reason; /**< why `unicast` is what it is */

	/* Matches: first … last of a list walked with apus_ctl_graph_next_match(). */
	uint32_t first_match, last_match;
	uint32_t match_count;
	uint32_t match_limit;

	/* Statuses of local endpoints: cumulative, never fall. */
	uint64_t matched_total;       /**< arrivals (DDS total_count) */
	uint64_t transitions;         /**< arrivals and departures */
	uint64_t incompatible_total;  /**< once for each version of the other endpoint */
	int incompatible_policy;      /**< the last one, enum apus_policy */
	uint64_t inconsistent_topics; /**< same topic, other type */

	uint32_t dirty; /**< APUS_CTL_DIRTY_… */
	bool starved;   /**< a match was refused for want of room; looked at again when one ends */

	/* Links. */
	uint32_t next, prev; /**< order of admission, local and remote apart; free list */
	uint32_t of_participant_next, of_participant_prev;
	uint32_t group;                  /**< topic and type */
	uint32_t group_next, group_prev; /**< same topic, type, kind and side */
	uint32_t dirty_next, dirty_prev;
};

/** A matched pair; at least one side is local. Read-only outside graph.c. */
struct apus_ctl_match {
	uint64_t id; /**< never 0, never used again */
	uint32_t idx;
	uint32_t writer, reader;           /**< endpoint slots */
	uint32_t writer_next, writer_prev; /**< matches of the writer */
	uint32_t reader_next, reader_prev; /**< matches of the reader */
	uint32_t next_free;
};

/** Counters: what was refused, and why. One write each, under control's lock. */
struct apus_ctl_graph_counters {
	struct apus_counter refused_participants; /**< table full */
	struct apus_counter refused_local;        /**< table of local endpoints full */
	struct apus_counter refused_writers;      /**< table of remote writers full */
	struct apus_counter refused_readers;
	struct apus_counter refused_bytes;   /**< byte budget of records spent, or no memory */
	struct apus_counter refused_matches; /**< endpoint refused: no room for its matches */
	struct apus_counter refused_qos;     /**< contradicts itself */
	struct apus_counter refused_orphans; /**< its participant is not known */
	struct apus_counter
		unmatched_full;    /**< one match left out: an endpoint's own limit, or a refresh */
	struct apus_counter stale; /**< older than what is known; ignored */
};

/** Results of admission beside negative APUS_E…. */
enum apus_ctl_admission {
	APUS_CTL_ADMITTED = 1,  /**< new */
	APUS_CTL_CHANGED = 2,   /**< known, and something in it changed */
	APUS_CTL_UNCHANGED = 3, /**< known; nothing happened */
};

/** Creates a graph that holds only the local participant `self`. Returns 0, APUS_EINVAL or APUS_ENOMEM. */
int apus_ctl_graph_create(const struct apus_ctl_graph_config *config,
			  const struct apus_wire_participant_record *self,
			  struct apus_ctl_graph **graph_out);
/** Destroys a graph and every record in it; NULL is allowed. Ports are not touched. */
void apus_ctl_graph_destroy(struct apus_ctl_graph *graph);

/**
 * Admits or refreshes a remote participant and matches the built-in endpoints it has with ours.
 * same_host: the announcement came from this host. Returns enum apus_ctl_admission, APUS_ELIMIT (full),
 * APUS_EINVAL (our own prefix). *participant_out (may be NULL) is set unless it fails.
 */
int apus_ctl_graph_add_participant(struct apus_ctl_graph *graph,
				   const struct apus_wire_participant_record *record,
				   bool same_host, struct apus_ctl_participant **participant_out);
/** The same for an announcement from this address: whether that is this host follows from it. */
int apus_ctl_graph_add_participant_from(struct apus_ctl_graph *graph,
					const struct apus_wire_participant_record *record,
					const struct apus_dp_addr *from,
					struct apus_ctl_participant **participant_out);
/** The same for one that may be something else than a peer. A participant may become a peer or a server after
 *  having been relayed: what is known of its endpoints stays until it speaks of them itself. */
int apus_ctl_graph_add_participant_as(struct apus_ctl_graph *graph,
				      const struct apus_wire_participant_record *record,
				      const struct apus_ctl_source *source,
				      struct apus_ctl_participant **participant_out);
/** Replaces what can be reached (interfaces changed): every address is chosen anew. */
void apus_ctl_graph_set_policy(struct apus_ctl_graph *graph,
			       const struct apus_ctl_locator_policy *policy);
/** The participant has answered at its metatraffic address: its endpoints match from now on, and traffic may
 *  go to the host of that address. Again after the address has changed. Without await_proof no effect. */
void apus_ctl_graph_prove(struct apus_ctl_graph *graph, struct apus_ctl_participant *participant);
/** Replaces what is known of ourselves (locators changed); the prefix stays. */
void apus_ctl_graph_set_self(struct apus_ctl_graph *graph,
			     const struct apus_wire_participant_record *record);
/** Removes a participant, its endpoints and their matches in one pass. Returns 0 or APUS_ENOENT. */
int apus_ctl_graph_remove_participant(struct apus_ctl_graph *graph,
				      const struct apus_prefix *prefix);

/**
 * Adds one of our built-in endpoints; is_writer follows from the entity id. It is matched with the
 * counterparts of every participant that announces them. Returns 0, APUS_EINVAL, APUS_EEXIST.
 */
int apus_ctl_graph_add_builtin(struct apus_ctl_graph *graph, struct apus_eid eid,
			       const struct apus_ctl_local *local,
			       struct apus_ctl_endpoint **endpoint_out);

/**
 * Admits or refreshes an endpoint.
 *
 * local: NULL for another participant's; for ours, how it hangs in the data plane (on a refresh only
 * the record is taken). generation: SEDP sequence number, at least 1; a remote record that is not newer
 * than the known one is ignored (UNCHANGED, counted stale). On a refresh, matches that no longer fit
 * end and new ones are made as far as there is room.
 * Returns enum apus_ctl_admission, APUS_ELIMIT, APUS_EQOS (contradicts itself), APUS_ENOENT (participant
 * unknown), APUS_EIMMUTABLE (kind, topic or type differ from the known endpoint's), APUS_EINVAL (local
 * does not agree with the prefix).
 */
int apus_ctl_graph_add_endpoint(struct apus_ctl_graph *graph,
				const struct apus_wire_endpoint_record *record,
				const struct apus_ctl_local *local, apus_seq generation,
				struct apus_ctl_endpoint **endpoint_out);
/** Removes an endpoint and its matches; it leaves the dirty list too. Returns 0 or APUS_ENOENT. */
int apus_ctl_graph_remove_endpoint(struct apus_ctl_graph *graph, const struct apus_guid *guid);

/** Finds an endpoint or a participant; NULL if unknown. O(1) on average. */
struct apus_ctl_endpoint *apus_ctl_graph_endpoint(const struct apus_ctl_graph *graph,
						  const struct apus_guid *guid);
struct apus_ctl_participant *apus_ctl_graph_participant(const struct apus_ctl_graph *graph,
							const struct apus_prefix *prefix);
/** The endpoint in a slot that is in use. */
struct apus_ctl_endpoint *apus_ctl_graph_endpoint_at(const struct apus_ctl_graph *graph,
						     uint32_t idx);

/** Iterate in order of admission, local endpoints first: pass NULL for the first; NULL after the last.
 *  Built-in endpoints are included. Nothing may be added or removed meanwhile. */
struct apus_ctl_endpoint *apus_ctl_graph_next_endpoint(const struct apus_ctl_graph *graph,
						       const struct apus_ctl_endpoint *endpoint);
struct apus_ctl_participant *
apus_ctl_graph_next_participant(const struct apus_ctl_graph *graph,
				const struct apus_ctl_participant *participant);

/** Iterates the matches of an endpoint, oldest first. */
struct apus_ctl_match *apus_ctl_graph_next_match(const struct apus_ctl_graph *graph,
						 const struct apus_ctl_endpoint *endpoint,
						 const struct apus_ctl_match *match);
/** The match of a pair, NULL if they are not matched. */
struct apus_ctl_match *apus_ctl_graph_match(const struct apus_ctl_graph *graph,
					    const struct apus_ctl_endpoint *writer,
					    const struct apus_ctl_endpoint *reader);

/** A match begins afresh, as if it had ended and come about again, because its route has failed. Statuses do not count
 *  it. */
void apus_ctl_graph_renew_match(struct apus_ctl_graph *graph, struct apus_ctl_match *match);

/** Takes the next dirty local endpoint, oldest first, with what was dirty; NULL if there is none. */
struct apus_ctl_endpoint *apus_ctl_graph_take_dirty(struct apus_ctl_graph *graph,
						    uint32_t *dirty_out);
/** Puts a local endpoint into the dirty list. */
void apus_ctl_graph_mark_dirty(struct apus_ctl_graph *graph, struct apus_ctl_endpoint *endpoint,
			       uint32_t dirty);

/** Sets the one hook: called when a match ends, before it leaves the graph. For publish.c. */
void apus_ctl_graph_on_match_end(struct apus_ctl_graph *graph,
				 void (*hook)(void *user, const struct apus_ctl_match *match),
				 void *user);

/** More is known of types: matches pairs of ours that could not be judged before. */
void apus_ctl_graph_types_changed(struct apus_ctl_graph *graph);

/** What a pair of endpoints with records would fail at: APUS_POLICY_NONE if nothing. Pure but for the rule. */
int apus_ctl_graph_mismatch(const struct apus_wire_endpoint_record *writer,
			    const struct apus_wire_endpoint_record *reader,
			    const struct apus_ctl_type_rule *types);

/** What was configured to be reachable. Lives as long as the graph. */
const struct apus_ctl_locator_policy *apus_ctl_graph_policy(const struct apus_ctl_graph *graph);

/** Slots: participant indices are below the first, endpoint and match indices below the others. */
uint32_t apus_ctl_graph_participant_capacity(const struct apus_ctl_graph *graph);
uint32_t apus_ctl_graph_endpoint_capacity(const struct apus_ctl_graph *graph);
uint32_t apus_ctl_graph_match_capacity(const struct apus_ctl_graph *graph);
uint32_t apus_ctl_graph_participant_count(const struct apus_ctl_graph *graph); /**< remote ones */
uint32_t
apus_ctl_graph_match_count(const struct apus_ctl_graph *graph); /**< without built-in ones */
uint64_t apus_ctl_graph_record_bytes(const struct apus_ctl_graph *graph); /**< in use */
/** Differs from what it was once something has gone, so that what had been refused may find room. */
uint64_t apus_ctl_graph_freed(const struct apus_ctl_graph *graph);
const struct apus_ctl_graph_counters *apus_ctl_graph_counters(const struct apus_ctl_graph *graph);

#endif
