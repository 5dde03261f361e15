/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker process (`apus worker`): it owns the queues of the network and serves applications of this host and user
 * that are configured with `transport = worker`. Nothing else changes for them.
 *
 * An application is given UDP ports of its own and can neither send from nor listen at another's; what one has dies with
 * it. If the worker process ends, applications look for its successor by themselves.
 *
 * Thread rule: one thread for all calls on a handle; it moves datagrams on threads of its own.
 */
#ifndef APUS_RELAY_H
#define APUS_RELAY_H

#include <apus/config.h>
#include <apus/core.h>
#include <apus/participant.h>

#ifdef __cplusplus
extern "C" {
#endif

struct apus_relay;

/** What has happened. */
enum apus_relay_event_kind {
	APUS_RELAY_THREAD = 0,   /**< a thread runs; text: on which core, with which scheduling */
	APUS_RELAY_ATTACHED = 1, /**< an application has a queue; text: of what kind it is */
	APUS_RELAY_DETACHED = 2, /**< a queue has been taken back; text: why */
	APUS_RELAY_REFUSED = 3,  /**< somebody was not served; text: why */
	APUS_RELAY_NETWORK = 4, /**< the interfaces are others now; text, of a port of its own: what
				      keeps traffic from it, or that nothing does any more */
};

/** One event. Pointers are valid during the callback. */
struct apus_relay_event {
	enum apus_relay_event_kind kind;
	uint32_t pid;    /**< of the application; 0: of none, or not known */
	uint16_t port;   /**< of the queue */
	uint16_t thread; /**< that serves it */
	const char *text;
};

/**
 * Begins to serve, as configured: `transport` (not worker) and what belongs to it, `interfaces`, `transport.ipv6`,
 * `rx.buffers`, `stats.file`, `worker.name`, `.directory`, `.applications`, `.queues`, `.ring_bytes`, `.burst`, and
 * `worker.count`, `.cores`, `.priority`, `.idle` of its threads. Any other setting that differs from its default is refused, for it
 * would have no effect. Where SCHED_FIFO is not permitted a thread runs without it, and an event says so.
 * why (may be NULL) receives a sentence. Returns 0, APUS_EINVAL, APUS_EADDRINUSE (another one of that name runs),
 * APUS_EPERM, APUS_ENODEV, APUS_ENOMEM, APUS_EIO.
 */
APUS_API int apus_relay_create(const struct apus_config *config, struct apus_relay **relay_out,
			       char *why, size_t why_bytes);

/** Accepts and answers applications for up to timeout_ns (0…60 s), and calls `event` (may be NULL) for what has happened
 *  since. Call it again and again: nobody is accepted meanwhile, but those who have queues are served. With
 *  `stats.file` it returns after a quarter of a second, and updates the file. Returns the number of events, or
 *  APUS_EINVAL. */
APUS_API int apus_relay_poll(struct apus_relay *relay, int64_t timeout_ns,
			     void (*event)(const struct apus_relay_event *event, void *user),
			     void *user);

/** Visits the counters, those of a port of its own included (transport = dpdk). Any thread. */
APUS_API void apus_relay_visit(struct apus_relay *relay,
			       void (*visit)(const struct apus_stat *stat, void *user), void *user);

/** Closes every queue and ends the threads. NULL is allowed. */
APUS_API void apus_relay_destroy(struct apus_relay *relay);

#ifdef __cplusplus
}
#endif

#endif
