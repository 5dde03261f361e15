/* SPDX-License-Identifier: Apache-2.0 */
/* See link.h. */
#include "tests/ip/link.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct apus_ip_config link_config(uint8_t n)
{
	struct apus_ip_config c;

	apus_ip_config_default(&c);
	c.mac[0] = 2;
	c.mac[5] = n;
	c.ipv4[0] = 10;
	c.ipv4[3] = n;
	c.ipv4_prefix_bits = 24;
	c.seed = n;
	return c;
}

struct apus_ip_config link_config6(uint8_t n)
{
	struct apus_ip_config c = link_config(n);
	struct apus_ip_endpoint e = link_v6(n, 0);

	c.ipv6 = true;
	memcpy(c.ipv6_global, e.ip, 16);
	c.ipv6_prefix_bits = 64;
	return c;
}

void link_init(struct link *l)
{
	memset(l, 0, sizeof(*l));
	l->now.ns = 1000 * APUS_NS_PER_SEC;
	l->frames = calloc(LINK_FRAME_MAX, sizeof(*l->frames));
	l->rx = calloc(LINK_RX_MAX, sizeof(*l->rx));
	assert_non_null(l->frames);
	assert_non_null(l->rx);
}

void link_fini(struct link *l)
{
	for (uint32_t i = 0; i < l->host_count; i++)
		apus_ip_destroy(l->host[i]);
	free(l->frames);
	free(l->rx);
}

uint32_t link_add(struct link *l, const struct apus_ip_config *config)
{
	char why[128] = "";

	assert_true(l->host_count < LINK_HOST_MAX);
	if (apus_ip_create(config, why, sizeof(why), &l->host[l->host_count]) != 0)
		fail_msg("%s", why);
	return l->host_count++;
}

static void keep_rx(struct link *l, uint32_t host, const struct apus_ip_datagram *d)
{
	struct link_rx *rx = &l->rx[l->rx_count++ % LINK_RX_MAX];

	rx->host = (uint8_t)host;
	rx->multicast = d->multicast;
	rx->bytes = d->payload_bytes;
	rx->from = d->from;
	rx->to = d->to;
	memcpy(rx->data, d->payload, d->payload_bytes);
}

/* An allocation of exactly the frame's length lets the sanitizer see a read beyond it. */
static enum apus_ip_verdict receive(struct link *l, uint32_t host, const uint8_t *frame,
				    uint32_t frame_bytes)
{
	struct apus_ip_datagram d;
	uint8_t *exact = malloc(frame_bytes ? frame_bytes : 1);
	enum apus_ip_verdict verdict;

	assert_non_null(exact);
	memcpy(exact, frame, frame_bytes);
	verdict = apus_ip_input(l->host[host], exact, frame_bytes, 0, l->now, &d);
	if (verdict == APUS_IP_UDP) {
		keep_rx(l, host, &d);
		if (l->refuse_ports)
			apus_ip_unreachable(l->host[host], &d, l->now);
		apus_ip_release(l->host[host], d.buffer_idx);
	}
	free(exact);
	return verdict;
}

static void transmit(struct link *l, uint32_t host, const uint8_t *frame, uint32_t frame_bytes)
{
	struct link_frame *kept = &l->frames[l->frame_count++ % LINK_FRAME_MAX];

	assert_true(frame_bytes <= sizeof(kept->data));
	kept->host = (uint8_t)host;
	kept->bytes = frame_bytes;
	memcpy(kept->data, frame, frame_bytes);
	if (l->cut)
		return;
	for (uint32_t i = 0; i < l->host_count; i++)
		if (i != host)
			receive(l, i, frame, frame_bytes);
}

static void transmit_all(struct link *l, uint32_t host, struct apus_ip_send *send)
{
	uint8_t header[APUS_IP_HEADER_MAX_BYTES], frame[9300];
	struct apus_ip_frame f;

	while (apus_ip_send_next(l->host[host], send, header, &f)) {
		assert_true(f.header_bytes <= sizeof(header));
		assert_true(f.header_bytes + f.payload_bytes <= sizeof(frame));
		memcpy(frame, header, f.header_bytes);
		apus_ip_gather(send->parts, send->part_count, f.payload_offset, f.payload_bytes,
			       frame + f.header_bytes);
		transmit(l, host, frame, f.header_bytes + f.payload_bytes);
	}
}

static bool pump_host(struct link *l, uint32_t host)
{
	struct apus_ip_send send;
	const uint8_t *frame;
	uint32_t bytes;
	bool any = false;

	while ((frame = apus_ip_next_control(l->host[host], &bytes)) != NULL) {
		transmit(l, host, frame, bytes);
		any = true;
	}
	while (apus_ip_next_parked(l->host[host], l->now, &send)) {
		transmit_all(l, host, &send);
		any = true;
	}
	return any;
}

void link_pump(struct link *l)
{
	bool any = true;

	while (any) {
		any = false;
		for (uint32_t i = 0; i < l->host_count; i++)
			any |= pump_host(l, i);
	}
}

int link_send(struct link *l, uint32_t host, struct apus_ip_endpoint to, const void *payload,
	      uint32_t payload_bytes)
{
	struct iovec part = {(void *)payload, payload_bytes};
	struct apus_ip_send send;
	int result = apus_ip_send_begin(l->host[host], &to, 7400, &part, 1, l->now, &send);

	if (result == 0)
		transmit_all(l, host, &send);
	link_pump(l);
	return result;
}

enum apus_ip_verdict link_input(struct link *l, uint32_t host, const uint8_t *frame,
				uint32_t frame_bytes)
{
	enum apus_ip_verdict verdict = receive(l, host, frame, frame_bytes);

	link_pump(l);
	return verdict;
}

void link_run(struct link *l, int64_t duration_ns)
{
	int64_t end_ns = l->now.ns + duration_ns;

	while (l->now.ns < end_ns) {
		for (uint32_t i = 0; i < l->host_count; i++)
			apus_ip_tick(l->host[i], l->now);
		link_pump(l);
		l->now.ns += 10 * APUS_NS_PER_MS;
	}
}

struct apus_ip_endpoint link_v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d, uint16_t port)
{
	const uint8_t address[4] = {a, b, c, d};

	return apus_ip_endpoint_v4(address, port);
}

struct apus_ip_endpoint link_v6(uint8_t n, uint16_t port)
{
	const uint8_t address[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = n};

	return apus_ip_endpoint_v6(address, port);
}

uint32_t link_hex(const char *text, uint8_t *bytes_out)
{
	uint32_t count = 0;
	char digits[3] = "";

	for (; *text; text++) {
		if (*text == ' ')
			continue;
		digits[0] = text[0];
		digits[1] = text[1];
		bytes_out[count++] = (uint8_t)strtoul(digits, NULL, 16);
		text++;
	}
	return count;
}

uint16_t link_checksum(uint32_t sum, const uint8_t *bytes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		sum += i % 2 ? bytes[i] : (uint32_t)bytes[i] << 8;
		sum = (sum & 0xffff) + (sum >> 16);
	}
	return (uint16_t)~sum;
}

static void put16(uint8_t *p, uint32_t value)
{
	p[0] = (uint8_t)(value >> 8);
	p[1] = (uint8_t)value;
}

void link_reseal4(uint8_t *frame)
{
	uint8_t *packet = frame + 14;
	uint32_t header_bytes = (packet[0] & 15u) * 4;
	uint8_t *udp = packet + header_bytes;
	uint32_t total = (uint32_t)packet[2] << 8 | packet[3];
	uint8_t pseudo[12] = {0};

	put16(packet + 10, 0);
	put16(packet + 10, link_checksum(0, packet, header_bytes));
	if (packet[9] != 17 || (packet[6] & 0x3f) || packet[7] || total < header_bytes + 8)
		return;
	memcpy(pseudo, packet + 12, 8);
	pseudo[9] = 17;
	put16(pseudo + 10, total - header_bytes);
	put16(udp + 6, 0);
	put16(udp + 6,
	      link_checksum((uint16_t)~link_checksum(0, pseudo, 12), udp, total - header_bytes));
}

uint32_t link_udp4(uint8_t from, uint8_t to, uint16_t from_port, uint16_t to_port,
		   const void *payload, uint32_t payload_bytes, uint8_t *frame_out)
{
	uint8_t *p = frame_out;

	memset(p, 0, 42);
	p[0] = p[6] = 2;
	p[5] = to;
	p[11] = from;
	p[12] = 8;
	p += 14;
	p[0] = 0x45;
	put16(p + 2, 28 + payload_bytes);
	p[8] = 64;
	p[9] = 17;
	p[12] = p[16] = 10;
	p[15] = from;
	p[19] = to;
	put16(p + 20, from_port);
	put16(p + 22, to_port);
	put16(p + 24, 8 + payload_bytes);
	memcpy(p + 28, payload, payload_bytes);
	link_reseal4(frame_out);
	return 42 + payload_bytes;
}
