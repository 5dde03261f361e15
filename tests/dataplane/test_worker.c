/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a worker adopts every published snapshot, whatever the addresses of snapshots and the order in which
 * turns, publications and sleeps meet; its descriptor for readers is not lowered while samples wait.
 * Method: the in-memory pair of wire_pair.h, snapshots placed by hand in memory that is used again.
 */
#include "wire_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const struct wire_options options = {.reliable = true, .keep_all = true, .max_samples = 32};

static void turn(struct apus_dp_worker *w)
{
	apus_dp_worker_take_turn(w);
	apus_dp_worker_end_turn(w);
}

/* Control frees a snapshot that no turn pins and builds the next but one at the same address. */
static void test_same_address_is_not_the_same_snapshot(void **state)
{
	struct wire_pair p;
	struct wire_endpoints e;
	struct apus_dp_reader_snapshot *first, *second;
	uint64_t epoch;

	(void)state;
	wire_pair_init(&p, 1);
	wire_endpoints_init(&p, &e, &options);
	wire_match(&p, &e, true, &options);
	assert_int_equal(e.reader->match_count, 1);
	first = e.reader_snapshot;
	second = calloc(1, sizeof(*second));
	assert_non_null(second);
	second->generation = first->generation + 1;
	/* No turn between the two publications: `first` is free in the meantime. */
	apus_dp_reader_publish(&p.epoch, &e.reader->port, second, &epoch);
	assert_true(apus_dp_turn_passed(&p.b.worker->turn, epoch));
	memset(first, 0, sizeof(*first));
	first->generation = second->generation + 1;
	apus_dp_reader_publish(&p.epoch, &e.reader->port, first, &epoch);
	turn(p.b.worker);
	assert_int_equal(e.reader->match_count, 0);
	free(second);
	wire_endpoints_fini(&p, &e);
	wire_pair_fini(&p);
}

/* The same for a writer: it must not send to a reader whose match has ended. */
static void test_same_address_writer(void **state)
{
	struct wire_pair p;
	struct wire_endpoints e;
	struct apus_dp_writer_snapshot *first, *second;
	uint64_t epoch;

	(void)state;
	wire_pair_init(&p, 1);
	wire_endpoints_init(&p, &e, &options);
	wire_match(&p, &e, true, &options);
	assert_int_equal(e.writer->match_count, 1);
	first = e.writer_snapshot;
	second = calloc(1, sizeof(*second));
	assert_non_null(second);
	second->generation = first->generation + 1;
	apus_dp_writer_publish(&p.epoch, &e.writer->port, second, &epoch);
	memset(first, 0, sizeof(*first));
	first->generation = second->generation + 1;
	apus_dp_writer_publish(&p.epoch, &e.writer->port, first, &epoch);
	turn(p.a.worker);
	assert_int_equal(e.writer->match_count, 0);
	assert_int_equal(wire_write(&p, &e, "RED", 1, APUS_ALIVE), 0);
	assert_int_equal(apus_counter_get(&e.writer->counters.data_sent), 0);
	free(second);
	wire_endpoints_fini(&p, &e);
	wire_pair_fini(&p);
}

/* An older epoch than the adopted one changes nothing; each newer one is adopted once. */
static void test_adopts_once(void **state)
{
	struct wire_pair p;
	struct wire_endpoints e;
	uint64_t before;

	(void)state;
	wire_pair_init(&p, 1);
	wire_endpoints_init(&p, &e, &options);
	wire_match(&p, &e, true, &options);
	before = apus_counter_get(&p.b.worker->counters.adoptions);
	assert_int_equal(before, 1);
	for (int i = 0; i < 3; i++)
		turn(p.b.worker);
	assert_int_equal(apus_counter_get(&p.b.worker->counters.adoptions), before);
	wire_match(&p, &e, false, &options);
	assert_int_equal(apus_counter_get(&p.b.worker->counters.adoptions), before + 1);
	assert_int_equal(p.b.worker->adopted_epoch, 5); /* 1, and four publications */
	wire_endpoints_fini(&p, &e);
	wire_pair_fini(&p);
}

static bool readable(int fd)
{
	uint64_t count;

	return read(fd, &count, sizeof(count)) == sizeof(count);
}

static int take(struct wire_pair *p, struct apus_dp_reader *r, struct apus_sample *s, uint32_t max)
{
	int n;

	apus_dp_worker_take_turn(p->b.worker);
	n = apus_dp_reader_access(r, NULL, true, p->now, s, max);
	apus_dp_worker_end_turn(p->b.worker);
	return n;
}

/* A take cut short by the limit of loans leaves the descriptor raised: there is more to take. */
static void test_loans_keep_the_descriptor_raised(void **state)
{
	const struct wire_options many = {.reliable = true, .keep_all = true, .max_samples = 80};
	struct apus_sample s[80];
	struct wire_pair p;
	struct wire_endpoints e;
	int fd;

	(void)state;
	wire_pair_init(&p, 1);
	wire_endpoints_init(&p, &e, &many);
	wire_match(&p, &e, true, &many);
	fd = apus_dp_reader_fd(e.reader, p.now);
	for (int i = 0; i < 70; i++)
		assert_int_equal(wire_write(&p, &e, "RED", i, APUS_ALIVE), 0);
	wire_run(&p, 2 * APUS_NS_PER_MS);
	assert_int_equal(take(&p, e.reader, s, 80), 64); /* as many as wire_pair.c lets be lent */
	assert_true(readable(fd));
	e.reader->event_raised = false; /* readable() has read it */
	apus_dp_reader_fd(e.reader, p.now);
	assert_int_equal(take(&p, e.reader, s + 64, 16), APUS_ELIMIT);
	for (int i = 0; i < 64; i++)
		assert_int_equal(apus_dp_reader_return(e.reader, &s[i]), 0);
	assert_true(readable(fd));
	e.reader->event_raised = false;
	apus_dp_reader_fd(e.reader, p.now);
	assert_int_equal(take(&p, e.reader, s, 80), 6);
	assert_false(readable(fd));
	for (int i = 0; i < 6; i++)
		assert_int_equal(apus_dp_reader_return(e.reader, &s[i]), 0);
	wire_endpoints_fini(&p, &e);
	wire_pair_fini(&p);
}

/* A worker woken while nobody sleeps does not sleep next time: the wake-up is kept. */
static void test_wake_is_kept(void **state)
{
	struct wire_pair p;

	(void)state;
	wire_pair_init(&p, 1);
	apus_dp_worker_wake(p.a.worker);
	apus_dp_worker_take_turn(p.a.worker);
	assert_int_equal(apus_dp_worker_sleep(p.a.worker, INT64_MAX), 0); /* returns at once */
	assert_int_equal(atomic_load(&p.a.worker->turn.word), 0);
	assert_int_equal(atomic_load(&p.a.worker->sleep_until_ns), 0);
	assert_false(readable(p.a.worker->wake_fd));
	wire_pair_fini(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_address_is_not_the_same_snapshot),
		cmocka_unit_test(test_same_address_writer),
		cmocka_unit_test(test_adopts_once),
		cmocka_unit_test(test_loans_keep_the_descriptor_raised),
		cmocka_unit_test(test_wake_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
