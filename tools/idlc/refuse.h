/* SPDX-License-Identifier: Apache-2.0 */
/* Saying no: errors of the IDL code, with file, line and name. */
#ifndef APUS_IDLC_REFUSE_H
#define APUS_IDLC_REFUSE_H

#include "types.h"

/** Reports that `node` cannot be had, and why; marks the build as failed. */
void idl_refuse(struct idl_types *types, const void *node, const char *why);

/**
 * Checks the annotations of a declaration or member: those without effect on Apus that would change
 * what a program sees are refused, value ranges (which nobody enforces) warned about.
 * Returns false after an error.
 */
bool idl_annotations_known(struct idl_types *types, const void *node);

#endif
