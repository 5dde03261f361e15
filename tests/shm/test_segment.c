/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: regions are zeroed, do not overlap, and small ones share pages and descriptors without seeing each
 * other's past. Method: create, fill, destroy and create again; count descriptors of the process.
 */
#include "shm/segment.h"

#include <apus/core.h>

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define COUNT 300

static struct apus_shm_segment s[COUNT];

static int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void create(struct apus_shm_segment *out, size_t bytes, unsigned flags)
{
	assert_int_equal(apus_shm_segment_create(bytes, flags, out), 0);
	assert_true(out->bytes >= bytes);
	assert_int_equal((uintptr_t)out->base % 64, 0);
	for (size_t i = 0; i < out->bytes; i++)
		assert_int_equal(((uint8_t *)out->base)[i], 0);
}

static void check(const struct apus_shm_segment *one, int value)
{
	for (size_t i = 0; i < one->bytes; i++)
		assert_int_equal(((uint8_t *)one->base)[i], value);
}

/* Sizes of every kind, filled, freed in another order and taken again: nobody sees or disturbs another. */
static void test_pieces(void **state)
{
	int before = descriptors();
	(void)state;

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < COUNT; i++) {
			if (s[i].base)
				continue;
			create(&s[i], (size_t)(1 + i * 37 % 8192), APUS_SHM_TOUCH);
			memset(s[i].base, i % 251 + 1, s[i].bytes);
		}
		for (int i = 0; i < COUNT; i++)
			check(&s[i], i % 251 + 1);
		assert_true(descriptors() - before <= 2 * 16);
		for (int i = round; i < COUNT; i += 2)
			apus_shm_segment_destroy(&s[i]);
	}
	for (int i = 0; i < COUNT; i++)
		apus_shm_segment_destroy(&s[i]);
	assert_int_equal(descriptors(), before);
}

/* What is not touched is zero nevertheless, also where somebody else was before. */
static void test_lazy(void **state)
{
	void *place;

	(void)state;
	create(&s[0], 700, APUS_SHM_LAZY); /* keeps the region */
	create(&s[1], 700, APUS_SHM_LAZY);
	place = s[1].base;
	memset(place, 0xa5, s[1].bytes);
	apus_shm_segment_destroy(&s[1]);
	create(&s[1], 700, APUS_SHM_LAZY);
	assert_ptr_equal(s[1].base, place);
	apus_shm_segment_destroy(&s[1]);
	create(&s[1], 700, 0);
	assert_ptr_equal(s[1].base, place);
	apus_shm_segment_destroy(&s[1]);
	apus_shm_segment_destroy(&s[0]);
}

/* One size: 64 in one region, the 65th in another; a piece given back is the next one taken. */
static void test_chunk(void **state)
{
	int before = descriptors();
	void *place;
	(void)state;

	for (int i = 0; i < 64; i++)
		create(&s[i], 500, 0);
	assert_int_equal(descriptors(), before + 1);
	create(&s[64], 512, 0);
	assert_int_equal(descriptors(), before + 2);
	create(&s[65], 513, 0);
	assert_int_equal(descriptors(), before + 3);
	assert_int_equal(s[64].bytes, 512);
	assert_int_equal(s[65].bytes, 1024);
	for (int i = 0; i < 66; i++)
		assert_int_equal(s[i].fd, -1);
	apus_shm_segment_destroy(&s[64]);
	assert_int_equal(descriptors(), before + 2);
	place = s[7].base;
	apus_shm_segment_destroy(&s[7]);
	create(&s[7], 512, 0);
	assert_ptr_equal(s[7].base, place);
	for (int i = 0; i < 66; i++)
		apus_shm_segment_destroy(&s[i]);
	assert_int_equal(descriptors(), before);
}

/* What is large, or is asked for so, is a region of its own. */
static void test_own(void **state)
{
	(void)state;
	create(&s[0], 8193, 0);
	create(&s[1], 100, APUS_SHM_OWN);
	create(&s[2], 8192, 0);
	assert_int_equal(s[0].bytes, 12288);
	assert_true(s[0].fd >= 0 && !s[0].chunk);
	assert_int_equal(s[1].bytes, 4096);
	assert_true(s[1].fd >= 0 && !s[1].chunk);
	assert_true(s[2].fd == -1 && s[2].chunk);
	for (int i = 0; i < 3; i++) {
		apus_shm_segment_destroy(&s[i]);
		assert_null(s[i].base);
		apus_shm_segment_destroy(&s[i]);
	}
	assert_int_equal(apus_shm_segment_create(0, 0, &s[0]), APUS_EINVAL);
	assert_int_equal(apus_shm_segment_create(SIZE_MAX, 0, &s[0]), APUS_EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_lazy),
		cmocka_unit_test(test_chunk),
		cmocka_unit_test(test_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
