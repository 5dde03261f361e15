/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: ports follow RTPS 2.5 §9.6.2.3, participant indices are claimed exclusively, and interface
 * specifications resolve or are refused with a reason. Method: known values; claims on 127.0.0.1 in
 * a domain nobody uses; the host's own loopback interface.
 */
#include "dataplane/io/netif.h"
#include "dataplane/io/ports.h"
#include "dataplane/io/transport.h"

#include <apus/core.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <fcntl.h>
#include <unistd.h>

#define DOMAIN 219

static void ports_of_known_participants(void **state)
{
	static const struct {
		uint32_t domain_id, participant_idx;
		struct apus_dp_ports ports;
	} known[] = {
		{0, 0, {7400, 7401, 7410, 7411}},         {0, 1, {7400, 7401, 7412, 7413}},
		{0, 119, {7400, 7401, 7648, 7649}},       {1, 0, {7650, 7651, 7660, 7661}},
		{231, 119, {65150, 65151, 65398, 65399}}, {232, 0, {65400, 65401, 65410, 65411}},
		{232, 62, {65400, 65401, 65534, 65535}},
	};
	struct apus_dp_ports ports;

	(void)state;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		assert_int_equal(
			apus_dp_ports_get(known[i].domain_id, known[i].participant_idx, &ports), 0);
		assert_memory_equal(&ports, &known[i].ports, sizeof(ports));
	}
}

static void ids_out_of_range_have_no_ports(void **state)
{
	struct apus_dp_ports ports = {1, 2, 3, 4};

	(void)state;
	assert_int_equal(apus_dp_ports_get(233, 0, &ports), APUS_EINVAL);
	assert_int_equal(apus_dp_ports_get(UINT32_MAX, 0, &ports), APUS_EINVAL);
	assert_int_equal(apus_dp_ports_get(0, 120, &ports), APUS_EINVAL);
	assert_int_equal(apus_dp_ports_get(0, UINT32_MAX, &ports), APUS_EINVAL);
	assert_int_equal(apus_dp_ports_get(232, 63, &ports), APUS_EINVAL);
	assert_int_equal(ports.meta_multicast, 1);
	assert_int_equal(ports.user_unicast, 4);
}

static struct apus_dp_port_claim claim(int participant_idx)
{
	struct apus_dp_port_claim c;

	assert_int_equal(apus_dp_port_claim(DOMAIN, participant_idx, true, NULL, 0, &c), 0);
	return c;
}

/* Two claims differ; a released index is found again; one asked for and taken is refused. */
static void claims_are_exclusive(void **state)
{
	struct apus_dp_port_claim a = claim(-1), b = claim(-1), c = {.participant_idx = 999};
	char why[128] = "";
	uint32_t first = a.participant_idx;

	(void)state;
	assert_true(b.participant_idx > first);
	assert_int_equal(a.ports.meta_unicast, 7400 + 250 * DOMAIN + 10 + 2 * (int)first);
	assert_int_equal(apus_dp_port_claim(DOMAIN, (int)first, true, why, sizeof(why), &c),
			 APUS_EADDRINUSE);
	assert_non_null(strstr(why, "taken"));
	assert_int_equal(c.participant_idx, 999);
	apus_dp_port_claim_release(&a);
	assert_int_equal(a.meta_fd, -1);
	a = claim(-1);
	assert_int_equal(a.participant_idx, first);
	apus_dp_port_claim_release(&a);
	apus_dp_port_claim_release(&a);
	apus_dp_port_claim_release(&b);
	apus_dp_port_claim_release(NULL);
}

/* One half taken by somebody else: the pair is passed over, and its other half is not kept. */
static void a_half_taken_pair_is_passed_over(void **state)
{
	struct apus_dp_port_claim a = claim(-1), b, c;

	(void)state;
	close(a.meta_fd);
	a.meta_fd = -1;
	b = claim(-1);
	assert_int_not_equal(b.participant_idx, a.participant_idx);
	close(a.user_fd);
	a.user_fd = -1;
	c = claim((int)a.participant_idx);
	apus_dp_port_claim_release(&b);
	apus_dp_port_claim_release(&c);
}

/* All 63 indices of the last domain: the next claim says so, as does one out of range. */
static void a_full_domain_is_refused(void **state)
{
	struct apus_dp_port_claim c[63], extra;
	char why[128] = "";
	int n = 0;

	(void)state;
	while (n < 63 && apus_dp_port_claim(232, -1, true, NULL, 0, &c[n]) == 0)
		n++;
	assert_true(n > 0);
	assert_int_equal(apus_dp_port_claim(232, -1, true, why, sizeof(why), &extra),
			 APUS_EADDRINUSE);
	assert_string_equal(why,
			    "domain 232: the ports of participant index 0 to 62 are all taken");
	assert_int_equal(apus_dp_port_claim(232, 63, true, why, sizeof(why), &extra), APUS_EINVAL);
	assert_int_equal(apus_dp_port_claim(233, -1, true, why, sizeof(why), &extra), APUS_EINVAL);
	assert_int_equal(apus_dp_port_claim(0, 120, true, why, sizeof(why), &extra), APUS_EINVAL);
	while (n > 0)
		apus_dp_port_claim_release(&c[--n]);
}

/* A queue takes over a claimed socket: same port, the descriptor closed, the index still held. */
static void a_queue_adopts_a_claim(void **state)
{
	struct apus_dp_port_claim a = claim(-1), b;
	struct apus_dp_queue_config config;
	struct apus_dp_queue *q = NULL;
	size_t count = 0;

	(void)state;
	apus_dp_queue_config_default(&config);
	apus_dp_netif_lookup("lo", NULL, 0, APUS_DP_NETIF_MAX, config.interfaces, &count);
	config.interface_count = (uint32_t)count;
	config.adopt_fd = true;
	config.unicast_fd = a.user_fd;
	config.rx_buffer_bytes = 1;
	assert_int_equal(apus_dp_queue_open(&config, NULL, 0, &q), APUS_EINVAL);
	assert_true(fcntl(a.user_fd, F_GETFD) >= 0); /* a refused open leaves it to us */
	config.rx_buffer_bytes = 2048;
	assert_int_equal(apus_dp_queue_open(&config, NULL, 0, &q), 0);
	assert_int_equal(q->unicast_port, a.ports.user_unicast);
	assert_int_equal(fcntl(a.user_fd, F_GETFD), -1);
	a.user_fd = -1;
	apus_dp_port_claim_release(&a);
	assert_int_equal(apus_dp_port_claim(DOMAIN, (int)a.participant_idx, true, NULL, 0, &b),
			 APUS_EADDRINUSE);
	apus_dp_queue_close(q);
	b = claim((int)a.participant_idx);
	apus_dp_port_claim_release(&b);
}

static int lookup(const char *spec, size_t max, struct apus_dp_netif *out, size_t *count_out)
{
	char why[160] = "";
	int rc = apus_dp_netif_lookup(spec, why, sizeof(why), max, out, count_out);

	assert_int_equal(rc < 0, why[0] != '\0');
	return rc;
}

static void loopback_by_name_and_address(void **state)
{
	static const char *const spec[] = {"lo", "127.0.0.1", "lo,127.0.0.1,lo"};
	struct apus_dp_netif netif[8];
	size_t count;

	(void)state;
	for (int i = 0; i < 3; i++) {
		count = 0;
		assert_int_equal(lookup(spec[i], 8, netif, &count), 0);
		assert_int_equal(count, 1);
		assert_string_equal(netif[0].name, "lo");
		assert_memory_equal(netif[0].ipv4, "\x7f\0\0\1", 4);
		assert_true(netif[0].loopback);
		assert_true(netif[0].ifindex > 0);
		assert_true(netif[0].mtu_bytes >= 1500);
		assert_true(apus_dp_netif_all_loopback(netif, count));
	}
}

/* Whatever this host has: either no loopback among them, or nothing but one. */
static void automatic_choice(void **state)
{
	static const char *const spec[] = {"auto", "", NULL};
	struct apus_dp_netif netif[8];
	size_t count;

	(void)state;
	for (int i = 0; i < 3; i++) {
		count = 0;
		assert_int_equal(lookup(spec[i], 8, netif, &count), 0);
		assert_true(count >= 1 && count <= 8);
		for (size_t j = 0; j < count; j++)
			assert_true(netif[j].loopback == (count == 1 && netif[0].loopback));
	}
}

static void unknown_interfaces_are_refused(void **state)
{
	static const struct {
		const char *spec;
		int result;
	} refused[] = {
		{"nosuchif0", APUS_ENODEV},    {"192.0.2.1", APUS_ENODEV},
		{"lo,nosuchif0", APUS_ENODEV}, {",", APUS_EINVAL},
		{"lo,", APUS_EINVAL},          {",lo", APUS_EINVAL},
		{"lo,,lo", APUS_EINVAL},       {"lo ", APUS_ENODEV},
		{"127.0.0.1.1", APUS_ENODEV},  {"sixteen-letters-", APUS_EINVAL},
	};
	struct apus_dp_netif netif[8] = {{.name = "kept"}};
	size_t count = 77;

	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		assert_int_equal(lookup(refused[i].spec, 8, netif, &count), refused[i].result);
	assert_int_equal(lookup("lo", 0, netif, &count), APUS_EINVAL);
	assert_int_equal(lookup("lo", 9, netif, &count), APUS_EINVAL);
	assert_int_equal(count, 77);
	assert_string_equal(netif[0].name, "kept");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(ports_of_known_participants),
		cmocka_unit_test(ids_out_of_range_have_no_ports),
		cmocka_unit_test(claims_are_exclusive),
		cmocka_unit_test(a_half_taken_pair_is_passed_over),
		cmocka_unit_test(a_full_domain_is_refused),
		cmocka_unit_test(a_queue_adopts_a_claim),
		cmocka_unit_test(loopback_by_name_and_address),
		cmocka_unit_test(automatic_choice),
		cmocka_unit_test(unknown_interfaces_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
