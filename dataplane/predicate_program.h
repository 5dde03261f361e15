/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The form of a compiled predicate, for those who make one (control/filter_compile.c, tests). It is
 * part of the seam between the planes: predicates are what snapshots carry. Evaluation knows nothing
 * of the language.
 *
 * A program is three flat lists: walks that locate the fields in the CDR bytes (one for each of XCDR1
 * and XCDR2), fields that say how to load them, and tests. Every test names the test to do next if it
 * holds, if it does not, and if a field is absent, always a later one, or an end: AND, OR and NOT are
 * only targets, and evaluation does each test at most once.
 *
 * Numbers are tested as *ordered keys*: an unsigned 64-bit image with the same order as the values.
 * Signed integers flip the sign bit; floats are widened to double without loss and their bits made
 * monotonic, which puts NaN outside every range of numbers. Any comparison with constants is thus one
 * interval test, exact over all 64 bits, and free of floating-point modes (a program that runs with
 * denormals flushed to zero gets the same answers).
 */
#ifndef APUS_DATAPLANE_PREDICATE_PROGRAM_H
#define APUS_DATAPLANE_PREDICATE_PROGRAM_H

#include "dataplane/pattern.h"
#include "dataplane/predicate.h"
#include "wire/access.h"

/** Different fields one program may use: bounds the evaluator's stack (24 bytes each). */
#define APUS_DP_FIELDS_MAX APUS_WIRE_WALK_FIELDS
/** Tests of one program; indices must stay below the ends. */
#define APUS_DP_TESTS_MAX 4096

/** Ends of evaluation, in place of the index of a test. */
#define APUS_DP_TO_PASS   UINT16_MAX
#define APUS_DP_TO_REJECT (UINT16_MAX - 1)

/** How a field is read from the payload. */
enum apus_dp_load {
	APUS_DP_U8,
	APUS_DP_U16,
	APUS_DP_U32,
	APUS_DP_U64,
	APUS_DP_S8,
	APUS_DP_S16,
	APUS_DP_S32,
	APUS_DP_S64,
	APUS_DP_F32,
	APUS_DP_F64,
	APUS_DP_STRING,
};

/** One field the program uses; its index is its slot. */
struct apus_dp_field {
	uint8_t load;       /**< enum apus_dp_load */
	uint8_t value_bits; /**< unsigned loads: more bits set is malformed (BOOL 1, BITMASK its bound);
			     *   0 = no such rule */
};

enum apus_dp_test_op {
	APUS_DP_RANGE,   /**< key(field) in [low, low + span] */
	APUS_DP_NUMBERS, /**< field against field_b, exactly, whatever their kinds */
	APUS_DP_TEXT,    /**< string field against the `span` bytes at text offset `low` */
	APUS_DP_STRINGS, /**< string field against string field_b */
	APUS_DP_PRESENT, /**< the sample has the field */
	APUS_DP_SET,     /**< key(field) is one of the `span` ascending keys at data offset `low` */
	APUS_DP_TEXTS, /**< string field is one of the `span` ascending texts at data offset `low` */
	APUS_DP_PATTERN, /**< string field matches the pattern of `span` segments at data offset `low` */
};

/** One text of a TEXTS list: bytes of the program's text. */
struct apus_dp_text {
	uint32_t at, length;
};

/** Outcomes of a three-way comparison that make NUMBERS, TEXT and STRINGS hold. NaN has none. */
#define APUS_DP_LESS    1
#define APUS_DP_EQUAL   2
#define APUS_DP_GREATER 4

/** One test. Negation and `<>` are made by swapping the targets. */
struct apus_dp_test {
	uint8_t op;     /**< enum apus_dp_test_op */
	uint8_t accept; /**< APUS_DP_LESS | … */
	uint16_t field, field_b;
	uint16_t on_true, on_false; /**< a later test, or APUS_DP_TO_… */
	uint16_t on_absent;         /**< where it leads if the sample lacks a field; 0: to REJECT */
	uint8_t load;               /**< of `field`; filled in by apus_dp_predicate_assemble() */
	uint64_t low, span;
};

/** A program in parts, as its maker holds it. */
struct apus_dp_program {
	uint8_t extensibility; /**< of the type, which decides the encapsulations (XTypes 1.3 §7.6.3.1.2) */
	const struct apus_dp_field *fields;
	uint32_t field_count;
	const struct apus_dp_test *tests;
	uint32_t test_count;
	const struct apus_wire_step *steps[2]; /**< [0] XCDR1, [1] XCDR2 */
	uint32_t step_count[2];
	const char *text; /**< the string constants, one after another */
	uint32_t text_bytes;
	const uint8_t *data; /**< sets, lists and patterns, each at a multiple of 8 */
	uint32_t data_bytes;
};

/** Ordered key of a signed integer. */
static inline uint64_t apus_dp_key_signed(int64_t value)
{
	return (uint64_t)value ^ UINT64_C(1) << 63;
}

/** Ordered key of a double given by its bits. -0 is just below +0: ranges include both or neither. */
static inline uint64_t apus_dp_key_double(uint64_t bits)
{
	return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

/**
 * Bits of the double that equals a float given by its bits. In integers, because the processor's own
 * conversion loses denormals when the application runs with them flushed to zero.
 */
static inline uint64_t apus_dp_double_bits(uint32_t bits)
{
	uint64_t sign = (uint64_t)(bits >> 31) << 63;
	uint32_t exponent = bits >> 23 & 0xff;
	uint32_t mantissa = bits & 0x7fffff;
	uint32_t shift;

	if (exponent == 0xff)
		return sign | UINT64_C(0x7ff) << 52 | (uint64_t)mantissa << 29;
	if (exponent > 0)
		return sign | (uint64_t)(exponent + 1023 - 127) << 52 | (uint64_t)mantissa << 29;
	if (mantissa == 0)
		return sign;
	shift = (uint32_t)__builtin_clz(mantissa) - 8;
	mantissa = mantissa << shift & 0x7fffff;
	return sign | (uint64_t)(1023 - 126 - shift) << 52 | (uint64_t)mantissa << 29;
}

/** Stands for every integer part of 2^66 and more: beyond all integer fields. */
#define APUS_DP_FAR ((__int128)1 << 66)

/**
 * Splits a double that is not NaN, given by its bits, into the greatest integer not above it (±2^66 and
 * beyond, infinities included: ±APUS_DP_FAR) and whether it lies above that integer. Pure.
 */
void apus_dp_split_double(uint64_t bits, __int128 *floor_out, bool *fraction_out);

/**
 * Bytes of the block that apus_dp_predicate_assemble() fills, or 0 if the program breaks an invariant
 * (counts, a target that does not lead forward, a field, text or step out of range).
 */
size_t apus_dp_predicate_bytes(const struct apus_dp_program *program);

/**
 * Copies a program that apus_dp_predicate_bytes() accepted into `block`, aligned to 8 and that large.
 * Returns the predicate, which is the block; it refers to the type descriptors its walks were built from.
 */
struct apus_dp_predicate *apus_dp_predicate_assemble(const struct apus_dp_program *program,
						     void *block);

/**
 * Finds a predicate's fields in a payload, as an evaluation would. Returns false if that would be an error.
 * slots_out: room for all its fields. swap_out: their byte order is not this machine's. Any thread.
 */
bool apus_dp_predicate_locate(const struct apus_dp_predicate *predicate, const uint8_t *payload,
			      size_t payload_bytes, struct apus_wire_slot *slots_out,
			      bool *swap_out);

/** Ordered key of a numeric field that was located. */
uint64_t apus_dp_predicate_key(uint8_t load, const uint8_t *bytes, bool swap);

/** The tests of a predicate, and what `low` of TEXT, and of SET, TEXTS and PATTERN, are offsets into. */
const struct apus_dp_test *apus_dp_predicate_tests(const struct apus_dp_predicate *predicate,
						   uint32_t *count_out);
const uint8_t *apus_dp_predicate_data(const struct apus_dp_predicate *predicate);
const char *apus_dp_predicate_text(const struct apus_dp_predicate *predicate);

#endif
