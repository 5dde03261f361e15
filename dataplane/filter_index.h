/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many filters over one type, indexed: which of them a sample passes, without evaluating each.
 *
 * Every filter that has a term which must hold for it to pass (an equality, a list, an interval of one
 * field) stands in one column of the index: a hash table for values, a tree of intervals for ranges. A
 * sample looks up its own value in each column; only the filters found there, and those without such a
 * term, are evaluated. The index is a filter before filters, so the verdict is always the predicate's; a filter
 * that is nothing but its term is not evaluated again.
 *
 * An index is one immutable block, made by control and carried by snapshots like predicates.
 */
#ifndef APUS_DATAPLANE_FILTER_INDEX_H
#define APUS_DATAPLANE_FILTER_INDEX_H

#include "dataplane/predicate.h"

/** Marks the id of a filter that is nothing but its term: who is found has passed. */
#define APUS_DP_INDEX_WHOLE (UINT32_C(1) << 31)

/** One value of a hash column: filters ids[first … first + count), or `first` itself if it is one. count 0: an
 *  empty place. */
struct apus_dp_index_value {
	uint64_t key; /* ordered key of a number, hash of a text */
	uint32_t first, count;
	uint32_t text_at, text_bytes; /* the text */
};

/** One interval of a range column, ends included. The array is sorted by `low`; seen as a balanced tree
 *  (the middle of a part is its root), `max` is the largest `high` of the part. */
struct apus_dp_index_interval {
	uint64_t low, high, max;
	uint32_t filter; /* with mark */
};

enum apus_dp_index_kind { APUS_DP_INDEX_NUMBERS, APUS_DP_INDEX_TEXTS, APUS_DP_INDEX_RANGES };

/** One column: a field, and what filters want of it. */
struct apus_dp_index_column {
	uint16_t slot;  /* of the locator */
	uint8_t kind;   /* enum apus_dp_index_kind */
	uint8_t load;   /* enum apus_dp_load */
	uint32_t count; /* places of `values` (a power of two), or intervals */
	const struct apus_dp_index_value *values;
	const uint32_t *ids; /* with marks */
	const char *texts;
	const struct apus_dp_index_interval *intervals;
	const uint64_t *lows; /* intervals without overlap: their `low`; else NULL */
};

/** The whole. Pointers lead into the block or to predicates that live at least as long. */
struct apus_dp_filter_index {
	uint32_t filter_count, column_count, rest_count;
	const struct apus_dp_predicate *const *filters; /* by id */
	const uint32_t *rest;                           /* ids of those no column has */
	const struct apus_dp_predicate
		*locator; /* finds the columns' fields; NULL without columns */
	struct apus_dp_index_column columns[];
};

/**
 * Writes the ids of the filters a sample passes to `passed_out`, which has room for all, in no order, each
 * once. A filter that cannot be evaluated over the sample counts as passed: whoever it is for decides; then
 * `*unsure_out` becomes true (NULL: not wanted).
 * Returns their number. Does not allocate; any thread. Cost: a look-up a column and an evaluation for each
 * filter found.
 */
uint32_t apus_dp_filter_index_match(const struct apus_dp_filter_index *index,
				    const uint8_t *payload, size_t payload_bytes,
				    uint32_t *passed_out, bool *unsure_out);

/** Texts of up to so many bytes are equal where their lengths and hashes are. */
#define APUS_DP_INDEX_EXACT_BYTES 8
/** Hash of a text as hash columns hold it. */
uint64_t apus_dp_index_hash(const void *text, size_t bytes);
/** The first place a key can have in a table of `count` places; the following ones are tried in turn. */
static inline uint32_t apus_dp_index_place(uint64_t key, uint32_t count)
{
	return (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (count - 1);
}

#endif
