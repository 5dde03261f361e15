/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of the engine's own: a ring of buffers, written in place and given out in order. And the names of
 * the counters.
 *
 * Invariant: what others can provoke uses at most half of the ring, so that a flood of questions cannot
 * keep our own questions and reports from leaving.
 */
#include "ip/engine.h"

bool apus_ip_control_has_room(const struct apus_ip *ip)
{
	return !ip->probing && ip->control_used < ip->config.control_count / 2;
}

static uint8_t *write_link(const struct apus_ip *ip, uint8_t *frame, const uint8_t mac[6],
			   uint16_t type)
{
	memcpy(frame, ip->link_head, sizeof(ip->link_head));
	memcpy(frame, mac, 6);
	apus_ip_put16(frame + ip->link_bytes - 2, type);
	return frame + ip->link_bytes;
}

uint8_t *apus_ip_control_frame(struct apus_ip *ip, const uint8_t mac[6], uint16_t type,
			       uint32_t packet_bytes)
{
	uint32_t count = ip->config.control_count;

	if (ip->probing)
		return NULL;
	if (ip->control_used == count ||
	    packet_bytes > APUS_IP_CONTROL_MAX_BYTES - ip->link_bytes ||
	    packet_bytes > ip->config.mtu_bytes) {
		apus_ip_count(ip, APUS_IP_TX_CONTROL_FULL);
		return NULL;
	}
	uint32_t at = (ip->control_first + ip->control_used) % count;
	uint8_t *frame = ip->control + (size_t)at * APUS_IP_CONTROL_MAX_BYTES;
	uint32_t bytes = ip->link_bytes + packet_bytes;

	/* Shorter frames are padded: not every port does (IEEE 802.3 §4.2.3.3: 60 bytes). */
	if (bytes < 60) {
		memset(frame + bytes, 0, 60 - bytes);
		bytes = 60;
	}
	ip->control_used++;
	ip->control_bytes[at] = (uint16_t)bytes;
	apus_ip_count(ip, APUS_IP_TX_CONTROL);
	return write_link(ip, frame, mac, type);
}

uint8_t *apus_ip_control_ipv4(struct apus_ip *ip, const uint8_t mac[6], const uint8_t to[4],
			      uint8_t protocol, uint8_t ttl, bool router_alert, uint32_t bytes)
{
	static const uint8_t alert[4] = {0x94, 4, 0, 0}; /* RFC 2113 */
	uint32_t header_bytes = APUS_IP_IPV4_BYTES + (router_alert ? 4 : 0);
	uint8_t *p = apus_ip_control_frame(ip, mac, APUS_IP_ETHER_IPV4, header_bytes + bytes);

	if (!p)
		return NULL;
	memset(p, 0, APUS_IP_IPV4_BYTES);
	p[0] = (uint8_t)(0x40 | header_bytes / 4);
	/* Internetwork control (RFC 3376 §4: type of service 0xc0) for reports. */
	p[1] = router_alert ? 0xc0 : 0;
	apus_ip_put16(p + 2, header_bytes + bytes);
	apus_ip_put16(p + 4, ip->packet_id4++);
	p[8] = ttl;
	p[9] = protocol;
	memcpy(p + 12, ip->config.ipv4, 4);
	memcpy(p + 16, to, 4);
	if (router_alert)
		memcpy(p + 20, alert, 4);
	apus_ip_store16(p + 10, apus_ip_checksum(p, header_bytes));
	return p + header_bytes;
}

uint8_t *apus_ip_control_ipv6(struct apus_ip *ip, const uint8_t mac[6], const uint8_t *from,
			      const uint8_t to[16], uint8_t hops, bool router_alert, uint32_t bytes)
{
	/* RFC 2711: router alert of value 0 (MLD), padded by PadN. */
	static const uint8_t alert[8] = {APUS_IP_PROTO_ICMP6, 0, 5, 2, 0, 0, 1, 0};
	uint32_t extra = router_alert ? sizeof(alert) : 0;
	uint8_t *p = apus_ip_control_frame(ip, mac, APUS_IP_ETHER_IPV6,
					   APUS_IP_IPV6_BYTES + extra + bytes);

	if (!p)
		return NULL;
	memset(p, 0, APUS_IP_IPV6_BYTES);
	p[0] = 0x60;
	apus_ip_put16(p + 4, extra + bytes);
	p[6] = router_alert ? APUS_IP_PROTO_HOP : APUS_IP_PROTO_ICMP6;
	p[7] = hops;
	if (from)
		memcpy(p + 8, from, 16);
	memcpy(p + 24, to, 16);
	if (router_alert)
		memcpy(p + APUS_IP_IPV6_BYTES, alert, sizeof(alert));
	return p + APUS_IP_IPV6_BYTES + extra;
}

const uint8_t *apus_ip_next_control(struct apus_ip *ip, uint32_t *frame_bytes_out)
{
	/* The place of the frame given out last becomes free only now. */
	if (ip->control_lent) {
		ip->control_first = (ip->control_first + 1) % ip->config.control_count;
		ip->control_used--;
	}
	ip->control_lent = ip->control_used > 0;
	if (!ip->control_lent)
		return NULL;
	*frame_bytes_out = ip->control_bytes[ip->control_first];
	return ip->control + (size_t)ip->control_first * APUS_IP_CONTROL_MAX_BYTES;
}

/* --- Counters ------------------------------------------------------------------------------------- */

static const char *const names[APUS_IP_COUNT_MAX] = {
	[APUS_IP_RX_UDP] = "rx.udp",
	[APUS_IP_RX_ARP] = "rx.arp",
	[APUS_IP_RX_ICMP] = "rx.icmp",
	[APUS_IP_RX_GROUP] = "rx.group",
	[APUS_IP_RX_ND] = "rx.nd",
	[APUS_IP_RX_FRAGMENT] = "rx.fragment",
	[APUS_IP_RX_REASSEMBLED] = "rx.reassembled",
	[APUS_IP_RX_PARTIAL] = "rx.partial_checksum",
	[APUS_IP_DROP_SHORT] = "drop.short",
	[APUS_IP_DROP_OVERSIZE] = "drop.oversize",
	[APUS_IP_DROP_LINK] = "drop.link",
	[APUS_IP_DROP_OWN] = "drop.own",
	[APUS_IP_DROP_VLAN] = "drop.vlan",
	[APUS_IP_DROP_ETHERTYPE] = "drop.ethertype",
	[APUS_IP_DROP_NOT_OURS] = "drop.not_ours",
	[APUS_IP_DROP_HEADER] = "drop.header",
	[APUS_IP_DROP_IP_CHECKSUM] = "drop.ip_checksum",
	[APUS_IP_DROP_SOURCE] = "drop.source",
	[APUS_IP_DROP_PROTOCOL] = "drop.protocol",
	[APUS_IP_DROP_UDP_LENGTH] = "drop.udp_length",
	[APUS_IP_DROP_UDP_CHECKSUM] = "drop.udp_checksum",
	[APUS_IP_DROP_UDP_PORT] = "drop.udp_port",
	[APUS_IP_DROP_ICMP] = "drop.icmp",
	[APUS_IP_DROP_GROUP] = "drop.group",
	[APUS_IP_DROP_ARP] = "drop.arp",
	[APUS_IP_DROP_ND] = "drop.nd",
	[APUS_IP_DROP_FRAGMENT] = "drop.fragment",
	[APUS_IP_DROP_FRAGMENT_OVERLAP] = "drop.fragment_overlap",
	[APUS_IP_DROP_FRAGMENT_LONG] = "drop.fragment_long",
	[APUS_IP_DROP_FRAGMENT_FULL] = "drop.fragment_full",
	[APUS_IP_REASSEMBLY_TIMEOUT] = "reassembly.timeout",
	[APUS_IP_REASSEMBLY_EVICTED] = "reassembly.evicted",
	[APUS_IP_NEIGHBOUR_UNSOLICITED] = "neighbour.unsolicited",
	[APUS_IP_NEIGHBOUR_REFUSED] = "neighbour.refused",
	[APUS_IP_NEIGHBOUR_CHANGED] = "neighbour.changed",
	[APUS_IP_NEIGHBOUR_FAILED] = "neighbour.failed",
	[APUS_IP_NEIGHBOUR_FULL] = "neighbour.full",
	[APUS_IP_ADDRESS_CONFLICT] = "address.conflict",
	[APUS_IP_RATE_LIMITED] = "rate.limited",
	[APUS_IP_TX_UDP] = "tx.udp",
	[APUS_IP_TX_FRAGMENT] = "tx.fragment",
	[APUS_IP_TX_PARKED] = "tx.parked",
	[APUS_IP_TX_UNRESOLVED] = "tx.unresolved",
	[APUS_IP_TX_NO_ROUTE] = "tx.no_route",
	[APUS_IP_TX_INVALID] = "tx.invalid",
	[APUS_IP_TX_CONTROL] = "tx.control",
	[APUS_IP_TX_CONTROL_FULL] = "tx.control_full",
};

uint64_t apus_ip_count_get(const struct apus_ip *ip, enum apus_ip_count counter)
{
	return apus_counter_get(&ip->counters[counter]);
}

const char *apus_ip_count_name(enum apus_ip_count counter)
{
	return (unsigned)counter < APUS_IP_COUNT_MAX ? names[counter] : "";
}
