/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ZeroMQ in the throughput benchmark, as a yardstick: no DDS, no types, but batches of its own over TCP on
 * 127.0.0.1. The reader pulls in a thread; the library has one for the network beside it, on the same core.
 */
#include "peer.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <zmq.h>

/* Its ports, one a sample size, above those of the domains in use. */
#define PORT_FIRST  61200
#define QUEUE_BYTES (8u << 20)

struct endpoint {
	void *socket;
	struct peer_options options;
	pthread_t thread;
};

static void *context;

static void *pull(void *arg)
{
	struct endpoint *e = arg;
	zmq_msg_t message;

	zmq_msg_init(&message);
	while (zmq_msg_recv(&message, e->socket, 0) >= 0)
		e->options.on_sample(e->options.user, zmq_msg_data(&message));
	return NULL;
}

static bool attach(struct endpoint *e)
{
	const struct peer_options *o = &e->options;
	int queue = (int)(QUEUE_BYTES / o->bytes), wait_ms = 1000, keep_ms = 0;
	char address[32];

	zmq_setsockopt(e->socket, ZMQ_SNDHWM, &queue, sizeof(queue));
	zmq_setsockopt(e->socket, ZMQ_RCVHWM, &queue, sizeof(queue));
	zmq_setsockopt(e->socket, ZMQ_SNDTIMEO, &wait_ms, sizeof(wait_ms));
	zmq_setsockopt(e->socket, ZMQ_LINGER, &keep_ms, sizeof(keep_ms));
	snprintf(address, sizeof(address), "tcp://127.0.0.1:%d",
		 PORT_FIRST + __builtin_ctz(o->bytes));
	if (o->writer)
		return zmq_connect(e->socket, address) == 0;
	return zmq_bind(e->socket, address) == 0 && pthread_create(&e->thread, NULL, pull, e) == 0;
}

static void *zeromq_open(const struct peer_options *o)
{
	struct endpoint *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	if (!context)
		context = zmq_ctx_new();
	e->options = *o;
	e->socket = zmq_socket(context, o->writer ? ZMQ_PUSH : ZMQ_PULL);
	return e->socket && attach(e) ? e : NULL;
}

/* A writer without a connection waits for it in its first write. */
static uint32_t zeromq_matched(void *endpoint)
{
	(void)endpoint;
	return 1;
}

static bool zeromq_write(void *endpoint, const void *sample)
{
	struct endpoint *e = endpoint;

	return zmq_send(e->socket, sample, e->options.bytes, 0) == (int)e->options.bytes;
}

/* TCP delivers what is queued; the benchmark waits a moment. */
static void zeromq_drain(void *endpoint)
{
	(void)endpoint;
}

static const struct peer zeromq = {.name = "zeromq",
				   .batches = true,
				   .open = zeromq_open,
				   .matched = zeromq_matched,
				   .write = zeromq_write,
				   .drain = zeromq_drain};
const struct peer *const peer_zeromq = &zeromq;
