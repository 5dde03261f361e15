/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: datagrams of IPv4 arrive as they were sent, bad ones not at all, and each refusal has its own counter.
 * Method: frames built by hand, byte for byte from the RFCs, against one engine; what an engine sends against
 * known bytes; each field broken in turn. Frames lie in allocations of exactly their length.
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
	struct apus_ip_config c = link_config(1);

	link_init(l);
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

static void known_frame_in(void **state)
{
	struct link *l = *state;
	/* As a kernel sends it: 10.0.0.2:7410 to 10.0.0.1:7411, "hello", not to be fragmented, padded. */
	const char *text =
		"020000000001 020000000002 0800 4500 0021 1234 4000 4011 1496 0a000002 0a000001"
		"1cf2 1cf3 000d 6e1a 68656c6c6f 00000000 00000000 00000000 00";
	uint8_t frame[128];
	uint32_t bytes = link_hex(text, frame);

	assert_int_equal(bytes, 60);
	assert_int_equal(link_input(l, 0, frame, bytes), APUS_IP_UDP);
	assert_int_equal(l->rx_count, 1);
	assert_int_equal(l->rx[0].bytes, 5);
	assert_memory_equal(l->rx[0].data, "hello", 5);
	struct apus_ip_endpoint from = link_v4(10, 0, 0, 2, 7410), to = link_v4(10, 0, 0, 1, 7411);

	assert_true(apus_ip_endpoint_equal(&l->rx[0].from, &from));
	assert_true(apus_ip_endpoint_equal(&l->rx[0].to, &to));
	assert_false(l->rx[0].multicast);
	assert_int_equal(apus_ip_count_get(l->host[0], APUS_IP_RX_UDP), 1);
}

static void known_frame_out(void **state)
{
	struct link *l = *state;
	const uint8_t mac[6] = {2, 0, 0, 0, 0, 2};
	struct apus_ip_endpoint to = link_v4(10, 0, 0, 2, 7411);
	uint8_t want[128];
	uint32_t bytes = link_udp4(1, 2, 7400, 7411, "hello", 5, want);

	assert_int_equal(apus_ip_neighbour_set(l->host[0], &to, mac), 0);
	assert_int_equal(link_send(l, 0, to, "hello", 5), 0);
	assert_int_equal(l->frame_count, 1);
	/* The identification is the engine's choice. */
	memcpy(want + 18, l->frames[0].data + 18, 2);
	link_reseal4(want);
	assert_int_equal(l->frames[0].bytes, bytes);
	assert_memory_equal(l->frames[0].data, want, bytes);
}

/* Breaks one field of a good frame and expects exactly one counter to move. */
static void expect_drop(struct link *l, uint8_t *frame, uint32_t bytes, enum apus_ip_count counter)
{
	uint64_t before[APUS_IP_COUNT_MAX];

	for (uint32_t i = 0; i < APUS_IP_COUNT_MAX; i++)
		before[i] = apus_ip_count_get(l->host[0], (enum apus_ip_count)i);
	assert_int_equal(link_input(l, 0, frame, bytes), APUS_IP_DROPPED);
	for (uint32_t i = 0; i < APUS_IP_COUNT_MAX; i++) {
		uint64_t moved = apus_ip_count_get(l->host[0], (enum apus_ip_count)i) - before[i];

		if (moved != (i == counter))
			fail_msg("%s moved by %u", apus_ip_count_name((enum apus_ip_count)i),
				 (unsigned)moved);
	}
	assert_int_equal(l->rx_count, 0);
}

struct broken {
	uint32_t at;
	uint8_t value;
	bool resealed;
	enum apus_ip_count counter;
};

static void each_field_broken(void **state)
{
	static const struct broken cases[] = {
		{5, 9, false, APUS_IP_DROP_NOT_OURS}, /* another MAC */
		{11, 1, false, APUS_IP_DROP_OWN},     /* our MAC as the source */
		{6, 3, false, APUS_IP_DROP_LINK},     /* a group as the source */
		{12, 0x88, false, APUS_IP_DROP_ETHERTYPE},
		{14, 0x65, true, APUS_IP_DROP_HEADER},  /* version 6 in a frame of 4 */
		{14, 0x44, false, APUS_IP_DROP_HEADER}, /* a header of 16 bytes */
		{14, 0x4f, false, APUS_IP_DROP_HEADER}, /* of 60, in a packet of 33 */
		{17, 0xff, false, APUS_IP_DROP_SHORT},  /* longer than the frame */
		{17, 19, false, APUS_IP_DROP_HEADER},   /* shorter than its header */
		{16, 7, false, APUS_IP_DROP_SHORT},
		{20, 0x80, true, APUS_IP_DROP_HEADER}, /* the reserved flag */
		{22, 63, false, APUS_IP_DROP_IP_CHECKSUM},
		{23, 6, true, APUS_IP_DROP_PROTOCOL}, /* TCP */
		{26, 224, true, APUS_IP_DROP_SOURCE},
		{26, 240, true, APUS_IP_DROP_SOURCE},
		{26, 255, true, APUS_IP_DROP_SOURCE},
		{26, 127, true, APUS_IP_DROP_SOURCE},
		{26, 0, true, APUS_IP_DROP_SOURCE},
		{29, 255, true, APUS_IP_DROP_SOURCE}, /* the broadcast address */
		{29, 1, true, APUS_IP_DROP_OWN},
		{33, 3, true, APUS_IP_DROP_NOT_OURS},
		{30, 239, true, APUS_IP_DROP_NOT_OURS}, /* a group not joined */
		{30, 127, true, APUS_IP_DROP_NOT_OURS},
		{39, 7, true, APUS_IP_DROP_UDP_LENGTH},
		{39, 14, true, APUS_IP_DROP_UDP_LENGTH}, /* longer than the packet */
		{41, 1, false, APUS_IP_DROP_UDP_CHECKSUM},
		{46, 'x', false, APUS_IP_DROP_UDP_CHECKSUM},
	};
	struct link *l = *state;
	uint8_t frame[128];

	for (uint32_t i = 0; i < APUS_ARRAY_LENGTH(cases); i++) {
		uint32_t bytes = link_udp4(2, 1, 7400, 7411, "hello", 5, frame);

		frame[cases[i].at] = cases[i].value;
		if (cases[i].resealed)
			link_reseal4(frame);
		expect_drop(l, frame, bytes, cases[i].counter);
	}
	uint32_t bytes = link_udp4(2, 1, 7400, 0, "hello", 5, frame);

	expect_drop(l, frame, bytes, APUS_IP_DROP_UDP_PORT);
}

static void each_length(void **state)
{
	struct link *l = *state;
	uint8_t frame[128];
	uint32_t bytes = link_udp4(2, 1, 7400, 7411, "hello", 5, frame);

	for (uint32_t n = 0; n < bytes; n++)
		expect_drop(l, frame, n, APUS_IP_DROP_SHORT);
	assert_int_equal(link_input(l, 0, frame, bytes), APUS_IP_UDP);
}

static void options_are_skipped(void **state)
{
	struct link *l = *state;
	uint8_t frame[128], with[128];
	uint32_t bytes = link_udp4(2, 1, 7400, 7411, "hello", 5, frame);

	memcpy(with, frame, 34);
	memset(with + 34, 1, 8); /* two words of "no operation" */
	memcpy(with + 42, frame + 34, bytes - 34);
	with[14] = 0x47;
	with[17] += 8;
	link_reseal4(with);
	assert_int_equal(link_input(l, 0, with, bytes + 8), APUS_IP_UDP);
	assert_memory_equal(l->rx[0].data, "hello", 5);
}

static void checksum_zero_and_partial(void **state)
{
	struct link *l = *state;
	struct apus_ip_config c = link_config(1);
	uint8_t frame[128];
	uint32_t bytes = link_udp4(2, 1, 7400, 7411, "hello", 5, frame);

	/* The pseudo-header's sum: 0a00 + 0002 + 0a00 + 0001 + 0011 + 000d. */
	frame[40] = 0x14;
	frame[41] = 0x21;
	expect_drop(l, frame, bytes, APUS_IP_DROP_UDP_CHECKSUM);
	c.accept_partial_checksums = true;
	c.mac[5] = 1;
	uint32_t lenient = link_add(l, &c);

	assert_int_equal(link_input(l, lenient, frame, bytes), APUS_IP_UDP);
	assert_int_equal(apus_ip_count_get(l->host[lenient], APUS_IP_RX_PARTIAL), 1);
	frame[41] = 0x22;
	assert_int_equal(link_input(l, lenient, frame, bytes), APUS_IP_DROPPED);
	frame[40] = frame[41] = 0;
	assert_int_equal(link_input(l, 0, frame, bytes), APUS_IP_UDP);
	/* What the port has verified is not looked at. */
	struct apus_ip_datagram d;

	frame[40] = 0x77;
	assert_int_equal(
		apus_ip_input(l->host[0], frame, bytes, APUS_IP_RX_UDP_CHECKSUM_GOOD, l->now, &d),
		APUS_IP_UDP);
}

static void super_frames(void **state)
{
	struct link *l = *state;
	static uint8_t payload[2000], frame[2100];
	uint32_t bytes = link_udp4(2, 1, 7400, 7411, payload, 1472, frame);

	assert_int_equal(link_input(l, 0, frame, bytes), APUS_IP_UDP);
	l->rx_count = 0;
	bytes = link_udp4(2, 1, 7400, 7411, payload, 1473, frame);
	expect_drop(l, frame, bytes, APUS_IP_DROP_OVERSIZE);
}

static void to_everybody(void **state)
{
	struct link *l = *state;
	uint8_t frame[128];
	uint32_t bytes = link_udp4(2, 255, 7400, 7411, "hello", 5, frame);

	memset(frame, 0xff, 6);
	assert_int_equal(link_input(l, 0, frame, bytes), APUS_IP_UDP);
	assert_true(l->rx[0].multicast);
	memset(frame + 30, 0xff, 4);
	link_reseal4(frame);
	assert_int_equal(link_input(l, 0, frame, bytes), APUS_IP_UDP);
	/* Unicast in a broadcast frame. */
	l->rx_count = 0;
	bytes = link_udp4(2, 1, 7400, 7411, "hello", 5, frame);
	memset(frame, 0xff, 6);
	expect_drop(l, frame, bytes, APUS_IP_DROP_NOT_OURS);
}

static void vlan_tags(void **state)
{
	struct link *l = *state;
	struct apus_ip_config c = link_config(1);
	struct apus_ip_datagram d;
	const uint8_t mac[6] = {2, 0, 0, 0, 0, 2};
	struct apus_ip_endpoint to = link_v4(10, 0, 0, 2, 7411);
	uint8_t plain[128], tagged[128];
	uint32_t bytes = link_udp4(2, 1, 7400, 7411, "hello", 5, plain);

	c.vlan_id = 42;
	c.vlan_priority = 5;
	uint32_t host = link_add(l, &c);

	memcpy(tagged, plain, 12);
	link_hex("8100a02a", tagged + 12);
	memcpy(tagged + 16, plain + 12, bytes - 12);
	assert_int_equal(link_input(l, host, tagged, bytes + 4), APUS_IP_UDP);
	assert_int_equal(link_input(l, host, plain, bytes), APUS_IP_DROPPED);
	assert_int_equal(apus_ip_count_get(l->host[host], APUS_IP_DROP_VLAN), 1);
	assert_int_equal(apus_ip_input(l->host[host], plain, bytes,
				       APUS_IP_RX_VLAN_STRIPPED | 0xa02a, l->now, &d),
			 APUS_IP_UDP);
	assert_int_equal(apus_ip_peek_port(tagged, bytes + 4), 7411);
	l->rx_count = 0;
	expect_drop(l, tagged, bytes + 4, APUS_IP_DROP_VLAN);
	for (uint32_t n = 14; n < 18; n++)
		assert_int_equal(link_input(l, host, tagged, n), APUS_IP_DROPPED);
	/* A priority tag is no VLAN. */
	tagged[14] = 0xa0;
	tagged[15] = 0;
	assert_int_equal(link_input(l, 0, tagged, bytes + 4), APUS_IP_UDP);
	/* Ours has the tag. */
	assert_int_equal(apus_ip_neighbour_set(l->host[host], &to, mac), 0);
	l->cut = true;
	assert_int_equal(link_send(l, host, to, "hello", 5), 0);
	link_hex("8100a02a0800", tagged);
	assert_memory_equal(l->frames[0].data + 12, tagged, 6);
	assert_int_equal(l->frames[0].bytes, bytes + 4);
}

static void peeked_ports(void **state)
{
	uint8_t frame[128];
	uint32_t bytes = link_udp4(2, 1, 7400, 7411, "hello", 5, frame);

	(void)state;
	assert_int_equal(apus_ip_peek_port(frame, bytes), 7411);
	for (uint32_t n = 0; n < 38; n++)
		assert_int_equal(apus_ip_peek_port(frame, n), 0);
	frame[20] = 0x20; /* a fragment */
	assert_int_equal(apus_ip_peek_port(frame, bytes), 0);
	frame[20] = 0;
	frame[23] = 6;
	assert_int_equal(apus_ip_peek_port(frame, bytes), 0);
}

static void refused_to_send(void **state)
{
	struct link *l = *state;
	static uint8_t payload[APUS_IP_PAYLOAD_MAX_BYTES + 1];
	struct iovec part = {payload, 1};
	struct apus_ip_send send;
	struct apus_ip_endpoint to = link_v4(10, 0, 0, 1, 7411);

	assert_int_equal(link_send(l, 0, to, payload, 1), APUS_EINVAL); /* ourselves */
	assert_int_equal(link_send(l, 0, link_v4(10, 0, 0, 2, 0), payload, 1), APUS_EINVAL);
	assert_int_equal(link_send(l, 0, link_v4(127, 0, 0, 1, 7), payload, 1), APUS_EINVAL);
	assert_int_equal(link_send(l, 0, link_v4(0, 0, 0, 0, 7), payload, 1), APUS_EINVAL);
	assert_int_equal(link_send(l, 0, link_v4(239, 0, 0, 1, 7), payload, sizeof(payload)),
			 APUS_EINVAL);
	to = link_v4(10, 0, 0, 2, 7);
	assert_int_equal(apus_ip_send_begin(l->host[0], &to, 0, &part, 1, l->now, &send),
			 APUS_EINVAL);
	assert_int_equal(apus_ip_count_get(l->host[0], APUS_IP_TX_INVALID), 6);
	/* No gateway; no IPv6. */
	assert_int_equal(link_send(l, 0, link_v4(10, 0, 1, 2, 7), payload, 1), APUS_ENODEV);
	assert_int_equal(link_send(l, 0, link_v6(2, 7), payload, 1), APUS_ENODEV);
	assert_int_equal(apus_ip_count_get(l->host[0], APUS_IP_TX_NO_ROUTE), 2);
	assert_int_equal(l->frame_count, 0);
}

static void gathered_odd_parts(void **state)
{
	struct link *l = *state;
	struct iovec parts[4] = {{"a", 1}, {"bcd", 3}, {"", 0}, {"efghi", 5}};
	struct apus_ip_endpoint to = link_v4(239, 255, 0, 1, 7400);
	struct apus_ip_send send;
	struct apus_ip_frame f;
	uint8_t header[APUS_IP_HEADER_MAX_BYTES], want[64];

	assert_int_equal(apus_ip_send_begin(l->host[0], &to, 7400, parts, 4, l->now, &send), 0);
	assert_true(apus_ip_send_next(l->host[0], &send, header, &f));
	assert_int_equal(f.header_bytes, 42);
	assert_int_equal(f.payload_bytes, 9);
	assert_int_equal(f.link_bytes, 14);
	assert_int_equal(f.network_bytes, 20);
	link_udp4(1, 2, 7400, 7400, "abcdefghi", 9, want);
	memcpy(want, "\x01\x00\x5e\x7f\x00\x01", 6);
	memcpy(want + 30, to.ip + 12, 4);
	memcpy(want + 18, header + 18, 2);
	want[22] = 1; /* TTL */
	link_reseal4(want);
	assert_memory_equal(header, want, 42);
	assert_false(apus_ip_send_next(l->host[0], &send, header, &f));
}

static void checksums_left_to_hardware(void **state)
{
	struct link *l = *state;
	struct apus_ip_config c = link_config(1);
	struct apus_ip_endpoint to = link_v4(239, 255, 0, 1, 7400);
	struct iovec part = {"hello", 5};
	struct apus_ip_send send;
	struct apus_ip_frame f;
	uint8_t header[APUS_IP_HEADER_MAX_BYTES];

	c.udp_checksum = APUS_IP_UDP_HARDWARE;
	c.ipv4_checksum_hardware = true;
	uint32_t host = link_add(l, &c);

	assert_int_equal(apus_ip_send_begin(l->host[host], &to, 7400, &part, 1, l->now, &send), 0);
	assert_true(apus_ip_send_next(l->host[host], &send, header, &f));
	assert_int_equal(f.flags, APUS_IP_TX_IPV4_CHECKSUM | APUS_IP_TX_UDP_CHECKSUM);
	assert_memory_equal(header + 24, "\0\0", 2);
	/* 0a00 + 0001 + efff + 0001 + 0011 + 000d = fa1f */
	assert_memory_equal(header + 40, "\xfa\x1f", 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(known_frame_in, set_up, tear_down),
		cmocka_unit_test_setup_teardown(known_frame_out, set_up, tear_down),
		cmocka_unit_test_setup_teardown(each_field_broken, set_up, tear_down),
		cmocka_unit_test_setup_teardown(each_length, set_up, tear_down),
		cmocka_unit_test_setup_teardown(options_are_skipped, set_up, tear_down),
		cmocka_unit_test_setup_teardown(checksum_zero_and_partial, set_up, tear_down),
		cmocka_unit_test_setup_teardown(super_frames, set_up, tear_down),
		cmocka_unit_test_setup_teardown(to_everybody, set_up, tear_down),
		cmocka_unit_test_setup_teardown(vlan_tags, set_up, tear_down),
		cmocka_unit_test_setup_teardown(peeked_ports, set_up, tear_down),
		cmocka_unit_test_setup_teardown(refused_to_send, set_up, tear_down),
		cmocka_unit_test_setup_teardown(gathered_odd_parts, set_up, tear_down),
		cmocka_unit_test_setup_teardown(checksums_left_to_hardware, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
