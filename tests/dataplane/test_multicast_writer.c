/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: readers at several addresses that share a group get a sample in one datagram to the group, and only
 * then; readers that expect inline QoS get key hashes and the writer's QoS.
 * Method: snapshots built by hand for a writer of wire_pair.h; where its datagrams go and what they say is
 * compared.
 */
#include "wire/record.h"
#include "wire_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct wire_pair pair;
static struct wire_endpoints ends;
static const uint8_t group_ip[4] = {239, 255, 0, 1}, ip[4] = {127, 0, 0, 1};

/* What readers that expect inline QoS are told besides: PID_TOPIC_NAME "Circle". */
static const uint8_t list[16] = {0x05, 0, 12, 0, 7, 0, 0, 0, 'C', 'i', 'r', 'c', 'l', 'e'};

/* One reader to match: its port, whether it announces the group, and what it wants. */
struct wanted {
	uint16_t port;
	bool grouped, reliable, inline_qos;
};

static void match(const struct wanted *wanted, uint32_t count)
{
	struct apus_dp_writer_snapshot *s = calloc(1, sizeof(*s) + count * sizeof(s->match[0]));
	uint64_t retired;

	assert_non_null(s);
	s->generation = ++ends.generation;
	s->inline_list = list;
	s->inline_bytes = sizeof(list);
	s->match_count = count;
	for (uint32_t i = 0; i < count; i++) {
		struct apus_dp_reader_match *m = &s->match[i];

		memset(m->guid.bytes, (int)(0xc0 + i), sizeof(m->guid.bytes));
		m->match_id = 100 * ends.generation + i;
		m->reliable = wanted[i].reliable;
		m->inline_qos = wanted[i].inline_qos;
		m->unicast = apus_dp_addr_v4(ip, wanted[i].port);
		if (wanted[i].grouped)
			m->multicast = apus_dp_addr_v4(group_ip, 7401);
	}
	apus_dp_writer_publish(&pair.epoch, &ends.writer->port, s, &retired);
	wire_run(&pair, 20 * APUS_NS_PER_MS);
	free(ends.writer_snapshot);
	ends.writer_snapshot = s;
}

static void open_writer(void)
{
	struct wire_options o = {.reliable = true, .keep_all = true, .depth = 1, .max_samples = 64};

	wire_pair_init(&pair, 3);
	wire_endpoints_init(&pair, &ends, &o);
}

static void close_writer(void)
{
	wire_endpoints_fini(&pair, &ends);
	wire_pair_fini(&pair);
}

/* Writes one sample; returns in how many datagrams it went, and where the last. */
static uint64_t written(uint16_t *port_out)
{
	uint64_t before = pair.a_to_b.sent;

	assert_int_equal(wire_write(&pair, &ends, "RED", 1, APUS_ALIVE), 0);
	*port_out = pair.a_to_b.last_to.port;
	return pair.a_to_b.sent - before;
}

static void test_shared_group(void **state)
{
	static const struct wanted wanted[] = {{2, true, false, false},
					       {3, true, false, false},
					       {4, true, false, false},
					       {5, false, false, false}};
	uint16_t port;

	(void)state;
	open_writer();
	match(wanted, 3);
	assert_int_equal(written(&port), 1);
	assert_int_equal(port, 7401);
	/* One more without a group: a datagram of its own. */
	match(wanted, 4);
	assert_int_equal(written(&port), 2);
	assert_int_equal(port, 5);
	/* Alone in the group: no use. */
	match(wanted, 1);
	assert_int_equal(written(&port), 1);
	assert_int_equal(port, 2);
	close_writer();
}

/* Two readers at one address need one datagram anyway. */
static void test_one_address(void **state)
{
	static const struct wanted wanted[] = {{2, true, false, false}, {2, true, false, false}};
	uint16_t port;

	(void)state;
	open_writer();
	match(wanted, 2);
	assert_int_equal(written(&port), 1);
	assert_int_equal(port, 2);
	close_writer();
}

/* While a reliable reader has not answered, nothing goes to the group: it would hear samples too early. */
static void test_awaited_reader(void **state)
{
	static const struct wanted wanted[] = {
		{2, true, false, false}, {3, true, false, false}, {4, true, true, false}};
	struct apus_wire_acknack a = {.set = {.base = 1}, .count = 1, .final = true};
	uint16_t port;

	(void)state;
	open_writer();
	match(wanted, 3);
	assert_int_equal(written(&port), 2);
	assert_int_not_equal(port, 7401);
	apus_dp_worker_take_turn(pair.a.worker);
	assert_true(apus_dp_writer_acknack(ends.writer, &ends.writer_snapshot->match[2].guid, &a,
					   NULL, pair.now));
	apus_dp_worker_end_turn(pair.a.worker);
	assert_int_equal(written(&port), 1);
	assert_int_equal(port, 7401);
	close_writer();
}

/* How many DATA and DATA_FRAG of what was sent since have key hash and list, and how many are without. */
static void count_inline(int *with_out, int *without_out)
{
	struct apus_wire_message m;
	struct apus_wire_submessage sub;

	*with_out = *without_out = 0;
	for (; pair.a_to_b.head != pair.a_to_b.tail; pair.a_to_b.head++) {
		const struct wire_datagram *d =
			&pair.a_to_b.ring[pair.a_to_b.head % WIRE_DATAGRAMS];
		bool has_list = memmem(d->bytes, d->length, list, sizeof(list)) != NULL;

		assert_int_equal(apus_wire_open(&m, d->bytes, d->length), APUS_WIRE_ACCEPT);
		while (apus_wire_next(&m, &sub) == APUS_WIRE_ACCEPT) {
			bool has_hash;

			if (sub.id == APUS_WIRE_DATA)
				has_hash = sub.data.qos.has_key_hash;
			else if (sub.id == APUS_WIRE_DATA_FRAG)
				has_hash = sub.data_frag.qos.has_key_hash;
			else
				continue;
			assert_int_equal(has_list, has_hash);
			*with_out += has_list;
			*without_out += !has_list;
		}
	}
}

static void test_inline_qos(void **state)
{
	static const struct wanted wanted[] = {{2, false, true, true}, {3, false, true, false}};
	struct apus_wire_acknack a = {.set = {.base = 1}, .count = 9, .final = true};
	uint16_t port;
	int with, without;

	(void)state;
	open_writer();
	match(wanted, 2);
	for (int i = 0; i < 2; i++) {
		apus_dp_worker_take_turn(pair.a.worker);
		apus_dp_writer_acknack(ends.writer, &ends.writer_snapshot->match[i].guid, &a, NULL,
				       pair.now);
		apus_dp_worker_end_turn(pair.a.worker);
	}
	pair.a_to_b.head = pair.a_to_b.tail;
	assert_int_equal(written(&port), 2);
	count_inline(&with, &without);
	assert_int_equal(with, 1);
	assert_int_equal(without, 1);
	/* A repair, likewise. */
	apus_wire_seqset_add(&a.set, 1);
	for (int i = 0; i < 2; i++) {
		a.count++;
		apus_dp_worker_take_turn(pair.a.worker);
		apus_dp_writer_acknack(ends.writer, &ends.writer_snapshot->match[i].guid, &a, NULL,
				       pair.now);
		apus_dp_worker_end_turn(pair.a.worker);
	}
	count_inline(&with, &without);
	assert_int_equal(with, 1);
	assert_int_equal(without, 1);
	close_writer();
}

/* Each fragment of a large sample, too. */
static void test_inline_qos_of_fragments(void **state)
{
	static const struct wanted wanted[] = {{2, false, false, true}};
	struct wire_options o = {.depth = 1, .max_samples = 2, .blob_bytes = 10000};
	int with, without;

	(void)state;
	wire_pair_init(&pair, 3);
	wire_endpoints_init(&pair, &ends, &o);
	match(wanted, 1);
	pair.a_to_b.head = pair.a_to_b.tail;
	assert_int_equal(wire_write_blob(&pair, &ends, 10000), 0);
	count_inline(&with, &without);
	assert_int_equal(with, 8);
	assert_int_equal(without, 0);
	close_writer();
}

/* Payloads that would be copied are not where the inline QoS takes the room: all sizes go through. */
static void test_inline_qos_with_any_payload(void **state)
{
	static const struct wanted wanted[] = {{2, false, false, true}};
	static uint8_t long_list[APUS_WIRE_INLINE_QOS_BYTES];
	struct wire_options o = {.depth = 1, .max_samples = 2, .blob_bytes = 2400};
	struct apus_wire_message m;
	struct apus_wire_submessage sub;

	(void)state;
	/* One parameter that nobody understands. */
	long_list[0] = 0x11;
	long_list[1] = 0x80;
	long_list[2] = (sizeof(long_list) - 4) & 0xff;
	long_list[3] = (sizeof(long_list) - 4) >> 8;
	wire_pair_init_as(&pair, 3, 0x01ee, 3000);
	wire_endpoints_init(&pair, &ends, &o);
	match(wanted, 1);
	ends.writer->inline_list = long_list;
	ends.writer->inline_bytes = sizeof(long_list);
	for (uint32_t bytes = 1000; bytes <= 2400; bytes += 7) {
		uint32_t payload = 0;

		pair.a_to_b.head = pair.a_to_b.tail;
		assert_int_equal(wire_write_blob(&pair, &ends, bytes), 0);
		assert_int_equal(pair.a_to_b.tail - pair.a_to_b.head, 1);
		assert_int_equal(
			apus_wire_open(&m,
				       pair.a_to_b.ring[pair.a_to_b.head % WIRE_DATAGRAMS].bytes,
				       pair.a_to_b.ring[pair.a_to_b.head % WIRE_DATAGRAMS].length),
			APUS_WIRE_ACCEPT);
		while (apus_wire_next(&m, &sub) == APUS_WIRE_ACCEPT)
			if (sub.id == APUS_WIRE_DATA)
				payload = (uint32_t)sub.data.payload_bytes;
		assert_int_equal(payload, (bytes + 12 + 3) & ~3u);
	}
	close_writer();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shared_group),
		cmocka_unit_test(test_one_address),
		cmocka_unit_test(test_awaited_reader),
		cmocka_unit_test(test_inline_qos),
		cmocka_unit_test(test_inline_qos_of_fragments),
		cmocka_unit_test(test_inline_qos_with_any_payload),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
