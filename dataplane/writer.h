/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer's side of the protocol: history cache, one state per matched reader, heartbeats, repairs
 * and gaps (RTPS 2.5 §8.4.7, §8.4.9).
 *
 * A sample is sent once to each destination of the adopted snapshot: readers behind one address share a
 * datagram. A reliable reader is served from what it asks for: a late joiner learns the range from a
 * HEARTBEAT and requests it, so history is never pushed faster than the reader takes it. What it asks
 * for and will never get (displaced, from before its match, removed) is answered by GAP.
 *
 * A sample is in the cache before it is sent: `sent` says up to where the destinations have been served.
 * Usually a write sends at once; a batch, a suspended publisher and apus_write_many() hold samples back and
 * send them together, which packs them into few datagrams and makes one HEARTBEAT of many. What is held is
 * unknown to readers: HEARTBEATs do not tell of it. No sample is displaced or refused room for being held:
 * the held ones are sent first.
 *
 * All calls under the turn of the writer's worker. Nothing allocates after create.
 */
#ifndef APUS_DATAPLANE_WRITER_H
#define APUS_DATAPLANE_WRITER_H

#include "dataplane/alarm.h"
#include "dataplane/cache.h"
#include "dataplane/snapshot.h"
#include "dataplane/status.h"
#include "dataplane/watch.h"
#include "dataplane/wheel.h"
#include "wire/message.h"

struct apus_dp_worker;
struct apus_dp_publisher;

/** Fixed parameters of a writer. */
struct apus_dp_writer_config {
	struct apus_guid guid;
	bool reliable;
	bool transient_local;
	bool directed; /* each sample is for the readers of one participant: apus_dp_write.to */
	struct apus_dp_cache_limits cache;
	uint32_t match_max;
	int64_t deadline_ns;                 /* offered; 0 or APUS_INFINITE_NS = none */
	uint8_t liveliness;                  /* enum apus_liveliness */
	int64_t lease_ns;                    /* 0 or APUS_INFINITE_NS = none */
	int64_t lifespan_ns;                 /* 0 or APUS_INFINITE_NS = none */
	struct apus_dp_publisher *publisher; /* its group; NULL: of its own */
	uint32_t batch_bytes;   /* payloads gathered before they are sent; 0: each write sends */
	int64_t batch_delay_ns; /* longest time a sample waits for that */
	/** 0: a reader is sent to as soon as it is matched. Else every matched reader has to prove first
	 *  that it receives what is sent to its address: see apus_dp_writer_acknack(). Sequence numbers then
	 *  begin at a random place above APUS_DP_PROOF_FIRST. Random; keeps strangers from guessing. */
	uint64_t proof_secret;
	bool related_fastdds; /* the related sample is named as Fast DDS does; see wire/message.h */
};

/** The numbers below serve a writer that asks for proof as challenges; its samples come above. Interop: a
 *  Fast DDS 2.9.1 reader counts through every number it is told to skip, so the range cannot be larger;
 *  guessing is stopped after APUS_DP_WRONG_ANSWERS. */
#define APUS_DP_PROOF_FIRST   ((apus_seq)1 << 18)
#define APUS_DP_WRONG_ANSWERS 16

/** What an ACKNACK came to (bits). */
enum apus_dp_answer {
	APUS_DP_ANSWER_NONE = 0,
	APUS_DP_ANSWER_MATCHED = 1, /* it came from a matched reader */
	APUS_DP_ANSWER_PROVED =
		2, /* and shows that this reader has received what only it was sent */
};

/** Events, one counter each. */
struct apus_dp_writer_counters {
	struct apus_counter written;
	struct apus_counter batches;   /* times several held samples left together */
	struct apus_counter displaced; /* samples displaced by KEEP_LAST */
	struct apus_counter expired;   /* samples whose lifespan ended while they waited */
	struct apus_counter data_sent; /* DATA submessages, repairs included */
	struct apus_counter repairs;   /* DATA sent again on request */
	struct apus_counter
		group_repairs;          /* of these, those to a group, once for several readers */
	struct apus_counter suppressed; /* requests for what had just been sent again */
	struct apus_counter fragments;  /* DATA_FRAG submessages */
	struct apus_counter nack_frags; /* accepted NACK_FRAGs */
	struct apus_counter gaps;       /* GAP submessages */
	struct apus_counter
		filtered; /* samples not sent to a destination: all its readers reject */
	struct apus_counter filter_info; /* DATA with the verdicts of filters */
	struct apus_counter heartbeats;
	struct apus_counter acknacks;        /* accepted ACKNACKs */
	struct apus_counter acknacks_stale;  /* counts that ran backwards or repeated */
	struct apus_counter acknacks_forged; /* for numbers never written */
	struct apus_counter refused_full;    /* writes refused because the history is full */
	struct apus_counter refused_instances;
	struct apus_counter
		shm_displaced; /* samples a best-effort reader in shared memory was too slow for */
	struct apus_counter demotions; /* readers demoted */
	struct apus_counter returns;   /* demoted readers that were heard again */
	struct apus_counter
		demoted_lost; /* samples removed for room that only demoted readers lacked */
	struct apus_counter matches_refused; /* matches beyond match_max */
};

/** Numbers (mod 256) sent again in the present period of suppression. */
struct apus_dp_recent {
	struct apus_mono since; /* its begin */
	uint64_t bits[4];
};

/** Mutable state of one matched reader. What a sample needs comes first: of many readers few are looked at, and
 *  what is not looked at is in no cache. */
struct apus_dp_writer_state {
	struct apus_dp_addr addr APUS_CACHE_ALIGNED;
	struct apus_prefix prefix;
	struct apus_eid eid;
	uint32_t destination; /* index of the destination that serves it */
	uint32_t owing_at;    /* its place in the writer's `owing`, + 1; 0: it owes nothing */
	bool reliable;
	bool pinned; /* it stays there whatever it acknowledges: nobody sends to it, or directly */
	/** It is looked at only when it passes something. What it rejects is told as a GAP some time later: all
	 *  it has not been told of, behind `covered`, it rejects. */
	bool lazy;
	/** Everything up to here is acknowledged (local: delivered). Kept only while it owes an
	 *  acknowledgement: see apus_dp_writer_acked_by(). */
	apus_seq acked;
	apus_seq owed_last; /* the newest number it has to acknowledge */
	/** Lazy: up to here it was sent everything, or told of it. Best effort: see its destination's, of which this
	 *  is a copy while destinations are derived. */
	apus_seq covered;
	apus_seq confirmed;     /* up to here it has said itself that it is done */
	uint64_t pending_bytes; /* lazy: of what it was sent and has not acknowledged */
	/** Samples from `filtered_from` to before `filtered_to` were judged by its filter. */
	apus_seq filtered_from, filtered_to;
	const struct apus_dp_predicate
		*predicate; /* of the adopted snapshot; NULL: send everything */
	apus_seq
		waiting_seq; /* from here on it has been sent nothing, for its window is full; 0 = none */
	struct apus_mono heard; /* last accepted ACKNACK; 0 = never */
	apus_seq
		unsent_seq; /* from here on large samples wait for pace_timer or acknowledgements; 0: none */
	uint64_t match_id; /* 0 = free */
	struct apus_guid guid;
	struct apus_dp_addr multicast; /* family 0 = none */
	struct apus_dp_reader *local;  /* same worker: delivered directly */
	struct apus_dp_shm_out *shm;   /* delivered through shared memory */
	apus_seq relevant;             /* first sample that concerns it */
	uint32_t ack_count;
	uint32_t frag_count;         /* of its last NACK_FRAG */
	struct apus_mono frag_heard; /* when that was accepted */
	uint32_t push_bytes;         /* of large samples so much at a time: writer_frag.c */
	uint32_t push_limit;         /* up to here it grows fast */
	apus_seq pushed_seq; /* large sample whose first pushed_to fragments were sent; 0 = none */
	uint32_t pushed_to;
	bool push_lost; /* some of that was asked for again */
	apus_seq
		paced_seq; /* a foreign reader's window counts from here, if it has not acknowledged so far */
	apus_seq window_mark;     /* the window does not shrink again before this is acknowledged */
	uint32_t window_limit;    /* up to here it grows fast */
	uint32_t window_bytes;    /* of small samples that may be on their way: writer_window.c */
	uint32_t unsent_fragment; /* first unsent one of that sample */
	apus_seq rest_seq;        /* best effort: this sample's fragments … */
	uint32_t rest_fragment;   /* … from here on wait for pace_timer; 0 = none */
	bool held_up;             /* those wait for an acknowledgement, too */
	apus_seq answered_seq;    /* fragments of the last answer to a NACK_FRAG */
	uint32_t answered_first, answered_last;
	struct apus_mono answered_at;
	struct apus_dp_recent repaired;  /* what only it was sent again */
	struct apus_wire_seqset request; /* waits for an answer; num_bits 0: nothing does */
	/** A volatile reliable reader that has not answered yet: it is told where its share begins, and gets
	 *  no samples until it has shown that it listens. Interop: a Cyclone DDS 0.10.2 reader starts behind
	 *  the `last` of the first HEARTBEAT it understands, so it must not hear of samples earlier. */
	bool awaited;
	uint8_t wrong_answers; /* to its challenges */
	uint8_t early_acks;    /* pre-emptive ACKNACKs while awaited */
	apus_seq
		challenge; /* awaited, with proof: its HEARTBEATs end here, as no other reader's do */
	/** Silent for too long, see writer_demote.c: nothing waits for it. */
	bool demoted;
	uint32_t asked;              /* HEARTBEATs that ask for an answer, since it was heard */
	struct apus_mono asked_at;   /* the first of them */
	struct apus_mono asked_last; /* the latest */
	bool hash_only_dispose;
	bool inline_qos; /* it wants key hash and QoS with every sample */
	bool mark;
	bool filter_info; /* its samples carry the verdict of its filter */
	uint8_t filter_signature[16];
	apus_seq signed_from; /* verdicts from here on are those of that signature */
	bool group_pays;      /* derivation: its multicast address reaches others as well */
	uint32_t filter_id;   /* with a predicate, or local_generation: its place in the index */
	/* local, see writer_local.c */
	uint64_t local_generation; /* of the reader's filter that is in the index; 0: none is */
	bool indexed;              /* that is its present filter: visited only when it passes */
	uint32_t open_at;          /* not indexed: its place among writer_filtering.local_visits */
	uint64_t visited;          /* the send that has chosen it last */
	uint64_t skipped_to;       /* indexed: the reader has counted what it rejected up to here */
};

/** Readers behind one address, served by one datagram. What a best-effort sample needs is one cache line. */
struct apus_dp_destination {
	struct apus_dp_addr addr APUS_CACHE_ALIGNED;
	struct apus_prefix prefix;
	struct apus_eid eid;      /* of the reader if it is the only one, else 0 */
	bool one_participant : 1; /* `prefix` is valid */
	bool reliable : 1;        /* some reader acknowledges */
	bool best_effort : 1;     /* some reader does not */
	bool hash_only_dispose : 1;
	bool inline_qos : 1;  /* some reader wants key hash and QoS with every sample */
	bool filtered : 1;    /* every reader has a predicate: a sample may stay here */
	bool filter_info : 1; /* some reader's samples carry the verdict of its filter */
	apus_seq covered;     /* best effort: up to here all was sent there, or told of */
	uint64_t visited;     /* the send that has chosen it last */
	uint32_t first_idx, state_count; /* its readers: of writer_filtering.by_destination */
	uint32_t first_state;            /* some reader of it, for the heartbeat decision */
	struct apus_dp_recent repaired;  /* what a group was sent again */
};

/** Readers that are named one by one in a verdict. */
#define APUS_DP_VERDICT_FEW 15

/** Which states' filters a sample has passed; valid if its entry is judged. 64 bytes: a cache line a sample. */
struct apus_dp_writer_verdict {
	uint32_t count; /* above APUS_DP_VERDICT_FEW: see writer_filtering.many */
	uint32_t state[APUS_DP_VERDICT_FEW];
};

/** A state whose filter it is, and its destination if samples may pass that by, else UINT32_MAX. */
struct apus_dp_writer_follower {
	uint32_t state, destination;
	bool local; /* of this worker: chosen only while it is indexed */
};

/** What filters at the writer need; arrays are sized by match_max. See writer_filter.c. */
struct apus_dp_writer_filtering {
	const struct apus_dp_filter_index *index; /* of the adopted snapshot; NULL: no filters */
	struct apus_shm_reserve reserve;          /* verdicts, many, to, passed, followers */
	struct apus_dp_writer_verdict *verdicts;  /* by slot */
	uint64_t *many; /* by slot a bit a state, where verdicts name too few; else untouched */
	struct apus_prefix *to; /* directed writers: by slot for whom it is */
	uint32_t *passed;       /* scratch: filters a sample passes */
	uint32_t *first;        /* filter id -> its part of `followers` */
	struct apus_dp_writer_follower *followers;
	uint32_t *by_destination; /* states, grouped */
	uint32_t *
		visits; /* destinations: those that are always sent to, then those of the present send */
	uint32_t open_count, visit_count; /* of them */
	uint64_t visit;                   /* number of the present send */
	uint32_t gap_cursor;              /* place in `order` where telling of GAPs goes on */
	uint32_t lazy_count;              /* states that are lazy */
	uint32_t *local_visits; /* local states: those that are always visited, then as `visits` */
	uint32_t open_local_count, local_visit_count;
	uint64_t local_judged; /* samples that indexed readers were chosen for */
};

/** Ends of coherent sets that are kept for repair. */
#define APUS_DP_MARKER_MAX 16

/** The end of a coherent set: a change without data (group.h). */
struct apus_dp_marker {
	apus_seq seq; /* 0 = none */
	struct apus_wall source;
	struct apus_dp_marks marks;
};

struct apus_dp_writer {
	struct apus_dp_writer_port port;
	uint64_t adopted_generation; /* of the snapshot the states stand for; 0 = none */
	struct apus_dp_worker *worker;
	struct apus_dp_writer_config config;
	struct apus_eid eid;
	struct apus_dp_cache cache;
	apus_seq first;        /* of the first sample: 1, but for writers that ask for proof */
	apus_seq last;         /* last sequence number written; first - 1 = none */
	apus_seq sent;         /* last one that destinations have been served with; ≤ last */
	uint32_t held_bytes;   /* payload of sent + 1 … last */
	uint32_t held_largest; /* of its samples */
	struct apus_mono held_since; /* begin of a batch */
	bool paces;                  /* some state may have a rest_seq */
	/* While a large sample is written, memory of the application's that has what its slot does not have yet: all
	 * but the first fragment. Byte i of the payload is outside[i - outside_at]. NULL: the slot has it all. */
	const uint8_t *outside;
	uint32_t outside_slot, outside_at;
	uint32_t suspended;     /* > 0: everything is held until resumed */
	uint64_t written_bytes; /* payload of all samples ever written */
	apus_seq min_acked;     /* lowest `acked` of those who owe; `sent` without any */
	uint32_t hb_count;
	uint32_t frag_hb_count;
	int64_t hb_period_ns; /* present back-off */
	struct apus_dp_timer hb_timer;
	struct apus_dp_timer gap_timer;    /* tells lazy states of what they reject */
	struct apus_dp_timer pace_timer;   /* next portion for the states with unsent_seq */
	struct apus_dp_timer batch_timer;  /* what is held leaves then */
	struct apus_dp_timer answer_timer; /* requests that wait are answered then */
	struct apus_dp_timer
		shm_timer;       /* readers in shared memory are behind, or have not acknowledged */
	uint32_t filtered_count; /* states with a predicate */
	uint32_t indexed_count;  /* states that are indexed */
	bool refilter;           /* a local reader is not indexed yet: to be derived anew */
	bool chosen;             /* what is being served goes to chosen destinations only */
	struct apus_dp_writer_filtering filtering;
	const uint8_t *inline_list; /* of the adopted snapshot */
	uint32_t inline_bytes;
	struct apus_shm_reserve
		match_memory; /* what matches need, and the groupings of `filtering` */
	struct apus_dp_writer_state *states; /* match_max */
	uint32_t *order;                     /* states in snapshot order (by GUID) */
	uint32_t *order_new;                 /* scratch of adoption */
	uint32_t *owing; /* states that owe an acknowledgement: a heap, lowest `acked` first */
	uint32_t owing_count;
	uint32_t free_state; /* no state before it is free */
	uint32_t match_count;
	struct apus_dp_destination *destinations; /* match_max */
	uint32_t destination_count;
	uint32_t *by_addr; /* scratch of derivation: a hash table by address, of places + 1 */
	uint32_t by_addr_mask;
	uint32_t local_count;     /* matches delivered directly */
	uint32_t shm_count;       /* matches through shared memory */
	uint32_t awaited_count;   /* states that are awaited */
	uint32_t demoted_count;   /* states that are demoted */
	_Atomic uint32_t matched; /* matches that are not awaited, for other threads */
	struct apus_dp_writer_counters counters;

	/* As a member of its publisher: writer_group.c. */
	apus_seq set_first;             /* first number in the publisher's present set; 0 = none */
	uint32_t marker_count;          /* ever made; the next one's place in the ring */
	struct apus_dp_marker *markers; /* APUS_DP_MARKER_MAX; NULL without a publisher */

	/* Statuses: writer_status.c. */
	bool has_status; /* a deadline or a lease of its own to keep */
	struct apus_dp_watched watched;
	struct apus_dp_alarm alarm;
	struct apus_dp_lease lease; /* of a manual writer */
	struct apus_dp_deadline
		*deadlines;     /* per instance of the cache; NULL without a finite period */
	uint64_t deadline_gone; /* misses of instances that were forgotten */
	bool expires;           /* some sample may have a lifespan */
	apus_seq
		mixed_until; /* samples up to here may expire in another order than they were written */
};

/** May a sample of so many payload bytes be sent from the application's memory, its slot being filled afterwards?
 *  Nobody must look at the slot before: no filter, no reader of this process or through shared memory. */
static inline bool apus_dp_writer_takes_outside(const struct apus_dp_writer *writer,
						uint32_t payload_bytes)
{
	return payload_bytes > writer->worker->config.fragment_bytes && writer->local_count == 0 &&
	       writer->shm_count == 0 && writer->filtered_count == 0 && writer->indexed_count == 0;
}

/** A change to write. */
struct apus_dp_write {
	uint8_t kind; /* enum apus_change */
	bool key_only;
	struct apus_wall source;
	const uint8_t *key;
	uint32_t key_bytes;
	const uint8_t *key_hash;      /* 16 bytes; NULL for keyless */
	uint32_t payload_bytes;       /* already in the slot */
	const struct apus_prefix *to; /* directed writers: for whom; the others are told of a GAP */
	bool more; /* others follow in this turn: apus_dp_writer_release() will send */
	struct apus_dp_marks marks;
};

/** Creates a writer on a worker (not yet registered there). Returns 0, APUS_EINVAL, APUS_ENOMEM. */
int apus_dp_writer_create(struct apus_dp_worker *worker, const struct apus_dp_writer_config *config,
			  struct apus_dp_writer **writer_out);
/** Frees a writer that is no longer registered. NULL is allowed. */
void apus_dp_writer_destroy(struct apus_dp_writer *writer);

/**
 * Writes the change whose payload lies in `slot` (from apus_dp_cache_acquire) and sends it, unless it is to
 * be held.
 * Returns 0, APUS_EAGAIN (the history is full: acknowledgements must come first), APUS_ELIMIT (no room
 * for another instance). On failure the slot is still the caller's.
 */
int apus_dp_writer_write(struct apus_dp_writer *writer, uint32_t slot,
			 const struct apus_dp_write *change, struct apus_mono now);

/** Sends what is held, unless the writer is suspended. Part of the turn: the datagrams leave with it. */
void apus_dp_writer_release(struct apus_dp_writer *writer, struct apus_mono now);
/** After writes with `more`: sends what is held unless the batch has room and time left. */
void apus_dp_writer_many_done(struct apus_dp_writer *writer, struct apus_mono now);
/** Sends at once what is left of large samples for best-effort readers: before the next write, and at the end. Part
 *  of the turn, as release is. */
void apus_dp_writer_pace_flush(struct apus_dp_writer *writer);
/** From now on everything is held; calls nest. */
void apus_dp_writer_suspend(struct apus_dp_writer *writer);
/** Ends one suspension; with the last one everything held is sent. */
void apus_dp_writer_resume(struct apus_dp_writer *writer, struct apus_mono now);

/**
 * True if the next write of so many bytes looks at its `now`: for local readers, filters, large samples and
 * timers. Else a clock need not be read: any earlier reading will do.
 */
bool apus_dp_writer_needs_time(const struct apus_dp_writer *writer, uint32_t payload_bytes);

/**
 * Handles an ACKNACK from `reader` that came from address `from`. Returns bits of enum apus_dp_answer.
 *
 * Proof (config.proof_secret): until a reader has acknowledged its challenge, a number that stood in no
 * HEARTBEAT but those sent to its address, it is sent nothing but such HEARTBEATs, and what it requests is
 * not answered. An address that changes is challenged anew. A reader that knew us before is beyond all
 * challenges; it proves itself by a number we have really written, from the very host that was challenged.
 */
unsigned apus_dp_writer_acknack(struct apus_dp_writer *writer, const struct apus_guid *reader,
				const struct apus_wire_acknack *acknack,
				const struct apus_dp_addr *from, struct apus_mono now);

/** Handles a NACK_FRAG from `reader`; false if no such reader is matched. */
bool apus_dp_writer_nack_frag(struct apus_dp_writer *writer, const struct apus_guid *reader,
			      const struct apus_wire_nack_frag *nack, struct apus_mono now);

/** Offers waiting samples again to readers of the same worker that refused them. */
void apus_dp_writer_retry_local(struct apus_dp_writer *writer, struct apus_mono now);

/** A local reader may have another filter than the writer's index knows, or again the one that it knows: from the
 *  next sample on it is visited for each, or no longer. Of `writer` only what concerns this reader is looked at. Under
 *  the turn. */
void apus_dp_writer_refilter(struct apus_dp_writer *writer, const struct apus_dp_reader *reader);

/** Has a local reader count what was not offered to it because its filter rejects it; under the turn. */
void apus_dp_writer_count_all_skipped(struct apus_dp_writer *writer); /* all of them */
void apus_dp_writer_count_skipped(struct apus_dp_writer *writer,
				  const struct apus_dp_reader *reader);

/** A reader of this worker goes away before the writer's snapshot says so. */
void apus_dp_writer_forget_local(struct apus_dp_writer *writer,
				 const struct apus_dp_reader *reader);
/** Derives destinations and counts from the states: after adoption, and when an awaited reader answers. */
void apus_dp_writer_derive(struct apus_dp_writer *writer);
/** Recomputes what is acknowledged after matches changed. */
void apus_dp_writer_settle(struct apus_dp_writer *writer);
/** Sends one matched reader a HEARTBEAT that asks for an answer. */
void apus_dp_writer_heartbeat(struct apus_dp_writer *writer, struct apus_dp_writer_state *state);
/** A HEARTBEAT to a reliable reader that is reached over the network, as when it has just matched; nothing to others. */
void apus_dp_writer_greet(struct apus_dp_writer *writer, const struct apus_guid *reader);
/** Starts the heartbeat timer because some reader lags. */
void apus_dp_writer_lagging(struct apus_dp_writer *writer, struct apus_mono now);

/** Brings match states in line with the published snapshot. Called when the turn is taken. */
void apus_dp_writer_adopt(struct apus_dp_writer *writer, struct apus_mono now);

/** Up to here a reliable reader has acknowledged everything, or it is irrelevant to it. */
static inline apus_seq apus_dp_writer_acked_by(const struct apus_dp_writer *writer,
					       const struct apus_dp_writer_state *state)
{
	return state->owing_at ? state->acked : writer->sent;
}

/** True if every matched reliable reader has acknowledged everything up to seq. */
static inline bool apus_dp_writer_acked(const struct apus_dp_writer *writer, apus_seq seq)
{
	return writer->min_acked >= seq;
}

/* ---- statuses: writer_status.c -------------------------------------------------------------- */

/** Allocates what the QoS demands; part of create. Returns 0 or APUS_ENOMEM. */
int apus_dp_writer_create_status(struct apus_dp_writer *writer);
/** The writer is registered with its worker: its lease begins. */
void apus_dp_writer_enlist(struct apus_dp_writer *writer, struct apus_mono now);
/** Another deadline and lifespan from here on. What has been missed stays counted; the new period begins now where
 *  one was running, else with the next sample. Samples written keep the lifespan they were written with.
 *  spare: memory for `deadlines`, NULL if the writer has some or the new deadline is not finite; NULL when it is
 *  taken. */
void apus_dp_writer_set_timing(struct apus_dp_writer *writer, int64_t deadline_ns,
			       int64_t lifespan_ns, struct apus_dp_deadline **spare,
			       struct apus_mono now);
/** A sample of an instance was written: deadline, liveliness. kind: enum apus_change. */
void apus_dp_writer_wrote(struct apus_dp_writer *writer, uint32_t instance_idx, uint8_t kind,
			  struct apus_mono now);
/** When a sample written now with this source time expires. */
struct apus_mono apus_dp_writer_expiry(const struct apus_dp_writer *writer, struct apus_wall source,
				       struct apus_mono now);
/** Drops samples whose lifespan has ended: who asks for them gets a GAP. Those not sent yet are spared. */
uint32_t apus_dp_writer_purge(struct apus_dp_writer *writer, struct apus_mono now);
/** A key index of the cache stands for another instance from here on. */
void apus_dp_writer_new_instance(struct apus_dp_writer *writer, uint32_t instance_idx);
/** The application asserts a manual writer's liveliness; by topic, readers get a HEARTBEAT that says so. */
void apus_dp_writer_assert(struct apus_dp_writer *writer, struct apus_mono now);
/** Books a lapse that has happened by `now`. */
void apus_dp_writer_expire(struct apus_dp_writer *writer, struct apus_mono now);
/** Offered deadlines missed by `now`, and the key index of the instance that missed last
 *  (APUS_DP_NO_KEY: none). O(instances). */
uint64_t apus_dp_writer_deadlines(const struct apus_dp_writer *writer, struct apus_mono now,
				  uint32_t *last_out);
/** Starts or stops looking at statuses of time unasked, as the watches demand. */
void apus_dp_writer_want_alarm(struct apus_dp_writer *writer, struct apus_mono now);
/** The MANUAL_BY_PARTICIPANT writers of this worker were asserted, by one of them or explicitly. */
void apus_dp_worker_manual(struct apus_dp_worker *worker, struct apus_mono now);

#endif
