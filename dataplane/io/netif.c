/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interface lookup over getifaddrs: one list is taken, every item is answered from it.
 */
#include "dataplane/io/netif.h"

#include <apus/core.h>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* What is collected before anything is handed out. */
struct netif_list {
	struct apus_dp_netif entry[APUS_DP_NETIF_MAX];
	size_t count;
	size_t max;
	uint16_t family;
};

static const struct in6_addr *ipv6_of(const struct ifaddrs *ifa)
{
	return &((const struct sockaddr_in6 *)(const void *)ifa->ifa_addr)->sin6_addr;
}

/* Is it up, with an address of the family? */
static bool has_address(const struct ifaddrs *ifa, uint16_t family)
{
	if (!ifa->ifa_addr || ifa->ifa_addr->sa_family != family || !(ifa->ifa_flags & IFF_UP))
		return false;
	return family == AF_INET || !IN6_IS_ADDR_LINKLOCAL(ipv6_of(ifa));
}

static const uint8_t *ipv4_of(const struct ifaddrs *ifa)
{
	return (const uint8_t *)&((const struct sockaddr_in *)(const void *)ifa->ifa_addr)
		->sin_addr;
}

/* Returns 0 if the kernel does not say. */
static uint32_t link_mtu(const char *name)
{
	struct ifreq request;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint32_t mtu_bytes = 0;

	if (fd < 0)
		return 0;
	memset(&request, 0, sizeof(request));
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (ioctl(fd, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0)
		mtu_bytes = (uint32_t)request.ifr_mtu;
	close(fd);
	return mtu_bytes;
}

static bool has_this(const struct apus_dp_netif *entry, const struct ifaddrs *ifa)
{
	return entry->family == AF_INET6 ? memcmp(entry->ipv6, ipv6_of(ifa), 16) == 0
					 : memcmp(entry->ipv4, ipv4_of(ifa), 4) == 0;
}

/* Appends the interface unless it is there already; false if it vanished or the list is full. */
static bool add(struct netif_list *list, const struct ifaddrs *ifa)
{
	struct apus_dp_netif *entry = &list->entry[list->count];
	unsigned int ifindex = if_nametoindex(ifa->ifa_name);

	for (size_t i = 0; i < list->count; i++)
		if (list->entry[i].ifindex == ifindex && has_this(&list->entry[i], ifa))
			return true;
	if (ifindex == 0 || list->count == list->max)
		return false;
	memset(entry, 0, sizeof(*entry));
	snprintf(entry->name, sizeof(entry->name), "%s", ifa->ifa_name);
	entry->ifindex = ifindex;
	entry->family = list->family;
	if (list->family == AF_INET6)
		memcpy(entry->ipv6, ipv6_of(ifa), 16);
	else
		memcpy(entry->ipv4, ipv4_of(ifa), 4);
	entry->mtu_bytes = link_mtu(ifa->ifa_name);
	entry->loopback = (ifa->ifa_flags & IFF_LOOPBACK) != 0;
	list->count++;
	return true;
}

/* One address an interface: peers need one way to reach us on each link, not all of them. */
static bool name_listed(const struct netif_list *list, const char *name)
{
	for (size_t i = 0; i < list->count; i++)
		if (strcmp(list->entry[i].name, name) == 0)
			return true;
	return false;
}

static void add_all(const struct ifaddrs *all, bool loopback, struct netif_list *list)
{
	for (const struct ifaddrs *ifa = all; ifa; ifa = ifa->ifa_next)
		if (has_address(ifa, list->family) &&
		    ((ifa->ifa_flags & IFF_LOOPBACK) != 0) == loopback &&
		    !name_listed(list, ifa->ifa_name))
			add(list, ifa);
}

/* The alias label "eth0:1" names its own address, so compare with the label, not the link. */
static const struct ifaddrs *find(const struct ifaddrs *all, uint16_t family, const char *item)
{
	struct apus_dp_netif address = {.family = family};
	bool by_address =
		inet_pton(family, item,
			  family == AF_INET6 ? (void *)address.ipv6 : (void *)address.ipv4) == 1;

	for (const struct ifaddrs *ifa = all; ifa; ifa = ifa->ifa_next) {
		if (!has_address(ifa, family))
			continue;
		if (by_address ? has_this(&address, ifa) : strcmp(item, ifa->ifa_name) == 0)
			return ifa;
	}
	return NULL;
}

/* Tells a missing interface from one that is merely down or without address. */
static void explain(uint16_t family, const char *item, char *why, size_t why_bytes)
{
	uint8_t address[16];

	if (inet_pton(family, item, address) == 1)
		snprintf(why, why_bytes, "no interface that is up has the address %s", item);
	else if (if_nametoindex(item) == 0)
		snprintf(why, why_bytes, "no interface is named '%s'", item);
	else
		snprintf(why, why_bytes, "interface '%s' is down or has no IPv%d address", item,
			 family == AF_INET6 ? 6 : 4);
}

static int add_item(const struct ifaddrs *all, const char *item, char *why, size_t why_bytes,
		    struct netif_list *list)
{
	const struct ifaddrs *ifa = find(all, list->family, item);

	if (!ifa) {
		explain(list->family, item, why, why_bytes);
		return APUS_ENODEV;
	}
	if (!add(list, ifa)) {
		snprintf(why, why_bytes, "more than %zu interfaces", list->max);
		return APUS_ELIMIT;
	}
	return 0;
}

static int add_listed(const struct ifaddrs *all, const char *spec, char *why, size_t why_bytes,
		      struct netif_list *list)
{
	for (const char *at = spec;; at++) {
		size_t length = strcspn(at, ",");
		size_t longest = list->family == AF_INET6 ? INET6_ADDRSTRLEN : IFNAMSIZ;
		char item[INET6_ADDRSTRLEN];
		int rc;

		if (length == 0 || length >= longest) {
			snprintf(why, why_bytes, "interface list '%.64s': %s item at position %zu",
				 spec, length ? "too long an" : "empty", (size_t)(at - spec));
			return APUS_EINVAL;
		}
		memcpy(item, at, length);
		item[length] = '\0';
		rc = add_item(all, item, why, why_bytes, list);
		if (rc < 0)
			return rc;
		at += length;
		if (*at == '\0')
			return 0;
	}
}

static int add_auto(const struct ifaddrs *all, char *why, size_t why_bytes, struct netif_list *list)
{
	add_all(all, false, list);
	if (list->count == 0)
		add_all(all, true, list);
	if (list->count > 0)
		return 0;
	snprintf(why, why_bytes, "no interface is up and has an IPv%d address, not even loopback",
		 list->family == AF_INET6 ? 6 : 4);
	return APUS_ENODEV;
}

int apus_dp_netif_lookup(const char *spec, char *why, size_t why_bytes, size_t max,
			 struct apus_dp_netif *out, size_t *count_out)
{
	return apus_dp_netif_lookup_family(AF_INET, spec, why, why_bytes, max, out, count_out);
}

int apus_dp_netif_lookup_family(uint16_t family, const char *spec, char *why, size_t why_bytes,
				size_t max, struct apus_dp_netif *out, size_t *count_out)
{
	bool automatic = !spec || *spec == '\0' || strcmp(spec, "auto") == 0;
	struct netif_list list = {.max = max, .family = family};
	struct ifaddrs *all;
	char unread[1];
	int rc;

	if (!why) {
		why = unread;
		why_bytes = sizeof(unread);
	}
	if (max < 1 || max > APUS_DP_NETIF_MAX) {
		snprintf(why, why_bytes, "room for %zu interfaces", max);
		return APUS_EINVAL;
	}
	if (getifaddrs(&all) != 0) {
		snprintf(why, why_bytes, "the kernel does not list its interfaces");
		return APUS_EIO;
	}
	rc = automatic ? add_auto(all, why, why_bytes, &list)
		       : add_listed(all, spec, why, why_bytes, &list);
	freeifaddrs(all);
	if (rc < 0)
		return rc;
	memcpy(out, list.entry, list.count * sizeof(list.entry[0]));
	*count_out = list.count;
	return 0;
}

bool apus_dp_netif_all_loopback(const struct apus_dp_netif *interfaces, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!interfaces[i].loopback)
			return false;
	return true;
}
