/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RTPS well-known ports and the choice of a participant index (RTPS 2.5 §9.6.2).
 *
 * The index is claimed by binding: whoever holds the pair of unicast ports holds the index. A claim
 * is two bound sockets that two queues then adopt (apus_dp_queue_config.adopt_fd), so there is no
 * moment at which another process could take them.
 */
#ifndef APUS_DATAPLANE_IO_PORTS_H
#define APUS_DATAPLANE_IO_PORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Constants of the port formula (RTPS 2.5 §9.6.2.3). */
#define APUS_DP_PORT_BASE             7400
#define APUS_DP_PORT_DOMAIN_GAIN      250
#define APUS_DP_PORT_PARTICIPANT_GAIN 2
#define APUS_DP_PORT_D0               0
#define APUS_DP_PORT_D1               10
#define APUS_DP_PORT_D2               1
#define APUS_DP_PORT_D3               11

/** Highest domain id whose ports exist: 7400 + 250 · 232 = 65400. */
#define APUS_DP_DOMAIN_MAX 232
/** Highest participant index tried: the next one would run into the ports of the next domain. */
#define APUS_DP_PARTICIPANT_IDX_MAX 119

/** The four ports of one participant, host order. */
struct apus_dp_ports {
	uint16_t meta_multicast; /* shared by the domain */
	uint16_t user_multicast; /* shared by the domain */
	uint16_t meta_unicast;
	uint16_t user_unicast;
};

/**
 * Computes the ports of participant `participant_idx` in `domain_id`.
 * Returns 0, or APUS_EINVAL if the domain is above APUS_DP_DOMAIN_MAX, the index above
 * APUS_DP_PARTICIPANT_IDX_MAX, or a port above 65535 (domain 232 has room for indices 0…62 only).
 * Any thread; pure.
 */
int apus_dp_ports_get(uint32_t domain_id, uint32_t participant_idx,
		      struct apus_dp_ports *ports_out);

/** A participant index held by two bound sockets. */
struct apus_dp_port_claim {
	uint32_t participant_idx;
	struct apus_dp_ports ports;
	int meta_fd; /* bound to ports.meta_unicast; -1 once given to a queue */
	int user_fd; /* bound to ports.user_unicast; -1 once given to a queue */
};

/**
 * Claims a participant index by binding both its unicast ports.
 *
 * participant_idx: the one index to try, or -1 for the lowest free one.
 * loopback_only: bind to 127.0.0.1, else to every local address.
 * why: gets a sentence on failure; may be NULL.
 * Returns 0, APUS_EINVAL (domain or index out of range), APUS_EADDRINUSE (taken, or all taken),
 * APUS_EPERM, APUS_EIO. The caller owns the two descriptors: a queue takes over the one it adopts
 * (set the field to -1 then), apus_dp_port_claim_release() closes what is left. Any thread.
 */
int apus_dp_port_claim(uint32_t domain_id, int participant_idx, bool loopback_only, char *why,
		       size_t why_bytes, struct apus_dp_port_claim *claim_out);

/** The same for AF_INET or AF_INET6, whose ports are apart. */
int apus_dp_port_claim_family(uint16_t family, uint32_t domain_id, int participant_idx,
			      bool loopback_only, char *why, size_t why_bytes,
			      struct apus_dp_port_claim *claim_out);

/** Closes the descriptors of a claim that no queue has adopted. NULL is allowed. */
void apus_dp_port_claim_release(struct apus_dp_port_claim *claim);

#endif
