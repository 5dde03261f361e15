/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a cache of two slot sizes keeps each payload where it belongs, whatever is displaced in between.
 * Method: payloads below, at and above the boundary are written, displaced, found and checked byte by byte;
 * running out of one size, or of a size that does not exist, is refused and repaired by a removal;
 * and the index by number is looked at while samples leave by the head.
 */
#include "dataplane/cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <apus/core.h>

#define SAMPLES 4u
#define SMALL   100u
#define LARGE   5000u

static void open_cache(struct apus_dp_cache *c, uint32_t small_bytes)
{
	const struct apus_dp_cache_limits limits = {.max_samples = SAMPLES,
						    .max_instances = SAMPLES,
						    .max_samples_per_instance = 1,
						    .depth = 1,
						    .payload_bytes_max = LARGE,
						    .key_bytes_max = 4,
						    .small_bytes = small_bytes};

	assert_int_equal(apus_dp_cache_init(c, &limits, 0), 0);
}

static uint32_t put(struct apus_dp_cache *c, uint32_t key, apus_seq seq, uint32_t bytes)
{
	struct apus_dp_entry entry = {.seq = seq, .payload_bytes = bytes};
	uint32_t slot = apus_dp_cache_acquire_for(c, bytes);
	bool is_new;

	assert_int_not_equal(slot, APUS_SHM_NO_SLOT);
	memset(apus_dp_cache_payload(c, slot), (int)seq, bytes);
	entry.instance_idx = apus_dp_cache_instance(c, (const uint8_t *)&key, 4, &is_new);
	apus_dp_cache_add(c, slot, &entry);
	return slot;
}

static void check(const struct apus_dp_cache *c, apus_seq seq, uint32_t bytes)
{
	uint32_t slot = apus_dp_cache_find(c, seq);

	assert_int_not_equal(slot, APUS_SHM_NO_SLOT);
	assert_int_equal(c->entries[slot].payload_bytes, bytes);
	for (uint32_t i = 0; i < bytes; i++)
		assert_int_equal(apus_dp_cache_payload(c, slot)[i], seq & 0xff);
}

static void small_and_large_payloads_do_not_disturb_each_other(void **state)
{
	static const uint32_t sizes[SAMPLES] = {1, SMALL, SMALL + 1, LARGE};
	struct apus_dp_cache c;

	(void)state;
	open_cache(&c, SMALL);
	for (uint32_t round = 0; round < 50; round++) {
		for (uint32_t i = 0; i < SAMPLES; i++) {
			uint32_t bytes = sizes[(i + round) % SAMPLES];
			uint32_t slot = put(&c, i, round * SAMPLES + i + 1, bytes);

			assert_int_equal(slot >= c.pool.slot_count, bytes <= SMALL);
		}
		for (uint32_t i = 0; i < SAMPLES; i++)
			check(&c, round * SAMPLES + i + 1, sizes[(i + round) % SAMPLES]);
		assert_int_equal(c.count, SAMPLES);
	}
	assert_int_equal(apus_dp_cache_remove_to(&c, 50 * SAMPLES), SAMPLES);
	assert_int_equal(c.pool.free_count, SAMPLES + 1);
	assert_int_equal(c.small.free_count, SAMPLES + 1);
	apus_dp_cache_fini(&c);
}

static void each_size_can_fill_the_whole_cache(void **state)
{
	static const uint32_t sizes[] = {SMALL, LARGE};
	struct apus_dp_cache c;

	(void)state;
	open_cache(&c, SMALL);
	for (uint32_t k = 0; k < 2; k++) {
		uint32_t spare;

		for (uint32_t i = 0; i < SAMPLES; i++)
			put(&c, i, k * SAMPLES + i + 1, sizes[k]);
		spare = apus_dp_cache_acquire_for(&c, sizes[k]);
		assert_int_not_equal(spare, APUS_SHM_NO_SLOT);
		assert_int_equal(apus_dp_cache_acquire_for(&c, sizes[k]), APUS_SHM_NO_SLOT);
		apus_dp_cache_abandon(&c, spare);
		assert_int_equal(apus_dp_cache_acquire_for(&c, sizes[k]), spare);
		apus_dp_cache_abandon(&c, spare);
	}
	apus_dp_cache_fini(&c);
}

static void without_a_small_size_there_is_one(void **state)
{
	const struct apus_dp_cache_limits wrong = {.max_samples = 1,
						   .max_instances = 1,
						   .max_samples_per_instance = 1,
						   .depth = 1,
						   .payload_bytes_max = SMALL,
						   .small_bytes = SMALL + 1};
	struct apus_dp_cache c;

	(void)state;
	open_cache(&c, 0);
	assert_true(put(&c, 1, 1, 1) < c.pool.slot_count);
	assert_int_equal(c.slot_count, SAMPLES + 1);
	apus_dp_cache_fini(&c);
	assert_int_equal(apus_dp_cache_init(&c, &wrong, 0), APUS_EINVAL);
}

/* Samples leave by the head as they are acknowledged, many times around the index: what is there is found, what is not is not. */
static void the_index_stays_right_as_samples_leave(void **state)
{
	struct apus_dp_cache c;

	(void)state;
	open_cache(&c, 0);
	for (apus_seq seq = 1; seq <= 1000; seq++) {
		put(&c, (uint32_t)seq % SAMPLES, seq, SMALL);
		check(&c, seq, SMALL);
		if (seq % 3 == 0)
			assert_true(apus_dp_cache_remove_to(&c, seq - 1) > 0);
		for (apus_seq gone = seq - (seq % 3) - 1; gone > 0 && gone > seq - 20; gone--)
			assert_int_equal(apus_dp_cache_find(&c, gone), APUS_SHM_NO_SLOT);
		assert_int_equal(apus_dp_cache_find(&c, seq + 1), APUS_SHM_NO_SLOT);
	}
	assert_int_equal(c.count, 2);
	apus_dp_cache_fini(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_and_large_payloads_do_not_disturb_each_other),
		cmocka_unit_test(each_size_can_fill_the_whole_cache),
		cmocka_unit_test(without_a_small_size_there_is_one),
		cmocka_unit_test(the_index_stays_right_as_samples_leave),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
