/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the graph to the data plane: builds immutable snapshots, publishes them, and frees what nobody
 * can still be reading (dataplane/snapshot.h has the protocol).
 *
 * One snapshot an endpoint and turn at most, however much changed. An endpoint keeps a bounded number of
 * generations that wait for reclaim; beyond it further changes coalesce until one is free, and nobody
 * waits. Compiled filters are shared: one per (type, expression, parameters), counted by reference from
 * matches and snapshots, and freed with the last of them.
 *
 * Thread rule: calls are serialised by control's lock.
 */
#ifndef APUS_CONTROL_PUBLISH_H
#define APUS_CONTROL_PUBLISH_H

#include "control/filter_pool.h"
#include "control/graph.h"
#include "dataplane/snapshot.h"

struct apus_ctl_publisher;

struct apus_dp_shm_in;
struct apus_dp_shm_out;

/** Which way a match with another process goes. */
enum apus_ctl_route {
	APUS_CTL_ROUTE_NETWORK,
	APUS_CTL_ROUTE_PENDING, /**< not settled yet: the match is in no snapshot; the endpoint becomes dirty then */
	APUS_CTL_ROUTE_SHM
};

/** What a publisher needs. */
struct apus_ctl_publisher_config {
	struct apus_dp_epoch *epoch;
	const struct apus_dp_turn *const
		*turns; /**< turn words of all workers, control's own included; copied */
	uint32_t turn_count;
	uint32_t generations;           /**< retired snapshots an endpoint may keep waiting, 1… */
	bool writer_filtering;          /**< compile remote readers' filters */
	bool filter_info;               /**< verdicts go with samples, and are used */
	uint32_t filter_unique;         /**< compiled filters held at once: see the pool */
	uint32_t filter_remote_readers; /**< remote readers one writer filters for */
	struct apus_ctl_filter_limits filter_limits;
	apus_ctl_compile_custom_fn
		*custom_filter; /**< classes of the application, with `user`; NULL: none */
	bool no_builtin_filter; /**< DDSSQL is not built in */
	/** Called after each publication and status change (dirty: APUS_CTL_DIRTY_… bits): to kick a worker
	 *  and wake waiters. May be NULL. */
	void (*published)(void *user, struct apus_ctl_endpoint *endpoint, uint32_t dirty);
	/** Questions about the route of a match with a remote endpoint, asked at every publication; NULL: all go by
	 *  the network. The answer to one match is PENDING for a while, then always the same. */
	enum apus_ctl_route (*route_out)(void *user, const struct apus_ctl_match *match,
					 const struct apus_ctl_endpoint *writer,
					 const struct apus_ctl_endpoint *reader,
					 struct apus_dp_shm_out **out);
	enum apus_ctl_route (*route_in)(void *user, const struct apus_ctl_match *match,
					const struct apus_ctl_endpoint *writer,
					const struct apus_ctl_endpoint *reader,
					struct apus_dp_shm_in **in_out);
	/** A match has ended; with the next publication it is in no snapshot. May be NULL. */
	void (*match_ended)(void *user, const struct apus_ctl_match *match);
	void *user;
};

struct apus_ctl_publisher_counters {
	struct apus_counter published; /**< snapshots */
	struct apus_counter deferred;  /**< turns in which an endpoint had to wait for a reclaim */
	struct apus_counter reclaimed; /**< snapshots freed */
	struct apus_counter
		filters_refused; /**< remote filters not applied: text, class, or a limit */
};

/** Creates a publisher for a graph, which must outlive it. Returns 0 or APUS_ENOMEM. */
int apus_ctl_publisher_create(const struct apus_ctl_publisher_config *config,
			      struct apus_ctl_graph *graph,
			      struct apus_ctl_publisher **publisher_out);
/** Frees it with every snapshot, the current ones too. No worker may run any more. NULL is allowed. */
void apus_ctl_publisher_destroy(struct apus_ctl_publisher *publisher);

/**
 * Reclaims, then publishes every dirty endpoint. Returns the number of endpoints that had to be put off
 * because all their generations are still in use: call again soon then (1 ms). Never waits.
 */
uint32_t apus_ctl_publisher_turn(struct apus_ctl_publisher *publisher);
/**
 * The same, but a writer with 256 matches or more whose only news are filters of its readers, or readers of this
 * process that have left (APUS_CTL_DIRTY_FILTERS), is published no sooner than 5 us for each of its matches after
 * its last snapshot: so a thousand changes a second among ten thousand filters cost a snapshot each 50 ms. Until then
 * it goes by what it knows; readers of this process with another filter are visited for every sample. due_out: when to
 * call again for those; 0: none wait. A `now` of INT64_MAX: nothing waits.
 */
uint32_t apus_ctl_publisher_turn_at(struct apus_ctl_publisher *publisher, struct apus_mono now,
				    struct apus_mono *due_out);

/** Frees what every worker has passed; returns the number of retired snapshots left. */
uint32_t apus_ctl_publisher_reclaim(struct apus_ctl_publisher *publisher);

/**
 * Sets the filter of a local reader and marks it for publication. The predicate passes into the
 * publisher's possession, also on failure (freed then); NULL = no filter. generation: greater than the
 * one before. Each different filter of local readers, by what their records say, counts as one of filter_unique,
 * whatever remote readers announce; one that replaces another always fits. Returns 0, APUS_EINVAL (generation, not a local reader), APUS_ELIMIT, APUS_ENOMEM.
 */
int apus_ctl_publisher_set_filter(struct apus_ctl_publisher *publisher,
				  struct apus_ctl_endpoint *reader,
				  struct apus_dp_predicate *predicate, uint64_t generation);

/**
 * A local endpoint is about to leave the graph: takes its snapshot out of the port (NULL then) and
 * retires it. Call it after the data plane stopped using the port or while it still may, and before
 * apus_ctl_discovery_remove_local(); the port itself must live until apus_ctl_publisher_passed(epoch).
 * Returns the epoch at which the port is out of use.
 */
uint64_t apus_ctl_publisher_forget(struct apus_ctl_publisher *publisher,
				   struct apus_ctl_endpoint *endpoint);
/** True if every worker has passed this epoch. */
bool apus_ctl_publisher_passed(const struct apus_ctl_publisher *publisher, uint64_t epoch);

/**
 * The same in two steps, for a change that is announced between them. reserve: takes a predicate (NULL: none)
 * over on success, and reads the record that will announce it; returns 0, APUS_EINVAL, APUS_ELIMIT, APUS_ENOMEM. Then either commit, which cannot fail,
 * with a generation greater than the one before, or cancel, which frees the predicate.
 */
int apus_ctl_publisher_reserve_filter(struct apus_ctl_publisher *publisher,
				      const struct apus_ctl_endpoint *reader,
				      struct apus_dp_predicate *predicate,
				      const struct apus_wire_endpoint_record *record,
				      struct apus_ctl_shared_filter **reserved_out);
void apus_ctl_publisher_cancel_filter(struct apus_ctl_publisher *publisher,
				      struct apus_ctl_shared_filter *reserved);
void apus_ctl_publisher_commit_filter(struct apus_ctl_publisher *publisher,
				      struct apus_ctl_endpoint *reader,
				      struct apus_ctl_shared_filter *reserved, uint64_t generation);

/** Compiled filters held now. */
uint32_t apus_ctl_publisher_filter_count(const struct apus_ctl_publisher *publisher);
const struct apus_ctl_publisher_counters *
apus_ctl_publisher_counters(const struct apus_ctl_publisher *publisher);

#endif
