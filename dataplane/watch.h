/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telling whoever waits that something about an endpoint may have changed.
 *
 * A *target* is somebody who waits: a waitset, a participant's dispatcher, a worker that calls listeners. A
 * *watch* joins one endpoint (or guard) to one target for a mask of status kinds. Firing a watch puts it into
 * the target's pending stack, once until the target has collected it, and raises the target's eventfd if
 * somebody is interested in that; else it costs no system call.
 *
 * An endpoint's list of watches changes under control's lock *and* the turn of its worker; so either suffices to
 * walk it: workers fire under the turn, control under the lock.
 *
 * The wake-up that is never lost, all seq_cst:
 *
 *   firing                                   waiting
 *   F1 push on pending                       L1 read(fd)
 *   F2 if interest:                          L2 raised = false
 *   F3   if raised was false: set, write(fd) L3 collect pending; something: do not sleep
 *
 * If F3 finds raised set already, it precedes L2, so F1 precedes L3 and is collected. A write that comes after
 * L1 although its F3 preceded L2 only makes the next sleep short. Interest is set before the first L1.
 */
#ifndef APUS_DATAPLANE_WATCH_H
#define APUS_DATAPLANE_WATCH_H

#include "base/atomics.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Kinds of status are bits below this one (enum apus_status_kind). */
#define APUS_DP_STATUS_BITS 16

struct apus_dp_target;

/** One watch. Zero-initialise, set target and mask. */
struct apus_dp_watch {
	struct apus_dp_target *target;
	uint32_t mask;                      /* enum apus_status_kind; changes under lock and turn */
	struct apus_dp_watch *next, **link; /* of the endpoint's list, while mask is not 0 */
	void *owner;                        /* the target's business */
	_Atomic bool queued;                /* in the pending stack, or about to be */
	struct apus_dp_watch *pending_next;
	struct apus_dp_watch *ready_next; /* collected; the target's */
	bool ready;
};

/** The watches of one endpoint. Zero-initialise. */
struct apus_dp_watched {
	struct apus_dp_watch *first;
	uint32_t mask;                       /* of all of them */
	uint32_t count[APUS_DP_STATUS_BITS]; /* by kind: there may be thousands */
};

/** Somebody who waits. */
struct apus_dp_target {
	_Atomic(struct apus_dp_watch *) pending;
	_Atomic uint32_t interest; /* how many want the descriptor raised */
	_Atomic bool raised;
	int fd; /* eventfd; the owner's */
	/* Collected, oldest first; under whatever serialises the target's owner. */
	struct apus_dp_watch *ready_first, *ready_last;
};

/** Starts a target on an eventfd of the owner's. */
void apus_dp_target_init(struct apus_dp_target *target, int fd);
/** Moves what is pending to the end of the ready list. Returns true if there was anything. */
bool apus_dp_target_collect(struct apus_dp_target *target);
/** Takes the oldest of the ready list; NULL if it is empty. What fires from here on is queued anew. */
struct apus_dp_watch *apus_dp_target_next(struct apus_dp_target *target);
/** Puts one back at the end of the ready list. */
void apus_dp_target_keep(struct apus_dp_target *target, struct apus_dp_watch *watch);
/** Forgets a watch that can no longer fire. */
void apus_dp_target_forget(struct apus_dp_target *target, struct apus_dp_watch *watch);
/** L1, L2: before a last collect() and a sleep. */
void apus_dp_target_lower(struct apus_dp_target *target);
/** Raises the descriptor if it is not. */
void apus_dp_target_raise(struct apus_dp_target *target);
/** True if something is pending. Any thread. */
static inline bool apus_dp_target_is_pending(struct apus_dp_target *target)
{
	/* Acquire: pairs with F1; only a hint, collect() looks again. */
	return atomic_load_explicit(&target->pending, memory_order_acquire) != NULL;
}

/** Queues a watch at its target. Any thread that may walk its list. */
void apus_dp_watch_fire(struct apus_dp_watch *watch);

/** Fires every watch of the list that wants one of `kinds`. */
void apus_dp_watched_fire(struct apus_dp_watched *watched, uint32_t kinds);
/** The same; one branch when nobody watches. */
static inline void apus_dp_watched_tell(struct apus_dp_watched *watched, uint32_t kinds)
{
	if (APUS_UNLIKELY(watched->mask & kinds))
		apus_dp_watched_fire(watched, kinds);
}
/** Adds a watch, removes one, or changes its mask (0: removes); under lock and turn. */
void apus_dp_watched_set(struct apus_dp_watched *watched, struct apus_dp_watch *watch,
			 uint32_t mask);

#endif
