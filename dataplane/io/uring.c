/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The io_uring kind of queue: multishot receives, one a socket, into one ring of provided buffers.
 *
 * What it buys: groups cost nothing while they are idle (looking at the ring is a memory read), and
 * a burst costs a quarter less than by recvmmsg. What it costs: a single datagram takes about 0.7
 * us longer each way, because the kernel wakes, defers and re-arms. So unicast is received by plain
 * calls while datagrams come singly, and moves to the ring while they come in bursts
 * (config.ring_after). Sends are plain calls always; see send.c.
 *
 * Who may do what. The ring is created disabled by the opening thread. The first thread that
 * receives enables it and is the issuer from then on: the kernel takes submissions from no other
 * thread (SINGLE_ISSUER), and without submissions none of the deferred work runs. Any other thread
 * under the turn first takes what has already arrived in the completion queue (plain memory,
 * ordered by the turn word), then reads the sockets itself; the kernel's armed receives simply find
 * nothing later. Buffers may be given back by any thread: that is a store into the buffer ring.
 *
 * Out of buffers, the kernel ends the receive with ENOBUFS; datagrams stay in the socket and come
 * after the re-arm, which happens at the issuer's next call with a buffer free.
 */
#include "dataplane/io/udp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef APUS_HAVE_URING

#include <liburing.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define QUEUE_ENTRIES 64

/* From this many datagrams on a receive call has found a burst. Large ones are none: what a system call costs is
 * nothing beside their copy, and plain calls use the same few buffers again, which stay in the cache. */
#define BURST_MIN       4
#define BURST_MAX_BYTES 8192

/* Completions of requests that are about a socket, but no receive. */
#define USER_DATA_CANCEL UINT64_C(0x100)

#define BUFFER_GROUP 0

/* A close by another thread than the issuer waits this often, this long, for the port: 0.3 s at
 * most. */
#define CLOSE_PAUSES   300
#define CLOSE_PAUSE_NS 1000000

struct apus_dp_uring {
	struct io_uring ring;
	pid_t issuer;     /* thread id; 0: none yet */
	bool lost;        /* the issuer is gone: plain calls for ever */
	bool arm_pending; /* a socket may need its receive (re-)armed, or cancelled */
	bool direct;      /* unicast is received by plain calls */
	bool ring_first;  /* who is looked at first takes turns, so that neither starves */
	uint8_t density; /* 0…ring_after: receive calls that found a burst, less those that did not */

	struct io_uring_buf_ring *buffers; /* `count` entries, page-aligned */
	size_t buffers_bytes;
	uint8_t *memory;
	size_t stride_bytes;
	uint32_t buffer_bytes; /* the kernel's header, the sender's name, the payload */
	uint32_t count;
	uint32_t held;       /* delivered and not yet released */
	bool starved;        /* already counted */
	struct msghdr shape; /* tells the kernel how a buffer is laid out: name, no control data */
};

/* Cached, because the system call would cost more than the receive. The model spares the function call that
 * a shared library otherwise makes for each look at a thread's variable; so small a one always fits. */
static pid_t this_thread(void)
{
	static __thread pid_t tid __attribute__((tls_model("initial-exec")));

	if (APUS_UNLIKELY(tid == 0))
		tid = (pid_t)syscall(SYS_gettid);
	return tid;
}

static uint8_t *buffer_at(const struct apus_dp_uring *r, uint32_t idx)
{
	return r->memory + idx * r->stride_bytes;
}

/* Puts buffer `idx` into the ring, invisible to the kernel until the tail is advanced. */
static void stage_buffer(struct apus_dp_uring *r, uint32_t idx, int offset)
{
	io_uring_buf_ring_add(r->buffers, buffer_at(r, idx), r->buffer_bytes, (unsigned short)idx,
			      io_uring_buf_ring_mask(r->count), offset);
}

static void recycle(struct apus_dp_uring *r, uint32_t idx)
{
	stage_buffer(r, idx, 0);
	io_uring_buf_ring_advance(r->buffers, 1);
}

/* The raw call: the packaged liburing declares io_uring_enable_rings() but does not export it. */
static int enable(struct io_uring *ring)
{
	return (int)syscall(SYS_io_uring_register, ring->ring_fd, IORING_REGISTER_ENABLE_RINGS,
			    NULL, 0);
}

/* True if the calling thread may submit; the first one asked becomes that thread. */
static bool is_issuer(struct apus_dp_uring *r)
{
	if (APUS_LIKELY(r->issuer == this_thread()))
		return !r->lost;
	if (r->issuer != 0 || r->lost)
		return false;
	if (enable(&r->ring) != 0) {
		r->lost = true;
		return false;
	}
	r->issuer = this_thread();
	r->arm_pending = true;
	return true;
}

/* A thread id can be reused after the issuer's end; the kernel is not deceived and says EEXIST.
 * Then nobody can submit any more, and plain calls do everything. */
static void check_lost(struct apus_dp_udp *u, int rc)
{
	if (rc >= 0 || rc == -EINTR || rc == -EAGAIN || rc == -EBUSY)
		return;
	u->uring->lost = true;
	apus_counter_add(&u->q.counters.rx_errors, 1);
}

static void submit(struct apus_dp_udp *u)
{
	apus_counter_add(&u->q.counters.syscalls, 1);
	check_lost(u, io_uring_submit(&u->uring->ring));
}

static bool wants_ring(const struct apus_dp_udp *u, uint32_t socket_idx)
{
	return !u->socket[socket_idx].leaving && !(socket_idx == 0 && u->uring->direct);
}

/* Queues a receive, or the end of one, for a socket. False: the submission queue is full. */
static bool arm(struct apus_dp_udp *u, uint32_t socket_idx)
{
	struct apus_dp_udp_socket *s = &u->socket[socket_idx];
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->uring->ring);

	if (!sqe)
		return false;
	if (s->armed) {
		io_uring_prep_cancel64(sqe, socket_idx, 0);
		io_uring_sqe_set_data64(sqe, USER_DATA_CANCEL);
		return true;
	}
	io_uring_prep_recvmsg_multishot(sqe, s->fd, &u->uring->shape, 0);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = BUFFER_GROUP;
	io_uring_sqe_set_data64(sqe, socket_idx);
	s->armed = true;
	return true;
}

/* Arms what should be and is not, and cancels the reverse. Only the issuer. */
static void arm_all(struct apus_dp_udp *u)
{
	struct apus_dp_uring *r = u->uring;
	bool full = r->held == r->count;
	bool queued = false;

	r->arm_pending = false;
	for (uint32_t i = 0; i < u->socket_count; i++) {
		if (u->socket[i].fd < 0 || u->socket[i].armed == wants_ring(u, i))
			continue;
		/* Arming without a buffer would only earn the next ENOBUFS. */
		if ((u->socket[i].armed || !full) && arm(u, i))
			queued = true;
		else
			r->arm_pending = true;
	}
	if (queued)
		submit(u);
}

/* Takes one datagram out of its buffer. False: the kernel's header makes no sense. */
static bool unpack(struct apus_dp_uring *r, uint32_t idx, int received, uint32_t socket_idx,
		   struct apus_dp_rx *out)
{
	struct io_uring_recvmsg_out *o =
		io_uring_recvmsg_validate(buffer_at(r, idx), received, &r->shape);
	union apus_dp_sockaddr from;

	if (!o)
		return false;
	memcpy(&from, io_uring_recvmsg_name(o), r->shape.msg_namelen);
	out->bytes = io_uring_recvmsg_payload(o, &r->shape);
	out->length = io_uring_recvmsg_payload_length(o, received, &r->shape);
	out->token = idx;
	out->socket_idx = (uint8_t)socket_idx;
	out->truncated = (o->flags & MSG_TRUNC) != 0;
	apus_dp_udp_addr_of(&from, &out->from);
	return true;
}

/* The multishot receive of a socket has ended. */
static void disarmed(struct apus_dp_udp *u, uint32_t socket_idx, int result)
{
	struct apus_dp_udp_socket *s = &u->socket[socket_idx];
	struct apus_dp_uring *r = u->uring;

	s->armed = false;
	if (s->leaving) {
		apus_dp_udp_close_socket(u, socket_idx);
		return;
	}
	r->arm_pending = true;
	if (result == -ENOBUFS && !r->starved) {
		r->starved = true;
		apus_counter_add(&u->q.counters.rx_starved, 1);
	} else if (result < 0 && result != -ENOBUFS && result != -ECANCELED) {
		apus_counter_add(&u->q.counters.rx_errors, 1);
	}
}

/* Handles one completion. Returns the datagrams put into `*out`: 0 or 1. */
static int complete(struct apus_dp_udp *u, const struct io_uring_cqe *cqe, struct apus_dp_rx *out)
{
	uint32_t socket_idx = (uint32_t)cqe->user_data;
	uint32_t buffer_idx = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
	struct apus_dp_uring *r = u->uring;
	int delivered = 0;

	if (cqe->user_data >= APUS_DP_UDP_SOCKET_MAX)
		return 0;
	if (cqe->flags & IORING_CQE_F_BUFFER) {
		if (!u->socket[socket_idx].leaving &&
		    unpack(r, buffer_idx, cqe->res, socket_idx, out))
			delivered = 1;
		else
			recycle(r, buffer_idx);
	}
	if (!(cqe->flags & IORING_CQE_F_MORE))
		disarmed(u, socket_idx, cqe->res);
	return delivered;
}

static void count_rx(struct apus_dp_udp *u, const struct apus_dp_rx *rx, int n)
{
	uint64_t bytes = 0, truncated = 0;

	for (int i = 0; i < n; i++) {
		bytes += rx[i].length;
		truncated += rx[i].truncated;
	}
	apus_counter_add(&u->q.counters.rx, (uint64_t)n);
	apus_counter_add(&u->q.counters.rx_bytes, bytes);
	if (truncated)
		apus_counter_add(&u->q.counters.rx_truncated, truncated);
}

/* Takes what is in the completion queue; no system call. Any thread under the turn. */
static int reap(struct apus_dp_udp *u, int max, struct apus_dp_rx *out)
{
	struct apus_dp_uring *r = u->uring;
	struct io_uring_cqe *cqe;
	unsigned head, seen = 0;
	int n = 0;

	/* The macro loads the tail with acquire, pairing with the kernel's release store of it:
	 * completions and buffers are visible before we read them. Advancing stores the head with
	 * release: we have read them before the kernel may overwrite. */
	io_uring_for_each_cqe(&r->ring, head, cqe)
	{
		if (n == max)
			break;
		n += complete(u, cqe, &out[n]);
		seen++;
	}
	if (seen == 0)
		return 0;
	io_uring_cq_advance(&r->ring, seen);
	r->held += (uint32_t)n;
	count_rx(u, out, n);
	return n;
}

/* True if the kernel has work to do for us that only entering it will do. */
static bool has_kernel_work(const struct apus_dp_uring *r)
{
	/* Relaxed: the flag is a hint that we will see soon; entering the kernel orders
	 * everything. */
	unsigned flags = __atomic_load_n(r->ring.sq.kflags, __ATOMIC_RELAXED);

	return (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
}

/* Receives in a thread that may not submit. */
static int foreign_rx(struct apus_dp_udp *u, int max, struct apus_dp_rx *out)
{
	int n = reap(u, max, out);

	apus_counter_add(&u->q.counters.foreign_calls, 1);
	return n > 0 ? n : apus_dp_udp_rx(u, max, out);
}

/* Takes what the ring has, and if that is nothing, what the kernel was holding back for it. */
static int ring_rx(struct apus_dp_udp *u, int max, struct apus_dp_rx *out)
{
	struct apus_dp_uring *r = u->uring;
	int n = reap(u, max, out);

	if (n > 0 || max == 0 || !has_kernel_work(r))
		return n;
	apus_counter_add(&u->q.counters.syscalls, 1);
	check_lost(u, io_uring_get_events(&r->ring));
	return reap(u, max, out);
}

/* While an earlier receive of unicast is still ending in the ring, what it brings comes first. */
static int direct_rx(struct apus_dp_udp *u, int max, struct apus_dp_rx *out)
{
	if (!u->uring->direct || u->socket[0].armed || max == 0)
		return 0;
	return apus_dp_udp_receive(u, 0, max, out);
}

/* Moves unicast to the ring or back, after as many calls in favour as config.ring_after says. */
static void adapt(struct apus_dp_udp *u, const struct apus_dp_rx *rx, int n)
{
	struct apus_dp_uring *r = u->uring;
	uint8_t limit = u->config.ring_after;
	bool direct, burst;

	if (limit == 0 || n == 0)
		return;
	burst = n >= BURST_MIN && rx[n - 1].length <= BURST_MAX_BYTES;
	if (burst && r->density < limit)
		r->density++;
	else if (!burst && r->density > 0)
		r->density--;
	direct = r->direct ? r->density < limit : r->density == 0;
	if (direct == r->direct)
		return;
	r->direct = direct;
	r->arm_pending = true;
	apus_counter_add(&u->q.counters.ring_switches, 1);
}

/* True if looking at the ring would bring nothing: the common case of a polling worker. */
static bool ring_is_idle(const struct apus_dp_uring *r)
{
	/* Acquire inside, pairing with the kernel's release of the tail. */
	return io_uring_cq_ready(&r->ring) == 0 && !has_kernel_work(r);
}

static int uring_rx(struct apus_dp_queue *q, int max, struct apus_dp_rx *out)
{
	struct apus_dp_udp *u = apus_dp_udp_of(q);
	struct apus_dp_uring *r = u->uring;
	int n;

	if (!is_issuer(r))
		return foreign_rx(u, max, out);
	if (r->arm_pending)
		arm_all(u);
	r->ring_first = !r->ring_first;
	if (ring_is_idle(r)) {
		n = direct_rx(u, max, out);
	} else if (r->ring_first) {
		n = ring_rx(u, max, out);
		n += direct_rx(u, max - n, out + n);
	} else {
		n = direct_rx(u, max, out);
		n += ring_rx(u, max - n, out + n);
	}
	adapt(u, out, n);
	return n;
}

static void uring_release(struct apus_dp_queue *q, const struct apus_dp_rx *rx, int n)
{
	struct apus_dp_udp *u = apus_dp_udp_of(q);
	struct apus_dp_uring *r = u->uring;
	int staged = 0;

	for (int i = 0; i < n; i++) {
		if (rx[i].token & APUS_DP_UDP_POOL_TOKEN)
			apus_dp_udp_pool_release(&u->pool, rx[i].token);
		else
			stage_buffer(r, rx[i].token, staged++);
	}
	if (staged == 0)
		return;
	/* Release store of the tail, pairing with the kernel's acquire: entries before the tail. */
	io_uring_buf_ring_advance(r->buffers, staged);
	r->held -= (uint32_t)staged;
	r->starved = false;
}

static int uring_join(struct apus_dp_queue *q, const struct apus_dp_group *group)
{
	apus_dp_udp_of(q)->uring->arm_pending = true;
	return apus_dp_udp_join(q, group);
}

static int uring_leave(struct apus_dp_queue *q, const struct apus_dp_group *group)
{
	struct apus_dp_udp *u = apus_dp_udp_of(q);
	int place = apus_dp_udp_drop_group(u, group);

	if (place < 0)
		return place;
	if (u->socket[place].armed && !u->uring->lost) {
		u->socket[place].leaving = true;
		u->uring->arm_pending = true;
	} else {
		apus_dp_udp_close_socket(u, (uint32_t)place);
	}
	return 0;
}

static void uring_destroy(struct apus_dp_uring *r)
{
	if (r->ring.ring_fd >= 0)
		io_uring_queue_exit(&r->ring);
	if (r->memory)
		munmap(r->memory, r->count * r->stride_bytes);
	if (r->buffers)
		munmap(r->buffers, r->buffers_bytes);
	free(r);
}

/* Ends all receives, so that the rings hold no socket any more. Only the issuer can. */
static void cancel_all(struct apus_dp_udp *u)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->uring->ring);

	if (!sqe)
		return;
	io_uring_prep_cancel64(sqe, 0, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
	io_uring_sqe_set_data64(sqe, USER_DATA_CANCEL);
	io_uring_submit_and_get_events(&u->uring->ring);
	io_uring_get_events(&u->uring->ring);
}

/* Closed by another thread, the kernel takes the rings down in its own time (a few milliseconds
 * seen), and their armed receive keeps the port taken meanwhile. Wait for it, for so long,
 * because whoever closes a queue may want to open its successor. */
static void await_port(const union apus_dp_sockaddr *own, socklen_t own_bytes)
{
	const struct timespec pause = {.tv_nsec = CLOSE_PAUSE_NS};
	bool taken = true;

	for (int i = 0; i < CLOSE_PAUSES && taken; i++) {
		int fd = apus_dp_udp_socket_open(own->any.sa_family);

		taken = fd >= 0 && bind(fd, &own->any, own_bytes) != 0 && errno == EADDRINUSE;
		if (fd >= 0)
			close(fd);
		if (taken)
			nanosleep(&pause, NULL);
	}
}

static void uring_close(struct apus_dp_queue *q)
{
	struct apus_dp_udp *u = apus_dp_udp_of(q);
	struct apus_dp_uring *r = u->uring;
	bool own = r->issuer == this_thread() && !r->lost;
	bool wait = r->issuer != 0 && !own;
	union apus_dp_sockaddr address;
	socklen_t bytes = sizeof(address);

	memset(&address, 0, sizeof(address));
	wait = wait && getsockname(u->socket[0].fd, &address.any, &bytes) == 0;
	if (own)
		cancel_all(u);
	uring_destroy(r);
	apus_dp_udp_destroy(u);
	if (wait)
		await_port(&address, bytes);
}

static const struct apus_dp_queue_ops uring_ops = {
	.rx = uring_rx,
	.release = uring_release,
	.tx = apus_dp_udp_tx,
	.join = uring_join,
	.leave = uring_leave,
	.fd = apus_dp_udp_fd,
	.set_interfaces = apus_dp_udp_set_interfaces,
	.close = uring_close,
};

/* A disabled ring with room for `cq_entries` completions. Returns 0 or a negative errno. */
static int create_ring(unsigned cq_entries, struct io_uring *ring)
{
	struct io_uring_params params = {
		.flags = IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER |
			 IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
			 IORING_SETUP_CQSIZE,
		.cq_entries = cq_entries,
	};
	int rc = io_uring_queue_init_params(QUEUE_ENTRIES, ring, &params);

	if (rc < 0)
		ring->ring_fd = -1;
	return rc;
}

static uint32_t power_of_two(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

/* Maps and touches the buffers and their ring. */
static int reserve_buffers(const struct apus_dp_queue_config *config, uint16_t family,
			   struct apus_dp_uring *r)
{
	r->count = power_of_two(config->rx_buffer_count);
	r->shape.msg_namelen =
		family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	r->buffer_bytes = (uint32_t)(sizeof(struct io_uring_recvmsg_out) + r->shape.msg_namelen +
				     config->rx_buffer_bytes);
	r->stride_bytes = ((size_t)r->buffer_bytes + 63) & ~(size_t)63;
	r->buffers_bytes = r->count * sizeof(struct io_uring_buf);
	r->buffers = apus_dp_udp_map(r->buffers_bytes);
	r->memory = apus_dp_udp_map(r->count * r->stride_bytes);
	if (!r->buffers || !r->memory)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->count && !config->lazy_memory; i++)
		*buffer_at(r, i) = 0;
	return 0;
}

/* Hands all buffers to the kernel. Returns 0 or a negative errno. */
static int register_buffers(struct apus_dp_uring *r)
{
	struct io_uring_buf_reg reg = {
		.ring_addr = (uint64_t)(uintptr_t)r->buffers,
		.ring_entries = r->count,
		.bgid = BUFFER_GROUP,
	};
	int rc = io_uring_register_buf_ring(&r->ring, &reg, 0);

	if (rc < 0)
		return rc;
	io_uring_buf_ring_init(r->buffers);
	for (uint32_t i = 0; i < r->count; i++)
		stage_buffer(r, i, (int)i);
	io_uring_buf_ring_advance(r->buffers, (int)r->count);
	return 0;
}

int apus_dp_uring_attach(struct apus_dp_udp *u, char *why, size_t why_bytes)
{
	struct apus_dp_uring *r = calloc(1, sizeof(*r));
	int rc = r ? reserve_buffers(&u->config, u->family, r) : -ENOMEM;

	if (r)
		r->ring.ring_fd = -1;
	/* Completions can never overflow: one a buffer, and a few a socket that carry none. */
	if (rc == 0)
		rc = create_ring(r->count + 4 * APUS_DP_UDP_SOCKET_MAX, &r->ring);
	if (rc == 0)
		rc = register_buffers(r);
	if (rc == 0 && apus_dp_udp_pool_init(&u->config, &u->pool) < 0)
		rc = -ENOMEM;
	if (rc < 0) {
		snprintf(why, why_bytes, "io_uring: %s", strerror(-rc));
		if (r)
			uring_destroy(r);
		return rc == -ENOMEM ? APUS_ENOMEM : APUS_ENOTSUP;
	}
	r->direct = u->config.ring_after > 0;
	u->uring = r;
	u->q.ops = &uring_ops;
	u->q.kind = APUS_DP_QUEUE_URING;
	return 0;
}

#else

int apus_dp_uring_attach(struct apus_dp_udp *u, char *why, size_t why_bytes)
{
	(void)u;
	snprintf(why, why_bytes, "built without io_uring");
	return APUS_ENOTSUP;
}

#endif
