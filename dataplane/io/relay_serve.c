/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of the worker process: between the queues of the network and the rings of applications.
 *
 * A round gives each client up to `burst` datagrams each way and then the next one its turn, and rounds begin with
 * another client each time: nobody waits for more than one burst of every other. A client whose ring is full keeps what
 * was taken for it and gets nothing more from the network, whose buffers fill then, as they do for any slow reader.
 *
 * A thread that blocks looks at those queues only of which the kernel says that they have something, and says in each
 * ring that it sleeps before it does; one that polls looks at all, and at connections now and then.
 *
 * Datagrams of applications are sent from where they wrote them, without a copy: what they change meanwhile are their
 * own bytes. Their lengths and addresses are copied first.
 */
#include "dataplane/io/relay_internal.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A polling thread asks the kernel about connections every so many rounds. */
#define LOOK_AFTER     512
#define EVENTS_AT_ONCE 64
/* Messages of one client at a look. */
#define MESSAGES_AT_ONCE 16
/* With somebody's ring full, nobody rings when it no longer is. */
#define STALLED_MS 1
/* Bytes of a client's datagrams handed to the network at once: what is in the ring need not be in the cache. */
#define OUT_BYTES 262144u

/* What an epoll event is about: the client, and which of its descriptors, in the low bits of its address. */
enum source { FROM_NETWORK = 0, FROM_APPLICATION = 1, FROM_PROCESS = 2, SOURCE_MASK = 3 };

_Static_assert(_Alignof(struct apus_dp_relay_client) > SOURCE_MASK,
	       "low bits of its address are free");

static bool blocks(const struct apus_dp_relay_thread *t)
{
	return t->relay->config.idle == APUS_DP_RELAY_BLOCK;
}

/* --- one client ---------------------------------------------------------------------------------- */

static int watch(struct apus_dp_relay_thread *t, int op, int fd, struct apus_dp_relay_client *c,
		 enum source source, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.u64 = (uint64_t)(uintptr_t)c | source};

	return fd >= 0 ? epoll_ctl(t->epoll_fd, op, fd, &event) : 0;
}

static void adopt(struct apus_dp_relay_thread *t, struct apus_dp_relay_client *c)
{
	c->thread_idx = t->idx;
	c->readable = c->spoken = true;
	t->clients[t->client_count++] = c;
	if (watch(t, EPOLL_CTL_ADD, c->fd, c, FROM_APPLICATION, EPOLLIN) != 0 ||
	    watch(t, EPOLL_CTL_ADD, c->pidfd, c, FROM_PROCESS, EPOLLIN) != 0 ||
	    (blocks(t) &&
	     watch(t, EPOLL_CTL_ADD, apus_dp_queue_fd(c->queue), c, FROM_NETWORK, EPOLLIN) != 0))
		c->gone = true;
}

/* Everything it had is given back; others notice nothing. */
static void let_go(struct apus_dp_relay_thread *t, uint32_t at, const char *why,
		   struct apus_counter *counter)
{
	struct apus_dp_relay_client *c = t->clients[at];
	uint16_t port = c->queue->unicast_port;

	if (c->held_count > c->held_next)
		apus_dp_queue_release(c->queue, c->held + c->held_next,
				      (int)(c->held_count - c->held_next));
	apus_dp_relay_client_close(c);
	t->clients[at] = t->clients[--t->client_count];
	/* Relaxed: a hint for whom the next one goes to. */
	atomic_fetch_sub_explicit(&t->load, 1, memory_order_relaxed);
	if (counter)
		apus_dp_relay_tell(t->relay, APUS_DP_RELAY_DETACHED, c->pid, port, t->idx, counter,
				   "%s", why);
	/* Release: pairs with the acquire in take_slot(): nothing here touches it any more. */
	atomic_store_explicit(&c->used, false, memory_order_release);
}

/* Shows the application what is in its ring, and wakes it if it sleeps. */
static void show(struct apus_dp_relay_thread *t, struct apus_dp_relay_client *c)
{
	if (!apus_shm_packet_publish(&c->in))
		return;
	apus_counter_add(&t->counters.bells_in, 1);
	/* If its socket is full it has bells enough to wake by. */
	(void)apus_dp_relay_say(c->fd, APUS_DP_RELAY_BELL);
}

/* Puts what was taken from the network into the ring, until that is full. */
static int hand_over(struct apus_dp_relay_thread *t, struct apus_dp_relay_client *c)
{
	uint32_t first = c->held_next;

	while (c->held_next < c->held_count) {
		const struct apus_dp_rx *rx = &c->held[c->held_next];
		struct apus_shm_packet packet = {
			.mark = rx->socket_idx | (rx->truncated ? APUS_DP_RELAY_TRUNCATED : 0)};

		if (apus_shm_packet_reserve(&c->in, rx->length, &packet) != APUS_SHM_DONE)
			break;
		memcpy(packet.bytes, rx->bytes, rx->length);
		apus_dp_relay_put_addr(&packet, &rx->from);
		apus_shm_packet_commit(&c->in, &packet);
		c->held_next++;
	}
	if (c->held_next == first)
		return 0;
	show(t, c);
	apus_dp_queue_release(c->queue, c->held + first, (int)(c->held_next - first));
	apus_counter_add(&t->counters.in, c->held_next - first);
	return (int)(c->held_next - first);
}

/* A descriptor that stays readable would keep the thread awake. */
static void mute(struct apus_dp_relay_thread *t, struct apus_dp_relay_client *c, bool muted)
{
	if (c->muted == muted)
		return;
	c->muted = muted;
	if (muted)
		apus_counter_add(&t->counters.stalls, 1);
	if (blocks(t))
		watch(t, EPOLL_CTL_MOD, apus_dp_queue_fd(c->queue), c, FROM_NETWORK,
		      muted ? 0 : EPOLLIN);
}

static int to_application(struct apus_dp_relay_thread *t, struct apus_dp_relay_client *c)
{
	int n = 0;

	if (c->held_next == c->held_count && c->readable) {
		int got = apus_dp_queue_rx(c->queue, (int)t->relay->config.burst, c->held);

		c->held_next = 0;
		c->held_count = (uint32_t)got;
		c->readable = got > 0 || !blocks(t);
	}
	if (c->held_next < c->held_count) {
		n = hand_over(t, c);
		mute(t, c, c->held_next < c->held_count);
	}
	return n;
}

/* Is it a datagram that this application may send? */
static bool to_tx(const struct apus_dp_relay_client *c, const struct apus_shm_packet *packet,
		  struct apus_dp_tx *tx)
{
	apus_dp_relay_get_addr(packet, &tx->to);
	tx->interface_idx = (int16_t)((int32_t)packet->mark - 1);
	tx->iov_count = 1;
	tx->iov[0] = (struct iovec){packet->bytes, packet->length};
	return tx->to.family == c->ask.family && tx->to.port != 0 &&
	       packet->mark <= c->ask.interface_count && packet->length <= c->queue->mtu_bytes;
}

static int to_network(struct apus_dp_relay_thread *t, struct apus_dp_relay_client *c)
{
	struct apus_dp_tx tx[APUS_DP_RELAY_BURST_MAX];
	struct apus_shm_packet packet;
	uint32_t bytes = 0, taken = 0;
	int n = 0;

	while (taken < t->relay->config.burst && bytes < OUT_BYTES) {
		if (apus_shm_packet_take(&c->out, &packet) != APUS_SHM_DONE)
			break;
		taken++;
		bytes += packet.length;
		n += to_tx(c, &packet, &tx[n]);
	}
	if (taken == 0)
		return 0;
	apus_counter_add(&t->counters.out, (uint64_t)n);
	apus_counter_add(&t->counters.bad, taken - (uint32_t)n);
	if (n > 0)
		apus_dp_queue_tx(c->queue, tx, n);
	apus_shm_packet_give_back(&c->out, packet.end);
	return (int)taken;
}

static void answer_group(struct apus_dp_relay_client *c, const struct apus_shm_message *m,
			 unsigned kind)
{
	struct apus_dp_relay_done done = {apus_dp_relay_head(APUS_DP_RELAY_DONE), APUS_EINVAL};
	struct apus_dp_relay_group change;
	struct apus_dp_group group;

	if (m->length == sizeof(change)) {
		memcpy(&change, m->bytes, sizeof(change));
		group.group = change.group;
		if (change.group.family == c->ask.family &&
		    change.group.port >= APUS_DP_RELAY_PORT_MIN)
			done.result = kind == APUS_DP_RELAY_JOIN
					      ? apus_dp_queue_join(c->queue, &group)
					      : apus_dp_queue_leave(c->queue, &group);
	}
	(void)apus_shm_send(c->fd, &done, sizeof(done), NULL, 0);
}

/* Takes messages off the connection. False: it said nonsense. */
static bool hear(struct apus_dp_relay_client *c)
{
	bool failed = false;

	for (int i = 0; i < MESSAGES_AT_ONCE; i++) {
		struct apus_shm_message m;
		int rc = apus_shm_receive(c->fd, &m);
		unsigned kind = rc == 0 ? apus_dp_relay_kind_of(&m) : 0;

		if (rc == APUS_EAGAIN) {
			c->spoken = false;
			return true;
		}
		if (rc == APUS_ECLOSED && !failed) {
			/* Who closes with a bell unread resets the connection: the kernel tells that once, before what
			 * was said last. */
			failed = true;
			continue;
		}
		if (rc == APUS_ECLOSED) {
			c->gone = true;
			c->spoken = false;
			return true;
		}
		if (rc == 0)
			apus_shm_message_close(&m);
		if (kind == APUS_DP_RELAY_JOIN || kind == APUS_DP_RELAY_LEAVE)
			answer_group(c, &m, kind);
		else if (kind == APUS_DP_RELAY_BYE)
			c->leaves = true;
		else if (kind != APUS_DP_RELAY_BELL)
			return false;
	}
	return true;
}

/* One client's turn; negative: it has been let go. */
static int serve(struct apus_dp_relay_thread *t, uint32_t at)
{
	struct apus_dp_relay_client *c = t->clients[at];
	struct apus_dp_relay_counters *counters = &t->relay->counters;
	int n;

	if (APUS_UNLIKELY(c->spoken) && !hear(c)) {
		let_go(t, at, "it sent a message that is none", &counters->broken);
		return -1;
	}
	n = to_network(t, c);
	if (APUS_UNLIKELY(c->gone)) {
		/* What it said and sent last has been in the ring before its end was seen. A child may have it, too, and fill it
		 * for ever. */
		if ((n > 0 || c->spoken) && ++c->rounds_gone < UINT8_MAX)
			return 1;
		let_go(t, at, c->leaves ? "closed" : "its process has died",
		       c->leaves ? &counters->closed : &counters->reclaimed);
		return -1;
	}
	n += to_application(t, c);
	if (APUS_UNLIKELY(c->out.broken || c->in.broken)) {
		let_go(t, at, "its ring is broken", &counters->broken);
		return -1;
	}
	return n;
}

/* --- the thread ---------------------------------------------------------------------------------- */

static void empty_inbox(struct apus_dp_relay_thread *t)
{
	/* Relaxed: the lock orders what is found; the eventfd has us look again. */
	if (atomic_load_explicit(&t->inbox_count, memory_order_relaxed) == 0)
		return;
	pthread_mutex_lock(&t->inbox_lock);
	while (t->inbox_count > 0)
		adopt(t, t->inbox[--t->inbox_count]);
	pthread_mutex_unlock(&t->inbox_lock);
}

/* Groups are joined where the interfaces are now, and applications look for themselves. */
static void follow_interfaces(struct apus_dp_relay_thread *t)
{
	struct apus_dp_relay *relay = t->relay;
	struct apus_dp_netif chosen[APUS_DP_NETIF_MAX];
	/* Relaxed: a hint to take the lock. */
	uint64_t now = atomic_load_explicit(&relay->interfaces_generation, memory_order_relaxed);

	if (now == t->interfaces_seen)
		return;
	t->interfaces_seen = now;
	for (uint32_t i = 0; i < t->client_count; i++) {
		struct apus_dp_relay_client *c = t->clients[i];
		bool whole;

		pthread_mutex_lock(&relay->lock);
		whole = apus_dp_relay_choose(relay, c->ask.ifindex, c->ask.interface_count, chosen);
		pthread_mutex_unlock(&relay->lock);
		if (whole)
			apus_dp_queue_set_interfaces(c->queue, chosen, c->ask.interface_count);
		(void)apus_dp_relay_say(c->fd, APUS_DP_RELAY_CHANGED);
	}
}

static void note(struct apus_dp_relay_thread *t, const struct epoll_event *event)
{
	struct apus_dp_relay_client *c =
		(void *)(uintptr_t)(event->data.u64 & ~(uint64_t)SOURCE_MASK);
	uint64_t count;

	if (!c) {
		(void)!read(t->wake_fd, &count, sizeof(count));
		empty_inbox(t);
		follow_interfaces(t);
		return;
	}
	switch (event->data.u64 & SOURCE_MASK) {
	case FROM_NETWORK: c->readable = true; break;
	case FROM_APPLICATION: c->spoken = true; break;
	case FROM_PROCESS: c->gone = c->spoken = true; break;
	}
}

/* Asks the kernel what there is, for up to so long. Only notes it: no client goes meanwhile. */
static void look(struct apus_dp_relay_thread *t, int timeout_ms)
{
	struct epoll_event events[EVENTS_AT_ONCE];
	int n = epoll_wait(t->epoll_fd, events, EVENTS_AT_ONCE, timeout_ms);

	t->rounds_to_look = LOOK_AFTER;
	for (int i = 0; i < n; i++)
		note(t, &events[i]);
}

/* Rings say that we sleep; false if one has something. */
static bool doze(struct apus_dp_relay_thread *t)
{
	bool may_sleep = true;

	for (uint32_t i = 0; i < t->client_count && may_sleep; i++)
		may_sleep = apus_shm_packet_doze(&t->clients[i]->out);
	return may_sleep;
}

static void sleep_until_rung(struct apus_dp_relay_thread *t)
{
	bool stalled = false;

	for (uint32_t i = 0; i < t->client_count; i++)
		stalled = stalled || t->clients[i]->muted;
	look(t, !doze(t) ? 0 : stalled ? STALLED_MS : -1);
	for (uint32_t i = 0; i < t->client_count; i++)
		apus_shm_packet_wake(&t->clients[i]->out);
}

static int round_of(struct apus_dp_relay_thread *t)
{
	uint32_t count = t->client_count, first = count ? t->first++ % count : 0;
	int work = 0;

	for (uint32_t i = 0; i < count && t->client_count > 0; i++) {
		uint32_t at = (first + i) % count;

		/* The last one has taken the place of one that has gone: it comes again, or next time. */
		if (at >= t->client_count)
			continue;
		work += serve(t, at) != 0;
	}
	return work;
}

static void *thread_main(void *arg)
{
	struct apus_dp_relay_thread *t = arg;

	/* Acquire: pairs with the release in apus_dp_relay_thread_stop(). */
	while (!atomic_load_explicit(&t->stop, memory_order_acquire)) {
		int work = round_of(t);

		if (work == 0 && (blocks(t) || t->client_count == 0))
			sleep_until_rung(t);
		else if (blocks(t) || t->rounds_to_look-- == 0)
			look(t, 0);
		else if (work == 0 && t->relay->config.idle == APUS_DP_RELAY_PAUSE)
			apus_cpu_relax();
	}
	empty_inbox(t);
	while (t->client_count > 0)
		let_go(t, 0, "", NULL);
	return NULL;
}

void apus_dp_relay_thread_adopt(struct apus_dp_relay_thread *t, struct apus_dp_relay_client *c)
{
	uint64_t one = 1;

	/* Relaxed: a hint for whom the next one goes to. */
	atomic_fetch_add_explicit(&t->load, 1, memory_order_relaxed);
	pthread_mutex_lock(&t->inbox_lock);
	t->inbox[t->inbox_count++] = c;
	pthread_mutex_unlock(&t->inbox_lock);
	(void)!write(t->wake_fd, &one, sizeof(one));
}

/* Core and priority if the system permits them; what it does not is said. */
static int start(struct apus_dp_relay_thread *t, int core, int priority)
{
	struct sched_param param = {.sched_priority = priority};
	pthread_attr_t attr;
	cpu_set_t set;
	int rc;

	pthread_attr_init(&attr);
	CPU_ZERO(&set);
	if (core >= 0) {
		CPU_SET(core, &set);
		pthread_attr_setaffinity_np(&attr, sizeof(set), &set);
	}
	if (priority > 0) {
		pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
		pthread_attr_setschedpolicy(&attr, SCHED_FIFO);
		pthread_attr_setschedparam(&attr, &param);
	}
	rc = pthread_create(&t->thread, &attr, thread_main, t);
	pthread_attr_destroy(&attr);
	return rc;
}

static int start_as_permitted(struct apus_dp_relay_thread *t)
{
	int core = t->relay->config.cores[t->idx], priority = t->relay->config.priority;
	char place[32] = "any core";
	int rc = start(t, core, priority);
	bool ordinary = rc == EPERM && priority > 0;

	if (ordinary)
		rc = start(t, core, 0);
	t->started = rc == 0;
	if (rc != 0)
		return rc == EINVAL ? APUS_EINVAL : APUS_EIO;
	if (core >= 0)
		snprintf(place, sizeof(place), "core %d", core);
	apus_dp_relay_tell(t->relay, APUS_DP_RELAY_THREAD, 0, 0, t->idx, NULL, "%s, %s", place,
			   ordinary       ? "ordinary scheduling: SCHED_FIFO was refused"
			   : priority > 0 ? "SCHED_FIFO"
					  : "ordinary scheduling");
	return 0;
}

int apus_dp_relay_thread_start(struct apus_dp_relay_thread *t)
{
	struct epoll_event wake = {.events = EPOLLIN};
	uint32_t max = t->relay->client_max;

	t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	t->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&t->inbox_lock, NULL);
	t->clients = calloc(max, sizeof(struct apus_dp_relay_client *));
	t->inbox = calloc(max, sizeof(struct apus_dp_relay_client *));
	if (!t->clients || !t->inbox || t->epoll_fd < 0 || t->wake_fd < 0 ||
	    epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, t->wake_fd, &wake) != 0)
		return APUS_ENOMEM;
	return start_as_permitted(t);
}

void apus_dp_relay_thread_stop(struct apus_dp_relay_thread *t)
{
	uint64_t one = 1;

	if (!t->relay)
		return; /* never begun */
	if (t->started) {
		/* Release: pairs with the acquire in thread_main(). */
		atomic_store_explicit(&t->stop, true, memory_order_release);
		(void)!write(t->wake_fd, &one, sizeof(one));
		pthread_join(t->thread, NULL);
	}
	if (t->epoll_fd >= 0)
		close(t->epoll_fd);
	if (t->wake_fd >= 0)
		close(t->wake_fd);
	pthread_mutex_destroy(&t->inbox_lock);
	free(t->clients);
	free(t->inbox);
}
