/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words of the command line as numbers and durations, and back. Pure functions, no allocation.
 *
 * A text is taken as a whole or not at all: no leading blanks, no trailing characters, no silent
 * overflow or rounding. Outputs are written on success only.
 */
#ifndef APUS_TOOLS_TEXT_H
#define APUS_TOOLS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Room for the longest text duration_to_text() writes, NUL included. */
#define DURATION_TEXT_BYTES 32

/** Reads a decimal integer, with "-" if negative, that lies in min…max. */
bool text_to_number(const char *text, int64_t min, int64_t max, int64_t *value_out);

/** Reads a decimal number of seconds, "2" or "0.25", with at most nine decimals, as nanoseconds. */
bool text_to_seconds(const char *text, int64_t *ns_out);

/** Reads a duration with its unit (ns us ms s min h; decimals allowed), or "inf" for
 *  APUS_INFINITE_NS. */
bool text_to_duration(const char *text, int64_t *ns_out);

/** Writes a duration in the largest unit that divides it ("100ms", "0s", "inf"), so that
 *  text_to_duration() reads the same value back. Returns text_out. */
const char *duration_to_text(int64_t ns, char text_out[DURATION_TEXT_BYTES]);

/** True if two words differ by no more than two mistakes of typing (one for words of up to four
 *  letters): a letter more, less, or another. For "did you mean". */
bool words_are_near(const char *a, const char *b);

#endif
