/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: whatever the filter compiler does not understand is refused where it stands, with a reason, and
 * hostile text costs no more than its length.
 * Method: tables of expressions with position, length and a part of the reason; long repetitions.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/filter.h"

#include "filter_types.h"

/* ---- refusals ---------------------------------------------------------------------------------- */

struct refusal {
	const char *expression;
	uint32_t position, length;
	const char *reason; /* a part of it */
};

static void check_refusals(const struct apus_type *type, const struct refusal *rows, size_t count)
{
	static const char *const parameters[] = {"1", "'open", "abc", "'RED' ",
						 "0x1ffffffffffffffff"};

	for (size_t i = 0; i < count; i++) {
		struct apus_filter *filter = (struct apus_filter *)&filter;
		struct apus_filter_error error = {0};
		int result =
			apus_filter_open(type, rows[i].expression, parameters, 5, &filter, &error);

		if (result != APUS_EFILTER || error.position != rows[i].position ||
		    error.length != rows[i].length || !strstr(error.reason, rows[i].reason))
			fail_msg("%s: %d at %u, %u: %s", rows[i].expression, result, error.position,
				 error.length, error.reason);
		assert_ptr_equal(filter, &filter);
	}
}

#define CHECK_REFUSALS(type, rows) check_refusals(type, rows, sizeof(rows) / sizeof(rows[0]))

static void grammar_is_refused(void **state)
{
	static const struct refusal rows[] = {
		{"", 0, 0, "empty"},
		{"  \t", 0, 0, "empty"},
		{"x", 1, 0, "comparison is expected at the end"},
		{"x =", 3, 0, "at the end"},
		{"= 5", 0, 1, "a condition is expected"},
		{"x = 5 6", 6, 1, "AND, OR or the end"},
		{"x = 5 y = 6", 6, 1, "AND, OR or the end"},
		{"x = 5 AND", 9, 0, "a condition is expected at the end"},
		{"x = 5 AND OR y = 6", 10, 2, "a condition is expected, not 'OR'"},
		{"AND x = 5", 0, 3, "a condition"},
		{"x = 5 OR ()", 10, 1, "a condition"},
		{"(x = 5", 0, 1, "never closed"},
		{"x = 1 OR ((x = 5)", 9, 1, "never closed"},
		{"x = 5)", 5, 1, "closes nothing"},
		{"(x = 5))", 7, 1, "closes nothing"},
		{"x = (5)", 4, 1, "a member, a value or a parameter"},
		{"(x) = 5", 2, 1, "a comparison"},
		{"NOT", 3, 0, "a condition"},
		{"NOT AND x = 5", 4, 3, "a condition"},
		{"x NOT 5", 6, 1, "BETWEEN, LIKE, MATCH or IN"},
		{"x NOT = 5", 6, 1, "BETWEEN, LIKE, MATCH or IN"},
		{"x BETWEEN 3", 11, 0, "the AND of the range"},
		{"x BETWEEN 3 OR 4", 12, 2, "the AND of the range"},
		{"x BETWEEN AND 4", 10, 3, "a member, a value"},
		{"x BETWEEN 3 AND", 15, 0, "a member, a value"},
		{"5 BETWEEN 3 AND 7", 0, 1, "a member is expected before"},
		{"x = color = 3", 10, 1, "AND, OR or the end"},
		{"x < 3 < 4", 6, 1, "AND, OR or the end"},
		{"x LIKE 'R%'", 0, 1, "a pattern is for strings"},
		{"color LIKE", 10, 0, "at the end"},
		{"color LIKE color", 11, 5, "a pattern is a constant"},
		{"color LIKE 5", 11, 1, "is no string"},
		{"'RED' LIKE 'R%'", 0, 5, "a member is expected before"},
		{"color LIKE 'R' ESCAPE", 21, 0, "at the end"},
		{"color LIKE 'R' ESCAPE ''", 22, 2, "one character"},
		{"color LIKE 'R' ESCAPE 'ab'", 22, 4, "one character"},
		{"color LIKE 'R' ESCAPE color", 22, 5, "a constant"},
		{"color LIKE 'R!' ESCAPE '!'", 11, 4, "nothing follows the escape"},
		{"color LIKE 'R!x' ESCAPE '!'", 11, 5, "protects %, _ and itself"},
		{"color MATCH 'R*' ESCAPE '!'", 17, 6, "MATCH has no ESCAPE"},
		{"color MATCH '[a'", 12, 4, "never closed"},
		{"color MATCH '[]'", 12, 4, "never closed"},
		{"color MATCH '[z-a]'", 12, 7, "ends before it begins"},
		{"color MATCH 'a\\'", 12, 4, "nothing follows the backslash"},
		{"x in 1", 5, 1, "the '(' of the list"},
		{"x in ()", 6, 1, "a member, a value"},
		{"x in (1,)", 8, 1, "a member, a value"},
		{"x in (1 2)", 8, 1, "',' or the ')'"},
		{"x in (1", 7, 0, "',' or the ')'"},
		{"x in (1, y)", 9, 1, "values and parameters only"},
		{"x in (1, 'A')", 9, 3, "is no number"},
		{"color in ('A', 1)", 15, 1, "is no string"},
		{"5 in (1)", 0, 1, "a member is expected before"},
		{"x IS", 4, 0, "NULL or NOT NULL"},
		{"x IS 5", 5, 1, "NULL or NOT NULL"},
		{"x IS NOT 5", 9, 1, "NULL is expected"},
		{"x NOT IS NULL", 6, 2, "BETWEEN, LIKE, MATCH or IN"},
		{"5 IS NULL", 0, 1, "a member is expected before"},
		{"x, y = 5", 1, 1, "a comparison is expected"},
		{"x = NULL", 4, 4, "a member, a value"},
	};

	(void)state;
	CHECK_REFUSALS(&apus_shape_type, rows);
}

static void tokens_are_refused(void **state)
{
	static const struct refusal rows[] = {
		{"color = 'RED", 8, 4, "never closed"},
		{"color = 'RE''", 8, 5, "never closed"},
		{"color = \"RED\"", 8, 1, "unexpected character"},
		{"x & 5", 2, 1, "unexpected character '&'"},
		{"x = 5;", 5, 1, "unexpected character ';'"},
		{"x ! 5", 2, 1, "unexpected character '!'"},
		{"x = - 5", 4, 1, "unexpected character '-'"},
		{"x = 5x", 4, 2, "malformed number"},
		{"x = 0x", 4, 2, "malformed number"},
		{"x = 1.2.3", 4, 5, "malformed number"},
		{"x = 1e", 4, 2, "malformed number"},
		{"x = 1.5L", 4, 4, "malformed number"},
		{"x = %100", 4, 4, "%0 to %99"},
		{"x = %", 4, 1, "%0 to %99"},
		{"x = %a", 4, 1, "%0 to %99"},
		{"x[0] = 5", 1, 1, "no array or sequence"},
		{"x[ = 5", 1, 1, "an index is a number"},
		{"x[] = 5", 1, 1, "an index is a number"},
		{"x[-1] = 5", 1, 1, "an index is a number"},
		{"x[y] = 5", 1, 1, "an index is a number"},
		{"x[1 = 5", 1, 2, "an index is a number"},
		{"x[1]y = 5", 4, 1, "a comparison is expected"},
		{"x. = 5", 1, 1, "after '.'"},
		{"\xc3\xa9 = 5", 0, 1, "unexpected character '?'"},
		{"x = 0x10000000000000000", 4, 19, "at most 64 bits"},
		{"x = 1e39F", 4, 5, "does not fit a float"},
	};

	(void)state;
	CHECK_REFUSALS(&apus_shape_type, rows);
}

static void operands_are_refused(void **state)
{
	static const struct refusal rows[] = {
		{"z = 5", 0, 1, "ShapeType has no member 'z'"},
		{"X = 5", 0, 1, "no member 'X'"},
		{"x = 5 AND x = zz", 14, 2, "no member 'zz'"},
		{"x.y = 5", 2, 1, "in no struct or union"},
		{"x = 'RED'", 4, 5, "''RED'' is no number"},
		{"x = TRUE", 4, 4, "is no number"},
		{"color = 5", 8, 1, "is no string"},
		{"color = TRUE", 8, 4, "is no string"},
		{"x = color", 4, 5, "an integer cannot be compared with a string"},
		{"5 = 5", 0, 5, "a member on one side"},
		{"%0 = 'x'", 0, 8, "a member on one side"},
		{"x = %5", 4, 2, "parameter 5 is missing: 5 given"},
		{"color = %99", 8, 3, "parameter 99 is missing"},
		{"color = %1", 8, 2, "parameter 1, ''open', is no well-formed quoted text"},
		{"color = %3", 8, 2, "quoted text"},
		{"x = %2", 4, 2, "parameter 2, 'abc', is no number"},
		{"x = %4", 4, 2, "at most 64 bits"},
		{"x BETWEEN 1 AND 'B'", 16, 3, "is no number"},
		{"color BETWEEN 'A' AND 3", 22, 1, "is no string"},
	};

	(void)state;
	CHECK_REFUSALS(&apus_shape_type, rows);
}

/* No test holds for an optional member that is absent; what follows it is found. */
static void optional_members_are_compared(void **state)
{
	static const struct apus_member members[] = {
		{.name = "a", .type = &apus_type_int32},
		{.name = "o",
		 .type = &apus_type_int32,
		 .id = 1,
		 .offset_bytes = 8,
		 .optional = true},
		{.name = "b", .type = &apus_type_int32, .id = 2, .offset_bytes = 16},
	};
	static const struct apus_type type = {.kind = APUS_KIND_STRUCT,
					      .name = "T",
					      .size_bytes = 24,
					      .align_bytes = 8,
					      .members = members,
					      .member_count = 3};
	/* CDR_LE: a 1, the header of o (4 or 0 bytes), o 1, b 1. */
	static const uint8_t with[] = {0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 4, 0, 1, 0, 0, 0, 1, 0, 0, 0};
	static const uint8_t without[] = {0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0};
	static const struct {
		const char *expression;
		int with, without;
	} rows[] = {{"a = 1", 1, 1},
		    {"o = 1", 1, 0},
		    {"o < 9", 1, 0},
		    {"o = a", 1, 0},
		    {"b = 1", 1, 1}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct apus_filter *filter;

		assert_int_equal(
			apus_filter_open(&type, rows[i].expression, NULL, 0, &filter, NULL), 0);
		assert_int_equal(apus_filter_match(filter, with, sizeof(with)), rows[i].with);
		assert_int_equal(apus_filter_match(filter, without, sizeof(without)),
				 rows[i].without);
		apus_filter_close(filter);
	}
}

static void kinds_are_refused(void **state)
{
	static const struct refusal rows[] = {
		{"b < TRUE", 4, 4, "no order"},     {"b = 1", 4, 1, "no boolean"},
		{"b = 'TRUE'", 4, 6, "no boolean"}, {"b BETWEEN FALSE AND TRUE", 0, 1, "no range"},
		{"c = ''", 4, 2, "single char"},    {"c = 'AB'", 4, 4, "single char"},
		{"c = 65", 4, 2, "no char"},        {"c = s", 4, 1, "a char cannot be compared"},
		{"e = 'busy'", 4, 6, "no label"},   {"e = 1.0", 4, 3, "label or integer"},
		{"e = f64", 4, 3, "a float"},       {"i32 = 'BUSY'", 6, 6, "no number"},
		{"m8 = 1.0", 5, 3, "no integer"},   {"m8 = m64", 5, 3, "a bitmask"},
		{"b = i8", 4, 2, "a boolean"},
	};
	static const struct refusal deep[] = {
		{"in = 5", 0, 2, "a condition is expected"},
		{"ina = 5", 0, 3, "cannot be compared"},
		{"v = 5", 0, 1, "cannot be compared"},
		{"ina.x = 5", 4, 1, "Open has no member 'x'"},
		{"v.size = 5", 2, 4, "only its length has a name"},
		{"head.x = 5", 5, 1, "only its length has a name"},
	};

	(void)state;
	/* A member path is no keyword even if its first name is one. */
	assert_int_equal(apus_filter_check(&filter_deep, "in.p = 5", NULL, 0, NULL), 0);
	CHECK_REFUSALS(&filter_scalars, rows);
	for (size_t i = 0; i < sizeof(deep) / sizeof(deep[0]); i++) {
		struct apus_filter_error error = {0};

		/* "in" alone is the keyword. */
		assert_int_equal(
			apus_filter_check(&filter_deep, deep[i].expression, NULL, 0, &error),
			APUS_EFILTER);
		if (i > 0) {
			assert_int_equal(error.position, deep[i].position);
			assert_int_equal(error.length, deep[i].length);
			assert_non_null(strstr(error.reason, deep[i].reason));
		}
	}
}

/* ---- limits and hostile input ------------------------------------------------------------------ */

static char *repeated(const char *piece, size_t count, const char *tail)
{
	size_t bytes = strlen(piece);
	char *text = malloc(bytes * count + strlen(tail) + 1);

	assert_non_null(text);
	for (size_t i = 0; i < count; i++)
		memcpy(text + i * bytes, piece, bytes);
	strcpy(text + bytes * count, tail);
	return text;
}

static int compile(const char *expression, const struct apus_ctl_filter_limits *limits,
		   struct apus_filter_error *error)
{
	struct apus_dp_predicate *predicate = NULL;
	int result = apus_ctl_filter_compile(&apus_shape_type, expression, NULL, 0, limits,
					     &predicate, error);

	apus_ctl_filter_free(predicate);
	return result;
}

static void nesting_is_bounded(void **state)
{
	struct apus_ctl_filter_limits limits;
	struct apus_filter_error error;
	char *text;

	(void)state;
	apus_ctl_filter_limits_default(&limits);
	limits.expression_bytes = APUS_CTL_FILTER_BYTES_MAX;
	text = repeated("(", 100000, "x = 5");
	assert_int_equal(compile(text, &limits, &error), APUS_EFILTER);
	assert_int_equal(error.position, 64);
	assert_int_equal(error.length, 1);
	assert_string_equal(error.reason, "nested deeper than 64 levels");
	free(text);
	text = repeated("NOT ", 50000, "x = 5");
	assert_int_equal(compile(text, &limits, &error), APUS_EFILTER);
	assert_int_equal(error.position, 64 * 4);
	free(text);
	text = repeated("NOT(", 50000, "x = 5");
	assert_int_equal(compile(text, &limits, &error), APUS_EFILTER);
	assert_int_equal(error.position, 128);
	free(text);
	/* Exactly the limit compiles; depth given back counts no more. */
	text = repeated("NOT ", 64, "x = 5");
	assert_int_equal(compile(text, &limits, &error), 0);
	free(text);
	text = repeated("(x = 5) AND ", 63, "NOT (x = 5)");
	assert_int_equal(compile(text, &limits, &error), 0);
	free(text);
	limits.depth = 2;
	assert_int_equal(compile("(NOT x = 5)", &limits, &error), 0);
	assert_int_equal(compile("(NOT (x = 5))", &limits, &error), APUS_EFILTER);
	assert_int_equal(error.position, 5);
}

static void counts_are_bounded(void **state)
{
	struct apus_ctl_filter_limits limits;
	struct apus_filter_error error;
	char *text = repeated("x = 5 AND ", 64, "x = 5");

	(void)state;
	assert_int_equal(compile(text, NULL, &error), APUS_EFILTER);
	assert_int_equal(error.position, 640);
	assert_non_null(strstr(error.reason, "more than 64"));
	apus_ctl_filter_limits_default(&limits);
	limits.predicate_count = 65;
	assert_int_equal(compile(text, &limits, &error), 0);
	limits.expression_bytes = (uint32_t)strlen(text);
	assert_int_equal(compile(text, &limits, &error), 0);
	limits.expression_bytes--;
	assert_int_equal(compile(text, &limits, &error), APUS_EFILTER);
	assert_int_equal(error.position, limits.expression_bytes);
	free(text);
	/* An alternative of a pattern counts as a comparison. */
	apus_ctl_filter_limits_default(&limits);
	limits.predicate_count = 3;
	assert_int_equal(compile("color MATCH 'a*,b*,c*'", &limits, &error), 0);
	assert_int_equal(compile("color MATCH 'a*,b*,c*,d*'", &limits, &error), APUS_EFILTER);
	assert_int_equal(compile("x = 1 AND color MATCH 'a*,b*,c*'", &limits, &error),
			 APUS_EFILTER);
	assert_non_null(strstr(error.reason, "more comparisons and alternatives"));
	limits.depth = 65;
	assert_int_equal(compile("x = 5", &limits, &error), APUS_EINVAL);
	apus_ctl_filter_limits_default(&limits);
	limits.predicate_count = 0;
	assert_int_equal(compile("x = 5", &limits, &error), APUS_EINVAL);
}

static void parameters_are_bounded(void **state)
{
	const char *parameters[101];
	struct apus_filter_error error;
	char *text = repeated("a", 1025, "");

	(void)state;
	for (int i = 0; i < 101; i++)
		parameters[i] = "7";
	assert_int_equal(apus_filter_check(&apus_shape_type, "x = %99", parameters, 100, &error),
			 0);
	assert_int_equal(apus_filter_check(&apus_shape_type, "x = 1", parameters, 101, &error),
			 APUS_EFILTER);
	parameters[3] = text;
	assert_int_equal(apus_filter_check(&apus_shape_type, "x = 1", parameters, 4, &error),
			 APUS_EFILTER);
	assert_non_null(strstr(error.reason, "parameter 3"));
	parameters[3] = text + 1;
	assert_int_equal(apus_filter_check(&apus_shape_type, "color = %3 OR color < %3", parameters,
					   4, &error),
			 0);
	parameters[3] = NULL;
	assert_int_equal(apus_filter_check(&apus_shape_type, "x = 1", parameters, 4, &error),
			 APUS_EINVAL);
	free(text);
}

static void arguments_are_checked(void **state)
{
	struct apus_filter *filter;

	(void)state;
	assert_int_equal(apus_filter_check(NULL, "x = 1", NULL, 0, NULL), APUS_EINVAL);
	assert_int_equal(apus_filter_check(&apus_type_int32, "x = 1", NULL, 0, NULL), APUS_EINVAL);
	assert_int_equal(apus_filter_check(&apus_shape_type, NULL, NULL, 0, NULL), APUS_EINVAL);
	assert_int_equal(apus_filter_check(&apus_shape_type, "x = %0", NULL, 1, NULL), APUS_EINVAL);
	assert_int_equal(apus_filter_open(&apus_shape_type, "x = 1", NULL, 0, NULL, NULL),
			 APUS_EINVAL);
	assert_int_equal(apus_filter_open(&apus_shape_type, "x =", NULL, 0, &filter, NULL),
			 APUS_EFILTER);
	apus_filter_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grammar_is_refused),
		cmocka_unit_test(tokens_are_refused),
		cmocka_unit_test(operands_are_refused),
		cmocka_unit_test(kinds_are_refused),
		cmocka_unit_test(nesting_is_bounded),
		cmocka_unit_test(counts_are_bounded),
		cmocka_unit_test(parameters_are_bounded),
		cmocka_unit_test(arguments_are_checked),
		cmocka_unit_test(optional_members_are_compared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
