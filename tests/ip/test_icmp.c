/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: echo requests and unused ports are answered as RFC 792, RFC 1122 and RFC 4443 want, within a rate, and never
 * to what everybody was sent.
 * Method: frames by hand against one engine, answers compared byte for byte.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/ip/link.h"

static int set_up(void **state)
{
	struct link *l = malloc(sizeof(*l));
	struct apus_ip_config c = link_config6(1);

	link_init(l);
	c.announce = false;
	link_add(l, &c);
	*state = l;
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

/* An ICMP message in a frame from 10.0.0.2. */
static uint32_t make_icmp(const char *message, uint32_t extra, uint8_t *frame)
{
	uint8_t body[1600] = {0};
	uint32_t bytes = link_hex(message, body) + extra;

	for (uint32_t i = bytes - extra; i < bytes; i++)
		body[i] = (uint8_t)i;
	body[2] = body[3] = 0;
	uint16_t sum = link_checksum(0, body, bytes);

	body[2] = (uint8_t)(sum >> 8);
	body[3] = (uint8_t)sum;
	uint32_t length = link_udp4(2, 1, 0, 0, body, bytes, frame);

	memmove(frame + 34, frame + 42, bytes);
	frame[16] = (uint8_t)((20 + bytes) >> 8);
	frame[17] = (uint8_t)(20 + bytes);
	frame[23] = 1;
	link_reseal4(frame);
	return length - 8;
}

static void echo_is_answered(void **state)
{
	struct link *l = *state;
	uint8_t frame[1600], want[1600];
	uint32_t bytes = make_icmp("0800 0000 1234 0001", 57, frame);

	assert_int_equal(link_input(l, 0, frame, bytes), APUS_IP_CONSUMED);
	assert_int_equal(l->frame_count, 1);
	make_icmp("0000 0000 1234 0001", 57, want);
	memcpy(want, frame + 6, 6);
	memcpy(want + 6, frame, 6);
	memcpy(want + 26, frame + 30, 4);
	memcpy(want + 30, frame + 26, 4);
	memcpy(want + 18, l->frames[0].data + 18, 2);
	link_reseal4(want);
	assert_int_equal(l->frames[0].bytes, bytes);
	assert_memory_equal(l->frames[0].data, want, bytes);
	/* The longest that fits. */
	bytes = make_icmp("0800 0000 1234 0001", 1472, frame);
	assert_int_equal(link_input(l, 0, frame, bytes), APUS_IP_CONSUMED);
	assert_int_equal(l->frames[1].bytes, 1514);
}

static void refused_messages(void **state)
{
	struct link *l = *state;
	uint8_t frame[1600];
	uint32_t bytes = make_icmp("0800 0000 1234 0001", 10, frame);

	frame[45] ^= 1;
	assert_int_equal(link_input(l, 0, frame, bytes), APUS_IP_DROPPED);
	bytes = make_icmp("0801 0000 1234 0001", 10, frame);
	assert_int_equal(link_input(l, 0, frame, bytes), APUS_IP_DROPPED);
	bytes = make_icmp("0800 0000 1234", 0, frame);
	assert_int_equal(link_input(l, 0, frame, bytes), APUS_IP_DROPPED);
	/* To everybody. */
	bytes = make_icmp("0800 0000 1234 0001", 10, frame);
	memset(frame, 0xff, 6);
	memset(frame + 30, 0xff, 4);
	link_reseal4(frame);
	assert_int_equal(link_input(l, 0, frame, bytes), APUS_IP_DROPPED);
	assert_int_equal(count(l, APUS_IP_DROP_ICMP), 4);
	/* An error, and an answer we have not asked for: noted. */
	bytes = make_icmp("0303 0000 0000 0000", 28, frame);
	assert_int_equal(link_input(l, 0, frame, bytes), APUS_IP_CONSUMED);
	bytes = make_icmp("0000 0000 1234 0001", 10, frame);
	assert_int_equal(link_input(l, 0, frame, bytes), APUS_IP_CONSUMED);
	assert_int_equal(count(l, APUS_IP_RX_ICMP), 2);
	assert_int_equal(l->frame_count, 0);
}

static void a_flood_is_answered_at_a_rate(void **state)
{
	struct link *l = *state;
	uint8_t frame[1600];
	uint32_t bytes = make_icmp("0800 0000 1234 0001", 10, frame);

	/* Two seconds at 10,000 a second. */
	for (uint32_t i = 0; i < 20000; i++) {
		l->now.ns += 100 * APUS_NS_PER_US;
		link_input(l, 0, frame, bytes);
	}
	assert_in_range(l->frame_count, 200, 212);
	assert_int_equal(count(l, APUS_IP_RATE_LIMITED), 20000 - l->frame_count);
	/* Not collected, they use at most half of the queue. */
	uint32_t before = l->frame_count;

	l->now.ns += APUS_NS_PER_SEC;
	for (uint32_t i = 0; i < 20000; i++) {
		struct apus_ip_datagram d;

		l->now.ns += 100 * APUS_NS_PER_MS;
		apus_ip_input(l->host[0], frame, bytes, 0, l->now, &d);
	}
	link_pump(l);
	assert_int_equal(l->frame_count - before, 32);
}

static void unused_ports(void **state)
{
	struct link *l = *state;
	uint8_t frame[128], want[128] = {0};
	uint32_t bytes = link_udp4(2, 1, 7400, 7411, "hello", 5, frame);

	l->refuse_ports = true;
	link_input(l, 0, frame, bytes);
	assert_int_equal(l->frame_count, 1);
	const uint8_t *got = l->frames[0].data;

	assert_int_equal(l->frames[0].bytes, 14 + 20 + 8 + 28);
	link_hex("020000000002 020000000001 0800 4500 0038", want);
	assert_memory_equal(got, want, 18);
	assert_int_equal(got[23], 1);
	assert_memory_equal(got + 26, "\x0a\0\0\1\x0a\0\0\2", 8);
	assert_int_equal(got[34], 3);
	assert_int_equal(got[35], 3);
	assert_int_equal(link_checksum(0, got + 34, 36), 0);
	assert_memory_equal(got + 42, frame + 14, 28);
	/* Ten a second, two at once. */
	for (uint32_t i = 0; i < 50; i++)
		link_input(l, 0, frame, bytes);
	assert_int_equal(l->frame_count, 2);
	/* Never for what everybody gets. */
	l->now.ns += 10 * APUS_NS_PER_SEC;
	memset(frame, 0xff, 6);
	memset(frame + 30, 0xff, 4);
	link_reseal4(frame);
	assert_int_equal(link_input(l, 0, frame, bytes), APUS_IP_UDP);
	assert_int_equal(l->frame_count, 2);
}

/* An ICMPv6 message from 2001:db8::2 (02:…:2) to us. */
static uint32_t make_icmp6(const char *message, uint8_t *frame)
{
	uint32_t bytes =
		link_hex("020000000001 020000000002 86dd 60000000 0000 3a 40"
			 "20010db8000000000000000000000002 20010db8000000000000000000000001",
			 frame);
	uint32_t body = link_hex(message, frame + bytes);
	uint8_t pseudo[40] = {0};

	frame[19] = (uint8_t)body;
	memcpy(pseudo, frame + 22, 32);
	pseudo[35] = (uint8_t)body;
	pseudo[39] = 58;
	uint16_t sum = link_checksum((uint16_t)~link_checksum(0, pseudo, 40), frame + bytes, body);

	frame[bytes + 2] = (uint8_t)(sum >> 8);
	frame[bytes + 3] = (uint8_t)sum;
	return bytes + body;
}

static void echo6_is_answered(void **state)
{
	struct link *l = *state;
	uint8_t frame[128], want[128];
	uint32_t bytes = make_icmp6("8000 0000 1234 0001 70696e6721", frame);

	assert_int_equal(link_input(l, 0, frame, bytes), APUS_IP_CONSUMED);
	assert_int_equal(l->frame_count, 1);
	make_icmp6("8100 0000 1234 0001 70696e6721", want);
	memcpy(want, frame + 6, 6);
	memcpy(want + 6, frame, 6);
	memcpy(want + 22, frame + 38, 16);
	memcpy(want + 38, frame + 22, 16);
	assert_int_equal(l->frames[0].bytes, bytes);
	assert_memory_equal(l->frames[0].data, want, bytes);
	frame[bytes - 1] ^= 1;
	assert_int_equal(link_input(l, 0, frame, bytes), APUS_IP_DROPPED);
	assert_int_equal(count(l, APUS_IP_DROP_ICMP), 1);
}

static void unused_ports6(void **state)
{
	struct link *l = *state;
	struct apus_ip_config c = link_config6(2);
	struct apus_ip_endpoint one = link_v6(1, 0);
	const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};

	c.announce = false;
	uint32_t host = link_add(l, &c);

	apus_ip_neighbour_set(l->host[host], &one, mac);
	l->refuse_ports = true;
	assert_int_equal(link_send(l, host, link_v6(1, 7411), "hello", 5), 0);
	assert_int_equal(l->frame_count, 2);
	const uint8_t *sent = l->frames[0].data, *got = l->frames[1].data;

	assert_int_equal(got[54], 1);
	assert_int_equal(got[55], 4);
	assert_memory_equal(got + 62, sent + 14, 48);
	assert_int_equal(apus_ip_count_get(l->host[host], APUS_IP_RX_ICMP), 1);
	/* A datagram in pieces is cited as if it had been whole. */
	static uint8_t payload[3000];

	l->now.ns += APUS_NS_PER_SEC;
	assert_int_equal(link_send(l, host, link_v6(1, 7411), payload, sizeof(payload)), 0);
	got = l->frames[l->frame_count - 1].data;
	assert_int_equal(got[54], 1);
	assert_int_equal(got[62 + 6], 17);
	assert_memory_equal(got + 62 + 40, "\x1c\xe8\x1c\xf3\x0b\xc0", 6);
	assert_int_equal(apus_ip_count_get(l->host[host], APUS_IP_RX_ICMP), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(echo_is_answered, set_up, tear_down),
		cmocka_unit_test_setup_teardown(refused_messages, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_flood_is_answered_at_a_rate, set_up, tear_down),
		cmocka_unit_test_setup_teardown(unused_ports, set_up, tear_down),
		cmocka_unit_test_setup_teardown(echo6_is_answered, set_up, tear_down),
		cmocka_unit_test_setup_teardown(unused_ports6, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
