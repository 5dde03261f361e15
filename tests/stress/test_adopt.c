/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: under a turn, an endpoint never stands on a snapshot that control was allowed to free.
 * Method: one thread publishes snapshots of a reader as fast as it can and, by the rule of
 * dataplane/snapshot.h, notes each generation it could free; it keeps the memory, so that a mistake shows
 * as a wrong number instead of a crash. Four threads take the worker's turn over and over, and compare the
 * generation their reader has adopted with the last one that could be freed, at the beginning and at the
 * end of each turn. More threads than cores: a thread preempted inside of taking the turn is the case.
 */
#include "tests/dataplane/wire_pair.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define THREADS      4
#define PUBLICATIONS 100000u

static struct wire_pair pair;
static struct wire_endpoints endpoints;
static struct apus_dp_reader_snapshot *snapshots;
static _Atomic uint64_t freed; /* the last generation that could be freed */
static _Atomic bool done;

struct taker {
	pthread_t thread;
	uint64_t turns, adopted, last;
	bool stale;
};

static bool stands_on_freed(void)
{
	/* seq_cst: not weaker than the protocol under test. */
	return endpoints.reader->adopted_generation <= atomic_load(&freed);
}

static void *take_turns(void *arg)
{
	struct taker *t = arg;
	struct apus_dp_worker *w = pair.b.worker;

	/* Relaxed: only ends the loop. */
	while (!atomic_load_explicit(&done, memory_order_relaxed) && !t->stale) {
		if (!apus_dp_worker_try_turn(w))
			continue;
		t->stale = stands_on_freed();
		t->adopted += endpoints.reader->adopted_generation != t->last;
		t->last = endpoints.reader->adopted_generation;
		t->stale |= stands_on_freed();
		apus_dp_worker_end_turn(w);
		t->turns++;
	}
	return NULL;
}

static void publish_all(void)
{
	uint64_t epoch, random = 1;

	for (uint64_t g = 2; g <= PUBLICATIONS; g++) {
		snapshots[g].generation = g;
		apus_dp_reader_publish(&pair.epoch, &endpoints.reader->port, &snapshots[g], &epoch);
		while (!apus_dp_turn_passed(&pair.b.worker->turn, epoch))
			sched_yield();
		/* seq_cst, as in stands_on_freed(). */
		atomic_store(&freed, g - 1);
		/* So that publications meet every instruction of a turn being taken. */
		for (uint32_t n = wire_random(&random, 64); n > 0; n--)
			apus_cpu_relax();
	}
}

static void test_never_on_a_freed_snapshot(void **state)
{
	const struct wire_options options = {.reliable = true, .keep_all = true, .max_samples = 8};
	struct taker takers[THREADS] = {0};
	uint64_t epoch, adopted = 0;

	(void)state;
	wire_pair_init(&pair, 1);
	wire_endpoints_init(&pair, &endpoints, &options);
	snapshots = calloc(PUBLICATIONS + 1, sizeof(*snapshots));
	assert_non_null(snapshots);
	snapshots[1].generation = 1;
	apus_dp_reader_publish(&pair.epoch, &endpoints.reader->port, &snapshots[1], &epoch);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&takers[i].thread, NULL, take_turns, &takers[i]),
				 0);
	publish_all();
	/* Relaxed: only ends the loops; the join orders what follows. */
	atomic_store_explicit(&done, true, memory_order_relaxed);
	for (int i = 0; i < THREADS; i++)
		pthread_join(takers[i].thread, NULL);
	for (int i = 0; i < THREADS; i++) {
		print_message("thread %d: %llu turns, %llu generations seen\n", i,
			      (unsigned long long)takers[i].turns,
			      (unsigned long long)takers[i].adopted);
		if (takers[i].stale)
			fail_msg("thread %d stood on generation %llu, %llu could be freed", i,
				 (unsigned long long)takers[i].last,
				 (unsigned long long)atomic_load(&freed));
		adopted += takers[i].adopted;
	}
	assert_true(adopted > 10); /* else nothing was tried */
	wire_endpoints_fini(&pair, &endpoints);
	wire_pair_fini(&pair);
	free(snapshots);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_never_on_a_freed_snapshot)};

	alarm(300);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
