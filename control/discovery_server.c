/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discovery Servers of Fast DDS (docs/decisions/0018): which participants are servers of ours, when they are
 * announced to, and what they may tell of others.
 */
#include "control/discovery_internal.h"

/* A server that has not answered is announced to so often; its own clients do the same. */
#define SERVER_RETRY_NS (450 * APUS_NS_PER_MS)
/* After so long a writer that says it wrote less than it did is no straggler of the network. */
#define REGRESS_NS (50 * APUS_NS_PER_MS)
/* What a server that is met afresh may be sent before it proves itself: a third of it comes back. */
#define SERVER_CREDIT_BYTES 4096
/* A participant known by a server's word is asked so often whether it lives. */
#define PROBES_PER_LEASE 3
#define PROBE_MIN_NS     (100 * APUS_NS_PER_MS)

void apus_ctl_discovery_tell_servers(struct apus_ctl_discovery *d, bool all)
{
	for (uint32_t i = 0; i < d->config.server_count; i++) {
		if (!all && d->server[i].answered)
			continue;
		d->client_news = false;
		d->ops.announce_client(d->ops.user, &d->server[i].addr, &d->guid, d->client.at,
				       d->client.bytes, false);
		apus_counter_add(&d->counters.server_announcements, 1);
	}
}

struct server *apus_ctl_discovery_server_of(struct apus_ctl_discovery *d,
					    const struct apus_ctl_participant *p)
{
	for (uint32_t i = 0; is_server(p) && i < d->config.server_count; i++)
		if (apus_dp_addr_equal(&d->server[i].addr, &p->server))
			return &d->server[i];
	return NULL;
}

void apus_ctl_discovery_retry_servers(struct apus_ctl_discovery *d, struct apus_mono now)
{
	int64_t period = d->config.announce_period_ns;

	apus_ctl_discovery_tell_servers(d, false);
	d->next_server_retry = NEVER;
	for (uint32_t i = 0; i < d->config.server_count; i++)
		if (!d->server[i].answered)
			d->next_server_retry = apus_mono_add(
				now, period < SERVER_RETRY_NS ? period : SERVER_RETRY_NS);
}

static bool same_ip(const struct apus_dp_addr *a, const struct apus_dp_addr *b)
{
	return a->family == b->family && memcmp(a->ip, b->ip, sizeof(a->ip)) == 0;
}

/* Does this come from the host of a server? A server on our own host may speak from any of its addresses. */
static bool is_from(const struct apus_ctl_discovery *d, const struct apus_dp_addr *server,
		    const struct apus_dp_addr *from)
{
	const struct apus_ctl_locator_policy *policy = apus_ctl_graph_policy(d->graph);

	return same_ip(server, from) || (apus_ctl_locators_same_host(policy, server) &&
					 apus_ctl_locators_same_host(policy, from));
}

static bool announces_port(const struct apus_wire_participant_record *record, uint16_t port)
{
	struct apus_dp_addr addr;

	for (uint32_t i = 0; i < record->metatraffic_unicast.count; i++)
		if (apus_dp_addr_from_locator(&record->metatraffic_unicast.at[i], &addr) &&
		    addr.port == port)
			return true;
	return false;
}

struct apus_ctl_source
apus_ctl_discovery_source_of(const struct apus_ctl_discovery *d,
			     const struct apus_wire_participant_record *record,
			     const struct apus_dp_addr *from)
{
	struct apus_ctl_source source = {.role = APUS_CTL_PEER, .from = *from};

	for (uint32_t i = 0; i < d->config.server_count && source.role == APUS_CTL_PEER; i++) {
		const struct apus_dp_addr *server = &d->server[i].addr;

		if (is_from(d, server, from) && announces_port(record, server->port)) {
			source.role = APUS_CTL_SERVER;
			source.server = *server;
		}
	}
	return source;
}

uint32_t apus_ctl_discovery_trusted_bit(struct apus_ctl_discovery *d,
					const struct apus_prefix *source)
{
	const struct apus_ctl_participant *p = apus_ctl_graph_participant(d->graph, source);
	const struct server *server =
		p && peer_of(d, p)->proved ? apus_ctl_discovery_server_of(d, p) : NULL;

	return server ? UINT32_C(1) << (server - d->server) : 0;
}

bool apus_ctl_discovery_trusts(struct apus_ctl_discovery *d, const struct apus_prefix *source)
{
	return apus_ctl_discovery_trusted_bit(d, source) != 0;
}

bool apus_ctl_discovery_may_hear(struct apus_ctl_discovery *d, const struct apus_prefix *source,
				 const struct apus_dp_addr *from)
{
	const struct apus_ctl_participant *p = apus_ctl_graph_participant(d->graph, source);

	if (!p || !is_server(p) || is_from(d, &p->server, from))
		return true;
	apus_counter_add(&d->counters.impostors, 1);
	return false;
}

void apus_ctl_discovery_on_regress(struct apus_ctl_discovery *d, const struct apus_prefix *source,
				   struct apus_mono now)
{
	struct apus_ctl_participant *p = apus_ctl_graph_participant(d->graph, source);
	struct apus_wire_participant_record record;
	struct apus_ctl_source as;
	struct peer *peer;

	if (!p || !is_server(p))
		return;
	peer = peer_of(d, p);
	/* A single one may be a straggler. */
	if (peer->regressed.ns == 0 || now.ns - peer->regressed.ns < REGRESS_NS) {
		if (peer->regressed.ns == 0)
			peer->regressed = now;
		return;
	}
	record = p->record;
	as = (struct apus_ctl_source){.role = p->role, .from = p->from, .server = p->server};
	apus_counter_add(&d->counters.restarted, 1);
	apus_ctl_discovery_forget(d, p);
	if (apus_ctl_graph_add_participant_as(d->graph, &record, &as, &p) < 0)
		return;
	peer = peer_of(d, p);
	memset(peer, 0, sizeof(*peer));
	peer->heard = now;
	peer->stamp = APUS_WALL_NONE;
	/* It is where the configuration says: nobody is flooded in its name. */
	peer->received_bytes = SERVER_CREDIT_BYTES;
	d->next_expiry = earlier(d->next_expiry, expiry(p, peer));
}

int64_t apus_ctl_discovery_probe_ns(const struct apus_ctl_discovery *d)
{
	return d->probe_ns;
}

static void probe_within(struct apus_ctl_discovery *d, int64_t lease_ns)
{
	int64_t period = lease_ns / PROBES_PER_LEASE;

	if (lease_ns <= 0 || lease_ns == APUS_INFINITE_NS)
		return;
	if (period < PROBE_MIN_NS)
		period = PROBE_MIN_NS;
	if (d->probe_ns == 0 || period < d->probe_ns)
		d->probe_ns = period;
}

void apus_ctl_discovery_set_probe(struct apus_ctl_discovery *d)
{
	struct apus_ctl_participant *p = NULL;

	d->probe_ns = 0;
	while ((p = apus_ctl_graph_next_participant(d->graph, p)))
		if (is_relayed(p))
			probe_within(d, p->record.lease_ns);
}

/* Interop: to a server every client calls itself Fast DDS. We know our own by their prefixes. */
static void restore_vendor(struct apus_wire_participant_record *record)
{
	if (record->prefix.bytes[0] == APUS_WIRE_VENDOR >> 8 &&
	    record->prefix.bytes[1] == (APUS_WIRE_VENDOR & 0xff))
		record->vendor = APUS_WIRE_VENDOR;
}

int apus_ctl_discovery_on_relayed(struct apus_ctl_discovery *d,
				  const struct apus_wire_participant_record *record,
				  const struct apus_ctl_heard *heard, uint32_t server,
				  struct apus_mono now)
{
	struct apus_ctl_participant *p = apus_ctl_graph_participant(d->graph, &record->prefix);
	const struct apus_ctl_source source = {.role = APUS_CTL_RELAYED};
	struct apus_wire_participant_record copy = *record;
	int result;

	if (p && !is_relayed(p))
		return APUS_CTL_UNCHANGED;
	restore_vendor(&copy);
	result = apus_ctl_discovery_keep(d, &copy, &source, heard, now, &p);
	if (result < 0)
		return result;
	apus_counter_add(&d->counters.relayed, 1);
	peer_of(d, p)->told_by |= server;
	probe_within(d, p->record.lease_ns);
	return result;
}
