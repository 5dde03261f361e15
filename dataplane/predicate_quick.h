/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The short form of a predicate, for the frequent case that its fields stand at fixed places of a flat type
 * before, in or behind one string, and its tests are intervals and equalities with short texts. It has the
 * verdicts of the program it was made from, malformed payloads included, in about a third of the instructions.
 *
 * The brief form is for the most frequent of those: all tests must hold, none asks for more than whether an
 * integer of 32 bits lies in an interval or a string is a certain short one. It stands in the head of the
 * predicate, without offsets to follow, and says nothing of payloads in which it finds anything unusual.
 *
 * Of predicate.c alone.
 */
#ifndef APUS_DATAPLANE_PREDICATE_QUICK_H
#define APUS_DATAPLANE_PREDICATE_QUICK_H

#include <string.h>

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

/** Numbers that a brief form looks at, at most. */
#define APUS_DP_BRIEF_NUMBERS 4

struct apus_dp_brief {
	uint32_t encapsulation; /* first word of a payload, masked; no brief form: what none is */
	uint32_t least_bytes;   /* of a payload */
	uint32_t head_bytes, tail_bytes, tail_mask; /* as above */
	uint32_t string_limit; /* its bytes without NUL stay below; 0: no string */
	uint32_t text_bytes;   /* with NUL; 0: nobody looks at the string */
	uint16_t number_count;
	bool behind;   /* the numbers are behind the string */
	uint64_t text; /* in the upper bytes, the others all ones */
	struct {
		uint32_t offset, low, span;
	} number[APUS_DP_BRIEF_NUMBERS];
};

/** Makes the brief form of a short one for payloads that begin with `encapsulation` (0: there are none). If there
 *  is none it becomes one that never speaks. quick: NULL if there is no short form. */
void apus_dp_brief_make(const struct apus_dp_quick *quick, uint16_t encapsulation,
			struct apus_dp_brief *brief_out);

/** The bits of a payload's first word that are its encapsulation and padding, on little-endian machines. */
#define APUS_DP_BRIEF_MASK UINT32_C(0x0300ffff)

/** True if the text of `length` bytes with its NUL, at most 8, ends in the only one; `word` has them in its upper
 *  bytes, and ones below. */
static inline bool apus_dp_brief_ends(uint64_t word)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);

	/* The lowest bit set is right; those above may be set by a borrow. */
	return ((word - ones) & ~word & ones << 7) == UINT64_C(1) << 63;
}

/** Evaluates it over a whole payload. False: the payload is for another form. */
static inline bool apus_dp_brief_eval(const struct apus_dp_brief *b, const uint8_t *payload,
				      uint64_t payload_bytes, enum apus_dp_verdict *verdict_out)
{
	const uint8_t *bytes = payload + 4;
	uint64_t at = b->head_bytes, word;
	uint32_t length, value;

	if (payload_bytes - b->least_bytes > INT32_MAX / 2)
		return false;
	memcpy(&value, payload, sizeof(value));
	if ((value & APUS_DP_BRIEF_MASK) != b->encapsulation)
		return false;
	if (b->string_limit) {
		const uint8_t *text = bytes + at;

		memcpy(&length, text - 4, sizeof(length));
		at = (at + length + b->tail_mask) & ~(uint64_t)b->tail_mask;
		if (length - 1 >= b->string_limit || at + b->tail_bytes > payload_bytes - 4)
			return false;
		if (!b->text_bytes) {
			if (text[length - 1])
				return false;
		} else {
			if (length > 8)
				return false;
			/* At least eight bytes stand in front of the end. */
			memcpy(&word, text + length - 8, sizeof(word));
			word |= UINT64_MAX >> (8 * (length - 1)) >> 8;
			if (word != b->text || length != b->text_bytes) {
				*verdict_out = APUS_DP_REJECT;
				return apus_dp_brief_ends(word);
			}
		}
		bytes += b->behind ? at : 0;
	}
	for (uint32_t i = 0; i < b->number_count; i++) {
		memcpy(&value, bytes + b->number[i].offset, sizeof(value));
		if (value - b->number[i].low > b->number[i].span) {
			*verdict_out = APUS_DP_REJECT;
			return true;
		}
	}
	*verdict_out = APUS_DP_PASS;
	return true;
}

#endif
