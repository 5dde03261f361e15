/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker: one poll context. It owns a transport queue, a timer wheel and the readers and writers
 * assigned to it with all their mutable state.
 *
 * Whoever holds the *turn* runs the worker: its own thread (spawned), the application in
 * apus_worker_poll() (driven), or any thread inside a public data call. The turn word is taken by one
 * compare-exchange and records the epoch its holder saw (dataplane/snapshot.h). Everything in this
 * directory that says "under the turn" means this word.
 *
 * Taking the turn is also where new snapshots are adopted: if the epoch moved since the last turn, each
 * endpoint whose published snapshot changed brings its per-match state in line before anything else runs.
 * Between two turns an endpoint therefore keeps plain pointers into its adopted snapshot (filters), and
 * does not follow them before it knows that the snapshot is still the published one.
 *
 * A spawned worker gives way between two bursts when others wait, so a caller waits for one burst at most.
 */
#ifndef APUS_DATAPLANE_WORKER_H
#define APUS_DATAPLANE_WORKER_H

#include "base/atomics.h"
#include "base/clock.h"
#include "base/quick_clock.h"
#include "dataplane/alarm.h"
#include "dataplane/heard.h"
#include "dataplane/io/transport.h"
#include "dataplane/out.h"
#include "dataplane/snapshot.h"
#include "dataplane/watch.h"
#include "dataplane/wheel.h"

#include <pthread.h>

struct apus_dp_worker;
struct apus_dp_reader;
struct apus_dp_writer;
struct apus_dp_reader_state;

/** How a spawned worker waits. */
enum apus_dp_idle { APUS_DP_IDLE_POLL, APUS_DP_IDLE_PAUSE, APUS_DP_IDLE_BLOCK };

/** What can happen to what a worker receives; one counter each, readable at any time. */
struct apus_dp_worker_counters {
	struct apus_counter rx_malformed;   /* datagrams with a malformed part */
	struct apus_counter rx_not_rtps;    /* datagrams that are not RTPS */
	struct apus_counter rx_own;         /* our own datagrams, looped back */
	struct apus_counter rx_other_dest;  /* submessages for another participant */
	struct apus_counter rx_unmatched;   /* submessages from or to no endpoint we have matched */
	struct apus_counter rx_skipped;     /* submessages not understood */
	struct apus_counter rx_submessages; /* accepted submessages */
	struct apus_counter adoptions;      /* snapshots adopted */
	struct apus_counter pulses;         /* assertions of liveliness passed on by control */
	struct apus_counter pulses_lost;    /* of these, those that found no room */
};

/** Fixed parameters of a worker. */
struct apus_dp_worker_config {
	struct apus_prefix prefix;
	struct apus_dp_queue *queue; /* owned by the worker from here on */
	struct apus_dp_epoch *epoch; /* outlives the worker */
	uint32_t endpoint_max;       /* readers and writers together */
	uint32_t match_max;          /* matched writers of all its readers together */
	int64_t heartbeat_ns;        /* longest heartbeat period of its writers */
	int64_t demote_ns;           /* silence after which its writers demote a reader; 0: never */
	uint32_t fragment_bytes; /* payloads above it are cut into pieces of it; multiple of 4 */
	uint32_t pace_bytes;     /* of a large sample at a time where nobody can ask for it again */
	int64_t ack_delay_ns;    /* from a HEARTBEAT to its answer */
	/* From a request for samples to its answer (nackResponseDelay of RTPS 2.5 §8.4.7.1), and the same, if it
	 * is longer, for readers that are sent to in a group. */
	int64_t nack_delay_ns, nack_group_delay_ns;
	/* Readers of a group that ask for a sample meanwhile, from which on it goes to the group; 0: never. */
	uint32_t nack_group_readers;
	/* What a reader was sent is not sent again on request within this time: the request and the answer to
	 * the one before have crossed (nackSuppressionDuration). */
	int64_t nack_suppression_ns;
	unsigned segment_flags; /* APUS_SHM_…, of the pools of its endpoints */
	bool lazy_memory;       /* output buffers are touched when they are used, not at creation */
	/** Accept datagrams of our own participant: its other workers send them. */
	bool hear_own;
	/** Called, under the turn, once for a datagram that carried matched traffic; may be NULL. It tells
	 *  control that this participant knows us. bytes: of the datagram, 0 if they were credited to it or
	 *  another already. proved: it has answered what only its address was sent. */
	void (*evidence)(void *user, const struct apus_prefix *source, uint32_t bytes, bool proved,
			 struct apus_mono now);
	/** What leaves must pass this; may be NULL. See apus_dp_out. */
	bool (*may_send)(void *user, const struct apus_prefix *dest, uint32_t bytes);
	/** Submessages of a participant must pass this with the address they come from; may be NULL. */
	bool (*may_hear)(void *user, const struct apus_prefix *source,
			 const struct apus_dp_addr *from);
	/** A matched writer says that it has written less than was received of it; may be NULL. */
	void (*regressed)(void *user, const struct apus_prefix *source, struct apus_mono now);
	void *control_user; /**< of these */
	int watch_fd; /**< ends a sleep when it becomes readable; its owner reads it. 0 or less: none */
	/** Called by the worker's thread between two turns while `listeners` has something pending; may be
	 *  NULL. */
	void (*listen)(void *user, struct apus_dp_worker *worker);
	void *listen_user;
};

/** An assertion of liveliness on its way from control to a worker. */
struct apus_dp_pulse {
	struct apus_prefix prefix;
	uint8_t liveliness; /* enum apus_liveliness */
	bool readers_only;  /* not for writers of the worker */
	struct apus_mono at;
};
#define APUS_DP_PULSES 64

/** A fragment, and where its sample is put together. */
struct apus_dp_guess {
	struct apus_dp_reader *reader; /* NULL: none */
	struct apus_dp_reader_state *state;
	apus_seq seq;
	uint32_t assembly_idx;
	uint32_t fragment_idx;
	uint32_t head_bytes; /* of its datagram, in front of the payload */
};

/**
 * The fragment that probably comes next is the one behind the latest. While it does, the kernel copies its payload to
 * where the sample is put together (struct apus_dp_rx_place). A wrong guess costs a copy more, so guessing pauses after
 * one, the longer the more were wrong in a row. Under the turn.
 */
struct apus_dp_expected {
	struct apus_dp_guess next;
	uint32_t wrong, pausing; /* guesses in a row; datagrams to let pass */
	/* The datagram under interpretation: where it begins; if its payload lies at `placed` instead of `payload`,
	 * what was guessed, and whether it was right. */
	const uint8_t *datagram, *payload;
	const uint8_t *placed; /* NULL: nowhere else */
	struct apus_dp_guess current;
	bool right;
};

struct apus_dp_worker {
	struct apus_dp_turn turn;
	struct apus_dp_worker_config config;
	uint64_t adopted_epoch; /* under the turn */
	struct apus_dp_news news_readers, news_writers;
	struct apus_dp_reader
		*ask_first; /* while a turn adopts: by `ask_next`, whose filters have changed */

	struct apus_dp_wheel wheel;
	struct apus_quick_clock
		clock; /* of application threads that publish and take; under the turn */
	struct apus_dp_out out;
	struct apus_dp_worker_counters counters;
	struct apus_dp_heard heard;
	int rx_burst; /* datagrams taken at once next time, after how large the latest were; 0: not known */

	struct apus_dp_expected expected;

	/* Endpoints sorted by entity id, under the turn. */
	struct apus_dp_reader **readers;
	struct apus_dp_writer **writers;
	uint32_t reader_count, writer_count;

	/* Matched writers by GUID, chained through their states; several readers may match one writer. */
	struct apus_dp_reader_state **by_writer;
	uint32_t by_writer_mask;

	/* Readers with an acknowledgement to send at the end of the burst. */
	struct apus_dp_reader_state *ack_list;
	/* Matches of readers through shared memory. */
	struct apus_dp_reader_state *shm_first;
	bool shm_busy;               /* something came there since the network was looked at */
	bool shm_dozing;             /* their writers have been asked to wake this worker */
	struct apus_mono net_looked; /* when the network was last looked at */

	/* Assertions of liveliness: control appends, whoever takes the turn takes out. */
	_Atomic uint32_t pulse_head; /* consumer; under the turn */
	_Atomic uint32_t pulse_tail; /* producer; under control's lock */
	struct apus_dp_pulse pulses[APUS_DP_PULSES];

	/* MANUAL_BY_PARTICIPANT writers of this worker: writer_status.c. */
	struct apus_mono manual_last;  /* the last assertion of any */
	struct apus_mono manual_base;  /* when all of them were booked last */
	int64_t manual_lease_ns;       /* shortest lease among them; 0 = there are none */
	_Atomic uint64_t manual_count; /* assertions so far, for control */

	struct apus_dp_alarms alarms;
	struct apus_dp_target listeners; /* watches of the listeners this worker calls */
	bool listen_missed; /* it could not call them, and will be woken when it can; its thread's */

	/* What a call decodes on the way, e.g. apus_write_cdr() to check it. The turn's. */
	void *scratch;
	size_t scratch_bytes;

	/* Sleeping (idle = block). */
	_Atomic int64_t sleep_until_ns; /* 0 = awake; W1 */
	int wake_fd;                    /* eventfd */
	/* Driven, once somebody has asked for a descriptor (worker_fd.c); under the turn. -1: nobody has. */
	int event_fd, timer_fd;
	int64_t timer_due_ns; /* what timer_fd is armed for; INT64_MAX: nothing */
	_Atomic bool stop;
	pthread_t thread;
	bool spawned;
};

/** Makes the scratch memory at least so large; what was in it is gone. Under the turn, when an endpoint is made.
 *  Returns 0 or APUS_ENOMEM (it stays as it was). */
int apus_dp_worker_reserve_scratch(struct apus_dp_worker *worker, size_t bytes);
/** True on a spawned worker's thread: a callback there must not wait for that thread. */
extern _Thread_local bool apus_dp_worker_thread;

/** True for a participant of this implementation: GUID prefixes begin with the vendor's number. What depends
 *  on it is efficiency only, never correctness. */
static inline bool apus_dp_prefix_is_apus(const struct apus_prefix *prefix)
{
	return prefix->bytes[0] == 0x01 && prefix->bytes[1] == 0xee;
}

/** True for a participant whose readers ask late for what they lack of an answer. Interop: Cyclone DDS 0.10.2
 *  waits 100 ms (NackDelay), unless the writer is of its own kind. */
static inline bool apus_dp_prefix_asks_late(const struct apus_prefix *prefix)
{
	return prefix->bytes[0] == 0x01 && prefix->bytes[1] == 0x10;
}

/** Creates a worker. Returns 0 or APUS_ENOMEM, APUS_EIO. The queue is taken over on success only. */
int apus_dp_worker_create(const struct apus_dp_worker_config *config,
			  struct apus_dp_worker **worker_out);
/** Frees a stopped worker that has no endpoints left; closes its queue. NULL is allowed. */
void apus_dp_worker_destroy(struct apus_dp_worker *worker);

/** Starts the thread. core < 0: any; priority > 0: SCHED_FIFO (APUS_EPERM if refused, nothing started). */
int apus_dp_worker_spawn(struct apus_dp_worker *worker, enum apus_dp_idle idle, int core,
			 int priority);
/** Ends the thread and joins it; a worker without a thread is allowed. */
void apus_dp_worker_stop(struct apus_dp_worker *worker);

/** Takes the turn if it is free; then adopts what was published. */
bool apus_dp_worker_try_turn(struct apus_dp_worker *worker);
/** Takes the turn, asking the holder to give way. Never call it while holding any turn. */
void apus_dp_worker_take_turn(struct apus_dp_worker *worker);
/** Sends what was gathered, and gives the turn up. Wakes the worker's thread if a timer is due earlier
 *  than it meant to sleep. */
void apus_dp_worker_end_turn(struct apus_dp_worker *worker);

/** Queued acknowledgements and gathered datagrams leave; part of ending a turn, for loops that keep it. */
void apus_dp_worker_finish(struct apus_dp_worker *worker, struct apus_mono now);
/** Gives the turn up and sleeps until a datagram, a timer, until_ns (monotonic) or apus_dp_worker_wake(). */
int apus_dp_worker_sleep(struct apus_dp_worker *worker, int64_t until_ns);
/** Ends a sleep; any thread. */
void apus_dp_worker_wake(struct apus_dp_worker *worker);

/** worker_fd.c, all under the turn: a descriptor that is readable while a driven worker should be polled; made when
 *  first asked for. Or APUS_EIO. */
int apus_dp_worker_fd(struct apus_dp_worker *worker);
/** The turn ends: its timers count. */
void apus_dp_worker_fd_arm(struct apus_dp_worker *worker);
/** A poll found nothing to do: what raised the descriptor is over, but for what is pending for listeners, which the
 *  caller looks at next. */
void apus_dp_worker_fd_lower(struct apus_dp_worker *worker, struct apus_mono now);

/** One bounded poll under the turn: a burst received, timers, acknowledgements, output. Returns the amount
 *  of work. */
int apus_dp_worker_poll(struct apus_dp_worker *worker, struct apus_mono now);

/** Control has heard that a participant asserted its writers of one liveliness kind: passed on under the turn if
 *  it is free, else by whoever takes it next. Under control's lock. */
void apus_dp_worker_post_pulse(struct apus_dp_worker *worker, const struct apus_dp_pulse *pulse);
/** Applies one; under the turn. */
void apus_dp_worker_apply_pulse(struct apus_dp_worker *worker, const struct apus_dp_pulse *pulse);

/** Registers an endpoint; under the turn. APUS_ELIMIT if endpoint_max is reached. */
int apus_dp_worker_add_reader(struct apus_dp_worker *worker, struct apus_dp_reader *reader);
int apus_dp_worker_add_writer(struct apus_dp_worker *worker, struct apus_dp_writer *writer);
/** Removes one; under the turn. */
void apus_dp_worker_remove_reader(struct apus_dp_worker *worker, struct apus_dp_reader *reader);
void apus_dp_worker_remove_writer(struct apus_dp_worker *worker, struct apus_dp_writer *writer);
/** Finds an endpoint by entity id; NULL if it is not this worker's. */
struct apus_dp_reader *apus_dp_worker_reader(struct apus_dp_worker *worker, struct apus_eid eid);
struct apus_dp_writer *apus_dp_worker_writer(struct apus_dp_worker *worker, struct apus_eid eid);

/** Interprets one datagram as if it had been received; under the turn. For tests and fuzzers, too. */
void apus_dp_worker_datagram(struct apus_dp_worker *worker, const uint8_t *bytes, size_t length,
			     const struct apus_dp_addr *from, struct apus_mono now);

#endif
