/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: what a reader can read and take, with states and generation counts as DDS 1.4 §2.2.2.5 has them,
 * limits that refuse without a trace, loans that stay valid, and every payload slot let go exactly once.
 * Method: rules one by one; the comparison with a model is in test_history_model.c.
 */
#include "dataplane/history.h"

#include <apus/participant.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define MS APUS_NS_PER_MS

static struct apus_mono ms(int64_t t)
{
	return (struct apus_mono){1000000 * MS + t * MS};
}

/** A history with 1-byte keys whose slots are numbers from 0. */
struct fixture {
	struct apus_dp_history h;
	void *memory;
	uint8_t released[256];
	uint32_t slots; /* given out */
	struct apus_dp_loan loans[16];
};

static void on_release(void *context, uint32_t slot_ref)
{
	struct fixture *f = context;

	assert_in_range(slot_ref, 0, 255);
	f->released[slot_ref]++;
	assert_int_equal(f->released[slot_ref], 1);
}

static struct apus_dp_history_options options(struct fixture *f)
{
	return (struct apus_dp_history_options){
		.depth = 2,
		.max_samples = 8,
		.max_samples_per_instance = 3,
		.max_loans = 6,
		.instances = {.capacity = 4, .key_bytes_max = 1, .match_count_max = 8},
		.release = on_release,
		.release_context = f,
	};
}

static void init(struct fixture *f, const struct apus_dp_history_options *o)
{
	size_t bytes = apus_dp_history_bytes(o);

	assert_int_not_equal(bytes, 0);
	memset(f, 0, sizeof(*f));
	f->memory = malloc(bytes);
	memset(f->memory, 0xee, bytes);
	assert_int_equal(apus_dp_history_init(&f->h, o, f->memory), 0);
}

/** Every slot must have come back exactly once. */
static void fini(struct fixture *f)
{
	apus_dp_history_fini(&f->h);
	for (uint32_t i = 0; i < f->slots; i++)
		assert_int_equal(f->released[i], 1);
	free(f->memory);
}

static struct apus_dp_instance *instance(struct fixture *f, char key)
{
	struct apus_dp_instance *i =
		apus_dp_instances_find(&f->h.instances, (const uint8_t *)&key, 1);

	return i ? i : apus_dp_instances_insert(&f->h.instances, (const uint8_t *)&key, 1);
}

static struct apus_dp_record record(uint32_t writer, int64_t t)
{
	return (struct apus_dp_record){.reception_time = ms(t),
				       .source_time = APUS_WALL_NONE,
				       .expires_at = {INT64_MAX},
				       .slot_ref = APUS_DP_NONE,
				       .match_slot = writer};
}

/** Stores a sample that must fit; returns its slot. */
static uint32_t store_until(struct fixture *f, char key, uint32_t writer, int64_t t,
			    struct apus_mono expires)
{
	struct apus_dp_record r = record(writer, t);
	struct apus_dp_instance *i = instance(f, key);
	bool displaced;

	assert_non_null(i);
	assert_int_equal(apus_dp_history_room(&f->h, i, 1), APUS_DP_REFUSED_NOT);
	r.slot_ref = f->slots++;
	r.expires_at = expires;
	apus_dp_history_store(&f->h, i, &r, &displaced);
	return r.slot_ref;
}

static uint32_t store(struct fixture *f, char key, uint32_t writer)
{
	return store_until(f, key, writer, 0, (struct apus_mono){INT64_MAX});
}

static bool dispose(struct fixture *f, char key)
{
	struct apus_dp_record r = record(0, 0);

	return apus_dp_history_dispose(&f->h, instance(f, key), &r, true);
}

static bool unregister(struct fixture *f, char key, uint32_t writer)
{
	struct apus_dp_record r = record(writer, 0);

	return apus_dp_history_unregister(&f->h, instance(f, key), &r);
}

static int access_all(struct fixture *f, bool take)
{
	return apus_dp_history_access(&f->h, NULL, take, ms(0), f->loans, 16);
}

static void return_all(struct fixture *f, int count)
{
	for (int i = 0; i < count; i++)
		assert_int_equal(apus_dp_history_return(&f->h, f->loans[i].entry_idx), 0);
}

static uint32_t slot_of(const struct fixture *f, int i)
{
	return f->loans[i].entry->record.slot_ref;
}

static void options_out_of_range(void **state)
{
	struct fixture f;
	struct apus_dp_history_options o = options(&f);

	(void)state;
	o.depth = 4; /* above max_samples_per_instance */
	assert_int_equal(apus_dp_history_bytes(&o), 0);
	assert_int_equal(apus_dp_history_init(&f.h, &o, NULL), APUS_EINVAL);
	o.keep_all = true;
	assert_int_not_equal(apus_dp_history_bytes(&o), 0);
	o.max_samples = 0;
	assert_int_equal(apus_dp_history_bytes(&o), 0);
	o = options(&f);
	o.instances.capacity = 0;
	assert_int_equal(apus_dp_history_bytes(&o), 0);
}

static void keep_last_displaces_the_oldest_of_its_instance(void **state)
{
	struct fixture f;
	struct apus_dp_history_options o = options(&f);
	int n;

	(void)state;
	init(&f, &o);
	store(&f, 'a', 0);
	store(&f, 'b', 0);
	store(&f, 'a', 0);
	store(&f, 'a', 0); /* slot 0 goes, unread */
	assert_int_equal(f.released[0], 1);
	n = access_all(&f, false);
	assert_int_equal(n, 3);
	assert_int_equal(slot_of(&f, 0), 1);
	assert_int_equal(slot_of(&f, 1), 2);
	assert_int_equal(slot_of(&f, 2), 3);
	return_all(&f, n);
	store(&f, 'a', 0); /* slot 2 goes, but had been read: not lost */
	assert_int_equal(f.h.counters.displaced, 2);
	assert_int_equal(f.h.counters.displaced_lost, 1);
	assert_int_equal(f.h.counters.stored, 5);
	fini(&f);
}

/** The whole history full: an instance that has a sample gives it, one that has none is refused. */
static void keep_last_at_max_samples(void **state)
{
	struct fixture f;
	struct apus_dp_history_options o = options(&f);

	(void)state;
	o.max_samples = 2;
	init(&f, &o);
	store(&f, 'a', 0);
	store(&f, 'b', 0);
	assert_int_equal(apus_dp_history_room(&f.h, NULL, 1), APUS_DP_REFUSED_SAMPLES);
	store(&f, 'b', 0);
	assert_int_equal(f.released[1], 1);
	assert_int_equal(f.h.sample_count, 2);
	fini(&f);
}

static void keep_all_refuses_by_each_limit(void **state)
{
	struct fixture f;
	struct apus_dp_history_options o = options(&f);
	int n;

	(void)state;
	o.keep_all = true;
	o.max_samples = 5;
	o.instances.capacity = 2;
	init(&f, &o);
	for (int i = 0; i < 3; i++)
		store(&f, 'a', 0);
	assert_int_equal(apus_dp_history_room(&f.h, instance(&f, 'a'), 1),
			 APUS_DP_REFUSED_PER_INSTANCE);
	store(&f, 'b', 0);
	assert_int_equal(apus_dp_history_room(&f.h, NULL, 1), APUS_DP_REFUSED_INSTANCES);
	store(&f, 'b', 0);
	assert_int_equal(apus_dp_history_room(&f.h, instance(&f, 'b'), 1), APUS_DP_REFUSED_SAMPLES);
	assert_int_equal(f.h.counters.displaced, 0);
	/* Reading frees nothing, taking does. */
	n = access_all(&f, false);
	assert_int_equal(n, 5);
	return_all(&f, n);
	assert_int_equal(apus_dp_history_room(&f.h, instance(&f, 'b'), 1), APUS_DP_REFUSED_SAMPLES);
	n = apus_dp_history_access(&f.h, NULL, true, ms(0), f.loans, 1);
	assert_int_equal(n, 1);
	assert_int_equal(apus_dp_history_room(&f.h, instance(&f, 'b'), 1), APUS_DP_REFUSED_NOT);
	return_all(&f, n);
	fini(&f);
}

static void dispose_and_rebirth(void **state)
{
	struct fixture f;
	struct apus_dp_history_options o = options(&f);
	int n;

	(void)state;
	init(&f, &o);
	assert_false(dispose(&f, 'a')); /* never seen by the application */
	store(&f, 'a', 0);
	assert_true(dispose(&f, 'a'));
	assert_false(dispose(&f, 'a'));
	n = access_all(&f, true);
	assert_int_equal(n, 2);
	assert_true(f.loans[0].entry->valid_data);
	assert_false(f.loans[1].entry->valid_data);
	assert_int_equal(slot_of(&f, 1), APUS_DP_NONE);
	for (int i = 0; i < n; i++) {
		assert_int_equal(f.loans[i].instance_state, APUS_STATE_DISPOSED);
		assert_true(f.loans[i].view_new); /* one call, one view */
	}
	return_all(&f, n);
	store(&f, 'a', 0);
	n = access_all(&f, false);
	assert_int_equal(n, 1);
	assert_int_equal(f.loans[0].instance_state, APUS_STATE_ALIVE);
	assert_true(f.loans[0].view_new);
	assert_int_equal(f.loans[0].entry->disposed_generation_count, 1);
	assert_int_equal(f.loans[0].entry->no_writers_generation_count, 0);
	return_all(&f, n);
	n = access_all(&f, false);
	assert_false(f.loans[0].view_new);
	assert_true(f.loans[0].read_before);
	return_all(&f, n);
	fini(&f);
}

/** A sample received before a change keeps the counts of its own generation. */
static void generation_counts(void **state)
{
	struct fixture f;
	struct apus_dp_history_options o = options(&f);
	int n;

	(void)state;
	o.depth = 3;
	init(&f, &o);
	store(&f, 'a', 0);
	dispose(&f, 'a');
	store(&f, 'a', 0);
	assert_true(unregister(&f, 'a', 0));
	store(&f, 'a', 0);
	n = access_all(&f, true);
	assert_int_equal(n, 3); /* the notices were overtaken by data and are gone */
	for (int i = 0; i < n; i++)
		assert_true(f.loans[i].entry->valid_data);
	assert_int_equal(f.loans[0].entry->disposed_generation_count, 0);
	assert_int_equal(f.loans[1].entry->disposed_generation_count, 1);
	assert_int_equal(f.loans[1].entry->no_writers_generation_count, 0);
	assert_int_equal(f.loans[2].entry->disposed_generation_count, 1);
	assert_int_equal(f.loans[2].entry->no_writers_generation_count, 1);
	return_all(&f, n);
	fini(&f);
}

static void no_writers_when_the_last_one_leaves(void **state)
{
	struct fixture f;
	struct apus_dp_history_options o = options(&f);
	struct apus_dp_record gone = record(5, 0);
	int n;

	(void)state;
	init(&f, &o);
	store(&f, 'a', 5);
	store(&f, 'a', 6);
	store(&f, 'b', 5);
	store(&f, 'c', 5);
	dispose(&f, 'c');
	assert_false(unregister(&f, 'b', 6));                          /* it never wrote b */
	assert_int_equal(apus_dp_history_writer_gone(&f.h, &gone), 1); /* b; c stays disposed */
	assert_int_equal(apus_dp_history_writer_gone(&f.h, &gone), 0);
	assert_int_equal(instance(&f, 'a')->state, APUS_STATE_ALIVE);
	assert_int_equal(instance(&f, 'b')->state, APUS_STATE_NO_WRITERS);
	assert_int_equal(instance(&f, 'c')->state, APUS_STATE_DISPOSED);
	assert_true(unregister(&f, 'a', 6));
	n = access_all(&f, true);
	assert_int_equal(n, 6); /* max_loans */
	assert_int_equal(access_all(&f, true), APUS_ELIMIT);
	return_all(&f, n);
	n = access_all(&f, true);
	assert_int_equal(n, 1);
	assert_false(f.loans[0].entry->valid_data);
	assert_int_equal(f.loans[0].instance_state, APUS_STATE_NO_WRITERS);
	return_all(&f, n);
	fini(&f);
}

static int select_count(struct fixture *f, struct apus_dp_select s)
{
	bool available = apus_dp_history_available(&f->h, &s, ms(0));
	int n = apus_dp_history_access(&f->h, &s, false, ms(0), f->loans, 16);

	assert_int_equal(available, n > 0);
	return_all(f, n);
	return n;
}

static bool is_slot_3(void *context, const struct apus_dp_sample *e)
{
	(void)context;
	return e->record.slot_ref == 3;
}

static void selections(void **state)
{
	struct fixture f;
	struct apus_dp_history_options o = options(&f);
	struct apus_dp_select s = {0};

	(void)state;
	init(&f, &o);
	store(&f, 'a', 0); /* 0 */
	store(&f, 'b', 0); /* 1 */
	s.instance = instance(&f, 'a')->handle;
	assert_int_equal(select_count(&f, s), 1); /* now a is READ, NOT_NEW */
	store(&f, 'a', 0);                        /* 2 */
	store(&f, 'c', 0);                        /* 3 */
	dispose(&f, 'c');
	assert_int_equal(select_count(&f, (struct apus_dp_select){.sample_states = 1}), 1);
	assert_int_equal(
		select_count(&f, (struct apus_dp_select){.match = is_slot_3, .view_states = 1}), 1);
	assert_int_equal(
		select_count(&f, (struct apus_dp_select){.instance_states = APUS_STATE_DISPOSED}),
		2);
	assert_int_equal(
		select_count(&f, (struct apus_dp_select){.instance_states = APUS_STATE_NO_WRITERS}),
		0);
	assert_int_equal(select_count(&f, (struct apus_dp_select){.view_states = 1}), 1); /* b */
	assert_int_equal(select_count(&f, (struct apus_dp_select){.view_states = 1}), 0);
	assert_int_equal(select_count(&f, (struct apus_dp_select){.sample_states = 2}), 1); /* 2 */
	s.instance = UINT64_MAX;
	assert_int_equal(select_count(&f, s), 0);
	fini(&f);
}

static void lifespan(void **state)
{
	struct fixture f;
	struct apus_dp_history_options o = options(&f);
	int n;

	(void)state;
	init(&f, &o);
	assert_false(apus_dp_history_is_timed(&f.h));
	store_until(&f, 'a', 0, 0, ms(100));
	assert_true(apus_dp_history_is_timed(&f.h));
	store_until(&f, 'b', 0, 0, ms(200));
	n = apus_dp_history_access(&f.h, NULL, false, (struct apus_mono){ms(100).ns - 1}, f.loans,
				   16);
	assert_int_equal(n, 2);
	return_all(&f, n);
	/* Age equal to the lifespan is expired; read steps over it and leaves it. */
	n = apus_dp_history_access(&f.h, NULL, false, ms(100), f.loans, 16);
	assert_int_equal(n, 1);
	assert_int_equal(slot_of(&f, 0), 1);
	return_all(&f, n);
	assert_int_equal(f.h.sample_count, 2);
	assert_int_equal(f.released[0], 0);
	/* A clock that went back: not expired. */
	n = apus_dp_history_access(&f.h, NULL, false, ms(-500), f.loans, 16);
	assert_int_equal(n, 2);
	return_all(&f, n);
	assert_false(apus_dp_history_available(&f.h, NULL, ms(200)));
	assert_int_equal(apus_dp_history_access(&f.h, NULL, true, ms(200), f.loans, 16), 0);
	assert_int_equal(f.h.counters.expired, 2);
	assert_int_equal(f.h.sample_count, 0);
	assert_int_equal(f.released[0] + f.released[1], 2);
	assert_true(apus_dp_history_is_timed(&f.h)); /* once is for ever */
	fini(&f);
}

/* What has neither deadline nor lifespan does not depend on the time. */
static void who_needs_a_clock(void **state)
{
	struct fixture f;
	struct apus_dp_history_options o = options(&f);

	(void)state;
	o.deadline_ns = APUS_INFINITE_NS;
	init(&f, &o);
	store_until(&f, 'a', 0, 0, (struct apus_mono){INT64_MAX});
	assert_false(apus_dp_history_is_timed(&f.h));
	fini(&f);
	o.deadline_ns = 0;
	init(&f, &o);
	assert_false(apus_dp_history_is_timed(&f.h));
	fini(&f);
	o.deadline_ns = 1;
	init(&f, &o);
	assert_true(apus_dp_history_is_timed(&f.h));
	fini(&f);
}

static void loans_outlive_what_happens_to_the_history(void **state)
{
	struct fixture f;
	struct apus_dp_history_options o = options(&f);
	uint32_t first;
	int n;

	(void)state;
	o.depth = 1;
	init(&f, &o);
	store(&f, 'a', 0);
	n = access_all(&f, false); /* lent by read */
	first = f.loans[0].entry_idx;
	assert_int_equal(access_all(&f, true), 1); /* taken besides: two loans of one entry */
	assert_int_equal(f.loans[0].entry_idx, first);
	store(&f, 'a', 0);
	assert_int_equal(f.released[0], 0);
	assert_int_equal(apus_dp_history_return(&f.h, first), 0);
	assert_int_equal(f.released[0], 0);
	assert_int_equal(apus_dp_history_return(&f.h, first), 0);
	assert_int_equal(f.released[0], 1);
	assert_int_equal(apus_dp_history_return(&f.h, first), APUS_EINVAL);
	assert_int_equal(apus_dp_history_return(&f.h, 100000), APUS_EINVAL);
	/* Displaced while lent. */
	n = access_all(&f, false);
	assert_int_equal(n, 1);
	store(&f, 'a', 0);
	assert_int_equal(f.released[1], 0);
	assert_int_equal(slot_of(&f, 0), 1);
	return_all(&f, n);
	assert_int_equal(f.released[1], 1);
	/* What is still lent at the end goes with the history. */
	access_all(&f, true);
	fini(&f);
}

/** A lent notice needs its instance's key: the instance is not reused before it comes back. */
static void a_loan_pins_its_instance(void **state)
{
	struct fixture f;
	struct apus_dp_history_options o = options(&f);
	uint32_t bytes;
	int n;

	(void)state;
	o.instances.capacity = 1;
	init(&f, &o);
	store(&f, 'a', 0);
	unregister(&f, 'a', 0);
	n = access_all(&f, true);
	assert_int_equal(n, 2);
	assert_int_equal(apus_dp_history_room(&f.h, NULL, 1), APUS_DP_REFUSED_INSTANCES);
	assert_int_equal(*apus_dp_history_key(&f.h, f.loans[1].entry, &bytes), 'a');
	assert_int_equal(bytes, 1);
	return_all(&f, n);
	store(&f, 'b', 0);
	fini(&f);
}

static bool keeps_even_slots(void *context, const struct apus_dp_sample *e)
{
	(void)context;
	return e->record.slot_ref % 2 == 0;
}

static void prune(void **state)
{
	struct fixture f;
	struct apus_dp_history_options o = options(&f);
	struct apus_dp_select of_b = {0};

	(void)state;
	init(&f, &o);
	store(&f, 'a', 0);
	store(&f, 'b', 0);
	store(&f, 'c', 0);
	store(&f, 'd', 0);
	dispose(&f, 'd'); /* a notice is not tested */
	of_b.instance = instance(&f, 'b')->handle;
	assert_int_equal(apus_dp_history_access(&f.h, &of_b, false, ms(0), f.loans, 1), 1);
	assert_int_equal(apus_dp_history_prune(&f.h, keeps_even_slots, NULL, 7), 2);
	assert_int_equal(f.released[3], 1);
	assert_int_equal(f.released[1], 0); /* lent: valid until it comes back */
	return_all(&f, 1);
	assert_int_equal(f.released[1], 1);
	assert_int_equal(access_all(&f, true), 3);
	assert_int_equal(f.loans[0].entry->record.filter_generation, 7);
	assert_false(f.loans[2].entry->valid_data);
	assert_int_equal(f.h.counters.pruned, 2);
	fini(&f);
}

/** Misses of an instance that makes room for another stay in the total; a disposed one misses nothing. */
static void deadlines_survive_their_instance(void **state)
{
	struct fixture f;
	struct apus_dp_history_options o = options(&f);
	struct apus_dp_record r = record(0, 350);
	struct apus_dp_instance *i;

	(void)state;
	o.instances.capacity = 1;
	o.deadline_ns = 100 * MS;
	init(&f, &o);
	i = instance(&f, 'a');
	store_until(&f, 'a', 0, 0, ms(1));
	apus_dp_deadline_activity(&i->deadline, o.deadline_ns, ms(0));
	assert_int_equal(apus_dp_history_deadlines_missed(&f.h, ms(250)), 2);
	apus_dp_history_dispose(&f.h, i, &r, false);
	assert_int_equal(apus_dp_history_deadlines_missed(&f.h, ms(9000)), 3);
	assert_int_equal(apus_dp_history_access(&f.h, NULL, true, ms(400), f.loans, 16), 0);
	store_until(&f, 'b', 0, 400, (struct apus_mono){INT64_MAX}); /* in a's place */
	assert_int_equal(f.h.counters.deadline_gone, 3);
	assert_int_equal(apus_dp_history_deadlines_missed(&f.h, ms(9000)), 3);
	fini(&f);
}

static void keyless(void **state)
{
	struct fixture f;
	struct apus_dp_history_options o = options(&f);
	struct apus_dp_record r = record(0, 0);
	bool displaced;
	int n;

	(void)state;
	o.instances.capacity = 1;
	o.instances.key_bytes_max = 0;
	init(&f, &o);
	r.slot_ref = f.slots++;
	apus_dp_history_store(&f.h, apus_dp_instances_insert(&f.h.instances, NULL, 0), &r,
			      &displaced);
	assert_false(displaced);
	n = access_all(&f, true);
	assert_int_equal(n, 1);
	assert_int_equal(f.loans[0].instance, APUS_INSTANCE_NONE);
	return_all(&f, n);
	fini(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_out_of_range),
		cmocka_unit_test(keep_last_displaces_the_oldest_of_its_instance),
		cmocka_unit_test(keep_last_at_max_samples),
		cmocka_unit_test(keep_all_refuses_by_each_limit),
		cmocka_unit_test(dispose_and_rebirth),
		cmocka_unit_test(generation_counts),
		cmocka_unit_test(no_writers_when_the_last_one_leaves),
		cmocka_unit_test(selections),
		cmocka_unit_test(lifespan),
		cmocka_unit_test(who_needs_a_clock),
		cmocka_unit_test(loans_outlive_what_happens_to_the_history),
		cmocka_unit_test(a_loan_pins_its_instance),
		cmocka_unit_test(prune),
		cmocka_unit_test(deadlines_survive_their_instance),
		cmocka_unit_test(keyless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
