/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel knows of an interface that a virtual device takes over (AF_PACKET, AF_XDP), asked before DPDK is: its
 * drivers say little, late, or nothing. And the claims by which processes keep off what another one has: names of
 * sockets in the network namespace, which the kernel frees with their owner, however that ends.
 */
#ifndef APUS_DPDK_HOST_H
#define APUS_DPDK_HOST_H

#include "dpdk/settings.h"

#include <net/if.h>

/** Most queue pairs of one port. */
#define APUS_DPDK_QUEUES_MAX 16
/** Most claims of one port: its queues, an IPv4 and an IPv6 address. */
#define APUS_DPDK_CLAIMS_MAX (APUS_DPDK_QUEUES_MAX + 2)

/** The interface behind a port. */
struct apus_dpdk_host {
	char interface[IF_NAMESIZE]; /* "": there is none */
	bool is_xdp;
	uint32_t first_queue, queue_count; /* taken, of an AF_XDP port */
	uint32_t claim_count;
	int claim_fd[APUS_DPDK_CLAIMS_MAX];
};

/**
 * Looks at the interface and claims what the port takes of it. In the network namespace of the calling thread.
 * Returns 0 (also for devices that are no interface of the kernel's), APUS_ENODEV (not there, or down), APUS_EEXIST
 * (another process has a queue of it; it, or the kernel, has our address), APUS_EINVAL (queues
 * it does not have), APUS_EIO; then `why` has a sentence, and nothing is claimed.
 */
int apus_dpdk_host_claim(const struct apus_dpdk_settings *s, char *why, size_t why_bytes,
			 struct apus_dpdk_host *host_out);

/** Gives the claims up. */
void apus_dpdk_host_release(struct apus_dpdk_host *host);

/** Whether something about the interface keeps traffic away, which may end by itself: a sentence. False: nothing. */
bool apus_dpdk_host_warning(const struct apus_dpdk_host *host, char *text_out, size_t text_bytes);

/** The MTU of the interface, 0 if it is not known. */
uint32_t apus_dpdk_host_mtu(const struct apus_dpdk_host *host);

/** The value of one of a device's arguments, "iface=…,…"; "" if it is not there. */
void apus_dpdk_argument(const char *arguments, const char *key, char *value_out, size_t bytes);

#endif
