/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network interfaces: from what a person writes (a name, an address, "auto") to what sockets need.
 *
 * Looked up once, when a queue is configured; nothing here follows interfaces that appear later.
 */
#ifndef APUS_DATAPLANE_IO_NETIF_H
#define APUS_DATAPLANE_IO_NETIF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Most interfaces one participant uses at once. */
#define APUS_DP_NETIF_MAX 8

/** One interface that is up, with one of its addresses. All of one participant are of one family. */
struct apus_dp_netif {
	char name[16];      /* NUL-terminated */
	uint32_t ifindex;   /* the kernel's index, never 0 */
	uint16_t family;    /* AF_INET6; else IPv4 */
	uint8_t ipv4[4];    /* network order */
	uint8_t ipv6[16];   /* with AF_INET6 */
	uint32_t mtu_bytes; /* of the link, with IP header; 0 if unknown */
	bool loopback;
};

/**
 * Resolves an interface specification.
 *
 * spec: "auto", NULL or "" for every interface that is up, has an IPv4 address and is not loopback
 * (at most `max` of them; the loopback interface if there is none); else a list separated by
 * commas, each item an interface name ("eth0") or the IPv4 address of one ("192.168.1.7").
 * Duplicates count once.
 * out: room for `max` entries, 1…APUS_DP_NETIF_MAX. why: gets a sentence on failure; may be NULL.
 *
 * Returns 0, APUS_EINVAL (empty item, item too long), APUS_ENODEV (no such interface, or it is down
 * or has no IPv4 address), APUS_ELIMIT (more than `max` named), APUS_EIO (the kernel would not list
 * them). Outputs are untouched on failure. Any thread; allocates (getifaddrs); for creation time
 * only.
 */
int apus_dp_netif_lookup(const char *spec, char *why, size_t why_bytes, size_t max,
			 struct apus_dp_netif *out, size_t *count_out);

/** The same for AF_INET or AF_INET6. Of IPv6 link-local addresses are passed over: they mean nothing in an
 *  announcement, which cannot say on which link. */
int apus_dp_netif_lookup_family(uint16_t family, const char *spec, char *why, size_t why_bytes,
				size_t max, struct apus_dp_netif *out, size_t *count_out);

/** True if every one of `count` interfaces is loopback: nothing may be reachable from outside
 *  then. */
bool apus_dp_netif_all_loopback(const struct apus_dp_netif *interfaces, size_t count);

#endif
