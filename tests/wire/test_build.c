/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the builder writes what RTPS 2.5 §9.4.5 says and refuses what does not fit or cannot be; sets,
 * counts and times convert without loss.
 *
 * Method: literal bytes for a typical datagram, reading back one that has every kind of submessage,
 * and building that one into every smaller capacity.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "wire/message.h"

/* --- Sets and times ------------------------------------------------------------------------------- */

static void test_set_helpers(void **state)
{
	(void)state;
	struct apus_wire_seqset set = {.base = 10};
	struct apus_wire_fragset frags = {.base = 1};

	assert_true(apus_wire_seqset_add(&set, 12));
	assert_int_equal(set.num_bits, 3);
	assert_int_equal(set.bitmap[0], 0x20000000);
	assert_true(apus_wire_seqset_add(&set, 10));
	assert_int_equal(set.num_bits, 3);
	assert_true(apus_wire_seqset_add(&set, 265));
	assert_int_equal(set.num_bits, 256);
	assert_int_equal(set.bitmap[7], 1);
	assert_false(apus_wire_seqset_add(&set, 266));
	assert_false(apus_wire_seqset_add(&set, 9));
	assert_int_equal(set.num_bits, 256);
	assert_true(apus_wire_fragset_add(&frags, 33));
	assert_int_equal(frags.bitmap[1], 0x80000000);
	assert_false(apus_wire_fragset_add(&frags, 0));
	assert_false(apus_wire_fragset_add(&frags, 257));
	assert_true(apus_wire_fragset_test(&frags, 33));
	assert_false(apus_wire_fragset_test(&frags, 0));
}

static void test_count_newer(void **state)
{
	(void)state;
	assert_true(apus_wire_count_newer(2, 1));
	assert_false(apus_wire_count_newer(1, 1));
	assert_false(apus_wire_count_newer(1, 2));
	assert_true(apus_wire_count_newer(1, UINT32_MAX));
}

static void test_times(void **state)
{
	(void)state;
	static const int64_t walls[] = {0, 1, 999999999, INT64_C(1700000000123456789),
					INT64_C(4294967294999999999)};

	for (size_t i = 0; i < sizeof(walls) / sizeof(walls[0]); i++) {
		struct apus_wire_time t = apus_wire_time_from_wall((struct apus_wall){walls[i]});

		assert_int_equal(apus_wire_time_to_wall(t).ns, walls[i]);
		/* A receiver that truncates sees the same number. */
		assert_int_equal(((uint64_t)t.fraction * 1000000000u) >> 32, walls[i] % 1000000000);
	}
	/* From a sender that truncates: 123456789 ns is 530242871.2… units. */
	assert_int_equal(apus_wire_fraction_to_ns(530242871), 123456789);
	assert_int_equal(apus_wire_fraction_to_ns(UINT32_MAX), 1000000000);
	assert_int_equal(apus_wire_time_from_wall(APUS_WALL_NONE).seconds, UINT32_MAX);
	assert_int_equal(apus_wire_time_from_wall((struct apus_wall){-1}).fraction, UINT32_MAX);
	assert_int_equal(apus_wire_time_from_wall((struct apus_wall){INT64_MAX}).fraction,
			 UINT32_MAX);
	assert_true(apus_wire_time_to_wall(APUS_WIRE_TIME_INVALID).ns == APUS_WALL_NONE.ns);
}

static void test_durations(void **state)
{
	(void)state;
	struct apus_wire_time d;

	assert_true(apus_wire_duration_to_ns(APUS_WIRE_DURATION_INFINITE) == APUS_INFINITE_NS);
	/* The fraction DDS 1.4 has for an infinite duration's nanoseconds. */
	assert_true(apus_wire_duration_to_ns((struct apus_wire_time){INT32_MAX, INT32_MAX}) ==
		    APUS_INFINITE_NS);
	d = apus_wire_duration_from_ns(APUS_INFINITE_NS);
	assert_int_equal(d.seconds, INT32_MAX);
	assert_int_equal(d.fraction, UINT32_MAX);
	d = apus_wire_duration_from_ns(INT64_C(1500000000));
	assert_int_equal(d.seconds, 1);
	assert_int_equal(d.fraction, 0x80000000);
	assert_int_equal(apus_wire_duration_to_ns(d), INT64_C(1500000000));
	assert_int_equal(apus_wire_duration_to_ns((struct apus_wire_time){UINT32_MAX, 0}),
			 -APUS_NS_PER_SEC);
	d = apus_wire_duration_from_ns(-5);
	assert_int_equal(d.seconds, 0);
	assert_int_equal(d.fraction, 0);
}

/* --- Builder -------------------------------------------------------------------------------------- */

static const struct apus_prefix own = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}};

static void test_build_bytes(void **state)
{
	(void)state;
	static const uint8_t
		expected[] =
			{
				'R',  'T',  'P', 'S', 2,    3,    0x01, 0xee, 1, 2, 3, 4,    5,
				6,    7,    8,   9,   10,   11,   12, /* header */
				0x09, 0x01, 8,   0,   1,    0,    0,    0,    0, 0, 0, 0x80, /* INFO_TS */
				0x15, 0x07, 40,  0,   0,    0,    16,   0, /* DATA, flags E Q D */
				0,    0,    1,   7,   0,    0,    1,    2,    1, 0, 0, 0,    2,
				0,    0,    0, /* ids, sequence number 2^32 + 2 */
				0x71, 0,    4,   0,   0,    0,    0,    1, /* status info: disposed */
				1,    0,    0,   0,                        /* sentinel */
				0,    1,    0,   0,   0xaa, 0xbb, 0xcc, 0, /* payload of 7 bytes, padded */
				0x07, 0x03, 28,  0,   0,    0,    0,    0,    0, 0, 1, 2, /* HEARTBEAT */
				0,    0,    0,   0,   1,    0,    0,    0,    1, 0, 0, 0,    2,
				0,    0,    0,   9,   0,    0,    0,
			};
	static const uint8_t payload[7] = {0, 1, 0, 0, 0xaa, 0xbb, 0xcc};
	uint8_t buffer[sizeof(expected)];
	struct apus_wire_builder b;
	struct apus_wire_data_out d = {.reader = {0x107},
				       .writer = {0x102},
				       .seq = 0x100000002,
				       .payload = payload,
				       .payload_bytes = 7,
				       .qos.status_info = APUS_WIRE_STATUS_DISPOSED};
	struct apus_wire_heartbeat h = {
		.writer = {0x102}, .first = 1, .last = 0x100000002, .count = 9, .final = true};

	assert_int_equal(apus_wire_begin(&b, buffer, sizeof(buffer), &own), 0);
	assert_int_equal(apus_wire_info_ts(&b, (struct apus_wall){1500000000}), 0);
	assert_int_equal(apus_wire_data(&b, &d), 0);
	assert_int_equal(apus_wire_heartbeat(&b, &h), 0);
	assert_int_equal(b.length, sizeof(expected));
	assert_int_equal(b.external_bytes, 0);
	for (size_t i = 0; i < sizeof(expected); i++)
		if (buffer[i] != expected[i])
			fail_msg("byte %zu: %02x, expected %02x", i, buffer[i], expected[i]);
	/* Full: nothing more, nothing changed. */
	assert_int_equal(apus_wire_pad(&b, 0), APUS_ELIMIT);
	assert_int_equal(b.length, sizeof(expected));
}

/* Everything the builder has, into b; stops at the first failure. */
static int build_all(struct apus_wire_builder *b)
{
	static const uint8_t hash[16] = {0xd3, 0x6d, [15] = 0x11};
	static const uint8_t filter_info[8] = {1, 0, 0, 0, 0, 0, 0, 0x80};
	static const uint8_t payload[300] = {0, 1, 0, 0, 1, 2, 3};
	static const struct apus_prefix dest = {{0xd0, [11] = 0xd1}};
	static const struct apus_guid related = {{0xe0, [15] = 0xe1}};
	static const struct apus_locator unicast = {1, 7411, {[12] = 127, [15] = 1}};
	static const struct apus_locator multicast = {1, 7401, {[12] = 239, [13] = 255, [15] = 1}};
	struct apus_wire_data_out data = {.reader = {0x107},
					  .writer = {0x102},
					  .seq = 5,
					  .payload = payload,
					  .payload_bytes = 21,
					  .key_only = true,
					  .qos = {.key_hash = hash,
						  .status_info = 3,
						  .related_guid = &related,
						  .related_seq = 77,
						  .filter_info = filter_info,
						  .filter_info_bytes = 8,
						  .coherent_seq = 4,
						  .group_coherent_seq = 3,
						  .group_seq = 2}};
	struct apus_wire_data_frag_out frag = {.reader = {0x107},
					       .writer = {0x102},
					       .seq = 6,
					       .first = 2,
					       .count = 3,
					       .fragment_bytes = 100,
					       .sample_bytes = 390,
					       .payload = payload,
					       .payload_bytes = 290,
					       .qos.key_hash = hash};
	struct apus_wire_heartbeat heartbeat = {{0x107}, {0x102}, 3, 8, 1, false, true};
	struct apus_wire_heartbeat_frag heartbeat_frag = {{0x107}, {0x102}, 6, 4, 2};
	struct apus_wire_gap gap = {{0x107}, {0x102}, 3, {7, 33, {0x80000000, 0x80000000}}};
	struct apus_wire_acknack acknack = {{0x107}, {0x102}, {9, 2, {0xc0000000}}, 3, true};
	struct apus_wire_nack_frag nack = {{0x107}, {0x102}, 6, {1, 4, {0xf0000000}}, 4};
	int r = apus_wire_info_ts(b, (struct apus_wall){INT64_C(1700000000123456789)});

	r = r ? r : apus_wire_info_dst(b, &dest);
	r = r ? r : apus_wire_data(b, &data);
	r = r ? r : apus_wire_data_frag(b, &frag);
	r = r ? r : apus_wire_heartbeat(b, &heartbeat);
	r = r ? r : apus_wire_heartbeat_frag(b, &heartbeat_frag);
	r = r ? r : apus_wire_gap(b, &gap);
	r = r ? r : apus_wire_acknack(b, &acknack);
	r = r ? r : apus_wire_nack_frag(b, &nack);
	r = r ? r : apus_wire_info_ts(b, APUS_WALL_NONE);
	r = r ? r : apus_wire_info_dst(b, NULL);
	r = r ? r : apus_wire_pad(b, 8);
	r = r ? r : apus_wire_info_reply(b, &unicast, &multicast);
	r = r ? r : apus_wire_info_reply_ip4(b, &multicast, NULL);
	r = r ? r : apus_wire_info_src(b, &dest, APUS_WIRE_VENDOR_CYCLONE);
	return r;
}

/* Next submessage of m, which must be of this kind. */
static void expect(struct apus_wire_message *m, uint8_t id, struct apus_wire_submessage *s)
{
	assert_int_equal(apus_wire_next(m, s), APUS_WIRE_ACCEPT);
	assert_int_equal(s->id, id);
	assert_int_equal(s->bytes % 4, 0);
}

static void check_built_data(struct apus_wire_message *m)
{
	struct apus_wire_submessage s;
	const struct apus_wire_inline_qos *q = &s.data.qos;

	expect(m, APUS_WIRE_DATA, &s);
	assert_int_equal(s.data.reader.value, 0x107);
	assert_int_equal(s.data.writer.value, 0x102);
	assert_int_equal(s.data.seq, 5);
	assert_int_equal(s.data.payload_bytes, 24);
	assert_memory_equal(s.data.payload, "\0\1\0\0\1\2\3", 7);
	assert_true(s.data.key_only);
	assert_int_equal(q->key_hash[1], 0x6d);
	assert_int_equal(q->status_info, 3);
	assert_int_equal(q->related_guid.bytes[15], 0xe1);
	assert_int_equal(q->related_seq, 77);
	assert_int_equal(q->filter_info_bytes, 8);
	assert_int_equal(q->filter_info[7], 0x80);
	assert_int_equal(q->coherent_seq, 4);
	assert_int_equal(q->group_coherent_seq, 3);
	assert_int_equal(q->group_seq, 2);
	assert_null(q->directed);
	expect(m, APUS_WIRE_DATA_FRAG, &s);
	assert_int_equal(s.data_frag.seq, 6);
	assert_int_equal(s.data_frag.first, 2);
	assert_int_equal(s.data_frag.count, 3);
	assert_int_equal(s.data_frag.fragment_bytes, 100);
	assert_int_equal(s.data_frag.sample_bytes, 390);
	assert_int_equal(s.data_frag.payload_bytes, 290);
	assert_true(s.data_frag.qos.has_key_hash);
	assert_false(s.data_frag.qos.has_status_info);
	assert_false(s.data_frag.key_only);
}

static void check_built_protocol(struct apus_wire_message *m)
{
	struct apus_wire_submessage s;

	expect(m, APUS_WIRE_HEARTBEAT, &s);
	assert_int_equal(s.heartbeat.first, 3);
	assert_int_equal(s.heartbeat.last, 8);
	assert_false(s.heartbeat.final);
	assert_true(s.heartbeat.liveliness);
	expect(m, APUS_WIRE_HEARTBEAT_FRAG, &s);
	assert_int_equal(s.heartbeat_frag.last, 4);
	assert_int_equal(s.heartbeat_frag.count, 2);
	expect(m, APUS_WIRE_GAP, &s);
	assert_int_equal(s.gap.start, 3);
	assert_int_equal(s.gap.set.base, 7);
	assert_int_equal(s.gap.set.num_bits, 33);
	assert_true(apus_wire_seqset_test(&s.gap.set, 39));
	expect(m, APUS_WIRE_ACKNACK, &s);
	assert_int_equal(s.acknack.set.base, 9);
	assert_int_equal(s.acknack.count, 3);
	assert_true(s.acknack.final);
	expect(m, APUS_WIRE_NACK_FRAG, &s);
	assert_int_equal(s.nack_frag.seq, 6);
	assert_int_equal(s.nack_frag.set.bitmap[0], 0xf0000000);
	assert_int_equal(s.nack_frag.count, 4);
}

static void test_build_round_trip(void **state)
{
	(void)state;
	uint8_t buffer[2048];
	struct apus_wire_builder b;
	struct apus_wire_message m;
	struct apus_wire_submessage s;

	assert_int_equal(apus_wire_begin(&b, buffer, sizeof(buffer), &own), 0);
	assert_int_equal(build_all(&b), 0);
	assert_int_equal(apus_wire_open(&m, buffer, b.length), APUS_WIRE_ACCEPT);
	assert_true(apus_prefix_equal(&m.receiver.source, &own));
	expect(&m, APUS_WIRE_INFO_TS, &s);
	assert_int_equal(m.receiver.timestamp.ns, INT64_C(1700000000123456789));
	expect(&m, APUS_WIRE_INFO_DST, &s);
	assert_true(m.receiver.has_dest);
	check_built_data(&m);
	check_built_protocol(&m);
	expect(&m, APUS_WIRE_INFO_TS, &s);
	assert_true(m.receiver.timestamp.ns == APUS_WALL_NONE.ns);
	expect(&m, APUS_WIRE_INFO_DST, &s);
	assert_false(m.receiver.has_dest);
	expect(&m, APUS_WIRE_PAD, &s);
	assert_int_equal(s.bytes, 8);
	expect(&m, APUS_WIRE_INFO_REPLY, &s);
	assert_int_equal(m.receiver.unicast_reply.port, 7411);
	assert_int_equal(m.receiver.multicast_reply.address[12], 239);
	expect(&m, APUS_WIRE_INFO_REPLY_IP4, &s);
	assert_int_equal(m.receiver.unicast_reply.address[12], 239);
	assert_int_equal(m.receiver.unicast_reply.port, 7401);
	assert_int_equal(m.receiver.multicast_reply.kind, 0);
	expect(&m, APUS_WIRE_INFO_SRC, &s);
	assert_int_equal(m.receiver.vendor, APUS_WIRE_VENDOR_CYCLONE);
	assert_int_equal(m.receiver.source.bytes[11], 0xd1);
	assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_END);
}

/* Whatever the capacity: nothing beyond it is touched, and what fits is a sound message. */
static void test_build_every_capacity(void **state)
{
	(void)state;
	uint8_t whole[2048];
	struct apus_wire_builder b;

	assert_int_equal(apus_wire_begin(&b, whole, sizeof(whole), &own), 0);
	assert_int_equal(build_all(&b), 0);
	size_t needed = b.length;

	for (size_t capacity = 0; capacity <= needed; capacity++) {
		uint8_t *buffer = malloc(capacity ? capacity : 1);
		struct apus_wire_message m;
		struct apus_wire_submessage s;
		enum apus_wire_verdict verdict;

		assert_non_null(buffer);
		int r = apus_wire_begin(&b, buffer, capacity, &own);

		assert_int_equal(r, capacity < 20 ? APUS_ELIMIT : 0);
		if (r == 0) {
			r = build_all(&b);
			assert_int_equal(r, capacity < needed ? APUS_ELIMIT : 0);
			assert_true(b.length <= capacity);
			assert_memory_equal(buffer, whole, b.length);
			assert_int_equal(apus_wire_open(&m, buffer, b.length), APUS_WIRE_ACCEPT);
			while ((verdict = apus_wire_next(&m, &s)) != APUS_WIRE_END)
				assert_int_equal(verdict, APUS_WIRE_ACCEPT);
		}
		free(buffer);
	}
}

/* A payload outside, followed by more: gathered as the header says, it reads like a copied one. */
static void test_build_external_payload(void **state)
{
	(void)state;
	static const uint8_t payload[12] = {0, 1, 0, 2, 9, 8, 7, 6, 5, 4, 0, 0};
	uint8_t buffer[256], gathered[256];
	struct apus_wire_builder b;
	struct apus_wire_message m;
	struct apus_wire_submessage s;
	struct apus_wire_data_out d = {.writer = {0x102}, .seq = 1, .payload_bytes = 10};

	assert_int_equal(apus_wire_begin(&b, buffer, sizeof(buffer), &own), 0);
	assert_int_equal(apus_wire_data(&b, &d), 0);
	size_t split = b.length;

	assert_int_equal(split, 20 + 4 + 20);
	assert_int_equal(b.external_bytes, apus_wire_padded(10));
	assert_int_equal(apus_wire_datagram_bytes(&b), split + 12);
	assert_int_equal(apus_wire_pad(&b, 4), 0);
	memcpy(gathered, buffer, split);
	memcpy(gathered + split, payload, 12);
	memcpy(gathered + split + 12, buffer + split, b.length - split);
	assert_int_equal(apus_wire_open(&m, gathered, apus_wire_datagram_bytes(&b)),
			 APUS_WIRE_ACCEPT);
	expect(&m, APUS_WIRE_DATA, &s);
	assert_ptr_equal(s.data.payload, gathered + split);
	assert_int_equal(s.data.payload_bytes, 12);
	assert_int_equal(s.flags, 0x05);
	expect(&m, APUS_WIRE_PAD, &s);
	assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_END);
}

/* 16 bits of length: the largest payload, and one more. */
static void test_build_submessage_limit(void **state)
{
	(void)state;
	uint8_t buffer[256];
	struct apus_wire_builder b;
	struct apus_wire_data_out d = {.writer = {0x102}, .seq = 1, .payload_bytes = 65512};

	assert_int_equal(apus_wire_begin(&b, buffer, sizeof(buffer), &own), 0);
	d.payload_bytes = 65513; /* padded 65516, with the 20 bytes before it 65536 */
	assert_int_equal(apus_wire_data(&b, &d), APUS_ELIMIT);
	d.payload_bytes = UINT32_MAX;
	assert_int_equal(apus_wire_data(&b, &d), APUS_ELIMIT);
	assert_int_equal(b.length, 20);
	assert_int_equal(b.external_bytes, 0);
	d.payload_bytes = 65512;
	assert_int_equal(apus_wire_data(&b, &d), 0);
	assert_int_equal(b.external_bytes, 65512);
	assert_int_equal(buffer[22] | buffer[23] << 8, 65532);
}

/* Our own mistakes are refused and leave nothing behind. */
static void test_build_refusals(void **state)
{
	(void)state;
	uint8_t buffer[1024];
	struct apus_wire_builder b;
	struct apus_wire_data_out d = {.seq = 0, .payload_bytes = 8};
	struct apus_wire_data_frag_out f = {.seq = 1,
					    .first = 1,
					    .count = 1,
					    .fragment_bytes = 100,
					    .sample_bytes = 150,
					    .payload_bytes = 100};
	struct apus_wire_heartbeat h = {.first = 3, .last = 1};
	struct apus_wire_heartbeat_frag hf = {.seq = 1, .last = 0};
	struct apus_wire_gap g = {.start = 1, .set = {.base = 0}};
	struct apus_wire_acknack a = {.set = {.base = 0, .num_bits = 1}};
	struct apus_wire_nack_frag n = {.seq = 1, .set = {.base = 1, .num_bits = 257}};
	struct apus_locator v6 = {.kind = APUS_LOCATOR_UDPV6};

	assert_int_equal(apus_wire_begin(&b, buffer, sizeof(buffer), &own), 0);
	assert_int_equal(apus_wire_data(&b, &d), APUS_EINVAL);
	d.seq = 1;
	d.payload_bytes = 3;
	assert_int_equal(apus_wire_data(&b, &d), APUS_EINVAL);
	d.payload_bytes = 0;
	d.key_only = true;
	assert_int_equal(apus_wire_data(&b, &d), APUS_EINVAL);
	d.key_only = false;
	d.qos.filter_info_bytes = 6;
	assert_int_equal(apus_wire_data(&b, &d), APUS_EINVAL);
	f.payload_bytes = 96; /* less than the fragment */
	assert_int_equal(apus_wire_data_frag(&b, &f), APUS_EINVAL);
	f.first = 3; /* behind the sample */
	f.payload_bytes = 100;
	assert_int_equal(apus_wire_data_frag(&b, &f), APUS_EINVAL);
	f.first = 1;
	f.fragment_bytes = 98; /* not a multiple of 4 */
	f.payload_bytes = 98;
	assert_int_equal(apus_wire_data_frag(&b, &f), APUS_EINVAL);
	assert_int_equal(apus_wire_heartbeat(&b, &h), APUS_EINVAL);
	assert_int_equal(apus_wire_heartbeat_frag(&b, &hf), APUS_EINVAL);
	assert_int_equal(apus_wire_gap(&b, &g), APUS_EINVAL);
	assert_int_equal(apus_wire_acknack(&b, &a), APUS_EINVAL);
	a.set = (struct apus_wire_seqset){.base = -1};
	assert_int_equal(apus_wire_acknack(&b, &a), APUS_EINVAL);
	assert_int_equal(apus_wire_nack_frag(&b, &n), APUS_EINVAL);
	assert_int_equal(apus_wire_info_reply_ip4(&b, &v6, NULL), APUS_EINVAL);
	assert_int_equal(apus_wire_pad(&b, 3), APUS_EINVAL);
	assert_int_equal(b.length, 20);
}

/* Stray bits behind the end of a set do not reach the wire. */
static void test_build_stray_bits(void **state)
{
	(void)state;
	uint8_t buffer[128];
	struct apus_wire_builder b;
	struct apus_wire_acknack a = {.set = {1, 33, {UINT32_MAX, UINT32_MAX, UINT32_MAX}}};
	static const uint8_t expected[] = {33, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0x80};

	assert_int_equal(apus_wire_begin(&b, buffer, sizeof(buffer), &own), 0);
	assert_int_equal(apus_wire_acknack(&b, &a), 0);
	assert_memory_equal(buffer + 20 + 4 + 16, expected, sizeof(expected));
	assert_int_equal(b.length, 20 + 4 + 16 + 12 + 4);
}

/* The end of a coherent set: no payload, PID_COHERENT_SET = SEQUENCENUMBER_UNKNOWN. */
static void test_end_of_set(void **state)
{
	struct apus_wire_data_out data = {
		.writer = {0x102}, .seq = 9, .qos.coherent_seq = APUS_WIRE_SEQ_UNKNOWN};
	struct apus_prefix own = {{1, 0xee}};
	struct apus_wire_submessage s;
	struct apus_wire_builder b;
	struct apus_wire_message m;
	uint8_t buffer[128];

	(void)state;
	assert_int_equal(apus_wire_begin(&b, buffer, sizeof(buffer), &own), 0);
	assert_int_equal(apus_wire_data(&b, &data), 0);
	/* Behind header, submessage header and fixed part: parameter 0x56 with {-1, 0}. */
	assert_memory_equal(buffer + 20 + 4 + 20, "\x56\0\x8\0\xff\xff\xff\xff\0\0\0\0\1\0\0\0",
			    16);
	assert_int_equal(apus_wire_open(&m, buffer, b.length), APUS_WIRE_ACCEPT);
	assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_ACCEPT);
	assert_int_equal(s.data.qos.coherent_seq, APUS_WIRE_SEQ_UNKNOWN);
	assert_null(s.data.payload);
	data.qos.coherent_seq = -1;
	assert_int_equal(apus_wire_data(&b, &data), APUS_EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_end_of_set),
		cmocka_unit_test(test_set_helpers),
		cmocka_unit_test(test_count_newer),
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_durations),
		cmocka_unit_test(test_build_bytes),
		cmocka_unit_test(test_build_round_trip),
		cmocka_unit_test(test_build_every_capacity),
		cmocka_unit_test(test_build_external_payload),
		cmocka_unit_test(test_build_submessage_limit),
		cmocka_unit_test(test_build_refusals),
		cmocka_unit_test(test_build_stray_bits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
