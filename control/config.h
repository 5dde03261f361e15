/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parsed settings of a participant.
 *
 * control/limits.c holds the one table (name, unit, default, range, help, place in this struct); the
 * parser, `apus config` and the documentation all read that table. Every setting here has an effect:
 * one that has none yet does not exist. Values are inside their range at all times.
 */
#ifndef APUS_CONTROL_CONFIG_H
#define APUS_CONTROL_CONFIG_H

#include <apus/config.h>

#include "control/discovery.h"
#include "control/locators.h"

/** Most initial peers, Discovery Servers, worker cores, and the longest text of a list setting. */
#define APUS_CTL_PEERS_MAX  64
#define APUS_CTL_CORES_MAX  64
#define APUS_CTL_HOST_BYTES 255
#define APUS_CTL_TEXT_BYTES 1023

/** `participant.index` and cores: let the library choose, or leave unpinned. */
#define APUS_CTL_AUTO (-1)

enum apus_ctl_multicast {
	APUS_CTL_MULTICAST_OFF = 0,       /**< neither join nor send: unicast peers only */
	APUS_CTL_MULTICAST_DISCOVERY = 1, /**< announcements only; samples go by unicast */
	APUS_CTL_MULTICAST_ON = 2,        /**< readers also announce the user multicast group */
};

enum apus_ctl_transport {
	APUS_CTL_TRANSPORT_AUTO = 0,
	APUS_CTL_TRANSPORT_URING = 1,
	APUS_CTL_TRANSPORT_SOCKET = 2,
	APUS_CTL_TRANSPORT_DPDK = 3,
	APUS_CTL_TRANSPORT_WORKER = 4, /**< the queues of a worker process, `apus worker` */
};

enum apus_ctl_checksums { APUS_CTL_CHECKSUMS_ACCEPT = 0, APUS_CTL_CHECKSUMS_REFUSE = 1 };

enum apus_ctl_worker_mode { APUS_CTL_SPAWNED = 0, APUS_CTL_DRIVEN = 1 };
enum apus_ctl_idle { APUS_CTL_IDLE_POLL = 0, APUS_CTL_IDLE_PAUSE = 1, APUS_CTL_IDLE_BLOCK = 2 };
enum apus_ctl_shm_lend { APUS_CTL_LEND_OFF = 0, APUS_CTL_LEND_FIXED = 1, APUS_CTL_LEND_ALL = 2 };
enum apus_ctl_type_matching { APUS_CTL_TYPES_NAMES = 0, APUS_CTL_TYPES_STRICT = 1 };

/** One initial peer: a host, and the metatraffic port, or 0 for those of participant 0 … peers_max_index. */
struct apus_ctl_peer {
	char host[APUS_CTL_HOST_BYTES + 1];
	uint16_t port;
};

/** All settings. Lists are given both as the text the user wrote and parsed. */
struct apus_ctl_config {
	uint32_t domain;
	int32_t participant_index; /**< 0…119, or APUS_CTL_AUTO */
	char participant_name[APUS_CTL_TEXT_BYTES + 1];
	uint32_t dpdk_queues;
	char stats_file[APUS_CTL_TEXT_BYTES + 1];
	char interfaces[APUS_CTL_TEXT_BYTES + 1]; /**< as apus_dp_netif_lookup() takes it */
	char addresses_allow[APUS_CTL_TEXT_BYTES + 1];
	char addresses_deny[APUS_CTL_TEXT_BYTES + 1];
	struct apus_ctl_address_list allow, deny; /**< the two above, parsed */
	bool addresses_loopback; /**< loopback addresses may be used and announced */
	bool ipv6;               /**< sockets, interfaces and groups are of IPv6, else of IPv4 */
	bool addresses_wildcard; /**< 0.0.0.0 stands for where an announcement came from */
	uint32_t multicast;      /**< enum apus_ctl_multicast */
	uint32_t multicast_ttl;
	char servers[APUS_CTL_TEXT_BYTES +
		     1]; /**< Discovery Servers of Fast DDS to be a client of */
	struct apus_ctl_peer server[APUS_CTL_SERVERS_MAX]; /**< each with a port */
	uint32_t server_count;
	bool super_client; /**< servers tell everything, not only what matches our endpoints */
	char peers[APUS_CTL_TEXT_BYTES + 1];
	struct apus_ctl_peer peer[APUS_CTL_PEERS_MAX];
	uint32_t peer_count;
	uint32_t peers_max_index;

	int64_t announce_period_ns;
	int64_t announce_burst_period_ns;
	uint32_t announce_burst_count;
	int64_t lease_ns;

	uint32_t transport; /**< enum apus_ctl_transport */
	uint32_t rx_buffer_count;
	uint32_t socket_send_bytes;    /**< 0 = the kernel's default */
	uint32_t socket_receive_bytes; /**< likewise */
	bool segment;                  /**< UDP_SEGMENT for bursts */

	/* Of a port that the library drives itself (dataplane/io/plugin.h); texts are parsed there. */
	char dpdk_port[APUS_CTL_TEXT_BYTES + 1];
	char dpdk_address[APUS_CTL_TEXT_BYTES + 1];
	char dpdk_gateway[APUS_CTL_TEXT_BYTES + 1];
	char dpdk_ipv6[APUS_CTL_TEXT_BYTES + 1];
	char dpdk_neighbours[APUS_CTL_TEXT_BYTES + 1];
	char dpdk_eal[APUS_CTL_TEXT_BYTES + 1];
	char dpdk_library[APUS_CTL_TEXT_BYTES + 1];
	uint32_t dpdk_vlan;      /**< 0 = untagged */
	uint32_t dpdk_mtu_bytes; /**< 0 = the interface's */
	uint32_t dpdk_checksums; /**< enum apus_ctl_checksums */
	uint32_t dpdk_hugepages; /**< 0: where there are some */
	int64_t dpdk_poll_period_ns;

	char relay_name[APUS_CTL_TEXT_BYTES + 1];      /**< of a worker process */
	char relay_directory[APUS_CTL_TEXT_BYTES + 1]; /**< empty: the user's own */
	/* Limits of a worker process. */
	uint32_t relay_applications;
	uint32_t relay_queues; /**< of one application */
	uint32_t relay_ring_bytes;
	uint32_t relay_burst;

	uint32_t worker_count;
	uint32_t worker_mode; /**< enum apus_ctl_worker_mode */
	uint32_t worker_idle; /**< enum apus_ctl_idle */
	char worker_cores[APUS_CTL_TEXT_BYTES + 1];
	uint16_t worker_core[APUS_CTL_CORES_MAX]; /**< worker i runs on worker_core[i] */
	uint32_t worker_core_count;               /**< 0 = unpinned */
	uint32_t worker_priority;                 /**< SCHED_FIFO priority, 0 = ordinary */
	int32_t control_core;                     /**< or APUS_CTL_AUTO: unpinned */

	bool shm; /**< matches with participants of this host go through shared memory */
	char shm_directory[APUS_CTL_TEXT_BYTES + 1]; /**< empty: the user's own */
	uint32_t shm_lend;                           /**< enum apus_ctl_shm_lend */
	uint32_t shm_slots;   /**< of a writer, for readers of other processes */
	uint32_t shm_readers; /**< of a writer, that share them */
	uint32_t shm_matches; /**< of the participant */

	int64_t heartbeat_period_ns;
	uint32_t pace_bytes;    /**< writer: of a large best-effort sample, at a time */
	int32_t fragment_bytes; /**< -1 = what the interfaces' packets hold */
	int64_t demote_ns;      /**< writer: a reader silent for so long is waited for no more */
	int64_t ack_delay_ns;   /**< reader: from a HEARTBEAT to the ACKNACK that answers it */
	int64_t nack_delay_ns;  /**< writer: from a request for samples to its answer */
	int64_t nack_group_delay_ns; /**< the same, if longer, for readers sent to in a group */
	uint32_t
		nack_group_readers; /**< that ask for a sample before it goes to the group; 0: never */
	int64_t nack_suppression_ns; /**< writer: what was asked for and sent is not sent again within it */

	uint32_t type_matching;        /**< enum apus_ctl_type_matching */
	bool filtering;                /**< false: creating a filtered reader fails */
	bool disable_writer_filtering; /**< do not evaluate remote readers' filters at our writers */
	bool filter_info;              /**< samples say what became of readers' filters */
	bool disable_builtin_sql;      /**< no class DDSSQL; its name may be registered */

	/* Capacities; all memory is sized from them at creation. */
	uint32_t participants; /**< remote ones */
	uint32_t local_endpoints;
	uint32_t remote_writers;
	uint32_t remote_readers;
	uint32_t discovery_bytes; /**< of all endpoint records together */
	uint32_t matches;
	uint32_t matches_per_endpoint; /**< where qos.max_matches is 0 */
	uint32_t generations;          /**< snapshots of one endpoint that wait for reclaim */
	uint32_t history_samples;      /**< where qos.max_samples is 0 */
	uint32_t history_instances;
	uint32_t history_samples_per_instance;
	uint32_t types;        /**< TypeObjects known or asked for at once */
	uint32_t type_bytes;   /**< memory for those of others */
	uint32_t sample_bytes; /**< where neither QoS nor type bound the payload */

	uint32_t filter_classes;     /**< the built-in one included */
	uint32_t filter_class_bytes; /**< of a name */
	uint32_t filter_expression_bytes;
	uint32_t filter_parameters;
	uint32_t filter_parameter_bytes;
	uint32_t filter_predicates;
	uint32_t filter_depth;
	uint32_t filter_unique;         /**< local readers' filters held at once; see limits.c */
	uint32_t filter_remote_readers; /**< remote readers one writer filters for */
};

/** The parsed settings of a configuration; NULL gives those of the defaults. Never NULL; lives as long
 *  as `config` and changes with it. Reading it follows the thread rule of apus_config. */
const struct apus_ctl_config *apus_ctl_config_of(const struct apus_config *config);

/** Fills `*config` with the defaults. */
void apus_ctl_config_default(struct apus_ctl_config *config);

/**
 * Checks what single settings cannot tell: the lease outlasts the announcements, ports exist for the
 * index in the domain, every worker has a core if any has. why (may be NULL) receives a sentence.
 * Returns 0 or APUS_EINVAL.
 */
int apus_ctl_config_check(const struct apus_ctl_config *config, char *why, size_t why_bytes);

/**
 * Parses a duration: a decimal number, at most nine digits behind the point, and a unit of ns, us, ms,
 * s, min or h; or "inf". Nothing else: no sign, no space. Returns 0 or APUS_EINVAL (also for what
 * exceeds the range of int64_t nanoseconds); *ns_out is untouched then.
 */
int apus_ctl_duration_parse(const char *text, int64_t *ns_out);

/** Writes a duration so that apus_ctl_duration_parse() reads the same value back. Returns 0 or APUS_ELIMIT. */
int apus_ctl_duration_format(int64_t ns, char *text_out, size_t text_bytes);

#endif
