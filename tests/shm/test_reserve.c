/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: reserved memory is zero, aligned, each piece its taker's alone, and not touched before it is used.
 * Method: pieces of many sizes are taken, filled, given back and taken again; whether a page is in use is asked of the
 * kernel (mincore).
 */
#include "shm/reserve.h"

#include <apus/core.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#define PAGE ((uintptr_t)4096)

static bool is_zero(const unsigned char *p, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (p[i])
			return false;
	return true;
}

static void take(size_t bytes, unsigned flags, struct apus_shm_reserve *r)
{
	assert_int_equal(apus_shm_reserve(bytes, flags, r), 0);
	assert_int_equal((uintptr_t)r->base % 128, 0);
}

/* Every piece holds what was written into it, whatever happens to the others, and begins as zeros. */
static void test_pieces_are_apart(void **state)
{
	static const size_t sizes[] = {1, 64, 65, 1000, 4096, 16384, 16385, 300000};
	enum { N = 200 };
	static struct apus_shm_reserve r[N];

	(void)state;
	for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
		for (int round = 0; round < 2; round++) {
			for (int i = 0; i < N; i++) {
				take(sizes[s], APUS_SHM_LAZY, &r[i]);
				assert_true(is_zero(r[i].base, sizes[s]));
				memset(r[i].base, i + 1, sizes[s]);
			}
			for (int i = 0; i < N; i += 2)
				apus_shm_unreserve(&r[i]);
			for (int i = 0; i < N; i += 2) {
				assert_null(r[i].base);
				take(sizes[s], i % 4 ? APUS_SHM_LAZY : 0, &r[i]);
				assert_true(is_zero(r[i].base, sizes[s]));
			}
			for (int i = 1; i < N; i += 2)
				for (size_t k = 0; k < sizes[s]; k += 61)
					assert_int_equal(((unsigned char *)r[i].base)[k], i + 1);
			for (int i = 0; i < N; i++)
				apus_shm_unreserve(&r[i]);
		}
	}
}

/* 64 pieces of 4 KiB lie in pages of their own; only the one that is written is in use. */
static void test_untouched_pages_are_free(void **state)
{
	static struct apus_shm_reserve r[64];
	unsigned in_use = 0;

	(void)state;
	for (int i = 0; i < 64; i++)
		take(4096, APUS_SHM_LAZY, &r[i]);
	memset(r[7].base, 1, 4096);
	for (int i = 0; i < 64; i++) {
		unsigned char page = 0;
		void *at = (void *)((uintptr_t)r[i].base & ~(PAGE - 1));

		assert_int_equal(mincore(at, PAGE, &page), 0);
		in_use += page & 1;
		if (i == 7)
			assert_int_equal(page & 1, 1);
	}
	assert_int_equal(in_use, 1);
	for (int i = 0; i < 64; i++)
		apus_shm_unreserve(&r[i]);
}

static void test_refusals(void **state)
{
	struct apus_shm_reserve r;

	(void)state;
	assert_int_equal(apus_shm_reserve(0, 0, &r), APUS_ENOMEM);
	assert_null(r.base);
	assert_int_equal(apus_shm_reserve(SIZE_MAX - 100, APUS_SHM_LAZY, &r), APUS_ENOMEM);
	assert_int_equal(apus_shm_reserve(SIZE_MAX / 2 - 100, APUS_SHM_LAZY, &r), APUS_ENOMEM);
	assert_null(r.base);
	apus_shm_unreserve(&r);
	apus_shm_unreserve(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces_are_apart),
		cmocka_unit_test(test_untouched_pages_are_free),
		cmocka_unit_test(test_refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
