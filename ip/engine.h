/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of an engine, shared by the files of this folder only.
 *
 * One allocation at creation, cut up into tables; every index is checked where it is made. Work for later
 * is an instant in its table's entry and apus_ip_schedule(); apus_ip_tick() visits all tables then, which
 * are small. Everything below is guarded by the caller's serialisation, except reassembly.lent.
 */
#ifndef APUS_IP_ENGINE_H
#define APUS_IP_ENGINE_H

#include "ip/bytes.h"
#include "ip/ip.h"

#define APUS_IP_ETHER_IPV4 0x0800
#define APUS_IP_ETHER_ARP  0x0806
#define APUS_IP_ETHER_VLAN 0x8100
#define APUS_IP_ETHER_IPV6 0x86dd

enum apus_ip_protocol {
	APUS_IP_PROTO_HOP = 0,
	APUS_IP_PROTO_ICMP = 1,
	APUS_IP_PROTO_IGMP = 2,
	APUS_IP_PROTO_UDP = 17,
	APUS_IP_PROTO_ROUTING = 43,
	APUS_IP_PROTO_FRAGMENT = 44,
	APUS_IP_PROTO_ICMP6 = 58,
	APUS_IP_PROTO_NONE = 59,
	APUS_IP_PROTO_OPTIONS = 60,
};

#define APUS_IP_IPV4_BYTES     20
#define APUS_IP_IPV6_BYTES     40
#define APUS_IP_UDP_BYTES      8
#define APUS_IP_FRAGMENT_BYTES 8

/** No entry. */
#define APUS_IP_NONE UINT32_MAX

/** A rate: the instant up to which answers are accounted for (generic cell rate algorithm). */
struct apus_ip_bucket {
	int64_t spent_ns;
	int64_t interval_ns;
	int64_t burst_ns;
};

/* --- Neighbours (neighbour.c) --------------------------------------------------------------------- */

/** An address as in endpoint.ip, in two registers: passed and returned by value, since loading at once what was stored
 *  in parts stalls. */
struct apus_ip_key {
	uint64_t word[2];
};

static inline struct apus_ip_key apus_ip_key_of(const uint8_t ip16[16])
{
	return (struct apus_ip_key){{apus_ip_load64(ip16), apus_ip_load64(ip16 + 8)}};
}

/** The unspecified address of either family is no neighbour's. */
static inline bool apus_ip_key_is_none(struct apus_ip_key key)
{
	return (key.word[0] | key.word[1]) == 0;
}

/** The key of an IPv4 address as apus_ip_load32() reads it. */
static inline struct apus_ip_key apus_ip_key4(uint32_t address)
{
	return (struct apus_ip_key){{0, htobe64(be32toh(address))}};
}

enum apus_ip_neighbour_state {
	APUS_IP_FREE = 0,
	APUS_IP_INCOMPLETE, /* asked, not answered yet */
	APUS_IP_REACHABLE,
	APUS_IP_PROBING, /* known, asked again to be sure */
	APUS_IP_FAILED,  /* did not answer: not asked again before due_ns */
	APUS_IP_STATIC,
};

struct apus_ip_neighbour {
	struct apus_ip_key key;
	int64_t due_ns;   /* of the next step of its state */
	int64_t asked_ns; /* when it was asked last; INT64_MIN: never */
	int64_t used_ns;  /* when something was sent to it last */
	uint32_t next;    /* in its bucket */
	uint16_t family;
	uint8_t mac[6];
	uint8_t state;
	uint8_t tries;
	bool learned; /* made by a question of its own, nothing sent to it yet */
	bool open;    /* an answer is awaited: it may change the MAC */
};

/** A datagram that waits for a neighbour. */
struct apus_ip_parked {
	uint64_t order; /* of parking; 0: the place is free */
	uint32_t neighbour_idx;
	uint32_t payload_bytes;
	uint16_t from_port;
	bool ready;
	struct apus_ip_endpoint to;
	struct iovec part;
};

/* --- Reassembly (reassembly.c) -------------------------------------------------------------------- */

#define APUS_IP_REASSEMBLY_MAX_BYTES 65536
/** Of a first fragment's header: IPv4 with options, or the fixed header of IPv6. */
#define APUS_IP_KEPT_HEADER_BYTES 64
/** A bit per 8 bytes. */
#define APUS_IP_UNIT_WORDS (APUS_IP_REASSEMBLY_MAX_BYTES / 8 / 64)

struct apus_ip_reassembly {
	uint64_t source[2], destination[2];
	uint32_t packet_id;
	uint16_t family;
	bool busy;
	bool dead;             /* overlapped: what is still to come is dropped too (RFC 5722 §4) */
	_Atomic uint32_t lent; /* 1: the caller has the buffer */
	int64_t expires_ns;
	uint64_t touched; /* order of the last piece among those of all: a burst has one time */
	uint32_t have_bytes;
	uint32_t total_bytes; /* 0: the last fragment has not come */
	uint32_t end_bytes;   /* where the highest fragment ends */
	uint32_t header_bytes;
	struct apus_ip_buffer *buffer;
};

/** What is touched only when a fragment has found its datagram. */
struct apus_ip_buffer {
	uint8_t bytes[APUS_IP_REASSEMBLY_MAX_BYTES];
	uint64_t units[APUS_IP_UNIT_WORDS]; /* which 8 bytes have come */
	uint8_t header[APUS_IP_KEPT_HEADER_BYTES];
	uint8_t source_mac[6];
};

/** A fragment as either family's header tells it. */
struct apus_ip_piece {
	uint16_t family;
	uint32_t packet_id;
	const uint8_t *source, *destination; /* endpoint.ip, 16 bytes each */
	const uint8_t *header;               /* of the packet: APUS_IP_KEPT_HEADER_BYTES at most */
	uint32_t header_bytes;
	const uint8_t *source_mac;
	const uint8_t *bytes;
	uint32_t byte_count;
	uint32_t offset;
	bool more;
};

/* --- Groups (group.c, igmp.c, mld.c) -------------------------------------------------------------- */

struct apus_ip_group {
	uint8_t ip[16]; /* endpoint.ip */
	uint32_t
		users; /* joins less leaves; 0 with change_left > 0: still to be reported as left */
	uint16_t family;     /* 0: free */
	uint8_t change_left; /* reports of the change still to be sent */
	uint8_t own;         /* of users, those that are our own addresses */
	int64_t change_ns;
	int64_t report_ns; /* answer to a query; INT64_MAX: none */
};

/** Record types of IGMPv3 and MLDv2 (RFC 3376 §4.2.12). */
enum apus_ip_record {
	APUS_IP_RECORD_IS_MEMBER = 2,  /* MODE_IS_EXCLUDE {} */
	APUS_IP_RECORD_HAS_LEFT = 3,   /* CHANGE_TO_INCLUDE_MODE {} */
	APUS_IP_RECORD_HAS_JOINED = 4, /* CHANGE_TO_EXCLUDE_MODE {} */
};

/** Groups in one report: 48 records of MLDv2 take 968 bytes. */
#define APUS_IP_REPORT_MAX 48

/** What is known of the querier, per family. */
struct apus_ip_querier {
	uint8_t version;   /* of reports: 3, 2 or 1 for IGMP; 2 or 1 for MLD */
	int64_t older_ns;  /* until when an older one is assumed */
	int64_t report_ns; /* answer to a general query; INT64_MAX: none */
};

/* --- The engine ----------------------------------------------------------------------------------- */

/** An address of IPv6 that is ours. */
struct apus_ip_own6 {
	uint8_t ip[16];
	bool usable;   /* may be sent from: neither tentative nor in conflict */
	bool conflict; /* somebody else had it first: ours no longer */
};

struct apus_ip {
	/* Read for each frame. */
	uint64_t mac;  /* as apus_ip_load_mac() reads it */
	uint32_t ipv4; /* as apus_ip_load32() reads it; 0: none */
	uint32_t ipv4_mask;
	uint32_t ipv4_broadcast;
	uint32_t link_bytes;   /* of what is sent: 14 or 18 */
	uint32_t group4_count; /* distinct, joined */
	uint32_t *group4;      /* as apus_ip_load32() reads them */
	uint32_t own6_count;
	struct apus_ip_own6 own6[2]; /* link-local, then global */
	struct apus_ip_config config;
	uint8_t link_head[18]; /* source MAC at 6, tag, type */
	uint64_t random;
	uint16_t packet_id4;
	uint32_t packet_id6;
	/* Neighbours. */
	struct apus_ip_neighbour *neighbours;
	uint32_t *buckets;
	uint64_t hash_secret[2];
	uint32_t bucket_mask;
	uint32_t neighbour_free; /* list through next */
	uint32_t learned_count;
	struct apus_ip_parked *parked;
	uint64_t parked_order;
	uint32_t parked_ready_count;
	uint32_t parked_lent; /* index, or APUS_IP_NONE */
	/* Reassembly, groups. */
	struct apus_ip_reassembly *reassembly;
	uint32_t reassembly_busy_count;
	uint64_t reassembly_touches;
	struct apus_ip_group
		*groups; /* config.group_count of each family, and room for solicited nodes */
	uint32_t group_room;
	struct apus_ip_querier querier4, querier6;
	/* Frames of our own: a ring. */
	uint8_t *control;
	uint16_t *control_bytes;
	uint32_t control_first, control_used;
	bool control_lent;
	struct apus_ip_bucket echo, unreachable, reply, defend;
	/* Time. */
	int64_t due_ns;
	bool started;
	bool probing; /* from apus_ip_probe() to the first tick: nothing but probes is sent */
	bool has_rival;
	uint8_t rival[6]; /* who claimed an address of ours last */
	uint8_t announce_left;
	int64_t announce_ns;
	int64_t tentative_ns; /* duplicate detection ends; INT64_MAX: not under way */
	struct apus_counter counters[APUS_IP_COUNT_MAX];
};

/** Which of our addresses of IPv6 that is, or APUS_IP_NONE. */
static inline uint32_t apus_ip_own6_find(const struct apus_ip *ip, const uint8_t address[16])
{
	for (uint32_t i = 0; i < ip->own6_count; i++)
		if (memcmp(address, ip->own6[i].ip, 16) == 0)
			return i;
	return APUS_IP_NONE;
}

static inline void apus_ip_count(struct apus_ip *ip, enum apus_ip_count counter)
{
	apus_counter_add(&ip->counters[counter], 1);
}

/** Somebody else claims an address of ours. */
static inline void apus_ip_count_conflict(struct apus_ip *ip, const uint8_t mac[6])
{
	apus_ip_count(ip, APUS_IP_ADDRESS_CONFLICT);
	ip->has_rival = true;
	memcpy(ip->rival, mac, 6);
}

static inline enum apus_ip_verdict apus_ip_drop(struct apus_ip *ip, enum apus_ip_count counter)
{
	apus_ip_count(ip, counter);
	return APUS_IP_DROPPED;
}

/** Sees to it that the tick runs at that instant. */
static inline void apus_ip_schedule(struct apus_ip *ip, int64_t at_ns)
{
	if (at_ns < ip->due_ns)
		ip->due_ns = at_ns;
}

/* engine.c */

/** The next pseudo-random number (xorshift; jitter and identifications, not secrets). */
uint64_t apus_ip_random(struct apus_ip *ip);
/** Whether one more answer is within the rate; counts the refusal. */
bool apus_ip_bucket_take(struct apus_ip *ip, struct apus_ip_bucket *bucket, struct apus_mono now);

/* control.c */

/** A place for a frame of our own with Ethernet header written: returns where the packet begins, NULL (counted) if
 *  the queue is full or `packet_bytes` do not fit. It is sent when returned; fill it in at once. */
uint8_t *apus_ip_control_frame(struct apus_ip *ip, const uint8_t mac[6], uint16_t type,
			       uint32_t packet_bytes);
/** The same with an IPv4 header: returns where what follows it begins. */
uint8_t *apus_ip_control_ipv4(struct apus_ip *ip, const uint8_t mac[6], const uint8_t to[4],
			      uint8_t protocol, uint8_t ttl, bool router_alert, uint32_t bytes);
/** The same with an IPv6 header from one of our addresses, or from :: if NULL. */
uint8_t *apus_ip_control_ipv6(struct apus_ip *ip, const uint8_t mac[6], const uint8_t *from,
			      const uint8_t to[16], uint8_t hops, bool router_alert,
			      uint32_t bytes);
/** Whether less than half of the queue is used: for answers that others can provoke. */
bool apus_ip_control_has_room(const struct apus_ip *ip);

/* neighbour.c */

/** The entry of an address, or APUS_IP_NONE. */
uint32_t apus_ip_neighbour_find(const struct apus_ip *ip, uint16_t family, struct apus_ip_key key);
/** The MAC for a next hop: the entry's index if it can be used; otherwise APUS_IP_NONE and the index of the entry
 *  that has been asked in `*waiting_out`, APUS_IP_NONE if it is hopeless. */
uint32_t apus_ip_neighbour_resolve(struct apus_ip *ip, uint16_t family, struct apus_ip_key hop,
				   struct apus_mono now, uint32_t *waiting_out);
/** An answer (`solicited`) or a claim unasked: address `ip16` has `mac`. */
void apus_ip_neighbour_claim(struct apus_ip *ip, uint16_t family, const uint8_t *ip16,
			     const uint8_t mac[6], bool answer, struct apus_mono now);
/** A question for us has come from there: learned if there is room. */
void apus_ip_neighbour_learn(struct apus_ip *ip, uint16_t family, const uint8_t *ip16,
			     const uint8_t mac[6], struct apus_mono now);
void apus_ip_neighbour_tick(struct apus_ip *ip, struct apus_mono now);
/** Keeps a datagram until the neighbour answers. False: no place for it. */
bool apus_ip_park(struct apus_ip *ip, uint32_t neighbour_idx, const struct apus_ip_endpoint *to,
		  uint16_t from_port, const struct iovec *parts, uint32_t part_count,
		  uint32_t payload_bytes);

/* output.c */

/** Where a packet to another host goes first: the host or a gateway. None: no route, or no host's address. */
struct apus_ip_key apus_ip_next_hop(const struct apus_ip *ip, const struct apus_ip_endpoint *to);

/* arp.c */
enum apus_ip_verdict apus_ip_arp_input(struct apus_ip *ip, const uint8_t *packet, uint32_t bytes,
				       const uint8_t *source_mac, struct apus_mono now);
/** Asks who has `target`; to one MAC or, if NULL, to all. */
void apus_ip_arp_ask(struct apus_ip *ip, const uint8_t target[4], const uint8_t *mac);
/** Tells everybody our address. */
void apus_ip_arp_announce(struct apus_ip *ip);
/** Asks who has our address, without an address of our own (RFC 5227 §2.1.1). */
void apus_ip_arp_probe(struct apus_ip *ip);

/* nd.c */
enum apus_ip_verdict apus_ip_nd_input(struct apus_ip *ip, const uint8_t *packet,
				      const uint8_t *message, uint32_t bytes,
				      const uint8_t *source_mac, struct apus_mono now);
void apus_ip_nd_ask(struct apus_ip *ip, const uint8_t target[16], const uint8_t *mac);
void apus_ip_nd_announce(struct apus_ip *ip, uint32_t own_idx);
/** Asks whether anybody has our address. */
void apus_ip_nd_probe(struct apus_ip *ip, uint32_t own_idx);

/* icmp.c */
enum apus_ip_verdict apus_ip_icmp_input(struct apus_ip *ip, const uint8_t *packet,
					const uint8_t *message, uint32_t bytes, bool unicast,
					const uint8_t *source_mac, struct apus_mono now);
enum apus_ip_verdict apus_ip_icmp6_input(struct apus_ip *ip, const uint8_t *packet,
					 const uint8_t *message, uint32_t bytes, bool alerted,
					 const uint8_t *source_mac, struct apus_mono now);
/** Writes checksum of an ICMPv6 message whose packet's fixed header is at `packet`. */
void apus_ip_icmp6_seal(const uint8_t *packet, uint8_t *message, uint32_t bytes);

/* group.c */
/** Whether a group is joined; also the groups of all hosts. */
bool apus_ip_group_has6(const struct apus_ip *ip, const uint8_t group[16]);
void apus_ip_group_tick(struct apus_ip *ip, struct apus_mono now);
/** A query has come: for one group, or all if NULL. */
void apus_ip_group_query(struct apus_ip *ip, uint16_t family, const uint8_t *ip16, int64_t max_ns,
			 struct apus_mono now);
/** The querier of a family has spoken in that version. */
void apus_ip_querier_heard(struct apus_ip *ip, struct apus_ip_querier *querier, uint8_t version,
			   uint8_t newest, struct apus_mono now);
/** Somebody else has reported the group: versions that suppress need not. */
void apus_ip_group_reported(struct apus_ip *ip, uint16_t family, const uint8_t *ip16);
/** Joins for good: the groups our own addresses take (RFC 4291 §2.7.1). */
void apus_ip_group_solicited(struct apus_ip *ip, uint32_t own_idx, struct apus_mono now);

/* igmp.c, mld.c */
enum apus_ip_verdict apus_ip_igmp_input(struct apus_ip *ip, const uint8_t *packet,
					const uint8_t *message, uint32_t bytes,
					struct apus_mono now);
/** Reports up to APUS_IP_REPORT_MAX groups at once, in the version the querier speaks. */
void apus_ip_igmp_report(struct apus_ip *ip, const struct apus_ip_group *const *groups,
			 uint32_t count, enum apus_ip_record type);
enum apus_ip_verdict apus_ip_mld_input(struct apus_ip *ip, const uint8_t *packet,
				       const uint8_t *message, uint32_t bytes, bool alerted,
				       struct apus_mono now);
void apus_ip_mld_report(struct apus_ip *ip, const struct apus_ip_group *const *groups,
			uint32_t count, enum apus_ip_record type);

/* input.c, input6.c */

/** Checks a datagram that is for us. `addresses`: source and destination as in the header, of `family`. Fills in
 *  all of `*out` but what is said of the packet and buffer. */
enum apus_ip_verdict apus_ip_udp_input(struct apus_ip *ip, const uint8_t *udp, uint32_t bytes,
				       uint16_t family, const uint8_t *addresses, bool good,
				       struct apus_ip_datagram *out);
/** Takes in a fragment of UDP, and what it completes. `addresses` as above. */
enum apus_ip_verdict apus_ip_piece_input(struct apus_ip *ip, const struct apus_ip_piece *piece,
					 const uint8_t *addresses, struct apus_mono now,
					 struct apus_ip_datagram *out);
enum apus_ip_verdict apus_ip_ipv6_input(struct apus_ip *ip, const uint8_t *packet, uint32_t bytes,
					uint32_t flags, bool to_all, const uint8_t *source_mac,
					struct apus_mono now, struct apus_ip_datagram *out);

/* reassembly.c */

/** Takes in a fragment. Returns CONSUMED, DROPPED, or APUS_IP_UDP with the entry that is complete. */
enum apus_ip_verdict apus_ip_reassembly_input(struct apus_ip *ip, const struct apus_ip_piece *piece,
					      struct apus_mono now, uint32_t *entry_out);
void apus_ip_reassembly_tick(struct apus_ip *ip, struct apus_mono now);

#endif
