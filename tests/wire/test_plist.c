/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: parameter lists are walked, read and written within their bounds.
 * Method: hand-made lists, each with one property, in both byte orders; buffers are allocated at their
 * exact size, so that the sanitizers see any access outside.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "wire/plist.h"

static const uint8_t one_param_le[] = {0x05, 0x00, 0x04, 0x00, 1, 2, 3, 4, 0x01, 0x00, 0x00, 0x00};

static enum apus_wire_plist_step first_step(const uint8_t *bytes, size_t count, bool little,
					    struct apus_wire_param *param_out)
{
	struct apus_wire_plist list;
	uint8_t *exact = malloc(count ? count : 1);
	enum apus_wire_plist_step step;

	if (count)
		memcpy(exact, bytes, count);
	apus_wire_plist_init(&list, exact, count, little);
	step = apus_wire_plist_next(&list, param_out);
	free(exact);
	return step;
}

static void test_open_knows_the_encapsulations(void **state)
{
	const uint8_t be[] = {0, 2, 0, 0}, le[] = {0, 3, 0xff, 0xff}, cdr[] = {0, 1, 0, 0};
	const uint8_t swapped[] = {3, 0, 0, 0};
	struct apus_wire_plist list;

	(void)state;
	assert_int_equal(apus_wire_plist_open(&list, be, 4), APUS_WIRE_ACCEPT);
	assert_false(list.little);
	assert_int_equal(apus_wire_plist_open(&list, le, 4), APUS_WIRE_ACCEPT);
	assert_true(list.little);
	assert_int_equal(list.bytes_count, 0);
	assert_int_equal(apus_wire_plist_open(&list, cdr, 4), APUS_WIRE_SKIP);
	assert_int_equal(apus_wire_plist_open(&list, swapped, 4), APUS_WIRE_SKIP);
	assert_int_equal(apus_wire_plist_open(&list, le, 3), APUS_WIRE_MALFORMED);
}

static void test_walk_ends_only_at_the_sentinel(void **state)
{
	struct apus_wire_plist list;
	struct apus_wire_param param;

	(void)state;
	apus_wire_plist_init(&list, one_param_le, sizeof(one_param_le), true);
	assert_int_equal(apus_wire_plist_next(&list, &param), APUS_WIRE_PLIST_PARAM);
	assert_int_equal(param.pid, APUS_PID_TOPIC_NAME);
	assert_int_equal(param.value_bytes, 4);
	assert_ptr_equal(param.value, one_param_le + 4);
	assert_int_equal(apus_wire_plist_next(&list, &param), APUS_WIRE_PLIST_END);
	assert_int_equal(list.at, sizeof(one_param_le));

	for (size_t count = 0; count < sizeof(one_param_le); count++) {
		apus_wire_plist_init(&list, one_param_le, count, true);
		if (count >= 8)
			assert_int_equal(apus_wire_plist_next(&list, &param),
					 APUS_WIRE_PLIST_PARAM);
		assert_int_equal(apus_wire_plist_next(&list, &param), APUS_WIRE_PLIST_BAD);
	}
}

static void test_walk_refuses_impossible_lengths(void **state)
{
	const uint8_t odd[] = {0x05, 0, 3, 0, 1, 2, 3, 0, 1, 0, 0, 0};
	const uint8_t beyond[] = {0x05, 0, 12, 0, 1, 2, 3, 4, 1, 0, 0, 0};
	const uint8_t huge[] = {0x05, 0, 0xfc, 0xff, 1, 2, 3, 4};
	const uint8_t huge_pad[] = {0x00, 0, 0xfc, 0xff, 1, 2, 3, 4};
	struct apus_wire_param param;

	(void)state;
	assert_int_equal(first_step(odd, sizeof(odd), true, &param), APUS_WIRE_PLIST_BAD);
	assert_int_equal(first_step(beyond, sizeof(beyond), true, &param), APUS_WIRE_PLIST_BAD);
	assert_int_equal(first_step(huge, sizeof(huge), true, &param), APUS_WIRE_PLIST_BAD);
	assert_int_equal(first_step(huge_pad, sizeof(huge_pad), true, &param), APUS_WIRE_PLIST_BAD);
	/* The length of the sentinel means nothing. */
	const uint8_t sentinel[] = {1, 0, 0xff, 0xff};
	assert_int_equal(first_step(sentinel, 4, true, &param), APUS_WIRE_PLIST_END);
}

static void test_walk_passes_over_pads_and_reads_big_endian(void **state)
{
	const uint8_t bytes[] = {0, 0, 0, 4, 9, 9, 9, 9, 0, 0, 0, 0, 0x80, 0x0c, 0, 0, 0, 1, 0, 0};
	struct apus_wire_plist list;
	struct apus_wire_param param;

	(void)state;
	apus_wire_plist_init(&list, bytes, sizeof(bytes), false);
	assert_int_equal(apus_wire_plist_next(&list, &param), APUS_WIRE_PLIST_PARAM);
	assert_int_equal(param.pid, 0x800c);
	assert_int_equal(param.value_bytes, 0);
	assert_int_equal(apus_wire_plist_next(&list, &param), APUS_WIRE_PLIST_END);
}

static void test_must_understand_is_for_standard_ids(void **state)
{
	struct apus_wire_param param = {.pid = 0x4999};

	(void)state;
	assert_true(apus_wire_param_refuses(&param));
	assert_int_equal(apus_wire_param_id(&param), 0x0999);
	param.pid = 0x0999;
	assert_false(apus_wire_param_refuses(&param));
	param.pid = 0xc001;
	assert_false(apus_wire_param_refuses(&param));
	assert_int_equal(apus_wire_param_id(&param), 0x8001);
}

/* Reads one string from an exact copy; returns its length or -1. */
static int string_of(const uint8_t *bytes, size_t count)
{
	uint8_t *exact = malloc(count ? count : 1);
	struct apus_wire_value value;
	size_t text_bytes = 0;
	const char *text;
	int result;

	if (count)
		memcpy(exact, bytes, count);
	value = apus_wire_value_make(exact, count, true);
	text = apus_wire_value_string(&value, &text_bytes);
	result = text ? (int)text_bytes : -1;
	assert_int_equal(apus_wire_value_bad(&value), text == NULL);
	free(exact);
	return result;
}

static void test_strings(void **state)
{
	const uint8_t good[] = {3, 0, 0, 0, 'a', 'b', 0, 0}, empty[] = {1, 0, 0, 0, 0};
	const uint8_t no_length[] = {0, 0, 0, 0}, no_nul[] = {2, 0, 0, 0, 'a', 'b'};
	const uint8_t inner_nul[] = {3, 0, 0, 0, 'a', 0, 0};
	const uint8_t huge[] = {0xff, 0xff, 0xff, 0xff, 'a', 0};

	(void)state;
	assert_int_equal(string_of(good, sizeof(good)), 2);
	assert_int_equal(string_of(empty, sizeof(empty)), 0);
	assert_int_equal(string_of(no_length, sizeof(no_length)), -1);
	assert_int_equal(string_of(no_nul, sizeof(no_nul)), -1);
	assert_int_equal(string_of(inner_nul, sizeof(inner_nul)), -1);
	assert_int_equal(string_of(huge, sizeof(huge)), -1);
	for (size_t count = 0; count < 7; count++)
		assert_int_equal(string_of(good, count), -1);
}

static int64_t duration_of(uint32_t seconds, uint32_t fraction, bool *bad_out)
{
	uint8_t bytes[8] = {0};
	struct apus_wire_value value = apus_wire_value_make(bytes, sizeof(bytes), true);
	int64_t ns;

	apus_wire_store_u32le(bytes, seconds);
	apus_wire_store_u32le(bytes + 4, fraction);
	ns = apus_wire_value_duration_ns(&value);
	*bad_out = apus_wire_value_bad(&value);
	return ns;
}

static void test_durations(void **state)
{
	bool bad;

	(void)state;
	assert_int_equal(duration_of(0, 0, &bad), 0);
	assert_int_equal(duration_of(1, 0x80000000u, &bad), 1500000000);
	/* 0.1 s, rounded down by the sender. */
	assert_int_equal(duration_of(0, 0x19999999u, &bad), 100000000);
	assert_int_equal(duration_of(0x7ffffffeu, 0, &bad), INT64_C(2147483646000000000));
	assert_false(bad);
	assert_int_equal(duration_of(0x7ffffffeu, 0xffffffffu, &bad), APUS_INFINITE_NS);
	assert_int_equal(duration_of(0x7fffffffu, 0xffffffffu, &bad), APUS_INFINITE_NS);
	assert_int_equal(duration_of(0x7fffffffu, 0x7fffffffu, &bad), APUS_INFINITE_NS);
	assert_false(bad);
	duration_of(0x80000000u, 0, &bad);
	assert_true(bad);
	duration_of(0xffffffffu, 0xffffffffu, &bad);
	assert_true(bad);
}

static void test_values_align_and_stick(void **state)
{
	const uint8_t bytes[] = {7, 0xee, 0x01, 0x02, 0x03, 0xee, 0xee, 0xee, 1, 2, 3, 4};
	const uint8_t not_bool[] = {2};
	struct apus_wire_value value = apus_wire_value_make(bytes, sizeof(bytes), false);

	(void)state;
	assert_int_equal(apus_wire_value_u8(&value), 7);
	assert_int_equal(apus_wire_value_u16(&value), 0x0102);
	assert_int_equal(apus_wire_value_u8(&value), 3);
	assert_int_equal(apus_wire_value_u32(&value), 0x01020304);
	assert_false(apus_wire_value_bad(&value));
	assert_true(apus_wire_value_rest_is_zero(&value));
	assert_int_equal(apus_wire_value_u8(&value), 0);
	assert_true(apus_wire_value_bad(&value));
	assert_int_equal(apus_wire_value_u32(&value), 0);
	assert_null(apus_wire_value_bytes(&value, 0));

	value = apus_wire_value_make(not_bool, 1, true);
	apus_wire_value_bool(&value);
	assert_true(apus_wire_value_bad(&value));
}

static int write_sample_list(uint8_t *out, size_t out_bytes)
{
	struct apus_wire_plist_writer w;

	apus_wire_plist_begin(&w, out, out_bytes);
	apus_wire_plist_open_param(&w, APUS_PID_TOPIC_NAME);
	apus_wire_plist_put_string(&w, "Square", 6);
	apus_wire_plist_close_param(&w);
	apus_wire_plist_open_param(&w, APUS_PID_LIFESPAN);
	apus_wire_plist_put_u8(&w, 1);
	apus_wire_plist_put_u16(&w, 0x0203);
	apus_wire_plist_put_u32(&w, 0x04050607);
	apus_wire_plist_put_duration(&w, 1500000000);
	apus_wire_plist_close_param(&w);
	return apus_wire_plist_finish(&w);
}

static void test_writer_output(void **state)
{
	static const uint8_t expected[] = {
		0,    3, 0,  0,                                                    /* PL_CDR_LE */
		0x05, 0, 12, 0,    7, 0, 0, 0, 'S', 'q', 'u', 'a', 'r', 'e', 0, 0, /* topic */
		0x2b, 0, 16, 0,    1, 0, 3, 2, 7,   6,   5,   4,   1,   0,   0, 0,
		0,    0, 0,  0x80, 1, 0, 0, 0, /* sentinel */
	};
	uint8_t out[sizeof(expected)];

	(void)state;
	assert_int_equal(write_sample_list(out, sizeof(out)), sizeof(expected));
	assert_memory_equal(out, expected, sizeof(expected));
	for (size_t count = 0; count < sizeof(expected); count++) {
		uint8_t *exact = malloc(count ? count : 1);

		assert_int_equal(write_sample_list(exact, count), APUS_ELIMIT);
		free(exact);
	}
}

static void test_writer_refuses_a_value_beyond_16_bits(void **state)
{
	static uint8_t out[70000], bytes[65536];
	struct apus_wire_plist_writer w;

	(void)state;
	for (size_t count = 65531; count <= 65533; count++) {
		apus_wire_plist_begin(&w, out, sizeof(out));
		apus_wire_plist_open_param(&w, APUS_PID_USER_DATA);
		apus_wire_plist_put_bytes(&w, bytes, count);
		apus_wire_plist_close_param(&w);
		assert_int_equal(apus_wire_plist_finish(&w),
				 count <= 65532 ? 4 + 4 + 65532 + 4 : APUS_ELIMIT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_open_knows_the_encapsulations),
		cmocka_unit_test(test_walk_ends_only_at_the_sentinel),
		cmocka_unit_test(test_walk_refuses_impossible_lengths),
		cmocka_unit_test(test_walk_passes_over_pads_and_reads_big_endian),
		cmocka_unit_test(test_must_understand_is_for_standard_ids),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_durations),
		cmocka_unit_test(test_values_align_and_stick),
		cmocka_unit_test(test_writer_output),
		cmocka_unit_test(test_writer_refuses_a_value_beyond_16_bits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
