/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The RTPS port formula, and participant indices claimed by binding the pair of ports they stand
 * for.
 */
#include "dataplane/io/ports.h"
#include "dataplane/io/udp.h"

#include <apus/core.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int apus_dp_ports_get(uint32_t domain_id, uint32_t participant_idx, struct apus_dp_ports *ports_out)
{
	uint32_t base, own;

	if (domain_id > APUS_DP_DOMAIN_MAX || participant_idx > APUS_DP_PARTICIPANT_IDX_MAX)
		return APUS_EINVAL;
	base = APUS_DP_PORT_BASE + APUS_DP_PORT_DOMAIN_GAIN * domain_id;
	own = base + APUS_DP_PORT_PARTICIPANT_GAIN * participant_idx;
	if (own + APUS_DP_PORT_D3 > UINT16_MAX)
		return APUS_EINVAL;
	ports_out->meta_multicast = (uint16_t)(base + APUS_DP_PORT_D0);
	ports_out->user_multicast = (uint16_t)(base + APUS_DP_PORT_D2);
	ports_out->meta_unicast = (uint16_t)(own + APUS_DP_PORT_D1);
	ports_out->user_unicast = (uint16_t)(own + APUS_DP_PORT_D3);
	return 0;
}

/* Returns a bound socket or a negative errno. No SO_REUSEADDR: being refused is the point. */
static int bind_port(uint16_t family, uint16_t port, bool loopback_only)
{
	int fd = apus_dp_udp_socket_open(family);
	int error;

	if (fd < 0)
		return -errno;
	if (apus_dp_udp_bind_unicast(fd, family, loopback_only, port) == 0)
		return fd;
	error = errno;
	close(fd);
	return -error;
}

/* Binds both ports or none. Returns 0 or a negative errno. */
static int bind_pair(uint16_t family, bool loopback_only, struct apus_dp_port_claim *claim)
{
	claim->meta_fd = bind_port(family, claim->ports.meta_unicast, loopback_only);
	if (claim->meta_fd < 0)
		return claim->meta_fd;
	claim->user_fd = bind_port(family, claim->ports.user_unicast, loopback_only);
	if (claim->user_fd >= 0)
		return 0;
	close(claim->meta_fd);
	return claim->user_fd;
}

/* Two separate sentences, because the remedy differs. */
static int refuse(int error, uint32_t domain_id, uint32_t first_idx, uint32_t last_idx, char *why,
		  size_t why_bytes)
{
	if (error == -EADDRINUSE) {
		snprintf(why, why_bytes,
			 "domain %u: the ports of participant index %u to %u are all taken",
			 domain_id, first_idx, last_idx);
		return APUS_EADDRINUSE;
	}
	snprintf(why, why_bytes, "binding the ports of domain %u: %s", domain_id, strerror(-error));
	return error == -EACCES || error == -EPERM ? APUS_EPERM : APUS_EIO;
}

int apus_dp_port_claim(uint32_t domain_id, int participant_idx, bool loopback_only, char *why,
		       size_t why_bytes, struct apus_dp_port_claim *claim_out)
{
	return apus_dp_port_claim_family(AF_INET, domain_id, participant_idx, loopback_only, why,
					 why_bytes, claim_out);
}

int apus_dp_port_claim_family(uint16_t family, uint32_t domain_id, int participant_idx,
			      bool loopback_only, char *why, size_t why_bytes,
			      struct apus_dp_port_claim *claim_out)
{
	uint32_t first = participant_idx < 0 ? 0 : (uint32_t)participant_idx;
	uint32_t last = participant_idx < 0 ? APUS_DP_PARTICIPANT_IDX_MAX : first;
	struct apus_dp_port_claim claim = {.meta_fd = -1, .user_fd = -1};
	int error = -EADDRINUSE;
	uint32_t idx;
	char unread[1];

	if (!why) {
		why = unread;
		why_bytes = sizeof(unread);
	}
	for (idx = first; idx <= last && error == -EADDRINUSE; idx++) {
		if (apus_dp_ports_get(domain_id, idx, &claim.ports) < 0)
			break;
		claim.participant_idx = idx;
		error = bind_pair(family, loopback_only, &claim);
	}
	if (error == 0) {
		*claim_out = claim;
		return 0;
	}
	if (idx == first) {
		snprintf(why, why_bytes, "domain %u with participant index %u has no ports",
			 domain_id, first);
		return APUS_EINVAL;
	}
	return refuse(error, domain_id, first, idx - 1, why, why_bytes);
}

void apus_dp_port_claim_release(struct apus_dp_port_claim *claim)
{
	if (!claim)
		return;
	if (claim->meta_fd >= 0)
		close(claim->meta_fd);
	if (claim->user_fd >= 0)
		close(claim->user_fd);
	claim->meta_fd = -1;
	claim->user_fd = -1;
}
