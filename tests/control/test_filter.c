/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: filter expressions mean what DDS 1.4 Annex B says, exactly, in every encoding.
 * Method: samples are serialised by the library in all four encodings and matched against tables of
 * expressions. What random cases can find is filter_oracle.py's business.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/filter.h"
#include "dataplane/predicate.h"
#include "wire/cdr.h"

#include "filter_types.h"

#define PAYLOAD_MAX 1024

/* Serialises in one of the four encodings. */
static size_t encode(const struct apus_type *type, const void *sample, int form, uint8_t *out)
{
	int n = apus_wire_cdr_encode(type, sample, form & 1 ? APUS_XCDR2 : APUS_XCDR1, false,
				     form & 2, out, PAYLOAD_MAX);

	assert_true(n > 0);
	return (size_t)n;
}

/* Result of a filter over a sample; the four encodings must agree. */
static int match_with(const struct apus_type *type, const void *sample, const char *expression,
		      const char *const *parameters, uint32_t count)
{
	struct apus_filter_error error = {.reason = ""};
	struct apus_filter *filter = NULL;
	uint8_t payload[PAYLOAD_MAX];
	int verdict = 2;

	if (apus_filter_open(type, expression, parameters, count, &filter, &error) < 0)
		fail_msg("%s: %u: %s", expression, error.position, error.reason);
	for (int form = 0; form < 4; form++) {
		int now = apus_filter_match(filter, payload, encode(type, sample, form, payload));

		if (verdict != 2 && now != verdict)
			fail_msg("%s: encoding %d gives %d", expression, form, now);
		verdict = now;
	}
	apus_filter_close(filter);
	return verdict;
}

static int match(const struct apus_type *type, const void *sample, const char *expression)
{
	return match_with(type, sample, expression, NULL, 0);
}

/* Rows of expression and expected result. */
struct row {
	const char *expression;
	int expected;
};

static void check_rows(const struct apus_type *type, const void *sample, const struct row *rows,
		       size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int result = match(type, sample, rows[i].expression);

		if (result != rows[i].expected)
			fail_msg("%s: %d", rows[i].expression, result);
	}
}

#define CHECK_ROWS(type, sample, rows) \
	check_rows(type, sample, rows, sizeof(rows) / sizeof(rows[0]))

static const struct apus_shape red = {"RED", 5, 16, 30};

static void precedence(void **state)
{
	static const struct row rows[] = {
		/* OR binds loosest: (1) OR (0 AND 0), not (1 OR 0) AND 0. */
		{"x = 5 OR x = 6 AND y = 0", 1},
		{"(x = 5 OR x = 6) AND y = 0", 0},
		{"y = 0 AND x = 6 OR x = 5", 1},
		/* NOT binds tightest: (NOT 0) OR 1 and (NOT 0) AND 0. */
		{"NOT x = 6 OR y = 0", 1},
		{"NOT x = 6 AND y = 0", 0},
		{"NOT (x = 6 AND y = 0)", 1},
		{"NOT NOT x = 5", 1},
		{"NOT (x = 5 OR y = 0) OR y = 16", 1},
		{"NOT (NOT (x = 5) AND NOT (y = 0))", 1},
		{"((((x = 5))))", 1},
		{"x=5 and y=16 aNd shapesize=30 Or x=0", 1},
		{"\tx\n=\r5 ", 1},
	};

	(void)state;
	CHECK_ROWS(&apus_shape_type, &red, rows);
}

static void operators(void **state)
{
	static const struct row rows[] = {
		{"x = 5", 1},          {"x == 5", 1},        {"x <> 5", 0},
		{"x != 5", 0},         {"x < 5", 0},         {"x <= 5", 1},
		{"x > 5", 0},          {"x >= 5", 1},        {"5 > x", 0},
		{"4 < x", 1},          {"6 >= x", 1},        {"5 <= x", 1},
		{"x < y", 1},          {"y <= x", 0},        {"x = x", 1},
		{"x <> shapesize", 1}, {"color = 'RED'", 1}, {"'RED' = color", 1},
		{"color < 'REDS'", 1}, {"color > 'RE'", 1},  {"color <> 'red'", 1},
		{"color >= 'S'", 0},   {"color = color", 1}, {"color = `RED'", 1},
	};

	(void)state;
	CHECK_ROWS(&apus_shape_type, &red, rows);
}

static void ranges(void **state)
{
	static const struct row rows[] = {
		{"x BETWEEN 5 AND 5", 1},
		{"x BETWEEN 6 AND 9", 0},
		{"x BETWEEN 9 AND 1", 0},
		{"x NOT BETWEEN 6 AND 9", 1},
		{"x not between 1 and 5", 0},
		{"NOT x NOT BETWEEN 1 AND 5", 1},
		/* The AND of a range is no conjunction. */
		{"x BETWEEN 1 AND 5 AND y BETWEEN 16 AND 20", 1},
		{"x BETWEEN 1 AND 5 AND y BETWEEN 17 AND 20", 0},
		{"x BETWEEN 6 AND 7 OR y BETWEEN 1 AND 20 AND x = 5", 1},
		{"x BETWEEN 4 AND y", 1},
		{"y BETWEEN shapesize AND 99", 0},
		{"color BETWEEN 'A' AND 'RED'", 1},
		{"color BETWEEN 'REDA' AND 'Z'", 0},
		{"x BETWEEN 4.5 AND 5.5", 1},
		{"x BETWEEN 5.1 AND 5.9", 0},
		{"x NOT BETWEEN 5.1 AND 5.9", 1},
	};

	(void)state;
	CHECK_ROWS(&apus_shape_type, &red, rows);
}

/* The worked example of the design paper: the second AND belongs to BETWEEN. */
static void worked_example(void **state)
{
	struct sample {
		double temp;
		int32_t zone;
	};
	static const struct apus_member members[] = {
		FILTER_MEMBER(sample, temp, &apus_type_float64),
		FILTER_MEMBER(sample, zone, &apus_type_int32),
	};
	static const struct apus_type type = FILTER_STRUCT(sample, "Reading", APUS_FINAL, members);
	static const char *const parameters[] = {"20"};
	static const struct {
		struct sample sample;
		int expected;
	} rows[] = {{{20.0, 5}, 0}, {{20.001, 5}, 1}, {{30.0, 3}, 1}, {{30.0, 7}, 1},
		    {{30.0, 2}, 0}, {{30.0, 8}, 0},   {{NAN, 5}, 0}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(match_with(&type, &rows[i].sample,
					    "temp > %0 AND zone BETWEEN 3 AND 7", parameters, 1),
				 rows[i].expected);
}

static struct filter_scalars scalars(void)
{
	return (struct filter_scalars){.b = true,
				       .c = 'A',
				       .e = 1,
				       .m8 = 5,
				       .s = "short",
				       .t = (char *)"it's",
				       .f64 = 1.5,
				       .f32 = 0.1f};
}

static void integer_extremes(void **state)
{
	struct filter_scalars low = scalars(), high = scalars();
	static const struct row at_low[] = {
		{"i8 = -128", 1},
		{"i8 < -127", 1},
		{"i8 > -129", 1},
		{"i8 < -128", 0},
		{"i16 = -32768", 1},
		{"i16 >= -32767", 0},
		{"i32 = -2147483648", 1},
		{"i32 > -2147483649", 1},
		{"i64 = -9223372036854775808", 1},
		{"i64 > -9223372036854775809", 1},
		{"i64 <= -9223372036854775809", 0},
		{"i64 < -9223372036854775807L", 1},
		{"u8 = 0 AND o = 0 AND u16 = 0 AND u32 = 0 AND u64 = 0", 1},
		{"u64 > -1", 1},
		{"u8 = 256", 0},
		{"u8 = -256", 0},
		{"i64 < u64", 1},
		{"i8 > i64", 1},
	};
	static const struct row at_high[] = {
		{"i8 = 127", 1},
		{"i8 < 128", 1},
		{"i8 = -129", 0},
		{"u8 = 255 AND o = 0xff", 1},
		{"u8 = -1", 0},
		{"u16 = 65535", 1},
		{"i16 = 32767", 1},
		{"u32 = 4294967295", 1},
		{"u32 = -1", 0},
		{"i32 = 0x7FFFFFFF", 1},
		{"i64 = 9223372036854775807", 1},
		{"i64 < 9223372036854775808", 1},
		{"i64 = 9223372036854775806", 0},
		{"u64 = 18446744073709551615", 1},
		{"u64 = 0xFFFFFFFFFFFFFFFF", 1},
		{"u64 >= 18446744073709551616", 0},
		{"u64 < 18446744073709551616", 1},
		{"u64 <> 99999999999999999999999999999999999999999", 1},
		{"u64 > i64", 1},
		{"u64 BETWEEN -5 AND 18446744073709551616", 1},
		{"i64 BETWEEN 9223372036854775808 AND 9223372036854775809", 0},
	};

	(void)state;
	low.i8 = INT8_MIN;
	low.i16 = INT16_MIN;
	low.i32 = INT32_MIN;
	low.i64 = INT64_MIN;
	high.i8 = INT8_MAX;
	high.i16 = INT16_MAX;
	high.i32 = INT32_MAX;
	high.i64 = INT64_MAX;
	high.u8 = high.o = UINT8_MAX;
	high.u16 = UINT16_MAX;
	high.u32 = UINT32_MAX;
	high.u64 = UINT64_MAX;
	CHECK_ROWS(&filter_scalars, &low, at_low);
	CHECK_ROWS(&filter_scalars, &high, at_high);
}

static void integers_meet_floats_exactly(void **state)
{
	struct filter_scalars s = scalars();
	static const struct row rows[] = {
		/* i64 is 2^53 + 1, f64 is 2^53: as doubles they would be equal. */
		{"i64 = f64", 0},
		{"i64 > f64", 1},
		{"f64 < i64", 1},
		{"i64 = 9007199254740992.0", 0},
		{"i64 > 9007199254740992.0", 1},
		{"f64 = 9007199254740993", 0},
		{"f64 < 9007199254740993", 1},
		{"f64 >= 9007199254740993", 0},
		{"f64 = 9007199254740992", 1},
		{"i64 < 1e400", 1},
		{"f64 < 1e400", 1},
		{"i64 > -1e400", 1},
		{"i32 = 3.0", 1},
		{"i32 > 2.5", 1},
		{"i32 < 3.5", 1},
		{"i32 = 3.5", 0},
		{"i32 <> 3.5", 1},
		/* f32 is the float next to 0.1, above the double 0.1. */
		{"f32 = 0.1", 0},
		{"f32 > 0.1", 1},
		{"f32 = 0.1F", 1},
		{"f32 < f64", 1},
	};

	(void)state;
	s.i64 = (INT64_C(1) << 53) + 1;
	s.f64 = 0x1p53;
	s.i32 = 3;
	CHECK_ROWS(&filter_scalars, &s, rows);
}

static void special_floats(void **state)
{
	struct filter_scalars s = scalars();
	static const struct row with_nan[] = {
		{"f64 = f64", 0},
		{"f64 <> f64", 1},
		{"f64 < 1", 0},
		{"f64 >= 1", 0},
		{"f64 <> 1", 1},
		{"NOT f64 < 1", 1},
		{"f64 BETWEEN -1e400 AND 1e400", 0},
		{"f64 NOT BETWEEN 0 AND 1", 1},
		{"f32 < f64", 0},
		{"f32 <> f64", 1},
		{"i32 <> f64", 1},
		{"f64 <> i32", 1},
	};
	static const struct row with_limits[] = {
		/* f64 is +infinity, f32 is -0. */
		{"f64 > 1.7976931348623157e308", 1},
		{"f64 > 1e400", 1},
		{"f64 = 1e400", 0},
		{"f64 > u64", 1},
		{"f32 = 0", 1},
		{"f32 < 0", 0},
		{"f32 >= 0.0", 1},
		{"f32 = -0.0", 1},
		{"f32 > -4.9e-324", 1},
		{"f32 BETWEEN 0 AND 0", 1},
		{"f32 = i32", 1},
	};

	(void)state;
	s.f64 = NAN;
	CHECK_ROWS(&filter_scalars, &s, with_nan);
	s.f64 = -NAN;
	CHECK_ROWS(&filter_scalars, &s, with_nan);
	s.f64 = INFINITY;
	s.f32 = -0.0f;
	CHECK_ROWS(&filter_scalars, &s, with_limits);
	s.f32 = 1e-45f; /* the smallest denormal */
	assert_int_equal(match(&filter_scalars, &s, "f32 > 0 AND f32 < 1.5e-45"), 1);
}

static void other_kinds(void **state)
{
	struct filter_scalars s = scalars();
	static const struct row rows[] = {
		{"b = TRUE", 1},
		{"b <> false", 1},
		{"b2 = True", 0},
		{"b <> b2", 1},
		{"c = 'A'", 1},
		{"c < 'B'", 1},
		{"c BETWEEN 'A' AND 'C'", 1},
		{"c = ''''", 0},
		{"e = 'BUSY'", 1},
		{"e < 'IDLE'", 1},
		{"e > 'ANGRY'", 1},
		{"e = 1", 1},
		{"e = i32", 0},
		{"m8 = 5", 1},
		{"m64 <> 5", 1},
		{"t = 'it''s'", 1},
		{"t = `it''s'", 1},
		{"s = 'short'", 1},
		{"s < t", 0},
		{"s <> ''", 1},
		{"'' < s", 1},
	};

	(void)state;
	CHECK_ROWS(&filter_scalars, &s, rows);
}

static void parameters_are_text(void **state)
{
	static const char *const parameters[] = {"'RED'", "RED", "5", " 5 ", "surplus", "it''s"};
	static const struct row rows[] = {
		{"color = %0", 1},  {"color = %1", 1},
		{"x = %2", 1},      {"x = %3", 1},
		{"%2 = x", 1},      {"x <> %02", 0},
		{"color <> %5", 1}, {"x BETWEEN %2 AND %3", 1},
		{"color = %2", 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(
			match_with(&apus_shape_type, &red, rows[i].expression, parameters, 6),
			rows[i].expected);
}

static void parameters_of_other_kinds(void **state)
{
	struct filter_scalars s = scalars();
	static const char *const parameters[] = {"BUSY", "'BUSY'", "1",    "TRUE",
						 "A",    "'A'",    "it's", "1.5"};

	(void)state;
	assert_int_equal(match_with(&filter_scalars, &s,
				    "e = %0 AND e = %1 AND e = %2 AND b = %3 AND c = %4 AND c = %5",
				    parameters, 8),
			 1);
	assert_int_equal(match_with(&filter_scalars, &s, "t = %6 AND f64 = %7", parameters, 8), 1);
}

static void nested_members(void **state)
{
	struct filter_inner inner[2] = {{7, (char *)"seven", 7.5}, {8, (char *)"", 8.5}};
	char *names[3] = {(char *)"a", (char *)"bcd", (char *)""};
	int16_t v[3] = {1, -2, 3};
	struct filter_deep d = {
		.head = (char *)"h",
		.in = {-4, (char *)"inner", 0.25},
		.ina = {-5, (char *)"open", UINT64_MAX},
		.v = {3, 3, v},
		.e = 7,
		.arr = {{1, (char *)"one", 1}, {2, (char *)"two", 2}},
		.seq = {2, 2, inner},
		.names = {3, 3, names},
		.last = -1e10,
		.tail = -9,
	};
	static const struct row rows[] = {
		{"in.p = -4", 1},
		{"in.q = 'inner'", 1},
		{"in.r = 0.25", 1},
		{"ina.a = -5", 1},
		{"ina.s = 'open'", 1},
		{"ina.u = 18446744073709551615", 1},
		{"e = 'IDLE'", 1},
		{"last < -9999999999", 1},
		{"tail = -9", 1},
		{"tail = ina.a OR in.p > tail AND head = 'h'", 1},
		{"tail = -9 AND last = -1e10 AND e = 7 AND ina.u > 5 AND in.q <> ina.s", 1},
	};

	(void)state;
	CHECK_ROWS(&filter_deep, &d, rows);
}

/* ---- signature --------------------------------------------------------------------------------- */

static void check_signature(const char *expression, const char *const *parameters, uint32_t count,
			    const char *expected)
{
	uint8_t signature[16];
	char hex[33];

	apus_ctl_filter_signature("SquareF", "Square", APUS_CTL_FILTER_CLASS, expression,
				  parameters, count, signature);
	for (int i = 0; i < 16; i++)
		snprintf(hex + 2 * i, 3, "%02x", signature[i]);
	assert_string_equal(hex, expected);
}

/* Values seen on the wire from Fast DDS 2.9.1 (captures 04a and 04b). */
static void signatures(void **state)
{
	static const char *const first[] = {"5", "'GREEN'"}, *const second[] = {"2", "'GREEN'"};

	(void)state;
	check_signature("x > %0 AND color = %1", first, 2, "423420ab572bd5f52d70f624466a0819");
	check_signature("x > %0 AND color = %1", second, 2, "0ff598aebc8f5865bdd0d167ac5a6467");
	check_signature("x BETWEEN 3 AND 4", NULL, 0, "ae53fd30da8cfc7c0de3a7431a5c5e2e");
}

/* What people are told: every field, every test with its targets, cost and index term; cut where it ends. */
static void descriptions(void **state)
{
	static const char *const parameters[] = {"5"};
	struct apus_filter_error error;
	char text[512], cut[20];

	(void)state;
	assert_int_equal(apus_filter_describe(&apus_shape_type, "x > %0 AND color LIKE 'R%'",
					      parameters, 1, text, sizeof(text), NULL),
			 0);
	assert_string_equal(text,
			    "field 0: x (integer)\nfield 1: color (string)\n"
			    "test 0: range of field 0, true: test 1, false: reject\n"
			    "test 1: pattern of field 1, true: pass, false: reject\n"
			    "cost: pattern (a pass over a string of the sample), 2 tests at most\n"
			    "index: range of x\n");
	assert_int_equal(apus_filter_describe(&filter_rich,
					      "points[2].r > 1 OR u._d = 2 OR names.length "
					      "= arr[3]",
					      NULL, 0, text, sizeof(text), NULL),
			 0);
	assert_non_null(strstr(text,
			       "field 0: points[2].r (float)\nfield 1: u._d (integer)\n"
			       "field 2: names.length (integer)\nfield 3: arr[3] (integer)\n"));
	assert_non_null(strstr(text, "index: none"));
	assert_int_equal(
		apus_filter_describe(&apus_shape_type, "x > 1", NULL, 0, cut, sizeof(cut), NULL),
		APUS_ELIMIT);
	assert_int_equal(strlen(cut), sizeof(cut) - 1);
	assert_int_equal(
		apus_filter_describe(&apus_shape_type, "x >", NULL, 0, text, sizeof(text), &error),
		APUS_EFILTER);
	assert_int_equal(apus_filter_describe(NULL, "x > 1", NULL, 0, text, sizeof(text), NULL),
			 APUS_EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(precedence),
		cmocka_unit_test(operators),
		cmocka_unit_test(ranges),
		cmocka_unit_test(worked_example),
		cmocka_unit_test(integer_extremes),
		cmocka_unit_test(integers_meet_floats_exactly),
		cmocka_unit_test(special_floats),
		cmocka_unit_test(other_kinds),
		cmocka_unit_test(parameters_are_text),
		cmocka_unit_test(parameters_of_other_kinds),
		cmocka_unit_test(nested_members),
		cmocka_unit_test(signatures),
		cmocka_unit_test(descriptions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
