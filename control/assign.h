/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assignability of types (XTypes 1.3 §7.2.4): may a reader of type T1 be given samples of type T2?
 *
 * Decided from TypeObjects alone, minimal or complete, under a reader's type consistency policy. Pure: what is
 * not known is reported, nothing is asked. Types may refer to each other in any way; the work is bounded by
 * limits on depth and on the pairs of types compared, and beyond them the answer is no.
 */
#ifndef APUS_CONTROL_ASSIGN_H
#define APUS_CONTROL_ASSIGN_H

#include <apus/qos.h>

#include "control/types.h"

/** Longest reason, with NUL. */
#define APUS_CTL_ASSIGN_WHY_BYTES 160

enum apus_ctl_assignability {
	APUS_CTL_NOT_ASSIGNABLE = 0,
	APUS_CTL_ASSIGNABLE = 1,
	APUS_CTL_TYPES_MISSING = 2 /**< some TypeObject that matters is not known */
};

/**
 * Compares two types by hash (of the same kind). reader: T1; writer: T2. why_out (may be NULL; else room for
 * APUS_CTL_ASSIGN_WHY_BYTES) receives the first rule that fails, with the ids of the members that lead there;
 * "" if none does. Allocates its scratch memory; without memory the answer is MISSING.
 */
enum apus_ctl_assignability apus_ctl_types_assignable(const struct apus_ctl_types *types,
						      const struct apus_wire_type_hash *reader,
						      const struct apus_wire_type_hash *writer,
						      const struct apus_type_consistency *policy,
						      char *why_out);

#endif
