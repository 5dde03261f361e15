/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker process: who is served. One thread listens, answers what applications ask before they have a queue, opens
 * queues within the limits of each, and hands them to the threads of relay_serve.c.
 *
 * What an application says is bounded here, completely, before anything is opened: nothing it says is used twice.
 */
#include "dataplane/io/relay_internal.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A guest that has not opened a queue by then is hung up on. */
#define GUEST_NS (5 * APUS_NS_PER_SEC)
/* Messages of one guest at a turn. */
#define MESSAGES_AT_ONCE 16
/* Largest socket buffer an application may ask for. */
#define SOCKET_BYTES_MAX (UINT32_C(1) << 24)

/* --- events -------------------------------------------------------------------------------------- */

void apus_dp_relay_tell(struct apus_dp_relay *relay, enum apus_dp_relay_event_kind kind,
			uint32_t pid, uint16_t port, uint32_t thread_idx,
			struct apus_counter *counter, const char *format, ...)
{
	struct apus_dp_relay_event *e;
	uint64_t one = 1;
	va_list args;

	pthread_mutex_lock(&relay->lock);
	if (counter)
		apus_counter_add(counter, 1);
	if (relay->event_count == APUS_DP_RELAY_EVENTS) {
		relay->event_first = (relay->event_first + 1) % APUS_DP_RELAY_EVENTS;
		relay->event_count--;
	}
	e = &relay->events[(relay->event_first + relay->event_count++) % APUS_DP_RELAY_EVENTS];
	e->kind = kind;
	e->pid = pid;
	e->port = port;
	e->thread = (uint16_t)thread_idx;
	va_start(args, format);
	vsnprintf(e->text, sizeof(e->text), format, args);
	va_end(args);
	pthread_mutex_unlock(&relay->lock);
	(void)!write(relay->wake_fd, &one, sizeof(one));
}

bool apus_dp_relay_event(struct apus_dp_relay *relay, struct apus_dp_relay_event *event_out)
{
	bool found;

	pthread_mutex_lock(&relay->lock);
	found = relay->event_count > 0;
	if (found) {
		*event_out = relay->events[relay->event_first];
		relay->event_first = (relay->event_first + 1) % APUS_DP_RELAY_EVENTS;
		relay->event_count--;
	}
	pthread_mutex_unlock(&relay->lock);
	return found;
}

/* --- interfaces ---------------------------------------------------------------------------------- */

bool apus_dp_relay_choose(const struct apus_dp_relay *relay, const uint32_t *ifindex,
			  uint32_t count, struct apus_dp_netif *out)
{
	for (uint32_t i = 0; i < count; i++) {
		uint32_t k = 0;

		while (k < relay->config.interface_count &&
		       relay->config.interfaces[k].ifindex != ifindex[i])
			k++;
		if (k == relay->config.interface_count)
			return false;
		out[i] = relay->config.interfaces[k];
	}
	return true;
}

void apus_dp_relay_set_interfaces(struct apus_dp_relay *relay,
				  const struct apus_dp_netif *interfaces, uint32_t count)
{
	uint64_t one = 1;

	pthread_mutex_lock(&relay->lock);
	memcpy(relay->config.interfaces, interfaces, count * sizeof(*interfaces));
	relay->config.interface_count = count;
	/* Relaxed: a hint to take the lock. */
	atomic_fetch_add_explicit(&relay->interfaces_generation, 1, memory_order_relaxed);
	pthread_mutex_unlock(&relay->lock);
	for (uint32_t i = 0; i < relay->config.thread_count; i++)
		(void)!write(relay->threads[i].wake_fd, &one, sizeof(one));
}

static int answer_look(const struct apus_dp_relay *relay, int fd, const struct apus_shm_message *m)
{
	struct apus_dp_relay_link link = {apus_dp_relay_head(APUS_DP_RELAY_LINK)};
	struct apus_dp_relay_look look;
	const struct apus_dp_netif *n = relay->config.interfaces;

	if (m->length != sizeof(look))
		return APUS_EENCODING;
	memcpy(&look, m->bytes, sizeof(look));
	link.family = look.family;
	if ((n->family == AF_INET6) == (look.family == AF_INET6))
		link.count = relay->config.interface_count;
	if (look.idx < link.count) {
		n = &relay->config.interfaces[look.idx];
		link.ifindex = n->ifindex;
		link.mtu_bytes = n->mtu_bytes;
		link.loopback = n->loopback;
		memcpy(link.name, n->name, sizeof(link.name));
		if (n->family == AF_INET6)
			memcpy(link.ip, n->ipv6, 16);
		else
			memcpy(link.ip, n->ipv4, 4);
	}
	return apus_shm_send(fd, &link, sizeof(link), NULL, 0);
}

/* --- opening a queue ----------------------------------------------------------------------------- */

/* What is wrong with what was asked for, or NULL. */
static const char *fault(const struct apus_dp_relay *relay, const struct apus_dp_relay_open *ask)
{
	if (ask->family != AF_INET && ask->family != AF_INET6)
		return "an address family that is none";
	if (ask->port != 0 && ask->port < APUS_DP_RELAY_PORT_MIN)
		return "ports below 1024 are not for applications";
	if (ask->group_count > APUS_DP_GROUP_MAX)
		return "more than 8 groups";
	if (ask->interface_count < 1 || ask->interface_count > APUS_DP_NETIF_MAX)
		return "no interface, or more than 8";
	if (ask->sndbuf_bytes > SOCKET_BYTES_MAX || ask->rcvbuf_bytes > SOCKET_BYTES_MAX)
		return "a socket buffer of more than 16 MiB";
	if (apus_dp_relay_memory_bytes(ask->ring_bytes) == 0)
		return "a ring of no permitted size (rx.buffers)";
	if (ask->ring_bytes > relay->config.ring_bytes)
		return "a larger ring (rx.buffers) than worker.ring_bytes permits";
	for (uint32_t i = 0; i < ask->group_count; i++)
		if (!apus_dp_addr_is_multicast(&ask->groups[i]) ||
		    ask->groups[i].family != ask->family ||
		    ask->groups[i].port < APUS_DP_RELAY_PORT_MIN)
			return "a group that is none, or at a port below 1024";
	return NULL;
}

/* What the application asks for, with what it has no say in. */
static bool queue_config(const struct apus_dp_relay *relay, const struct apus_dp_relay_open *ask,
			 struct apus_dp_queue_config *q)
{
	*q = relay->config.queue;
	q->interface_count = ask->interface_count;
	q->unicast_port = ask->port;
	q->bind_any = ask->bind_any != 0;
	q->adopt_fd = false;
	q->multicast_ttl = ask->ttl;
	q->multicast_loop = ask->loop != 0;
	q->segment = ask->segment != 0;
	q->sndbuf_bytes = ask->sndbuf_bytes;
	q->rcvbuf_bytes = ask->rcvbuf_bytes;
	q->group_count = ask->group_count;
	for (uint32_t i = 0; i < ask->group_count; i++)
		q->groups[i].group = ask->groups[i];
	return apus_dp_relay_choose(relay, ask->ifindex, ask->interface_count, q->interfaces);
}

/* A slot, if the limits permit this process one more queue. */
static struct apus_dp_relay_client *take_slot(struct apus_dp_relay *relay, uint32_t pid,
					      const char **why)
{
	struct apus_dp_relay_client *free_slot = NULL;
	uint32_t own = 0, processes = 0;

	for (uint32_t i = 0; i < relay->client_max; i++) {
		struct apus_dp_relay_client *c = &relay->clients[i];
		bool is_first = true;

		/* Acquire: pairs with the release of the thread that has let go of it. */
		if (!atomic_load_explicit(&c->used, memory_order_acquire)) {
			free_slot = free_slot ? free_slot : c;
			continue;
		}
		own += c->pid == pid;
		for (uint32_t k = 0; k < i && is_first; k++)
			is_first = !relay->clients[k].used || relay->clients[k].pid != c->pid;
		processes += is_first;
	}
	if (own >= relay->config.queues)
		*why = "this process has as many queues as worker.queues permits";
	else if (!free_slot || (own == 0 && processes >= relay->config.applications))
		*why = "as many applications are served as worker.applications permits";
	else
		return free_slot;
	return NULL;
}

static struct apus_dp_relay_thread *least_busy(struct apus_dp_relay *relay)
{
	struct apus_dp_relay_thread *best = &relay->threads[0];

	/* Relaxed: a choice, right or not so right. */
	for (uint32_t i = 1; i < relay->config.thread_count; i++)
		if (atomic_load_explicit(&relay->threads[i].load, memory_order_relaxed) <
		    atomic_load_explicit(&best->load, memory_order_relaxed))
			best = &relay->threads[i];
	return best;
}

/* Memory and queue of a client whose ask is validated. */
static int open_client(struct apus_dp_relay *relay, struct apus_dp_relay_client *c, char *why,
		       size_t why_bytes)
{
	size_t half = apus_shm_packets_bytes(c->ask.ring_bytes);
	struct apus_dp_queue_config q;
	int rc;

	if (!queue_config(relay, &c->ask, &q)) {
		snprintf(why, why_bytes, "an interface that is not there (any more)");
		return APUS_ENODEV;
	}
	rc = apus_shm_segment_create(2 * half, APUS_SHM_OWN, &c->segment);
	if (rc != 0) {
		snprintf(why, why_bytes, "no memory for the rings");
		return rc;
	}
	rc = relay->config.open
		     ? relay->config.open(relay->config.user, &q, why, why_bytes, &c->queue)
		     : apus_dp_queue_open(&q, why, why_bytes, &c->queue);
	if (rc != 0)
		return rc;
	apus_shm_packet_producer_init(&c->in, c->segment.base, c->ask.ring_bytes);
	apus_shm_packet_consumer_init(&c->out, (void *)((uint8_t *)c->segment.base + half),
				      c->ask.ring_bytes);
	return 0;
}

static int answer_open(struct apus_dp_relay_client *c)
{
	struct apus_dp_relay_opened opened = {
		.head = apus_dp_relay_head(APUS_DP_RELAY_OPENED),
		.ring_bytes = c->ask.ring_bytes,
		.mtu_bytes = c->queue->mtu_bytes,
		.port = c->queue->unicast_port,
	};

	return apus_shm_send(c->fd, &opened, sizeof(opened), &c->segment.fd, 1);
}

static void refuse(struct apus_dp_relay *relay, const struct apus_dp_relay_guest *g, uint16_t port,
		   int rc, const char *why)
{
	struct apus_dp_relay_opened opened = {.head = apus_dp_relay_head(APUS_DP_RELAY_OPENED),
					      .result = rc};

	snprintf(opened.why, sizeof(opened.why), "%.127s", why);
	(void)apus_shm_send(g->fd, &opened, sizeof(opened), NULL, 0);
	/* Participants look for a free index by asking: that is no refusal worth a line. */
	if (rc == APUS_EADDRINUSE) {
		apus_counter_add(&relay->counters.taken, 1);
		return;
	}
	apus_dp_relay_tell(relay, APUS_DP_RELAY_REFUSED, g->pid, port, 0, &relay->counters.refused,
			   "%.127s", why);
}

void apus_dp_relay_client_close(struct apus_dp_relay_client *c)
{
	apus_dp_queue_close(c->queue);
	c->queue = NULL;
	apus_shm_segment_destroy(&c->segment);
	if (c->pidfd >= 0)
		close(c->pidfd);
	if (c->fd >= 0)
		close(c->fd);
	c->fd = c->pidfd = -1;
}

/* The guest becomes a client, or hears why not; its connection is no longer the guest's. */
static void open_for(struct apus_dp_relay *relay, struct apus_dp_relay_guest *g,
		     const struct apus_shm_message *m)
{
	struct apus_dp_relay_client *c;
	struct apus_dp_relay_open ask;
	const char *text = NULL;
	char why[128] = "";
	int rc;

	memset(&ask, 0, sizeof(ask));
	memcpy(&ask, m->bytes, m->length < sizeof(ask) ? m->length : sizeof(ask));
	text = m->length != sizeof(ask) ? "a message of another length" : fault(relay, &ask);
	if (text) {
		refuse(relay, g, ask.port, APUS_EINVAL, text);
		return;
	}
	c = take_slot(relay, g->pid, &text);
	if (!c) {
		refuse(relay, g, ask.port, APUS_ELIMIT, text);
		return;
	}
	*c = (struct apus_dp_relay_client){.pid = g->pid, .fd = g->fd, .ask = ask, .pidfd = -1};
	c->pidfd = g->pid ? (int)syscall(SYS_pidfd_open, (pid_t)g->pid, 0) : -1;
	rc = open_client(relay, c, why, sizeof(why));
	if (rc == 0 && (rc = answer_open(c)) != 0)
		snprintf(why, sizeof(why), "it did not wait for the answer");
	if (rc == 0) {
		struct apus_dp_relay_thread *t = least_busy(relay);
		uint16_t port = c->queue->unicast_port;

		g->fd = -1;
		/* Relaxed: this thread alone sets it; the thread that clears it is given it under a lock. */
		atomic_store_explicit(&c->used, true, memory_order_relaxed);
		apus_dp_relay_tell(relay, APUS_DP_RELAY_ATTACHED, c->pid, port, t->idx,
				   &relay->counters.attached, "%s",
				   apus_dp_queue_kind_name(c->queue->kind));
		apus_dp_relay_thread_adopt(t, c);
		return;
	}
	refuse(relay, g, ask.port, rc, why);
	c->fd = -1;
	apus_dp_relay_client_close(c);
}

/* --- guests -------------------------------------------------------------------------------------- */

static void hang_up(struct apus_dp_relay_guest *g)
{
	if (g->fd >= 0)
		close(g->fd);
	g->fd = -1;
}

static void accept_one(struct apus_dp_relay *relay)
{
	struct apus_dp_relay_guest *g = NULL;
	struct ucred peer;
	socklen_t bytes = sizeof(peer);
	int fd = apus_shm_accept(relay->listener);

	if (fd < 0)
		return;
	for (uint32_t i = 0; i < APUS_DP_RELAY_GUESTS; i++)
		if (relay->guests[i].fd < 0)
			g = &relay->guests[i];
		else if (!g || (g->fd >= 0 && relay->guests[i].until_ns < g->until_ns))
			g = &relay->guests[i];
	/* With all places taken, whoever has said nothing for longest makes way. */
	hang_up(g);
	g->fd = fd;
	g->until_ns = apus_mono_now().ns + GUEST_NS;
	g->pid = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.pid > 0
			 ? (uint32_t)peer.pid
			 : 0;
}

static void hear(struct apus_dp_relay *relay, struct apus_dp_relay_guest *g)
{
	for (int i = 0; i < MESSAGES_AT_ONCE && g->fd >= 0; i++) {
		struct apus_shm_message m;
		int rc = apus_shm_receive(g->fd, &m);
		unsigned kind;

		if (rc == APUS_EAGAIN)
			return;
		kind = rc == 0 ? apus_dp_relay_kind_of(&m) : 0;
		if (rc == 0)
			apus_shm_message_close(&m);
		if (kind == APUS_DP_RELAY_LOOK && answer_look(relay, g->fd, &m) == 0)
			continue;
		if (kind == APUS_DP_RELAY_OPEN)
			open_for(relay, g, &m);
		else if (rc == 0)
			apus_dp_relay_tell(relay, APUS_DP_RELAY_REFUSED, g->pid, 0, 0,
					   &relay->counters.refused, "a message that is none");
		hang_up(g);
	}
}

void apus_dp_relay_turn(struct apus_dp_relay *relay, int timeout_ms)
{
	struct pollfd fds[2 + APUS_DP_RELAY_GUESTS];
	int64_t now_ns;
	uint64_t count;

	fds[0] = (struct pollfd){.fd = relay->listener, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = relay->wake_fd, .events = POLLIN};
	for (uint32_t i = 0; i < APUS_DP_RELAY_GUESTS; i++)
		fds[2 + i] = (struct pollfd){.fd = relay->guests[i].fd, .events = POLLIN};
	if (poll(fds, 2 + APUS_DP_RELAY_GUESTS, timeout_ms) < 0)
		return;
	now_ns = apus_mono_now().ns;
	if (fds[1].revents)
		(void)!read(relay->wake_fd, &count, sizeof(count));
	for (uint32_t i = 0; i < APUS_DP_RELAY_GUESTS; i++) {
		if (fds[2 + i].revents)
			hear(relay, &relay->guests[i]);
		else if (relay->guests[i].fd >= 0 && now_ns > relay->guests[i].until_ns)
			hang_up(&relay->guests[i]);
	}
	if (fds[0].revents)
		accept_one(relay);
}

/* --- life ---------------------------------------------------------------------------------------- */

static const char *config_fault(const struct apus_dp_relay_config *c)
{
	if (c->thread_count < 1 || c->thread_count > APUS_DP_RELAY_THREADS_MAX)
		return "1 to 64 threads are possible";
	if (c->interface_count < 1 || c->interface_count > APUS_DP_NETIF_MAX)
		return "1 to 8 interfaces are possible";
	if (c->applications < 1 || c->queues < 1 || c->burst < 1 ||
	    c->burst > APUS_DP_RELAY_BURST_MAX ||
	    (uint64_t)c->applications * c->queues > UINT32_C(65536))
		return "a limit is out of its range";
	if (apus_dp_relay_memory_bytes(c->ring_bytes) == 0)
		return "rings are of 256 KiB to 64 MiB, a power of two";
	if (!c->name || strlen(c->name) > APUS_SHM_LINK_NAME)
		return "the name is longer than 40 bytes";
	return NULL;
}

static int listen_at(struct apus_dp_relay *relay, const char *directory, char *why,
		     size_t why_bytes)
{
	int rc = apus_dp_relay_directory(directory, relay->directory, sizeof(relay->directory));

	if (rc != 0) {
		snprintf(why, why_bytes, "worker.directory: %s", apus_strerror(rc));
		return rc;
	}
	relay->listener = apus_shm_listen(relay->directory, relay->name);
	if (relay->listener >= 0)
		return 0;
	snprintf(why, why_bytes, "%s/%s: %s", relay->directory, relay->name,
		 relay->listener == APUS_EADDRINUSE ? "another worker process of that name runs"
						    : apus_strerror(relay->listener));
	return relay->listener;
}

/* Why a thread did not start: a core that is not there, mostly. */
static void explain_start(const struct apus_dp_relay_config *config, uint32_t i, int rc, char *why,
			  size_t why_bytes)
{
	int core = config->cores[i];
	cpu_set_t set;

	CPU_ZERO(&set);
	if (rc != APUS_EINVAL || core < 0 || sched_getaffinity(0, sizeof(set), &set) != 0)
		snprintf(why, why_bytes, "cannot start thread %u: %s", i, apus_strerror(rc));
	else
		snprintf(
			why, why_bytes,
			"worker.cores: there is no core %d for thread %u; this process may use %d, "
			"and the host has %ld (0…%ld)",
			core, i, CPU_COUNT(&set), sysconf(_SC_NPROCESSORS_CONF),
			sysconf(_SC_NPROCESSORS_CONF) - 1);
}

int apus_dp_relay_create(const struct apus_dp_relay_config *config, char *why, size_t why_bytes,
			 struct apus_dp_relay **relay_out)
{
	const char *text = config_fault(config);
	struct apus_dp_relay *relay;
	int rc = 0;

	if (text) {
		snprintf(why, why_bytes, "%s", text);
		return APUS_EINVAL;
	}
	relay = calloc(1, sizeof(*relay));
	if (!relay)
		return APUS_ENOMEM;
	relay->config = *config;
	relay->client_max = config->applications * config->queues;
	relay->listener = -1;
	relay->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&relay->lock, NULL);
	strcpy(relay->name, config->name);
	for (uint32_t i = 0; i < APUS_DP_RELAY_GUESTS; i++)
		relay->guests[i].fd = -1;
	relay->clients = calloc(relay->client_max, sizeof(relay->clients[0]));
	relay->threads = calloc(config->thread_count, sizeof(relay->threads[0]));
	if (!relay->clients || !relay->threads || relay->wake_fd < 0)
		rc = APUS_ENOMEM;
	if (rc == 0)
		rc = listen_at(relay, config->directory, why, why_bytes);
	for (uint32_t i = 0; rc == 0 && i < config->thread_count; i++) {
		relay->threads[i].relay = relay;
		relay->threads[i].idx = i;
		rc = apus_dp_relay_thread_start(&relay->threads[i]);
		if (rc != 0)
			explain_start(config, i, rc, why, why_bytes);
	}
	if (rc != 0) {
		apus_dp_relay_destroy(relay);
		return rc;
	}
	*relay_out = relay;
	return 0;
}

void apus_dp_relay_destroy(struct apus_dp_relay *relay)
{
	if (!relay)
		return;
	if (relay->listener >= 0)
		apus_shm_unlisten(relay->directory, relay->name, relay->listener);
	for (uint32_t i = 0; i < APUS_DP_RELAY_GUESTS; i++)
		hang_up(&relay->guests[i]);
	for (uint32_t i = 0; relay->threads && i < relay->config.thread_count; i++)
		apus_dp_relay_thread_stop(&relay->threads[i]);
	if (relay->wake_fd >= 0)
		close(relay->wake_fd);
	pthread_mutex_destroy(&relay->lock);
	free(relay->clients);
	free(relay->threads);
	free(relay);
}

const struct apus_dp_relay_counters *apus_dp_relay_counters(const struct apus_dp_relay *relay)
{
	return &relay->counters;
}

const struct apus_dp_relay_thread_counters *
apus_dp_relay_thread_counters(const struct apus_dp_relay *relay, uint32_t idx)
{
	return idx < relay->config.thread_count ? &relay->threads[idx].counters : NULL;
}
