/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes every kind of frame an engine sends into a capture, for check_frames.py. Usage: write_frames FILE
 */
#include "tests/ip/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint8_t payload[10000];

static bool write_capture(const struct link *l, const char *path)
{
	const uint32_t head[6] = {0xa1b2c3d4, 2 | 4 << 16, 0, 0, 65535, 1};
	FILE *file = fopen(path, "wb");
	bool good = file && fwrite(head, sizeof(head), 1, file) == 1;

	for (uint32_t i = 0; good && i < l->frame_count; i++) {
		const struct link_frame *f = &l->frames[i];
		const uint32_t record[4] = {i / 1000, i % 1000 * 1000, f->bytes, f->bytes};

		good = fwrite(record, sizeof(record), 1, file) == 1 &&
		       fwrite(f->data, f->bytes, 1, file) == 1;
	}
	return file && fclose(file) == 0 && good;
}

static struct apus_ip_endpoint group_of(const char *hex)
{
	uint8_t address[16];
	uint32_t bytes = link_hex(hex, address);

	return bytes == 4 ? apus_ip_endpoint_v4(address, 7400) : apus_ip_endpoint_v6(address, 7400);
}

/* Datagrams of both families: to a neighbour, to a group, in pieces; ports nobody listens at. */
static void datagrams(struct link *l)
{
	link_send(l, 0, link_v4(10, 0, 0, 2, 7401), payload, 64);
	link_send(l, 0, link_v6(2, 7401), payload, 64);
	link_send(l, 0, group_of("efff0001"), payload, 65);
	link_send(l, 0, group_of("ff020000000000000000ffffefff0001"), payload, 65);
	link_send(l, 0, link_v4(10, 0, 0, 2, 7401), payload, 10000);
	link_send(l, 0, link_v6(2, 7401), payload, 10000);
	link_send(l, 0, link_v4(10, 0, 0, 2, 7401), payload, 0);
	l->refuse_ports = true;
	link_send(l, 0, link_v4(10, 0, 0, 2, 7402), payload, 33);
	link_send(l, 0, link_v6(2, 7402), payload, 33);
	l->refuse_ports = false;
}

static void groups(struct link *l)
{
	struct apus_ip_endpoint four = group_of("efff0001");
	struct apus_ip_endpoint six = group_of("ff150000000000000000000000000001");

	apus_ip_join(l->host[0], &four, l->now);
	apus_ip_join(l->host[0], &six, l->now);
	link_run(l, 3 * APUS_NS_PER_SEC);
	apus_ip_leave(l->host[0], &four, l->now);
	apus_ip_leave(l->host[0], &six, l->now);
	link_run(l, 3 * APUS_NS_PER_SEC);
}

/* The same after queries of older versions. */
static void older_groups(struct link *l)
{
	uint8_t frame[128];
	uint32_t bytes = link_hex("01005e000001 0200000000fe 0800 46c0 0020 0001 0000 01 02 0000"
				  "0a0000fe e0000001 94040000 1164 ee9b 00000000",
				  frame);

	link_reseal4(frame);
	link_input(l, 0, frame, bytes);
	bytes = link_hex("333300000001 0200000000fe 86dd 60000000 0020 00 01"
			 "fe8000000000000000000000000000fe ff020000000000000000000000000001"
			 "3a00050200000100 8200 0000 03e8 0000 00000000000000000000000000000000",
			 frame);
	/* The checksum over pseudo-header and message. */
	const uint8_t pseudo[8] = {[3] = 24, [7] = 58};
	uint16_t sum = (uint16_t)~link_checksum(0, pseudo, 8);

	sum = (uint16_t)~link_checksum(sum, frame + 22, 32);
	frame[64] = frame[65] = 0;
	sum = link_checksum(sum, frame + 62, 24);
	frame[64] = (uint8_t)(sum >> 8);
	frame[65] = (uint8_t)sum;
	link_input(l, 0, frame, bytes);
	groups(l);
}

/* One host asks another. */
static void echoes(struct link *l)
{
	uint8_t frame[128];
	uint32_t bytes = link_hex("020000000001 020000000002 0800 4500 0020 0001 0000 40 01 0000"
				  "0a000002 0a000001 0800 35e5 1234 0001 70696e67",
				  frame);

	link_reseal4(frame);
	frame[36] = frame[37] = 0;
	uint16_t sum = link_checksum(0, frame + 34, bytes - 34);

	frame[36] = (uint8_t)(sum >> 8);
	frame[37] = (uint8_t)sum;
	link_input(l, 0, frame, bytes);
}

int main(int argc, char **argv)
{
	static struct link l;

	if (argc != 2)
		return 2;
	link_init(&l);
	for (uint8_t n = 1; n <= 2; n++) {
		struct apus_ip_config c = link_config6(n);

		c.detect_duplicates = true;
		link_add(&l, &c);
	}
	link_run(&l, 5 * APUS_NS_PER_SEC);
	datagrams(&l);
	groups(&l);
	older_groups(&l);
	echoes(&l);
	struct apus_ip_config c = link_config(3);

	c.vlan_id = 42;
	c.announce = false;
	link_send(&l, link_add(&l, &c), group_of("efff0001"), payload, 66);
	if (l.frame_count > LINK_FRAME_MAX || !write_capture(&l, argv[1]))
		return 1;
	link_fini(&l);
	return 0;
}
