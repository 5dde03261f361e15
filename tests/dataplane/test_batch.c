/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a batch holds samples back for as long as it may and no longer, loses none of them, and packs them.
 * Method: two workers joined in memory (wire_pair.h) with injected time; datagrams on the wire and what the
 * reader takes are counted.
 */
#include "wire_pair.h"

#include "dataplane/batch_time.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DELAY_NS (20 * APUS_NS_PER_MS)

static struct wire_pair pair;
static struct wire_endpoints ends;
static int32_t taken[4096];
static int taken_count;

static void open_pair(const struct wire_options *o)
{
	taken_count = 0;
	wire_pair_init(&pair, 3);
	wire_endpoints_init(&pair, &ends, o);
	wire_match(&pair, &ends, true, o);
	wire_run(&pair, 10 * APUS_NS_PER_MS);
}

static void close_pair(void)
{
	wire_endpoints_fini(&pair, &ends);
	wire_pair_fini(&pair);
}

static void take(void)
{
	struct apus_sample s[32];
	int n;

	apus_dp_worker_take_turn(pair.b.worker);
	while ((n = apus_dp_reader_access(ends.reader, NULL, true, pair.now, s, 32)) > 0)
		for (int i = 0; i < n; i++) {
			struct apus_shape shape;

			assert_int_equal(apus_type_decode(&apus_shape_type, s[i].payload,
							  s[i].payload_bytes, false, &shape, NULL,
							  0),
					 0);
			taken[taken_count++] = shape.x;
			apus_dp_reader_return(ends.reader, &s[i]);
		}
	apus_dp_worker_end_turn(pair.b.worker);
}

static void write_some(int32_t first, int32_t last)
{
	for (int32_t x = first; x <= last; x++)
		assert_int_equal(wire_write(&pair, &ends, "RED", x, APUS_ALIVE), 0);
}

static void release(void)
{
	apus_dp_worker_take_turn(pair.a.worker);
	apus_dp_writer_release(ends.writer, pair.now);
	apus_dp_worker_end_turn(pair.a.worker);
}

static void check_taken(int n)
{
	take();
	assert_int_equal(taken_count, n);
	for (int i = 0; i < n; i++)
		assert_int_equal(taken[i], i + 1);
}

static struct wire_options batching(bool reliable)
{
	return (struct wire_options){.reliable = reliable,
				     .keep_all = true,
				     .depth = 1,
				     .max_samples = 256,
				     .batch_bytes = 400,
				     .batch_delay_ns = DELAY_NS};
}

/* What waits for the window is not asked for: the HEARTBEATs that move the window do not tell of it. */
static void test_waiting_samples_are_not_asked_for(void **state)
{
	struct wire_options o = batching(true);
	struct apus_dp_writer_state *s;

	(void)state;
	open_pair(&o);
	s = &ends.writer->states[ends.writer->order[0]];
	s->window_bytes = s->window_limit = 1024;
	write_some(1, 200);
	release();
	assert_true(s->waiting_seq > 1 && s->waiting_seq < 200);
	wire_run(&pair, 100 * APUS_NS_PER_MS);
	check_taken(200);
	assert_int_equal(s->acked, 200);
	assert_int_equal(apus_counter_get(&ends.writer->counters.repairs), 0);
	assert_int_equal(apus_counter_get(&ends.reader->counters.duplicates), 0);
	assert_true(s->window_bytes >= 1024);
	close_pair();
}

/* A payload is 24 bytes (header, length, "RED", 3 numbers): 16 of them stay below 400 bytes, the 17th sends
 * all in one datagram. */
static void test_size_ends_a_batch(void **state)
{
	struct wire_options o = batching(false);
	uint64_t before;

	(void)state;
	open_pair(&o);
	before = pair.a_to_b.sent;
	write_some(1, 16);
	assert_int_equal(pair.a_to_b.sent, before);
	check_taken(0);
	write_some(17, 17);
	assert_int_equal(pair.a_to_b.sent, before + 1);
	wire_run(&pair, APUS_NS_PER_MS);
	check_taken(17);
	assert_int_equal(apus_counter_get(&ends.writer->counters.batches), 1);
	close_pair();
}

static void test_time_ends_a_batch(void **state)
{
	struct wire_options o = batching(true);

	(void)state;
	open_pair(&o);
	write_some(1, 3);
	wire_run(&pair, DELAY_NS - 2 * APUS_NS_PER_MS);
	check_taken(0);
	wire_run(&pair, 4 * APUS_NS_PER_MS);
	check_taken(3);
	/* The timer does not shorten the next batch. */
	write_some(4, 4);
	wire_run(&pair, DELAY_NS - 2 * APUS_NS_PER_MS);
	check_taken(3);
	wire_run(&pair, 4 * APUS_NS_PER_MS);
	check_taken(4);
	wire_run(&pair, 10 * APUS_NS_PER_MS); /* the heartbeat timer asks */
	assert_true(apus_dp_writer_acked(ends.writer, 4));
	close_pair();
}

static void test_flush_ends_a_batch(void **state)
{
	struct wire_options o = batching(true);

	(void)state;
	o.batch_delay_ns = APUS_INFINITE_NS;
	open_pair(&o);
	write_some(1, 2);
	wire_run(&pair, 3 * APUS_NS_PER_SEC);
	check_taken(0);
	release();
	wire_run(&pair, APUS_NS_PER_MS);
	check_taken(2);
	release(); /* nothing is held: nothing is sent */
	close_pair();
}

/* Heartbeats do not tell of held samples: the reader must not ask for them one by one. */
static void test_held_samples_are_not_asked_for(void **state)
{
	struct wire_options o = batching(true);

	(void)state;
	o.batch_delay_ns = APUS_NS_PER_SEC;
	open_pair(&o);
	wire_set(&pair, 100, 0, 0);
	write_some(1, 17); /* lost: the writer goes on heartbeating */
	wire_set(&pair, 0, 0, 0);
	write_some(18, 20);
	wire_run(&pair, 200 * APUS_NS_PER_MS);
	check_taken(17);
	assert_int_equal(apus_counter_get(&ends.writer->counters.repairs), 17);
	wire_run(&pair, APUS_NS_PER_SEC);
	check_taken(20);
	assert_int_equal(apus_counter_get(&ends.writer->counters.repairs), 17);
	close_pair();
}

/* KEEP_LAST(4): the fifth sample would displace one that nobody has been sent. */
static void test_keep_last_sends_before_it_displaces(void **state)
{
	struct wire_options o = batching(false);

	(void)state;
	o.keep_all = false;
	o.depth = 4;
	o.reader_max_samples = 256;
	open_pair(&o);
	for (int32_t x = 1; x <= 10; x++) {
		write_some(x, x);
		wire_run(&pair, 200 * APUS_NS_PER_US);
		take();
	}
	check_taken(8);
	release();
	wire_run(&pair, APUS_NS_PER_MS);
	check_taken(10);
	close_pair();
}

/* A full KEEP_ALL history sends what it holds rather than refuse for it. */
static void test_full_history_sends(void **state)
{
	struct wire_options o = batching(false);

	(void)state;
	o.max_samples = 8;
	o.reader_max_samples = 256;
	open_pair(&o);
	write_some(1, 20);
	release();
	wire_run(&pair, APUS_NS_PER_MS);
	check_taken(20);
	close_pair();
}

/* Suspended, a writer holds everything, whatever its batch says; suspensions nest. */
static void test_suspension(void **state)
{
	struct wire_options o = batching(true);

	(void)state;
	open_pair(&o);
	apus_dp_writer_suspend(ends.writer);
	apus_dp_writer_suspend(ends.writer);
	write_some(1, 100);
	release();
	wire_run(&pair, APUS_NS_PER_SEC);
	check_taken(0);
	apus_dp_worker_take_turn(pair.a.worker);
	apus_dp_writer_resume(ends.writer, pair.now);
	apus_dp_worker_end_turn(pair.a.worker);
	wire_run(&pair, 100 * APUS_NS_PER_MS);
	check_taken(0);
	apus_dp_worker_take_turn(pair.a.worker);
	apus_dp_writer_resume(ends.writer, pair.now);
	apus_dp_writer_resume(ends.writer, pair.now); /* one too many: nothing */
	apus_dp_worker_end_turn(pair.a.worker);
	wire_run(&pair, APUS_NS_PER_MS);
	check_taken(100);
	/* Then it batches as before. */
	write_some(101, 101);
	wire_run(&pair, APUS_NS_PER_MS);
	check_taken(100);
	close_pair();
}

/* Everything arrives, in order, also where the wire is bad. */
static void test_loss(void **state)
{
	struct wire_options o = batching(true);
	int32_t x = 1;

	(void)state;
	open_pair(&o);
	wire_set(&pair, 20, 5, 10);
	for (int i = 0; i < 100000 && !(x > 3000 && apus_dp_writer_acked(ends.writer, 3000)); i++) {
		for (int k = 0; k < 40 && x <= 3000; k++)
			if (wire_write(&pair, &ends, "RED", x, APUS_ALIVE) == 0)
				x++;
		wire_run(&pair, 200 * APUS_NS_PER_US);
		take();
	}
	check_taken(3000);
	assert_true(pair.a_to_b.dropped > 0);
	close_pair();
}

/* Writes samples `gap_ns` apart from `*at_ns` on; returns how often the clock was read, and the greatest error. */
static int stamp(struct apus_dp_batch_time *b, int count, int64_t gap_ns, int64_t *at_ns,
		 int64_t *worst_out)
{
	int reads = 0;

	*worst_out = 0;
	for (int i = 0; i < count; i++, *at_ns += gap_ns) {
		if (!apus_dp_batch_time_serves(b, *at_ns >> 20)) {
			apus_dp_batch_time_set(b, (struct apus_wall){*at_ns}, *at_ns >> 20);
			reads++;
		}
		assert_true(b->time.ns <= *at_ns);
		if (*at_ns - b->time.ns > *worst_out)
			*worst_out = *at_ns - b->time.ns;
	}
	return reads;
}

/* The faster the samples come, the more share a source time, and it is off by some microseconds at most; where they
 * come slowly each has its own; one that comes after a pause has a time of before it within the same tick only. */
static void test_source_times_are_shared(void **state)
{
	struct apus_dp_batch_time b = {0};
	int64_t at_ns = INT64_C(1000) << 20, worst;

	(void)state;
	assert_int_equal(stamp(&b, 1, 100, &at_ns, &worst), 1);
	assert_int_equal(b.run, 0); /* nothing was known of the pace */
	assert_in_range(stamp(&b, 10000, 100, &at_ns, &worst), 10000 / 128, 10000 / 64 + 12);
	assert_in_range(worst, 1, 127 * 100);
	assert_in_range(stamp(&b, 10000, 1000, &at_ns, &worst), 10000 / 16, 10000 / 3 + 8);
	assert_in_range(worst, 1, 127 * 1000); /* the first run is still one of the fast pace */
	assert_in_range(stamp(&b, 1000, 1000, &at_ns, &worst), 1000 / 16, 1000 / 3 + 8);
	assert_in_range(worst, 1, 15 * 1000);
	stamp(&b, 17, 100000, &at_ns, &worst);
	assert_int_equal(stamp(&b, 100, 100000, &at_ns, &worst), 100);
	assert_int_equal(worst, 0);
	stamp(&b, 2000, 100, &at_ns, &worst);
	at_ns += 1 << 20; /* a pause over a tick */
	assert_int_equal(stamp(&b, 1, 100, &at_ns, &worst), 1);
	assert_int_equal(worst, 0);
	at_ns -= APUS_NS_PER_SEC; /* the clock was set back */
	b.left = 0;
	apus_dp_batch_time_set(&b, (struct apus_wall){at_ns}, 0);
	assert_int_equal(b.run, 0);
	apus_dp_batch_time_set(&b, (struct apus_wall){INT64_MAX}, 0);
	apus_dp_batch_time_set(&b, (struct apus_wall){-5}, 0);
	assert_int_equal(b.run, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_size_ends_a_batch),
		cmocka_unit_test(test_time_ends_a_batch),
		cmocka_unit_test(test_flush_ends_a_batch),
		cmocka_unit_test(test_held_samples_are_not_asked_for),
		cmocka_unit_test(test_keep_last_sends_before_it_displaces),
		cmocka_unit_test(test_full_history_sends),
		cmocka_unit_test(test_waiting_samples_are_not_asked_for),
		cmocka_unit_test(test_suspension),
		cmocka_unit_test(test_loss),
		cmocka_unit_test(test_source_times_are_shared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
