/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples as JSON and back, driven by the type descriptor alone.
 *
 * The JSON form of a value:
 *   integers        numbers, exact over the whole 64-bit range
 *   floats          numbers; what JSON has none for as strings "NaN", "Infinity", "-Infinity"
 *   BOOL            true or false and nothing else
 *   CHAR            a string of one character up to U+00FF
 *   STRING          a string; bytes that are no UTF-8 print as U+FFFD
 *   ENUM            its label (reading accepts the number of a label too)
 *   BITMASK         an array of labels, or a number if some set bit has none (reading accepts both)
 *   STRUCT          an object with every member, no others; absent optional members are left out
 *                   (reading takes null as absent too)
 *   UNION           an object with "$discriminator" and the selected member, if any; reading needs the
 *                   discriminator only where the member's name does not tell it
 *   ARRAY, SEQUENCE an array; of OCTET: a base64 string (reading accepts an array of numbers too)
 */
#ifndef APUS_TOOLS_JSON_H
#define APUS_TOOLS_JSON_H

#include <apus/type.h>

/** Name of a union's discriminator in JSON; no IDL identifier can be the same. */
#define JSON_DISCRIMINATOR "$discriminator"

/**
 * Parses one JSON object into `*sample` (type->size_bytes large; unused parts become zero).
 * Unbounded strings and sequences are placed in `arena`.
 *
 * key_only: only key members are required; the others may be there and are ignored.
 * error: receives, on failure, one line that names the place ("in.p: 3000000000 out of range for
 * int32"); always terminated, may be cut off. error_bytes at least 1.
 * Returns the arena bytes used (0 or more), APUS_EINVAL (the text is no JSON or does not fit the
 * type) or APUS_ELIMIT (arena too small). On failure `*sample` is all zero. Allocates while it
 * works.
 */
int json_to_sample(const struct apus_type *type, const char *text, bool key_only, void *sample,
		   void *arena, size_t arena_bytes, char *error, size_t error_bytes);

/**
 * Prints a sample as one JSON object on one line, without a newline, NUL-terminated.
 *
 * key_only: print only the key members.
 * Returns the length without the NUL, or APUS_ELIMIT if `out_bytes` is too small. Does not
 * allocate.
 */
int sample_to_json(const struct apus_type *type, const void *sample, bool key_only, char *out,
		   size_t out_bytes);

/**
 * Prints text as a JSON string with its quotation marks, NUL-terminated; for the fields tools add
 * around a sample. Same results as sample_to_json().
 */
int text_to_json(const char *text, char *out, size_t out_bytes);

#endif
