/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coherent sets on their way into a history (DDS 1.4 §2.2.3.6, RTPS 2.5 §8.7.5): a sample of a set passes every
 * test of admission when it arrives, is then withheld, charged to the limits of the reader, and becomes
 * visible with the rest of its set, or never.
 *
 * One set a writer is open at a time. It ends with a marker, or with anything of that writer that is not in
 * it. Ended, it is released at once (topic scope), or waits until its publisher's other writers have ended
 * theirs (group scope; dataplane/group.h). A set is *broken* when one of its numbers was lost, when it began
 * before the first number we have had of the writer, or when it cannot fit even an empty history: what came
 * is dropped, and what comes is rejected, until it ends.
 */
#ifndef APUS_DATAPLANE_SETS_H
#define APUS_DATAPLANE_SETS_H

#include "dataplane/history.h"

/** What one writer has of the set it writes. Zero-initialised: no set. */
struct apus_dp_set {
	apus_seq first;      /* its first number names it; 0 = none is open */
	apus_seq group;      /* its first number in the publisher's count; 0 = not said */
	uint32_t head, tail; /* withheld entries, in order; valid while count > 0 */
	uint32_t count;
	bool broken;
	bool ended; /* complete, and waits for its group */
};

/** Withholds a sample (with_data) or a change of state. There must be room: apus_dp_sets_room(). Pins the
 *  instance, so that it stays. */
void apus_dp_sets_withhold(struct apus_dp_history *h, struct apus_dp_set *set,
			   struct apus_dp_instance *instance, const struct apus_dp_record *record,
			   uint8_t change, bool with_data);
/** Whether one more of `instance` (NULL: a new one) can be withheld; as apus_dp_history_room(). */
enum apus_dp_refusal apus_dp_sets_room(const struct apus_dp_history *h,
				       const struct apus_dp_instance *instance, size_t key_bytes,
				       bool with_data);
/** Takes the first withheld sample out, to be stored or dropped: the caller owns record_out->slot_ref, and the
 *  pin on the instance is gone. NULL: none is left. */
struct apus_dp_instance *apus_dp_sets_pop(struct apus_dp_history *h, struct apus_dp_set *set,
					  struct apus_dp_record *record_out, uint8_t *change_out,
					  bool *with_data_out);
/** Drops all that is withheld of the set; returns how many samples with data. */
uint32_t apus_dp_sets_drop(struct apus_dp_history *h, struct apus_dp_set *set);
/** Drops the withheld samples with data that `keep` does not want (a new filter). Returns how many. */
uint32_t apus_dp_sets_prune(struct apus_dp_history *h, struct apus_dp_set *set,
			    bool (*keep)(void *context, const struct apus_dp_sample *entry),
			    void *context, uint64_t filter_generation);

#endif
