/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watching network interfaces: tells that links or addresses may have changed, not what. Whoever is told
 * looks them up again (netif.h), which is the same code as at the start and cannot drift from it.
 *
 * Raw NETLINK_ROUTE: the kernel sends a notice for each change of a link or an address, and says so when
 * notices were lost, which counts as a change.
 */
#ifndef APUS_DATAPLANE_IO_NETWATCH_H
#define APUS_DATAPLANE_IO_NETWATCH_H

#include <stdbool.h>

/** Begins to watch. Returns a descriptor that becomes readable on changes, or -1 if the kernel refuses:
 *  then interfaces stay as they were at the start. Any thread. */
int apus_dp_netwatch_open(void);
/** Ends it; -1 is allowed. */
void apus_dp_netwatch_close(int fd);
/** True if anything may have changed since the last call; takes all notices there are. Does not block.
 *  False for -1. */
bool apus_dp_netwatch_changed(int fd);

#endif
