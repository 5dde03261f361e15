/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reader's history: the samples an application can read or take, their instances and states
 * (DDS 1.4 §2.2.2.5), and the samples it has been lent.
 *
 * An entry refers to a payload slot by a number that means nothing here; the owner's `release` is called
 * once for each slot the history lets go. Room for everything is given at init: max_samples entries with
 * data, one without data an instance, and max_loans that were taken, displaced or pruned while lent. A
 * slot pool of max_samples + max_loans + 1 therefore never runs dry (the one is the arriving sample,
 * which is held before the displaced one goes).
 *
 * Entries without data (valid_data = false) tell of dispose and of the last writer's leaving. They do not
 * count against depth or limits. An instance has at most one: a later change of state moves it to the end,
 * new data takes it away (its rebirth shows in view state and generation counts instead).
 *
 * KEEP_LAST displaces the oldest sample of the same instance at `depth`, and also when max_samples or
 * max_samples_per_instance is reached and the instance has a sample to give; else the arrival is refused.
 */
#ifndef APUS_DATAPLANE_HISTORY_H
#define APUS_DATAPLANE_HISTORY_H

#include "dataplane/instance.h"
#include "dataplane/marks.h"

/** Why there is no room (DDS SampleRejectedStatusKind and, last, the pool of payload slots). */
enum apus_dp_refusal {
	APUS_DP_REFUSED_NOT = 0,
	APUS_DP_REFUSED_INSTANCES = 1,
	APUS_DP_REFUSED_SAMPLES = 2,
	APUS_DP_REFUSED_PER_INSTANCE = 3,
	APUS_DP_REFUSED_SLOTS = 4,
	APUS_DP_REFUSAL_KINDS = 5,
};

struct apus_dp_history_options {
	bool keep_all;
	uint32_t depth;                    /* KEEP_LAST: 1 … max_samples_per_instance */
	uint32_t max_samples;              /* 1 … 2^24 */
	uint32_t max_samples_per_instance; /* 1 … */
	uint32_t max_loans;                /* samples lent at one time, 0 … 2^24 */
	/** Destination order BY_SOURCE: within an instance by source time, then writer, then number; what comes
	 *  too late to be shown in that order is rejected. */
	bool by_source;
	/** An access returns the samples of an instance one after another (DDS 1.4 §2.2.2.5.3.8), instances by
	 *  their oldest sample; false: all in order of reception (ordered access). */
	bool by_instance;
	uint64_t *stamp; /* count shared with other histories, starts at 1; NULL: its own */
	int64_t purge_no_writers_ns; /* from NO_WRITERS until the instance is forgotten … */
	int64_t purge_disposed_ns; /* … from DISPOSED until its samples are; 0 or INFINITE = never */
	int64_t deadline_ns;       /* 0 or APUS_INFINITE_NS = none */
	struct apus_dp_instances_options instances; /* `dropped` is set by the history */
	void (*release)(void *context, uint32_t slot_ref);
	void *release_context;
};

/** What is recorded of one sample. */
struct apus_dp_record {
	struct apus_guid writer;
	struct apus_eid publisher; /* the writer's; 0: not known */
	apus_seq seq;
	struct apus_wall source_time;
	struct apus_mono reception_time;
	struct apus_mono expires_at; /* age ≥ lifespan from here on; INT64_MAX = never */
	uint64_t filter_generation;
	uint32_t slot_ref; /* APUS_DP_NONE: no payload */
	uint32_t match_slot;
	struct apus_dp_marks marks;
};

/** What differs among the samples of one writer that are stored in a row. */
struct apus_dp_run_item {
	apus_seq seq;
	struct apus_wall source_time;
	uint32_t slot_ref;
};

/** One entry. Read-only outside history.c. */
struct apus_dp_sample {
	struct apus_dp_record record;
	uint32_t instance_idx;
	uint32_t disposed_generation_count; /* the instance's, when it was received */
	uint32_t no_writers_generation_count;
	uint32_t prev, next;                   /* by reception; `next` also links free entries */
	uint32_t instance_prev, instance_next; /* within the instance */
	uint32_t loans;
	uint64_t stamp; /* when it became visible, in the history's count */
	bool valid_data;
	bool read;
	bool in_history; /* false: free, withheld, or only lent */
	bool withheld;   /* in a set (dataplane/sets.h) */
	uint8_t change;  /* of a withheld one: bits of enum apus_dp_change */
};

struct apus_dp_history_counters {
	uint64_t stored;         /* samples with data that became available */
	uint64_t displaced;      /* by KEEP_LAST */
	uint64_t displaced_lost; /* of these, those nobody had read */
	uint64_t expired;        /* removed by take because of their lifespan */
	uint64_t pruned;         /* removed by a filter change */
	uint64_t purged;         /* samples with data removed because of a purge delay */
	uint64_t deadline_gone;  /* misses of instances that were dropped */
};

struct apus_dp_history {
	struct apus_dp_history_options options;
	struct apus_dp_instances instances;
	struct apus_dp_sample *entries;
	uint32_t entry_count; /* capacity */
	uint32_t free_first;
	uint32_t first, last;   /* by reception */
	uint32_t sample_count;  /* with data */
	uint32_t invalid_count; /* without */
	uint32_t loan_count;
	uint32_t withheld_count; /* charged to max_samples as if stored */
	struct apus_mono clock;  /* latest time seen; dates the drop of an instance */
	uint64_t own_stamp,
		*stamp;        /* of the latest entry, from 1: order of arrival; may be shared */
	uint64_t access_stamp; /* counts accesses */
	uint32_t purge_first[2], purge_last[2]; /* NO_WRITERS, DISPOSED: longest first */
	bool purges;                            /* a purge delay is set */
	bool deadline_changed; /* instances may have missed some though there is no deadline now */
	bool any_expires;      /* a sample with a finite lifespan was stored; never cleared */
	struct apus_dp_history_counters counters;
};

/** Which entries a read or take wants; 0 in a mask = any. */
struct apus_dp_select {
	uint8_t instance_states; /* mask of enum apus_instance_state */
	uint8_t sample_states;   /* 1 = read, 2 = not read */
	uint8_t view_states;     /* 1 = new, 2 = not new */
	apus_instance instance;  /* APUS_INSTANCE_NONE = any */
	bool next_instance;      /* the first one behind `instance` that has something to return */
	uint64_t stamp_max;      /* entries up to this stamp; 0 = all */
	/** Further condition (related sample, query), or NULL; called last, for entries that match the rest. */
	bool (*match)(void *context, const struct apus_dp_sample *entry);
	void *match_context;
};

/** One lent sample: the entry, and what was true of it at the call. */
struct apus_dp_loan {
	uint32_t entry_idx;                 /* gives it back */
	const struct apus_dp_sample *entry; /* valid until given back */
	apus_instance instance;             /* NONE for a keyless topic */
	uint8_t instance_state;
	bool read_before;
	bool view_new;
	/* Filled in at the end of the access (DDS 1.4 §2.2.2.5.1.6 … 8). */
	int32_t sample_rank;
	int32_t generation_rank;
	int32_t absolute_generation_rank;
};

/** How far an access has come. Private. */
struct apus_dp_walk {
	uint32_t all; /* next entry in order of reception */
	uint32_t one; /* next entry of the present instance */
	bool within;  /* only that instance */
	bool any;     /* no further conditions */
	bool take;
	struct apus_mono now;
};

/** Bytes of memory init needs; 0 if the options are out of range. */
size_t apus_dp_history_bytes(const struct apus_dp_history_options *options);
/** Lays the history out in `memory` (16-byte aligned). `*h` must not move afterwards.
 *  Returns 0 or APUS_EINVAL. */
int apus_dp_history_init(struct apus_dp_history *h, const struct apus_dp_history_options *options,
			 void *memory);
/** Releases every slot, lent ones included; the memory is the caller's again. */
void apus_dp_history_fini(struct apus_dp_history *h);

/* ---- filling ------------------------------------------------------------------------------- */

/** Whether a sample of `instance` (NULL: of a new one with a key of key_bytes) would be stored.
 *  Changes nothing. Returns enum apus_dp_refusal. */
enum apus_dp_refusal apus_dp_history_room(const struct apus_dp_history *h,
					  const struct apus_dp_instance *instance,
					  size_t key_bytes);
/** How many of `count` samples of `instance` would be stored without displacing any. Changes nothing. */
uint32_t apus_dp_history_room_for(const struct apus_dp_history *h,
				  const struct apus_dp_instance *instance, uint32_t count);
/** True if the later arrival `b` may take the place of `a`: always, unless the order is by source. */
bool apus_dp_history_follows(const struct apus_dp_history *h, const struct apus_dp_record *a,
			     const struct apus_dp_record *b);
/** Whether the order leaves a place for a sample (with_data) or a dispose. Always under BY_RECEPTION; under
 *  BY_SOURCE not below what was taken, disposed of, or would have to make room for it. instance NULL: a new
 *  one. Changes nothing. */
bool apus_dp_history_in_order(const struct apus_dp_history *h,
			      const struct apus_dp_instance *instance,
			      const struct apus_dp_record *record, bool with_data);
/** Carries out the purge delays that have passed by `now`. O(what goes). */
void apus_dp_history_purge(struct apus_dp_history *h, struct apus_mono now);
/** Where the record of the next sample may be put together: in the entry that will hold it, mostly. Valid until the
 *  history changes. `otherwise`: what to use while no entry is free. */
static inline struct apus_dp_record *apus_dp_history_blank(struct apus_dp_history *h,
							   struct apus_dp_record *otherwise)
{
	return h->free_first == APUS_DP_NONE ? otherwise : &h->entries[h->free_first].record;
}
/** Stores a sample that room() allowed, registers its writer for the instance and brings the instance to
 *  life. Returns the entry's index; `*displaced_out` tells if an older sample had to go. */
uint32_t apus_dp_history_store(struct apus_dp_history *h, struct apus_dp_instance *instance,
			       const struct apus_dp_record *record, bool *displaced_out);
/** Stores `count` ≥ 1 samples at once, for which room_for() has found room. Order by reception. *common: their records
 *  but for what differs. */
void apus_dp_history_store_run(struct apus_dp_history *h, struct apus_dp_instance *instance,
			       const struct apus_dp_record *common,
			       const struct apus_dp_run_item *items, uint32_t count);
/** The instance is disposed of. with_entry: add an entry without data (false if the dispose came with
 *  data that was stored). Returns true if the state changed. record->slot_ref must be APUS_DP_NONE. */
bool apus_dp_history_dispose(struct apus_dp_history *h, struct apus_dp_instance *instance,
			     const struct apus_dp_record *record, bool with_entry);
/** A writer ends its registration; an ALIVE instance that loses its last one becomes NO_WRITERS, told by
 *  an entry without data. Ownership of that writer ends. Returns true if the state changed. */
bool apus_dp_history_unregister(struct apus_dp_history *h, struct apus_dp_instance *instance,
				const struct apus_dp_record *record);
/** unregister() for all instances: the writer was unmatched or its lease lapsed. record: writer and match
 *  slot, reception_time = now. O(instances). Returns how many instances changed state. */
uint32_t apus_dp_history_writer_gone(struct apus_dp_history *h,
				     const struct apus_dp_record *record);

/* ---- reading ------------------------------------------------------------------------------- */

/**
 * Reads or takes up to `max` matching entries in order of reception. Samples expired at `now` are
 * stepped over, by take removed. All samples of one call see view state and instance state as they were
 * before it; afterwards the instances are NOT_NEW and the samples READ.
 * Returns their number, or APUS_ELIMIT if max_loans are out already. O(entries walked).
 */
int apus_dp_history_access(struct apus_dp_history *h, const struct apus_dp_select *select,
			   bool take, struct apus_mono now, struct apus_dp_loan *loans_out,
			   uint32_t max);
/**
 * The same sample by sample, for a caller that has no array of loans. begin(), then next() until it returns
 * false; each loan is the caller's. Then, in reverse order, finish() for each: it fills in the ranks and carries
 * out what the access changes. Between begin() and the last finish() nothing else may touch the history.
 * begin() returns the most that next() may be called, or APUS_ELIMIT.
 */
int apus_dp_history_begin(struct apus_dp_history *h, const struct apus_dp_select *select, bool take,
			  struct apus_mono now, struct apus_dp_walk *walk);
bool apus_dp_history_next(struct apus_dp_history *h, const struct apus_dp_select *select,
			  struct apus_dp_walk *walk, struct apus_dp_loan *loan_out);
void apus_dp_history_finish(struct apus_dp_history *h, const struct apus_dp_walk *walk,
			    struct apus_dp_loan *loan);
/** True if the result of an access depends on the time. If not, the history's own clock serves as well, and
 *  the caller need not read one (30 ns, which every single sample would pay). */
static inline bool apus_dp_history_is_timed(const struct apus_dp_history *h)
{
	return h->any_expires || h->purges ||
	       (h->options.deadline_ns != 0 && h->options.deadline_ns != APUS_INFINITE_NS);
}
/** Another deadline from here on: what was missed is banked; the new period begins now where one was running, else
 *  with the next sample. */
void apus_dp_history_set_deadline(struct apus_dp_history *h, int64_t deadline_ns,
				  struct apus_mono now);
/** Other delays of purging, as in the options, from here on and as if all instances had changed state now. */
void apus_dp_history_set_purge(struct apus_dp_history *h, int64_t no_writers_ns,
			       int64_t disposed_ns, struct apus_mono now);
/** Gives one loan back. Returns 0 or APUS_EINVAL if that entry is not lent. */
int apus_dp_history_return(struct apus_dp_history *h, uint32_t entry_idx);
/** True if an access with this select (NULL = all) would return something. */
bool apus_dp_history_available(struct apus_dp_history *h, const struct apus_dp_select *select,
			       struct apus_mono now);
/** The wanted entry that follows `entry_idx` (APUS_DP_NONE: the first) in order of reception, or NONE. Changes
 *  nothing. */
uint32_t apus_dp_history_peek(const struct apus_dp_history *h, const struct apus_dp_select *select,
			      uint32_t entry_idx, struct apus_mono now);
/** The key of an entry's instance, as long as the entry is in the history or lent. */
const uint8_t *apus_dp_history_key(const struct apus_dp_history *h,
				   const struct apus_dp_sample *entry, uint32_t *key_bytes_out);
/**
 * Removes the samples with data that `keep` does not want and gives the others `filter_generation`.
 * Lent ones leave the history too, but stay valid until returned. Returns how many went.
 */
uint32_t apus_dp_history_prune(struct apus_dp_history *h,
			       bool (*keep)(void *context, const struct apus_dp_sample *entry),
			       void *context, uint64_t filter_generation);

/** Requested deadlines missed by all instances, dropped ones included. O(instances). */
uint64_t apus_dp_history_deadlines_missed(const struct apus_dp_history *h, struct apus_mono now);

#endif
