/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans of keys (wire/key.h), shared: endpoints of one type have the same. They are immutable, so that whoever has
 * one reads it on any thread.
 */
#ifndef APUS_DATAPLANE_KEYPLAN_H
#define APUS_DATAPLANE_KEYPLAN_H

#include "wire/key.h"

/** A plan as apus_wire_keyplan_init() prepares it, to be released. Any thread. Returns errors of that, and
 *  APUS_ENOMEM. */
int apus_dp_keyplan_acquire(const struct apus_type *type, size_t limit_bytes,
			    const struct apus_wire_keyplan **plan_out);
/** The last one frees it. NULL is allowed. Any thread. */
void apus_dp_keyplan_release(const struct apus_wire_keyplan *plan);

#endif
