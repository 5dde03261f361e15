/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small identity and ordering types used by every layer: GUID prefix, entity id, sequence number,
 * locator. They are structs or fixed-width integers without behaviour of their own; how they look on
 * the wire is wire/'s business. Nothing here knows a DDS rule.
 */
#ifndef APUS_BASE_GUID_H
#define APUS_BASE_GUID_H

#include <apus/core.h>
#include <string.h>

/** Participant part of a GUID, 12 bytes in wire order (RTPS 2.5 §9.3.1.5). */
struct apus_prefix {
	uint8_t bytes[12];
};

/** Entity id as the 32-bit number its four wire bytes form in big-endian order (RTPS 2.5 §9.3.1.2),
 *  so that 0x000100c2 prints as the specification does. */
struct apus_eid {
	uint32_t value;
};

/** Sequence number: 1 is the first sample, 0 means none (RTPS 2.5 §8.3.5.4). */
typedef int64_t apus_seq;

/** RTPS locator (RTPS 2.5 §9.3.2). kind 1 = UDPv4 (address in bytes 12…15), 2 = UDPv6. */
struct apus_locator {
	int32_t kind;
	uint32_t port;
	uint8_t address[16];
};

#define APUS_LOCATOR_UDPV4 1
#define APUS_LOCATOR_UDPV6 2

static inline bool apus_guid_equal(const struct apus_guid *a, const struct apus_guid *b)
{
	return memcmp(a->bytes, b->bytes, 16) == 0;
}

static inline int apus_guid_compare(const struct apus_guid *a, const struct apus_guid *b)
{
	return memcmp(a->bytes, b->bytes, 16);
}

static inline bool apus_prefix_equal(const struct apus_prefix *a, const struct apus_prefix *b)
{
	return memcmp(a->bytes, b->bytes, 12) == 0;
}

static inline struct apus_guid apus_guid_make(const struct apus_prefix *prefix, struct apus_eid eid)
{
	struct apus_guid g;

	memcpy(g.bytes, prefix->bytes, 12);
	g.bytes[12] = (uint8_t)(eid.value >> 24);
	g.bytes[13] = (uint8_t)(eid.value >> 16);
	g.bytes[14] = (uint8_t)(eid.value >> 8);
	g.bytes[15] = (uint8_t)eid.value;
	return g;
}

static inline struct apus_prefix apus_guid_prefix(const struct apus_guid *g)
{
	struct apus_prefix p;

	memcpy(p.bytes, g->bytes, 12);
	return p;
}

static inline struct apus_eid apus_guid_eid(const struct apus_guid *g)
{
	return (struct apus_eid){(uint32_t)g->bytes[12] << 24 | (uint32_t)g->bytes[13] << 16 |
				 (uint32_t)g->bytes[14] << 8 | g->bytes[15]};
}

/** Mixes 16 identity bytes into a table hash (a 64-bit multiply-fold of the two halves). */
static inline uint64_t apus_guid_hash(const struct apus_guid *g)
{
	uint64_t a, b;

	memcpy(&a, g->bytes, 8);
	memcpy(&b, g->bytes + 8, 8);
	a ^= b * UINT64_C(0x9e3779b97f4a7c15);
	a ^= a >> 32;
	a *= UINT64_C(0xd6e8feb86659fd93);
	a ^= a >> 32;
	return a;
}

#endif
