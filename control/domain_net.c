/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a participant can be reached, and what becomes of that when addresses and links change.
 *
 * Interfaces are looked up again whenever the kernel says that one may have changed. What is different then
 * goes the way of any change of a record: groups are joined on new links, our announcement is encoded anew
 * and sent at once, endpoints whose own addresses changed are announced again, and the addresses of others
 * are chosen afresh. Ports and identities stay; so do matches and all their state.
 */
#include "control/domain.h"

#include <stdio.h>
#include <string.h>

uint16_t apus_ctl_domain_family(const struct apus_participant *p)
{
	return p->config.ipv6 ? AF_INET6 : AF_INET;
}

uint32_t apus_ctl_domain_groups(const struct apus_participant *p, uint16_t port,
				struct apus_dp_addr groups[APUS_CTL_GROUPS_MAX])
{
	static const uint8_t ipv4[4] = {239, 255, 0, 1};

	groups[0] = apus_dp_addr_v4(ipv4, port);
	if (!p->config.ipv6)
		return 1;
	groups[0].family = AF_INET6;
	groups[0].ip[0] = 0xff;
	groups[0].ip[10] = groups[0].ip[11] = 0xff;
	groups[1] = groups[0];
	groups[0].ip[1] = 0x02;
	groups[1].ip[1] = 0x1e;
	return 2;
}

static bool is_automatic(const struct apus_participant *p)
{
	return !p->config.interfaces[0] || strcmp(p->config.interfaces, "auto") == 0;
}

static void take_interfaces(struct apus_participant *p, const struct apus_dp_netif *found,
			    size_t count)
{
	memset(p->interfaces, 0, sizeof(p->interfaces));
	memcpy(p->interfaces, found, count * sizeof(*found));
	p->interface_count = count;
	p->loopback_only = apus_dp_netif_all_loopback(p->interfaces, count);
}

void apus_ctl_domain_policy(const struct apus_participant *p,
			    struct apus_ctl_locator_policy *policy)
{
	static const uint8_t ipv4[4] = {127, 0, 0, 1};
	struct apus_dp_addr loopback = apus_dp_addr_v4(ipv4, 0);

	if (p->config.ipv6)
		loopback = (struct apus_dp_addr){.family = AF_INET6, .ip = {[15] = 1}};
	memset(policy, 0, sizeof(*policy));
	for (size_t i = 0; i < p->interface_count; i++)
		policy->own[policy->own_count++] = apus_dp_netif_addr(&p->interfaces[i]);
	policy->loopback_only = p->loopback_only;
	/* Nothing of the kernel's reaches a port of our own, nor the other way round. */
	if (!p->loopback_only && !p->port)
		policy->own[policy->own_count++] = loopback;
	/* A datagram leaves on one interface: with several, writers go by unicast. */
	policy->multicast = p->config.multicast == APUS_CTL_MULTICAST_ON && p->interface_count == 1;
	policy->no_loopback = !p->config.addresses_loopback || p->port;
	policy->wildcard = p->config.addresses_wildcard;
	policy->allow = p->config.allow;
	policy->deny = p->config.deny;
}

int apus_ctl_domain_open_net(struct apus_participant *p, char *why, size_t why_bytes)
{
	struct apus_dp_netif found[APUS_DP_NETIF_MAX];
	struct apus_ctl_locator_policy policy;
	size_t count = 1;
	int rc;

	if (p->config.transport == APUS_CTL_TRANSPORT_DPDK) {
		rc = apus_ctl_domain_open_port(p, &found[0], why, why_bytes);
	} else {
		/* Watched first, so that no change falls between; those of a worker process it watches itself. */
		if (p->config.transport != APUS_CTL_TRANSPORT_WORKER)
			p->netwatch_fd = apus_dp_netwatch_open();
		rc = apus_ctl_domain_lookup(p, why, why_bytes, found, &count);
	}
	if (rc != 0)
		return rc;
	take_interfaces(p, found, count);
	p->bind_home = p->loopback_only && !is_automatic(p);
	apus_ctl_domain_policy(p, &policy);
	for (uint32_t i = 0; i < policy.own_count; i++)
		if (apus_ctl_locators_allowed(&policy, &policy.own[i]))
			return 0;
	snprintf(why, why_bytes,
		 "addresses.allow, .deny and .loopback leave none of our addresses");
	return APUS_EINVAL;
}

/* ---- what we announce --------------------------------------------------------------------------- */

static void add_locator(struct apus_wire_locators *list, struct apus_dp_addr addr, uint16_t port)
{
	addr.port = port;
	if (list->count < APUS_WIRE_LOCATORS_MAX)
		list->at[list->count++] = apus_dp_addr_to_locator(&addr);
}

static void add_own(const struct apus_participant *p, uint16_t port,
		    struct apus_wire_locators *list)
{
	struct apus_ctl_locator_policy policy;

	apus_ctl_domain_policy(p, &policy);
	for (size_t i = 0; i < p->interface_count; i++)
		if (apus_ctl_locators_allowed(&policy, &policy.own[i]))
			add_locator(list, policy.own[i], port);
}

void apus_ctl_domain_make_self(struct apus_participant *p)
{
	struct apus_wire_participant_record *r = &p->self;
	struct apus_dp_addr groups[APUS_CTL_GROUPS_MAX];
	uint32_t group_count = apus_ctl_domain_groups(p, 0, groups);

	memset(r, 0, sizeof(*r));
	r->prefix = p->prefix;
	r->version_major = 2;
	r->version_minor = 3;
	r->vendor = APUS_WIRE_VENDOR;
	r->has_domain = true;
	r->domain = p->config.domain;
	r->builtin_endpoints = APUS_WIRE_BUILTIN_ALL;
	r->lease_ns = p->config.lease_ns;
	memcpy(r->name, p->config.participant_name,
	       strnlen(p->config.participant_name, sizeof(r->name) - 1));
	add_own(p, p->control->config.queue->unicast_port, &r->metatraffic_unicast);
	add_own(p, p->workers[0]->config.queue->unicast_port, &r->default_unicast);
	for (uint32_t i = 0; i < group_count; i++) {
		if (p->config.multicast != APUS_CTL_MULTICAST_OFF)
			add_locator(&r->metatraffic_multicast, groups[i], p->ports.meta_multicast);
		if (p->config.multicast == APUS_CTL_MULTICAST_ON)
			add_locator(&r->default_multicast, groups[i], p->ports.user_multicast);
	}
}

void apus_ctl_domain_add_locators(const struct apus_participant *p, const struct apus_dp_worker *w,
				  struct apus_wire_endpoint_record *record)
{
	if (w != p->workers[0])
		add_own(p, w->config.queue->unicast_port, &record->locators.unicast);
}

/* ---- changes ------------------------------------------------------------------------------------ */

static bool same_interfaces(const struct apus_participant *p, const struct apus_dp_netif *found,
			    size_t count)
{
	return count == p->interface_count &&
	       memcmp(found, p->interfaces, count * sizeof(*found)) == 0;
}

static void tell_queue(struct apus_participant *p, struct apus_dp_worker *w)
{
	apus_dp_worker_take_turn(w);
	apus_dp_queue_set_interfaces(w->config.queue, p->interfaces, (uint32_t)p->interface_count);
	apus_dp_worker_end_turn(w);
}

/* Announces an endpoint with the addresses it has now. Under the control turn. */
static void announce_again(struct apus_participant *p, struct apus_ctl_endpoint *e,
			   const struct apus_dp_worker *w)
{
	if (w == p->workers[0])
		return; /* the participant's own announcement says it */
	memcpy(p->scratch, e->record, apus_wire_endpoint_record_bytes(e->record));
	memset(&p->scratch->locators, 0, sizeof(p->scratch->locators));
	apus_ctl_domain_add_locators(p, w, p->scratch);
	apus_ctl_discovery_change_local(p->discovery, p->scratch, e->generation + 1);
}

static void announce_all(struct apus_participant *p)
{
	struct apus_ctl_locator_policy policy;

	apus_ctl_domain_policy(p, &policy);
	apus_ctl_domain_make_self(p);
	apus_dp_worker_take_turn(p->control);
	apus_ctl_discovery_set_policy(p->discovery, &policy);
	apus_ctl_discovery_set_self(p->discovery, &p->self, apus_mono_now());
	for (struct apus_writer *w = p->writers; w; w = w->next)
		announce_again(p, w->endpoint, w->worker);
	for (struct apus_reader *r = p->readers; r; r = r->next)
		announce_again(p, r->endpoint, r->worker);
	apus_ctl_discovery_turn(p->discovery, apus_mono_now());
	apus_dp_worker_end_turn(p->control);
}

void apus_ctl_domain_follow_net(struct apus_participant *p)
{
	struct apus_dp_netif found[APUS_DP_NETIF_MAX];
	struct apus_mono now = apus_mono_now();
	size_t count;

	if (!apus_ctl_domain_net_changed(p))
		return;
	memset(found, 0, sizeof(found));
	/* What was named and is gone for now will be back, or not: its addresses stay announced. */
	if (apus_ctl_domain_lookup(p, NULL, 0, found, &count) != 0)
		return;
	/* A link that was down and is up again looks the same, but what was sent meanwhile is lost: others
	 * are told again, though not more often than at the start. */
	if (same_interfaces(p, found, count) &&
	    now.ns - p->net_told.ns < p->config.announce_burst_period_ns)
		return;
	p->net_told = now;
	if (!same_interfaces(p, found, count))
		apus_counter_add(&p->net_changes, 1);
	take_interfaces(p, found, count);
	tell_queue(p, p->control);
	for (uint32_t i = 0; i < p->worker_count; i++)
		tell_queue(p, p->workers[i]);
	announce_all(p);
}
