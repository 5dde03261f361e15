/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target for ip/.
 *
 * The input is a list of steps for one engine with both families: frames (2 bytes of length, then the bytes, in an
 * allocation of exactly that length), time that passes, datagrams to send, groups to join and leave. With a bit of the
 * first byte checksums are taken for good, so that mutations get past them. Whatever comes out must be in bounds:
 * datagrams inside the frame or a buffer, frames not above the MTU, and the engine comes to rest.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ip/ip.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

struct input {
	const uint8_t *bytes;
	size_t count;
};

static volatile uint8_t sink;
static uint32_t rx_flags;
static uint64_t frames_sent;

static void require(bool condition)
{
	if (!condition)
		abort();
}

static uint32_t take(struct input *in)
{
	if (!in->count)
		return 0;
	in->count--;
	return *in->bytes++;
}

static uint32_t take16(struct input *in)
{
	uint32_t high = take(in);

	return high << 8 | take(in);
}

static void touch(const uint8_t *p, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		sink ^= p[i];
}

static void check_datagram(struct apus_ip *ip, const uint8_t *frame, uint32_t frame_bytes,
			   const struct apus_ip_datagram *d, struct apus_mono now, bool refused)
{
	require(d->payload_bytes <= 65535);
	if (d->buffer_idx < 0) {
		require(d->payload >= frame + 14);
		require(d->payload + d->payload_bytes <= frame + frame_bytes);
	}
	touch(d->payload, d->payload_bytes);
	touch(d->packet, d->packet_header_bytes);
	require(d->from.family == d->to.family && d->to.port);
	if (refused)
		apus_ip_unreachable(ip, d, now);
	apus_ip_release(ip, d->buffer_idx);
}

static void input_frame(struct apus_ip *ip, struct input *in, struct apus_mono now, bool refused)
{
	uint32_t length = take16(in);
	struct apus_ip_datagram d;

	length = length < in->count ? length : (uint32_t)in->count;
	uint8_t *frame = malloc(length ? length : 1);

	require(frame != NULL);
	memcpy(frame, in->bytes, length);
	in->bytes += length;
	in->count -= length;
	sink ^= (uint8_t)apus_ip_peek_port(frame, length);
	if (apus_ip_input(ip, frame, length, rx_flags, now, &d) == APUS_IP_UDP)
		check_datagram(ip, frame, length, &d, now, refused);
	free(frame);
}

static void send_frames(struct apus_ip *ip, struct apus_ip_send *send)
{
	uint8_t header[APUS_IP_HEADER_MAX_BYTES];
	struct apus_ip_frame f;
	uint32_t next = 0;

	while (apus_ip_send_next(ip, send, header, &f)) {
		require(f.payload_offset == next);
		next += f.payload_bytes;
		require(f.header_bytes + f.payload_bytes <= 1280 + f.link_bytes);
		touch(header, f.header_bytes);
		frames_sent++;
	}
	require(next == send->payload_bytes);
}

static void send_some(struct apus_ip *ip, struct input *in, struct apus_mono now)
{
	static uint8_t payload[APUS_IP_PAYLOAD_MAX_BYTES];
	struct apus_ip_endpoint to = {.port = 7400};
	uint32_t bytes = take16(in);
	struct iovec parts[2] = {{payload, bytes / 3}, {payload, bytes - bytes / 3}};
	struct apus_ip_send send;

	to.family = bytes & 1 ? AF_INET : AF_INET6;
	for (int i = 0; i < 16; i++)
		to.ip[i] = (uint8_t)take(in);
	if (apus_ip_send_begin(ip, &to, 7400, parts, 2, now, &send) == 0)
		send_frames(ip, &send);
}

static void change_group(struct apus_ip *ip, struct input *in, struct apus_mono now)
{
	struct apus_ip_endpoint group = {.family = AF_INET, .ip = {[12] = 239, 255, 0}};
	uint32_t which = take(in);

	group.ip[15] = which & 0x1f;
	if (which & 0x20) {
		group = (struct apus_ip_endpoint){.family = AF_INET6, .ip = {0xff, 0x02}};
		group.ip[15] = which & 0x1f;
	}
	if (which & 0x80)
		apus_ip_leave(ip, &group, now);
	else
		apus_ip_join(ip, &group, now);
}

static void drain(struct apus_ip *ip, struct apus_mono now)
{
	struct apus_ip_send send;
	const uint8_t *frame;
	uint32_t bytes;

	while ((frame = apus_ip_next_control(ip, &bytes)) != NULL) {
		require(bytes >= 60 && bytes <= 1280 + 18);
		touch(frame, bytes);
		frames_sent++;
	}
	while (apus_ip_next_parked(ip, now, &send))
		send_frames(ip, &send);
}

static struct apus_ip *make(uint32_t options)
{
	struct apus_ip_config c;
	struct apus_ip *ip = NULL;

	apus_ip_config_default(&c);
	memcpy(c.mac, "\2\0\0\0\0\1", 6);
	memcpy(c.ipv4, "\x0a\0\0\1", 4);
	memcpy(c.ipv4_gateway, "\x0a\0\0\xfe", 4);
	c.ipv4_prefix_bits = 24;
	c.ipv6 = true;
	memcpy(c.ipv6_global, "\x20\1\xd\xb8\0\0\0\0\0\0\0\0\0\0\0\1", 16);
	c.ipv6_prefix_bits = 64;
	c.mtu_bytes = 1280;
	c.detect_duplicates = options & 2;
	c.vlan_id = options & 4 ? 42 : 0;
	c.accept_partial_checksums = options & 8;
	c.neighbour_count = 8;
	c.group_count = 4;
	c.reassembly_count = 3;
	c.reassembly_per_source_count = 2;
	c.fragment_min_bytes = 8;
	c.control_count = 8;
	c.parked_count = 4;
	c.parked_bytes = 64;
	c.parked_per_neighbour_count = 2;
	require(apus_ip_create(&c, NULL, 0, &ip) == 0);
	return ip;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	struct input in = {bytes, count};
	uint32_t options = take(&in);
	struct apus_mono now = {APUS_NS_PER_SEC};
	struct apus_ip *ip = make(options);

	rx_flags = options & 1 ? APUS_IP_RX_IP_CHECKSUM_GOOD | APUS_IP_RX_UDP_CHECKSUM_GOOD : 0;
	apus_ip_tick(ip, now);
	while (in.count) {
		uint32_t step = take(&in);

		switch (step & 7) {
		case 0: now.ns += (int64_t)take16(&in) * APUS_NS_PER_MS; break;
		case 1: send_some(ip, &in, now); break;
		case 2: change_group(ip, &in, now); break;
		default: input_frame(ip, &in, now, step & 0x80); break;
		}
		if (step & 0x40)
			drain(ip, now);
		apus_ip_tick(ip, now);
		require(apus_ip_due(ip).ns > now.ns);
	}
	/* Left alone it comes to rest: neighbours forgotten, groups told. */
	for (int i = 0; i < 2000 && apus_ip_due(ip).ns != INT64_MAX; i++) {
		require(apus_ip_due(ip).ns > now.ns);
		now = apus_ip_due(ip);
		apus_ip_tick(ip, now);
		drain(ip, now);
	}
	require(apus_ip_due(ip).ns == INT64_MAX);
	apus_ip_destroy(ip);
	return 0;
}
