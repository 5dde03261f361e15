/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sample's inline QoS says of it beside key and state: the coherent set it belongs to, its place among
 * its publisher's changes, the sample it answers. Both halves of the data plane keep it with the sample.
 */
#ifndef APUS_DATAPLANE_MARKS_H
#define APUS_DATAPLANE_MARKS_H

#include "wire/message.h"

/** All zero: nothing was said. Numbers from the wire are untrusted, and only ever compared. */
struct apus_dp_marks {
	apus_seq coherent_seq;       /* the set's first number; APUS_WIRE_SEQ_UNKNOWN: a set ends */
	apus_seq group_coherent_seq; /* the set's first number in its publisher's count */
	apus_seq group_seq;          /* this change's number in that count */
	struct apus_guid related_writer; /* valid if related_seq */
	apus_seq related_seq;
};

/** As received, into marks that are all zero: most samples say nothing, and then nothing is written. */
static inline void apus_dp_marks_read(const struct apus_wire_inline_qos *qos,
				      struct apus_dp_marks *marks)
{
	if (!qos->list)
		return;
	marks->coherent_seq = qos->coherent_seq;
	marks->group_coherent_seq = qos->group_coherent_seq;
	marks->group_seq = qos->group_seq;
	if (qos->has_related && qos->related_seq > 0) {
		marks->related_writer = qos->related_guid;
		marks->related_seq = qos->related_seq;
	}
}

/** True if there is something to say. */
static inline bool apus_dp_marks_any(const struct apus_dp_marks *marks)
{
	return marks->coherent_seq || marks->group_seq || marks->related_seq;
}

/** As sent: adds them to inline QoS. `marks` must live as long as *qos. */
static inline void apus_dp_marks_put(const struct apus_dp_marks *marks,
				     struct apus_wire_inline_out *qos)
{
	qos->coherent_seq = marks->coherent_seq;
	qos->group_coherent_seq = marks->group_coherent_seq;
	qos->group_seq = marks->group_seq;
	if (marks->related_seq) {
		qos->related_guid = &marks->related_writer;
		qos->related_seq = marks->related_seq;
	}
}

/** A DATA without payload and without a change of state that ends a coherent set. */
static inline bool apus_dp_marks_end(const struct apus_dp_marks *marks)
{
	return marks->coherent_seq == APUS_WIRE_SEQ_UNKNOWN;
}

#endif
