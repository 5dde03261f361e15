/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which groups are joined, and when that is told: at once and again (robustness 2), and in answer to queries
 * after a random delay (RFC 3376 §5, RFC 3810 §6). The messages themselves are in igmp.c and mld.c.
 *
 * An older querier that was heard sets the version of our reports for as long as RFC 3376 §8.12 says. In that
 * version each group is reported by itself, and not if somebody else has just done it.
 */
#include "ip/engine.h"

#include <apus/core.h>

#define ROBUSTNESS     2
#define UNSOLICITED_NS APUS_NS_PER_SEC
/** Older querier present: robustness × query interval + response interval. */
#define OLDER_NS ((2 * 125 + 10) * APUS_NS_PER_SEC)
/** No query is answered faster, so that a flood of them makes few reports. */
#define DELAY_MIN_NS (50 * APUS_NS_PER_MS)

static struct apus_ip_querier *querier_of(struct apus_ip *ip, uint16_t family)
{
	return family == AF_INET ? &ip->querier4 : &ip->querier6;
}

static bool is_newest(const struct apus_ip *ip, uint16_t family)
{
	return family == AF_INET ? ip->querier4.version == 3 : ip->querier6.version == 2;
}

/* Whether routers want to know of a group at all: not of all hosts, nor below the link's scope
 * (RFC 3376 §5, RFC 3810 §6). */
static bool is_reported(const struct apus_ip_group *g)
{
	static const uint8_t all_hosts6[16] = {0xff, 0x02, [15] = 1};

	if (g->family == AF_INET)
		return apus_ip_get32(g->ip + 12) != 0xe0000001;
	return (g->ip[1] & 0x0f) > 1 && memcmp(g->ip, all_hosts6, 16) != 0;
}

/* --- The table ------------------------------------------------------------------------------------ */

static struct apus_ip_group *find(struct apus_ip *ip, uint16_t family, const uint8_t *ip16)
{
	for (uint32_t i = 0; i < ip->group_room; i++)
		if (ip->groups[i].family == family && memcmp(ip->groups[i].ip, ip16, 16) == 0)
			return &ip->groups[i];
	return NULL;
}

bool apus_ip_group_has6(const struct apus_ip *ip, const uint8_t group[16])
{
	static const uint8_t all_hosts6[16] = {0xff, 0x02, [15] = 1};

	for (uint32_t i = 0; i < ip->group_room; i++)
		if (ip->groups[i].family == AF_INET6 && ip->groups[i].users &&
		    memcmp(ip->groups[i].ip, group, 16) == 0)
			return true;
	return memcmp(group, all_hosts6, 16) == 0;
}

/* What input compares with. */
static void list_groups4(struct apus_ip *ip)
{
	ip->group4_count = 0;
	for (uint32_t i = 0; i < ip->group_room; i++)
		if (ip->groups[i].family == AF_INET && ip->groups[i].users)
			ip->group4[ip->group4_count++] = apus_ip_load32(ip->groups[i].ip + 12);
}

/* Those our own addresses take do not count. */
static uint32_t count_joined(const struct apus_ip *ip, uint16_t family)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < ip->group_room; i++)
		count += ip->groups[i].family == family && ip->groups[i].users > ip->groups[i].own;
	return count;
}

/* A free entry, or one whose group is left and only reported as such once more. */
static struct apus_ip_group *find_place(struct apus_ip *ip)
{
	struct apus_ip_group *place = NULL;

	for (uint32_t i = 0; i < ip->group_room; i++) {
		if (ip->groups[i].family == 0)
			return &ip->groups[i];
		if (ip->groups[i].users == 0)
			place = &ip->groups[i];
	}
	return place;
}

static void tell_change(struct apus_ip *ip, struct apus_ip_group *g, struct apus_mono now)
{
	g->report_ns = INT64_MAX;
	g->change_left = is_reported(g) ? ROBUSTNESS : 0;
	/* Older versions have one message for it, and the oldest none. */
	if (g->users == 0 && !is_newest(ip, g->family))
		g->change_left = g->family == AF_INET && ip->querier4.version == 1 ? 0 : 1;
	g->change_ns = now.ns;
	if (g->users == 0 && g->change_left == 0)
		g->family = 0;
	else
		apus_ip_schedule(ip, now.ns);
}

static int join(struct apus_ip *ip, uint16_t family, const uint8_t *ip16, bool own,
		struct apus_mono now)
{
	struct apus_ip_group *g = find(ip, family, ip16);
	bool counts = !own && (!g || g->users <= g->own);

	if (counts && count_joined(ip, family) >= ip->config.group_count)
		return APUS_ELIMIT;
	if (!g)
		g = find_place(ip); /* there is one: room for all that may be joined */
	if (!g)
		return APUS_ELIMIT;
	if (g->family == 0 || g->users == 0) {
		memcpy(g->ip, ip16, 16);
		g->family = family;
		g->users = 0;
		g->own = 0;
	}
	g->users++;
	g->own += own;
	if (g->users == 1) {
		tell_change(ip, g, now);
		list_groups4(ip);
	}
	return 0;
}

/* The address as the table has it; false: no group. */
static bool group_address(const struct apus_ip_endpoint *group, uint8_t ip16_out[16])
{
	if (!apus_ip_is_multicast(group))
		return false;
	memcpy(ip16_out, group->ip, 16);
	if (group->family == AF_INET)
		memset(ip16_out, 0, 12);
	return true;
}

int apus_ip_join(struct apus_ip *ip, const struct apus_ip_endpoint *group, struct apus_mono now)
{
	uint8_t ip16[16];

	if (!group_address(group, ip16))
		return APUS_EINVAL;
	if (group->family == AF_INET ? !ip->ipv4 : !ip->own6_count)
		return APUS_ENODEV;
	return join(ip, group->family, ip16, false, now);
}

int apus_ip_leave(struct apus_ip *ip, const struct apus_ip_endpoint *group, struct apus_mono now)
{
	uint8_t ip16[16];
	struct apus_ip_group *g = NULL;

	if (group_address(group, ip16))
		g = find(ip, group->family, ip16);
	if (!g || g->users <= g->own)
		return APUS_ENOENT;
	if (--g->users == 0) {
		tell_change(ip, g, now);
		list_groups4(ip);
	}
	return 0;
}

void apus_ip_group_solicited(struct apus_ip *ip, uint32_t own_idx, struct apus_mono now)
{
	uint8_t group[16] = {0xff, 0x02, [11] = 1, [12] = 0xff};

	memcpy(group + 13, ip->own6[own_idx].ip + 13, 3);
	join(ip, AF_INET6, group, true, now);
}

/* --- Queries -------------------------------------------------------------------------------------- */

void apus_ip_querier_heard(struct apus_ip *ip, struct apus_ip_querier *querier, uint8_t version,
			   uint8_t newest, struct apus_mono now)
{
	if (version == newest || version > querier->version)
		return; /* the timer of an older one goes on */
	querier->version = version;
	querier->older_ns = now.ns + OLDER_NS;
	querier->report_ns = INT64_MAX;
	apus_ip_schedule(ip, querier->older_ns);
}

static void earlier(int64_t *at_ns, int64_t candidate_ns)
{
	if (candidate_ns < *at_ns)
		*at_ns = candidate_ns;
}

static int64_t random_delay(struct apus_ip *ip, int64_t max_ns)
{
	int64_t delay_ns = max_ns > 0 ? (int64_t)(apus_ip_random(ip) % (uint64_t)max_ns) : 0;

	return delay_ns > DELAY_MIN_NS ? delay_ns : DELAY_MIN_NS;
}

void apus_ip_group_query(struct apus_ip *ip, uint16_t family, const uint8_t *ip16, int64_t max_ns,
			 struct apus_mono now)
{
	struct apus_ip_querier *querier = querier_of(ip, family);
	bool all_at_once = !ip16 && is_newest(ip, family);

	if (all_at_once) {
		earlier(&querier->report_ns, now.ns + random_delay(ip, max_ns));
		apus_ip_schedule(ip, querier->report_ns);
		return;
	}
	for (uint32_t i = 0; i < ip->group_room; i++) {
		struct apus_ip_group *g = &ip->groups[i];

		if (g->family != family || !g->users || !is_reported(g) ||
		    (ip16 && memcmp(g->ip, ip16, 16) != 0))
			continue;
		earlier(&g->report_ns, now.ns + random_delay(ip, max_ns));
		apus_ip_schedule(ip, g->report_ns);
	}
}

void apus_ip_group_reported(struct apus_ip *ip, uint16_t family, const uint8_t *ip16)
{
	struct apus_ip_group *g = find(ip, family, ip16);

	if (g && !is_newest(ip, family))
		g->report_ns = INT64_MAX;
}

/* --- Time ----------------------------------------------------------------------------------------- */

static void report(struct apus_ip *ip, const struct apus_ip_group *const *groups, uint32_t count,
		   enum apus_ip_record type)
{
	if (groups[0]->family == AF_INET)
		apus_ip_igmp_report(ip, groups, count, type);
	else
		apus_ip_mld_report(ip, groups, count, type);
}

/* The answer to a general query: all groups, in as few reports as it takes. */
static void report_all(struct apus_ip *ip, uint16_t family)
{
	const struct apus_ip_group *groups[APUS_IP_REPORT_MAX];
	uint32_t count = 0;

	for (uint32_t i = 0; i < ip->group_room; i++) {
		struct apus_ip_group *g = &ip->groups[i];

		if (g->family != family || !g->users || !is_reported(g))
			continue;
		groups[count++] = g;
		g->report_ns = INT64_MAX;
		if (count == APUS_IP_REPORT_MAX) {
			report(ip, groups, count, APUS_IP_RECORD_IS_MEMBER);
			count = 0;
		}
	}
	if (count)
		report(ip, groups, count, APUS_IP_RECORD_IS_MEMBER);
}

static void querier_tick(struct apus_ip *ip, uint16_t family, uint8_t newest, struct apus_mono now)
{
	struct apus_ip_querier *querier = querier_of(ip, family);

	if (querier->version != newest && now.ns >= querier->older_ns)
		querier->version = newest;
	if (now.ns >= querier->report_ns) {
		querier->report_ns = INT64_MAX;
		report_all(ip, family);
	}
	if (querier->version != newest)
		apus_ip_schedule(ip, querier->older_ns);
	apus_ip_schedule(ip, querier->report_ns);
}

static void group_tick(struct apus_ip *ip, struct apus_ip_group *g, struct apus_mono now)
{
	const struct apus_ip_group *one = g;

	if (g->change_left && now.ns >= g->change_ns) {
		report(ip, &one, 1, g->users ? APUS_IP_RECORD_HAS_JOINED : APUS_IP_RECORD_HAS_LEFT);
		g->change_left--;
		g->change_ns = now.ns + random_delay(ip, UNSOLICITED_NS);
	}
	if (now.ns >= g->report_ns) {
		g->report_ns = INT64_MAX;
		report(ip, &one, 1, APUS_IP_RECORD_IS_MEMBER);
	}
	if (!g->change_left && !g->users) {
		g->family = 0;
		return;
	}
	if (g->change_left)
		apus_ip_schedule(ip, g->change_ns);
	apus_ip_schedule(ip, g->report_ns);
}

void apus_ip_group_tick(struct apus_ip *ip, struct apus_mono now)
{
	querier_tick(ip, AF_INET, 3, now);
	querier_tick(ip, AF_INET6, 2, now);
	for (uint32_t i = 0; i < ip->group_room; i++)
		if (ip->groups[i].family)
			group_tick(ip, &ip->groups[i], now);
}
