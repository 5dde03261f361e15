/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: JSON and samples are exact images of each other, and text that does not fit the type is
 * refused with the place and the reason.
 * Method: literal texts both ways for every kind and its limits; every mistake gives its whole
 * message.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "tools/base64.h"
#include "tools/json.h"
#include "tests/wire/zoo.h"

static _Alignas(16) uint8_t sample[4096];
static _Alignas(16) uint8_t arena[8192];
static char error[200], text[8192];

static int parse(const struct apus_type *type, const char *json)
{
	memset(sample, 0x5a, sizeof(sample));
	return json_to_sample(type, json, false, sample, arena, sizeof(arena), error,
			      sizeof(error));
}

static void refused(const struct apus_type *type, const char *json, const char *message)
{
	assert_int_equal(parse(type, json), APUS_EINVAL);
	assert_string_equal(error, message);
	for (size_t i = 0; i < type->size_bytes; i++)
		assert_int_equal(sample[i], 0);
}

static void prints(const struct apus_type *type, const void *value, bool key_only, const char *json)
{
	int n = sample_to_json(type, value, key_only, text, sizeof(text));

	assert_string_equal(text, json);
	assert_int_equal(n, strlen(json));
	assert_int_equal(sample_to_json(type, value, key_only, text, n), APUS_ELIMIT);
	assert_int_equal(sample_to_json(type, value, key_only, text, n + 1), n);
}

#define PRIMS                                                                                 \
	"{\"b\":true,\"o\":254,\"c\":\"q\",\"i8\":-8,\"u8\":200,\"i16\":-1600,\"u16\":61600," \
	"\"i32\":-320000,\"u32\":4000000000,\"i64\":-9223372036854775808,"                    \
	"\"u64\":18446744073709551615,\"f32\":0.1,\"f64\":-2.5e+300,\"mood\":\"BUSY\","       \
	"\"flags\":[\"A\",\"B\",\"C\"],\"bits\":[true,false,true]}"
#define NEST                                                                                       \
	"{\"pad\":1,\"grid\":[{\"x\":-1.0,\"y\":10,\"z\":11},{\"x\":-2.0,\"y\":20,\"z\":21}],"     \
	"\"path\":[{\"x\":1.0,\"y\":1,\"z\":-1},{\"x\":2.0,\"y\":2,\"z\":-2},"                     \
	"{\"x\":3.0,\"y\":3,\"z\":-3},{\"x\":4.0,\"y\":4,\"z\":-4},{\"x\":5.0,\"y\":5,\"z\":-5}]," \
	"\"moods\":[\"IDLE\",\"CALM\"],\"pair\":[\"CALM\",\"IDLE\"],\"names\":[\"\",\"ab\","       \
	"\"xyz!\"],\"table\":[[7,8,9],[]],\"code\":\"12345678\",\"flags\":[[\"A\"],[\"C\"]],"      \
	"\"prims\":" PRIMS "}"

static void samples_print(void **state)
{
	struct apus_shape shape = {"BLUE", 10, -20, 30};
	uint8_t data[] = {0xff, 0xfe, 0x00, 0x01};
	struct apus_blob blob = {7, {.length = 4, .data = data}};
	struct zoo_nest nest;
	struct zoo_keydeep deep;

	(void)state;
	prints(&apus_shape_type, &shape, false,
	       "{\"color\":\"BLUE\",\"x\":10,\"y\":-20,\"shapesize\":30}");
	prints(&apus_shape_type, &shape, true, "{\"color\":\"BLUE\"}");
	prints(&apus_blob_type, &blob, false, "{\"kid\":7,\"data\":\"//4AAQ==\"}");
	blob.data.length = 0;
	prints(&apus_blob_type, &blob, false, "{\"kid\":7,\"data\":\"\"}");
	zoo_fill_nest(&nest);
	prints(&zoo_nest_type, &nest, false, NEST);
	zoo_fill_keydeep(&deep);
	prints(&zoo_keydeep_type, &deep, true,
	       "{\"part\":{\"p\":287454020,\"r\":21862},\"mood\":\"IDLE\",\"tag\":\"tag\"}");
}

static void samples_parse_back(void **state)
{
	(void)state;
	assert_true(parse(&zoo_nest_type, NEST) > 0);
	prints(&zoo_nest_type, sample, false, NEST);
	assert_int_equal(parse(&zoo_prims_type, PRIMS), 0);
	prints(&zoo_prims_type, sample, false, PRIMS);
	assert_true(parse(&apus_blob_type, "{\"kid\":7,\"data\":\"//4AAQ==\"}") >= 4);
	assert_memory_equal(((struct apus_blob *)(void *)sample)->data.data, "\xff\xfe\x00\x01", 4);
	assert_true(parse(&apus_blob_type, "{\"data\":[255,0],\"kid\":4294967295}") >= 2);
	assert_int_equal(((struct apus_blob *)(void *)sample)->data.length, 2);
	assert_int_equal(((struct apus_blob *)(void *)sample)->kid, UINT32_MAX);
	assert_int_equal(parse(&apus_blob_type, "{\"kid\":0,\"data\":[]}"), 0);
	assert_null(((struct apus_blob *)(void *)sample)->data.data);
}

static void strings_are_escaped_and_checked(void **state)
{
	struct apus_shape shape = {.x = 1};

	(void)state;
	strcpy(shape.color, "a\"b\\\n\x7f\xc3\xa9\xff\xed\xa0\x80z");
	prints(&apus_shape_type, &shape, true,
	       "{\"color\":\"a\\\"b\\\\\\u000a\\u007f\xc3\xa9\\ufffd\\ufffd\\ufffd\\ufffdz\"}");
	assert_int_equal(json_to_sample(&apus_shape_type, "{\"color\":\"\\\"\\u00e9\"}", true,
					sample, NULL, 0, error, sizeof(error)),
			 0);
	assert_string_equal((char *)sample, "\"\xc3\xa9");
	assert_int_equal(text_to_json("a\tb", text, sizeof(text)), 10);
	assert_string_equal(text, "\"a\\u0009b\"");
}

static void reals_are_exact(void **state)
{
	struct zoo_point p = {0, 0, 0};
	static const struct {
		double value;
		const char *json;
	} cases[] = {
		{0.1, "0.1"},
		{1.0, "1.0"},
		{-0.0, "-0.0"},
		{1e300, "1e+300"},
		{5e-324, "4.94065645841247e-324"},
		{0.30000000000000004, "0.30000000000000004"},
		{NAN, "\"NaN\""},
		{INFINITY, "\"Infinity\""},
		{-INFINITY, "\"-Infinity\""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char want[100];
		double back;

		p.x = cases[i].value;
		snprintf(want, sizeof(want), "{\"x\":%s,\"y\":0,\"z\":0}", cases[i].json);
		prints(&zoo_point_type, &p, false, want);
		assert_int_equal(parse(&zoo_point_type, want), 0);
		memcpy(&back, sample, sizeof(back));
		assert_true(isnan(p.x) ? isnan(back) : memcmp(&back, &p.x, 8) == 0);
	}
	assert_int_equal(parse(&zoo_point_type, "{\"x\":12345678901234567890123,\"y\":0,\"z\":0}"),
			 0);
	assert_true(((struct zoo_point *)(void *)sample)->x == 12345678901234567890123.0);
}

/* Replaces the value of one member of PRIMS. */
static const char *prims_with(const char *member, const char *value)
{
	static char json[1024];
	char name[32];
	const char *start, *end;

	snprintf(name, sizeof(name), "\"%s\":", member);
	start = strstr(PRIMS, name) + strlen(name);
	end = strchr(start, *start == '[' ? ']' : ',') + (*start == '[');
	snprintf(json, sizeof(json), "%.*s%s%s", (int)(start - PRIMS), PRIMS, value, end);
	return json;
}

static void ranges_are_held(void **state)
{
	static const struct {
		const char *member, *value, *message;
	} bad[] = {
		{"b", "1", "b: expected boolean, found an integer"},
		{"o", "256", "o: 256 out of range for octet"},
		{"c", "\"\"", "c: expected one character up to U+00FF"},
		{"c", "\"ab\"", "c: expected one character up to U+00FF"},
		{"c", "\"\\u0100\"", "c: expected one character up to U+00FF"},
		{"i8", "128", "i8: 128 out of range for int8"},
		{"i8", "-129", "i8: -129 out of range for int8"},
		{"u8", "-1", "u8: -1 out of range for uint8"},
		{"i16", "32768", "i16: 32768 out of range for int16"},
		{"u16", "65536", "u16: 65536 out of range for uint16"},
		{"i32", "3000000000", "i32: 3000000000 out of range for int32"},
		{"i32", "1.0", "i32: expected int32, found a real number"},
		{"i32", "\"1\"", "i32: expected int32, found a string"},
		{"i32", "null", "i32: expected int32, found null"},
		{"u32", "4294967296", "u32: 4294967296 out of range for uint32"},
		{"i64", "9223372036854775808", "i64: 9223372036854775808 out of range for int64"},
		{"i64", "-9223372036854775809", "i64: -9223372036854775809 out of range for int64"},
		{"u64", "18446744073709551616",
		 "u64: 18446744073709551616 out of range for uint64"},
		{"u64", "-1", "u64: -1 out of range for uint64"},
		{"f32", "1e39", "f32: 1e+39 out of range for float32"},
		{"f32", "\"nan\"", "f32: expected float32, found a string"},
		{"mood", "\"SAD\"", "mood: no such label \"SAD\""},
		{"mood", "3", "mood: no label has the value 3"},
		{"flags", "4096", "flags: 4096 out of range for bitmask"},
		{"flags", "[\"A\",\"D\"]", "flags: no such label \"D\""},
		{"bits", "[true]", "bits: 1 elements, expected 3"},
		{"bits", "[true,false,0]", "bits[2]: expected boolean, found an integer"},
	};
	static const struct {
		const char *member, *value;
	} good[] = {
		{"o", "0"},
		{"i8", "127"},
		{"i8", "-128"},
		{"u16", "65535"},
		{"i32", "-2147483648"},
		{"i64", "9223372036854775807"},
		{"u64", "9223372036854775808"},
		{"u64", "18446744073709551615"},
		{"mood", "2"},
		{"flags", "4095"},
		{"flags", "[]"},
		{"c", "\"\\u00ff\""},
		{"c", "\"\\u0000\""},
		{"f32", "3"},
		{"f32", "\"-Infinity\""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refused(&zoo_prims_type, prims_with(bad[i].member, bad[i].value), bad[i].message);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_int_equal(parse(&zoo_prims_type, prims_with(good[i].member, good[i].value)),
				 0);
	assert_int_equal(parse(&zoo_prims_type, prims_with("flags", "4095")), 0);
	assert_non_null(strstr(
		sample_to_json(&zoo_prims_type, sample, false, text, sizeof(text)) > 0 ? text : "",
		"\"flags\":4095"));
	assert_int_equal(parse(&zoo_prims_type, prims_with("c", "\"\\u00ff\"")), 0);
	assert_int_equal((uint8_t)((struct zoo_prims *)(void *)sample)->c, 0xff);
}

static void misfits_are_named(void **state)
{
	char longest[300];

	(void)state;
	refused(&apus_shape_type, "{\"color\":\"X\",\"y\":0,\"shapesize\":1}", "x: missing");
	refused(&apus_shape_type, "{\"color\":\"X\",\"x\":1,\"y\":0,\"shapesize\":1,\"z\":1}",
		"z: no such member");
	refused(&apus_shape_type, "{\"Color\":\"X\",\"x\":1,\"y\":0,\"shapesize\":1}",
		"Color: no such member");
	refused(&apus_shape_type, "[]", "expected struct, found an array");
	refused(&apus_shape_type,
		"{\"color\":123456789012345678901,\"x\":1,\"y\":0,\"shapesize\":1}",
		"color: expected string, found an integer");
	refused(&apus_shape_type, "{\"color\":\"a\\u0000b\",\"x\":1,\"y\":0,\"shapesize\":1}",
		"color: a string cannot contain U+0000");
	refused(&zoo_app_type,
		"{\"kid\":1,\"a\":1,\"b\":1,\"in\":{\"p\":1,\"q\":\"\"},"
		"\"v\":[{\"p\":1,\"q\":\"\"},{\"p\":\"2\",\"q\":\"\"}]}",
		"v[1].p: expected int32, found a string");
	refused(&zoo_app_type, "{\"kid\":1,\"a\":1,\"b\":1,\"in\":{\"p\":1},\"v\":[]}",
		"in.q: missing");
	refused(&apus_blob_type, "{\"kid\":1,\"data\":\"abc\"}", "data: not base64");
	refused(&apus_blob_type, "{\"kid\":1,\"data\":\"ab=c\"}", "data: not base64");
	refused(&apus_blob_type, "{\"kid\":1,\"data\":\"AB==\"}", "data: not base64");
	refused(&apus_blob_type, "{\"kid\":1,\"data\":[256]}",
		"data[0]: 256 out of range for octet");
	snprintf(longest, sizeof(longest), "{\"color\":\"%0128d\",\"x\":1,\"y\":0,\"shapesize\":1}",
		 7);
	assert_int_equal(parse(&apus_shape_type, longest), 0);
	snprintf(longest, sizeof(longest), "{\"color\":\"%0129d\",\"x\":1,\"y\":0,\"shapesize\":1}",
		 7);
	refused(&apus_shape_type, longest, "color: 129 bytes, at most 128 allowed");
}

static void broken_text_is_refused(void **state)
{
	static const char *const texts[] = {"",
					    "{",
					    "nonsense",
					    "{\"x\":1,\"x\":2}",
					    "{\"x\":01}",
					    "{} {}",
					    "{\"x\":0123456789012345678901}",
					    "\"",
					    "{\"\\"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_equal(parse(&apus_shape_type, texts[i]), APUS_EINVAL);
		assert_int_equal(strncmp(error, "not JSON: ", 10), 0);
	}
	/* room for the message is never exceeded */
	error[5] = 'x';
	json_to_sample(&apus_shape_type, "{", false, sample, NULL, 0, error, 5);
	assert_string_equal(error, "not ");
	assert_int_equal(error[5], 'x');
}

static void key_fields_suffice_for_keys(void **state)
{
	(void)state;
	assert_int_equal(json_to_sample(&apus_shape_type, "{\"color\":\"RED\"}", true, sample, NULL,
					0, error, sizeof(error)),
			 0);
	assert_string_equal((char *)sample, "RED");
	assert_int_equal(json_to_sample(&apus_shape_type, "{\"color\":\"RED\",\"x\":7}", true,
					sample, NULL, 0, error, sizeof(error)),
			 0);
	assert_int_equal(((struct apus_shape *)(void *)sample)->x, 0);
	assert_int_equal(json_to_sample(&apus_shape_type, "{\"x\":1}", true, sample, NULL, 0, error,
					sizeof(error)),
			 APUS_EINVAL);
	assert_string_equal(error, "color: missing");
}

static void arena_too_small_is_a_limit(void **state)
{
	const char *json = "{\"x\":1,\"name\":\"four\"}";

	(void)state;
	assert_int_equal(json_to_sample(&zoo_keyopen_type, json, false, sample, arena, 5, error,
					sizeof(error)),
			 5);
	assert_int_equal(json_to_sample(&zoo_keyopen_type, json, false, sample, arena, 4, error,
					sizeof(error)),
			 APUS_ELIMIT);
	assert_string_equal(error, "name: the sample is too large");
}

static void base64_vectors(void **state)
{
	static const char *const pairs[][2] = {
		{"", ""},        {"f", "Zg=="},        {"fo", "Zm8="},
		{"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"foobar", "Zm9vYmFy"}};
	uint8_t out[16];
	char coded[16];
	size_t n;

	(void)state;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		size_t bytes = strlen(pairs[i][0]), length = strlen(pairs[i][1]);

		assert_int_equal(base64_length(bytes), length);
		base64_encode((const uint8_t *)pairs[i][0], bytes, coded);
		assert_memory_equal(coded, pairs[i][1], length);
		assert_true(base64_decode(coded, length, out, &n));
		assert_int_equal(n, bytes);
		assert_memory_equal(out, pairs[i][0], n);
	}
	assert_false(base64_decode("Zg=", 3, out, &n));
	assert_false(base64_decode("Z===", 4, out, &n));
	assert_false(base64_decode("====", 4, out, &n));
	assert_false(base64_decode("Zg==Zg==", 8, out, &n));
	assert_false(base64_decode("Zh==", 4, out, &n));
	assert_false(base64_decode("Zm 9", 4, out, &n));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_print),
		cmocka_unit_test(samples_parse_back),
		cmocka_unit_test(strings_are_escaped_and_checked),
		cmocka_unit_test(reals_are_exact),
		cmocka_unit_test(ranges_are_held),
		cmocka_unit_test(misfits_are_named),
		cmocka_unit_test(broken_text_is_refused),
		cmocka_unit_test(key_fields_suffice_for_keys),
		cmocka_unit_test(arena_too_small_is_a_limit),
		cmocka_unit_test(base64_vectors),
	};

	return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
