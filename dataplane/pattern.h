/* SPDX-License-Identifier: Apache-2.0 */
/*
 * String patterns of filters (LIKE and MATCH) in compiled form, and matching them in bounded time.
 *
 * A pattern is a list of alternatives, an alternative a list of parts (the components between slashes of
 * a MATCH pattern; LIKE has one part), a part a list of segments between "any run" wildcards. A segment
 * is plain text, or elements of two bytes each where single characters vary. Since runs take whatever is
 * left, the leftmost place of each segment is always as good as a later one: there is no backtracking,
 * and matching costs the string's length times at most APUS_DP_WILD_MAX for each alternative.
 */
#ifndef APUS_DATAPLANE_PATTERN_H
#define APUS_DATAPLANE_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Elements of a segment with varying characters that is looked for behind a run. */
#define APUS_DP_WILD_MAX 64
/** Elements of any segment with varying characters. */
#define APUS_DP_WILD_LENGTH_MAX 8192

/** Elements: below this a character, this one any character, above a set (its index + this + 1). */
#define APUS_DP_ELEMENT_ANY 256
/** Bytes of one set of characters: a bit for each, the lowest of the first byte for character 0. */
#define APUS_DP_SET_BYTES 32

enum apus_dp_segment_flag {
	APUS_DP_SEGMENT_STAR = 1,     /**< a run of any characters may stand in front */
	APUS_DP_SEGMENT_WILD = 2,     /**< elements, then the sets they name; else plain text */
	APUS_DP_SEGMENT_PART_END = 4, /**< reaches to the end of its part */
	APUS_DP_SEGMENT_END = 8,      /**< last of its alternative; PART_END too */
	APUS_DP_SEGMENT_SLASHED = 16, /**< parts end at slashes (all segments of MATCH) */
};

/** One segment. */
struct apus_dp_segment {
	uint32_t at;     /**< where its text or elements begin, an offset into the program's data */
	uint32_t length; /**< characters it covers */
	uint32_t flags;  /**< enum apus_dp_segment_flag */
};

/**
 * True if a pattern that apus_dp_pattern_valid() accepted matches `text` as a whole. Does not allocate;
 * any thread.
 */
bool apus_dp_pattern_match(const uint8_t *data, const struct apus_dp_segment *segments,
			   uint32_t segment_count, const uint8_t *text, size_t text_bytes);

/** True if every offset lies within the `data_bytes` of data and every alternative and part ends. */
bool apus_dp_pattern_valid(const uint8_t *data, uint32_t data_bytes,
			   const struct apus_dp_segment *segments, uint32_t segment_count);

#endif
