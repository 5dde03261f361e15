/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the interpreter submessages change the state of the receiver as RTPS 2.5 §8.3.8.8 … §8.3.8.12 say,
 * and a refused one changes nothing.
 *
 * Method: as in test_message.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/wire/raw.h"

static void test_info_ts(void **state)
{
	(void)state;
	FOR_BOTH_ORDERS(little)
	{
		struct raw w;
		struct apus_wire_submessage s;
		struct apus_wire_receiver r;

		raw_begin(&w, little);
		raw_open(&w, APUS_WIRE_INFO_TS, 0);
		raw_u32(&w, 1700000000);
		raw_u32(&w, 0x80000000);
		raw_close(&w);
		assert_int_equal(first_of(&w, w.length, &s, &r), APUS_WIRE_ACCEPT);
		assert_int_equal(r.timestamp.ns, INT64_C(1700000000500000000));
		check_truncated(&w);
		check_short_body(&w, 8);
	}
}

/* Set, then taken back by the invalidating form, which is empty, in the middle of a message. */
static void test_info_ts_invalidate(void **state)
{
	(void)state;
	struct raw w;
	struct apus_wire_message m;
	struct apus_wire_submessage s;

	raw_begin(&w, true);
	raw_open(&w, APUS_WIRE_INFO_TS, 0);
	raw_u32(&w, 5);
	raw_u32(&w, 0);
	raw_close(&w);
	raw_open(&w, APUS_WIRE_INFO_TS, 0x02);
	raw_open(&w, APUS_WIRE_PAD, 0);
	assert_int_equal(apus_wire_open(&m, w.bytes, w.length), APUS_WIRE_ACCEPT);
	assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_ACCEPT);
	assert_int_equal(m.receiver.timestamp.ns, 5 * APUS_NS_PER_SEC);
	assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_ACCEPT);
	assert_int_equal(s.id, APUS_WIRE_INFO_TS);
	assert_true(m.receiver.timestamp.ns == APUS_WALL_NONE.ns);
	assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_ACCEPT);
	assert_int_equal(s.id, APUS_WIRE_PAD);
	assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_END);

	/* Empty without the flag: there is no time stamp to take. */
	raw_begin(&w, true);
	raw_open(&w, APUS_WIRE_INFO_TS, 0);
	assert_int_equal(verdict_of(&w), APUS_WIRE_MALFORMED);
}

static void test_info_dst(void **state)
{
	(void)state;
	FOR_BOTH_ORDERS(little)
	{
		struct raw w;
		struct apus_wire_submessage s;
		struct apus_wire_receiver r;

		raw_begin(&w, little);
		raw_open(&w, APUS_WIRE_INFO_DST, 0);
		raw_fill(&w, 0x20, 12);
		raw_close(&w);
		assert_int_equal(first_of(&w, w.length, &s, &r), APUS_WIRE_ACCEPT);
		assert_true(r.has_dest);
		assert_int_equal(r.dest.bytes[0], 0x20);
		assert_int_equal(r.dest.bytes[11], 0x2b);
		check_truncated(&w);
		check_short_body(&w, 12);
		memset(w.bytes + 24, 0, 12); /* GUIDPREFIX_UNKNOWN: everybody */
		assert_int_equal(first_of(&w, w.length, &s, &r), APUS_WIRE_ACCEPT);
		assert_false(r.has_dest);
	}
}

/* A new source forgets the time stamp and the reply locators of the one before. */
static void test_info_src(void **state)
{
	(void)state;
	struct raw w;
	struct apus_wire_message m;
	struct apus_wire_submessage s;

	raw_begin(&w, true);
	raw_open(&w, APUS_WIRE_INFO_TS, 0);
	raw_u32(&w, 5);
	raw_u32(&w, 0);
	raw_close(&w);
	raw_open(&w, APUS_WIRE_INFO_REPLY_IP4, 0);
	raw_u32(&w, 0x7f000001);
	raw_u32(&w, 7411);
	raw_close(&w);
	raw_open(&w, APUS_WIRE_INFO_SRC, 0);
	raw_u32(&w, 0);
	raw_u8(&w, 2);
	raw_u8(&w, 1);
	raw_u8(&w, 0x01);
	raw_u8(&w, 0x10);
	raw_fill(&w, 0x80, 12);
	raw_close(&w);
	assert_int_equal(apus_wire_open(&m, w.bytes, w.length), APUS_WIRE_ACCEPT);
	assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_ACCEPT);
	assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_ACCEPT);
	assert_int_equal(m.receiver.unicast_reply.kind, APUS_LOCATOR_UDPV4);
	assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_ACCEPT);
	assert_int_equal(m.receiver.version_minor, 1);
	assert_int_equal(m.receiver.vendor, APUS_WIRE_VENDOR_CYCLONE);
	assert_int_equal(m.receiver.source.bytes[11], 0x8b);
	assert_true(m.receiver.timestamp.ns == APUS_WALL_NONE.ns);
	assert_int_equal(m.receiver.unicast_reply.kind, 0);

	raw_begin(&w, true);
	raw_open(&w, APUS_WIRE_INFO_SRC, 0);
	raw_fill(&w, 0, 20);
	raw_close(&w);
	check_truncated(&w);
	check_short_body(&w, 20);
}

static void raw_locator(struct raw *w, uint32_t kind, uint32_t port, uint8_t last)
{
	raw_u32(w, kind);
	raw_u32(w, port);
	raw_fill(w, 0, 15);
	raw_u8(w, last);
}

static void test_info_reply(void **state)
{
	(void)state;
	FOR_BOTH_ORDERS(little)
	{
		struct raw w;
		struct apus_wire_submessage s;
		struct apus_wire_receiver r;

		raw_begin(&w, little);
		raw_open(&w, APUS_WIRE_INFO_REPLY, 0x02);
		raw_u32(&w, 2);
		raw_locator(&w, 1, 7411, 9);
		raw_locator(&w, 2, 7412, 10);
		raw_u32(&w, 1);
		raw_locator(&w, 1, 7401, 11);
		raw_close(&w);
		assert_int_equal(first_of(&w, w.length, &s, &r), APUS_WIRE_ACCEPT);
		assert_int_equal(r.unicast_reply.kind, 1);
		assert_int_equal(r.unicast_reply.port, 7411);
		assert_int_equal(r.unicast_reply.address[15], 9);
		assert_int_equal(r.multicast_reply.port, 7401);
		assert_int_equal(r.multicast_reply.address[15], 11);
		check_truncated(&w);
		check_short_body(&w, w.length - 24);

		/* Counts that cannot be: 24 times them wraps in 32 bits. */
		memset(w.bytes + 24, 0xff, 4);
		assert_int_equal(verdict_of(&w), APUS_WIRE_MALFORMED);
		memset(w.bytes + 24, 0xaa, 4);
		assert_int_equal(verdict_of(&w), APUS_WIRE_MALFORMED);

		raw_begin(&w, little); /* empty list: none given */
		raw_open(&w, APUS_WIRE_INFO_REPLY, 0);
		raw_u32(&w, 0);
		raw_close(&w);
		assert_int_equal(first_of(&w, w.length, &s, &r), APUS_WIRE_ACCEPT);
		assert_int_equal(r.unicast_reply.kind, 0);
	}
}

static void test_info_reply_ip4(void **state)
{
	(void)state;
	FOR_BOTH_ORDERS(little)
	{
		struct raw w;
		struct apus_wire_submessage s;
		struct apus_wire_receiver r;

		raw_begin(&w, little);
		raw_open(&w, APUS_WIRE_INFO_REPLY_IP4, 0x02);
		raw_u32(&w, 0xc0000201);
		raw_u32(&w, 7411);
		raw_u32(&w, 0xefff0001);
		raw_u32(&w, 7401);
		raw_close(&w);
		assert_int_equal(first_of(&w, w.length, &s, &r), APUS_WIRE_ACCEPT);
		assert_int_equal(r.unicast_reply.kind, APUS_LOCATOR_UDPV4);
		assert_memory_equal(r.unicast_reply.address + 12, "\xc0\x00\x02\x01", 4);
		assert_int_equal(r.unicast_reply.port, 7411);
		assert_memory_equal(r.multicast_reply.address + 12, "\xef\xff\x00\x01", 4);
		check_truncated(&w);
		check_short_body(&w, 16);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_info_ts),    cmocka_unit_test(test_info_ts_invalidate),
		cmocka_unit_test(test_info_dst),   cmocka_unit_test(test_info_src),
		cmocka_unit_test(test_info_reply), cmocka_unit_test(test_info_reply_ip4),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
