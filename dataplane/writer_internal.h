/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the writer share: writer.c (life, writing, repairs, heartbeats), writer_frag.c (large
 * samples), writer_adopt.c. Nothing else includes this.
 */
#ifndef APUS_DATAPLANE_WRITER_INTERNAL_H
#define APUS_DATAPLANE_WRITER_INTERNAL_H

#include "dataplane/worker.h"
#include "dataplane/writer.h"

/** Submessage sizes with headers. */
#define APUS_DP_HEARTBEAT_BYTES 32
#define APUS_DP_GAP_BYTES       68

/** An acknowledgement count that ran backwards is believed again after this silence: its sender restarted
 *  its counter, or the high count was forged. */
#define APUS_DP_COUNT_FORGET_NS (APUS_NS_PER_SEC / 2)

/** Time between portions of a large sample that is sent unasked. */
#define APUS_DP_WRITER_PACE_NS APUS_NS_PER_MS

/** Bytes of large samples sent unasked at first; see writer_frag.c. */
#define APUS_DP_PUSH_FIRST_BYTES ((uint32_t)96 * 1024)

/** Bytes of small samples that may be on their way to a reader at first; see writer_window.c. */
#define APUS_DP_WINDOW_FIRST_BYTES ((uint32_t)128 * 1024)
/** Up to here a new match's window grows fast: what the default socket.receive_bytes holds. */
#define APUS_DP_WINDOW_LIMIT_BYTES ((uint32_t)1024 * 1024)

/** Samples filtered out are declared irrelevant within this time, merged, or with the next passing one; to so
 *  many readers, and to as many more in the same time again. */
#define APUS_DP_GAP_FLUSH_NS APUS_NS_PER_MS
#define APUS_DP_GAPS_A_TIME  64

/** True if the sample is cut into fragments. */
static inline bool apus_dp_writer_is_large(const struct apus_dp_writer *w, uint32_t slot)
{
	return w->cache.entries[slot].payload_bytes > w->worker->config.fragment_bytes;
}

/** The oldest sample that was served and lies behind a cursor, or APUS_SHM_NO_SLOT. */
uint32_t apus_dp_writer_slot_behind(const struct apus_dp_writer *w, apus_seq cursor);

/* writer_shm.c */

/** Serves readers in shared memory from their cursors. */
void apus_dp_writer_serve_shm(struct apus_dp_writer *w, struct apus_mono now);
/** Puts what is said of a new sample where readers in shared memory find it. */
void apus_dp_writer_mark_slot(struct apus_dp_writer *w, uint32_t slot);
/** Looks how far they have come, takes slots back, and serves those that are behind. Costs a line of each that
 *  it writes, so not at each write. */
void apus_dp_writer_look_at_shm(struct apus_dp_writer *w, struct apus_mono now);
/** Tells one that the writer is alive. */
void apus_dp_writer_assert_shm(struct apus_dp_writer_state *state);
/** The timer's function. */
void apus_dp_writer_shm_fn(struct apus_dp_timer *timer, struct apus_mono now);

/* writer_filter.c */

/** Allocates what filtering needs. Returns 0 or APUS_ENOMEM; fini is for either. */
int apus_dp_writer_filter_init(struct apus_dp_writer *w);
/** Frees it. */
void apus_dp_writer_filter_fini(struct apus_dp_writer *w);
/** Part of apus_dp_writer_derive(): groups states by filter and by destination. */
void apus_dp_writer_filter_derive(struct apus_dp_writer *w);
/** A reader of this worker is visited for every sample; no longer. Not while a sample is served. */
void apus_dp_writer_open(struct apus_dp_writer *w, struct apus_dp_writer_state *s);
void apus_dp_writer_close(struct apus_dp_writer *w, const struct apus_dp_writer_state *s);
/** True if the filter of a matched reader rejected the sample. */
bool apus_dp_writer_is_rejected(const struct apus_dp_writer *w, uint32_t slot, uint32_t state_idx);
/** Evaluates the readers' filters over a sample, keeps the verdicts with it, and chooses the destinations of
 *  who passes it. False: nothing was evaluated, and everybody gets it. */
bool apus_dp_writer_judge(struct apus_dp_writer *w, uint32_t slot);
/** Begins to choose: so far the destinations that take everything. */
void apus_dp_writer_choose(struct apus_dp_writer *w);
/** A sample of a directed writer: whoever is not meant gets a GAP. Such a writer has no filters. */
void apus_dp_writer_direct(struct apus_dp_writer *w, uint32_t slot, const struct apus_prefix *to);
/** Signatures that one DATA has room for, and the bytes of their information. */
#define APUS_DP_FILTER_INFO_MAX   8
#define APUS_DP_FILTER_INFO_BYTES (12 + 16 * APUS_DP_FILTER_INFO_MAX)
/** ContentFilterInfo_t of a sample for readers, given by their states: which of their filters it passes. Returns
 *  its bytes; 0: there is nothing to say. */
uint32_t apus_dp_writer_filter_info(const struct apus_dp_writer *w, uint32_t slot,
				    const uint32_t *states, uint32_t count,
				    uint8_t out[APUS_DP_FILTER_INFO_BYTES]);
/** True if some reader behind a destination wants the sample; then it goes once, for all of them. */
bool apus_dp_writer_wanted(const struct apus_dp_writer *w, uint32_t slot, uint32_t destination);
/** The i-th reader behind a destination. */
static inline struct apus_dp_writer_state *apus_dp_writer_behind(const struct apus_dp_writer *w,
								 uint32_t destination, uint32_t i)
{
	return &w->states[w->filtering.by_destination[w->destinations[destination].first_idx + i]];
}
/** Number `seq` is about to be sent to the readers behind a destination: they are told of what they reject before
 *  it, and owe an acknowledgement. slot: of the sample, or APUS_SHM_NO_SLOT for the end of a set, which is for all. */
void apus_dp_writer_note(struct apus_dp_writer *w, apus_seq seq, uint32_t slot,
			 uint32_t destination);
/** The numbers behind one that was noted, up to `last`, are sent as well; nobody rejects any. */
void apus_dp_writer_note_run(struct apus_dp_writer *w, apus_seq last, uint32_t destination);
/** Before destinations are derived anew: their best-effort readers keep what they have been told. */
void apus_dp_writer_keep_covered(struct apus_dp_writer *w);
/** Before numbers from last + 1 on are looked at: `acked` of the readers behind a destination becomes valid. */
static inline void apus_dp_writer_settle_behind(struct apus_dp_writer *w, uint32_t destination,
						apus_seq last)
{
	for (uint32_t i = 0; i < w->destinations[destination].state_count; i++) {
		struct apus_dp_writer_state *s = apus_dp_writer_behind(w, destination, i);

		if (!s->owing_at)
			s->acked = last;
	}
}
/** apus_dp_writer_cover() for all readers behind a destination. */
void apus_dp_writer_cover_behind(struct apus_dp_writer *w, uint32_t destination, apus_seq last);
/** A lazy reader is told that all up to number `last` that it has not heard of is irrelevant to it. */
void apus_dp_writer_cover(struct apus_dp_writer *w, struct apus_dp_writer_state *s, apus_seq last);
/** Timer function of gap_timer. */
void apus_dp_writer_gap_fn(struct apus_dp_timer *timer, struct apus_mono now);

/* writer_owing.c: who has to acknowledge something. A reliable reader that is not among them has acknowledged
 * everything that was sent, or has no use for it. */

/** A new match owes as its `acked` says. */
void apus_dp_writer_owing_begin(struct apus_dp_writer_state *s);
/** Part of apus_dp_writer_derive(), before states are classified anew: `acked` becomes valid everywhere. */
void apus_dp_writer_owing_sync(struct apus_dp_writer *w);
/** And after it. */
void apus_dp_writer_owing_derive(struct apus_dp_writer *w);
/** The same for one reader of this worker, whose `acked` is valid: from now on it is visited for every sample, or no
 *  longer; or it is gone. */
void apus_dp_writer_owing_pin(struct apus_dp_writer *w, struct apus_dp_writer_state *s);
void apus_dp_writer_owing_unpin(struct apus_dp_writer *w, struct apus_dp_writer_state *s);
void apus_dp_writer_owing_drop(struct apus_dp_writer *w, struct apus_dp_writer_state *s);
/** Readers behind a destination have yet to acknowledge number `seq`. */
void apus_dp_writer_owes(struct apus_dp_writer *w, struct apus_dp_writer_state *s, apus_seq seq);
/** A reader acknowledges up to `seq`, more than before. */
void apus_dp_writer_owing_acked(struct apus_dp_writer *w, struct apus_dp_writer_state *s,
				apus_seq seq);
/** Its `acked` has grown. */
void apus_dp_writer_owing_moved(struct apus_dp_writer *w, struct apus_dp_writer_state *s);

/** writer_send.c: the first number that a HEARTBEAT tells a reader of: that of the first sample that is still there. What
 *  lies before it a reader takes for lost; so where nothing but what its filter rejects lies there, and the GAP that
 *  said so may have been, HEARTBEATs begin behind what the reader has confirmed, and it asks if it does not know. */
apus_seq apus_dp_writer_first(const struct apus_dp_writer *w, const struct apus_dp_writer_state *s);
/** Puts a HEARTBEAT that tells of numbers from `first` to `last`. */
void apus_dp_writer_put_heartbeat(struct apus_dp_writer *w, struct apus_wire_builder *b,
				  struct apus_eid reader, apus_seq first, apus_seq last,
				  bool final);
/** Whom a DATA is for, and what it has to look like. */
struct apus_dp_writer_target {
	const struct apus_dp_addr *to;
	const struct apus_prefix *dest; /* NULL: everybody there */
	struct apus_eid reader;
	bool hash_only;         /* a dispose is a key hash without payload */
	bool inline_qos;        /* each sample has its key hash and the writer's QoS */
	const uint32_t *states; /* the readers */
	uint32_t state_count;
};
/** Puts the DATA of a sample. */
void apus_dp_writer_put_sample(struct apus_dp_writer *w, uint32_t slot,
			       const struct apus_dp_writer_target *target);
/** A run of irrelevant numbers on its way into one GAP: start … end - 1; start 0 = none. */
struct apus_dp_gap_run {
	apus_seq start, end;
};
/** Puts it for one reader, if there is one, and empties it. */
void apus_dp_writer_put_gap(struct apus_dp_writer *w, const struct apus_dp_writer_state *s,
			    struct apus_dp_gap_run *run);
/** Evaluates readers' filters over samples that are about to be served, before any of them is. `from`, `first` as in
 *  apus_dp_writer_send(). */
void apus_dp_writer_judge_all(struct apus_dp_writer *w, apus_seq from, uint32_t first);
/** Sends changes from number `from` to the newest to all destinations. first: slot of the first sample among
 *  them, or APUS_SHM_NO_SLOT. */
void apus_dp_writer_send(struct apus_dp_writer *w, apus_seq from, uint32_t first,
			 struct apus_mono now);
/** Inline QoS of a sample: what kind of change it is, and of which instance. */
struct apus_wire_inline_out apus_dp_writer_inline_qos(const struct apus_dp_writer *w,
						      const struct apus_dp_entry *e);
/** Adds what a reader that expects inline QoS wants with every sample. */
void apus_dp_writer_add_inline(const struct apus_dp_writer *w, const struct apus_dp_entry *e,
			       struct apus_wire_inline_out *qos);
/** State of a matched reader, or NULL. */
struct apus_dp_writer_state *apus_dp_writer_find_state(struct apus_dp_writer *w,
						       const struct apus_guid *guid);
/** True while a reader has not proved that it receives what is sent to its address. */
static inline bool apus_dp_writer_unproved(const struct apus_dp_writer *w,
					   const struct apus_dp_writer_state *s)
{
	return w->config.proof_secret && s->awaited;
}

/** Says at an address that numbers start … end - 1 are irrelevant to a reader there; 0: to all of them. dest: the
 *  participant, or NULL. */
void apus_dp_writer_gap_to(struct apus_dp_writer *w, const struct apus_dp_addr *to,
			   const struct apus_prefix *dest, struct apus_eid reader, apus_seq start,
			   apus_seq end);
/** Says to one reader that numbers start … end - 1 are irrelevant to it. */
void apus_dp_writer_gap(struct apus_dp_writer *w, const struct apus_dp_writer_state *s,
			apus_seq start, apus_seq end);

/** writer_local.c: serves the readers of this worker with what was sent; true if one has come further. from: the
 *  first number that is new. */
bool apus_dp_writer_serve_local(struct apus_dp_writer *w, apus_seq from, struct apus_mono now);
/** An indexed reader counts what it was spared, but for the last `served` samples. */
void apus_dp_writer_skipped(struct apus_dp_writer *w, struct apus_dp_writer_state *s,
			    uint64_t served);
/** Derivation: which local readers are indexed. */
void apus_dp_writer_derive_indexed(struct apus_dp_writer *w);
/** Some filter is in the index for a reader. */
static inline bool apus_dp_writer_judges(const struct apus_dp_writer *w)
{
	return w->filtered_count || w->indexed_count;
}

/** writer.c: sends what is held, suspended or not. */
void apus_dp_writer_serve(struct apus_dp_writer *w, struct apus_mono now);

/** writer_group.c: what the publisher has to say of change `seq`; counts it. */
void apus_dp_writer_mark(struct apus_dp_writer *w, apus_seq seq, struct apus_dp_marks *marks);
/** The first end of a set from number `from` to `to`, or NULL. */
const struct apus_dp_marker *apus_dp_writer_marker(const struct apus_dp_writer *w, apus_seq from,
						   apus_seq to);
/** Puts the DATA that ends a set. */
void apus_dp_writer_put_marker(struct apus_dp_writer *w, const struct apus_dp_marker *marker,
			       const struct apus_dp_addr *to, const struct apus_prefix *dest,
			       struct apus_eid reader);

/** writer_demote.c: a HEARTBEAT by the timer is about to ask a lagging reader. False: not this time. */
bool apus_dp_writer_ask(struct apus_dp_writer *w, struct apus_dp_writer_state *s,
			struct apus_mono now);
/** A reader was heard; true if it had been demoted. */
bool apus_dp_writer_heard(struct apus_dp_writer *w, struct apus_dp_writer_state *s);
/** Demotes the readers that have been silent for too long; true if there were any. */
bool apus_dp_writer_demote_silent(struct apus_dp_writer *w, struct apus_mono now);
/** Makes room in a full history at the cost of demoted readers; true if something was removed. */
bool apus_dp_writer_give_up(struct apus_dp_writer *w, uint32_t instance_idx);

/** What a HEARTBEAT behind some samples has to say. */
struct apus_dp_follow_up {
	bool heartbeat; /* there is one */
	bool ask;       /* it asks for an answer whatever else */
};
/** writer_send.c: sends one sample to a destination. */
void apus_dp_writer_send_one(struct apus_dp_writer *w, uint32_t slot, uint32_t destination,
			     struct apus_mono now, struct apus_dp_follow_up *f);

/** writer_window.c: what a small sample takes of a window beside its payload. */
uint32_t apus_dp_writer_overhead(const struct apus_dp_writer *w, bool alone);
/** The reader whose window a destination has to mind, or NULL. */
struct apus_dp_writer_state *apus_dp_writer_windowed(struct apus_dp_writer *w,
						     uint32_t destination);
/** True if its window has room for the sample in `slot`; else it waits from there on. */
bool apus_dp_writer_window_admits(struct apus_dp_writer *w, struct apus_dp_writer_state *s,
				  uint32_t slot, struct apus_mono now);
/** How far samples from `slot` on may go: up to so many bytes written, as in entries' offset_bytes, its own behind it
 *  included. Needs no clock, and has nobody wait. */
uint64_t apus_dp_writer_window_end(const struct apus_dp_writer *w,
				   const struct apus_dp_writer_state *s, uint32_t slot);
/** Sends what waits, as far as the window goes. */
void apus_dp_writer_window_move(struct apus_dp_writer *w, struct apus_dp_writer_state *s,
				struct apus_mono now);
/** From here on a reader asks for what it was not sent. */
void apus_dp_writer_stop_waiting(struct apus_dp_writer *w, struct apus_dp_writer_state *s);
/** A reader acknowledged (progress) or asked for something (missing). */
void apus_dp_writer_window_learn(const struct apus_dp_writer *w, struct apus_dp_writer_state *s,
				 bool progress, bool missing);
/** The sample in `slot` was sent to this reader. */
void apus_dp_writer_window_sent(const struct apus_dp_writer *w, struct apus_dp_writer_state *s,
				uint32_t slot);
/** A reader acknowledges up to `seq`, which is not in `acked` yet: that is no longer in its window. */
void apus_dp_writer_window_acked(const struct apus_dp_writer *w, struct apus_dp_writer_state *s,
				 apus_seq seq);
/** The last number that a reader may know of. */
static inline apus_seq apus_dp_writer_told(const struct apus_dp_writer *w,
					   const struct apus_dp_writer_state *s)
{
	if (s->unsent_seq && s->reliable && apus_dp_prefix_is_apus(&s->prefix))
		return s->unsent_seq - 1;
	return s->waiting_seq ? s->waiting_seq - 1 : w->sent;
}

/** How often a reader gets each of so many samples or fragments that it asks for. Interop: a Cyclone DDS 0.10.2
 *  reader that lacks something of what it has asked for waits 100 ms before it asks for that again, but asks at once
 *  for what comes behind; a second copy costs less than the pause. */
static inline uint32_t apus_dp_writer_copies(const struct apus_dp_writer_state *s, uint32_t count)
{
	if (!apus_dp_prefix_asks_late(&s->prefix))
		return 1;
	return count <= 8 ? 4 : 2;
}

/** True if a number was sent again within the present period of suppression. A number 256 away may be taken for
 *  it: that one is then asked for again. */
static inline bool apus_dp_writer_is_recent(const struct apus_dp_writer *w,
					    const struct apus_dp_recent *recent, apus_seq seq,
					    struct apus_mono now)
{
	return now.ns - recent->since.ns < w->worker->config.nack_suppression_ns &&
	       (recent->bits[(uint64_t)seq / 64 % 4] >> (uint64_t)seq % 64 & 1);
}
/** Notes that a number is sent again. */
static inline void apus_dp_writer_note_recent(const struct apus_dp_writer *w,
					      struct apus_dp_recent *recent, apus_seq seq,
					      struct apus_mono now)
{
	if (now.ns - recent->since.ns >= w->worker->config.nack_suppression_ns)
		*recent = (struct apus_dp_recent){.since = now};
	recent->bits[(uint64_t)seq / 64 % 4] |= UINT64_C(1) << (uint64_t)seq % 64;
}

/** writer_repair.c: answers a request of one reader: samples again, GAPs, and a HEARTBEAT behind them. */
void apus_dp_writer_answer(struct apus_dp_writer *w, struct apus_dp_writer_state *s,
			   const struct apus_wire_seqset *set, struct apus_mono now);
/** writer_answer.c: puts off the answer to a request, if the settings say so. False: it is to be answered now. */
bool apus_dp_writer_put_off(struct apus_dp_writer *w, struct apus_dp_writer_state *s,
			    const struct apus_wire_seqset *set, struct apus_mono now);
/** An ACKNACK acknowledges all below `base`: that part of a waiting request is done with. */
void apus_dp_writer_request_acked(struct apus_dp_writer *w, struct apus_dp_writer_state *s,
				  apus_seq base, struct apus_mono now);
/** Timer function of answer_timer. */
void apus_dp_writer_answer_fn(struct apus_dp_timer *timer, struct apus_mono now);

/** writer_frag.c: bytes written before the sample in `slot`, from number `from` on. */
uint64_t apus_dp_writer_outstanding(const struct apus_dp_writer *w, apus_seq from, uint32_t slot);
/** The slot of the first number from `seq` on that is still in the cache, or APUS_SHM_NO_SLOT. */
uint32_t apus_dp_writer_find_from(const struct apus_dp_writer *w, apus_seq seq);
/** Begins a new match. */
void apus_dp_writer_push_begin(struct apus_dp_writer_state *s);
/** Sends as much of a large sample to a destination as its readers have shown to have room for. Returns
 *  false if all its readers will get the rest unasked, and a HEARTBEAT then. */
bool apus_dp_writer_push(struct apus_dp_writer *w, uint32_t slot, uint32_t destination,
			 struct apus_mono now);
/** An Apus reader with unsent_seq has acknowledged more: sends on as far as its window goes. */
void apus_dp_writer_push_on(struct apus_dp_writer *w, struct apus_dp_writer_state *s);
/** Number of fragments of a large sample. */
uint32_t apus_dp_writer_fragment_count(const struct apus_dp_writer *w, uint32_t slot);
/** Puts fragment number n (1 …) of a sample for all readers behind a destination. */
void apus_dp_writer_put_fragment(struct apus_dp_writer *w, uint32_t slot, uint32_t n,
				 const struct apus_dp_destination *destination);

/** writer_pace.c: sends the beginning of a large sample to a destination whose readers are all best-effort; the
 *  rest follows by the timer. */
void apus_dp_writer_pace_begin(struct apus_dp_writer *w, uint32_t slot, uint32_t destination,
			       struct apus_mono now);
/** A portion of each such rest; true if something is left. */
bool apus_dp_writer_pace_on(struct apus_dp_writer *w);
/** The lowest number that some rest is of; only while `paces`. */
apus_seq apus_dp_writer_pace_low(const struct apus_dp_writer *w);

/** Timer function of pace_timer. */
void apus_dp_writer_pace_fn(struct apus_dp_timer *timer, struct apus_mono now);
/** Sends up to `budget` bytes of a large sample that a reader asked for as a whole. Returns the bytes. */
uint32_t apus_dp_writer_push_again(struct apus_dp_writer *w, uint32_t slot,
				   struct apus_dp_writer_state *s, uint32_t budget);
/** A reader has acknowledged more. */
void apus_dp_writer_push_acked(struct apus_dp_writer_state *s);

/** writer.c: a HEARTBEAT with the liveliness flag to every destination. */
void apus_dp_writer_say_alive(struct apus_dp_writer *w, struct apus_mono now);

#endif
