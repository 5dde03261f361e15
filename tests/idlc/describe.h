/* SPDX-License-Identifier: Apache-2.0 */
/* Types in a form that the oracles in Python read. */
#ifndef TESTS_IDLC_DESCRIBE_H
#define TESTS_IDLC_DESCRIBE_H

#include <apus/type.h>

/** Prints a type as JSON on stdout, without a line end. */
void describe_type(const struct apus_type *type);

#endif
