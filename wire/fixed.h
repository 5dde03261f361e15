/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fixed layouts as writers write them: what apus_type_encode() finds out each time is found out once, and a
 * sample costs a comparison and a copy.
 *
 * Invariant: apus_wire_fixed_encode() writes the bytes apus_type_encode() writes, and no others.
 */
#ifndef APUS_WIRE_FIXED_H
#define APUS_WIRE_FIXED_H

#include "wire/coder.h"

/** How samples of a type are copied under one representation. */
struct apus_wire_fixed {
	uint32_t payload_bytes; /* with the encapsulation header; 0: not by copying */
	uint8_t header[APUS_WIRE_ENCAP_BYTES];
};

/** Of a checked type and a known representation. Pure. */
static inline struct apus_wire_fixed apus_wire_fixed_of(const struct apus_type *type,
							int representation)
{
	const bool xcdr2 = representation == APUS_XCDR2;
	struct apus_wire_fixed f = {0};

	/* Other sizes are padded behind the image. */
	if (!apus_wire_says_plain(type, xcdr2) || type->size_bytes % 4 ||
	    type->size_bytes > INT32_MAX - APUS_WIRE_ENCAP_BYTES)
		return f;
	f.payload_bytes = APUS_WIRE_ENCAP_BYTES + type->size_bytes;
	f.header[1] = (uint8_t)apus_wire_encap_of(type, xcdr2);
	return f;
}

static inline void apus_wire_copy16(uint8_t *to, const uint8_t *from)
{
	unsigned char part[16];

	memcpy(part, from, sizeof(part));
	memcpy(to, part, sizeof(part));
}

/**
 * Writes a payload, f->payload_bytes not being 0. Returns its bytes, or APUS_ELIMIT if `out_bytes` is too
 * small. Any thread; does not allocate.
 */
static inline int apus_wire_fixed_encode(const struct apus_wire_fixed *f, const void *sample,
					 uint8_t *out, size_t out_bytes)
{
	const size_t bytes = (size_t)f->payload_bytes - APUS_WIRE_ENCAP_BYTES;
	const uint8_t *from = sample;

	if (out_bytes < f->payload_bytes)
		return APUS_ELIMIT;
	memcpy(out, f->header, sizeof(f->header));
	out += APUS_WIRE_ENCAP_BYTES;
	if (bytes - 33 < 32) { /* 33 to 64, most often; the parts may overlap */
		apus_wire_copy16(out, from);
		apus_wire_copy16(out + 16, from + 16);
		apus_wire_copy16(out + bytes - 32, from + bytes - 32);
		apus_wire_copy16(out + bytes - 16, from + bytes - 16);
	} else {
		apus_wire_copy_short(out, from, bytes);
	}
	return (int)f->payload_bytes;
}

#endif
