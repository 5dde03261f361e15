/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statuses (DDS 1.4 §2.2.4.1): what happened to an endpoint, as totals and their changes.
 *
 * A total never falls and nobody's look disturbs it. What one looker has seen is kept in a cursor of his
 * own, struct apus_observer: the change is the difference, and a look moves that cursor only. So an
 * application, a listener and a tool each see everything.
 *
 * Statuses of time (deadlines, liveliness) are computed from stored monotonic instants when somebody asks;
 * a wall clock that is set creates and erases nothing.
 *
 * Thread rule: any thread may ask; one observer belongs to one thread at a time. A look takes the turn of the
 * endpoint's worker for a moment; it allocates nothing. Not to be called from a filter callback.
 */
#ifndef APUS_STATUS_H
#define APUS_STATUS_H

#include <apus/core.h>
#include <apus/participant.h>
#include <apus/qos.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Kinds of status; values are mask bits, those of DDS (DDS 1.4, IDL PSM). */
enum apus_status_kind {
	APUS_STATUS_INCONSISTENT_TOPIC = 1 << 0,
	APUS_STATUS_OFFERED_DEADLINE_MISSED = 1 << 1,
	APUS_STATUS_REQUESTED_DEADLINE_MISSED = 1 << 2,
	APUS_STATUS_OFFERED_INCOMPATIBLE_QOS = 1 << 5,
	APUS_STATUS_REQUESTED_INCOMPATIBLE_QOS = 1 << 6,
	APUS_STATUS_SAMPLE_LOST = 1 << 7,
	APUS_STATUS_SAMPLE_REJECTED = 1 << 8,
	APUS_STATUS_DATA_AVAILABLE = 1 << 10,
	APUS_STATUS_LIVELINESS_LOST = 1 << 11,
	APUS_STATUS_LIVELINESS_CHANGED = 1 << 12,
	APUS_STATUS_PUBLICATION_MATCHED = 1 << 13,
	APUS_STATUS_SUBSCRIPTION_MATCHED = 1 << 14,
};

/** Every kind that a writer, or a reader, has. */
#define APUS_STATUS_WRITER_MASK                                                 \
	(APUS_STATUS_INCONSISTENT_TOPIC | APUS_STATUS_OFFERED_DEADLINE_MISSED | \
	 APUS_STATUS_OFFERED_INCOMPATIBLE_QOS | APUS_STATUS_LIVELINESS_LOST |   \
	 APUS_STATUS_PUBLICATION_MATCHED)
#define APUS_STATUS_READER_MASK                                                   \
	(APUS_STATUS_INCONSISTENT_TOPIC | APUS_STATUS_REQUESTED_DEADLINE_MISSED | \
	 APUS_STATUS_REQUESTED_INCOMPATIBLE_QOS | APUS_STATUS_SAMPLE_LOST |       \
	 APUS_STATUS_SAMPLE_REJECTED | APUS_STATUS_DATA_AVAILABLE |               \
	 APUS_STATUS_LIVELINESS_CHANGED | APUS_STATUS_SUBSCRIPTION_MATCHED)

/** Name of one kind ("requested_deadline_missed"); "unknown" for others. Static storage. */
APUS_API const char *apus_status_name(int kind);

/** What one looker has seen of one endpoint. Zero-initialise: nothing yet. The contents are the library's. */
struct apus_observer {
	uint64_t seen[20];
};

/** Matched endpoints of the other side (DDS PublicationMatchedStatus, SubscriptionMatchedStatus). */
struct apus_matched_status {
	uint32_t current;
	int32_t current_change;
	uint64_t total; /**< arrivals: DDS total_count */
	uint64_t total_change;
	uint64_t transitions; /**< arrivals and departures: churn that nets to zero shows */
	uint64_t transitions_change;
	struct apus_guid last; /**< the endpoint of the last transition */
};

/** Endpoints that would match but for their QoS (DDS …IncompatibleQosStatus): each counts once for each
 *  version of its record. A partition mismatch is not incompatible QoS. */
struct apus_incompatible_status {
	uint64_t total;
	uint64_t change;
	int last_policy;       /**< enum apus_policy, the first that failed; 0 = none yet */
	struct apus_guid last; /**< the endpoint it failed with */
	uint64_t by_policy[APUS_POLICY_COUNT]; /**< total by enum apus_policy */
};

/** Endpoints of the same topic with another type (DDS InconsistentTopicStatus). */
struct apus_inconsistent_status {
	uint64_t total;
	uint64_t change;
};

/** Complete deadline periods of single instances that passed without a sample: written (offered), or made
 *  available (requested). */
struct apus_deadline_status {
	uint64_t total;
	uint64_t change;
	apus_instance last; /**< the instance that missed last, NONE if it is gone or keyless */
};

/** Times this writer broke its own promise (DDS LivelinessLostStatus): once a lapse. */
struct apus_liveliness_lost_status {
	uint64_t total;
	uint64_t change;
};

/** Matched writers by liveliness (DDS LivelinessChangedStatus). A writer that leaves is neither. */
struct apus_liveliness_status {
	uint32_t alive;
	uint32_t not_alive;
	int32_t alive_change;
	int32_t not_alive_change;
	uint64_t losses; /**< lapses of all writers so far, those that left included */
	uint64_t losses_change;
	struct apus_guid last; /**< the writer that changed last */
};

/** Samples that will never be read: displaced unread, refused for good, or gone before they came. */
struct apus_lost_status {
	uint64_t total;
	uint64_t change;
};

/** Why a sample was refused. The first four are those of DDS. */
enum apus_rejected {
	APUS_REJECTED_NOT = 0,
	APUS_REJECTED_INSTANCES = 1,
	APUS_REJECTED_SAMPLES = 2,
	APUS_REJECTED_PER_INSTANCE = 3,
	APUS_REJECTED_SLOTS = 4, /**< no memory for the payload: too many samples are lent */
	APUS_REJECTED_KINDS = 5
};

/** Samples refused for a limit of the reader (DDS SampleRejectedStatus); once a sequence number. A
 *  reliable writer offers them again. */
struct apus_rejected_status {
	uint64_t total;
	uint64_t change;
	int last_reason;    /**< enum apus_rejected */
	apus_instance last; /**< of the last one; NONE if it has none here */
	uint64_t by_reason[APUS_REJECTED_KINDS];
};

/** Samples that became readable. */
struct apus_available_status {
	uint64_t total;
	uint64_t change;
};

/*
 * One function a status. Each fills *status_out and moves `observer`; NULL looks without a cursor: the
 * changes are then those since creation. Returns 1 if something changed since that observer's last look,
 * 0 if not (changes are 0 then), APUS_EINVAL, or APUS_ECLOSED.
 */
/** Readers matched (DDS 1.4 §2.2.4.1 PUBLICATION_MATCHED). Returns as said above. */
APUS_API int apus_writer_matched_status(struct apus_writer *writer, struct apus_observer *observer,
					struct apus_matched_status *status_out);
/** Readers that ask for more than the writer offers (OFFERED_INCOMPATIBLE_QOS). */
APUS_API int apus_writer_incompatible_status(struct apus_writer *writer,
					     struct apus_observer *observer,
					     struct apus_incompatible_status *status_out);
/** Endpoints of others with this topic name and another type (INCONSISTENT_TOPIC). */
APUS_API int apus_writer_inconsistent_status(struct apus_writer *writer,
					     struct apus_observer *observer,
					     struct apus_inconsistent_status *status_out);
/** Deadlines missed, all instances together (OFFERED_DEADLINE_MISSED). */
APUS_API int apus_writer_deadline_status(struct apus_writer *writer, struct apus_observer *observer,
					 struct apus_deadline_status *status_out);
/** Lapses of the writer's own lease (LIVELINESS_LOST). */
APUS_API int apus_writer_liveliness_status(struct apus_writer *writer,
					   struct apus_observer *observer,
					   struct apus_liveliness_lost_status *status_out);

/** Writers matched (SUBSCRIPTION_MATCHED). */
APUS_API int apus_reader_matched_status(struct apus_reader *reader, struct apus_observer *observer,
					struct apus_matched_status *status_out);
/** Writers that offer less than the reader asks for (REQUESTED_INCOMPATIBLE_QOS). */
APUS_API int apus_reader_incompatible_status(struct apus_reader *reader,
					     struct apus_observer *observer,
					     struct apus_incompatible_status *status_out);
/** As apus_writer_inconsistent_status(). */
APUS_API int apus_reader_inconsistent_status(struct apus_reader *reader,
					     struct apus_observer *observer,
					     struct apus_inconsistent_status *status_out);
/** Deadlines missed, all instances together (REQUESTED_DEADLINE_MISSED). */
APUS_API int apus_reader_deadline_status(struct apus_reader *reader, struct apus_observer *observer,
					 struct apus_deadline_status *status_out);
/** Matched writers by liveliness (LIVELINESS_CHANGED); O(matched writers). */
APUS_API int apus_reader_liveliness_status(struct apus_reader *reader,
					   struct apus_observer *observer,
					   struct apus_liveliness_status *status_out);
/** Samples lost (SAMPLE_LOST). */
APUS_API int apus_reader_lost_status(struct apus_reader *reader, struct apus_observer *observer,
				     struct apus_lost_status *status_out);
/** Samples refused for a limit (SAMPLE_REJECTED). */
APUS_API int apus_reader_rejected_status(struct apus_reader *reader, struct apus_observer *observer,
					 struct apus_rejected_status *status_out);
/** Samples that became readable, by count where DDS has a flag (DATA_AVAILABLE). */
APUS_API int apus_reader_available_status(struct apus_reader *reader,
					  struct apus_observer *observer,
					  struct apus_available_status *status_out);

/** Which statuses of `mask` (0 = all) changed since the observer's last look at each, as a mask; moves no
 *  cursor. Or APUS_EINVAL, APUS_ECLOSED. */
APUS_API int apus_writer_status_changes(struct apus_writer *writer,
					const struct apus_observer *observer, uint32_t mask);
/** The same of a reader. */
APUS_API int apus_reader_status_changes(struct apus_reader *reader,
					const struct apus_observer *observer, uint32_t mask);

/* ---- liveliness ---------------------------------------------------------------------------- */

/** Asserts the liveliness of every MANUAL_BY_PARTICIPANT writer of the participant, here and at its readers
 *  (DDS 1.4 §2.2.2.2.1.9). Writing with one of them does the same, told to readers within a third of the
 *  shortest lease. Returns 0, APUS_ECLOSED, APUS_EAGAIN (the message cannot leave now: its history is full). */
APUS_API int apus_participant_assert_liveliness(struct apus_participant *participant);
/** Asserts the liveliness of one writer without writing: MANUAL_BY_TOPIC by a HEARTBEAT to its readers,
 *  MANUAL_BY_PARTICIPANT as above. Returns 0, APUS_EINVAL (an AUTOMATIC writer: it would have no effect),
 *  APUS_ECLOSED. */
APUS_API int apus_writer_assert_liveliness(struct apus_writer *writer);

/* ---- listeners ----------------------------------------------------------------------------- */

/** Which thread calls a listener; never a hidden one. */
enum apus_listen_on {
	APUS_LISTEN_DISPATCH = 0, /**< whoever calls apus_participant_dispatch() */
	APUS_LISTEN_WORKER =
		1, /**< the thread that runs worker `worker_idx`, between two turns: the library's
				       of a spawned worker, the caller of apus_worker_poll() of a driven one */
};

/**
 * Callbacks; NULL ones are not called. A callback holds no turn and may call anything but what waits for the
 * library's own thread (waits return APUS_EDEADLK on a worker's thread). Callbacks of one participant run one
 * after another, whichever threads they are called on: a slow one holds up the others, but no data. A listener looks with an observer of
 * its own, which begins at the entity's creation, so nothing is missed when it is set late. Several changes
 * between two calls come as one. Order within one call round: inconsistent topic, incompatible QoS, matched,
 * liveliness, deadline, lost, rejected, data.
 */
struct apus_listener {
	void *user;
	enum apus_listen_on on;
	uint32_t worker_idx; /**< with APUS_LISTEN_WORKER */

	void (*on_offered_incompatible_qos)(struct apus_writer *,
					    const struct apus_incompatible_status *, void *user);
	void (*on_publication_matched)(struct apus_writer *, const struct apus_matched_status *,
				       void *user);
	void (*on_liveliness_lost)(struct apus_writer *, const struct apus_liveliness_lost_status *,
				   void *user);
	void (*on_offered_deadline_missed)(struct apus_writer *,
					   const struct apus_deadline_status *, void *user);

	void (*on_requested_incompatible_qos)(struct apus_reader *,
					      const struct apus_incompatible_status *, void *user);
	void (*on_subscription_matched)(struct apus_reader *, const struct apus_matched_status *,
					void *user);
	void (*on_liveliness_changed)(struct apus_reader *, const struct apus_liveliness_status *,
				      void *user);
	void (*on_requested_deadline_missed)(struct apus_reader *,
					     const struct apus_deadline_status *, void *user);
	void (*on_sample_lost)(struct apus_reader *, const struct apus_lost_status *, void *user);
	void (*on_sample_rejected)(struct apus_reader *, const struct apus_rejected_status *,
				   void *user);
	/** Something became readable since the last call. */
	void (*on_data_available)(struct apus_reader *, void *user);

	/** Exactly one of writer and reader is not NULL. */
	void (*on_inconsistent_topic)(struct apus_writer *, struct apus_reader *,
				      const struct apus_inconsistent_status *, void *user);
};

/**
 * Sets, replaces or (NULL) removes the listener of a writer or reader; copied. When it returns, the old one is
 * not running and will not be called again (unless the caller is that callback).
 * Returns 0, APUS_EINVAL (no such worker; a callback that this kind of entity never calls), APUS_ENOMEM (nothing
 * has changed), APUS_ECLOSED.
 */
APUS_API int apus_writer_set_listener(struct apus_writer *writer,
				      const struct apus_listener *listener);
/** The same of a reader. */
APUS_API int apus_reader_set_listener(struct apus_reader *reader,
				      const struct apus_listener *listener);
/** The same for all endpoints of a participant, present and future: statuses for which an endpoint has no
 *  callback of its own come here. */
APUS_API int apus_participant_set_listener(struct apus_participant *participant,
					   const struct apus_listener *listener);

/** Calls the listeners that APUS_LISTEN_DISPATCH asks for and for which something changed, in this thread.
 *  Returns the number of callbacks made, APUS_EDEADLK (from inside a callback), APUS_EINVAL (NULL), APUS_ECLOSED. */
APUS_API int apus_participant_dispatch(struct apus_participant *participant);
/** An eventfd that is readable while apus_participant_dispatch() may have something to call
 *  (level-triggered). Owned by the participant. Negative APUS_E… on error. */
APUS_API int apus_participant_fd(struct apus_participant *participant);

#ifdef __cplusplus
}
#endif

#endif
