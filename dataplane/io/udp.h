/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two kinds of UDP queue share: the sockets themselves, the burst sender, and receiving
 * into a pool of buffers by plain calls. Internal to dataplane/io.
 *
 *   udp.c     opens, joins, leaves, closes; chooses the kind
 *   send.c    turns a burst of gathers into message headers and UDP_SEGMENT runs, and sends them
 *   direct.c  sockets of their own for destinations on this host
 *   socket.c  the sockets kind, and receiving by recvmmsg for both
 *   uring.c   the io_uring kind: receives through a ring, falls back on the above for other threads
 *
 * Everything is under the turn (see transport.h); nothing here is atomic but the counters.
 */
#ifndef APUS_DATAPLANE_IO_UDP_H
#define APUS_DATAPLANE_IO_UDP_H

#include "dataplane/io/transport.h"

#include <netinet/in.h>

/* Tokens with this bit name a buffer of the pool below, others one of the io_uring buffer ring. */
#define APUS_DP_UDP_POOL_TOKEN UINT32_C(0x80000000)

/* Socket 0 is unicast. Twice the groups, because a group left may linger in the kernel for a
 * turn. */
#define APUS_DP_UDP_SOCKET_MAX (1 + 2 * APUS_DP_GROUP_MAX)

/* Kernel limits of one UDP_SEGMENT send: 64 pieces, and one IP datagram before they are cut. */
#define APUS_DP_SEGMENT_MAX       64
#define APUS_DP_SEGMENT_RUN_BYTES 65000

/* Smaller fragments come in bursts of many a call, and their copy is no great part of what they cost. */
#define APUS_DP_UDP_PLACE_MIN_BYTES 16384

/* Destinations with a socket of their own, by port; see direct.c. */
#define APUS_DP_UDP_DIRECT_MAX 4

struct apus_dp_uring;

/* A socket address of either family; the kernel is told the size of the one in use. */
union apus_dp_sockaddr {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

struct apus_dp_udp_socket {
	int fd; /* -1: the place is free */
	struct apus_dp_group group;
	uint8_t guess; /* sockets kind: headers to offer at the next call, by what came last */
	bool hot;      /* sockets kind: had something at the last look */
	bool armed;    /* io_uring: a multishot receive is in the kernel */
	bool leaving;  /* io_uring: left, and waiting for the kernel to end that receive */
};

/* Buffers for recvmmsg, and the arrays it is called with. */
struct apus_dp_udp_pool {
	uint8_t *memory;
	size_t stride_bytes;
	uint32_t count;
	uint32_t free_count;
	uint32_t *free_idx; /* a stack: the buffer released last is still in the cache */
	bool starved;       /* already counted */
};

/* One burst being sent; see send.c. Header h stands for count[h] datagrams from first[h] on. */
struct apus_dp_udp_burst {
	struct mmsghdr header[APUS_DP_BURST_MAX];
	union apus_dp_sockaddr to[APUS_DP_BURST_MAX];
	struct iovec iov[APUS_DP_BURST_MAX * APUS_DP_IOV_MAX];
	union {
		struct cmsghdr align;
		uint8_t bytes[CMSG_SPACE(sizeof(struct in6_pktinfo)) +
			      CMSG_SPACE(sizeof(uint16_t))];
	} control[APUS_DP_BURST_MAX];
	uint16_t first[APUS_DP_BURST_MAX];
	uint16_t count[APUS_DP_BURST_MAX];
	int result[APUS_DP_BURST_MAX]; /* bytes sent, or a negative errno */
	int header_count;
	int iov_count;
};

struct apus_dp_udp_direct {
	int fd; /* -1: not made yet */
	bool connected;
	uint8_t count; /* single datagrams to `to`, less those to others of this place */
	struct apus_dp_addr to;
};

struct apus_dp_udp {
	struct apus_dp_queue q; /* first: the queue is this struct */
	struct apus_dp_queue_config config;
	uint16_t family; /* of all its sockets: AF_INET or AF_INET6 */
	struct apus_dp_udp_socket socket[APUS_DP_UDP_SOCKET_MAX];
	uint32_t socket_count; /* highest place in use, plus one */
	int epoll_fd;
	bool epoll_live;        /* somebody sleeps on epoll_fd */
	uint8_t calls_to_sweep; /* sockets kind: receive calls until idle groups are looked at */
	struct apus_dp_udp_direct direct[APUS_DP_UDP_DIRECT_MAX];
	uint32_t segment_max_bytes; /* longest piece the kernel segments; 0: none */

	struct apus_dp_udp_pool pool;
	struct mmsghdr rx_header[APUS_DP_BURST_MAX];
	struct iovec rx_iov[APUS_DP_BURST_MAX];
	union apus_dp_sockaddr rx_from[APUS_DP_BURST_MAX];

	struct apus_dp_udp_burst burst;
	struct apus_dp_uring *uring; /* NULL for the sockets kind */
};

static inline struct apus_dp_udp *apus_dp_udp_of(struct apus_dp_queue *q)
{
	return (struct apus_dp_udp *)(void *)q;
}

/** Converts what the kernel reports about a sender. */
static inline void apus_dp_udp_addr_of(const union apus_dp_sockaddr *from,
				       struct apus_dp_addr *addr_out)
{
	memset(addr_out, 0, sizeof(*addr_out));
	addr_out->family = from->any.sa_family;
	if (addr_out->family == AF_INET6) {
		addr_out->port = ntohs(from->v6.sin6_port);
		memcpy(addr_out->ip, &from->v6.sin6_addr, 16);
	} else {
		addr_out->port = ntohs(from->v4.sin_port);
		memcpy(addr_out->ip + 12, &from->v4.sin_addr, 4);
	}
}

/** The other way; returns the size for the kernel. scope: link of a link-local IPv6 address, else 0. */
static inline socklen_t apus_dp_udp_sockaddr(const struct apus_dp_addr *addr, uint32_t scope,
					     union apus_dp_sockaddr *out)
{
	if (addr->family == AF_INET6) {
		out->v6 = (struct sockaddr_in6){.sin6_family = AF_INET6,
						.sin6_port = htons(addr->port),
						.sin6_scope_id = scope};
		memcpy(&out->v6.sin6_addr, addr->ip, 16);
		return sizeof(out->v6);
	}
	out->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(addr->port)};
	memcpy(&out->v4.sin_addr, addr->ip + 12, 4);
	return sizeof(out->v4);
}

/** A non-blocking UDP socket of a family; of IPv6 alone, so that IPv4 has its ports for itself. -1: errno. */
int apus_dp_udp_socket_open(uint16_t family);
/** Binds to every local address, or to the loopback address. 0, or -1 with errno. */
int apus_dp_udp_bind_unicast(int fd, uint16_t family, bool loopback, uint16_t port);

/** Asks for a send buffer of so many bytes; 0: the kernel's default. */
void apus_dp_udp_set_sndbuf(int fd, uint32_t bytes);
/** Sends a datagram through a socket of its destination's own. False: it has none, and nothing was
 *  sent; else *sent_out is what send() returned, with errno. */
bool apus_dp_udp_direct_send(struct apus_dp_udp *u, const struct apus_dp_tx *tx, ssize_t *sent_out);
/** Nobody has one. */
void apus_dp_udp_direct_init(struct apus_dp_udp *u);
/** Closes them all. */
void apus_dp_udp_direct_fini(struct apus_dp_udp *u);

/** Maps an errno (positive) of a socket call to a result code. */
int apus_dp_udp_result(int error);

/** Maps `bytes` of zeroed memory, or returns NULL. Not malloc: page-aligned, and given back
 *  whole. */
void *apus_dp_udp_map(size_t bytes);

/** Reserves the buffers a queue is configured to have, first page of each touched unless its memory is lazy. 0 or
 *  APUS_ENOMEM. */
int apus_dp_udp_pool_init(const struct apus_dp_queue_config *config,
			  struct apus_dp_udp_pool *pool_out);
/** Gives the memory back; a zeroed pool is allowed. */
void apus_dp_udp_pool_fini(struct apus_dp_udp_pool *pool);
/** Gives one buffer back by its token. */
void apus_dp_udp_pool_release(struct apus_dp_udp_pool *pool, uint32_t token);

/** Receives from one socket by recvmmsg, into the pool: one system call. 0…max datagrams. */
int apus_dp_udp_receive(struct apus_dp_udp *u, uint32_t socket_idx, int max,
			struct apus_dp_rx *out);
/** Receives from all sockets by recvmmsg, into the pool. See apus_dp_queue_rx(). */
int apus_dp_udp_rx(struct apus_dp_udp *u, int max, struct apus_dp_rx *out);

/** Sends a burst on the unicast socket. See apus_dp_queue_tx(). */
int apus_dp_udp_tx(struct apus_dp_queue *q, const struct apus_dp_tx *tx, int n);

/** Group and sleeping operations common to both kinds; contracts as in transport.h. */
int apus_dp_udp_join(struct apus_dp_queue *q, const struct apus_dp_group *group);
int apus_dp_udp_fd(struct apus_dp_queue *q);
void apus_dp_udp_set_interfaces(struct apus_dp_queue *q, const struct apus_dp_netif *interfaces,
				uint32_t count);

/** Takes the group out of its interfaces and of epoll, but leaves the socket open. Returns its
 *  place, or APUS_ENOENT. */
int apus_dp_udp_drop_group(struct apus_dp_udp *u, const struct apus_dp_group *group);
/** Closes the socket in a place and frees the place. */
void apus_dp_udp_close_socket(struct apus_dp_udp *u, uint32_t socket_idx);
/** Closes and frees everything but `u->uring`, which must be gone. */
void apus_dp_udp_destroy(struct apus_dp_udp *u);

/** Makes `u` a sockets queue. 0 or APUS_ENOMEM. */
int apus_dp_socket_attach(struct apus_dp_udp *u);
/** Makes `u` an io_uring queue. 0, APUS_ENOTSUP or APUS_ENOMEM; on failure `u` is as before and
 *  `why` (not NULL) says what was refused. Also exists, refusing, in builds without liburing. */
int apus_dp_uring_attach(struct apus_dp_udp *u, char *why, size_t why_bytes);

#endif
