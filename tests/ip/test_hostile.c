/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: whatever arrives between them, good datagrams get through, every frame dropped is counted once, and what the
 * engine says itself stays within its rates.
 * Method: frames of every kind, mutated, cut and random, ten times as many as those of a stream with large datagrams
 * between two hosts; frames lie in allocations of exactly their length. A fixed sequence of numbers.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/ip/link.h"

static uint32_t storm_frames = 100000;

static uint64_t dice = 2463534242u;

static uint32_t roll(uint32_t below)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return (uint32_t)(dice >> 20) % below;
}

static int set_up(void **state)
{
	struct link *l = malloc(sizeof(*l));

	link_init(l);
	for (uint8_t n = 1; n <= 2; n++) {
		struct apus_ip_config c = link_config6(n);

		link_add(l, &c);
	}
	*state = l;
	link_run(l, 5 * APUS_NS_PER_SEC);
	return 0;
}

static int tear_down(void **state)
{
	link_fini(*state);
	free(*state);
	return 0;
}

static uint64_t drops(const struct apus_ip *ip)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < APUS_IP_COUNT_MAX; i++)
		if (strncmp(apus_ip_count_name((enum apus_ip_count)i), "drop.", 5) == 0)
			sum += apus_ip_count_get(ip, (enum apus_ip_count)i);
	return sum;
}

/* Well-formed frames to begin with, for 02:…:2 10.0.0.2. */
static uint32_t template(uint32_t kind, uint8_t *frame)
{
	static const uint8_t data[600];
	uint32_t bytes;

	switch (kind) {
	case 0: return link_udp4((uint8_t)(3 + roll(250)), 2, 7400, 7411, data, roll(600), frame);
	case 1: /* a first piece, or one in the middle */
		bytes = link_udp4((uint8_t)(3 + roll(250)), 2, 7400, 7411, data,
				  8 * (30 + roll(40)), frame);
		frame[19] = (uint8_t)roll(4);
		frame[20] = 0x20;
		frame[21] = (uint8_t)roll(90);
		link_reseal4(frame);
		return bytes;
	case 2: /* questions and answers of ARP */
		bytes = link_hex(
			"ffffffffffff 020000000007 0806 0001 0800 06 04 0001 020000000007 0a000007"
			"000000000000 0a000002",
			frame);
		frame[21] = (uint8_t)(1 + roll(2));
		frame[31] = (uint8_t)roll(256);
		frame[26] = frame[10] = (uint8_t)roll(256);
		return bytes;
	case 3: /* an echo request */
		bytes = link_hex(
			"020000000002 020000000007 0800 4500 001c 0001 0000 40 01 0000 0a000007 0a000002"
			"0800 f7ff 0000 0000",
			frame);
		link_reseal4(frame);
		return bytes;
	case 4: /* a query of IGMP */
		bytes = link_hex(
			"01005e000001 020000000007 0800 4600 0024 0001 0000 01 02 0000 0a000007 e0000001"
			"94040000 1164 ee9b 00000000 00000000",
			frame);
		link_reseal4(frame);
		return bytes;
	case 5: /* pieces over IPv6 */
		bytes = link_hex("020000000002 020000000007 86dd 60000000 0110 2c 40"
				 "20010db8000000000000000000000007 20010db8000000000000000000000002"
				 "11 00 0001 00000001",
				 frame);
		frame[57] = (uint8_t)(roll(32) * 8 + 1);
		frame[61] = (uint8_t)roll(256);
		frame[37] = (uint8_t)(3 + roll(250));
		memset(frame + bytes, 0, 264);
		return bytes + 264;
	default: break;
	}
	bytes = roll(200);
	for (uint32_t i = 0; i < bytes; i++)
		frame[i] = (uint8_t)roll(256);
	if (bytes >= 14 && roll(2))
		link_hex("020000000002 020000000007 0800 45", frame);
	return bytes;
}

static uint32_t hostile_frame(uint8_t *frame)
{
	uint32_t bytes = template(roll(7), frame);

	if (bytes && roll(3) == 0)
		for (uint32_t i = roll(4); i > 0; i--)
			frame[roll(bytes)] = (uint8_t)roll(256);
	/* Mutated, and its checksum right again. */
	if (roll(4) == 0 && bytes > 34 && frame[12] == 8 && frame[13] == 0 &&
	    ((uint32_t)frame[16] << 8 | frame[17]) + 14 <= bytes)
		link_reseal4(frame);
	return roll(8) == 0 ? roll(bytes + 1) : bytes;
}

static void a_stream_in_a_storm(void **state)
{
	struct link *l = *state;
	static uint8_t payload[9000];
	uint8_t frame[2000];
	uint64_t dropped = drops(l->host[1]);
	uint32_t arrived = 0, sent = 0;

	assert_true(link_send(l, 0, link_v4(10, 0, 0, 2, 7411), payload, 1) <= 0);
	for (uint32_t i = 0; i < storm_frames; i++) {
		uint32_t bytes = hostile_frame(frame);
		enum apus_ip_verdict verdict = link_input(l, 1, frame, bytes);

		dropped += verdict == APUS_IP_DROPPED;
		assert_in_range(verdict, APUS_IP_UDP, APUS_IP_DROPPED);
		l->now.ns += 10 * APUS_NS_PER_US;
		if (i % 50)
			continue;
		l->rx_count = 0;
		payload[0] = (uint8_t)i;
		bytes = i % 100 ? 9000 : 64;
		apus_ip_tick(l->host[0], l->now);
		apus_ip_tick(l->host[1], l->now);
		link_pump(l);
		assert_int_equal(link_send(l, 0, link_v4(10, 0, 0, 2, 7411), payload, bytes), 0);
		sent++;
		for (uint32_t k = 0; k < l->rx_count; k++)
			arrived += l->rx[k].host == 1 && l->rx[k].bytes == bytes &&
				   l->rx[k].data[0] == payload[0];
	}
	assert_int_equal(arrived, sent);
	assert_true(dropped > storm_frames / 10);
	/* 100,000 a second: what they made the host say is within the rates of all kinds. */
	assert_true(apus_ip_count_get(l->host[1], APUS_IP_TX_CONTROL) <
		    (storm_frames / 100000 + 1) * (1000 + 100 + 10 + 100));
	assert_int_equal(drops(l->host[1]), dropped);
}

/* An argument: how many hostile frames. */
int main(int argc, char **argv)
{
	if (argc > 1)
		storm_frames = (uint32_t)strtoul(argv[1], NULL, 10);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_stream_in_a_storm, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
