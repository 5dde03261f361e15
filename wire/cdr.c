/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reading cursor over CDR bodies and the facts about types that both directions need.
 * All input is untrusted; see cdr.h for the invariant that holds throughout.
 */
#include "wire/cdr.h"

size_t apus_wire_scalar_bytes(const struct apus_type *type)
{
	switch (type->kind) {
	case APUS_KIND_BOOL:
	case APUS_KIND_OCTET:
	case APUS_KIND_CHAR:
	case APUS_KIND_INT8:
	case APUS_KIND_UINT8: return 1;
	case APUS_KIND_INT16:
	case APUS_KIND_UINT16: return 2;
	case APUS_KIND_INT32:
	case APUS_KIND_UINT32:
	case APUS_KIND_FLOAT32:
	case APUS_KIND_ENUM: return 4;
	case APUS_KIND_INT64:
	case APUS_KIND_UINT64:
	case APUS_KIND_FLOAT64: return 8;
	case APUS_KIND_BITMASK:
		return type->bit_bound <= 8    ? 1
		       : type->bit_bound <= 16 ? 2
		       : type->bit_bound <= 32 ? 4
					       : 8;
	default: return 0;
	}
}

bool apus_wire_needs_dheader(const struct apus_type *type)
{
	return type->kind > APUS_KIND_FLOAT64;
}

bool apus_wire_has_keys(const struct apus_type *type)
{
	for (uint32_t i = 0; i < type->member_count; i++)
		if (type->members[i].key)
			return true;
	return false;
}

const struct apus_member *apus_wire_next_by_id(const struct apus_type *type, bool all,
					       int64_t *last)
{
	const struct apus_member *best = NULL;

	for (uint32_t i = 0; i < type->member_count; i++) {
		const struct apus_member *m = &type->members[i];

		if ((m->key || all) && m->id > *last && (!best || m->id < best->id))
			best = m;
	}
	if (best)
		*last = best->id;
	return best;
}

/* A lower bound of the wire bytes of one value, without recursion: cheap, and enough to keep a
 * forged sequence length within what the datagram could hold. Structs have at least one member. */
static size_t least_bytes(const struct apus_wire_cdr *c, const struct apus_type *type)
{
	size_t scalar = apus_wire_scalar_bytes(type);

	if (scalar)
		return scalar;
	switch (type->kind) {
	case APUS_KIND_STRING: return 5;
	case APUS_KIND_SEQUENCE: return 4;
	case APUS_KIND_ARRAY: return type->bound;
	default: return c->xcdr2 && type->extensibility == APUS_APPENDABLE ? 4 : type->member_count;
	}
}

bool apus_wire_cdr_length(struct apus_wire_cdr *c, const struct apus_type *type,
			  uint32_t *length_out)
{
	uint32_t length;

	if (!apus_wire_cdr_u32(c, &length) || (type->bound && length > type->bound))
		return false;
	if (length > apus_wire_cdr_left(c) / least_bytes(c, type->element))
		return false;
	*length_out = length;
	return true;
}

static bool skip_elements(struct apus_wire_cdr *c, const struct apus_type *element, uint32_t count,
			  int depth)
{
	size_t scalar = apus_wire_scalar_bytes(element);

	if (count == 0)
		return true;
	if (scalar) {
		if (!apus_wire_cdr_align(c, scalar) || count > apus_wire_cdr_left(c) / scalar)
			return false;
		c->pos += count * scalar;
		return true;
	}
	for (uint32_t i = 0; i < count; i++)
		if (!apus_wire_cdr_skip(c, element, depth + 1))
			return false;
	return true;
}

static bool skip_struct(struct apus_wire_cdr *c, const struct apus_type *type, int depth)
{
	size_t object_end;

	if (c->xcdr2 && type->extensibility == APUS_APPENDABLE) {
		if (!apus_wire_cdr_dheader(c, &object_end))
			return false;
		c->pos = object_end;
		return true;
	}
	for (uint32_t i = 0; i < type->member_count; i++)
		if (!apus_wire_cdr_skip(c, type->members[i].type, depth + 1))
			return false;
	return true;
}

bool apus_wire_cdr_skip(struct apus_wire_cdr *c, const struct apus_type *type, int depth)
{
	const char *chars;
	size_t object_end;
	uint32_t count;

	if (depth > APUS_WIRE_TYPE_DEPTH_MAX)
		return false;
	switch (type->kind) {
	case APUS_KIND_STRING: return apus_wire_cdr_string(c, type->bound, &chars, &count);
	case APUS_KIND_STRUCT: return skip_struct(c, type, depth);
	case APUS_KIND_SEQUENCE:
	case APUS_KIND_ARRAY:
		if (c->xcdr2 && apus_wire_needs_dheader(type->element)) {
			/* The object's own size is authoritative: nothing inside is looked at. */
			if (!apus_wire_cdr_dheader(c, &object_end))
				return false;
			c->pos = object_end;
			return true;
		}
		count = type->bound;
		if (type->kind == APUS_KIND_SEQUENCE && !apus_wire_cdr_length(c, type, &count))
			return false;
		return skip_elements(c, type->element, count, depth);
	default: return skip_elements(c, type, 1, depth);
	}
}

/* State of the comparison of memory image and CDR image. */
struct plain_walk {
	size_t offset;      /* in both images */
	size_t align_max;   /* of the representation */
	size_t align;       /* largest seen */
	size_t first_align; /* of the first scalar, 0 = none yet */
};

static bool plain_value(struct plain_walk *w, const struct apus_type *type, size_t offset,
			int depth);

static bool plain_scalars(struct plain_walk *w, size_t bytes, size_t count, size_t offset)
{
	size_t align = bytes < w->align_max ? bytes : w->align_max;

	/* No gap may open in either image: padding in memory has no defined contents. */
	if (offset != w->offset || offset % align)
		return false;
	if (!w->first_align)
		w->first_align = align;
	if (align > w->align)
		w->align = align;
	w->offset += bytes * count;
	return true;
}

static bool plain_array(struct plain_walk *w, const struct apus_type *type, size_t offset,
			int depth)
{
	size_t scalar = apus_wire_scalar_bytes(type->element), start = w->offset;

	if (scalar && type->element->kind <= APUS_KIND_FLOAT64 &&
	    type->element->kind != APUS_KIND_BOOL)
		return plain_scalars(w, scalar, type->bound, offset);
	if (w->align_max == 4 || type->element->kind != APUS_KIND_STRUCT)
		return false;
	if (!plain_value(w, type->element, offset, depth + 1))
		return false;
	w->offset = start + (size_t)type->bound * type->element->size_bytes;
	return true;
}

static bool plain_value(struct plain_walk *w, const struct apus_type *type, size_t offset,
			int depth)
{
	size_t start = w->offset;

	if (depth > APUS_WIRE_TYPE_DEPTH_MAX)
		return false;
	switch (type->kind) {
	case APUS_KIND_ARRAY: return plain_array(w, type, offset, depth);
	case APUS_KIND_STRUCT:
		if (type->extensibility != APUS_FINAL)
			return false;
		for (uint32_t i = 0; i < type->member_count; i++)
			if (!plain_value(w, type->members[i].type,
					 offset + type->members[i].offset_bytes, depth + 1))
				return false;
		return w->offset - start == type->size_bytes;
	case APUS_KIND_BOOL: /* their values must be checked, so they cannot just be copied */
	case APUS_KIND_BITMASK:
	case APUS_KIND_STRING:
	case APUS_KIND_SEQUENCE: return false;
	default: return plain_scalars(w, apus_wire_scalar_bytes(type), 1, offset);
	}
}

size_t apus_wire_plain_bytes(const struct apus_type *type, int representation, size_t *align_out)
{
	struct plain_walk w = {.align_max = representation == APUS_XCDR2 ? 4 : 8};

	if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__ || !plain_value(&w, type, 0, 0))
		return 0;
	/* Where the first member goes must be where the strictest alignment is kept, and the next
	 * element must follow without a gap. */
	if (w.first_align != w.align || w.offset % w.align)
		return 0;
	if (align_out)
		*align_out = w.align;
	return w.offset;
}
