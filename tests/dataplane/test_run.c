/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: samples of a keyless topic that come in batches, and so are admitted as runs, are shown, counted, refused and
 * lost as if they had come one by one. Method: two workers joined in memory (wire_pair.h), batches with limits in
 * their way, loss, and what else ends a run.
 */
#include "wire_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct wire_pair pair;
static struct wire_endpoints ends;
static int32_t taken[8192];
static apus_seq taken_seq[8192];
static int taken_count;

static void open_pair(const struct wire_options *o)
{
	taken_count = 0;
	wire_pair_init(&pair, 5);
	wire_endpoints_init(&pair, &ends, o);
	wire_match(&pair, &ends, true, o);
	wire_run(&pair, 10 * APUS_NS_PER_MS);
}

static void close_pair(void)
{
	wire_endpoints_fini(&pair, &ends);
	wire_pair_fini(&pair);
}

static int access(bool take, uint32_t max)
{
	struct apus_sample s[64];
	int n;

	apus_dp_worker_take_turn(pair.b.worker);
	n = apus_dp_reader_access(ends.reader, NULL, take, pair.now, s, max);
	for (int i = 0; i < n; i++) {
		struct apus_shape shape;

		assert_int_equal(apus_type_decode(&apus_shape_type, s[i].payload,
						  s[i].payload_bytes, false, &shape, NULL, 0),
				 0);
		assert_int_equal(s[i].info.instance, APUS_INSTANCE_NONE);
		assert_int_equal(s[i].info.instance_state, APUS_STATE_ALIVE);
		assert_true(apus_guid_equal(&s[i].info.writer, &ends.writer->config.guid));
		taken_seq[taken_count] = s[i].info.seq;
		taken[taken_count++] = shape.x;
		assert_int_equal(apus_dp_reader_return(ends.reader, &s[i]), 0);
	}
	apus_dp_worker_end_turn(pair.b.worker);
	return n;
}

static void take_all(void)
{
	while (access(true, 64) > 0)
		continue;
}

/* All at one time: another would end a run. */
static int write_one(int32_t x)
{
	return wire_write_at(&pair, &ends, "RED", x, APUS_ALIVE, 1000000);
}

static void write_some(int32_t first, int32_t last)
{
	for (int32_t x = first; x <= last; x++)
		assert_int_equal(write_one(x), 0);
	apus_dp_worker_take_turn(pair.a.worker);
	apus_dp_writer_release(ends.writer, pair.now);
	apus_dp_worker_end_turn(pair.a.worker);
}

static void check_taken(int32_t first, int count)
{
	assert_int_equal(taken_count, count);
	for (int i = 0; i < count; i++)
		assert_int_equal(taken[i], first + i);
}

static uint64_t counted(const struct apus_counter *c)
{
	return apus_counter_get(c);
}

static void a_batch_is_admitted_whole(void **state)
{
	const struct wire_options o = {.reliable = true,
				       .keep_all = true,
				       .keyless = true,
				       .max_samples = 512,
				       .batch_bytes = 1 << 20,
				       .batch_delay_ns = APUS_NS_PER_SEC};
	const struct apus_dp_reader_counters *c;

	(void)state;
	open_pair(&o);
	c = &ends.reader->counters;
	for (int round = 0; round < 5; round++) {
		write_some(1 + 200 * round, 200 + 200 * round);
		wire_run(&pair, APUS_NS_PER_MS);
		assert_int_equal(ends.reader->inbox.history.sample_count, 200);
		take_all();
	}
	check_taken(1, 1000);
	assert_int_equal(counted(&c->received), 1000);
	assert_int_equal(counted(&c->delivered), 1000);
	assert_int_equal(counted(&c->results[APUS_DP_STORED]), 1000);
	assert_int_equal(ends.reader->inbox.counters.results[APUS_DP_STORED], 1000);
	assert_int_equal(ends.reader->inbox.counters.available, 1000);
	assert_int_equal(ends.reader->news, 1000);
	assert_int_equal(counted(&c->duplicates), 0);
	assert_int_equal(ends.writer->min_acked, ends.writer->last);
	close_pair();
}

static void read_then_taken(void **state)
{
	const struct wire_options o = {.reliable = true,
				       .keep_all = true,
				       .keyless = true,
				       .max_samples = 512,
				       .batch_bytes = 1 << 20,
				       .batch_delay_ns = APUS_NS_PER_SEC};

	(void)state;
	open_pair(&o);
	write_some(1, 100);
	wire_run(&pair, APUS_NS_PER_MS);
	assert_int_equal(access(false, 10), 10);
	check_taken(1, 10);
	taken_count = 0;
	assert_int_equal(access(true, 7), 7); /* in the middle of what was a run */
	write_some(101, 150);
	wire_run(&pair, APUS_NS_PER_MS);
	take_all();
	check_taken(1, 150);
	close_pair();
}

/* What finds no room is refused once a number, not acknowledged, and comes when there is some. */
static void a_run_larger_than_the_history(void **state)
{
	const struct wire_options o = {.reliable = true,
				       .keep_all = true,
				       .keyless = true,
				       .max_samples = 256,
				       .reader_max_samples = 24,
				       .batch_bytes = 1 << 20,
				       .batch_delay_ns = APUS_NS_PER_SEC};

	(void)state;
	open_pair(&o);
	write_some(1, 200);
	wire_run(&pair, APUS_NS_PER_MS);
	assert_int_equal(ends.reader->inbox.history.sample_count, 24);
	assert_true(ends.reader->inbox.counters.rejected > 0);
	assert_true(ends.writer->min_acked <= 24);
	for (int i = 0; i < 200 && taken_count < 200; i++) {
		take_all();
		wire_run(&pair, 20 * APUS_NS_PER_MS);
	}
	check_taken(1, 200);
	assert_int_equal(ends.reader->window_lost, 0);
	close_pair();
}

static void keep_last_shows_the_latest(void **state)
{
	const struct wire_options o = {.reliable = true,
				       .depth = 128,
				       .reader_depth = 5,
				       .keyless = true,
				       .max_samples = 128,
				       .batch_bytes = 1 << 20,
				       .batch_delay_ns = APUS_NS_PER_SEC};

	(void)state;
	open_pair(&o);
	write_some(1, 100);
	wire_run(&pair, APUS_NS_PER_MS);
	take_all();
	check_taken(96, 5);
	assert_int_equal(ends.reader->inbox.history.counters.displaced, 95);
	assert_int_equal(counted(&ends.reader->counters.delivered), 100);
	close_pair();
}

static void loss_duplicates_and_disorder(void **state)
{
	const struct wire_options o = {.reliable = true,
				       .keep_all = true,
				       .keyless = true,
				       .max_samples = 256,
				       .batch_bytes = 1200,
				       .batch_delay_ns = APUS_NS_PER_MS};

	(void)state;
	open_pair(&o);
	wire_set(&pair, 15, 10, 20);
	for (int32_t x = 1; x <= 4000;) {
		if (write_one(x) == 0) {
			x++;
			continue;
		}
		wire_run(&pair, 5 * APUS_NS_PER_MS);
		take_all();
	}
	for (int i = 0; i < 2000 && taken_count < 4000; i++) {
		wire_run(&pair, 10 * APUS_NS_PER_MS);
		take_all();
	}
	check_taken(1, 4000);
	close_pair();
}

static void best_effort_counts_what_is_lost(void **state)
{
	const struct wire_options o = {.keep_all = true,
				       .keyless = true,
				       .max_samples = 256,
				       .batch_bytes = 1200,
				       .batch_delay_ns = APUS_NS_PER_MS};
	apus_seq last;

	(void)state;
	open_pair(&o);
	wire_set(&pair, 20, 10, 0);
	for (int32_t x = 1; x <= 3000; x++) {
		assert_int_equal(write_one(x), 0);
		wire_run(&pair, 100 * APUS_NS_PER_US);
		take_all();
	}
	wire_set(&pair, 0, 0, 0);
	write_some(3001, 3001);
	wire_run(&pair, APUS_NS_PER_MS);
	take_all();
	assert_true(taken_count > 1500 && taken_count < 3000);
	for (int i = 0; i < taken_count; i++)
		assert_int_equal(taken[i] - taken[0], taken_seq[i] - taken_seq[0]);
	for (int i = 1; i < taken_count; i++)
		assert_true(taken[i] > taken[i - 1]);
	last = taken_seq[taken_count - 1];
	assert_int_equal(taken[taken_count - 1], 3001);
	assert_int_equal(ends.reader->window_lost,
			 (uint64_t)(last - taken_seq[0] + 1 - taken_count));
	close_pair();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_batch_is_admitted_whole),
		cmocka_unit_test(read_then_taken),
		cmocka_unit_test(a_run_larger_than_the_history),
		cmocka_unit_test(keep_last_shows_the_latest),
		cmocka_unit_test(loss_duplicates_and_disorder),
		cmocka_unit_test(best_effort_counts_what_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
