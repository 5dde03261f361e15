/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames on their way in: Ethernet, IPv4 (RFC 791, RFC 1122 §3.2), UDP (RFC 768).
 *
 * Every length is proved here against the frame before anything behind it is read; what the packet says of
 * its length decides, since short frames are padded.
 */
#include "ip/engine.h"

/* --- UDP ------------------------------------------------------------------------------------------ */

static inline void fill_endpoint(struct apus_ip_endpoint *e, uint16_t family,
				 const uint8_t *address, const uint8_t *port)
{
	e->family = family;
	e->port = apus_ip_get16(port);
	if (family == AF_INET) {
		memset(e->ip, 0, 12);
		memcpy(e->ip + 12, address, 4);
	} else {
		memcpy(e->ip, address, 16);
	}
}

/* Whether the checksum is right, or exactly what a local sender leaves for hardware. */
static bool is_sum_right(struct apus_ip *ip, const uint8_t *udp, uint32_t bytes,
			 const uint8_t *addresses, uint32_t address_bytes)
{
	uint64_t pseudo = apus_ip_pseudo(addresses, address_bytes, APUS_IP_PROTO_UDP, bytes);
	uint16_t field;

	memcpy(&field, udp + 6, sizeof(field));
	if (field == 0)
		return address_bytes == 4; /* RFC 768: none was made; RFC 8200 §8.1: never so */
	if (ip->config.accept_partial_checksums && field == apus_ip_fold(pseudo)) {
		apus_ip_count(ip, APUS_IP_RX_PARTIAL);
		return true;
	}
	return apus_ip_fold(apus_ip_sum(pseudo, udp, bytes)) == UINT16_MAX;
}

enum apus_ip_verdict apus_ip_udp_input(struct apus_ip *ip, const uint8_t *udp, uint32_t bytes,
				       uint16_t family, const uint8_t *addresses, bool good,
				       struct apus_ip_datagram *out)
{
	uint32_t address_bytes = family == AF_INET ? 4 : 16;

	if (APUS_UNLIKELY(bytes < APUS_IP_UDP_BYTES))
		return apus_ip_drop(ip, APUS_IP_DROP_UDP_LENGTH);
	uint32_t length = apus_ip_get16(udp + 4);

	/* What the packet has behind the datagram is nobody's. */
	if (APUS_UNLIKELY(length < APUS_IP_UDP_BYTES || length > bytes))
		return apus_ip_drop(ip, APUS_IP_DROP_UDP_LENGTH);
	if (APUS_UNLIKELY(apus_ip_get16(udp + 2) == 0))
		return apus_ip_drop(ip, APUS_IP_DROP_UDP_PORT);
	if (!good && APUS_UNLIKELY(!is_sum_right(ip, udp, length, addresses, address_bytes)))
		return apus_ip_drop(ip, APUS_IP_DROP_UDP_CHECKSUM);
	out->payload = udp + APUS_IP_UDP_BYTES;
	out->payload_bytes = length - APUS_IP_UDP_BYTES;
	out->buffer_idx = -1;
	fill_endpoint(&out->from, family, addresses, udp);
	fill_endpoint(&out->to, family, addresses + address_bytes, udp + 2);
	apus_ip_count(ip, APUS_IP_RX_UDP);
	return APUS_IP_UDP;
}

enum apus_ip_verdict apus_ip_piece_input(struct apus_ip *ip, const struct apus_ip_piece *piece,
					 const uint8_t *addresses, struct apus_mono now,
					 struct apus_ip_datagram *out)
{
	uint32_t idx = APUS_IP_NONE;
	enum apus_ip_verdict verdict = apus_ip_reassembly_input(ip, piece, now, &idx);

	if (verdict != APUS_IP_UDP)
		return verdict;
	const struct apus_ip_reassembly *r = &ip->reassembly[idx];

	verdict = apus_ip_udp_input(ip, r->buffer->bytes, r->total_bytes, piece->family, addresses,
				    false, out);
	if (verdict != APUS_IP_UDP) {
		apus_ip_release(ip, (int32_t)idx);
		return verdict;
	}
	out->buffer_idx = (int32_t)idx;
	out->packet = r->buffer->header;
	out->packet_header_bytes = r->header_bytes;
	memcpy(out->source_mac, r->buffer->source_mac, 6);
	return APUS_IP_UDP;
}

/* --- IPv4 ----------------------------------------------------------------------------------------- */

enum reach {
	REACH_OTHER = 0,
	REACH_US,
	REACH_GROUP,
	REACH_ALL, /* broadcast */
};

static inline enum reach reach_of(const struct apus_ip *ip, uint32_t to)
{
	if (APUS_LIKELY(to == ip->ipv4))
		return REACH_US;
	for (uint32_t i = 0; i < ip->group4_count; i++)
		if (ip->group4[i] == to)
			return REACH_GROUP;
	if (to == UINT32_MAX || to == ip->ipv4_broadcast)
		return REACH_ALL;
	return to == htobe32(0xe0000001) ? REACH_GROUP : REACH_OTHER; /* all hosts */
}

/* Why a source cannot have sent this; APUS_IP_COUNT_MAX: it can. */
static inline enum apus_ip_count source_wrong(const struct apus_ip *ip, const uint8_t *from,
					      uint8_t protocol)
{
	uint32_t address = apus_ip_load32(from);

	if (APUS_UNLIKELY(address == ip->ipv4))
		return APUS_IP_DROP_OWN;
	if (APUS_LIKELY(from[0] != 0 && from[0] < 224 && from[0] != 127))
		return address == ip->ipv4_broadcast ? APUS_IP_DROP_SOURCE : APUS_IP_COUNT_MAX;
	/* Snooping switches ask without an address of their own (RFC 4541 §2.1.1). */
	return address == 0 && protocol == APUS_IP_PROTO_IGMP ? APUS_IP_COUNT_MAX
							      : APUS_IP_DROP_SOURCE;
}

static enum apus_ip_verdict fragment4(struct apus_ip *ip, const uint8_t *packet,
				      uint32_t header_bytes, uint32_t total,
				      const uint8_t *source_mac, struct apus_mono now,
				      struct apus_ip_datagram *out)
{
	uint16_t field = apus_ip_get16(packet + 6);
	uint8_t source[16] = {0}, destination[16] = {0};

	if (packet[9] != APUS_IP_PROTO_UDP)
		return apus_ip_drop(ip, APUS_IP_DROP_FRAGMENT);
	memcpy(source + 12, packet + 12, 4);
	memcpy(destination + 12, packet + 16, 4);
	struct apus_ip_piece piece = {
		.family = AF_INET,
		.packet_id = apus_ip_get16(packet + 4),
		.source = source,
		.destination = destination,
		.header = packet,
		.header_bytes = header_bytes,
		.source_mac = source_mac,
		.bytes = packet + header_bytes,
		.byte_count = total - header_bytes,
		.offset = (uint32_t)(field & 0x1fff) * 8,
		.more = field & 0x2000,
	};
	return apus_ip_piece_input(ip, &piece, packet + 12, now, out);
}

static enum apus_ip_verdict deliver4(struct apus_ip *ip, const uint8_t *packet,
				     uint32_t header_bytes, uint32_t total, uint32_t flags,
				     enum reach reach, const uint8_t *source_mac,
				     struct apus_mono now, struct apus_ip_datagram *out)
{
	const uint8_t *upper = packet + header_bytes;
	uint32_t bytes = total - header_bytes;

	if (APUS_UNLIKELY(apus_ip_get16(packet + 6) & 0x3fff))
		return fragment4(ip, packet, header_bytes, total, source_mac, now, out);
	switch (packet[9]) {
	case APUS_IP_PROTO_UDP:
		out->packet = packet;
		out->packet_header_bytes = header_bytes;
		memcpy(out->source_mac, source_mac, 6);
		return apus_ip_udp_input(ip, upper, bytes, AF_INET, packet + 12,
					 flags & APUS_IP_RX_UDP_CHECKSUM_GOOD, out);
	case APUS_IP_PROTO_ICMP:
		return apus_ip_icmp_input(ip, packet, upper, bytes, reach == REACH_US, source_mac,
					  now);
	case APUS_IP_PROTO_IGMP: return apus_ip_igmp_input(ip, packet, upper, bytes, now);
	}
	return apus_ip_drop(ip, APUS_IP_DROP_PROTOCOL);
}

/* Why a header contradicts the frame or itself; APUS_IP_COUNT_MAX: it does not. */
static inline enum apus_ip_count header_wrong(const struct apus_ip *ip, const uint8_t *packet,
					      uint32_t bytes, uint32_t flags)
{
	if (APUS_UNLIKELY(bytes < APUS_IP_IPV4_BYTES))
		return APUS_IP_DROP_SHORT;
	uint32_t header_bytes = (uint32_t)(packet[0] & 0x0f) * 4;
	uint32_t total = apus_ip_get16(packet + 2);

	if (APUS_UNLIKELY(packet[0] >> 4 != 4 || header_bytes < APUS_IP_IPV4_BYTES ||
			  total < header_bytes || (packet[6] & 0x80)))
		return APUS_IP_DROP_HEADER;
	/* A super-frame that was cut to its buffer is one still. */
	if (APUS_UNLIKELY(total > bytes))
		return bytes > ip->config.mtu_bytes && !(flags & APUS_IP_RX_REASSEMBLES)
			       ? APUS_IP_DROP_OVERSIZE
			       : APUS_IP_DROP_SHORT;
	if (APUS_UNLIKELY(total > ip->config.mtu_bytes && !(flags & APUS_IP_RX_REASSEMBLES)))
		return APUS_IP_DROP_OVERSIZE;
	if (flags & APUS_IP_RX_IP_CHECKSUM_GOOD)
		return APUS_IP_COUNT_MAX;
	uint64_t sum = apus_ip_sum(apus_ip_sum20(packet), packet + APUS_IP_IPV4_BYTES,
				   header_bytes - APUS_IP_IPV4_BYTES);

	return APUS_UNLIKELY(apus_ip_fold(sum) != UINT16_MAX) ? APUS_IP_DROP_IP_CHECKSUM
							      : APUS_IP_COUNT_MAX;
}

static enum apus_ip_verdict ipv4_input(struct apus_ip *ip, const uint8_t *packet, uint32_t bytes,
				       uint32_t flags, bool to_all, const uint8_t *source_mac,
				       struct apus_mono now, struct apus_ip_datagram *out)
{
	enum apus_ip_count wrong = header_wrong(ip, packet, bytes, flags);

	if (APUS_UNLIKELY(wrong != APUS_IP_COUNT_MAX))
		return apus_ip_drop(ip, wrong);
	enum reach reach = reach_of(ip, apus_ip_load32(packet + 16));

	/* RFC 1122 §3.3.6: what the link sent to all is not for one of us. */
	if (APUS_UNLIKELY(reach == REACH_OTHER || (reach == REACH_US && to_all)))
		return apus_ip_drop(ip, APUS_IP_DROP_NOT_OURS);
	wrong = source_wrong(ip, packet + 12, packet[9]);
	if (APUS_UNLIKELY(wrong != APUS_IP_COUNT_MAX))
		return apus_ip_drop(ip, wrong);
	out->multicast = reach != REACH_US;
	return deliver4(ip, packet, (uint32_t)(packet[0] & 0x0f) * 4, apus_ip_get16(packet + 2),
			flags, reach, source_mac, now, out);
}

/* --- Ethernet ------------------------------------------------------------------------------------- */

/* Takes the tag off: whether the frame is of our VLAN. A tag of VLAN 0 only carries a priority. */
static bool is_our_vlan(const struct apus_ip *ip, const uint8_t *frame, uint32_t frame_bytes,
			uint32_t flags, uint32_t *link_bytes_out, uint16_t *type_out)
{
	uint16_t vlan = 0;

	*link_bytes_out = APUS_IP_LINK_BYTES;
	*type_out = apus_ip_get16(frame + 12);
	if (flags & APUS_IP_RX_VLAN_STRIPPED) {
		vlan = flags & 0x0fff;
	} else if (*type_out == APUS_IP_ETHER_VLAN && frame_bytes >= APUS_IP_LINK_BYTES + 4) {
		vlan = apus_ip_get16(frame + 14) & 0x0fff;
		*type_out = apus_ip_get16(frame + 16);
		*link_bytes_out += 4;
	}
	return vlan == ip->config.vlan_id;
}

enum apus_ip_verdict apus_ip_input(struct apus_ip *ip, const uint8_t *frame, uint32_t frame_bytes,
				   uint32_t flags, struct apus_mono now,
				   struct apus_ip_datagram *out)
{
	uint32_t link_bytes;
	uint16_t type;

	if (APUS_UNLIKELY(frame_bytes < APUS_IP_LINK_BYTES))
		return apus_ip_drop(ip, APUS_IP_DROP_SHORT);
	bool to_all = frame[0] & 1;
	const uint8_t *source_mac = frame + 6;

	if (APUS_UNLIKELY(!to_all && apus_ip_load_mac(frame) != ip->mac))
		return apus_ip_drop(ip, APUS_IP_DROP_NOT_OURS);
	if (APUS_UNLIKELY(apus_ip_load_mac(source_mac) == ip->mac))
		return apus_ip_drop(ip, APUS_IP_DROP_OWN);
	if (APUS_UNLIKELY((source_mac[0] & 1) || apus_ip_all_zero(source_mac, 6)))
		return apus_ip_drop(ip, APUS_IP_DROP_LINK);
	if (APUS_UNLIKELY(!is_our_vlan(ip, frame, frame_bytes, flags, &link_bytes, &type)))
		return apus_ip_drop(ip, APUS_IP_DROP_VLAN);
	const uint8_t *packet = frame + link_bytes;
	uint32_t bytes = frame_bytes - link_bytes;

	if (APUS_LIKELY(type == APUS_IP_ETHER_IPV4) && ip->ipv4)
		return ipv4_input(ip, packet, bytes, flags, to_all, source_mac, now, out);
	if (type == APUS_IP_ETHER_IPV6 && ip->own6_count)
		return apus_ip_ipv6_input(ip, packet, bytes, flags, to_all, source_mac, now, out);
	if (type == APUS_IP_ETHER_ARP)
		return apus_ip_arp_input(ip, packet, bytes, source_mac, now);
	return apus_ip_drop(ip, APUS_IP_DROP_ETHERTYPE);
}

uint16_t apus_ip_peek_port(const uint8_t *frame, uint32_t frame_bytes)
{
	uint32_t at = APUS_IP_LINK_BYTES;

	if (frame_bytes < at + 4)
		return 0;
	uint16_t type = apus_ip_get16(frame + 12);

	if (type == APUS_IP_ETHER_VLAN) {
		type = apus_ip_get16(frame + 16);
		at += 4;
	}
	if (type == APUS_IP_ETHER_IPV4) {
		if (frame_bytes < at + APUS_IP_IPV4_BYTES + 4 || frame[at] != 0x45 ||
		    frame[at + 9] != APUS_IP_PROTO_UDP || (apus_ip_get16(frame + at + 6) & 0x3fff))
			return 0;
		return apus_ip_get16(frame + at + APUS_IP_IPV4_BYTES + 2);
	}
	if (type != APUS_IP_ETHER_IPV6 || frame_bytes < at + APUS_IP_IPV6_BYTES + 4 ||
	    frame[at + 6] != APUS_IP_PROTO_UDP)
		return 0;
	return apus_ip_get16(frame + at + APUS_IP_IPV6_BYTES + 2);
}
