/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening UDP queues: the unicast socket, a socket per group, and the choice between io_uring and
 * plain sockets. Everything that can be refused is refused here, with a sentence that says why.
 *
 * Each group has a socket of its own, bound to the group's address, so that two queues (or a peer's
 * process) share a group's port without stealing each other's unicast datagrams, which SO_REUSEADDR
 * on one socket for both would allow.
 */
#include "dataplane/io/udp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef IP_MULTICAST_ALL
#define IP_MULTICAST_ALL 49
#endif
#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

/* Where a refusal is explained. */
struct reason {
	char *text;
	size_t bytes;
};

static void __attribute__((format(printf, 2, 3))) say(struct reason why, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why.text, why.bytes, format, args);
	va_end(args);
}

const char *apus_dp_queue_kind_name(enum apus_dp_queue_kind kind)
{
	switch (kind) {
	case APUS_DP_QUEUE_AUTO: return "auto";
	case APUS_DP_QUEUE_URING: return "io_uring";
	case APUS_DP_QUEUE_SOCKET: return "sockets";
	case APUS_DP_QUEUE_DPDK: return "DPDK";
	case APUS_DP_QUEUE_WORKER: return "worker";
	case APUS_DP_QUEUE_OTHER: break;
	}
	return "other";
}

int apus_dp_udp_result(int error)
{
	switch (error) {
	case EADDRINUSE: return APUS_EADDRINUSE;
	case EACCES:
	case EPERM: return APUS_EPERM;
	case ENODEV:
	case EADDRNOTAVAIL: return APUS_ENODEV;
	case ENOMEM:
	case ENOBUFS: return APUS_ENOMEM;
	default: return APUS_EIO;
	}
}

void apus_dp_queue_config_default(struct apus_dp_queue_config *config)
{
	memset(config, 0, sizeof(*config));
	config->unicast_fd = -1;
	config->rx_buffer_count = 128;
	config->rx_buffer_bytes = 65535;
	config->multicast_ttl = 1;
	config->multicast_loop = true;
	config->segment = true;
	config->group_poll_interval = 8;
	config->ring_after = 64;
}

static bool group_valid(const struct apus_dp_group *group)
{
	return apus_dp_addr_is_multicast(&group->group) && group->group.port != 0;
}

static uint16_t family_of(const struct apus_dp_queue_config *config)
{
	return config->interfaces[0].family == AF_INET6 ? AF_INET6 : AF_INET;
}

/* Returns what is wrong with the configuration, or NULL. */
static const char *config_fault(const struct apus_dp_queue_config *c)
{
	if ((unsigned)c->kind > APUS_DP_QUEUE_SOCKET)
		return "unknown kind of queue";
	if (c->interface_count < 1 || c->interface_count > APUS_DP_NETIF_MAX)
		return "the number of interfaces must be 1 to 8";
	if (c->group_count > APUS_DP_GROUP_MAX)
		return "more than 8 multicast groups";
	if (c->rx_buffer_count < 1 || c->rx_buffer_count > 16384)
		return "the number of receive buffers must be 1 to 16384";
	if (c->rx_buffer_bytes < 64 || c->rx_buffer_bytes > 65535)
		return "receive buffers must have 64 to 65535 bytes";
	if (c->sndbuf_bytes > INT32_MAX || c->rcvbuf_bytes > INT32_MAX)
		return "a socket buffer is larger than 2 GiB";
	if (c->group_poll_interval < 1)
		return "the group poll interval must be at least 1";
	if (c->adopt_fd && c->unicast_fd < 0)
		return "no socket to adopt";
	for (uint32_t i = 1; i < c->interface_count; i++)
		if (c->interfaces[i].family != c->interfaces[0].family)
			return "interfaces of both IPv4 and IPv6";
	for (uint32_t i = 0; i < c->group_count; i++)
		if (!group_valid(&c->groups[i]) || c->groups[i].group.family != family_of(c))
			return "a group is no multicast address with a port";
	return NULL;
}

/* The plain option is capped by net.core.[rw]mem_max; the forcing one needs a privilege we may
 * lack. */
static void set_buffer(int fd, int force_option, int option, uint32_t bytes)
{
	int value = (int)bytes;

	if (bytes == 0)
		return;
	if (setsockopt(fd, SOL_SOCKET, force_option, &value, sizeof(value)) != 0)
		setsockopt(fd, SOL_SOCKET, option, &value, sizeof(value));
}

void apus_dp_udp_set_sndbuf(int fd, uint32_t bytes)
{
	set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, bytes);
}

static int set_int(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value));
}

/* Where multicast leaves is set even if there is only one interface: without it the kernel takes
 * the default route, and what was meant for loopback goes out onto the network. */
static int set_multicast_out(const struct apus_dp_queue_config *config, int fd)
{
	const struct apus_dp_netif *first = &config->interfaces[0];
	struct ip_mreqn mreq = {.imr_ifindex = (int)first->ifindex};

	if (first->family == AF_INET6) {
		if (set_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)first->ifindex) != 0 ||
		    set_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, config->multicast_ttl) != 0)
			return -1;
		return set_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, config->multicast_loop);
	}
	memcpy(&mreq.imr_address, first->ipv4, 4);
	if (setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &mreq, sizeof(mreq)) != 0)
		return -1;
	if (set_int(fd, IPPROTO_IP, IP_MULTICAST_TTL, config->multicast_ttl) != 0)
		return -1;
	return set_int(fd, IPPROTO_IP, IP_MULTICAST_LOOP, config->multicast_loop);
}

static int bind_to(int fd, const struct apus_dp_addr *addr)
{
	union apus_dp_sockaddr address;
	socklen_t bytes = apus_dp_udp_sockaddr(addr, 0, &address);

	return bind(fd, &address.any, bytes);
}

int apus_dp_udp_socket_open(uint16_t family)
{
	int fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int error;

	if (fd < 0 || family != AF_INET6 || set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1) == 0)
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

int apus_dp_udp_bind_unicast(int fd, uint16_t family, bool loopback, uint16_t port)
{
	struct apus_dp_addr addr = {.family = family, .port = port};

	if (loopback && family == AF_INET)
		addr.ip[12] = 127;
	addr.ip[15] = loopback;
	return bind_to(fd, &addr);
}

static int own_port(int fd, uint16_t family, uint16_t *port_out)
{
	union apus_dp_sockaddr address;
	socklen_t bytes = sizeof(address);
	struct apus_dp_addr addr;

	memset(&address, 0, sizeof(address));
	if (getsockname(fd, &address.any, &bytes) != 0)
		return -1;
	apus_dp_udp_addr_of(&address, &addr);
	if (addr.family != family || addr.port == 0) {
		errno = EINVAL;
		return -1;
	}
	*port_out = addr.port;
	return 0;
}

/* A new socket bound as configured, or a duplicate of the adopted one: the original stays the
 * caller's until nothing can fail any more. Returns -1 with errno set. */
static int unicast_fd(const struct apus_dp_queue_config *config)
{
	bool home = !config->bind_any &&
		    apus_dp_netif_all_loopback(config->interfaces, config->interface_count);
	int fd, error;

	if (config->adopt_fd)
		return fcntl(config->unicast_fd, F_DUPFD_CLOEXEC, 0);
	fd = apus_dp_udp_socket_open(family_of(config));
	if (fd < 0)
		return -1;
	if (apus_dp_udp_bind_unicast(fd, family_of(config), home, config->unicast_port) == 0)
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

static int open_unicast(struct apus_dp_udp *u, struct reason why)
{
	const struct apus_dp_queue_config *config = &u->config;
	int fd = unicast_fd(config);
	int error;

	if (fd < 0) {
		error = errno;
		say(why, "UDP port %u: %s", config->unicast_port, strerror(error));
		return apus_dp_udp_result(error);
	}
	u->socket[0].fd = fd;
	u->socket[0].guess = 1;
	u->socket_count = 1;
	apus_dp_udp_set_sndbuf(fd, config->sndbuf_bytes);
	set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, config->rcvbuf_bytes);
	if (own_port(fd, u->family, &u->q.unicast_port) == 0 && set_multicast_out(config, fd) == 0)
		return 0;
	error = errno;
	say(why, "multicast through %s: %s", config->interfaces[0].name, strerror(error));
	return apus_dp_udp_result(error);
}

/* Joins or leaves a group on one link. */
static int membership(int fd, bool joins, const struct apus_dp_netif *link,
		      const struct apus_dp_addr *group)
{
	struct ipv6_mreq mreq6 = {.ipv6mr_interface = link->ifindex};
	struct ip_mreqn mreq = {.imr_ifindex = (int)link->ifindex};

	if (group->family == AF_INET6) {
		memcpy(&mreq6.ipv6mr_multiaddr, group->ip, 16);
		return setsockopt(fd, IPPROTO_IPV6,
				  joins ? IPV6_ADD_MEMBERSHIP : IPV6_DROP_MEMBERSHIP, &mreq6,
				  sizeof(mreq6));
	}
	memcpy(&mreq.imr_multiaddr, group->ip + 12, 4);
	memcpy(&mreq.imr_address, link->ipv4, 4);
	return setsockopt(fd, IPPROTO_IP, joins ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &mreq,
			  sizeof(mreq));
}

/* Joins on every link; two addresses of one link are one membership. Returns the first failing
 * interface with errno set, or NULL. */
static const struct apus_dp_netif *join_links(const struct apus_dp_queue_config *config, int fd,
					      const struct apus_dp_addr *group)
{
	for (uint32_t i = 0; i < config->interface_count; i++) {
		const struct apus_dp_netif *link = &config->interfaces[i];

		if (membership(fd, true, link, group) != 0 && errno != EADDRINUSE)
			return link;
	}
	return NULL;
}

/* IP_MULTICAST_ALL off: otherwise a membership of another socket on a link we were not
 * configured for would deliver here as well. A link-local group of IPv6 can be bound on one link only, so
 * there it is every address, at a port that no unicast socket has. */
static int bind_group(int fd, const struct apus_dp_addr *group)
{
	struct apus_dp_addr every = {.family = AF_INET6, .port = group->port};

	if (set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1) != 0)
		return -1;
	if (group->family == AF_INET6)
		return set_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0) != 0 ? -1
									     : bind_to(fd, &every);
	if (set_int(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0) != 0)
		return -1;
	return bind_to(fd, group);
}

static int open_group(const struct apus_dp_queue_config *config, const struct apus_dp_group *group,
		      struct reason why, int *fd_out)
{
	int fd = apus_dp_udp_socket_open(group->group.family);
	const struct apus_dp_netif *refused;
	int error = errno;

	if (fd >= 0) {
		set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, config->rcvbuf_bytes);
		if (bind_group(fd, &group->group) == 0) {
			refused = join_links(config, fd, &group->group);
			if (!refused) {
				*fd_out = fd;
				return 0;
			}
			error = errno;
			close(fd);
			say(why, "no multicast on %s: %s", refused->name, strerror(error));
			return APUS_ENODEV;
		}
		error = errno;
		close(fd);
	}
	say(why, "multicast port %u: %s", group->group.port, strerror(error));
	return apus_dp_udp_result(error);
}

static int find_group(const struct apus_dp_udp *u, const struct apus_dp_group *group)
{
	for (uint32_t i = 1; i < u->socket_count; i++)
		if (u->socket[i].fd >= 0 && !u->socket[i].leaving &&
		    apus_dp_addr_equal(&u->socket[i].group.group, &group->group))
			return (int)i;
	return APUS_ENOENT;
}

/* Returns a free place for one more group, or APUS_ELIMIT. */
static int free_place(const struct apus_dp_udp *u)
{
	int free_idx = APUS_ELIMIT, listening = 0;

	for (int i = APUS_DP_UDP_SOCKET_MAX - 1; i >= 1; i--) {
		if (u->socket[i].fd < 0)
			free_idx = i;
		else if (!u->socket[i].leaving)
			listening++;
	}
	return listening < APUS_DP_GROUP_MAX ? free_idx : APUS_ELIMIT;
}

static int epoll_add(const struct apus_dp_udp *u, uint32_t socket_idx)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = socket_idx};

	return epoll_ctl(u->epoll_fd, EPOLL_CTL_ADD, u->socket[socket_idx].fd, &event);
}

static int join(struct apus_dp_udp *u, const struct apus_dp_group *group, struct reason why)
{
	int place, rc, fd = -1;

	if (!group_valid(group))
		return APUS_EINVAL;
	if (find_group(u, group) >= 0)
		return APUS_EEXIST;
	place = free_place(u);
	if (place < 0)
		return APUS_ELIMIT;
	rc = open_group(&u->config, group, why, &fd);
	if (rc < 0)
		return rc;
	u->socket[place] = (struct apus_dp_udp_socket){.fd = fd, .group = *group, .guess = 1};
	if (u->epoll_live && epoll_add(u, (uint32_t)place) != 0) {
		apus_dp_udp_close_socket(u, (uint32_t)place);
		return APUS_EIO;
	}
	if ((uint32_t)place >= u->socket_count)
		u->socket_count = (uint32_t)place + 1;
	u->calls_to_sweep = 0;
	return 0;
}

int apus_dp_udp_join(struct apus_dp_queue *q, const struct apus_dp_group *group)
{
	char unread[1];

	return join(apus_dp_udp_of(q), group, (struct reason){unread, sizeof(unread)});
}

int apus_dp_udp_drop_group(struct apus_dp_udp *u, const struct apus_dp_group *group)
{
	int place = find_group(u, group);

	if (place < 0)
		return place;
	/* Refused for the second address of a link; closing the socket leaves anyway. */
	for (uint32_t i = 0; i < u->config.interface_count; i++)
		membership(u->socket[place].fd, false, &u->config.interfaces[i], &group->group);
	/* Explicit, because io_uring may keep the socket alive beyond our close. */
	if (u->epoll_live)
		epoll_ctl(u->epoll_fd, EPOLL_CTL_DEL, u->socket[place].fd, NULL);
	return place;
}

void apus_dp_udp_close_socket(struct apus_dp_udp *u, uint32_t socket_idx)
{
	close(u->socket[socket_idx].fd);
	u->socket[socket_idx] = (struct apus_dp_udp_socket){.fd = -1};
	while (u->socket_count > 1 && u->socket[u->socket_count - 1].fd < 0)
		u->socket_count--;
}

static bool has_link(const struct apus_dp_netif *interfaces, uint32_t count, uint32_t ifindex)
{
	for (uint32_t i = 0; i < count; i++)
		if (interfaces[i].ifindex == ifindex)
			return true;
	return false;
}

static void leave_links(const struct apus_dp_queue_config *old,
			const struct apus_dp_netif *interfaces, uint32_t count,
			const struct apus_dp_udp_socket *s)
{
	for (uint32_t i = 0; i < old->interface_count; i++) {
		/* The link is named by its index: its address may be gone already. */
		struct apus_dp_netif link = {.ifindex = old->interfaces[i].ifindex};

		if (!has_link(interfaces, count, link.ifindex))
			membership(s->fd, false, &link, &s->group.group);
	}
}

void apus_dp_udp_set_interfaces(struct apus_dp_queue *q, const struct apus_dp_netif *interfaces,
				uint32_t count)
{
	struct apus_dp_udp *u = apus_dp_udp_of(q);
	struct apus_dp_queue_config now = u->config;

	memcpy(now.interfaces, interfaces, count * sizeof(*interfaces));
	now.interface_count = count;
	for (uint32_t i = 1; i < u->socket_count; i++) {
		if (u->socket[i].fd < 0 || u->socket[i].leaving)
			continue;
		leave_links(&u->config, interfaces, count, &u->socket[i]);
		/* One link at a time: a refusal must not keep the others from being joined. */
		for (uint32_t k = 0; k < count; k++) {
			struct apus_dp_queue_config one = {.interface_count = 1,
							   .interfaces = {interfaces[k]}};

			join_links(&one, u->socket[i].fd, &u->socket[i].group.group);
		}
	}
	u->config = now;
	set_multicast_out(&u->config, u->socket[0].fd);
}

int apus_dp_udp_fd(struct apus_dp_queue *q)
{
	struct apus_dp_udp *u = apus_dp_udp_of(q);

	for (uint32_t i = 0; !u->epoll_live && i < u->socket_count; i++)
		if (u->socket[i].fd >= 0 && !u->socket[i].leaving && epoll_add(u, i) != 0 &&
		    errno != EEXIST)
			return APUS_EIO;
	u->epoll_live = true;
	return u->epoll_fd;
}

void apus_dp_udp_destroy(struct apus_dp_udp *u)
{
	for (uint32_t i = 0; i < APUS_DP_UDP_SOCKET_MAX; i++)
		if (u->socket[i].fd >= 0)
			close(u->socket[i].fd);
	apus_dp_udp_direct_fini(u);
	if (u->epoll_fd >= 0)
		close(u->epoll_fd);
	apus_dp_udp_pool_fini(&u->pool);
	free(u);
}

void *apus_dp_udp_map(size_t bytes)
{
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static struct apus_dp_udp *create(const struct apus_dp_queue_config *config)
{
	struct apus_dp_udp *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	u->config = *config;
	u->family = family_of(config);
	u->q.mtu_bytes = APUS_DP_DATAGRAM_MAX_BYTES;
	u->q.place_min_bytes = APUS_DP_UDP_PLACE_MIN_BYTES;
	u->segment_max_bytes = config->segment ? APUS_DP_SEGMENT_RUN_BYTES / 2 : 0;
	for (uint32_t i = 0; i < APUS_DP_UDP_SOCKET_MAX; i++)
		u->socket[i].fd = -1;
	apus_dp_udp_direct_init(u);
	u->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return u;
}

static int open_sockets(struct apus_dp_udp *u, struct reason why)
{
	int rc = open_unicast(u, why);

	if (u->epoll_fd < 0) {
		say(why, "no epoll descriptor");
		return APUS_EIO;
	}
	for (uint32_t i = 0; rc == 0 && i < u->config.group_count; i++) {
		rc = join(u, &u->config.groups[i], why);
		if (rc == APUS_EEXIST)
			say(why, "a multicast group is listed twice");
	}
	return rc;
}

/* io_uring unless asked otherwise; AUTO keeps the reason and goes on with plain sockets. */
static int attach_kind(struct apus_dp_udp *u, struct reason why)
{
	char refusal[sizeof(u->q.fallback_reason)] = "";
	int rc = 0;

	if (u->config.kind != APUS_DP_QUEUE_SOCKET) {
		rc = apus_dp_uring_attach(u, refusal, sizeof(refusal));
		if (rc == 0)
			return 0;
		if (u->config.kind == APUS_DP_QUEUE_URING) {
			say(why, "%s", refusal);
			return rc;
		}
		memcpy(u->q.fallback_reason, refusal, sizeof(refusal));
	}
	rc = apus_dp_socket_attach(u);
	if (rc < 0)
		say(why, "no memory for %u receive buffers", u->config.rx_buffer_count);
	return rc;
}

int apus_dp_queue_open(const struct apus_dp_queue_config *config, char *why_text, size_t why_bytes,
		       struct apus_dp_queue **queue_out)
{
	char unread[1];
	struct reason why = {why_text ? why_text : unread, why_text ? why_bytes : sizeof(unread)};
	const char *fault = config_fault(config);
	struct apus_dp_udp *u;
	int rc;

	if (fault) {
		say(why, "%s", fault);
		return APUS_EINVAL;
	}
	u = create(config);
	if (!u) {
		say(why, "no memory");
		return APUS_ENOMEM;
	}
	rc = open_sockets(u, why);
	if (rc == 0)
		rc = attach_kind(u, why);
	if (rc < 0) {
		apus_dp_udp_destroy(u);
		return rc;
	}
	if (config->adopt_fd)
		close(config->unicast_fd);
	*queue_out = &u->q;
	return 0;
}
