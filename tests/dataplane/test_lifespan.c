/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a sample whose lifespan ends while it waits at the writer is not sent any more: who asks gets a GAP, and its
 * place is free. Method: a writer and a reader on the wire in memory, cut off while samples expire.
 */
#include "wire_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define MS APUS_NS_PER_MS

/* Finite, and longer than the age of what is written here, whose source time is not the wall clock's. */
#define LONG (APUS_INFINITE_NS - 1)

static const struct wire_options options = {
	.reliable = true, .transient_local = true, .keep_all = true, .depth = 8, .max_samples = 8};

/* Sets when each of the writer's samples up to `seq` expires. */
static void expire(struct wire_endpoints *e, apus_seq seq, struct apus_mono at)
{
	for (apus_seq s = 1; s <= e->writer->last; s++) {
		uint32_t slot = apus_dp_cache_find(&e->writer->cache, s);

		assert_int_not_equal(slot, APUS_SHM_NO_SLOT);
		e->writer->cache.entries[slot].expires_at =
			s <= seq ? at : (struct apus_mono){INT64_MAX};
	}
}

static void set_lifespan(struct wire_pair *p, struct wire_endpoints *e, int64_t lifespan_ns)
{
	struct apus_dp_deadline *spare = NULL;

	apus_dp_worker_take_turn(p->a.worker);
	apus_dp_writer_set_timing(e->writer, APUS_INFINITE_NS, lifespan_ns, &spare, p->now);
	apus_dp_worker_end_turn(p->a.worker);
}

static int take_all(struct wire_pair *p, struct wire_endpoints *e, int64_t *first_seq)
{
	struct apus_sample s[8];
	int n;

	apus_dp_worker_take_turn(p->b.worker);
	n = apus_dp_reader_access(e->reader, NULL, true, p->now, s, 8);
	*first_seq = n > 0 ? s[0].info.seq : 0;
	for (int i = 0; i < n; i++)
		apus_dp_reader_return(e->reader, &s[i]);
	apus_dp_worker_end_turn(p->b.worker);
	return n;
}

static void expired_samples_become_gaps(void **state)
{
	struct wire_pair *p = calloc(1, sizeof(*p));
	struct wire_endpoints e;
	int64_t first;

	(void)state;
	wire_pair_init(p, 7);
	wire_endpoints_init(p, &e, &options);
	set_lifespan(p, &e, 3600 * APUS_NS_PER_SEC);
	wire_match(p, &e, true, &options);
	wire_run(p, 20 * MS);
	wire_set(p, 100, 0, 0);
	for (int i = 1; i <= 5; i++)
		assert_int_equal(wire_write(p, &e, "RED", i, APUS_ALIVE), 0);
	expire(&e, 3, apus_mono_add(p->now, 10 * MS));
	wire_run(p, 20 * MS);
	wire_set(p, 0, 0, 0);
	wire_run(p, 400 * MS);
	assert_int_equal(take_all(p, &e, &first), 2);
	assert_int_equal(first, 4);
	assert_int_equal(apus_counter_get(&e.writer->counters.expired), 3);
	wire_endpoints_fini(p, &e);
	wire_pair_fini(p);
	free(p);
}

static void expired_samples_make_room(void **state)
{
	struct wire_pair *p = calloc(1, sizeof(*p));
	struct wire_endpoints e;

	(void)state;
	wire_pair_init(p, 8);
	wire_endpoints_init(p, &e, &options);
	set_lifespan(p, &e, 3600 * APUS_NS_PER_SEC);
	wire_match(p, &e, true, &options);
	wire_run(p, 20 * MS);
	wire_set(p, 100, 0, 0);
	for (int i = 1; i <= 8; i++)
		assert_int_equal(wire_write(p, &e, "RED", i, APUS_ALIVE), 0);
	expire(&e, 2, apus_mono_add(p->now, 1));
	expire(&e, 0, p->now); /* nobody expires: the history is full */
	assert_int_equal(wire_write(p, &e, "RED", 9, APUS_ALIVE), APUS_EAGAIN);
	expire(&e, 2, p->now);
	assert_int_equal(wire_write(p, &e, "RED", 9, APUS_ALIVE), 0);
	assert_int_equal(apus_counter_get(&e.writer->counters.expired), 2);
	wire_endpoints_fini(p, &e);
	wire_pair_fini(p);
	free(p);
}

/** After a change of lifespan, samples end in another order than they were written; each at its own time. */
static void lifespans_that_cross(void **state)
{
	struct wire_pair *p = calloc(1, sizeof(*p));
	struct wire_endpoints e;
	int64_t first;

	(void)state;
	wire_pair_init(p, 9);
	wire_endpoints_init(p, &e, &options);
	wire_match(p, &e, true, &options);
	wire_run(p, 20 * MS);
	wire_set(p, 100, 0, 0);
	for (int i = 1; i <= 5; i++) {
		/* 1: for ever; 2: long; 3: 10 ms; 4: long; 5: for ever. */
		set_lifespan(p, &e, i == 3 ? 10 * MS : i % 4 == 1 ? APUS_INFINITE_NS : LONG);
		assert_int_equal(wire_write(p, &e, "RED", i, APUS_ALIVE), 0);
	}
	wire_run(p, 20 * MS);
	wire_set(p, 0, 0, 0);
	wire_run(p, 400 * MS);
	assert_int_equal(take_all(p, &e, &first), 4);
	assert_int_equal(first, 1);
	assert_int_equal(apus_counter_get(&e.writer->counters.expired), 1);
	/* All that crossed are settled: once again in order. */
	assert_true(e.writer->mixed_until < e.writer->last);
	wire_endpoints_fini(p, &e);
	wire_pair_fini(p);
	free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(expired_samples_become_gaps),
					   cmocka_unit_test(expired_samples_make_room),
					   cmocka_unit_test(lifespans_that_cross)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
