/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transports that live in a shared library of their own, loaded only when a configuration names them: what they
 * link (DPDK) stays out of libapus and of every program that does not use it.
 *
 * Such a library exports one object, apus_dp_plugin_entry, a table of functions. The table begins with the version of
 * this page and the sizes of the structs both sides use: a library that was built from another version is refused.
 *
 * A *port* is a network interface that this process drives by itself, with an IP address of its own. Queues are
 * opened on it, one for each worker; all the threads that use them share the port.
 */
#ifndef APUS_DATAPLANE_IO_PLUGIN_H
#define APUS_DATAPLANE_IO_PLUGIN_H

#include "dataplane/io/transport.h"

/** Raised with every change of the structs below or of transport.h. */
#define APUS_DP_PLUGIN_VERSION 2
/** Name of the exported table. */
#define APUS_DP_PLUGIN_SYMBOL "apus_dp_plugin_entry"
/** File looked for beside libapus, then where the system keeps libraries. */
#define APUS_DP_PLUGIN_DPDK "libapus-dpdk.so"

/** How to open a port. Texts are never NULL; "" stands for the default. They are read during the call only. */
struct apus_dp_port_config {
	const char *device;  /* "0000:3b:00.0", or a virtual device: "net_af_packet0,iface=eth1" */
	const char *eal;     /* further arguments of DPDK's environment, separated by spaces */
	const char *address; /* IPv4 "10.0.0.1/24"; "" with ipv6 */
	const char *gateway; /* IPv4, or "" */
	const char *ipv6;    /* "fd00::1/64", or "" */
	const char *neighbours;        /* "10.0.0.2=02:00:00:00:00:02,…" */
	uint32_t vlan;                 /* 1…4094; 0: untagged */
	uint32_t mtu_bytes;            /* 0: the device's own */
	uint32_t multicast_ttl;        /* 0…255 */
	bool accept_partial_checksums; /* of senders on the other end of a veth */
	bool hugepages;                /* take them where the host has some */
	int64_t poll_period_ns;        /* how often a sleeper looks at a port that nobody polls */
	uint32_t hold_count;           /* datagrams that all its queues may hold together */
	uint32_t queue_count;          /* queue pairs of the device, 1…16 */
};

struct apus_dp_port;

/** One counter of a port. */
struct apus_dp_port_stat {
	const char *name; /* static storage: "port.rx_frames" */
	uint64_t value;
};

/** The exported table. Functions that can fail return 0 or APUS_E…, and say why in `why` (never NULL). */
struct apus_dp_plugin {
	uint32_t version;                   /* APUS_DP_PLUGIN_VERSION */
	uint32_t queue_bytes, config_bytes; /* of struct apus_dp_queue, apus_dp_port_config */
	const char *name;                   /* "DPDK 22.11" */
	/** Opens a port, or takes one more reference if this process has it open with the same configuration.
	 *  APUS_EINVAL (a text that does not parse), APUS_ENODEV, APUS_EEXIST (open with another configuration),
	 *  APUS_ENOMEM, APUS_ENOTSUP, APUS_EIO. Any thread; takes a fraction of a second the first time. */
	int (*port_open)(const struct apus_dp_port_config *config, char *why, size_t why_bytes,
			 struct apus_dp_port **port_out);
	/** Gives a reference back; its queues are closed. */
	void (*port_close)(struct apus_dp_port *port);
	/** What the port is to the participant: name, address of that family, MTU. APUS_ENODEV: it has none. */
	int (*port_netif)(struct apus_dp_port *port, uint16_t family,
			  struct apus_dp_netif *netif_out);
	/** Keeps `count` UDP ports for queues opened with them: all of them, or none and APUS_EADDRINUSE. */
	int (*port_reserve)(struct apus_dp_port *port, const uint16_t *udp_ports, uint32_t count);
	/** Gives up those that no queue was opened with. */
	void (*port_unreserve)(struct apus_dp_port *port, const uint16_t *udp_ports,
			       uint32_t count);
	/** Opens a queue on a port: unicast_port, groups, rx_buffer_count and multicast_loop of the
	 *  configuration count. APUS_EINVAL, APUS_EADDRINUSE, APUS_ELIMIT, APUS_ENOMEM, APUS_EIO. */
	int (*queue_open)(struct apus_dp_port *port, const struct apus_dp_queue_config *config,
			  char *why, size_t why_bytes, struct apus_dp_queue **queue_out);
	/** The counter in place idx; false: there are no more. Any thread. */
	bool (*port_stat)(struct apus_dp_port *port, uint32_t idx,
			  struct apus_dp_port_stat *stat_out);
	/** A sentence on what keeps traffic away at present and may end by itself: no carrier, somebody else with our
	 *  address. False: nothing. A few system calls; any thread. */
	bool (*port_warning)(struct apus_dp_port *port, char *text_out, size_t text_bytes);
};

/**
 * Loads a library, once a process: it stays loaded.
 *
 * file: a path, or "" for APUS_DP_PLUGIN_DPDK, beside the library or program this code is part of or else where the
 * system keeps libraries. why: gets a sentence on failure.
 * Returns 0, APUS_ENOTSUP (no such file, or what it needs is missing), APUS_EINVAL (no library of ours, or of another
 * version). Any thread.
 */
int apus_dp_plugin_load(const char *file, char *why, size_t why_bytes,
			const struct apus_dp_plugin **plugin_out);

#endif
