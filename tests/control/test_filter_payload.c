/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: filters over payloads that are cut short, malformed, or of an older version of the type give
 * the verdict their bytes deserve and never read beyond them.
 * Method: payloads by hand and cut at every length, each in a block of exactly its size, so that
 * AddressSanitizer sees any byte too many.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <apus/filter.h>
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

/* Rows of expression and expected result. */
struct row {
	const char *expression;
	int expected;
};

static const struct apus_shape red = {"RED", 5, 16, 30};

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

/* ---- payloads ---------------------------------------------------------------------------------- */

/* Cut at every length: malformed up to the end of the last member needed, then as the whole. The copy
 * has exactly that size, so that AddressSanitizer sees a read beyond it. */
static void truncated_payloads(void **state)
{
	static const struct {
		const char *expression;
		size_t needed; /* of a 24-byte payload: header 4, string 8, x, y, shapesize */
	} rows[] = {{"color = 'RED'", 12},
		    {"x = 5", 16},
		    {"x = 5 OR color = 'RED'", 16},
		    {"y = 16", 20},
		    {"shapesize = 30 AND x = 5", 24}};
	uint8_t payload[PAYLOAD_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct apus_filter *filter;

		assert_int_equal(apus_filter_open(&apus_shape_type, rows[i].expression, NULL, 0,
						  &filter, NULL),
				 0);
		for (int form = 0; form < 4; form++) {
			size_t bytes = encode(&apus_shape_type, &red, form, payload);

			assert_int_equal(bytes, 24);
			for (size_t n = 0; n <= bytes; n++) {
				uint8_t *cut = malloc(n ? n : 1);

				memcpy(cut, payload, n);
				assert_int_equal(apus_filter_match(filter, cut, n),
						 n < rows[i].needed ? APUS_EENCODING : 1);
				free(cut);
			}
		}
		apus_filter_close(filter);
	}
}

static void malformed_payloads(void **state)
{
	static const struct {
		const char *expression;
		uint8_t bytes[28];
		size_t count;
	} rows[] = {
		/* unknown encapsulations, parameter lists, a delimited header for a final type */
		{"x = 5", {0, 2, 0, 0, 4, 0, 0, 0, 'R', 'E', 'D', 0, 5}, 24},
		{"x = 5", {0, 3, 0, 0, 4, 0, 0, 0, 'R', 'E', 'D', 0, 5}, 24},
		{"x = 5", {1, 1, 0, 0, 4, 0, 0, 0, 'R', 'E', 'D', 0, 5}, 24},
		{"x = 5", {0, 9, 0, 0, 4, 0, 0, 0, 'R', 'E', 'D', 0, 5}, 24},
		/* string length 0, beyond the end, 2^32 - 1, beyond the bound */
		{"x = 5", {0, 1, 0, 0, 0, 0, 0, 0, 5}, 24},
		{"x = 5", {0, 1, 0, 0, 64, 0, 0, 0, 'R', 'E', 'D', 0, 5}, 24},
		{"x = 5", {0, 1, 0, 0, 255, 255, 255, 255, 'R', 'E', 'D', 0, 5}, 24},
		/* no NUL; a NUL inside the string that is compared */
		{"x = 5", {0, 1, 0, 0, 4, 0, 0, 0, 'R', 'E', 'D', 'S', 5}, 24},
		{"color = 'R'", {0, 1, 0, 0, 4, 0, 0, 0, 'R', 0, 'D', 0, 5}, 24},
		/* padding declared that would cut into x */
		{"x = 5", {0, 1, 0, 3, 4, 0, 0, 0, 'R', 'E', 'D', 0, 5}, 16},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct apus_filter *filter;

		assert_int_equal(apus_filter_open(&apus_shape_type, rows[i].expression, NULL, 0,
						  &filter, NULL),
				 0);
		assert_int_equal(apus_filter_match(filter, rows[i].bytes, rows[i].count),
				 APUS_EENCODING);
		apus_filter_close(filter);
	}
}

static void values_of_no_type(void **state)
{
	struct filter_scalars s = scalars();
	struct apus_filter *b, *m;
	uint8_t payload[PAYLOAD_MAX];
	size_t bytes = encode(&filter_scalars, &s, 0, payload);

	(void)state;
	assert_int_equal(apus_filter_open(&filter_scalars, "b = TRUE", NULL, 0, &b, NULL), 0);
	assert_int_equal(apus_filter_open(&filter_scalars, "m8 < 32", NULL, 0, &m, NULL), 0);
	assert_int_equal(apus_filter_match(b, payload, bytes), 1);
	payload[4] = 2; /* no boolean */
	assert_int_equal(apus_filter_match(b, payload, bytes), APUS_EENCODING);
	s.m8 = 31;
	bytes = encode(&filter_scalars, &s, 0, payload);
	assert_int_equal(apus_filter_match(m, payload, bytes), 1);
	for (size_t i = 4; i < bytes; i++)
		payload[i] = payload[i] == 31 ? 32 : payload[i]; /* a sixth bit of five */
	assert_int_equal(apus_filter_match(m, payload, bytes), APUS_EENCODING);
	apus_filter_close(b);
	apus_filter_close(m);
}

/* Members an older appendable writer does not send read as zero and empty. */
static void shorter_samples(void **state)
{
	static const uint8_t delimited[] = {0, 9, 0, 0, 8, 0, 0, 0, 4, 0, 0, 0, 'o', 'l', 'd', 0};
	static const uint8_t plain[] = {0, 1, 0, 0, 4, 0, 0, 0, 'o', 'l', 'd', 0};
	static const struct row rows[] = {
		{"head = 'old' AND in.p = 0 AND in.q = '' AND tail = 0 AND last = 0.0", 1},
		{"tail <> 0", 0},
		{"ina.u > 0 OR ina.s > ''", 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct apus_filter *filter;

		assert_int_equal(
			apus_filter_open(&filter_deep, rows[i].expression, NULL, 0, &filter, NULL),
			0);
		assert_int_equal(apus_filter_match(filter, delimited, sizeof(delimited)),
				 rows[i].expected);
		assert_int_equal(apus_filter_match(filter, plain, sizeof(plain)), rows[i].expected);
		/* A delimiter that promises more than there is. */
		assert_int_equal(apus_filter_match(filter, delimited, sizeof(delimited) - 1),
				 APUS_EENCODING);
		apus_filter_close(filter);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(truncated_payloads),
		cmocka_unit_test(malformed_payloads),
		cmocka_unit_test(values_of_no_type),
		cmocka_unit_test(shorter_samples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
