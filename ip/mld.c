/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multicast listener discovery as a host speaks it: version 2 (RFC 3810), and 1 (RFC 2710) where such a querier
 * was heard.
 */
#include "ip/engine.h"

#define MLD1_BYTES     24
#define MLD2_MIN_BYTES 28
#define QUERY          130
#define REPORT1        131
#define DONE1          132
#define REPORT2        143
#define REPORT2_BYTES  8
#define RECORD_BYTES   20

static const uint8_t all_nodes[16] = {0xff, 0x02, [15] = 1};
static const uint8_t all_routers[16] = {0xff, 0x02, [15] = 2};
static const uint8_t all_mld2[16] = {0xff, 0x02, [15] = 22};

/* From the link-local address, or from nowhere while that is tentative (RFC 3810 §5.2.13). */
static uint8_t *begin(struct apus_ip *ip, const uint8_t to[16], uint32_t bytes)
{
	struct apus_ip_endpoint group = apus_ip_endpoint_v6(to, 0);
	const uint8_t *from = ip->own6[0].usable ? ip->own6[0].ip : NULL;
	uint8_t mac[6];

	apus_ip_group_mac(&group, mac);
	uint8_t *p = apus_ip_control_ipv6(ip, mac, from, to, 1, true, bytes);

	if (p)
		memset(p, 0, bytes);
	return p;
}

/* The fixed header stands before the 8 bytes of router alert. */
static void seal(uint8_t *p, uint32_t bytes)
{
	apus_ip_icmp6_seal(p - 8 - APUS_IP_IPV6_BYTES, p, bytes);
}

static void send_older(struct apus_ip *ip, const uint8_t group[16], enum apus_ip_record type)
{
	bool leaves = type == APUS_IP_RECORD_HAS_LEFT;
	uint8_t *p = begin(ip, leaves ? all_routers : group, MLD1_BYTES);

	if (!p)
		return;
	p[0] = leaves ? DONE1 : REPORT1;
	memcpy(p + 8, group, 16);
	seal(p, MLD1_BYTES);
}

void apus_ip_mld_report(struct apus_ip *ip, const struct apus_ip_group *const *groups,
			uint32_t count, enum apus_ip_record type)
{
	uint32_t bytes = REPORT2_BYTES + count * RECORD_BYTES;

	if (ip->querier6.version < 2) {
		for (uint32_t i = 0; i < count; i++)
			send_older(ip, groups[i]->ip, type);
		return;
	}
	uint8_t *p = begin(ip, all_mld2, bytes);

	if (!p)
		return;
	p[0] = REPORT2;
	apus_ip_put16(p + 6, count);
	for (uint32_t i = 0; i < count; i++) {
		uint8_t *record = p + REPORT2_BYTES + (size_t)i * RECORD_BYTES;

		record[0] = (uint8_t)type;
		memcpy(record + 4, groups[i]->ip, 16);
	}
	seal(p, bytes);
}

/* RFC 3810 §5.1.3: milliseconds, above 32767 as a floating-point number. */
static int64_t response_ns(uint16_t code, uint8_t version)
{
	int64_t ms = code;

	if (version == 2 && code >= 32768)
		ms = (int64_t)((code & 0x0fff) | 0x1000) << (((code >> 12) & 7) + 3);
	return ms * APUS_NS_PER_MS;
}

static enum apus_ip_verdict query(struct apus_ip *ip, const uint8_t *packet, const uint8_t *message,
				  uint32_t bytes, struct apus_mono now)
{
	uint8_t version = bytes >= MLD2_MIN_BYTES ? 2 : 1;
	const uint8_t *group = message + 8;
	bool general = apus_ip_all_zero(group, 16);

	if ((bytes != MLD1_BYTES && version != 2) ||
	    memcmp(packet + 24, general ? all_nodes : group, 16) != 0)
		return apus_ip_drop(ip, APUS_IP_DROP_GROUP);
	apus_ip_count(ip, APUS_IP_RX_GROUP);
	apus_ip_querier_heard(ip, &ip->querier6, version, 2, now);
	apus_ip_group_query(ip, AF_INET6, general ? NULL : group,
			    response_ns(apus_ip_get16(message + 4), version), now);
	return APUS_IP_CONSUMED;
}

enum apus_ip_verdict apus_ip_mld_input(struct apus_ip *ip, const uint8_t *packet,
				       const uint8_t *message, uint32_t bytes, bool alerted,
				       struct apus_mono now)
{
	bool link_local = packet[8] == 0xfe && (packet[9] & 0xc0) == 0x80;
	bool nowhere = apus_ip_all_zero(packet + 8, 16);

	/* RFC 3810 §5.1.14, §5.2.13: link-local source (reports also ::), hop limit 1, router alert. */
	if (packet[7] != 1 || !alerted || !(link_local || (nowhere && message[0] != QUERY)))
		return apus_ip_drop(ip, APUS_IP_DROP_GROUP);
	if (message[0] == QUERY) {
		if (bytes < MLD1_BYTES)
			return apus_ip_drop(ip, APUS_IP_DROP_GROUP);
		return query(ip, packet, message, bytes, now);
	}
	apus_ip_count(ip, APUS_IP_RX_GROUP);
	if (message[0] == REPORT1 && bytes >= MLD1_BYTES)
		apus_ip_group_reported(ip, AF_INET6, message + 8);
	return APUS_IP_CONSUMED;
}
