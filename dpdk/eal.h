/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DPDK's environment (EAL), started once a process, quietly: from a thread of its own, so that the caller's thread
 * keeps its cores, its signals and its lcore id, without telemetry, without files other processes could trip over,
 * and with what it would print kept for the error text. Once started it stays: DPDK cannot start twice.
 *
 * An application that has started EAL itself keeps its own; ports are then added to it.
 */
#ifndef APUS_DPDK_EAL_H
#define APUS_DPDK_EAL_H

#include <stdbool.h>
#include <stddef.h>

/** What the first port of the process decides. */
struct apus_dpdk_eal_config {
	const char *extra; /* further arguments, separated by spaces; never NULL */
	const char
		*pci;   /* address of the device to be probed, or NULL: the PCI bus is left alone */
	bool hugepages; /* take them if the host has enough that are free */
};

/**
 * Starts EAL if nobody has. Serialised by the caller.
 * Returns 0, APUS_EINVAL (an argument of `extra` is refused), APUS_ENOTSUP (a PCI device is wanted, but EAL runs
 * without that bus), APUS_EPERM, APUS_ENOMEM, APUS_EIO; then `why` says what DPDK said last.
 */
int apus_dpdk_eal_start(const struct apus_dpdk_eal_config *config, char *why, size_t why_bytes);

/** The last line DPDK logged, "" if none; static storage, overwritten by the next. Creation time only. */
const char *apus_dpdk_eal_last_log(void);
/** Forgets it. */
void apus_dpdk_eal_clear_log(void);
/** From here to apus_dpdk_quiet_end() libxdp and libbpf, which the AF_XDP driver uses, print nothing on stderr; what they
 *  warn of becomes the last line. Not nested; creation time only, serialised by the caller. */
void apus_dpdk_quiet_begin(void);
void apus_dpdk_quiet_end(void);

#endif
