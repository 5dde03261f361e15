/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the quick clock extrapolates only by a speed that two readings agree on, and never tells of an instant before
 * one it has told. Method: readings are made up; only the last test reads real clocks, and compares bounds of theirs.
 */
#include "base/quick_clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MS APUS_NS_PER_MS

/* A reading of a processor that counts twice a nanosecond. */
static void take(struct apus_quick_clock *c, int64_t mono_ns, bool is_sharp)
{
	apus_quick_clock_take(c, (uint64_t)mono_ns * 2, (struct apus_mono){mono_ns},
			      (struct apus_wall){mono_ns + 1000}, is_sharp);
}

static void test_two_speeds_must_agree(void **state)
{
	struct apus_quick_clock c = {0};

	(void)state;
	take(&c, 10 * MS, true);
	assert_int_equal(c.span_ticks, 0);
	take(&c, 10 * MS + MS / 4, true); /* too close: the base stays */
	assert_int_equal(c.span_ticks, 0);
	assert_int_equal(c.base_mono.ns, 10 * MS);
	take(&c, 11 * MS, true); /* a speed, and none to compare it with */
	assert_int_equal(c.span_ticks, 0);
	take(&c, 12 * MS, true);
	assert_int_equal(c.scale, UINT64_C(1) << 31);
	assert_int_equal(c.span_ticks, 2 * MS);
	assert_int_equal(c.mono.ns, 12 * MS);
	assert_int_equal(c.wall.ns, 12 * MS + 1000);
}

static void test_a_jump_is_not_believed(void **state)
{
	struct apus_quick_clock c = {0};

	(void)state;
	for (int64_t ms = 1; ms <= 3; ms++)
		take(&c, ms * MS, true);
	assert_int_not_equal(c.span_ticks, 0);
	/* The count went on for 200 ms in which monotonic time stood: the machine slept. */
	apus_quick_clock_take(&c, 2 * 204 * MS, (struct apus_mono){4 * MS}, (struct apus_wall){1},
			      true);
	assert_int_equal(c.span_ticks, 0);
	for (int64_t ms = 5; ms <= 6; ms++)
		apus_quick_clock_take(&c, (uint64_t)(200 + ms) * 2 * MS,
				      (struct apus_mono){ms * MS}, (struct apus_wall){1}, true);
	assert_int_equal(c.span_ticks, 2 * MS);
	/* A count that stands, or runs backwards, is none. */
	apus_quick_clock_take(&c, c.ticks, (struct apus_mono){7 * MS}, (struct apus_wall){1}, true);
	assert_int_equal(c.span_ticks, 0);
	apus_quick_clock_take(&c, 5, (struct apus_mono){8 * MS}, (struct apus_wall){1}, true);
	assert_int_equal(c.span_ticks, 0);
}

static void test_interrupted_readings_and_long_pauses(void **state)
{
	struct apus_quick_clock c = {0};

	(void)state;
	for (int64_t ms = 1; ms <= 3; ms++)
		take(&c, ms * MS, true);
	take(&c, 4 * MS, false);
	assert_int_equal(c.span_ticks, 0);
	assert_int_equal(c.mono.ns, 4 * MS); /* good for now */
	take(&c, 5 * MS, true);              /* the speed is known, and this is the new base */
	assert_int_equal(c.span_ticks, 2 * MS);
	assert_int_equal(c.base_mono.ns, 5 * MS);
	/* Nobody asked for a minute: the speed is what it was. */
	take(&c, 60000 * MS, true);
	assert_int_equal(c.span_ticks, 2 * MS);
}

static void test_it_goes_with_the_real_ones(void **state)
{
	struct apus_quick_clock c = {0};
	struct apus_mono last = {0}, begun = apus_mono_now();

	(void)state;
	for (uint32_t i = 0; i < 100000; i++) {
		struct apus_mono before = apus_mono_now(), now = apus_quick_mono(&c);
		struct apus_wall wall = apus_quick_wall(&c);

		/* A thousandth of the span off, which is a microsecond; the rest is for a clock that is corrected. */
		assert_true(now.ns >= before.ns - 20 * APUS_NS_PER_US);
		assert_true(now.ns <= apus_mono_now().ns + 20 * APUS_NS_PER_US);
		assert_true(wall.ns > 0);
		assert_true(now.ns >= last.ns);
		last = now;
	}
	assert_true(last.ns >= begun.ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two_speeds_must_agree),
		cmocka_unit_test(test_a_jump_is_not_believed),
		cmocka_unit_test(test_interrupted_readings_and_long_pauses),
		cmocka_unit_test(test_it_goes_with_the_real_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
