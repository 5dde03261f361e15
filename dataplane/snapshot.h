/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam between the two planes; the only data-plane header that control/ includes.
 *
 * Down: control builds an immutable snapshot for a writer (whom it sends to) or a reader (whom it hears,
 * and its filter), publishes it in the endpoint's port and never touches it again. The data plane uses
 * one generation for a whole turn. Nothing is ever updated in place.
 *
 * Reclaim: a domain-wide epoch is raised after each publication. Whoever takes a worker's turn writes
 * the epoch it saw into the worker's turn word (0 = free), so the word is also the reader's record:
 * what was replaced at epoch E may be freed once every word is 0 or at least E. Control looks at the
 * words and never waits.
 *
 *   control                                        worker (taking its turn)
 *   S1 port.snapshot = new        (seq_cst)        T1 e = epoch            (acquire)
 *   S2 E = ++epoch                (seq_cst)        T2 turn: 0 -> e         (seq_cst CAS)
 *   S3 look at every turn word    (seq_cst)        T3 load port.snapshot   (seq_cst)
 *
 * If S3 misses T2 then T2 follows S3 in the single order of seq_cst operations, so T3 follows S1 and
 * loads the new snapshot. If S3 sees T2 with e < E, the old snapshot is kept. T1 only ever makes the
 * recorded epoch too old, which delays a reclaim and never hurries one.
 *
 * A worker that remembers which epoch it adopted may look at the epoch again instead of at every port, if
 * it does so after T2 (seq_cst; pairs with S2 as T3 does with S1). It must tell snapshots apart by
 * generation, never by address: control may have freed what it adopted and built a later one there.
 *
 * Which ports to look at then is told by a list: between S1 and S2 control enters the port, once, in the
 * list of its worker (N1, N2); the holder of the turn takes the whole list (N3), and takes a port's mark
 * off (N4) before it loads the snapshot. So a port published after that load is in the list again.
 */
#ifndef APUS_DATAPLANE_SNAPSHOT_H
#define APUS_DATAPLANE_SNAPSHOT_H

#include <stdatomic.h>

#include "base/atomics.h"
#include "base/guid.h"
#include "dataplane/board.h"
#include "dataplane/io/transport.h"
#include "dataplane/filter_index.h"
#include "dataplane/predicate.h"

struct apus_dp_shm_in;
struct apus_dp_shm_out;

/** One matched reader in a writer's snapshot. */
struct apus_dp_reader_match {
	struct apus_guid guid;
	/** Identity of the match, never reused within a participant. It keys the mutable state (sequence
	 *  windows, acknowledgements), so a new snapshot that still has the match keeps that state. */
	uint64_t match_id;
	bool reliable;        /**< it acknowledges */
	bool transient_local; /**< it wants history from before the match */
	bool inline_qos;      /**< it expects inline QoS */
	bool local; /**< same participant: delivered directly where the worker is the same */
	/** Interop: Fast DDS 2.9.1 takes the start of a key-only payload for the instance handle; its own
	 *  form, key hash without payload, it understands. Set for its readers. */
	bool hash_only_dispose;
	struct apus_dp_addr
		unicast; /**< where its samples go: the reader's locator, else its participant's */
	struct apus_dp_addr multicast; /**< family 0 = none */
	const struct apus_dp_predicate
		*predicate; /**< writer-side filter, NULL = send everything */
	uint32_t filter_id; /**< with a predicate: its id in the snapshot's index */
	/** Of a local reader: its filter with that generation of its own is `filter_id` of the index, too; 0: it
	 *  is not in the index. */
	uint64_t local_generation;
	uint64_t filter_generation;
	struct apus_dp_shm_out *shm; /**< its samples go through shared memory; NULL: they do not */
	bool filter_info; /**< samples say what became of the filter, under `filter_signature` */
	uint8_t filter_signature[16]; /**< RTPS 2.5 §9.6.4.1 */
};

/** What a writer sends to. Matches sorted by GUID. */
struct apus_dp_writer_snapshot {
	uint64_t generation; /**< grows with each publication of this endpoint; the first is 1 */
	/** The different predicates of all matches; NULL if none has one. */
	const struct apus_dp_filter_index *index;
	/** What readers that expect inline QoS are told: see apus_wire_inline_out. Of the snapshot; none expects it: 0. */
	const uint8_t *inline_list;
	uint32_t inline_bytes;
	uint32_t match_count;
	struct apus_dp_reader_match match[];
};

/** One matched writer in a reader's snapshot. */
struct apus_dp_writer_match {
	struct apus_guid guid;
	uint64_t match_id;    /**< as above */
	bool reliable;        /**< it heartbeats; false makes the match best-effort */
	bool transient_local; /**< writer and reader both: history before the match is wanted */
	/** Interop: a Cyclone DDS 0.10.2 writer that keeps history answers every request with samples, also
	 *  one of a volatile reader for samples from before its match, where others answer by GAP. A reader
	 *  of such a writer must not ask below the first number it hears. */
	bool past_unwanted;
	bool local;
	/** What it says of our filter it has found by our program over the very same type. */
	bool filter_trusted;
	struct apus_eid publisher; /**< its group, within its participant; 0: of its own */
	int32_t strength;          /**< ownership strength it offers */
	uint8_t liveliness;        /**< enum apus_liveliness it offers */
	int64_t lease_ns;          /**< liveliness lease it offers */
	int64_t lifespan_ns;       /**< lifespan it offers */
	struct apus_dp_addr
		unicast; /**< where acknowledgements go: the writer's locator, else its participant's */
	struct apus_dp_shm_in
		*shm; /**< its samples come through shared memory; NULL: they do not */
};

/** What a reader hears. Matches sorted by GUID. */
struct apus_dp_reader_snapshot {
	uint64_t generation;
	const struct apus_dp_predicate *filter; /**< NULL = everything passes */
	uint64_t filter_generation;             /**< 0 = never had a filter */
	uint8_t filter_signature[16];           /**< of the filter, for `filter_trusted` writers */
	uint32_t match_count;
	struct apus_dp_writer_match match[];
};

struct apus_dp_news_link;

/** The ports of one kind and worker that were published since a turn looked, newest first. */
struct apus_dp_news {
	_Atomic(struct apus_dp_news_link *) first; /* entered by control, taken under the turn */
};

/** A port's place in such a list. */
struct apus_dp_news_link {
	struct apus_dp_news *news; /* NULL: of no worker; set under control's lock and the turn */
	struct apus_dp_news_link *next;
	_Atomic bool listed;
};

/** Where control publishes a writer's snapshot. Lives inside the data plane's writer. */
struct apus_dp_writer_port {
	_Atomic(const struct apus_dp_writer_snapshot *) snapshot; /* written by control only */
	struct apus_dp_news_link link;
};

/** Where control publishes a reader's snapshot. */
struct apus_dp_reader_port {
	_Atomic(const struct apus_dp_reader_snapshot *) snapshot; /* written by control only */
	struct apus_dp_news_link link;
};

/** The domain-wide epoch, and the turn words that pin it. */
struct apus_dp_epoch {
	_Atomic uint64_t current APUS_CACHE_ALIGNED; /* starts at 1; written by control only */
};

/** Turn word of one worker: 0 = free, else the epoch its holder saw. */
struct apus_dp_turn {
	_Atomic uint64_t word APUS_CACHE_ALIGNED;
	_Atomic uint32_t waiters; /* threads that ask the present holder to give way */
};

/** Enters a port in the list of its worker, unless it stands there. */
static inline void apus_dp_news_add(struct apus_dp_news_link *link)
{
	struct apus_dp_news_link *first;

	/* N1: seq_cst, pairs with N4: whoever takes the mark off afterwards loads what S1 stored. */
	if (!link->news || atomic_exchange(&link->listed, true))
		return;
	/* Relaxed: the exchange below decides. */
	first = atomic_load_explicit(&link->news->first, memory_order_relaxed);
	do
		link->next = first;
	/* N2: release, pairs with N3: the link is complete before it is seen. Relaxed on failure: as above. */
	while (!atomic_compare_exchange_weak_explicit(&link->news->first, &first, link,
						      memory_order_release, memory_order_relaxed));
}

/** Takes a list, oldest first; under the turn. Each link is to be passed to apus_dp_news_begin(). */
static inline struct apus_dp_news_link *apus_dp_news_take(struct apus_dp_news *news)
{
	/* N3: acquire, pairs with N2. */
	struct apus_dp_news_link *l =
		atomic_exchange_explicit(&news->first, NULL, memory_order_acquire);
	struct apus_dp_news_link *first = NULL;

	while (l) {
		struct apus_dp_news_link *next = l->next;

		l->next = first;
		first = l;
		l = next;
	}
	return first;
}

/** Takes the mark off a link, before its port's snapshot is loaded. Returns the next of the list taken. */
static inline struct apus_dp_news_link *apus_dp_news_begin(struct apus_dp_news_link *link)
{
	struct apus_dp_news_link *next = link->next;

	/* N4: seq_cst, pairs with N1; also releases `next` to whoever enters it again. */
	atomic_store(&link->listed, false);
	return next;
}

/** Publishes a writer's snapshot; returns the replaced one (NULL at first), which must be kept until
 *  `*retire_epoch_out` is reclaimable. Control thread (or holder of control's lock) only. */
static inline const struct apus_dp_writer_snapshot *
apus_dp_writer_publish(struct apus_dp_epoch *epoch, struct apus_dp_writer_port *port,
		       const struct apus_dp_writer_snapshot *snapshot, uint64_t *retire_epoch_out)
{
	const struct apus_dp_writer_snapshot *old;

	/* S1: seq_cst, pairs with T3; see the head of this file. */
	old = atomic_exchange(&port->snapshot, snapshot);
	apus_dp_news_add(&port->link);
	/* S2: seq_cst, pairs with T1 and orders S1 before S3. */
	*retire_epoch_out = atomic_fetch_add(&epoch->current, 1) + 1;
	return old;
}

/** As apus_dp_writer_publish(), for a reader. */
static inline const struct apus_dp_reader_snapshot *
apus_dp_reader_publish(struct apus_dp_epoch *epoch, struct apus_dp_reader_port *port,
		       const struct apus_dp_reader_snapshot *snapshot, uint64_t *retire_epoch_out)
{
	const struct apus_dp_reader_snapshot *old;

	/* S1: seq_cst, pairs with T3; see the head of this file. */
	old = atomic_exchange(&port->snapshot, snapshot);
	apus_dp_news_add(&port->link);
	/* S2: seq_cst, pairs with T1 and orders S1 before S3. */
	*retire_epoch_out = atomic_fetch_add(&epoch->current, 1) + 1;
	return old;
}

/** True if what was retired at `retire_epoch` can be freed as far as this worker is concerned. */
static inline bool apus_dp_turn_passed(const struct apus_dp_turn *turn, uint64_t retire_epoch)
{
	/* S3: seq_cst, pairs with T2. */
	uint64_t word = atomic_load(&turn->word);

	return word == 0 || word >= retire_epoch;
}

#endif
