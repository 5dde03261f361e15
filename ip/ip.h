/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small IP host for interfaces the kernel does not serve: Ethernet frames in, UDP datagrams out, and
 * back. One engine is one interface with its addresses. It answers ARP, neighbour discovery and echo
 * requests, reports its multicast groups, reassembles and fragments.
 *
 * Pure code: no I/O, no clock (time is an argument), no lock, nothing allocated after apus_ip_create().
 * Its caller moves frames: it hands in what arrived, and asks for what is to leave:
 *
 *     apus_ip_input()          a frame arrived: a datagram, something for the engine itself, or nothing
 *     apus_ip_send_begin()     a datagram shall leave: apus_ip_send_next() gives its frames
 *     apus_ip_next_control()   frames of the engine's own: ask after input and tick until it has none
 *     apus_ip_next_parked()    datagrams whose neighbour has answered meanwhile: likewise
 *     apus_ip_tick()           when apus_ip_due() has come
 *
 * Invariants
 * - Every byte of a frame is hostile: each length is proved against what is there. Whatever arrives, cost
 *   is linear in the frame and in the declared capacities, and memory is what creation took.
 * - A frame that is dropped raises exactly one counter of the group `drop`.
 * - Nobody is believed unasked: only an answer to a question of ours changes the MAC of a neighbour.
 *
 * Thread rule: the caller serialises all calls on one engine; only apus_ip_release() and the reading of
 * counters may happen beside them, on any thread.
 */
#ifndef APUS_IP_IP_H
#define APUS_IP_IP_H

#include "base/atomics.h"
#include "base/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

/** Room that apus_ip_send_next() wants for the headers of one frame. */
#define APUS_IP_HEADER_MAX_BYTES 80
/** Longest frame apus_ip_next_control() gives. */
#define APUS_IP_CONTROL_MAX_BYTES 1536
/** Largest payload of a datagram: 65,535 less the headers of IPv4 and UDP; IPv6 could carry 20 more. */
#define APUS_IP_PAYLOAD_MAX_BYTES 65507
/** What a frame has beside its IP packet, without a VLAN tag. */
#define APUS_IP_LINK_BYTES 14
/** Most parts of a payload that is gathered. */
#define APUS_IP_PART_MAX 16

/* --- Addresses ------------------------------------------------------------------------------------ */

/** An address with a port. No padding: compare with apus_ip_endpoint_equal(). */
struct apus_ip_endpoint {
	uint16_t family; /* AF_INET or AF_INET6; 0 = none */
	uint16_t port;   /* host order */
	uint8_t ip[16];  /* IPv4 in bytes 12…15, the others 0 */
};

static inline bool apus_ip_endpoint_equal(const struct apus_ip_endpoint *a,
					  const struct apus_ip_endpoint *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/** The endpoint of IPv4 `a.b.c.d:port`. */
static inline struct apus_ip_endpoint apus_ip_endpoint_v4(const uint8_t ipv4[4], uint16_t port)
{
	struct apus_ip_endpoint e = {.family = AF_INET, .port = port};

	memcpy(e.ip + 12, ipv4, 4);
	return e;
}

/** The endpoint of an IPv6 address and a port. */
static inline struct apus_ip_endpoint apus_ip_endpoint_v6(const uint8_t ipv6[16], uint16_t port)
{
	struct apus_ip_endpoint e = {.family = AF_INET6, .port = port};

	memcpy(e.ip, ipv6, 16);
	return e;
}

/** Whether the address is of 224.0.0.0/4 or ff00::/8. */
static inline bool apus_ip_is_multicast(const struct apus_ip_endpoint *e)
{
	return e->family == AF_INET ? (e->ip[12] & 0xf0) == 0xe0
				    : e->family == AF_INET6 && e->ip[0] == 0xff;
}

/** The MAC address a multicast group is sent to (RFC 1112 §6.4, RFC 2464 §7). */
static inline void apus_ip_group_mac(const struct apus_ip_endpoint *group, uint8_t mac_out[6])
{
	static const uint8_t v4[3] = {0x01, 0x00, 0x5e};

	if (group->family == AF_INET) {
		memcpy(mac_out, v4, 3);
		mac_out[3] = group->ip[13] & 0x7f;
		mac_out[4] = group->ip[14];
		mac_out[5] = group->ip[15];
	} else {
		mac_out[0] = mac_out[1] = 0x33;
		memcpy(mac_out + 2, group->ip + 12, 4);
	}
}

/* --- Configuration -------------------------------------------------------------------------------- */

/** Who writes the UDP checksum of what is sent. */
enum apus_ip_udp_checksum {
	APUS_IP_UDP_SOFTWARE = 0, /* the engine */
	APUS_IP_UDP_HARDWARE =
		1, /* the port, where frames are whole: the engine leaves the pseudo-header's
				     sum; fragments are summed by the engine */
	APUS_IP_UDP_NONE = 2, /* nobody, over IPv4 (RFC 768 allows 0); over IPv6 the engine */
};

/** How to make an engine. Start from apus_ip_config_default(). */
struct apus_ip_config {
	uint8_t mac[6]; /* unicast, not 0 */
	/* IPv4: 0.0.0.0 = none. The prefix has 1…32 bits; a gateway of 0.0.0.0 = none. */
	uint8_t ipv4[4];
	uint8_t ipv4_prefix_bits;
	uint8_t ipv4_gateway[4];
	/* IPv6: off, or a link-local address made of the MAC (RFC 4291 §2.5.1) and, if it is not ::, a
	 * global one, of a prefix of 1…128 bits; a gateway of :: = none. */
	bool ipv6;
	uint8_t ipv6_global[16];
	uint8_t ipv6_prefix_bits;
	uint8_t ipv6_gateway[16];
	bool detect_duplicates; /* wait a second for objections before IPv6 is used (RFC 4862 §5.4); off */
	bool announce;    /* gratuitous ARP and unsolicited advertisements at the first tick; on */
	uint16_t vlan_id; /* 1…4094: frames have this tag; 0: untagged */
	uint8_t vlan_priority; /* 0…7 of what is sent; only with a VLAN */
	uint32_t mtu_bytes;    /* of IP packets, 576…9216, with IPv6 1280…; default 1500 */
	uint8_t ttl;           /* of unicast, 1…; default 64 */
	uint8_t multicast_ttl; /* 1…: 1 stays on the link; default 1 */
	/* Accept UDP whose checksum field holds exactly the pseudo-header's sum: what a kernel on the same
	 * host leaves for hardware that a veth pair does not have. The payload is then not verified. Off. */
	bool accept_partial_checksums;
	enum apus_ip_udp_checksum udp_checksum;
	bool ipv4_checksum_hardware; /* the port fills in the IPv4 header's checksum too */
	/* Capacities, and what one of each costs. */
	uint32_t neighbour_count;  /* 4…65536; default 256; 56 B */
	uint32_t group_count;      /* 1…128 a family; default 32; 80 B */
	uint32_t reassembly_count; /* datagrams in pieces, 1…256; default 32; 65 KiB when used */
	uint32_t reassembly_per_source_count; /* of them from one address, 1…; default 8 */
	int64_t reassembly_timeout_ns;        /* 1 ms … 60 s after the first piece; default 2 s */
	uint32_t
		fragment_min_bytes; /* payload of all fragments but the last, 8…1280; default 256 */
	uint32_t control_count;     /* frames of the engine's own, 8…4096; default 64; 1.5 KiB */
	uint32_t parked_count;      /* datagrams that wait for a neighbour, 0…4096; default 16 */
	uint32_t parked_bytes;      /* longest payload parked, 64…65507; default 2048 */
	uint32_t parked_per_neighbour_count; /* 1…; default 4 */
	/* Rates a second, each 1…1000000, with bursts of a tenth of a second. */
	uint32_t echo_rate;            /* answers to echo requests; default 100 */
	uint32_t unreachable_rate;     /* port unreachable; default 10 */
	uint32_t neighbour_reply_rate; /* answers to ARP requests and solicitations; default 1000 */
	/* Of hashes, jitter and packet identifications: random in operation, fixed in a test. */
	uint64_t seed;
};

struct apus_ip;

/** Fills `*config` with the defaults above; addresses are left 0. */
void apus_ip_config_default(struct apus_ip_config *config);

/**
 * Makes an engine.
 * why: gets a sentence on failure; may be NULL.
 * Returns 0, APUS_EINVAL (a field out of range, neither family, addresses that cannot be a host's),
 * APUS_ENOMEM. On failure `*ip_out` is untouched. Allocates all the engine ever has.
 */
int apus_ip_create(const struct apus_ip_config *config, char *why, size_t why_bytes,
		   struct apus_ip **ip_out);

/** Frees an engine; NULL is allowed. Payloads in its buffers become invalid. */
void apus_ip_destroy(struct apus_ip *ip);

/** Whether the address (not the port) is one of ours: nothing is ever sent there, the caller loops. */
bool apus_ip_is_own(const struct apus_ip *ip, const struct apus_ip_endpoint *address);

/** Our addresses, port 0, in the order to announce: IPv4, global IPv6, link-local. Returns how many, at most
 *  three. */
uint32_t apus_ip_addresses(const struct apus_ip *ip, struct apus_ip_endpoint addresses_out[3]);

/** Largest payload of an unfragmented datagram of that family: the MTU less headers. */
uint32_t apus_ip_payload_bytes(const struct apus_ip *ip, uint16_t family);

/* --- Receiving ------------------------------------------------------------------------------------ */

/** What the port has said of a frame, or-ed together. */
enum apus_ip_rx_flags {
	APUS_IP_RX_IP_CHECKSUM_GOOD = 1 << 16,
	APUS_IP_RX_UDP_CHECKSUM_GOOD = 1 << 17, /* not of fragments */
	APUS_IP_RX_VLAN_STRIPPED = 1 << 18, /* the low 16 bits are the tag's control information */
	APUS_IP_RX_REASSEMBLES =
		1 << 19, /* puts fragments together: IPv4 packets may exceed the MTU */
};

enum apus_ip_verdict {
	APUS_IP_UDP = 1,      /* a datagram for us: `*out` is filled in */
	APUS_IP_CONSUMED = 2, /* it was for the engine: a fragment kept, a question answered … */
	APUS_IP_DROPPED = 3,  /* bad or not ours; a counter says why */
};

/** A received datagram. Its bytes lie in the frame, or in the engine's reassembly buffer. */
struct apus_ip_datagram {
	const uint8_t
		*payload; /* in a buffer of the engine 8-byte aligned; in a frame wherever it is */
	uint32_t payload_bytes;
	int32_t buffer_idx; /* -1: in the frame; else to be given back by apus_ip_release() */
	bool multicast;     /* sent to a group or to everybody */
	struct apus_ip_endpoint from, to;
	/* For apus_ip_unreachable(): where the packet's header is, and whom it came from. */
	const uint8_t *packet;
	uint32_t packet_header_bytes;
	uint8_t source_mac[6];
};

/**
 * Takes in one frame of `frame_bytes` (any number; without the frame check sequence).
 * flags: of enum apus_ip_rx_flags. `*out` is written for APUS_IP_UDP only. The frame is not kept.
 */
enum apus_ip_verdict apus_ip_input(struct apus_ip *ip, const uint8_t *frame, uint32_t frame_bytes,
				   uint32_t flags, struct apus_mono now,
				   struct apus_ip_datagram *out);

/** Gives back the buffer of a reassembled datagram (buffer_idx of it, once); -1 is ignored. Any thread. */
void apus_ip_release(struct apus_ip *ip, int32_t buffer_idx);

/** Nobody listens at the datagram's port: answers by port unreachable, unless it was multicast or the rate is
 *  spent (RFC 1122 §3.2.2, RFC 4443 §2.4). While the frame, or the buffer, is still there. */
void apus_ip_unreachable(struct apus_ip *ip, const struct apus_ip_datagram *datagram,
			 struct apus_mono now);

/** The UDP destination port of a frame (host order), for steering before apus_ip_input(); 0 if there is none to
 *  read: not UDP, a fragment, options, IPv6 with extensions, too short. Proves nothing else. */
uint16_t apus_ip_peek_port(const uint8_t *frame, uint32_t frame_bytes);

/* --- Sending -------------------------------------------------------------------------------------- */

/** A datagram on its way out. The caller's memory; `parts` must stay until the last frame. */
struct apus_ip_send {
	const struct iovec *parts; /* the payload, of `payload_bytes` */
	uint32_t part_count;
	uint32_t payload_bytes;
	/* The rest is the engine's. */
	uint32_t done_bytes; /* of UDP header and payload */
	uint16_t udp_sum;
	uint16_t from_port;
	uint32_t packet_id;
	uint8_t mac[6];
	uint8_t stage;
	uint8_t source_idx;
	struct apus_ip_endpoint to;
};

/** What the port is to do to a frame. */
enum apus_ip_tx_flags {
	APUS_IP_TX_IPV4_CHECKSUM = 1,
	APUS_IP_TX_UDP_CHECKSUM = 2,
};

/** One frame: `header_bytes` of headers, then payload_bytes of the payload from payload_offset on. */
struct apus_ip_frame {
	uint32_t header_bytes;
	uint32_t payload_offset;
	uint32_t payload_bytes;
	uint8_t link_bytes;    /* Ethernet and tag */
	uint8_t network_bytes; /* IP with its extensions; UDP follows if payload_offset is 0 */
	uint8_t flags;         /* of enum apus_ip_tx_flags */
};

/**
 * Begins to send the datagram gathered from `parts` (at most APUS_IP_PART_MAX; together at most
 * APUS_IP_PAYLOAD_MAX_BYTES) from our port to an address.
 *
 * Returns 0: call apus_ip_send_next() until it is false. APUS_EAGAIN: the neighbour has been asked, the
 * payload was copied, apus_ip_next_parked() gives it later; nothing to do. Otherwise the datagram is
 * dropped and counted: APUS_ELIMIT (the neighbour is unknown or does not answer, and no place is left, or
 * it is longer than what is parked), APUS_ENODEV (no address of that family, or no route), APUS_EINVAL (a
 * port 0, our own address, no host or group, too long).
 */
int apus_ip_send_begin(struct apus_ip *ip, const struct apus_ip_endpoint *to, uint16_t from_port,
		       const struct iovec *parts, uint32_t part_count, struct apus_mono now,
		       struct apus_ip_send *send_out);

/** The next frame of a datagram: writes its headers to `header_out` (room for APUS_IP_HEADER_MAX_BYTES).
 *  False: there are no more. */
bool apus_ip_send_next(struct apus_ip *ip, struct apus_ip_send *send, uint8_t *header_out,
		       struct apus_ip_frame *frame_out);

/** Copies `bytes` from `offset` on of a gathered payload. They must be there. */
void apus_ip_gather(const struct iovec *parts, uint32_t part_count, uint32_t offset, uint32_t bytes,
		    uint8_t *bytes_out);

/** The next datagram whose neighbour has answered: to be sent as after apus_ip_send_begin(). Its parts are valid
 *  until the next call of this function. False: none. */
bool apus_ip_next_parked(struct apus_ip *ip, struct apus_mono now, struct apus_ip_send *send_out);

/** The next frame of the engine's own, complete; valid until the next call. NULL: none. */
const uint8_t *apus_ip_next_control(struct apus_ip *ip, uint32_t *frame_bytes_out);

/* --- Time ----------------------------------------------------------------------------------------- */

/** Does what time demands: questions repeated, reports sent, neighbours and fragments aged. Cheap before it is
 *  due. Returns the instant it is due next, INT64_MAX ns if never. */
struct apus_mono apus_ip_tick(struct apus_ip *ip, struct apus_mono now);

/**
 * Before the first apus_ip_tick(): asks the link whether somebody else has one of our addresses (RFC 5227 §2.1.1, RFC 4862
 * §5.4.2). Ask some three times; hand in what arrives meanwhile. Until the first tick nothing else is said: no
 * answer, no defence, no report.
 */
void apus_ip_probe(struct apus_ip *ip);

/** The MAC that has last claimed one of our addresses. False: nobody has. */
bool apus_ip_rival(const struct apus_ip *ip, uint8_t mac_out[6]);

/** When apus_ip_tick() is due; the past if it has not been called yet. Input and sending may advance it. */
struct apus_mono apus_ip_due(const struct apus_ip *ip);

/* --- Groups and neighbours ------------------------------------------------------------------------ */

/** Listens to a group (the port is ignored). Counts: as many apus_ip_leave() end it. Returns 0, APUS_EINVAL (no
 *  group), APUS_ENODEV (no address of that family), APUS_ELIMIT (config.group_count). */
int apus_ip_join(struct apus_ip *ip, const struct apus_ip_endpoint *group, struct apus_mono now);

/** Returns 0 or APUS_ENOENT. */
int apus_ip_leave(struct apus_ip *ip, const struct apus_ip_endpoint *group, struct apus_mono now);

/** Makes a neighbour known for good. Returns 0, APUS_EINVAL (no host's address, no unicast MAC, not on the link),
 *  APUS_ELIMIT. */
int apus_ip_neighbour_set(struct apus_ip *ip, const struct apus_ip_endpoint *address,
			  const uint8_t mac[6]);

/** The MAC of a neighbour. Returns 0, or APUS_ENOENT if it is not (or no longer) known. */
int apus_ip_neighbour_get(const struct apus_ip *ip, const struct apus_ip_endpoint *address,
			  uint8_t mac_out[6]);

/* --- Counters ------------------------------------------------------------------------------------- */

/** What is counted. Written by the engine's caller, read by anybody. */
enum apus_ip_count {
	APUS_IP_RX_UDP,         /* datagrams given out, reassembled ones included */
	APUS_IP_RX_ARP,         /* well-formed, of our link */
	APUS_IP_RX_ICMP,        /* ICMP and ICMPv6 for us */
	APUS_IP_RX_GROUP,       /* IGMP and MLD */
	APUS_IP_RX_ND,          /* solicitations and advertisements */
	APUS_IP_RX_FRAGMENT,    /* kept */
	APUS_IP_RX_REASSEMBLED, /* datagrams completed */
	APUS_IP_RX_PARTIAL,     /* datagrams with a partial checksum, accepted */
	APUS_IP_DROP_SHORT,     /* the frame ends inside a header or before its packet */
	APUS_IP_DROP_OVERSIZE,  /* longer than the MTU: a super-frame that nobody segmented */
	APUS_IP_DROP_LINK,      /* a source that is no unicast MAC */
	APUS_IP_DROP_OWN,       /* our own MAC or IP address as the source */
	APUS_IP_DROP_VLAN,      /* another VLAN, or none */
	APUS_IP_DROP_ETHERTYPE,
	APUS_IP_DROP_NOT_OURS, /* another host's, or a group nobody has joined */
	APUS_IP_DROP_HEADER,   /* an IP header that contradicts itself, IPv6 extensions refused */
	APUS_IP_DROP_IP_CHECKSUM,
	APUS_IP_DROP_SOURCE,   /* a source that cannot be a host */
	APUS_IP_DROP_PROTOCOL, /* neither UDP, ICMP nor group reports */
	APUS_IP_DROP_UDP_LENGTH,
	APUS_IP_DROP_UDP_CHECKSUM,
	APUS_IP_DROP_UDP_PORT,         /* port 0 */
	APUS_IP_DROP_ICMP,             /* malformed, or an echo to everybody */
	APUS_IP_DROP_GROUP,            /* IGMP or MLD malformed or from off the link */
	APUS_IP_DROP_ARP,              /* malformed, or of another network */
	APUS_IP_DROP_ND,               /* malformed or from off the link */
	APUS_IP_DROP_FRAGMENT,         /* out of place, tiny, or not UDP */
	APUS_IP_DROP_FRAGMENT_OVERLAP, /* overlaps, contradicts, or belongs to a datagram that did */
	APUS_IP_DROP_FRAGMENT_LONG,    /* would end above 65,535 bytes */
	APUS_IP_DROP_FRAGMENT_FULL,    /* every buffer is lent out */
	APUS_IP_REASSEMBLY_TIMEOUT,    /* datagrams never completed */
	APUS_IP_REASSEMBLY_EVICTED,    /* given up for a newer one, of the same source or of all */
	APUS_IP_NEIGHBOUR_UNSOLICITED, /* answers nobody had asked for, ignored */
	APUS_IP_NEIGHBOUR_REFUSED, /* a new MAC claimed unasked; the neighbour is asked instead */
	APUS_IP_NEIGHBOUR_CHANGED, /* a new MAC in answer to a question */
	APUS_IP_NEIGHBOUR_FAILED,  /* did not answer */
	APUS_IP_NEIGHBOUR_FULL,    /* not learned, or forgotten early: the table is full */
	APUS_IP_ADDRESS_CONFLICT,  /* somebody else has claimed our address */
	APUS_IP_RATE_LIMITED,      /* answers not given */
	APUS_IP_TX_UDP,            /* datagrams begun, parked ones when they leave */
	APUS_IP_TX_FRAGMENT,       /* frames that are fragments */
	APUS_IP_TX_PARKED,
	APUS_IP_TX_UNRESOLVED, /* dropped: the neighbour does not answer, or no place to park */
	APUS_IP_TX_NO_ROUTE,
	APUS_IP_TX_INVALID,
	APUS_IP_TX_CONTROL,      /* frames of the engine's own */
	APUS_IP_TX_CONTROL_FULL, /* not sent: the queue is full */
	APUS_IP_COUNT_MAX
};

/** The value of a counter. Any thread. */
uint64_t apus_ip_count_get(const struct apus_ip *ip, enum apus_ip_count counter);

/** Its name, as "drop.short": static storage; "" beyond the last. */
const char *apus_ip_count_name(enum apus_ip_count counter);

#endif
