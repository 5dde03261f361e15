/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serialisation of samples in memory into CDR payloads.
 *
 * The sample is the caller's own memory and its pointers are trusted, but lengths are held against
 * the type's bounds, so nothing that a peer must refuse ever leaves. Padding is written as zeros:
 * no memory contents leak onto the wire.
 */
#include "wire/cdr.h"
#include <limits.h>

/* The payload being written; `pos` counts from the end of the encapsulation header. */
struct encoder {
	uint8_t *base;
	size_t pos;
	size_t end;
	uint8_t align_max;
	bool xcdr2;
	bool swap;
	bool key_only; /* see encode_key_struct() */
};

static int encode_value(struct encoder *e, const struct apus_type *type, const void *value,
			int depth);

static int write_align(struct encoder *e, size_t align)
{
	size_t mask = (align < e->align_max ? align : e->align_max) - 1;
	size_t gap = -e->pos & mask;

	if (gap > e->end - e->pos)
		return APUS_ELIMIT;
	for (; gap; gap--)
		e->base[e->pos++] = 0;
	return 0;
}

static void store_u32(const struct encoder *e, size_t pos, uint32_t value)
{
	if (e->swap)
		value = __builtin_bswap32(value);
	memcpy(e->base + pos, &value, 4);
}

static int write_u32(struct encoder *e, uint32_t value)
{
	int rc = write_align(e, 4);

	if (rc)
		return rc;
	if (e->end - e->pos < 4)
		return APUS_ELIMIT;
	store_u32(e, e->pos, value);
	e->pos += 4;
	return 0;
}

static void copy_swapped(uint8_t *dst, const uint8_t *src, size_t bytes, size_t count)
{
	for (size_t i = 0; i < count; i++, src += bytes, dst += bytes)
		for (size_t b = 0; b < bytes; b++)
			dst[b] = src[bytes - 1 - b];
}

/* Bools become 0 or 1 whatever the memory holds; bits of a bitmask beyond its bound are refused. */
static int normalise(const struct encoder *e, const struct apus_type *type, const uint8_t *src,
		     size_t count)
{
	uint64_t value;

	if (type->kind == APUS_KIND_BOOL) {
		for (size_t i = 0; i < count; i++)
			e->base[e->pos + i] = src[i] != 0;
		return 0;
	}
	for (size_t i = 0; i < count && type->bit_bound < 64; i++) {
		switch (apus_wire_scalar_bytes(type)) {
		case 1: value = src[i]; break;
		case 2: value = ((const uint16_t *)src)[i]; break;
		case 4: value = ((const uint32_t *)src)[i]; break;
		default: value = ((const uint64_t *)src)[i]; break;
		}
		if (value >> type->bit_bound)
			return APUS_EENCODING;
	}
	return 0;
}

static int write_scalars(struct encoder *e, const struct apus_type *type, const void *src,
			 size_t count)
{
	size_t bytes = apus_wire_scalar_bytes(type);
	int rc;

	if (count == 0)
		return 0;
	rc = write_align(e, bytes);
	if (rc)
		return rc;
	if (count > (e->end - e->pos) / bytes)
		return APUS_ELIMIT;
	if (e->swap && bytes > 1)
		copy_swapped(e->base + e->pos, src, bytes, count);
	else
		memcpy(e->base + e->pos, src, bytes * count);
	if (type->kind == APUS_KIND_BOOL || type->kind == APUS_KIND_BITMASK)
		rc = normalise(e, type, src, count);
	e->pos += bytes * count;
	return rc;
}

static int write_string(struct encoder *e, const struct apus_type *type, const void *value)
{
	const char *chars = value;
	size_t length;
	int rc;

	if (type->bound) {
		length = strnlen(chars, (size_t)type->bound + 1);
		if (length > type->bound)
			return APUS_EENCODING;
	} else {
		memcpy(&chars, value, sizeof(chars));
		if (!chars)
			chars = "";
		length = strlen(chars);
	}
	if (length >= e->end - e->pos)
		return APUS_ELIMIT;
	rc = write_u32(e, (uint32_t)length + 1);
	if (rc)
		return rc;
	if (length + 1 > e->end - e->pos)
		return APUS_ELIMIT;
	memcpy(e->base + e->pos, chars, length);
	e->base[e->pos + length] = 0;
	e->pos += length + 1;
	return 0;
}

/* Structs whose memory is their CDR image go in one copy, unless there are too few to pay for
 * finding that out. */
static int write_elements(struct encoder *e, const struct apus_type *element, const uint8_t *data,
			  uint32_t count, int depth)
{
	int rc = 0;

	if (apus_wire_scalar_bytes(element))
		return write_scalars(e, element, data, count);
	if (element->kind == APUS_KIND_STRUCT && count >= 4 && !e->swap) {
		size_t align, plain = apus_wire_plain_bytes(
				      element, e->xcdr2 ? APUS_XCDR2 : APUS_XCDR1, &align);

		if (plain) {
			rc = write_align(e, align);
			if (rc || count > (e->end - e->pos) / plain)
				return APUS_ELIMIT;
			memcpy(e->base + e->pos, data, plain * count);
			e->pos += plain * count;
			return 0;
		}
	}
	for (uint32_t i = 0; i < count && !rc; i++)
		rc = encode_value(e, element, data + (size_t)i * element->size_bytes, depth + 1);
	return rc;
}

/* ARRAY and SEQUENCE: [DHEADER] [length] elements. */
static int encode_collection(struct encoder *e, const struct apus_type *type, const void *value,
			     int depth)
{
	const bool dheader = e->xcdr2 && apus_wire_needs_dheader(type->element);
	const struct apus_sequence *sequence = value;
	const bool is_sequence = type->kind == APUS_KIND_SEQUENCE;
	uint32_t count = is_sequence ? sequence->length : type->bound;
	const void *data = is_sequence ? sequence->data : value;
	size_t start;
	int rc;

	if (is_sequence && ((type->bound && count > type->bound) || (count && !data)))
		return APUS_EENCODING;
	if (dheader) {
		rc = write_u32(e, 0);
		if (rc)
			return rc;
	}
	start = e->pos;
	if (is_sequence) {
		rc = write_u32(e, count);
		if (rc)
			return rc;
	}
	rc = write_elements(e, type->element, data, count, depth);
	if (!rc && dheader)
		store_u32(e, start - 4, (uint32_t)(e->pos - start));
	return rc;
}

/*
 * A struct of a key-only payload: its key members, or all if none is marked (XTypes 1.3
 * §7.2.2.4.4.3; a keyless outermost struct has none to write).
 * Interop: Cyclone 0.10.2 orders them by member id and writes no DHEADER, even for appendable
 * types.
 */
static int encode_key_struct(struct encoder *e, const struct apus_type *type, const uint8_t *value,
			     int depth)
{
	const bool all = depth > 0 && !apus_wire_has_keys(type);
	const struct apus_member *m;
	int64_t last = -1;
	int rc = 0;

	while (!rc && (m = apus_wire_next_by_id(type, all, &last)) != NULL)
		rc = encode_value(e, m->type, value + m->offset_bytes, depth + 1);
	return rc;
}

static int encode_struct(struct encoder *e, const struct apus_type *type, const uint8_t *value,
			 int depth)
{
	const bool dheader = e->xcdr2 && type->extensibility == APUS_APPENDABLE;
	size_t start;
	int rc = 0;

	if (dheader) {
		rc = write_u32(e, 0);
		if (rc)
			return rc;
	}
	start = e->pos;
	for (uint32_t i = 0; i < type->member_count && !rc; i++)
		rc = encode_value(e, type->members[i].type, value + type->members[i].offset_bytes,
				  depth + 1);
	if (!rc && dheader)
		store_u32(e, start - 4, (uint32_t)(e->pos - start));
	return rc;
}

static int encode_value(struct encoder *e, const struct apus_type *type, const void *value,
			int depth)
{
	if (depth > APUS_WIRE_TYPE_DEPTH_MAX)
		return APUS_EENCODING;
	switch (type->kind) {
	case APUS_KIND_STRING: return write_string(e, type, value);
	case APUS_KIND_ARRAY:
	case APUS_KIND_SEQUENCE: return encode_collection(e, type, value, depth);
	case APUS_KIND_STRUCT:
		return e->key_only ? encode_key_struct(e, type, value, depth)
				   : encode_struct(e, type, value, depth);
	default: return write_scalars(e, type, value, 1);
	}
}

static void write_encapsulation(uint8_t *out, const struct apus_type *type, int representation,
				bool big_endian, unsigned int padding)
{
	unsigned int id = APUS_WIRE_CDR_LE;

	if (representation == APUS_XCDR2)
		id = type->extensibility == APUS_APPENDABLE ? APUS_WIRE_D_CDR2_LE
							    : APUS_WIRE_CDR2_LE;
	out[0] = 0;
	out[1] = (uint8_t)(big_endian ? id - 1 : id);
	out[2] = 0;
	out[3] = (uint8_t)padding;
}

int apus_wire_cdr_encode(const struct apus_type *type, const void *sample, int representation,
			 bool key_only, bool big_endian, void *out, size_t out_bytes)
{
	struct encoder e = {
		.base = (uint8_t *)out + APUS_WIRE_ENCAP_BYTES,
		.xcdr2 = representation == APUS_XCDR2,
		.align_max = representation == APUS_XCDR2 ? 4 : 8,
		.swap = big_endian != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__),
		.key_only = key_only,
	};
	size_t body;
	int rc;

	if (!type || !sample || !out || type->kind != APUS_KIND_STRUCT ||
	    (representation != APUS_XCDR1 && representation != APUS_XCDR2))
		return APUS_EINVAL;
	if (out_bytes < APUS_WIRE_ENCAP_BYTES)
		return APUS_ELIMIT;
	/* The result is an int and DHEADERs are 32 bits: larger payloads do not exist. */
	e.end = (out_bytes > INT_MAX ? INT_MAX : out_bytes) - APUS_WIRE_ENCAP_BYTES;
	rc = encode_value(&e, type, sample, 0);
	if (rc)
		return rc;
	body = e.pos;
	rc = write_align(&e, 4);
	if (rc)
		return rc;
	write_encapsulation(out, type, representation, big_endian, (unsigned int)(e.pos - body));
	return (int)(APUS_WIRE_ENCAP_BYTES + e.pos);
}

int apus_type_encode(const struct apus_type *type, const void *sample, int representation,
		     bool key_only, void *out, size_t out_bytes)
{
	return apus_wire_cdr_encode(type, sample, representation, key_only, false, out, out_bytes);
}
