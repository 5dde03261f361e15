/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: neighbours are found, kept and given up as RFC 826 and RFC 5227 want, and nobody can make us believe a MAC
 * we have not asked for.
 * Method: two engines on a link, with time as an argument; forged packets against one of them.
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

	link_init(l);
	for (uint8_t n = 1; n <= 2; n++) {
		struct apus_ip_config c = link_config(n);

		c.announce = false;
		link_add(l, &c);
	}
	*state = l;
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

/* A packet of ARP from 02:…:MAC that says it has 10.0.0.SENDER, about 10.0.0.TARGET. */
static uint32_t make_arp(uint8_t mac, uint8_t operation, uint8_t sender, uint8_t target,
			 uint8_t *frame)
{
	link_hex("ffffffffffff 020000000000 0806 0001 0800 06 04 0000"
		 "020000000000 0a000000 000000000000 0a000000",
		 frame);
	frame[11] = frame[27] = mac;
	frame[21] = operation;
	frame[31] = sender;
	frame[41] = target;
	return 42;
}

static uint8_t mac_of(const struct link *l, uint8_t n)
{
	struct apus_ip_endpoint e = link_v4(10, 0, 0, n, 0);
	uint8_t mac[6] = {0};

	return apus_ip_neighbour_get(l->host[0], &e, mac) == 0 ? mac[5] : 0;
}

static void probes_find_who_has_our_address(void **state)
{
	struct link *l = *state;
	struct apus_ip_config c = link_config(2); /* host 1 has it; and another MAC */
	uint8_t frame[64], want[64], mac[6];
	struct apus_ip_datagram d;
	struct apus_ip *ip;
	const uint8_t *sent;
	uint32_t bytes;

	c.mac[5] = 9;
	assert_int_equal(apus_ip_create(&c, NULL, 0, &ip), 0);
	apus_ip_probe(ip);
	sent = apus_ip_next_control(ip, &bytes);
	link_hex("ffffffffffff 020000000009 0806 0001 0800 06 04 0001 020000000009 00000000"
		 "000000000000 0a000002",
		 want);
	assert_int_equal(bytes, 60);
	assert_memory_equal(sent, want, 42);
	assert_false(apus_ip_rival(ip, mac));
	/* Who has it answers, and is told nothing; nor is anybody who asks for it. */
	assert_int_equal(apus_ip_input(l->host[1], sent, bytes, 0, l->now, &d), APUS_IP_CONSUMED);
	sent = apus_ip_next_control(l->host[1], &bytes);
	assert_non_null(sent);
	assert_int_equal(apus_ip_input(ip, sent, bytes, 0, l->now, &d), APUS_IP_CONSUMED);
	assert_true(apus_ip_rival(ip, mac));
	assert_int_equal(mac[5], 2);
	assert_int_equal(apus_ip_count_get(ip, APUS_IP_ADDRESS_CONFLICT), 1);
	make_arp(7, 1, 7, 2, frame);
	assert_int_equal(apus_ip_input(ip, frame, 42, 0, l->now, &d), APUS_IP_CONSUMED);
	assert_null(apus_ip_next_control(ip, &bytes));
	/* Who probes for it at the same time wants it. */
	make_arp(8, 1, 0, 2, frame);
	memset(frame + 28, 0, 4);
	assert_int_equal(apus_ip_input(ip, frame, 42, 0, l->now, &d), APUS_IP_CONSUMED);
	assert_true(apus_ip_rival(ip, mac));
	assert_int_equal(mac[5], 8);
	/* From the first tick on it answers, and probes no more. */
	apus_ip_tick(ip, l->now);
	apus_ip_probe(ip);
	make_arp(7, 1, 7, 2, frame);
	assert_int_equal(apus_ip_input(ip, frame, 42, 0, l->now, &d), APUS_IP_CONSUMED);
	for (int i = 0; (sent = apus_ip_next_control(ip, &bytes)); i++)
		assert_int_equal(sent[31], 2); /* sender 10.0.0.2: no probe */
	apus_ip_destroy(ip);
}

static void asked_parked_sent(void **state)
{
	struct link *l = *state;
	struct apus_ip_endpoint to = link_v4(10, 0, 0, 2, 7411);
	uint8_t want[128];

	assert_int_equal(link_send(l, 0, to, "hello", 5), APUS_EAGAIN);
	/* The question, the answer, the datagram. */
	assert_int_equal(l->frame_count, 3);
	link_hex("ffffffffffff 020000000001 0806 0001 0800 06 04 0001 020000000001 0a000001"
		 "000000000000 0a000002",
		 want);
	assert_int_equal(l->frames[0].bytes, 60);
	assert_memory_equal(l->frames[0].data, want, 42);
	link_hex("020000000001 020000000002 0806 0001 0800 06 04 0002 020000000002 0a000002"
		 "020000000001 0a000001",
		 want);
	assert_memory_equal(l->frames[1].data, want, 42);
	assert_int_equal(l->rx_count, 1);
	assert_int_equal(l->rx[0].host, 1);
	assert_memory_equal(l->rx[0].data, "hello", 5);
	assert_int_equal(count(l, 0, APUS_IP_TX_PARKED), 1);
	/* Both know each other now. */
	assert_int_equal(link_send(l, 0, to, "again", 5), 0);
	assert_int_equal(link_send(l, 1, link_v4(10, 0, 0, 1, 7411), "back", 4), 0);
	assert_int_equal(l->rx_count, 3);
	assert_int_equal(l->frame_count, 5);
}

static void parked_in_order_and_bounded(void **state)
{
	struct link *l = *state;
	struct apus_ip_endpoint to = link_v4(10, 0, 0, 2, 7411);
	uint8_t frame[64], large[2049] = {0};

	l->cut = true;
	for (char i = '0'; i < '4'; i++)
		assert_int_equal(link_send(l, 0, to, &i, 1), APUS_EAGAIN);
	assert_int_equal(link_send(l, 0, to, "5", 1), APUS_ELIMIT); /* four a neighbour */
	assert_int_equal(count(l, 0, APUS_IP_TX_UNRESOLVED), 1);
	to.ip[15] = 3;
	assert_int_equal(link_send(l, 0, to, large, sizeof(large)), APUS_ELIMIT);
	assert_int_equal(count(l, 0, APUS_IP_TX_PARKED), 4);
	l->cut = false;
	uint32_t bytes = make_arp(2, 2, 2, 1, frame);

	link_input(l, 0, frame, bytes);
	assert_int_equal(l->rx_count, 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(l->rx[i].data[0], '0' + i);
}

static void nobody_answers(void **state)
{
	struct link *l = *state;
	struct apus_ip_endpoint to = link_v4(10, 0, 0, 9, 7411);

	assert_int_equal(link_send(l, 0, to, "hello", 5), APUS_EAGAIN);
	link_run(l, 5 * APUS_NS_PER_SEC / 2);
	assert_int_equal(l->frame_count, 3); /* asked three times */
	link_run(l, APUS_NS_PER_SEC);
	assert_int_equal(count(l, 0, APUS_IP_NEIGHBOUR_FAILED), 1);
	assert_int_equal(count(l, 0, APUS_IP_TX_UNRESOLVED), 1);
	assert_int_equal(link_send(l, 0, to, "hello", 5), APUS_ELIMIT);
	assert_int_equal(l->frame_count, 3);
	/* And forgotten, to be asked again. */
	link_run(l, 4 * APUS_NS_PER_SEC);
	assert_int_equal(link_send(l, 0, to, "hello", 5), APUS_EAGAIN);
	assert_int_equal(l->frame_count, 4);
}

static void unsolicited_is_not_believed(void **state)
{
	struct link *l = *state;
	uint8_t frame[64];
	uint32_t bytes = make_arp(7, 2, 2, 1, frame);

	/* An answer nobody asked for: no entry. */
	assert_int_equal(link_input(l, 0, frame, bytes), APUS_IP_CONSUMED);
	assert_int_equal(mac_of(l, 2), 0);
	assert_int_equal(count(l, 0, APUS_IP_NEIGHBOUR_UNSOLICITED), 1);
	/* A known neighbour, and somebody who claims to be it: we ask, and it answers. */
	link_send(l, 0, link_v4(10, 0, 0, 2, 7411), "hello", 5);
	assert_int_equal(mac_of(l, 2), 2);
	uint32_t before = l->frame_count;

	l->now.ns += 2 * APUS_NS_PER_SEC;
	for (uint32_t i = 0; i < 100; i++)
		link_input(l, 0, frame, bytes);
	bytes = make_arp(7, 1, 2, 2, frame); /* gratuitous */
	link_input(l, 0, frame, bytes);
	assert_int_equal(mac_of(l, 2), 2);
	assert_int_equal(count(l, 0, APUS_IP_NEIGHBOUR_REFUSED), 101);
	assert_int_equal(count(l, 0, APUS_IP_NEIGHBOUR_CHANGED), 0);
	assert_int_equal(l->frame_count - before, 2);
}

static void moved_address_is_found(void **state)
{
	struct link *l = *state;
	uint8_t frame[64];

	link_send(l, 0, link_v4(10, 0, 0, 2, 7411), "hello", 5);
	l->now.ns += 2 * APUS_NS_PER_SEC;
	l->cut = true; /* the old host is gone */
	link_input(l, 0, frame, make_arp(7, 1, 2, 2, frame));
	assert_int_equal(mac_of(l, 2), 2);
	link_input(l, 0, frame, make_arp(7, 2, 2, 1, frame));
	assert_int_equal(mac_of(l, 2), 7);
	assert_int_equal(count(l, 0, APUS_IP_NEIGHBOUR_CHANGED), 1);
	/* The first answer ends the wait. */
	link_input(l, 0, frame, make_arp(8, 2, 2, 1, frame));
	assert_int_equal(mac_of(l, 2), 7);
}

static void refused_packets(void **state)
{
	struct link *l = *state;
	uint8_t frame[64];
	uint32_t bytes;
	static const struct {
		uint8_t at, value;
	} cases[] = {
		{15, 6}, {16, 9}, {18, 8},  {19, 16},  {21, 0},
		{21, 3}, {27, 9}, {28, 11}, {28, 224}, {31, 255},
	};

	for (uint32_t i = 0; i < APUS_ARRAY_LENGTH(cases); i++) {
		bytes = make_arp(2, 1, 2, 1, frame);
		frame[cases[i].at] = cases[i].value;
		assert_int_equal(link_input(l, 0, frame, bytes), APUS_IP_DROPPED);
	}
	bytes = make_arp(2, 1, 2, 1, frame);
	for (uint32_t n = 14; n < bytes; n++)
		assert_int_equal(link_input(l, 0, frame, n), APUS_IP_DROPPED);
	assert_int_equal(count(l, 0, APUS_IP_DROP_ARP), APUS_ARRAY_LENGTH(cases) + 28);
	assert_int_equal(l->frame_count, 0);
	assert_int_equal(mac_of(l, 2), 0);
}

static void our_address_is_defended(void **state)
{
	struct link *l = *state;
	uint8_t frame[64], want[64];

	/* A probe is answered, a claim is met by one announcement in ten seconds. */
	link_input(l, 0, frame, make_arp(7, 1, 0, 1, frame));
	assert_int_equal(l->frame_count, 1);
	assert_memory_equal(l->frames[0].data + 20, "\0\2", 2);
	for (uint32_t i = 0; i < 50; i++)
		link_input(l, 0, frame, make_arp(7, 2, 1, 2, frame));
	assert_int_equal(count(l, 0, APUS_IP_ADDRESS_CONFLICT), 50);
	assert_int_equal(l->frame_count, 2);
	link_hex("ffffffffffff 020000000001 0806 0001 0800 06 04 0001 020000000001 0a000001"
		 "000000000000 0a000001",
		 want);
	assert_memory_equal(l->frames[1].data, want, 42);
}

static void floods_are_bounded(void **state)
{
	struct link *l = *state;
	uint8_t frame[64];
	uint32_t bytes, before;

	/* One host that is in use stays known, whatever others ask. */
	link_send(l, 0, link_v4(10, 0, 0, 2, 7411), "hello", 5);
	before = l->frame_count;
	for (uint32_t i = 0; i < 100000; i++) {
		bytes = make_arp((uint8_t)(i | 8), 1, (uint8_t)(3 + i % 250), 1, frame);
		frame[26] = frame[10] = (uint8_t)(i >> 8);
		apus_ip_input(l->host[0], frame, bytes, 0, l->now, NULL);
		if (i % 64 == 0)
			link_pump(l);
	}
	assert_int_equal(mac_of(l, 2), 2);
	assert_true(count(l, 0, APUS_IP_NEIGHBOUR_FULL) > 0);
	/* A tenth of a second's answers at once, and a question to each that claims another MAC. */
	assert_true(l->frame_count - before <= 102 + 128);
	assert_true(count(l, 0, APUS_IP_RATE_LIMITED) > 0);
	/* There is still place for those we want to speak to. */
	for (uint8_t n = 200; n < 210; n++)
		assert_true(link_send(l, 0, link_v4(10, 0, 0, n, 7411), "x", 1) <= 0);
	link_send(l, 0, link_v4(10, 0, 0, 2, 7411), "again", 5);
	assert_memory_equal(l->rx[l->rx_count - 1].data, "again", 5);
}

static void probed_while_in_use(void **state)
{
	struct link *l = *state;
	struct apus_ip_endpoint to = link_v4(10, 0, 0, 2, 7411);

	link_send(l, 0, to, "hello", 5);
	for (uint32_t i = 0; i < 35; i++) {
		assert_int_equal(link_send(l, 0, to, "hello", 5), 0);
		link_run(l, APUS_NS_PER_SEC);
	}
	/* One question to that MAC, one answer. */
	assert_int_equal(l->frame_count, 3 + 35 + 2);
	assert_int_equal(mac_of(l, 2), 2);
	/* Unused, it is forgotten. */
	link_run(l, 120 * APUS_NS_PER_SEC);
	assert_int_equal(mac_of(l, 2), 0);
}

static void a_dead_neighbour_is_noticed(void **state)
{
	struct link *l = *state;
	struct apus_ip_endpoint to = link_v4(10, 0, 0, 2, 7411);

	link_send(l, 0, to, "hello", 5);
	l->cut = true;
	for (uint32_t i = 0; i < 37; i++) {
		link_send(l, 0, to, "hello", 5);
		link_run(l, APUS_NS_PER_SEC);
	}
	assert_int_equal(count(l, 0, APUS_IP_NEIGHBOUR_FAILED), 1);
	assert_int_equal(mac_of(l, 2), 0);
	l->cut = false;
	link_run(l, 4 * APUS_NS_PER_SEC);
	uint32_t before = l->rx_count;

	link_send(l, 0, to, "hello", 5);
	assert_int_equal(l->rx_count, before + 1);
}

static void static_entries_and_gateway(void **state)
{
	struct link *l = *state;
	struct apus_ip_config c = link_config(5);
	const uint8_t mac[6] = {2, 0, 0, 0, 0, 0x55}, group[6] = {1, 0, 0x5e, 0, 0, 1};
	struct apus_ip_endpoint gateway = link_v4(10, 0, 0, 254, 0);
	uint8_t frame[64];

	memcpy(c.ipv4_gateway, gateway.ip + 12, 4);
	c.announce = false;
	uint32_t host = link_add(l, &c);

	assert_int_equal(apus_ip_neighbour_set(l->host[host], &gateway, group), APUS_EINVAL);
	struct apus_ip_endpoint far = link_v4(192, 168, 0, 1, 7411);

	assert_int_equal(apus_ip_neighbour_set(l->host[host], &far, mac), APUS_EINVAL);
	assert_int_equal(apus_ip_neighbour_set(l->host[host], &gateway, mac), 0);
	assert_int_equal(link_send(l, host, far, "hello", 5), 0);
	assert_int_equal(l->frame_count, 1);
	assert_memory_equal(l->frames[0].data, mac, 6);
	/* It neither ages nor changes. */
	link_run(l, 200 * APUS_NS_PER_SEC);
	link_input(l, host, frame, make_arp(7, 2, 254, 5, frame));
	l->frame_count = 0;
	assert_int_equal(link_send(l, host, far, "hello", 5), 0);
	assert_memory_equal(l->frames[0].data, mac, 6);
}

static void announced_at_the_start(void **state)
{
	struct link *l = *state;
	struct apus_ip_config c = link_config(5);

	link_add(l, &c);
	link_run(l, 5 * APUS_NS_PER_SEC);
	assert_int_equal(l->frame_count, 2);
	assert_memory_equal(l->frames[0].data + 28, "\x0a\0\0\5\0\0\0\0\0\0\x0a\0\0\5", 14);
	assert_int_equal(apus_ip_due(l->host[2]).ns, INT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(probes_find_who_has_our_address, set_up, tear_down),
		cmocka_unit_test_setup_teardown(asked_parked_sent, set_up, tear_down),
		cmocka_unit_test_setup_teardown(parked_in_order_and_bounded, set_up, tear_down),
		cmocka_unit_test_setup_teardown(nobody_answers, set_up, tear_down),
		cmocka_unit_test_setup_teardown(unsolicited_is_not_believed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(moved_address_is_found, set_up, tear_down),
		cmocka_unit_test_setup_teardown(refused_packets, set_up, tear_down),
		cmocka_unit_test_setup_teardown(our_address_is_defended, set_up, tear_down),
		cmocka_unit_test_setup_teardown(floods_are_bounded, set_up, tear_down),
		cmocka_unit_test_setup_teardown(probed_while_in_use, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_dead_neighbour_is_noticed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(static_entries_and_gateway, set_up, tear_down),
		cmocka_unit_test_setup_teardown(announced_at_the_start, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
