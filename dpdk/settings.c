/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing of a port's settings: see settings.h. */
#include "dpdk/settings.h"

#include <apus/core.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

/* "address/bits". */
static bool parse_prefix(int family, const char *text, uint8_t *address, uint8_t *bits)
{
	char copy[INET6_ADDRSTRLEN + 8], *slash, *end;
	long number;

	if (strlen(text) >= sizeof(copy))
		return false;
	strcpy(copy, text);
	slash = strchr(copy, '/');
	if (!slash || slash[1] < '0' || slash[1] > '9')
		return false;
	*slash = '\0';
	number = strtol(slash + 1, &end, 10);
	if (*end || number < 1 || number > (family == AF_INET ? 32 : 128))
		return false;
	*bits = (uint8_t)number;
	return inet_pton(family, copy, address) == 1;
}

static bool parse_mac(const char *text, uint8_t mac[6])
{
	unsigned byte[6];
	int used = 0;

	if (strspn(text, "0123456789abcdefABCDEF:") != strlen(text) ||
	    sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x%n", &byte[0], &byte[1], &byte[2], &byte[3],
		   &byte[4], &byte[5], &used) != 6 ||
	    text[used] != '\0')
		return false;
	for (int i = 0; i < 6; i++)
		mac[i] = (uint8_t)byte[i];
	return !(mac[0] & 1); /* a group has no neighbour */
}

static bool parse_neighbour(char *item, struct apus_dpdk_neighbour *out)
{
	char *equals = strchr(item, '=');

	if (!equals)
		return false;
	*equals = '\0';
	return inet_pton(AF_INET, item, out->ipv4) == 1 && parse_mac(equals + 1, out->mac);
}

static bool parse_neighbours(const char *text, struct apus_dpdk_settings *s)
{
	char copy[APUS_DPDK_DEVICE_BYTES + 1], *rest = copy, *item;

	if (strlen(text) >= sizeof(copy))
		return false;
	strcpy(copy, text);
	while (*text && (item = strsep(&rest, ","))) {
		item += strspn(item, " ");
		if (s->neighbour_count == APUS_DPDK_NEIGHBOURS_MAX ||
		    !parse_neighbour(item, &s->neighbour[s->neighbour_count++]))
			return false;
	}
	return true;
}

/* "0000:3b:00.0" or "3b:00.0". */
static bool is_pci_address(const char *name)
{
	unsigned domain, bus, device, function;
	int used = 0;

	if (sscanf(name, "%4x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &used) == 4)
		return name[used] == '\0';
	used = 0;
	return sscanf(name, "%2x:%2x.%1x%n", &bus, &device, &function, &used) == 3 &&
	       name[used] == '\0';
}

static bool parse_device(const char *text, struct apus_dpdk_settings *s)
{
	size_t name_bytes = strcspn(text, ",");

	if (name_bytes == 0 || strlen(text) > APUS_DPDK_DEVICE_BYTES)
		return false;
	memcpy(s->device, text, name_bytes);
	if (text[name_bytes] == ',')
		strcpy(s->arguments, text + name_bytes + 1);
	s->is_pci = is_pci_address(s->device);
	return s->is_pci || strncmp(s->device, "net_", 4) == 0;
}

/* The setting that does not parse, or NULL. */
static const char *parse_all(const struct apus_dp_port_config *c, struct apus_dpdk_settings *s)
{
	s->has_ipv4 = c->address[0] != '\0';
	s->has_ipv6 = c->ipv6[0] != '\0';
	if (!parse_device(c->device, s))
		return "dpdk.port: no PCI address and no virtual device of the form net_NAME,…";
	if (s->has_ipv4 && !parse_prefix(AF_INET, c->address, s->ipv4, &s->ipv4_bits))
		return "dpdk.address: not of the form 10.0.0.1/24";
	if (s->has_ipv6 && !parse_prefix(AF_INET6, c->ipv6, s->ipv6, &s->ipv6_bits))
		return "dpdk.ipv6: not of the form fd00::1/64";
	if (!s->has_ipv4 && !s->has_ipv6)
		return "dpdk.address: is needed";
	if (c->gateway[0] && (!s->has_ipv4 || inet_pton(AF_INET, c->gateway, s->gateway) != 1))
		return "dpdk.gateway: no IPv4 address, or dpdk.address is missing";
	if (c->neighbours[0] && (!s->has_ipv4 || !parse_neighbours(c->neighbours, s)))
		return "dpdk.neighbours: not of the form 10.0.0.2=02:00:00:00:00:02,…";
	if (c->queue_count < 1 || c->queue_count > 16)
		return "dpdk.queues: 1…16";
	if (c->vlan > 4094)
		return "dpdk.vlan: above 4094";
	if (c->multicast_ttl > 255)
		return "multicast.ttl: above 255";
	return NULL;
}

int apus_dpdk_settings_parse(const struct apus_dp_port_config *config, char *why, size_t why_bytes,
			     struct apus_dpdk_settings *out)
{
	const char *fault;

	memset(out, 0, sizeof(*out));
	fault = parse_all(config, out);
	if (fault) {
		snprintf(why, why_bytes, "%s", fault);
		return APUS_EINVAL;
	}
	out->vlan = (uint16_t)config->vlan;
	out->mtu_bytes = config->mtu_bytes;
	out->multicast_ttl = (uint8_t)config->multicast_ttl;
	out->accept_partial_checksums = config->accept_partial_checksums;
	out->hugepages = config->hugepages;
	out->poll_period_ns = config->poll_period_ns;
	out->hold_count = config->hold_count;
	out->queue_count = config->queue_count;
	return 0;
}
