/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transports: a queue delivers bursts of datagrams in buffers that can be held, and accepts bursts
 * of gathers. That is all the rest of the data plane knows about a network.
 *
 * Invariants
 * - A received buffer belongs to the caller until it is released; the queue never touches it
 *   meanwhile.
 *   Holding all of them stops reception (the kernel's socket buffer takes what follows), nothing
 *   else.
 * - What apus_dp_queue_tx() was given has been copied or sent when it returns. It never waits.
 * - Nothing is allocated after open; join and leave create and close sockets but no memory of ours.
 *
 * Concurrency: all calls on one queue are serialised by the caller, in practice by the turn word of
 * the worker that owns it, whose acquire and release order them; they may come from different
 * threads. The first thread that receives becomes the *issuer* of an io_uring queue, for good: let
 * it be the worker's own. Calls of other threads work too, through plain socket calls. Only
 * counters may be read at any time by anybody.
 *
 * A queue is an operations table plus what the caller may read. Another kind of queue (a DPDK pair,
 * a fake one in a test) embeds struct apus_dp_queue as its first member and fills in the table.
 */
#ifndef APUS_DATAPLANE_IO_TRANSPORT_H
#define APUS_DATAPLANE_IO_TRANSPORT_H

#include "base/atomics.h"
#include "base/guid.h"
#include "dataplane/io/netif.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

/** Most multicast groups one queue listens to at once. */
#define APUS_DP_GROUP_MAX 8
/** Most gather elements of one datagram. */
#define APUS_DP_IOV_MAX 4
/** Largest UDP payload over IPv4: 65535 less the IP and UDP headers. IPv6 would take 20 bytes more. */
#define APUS_DP_DATAGRAM_MAX_BYTES 65507
/** Longest burst handled by one system call; longer ones are split. */
#define APUS_DP_BURST_MAX 64

/** A transport address. Compare with apus_dp_addr_equal(): there is no padding to ignore. */
struct apus_dp_addr {
	uint16_t family; /* AF_INET or AF_INET6; 0 = none */
	uint16_t port;   /* host order */
	uint8_t ip[16];  /* as in a locator: IPv4 in bytes 12…15, the others 0 */
};

static inline bool apus_dp_addr_equal(const struct apus_dp_addr *a, const struct apus_dp_addr *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/** The address of IPv4 `a.b.c.d:port`. */
static inline struct apus_dp_addr apus_dp_addr_v4(const uint8_t ipv4[4], uint16_t port)
{
	struct apus_dp_addr addr = {.family = AF_INET, .port = port};

	memcpy(addr.ip + 12, ipv4, 4);
	return addr;
}

/** The address of an interface, port 0. */
static inline struct apus_dp_addr apus_dp_netif_addr(const struct apus_dp_netif *interface)
{
	struct apus_dp_addr addr = {.family = AF_INET6};

	if (interface->family != AF_INET6)
		return apus_dp_addr_v4(interface->ipv4, 0);
	memcpy(addr.ip, interface->ipv6, sizeof(addr.ip));
	return addr;
}

/** True for 224.0.0.0/4 and ff00::/8. */
static inline bool apus_dp_addr_is_multicast(const struct apus_dp_addr *addr)
{
	return addr->family == AF_INET ? (addr->ip[12] & 0xf0) == 0xe0
				       : addr->family == AF_INET6 && addr->ip[0] == 0xff;
}

static inline struct apus_locator apus_dp_addr_to_locator(const struct apus_dp_addr *addr)
{
	struct apus_locator locator = {.kind = addr->family == AF_INET6 ? APUS_LOCATOR_UDPV6
									: APUS_LOCATOR_UDPV4,
				       .port = addr->port};

	memcpy(locator.address, addr->ip, sizeof(locator.address));
	return locator;
}

/** Converts a locator; false (output untouched) unless it is of UDP with a port of 1…65535. Of UDPv4 the
 *  bytes 0…11, which should be zero, are ignored. */
static inline bool apus_dp_addr_from_locator(const struct apus_locator *locator,
					     struct apus_dp_addr *addr_out)
{
	if (locator->port < 1 || locator->port > 65535)
		return false;
	if (locator->kind == APUS_LOCATOR_UDPV4) {
		*addr_out = apus_dp_addr_v4(locator->address + 12, (uint16_t)locator->port);
		return true;
	}
	if (locator->kind != APUS_LOCATOR_UDPV6)
		return false;
	addr_out->family = AF_INET6;
	addr_out->port = (uint16_t)locator->port;
	memcpy(addr_out->ip, locator->address, sizeof(addr_out->ip));
	return true;
}

/** One received datagram. */
struct apus_dp_rx {
	const uint8_t *bytes; /* the UDP payload, valid until released; of any alignment */
	uint32_t length;      /* bytes received; 0 is possible */
	uint32_t token;       /* the queue's name for the buffer; keep it for the release */
	uint8_t socket_idx;   /* 0: unicast; 1…: a group */
	bool truncated;       /* the datagram was longer than the buffer: do not use */
	struct apus_dp_addr from;
};

/** One datagram to send: a gather of up to APUS_DP_IOV_MAX parts, APUS_DP_DATAGRAM_MAX_BYTES in
 *  all. */
struct apus_dp_tx {
	struct apus_dp_addr to;
	int16_t interface_idx; /* multicast: index in config.interfaces, -1: the first */
	uint8_t iov_count;     /* 1…APUS_DP_IOV_MAX */
	struct iovec iov[APUS_DP_IOV_MAX];
};

/** A multicast group: the address joined, on each configured interface, and the port bound. */
struct apus_dp_group {
	struct apus_dp_addr group;
};

enum apus_dp_queue_kind {
	APUS_DP_QUEUE_AUTO = 0,   /* io_uring where permitted, else sockets, with the reason kept */
	APUS_DP_QUEUE_URING = 1,  /* io_uring or failure */
	APUS_DP_QUEUE_SOCKET = 2, /* recvmmsg and sendmmsg */
	APUS_DP_QUEUE_OTHER = 3,  /* not made by apus_dp_queue_open() */
	APUS_DP_QUEUE_DPDK = 4,   /* of a port: plugin.h; not made by apus_dp_queue_open() either */
	APUS_DP_QUEUE_WORKER = 5, /* of a worker process: apus_dp_relay_queue_open() */
};

/** How to open a queue. Start from apus_dp_queue_config_default(). */
struct apus_dp_queue_config {
	enum apus_dp_queue_kind kind;
	struct apus_dp_netif interfaces[APUS_DP_NETIF_MAX];
	uint32_t interface_count; /* 1…; all loopback: the unicast socket binds to 127.0.0.1 or ::1.
				     The first one's family is that of all sockets */
	bool bind_any; /* bind the unicast socket to every local address even then: there may be more later */
	uint16_t unicast_port; /* exact, or 0 = any free one */
	bool adopt_fd;         /* take over `unicast_fd`, already bound, instead; on success only */
	int unicast_fd;
	struct apus_dp_group groups[APUS_DP_GROUP_MAX];
	uint32_t group_count;
	uint32_t rx_buffer_count; /* 1…16384, rounded up to a power of two; default 128 */
	uint32_t rx_buffer_bytes; /* payload room of each, 64…65535; default 65535 */
	uint32_t sndbuf_bytes;    /* SO_SNDBUF; 0 = the kernel's default */
	uint32_t rcvbuf_bytes;    /* SO_RCVBUF of each socket; 0 = the kernel's default */
	uint8_t multicast_ttl;    /* default 1 */
	bool multicast_loop;      /* own host hears it too; default true */
	/* UDP_SEGMENT for runs of equal datagrams; default true. Switch it off where packets are
	 * captured or dropped at an interface of this host: there a whole run is still one
	 * packet. */
	bool segment;
	/* Sockets kind: idle group sockets are looked at every so many receive calls (1…255),
	 * because each look is a system call; default 8. At each call once apus_dp_queue_fd()
	 * has been used. */
	uint8_t group_poll_interval;
	/* io_uring kind: unicast is received by plain calls until so many receive calls on balance
	 * (0…255) have found a burst, then through the ring until as many have not; default 64. A
	 * single datagram is cheaper by a plain call, a burst through the ring. 0 = always the
	 * ring. */
	uint8_t ring_after;
	/* Buffers are touched when they are used, not now: saves memory where a datagram more may take
	 * a microsecond. Default false. */
	bool lazy_memory;
};

/** What happened on a queue. Written under the turn, read by anybody. */
struct apus_dp_queue_counters {
	struct apus_counter rx; /* datagrams delivered, truncated ones included */
	struct apus_counter rx_bytes;
	struct apus_counter rx_truncated;
	struct apus_counter rx_starved; /* times reception stopped because all buffers were held */
	struct apus_counter rx_errors;  /* unexpected errors of the kernel on receive */
	struct apus_counter rx_placed;  /* datagrams whose payload went to where it was expected */
	struct apus_counter tx;         /* datagrams accepted by the kernel */
	struct apus_counter tx_bytes;
	struct apus_counter
		tx_dropped; /* datagrams it refused (full buffer, no route, malformed) */
	struct apus_counter
		tx_segmented; /* datagrams of `tx` that left as part of a UDP_SEGMENT run */
	struct apus_counter segment_refusals; /* times the kernel refused UDP_SEGMENT */
	struct apus_counter ring_switches; /* io_uring: times unicast moved to or from the ring */
	struct apus_counter
		foreign_calls;        /* io_uring: receive calls by other threads than the issuer */
	struct apus_counter syscalls; /* made by receive and send */
	struct apus_counter reattached; /* of a worker process: times a successor was found */
};

struct apus_dp_queue;

/** The operations of a kind of queue; the contracts are those of the functions below. */
struct apus_dp_queue_ops {
	int (*rx)(struct apus_dp_queue *q, int max, struct apus_dp_rx *out);
	void (*release)(struct apus_dp_queue *q, const struct apus_dp_rx *rx, int n);
	int (*tx)(struct apus_dp_queue *q, const struct apus_dp_tx *tx, int n);
	int (*join)(struct apus_dp_queue *q, const struct apus_dp_group *group);
	int (*leave)(struct apus_dp_queue *q, const struct apus_dp_group *group);
	int (*fd)(struct apus_dp_queue *q);
	/* NULL: the kind knows no interfaces. */
	void (*set_interfaces)(struct apus_dp_queue *q, const struct apus_dp_netif *interfaces,
			       uint32_t count);
	void (*close)(struct apus_dp_queue *q);
};

/**
 * Where the payload of the next datagram probably belongs, so that the kernel's copy is the only one. The caller fills
 * in the first three before a receive; with the base NULL nothing is expected. A queue may put the bytes
 * head_bytes … head_bytes + placed_bytes - 1 of the first datagram of the burst (`buffer`) there instead of into its
 * buffer, which then has a gap of so many bytes; where what is expected takes it all, nothing else of the memory at
 * base is touched. A kind that knows nothing of it leaves `buffer` NULL.
 */
struct apus_dp_rx_place {
	uint8_t *base;
	uint32_t room_bytes; /* at base */
	uint32_t head_bytes; /* in front of the payload; less than the receive buffers have */
	uint8_t *
		buffer; /* the datagram's in the queue: its struct apus_dp_rx has the same; NULL: none */
	uint32_t placed_bytes;
};

/** The part of a queue every kind has. All but place and counters is constant after open. */
struct apus_dp_queue {
	const struct apus_dp_queue_ops *ops;
	enum apus_dp_queue_kind kind;
	uint16_t unicast_port; /* host order */
	uint32_t mtu_bytes;    /* largest datagram it sends: APUS_DP_DATAGRAM_MAX_BYTES over UDP */
	char fallback_reason[96];      /* why AUTO did not become io_uring; "" otherwise */
	struct apus_dp_rx_place place; /* under the turn */
	uint32_t place_min_bytes;      /* smaller payloads are not worth it; 0: it places nothing */
	struct apus_dp_queue_counters counters;
};

/** Fills `*config` with the defaults: kind AUTO, no interface, ephemeral port, no group. */
void apus_dp_queue_config_default(struct apus_dp_queue_config *config);

/**
 * Opens a queue over UDP.
 *
 * The unicast socket binds to every local address, because a peer on this host may well send to
 * 127.0.0.1, or to 127.0.0.1 only if all interfaces are loopback. Group sockets share their
 * address.
 * why: gets a sentence on failure; may be NULL.
 * Returns 0, APUS_EINVAL (a field out of range, a group that is no multicast address),
 * APUS_EADDRINUSE, APUS_ENODEV (a group cannot be joined on an interface), APUS_ENOTSUP (kind URING
 * refused by kernel or build), APUS_ENOMEM, APUS_EPERM, APUS_EIO. On failure nothing is left behind
 * and `*queue_out` is untouched. Any thread. Allocates, and touches the first page of every buffer
 * unless the memory is to be lazy.
 */
int apus_dp_queue_open(const struct apus_dp_queue_config *config, char *why, size_t why_bytes,
		       struct apus_dp_queue **queue_out);

/**
 * Receives up to `max` datagrams (at least 1) into `out`; returns how many, 0 if there is none now.
 * Only 0 means that it is worth sleeping: a smaller burst than asked for may be followed by more.
 * Does not block. Order is kept per sender and socket while one thread receives. (See
 * group_poll_interval.)
 */
static inline int apus_dp_queue_rx(struct apus_dp_queue *q, int max, struct apus_dp_rx *out)
{
	return q->ops->rx(q, max, out);
}

/** Puts what was placed elsewhere into the gap of its datagram. */
static inline void apus_dp_queue_unplace(struct apus_dp_queue *q)
{
	struct apus_dp_rx_place *p = &q->place;

	if (p->buffer)
		memcpy(p->buffer + p->head_bytes, p->base, p->placed_bytes);
	p->buffer = NULL;
}

/** Gives back `n` buffers, in any order; only `token` is read. Each must be held and is released
 *  once. */
static inline void apus_dp_queue_release(struct apus_dp_queue *q, const struct apus_dp_rx *rx,
					 int n)
{
	q->ops->release(q, rx, n);
}

/**
 * Sends `n` datagrams, in order. Runs of one size to one address leave in one piece where the
 * kernel segments (so keep them adjacent). Returns how many the kernel accepted; the others are
 * dropped and counted, and are not necessarily the last ones. Does not block.
 */
static inline int apus_dp_queue_tx(struct apus_dp_queue *q, const struct apus_dp_tx *tx, int n)
{
	return q->ops->tx(q, tx, n);
}

/** Starts listening to a group. Returns 0, APUS_EEXIST, APUS_EINVAL, APUS_ELIMIT
 *  (APUS_DP_GROUP_MAX), APUS_ENODEV, APUS_EADDRINUSE, APUS_EIO. Under the turn; makes system
 *  calls. */
static inline int apus_dp_queue_join(struct apus_dp_queue *q, const struct apus_dp_group *group)
{
	return q->ops->join(q, group);
}

/** Stops listening to a group; datagrams already taken from the kernel may still be delivered.
 *  Returns 0 or APUS_ENOENT. Under the turn; makes system calls. */
static inline int apus_dp_queue_leave(struct apus_dp_queue *q, const struct apus_dp_group *group)
{
	return q->ops->leave(q, group);
}

/** Replaces the interfaces (1…APUS_DP_NETIF_MAX): groups are joined on links that are new and left on those
 *  that are gone; multicast leaves through the first. What the kernel refuses is tried again at the next
 *  change. Under the turn; makes system calls. */
static inline void apus_dp_queue_set_interfaces(struct apus_dp_queue *q,
						const struct apus_dp_netif *interfaces,
						uint32_t count)
{
	if (q->ops->set_interfaces)
		q->ops->set_interfaces(q, interfaces, count);
}

/**
 * Returns a descriptor that polls readable while datagrams wait in the kernel; for sleeping after
 * apus_dp_queue_rx() returned 0. The queue's own: do not close or read it. The first call makes the
 * kernel track readiness, which costs each datagram a little: pollers that never sleep do not call
 * it. Under the turn. Returns APUS_EIO if the kernel refuses.
 */
static inline int apus_dp_queue_fd(struct apus_dp_queue *q)
{
	return q->ops->fd(q);
}

/** Closes a queue; held buffers become invalid. No other call may be under way. The port is free
 *  on return; where another thread than the issuer closes, that may take the kernel
 *  milliseconds, and the call waits for it, 0.3 s at most. NULL is allowed. */
static inline void apus_dp_queue_close(struct apus_dp_queue *q)
{
	if (q)
		q->ops->close(q);
}

/** "io_uring", "sockets", …: static storage. */
const char *apus_dp_queue_kind_name(enum apus_dp_queue_kind kind);

#endif
