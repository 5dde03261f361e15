/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a worker heard participants last: matched traffic between endpoints, of which discovery learns nothing. A
 * participant whose announcements are lost but whose samples or acknowledgements come is alive, and its lease goes
 * on; so discovery asks here before it gives a participant up.
 *
 * A table with one place for each hash. Two participants that share a place displace each other, and then
 * announcements alone keep them alive, as they do without this. The holder of the worker's turn writes, control
 * reads without the turn.
 */
#ifndef APUS_DATAPLANE_HEARD_H
#define APUS_DATAPLANE_HEARD_H

#include "base/clock.h"
#include "base/guid.h"

#include <stdatomic.h>

#define APUS_DP_HEARD_PLACES 512

/** Within this time the same participant is not noted again: leases are seconds. */
#define APUS_DP_HEARD_AGAIN_NS (100 * APUS_NS_PER_MS)

/** One place; 0: nobody. */
struct apus_dp_heard_place {
	_Atomic uint64_t who; /* hash of the GUID prefix */
	_Atomic int64_t at_ns;
};

/** The table of one worker; begins as zeros. */
struct apus_dp_heard {
	struct apus_prefix latest; /* the turn's */
	struct apus_mono latest_at;
	struct apus_dp_heard_place places[APUS_DP_HEARD_PLACES];
};

static inline uint64_t apus_dp_heard_hash(const struct apus_prefix *prefix)
{
	const struct apus_guid g = apus_guid_make(prefix, (struct apus_eid){1});

	return apus_guid_hash(&g) | 1;
}

/** Notes that a participant was heard. Under the turn. */
static inline void apus_dp_heard_note(struct apus_dp_heard *heard, const struct apus_prefix *prefix,
				      struct apus_mono now)
{
	struct apus_dp_heard_place *place;
	uint64_t who;

	if (now.ns - heard->latest_at.ns < APUS_DP_HEARD_AGAIN_NS &&
	    apus_prefix_equal(&heard->latest, prefix))
		return;
	heard->latest = *prefix;
	heard->latest_at = now;
	who = apus_dp_heard_hash(prefix);
	place = &heard->places[who / 2 % APUS_DP_HEARD_PLACES];
	/* Relaxed, here and in apus_dp_heard_at(): a reader that sees another's time with this hash, or none, takes
	 * somebody for heard within the last lease who was not, or the other way round, once; then it asks again. */
	atomic_store_explicit(&place->who, who, memory_order_relaxed);
	atomic_store_explicit(&place->at_ns, now.ns, memory_order_relaxed);
}

/** When a participant was heard last, to within APUS_DP_HEARD_AGAIN_NS; 0: it is not known. Any thread. */
static inline struct apus_mono apus_dp_heard_at(const struct apus_dp_heard *heard,
						const struct apus_prefix *prefix)
{
	uint64_t who = apus_dp_heard_hash(prefix);
	const struct apus_dp_heard_place *place = &heard->places[who / 2 % APUS_DP_HEARD_PLACES];

	/* Relaxed: as above. */
	if (atomic_load_explicit(&place->who, memory_order_relaxed) != who)
		return (struct apus_mono){0};
	return (struct apus_mono){atomic_load_explicit(&place->at_ns, memory_order_relaxed)};
}

#endif
