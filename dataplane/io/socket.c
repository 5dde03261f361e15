/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sockets kind of queue: recvmmsg, or recvfrom for one datagram, into a pool of buffers.
 *
 * A receive call costs a system call per socket it looks at, found something or not. So the unicast
 * socket is looked at each time, a group's socket only while it is busy or every few calls, and
 * each socket is offered about as many headers as it needed last time: a header offered in vain
 * costs a second look inside the kernel, which a ping-pong of single datagrams would pay each time.
 */
#include "dataplane/io/calls.h"
#include "dataplane/io/udp.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

int apus_dp_udp_pool_init(const struct apus_dp_queue_config *config,
			  struct apus_dp_udp_pool *pool_out)
{
	uint32_t count = config->rx_buffer_count;
	struct apus_dp_udp_pool pool = {.count = count, .free_count = count};

	pool.stride_bytes = ((size_t)config->rx_buffer_bytes + 63) & ~(size_t)63;
	pool.free_idx = calloc(count, sizeof(pool.free_idx[0]));
	pool.memory = apus_dp_udp_map(count * pool.stride_bytes);
	if (!pool.free_idx || !pool.memory) {
		apus_dp_udp_pool_fini(&pool);
		return APUS_ENOMEM;
	}
	for (uint32_t i = 0; i < count; i++) {
		pool.free_idx[i] = count - 1 - i;
		/* A first touch costs microseconds; most datagrams fit a page. */
		if (!config->lazy_memory)
			pool.memory[i * pool.stride_bytes] = 0;
	}
	*pool_out = pool;
	return 0;
}

void apus_dp_udp_pool_fini(struct apus_dp_udp_pool *pool)
{
	if (pool->memory)
		munmap(pool->memory, pool->count * pool->stride_bytes);
	free(pool->free_idx);
	memset(pool, 0, sizeof(*pool));
}

void apus_dp_udp_pool_release(struct apus_dp_udp_pool *pool, uint32_t token)
{
	pool->free_idx[pool->free_count++] = token & ~APUS_DP_UDP_POOL_TOKEN;
	pool->starved = false;
}

static uint32_t nth_free(const struct apus_dp_udp_pool *pool, int i)
{
	return pool->free_idx[pool->free_count - 1 - (uint32_t)i];
}

/* Points the first `n` headers at the buffers on top of the stack. */
static void offer(struct apus_dp_udp *u, int n)
{
	for (int i = 0; i < n; i++) {
		struct msghdr *message = &u->rx_header[i].msg_hdr;

		u->rx_iov[i].iov_base =
			u->pool.memory + nth_free(&u->pool, i) * u->pool.stride_bytes;
		u->rx_iov[i].iov_len = u->config.rx_buffer_bytes;
		message->msg_name = &u->rx_from[i];
		message->msg_namelen = sizeof(u->rx_from[i]);
		message->msg_iov = &u->rx_iov[i];
		message->msg_iovlen = 1;
	}
}

static void deliver(struct apus_dp_udp *u, uint32_t socket_idx, int n, struct apus_dp_rx *out)
{
	uint64_t bytes = 0, truncated = 0;

	for (int i = 0; i < n; i++) {
		out[i].bytes = u->rx_iov[i].iov_base;
		out[i].length = u->rx_header[i].msg_len;
		out[i].token = nth_free(&u->pool, i) | APUS_DP_UDP_POOL_TOKEN;
		out[i].socket_idx = (uint8_t)socket_idx;
		out[i].truncated = (u->rx_header[i].msg_hdr.msg_flags & MSG_TRUNC) != 0;
		apus_dp_udp_addr_of(&u->rx_from[i], &out[i].from);
		bytes += out[i].length;
		truncated += out[i].truncated;
	}
	u->pool.free_count -= (uint32_t)n;
	apus_counter_add(&u->q.counters.rx, (uint64_t)n);
	apus_counter_add(&u->q.counters.rx_bytes, bytes);
	if (truncated)
		apus_counter_add(&u->q.counters.rx_truncated, truncated);
}

/* Four times what was filled completely, one more than what was not. */
static uint8_t next_guess(int offered, int got)
{
	int guess = got == offered && got > 1 ? 4 * got : got + 1;

	return (uint8_t)(guess < APUS_DP_BURST_MAX ? guess : APUS_DP_BURST_MAX);
}

static bool starved(struct apus_dp_udp *u)
{
	if (u->pool.free_count > 0)
		return false;
	if (!u->pool.starved)
		apus_counter_add(&u->q.counters.rx_starved, 1);
	u->pool.starved = true;
	return true;
}

static void refused(struct apus_dp_udp *u, int error)
{
	if (error != EAGAIN && error != EINTR)
		apus_counter_add(&u->q.counters.rx_errors, 1);
}

/* Receives one datagram into the buffer on top of the stack, without what headers and recvmmsg cost around
 * it: a tenth of a microsecond and more, which every single sample and every idle look would pay. */
static int receive_one(struct apus_dp_udp *u, uint32_t socket_idx, struct apus_dp_rx *out)
{
	struct apus_dp_udp_socket *s = &u->socket[socket_idx];
	uint32_t idx = nth_free(&u->pool, 0), room = u->config.rx_buffer_bytes;
	uint8_t *memory = u->pool.memory + idx * u->pool.stride_bytes;
	union apus_dp_sockaddr from;
	socklen_t from_bytes = sizeof(from);
	ssize_t bytes = apus_dp_sys_recvfrom(s->fd, memory, room, MSG_DONTWAIT | MSG_TRUNC,
					     &from.any, &from_bytes);

	apus_counter_add(&u->q.counters.syscalls, 1);
	s->hot = bytes >= 0;
	s->guess = next_guess(1, bytes >= 0);
	if (bytes < 0) {
		refused(u, errno);
		return 0;
	}
	/* With MSG_TRUNC the kernel tells the datagram's own length. */
	out->truncated = bytes > (ssize_t)room;
	out->bytes = memory;
	out->length = out->truncated ? room : (uint32_t)bytes;
	out->token = idx | APUS_DP_UDP_POOL_TOKEN;
	out->socket_idx = (uint8_t)socket_idx;
	apus_dp_udp_addr_of(&from, &out->from);
	u->pool.free_count--;
	apus_counter_add(&u->q.counters.rx, 1);
	apus_counter_add(&u->q.counters.rx_bytes, out->length);
	if (out->truncated)
		apus_counter_add(&u->q.counters.rx_truncated, 1);
	return 1;
}

/* Receives one datagram, its payload to where it is expected. */
static int receive_placed(struct apus_dp_udp *u, struct apus_dp_rx *out)
{
	struct apus_dp_rx_place *p = &u->q.place;
	struct apus_dp_udp_socket *s = &u->socket[0];
	uint32_t idx = nth_free(&u->pool, 0), behind = p->head_bytes + p->room_bytes;
	uint8_t *memory = u->pool.memory + idx * u->pool.stride_bytes;
	union apus_dp_sockaddr from;
	struct iovec iov[3] = {{memory, p->head_bytes},
			       {p->base, p->room_bytes},
			       {memory + behind, u->config.rx_buffer_bytes - behind}};
	struct msghdr message = {
		.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = iov, .msg_iovlen = 3};
	ssize_t bytes = apus_dp_sys_recvmsg(s->fd, &message, MSG_DONTWAIT);

	apus_counter_add(&u->q.counters.syscalls, 1);
	s->hot = bytes >= 0;
	if (bytes < 0) {
		refused(u, errno);
		return 0;
	}
	out->bytes = memory;
	out->length = (uint32_t)bytes;
	out->token = idx | APUS_DP_UDP_POOL_TOKEN;
	out->socket_idx = 0;
	out->truncated = (message.msg_flags & MSG_TRUNC) != 0;
	apus_dp_udp_addr_of(&from, &out->from);
	u->pool.free_count--;
	apus_counter_add(&u->q.counters.rx, 1);
	apus_counter_add(&u->q.counters.rx_bytes, out->length);
	if (out->truncated)
		apus_counter_add(&u->q.counters.rx_truncated, 1);
	if (out->length > p->head_bytes) {
		apus_counter_add(&u->q.counters.rx_placed, 1);
		p->buffer = memory;
		p->placed_bytes = out->length - p->head_bytes;
		if (p->placed_bytes > p->room_bytes)
			p->placed_bytes = p->room_bytes;
	}
	return 1;
}

int apus_dp_udp_receive(struct apus_dp_udp *u, uint32_t socket_idx, int max, struct apus_dp_rx *out)
{
	struct apus_dp_udp_socket *s = &u->socket[socket_idx];
	int offered = max < s->guess ? max : s->guess;
	int got;

	if (max < 1 || starved(u))
		return 0;
	if (socket_idx == 0 && u->q.place.base && !u->q.place.buffer &&
	    u->q.place.head_bytes + u->q.place.room_bytes <= u->config.rx_buffer_bytes)
		return receive_placed(u, out);
	if ((uint32_t)offered > u->pool.free_count)
		offered = (int)u->pool.free_count;
	if (offered == 1)
		return receive_one(u, socket_idx, out);
	offer(u, offered);
	got = apus_dp_sys_recvmmsg(s->fd, u->rx_header, (unsigned)offered, MSG_DONTWAIT);
	if (got < 0)
		refused(u, errno);
	apus_counter_add(&u->q.counters.syscalls, 1);
	s->hot = got > 0;
	s->guess = next_guess(offered, got > 0 ? got : 0);
	if (got < 1)
		return 0;
	deliver(u, socket_idx, got, out);
	return got;
}

static int receive_groups(struct apus_dp_udp *u, bool all, int max, struct apus_dp_rx *out)
{
	int n = 0;

	for (uint32_t i = 1; i < u->socket_count && n < max; i++)
		if (u->socket[i].fd >= 0 && !u->socket[i].leaving && (all || u->socket[i].hot))
			n += apus_dp_udp_receive(u, i, max - n, out + n);
	return n;
}

int apus_dp_udp_rx(struct apus_dp_udp *u, int max, struct apus_dp_rx *out)
{
	int n;

	if (u->socket_count == 1)
		return apus_dp_udp_receive(u, 0, max, out);
	if (u->calls_to_sweep > 0) {
		u->calls_to_sweep--;
		n = apus_dp_udp_receive(u, 0, max, out);
		/* A sleeper must be able to believe a 0, so it has every socket looked at. */
		return n + receive_groups(u, u->epoll_live, max - n, out + n);
	}
	/* Groups first on a sweep, or a busy unicast socket would leave them no room for ever. */
	u->calls_to_sweep = (uint8_t)(u->config.group_poll_interval - 1);
	n = receive_groups(u, true, max, out);
	return n + apus_dp_udp_receive(u, 0, max - n, out + n);
}

static int socket_rx(struct apus_dp_queue *q, int max, struct apus_dp_rx *out)
{
	return apus_dp_udp_rx(apus_dp_udp_of(q), max, out);
}

static void socket_release(struct apus_dp_queue *q, const struct apus_dp_rx *rx, int n)
{
	for (int i = 0; i < n; i++)
		apus_dp_udp_pool_release(&apus_dp_udp_of(q)->pool, rx[i].token);
}

static int socket_leave(struct apus_dp_queue *q, const struct apus_dp_group *group)
{
	int place = apus_dp_udp_drop_group(apus_dp_udp_of(q), group);

	if (place < 0)
		return place;
	apus_dp_udp_close_socket(apus_dp_udp_of(q), (uint32_t)place);
	return 0;
}

static void socket_close(struct apus_dp_queue *q)
{
	apus_dp_udp_destroy(apus_dp_udp_of(q));
}

static const struct apus_dp_queue_ops socket_ops = {
	.rx = socket_rx,
	.release = socket_release,
	.tx = apus_dp_udp_tx,
	.join = apus_dp_udp_join,
	.leave = socket_leave,
	.fd = apus_dp_udp_fd,
	.set_interfaces = apus_dp_udp_set_interfaces,
	.close = socket_close,
};

int apus_dp_socket_attach(struct apus_dp_udp *u)
{
	int rc = apus_dp_udp_pool_init(&u->config, &u->pool);

	if (rc < 0)
		return rc;
	u->q.ops = &socket_ops;
	u->q.kind = APUS_DP_QUEUE_SOCKET;
	return 0;
}
