/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connected sockets for destinations on this host that single datagrams go to again and again.
 *
 * For a socket that is not connected the kernel looks up route and source address at each send: a tenth of what a
 * small datagram costs. So whoever of this host has been sent DIRECT_AFTER single datagrams without many others in
 * between gets a socket of its own, with another source port; RTPS answers go to the announced locators. Only
 * 127.0.0.0/8 and ::1: there neither route nor source address ever changes, so nothing has to be watched. Nobody
 * receives from these sockets.
 *
 * A connected socket reports that nobody listened to the datagram before last, and does not send meanwhile: the
 * datagram then goes the common way, and the place is free again.
 */
#include "dataplane/io/calls.h"
#include "dataplane/io/udp.h"

#include <errno.h>
#include <unistd.h>

/* Single datagrams to one destination, more than to others of its place, before it gets a socket. */
#define DIRECT_AFTER 64

static bool is_loopback(const struct apus_dp_addr *to)
{
	static const uint8_t six[16] = {[15] = 1};

	return to->family == AF_INET ? to->ip[12] == 127 : memcmp(to->ip, six, sizeof(six)) == 0;
}

/* Connects the place's socket, which is made when it is first needed. False: not now. */
static bool connect_place(struct apus_dp_udp *u, struct apus_dp_udp_direct *d)
{
	union apus_dp_sockaddr to;
	socklen_t bytes = apus_dp_udp_sockaddr(&d->to, 0, &to);

	if (d->fd < 0) {
		d->fd = apus_dp_udp_socket_open(u->family);
		if (d->fd < 0)
			return false;
		apus_dp_udp_set_sndbuf(d->fd, u->config.sndbuf_bytes);
	}
	return connect(d->fd, &to.any, bytes) == 0;
}

void apus_dp_udp_direct_init(struct apus_dp_udp *u)
{
	for (int i = 0; i < APUS_DP_UDP_DIRECT_MAX; i++)
		u->direct[i] = (struct apus_dp_udp_direct){.fd = -1};
}

void apus_dp_udp_direct_fini(struct apus_dp_udp *u)
{
	for (int i = 0; i < APUS_DP_UDP_DIRECT_MAX; i++)
		if (u->direct[i].fd >= 0)
			close(u->direct[i].fd);
	apus_dp_udp_direct_init(u);
}

/* The place of a destination that has a socket; NULL: it has none. Counts. */
static struct apus_dp_udp_direct *find(struct apus_dp_udp *u, const struct apus_dp_addr *to)
{
	struct apus_dp_udp_direct *d = &u->direct[to->port % APUS_DP_UDP_DIRECT_MAX];

	if (APUS_LIKELY(d->connected && apus_dp_addr_equal(&d->to, to))) {
		d->count = DIRECT_AFTER;
		return d;
	}
	if (!is_loopback(to))
		return NULL;
	if (!apus_dp_addr_equal(&d->to, to)) {
		if (d->count > 0) {
			d->count--;
			return NULL;
		}
		d->to = *to;
		d->connected = false;
	}
	if (++d->count < DIRECT_AFTER)
		return NULL;
	d->connected = connect_place(u, d);
	d->count = d->connected ? DIRECT_AFTER : 0;
	return d->connected ? d : NULL;
}

static ssize_t send_on(int fd, const struct apus_dp_tx *tx)
{
	struct msghdr message;

	if (tx->iov_count == 1)
		return apus_dp_sys_sendto(fd, tx->iov[0].iov_base, tx->iov[0].iov_len, MSG_DONTWAIT,
					  NULL, 0);
	message = (struct msghdr){.msg_iov = (struct iovec *)(uintptr_t)tx->iov,
				  .msg_iovlen = tx->iov_count};
	return apus_dp_sys_sendmsg(fd, &message, MSG_DONTWAIT);
}

bool apus_dp_udp_direct_send(struct apus_dp_udp *u, const struct apus_dp_tx *tx, ssize_t *sent_out)
{
	struct apus_dp_udp_direct *d = find(u, &tx->to);

	if (!d)
		return false;
	*sent_out = send_on(d->fd, tx);
	if (*sent_out >= 0 || errno != ECONNREFUSED)
		return true;
	d->connected = false;
	d->count = 0;
	apus_counter_add(&u->q.counters.syscalls, 1);
	return false;
}
