/* SPDX-License-Identifier: Apache-2.0 */
/* Type identity (XTypes TypeInformation and TypeMapping) of a type from a file at run time. */
#ifndef APUS_IDLC_IDENTITY_H
#define APUS_IDLC_IDENTITY_H

#include "types.h"

/**
 * Gives a topic type its type information, as `idlc` would generate it from the file. The front end's library
 * cannot make it, only the compiler can: it runs with its C back-end, and what it writes is read.
 * Where that fails the type stays without: it is then matched by its name. Starts a child process and uses a
 * directory of its own under TMPDIR.
 */
void idl_load_identity(const char *path, struct idl_type_node *node);

#endif
