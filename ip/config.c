/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an engine can be made of: defaults, and every field against its range. A setting that could have
 * no effect is refused with the rest.
 */
#include "ip/config.h"

void apus_ip_config_default(struct apus_ip_config *config)
{
	*config = (struct apus_ip_config){
		.announce = true,
		.mtu_bytes = 1500,
		.ttl = 64,
		.multicast_ttl = 1,
		.neighbour_count = 256,
		.group_count = 32,
		.reassembly_count = 32,
		.reassembly_per_source_count = 8,
		.reassembly_timeout_ns = 2 * APUS_NS_PER_SEC,
		.fragment_min_bytes = 256,
		.control_count = 64,
		.parked_count = 16,
		.parked_bytes = 2048,
		.parked_per_neighbour_count = 4,
		.echo_rate = 100,
		.unreachable_rate = 10,
		.neighbour_reply_rate = 1000,
		.seed = 1,
	};
}

bool apus_ip_host4(const uint8_t a[4])
{
	return a[0] != 0 && a[0] != 127 && a[0] < 224;
}

bool apus_ip_host6(const uint8_t a[16])
{
	/* ::/96 holds :: and ::1, and nothing else that is of use; ::ffff:0:0/96 is never on a wire. */
	if (a[0] == 0xff)
		return false;
	return !apus_ip_all_zero(a, 10) || (a[10] != 0xff && (a[10] || a[11]));
}

/* Whether `a` and `b` agree in their first bits. */
bool apus_ip_same_prefix(const uint8_t *a, const uint8_t *b, uint32_t bits)
{
	uint32_t whole = bits / 8, rest = bits % 8;

	if (memcmp(a, b, whole) != 0)
		return false;
	return rest == 0 || ((a[whole] ^ b[whole]) & (0xff00 >> rest) & 0xff) == 0;
}

/* Whether the bits behind the prefix are neither all 0 nor all 1: no network's or broadcast address. */
static bool is_host_of(const uint8_t a[4], uint32_t prefix_bits)
{
	uint32_t rest = prefix_bits >= 31 ? 1 : UINT32_MAX >> prefix_bits;
	uint32_t host = apus_ip_get32(a) & rest;

	return prefix_bits >= 31 || (host != 0 && host != rest);
}

static const char *wrong_ipv4(const struct apus_ip_config *c)
{
	bool gateway = !apus_ip_all_zero(c->ipv4_gateway, 4);

	if (apus_ip_all_zero(c->ipv4, 4))
		return gateway || c->ipv4_prefix_bits
			       ? "an IPv4 gateway or prefix without an address"
			       : NULL;
	if (c->ipv4_prefix_bits < 1 || c->ipv4_prefix_bits > 32)
		return "the IPv4 prefix must have 1 to 32 bits";
	if (!apus_ip_host4(c->ipv4) || !is_host_of(c->ipv4, c->ipv4_prefix_bits))
		return "the IPv4 address cannot be a host's";
	if (gateway &&
	    (!apus_ip_same_prefix(c->ipv4, c->ipv4_gateway, c->ipv4_prefix_bits) ||
	     !apus_ip_host4(c->ipv4_gateway) || memcmp(c->ipv4, c->ipv4_gateway, 4) == 0))
		return "the IPv4 gateway must be another host on the link";
	return NULL;
}

static const char *wrong_ipv6(const struct apus_ip_config *c)
{
	bool global = !apus_ip_all_zero(c->ipv6_global, 16);
	bool gateway = !apus_ip_all_zero(c->ipv6_gateway, 16);

	if (!c->ipv6)
		return global || gateway || c->ipv6_prefix_bits || c->detect_duplicates
			       ? "settings of IPv6, but IPv6 is off"
			       : NULL;
	if (c->mtu_bytes < 1280)
		return "IPv6 needs an MTU of at least 1280";
	if (!global)
		return c->ipv6_prefix_bits || gateway
			       ? "an IPv6 gateway or prefix without an address"
			       : NULL;
	if (c->ipv6_prefix_bits < 1 || c->ipv6_prefix_bits > 128)
		return "the IPv6 prefix must have 1 to 128 bits";
	if (!apus_ip_host6(c->ipv6_global) ||
	    (c->ipv6_global[0] == 0xfe && c->ipv6_global[1] >= 0x80))
		return "the IPv6 address is not a global one of a host";
	if (gateway &&
	    (!apus_ip_host6(c->ipv6_gateway) || memcmp(c->ipv6_gateway, c->ipv6_global, 16) == 0))
		return "the IPv6 gateway must be another host";
	return NULL;
}

static bool within(uint64_t value, uint64_t low, uint64_t high)
{
	return value >= low && value <= high;
}

static const char *wrong_capacity(const struct apus_ip_config *c)
{
	if (!within(c->neighbour_count, 4, 65536))
		return "neighbour_count must be 4 to 65536";
	if (!within(c->group_count, 1, 128))
		return "group_count must be 1 to 128";
	if (!within(c->reassembly_count, 1, 256))
		return "reassembly_count must be 1 to 256";
	if (!within(c->reassembly_per_source_count, 1, c->reassembly_count))
		return "reassembly_per_source_count must be 1 to reassembly_count";
	if (c->reassembly_timeout_ns < APUS_NS_PER_MS ||
	    c->reassembly_timeout_ns > 60 * APUS_NS_PER_SEC)
		return "reassembly_timeout_ns must be 1 ms to 60 s";
	if (!within(c->fragment_min_bytes, 8, 1280))
		return "fragment_min_bytes must be 8 to 1280";
	if (!within(c->control_count, 8, 4096))
		return "control_count must be 8 to 4096";
	if (c->parked_count > 4096)
		return "parked_count must be 0 to 4096";
	if (c->parked_count && !within(c->parked_bytes, 64, APUS_IP_PAYLOAD_MAX_BYTES))
		return "parked_bytes must be 64 to 65507";
	if (c->parked_count && !within(c->parked_per_neighbour_count, 1, c->parked_count))
		return "parked_per_neighbour_count must be 1 to parked_count";
	if (!within(c->echo_rate, 1, 1000000) || !within(c->unreachable_rate, 1, 1000000) ||
	    !within(c->neighbour_reply_rate, 1, 1000000))
		return "a rate must be 1 to 1000000 a second";
	return NULL;
}

const char *apus_ip_config_wrong(const struct apus_ip_config *c)
{
	const char *wrong = NULL;

	if (apus_ip_all_zero(c->mac, 6) || (c->mac[0] & 1))
		return "the MAC address must be that of one port";
	if (apus_ip_all_zero(c->ipv4, 4) && !c->ipv6)
		return "neither IPv4 nor IPv6 has an address";
	if (!within(c->mtu_bytes, 576, 9216))
		return "mtu_bytes must be 576 to 9216";
	if (c->vlan_id > 4094 || c->vlan_priority > 7)
		return "a VLAN has an id of 1 to 4094 and a priority of 0 to 7";
	if (c->vlan_priority && !c->vlan_id)
		return "a VLAN priority without a VLAN";
	if (c->ttl < 1 || c->multicast_ttl < 1)
		return "ttl and multicast_ttl must be 1 to 255";
	if (!within(c->udp_checksum, APUS_IP_UDP_SOFTWARE, APUS_IP_UDP_NONE))
		return "no such udp_checksum";
	wrong = wrong_ipv4(c);
	if (!wrong)
		wrong = wrong_ipv6(c);
	return wrong ? wrong : wrong_capacity(c);
}
