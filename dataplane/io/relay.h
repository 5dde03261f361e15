/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker process: one process of a host owns the network's queues, and applications exchange UDP datagrams with it
 * through rings of packets in shared memory (docs/decisions/0021). Three parts:
 *
 *   relay.h         what both sides say to each other, over a Unix socket of whole messages
 *   relay_queue.c   an application's queue: one more kind of struct apus_dp_queue
 *   relay_host.c    the process itself: who is served, and its threads (relay_serve.c)
 *
 * A connection is a queue, and the other way round: it is what the ring, the port and the groups live and die with.
 *
 *   application                      worker process
 *   LOOK(family, i)             ->
 *                               <-   LINK(how many, the i-th interface)
 *   OPEN(port, groups, …)       ->
 *                               <-   OPENED(port, …) with the memory; or why not, and the end
 *   JOIN, LEAVE(group)          ->
 *                               <-   DONE(result)
 *   BELL                       <->   BELL: whoever is asleep has something to take
 *   BYE, and the end            ->
 *
 * Datagrams carry the address they go to or come from. Where they come *from* is not the application's to say: the
 * worker process sends them from the port of that queue, which nobody else has.
 */
#ifndef APUS_DATAPLANE_IO_RELAY_H
#define APUS_DATAPLANE_IO_RELAY_H

#include "dataplane/io/transport.h"
#include "shm/link.h"
#include "shm/packets.h"

#include <apus/core.h>

/** First word and version of every message; another version is refused. */
#define APUS_DP_RELAY_MAGIC   UINT32_C(0x72757041)
#define APUS_DP_RELAY_VERSION 1

/** Bytes of each of the two rings of a queue. */
#define APUS_DP_RELAY_RING_MIN (UINT32_C(1) << 18)
#define APUS_DP_RELAY_RING_MAX (UINT32_C(1) << 26)

/** Lowest port an application may have: the worker process may be privileged, its applications are not. */
#define APUS_DP_RELAY_PORT_MIN 1024

enum apus_dp_relay_kind {
	APUS_DP_RELAY_LOOK = 1,
	APUS_DP_RELAY_LINK = 2,
	APUS_DP_RELAY_OPEN = 3,
	APUS_DP_RELAY_OPENED = 4,
	APUS_DP_RELAY_JOIN = 5,
	APUS_DP_RELAY_LEAVE = 6,
	APUS_DP_RELAY_DONE = 7,
	APUS_DP_RELAY_BELL = 8,
	APUS_DP_RELAY_CHANGED = 9, /* the interfaces are others than before */
	APUS_DP_RELAY_BYE = 10,    /* the connection ends now, and nobody has died */
};

/** Every message begins with it; BELL, CHANGED and BYE are nothing more. */
struct apus_dp_relay_head {
	uint32_t magic;
	uint16_t version;
	uint16_t kind;
};

struct apus_dp_relay_look {
	struct apus_dp_relay_head head;
	uint16_t family;
	uint16_t idx;
};

struct apus_dp_relay_link {
	struct apus_dp_relay_head head;
	uint32_t count; /* 0: there is none of that family, and the rest means nothing */
	uint32_t ifindex;
	uint32_t mtu_bytes;
	uint16_t family;
	uint16_t loopback;
	char name[16];
	uint8_t ip[16]; /* IPv4: in the first four bytes */
};

struct apus_dp_relay_open {
	struct apus_dp_relay_head head;
	uint16_t family;
	uint16_t port; /* 0: any */
	uint8_t ttl;
	uint8_t loop;
	uint8_t segment;
	uint8_t bind_any;
	uint32_t sndbuf_bytes;
	uint32_t rcvbuf_bytes;
	uint32_t ring_bytes; /* wanted; a power of two */
	uint32_t group_count;
	uint32_t interface_count;
	uint32_t ifindex[APUS_DP_NETIF_MAX];
	struct apus_dp_addr groups[APUS_DP_GROUP_MAX];
};

struct apus_dp_relay_opened {
	struct apus_dp_relay_head head;
	int32_t result;      /* 0, or a negative result code and `why` */
	uint32_t ring_bytes; /* granted: of each ring */
	uint32_t mtu_bytes;  /* largest datagram */
	uint32_t port;
	char why[128];
};

struct apus_dp_relay_group {
	struct apus_dp_relay_head head;
	struct apus_dp_addr group;
};

struct apus_dp_relay_done {
	struct apus_dp_relay_head head;
	int32_t result;
};

_Static_assert(sizeof(struct apus_dp_relay_open) <= sizeof(((struct apus_shm_message *)0)->bytes) &&
		       sizeof(struct apus_dp_relay_opened) <=
			       sizeof(((struct apus_shm_message *)0)->bytes),
	       "every message fits");

static inline struct apus_dp_relay_head apus_dp_relay_head(enum apus_dp_relay_kind kind)
{
	return (struct apus_dp_relay_head){APUS_DP_RELAY_MAGIC, APUS_DP_RELAY_VERSION,
					   (uint16_t)kind};
}

/** The kind of a message, or 0 if it is none of this version. */
static inline unsigned apus_dp_relay_kind_of(const struct apus_shm_message *m)
{
	struct apus_dp_relay_head head;

	if (m->length < sizeof(head))
		return 0;
	memcpy(&head, m->bytes, sizeof(head));
	return head.magic == APUS_DP_RELAY_MAGIC && head.version == APUS_DP_RELAY_VERSION
		       ? head.kind
		       : 0;
}

/** Sends a message without descriptors that is a head alone. As apus_shm_send(). */
static inline int apus_dp_relay_say(int fd, enum apus_dp_relay_kind kind)
{
	struct apus_dp_relay_head head = apus_dp_relay_head(kind);

	return apus_shm_send(fd, &head, sizeof(head), NULL, 0);
}

/** Bytes of the memory of a queue: the ring to the application, then that from it. 0: not a size of a ring. */
static inline size_t apus_dp_relay_memory_bytes(uint32_t ring_bytes)
{
	return ring_bytes < APUS_DP_RELAY_RING_MIN || ring_bytes > APUS_DP_RELAY_RING_MAX
		       ? 0
		       : 2 * apus_shm_packets_bytes(ring_bytes);
}

/* A packet's words: the address; its mark: inbound the socket and whether it was cut, outbound the interface + 1. */

static inline void apus_dp_relay_put_addr(struct apus_shm_packet *packet,
					  const struct apus_dp_addr *addr)
{
	packet->word[2] = 0;
	memcpy(packet->word, addr, sizeof(*addr));
}

static inline void apus_dp_relay_get_addr(const struct apus_shm_packet *packet,
					  struct apus_dp_addr *addr_out)
{
	memcpy(addr_out, packet->word, sizeof(*addr_out));
}

_Static_assert(sizeof(struct apus_dp_addr) <= APUS_SHM_PACKET_WORDS * sizeof(uint64_t),
	       "an address fits the words of a packet");

#define APUS_DP_RELAY_TRUNCATED UINT32_C(0x100)

/* --- the application's side ---------------------------------------------------------------------- */

/** Finds or makes the directory where worker processes listen: as apus_shm_directory(), NULL or "": below the default
 *  one. */
int apus_dp_relay_directory(const char *configured, char *path_out, size_t path_bytes);

/**
 * The interfaces of a worker process, chosen from as apus_dp_netif_lookup_family() does. Waits for its answers, for a
 * second. Also returns APUS_ENOENT (no such process), APUS_ETIMEDOUT, APUS_EENCODING (of another version).
 */
int apus_dp_relay_lookup(const char *directory, const char *name, uint16_t family, const char *spec,
			 char *why, size_t why_bytes, size_t max, struct apus_dp_netif *out,
			 size_t *count_out);

/**
 * Opens a queue at a worker process: `config` as for apus_dp_queue_open(), but its kind, adopted descriptors and what
 * is about sockets of this process; rx_buffer_count is of 8 KiB each.
 *
 * Should the process end, the queue looks for its successor by itself, from the calls that receive, and asks for the
 * same port and groups; what is sent meanwhile is dropped and counted. Waits for the answer here, for two seconds.
 * Returns as apus_dp_queue_open(), and as apus_dp_relay_lookup().
 */
int apus_dp_relay_queue_open(const struct apus_dp_queue_config *config, const char *directory,
			     const char *name, char *why, size_t why_bytes,
			     struct apus_dp_queue **queue_out);

/** True if interfaces of the process may have changed since the last call, or it is another one now. Any thread. */
bool apus_dp_relay_queue_changed(struct apus_dp_queue *q);

/* --- the process --------------------------------------------------------------------------------- */

/** What threads do with nothing to do: as enum apus_dp_idle. */
enum apus_dp_relay_idle {
	APUS_DP_RELAY_POLL = 0,
	APUS_DP_RELAY_PAUSE = 1,
	APUS_DP_RELAY_BLOCK = 2,
};

#define APUS_DP_RELAY_THREADS_MAX 64

struct apus_dp_relay_config {
	const char *directory; /* as apus_dp_relay_directory() takes it */
	const char *name;
	struct apus_dp_netif interfaces[APUS_DP_NETIF_MAX]; /* of one family */
	uint32_t interface_count;
	struct apus_dp_queue_config queue; /* what a queue has that applications have no say in */
	uint32_t thread_count;
	int cores[APUS_DP_RELAY_THREADS_MAX]; /* -1: not pinned */
	int priority;                         /* SCHED_FIFO; 0: ordinary */
	enum apus_dp_relay_idle idle;
	uint32_t applications; /* most processes served at once */
	uint32_t queues;       /* most of one process */
	uint32_t ring_bytes;   /* largest ring of a queue */
	uint32_t burst;        /* datagrams of a queue before the next one's turn, 1…64 */
	/* Opens a queue of the network; NULL: apus_dp_queue_open(). */
	int (*open)(void *user, const struct apus_dp_queue_config *config, char *why,
		    size_t why_bytes, struct apus_dp_queue **queue_out);
	void *user;
};

/** What has happened, one row at a time. */
enum apus_dp_relay_event_kind {
	APUS_DP_RELAY_THREAD = 0,   /* a thread runs; text: what it could not have */
	APUS_DP_RELAY_ATTACHED = 1, /* a queue was opened */
	APUS_DP_RELAY_DETACHED = 2, /* a queue has gone; text: why */
	APUS_DP_RELAY_REFUSED = 3,  /* somebody was not served; text: why */
};

struct apus_dp_relay_event {
	enum apus_dp_relay_event_kind kind;
	uint32_t pid;    /* of the application */
	uint16_t port;   /* of its queue */
	uint16_t thread; /* that serves it, or that runs */
	char text[128];
};

/** Sums over all queues. Read by anybody at any time. */
struct apus_dp_relay_counters {
	struct apus_counter attached;  /* queues opened */
	struct apus_counter closed;    /* closed by their applications */
	struct apus_counter reclaimed; /* taken back from those that died, or left without a word */
	struct apus_counter refused;   /* not opened: a limit, nonsense */
	struct apus_counter
		taken; /* not opened: the port is taken, and another one will be asked for */
	struct apus_counter
		broken; /* taken from applications whose ring or messages are nonsense */
};

/** Of a thread. */
struct apus_dp_relay_thread_counters {
	struct apus_counter in;       /* datagrams handed to applications */
	struct apus_counter out;      /* datagrams handed to the network */
	struct apus_counter bad;      /* datagrams of applications not sent: no address, too long */
	struct apus_counter stalls;   /* times an application's ring was found full */
	struct apus_counter bells_in; /* applications rung */
};

struct apus_dp_relay;

/** Begins to listen and starts the threads. Returns 0, APUS_EINVAL, APUS_EADDRINUSE (another one of that name runs),
 *  APUS_EPERM, APUS_ENOMEM, APUS_EIO; `why` says more. */
int apus_dp_relay_create(const struct apus_dp_relay_config *config, char *why, size_t why_bytes,
			 struct apus_dp_relay **relay_out);
/** Accepts and answers for up to `timeout_ms`; call again and again, from one thread. */
void apus_dp_relay_turn(struct apus_dp_relay *relay, int timeout_ms);
/** Takes the oldest event. False: there is none. The thread of apus_dp_relay_turn(). */
bool apus_dp_relay_event(struct apus_dp_relay *relay, struct apus_dp_relay_event *event_out);
/** Other interfaces from now on: groups are joined there, and applications told. The thread of apus_dp_relay_turn(). */
void apus_dp_relay_set_interfaces(struct apus_dp_relay *relay,
				  const struct apus_dp_netif *interfaces, uint32_t count);
const struct apus_dp_relay_counters *apus_dp_relay_counters(const struct apus_dp_relay *relay);
/** Of thread `idx`; NULL: there is no such thread. */
const struct apus_dp_relay_thread_counters *
apus_dp_relay_thread_counters(const struct apus_dp_relay *relay, uint32_t idx);
/** Ends it: every queue is closed. NULL is allowed. */
void apus_dp_relay_destroy(struct apus_dp_relay *relay);

#endif
