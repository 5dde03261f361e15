/* SPDX-License-Identifier: Apache-2.0 */
/* A participant's life: configuration to sockets, workers and discovery, and the control thread. */
#include "control/domain.h"
#include "control/domain_shm.h"

#include "control/locators.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* With something put off, control looks again after this time. */
#define RETRY_NS APUS_NS_PER_MS
/* Matched writers of one worker's readers: buckets, not a limit. */
#define CONTROL_ENDPOINTS 16

/* --- names and addresses ------------------------------------------------------------------------- */

/* Our GUID prefix: vendor, then host, process and time bits that no restart repeats (RTPS 2.5 §9.3.1.5
 * asks only for uniqueness and the vendor in front). */
static void make_prefix(struct apus_prefix *prefix)
{
	uint8_t random[6] = {0};
	uint32_t pid = (uint32_t)getpid();

	(void)!getrandom(random, sizeof(random), GRND_NONBLOCK);
	prefix->bytes[0] = APUS_WIRE_VENDOR >> 8;
	prefix->bytes[1] = APUS_WIRE_VENDOR & 0xff;
	memcpy(prefix->bytes + 2, &pid, 4);
	memcpy(prefix->bytes + 6, random, 6);
}

/* --- queues and workers -------------------------------------------------------------------------- */

static void queue_config(const struct apus_participant *p, struct apus_dp_queue_config *q)
{
	static const enum apus_dp_queue_kind kinds[] = {
		[APUS_CTL_TRANSPORT_AUTO] = APUS_DP_QUEUE_AUTO,
		[APUS_CTL_TRANSPORT_URING] = APUS_DP_QUEUE_URING,
		[APUS_CTL_TRANSPORT_SOCKET] = APUS_DP_QUEUE_SOCKET,
		[APUS_CTL_TRANSPORT_DPDK] = APUS_DP_QUEUE_DPDK,
		[APUS_CTL_TRANSPORT_WORKER] = APUS_DP_QUEUE_WORKER,
	};

	apus_dp_queue_config_default(q);
	q->kind = kinds[p->config.transport];
	memcpy(q->interfaces, p->interfaces, p->interface_count * sizeof(q->interfaces[0]));
	q->interface_count = (uint32_t)p->interface_count;
	q->bind_any = !p->bind_home;
	q->rx_buffer_count = p->config.rx_buffer_count;
	q->sndbuf_bytes = p->config.socket_send_bytes;
	q->rcvbuf_bytes = p->config.socket_receive_bytes;
	q->multicast_ttl = (uint8_t)p->config.multicast_ttl;
	q->segment = p->config.segment;
}

void apus_ctl_domain_add_groups(const struct apus_participant *p, struct apus_dp_queue_config *q,
				uint16_t port)
{
	struct apus_dp_addr groups[APUS_CTL_GROUPS_MAX];
	uint32_t count = apus_ctl_domain_groups(p, port, groups);

	for (uint32_t i = 0; i < count; i++)
		q->groups[q->group_count++].group = groups[i];
}

/* Largest piece of a payload that fits one packet on every interface: less IPv4 (20; IPv6: 40), UDP (8), RTPS
 * header (20), INFO_DST (16), INFO_TS (12), DATA_FRAG (36) and inline QoS with key hash, status and sentinel (44). */
static uint32_t fragment_bytes(const struct apus_participant *p)
{
	uint32_t bytes = 64000, heads = p->config.ipv6 ? 176 : 156;

	if (p->config.fragment_bytes >= 0)
		return (uint32_t)p->config.fragment_bytes & ~3u;
	for (size_t i = 0; i < p->interface_count; i++) {
		uint32_t mtu = p->interfaces[i].mtu_bytes ? p->interfaces[i].mtu_bytes : 1500;

		if (mtu < 576)
			mtu = 576;
		if (mtu - heads < bytes)
			bytes = (mtu - heads) & ~3u;
	}
	return bytes;
}

/* A thread that sleeps when idle is woken for each burst, which takes longer than touching a page for the first
 * time: its memory need not be touched before. */
static bool is_lazy(const struct apus_participant *p, bool is_control)
{
	return is_control || (p->config.worker_mode != APUS_CTL_DRIVEN &&
			      p->config.worker_idle == APUS_CTL_IDLE_BLOCK);
}

/* opened: its queue, which is closed on failure; NULL: one is opened as `q` says. */
static int open_worker(struct apus_participant *p, struct apus_dp_queue_config *q, bool is_control,
		       struct apus_dp_queue *opened, struct apus_dp_worker **worker_out, char *why,
		       size_t why_bytes)
{
	struct apus_dp_worker_config c = {
		.prefix = p->prefix,
		.epoch = p->epoch,
		.endpoint_max = is_control ? CONTROL_ENDPOINTS : p->config.local_endpoints,
		.match_max = is_control ? 6 * p->config.participants : p->config.matches,
		.heartbeat_ns = p->config.heartbeat_period_ns,
		/* Discovery waits for nobody, and gives nobody up. */
		.demote_ns = is_control ? 0 : p->config.demote_ns,
		.fragment_bytes = fragment_bytes(p),
		.pace_bytes = p->config.pace_bytes,
		.ack_delay_ns = p->config.ack_delay_ns,
		.nack_delay_ns = is_control ? 0 : p->config.nack_delay_ns,
		.nack_group_delay_ns = is_control ? 0 : p->config.nack_group_delay_ns,
		.nack_group_readers = p->config.nack_group_readers,
		.nack_suppression_ns = p->config.nack_suppression_ns,
		.segment_flags = (is_control ? 0 : APUS_SHM_HUGE | APUS_SHM_TOUCH) |
				 (is_lazy(p, is_control) ? APUS_SHM_LAZY : 0),
		.lazy_memory = is_lazy(p, is_control),
		.hear_own = !is_control && p->config.worker_count > 1,
		.evidence = is_control ? apus_ctl_domain_evidence : NULL,
		.may_send = is_control ? apus_ctl_domain_may_send : NULL,
		.regressed =
			is_control && p->config.server_count ? apus_ctl_domain_regressed : NULL,
		.may_hear = is_control && p->config.server_count ? apus_ctl_domain_may_hear : NULL,
		.control_user = p,
		.watch_fd = !is_control ? -1
			    : p->shm    ? apus_ctl_domain_shm_fd(p)
					: p->netwatch_fd,
		.listen = is_control ? NULL : apus_ctl_domain_listen,
		.listen_user = p,
		.queue = opened,
	};
	int rc = 0;

	q->lazy_memory = c.lazy_memory;
	if (!opened)
		rc = apus_ctl_domain_open_queue(p, q, why, why_bytes, &c.queue);
	if (rc != 0)
		return rc;
	rc = apus_dp_worker_create(&c, worker_out);
	if (rc != 0)
		apus_dp_queue_close(c.queue);
	return rc;
}

/* The control worker has the metatraffic port, worker 0 the user port, the others any. */
static int open_workers(struct apus_participant *p, char *why, size_t why_bytes)
{
	struct apus_dp_port_claim claim;
	struct apus_dp_queue_config q;
	int rc = p->port ? apus_ctl_domain_claim_on_port(p, why, why_bytes, &claim)
			 : apus_dp_port_claim_family(apus_ctl_domain_family(p), p->config.domain,
						     p->config.participant_index, p->bind_home, why,
						     why_bytes, &claim);

	if (rc != 0)
		return rc;
	p->ports = claim.ports;
	p->participant_idx = claim.participant_idx;
	queue_config(p, &q);
	q.kind = APUS_DP_QUEUE_SOCKET; /* control sleeps: batches and rings buy it nothing */
	q.adopt_fd = !p->port;
	q.unicast_fd = claim.meta_fd;
	q.unicast_port = claim.ports.meta_unicast;
	if (p->config.multicast != APUS_CTL_MULTICAST_OFF)
		apus_ctl_domain_add_groups(p, &q, p->ports.meta_multicast);
	rc = open_worker(p, &q, true, NULL, &p->control, why, why_bytes);
	if (rc != 0)
		goto release;
	claim.meta_fd = -1;
	for (uint32_t i = 0; i < p->config.worker_count; i++) {
		queue_config(p, &q);
		q.adopt_fd = i == 0 && !p->port;
		q.unicast_fd = claim.user_fd;
		q.unicast_port = i == 0 ? claim.ports.user_unicast : 0;
		if (p->config.multicast == APUS_CTL_MULTICAST_ON)
			apus_ctl_domain_add_groups(p, &q, p->ports.user_multicast);
		rc = open_worker(p, &q, false, NULL, &p->workers[i], why, why_bytes);
		if (rc != 0)
			break;
		if (i == 0)
			claim.user_fd = -1;
		p->worker_count++;
	}
release:
	if (p->port)
		p->plugin->port_unreserve(p->port, &claim.ports.meta_unicast, 1);
	if (p->port)
		p->plugin->port_unreserve(p->port, &claim.ports.user_unicast, 1);
	apus_dp_port_claim_release(&claim);
	return rc;
}

/* The same at a worker process: whoever has the two queues has the index. */
static int open_relayed(struct apus_participant *p, char *why, size_t why_bytes)
{
	struct apus_dp_queue *queues[2] = {NULL, NULL};
	struct apus_dp_queue_config meta, user;
	int rc;

	queue_config(p, &meta);
	user = meta;
	rc = apus_ctl_domain_claim_relayed(p, &meta, &user, queues, why, why_bytes);
	if (rc != 0)
		return rc;
	rc = open_worker(p, &meta, true, queues[0], &p->control, why, why_bytes);
	for (uint32_t i = 0; rc == 0 && i < p->config.worker_count; i++) {
		rc = open_worker(p, &user, false, queues[1], &p->workers[i], why, why_bytes);
		queues[1] = NULL;
		user.unicast_port = 0;
		p->worker_count += rc == 0;
	}
	apus_dp_queue_close(queues[1]);
	return rc;
}

static int spawn_workers(struct apus_participant *p, char *why, size_t why_bytes)
{
	static const enum apus_dp_idle idle[] = {
		[APUS_CTL_IDLE_POLL] = APUS_DP_IDLE_POLL,
		[APUS_CTL_IDLE_PAUSE] = APUS_DP_IDLE_PAUSE,
		[APUS_CTL_IDLE_BLOCK] = APUS_DP_IDLE_BLOCK,
	};

	if (p->config.worker_mode == APUS_CTL_DRIVEN)
		return 0;
	for (uint32_t i = 0; i < p->worker_count; i++) {
		int core = i < p->config.worker_core_count ? p->config.worker_core[i] : -1;
		int rc = apus_dp_worker_spawn(p->workers[i], idle[p->config.worker_idle], core,
					      (int)p->config.worker_priority);

		if (rc == 0)
			continue;
		snprintf(why, why_bytes, "cannot start worker %u on core %d with priority %u: %s",
			 i, core, p->config.worker_priority, apus_strerror(rc));
		return rc;
	}
	return 0;
}

/* --- control's parts ----------------------------------------------------------------------------- */

static int create_graph(struct apus_participant *p)
{
	struct apus_ctl_graph_config g = {
		.prefix = p->prefix,
		.participants = p->config.participants,
		.local_endpoints = p->config.local_endpoints,
		.remote_writers = p->config.remote_writers,
		.remote_readers = p->config.remote_readers,
		.record_bytes = p->config.discovery_bytes,
		.matches = p->config.matches,
		.matches_per_endpoint = p->config.matches_per_endpoint,
		.await_proof = true,
		.types = {.strict = p->config.type_matching == APUS_CTL_TYPES_STRICT,
			  .assignable = apus_ctl_domain_assignable,
			  .user = p},
	};

	apus_ctl_domain_policy(p, &g.locators);
	return apus_ctl_graph_create(&g, &p->self, &p->graph);
}

/* A host name or address of a peer, resolved once at start. Names are looked up without the network. */
static bool resolve(const struct apus_participant *p, const char *host, struct apus_dp_addr *addr)
{
	struct addrinfo hints = {.ai_family = apus_ctl_domain_family(p), .ai_socktype = SOCK_DGRAM};
	struct addrinfo *list;
	uint8_t *ip = hints.ai_family == AF_INET6 ? addr->ip : addr->ip + 12;

	*addr = (struct apus_dp_addr){.family = (uint16_t)hints.ai_family};
	if (inet_pton(hints.ai_family, host, ip) == 1)
		return true;
	if (getaddrinfo(host, NULL, &hints, &list) != 0)
		return false;
	if (hints.ai_family == AF_INET6)
		memcpy(ip, &((struct sockaddr_in6 *)list->ai_addr)->sin6_addr, 16);
	else
		memcpy(ip, &((struct sockaddr_in *)list->ai_addr)->sin_addr, 4);
	freeaddrinfo(list);
	return true;
}

static bool may_be_peer(const struct apus_participant *p, const struct apus_dp_addr *addr)
{
	struct apus_ctl_locator_policy policy;

	apus_ctl_domain_policy(p, &policy);
	return apus_ctl_locators_allowed(&policy, addr);
}

/* The address of a host from `setting`. */
static int host_address(const struct apus_participant *p, const char *setting, const char *host,
			struct apus_dp_addr *addr_out, char *why, size_t why_bytes)
{
	if (!resolve(p, host, addr_out)) {
		snprintf(why, why_bytes, "%s: cannot resolve \"%s\"", setting, host);
		return APUS_EINVAL;
	}
	if (!may_be_peer(p, addr_out)) {
		snprintf(why, why_bytes, "%s: the address of \"%s\" is denied", setting, host);
		return APUS_EINVAL;
	}
	return 0;
}

static int peer_addresses(struct apus_participant *p, struct apus_dp_addr **addrs_out,
			  uint32_t *count_out, char *why, size_t why_bytes)
{
	uint32_t capacity = p->config.peer_count * (p->config.peers_max_index + 1), n = 0;
	struct apus_dp_addr *addrs = calloc(capacity ? capacity : 1, sizeof(*addrs));

	if (!addrs)
		return APUS_ENOMEM;
	for (uint32_t i = 0; i < p->config.peer_count; i++) {
		const struct apus_ctl_peer *peer = &p->config.peer[i];
		struct apus_dp_addr host;

		if (host_address(p, "peers", peer->host, &host, why, why_bytes) != 0) {
			free(addrs);
			return APUS_EINVAL;
		}
		n += apus_ctl_peer_expand(&host, peer->port, p->config.domain,
					  p->config.peers_max_index, addrs + n, capacity - n);
	}
	*addrs_out = addrs;
	*count_out = n;
	return 0;
}

/* Two names may be of one host: each address counts once. */
static int server_addresses(struct apus_participant *p,
			    struct apus_dp_addr servers_out[APUS_CTL_SERVERS_MAX],
			    uint32_t *count_out, char *why, size_t why_bytes)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->config.server_count; i++) {
		const struct apus_ctl_peer *server = &p->config.server[i];
		uint32_t k = 0;
		int rc = host_address(p, "discovery.servers", server->host, &servers_out[n], why,
				      why_bytes);

		if (rc != 0)
			return rc;
		if (apus_dp_addr_is_multicast(&servers_out[n])) {
			snprintf(why, why_bytes, "discovery.servers: \"%s\" is a group",
				 server->host);
			return APUS_EINVAL;
		}
		servers_out[n].port = server->port;
		while (!apus_dp_addr_equal(&servers_out[k], &servers_out[n]))
			k++;
		n += k == n;
	}
	*count_out = n;
	return 0;
}

static int create_discovery(struct apus_participant *p, char *why, size_t why_bytes)
{
	struct apus_ctl_discovery_ops ops = apus_ctl_domain_ops(p);
	struct apus_ctl_discovery_config d = {
		.domain = p->config.domain,
		.announce_period_ns = p->config.announce_period_ns,
		.burst_period_ns = p->config.announce_burst_period_ns,
		.burst_count = p->config.announce_burst_count,
		.super_client = p->config.super_client,
	};
	struct apus_dp_addr *peers = NULL, groups[APUS_CTL_GROUPS_MAX];
	struct apus_dp_addr servers[APUS_CTL_SERVERS_MAX];
	int rc = server_addresses(p, servers, &d.server_count, why, why_bytes);

	if (rc == 0)
		rc = peer_addresses(p, &peers, &d.peer_count, why, why_bytes);
	if (rc != 0)
		return rc;
	d.servers = servers;
	d.peers = peers;
	if (p->config.multicast != APUS_CTL_MULTICAST_OFF) {
		apus_ctl_domain_groups(p, p->ports.meta_multicast, groups);
		d.multicast = groups[0];
	}
	memcpy(&d.seed, p->prefix.bytes + 4, sizeof(d.seed));
	rc = apus_ctl_discovery_create(&d, &ops, p->graph, &p->self, apus_mono_now(),
				       &p->discovery);
	free(peers);
	return rc;
}

struct apus_ctl_filter_limits apus_ctl_domain_filter_limits(const struct apus_participant *p)
{
	return (struct apus_ctl_filter_limits){
		.expression_bytes = p->config.filter_expression_bytes,
		.parameter_count = p->config.filter_parameters,
		.parameter_bytes = p->config.filter_parameter_bytes,
		.predicate_count = p->config.filter_predicates,
		.depth = p->config.filter_depth,
	};
}

static int create_publisher(struct apus_participant *p)
{
	const struct apus_dp_turn *turns[APUS_CTL_CORES_MAX + 1] = {&p->control->turn};
	struct apus_ctl_publisher_config c = {
		.epoch = p->epoch,
		.turns = turns,
		.turn_count = p->worker_count + 1,
		.generations = p->config.generations,
		.writer_filtering = p->config.filtering && !p->config.disable_writer_filtering,
		.filter_info = p->config.filtering && p->config.filter_info,
		.filter_unique = p->config.filter_unique,
		.filter_remote_readers = p->config.filter_remote_readers,
		.filter_limits = apus_ctl_domain_filter_limits(p),
		.custom_filter = apus_ctl_domain_compile_custom,
		.no_builtin_filter = p->config.disable_builtin_sql,
		.published = apus_ctl_domain_published,
		.route_out = p->shm ? apus_ctl_domain_shm_out : NULL,
		.route_in = p->shm ? apus_ctl_domain_shm_in : NULL,
		.match_ended = p->shm ? apus_ctl_domain_shm_ended : NULL,
		.user = p,
	};

	for (uint32_t i = 0; i < p->worker_count; i++)
		turns[i + 1] = &p->workers[i]->turn;
	return apus_ctl_publisher_create(&c, p->graph, &p->publisher);
}

/* --- the control thread -------------------------------------------------------------------------- */

/* Shows a worker the present epoch by a turn of ours, so that a sleeping or driven one adopts new matches
 * at once. Somebody else's turn may have begun before the publication, and the worker's thread may be
 * asleep, or about to sleep at the end of that turn: then it is told to take another. */
static void show(struct apus_dp_worker *worker)
{
	if (apus_dp_worker_try_turn(worker))
		apus_dp_worker_end_turn(worker);
	else
		apus_dp_worker_wake(worker);
}

bool apus_ctl_domain_settle(struct apus_participant *p)
{
	bool deferred;
	uint64_t epoch;

	p->settle_due.ns = 0;
	deferred = apus_ctl_publisher_turn_at(p->publisher, apus_mono_now(), &p->filters_due) > 0;
	/* Relaxed: written only under the lock we hold. */
	epoch = atomic_load_explicit(&p->epoch->current, memory_order_relaxed);
	if (epoch != p->settled_epoch) {
		p->settled_epoch = epoch;
		show(p->control);
		for (uint32_t i = 0; i < p->worker_count; i++)
			show(p->workers[i]);
		apus_ctl_publisher_reclaim(p->publisher);
	}
	return deferred;
}

/* One round: receive and act, announce, publish; then sleep until there is more. */
static void control_round(struct apus_participant *p)
{
	struct apus_mono now, next, types_due, alive;

	pthread_mutex_lock(&p->lock);
	apus_dp_worker_take_turn(p->control);
	now = apus_mono_now();
	while (apus_dp_worker_poll(p->control, now) > 0 &&
	       apus_mono_now().ns - now.ns < APUS_NS_PER_MS)
		;
	next = apus_ctl_discovery_turn(p->discovery, now);
	types_due = apus_ctl_domain_types_turn(p, now);
	if (apus_mono_before(types_due, next))
		next = types_due;
	alive = apus_ctl_domain_alive_turn(p, now);
	if (alive.ns < next.ns)
		next = alive;
	apus_dp_worker_end_turn(p->control);
	apus_ctl_domain_follow_net(p);
	alive = apus_ctl_domain_shm_turn(p, now);
	if (alive.ns < next.ns)
		next = alive;
	alive = apus_ctl_domain_stats_turn(p, now);
	if (alive.ns < next.ns)
		next = alive;
	if (apus_mono_before(apus_mono_now(), p->settle_due))
		alive = p->settle_due;
	else if (apus_ctl_domain_settle(p) || apus_ctl_domain_shm_reclaim(p))
		alive = apus_mono_add(apus_mono_now(), RETRY_NS);
	if (alive.ns < next.ns)
		next = alive;
	if (!p->settle_due.ns && p->filters_due.ns && p->filters_due.ns < next.ns)
		next = p->filters_due;
	apus_dp_worker_take_turn(p->control);
	pthread_mutex_unlock(&p->lock);
	apus_dp_worker_sleep(p->control, next.ns);
}

static void *control_main(void *arg)
{
	struct apus_participant *p = arg;

	/* Acquire: pairs with the release in stop_control(). */
	while (!atomic_load_explicit(&p->stop, memory_order_acquire))
		control_round(p);
	return NULL;
}

static int start_control(struct apus_participant *p, char *why, size_t why_bytes)
{
	pthread_attr_t attr;
	cpu_set_t set;
	int rc;

	pthread_attr_init(&attr);
	if (p->config.control_core >= 0) {
		CPU_ZERO(&set);
		CPU_SET(p->config.control_core, &set);
		pthread_attr_setaffinity_np(&attr, sizeof(set), &set);
	}
	rc = pthread_create(&p->thread, &attr, control_main, p);
	pthread_attr_destroy(&attr);
	p->thread_started = rc == 0;
	if (rc == 0)
		return 0;
	snprintf(why, why_bytes, "cannot start the control thread%s: %s",
		 p->config.control_core >= 0 ? " on the core that control.core names" : "",
		 strerror(rc));
	return APUS_EIO;
}

/* Announces us by the creating thread's own hand: others answer while the control thread starts and the application
 * makes its endpoints. */
static int announce_and_start(struct apus_participant *p, char *why, size_t why_bytes)
{
	int rc;

	pthread_mutex_lock(&p->lock);
	apus_dp_worker_take_turn(p->control);
	(void)apus_ctl_discovery_turn(p->discovery, apus_mono_now());
	apus_dp_worker_end_turn(p->control);
	pthread_mutex_unlock(&p->lock);
	rc = start_control(p, why, why_bytes);
	if (rc == 0)
		return 0;
	apus_dp_worker_take_turn(p->control);
	apus_ctl_discovery_depart(p->discovery);
	apus_dp_worker_end_turn(p->control);
	return rc;
}

static void stop_control(struct apus_participant *p)
{
	if (!p->thread_started)
		return;
	/* Release: pairs with the acquire in control_main(). */
	atomic_store_explicit(&p->stop, true, memory_order_release);
	apus_dp_worker_wake(p->control);
	pthread_join(p->thread, NULL);
	p->thread_started = false;
}

/* --- create and destroy -------------------------------------------------------------------------- */

/* Descriptors that a participant with many endpoints may come to have. */
#define DESCRIPTORS 256

/* Has the kernel make room for them now, while there may be one thread only: with more, whoever needs another one when
 * the table is full waits until it is safe to replace it, for tens of milliseconds. */
static void reserve_descriptors(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, DESCRIPTORS - 1);

	if (high >= 0)
		close(high);
}

static int open_parts(struct apus_participant *p, char *why, size_t why_bytes)
{
	int rc = apus_ctl_domain_check_relay(p, why, why_bytes);

	if (rc == 0)
		rc = apus_ctl_domain_open_net(p, why, why_bytes);
	if (rc != 0)
		return rc;
	p->epoch = aligned_alloc(APUS_CACHE_LINE, sizeof(*p->epoch));
	p->scratch = malloc(sizeof(*p->scratch));
	if (!p->epoch || !p->scratch)
		return APUS_ENOMEM;
	/* Relaxed: no other thread exists yet. */
	atomic_store_explicit(&p->epoch->current, 1, memory_order_relaxed);
	make_prefix(&p->prefix);
	rc = apus_ctl_domain_shm_open(p, why, why_bytes);
	if (rc == 0)
		rc = p->config.transport == APUS_CTL_TRANSPORT_WORKER
			     ? open_relayed(p, why, why_bytes)
			     : open_workers(p, why, why_bytes);
	if (rc != 0)
		return rc;
	apus_ctl_domain_make_self(p);
	rc = apus_ctl_domain_open_types(p);
	if (rc == 0)
		rc = create_graph(p);
	if (rc == 0)
		rc = create_discovery(p, why, why_bytes);
	if (rc == 0)
		rc = create_publisher(p);
	if (rc == 0)
		rc = apus_ctl_domain_open_builtin(p);
	if (rc == 0)
		rc = apus_ctl_domain_stats_open(p, why, why_bytes);
	reserve_descriptors(p->control->wake_fd);
	if (rc == 0)
		rc = spawn_workers(p, why, why_bytes);
	if (rc == 0)
		rc = announce_and_start(p, why, why_bytes);
	return rc;
}

static void close_parts(struct apus_participant *p)
{
	stop_control(p);
	apus_ctl_domain_stats_close(p);
	for (uint32_t i = 0; i < p->worker_count; i++)
		apus_dp_worker_stop(p->workers[i]);
	apus_ctl_discovery_destroy(p->discovery);
	apus_ctl_publisher_destroy(p->publisher); /* before the ports it publishes to */
	apus_ctl_domain_drop_classes(p);
	apus_ctl_graph_destroy(p->graph);
	apus_ctl_domain_close_builtin(p);
	apus_ctl_domain_close_types(p);
	for (uint32_t i = 0; i < p->worker_count; i++)
		apus_dp_worker_destroy(p->workers[i]);
	apus_dp_worker_destroy(p->control);
	apus_ctl_domain_shm_close(p);
	apus_ctl_domain_close_port(p);
	apus_dp_netwatch_close(p->netwatch_fd);
	free(p->scratch);
	free(p->epoch);
	apus_ctl_domain_listen_close(p);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

static int create(const struct apus_config *config, struct apus_participant **participant_out,
		  char *why, size_t why_bytes)
{
	struct apus_participant *p;
	int rc = apus_ctl_config_check(apus_ctl_config_of(config), why, why_bytes);

	if (rc != 0)
		return rc;
	p = calloc(1, sizeof(*p));
	if (!p)
		return APUS_ENOMEM;
	p->config = *apus_ctl_config_of(config);
	apus_dp_fork_guard();
	p->fork_count = apus_dp_fork_count;
	p->netwatch_fd = -1;
	pthread_mutex_init(&p->lock, NULL);
	rc = apus_ctl_domain_listen_open(p);
	if (rc == 0)
		rc = open_parts(p, why, why_bytes);
	if (rc != 0) {
		if (why[0] == '\0')
			snprintf(why, why_bytes, "%s", apus_strerror(rc));
		close_parts(p);
		return rc;
	}
	/* Whoever has a participant has its counter file with something in it, however soon it dies. */
	pthread_mutex_lock(&p->lock);
	(void)apus_ctl_domain_stats_turn(p, apus_mono_now());
	pthread_mutex_unlock(&p->lock);
	*participant_out = p;
	return 0;
}

int apus_participant_create(const struct apus_config *config,
			    struct apus_participant **participant_out, char *why, size_t why_bytes)
{
	struct apus_config *defaults;
	char unused[256];
	int rc;

	if (!participant_out)
		return APUS_EINVAL;
	if (!why || why_bytes == 0) {
		why = unused;
		why_bytes = sizeof(unused);
	}
	why[0] = '\0';
	if (config)
		return create(config, participant_out, why, why_bytes);
	defaults = apus_config_create();
	if (!defaults)
		return APUS_ENOMEM;
	rc = create(defaults, participant_out, why, why_bytes);
	apus_config_destroy(defaults);
	return rc;
}

int apus_participant_destroy(struct apus_participant *participant)
{
	if (!participant)
		return 0;
	if (!apus_dp_alive(participant->fork_count))
		return APUS_ECLOSED; /* the parent's threads do not exist here: nothing can be taken down */
	if (apus_ctl_domain_is_calling(participant))
		return APUS_EDEADLK;
	apus_ctl_domain_delete_entities(participant);
	stop_control(participant);
	pthread_mutex_lock(&participant->lock);
	apus_dp_worker_take_turn(participant->control);
	apus_ctl_discovery_depart(participant->discovery);
	apus_dp_worker_end_turn(participant->control);
	pthread_mutex_unlock(&participant->lock);
	close_parts(participant);
	return 0;
}

struct apus_guid apus_participant_guid(const struct apus_participant *participant)
{
	return apus_guid_make(&participant->prefix, (struct apus_eid){APUS_CTL_EID_PARTICIPANT});
}

uint32_t apus_participant_worker_count(const struct apus_participant *participant)
{
	return participant->worker_count;
}

int apus_worker_poll(struct apus_participant *participant, uint32_t idx)
{
	struct apus_dp_worker *w;
	struct apus_mono now;
	int work;

	if (!apus_dp_alive(participant->fork_count))
		return APUS_ECLOSED;
	if (idx >= participant->worker_count)
		return APUS_EINVAL;
	w = participant->workers[idx];
	if (w->spawned)
		return APUS_ENOTSUP;
	if (!apus_dp_worker_try_turn(w))
		return APUS_EAGAIN;
	now = apus_mono_now();
	work = apus_dp_worker_poll(w, now);
	if (work == 0 && w->event_fd >= 0)
		apus_dp_worker_fd_lower(w, now);
	apus_dp_worker_end_turn(w);
	if (apus_dp_target_is_pending(&w->listeners))
		apus_ctl_domain_listen(participant, w);
	return work;
}

int apus_worker_fd(struct apus_participant *participant, uint32_t idx)
{
	struct apus_dp_worker *w;
	int fd;

	if (!apus_dp_alive(participant->fork_count))
		return APUS_ECLOSED;
	if (idx >= participant->worker_count)
		return APUS_EINVAL;
	w = participant->workers[idx];
	if (w->spawned)
		return APUS_ENOTSUP;
	apus_dp_worker_take_turn(w);
	fd = apus_dp_worker_fd(w);
	apus_dp_worker_end_turn(w);
	return fd;
}
