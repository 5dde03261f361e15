/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IPv6 on its way in (RFC 8200): the fixed header, a bounded chain of extensions, and what is behind it.
 *
 * Extensions are skipped: options that may be, routing headers that are used up. At most EXTENSION_MAX
 * headers and EXTENSION_MAX_BYTES, hop-by-hop options first or not at all; others are refused.
 */
#include "ip/config.h"
#include "ip/engine.h"

#define EXTENSION_MAX       8
#define EXTENSION_MAX_BYTES 256
#define OPTION_PAD1         0
#define OPTION_ALERT        5

/** What the chain of headers has told. */
struct chain {
	const uint8_t *upper; /* what is behind it */
	uint32_t bytes;
	uint32_t skipped_bytes; /* extensions */
	uint8_t protocol;
	bool alerted;
	const uint8_t *fragment; /* header of a fragment, NULL: whole */
};

/* Options that are to be understood or else the packet dropped have one of the two highest bits
 * (RFC 8200 §4.2). `bytes` are those behind the extension's first two. */
static bool walk_options(const uint8_t *p, uint32_t bytes, bool *alerted)
{
	while (bytes > 0) {
		if (*p == OPTION_PAD1) {
			p++;
			bytes--;
			continue;
		}
		if (bytes < 2 || bytes - 2 < p[1] || (*p & 0xc0))
			return false;
		*alerted |= *p == OPTION_ALERT && p[1] == 2;
		bytes -= 2 + (uint32_t)p[1];
		p += 2 + (size_t)p[1];
	}
	return true;
}

/* Takes one extension off; APUS_IP_COUNT_MAX: done, else why not. */
static enum apus_ip_count skip_extension(struct chain *c, bool first)
{
	const uint8_t *p = c->upper;

	if (c->bytes < 8)
		return APUS_IP_DROP_SHORT;
	uint32_t length = ((uint32_t)p[1] + 1) * 8;

	if (c->protocol == APUS_IP_PROTO_FRAGMENT) {
		/* Nothing but the datagram itself may be behind it: first pieces would hide it. */
		length = APUS_IP_FRAGMENT_BYTES;
		if (apus_ip_get16(p + 2) & 0xfff9)
			c->fragment = p;
	} else if (length > c->bytes) {
		return APUS_IP_DROP_SHORT;
	} else if (c->protocol == APUS_IP_PROTO_ROUTING) {
		if (p[3] != 0) /* segments left: we are no router */
			return APUS_IP_DROP_HEADER;
	} else if (!walk_options(p + 2, length - 2, &c->alerted) ||
		   (c->protocol == APUS_IP_PROTO_HOP && !first)) {
		return APUS_IP_DROP_HEADER;
	}
	c->skipped_bytes += length;
	c->protocol = p[0];
	c->upper += length;
	c->bytes -= length;
	return c->skipped_bytes > EXTENSION_MAX_BYTES ? APUS_IP_DROP_HEADER : APUS_IP_COUNT_MAX;
}

static bool is_extension(uint8_t protocol)
{
	return protocol == APUS_IP_PROTO_HOP || protocol == APUS_IP_PROTO_ROUTING ||
	       protocol == APUS_IP_PROTO_FRAGMENT || protocol == APUS_IP_PROTO_OPTIONS;
}

static enum apus_ip_count walk_chain(struct chain *c)
{
	for (uint32_t i = 0; is_extension(c->protocol) && !c->fragment; i++) {
		enum apus_ip_count wrong =
			i < EXTENSION_MAX ? skip_extension(c, i == 0) : APUS_IP_DROP_HEADER;

		if (wrong != APUS_IP_COUNT_MAX)
			return wrong;
	}
	return APUS_IP_COUNT_MAX;
}

static enum apus_ip_verdict fragment6(struct apus_ip *ip, const uint8_t *packet,
				      const struct chain *c, const uint8_t *source_mac,
				      struct apus_mono now, struct apus_ip_datagram *out)
{
	uint16_t field = apus_ip_get16(c->fragment + 2);
	uint8_t header[APUS_IP_IPV6_BYTES];

	if (c->protocol != APUS_IP_PROTO_UDP)
		return apus_ip_drop(ip, APUS_IP_DROP_FRAGMENT);
	/* As it would have been without extensions, for who is told of it. */
	memcpy(header, packet, sizeof(header));
	header[6] = APUS_IP_PROTO_UDP;
	struct apus_ip_piece piece = {
		.family = AF_INET6,
		.packet_id = apus_ip_get32(c->fragment + 4),
		.source = packet + 8,
		.destination = packet + 24,
		.header = header,
		.header_bytes = sizeof(header),
		.source_mac = source_mac,
		.bytes = c->upper,
		.byte_count = c->bytes,
		.offset = field & 0xfff8,
		.more = field & 1,
	};
	return apus_ip_piece_input(ip, &piece, packet + 8, now, out);
}

/* Whether the destination is ours; tells which kind. Tentative addresses hear neighbour discovery only. */
static bool is_for_us(const struct apus_ip *ip, const uint8_t *destination, bool *group_out)
{
	*group_out = destination[0] == 0xff;
	if (*group_out)
		return apus_ip_group_has6(ip, destination);
	uint32_t own_idx = apus_ip_own6_find(ip, destination);

	return own_idx != APUS_IP_NONE && ip->own6[own_idx].usable;
}

static enum apus_ip_count source_wrong(const struct apus_ip *ip, const uint8_t *from,
				       uint8_t protocol)
{
	if (APUS_UNLIKELY(!apus_ip_host6(from))) {
		bool nowhere = protocol == APUS_IP_PROTO_ICMP6 && apus_ip_all_zero(from, 16);

		return nowhere ? APUS_IP_COUNT_MAX : APUS_IP_DROP_SOURCE;
	}
	/* Neighbour discovery wants to know who else has our address. */
	return protocol != APUS_IP_PROTO_ICMP6 && apus_ip_own6_find(ip, from) != APUS_IP_NONE
		       ? APUS_IP_DROP_OWN
		       : APUS_IP_COUNT_MAX;
}

static enum apus_ip_count header_wrong(const struct apus_ip *ip, const uint8_t *packet,
				       uint32_t bytes)
{
	if (bytes < APUS_IP_IPV6_BYTES)
		return APUS_IP_DROP_SHORT;
	uint32_t payload = apus_ip_get16(packet + 4);

	/* A length of 0 would announce a jumbogram (RFC 2675). */
	if (packet[0] >> 4 != 6 || payload == 0)
		return APUS_IP_DROP_HEADER;
	/* A super-frame that was cut to its buffer is one still. */
	if (payload > bytes - APUS_IP_IPV6_BYTES)
		return bytes > ip->config.mtu_bytes ? APUS_IP_DROP_OVERSIZE : APUS_IP_DROP_SHORT;
	return payload + APUS_IP_IPV6_BYTES > ip->config.mtu_bytes ? APUS_IP_DROP_OVERSIZE
								   : APUS_IP_COUNT_MAX;
}

enum apus_ip_verdict apus_ip_ipv6_input(struct apus_ip *ip, const uint8_t *packet, uint32_t bytes,
					uint32_t flags, bool to_all, const uint8_t *source_mac,
					struct apus_mono now, struct apus_ip_datagram *out)
{
	enum apus_ip_count wrong = header_wrong(ip, packet, bytes);
	bool group;

	if (wrong != APUS_IP_COUNT_MAX)
		return apus_ip_drop(ip, wrong);
	if (!is_for_us(ip, packet + 24, &group) || (to_all && !group))
		return apus_ip_drop(ip, APUS_IP_DROP_NOT_OURS);
	struct chain c = {.upper = packet + APUS_IP_IPV6_BYTES,
			  .bytes = apus_ip_get16(packet + 4),
			  .protocol = packet[6]};

	wrong = walk_chain(&c);
	if (wrong == APUS_IP_COUNT_MAX)
		wrong = source_wrong(ip, packet + 8, c.protocol);
	if (wrong != APUS_IP_COUNT_MAX)
		return apus_ip_drop(ip, wrong);
	out->multicast = group;
	if (c.fragment)
		return fragment6(ip, packet, &c, source_mac, now, out);
	if (c.protocol == APUS_IP_PROTO_ICMP6)
		return apus_ip_icmp6_input(ip, packet, c.upper, c.bytes, c.alerted, source_mac,
					   now);
	if (c.protocol != APUS_IP_PROTO_UDP)
		return apus_ip_drop(ip, APUS_IP_DROP_PROTOCOL);
	out->packet = packet;
	out->packet_header_bytes = APUS_IP_IPV6_BYTES + c.skipped_bytes;
	memcpy(out->source_mac, source_mac, 6);
	return apus_ip_udp_input(ip, c.upper, c.bytes, AF_INET6, packet + 8,
				 flags & APUS_IP_RX_UDP_CHECKSUM_GOOD, out);
}
