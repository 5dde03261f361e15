/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending bursts.
 *
 * A burst of gathers becomes as few message headers as possible: neighbours of one size to one
 * address (the last may be shorter) form a run that the kernel cuts up itself (UDP_SEGMENT), which
 * costs about a quarter of a sendmmsg of the same datagrams; everything else is a header of its
 * own. The headers then go out in order. Where the kernel refuses a run the same datagrams are sent
 * singly, and the size it refused is not tried again: a link refuses pieces longer than its MTU
 * (EINVAL), and any piece at all if it cannot checksum (EIO).
 *
 * io_uring has no part in this: 64 sends in one submission take 8 to 20 % longer than one sendmmsg
 * of the same headers (docs/decisions/0003-io-uring-where-it-pays.md).
 */
#include "dataplane/io/calls.h"
#include "dataplane/io/udp.h"

#include <errno.h>
#include <netinet/udp.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

static uint32_t total_bytes(const struct apus_dp_tx *tx)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < tx->iov_count; i++) {
		if (tx->iov[i].iov_len > APUS_DP_DATAGRAM_MAX_BYTES)
			return UINT32_MAX;
		sum += tx->iov[i].iov_len;
	}
	return (uint32_t)sum;
}

/* The callers are our own, but what they send is built from what peers asked for. */
static bool sendable(const struct apus_dp_udp *u, const struct apus_dp_tx *tx)
{
	return tx->iov_count >= 1 && tx->iov_count <= APUS_DP_IOV_MAX &&
	       tx->to.family == u->family && tx->to.port != 0 && tx->interface_idx >= -1 &&
	       tx->interface_idx < (int)u->config.interface_count &&
	       total_bytes(tx) <= APUS_DP_DATAGRAM_MAX_BYTES;
}

/* Returns how many datagrams from tx[0] on form one run; 1 if they do not. */
static int run_length(const struct apus_dp_udp *u, const struct apus_dp_tx *tx, int n)
{
	uint32_t piece_bytes = total_bytes(&tx[0]);
	uint32_t sum_bytes = piece_bytes;
	int count = 1;

	if (piece_bytes == 0 || piece_bytes > u->segment_max_bytes)
		return 1;
	while (count < n && count < APUS_DP_SEGMENT_MAX && sendable(u, &tx[count])) {
		uint32_t bytes = total_bytes(&tx[count]);

		if (bytes == 0 || bytes > piece_bytes ||
		    sum_bytes + bytes > APUS_DP_SEGMENT_RUN_BYTES ||
		    tx[count].interface_idx != tx[0].interface_idx ||
		    !apus_dp_addr_equal(&tx[count].to, &tx[0].to))
			break;
		sum_bytes += bytes;
		count++;
		if (bytes < piece_bytes)
			break;
	}
	return count;
}

static void add_control(struct msghdr *message, int level, int type, const void *data, size_t bytes)
{
	struct cmsghdr *cmsg = (struct cmsghdr *)(void *)((uint8_t *)message->msg_control +
							  message->msg_controllen);

	cmsg->cmsg_level = level;
	cmsg->cmsg_type = type;
	cmsg->cmsg_len = CMSG_LEN(bytes);
	memcpy(CMSG_DATA(cmsg), data, bytes);
	message->msg_controllen += CMSG_SPACE(bytes);
}

/* The first interface is the socket's own setting (IP_MULTICAST_IF), so it needs no control
 * message. */
static void choose_interface(const struct apus_dp_udp *u, const struct apus_dp_tx *tx,
			     struct msghdr *message)
{
	const struct apus_dp_netif *link;
	struct in_pktinfo info;

	if (tx->interface_idx <= 0 || !apus_dp_addr_is_multicast(&tx->to))
		return;
	link = &u->config.interfaces[tx->interface_idx];
	if (u->family == AF_INET6) {
		struct in6_pktinfo info6 = {.ipi6_ifindex = link->ifindex};

		add_control(message, IPPROTO_IPV6, IPV6_PKTINFO, &info6, sizeof(info6));
		return;
	}
	memset(&info, 0, sizeof(info));
	info.ipi_ifindex = (int)link->ifindex;
	memcpy(&info.ipi_spec_dst, link->ipv4, 4);
	add_control(message, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
}

/* Appends one header for `count` datagrams from tx[first] on. */
static void add_header(struct apus_dp_udp *u, const struct apus_dp_tx *tx, int first, int count)
{
	struct apus_dp_udp_burst *b = &u->burst;
	int h = b->header_count++;
	struct msghdr *message = &b->header[h].msg_hdr;
	uint16_t piece_bytes = (uint16_t)total_bytes(&tx[first]);

	b->first[h] = (uint16_t)first;
	b->count[h] = (uint16_t)count;
	message->msg_name = &b->to[h];
	message->msg_namelen = apus_dp_udp_sockaddr(&tx[first].to, 0, &b->to[h]);
	message->msg_control = b->control[h].bytes;
	message->msg_controllen = 0;
	message->msg_iov = &b->iov[b->iov_count];
	for (int i = first; i < first + count; i++) {
		memcpy(&b->iov[b->iov_count], tx[i].iov, tx[i].iov_count * sizeof(struct iovec));
		b->iov_count += tx[i].iov_count;
	}
	message->msg_iovlen = (size_t)(&b->iov[b->iov_count] - message->msg_iov);
	choose_interface(u, &tx[first], message);
	if (count > 1)
		add_control(message, SOL_UDP, UDP_SEGMENT, &piece_bytes, sizeof(piece_bytes));
	if (message->msg_controllen == 0)
		message->msg_control = NULL;
}

/* Fills the burst from at most APUS_DP_BURST_MAX datagrams, leaving out malformed ones. */
static void plan(struct apus_dp_udp *u, const struct apus_dp_tx *tx, int n)
{
	int count;

	u->burst.header_count = 0;
	u->burst.iov_count = 0;
	for (int i = 0; i < n; i += count) {
		count = 1;
		if (!sendable(u, &tx[i]))
			continue;
		count = run_length(u, &tx[i], n - i);
		add_header(u, tx, i, count);
	}
}

/* Sends the headers from `from` on, in order, and fills in their results. Stops at a refusal;
 * returns the index after the last header that has a result. */
static int send_headers(struct apus_dp_udp *u, int from)
{
	struct apus_dp_udp_burst *b = &u->burst;
	int sent = apus_dp_sys_sendmmsg(u->socket[0].fd, &b->header[from],
					(unsigned)(b->header_count - from), MSG_DONTWAIT);
	int error = errno;

	apus_counter_add(&u->q.counters.syscalls, 1);
	for (int h = from; h < from + sent; h++)
		b->result[h] = (int)b->header[h].msg_len;
	if (sent > 0)
		return from + sent;
	b->result[from] = -error;
	return from + 1;
}

/* Counts a header that went out. Returns its datagrams. */
static int settle(struct apus_dp_udp *u, int h)
{
	int count = u->burst.count[h];

	apus_counter_add(&u->q.counters.tx, (uint64_t)count);
	apus_counter_add(&u->q.counters.tx_bytes, (uint64_t)u->burst.result[h]);
	if (count > 1)
		apus_counter_add(&u->q.counters.tx_segmented, (uint64_t)count);
	return count;
}

/* Remembers what the kernel would not cut up. */
static void learn_refusal(struct apus_dp_udp *u, int error, uint32_t piece_bytes)
{
	apus_counter_add(&u->q.counters.segment_refusals, 1);
	if (error == EIO || error == EOPNOTSUPP || error == ENOPROTOOPT)
		u->segment_max_bytes = 0;
	else if (piece_bytes <= u->segment_max_bytes)
		u->segment_max_bytes = piece_bytes - 1;
}

static bool is_segment_refusal(int error)
{
	return error == EIO || error == EINVAL || error == EMSGSIZE || error == EOPNOTSUPP ||
	       error == ENOPROTOOPT;
}

/* Sends one datagram from the queue's own socket. */
static ssize_t send_message(struct apus_dp_udp *u, const struct apus_dp_tx *tx)
{
	union apus_dp_sockaddr to;
	socklen_t to_bytes = apus_dp_udp_sockaddr(&tx->to, 0, &to);
	struct msghdr message = {.msg_name = &to,
				 .msg_namelen = to_bytes,
				 .msg_iov = (struct iovec *)(uintptr_t)tx->iov,
				 .msg_iovlen = tx->iov_count};
	union {
		struct cmsghdr align;
		uint8_t bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
	} control;

	if (tx->iov_count == 1 && tx->interface_idx <= 0)
		return apus_dp_sys_sendto(u->socket[0].fd, tx->iov[0].iov_base, tx->iov[0].iov_len,
					  MSG_DONTWAIT, &to.any, to_bytes);
	memset(&control, 0, sizeof(control));
	message.msg_control = control.bytes;
	choose_interface(u, tx, &message);
	return apus_dp_sys_sendmsg(u->socket[0].fd, &message, MSG_DONTWAIT);
}

/* Sends one datagram without what planning and sendmmsg cost around it: a quarter of a microsecond, which
 * every sample that leaves alone would pay. Returns 1 if it went, else 0. */
static int send_datagram(struct apus_dp_udp *u, const struct apus_dp_tx *tx)
{
	ssize_t bytes;

	if (tx->interface_idx > 0 || !apus_dp_udp_direct_send(u, tx, &bytes))
		bytes = send_message(u, tx);
	apus_counter_add(&u->q.counters.syscalls, 1);
	if (bytes < 0)
		return 0;
	apus_counter_add(&u->q.counters.tx, 1);
	apus_counter_add(&u->q.counters.tx_bytes, (uint64_t)bytes);
	return 1;
}

/* Sends the datagrams of a refused run one by one; this happens once a size. The run's iovecs
 * are in tx still, so the burst itself stays intact. Returns how many went. */
static int send_singly(struct apus_dp_udp *u, const struct apus_dp_tx *tx, int h)
{
	const struct apus_dp_udp_burst *b = &u->burst;
	int sent = 0;

	for (int i = b->first[h]; i < b->first[h] + b->count[h]; i++)
		sent += send_datagram(u, &tx[i]);
	return sent;
}

static int conclude(struct apus_dp_udp *u, const struct apus_dp_tx *tx, int h)
{
	int result = u->burst.result[h];

	if (result >= 0)
		return settle(u, h);
	if (u->burst.count[h] > 1 && is_segment_refusal(-result)) {
		learn_refusal(u, -result, total_bytes(&tx[u->burst.first[h]]));
		return send_singly(u, tx, h);
	}
	return 0;
}

/* A full buffer refuses all that follows too: asking again would be waiting. */
static bool is_full(int result)
{
	return result == -EAGAIN || result == -ENOBUFS || result == -ENOMEM;
}

static int send_chunk(struct apus_dp_udp *u, const struct apus_dp_tx *tx, int n)
{
	int done = 0, sent = 0;
	bool full = false;

	plan(u, tx, n);
	while (done < u->burst.header_count && !full) {
		int end = send_headers(u, done);

		for (; done < end; done++) {
			sent += conclude(u, tx, done);
			full = full || is_full(u->burst.result[done]);
		}
	}
	return sent;
}

int apus_dp_udp_tx(struct apus_dp_queue *q, const struct apus_dp_tx *tx, int n)
{
	struct apus_dp_udp *u = apus_dp_udp_of(q);
	int sent = 0;

	if (n == 1) {
		sent = sendable(u, tx) ? send_datagram(u, tx) : 0;
		if (sent == 0)
			apus_counter_add(&q->counters.tx_dropped, 1);
		return sent;
	}
	for (int at = 0; at < n; at += APUS_DP_BURST_MAX) {
		int chunk = n - at < APUS_DP_BURST_MAX ? n - at : APUS_DP_BURST_MAX;

		sent += send_chunk(u, &tx[at], chunk);
	}
	if (sent < n)
		apus_counter_add(&q->counters.tx_dropped, (uint64_t)(n - sent));
	return sent;
}
