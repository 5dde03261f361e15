/* SPDX-License-Identifier: Apache-2.0 */
/* Names that differ in IDL and not in C. */
#ifndef APUS_IDLC_CLASHES_H
#define APUS_IDLC_CLASHES_H

#include "types.h"

/**
 * Looks at what the header will declare: `a::b_c` and `a_b::c` are both `a_b_c` in C, and a constant, which
 * becomes a macro, replaces a member of its name. Returns false after reporting the first clash, at the later
 * declaration. types: built without an error. The cost is that of sorting all names.
 */
bool idl_names_distinct(struct idl_types *types);

#endif
