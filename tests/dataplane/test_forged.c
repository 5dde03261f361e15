/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: forged traffic under the GUIDs of a matched pair costs the same whatever span of numbers or bytes it
 * claims, takes no memory, and the stream goes on: in order, nothing twice, and whole again as soon as the
 * forger is silent.
 * Method: a reliable stream over a wire in memory; 100,000 forged datagrams to both ends in 20 bursts, each
 * followed by time for the true HEARTBEATs to be believed again, and by samples that must all arrive. That the program ends shows that no claim is
 * walked over: a GAP of 2^40 numbers by a loop alone would take hours.
 */
#include "wire_pair.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BURSTS = 20, FORGED = 5000, SAMPLES_A_BURST = 40, AFTER = 20 };
#define FAR (INT64_C(1) << 40)

static struct wire_pair p;
static struct wire_endpoints e;
static uint64_t rng = 0x1234567;
static int32_t next_x = 1, taken_x, taken_count;
static uint64_t kinds[16];

static uint32_t rnd(uint32_t n)
{
	return wire_random(&rng, n);
}

/* Small, around what exists, far, or near the end. */
static apus_seq some_seq(void)
{
	switch (rnd(5)) {
	case 0: return 1 + rnd(50);
	case 1: return FAR + rnd(300);
	case 2: return APUS_WIRE_SEQ_MAX - rnd(2000);
	default: return e.writer->last + 100 + rnd(300);
	}
}

static void forge_gap(struct apus_wire_builder *b)
{
	struct apus_wire_gap gap = {.writer = e.writer->eid, .start = 2, .set.base = some_seq()};

	if (gap.set.base < 2)
		gap.set.base = FAR;
	if (rnd(2))
		apus_wire_seqset_add(&gap.set, gap.set.base + rnd(200));
	assert_int_equal(apus_wire_gap(b, &gap), 0);
}

static void forge_heartbeat(struct apus_wire_builder *b)
{
	struct apus_wire_heartbeat hb = {.writer = e.writer->eid,
					 .first = rnd(2) ? some_seq() : 1,
					 .count = rnd(2) ? e.writer->hb_count - rnd(1000)
							 : (uint32_t)rnd(UINT32_MAX),
					 .final = rnd(2),
					 .liveliness = rnd(2)};

	hb.last = APUS_WIRE_SEQ_MAX;
	if (rnd(4) && hb.first < APUS_WIRE_SEQ_MAX - 1000)
		hb.last = hb.first - 1 + rnd(1000);
	assert_int_equal(apus_wire_heartbeat(b, &hb), 0);
}

/* Fragments of samples of up to 4 GB; overlapping, late, of changing sizes; fragment size 0 by patching. */
static void forge_fragment(struct apus_wire_builder *b, bool zero)
{
	static const uint32_t sizes[] = {UINT32_MAX, 5000, 5004, 300, 1 << 20};
	uint8_t payload[64] = {0, 1};
	uint32_t at = b->length;
	struct apus_wire_data_frag_out f = {
		.writer = e.writer->eid,
		.seq = some_seq(),
		.first = 1 + rnd(3),
		.count = 1,
		.fragment_bytes = rnd(2) ? 64 : 32,
		.sample_bytes = sizes[rnd(5)],
		.payload = payload,
	};

	f.payload_bytes = f.fragment_bytes;
	assert_int_equal(apus_wire_data_frag(b, &f), 0);
	if (zero) /* behind header and 20 bytes: number, in submessage, size */
		memset(b->bytes + at + 4 + 20 + 4 + 2, 0, 2);
}

static void forge_data(struct apus_wire_builder *b)
{
	uint8_t payload[16] = {0, 1};
	struct apus_wire_data_out d = {.writer = e.writer->eid,
				       .seq = rnd(2) ? (rnd(2) ? 2 * FAR : FAR) + rnd(300)
						     : 1, /* beyond the window, or late */
				       .payload = payload,
				       .payload_bytes = sizeof(payload)};

	assert_int_equal(apus_wire_data(b, &d), 0);
}

static void forge_heartbeat_frag(struct apus_wire_builder *b)
{
	struct apus_wire_heartbeat_frag h = {.writer = e.writer->eid,
					     .seq = some_seq(),
					     .last = 1 + rnd(UINT32_MAX - 1),
					     .count = (uint32_t)rnd(UINT32_MAX)};

	assert_int_equal(apus_wire_heartbeat_frag(b, &h), 0);
}

/* To the writer: acknowledgements and requests for what was never written. */
static void forge_acknack(struct apus_wire_builder *b)
{
	struct apus_wire_acknack a = {.reader = e.reader->eid,
				      .writer = e.writer->eid,
				      .set.base = FAR + rnd(100),
				      .count = (uint32_t)rnd(UINT32_MAX),
				      .final = rnd(2)};

	for (uint32_t i = 0; i < 256; i += 1 + rnd(9))
		apus_wire_seqset_add(&a.set, a.set.base + i);
	assert_int_equal(apus_wire_acknack(b, &a), 0);
}

static void forge_nack_frag(struct apus_wire_builder *b)
{
	struct apus_wire_nack_frag n = {.reader = e.reader->eid,
					.writer = e.writer->eid,
					.seq = some_seq(),
					.set = {.base = 1 + rnd(UINT32_MAX - 300)},
					.count = (uint32_t)rnd(UINT32_MAX)};

	apus_wire_fragset_add(&n.set, n.set.base + rnd(200));
	assert_int_equal(apus_wire_nack_frag(b, &n), 0);
}

static void forge(void)
{
	struct apus_dp_addr from = {0};
	uint32_t kind = rnd(9);
	bool to_writer = kind >= 7;
	struct wire_side *to = to_writer ? &p.a : &p.b;
	struct apus_wire_builder b;
	uint8_t buffer[512];

	assert_int_equal(
		apus_wire_begin(&b, buffer, sizeof(buffer), to_writer ? &p.b.prefix : &p.a.prefix),
		0);
	switch (kind) {
	default: forge_gap(&b); break;
	case 1:
	case 2: forge_heartbeat(&b); break;
	case 3: forge_fragment(&b, false); break;
	case 4: forge_fragment(&b, true); break;
	case 5: forge_data(&b); break;
	case 6: forge_heartbeat_frag(&b); break;
	case 7: forge_acknack(&b); break;
	case 8: forge_nack_frag(&b); break;
	}
	kinds[kind]++;
	apus_dp_worker_take_turn(to->worker);
	apus_dp_worker_datagram(to->worker, b.bytes, b.length, &from, p.now);
	apus_dp_worker_end_turn(to->worker);
}

static void take(void)
{
	struct apus_sample s;

	apus_dp_worker_take_turn(p.b.worker);
	while (apus_dp_reader_access(e.reader, NULL, true, p.now, &s, 1) == 1) {
		struct apus_shape shape;

		if (s.info.seq < FAR) { /* what a peer forges as data is shown as such */
			assert_int_equal(apus_type_decode(&apus_shape_type, s.payload,
							  s.payload_bytes, false, &shape, NULL, 0),
					 0);
			assert_true(shape.x > taken_x); /* once, in order */
			taken_count++;
			taken_x = shape.x;
		}
		assert_int_equal(apus_dp_reader_return(e.reader, &s), 0);
	}
	apus_dp_worker_end_turn(p.b.worker);
}

/* Until the true HEARTBEATs are believed again, and everything is there. */
static void settle(void)
{
	for (int i = 0; i < 3000 && (i < 1500 || taken_x < next_x - 1); i++) {
		wire_run(&p, APUS_NS_PER_MS);
		take();
	}
	assert_int_equal(taken_x, next_x - 1);
}

static void burst(void)
{
	for (int i = 0; i < FORGED; i++) {
		forge();
		if (i % (FORGED / SAMPLES_A_BURST) == 0 &&
		    wire_write(&p, &e, "RED", next_x, APUS_ALIVE) == 0)
			next_x++;
		if (i % 64 == 0) {
			wire_run(&p, 100 * APUS_NS_PER_US);
			take();
		}
	}
	settle();
	/* A peer that says what the writer would say is believed for the moment; what is written afterwards is
	 * all there. */
	taken_count = 0;
	for (int i = 0; i < AFTER; i++)
		assert_int_equal(wire_write(&p, &e, "RED", next_x++, APUS_ALIVE), 0);
	settle();
	assert_int_equal(taken_count, AFTER);
}

static void the_stream_goes_on(void **state)
{
	struct wire_options o = {
		.reliable = true, .keep_all = true, .max_samples = 256, .assembly_max = 4};
	struct apus_dp_reader_counters *c;
	size_t before;

	(void)state;
	wire_pair_init(&p, 1);
	wire_endpoints_init(&p, &e, &o);
	wire_match(&p, &e, true, &o);
	wire_write(&p, &e, "RED", next_x++, APUS_ALIVE);
	wire_run(&p, 50 * APUS_NS_PER_MS);
	take();
	before = mallinfo2().uordblks;
	for (int i = 0; i < BURSTS; i++)
		burst();
	assert_int_equal(mallinfo2().uordblks, before);
	c = &e.reader->counters;
	assert_true(apus_counter_get(&c->beyond) > 1000);
	assert_true(apus_counter_get(&c->late_fragments) > 1000);
	assert_true(apus_counter_get(&c->gaps) > 1000);
	assert_true(apus_counter_get(&p.b.worker->counters.rx_malformed) >= kinds[4]);
	assert_true(apus_counter_get(&e.writer->counters.acknacks_forged) +
			    apus_counter_get(&e.writer->counters.acknacks_stale) >=
		    kinds[7]);
	/* Nothing that does not exist was sent for it: requests beyond the end cost a GAP or HEARTBEAT at most. */
	assert_true(p.a_to_b.sent < 4 * (uint64_t)BURSTS * FORGED);
	wire_endpoints_fini(&p, &e);
	wire_pair_fini(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_stream_goes_on)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
