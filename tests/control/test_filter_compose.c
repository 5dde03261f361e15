/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: predicates composed in code mean what their pieces say, and name and type errors show at once.
 * Method: pieces with their text, verdicts over samples beside those of an independent condition in C, and
 * one refusal for each rule.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <apus/predicate.h>
#include <locale.h>
#include <math.h>
#include <string.h>

#include "filter_types.h"

static const struct apus_value five = {.kind = APUS_VALUE_SIGNED, .i = 5};
static const struct apus_value nine = {.kind = APUS_VALUE_UNSIGNED, .u = 9};
static const struct apus_value red = {.kind = APUS_VALUE_TEXT, .text = "RED"};
static const struct apus_value y = {.kind = APUS_VALUE_MEMBER, .text = "y"};

static struct apus_predicate *ok(int result, struct apus_predicate **p)
{
	assert_int_equal(result, 0);
	return *p;
}

#define MAKE(call) ok(call, &p)

static void expect_text(struct apus_predicate *p, const char *text)
{
	assert_string_equal(apus_predicate_text(p), text);
	apus_predicate_free(p);
}

static void pieces_have_their_text(void **state)
{
	struct apus_predicate *p = NULL;
	struct apus_value list[] = {nine, five, {.kind = APUS_VALUE_FLOAT, .f = 0.1}};

	(void)state;
	expect_text(MAKE(apus_predicate_compare(&apus_shape_type, "x", APUS_LESS, &five, &p, NULL)),
		    "x < 5");
	expect_text(
		MAKE(apus_predicate_compare(&apus_shape_type, "x", APUS_NOT_EQUAL, &y, &p, NULL)),
		"x <> y");
	expect_text(MAKE(apus_predicate_between(&apus_shape_type, "x", &five, &y, &p, NULL)),
		    "x BETWEEN 5 AND y");
	expect_text(MAKE(apus_predicate_in(&apus_shape_type, "x", list, 3, &p, NULL)),
		    "x IN (9, 5, 0.10000000000000001)");
	expect_text(MAKE(apus_predicate_like(&apus_shape_type, "color", "it's%", 0, &p, NULL)),
		    "color LIKE 'it''s%'");
	expect_text(MAKE(apus_predicate_like(&apus_shape_type, "color", "!%", '!', &p, NULL)),
		    "color LIKE '!%' ESCAPE '!'");
	expect_text(MAKE(apus_predicate_match(&apus_shape_type, "color", "R*,B?", &p, NULL)),
		    "color MATCH 'R*,B?'");
	expect_text(MAKE(apus_predicate_is_null(&apus_shape_type, "x", &p, NULL)), "x IS NULL");
}

/* Text is the text of a value whatever it looks like: a quote cannot end it. */
static void values_cannot_be_more(void **state)
{
	struct apus_predicate *p = NULL;
	struct apus_value evil = {.kind = APUS_VALUE_TEXT, .text = "' OR x = 5 OR color = '"};

	(void)state;
	expect_text(MAKE(apus_predicate_compare(&apus_shape_type, "color", APUS_EQUAL, &evil, &p,
						NULL)),
		    "color = ''' OR x = 5 OR color = '''");
}

/* A member path is nothing more either, and it is said which character is none of one. */
static void members_cannot_be_more(void **state)
{
	static const struct {
		const char *member;
		uint32_t position, length;
	} cases[] = {{"x = 1 OR x", 1, 1}, {"", 0, 0},   {"1x", 0, 1},  {".x", 0, 1},
		     {"color'", 5, 1},     {"%0", 0, 1}, {"x\n", 1, 1}, {"[0]", 0, 1}};
	struct apus_value value = {.kind = APUS_VALUE_MEMBER};
	struct apus_filter_error error;
	struct apus_predicate *p = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memset(&error, 0xff, sizeof(error));
		assert_int_equal(apus_predicate_compare(&apus_shape_type, cases[i].member,
							APUS_EQUAL, &five, &p, &error),
				 APUS_EFILTER);
		assert_int_equal(error.position, cases[i].position);
		assert_int_equal(error.length, cases[i].length);
		assert_non_null(strstr(error.reason, "a member's path"));
		/* As a value: its place in "x < …". */
		value.text = cases[i].member;
		assert_int_equal(apus_predicate_compare(&apus_shape_type, "x", APUS_LESS, &value,
							&p, &error),
				 APUS_EFILTER);
		assert_int_equal(error.position, 4 + cases[i].position);
		assert_int_equal(apus_predicate_between(&apus_shape_type, cases[i].member, &five,
							&five, &p, NULL),
				 APUS_EFILTER);
		assert_int_equal(
			apus_predicate_is_null(&apus_shape_type, cases[i].member, &p, &error),
			APUS_EFILTER);
	}
	assert_int_equal(
		apus_predicate_compare(&apus_shape_type, NULL, APUS_EQUAL, &five, &p, &error),
		APUS_EINVAL);
	value.text = NULL;
	assert_int_equal(
		apus_predicate_compare(&apus_shape_type, "x", APUS_EQUAL, &value, &p, &error),
		APUS_EINVAL);
	assert_null(p);
}

static void values_are_exact(void **state)
{
	static const double floats[] = {0.1, -1.5, 1e300, 5e-324, 1.0 / 3, 123456789.0, -0.0};
	struct filter_scalars s = {.t = (char *)"", .u64 = UINT64_MAX, .i64 = INT64_MIN};
	struct apus_predicate *p = NULL;
	uint8_t payload[1024];

	(void)state;
	setlocale(LC_ALL, "de_DE.UTF-8"); /* where it exists, its decimal point is a comma */
	for (size_t i = 0; i < sizeof(floats) / sizeof(floats[0]); i++) {
		struct apus_value v = {.kind = APUS_VALUE_FLOAT, .f = floats[i]};
		struct apus_filter *f;
		int n;

		s.f64 = floats[i];
		n = apus_type_encode(&filter_scalars, &s, APUS_XCDR1, false, payload,
				     sizeof(payload));
		MAKE(apus_predicate_compare(&filter_scalars, "f64", APUS_EQUAL, &v, &p, NULL));
		assert_int_equal(apus_predicate_open(p, &f, NULL), 0);
		assert_int_equal(apus_filter_match(f, payload, (size_t)n), 1);
		apus_filter_close(f);
		apus_predicate_free(p);
	}
	setlocale(LC_ALL, "C");
}

static struct apus_predicate *leaf(const char *member, enum apus_compare_op op,
				   const struct apus_value *v)
{
	struct apus_predicate *p = NULL;

	return MAKE(apus_predicate_compare(&apus_shape_type, member, op, v, &p, NULL));
}

/* NOT (x > 5 OR color = RED) AND (x < y OR x = 9) */
static void joined_pieces_keep_their_meaning(void **state)
{
	struct apus_predicate *a = leaf("x", APUS_GREATER, &five),
			      *b = leaf("color", APUS_EQUAL, &red);
	struct apus_predicate *c = leaf("x", APUS_LESS, &y), *d = leaf("x", APUS_EQUAL, &nine);
	struct apus_predicate *ab, *cd, *not_ab, *all, *twice;
	struct apus_filter *f;

	(void)state;
	assert_int_equal(apus_predicate_either(a, b, &ab), 0);
	assert_int_equal(apus_predicate_either(c, d, &cd), 0);
	assert_int_equal(apus_predicate_not(ab, &not_ab), 0);
	assert_int_equal(apus_predicate_both(not_ab, cd, &all), 0);
	assert_string_equal(apus_predicate_text(all),
			    "NOT (x > 5 OR color = 'RED') AND (x < y OR x = 9)");
	assert_int_equal(apus_predicate_not(not_ab, &twice), 0);
	assert_string_equal(apus_predicate_text(twice), "NOT (NOT (x > 5 OR color = 'RED'))");
	assert_int_equal(apus_predicate_open(all, &f, NULL), 0);
	for (int32_t i = 0; i < 4 * 12; i++) {
		struct apus_shape s = {.x = i % 12, .y = 3 + i % 7};
		uint8_t payload[256];
		int n;

		strcpy(s.color, i & 1 ? "RED" : "BLUE");
		n = apus_type_encode(&apus_shape_type, &s, APUS_XCDR1, false, payload,
				     sizeof(payload));
		assert_int_equal(apus_filter_match(f, payload, (size_t)n),
				 !(s.x > 5 || (i & 1)) && (s.x < s.y || s.x == 9));
	}
	apus_filter_close(f);
	struct apus_predicate *made[] = {a, b, c, d, ab, cd, not_ab, all, twice};
	for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++)
		apus_predicate_free(made[i]);
}

/* A chain as long as the limit of comparisons does not nest. */
static void chains_do_not_nest(void **state)
{
	struct apus_predicate *chain = leaf("x", APUS_GREATER, &five), *next;
	struct apus_predicate *one = leaf("x", APUS_LESS, &nine);
	struct apus_filter *f;

	(void)state;
	for (int i = 1; i < 1024; i++) {
		assert_int_equal(apus_predicate_both(chain, one, &next), 0);
		apus_predicate_free(chain);
		chain = next;
	}
	assert_int_equal(apus_predicate_open(chain, &f, NULL), 0);
	apus_filter_close(f);
	apus_predicate_free(chain);
	apus_predicate_free(one);
}

static void refusals(void **state)
{
	struct apus_filter_error error = {.reason = ""};
	struct apus_predicate *p = NULL, *a = leaf("x", APUS_EQUAL, &five), *b = NULL;
	struct apus_value bad = {.kind = 99};

	(void)state;
	assert_int_equal(
		apus_predicate_compare(&apus_shape_type, "z", APUS_EQUAL, &five, &p, &error),
		APUS_EFILTER);
	assert_non_null(strstr(error.reason, "z"));
	assert_int_equal(
		apus_predicate_compare(&apus_shape_type, "x", APUS_EQUAL, &red, &p, &error),
		APUS_EFILTER);
	assert_non_null(strstr(error.reason, "no number"));
	assert_int_equal(apus_predicate_compare(&apus_shape_type, "x", 6, &five, &p, NULL),
			 APUS_EINVAL);
	assert_int_equal(apus_predicate_compare(&apus_shape_type, "x", APUS_EQUAL, &bad, &p, NULL),
			 APUS_EINVAL);
	bad = (struct apus_value){.kind = APUS_VALUE_FLOAT, .f = INFINITY};
	assert_int_equal(apus_predicate_compare(&apus_shape_type, "x", APUS_EQUAL, &bad, &p, NULL),
			 APUS_EINVAL);
	bad = (struct apus_value){.kind = APUS_VALUE_TEXT};
	assert_int_equal(
		apus_predicate_compare(&apus_shape_type, "color", APUS_EQUAL, &bad, &p, NULL),
		APUS_EINVAL);
	assert_int_equal(apus_predicate_compare(&apus_shape_type, "x", APUS_EQUAL, NULL, &p, NULL),
			 APUS_EINVAL);
	assert_int_equal(apus_predicate_compare(NULL, "x", APUS_EQUAL, &five, &p, NULL),
			 APUS_EINVAL);
	assert_int_equal(apus_predicate_in(&apus_shape_type, "x", &five, 0, &p, NULL), APUS_EINVAL);
	assert_int_equal(apus_predicate_in(&apus_shape_type, "x", &y, 1, &p, &error), APUS_EFILTER);
	assert_int_equal(apus_predicate_like(&apus_shape_type, "x", "%", 0, &p, &error),
			 APUS_EFILTER);
	assert_int_equal(apus_predicate_both(a, NULL, &p), APUS_EINVAL);
	assert_int_equal(
		apus_predicate_compare(&filter_scalars, "i32", APUS_EQUAL, &five, &b, NULL), 0);
	assert_int_equal(apus_predicate_either(a, b, &p), APUS_EINVAL); /* of two types */
	assert_null(p);
	apus_predicate_free(a);
	apus_predicate_free(b);
	apus_predicate_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_have_their_text),
		cmocka_unit_test(values_cannot_be_more),
		cmocka_unit_test(members_cannot_be_more),
		cmocka_unit_test(values_are_exact),
		cmocka_unit_test(joined_pieces_keep_their_meaning),
		cmocka_unit_test(chains_do_not_nest),
		cmocka_unit_test(refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
