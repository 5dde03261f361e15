/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a writer and a reader deliver what their QoS promises over a bad wire.
 * Method: two workers joined in memory (wire_pair.h) with loss, duplication and reordering from a seeded
 * generator and injected time; every sample's contents and order are compared.
 */
#include "wire_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Of one hole, when nothing comes: after pauses of 4, 8 … 256 ms, and the first. */
#define REQUESTS 8

/* What a reader has taken so far. */
struct taken {
	int32_t x[20000];
	uint8_t state[20000];
	char first[20000];
	bool valid[20000];
	int count;
};

static struct taken taken;
/* How long the last transfer took, in the time of the wire. */
static int64_t last_ns;

static void take_all(struct wire_pair *p, struct wire_endpoints *e)
{
	struct apus_sample s[32];
	int n;

	apus_dp_worker_take_turn(p->b.worker);
	while ((n = apus_dp_reader_access(e->reader, NULL, true, p->now, s, 32)) > 0)
		for (int i = 0; i < n; i++) {
			struct apus_shape shape;

			assert_int_equal(apus_type_decode(&apus_shape_type, s[i].payload,
							  s[i].payload_bytes, !s[i].info.valid_data,
							  &shape, NULL, 0),
					 0);
			if (s[i].info.valid_data)
				assert_int_equal(shape.y, 2 * shape.x);
			taken.x[taken.count] = shape.x;
			taken.state[taken.count] = s[i].info.instance_state;
			taken.valid[taken.count] = s[i].info.valid_data;
			taken.first[taken.count++] = shape.color[0];
			assert_int_equal(apus_dp_reader_return(e->reader, &s[i]), 0);
		}
	assert_int_equal(n, 0);
	apus_dp_worker_end_turn(p->b.worker);
}

/* Writes x = 1 … n, taking and letting time pass, until everything is acknowledged. */
static void stream(struct wire_pair *p, struct wire_endpoints *e, int n)
{
	int x = 1, rounds = 0;

	while (x <= n || !apus_dp_writer_acked(e->writer, n)) {
		while (x <= n && x % 16 && wire_write(p, e, "RED", x, APUS_ALIVE) == 0)
			x++;
		if (x <= n && x % 16 == 0 && wire_write(p, e, "RED", x, APUS_ALIVE) == 0)
			x++;
		wire_run(p, 200 * APUS_NS_PER_US);
		take_all(p, e);
		assert_true(++rounds < 200000);
	}
	take_all(p, e);
}

static void check_complete(int n)
{
	assert_int_equal(taken.count, n);
	for (int i = 0; i < n; i++)
		assert_int_equal(taken.x[i], i + 1);
}

static void run_lossy(uint32_t loss, uint32_t duplicate, uint32_t reorder, int n)
{
	struct wire_options o = {.reliable = true, .keep_all = true, .depth = 1, .max_samples = 64};
	static struct wire_pair p;
	struct wire_endpoints e;
	struct apus_mono begun;

	taken.count = 0;
	wire_pair_init(&p, 1 + loss);
	wire_set(&p, loss, duplicate, reorder);
	wire_endpoints_init(&p, &e, &o);
	wire_match(&p, &e, true, &o);
	begun = p.now;
	stream(&p, &e, n);
	last_ns = p.now.ns - begun.ns;
	check_complete(n);
	assert_true(loss == 0 || p.a_to_b.dropped > 0);
	wire_endpoints_fini(&p, &e);
	wire_pair_fini(&p);
}

static void test_clean(void **state)
{
	(void)state;
	run_lossy(0, 0, 0, 10000);
}

static void test_loss_10(void **state)
{
	(void)state;
	run_lossy(10, 0, 0, 10000);
}

static void test_loss_30_all_faults(void **state)
{
	(void)state;
	run_lossy(30, 5, 10, 10000);
	/* Lost requests and lost answers are soon repeated: a history of 64 is 156 times full and empty again. */
	assert_in_range(last_ns, 0, 4 * APUS_NS_PER_SEC);
}

/* Hands the reader a sample of its writer, as if it had come alone. */
static void data_comes(struct wire_pair *p, struct wire_endpoints *e, apus_seq seq)
{
	static const uint8_t payload[24] = {0, 1, 0, 0, 4, 0, 0, 0, 'R', 'E', 'D', 0};
	struct apus_wire_data d = {
		.seq = seq, .payload = payload, .payload_bytes = sizeof(payload)};
	struct apus_dp_origin origin = {0};

	apus_dp_worker_take_turn(p->b.worker);
	apus_dp_reader_data(&e->reader->states[e->reader->order[0]], &d, &origin, p->now);
	apus_dp_worker_end_turn(p->b.worker);
}

/* A hole is asked for, and again if nothing comes, ever more rarely: after 5 (a hole), 4, 8 … 256 ms, and then no
 * more until something is heard. Once it is closed nobody asks. */
static void test_holes_are_asked_for(void **state)
{
	struct wire_options o = {.reliable = true, .keep_all = true, .depth = 1, .max_samples = 64};
	static struct wire_pair p;
	struct wire_endpoints e;
	const struct apus_counter *acks;
	uint64_t before;

	(void)state;
	wire_pair_init(&p, 5);
	wire_endpoints_init(&p, &e, &o);
	wire_match(&p, &e, true, &o);
	wire_run(&p, 20 * APUS_NS_PER_MS);
	acks = &e.reader->counters.acknacks_sent;
	wire_set(&p, 100, 0, 0);
	data_comes(&p, &e, 1);
	before = apus_counter_get(acks);
	data_comes(&p, &e, 3);
	assert_int_equal(apus_counter_get(acks), before);
	wire_run(&p, 7 * APUS_NS_PER_MS);
	assert_int_equal(apus_counter_get(acks), before + 1);
	wire_run(&p, 3 * APUS_NS_PER_SEC);
	assert_int_equal(apus_counter_get(acks), before + REQUESTS);
	data_comes(&p, &e, 2);
	wire_run(&p, 100 * APUS_NS_PER_MS);
	assert_int_equal(apus_counter_get(acks), before + REQUESTS);
	wire_endpoints_fini(&p, &e);
	wire_pair_fini(&p);
}

/* A KEEP_ALL reader that is full refuses, the writer keeps the sample, and nothing is lost. */
static void test_full_reader_pushes_back(void **state)
{
	struct wire_options o = {.reliable = true,
				 .keep_all = true,
				 .depth = 1,
				 .max_samples = 32,
				 .reader_max_samples = 8};
	static struct wire_pair p;
	struct wire_endpoints e;
	int x = 1;

	(void)state;
	taken.count = 0;
	wire_pair_init(&p, 9);
	wire_endpoints_init(&p, &e, &o);
	wire_match(&p, &e, true, &o);
	for (int i = 0; i < 200; i++) {
		if (wire_write(&p, &e, "RED", x, APUS_ALIVE) == 0)
			x++;
		wire_run(&p, APUS_NS_PER_MS);
	}
	/* 8 in the reader, 32 in the writer: the writer refused the rest. */
	assert_int_equal(x, 8 + 32 + 1);
	assert_int_equal(wire_write(&p, &e, "RED", x, APUS_ALIVE), APUS_EAGAIN);
	for (int i = 0; i < 200 && taken.count < 40; i++) {
		take_all(&p, &e);
		wire_run(&p, 10 * APUS_NS_PER_MS);
	}
	check_complete(40);
	wire_endpoints_fini(&p, &e);
	wire_pair_fini(&p);
}

/* A late joiner of a transient-local KEEP_LAST(2) writer gets the last two of each instance, then live
 * samples; over a lossy wire. */
static void test_late_joiner(void **state)
{
	struct wire_options o = {.reliable = true,
				 .transient_local = true,
				 .depth = 2,
				 .max_samples = 64,
				 .reader_max_samples = 64};
	static struct wire_pair p;
	struct wire_endpoints e;
	static const int32_t expect_x[] = {2, 3, 8, 9, 10};

	(void)state;
	taken.count = 0;
	wire_pair_init(&p, 77);
	wire_set(&p, 20, 0, 0);
	wire_endpoints_init(&p, &e, &o);
	for (int x = 1; x <= 3; x++)
		assert_int_equal(wire_write(&p, &e, "BLUE", x, APUS_ALIVE), 0);
	for (int x = 4; x <= 9; x++)
		assert_int_equal(wire_write(&p, &e, "RED", x, APUS_ALIVE), 0);
	wire_match(&p, &e, true, &o);
	wire_run(&p, 2 * APUS_NS_PER_SEC);
	take_all(&p, &e);
	assert_int_equal(wire_write(&p, &e, "BLUE", 10, APUS_ALIVE), 0);
	wire_run(&p, 2 * APUS_NS_PER_SEC);
	take_all(&p, &e);
	assert_int_equal(taken.count, 5);
	for (int i = 0; i < 5; i++)
		assert_int_equal(taken.x[i], expect_x[i]);
	wire_endpoints_fini(&p, &e);
	wire_pair_fini(&p);
}

/* A volatile late joiner gets nothing of the past; the writer counts nothing as missing. */
static void test_volatile_joiner(void **state)
{
	struct wire_options o = {.reliable = true, .keep_all = true, .depth = 1, .max_samples = 64};
	static struct wire_pair p;
	struct wire_endpoints e;

	(void)state;
	taken.count = 0;
	wire_pair_init(&p, 5);
	wire_endpoints_init(&p, &e, &o);
	for (int x = 1; x <= 5; x++)
		assert_int_equal(wire_write(&p, &e, "RED", x, APUS_ALIVE), 0);
	wire_match(&p, &e, true, &o);
	wire_run(&p, APUS_NS_PER_SEC);
	assert_int_equal(wire_write(&p, &e, "RED", 6, APUS_ALIVE), 0);
	wire_run(&p, APUS_NS_PER_SEC);
	take_all(&p, &e);
	assert_int_equal(taken.count, 1);
	assert_int_equal(taken.x[0], 6);
	assert_true(apus_dp_writer_acked(e.writer, 6));
	wire_endpoints_fini(&p, &e);
	wire_pair_fini(&p);
}

/* Dispose and unregister arrive as states, with the key; the end of a match is NO_WRITERS. */
static void test_life_cycle(void **state)
{
	struct wire_options o = {.reliable = true, .keep_all = true, .depth = 1, .max_samples = 64};
	static struct wire_pair p;
	struct wire_endpoints e;

	(void)state;
	taken.count = 0;
	wire_pair_init(&p, 6);
	wire_endpoints_init(&p, &e, &o);
	wire_match(&p, &e, true, &o);
	wire_write(&p, &e, "RED", 1, APUS_ALIVE);
	wire_write(&p, &e, "BLUE", 2, APUS_ALIVE);
	wire_write(&p, &e, "GREEN", 3, APUS_ALIVE);
	wire_run(&p, APUS_NS_PER_SEC);
	take_all(&p, &e);
	wire_write(&p, &e, "RED", 0, APUS_DISPOSE);
	wire_write(&p, &e, "BLUE", 0, APUS_UNREGISTER);
	wire_run(&p, APUS_NS_PER_SEC);
	take_all(&p, &e);
	wire_match(&p, &e, false, &o);
	take_all(&p, &e);
	assert_int_equal(taken.count, 6);
	assert_true(taken.valid[0] && taken.valid[1] && taken.valid[2]);
	assert_true(taken.first[3] == 'R' && !taken.valid[3] &&
		    taken.state[3] == APUS_STATE_DISPOSED);
	assert_true(taken.first[4] == 'B' && !taken.valid[4] &&
		    taken.state[4] == APUS_STATE_NO_WRITERS);
	assert_true(taken.first[5] == 'G' && !taken.valid[5] &&
		    taken.state[5] == APUS_STATE_NO_WRITERS);
	wire_endpoints_fini(&p, &e);
	wire_pair_fini(&p);
}

/* Best effort: rising order, no duplicates, no requests; losses are losses. */
static void test_best_effort(void **state)
{
	struct wire_options o = {.depth = 64, .max_samples = 64};
	static struct wire_pair p;
	struct wire_endpoints e;
	uint64_t back;

	(void)state;
	taken.count = 0;
	wire_pair_init(&p, 8);
	wire_set(&p, 10, 10, 10);
	wire_endpoints_init(&p, &e, &o);
	wire_match(&p, &e, true, &o);
	back = p.b_to_a.sent;
	for (int x = 1; x <= 2000; x++) {
		assert_int_equal(wire_write(&p, &e, "RED", x, APUS_ALIVE), 0);
		wire_run(&p, 100 * APUS_NS_PER_US);
		take_all(&p, &e);
	}
	assert_in_range(taken.count, 1500, 1990);
	for (int i = 1; i < taken.count; i++)
		assert_true(taken.x[i] > taken.x[i - 1]);
	assert_int_equal(p.b_to_a.sent, back);
	wire_endpoints_fini(&p, &e);
	wire_pair_fini(&p);
}

/* Numbers that were never written, and counts that run backwards, change nothing. */
static void test_forged_acknacks(void **state)
{
	struct wire_options o = {.reliable = true, .keep_all = true, .depth = 1, .max_samples = 64};
	static struct wire_pair p;
	struct wire_endpoints e;
	struct apus_wire_acknack a = {
		.set = {.base = INT64_C(1) << 60}, .count = 100, .final = true};

	(void)state;
	wire_pair_init(&p, 6);
	wire_endpoints_init(&p, &e, &o);
	wire_match(&p, &e, true, &o);
	wire_set(&p, 100, 0, 0);
	wire_write(&p, &e, "RED", 1, APUS_ALIVE);
	apus_dp_worker_take_turn(p.a.worker);
	assert_true(apus_dp_writer_acknack(e.writer, &e.reader->config.guid, &a, NULL, p.now));
	assert_false(apus_dp_writer_acked(e.writer, 1));
	assert_int_equal(apus_counter_get(&e.writer->counters.acknacks_forged), 1);
	a.set.base = 2;
	a.count = 5;
	assert_true(apus_dp_writer_acknack(e.writer, &e.reader->config.guid, &a, NULL, p.now));
	assert_true(apus_dp_writer_acked(e.writer, 1));
	a.count = 4;
	apus_dp_writer_acknack(e.writer, &e.reader->config.guid, &a, NULL, p.now);
	assert_int_equal(apus_counter_get(&e.writer->counters.acknacks_stale), 1);
	assert_false(apus_dp_writer_acknack(e.writer, &e.writer->config.guid, &a, NULL, p.now));
	apus_dp_worker_end_turn(p.a.worker);
	wire_endpoints_fini(&p, &e);
	wire_pair_fini(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clean),
		cmocka_unit_test(test_loss_10),
		cmocka_unit_test(test_loss_30_all_faults),
		cmocka_unit_test(test_holes_are_asked_for),
		cmocka_unit_test(test_full_reader_pushes_back),
		cmocka_unit_test(test_late_joiner),
		cmocka_unit_test(test_volatile_joiner),
		cmocka_unit_test(test_life_cycle),
		cmocka_unit_test(test_best_effort),
		cmocka_unit_test(test_forged_acknacks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
