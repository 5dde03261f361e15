/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: LIKE, MATCH, IN and IS NULL mean what filter.h says, and patterns made to explode do not.
 * Method: tables of pattern, text and expected verdict over a one-string type; long hostile patterns over
 * long texts, whose cost is bounded by construction and would time the test out otherwise.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/filter.h"
#include "dataplane/predicate.h"

#include "filter_types.h"

#define PAYLOAD_MAX (1 << 20)

/* A payload of ShapeType's shape by hand: any colour length. */
static size_t shape(const char *color, uint8_t *out)
{
	uint32_t length = (uint32_t)strlen(color) + 1, at = 8 + ((length + 3) & ~3u);
	const int32_t numbers[3] = {5, 16, 30};

	memset(out, 0, at);
	out[1] = 1;
	memcpy(out + 4, &length, 4);
	memcpy(out + 8, color, length);
	memcpy(out + at, numbers, sizeof(numbers));
	return at + sizeof(numbers);
}

/* The verdict over a ShapeType of that colour, which must be short enough for the type. */
static int verdict(const char *expression, const char *const *parameters, uint32_t count,
		   const char *color)
{
	struct apus_filter_error error = {.reason = ""};
	struct apus_filter *filter = NULL;
	uint8_t payload[256];
	int result;

	if (apus_filter_open(&apus_shape_type, expression, parameters, count, &filter, &error) < 0)
		fail_msg("%s: %u: %s", expression, error.position, error.reason);
	result = apus_filter_match(filter, payload, shape(color, payload));
	apus_filter_close(filter);
	return result;
}

struct row {
	const char *pattern, *color;
	int expected;
};

static void check(const char *expression, const struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int got = verdict(expression, &rows[i].pattern, 1, rows[i].color);

		if (got != rows[i].expected)
			fail_msg("%s with %s over %s: %d", expression, rows[i].pattern,
				 rows[i].color, got);
	}
}

#define CHECK(expression, rows) check(expression, rows, sizeof(rows) / sizeof(rows[0]))

static void like(void **state)
{
	static const struct row rows[] = {
		{"RED", "RED", 1},
		{"RED", "REDD", 0},
		{"RED", "red", 0},
		{"", "", 1},
		{"", "R", 0},
		{"%", "", 1},
		{"%", "RED", 1},
		{"%%", "", 1},
		{"_", "", 0},
		{"_", "R", 1},
		{"_", "RE", 0},
		{"___", "RED", 1},
		{"R%", "RED", 1},
		{"R%", "R", 1},
		{"R%", "GREEN", 0},
		{"%D", "RED", 1},
		{"%D", "D", 1},
		{"%D", "REDS", 0},
		{"%E%", "RED", 1},
		{"%E%", "BLU", 0},
		{"R%D", "RED", 1},
		{"R%D", "RD", 1},
		{"R%D", "R", 0},
		{"R%R", "R", 0},
		{"%ab%ab", "ab", 0},
		{"%ab%ab", "abab", 1},
		{"%ab%ab", "abxxab", 1},
		{"a%b_c%d", "a1b2c3d", 1},
		{"a%b_c%d", "abbcd", 1},
		{"a%b_c%d", "abcd", 0},
		{"%_", "", 0},
		{"%_", "x", 1},
		{"_%_", "x", 0},
		{"%a_b%", "xxaabb", 1},
		{"%aab%", "aaab", 1},
		{"%_b", "ab", 1},
		/* Nothing else is special. */
		{"R.D", "RED", 0},
		{"R.D", "R.D", 1},
		{"R*", "RED", 0},
		{"[R]ED", "RED", 0},
		{"R\\%", "R\\x", 1},
		{"^R", "R", 0},
		{"(a)+", "(a)+", 1},
		{"caf_", "caf\xe9", 1},
	};
	static const struct row escaped[] = {
		{"50!%", "50%", 1}, {"50!%", "500", 0}, {"50!%", "50!%", 0}, {"!_%", "_x", 1},
		{"!_%", "x", 0},    {"!!%", "!x", 1},   {"%!%%", "a%b", 1},  {"%!%%", "ab", 0},
	};

	(void)state;
	CHECK("color LIKE %0", rows);
	CHECK("color like %0 escape '!'", escaped);
	assert_int_equal(verdict("color LIKE '''%'", NULL, 0, "'RED"), 1);
	assert_int_equal(verdict("color NOT LIKE 'R%'", NULL, 0, "RED"), 0);
	assert_int_equal(verdict("NOT color LIKE 'R%'", NULL, 0, "BLUE"), 1);
	assert_int_equal(verdict("color LIKE 'a%%' ESCAPE '%'", NULL, 0, "a%"), 1);
}

static void match(void **state)
{
	static const struct row rows[] = {
		{"RED", "RED", 1},
		{"RED,BLUE", "BLUE", 1},
		{"RED,BLUE", "RED,BLUE", 0},
		{"R*,B*", "BLUE", 1},
		{"R*,B*", "GREEN", 0},
		{"R?D", "RED", 1},
		{"R?D", "RD", 0},
		{"*", "", 1},
		{"", "", 1},
		{"a,", "", 1},
		{",a", "a", 1},
		{"[RB]*", "BLUE", 1},
		{"[RB]*", "GREEN", 0},
		{"[!RB]*", "GREEN", 1},
		{"[^RB]*", "RED", 0},
		{"[A-F]*", "BLUE", 1},
		{"[A-F]*", "RED", 0},
		{"[!A-F]*", "RED", 1},
		{"[a-]x", "-x", 1},
		{"[]]", "]", 1},
		{"[!]]", "]", 0},
		{"[a,b]", ",", 1},
		{"x\\*", "x*", 1},
		{"x\\*", "xy", 0},
		{"x\\,y", "x,y", 1},
		{"\\[a]", "[a]", 1},
		{"[\\]]", "]", 1},
		/* Slashes separate parts that must all be there. */
		{"a/b", "a/b", 1},
		{"a/*", "a/b", 1},
		{"a/*", "a/b/c", 0},
		{"*", "a/b", 0},
		{"*/*", "a/b", 1},
		{"a?b", "a/b", 0},
		{"a[/]b", "a/b", 0},
		{"a[!x]b", "a/b", 0},
		{"*/b*,c", "a/bcd", 1},
		{"a/", "a/", 1},
		{"a/", "a", 0},
		{"a", "a/", 0},
		{"%", "%", 1},
		{"%_", "ab", 0},
	};

	(void)state;
	CHECK("color MATCH %0", rows);
	assert_int_equal(verdict("color NOT MATCH 'R*,G*'", NULL, 0, "BLUE"), 1);
	assert_int_equal(verdict("color NOT MATCH 'R*,G*'", NULL, 0, "RED"), 0);
}

static void lists(void **state)
{
	static const char *const parameters[] = {"RED", "5"};
	static const struct {
		const char *expression;
		int expected;
	} rows[] = {
		{"x IN (5)", 1},
		{"x IN (4, 5, 6)", 1},
		{"x IN (6,4,7,6)", 0},
		{"x IN (9, 8, 7, 6, 5, 4, 3, 2, 1, 0)", 1},
		{"x IN (10, 9, 8, 7, 6, 4, 3, 2, 1, 0)", 0},
		{"x NOT IN (4, 6)", 1},
		{"x NOT IN (5)", 0},
		{"NOT x IN (5, 6)", 0},
		{"x IN (5.0, 4.5)", 1},
		{"x IN (5.5, 99999999999999999999)", 0},
		{"x IN (%1, 7)", 1},
		{"x IN (0x5L, -3)", 1},
		{"color IN ('BLUE', 'RED', '')", 1},
		{"color IN ('BLUE', 'REDD', 'RE')", 0},
		{"color IN (%0)", 1},
		{"color NOT IN ('GREEN', %0)", 0},
		{"x IN (1) OR color IN ('RED') AND y IN (16)", 1},
		{"x IS NULL", 0},
		{"x IS NOT NULL", 1},
		{"NOT x IS NULL", 1},
		{"x is not null and color is null", 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (verdict(rows[i].expression, parameters, 2, "RED") != rows[i].expected)
			fail_msg("%s", rows[i].expression);
}

static void lists_of_all_kinds(void **state)
{
	static const struct filter_scalars s = {.b = true,
						.c = 'A',
						.e = 1,
						.m8 = 5,
						.s = "s",
						.t = (char *)"it's",
						.f64 = -0.0,
						.f32 = 0.1f,
						.i64 = INT64_MIN,
						.u64 = UINT64_MAX};
	static const struct {
		const char *expression;
		int expected;
	} rows[] = {
		{"b IN (TRUE)", 1},
		{"b IN (FALSE)", 0},
		{"c IN ('B', 'A')", 1},
		{"c NOT IN ('B', 'C')", 1},
		{"e IN ('CALM', 'BUSY')", 1},
		{"e IN (7, -3)", 0},
		{"m8 IN (1, 5)", 1},
		{"f64 IN (1, 0)", 1},
		{"f64 IN (1, 2)", 0},
		{"f32 IN (0.1, 5)", 0},
		{"f32 IN (0.1F, 5)", 1},
		{"t IN ('it''s', 'x')", 1},
		{"i64 IN (-9223372036854775808, 1)", 1},
		{"u64 IN (-1, 18446744073709551615)", 1},
		{"u64 IN (-1, 18446744073709551616)", 0},
	};
	uint8_t payload[1024];
	int n = apus_type_encode(&filter_scalars, &s, APUS_XCDR1, false, payload, sizeof(payload));

	(void)state;
	assert_true(n > 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct apus_filter_error error = {.reason = ""};
		struct apus_filter *f = NULL;

		if (apus_filter_open(&filter_scalars, rows[i].expression, NULL, 0, &f, &error) < 0)
			fail_msg("%s: %s", rows[i].expression, error.reason);
		if (apus_filter_match(f, payload, (size_t)n) != rows[i].expected)
			fail_msg("%s", rows[i].expression);
		apus_filter_close(f);
	}
}

/* A struct with one unbounded string. */
struct note {
	char *text;
};
static const struct apus_member note_members[] = {FILTER_MEMBER(note, text, &apus_type_string)};
static const struct apus_type note_type = FILTER_STRUCT(note, "Note", APUS_FINAL, note_members);

/* Compiles `pattern` as often repeated and matches it against `length` times 'a'; returns the verdict. */
static int explode(const char *op, const char *piece, size_t pieces, const char *tail,
		   size_t length)
{
	struct apus_ctl_filter_limits limits;
	struct apus_dp_predicate *p = NULL;
	struct apus_filter_error error = {.reason = ""};
	char *text = malloc(strlen(piece) * pieces + 100);
	uint8_t *payload = calloc(1, length + 16);
	uint32_t bytes = (uint32_t)length + 1;
	int result, at = sprintf(text, "text %s '", op);

	for (size_t i = 0; i < pieces; i++)
		at += sprintf(text + at, "%s", piece);
	sprintf(text + at, "%s'", tail);
	apus_ctl_filter_limits_default(&limits);
	limits.expression_bytes = APUS_CTL_FILTER_BYTES_MAX;
	result = apus_ctl_filter_compile(&note_type, text, NULL, 0, &limits, &p, &error);
	if (result == 0) {
		payload[1] = 1;
		memcpy(payload + 4, &bytes, 4);
		memset(payload + 8, 'a', length);
		result = (int)apus_dp_predicate_eval(p, payload, length + 9);
		apus_ctl_filter_free(p);
	}
	free(payload);
	free(text);
	return result;
}

static void patterns_do_not_explode(void **state)
{
	(void)state;
	assert_int_equal(explode("LIKE", "%a", 50000, "%b", PAYLOAD_MAX), APUS_DP_REJECT);
	assert_int_equal(explode("LIKE", "%a_", 20000, "%b", PAYLOAD_MAX), APUS_DP_REJECT);
	assert_int_equal(explode("LIKE", "%", 400000, "", PAYLOAD_MAX), APUS_DP_PASS);
	assert_int_equal(explode("LIKE", "a", 100000, "%b%", PAYLOAD_MAX), APUS_DP_REJECT);
	assert_int_equal(explode("LIKE", "a", 100000, "b%", 100000), APUS_DP_REJECT);
	assert_int_equal(explode("LIKE", "_", 8192, "", 8192), APUS_DP_PASS);
	assert_int_equal(explode("LIKE", "_", 8193, "", 8193), APUS_EFILTER);
	assert_int_equal(explode("LIKE", "%_", 50000, "", 50000), APUS_DP_PASS);
	assert_int_equal(explode("MATCH", "*[ab]", 30000, "*c", PAYLOAD_MAX), APUS_DP_REJECT);
	assert_int_equal(explode("MATCH", "*/", 100000, "*", PAYLOAD_MAX), APUS_DP_REJECT);
	assert_int_equal(explode("MATCH", "*a*b,", 60, "x", PAYLOAD_MAX), APUS_DP_REJECT);
	assert_int_equal(explode("MATCH", "*a*b,", 5000, "x", PAYLOAD_MAX), APUS_EFILTER);
	/* 63 varying characters and one that is not there, looked for everywhere. */
	assert_int_equal(
		explode("MATCH",
			"*???????????????????????????????????????????????????????????????b*", 1, "",
			PAYLOAD_MAX),
		APUS_DP_REJECT);
	assert_int_equal(
		explode("MATCH",
			"*????????????????????????????????????????????????????????????????b*", 1,
			"", 100),
		APUS_EFILTER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(like),
		cmocka_unit_test(match),
		cmocka_unit_test(lists),
		cmocka_unit_test(lists_of_all_kinds),
		cmocka_unit_test(patterns_do_not_explode),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
