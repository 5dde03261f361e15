/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of an engine: one allocation cut into tables, and the clock's turn.
 */
#include "ip/config.h"
#include "ip/engine.h"

#include <apus/core.h>

#include <stdlib.h>

/** Gratuitous announcements at the start, and the pause between them (RFC 5227 §2.3). */
#define ANNOUNCE_COUNT 2
#define ANNOUNCE_NS    (2 * APUS_NS_PER_SEC)
/** How long others may object to a tentative address (RFC 4862 §5.1: RetransTimer of one probe). */
#define TENTATIVE_NS APUS_NS_PER_SEC
/** The least time between two defences of our address (RFC 5227 §2.4: DEFEND_INTERVAL). */
#define DEFEND_NS (10 * APUS_NS_PER_SEC)

uint64_t apus_ip_random(struct apus_ip *ip)
{
	uint64_t x = ip->random;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return ip->random = x;
}

bool apus_ip_bucket_take(struct apus_ip *ip, struct apus_ip_bucket *bucket, struct apus_mono now)
{
	int64_t from = bucket->spent_ns > now.ns ? bucket->spent_ns : now.ns;

	if (from - now.ns > bucket->burst_ns) {
		apus_ip_count(ip, APUS_IP_RATE_LIMITED);
		return false;
	}
	bucket->spent_ns = from + bucket->interval_ns;
	return true;
}

static struct apus_ip_bucket bucket_of(uint32_t rate)
{
	return (struct apus_ip_bucket){.interval_ns = APUS_NS_PER_SEC / rate,
				       .burst_ns = APUS_NS_PER_SEC / 10};
}

/* --- Memory --------------------------------------------------------------------------------------- */

/* Adds room for `count` of `bytes` to the allocation; returns where it begins. */
static size_t reserve(size_t *total, size_t count, size_t bytes)
{
	size_t at = *total;

	*total = at + (count * bytes + 63) / 64 * 64;
	return at;
}

static uint32_t bucket_count(uint32_t neighbours)
{
	uint32_t count = 8;

	while (count < 2 * neighbours)
		count *= 2;
	return count;
}

/* Where everything lies behind the engine itself. */
struct layout {
	size_t total, neighbours, buckets, parked, parked_bytes, reassembly, buffers;
	size_t groups, group4, control, control_bytes;
};

static struct layout layout_of(const struct apus_ip_config *c, uint32_t group_room)
{
	struct layout l = {0};

	reserve(&l.total, 1, sizeof(struct apus_ip));
	l.neighbours = reserve(&l.total, c->neighbour_count, sizeof(struct apus_ip_neighbour));
	l.buckets = reserve(&l.total, bucket_count(c->neighbour_count), sizeof(uint32_t));
	l.parked = reserve(&l.total, c->parked_count, sizeof(struct apus_ip_parked));
	l.parked_bytes = reserve(&l.total, c->parked_count, c->parked_bytes);
	l.groups = reserve(&l.total, group_room, sizeof(struct apus_ip_group));
	l.group4 = reserve(&l.total, c->group_count, sizeof(uint32_t));
	l.control = reserve(&l.total, c->control_count, APUS_IP_CONTROL_MAX_BYTES);
	l.control_bytes = reserve(&l.total, c->control_count, sizeof(uint16_t));
	l.reassembly = reserve(&l.total, c->reassembly_count, sizeof(struct apus_ip_reassembly));
	/* Last: most of it is never touched. */
	l.buffers = reserve(&l.total, c->reassembly_count, sizeof(struct apus_ip_buffer));
	return l;
}

static void init_tables(struct apus_ip *ip, const struct layout *l)
{
	const struct apus_ip_config *c = &ip->config;
	uint8_t *base = (uint8_t *)ip;

	ip->neighbours = (struct apus_ip_neighbour *)(base + l->neighbours);
	ip->buckets = (uint32_t *)(base + l->buckets);
	ip->parked = (struct apus_ip_parked *)(base + l->parked);
	ip->groups = (struct apus_ip_group *)(base + l->groups);
	ip->group4 = (uint32_t *)(base + l->group4);
	ip->control = base + l->control;
	ip->control_bytes = (uint16_t *)(base + l->control_bytes);
	ip->reassembly = (struct apus_ip_reassembly *)(base + l->reassembly);
	ip->bucket_mask = bucket_count(c->neighbour_count) - 1;
	memset(ip->buckets, 0xff, (size_t)(ip->bucket_mask + 1) * sizeof(uint32_t));
	for (uint32_t i = 0; i < c->neighbour_count; i++)
		ip->neighbours[i].next = i + 1 < c->neighbour_count ? i + 1 : APUS_IP_NONE;
	for (uint32_t i = 0; i < c->parked_count; i++)
		ip->parked[i].part.iov_base = base + l->parked_bytes + (size_t)i * c->parked_bytes;
	for (uint32_t i = 0; i < c->reassembly_count; i++)
		ip->reassembly[i].buffer = (struct apus_ip_buffer *)(base + l->buffers) + i;
	ip->parked_lent = APUS_IP_NONE;
}

/* --- Identity ------------------------------------------------------------------------------------- */

static void init_link(struct apus_ip *ip)
{
	const struct apus_ip_config *c = &ip->config;

	ip->mac = apus_ip_load_mac(c->mac);
	memcpy(ip->link_head + 6, c->mac, 6);
	ip->link_bytes = APUS_IP_LINK_BYTES;
	if (!c->vlan_id)
		return;
	ip->link_bytes += 4;
	apus_ip_put16(ip->link_head + 12, APUS_IP_ETHER_VLAN);
	apus_ip_put16(ip->link_head + 14, (uint32_t)c->vlan_priority << 13 | c->vlan_id);
}

static void init_ipv4(struct apus_ip *ip)
{
	const struct apus_ip_config *c = &ip->config;

	if (apus_ip_all_zero(c->ipv4, 4))
		return;
	ip->ipv4 = apus_ip_load32(c->ipv4);
	ip->ipv4_mask = htobe32(UINT32_MAX << (32 - c->ipv4_prefix_bits));
	/* A link of two, or one alone, has no broadcast address (RFC 3021). */
	ip->ipv4_broadcast = c->ipv4_prefix_bits >= 31 ? UINT32_MAX : ip->ipv4 | ~ip->ipv4_mask;
}

static void init_ipv6(struct apus_ip *ip)
{
	const struct apus_ip_config *c = &ip->config;
	uint8_t *a = ip->own6[0].ip;

	if (!c->ipv6)
		return;
	/* RFC 4291 appendix A: the universal bit inverted, fffe in the middle. */
	a[0] = 0xfe;
	a[1] = 0x80;
	memcpy(a + 8, c->mac, 3);
	a[8] ^= 2;
	a[11] = 0xff;
	a[12] = 0xfe;
	memcpy(a + 13, c->mac + 3, 3);
	ip->own6_count = 1;
	if (!apus_ip_all_zero(c->ipv6_global, 16))
		memcpy(ip->own6[ip->own6_count++].ip, c->ipv6_global, 16);
	for (uint32_t i = 0; i < ip->own6_count; i++)
		ip->own6[i].usable = !c->detect_duplicates;
}

static void init_state(struct apus_ip *ip)
{
	const struct apus_ip_config *c = &ip->config;

	ip->random = (c->seed ^ UINT64_C(0x9e3779b97f4a7c15)) | 1;
	for (int i = 0; i < 8; i++)
		apus_ip_random(ip);
	ip->hash_secret[0] = apus_ip_random(ip);
	ip->hash_secret[1] = apus_ip_random(ip);
	ip->packet_id4 = (uint16_t)apus_ip_random(ip);
	ip->packet_id6 = (uint32_t)apus_ip_random(ip);
	ip->querier4 = (struct apus_ip_querier){.version = 3, .report_ns = INT64_MAX};
	ip->querier6 = (struct apus_ip_querier){.version = 2, .report_ns = INT64_MAX};
	ip->echo = bucket_of(c->echo_rate);
	ip->unreachable = bucket_of(c->unreachable_rate);
	ip->reply = bucket_of(c->neighbour_reply_rate);
	ip->defend = (struct apus_ip_bucket){.interval_ns = DEFEND_NS};
	ip->tentative_ns = INT64_MAX;
	ip->due_ns = INT64_MIN;
}

int apus_ip_create(const struct apus_ip_config *config, char *why, size_t why_bytes,
		   struct apus_ip **ip_out)
{
	const char *wrong = apus_ip_config_wrong(config);

	if (wrong) {
		size_t count = strlen(wrong);

		if (why && why_bytes) {
			count = count < why_bytes ? count : why_bytes - 1;
			memcpy(why, wrong, count);
			why[count] = '\0';
		}
		return APUS_EINVAL;
	}
	uint32_t group_room = 2 * config->group_count + 2;
	struct layout l = layout_of(config, group_room);
	struct apus_ip *ip = aligned_alloc(64, l.total);

	if (!ip)
		return APUS_ENOMEM;
	/* Everything but the reassembly buffers, which are written before they are read. */
	memset(ip, 0, l.buffers);
	ip->config = *config;
	ip->group_room = group_room;
	init_tables(ip, &l);
	init_link(ip);
	init_ipv4(ip);
	init_ipv6(ip);
	init_state(ip);
	*ip_out = ip;
	return 0;
}

void apus_ip_destroy(struct apus_ip *ip)
{
	free(ip);
}

bool apus_ip_is_own(const struct apus_ip *ip, const struct apus_ip_endpoint *address)
{
	if (address->family == AF_INET)
		return ip->ipv4 && apus_ip_load32(address->ip + 12) == ip->ipv4;
	return address->family == AF_INET6 && apus_ip_own6_find(ip, address->ip) != APUS_IP_NONE;
}

uint32_t apus_ip_addresses(const struct apus_ip *ip, struct apus_ip_endpoint addresses_out[3])
{
	uint32_t count = 0;

	if (ip->ipv4)
		addresses_out[count++] = apus_ip_endpoint_v4(ip->config.ipv4, 0);
	for (uint32_t i = ip->own6_count; i-- > 0;)
		addresses_out[count++] = apus_ip_endpoint_v6(ip->own6[i].ip, 0);
	return count;
}

uint32_t apus_ip_payload_bytes(const struct apus_ip *ip, uint16_t family)
{
	uint32_t network = family == AF_INET ? APUS_IP_IPV4_BYTES : APUS_IP_IPV6_BYTES;

	return ip->config.mtu_bytes - network - APUS_IP_UDP_BYTES;
}

/* --- Time ----------------------------------------------------------------------------------------- */

static void start(struct apus_ip *ip, struct apus_mono now)
{
	ip->started = true;
	ip->probing = false;
	ip->announce_left = ip->config.announce ? ANNOUNCE_COUNT : 0;
	ip->announce_ns = now.ns;
	for (uint32_t i = 0; i < ip->own6_count; i++)
		apus_ip_group_solicited(ip, i, now);
	if (!ip->config.detect_duplicates)
		return;
	for (uint32_t i = 0; i < ip->own6_count; i++)
		apus_ip_nd_probe(ip, i);
	ip->tentative_ns = now.ns + TENTATIVE_NS;
	ip->announce_ns = ip->tentative_ns;
}

void apus_ip_probe(struct apus_ip *ip)
{
	if (ip->started)
		return;
	ip->probing = false;
	if (ip->ipv4)
		apus_ip_arp_probe(ip);
	for (uint32_t i = 0; i < ip->own6_count; i++)
		apus_ip_nd_probe(ip, i);
	ip->probing = true;
}

bool apus_ip_rival(const struct apus_ip *ip, uint8_t mac_out[6])
{
	if (ip->has_rival)
		memcpy(mac_out, ip->rival, 6);
	return ip->has_rival;
}

/* Nobody has objected: a conflict would have ended the address (own6.conflict). */
static void end_tentative(struct apus_ip *ip)
{
	ip->tentative_ns = INT64_MAX;
	for (uint32_t i = 0; i < ip->own6_count; i++)
		ip->own6[i].usable = !ip->own6[i].conflict;
}

static void announce(struct apus_ip *ip, struct apus_mono now)
{
	if (ip->ipv4)
		apus_ip_arp_announce(ip);
	for (uint32_t i = 0; i < ip->own6_count; i++)
		if (ip->own6[i].usable)
			apus_ip_nd_announce(ip, i);
	ip->announce_left--;
	ip->announce_ns = now.ns + ANNOUNCE_NS;
}

struct apus_mono apus_ip_tick(struct apus_ip *ip, struct apus_mono now)
{
	if (now.ns < ip->due_ns)
		return (struct apus_mono){ip->due_ns};
	if (!ip->started)
		start(ip, now);
	if (now.ns >= ip->tentative_ns)
		end_tentative(ip);
	ip->due_ns = INT64_MAX;
	if (ip->announce_left && now.ns >= ip->announce_ns)
		announce(ip, now);
	if (ip->announce_left)
		apus_ip_schedule(ip, ip->announce_ns);
	apus_ip_schedule(ip, ip->tentative_ns);
	apus_ip_neighbour_tick(ip, now);
	apus_ip_reassembly_tick(ip, now);
	apus_ip_group_tick(ip, now);
	return (struct apus_mono){ip->due_ns};
}

struct apus_mono apus_ip_due(const struct apus_ip *ip)
{
	return (struct apus_mono){ip->due_ns};
}
