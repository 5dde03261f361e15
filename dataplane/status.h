/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statuses derived from stored monotonic instants when somebody asks; no timers.
 *
 * Every status is a total that never falls, and each observer keeps a cursor of its own: the change is
 * the difference, and looking moves only the looker's cursor.
 *
 * Boundaries: silence equal to the lease has lapsed, a full period without activity is a miss, a lease or
 * period of 0 and a clock before the stored instant never lapse or miss anything.
 */
#ifndef APUS_DATAPLANE_STATUS_H
#define APUS_DATAPLANE_STATUS_H

#include "base/clock.h"
#include "base/guid.h"

/** What one observer has seen of one total. Zero-initialise. */
struct apus_dp_cursor {
	uint64_t reported;
};

/** Returns how much `total` has grown since this cursor last looked, and moves the cursor. */
static inline uint64_t apus_dp_observe(struct apus_dp_cursor *cursor, uint64_t total)
{
	uint64_t change = total - cursor->reported;

	cursor->reported = total;
	return change;
}

/* ---- deadlines ----------------------------------------------------------------------------- */

/** Deadline of one instance. Zero-initialise: stopped, nothing missed. */
struct apus_dp_deadline {
	struct apus_mono since; /* last qualifying activity; 0 = not running */
	uint64_t folded;        /* misses banked before `since` */
};

/** Complete periods missed up to `now`. period_ns: 0 or APUS_INFINITE_NS = none expected. */
uint64_t apus_dp_deadline_missed(const struct apus_dp_deadline *d, int64_t period_ns,
				 struct apus_mono now);

/** A sample was published, or entered visible history: banks what elapsed, then restarts the period. */
void apus_dp_deadline_activity(struct apus_dp_deadline *d, int64_t period_ns, struct apus_mono now);

/** The next instant at which a miss comes to count; INT64_MAX if none will. */
struct apus_mono apus_dp_deadline_due(const struct apus_dp_deadline *d, int64_t period_ns,
				      struct apus_mono now);
/** Banks and stops (the instance was disposed of, or has no writers). */
void apus_dp_deadline_stop(struct apus_dp_deadline *d, int64_t period_ns, struct apus_mono now);

/* ---- liveliness ---------------------------------------------------------------------------- */

/** One lease. lease_ns 0 or APUS_INFINITE_NS never lapses. */
struct apus_dp_lease {
	int64_t lease_ns;
	struct apus_mono since; /* last activity */
	uint64_t losses;        /* lapses counted so far */
	bool alive;
};

/** Starts a lease, alive as of `now`. */
/** True for a lease that can lapse. */
static inline bool apus_dp_is_finite(int64_t duration_ns)
{
	return duration_ns > 0 && duration_ns != APUS_INFINITE_NS;
}
void apus_dp_lease_init(struct apus_dp_lease *l, int64_t lease_ns, struct apus_mono now);
/** Books a lapse that has happened by `now`; once per lapse. Returns true if it was booked just now. */
bool apus_dp_lease_expire(struct apus_dp_lease *l, struct apus_mono now);
/** A publication or explicit assertion: books a lapse that already happened, then revives. */
void apus_dp_lease_assert(struct apus_dp_lease *l, struct apus_mono now);
/** The instant at which it lapses if nothing happens; INT64_MAX if never or already lapsed. */
struct apus_mono apus_dp_lease_due(const struct apus_dp_lease *l);

/** One writer as a reader sees it, at its match slot (0 … match_count_max - 1). */
struct apus_dp_peer {
	struct apus_guid guid;
	struct apus_dp_lease lease;
	int64_t lifespan_ns; /* it offers */
	int32_t strength;    /* ownership strength it offers; may change */
	bool used;
	bool swept; /* its lapse has been carried to the instances; for admit.c */
};

/**
 * The writers of one reader. The array is the caller's. Unlike the sorted array of the source algorithm
 * an entry is found by the match slot the reader already holds, so refreshing is O(1) and a departure is
 * told (remove) instead of found out by a sweep.
 */
struct apus_dp_peers {
	struct apus_dp_peer *peers;
	uint32_t capacity;
	uint64_t
		losses_gone; /* lapses of writers that have left since; keeps the total from falling */
	uint64_t flips;      /* arrivals, departures, lapses and revivals so far */
	struct apus_guid last; /* writer of the last of them */
	uint32_t leased;       /* writers with a lease that can lapse */
	int64_t due_ns;        /* no lease lapses before; INT64_MAX = none will */
};

void apus_dp_peers_init(struct apus_dp_peers *p, struct apus_dp_peer *memory, uint32_t capacity);
/** Enters a writer, or changes its strength, lifespan or lease in place (a new lease duration keeps the
 *  last activity). Returns 0 or APUS_EINVAL (no such slot, slot taken by another GUID). */
int apus_dp_peers_set(struct apus_dp_peers *p, uint32_t slot, const struct apus_guid *guid,
		      int32_t strength, int64_t lease_ns, int64_t lifespan_ns,
		      struct apus_mono now);
/** apus_dp_lease_expire() and apus_dp_lease_assert() for one writer of `p`. An assertion older than what is
 *  known changes nothing. */
bool apus_dp_peer_expire(struct apus_dp_peers *p, struct apus_dp_peer *peer, struct apus_mono now);
void apus_dp_peer_assert(struct apus_dp_peers *p, struct apus_dp_peer *peer, struct apus_mono now);
/** The writer has left: no loss of its lease, unless it had lapsed by `now`. */
void apus_dp_peers_remove(struct apus_dp_peers *p, uint32_t slot, struct apus_mono now);

/** True if writer `a` outranks `b` (both used slots): strength, then smaller GUID. */
bool apus_dp_peer_stronger(const struct apus_dp_peer *a, const struct apus_dp_peer *b);

/** Liveliness as DDS reports it, and the cursor of one observer. Zero-initialise the cursor. */
struct apus_dp_liveliness {
	uint32_t alive_count;
	uint32_t not_alive_count;
	int32_t alive_change;
	int32_t not_alive_change;
	uint64_t losses; /* lapses since the reader was created */
};
struct apus_dp_liveliness_cursor {
	uint32_t alive;
	uint32_t not_alive;
};

/** Books due lapses of all writers and reports. Returns true if a change is not zero. O(capacity). */
bool apus_dp_peers_observe(struct apus_dp_peers *p, struct apus_dp_liveliness_cursor *cursor,
			   struct apus_mono now, struct apus_dp_liveliness *out);

/* ---- matches ------------------------------------------------------------------------------- */

/** Matched peers as counted by whoever matches. */
struct apus_dp_matches {
	uint32_t current;
	uint64_t arrivals;
	uint64_t departures;
};
struct apus_dp_matches_cursor {
	uint32_t current;
	uint64_t transitions;
};
/** What a poll of the match status reports. */
struct apus_dp_match_report {
	uint32_t current;
	int32_t change;       /* since this cursor last looked */
	uint64_t transitions; /* arrivals and departures */
	uint64_t total;       /* arrivals: DDS total_count */
};

static inline void apus_dp_matches_arrive(struct apus_dp_matches *m)
{
	m->current++;
	m->arrivals++;
}

static inline void apus_dp_matches_depart(struct apus_dp_matches *m)
{
	m->current--;
	m->departures++;
}

/** Reports if the count or the number of transitions moved; returns false, `*out` untouched, if not:
 *  churn that nets to zero shows, an unchanged graph is silent. */
bool apus_dp_matches_observe(const struct apus_dp_matches *m, struct apus_dp_matches_cursor *cursor,
			     struct apus_dp_match_report *out);

#endif
