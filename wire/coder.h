/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two ways to serialise share: the walk over descriptors (cdr_encode.c, cdr_decode.c) and
 * the programs (program_*.c), which call the walk for what they have no step for.
 *
 * Invariant: `pos <= end`, nothing at or beyond `end` is written; padding is written as zeros.
 */
#ifndef APUS_WIRE_CODER_H
#define APUS_WIRE_CODER_H

#include "wire/cdr.h"

/** The payload being written; `pos` counts from the end of the encapsulation header. */
struct apus_wire_encoder {
	uint8_t *base;
	size_t pos;
	size_t end;
	size_t origin; /* what alignment refers to, see cdr.h */
	uint8_t align_max;
	bool xcdr2;
	bool swap;
	bool key_only; /* see encode_key_struct() */
};

/** A payload being read, and the memory for what does not fit into the sample itself. */
struct apus_wire_decoder {
	struct apus_wire_cdr c;
	uint8_t *arena;
	size_t arena_used;
	size_t arena_bytes;
	bool key_only;
	bool keys_by_id; /* key-only: ordered by member id, structs without DHEADER */
	uint8_t slack;   /* key-only: bytes behind the keys that may be padding */
	bool borrow;     /* strings and numbers may stay in the payload */
};

/** One member of a struct that is not mutable, by descriptor. Returns 0 or what encoding returns. */
int apus_wire_encode_member(struct apus_wire_encoder *e, const struct apus_member *m,
			    const uint8_t *object, int depth);

/** The same, reading; the member's place in `object` must be zero. */
int apus_wire_decode_member(struct apus_wire_decoder *d, const struct apus_member *m,
			    uint8_t *object, int depth);

/** Writes zeros up to the next multiple of min(align, align_max). Returns 0 or APUS_ELIMIT. */
static inline int apus_wire_write_align(struct apus_wire_encoder *e, size_t align)
{
	size_t mask = (align < e->align_max ? align : e->align_max) - 1;
	size_t gap = -(e->pos - e->origin) & mask;

	if (gap > e->end - e->pos)
		return APUS_ELIMIT;
	for (; gap; gap--)
		e->base[e->pos++] = 0;
	return 0;
}

/** Stores a uint32 at a place already reserved. */
static inline void apus_wire_store_u32(const struct apus_wire_encoder *e, size_t pos,
				       uint32_t value)
{
	if (e->swap)
		value = __builtin_bswap32(value);
	memcpy(e->base + pos, &value, 4);
}

/** Writes a uint32, aligned. Returns 0 or APUS_ELIMIT. */
static inline int apus_wire_write_u32(struct apus_wire_encoder *e, uint32_t value)
{
	int rc = apus_wire_write_align(e, 4);

	if (rc)
		return rc;
	if (e->end - e->pos < 4)
		return APUS_ELIMIT;
	apus_wire_store_u32(e, e->pos, value);
	e->pos += 4;
	return 0;
}

/** memcpy() without the call for up to 64 bytes: parts of fixed sizes that may overlap. */
static inline void apus_wire_copy_short(void *to, const void *from, size_t bytes)
{
	const uint8_t *src = from;
	uint8_t *dst = to;

	if (bytes > 64) {
		memcpy(dst, src, bytes);
	} else if (bytes > 16) {
		unsigned char first[32], last[32];

		if (bytes > 32) {
			memcpy(first, src, 32);
			memcpy(last, src + bytes - 32, 32);
			memcpy(dst, first, 32);
			memcpy(dst + bytes - 32, last, 32);
			return;
		}
		memcpy(first, src, 16);
		memcpy(last, src + bytes - 16, 16);
		memcpy(dst, first, 16);
		memcpy(dst + bytes - 16, last, 16);
	} else if (bytes >= 8) {
		uint64_t first, last;

		memcpy(&first, src, 8);
		memcpy(&last, src + bytes - 8, 8);
		memcpy(dst, &first, 8);
		memcpy(dst + bytes - 8, &last, 8);
	} else if (bytes >= 4) {
		uint32_t first, last;

		memcpy(&first, src, 4);
		memcpy(&last, src + bytes - 4, 4);
		memcpy(dst, &first, 4);
		memcpy(dst + bytes - 4, &last, 4);
	} else {
		for (size_t i = 0; i < bytes; i++)
			dst[i] = src[i];
	}
}

/** Reserves `bytes` of the arena, aligned in memory. NULL if it is too small. */
static inline void *apus_wire_arena_take(struct apus_wire_decoder *d, size_t bytes, size_t align)
{
	size_t gap = -((uintptr_t)d->arena + d->arena_used) & (align - 1);
	size_t left = d->arena_bytes - d->arena_used;
	void *p;

	if (gap > left || bytes > left - gap)
		return NULL;
	p = d->arena + d->arena_used + gap;
	d->arena_used += gap + bytes;
	return p;
}

/** True if numbers of this size at `p` can be used where they lie. */
static inline bool apus_wire_is_aligned(const void *p, size_t bytes)
{
	return ((uintptr_t)p & (bytes - 1)) == 0;
}

#endif
