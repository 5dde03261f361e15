/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A participant from the inside: the composition root, control/domain*.c, where the two planes are put
 * together. No other file of control/ sees data-plane objects.
 *
 * Threads. The control thread sleeps most of its time; awake, it holds `lock` and the turn of the control
 * worker, on which the built-in endpoints live. Public calls that create, delete or change entities do
 * the same work in the caller's thread under the same lock. Data calls take neither.
 *
 * Lock order: the listeners' lock (domain_listen.c), lock, then the control worker's turn, then (only tried, never waited for) other turns.
 * The exceptions, registration of an endpoint with its worker and removal, take the lock, then the other
 * worker's turn, and never both turns.
 */
#ifndef APUS_CONTROL_DOMAIN_H
#define APUS_CONTROL_DOMAIN_H

#include <apus/participant.h>

#include "control/config.h"
#include "control/discovery.h"
#include "control/graph.h"
#include "control/publish.h"
#include "control/typebuild.h"
#include "control/types.h"
#include "dataplane/entity.h"
#include "dataplane/group.h"
#include "dataplane/io/netwatch.h"
#include "dataplane/io/plugin.h"
#include "dataplane/io/ports.h"

#include <pthread.h>

/** Built-in reliable topics besides SPDP. */
enum apus_ctl_builtin {
	APUS_CTL_PUBLICATIONS = 0,
	APUS_CTL_SUBSCRIPTIONS = 1,
	APUS_CTL_MESSAGE = 2,
	APUS_CTL_TYPE_REQUEST = 3,
	APUS_CTL_TYPE_REPLY = 4,
	APUS_CTL_BUILTINS = 5
};

/** Longest reply about types. */
#define APUS_CTL_TYPE_REPLY_BYTES 49152

/** What the TypeLookup service did. */
struct apus_ctl_type_lookup_counters {
	struct apus_counter asked;    /**< requests sent */
	struct apus_counter answered; /**< requests answered */
	struct apus_counter withheld; /**< not answered: a stranger, or one that asks too much */
};

/** What happened to matches through shared memory. */
struct apus_ctl_shm_counters {
	struct apus_counter links;   /**< participants of this host connected to */
	struct apus_counter matches; /**< matches that took this route */
	struct apus_counter
		fallbacks;          /**< matches with such a participant that go by the network */
	struct apus_counter deaths; /**< processes found dead */
	struct apus_counter malformed; /**< connections closed for what they said */
};

struct apus_ctl_filter_class;
struct apus_ctl_type_credit;
struct apus_ctl_type_verdict;
struct apus_ctl_type_found;

struct apus_ctl_builtin_pair {
	struct apus_dp_writer *writer;
	struct apus_dp_reader *reader;
	struct apus_ctl_endpoint *writer_endpoint, *reader_endpoint;
};

struct apus_ctl_stats_file;
struct apus_relay;
struct apus_ctl_stats_keeper;
struct apus_ctl_shm;

/** When to assert liveliness; see domain_alive.c. */
struct apus_ctl_alive {
	int64_t automatic_ns, manual_ns; /* periods; 0 = no writer needs it */
	struct apus_mono automatic_due, manual_due;
	uint64_t manual_seen[APUS_CTL_CORES_MAX];
};

struct apus_participant {
	struct apus_ctl_config config;
	struct apus_prefix prefix;
	uint32_t fork_count;
	struct apus_dp_netif interfaces[APUS_DP_NETIF_MAX];
	size_t interface_count;
	bool loopback_only;        /* all of them are loopback at present */
	bool bind_home;            /* and will always be: sockets are bound to 127.0.0.1 */
	struct apus_mono net_told; /* when we last announced because of them */
	int netwatch_fd; /* tells that interfaces may have changed; -1: the kernel refused */
	/* An interface of our own (domain_port.c); NULL: the kernel's are used. */
	const struct apus_dp_plugin *plugin;
	struct apus_dp_port *port;
	struct apus_dp_ports ports;
	uint32_t participant_idx;

	struct apus_dp_epoch *epoch;
	struct apus_dp_worker *control;
	struct apus_dp_worker *workers[APUS_CTL_CORES_MAX];
	uint32_t worker_count;
	uint64_t settled_epoch; /* every worker was shown this epoch; under lock */
	/* Endpoints made in a row; under lock. settle_due: when control publishes them; 0: nothing waits. */
	struct apus_mono row_last, settle_due;
	struct apus_mono
		filters_due; /* when news of filters are published that wait; 0: none; under lock */
	uint32_t row_count;

	pthread_mutex_t lock;
	pthread_t thread;
	bool thread_started;
	_Atomic bool stop;

	/* All below: under lock. */
	struct apus_ctl_graph *graph;
	struct apus_ctl_discovery *discovery;
	struct apus_ctl_publisher *publisher;
	struct apus_dp_writer *spdp_writer; /* scratch for announcements; matched with nobody */
	struct apus_wall spdp_stamp;        /* source timestamp of what it holds */
	struct apus_dp_reader *spdp_reader;
	struct apus_dp_reader
		*spdp_server_reader; /* reliable, of Discovery Servers; NULL: none named */
	struct apus_ctl_builtin_pair builtin[APUS_CTL_BUILTINS];
	struct apus_wire_endpoint_record *scratch; /* decoded SEDP record; too large for a stack */
	struct apus_wire_participant_record self;
	uint32_t entity_key; /* of the last user entity made */
	struct apus_writer *writers;
	struct apus_reader *readers;
	struct apus_publisher *publishers;
	struct apus_subscriber *subscribers;
	struct apus_ctl_types *types;
	struct apus_ctl_type_credit *type_credit;    /* by participant slot */
	uint8_t *type_reply;                         /* scratch */
	struct apus_ctl_type_verdict *type_verdicts; /* cache */
	struct apus_ctl_type_found *types_found;     /* descriptors made of what others told */
	uint32_t types_found_count;
	struct apus_ctl_type_lookup_counters type_counters;
	struct apus_ctl_filter_class *filter_classes; /* of the application; domain_filter.c */
	struct apus_ctl_alive alive;
	struct apus_ctl_shm *shm; /* domain_shm.c; NULL: not configured */
	struct apus_ctl_shm_counters shm_counters;
	struct apus_ctl_stats_file *stats; /* domain_stats.c; NULL: none is kept */
	struct apus_ctl_stats_keeper *stats_keeper;
	struct apus_mono stats_due;
	uint32_t stats_matches,
		stats_unshown;           /* rows of matches in this update; matches without one */
	struct apus_counter net_changes; /* times our addresses were found changed */
	struct apus_counter malformed_records; /* discovery samples that did not decode */

	/* Listeners: all but the target's atomics under listen_lock, which comes before `lock`. */
	pthread_mutex_t listen_lock;    /* recursive */
	uint32_t listen_depth;          /* 1 while somebody is calling */
	_Atomic uint64_t listen_missed; /* workers that found listen_lock taken; domain_listen.c */
	struct apus_listener listener;
	struct apus_dp_listening *listenings;     /* of its endpoints that have one */
	struct apus_dp_listening *listen_current; /* being called; NULL once it is gone */
	struct apus_dp_target dispatch;
};

/** domain_filter.c: compiles for a class of the application; `user` is the participant. Under lock. Returns 0,
 *  APUS_ENOENT (no such class), what its compile() returns, APUS_ENOMEM. */
int apus_ctl_domain_compile_custom(void *user, const char *class_name,
				   const struct apus_filter_source *source, uint32_t context,
				   struct apus_dp_predicate **predicate_out);
/** Whether a class of that name is built in or registered. Under lock. */
bool apus_ctl_domain_knows_class(const struct apus_participant *p, const char *name);
/** Destroys all classes; nothing is compiled any more. */
void apus_ctl_domain_drop_classes(struct apus_participant *p);

/** domain_listen.c: shows what control knows of an endpoint to everybody. Under lock. */
void apus_ctl_domain_published(void *user, struct apus_ctl_endpoint *endpoint, uint32_t dirty);
/** Adds a watch to an endpoint, changes its mask or (0) removes it. Takes lock and turn. */
void apus_ctl_domain_watch_writer(struct apus_writer *w, struct apus_dp_watch *watch,
				  uint32_t mask);
void apus_ctl_domain_watch_reader(struct apus_reader *r, struct apus_dp_watch *watch,
				  uint32_t mask);
/** A new endpoint, one of both, joins those that the participant's listener hears of. Returns 0 or APUS_ENOMEM. No
 *  lock held. */
int apus_ctl_domain_listen_begin(struct apus_writer *w, struct apus_reader *r);
/** One about to be deleted leaves; from here on it is `deaf`. No lock held. */
void apus_ctl_domain_listen_end(struct apus_participant *p, struct apus_dp_listening **of,
				bool *deaf);
/** Calls the listeners that a worker is to call; between its turns. */
void apus_ctl_domain_listen(void *user, struct apus_dp_worker *worker);
/** True inside a callback of one of the participant's listeners, which cannot outlive the participant. */
bool apus_ctl_domain_is_calling(struct apus_participant *p);
int apus_ctl_domain_listen_open(struct apus_participant *p);
void apus_ctl_domain_listen_close(struct apus_participant *p);

/** domain_wait.c: an endpoint goes; its conditions are never true again. No lock held. */
void apus_ctl_domain_conditions_end(struct apus_participant *p, struct apus_condition **list);

/** domain_entities.c: compiles a filter expression within the configured limits; NULL for none. */
int apus_ctl_domain_compile(const struct apus_participant *p, const struct apus_type *type,
			    const char *expression, const char *const *parameters, uint32_t count,
			    struct apus_dp_predicate **predicate_out,
			    struct apus_filter_error *error);

/** domain_entities.c: the QoS of an endpoint as it is created: with the presentation of its group, and capacities it
 *  leaves open from the configuration; what the type bounds is bounded by it. Returns 0 or as apus_writer_create(). */
int apus_ctl_domain_complete_qos(const struct apus_participant *p,
				 const struct apus_endpoint_options *o, bool is_writer,
				 struct apus_qos *qos);
/** Publishes what has changed, or has control do it. Under lock, no turn held. */
void apus_ctl_domain_changed(struct apus_participant *p);
/** A QoS of 0 purges at once; the history takes 0 for never, and purges when next it is looked at. */
static inline int64_t apus_ctl_domain_purge_delay(int64_t ns)
{
	return ns ? ns : 1;
}

/**
 * domain_stats.c: a counter file of at most row_max rows, kept until apus_ctl_stats_drop(). Returns 0, APUS_EEXIST
 * (somebody keeps it), APUS_EIO, APUS_ENOMEM, with a sentence in `why`.
 */
int apus_ctl_stats_keep(const char *path, uint32_t row_max, char *why, size_t why_bytes,
			struct apus_ctl_stats_file **file_out,
			struct apus_ctl_stats_keeper **keeper_out);
/** Removes and frees it; NULLs are allowed. */
void apus_ctl_stats_drop(struct apus_ctl_stats_file *f, struct apus_ctl_stats_keeper *k);
/** Brings the one row of a worker process up to date. Returns when to do so next. */
struct apus_mono apus_ctl_stats_relay_turn(struct apus_ctl_stats_file *f,
					   struct apus_ctl_stats_keeper *k,
					   struct apus_relay *relay, const char *name,
					   uint32_t queue_count, struct apus_mono now);
/** The counter file of a participant, if one is configured. */
int apus_ctl_domain_stats_open(struct apus_participant *p, char *why, size_t why_bytes);
void apus_ctl_domain_stats_close(struct apus_participant *p);
/** Brings it up to date if it is time; returns when to call again. Under lock, no turn held. */
struct apus_mono apus_ctl_domain_stats_turn(struct apus_participant *p, struct apus_mono now);

/** domain_alive.c: another participant asserted its writers. Under lock and control turn. */
void apus_ctl_domain_on_alive(struct apus_participant *p,
			      const struct apus_wire_liveliness *message, struct apus_mono now);
/** The writers changed. Under lock. */
void apus_ctl_domain_alive_changed(struct apus_participant *p);
/** Sends what is due; returns when to call again. Under lock and control turn. */
struct apus_mono apus_ctl_domain_alive_turn(struct apus_participant *p, struct apus_mono now);

/** domain_builtin.c: creates the built-in endpoints on the control worker, and removes them. */
int apus_ctl_domain_open_builtin(struct apus_participant *p);
void apus_ctl_domain_close_builtin(struct apus_participant *p);
/** The ops table discovery works through. */
struct apus_ctl_discovery_ops apus_ctl_domain_ops(struct apus_participant *p);
/**
 * Waits, for a second at most, until there is room to announce one more endpoint: the end of an endpoint stays
 * in the history until all participants have acknowledged it, so endpoints can come and go faster than others
 * hear of it. Not under lock; returns at once on a worker's thread.
 */
void apus_ctl_domain_await_room(struct apus_participant *p, bool is_writer);
/** Callbacks of the control worker. Under lock and the control turn. */
void apus_ctl_domain_evidence(void *user, const struct apus_prefix *source, uint32_t bytes,
			      bool proved, struct apus_mono now);
bool apus_ctl_domain_may_send(void *user, const struct apus_prefix *dest, uint32_t bytes);
void apus_ctl_domain_regressed(void *user, const struct apus_prefix *source, struct apus_mono now);
bool apus_ctl_domain_may_hear(void *user, const struct apus_prefix *source,
			      const struct apus_dp_addr *from);

/**
 * Publishes what is dirty and shows every worker the new epoch. Under lock, no turn held.
 * Returns true if something had to be put off: call again soon.
 */
bool apus_ctl_domain_settle(struct apus_participant *p);

/** domain_info.c: visits the counters of a port of our own, which all participants on it share; NULL: it has none.
 *  Returns their number. */
int apus_ctl_domain_visit_port(const struct apus_dp_plugin *plugin, struct apus_dp_port *port,
			       void (*visit)(const struct apus_stat *, void *), void *user);
/** domain_info.c: apus_visit_reader_stats() without a turn: what local writers spared the reader may not be
 *  counted yet. */
int apus_ctl_domain_visit_reader(struct apus_reader *reader,
				 void (*visit)(const struct apus_stat *, void *), void *user);

/** domain_types.c: the store of types and the TypeLookup service. Under lock; but for the first two, with the
 *  control turn. apus_ctl_domain_types_turn() returns when it has something to do again. */
int apus_ctl_domain_open_types(struct apus_participant *p);
void apus_ctl_domain_close_types(struct apus_participant *p);
void apus_ctl_domain_on_type_request(void *user, const struct apus_dp_sink_sample *sample,
				     struct apus_mono now);
void apus_ctl_domain_on_type_reply(void *user, const struct apus_dp_sink_sample *sample,
				   struct apus_mono now);
/** The graph's question about two types; `user` is the participant. Asks for what is missing. */
int apus_ctl_domain_assignable(void *user, const struct apus_wire_endpoint_record *writer,
			       const struct apus_wire_endpoint_record *reader);
/** Makes a local type known to those who ask. Returns as apus_ctl_types_add_local(). */
int apus_ctl_domain_add_type(struct apus_participant *p, const struct apus_type *type);
/** domain_lookup.c: frees the descriptors made. */
void apus_ctl_domain_forget_found(struct apus_participant *p);
struct apus_mono apus_ctl_domain_types_turn(struct apus_participant *p, struct apus_mono now);

/** The configured limits of filter expressions, local and remote. */
struct apus_ctl_filter_limits apus_ctl_domain_filter_limits(const struct apus_participant *p);

/** domain_groups.c: checks that an endpoint may join the group its options name, and gives its QoS the group's
 *  presentation. Returns 0 or APUS_EINVAL. */
int apus_ctl_domain_join(const struct apus_participant *p, const struct apus_endpoint_options *o,
			 bool is_writer, struct apus_qos *qos);

/** domain.c: adds the groups of SPDP at a port to what a queue listens to. */
void apus_ctl_domain_add_groups(const struct apus_participant *p, struct apus_dp_queue_config *q,
				uint16_t port);
/** domain_relay.c: refuses settings of a worker process that have no effect on this participant. Returns 0 or
 *  APUS_EINVAL. */
int apus_ctl_domain_check_relay(const struct apus_participant *p, char *why, size_t why_bytes);
/** Claims a participant index at the worker process, by opening both queues whose ports stand for it: `meta` and `user`
 *  get ports and groups. As apus_dp_port_claim(); on failure nothing is open. */
int apus_ctl_domain_claim_relayed(struct apus_participant *p, struct apus_dp_queue_config *meta,
				  struct apus_dp_queue_config *user,
				  struct apus_dp_queue *queues_out[2], char *why, size_t why_bytes);
/** Interfaces as configured, of whoever has them. As apus_dp_netif_lookup_family(). */
int apus_ctl_domain_lookup(const struct apus_participant *p, char *why, size_t why_bytes,
			   struct apus_dp_netif found_out[APUS_DP_NETIF_MAX], size_t *count_out);
/** True if they may have changed since the last call. */
bool apus_ctl_domain_net_changed(struct apus_participant *p);

/** domain_net.c: looks interfaces up and begins to watch them. Errors of apus_dp_netif_lookup(), and
 *  APUS_EINVAL if all their addresses are denied. */
int apus_ctl_domain_open_net(struct apus_participant *p, char *why, size_t why_bytes);
/** What can be reached at present, and may be. */
void apus_ctl_domain_policy(const struct apus_participant *p,
			    struct apus_ctl_locator_policy *policy_out);
/** Fills p->self from what is configured and where we are reachable now. */
void apus_ctl_domain_make_self(struct apus_participant *p);
/** Follows what has become of the interfaces, if anything. Under lock, no turn held. */
void apus_ctl_domain_follow_net(struct apus_participant *p);
/** Where an endpoint of this worker is reachable, if the participant's default does not say so already. */
void apus_ctl_domain_add_locators(const struct apus_participant *p, const struct apus_dp_worker *w,
				  struct apus_wire_endpoint_record *record);
/** The groups of SPDP at a port: of IPv4 239.255.0.1 (RTPS 2.5 §9.6.2.4.1). Interop: the specification names none
 *  of IPv6; Cyclone DDS 0.10.2 uses ff02::ffff:239.255.0.1, Fast DDS 2.9.1 ff1e::ffff:239.255.0.1. Returns
 *  their number; the first is the one samples go to. */
#define APUS_CTL_GROUPS_MAX 2
uint32_t apus_ctl_domain_groups(const struct apus_participant *p, uint16_t port,
				struct apus_dp_addr groups_out[APUS_CTL_GROUPS_MAX]);
/** AF_INET or AF_INET6. */
uint16_t apus_ctl_domain_family(const struct apus_participant *p);

/** domain_port.c: what a port is opened with. Its texts are those of `config`. */
struct apus_dp_port_config apus_ctl_domain_port_config(const struct apus_ctl_config *config);
/** Opens the interface that the configuration names. Errors of apus_dp_plugin_load() and port_open(). */
int apus_ctl_domain_open_port(struct apus_participant *p, struct apus_dp_netif *netif_out,
			      char *why, size_t why_bytes);
/** After all its queues are closed. Without a port: nothing. */
void apus_ctl_domain_close_port(struct apus_participant *p);
/** Chooses a participant index whose UDP ports are free on the port, and keeps them; no socket is bound. */
int apus_ctl_domain_claim_on_port(struct apus_participant *p, char *why, size_t why_bytes,
				  struct apus_dp_port_claim *claim_out);
/** Opens a queue: of the port, of the worker process, or of the kernel's sockets. */
int apus_ctl_domain_open_queue(struct apus_participant *p, const struct apus_dp_queue_config *q,
			       char *why, size_t why_bytes, struct apus_dp_queue **queue_out);

/** domain_entities.c: deletes all writers and readers that are left. */
void apus_ctl_domain_delete_entities(struct apus_participant *p);

#endif
