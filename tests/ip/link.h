/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link of IP engines for tests: what one sends, the others get at once; every frame is kept for inspection. Time is
 * a field. And helpers that build frames by hand, independent of the code under test.
 */
#ifndef APUS_TESTS_IP_LINK_H
#define APUS_TESTS_IP_LINK_H

#include "ip/ip.h"

#define LINK_HOST_MAX  4
#define LINK_FRAME_MAX 512
#define LINK_RX_MAX    128

struct link_frame {
	uint8_t host;
	uint32_t bytes;
	uint8_t data[9300];
};

struct link_rx {
	uint8_t host;
	bool multicast;
	uint32_t bytes;
	struct apus_ip_endpoint from, to;
	uint8_t data[APUS_IP_PAYLOAD_MAX_BYTES];
};

struct link {
	struct apus_ip *host[LINK_HOST_MAX];
	uint32_t host_count;
	struct apus_mono now;
	struct link_frame *frames; /* all that were sent, the last LINK_FRAME_MAX */
	uint32_t frame_count;
	struct link_rx *rx; /* datagrams received */
	uint32_t rx_count;
	bool cut;          /* frames are kept, but not delivered */
	bool refuse_ports; /* nobody listens: answered by port unreachable */
};

/** Defaults with MAC 02:00:00:00:00:N and 10.0.0.N/24. */
struct apus_ip_config link_config(uint8_t n);
/** The same with IPv6, and 2001:db8::N/64. */
struct apus_ip_config link_config6(uint8_t n);
void link_init(struct link *l);
void link_fini(struct link *l);
/** Adds a host; returns its index. Fails the test if it cannot be made. */
uint32_t link_add(struct link *l, const struct apus_ip_config *config);
/** Sends, delivers, and lets everybody answer. Returns what apus_ip_send_begin() did. */
int link_send(struct link *l, uint32_t host, struct apus_ip_endpoint to, const void *payload,
	      uint32_t payload_bytes);
/** Delivers a frame to one host and lets everybody answer. */
enum apus_ip_verdict link_input(struct link *l, uint32_t host, const uint8_t *frame,
				uint32_t frame_bytes);
/** Lets time pass in steps of 10 ms with everybody's tick. */
void link_run(struct link *l, int64_t duration_ns);
/** Moves all frames that wait. */
void link_pump(struct link *l);

struct apus_ip_endpoint link_v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d, uint16_t port);
/** 2001:db8::N */
struct apus_ip_endpoint link_v6(uint8_t n, uint16_t port);

/** Hexadecimal text, blanks ignored, to bytes; returns how many. */
uint32_t link_hex(const char *text, uint8_t *bytes_out);
/** The checksum of RFC 1071, the plain way: big-endian words. */
uint16_t link_checksum(uint32_t sum, const uint8_t *bytes, uint32_t count);
/** A frame of UDP over IPv4 from 02:…:FROM 10.0.0.FROM to 02:…:TO 10.0.0.TO, all checksums right; returns its length. */
uint32_t link_udp4(uint8_t from, uint8_t to, uint16_t from_port, uint16_t to_port,
		   const void *payload, uint32_t payload_bytes, uint8_t *frame_out);
/** Makes the checksums of an IPv4 frame right again: of the header, and of UDP in whole datagrams. */
void link_reseal4(uint8_t *frame);

#endif
