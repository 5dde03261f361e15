/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the descriptor check accepts every good descriptor and refuses each kind of mistake; bounds
 * and built-in types are what they claim.
 * Method: good types as they are; one copy with one mistake each; the largest sample of a type
 * really takes apus_type_max_bytes().
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "zoo.h"

static void good_types_pass(void **state)
{
	(void)state;
	for (int i = 0; i < ZOO_COUNT; i++)
		assert_int_equal(apus_type_check(zoo_all[i]), 0);
}

/* A struct of two members, to be spoilt. */
struct two {
	int32_t a;
	int32_t b;
};

struct mistake {
	struct apus_type type;
	struct apus_member members[2];
	struct apus_type element;
};

static void init_two(struct mistake *m)
{
	memset(m, 0, sizeof(*m));
	m->members[0] = (struct apus_member){"a", &apus_type_int32, 0, 0, true};
	m->members[1] = (struct apus_member){"b", &apus_type_int32, 4, 1, false};
	m->type = (struct apus_type){.name = "Two",
				     .kind = APUS_KIND_STRUCT,
				     .size_bytes = sizeof(struct two),
				     .align_bytes = 4,
				     .members = m->members,
				     .member_count = 2};
}

static void struct_mistakes_are_refused(void **state)
{
	struct mistake m;

	(void)state;
#define REFUSED(change)                                                  \
	do {                                                             \
		init_two(&m);                                            \
		assert_int_equal(apus_type_check(&m.type), 0);           \
		change;                                                  \
		assert_int_equal(apus_type_check(&m.type), APUS_EINVAL); \
	} while (0)
	REFUSED(m.type.name = NULL);
	REFUSED(m.type.name = "");
	REFUSED(m.type.kind = 0);
	REFUSED(m.type.kind = APUS_KIND_UNION + 1);
	REFUSED(m.type.kind = APUS_KIND_INT32);
	REFUSED(m.type.extensibility = 3);
	REFUSED(m.type.size_bytes = 7);
	REFUSED(m.type.size_bytes = 4);
	REFUSED(m.type.align_bytes = 2);
	REFUSED(m.type.align_bytes = 3);
	REFUSED(m.type.align_bytes = 0);
	REFUSED(m.type.member_count = 0);
	REFUSED(m.type.member_count = 257);
	REFUSED(m.type.members = NULL);
	REFUSED(m.members[1].name = "a");
	REFUSED(m.members[1].name = NULL);
	REFUSED(m.members[1].id = 0);
	REFUSED(m.members[1].offset_bytes = 2);
	REFUSED(m.members[1].offset_bytes = 0);
	REFUSED(m.members[1].offset_bytes = 8);
	REFUSED(m.members[1].offset_bytes = UINT32_MAX - 3);
	REFUSED(m.members[1].type = NULL);
	/* a cycle */
	REFUSED(m.members[1].type = &m.type);
	assert_int_equal(apus_type_check(NULL), APUS_EINVAL);
}

static void element_mistakes_are_refused(void **state)
{
	struct mistake m;
	static const struct apus_label labels[] = {{"X", 0}, {"Y", 0}, {"X", 8}};

	(void)state;
#define ELEMENT(...) \
	REFUSED(m.element = ((struct apus_type){__VA_ARGS__}); m.members[1].type = &m.element)
	ELEMENT(.kind = APUS_KIND_INT32, .size_bytes = 8, .align_bytes = 4);
	ELEMENT(.kind = APUS_KIND_ENUM, .size_bytes = 4, .align_bytes = 4);
	ELEMENT(.kind = APUS_KIND_ENUM, .size_bytes = 4, .align_bytes = 4, .labels = labels,
		.label_count = 2);
	ELEMENT(.kind = APUS_KIND_BITMASK, .size_bytes = 1, .align_bytes = 1, .bit_bound = 0);
	ELEMENT(.kind = APUS_KIND_BITMASK, .size_bytes = 1, .align_bytes = 1, .bit_bound = 9);
	ELEMENT(.kind = APUS_KIND_BITMASK, .size_bytes = 1, .align_bytes = 1, .bit_bound = 8,
		.labels = labels + 2, .label_count = 1);
	ELEMENT(.kind = APUS_KIND_STRING, .size_bytes = 4, .align_bytes = 1, .bound = 4);
	ELEMENT(.kind = APUS_KIND_STRING, .size_bytes = 4, .align_bytes = 1, .bound = 0);
	ELEMENT(.kind = APUS_KIND_ARRAY, .size_bytes = 4, .align_bytes = 2, .bound = 3,
		.element = &apus_type_int16);
	ELEMENT(.kind = APUS_KIND_ARRAY, .size_bytes = 4, .align_bytes = 2, .bound = 0,
		.element = &apus_type_int16);
	ELEMENT(.kind = APUS_KIND_ARRAY, .size_bytes = 4, .align_bytes = 1, .bound = 2);
	ELEMENT(.kind = APUS_KIND_SEQUENCE, .size_bytes = 4, .align_bytes = 4,
		.element = &apus_type_int16);
}

static void keys_of_wrong_kinds_are_refused(void **state)
{
	static const struct apus_type sequence = {.kind = APUS_KIND_SEQUENCE,
						  .size_bytes = sizeof(struct apus_sequence),
						  .align_bytes = _Alignof(struct apus_sequence),
						  .element = &apus_type_octet};
	static const struct apus_type strings = {.kind = APUS_KIND_ARRAY,
						 .size_bytes = 2 * sizeof(char *),
						 .align_bytes = _Alignof(char *),
						 .bound = 2,
						 .element = &apus_type_string};
	struct apus_member member = {"m", &sequence, 0, 0, false};
	struct apus_type type = {.name = "T",
				 .kind = APUS_KIND_STRUCT,
				 .size_bytes = 16,
				 .align_bytes = 8,
				 .members = &member,
				 .member_count = 1};

	(void)state;
	assert_int_equal(apus_type_check(&type), 0);
	assert_false(apus_type_is_keyed(&type));
	member.key = true;
	assert_true(apus_type_is_keyed(&type));
	assert_int_equal(apus_type_check(&type), APUS_EINVAL);
	member.type = &strings;
	assert_int_equal(apus_type_check(&type), APUS_EINVAL);
	member.key = false;
	assert_int_equal(apus_type_check(&type), 0);
	/* a struct without marked members is key as a whole, and this one has a sequence in it */
	member.key = true;
	member.type = &apus_blob_type;
	type.size_bytes = sizeof(struct apus_blob);
	assert_int_equal(apus_type_check(&type), 0); /* kid is marked: data does not count */
	member.type = &zoo_final_type;
	type.size_bytes = sizeof(struct zoo_final);
	assert_int_equal(apus_type_check(&type), 0);
}

/* Seventeen structs, each the only member of the next. */
static void nesting_is_limited(void **state)
{
	struct apus_type types[18];
	struct apus_member members[18];

	(void)state;
	types[0] = apus_type_int32;
	for (int i = 1; i < 18; i++) {
		members[i] = (struct apus_member){"m", &types[i - 1], 0, 0, false};
		types[i] = (struct apus_type){.name = "N",
					      .kind = APUS_KIND_STRUCT,
					      .size_bytes = 4,
					      .align_bytes = 4,
					      .members = &members[i],
					      .member_count = 1};
	}
	assert_int_equal(apus_type_check(&types[16]), 0);
	assert_int_equal(apus_type_check(&types[17]), APUS_EINVAL);
	assert_int_equal(apus_type_max_bytes(&types[16], APUS_XCDR1), 4);
	assert_int_equal(apus_type_max_bytes(&types[17], APUS_XCDR1), 0);
}

static void largest_size_is_exact(void **state)
{
	static const struct apus_type points = {.kind = APUS_KIND_SEQUENCE,
						.size_bytes = sizeof(struct apus_sequence),
						.align_bytes = _Alignof(struct apus_sequence),
						.bound = 1000,
						.element = &zoo_key2_type};
	static const struct apus_member members[] = {{"o", &apus_type_octet, 0, 0, false},
						     {"p", &points, 8, 1, false}};
	static const struct apus_type type = {.name = "Bounded",
					      .kind = APUS_KIND_STRUCT,
					      .size_bytes = 24,
					      .align_bytes = 8,
					      .members = members,
					      .member_count = 2};
	static struct zoo_key2 data[1000];
	struct {
		uint8_t o;
		struct apus_sequence p;
	} sample = {1, {.length = 1000, .data = data}};
	static uint8_t out[20000];

	(void)state;
	assert_int_equal(apus_type_check(&type), 0);
	for (int r = APUS_XCDR1; r <= APUS_XCDR2; r += 2)
		assert_int_equal(apus_type_encode(&type, &sample, r, false, out, sizeof(out)) - 4,
				 apus_type_max_bytes(&type, r));
	/* shape: 4 + 129 + 3 + 12 */
	assert_int_equal(apus_type_max_bytes(&apus_shape_type, APUS_XCDR1), 148);
	assert_int_equal(apus_type_max_bytes(&zoo_app_short_type, APUS_XCDR1), 8);
	assert_int_equal(apus_type_max_bytes(&zoo_app_short_type, APUS_XCDR2), 12);
	assert_int_equal(apus_type_max_bytes(&zoo_keybig_type, APUS_XCDR1), 36);
	assert_int_equal(apus_type_max_bytes(&apus_blob_type, APUS_XCDR1), 0);
	assert_int_equal(apus_type_max_bytes(&zoo_nest_type, APUS_XCDR1), 0);
	assert_int_equal(apus_type_max_bytes(&apus_shape_type, 1), 0);
	assert_int_equal(apus_type_max_bytes(NULL, APUS_XCDR1), 0);
}

static void huge_bounds_are_no_size(void **state)
{
	static const struct apus_type row = {.kind = APUS_KIND_SEQUENCE,
					     .size_bytes = sizeof(struct apus_sequence),
					     .align_bytes = _Alignof(struct apus_sequence),
					     .bound = UINT32_MAX,
					     .element = &apus_type_float64};
	static const struct apus_type rows = {.kind = APUS_KIND_SEQUENCE,
					      .size_bytes = sizeof(struct apus_sequence),
					      .align_bytes = _Alignof(struct apus_sequence),
					      .bound = UINT32_MAX,
					      .element = &row};
	static const struct apus_member member = {"r", &rows, 0, 0, false};
	static const struct apus_type type = {.name = "Huge",
					      .kind = APUS_KIND_STRUCT,
					      .size_bytes = sizeof(struct apus_sequence),
					      .align_bytes = _Alignof(struct apus_sequence),
					      .members = &member,
					      .member_count = 1};

	(void)state;
	assert_int_equal(apus_type_check(&type), 0);
	assert_int_equal(apus_type_max_bytes(&type, APUS_XCDR1), 0);
	assert_int_equal(apus_type_max_bytes(&type, APUS_XCDR2), 0);
}

static void builtin_types_are_found(void **state)
{
	(void)state;
	assert_ptr_equal(apus_type_builtin("ShapeType"), &apus_shape_type);
	assert_ptr_equal(apus_type_builtin("ShapeTypeExtended"), &apus_shape_extended_type);
	assert_ptr_equal(apus_type_builtin("Blob"), &apus_blob_type);
	assert_null(apus_type_builtin("shapetype"));
	assert_null(apus_type_builtin(""));
	assert_null(apus_type_builtin(NULL));
	assert_true(apus_type_is_keyed(&apus_shape_type));
	assert_false(apus_type_is_keyed(&zoo_prims_type));
	assert_false(apus_type_is_keyed(&apus_type_int32));
	assert_false(apus_type_is_keyed(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_types_pass),
		cmocka_unit_test(struct_mistakes_are_refused),
		cmocka_unit_test(element_mistakes_are_refused),
		cmocka_unit_test(keys_of_wrong_kinds_are_refused),
		cmocka_unit_test(nesting_is_limited),
		cmocka_unit_test(largest_size_is_exact),
		cmocka_unit_test(huge_bounds_are_no_size),
		cmocka_unit_test(builtin_types_are_found),
	};

	return cmocka_run_group_tests_name("type", tests, NULL, NULL);
}
