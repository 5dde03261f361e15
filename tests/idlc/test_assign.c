/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: assignability follows XTypes 1.3 §7.2.4, rule by rule, each with a pair that keeps it and one that
 * does not; and its general properties hold.
 * Method: versions of types from assign.idl and shapes.py, whose TypeObjects the IDL front end made, are put
 * into a store and compared by hash, minimal and complete.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "assign.h"
#include "control/assign.h"

#define SHAPE(name) extern const struct apus_type name##_type;
#include "shapes_table.h"
#undef SHAPE

static const struct apus_type *const shapes[] = {
#define SHAPE(name) &name##_type,
#include "shapes_table.h"
};
#define SHAPE_COUNT (sizeof(shapes) / sizeof(shapes[0]))

enum policy { USUAL, SEQUENCES, STRINGS, NO_NAMES, NO_WIDENING };

static struct apus_type_consistency policy_of(enum policy p)
{
	return (struct apus_type_consistency){
		.kind = APUS_ALLOW_TYPE_COERCION,
		.ignore_sequence_bounds = p != SEQUENCES,
		.ignore_string_bounds = p != STRINGS,
		.ignore_member_names = p == NO_NAMES,
		.prevent_type_widening = p == NO_WIDENING,
	};
}

static struct apus_ctl_types *open_store(void)
{
	struct apus_ctl_types_config config = {.entries = 4096, .bytes = 1 << 20, .seed = 5};
	struct apus_ctl_types *types;

	assert_int_equal(apus_ctl_types_create(&config, &types), 0);
	return types;
}

static struct apus_wire_type_information information_of(const struct apus_type *type)
{
	struct apus_wire_type_information information;
	struct apus_wire_value value =
		apus_wire_value_make(type->type_information, type->type_information_bytes, true);

	assert_true(apus_wire_type_information_read(&value, &information));
	return information;
}

/* Both ways of comparing must agree. */
static enum apus_ctl_assignability compare(struct apus_ctl_types *types,
					   const struct apus_type *reader,
					   const struct apus_type *writer, enum policy policy,
					   char *why)
{
	struct apus_wire_type_information r = information_of(reader), w = information_of(writer);
	struct apus_type_consistency consistency = policy_of(policy);
	enum apus_ctl_assignability minimal, complete;

	assert_int_equal(apus_ctl_types_add_local(types, reader), 0);
	assert_int_equal(apus_ctl_types_add_local(types, writer), 0);
	complete = apus_ctl_types_assignable(types, &r.complete, &w.complete, &consistency, why);
	minimal = apus_ctl_types_assignable(types, &r.minimal, &w.minimal, &consistency, why);
	assert_int_equal(minimal, complete);
	return minimal;
}

#define T(name) &v_##name##_type

static const struct {
	const struct apus_type *reader, *writer;
	enum policy policy;
	const char *why; /* NULL: assignable */
} table[] = {
	{T(F1), T(F1), USUAL, NULL},
	{T(F1), T(F_renamed), USUAL, "members 1 and 1 agree"},
	{T(F1), T(F_renamed), NO_NAMES, NULL},
	{T(F1), T(F_longer), USUAL, "final types have 2 and 3 members"},
	{T(F_longer), T(F1), USUAL, "final types have 3 and 2 members"},
	{T(A1), T(A_longer), USUAL, NULL},
	{T(A_longer), T(A1), USUAL, NULL},
	{T(A1), T(A_longer), NO_WIDENING, "the writer's type is wider: member 2"},
	{T(A_longer), T(A1), NO_WIDENING, NULL},
	{T(A1), T(A_retyped), USUAL, "member 1: the reader has long, the writer double"},
	{T(A1), T(A_renamed), USUAL, "members 1 and 1 agree"},
	{T(A1), T(A_renamed), NO_NAMES, NULL},
	{T(A1), T(A_optional), USUAL, "member 1 is optional on one side only"},
	{T(A1), T(A_swapped), USUAL, "at place 0 there are members 0 and 1"},
	{T(A1), T(A_keyless), USUAL, "member 0: it is a key on one side only"},
	{T(A_keyless), T(A1), USUAL, "member 0: it is a key on one side only"},
	{T(A1), T(A_two_keys), USUAL, "member 1: it is a key on one side only"},
	{T(A1), T(M1), USUAL, "the extensibility differs"},
	{T(M1), T(M_longer), USUAL, NULL},
	{T(M_longer), T(M1), USUAL, NULL},
	{T(M1), T(M_longer), NO_WIDENING, "wider: member 3"},
	{T(M1), T(M_apart), USUAL, "only the reader has key member 1"},
	{T(M_apart), T(M1), USUAL, "only the writer has key member 1"},
	{T(M1), T(M_needed), USUAL, "only the writer has member 4, which must be understood"},
	{T(M_needed), T(M1), USUAL, "only the reader has member 4, which must be understood"},
	{T(M1), T(M_more_keys), USUAL, "only the writer has key member 6"},
	{T(String8), T(String16), USUAL, NULL},
	{T(String8), T(String16), STRINGS, "member 0: the reader's string bound 8 is below"},
	{T(String16), T(String8), STRINGS, NULL},
	{T(StringAny), T(String8), STRINGS, NULL},
	{T(String8), T(StringAny), STRINGS, "string bound 8 is below"},
	{T(Sequence4), T(Sequence8), USUAL, NULL},
	{T(Sequence4), T(Sequence8), SEQUENCES, "sequence bound 4 is below the writer's (8"},
	{T(Sequence8), T(Sequence4), SEQUENCES, NULL},
	{T(Sequence4), T(String8), USUAL, "the reader has a sequence, the writer string"},
	{T(Key8), T(Key16), USUAL, "the bound 8 of the reader's key is below the writer's (16)"},
	{T(Key16), T(Key8), USUAL, NULL},
	{T(Array3), T(Array4), USUAL, "member 0: the dimensions of an array differ"},
	{T(Array3), T(Array3x2), USUAL, "the dimensions of an array differ"},
	{T(HoldsEnum), T(HoldsOctet), USUAL, "the reader has an enum, the writer octet"},
	{T(HoldsB12), T(HoldsB20), USUAL, "the bitmasks have 12 and 20 bits"},
	{T(HoldsNF1), T(HoldsNF2), USUAL, "member 0: final types have 1 and 2 members"},
	{T(HoldsNA1), T(HoldsNA2), USUAL, NULL},
	{T(HoldsNA2), T(HoldsNA1), USUAL, NULL},
	{T(HoldsNA1), T(HoldsNA2), NO_WIDENING, "member 0: the writer's type is wider: member 1"},
	{T(HoldsNK1), T(HoldsNK2), USUAL, NULL},
	{T(KeyNK1), T(KeyNK2), USUAL, "member 0:"},
	{T(ManyNA1), T(ManyNA2), USUAL, NULL},
	{T(HoldsU1), T(HoldsU_longer), USUAL, NULL},
	{T(HoldsU_longer), T(HoldsU1), USUAL, NULL},
	{T(HoldsU1), T(HoldsU_longer), NO_WIDENING, "only the writer's union has label 3"},
	{T(HoldsU1), T(HoldsU_apart), USUAL, "no label in common"},
	{T(HoldsU1), T(HoldsU_retyped), USUAL, "the reader has long, the writer string"},
	{T(HoldsUF1), T(HoldsUF_longer), USUAL, "union has label 3"},
	{T(A1), T(Derived), USUAL, NULL},
	{T(Derived), T(A1), USUAL, NULL},
	{T(Base), T(Derived), USUAL, NULL},
	{T(Base), T(Derived), NO_WIDENING, "wider: member 1"},
	{T(A1), T(Aliased), USUAL, NULL},
	{T(Aliased), T(A1), USUAL, NULL},
};

static void test_rules(void **state)
{
	struct apus_ctl_types *types = open_store();
	char why[APUS_CTL_ASSIGN_WHY_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		enum apus_ctl_assignability got =
			compare(types, table[i].reader, table[i].writer, table[i].policy, why);

		if ((got == APUS_CTL_ASSIGNABLE) != !table[i].why ||
		    (table[i].why && !strstr(why, table[i].why)))
			fail_msg("row %zu, %s from %s: %d, \"%s\" (wanted \"%s\")", i,
				 table[i].reader->name, table[i].writer->name, got, why,
				 table[i].why ? table[i].why : "");
		assert_int_equal(why[0] == '\0', got == APUS_CTL_ASSIGNABLE);
	}
	apus_ctl_types_destroy(types);
}

/* XTypes 1.3 table 15; member names agree, unlike in the table above. */
static void test_bitmasks_and_integers(void **state)
{
	struct apus_ctl_types *types = open_store();
	char why[APUS_CTL_ASSIGN_WHY_BYTES];

	(void)state;
	assert_int_equal(compare(types, T(HoldsB12), T(HoldsUShort), USUAL, why),
			 APUS_CTL_ASSIGNABLE);
	assert_int_equal(compare(types, T(HoldsUShort), T(HoldsB12), USUAL, why),
			 APUS_CTL_ASSIGNABLE);
	assert_int_equal(compare(types, T(HoldsB12), T(HoldsULong), USUAL, why),
			 APUS_CTL_NOT_ASSIGNABLE);
	assert_int_equal(compare(types, T(HoldsULong), T(HoldsB20), USUAL, why),
			 APUS_CTL_ASSIGNABLE);
	apus_ctl_types_destroy(types);
}

/* Every shape: assignable from itself under the strictest policy, equal hashes or not asked at all; its
 * objects have the hashes they are known by; and all it refers to is there. */
static void test_shapes(void **state)
{
	struct apus_ctl_types *types = open_store();
	char why[APUS_CTL_ASSIGN_WHY_BYTES];

	(void)state;
	for (size_t i = 0; i < SHAPE_COUNT; i++) {
		struct apus_wire_type_information information = information_of(shapes[i]);
		const struct apus_wire_type_hash *hashes[2] = {&information.minimal,
							       &information.complete};

		assert_int_equal(compare(types, shapes[i], shapes[i], NO_WIDENING, why),
				 APUS_CTL_ASSIGNABLE);
		for (int k = 0; k < 2; k++) {
			struct apus_wire_type_hash hash;
			const uint8_t *object;
			uint32_t bytes;

			assert_true(apus_ctl_types_bytes(types, hashes[k], &object, &bytes));
			apus_wire_type_hash_of(hashes[k]->kind, object, bytes, &hash);
			assert_true(apus_wire_type_hash_equal(&hash, hashes[k]));
			assert_int_equal(apus_ctl_types_closure(types, hashes[k], NULL,
								(struct apus_mono){1}),
					 APUS_CTL_CLOSURE_COMPLETE);
		}
		assert_true(apus_wire_type_hash_equal(
			&(struct apus_wire_type_hash[]){
				apus_ctl_types_minimal_of(types, &information.complete)}[0],
			&information.minimal));
	}
	apus_ctl_types_destroy(types);
}

/* Of the final, appendable and mutable version of a shape none is assignable from another. */
static void test_extensibility(void **state)
{
	struct apus_ctl_types *types = open_store();
	char why[APUS_CTL_ASSIGN_WHY_BYTES];

	(void)state;
	for (size_t i = 0; i + 2 < 3 * 40; i += 3) {
		assert_int_equal(compare(types, shapes[i], shapes[i + 1], USUAL, why),
				 APUS_CTL_NOT_ASSIGNABLE);
		assert_string_equal(why, "the extensibility differs");
		assert_int_equal(compare(types, shapes[i + 2], shapes[i + 1], USUAL, why),
				 APUS_CTL_NOT_ASSIGNABLE);
	}
	apus_ctl_types_destroy(types);
}

/* A type that is not known in all its parts is neither assignable nor not. */
static void test_missing(void **state)
{
	struct apus_ctl_types *types = open_store();
	struct apus_wire_type_information r = information_of(T(A1)),
					  w = information_of(T(A_longer));
	struct apus_type_consistency policy = policy_of(USUAL);

	(void)state;
	assert_int_equal(apus_ctl_types_add_local(types, T(A1)), 0);
	assert_int_equal(apus_ctl_types_assignable(types, &r.minimal, &w.minimal, &policy, NULL),
			 APUS_CTL_TYPES_MISSING);
	apus_ctl_types_destroy(types);
}

/* An object that is wanted of a peer may turn up as a local type's: that is news too, and nothing is asked for. */
static void test_local_types_are_news(void **state)
{
	struct apus_ctl_types *types = open_store();
	struct apus_wire_type_information r = information_of(T(A1));
	struct apus_prefix peer = {{1}}, from;
	struct apus_wire_type_hash hashes[4];
	struct apus_mono now = {1}, due;

	(void)state;
	assert_int_equal(apus_ctl_types_add_local(types, T(A_longer)), 0);
	assert_false(apus_ctl_types_news(types));
	assert_int_equal(apus_ctl_types_closure(types, &r.minimal, &peer, now),
			 APUS_CTL_CLOSURE_WANTED);
	assert_int_equal(apus_ctl_types_add_local(types, T(A1)), 0);
	assert_true(apus_ctl_types_news(types));
	assert_false(apus_ctl_types_news(types));
	assert_int_equal(apus_ctl_types_closure(types, &r.minimal, &peer, now),
			 APUS_CTL_CLOSURE_COMPLETE);
	assert_int_equal(apus_ctl_types_next_request(types, now, &from, hashes, 4, &due), 0);
	apus_ctl_types_destroy(types);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules),   cmocka_unit_test(test_bitmasks_and_integers),
		cmocka_unit_test(test_shapes),  cmocka_unit_test(test_extensibility),
		cmocka_unit_test(test_missing), cmocka_unit_test(test_local_types_are_news),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
