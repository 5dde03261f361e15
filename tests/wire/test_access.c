/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: walks find members of serialised samples where they are, in every encoding, at a cost the
 * payload bounds, and never beyond its end.
 * Method: paths and walks over hand-made bytes; where walks lead is compared with concrete offsets.
 * Random samples in all encodings are tests/control/filter_oracle.py's business.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "wire/access.h"
#include "wire/cdr.h"

#include "tests/control/filter_types.h"

#define STEPS_MAX 512

static struct apus_wire_path resolve(const struct apus_type *type, const char *text)
{
	struct apus_wire_path path;
	struct apus_wire_path_error error;

	if (apus_wire_path_resolve(type, text, strlen(text), &path, &error) < 0)
		fail_msg("%s does not resolve", text);
	return path;
}

/* Offset of a member in the body, or -1. */
static long locate(const struct apus_type *type, const char *text, bool xcdr2, const void *body,
		   size_t bytes, bool swap, uint32_t *length_out)
{
	struct apus_wire_step steps[STEPS_MAX];
	struct apus_wire_path path = resolve(type, text);
	struct apus_wire_slot slot = {NULL, 0};
	uint16_t index = 0;
	int count = apus_wire_walk_build(type, xcdr2, &path, &index, 1, steps, STEPS_MAX);

	assert_true(count >= 0);
	if (!apus_wire_walk(steps, (uint32_t)count, body, bytes, swap, &slot) || !slot.bytes)
		return -1;
	if (length_out)
		*length_out = slot.length;
	return slot.bytes - (const uint8_t *)body;
}

static void paths_resolve(void **state)
{
	struct apus_wire_path path = resolve(&filter_deep, "ina.u");

	(void)state;
	assert_int_equal(path.depth, 2);
	assert_int_equal(path.parts[0], 2);
	assert_int_equal(path.parts[1], 2);
	assert_ptr_equal(path.leaf, &apus_type_uint64);
	path = resolve(&filter_deep, "v");
	assert_int_equal(path.leaf->kind, APUS_KIND_SEQUENCE);
}

static void paths_are_refused(void **state)
{
	static const struct {
		const char *path;
		int result;
		size_t position, length;
	} rows[] = {
		{"", APUS_EINVAL, 0, 0},        {"in.", APUS_EINVAL, 3, 0},
		{".p", APUS_EINVAL, 0, 0},      {"in..p", APUS_EINVAL, 3, 0},
		{"i", APUS_ENOENT, 0, 1},       {"inn", APUS_ENOENT, 0, 3},
		{"in.pp", APUS_ENOENT, 3, 2},   {"head.x", APUS_ENOTSUP, 5, 1},
		{"in.p.x", APUS_ENOTSUP, 5, 1}, {"arr.a", APUS_ENOTSUP, 4, 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct apus_wire_path path = {.depth = 99};
		struct apus_wire_path_error error;

		assert_int_equal(apus_wire_path_resolve(&filter_deep, rows[i].path,
							strlen(rows[i].path), &path, &error),
				 rows[i].result);
		assert_int_equal(error.position, rows[i].position);
		assert_int_equal(error.length, rows[i].length);
		assert_int_equal(path.depth, 99);
	}
}

/* A type with what filter_types.h has not: two dimensions, a union, optional and mutable members. */
static const uint32_t grid_dims[] = {2, 3};
static const struct apus_type grid = {.kind = APUS_KIND_ARRAY,
				      .size_bytes = 12,
				      .align_bytes = 2,
				      .bound = 6,
				      .element = &apus_type_int16,
				      .dims = grid_dims,
				      .dim_count = 2};
static const struct apus_type words = {.kind = APUS_KIND_SEQUENCE,
				       .size_bytes = sizeof(struct apus_sequence),
				       .align_bytes = 8,
				       .bound = 4,
				       .element = &apus_type_string};
static const int64_t one[] = {1}, two[] = {2};
static const struct apus_member choice_members[] = {
	{.name = "n",
	 .type = &apus_type_int32,
	 .offset_bytes = 8,
	 .id = 1,
	 .case_count = 1,
	 .cases = one},
	{.name = "t",
	 .type = &apus_type_string,
	 .offset_bytes = 8,
	 .id = 2,
	 .case_count = 1,
	 .cases = two},
};
static const struct apus_type choice = {.kind = APUS_KIND_UNION,
					.size_bytes = 16,
					.align_bytes = 8,
					.element = &apus_type_octet,
					.members = choice_members,
					.member_count = 2};
static const int32_t seven = 7;
static const struct apus_member rich_members[] = {
	{.name = "g", .type = &grid, .id = 5},
	{.name = "w", .type = &words, .offset_bytes = 16, .id = 6},
	{.name = "u", .type = &choice, .offset_bytes = 32, .id = 7},
	{.name = "o", .type = &apus_type_int64, .offset_bytes = 48, .id = 8, .optional = true},
	{.name = "d",
	 .type = &apus_type_int32,
	 .offset_bytes = 56,
	 .id = 9,
	 .default_value = &seven},
};
static const struct apus_type rich = {.name = "Rich",
				      .kind = APUS_KIND_STRUCT,
				      .extensibility = APUS_MUTABLE,
				      .size_bytes = 64,
				      .align_bytes = 8,
				      .members = rich_members,
				      .member_count = 5};

static void parts_are_numbered(void **state)
{
	static const struct {
		const char *text;
		uint16_t depth;
		uint32_t parts[3];
		uint8_t kind;
	} rows[] = {
		{"g[0][0]", 2, {0, 0}, APUS_KIND_INT16},
		{"g[1][2]", 2, {0, 5}, APUS_KIND_INT16},
		{"w.length", 2, {1, 0}, APUS_KIND_UINT32},
		{"w[3]", 2, {1, 4}, APUS_KIND_STRING},
		{"w[3].length", 3, {1, 4, 0}, APUS_KIND_UINT32},
		{"u._d", 2, {2, 0}, APUS_KIND_OCTET},
		{"u.t", 2, {2, 2}, APUS_KIND_STRING},
		{"u.t.length", 3, {2, 2, 0}, APUS_KIND_UINT32},
	};

	(void)state;
	assert_int_equal(apus_type_check(&rich), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct apus_wire_path path = resolve(&rich, rows[i].text);

		assert_int_equal(path.depth, rows[i].depth);
		assert_memory_equal(path.parts, rows[i].parts,
				    rows[i].depth * sizeof(path.parts[0]));
		assert_int_equal(path.leaf->kind, rows[i].kind);
	}
}

static void wrong_parts_are_refused(void **state)
{
	static const struct {
		const char *path;
		int result;
		size_t position, length;
		const char *reason;
	} rows[] = {
		{"g[2][0]", APUS_ELIMIT, 1, 3, "outside the array"},
		{"g[1][3]", APUS_ELIMIT, 4, 3, "outside the array"},
		{"g[1]", APUS_ENOTSUP, 1, 3, "the array has more dimensions"},
		{"g[1].x", APUS_ENOTSUP, 1, 3, "the array has more dimensions"},
		{"g[0][0][0]", APUS_ENOTSUP, 7, 1, "no array or sequence"},
		{"g.length", APUS_ENOTSUP, 2, 6, "looked for in no struct or union"},
		{"w[4]", APUS_ELIMIT, 1, 3, "beyond the sequence's bound"},
		{"w[4294967295]", APUS_ELIMIT, 1, 12, "an index is too large"},
		{"w[99999999999999999999999]", APUS_ELIMIT, 1, 25, "an index is too large"},
		{"w[]", APUS_EINVAL, 1, 1, "an index is missing"},
		{"w[", APUS_EINVAL, 1, 1, "an index is missing"},
		{"w[-1]", APUS_EINVAL, 1, 1, "an index is missing"},
		{"w[1", APUS_EINVAL, 1, 2, "an index is not closed"},
		{"w[1x]", APUS_EINVAL, 1, 2, "an index is not closed"},
		{"w[1]x", APUS_EINVAL, 4, 1, "no '.' or '[' here"},
		{"w[1].", APUS_EINVAL, 5, 0, "a name is missing"},
		{"[1]", APUS_EINVAL, 0, 0, "a name is missing"},
		{"w.lengths", APUS_ENOTSUP, 2, 7, "only its length has a name here"},
		{"w.length.length", APUS_ENOTSUP, 9, 6, "looked for in no struct or union"},
		{"u.x", APUS_ENOENT, 2, 1, "no such member"},
		{"u[0]", APUS_ENOTSUP, 1, 1, "no array or sequence"},
		{"_d", APUS_ENOENT, 0, 2, "no such member"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct apus_wire_path path = {.depth = 99};
		struct apus_wire_path_error error;

		assert_int_equal(apus_wire_path_resolve(&rich, rows[i].path, strlen(rows[i].path),
							&path, &error),
				 rows[i].result);
		assert_string_equal(error.reason, rows[i].reason);
		assert_int_equal(error.position, rows[i].position);
		assert_int_equal(error.length, rows[i].length);
		assert_int_equal(path.depth, 99);
	}
}

/* PL_CDR, members in any order, some missing: found, absent, or the default. */
static void members_with_headers_are_found(void **state)
{
	static const uint8_t body[] = {
		7, 0,    12, 0, 2,   0,   0,   0, 3, 0, 0, 0, 'h', 'i', 0, 0, /* u: t "hi" */
		3, 0,    4,  0, 1,   2,   3,   4,                             /* nobody's */
		6, 0,    20, 0, 2,   0,   0,   0, 2, 0, 0, 0, 'a', 0,   0, 0, /* w: "a", */
		4, 0,    0,  0, 'b', 'c', 'd', 0,                             /* "bcd" */
		2, 0x3f, 0,  0,
	};
	static const char *const texts[] = {"g[1][2]", "w.length",   "w[1]", "w[2]", "u._d",
					    "u.n",     "u.t.length", "o",    "d"};
	struct apus_wire_path paths[9];
	struct apus_wire_step steps[STEPS_MAX];
	struct apus_wire_slot slots[9];
	uint16_t indices[9];
	uint32_t number;
	int count;

	(void)state;
	for (uint16_t i = 0; i < 9; i++) {
		paths[i] = resolve(&rich, texts[i]);
		indices[i] = i;
	}
	count = apus_wire_walk_build(&rich, false, paths, indices, 9, steps, STEPS_MAX);
	assert_true(count > 0);
	memset(slots, 0xee, sizeof(slots));
	assert_true(apus_wire_walk(steps, (uint32_t)count, body, sizeof(body), false, slots));
	assert_memory_equal(slots[0].bytes, "\0", 2); /* g is missing: zero */
	memcpy(&number, slots[1].bytes, 4);
	assert_int_equal(number, 2);
	assert_int_equal(slots[2].length, 3);
	assert_memory_equal(slots[2].bytes, "bcd", 3);
	assert_null(slots[3].bytes); /* behind the end */
	assert_int_equal(*slots[4].bytes, 2);
	assert_null(slots[5].bytes); /* not selected */
	memcpy(&number, slots[6].bytes, 4);
	assert_int_equal(number, 2);
	assert_null(slots[7].bytes); /* optional, not there */
	memcpy(&number, slots[8].bytes, 4);
	assert_int_equal(number, 7); /* its default */
	for (size_t n = 0; n < sizeof(body); n++)
		assert_false(apus_wire_walk(steps, (uint32_t)count, body, n, false, slots));
}

/* A member that comes twice, or one that must be understood and is not. */
static void contradictory_lists_are_malformed(void **state)
{
	uint8_t body[] = {9, 0, 4, 0, 1, 0, 0, 0, 9, 0, 4, 0, 2, 0, 0, 0, 2, 0x3f, 0, 0};

	(void)state;
	assert_int_equal(locate(&rich, "d", false, body, sizeof(body), false, NULL), -1);
	body[8] = 3; /* nobody's */
	assert_int_equal(locate(&rich, "d", false, body, sizeof(body), false, NULL), 4);
	body[9] = 0x40; /* must be understood */
	assert_int_equal(locate(&rich, "d", false, body, sizeof(body), false, NULL), -1);
}

static void paths_have_the_order_of_the_wire(void **state)
{
	struct apus_wire_path head = resolve(&filter_deep, "head"),
			      p = resolve(&filter_deep, "in.p");
	struct apus_wire_path r = resolve(&filter_deep, "in.r"), e = resolve(&filter_deep, "e");

	(void)state;
	assert_true(apus_wire_path_compare(&head, &p) < 0);
	assert_true(apus_wire_path_compare(&p, &r) < 0);
	assert_true(apus_wire_path_compare(&e, &r) > 0);
	assert_int_equal(apus_wire_path_compare(&e, &e), 0);
}

/* Fixed members in front: one step, whatever lies between. */
static void constant_offsets_cost_one_step(void **state)
{
	struct apus_wire_step steps[STEPS_MAX];
	struct apus_wire_path path = resolve(&filter_scalars, "i64");
	uint16_t slot = 0;

	(void)state;
	assert_int_equal(
		apus_wire_walk_build(&filter_scalars, false, &path, &slot, 1, steps, STEPS_MAX), 1);
	assert_int_equal(steps[0].op, APUS_WIRE_RUN);
	/* b 0, u16 2, c 4, u64 8, i8 16, i32 20, u8 24, f64 32, o 40, i16 42, u32 44, f32 48, i64 56 */
	assert_int_equal(steps[0].delta, 56);
	assert_int_equal(steps[0].bytes, 64);
	/* XCDR2 aligns to 4 at most: u64 8, i8 16, i32 20, u8 24, f64 28, o 36, i16 38, u32 40, f32 44 */
	assert_int_equal(
		apus_wire_walk_build(&filter_scalars, true, &path, &slot, 1, steps, STEPS_MAX), 1);
	assert_int_equal(steps[0].delta, 48);
	assert_int_equal(steps[0].bytes, 56);
}

static void shape_is_two_steps(void **state)
{
	static const uint8_t body[] = {5, 0, 0, 0, 'B', 'L', 'U', 'E', 0, 0, 0, 0,
				       1, 0, 0, 0, 2,   0,   0,   0,   3, 0, 0, 0};
	static const uint8_t big[] = {0, 0, 0, 5, 'B', 'L', 'U', 'E', 0, 0, 0, 0, 0, 0, 0, 1};
	uint32_t length = 0;

	(void)state;
	assert_int_equal(locate(&apus_shape_type, "color", false, body, 24, false, &length), 4);
	assert_int_equal(length, 4);
	assert_int_equal(locate(&apus_shape_type, "x", false, body, 24, false, NULL), 12);
	assert_int_equal(locate(&apus_shape_type, "shapesize", true, body, 24, false, NULL), 20);
	assert_int_equal(locate(&apus_shape_type, "x", false, big, 16, true, NULL), 12);
	for (size_t n = 0; n < 16; n++)
		assert_int_equal(locate(&apus_shape_type, "x", false, body, n, false, NULL), -1);
	assert_int_equal(locate(&apus_shape_type, "x", false, body, 16, false, NULL), 12);
}

/* Loops under XCDR1: elements of variable size, nested in one another. */
static void loops_walk_their_elements(void **state)
{
	static const uint8_t body[] = {
		1, 0, 0, 0, 9,   0, 0, 0,                               /* raw: one octet */
		7, 0, 0, 0, 2,   0, 0, 0, 'q', 0, 0, 0, 0,   0,   0, 0, /* in.p, in.q, pad */
		0, 0, 0, 0, 0,   0, 0, 0,                               /* in.r */
		1, 0, 0, 0, 1,   0, 0, 0, 0,   0, 0, 0, 0,   0,   0, 0, /* ina.a, ina.s, pad */
		5, 0, 0, 0, 0,   0, 0, 0,                               /* ina.u at 48 */
		2, 0, 0, 0, 'a', 0, 0, 0, 3,   0, 0, 0, 'b', 'c', 0, 0, /* pair */
		6, 0, 0, 0, 0,   0, 0, 0,                               /* after at 72 */
	};

	(void)state;
	assert_int_equal(locate(&filter_mixed, "ina.u", false, body, sizeof(body), false, NULL),
			 48);
	assert_int_equal(locate(&filter_mixed, "after", false, body, sizeof(body), false, NULL),
			 72);
	assert_int_equal(locate(&filter_mixed, "after", false, body, sizeof(body) - 1, false, NULL),
			 -1);
}

/* A count of 2^32 - 1 ends at the payload's end, after as many rounds as it has bytes. */
static void hostile_counts_end(void **state)
{
	static uint8_t body[64 * 1024];
	struct apus_wire_step steps[STEPS_MAX];
	struct apus_wire_path path = resolve(&filter_deep, "tail");
	struct apus_wire_slot slot = {NULL, 0};
	uint16_t index = 0;
	int count = apus_wire_walk_build(&filter_deep, false, &path, &index, 1, steps, STEPS_MAX);

	(void)state;
	/* Every length and count is 2^32 - 1, then 1, then 0: none is believed, none hangs. */
	memset(body, 0xff, sizeof(body));
	assert_false(apus_wire_walk(steps, (uint32_t)count, body, sizeof(body), false, &slot));
	for (size_t i = 0; i < sizeof(body); i += 4)
		memcpy(body + i, (const uint8_t[]){1, 0, 0, 0}, 4);
	apus_wire_walk(steps, (uint32_t)count, body, sizeof(body), false, &slot);
	memset(body, 0, sizeof(body));
	assert_false(apus_wire_walk(steps, (uint32_t)count, body, sizeof(body), false, &slot));
}

static void walks_are_bounded(void **state)
{
	struct apus_wire_step steps[STEPS_MAX];
	struct apus_wire_path path = resolve(&filter_deep, "tail");
	uint16_t slot = 0;
	int needed = apus_wire_walk_build(&filter_deep, false, &path, &slot, 1, steps, STEPS_MAX);

	(void)state;
	assert_true(needed > 10);
	for (int capacity = 0; capacity < needed; capacity++)
		assert_int_equal(apus_wire_walk_build(&filter_deep, false, &path, &slot, 1, steps,
						      (uint32_t)capacity),
				 APUS_ELIMIT);
	assert_int_equal(
		apus_wire_walk_build(&filter_deep, false, &path, &slot, 1, steps, (uint32_t)needed),
		needed);
}

/* A type of 12 levels with 16 members each would be 16^12 members: refused after a bounded number. */
static void fan_out_is_refused(void **state)
{
	static struct apus_member members[12][17];
	static struct apus_type types[12];
	struct apus_wire_step steps[STEPS_MAX];
	struct apus_wire_path path = {.parts = {16}, .depth = 1, .leaf = &apus_type_int8};
	uint16_t slot = 0;

	(void)state;
	for (int level = 0; level < 12; level++) {
		types[level] = (struct apus_type){
			.kind = APUS_KIND_STRUCT, .members = members[level], .member_count = 17};
		for (int i = 0; i < 17; i++)
			members[level][i] = (struct apus_member){
				.name = "m",
				.type = level && i < 16 ? &types[level - 1] : &apus_type_int8};
	}
	assert_int_equal(apus_wire_walk_build(&types[11], false, &path, &slot, 1, steps, STEPS_MAX),
			 APUS_ELIMIT);
	assert_int_equal(apus_wire_walk_build(&types[0], false, &path, &slot, 1, steps, STEPS_MAX),
			 1);
}

/* What walks do not know is refused, not guessed at. */
static void unknown_shapes_are_refused(void **state)
{
	struct apus_type odd = filter_inner;
	struct apus_member members[2] = {
		{.name = "odd", .type = &odd},
		{.name = "x", .type = &apus_type_int32, .id = 1},
	};
	struct apus_type outer = {.kind = APUS_KIND_STRUCT, .members = members, .member_count = 2};
	struct apus_wire_path path = {.parts = {1}, .depth = 1, .leaf = &apus_type_int32};
	struct apus_wire_step steps[STEPS_MAX];
	uint16_t slot = 0;

	(void)state;
	for (int x = 0; x < 2; x++) {
		odd = filter_inner;
		assert_true(apus_wire_walk_build(&outer, x, &path, &slot, 1, steps, STEPS_MAX) > 0);
		odd.extensibility = APUS_MUTABLE + 1;
		assert_int_equal(apus_wire_walk_build(&outer, x, &path, &slot, 1, steps, STEPS_MAX),
				 APUS_ENOTSUP);
		odd.extensibility = APUS_FINAL;
		odd.kind = APUS_KIND_UNION + 1;
		assert_int_equal(apus_wire_walk_build(&outer, x, &path, &slot, 1, steps, STEPS_MAX),
				 APUS_ENOTSUP);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_resolve),
		cmocka_unit_test(paths_are_refused),
		cmocka_unit_test(parts_are_numbered),
		cmocka_unit_test(wrong_parts_are_refused),
		cmocka_unit_test(members_with_headers_are_found),
		cmocka_unit_test(contradictory_lists_are_malformed),
		cmocka_unit_test(paths_have_the_order_of_the_wire),
		cmocka_unit_test(constant_offsets_cost_one_step),
		cmocka_unit_test(shape_is_two_steps),
		cmocka_unit_test(loops_walk_their_elements),
		cmocka_unit_test(hostile_counts_end),
		cmocka_unit_test(walks_are_bounded),
		cmocka_unit_test(fan_out_is_refused),
		cmocka_unit_test(unknown_shapes_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
