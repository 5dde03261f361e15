/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: queues of IPv6 do what queues of IPv4 do, and the two keep apart.
 * Method: ::1 only, both kinds of queue: single datagrams, bursts that the kernel cuts up, the sender's address;
 * the same port in both families; what mixes them is refused. Without ::1 the test is skipped.
 */
#include "transport_util.h"

#include "dataplane/io/ports.h"

#include <stdlib.h>

static void v6_config(enum apus_dp_queue_kind kind, struct apus_dp_queue_config *config)
{
	size_t count = 0;

	home_config(kind, config);
	assert_int_equal(apus_dp_netif_lookup_family(AF_INET6, "lo", NULL, 0, APUS_DP_NETIF_MAX,
						     config->interfaces, &count),
			 0);
	config->interface_count = (uint32_t)count;
	assert_int_equal(config->interfaces[0].family, AF_INET6);
}

static struct apus_dp_queue *open_v6(enum apus_dp_queue_kind kind)
{
	struct apus_dp_queue_config config;

	v6_config(kind, &config);
	return open_queue(&config);
}

static struct apus_dp_addr v6_of(const struct apus_dp_queue *q)
{
	return (struct apus_dp_addr){.family = AF_INET6, .port = q->unicast_port, .ip = {[15] = 1}};
}

static void datagrams_pass(enum apus_dp_queue_kind kind)
{
	struct apus_dp_queue *a = open_v6(kind), *b = open_v6(kind);
	static uint8_t bytes[APUS_DP_BURST_MAX][100];
	struct apus_dp_addr to = v6_of(b), from = v6_of(a);
	struct apus_dp_tx tx[APUS_DP_BURST_MAX];
	struct apus_dp_rx rx[APUS_DP_BURST_MAX];

	for (int round = 0; round < 20; round++) {
		int n = round % 2 ? APUS_DP_BURST_MAX : 1, got = 0;

		for (int i = 0; i < n; i++) {
			memset(bytes[i], round + i, sizeof(bytes[i]));
			tx[i] = tx_of(to, bytes[i], sizeof(bytes[i]));
		}
		assert_int_equal(apus_dp_queue_tx(a, tx, n), n);
		while (got < n) {
			int more = receive(b, n - got, rx);

			assert_true(more > 0);
			for (int i = 0; i < more; i++) {
				assert_int_equal(rx[i].length, sizeof(bytes[0]));
				assert_memory_equal(rx[i].bytes, bytes[got + i], sizeof(bytes[0]));
				assert_true(apus_dp_addr_equal(&rx[i].from, &from));
			}
			apus_dp_queue_release(b, rx, more);
			got += more;
		}
	}
	apus_dp_queue_close(a);
	apus_dp_queue_close(b);
}

static void both_kinds_carry_ipv6(void **state)
{
	(void)state;
	datagrams_pass(APUS_DP_QUEUE_SOCKET);
	datagrams_pass(APUS_DP_QUEUE_AUTO);
}

static void families_keep_apart(void **state)
{
	struct apus_dp_queue *six = open_v6(APUS_DP_QUEUE_SOCKET), *four;
	struct apus_dp_queue_config config;
	uint8_t byte = 1;
	struct apus_dp_addr to = apus_dp_addr_v4(home, six->unicast_port);
	struct apus_dp_tx tx = tx_of(to, &byte, 1);
	struct apus_dp_rx rx;

	(void)state;
	home_config(APUS_DP_QUEUE_SOCKET, &config);
	config.unicast_port = six->unicast_port; /* free in the other family */
	four = open_queue(&config);
	assert_int_equal(apus_dp_queue_tx(six, &tx, 1), 0);
	assert_int_equal(apus_counter_get(&six->counters.tx_dropped), 1);
	tx.to = v6_of(six);
	assert_int_equal(apus_dp_queue_tx(four, &tx, 1), 0);
	assert_int_equal(apus_dp_queue_tx(six, &tx, 1), 1);
	assert_int_equal(receive(six, 1, &rx), 1);
	apus_dp_queue_release(six, &rx, 1);
	assert_silent(four);
	apus_dp_queue_close(six);
	apus_dp_queue_close(four);
}

static void mixtures_are_refused(void **state)
{
	struct apus_dp_queue_config config, other;
	struct apus_dp_queue *q;
	char why[128];

	(void)state;
	v6_config(APUS_DP_QUEUE_SOCKET, &config);
	config.groups[0] = group_of(1, 17480);
	config.group_count = 1;
	assert_int_equal(apus_dp_queue_open(&config, why, sizeof(why), &q), APUS_EINVAL);
	config.group_count = 0;
	home_config(APUS_DP_QUEUE_SOCKET, &other);
	config.interfaces[config.interface_count++] = other.interfaces[0];
	assert_int_equal(apus_dp_queue_open(&config, why, sizeof(why), &q), APUS_EINVAL);
	assert_non_null(strstr(why, "IPv6"));
}

static void groups_are_joined_and_left(void **state)
{
	struct apus_dp_group group = {{.family = AF_INET6, .port = 17490, .ip = {0xff, 0x02}}};
	struct apus_dp_queue *a = open_v6(APUS_DP_QUEUE_SOCKET), *b = open_v6(APUS_DP_QUEUE_SOCKET);

	(void)state;
	group.group.ip[14] = 0x77;
	assert_int_equal(apus_dp_queue_join(a, &group), 0);
	assert_int_equal(apus_dp_queue_join(b, &group), 0);
	assert_int_equal(apus_dp_queue_join(b, &group), APUS_EEXIST);
	assert_int_equal(apus_dp_queue_leave(b, &group), 0);
	assert_int_equal(apus_dp_queue_leave(b, &group), APUS_ENOENT);
	apus_dp_queue_close(a);
	apus_dp_queue_close(b);
}

static void an_index_is_claimed_in_each_family(void **state)
{
	struct apus_dp_port_claim six, four, again;
	char why[128];

	(void)state;
	assert_int_equal(apus_dp_port_claim_family(AF_INET6, 201, 17, true, why, sizeof(why), &six),
			 0);
	assert_int_equal(
		apus_dp_port_claim_family(AF_INET6, 201, 17, true, why, sizeof(why), &again),
		APUS_EADDRINUSE);
	assert_int_equal(apus_dp_port_claim(201, 17, true, why, sizeof(why), &four), 0);
	apus_dp_port_claim_release(&six);
	apus_dp_port_claim_release(&four);
}

static bool has_loopback(void)
{
	struct apus_dp_netif found[APUS_DP_NETIF_MAX];
	size_t count;

	return apus_dp_netif_lookup_family(AF_INET6, "::1", NULL, 0, APUS_DP_NETIF_MAX, found,
					   &count) == 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_kinds_carry_ipv6),
		cmocka_unit_test(families_keep_apart),
		cmocka_unit_test(mixtures_are_refused),
		cmocka_unit_test(groups_are_joined_and_left),
		cmocka_unit_test(an_index_is_claimed_in_each_family),
	};

	if (!has_loopback())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
