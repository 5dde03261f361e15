/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: samples larger than a datagram arrive byte for byte, whatever the wire does, and fragments that
 * no honest writer sends change nothing and cost nothing.
 * Method: two workers joined in memory (wire_pair.h) with loss, duplication, reordering and a short
 * receive queue from a seeded generator and injected time; forged fragments are given to the reader
 * directly. Repair traffic (sent / needed) is printed, and bounded.
 */
#include "wire_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define APUS    0x01ee
#define FOREIGN 0x0102
#define CYCLONE 0x0110 /* gets what it asks for twice */
#define MB      (1024u * 1024)

static struct wire_pair p;
static struct wire_endpoints e;
static uint32_t taken[4096]; /* sizes */
static uint32_t taken_count;

static const struct wire_options reliable = {.reliable = true,
					     .keep_all = true,
					     .depth = 1,
					     .max_samples = 16,
					     .blob_bytes = MB,
					     .assembly_max = 4};

static void take_all(void)
{
	struct apus_sample s;
	int n;

	apus_dp_worker_take_turn(p.b.worker);
	while ((n = apus_dp_reader_access(e.reader, NULL, true, p.now, &s, 1)) == 1) {
		const uint8_t *bytes = s.payload;
		uint32_t length;

		memcpy(&length, bytes + 8, 4);
		/* A DATA ends with its submessage, which is padded to a multiple of four. */
		assert_in_range(s.payload_bytes, length + 12, length + 15);
		for (uint32_t i = 0; i < length; i++)
			if (bytes[12 + i] != wire_blob_byte(i))
				fail_msg("byte %u of %u differs", i, length);
		taken[taken_count++] = length;
		assert_int_equal(apus_dp_reader_return(e.reader, &s), 0);
	}
	assert_int_equal(n, 0);
	apus_dp_worker_end_turn(p.b.worker);
}

static void begin(uint16_t vendor, uint32_t fragment_bytes, const struct wire_options *o)
{
	taken_count = 0;
	wire_pair_init_as(&p, 17, vendor, fragment_bytes);
	wire_endpoints_init(&p, &e, o);
	wire_match(&p, &e, true, o);
	wire_run(&p, 10 * APUS_NS_PER_MS);
}

static void finish(void)
{
	wire_endpoints_fini(&p, &e);
	wire_pair_fini(&p);
}

/* Writes all sizes and waits until everything is acknowledged and taken; then compares. */
static void transfer(const uint32_t *sizes, uint32_t count)
{
	uint32_t written = 0, rounds = 0;

	while (written < count || !apus_dp_writer_acked(e.writer, count)) {
		while (written < count && wire_write_blob(&p, &e, sizes[written]) == 0)
			written++;
		wire_run(&p, 200 * APUS_NS_PER_US);
		take_all();
		assert_true(++rounds < 100000);
	}
	take_all();
	assert_int_equal(taken_count, count);
	assert_memory_equal(taken, sizes, count * sizeof(*sizes));
}

/* Sizes within 9 of every boundary up to 64 KiB would be 900 samples: every boundary of the first four, then
 * ever fewer, and the ends. */
static uint32_t edge_sizes(uint32_t fragment_bytes, uint32_t *sizes)
{
	uint32_t n = 0;

	for (uint32_t k = 1; k * fragment_bytes < 65536; k += k < 4 ? 1 : k / 2)
		for (int d = -9; d <= 9; d++)
			sizes[n++] = (uint32_t)((int)(k * fragment_bytes) - 12 + d);
	sizes[n++] = 0;
	sizes[n++] = 65536;
	return n;
}

static void edges(uint16_t vendor, uint32_t fragment_bytes, uint32_t loss, uint32_t duplicate,
		  uint32_t reorder)
{
	static uint32_t sizes[2048];
	uint32_t count = edge_sizes(fragment_bytes, sizes);

	begin(vendor, fragment_bytes, &reliable);
	wire_set(&p, loss, duplicate, reorder);
	transfer(sizes, count);
	assert_int_equal(apus_counter_get(&e.reader->counters.bad_fragment), 0);
	finish();
}

/* 1,344 bytes are copied into the datagram, 3,072 are sent from where they lie. */
static void test_edges(void **state)
{
	(void)state;
	edges(APUS, 1344, 0, 0, 0);
	edges(APUS, 3072, 0, 0, 0);
	edges(FOREIGN, 1344, 0, 0, 0);
}

static void test_edges_bad_wire(void **state)
{
	(void)state;
	edges(APUS, 1344, 10, 0, 0);
	edges(APUS, 3072, 30, 5, 10);
	edges(FOREIGN, 1344, 10, 5, 10);
	edges(FOREIGN, 3072, 30, 0, 0);
}

/* What was expected is received where it belongs, and whatever comes instead on a bad wire is none the worse for it,
 * which the other tests show, too. The wire gives bursts, of which only the first can be expected. */
static void test_placed(void **state)
{
	static const uint32_t sizes[] = {MB, 300000, 3000, MB};
	const struct apus_dp_queue *q = &p.b.queue.base;

	(void)state;
	begin(APUS, 1344, &reliable);
	transfer(sizes, 4);
	assert_in_range(apus_counter_get(&e.reader->counters.fragments), 1780, 1800);
	assert_in_range(apus_counter_get(&q->counters.rx_placed), 5, 1800);
	assert_int_equal(p.b.worker->expected.wrong, 0);
	finish();
	begin(APUS, 1344, &reliable);
	wire_set(&p, 10, 5, 10);
	transfer(sizes, 4);
	assert_in_range(apus_counter_get(&q->counters.rx_placed), 5, 1800);
	finish();
}

/* What one megabyte costs. capacity: datagrams the receiver's socket holds. Returns percent. */
static uint32_t cost(uint16_t vendor, uint32_t loss, uint32_t capacity)
{
	static const uint32_t sizes[] = {MB, MB, 300000, MB, MB, 1, MB, MB, MB, MB};
	uint64_t needed = 0, percent;

	begin(vendor, 1344, &reliable);
	wire_set(&p, loss, 0, 0);
	p.a_to_b.capacity = capacity;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		needed += sizes[i];
	transfer(sizes, sizeof(sizes) / sizeof(*sizes));
	percent = p.a_to_b.sent_bytes * 100 / needed;
	print_message("vendor %04x, loss %2u %%, queue of %3u: sent / needed %u.%02u, "
		      "NACK_FRAG %u, ACKNACK %u\n",
		      vendor, loss, capacity, (unsigned)(percent / 100), (unsigned)(percent % 100),
		      (unsigned)apus_counter_get(&e.reader->counters.nack_frags_sent),
		      (unsigned)apus_counter_get(&e.reader->counters.acknacks_sent));
	assert_in_range(apus_counter_get(&e.reader->counters.acknacks_sent), 1, 3000);
	assert_in_range(apus_counter_get(&e.reader->counters.nack_frags_sent), 0, 3000);
	finish();
	return (uint32_t)percent;
}

/* Without loss nothing is sent twice (headers are 6 %); with it, not much more than 1 / (1 - loss) says. A
 * queue of 92 is a socket buffer of 212,992 bytes full of small datagrams. */
static void test_repair_cost(void **state)
{
	static const uint16_t vendors[] = {APUS, FOREIGN};

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_in_range(cost(vendors[i], 0, 512), 100, 108);
		assert_in_range(cost(vendors[i], 1, 512), 100, 110);
		assert_in_range(cost(vendors[i], 10, 512), 110, 123);
		assert_in_range(cost(vendors[i], 30, 512), 140, 180);
		assert_in_range(cost(vendors[i], 0, 92), 100, 110);
		assert_in_range(cost(vendors[i], 10, 92), 110, 123);
	}
	assert_in_range(cost(CYCLONE, 0, 512), 100, 108);
	assert_in_range(cost(CYCLONE, 10, 512), 120, 135);
	assert_in_range(cost(CYCLONE, 30, 512), 150, 220);
}

/* A best-effort reader gets large samples whole or not at all; what is incomplete is counted. */
static void test_best_effort(void **state)
{
	struct wire_options o = {
		.depth = 16, .max_samples = 16, .blob_bytes = 65536, .assembly_max = 4};
	uint32_t incomplete;

	(void)state;
	begin(APUS, 1344, &o);
	for (int i = 0; i < 100; i++) {
		wire_set(&p, i < 50 ? 0 : 2, 0, 0);
		assert_int_equal(wire_write_blob(&p, &e, 40000 + (uint32_t)i), 0);
		wire_run(&p, APUS_NS_PER_MS);
		take_all();
	}
	assert_in_range(taken_count, 51, 99); /* each of 30 fragments must pass: about half of 50 */
	for (uint32_t i = 0; i < 50; i++)
		assert_int_equal(taken[i], 40000 + i);
	for (uint32_t i = 1; i < taken_count; i++)
		assert_true(taken[i] > taken[i - 1]);
	incomplete = (uint32_t)apus_counter_get(&e.reader->counters.incomplete);
	assert_in_range(incomplete, 100 - taken_count - 4, 100 - taken_count);
	assert_int_equal(p.b_to_a.sent, 0);
	finish();
}

/* A megabyte passes through a buffer of 92 datagrams although nobody can ask for what that drops; what is left of it
 * leaves with the next write. */
static void test_best_effort_is_paced(void **state)
{
	struct wire_options o = {.depth = 1, .max_samples = 1, .blob_bytes = MB, .assembly_max = 2};
	const uint32_t fragments = (MB + 12 + 1343) / 1344;

	(void)state;
	begin(APUS, 1344, &o);
	p.a_to_b.capacity = 92;
	for (uint32_t i = 1; i <= 3; i++) {
		assert_int_equal(wire_write_blob(&p, &e, MB), 0);
		assert_in_range(apus_counter_get(&e.writer->counters.fragments),
				(i - 1) * fragments + 1, (i - 1) * fragments + 92);
		assert_false(apus_dp_writer_acked(e.writer, (apus_seq)i));
		wire_run(&p, 40 * APUS_NS_PER_MS);
		take_all();
		assert_int_equal(taken_count, i);
		assert_true(apus_dp_writer_acked(e.writer, (apus_seq)i));
		assert_int_equal(apus_counter_get(&e.writer->counters.fragments), i * fragments);
	}
	assert_int_equal(wire_write_blob(&p, &e, MB), 0);
	assert_int_equal(wire_write_blob(&p, &e, 1000), 0);
	assert_int_equal(apus_counter_get(&e.writer->counters.fragments), 4 * fragments);
	assert_true(apus_dp_writer_acked(e.writer, 5));
	finish();
}

/* A slower pace for a smaller buffer. */
static void test_pace_is_a_setting(void **state)
{
	struct wire_options o = {.depth = 1, .max_samples = 1, .blob_bytes = MB, .assembly_max = 2};

	(void)state;
	begin(APUS, 1344, &o);
	p.a.worker->config.pace_bytes = 8 * 1344;
	p.a_to_b.capacity = 16;
	assert_int_equal(wire_write_blob(&p, &e, MB), 0);
	assert_int_equal(apus_counter_get(&e.writer->counters.fragments), 12);
	wire_run(&p, 50 * APUS_NS_PER_MS);
	/* A portion each second tick of the wheel. */
	assert_in_range(apus_counter_get(&e.writer->counters.fragments), 12 + 8 * 23, 12 + 8 * 25);
	wire_run(&p, 200 * APUS_NS_PER_MS);
	take_all();
	assert_int_equal(taken_count, 1);
	assert_int_equal(p.a_to_b.overflow, 0);
	finish();
}

/* KEEP_LAST(1): what is displaced while it is on its way is given up, and the newest arrives. */
static void test_displaced_on_the_way(void **state)
{
	struct wire_options o = reliable;

	(void)state;
	o.keep_all = false;
	begin(APUS, 1344, &o);
	wire_set(&p, 10, 0, 0);
	for (uint32_t i = 1; i <= 40; i++) {
		assert_int_equal(wire_write_blob(&p, &e, MB - 40 + i), 0);
		wire_run(&p, 300 * APUS_NS_PER_US);
		take_all();
	}
	for (int i = 0; i < 500 && !apus_dp_writer_acked(e.writer, 40); i++)
		wire_run(&p, APUS_NS_PER_MS);
	take_all();
	assert_true(apus_dp_writer_acked(e.writer, 40));
	assert_in_range(taken_count, 1, 40);
	assert_int_equal(taken[taken_count - 1], MB);
	for (uint32_t i = 1; i < taken_count; i++)
		assert_true(taken[i] > taken[i - 1]);
	assert_int_equal(e.reader->states[0].assembly_count, 0);
	finish();
}

/* --- forged fragments ----------------------------------------------------------------------------- */

static uint8_t forged_bytes[8 * 1344];

static void forge(apus_seq seq, uint32_t first, uint16_t fragment_bytes, uint32_t sample_bytes)
{
	struct apus_dp_origin origin = {.timestamp = {5}};
	struct apus_wire_data_frag f = {.seq = seq,
					.first = first,
					.count = 1,
					.fragment_bytes = fragment_bytes,
					.sample_bytes = sample_bytes,
					.payload = forged_bytes};
	uint64_t from = (uint64_t)(first - 1) * fragment_bytes;

	f.payload_bytes = sample_bytes - from < fragment_bytes ? (uint32_t)(sample_bytes - from)
							       : fragment_bytes;
	apus_dp_worker_take_turn(p.b.worker);
	apus_dp_reader_frag(&e.reader->states[e.reader->order[0]], &f, &origin, p.now);
	apus_dp_worker_end_turn(p.b.worker);
}

/* Claims of 4 GB, fragments of 4 bytes, of other sizes than the first, late and repeated ones: each is counted
 * under its name, holds no memory beyond the places there are, and the stream goes on. */
static void test_forged(void **state)
{
	static const uint32_t sizes[] = {5000, 200000};
	struct apus_dp_reader_counters *c;

	(void)state;
	begin(APUS, 1344, &reliable);
	transfer(sizes, 1);
	c = &e.reader->counters;
	forge(1, 1, 1344, 5012);
	assert_int_equal(apus_counter_get(&c->late_fragments), 1);
	/* What can never be stored is settled and done with, once it is next and has been said twice. */
	forge(900, 1, 1344, UINT32_MAX);
	forge(900, 2, 1344, UINT32_MAX);
	forge(2, 1, 1344, UINT32_MAX);
	assert_int_equal(apus_counter_get(&c->too_large), 0);
	assert_int_equal(e.reader->states[0].window.next, 2);
	forge(2, 1, 4, MB); /* more fragments than anybody sends */
	assert_int_equal(apus_counter_get(&c->bad_fragment), 1);
	assert_int_equal(e.reader->states[0].assembly_count, 0);
	forge(INT64_MAX - 5, 1, 1344, 5012);
	assert_int_equal(e.reader->states[0].assembly_count, 0);

	/* Six begun samples in four places: the last two have to wait, and drop nothing. */
	for (apus_seq seq = 3; seq < 9; seq++)
		forge(seq, 1, 1344, 5012);
	assert_int_equal(e.reader->states[0].assembly_count, 4);
	assert_int_equal(apus_counter_get(&c->assembly_full), 2);
	assert_int_equal(apus_counter_get(&c->incomplete), 0);
	forge(3, 2, 1340, 5012);
	forge(3, 2, 1344, 5016);
	assert_int_equal(apus_counter_get(&c->bad_fragment), 3);
	forge(3, 1, 1344, 5012);
	assert_int_equal(e.reader->assemblies[0].have, 1);

	/* A lower number takes the place of the highest. */
	forge(2, 1, 1344, 5012);
	assert_int_equal(e.reader->states[0].assembly_count, 4);
	assert_int_equal(apus_counter_get(&c->incomplete), 1);
	forge(2, 3, 1344, UINT32_MAX);
	assert_int_equal(apus_counter_get(&c->too_large), 1);
	assert_int_equal(e.reader->window_lost, 1);
	assert_int_equal(e.reader->states[0].window.next, 3);
	finish();
}

/* The same request again within the suppression time, or for fragments that do not exist, sends nothing. */
static void test_requests_are_not_amplified(void **state)
{
	struct apus_wire_nack_frag n = {.seq = 1, .set = {.base = 1}, .count = 1000};
	uint64_t before;

	(void)state;
	begin(APUS, 1344, &reliable);
	wire_set(&p, 100, 0, 0);
	assert_int_equal(wire_write_blob(&p, &e, 100000), 0);
	for (uint32_t k = 1; k <= 16; k++)
		assert_true(apus_wire_fragset_add(&n.set, k));
	apus_dp_worker_take_turn(p.a.worker);
	before = apus_counter_get(&e.writer->counters.fragments);
	assert_true(apus_dp_writer_nack_frag(e.writer, &e.reader->config.guid, &n, p.now));
	assert_int_equal(apus_counter_get(&e.writer->counters.fragments), before + 16);
	for (int i = 0; i < 50; i++) {
		n.count++;
		apus_dp_writer_nack_frag(e.writer, &e.reader->config.guid, &n, p.now);
	}
	assert_int_equal(apus_counter_get(&e.writer->counters.fragments), before + 16);
	assert_int_equal(apus_counter_get(&e.writer->counters.suppressed), 50 * 16);
	n.count--;
	apus_dp_writer_nack_frag(e.writer, &e.reader->config.guid, &n, p.now);
	assert_int_equal(apus_counter_get(&e.writer->counters.acknacks_stale), 1);
	n.count += 2;
	n.seq = 77;
	apus_dp_writer_nack_frag(e.writer, &e.reader->config.guid, &n, p.now);
	assert_int_equal(apus_counter_get(&e.writer->counters.acknacks_forged), 1);
	n.seq = 1;
	n.set = (struct apus_wire_fragset){.base = 5000};
	assert_true(apus_wire_fragset_add(&n.set, 5000));
	n.count++;
	apus_dp_writer_nack_frag(e.writer, &e.reader->config.guid, &n, p.now);
	assert_int_equal(apus_counter_get(&e.writer->counters.fragments), before + 16);
	apus_dp_worker_end_turn(p.a.worker);
	finish();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_edges),
		cmocka_unit_test(test_edges_bad_wire),
		cmocka_unit_test(test_placed),
		cmocka_unit_test(test_repair_cost),
		cmocka_unit_test(test_best_effort),
		cmocka_unit_test(test_best_effort_is_paced),
		cmocka_unit_test(test_pace_is_a_setting),
		cmocka_unit_test(test_displaced_on_the_way),
		cmocka_unit_test(test_forged),
		cmocka_unit_test(test_requests_are_not_amplified),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
