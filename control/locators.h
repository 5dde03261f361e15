/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From announced locators to the one address a match uses.
 *
 * One procedure selects, for every purpose: it filters, sorts by (learned before configured, priority,
 * address, port) and drops duplicates, so that two machines of one configuration decide alike. Priority
 * is nearness: an address this host has, then those that share the longest prefix with an interface. What
 * is configured to be denied is never used, neither learned nor configured nor announced; deny wins over
 * allow, and an empty allow list allows everything.
 *
 * Pure; any thread.
 */
#ifndef APUS_CONTROL_LOCATORS_H
#define APUS_CONTROL_LOCATORS_H

#include "dataplane/snapshot.h"
#include "wire/record.h"

/** Own addresses a policy considers. */
#define APUS_CTL_OWN_MAX 16
/** Most candidates of one selection. */
#define APUS_CTL_CANDIDATES_MAX 64

/** Most prefixes of one list. */
#define APUS_CTL_PREFIXES_MAX 32

/** Addresses that share their first bits. */
struct apus_ctl_address_prefix {
	struct apus_dp_addr addr; /**< port 0 */
	uint8_t bits;             /**< of the address of its family: 0…32 or 0…128 */
};

/** A list of prefixes. */
struct apus_ctl_address_list {
	uint32_t count;
	struct apus_ctl_address_prefix at[APUS_CTL_PREFIXES_MAX];
};

/** What this participant can and may reach. */
struct apus_ctl_locator_policy {
	/** Addresses of the interfaces in use (port 0), loopback too if used. */
	struct apus_dp_addr own[APUS_CTL_OWN_MAX];
	uint32_t own_count;
	bool loopback_only; /**< every interface in use is loopback: nothing else is reachable */
	bool multicast;     /**< samples may go to multicast addresses */
	bool no_loopback;   /**< loopback addresses are not used */
	bool wildcard;      /**< 0.0.0.0 and :: stand for where the announcement came from */
	struct apus_ctl_address_list allow, deny;
};

/** What is known of the participant whose addresses are weighed. */
struct apus_ctl_locator_side {
	bool same_host; /**< loopback addresses are meaningful */
	/** NULL, or the address at which the participant has proved itself: others than those of that host
	 *  are passed over. */
	const struct apus_dp_addr *proof;
	const struct apus_dp_addr *from; /**< where it announced itself; NULL: unknown */
};

/** One address that might be used. */
struct apus_ctl_candidate {
	struct apus_dp_addr addr;
	bool fallback; /**< from configuration, not learned from the peer */
};

/**
 * Selects and orders candidates in place; returns how many remain, best first.
 * same_host: loopback addresses are meaningful. count ≤ APUS_CTL_CANDIDATES_MAX, those beyond are dropped.
 */
uint32_t apus_ctl_locators_select(const struct apus_ctl_locator_policy *policy, bool same_host,
				  struct apus_ctl_candidate *candidates, uint32_t count);

/**
 * Parses "10.1.0.0/16", "fd00::/8" or an address, which is a prefix of all its bits. Bits behind the prefix
 * must be zero. Returns 0 or APUS_EINVAL.
 */
int apus_ctl_address_prefix_parse(const char *text, struct apus_ctl_address_prefix *prefix_out);

/** Whether the lists and switches of a policy let an address be used or announced at all. */
bool apus_ctl_locators_allowed(const struct apus_ctl_locator_policy *policy,
			       const struct apus_dp_addr *addr);

/** Why an address was chosen, or that none was; for people. */
enum apus_ctl_locator_reason {
	APUS_CTL_REASON_NONE = 0,    /**< it announces no address that could be used */
	APUS_CTL_REASON_UNPROVED,    /**< it has not answered at any of them yet */
	APUS_CTL_REASON_ENDPOINT,    /**< the nearest of the endpoint's own */
	APUS_CTL_REASON_PARTICIPANT, /**< the nearest of the participant's default ones */
};

/**
 * Chooses the unicast address of an endpoint: the best of its own locators, else the best of its
 * participant's. False (output cleared, family 0) if none can be used. Locators of other kinds than UDP
 * are passed over. reason_out may be NULL.
 */
bool apus_ctl_locators_unicast(const struct apus_ctl_locator_policy *policy,
			       const struct apus_ctl_locator_side *side,
			       const struct apus_wire_locators *own,
			       const struct apus_wire_locators *participant,
			       struct apus_dp_addr *addr_out,
			       enum apus_ctl_locator_reason *reason_out);

/** Likewise the multicast address; false if there is none or the policy is against multicast. */
bool apus_ctl_locators_multicast(const struct apus_ctl_locator_policy *policy,
				 const struct apus_wire_locators *own,
				 const struct apus_wire_locators *participant,
				 struct apus_dp_addr *addr_out);

/** True if a datagram from this address was sent by this host (loopback, or one of our addresses). */
bool apus_ctl_locators_same_host(const struct apus_ctl_locator_policy *policy,
				 const struct apus_dp_addr *from);

/**
 * Expands an initial peer into the metatraffic addresses to announce to: the given port, or with port 0
 * the ports of participants 0 … max_index of the domain (RTPS 2.5 §9.6.2.3). Returns the number written.
 */
uint32_t apus_ctl_peer_expand(const struct apus_dp_addr *host, uint16_t port, uint32_t domain,
			      uint32_t max_index, struct apus_dp_addr *addrs_out,
			      uint32_t capacity);

/** Writes "udp4://127.0.0.1:7411", or "kind 16" for kinds we do not use; cut to text_bytes. */
void apus_ctl_locator_text(const struct apus_locator *locator, char *text_out, size_t text_bytes);

#endif
