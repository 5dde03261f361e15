/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagrams on their way out: where they go, and the headers of each frame.
 *
 * The payload is never copied here: a frame is headers and a range of the payload. What does not fit the MTU
 * becomes fragments (RFC 791 §2.3, RFC 8200 §4.5): all but the last as long as possible in units of 8 bytes,
 * the UDP header in the first.
 */
#include "ip/config.h"
#include "ip/engine.h"

#include <apus/core.h>

enum stage {
	STAGE_WHOLE = 1,
	STAGE_FRAGMENTS = 2,
	STAGE_DONE = 3,
};

/* --- Where to ------------------------------------------------------------------------------------- */

static const struct apus_ip_key no_route;

static struct apus_ip_key next_hop4(const struct apus_ip *ip, const uint8_t to[4])
{
	uint32_t hop = apus_ip_load32(to);

	if (!ip->ipv4 || !apus_ip_host4(to))
		return no_route;
	/* 169.254/16 is never routed (RFC 3927 §2.6.2). */
	if (((hop ^ ip->ipv4) & ip->ipv4_mask) && !(to[0] == 169 && to[1] == 254))
		hop = apus_ip_load32(ip->config.ipv4_gateway);
	return apus_ip_key4(hop);
}

static bool is_link_local6(const uint8_t to[16])
{
	return to[0] == 0xfe && (to[1] & 0xc0) == 0x80;
}

static struct apus_ip_key next_hop6(const struct apus_ip *ip, const uint8_t to[16])
{
	if (!ip->own6_count || !apus_ip_host6(to))
		return no_route;
	if (is_link_local6(to) ||
	    (ip->own6_count > 1 &&
	     apus_ip_same_prefix(to, ip->own6[1].ip, ip->config.ipv6_prefix_bits)))
		return apus_ip_key_of(to);
	return apus_ip_key_of(ip->config.ipv6_gateway);
}

struct apus_ip_key apus_ip_next_hop(const struct apus_ip *ip, const struct apus_ip_endpoint *to)
{
	if (to->family == AF_INET)
		return next_hop4(ip, to->ip + 12);
	return to->family == AF_INET6 ? next_hop6(ip, to->ip) : no_route;
}

/* Which of our addresses of IPv6 speaks: the one of the destination's scope (RFC 6724 rule 2, for two). */
static uint8_t source6(const struct apus_ip *ip, const uint8_t to[16])
{
	bool local = is_link_local6(to) || (to[0] == 0xff && (to[1] & 0x0f) <= 2);

	return local || ip->own6_count < 2 ? 0 : 1;
}

static bool can_speak(const struct apus_ip *ip, const struct apus_ip_endpoint *to,
		      uint8_t *source_idx_out)
{
	if (to->family == AF_INET)
		return ip->ipv4 != 0;
	if (to->family != AF_INET6 || !ip->own6_count)
		return false;
	*source_idx_out = source6(ip, to->ip);
	return ip->own6[*source_idx_out].usable;
}

static bool is_broadcast(const struct apus_ip *ip, const struct apus_ip_endpoint *to)
{
	uint32_t address = apus_ip_load32(to->ip + 12);

	return to->family == AF_INET && (address == UINT32_MAX || address == ip->ipv4_broadcast);
}

static int refuse(struct apus_ip *ip, enum apus_ip_count counter, int result)
{
	apus_ip_count(ip, counter);
	return result;
}

/* Finds the MAC, or parks. */
static int find_neighbour(struct apus_ip *ip, struct apus_ip_send *s, struct apus_mono now)
{
	uint32_t waiting = APUS_IP_NONE;
	const struct apus_ip_endpoint *to = &s->to;
	struct apus_ip_key hop = apus_ip_next_hop(ip, to);

	if (apus_ip_key_is_none(hop))
		return refuse(ip, APUS_IP_TX_NO_ROUTE, APUS_ENODEV);
	uint32_t idx = apus_ip_neighbour_resolve(ip, to->family, hop, now, &waiting);

	if (APUS_LIKELY(idx != APUS_IP_NONE)) {
		memcpy(s->mac, ip->neighbours[idx].mac, 6);
		return 0;
	}
	if (waiting != APUS_IP_NONE &&
	    apus_ip_park(ip, waiting, to, s->from_port, s->parts, s->part_count, s->payload_bytes))
		return APUS_EAGAIN;
	return refuse(ip, APUS_IP_TX_UNRESOLVED, APUS_ELIMIT);
}

static int find_mac(struct apus_ip *ip, struct apus_ip_send *s, struct apus_mono now)
{
	if (apus_ip_is_multicast(&s->to)) {
		apus_ip_group_mac(&s->to, s->mac);
		return 0;
	}
	if (is_broadcast(ip, &s->to)) {
		memset(s->mac, 0xff, 6);
		return 0;
	}
	return find_neighbour(ip, s, now);
}

/* --- Checksum ------------------------------------------------------------------------------------- */

/* The sum of a gathered payload: a part that begins at an odd offset counts with its bytes swapped. */
static uint64_t sum_parts(const struct iovec *parts, uint32_t part_count)
{
	uint64_t sum = 0;
	size_t offset = 0;

	for (uint32_t i = 0; i < part_count; i++) {
		uint64_t part = apus_ip_sum(0, parts[i].iov_base, parts[i].iov_len);

		if (offset & 1)
			part = __builtin_bswap16(apus_ip_fold(part));
		sum += part;
		offset += parts[i].iov_len;
	}
	return sum;
}

static uint64_t pseudo_of(const struct apus_ip *ip, const struct apus_ip_send *s)
{
	uint32_t upper = s->payload_bytes + APUS_IP_UDP_BYTES;
	uint64_t sum = htobe32(upper) + htobe16(APUS_IP_PROTO_UDP);

	if (s->to.family == AF_INET)
		return sum + ip->ipv4 + apus_ip_load32(s->to.ip + 12);
	return apus_ip_sum(apus_ip_sum(sum, ip->own6[s->source_idx].ip, 16), s->to.ip, 16);
}

static void set_udp_sum(const struct apus_ip *ip, struct apus_ip_send *s)
{
	enum apus_ip_udp_checksum who = ip->config.udp_checksum;

	if (who == APUS_IP_UDP_NONE && s->to.family == AF_INET) {
		s->udp_sum = 0;
		return;
	}
	uint64_t sum = pseudo_of(ip, s);

	if (who == APUS_IP_UDP_HARDWARE && s->stage == STAGE_WHOLE) {
		s->udp_sum = apus_ip_fold(sum);
		return;
	}
	sum += (uint64_t)htobe16(s->from_port) + htobe16(s->to.port) +
	       htobe16((uint16_t)(s->payload_bytes + APUS_IP_UDP_BYTES));
	s->udp_sum = apus_ip_udp_field(sum + sum_parts(s->parts, s->part_count));
}

/* --- Beginning ------------------------------------------------------------------------------------ */

static bool total_of(const struct iovec *parts, uint32_t part_count, uint32_t *bytes_out)
{
	size_t total = 0;

	if (part_count > APUS_IP_PART_MAX)
		return false;
	for (uint32_t i = 0; i < part_count; i++) {
		if (parts[i].iov_len > APUS_IP_PAYLOAD_MAX_BYTES)
			return false;
		total += parts[i].iov_len;
	}
	*bytes_out = (uint32_t)total;
	return total <= APUS_IP_PAYLOAD_MAX_BYTES;
}

static bool is_destination(const struct apus_ip *ip, const struct apus_ip_endpoint *to)
{
	if (apus_ip_is_own(ip, to))
		return false;
	if (to->family == AF_INET)
		return apus_ip_host4(to->ip + 12) || apus_ip_is_multicast(to) ||
		       is_broadcast(ip, to);
	return apus_ip_host6(to->ip) || apus_ip_is_multicast(to);
}

int apus_ip_send_begin(struct apus_ip *ip, const struct apus_ip_endpoint *to, uint16_t from_port,
		       const struct iovec *parts, uint32_t part_count, struct apus_mono now,
		       struct apus_ip_send *send_out)
{
	struct apus_ip_send *s = send_out;
	uint32_t bytes = 0;
	uint8_t source_idx = 0;

	if (!can_speak(ip, to, &source_idx))
		return refuse(ip, APUS_IP_TX_NO_ROUTE, APUS_ENODEV);
	if (!total_of(parts, part_count, &bytes) || !from_port || !to->port ||
	    !is_destination(ip, to))
		return refuse(ip, APUS_IP_TX_INVALID, APUS_EINVAL);
	s->parts = parts;
	s->part_count = part_count;
	s->payload_bytes = bytes;
	s->done_bytes = 0;
	s->from_port = from_port;
	s->source_idx = source_idx;
	s->to = *to;
	int result = find_mac(ip, s, now);

	if (result)
		return result;
	s->stage = bytes <= apus_ip_payload_bytes(ip, to->family) ? STAGE_WHOLE : STAGE_FRAGMENTS;
	if (to->family == AF_INET)
		s->packet_id = ip->packet_id4++;
	else if (s->stage == STAGE_FRAGMENTS)
		s->packet_id = ip->packet_id6++;
	set_udp_sum(ip, s);
	apus_ip_count(ip, APUS_IP_TX_UDP);
	return 0;
}

/* --- Headers -------------------------------------------------------------------------------------- */

static uint8_t *write_link(const struct apus_ip *ip, const struct apus_ip_send *s, uint8_t *p,
			   uint16_t type)
{
	memcpy(p, ip->link_head, sizeof(ip->link_head));
	memcpy(p, s->mac, 6);
	apus_ip_put16(p + ip->link_bytes - 2, type);
	return p + ip->link_bytes;
}

static void store32(uint8_t *p, uint32_t value)
{
	memcpy(p, &value, sizeof(value));
}

/* Summed while it is in registers: reading back what was just written in other sizes stalls. */
static uint8_t *write_ipv4(const struct apus_ip *ip, const struct apus_ip_send *s, uint8_t *p,
			   uint32_t offset, uint32_t bytes, bool more)
{
	uint32_t ttl = apus_ip_is_multicast(&s->to) ? ip->config.multicast_ttl : ip->config.ttl;
	uint32_t place = offset / 8 | (more ? 0x2000 : 0);
	uint32_t word[5] = {
		htobe32(0x45000000 | (APUS_IP_IPV4_BYTES + bytes)),
		htobe32((s->packet_id & UINT16_MAX) << 16 | place),
		htobe32(ttl << 24 | (uint32_t)APUS_IP_PROTO_UDP << 16),
		ip->ipv4,
		apus_ip_load32(s->to.ip + 12),
	};
	uint64_t sum = (uint64_t)word[0] + word[1] + word[2] + word[3] + word[4];

	for (int i = 0; i < 5; i++)
		store32(p + (size_t)4 * i, word[i]);
	if (!ip->config.ipv4_checksum_hardware)
		apus_ip_store16(p + 10, (uint16_t)~apus_ip_fold(sum));
	return p + APUS_IP_IPV4_BYTES;
}

static uint8_t *write_ipv6(const struct apus_ip *ip, const struct apus_ip_send *s, uint8_t *p,
			   uint32_t offset, uint32_t bytes, bool more)
{
	bool whole = s->stage == STAGE_WHOLE;

	apus_ip_put32(p, 0x60000000);
	apus_ip_put16(p + 4, bytes + (whole ? 0 : APUS_IP_FRAGMENT_BYTES));
	p[6] = whole ? APUS_IP_PROTO_UDP : APUS_IP_PROTO_FRAGMENT;
	p[7] = apus_ip_is_multicast(&s->to) ? ip->config.multicast_ttl : ip->config.ttl;
	memcpy(p + 8, ip->own6[s->source_idx].ip, 16);
	memcpy(p + 24, s->to.ip, 16);
	p += APUS_IP_IPV6_BYTES;
	if (whole)
		return p;
	p[0] = APUS_IP_PROTO_UDP;
	p[1] = 0;
	apus_ip_put16(p + 2, offset | more);
	apus_ip_put32(p + 4, s->packet_id);
	return p + APUS_IP_FRAGMENT_BYTES;
}

static uint8_t *write_udp(const struct apus_ip_send *s, uint8_t *p)
{
	apus_ip_put16(p, s->from_port);
	apus_ip_put16(p + 2, s->to.port);
	apus_ip_put16(p + 4, s->payload_bytes + APUS_IP_UDP_BYTES);
	apus_ip_store16(p + 6, s->udp_sum);
	return p + APUS_IP_UDP_BYTES;
}

static uint8_t flags_of(const struct apus_ip *ip, const struct apus_ip_send *s)
{
	uint8_t flags = 0;

	if (s->to.family == AF_INET && ip->config.ipv4_checksum_hardware)
		flags |= APUS_IP_TX_IPV4_CHECKSUM;
	if (ip->config.udp_checksum == APUS_IP_UDP_HARDWARE && s->stage == STAGE_WHOLE)
		flags |= APUS_IP_TX_UDP_CHECKSUM;
	return flags;
}

/* How much of UDP header and payload the next frame carries. */
static uint32_t share_of(const struct apus_ip *ip, const struct apus_ip_send *s)
{
	uint32_t left = s->payload_bytes + APUS_IP_UDP_BYTES - s->done_bytes;
	uint32_t header = s->to.family == AF_INET ? APUS_IP_IPV4_BYTES
						  : APUS_IP_IPV6_BYTES + APUS_IP_FRAGMENT_BYTES;
	uint32_t room = ip->config.mtu_bytes - header;

	if (s->stage == STAGE_WHOLE || left <= room)
		return left;
	return room & ~UINT32_C(7);
}

bool apus_ip_send_next(struct apus_ip *ip, struct apus_ip_send *send, uint8_t *header_out,
		       struct apus_ip_frame *frame_out)
{
	struct apus_ip_send *s = send;

	if (s->stage == STAGE_DONE)
		return false;
	uint32_t offset = s->done_bytes, bytes = share_of(ip, s);
	bool first = offset == 0;
	bool more = offset + bytes < s->payload_bytes + APUS_IP_UDP_BYTES;
	uint8_t *p = header_out, *network;

	if (s->to.family == AF_INET) {
		network = write_link(ip, s, p, APUS_IP_ETHER_IPV4);
		p = write_ipv4(ip, s, network, offset, bytes, more);
	} else {
		network = write_link(ip, s, p, APUS_IP_ETHER_IPV6);
		p = write_ipv6(ip, s, network, offset, bytes, more);
	}
	frame_out->link_bytes = (uint8_t)ip->link_bytes;
	frame_out->network_bytes = (uint8_t)(p - network);
	if (first)
		p = write_udp(s, p);
	frame_out->header_bytes = (uint32_t)(p - header_out);
	frame_out->payload_offset = first ? 0 : offset - APUS_IP_UDP_BYTES;
	frame_out->payload_bytes = bytes - (first ? APUS_IP_UDP_BYTES : 0);
	frame_out->flags = flags_of(ip, s);
	if (s->stage == STAGE_FRAGMENTS)
		apus_ip_count(ip, APUS_IP_TX_FRAGMENT);
	s->done_bytes += bytes;
	if (!more)
		s->stage = STAGE_DONE;
	return true;
}

void apus_ip_gather(const struct iovec *parts, uint32_t part_count, uint32_t offset, uint32_t bytes,
		    uint8_t *bytes_out)
{
	for (uint32_t i = 0; i < part_count && bytes > 0; i++) {
		size_t length = parts[i].iov_len;

		if (offset >= length) {
			offset -= (uint32_t)length;
			continue;
		}
		uint32_t take = length - offset < bytes ? (uint32_t)(length - offset) : bytes;

		memcpy(bytes_out, (const uint8_t *)parts[i].iov_base + offset, take);
		bytes_out += take;
		bytes -= take;
		offset = 0;
	}
}
