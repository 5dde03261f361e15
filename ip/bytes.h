/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Big-endian fields and the Internet checksum (RFC 1071).
 *
 * Sums are taken over words as they lie in memory, whatever the machine's byte order: the sum of one's
 * complement does not care, as long as the result is stored the same way. So a folded sum is a native
 * 16-bit value, and is stored by memcpy.
 */
#ifndef APUS_IP_BYTES_H
#define APUS_IP_BYTES_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t apus_ip_get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t apus_ip_get32(const uint8_t *p)
{
	return (uint32_t)apus_ip_get16(p) << 16 | apus_ip_get16(p + 2);
}

static inline void apus_ip_put16(uint8_t *p, uint32_t value)
{
	p[0] = (uint8_t)(value >> 8);
	p[1] = (uint8_t)value;
}

static inline void apus_ip_put32(uint8_t *p, uint32_t value)
{
	apus_ip_put16(p, value >> 16);
	apus_ip_put16(p + 2, value);
}

/** Native loads, for comparisons and sums. */
static inline uint16_t apus_ip_load16(const uint8_t *p)
{
	uint16_t value;

	memcpy(&value, p, sizeof(value));
	return value;
}

static inline uint32_t apus_ip_load32(const uint8_t *p)
{
	uint32_t value;

	memcpy(&value, p, sizeof(value));
	return value;
}

static inline uint64_t apus_ip_load64(const uint8_t *p)
{
	uint64_t value;

	memcpy(&value, p, sizeof(value));
	return value;
}

static inline void apus_ip_store16(uint8_t *p, uint16_t value)
{
	memcpy(p, &value, sizeof(value));
}

/** The six bytes of a MAC address as a number. `p` is followed by two more bytes. */
static inline uint64_t apus_ip_load_mac(const uint8_t *p)
{
	return (uint64_t)apus_ip_load32(p) << 16 | apus_ip_get16(p + 4);
}

/** Four words at a time: the compiler has vector registers for it, or does without. */
typedef uint64_t apus_ip_lanes __attribute__((vector_size(32)));

/* Whole blocks of 64 bytes; both halves of each word are summed by themselves. */
static inline uint64_t apus_ip_sum_blocks(const uint8_t *p, size_t block_count)
{
	apus_ip_lanes low = {0}, high = {0};

	for (; block_count > 0; block_count--, p += 64) {
		apus_ip_lanes a, b;

		memcpy(&a, p, sizeof(a));
		memcpy(&b, p + 32, sizeof(b));
		low += (a & UINT32_MAX) + (b & UINT32_MAX);
		high += (a >> 32) + (b >> 32);
	}
	low += high;
	return low[0] + low[1] + low[2] + low[3];
}

/** Adds bytes that begin at an even offset of what is summed; the last may be odd. At most 2^31 bytes, so
 *  that 64 bits cannot overflow. */
static inline uint64_t apus_ip_sum(uint64_t sum, const void *bytes, size_t count)
{
	const uint8_t *p = bytes;

	if (count >= 64) {
		sum += apus_ip_sum_blocks(p, count / 64);
		p += count & ~(size_t)63;
		count &= 63;
	}
	for (; count >= 8; count -= 8, p += 8) {
		uint64_t a = apus_ip_load64(p);

		sum += (a & UINT32_MAX) + (a >> 32);
	}
	if (count & 4) {
		sum += apus_ip_load32(p);
		p += 4;
	}
	if (count & 2) {
		sum += apus_ip_load16(p);
		p += 2;
	}
	if (count & 1)
		sum += htobe16((uint16_t)(*p << 8));
	return sum;
}

/** The sum of an IPv4 header without options. */
static inline uint64_t apus_ip_sum20(const uint8_t *p)
{
	uint64_t a = apus_ip_load64(p), b = apus_ip_load64(p + 8);

	return (a & UINT32_MAX) + (a >> 32) + (b & UINT32_MAX) + (b >> 32) + apus_ip_load32(p + 16);
}

/** The 16-bit sum of a 64-bit one. */
static inline uint16_t apus_ip_fold(uint64_t sum)
{
	sum = (sum & UINT32_MAX) + (sum >> 32);
	sum = (sum & UINT32_MAX) + (sum >> 32);
	sum = (sum & UINT16_MAX) + (sum >> 16);
	sum = (sum & UINT16_MAX) + (sum >> 16);
	return (uint16_t)sum;
}

/** What is stored as a checksum. */
static inline uint16_t apus_ip_checksum(const void *bytes, size_t count)
{
	return (uint16_t)~apus_ip_fold(apus_ip_sum(0, bytes, count));
}

/** The sum of the pseudo-header (RFC 768, RFC 8200 §8.1): addresses of 4 or 16 bytes, one behind the other. */
static inline uint64_t apus_ip_pseudo(const uint8_t *addresses, uint32_t address_bytes,
				      uint8_t protocol, uint32_t upper_bytes)
{
	uint64_t sum;

	if (address_bytes == 4)
		sum = (uint64_t)apus_ip_load32(addresses) + apus_ip_load32(addresses + 4);
	else
		sum = apus_ip_sum(0, addresses, 32);
	return sum + htobe32(upper_bytes) + htobe16(protocol);
}

/** What a UDP checksum field holds for a sum: 0 would mean none (RFC 768). */
static inline uint16_t apus_ip_udp_field(uint64_t sum)
{
	uint16_t field = (uint16_t)~apus_ip_fold(sum);

	return field ? field : UINT16_MAX;
}

static inline bool apus_ip_all_zero(const uint8_t *bytes, size_t count)
{
	uint8_t any = 0;

	for (size_t i = 0; i < count; i++)
		any |= bytes[i];
	return any == 0;
}

#endif
