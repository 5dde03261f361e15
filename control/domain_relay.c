/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a participant's queues and interfaces come from: of this process, or of a worker process (`transport =
 * worker`; dataplane/io/relay.h). That process itself is domain_relay_host.c.
 */
#include "control/domain.h"

#include "dataplane/io/relay.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static bool is_relayed(const struct apus_participant *p)
{
	return p->config.transport == APUS_CTL_TRANSPORT_WORKER;
}

int apus_ctl_domain_check_relay(const struct apus_participant *p, char *why, size_t why_bytes)
{
	static const char *const names[] = {"worker.applications", "worker.queues",
					    "worker.ring_bytes", "worker.burst"};
	const struct apus_ctl_config *c = &p->config;
	struct apus_ctl_config d;
	bool differs[4];

	apus_ctl_config_default(&d);
	differs[0] = c->relay_applications != d.relay_applications;
	differs[1] = c->relay_queues != d.relay_queues;
	differs[2] = c->relay_ring_bytes != d.relay_ring_bytes;
	differs[3] = c->relay_burst != d.relay_burst;
	for (size_t i = 0; i < APUS_ARRAY_LENGTH(differs); i++) {
		if (!differs[i])
			continue;
		snprintf(why, why_bytes, "%s: has no effect but on the worker process", names[i]);
		return APUS_EINVAL;
	}
	if (is_relayed(p) || (strcmp(c->relay_name, d.relay_name) == 0 && !*c->relay_directory))
		return 0;
	snprintf(why, why_bytes, "worker.%s: has no effect but with transport = worker",
		 *c->relay_directory ? "directory" : "name");
	return APUS_EINVAL;
}

int apus_ctl_domain_lookup(const struct apus_participant *p, char *why, size_t why_bytes,
			   struct apus_dp_netif found[APUS_DP_NETIF_MAX], size_t *count_out)
{
	uint16_t family = apus_ctl_domain_family(p);

	return is_relayed(p)
		       ? apus_dp_relay_lookup(p->config.relay_directory, p->config.relay_name,
					      family, p->config.interfaces, why, why_bytes,
					      APUS_DP_NETIF_MAX, found, count_out)
		       : apus_dp_netif_lookup_family(family, p->config.interfaces, why, why_bytes,
						     APUS_DP_NETIF_MAX, found, count_out);
}

bool apus_ctl_domain_net_changed(struct apus_participant *p)
{
	return is_relayed(p) ? apus_dp_relay_queue_changed(p->control->config.queue)
			     : apus_dp_netwatch_changed(p->netwatch_fd);
}

/* The process takes the ports of a queue back a moment after its application has closed it. */
#define ATTEMPTS   25
#define ATTEMPT_NS (10 * APUS_NS_PER_MS)

/* Both queues of one index, or none. */
static int open_pair(struct apus_participant *p, const struct apus_dp_queue_config *meta,
		     const struct apus_dp_queue_config *user, struct apus_dp_queue *queues[2],
		     char *why, size_t why_bytes)
{
	int rc = apus_ctl_domain_open_queue(p, meta, why, why_bytes, &queues[0]);

	if (rc != 0)
		return rc;
	rc = apus_ctl_domain_open_queue(p, user, why, why_bytes, &queues[1]);
	if (rc != 0)
		apus_dp_queue_close(queues[0]);
	return rc;
}

int apus_ctl_domain_claim_relayed(struct apus_participant *p, struct apus_dp_queue_config *meta,
				  struct apus_dp_queue_config *user,
				  struct apus_dp_queue *queues[2], char *why, size_t why_bytes)
{
	bool any = p->config.participant_index == APUS_CTL_AUTO;
	uint32_t first = any ? 0 : (uint32_t)p->config.participant_index;
	uint32_t last = any ? APUS_DP_PARTICIPANT_IDX_MAX : first;
	int rc = APUS_EADDRINUSE;

	for (uint32_t i = first; i <= last && rc == APUS_EADDRINUSE; i++) {
		rc = apus_dp_ports_get(p->config.domain, i, &p->ports);
		if (rc != 0)
			break;
		p->participant_idx = i;
		meta->group_count = user->group_count = 0;
		if (p->config.multicast != APUS_CTL_MULTICAST_OFF)
			apus_ctl_domain_add_groups(p, meta, p->ports.meta_multicast);
		if (p->config.multicast == APUS_CTL_MULTICAST_ON)
			apus_ctl_domain_add_groups(p, user, p->ports.user_multicast);
		meta->unicast_port = p->ports.meta_unicast;
		user->unicast_port = p->ports.user_unicast;
		rc = open_pair(p, meta, user, queues, why, why_bytes);
		for (int k = 0; !any && rc == APUS_EADDRINUSE && k < ATTEMPTS; k++) {
			nanosleep(&(struct timespec){0, ATTEMPT_NS}, NULL);
			rc = open_pair(p, meta, user, queues, why, why_bytes);
		}
	}
	return rc;
}
