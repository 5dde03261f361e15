/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: fresh memory is zero whatever was in the heap before, is not touched by being got, goes back whole, and absurd
 * sizes are refused.
 * Method: sizes on both sides of the one from which it is mapped; whether a page is in use is asked of the kernel.
 */
#include "base/fresh.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

static bool is_zero(const unsigned char *p, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (p[i])
			return false;
	return true;
}

static void test_zero_after_use(void **state)
{
	static const size_t sizes[] = {1, 64, 16383, 16384, 16385, 300000};
	uint64_t before = apus_fresh_mapped();

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		for (int round = 0; round < 3; round++) {
			unsigned char *p = apus_fresh_alloc(sizes[i], 1);

			assert_non_null(p);
			assert_int_equal((uintptr_t)p % 16, 0);
			assert_true(is_zero(p, sizes[i]));
			memset(p, 0xa5, sizes[i]);
			apus_fresh_free(p, sizes[i], 1);
		}
	assert_int_equal(apus_fresh_mapped(), before);
}

/* A table of 64 pages between used heap memory, of which one is written. */
static void test_untouched(void **state)
{
	enum { PAGES = 64, PAGE = 4096 };
	uint64_t before = apus_fresh_mapped();
	void *dirty = malloc((size_t)PAGES * PAGE);
	unsigned char in_use[PAGES];
	unsigned char *p;

	(void)state;
	assert_non_null(dirty);
	memset(dirty, 1, (size_t)PAGES * PAGE);
	free(dirty);
	p = apus_fresh_alloc(PAGES, PAGE);
	assert_non_null(p);
	if (apus_fresh_mapped() == before) { /* the address sanitizer has it from the heap */
		apus_fresh_free(p, PAGES, PAGE);
		skip();
	}
	assert_int_equal(apus_fresh_mapped() - before, PAGES * PAGE);
	p[5 * PAGE] = 1;
	assert_int_equal(mincore(p, (size_t)PAGES * PAGE, in_use), 0);
	for (int i = 0; i < PAGES; i++)
		assert_int_equal(in_use[i] & 1, i == 5);
	apus_fresh_free(p, PAGES, PAGE);
	assert_int_equal(apus_fresh_mapped(), before);
}

static void test_refusals(void **state)
{
	void *p = apus_fresh_alloc(0, 24);

	(void)state;
	assert_non_null(p); /* none is a valid table */
	apus_fresh_free(p, 0, 24);
	assert_null(apus_fresh_alloc(SIZE_MAX, 2));
	assert_null(apus_fresh_alloc(SIZE_MAX / 2, 2));
	assert_null(apus_fresh_alloc((size_t)1 << 40, 1));
	apus_fresh_free(NULL, 100000, 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_zero_after_use),
		cmocka_unit_test(test_untouched),
		cmocka_unit_test(test_refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
