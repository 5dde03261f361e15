/* SPDX-License-Identifier: Apache-2.0 */
/* Types from an IDL file at run time, for tools that learn their type on the command line. */
#ifndef APUS_IDLC_LOAD_H
#define APUS_IDLC_LOAD_H

#include <apus/type.h>

/**
 * Compiles an IDL file and finds a struct in it.
 *
 * path: the file; its preprocessor directives work if `idlc` is installed.
 * name: the type's registered name ("m::T"); NULL takes the only topic type (struct that is not
 * @nested) of the file itself.
 * error: one line on failure; always terminated. What the front end has to say about the file goes
 * to standard error before that, with file and line.
 * Returns a descriptor that lives until the next call, NULL on failure. Starts a child process;
 * call it before threads exist.
 */
const struct apus_type *idl_load(const char *path, const char *name, char *error,
				 size_t error_bytes);

#endif
