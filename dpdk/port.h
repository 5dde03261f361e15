/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A port and the queues on it. Internal to dpdk/.
 *
 *   port.c    opens and closes ports, one object a process and device
 *   poll.c    the claim: receives, steers to queues, sends what they staged
 *   queue.c   the operations of struct apus_dp_queue
 *
 * Who owns what
 * - The *claim*, one word taken by compare-exchange and never waited for on the data path, owns the device, the IP
 *   engine, the tables of UDP ports and groups and the port's counters. Whoever polls a queue tries to take it; who
 *   does not get it goes on, for the holder does the work for everybody.
 * - A queue's owner is the holder of its worker's turn.
 * - Between both are three rings a queue: the inbox (datagrams received, claim to owner), the returns (buffers done
 *   with, owner to claim), the outbox (datagrams staged, owner to claim). Each has one producer and one consumer at
 *   a time.
 *
 * Nothing is lost between: who stages a datagram says so in `staged`, and if the claim is taken leaves it at that; the
 * holder looks at `staged` once more after it has given the claim up. Both sides store before they load (seq_cst),
 * so one of them sees the other. Who polls all the time spares itself the fence, because it looks again at once: what is
 * staged in that moment waits for one more poll, of whoever polls next.
 *
 * Buffers: received frames and the port's own come from the device's pool, whose puts and gets are all under the
 * claim. What a queue stages comes from a pool of its place: gets by its owner, puts under the claim. Places and their
 * pools live as long as the port, because what one queue staged may still be read by another queue of this port.
 */
#ifndef APUS_DPDK_PORT_H
#define APUS_DPDK_PORT_H

#include "dpdk/device.h"
#include "dpdk/ring.h"
#include "ip/ip.h"

#include <rte_mbuf.h>

/** Most queues on one port. */
#define APUS_DPDK_PLACES_MAX 130
/** In by_port: kept for a queue that is about to be opened. */
#define APUS_DPDK_RESERVED 255
/** Most memberships in groups on one port. */
#define APUS_DPDK_MEMBERS_MAX 256
/** Datagrams that a queue has staged and that wait for the claim. */
#define APUS_DPDK_OUTBOX 256
/** Frame buffers of what a queue stages. */
#define APUS_DPDK_STAGE_FRAMES 1024
/** Buffers for datagrams that do not fit a frame; of each queue. */
#define APUS_DPDK_LARGE_COUNT 4
/** Datagrams being put together at once. */
#define APUS_DPDK_ASSEMBLIES 64

/** Memory of one datagram that leaves in fragments. */
struct apus_dpdk_large {
	_Atomic uint32_t references; /* 0: free, which only the place's owner changes */
	uint8_t bytes[APUS_DP_DATAGRAM_MAX_BYTES];
};

/** What a received datagram lies in: exactly one is set. */
struct apus_dpdk_hold {
	struct rte_mbuf *frame;
	struct apus_dpdk_large *large;
	int32_t assembly_idx; /* of the IP engine, where neither of the above is set; -1: nothing */
};

/** A datagram on its way to a queue. */
struct apus_dpdk_item {
	const uint8_t *bytes;
	uint32_t length;
	uint8_t socket_idx;
	struct apus_dpdk_hold hold;
	struct apus_dp_addr from;
};

/** A datagram on its way out: in a frame behind headroom, or large. */
struct apus_dpdk_staged {
	struct rte_mbuf *frame;
	struct apus_dpdk_large *large;
	uint32_t length;
	struct apus_dp_addr to;
};

/** What a queue leaves behind for the next in its place. */
struct apus_dpdk_place {
	struct rte_mempool *pool;
	struct apus_dpdk_large *large; /* APUS_DPDK_LARGE_COUNT; NULL: never used */
};

struct apus_dpdk_queue {
	struct apus_dp_queue q;
	struct apus_dp_port *port;
	struct apus_dpdk_place *place;
	uint8_t place_idx;
	bool loop; /* multicast is heard by this process too */

	/* The owner's. */
	uint32_t limit; /* datagrams it may hold, and as many in the inbox */
	uint32_t free_count;
	uint32_t *free_tokens;       /* a stack */
	struct apus_dpdk_hold *held; /* by token */
	uint32_t late_count;         /* released, but the returns were full */
	uint32_t *late_tokens;
	struct apus_dp_addr group[APUS_DP_GROUP_MAX]; /* family 0: free */
	bool starved;
	uint32_t looks, sends;           /* calls; the clock is read every few of them */
	struct apus_mono now;            /* when it was read last */
	uint32_t frame_payload_bytes[2]; /* what fits one frame, IPv4 and IPv6 */

	/* Sleeping; the owner's but for `armed`. -1: nobody ever sleeps. */
	int set_fd, event_fd, timer_fd;
	_Atomic uint32_t armed;  /* A1: somebody sleeps, or is about to, until event_fd is raised */
	_Atomic uint32_t raised; /* A2: event_fd was written to and not read since */
	struct apus_mono timer_due;
	int64_t timer_period_ns;
	uint64_t polls_own,
		polls_seen; /* of the port; by this queue, and by others when last looked at */

	/* Where the holder of the claim puts what is for itself, if it is this queue's owner; else NULL. */
	struct apus_dp_rx *direct;
	int direct_room, direct_count;

	struct apus_dpdk_ring inbox, returns, outbox;
	struct apus_dpdk_item *inbox_items;
	struct rte_mbuf **returned;
	struct apus_dpdk_staged *outbox_items;
	bool woken; /* the claim's: has something new, and may sleep */
};

/** One membership of a queue. */
struct apus_dpdk_member {
	struct apus_dp_addr group;
	uint8_t place_idx, socket_idx;
};

struct apus_dpdk_port_counters {
	struct apus_counter rx_frames, rx_bytes;
	struct apus_counter rx_segmented; /* frames in several buffers, which nobody asked for */
	struct apus_counter rx_overflow;  /* datagrams that a queue had no room for */
	struct apus_counter rx_no_queue;  /* datagrams to UDP ports that nobody has */
	struct apus_counter tx_frames, tx_bytes;
	struct apus_counter tx_full;      /* frames that the device would not take */
	struct apus_counter tx_refused;   /* datagrams without a way: no neighbour, no route */
	struct apus_counter tx_no_buffer; /* frames for which no buffer was left */
	struct apus_counter local;        /* datagrams handed over within this process */
	struct apus_counter wakes;        /* times a sleeper was woken */
	struct apus_counter polls;
};

struct apus_dp_port {
	APUS_CACHE_ALIGNED _Atomic uint32_t claim;  /* C1: 0 free, 1 taken */
	APUS_CACHE_ALIGNED _Atomic uint32_t staged; /* C2: an outbox may have something */
	/* All below under the claim, from when the port is listed until it is closed. */
	APUS_CACHE_ALIGNED struct apus_dpdk_device device;
	struct apus_ip *ip;
	uint32_t queue_count; /* places in use are below it */
	struct apus_dpdk_queue *queue[APUS_DPDK_PLACES_MAX];
	uint32_t member_count;
	struct apus_dpdk_member member[APUS_DPDK_MEMBERS_MAX];
	struct rte_mbuf *tx[APUS_DPDK_BURST]; /* frames gathered for the next burst */
	uint32_t tx_count;
	uint32_t rx_queue;              /* of the device, whose turn it is */
	struct apus_mono now;           /* of the poll under way, or before */
	struct apus_ip_endpoint own[2]; /* our IPv4 and IPv6 address, port 0; family 0: none */
	struct apus_dpdk_port_counters counters;
	_Atomic uint32_t assembly_references[APUS_DPDK_ASSEMBLIES];
	uint8_t by_port[65536]; /* place + 1, 0: nobody, or APUS_DPDK_RESERVED */
	struct apus_dpdk_place place[APUS_DPDK_PLACES_MAX];

	/* Creation time, under the list's lock. */
	struct apus_dp_port *next;
	uint32_t references;
	uint32_t hold_left; /* datagrams that queues still to be opened may hold */
	struct apus_dpdk_settings settings;
};

/** poll.c: takes the claim, waiting for it; creation time only. */
void apus_dpdk_port_take(struct apus_dp_port *port);
/** Gives it up. What was staged meanwhile is sent. */
void apus_dpdk_port_give(struct apus_dp_port *port);
/** One poll for `q` (its owner calls): receives a burst, sends what is staged. Up to `max` datagrams for q itself go
 *  straight into `out`; returns how many. 0 also if another thread polls. */
int apus_dpdk_port_poll(struct apus_dpdk_queue *q, struct apus_mono now, int max,
			struct apus_dp_rx *out);
/** Under the claim, before the engine's first tick: sends its probes and hands in what arrives, for up to so long or until
 *  somebody has claimed our address. */
void apus_dpdk_port_probe(struct apus_dp_port *port, int64_t ns);
/** Owner of q, to send without a detour: takes the claim if it is free and q has nothing staged. */
bool apus_dpdk_port_begin_send(struct apus_dpdk_queue *q, struct apus_mono now);
/** Between begin and end: sends a datagram of q; what it lies in is the device's afterwards. */
void apus_dpdk_port_send(struct apus_dpdk_queue *q, const struct apus_dpdk_staged *s);
/** Gives the claim up; all has been handed to the device. */
void apus_dpdk_port_end_send(struct apus_dpdk_queue *q);
/** Sends what is staged, unless another thread has the claim, which then does. */
void apus_dpdk_port_flush(struct apus_dp_port *port);
/** Under the claim: takes back all buffers that a queue has in its rings and its hands. */
void apus_dpdk_port_reclaim(struct apus_dpdk_queue *q);
/** Owner: one datagram out of an item. */
void apus_dpdk_queue_accept(struct apus_dpdk_queue *q, const struct apus_dpdk_item *item,
			    struct apus_dp_rx *out);
/** Lets go of what a datagram lies in; of a frame under the claim only. */
void apus_dpdk_hold_drop(struct apus_dp_port *port, const struct apus_dpdk_hold *hold);

/** port.c; see plugin.h. */
int apus_dpdk_port_open(const struct apus_dp_port_config *config, char *why, size_t why_bytes,
			struct apus_dp_port **port_out);
void apus_dpdk_port_close(struct apus_dp_port *port);
int apus_dpdk_port_netif(struct apus_dp_port *port, uint16_t family,
			 struct apus_dp_netif *netif_out);
int apus_dpdk_port_reserve(struct apus_dp_port *port, const uint16_t *udp_ports, uint32_t count);
void apus_dpdk_port_unreserve(struct apus_dp_port *port, const uint16_t *udp_ports, uint32_t count);
bool apus_dpdk_port_stat(struct apus_dp_port *port, uint32_t idx,
			 struct apus_dp_port_stat *stat_out);
bool apus_dpdk_port_warning(struct apus_dp_port *port, char *text_out, size_t text_bytes);
/** queue.c; see plugin.h. */
int apus_dpdk_queue_open(struct apus_dp_port *port, const struct apus_dp_queue_config *config,
			 char *why, size_t why_bytes, struct apus_dp_queue **queue_out);

/** The engine's and the data plane's notion of an address are the same bytes. */
static inline struct apus_ip_endpoint apus_dpdk_endpoint(const struct apus_dp_addr *a)
{
	struct apus_ip_endpoint e = {.family = a->family, .port = a->port};

	memcpy(e.ip, a->ip, sizeof(e.ip));
	return e;
}

static inline struct apus_dp_addr apus_dpdk_addr(const struct apus_ip_endpoint *e)
{
	struct apus_dp_addr a = {.family = e->family, .port = e->port};

	memcpy(a.ip, e->ip, sizeof(a.ip));
	return a;
}

#endif
