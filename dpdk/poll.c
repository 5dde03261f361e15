/* SPDX-License-Identifier: Apache-2.0 */
/* What the holder of a port's claim does: receives, steers, sends. See port.h for who owns what. */
#include "dpdk/port.h"

#include <apus/core.h>

#include <rte_ethdev.h>
#include <sched.h>
#include <unistd.h>

/* Times a device that is full is offered the rest of a burst again. */
#define OFFERS 4

/* --- the claim ------------------------------------------------------------------------------------ */

static bool try_claim(struct apus_dp_port *port)
{
	uint32_t free_word = 0;

	/* A look before the exchange leaves the line with its holder. C1: seq_cst both, after C2 of who has
	 * staged something; the exchange also acquires what the last holder released. */
	return atomic_load(&port->claim) == 0 &&
	       atomic_compare_exchange_strong(&port->claim, &free_word, 1);
}

void apus_dpdk_port_take(struct apus_dp_port *port)
{
	while (!try_claim(port))
		sched_yield();
	port->now = apus_mono_now();
}

/* --- buffers -------------------------------------------------------------------------------------- */

void apus_dpdk_hold_drop(struct apus_dp_port *port, const struct apus_dpdk_hold *hold)
{
	if (hold->frame) {
		rte_pktmbuf_free(hold->frame);
	} else if (hold->large) {
		/* Release: pairs with the acquire of who takes it anew: reading is over before. */
		atomic_fetch_sub_explicit(&hold->large->references, 1, memory_order_release);
	} else if (hold->assembly_idx >= 0) {
		_Atomic uint32_t *references = &port->assembly_references[hold->assembly_idx];

		/* acq_rel: the last one's release to the engine comes after everybody's reading. */
		if (atomic_fetch_sub_explicit(references, 1, memory_order_acq_rel) == 1)
			apus_ip_release(port->ip, hold->assembly_idx);
	}
}

/* n more references, before anybody else knows of them. */
static void hold_share(struct apus_dp_port *port, const struct apus_dpdk_hold *hold, uint32_t n)
{
	if (hold->frame)
		rte_mbuf_refcnt_update(hold->frame, (int16_t)n);
	else if (hold->large)
		/* Relaxed: passed on by the ring, which orders. */
		atomic_fetch_add_explicit(&hold->large->references, n, memory_order_relaxed);
	else if (hold->assembly_idx >= 0)
		/* Relaxed: likewise. */
		atomic_fetch_add_explicit(&port->assembly_references[hold->assembly_idx], n,
					  memory_order_relaxed);
}

static void take_returns(struct apus_dp_port *port)
{
	uint32_t place;

	for (uint32_t i = 0; i < port->queue_count; i++) {
		struct apus_dpdk_queue *q = port->queue[i];

		while (q && apus_dpdk_ring_peek(&q->returns, &place)) {
			rte_pktmbuf_free(q->returned[place]);
			apus_dpdk_ring_pop(&q->returns);
		}
	}
}

void apus_dpdk_port_reclaim(struct apus_dpdk_queue *q)
{
	uint32_t place;

	take_returns(q->port);
	while (apus_dpdk_ring_peek(&q->inbox, &place)) {
		apus_dpdk_hold_drop(q->port, &q->inbox_items[place].hold);
		apus_dpdk_ring_pop(&q->inbox);
	}
	for (uint32_t i = 0; i < q->limit; i++)
		apus_dpdk_hold_drop(q->port, &q->held[i]);
}

/* --- to queues ------------------------------------------------------------------------------------ */

static bool hand_over(struct apus_dpdk_queue *q, const struct apus_dpdk_item *item)
{
	uint32_t place;

	if (q->direct && q->direct_count < q->direct_room && q->free_count > 0 &&
	    !apus_dpdk_ring_peek(&q->inbox, &place)) {
		apus_dpdk_queue_accept(q, item, &q->direct[q->direct_count++]);
		return true;
	}
	if (!apus_dpdk_ring_reserve(&q->inbox, &place))
		return false;
	q->inbox_items[place] = *item;
	apus_dpdk_ring_push(&q->inbox);
	q->woken = true;
	return true;
}

static void hand_or_drop(struct apus_dp_port *port, uint8_t place_idx, uint8_t socket_idx,
			 struct apus_dpdk_item *item)
{
	item->socket_idx = socket_idx;
	if (hand_over(port->queue[place_idx], item))
		return;
	apus_counter_add(&port->counters.rx_overflow, 1);
	apus_dpdk_hold_drop(port, &item->hold);
}

/* To all members of a group but the sender's own queue. Returns their number. */
static uint32_t steer_group(struct apus_dp_port *port, const struct apus_dp_addr *to,
			    const struct apus_dpdk_queue *except, struct apus_dpdk_item *item)
{
	uint8_t targets[APUS_DPDK_MEMBERS_MAX];
	uint32_t n = 0;

	for (uint32_t i = 0; i < port->member_count; i++)
		if (apus_dp_addr_equal(&port->member[i].group, to) &&
		    port->queue[port->member[i].place_idx] != except)
			targets[n++] = (uint8_t)i;
	if (n > 0)
		hold_share(port, &item->hold, n);
	for (uint32_t i = 0; i < n; i++)
		hand_or_drop(port, port->member[targets[i]].place_idx,
			     port->member[targets[i]].socket_idx, item);
	return n;
}

/* To whoever listens there, each with a reference of its own; the caller keeps its one. Returns how many. */
static uint32_t steer(struct apus_dp_port *port, const struct apus_dp_addr *to,
		      const struct apus_dpdk_queue *except, struct apus_dpdk_item *item)
{
	uint8_t place = port->by_port[to->port];

	if (apus_dp_addr_is_multicast(to))
		return steer_group(port, to, except, item);
	if (place == 0 || place == APUS_DPDK_RESERVED)
		return 0;
	hold_share(port, &item->hold, 1);
	hand_or_drop(port, place - 1, 0, item);
	return 1;
}

static void wake(struct apus_dp_port *port)
{
	for (uint32_t i = 0; i < port->queue_count; i++) {
		struct apus_dpdk_queue *q = port->queue[i];

		if (!q || !q->woken)
			continue;
		q->woken = false;
		/* A1: seq_cst, after R1; pairs with the owner's store before it looks at the inbox. */
		if (atomic_load(&q->armed) == 0 || atomic_exchange(&q->armed, 0) == 0)
			continue;
		(void)!write(q->event_fd, &(uint64_t){1}, sizeof(uint64_t));
		/* Release: A2, pairs with the acquire of who reads event_fd: there is something to read. */
		atomic_store_explicit(&q->raised, 1, memory_order_release);
		apus_counter_add(&port->counters.wakes, 1);
	}
}

/* --- received frames ------------------------------------------------------------------------------ */

static uint32_t flags_of(const struct apus_dp_port *port, const struct rte_mbuf *m)
{
	uint32_t flags = port->device.reassembles ? APUS_IP_RX_REASSEMBLES : 0;

	if ((m->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK) == RTE_MBUF_F_RX_IP_CKSUM_GOOD)
		flags |= APUS_IP_RX_IP_CHECKSUM_GOOD;
	if ((m->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_GOOD)
		flags |= APUS_IP_RX_UDP_CHECKSUM_GOOD;
	if (m->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED)
		flags |= APUS_IP_RX_VLAN_STRIPPED | m->vlan_tci;
	return flags;
}

static void on_datagram(struct apus_dp_port *port, struct rte_mbuf *m,
			const struct apus_ip_datagram *d)
{
	struct apus_dp_addr to = apus_dpdk_addr(&d->to);
	struct apus_dpdk_item item = {
		.bytes = d->payload,
		.length = d->payload_bytes,
		.hold = {.frame = d->buffer_idx < 0 ? m : NULL, .assembly_idx = d->buffer_idx},
		.from = apus_dpdk_addr(&d->from),
	};

	if (d->buffer_idx >= 0)
		/* Relaxed: ours alone so far. */
		atomic_store_explicit(&port->assembly_references[d->buffer_idx], 1,
				      memory_order_relaxed);
	if (steer(port, &to, NULL, &item) == 0) {
		apus_counter_add(&port->counters.rx_no_queue, 1);
		if (!d->multicast)
			apus_ip_unreachable(port->ip, d, port->now);
	}
	/* Our own reference. That of a frame goes with it. */
	if (d->buffer_idx >= 0)
		apus_dpdk_hold_drop(port, &item.hold);
}

static void on_frame(struct apus_dp_port *port, struct rte_mbuf *m)
{
	struct apus_ip_datagram d;

	apus_counter_add(&port->counters.rx_bytes, m->pkt_len);
	if (m->nb_segs != 1)
		apus_counter_add(&port->counters.rx_segmented, 1);
	else if (apus_ip_input(port->ip, rte_pktmbuf_mtod(m, const uint8_t *), m->data_len,
			       flags_of(port, m), port->now, &d) == APUS_IP_UDP)
		on_datagram(port, m, &d);
	rte_pktmbuf_free(m);
}

/* A burst of one of the device's queues, in turns: each the first to be asked once, up to all if they are empty. */
static uint32_t burst(struct apus_dp_port *port, struct rte_mbuf *frames[APUS_DPDK_BURST])
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < port->device.queue_count && n == 0; i++) {
		n = rte_eth_rx_burst(port->device.id, (uint16_t)port->rx_queue, frames,
				     APUS_DPDK_BURST);
		if (++port->rx_queue == port->device.queue_count)
			port->rx_queue = 0;
	}
	return n;
}

static uint32_t receive(struct apus_dp_port *port)
{
	struct rte_mbuf *frames[APUS_DPDK_BURST];
	uint32_t n = burst(port, frames);

	if (n == 0)
		return 0;
	port->now = apus_mono_now();
	apus_counter_add(&port->counters.rx_frames, n);
	for (uint32_t i = 0; i < n; i++)
		rte_prefetch0(rte_pktmbuf_mtod(frames[i], void *));
	for (uint32_t i = 0; i < n; i++)
		on_frame(port, frames[i]);
	return n;
}

/* --- frames to be sent ---------------------------------------------------------------------------- */

static void tx_flush(struct apus_dp_port *port)
{
	uint32_t sent = 0;

	for (int i = 0; i < OFFERS && sent < port->tx_count; i++)
		sent += rte_eth_tx_burst(port->device.id, 0, port->tx + sent,
					 (uint16_t)(port->tx_count - sent));
	if (sent < port->tx_count) {
		apus_counter_add(&port->counters.tx_full, port->tx_count - sent);
		for (; sent < port->tx_count; sent++)
			rte_pktmbuf_free(port->tx[sent]);
	}
	port->tx_count = 0;
}

static void tx_frame(struct apus_dp_port *port, struct rte_mbuf *m)
{
	apus_counter_add(&port->counters.tx_frames, 1);
	apus_counter_add(&port->counters.tx_bytes, m->pkt_len);
	port->tx[port->tx_count++] = m;
	if (port->tx_count == APUS_DPDK_BURST)
		tx_flush(port);
}

static struct rte_mbuf *own_frame(struct apus_dp_port *port)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(port->device.pools[0]);

	if (!m)
		apus_counter_add(&port->counters.tx_no_buffer, 1);
	return m;
}

/* What the device is to fill in, which it finds by these lengths. */
static void set_offloads(struct rte_mbuf *m, const struct apus_ip_frame *f, uint16_t family)
{
	if (!f->flags)
		return;
	m->l2_len = f->link_bytes;
	m->l3_len = f->network_bytes;
	m->ol_flags |= family == AF_INET ? RTE_MBUF_F_TX_IPV4 : RTE_MBUF_F_TX_IPV6;
	if (f->flags & APUS_IP_TX_IPV4_CHECKSUM)
		m->ol_flags |= RTE_MBUF_F_TX_IP_CKSUM;
	if (f->flags & APUS_IP_TX_UDP_CHECKSUM)
		m->ol_flags |= RTE_MBUF_F_TX_UDP_CKSUM;
}

/* The frames of a datagram, each copied together in a buffer of ours. */
static void send_copied(struct apus_dp_port *port, struct apus_ip_send *send, uint16_t family)
{
	uint8_t header[APUS_IP_HEADER_MAX_BYTES];
	struct apus_ip_frame f;

	while (apus_ip_send_next(port->ip, send, header, &f)) {
		struct rte_mbuf *m = own_frame(port);
		uint8_t *at = m ? (uint8_t *)rte_pktmbuf_append(
					  m, (uint16_t)(f.header_bytes + f.payload_bytes))
				: NULL;

		if (!at) {
			rte_pktmbuf_free(m);
			continue;
		}
		memcpy(at, header, f.header_bytes);
		apus_ip_gather(send->parts, send->part_count, f.payload_offset, f.payload_bytes,
			       at + f.header_bytes);
		set_offloads(m, &f, family);
		tx_frame(port, m);
	}
}

/* A datagram that lies in a frame behind room for headers, and fits. The frame is the device's afterwards. */
static void send_framed(struct apus_dp_port *port, struct apus_ip_send *send, uint16_t family,
			struct rte_mbuf *m)
{
	uint8_t header[APUS_IP_HEADER_MAX_BYTES];
	struct apus_ip_frame f;

	if (!apus_ip_send_next(port->ip, send, header, &f)) {
		rte_pktmbuf_free(m);
		return;
	}
	memcpy(rte_pktmbuf_prepend(m, (uint16_t)f.header_bytes), header, f.header_bytes);
	set_offloads(m, &f, family);
	tx_frame(port, m);
}

/* To queues of this process: our own address, or members of the group. */
static void send_local(struct apus_dp_port *port, struct apus_dpdk_queue *q,
		       const struct apus_dpdk_staged *s, const uint8_t *payload)
{
	struct apus_ip_endpoint from = port->own[s->to.family == AF_INET6];
	struct apus_dpdk_item item = {
		.bytes = payload,
		.length = s->length,
		.hold = {.frame = s->frame, .large = s->large, .assembly_idx = -1},
	};
	uint32_t n;

	from.port = q->q.unicast_port;
	item.from = apus_dpdk_addr(&from);
	n = steer(port, &s->to, apus_dp_addr_is_multicast(&s->to) ? q : NULL, &item);
	apus_counter_add(&port->counters.local, n);
}

void apus_dpdk_port_send(struct apus_dpdk_queue *q, const struct apus_dpdk_staged *s)
{
	struct apus_dp_port *port = q->port;
	const uint8_t *payload = s->frame ? rte_pktmbuf_mtod(s->frame, uint8_t *) : s->large->bytes;
	struct apus_ip_endpoint to = apus_dpdk_endpoint(&s->to);
	struct apus_dpdk_hold hold = {.frame = s->frame, .large = s->large, .assembly_idx = -1};
	struct iovec part = {(void *)(uintptr_t)payload, s->length};
	bool own = apus_ip_is_own(port->ip, &to);
	struct apus_ip_send send;
	int rc = APUS_EAGAIN;

	if (own || (q->loop && apus_ip_is_multicast(&to)))
		send_local(port, q, s, payload);
	if (!own)
		rc = apus_ip_send_begin(port->ip, &to, q->q.unicast_port, &part, 1, port->now,
					&send);
	/* The AF_XDP driver copies buffers of other pools than its own: then rather we do. */
	if (rc == 0 && s->frame && !port->device.is_af_xdp) {
		send_framed(port, &send, s->to.family, s->frame);
		return;
	}
	if (rc == 0)
		send_copied(port, &send, s->to.family);
	else if (rc != APUS_EAGAIN)
		apus_counter_add(&port->counters.tx_refused, 1);
	apus_dpdk_hold_drop(port, &hold);
}

/* The engine's own frames, and datagrams whose neighbour has answered. */
static void send_engine(struct apus_dp_port *port)
{
	struct apus_ip_send send;
	const uint8_t *frame;
	uint32_t bytes;

	while ((frame = apus_ip_next_control(port->ip, &bytes))) {
		struct rte_mbuf *m = own_frame(port);
		char *at = m ? rte_pktmbuf_append(m, (uint16_t)bytes) : NULL;

		if (at) {
			memcpy(at, frame, bytes);
			tx_frame(port, m);
		} else {
			rte_pktmbuf_free(m);
		}
	}
	while (apus_ip_next_parked(port->ip, port->now, &send))
		send_copied(port, &send, send.to.family);
}

/* What all queues have staged, in turns of a few each, so that none keeps the others waiting. */
static void send_staged(struct apus_dp_port *port)
{
	bool more = true;
	uint32_t place;

	/* C2: seq_cst, before the outboxes are looked at: what is staged later is said anew. */
	if (atomic_load(&port->staged) == 0 || atomic_exchange(&port->staged, 0) == 0)
		return;
	while (more) {
		more = false;
		for (uint32_t i = 0; i < port->queue_count; i++) {
			struct apus_dpdk_queue *q = port->queue[i];

			for (int n = 0; q && n < APUS_DPDK_BURST; n++) {
				if (!apus_dpdk_ring_peek(&q->outbox, &place))
					break;
				apus_dpdk_port_send(q, &q->outbox_items[place]);
				apus_dpdk_ring_pop(&q->outbox);
				more = n == APUS_DPDK_BURST - 1 || more;
			}
		}
	}
	send_engine(port);
	tx_flush(port);
}

/* --- turns of the claim --------------------------------------------------------------------------- */

void apus_dpdk_port_give(struct apus_dp_port *port)
{
	do {
		send_staged(port);
		wake(port);
		/* C1: seq_cst, before the look at C2; releases all of the above. */
		atomic_store(&port->claim, 0);
	} while (atomic_load(&port->staged) != 0 && try_claim(port));
}

/* The same for who polls without ever sleeping. The fence would wait until the other side's memory has taken
 * what was just sent, a hundred ns and more. */
static void give_polling(struct apus_dp_port *port)
{
	do {
		send_staged(port);
		wake(port);
		/* Release: all of the above. Not ordered before the look at C2: what another thread stages
		 * in that moment is found by the next poll. */
		atomic_store_explicit(&port->claim, 0, memory_order_release);
		/* Relaxed: likewise. */
	} while (atomic_load_explicit(&port->staged, memory_order_relaxed) != 0 && try_claim(port));
}

static void give_of(struct apus_dpdk_queue *q)
{
	if (q->set_fd < 0)
		give_polling(q->port);
	else
		apus_dpdk_port_give(q->port);
}

bool apus_dpdk_port_begin_send(struct apus_dpdk_queue *q, struct apus_mono now)
{
	struct apus_dp_port *port = q->port;
	uint32_t place;

	/* What was staged before goes first. */
	if (apus_dpdk_ring_peek(&q->outbox, &place) || !try_claim(port))
		return false;
	take_returns(port);
	if (now.ns > port->now.ns)
		port->now = now;
	return true;
}

void apus_dpdk_port_end_send(struct apus_dpdk_queue *q)
{
	send_engine(q->port);
	tx_flush(q->port);
	give_of(q);
}

void apus_dpdk_port_flush(struct apus_dp_port *port)
{
	if (!try_claim(port))
		return;
	take_returns(port);
	port->now = apus_mono_now();
	apus_dpdk_port_give(port);
}

void apus_dpdk_port_probe(struct apus_dp_port *port, int64_t ns)
{
	struct rte_mbuf *frames[APUS_DPDK_BURST];
	struct apus_ip_datagram unheard;
	uint8_t mac[6];

	apus_ip_probe(port->ip);
	send_engine(port);
	tx_flush(port);
	port->now = apus_mono_now();
	for (int64_t end = port->now.ns + ns; port->now.ns < end && !apus_ip_rival(port->ip, mac);
	     port->now = apus_mono_now()) {
		uint32_t n = burst(port, frames);

		for (uint32_t i = 0; i < n; i++) {
			if (frames[i]->nb_segs == 1 &&
			    apus_ip_input(port->ip, rte_pktmbuf_mtod(frames[i], const uint8_t *),
					  frames[i]->data_len, flags_of(port, frames[i]), port->now,
					  &unheard) == APUS_IP_UDP)
				apus_ip_release(port->ip, unheard.buffer_idx);
			rte_pktmbuf_free(frames[i]);
		}
		if (n == 0)
			usleep(1000);
	}
}

int apus_dpdk_port_poll(struct apus_dpdk_queue *q, struct apus_mono now, int max,
			struct apus_dp_rx *out)
{
	struct apus_dp_port *port = q->port;

	if (!try_claim(port))
		return 0;
	if (now.ns > port->now.ns)
		port->now = now;
	q->direct = out;
	q->direct_room = max;
	q->direct_count = 0;
	q->polls_own++;
	apus_counter_add(&port->counters.polls, 1);
	take_returns(port);
	if (receive(port) > 0 || !apus_mono_before(port->now, apus_ip_due(port->ip))) {
		if (!apus_mono_before(port->now, apus_ip_due(port->ip)))
			apus_ip_tick(port->ip, port->now);
		send_engine(port);
		tx_flush(port);
	}
	q->direct = NULL;
	q->woken = false; /* it is awake: this is its owner */
	give_of(q);
	return q->direct_count;
}
