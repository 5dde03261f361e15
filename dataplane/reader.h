/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader's side of the protocol: one sequence window per matched writer, samples held back until
 * those before them are there, acknowledgements (RTPS 2.5 §8.4.10, §8.4.12). Whatever the route, samples
 * go through apus_dp_admit() (dataplane/admit.h) and nothing else makes them visible.
 *
 * A payload is copied once, into a slot of the reader's pool, after the filter has passed it. Samples that
 * arrive out of order wait in such slots too, `held_max` of them at most; the others are asked for again.
 *
 * A built-in reader has a sink instead of a history: discovery samples are handed to control, which is
 * the one who runs that worker, in order and at once.
 *
 * All calls under the turn of the reader's worker. Nothing allocates after create.
 */
#ifndef APUS_DATAPLANE_READER_H
#define APUS_DATAPLANE_READER_H

#include <apus/participant.h>

#include "dataplane/admit.h"
#include "dataplane/alarm.h"
#include "dataplane/snapshot.h"
#include "dataplane/watch.h"
#include "dataplane/wheel.h"
#include "dataplane/window.h"
#include "shm/pool.h"
#include "wire/key.h"
#include "wire/message.h"

/** Longest canonical key a reader handles, in bytes. */
#define APUS_DP_KEY_BYTES_MAX 1024

struct apus_dp_worker;
struct apus_dp_subscriber;
struct apus_dp_guess;

/** What a sink gets: one discovery sample. Valid during the call. */
struct apus_dp_sink_sample {
	struct apus_guid writer;
	apus_seq seq;
	uint8_t change; /* bits of enum apus_dp_change */
	bool key_only;
	const uint8_t *payload; /* NULL: none */
	uint32_t payload_bytes;
	const uint8_t *key_hash;         /* 16 bytes or NULL */
	const struct apus_dp_addr *from; /* NULL for samples of this process */
	uint32_t datagram_bytes; /* of the datagram it came in, to its first such sample; else 0 */
	struct apus_wall source; /* source timestamp; APUS_WALL_NONE if there is none */
	/* Of another writer's sample that this one passes on; seq 0: nothing was said. */
	struct apus_guid related_writer;
	apus_seq related_seq;
};
typedef void apus_dp_sink_fn(void *user, const struct apus_dp_sink_sample *sample,
			     struct apus_mono now);

/** Fixed parameters of a reader. */
struct apus_dp_reader_config {
	struct apus_guid guid;
	bool reliable;
	bool transient_local;
	bool stateless;                     /* accepts the SPDP writer of anybody */
	struct apus_dp_inbox_options inbox; /* hold, release, key_hash are filled in by create */
	const struct apus_type *type;       /* NULL with a sink */
	int representation;                 /* of key-only payloads shown to the application */
	uint32_t payload_bytes_max;         /* with encapsulation header */
	uint32_t match_max;
	uint32_t held_max;     /* samples out of order, all writers together */
	uint32_t assembly_max; /* fragmented samples being put together; 0: none accepted */
	apus_dp_sink_fn *sink;
	void *sink_user;
	struct apus_dp_subscriber *subscriber; /* its group; NULL: of its own */
	uint32_t
		lent_max; /* samples kept in slots of writers of other processes; 0: all are copied */
	bool lend_any; /* whatever their type; false: only where the payload is the memory image */
	void *user;    /* the public handle, for apus_dp_group_list() */
};

/** Events of the protocol; what admission does is counted in the inbox. */
struct apus_dp_reader_counters {
	struct apus_counter received; /* DATA for this reader */
	struct apus_counter duplicates;
	struct apus_counter beyond;       /* too far ahead of what is missing */
	struct apus_counter held;         /* held back because something before it was missing */
	struct apus_counter held_full;    /* dropped for want of room to hold it; asked for again */
	struct apus_counter too_large;    /* payload above payload_bytes_max */
	struct apus_counter bad_key;      /* payload or key hash that names no instance */
	struct apus_counter no_slot;      /* pool empty: too many loans */
	struct apus_counter fragments;    /* DATA_FRAG submessages */
	struct apus_counter bad_fragment; /* of another size than the sample's first, or too many */
	struct apus_counter
		late_fragments; /* of samples that are complete, or not wanted any more */
	struct apus_counter
		assembly_full;          /* fragments dropped because too many samples were begun */
	struct apus_counter incomplete; /* samples given up with fragments missing */
	struct apus_counter nack_frags_sent;
	struct apus_counter heartbeats;
	struct apus_counter gaps;
	struct apus_counter acknacks_sent;
	struct apus_counter other_route; /* of a writer that is served on another route */
	struct apus_counter shm_broken;  /* rings given up: their writer wrote nonsense */
	struct apus_counter lent;        /* samples kept in their writer's slot */
	struct apus_counter filter_info; /* samples that came with the verdict of the filter */
	struct apus_counter matches_refused;
	struct apus_counter delivered; /* samples made available */
	struct apus_counter
		values_refused; /* taken, but no value of the type, or above value_bytes */
	struct apus_counter results[APUS_DP_ADMIT_RESULTS];
};

/** A sample held back. */
struct apus_dp_held {
	struct apus_dp_held *next, *prev;
	apus_seq seq;
	struct apus_wall source;
	uint32_t slot; /* APUS_SHM_NO_SLOT: no payload */
	uint32_t payload_bytes;
	uint8_t change;
	bool key_only;
	bool has_hash;
	uint8_t key_hash[16];
	struct apus_dp_marks marks;
};

/** A fragmented sample being put together. */
struct apus_dp_assembly {
	struct apus_dp_reader_state *state; /* NULL: free */
	uint64_t *bits;                     /* fragments that have come */
	apus_seq seq;
	struct apus_wall source;
	struct apus_mono last; /* when the latest fragment came */
	uint32_t slot;
	uint32_t sample_bytes, fragment_bytes, fragment_count;
	uint32_t have, highest; /* fragments; highest number seen */
	uint32_t asked_left;    /* of those asked for last */
	struct apus_mono asked_at;
	int64_t wait_ns; /* so long its answer may take */
	bool asked;
	bool repeated; /* some of that had been asked for before */
	bool answered; /* some fragment has come since */
	bool settled;  /* nothing is on its way: what is missing may be asked for */
	uint8_t change;
	bool key_only;
	bool has_hash;
	uint8_t key_hash[16];
	struct apus_dp_marks marks;
	/* What some fragment said of the filter, enum apus_dp_filter_word, and of which generation's. */
	uint8_t filter_word;
	uint64_t filter_generation;
};

/**
 * A payload that stays in its writer's slot while the history holds it; reader_lent.c. One whose match has ended has
 * been copied, unless the application is looking at it.
 */
struct apus_dp_lent {
	const uint8_t *payload;
	struct apus_dp_shm_in *shm; /* whose slot it is; NULL: our own pool's */
	uint32_t slot;
	uint32_t payload_bytes;
	uint32_t shown; /* loans of the application */
	/* Free: the next free one, as the difference (exclusive or) to the place behind: zero memory is a stack of
	 * all. */
	uint32_t next;
};

/** Mutable state of one matched writer. */
struct apus_dp_reader_state {
	uint64_t match_id; /* 0 = free */
	struct apus_guid guid;
	struct apus_prefix prefix;
	struct apus_eid eid;
	struct apus_dp_reader *reader;
	struct apus_dp_addr addr;
	struct apus_dp_window window;
	uint32_t slot;             /* its index: the match slot of the inbox */
	struct apus_eid publisher; /* its group; 0: of its own */
	/* Coherent sets: the last number admitted (0: none yet) and the first, what the window had lost by then,
	 * and whether something since was not understood. */
	apus_seq last_admitted, began;
	uint64_t lost_before;
	bool damaged;
	apus_seq group_passed;      /* group sets up to here it has ended, or has no part in */
	apus_seq group_broken;      /* the latest one that is broken */
	bool reliable;              /* the match is */
	bool local;                 /* same worker: arrives by apus_dp_reader_local() only */
	struct apus_dp_shm_in *shm; /* arrives through shared memory only; NULL: it does not */
	struct apus_dp_reader_state *shm_next; /* in the worker's list of those */
	apus_seq shm_last;                     /* last number taken out of the ring */
	bool shm_hole;       /* something between it and the one being admitted will not come */
	apus_seq refused;    /* without a window: the number that waits for room; 0 = none */
	bool shm_stalled;    /* refused for want of room; tried again after a take */
	bool filter_trusted; /* what it says of the reader's filter is right */
	uint8_t liveliness;  /* enum apus_liveliness of the writer */
	uint64_t lost_seen;  /* of window.lost, in the reader's total */
	bool mark;
	bool answer_due; /* a HEARTBEAT waits for its answer */
	bool ack_queued; /* in the worker's ack_list */
	struct apus_dp_reader_state *ack_next;
	struct apus_dp_reader_state *chain_next; /* same bucket of worker->by_writer */
	struct apus_dp_timer timer; /* repeated request, or a first one without HEARTBEAT yet */
	struct apus_mono asked;     /* last request for something missing … */
	apus_seq asked_end;         /* … and one above the highest number in it */
	int64_t greet_ns;           /* present back-off of requests before the first HEARTBEAT */
	apus_seq repeat_seq;        /* first number missing at the last request, */
	int64_t repeat_ns;          /* and the present back-off of its repetition */
	uint32_t ack_count;
	uint32_t frag_count;                /* of NACK_FRAGs */
	int64_t frag_answer_ns;             /* it takes so long to answer one; 0 = unknown */
	struct apus_dp_count frag_hb_count; /* of its HEARTBEAT_FRAGs */
	struct apus_mono whole_asked;       /* for samples beside those being put together */
	apus_seq too_large_seq;             /* a fragment has claimed that it is; 0 = none */
	uint32_t assembly_count;            /* its samples being put together */
	struct apus_dp_held *held_first, *held_last; /* by sequence number */
};

struct apus_dp_reader {
	struct apus_dp_reader_port port;
	uint64_t adopted_generation; /* of the snapshot the states stand for; 0 = none */
	struct apus_dp_worker *worker;
	struct apus_dp_reader_config config;
	struct apus_eid eid;
	const struct apus_wire_keyplan *plan; /* shared; NULL with a sink */
	struct apus_dp_inbox inbox;
	uint8_t filter_signature[16]; /* of the inbox's filter */
	bool inbox_ready;
	struct apus_shm_reserve reserve; /* what samples need, untouched until there are any */
	struct apus_shm_pool pool;
	uint32_t *slot_payload_bytes; /* per slot of the pool */
	uint32_t *
		key_slots; /* per history entry: slot of its key payload while lent, and 1; else 0 */
	struct apus_dp_lent *lents; /* lent_max */
	uint32_t lent_free;         /* lent_max: none */
	struct {
		struct apus_dp_shm_in
			*shm; /* the sample being admitted may stay in its slot; NULL: no */
		uint32_t slot;
		bool taken; /* it stays, or has stayed */
	} lending;
	struct apus_dp_assembly *assemblies; /* assembly_max */
	uint64_t *assembly_bits;
	uint32_t assembly_fragments;             /* most fragments of one sample */
	struct apus_dp_window_bits *window_bits; /* match_max */
	struct apus_dp_held *held_memory;
	struct apus_dp_held
		*held_free; /* those given back; the others never used are behind held_used */
	uint32_t held_used;
	struct apus_shm_reserve match_memory; /* states, their order, peers */
	struct apus_dp_reader_state *states;  /* match_max */
	uint32_t *order, *order_new;          /* as in struct apus_dp_writer */
	uint32_t match_count;
	uint32_t shm_count;                /* of them, those through shared memory */
	struct apus_dp_reader *ask_next;   /* in the worker's list */
	struct apus_dp_reader *group_next; /* in its subscriber's list */
	uint32_t group_head;               /* scratch of apus_dp_group_list() */
	bool any_refused;                  /* something waits for room: ask again after a take */
	bool shm_spared;                   /* rings among it, until there is room for several */
	int event_fd;      /* -1 until somebody wants one: a process has few descriptors */
	bool event_wanted; /* somebody uses it */
	bool event_raised;
	_Atomic uint32_t matched;
	struct apus_dp_reader_counters counters;

	/* Statuses: reader_status.c. */
	struct apus_dp_watched watched;
	struct apus_dp_alarm alarm;
	uint64_t news;        /* times something became readable */
	uint64_t window_lost; /* samples that never came, all writers together */
	uint64_t flips_told;  /* of inbox.peers.flips */
	uint64_t lapsed_told; /* of inbox.lapsed */
	int64_t lease_min;    /* shortest finite lease of its writers; for the alarm */
	int last_refusal;     /* enum apus_dp_refusal of the last rejected sample */
	apus_instance last_refused;
};

/** A sample of a writer of the same worker. */
struct apus_dp_local_sample {
	const struct apus_guid *writer;
	uint64_t match_id;
	apus_seq seq;
	struct apus_wall source;
	uint8_t kind; /* enum apus_change */
	bool key_only;
	const uint8_t *payload;
	uint32_t payload_bytes;
	bool filter_passed; /* known of the reader's present filter */
	struct apus_dp_marks marks;
};

/** What of a reader's rules may change while it lives; nanoseconds. */
struct apus_dp_reader_timing {
	int64_t deadline_ns, separation_ns, lifespan_ns;
	int64_t purge_no_writers_ns, purge_disposed_ns; /* as in struct apus_dp_history_options */
};

/** Creates a reader on a worker (not yet registered there). Returns 0, APUS_EINVAL, APUS_ELIMIT (key or
 *  history sizes), APUS_ENOMEM, APUS_EIO. */
int apus_dp_reader_create(struct apus_dp_worker *worker, const struct apus_dp_reader_config *config,
			  struct apus_dp_reader **reader_out);
/** Other rules from here on, for samples that come; see apus_dp_history_set_deadline(). Samples that the old
 *  separation suppressed, and wait (late delivery), come when it said. */
void apus_dp_reader_set_timing(struct apus_dp_reader *reader,
			       const struct apus_dp_reader_timing *timing, struct apus_mono now);
/** Frees a reader that is no longer registered; lent samples become invalid. NULL is allowed. */
void apus_dp_reader_destroy(struct apus_dp_reader *reader);

/** Where a sample came from. */
struct apus_dp_origin {
	const struct apus_dp_addr *from;
	uint32_t datagram_bytes;
	struct apus_wall timestamp;
};

/** Handles a DATA from a matched writer. */
void apus_dp_reader_data(struct apus_dp_reader_state *state, const struct apus_wire_data *data,
			 const struct apus_dp_origin *origin, struct apus_mono now);
/** Handles DATA of a run from a matched writer, as apus_dp_reader_data() would one after the other. */
void apus_dp_reader_run(struct apus_dp_reader_state *state, const struct apus_wire_run *run,
			const struct apus_dp_origin *origin, struct apus_mono now);
/** Handles a DATA_FRAG from a matched writer. */
void apus_dp_reader_frag(struct apus_dp_reader_state *state, const struct apus_wire_data_frag *frag,
			 const struct apus_dp_origin *origin, struct apus_mono now);
/** Says where the payload of a fragment belongs; leaves *place as it is if nobody waits for it any more. */
void apus_dp_reader_place(const struct apus_dp_guess *guess, struct apus_dp_rx_place *place);
/** Handles a HEARTBEAT_FRAG of a matched writer. */
void apus_dp_reader_heartbeat_frag(struct apus_dp_reader_state *state,
				   const struct apus_wire_heartbeat_frag *heartbeat,
				   struct apus_mono now);
/** Handles a DATA of the SPDP writer at a stateless reader. */
void apus_dp_reader_stateless(struct apus_dp_reader *reader, const struct apus_guid *writer,
			      const struct apus_wire_data *data,
			      const struct apus_dp_origin *origin, struct apus_mono now);
/** Handles a HEARTBEAT or a GAP of a matched writer. */
void apus_dp_reader_heartbeat(struct apus_dp_reader_state *state,
			      const struct apus_wire_heartbeat *heartbeat, struct apus_mono now);
void apus_dp_reader_gap(struct apus_dp_reader_state *state, const struct apus_wire_gap *gap,
			struct apus_mono now);
/** Handles a sample of a writer of the same worker; false if it was refused and is wanted again. */
bool apus_dp_reader_local(struct apus_dp_reader *reader, const struct apus_dp_local_sample *sample,
			  struct apus_mono now);

/** Counts samples of a writer of the same worker that were not offered, for the present filter rejects them. */
void apus_dp_reader_skipped(struct apus_dp_reader *reader, uint64_t count);
/** Has these counted up to now; under the turn. */
void apus_dp_reader_count_skipped(struct apus_dp_reader *reader);

/** Ends every match before the reader leaves its worker. */
void apus_dp_reader_detach(struct apus_dp_reader *reader, struct apus_mono now);
/** For reader_adopt.c: gives back what a state holds; its timer function; its first request. */
void apus_dp_reader_drop_held(struct apus_dp_reader_state *state);
void apus_dp_reader_timer(struct apus_dp_timer *timer, struct apus_mono now);
void apus_dp_reader_greet(struct apus_dp_reader_state *state, struct apus_mono now);
/** Raises the eventfd if somebody uses it. */
void apus_dp_reader_raise(struct apus_dp_reader *reader);
/** Asks a matched writer for everything from one number on, though that was acknowledged: what it still has comes
 *  once more. False if no such writer is matched, over the network, or the number is not behind us. */
bool apus_dp_reader_ask_from(struct apus_dp_reader *reader, const struct apus_guid *writer,
			     apus_seq from, struct apus_mono now);
/** Admits what lies in the rings of the reader's matches through shared memory, a burst of each, as a poll of its worker
 *  would. A look at each ring if there is nothing. */
void apus_dp_reader_fetch(struct apus_dp_reader *reader);
/** Asks again for samples that were refused, after room was made. more: whoever made it comes back for samples that are
 *  there; then rings wait until there is room for several. */
void apus_dp_reader_ask_again(struct apus_dp_reader *reader, bool more, struct apus_mono now);

/** Sends the acknowledgement of a state now. */
void apus_dp_reader_send_ack(struct apus_dp_reader_state *state, struct apus_mono now);

/** Brings states, filter and history in line with the published snapshot. Called when the turn is taken. */
void apus_dp_reader_adopt(struct apus_dp_reader *reader, struct apus_mono now);

/** Implements apus_take() and apus_read(). */
int apus_dp_reader_access(struct apus_dp_reader *reader, const struct apus_select *select,
			  bool take, struct apus_mono now, struct apus_sample *samples_out,
			  uint32_t max);
/** The same for samples that satisfy `query` (NULL: all) besides. */
int apus_dp_reader_access_where(struct apus_dp_reader *reader, const struct apus_select *select,
				const struct apus_dp_predicate *query, bool take,
				struct apus_mono now, struct apus_sample *samples_out,
				uint32_t max);
/** True if a read with these would return something. */
bool apus_dp_reader_has(struct apus_dp_reader *reader, const struct apus_select *select,
			const struct apus_dp_predicate *query, struct apus_mono now);
/** Implements apus_return() for one sample. */
int apus_dp_reader_return(struct apus_dp_reader *reader, struct apus_sample *sample);
/** True if there is something to take. */
bool apus_dp_reader_available(struct apus_dp_reader *reader, struct apus_mono now);
/** The eventfd, made when it is first asked for; from now on it is raised when samples become available. Or APUS_EIO. */
int apus_dp_reader_fd(struct apus_dp_reader *reader, struct apus_mono now);

/* ---- statuses: reader_status.c -------------------------------------------------------------- */

/** Books leases that have lapsed, and what follows from it for instances. O(writers) if any has a finite
 *  lease, else one branch. */
void apus_dp_reader_expire(struct apus_dp_reader *reader, struct apus_mono now);
/** Some participant's writers of one liveliness kind were asserted at `at`. */
void apus_dp_reader_pulse(struct apus_dp_reader *reader, const struct apus_prefix *prefix,
			  uint8_t liveliness, struct apus_mono at);
/** A writer of this worker asserts its liveliness without writing. */
void apus_dp_reader_assert_local(struct apus_dp_reader *reader, uint64_t match_id,
				 struct apus_mono now);
/** Starts or stops looking at statuses of time unasked, as the watches and the descriptor demand. */
void apus_dp_reader_want_alarm(struct apus_dp_reader *reader, struct apus_mono now);
/** Fills in requested deadlines missed by `now`, with the instance that missed last. O(instances). */
uint64_t apus_dp_reader_deadlines(const struct apus_dp_reader *reader, struct apus_mono now,
				  apus_instance *last_out);

#endif
