/* SPDX-License-Identifier: Apache-2.0 */
/* Notices of the kernel about links and addresses; see the header. */
#include "dataplane/io/netwatch.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

/* Notices taken at a call; a flood of them is one change. */
#define NOTICES_MAX 256

int apus_dp_netwatch_open(void)
{
	struct sockaddr_nl address = {.nl_family = AF_NETLINK,
				      .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR |
						   RTMGRP_IPV6_IFADDR};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd < 0)
		return -1;
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	close(fd);
	return -1;
}

void apus_dp_netwatch_close(int fd)
{
	if (fd >= 0)
		close(fd);
}

bool apus_dp_netwatch_changed(int fd)
{
	bool changed = false;
	uint8_t unread[8];

	if (fd < 0)
		return false;
	/* The contents do not matter, so they are not parsed; the rest of each is cut off. */
	for (int i = 0; i < NOTICES_MAX; i++) {
		if (recv(fd, unread, sizeof(unread), MSG_DONTWAIT) >= 0 || errno == ENOBUFS)
			changed = true;
		else if (errno != EINTR)
			break;
	}
	return changed;
}
