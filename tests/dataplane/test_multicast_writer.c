/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: readers at several addresses that share a group get a sample in one datagram to the group, and only
 * then; readers that expect inline QoS get key hashes.
 * Method: snapshots built by hand for a writer of wire_pair.h; where its datagrams go and what they say is
 * compared.
 */
#include "wire_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct wire_pair pair;
static struct wire_endpoints ends;
static const uint8_t group_ip[4] = {239, 255, 0, 1}, ip[4] = {127, 0, 0, 1};

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

static void test_inline_qos(void **state)
{
	static const struct wanted wanted[] = {{2, false, false, true}, {3, false, false, false}};
	struct apus_wire_message m;
	struct apus_wire_submessage sub;
	uint16_t port;
	int hashes = 0, data = 0;

	(void)state;
	open_writer();
	match(wanted, 2);
	pair.a_to_b.head = pair.a_to_b.tail;
	assert_int_equal(written(&port), 2);
	for (uint32_t at = pair.a_to_b.head; at != pair.a_to_b.tail; at++) {
		const struct wire_datagram *d = &pair.a_to_b.ring[at % WIRE_DATAGRAMS];

		assert_int_equal(apus_wire_open(&m, d->bytes, d->length), APUS_WIRE_ACCEPT);
		while (apus_wire_next(&m, &sub) == APUS_WIRE_ACCEPT)
			if (sub.id == APUS_WIRE_DATA) {
				data++;
				hashes += sub.data.qos.has_key_hash;
			}
	}
	assert_int_equal(data, 2);
	assert_int_equal(hashes, 1);
	close_writer();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shared_group),
		cmocka_unit_test(test_one_address),
		cmocka_unit_test(test_awaited_reader),
		cmocka_unit_test(test_inline_qos),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
