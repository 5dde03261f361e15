/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue on a port: the operations of struct apus_dp_queue. All under the turn of the worker that owns it; what the
 * port's claim owns is reached through poll.c.
 *
 * Sleeping. A port cannot wake anybody. While some thread polls it, that thread raises the descriptor of a sleeper
 * that it has a datagram for; else the sleeper looks itself, every poll_period_ns, by a timer in its descriptor. The
 * timer slows down while others poll.
 */
#include "dpdk/port.h"

#include <apus/core.h>

#include <rte_eal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* The clock is read at one in so many looks that find nothing. */
#define LOOKS_PER_CLOCK 16
/* Looks of others within a period from which on they count as polling, and how much longer it is then. */
#define POLLING_LOOKS  8
#define POLLED_FACTOR  10
#define EPHEMERAL_PORT 49152

static struct apus_dpdk_queue *of(struct apus_dp_queue *q)
{
	return (struct apus_dpdk_queue *)q;
}

/* --- receiving ------------------------------------------------------------------------------------ */

void apus_dpdk_queue_accept(struct apus_dpdk_queue *q, const struct apus_dpdk_item *item,
			    struct apus_dp_rx *out)
{
	uint32_t token = q->free_tokens[--q->free_count];

	q->held[token] = item->hold;
	out->bytes = item->bytes;
	out->length = item->length;
	out->token = token;
	out->socket_idx = item->socket_idx;
	out->truncated = false;
	out->from = item->from;
	apus_counter_add(&q->q.counters.rx, 1);
	apus_counter_add(&q->q.counters.rx_bytes, item->length);
}

static int take_inbox(struct apus_dpdk_queue *q, int max, struct apus_dp_rx *out)
{
	uint32_t place;
	int n = 0;

	while (n < max && q->free_count > 0 && apus_dpdk_ring_peek(&q->inbox, &place)) {
		apus_dpdk_queue_accept(q, &q->inbox_items[place], &out[n++]);
		apus_dpdk_ring_pop(&q->inbox);
	}
	if (q->free_count == 0 && !q->starved)
		apus_counter_add(&q->q.counters.rx_starved, 1);
	q->starved = q->free_count == 0;
	return n;
}

static void set_timer(struct apus_dpdk_queue *q, int64_t period_ns)
{
	struct timespec ts = {period_ns / APUS_NS_PER_SEC, period_ns % APUS_NS_PER_SEC};

	timerfd_settime(q->timer_fd, 0, &(struct itimerspec){ts, ts}, NULL);
	apus_counter_add(&q->q.counters.syscalls, 1);
	q->timer_period_ns = period_ns;
}

/* The period is over: the descriptor is lowered, and the next period as long as others deserve. */
static void on_timer(struct apus_dpdk_queue *q)
{
	uint64_t others = apus_counter_get(&q->port->counters.polls) - q->polls_own;
	int64_t period = q->port->settings.poll_period_ns;
	uint64_t count;

	if (others - q->polls_seen >= POLLING_LOOKS)
		period *= POLLED_FACTOR;
	q->polls_seen = others;
	(void)!read(q->timer_fd, &count, sizeof(count));
	apus_counter_add(&q->q.counters.syscalls, 1);
	if (period != q->timer_period_ns)
		set_timer(q, period);
	q->timer_due = apus_mono_add(q->now, period);
}

static void awake(struct apus_dpdk_queue *q)
{
	uint64_t count;

	q->now = apus_mono_now();
	if (!apus_mono_before(q->now, q->timer_due))
		on_timer(q);
	/* Acquire: A2, pairs with the release of who has written. */
	if (atomic_load_explicit(&q->raised, memory_order_acquire) == 0)
		return;
	/* Relaxed: written again only after `armed` is set again. */
	atomic_store_explicit(&q->raised, 0, memory_order_relaxed);
	(void)!read(q->event_fd, &count, sizeof(count));
	apus_counter_add(&q->q.counters.syscalls, 1);
}

/* Gives back what a token stands for; false: there is no room in the returns at present. */
static bool give_back(struct apus_dpdk_queue *q, uint32_t token)
{
	struct apus_dpdk_hold *hold = &q->held[token];
	uint32_t place;

	if (!hold->frame) {
		apus_dpdk_hold_drop(q->port, hold);
	} else if (apus_dpdk_ring_reserve(&q->returns, &place)) {
		q->returned[place] = hold->frame;
		apus_dpdk_ring_push(&q->returns);
	} else {
		return false;
	}
	*hold = (struct apus_dpdk_hold){.assembly_idx = -1};
	q->free_tokens[q->free_count++] = token;
	return true;
}

static void queue_release(struct apus_dp_queue *queue, const struct apus_dp_rx *rx, int n)
{
	struct apus_dpdk_queue *q = of(queue);

	for (int i = 0; i < n; i++)
		if (!give_back(q, rx[i].token))
			q->late_tokens[q->late_count++] = rx[i].token;
}

static void give_back_late(struct apus_dpdk_queue *q)
{
	while (q->late_count > 0 && give_back(q, q->late_tokens[q->late_count - 1]))
		q->late_count--;
}

static int queue_rx(struct apus_dp_queue *queue, int max, struct apus_dp_rx *out)
{
	struct apus_dpdk_queue *q = of(queue);
	int n;

	if (q->set_fd >= 0)
		awake(q);
	else if (q->looks++ % LOOKS_PER_CLOCK == 0)
		q->now = apus_mono_now();
	if (q->late_count > 0)
		give_back_late(q);
	n = take_inbox(q, max, out);
	if (n < max)
		n += apus_dpdk_port_poll(q, q->now, max - n, out + n);
	if (q->set_fd < 0)
		return n;
	/* A1: seq_cst, before the last look at the inbox; pairs with who fills it and then looks here. Even with
	 * something found: another thread may sleep for this worker. */
	atomic_exchange(&q->armed, 1);
	return n > 0 ? n : take_inbox(q, max, out);
}

/* --- sending -------------------------------------------------------------------------------------- */

static uint32_t length_of(const struct apus_dp_tx *tx)
{
	uint32_t bytes = 0;

	for (int i = 0; i < tx->iov_count; i++)
		bytes += (uint32_t)tx->iov[i].iov_len;
	return bytes;
}

static void gather(const struct apus_dp_tx *tx, uint8_t *out)
{
	for (int i = 0; i < tx->iov_count; i++) {
		memcpy(out, tx->iov[i].iov_base, tx->iov[i].iov_len);
		out += tx->iov[i].iov_len;
	}
}

static struct apus_dpdk_large *take_large(struct apus_dpdk_place *place)
{
	for (uint32_t i = 0; i < APUS_DPDK_LARGE_COUNT; i++) {
		struct apus_dpdk_large *large = &place->large[i];

		/* Acquire: pairs with the release of the last who read it. */
		if (atomic_load_explicit(&large->references, memory_order_acquire) != 0)
			continue;
		/* Relaxed: only the owner takes one; the outbox orders. */
		atomic_store_explicit(&large->references, 1, memory_order_relaxed);
		return large;
	}
	return NULL;
}

/* Copies a datagram to where it is sent from. False: too long, or no buffer. */
static bool compose(struct apus_dpdk_queue *q, const struct apus_dp_tx *tx,
		    struct apus_dpdk_staged *out)
{
	uint32_t length = length_of(tx);

	*out = (struct apus_dpdk_staged){.length = length, .to = tx->to};
	if (length > APUS_DP_DATAGRAM_MAX_BYTES)
		return false;
	if (length <= q->frame_payload_bytes[tx->to.family == AF_INET6]) {
		out->frame = rte_pktmbuf_alloc(q->place->pool);
		if (!out->frame)
			return false;
		gather(tx, (uint8_t *)rte_pktmbuf_append(out->frame, (uint16_t)length));
	} else {
		out->large = take_large(q->place);
		if (!out->large)
			return false;
		gather(tx, out->large->bytes);
	}
	apus_counter_add(&q->q.counters.tx_bytes, length);
	return true;
}

static bool stage(struct apus_dpdk_queue *q, const struct apus_dp_tx *tx)
{
	uint32_t place;

	if (!apus_dpdk_ring_reserve(&q->outbox, &place) || !compose(q, tx, &q->outbox_items[place]))
		return false;
	apus_dpdk_ring_push(&q->outbox);
	return true;
}

static void send_off(struct apus_dpdk_queue *q)
{
	/* C2: seq_cst, after the outbox is filled and before the look at the claim word. */
	atomic_store(&q->port->staged, 1);
	apus_dpdk_port_flush(q->port);
}

/* The clock of what is sent need not be exact: neighbours age by seconds. */
static struct apus_mono rough_now(struct apus_dpdk_queue *q)
{
	if (q->set_fd >= 0 || q->sends++ % LOOKS_PER_CLOCK == 0)
		q->now = apus_mono_now();
	return q->now;
}

/* With the claim at hand, without the outbox. Returns how many: fewer than n once no buffer is left, all of which
 * the device may have until it is given more. */
static int send_directly(struct apus_dpdk_queue *q, const struct apus_dp_tx *tx, int n)
{
	struct apus_dpdk_staged s;
	int sent = 0;

	if (!apus_dpdk_port_begin_send(q, rough_now(q)))
		return 0;
	while (sent < n && compose(q, &tx[sent], &s)) {
		apus_dpdk_port_send(q, &s);
		sent++;
	}
	apus_dpdk_port_end_send(q);
	return sent;
}

static int queue_tx(struct apus_dp_queue *queue, const struct apus_dp_tx *tx, int n)
{
	struct apus_dpdk_queue *q = of(queue);
	int direct = send_directly(q, tx, n), accepted = 0;

	for (int i = direct; i < n; i++) {
		bool staged = stage(q, &tx[i]);

		if (!staged && length_of(&tx[i]) <= APUS_DP_DATAGRAM_MAX_BYTES) {
			/* Full: once the device has had what there is, unless another thread is at it. */
			send_off(q);
			staged = stage(q, &tx[i]);
		}
		accepted += staged;
	}
	if (accepted > 0)
		send_off(q);
	accepted += direct;
	apus_counter_add(&q->q.counters.tx, (uint64_t)accepted);
	if (accepted < n)
		apus_counter_add(&q->q.counters.tx_dropped, (uint64_t)(n - accepted));
	return accepted;
}

/* --- groups --------------------------------------------------------------------------------------- */

static int find_group(const struct apus_dpdk_queue *q, const struct apus_dp_addr *group)
{
	for (int i = 0; i < APUS_DP_GROUP_MAX; i++)
		if (apus_dp_addr_equal(&q->group[i], group))
			return i;
	return APUS_ENOENT;
}

static int join_claimed(struct apus_dpdk_queue *q, int place, const struct apus_dp_addr *group)
{
	struct apus_ip_endpoint address = apus_dpdk_endpoint(group);
	struct apus_dp_port *port = q->port;
	int rc;

	if (port->member_count == APUS_DPDK_MEMBERS_MAX)
		return APUS_ELIMIT;
	rc = apus_ip_join(port->ip, &address, port->now);
	if (rc != 0)
		return rc;
	port->member[port->member_count++] = (struct apus_dpdk_member){
		.group = *group, .place_idx = q->place_idx, .socket_idx = (uint8_t)(place + 1)};
	q->group[place] = *group;
	return 0;
}

static int queue_join(struct apus_dp_queue *queue, const struct apus_dp_group *group)
{
	static const struct apus_dp_addr none;
	struct apus_dpdk_queue *q = of(queue);
	int place, rc;

	if (!apus_dp_addr_is_multicast(&group->group) || group->group.port == 0)
		return APUS_EINVAL;
	if (find_group(q, &group->group) >= 0)
		return APUS_EEXIST;
	place = find_group(q, &none);
	if (place < 0)
		return APUS_ELIMIT;
	apus_dpdk_port_take(q->port);
	rc = join_claimed(q, place, &group->group);
	apus_dpdk_port_give(q->port);
	return rc;
}

static void leave_claimed(struct apus_dpdk_queue *q, int place)
{
	struct apus_ip_endpoint address = apus_dpdk_endpoint(&q->group[place]);
	struct apus_dp_port *port = q->port;

	for (uint32_t i = 0; i < port->member_count; i++)
		if (port->member[i].place_idx == q->place_idx &&
		    port->member[i].socket_idx == place + 1)
			port->member[i--] = port->member[--port->member_count];
	apus_ip_leave(port->ip, &address, port->now);
	memset(&q->group[place], 0, sizeof(q->group[place]));
}

static int queue_leave(struct apus_dp_queue *queue, const struct apus_dp_group *group)
{
	struct apus_dpdk_queue *q = of(queue);
	int place = find_group(q, &group->group);

	if (place < 0 || group->group.family == 0)
		return APUS_ENOENT;
	apus_dpdk_port_take(q->port);
	leave_claimed(q, place);
	apus_dpdk_port_give(q->port);
	return 0;
}

/* --- sleeping ------------------------------------------------------------------------------------- */

static bool add_fd(int set, int fd)
{
	struct epoll_event e = {.events = EPOLLIN};

	return epoll_ctl(set, EPOLL_CTL_ADD, fd, &e) == 0;
}

static void close_fds(struct apus_dpdk_queue *q)
{
	if (q->set_fd >= 0)
		close(q->set_fd);
	if (q->event_fd >= 0)
		close(q->event_fd);
	if (q->timer_fd >= 0)
		close(q->timer_fd);
	q->set_fd = q->event_fd = q->timer_fd = -1;
}

static int queue_fd(struct apus_dp_queue *queue)
{
	struct apus_dpdk_queue *q = of(queue);
	int set;

	if (q->set_fd >= 0)
		return q->set_fd;
	set = epoll_create1(EPOLL_CLOEXEC);
	q->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	q->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	q->set_fd = set;
	if (set < 0 || q->event_fd < 0 || q->timer_fd < 0 || !add_fd(set, q->event_fd) ||
	    !add_fd(set, q->timer_fd)) {
		close_fds(q);
		return APUS_EIO;
	}
	q->now = apus_mono_now();
	set_timer(q, q->port->settings.poll_period_ns);
	q->timer_due = apus_mono_add(q->now, q->timer_period_ns);
	return set;
}

/* --- opening and closing -------------------------------------------------------------------------- */

static void free_queue(struct apus_dpdk_queue *q)
{
	close_fds(q);
	free(q->free_tokens);
	free(q->held);
	free(q->late_tokens);
	free(q->inbox_items);
	free(q->returned);
	free(q->outbox_items);
	free(q);
}

static void queue_close(struct apus_dp_queue *queue)
{
	struct apus_dpdk_queue *q = of(queue);
	struct apus_dp_port *port = q->port;

	apus_dpdk_port_take(port);
	for (int i = 0; i < APUS_DP_GROUP_MAX; i++)
		if (q->group[i].family != 0)
			leave_claimed(q, i);
	/* What it staged last leaves before it does. C2: as in send_off(). */
	atomic_store(&port->staged, 1);
	apus_dpdk_port_give(port);
	apus_dpdk_port_take(port);
	port->by_port[queue->unicast_port] = 0;
	apus_dpdk_port_reclaim(q);
	port->queue[q->place_idx] = NULL;
	while (port->queue_count > 0 && !port->queue[port->queue_count - 1])
		port->queue_count--;
	port->hold_left += 2 * q->limit;
	apus_dpdk_port_give(port);
	free_queue(q);
}

static const struct apus_dp_queue_ops queue_ops = {
	.rx = queue_rx,
	.release = queue_release,
	.tx = queue_tx,
	.join = queue_join,
	.leave = queue_leave,
	.fd = queue_fd,
	.set_interfaces = NULL,
	.close = queue_close,
};

static struct apus_dpdk_queue *create_queue(struct apus_dp_port *port,
					    const struct apus_dp_queue_config *config)
{
	struct apus_dpdk_queue *q = aligned_alloc(APUS_CACHE_LINE, sizeof(*q));
	uint32_t places = 1;

	if (!q)
		return NULL;
	memset(q, 0, sizeof(*q));
	while (places < config->rx_buffer_count)
		places *= 2;
	q->q.ops = &queue_ops;
	q->q.kind = APUS_DP_QUEUE_DPDK;
	q->q.mtu_bytes = APUS_DP_DATAGRAM_MAX_BYTES;
	q->port = port;
	q->loop = config->multicast_loop;
	q->set_fd = q->event_fd = q->timer_fd = -1;
	q->limit = q->free_count = places;
	q->free_tokens = calloc(places, sizeof(q->free_tokens[0]));
	q->held = calloc(places, sizeof(q->held[0]));
	q->late_tokens = calloc(places, sizeof(q->late_tokens[0]));
	q->inbox_items = calloc(places, sizeof(q->inbox_items[0]));
	q->returned = calloc(places, sizeof(struct rte_mbuf *));
	q->outbox_items = calloc(APUS_DPDK_OUTBOX, sizeof(q->outbox_items[0]));
	if (!q->free_tokens || !q->held || !q->late_tokens || !q->inbox_items || !q->returned ||
	    !q->outbox_items) {
		free_queue(q);
		return NULL;
	}
	for (uint32_t i = 0; i < places; i++) {
		q->free_tokens[i] = places - 1 - i;
		q->held[i].assembly_idx = -1;
	}
	apus_dpdk_ring_init(&q->inbox, places);
	apus_dpdk_ring_init(&q->returns, places);
	apus_dpdk_ring_init(&q->outbox, APUS_DPDK_OUTBOX);
	return q;
}

static uint16_t free_port(const struct apus_dp_port *port)
{
	for (uint32_t i = EPHEMERAL_PORT; i < 65536; i++)
		if (port->by_port[i] == 0)
			return (uint16_t)i;
	return 0;
}

/* Memory for what the queue stages, unless one before it in this place had it. */
static int equip(struct apus_dp_port *port, struct apus_dpdk_place *place)
{
	if (!place->pool)
		place->pool =
			apus_dpdk_pool_create(APUS_DPDK_STAGE_FRAMES + port->device.tx_descriptors,
					      port->device.frame_bytes);
	if (!place->large)
		place->large = calloc(APUS_DPDK_LARGE_COUNT, sizeof(place->large[0]));
	return place->pool && place->large ? 0 : APUS_ENOMEM;
}

/* Finds a place and enters the queue there. Under the claim. */
static int enter(struct apus_dp_port *port, const struct apus_dp_queue_config *config,
		 struct apus_dpdk_queue *q)
{
	uint16_t udp_port = config->unicast_port ? config->unicast_port : free_port(port);
	uint32_t idx = 0;
	int rc;

	if (udp_port == 0 ||
	    (port->by_port[udp_port] != 0 && port->by_port[udp_port] != APUS_DPDK_RESERVED))
		return APUS_EADDRINUSE;
	while (idx < APUS_DPDK_PLACES_MAX && port->queue[idx])
		idx++;
	if (idx == APUS_DPDK_PLACES_MAX || port->hold_left < 2 * q->limit)
		return APUS_ELIMIT;
	rc = equip(port, &port->place[idx]);
	if (rc != 0)
		return rc;
	q->place = &port->place[idx];
	q->place_idx = (uint8_t)idx;
	q->q.unicast_port = udp_port;
	q->frame_payload_bytes[0] = apus_ip_payload_bytes(port->ip, AF_INET);
	q->frame_payload_bytes[1] = apus_ip_payload_bytes(port->ip, AF_INET6);
	port->hold_left -= 2 * q->limit;
	port->by_port[udp_port] = (uint8_t)(idx + 1);
	port->queue[idx] = q;
	if (port->queue_count <= idx)
		port->queue_count = idx + 1;
	return 0;
}

int apus_dpdk_queue_open(struct apus_dp_port *port, const struct apus_dp_queue_config *config,
			 char *why, size_t why_bytes, struct apus_dp_queue **queue_out)
{
	struct apus_dpdk_queue *q;
	int rc;

	if (config->group_count > APUS_DP_GROUP_MAX || config->rx_buffer_count < 1 ||
	    config->rx_buffer_count > 16384 || config->adopt_fd) {
		snprintf(why, why_bytes, "a configuration no queue of a port can have");
		return APUS_EINVAL;
	}
	q = create_queue(port, config);
	if (!q)
		return APUS_ENOMEM;
	apus_dpdk_port_take(port);
	rc = enter(port, config, q);
	apus_dpdk_port_give(port);
	if (rc != 0) {
		snprintf(why, why_bytes, "UDP port %u on %s: %s", config->unicast_port,
			 port->device.name, apus_strerror(rc));
		free_queue(q);
		return rc;
	}
	for (uint32_t i = 0; i < config->group_count && rc == 0; i++)
		rc = queue_join(&q->q, &config->groups[i]);
	if (rc != 0) {
		snprintf(why, why_bytes, "multicast on %s: %s", port->device.name,
			 apus_strerror(rc));
		queue_close(&q->q);
		return rc;
	}
	*queue_out = &q->q;
	return 0;
}
