/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the record decoders share: the walk over a list and the readers of common values. Private to
 * wire/record_*.c.
 *
 * A decoder function for one parameter answers ACCEPT (used, or known and of no interest), SKIP (not
 * known) or MALFORMED.
 */
#ifndef APUS_WIRE_RECORD_WALK_H
#define APUS_WIRE_RECORD_WALK_H

#include "wire/plist.h"
#include "wire/record.h"

typedef enum apus_wire_verdict apus_wire_param_fn(void *context, uint16_t id,
						  struct apus_wire_value *value);

/**
 * Calls fn for each parameter, with the must-understand flag stripped from the id, and applies the
 * must-understand rule (RTPS 2.5 §9.6.3.1). ACCEPT if the whole list was walked up to its sentinel,
 * nothing was malformed and nothing refused.
 */
enum apus_wire_verdict apus_wire_record_walk(const uint8_t *payload, size_t payload_bytes,
					     apus_wire_param_fn *fn, void *context);

/** Reads a GUID; *guid_out is untouched if the value is too short. */
void apus_wire_record_guid(struct apus_wire_value *value, struct apus_guid *guid_out);

/** True for GUIDPREFIX_UNKNOWN. */
bool apus_wire_prefix_is_unknown(const struct apus_guid *guid);

/** True for a known prefix with ENTITYID_PARTICIPANT. */
bool apus_wire_is_participant_guid(const struct apus_guid *guid);

/** Appends a locator one could send to, counts any other. */
enum apus_wire_verdict apus_wire_record_locator(struct apus_wire_value *value,
						struct apus_wire_locators *list);

static inline enum apus_wire_verdict apus_wire_accept_if(bool condition)
{
	return condition ? APUS_WIRE_ACCEPT : APUS_WIRE_MALFORMED;
}

#endif
