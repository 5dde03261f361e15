/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The short form of a predicate, for the frequent case that its fields stand at fixed places of a flat type
 * before, in or behind one string, and its tests are intervals and equalities with short texts. It has the
 * verdicts of the program it was made from, malformed payloads included, in about a third of the instructions.
 *
 * Of predicate.c alone.
 */
#ifndef APUS_DATAPLANE_PREDICATE_QUICK_H
#define APUS_DATAPLANE_PREDICATE_QUICK_H

#include "dataplane/predicate_program.h"

/** Tests that a short form has at most. */
#define APUS_DP_QUICK_TESTS 16

/** One test; targets as in struct apus_dp_test. */
struct apus_dp_quick_test {
	uint8_t op;     /* enum in predicate_quick.c */
	uint8_t load;   /* enum apus_dp_load */
	uint8_t behind; /* 1: `offset` counts from what is behind the string */
	uint8_t text_bits;
	uint16_t on_true, on_false;
	uint32_t offset;
	uint64_t low, span; /* TEXT: the text in the upper bytes of `low`, its length in `span` */
};

struct apus_dp_quick {
	uint32_t head_bytes;   /* before the string's characters, or all that is needed */
	uint32_t tail_bytes;   /* needed behind the string */
	uint32_t string_bound; /* 0: none */
	bool has_string;
	bool looks_at_string; /* it is a field */
	uint8_t tail_mask;    /* alignment of what is behind */
	uint8_t test_count;
	struct apus_dp_quick_test test[APUS_DP_QUICK_TESTS];
};

/** Makes the short form of a program for one encoding (0: XCDR1, 1: XCDR2). False if it has none. */
bool apus_dp_quick_make(const struct apus_dp_program *program, int encoding,
			struct apus_dp_quick *quick_out);
/** Evaluates it over `bytes` bytes behind an encapsulation header of this machine's byte order. */
enum apus_dp_verdict apus_dp_quick_eval(const struct apus_dp_quick *quick, const uint8_t *bytes,
					uint64_t byte_count);

#endif
