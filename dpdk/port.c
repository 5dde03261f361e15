/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ports of this process: one object a device, shared by all participants that name it. The list and what is done
 * at creation only is under one lock, which no thread takes that moves datagrams.
 */
#include "dpdk/port.h"

#include "dpdk/eal.h"

#include <apus/core.h>

#include <arpa/inet.h>
#include <pthread.h>
#include <rte_ethdev.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

/* Datagrams that all queues of a port may hold at least: a second participant on it wants some, too. */
#define HOLDS_MIN 512
/* Probes for our address, and how long each is waited for. */
#define PROBES   3
#define PROBE_NS (40 * APUS_NS_PER_MS)

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct apus_dp_port *ports;

/* --- the engine ----------------------------------------------------------------------------------- */

static void fill_engine(const struct apus_dpdk_settings *s, const struct apus_dpdk_device *d,
			struct apus_ip_config *c)
{
	apus_ip_config_default(c);
	memcpy(c->mac, d->mac, sizeof(c->mac));
	memcpy(c->ipv4, s->ipv4, sizeof(c->ipv4));
	c->ipv4_prefix_bits = s->has_ipv4 ? s->ipv4_bits : c->ipv4_prefix_bits;
	memcpy(c->ipv4_gateway, s->gateway, sizeof(c->ipv4_gateway));
	c->ipv6 = s->has_ipv6;
	memcpy(c->ipv6_global, s->ipv6, sizeof(c->ipv6_global));
	c->ipv6_prefix_bits = s->has_ipv6 ? s->ipv6_bits : c->ipv6_prefix_bits;
	c->vlan_id = s->vlan;
	c->mtu_bytes = d->mtu_bytes;
	c->multicast_ttl = s->multicast_ttl;
	c->accept_partial_checksums = s->accept_partial_checksums;
	c->udp_checksum = d->tx_offloads ? APUS_IP_UDP_HARDWARE : APUS_IP_UDP_SOFTWARE;
	c->ipv4_checksum_hardware = d->tx_offloads != 0;
	c->group_count = 128;
	c->reassembly_count = APUS_DPDK_ASSEMBLIES;
	c->reassembly_per_source_count = APUS_DPDK_ASSEMBLIES / 2;
	(void)!getrandom(&c->seed, sizeof(c->seed), GRND_NONBLOCK);
}

static int set_neighbours(struct apus_dp_port *port, char *why, size_t why_bytes)
{
	const struct apus_dpdk_settings *s = &port->settings;

	for (uint32_t i = 0; i < s->neighbour_count; i++) {
		struct apus_ip_endpoint e = apus_ip_endpoint_v4(s->neighbour[i].ipv4, 0);
		int rc = apus_ip_neighbour_set(port->ip, &e, s->neighbour[i].mac);

		if (rc != 0) {
			snprintf(why, why_bytes, "dpdk.neighbours: the one in place %u: %s", i + 1,
				 apus_strerror(rc));
			return rc;
		}
	}
	return 0;
}

static void note_own(struct apus_dp_port *port)
{
	const struct apus_dpdk_settings *s = &port->settings;

	if (s->has_ipv4)
		port->own[0] = apus_ip_endpoint_v4(s->ipv4, 0);
	if (s->has_ipv6)
		port->own[1] = apus_ip_endpoint_v6(s->ipv6, 0);
}

static int make_engine(struct apus_dp_port *port, char *why, size_t why_bytes)
{
	struct apus_ip_config c;
	int rc;

	fill_engine(&port->settings, &port->device, &c);
	rc = apus_ip_create(&c, why, why_bytes, &port->ip);
	if (rc != 0)
		return rc;
	note_own(port);
	rc = set_neighbours(port, why, why_bytes);
	if (rc != 0)
		return rc;
	return 0;
}

/* Whether our address is free on the link. A link that is not up, or comes up later, cannot be asked: then conflicts
 * are counted as they come. */
static int probe(struct apus_dp_port *port, char *why, size_t why_bytes)
{
	const struct apus_dpdk_settings *s = &port->settings;
	char text[INET6_ADDRSTRLEN] = "";
	uint8_t mac[6];

	for (int i = 0;
	     i < PROBES && apus_dpdk_device_is_up(&port->device) && !apus_ip_rival(port->ip, mac);
	     i++)
		apus_dpdk_port_probe(port, PROBE_NS);
	if (apus_ip_rival(port->ip, mac)) {
		inet_ntop(s->has_ipv4 ? AF_INET : AF_INET6, s->has_ipv4 ? s->ipv4 : s->ipv6, text,
			  sizeof(text));
		snprintf(why, why_bytes,
			 "%s: %s is in use on this link, by %02x:%02x:%02x:%02x:%02x:%02x",
			 s->has_ipv4 ? "dpdk.address" : "dpdk.ipv6", text, mac[0], mac[1], mac[2],
			 mac[3], mac[4], mac[5]);
		return APUS_EEXIST;
	}
	apus_ip_tick(port->ip, apus_mono_now());
	return 0;
}

/* --- opening and closing -------------------------------------------------------------------------- */

static struct apus_dp_port *find(const char *device)
{
	struct apus_dp_port *port = ports;

	while (port && strcmp(port->settings.device, device) != 0)
		port = port->next;
	return port;
}

static void destroy(struct apus_dp_port *port, bool has_device)
{
	if (has_device)
		apus_dpdk_device_close(&port->device);
	for (int i = 0; i < APUS_DPDK_PLACES_MAX; i++) {
		rte_mempool_free(port->place[i].pool);
		free(port->place[i].large);
	}
	apus_ip_destroy(port->ip);
	free(port);
}

static void make_names(void);

static int create(const struct apus_dpdk_settings *s, const char *eal, char *why, size_t why_bytes,
		  struct apus_dp_port **port_out)
{
	struct apus_dpdk_eal_config environment = {
		.extra = eal, .pci = s->is_pci ? s->device : NULL, .hugepages = s->hugepages};
	struct apus_dp_port *port = aligned_alloc(APUS_CACHE_LINE, sizeof(*port));
	int rc;

	if (!port)
		return APUS_ENOMEM;
	memset(port, 0, sizeof(*port));
	make_names();
	port->settings = *s;
	port->references = 1;
	port->hold_left = 2 * (s->hold_count > HOLDS_MIN ? s->hold_count : HOLDS_MIN);
	rc = apus_dpdk_eal_start(&environment, why, why_bytes);
	if (rc == 0)
		rc = apus_dpdk_device_open(s, port->hold_left, why, why_bytes, &port->device);
	if (rc != 0) {
		free(port);
		return rc;
	}
	rc = make_engine(port, why, why_bytes);
	if (rc == 0)
		rc = probe(port, why, why_bytes);
	if (rc != 0) {
		destroy(port, true);
		return rc;
	}
	*port_out = port;
	return 0;
}

/* One more user of a port that is open. */
static int share(struct apus_dp_port *port, const struct apus_dpdk_settings *s, char *why,
		 size_t why_bytes)
{
	struct apus_dpdk_settings same = *s;

	same.hold_count = port->settings.hold_count;
	if (memcmp(&same, &port->settings, sizeof(same)) != 0) {
		snprintf(why, why_bytes, "%s is open in this process with other settings%s",
			 s->device, port->references ? "" : ": both ends of a memif stay open");
		return APUS_EEXIST;
	}
	port->references++;
	return 0;
}

int apus_dpdk_port_open(const struct apus_dp_port_config *config, char *why, size_t why_bytes,
			struct apus_dp_port **port_out)
{
	struct apus_dpdk_settings s;
	struct apus_dp_port *port;
	int rc = apus_dpdk_settings_parse(config, why, why_bytes, &s);

	if (rc != 0)
		return rc;
	pthread_mutex_lock(&list_lock);
	port = find(s.device);
	if (port) {
		rc = share(port, &s, why, why_bytes);
	} else {
		rc = create(&s, config->eal, why, why_bytes, &port);
		if (rc == 0) {
			port->next = ports;
			ports = port;
		}
	}
	pthread_mutex_unlock(&list_lock);
	if (rc == 0)
		*port_out = port;
	return rc;
}

/* Whether a port must not be closed. When both ends of a memif pair are closed in one process, the driver's own thread, told
 * of the one's end, still touches the other (DPDK 22.11: memif_disconnect() in the interrupt thread beside
 * memif_dev_close() frees rings that are in use). So a memif port stays as long as the process has another, which may be its
 * other end, and waits in the list for whoever opens it again. */
static bool must_stay(const struct apus_dp_port *port)
{
	bool stays = false;

	if (strncmp(port->settings.device, "net_memif", 9) != 0)
		return false;
	for (const struct apus_dp_port *other = ports; other && !stays; other = other->next)
		stays = other != port && strncmp(other->settings.device, "net_memif", 9) == 0;
	return stays;
}

void apus_dpdk_port_close(struct apus_dp_port *port)
{
	struct apus_dp_port **at = &ports;

	pthread_mutex_lock(&list_lock);
	if (--port->references == 0 && !must_stay(port)) {
		while (*at != port)
			at = &(*at)->next;
		*at = port->next;
		destroy(port, true);
	}
	pthread_mutex_unlock(&list_lock);
}

int apus_dpdk_port_netif(struct apus_dp_port *port, uint16_t family,
			 struct apus_dp_netif *netif_out)
{
	const struct apus_dpdk_settings *s = &port->settings;

	if (family == AF_INET6 ? !s->has_ipv6 : !s->has_ipv4)
		return APUS_ENODEV;
	memset(netif_out, 0, sizeof(*netif_out));
	snprintf(netif_out->name, sizeof(netif_out->name), "%.15s", s->device);
	netif_out->ifindex = port->device.id + 1u;
	netif_out->family = family;
	memcpy(netif_out->ipv4, s->ipv4, sizeof(s->ipv4));
	memcpy(netif_out->ipv6, s->ipv6, sizeof(s->ipv6));
	netif_out->mtu_bytes = port->device.mtu_bytes;
	return 0;
}

int apus_dpdk_port_reserve(struct apus_dp_port *port, const uint16_t *udp_ports, uint32_t count)
{
	bool taken = false;

	apus_dpdk_port_take(port);
	for (uint32_t i = 0; i < count; i++)
		taken = taken || port->by_port[udp_ports[i]] != 0;
	for (uint32_t i = 0; i < count && !taken; i++)
		port->by_port[udp_ports[i]] = APUS_DPDK_RESERVED;
	apus_dpdk_port_give(port);
	return taken ? APUS_EADDRINUSE : 0;
}

void apus_dpdk_port_unreserve(struct apus_dp_port *port, const uint16_t *udp_ports, uint32_t count)
{
	apus_dpdk_port_take(port);
	for (uint32_t i = 0; i < count; i++)
		if (port->by_port[udp_ports[i]] == APUS_DPDK_RESERVED)
			port->by_port[udp_ports[i]] = 0;
	apus_dpdk_port_give(port);
}

/* --- counters ------------------------------------------------------------------------------------- */

#define PORT(field)                                                             \
	{                                                                       \
		"port." #field, offsetof(struct apus_dpdk_port_counters, field) \
	}

static const struct {
	const char *name;
	size_t offset;
} port_counters[] = {
	PORT(rx_frames), PORT(rx_bytes), PORT(rx_segmented), PORT(rx_overflow), PORT(rx_no_queue),
	PORT(tx_frames), PORT(tx_bytes), PORT(tx_full),      PORT(tx_refused),  PORT(tx_no_buffer),
	PORT(local),     PORT(wakes),    PORT(polls),
};

/* The engine's names with "ip." in front; made once, with the first port. */
static char ip_names[APUS_IP_COUNT_MAX][40];

static void make_names(void)
{
	for (uint32_t i = 0; i < APUS_IP_COUNT_MAX && !ip_names[0][0]; i++) {
		uint32_t k = APUS_IP_COUNT_MAX - 1 - i;

		snprintf(ip_names[k], sizeof(ip_names[k]), "ip.%s",
			 apus_ip_count_name((enum apus_ip_count)k));
	}
}

/* What the device says it had no buffer or place for: no counter of ours moves then. */
static uint64_t rx_missed(const struct apus_dp_port *port)
{
	struct rte_eth_stats stats;

	return rte_eth_stats_get(port->device.id, &stats) == 0 ? stats.imissed + stats.rx_nombuf
							       : 0;
}

bool apus_dpdk_port_stat(struct apus_dp_port *port, uint32_t idx,
			 struct apus_dp_port_stat *stat_out)
{
	const uint32_t own = APUS_ARRAY_LENGTH(port_counters) + 1;

	if (idx == own - 1) {
		stat_out->name = "port.rx_missed";
		stat_out->value = rx_missed(port);
		return true;
	}
	if (idx < own) {
		stat_out->name = port_counters[idx].name;
		stat_out->value = apus_counter_get(
			(const struct apus_counter *)((const char *)&port->counters +
						      port_counters[idx].offset));
		return true;
	}
	if (idx - own >= APUS_IP_COUNT_MAX)
		return false;
	stat_out->name = ip_names[idx - own];
	stat_out->value = apus_ip_count_get(port->ip, (enum apus_ip_count)(idx - own));
	return true;
}

/* --- warnings ------------------------------------------------------------------------------------- */

bool apus_dpdk_port_warning(struct apus_dp_port *port, char *text_out, size_t text_bytes)
{
	uint64_t conflicts = apus_ip_count_get(port->ip, APUS_IP_ADDRESS_CONFLICT);

	if (apus_dpdk_host_warning(&port->device.host, text_out, text_bytes))
		return true;
	if (conflicts == 0)
		return false;
	snprintf(text_out, text_bytes, "somebody else on this link claims our address");
	return true;
}
