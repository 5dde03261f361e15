/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discovery: what to announce and when, and what to believe (RTPS 2.5 §8.5).
 *
 * A pure state machine over the graph: time is an argument, and everything it wants sent or written goes
 * through the ops, which it calls only from inside its own functions. Records are encoded when they
 * change and resent unchanged: an announcement cycle allocates and encodes nothing.
 *
 * What is believed: a record describes the participant that sent it (same prefix), an endpoint only of a
 * known participant; everything else is refused and counted. SEDP data reaches us through matches that
 * exist only once its participant is known, so an endpoint of an unknown one is forged or belongs to one
 * that has lapsed: it will be repeated when the participant is matched anew.
 *
 * Answers: a newcomer is told about us directly, after a random delay, at a bounded rate; many at once
 * get one multicast announcement instead. Each further announcement of a participant that has shown no
 * sign of knowing us (SEDP or ACKNACK traffic for us) is answered again.
 *
 * No amplifier: an announcement may name anybody's address. Until that address has proved itself, by an
 * answer that only who receives there can give (dataplane/writer.h), all that is sent to it stays below
 * three times what came from its participant: apus_ctl_discovery_may_send() stands before every datagram
 * for one participant. Endpoints are matched, and user traffic is routed, only when that is proved.
 *
 * An endpoint there is no room for is refused, and its record acknowledged: nothing waits for it. Of each participant
 * the lowest number refused is kept, and when something has gone since, everything from there on is asked for
 * again, some time after the last time at the earliest.
 *
 * Discovery Servers of Fast DDS may be configured (docs/decisions/0018). One is announced to at its address,
 * and often until it has proved itself there; then it may tell of participants and endpoints that are not its
 * own. Those prove themselves as everybody does, what the server told of them being the bytes received; their
 * leases last as long as they themselves answer, whatever becomes of the server. Whoever announces itself
 * directly, too, speaks for itself from then on.
 *
 * A participant that starts again under the same prefix is somebody new: its announcements carry the same
 * sequence number, or a smaller one, with another source timestamp. What the old one had ends at once.
 *
 * Thread rule: calls are serialised by control's lock.
 */
#ifndef APUS_CONTROL_DISCOVERY_H
#define APUS_CONTROL_DISCOVERY_H

#include "control/graph.h"

struct apus_ctl_discovery;

/** Most Discovery Servers. */
#define APUS_CTL_SERVERS_MAX 16

/** What discovery asks of its owner. Called under control's lock; must not call back into discovery. */
struct apus_ctl_discovery_ops {
	/**
	 * Sends our SPDP sample as one datagram to `to` (unicast or multicast).
	 * payload: with encapsulation header; key: the participant's GUID. gone: it is a dispose and
	 * unregister (status info 3); send PID_KEY_HASH and the key payload.
	 */
	void (*announce)(void *user, const struct apus_dp_addr *to, const struct apus_guid *key,
			 const uint8_t *payload, size_t payload_bytes, bool gone);
	/**
	 * Writes a sample with a built-in reliable writer (publications or subscriptions).
	 * gone: as above. The payload is copied. Returns 0 or a negative APUS_E….
	 */
	int (*write)(void *user, struct apus_eid writer, const struct apus_guid *key,
		     const uint8_t *payload, size_t payload_bytes, bool gone);
	/** Asks a participant's built-in writer for all it still has from number `from` on, which was
	 *  acknowledged. NULL: what was refused is not asked for again. */
	void (*ask_again)(void *user, const struct apus_guid *writer, apus_seq from);
	void *user;
	/** As announce(), to a Discovery Server; may be NULL if there is none. What is new is sent this way
	 *  before it is by announce(). */
	void (*announce_client)(void *user, const struct apus_dp_addr *to,
				const struct apus_guid *key, const uint8_t *payload,
				size_t payload_bytes, bool gone);
	/** When traffic between our endpoints and the participant's was last heard; 0: not known. Asked before its
	 *  lease runs out. May be NULL. */
	struct apus_mono (*heard)(void *user, const struct apus_prefix *participant);
	/** Sends a participant's built-in readers a HEARTBEAT each, as to readers just matched: what was sent
	 *  before did not reach them. May be NULL. */
	void (*greet)(void *user, const struct apus_prefix *participant);
};

/** How to announce. */
struct apus_ctl_discovery_config {
	uint32_t domain;
	int64_t announce_period_ns;
	int64_t burst_period_ns;
	uint32_t burst_count;             /**< announcements at the start, burst_period_ns apart */
	struct apus_dp_addr multicast;    /**< SPDP group and port; family 0 = none */
	const struct apus_dp_addr *peers; /**< copied */
	uint32_t peer_count;
	const struct apus_dp_addr *servers; /**< Discovery Servers, each with its port; copied */
	uint32_t server_count;              /**< up to APUS_CTL_SERVERS_MAX */
	bool super_client;                  /**< they are asked for everything they know */
	uint64_t seed;                      /**< of the random delays; any value */
};

/** What was heard and believed. */
struct apus_ctl_discovery_counters {
	struct apus_counter datagrams_withheld; /**< others, by the rule of three */
	struct apus_counter restarted;          /**< participants that started anew */
	struct apus_counter outdated;           /**< announcements of a participant's former life */
	struct apus_counter announcements_sent; /**< datagrams */
	struct apus_counter answers_withheld;   /**< by the rule of three */
	struct apus_counter participants_heard; /**< announcements believed */
	struct apus_counter own;                /**< our own, looped back */
	struct apus_counter foreign;     /**< refused: another domain, or another sender's record */
	struct apus_counter asked_again; /**< for records that had been refused for want of room */
	struct apus_counter orphans;     /**< endpoint of an unknown participant */
	struct apus_counter lapsed;      /**< participants whose lease ran out */
	struct apus_counter departed;    /**< participants that said good-bye */
	struct apus_counter server_announcements; /**< datagrams to Discovery Servers */
	struct apus_counter relayed;              /**< announcements believed by a server's word */
	struct apus_counter
		impostors; /**< refused: under a server's prefix, but not from its host */
};

/**
 * Creates the state machine; `self` is our own announcement and is encoded at once. The graph and the
 * functions in ops must outlive it. The first announcement leaves with the first turn.
 * Returns 0, APUS_ENOMEM, APUS_ELIMIT (record does not encode, or too many servers).
 */
int apus_ctl_discovery_create(const struct apus_ctl_discovery_config *config,
			      const struct apus_ctl_discovery_ops *ops,
			      struct apus_ctl_graph *graph,
			      const struct apus_wire_participant_record *self, struct apus_mono now,
			      struct apus_ctl_discovery **discovery_out);
/** Frees it; sends nothing. NULL is allowed. */
void apus_ctl_discovery_destroy(struct apus_ctl_discovery *discovery);

/** Says good-bye to everybody (SPDP dispose), without removing anything from the graph. */
void apus_ctl_discovery_depart(struct apus_ctl_discovery *discovery);

/**
 * Expires leases, sends the announcements and answers that are due.
 * Returns the next instant at which a turn has something to do.
 */
struct apus_mono apus_ctl_discovery_turn(struct apus_ctl_discovery *discovery,
					 struct apus_mono now);

/* ---- what came in ---- */

/** How an SPDP sample came in. */
struct apus_ctl_heard {
	struct apus_prefix source; /**< of the sending participant (RTPS header) */
	struct apus_dp_addr from;  /**< its address */
	uint32_t bytes;            /**< of the datagram, to be credited to it */
	apus_seq seq;              /**< 0: unknown */
	struct apus_wall stamp;    /**< source timestamp; APUS_WALL_NONE: none */
};

/**
 * An SPDP sample arrived. Returns enum apus_ctl_admission, APUS_EAGAIN (our own), APUS_EPERM (not its own
 * record), APUS_EINVAL (other domain), APUS_ELIMIT, APUS_ENOENT (of its former life; ignored).
 */
int apus_ctl_discovery_on_participant(struct apus_ctl_discovery *discovery,
				      const struct apus_wire_participant_record *record,
				      const struct apus_ctl_heard *heard, struct apus_mono now);
/** An SPDP dispose arrived; `gone` names the participant (key payload or key hash). Returns 0,
 *  APUS_EPERM (not the sender itself), APUS_ENOENT. */
int apus_ctl_discovery_on_participant_gone(struct apus_ctl_discovery *discovery,
					   const struct apus_guid *gone,
					   const struct apus_prefix *source);
/** An SEDP sample arrived. seq: its sequence number. Returns as apus_ctl_graph_add_endpoint(), and
 *  APUS_EPERM (not the sender's own endpoint). */
int apus_ctl_discovery_on_endpoint(struct apus_ctl_discovery *discovery,
				   const struct apus_wire_endpoint_record *record,
				   const struct apus_prefix *source, apus_seq seq,
				   struct apus_mono now);
/** The same for a record that may be another participant's, passed on by a Discovery Server. generation: its number
 *  among those of its own participant; 0: not known. */
int apus_ctl_discovery_on_relayed_endpoint(struct apus_ctl_discovery *discovery,
					   const struct apus_wire_endpoint_record *record,
					   const struct apus_prefix *source, apus_seq seq,
					   apus_seq generation, struct apus_mono now);
/** An SEDP dispose arrived. Returns 0, APUS_EPERM, APUS_ENOENT. */
int apus_ctl_discovery_on_endpoint_gone(struct apus_ctl_discovery *discovery,
					const struct apus_guid *gone,
					const struct apus_prefix *source, struct apus_mono now);
/** Reliable built-in traffic addressed to us (SEDP data, HEARTBEAT, ACKNACK, liveliness) came from this
 *  participant: it knows us and is alive. bytes: to be credited to it. proved: it answered what only its
 *  address was sent. Cheap; unknown prefixes are ignored. */
void apus_ctl_discovery_on_evidence(struct apus_ctl_discovery *discovery,
				    const struct apus_prefix *source, uint32_t bytes, bool proved,
				    struct apus_mono now);
/** Whether this participant is one of our Discovery Servers and has proved itself. */
bool apus_ctl_discovery_trusts(struct apus_ctl_discovery *discovery,
			       const struct apus_prefix *source);
/** Whether what comes from this address may be of that participant: a Discovery Server speaks from its own host
 *  only. If not, it is counted. */
bool apus_ctl_discovery_may_hear(struct apus_ctl_discovery *discovery,
				 const struct apus_prefix *source, const struct apus_dp_addr *from);
/** A built-in writer of this participant says that it has written less than was received of it. A Discovery Server
 *  that says so twice has started anew; it does not say more, because it is told that its announcement was
 *  received: it is met afresh. Others are not concerned. */
void apus_ctl_discovery_on_regress(struct apus_ctl_discovery *discovery,
				   const struct apus_prefix *source, struct apus_mono now);
/** How often relayed participants are to be sent something that they answer; 0: there are none. */
int64_t apus_ctl_discovery_probe_ns(const struct apus_ctl_discovery *discovery);
/** Whether a datagram of `bytes` may leave for a participant; if so, it is booked. False also for a
 *  participant that is not known (any more). */
bool apus_ctl_discovery_may_send(struct apus_ctl_discovery *discovery,
				 const struct apus_prefix *dest, uint32_t bytes);

/* ---- our own ---- */

/** Replaces our own announcement (locators changed) and announces it soon. Returns 0 or APUS_ELIMIT. */
int apus_ctl_discovery_set_self(struct apus_ctl_discovery *discovery,
				const struct apus_wire_participant_record *self,
				struct apus_mono now);
/** Replaces what can be reached (interfaces changed). Participants that are now reached at another of their
 *  addresses have to prove themselves there. */
void apus_ctl_discovery_set_policy(struct apus_ctl_discovery *discovery,
				   const struct apus_ctl_locator_policy *policy);

/**
 * Adds an endpoint of ours: admits it to the graph, then writes its SEDP record.
 * record: apus_wire_endpoint_record_make() plus locators. Returns 0, or as apus_ctl_graph_add_endpoint()
 * (APUS_EEXIST for a known GUID), or what ops.write returned; on failure the endpoint is not known.
 */
int apus_ctl_discovery_add_local(struct apus_ctl_discovery *discovery,
				 const struct apus_wire_endpoint_record *record,
				 const struct apus_ctl_local *local,
				 struct apus_ctl_endpoint **endpoint_out);
/** Replaces the record of an endpoint of ours (filter, partitions, strength changed): re-encodes, writes,
 *  re-matches. generation: of its filter, greater than the last. Returns 0, APUS_ENOENT, APUS_EINVAL
 *  (generation), as apus_ctl_graph_add_endpoint(); or what ops.write returned: then the record is in
 *  force here but not announced, and the call may be repeated with a greater generation. */
int apus_ctl_discovery_change_local(struct apus_ctl_discovery *discovery,
				    const struct apus_wire_endpoint_record *record,
				    apus_seq generation);
/** Removes an endpoint of ours and announces its end. Returns 0, APUS_ENOENT, or what ops.write returned:
 *  then it is removed, but others learn of it with our lease only. */
int apus_ctl_discovery_remove_local(struct apus_ctl_discovery *discovery,
				    const struct apus_guid *guid);

/** True once the participant has proved that it receives at its address. */
bool apus_ctl_discovery_proved(const struct apus_ctl_discovery *discovery,
			       const struct apus_ctl_participant *participant);
const struct apus_ctl_discovery_counters *
apus_ctl_discovery_counters(const struct apus_ctl_discovery *discovery);

#endif
