/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IGMP as a host speaks it: version 3 (RFC 3376), 2 (RFC 2236) and 1 (RFC 1112) where such a querier was heard.
 * We listen to whole groups only, never to chosen sources.
 */
#include "ip/engine.h"

#define IGMP_BYTES      8
#define IGMP3_MIN_BYTES 12
#define QUERY           0x11
#define REPORT1         0x12
#define REPORT2         0x16
#define LEAVE2          0x17
#define REPORT3         0x22
#define RECORD_BYTES    8
/** Maximum response time of IGMPv1 queries, which state none (RFC 2236 §4). */
#define RESPONSE1_NS (10 * APUS_NS_PER_SEC)

static const uint8_t all_hosts[4] = {224, 0, 0, 1};
static const uint8_t all_routers[4] = {224, 0, 0, 2};
static const uint8_t all_igmp3[4] = {224, 0, 0, 22};

static uint8_t *begin(struct apus_ip *ip, const uint8_t to[4], uint32_t bytes)
{
	struct apus_ip_endpoint group = apus_ip_endpoint_v4(to, 0);
	uint8_t mac[6];

	apus_ip_group_mac(&group, mac);
	uint8_t *p = apus_ip_control_ipv4(ip, mac, to, APUS_IP_PROTO_IGMP, 1, true, bytes);

	if (p)
		memset(p, 0, bytes);
	return p;
}

/* Versions 1 and 2: a message a group. */
static void send_older(struct apus_ip *ip, const uint8_t group[4], enum apus_ip_record type)
{
	bool leaves = type == APUS_IP_RECORD_HAS_LEFT;
	uint8_t *p = begin(ip, leaves ? all_routers : group, IGMP_BYTES);

	if (!p)
		return;
	p[0] = leaves ? LEAVE2 : ip->querier4.version == 1 ? REPORT1 : REPORT2;
	memcpy(p + 4, group, 4);
	apus_ip_store16(p + 2, apus_ip_checksum(p, IGMP_BYTES));
}

void apus_ip_igmp_report(struct apus_ip *ip, const struct apus_ip_group *const *groups,
			 uint32_t count, enum apus_ip_record type)
{
	uint32_t bytes = IGMP_BYTES + count * RECORD_BYTES;

	if (ip->querier4.version < 3) {
		for (uint32_t i = 0; i < count; i++)
			send_older(ip, groups[i]->ip + 12, type);
		return;
	}
	uint8_t *p = begin(ip, all_igmp3, bytes);

	if (!p)
		return;
	p[0] = REPORT3;
	apus_ip_put16(p + 6, count);
	for (uint32_t i = 0; i < count; i++) {
		uint8_t *record = p + IGMP_BYTES + (size_t)i * RECORD_BYTES;

		record[0] = (uint8_t)type;
		memcpy(record + 4, groups[i]->ip + 12, 4);
	}
	apus_ip_store16(p + 2, apus_ip_checksum(p, bytes));
}

/* RFC 3376 §4.1.1: tenths of a second, above 127 as a small floating-point number. */
static int64_t response_ns(uint8_t code, uint8_t version)
{
	int64_t tenths = code;

	if (version == 1)
		return RESPONSE1_NS;
	if (version == 3 && code >= 128)
		tenths = (int64_t)((code & 0x0f) | 0x10) << (((code >> 4) & 7) + 3);
	return tenths * (APUS_NS_PER_SEC / 10);
}

static enum apus_ip_verdict query(struct apus_ip *ip, const uint8_t *packet, const uint8_t *message,
				  uint32_t bytes, struct apus_mono now)
{
	/* RFC 3376 §7.1: told apart by length and code. */
	uint8_t version = bytes >= IGMP3_MIN_BYTES ? 3 : message[1] ? 2 : 1;
	const uint8_t *group = message + 4;
	bool general = apus_ip_load32(group) == 0;
	const uint8_t *expected = general ? all_hosts : group;

	/* Nine to eleven bytes are no version's (RFC 3376 §7.1); one goes to the group it asks for. */
	if ((bytes != IGMP_BYTES && version != 3) || memcmp(packet + 16, expected, 4) != 0)
		return apus_ip_drop(ip, APUS_IP_DROP_GROUP);
	struct apus_ip_endpoint e = apus_ip_endpoint_v4(group, 0);

	apus_ip_count(ip, APUS_IP_RX_GROUP);
	apus_ip_querier_heard(ip, &ip->querier4, version, 3, now);
	apus_ip_group_query(ip, AF_INET, general ? NULL : e.ip, response_ns(message[1], version),
			    now);
	return APUS_IP_CONSUMED;
}

enum apus_ip_verdict apus_ip_igmp_input(struct apus_ip *ip, const uint8_t *packet,
					const uint8_t *message, uint32_t bytes,
					struct apus_mono now)
{
	/* Every message of IGMP has a TTL of 1: with another it was not sent on this link. */
	if (bytes < IGMP_BYTES || packet[8] != 1 ||
	    apus_ip_fold(apus_ip_sum(0, message, bytes)) != UINT16_MAX)
		return apus_ip_drop(ip, APUS_IP_DROP_GROUP);
	if (message[0] == QUERY)
		return query(ip, packet, message, bytes, now);
	apus_ip_count(ip, APUS_IP_RX_GROUP);
	if (message[0] == REPORT1 || message[0] == REPORT2) {
		struct apus_ip_endpoint e = apus_ip_endpoint_v4(message + 4, 0);

		apus_ip_group_reported(ip, AF_INET, e.ip);
	}
	return APUS_IP_CONSUMED;
}
