/* SPDX-License-Identifier: Apache-2.0 */
/* Printing built types as C: a header for programs, a source file with the descriptors. */
#ifndef APUS_IDLC_PRINT_H
#define APUS_IDLC_PRINT_H

#include "types.h"
#include <idlc/generator.h>
#include <stdio.h>

/** Writes the header. guard: a C identifier made of the file's name. */
void idl_print_header(FILE *out, struct idl_types *types, const char *guard);

/**
 * Writes the source file. header: name to include.
 * Returns false if the type information of some type cannot be had.
 */
bool idl_print_source(FILE *out, struct idl_types *types, const char *header,
		      const idlc_generator_config_t *config);

/** Writes text as a C string literal. */
void idl_print_text(FILE *out, const char *text);

/** The C type of a value, as text around a name: before and behind it. */
struct idl_c_type {
	const char *before, *behind;
};
struct idl_c_type idl_c_type(const struct apus_type *type);

#endif
