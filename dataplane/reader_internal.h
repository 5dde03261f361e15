/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the reader share: reader.c (life), reader_in.c (arrival and admission), reader_hold.c
 * (order), reader_frag.c (reassembly), reader_ack.c (requests), reader_adopt.c, reader_access.c. Nothing
 * else includes this.
 */
#ifndef APUS_DATAPLANE_READER_INTERNAL_H
#define APUS_DATAPLANE_READER_INTERNAL_H

#include "dataplane/cache.h"
#include "dataplane/reader.h"
#include "dataplane/worker.h"

/** A hole seen by a DATA is asked for after this time if no HEARTBEAT came meanwhile: some writers
 *  heartbeat only every 3 s, and plain reordering closes most holes sooner. */
#define APUS_DP_HOLE_NS (5 * APUS_NS_PER_MS)

/** One sample on its way in, whatever the route. */
struct apus_dp_incoming {
	apus_seq seq;
	struct apus_wall source;
	uint8_t change; /* status info bits */
	bool key_only;
	const uint8_t *payload;
	uint32_t payload_bytes;
	const uint8_t *key_hash;
	struct apus_dp_marks marks;
	const uint8_t *filter_info; /* ContentFilterInfo_t as it came; NULL: none */
	uint32_t filter_info_bytes;
	uint8_t filter_word;                 /* enum apus_dp_filter_word, if that was read before */
	const struct apus_dp_origin *origin; /* NULL: same process, or held back */
};

/** The payload of a slot of the reader's pool. */
static inline uint8_t *apus_dp_reader_slot(const struct apus_dp_reader *r, uint32_t slot)
{
	return (uint8_t *)apus_shm_pool_slot(&r->pool, slot) + APUS_DP_SLOT_PAYLOAD;
}

/** References of the history to payloads that lie in a writer's slot: this bit, and the place in `lents`. */
#define APUS_DP_LENT_REF UINT32_C(0x80000000)

/** True if a reference of the history is of that kind. */
static inline bool apus_dp_ref_is_lent(uint32_t slot_ref)
{
	return slot_ref >= APUS_DP_LENT_REF && slot_ref != APUS_SHM_NO_SLOT;
}

/** The payload a reference of the history stands for, which is not APUS_SHM_NO_SLOT. */
static inline const uint8_t *apus_dp_reader_payload(const struct apus_dp_reader *r,
						    uint32_t slot_ref, uint32_t *bytes_out)
{
	const struct apus_dp_lent *l;

	if (APUS_LIKELY(!apus_dp_ref_is_lent(slot_ref))) {
		*bytes_out = r->slot_payload_bytes[slot_ref];
		return apus_dp_reader_slot(r, slot_ref);
	}
	l = &r->lents[slot_ref - APUS_DP_LENT_REF];
	*bytes_out = l->payload_bytes;
	return l->payload;
}

/* reader_lent.c: samples that stay in their writer's slot. */

/** Allocates what that needs. Returns 0 or APUS_ENOMEM. */
int apus_dp_lent_init(struct apus_dp_reader *r);
/** True if a payload of the match may stay where it is: its bytes are what they seem whatever its writer does to
 *  them, it is worth the while, and neither the writer's slots nor our places for them run out. */
bool apus_dp_lent_fits(const struct apus_dp_reader_state *s, const uint8_t *payload,
		       uint32_t payload_bytes);
/** Keeps the sample being admitted where it is; returns the reference. */
uint32_t apus_dp_lent_hold(struct apus_dp_reader *r, const uint8_t *payload,
			   uint32_t payload_bytes);
/** The history lets go of it: its writer has the slot again. */
void apus_dp_lent_release(struct apus_dp_reader *r, uint32_t slot_ref);
/** The application has been lent it, or has returned it; other references are allowed. */
void apus_dp_lent_show(struct apus_dp_reader *r, uint32_t slot_ref);
void apus_dp_lent_unshow(struct apus_dp_reader *r, uint32_t slot_ref);
/** The match ends: what the application does not look at is copied, and the writer has the slots again. */
void apus_dp_lent_end(struct apus_dp_reader *r, struct apus_dp_shm_in *shm);

/** Copies a payload into a free slot; APUS_SHM_NO_SLOT if there is none. */
uint32_t apus_dp_reader_store(struct apus_dp_reader *r, const uint8_t *payload, size_t bytes);
/** The slot of the reader's pool that a payload lies in already; else APUS_SHM_NO_SLOT. */
uint32_t apus_dp_reader_slot_of(const struct apus_dp_reader *r, const uint8_t *payload);

/** reader_in.c: admits one sample through sink or inbox. */
enum apus_dp_admit_result apus_dp_reader_admit(struct apus_dp_reader_state *s,
					       const struct apus_dp_incoming *in,
					       struct apus_mono now);
/** Admits `count` ≥ 1 samples for which apus_dp_admit_run_room() has just found room, their payloads in slots. */
void apus_dp_reader_admit_run(struct apus_dp_reader_state *s, const struct apus_dp_run_item *items,
			      uint32_t count, struct apus_mono now);
/** Judges the number of a sample or fragment that has come, as apus_dp_window_check(), after a jump that it
 *  contradicts has been taken back. */
enum apus_dp_seq_verdict apus_dp_reader_check(struct apus_dp_reader_state *s, apus_seq seq,
					      struct apus_mono now);
/** A whole sample of a matched writer has come: deliver it, hold it back, or drop it. */
void apus_dp_reader_arrive(struct apus_dp_reader_state *s, const struct apus_dp_incoming *in,
			   struct apus_mono now);

/** reader_shm.c: takes a burst of samples out of the ring of a match. */
int apus_dp_shm_drain(struct apus_dp_reader_state *s, struct apus_mono now);
/** The same until it is empty, or nothing more is admitted. */
void apus_dp_shm_drain_all(struct apus_dp_reader_state *s, struct apus_mono now);

/** reader_hold.c: keeps a sample that arrived out of order. */
void apus_dp_reader_hold_back(struct apus_dp_reader_state *s, const struct apus_dp_incoming *in);
/** Settles one number after admission; false if the sample was refused. */
bool apus_dp_reader_settle(struct apus_dp_reader_state *s, apus_seq seq,
			   enum apus_dp_admit_result result);
/** Delivers held samples whose turn has come. */
void apus_dp_reader_drain(struct apus_dp_reader_state *s, struct apus_mono now);

/** reader_frag.c: gives up assemblies of samples that are not wanted any more, or of an ended match. */
void apus_dp_reader_sweep_fragments(struct apus_dp_reader_state *state);
/** Takes samples of which fragments have come out of a request for whole samples, and those that there is no place
 *  for, or that were asked for just now. Only while the writer has samples that are being put together. */
void apus_dp_reader_spare_fragmented(struct apus_dp_reader_state *state,
				     struct apus_wire_seqset *set, struct apus_mono now);
/** A HEARTBEAT that wants an answer says that of the samples up to `last` nothing more is on its way. */
void apus_dp_reader_settle_fragments(struct apus_dp_reader_state *state, apus_seq last);
/** Asks for the missing fragments of every sample being put together. */
void apus_dp_reader_send_nack_frags(struct apus_dp_reader_state *state, struct apus_mono now);

/** reader_status.c: tells watchers what admission of one sample changed. */
void apus_dp_reader_note(struct apus_dp_reader *r, const struct apus_dp_admission *admission,
			 struct apus_mono now);
/** Adds what a writer's window gave up to the reader's total. */
void apus_dp_reader_note_lost(struct apus_dp_reader_state *s);
/** One sample of a writer will never be stored, though it came or was offered. */
void apus_dp_reader_lose(struct apus_dp_reader_state *s);
/** Tells watchers of liveliness if some writer arrived, left, lapsed or revived. */
void apus_dp_reader_note_flips(struct apus_dp_reader *r);
struct apus_mono apus_dp_reader_alarm(struct apus_dp_alarm *alarm, struct apus_mono now);

/** reader_ack.c: an acknowledgement leaves at the end of the burst. */
void apus_dp_reader_queue_ack(struct apus_dp_reader_state *s);
/** Asks for what is missing: after delay_ns, or so much later that requests keep their distance. */
void apus_dp_reader_ask(struct apus_dp_reader_state *s, struct apus_mono now, int64_t delay_ns);

/** reader_in.c: what a writer that is to be believed says of the reader's present filter. info: ContentFilterInfo_t as
 *  it came, or NULL. */
enum apus_dp_filter_word apus_dp_reader_filter_word(const struct apus_dp_reader_state *s,
						    const uint8_t *info, uint32_t info_bytes);

#endif
