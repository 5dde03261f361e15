/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: IPv6 as RFC 8200 and RFC 4861 have it: datagrams with and without extensions, neighbours that are found by
 * solicitation and believed only if asked, addresses that are given up if somebody else has them.
 * Method: two engines on a link; frames by hand for what a good host never sends.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "apus/core.h"
#include "tests/ip/link.h"

#define OURS       "20010db8000000000000000000000001"
#define THEIRS     "20010db8000000000000000000000002"
#define NODE       "ff0200000000000000000001ff000001"
#define ALL_NODES  "ff020000000000000000000000000001"
#define NOWHERE    "00000000000000000000000000000000"
#define OPTION(n)  n "01 020000000002"
#define SOLICIT    "8700 0000 00000000"
#define ADVERTISED "8800 0000"

static int set_up(void **state)
{
	struct link *l = malloc(sizeof(*l));

	link_init(l);
	for (uint8_t n = 1; n <= 2; n++) {
		struct apus_ip_config c = link_config6(n);

		c.announce = false;
		link_add(l, &c);
	}
	*state = l;
	link_run(l, 3 * APUS_NS_PER_SEC);
	l->frame_count = 0;
	return 0;
}

static int tear_down(void **state)
{
	link_fini(*state);
	free(*state);
	return 0;
}

static uint64_t count(const struct link *l, uint32_t host, enum apus_ip_count counter)
{
	return apus_ip_count_get(l->host[host], counter);
}

/* A frame from 02:…:2 with that chain of headers behind the fixed one; the checksum of what begins `upper` bytes into it,
 * at `sum_at` there, is made right. */
static uint32_t make(uint8_t *frame, const char *from, const char *to, uint8_t next, uint8_t hops,
		     const char *chain, uint32_t upper, uint8_t protocol, uint32_t sum_at)
{
	uint32_t bytes;
	uint8_t pseudo[40] = {0}, *p;

	link_hex("020000000001 020000000002 86dd 60000000", frame);
	link_hex(from, frame + 22);
	link_hex(to, frame + 38);
	if (frame[38] == 0xff) {
		frame[0] = frame[1] = 0x33;
		memcpy(frame + 2, frame + 50, 4);
	}
	bytes = link_hex(chain, frame + 54);
	frame[18] = (uint8_t)(bytes >> 8);
	frame[19] = (uint8_t)bytes;
	frame[20] = next;
	frame[21] = hops;
	p = frame + 54 + upper;
	memcpy(pseudo, frame + 22, 32);
	pseudo[35] = (uint8_t)(bytes - upper);
	pseudo[39] = protocol;
	uint16_t sum = link_checksum((uint16_t)~link_checksum(0, pseudo, 40), p, bytes - upper);

	p[sum_at] = (uint8_t)(sum >> 8);
	p[sum_at + 1] = (uint8_t)sum;
	return 54 + bytes;
}

static enum apus_ip_verdict input_nd(struct link *l, const char *from, const char *to, uint8_t hops,
				     const char *message)
{
	uint8_t frame[256];

	return link_input(l, 0, frame, make(frame, from, to, 58, hops, message, 0, 58, 2));
}

static uint8_t mac_of(const struct link *l, uint8_t n)
{
	struct apus_ip_endpoint e = link_v6(n, 0);
	uint8_t mac[6] = {0};

	return apus_ip_neighbour_get(l->host[0], &e, mac) == 0 ? mac[5] : 0;
}

static void solicited_parked_sent(void **state)
{
	struct link *l = *state;
	uint8_t want[128];

	assert_int_equal(link_send(l, 0, link_v6(2, 7411), "hello", 5), APUS_EAGAIN);
	assert_int_equal(l->frame_count, 3);
	uint32_t bytes = link_hex("3333ff000002 020000000001 86dd 60000000 0020 3a ff" OURS
				  "ff0200000000000000000001ff000002 8700 0000 00000000" THEIRS
				  "0101 020000000001",
				  want);

	/* The checksum is checked below; the rest is literal. */
	memcpy(want + 56, l->frames[0].data + 56, 2);
	assert_int_equal(l->frames[0].bytes, bytes);
	assert_memory_equal(l->frames[0].data, want, bytes);
	bytes = link_hex("020000000001 020000000002 86dd 60000000 0020 3a ff" THEIRS OURS
			 "8800 0000 60000000" THEIRS "0201 020000000002",
			 want);
	memcpy(want + 56, l->frames[1].data + 56, 2);
	assert_memory_equal(l->frames[1].data, want, bytes);
	assert_int_equal(l->rx_count, 1);
	assert_memory_equal(l->rx[0].data, "hello", 5);
	struct apus_ip_endpoint from = link_v6(1, 7400), to = link_v6(2, 7411);

	assert_true(apus_ip_endpoint_equal(&l->rx[0].from, &from));
	assert_true(apus_ip_endpoint_equal(&l->rx[0].to, &to));
	assert_int_equal(link_send(l, 1, link_v6(1, 7411), "back", 4), 0);
	assert_int_equal(l->rx_count, 2);
}

static void sources_by_scope(void **state)
{
	struct link *l = *state;
	uint8_t address[16];

	link_hex("ff020000000000000000000000000033", address);
	assert_int_equal(link_send(l, 0, apus_ip_endpoint_v6(address, 7400), "x", 1), 0);
	assert_memory_equal(l->frames[0].data + 22 + 8, "\0\0\0\xff\xfe\0\0\1", 8);
	assert_memory_equal(l->frames[0].data + 22, "\xfe\x80", 2);
	assert_int_equal(l->frames[0].data[21], 1); /* hop limit */
	link_hex("ff1e0000000000000000ffffefff0001", address);
	assert_int_equal(link_send(l, 0, apus_ip_endpoint_v6(address, 7400), "x", 1), 0);
	assert_memory_equal(l->frames[1].data + 22, "\x20\1\xd\xb8", 4);
	assert_memory_equal(l->frames[1].data, "\x33\x33\xef\xff\0\1", 6);
	/* No router. */
	link_hex("20010db8000100000000000000000002", address);
	assert_int_equal(link_send(l, 0, apus_ip_endpoint_v6(address, 7400), "x", 1), APUS_ENODEV);
	struct apus_ip_endpoint own[3];

	assert_int_equal(apus_ip_addresses(l->host[0], own), 3);
	assert_int_equal(own[0].family, AF_INET);
	assert_memory_equal(own[1].ip, "\x20\1\xd\xb8", 4);
	assert_memory_equal(own[2].ip, "\xfe\x80\0\0\0\0\0\0\0\0\0\xff\xfe\0\0\1", 16);
}

#define HELLO "1ce8 1cf3 000d 0000 68656c6c6f"

struct chained {
	uint8_t next;
	uint32_t upper;
	const char *chain;
	enum apus_ip_verdict verdict;
	enum apus_ip_count counter; /* if dropped */
};

static void extensions(void **state)
{
	static const struct chained cases[] = {
		{17, 0, HELLO, APUS_IP_UDP, 0},
		{0, 8, "11000104 00000000" HELLO, APUS_IP_UDP, 0}, /* hop-by-hop, padding */
		{60, 16, "11011e0c 00000000 00000000 00000000" HELLO, APUS_IP_UDP,
		 0},                                                /* skippable option */
		{43, 8, "11000000 00000000" HELLO, APUS_IP_UDP, 0}, /* routing, used up */
		{44, 8, "11000000 00000007" HELLO, APUS_IP_UDP, 0}, /* a fragment that is all */
		{0, 24, "3c000104 00000000 2c000104 00000000 11000000 00000007" HELLO, APUS_IP_UDP,
		 0},
		{0, 8, "1100c104 00000000" HELLO, APUS_IP_DROPPED,
		 APUS_IP_DROP_HEADER}, /* option unknown */
		{0, 8, "11000105 00000000" HELLO, APUS_IP_DROPPED,
		 APUS_IP_DROP_HEADER}, /* too long */
		{0, 8, "11020104 00000000" HELLO, APUS_IP_DROPPED, APUS_IP_DROP_SHORT},
		{43, 8, "11000001 00000000" HELLO, APUS_IP_DROPPED,
		 APUS_IP_DROP_HEADER}, /* segments left */
		{60, 16, "00000104 00000000 11000104 00000000" HELLO, APUS_IP_DROPPED,
		 APUS_IP_DROP_HEADER},
		{59, 0, HELLO, APUS_IP_DROPPED, APUS_IP_DROP_PROTOCOL},
		{6, 0, HELLO, APUS_IP_DROPPED, APUS_IP_DROP_PROTOCOL},
		{44, 8, "3a000001 00000007" HELLO, APUS_IP_DROPPED, APUS_IP_DROP_FRAGMENT},
		{60, 0, "3c000104", APUS_IP_DROPPED, APUS_IP_DROP_SHORT},
		{60, 72,
		 "3c00010400000000 3c00010400000000 3c00010400000000 3c00010400000000 3c00010400000000"
		 "3c00010400000000 3c00010400000000 3c00010400000000 1100010400000000" HELLO,
		 APUS_IP_DROPPED, APUS_IP_DROP_HEADER},
	};
	struct link *l = *state;
	uint8_t frame[256];

	for (uint32_t i = 0; i < APUS_ARRAY_LENGTH(cases); i++) {
		const struct chained *c = &cases[i];
		uint64_t before = count(l, 0, c->counter);
		uint32_t bytes = make(frame, THEIRS, OURS, c->next, 64, c->chain, c->upper, 17, 6);

		if (strlen(c->chain) < 10)
			frame[60] = frame[61] = 0;
		enum apus_ip_verdict verdict = link_input(l, 0, frame, bytes);

		if (verdict != c->verdict)
			fail_msg("case %u: %d", i, verdict);
		if (verdict == APUS_IP_DROPPED)
			assert_int_equal(count(l, 0, c->counter), before + 1);
		else
			assert_memory_equal(l->rx[l->rx_count - 1].data, "hello", 5);
		for (uint32_t n = 14; n < bytes; n++)
			assert_int_equal(link_input(l, 0, frame, n), APUS_IP_DROPPED);
	}
}

static void refused_packets(void **state)
{
	struct link *l = *state;
	uint8_t frame[256];
	uint32_t bytes = make(frame, THEIRS, OURS, 17, 64, HELLO, 0, 17, 6);
	uint64_t before = count(l, 0, APUS_IP_DROP_NOT_OURS); /* the other's reports */

	/* The checksum is not optional. */
	frame[60] = frame[61] = 0;
	assert_int_equal(link_input(l, 0, frame, bytes), APUS_IP_DROPPED);
	assert_int_equal(count(l, 0, APUS_IP_DROP_UDP_CHECKSUM), 1);
	bytes = make(frame, THEIRS, "20010db8000000000000000000000003", 17, 64, HELLO, 0, 17, 6);
	link_input(l, 0, frame, bytes);
	bytes = make(frame, THEIRS, "ff020000000000000000000000000099", 17, 64, HELLO, 0, 17, 6);
	link_input(l, 0, frame, bytes);
	bytes = make(frame, THEIRS, OURS, 17, 64, HELLO, 0, 17, 6);
	memset(frame, 0xff, 6);
	link_input(l, 0, frame, bytes);
	assert_int_equal(count(l, 0, APUS_IP_DROP_NOT_OURS), before + 3);
	static const char *const sources[] = {NOWHERE, "00000000000000000000000000000001",
					      ALL_NODES, "00000000000000000000ffff0a000002"};

	for (uint32_t i = 0; i < APUS_ARRAY_LENGTH(sources); i++) {
		bytes = make(frame, sources[i], OURS, 17, 64, HELLO, 0, 17, 6);
		link_input(l, 0, frame, bytes);
	}
	assert_int_equal(count(l, 0, APUS_IP_DROP_SOURCE), 4);
	bytes = make(frame, OURS, OURS, 17, 64, HELLO, 0, 17, 6);
	link_input(l, 0, frame, bytes);
	assert_int_equal(count(l, 0, APUS_IP_DROP_OWN), 1);
	/* And of its use by another: a conflict, not a neighbour. */
	assert_int_equal(input_nd(l, OURS, NODE, 255, SOLICIT OURS OPTION("01")), APUS_IP_CONSUMED);
	assert_int_equal(count(l, 0, APUS_IP_ADDRESS_CONFLICT), 1);
	assert_int_equal(mac_of(l, 1), 0);
	assert_int_equal(input_nd(l, OURS, OURS, 255, "8000 0000 00000000"), APUS_IP_DROPPED);
	bytes = make(frame, THEIRS, OURS, 17, 64, HELLO, 0, 17, 6);
	frame[18] = frame[19] = 0; /* a jumbogram */
	link_input(l, 0, frame, bytes);
	frame[14] = 0x40;
	link_input(l, 0, frame, bytes);
	assert_int_equal(count(l, 0, APUS_IP_DROP_HEADER), 2);
	assert_int_equal(l->rx_count, 0);
	/* A group of all hosts needs no joining. */
	bytes = make(frame, THEIRS, ALL_NODES, 17, 64, HELLO, 0, 17, 6);
	assert_int_equal(link_input(l, 0, frame, bytes), APUS_IP_UDP);
	assert_true(l->rx[0].multicast);
	assert_int_equal(apus_ip_peek_port(frame, bytes), 7411);
}

static void only_asked_answers_count(void **state)
{
	struct link *l = *state;

	/* Unasked. */
	assert_int_equal(input_nd(l, THEIRS, OURS, 255, ADVERTISED "60000000" THEIRS OPTION("02")),
			 APUS_IP_CONSUMED);
	assert_int_equal(mac_of(l, 2), 0);
	assert_int_equal(count(l, 0, APUS_IP_NEIGHBOUR_UNSOLICITED), 1);
	/* A solicitation of us makes it known. */
	assert_int_equal(input_nd(l, THEIRS, NODE, 255, SOLICIT OURS OPTION("01")),
			 APUS_IP_CONSUMED);
	assert_int_equal(mac_of(l, 2), 2);
	assert_int_equal(l->frame_count, 1);
	assert_int_equal(l->frames[0].data[54], 136);
	/* Another MAC claimed: host 1 is asked, and denies it. */
	uint8_t frame[256];
	uint32_t bytes = make(frame, THEIRS, ALL_NODES, 58, 255,
			      ADVERTISED "20000000" THEIRS "0201 020000000007", 0, 58, 2);

	frame[11] = 7;
	assert_int_equal(link_input(l, 0, frame, bytes), APUS_IP_CONSUMED);
	assert_int_equal(mac_of(l, 2), 2);
	assert_int_equal(count(l, 0, APUS_IP_NEIGHBOUR_REFUSED), 1);
	assert_int_equal(l->frame_count, 3);
}

static void refused_discovery(void **state)
{
	struct link *l = *state;
	static const struct {
		const char *from, *to;
		uint8_t hops;
		const char *message;
	} cases[] = {
		{THEIRS, NODE, 254, SOLICIT OURS OPTION("01")}, /* through a router */
		{THEIRS, NODE, 255, "8701 0000 00000000" OURS OPTION("01")},
		{THEIRS, NODE, 255, SOLICIT ALL_NODES OPTION("01")},   /* a group's address */
		{THEIRS, NODE, 255, SOLICIT OURS "0100 020000000002"}, /* option without length */
		{THEIRS, NODE, 255, SOLICIT OURS "0102 020000000002"}, /* beyond the end */
		{THEIRS, NODE, 255, SOLICIT OURS "0101 020000000009"}, /* not the frame's source */
		{THEIRS, NODE, 255, SOLICIT "20010db80000"},
		{NOWHERE, NODE, 255, SOLICIT OURS OPTION("01")},
		{NOWHERE, OURS, 255, SOLICIT OURS},
		{"20020db8000000000000000000000002", NODE, 255, SOLICIT OURS OPTION("01")},
		{THEIRS, ALL_NODES, 255, ADVERTISED "40000000" THEIRS OPTION("02")},
	};

	for (uint32_t i = 0; i < APUS_ARRAY_LENGTH(cases); i++)
		if (input_nd(l, cases[i].from, cases[i].to, cases[i].hops, cases[i].message) !=
		    APUS_IP_DROPPED)
			fail_msg("case %u", i);
	assert_int_equal(count(l, 0, APUS_IP_DROP_ND), APUS_ARRAY_LENGTH(cases));
	assert_int_equal(l->frame_count, 0);
	assert_int_equal(mac_of(l, 2), 0);
	/* Routers may say what they want. */
	assert_int_equal(input_nd(l, "fe800000000000000000000000000009", ALL_NODES, 255,
				  "8600 0000 40000708 00000000 00000000"),
			 APUS_IP_CONSUMED);
}

static void our_address_is_defended(void **state)
{
	struct link *l = *state;

	/* Somebody probes for it: everybody is told. */
	assert_int_equal(input_nd(l, NOWHERE, NODE, 255, SOLICIT OURS), APUS_IP_CONSUMED);
	assert_int_equal(l->frame_count, 1);
	assert_memory_equal(l->frames[0].data, "\x33\x33\0\0\0\1", 6);
	assert_int_equal(l->frames[0].data[58], 0x20);
	for (uint32_t i = 0; i < 20; i++)
		input_nd(l, THEIRS, ALL_NODES, 255, ADVERTISED "20000000" OURS OPTION("02"));
	assert_int_equal(count(l, 0, APUS_IP_ADDRESS_CONFLICT), 20);
	assert_int_equal(l->frame_count, 2);
}

static void duplicates_are_detected(void **state)
{
	struct link *l = *state;
	struct apus_ip_config c = link_config6(5);
	uint8_t address[16];

	c.detect_duplicates = true;
	c.announce = false;
	c.ipv6_global[15] = 2; /* host 1 has it */
	uint32_t host = link_add(l, &c);

	link_hex("ff1e0000000000000000ffffefff0001", address);
	struct apus_ip_endpoint far = apus_ip_endpoint_v6(address, 7400);

	address[1] = 2;
	struct apus_ip_endpoint near = apus_ip_endpoint_v6(address, 7400);

	apus_ip_tick(l->host[host], l->now);
	link_pump(l);
	assert_int_equal(link_send(l, host, near, "x", 1), APUS_ENODEV);
	link_run(l, 2 * APUS_NS_PER_SEC);
	assert_int_equal(count(l, host, APUS_IP_ADDRESS_CONFLICT), 1);
	/* The link-local address is ours, the other is not. */
	assert_int_equal(link_send(l, host, near, "x", 1), 0);
	assert_int_equal(link_send(l, host, far, "x", 1), APUS_ENODEV);
	assert_int_equal(link_send(l, 0, link_v6(2, 7411), "hello", 5), APUS_EAGAIN);
	assert_int_equal(l->rx[l->rx_count - 1].host, 1);
}

static void probes_find_who_has_our_address(void **state)
{
	struct link *l = *state;
	struct apus_ip_config c = link_config6(5);
	struct apus_ip_datagram d;
	struct apus_ip *ip;
	const uint8_t *sent;
	uint8_t mac[6];
	uint32_t bytes, probes = 0;

	c.ipv6_global[15] = 2; /* host 1 has it */
	assert_int_equal(apus_ip_create(&c, NULL, 0, &ip), 0);
	apus_ip_tick(l->host[1], l->now);
	link_pump(l);
	apus_ip_probe(ip);
	while ((sent = apus_ip_next_control(ip, &bytes))) {
		if (sent[20] != 58)
			continue; /* not ICMPv6 right behind the header: IPv4's */
		probes++;
		apus_ip_input(l->host[1], sent, bytes, 0, l->now, &d);
	}
	assert_int_equal(probes, 2);
	assert_false(apus_ip_rival(ip, mac));
	while ((sent = apus_ip_next_control(l->host[1], &bytes)))
		apus_ip_input(ip, sent, bytes, 0, l->now, &d);
	assert_true(apus_ip_rival(ip, mac));
	assert_int_equal(mac[5], 2);
	assert_null(apus_ip_next_control(ip, &bytes));
	apus_ip_destroy(ip);
}

static void refused_configurations(void **state)
{
	struct apus_ip *ip = NULL;
	struct apus_ip_config c;
	char why[64];

#define REFUSED(change)                                                                   \
	do {                                                                              \
		c = link_config6(1);                                                      \
		change;                                                                   \
		why[0] = '\0';                                                            \
		assert_int_equal(apus_ip_create(&c, why, sizeof(why), &ip), APUS_EINVAL); \
		assert_true(strlen(why) > 5);                                             \
		assert_null(ip);                                                          \
	} while (0)
	(void)state;
	REFUSED(c.mac[0] = 3);
	REFUSED(memset(c.mac, 0, 6));
	REFUSED(c.ipv4_prefix_bits = 0);
	REFUSED(c.ipv4_prefix_bits = 33);
	REFUSED(c.ipv4[3] = 0);
	REFUSED(c.ipv4[3] = 255);
	REFUSED(c.ipv4[0] = 224);
	REFUSED(c.ipv4[0] = 127);
	REFUSED(memset(c.ipv4, 0, 4));
	REFUSED(memcpy(c.ipv4_gateway, c.ipv4, 4));
	REFUSED(memset(c.ipv4_gateway, 9, 4));
	REFUSED(c.ipv6 = false);
	REFUSED(c.ipv6_prefix_bits = 129);
	REFUSED(c.ipv6_global[0] = 0xff);
	REFUSED(memcpy(c.ipv6_global, "\xfe\x80", 2));
	REFUSED(memcpy(c.ipv6_gateway, c.ipv6_global, 16));
	REFUSED(c.mtu_bytes = 1279);
	REFUSED(c.mtu_bytes = 9217);
	REFUSED(c.vlan_id = 4095);
	REFUSED(c.vlan_priority = 1);
	REFUSED(c.ttl = 0);
	REFUSED(c.multicast_ttl = 0);
	REFUSED(c.neighbour_count = 3);
	REFUSED(c.group_count = 0);
	REFUSED(c.reassembly_count = 257);
	REFUSED(c.reassembly_per_source_count = 33);
	REFUSED(c.reassembly_timeout_ns = 0);
	REFUSED(c.fragment_min_bytes = 7);
	REFUSED(c.control_count = 7);
	REFUSED(c.parked_bytes = 63);
	REFUSED(c.parked_per_neighbour_count = 17);
	REFUSED(c.echo_rate = 0);
	c = link_config(1);
	c.mtu_bytes = 576;
	c.parked_count = 0;
	assert_int_equal(apus_ip_create(&c, NULL, 0, &ip), 0);
	apus_ip_destroy(ip);
}

static void counters_have_names(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < APUS_IP_COUNT_MAX; i++) {
		assert_non_null(strchr(apus_ip_count_name((enum apus_ip_count)i), '.'));
		for (uint32_t j = 0; j < i; j++)
			assert_string_not_equal(apus_ip_count_name((enum apus_ip_count)i),
						apus_ip_count_name((enum apus_ip_count)j));
	}
	assert_string_equal(apus_ip_count_name(APUS_IP_COUNT_MAX), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(solicited_parked_sent, set_up, tear_down),
		cmocka_unit_test_setup_teardown(sources_by_scope, set_up, tear_down),
		cmocka_unit_test_setup_teardown(extensions, set_up, tear_down),
		cmocka_unit_test_setup_teardown(refused_packets, set_up, tear_down),
		cmocka_unit_test_setup_teardown(only_asked_answers_count, set_up, tear_down),
		cmocka_unit_test_setup_teardown(refused_discovery, set_up, tear_down),
		cmocka_unit_test_setup_teardown(our_address_is_defended, set_up, tear_down),
		cmocka_unit_test_setup_teardown(duplicates_are_detected, set_up, tear_down),
		cmocka_unit_test_setup_teardown(probes_find_who_has_our_address, set_up, tear_down),
		cmocka_unit_test(refused_configurations),
		cmocka_unit_test(counters_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
