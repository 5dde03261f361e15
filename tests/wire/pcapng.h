/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The UDP datagrams of a capture file, for tests: little-endian pcapng, Ethernet, IPv4, no fragments,
 * as the files in tests/captures/ are. Anything else in the file is passed over.
 */
#ifndef APUS_TESTS_WIRE_PCAPNG_H
#define APUS_TESTS_WIRE_PCAPNG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** A capture in memory. */
struct pcapng {
	uint8_t *bytes;
	size_t bytes_count;
	size_t at;
};

/** Reads the file. False if it cannot be read. Free with pcapng_close(). */
static inline bool pcapng_open(struct pcapng *file, const char *path)
{
	FILE *f = fopen(path, "rb");
	long size;

	*file = (struct pcapng){0};
	if (!f)
		return false;
	if (fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) > 0 && fseek(f, 0, SEEK_SET) == 0) {
		file->bytes = malloc((size_t)size);
		if (file->bytes)
			file->bytes_count = fread(file->bytes, 1, (size_t)size, f);
	}
	fclose(f);
	return file->bytes_count > 0;
}

static inline void pcapng_close(struct pcapng *file)
{
	free(file->bytes);
	*file = (struct pcapng){0};
}

static inline uint32_t pcapng_u32(const uint8_t *p)
{
	return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

/* The UDP payload of an Ethernet frame, or NULL. */
static inline const uint8_t *pcapng_udp(const uint8_t *frame, size_t frame_bytes, size_t *bytes_out)
{
	size_t header, udp_bytes;

	if (frame_bytes < 14 + 20 + 8 || frame[12] != 0x08 || frame[13] != 0x00)
		return NULL;
	header = 14 + (size_t)(frame[14] & 0x0f) * 4;
	if (frame[14 + 9] != 17 || header + 8 > frame_bytes)
		return NULL;
	udp_bytes = (size_t)frame[header + 4] << 8 | frame[header + 5];
	if (udp_bytes < 8 || header + udp_bytes > frame_bytes)
		return NULL;
	*bytes_out = udp_bytes - 8;
	return frame + header + 8;
}

/** The next datagram, inside the file's memory, or NULL at the end. */
static inline const uint8_t *pcapng_next(struct pcapng *file, size_t *bytes_out)
{
	while (file->bytes_count - file->at >= 32) {
		const uint8_t *block = file->bytes + file->at;
		uint32_t block_bytes = pcapng_u32(block + 4);
		const uint8_t *datagram = NULL;

		if (block_bytes < 12 || block_bytes > file->bytes_count - file->at)
			return NULL;
		file->at += block_bytes;
		if (pcapng_u32(block) == 6 && pcapng_u32(block + 20) <= block_bytes - 32)
			datagram = pcapng_udp(block + 28, pcapng_u32(block + 20), bytes_out);
		if (datagram)
			return datagram;
	}
	return NULL;
}

#endif
