/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The totals behind every status of one endpoint, in the places a cursor keeps them: struct apus_observer is an
 * array of what was seen, and a kind of status is a range of places. So looking, comparing and moving a cursor
 * are the same three lines for all.
 */
#ifndef APUS_DATAPLANE_OBSERVE_H
#define APUS_DATAPLANE_OBSERVE_H

#include <apus/status.h>

#include "dataplane/entity.h"

/** Places in apus_observer.seen. */
enum apus_dp_place {
	APUS_DP_AT_CURRENT = 0,
	APUS_DP_AT_MATCHED,
	APUS_DP_AT_TRANSITIONS,
	APUS_DP_AT_INCOMPATIBLE,
	APUS_DP_AT_INCONSISTENT,
	APUS_DP_AT_DEADLINE,
	APUS_DP_AT_LIVELINESS_LOST,
	APUS_DP_AT_ALIVE,
	APUS_DP_AT_NOT_ALIVE,
	APUS_DP_AT_LOSSES,
	APUS_DP_AT_LOST,
	APUS_DP_AT_REJECTED,
	APUS_DP_AT_AVAILABLE,
	APUS_DP_AT_NEWS,
	APUS_DP_PLACES
};

/** The totals of the statuses in `mask`; takes the turn if one of them needs it. */
void apus_dp_writer_totals(struct apus_writer *writer, uint32_t mask,
			   uint64_t totals_out[APUS_DP_PLACES]);
void apus_dp_reader_totals(struct apus_reader *reader, uint32_t mask,
			   uint64_t totals_out[APUS_DP_PLACES]);
/** Which kinds of `mask` differ between totals and cursor. */
uint32_t apus_dp_differing(const uint64_t totals[APUS_DP_PLACES],
			   const struct apus_observer *observer, uint32_t mask);

#endif
