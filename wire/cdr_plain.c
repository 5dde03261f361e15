/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises types whose memory image is their CDR body, so that one copy serialises them.
 *
 * Invariant: where these functions say yes, the image has no byte that is not part of a value, and
 * every bit pattern of it is a value of the type.
 */
#include "wire/cdr.h"

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

	if (scalar && type->element->kind != APUS_KIND_BOOL &&
	    type->element->kind != APUS_KIND_BITMASK &&
	    (w->align_max == 8 || !apus_wire_needs_dheader(type->element)))
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
		for (uint32_t i = 0; i < type->member_count; i++) {
			const struct apus_member *m = &type->members[i];

			if (m->optional || m->external ||
			    !plain_value(w, m->type, offset + m->offset_bytes, depth + 1))
				return false;
		}
		return w->offset - start == type->size_bytes;
	case APUS_KIND_BOOL: /* their values must be checked, so they cannot just be copied */
	case APUS_KIND_BITMASK:
	case APUS_KIND_STRING:
	case APUS_KIND_SEQUENCE:
	case APUS_KIND_UNION: return false;
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

bool apus_wire_is_plain(const struct apus_type *type, int representation)
{
	struct plain_walk w = {.align_max = representation == APUS_XCDR2 ? 4 : 8};

	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && plain_value(&w, type, 0, 0) &&
	       w.offset % w.align == 0;
}
