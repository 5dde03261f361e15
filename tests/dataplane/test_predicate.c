/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the evaluator does what a program says, and no program that breaks an invariant is assembled.
 * Method: programs by hand, without the compiler, over hand-made payloads; each invariant broken alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dataplane/predicate_program.h"

/* Two octets and a string: slot 0 at 0, slot 1 at 1, slot 2 behind. */
static const struct apus_wire_step steps[] = {
	{APUS_WIRE_RUN, 7, 0, 1, 0},
	{APUS_WIRE_RUN, 0, 1, 1, 0},
	{APUS_WIRE_STRING, 3, 2, 0, 0},
};
static const struct apus_dp_field fields[] = {
	{APUS_DP_U8, 0}, {APUS_DP_S8, 0}, {APUS_DP_STRING, 0}};

static struct apus_dp_program program_of(const struct apus_dp_test *tests, uint32_t count)
{
	return (struct apus_dp_program){
		.fields = fields,
		.field_count = 3,
		.tests = tests,
		.test_count = count,
		.steps = {steps, steps},
		.step_count = {3, 3},
		.text = "abc",
		.text_bytes = 3,
	};
}

static enum apus_dp_verdict run(const struct apus_dp_test *tests, uint32_t count,
				const void *payload, size_t bytes)
{
	struct apus_dp_program program = program_of(tests, count);
	size_t block_bytes = apus_dp_predicate_bytes(&program);
	enum apus_dp_verdict verdict;
	void *block;

	assert_true(block_bytes > 0);
	block = malloc(block_bytes);
	verdict =
		apus_dp_predicate_eval(apus_dp_predicate_assemble(&program, block), payload, bytes);
	free(block);
	return verdict;
}

static const uint8_t payload[] = {0, 1, 0, 0, 200, 0xfe, 0, 0, 3, 0, 0, 0, 'a', 'b', 0};

static struct apus_dp_test range(uint16_t field, uint64_t low, uint64_t high)
{
	return (struct apus_dp_test){.op = APUS_DP_RANGE,
				     .field = field,
				     .on_true = APUS_DP_TO_PASS,
				     .on_false = APUS_DP_TO_REJECT,
				     .low = low,
				     .span = high - low};
}

static void ranges_include_their_ends(void **state)
{
	static const struct {
		uint64_t low, high;
		enum apus_dp_verdict verdict;
	} rows[] = {{200, 200, APUS_DP_PASS},      {199, 201, APUS_DP_PASS},
		    {201, 255, APUS_DP_REJECT},    {0, 199, APUS_DP_REJECT},
		    {0, UINT64_MAX, APUS_DP_PASS}, {0, 200, APUS_DP_PASS}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct apus_dp_test t = range(0, rows[i].low, rows[i].high);

		assert_int_equal(run(&t, 1, payload, sizeof(payload)), rows[i].verdict);
	}
}

static void keys_keep_the_order(void **state)
{
	static const double doubles[] = {-INFINITY, -DBL_MAX, -1.5, -DBL_MIN, -4.9e-324, 0.0,
					 4.9e-324,  DBL_MIN,  1.0,  DBL_MAX,  INFINITY};
	static const int64_t integers[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX};
	uint64_t bits, before = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(doubles) / sizeof(doubles[0]); i++) {
		memcpy(&bits, &doubles[i], 8);
		assert_true(apus_dp_key_double(bits) > before);
		before = apus_dp_key_double(bits);
	}
	assert_true(apus_dp_key_double(UINT64_C(0x7ff0000000000001)) > before); /* NaN */
	for (size_t i = 1; i < sizeof(integers) / sizeof(integers[0]); i++)
		assert_true(apus_dp_key_signed(integers[i]) > apus_dp_key_signed(integers[i - 1]));
}

static void floats_widen_exactly(void **state)
{
	static const uint32_t patterns[] = {
		0,          1,          2,          0x7fffff,   0x800000,   0x3f800000, 0x7f7fffff,
		0x7f800000, 0x80000001, 0x80000000, 0xbfc00000, 0x00400000, 0x3dcccccd};

	(void)state;
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		uint64_t bits;
		double wide;
		float narrow;

		memcpy(&narrow, &patterns[i], 4);
		wide = narrow;
		memcpy(&bits, &wide, 8);
		assert_int_equal(apus_dp_double_bits(patterns[i]), bits);
	}
}

static void doubles_split(void **state)
{
	static const struct {
		double value;
		int64_t floor;
		bool fraction;
	} rows[] = {{0.0, 0, false},
		    {-0.0, 0, false},
		    {1.0, 1, false},
		    {1.5, 1, true},
		    {-1.5, -2, true},
		    {-1.0, -1, false},
		    {0.25, 0, true},
		    {-0.25, -1, true},
		    {5e-324, 0, true},
		    {-5e-324, -1, true},
		    {0x1p52, INT64_C(1) << 52, false},
		    {0x1p62, INT64_C(1) << 62, false},
		    {-0x1p63, INT64_MIN, false}};
	__int128 floor;
	bool fraction;
	uint64_t bits;
	double far = -1e300;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		memcpy(&bits, &rows[i].value, 8);
		apus_dp_split_double(bits, &floor, &fraction);
		assert_true(floor == rows[i].floor);
		assert_int_equal(fraction, rows[i].fraction);
	}
	memcpy(&bits, &far, 8);
	apus_dp_split_double(bits, &floor, &fraction);
	assert_true(floor == -APUS_DP_FAR);
}

static void texts_compare_as_bytes(void **state)
{
	static const struct {
		uint64_t low, span;
		uint8_t accept;
		enum apus_dp_verdict verdict;
	} rows[] = {{0, 2, APUS_DP_EQUAL, APUS_DP_PASS},   {0, 3, APUS_DP_EQUAL, APUS_DP_REJECT},
		    {0, 3, APUS_DP_LESS, APUS_DP_PASS},    {0, 1, APUS_DP_GREATER, APUS_DP_PASS},
		    {0, 0, APUS_DP_GREATER, APUS_DP_PASS}, {1, 1, APUS_DP_LESS, APUS_DP_PASS}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct apus_dp_test t = range(2, rows[i].low, rows[i].low + rows[i].span);

		t.op = APUS_DP_TEXT;
		t.accept = rows[i].accept;
		assert_int_equal(run(&t, 1, payload, sizeof(payload)), rows[i].verdict);
	}
}

static void tests_jump_forward(void **state)
{
	struct apus_dp_test t[3] = {range(0, 200, 200), range(0, 1, 1), range(1, 0, UINT64_MAX)};

	(void)state;
	t[0].on_true = 2; /* past the second, which would reject */
	t[1].on_true = t[1].on_false = APUS_DP_TO_REJECT;
	assert_int_equal(run(t, 3, payload, sizeof(payload)), APUS_DP_PASS);
	t[0].on_true = 1;
	assert_int_equal(run(t, 3, payload, sizeof(payload)), APUS_DP_REJECT);
}

static void members_compare_across_signs(void **state)
{
	struct apus_dp_test t = range(0, 0, 0);

	(void)state;
	t.op = APUS_DP_NUMBERS; /* 200 against -2 */
	t.field_b = 1;
	t.accept = APUS_DP_GREATER;
	assert_int_equal(run(&t, 1, payload, sizeof(payload)), APUS_DP_PASS);
	t.accept = APUS_DP_LESS | APUS_DP_EQUAL;
	assert_int_equal(run(&t, 1, payload, sizeof(payload)), APUS_DP_REJECT);
}

/* All fields are located before any test: what the tests would skip must be there too. */
static void missing_bytes_are_errors(void **state)
{
	struct apus_dp_test t = range(0, 0, UINT64_MAX);

	(void)state;
	for (size_t n = 0; n < sizeof(payload); n++)
		assert_int_equal(run(&t, 1, payload, n), APUS_DP_ERROR);
	assert_int_equal(run(&t, 1, payload, sizeof(payload)), APUS_DP_PASS);
}

static void broken_programs_are_refused(void **state)
{
	struct apus_dp_test good[2] = {range(0, 0, 1), range(1, 0, 1)}, bad[2];
	struct apus_dp_program p = program_of(good, 2);
	struct apus_dp_field field = {APUS_DP_STRING + 1, 0};
	struct apus_wire_step step = {APUS_WIRE_RUN, 0, 3, 1, 0};
	static const struct apus_dp_text far = {2, 2};
	static const struct apus_dp_segment segment = {0, 1, APUS_DP_SEGMENT_PART_END};
	static const uint8_t data[16];

	(void)state;
	assert_true(apus_dp_predicate_bytes(&p) > 0);
#define REFUSED(change)                                           \
	do {                                                      \
		memcpy(bad, good, sizeof(good));                  \
		p = program_of(bad, 2);                           \
		change;                                           \
		assert_int_equal(apus_dp_predicate_bytes(&p), 0); \
	} while (0)
	REFUSED(bad[0].on_true = 0);
	REFUSED(bad[1].on_true = 1);
	REFUSED(bad[1].on_false = 0);
	REFUSED(bad[0].on_false = 2);
	REFUSED(bad[0].on_false = APUS_DP_TO_REJECT - 1);
	REFUSED(bad[0].field = 3);
	REFUSED(bad[0].field_b = 3);
	REFUSED(bad[0].field = 2);
	REFUSED(bad[0].op = APUS_DP_PATTERN + 1);
	REFUSED(bad[1].on_absent = 1);
	REFUSED(bad[0].on_absent = 2);
	REFUSED((bad[0].op = APUS_DP_SET, bad[0].span = 0));
	REFUSED((bad[0].op = APUS_DP_SET, bad[0].span = 1));
	REFUSED((bad[0].op = APUS_DP_SET, bad[0].low = 4, bad[0].span = 1, p.data = data,
		 p.data_bytes = 16));
	REFUSED((bad[0].op = APUS_DP_SET, bad[0].low = 8, bad[0].span = 2, p.data = data,
		 p.data_bytes = 16));
	REFUSED((bad[0].op = APUS_DP_TEXTS, bad[0].field = 2, bad[0].low = 0, bad[0].span = 1,
		 p.data = (const uint8_t *)&far, p.data_bytes = sizeof(far)));
	REFUSED((bad[0].op = APUS_DP_PATTERN, bad[0].field = 2, bad[0].span = 1,
		 p.data = (const uint8_t *)&segment, p.data_bytes = sizeof(segment)));
	REFUSED(bad[0].op = APUS_DP_TEXT);
	REFUSED((bad[0].op = APUS_DP_TEXT, bad[0].field = 2, bad[0].low = 1, bad[0].span = 3));
	REFUSED((bad[0].op = APUS_DP_TEXT, bad[0].field = 2, bad[0].low = UINT64_MAX,
		 bad[0].span = 2));
	REFUSED((bad[0].op = APUS_DP_NUMBERS, bad[0].field_b = 2));
	REFUSED((bad[0].op = APUS_DP_STRINGS, bad[0].field = 2, bad[0].field_b = 1));
	REFUSED(p.test_count = 0);
	REFUSED(p.test_count = APUS_DP_TESTS_MAX + 1);
	REFUSED(p.field_count = 0);
	REFUSED(p.field_count = APUS_DP_FIELDS_MAX + 1);
	REFUSED((p.fields = &field, p.field_count = 1));
	REFUSED((p.steps[1] = &step, p.step_count[1] = 1));
#undef REFUSED
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_include_their_ends),
		cmocka_unit_test(keys_keep_the_order),
		cmocka_unit_test(floats_widen_exactly),
		cmocka_unit_test(doubles_split),
		cmocka_unit_test(texts_compare_as_bytes),
		cmocka_unit_test(tests_jump_forward),
		cmocka_unit_test(members_compare_across_signs),
		cmocka_unit_test(missing_bytes_are_errors),
		cmocka_unit_test(broken_programs_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
