/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the IP layer adds to a datagram where the kernel is not asked: taking a frame of UDP apart, writing the headers
 * of one, checksums, fragments, and frames that are not for us.
 */
#include "bench/micro/context.h"
#include "ip/ip.h"

#include <string.h>

static uint8_t payload[APUS_IP_PAYLOAD_MAX_BYTES];
static const struct apus_mono now = {1000 * APUS_NS_PER_SEC};

static struct apus_ip *make(uint8_t n, bool six)
{
	struct apus_ip_config c;
	struct apus_ip *ip = NULL;

	apus_ip_config_default(&c);
	memcpy(c.mac, (const uint8_t[]){2, 0, 0, 0, 0, n}, 6);
	memcpy(c.ipv4, (const uint8_t[]){10, 0, 0, n}, 4);
	c.ipv4_prefix_bits = 24;
	c.ipv6 = six;
	if (six) {
		memcpy(c.ipv6_global, (const uint8_t[16]){0x20, 1, [15] = n}, 16);
		c.ipv6_prefix_bits = 64;
	}
	return apus_ip_create(&c, NULL, 0, &ip) == 0 ? ip : NULL;
}

static struct apus_ip_endpoint address_of(uint8_t n, bool six)
{
	const uint8_t four[4] = {10, 0, 0, n}, sixteen[16] = {0x20, 1, [15] = n};

	return six ? apus_ip_endpoint_v6(sixteen, 7400) : apus_ip_endpoint_v4(four, 7400);
}

/* One engine that knows its neighbour. */
static struct apus_ip *make_sender(bool six)
{
	struct apus_ip *ip = make(1, six);
	struct apus_ip_endpoint to = address_of(2, six);
	const uint8_t mac[6] = {2, 0, 0, 0, 0, 2};

	if (!ip || apus_ip_neighbour_set(ip, &to, mac) != 0)
		return NULL;
	return ip;
}

/* The frames of one datagram. */
struct frames {
	uint32_t count;
	uint32_t bytes[64];
	uint8_t data[64][1536];
};

static struct frames frames;

static bool make_frames(struct bench_state *s, bool six, uint32_t payload_bytes)
{
	struct apus_ip *ip = make_sender(six);
	struct apus_ip_endpoint to = address_of(2, six);
	struct iovec part = {payload, payload_bytes};
	struct apus_ip_send send;
	struct apus_ip_frame f;

	frames.count = 0;
	if (!ip || apus_ip_send_begin(ip, &to, 7400, &part, 1, now, &send) != 0) {
		bench_skip(s, "no frame");
		return false;
	}
	while (frames.count < 64 && apus_ip_send_next(ip, &send, frames.data[frames.count], &f)) {
		memcpy(frames.data[frames.count] + f.header_bytes, payload + f.payload_offset,
		       f.payload_bytes);
		frames.bytes[frames.count++] = f.header_bytes + f.payload_bytes;
	}
	apus_ip_destroy(ip);
	return true;
}

static void input(struct bench_state *s, bool six, uint32_t payload_bytes, uint32_t flags)
{
	struct apus_ip *ip = make(2, six);
	struct apus_ip_datagram d;

	if (!ip || !make_frames(s, six, payload_bytes))
		return;
	while (bench_keep_running_batch(s, BATCH))
		for (int i = 0; i < BATCH; i++) {
			enum apus_ip_verdict v =
				apus_ip_input(ip, frames.data[0], frames.bytes[0], flags, now, &d);

			bench_use(v);
			bench_use(d.payload_bytes);
		}
	if (apus_ip_count_get(ip, APUS_IP_RX_UDP) != (uint64_t)bench_iterations(s))
		bench_skip(s, "a datagram was dropped");
	apus_ip_destroy(ip);
}

static void input_64(struct bench_state *s)
{
	input(s, false, 64, 0);
}

static void input_64_hardware(struct bench_state *s)
{
	input(s, false, 64, APUS_IP_RX_IP_CHECKSUM_GOOD | APUS_IP_RX_UDP_CHECKSUM_GOOD);
}

static void input_1472(struct bench_state *s)
{
	input(s, false, 1472, 0);
}

static void input6_64(struct bench_state *s)
{
	input(s, true, 64, 0);
}

static void input_other(struct bench_state *s)
{
	struct apus_ip *ip = make(2, false);
	struct apus_ip_datagram d;

	if (!ip || !make_frames(s, false, 64))
		return;
	frames.data[0][5] = 9;
	while (bench_keep_running_batch(s, BATCH))
		for (int i = 0; i < BATCH; i++)
			bench_use(apus_ip_input(ip, frames.data[0], frames.bytes[0], 0, now, &d));
	apus_ip_destroy(ip);
}

/* 64 KB in 45 pieces: time is that of the whole datagram. */
static void reassemble_64k(struct bench_state *s)
{
	struct apus_ip *ip = make(2, false);
	struct apus_ip_datagram d;

	if (!ip || !make_frames(s, false, sizeof(payload)))
		return;
	while (bench_keep_running_batch(s, 1))
		for (uint32_t i = 0; i < frames.count; i++)
			if (apus_ip_input(ip, frames.data[i], frames.bytes[i], 0, now, &d) ==
			    APUS_IP_UDP)
				apus_ip_release(ip, d.buffer_idx);
	if (apus_ip_count_get(ip, APUS_IP_RX_REASSEMBLED) != (uint64_t)bench_iterations(s))
		bench_skip(s, "a datagram was lost");
	apus_ip_destroy(ip);
}

/* The first pieces of datagrams that never end, each of another source. */
static void flood_of_pieces(struct bench_state *s)
{
	struct apus_ip *ip = make(2, false);
	struct apus_ip_datagram d;
	uint32_t source = 0;

	if (!ip || !make_frames(s, false, 3000))
		return;
	while (bench_keep_running_batch(s, BATCH))
		for (int i = 0; i < BATCH; i++) {
			source++;
			memcpy(frames.data[0] + 27, &source, 3);
			frames.data[0][26] = 11;
			bench_use(apus_ip_input(ip, frames.data[0], frames.bytes[0],
						APUS_IP_RX_IP_CHECKSUM_GOOD, now, &d));
		}
	apus_ip_destroy(ip);
}

/* Requests for our address, each of another sender: the table is full soon, and answers are spent. */
static void flood_of_arp(struct bench_state *s)
{
	struct apus_ip *ip = make(2, false);
	struct apus_ip_datagram d;
	uint8_t frame[60] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff,      2,         0,       0,
			     0,    0,    0,    8,    6,    0,         1,         8,       0,
			     6,    4,    0,    1,    2,    [28] = 10, [38] = 10, [41] = 2};
	uint32_t sender = 0, bytes;

	if (!ip)
		return;
	while (bench_keep_running_batch(s, BATCH))
		for (int i = 0; i < BATCH; i++) {
			sender++;
			memcpy(frame + 8, &sender, 4);
			memcpy(frame + 24, &sender, 4);
			frame[31] = (uint8_t)(3 + sender % 250);
			bench_use(apus_ip_input(ip, frame, sizeof(frame), 0, now, &d));
			bench_use(apus_ip_next_control(ip, &bytes) != NULL);
		}
	apus_ip_destroy(ip);
}

static void headers(struct bench_state *s, bool six, uint32_t payload_bytes)
{
	struct apus_ip *ip = make_sender(six);
	struct apus_ip_endpoint to = address_of(2, six);
	struct iovec part = {payload, payload_bytes};
	struct apus_ip_send out;
	struct apus_ip_frame f;
	uint8_t header[APUS_IP_HEADER_MAX_BYTES];

	while (bench_keep_running_batch(s, BATCH))
		for (int i = 0; i < BATCH; i++) {
			if (apus_ip_send_begin(ip, &to, 7400, &part, 1, now, &out) == 0)
				while (apus_ip_send_next(ip, &out, header, &f))
					bench_use(f.header_bytes);
			bench_use(header[24]);
		}
	apus_ip_destroy(ip);
}

static void header_64(struct bench_state *s)
{
	headers(s, false, 64);
}

static void header_1472(struct bench_state *s)
{
	headers(s, false, 1472);
}

static void header6_64(struct bench_state *s)
{
	headers(s, true, 64);
}

static void peek_port(struct bench_state *s)
{
	if (!make_frames(s, false, 64))
		return;
	while (bench_keep_running_batch(s, BATCH))
		for (int i = 0; i < BATCH; i++) {
			frames.data[0][37] = (uint8_t)i;
			bench_use(apus_ip_peek_port(frames.data[0], frames.bytes[0]));
		}
}

int main(int argc, char **argv)
{
	for (uint32_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)i;
	bench_register("ip/input_64", input_64);
	bench_register("ip/input_64_hardware_checksums", input_64_hardware);
	bench_register("ip/input_1472", input_1472);
	bench_register("ip/input6_64", input6_64);
	bench_register("ip/input_not_ours", input_other);
	bench_register("ip/reassemble_64k", reassemble_64k);
	bench_register("ip/flood_of_pieces", flood_of_pieces);
	bench_register("ip/flood_of_arp", flood_of_arp);
	bench_register("ip/header_64", header_64);
	bench_register("ip/header_1472", header_1472);
	bench_register("ip/header6_64", header6_64);
	bench_register("ip/peek_port", peek_port);
	return micro_main(argc, argv);
}
