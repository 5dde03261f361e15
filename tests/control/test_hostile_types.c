/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: TypeObjects that are small, valid and dear are refused before they cost: no stranger's type keeps the
 * control thread busy. Method: complete objects made here, learnt under their own hashes, built and compared;
 * the sizes are such that without the limits a test would take minutes, not fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "control/assign.h"
#include "control/typebuild.h"

static const struct apus_prefix server = {{1, 2, 3}};
static const struct apus_mono now = {1000};

/* An object being written. */
static uint8_t object[65000];
static size_t used;

static void pad(size_t align)
{
	while (used % align)
		object[used++] = 0;
}

static void put(uint64_t value, size_t bytes)
{
	pad(bytes > 4 ? 4 : bytes);
	assert_true(used + bytes <= sizeof(object));
	memcpy(object + used, &value, bytes);
	used += bytes;
}

static size_t open_part(void)
{
	put(0, 4);
	return used;
}

static void close_part(size_t start)
{
	uint32_t bytes = (uint32_t)(used - start);

	memcpy(object + start - 4, &bytes, 4);
}

static void put_name(char letter, uint32_t number)
{
	char name[16];
	int n = snprintf(name, sizeof(name), "%c%u", letter, number);

	put((uint64_t)n + 1, 4);
	memcpy(object + used, name, (size_t)n + 1);
	used += (size_t)n + 1;
}

static void put_hash(const struct apus_wire_type_hash *hash)
{
	put(hash->kind, 1);
	if (hash->kind != APUS_WIRE_EK_COMPLETE)
		return;
	memcpy(object + used, hash->bytes, sizeof(hash->bytes));
	used += sizeof(hash->bytes);
}

static size_t begin(uint8_t kind)
{
	size_t start;

	used = 0;
	start = open_part();
	put(APUS_WIRE_EK_COMPLETE, 1);
	put(kind, 1);
	put(APUS_TYPE_APPENDABLE, 2);
	return start;
}

/* Two absent annotations and the type's name. */
static void put_detail(char letter)
{
	put(0, 1);
	put(0, 1);
	put_name(letter, 0);
}

static struct apus_wire_type_hash learn(struct apus_ctl_types *types, size_t start)
{
	struct apus_wire_type_hash hash;

	close_part(start);
	apus_wire_type_hash_of(APUS_WIRE_EK_COMPLETE, object, used, &hash);
	apus_ctl_types_closure(types, &hash, &server, now);
	assert_int_equal(apus_ctl_types_learn(types, &hash, object, used, &server, now), 1);
	return hash;
}

static struct apus_wire_type_hash make_enum(struct apus_ctl_types *types, uint32_t labels)
{
	size_t start = begin(APUS_TK_ENUM), part = open_part(), member, common;

	put(32, 2);
	put_detail('E');
	close_part(part);
	part = open_part();
	put(labels, 4);
	for (uint32_t i = 0; i < labels; i++) {
		member = open_part();
		common = open_part();
		put(i, 4);
		put(i == 0 ? APUS_MEMBER_DEFAULT : 0, 2);
		close_part(common);
		put_name('L', i);
		close_part(member);
	}
	close_part(part);
	return learn(types, start);
}

/* A struct `letter` of `count` members of a type. */
static struct apus_wire_type_hash make_struct(struct apus_ctl_types *types, char letter,
					      const struct apus_wire_type_hash *type,
					      uint32_t count)
{
	size_t start = begin(APUS_TK_STRUCTURE), part = open_part(), member;

	put(APUS_TK_NONE, 1);
	put_detail(letter);
	close_part(part);
	part = open_part();
	put(count, 4);
	for (uint32_t i = 0; i < count; i++) {
		member = open_part();
		put(i, 4);
		put(0, 2);
		put_hash(type);
		put_name('m', i);
		close_part(member);
	}
	close_part(part);
	return learn(types, start);
}

/* A union on long with one case of `labels` labels from `first` on. */
static struct apus_wire_type_hash make_union(struct apus_ctl_types *types, uint32_t first,
					     uint32_t labels)
{
	size_t start = begin(APUS_TK_UNION), part = open_part(), member;

	put_detail('U');
	close_part(part);
	part = open_part();
	put(0, 2);
	put(APUS_TK_INT32, 1);
	close_part(part);
	part = open_part();
	put(1, 4);
	member = open_part();
	put(0, 4);
	put(0, 2);
	put(APUS_TK_INT32, 1);
	put(labels, 4);
	for (uint32_t i = 0; i < labels; i++)
		put(first + i, 4);
	put_name('c', 0);
	close_part(member);
	close_part(part);
	return learn(types, start);
}

static struct apus_ctl_types *open_store(void)
{
	struct apus_ctl_types_config config = {.entries = 64, .bytes = 8 << 20, .seed = 5};
	struct apus_ctl_types *types;

	assert_int_equal(apus_ctl_types_create(&config, &types), 0);
	return types;
}

static int build(struct apus_ctl_types *types, const struct apus_wire_type_hash *hash)
{
	struct apus_wire_type_information information = {.complete = *hash};
	struct apus_ctl_built *built = NULL;
	int rc = apus_ctl_type_build(types, &information, &built);

	if (rc == 0)
		assert_int_equal(apus_type_check(apus_ctl_built_type(built)), 0);
	apus_ctl_built_free(rc == 0 ? built : NULL);
	return rc;
}

static void test_enums_of_many_labels(void **state)
{
	struct apus_ctl_types *types = open_store();
	struct apus_wire_type_hash e = make_enum(types, 300), s = make_struct(types, 'A', &e, 100);

	(void)state;
	assert_int_equal(build(types, &s), 0);
	e = make_enum(types, 1700);
	s = make_struct(types, 'B', &e, 2);
	assert_int_equal(build(types, &s), 0);
	/* 62 structs of 256 such enums: few members, minutes of comparisons under the lock. */
	s = make_struct(types, 'C', &e, 256);
	assert_int_equal(build(types, &s), APUS_ELIMIT);
	s = make_struct(types, 'D', &s, 62);
	assert_int_equal(build(types, &s), APUS_ELIMIT);
	apus_ctl_types_destroy(types);
}

static void test_unions_of_many_labels(void **state)
{
	struct apus_ctl_types *types = open_store();
	struct apus_wire_type_hash u = make_union(types, 0, 3000),
				   s = make_struct(types, 'A', &u, 1);

	(void)state;
	assert_int_equal(build(types, &s), 0);
	s = make_struct(types, 'B', &u, 256);
	assert_int_equal(build(types, &s), APUS_ELIMIT);
	u = make_union(types, 0, 15000);
	s = make_struct(types, 'C', &u, 1);
	assert_int_equal(build(types, &s), APUS_ELIMIT);
	apus_ctl_types_destroy(types);
}

static void test_wide_and_deep(void **state)
{
	struct apus_ctl_types *types = open_store();
	struct apus_wire_type_hash s = {.kind = APUS_TK_INT32};

	(void)state;
	for (int level = 0; level < 15; level++) {
		s = make_struct(types, (char)('A' + level), &s, 256);
		assert_int_equal(build(types, &s), level < 1 ? 0 : APUS_ELIMIT);
	}
	apus_ctl_types_destroy(types);
}

static void test_comparing_unions(void **state)
{
	struct apus_type_consistency policy = {.kind = APUS_ALLOW_TYPE_COERCION};
	struct apus_ctl_types *types = open_store();
	struct apus_wire_type_hash a = make_union(types, 0, 2000), b = make_union(types, 1, 2000),
				   wide_a = make_union(types, 0, 15000),
				   wide_b = make_union(types, 1, 15000);
	char why[APUS_CTL_ASSIGN_WHY_BYTES];

	(void)state;
	assert_int_equal(apus_ctl_types_assignable(types, &a, &b, &policy, why),
			 APUS_CTL_ASSIGNABLE);
	assert_int_equal(apus_ctl_types_assignable(types, &wide_a, &wide_b, &policy, why),
			 APUS_CTL_NOT_ASSIGNABLE);
	assert_string_equal(why, "the types are too large to compare");
	assert_int_equal(apus_ctl_types_assignable(types, &wide_a, &wide_a, &policy, why),
			 APUS_CTL_ASSIGNABLE);
	apus_ctl_types_destroy(types);
}

static bool count_one(void *user, const struct apus_wire_type_hash *hash)
{
	uint32_t *count = user;

	assert_int_equal(hash->kind, APUS_WIRE_EK_COMPLETE);
	(*count)++;
	return true;
}

/* One request may name a type 64 times, or 64 types that share what they are made of. */
static void test_dependencies_are_told_once(void **state)
{
	struct apus_ctl_types *types = open_store();
	struct apus_wire_type_hash e = make_enum(types, 3), s = make_struct(types, 'A', &e, 256),
				   t = make_struct(types, 'B', &s, 256), asked[4] = {t, t, t, t};
	uint32_t count = 0;

	(void)state;
	apus_ctl_types_dependencies(types, asked, 4, count_one, &count);
	assert_int_equal(count, 2);
	asked[1] = s;
	count = 0;
	apus_ctl_types_dependencies(types, asked, 4, count_one, &count);
	assert_int_equal(count, 1);
	asked[0] = asked[2] = asked[3] = e;
	count = 0;
	apus_ctl_types_dependencies(types, asked, 4, count_one, &count);
	assert_int_equal(count, 0);
	apus_ctl_types_dependencies(types, asked, 0, count_one, &count);
	assert_int_equal(count, 0);
	apus_ctl_types_destroy(types);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_enums_of_many_labels),
		cmocka_unit_test(test_unions_of_many_labels),
		cmocka_unit_test(test_wide_and_deep),
		cmocka_unit_test(test_comparing_unions),
		cmocka_unit_test(test_dependencies_are_told_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
