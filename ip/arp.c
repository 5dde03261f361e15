/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ARP (RFC 826, RFC 5227): questions, answers, announcements. Packets whose sender is not the frame's source,
 * or not of our network, are refused.
 */
#include "ip/config.h"
#include "ip/engine.h"

#define ARP_BYTES   28
#define ARP_REQUEST 1
#define ARP_REPLY   2

static const uint8_t everybody[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
/* Ethernet, IPv4, lengths 6 and 4. */
static const uint8_t kind[6] = {0, 1, 8, 0, 6, 4};

static void send_arp_from(struct apus_ip *ip, const uint8_t sender[4], const uint8_t to_mac[6],
			  uint16_t operation, const uint8_t target_mac[6], const uint8_t target[4])
{
	uint8_t *p = apus_ip_control_frame(ip, to_mac, APUS_IP_ETHER_ARP, ARP_BYTES);

	if (!p)
		return;
	memcpy(p, kind, sizeof(kind));
	apus_ip_put16(p + 6, operation);
	memcpy(p + 8, ip->config.mac, 6);
	memcpy(p + 14, sender, 4);
	memcpy(p + 18, target_mac, 6);
	memcpy(p + 24, target, 4);
}

static void send_arp(struct apus_ip *ip, const uint8_t to_mac[6], uint16_t operation,
		     const uint8_t target_mac[6], const uint8_t target[4])
{
	send_arp_from(ip, ip->config.ipv4, to_mac, operation, target_mac, target);
}

void apus_ip_arp_ask(struct apus_ip *ip, const uint8_t target[4], const uint8_t *mac)
{
	static const uint8_t unknown[6];

	send_arp(ip, mac ? mac : everybody, ARP_REQUEST, unknown, target);
}

void apus_ip_arp_announce(struct apus_ip *ip)
{
	static const uint8_t unknown[6];

	/* A request for ourselves (RFC 5227 §3: the form all hosts understand). */
	send_arp(ip, everybody, ARP_REQUEST, unknown, ip->config.ipv4);
}

void apus_ip_arp_probe(struct apus_ip *ip)
{
	static const uint8_t unknown[6];

	send_arp_from(ip, unknown, everybody, ARP_REQUEST, unknown, ip->config.ipv4);
}

static void answer(struct apus_ip *ip, const uint8_t *packet, struct apus_mono now)
{
	if (apus_ip_control_has_room(ip) && apus_ip_bucket_take(ip, &ip->reply, now))
		send_arp(ip, packet + 8, ARP_REPLY, packet + 8, packet + 14);
}

/* Somebody else uses our address: told once in a while that it is ours. */
static void conflict(struct apus_ip *ip, const uint8_t *mac, struct apus_mono now)
{
	apus_ip_count_conflict(ip, mac);
	if (apus_ip_control_has_room(ip) && apus_ip_bucket_take(ip, &ip->defend, now))
		apus_ip_arp_announce(ip);
}

static bool is_well_formed(const uint8_t *p, uint32_t bytes, const uint8_t *source_mac)
{
	uint16_t operation = bytes >= ARP_BYTES ? apus_ip_get16(p + 6) : 0;

	return (operation == ARP_REQUEST || operation == ARP_REPLY) &&
	       memcmp(p, kind, sizeof(kind)) == 0 && memcmp(p + 8, source_mac, 6) == 0;
}

/* A sender of our link, or one without an address yet that probes (RFC 5227 §2.1.1). */
static bool is_of_link(const struct apus_ip *ip, const uint8_t sender[4], uint16_t operation)
{
	uint32_t address = apus_ip_load32(sender);

	if (address == 0)
		return operation == ARP_REQUEST;
	return apus_ip_host4(sender) && ((address ^ ip->ipv4) & ip->ipv4_mask) == 0 &&
	       address != ip->ipv4_broadcast;
}

enum apus_ip_verdict apus_ip_arp_input(struct apus_ip *ip, const uint8_t *packet, uint32_t bytes,
				       const uint8_t *source_mac, struct apus_mono now)
{
	if (!ip->ipv4)
		return apus_ip_drop(ip, APUS_IP_DROP_ETHERTYPE);
	if (!is_well_formed(packet, bytes, source_mac))
		return apus_ip_drop(ip, APUS_IP_DROP_ARP);
	uint16_t operation = apus_ip_get16(packet + 6);
	const uint8_t *sender = packet + 14;
	struct apus_ip_endpoint from = apus_ip_endpoint_v4(sender, 0);
	bool for_us = apus_ip_load32(packet + 24) == ip->ipv4;

	if (!is_of_link(ip, sender, operation))
		return apus_ip_drop(ip, APUS_IP_DROP_ARP);
	apus_ip_count(ip, APUS_IP_RX_ARP);
	/* Who probes for our address while we do wants it as well (RFC 5227 §2.1.1). */
	if (apus_ip_load32(sender) == ip->ipv4 ||
	    (ip->probing && for_us && apus_ip_load32(sender) == 0)) {
		conflict(ip, source_mac, now);
	} else if (operation == ARP_REPLY) {
		apus_ip_neighbour_claim(ip, AF_INET, from.ip, source_mac, for_us, now);
	} else if (for_us) {
		if (apus_ip_load32(sender))
			apus_ip_neighbour_learn(ip, AF_INET, from.ip, source_mac, now);
		answer(ip, packet, now);
	} else if (apus_ip_load32(sender)) {
		apus_ip_neighbour_claim(ip, AF_INET, from.ip, source_mac, false, now);
	}
	return APUS_IP_CONSUMED;
}
