/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An application's queue at a worker process; see relay.h.
 *
 * Received datagrams stay in the ring until they are released: nothing is copied on this side. Sending copies into the
 * ring; a system call is made only to wake a worker process that sleeps, or while there is none.
 *
 * States: OPEN; LOST, with a place in time to look for a successor; ASKED, connected and waiting for the answer. All
 * but the first are left from apus_dp_queue_rx(), which a sleeping owner calls because the descriptor it sleeps on has
 * a timer then.
 *
 * The process is trusted with this application's traffic, and with its parser's memory: it could change a datagram
 * while it is parsed. Positions and lengths are checked all the same (shm/packets.h).
 */
#include "dataplane/io/relay_client.h"

#include "base/clock.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* How often a lost process is looked for, and how long an answer may take then. */
#define RETRY_NS  (20 * APUS_NS_PER_MS)
#define ANSWER_NS APUS_NS_PER_SEC
/* Datagrams held at once. A power of two. */
#define HELD_MAX 512u
/* Somebody who polls looks at the connection every so many receive calls that find nothing: a system call. */
#define LOOK_AFTER 1024u
/* With a full ring: looks before a datagram is dropped. Each is a pause of some ten ns, or the processor given up. */
#define FULL_ROUNDS 64
#define FULL_PAUSES 32

enum state { LOST, ASKED, OPEN };

struct held {
	uint64_t end;
	bool released;
};

struct relay_queue {
	struct apus_dp_queue q;        /* first: the queue is this struct */
	struct apus_dp_relay_open ask; /* what is asked for, and asked for again */
	char directory[128];
	char name[APUS_SHM_LINK_NAME + 1];
	enum state state;
	int fd; /* of the connection; -1: none */
	int epoll_fd, timer_fd;
	bool sleeps;          /* somebody sleeps on epoll_fd: bells are wanted */
	struct apus_mono due; /* LOST: to look again; ASKED: to give up */
	uint32_t looked; /* receive calls that found nothing since the connection was looked at */
	void *memory;
	size_t memory_bytes;
	struct apus_shm_packet_consumer in;
	struct apus_shm_packet_producer out;
	struct held held[HELD_MAX];
	uint32_t held_first, held_count;
	_Atomic bool changed;
};

static struct relay_queue *of(struct apus_dp_queue *q)
{
	return (struct relay_queue *)(void *)q;
}

/* --- connection ---------------------------------------------------------------------------------- */

/* While it is lost the owner is to call again though nobody rings. */
static void set_timer(struct relay_queue *r, bool runs)
{
	struct itimerspec at = {{0, runs ? RETRY_NS : 0}, {0, runs ? RETRY_NS : 0}};

	timerfd_settime(r->timer_fd, 0, &at, NULL);
}

static void drop_memory(struct relay_queue *r)
{
	if (r->held_count > 0)
		return; /* by the last release */
	apus_shm_unmap(r->memory, r->memory_bytes);
	r->memory = NULL;
}

static void lose(struct relay_queue *r)
{
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
	r->state = LOST;
	r->due = apus_mono_add(apus_mono_now(), RETRY_NS);
	drop_memory(r);
	set_timer(r, true);
}

static int watch(struct relay_queue *r, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	return epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : APUS_EIO;
}

/* Connects and asks. 0, or what was refused; nothing is left then. */
static int ask(struct relay_queue *r)
{
	int rc;

	r->fd = apus_shm_connect(r->directory, r->name);
	if (r->fd < 0)
		return r->fd;
	rc = apus_shm_send(r->fd, &r->ask, sizeof(r->ask), NULL, 0);
	if (rc == 0)
		rc = watch(r, r->fd);
	if (rc != 0) {
		close(r->fd);
		r->fd = -1;
		return rc;
	}
	r->state = ASKED;
	r->due = apus_mono_add(apus_mono_now(), ANSWER_NS);
	return 0;
}

static int attach(struct relay_queue *r, const struct apus_dp_relay_opened *o, int memfd)
{
	size_t half = apus_shm_packets_bytes(o->ring_bytes);
	int rc;

	if (o->port < 1 || o->port > UINT16_MAX || (r->ask.port && o->port != r->ask.port) ||
	    apus_dp_relay_memory_bytes(o->ring_bytes) == 0)
		return APUS_EENCODING;
	r->memory_bytes = apus_dp_relay_memory_bytes(o->ring_bytes);
	rc = apus_shm_map(memfd, r->memory_bytes, true, &r->memory);
	if (rc != 0)
		return rc;
	apus_shm_packet_consumer_init(&r->in, r->memory, o->ring_bytes);
	apus_shm_packet_producer_init(&r->out, (void *)((uint8_t *)r->memory + half),
				      o->ring_bytes);
	r->held_first = 0;
	r->ask.port = r->q.unicast_port = (uint16_t)o->port;
	r->q.mtu_bytes = o->mtu_bytes < APUS_DP_DATAGRAM_MAX_BYTES ? o->mtu_bytes
								   : APUS_DP_DATAGRAM_MAX_BYTES;
	r->state = OPEN;
	set_timer(r, false);
	return 0;
}

/* Takes the answer to what was asked; `why` gets what the process says. */
static int answered(struct relay_queue *r, struct apus_shm_message *m, char *why, size_t why_bytes)
{
	struct apus_dp_relay_opened o;
	int rc = APUS_EENCODING;

	if (apus_dp_relay_kind_of(m) == APUS_DP_RELAY_OPENED && m->length == sizeof(o)) {
		memcpy(&o, m->bytes, sizeof(o));
		o.why[sizeof(o.why) - 1] = '\0';
		if (o.result < 0) {
			snprintf(why, why_bytes, "%s", o.why);
			rc = o.result;
		} else if (m->fd_count == 1) {
			rc = attach(r, &o, m->fds[0]);
		}
	}
	apus_shm_message_close(m);
	return rc;
}

/* One step towards being open again. True: it is. */
static bool recover(struct relay_queue *r)
{
	struct apus_mono now = apus_mono_now();
	struct apus_shm_message m;
	uint64_t ticks;
	char unread[1];
	int rc;

	(void)!read(r->timer_fd, &ticks, sizeof(ticks));
	if (r->held_count > 0)
		return false; /* the old memory is still read */
	if (r->state == LOST) {
		if (apus_mono_before(now, r->due))
			return false;
		if (ask(r) != 0) {
			r->due = apus_mono_add(now, RETRY_NS);
			return false;
		}
	}
	rc = apus_shm_receive(r->fd, &m);
	if (rc == 0)
		rc = answered(r, &m, unread, sizeof(unread));
	if (rc == 0) {
		apus_counter_add(&r->q.counters.reattached, 1);
		/* Relaxed: a hint to look; what is found is asked for anew. */
		atomic_store_explicit(&r->changed, true, memory_order_relaxed);
		return true;
	}
	if (rc != APUS_EAGAIN || apus_mono_before(r->due, now))
		lose(r);
	return false;
}

/* Takes bells and news off the connection; finds out whether anybody is still there. */
static void look(struct relay_queue *r)
{
	struct apus_shm_message m;
	int rc;

	r->looked = 0;
	while ((rc = apus_shm_receive(r->fd, &m)) == 0) {
		apus_counter_add(&r->q.counters.syscalls, 1);
		apus_shm_message_close(&m);
		if (apus_dp_relay_kind_of(&m) == APUS_DP_RELAY_CHANGED)
			atomic_store_explicit(&r->changed, true, memory_order_relaxed); /* a hint */
	}
	apus_counter_add(&r->q.counters.syscalls, 1);
	if (rc != APUS_EAGAIN)
		lose(r);
}

/* --- receiving ----------------------------------------------------------------------------------- */

static int take(struct relay_queue *r, int max, struct apus_dp_rx *out)
{
	struct apus_shm_packet packet;
	uint64_t bytes = 0;
	int n = 0;

	while (n < max) {
		enum apus_shm_ring_result rc;

		if (r->held_count == HELD_MAX) {
			apus_counter_add(&r->q.counters.rx_starved, 1);
			break;
		}
		rc = apus_shm_packet_take(&r->in, &packet);
		if (rc != APUS_SHM_DONE) {
			if (rc == APUS_SHM_BROKEN && n == 0)
				lose(r);
			break;
		}
		out[n].bytes = packet.bytes;
		out[n].length = packet.length;
		out[n].token = (r->held_first + r->held_count) & (HELD_MAX - 1);
		out[n].socket_idx = (uint8_t)packet.mark;
		out[n].truncated = (packet.mark & APUS_DP_RELAY_TRUNCATED) != 0;
		apus_dp_relay_get_addr(&packet, &out[n].from);
		r->held[out[n].token] = (struct held){packet.end, false};
		r->held_count++;
		bytes += packet.length;
		n++;
	}
	if (n > 0) {
		apus_counter_add(&r->q.counters.rx, (uint64_t)n);
		apus_counter_add(&r->q.counters.rx_bytes, bytes);
	}
	return n;
}

static int relay_rx(struct apus_dp_queue *q, int max, struct apus_dp_rx *out)
{
	struct relay_queue *r = of(q);
	int n;

	if (APUS_UNLIKELY(r->state != OPEN) && !recover(r))
		return 0;
	n = take(r, max, out);
	if (n > 0 || r->state != OPEN)
		return n;
	if (!r->sleeps) {
		if (++r->looked == LOOK_AFTER)
			look(r);
		return 0;
	}
	/* Whoever is told 0 may sleep: bells are taken off first, then a new one is asked for. */
	look(r);
	if (r->state != OPEN || apus_shm_packet_doze(&r->in))
		return 0;
	apus_shm_packet_wake(&r->in);
	return take(r, max, out);
}

static void relay_release(struct apus_dp_queue *q, const struct apus_dp_rx *rx, int n)
{
	struct relay_queue *r = of(q);
	uint64_t end = 0;

	for (int i = 0; i < n; i++)
		r->held[rx[i].token & (HELD_MAX - 1)].released = true;
	while (r->held_count > 0 && r->held[r->held_first].released) {
		end = r->held[r->held_first].end;
		r->held_first = (r->held_first + 1) & (HELD_MAX - 1);
		r->held_count--;
	}
	if (end && r->state == OPEN)
		apus_shm_packet_give_back(&r->in, end);
	else if (r->state != OPEN)
		drop_memory(r);
}

/* --- sending ------------------------------------------------------------------------------------- */

static void publish(struct relay_queue *r)
{
	if (!apus_shm_packet_publish(&r->out))
		return;
	/* It sleeps. With a full socket there are bells enough in it; with nobody there, receiving finds out. */
	apus_counter_add(&r->q.counters.syscalls, 1);
	(void)apus_dp_relay_say(r->fd, APUS_DP_RELAY_BELL);
}

/* Room for a datagram. A full ring is given as long as the kernel would take to send a burst. */
static bool reserve(struct relay_queue *r, uint32_t length, struct apus_shm_packet *packet)
{
	enum apus_shm_ring_result rc = apus_shm_packet_reserve(&r->out, length, packet);

	for (int i = 0; rc == APUS_SHM_NOTHING && i < FULL_ROUNDS; i++) {
		publish(r);
		for (int k = 0; k < FULL_PAUSES; k++)
			apus_cpu_relax();
		rc = apus_shm_packet_reserve(&r->out, length, packet);
		if (rc == APUS_SHM_NOTHING)
			sched_yield();
	}
	return rc == APUS_SHM_DONE;
}

/* Bytes of a datagram, or 0 if it is none that can be sent. */
static uint32_t length_of(const struct relay_queue *r, const struct apus_dp_tx *tx)
{
	size_t bytes = 0;

	if (tx->iov_count < 1 || tx->iov_count > APUS_DP_IOV_MAX ||
	    tx->to.family != r->ask.family || tx->to.port == 0)
		return UINT32_MAX;
	for (int i = 0; i < tx->iov_count; i++)
		bytes += tx->iov[i].iov_len;
	return bytes > r->q.mtu_bytes ? UINT32_MAX : (uint32_t)bytes;
}

static bool send_one(struct relay_queue *r, const struct apus_dp_tx *tx)
{
	uint32_t length = length_of(r, tx);
	struct apus_shm_packet packet = {.mark = (uint16_t)(tx->interface_idx + 1)};
	uint8_t *at;

	if (length == UINT32_MAX || !reserve(r, length, &packet))
		return false;
	at = packet.bytes;
	for (int i = 0; i < tx->iov_count; i++) {
		if (tx->iov[i].iov_len)
			memcpy(at, tx->iov[i].iov_base, tx->iov[i].iov_len);
		at += tx->iov[i].iov_len;
	}
	apus_dp_relay_put_addr(&packet, &tx->to);
	apus_shm_packet_commit(&r->out, &packet);
	apus_counter_add(&r->q.counters.tx_bytes, length);
	return true;
}

static int relay_tx(struct apus_dp_queue *q, const struct apus_dp_tx *tx, int n)
{
	struct relay_queue *r = of(q);
	int sent = 0;

	for (int i = 0; i < n && r->state == OPEN; i++)
		sent += send_one(r, &tx[i]);
	if (sent > 0)
		publish(r);
	apus_counter_add(&q->counters.tx, (uint64_t)sent);
	apus_counter_add(&q->counters.tx_dropped, (uint64_t)(n - sent));
	return sent;
}

/* --- the rest ------------------------------------------------------------------------------------ */

static uint32_t find_group(const struct relay_queue *r, const struct apus_dp_group *group)
{
	uint32_t i = 0;

	while (i < r->ask.group_count && !apus_dp_addr_equal(&r->ask.groups[i], &group->group))
		i++;
	return i;
}

/* Tells the process; while there is none, its successor will be asked for all groups at once. */
static int change_group(struct relay_queue *r, enum apus_dp_relay_kind kind,
			const struct apus_dp_group *group)
{
	struct apus_dp_relay_group change = {apus_dp_relay_head(kind), group->group};
	struct apus_dp_relay_done done;
	struct apus_shm_message m;
	int rc;

	if (r->state != OPEN)
		return 0;
	rc = apus_shm_send(r->fd, &change, sizeof(change), NULL, 0);
	if (rc == 0)
		rc = apus_dp_relay_await(r->fd, &m);
	if (rc != 0) {
		lose(r);
		return 0;
	}
	apus_shm_message_close(&m);
	if (apus_dp_relay_kind_of(&m) != APUS_DP_RELAY_DONE || m.length != sizeof(done))
		return APUS_EIO;
	memcpy(&done, m.bytes, sizeof(done));
	return done.result;
}

static int relay_join(struct apus_dp_queue *q, const struct apus_dp_group *group)
{
	struct relay_queue *r = of(q);
	int rc;

	if (!apus_dp_addr_is_multicast(&group->group) || group->group.port == 0 ||
	    group->group.family != r->ask.family)
		return APUS_EINVAL;
	if (find_group(r, group) < r->ask.group_count)
		return APUS_EEXIST;
	if (r->ask.group_count == APUS_DP_GROUP_MAX)
		return APUS_ELIMIT;
	rc = change_group(r, APUS_DP_RELAY_JOIN, group);
	if (rc == 0)
		r->ask.groups[r->ask.group_count++] = group->group;
	return rc;
}

static int relay_leave(struct apus_dp_queue *q, const struct apus_dp_group *group)
{
	struct relay_queue *r = of(q);
	uint32_t at = find_group(r, group);

	if (at == r->ask.group_count)
		return APUS_ENOENT;
	r->ask.groups[at] = r->ask.groups[--r->ask.group_count];
	return change_group(r, APUS_DP_RELAY_LEAVE, group);
}

static int relay_fd(struct apus_dp_queue *q)
{
	of(q)->sleeps = true;
	return of(q)->epoll_fd;
}

/* They are the process's own; only which of them this queue uses is known here. */
static void relay_set_interfaces(struct apus_dp_queue *q, const struct apus_dp_netif *interfaces,
				 uint32_t count)
{
	struct relay_queue *r = of(q);

	r->ask.interface_count = count;
	for (uint32_t i = 0; i < count; i++)
		r->ask.ifindex[i] = interfaces[i].ifindex;
}

static void relay_close(struct apus_dp_queue *q)
{
	struct relay_queue *r = of(q);

	if (r->state == OPEN)
		(void)apus_dp_relay_say(r->fd, APUS_DP_RELAY_BYE);
	if (r->fd >= 0)
		close(r->fd);
	if (r->epoll_fd >= 0)
		close(r->epoll_fd);
	if (r->timer_fd >= 0)
		close(r->timer_fd);
	apus_shm_unmap(r->memory, r->memory_bytes);
	free(r);
}

static const struct apus_dp_queue_ops ops = {
	.rx = relay_rx,
	.release = relay_release,
	.tx = relay_tx,
	.join = relay_join,
	.leave = relay_leave,
	.fd = relay_fd,
	.set_interfaces = relay_set_interfaces,
	.close = relay_close,
};

bool apus_dp_relay_queue_changed(struct apus_dp_queue *q)
{
	/* Relaxed: a hint to look; what is found is asked for anew. */
	return atomic_exchange_explicit(&of(q)->changed, false, memory_order_relaxed);
}

/* So many receive buffers, at 8 KiB each, as a ring. */
static uint32_t ring_bytes_of(const struct apus_dp_queue_config *config)
{
	uint32_t bytes = APUS_DP_RELAY_RING_MIN;

	while (bytes < APUS_DP_RELAY_RING_MAX && bytes / 8192 < config->rx_buffer_count)
		bytes *= 2;
	return bytes;
}

static int prepare(struct relay_queue *r, const struct apus_dp_queue_config *c)
{
	struct apus_dp_relay_open *ask = &r->ask;

	*ask = (struct apus_dp_relay_open){
		.head = apus_dp_relay_head(APUS_DP_RELAY_OPEN),
		.family = c->interfaces[0].family == AF_INET6 ? AF_INET6 : AF_INET,
		.port = c->unicast_port,
		.ttl = c->multicast_ttl,
		.loop = c->multicast_loop,
		.segment = c->segment,
		.bind_any = c->bind_any,
		.sndbuf_bytes = c->sndbuf_bytes,
		.rcvbuf_bytes = c->rcvbuf_bytes,
		.ring_bytes = ring_bytes_of(c),
		.group_count = c->group_count,
		.interface_count = c->interface_count,
	};
	if (c->group_count > APUS_DP_GROUP_MAX || c->interface_count < 1 ||
	    c->interface_count > APUS_DP_NETIF_MAX || c->adopt_fd)
		return APUS_EINVAL;
	for (uint32_t i = 0; i < c->interface_count; i++)
		ask->ifindex[i] = c->interfaces[i].ifindex;
	for (uint32_t i = 0; i < c->group_count; i++)
		ask->groups[i] = c->groups[i].group;
	r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	r->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	return r->epoll_fd < 0 || r->timer_fd < 0 ? APUS_EIO : watch(r, r->timer_fd);
}

int apus_dp_relay_queue_open(const struct apus_dp_queue_config *config, const char *directory,
			     const char *name, char *why, size_t why_bytes,
			     struct apus_dp_queue **queue_out)
{
	struct relay_queue *r = calloc(1, sizeof(*r));
	struct apus_shm_message m;
	char unread[1], said[128] = "";
	int rc;

	if (!why) {
		why = unread;
		why_bytes = sizeof(unread);
	}
	if (!r)
		return APUS_ENOMEM;
	r->q.ops = &ops;
	r->q.kind = APUS_DP_QUEUE_WORKER;
	r->fd = r->epoll_fd = r->timer_fd = -1;
	rc = strlen(name) > APUS_SHM_LINK_NAME ? APUS_EINVAL : prepare(r, config);
	if (rc == 0)
		rc = apus_dp_relay_directory(directory, r->directory, sizeof(r->directory));
	if (rc == 0) {
		strcpy(r->name, name);
		rc = ask(r);
	}
	if (rc == 0)
		rc = apus_dp_relay_await(r->fd, &m);
	if (rc == 0)
		rc = answered(r, &m, said, sizeof(said));
	if (rc == 0) {
		*queue_out = &r->q;
		return 0;
	}
	relay_close(&r->q);
	if (said[0])
		snprintf(why, why_bytes, "%s", said);
	else
		apus_dp_relay_say_why(rc, name, why, why_bytes);
	return rc;
}
