/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker process made of a configuration; see <apus/relay.h> and dataplane/io/relay.h. Its queues are sockets, or of a
 * port that it drives without the kernel: then applications share that port's address.
 */
#include "control/domain.h"

#include "dataplane/io/netwatch.h"
#include "dataplane/io/relay.h"

#include <apus/relay.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POLL_MAX_NS (60 * APUS_NS_PER_SEC)
/* With a counter file no poll is longer: it is brought up to date by polls. */
#define STATS_TURN_NS (250 * APUS_NS_PER_MS)

struct apus_relay {
	struct apus_ctl_config config;
	struct apus_dp_relay *relay;
	int netwatch_fd;
	/* An interface of its own (transport = dpdk); NULL: the kernel's. */
	const struct apus_dp_plugin *plugin;
	struct apus_dp_port *port;
	struct apus_dp_netif interfaces[APUS_DP_NETIF_MAX];
	size_t interface_count;
	/* The counter file (stats.file); NULL: none is kept. */
	struct apus_ctl_stats_file *stats;
	struct apus_ctl_stats_keeper *stats_keeper;
	struct apus_mono stats_due;
	char warning[128]; /* of the port, told last; "": none */
};

/* Settings that mean something to a worker process. */
static bool has_effect(const char *name)
{
	static const char *const names[] = {
		"interfaces",      "rx.buffers",       "stats.file",          "transport",
		"transport.ipv6",  "worker.burst",     "worker.applications", "worker.cores",
		"worker.count",    "worker.directory", "worker.idle",         "worker.name",
		"worker.priority", "worker.queues",    "worker.ring_bytes",
	};

	for (size_t i = 0; i < APUS_ARRAY_LENGTH(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return strncmp(name, "dpdk.", 5) == 0; /* where they have none they are refused elsewhere */
}

static int refuse_idle_settings(const struct apus_config *config, char *why, size_t why_bytes)
{
	const struct apus_setting *s;

	for (size_t i = 0; (s = apus_config_describe(i)); i++) {
		char value[APUS_CTL_TEXT_BYTES + 1] = "";

		if (has_effect(s->name))
			continue;
		(void)apus_config_get(config, s->name, value, sizeof(value));
		if (strcmp(value, s->default_value) == 0)
			continue;
		snprintf(why, why_bytes, "%s: has no effect on a worker process", s->name);
		return APUS_EINVAL;
	}
	return 0;
}

static uint16_t family_of(const struct apus_relay *r)
{
	return r->config.ipv6 ? AF_INET6 : AF_INET;
}

static int look_up(struct apus_relay *r, struct apus_dp_netif found[APUS_DP_NETIF_MAX],
		   size_t *count_out, char *why, size_t why_bytes)
{
	memset(found, 0, APUS_DP_NETIF_MAX * sizeof(*found));
	return apus_dp_netif_lookup_family(family_of(r), r->config.interfaces, why, why_bytes,
					   APUS_DP_NETIF_MAX, found, count_out);
}

/* A queue on the port of this process. */
static int open_on_port(void *user, const struct apus_dp_queue_config *q, char *why,
			size_t why_bytes, struct apus_dp_queue **queue_out)
{
	struct apus_relay *r = user;

	return r->plugin->queue_open(r->port, q, why, why_bytes, queue_out);
}

/* The port is the only interface then. */
static int open_port(struct apus_relay *r, char *why, size_t why_bytes)
{
	struct apus_dp_port_config config = apus_ctl_domain_port_config(&r->config);
	int rc = apus_dp_plugin_load(r->config.dpdk_library, why, why_bytes, &r->plugin);

	if (rc != 0)
		return rc;
	/* A burst for as many queues as there may be applications: what is held is copied before the next one. */
	config.hold_count = r->config.relay_applications * r->config.relay_burst;
	rc = r->plugin->port_open(&config, why, why_bytes, &r->port);
	if (rc != 0)
		return rc;
	r->interface_count = 1;
	return r->plugin->port_netif(r->port, family_of(r), &r->interfaces[0]);
}

static void fill(struct apus_relay *r, struct apus_dp_relay_config *c)
{
	static const enum apus_dp_queue_kind kinds[] = {
		[APUS_CTL_TRANSPORT_AUTO] = APUS_DP_QUEUE_AUTO,
		[APUS_CTL_TRANSPORT_URING] = APUS_DP_QUEUE_URING,
		[APUS_CTL_TRANSPORT_SOCKET] = APUS_DP_QUEUE_SOCKET,
		[APUS_CTL_TRANSPORT_DPDK] = APUS_DP_QUEUE_DPDK,
	};
	static const enum apus_dp_relay_idle idle[] = {
		[APUS_CTL_IDLE_POLL] = APUS_DP_RELAY_POLL,
		[APUS_CTL_IDLE_PAUSE] = APUS_DP_RELAY_PAUSE,
		[APUS_CTL_IDLE_BLOCK] = APUS_DP_RELAY_BLOCK,
	};
	const struct apus_ctl_config *k = &r->config;

	*c = (struct apus_dp_relay_config){
		.directory = k->relay_directory,
		.name = k->relay_name,
		.thread_count = k->worker_count,
		.priority = (int)k->worker_priority,
		.idle = idle[k->worker_idle],
		.applications = k->relay_applications,
		.queues = k->relay_queues,
		.ring_bytes = k->relay_ring_bytes,
		.burst = k->relay_burst,
		.interface_count = (uint32_t)r->interface_count,
	};
	if (r->port) {
		c->open = open_on_port;
		c->user = r;
	}
	apus_dp_queue_config_default(&c->queue);
	c->queue.kind = kinds[k->transport];
	c->queue.rx_buffer_count = r->port ? k->relay_burst : k->rx_buffer_count;
	c->queue.lazy_memory = true;
	memcpy(c->interfaces, r->interfaces, sizeof(c->interfaces));
	for (uint32_t i = 0; i < k->worker_count; i++)
		c->cores[i] = i < k->worker_core_count ? k->worker_core[i] : -1;
}

/* Queues served at present. */
static uint32_t queue_count(const struct apus_relay *r)
{
	const struct apus_dp_relay_counters *c = apus_dp_relay_counters(r->relay);
	uint64_t gone = apus_counter_get(&c->closed) + apus_counter_get(&c->reclaimed) +
			apus_counter_get(&c->broken);

	return (uint32_t)(apus_counter_get(&c->attached) - gone);
}

static void keep_stats(struct apus_relay *r)
{
	struct apus_mono now = apus_mono_now();

	if (!r->stats || apus_mono_before(now, r->stats_due))
		return;
	r->stats_due = apus_ctl_stats_relay_turn(r->stats, r->stats_keeper, r, r->config.relay_name,
						 queue_count(r), now);
}

static int create(const struct apus_config *config, struct apus_relay *r, char *why,
		  size_t why_bytes)
{
	struct apus_dp_relay_config c;
	int rc = apus_ctl_config_check(apus_ctl_config_of(config), why, why_bytes);

	r->config = *apus_ctl_config_of(config);
	if (rc == 0)
		rc = refuse_idle_settings(config, why, why_bytes);
	if (rc == 0 && r->config.transport == APUS_CTL_TRANSPORT_WORKER) {
		snprintf(why, why_bytes, "transport: a worker process needs one of its own");
		rc = APUS_EINVAL;
	}
	if (rc == 0 && r->config.transport == APUS_CTL_TRANSPORT_DPDK) {
		rc = open_port(r, why, why_bytes);
	} else if (rc == 0) {
		/* Watched first, so that no change falls between. */
		r->netwatch_fd = apus_dp_netwatch_open();
		rc = look_up(r, r->interfaces, &r->interface_count, why, why_bytes);
	}
	if (rc == 0)
		fill(r, &c);
	if (rc == 0)
		rc = apus_dp_relay_create(&c, why, why_bytes, &r->relay);
	if (rc == 0 && *r->config.stats_file)
		rc = apus_ctl_stats_keep(r->config.stats_file, 1, why, why_bytes, &r->stats,
					 &r->stats_keeper);
	if (rc == 0)
		keep_stats(r);
	return rc;
}

int apus_relay_create(const struct apus_config *config, struct apus_relay **relay_out, char *why,
		      size_t why_bytes)
{
	struct apus_relay *r = config && relay_out ? calloc(1, sizeof(*r)) : NULL;
	char unread[1];
	int rc;

	if (!r)
		return config && relay_out ? APUS_ENOMEM : APUS_EINVAL;
	if (!why || !why_bytes) {
		why = unread;
		why_bytes = sizeof(unread);
	}
	*why = '\0';
	r->netwatch_fd = -1;
	rc = create(config, r, why, why_bytes);
	if (rc == 0) {
		*relay_out = r;
		return 0;
	}
	if (!*why)
		snprintf(why, why_bytes, "%s", apus_strerror(rc));
	apus_relay_destroy(r);
	return rc;
}

/* True if the interfaces were others, and are told to everybody. */
static bool follow_net(struct apus_relay *r)
{
	struct apus_dp_netif found[APUS_DP_NETIF_MAX];
	size_t count;

	if (!apus_dp_netwatch_changed(r->netwatch_fd) || look_up(r, found, &count, NULL, 0) != 0 ||
	    (count == r->interface_count && memcmp(found, r->interfaces, sizeof(found)) == 0))
		return false;
	memcpy(r->interfaces, found, sizeof(found));
	r->interface_count = count;
	apus_dp_relay_set_interfaces(r->relay, found, (uint32_t)count);
	return true;
}

/* True if there is something new to be told about the port. */
static bool follow_port(struct apus_relay *r)
{
	char text[sizeof(r->warning)] = "";

	if (!r->port)
		return false;
	if (!r->plugin->port_warning(r->port, text, sizeof(text)))
		*text = '\0';
	if (strcmp(text, r->warning) == 0)
		return false;
	strcpy(r->warning, text);
	return true;
}

int apus_relay_poll(struct apus_relay *relay, int64_t timeout_ns,
		    void (*event)(const struct apus_relay_event *event, void *user), void *user)
{
	static const enum apus_relay_event_kind kinds[] = {
		[APUS_DP_RELAY_THREAD] = APUS_RELAY_THREAD,
		[APUS_DP_RELAY_ATTACHED] = APUS_RELAY_ATTACHED,
		[APUS_DP_RELAY_DETACHED] = APUS_RELAY_DETACHED,
		[APUS_DP_RELAY_REFUSED] = APUS_RELAY_REFUSED,
	};
	struct apus_dp_relay_event e;
	int n = 0;

	if (!relay || timeout_ns < 0 || timeout_ns > POLL_MAX_NS)
		return APUS_EINVAL;
	if (relay->stats && timeout_ns > STATS_TURN_NS)
		timeout_ns = STATS_TURN_NS;
	apus_dp_relay_turn(relay->relay, (int)((timeout_ns + APUS_NS_PER_MS - 1) / APUS_NS_PER_MS));
	if (follow_net(relay)) {
		n++;
		if (event)
			event(&(struct apus_relay_event){.kind = APUS_RELAY_NETWORK, .text = ""},
			      user);
	}
	if (follow_port(relay)) {
		n++;
		if (event)
			event(&(struct apus_relay_event){.kind = APUS_RELAY_NETWORK,
							 .text = *relay->warning ? relay->warning
										 : "well again"},
			      user);
	}
	while (apus_dp_relay_event(relay->relay, &e)) {
		n++;
		if (event)
			event(&(struct apus_relay_event){kinds[e.kind], e.pid, e.port, e.thread,
							 e.text},
			      user);
	}
	keep_stats(relay);
	return n;
}

struct named {
	const char *name;
	size_t offset;
};

#define COUNTER(type, field, text)                 \
	{                                          \
		text, offsetof(struct type, field) \
	}

static const struct named counters[] = {
	COUNTER(apus_dp_relay_counters, attached, "relay.attached"),
	COUNTER(apus_dp_relay_counters, closed, "relay.closed"),
	COUNTER(apus_dp_relay_counters, reclaimed, "relay.reclaimed"),
	COUNTER(apus_dp_relay_counters, refused, "relay.refused"),
	COUNTER(apus_dp_relay_counters, taken, "relay.taken"),
	COUNTER(apus_dp_relay_counters, broken, "relay.broken"),
};

static const struct named thread_counters[] = {
	COUNTER(apus_dp_relay_thread_counters, in, "relay.in"),
	COUNTER(apus_dp_relay_thread_counters, out, "relay.out"),
	COUNTER(apus_dp_relay_thread_counters, bad, "relay.bad"),
	COUNTER(apus_dp_relay_thread_counters, stalls, "relay.stalls"),
	COUNTER(apus_dp_relay_thread_counters, bells_in, "relay.bells"),
};

static uint64_t value_of(const void *holder, const struct named *n)
{
	const void *at = (const char *)holder + n->offset;

	return apus_counter_get(at);
}

void apus_relay_visit(struct apus_relay *relay,
		      void (*visit)(const struct apus_stat *stat, void *user), void *user)
{
	const struct apus_dp_relay_thread_counters *t;

	for (size_t i = 0; i < APUS_ARRAY_LENGTH(counters); i++)
		visit(&(struct apus_stat){counters[i].name,
					  value_of(apus_dp_relay_counters(relay->relay),
						   &counters[i])},
		      user);
	for (size_t i = 0; i < APUS_ARRAY_LENGTH(thread_counters); i++) {
		struct apus_stat stat = {thread_counters[i].name, 0};

		for (uint32_t k = 0; (t = apus_dp_relay_thread_counters(relay->relay, k)); k++)
			stat.value += value_of(t, &thread_counters[i]);
		visit(&stat, user);
	}
	apus_ctl_domain_visit_port(relay->plugin, relay->port, visit, user);
}

void apus_relay_destroy(struct apus_relay *relay)
{
	if (!relay)
		return;
	apus_ctl_stats_drop(relay->stats, relay->stats_keeper);
	apus_dp_relay_destroy(relay->relay);
	if (relay->port)
		relay->plugin->port_close(relay->port);
	apus_dp_netwatch_close(relay->netwatch_fd);
	free(relay);
}
