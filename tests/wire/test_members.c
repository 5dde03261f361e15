/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: mutable structs, optional and external members, unions and defaults are read as XTypes has
 * them, and nothing else is taken for one.
 * Method: hand-made payloads with known bytes; older and newer versions of a type read from each
 * other; headers that lie. Agreement with Cyclone over many shapes is tested in tests/idlc.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include "zoo.h"
#include "wire/cdr.h"
#include "wire/key.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct apus_label tone_labels[] = {{"LOW", 1}, {"MID", 5}, {"HIGH", 9}};
static const struct apus_type tone_type = {.name = "Tone",
					   .kind = APUS_KIND_ENUM,
					   .bit_bound = 8,
					   .size_bytes = 1,
					   .align_bytes = 1,
					   .labels = tone_labels,
					   .label_count = 3,
					   .default_label = 1};

/* @final union Pick switch(long) { case 1: case 2: double d; case 7: string s; default: octet o; }; */
struct pick {
	int32_t _d;
	union {
		double d;
		char *s;
		uint8_t o;
	} _u;
};
static const int64_t pick_d[] = {1, 2}, pick_s[] = {7};
static const struct apus_member pick_members[] = {
	{.name = "d",
	 .type = &apus_type_float64,
	 .offset_bytes = 8,
	 .id = 1,
	 .case_count = 2,
	 .cases = pick_d},
	{.name = "s",
	 .type = &apus_type_string,
	 .offset_bytes = 8,
	 .id = 2,
	 .case_count = 1,
	 .cases = pick_s},
	{.name = "o", .type = &apus_type_octet, .offset_bytes = 8, .id = 3, .is_default = true},
};
static const struct apus_type pick_type = {.name = "Pick",
					   .kind = APUS_KIND_UNION,
					   .size_bytes = sizeof(struct pick),
					   .align_bytes = 8,
					   .element = &apus_type_int32,
					   .members = pick_members,
					   .member_count = 3};

/* @mutable struct Rich { @id(9) @key long k; @id(2) @optional double d; @id(20000) @optional string s;
 *   @id(4) @external Pick p; @id(1) @default(42) short n; @id(5) @default_literal Tone t; }; */
struct rich {
	int32_t k;
	double *d;
	char *s;
	struct pick *p;
	int16_t n;
	int8_t t;
};
static const int16_t rich_n = 42;
#define M(field, type_, id_, ...)                                                            \
	{                                                                                    \
		.name = #field, .type = type_, .offset_bytes = offsetof(struct rich, field), \
		.id = id_, __VA_ARGS__                                                       \
	}
static const struct apus_member rich_members[] = {
	M(k, &apus_type_int32, 9, .key = true),
	M(d, &apus_type_float64, 2, .optional = true),
	M(s, &apus_type_string, 20000, .optional = true),
	M(p, &pick_type, 4, .external = true),
	M(n, &apus_type_int16, 1, .default_value = &rich_n),
	M(t, &tone_type, 5, .must_understand = true),
};
#define RICH(extensibility_, count)                                                           \
	{                                                                                     \
		.name = "Rich", .kind = APUS_KIND_STRUCT, .extensibility = extensibility_,    \
		.size_bytes = sizeof(struct rich), .align_bytes = 8, .members = rich_members, \
		.member_count = count                                                         \
	}
static const struct apus_type rich_mutable = RICH(APUS_MUTABLE, 6);
static const struct apus_type rich_without_tone = RICH(APUS_MUTABLE, 5);
static const struct apus_type rich_appendable = RICH(APUS_APPENDABLE, 6);
static const struct apus_type rich_only_key = RICH(APUS_APPENDABLE, 1);
static const struct apus_type rich_final = RICH(APUS_FINAL, 6);

static _Alignas(16) uint8_t arena[4096];

static int decode(const struct apus_type *type, const char *hex, struct rich *out)
{
	uint8_t bytes[512], *exact;
	size_t n = zoo_hex(hex, bytes);
	int rc;

	exact = malloc(n ? n : 1);
	memcpy(exact, bytes, n);
	memset(out, 0xee, sizeof(*out));
	rc = apus_type_decode(type, exact, n, false, out, arena, sizeof(arena));
	free(exact);
	return rc;
}

static void expect_bytes(const struct apus_type *type, const struct rich *sample,
			 int representation, const char *hex)
{
	uint8_t want[512], got[512];
	size_t n = zoo_hex(hex, want);

	assert_int_equal(apus_type_encode(type, sample, representation, false, got, sizeof(got)),
			 n);
	assert_memory_equal(got, want, n);
	for (size_t room = 0; room < n; room++)
		assert_int_equal(apus_type_encode(type, sample, representation, false, got, room),
				 APUS_ELIMIT);
}

static void descriptors_are_good(void **state)
{
	(void)state;
	assert_int_equal(apus_type_check(&rich_mutable), 0);
	assert_int_equal(apus_type_check(&rich_appendable), 0);
	assert_int_equal(apus_type_check(&rich_final), 0);
}

#define PL_CDR_BYTES                                              \
	"00030000"                                                \
	"09400400"                                                \
	"07000000"                                                \
	"02000800"                                                \
	"000000000000f83f" /* aligned to the value's own start */ \
	"013f0800"                                                \
	"204e0000"                                                \
	"07000000"                                                \
	"03000000"                                                \
	"686900"                                                  \
	"00" /* id above 0x3f00: extended */                      \
	"04001000"                                                \
	"02000000"                                                \
	"00000000"                                                \
	"0000000000000440"                                        \
	"01000200"                                                \
	"0500"                                                    \
	"0000"                                                    \
	"05400100"                                                \
	"09"                                                      \
	"000000"                                                  \
	"023f0000"

static void mutable_bytes(void **state)
{
	double d = 1.5;
	struct pick p = {._d = 2, ._u.d = 2.5};
	struct rich sample = {.k = 7, .d = &d, .s = "hi", .p = &p, .n = 5, .t = 9}, back;

	(void)state;
	/* The DHEADER counts to the last value's end; three bytes of padding are declared. */
	expect_bytes(&rich_mutable, &sample, APUS_XCDR2,
		     "000b0003"
		     "41000000"
		     "090000a007000000"
		     "02000030000000000000f83f"
		     "204e0050030000006869000004000040"
		     "0c000000020000000000000000000440"
		     "0100001005000000"
		     "0500008009000000");
	expect_bytes(&rich_mutable, &sample, APUS_XCDR1, PL_CDR_BYTES);
	assert_true(decode(&rich_mutable, PL_CDR_BYTES, &back) > 0);
	assert_int_equal(back.k, 7);
	assert_true(*back.d == 1.5 && back.p->_d == 2 && back.p->_u.d == 2.5);
	assert_string_equal(back.s, "hi");
	assert_int_equal(back.n, 5);
	assert_int_equal(back.t, 9);
}

static void members_come_in_any_order(void **state)
{
	struct rich back;

	(void)state;
	assert_true(decode(&rich_mutable,
			   "000b0000"
			   "20000000"
			   "0100001005000000"                 /* n */
			   "0400004005000000ffffffff33000000" /* p: default case */
			   "090000a007000000",
			   &back) > 0);
	assert_int_equal(back.k, 7);
	assert_int_equal(back.n, 5);
	assert_int_equal(back.p->_d, -1);
	assert_int_equal(back.p->_u.o, 0x33);
	assert_null(back.d);
	assert_null(back.s);
	assert_int_equal(back.t, 5); /* the default label */
}

static void absent_members_take_their_defaults(void **state)
{
	static const char *const only_key[] = {"000b000008000000"
					       "090000a007000000",
					       "00030000"
					       "0940040007000000"
					       "023f0000"};
	struct rich back;

	(void)state;
	for (size_t i = 0; i < COUNT(only_key); i++) {
		assert_true(decode(&rich_mutable, only_key[i], &back) > 0);
		assert_int_equal(back.k, 7);
		assert_null(back.d);
		assert_null(back.s);
		assert_int_equal(back.p->_d, 0); /* the default of an external member is there */
		assert_int_equal(back.n, 42);
		assert_int_equal(back.t, 5);
	}
	/* An older, shorter appendable sample, with and without a DHEADER. */
	assert_true(decode(&rich_appendable,
			   "00090000"
			   "04000000"
			   "07000000",
			   &back) > 0);
	assert_int_equal(back.n, 42);
	assert_true(decode(&rich_appendable,
			   "00010000"
			   "07000000",
			   &back) > 0);
	assert_int_equal(back.n, 42);
	assert_int_equal(back.t, 5);
}

static void newer_samples_are_cut(void **state)
{
	struct pick p = {._d = 7, ._u.s = "seven"};
	struct rich sample = {.k = 3, .p = &p, .n = 1, .t = 1}, back;
	uint8_t payload[256];
	int n;

	(void)state;
	for (int r = APUS_XCDR1; r <= APUS_XCDR2; r += APUS_XCDR2 - APUS_XCDR1) {
		n = apus_type_encode(&rich_appendable, &sample, r, false, payload, sizeof(payload));
		assert_true(n > 0);
		memset(&back, 0xee, sizeof(back));
		assert_int_equal(apus_type_decode(&rich_only_key, payload, (size_t)n, false, &back,
						  arena, sizeof(arena)),
				 0);
		assert_int_equal(back.k, 3);
		assert_int_equal(back.n, 0);
	}
}

static void unknown_members_count_only_if_they_must(void **state)
{
	struct pick p = {._d = 1, ._u.d = 1};
	struct rich sample = {.k = 3, .p = &p, .t = 1}, back;
	uint8_t payload[256];

	(void)state;
	assert_true(decode(&rich_mutable,
			   "000b000014000000"
			   "63000020"
			   "01020304"
			   "090000a007000000"
			   "63000000" /* cut: see below */,
			   &back) < 0);
	assert_true(decode(&rich_mutable,
			   "000b000010000000"
			   "63000020"
			   "01020304"
			   "090000a007000000",
			   &back) > 0);
	assert_int_equal(decode(&rich_mutable,
				"000b000010000000"
				"630000a0"
				"01020304"
				"090000a007000000",
				&back),
			 APUS_EENCODING);
	assert_int_equal(decode(&rich_mutable,
				"00030000"
				"63400400"
				"01020304"
				"0940040007000000"
				"023f0000",
				&back),
			 APUS_EENCODING);
	/* A reader without the member `t`, which is marked. */
	for (int r = APUS_XCDR1; r <= APUS_XCDR2; r += APUS_XCDR2 - APUS_XCDR1) {
		int n = apus_type_encode(&rich_mutable, &sample, r, false, payload,
					 sizeof(payload));

		assert_int_equal(apus_type_decode(&rich_without_tone, payload, (size_t)n, false,
						  &back, arena, sizeof(arena)),
				 APUS_EENCODING);
	}
}

static void lying_headers_are_refused(void **state)
{
	static const char *const bad[] = {
		"000b000008000000"
		"090000a0070000", /* cut off */
		"000b00000c000000"
		"090000a007000000", /* DHEADER beyond the end */
		"000b000010000000"
		"090000a007000000090000a008000000", /* twice */
		"000b000010000000"
		"090000b00700000000000000", /* 8 bytes for a long */
		"000b000008000000"
		"0900009007000000", /* 2 bytes for a long */
		"000b00000c000000"
		"204e0050ffffffff68690000", /* length 4 + 2^32 - 1 */
		"000b00000c000000"
		"204e0070ffffffff68690000", /* length 4 + 8 * that */
		"000b000006000000"
		"090000a00700", /* ends within a value */
		"00030000"
		"0940040007000000", /* no list end */
		"00030000"
		"0940030007000000023f0000", /* 3 bytes for a long */
		"00030000"
		"013f0400"
		"0900000004000000"
		"023f0000", /* extended, wrong length */
		"00030000"
		"013f0800"
		"09000000ffffffff"
		"023f0000",
		"00010000"
		"07000000",
		"00070000"
		"07000000",
		"00090000"
		"0400000007000000",
	};
	struct rich back, zero;

	(void)state;
	memset(&zero, 0, sizeof(zero));
	for (size_t i = 0; i < COUNT(bad); i++) {
		assert_int_equal(decode(&rich_mutable, bad[i], &back), APUS_EENCODING);
		assert_memory_equal(&back, &zero, sizeof(back));
	}
}

static void optional_in_plain_structs(void **state)
{
	double d = 1.5;
	struct pick p = {._d = 9, ._u.o = 1};
	struct rich sample = {.k = 7, .d = &d, .p = &p, .n = 5, .t = 9}, back;

	(void)state;
	expect_bytes(&rich_final, &sample, APUS_XCDR2,
		     "0007000307000000"
		     "01000000"
		     "000000000000f83f"
		     "00"
		     "000000"
		     "09000000"
		     "01"
		     "00"
		     "0500"
		     "09"
		     "000000");
	/* An XCDR1 optional has a header, length 0 if absent; its value is aligned from its start. */
	expect_bytes(&rich_final, &sample, APUS_XCDR1,
		     "0001000307000000"
		     "02000800"
		     "000000000000f83f"
		     "013f0800"
		     "204e0000"
		     "00000000"
		     "09000000"
		     "01"
		     "00"
		     "0500"
		     "09"
		     "000000");
	assert_int_equal(decode(&rich_final,
				"0007000007000000"
				"02000000",
				&back),
			 APUS_EENCODING);
	assert_int_equal(decode(&rich_final,
				"0001000007000000"
				"03000800000000000000f83f",
				&back),
			 APUS_EENCODING);
}

static void unions_are_told_by_their_discriminator(void **state)
{
	struct pick p = {._d = 7, ._u.s = "x"};
	struct rich sample = {.k = 1, .p = &p}, back;
	uint8_t payload[128];
	int n = apus_type_encode(&rich_final, &sample, APUS_XCDR2, false, payload, sizeof(payload));

	(void)state;
	assert_true(n > 0);
	assert_true(apus_type_decode(&rich_final, payload, (size_t)n, false, &back, arena,
				     sizeof(arena)) > 0);
	assert_string_equal(back.p->_u.s, "x");
	sample.p = NULL; /* not optional */
	assert_int_equal(
		apus_type_encode(&rich_final, &sample, APUS_XCDR2, false, payload, sizeof(payload)),
		APUS_EENCODING);
}

static void arena_limits_hold(void **state)
{
	struct rich back, zero;
	uint8_t bytes[256];
	size_t n = zoo_hex(PL_CDR_BYTES, bytes);
	int need = apus_type_decode(&rich_mutable, bytes, n, false, &back, arena, sizeof(arena));

	(void)state;
	memset(&zero, 0, sizeof(zero));
	assert_true(need > 0);
	for (int room = 0; room < need; room++) {
		assert_int_equal(apus_type_decode(&rich_mutable, bytes, n, false, &back, arena,
						  (size_t)room),
				 APUS_ELIMIT);
		assert_memory_equal(&back, &zero, sizeof(back));
	}
}

static void keys_are_found_by_id(void **state)
{
	static const char *const payloads[] = {PL_CDR_BYTES, "000b000010000000"
							     "63000020"
							     "01020304"
							     "090000a007000000"};
	struct apus_wire_keyplan plan;
	uint8_t bytes[256], key[16];

	(void)state;
	assert_int_equal(apus_wire_keyplan_init(&plan, &rich_mutable, 0), 0);
	for (size_t i = 0; i < COUNT(payloads); i++) {
		size_t n = zoo_hex(payloads[i], bytes);

		assert_int_equal(apus_wire_key_extract(&plan, bytes, n, false, key, sizeof(key)),
				 4);
		assert_memory_equal(key, "\0\0\0\7", 4);
	}
	/* Key-only: Cyclone's form, and XTypes' with headers. */
	size_t n = zoo_hex("000b0000"
			   "07000000",
			   bytes);

	assert_int_equal(apus_wire_key_extract(&plan, bytes, n, true, key, sizeof(key)), 4);
	n = zoo_hex("000b000008000000"
		    "090000a007000000",
		    bytes);
	assert_int_equal(apus_wire_key_extract(&plan, bytes, n, true, key, sizeof(key)), 4);
	assert_memory_equal(key, "\0\0\0\7", 4);
	/* No key, no instance. */
	n = zoo_hex("000b000008000000"
		    "0100001005000000",
		    bytes);
	assert_int_equal(apus_wire_key_extract(&plan, bytes, n, false, key, sizeof(key)),
			 APUS_EENCODING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(descriptors_are_good),
		cmocka_unit_test(mutable_bytes),
		cmocka_unit_test(members_come_in_any_order),
		cmocka_unit_test(absent_members_take_their_defaults),
		cmocka_unit_test(newer_samples_are_cut),
		cmocka_unit_test(unknown_members_count_only_if_they_must),
		cmocka_unit_test(lying_headers_are_refused),
		cmocka_unit_test(optional_in_plain_structs),
		cmocka_unit_test(unions_are_told_by_their_discriminator),
		cmocka_unit_test(arena_limits_hold),
		cmocka_unit_test(keys_are_found_by_id),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
