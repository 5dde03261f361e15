/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table itself. A row's range text and its min and max say the same; tests/control/test_config.c
 * holds them together.
 */
#include "control/limits.h"

#include "base/atomics.h"
#include "base/clock.h"

#include <stddef.h>

#define AT(field) offsetof(struct apus_ctl_config, field)

#define MS  APUS_NS_PER_MS
#define SEC APUS_NS_PER_SEC

static const char *const multicast_words[] = {"off", "discovery", "on", NULL};
static const char *const transport_words[] = {"auto", "io_uring", "socket", "dpdk", "worker", NULL};
static const char *const checksum_words[] = {"accept", "refuse", NULL};
static const char *const hugepage_words[] = {"auto", "no", NULL};
static const char *const mode_words[] = {"spawned", "driven", NULL};
static const char *const lend_words[] = {"off", "fixed", "all", NULL};
static const char *const idle_words[] = {"poll", "pause", "block", NULL};
static const char *const type_words[] = {"names", "strict", NULL};

#define NUMBER(name, unit, def, range, lo, hi, field, help)                                   \
	{                                                                                     \
		{name, unit, def, range, help}, APUS_CTL_KIND_NUMBER, AT(field), lo, hi, NULL \
	}
#define AUTO(name, unit, def, range, lo, hi, field, help)                                   \
	{                                                                                   \
		{name, unit, def, range, help}, APUS_CTL_KIND_AUTO, AT(field), lo, hi, NULL \
	}
#define DURATION(name, def, range, lo, hi, field, help)                                          \
	{                                                                                        \
		{name, "duration", def, range, help}, APUS_CTL_KIND_DURATION, AT(field), lo, hi, \
			NULL                                                                     \
	}
#define SWITCH(name, def, field, help)                                                         \
	{                                                                                      \
		{name, "", def, "on | off", help}, APUS_CTL_KIND_SWITCH, AT(field), 0, 1, NULL \
	}
#define WORD(name, def, range, words, field, help)                                       \
	{                                                                                \
		{name, "", def, range, help}, APUS_CTL_KIND_WORD, AT(field), 0, 0, words \
	}
#define TEXT(name, def, range, kind, field, help)                         \
	{                                                                 \
		{name, "", def, range, help}, kind, AT(field), 0, 0, NULL \
	}

const struct apus_ctl_setting apus_ctl_settings[] = {
	/* Who and where. */
	NUMBER("domain", "", "0", "0…232", 0, 232, domain,
	       "DDS domain id; participants of different domains never meet."),
	AUTO("participant.index", "", "auto", "auto | 0…119", 0, 119, participant_index,
	     "Participant index, which decides the unicast ports; auto takes the lowest free one."),
	TEXT("stats.file", "", "path, up to 1000 bytes", APUS_CTL_KIND_TEXT, stats_file,
	     "File in which the counters are kept for others to map (`apus stats`, `apus top`); it is "
	     "removed at the end. Empty: none."),
	TEXT("participant.name", "apus", "up to 255 bytes", APUS_CTL_KIND_TEXT, participant_name,
	     "Name announced to the domain, for people."),
	TEXT("interfaces", "auto", "auto | names or addresses", APUS_CTL_KIND_TEXT, interfaces,
	     "Network interfaces to use; auto takes all that are up, or loopback if there is none."),
	TEXT("addresses.allow", "", "address[/bits],…, up to 32", APUS_CTL_KIND_ALLOW,
	     addresses_allow,
	     "Addresses that may be used and announced; empty allows all that are not denied."),
	TEXT("addresses.deny", "", "address[/bits],…, up to 32", APUS_CTL_KIND_DENY, addresses_deny,
	     "Addresses never used or announced, whatever is allowed."),
	SWITCH("addresses.loopback", "on", addresses_loopback,
	       "Whether participants of this host may be reached by loopback addresses."),
	SWITCH("addresses.wildcard", "off", addresses_wildcard,
	       "Whether 0.0.0.0 in an announcement stands for the address it came from; off passes "
	       "it over."),
	WORD("multicast", "discovery", "off | discovery | on", multicast_words, multicast,
	     "What may go by multicast: nothing, announcements only, or also samples for readers at "
	     "several addresses (on hosts with one interface)."),
	NUMBER("multicast.ttl", "hops", "1", "0…255", 0, 255, multicast_ttl,
	       "Time to live of multicast datagrams; 1 keeps them in the local network."),
	TEXT("discovery.servers", "", "host[:port],…, up to 16", APUS_CTL_KIND_SERVERS, servers,
	     "Discovery Servers of Fast DDS to be a client of, at port 11811 unless said otherwise; they, "
	     "and nobody else, are told that this is Fast DDS."),
	SWITCH("discovery.super_client", "off", super_client,
	       "Whether servers are asked for all they know instead of what matches our endpoints; `apus ls` "
	       "does so."),
	TEXT("peers", "", "host[:port],…, up to 64", APUS_CTL_KIND_PEERS, peers,
	     "Hosts that are announced to by unicast; without a port, at the ports of the first "
	     "participants."),
	NUMBER("peers.max_index", "", "9", "0…119", 0, 119, peers_max_index,
	       "Highest participant index tried for a peer without a port."),

	/* Announcements. */
	DURATION("announce.period", "3s", "100ms…1h", 100 * MS, 3600 * SEC, announce_period_ns,
		 "Time between announcements of the participant; short enough for a late peer."),
	DURATION("announce.burst_period", "100ms", "10ms…10s", 10 * MS, 10 * SEC,
		 announce_burst_period_ns, "Time between the first announcements."),
	NUMBER("announce.burst_count", "", "5", "1…100", 1, 100, announce_burst_count,
	       "Number of first announcements: some may meet a host that is still starting."),
	DURATION("lease", "20s", "1s…inf", SEC, APUS_INFINITE_NS, lease_ns,
		 "Others forget this participant when they have not heard it for so long."),

	/* Transport. */
	SWITCH("transport.ipv6", "off", ipv6,
	       "Whether this participant speaks IPv6; it speaks one of IPv4 and IPv6, as Cyclone DDS does."),
	WORD("transport", "auto", "auto | io_uring | socket | dpdk | worker", transport_words,
	     transport,
	     "How datagrams are moved; auto takes io_uring where the system permits it, dpdk drives an "
	     "interface without the kernel, worker has a process of this host do it, `apus worker` "
	     "(docs/dpdk.md)."),
	NUMBER("rx.buffers", "", "128", "16…16384", 16, 16384, rx_buffer_count,
	       "Receive buffers of each queue; rounded up to a power of two."),
	NUMBER("socket.send_bytes", "bytes", "0", "0…1073741824", 0, 1073741824, socket_send_bytes,
	       "Send buffer of each socket; 0 takes the system's default."),
	NUMBER("socket.receive_bytes", "bytes", "1048576", "0…1073741824", 0, 1073741824,
	       socket_receive_bytes,
	       "Receive buffer of each socket; the default holds a burst of a busy writer."),
	SWITCH("socket.segment", "on", segment,
	       "Hand bursts to the kernel in one piece (UDP_SEGMENT); off for captures and packet "
	       "filters that must see each datagram."),

	/* An interface of our own; with transport = dpdk only. */
	TEXT("dpdk.port", "", "device", APUS_CTL_KIND_TEXT, dpdk_port,
	     "The interface: a PCI address, or a virtual device with its arguments, such as "
	     "net_af_packet0,iface=eth1 or net_af_xdp0,iface=eth1."),
	TEXT("dpdk.address", "", "IPv4/bits", APUS_CTL_KIND_TEXT, dpdk_address,
	     "Our address on it, which the kernel must not have."),
	TEXT("dpdk.gateway", "", "IPv4", APUS_CTL_KIND_TEXT, dpdk_gateway,
	     "Who forwards what is not for the local network; empty: nobody."),
	TEXT("dpdk.ipv6", "", "IPv6/bits", APUS_CTL_KIND_TEXT, dpdk_ipv6,
	     "The same with transport.ipv6 = on, in place of dpdk.address."),
	NUMBER("dpdk.vlan", "", "0", "0…4094", 0, 4094, dpdk_vlan,
	       "VLAN that all frames carry and must carry; 0: none."),
	NUMBER("dpdk.queues", "", "1", "1…16", 1, 16, dpdk_queues,
	       "Queue pairs of the interface that are received from; more than one where its card spreads "
	       "streams over several (RSS)."),
	NUMBER("dpdk.mtu", "bytes", "0", "0…9000", 0, 9000, dpdk_mtu_bytes,
	       "Largest IP packet; 0 takes what the interface says."),
	TEXT("dpdk.neighbours", "", "IPv4=MAC,…", APUS_CTL_KIND_TEXT, dpdk_neighbours,
	     "Hosts that are not asked for their hardware address."),
	WORD("dpdk.partial_checksums", "refuse", "accept | refuse", checksum_words, dpdk_checksums,
	     "What becomes of UDP checksums that a sender left to its network card, as those on the "
	     "other end of a veth do: accept does not verify any."),
	WORD("dpdk.hugepages", "auto", "auto | no", hugepage_words, dpdk_hugepages,
	     "Whether DPDK uses huge pages where the host has reserved enough."),
	TEXT("dpdk.eal", "", "arguments", APUS_CTL_KIND_TEXT, dpdk_eal,
	     "Further arguments of DPDK's environment, separated by spaces; the first participant of a "
	     "process decides."),
	DURATION(
		"dpdk.poll_period", "1ms", "50us…100ms", 50 * APUS_NS_PER_US, 100 * MS,
		dpdk_poll_period_ns,
		"How often a thread that sleeps looks at the interface while no other thread polls it."),
	TEXT("dpdk.library", "", "path", APUS_CTL_KIND_TEXT, dpdk_library,
	     "The transport's file; empty: libapus-dpdk.so, beside libapus or where the system looks."),

	/* The worker process. */
	TEXT("worker.name", "default", "up to 40 bytes, no slash", APUS_CTL_KIND_TEXT, relay_name,
	     "Name of the worker process, on both sides: what `apus worker` listens as, and whom transport = worker "
	     "asks."),
	TEXT("worker.directory", "", "path, up to 60 bytes", APUS_CTL_KIND_TEXT, relay_directory,
	     "Where it listens; empty: $XDG_RUNTIME_DIR/apus/worker, else /tmp/apus-UID/worker. Only its owner "
	     "may enter it."),
	NUMBER("worker.applications", "processes", "16", "1…1024", 1, 1024, relay_applications,
	       "apus worker: most applications at once."),
	NUMBER("worker.queues", "queues", "16", "1…64", 1, 64, relay_queues,
	       "apus worker: most queues of one application; a participant has one, and one for each of its workers."),
	NUMBER("worker.ring_bytes", "bytes", "4194304", "262144…67108864", 262144, 67108864,
	       relay_ring_bytes,
	       "apus worker: largest ring of a queue, each way, a power of two; an application's is 8 KiB for each of its rx.buffers."),
	NUMBER("worker.burst", "datagrams", "32", "1…64", 1, 64, relay_burst,
	       "apus worker: datagrams of one queue, each way, before it is the turn of the next."),

	/* Threads. */
	NUMBER("worker.count", "", "1", "1…64", 1, 64, worker_count,
	       "Workers; each has a port, and the endpoints assigned to it."),
	WORD("worker.mode", "spawned", "spawned | driven", mode_words, worker_mode,
	     "Whether the library runs the workers, or the application by apus_worker_poll()."),
	WORD("worker.idle", "block", "poll | pause | block", idle_words, worker_idle,
	     "What an idle spawned worker does: poll is fastest and takes a core, block sleeps."),
	TEXT("worker.cores", "", "core,…, up to 64", APUS_CTL_KIND_CORES, worker_cores,
	     "Cores the workers are pinned to, one each; empty leaves them to the scheduler."),
	NUMBER("worker.priority", "", "0", "0…99", 0, 99, worker_priority,
	       "SCHED_FIFO priority of spawned workers; 0 is ordinary scheduling."),
	AUTO("control.core", "", "auto", "auto | 0…1023", 0, 1023, control_core,
	     "Core of the control thread; auto leaves it to the scheduler."),

	/* Shared memory. */
	SWITCH("shm", "off", shm,
	       "Whether matches with participants of this host and user, where they have it on, too, go "
	       "through shared memory."),
	TEXT("shm.directory", "", "path, up to 60 bytes", APUS_CTL_KIND_TEXT, shm_directory,
	     "Where participants of this host meet; empty: $XDG_RUNTIME_DIR/apus, else /tmp/apus-UID. "
	     "Only its owner may enter it."),
	WORD("shm.lend", "fixed", "off | fixed | all", lend_words, shm_lend,
	     "Which samples of 512 bytes and more a reader keeps, and lends to the application, in the slot their "
	     "writer filled, without a copy: fixed are those of types whose memory image is their CDR image, whatever "
	     "the writer does to them meanwhile; all trusts every process of this user."),
	NUMBER("shm.slots", "samples", "1024", "16…65536", 16, 65536, shm_slots,
	       "Samples of one writer that may be out with readers of other processes, beyond its history; "
	       "large samples: as many as 8 MiB hold, at least 16. A best-effort reader that is further behind loses the oldest."),
	NUMBER("shm.readers", "readers", "8", "1…1024", 1, 1024, shm_readers,
	       "Readers that share a writer's slots evenly; the others are served by the network."),
	NUMBER("shm.matches", "matches", "256", "1…65536", 1, 65536, shm_matches,
	       "Matches of the participant that may go through shared memory."),

	/* The reliable protocol. */
	DURATION("heartbeat.period", "100ms", "1ms…1h", MS, 3600 * SEC, heartbeat_period_ns,
		 "Time between the heartbeats of a writer that waits for acknowledgements."),
	DURATION(
		"demote.after", "3s", "10ms…inf", 10 * MS, APUS_INFINITE_NS, demote_ns,
		"A reliable reader that answers nothing for so long, though asked, is demoted: writers "
		"no longer wait for it until it is heard again."),
	DURATION("ack.delay", "0ns", "0ns…1s", 0, SEC, ack_delay_ns,
		 "How long a reader waits before it answers a heartbeat, so that answers merge."),
	DURATION(
		"nack.delay", "0ns", "0ns…1s", 0, SEC, nack_delay_ns,
		"How long a writer waits before it answers a request for samples, so that requests merge."),
	DURATION(
		"nack.group_delay", "2ms", "0ns…1s", 0, SEC, nack_group_delay_ns,
		"The same, if longer, for readers that are sent to by multicast: what several ask for "
		"meanwhile goes to all of them at once."),
	NUMBER("nack.group_readers", "readers", "2", "0…65536", 0, 65536, nack_group_readers,
	       "Readers that must ask for a sample for it to be repeated by multicast; 0: never, and "
	       "nack.group_delay does not count."),
	DURATION("nack.suppression", "500us", "0ns…1s", 0, SEC, nack_suppression_ns,
		 "Within this time what a reader was sent on request is not sent again to it."),

	NUMBER("pace.bytes", "bytes", "65536", "1024…1073741824", 1024, 1073741824, pace_bytes,
	       "So much of a large sample leaves at a time, every 1 to 2 ms, for readers that are all "
	       "best-effort: less where a busy one with a small socket buffer loses some. The next write "
	       "sends what is left at once."),
	AUTO("fragment.bytes", "bytes", "auto", "auto | 256…64000", 256, 64000, fragment_bytes,
	     "Largest piece of a sample in one datagram; auto fits the packets of every interface."),

	/* Matching and filters. */
	WORD("type_matching", "names", "names | strict", type_words, type_matching,
	     "Whether equal type names suffice where a peer announces no type hash."),
	SWITCH("filtering", "on", filtering,
	       "Whether readers may have content filters; off makes their creation fail."),
	SWITCH("filter.disable_writer_filtering", "off", disable_writer_filtering,
	       "Whether writers send remote readers also what their filters reject."),
	SWITCH("filter.info", "on", filter_info,
	       "Whether samples tell filtered readers the verdict, and readers take Apus writers' word for it."),
	SWITCH("filter.disable_builtin_sql", "off", disable_builtin_sql,
	       "Whether there is no built-in class DDSSQL; its name may then be registered."),
	NUMBER("filter.class_max_count", "", "8", "1…256", 1, 256, filter_classes,
	       "Filter classes at once, the built-in one included."),
	NUMBER("filter.class_max_length", "bytes", "64", "1…255", 1, 255, filter_class_bytes,
	       "Longest name of a filter class."),
	NUMBER("filter.expression_max_length", "bytes", "4096", "1…1048576", 1, 1048576,
	       filter_expression_bytes, "Longest filter expression that is compiled."),
	NUMBER("filter.parameter_max_count_per_expression", "", "100", "0…100", 0, 100,
	       filter_parameters, "Most parameters of a filter; DDS allows %0 to %99."),
	NUMBER("filter.parameter_max_length", "bytes", "1024", "1…1048576", 1, 1048576,
	       filter_parameter_bytes, "Longest parameter of a filter."),
	NUMBER("filter.predicate_max_count_per_expression", "", "64", "1…1024", 1, 1024,
	       filter_predicates,
	       "Most comparisons in one filter; bounds the time one sample takes."),
	NUMBER("filter.depth", "", "64", "1…64", 1, 64, filter_depth,
	       "Deepest nesting of parentheses and NOT in one filter."),
	NUMBER("filter.expression_max_count", "", "1024", "0…65536", 0, 65536, filter_unique,
	       "Filters of local readers held at once; those of remote readers count as long as all are fewer."),
	NUMBER("filter.max_remote_reader_filters", "", "65536", "0…65536", 0, 65536,
	       filter_remote_readers,
	       "Remote readers one writer filters for; those beyond it get every sample."),

	/* Capacities. */
	NUMBER("limits.participants", "", "256", "1…65536", 1, 65536, participants,
	       "Other participants known at once."),
	NUMBER("limits.local_endpoints", "", "256", "1…65536", 1, 65536, local_endpoints,
	       "Writers and readers of this participant."),
	NUMBER("limits.remote_writers", "", "4096", "1…1048576", 1, 1048576, remote_writers,
	       "Writers of other participants known at once."),
	NUMBER("limits.remote_readers", "", "4096", "1…1048576", 1, 1048576, remote_readers,
	       "Readers of other participants known at once."),
	NUMBER("limits.discovery_bytes", "bytes", "33554432", "65536…4294967295", 65536, 4294967295,
	       discovery_bytes, "Memory for the descriptions of all endpoints together."),
	NUMBER("limits.matches", "", "16384", "1…4194304", 1, 4194304, matches,
	       "Matched pairs of writers and readers at once."),
	NUMBER("limits.matches_per_endpoint", "", "128", "1…65536", 1, 65536, matches_per_endpoint,
	       "Matches of one writer or reader whose QoS sets no max_matches."),
	NUMBER("limits.generations", "", "4", "1…64", 1, 64, generations,
	       "Replaced snapshots of one endpoint that may wait until no worker uses them."),
	NUMBER("limits.types", "", "4096", "16…1048576", 16, 1048576, types,
	       "Parts of types known, or asked for, at once; a struct, an enum … is one each."),
	NUMBER("limits.type_bytes", "bytes", "8388608", "0…4294967295", 0, 4294967295, type_bytes,
	       "Memory for what others tell of their types."),
	NUMBER("history.samples", "samples", "1024", "1…16777216", 1, 16777216, history_samples,
	       "Samples an endpoint keeps whose QoS sets no max_samples."),
	NUMBER("history.instances", "", "256", "1…16777216", 1, 16777216, history_instances,
	       "Instances an endpoint keeps whose QoS sets no max_instances."),
	NUMBER("history.samples_per_instance", "samples", "1024", "1…16777216", 1, 16777216,
	       history_samples_per_instance,
	       "Samples of one instance kept where QoS sets no max_samples_per_instance."),
	NUMBER("sample.bytes", "bytes", "16384", "64…67108864", 64, 67108864, sample_bytes,
	       "Largest payload where QoS sets none and the type has no smaller bound; beyond a datagram it takes fragments."),
};

const size_t apus_ctl_setting_count = APUS_ARRAY_LENGTH(apus_ctl_settings);
