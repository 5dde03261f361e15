/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: switches and routers learn of our groups: reports at once and again, answers to queries in every version, and
 * leaves; and frames of a group arrive exactly while it is joined.
 * Method: time as an argument; reports compared with the bytes the RFCs give; queries by hand, good and bad.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "apus/core.h"
#include "tests/ip/link.h"

static int set_up(void **state)
{
	struct link *l = malloc(sizeof(*l));
	struct apus_ip_config c = link_config6(1);

	link_init(l);
	c.announce = false;
	c.group_count = 4;
	link_add(l, &c);
	*state = l;
	link_run(l, 3 * APUS_NS_PER_SEC); /* our own addresses' groups are told */
	l->frame_count = 0;
	return 0;
}

static int tear_down(void **state)
{
	link_fini(*state);
	free(*state);
	return 0;
}

static uint64_t count(const struct link *l, enum apus_ip_count counter)
{
	return apus_ip_count_get(l->host[0], counter);
}

static void join(struct link *l, uint8_t n)
{
	struct apus_ip_endpoint g = link_v4(239, 255, 0, n, 0);

	assert_int_equal(apus_ip_join(l->host[0], &g, l->now), 0);
}

static void leave(struct link *l, uint8_t n)
{
	struct apus_ip_endpoint g = link_v4(239, 255, 0, n, 0);

	assert_int_equal(apus_ip_leave(l->host[0], &g, l->now), 0);
}

/* Joins without the reports. */
static void join_quietly(struct link *l, uint8_t n)
{
	join(l, n);
	link_run(l, 3 * APUS_NS_PER_SEC);
	l->frame_count = 0;
}

/* Expects frame `at` to be IGMP with that body and destination. */
static void expect_igmp(const struct link *l, uint32_t at, const char *to, const char *body)
{
	uint8_t want[256], address[4];
	const uint8_t *got = l->frames[at].data;
	uint32_t bytes = link_hex(body, want);

	assert_true(at < l->frame_count);
	link_hex(to, address);
	/* The group's MAC, IPv4 with router alert, TTL 1. */
	assert_memory_equal(got, "\1\0\x5e", 3);
	assert_int_equal(got[3], address[1] & 0x7f);
	assert_memory_equal(got + 4, address + 2, 2);
	assert_memory_equal(got + 14, "\x46\xc0", 2);
	assert_int_equal(got[17], 24 + bytes);
	assert_memory_equal(got + 22, "\1\2", 2);
	assert_int_equal(link_checksum(0, got + 14, 24), 0);
	assert_memory_equal(got + 30, address, 4);
	assert_memory_equal(got + 34, "\x94\4\0\0", 4);
	assert_int_equal(link_checksum(0, got + 38, bytes), 0);
	assert_memory_equal(got + 38, want, 2);
	assert_memory_equal(got + 42, want + 4, bytes - 4);
}

/* A message of IGMP from 10.0.0.254 with router alert. */
static enum apus_ip_verdict input_igmp(struct link *l, const char *to, const char *body,
				       uint8_t ttl)
{
	uint8_t frame[128] = {0};
	uint32_t bytes;

	link_hex("01005e000001 0200000000fe 0800 46c0 0000 0001 0000 01 02 0000 0a0000fe", frame);
	link_hex(to, frame + 30);
	frame[3] = frame[31] & 0x7f;
	memcpy(frame + 4, frame + 32, 2);
	link_hex("94040000", frame + 34);
	bytes = link_hex(body, frame + 38);
	frame[17] = (uint8_t)(24 + bytes);
	frame[22] = ttl;
	uint16_t sum = link_checksum(0, frame + 38, bytes);

	frame[40] = (uint8_t)(sum >> 8);
	frame[41] = (uint8_t)sum;
	link_reseal4(frame);
	return link_input(l, 0, frame, 38 + bytes);
}

static void joined_and_left(void **state)
{
	struct link *l = *state;

	join(l, 1);
	link_run(l, 3 * APUS_NS_PER_SEC);
	assert_int_equal(l->frame_count, 2);
	for (uint32_t i = 0; i < 2; i++)
		expect_igmp(l, i, "e0000016", "2200 0000 0000 0001 0400 0000 efff0001");
	join(l, 1); /* counted */
	leave(l, 1);
	link_run(l, 3 * APUS_NS_PER_SEC);
	assert_int_equal(l->frame_count, 2);
	leave(l, 1);
	link_run(l, 3 * APUS_NS_PER_SEC);
	assert_int_equal(l->frame_count, 4);
	for (uint32_t i = 2; i < 4; i++)
		expect_igmp(l, i, "e0000016", "2200 0000 0000 0001 0300 0000 efff0001");
	struct apus_ip_endpoint g = link_v4(239, 255, 0, 1, 0);

	assert_int_equal(apus_ip_leave(l->host[0], &g, l->now), APUS_ENOENT);
	assert_int_equal(apus_ip_due(l->host[0]).ns, INT64_MAX);
}

static void limits(void **state)
{
	struct link *l = *state;
	struct apus_ip_endpoint g = link_v4(239, 255, 0, 9, 0), host = link_v4(10, 0, 0, 2, 0);

	for (uint8_t n = 1; n <= 4; n++)
		join(l, n);
	assert_int_equal(apus_ip_join(l->host[0], &g, l->now), APUS_ELIMIT);
	assert_int_equal(apus_ip_join(l->host[0], &host, l->now), APUS_EINVAL);
	leave(l, 2); /* its place is free at once */
	assert_int_equal(apus_ip_join(l->host[0], &g, l->now), 0);
	/* The other family has its own. */
	for (uint8_t n = 1; n <= 5; n++) {
		const uint8_t address[16] = {0xff, 0x15, [15] = n};
		struct apus_ip_endpoint six = apus_ip_endpoint_v6(address, 0);

		assert_int_equal(apus_ip_join(l->host[0], &six, l->now), n <= 4 ? 0 : APUS_ELIMIT);
	}
	/* Those of our own addresses cannot be left. */
	const uint8_t node[16] = {0xff, 2, [11] = 1, [12] = 0xff, [15] = 1};
	struct apus_ip_endpoint own = apus_ip_endpoint_v6(node, 0);

	assert_int_equal(apus_ip_leave(l->host[0], &own, l->now), APUS_ENOENT);
	struct apus_ip_config c = link_config(3);
	const uint8_t address[16] = {0xff, 0x15, [15] = 1};
	struct apus_ip_endpoint six = apus_ip_endpoint_v6(address, 0);

	assert_int_equal(apus_ip_join(l->host[link_add(l, &c)], &six, l->now), APUS_ENODEV);
}

static void received_while_joined(void **state)
{
	struct link *l = *state;
	uint8_t frame[128];
	uint32_t bytes = link_udp4(2, 1, 7400, 7401, "hello", 5, frame);

	link_hex("01005e7f0001", frame);
	link_hex("efff0001", frame + 30);
	link_reseal4(frame);
	assert_int_equal(link_input(l, 0, frame, bytes), APUS_IP_DROPPED);
	join(l, 1);
	assert_int_equal(link_input(l, 0, frame, bytes), APUS_IP_UDP);
	assert_true(l->rx[0].multicast);
	/* 32 groups share a MAC: 239.127.0.1 is another. */
	frame[31] = 0x7f;
	link_reseal4(frame);
	assert_int_equal(link_input(l, 0, frame, bytes), APUS_IP_DROPPED);
	frame[31] = 0xff;
	link_reseal4(frame);
	leave(l, 1);
	assert_int_equal(link_input(l, 0, frame, bytes), APUS_IP_DROPPED);
	assert_int_equal(count(l, APUS_IP_DROP_NOT_OURS), 3);
}

static void answers_version_3(void **state)
{
	struct link *l = *state;

	join_quietly(l, 1);
	join_quietly(l, 2);
	/* A general query of 10 s: one report of all within that time. */
	assert_int_equal(input_igmp(l, "e0000001", "1164 0000 00000000 0000 0000", 1),
			 APUS_IP_CONSUMED);
	link_run(l, 10 * APUS_NS_PER_SEC);
	assert_int_equal(l->frame_count, 1);
	expect_igmp(l, 0, "e0000016", "2200 0000 0000 0002 0200 0000 efff0001 0200 0000 efff0002");
	/* One for a group, to that group. */
	assert_int_equal(input_igmp(l, "efff0002", "110a 0000 efff0002 0000 0000", 1),
			 APUS_IP_CONSUMED);
	link_run(l, APUS_NS_PER_SEC);
	assert_int_equal(l->frame_count, 2);
	expect_igmp(l, 1, "e0000016", "2200 0000 0000 0001 0200 0000 efff0002");
	/* A flood of queries makes few reports. */
	l->frame_count = 0;
	for (uint32_t i = 0; i < 1000; i++) {
		input_igmp(l, "e0000001", "1101 0000 00000000 0000 0000", 1);
		link_run(l, 10 * APUS_NS_PER_MS);
	}
	assert_true(l->frame_count <= 220);
}

static void answers_version_2(void **state)
{
	struct link *l = *state;

	join_quietly(l, 1);
	assert_int_equal(input_igmp(l, "e0000001", "1164 0000 00000000", 1), APUS_IP_CONSUMED);
	link_run(l, 10 * APUS_NS_PER_SEC);
	assert_int_equal(l->frame_count, 1);
	expect_igmp(l, 0, "efff0001", "1600 0000 efff0001");
	/* Another's report saves ours. */
	input_igmp(l, "e0000001", "1164 0000 00000000", 1);
	input_igmp(l, "efff0001", "1600 0000 efff0001", 1);
	link_run(l, 10 * APUS_NS_PER_SEC);
	assert_int_equal(l->frame_count, 1);
	/* A query of version 3 does not end it; leaving has its own message. */
	input_igmp(l, "e0000001", "1164 0000 00000000 0000 0000", 1);
	link_run(l, 10 * APUS_NS_PER_SEC);
	expect_igmp(l, 1, "efff0001", "1600 0000 efff0001");
	leave(l, 1);
	link_run(l, 3 * APUS_NS_PER_SEC);
	assert_int_equal(l->frame_count, 3);
	expect_igmp(l, 2, "e0000002", "1700 0000 efff0001");
	/* After 260 s without an older querier it is version 3 again. */
	link_run(l, 260 * APUS_NS_PER_SEC);
	join(l, 2);
	link_run(l, APUS_NS_PER_SEC / 100);
	expect_igmp(l, 3, "e0000016", "2200 0000 0000 0001 0400 0000 efff0002");
}

static void answers_version_1(void **state)
{
	struct link *l = *state;

	join_quietly(l, 1);
	assert_int_equal(input_igmp(l, "e0000001", "1100 0000 00000000", 1), APUS_IP_CONSUMED);
	link_run(l, 10 * APUS_NS_PER_SEC);
	assert_int_equal(l->frame_count, 1);
	expect_igmp(l, 0, "efff0001", "1200 0000 efff0001");
	leave(l, 1); /* it knows no message for that */
	link_run(l, 3 * APUS_NS_PER_SEC);
	assert_int_equal(l->frame_count, 1);
}

static void bad_queries(void **state)
{
	struct link *l = *state;

	join_quietly(l, 1);
	assert_int_equal(input_igmp(l, "e0000001", "1164 0000 00000000", 2),
			 APUS_IP_DROPPED); /* TTL */
	assert_int_equal(input_igmp(l, "efff0001", "1164 0000 00000000", 1), APUS_IP_DROPPED);
	assert_int_equal(input_igmp(l, "e0000001", "1164 0000 efff0001", 1), APUS_IP_DROPPED);
	assert_int_equal(input_igmp(l, "e0000001", "1164 0000 00000000 0000", 1), APUS_IP_DROPPED);
	assert_int_equal(input_igmp(l, "e0000001", "1164 0000 0000", 1), APUS_IP_DROPPED);
	assert_int_equal(count(l, APUS_IP_DROP_GROUP), 5);
	link_run(l, 20 * APUS_NS_PER_SEC);
	assert_int_equal(l->frame_count, 0);
}

/* --- MLD ------------------------------------------------------------------------------------------ */

static const char all_mld2[] = "ff020000000000000000000000000016";
static const char group6[] = "ff150000000000000000000000000001";

static void expect_mld(const struct link *l, uint32_t at, const char *to, const char *body)
{
	uint8_t want[256], address[16], pseudo[40] = {0};
	const uint8_t *got = l->frames[at].data;
	uint32_t bytes = link_hex(body, want);

	assert_true(at < l->frame_count);
	link_hex(to, address);
	assert_memory_equal(got, "\x33\x33", 2);
	assert_memory_equal(got + 2, address + 12, 4);
	/* Hop-by-hop options, hop limit 1, from the link-local address; router alert. */
	assert_int_equal(got[19], 8 + bytes);
	assert_memory_equal(got + 20, "\0\1\xfe\x80\0\0\0\0\0\0\0\0\0\xff\xfe\0\0\1", 18);
	assert_memory_equal(got + 38, address, 16);
	assert_memory_equal(got + 54, "\x3a\0\5\2\0\0\1\0", 8);
	memcpy(pseudo, got + 22, 32);
	pseudo[35] = (uint8_t)bytes;
	pseudo[39] = 58;
	assert_int_equal(link_checksum((uint16_t)~link_checksum(0, pseudo, 40), got + 62, bytes),
			 0);
	assert_memory_equal(got + 62, want, 2);
	assert_memory_equal(got + 66, want + 4, bytes - 4);
}

static enum apus_ip_verdict input_mld(struct link *l, const char *to, const char *body, bool alert,
				      uint8_t hops)
{
	uint8_t frame[256] = {0}, pseudo[40] = {0};
	uint32_t at = 54, bytes;

	link_hex(
		"333300000001 0200000000fe 86dd 60000000 0000 3a 01 fe8000000000000000000000000000fe",
		frame);
	link_hex(to, frame + 38);
	memcpy(frame + 2, frame + 50, 4);
	frame[21] = hops;
	if (alert) {
		frame[20] = 0;
		at += link_hex("3a00050200000100", frame + at);
	}
	bytes = link_hex(body, frame + at);
	frame[19] = (uint8_t)(at - 54 + bytes);
	memcpy(pseudo, frame + 22, 32);
	pseudo[35] = (uint8_t)bytes;
	pseudo[39] = 58;
	uint16_t sum = link_checksum((uint16_t)~link_checksum(0, pseudo, 40), frame + at, bytes);

	frame[at + 2] = (uint8_t)(sum >> 8);
	frame[at + 3] = (uint8_t)sum;
	return link_input(l, 0, frame, at + bytes);
}

#define QUERY_ALL "8200 0000 03e8 0000 00000000000000000000000000000000"

static struct apus_ip_endpoint six(void)
{
	uint8_t address[16];

	link_hex(group6, address);
	return apus_ip_endpoint_v6(address, 0);
}

static void mld_joined_and_left(void **state)
{
	struct link *l = *state;
	struct apus_ip_endpoint g = six();

	assert_int_equal(apus_ip_join(l->host[0], &g, l->now), 0);
	link_run(l, 3 * APUS_NS_PER_SEC);
	assert_int_equal(apus_ip_leave(l->host[0], &g, l->now), 0);
	link_run(l, 3 * APUS_NS_PER_SEC);
	assert_int_equal(l->frame_count, 4);
	expect_mld(l, 1, all_mld2,
		   "8f00 0000 0000 0001 0400 0000 ff150000000000000000000000000001");
	expect_mld(l, 3, all_mld2,
		   "8f00 0000 0000 0001 0300 0000 ff150000000000000000000000000001");
}

static void mld_answers(void **state)
{
	struct link *l = *state;
	struct apus_ip_endpoint g = six();

	assert_int_equal(apus_ip_join(l->host[0], &g, l->now), 0);
	link_run(l, 3 * APUS_NS_PER_SEC);
	l->frame_count = 0;
	assert_int_equal(
		input_mld(l, "ff020000000000000000000000000001", QUERY_ALL "02000000", true, 1),
		APUS_IP_CONSUMED);
	link_run(l, APUS_NS_PER_SEC);
	assert_int_equal(l->frame_count, 1);
	/* The group of both our addresses, which end alike, and the one joined. */
	assert_int_equal(l->frames[0].data[62], 143);
	assert_int_equal(l->frames[0].data[69], 2);
	/* Version 1: one message a group. */
	assert_int_equal(input_mld(l, "ff020000000000000000000000000001", QUERY_ALL, true, 1),
			 APUS_IP_CONSUMED);
	link_run(l, APUS_NS_PER_SEC);
	assert_int_equal(l->frame_count, 3);
	assert_int_equal(apus_ip_leave(l->host[0], &g, l->now), 0);
	link_run(l, APUS_NS_PER_SEC);
	expect_mld(l, 3, "ff020000000000000000000000000002",
		   "8400 0000 0000 0000 ff150000000000000000000000000001");
}

static void mld_bad_queries(void **state)
{
	struct link *l = *state;
	const char *all = "ff020000000000000000000000000001";

	assert_int_equal(input_mld(l, all, QUERY_ALL, true, 2), APUS_IP_DROPPED);
	assert_int_equal(input_mld(l, all, QUERY_ALL, false, 1), APUS_IP_DROPPED);
	assert_int_equal(input_mld(l, all, QUERY_ALL "0000", true, 1), APUS_IP_DROPPED);
	assert_int_equal(input_mld(l, all, "8200 0000 03e8 0000", true, 1), APUS_IP_DROPPED);
	assert_int_equal(count(l, APUS_IP_DROP_GROUP), 4);
	link_run(l, 20 * APUS_NS_PER_SEC);
	assert_int_equal(l->frame_count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(joined_and_left, set_up, tear_down),
		cmocka_unit_test_setup_teardown(limits, set_up, tear_down),
		cmocka_unit_test_setup_teardown(received_while_joined, set_up, tear_down),
		cmocka_unit_test_setup_teardown(answers_version_3, set_up, tear_down),
		cmocka_unit_test_setup_teardown(answers_version_2, set_up, tear_down),
		cmocka_unit_test_setup_teardown(answers_version_1, set_up, tear_down),
		cmocka_unit_test_setup_teardown(bad_queries, set_up, tear_down),
		cmocka_unit_test_setup_teardown(mld_joined_and_left, set_up, tear_down),
		cmocka_unit_test_setup_teardown(mld_answers, set_up, tear_down),
		cmocka_unit_test_setup_teardown(mld_bad_queries, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
