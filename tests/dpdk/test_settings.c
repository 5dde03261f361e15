/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a port's settings are parsed exactly, and whatever is not of their form is refused by name.
 * Method: one good configuration, and from it one fault at a time.
 */
#include "dpdk/settings.h"

#include <apus/core.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct apus_dp_port_config good(void)
{
	return (struct apus_dp_port_config){
		.device = "net_af_packet0,iface=va,qdisc_bypass=1",
		.eal = "",
		.address = "10.77.0.1/24",
		.gateway = "10.77.0.9",
		.ipv6 = "fd00::1/64",
		.neighbours = "10.77.0.2=02:00:00:00:00:0a,10.77.0.3=0a:1b:2c:3d:4e:5f",
		.vlan = 7,
		.mtu_bytes = 1400,
		.multicast_ttl = 1,
		.queue_count = 2};
}

static int parse(const struct apus_dp_port_config *c, struct apus_dpdk_settings *s, char why[128])
{
	why[0] = '\0';
	return apus_dpdk_settings_parse(c, why, 128, s);
}

static void all_of_it_is_parsed(void **state)
{
	static const uint8_t mac[6] = {0x0a, 0x1b, 0x2c, 0x3d, 0x4e, 0x5f};
	struct apus_dp_port_config c = good();
	static struct apus_dpdk_settings s, again;
	char why[128];

	(void)state;
	assert_int_equal(parse(&c, &s, why), 0);
	assert_string_equal(s.device, "net_af_packet0");
	assert_string_equal(s.arguments, "iface=va,qdisc_bypass=1");
	assert_false(s.is_pci);
	assert_memory_equal(s.ipv4, ((uint8_t[]){10, 77, 0, 1}), 4);
	assert_int_equal(s.ipv4_bits, 24);
	assert_memory_equal(s.gateway, ((uint8_t[]){10, 77, 0, 9}), 4);
	assert_int_equal(s.ipv6_bits, 64);
	assert_int_equal(s.ipv6[0], 0xfd);
	assert_int_equal(s.neighbour_count, 2);
	assert_memory_equal(s.neighbour[1].mac, mac, 6);
	assert_int_equal(parse(&c, &again, why), 0);
	assert_memory_equal(&s, &again, sizeof(s));
}

static void a_pci_address_is_known(void **state)
{
	static const char *const good_names[] = {"0000:3b:00.0", "3b:00.1", "0000:3b:00.0,x=1"};
	static const char *const bad_names[] = {"",   ",", "eth0", "0000:3b:00", "0000:3b:00.0x",
						"pci"};
	static struct apus_dpdk_settings s;
	struct apus_dp_port_config c = good();
	char why[128];

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		c.device = good_names[i];
		assert_int_equal(parse(&c, &s, why), 0);
		assert_true(s.is_pci);
	}
	for (size_t i = 0; i < 6; i++) {
		c.device = bad_names[i];
		assert_int_equal(parse(&c, &s, why), APUS_EINVAL);
		assert_int_equal(strncmp(why, "dpdk.port: ", 11), 0);
	}
}

static void refused(const char *name, size_t offset, const char *const *texts, size_t count)
{
	static struct apus_dpdk_settings s;
	char why[128];

	for (size_t i = 0; i < count; i++) {
		struct apus_dp_port_config c = good();

		*(const char **)((char *)&c + offset) = texts[i];
		assert_int_equal(parse(&c, &s, why), APUS_EINVAL);
		assert_int_equal(strncmp(why, name, strlen(name)), 0);
	}
}

#define REFUSED(field, ...)                                                                 \
	do {                                                                                \
		static const char *const texts[] = {__VA_ARGS__};                           \
		refused("dpdk." #field, offsetof(struct apus_dp_port_config, field), texts, \
			sizeof(texts) / sizeof(texts[0]));                                  \
	} while (0)

static void faults_are_refused_by_name(void **state)
{
	(void)state;
	REFUSED(address, "10.77.0.1", "10.77.0.1/", "10.77.0.1/0", "10.77.0.1/33", "10.77.0.1/2x",
		"10.77.0/24", "/24", "10.77.0.1/-1", "10.77.0.1/ 8",
		"1010101010101010101010101010101010101010101010101010101010101010/24");
	REFUSED(ipv6, "fd00::1", "fd00::1/129", "fd00::g/64", "10.0.0.1/24");
	REFUSED(gateway, "x", "10.77.0", "10.77.0.9/24");
	REFUSED(neighbours, "10.77.0.2", "10.77.0.2=", "=02:00:00:00:00:02",
		"10.77.0.2=02:00:00:00:00", "10.77.0.2=02:00:00:00:00:02:03",
		"10.77.0.2=01:00:5e:00:00:01", "10.77.0.2=02:00:00:00:00:02,",
		"10.77.0.2=02:00:00:00:00:-2");
}

static void an_address_is_needed(void **state)
{
	static struct apus_dpdk_settings s;
	struct apus_dp_port_config c = good();
	char why[128];

	(void)state;
	c.address = c.gateway = c.neighbours = "";
	assert_int_equal(parse(&c, &s, why), 0);
	c.ipv6 = "";
	assert_int_equal(parse(&c, &s, why), APUS_EINVAL);
	assert_string_equal(why, "dpdk.address: is needed");
	c = good();
	c.queue_count = 0;
	assert_int_equal(parse(&c, &s, why), APUS_EINVAL);
	assert_non_null(strstr(why, "dpdk.queues"));
	c.queue_count = 17;
	assert_int_equal(parse(&c, &s, why), APUS_EINVAL);
	c.queue_count = 16;
	c.vlan = 4095;
	assert_int_equal(parse(&c, &s, why), APUS_EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_of_it_is_parsed),
		cmocka_unit_test(a_pci_address_is_known),
		cmocka_unit_test(faults_are_refused_by_name),
		cmocka_unit_test(an_address_is_needed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
