/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one way in: whatever the route, a sample becomes visible to a reader through apus_dp_admit().
 *
 *     content filter -> exclusive ownership -> minimum separation (token) -> expired on arrival
 *     -> destination order -> coherent set -> room -> hold the payload -> store
 *     -> only then: redeem the token, deadline, liveliness of that writer, available
 *
 * A rejected sample leaves no trace. Ownership is the exception: it is decided at its test, and a
 * stronger writer owns the instance from there, whatever becomes of this sample. That may take a place
 * in the instance table, but an idle one, given up as soon as somebody needs it.
 */
#ifndef APUS_DATAPLANE_ADMIT_H
#define APUS_DATAPLANE_ADMIT_H

#include "base/atomics.h"
#include "dataplane/history.h"
#include "dataplane/late.h"
#include "dataplane/predicate.h"
#include "dataplane/sets.h"

/** What happened to a sample; each has a counter. */
enum apus_dp_admit_result {
	APUS_DP_STORED = 0,
	APUS_DP_DISPLACED = 1, /* stored; an older sample of the instance went */
	APUS_DP_NOTICE = 2,    /* dispose or unregister applied; nothing stored as data */
	APUS_DP_IGNORED = 3,   /* a notice about an instance this reader does not have */
	APUS_DP_REJECTED_FILTER = 4,
	APUS_DP_REJECTED_OWNERSHIP = 5,
	APUS_DP_REJECTED_RATE = 6,
	APUS_DP_EXPIRED = 7,
	APUS_DP_WITHHELD = 8,   /* coherent set incomplete; not yet produced */
	APUS_DP_REFUSED = 9,    /* a limit; see `refusal`. Reliable: do not acknowledge */
	APUS_DP_MALFORMED = 10, /* the payload does not hold what the filter needs; bad arguments */
	APUS_DP_REJECTED_ORDER =
		11, /* destination order: older than what was shown, or displaced itself */
	APUS_DP_REJECTED_SET = 12, /* of a coherent set that can never be complete */
	APUS_DP_ADMIT_RESULTS = 13,
};

/** True if the number is dealt with for good: apus_dp_window_done(), not apus_dp_window_refuse(). */
static inline bool apus_dp_admit_settles(enum apus_dp_admit_result result)
{
	return result != APUS_DP_REFUSED;
}

/** Bits of the status info (RTPS 2.5 §9.6.4.9). */
enum apus_dp_change { APUS_DP_ALIVE = 0, APUS_DP_DISPOSE = 1, APUS_DP_UNREGISTER = 2 };

/** What is known of the content filter's verdict on a sample. */
enum apus_dp_filter_word {
	APUS_DP_FILTER_UNKNOWN = 0,
	APUS_DP_FILTER_PASSED,
	APUS_DP_FILTER_REJECTED,
};

/** A sample at the door. Nothing in it is kept: pointers need to live for the call only. */
struct apus_dp_arrival {
	uint32_t match_slot; /* its writer; must be in use */
	apus_seq seq;
	bool reliable;       /* the writer will offer a refused sample again */
	bool refused_before; /* apus_dp_window_was_refused(): its refusal is counted already */
	bool has_data;       /* payload is a whole sample, not only a key */
	uint8_t change;      /* bits of enum apus_dp_change */
	struct apus_dp_marks marks;
	struct apus_eid publisher;    /* its writer's; 0: not known */
	bool lost;                    /* numbers between its predecessor and it were lost */
	apus_seq began;               /* the first number this match has had */
	struct apus_wall source_time; /* APUS_WALL_NONE: none sent */
	struct apus_wall wall_now;    /* to tell its age on arrival */
	uint8_t filter_word;          /* enum apus_dp_filter_word */
	const uint8_t *payload;       /* for the filter and `hold` */
	size_t payload_bytes;
	const uint8_t *key; /* canonical; NULL: only key_hash is known (notices) or keyless */
	size_t key_bytes;
	const uint8_t *key_hash; /* 16 bytes or NULL; used only without `key` */
	bool hash_is_alias;      /* it is of the second form of the instance table's options */
};

struct apus_dp_admission {
	enum apus_dp_admit_result result;
	enum apus_dp_refusal refusal; /* with REFUSED */
	uint32_t entry_idx;           /* with STORED and DISPLACED */
	apus_instance instance;       /* NONE if none was touched, or keyless */
	bool available;               /* something new to read: wake whoever waits */
};

/** A content filter: verdict on a payload. context: a predicate, a custom class, … */
typedef enum apus_dp_verdict apus_dp_filter_fn(const void *context, const uint8_t *payload,
					       size_t payload_bytes);
/** Holds the payload of an accepted arrival for this reader (copies it, or takes a reference) and returns
 *  its slot, or APUS_DP_NONE if there is no slot. Balanced by history.release. */
typedef uint32_t apus_dp_hold_fn(void *context, const struct apus_dp_arrival *arrival);

struct apus_dp_inbox_options {
	struct apus_dp_history_options history; /* history.instances.match_count_max = peers */
	bool exclusive;                         /* ownership */
	int64_t separation_ns;                  /* time-based filter; 0 = off */
	bool late; /* the last sample it suppresses is shown when it has passed; not with `coherent`. Holds one
		    * slot an instance besides those of the history */
	int64_t lifespan_ns; /* the reader's own; APUS_INFINITE_NS = none */
	bool coherent;       /* coherent sets are requested, at topic or group scope */
	/** Group scope: the set of the writer at `slot` has ended; returns true if the caller is to release or drop
	 *  it now (set->broken says which), false if it is to wait. NULL: topic scope. */
	bool (*group_end)(void *context, uint32_t slot, struct apus_mono now);
	void *group_context;
	/** match_count_max zeroed ones for the writers; NULL: behind the history. */
	struct apus_dp_peer *peers;
	apus_dp_hold_fn *hold;
	void *hold_context;
};

struct apus_dp_inbox_counters {
	uint64_t results[APUS_DP_ADMIT_RESULTS]; /* by enum apus_dp_admit_result */
	/* DDS sample_rejected by reason, once a number. Counters are shown to others at any time. */
	struct apus_counter refusals[APUS_DP_REFUSAL_KINDS];
	uint64_t rejected;  /* sum of refusals */
	uint64_t lost;      /* displaced unread, and refused for good (best effort) */
	uint64_t available; /* samples that became readable */
	struct apus_counter sets_released, sets_dropped;
	struct apus_counter
		late; /* samples shown late: rejected for their rate first, then stored */
};

/** Everything of one reader that admission changes. Must not move after init. */
struct apus_dp_inbox {
	struct apus_dp_inbox_options options;
	struct apus_dp_history history;
	struct apus_dp_peers peers;
	struct apus_dp_late late;
	struct apus_dp_set *sets;  /* by match slot; NULL unless coherent */
	apus_dp_filter_fn *filter; /* NULL = everything passes */
	const void *filter_context;
	uint64_t filter_generation;
	struct apus_dp_inbox_counters counters;
	uint64_t
		lapsed; /* instances that lost their last writer to a lapse, and samples shown late, so far */
};

/** Bytes of memory init needs (history, instances, peers); 0 if the options are out of range. */
size_t apus_dp_inbox_bytes(const struct apus_dp_inbox_options *options);
/** Lays it out in `memory` (16-byte aligned). Returns 0 or APUS_EINVAL. */
int apus_dp_inbox_init(struct apus_dp_inbox *inbox, const struct apus_dp_inbox_options *options,
		       void *memory);
/** Releases every slot. */
void apus_dp_inbox_fini(struct apus_dp_inbox *inbox);

/** Admits one sample; see the head of this file. O(1), allocates nothing. Returns out->result. */
enum apus_dp_admit_result apus_dp_admit(struct apus_dp_inbox *inbox,
					const struct apus_dp_arrival *arrival, struct apus_mono now,
					struct apus_dp_admission *out);

/**
 * A run: samples of one writer with data, one behind the other, where none of the steps is asked for but room and
 * storing, so that each would be STORED. room() tells how many of `count` samples of the writer at `slot` make one;
 * 0: none, or this cannot be told so simply; apus_dp_admit() decides. It must be asked right before run(), which
 * stores so many. *arrival is what they have in common; the payloads of *items are held.
 */
uint32_t apus_dp_admit_run_room(struct apus_dp_inbox *inbox, uint32_t slot, uint32_t count,
				struct apus_mono now);
void apus_dp_admit_run(struct apus_dp_inbox *inbox, const struct apus_dp_arrival *arrival,
		       const struct apus_dp_run_item *items, uint32_t count, struct apus_mono now);

/**
 * The end of a coherent set of the writer at `slot`, said by a marker or by its next change; lost: numbers were
 * lost since the change before. Releases or drops the set. Returns true, also if none was open; false if it has
 * to wait for its group: then nothing more of that writer may be admitted. *available_out: something new.
 */
bool apus_dp_inbox_end_set(struct apus_dp_inbox *inbox, uint32_t slot, bool lost,
			   struct apus_mono now, bool *available_out);
/** Makes a set that has ended visible, or drops it if it is broken. Returns true if something is new. */
bool apus_dp_inbox_settle_set(struct apus_dp_inbox *inbox, uint32_t slot, struct apus_mono now);

/** Another filter (NULL: none) from here on; queued samples are re-tested by `keep` (NULL: all stay), which
 *  must apply the same filter to an entry's payload. Returns how many were pruned. */
uint32_t apus_dp_inbox_set_filter(struct apus_dp_inbox *inbox, apus_dp_filter_fn *filter,
				  const void *filter_context, uint64_t filter_generation,
				  bool (*keep)(void *context, const struct apus_dp_sample *entry),
				  void *keep_context);

/** A writer was matched at a free slot, or its strength, lease or lifespan changed. Returns 0 or
 *  APUS_EINVAL. */
int apus_dp_inbox_match(struct apus_dp_inbox *inbox, uint32_t slot, const struct apus_guid *guid,
			int32_t strength, int64_t lease_ns, int64_t lifespan_ns,
			struct apus_mono now);
/** It was unmatched: its registrations and ownerships end. Returns the number of instances that became
 *  NO_WRITERS (0: nothing new to read). */
uint32_t apus_dp_inbox_unmatch(struct apus_dp_inbox *inbox, uint32_t slot, struct apus_mono now);
/** What time alone has done by now. Books lapsed leases: a writer that lapsed loses its registrations and
 *  ownerships as if unmatched, but stays. Shows late samples that are due. Each takes effect at its instant, in
 *  their order, however late anybody asks; admission asks, too. Returns how many instances became NO_WRITERS and
 *  samples were shown. O(peers) if a lease may have lapsed, else two comparisons. */
uint32_t apus_dp_inbox_catch_up(struct apus_dp_inbox *inbox, struct apus_mono now);
/** An assertion without a sample (HEARTBEAT with liveliness flag, participant liveliness message). */
void apus_dp_inbox_assert(struct apus_dp_inbox *inbox, uint32_t slot, struct apus_mono now);

/* ---- the two tests, separate for the benchmarks and property tests -------------------------- */

/** Outcome of the minimum-separation test. */
enum apus_dp_rate { APUS_DP_RATE_UNTRACKED, APUS_DP_RATE_TOKEN, APUS_DP_RATE_REJECTED };

/** Tests an arrival for `instance` (NULL: a new one) received at `received`; changes nothing. The token
 *  is redeemed by storing `received` as instance->last_accepted. */
enum apus_dp_rate apus_dp_rate_test(const struct apus_dp_instance *instance, int64_t separation_ns,
				    bool has_data, struct apus_mono received);

/** Decides ownership of `instance` for the writer at `slot` and enters it. Owners that left, lapsed or
 *  missed the deadline (deadline_ns, 0 = none) hold nothing. Returns true if the sample is admitted. */
bool apus_dp_ownership_test(struct apus_dp_peers *peers, struct apus_dp_instance *instance,
			    uint32_t slot, int64_t deadline_ns, struct apus_mono now);

#endif
