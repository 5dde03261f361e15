/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Neighbour discovery (RFC 4861 §4.3, §4.4, §7): solicitations and advertisements. Router advertisements and
 * redirects are read by nobody: addresses and gateway are configured.
 *
 * What has not a hop limit of 255 came through a router, and is refused (§7.1).
 */
#include "ip/config.h"
#include "ip/engine.h"

#define SOLICITATION  135
#define ADVERTISEMENT 136
#define ND_BYTES      24
#define WITH_OPTION   (ND_BYTES + 8)
#define OPTION_SOURCE 1
#define OPTION_TARGET 2
#define HOPS          255
/** Flags of an advertisement. */
#define FLAG_SOLICITED 0x40
#define FLAG_OVERRIDE  0x20

static const uint8_t all_nodes[16] = {0xff, 0x02, [15] = 1};

static void solicited_node(const uint8_t target[16], uint8_t group_out[16])
{
	memset(group_out, 0, 16);
	group_out[0] = 0xff;
	group_out[1] = 0x02;
	group_out[11] = 1;
	group_out[12] = 0xff;
	memcpy(group_out + 13, target + 13, 3);
}

/* One message; option 0: none, else our MAC. */
static void send_nd(struct apus_ip *ip, const uint8_t *mac, const uint8_t *from,
		    const uint8_t to[16], uint8_t type, uint8_t flags, const uint8_t target[16],
		    uint8_t option)
{
	uint32_t bytes = option ? WITH_OPTION : ND_BYTES;
	struct apus_ip_endpoint group = apus_ip_endpoint_v6(to, 0);
	uint8_t group_mac[6];

	if (!mac) {
		apus_ip_group_mac(&group, group_mac);
		mac = group_mac;
	}
	uint8_t *p = apus_ip_control_ipv6(ip, mac, from, to, HOPS, false, bytes);

	if (!p)
		return;
	memset(p, 0, bytes);
	p[0] = type;
	p[4] = flags;
	memcpy(p + 8, target, 16);
	if (option) {
		p[ND_BYTES] = option;
		p[ND_BYTES + 1] = 1;
		memcpy(p + ND_BYTES + 2, ip->config.mac, 6);
	}
	apus_ip_icmp6_seal(p - APUS_IP_IPV6_BYTES, p, bytes);
}

void apus_ip_nd_ask(struct apus_ip *ip, const uint8_t target[16], const uint8_t *mac)
{
	bool local = target[0] == 0xfe || ip->own6_count < 2;
	const uint8_t *from = ip->own6[local ? 0 : 1].ip;
	uint8_t group[16];

	solicited_node(target, group);
	send_nd(ip, mac, from, mac ? target : group, SOLICITATION, 0, target, OPTION_SOURCE);
}

void apus_ip_nd_announce(struct apus_ip *ip, uint32_t own_idx)
{
	const uint8_t *own = ip->own6[own_idx].ip;

	send_nd(ip, NULL, own, all_nodes, ADVERTISEMENT, FLAG_OVERRIDE, own, OPTION_TARGET);
}

void apus_ip_nd_probe(struct apus_ip *ip, uint32_t own_idx)
{
	uint8_t group[16];

	solicited_node(ip->own6[own_idx].ip, group);
	send_nd(ip, NULL, NULL, group, SOLICITATION, 0, ip->own6[own_idx].ip, 0);
}

/* Walks the options. False: one of length 0, or one that does not fit. */
static bool find_mac(const uint8_t *message, uint32_t bytes, uint8_t option,
		     const uint8_t **mac_out)
{
	uint32_t at = ND_BYTES;

	*mac_out = NULL;
	while (at < bytes) {
		uint32_t length = bytes - at >= 2 ? (uint32_t)message[at + 1] * 8 : 0;

		if (length == 0 || length > bytes - at)
			return false;
		if (message[at] == option && length == 8)
			*mac_out = message + at + 2;
		at += length;
	}
	return true;
}

static struct apus_ip_own6 *find_own(struct apus_ip *ip, const uint8_t *target)
{
	uint32_t own_idx = apus_ip_own6_find(ip, target);

	return own_idx == APUS_IP_NONE ? NULL : &ip->own6[own_idx];
}

/* Somebody else has our address, or wants it. A tentative one is theirs. */
static void conflict(struct apus_ip *ip, struct apus_ip_own6 *own, const uint8_t *mac,
		     struct apus_mono now)
{
	apus_ip_count_conflict(ip, mac);
	if (!own->usable)
		own->conflict = true;
	else if (apus_ip_control_has_room(ip) && apus_ip_bucket_take(ip, &ip->defend, now))
		apus_ip_nd_announce(ip, (uint32_t)(own - ip->own6));
}

static bool may_answer(struct apus_ip *ip, struct apus_mono now)
{
	return apus_ip_control_has_room(ip) && apus_ip_bucket_take(ip, &ip->reply, now);
}

/* Somebody looks for us, or (from ::) whether the address is taken (RFC 4862 §5.4.3). */
static void solicited(struct apus_ip *ip, const uint8_t *packet, const uint8_t *source_mac,
		      struct apus_ip_own6 *own, struct apus_mono now)
{
	const uint8_t *from = packet + 8;
	bool probe = apus_ip_all_zero(from, 16);

	if (!own->usable || ip->probing) {
		if (probe)
			conflict(ip, own, source_mac, now);
		return;
	}
	if (probe) {
		if (may_answer(ip, now))
			apus_ip_nd_announce(ip, (uint32_t)(own - ip->own6));
		return;
	}
	apus_ip_neighbour_learn(ip, AF_INET6, from, source_mac, now);
	if (may_answer(ip, now))
		send_nd(ip, source_mac, own->ip, from, ADVERTISEMENT,
			FLAG_SOLICITED | FLAG_OVERRIDE, own->ip, OPTION_TARGET);
}

static bool is_on_link(const struct apus_ip *ip, const uint8_t *address)
{
	if (!apus_ip_host6(address))
		return false;
	return (address[0] == 0xfe && (address[1] & 0xc0) == 0x80) ||
	       memcmp(address, ip->config.ipv6_gateway, 16) == 0 ||
	       (ip->own6_count > 1 &&
		apus_ip_same_prefix(address, ip->own6[1].ip, ip->config.ipv6_prefix_bits));
}

static enum apus_ip_verdict solicitation(struct apus_ip *ip, const uint8_t *packet,
					 const uint8_t *message, uint32_t bytes,
					 const uint8_t *source_mac, struct apus_mono now)
{
	const uint8_t *mac, *target = message + 8;
	bool probe = apus_ip_all_zero(packet + 8, 16);
	struct apus_ip_own6 *own = find_own(ip, target);

	/* RFC 4861 §7.1.1; the option's MAC has to be the frame's. */
	if (!find_mac(message, bytes, OPTION_SOURCE, &mac) || (probe && mac) ||
	    (mac && memcmp(mac, source_mac, 6) != 0) || (probe && packet[24] != 0xff) ||
	    (!probe && !is_on_link(ip, packet + 8)))
		return apus_ip_drop(ip, APUS_IP_DROP_ND);
	apus_ip_count(ip, APUS_IP_RX_ND);
	if (find_own(ip, packet + 8))
		conflict(ip, find_own(ip, packet + 8), source_mac, now);
	else if (own)
		solicited(ip, packet, source_mac, own, now);
	return APUS_IP_CONSUMED;
}

static enum apus_ip_verdict advertisement(struct apus_ip *ip, const uint8_t *packet,
					  const uint8_t *message, uint32_t bytes,
					  const uint8_t *source_mac, struct apus_mono now)
{
	const uint8_t *mac, *target = message + 8;
	bool solicited_flag = message[4] & FLAG_SOLICITED, group = packet[24] == 0xff;
	struct apus_ip_own6 *own = find_own(ip, target);

	/* RFC 4861 §7.1.2 */
	if (!find_mac(message, bytes, OPTION_TARGET, &mac) || (group && solicited_flag) ||
	    (mac && memcmp(mac, source_mac, 6) != 0) || !is_on_link(ip, target))
		return apus_ip_drop(ip, APUS_IP_DROP_ND);
	apus_ip_count(ip, APUS_IP_RX_ND);
	if (own)
		conflict(ip, own, source_mac, now);
	else
		apus_ip_neighbour_claim(ip, AF_INET6, target, source_mac, solicited_flag, now);
	return APUS_IP_CONSUMED;
}

enum apus_ip_verdict apus_ip_nd_input(struct apus_ip *ip, const uint8_t *packet,
				      const uint8_t *message, uint32_t bytes,
				      const uint8_t *source_mac, struct apus_mono now)
{
	if (packet[7] != HOPS || message[1] != 0)
		return apus_ip_drop(ip, APUS_IP_DROP_ND);
	if (message[0] != SOLICITATION && message[0] != ADVERTISEMENT) {
		apus_ip_count(ip, APUS_IP_RX_ND);
		return APUS_IP_CONSUMED;
	}
	if (bytes < ND_BYTES || message[8] == 0xff)
		return apus_ip_drop(ip, APUS_IP_DROP_ND);
	if (message[0] == SOLICITATION)
		return solicitation(ip, packet, message, bytes, source_mac, now);
	return advertisement(ip, packet, message, bytes, source_mac, now);
}
