/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the JSON form of unions, optional and external members, nested sequences and every number, in both
 * directions, and refusals that name the path. What tests/tools/test_json.c holds for the plain kinds.
 * Method: literal texts for types of shapes.py; then random bits as values of every shape, floats among
 * them that are no numbers, through JSON and back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample.h"
#include "tools/json.h"

#define SHAPE(name) extern const struct apus_type name##_type;
#include "shapes_table.h"
#undef SHAPE

static const struct apus_type *const shapes[] = {
#define SHAPE(name) &name##_type,
#include "shapes_table.h"
};
#define SHAPE_COUNT (sizeof(shapes) / sizeof(shapes[0]))

#define ROOM 65536
static _Alignas(16) uint8_t sample[ROOM], copy[ROOM], arena[ROOM], fill_arena[ROOM];
static char text[8 * ROOM], again[8 * ROOM], error[256];

/* What a text reads and prints as; NULL: as itself. */
static void reads(const struct apus_type *type, const char *json, const char *printed)
{
	int rc = json_to_sample(type, json, false, sample, arena, ROOM, error, sizeof(error));

	if (rc < 0)
		fail_msg("%s: %s", json, error);
	assert_true(sample_to_json(type, sample, false, text, sizeof(text)) > 0);
	assert_string_equal(text, printed ? printed : json);
}

static void refused(const struct apus_type *type, const char *json, const char *message)
{
	assert_int_equal(
		json_to_sample(type, json, false, sample, arena, ROOM, error, sizeof(error)),
		APUS_EINVAL);
	assert_string_equal(error, message);
	for (size_t i = 0; i < type->size_bytes; i++)
		assert_int_equal(sample[i], 0);
}

/* UFin: switch(long) 1: long long a; 2, 3: string b; default: octet c. */
#define UNIONS(b, d) "{\"a\":1,\"b\":" b ",\"c\":2,\"d\":" d "}"
#define ANY          "{\"$discriminator\":9,\"c\":0}"

static void unions(void **state)
{
	const struct apus_type *type = &s_union_fin_f_type;

	(void)state;
	reads(type, UNIONS("{\"$discriminator\":1,\"a\":-9223372036854775808}", ANY), NULL);
	reads(type, UNIONS("{\"$discriminator\":3,\"b\":\"x\"}", ANY), NULL);
	/* Without a discriminator the member's name says which. */
	reads(type, UNIONS("{\"b\":\"x\"}", ANY),
	      UNIONS("{\"$discriminator\":2,\"b\":\"x\"}", ANY));
	refused(type, UNIONS("{\"c\":1}", ANY), "b: \"$discriminator\" missing");
	refused(type, UNIONS("{}", ANY), "b: expected one member");
	refused(type, UNIONS("{\"e\":1}", ANY), "b: no such member: e");
	refused(type, UNIONS("{\"a\":1,\"b\":\"\"}", ANY), "b: expected one member");
	refused(type, UNIONS("{\"$discriminator\":1,\"b\":\"\"}", ANY),
		"b: the discriminator selects a, found b");
	refused(type, UNIONS("{\"$discriminator\":1}", ANY),
		"b: the discriminator selects a, found nothing");
	refused(type, UNIONS("{\"$discriminator\":4294967296,\"c\":0}", ANY),
		"b.$discriminator: 4294967296 out of range for int32");
	refused(type, UNIONS("{\"$discriminator\":1,\"a\":9223372036854775808}", ANY),
		"b.a: 9223372036854775808 out of range for int64");
	refused(type, UNIONS(ANY, "[]"), "d: expected union, found an array");
	/* UApp: switch(char) 'a': double a; 'b': sequence<short> b; nothing for others. */
	reads(&s_union_app_a_type,
	      "{\"a\":0,\"b\":{\"$discriminator\":\"z\"},\"c\":-1,\"d\":{\"$discriminator\":\"b\","
	      "\"b\":[1,-2]}}",
	      NULL);
	refused(&s_union_app_a_type,
		"{\"a\":0,\"b\":{\"$discriminator\":\"z\",\"a\":1},\"c\":-1,\"d\":{\"$discriminator\":\"b\","
		"\"b\":[]}}",
		"b: the discriminator selects nothing, found a");
	refused(&s_union_app_a_type,
		"{\"a\":0,\"b\":{\"$discriminator\":\"z\"},\"c\":-1,\"d\":{\"b\":[1,32768]}}",
		"d.b[1]: 32768 out of range for int16");
}

static void optional_members(void **state)
{
	const struct apus_type *type = &s_optional_m_type;

	(void)state;
	reads(type, "{\"a\":1,\"d\":2,\"g\":3}", NULL);
	reads(type, "{\"a\":1,\"b\":null,\"d\":2,\"e\":null,\"g\":3}", "{\"a\":1,\"d\":2,\"g\":3}");
	reads(type,
	      "{\"a\":1,\"b\":-5,\"c\":9223372036854775807,\"d\":2,\"e\":\"\",\"f\":\"NaN\",\"g\":3}",
	      NULL);
	refused(type, "{\"a\":null,\"d\":2,\"g\":3}", "a: expected octet, found null");
	refused(type, "{\"a\":1,\"g\":3}", "d: missing");
	refused(type, "{\"a\":1,\"d\":2,\"g\":3,\"h\":4}", "h: no such member");
	refused(type, "{\"a\":1,\"d\":2,\"g\":3,\"e\":7}", "e: expected string, found an integer");
}

static void external_members(void **state)
{
	const struct apus_type *type = &s_external_f_type;

	(void)state;
	reads(type,
	      "{\"a\":7,\"b\":{\"o\":1,\"l\":2,\"s\":3},\"c\":\"x\",\"d\":\"12345\",\"e\":255}",
	      NULL);
	refused(type, "{\"a\":7,\"b\":{\"o\":1,\"l\":2},\"c\":\"x\",\"d\":\"\",\"e\":255}",
		"b.s: missing");
	refused(type, "{\"a\":7,\"b\":null,\"c\":\"x\",\"d\":\"\",\"e\":255}",
		"b: expected struct, found null");
	refused(type,
		"{\"a\":7,\"b\":{\"o\":1,\"l\":2,\"s\":3},\"c\":\"x\",\"d\":\"123456\",\"e\":255}",
		"d: 6 bytes, at most 5 allowed");
}

static void sequences(void **state)
{
	const struct apus_type *type = &s_seq_nested_a_type;
	const char *rest = ",\"c\":[],\"d\":[]}";
	char json[512];

	(void)state;
	snprintf(json, sizeof(json), "{\"a\":[[1],[],[-2,3]],\"b\":[\"AQI=\",\"\"]%s", rest);
	reads(type, json, NULL);
	/* Octets as numbers, too. */
	snprintf(json, sizeof(json), "{\"a\":[],\"b\":[[1,2],[]]%s", rest);
	reads(type, json, "{\"a\":[],\"b\":[\"AQI=\",\"\"],\"c\":[],\"d\":[]}");
	snprintf(json, sizeof(json), "{\"a\":[],\"b\":[[1,256]]%s", rest);
	refused(type, json, "b[0][1]: 256 out of range for octet");
	snprintf(json, sizeof(json), "{\"a\":[],\"b\":[\"AQI\"]%s", rest);
	refused(type, json, "b[0]: not base64");
	snprintf(json, sizeof(json), "{\"a\":[],\"b\":[[],[],[],[]]%s", rest);
	refused(type, json, "b: 4 elements, at most 3 allowed");
	refused(type, "{\"a\":[],\"b\":[],\"c\":[[\"12345678\"]],\"d\":[]}",
		"c[0][0]: 8 bytes, at most 7 allowed");
	refused(type, "{\"a\":[],\"b\":[],\"c\":[],\"d\":[[{\"o\":1,\"d\":1.0,\"s\":5}]]}",
		"d[0][0].s: expected string, found an integer");
}

/* A mark of the parser's own cannot be written in the text. */
static void marks_are_no_integers(void **state)
{
	const struct apus_type *type = &s_key_string_f_type;

	(void)state;
	reads(type, "{\"k\":\"\\u0001#12\",\"v\":1}", NULL);
	reads(type, "{\"k\":\"\\u0001\\u0001#\",\"v\":1}", NULL);
	reads(type, "{\"k\":\"a\\u0001#\",\"v\":1}", NULL);
	refused(type, "{\"k\":\"\",\"v\":\"\\u0001#12\"}", "v: expected int32, found a string");
	refused(type, "{\"k\":12345678901234567890,\"v\":1}",
		"k: expected string, found an integer");
	refused(type, "{\"k\":\"a\\u0000\",\"v\":1}", "k: a string cannot contain U+0000");
	refused(&s_key_enum_f_type,
		"{\"a\":\"RED\\u0000\",\"b\":\"T_ONE\",\"c\":[],\"v\":0,\"d\":true}",
		"a: no such label \"RED\"");
}

static void enums_and_masks(void **state)
{
	const struct apus_type *type = &s_key_enum_m_type;

	(void)state;
	reads(type,
	      "{\"a\":\"BLUE\",\"b\":\"T_TWO\",\"c\":[\"b12_a\",\"b12_c\"],\"v\":0,\"d\":true}",
	      NULL);
	reads(type, "{\"a\":2,\"b\":1,\"c\":2049,\"v\":0,\"d\":true}",
	      "{\"a\":\"BLUE\",\"b\":\"T_TWO\",\"c\":[\"b12_a\",\"b12_c\"],\"v\":0,\"d\":true}");
	reads(type, "{\"a\":0,\"b\":0,\"c\":4,\"v\":0,\"d\":false}",
	      "{\"a\":\"RED\",\"b\":\"T_ONE\",\"c\":4,\"v\":0,\"d\":false}"); /* a bit without a label */
	refused(type, "{\"a\":3,\"b\":0,\"c\":0,\"v\":0,\"d\":true}",
		"a: no label has the value 3");
	refused(type, "{\"a\":0,\"b\":0,\"c\":4096,\"v\":0,\"d\":true}",
		"c: 4096 out of range for bitmask");
	refused(type, "{\"a\":0,\"b\":0,\"c\":[7],\"v\":0,\"d\":true}",
		"c: no such label \"an integer\"");
	refused(type, "{\"a\":0,\"b\":0,\"c\":0,\"v\":0,\"d\":1}",
		"d: expected boolean, found an integer");
}

static void depth_and_size_are_bounded(void **state)
{
	char *deep = malloc(3 * ROOM);

	(void)state;
	memset(deep, '[', ROOM);
	deep[ROOM] = '\0';
	assert_int_equal(json_to_sample(&s_key_string_f_type, deep, false, sample, arena, ROOM,
					error, sizeof(error)),
			 APUS_EINVAL);
	assert_string_equal(error, "not JSON: maximum parsing depth reached near '['");
	memcpy(deep, "{\"v\":1,\"k\":\"", 12);
	memset(deep + 12, 'x', 2 * ROOM);
	strcpy(deep + 12 + 2 * ROOM, "\"}");
	assert_int_equal(json_to_sample(&s_key_string_f_type, deep, false, sample, arena, ROOM,
					error, sizeof(error)),
			 APUS_ELIMIT);
	assert_string_equal(error, "k: the sample is too large");
	free(deep);
}

/* ---- every shape ------------------------------------------------------------------------------- */

static bool set_real(const struct apus_type *type, uint8_t *value, uint64_t bits)
{
	static const double special[] = {NAN,  INFINITY,  -INFINITY,
					 -0.0, 0x1p-1074, 0x1.fffffffffffffp1023};
	double wide;
	float narrow;

	if (type->kind != APUS_KIND_FLOAT32 && type->kind != APUS_KIND_FLOAT64)
		return false;
	memcpy(&wide, &bits, 8);
	memcpy(&narrow, &bits, 4);
	if (bits % 3 == 0)
		narrow = (float)(wide = special[bits / 3 % 6]);
	/* A NaN is one value, whatever its bits. */
	if (isnan(wide))
		wide = NAN;
	if (isnan(narrow))
		narrow = NAN;
	if (type->kind == APUS_KIND_FLOAT64)
		memcpy(value, &wide, 8);
	else
		memcpy(value, &narrow, 4);
	return true;
}

/* Replaces the floats at a struct's first level, and in its arrays, by any floats. */
static void widen(struct sample_random *random, const struct apus_type *type, uint8_t *object)
{
	for (uint32_t i = 0; i < type->member_count; i++) {
		const struct apus_member *m = &type->members[i];
		uint8_t *value = object + m->offset_bytes;

		if (m->optional || m->external)
			continue;
		set_real(m->type, value, sample_bits(random));
		for (uint32_t e = 0; m->type->kind == APUS_KIND_ARRAY && e < m->type->bound; e++)
			set_real(m->type->element, value + (size_t)e * m->type->element->size_bytes,
				 sample_bits(random));
		if (m->type->kind == APUS_KIND_STRUCT)
			widen(random, m->type, value);
	}
}

static void every_shape_survives(void **state)
{
	struct sample_random random = {.state = 5, .arena = fill_arena, .bytes = ROOM};

	(void)state;
	for (size_t i = 0; i < SHAPE_COUNT; i++) {
		for (int n = 0; n < 60; n++) {
			memset(sample, 0, ROOM);
			sample_fill(&random, shapes[i], sample);
			widen(&random, shapes[i], sample);
			assert_true(sample_to_json(shapes[i], sample, false, text, sizeof(text)) >
				    0);
			if (json_to_sample(shapes[i], text, false, copy, arena, ROOM, error,
					   sizeof(error)) < 0)
				fail_msg("%s: %s", text, error);
			if (!sample_equal(shapes[i], sample, copy))
				fail_msg("%s is another value after JSON: %s", shapes[i]->name,
					 text);
			assert_true(sample_to_json(shapes[i], copy, false, again, sizeof(again)) >
				    0);
			assert_string_equal(text, again);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unions),
		cmocka_unit_test(optional_members),
		cmocka_unit_test(external_members),
		cmocka_unit_test(sequences),
		cmocka_unit_test(marks_are_no_integers),
		cmocka_unit_test(enums_and_masks),
		cmocka_unit_test(depth_and_size_are_bounded),
		cmocka_unit_test(every_shape_survives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
