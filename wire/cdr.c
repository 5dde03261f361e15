/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reading cursor over CDR bodies and the facts about types that both directions need.
 * All input is untrusted; see cdr.h for the invariant that holds throughout.
 */
#include "wire/cdr.h"

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

int64_t apus_wire_load_integer(const struct apus_type *type, const void *value)
{
	const bool is_signed = type->kind == APUS_KIND_ENUM || type->kind == APUS_KIND_INT8 ||
			       type->kind == APUS_KIND_INT16 || type->kind == APUS_KIND_INT32;
	uint8_t v8;
	uint16_t v16;
	uint32_t v32;
	int64_t v64;

	switch (apus_wire_scalar_bytes(type)) {
	case 1: memcpy(&v8, value, 1); return is_signed ? (int8_t)v8 : v8;
	case 2: memcpy(&v16, value, 2); return is_signed ? (int16_t)v16 : v16;
	case 4: memcpy(&v32, value, 4); return is_signed ? (int64_t)(int32_t)v32 : v32;
	default: memcpy(&v64, value, 8); return v64;
	}
}

const struct apus_member *apus_wire_select(const struct apus_type *type, int64_t discriminator)
{
	const struct apus_member *fallback = NULL;

	for (uint32_t i = 0; i < type->member_count; i++) {
		const struct apus_member *m = &type->members[i];

		for (uint32_t j = 0; j < m->case_count; j++)
			if (m->cases[j] == discriminator)
				return m;
		if (m->is_default)
			fallback = m;
	}
	return fallback;
}

bool apus_wire_cdr_discriminator(struct apus_wire_cdr *c, const struct apus_type *type,
				 int64_t *value_out)
{
	const struct apus_type *element = type->element;
	size_t bytes = apus_wire_scalar_bytes(element);
	uint8_t value[8] = {0};

	if (!bytes || !apus_wire_cdr_align(c, bytes) || bytes > apus_wire_cdr_left(c))
		return false;
	for (size_t i = 0; i < bytes; i++)
		value[i] = c->base[c->pos + (c->swap ? bytes - 1 - i : i)];
	c->pos += bytes;
	*value_out = apus_wire_load_integer(element, value);
	return element->kind != APUS_KIND_BOOL || value[0] <= 1;
}

static bool read_u16(struct apus_wire_cdr *c, uint16_t *value_out)
{
	uint16_t v;

	if (apus_wire_cdr_left(c) < 2)
		return false;
	memcpy(&v, c->base + c->pos, 2);
	c->pos += 2;
	*value_out = c->swap ? __builtin_bswap16(v) : v;
	return true;
}

/* XTypes 1.3 §7.4.3.4.2: bit 31 must-understand, 28-30 length code, 0-27 id. With codes 5 to 7 the
 * following uint32 is the value's own first one. */
static bool read_emheader(struct apus_wire_cdr *c, struct apus_wire_member_header *out)
{
	uint32_t word, next = 0;
	unsigned int code;
	uint64_t bytes;

	if (!apus_wire_cdr_u32(c, &word))
		return false;
	code = word >> 28 & 7;
	if (code >= 4 && !apus_wire_cdr_u32(c, &next))
		return false;
	if (code > 4)
		c->pos -= 4;
	bytes = code < 4    ? UINT64_C(1) << code
		: code == 4 ? next
			    : 4 + (uint64_t)next * (code == 5   ? 1
						    : code == 6 ? 4
								: 8);
	if (bytes > apus_wire_cdr_left(c))
		return false;
	out->id = word & (APUS_WIRE_MEMBER_ID_END - 1);
	out->must_understand = word >> 31;
	out->list_end = false;
	out->end = c->pos + (size_t)bytes;
	return true;
}

bool apus_wire_cdr_member_header(struct apus_wire_cdr *c, struct apus_wire_member_header *out)
{
	uint16_t pid, short_bytes;
	uint32_t id, bytes;

	if (c->xcdr2)
		return read_emheader(c, out);
	if (!apus_wire_cdr_align(c, 4) || !read_u16(c, &pid) || !read_u16(c, &short_bytes))
		return false;
	id = pid & APUS_WIRE_PID_MASK;
	bytes = short_bytes;
	out->must_understand = pid & APUS_WIRE_PID_MUST_UNDERSTAND;
	out->list_end = id == APUS_WIRE_PID_LIST_END;
	if (id == APUS_WIRE_PID_EXTENDED) {
		if (bytes != 8 || !apus_wire_cdr_u32(c, &id) || !apus_wire_cdr_u32(c, &bytes))
			return false;
		id &= APUS_WIRE_MEMBER_ID_END - 1;
	} else if (id > APUS_WIRE_PID_MEMBER_MAX) {
		id = UINT32_MAX;
	}
	if (bytes > apus_wire_cdr_left(c))
		return false;
	out->id = id;
	out->end = c->pos + bytes;
	return true;
}

bool apus_wire_cdr_find_member(struct apus_wire_cdr *c, uint32_t id,
			       struct apus_wire_member_header *out)
{
	while (c->pos < c->end && apus_wire_cdr_member_header(c, out) && !out->list_end) {
		if (out->id == id)
			return true;
		c->pos = out->end;
	}
	return false;
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
	case APUS_KIND_UNION:
		return c->xcdr2 && type->extensibility != APUS_FINAL
			       ? 4
			       : apus_wire_scalar_bytes(type->element);
	default:
		return type->extensibility == APUS_MUTABLE ||
				       (c->xcdr2 && type->extensibility == APUS_APPENDABLE)
			       ? 4
			       : type->member_count;
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

bool apus_wire_cdr_skip_member(struct apus_wire_cdr *c, const struct apus_member *member, int depth)
{
	struct apus_wire_member_header header;

	if (!member->optional)
		return apus_wire_cdr_skip(c, member->type, depth);
	if (!c->xcdr2) {
		if (!apus_wire_cdr_member_header(c, &header) || header.id != member->id)
			return false;
		c->pos = header.end;
		return true;
	}
	if (apus_wire_cdr_left(c) < 1 || c->base[c->pos] > 1)
		return false;
	return !c->base[c->pos++] || apus_wire_cdr_skip(c, member->type, depth);
}

/* XCDR1: headers to the end of the list. */
static bool skip_member_list(struct apus_wire_cdr *c)
{
	struct apus_wire_member_header header;

	while (apus_wire_cdr_member_header(c, &header)) {
		if (header.list_end)
			return true;
		c->pos = header.end;
	}
	return false;
}

static bool skip_aggregate(struct apus_wire_cdr *c, const struct apus_type *type, int depth)
{
	const struct apus_member *selected;
	size_t object_end;
	int64_t value;

	if (c->xcdr2 && type->extensibility != APUS_FINAL) {
		if (!apus_wire_cdr_dheader(c, &object_end))
			return false;
		c->pos = object_end;
		return true;
	}
	if (type->extensibility == APUS_MUTABLE)
		return skip_member_list(c);
	if (type->kind == APUS_KIND_UNION) {
		if (!apus_wire_cdr_discriminator(c, type, &value))
			return false;
		selected = apus_wire_select(type, value);
		return !selected || apus_wire_cdr_skip(c, selected->type, depth + 1);
	}
	for (uint32_t i = 0; i < type->member_count; i++)
		if (!apus_wire_cdr_skip_member(c, &type->members[i], depth + 1))
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
	case APUS_KIND_STRUCT:
	case APUS_KIND_UNION: return skip_aggregate(c, type, depth);
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
