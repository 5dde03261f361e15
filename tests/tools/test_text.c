/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: words become numbers and durations exactly or not at all.
 * Method: literal texts with the expected value, limits on both sides, and everything that is nearly
 * a number; durations are printed and read back.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <apus/core.h>
#include "tools/text.h"

#define UNTOUCHED INT64_C(-4711)
#define SEC       INT64_C(1000000000)

static void number(const char *text, int64_t min, int64_t max, int64_t expected)
{
	int64_t value = UNTOUCHED;

	assert_int_equal(text_to_number(text, min, max, &value), expected != UNTOUCHED);
	assert_int_equal(value, expected);
}

static void numbers(void **state)
{
	(void)state;
	number("0", 0, 232, 0);
	number("232", 0, 232, 232);
	number("-7", -7, 0, -7);
	number("9223372036854775807", INT64_MIN, INT64_MAX, INT64_MAX);
	number("-9223372036854775808", INT64_MIN, INT64_MAX, INT64_MIN);
	number("233", 0, 232, UNTOUCHED);
	number("-1", 0, 232, UNTOUCHED);
	number("9223372036854775808", INT64_MIN, INT64_MAX, UNTOUCHED);
	number("", 0, 232, UNTOUCHED);
	number("-", -9, 9, UNTOUCHED);
	number("+1", 0, 9, UNTOUCHED);
	number(" 1", 0, 9, UNTOUCHED);
	number("1 ", 0, 9, UNTOUCHED);
	number("0x1", 0, 9, UNTOUCHED);
	number("1.0", 0, 9, UNTOUCHED);
}

static void seconds(void **state)
{
	static const struct {
		const char *text;
		int64_t ns;
	} rows[] = {
		{"2", 2 * SEC},
		{"0.25", SEC / 4},
		{"0.000000001", 1},
		{"0", 0},
		{"", UNTOUCHED},
		{"0.", UNTOUCHED},
		{".5", UNTOUCHED},
		{"-1", UNTOUCHED},
		{"1s", UNTOUCHED},
		{"1e3", UNTOUCHED},
		{"inf", UNTOUCHED},
		{"nan", UNTOUCHED},
		{"1.2.3", UNTOUCHED},
		{"9223372036", 9223372036 * SEC},
		{"9223372037", UNTOUCHED},
		{"0.0000000001", UNTOUCHED},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int64_t ns = UNTOUCHED;

		assert_int_equal(text_to_seconds(rows[i].text, &ns), rows[i].ns != UNTOUCHED);
		assert_int_equal(ns, rows[i].ns);
	}
}

static void durations(void **state)
{
	static const struct {
		const char *text;
		int64_t ns;
		const char *printed;
	} rows[] = {
		{"100ms", SEC / 10, "100ms"},     {"1.5min", 90 * SEC, "90s"},
		{"2h", 7200 * SEC, "2h"},         {"0.5us", 500, "500ns"},
		{"1000us", 1000000, "1ms"},       {"0s", 0, "0s"},
		{"inf", APUS_INFINITE_NS, "inf"}, {"100", UNTOUCHED, NULL},
		{"ms", UNTOUCHED, NULL},          {"100 ms", UNTOUCHED, NULL},
		{"100MS", UNTOUCHED, NULL},       {"0.5ns", UNTOUCHED, NULL},
		{"1..5s", UNTOUCHED, NULL},       {"-1s", UNTOUCHED, NULL},
		{"2562048h", UNTOUCHED, NULL},    {"1d", UNTOUCHED, NULL},
	};
	char printed[DURATION_TEXT_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int64_t ns = UNTOUCHED;

		assert_int_equal(text_to_duration(rows[i].text, &ns), rows[i].ns != UNTOUCHED);
		assert_int_equal(ns, rows[i].ns);
		if (rows[i].printed)
			assert_string_equal(duration_to_text(ns, printed), rows[i].printed);
	}
}

static void near_words(void **state)
{
	(void)state;
	assert_true(words_are_near("reliablity", "reliability"));
	assert_true(words_are_near("partiton", "partition"));
	assert_true(words_are_near("puv", "pub"));
	assert_false(words_are_near("lease", "pub"));
	assert_false(words_are_near("bus", "pub"));
	assert_false(words_are_near("", "ls"));
	assert_false(words_are_near("history", "ownership"));
	assert_false(words_are_near("a-word-of-more-than-forty-letters-is-near-to-none", "set"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers),
		cmocka_unit_test(seconds),
		cmocka_unit_test(durations),
		cmocka_unit_test(near_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
