/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The texts of a port's configuration, parsed: addresses with prefix, neighbours, the name of the device and its
 * arguments. Pure; every text is a person's and refused with a sentence if it is not exactly of its form.
 */
#ifndef APUS_DPDK_SETTINGS_H
#define APUS_DPDK_SETTINGS_H

#include "dataplane/io/plugin.h"

/** Most static neighbours. */
#define APUS_DPDK_NEIGHBOURS_MAX 64
/** Longest device text. */
#define APUS_DPDK_DEVICE_BYTES 1023

struct apus_dpdk_neighbour {
	uint8_t ipv4[4];
	uint8_t mac[6];
};

struct apus_dpdk_settings {
	char device[APUS_DPDK_DEVICE_BYTES + 1]; /* its name: what stands before the first comma */
	char arguments[APUS_DPDK_DEVICE_BYTES + 1]; /* what stands behind it */
	bool is_pci;
	bool has_ipv4, has_ipv6;
	uint8_t ipv4[4], gateway[4], ipv6[16];
	uint8_t ipv4_bits, ipv6_bits;
	struct apus_dpdk_neighbour neighbour[APUS_DPDK_NEIGHBOURS_MAX];
	uint32_t neighbour_count;
	uint16_t vlan;
	uint32_t mtu_bytes; /* 0: the device's */
	uint8_t multicast_ttl;
	bool accept_partial_checksums, hugepages;
	int64_t poll_period_ns;
	uint32_t hold_count;
	uint32_t queue_count; /* 1…16 */
};

/** Parses. Returns 0 or APUS_EINVAL with a sentence in `why` (never NULL); *out is undefined then. The same texts
 *  give the same bytes: compare two with memcmp(). */
int apus_dpdk_settings_parse(const struct apus_dp_port_config *config, char *why, size_t why_bytes,
			     struct apus_dpdk_settings *out);

#endif
