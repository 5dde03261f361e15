/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: an index of filters answers exactly what evaluating each would, whatever their shapes, and looks at
 * few of them; the term chosen for a filter is one without which it cannot pass.
 * Method: expressions with the term expected; then thousands of filters made from templates, and samples
 * over the whole range, each compared with one evaluation a filter.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/filter_index.h"
#include "dataplane/filter_index.h"
#include "dataplane/predicate_program.h"

#include "filter_types.h"

struct made {
	struct apus_dp_predicate *predicate;
	struct apus_ctl_filter_term term;
};

static struct made make(const struct apus_type *type, const char *expression)
{
	struct apus_filter_error error = {.reason = ""};
	struct made m;

	if (apus_ctl_filter_compile_term(type, expression, NULL, 0, NULL, &m.predicate, &m.term,
					 &error) != 0)
		fail_msg("%s: %s", expression, error.reason);
	return m;
}

static void terms_are_the_most_selective(void **state)
{
	static const struct {
		const char *expression;
		uint8_t kind;
		uint16_t member; /* of ShapeType */
	} rows[] = {
		{"color = 'RED'", APUS_CTL_TERM_TEXTS, 0},
		{"x = 5", APUS_CTL_TERM_NUMBERS, 1},
		{"x > 5", APUS_CTL_TERM_RANGE, 1},
		{"x > 5 AND y = 3", APUS_CTL_TERM_NUMBERS, 2},
		{"x = 5 AND color = 'RED'", APUS_CTL_TERM_TEXTS, 0},
		{"x = 5 AND color IN ('RED', 'BLUE')", APUS_CTL_TERM_NUMBERS, 1},
		{"x IN (1, 2, 3)", APUS_CTL_TERM_NUMBERS, 1},
		{"color IN ('RED', 'BLUE')", APUS_CTL_TERM_TEXTS, 0},
		{"x BETWEEN 1 AND 1000 AND y BETWEEN 5 AND 9", APUS_CTL_TERM_RANGE, 2},
		{"(x = 1 OR y = 2) AND shapesize = 3", APUS_CTL_TERM_NUMBERS, 3},
		{"shapesize = 3 AND (x = 1 OR y = 2)", APUS_CTL_TERM_NUMBERS, 3},
		{"color LIKE 'RED' AND x > 5", APUS_CTL_TERM_TEXTS, 0},
		/* Nothing must hold. */
		{"x = 1 OR y = 2", APUS_CTL_TERM_NONE, 0},
		{"x = 1 OR x = 2", APUS_CTL_TERM_NONE, 0},
		{"x <> 5", APUS_CTL_TERM_NONE, 0},
		{"NOT x = 5", APUS_CTL_TERM_NONE, 0},
		{"NOT (x <> 5)", APUS_CTL_TERM_NONE, 0}, /* true without an x */
		{"color <> 'RED'", APUS_CTL_TERM_NONE, 0},
		{"color > 'RED'", APUS_CTL_TERM_NONE, 0},
		{"color LIKE 'R%'", APUS_CTL_TERM_NONE, 0},
		{"x < y", APUS_CTL_TERM_NONE, 0},
		{"x IS NOT NULL", APUS_CTL_TERM_NONE, 0},
		{"x IS NULL", APUS_CTL_TERM_NONE, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct made m = make(&apus_shape_type, rows[i].expression);

		if (m.term.kind != rows[i].kind)
			fail_msg("%s: kind %d", rows[i].expression, m.term.kind);
		if (m.term.kind != APUS_CTL_TERM_NONE &&
		    m.term.path.leaf != apus_shape_type.members[rows[i].member].type)
			fail_msg("%s: another member", rows[i].expression);
		apus_ctl_filter_free(m.predicate);
	}
}

static void ranges_of_one_field_join(void **state)
{
	struct made m = make(&apus_shape_type, "x >= 10 AND y > 0 AND x < 20");

	(void)state;
	assert_int_equal(m.term.kind, APUS_CTL_TERM_RANGE);
	assert_int_equal(m.term.low, apus_dp_key_signed(10));
	assert_int_equal(m.term.high, apus_dp_key_signed(19));
	apus_ctl_filter_free(m.predicate);
}

/* ---- beside one evaluation a filter ------------------------------------------------------------- */

#define FILTERS 3000

static void expression_of(uint32_t i, char *out, size_t room)
{
	int n = (int)(i / 12);

	switch (i % 12) {
	case 0: snprintf(out, room, "color = 'X%04d'", n); break;
	case 1: snprintf(out, room, "x = %d", n); break;
	case 2: snprintf(out, room, "x BETWEEN %d AND %d", 10 * n, 10 * n + 9); break;
	case 3: snprintf(out, room, "x > %d AND x < %d AND y = 1", n - 50, n * 3); break;
	case 4: snprintf(out, room, "color IN ('X%04d', 'X%04d', 'X%04d')", n, n + 1, n); break;
	case 5: snprintf(out, room, "x IN (%d, %d, %d) OR y = %d", n, n + 5, -n, n); break;
	case 6: snprintf(out, room, "x IN (%d, %d, %d)", n, n + 5, -n); break;
	case 7: snprintf(out, room, "y < %d AND color <> 'X%04d'", n, n); break;
	case 8: snprintf(out, room, "color = 'X%04d' AND x > y", n); break;
	case 9: snprintf(out, room, "shapesize >= %d", 20 * n); break;
	case 10: snprintf(out, room, "NOT (x < %d OR x > %d)", n, n + 3); break;
	default: snprintf(out, room, "color LIKE 'X%03d%%'", n); break;
	}
}

static void compare(const struct apus_dp_filter_index *index, const uint8_t *payload, size_t bytes,
		    uint32_t *passed)
{
	uint32_t count = apus_dp_filter_index_match(index, payload, bytes, passed, NULL);
	bool got[FILTERS] = {false};

	for (uint32_t i = 0; i < count; i++) {
		assert_true(passed[i] < index->filter_count);
		assert_false(got[passed[i]]);
		got[passed[i]] = true;
	}
	for (uint32_t i = 0; i < index->filter_count; i++) {
		bool wanted =
			apus_dp_predicate_eval(index->filters[i], payload, bytes) != APUS_DP_REJECT;

		if (wanted != got[i])
			fail_msg("filter %u: %d", i, got[i]);
	}
}

static void same_as_one_by_one(void **state)
{
	static struct made made[FILTERS];
	static struct apus_ctl_index_filter filters[FILTERS];
	struct apus_dp_filter_index *index;
	uint32_t passed[FILTERS];
	uint8_t payload[256];
	int n = 0;
	bool unsure = false;

	(void)state;
	for (uint32_t i = 0; i < FILTERS; i++) {
		char text[128];

		expression_of(i, text, sizeof(text));
		made[i] = make(&apus_shape_type, text);
		filters[i] = (struct apus_ctl_index_filter){made[i].predicate, &made[i].term};
	}
	assert_int_equal(apus_ctl_filter_index_build(&apus_shape_type, filters, FILTERS, &index),
			 0);
	assert_int_equal(index->rest_count, FILTERS / 12 * 3); /* shapes 5, 10, 11 */
	srand(7);
	for (int i = 0; i < 3000; i++) {
		struct apus_shape s = {.x = rand() % 3200 - 300,
				       .y = rand() % 300 - 10,
				       .shapesize = rand() % 6000};

		snprintf(s.color, sizeof(s.color), "X%04d", rand() % 260);
		n = apus_type_encode(&apus_shape_type, &s, i & 1 ? APUS_XCDR1 : APUS_XCDR2, false,
				     payload, sizeof(payload));
		compare(index, payload, (size_t)n, passed);
	}
	/* Bytes that hold no sample pass: whoever the filters are for decides. */
	assert_int_equal(apus_dp_filter_index_match(index, payload, 7, passed, &unsure), FILTERS);
	assert_true(unsure);
	apus_ctl_filter_index_free(index);
	for (uint32_t i = 0; i < FILTERS; i++)
		apus_ctl_filter_free(made[i].predicate);
}

/* Floats: both zeros, NaN; an enum; a bool: every kind of number is a column. */
static void all_kinds_of_number(void **state)
{
	static const char *const texts[] = {
		"f64 = 0",         "f64 > 1.5",   "f32 BETWEEN -1 AND 1",
		"e = 'BUSY'",      "b = TRUE",    "u64 = 18446744073709551615",
		"i64 < 0",         "c = 'A'",     "m8 = 5",
		"i8 IN (-1, 1)",   "f64 <> 3",    "t = 'it''s'",
		"f64 IN (0, 1.5)", "u16 = 70000", "i8 > 5 AND i8 < 3"};
	static const double doubles[] = {0.0, -0.0, 1.5, 1.6, __builtin_nan(""), -5};
	enum { COUNT = sizeof(texts) / sizeof(texts[0]) };
	struct made made[COUNT];
	struct apus_ctl_index_filter filters[COUNT];
	struct apus_dp_filter_index *index;
	uint32_t passed[COUNT];

	(void)state;
	for (uint32_t i = 0; i < COUNT; i++) {
		made[i] = make(&filter_scalars, texts[i]);
		filters[i] = (struct apus_ctl_index_filter){made[i].predicate, &made[i].term};
	}
	assert_int_equal(apus_ctl_filter_index_build(&filter_scalars, filters, COUNT, &index), 0);
	for (uint32_t i = 0; i < 60; i++) {
		struct filter_scalars s = {.f64 = doubles[i % 6],
					   .f32 = (float)doubles[i / 6 % 6],
					   .e = (int32_t)(i % 3),
					   .b = i & 1,
					   .c = i & 2 ? 'A' : 'B',
					   .u64 = i & 4 ? UINT64_MAX : 0,
					   .i64 = i & 8 ? -1 : 1,
					   .m8 = i & 16 ? 5 : 4,
					   .i8 = (int8_t)(i % 5 - 2),
					   .t = (char *)(i & 1 ? "it's" : "")};
		uint8_t payload[512];
		int n = apus_type_encode(&filter_scalars, &s, APUS_XCDR1, false, payload,
					 sizeof(payload));

		assert_true(n > 0);
		compare(index, payload, (size_t)n, passed);
	}
	apus_ctl_filter_index_free(index);
	for (uint32_t i = 0; i < COUNT; i++)
		apus_ctl_filter_free(made[i].predicate);
}

static void nothing_to_index(void **state)
{
	struct made m = make(&apus_shape_type, "x <> 5");
	struct apus_ctl_index_filter filter = {m.predicate, &m.term};
	struct apus_shape s = {.x = 5};
	struct apus_dp_filter_index *index;
	uint8_t payload[256];
	uint32_t passed[1];
	int n;

	(void)state;
	assert_int_equal(apus_ctl_filter_index_build(&apus_shape_type, &filter, 0, &index), 0);
	n = apus_type_encode(&apus_shape_type, &s, APUS_XCDR1, false, payload, sizeof(payload));
	assert_int_equal(apus_dp_filter_index_match(index, payload, (size_t)n, passed, NULL), 0);
	apus_ctl_filter_index_free(index);
	assert_int_equal(apus_ctl_filter_index_build(&apus_shape_type, &filter, 1, &index), 0);
	assert_null(index->locator);
	assert_int_equal(apus_dp_filter_index_match(index, payload, (size_t)n, passed, NULL), 0);
	apus_ctl_filter_index_free(index);
	apus_ctl_filter_free(m.predicate);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(terms_are_the_most_selective),
		cmocka_unit_test(ranges_of_one_field_join),
		cmocka_unit_test(same_as_one_by_one),
		cmocka_unit_test(all_kinds_of_number),
		cmocka_unit_test(nothing_to_index),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
