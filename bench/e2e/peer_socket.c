/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain UDP sockets in the benchmark of routes: what the kernel does when nobody asks for more than datagrams. One
 * socket a topic, polled; nothing is repeated, so streams lose what the reader's buffer does not hold.
 */
#include "common.h"
#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PORT_BASE     20000
#define PORTS         20000
#define RECEIVE_BYTES (1 << 20)
#define BURST         64

struct endpoint {
	struct peer_options options;
	int fd;
	uint64_t sample[BYTES_MAX / 8];
};

/* Both sides make the same port of a topic. */
static uint16_t port_of(const struct peer_options *o)
{
	uint32_t hash = o->bytes;

	for (const char *c = o->topic; *c; c++)
		hash = hash * 33 + (uint8_t)*c;
	return (uint16_t)(PORT_BASE + hash % PORTS);
}

static struct sockaddr_in address_of(const struct peer_options *o, const char *text)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port_of(o))};

	if (inet_pton(AF_INET, text ? text : "127.0.0.1", &a.sin_addr) != 1)
		die("no address");
	return a;
}

static void *socket_open(const struct peer_options *o)
{
	struct endpoint *e = calloc(1, sizeof(*e));
	int bytes = RECEIVE_BYTES;
	struct sockaddr_in a;

	if (!e)
		return NULL;
	e->options = *o;
	e->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	a = address_of(o, o->writer ? o->other : o->address);
	if (e->fd < 0 || (o->writer ? connect : bind)(e->fd, (struct sockaddr *)&a, sizeof(a)) != 0)
		return NULL;
	setsockopt(e->fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	return e;
}

static uint32_t socket_matched(void *endpoint)
{
	(void)endpoint;
	return 1;
}

static bool socket_write(void *endpoint, const void *sample)
{
	struct endpoint *e = endpoint;

	return send(e->fd, sample, e->options.bytes, 0) == (ssize_t)e->options.bytes;
}

static uint32_t socket_poll(void *endpoint)
{
	struct endpoint *e = endpoint;
	uint32_t n = 0;

	if (e->options.writer)
		return 0;
	for (; n < BURST && recv(e->fd, e->sample, sizeof(e->sample), 0) > 0; n++)
		e->options.on_sample(e->options.user, e->sample);
	return n;
}

static void socket_drain(void *endpoint)
{
	(void)endpoint;
}

static const char *socket_version(void)
{
	return "";
}

static const char *const routes[] = {"udp", NULL};

static const struct peer plain = {.name = "socket",
				  .open = socket_open,
				  .matched = socket_matched,
				  .write = socket_write,
				  .drain = socket_drain,
				  .routes = routes,
				  .version = socket_version,
				  .poll = socket_poll};
const struct peer *const peer_socket = &plain;
