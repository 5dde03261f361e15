/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the header, the submessages of the reliable protocol and the rules
 * that hold for all submessages are read as RTPS 2.5 §8.3.8 and §9.4.5 say, and refused where those
 * sections say so. (DATA and DATA_FRAG: test_data.c; INFO_…: test_info.c.)
 *
 * Method: datagrams put together field by field in either byte order, with the expected value of each
 * field written out; each is also cut at every length, as a datagram and inside the submessage.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/wire/raw.h"

/* --- Header --------------------------------------------------------------------------------------- */

static void test_header(void **state)
{
	(void)state;
	struct raw w;
	struct apus_wire_message m;
	struct apus_wire_submessage s;

	raw_begin(&w, true);
	assert_int_equal(apus_wire_open(&m, w.bytes, w.length), APUS_WIRE_ACCEPT);
	assert_int_equal(m.receiver.version_major, 2);
	assert_int_equal(m.receiver.version_minor, 3);
	assert_int_equal(m.receiver.vendor, APUS_WIRE_VENDOR_FASTDDS);
	assert_memory_equal(m.receiver.source.bytes, w.bytes + 8, 12);
	assert_false(m.receiver.has_dest);
	assert_true(m.receiver.timestamp.ns == APUS_WALL_NONE.ns);
	assert_int_equal(m.receiver.unicast_reply.kind, 0);
	assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_END);

	w.bytes[5] = 9; /* a later minor version is read */
	assert_int_equal(apus_wire_open(&m, w.bytes, w.length), APUS_WIRE_ACCEPT);
	w.bytes[4] = 3; /* another major version is not (§8.3.6.3) */
	assert_int_equal(apus_wire_open(&m, w.bytes, w.length), APUS_WIRE_SKIP);
	w.bytes[4] = 1;
	assert_int_equal(apus_wire_open(&m, w.bytes, w.length), APUS_WIRE_SKIP);
	w.bytes[4] = 2;
	w.bytes[3] = 'X'; /* RTPX, or anything else */
	assert_int_equal(apus_wire_open(&m, w.bytes, w.length), APUS_WIRE_SKIP);
	assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_END);
	w.bytes[3] = 'S';
	check_truncated(&w);
}

/* --- One test a submessage ------------------------------------------------------------------------ */

static void raw_heartbeat(struct raw *w, bool little, int64_t first, int64_t last)
{
	raw_begin(w, little);
	raw_open(w, APUS_WIRE_HEARTBEAT, 0x06);
	raw_eid(w, 0x00000107);
	raw_eid(w, 0x00000102);
	raw_seq(w, first);
	raw_seq(w, last);
	raw_u32(w, 77);
	raw_close(w);
}

static void test_heartbeat(void **state)
{
	(void)state;
	FOR_BOTH_ORDERS(little)
	{
		struct raw w;
		struct apus_wire_submessage s;

		raw_heartbeat(&w, little, 0x100000002, 0x100000009);
		assert_int_equal(first_of(&w, w.length, &s, NULL), APUS_WIRE_ACCEPT);
		assert_int_equal(s.id, APUS_WIRE_HEARTBEAT);
		assert_int_equal(s.flags, 0x06 | little);
		assert_int_equal(s.offset, 20);
		assert_int_equal(s.bytes, 28);
		assert_int_equal(s.heartbeat.reader.value, 0x107);
		assert_int_equal(s.heartbeat.writer.value, 0x102);
		assert_int_equal(s.heartbeat.first, 0x100000002);
		assert_int_equal(s.heartbeat.last, 0x100000009);
		assert_int_equal(s.heartbeat.count, 77);
		assert_true(s.heartbeat.final);
		assert_true(s.heartbeat.liveliness);
		check_truncated(&w);
		check_short_body(&w, 28);

		w.bytes[21] = (uint8_t)little;
		assert_int_equal(first_of(&w, w.length, &s, NULL), APUS_WIRE_ACCEPT);
		assert_false(s.heartbeat.final);
		assert_false(s.heartbeat.liveliness);
	}
}

/* §8.3.8.6.3, and our limit on sequence numbers. */
static void test_heartbeat_rules(void **state)
{
	(void)state;
	static const struct {
		int64_t first, last;
		enum apus_wire_verdict verdict;
	} rows[] = {
		{1, 0, APUS_WIRE_ACCEPT},
		{1, 1, APUS_WIRE_ACCEPT},
		{5, 4, APUS_WIRE_ACCEPT},
		{5, 3, APUS_WIRE_MALFORMED},
		{0, 0, APUS_WIRE_MALFORMED},
		{0, 7, APUS_WIRE_MALFORMED},
		{-1, 7, APUS_WIRE_MALFORMED},
		{1, -1, APUS_WIRE_MALFORMED},
		{INT64_MIN, INT64_MAX, APUS_WIRE_MALFORMED},
		{1, APUS_WIRE_SEQ_MAX, APUS_WIRE_ACCEPT},
		{1, APUS_WIRE_SEQ_MAX + 1, APUS_WIRE_MALFORMED},
		{APUS_WIRE_SEQ_MAX + 1, APUS_WIRE_SEQ_MAX, APUS_WIRE_MALFORMED},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct raw w;

		raw_heartbeat(&w, true, rows[i].first, rows[i].last);
		assert_int_equal(verdict_of(&w), rows[i].verdict);
	}
}

/* The group fields of version 2.4 behind the count (flag G) are passed over. */
static void test_heartbeat_group_tail(void **state)
{
	(void)state;
	struct raw w;
	struct apus_wire_submessage s;

	raw_heartbeat(&w, true, 1, 3);
	w.bytes[21] |= 0x08;
	raw_fill(&w, 0, 40);
	raw_close(&w);
	assert_int_equal(first_of(&w, w.length, &s, NULL), APUS_WIRE_ACCEPT);
	assert_int_equal(s.heartbeat.last, 3);
	assert_int_equal(s.bytes, 68);
}

static void raw_heartbeat_frag(struct raw *w, bool little, int64_t seq, uint32_t last)
{
	raw_begin(w, little);
	raw_open(w, APUS_WIRE_HEARTBEAT_FRAG, 0);
	raw_eid(w, 0);
	raw_eid(w, 0x102);
	raw_seq(w, seq);
	raw_u32(w, last);
	raw_u32(w, 0x80000001);
	raw_close(w);
}

static void test_heartbeat_frag(void **state)
{
	(void)state;
	FOR_BOTH_ORDERS(little)
	{
		struct raw w;
		struct apus_wire_submessage s;

		raw_heartbeat_frag(&w, little, 9, 30);
		assert_int_equal(first_of(&w, w.length, &s, NULL), APUS_WIRE_ACCEPT);
		assert_int_equal(s.heartbeat_frag.reader.value, 0);
		assert_int_equal(s.heartbeat_frag.writer.value, 0x102);
		assert_int_equal(s.heartbeat_frag.seq, 9);
		assert_int_equal(s.heartbeat_frag.last, 30);
		assert_int_equal(s.heartbeat_frag.count, 0x80000001);
		check_truncated(&w);
		check_short_body(&w, 24);
		raw_heartbeat_frag(&w, little, 0, 30);
		assert_int_equal(verdict_of(&w), APUS_WIRE_MALFORMED);
		raw_heartbeat_frag(&w, little, 9, 0);
		assert_int_equal(verdict_of(&w), APUS_WIRE_MALFORMED);
	}
}

/* words: how many follow, whatever num_bits says. */
static void raw_bitmap(struct raw *w, uint32_t num_bits, size_t words, uint32_t value)
{
	raw_u32(w, num_bits);
	for (size_t i = 0; i < words; i++)
		raw_u32(w, value);
}

static void raw_acknack(struct raw *w, bool little, int64_t base, uint32_t num_bits, size_t words)
{
	raw_begin(w, little);
	raw_open(w, APUS_WIRE_ACKNACK, 0x02);
	raw_eid(w, 0x107);
	raw_eid(w, 0x102);
	raw_seq(w, base);
	raw_bitmap(w, num_bits, words, 0xa0000001);
	raw_u32(w, 5);
	raw_close(w);
}

static void test_acknack(void **state)
{
	(void)state;
	FOR_BOTH_ORDERS(little)
	{
		struct raw w;
		struct apus_wire_submessage s;
		const struct apus_wire_acknack *a = &s.acknack;

		raw_acknack(&w, little, 1000, 34, 2);
		assert_int_equal(first_of(&w, w.length, &s, NULL), APUS_WIRE_ACCEPT);
		assert_int_equal(a->reader.value, 0x107);
		assert_int_equal(a->writer.value, 0x102);
		assert_int_equal(a->set.base, 1000);
		assert_int_equal(a->set.num_bits, 34);
		assert_int_equal(a->set.bitmap[0], 0xa0000001);
		/* Bits 34 … 63 are not in the set, whatever the sender left there. */
		assert_int_equal(a->set.bitmap[1], 0x80000000);
		for (int i = 2; i < 8; i++)
			assert_int_equal(a->set.bitmap[i], 0);
		assert_int_equal(a->count, 5);
		assert_true(a->final);
		assert_true(apus_wire_seqset_test(&a->set, 1000));
		assert_false(apus_wire_seqset_test(&a->set, 1001));
		assert_true(apus_wire_seqset_test(&a->set, 1002));
		assert_true(apus_wire_seqset_test(&a->set, 1031));
		assert_true(apus_wire_seqset_test(&a->set, 1032));
		assert_false(apus_wire_seqset_test(&a->set, 1034));
		assert_false(apus_wire_seqset_test(&a->set, 999));
		assert_false(apus_wire_seqset_test(&a->set, INT64_MIN));
		assert_false(apus_wire_seqset_test(&a->set, INT64_MAX));
		check_truncated(&w);
		check_short_body(&w, 32);
	}
}

/* §8.3.8.1.3 and §9.4.2.6. */
static void test_acknack_rules(void **state)
{
	(void)state;
	static const struct {
		int64_t base;
		uint32_t num_bits;
		size_t words;
		enum apus_wire_verdict verdict;
	} rows[] = {
		{1, 0, 0, APUS_WIRE_ACCEPT},
		{1, 256, 8, APUS_WIRE_ACCEPT},
		{1, 257, 9, APUS_WIRE_MALFORMED},
		{1, UINT32_MAX, 8, APUS_WIRE_MALFORMED}, /* (num_bits + 31) / 32 wraps to 0 */
		{1, 32, 0, APUS_WIRE_MALFORMED},         /* the count is taken for the word */
		{0, 0, 0, APUS_WIRE_ACCEPT},             /* Fast DDS, see message.h */
		{0, 1, 1, APUS_WIRE_MALFORMED},
		{-1, 0, 0, APUS_WIRE_MALFORMED},
		{APUS_WIRE_SEQ_MAX, 256, 8, APUS_WIRE_ACCEPT},
		{APUS_WIRE_SEQ_MAX + 1, 0, 0, APUS_WIRE_MALFORMED},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct raw w;

		raw_acknack(&w, i % 2, rows[i].base, rows[i].num_bits, rows[i].words);
		assert_int_equal(verdict_of(&w), rows[i].verdict);
	}
}

static void raw_gap(struct raw *w, bool little, int64_t start, int64_t base, uint32_t num_bits)
{
	raw_begin(w, little);
	raw_open(w, APUS_WIRE_GAP, 0);
	raw_eid(w, 0x107);
	raw_eid(w, 0x102);
	raw_seq(w, start);
	raw_seq(w, base);
	raw_bitmap(w, num_bits, (num_bits + 31) / 32, 0x40000000);
	raw_close(w);
}

static void test_gap(void **state)
{
	(void)state;
	static const struct {
		int64_t start, base;
		uint32_t num_bits;
		enum apus_wire_verdict verdict;
	} rows[] = {
		{1, 1, 0, APUS_WIRE_ACCEPT},    {5, 3, 4, APUS_WIRE_ACCEPT},
		{0, 3, 4, APUS_WIRE_MALFORMED}, {-4, 3, 4, APUS_WIRE_MALFORMED},
		{5, 0, 0, APUS_WIRE_MALFORMED}, {5, -1, 0, APUS_WIRE_MALFORMED},
		{1, 9, 256, APUS_WIRE_ACCEPT},  {1, 9, 257, APUS_WIRE_MALFORMED},
	};

	FOR_BOTH_ORDERS(little)
	{
		struct raw w;
		struct apus_wire_submessage s;

		raw_gap(&w, little, 3, 8, 3);
		assert_int_equal(first_of(&w, w.length, &s, NULL), APUS_WIRE_ACCEPT);
		assert_int_equal(s.gap.reader.value, 0x107);
		assert_int_equal(s.gap.writer.value, 0x102);
		assert_int_equal(s.gap.start, 3);
		assert_int_equal(s.gap.set.base, 8);
		assert_int_equal(s.gap.set.num_bits, 3);
		assert_false(apus_wire_seqset_test(&s.gap.set, 8));
		assert_true(apus_wire_seqset_test(&s.gap.set, 9));
		check_truncated(&w);
		check_short_body(&w, 32);
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct raw w;

		raw_gap(&w, i % 2, rows[i].start, rows[i].base, rows[i].num_bits);
		assert_int_equal(verdict_of(&w), rows[i].verdict);
	}
}

static void raw_nack_frag(struct raw *w, bool little, int64_t seq, uint32_t base, uint32_t num_bits)
{
	raw_begin(w, little);
	raw_open(w, APUS_WIRE_NACK_FRAG, 0);
	raw_eid(w, 0x107);
	raw_eid(w, 0x102);
	raw_seq(w, seq);
	raw_u32(w, base);
	raw_bitmap(w, num_bits, (num_bits + 31) / 32, 0xc0000000);
	raw_u32(w, 3);
	raw_close(w);
}

static void test_nack_frag(void **state)
{
	(void)state;
	FOR_BOTH_ORDERS(little)
	{
		struct raw w;
		struct apus_wire_submessage s;

		raw_nack_frag(&w, little, 2, 40, 2);
		assert_int_equal(first_of(&w, w.length, &s, NULL), APUS_WIRE_ACCEPT);
		assert_int_equal(s.nack_frag.seq, 2);
		assert_int_equal(s.nack_frag.set.base, 40);
		assert_int_equal(s.nack_frag.count, 3);
		assert_false(apus_wire_fragset_test(&s.nack_frag.set, 39));
		assert_true(apus_wire_fragset_test(&s.nack_frag.set, 41));
		assert_false(apus_wire_fragset_test(&s.nack_frag.set, 42));
		check_truncated(&w);
		check_short_body(&w, 32);
		raw_nack_frag(&w, little, 0, 40, 2);
		assert_int_equal(verdict_of(&w), APUS_WIRE_MALFORMED);
		raw_nack_frag(&w, little, 2, 0, 2);
		assert_int_equal(verdict_of(&w), APUS_WIRE_MALFORMED);
		raw_nack_frag(&w, little, 2, 1, 257);
		assert_int_equal(verdict_of(&w), APUS_WIRE_MALFORMED);
		raw_nack_frag(&w, little, 2, UINT32_MAX, 2); /* base + bits wraps */
		assert_int_equal(verdict_of(&w), APUS_WIRE_MALFORMED);
	}
}

/* --- The iterator --------------------------------------------------------------------------------- */

/* Vendor, secure and reserved submessages are passed over by their length, in either byte order. */
static void test_unknown_skipped(void **state)
{
	(void)state;
	static const uint8_t ids[] = {0x00, 0x02, 0x30, 0x34, 0x80, 0xff};

	for (size_t i = 0; i < sizeof(ids); i++) {
		struct raw w;
		struct apus_wire_message m;
		struct apus_wire_submessage s;

		raw_begin(&w, i % 2);
		raw_open(&w, ids[i], 0);
		raw_fill(&w, 0, 8);
		raw_close(&w);
		raw_open(&w, APUS_WIRE_INFO_DST, 0);
		raw_fill(&w, 1, 12);
		raw_close(&w);
		assert_int_equal(apus_wire_open(&m, w.bytes, w.length), APUS_WIRE_ACCEPT);
		assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_SKIP);
		assert_int_equal(s.id, ids[i]);
		assert_int_equal(s.bytes, 8);
		assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_ACCEPT);
		assert_int_equal(s.id, APUS_WIRE_INFO_DST);
		assert_int_equal(s.offset, 32);
		assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_END);
		assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_END);
	}
}

/* Length 0: the rest of the message, but nothing for PAD and INFO_TS (§9.4.5.1.3). */
static void test_length_zero(void **state)
{
	(void)state;
	struct raw w;
	struct apus_wire_message m;
	struct apus_wire_submessage s;

	raw_begin(&w, true);
	raw_open(&w, APUS_WIRE_PAD, 0);
	raw_open(&w, APUS_WIRE_DATA, 0x04);
	raw_u16(&w, 0);
	raw_u16(&w, 16);
	raw_eid(&w, 0);
	raw_eid(&w, 0x102);
	raw_seq(&w, 1);
	raw_fill(&w, 0, 9);
	assert_int_equal(apus_wire_open(&m, w.bytes, w.length), APUS_WIRE_ACCEPT);
	assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_ACCEPT);
	assert_int_equal(s.id, APUS_WIRE_PAD);
	assert_int_equal(s.bytes, 0);
	assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_ACCEPT);
	assert_int_equal(s.id, APUS_WIRE_DATA);
	assert_int_equal(s.bytes, 29);
	assert_int_equal(s.data.payload_bytes, 9);
	assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_END);
}

/* Only the last submessage may end off a multiple of 4; 1 … 3 bytes are no submessage header. */
static void test_alignment_and_rest(void **state)
{
	(void)state;
	struct raw w;
	struct apus_wire_message m;
	struct apus_wire_submessage s;

	raw_begin(&w, true);
	raw_open(&w, APUS_WIRE_PAD, 0);
	raw_fill(&w, 0, 6);
	raw_close(&w);
	assert_int_equal(verdict_of(&w), APUS_WIRE_ACCEPT);
	raw_open(&w, APUS_WIRE_PAD, 0);
	assert_int_equal(verdict_of(&w), APUS_WIRE_MALFORMED);

	raw_begin(&w, true);
	raw_open(&w, APUS_WIRE_PAD, 0);
	raw_fill(&w, 0x80, 3);
	assert_int_equal(apus_wire_open(&m, w.bytes, w.length), APUS_WIRE_ACCEPT);
	assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_ACCEPT);
	assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_MALFORMED);
	assert_int_equal(s.offset, 24);
	assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_END);
}

/* What stood before a malformed submessage was delivered; what stands behind it is not. */
static void test_malformed_ends(void **state)
{
	(void)state;
	struct raw w;
	struct apus_wire_message m;
	struct apus_wire_submessage s;

	raw_begin(&w, true);
	raw_open(&w, APUS_WIRE_INFO_DST, 0);
	raw_fill(&w, 1, 12);
	raw_close(&w);
	raw_open(&w, APUS_WIRE_INFO_DST, 0);
	raw_fill(&w, 9, 8);
	raw_close(&w);
	raw_open(&w, APUS_WIRE_PAD, 0);
	assert_int_equal(apus_wire_open(&m, w.bytes, w.length), APUS_WIRE_ACCEPT);
	assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_ACCEPT);
	assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_MALFORMED);
	assert_int_equal(m.receiver.dest.bytes[0], 1); /* not half changed */
	assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_END);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_header),          cmocka_unit_test(test_heartbeat),
		cmocka_unit_test(test_heartbeat_rules), cmocka_unit_test(test_heartbeat_group_tail),
		cmocka_unit_test(test_heartbeat_frag),  cmocka_unit_test(test_acknack),
		cmocka_unit_test(test_acknack_rules),   cmocka_unit_test(test_gap),
		cmocka_unit_test(test_nack_frag),       cmocka_unit_test(test_unknown_skipped),
		cmocka_unit_test(test_length_zero),     cmocka_unit_test(test_alignment_and_rest),
		cmocka_unit_test(test_malformed_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
