/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a reader that has stopped answering holds up nobody for longer than the configured limit, and is a
 * reader again as soon as it is heard; a slow one that answers keeps its back-pressure.
 * Method: a writer with a living reader (wire_pair.h) and a second match whose reader does not exist; what
 * that one would send is forged.
 */
#include "wire_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DEMOTE_NS (300 * APUS_NS_PER_MS)
#define ROOM      32

static struct wire_pair pair;
static struct wire_endpoints ends;
static struct apus_guid silent;
static uint32_t ack_count;
static int taken_count;

/* The silent reader: matched from the beginning, as reliable as the other. */
static void add_silent_match(void)
{
	const struct apus_dp_writer_snapshot *old = ends.writer_snapshot;
	struct apus_dp_writer_snapshot *s = calloc(1, sizeof(*s) + 2 * sizeof(s->match[0]));
	static const uint8_t ip[4] = {127, 0, 0, 1};
	uint64_t retired;

	assert_non_null(s);
	s->generation = ++ends.generation;
	s->match_count = 2;
	s->match[0] = s->match[1] = old->match[0];
	memset(s->match[1].guid.bytes + 2, 0xcc, 10);
	s->match[1].match_id = 1000;
	s->match[1].unicast = apus_dp_addr_v4(ip, 3);
	silent = s->match[1].guid;
	apus_dp_writer_publish(&pair.epoch, &ends.writer->port, s, &retired);
	wire_run(&pair, APUS_NS_PER_MS);
	free(ends.writer_snapshot);
	ends.writer_snapshot = s;
}

/* What the silent reader says: everything below base is there, `missing` numbers from base on are not. */
static void silent_says(apus_seq base, uint32_t missing, bool final)
{
	struct apus_wire_acknack a = {
		.set = {.base = base, .num_bits = missing}, .count = ++ack_count, .final = final};

	for (uint32_t i = 0; i < missing; i++)
		a.set.bitmap[i / 32] |= UINT32_C(0x80000000) >> i % 32;
	apus_dp_worker_take_turn(pair.a.worker);
	assert_true(apus_dp_writer_acknack(ends.writer, &silent, &a, NULL, pair.now));
	apus_dp_worker_end_turn(pair.a.worker);
}

static void open_pair(bool greeted)
{
	struct wire_options o = {.reliable = true,
				 .keep_all = true,
				 .depth = 1,
				 .max_samples = ROOM,
				 .reader_max_samples = 1024};

	ack_count = 0;
	taken_count = 0;
	wire_pair_init(&pair, 3);
	pair.a.worker->config.demote_ns = DEMOTE_NS;
	wire_endpoints_init(&pair, &ends, &o);
	wire_match(&pair, &ends, true, &o);
	add_silent_match();
	if (greeted)
		silent_says(1, 0, true);
	wire_run(&pair, 10 * APUS_NS_PER_MS);
}

static void close_pair(void)
{
	wire_endpoints_fini(&pair, &ends);
	wire_pair_fini(&pair);
}

static uint64_t counted(const struct apus_counter *counter)
{
	return apus_counter_get(counter);
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
			assert_int_equal(shape.x, ++taken_count);
			apus_dp_reader_return(ends.reader, &s[i]);
		}
	apus_dp_worker_end_turn(pair.b.worker);
}

/* Writes the next number each millisecond until `ns` have passed; returns how many writes were refused. */
static int write_on(int32_t *x, int64_t ns)
{
	int refused = 0;

	for (; ns > 0; ns -= APUS_NS_PER_MS) {
		if (wire_write(&pair, &ends, "RED", *x, APUS_ALIVE) == 0)
			++*x;
		else
			refused++;
		wire_run(&pair, APUS_NS_PER_MS);
		take();
	}
	return refused;
}

static void demotes(bool greeted)
{
	int32_t x = 1;

	open_pair(greeted);
	/* Room for 32 ms; then KEEP_ALL holds the writer up, until the limit, but no longer. */
	assert_in_range(write_on(&x, DEMOTE_NS + 150 * APUS_NS_PER_MS), 200, 400);
	assert_int_equal(counted(&ends.writer->counters.demotions), 1);
	assert_int_equal(write_on(&x, APUS_NS_PER_SEC), 0);
	assert_int_equal(taken_count, x - 1);
	assert_true(counted(&ends.writer->counters.demoted_lost) > 900);
	/* Nothing was acknowledged for it: who waits for all does not take it for done. */
	assert_false(apus_dp_writer_acked(ends.writer, x - 1));
}

static void test_silent_reader_is_demoted(void **state)
{
	(void)state;
	demotes(true);
	close_pair();
}

/* The same for one that has never answered at all. */
static void test_reader_never_heard_is_demoted(void **state)
{
	(void)state;
	demotes(false);
	close_pair();
}

/* A demoted reader costs a HEARTBEAT each period and no samples. */
static void test_demoted_reader_costs_little(void **state)
{
	int32_t x = 1;
	uint64_t before;

	(void)state;
	open_pair(true);
	write_on(&x, APUS_NS_PER_SEC);
	before = counted(&ends.writer->counters.data_sent);
	write_on(&x, APUS_NS_PER_SEC);
	assert_in_range(counted(&ends.writer->counters.data_sent) - before, 990, 1010);
	close_pair();
}

static void test_demoted_reader_returns(void **state)
{
	int32_t x = 1;
	uint64_t repairs, gaps;

	(void)state;
	demotes(true);
	x = (int32_t)ends.writer->last + 1;
	repairs = counted(&ends.writer->counters.repairs);
	gaps = counted(&ends.writer->counters.gaps);
	/* It asks for what it missed first: that is gone, and all of it up to what is still there is one
	 * GAP. The rest it gets. */
	silent_says(1, 256, false);
	assert_int_equal(counted(&ends.writer->counters.returns), 1);
	assert_int_equal(counted(&ends.writer->counters.gaps), gaps + 1);
	assert_int_equal(ends.writer->cache.count, ROOM);
	silent_says(x - ROOM, ROOM, false);
	assert_int_equal(counted(&ends.writer->counters.repairs), repairs + ROOM);
	/* KEEP_ALL holds for it again. */
	assert_int_equal(wire_write(&pair, &ends, "RED", x, APUS_ALIVE), APUS_EAGAIN);
	silent_says(x, 0, true);
	assert_int_equal(write_on(&x, 20 * APUS_NS_PER_MS), 0);
	assert_int_equal(counted(&ends.writer->counters.demotions), 1);
	close_pair();
}

/* It answers every HEARTBEAT, but has no room and acknowledges nothing: that is back-pressure. */
static void test_slow_reader_is_not_demoted(void **state)
{
	int32_t x = 1;

	(void)state;
	open_pair(true);
	for (int i = 0; i < 40; i++) {
		write_on(&x, 50 * APUS_NS_PER_MS);
		silent_says(1, 1, true);
	}
	assert_int_equal(counted(&ends.writer->counters.demotions), 0);
	assert_int_equal(x, ROOM + 1);
	close_pair();
}

/* A limit of 0 is none. */
static void test_no_limit(void **state)
{
	int32_t x = 1;

	(void)state;
	open_pair(true);
	pair.a.worker->config.demote_ns = 0;
	write_on(&x, 3 * APUS_NS_PER_SEC);
	assert_int_equal(counted(&ends.writer->counters.demotions), 0);
	assert_int_equal(x, ROOM + 1);
	close_pair();
}

/* Nothing to acknowledge: silence means nothing. */
static void test_idle_reader_is_not_demoted(void **state)
{
	int32_t x = 1;

	(void)state;
	open_pair(true);
	write_on(&x, 10 * APUS_NS_PER_MS);
	silent_says(x, 0, true);
	wire_run(&pair, 5 * APUS_NS_PER_SEC);
	assert_int_equal(counted(&ends.writer->counters.demotions), 0);
	close_pair();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_silent_reader_is_demoted),
		cmocka_unit_test(test_reader_never_heard_is_demoted),
		cmocka_unit_test(test_demoted_reader_costs_little),
		cmocka_unit_test(test_demoted_reader_returns),
		cmocka_unit_test(test_slow_reader_is_not_demoted),
		cmocka_unit_test(test_no_limit),
		cmocka_unit_test(test_idle_reader_is_not_demoted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
