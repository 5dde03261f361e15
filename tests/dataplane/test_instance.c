/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the instance table finds what is in it by key, key hash and handle, gives up only idle instances,
 * longest idle first, and refuses the rest without a trace. Method: a small full table by hand; random
 * operations against an array of keys.
 */
#include "dataplane/instance.h"

#include <apus/participant.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static void fake_hash(const void *context, const uint8_t *key, size_t key_bytes,
		      uint8_t hash_out[16])
{
	(void)context;
	memset(hash_out, 0xa5, 16);
	memcpy(hash_out + 3, key, key_bytes);
}

/* Another form of the same hash. */
static void fake_alias(const void *context, const uint8_t *key, size_t key_bytes,
		       uint8_t hash_out[16])
{
	fake_hash(context, key, key_bytes, hash_out);
	hash_out[0] = 0x5a;
}

struct drops {
	uint32_t count;
	apus_instance last;
};

static void on_drop(void *context, const struct apus_dp_instance *instance)
{
	struct drops *d = context;

	d->count++;
	d->last = instance->handle;
}

static struct apus_dp_instances_options options(uint32_t capacity, struct drops *drops)
{
	return (struct apus_dp_instances_options){.capacity = capacity,
						  .key_bytes_max = 4,
						  .match_count_max = 70,
						  .seed = 42,
						  .key_hash = fake_hash,
						  .dropped = on_drop,
						  .dropped_context = drops};
}

static void *make(struct apus_dp_instances *t, const struct apus_dp_instances_options *o)
{
	size_t bytes = apus_dp_instances_bytes(o);
	void *memory = malloc(bytes);

	assert_int_not_equal(bytes, 0);
	memset(memory, 0xee, bytes);
	assert_int_equal(apus_dp_instances_init(t, o, memory), 0);
	return memory;
}

static struct apus_dp_instance *insert(struct apus_dp_instances *t, const char *key)
{
	return apus_dp_instances_insert(t, (const uint8_t *)key, strlen(key));
}

static struct apus_dp_instance *find(const struct apus_dp_instances *t, const char *key)
{
	return apus_dp_instances_find(t, (const uint8_t *)key, strlen(key));
}

static void options_out_of_range(void **state)
{
	struct drops drops = {0};
	struct apus_dp_instances_options o = options(0, &drops);
	struct apus_dp_instances t;

	(void)state;
	assert_int_equal(apus_dp_instances_bytes(&o), 0);
	assert_int_equal(apus_dp_instances_init(&t, &o, NULL), APUS_EINVAL);
	o = options((1u << 24) + 1, &drops);
	assert_int_equal(apus_dp_instances_bytes(&o), 0);
	o = options(2, &drops);
	o.key_bytes_max = 0; /* keyless has one instance */
	assert_int_equal(apus_dp_instances_bytes(&o), 0);
}

static void found_by_key_hash_and_handle(void **state)
{
	struct drops drops = {0};
	struct apus_dp_instances_options o = options(4, &drops);
	struct apus_dp_instances t;
	void *memory = make(&t, &o);
	struct apus_dp_instance *red = insert(&t, "RED"), *r = insert(&t, "R");
	uint8_t hash[16];

	(void)state;
	assert_non_null(red);
	assert_ptr_not_equal(red, r); /* a prefix is another key */
	assert_ptr_equal(find(&t, "RED"), red);
	assert_ptr_equal(find(&t, "R"), r);
	assert_null(find(&t, "RE"));
	assert_null(find(&t, "GREEN")); /* too long to be in it */
	fake_hash(NULL, (const uint8_t *)"RED", 3, hash);
	assert_ptr_equal(apus_dp_instances_find_hash(&t, hash, false), red);
	hash[15] ^= 1;
	assert_null(apus_dp_instances_find_hash(&t, hash, false));
	assert_ptr_equal(apus_dp_instances_get(&t, red->handle), red);
	assert_null(apus_dp_instances_get(&t, APUS_INSTANCE_NONE));
	assert_null(apus_dp_instances_get(&t, red->handle + ((apus_instance)1 << 32)));
	assert_null(apus_dp_instances_get(&t, UINT64_MAX));
	assert_memory_equal(apus_dp_instances_key(&t, red), "RED", 3);
	assert_int_equal(red->state, APUS_STATE_ALIVE);
	assert_true(red->view_new);
	assert_null(insert(&t, "GREEN"));
	assert_int_equal(t.count, 2);
	free(memory);
}

/* The two forms are looked up apart, and forgotten with their instance. */
static void found_by_an_alias_of_its_hash(void **state)
{
	struct drops drops = {0};
	struct apus_dp_instances_options o = options(1, &drops);
	struct apus_dp_instances t;
	struct apus_dp_instance *red;
	uint8_t hash[16], alias[16];
	void *memory;

	(void)state;
	o.alias_hash = fake_alias;
	memory = make(&t, &o);
	red = insert(&t, "RED");
	fake_hash(NULL, (const uint8_t *)"RED", 3, hash);
	fake_alias(NULL, (const uint8_t *)"RED", 3, alias);
	assert_ptr_equal(apus_dp_instances_find_hash(&t, hash, false), red);
	assert_ptr_equal(apus_dp_instances_find_hash(&t, alias, true), red);
	assert_null(apus_dp_instances_find_hash(&t, alias, false));
	assert_null(apus_dp_instances_find_hash(&t, hash, true));
	assert_non_null(insert(&t, "BLUE")); /* in its place */
	assert_null(apus_dp_instances_find_hash(&t, alias, true));
	fake_alias(NULL, (const uint8_t *)"BLUE", 4, alias);
	assert_non_null(apus_dp_instances_find_hash(&t, alias, true));
	free(memory);
}

static void only_idle_instances_make_room(void **state)
{
	struct drops drops = {0};
	struct apus_dp_instances_options o = options(3, &drops);
	struct apus_dp_instances t;
	void *memory = make(&t, &o);
	struct apus_dp_instance *a = insert(&t, "a"), *b = insert(&t, "b"), *c = insert(&t, "c");
	apus_instance old = a->handle;

	(void)state;
	/* a: a registered writer; b: pinned by a loan; c: a sample. */
	assert_true(apus_dp_instances_register(&t, a, 69));
	assert_false(apus_dp_instances_register(&t, a, 69));
	assert_false(apus_dp_instances_register(&t, a, 70)); /* no such slot */
	b->pins = 1;
	c->first = c->last = 0;
	apus_dp_instances_settle(&t, a);
	apus_dp_instances_settle(&t, b);
	apus_dp_instances_settle(&t, c);
	assert_false(apus_dp_instances_room(&t, 1));
	assert_null(insert(&t, "d"));
	assert_int_equal(drops.count, 0);
	assert_ptr_equal(find(&t, "a"), a);
	/* c first, then a: the longest idle one goes. */
	c->first = c->last = APUS_DP_NONE;
	apus_dp_instances_settle(&t, c);
	assert_false(apus_dp_instances_unregister(&t, a, 3));
	assert_true(apus_dp_instances_unregister(&t, a, 69));
	apus_dp_instances_settle(&t, a);
	assert_ptr_equal(insert(&t, "d"), c);
	assert_null(find(&t, "c"));
	assert_ptr_equal(insert(&t, "e"), t.items); /* a's place and d's are idle; a was first */
	assert_int_equal(drops.count, 2);
	assert_true(drops.last == old);
	assert_null(apus_dp_instances_get(&t, old)); /* the handle does not come back */
	assert_ptr_equal(find(&t, "e"), a);
	assert_int_equal(a->writer_count, 0);
	free(memory);
}

static void a_disposed_instance_is_idle_despite_its_writers(void **state)
{
	struct drops drops = {0};
	struct apus_dp_instances_options o = options(1, &drops);
	struct apus_dp_instances t;
	void *memory = make(&t, &o);
	struct apus_dp_instance *a = insert(&t, "a");

	(void)state;
	apus_dp_instances_register(&t, a, 64);
	apus_dp_instances_settle(&t, a);
	assert_false(apus_dp_instances_room(&t, 1));
	a->state = APUS_STATE_DISPOSED;
	apus_dp_instances_settle(&t, a);
	a = insert(&t, "b");
	assert_non_null(a);
	assert_false(apus_dp_instances_is_registered(&t, a, 64)); /* nothing is inherited */
	free(memory);
}

static void keyless(void **state)
{
	struct apus_dp_instances_options o = {.capacity = 1, .match_count_max = 1};
	struct apus_dp_instances t;
	void *memory = make(&t, &o);
	struct apus_dp_instance *only;

	(void)state;
	assert_null(apus_dp_instances_find(&t, NULL, 0));
	only = apus_dp_instances_insert(&t, NULL, 0);
	assert_non_null(only);
	assert_ptr_equal(apus_dp_instances_find(&t, NULL, 0), only);
	assert_null(apus_dp_instances_find_hash(&t, (const uint8_t *)"0123456789abcdef", false));
	free(memory);
}

/** Random inserts, busy and idle changes; the reference keeps for every key when it became idle. */
static void random_operations(void **state)
{
	enum { KEYS = 60, CAPACITY = 24, BUSY = -1, ABSENT = -2 };
	struct drops drops = {0};
	struct apus_dp_instances_options o = options(CAPACITY, &drops);
	struct apus_dp_instances t;
	void *memory = make(&t, &o);
	int64_t idle_since[KEYS]; /* step, BUSY or ABSENT */
	uint32_t count = 0, dropped = 0;
	uint64_t x = 1181783497276652981u;

	(void)state;
	for (int k = 0; k < KEYS; k++)
		idle_since[k] = ABSENT;
	for (int64_t step = 0; step < 200000; step++) {
		uint8_t key[4] = {0}, hash[16];
		struct apus_dp_instance *i;
		uint32_t k, slot;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		k = (uint32_t)(x >> 33) % KEYS;
		slot = (uint32_t)(x >> 20) % 2 ? 65 : 2;
		key[0] = (uint8_t)k;
		key[3] = (uint8_t)(k * 7);
		i = apus_dp_instances_find(&t, key, 4);
		fake_hash(NULL, key, 4, hash);
		assert_ptr_equal(apus_dp_instances_find_hash(&t, hash, false), i);
		assert_int_equal(i != NULL, idle_since[k] != ABSENT);
		if (i) {
			assert_ptr_equal(apus_dp_instances_get(&t, i->handle), i);
			if (apus_dp_instances_is_registered(&t, i, slot))
				apus_dp_instances_unregister(&t, i, slot);
			else if (x & 1)
				apus_dp_instances_register(&t, i, slot);
			apus_dp_instances_settle(&t, i);
			if (i->writer_count > 0)
				idle_since[k] = BUSY;
			else if (idle_since[k] == BUSY)
				idle_since[k] = step;
			continue;
		}
		i = apus_dp_instances_insert(&t, key, 4);
		if (count == CAPACITY) {
			int victim = -1;

			for (int v = 0; v < KEYS; v++) {
				if (idle_since[v] >= 0 &&
				    (victim < 0 || idle_since[v] < idle_since[victim]))
					victim = v;
			}
			assert_int_equal(i != NULL, victim >= 0);
			if (victim < 0)
				continue;
			idle_since[victim] = ABSENT;
			dropped++;
			count--;
		}
		assert_non_null(i);
		idle_since[k] = step;
		assert_int_equal(t.count, ++count);
		assert_int_equal(drops.count, dropped);
	}
	assert_true(dropped > 10000);
	free(memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_out_of_range),
		cmocka_unit_test(found_by_key_hash_and_handle),
		cmocka_unit_test(found_by_an_alias_of_its_hash),
		cmocka_unit_test(only_idle_instances_make_room),
		cmocka_unit_test(a_disposed_instance_is_idle_despite_its_writers),
		cmocka_unit_test(keyless),
		cmocka_unit_test(random_operations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
