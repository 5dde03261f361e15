/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: discovery keeps its bounds when a domain is large: memory as declared, what goes beyond refused and
 * counted, a mass departure in one pass, replies to a crowd of newcomers bounded and all of them served, and
 * announcement cycles without an allocation.
 * Method: the state machine on invented time; every record goes through the encoder and the decoder, as if a
 * forwarder had sent it. Allocations are counted at link time.
 */
#include "control/discovery.h"
#include "tests/api/allocations.h"
#include "tests/control/graph_fixture.h"

#include <malloc.h>
#include <stdio.h>

#define MS           APUS_NS_PER_MS
#define SEC          APUS_NS_PER_SEC
#define PARTICIPANTS 2000u
#define EACH         50u

static uint64_t announced, multicasts, announced_bytes;

static void count_announcement(void *user, const struct apus_dp_addr *to,
			       const struct apus_guid *key, const uint8_t *payload, size_t bytes,
			       bool gone)
{
	(void)user, (void)key, (void)payload, (void)gone;
	announced++;
	announced_bytes += bytes;
	multicasts += apus_dp_addr_is_multicast(to);
}

static int count_write(void *user, struct apus_eid writer, const struct apus_guid *key,
		       const uint8_t *payload, size_t bytes, bool gone)
{
	(void)user, (void)writer, (void)key, (void)payload, (void)bytes, (void)gone;
	return 0;
}

static struct apus_mono at(int64_t ns)
{
	return (struct apus_mono){SEC + ns};
}

static struct apus_ctl_discovery *open_discovery(const struct apus_ctl_graph_config *gc,
						 bool multicast, struct apus_ctl_graph **g)
{
	const struct apus_ctl_discovery_ops ops = {count_announcement, count_write, NULL};
	struct apus_wire_participant_record self = fixture_participant(0);
	struct apus_ctl_discovery_config dc = {.announce_period_ns = 3 * SEC,
					       .burst_period_ns = 100 * MS,
					       .burst_count = 1,
					       .seed = 7};
	struct apus_ctl_discovery *d;

	if (multicast)
		dc.multicast = apus_dp_addr_v4((uint8_t[]){239, 255, 0, 1}, 7400);
	announced = multicasts = announced_bytes = 0;
	assert_int_equal(apus_ctl_graph_create(gc, &self, g), 0);
	assert_int_equal(apus_ctl_discovery_create(&dc, &ops, *g, &self, at(0), &d), 0);
	return d;
}

/* Participant n announces itself, through bytes. */
static int hear(struct apus_ctl_discovery *d, uint32_t n, bool multicast, struct apus_mono now)
{
	static uint8_t bytes[APUS_WIRE_RECORD_PAYLOAD_MAX];
	struct apus_wire_participant_record r = fixture_participant(n), decoded;
	struct apus_ctl_heard h = {.source = r.prefix,
				   .from = apus_dp_addr_v4((uint8_t[]){127, 0, 0, 1}, 4000),
				   .seq = 1,
				   .stamp = {SEC}};
	int size;

	r.metatraffic_unicast.at[0].port = r.default_unicast.at[0].port = 1024 + n;
	if (multicast) {
		r.metatraffic_multicast.count = 1;
		r.metatraffic_multicast.at[0] = fixture_locator(239, 255, 0, 1, 7400);
	}
	size = apus_wire_participant_encode(&r, bytes, sizeof(bytes));
	assert_true(size > 0);
	assert_int_equal(apus_wire_participant_decode(bytes, (size_t)size, &decoded),
			 APUS_WIRE_ACCEPT);
	h.bytes = (uint32_t)size + 80;
	return apus_ctl_discovery_on_participant(d, &decoded, &h, now);
}

/* ---- 100,000 endpoints -------------------------------------------------------------------------- */

static void topic_of(uint32_t participant, uint32_t key, char name[32])
{
	snprintf(name, 32, "T%u", (participant * EACH + key) % 20000);
}

/* Endpoint `key` of participant n, through bytes; odd ones are readers. */
static int hear_endpoint(struct apus_ctl_discovery *d, uint32_t n, uint32_t key,
			 struct apus_mono now)
{
	static struct apus_wire_endpoint_record record, decoded;
	static uint8_t bytes[APUS_WIRE_RECORD_PAYLOAD_MAX];
	struct apus_prefix source = fixture_prefix(n);
	char topic[32];
	int size;

	topic_of(n, key, topic);
	fixture_record(&record, n, key, key % 2 == 0, topic, "T", NULL);
	size = apus_wire_endpoint_encode(&record, bytes, sizeof(bytes));
	assert_true(size > 0);
	assert_int_equal(apus_wire_endpoint_decode(bytes, (size_t)size, key % 2 == 0, &decoded),
			 APUS_WIRE_ACCEPT);
	return apus_ctl_discovery_on_endpoint(d, &decoded, &source, (apus_seq)key + 1, now);
}

static struct apus_ctl_graph_config large(uint32_t participants, uint32_t each_kind)
{
	struct apus_ctl_graph_config c = fixture_config();

	c.participants = participants;
	c.remote_writers = c.remote_readers = each_kind;
	c.record_bytes = 96u << 20;
	c.matches = 4096;
	return c;
}

static void announce_everything(struct apus_ctl_discovery *d, uint32_t *held, uint32_t *refused)
{
	*held = *refused = 0;
	for (uint32_t n = 1; n <= PARTICIPANTS; n++) {
		bool known = hear(d, n, true, at(0)) >= 0;

		for (uint32_t key = 1; key <= EACH; key++) {
			int result = hear_endpoint(d, n, key, at(1));

			*held += result == APUS_CTL_ADMITTED;
			*refused += result < 0;
			assert_true(known || result == APUS_ENOENT);
		}
	}
}

/* AddressSanitizer brings its own heap, of which this tells nothing. */
static uint64_t heap_bytes(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

static void a_hundred_thousand_endpoints_come_and_go(void **state)
{
	struct apus_ctl_graph_config c = large(PARTICIPANTS, PARTICIPANTS * EACH / 2);
	const struct apus_ctl_graph_counters *counters;
	uint32_t held, refused;
	struct apus_ctl_discovery *d;
	struct apus_ctl_graph *g;
	uint64_t before;

	(void)state;
	d = open_discovery(&c, true, &g);
	counters = apus_ctl_graph_counters(g);
	for (uint32_t key = 1; key <= 20; key++)
		assert_true(fixture_add(g, 0, key, true, "T77", NULL, 1, NULL) > 0);
	before = heap_bytes();
	announce_everything(d, &held, &refused);
	assert_int_equal(held, 100000);
	assert_int_equal(refused, 0);
	assert_int_equal(apus_ctl_graph_participant_count(g), PARTICIPANTS);
	assert_in_range(apus_ctl_graph_record_bytes(g), 1, c.record_bytes);
	/* Beside the tables, made at creation, only the records grow: their bytes, and the allocator's. */
#ifndef __SANITIZE_ADDRESS__
	assert_in_range(heap_bytes() - before, 1,
			apus_ctl_graph_record_bytes(g) + 100000 * UINT64_C(32));
#endif
	/* Said again it costs nothing. */
	before = heap_bytes();
	assert_int_equal(hear_endpoint(d, 1000, 7, at(2)), APUS_CTL_UNCHANGED);
	assert_int_equal(heap_bytes(), before);
	assert_true(apus_ctl_graph_match_count(g) > 0);

	/* Nobody is heard any more: one turn at the end of the lease takes them all. */
	apus_ctl_discovery_turn(d, at(9 * SEC));
	assert_int_equal(apus_ctl_graph_participant_count(g), PARTICIPANTS);
	apus_ctl_discovery_turn(d, at(11 * SEC));
	assert_int_equal(apus_ctl_graph_participant_count(g), 0);
	assert_int_equal(apus_ctl_graph_match_count(g), 0);
	assert_int_equal(apus_counter_get(&apus_ctl_discovery_counters(d)->lapsed), PARTICIPANTS);
	assert_int_equal(apus_counter_get(&counters->refused_matches), 0);
	/* All room is there again. */
	announce_everything(d, &held, &refused);
	assert_int_equal(held, 100000);
	apus_ctl_discovery_destroy(d);
	apus_ctl_graph_destroy(g);
}

static void what_exceeds_the_tables_is_refused_and_counted(void **state)
{
	struct apus_ctl_graph_config c = large(1900, 40000);
	const struct apus_ctl_graph_counters *counters;
	uint32_t held, refused;
	struct apus_ctl_discovery *d;
	struct apus_ctl_graph *g;

	(void)state;
	d = open_discovery(&c, true, &g);
	counters = apus_ctl_graph_counters(g);
	announce_everything(d, &held, &refused);
	assert_int_equal(held, 80000);
	assert_int_equal(refused, 20000);
	assert_int_equal(apus_counter_get(&counters->refused_participants), 100);
	assert_int_equal(apus_counter_get(&counters->refused_orphans), 100 * EACH);
	assert_int_equal(apus_counter_get(&counters->refused_writers), 1900 * EACH / 2 - 40000);
	assert_int_equal(apus_counter_get(&counters->refused_readers), 1900 * EACH / 2 - 40000);
	/* Whoever is known may still refresh. */
	assert_int_equal(hear(d, 1, true, at(2)), APUS_CTL_UNCHANGED);
	apus_ctl_discovery_destroy(d);
	apus_ctl_graph_destroy(g);
}

static void a_byte_budget_holds_too(void **state)
{
	struct apus_ctl_graph_config c = large(PARTICIPANTS, PARTICIPANTS * EACH / 2);
	uint32_t held, refused;
	struct apus_ctl_discovery *d;
	struct apus_ctl_graph *g;

	(void)state;
	c.record_bytes = 8u << 20;
	d = open_discovery(&c, true, &g);
	announce_everything(d, &held, &refused);
	assert_int_equal(held + refused, 100000);
	assert_in_range(held, 5000, 60000);
	assert_in_range(apus_ctl_graph_record_bytes(g), (8u << 20) - 4096, 8u << 20);
	assert_int_equal(apus_counter_get(&apus_ctl_graph_counters(g)->refused_bytes), refused);
	apus_ctl_discovery_destroy(d);
	apus_ctl_graph_destroy(g);
}

/* ---- newcomers ---------------------------------------------------------------------------------- */

/* So many newcomers within 100 ms; each that has been told of us shows at once that it knows us. Returns the
 * packets sent until all do. most_out: most packets in any window of 10 ms. */
static uint64_t newcomers(uint32_t count, bool multicast, uint64_t *most_out)
{
	struct apus_ctl_graph_config c = large(512, 64);
	struct apus_ctl_discovery *d;
	struct apus_ctl_graph *g;
	uint64_t sent_at[2000] = {0}, last = 0;
	struct apus_mono due;

	d = open_discovery(&c, multicast, &g);
	apus_ctl_discovery_turn(d, at(0));
	announced = multicasts = 0;
	*most_out = 0;
	due = at(SEC);
	for (uint32_t ms = 0; ms < 2000; ms++) {
		struct apus_mono now = at(SEC + ms * MS);

		for (uint32_t n = 1; n <= count; n++)
			if (n * 100 / count == ms)
				assert_int_equal(hear(d, n, multicast, now), APUS_CTL_ADMITTED);
		due = apus_ctl_discovery_turn(d, now);
		sent_at[ms] = announced - last;
		last = announced;
		if (ms >= 9) {
			uint64_t window = 0;

			for (uint32_t i = ms - 9; i <= ms; i++)
				window += sent_at[i];
			if (window > *most_out)
				*most_out = window;
		}
	}
	assert_int_equal(apus_ctl_graph_participant_count(g), count);
	assert_false(apus_mono_before(due, at(SEC + 2 * SEC))); /* nothing is owed any more */
	apus_ctl_discovery_destroy(d);
	apus_ctl_graph_destroy(g);
	return announced;
}

static void three_hundred_newcomers_are_answered_within_bounds(void **state)
{
	static const uint32_t sizes[] = {10, 30, 100, 300};
	uint64_t direct, merged, most_direct, most_merged;

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		direct = newcomers(sizes[i], false, &most_direct);
		merged = newcomers(sizes[i], true, &most_merged);
		printf("%u newcomers: %llu answers by unicast, %llu with multicast; "
		       "at most %llu and %llu in 10 ms\n",
		       sizes[i], (unsigned long long)direct, (unsigned long long)merged,
		       (unsigned long long)most_direct, (unsigned long long)most_merged);
		/* One each where there is no group, never more at a time than configured; with one, an
		 * announcement for many takes their place. */
		assert_in_range(direct, sizes[i], sizes[i] + 1);
		assert_in_range(most_direct, 1, 16);
		assert_in_range(most_merged, 1, 17);
		assert_true(merged <= direct);
		if (sizes[i] >= 100)
			assert_in_range(merged, 1, sizes[i] / 4);
	}
}

/* ---- cycles ------------------------------------------------------------------------------------- */

static void a_thousand_cycles_allocate_nothing(void **state)
{
	struct apus_ctl_graph_config c = large(64, 1024);
	struct apus_ctl_discovery *d;
	struct apus_ctl_graph *g;
	uint64_t before;

	(void)state;
	c.participants = 64;
	d = open_discovery(&c, true, &g);
	for (uint32_t n = 1; n <= 32; n++) {
		hear(d, n, n % 2, at(0));
		hear_endpoint(d, n, 1, at(0));
	}
	before = announced;
	allocations_begin();
	for (int64_t cycle = 0; cycle < 1000; cycle++) {
		struct apus_mono now = at(SEC + cycle * 3 * SEC);

		for (uint32_t n = 1; n <= 32; n++)
			hear(d, n, n % 2, now);
		apus_ctl_discovery_turn(d, now);
	}
	assert_int_equal(allocations_end(), 0);
	assert_true(announced - before >= 1000);
	assert_int_equal(apus_ctl_graph_participant_count(g), 32);
	apus_ctl_discovery_destroy(d);
	apus_ctl_graph_destroy(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hundred_thousand_endpoints_come_and_go),
		cmocka_unit_test(what_exceeds_the_tables_is_refused_and_counted),
		cmocka_unit_test(a_byte_budget_holds_too),
		cmocka_unit_test(three_hundred_newcomers_are_answered_within_bounds),
		cmocka_unit_test(a_thousand_cycles_allocate_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
