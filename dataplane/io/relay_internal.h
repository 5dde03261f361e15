/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two halves of the worker process share: relay_host.c, whose one thread listens, answers and opens queues, and
 * relay_serve.c, whose threads move datagrams.
 *
 * A client is an application's queue. Its slot is taken by the host (`used`), handed to a thread by that thread's
 * inbox, and from then on is the thread's alone until it clears `used`. Nothing is allocated after creation but what a
 * queue of the network and its memory take when they are opened.
 */
#ifndef APUS_DATAPLANE_IO_RELAY_INTERNAL_H
#define APUS_DATAPLANE_IO_RELAY_INTERNAL_H

#include "dataplane/io/relay.h"

#include <pthread.h>

#define APUS_DP_RELAY_BURST_MAX 64

struct apus_dp_relay_client {
	_Atomic bool used;    /* set by the host, cleared by the thread */
	_Atomic uint32_t pid; /* 0: not known */
	uint32_t thread_idx;
	int fd;    /* of the connection */
	int pidfd; /* -1: the end of the connection has to do */
	struct apus_dp_queue *queue;
	struct apus_dp_relay_open ask; /* as validated */
	struct apus_shm_segment segment;
	struct apus_shm_packet_producer in; /* to the application */
	struct apus_shm_packet_consumer out;
	/* Taken from the network, and not all of them in the ring yet. */
	struct apus_dp_rx held[APUS_DP_RELAY_BURST_MAX];
	uint32_t held_count, held_next;
	bool readable;       /* the network may have something; a polling thread does not ask */
	bool muted;          /* its descriptor is not watched: the ring is full */
	bool spoken;         /* there may be messages */
	bool gone;           /* the connection has ended, or the process */
	bool leaves;         /* it has said so before */
	uint8_t rounds_gone; /* that it was given to have what it sent last leave */
};

struct apus_dp_relay_thread {
	struct apus_dp_relay *relay;
	uint32_t idx;
	pthread_t thread;
	bool started;
	int epoll_fd, wake_fd;
	_Atomic bool stop;
	struct apus_dp_relay_client **clients; /* those it serves */
	uint32_t client_count;
	uint32_t first; /* whose turn is first in the next round */
	uint32_t rounds_to_look;
	uint64_t interfaces_seen; /* generation of the relay's interfaces */
	/* Under inbox_lock; inbox_count is looked at without. */
	pthread_mutex_t inbox_lock;
	struct apus_dp_relay_client **inbox;
	_Atomic uint32_t inbox_count;
	_Atomic uint32_t load; /* clients handed over and not gone */
	struct apus_dp_relay_thread_counters counters;
};

/* Somebody connected who has not opened a queue yet. */
#define APUS_DP_RELAY_GUESTS 32

struct apus_dp_relay_guest {
	int fd; /* -1: free */
	uint32_t pid;
	int64_t until_ns; /* hung up on then */
};

#define APUS_DP_RELAY_EVENTS 256

struct apus_dp_relay {
	struct apus_dp_relay_config config;
	char directory[128];
	char name[APUS_SHM_LINK_NAME + 1];
	int listener, wake_fd;
	struct apus_dp_relay_guest guests[APUS_DP_RELAY_GUESTS];
	struct apus_dp_relay_client *clients; /* client_max of them */
	uint32_t client_max;
	struct apus_dp_relay_thread *threads;
	struct apus_dp_relay_counters counters; /* under lock */
	/* Under lock: events, and interfaces. The generation is looked at without. */
	pthread_mutex_t lock;
	struct apus_dp_relay_event events[APUS_DP_RELAY_EVENTS];
	uint32_t event_first, event_count;
	_Atomic uint64_t interfaces_generation;
};

/** Notes an event for apus_dp_relay_event(); the oldest makes way. `counter` (may be NULL) goes up. Any thread. */
void apus_dp_relay_tell(struct apus_dp_relay *relay, enum apus_dp_relay_event_kind kind,
			uint32_t pid, uint16_t port, uint32_t thread_idx,
			struct apus_counter *counter, const char *format, ...)
	__attribute__((format(printf, 7, 8)));

/** The interfaces with these indices, of the relay's. Under lock. Returns false if one is missing. */
bool apus_dp_relay_choose(const struct apus_dp_relay *relay, const uint32_t *ifindex,
			  uint32_t count, struct apus_dp_netif *out);

/** Starts a thread. 0, APUS_ENOMEM, APUS_EIO. */
int apus_dp_relay_thread_start(struct apus_dp_relay_thread *t);
/** Ends it, and every queue it serves. */
void apus_dp_relay_thread_stop(struct apus_dp_relay_thread *t);
/** Hands it a client that is complete. */
void apus_dp_relay_thread_adopt(struct apus_dp_relay_thread *t, struct apus_dp_relay_client *c);
/** Closes what a client has; its slot is still used. */
void apus_dp_relay_client_close(struct apus_dp_relay_client *c);

#endif
