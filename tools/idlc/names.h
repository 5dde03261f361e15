/* SPDX-License-Identifier: Apache-2.0 */
/* Small helpers of the IDL code. What they allocate is kept until idl_free_all(). One thread. */
#ifndef APUS_IDLC_NAMES_H
#define APUS_IDLC_NAMES_H

#include <stdarg.h>
#include <stddef.h>

/** Zeroed memory; ends the process if there is none. */
void *idl_zalloc(size_t bytes);

/** Formatted text. */
__attribute__((format(printf, 1, 2))) char *idl_printf(const char *format, ...);

/** Frees everything the helpers gave, and with it all types built. */
void idl_free_all(void);

/** A declaration's name behind those of its modules. */
char *idl_scoped_text(const void *node, const char *separator);

/** A path that no command takes for an option. Freed by idl_free_all(), or `path` itself. */
const char *idl_safe_path(const char *path);

#endif
