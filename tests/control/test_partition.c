/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: partition lists overlap exactly when the rules of control/partition.h say so.
 * Method: the worked example, the default partition, patterns against patterns, and the symmetry of
 * every case.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "control/partition.h"

#define MAX 4

struct pair {
	const char *a[MAX];
	const char *b[MAX];
	bool match;
};

static uint32_t length(const char *const *list)
{
	uint32_t n = 0;

	while (n < MAX && list[n])
		n++;
	return n;
}

static void check(const struct pair *pairs, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct pair *p = &pairs[i];

		assert_int_equal(apus_ctl_partitions_match(p->a, length(p->a), p->b, length(p->b)),
				 p->match);
		assert_int_equal(apus_ctl_partitions_match(p->b, length(p->b), p->a, length(p->a)),
				 p->match);
	}
}

static void test_worked_example(void **state)
{
	static const struct pair pairs[] = {
		{{"robot/*", "diagnostics"}, {"robot/arm"}, true},
		{{"robot/*", "diagnostics"}, {"telemetry", "diagnostics"}, true},
		{{"robot/*", "diagnostics"}, {"robot"}, false},
		{{"robot/*", "diagnostics"}, {0}, false},
	};

	(void)state;
	check(pairs, 4);
}

static void test_default_partition(void **state)
{
	static const struct pair pairs[] = {
		{{0}, {0}, true},    {{0}, {""}, true},    {{""}, {"", "A"}, true},
		{{0}, {"A"}, false}, {{0}, {"*"}, true},   {{""}, {"*"}, true},
		{{0}, {"?"}, false}, {{0}, {"?*"}, false}, {{"A", "*"}, {0}, true},
		{{0}, {"**"}, true},
	};

	(void)state;
	check(pairs, sizeof(pairs) / sizeof(pairs[0]));
	assert_true(apus_ctl_partitions_match(NULL, 0, NULL, 0));
}

static void test_a_pattern_never_matches_a_pattern(void **state)
{
	static const struct pair pairs[] = {
		{{"A*"}, {"A*"}, false},      {{"*"}, {"*"}, false},
		{{"*"}, {"?"}, false},        {{"[a]"}, {"[a]"}, false},
		{{"*"}, {"robot/*"}, false},  {{"A*", "B"}, {"A*", "B"}, true},
		{{"A?", "A1"}, {"A?"}, true},
	};

	(void)state;
	check(pairs, sizeof(pairs) / sizeof(pairs[0]));
}

static void test_patterns_are_fnmatch_without_flags(void **state)
{
	static const struct pair pairs[] = {
		{{"A*"}, {"A1"}, true},
		{{"A*"}, {"A"}, true},
		{{"A*"}, {"a1"}, false},
		{{"A?"}, {"A1"}, true},
		{{"A?"}, {"A12"}, false},
		{{"*"}, {".hidden"}, true},
		{{"a*c"}, {"a/b/c"}, true},
		{{"[a-c]x"}, {"bx"}, true},
		{{"[!a-c]x"}, {"bx"}, false},
		{{"[!a-c]x"}, {"dx"}, true},
		{{"\\*a*"}, {"*ab"}, false}, /* the name holds a star: it is a pattern as well */
		{{"a\\b"}, {"a\\b"}, true},  /* a literal is compared, not interpreted */
		{{"a\\b*"}, {"ab"}, true},
		{{"["}, {"["}, false},
		{{"px", "A*"}, {"A1", "q"}, true},
		{{"B"}, {"A1", "q"}, false},
	};

	(void)state;
	check(pairs, sizeof(pairs) / sizeof(pairs[0]));
	assert_true(apus_ctl_partition_is_pattern("a*"));
	assert_true(apus_ctl_partition_is_pattern("?"));
	assert_true(apus_ctl_partition_is_pattern("a[b"));
	assert_false(apus_ctl_partition_is_pattern(""));
	assert_false(apus_ctl_partition_is_pattern("a]\\b"));
}

/* The largest lists of the nastiest names still end at once. */
static void test_hostile_patterns_end(void **state)
{
	static char pattern[APUS_CTL_PARTITION_NAME_BYTES + 1],
		name[APUS_CTL_PARTITION_NAME_BYTES + 1];
	const char *patterns[APUS_CTL_PARTITIONS_MAX], *names[APUS_CTL_PARTITIONS_MAX];

	(void)state;
	for (size_t i = 0; i < APUS_CTL_PARTITION_NAME_BYTES - 1; i += 2)
		memcpy(pattern + i, "*a", 2);
	pattern[APUS_CTL_PARTITION_NAME_BYTES - 1] = 'b';
	memset(name, 'a', APUS_CTL_PARTITION_NAME_BYTES);
	for (size_t i = 0; i < APUS_CTL_PARTITIONS_MAX; i++) {
		patterns[i] = pattern;
		names[i] = name;
	}
	assert_false(apus_ctl_partitions_match(patterns, APUS_CTL_PARTITIONS_MAX, names,
					       APUS_CTL_PARTITIONS_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_worked_example),
		cmocka_unit_test(test_default_partition),
		cmocka_unit_test(test_a_pattern_never_matches_a_pattern),
		cmocka_unit_test(test_patterns_are_fnmatch_without_flags),
		cmocka_unit_test(test_hostile_patterns_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
