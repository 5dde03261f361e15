/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building the index of many filters (dataplane/filter_index.h): which term of each filter stands for it,
 * and the tables. Control-plane work, O(N log N) in the filters and their listed values.
 */
#ifndef APUS_CONTROL_FILTER_INDEX_H
#define APUS_CONTROL_FILTER_INDEX_H

#include "control/filter.h"
#include "wire/access.h"

struct apus_dp_filter_index;
struct apus_dp_program;

/** What a term wants of its field. */
enum apus_ctl_filter_term_kind {
	APUS_CTL_TERM_NONE, /**< the filter has none: it is always evaluated */
	APUS_CTL_TERM_RANGE,
	APUS_CTL_TERM_NUMBERS,
	APUS_CTL_TERM_TEXTS,
};

/** A term without which a filter never passes; the most selective one. */
struct apus_ctl_filter_term {
	uint8_t kind;               /**< enum apus_ctl_filter_term_kind */
	uint8_t load, value_bits;   /**< as struct apus_dp_field */
	bool whole;                 /**< the filter says nothing else */
	uint16_t test;              /**< of the predicate: the values (NUMBERS, TEXTS) */
	uint64_t low, high;         /**< RANGE: keys, ends included */
	struct apus_wire_path path; /**< the field */
};

/**
 * Makes a predicate that is good for apus_dp_predicate_locate() only: it finds the fields of `count` terms, at
 * most APUS_DP_FIELDS_MAX. fields_out: the slot of each term's field. Returns 0, APUS_EFILTER if one walk cannot
 * find them all, APUS_ENOMEM.
 */
int apus_ctl_filter_compile_locator(const struct apus_type *type,
				    const struct apus_ctl_filter_term *const *terms, uint32_t count,
				    uint16_t *fields_out, struct apus_dp_predicate **predicate_out);

/** One filter of an index. */
struct apus_ctl_index_filter {
	const struct apus_dp_predicate *predicate;
	const struct apus_ctl_filter_term *term;
};

/**
 * Finds the term of a program whose targets are set. The field's index is left in `*field_out`; path, load
 * and value_bits are the caller's to fill in. Returns false if there is none.
 */
bool apus_ctl_filter_find_term(const struct apus_dp_program *program,
			       struct apus_ctl_filter_term *term_out, uint16_t *field_out);

/**
 * Builds an index over `count` filters of one type; ids are their places in `filters`, whose predicates it
 * borrows. Without a walk that finds all fields, everything is evaluated. Returns 0 with `*index_out` to be freed
 * with apus_ctl_filter_index_free(); APUS_ENOMEM.
 */
int apus_ctl_filter_index_build(const struct apus_type *type,
				const struct apus_ctl_index_filter *filters, uint32_t count,
				struct apus_dp_filter_index **index_out);

/** Frees an index; NULL is allowed. No thread may still use it. */
void apus_ctl_filter_index_free(struct apus_dp_filter_index *index);

#endif
