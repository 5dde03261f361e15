/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's side of a port: see host.h. */
#include "dpdk/host.h"

#include <apus/core.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct reason {
	char *text;
	size_t bytes;
};

__attribute__((format(printf, 3, 4))) static int say(struct reason why, int rc, const char *format,
						     ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why.text, why.bytes, format, args);
	va_end(args);
	return rc;
}

void apus_dpdk_argument(const char *arguments, const char *key, char *value_out, size_t bytes)
{
	size_t key_bytes = strlen(key);
	const char *at = arguments;

	while (at && strncmp(at, key, key_bytes) != 0) {
		at = strchr(at, ',');
		at = at ? at + 1 : NULL;
	}
	snprintf(value_out, bytes, "%.*s", at ? (int)strcspn(at + key_bytes, ",") : 0,
		 at ? at + key_bytes : "");
}

/* --- the interface -------------------------------------------------------------------------------- */

/* What an ioctl of sockets says of an interface, in *request. Returns 0, APUS_EIO without a socket to ask by, or
 * APUS_ENODEV. */
static int ask(const char *interface, unsigned long what, struct ifreq *request)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool done;

	if (fd < 0)
		return APUS_EIO;
	snprintf(request->ifr_name, sizeof(request->ifr_name), "%s", interface);
	done = ioctl(fd, what, request) == 0;
	close(fd);
	return done ? 0 : APUS_ENODEV;
}

/* IFF_… of an interface, 0 if it is not there. */
static unsigned flags_of(const char *interface)
{
	struct ifreq request = {0};
	int rc = ask(interface, SIOCGIFFLAGS, &request);

	if (rc == APUS_EIO)
		return IFF_UP | IFF_RUNNING; /* nothing is known */
	return rc == 0 ? (unsigned short)request.ifr_flags : 0;
}

uint32_t apus_dpdk_host_mtu(const struct apus_dpdk_host *h)
{
	struct ifreq request = {0};

	return ask(h->interface, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0
		       ? (uint32_t)request.ifr_mtu
		       : 0;
}

static bool is_ours(const struct apus_dpdk_settings *s, const struct sockaddr *a)
{
	if (!a)
		return false;
	if (a->sa_family == AF_INET)
		return s->has_ipv4 &&
		       memcmp(&((const struct sockaddr_in *)(const void *)a)->sin_addr, s->ipv4,
			      4) == 0;
	return a->sa_family == AF_INET6 && s->has_ipv6 &&
	       memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, s->ipv6, 16) == 0;
}

/* The kernel answers for what it has, on whatever interface: two hosts of one address then. */
static int check_addresses(const struct apus_dpdk_settings *s, struct reason why)
{
	char text[INET6_ADDRSTRLEN] = "";
	struct ifaddrs *list, *at;
	int rc = 0;

	if (getifaddrs(&list) != 0)
		return 0;
	for (at = list; at && !is_ours(s, at->ifa_addr); at = at->ifa_next)
		;
	if (at && at->ifa_addr->sa_family == AF_INET)
		inet_ntop(AF_INET, s->ipv4, text, sizeof(text));
	else if (at)
		inet_ntop(AF_INET6, s->ipv6, text, sizeof(text));
	if (at)
		rc = say(
			why, APUS_EEXIST,
			"%s: the kernel has %s as well, on %s; take another address, or: ip addr del "
			"%s/%u dev %s",
			at->ifa_addr->sa_family == AF_INET ? "dpdk.address" : "dpdk.ipv6", text,
			at->ifa_name, text,
			at->ifa_addr->sa_family == AF_INET ? s->ipv4_bits : s->ipv6_bits,
			at->ifa_name);
	freeifaddrs(list);
	return rc;
}

/* Queues that DPDK's AF_XDP driver takes at most: the combined ones as it counts them, of a veth one. */
static uint32_t count_combined(const char *interface)
{
	struct ethtool_channels channels = {.cmd = ETHTOOL_GCHANNELS};
	struct ifreq request = {.ifr_data = (void *)&channels};

	return ask(interface, SIOCETHTOOL, &request) == 0 && channels.combined_count > 0
		       ? channels.combined_count
		       : 1;
}

/* Receive queues that the interface has; 0: not known. */
static uint32_t count_queues(const char *interface)
{
	char path[64 + IF_NAMESIZE];
	struct dirent *entry;
	uint32_t count = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/sys/class/net/%s/queues", interface);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		count += strncmp(entry->d_name, "rx-", 3) == 0;
	if (dir)
		closedir(dir);
	return count;
}

/* --- claims --------------------------------------------------------------------------------------- */

/* Returns 0, APUS_EEXIST or APUS_EIO. */
static int claim(struct apus_dpdk_host *h, const char *text)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int bytes = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "apus/%s", text);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return APUS_EIO;
	if (bind(fd, (struct sockaddr *)&name,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)bytes)) != 0) {
		bool taken = errno == EADDRINUSE;

		close(fd);
		return taken ? APUS_EEXIST : APUS_EIO;
	}
	h->claim_fd[h->claim_count++] = fd;
	return 0;
}

/* A process that is refused an AF_XDP socket takes the first one's program off the interface on its way out. So whoever
 * means to try must own the queue's name first. */
static int claim_queues(struct apus_dpdk_host *h, struct reason why)
{
	char text[64];
	int rc = 0;

	for (uint32_t i = h->first_queue; i < h->first_queue + h->queue_count && rc == 0; i++) {
		snprintf(text, sizeof(text), "xdp/%s/%u", h->interface, i);
		rc = claim(h, text);
		if (rc != 0)
			say(why, rc, "dpdk.port: %s queue %u of %s",
			    rc == APUS_EEXIST ? "another process has" : "cannot claim", i,
			    h->interface);
	}
	return rc;
}

static int claim_address(struct apus_dpdk_host *h, uint32_t vlan, int family,
			 const uint8_t *address, struct reason why)
{
	char text[96], shown[INET6_ADDRSTRLEN] = "";
	int rc;

	inet_ntop(family, address, shown, sizeof(shown));
	snprintf(text, sizeof(text), "ip/%s/%u/%s", h->interface, vlan, shown);
	rc = claim(h, text);
	if (rc != 0)
		say(why, rc, "%s: %s %s on %s", family == AF_INET ? "dpdk.address" : "dpdk.ipv6",
		    rc == APUS_EEXIST ? "another process has" : "cannot claim", shown,
		    h->interface);
	return rc;
}

static int claim_all(const struct apus_dpdk_settings *s, struct apus_dpdk_host *h,
		     struct reason why)
{
	int rc = h->is_xdp ? claim_queues(h, why) : 0;

	if (rc == 0 && s->has_ipv4)
		rc = claim_address(h, s->vlan, AF_INET, s->ipv4, why);
	if (rc == 0 && s->has_ipv6)
		rc = claim_address(h, s->vlan, AF_INET6, s->ipv6, why);
	return rc;
}

/* The queues that an AF_XDP port takes, as its arguments have it: the interface must have them. */
static int find_queues(const struct apus_dpdk_settings *s, struct apus_dpdk_host *h,
		       struct reason why)
{
	uint32_t there = count_queues(h->interface);
	char text[12], *end;
	unsigned long first;

	apus_dpdk_argument(s->arguments, "start_queue=", text, sizeof(text));
	first = strtoul(text, &end, 10);
	h->first_queue = (uint32_t)first;
	h->queue_count = s->queue_count;
	if (*end != '\0' || first >= 4096)
		return say(why, APUS_EINVAL, "dpdk.port: start_queue is no number below 4096");
	if (h->is_xdp && there > 0 && first + s->queue_count > there)
		return say(why, APUS_EINVAL,
			   "dpdk.queues: %s has %u receive queues, not %u from number %lu on",
			   h->interface, there, s->queue_count, first);
	if (h->is_xdp && s->queue_count > count_combined(h->interface))
		return say(why, APUS_EINVAL,
			   "dpdk.queues: net_af_xdp takes %u queue(s) of %s, not %u",
			   count_combined(h->interface), h->interface, s->queue_count);
	return 0;
}

/* --- the whole ------------------------------------------------------------------------------------ */

int apus_dpdk_host_claim(const struct apus_dpdk_settings *s, char *why_text, size_t why_bytes,
			 struct apus_dpdk_host *host_out)
{
	struct reason why = {why_text, why_bytes};
	struct apus_dpdk_host h = {.is_xdp = strncmp(s->device, "net_af_xdp", 10) == 0};
	unsigned flags;
	int rc;

	*host_out = (struct apus_dpdk_host){0};
	if (!h.is_xdp && strncmp(s->device, "net_af_packet", 13) != 0)
		return 0;
	apus_dpdk_argument(s->arguments, "iface=", h.interface, sizeof(h.interface));
	if (if_nametoindex(h.interface) == 0)
		return say(why, APUS_ENODEV, "dpdk.port: there is no interface '%s'", h.interface);
	flags = flags_of(h.interface);
	if (!(flags & IFF_UP))
		return say(why, APUS_ENODEV, "dpdk.port: %s is down; ip link set dev %s up",
			   h.interface, h.interface);
	rc = find_queues(s, &h, why);
	if (rc == 0)
		rc = check_addresses(s, why);
	if (rc == 0)
		rc = claim_all(s, &h, why);
	if (rc != 0)
		apus_dpdk_host_release(&h);
	else
		*host_out = h;
	return rc;
}

void apus_dpdk_host_release(struct apus_dpdk_host *h)
{
	while (h->claim_count > 0)
		close(h->claim_fd[--h->claim_count]);
}

bool apus_dpdk_host_warning(const struct apus_dpdk_host *h, char *text_out, size_t text_bytes)
{
	unsigned flags = *h->interface ? flags_of(h->interface) : IFF_UP | IFF_RUNNING;
	uint32_t queues = h->is_xdp ? count_queues(h->interface) : 0;

	if (!(flags & IFF_UP))
		snprintf(text_out, text_bytes, "%s is %s", h->interface, flags ? "down" : "gone");
	else if (!(flags & IFF_RUNNING))
		snprintf(text_out, text_bytes, "%s has no carrier", h->interface);
	else if (queues > h->queue_count)
		snprintf(text_out, text_bytes,
			 "%s has %u receive queues, and this port takes %u: what comes in at the "
			 "others is not heard (dpdk.queues, or fewer of them by ethtool -L %s)",
			 h->interface, queues, h->queue_count, h->interface);
	else
		return false;
	return true;
}
