/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of what a participant knows of its domain: the library's visits lend their pointers only. */
#ifndef APUS_TOOLS_LISTING_H
#define APUS_TOOLS_LISTING_H

#include <apus/participant.h>

/** All participants and endpoints; endpoints sorted by topic, writers first, then as discovered. */
struct listing {
	struct apus_participant_info *participants;
	size_t participant_count, participant_capacity;
	struct apus_endpoint_info *endpoints;
	size_t endpoint_count, endpoint_capacity;
	bool failed; /**< memory was short */
};

/** Fills a zero-initialised listing. Returns 0, APUS_ENOMEM or what the visits return; listing_fini()
 *  is due in any case. */
int listing_collect(struct apus_participant *participant, struct listing *listing);

/** Frees the copies. */
void listing_fini(struct listing *listing);

/** Number of endpoints from `first` on that have the topic of endpoint `first`. */
size_t listing_topic_length(const struct listing *listing, size_t first);

#endif
