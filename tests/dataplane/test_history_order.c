/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the order in which a reader gets its samples, their ranks, next-instance access, destination order by
 * source, and the purge delays of the reader data lifecycle (DDS 1.4 §2.2.2.5, §2.2.3.17, §2.2.3.22).
 * Method: small histories with 1-byte keys; a sample is named by its slot, which counts from 0.
 */
#include "dataplane/history.h"

#include <apus/participant.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static struct apus_dp_history h;
static void *memory;
static uint32_t slots, released;
static struct apus_dp_loan loans[64];
static int64_t clock_ns;

static void on_release(void *context, uint32_t slot_ref)
{
	(void)context;
	(void)slot_ref;
	released++;
}

static struct apus_dp_history_options options(void)
{
	return (struct apus_dp_history_options){
		.keep_all = true,
		.max_samples = 64,
		.max_samples_per_instance = 16,
		.max_loans = 64,
		.by_instance = true,
		.instances = {.capacity = 70, .key_bytes_max = 1, .match_count_max = 4},
		.release = on_release,
	};
}

static void init(const struct apus_dp_history_options *o)
{
	memory = malloc(apus_dp_history_bytes(o));
	assert_int_equal(apus_dp_history_init(&h, o, memory), 0);
	slots = released = 0;
	clock_ns = 1000;
}

static void fini(void)
{
	apus_dp_history_fini(&h);
	assert_int_equal(released, slots);
	free(memory);
}

static struct apus_dp_instance *instance(char key)
{
	struct apus_dp_instance *i = apus_dp_instances_find(&h.instances, (const uint8_t *)&key, 1);

	return i ? i : apus_dp_instances_insert(&h.instances, (const uint8_t *)&key, 1);
}

static struct apus_dp_record record(uint32_t writer, int64_t source)
{
	struct apus_dp_record r = {.source_time = {source},
				   .reception_time = {clock_ns++},
				   .expires_at = {INT64_MAX},
				   .seq = slots,
				   .slot_ref = APUS_DP_NONE,
				   .match_slot = writer};

	r.writer.bytes[15] = (uint8_t)writer;
	return r;
}

/* Stores if order and limits allow; false if the order does not. */
static bool put(char key, uint32_t writer, int64_t source)
{
	struct apus_dp_record r = record(writer, source);
	struct apus_dp_instance *i = instance(key);
	bool displaced;

	if (!apus_dp_history_in_order(&h, i, &r, true))
		return false;
	assert_int_equal(apus_dp_history_room(&h, i, 1), APUS_DP_REFUSED_NOT);
	r.slot_ref = slots++;
	apus_dp_history_store(&h, i, &r, &displaced);
	return true;
}

static void dispose(char key)
{
	struct apus_dp_record r = record(0, clock_ns);

	assert_true(apus_dp_history_dispose(&h, instance(key), &r, true));
}

static void unregister(char key, uint32_t writer)
{
	struct apus_dp_record r = record(writer, clock_ns);

	apus_dp_history_unregister(&h, instance(key), &r);
}

static int get(const struct apus_dp_select *s, bool take, uint32_t max)
{
	return apus_dp_history_access(&h, s, take, (struct apus_mono){clock_ns}, loans, max);
}

static void give_back(int n)
{
	for (int i = 0; i < n; i++)
		assert_int_equal(apus_dp_history_return(&h, loans[i].entry_idx), 0);
}

/* What an access returns, as slots; -1 = no data; ends with -2. */
static void expect(const struct apus_dp_select *s, bool take, const int *slot)
{
	int n = get(s, take, 64), i = 0;

	for (; slot[i] != -2; i++) {
		assert_true(i < n);
		assert_int_equal((int)loans[i].entry->record.slot_ref, slot[i]);
	}
	assert_int_equal(n, i);
	give_back(n);
}

#define EXPECT(s, take, ...) expect(s, take, (const int[]){__VA_ARGS__, -2})

/* ---- order and ranks ------------------------------------------------------------------------ */

static void samples_of_an_instance_come_together(void **state)
{
	struct apus_dp_history_options o = options();

	(void)state;
	init(&o);
	for (int i = 0; i < 6; i++)
		put("abcabc"[i], 0, i);
	EXPECT(NULL, false, 0, 3, 1, 4, 2, 5);
	/* A limit cuts the same sequence. */
	assert_int_equal(get(NULL, true, 3), 3);
	assert_int_equal(loans[2].entry->record.slot_ref, 1);
	give_back(3);
	EXPECT(NULL, true, 2, 5, 4);
	fini();

	/* Ordered access across instances: as received. */
	o.by_instance = false;
	init(&o);
	for (int i = 0; i < 6; i++)
		put("abcabc"[i], 0, i);
	EXPECT(NULL, true, 0, 1, 2, 3, 4, 5);
	fini();
}

static void expect_ranks(int i, int32_t sample, int32_t generation, int32_t absolute)
{
	assert_int_equal(loans[i].sample_rank, sample);
	assert_int_equal(loans[i].generation_rank, generation);
	assert_int_equal(loans[i].absolute_generation_rank, absolute);
}

/* a is born three times; b once, between. */
static void ranks_count_samples_and_generations(void **state)
{
	struct apus_dp_history_options o = options();
	int n;

	(void)state;
	init(&o);
	put('a', 0, 0);
	put('a', 0, 0);
	put('b', 0, 0);
	dispose('a');
	put('a', 0, 0);
	unregister('a', 0);
	put('a', 0, 0);
	n = get(NULL, false, 64);
	assert_int_equal(n, 5); /* each new birth took the notice before it away */
	expect_ranks(0, 3, 2, 2);
	expect_ranks(1, 2, 2, 2);
	expect_ranks(2, 1, 1, 1);
	expect_ranks(3, 0, 0, 0);
	expect_ranks(4, 0, 0, 0); /* b */
	assert_true(loans[0].view_new && loans[4].view_new);
	give_back(n);
	/* Generation rank looks at the result only, absolute rank at what was received. */
	n = get(NULL, false, 2);
	expect_ranks(0, 1, 0, 2);
	expect_ranks(1, 0, 0, 2);
	assert_false(loans[0].view_new);
	give_back(n);
	dispose('a');
	n = get(NULL, true, 64);
	assert_int_equal(n, 6);
	expect_ranks(0, 4, 2, 2);
	expect_ranks(4, 0, 0, 0); /* the notice is of the last generation */
	assert_false(loans[4].entry->valid_data);
	give_back(n);
	fini();
}

/* ---- next instance -------------------------------------------------------------------------- */

static void next_instance_visits_each_once(void **state)
{
	struct apus_dp_history_options o = options();
	struct apus_dp_select s = {.next_instance = true};
	int seen = 0;

	(void)state;
	o.max_samples_per_instance = 1;
	o.max_samples = 65;
	init(&o);
	for (int i = 0; i < 64; i++)
		put((char)(i + 1), 0, i);
	for (int n; (n = get(&s, false, 64)) > 0; seen++) {
		assert_int_equal(n, 1);
		assert_int_equal(loans[0].entry->record.slot_ref, seen);
		s.instance = loans[0].instance;
		give_back(n);
	}
	assert_int_equal(seen, 64);
	/* A second walk gives the same order, also from the middle, and skips what a mask leaves out. */
	s.instance = instance(10)->handle;
	s.sample_states = 2;
	put(65, 0, 0);
	EXPECT(&s, false, 64);
	s.instance = instance(65)->handle;
	assert_int_equal(get(&s, false, 64), 0);
	assert_false(apus_dp_history_available(&h, &s, (struct apus_mono){clock_ns}));
	s.instance = APUS_INSTANCE_NONE;
	assert_int_equal(get(&s, false, 64), 0);
	fini();
}

static void next_instance_goes_on_from_a_dead_one(void **state)
{
	struct apus_dp_history_options o = options();
	struct apus_dp_select s = {.next_instance = true};
	apus_instance dead;

	(void)state;
	o.instances.capacity = 3;
	init(&o);
	for (int i = 0; i < 3; i++)
		put((char)('a' + i), 0, i);
	dead = instance('b')->handle;
	dispose('b');
	s.instance = dead;
	assert_int_equal(get(&(struct apus_dp_select){.instance = dead}, true, 64), 2);
	give_back(2);
	put('d', 0, 0); /* takes the place of b */
	assert_null(apus_dp_instances_get(&h.instances, dead));
	EXPECT(&s, false, 2);
	s.instance = UINT64_MAX; /* never was one */
	assert_int_equal(get(&s, false, 64), 0);
	fini();
}

/* ---- destination order by source ------------------------------------------------------------ */

static void by_source_orders_late_samples(void **state)
{
	struct apus_dp_history_options o = options();

	(void)state;
	o.by_source = true;
	init(&o);
	assert_true(put('a', 0, 30)); /* 0 */
	assert_true(put('a', 1, 10)); /* 1: late, goes before */
	assert_true(put('a', 2, 20)); /* 2 */
	assert_true(put('b', 0, 5));  /* 3: another instance has an order of its own */
	assert_true(put('a', 2, 30)); /* 4: a tie goes by writer … */
	assert_true(put('a', 1, 30)); /* 5 */
	assert_true(put('a', 1, 30)); /* 6: … then by number */
	EXPECT(NULL, false, 1, 2, 0, 5, 6, 4, 3);
	/* What was only read is still there: later comers find their place. */
	assert_true(put('a', 0, 15)); /* 7 */
	assert_int_equal(get(NULL, true, 3), 3);
	assert_int_equal(loans[1].entry->record.slot_ref, 7);
	give_back(3);
	/* Below what was taken nothing can be shown in order any more. */
	assert_false(put('a', 0, 19));
	assert_true(put('a', 0, 21)); /* 8 */
	EXPECT(NULL, true, 8, 0, 5, 6, 4, 3);
	assert_false(put('a', 2, 29));
	assert_true(put('a', 2, 30)); /* equal time and writer, a later number */
	fini();
}

static void by_source_keeps_the_latest(void **state)
{
	struct apus_dp_history_options o = options();

	(void)state;
	o.by_source = true;
	o.keep_all = false;
	o.depth = 2;
	init(&o);
	put('a', 0, 10);
	put('a', 0, 30);
	assert_false(put('a', 1, 5)); /* it would be the one to go */
	assert_true(put('a', 1, 20)); /* displaces 10 */
	EXPECT(NULL, false, 2, 1);
	assert_int_equal(h.counters.displaced, 1);
	fini();
}

static void by_source_the_latest_says_what_the_state_is(void **state)
{
	struct apus_dp_history_options o = options();
	struct apus_dp_record r;

	(void)state;
	o.by_source = true;
	init(&o);
	put('a', 0, 2000000);
	r = record(1, 1000);
	assert_false(apus_dp_history_in_order(&h, instance('a'), &r, false));
	r = record(1, 3000000);
	assert_true(apus_dp_history_in_order(&h, instance('a'), &r, false));
	assert_true(apus_dp_history_dispose(&h, instance('a'), &r, true));
	/* Older than the dispose: it must not bring the instance back to life. */
	assert_false(put('a', 0, 2500000));
	assert_int_equal(instance('a')->state, APUS_STATE_DISPOSED);
	assert_true(put('a', 0, 3500000));
	assert_int_equal(instance('a')->state, APUS_STATE_ALIVE);
	EXPECT(NULL, true, 0, 1);
	fini();
}

/* ---- purge delays --------------------------------------------------------------------------- */

static void purge_forgets_instances_without_writers(void **state)
{
	struct apus_dp_history_options o = options();
	apus_instance a;

	(void)state;
	o.purge_no_writers_ns = 100;
	o.purge_disposed_ns = APUS_INFINITE_NS;
	init(&o);
	put('a', 0, 0);
	put('b', 0, 0);
	a = instance('a')->handle;
	clock_ns = 2000;
	unregister('a', 0); /* at 2000 */
	clock_ns = 2099;
	EXPECT(NULL, false, 0, -1, 1);
	clock_ns = 2100;
	assert_true(apus_dp_history_is_timed(&h));
	EXPECT(NULL, false, 1);
	assert_int_equal(h.counters.purged, 1);
	assert_null(apus_dp_instances_get(&h.instances, a));
	assert_int_equal(h.instances.count, 1);
	/* A rebirth in time stops the delay. */
	unregister('b', 0);
	clock_ns += 50;
	put('b', 1, 0);
	clock_ns += 1000;
	EXPECT(NULL, false, 1, 2);
	fini();
}

static void purge_forgets_samples_of_disposed_instances(void **state)
{
	struct apus_dp_history_options o = options();
	int n;

	(void)state;
	o.purge_disposed_ns = 100;
	init(&o);
	put('a', 0, 0);
	clock_ns = 2000;
	dispose('a');
	n = get(NULL, false, 1); /* lent: stays valid */
	clock_ns = 2100;
	assert_false(apus_dp_history_available(&h, NULL, (struct apus_mono){clock_ns}));
	assert_int_equal(h.instances.count, 1); /* its writer is still registered */
	assert_int_equal(instance('a')->state, APUS_STATE_DISPOSED);
	assert_int_equal(released, 0);
	give_back(n);
	assert_int_equal(released, 1);
	put('a', 0, 0);
	assert_int_equal(instance('a')->disposed_generation_count, 1);
	/* Disposed of and then without writers: nothing is left. */
	clock_ns = 3000;
	dispose('a');
	unregister('a', 0);
	clock_ns = 3200;
	assert_int_equal(get(NULL, true, 64), 0);
	assert_int_equal(h.instances.count, 0);
	o.purge_disposed_ns = -1;
	assert_int_equal(apus_dp_history_bytes(&o), 0);
	fini();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_of_an_instance_come_together),
		cmocka_unit_test(ranks_count_samples_and_generations),
		cmocka_unit_test(next_instance_visits_each_once),
		cmocka_unit_test(next_instance_goes_on_from_a_dead_one),
		cmocka_unit_test(by_source_orders_late_samples),
		cmocka_unit_test(by_source_keeps_the_latest),
		cmocka_unit_test(by_source_the_latest_says_what_the_state_is),
		cmocka_unit_test(purge_forgets_instances_without_writers),
		cmocka_unit_test(purge_forgets_samples_of_disposed_instances),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
