/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One DPDK port: found or made, configured with its receive and transmit queues, started; its memory pools.
 *
 * Pools are of the kind "one puts, one gets at a time": whoever does is ordered by the caller. A thread that is
 * preempted inside such a pool delays nobody, which DPDK's pools for many threads cannot say.
 */
#ifndef APUS_DPDK_DEVICE_H
#define APUS_DPDK_DEVICE_H

#include "dpdk/host.h"
#include "dpdk/settings.h"

#include <rte_mempool.h>

/** Frames taken or given at once. */
#define APUS_DPDK_BURST 32
/** Descriptors asked for of each queue; a driver may give fewer. */
#define APUS_DPDK_DESCRIPTORS 1024

struct apus_dpdk_device {
	uint16_t id;
	bool is_pci, is_started, is_promiscuous;
	bool is_af_xdp, is_af_packet;
	bool reassembles; /* gives fragments put together, in frames longer than the MTU */
	struct apus_dpdk_host host;
	uint32_t queue_count; /* queue pairs; what is sent leaves by the first */
	char name[64];
	uint8_t mac[6];
	uint32_t mtu_bytes; /* of IP packets */
	uint32_t
		frame_bytes; /* data room of a buffer for one frame of the MTU, headroom included */
	uint32_t room_bytes; /* the same of a received frame */
	uint16_t rx_descriptors, tx_descriptors;
	uint64_t tx_offloads; /* enabled, RTE_ETH_TX_OFFLOAD_… */
	struct rte_mempool
		*pools[APUS_DPDK_QUEUES_MAX]; /* received frames of each queue; in the first
							     also our own that are not a queue's */
};

/**
 * Opens a device in the network namespace of the calling thread. frame_count: received frames that
 * queues may hold. Returns 0, APUS_ENODEV, APUS_EEXIST (another process has it; it, or the kernel, has our address), APUS_ENOMEM, APUS_EINVAL (an MTU or a number of queues it refuses), APUS_EIO; then nothing is left, and
 * `why` has a sentence.
 */
int apus_dpdk_device_open(const struct apus_dpdk_settings *s, uint32_t frame_count, char *why,
			  size_t why_bytes, struct apus_dpdk_device *device_out);

/** Stops and gives up what was opened, as far as it was. The pool must be full again, but for what the device
 *  itself holds. */
void apus_dpdk_device_close(struct apus_dpdk_device *device);

/** A pool of `count` buffers of so much data room, headroom included. NULL: no memory. */
struct rte_mempool *apus_dpdk_pool_create(uint32_t count, uint32_t room_bytes);

/** Whether the link is up; true where that is not known. */
bool apus_dpdk_device_is_up(const struct apus_dpdk_device *device);

#endif
