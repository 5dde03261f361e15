/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one reader knows of the numbers of one writer (the WriterProxy of RTPS 2.5 §8.4.12).
 *
 * Pure: no clock, memory or datagram of its own. Every call costs the same whatever span of numbers a
 * GAP or HEARTBEAT names.
 *
 *     below `next`                    done with: delivered, irrelevant or lost
 *     next … next + NUMBERS - 1       one bit each: settled, held, refused; none of them = missing
 *     far_first … far_end - 1         one range above, known to be irrelevant or lost
 *     `highest`                       the highest number known to exist
 *
 * A *held* number has arrived out of order: the caller keeps the sample (in an array indexed by
 * apus_dp_window_index()) and delivers it when apus_dp_window_ready() says so. A *refused* number has
 * arrived, found no room and stays missing, so that the writer offers it again.
 *
 *     v = check(seq)   NEW_IN_ORDER -> admit -> done(seq) or refuse(seq); then while ready(): the same
 *                      NEW_OUT_OF_ORDER -> keep the sample, hold(seq)
 *                      DUPLICATE, BEYOND -> drop
 *
 * Where a reader starts. FROM_FIRST (both sides transient-local): at 1; what the first HEARTBEAT
 * excludes was never owed and is not lost. FROM_MATCH (volatile): at the first number that shows up
 * after the match. A DATA starts at its own number, a GAP at its start, a HEARTBEAT at last + 1; and as
 * long as nothing has been delivered a DATA below a start set by HEARTBEAT moves it down, since a
 * volatile writer sends a reader only what was written after the match. Interop: Fast DDS 2.9.1 sends
 * data at once and heartbeats every 3 s; a reader that waits for a HEARTBEAT, as Cyclone 0.10.2 does,
 * then starts above everything already sent and loses it.
 *
 * Forged or jumped numbers from a matched GUID. DATA beyond the window is not kept and proves nothing.
 * A HEARTBEAT whose `last` lies below `next - 1` contradicts what GAPs and HEARTBEATs had us skip: the
 * window goes back to the number after the highest one that was really delivered. (A HEARTBEAT that was
 * merely overtaken by a GAP has the same effect, which costs one more request and GAP.) A DATA whose number such a
 * jump has skipped contradicts it just as well, and sooner than a HEARTBEAT whose count may be taken for an old one: see
 * apus_dp_window_deny(). What was delivered
 * after a jump of more than JUMP numbers is believed when a window's worth has followed it: until
 * then such a HEARTBEAT, if it denies the jump, takes the window back to where the jump began. Losses larger
 * than the window are counted only when a later DATA or HEARTBEAT confirms them.
 *
 * Best effort (window_best_effort.c). Numbers only rise, and what a sample skips is lost, but for what a GAP named
 * before it. A GAP moves nothing: it is remembered until a sample from behind its end follows. So one that lies costs
 * nothing, however far it reaches: a sample that it names takes it back, and one below it is not excused.
 */
#ifndef APUS_DATAPLANE_WINDOW_H
#define APUS_DATAPLANE_WINDOW_H

#include "base/clock.h"
#include "base/guid.h"

struct apus_wire_seqset;

/** Numbers above `next` that are kept track of one by one. */
#define APUS_DP_WINDOW_NUMBERS 1024
#define APUS_DP_WINDOW_WORDS   (APUS_DP_WINDOW_NUMBERS / 64)
/** A jump of `next` over more numbers than this is in doubt until a window's worth is delivered behind it. */
#define APUS_DP_WINDOW_JUMP 64
/** Highest number accepted; leaves room to compute one window beyond it. */
#define APUS_DP_SEQ_MAX (INT64_MAX - 2 * APUS_DP_WINDOW_NUMBERS)
/** Silence after which a count that looks old is believed again: longer than any reordering, shorter
 *  than the longest HEARTBEAT period of the peers (3 s). */
#define APUS_DP_COUNT_AGE_NS APUS_NS_PER_SEC

/** The `count` of a stream of HEARTBEATs or ACKNACKs (RTPS 2.5 §8.3.7.5.2). Zero-initialise. */
struct apus_dp_count {
	struct apus_mono at; /* when the last one was accepted; 0 = never */
	int32_t last;
};

/**
 * True, and remembered, if `count` is newer than the last accepted one, by serial arithmetic, or if
 * the last accepted one is APUS_DP_COUNT_AGE_NS old: so forged counts silence a peer only as long.
 */
bool apus_dp_count_accept(struct apus_dp_count *c, int32_t count, struct apus_mono now);

enum apus_dp_window_start { APUS_DP_FROM_FIRST = 0, APUS_DP_FROM_MATCH = 1 };

enum apus_dp_seq_verdict {
	APUS_DP_SEQ_NEW_IN_ORDER = 0,
	APUS_DP_SEQ_NEW_OUT_OF_ORDER = 1, /* reliable only */
	APUS_DP_SEQ_DUPLICATE = 2,        /* delivered, held, irrelevant or lost already */
	APUS_DP_SEQ_BEYOND = 3,           /* too far ahead to be kept, or below 1 */
};

/** A bit a number. Apart from the rest, because a match without samples has no use for them. */
struct apus_dp_window_bits {
	uint64_t settled[APUS_DP_WINDOW_WORDS];
	uint64_t held[APUS_DP_WINDOW_WORDS];
	uint64_t refused[APUS_DP_WINDOW_WORDS];
};

/** State; fields are private except where a comment says otherwise. */
struct apus_dp_window {
	apus_seq next;               /* readable */
	apus_seq highest;            /* readable; 0 = none known */
	apus_seq delivered_end;      /* one above the highest number delivered or first owed */
	apus_seq far_first, far_end; /* best effort: the GAP that is remembered */
	uint64_t skipped;     /* best effort: numbers below far_first that other ones named… */
	apus_seq skipped_end; /* …and where the last of those ended */
	apus_seq jump_from, jump_to; /* the earliest large jump not confirmed yet; 0 = none */
	uint32_t since_jump;         /* numbers delivered since, up to NUMBERS */
	bool denied;                 /* a HEARTBEAT is to tell whether there was that jump */
	uint64_t lost; /* readable: numbers given up; only grows. What refuse() counted and then
				* went away is included. */
	uint64_t lost_pending; /* awaiting confirmation */
	struct apus_dp_count heartbeat_count;
	bool reliable;
	bool started;       /* `next` means something */
	bool start_movable; /* started by HEARTBEAT and nothing delivered yet */
	bool heartbeat_seen;
	struct apus_dp_window_bits *bits;
};

/** Starts afresh. reliable: the match is; a best-effort window accepts rising numbers and counts the
 *  skipped ones as lost, ignoring `start`. bits: memory that lives as long; cleared, but not written if it is clear. */
void apus_dp_window_init(struct apus_dp_window *w, struct apus_dp_window_bits *bits, bool reliable,
			 enum apus_dp_window_start start);

/** Judges the number of an arriving sample. Changes nothing. */
enum apus_dp_seq_verdict apus_dp_window_check(const struct apus_dp_window *w, apus_seq seq);

/** What a DATA that check() calls a duplicate says of a jump in doubt. */
enum apus_dp_denial {
	APUS_DP_DENY_NOTHING = 0, /* it is one */
	APUS_DP_DENY_ASK =
		1, /* ask the writer: the next HEARTBEAT is believed whatever its count, and
				    * acknowledgements stop where the jump began until it comes */
	APUS_DP_DENY_RESTORED =
		2, /* the jump is taken back: as APUS_DP_HB_RESTORED, and check() again */
};

/**
 * A DATA came for number `seq`, below `next`. If a jump in doubt skipped it, somebody lied: nothing having been
 * delivered behind the jump, it is taken back at once; else only a HEARTBEAT can tell, for this may be a late
 * duplicate of what a true GAP has skipped.
 */
enum apus_dp_denial apus_dp_window_deny(struct apus_dp_window *w, apus_seq seq);

/** The sample has been delivered, or rejected for good (by a filter, as expired …): it will never be
 *  wanted again. Only for a number check() called new, or ready() returned. */
void apus_dp_window_done(struct apus_dp_window *w, apus_seq seq);

/** How many of `count` samples that have come, numbered from `seq` on, are new and in order with nothing noted of any,
 *  so that done_run() may take the place of as many done(). Of a run that is not all of this kind: 0. */
uint32_t apus_dp_window_run(const struct apus_dp_window *w, apus_seq seq, uint32_t count);
/** done() for `count` numbers from `seq` on, that apus_dp_window_run() has allowed. */
void apus_dp_window_done_run(struct apus_dp_window *w, apus_seq seq, uint32_t count);

/** The sample has come and is of no use: it is settled, but is no proof that its number exists, for whoever forges
 *  numbers sends such samples. Reliable; only for a number check() called new, or ready() returned. */
void apus_dp_window_reject(struct apus_dp_window *w, apus_seq seq);

/** The caller keeps this out-of-order sample. Only after NEW_OUT_OF_ORDER. */
void apus_dp_window_hold(struct apus_dp_window *w, apus_seq seq);

/** No room for this sample now: it stays missing (a held one becomes missing). Best effort: it is gone.
 *  Returns true the first time for this number, when the refusal is to be counted. */
bool apus_dp_window_refuse(struct apus_dp_window *w, apus_seq seq);

/** True if refuse() has been called for this number and it is still missing. */
bool apus_dp_window_was_refused(const struct apus_dp_window *w, apus_seq seq);

/** True if `next` is held: deliver it, then call done() or refuse(). After anything that can advance:
 *  done(), a GAP, a HEARTBEAT. */
bool apus_dp_window_ready(const struct apus_dp_window *w, apus_seq *seq_out);

/** Where the caller keeps a held sample: unique among the numbers held at one time. */
static inline uint32_t apus_dp_window_index(apus_seq seq)
{
	return (uint32_t)((uint64_t)seq & (APUS_DP_WINDOW_NUMBERS - 1));
}

/** True if a sample is held (its sample is with the caller, to be given back on unmatch). */
bool apus_dp_window_is_held(const struct apus_dp_window *w, apus_seq seq);

/** `*lost` and n more; stays at the most it can hold. */
static inline void apus_dp_window_add_lost(uint64_t *lost, uint64_t n)
{
	*lost = *lost + n < *lost ? UINT64_MAX : *lost + n;
}

/* window_best_effort.c; for a window that is not reliable. */

/** The sample `seq`, which check() called new, has come, whatever became of it: it is the newest. */
void apus_dp_window_pass(struct apus_dp_window *w, apus_seq seq);
/** How many numbers pass() will count as lost, `seq` being new. */
uint64_t apus_dp_window_skips(const struct apus_dp_window *w, apus_seq seq);
/** Remembers a GAP; arguments as of apus_dp_window_gap(), and consistent. */
void apus_dp_window_note_gap(struct apus_dp_window *w, apus_seq start,
			     const struct apus_wire_seqset *list);

/**
 * GAP: [start, list->base) and the numbers of the list are irrelevant (RTPS 2.5 §8.3.7.4). Held samples
 * stay held. Inconsistent arguments (start < 1, base < start) are ignored.
 * Returns true if `next` moved.
 */
bool apus_dp_window_gap(struct apus_dp_window *w, apus_seq start,
			const struct apus_wire_seqset *list);

/** What a HEARTBEAT calls for; bits. */
enum apus_dp_heartbeat_result {
	APUS_DP_HB_IGNORED = 1, /* old count or inconsistent range; no other bit set */
	APUS_DP_HB_ACK = 2, /* an ACKNACK is due: asked for (not final), or something is missing */
	APUS_DP_HB_LIVELINESS = 4, /* it asserts the writer (MANUAL_BY_TOPIC) */
	APUS_DP_HB_ADVANCED = 8,   /* `next` moved up */
	APUS_DP_HB_RESTORED = 16, /* `next` moved back, see the head of this file: no number is held
				    * any more, and the caller gives its held samples back */
};

/** HEARTBEAT (RTPS 2.5 §8.3.7.5): numbers below `first` are gone, `last` is the highest that exists
 *  (first - 1 if none). Returns bits of enum apus_dp_heartbeat_result. */
unsigned apus_dp_window_heartbeat(struct apus_dp_window *w, apus_seq first, apus_seq last,
				  int32_t count, bool final, bool liveliness, struct apus_mono now);

/** Everything from `from` on is wanted once more, though it was done with. Reliable, and the caller keeps no samples
 *  any more. False, and nothing changed, unless `from` was done with. */
bool apus_dp_window_reopen(struct apus_dp_window *w, apus_seq from);

/** True if a number up to `highest` is missing. */
bool apus_dp_window_has_missing(const struct apus_dp_window *w);

/**
 * Fills an ACKNACK (RTPS 2.5 §8.3.7.1): base = the first missing number (all below are acknowledged), the
 * missing ones up to `highest`, at most 256, trailing zeros trimmed. `*final_out` is false while something is
 * missing and before the first HEARTBEAT, so that the writer answers. Changes nothing.
 */
void apus_dp_window_acknack(const struct apus_dp_window *w, struct apus_wire_seqset *set_out,
			    bool *final_out);

#endif
