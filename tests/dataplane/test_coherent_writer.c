/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a publisher's writers mark coherent sets and count their changes as dataplane/group.h says, keep the
 * ends of sets for repair, and hold everything while suspended.
 * Method: what the writers put on the wire in memory (wire_pair.h) is parsed and compared number by number; no
 * reader takes part but for its matches.
 */
#include "wire_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define UNKNOWN APUS_WIRE_SEQ_UNKNOWN

static struct wire_pair pair;
static struct wire_endpoints ends[2];
static struct apus_dp_publisher publisher;

/* One DATA seen on the wire. */
struct seen {
	uint32_t writer; /* 0, 1 */
	apus_seq seq, set, group_set, group;
	bool payload;
};

static struct seen seen[256];
static int seen_count;
static apus_seq heartbeat_first; /* of the last HEARTBEAT seen */

/* Reads what side a has sent since the last look; nothing is delivered. */
static void look(void)
{
	struct wire *w = &pair.a_to_b;

	for (; w->head != w->tail; w->head++) {
		struct wire_datagram *d = &w->ring[w->head % WIRE_DATAGRAMS];
		struct apus_wire_message m;
		struct apus_wire_submessage sub;

		assert_int_equal(apus_wire_open(&m, d->bytes, d->length), APUS_WIRE_ACCEPT);
		while (apus_wire_next(&m, &sub) == APUS_WIRE_ACCEPT)
			if (sub.id == APUS_WIRE_HEARTBEAT)
				heartbeat_first = sub.heartbeat.first;
			else if (sub.id == APUS_WIRE_DATA)
				seen[seen_count++] = (struct seen){
					.writer = (sub.data.writer.value >> 8) - 1,
					.seq = sub.data.seq,
					.set = sub.data.qos.coherent_seq,
					.group_set = sub.data.qos.group_coherent_seq,
					.group = sub.data.qos.group_seq,
					.payload = sub.data.payload != NULL,
				};
	}
}

static void open_writers(uint8_t scope)
{
	struct wire_options o = {.reliable = true,
				 .keep_all = true,
				 .depth = 1,
				 .max_samples = 64,
				 .publisher = &publisher};

	publisher = (struct apus_dp_publisher){
		.access_scope = scope, .coherent_access = true, .ordered_access = true};
	seen_count = 0;
	wire_pair_init(&pair, 3);
	for (o.number = 0; o.number < 2; o.number++) {
		wire_endpoints_init(&pair, &ends[o.number], &o);
		wire_match(&pair, &ends[o.number], true, &o);
	}
	wire_run(&pair, 10 * APUS_NS_PER_MS);
	look();
	seen_count = 0;
}

static void close_writers(void)
{
	for (int i = 0; i < 2; i++)
		wire_endpoints_fini(&pair, &ends[i]);
	wire_pair_fini(&pair);
}

static void write_one(int i)
{
	assert_int_equal(wire_write(&pair, &ends[i], "RED", 1, APUS_ALIVE), 0);
}

static int begin(void)
{
	int rc;

	apus_dp_worker_take_turn(pair.a.worker);
	rc = apus_dp_publisher_begin(&publisher);
	apus_dp_worker_end_turn(pair.a.worker);
	return rc;
}

static int end(void)
{
	struct apus_wall t = {5};
	int rc;

	apus_dp_worker_take_turn(pair.a.worker);
	rc = apus_dp_publisher_end(&publisher, pair.a.worker, t, pair.now);
	apus_dp_worker_end_turn(pair.a.worker);
	return rc;
}

static void compare(const struct seen *expected, int count)
{
	look();
	assert_int_equal(seen_count, count);
	for (int i = 0; i < count; i++) {
		assert_int_equal(seen[i].writer, expected[i].writer);
		assert_int_equal(seen[i].seq, expected[i].seq);
		assert_int_equal(seen[i].set, expected[i].set);
		assert_int_equal(seen[i].group_set, expected[i].group_set);
		assert_int_equal(seen[i].group, expected[i].group);
		assert_int_equal(seen[i].payload, expected[i].payload);
	}
	seen_count = 0;
}

/* Only writers that wrote in the set end it; outside sets nothing is marked; sets nest. */
static void test_topic_scope(void **state)
{
	static const struct seen expected[] = {
		{0, 1, 0, 0, 0, true}, {0, 2, 2, 0, 0, true},        {0, 3, 2, 0, 0, true},
		{0, 4, 2, 0, 0, true}, {0, 5, UNKNOWN, 0, 0, false}, {0, 6, 0, 0, 0, true},
	};

	(void)state;
	open_writers(APUS_SCOPE_TOPIC);
	write_one(0);
	assert_int_equal(begin(), 0);
	write_one(0);
	assert_int_equal(begin(), 0);
	write_one(0);
	assert_int_equal(end(), 0);
	write_one(0);
	assert_int_equal(end(), 0);
	write_one(0);
	compare(expected, 6);
	assert_int_equal(end(), APUS_EINVAL);
	/* An empty set is none. */
	assert_int_equal(begin(), 0);
	assert_int_equal(end(), 0);
	compare(NULL, 0);
	close_writers();
}

/* One count for all writers, and every writer ends the set, also one that wrote nothing in it. */
static void test_group_scope(void **state)
{
	static const struct seen expected[] = {
		{0, 1, 0, 0, 1, true},        {1, 1, 1, 2, 2, true},        {1, 2, 1, 2, 3, true},
		{0, 2, UNKNOWN, 2, 4, false}, {1, 3, UNKNOWN, 2, 5, false}, {0, 3, 0, 0, 6, true},
	};

	(void)state;
	open_writers(APUS_SCOPE_GROUP);
	write_one(0);
	assert_int_equal(begin(), 0);
	write_one(1);
	write_one(1);
	assert_int_equal(end(), 0);
	write_one(0);
	compare(expected, 6);
	close_writers();
}

static void test_refusals(void **state)
{
	(void)state;
	open_writers(APUS_SCOPE_INSTANCE);
	assert_int_equal(begin(), APUS_EQOS);
	close_writers();
	open_writers(APUS_SCOPE_TOPIC);
	publisher.coherent_access = false;
	assert_int_equal(begin(), APUS_EQOS);
	assert_int_equal(end(), APUS_EINVAL);
	assert_int_equal(apus_dp_publisher_resume(&publisher, pair.a.worker, pair.now),
			 APUS_EINVAL);
	close_writers();
}

/* The end of a set is repaired as what it is, marks of samples too; an end that is too old becomes a GAP. */
static void test_repair(void **state)
{
	static const struct seen expected[] = {{0, 1, 1, 0, 0, true}, {0, 2, UNKNOWN, 0, 0, false}};
	struct apus_wire_acknack a = {
		.set = {.base = 1, .num_bits = 2, .bitmap = {UINT32_C(0xc0000000)}},
		.count = 1000,
		.final = true};
	uint64_t gaps;

	(void)state;
	open_writers(APUS_SCOPE_TOPIC);
	begin();
	write_one(0);
	end();
	compare(expected, 2);
	apus_dp_worker_take_turn(pair.a.worker);
	apus_dp_writer_acknack(ends[0].writer, &ends[0].reader->config.guid, &a, NULL, pair.now);
	apus_dp_worker_end_turn(pair.a.worker);
	compare(expected, 2);
	for (int i = 0; i < APUS_DP_MARKER_MAX; i++) {
		begin();
		write_one(0);
		end();
	}
	look();
	seen_count = 0;
	gaps = apus_counter_get(&ends[0].writer->counters.gaps);
	a.count++;
	pair.now.ns += APUS_NS_PER_SEC;
	apus_dp_worker_take_turn(pair.a.worker);
	apus_dp_writer_acknack(ends[0].writer, &ends[0].reader->config.guid, &a, NULL, pair.now);
	apus_dp_worker_end_turn(pair.a.worker);
	compare(expected, 1);
	assert_int_equal(apus_counter_get(&ends[0].writer->counters.gaps), gaps + 1);
	close_writers();
}

/* All samples of a set are acknowledged and gone, its end is not: it is still announced, until it is. */
static void test_end_outlives_its_samples(void **state)
{
	struct apus_wire_acknack a = {.set = {.base = 2}, .count = 1000, .final = true};

	(void)state;
	open_writers(APUS_SCOPE_TOPIC);
	begin();
	write_one(0);
	end();
	for (apus_seq first = 2; first <= 3; first++, a.set.base++, a.count++) {
		apus_dp_worker_take_turn(pair.a.worker);
		apus_dp_writer_acknack(ends[0].writer, &ends[0].reader->config.guid, &a, NULL,
				       pair.now);
		apus_dp_worker_end_turn(pair.a.worker);
		write_one(0);
		look();
		assert_int_equal(heartbeat_first, first);
	}
	close_writers();
}

/* Suspended: nothing leaves, then everything in the order of its numbers, ends of sets in their places. */
static void test_suspension(void **state)
{
	static const struct seen expected[] = {
		{0, 1, 1, 0, 0, true}, {0, 2, UNKNOWN, 0, 0, false}, {0, 3, 0, 0, 0, true},
		{0, 4, 4, 0, 0, true}, {0, 5, UNKNOWN, 0, 0, false},
	};

	(void)state;
	open_writers(APUS_SCOPE_TOPIC);
	apus_dp_worker_take_turn(pair.a.worker);
	assert_int_equal(apus_dp_publisher_suspend(&publisher, pair.a.worker), 0);
	apus_dp_worker_end_turn(pair.a.worker);
	begin();
	write_one(0);
	end();
	write_one(0);
	begin();
	write_one(0);
	end();
	compare(NULL, 0);
	apus_dp_worker_take_turn(pair.a.worker);
	assert_int_equal(apus_dp_publisher_resume(&publisher, pair.a.worker, pair.now), 0);
	apus_dp_worker_end_turn(pair.a.worker);
	compare(expected, 5);
	close_writers();
}

/* More ends of sets than are kept, while suspended: none is given up before it was sent. */
static void test_many_sets_while_suspended(void **state)
{
	(void)state;
	open_writers(APUS_SCOPE_TOPIC);
	apus_dp_worker_take_turn(pair.a.worker);
	apus_dp_publisher_suspend(&publisher, pair.a.worker);
	apus_dp_worker_end_turn(pair.a.worker);
	for (int i = 0; i < APUS_DP_MARKER_MAX + 4; i++) {
		begin();
		write_one(0);
		end();
	}
	apus_dp_worker_take_turn(pair.a.worker);
	apus_dp_publisher_resume(&publisher, pair.a.worker, pair.now);
	apus_dp_worker_end_turn(pair.a.worker);
	look();
	assert_int_equal(seen_count, 2 * (APUS_DP_MARKER_MAX + 4));
	for (int i = 0; i < seen_count; i++)
		assert_int_equal(seen[i].seq, i + 1);
	close_writers();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_topic_scope),
		cmocka_unit_test(test_group_scope),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_repair),
		cmocka_unit_test(test_end_outlives_its_samples),
		cmocka_unit_test(test_suspension),
		cmocka_unit_test(test_many_sets_while_suspended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
