/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deserialisation of CDR payloads into samples in memory.
 *
 * Payloads are hostile. Each length is proved before it is used (cdr.h), the caller's arena is the
 * only memory that grows with the input, and it is reserved before it is filled. A decode that
 * fails leaves the sample all zero, so no pointer into the arena survives.
 */
#include "wire/cdr.h"
#include <limits.h>

struct decoder {
	struct apus_wire_cdr c;
	uint8_t *arena;
	size_t arena_used;
	size_t arena_bytes;
	bool key_only;
	bool keys_by_id; /* key-only: ordered by member id, structs without DHEADER */
};

static int decode_value(struct decoder *d, const struct apus_type *type, void *value, int depth);

/* Reserves `bytes` of the arena, aligned in memory. NULL if it is too small. */
static void *arena_take(struct decoder *d, size_t bytes, size_t align)
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

static void swap_in_place(uint8_t *data, size_t bytes, size_t count)
{
	for (size_t i = 0; i < count; i++, data += bytes) {
		for (size_t b = 0; b < bytes / 2; b++) {
			uint8_t t = data[b];

			data[b] = data[bytes - 1 - b];
			data[bytes - 1 - b] = t;
		}
	}
}

static uint64_t load_unsigned(const uint8_t *p, size_t bytes)
{
	uint16_t v16;
	uint32_t v32;
	uint64_t v64;

	switch (bytes) {
	case 1: return *p;
	case 2: memcpy(&v16, p, 2); return v16;
	case 4: memcpy(&v32, p, 4); return v32;
	default: memcpy(&v64, p, 8); return v64;
	}
}

/* Bools other than 0 and 1 and bits beyond a bitmask's bound are no values of the type. */
static bool scalars_valid(const struct apus_type *type, const uint8_t *data, size_t bytes,
			  size_t count)
{
	unsigned int bits = type->kind == APUS_KIND_BOOL ? 1 : type->bit_bound;

	if (type->kind != APUS_KIND_BOOL && (type->kind != APUS_KIND_BITMASK || bits >= 64))
		return true;
	for (size_t i = 0; i < count; i++)
		if (load_unsigned(data + i * bytes, bytes) >> bits)
			return false;
	return true;
}

static int read_scalars(struct decoder *d, const struct apus_type *type, uint8_t *dst, size_t count)
{
	size_t bytes = apus_wire_scalar_bytes(type);

	if (count == 0)
		return 0;
	if (!apus_wire_cdr_align(&d->c, bytes) || count > apus_wire_cdr_left(&d->c) / bytes)
		return APUS_EENCODING;
	memcpy(dst, d->c.base + d->c.pos, bytes * count);
	d->c.pos += bytes * count;
	if (d->c.swap && bytes > 1)
		swap_in_place(dst, bytes, count);
	return scalars_valid(type, dst, bytes, count) ? 0 : APUS_EENCODING;
}

static int read_string(struct decoder *d, const struct apus_type *type, void *value)
{
	const char *chars;
	uint32_t length;
	char *copy = value;

	if (!apus_wire_cdr_string(&d->c, type->bound, &chars, &length))
		return APUS_EENCODING;
	if (!type->bound) {
		copy = arena_take(d, (size_t)length + 1, 1);
		if (!copy)
			return APUS_ELIMIT;
		memcpy(value, &copy, sizeof(copy));
	}
	memcpy(copy, chars, (size_t)length + 1);
	return 0;
}

/* fresh: the memory comes from the arena and is not zero yet. It is cleared element by element, so
 * that a forged length costs no more than the bytes that back it. */
static int read_elements(struct decoder *d, const struct apus_type *element, uint8_t *data,
			 uint32_t count, bool fresh, int depth)
{
	int rc = 0;

	if (apus_wire_scalar_bytes(element))
		return read_scalars(d, element, data, count);
	if (element->kind == APUS_KIND_STRUCT && count >= 4 && !d->c.swap) {
		size_t align, plain = apus_wire_plain_bytes(
				      element, d->c.xcdr2 ? APUS_XCDR2 : APUS_XCDR1, &align);

		if (plain) {
			if (!apus_wire_cdr_align(&d->c, align) ||
			    count > apus_wire_cdr_left(&d->c) / plain)
				return APUS_EENCODING;
			memcpy(data, d->c.base + d->c.pos, plain * count);
			d->c.pos += plain * count;
			return 0;
		}
	}
	for (uint32_t i = 0; i < count && !rc; i++, data += element->size_bytes) {
		if (fresh)
			memset(data, 0, element->size_bytes);
		rc = decode_value(d, element, data, depth + 1);
	}
	return rc;
}

static int read_sequence(struct decoder *d, const struct apus_type *type,
			 struct apus_sequence *value, int depth)
{
	const struct apus_type *element = type->element;
	uint32_t length;
	size_t bytes;

	if (!apus_wire_cdr_length(&d->c, type, &length))
		return APUS_EENCODING;
	if (length == 0)
		return 0;
	bytes = (size_t)length * element->size_bytes;
	value->data = arena_take(d, bytes, element->align_bytes);
	if (!value->data)
		return APUS_ELIMIT;
	value->length = length;
	return read_elements(d, element, value->data, length, true, depth);
}

/* ARRAY and SEQUENCE. Within a DHEADER the elements must end where it says. */
static int decode_collection(struct decoder *d, const struct apus_type *type, void *value,
			     int depth)
{
	const bool dheader = d->c.xcdr2 && apus_wire_needs_dheader(type->element);
	size_t outer_end = d->c.end, object_end;
	int rc;

	if (dheader) {
		if (!apus_wire_cdr_dheader(&d->c, &object_end))
			return APUS_EENCODING;
		d->c.end = object_end;
	}
	if (type->kind == APUS_KIND_SEQUENCE)
		rc = read_sequence(d, type, value, depth);
	else
		rc = read_elements(d, type->element, value, type->bound, false, depth);
	if (!rc && dheader && d->c.pos != d->c.end)
		rc = APUS_EENCODING;
	d->c.end = outer_end;
	return rc;
}

/* Alignment of the first byte of a value under the cursor's representation. */
static size_t leading_align(const struct apus_wire_cdr *c, const struct apus_type *type)
{
	for (int depth = 0; depth <= APUS_WIRE_TYPE_DEPTH_MAX; depth++) {
		if (type->kind == APUS_KIND_STRUCT) {
			if (c->xcdr2 && type->extensibility == APUS_APPENDABLE)
				return 4;
			type = type->members[0].type;
		} else if (type->kind == APUS_KIND_ARRAY) {
			if (c->xcdr2 && apus_wire_needs_dheader(type->element))
				return 4;
			type = type->element;
		} else {
			break;
		}
	}
	return apus_wire_scalar_bytes(type) ? apus_wire_scalar_bytes(type) : 4;
}

/* True if a shorter appendable sample ends before a member of this type: nothing but padding is
 * left. Senders that do not declare their padding (Fast DDS 2.9.1 among them) make this the only
 * sign. */
static bool members_ended(const struct apus_wire_cdr *c, const struct apus_type *next)
{
	size_t align = leading_align(c, next);
	size_t mask = (align < c->align_max ? align : c->align_max) - 1;

	return ((c->pos + mask) & ~mask) >= c->end;
}

static int decode_members(struct decoder *d, const struct apus_type *type, uint8_t *value,
			  bool may_end, int depth)
{
	for (uint32_t i = 0; i < type->member_count; i++) {
		const struct apus_member *m = &type->members[i];
		int rc;

		if (may_end && members_ended(&d->c, m->type))
			return 0;
		rc = decode_value(d, m->type, value + m->offset_bytes, depth + 1);
		if (rc)
			return rc;
	}
	return 0;
}

/* The members of a key-only struct: see encode_key_struct(). None of them may be missing. */
static int decode_keys(struct decoder *d, const struct apus_type *type, uint8_t *value, int depth)
{
	const bool all = depth > 0 && !apus_wire_has_keys(type);
	const struct apus_member *m;
	int64_t last = -1;
	int rc = 0;

	while (d->keys_by_id && !rc && (m = apus_wire_next_by_id(type, all, &last)) != NULL)
		rc = decode_value(d, m->type, value + m->offset_bytes, depth + 1);
	for (uint32_t i = 0; !d->keys_by_id && !rc && i < type->member_count; i++) {
		m = &type->members[i];
		if (all || m->key)
			rc = decode_value(d, m->type, value + m->offset_bytes, depth + 1);
	}
	return rc;
}

/* An appendable struct may be shorter (older sender) or longer (newer sender) than ours: under
 * XCDR2 its DHEADER says where it ends; under XCDR1 only the outermost one has a known end. */
static int decode_struct(struct decoder *d, const struct apus_type *type, void *value, int depth)
{
	const bool appendable = type->extensibility == APUS_APPENDABLE;
	const bool dheader = appendable && d->c.xcdr2 && !d->keys_by_id;
	size_t outer_end = d->c.end, object_end;
	int rc;

	if (dheader) {
		if (!apus_wire_cdr_dheader(&d->c, &object_end))
			return APUS_EENCODING;
		d->c.end = object_end;
	}
	if (d->key_only)
		rc = decode_keys(d, type, value, depth);
	else
		rc = decode_members(d, type, value, appendable && (dheader || depth == 0), depth);
	if (!rc && dheader)
		d->c.pos = d->c.end;
	d->c.end = outer_end;
	return rc;
}

static int decode_value(struct decoder *d, const struct apus_type *type, void *value, int depth)
{
	if (depth > APUS_WIRE_TYPE_DEPTH_MAX)
		return APUS_EENCODING;
	switch (type->kind) {
	case APUS_KIND_STRING: return read_string(d, type, value);
	case APUS_KIND_ARRAY:
	case APUS_KIND_SEQUENCE: return decode_collection(d, type, value, depth);
	case APUS_KIND_STRUCT: return decode_struct(d, type, value, depth);
	default: return read_scalars(d, type, value, 1);
	}
}

/* Bytes after the last member: of a newer appendable type under XCDR1, else padding at most. */
static bool end_acceptable(const struct decoder *d, const struct apus_type *type)
{
	if (!d->c.xcdr2 && type->extensibility == APUS_APPENDABLE && !d->key_only)
		return true;
	return apus_wire_cdr_left(&d->c) < 4;
}

static int decode_once(struct decoder *d, const struct apus_type *type, void *sample)
{
	int rc;

	d->c.pos = 0;
	d->arena_used = 0;
	memset(sample, 0, type->size_bytes);
	rc = decode_value(d, type, sample, 0);
	if (!rc && !end_acceptable(d, type))
		rc = APUS_EENCODING;
	if (!rc && d->arena_used > INT_MAX)
		rc = APUS_ELIMIT;
	if (rc)
		memset(sample, 0, type->size_bytes);
	return rc ? rc : (int)d->arena_used;
}

int apus_type_decode(const struct apus_type *type, const void *payload, size_t payload_bytes,
		     bool key_only, void *sample, void *arena, size_t arena_bytes)
{
	struct decoder d = {
		.arena = arena, .arena_bytes = arena ? arena_bytes : 0, .key_only = key_only};
	int rc;

	if (!type || !payload || !sample || type->kind != APUS_KIND_STRUCT)
		return APUS_EINVAL;
	rc = apus_wire_cdr_open(&d.c, payload, payload_bytes);
	/* Under XCDR2 the encapsulation must be the one the type's extensibility asks for. */
	if (!rc && d.c.xcdr2 && d.c.delimited != (type->extensibility == APUS_APPENDABLE))
		rc = APUS_EENCODING;
	if (rc) {
		memset(sample, 0, type->size_bytes);
		return rc;
	}
	/* Interop: key-only payloads of Cyclone 0.10.2 are ordered by member id and lack the
	 * DHEADERs of structs; XTypes has both otherwise. Theirs is tried first: a string's NULs
	 * and the exact end tell the two apart. */
	d.keys_by_id = key_only;
	rc = decode_once(&d, type, sample);
	if (rc == APUS_EENCODING && key_only && d.c.xcdr2) {
		d.keys_by_id = false;
		rc = decode_once(&d, type, sample);
	}
	return rc;
}
