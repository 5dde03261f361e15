/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishers and subscribers: writers, or readers, whose changes are presented together (DDS 1.4
 * §2.2.3.6, §2.2.2.4.1, §2.2.2.5.2).
 *
 * A group states the PRESENTATION of its members, and all of them belong to one worker. An endpoint that
 * joins none is a group of its own, with the presentation of its QoS.
 *
 * - Instance scope: nothing beyond the order within each instance.
 * - Topic scope: what one writer wrote. Ordered: across its instances in the order written. Coherent: a
 *   set becomes visible as a whole, or never.
 * - Group scope: the same across all writers of one publisher, as far as their readers are in one
 *   subscriber.
 *
 * Thread rule as in <apus/participant.h>.
 */
#ifndef APUS_GROUP_H
#define APUS_GROUP_H

#include <apus/core.h>
#include <apus/participant.h>
#include <apus/qos.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a publisher or subscriber states for its members. Zero-initialise. */
struct apus_group_options {
	uint8_t access_scope; /**< enum apus_access_scope */
	bool coherent_access; /**< sets are offered, or requested */
	bool ordered_access;  /**< order across instances is offered, or requested */
	uint32_t worker_idx;  /**< the worker that all members belong to */
};

/**
 * Creates a publisher. Writers join by apus_endpoint_options.publisher. options may be NULL (all 0).
 * Returns 0, APUS_EINVAL (scope, worker), APUS_ENOMEM, APUS_ECLOSED.
 */
APUS_API int apus_publisher_create(struct apus_participant *participant,
				   const struct apus_group_options *options,
				   struct apus_publisher **publisher_out);
/** Deletes a publisher. Returns 0, or APUS_EINVAL while it has writers (nothing changed then). The
 *  participant deletes what is left of both kinds. */
APUS_API int apus_publisher_destroy(struct apus_publisher *publisher);

/**
 * Begins a set of changes that readers see as a whole or not at all: what the publisher's writers write from
 * here to apus_publisher_end_coherent(). Calls nest; the outermost pair delimits the set.
 * Returns 0, APUS_EQOS (the publisher offers no coherent access, or instance scope), APUS_ECLOSED.
 */
APUS_API int apus_publisher_begin_coherent(struct apus_publisher *publisher);
/** Ends the set. A set in which nothing was written is none. Returns 0, APUS_EINVAL (no set is begun). */
APUS_API int apus_publisher_end_coherent(struct apus_publisher *publisher);

/**
 * Suspends the publisher: its writers hold what they are given, until apus_publisher_resume() sends it
 * together. Calls nest. A hint, as DDS has it: where a history is full, or keep last would give up a
 * sample that nobody has been sent, what is held is sent before. Returns 0, APUS_ECLOSED.
 */
APUS_API int apus_publisher_suspend(struct apus_publisher *publisher);
/** Ends a suspension. Returns 0, APUS_EINVAL (it is not suspended), APUS_ECLOSED. */
APUS_API int apus_publisher_resume(struct apus_publisher *publisher);

/**
 * Creates a subscriber. Readers join by apus_endpoint_options.subscriber. Otherwise as
 * apus_publisher_create().
 */
APUS_API int apus_subscriber_create(struct apus_participant *participant,
				    const struct apus_group_options *options,
				    struct apus_subscriber **subscriber_out);
/**
 * Freezes what the readers of a subscriber of group scope show: samples and sets that come later stay unseen
 * until the matching end_access. At other scopes nothing changes. Calls nest.
 * Returns 0, APUS_ELIMIT, APUS_ECLOSED; end_access: APUS_EINVAL without begin_access.
 */
APUS_API int apus_subscriber_begin_access(struct apus_subscriber *subscriber);
/** Ends the innermost begin_access. */
APUS_API int apus_subscriber_end_access(struct apus_subscriber *subscriber);
/**
 * The readers that have samples as `select` asks for (masks only; NULL = any), up to `max` of them. Ordered
 * access at group scope: a reader stands in the list once a sample, in the order to take them, one
 * by one (a take or read gives one sample at a time then): by the count of their publisher, else as they
 * arrived. Otherwise each once.
 * Returns the number, APUS_EINVAL, APUS_ECLOSED.
 */
APUS_API int apus_subscriber_readers(struct apus_subscriber *subscriber,
				     const struct apus_select *select,
				     struct apus_reader **readers_out, uint32_t max);
/** Deletes a subscriber. Returns 0, or APUS_EINVAL while it has readers (nothing changed then). */
APUS_API int apus_subscriber_destroy(struct apus_subscriber *subscriber);

#ifdef __cplusplus
}
#endif

#endif
