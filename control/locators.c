/* SPDX-License-Identifier: Apache-2.0 */
/* Selection of addresses; see the header for the rules. */
#include "control/locators.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

/* Priorities: smaller is better. 0…128: bits in which the address differs from the nearest of ours. */
#define PRIORITY_UNKNOWN 129

/* A candidate while it is being ranked. */
struct ranked {
	struct apus_ctl_candidate candidate;
	uint32_t priority;
};

static bool is_loopback(const struct apus_dp_addr *addr)
{
	static const uint8_t one[16] = {[15] = 1};

	return addr->family == AF_INET ? addr->ip[12] == 127 : memcmp(addr->ip, one, 16) == 0;
}

static bool is_wildcard(const struct apus_dp_addr *addr)
{
	static const uint8_t none[16];

	return memcmp(addr->ip, none, sizeof(none)) == 0;
}

static bool same_ip(const struct apus_dp_addr *a, const struct apus_dp_addr *b)
{
	return a->family == b->family && memcmp(a->ip, b->ip, sizeof(a->ip)) == 0;
}

static bool is_own(const struct apus_ctl_locator_policy *policy, const struct apus_dp_addr *addr)
{
	for (uint32_t i = 0; i < policy->own_count; i++)
		if (same_ip(&policy->own[i], addr))
			return true;
	return false;
}

bool apus_ctl_locators_same_host(const struct apus_ctl_locator_policy *policy,
				 const struct apus_dp_addr *from)
{
	return from->family && (is_loopback(from) || is_own(policy, from));
}

/* Leading bits two addresses of one family share; IPv4 addresses count from their own first bit. */
static uint32_t shared_bits(const struct apus_dp_addr *a, const struct apus_dp_addr *b)
{
	uint32_t first = a->family == AF_INET ? 12 : 0;

	for (uint32_t i = first; i < 16; i++)
		if (a->ip[i] != b->ip[i])
			return 8 * (i - first) +
			       (uint32_t)__builtin_clz((uint32_t)(a->ip[i] ^ b->ip[i])) - 24;
	return 8 * (16 - first);
}

static uint32_t address_bits(const struct apus_dp_addr *addr)
{
	return addr->family == AF_INET ? 32 : 128;
}

/* Bits behind the longest prefix shared with one of our addresses. */
static uint32_t distance(const struct apus_ctl_locator_policy *policy,
			 const struct apus_dp_addr *addr)
{
	uint32_t best = PRIORITY_UNKNOWN;

	for (uint32_t i = 0; i < policy->own_count; i++) {
		uint32_t bits;

		if (policy->own[i].family != addr->family)
			continue;
		bits = address_bits(addr) - shared_bits(&policy->own[i], addr);
		if (bits < best)
			best = bits;
	}
	return best;
}

static bool in_list(const struct apus_ctl_address_list *list, const struct apus_dp_addr *addr)
{
	for (uint32_t i = 0; i < list->count; i++)
		if (list->at[i].addr.family == addr->family &&
		    shared_bits(&list->at[i].addr, addr) >= list->at[i].bits)
			return true;
	return false;
}

bool apus_ctl_locators_allowed(const struct apus_ctl_locator_policy *policy,
			       const struct apus_dp_addr *addr)
{
	if (in_list(&policy->deny, addr))
		return false;
	if (is_wildcard(addr) || (policy->no_loopback && is_loopback(addr)))
		return false;
	return policy->allow.count == 0 || in_list(&policy->allow, addr);
}

/* Can it be reached over any family we speak? */
static bool speaks(const struct apus_ctl_locator_policy *policy, uint16_t family)
{
	for (uint32_t i = 0; i < policy->own_count; i++)
		if (policy->own[i].family == family)
			return true;
	return false;
}

/* The gates: allowed, usable family, multicast only as the policy says, loopback only on one host. */
static bool passes(const struct apus_ctl_locator_policy *policy, bool same_host,
		   const struct apus_dp_addr *addr)
{
	if (addr->family == 0 || addr->port == 0 || !speaks(policy, addr->family) ||
	    !apus_ctl_locators_allowed(policy, addr))
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
	if (a->candidate.addr.family != b->candidate.addr.family)
		return a->candidate.addr.family == AF_INET ? -1 : 1;
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
	uint32_t at = addr->port;

	for (uint32_t i = 0; i < 16; i += 4) {
		uint32_t word;

		memcpy(&word, addr->ip + i, 4);
		at = (at ^ word) * 0x9e3779b1u;
	}
	at >>= 25;

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
	if (passed > 1)
		qsort(ranked, passed, sizeof(*ranked), compare);
	for (uint32_t i = 0; i < passed; i++) {
		candidates[kept] = ranked[i].candidate;
		if (remember(table, candidates, kept))
			kept++;
	}
	return kept;
}

/* An announced 0.0.0.0 names the host it came from, where that is believed. */
static void fill_wildcard(const struct apus_ctl_locator_policy *policy,
			  const struct apus_ctl_locator_side *side, struct apus_dp_addr *addr)
{
	if (policy->wildcard && side->from && is_wildcard(addr) &&
	    side->from->family == addr->family)
		memcpy(addr->ip, side->from->ip, sizeof(addr->ip));
}

/* Collects the addresses of a list that are multicast, or are not. */
static uint32_t collect(const struct apus_ctl_locator_policy *policy,
			const struct apus_ctl_locator_side *side,
			const struct apus_wire_locators *locators, bool multicast,
			struct apus_ctl_candidate *out)
{
	uint32_t count = 0;

	for (uint32_t i = 0; locators && i < locators->count; i++) {
		struct apus_ctl_candidate candidate = {.fallback = false};

		if (!apus_dp_addr_from_locator(&locators->at[i], &candidate.addr))
			continue;
		fill_wildcard(policy, side, &candidate.addr);
		if (apus_dp_addr_is_multicast(&candidate.addr) == multicast)
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
		if (same_ip(&c[i].addr, proof) || (proof->family && is_this_host(policy, proof) &&
						   is_this_host(policy, &c[i].addr)))
			c[kept++] = c[i];
	return kept;
}

/* The best of the first list that has a usable address. */
static bool choose(const struct apus_ctl_locator_policy *policy,
		   const struct apus_ctl_locator_side *side, bool multicast,
		   const struct apus_wire_locators *own,
		   const struct apus_wire_locators *participant, struct apus_dp_addr *addr_out,
		   enum apus_ctl_locator_reason *reason_out)
{
	const struct apus_wire_locators *lists[] = {own, participant};
	struct apus_ctl_candidate candidates[APUS_WIRE_LOCATORS_MAX];

	*reason_out = APUS_CTL_REASON_NONE;
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t count = collect(policy, side, lists[i], multicast, candidates);

		count = apus_ctl_locators_select(policy, side->same_host, candidates, count);
		if (count && side->proof) {
			*reason_out = APUS_CTL_REASON_UNPROVED;
			count = keep_proved(policy, side->proof, candidates, count);
		}
		if (count) {
			*addr_out = candidates[0].addr;
			*reason_out = i ? APUS_CTL_REASON_PARTICIPANT : APUS_CTL_REASON_ENDPOINT;
			return true;
		}
	}
	memset(addr_out, 0, sizeof(*addr_out));
	return false;
}

bool apus_ctl_locators_unicast(const struct apus_ctl_locator_policy *policy,
			       const struct apus_ctl_locator_side *side,
			       const struct apus_wire_locators *own,
			       const struct apus_wire_locators *participant,
			       struct apus_dp_addr *addr_out,
			       enum apus_ctl_locator_reason *reason_out)
{
	enum apus_ctl_locator_reason unread;

	return choose(policy, side, false, own, participant, addr_out,
		      reason_out ? reason_out : &unread);
}

bool apus_ctl_locators_multicast(const struct apus_ctl_locator_policy *policy,
				 const struct apus_wire_locators *own,
				 const struct apus_wire_locators *participant,
				 struct apus_dp_addr *addr_out)
{
	const struct apus_ctl_locator_side side = {.same_host = false};
	enum apus_ctl_locator_reason unread;

	return choose(policy, &side, true, own, participant, addr_out, &unread);
}

int apus_ctl_address_prefix_parse(const char *text, struct apus_ctl_address_prefix *prefix_out)
{
	struct apus_ctl_address_prefix p = {.bits = 0};
	char copy[INET6_ADDRSTRLEN + 5], *slash, *end;
	struct apus_dp_addr first;
	unsigned long bits;

	if (strlen(text) >= sizeof(copy))
		return APUS_EINVAL;
	strcpy(copy, text);
	slash = strchr(copy, '/');
	if (slash)
		*slash++ = '\0';
	if (inet_pton(AF_INET, copy, p.addr.ip + 12) == 1)
		p.addr.family = AF_INET;
	else if (inet_pton(AF_INET6, copy, p.addr.ip) == 1)
		p.addr.family = AF_INET6;
	else
		return APUS_EINVAL;
	bits = address_bits(&p.addr);
	if (slash) {
		if (*slash < '0' || *slash > '9')
			return APUS_EINVAL;
		bits = strtoul(slash, &end, 10);
		if (*end || bits > address_bits(&p.addr))
			return APUS_EINVAL;
	}
	/* Bits behind the prefix are a mistake: 10.1.2.3/8 may mean 10.0.0.0/8 or 10.1.2.3. */
	first = p.addr;
	for (uint32_t i = (uint32_t)bits; i < address_bits(&p.addr); i++)
		first.ip[(p.addr.family == AF_INET ? 12 : 0) + i / 8] &=
			(uint8_t) ~(0x80u >> i % 8);
	if (!same_ip(&first, &p.addr))
		return APUS_EINVAL;
	p.bits = (uint8_t)bits;
	*prefix_out = p;
	return 0;
}

static struct apus_dp_addr at_port(const struct apus_dp_addr *host, uint16_t port)
{
	struct apus_dp_addr addr = *host;

	addr.port = port;
	return addr;
}

uint32_t apus_ctl_peer_expand(const struct apus_dp_addr *host, uint16_t port, uint32_t domain,
			      uint32_t max_index, struct apus_dp_addr *addrs_out, uint32_t capacity)
{
	uint32_t count = 0;

	if (port) {
		if (capacity)
			addrs_out[count++] = at_port(host, port);
		return count;
	}
	for (uint32_t i = 0; i <= max_index && count < capacity; i++) {
		/* PB + DG · domain + d1 + PG · index, RTPS 2.5 table 9.8. */
		uint32_t metatraffic = 7400 + 250 * domain + 10 + 2 * i;

		if (metatraffic > 65535)
			break;
		addrs_out[count++] = at_port(host, (uint16_t)metatraffic);
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
