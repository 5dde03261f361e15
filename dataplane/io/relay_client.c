/* SPDX-License-Identifier: Apache-2.0 */
/* What an application asks a worker process before it has a queue there: where it listens, its interfaces. See relay.h. */
#include "dataplane/io/relay_client.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* An answer takes this long at most: ports are opened by one thread, one after another. */
#define ANSWER_NS (2 * APUS_NS_PER_SEC)

int apus_dp_relay_directory(const char *configured, char *path_out, size_t path_bytes)
{
	char above[128];
	int rc, n;

	if (configured && configured[0])
		return apus_shm_directory(configured, path_out, path_bytes);
	rc = apus_shm_directory(NULL, above, sizeof(above));
	if (rc != 0)
		return rc;
	/* Of its own: what listens in the one above are participants. */
	n = snprintf(path_out, path_bytes, "%s/worker", above);
	if (n < 0 || (size_t)n >= path_bytes)
		return APUS_ELIMIT;
	return apus_shm_directory(path_out, above, sizeof(above));
}

int apus_dp_relay_await(int fd, struct apus_shm_message *message)
{
	int64_t until_ns = apus_mono_now().ns + ANSWER_NS;

	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int64_t left_ns = until_ns - apus_mono_now().ns;
		int rc = apus_shm_receive(fd, message);
		unsigned kind = rc == 0 ? apus_dp_relay_kind_of(message) : 0;

		if (rc == 0 && kind != APUS_DP_RELAY_BELL && kind != APUS_DP_RELAY_CHANGED)
			return 0;
		if (rc == 0) {
			apus_shm_message_close(message);
			continue;
		}
		if (rc != APUS_EAGAIN)
			return rc;
		if (left_ns <= 0)
			return APUS_ETIMEDOUT;
		if (poll(&p, 1, (int)(left_ns / APUS_NS_PER_MS) + 1) < 0 && errno != EINTR)
			return APUS_EIO;
	}
}

int apus_dp_relay_say_why(int rc, const char *name, char *why, size_t why_bytes)
{
	static const struct {
		int rc;
		const char *text;
	} reasons[] = {
		{APUS_ENOENT, "no worker process of the name '%s' runs (apus worker)"},
		{APUS_EAGAIN, "the worker process '%s' is busy with others"},
		{APUS_ETIMEDOUT, "the worker process '%s' does not answer"},
		{APUS_ECLOSED, "the worker process '%s' has hung up"},
		{APUS_EENCODING, "the worker process '%s' is of another version"},
		{APUS_EPERM, "the directory of worker process '%s' belongs to somebody else"},
	};
	const char *text = "no worker process '%s'";

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].rc == rc)
			text = reasons[i].text;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(why, why_bytes, text, name);
#pragma GCC diagnostic pop
	return rc;
}

int apus_dp_relay_connect(const char *directory, const char *name, char *path_out,
			  size_t path_bytes)
{
	int rc = apus_dp_relay_directory(directory, path_out, path_bytes);

	return rc != 0 ? rc : apus_shm_connect(path_out, name);
}

/* The idx-th interface of a family; *count_out: how many there are. */
static int ask(int fd, uint16_t family, uint16_t idx, struct apus_dp_netif *out,
	       uint32_t *count_out)
{
	struct apus_dp_relay_look look = {apus_dp_relay_head(APUS_DP_RELAY_LOOK), family, idx};
	struct apus_shm_message m;
	struct apus_dp_relay_link link;
	int rc = apus_shm_send(fd, &look, sizeof(look), NULL, 0);

	if (rc == 0)
		rc = apus_dp_relay_await(fd, &m);
	if (rc != 0)
		return rc;
	apus_shm_message_close(&m);
	if (apus_dp_relay_kind_of(&m) != APUS_DP_RELAY_LINK || m.length != sizeof(link))
		return APUS_EENCODING;
	memcpy(&link, m.bytes, sizeof(link));
	*count_out = link.count;
	memset(out, 0, sizeof(*out));
	memcpy(out->name, link.name, sizeof(out->name) - 1);
	out->ifindex = link.ifindex;
	out->mtu_bytes = link.mtu_bytes;
	out->family = family;
	out->loopback = link.loopback != 0;
	memcpy(out->ipv4, link.ip, 4);
	if (family == AF_INET6) {
		memset(out->ipv4, 0, 4);
		memcpy(out->ipv6, link.ip, 16);
	}
	return 0;
}

static int ask_all(int fd, uint16_t family, struct apus_dp_netif out[APUS_DP_NETIF_MAX],
		   size_t *count_out)
{
	uint32_t count = 1;

	for (uint32_t i = 0; i < count; i++) {
		int rc = ask(fd, family, (uint16_t)i, &out[i], &count);

		if (rc != 0)
			return rc;
		if (count > APUS_DP_NETIF_MAX)
			return APUS_EENCODING;
	}
	*count_out = count;
	return 0;
}

static bool is_named(const struct apus_dp_netif *link, const char *item)
{
	uint8_t ip[16];

	if (inet_pton(link->family, item, ip) == 1)
		return link->family == AF_INET6 ? memcmp(ip, link->ipv6, 16) == 0
						: memcmp(ip, link->ipv4, 4) == 0;
	return strcmp(link->name, item) == 0;
}

/* The listed ones of `all`, in the order of the list. */
static int choose(const char *spec, const struct apus_dp_netif *all, size_t all_count, char *why,
		  size_t why_bytes, size_t max, struct apus_dp_netif *out, size_t *count_out)
{
	char copy[1024], *rest = copy, *item;
	size_t n = 0;

	if ((size_t)snprintf(copy, sizeof(copy), "%s", spec) >= sizeof(copy))
		return APUS_EINVAL;
	while ((item = strsep(&rest, ","))) {
		size_t i = 0;

		while (i < all_count && !is_named(&all[i], item))
			i++;
		if (i == all_count) {
			snprintf(why, why_bytes, "the worker process has no interface '%.64s'",
				 item);
			return APUS_ENODEV;
		}
		if (n == max)
			return APUS_ELIMIT;
		out[n++] = all[i];
	}
	*count_out = n;
	return 0;
}

int apus_dp_relay_lookup(const char *directory, const char *name, uint16_t family, const char *spec,
			 char *why, size_t why_bytes, size_t max, struct apus_dp_netif *out,
			 size_t *count_out)
{
	struct apus_dp_netif all[APUS_DP_NETIF_MAX];
	char path[128], unread[1];
	size_t count = 0;
	int fd = apus_dp_relay_connect(directory, name, path, sizeof(path)), rc;

	if (!why) {
		why = unread;
		why_bytes = sizeof(unread);
	}
	rc = fd < 0 ? fd : ask_all(fd, family, all, &count);
	if (fd >= 0)
		close(fd);
	if (rc != 0)
		return apus_dp_relay_say_why(rc, name, why, why_bytes);
	if (count == 0) {
		snprintf(why, why_bytes, "the worker process '%s' has no interface of IPv%d", name,
			 family == AF_INET6 ? 6 : 4);
		return APUS_ENODEV;
	}
	if (spec && *spec && strcmp(spec, "auto") != 0)
		return choose(spec, all, count, why, why_bytes, max, out, count_out);
	if (count > max)
		return APUS_ELIMIT;
	memcpy(out, all, count * sizeof(*out));
	*count_out = count;
	return 0;
}
