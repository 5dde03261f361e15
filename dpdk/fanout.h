/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DPDK's AF_PACKET driver puts its sockets into a fan-out group even if there is only one, and has the kernel put fragments of
 * IPv4 together for the group (PACKET_FANOUT_FLAG_DEFRAG): datagrams above some 61,000 bytes then come as frames that no
 * buffer of DPDK holds. With one queue the group is good for nothing, so the driver is opened on a thread where asking for
 * one does nothing.
 */
#ifndef APUS_DPDK_FANOUT_H
#define APUS_DPDK_FANOUT_H

#include <stdbool.h>

/**
 * Runs `work` with `arg` on a thread of its own, in the caller's network namespace, and returns when it has ended. On that
 * thread setsockopt(SOL_PACKET, PACKET_FANOUT) succeeds and does nothing, by a filter of system calls that ends with
 * it; `ignored` tells the work whether the kernel has permitted that. Threads that the work starts inherit it.
 * Returns false if there is no thread; the work has not run then.
 */
bool apus_dpdk_without_fanout(void (*work)(void *arg, bool ignored), void *arg);

#endif
