/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ICMP (RFC 792) and ICMPv6 (RFC 4443), the part a host needs: echo is answered, errors are taken note of,
 * an unused port is reported. Answers go back to the MAC the frame came from, within a rate.
 */
#include "ip/engine.h"

#define ECHO_REPLY            0
#define DESTINATION_UNREACHED 3
#define PORT_UNREACHED        3
#define ECHO_REQUEST          8
#define ICMP_BYTES            8
/* ICMPv6 */
#define UNREACHED6      1
#define PORT_UNREACHED6 4
#define ECHO_REQUEST6   128
#define ECHO_REPLY6     129
#define MLD_QUERY       130
#define MLD_REPORT_V1   131
#define ND_FIRST        133
#define ND_LAST         137
#define MLD_REPORT_V2   143
/** Hop limit of what we send beyond the link. */
#define HOPS 64

static bool may_answer(struct apus_ip *ip, struct apus_ip_bucket *bucket, struct apus_mono now)
{
	return apus_ip_control_has_room(ip) && apus_ip_bucket_take(ip, bucket, now);
}

static void echo4(struct apus_ip *ip, const uint8_t *packet, const uint8_t *message, uint32_t bytes,
		  const uint8_t *source_mac, struct apus_mono now)
{
	if (!may_answer(ip, &ip->echo, now))
		return;
	uint8_t *p = apus_ip_control_ipv4(ip, source_mac, packet + 12, APUS_IP_PROTO_ICMP,
					  ip->config.ttl, false, bytes);

	if (!p)
		return;
	memcpy(p, message, bytes);
	p[0] = ECHO_REPLY;
	apus_ip_store16(p + 2, 0);
	apus_ip_store16(p + 2, apus_ip_checksum(p, bytes));
}

enum apus_ip_verdict apus_ip_icmp_input(struct apus_ip *ip, const uint8_t *packet,
					const uint8_t *message, uint32_t bytes, bool unicast,
					const uint8_t *source_mac, struct apus_mono now)
{
	if (bytes < ICMP_BYTES || apus_ip_fold(apus_ip_sum(0, message, bytes)) != UINT16_MAX)
		return apus_ip_drop(ip, APUS_IP_DROP_ICMP);
	/* RFC 1122 §3.2.2.6: to everybody it may be ignored, and had better be. */
	if (!unicast || (message[0] == ECHO_REQUEST && message[1] != 0))
		return apus_ip_drop(ip, APUS_IP_DROP_ICMP);
	apus_ip_count(ip, APUS_IP_RX_ICMP);
	if (message[0] == ECHO_REQUEST)
		echo4(ip, packet, message, bytes, source_mac, now);
	return APUS_IP_CONSUMED;
}

/* --- ICMPv6 --------------------------------------------------------------------------------------- */

static uint64_t pseudo6(const uint8_t *packet, uint32_t bytes)
{
	return apus_ip_pseudo(packet + 8, 16, APUS_IP_PROTO_ICMP6, bytes);
}

void apus_ip_icmp6_seal(const uint8_t *packet, uint8_t *message, uint32_t bytes)
{
	apus_ip_store16(message + 2, 0);
	uint64_t sum = apus_ip_sum(pseudo6(packet, bytes), message, bytes);

	apus_ip_store16(message + 2, (uint16_t)~apus_ip_fold(sum));
}

/* Which of ours was addressed; for groups the link-local one. */
static const uint8_t *speaker6(const struct apus_ip *ip, const uint8_t *destination)
{
	uint32_t own_idx = apus_ip_own6_find(ip, destination);

	return ip->own6[own_idx == APUS_IP_NONE ? 0 : own_idx].ip;
}

static void echo6(struct apus_ip *ip, const uint8_t *packet, const uint8_t *message, uint32_t bytes,
		  const uint8_t *source_mac, struct apus_mono now)
{
	if (!may_answer(ip, &ip->echo, now))
		return;
	uint8_t *p = apus_ip_control_ipv6(ip, source_mac, speaker6(ip, packet + 24), packet + 8,
					  HOPS, false, bytes);

	if (!p)
		return;
	memcpy(p, message, bytes);
	p[0] = ECHO_REPLY6;
	apus_ip_icmp6_seal(p - APUS_IP_IPV6_BYTES, p, bytes);
}

enum apus_ip_verdict apus_ip_icmp6_input(struct apus_ip *ip, const uint8_t *packet,
					 const uint8_t *message, uint32_t bytes, bool alerted,
					 const uint8_t *source_mac, struct apus_mono now)
{
	if (bytes < ICMP_BYTES ||
	    apus_ip_fold(apus_ip_sum(pseudo6(packet, bytes), message, bytes)) != UINT16_MAX)
		return apus_ip_drop(ip, APUS_IP_DROP_ICMP);
	uint8_t type = message[0];

	if (type >= ND_FIRST && type <= ND_LAST)
		return apus_ip_nd_input(ip, packet, message, bytes, source_mac, now);
	if (apus_ip_own6_find(ip, packet + 8) != APUS_IP_NONE)
		return apus_ip_drop(ip, APUS_IP_DROP_OWN);
	if ((type >= MLD_QUERY && type <= MLD_REPORT_V1 + 1) || type == MLD_REPORT_V2)
		return apus_ip_mld_input(ip, packet, message, bytes, alerted, now);
	/* Only neighbour discovery and MLD may come from nowhere. */
	if (apus_ip_all_zero(packet + 8, 16))
		return apus_ip_drop(ip, APUS_IP_DROP_SOURCE);
	if (packet[24] == 0xff || (type == ECHO_REQUEST6 && message[1] != 0))
		return apus_ip_drop(ip, APUS_IP_DROP_ICMP);
	apus_ip_count(ip, APUS_IP_RX_ICMP);
	if (type == ECHO_REQUEST6)
		echo6(ip, packet, message, bytes, source_mac, now);
	return APUS_IP_CONSUMED;
}

/* --- Port unreachable ----------------------------------------------------------------------------- */

/* The packet's header and the UDP header, as RFC 792 wants it. */
static void cite(uint8_t *p, const struct apus_ip_datagram *d)
{
	memset(p, 0, ICMP_BYTES);
	memcpy(p + ICMP_BYTES, d->packet, d->packet_header_bytes);
	memcpy(p + ICMP_BYTES + d->packet_header_bytes, d->payload - APUS_IP_UDP_BYTES,
	       APUS_IP_UDP_BYTES);
}

void apus_ip_unreachable(struct apus_ip *ip, const struct apus_ip_datagram *datagram,
			 struct apus_mono now)
{
	const struct apus_ip_datagram *d = datagram;
	uint32_t bytes = ICMP_BYTES + d->packet_header_bytes + APUS_IP_UDP_BYTES;
	uint8_t *p;

	if (d->multicast || !may_answer(ip, &ip->unreachable, now))
		return;
	if (d->from.family == AF_INET) {
		p = apus_ip_control_ipv4(ip, d->source_mac, d->from.ip + 12, APUS_IP_PROTO_ICMP,
					 ip->config.ttl, false, bytes);
		if (!p)
			return;
		cite(p, d);
		p[0] = DESTINATION_UNREACHED;
		p[1] = PORT_UNREACHED;
		apus_ip_store16(p + 2, apus_ip_checksum(p, bytes));
		return;
	}
	p = apus_ip_control_ipv6(ip, d->source_mac, speaker6(ip, d->to.ip), d->from.ip, HOPS, false,
				 bytes);
	if (!p)
		return;
	cite(p, d);
	p[0] = UNREACHED6;
	p[1] = PORT_UNREACHED6;
	apus_ip_icmp6_seal(p - APUS_IP_IPV6_BYTES, p, bytes);
}
