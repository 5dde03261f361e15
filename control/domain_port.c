/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A participant on an interface that this process drives itself (transport = dpdk): what it has of dataplane/io/plugin.h
 * in place of the kernel's interfaces, ports and sockets. The port is its only interface, its queues are the port's,
 * and its participant index is the first whose UDP ports are free there: other processes have ports of their own.
 */
#include "control/domain.h"

#include "dataplane/io/relay.h"

#include <stdio.h>

struct apus_dp_port_config apus_ctl_domain_port_config(const struct apus_ctl_config *c)
{
	return (struct apus_dp_port_config){
		.device = c->dpdk_port,
		.eal = c->dpdk_eal,
		.address = c->dpdk_address,
		.gateway = c->dpdk_gateway,
		.ipv6 = c->dpdk_ipv6,
		.neighbours = c->dpdk_neighbours,
		.vlan = c->dpdk_vlan,
		.mtu_bytes = c->dpdk_mtu_bytes,
		.multicast_ttl = c->multicast_ttl,
		.accept_partial_checksums = c->dpdk_checksums == APUS_CTL_CHECKSUMS_ACCEPT,
		.hugepages = c->dpdk_hugepages == 0,
		.poll_period_ns = c->dpdk_poll_period_ns,
		.queue_count = c->dpdk_queues,
		.hold_count = (c->worker_count + 1) * c->rx_buffer_count,
	};
}

int apus_ctl_domain_open_port(struct apus_participant *p, struct apus_dp_netif *netif_out,
			      char *why, size_t why_bytes)
{
	struct apus_dp_port_config config = apus_ctl_domain_port_config(&p->config);
	int rc = apus_dp_plugin_load(p->config.dpdk_library, why, why_bytes, &p->plugin);

	if (rc != 0)
		return rc;
	rc = p->plugin->port_open(&config, why, why_bytes, &p->port);
	if (rc != 0)
		return rc;
	return p->plugin->port_netif(p->port, apus_ctl_domain_family(p), netif_out);
}

void apus_ctl_domain_close_port(struct apus_participant *p)
{
	if (p->port)
		p->plugin->port_close(p->port);
	p->port = NULL;
}

int apus_ctl_domain_claim_on_port(struct apus_participant *p, char *why, size_t why_bytes,
				  struct apus_dp_port_claim *claim_out)
{
	bool given = p->config.participant_index >= 0;
	uint32_t first = given ? (uint32_t)p->config.participant_index : 0;
	uint32_t last = given ? first : APUS_DP_PARTICIPANT_IDX_MAX;

	for (uint32_t idx = first; idx <= last; idx++) {
		struct apus_dp_port_claim claim = {
			.participant_idx = idx, .meta_fd = -1, .user_fd = -1};
		uint16_t ports[2];

		if (apus_dp_ports_get(p->config.domain, idx, &claim.ports) != 0)
			break;
		ports[0] = claim.ports.meta_unicast;
		ports[1] = claim.ports.user_unicast;
		if (p->plugin->port_reserve(p->port, ports, 2) == 0) {
			*claim_out = claim;
			return 0;
		}
	}
	snprintf(why, why_bytes, "participant index: %s on %s",
		 given ? "the one asked for is taken" : "all are taken", p->config.dpdk_port);
	return APUS_EADDRINUSE;
}

int apus_ctl_domain_open_queue(struct apus_participant *p, const struct apus_dp_queue_config *q,
			       char *why, size_t why_bytes, struct apus_dp_queue **queue_out)
{
	if (p->port)
		return p->plugin->queue_open(p->port, q, why, why_bytes, queue_out);
	if (p->config.transport == APUS_CTL_TRANSPORT_WORKER)
		return apus_dp_relay_queue_open(q, p->config.relay_directory, p->config.relay_name,
						why, why_bytes, queue_out);
	return apus_dp_queue_open(q, why, why_bytes, queue_out);
}
