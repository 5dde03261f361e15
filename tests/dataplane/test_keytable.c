/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the key table finds exactly the keys it has, also those that differ only behind what stands in a bucket.
 * Method: random additions, removals and searches against a plain array, keys of 0 to 41 bytes that share long
 * beginnings, in a table that is often full.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdbool.h>
#include <string.h>

#include "dataplane/keytable.h"

#define CAPACITY 48
#define KEYS     128
#define KEY_MAX  41

static uint8_t keys[KEYS][KEY_MAX];
static uint32_t lengths[KEYS];

/* Lengths around the ends of a bucket's part, and the last byte alone tells keys of one length apart. */
static void make_keys(void)
{
	static const uint32_t some[] = {0, 1, 8, 19, 20, 21, 32, KEY_MAX};

	for (uint32_t i = 0; i < KEYS; i++) {
		lengths[i] = i == 0 ? 0 : some[1 + i % 7];
		memset(keys[i], 'k', KEY_MAX);
		if (lengths[i])
			keys[i][lengths[i] - 1] = (uint8_t)i;
	}
}

static void agrees_with_an_array(void **state)
{
	struct apus_dp_keytable t;
	uint32_t at[KEYS], count = 0, refused = 0;
	uint64_t seed = 7;

	(void)state;
	make_keys();
	memset(at, 0xff, sizeof(at));
	assert_int_equal(apus_dp_keytable_init(&t, CAPACITY, KEY_MAX), 0);
	for (int step = 0; step < 200000; step++) {
		uint32_t i;

		seed = seed * UINT64_C(6364136223846793005) + 1;
		i = (uint32_t)(seed >> 40) % KEYS;
		assert_int_equal(apus_dp_keytable_find(&t, keys[i], lengths[i]), at[i]);
		if (at[i] != APUS_DP_NO_KEY && seed >> 63) {
			apus_dp_keytable_remove(&t, at[i]);
			at[i] = APUS_DP_NO_KEY;
			count--;
		} else if (at[i] == APUS_DP_NO_KEY) {
			at[i] = apus_dp_keytable_add(&t, keys[i], lengths[i]);
			assert_int_equal(at[i] == APUS_DP_NO_KEY, count == CAPACITY);
			count += at[i] != APUS_DP_NO_KEY;
			refused += at[i] == APUS_DP_NO_KEY;
			for (uint32_t k = 0; at[i] != APUS_DP_NO_KEY && k < KEYS; k++)
				assert_true(k == i || at[k] != at[i]);
		}
		assert_int_equal(t.count, count);
	}
	assert_true(refused > 1000);
	apus_dp_keytable_fini(&t);
}

static void keys_beyond_the_limit_are_refused(void **state)
{
	static const uint8_t key[KEY_MAX + 1];
	struct apus_dp_keytable t;

	(void)state;
	for (uint32_t max = 0; max <= KEY_MAX; max += KEY_MAX) {
		assert_int_equal(apus_dp_keytable_init(&t, 2, max), 0);
		assert_int_equal(apus_dp_keytable_add(&t, key, max + 1), APUS_DP_NO_KEY);
		assert_int_equal(apus_dp_keytable_find(&t, key, max + 1), APUS_DP_NO_KEY);
		assert_true(apus_dp_keytable_add(&t, key, max) < 2);
		assert_int_equal(t.count, 1);
		apus_dp_keytable_fini(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_with_an_array),
		cmocka_unit_test(keys_beyond_the_limit_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
