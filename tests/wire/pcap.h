/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reader for the recordings in tests/captures: pcapng, Ethernet, IPv4, UDP, all that they contain and
 * no more. The whole file is in memory; datagrams point into it. Frames that are not UDP over IPv4 are
 * passed over but counted, so that frame numbers agree with those of other tools.
 */
#ifndef APUS_TESTS_WIRE_PCAP_H
#define APUS_TESTS_WIRE_PCAP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pcap {
	uint8_t *bytes;
	size_t length;
	size_t at;       /* next block */
	uint32_t frames; /* packet blocks seen */
};

/** One UDP datagram; payload lives as long as the pcap. */
struct pcap_datagram {
	uint32_t frame; /**< counted from 1 */
	uint8_t source[4];
	uint8_t dest[4];
	uint16_t source_port;
	uint16_t dest_port;
	const uint8_t *payload;
	size_t payload_bytes;
};

/** Reads a file. False (with a message) if that fails or it is not pcapng. */
static inline bool pcap_open(struct pcap *p, const char *path)
{
	FILE *f = fopen(path, "rb");
	long length = -1;

	memset(p, 0, sizeof(*p));
	if (f && fseek(f, 0, SEEK_END) == 0)
		length = ftell(f);
	if (length >= 0 && fseek(f, 0, SEEK_SET) == 0)
		p->bytes = malloc((size_t)length + 1);
	if (p->bytes)
		p->length = fread(p->bytes, 1, (size_t)length, f);
	if (f)
		fclose(f);
	if (p->length >= 12 && memcmp(p->bytes, "\x0a\x0d\x0d\x0a", 4) == 0 &&
	    memcmp(p->bytes + 8, "\x4d\x3c\x2b\x1a", 4) == 0)
		return true;
	fprintf(stderr, "%s: not a little-endian pcapng file\n", path);
	free(p->bytes);
	p->bytes = NULL;
	return false;
}

static inline void pcap_close(struct pcap *p)
{
	free(p->bytes);
	p->bytes = NULL;
}

static inline uint32_t pcap_u32(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint16_t pcap_be16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

/* Ethernet, IPv4 without fragments, UDP. */
static inline bool pcap_decode(const uint8_t *f, size_t n, struct pcap_datagram *out)
{
	if (n < 14 + 20 + 8 || pcap_be16(f + 12) != 0x0800 || f[14] >> 4 != 4 || f[23] != 17)
		return false;
	size_t header = (size_t)(f[14] & 0xf) * 4;
	const uint8_t *udp = f + 14 + header;

	if (header < 20 || n < 14 + header + 8 || (pcap_be16(f + 20) & 0x3fff))
		return false;
	size_t udp_bytes = pcap_be16(udp + 4);

	if (udp_bytes < 8 || 14 + header + udp_bytes > n)
		return false;
	memcpy(out->source, f + 26, 4);
	memcpy(out->dest, f + 30, 4);
	out->source_port = pcap_be16(udp);
	out->dest_port = pcap_be16(udp + 2);
	out->payload = udp + 8;
	out->payload_bytes = udp_bytes - 8;
	return true;
}

/** The next UDP datagram; false at the end of the file. */
static inline bool pcap_next(struct pcap *p, struct pcap_datagram *out)
{
	while (p->length - p->at >= 12) {
		const uint8_t *block = p->bytes + p->at;
		uint32_t type = pcap_u32(block), total = pcap_u32(block + 4);

		if (total < 12 || total % 4 || total > p->length - p->at)
			return false;
		p->at += total;
		if (type != 6) /* enhanced packet block */
			continue;
		p->frames++;
		if (total < 32 || pcap_u32(block + 20) > total - 32)
			return false;
		out->frame = p->frames;
		if (pcap_decode(block + 28, pcap_u32(block + 20), out))
			return true;
	}
	return false;
}

#endif
