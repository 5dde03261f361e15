/* SPDX-License-Identifier: Apache-2.0 */
/* Selection of addresses; see the header for the rules. */
#include "control/locators.h"

#include <stdio.h>
#include <stdlib.h>

/* Priorities: smaller is better. 0…32: bits in which the address differs from the nearest of ours. */
#define PRIORITY_UNKNOWN 33

/* A candidate while it is being ranked. */
struct ranked {
	struct apus_ctl_candidate candidate;
	uint32_t priority;
};

static bool is_loopback(const struct apus_dp_addr *addr)
{
	return addr->ip[12] == 127;
}

static bool is_own(const struct apus_ctl_locator_policy *policy, const struct apus_dp_addr *addr)
{
	for (uint32_t i = 0; i < policy->own_count; i++)
		if (memcmp(policy->own[i], addr->ip + 12, 4) == 0)
			return true;
	return false;
}

bool apus_ctl_locators_same_host(const struct apus_ctl_locator_policy *policy,
				 const struct apus_dp_addr *from)
{
	return from->family == AF_INET && (is_loopback(from) || is_own(policy, from));
}

static uint32_t ipv4_number(const uint8_t ip[4])
{
	return (uint32_t)ip[0] << 24 | (uint32_t)ip[1] << 16 | (uint32_t)ip[2] << 8 | ip[3];
}

/* Bits behind the longest prefix shared with one of our addresses. */
static uint32_t distance(const struct apus_ctl_locator_policy *policy,
			 const struct apus_dp_addr *addr)
{
	uint32_t best = PRIORITY_UNKNOWN;

	for (uint32_t i = 0; i < policy->own_count; i++) {
		uint32_t differ = ipv4_number(policy->own[i]) ^ ipv4_number(addr->ip + 12);
		uint32_t bits = differ ? 32 - (uint32_t)__builtin_clz(differ) : 0;

		if (bits < best)
			best = bits;
	}
	return best;
}

/* The gates: usable family, multicast only as the policy says, loopback only on one host. */
static bool passes(const struct apus_ctl_locator_policy *policy, bool same_host,
		   const struct apus_dp_addr *addr)
{
	if (addr->family != AF_INET || addr->port == 0 || ipv4_number(addr->ip + 12) == 0)
		return false;
	if (apus_dp_addr_is_multicast(addr))
		return policy->multicast;
	if (is_loopback(addr))
		return same_host;
	/* A socket bound to 127.0.0.1 reaches this host's other addresses, but no other host. */
	return !policy->loopback_only || same_host;
}

static int compare(const void *left, const void *right)
{
	const struct ranked *a = left, *b = right;
	int order;

	if (a->candidate.fallback != b->candidate.fallback)
		return a->candidate.fallback ? 1 : -1;
	if (a->priority != b->priority)
		return a->priority < b->priority ? -1 : 1;
	order = memcmp(a->candidate.addr.ip, b->candidate.addr.ip, sizeof(a->candidate.addr.ip));
	if (order)
		return order;
	return (int)a->candidate.addr.port - (int)b->candidate.addr.port;
}

/* Remembers an address; false if it is there already. Open addressing, at most half full. */
static bool remember(uint8_t table[2 * APUS_CTL_CANDIDATES_MAX],
		     const struct apus_ctl_candidate *kept, uint32_t idx)
{
	const struct apus_dp_addr *addr = &kept[idx].addr;
	uint32_t slots = 2 * APUS_CTL_CANDIDATES_MAX;
	uint32_t at = ((ipv4_number(addr->ip + 12) ^ addr->port) * 0x9e3779b1u) >> 25;

	for (; table[at]; at = (at + 1) % slots)
		if (apus_dp_addr_equal(&kept[table[at] - 1].addr, addr))
			return false;
	table[at] = (uint8_t)(idx + 1);
	return true;
}

_Static_assert(2 * APUS_CTL_CANDIDATES_MAX == 128, "remember() takes seven bits of the hash");

uint32_t apus_ctl_locators_select(const struct apus_ctl_locator_policy *policy, bool same_host,
				  struct apus_ctl_candidate *candidates, uint32_t count)
{
	struct ranked ranked[APUS_CTL_CANDIDATES_MAX];
	uint8_t table[2 * APUS_CTL_CANDIDATES_MAX] = {0};
	uint32_t passed = 0, kept = 0;

	for (uint32_t i = 0; i < count && i < APUS_CTL_CANDIDATES_MAX; i++)
		if (passes(policy, same_host, &candidates[i].addr))
			ranked[passed++] = (struct ranked){candidates[i],
							   distance(policy, &candidates[i].addr)};
	qsort(ranked, passed, sizeof(*ranked), compare);
	for (uint32_t i = 0; i < passed; i++) {
		candidates[kept] = ranked[i].candidate;
		if (remember(table, candidates, kept))
			kept++;
	}
	return kept;
}

/* Collects the usable addresses of a list that are multicast, or are not. */
static uint32_t collect(const struct apus_wire_locators *locators, bool multicast,
			struct apus_ctl_candidate *out)
{
	uint32_t count = 0;

	for (uint32_t i = 0; locators && i < locators->count; i++) {
		struct apus_ctl_candidate candidate = {.fallback = false};

		if (apus_dp_addr_from_locator(&locators->at[i], &candidate.addr) &&
		    apus_dp_addr_is_multicast(&candidate.addr) == multicast)
			out[count++] = candidate;
	}
	return count;
}

static bool is_this_host(const struct apus_ctl_locator_policy *policy,
			 const struct apus_dp_addr *addr)
{
	return is_loopback(addr) || is_own(policy, addr);
}

/* Keeps the candidates on the host that has proved itself. All addresses of this host are one host. */
static uint32_t keep_proved(const struct apus_ctl_locator_policy *policy,
			    const struct apus_dp_addr *proof, struct apus_ctl_candidate *c,
			    uint32_t count)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < count; i++)
		if (memcmp(c[i].addr.ip, proof->ip, sizeof(proof->ip)) == 0 ||
		    (proof->family && is_this_host(policy, proof) &&
		     is_this_host(policy, &c[i].addr)))
			c[kept++] = c[i];
	return kept;
}

/* The best of the first list that has a usable address. */
static bool choose(const struct apus_ctl_locator_policy *policy, bool same_host,
		   const struct apus_dp_addr *proof, bool multicast,
		   const struct apus_wire_locators *own,
		   const struct apus_wire_locators *participant, struct apus_dp_addr *addr_out)
{
	const struct apus_wire_locators *lists[] = {own, participant};
	struct apus_ctl_candidate candidates[APUS_WIRE_LOCATORS_MAX];

	for (uint32_t i = 0; i < 2; i++) {
		uint32_t count = collect(lists[i], multicast, candidates);

		if (proof)
			count = keep_proved(policy, proof, candidates, count);
		if (apus_ctl_locators_select(policy, same_host, candidates, count)) {
			*addr_out = candidates[0].addr;
			return true;
		}
	}
	memset(addr_out, 0, sizeof(*addr_out));
	return false;
}

bool apus_ctl_locators_unicast(const struct apus_ctl_locator_policy *policy, bool same_host,
			       const struct apus_dp_addr *proof,
			       const struct apus_wire_locators *own,
			       const struct apus_wire_locators *participant,
			       struct apus_dp_addr *addr_out)
{
	return choose(policy, same_host, proof, false, own, participant, addr_out);
}

bool apus_ctl_locators_multicast(const struct apus_ctl_locator_policy *policy,
				 const struct apus_wire_locators *own,
				 const struct apus_wire_locators *participant,
				 struct apus_dp_addr *addr_out)
{
	return choose(policy, false, NULL, true, own, participant, addr_out);
}

uint32_t apus_ctl_peer_expand(const uint8_t ipv4[4], uint16_t port, uint32_t domain,
			      uint32_t max_index, struct apus_dp_addr *addrs_out, uint32_t capacity)
{
	uint32_t count = 0;

	if (port) {
		if (capacity)
			addrs_out[count++] = apus_dp_addr_v4(ipv4, port);
		return count;
	}
	for (uint32_t i = 0; i <= max_index && count < capacity; i++) {
		/* PB + DG · domain + d1 + PG · index, RTPS 2.5 table 9.8. */
		uint32_t metatraffic = 7400 + 250 * domain + 10 + 2 * i;

		if (metatraffic > 65535)
			break;
		addrs_out[count++] = apus_dp_addr_v4(ipv4, (uint16_t)metatraffic);
	}
	return count;
}

void apus_ctl_locator_text(const struct apus_locator *locator, char *text_out, size_t text_bytes)
{
	const uint8_t *a = locator->address;

	if (locator->kind == APUS_LOCATOR_UDPV4)
		snprintf(text_out, text_bytes, "udp4://%u.%u.%u.%u:%u", a[12], a[13], a[14], a[15],
			 locator->port);
	else if (locator->kind == APUS_LOCATOR_UDPV6)
		snprintf(text_out, text_bytes, "udp6://[%x:%x:%x:%x:%x:%x:%x:%x]:%u",
			 a[0] << 8 | a[1], a[2] << 8 | a[3], a[4] << 8 | a[5], a[6] << 8 | a[7],
			 a[8] << 8 | a[9], a[10] << 8 | a[11], a[12] << 8 | a[13],
			 a[14] << 8 | a[15], locator->port);
	else
		snprintf(text_out, text_bytes, "kind %d", locator->kind);
}
