/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deserialisation of CDR payloads into samples in memory.
 *
 * Payloads are hostile. Each length is proved before it is used (cdr.h), the caller's arena is the
 * only memory that grows with the input, and it is reserved before it is filled. A decode that
 * fails leaves the sample all zero, so no pointer into the arena survives.
 */
#include "wire/program.h"
#include <limits.h>

static int decode_value(struct apus_wire_decoder *d, const struct apus_type *type, void *value,
			int depth);
static int set_default(struct apus_wire_decoder *d, const struct apus_member *m, uint8_t *object,
		       int depth);

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

static int read_scalars(struct apus_wire_decoder *d, const struct apus_type *type, uint8_t *dst,
			size_t count)
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

/* One scalar: as read_scalars(), without its loops and calls. */
static inline int read_scalar(struct apus_wire_decoder *d, const struct apus_type *type,
			      uint8_t *dst)
{
	const size_t bytes = type->size_bytes;
	const uint8_t *src;

	if (d->c.swap || type->kind == APUS_KIND_BOOL || type->kind == APUS_KIND_BITMASK)
		return read_scalars(d, type, dst, 1);
	if (!apus_wire_cdr_align(&d->c, bytes) || bytes > apus_wire_cdr_left(&d->c))
		return APUS_EENCODING;
	src = d->c.base + d->c.pos;
	d->c.pos += bytes;
	switch (bytes) {
	case 1: memcpy(dst, src, 1); break;
	case 2: memcpy(dst, src, 2); break;
	case 4: memcpy(dst, src, 4); break;
	default: memcpy(dst, src, 8); break;
	}
	return 0;
}

static int read_string(struct apus_wire_decoder *d, const struct apus_type *type, void *value)
{
	const char *chars;
	uint32_t length;
	char *copy = value;

	if (!apus_wire_cdr_string(&d->c, type->bound, &chars, &length))
		return APUS_EENCODING;
	if (!type->bound) {
		if (d->borrow) {
			memcpy(value, &chars, sizeof(chars));
			return 0;
		}
		copy = apus_wire_arena_take(d, (size_t)length + 1, 1);
		if (!copy)
			return APUS_ELIMIT;
		memcpy(value, &copy, sizeof(copy));
	}
	memcpy(copy, chars, (size_t)length + 1);
	return 0;
}

/* fresh: the memory comes from the arena and is not zero yet. It is cleared element by element, so
 * that a forged length costs no more than the bytes that back it. */
static int read_elements(struct apus_wire_decoder *d, const struct apus_type *element,
			 uint8_t *data, uint32_t count, bool fresh, int depth)
{
	int rc = 0;

	if (apus_wire_scalar_bytes(element))
		return read_scalars(d, element, data, count);
	if (element->kind == APUS_KIND_STRUCT && count >= 4 && !d->c.swap &&
	    element->extensibility == APUS_FINAL) {
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

/* Numbers any bits of which are values, in native order and aligned in memory, can stay where they
 * are. False: they cannot, or are not all there; nothing has moved. */
static bool borrow_numbers(struct apus_wire_decoder *d, const struct apus_type *element,
			   uint32_t count, void **data_out)
{
	const size_t bytes = apus_wire_scalar_bytes(element);
	struct apus_wire_cdr c = d->c;

	if (!bytes || element->kind == APUS_KIND_BOOL || element->kind == APUS_KIND_BITMASK ||
	    (c.swap && bytes > 1) || !apus_wire_cdr_align(&c, bytes) ||
	    count > apus_wire_cdr_left(&c) / bytes ||
	    !apus_wire_is_aligned(c.base + c.pos, element->align_bytes))
		return false;
	*data_out = (uint8_t *)(uintptr_t)c.base + c.pos;
	d->c.pos = c.pos + count * bytes;
	return true;
}

static int read_sequence(struct apus_wire_decoder *d, const struct apus_type *type,
			 struct apus_sequence *value, int depth)
{
	const struct apus_type *element = type->element;
	uint32_t length;
	size_t bytes;

	if (!apus_wire_cdr_length(&d->c, type, &length))
		return APUS_EENCODING;
	if (length == 0)
		return 0;
	if (d->borrow && borrow_numbers(d, element, length, &value->data)) {
		value->length = length;
		return 0;
	}
	bytes = (size_t)length * element->size_bytes;
	value->data = apus_wire_arena_take(d, bytes, element->align_bytes);
	if (!value->data)
		return APUS_ELIMIT;
	value->length = length;
	return read_elements(d, element, value->data, length, true, depth);
}

/* ARRAY and SEQUENCE. Within a DHEADER the elements must end where it says. */
static int decode_collection(struct apus_wire_decoder *d, const struct apus_type *type, void *value,
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

/* Memory for the value of a member: in place, or from the arena where a pointer holds it. */
static int member_room(struct apus_wire_decoder *d, const struct apus_member *m, uint8_t *object,
		       void **value_out)
{
	void *slot = object + m->offset_bytes, *value;

	*value_out = slot;
	if ((!m->optional && !m->external) || apus_wire_is_open_string(m->type))
		return 0;
	value = apus_wire_arena_take(d, m->type->size_bytes, m->type->align_bytes);
	if (!value)
		return APUS_ELIMIT;
	memset(value, 0, m->type->size_bytes);
	memcpy(slot, &value, sizeof(value));
	*value_out = value;
	return 0;
}

static int decode_member(struct apus_wire_decoder *d, const struct apus_member *m, uint8_t *object,
			 int depth)
{
	void *value;
	int rc = member_room(d, m, object, &value);

	return rc ? rc : decode_value(d, m->type, value, depth + 1);
}

/* ---- absent members ---- */

static void store_label(const struct apus_type *type, int32_t label, void *value)
{
	int8_t v8 = (int8_t)label;
	int16_t v16 = (int16_t)label;

	memcpy(value,
	       type->size_bytes == 1   ? (const void *)&v8
	       : type->size_bytes == 2 ? (const void *)&v16
				       : (const void *)&label,
	       type->size_bytes);
}

static int set_type_default(struct apus_wire_decoder *d, const struct apus_type *type,
			    uint8_t *value, int depth);

/* The discriminator's default, and the default of the case that selects. */
static int set_union_default(struct apus_wire_decoder *d, const struct apus_type *type,
			     uint8_t *value, int depth)
{
	const struct apus_member *selected;
	int rc = set_type_default(d, type->element, value, depth + 1);

	selected = apus_wire_select(type, apus_wire_load_integer(type->element, value));
	return rc || !selected ? rc : set_default(d, selected, value, depth);
}

static int set_type_default(struct apus_wire_decoder *d, const struct apus_type *type,
			    uint8_t *value, int depth)
{
	int rc = 0;

	if (depth > APUS_WIRE_TYPE_DEPTH_MAX)
		return APUS_EENCODING;
	switch (type->kind) {
	case APUS_KIND_ENUM:
		store_label(type, type->labels[type->default_label].value, value);
		return 0;
	case APUS_KIND_ARRAY:
		if (type->element->kind < APUS_KIND_ENUM)
			return 0;
		for (uint32_t i = 0; i < type->bound && !rc; i++)
			rc = set_type_default(d, type->element,
					      value + (size_t)i * type->element->size_bytes,
					      depth + 1);
		return rc;
	case APUS_KIND_STRUCT:
		for (uint32_t i = 0; i < type->member_count && !rc; i++)
			rc = set_default(d, &type->members[i], value, depth);
		return rc;
	case APUS_KIND_UNION: return set_union_default(d, type, value, depth);
	default: return 0;
	}
}

/* An absent member takes its default (XTypes 1.3 §7.2.2.4.4.4.7). The memory is still zero. */
static int set_default(struct apus_wire_decoder *d, const struct apus_member *m, uint8_t *object,
		       int depth)
{
	void *value;
	int rc;

	if (m->optional)
		return 0;
	rc = member_room(d, m, object, &value);
	if (rc)
		return rc;
	if (m->default_value) {
		memcpy(value, m->default_value, m->type->size_bytes);
		return 0;
	}
	return m->type->kind < APUS_KIND_ENUM ? 0 : set_type_default(d, m->type, value, depth + 1);
}

/* ---- structs and unions ---- */

/* Alignment of the first byte of a value under the cursor's representation. */
static size_t leading_align(const struct apus_wire_cdr *c, const struct apus_type *type)
{
	for (int depth = 0; depth <= APUS_WIRE_TYPE_DEPTH_MAX; depth++) {
		if (type->kind == APUS_KIND_STRUCT || type->kind == APUS_KIND_UNION) {
			if (type->extensibility == APUS_MUTABLE ||
			    (c->xcdr2 && type->extensibility == APUS_APPENDABLE))
				return 4;
			if (type->kind == APUS_KIND_STRUCT && type->members[0].optional)
				return c->xcdr2 ? 1 : 4;
			type = type->kind == APUS_KIND_UNION ? type->element
							     : type->members[0].type;
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

/* True if a shorter appendable sample ends before this member: nothing but padding is left. Senders
 * that do not declare their padding (Fast DDS 2.9.1 among them) make this the only sign. */
static bool members_ended(const struct apus_wire_cdr *c, const struct apus_member *next)
{
	size_t align = next->optional ? (c->xcdr2 ? 1 : 4) : leading_align(c, next->type);
	size_t mask = (align < c->align_max ? align : c->align_max) - 1;

	return c->origin + ((c->pos - c->origin + mask) & ~mask) >= c->end;
}

/* The value behind a member header, which ends where the header says (XCDR1: or at padding). */
static int decode_delimited(struct apus_wire_decoder *d, const struct apus_member *m,
			    const struct apus_wire_member_header *header, uint8_t *object,
			    int depth)
{
	size_t outer_end = d->c.end, outer_origin = d->c.origin;
	int rc;

	d->c.end = header->end;
	if (!d->c.xcdr2)
		d->c.origin = d->c.pos;
	rc = decode_member(d, m, object, depth);
	if (!rc && apus_wire_cdr_left(&d->c) >= (d->c.xcdr2 ? 1 : 4))
		rc = APUS_EENCODING;
	d->c.pos = header->end;
	d->c.end = outer_end;
	d->c.origin = outer_origin;
	return rc;
}

static int decode_optional(struct apus_wire_decoder *d, const struct apus_member *m,
			   uint8_t *object, int depth)
{
	struct apus_wire_member_header header;
	uint8_t present;

	if (!d->c.xcdr2) {
		if (!apus_wire_cdr_member_header(&d->c, &header) || header.id != m->id)
			return APUS_EENCODING;
		return header.end == d->c.pos ? 0 : decode_delimited(d, m, &header, object, depth);
	}
	if (apus_wire_cdr_left(&d->c) < 1)
		return APUS_EENCODING;
	present = d->c.base[d->c.pos++];
	if (present > 1)
		return APUS_EENCODING;
	return present ? decode_member(d, m, object, depth) : 0;
}

int apus_wire_decode_member(struct apus_wire_decoder *d, const struct apus_member *m,
			    uint8_t *object, int depth)
{
	return m->optional ? decode_optional(d, m, object, depth)
			   : decode_member(d, m, object, depth);
}

/* Scalars that follow each other, with the position in a register. `*next` is the first member, and
 * then the one behind the run, or the first that does not fit. */
static void read_run(struct apus_wire_decoder *d, const struct apus_type *type, uint8_t *object,
		     uint32_t *next)
{
	const size_t origin = d->c.origin, align_max = d->c.align_max, end = d->c.end;
	const uint8_t *const base = d->c.base;
	size_t pos = d->c.pos;
	uint32_t i;

	for (i = *next; i < type->member_count; i++) {
		const struct apus_member *m = &type->members[i];
		uint8_t *dst = object + m->offset_bytes;
		size_t bytes = m->type->size_bytes, gap;

		if (!apus_wire_is_copied(m))
			break;
		gap = -(pos - origin) & ((bytes < align_max ? bytes : align_max) - 1);
		if (gap + bytes > end - pos)
			break;
		pos += gap;
		switch (bytes) {
		case 1: memcpy(dst, base + pos, 1); break;
		case 2: memcpy(dst, base + pos, 2); break;
		case 4: memcpy(dst, base + pos, 4); break;
		default: memcpy(dst, base + pos, 8); break;
		}
		pos += bytes;
	}
	d->c.pos = pos;
	*next = i;
}

static int decode_members(struct apus_wire_decoder *d, const struct apus_type *type,
			  uint8_t *object, bool may_end, int depth)
{
	int rc = 0;

	for (uint32_t i = 0; i < type->member_count && !rc; i++) {
		const struct apus_member *m;

		if (!d->c.swap)
			read_run(d, type, object, &i);
		if (i == type->member_count)
			return 0;
		m = &type->members[i];
		if (may_end && members_ended(&d->c, m)) {
			for (; i < type->member_count && !rc; i++)
				rc = set_default(d, &type->members[i], object, depth);
			return rc;
		}
		rc = apus_wire_decode_member(d, m, object, depth);
	}
	return rc;
}

/* Index of the member with this id; members usually come in order, so the search starts behind the
 * last one. member_count if there is none. */
static uint32_t find_by_id(const struct apus_type *type, uint32_t id, uint32_t from)
{
	for (uint32_t n = 0; n < type->member_count; n++) {
		uint32_t i = from + n;

		if (i >= type->member_count)
			i -= type->member_count;
		if (type->members[i].id == id)
			return i;
	}
	return type->member_count;
}

/* One header and its member. `seen` has a bit for each member. */
static int decode_listed(struct apus_wire_decoder *d, const struct apus_type *type, uint8_t *object,
			 const struct apus_wire_member_header *header, uint32_t *next,
			 uint64_t *seen, int depth)
{
	uint32_t i = find_by_id(type, header->id, *next);

	if (i == type->member_count) {
		d->c.pos = header->end;
		return header->must_understand ? APUS_EENCODING : 0;
	}
	/* A second value would leak the first one's memory and mean nothing. */
	if (seen[i / 64] >> (i % 64) & 1)
		return APUS_EENCODING;
	seen[i / 64] |= UINT64_C(1) << (i % 64);
	*next = i + 1;
	return decode_delimited(d, &type->members[i], header, object, depth);
}

/* Members with headers: to the end of the object under XCDR2, to the end of the list under XCDR1. */
static int decode_mutable(struct apus_wire_decoder *d, const struct apus_type *type,
			  uint8_t *object, int depth)
{
	uint64_t seen[4] = {0}; /* 256 members at most, see apus_type_check() */
	struct apus_wire_member_header header;
	const bool all = !d->key_only || (depth > 0 && !apus_wire_has_keys(type));
	uint32_t next = 0;
	int rc = 0;

	while (!rc && !(d->c.xcdr2 && d->c.pos == d->c.end)) {
		if (!apus_wire_cdr_member_header(&d->c, &header))
			return APUS_EENCODING;
		if (header.list_end)
			break;
		rc = decode_listed(d, type, object, &header, &next, seen, depth);
	}
	for (uint32_t i = 0; i < type->member_count && !rc; i++) {
		if (seen[i / 64] >> (i % 64) & 1)
			continue;
		if (!d->key_only)
			rc = set_default(d, &type->members[i], object, depth);
		else if (all || type->members[i].key)
			rc = APUS_EENCODING;
	}
	return rc;
}

/* The members of a key-only struct: see encode_key_struct(). None of them may be missing. */
static int decode_keys(struct apus_wire_decoder *d, const struct apus_type *type, uint8_t *value,
		       int depth)
{
	const bool all = depth > 0 && !apus_wire_has_keys(type);
	const struct apus_member *m;
	int64_t last = -1;
	int rc = 0;

	while (d->keys_by_id && !rc && (m = apus_wire_next_by_id(type, all, &last)) != NULL)
		rc = decode_member(d, m, value, depth);
	for (uint32_t i = 0; !d->keys_by_id && !rc && i < type->member_count; i++) {
		m = &type->members[i];
		if (all || m->key)
			rc = decode_member(d, m, value, depth);
	}
	return rc;
}

static bool read_plain(struct apus_wire_decoder *d, const struct apus_type *type, void *value,
		       int *rc)
{
	size_t align = type->align_bytes < d->c.align_max ? type->align_bytes : d->c.align_max;

	if (!apus_wire_says_plain(type, d->c.xcdr2) || d->c.swap ||
	    ((d->c.pos - d->c.origin) & (align - 1)))
		return false;
	*rc = APUS_EENCODING;
	if (type->size_bytes > apus_wire_cdr_left(&d->c))
		return true;
	memcpy(value, d->c.base + d->c.pos, type->size_bytes);
	d->c.pos += type->size_bytes;
	*rc = 0;
	return true;
}

/* An appendable struct may be shorter (older sender) or longer (newer sender) than ours: under
 * XCDR2 its DHEADER says where it ends; under XCDR1 only the outermost one has a known end. */
static int decode_struct(struct apus_wire_decoder *d, const struct apus_type *type, void *value,
			 int depth)
{
	const bool dheader = type->extensibility != APUS_FINAL && d->c.xcdr2 && !d->keys_by_id;
	const bool may_end = type->extensibility == APUS_APPENDABLE && (dheader || depth == 0);
	size_t outer_end = d->c.end, object_end;
	int rc;

	if (!d->key_only && read_plain(d, type, value, &rc))
		return rc;
	if (dheader) {
		if (!apus_wire_cdr_dheader(&d->c, &object_end))
			return APUS_EENCODING;
		d->c.end = object_end;
	}
	if (d->key_only && (d->keys_by_id || type->extensibility != APUS_MUTABLE))
		rc = decode_keys(d, type, value, depth);
	else if (type->extensibility == APUS_MUTABLE)
		rc = decode_mutable(d, type, value, depth);
	else
		rc = decode_members(d, type, value, may_end, depth);
	if (!rc && dheader)
		d->c.pos = d->c.end;
	d->c.end = outer_end;
	return rc;
}

/* A discriminator that selects nothing is a value without a member. An appendable union is as long
 * as its DHEADER says. */
static int decode_union(struct apus_wire_decoder *d, const struct apus_type *type, void *value,
			int depth)
{
	const bool dheader = type->extensibility != APUS_FINAL && d->c.xcdr2;
	const struct apus_member *selected;
	size_t outer_end = d->c.end, object_end;
	int rc;

	if (dheader) {
		if (!apus_wire_cdr_dheader(&d->c, &object_end))
			return APUS_EENCODING;
		d->c.end = object_end;
	}
	rc = read_scalars(d, type->element, value, 1);
	selected = apus_wire_select(type, apus_wire_load_integer(type->element, value));
	if (!rc && selected)
		rc = decode_member(d, selected, value, depth);
	if (!rc && dheader)
		d->c.pos = d->c.end;
	d->c.end = outer_end;
	return rc;
}

static int decode_value(struct apus_wire_decoder *d, const struct apus_type *type, void *value,
			int depth)
{
	if (depth > APUS_WIRE_TYPE_DEPTH_MAX)
		return APUS_EENCODING;
	switch (type->kind) {
	case APUS_KIND_STRING: return read_string(d, type, value);
	case APUS_KIND_ARRAY:
	case APUS_KIND_SEQUENCE: return decode_collection(d, type, value, depth);
	case APUS_KIND_STRUCT: return decode_struct(d, type, value, depth);
	case APUS_KIND_UNION: return decode_union(d, type, value, depth);
	default: return read_scalar(d, type, value);
	}
}

/* Bytes after the last member: of a newer appendable type under XCDR1, else padding at most. Of the two
 * forms of a key-only payload the one that ends exactly is looked for first. */
static bool end_acceptable(const struct apus_wire_decoder *d, const struct apus_type *type)
{
	if (d->key_only)
		return apus_wire_cdr_left(&d->c) <= d->slack;
	if (!d->c.xcdr2 && type->extensibility == APUS_APPENDABLE)
		return true;
	return apus_wire_cdr_left(&d->c) < 4;
}

static int decode_once(struct apus_wire_decoder *d, const struct apus_type *type, void *sample)
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

/* A fixed layout whole. Native order, where the bytes are all there and nothing else is. */
static bool decode_plain(struct apus_wire_decoder *d, const struct apus_type *type, void *sample)
{
	if (!apus_wire_says_plain(type, d->c.xcdr2) || d->c.swap || d->c.end < type->size_bytes ||
	    d->c.end - type->size_bytes >= 4)
		return false;
	apus_wire_copy_short(sample, d->c.base, type->size_bytes);
	return true;
}

static bool run(struct apus_wire_decoder *d, const struct apus_type *type, void *sample)
{
	const struct apus_op *ops = d->c.xcdr2 ? type->ops_xcdr2 : type->ops_xcdr1;

	return ops && !d->c.swap && apus_wire_program_decode(ops, d, sample) &&
	       end_acceptable(d, type) && d->arena_used <= INT_MAX;
}

/* Interop: key-only payloads of Cyclone 0.10.2 are ordered by member id and lack the DHEADERs of
 * structs; XTypes has both otherwise. A string's NULs and the exact end tell the two apart, in the same
 * order as apus_wire_key_extract() has it, so that sample and instance agree. */
static int decode_key_only(struct apus_wire_decoder *d, const struct apus_type *type, void *sample)
{
	const bool may_declare = d->c.xcdr2 || d->c.members;
	int rc = APUS_EENCODING;

	for (d->slack = 0; d->slack <= 3; d->slack += 3)
		for (int by_id = 1; by_id >= !may_declare; by_id--) {
			d->keys_by_id = by_id;
			rc = decode_once(d, type, sample);
			if (rc != APUS_EENCODING)
				return rc;
		}
	return rc;
}

static int decode(struct apus_wire_decoder *d, const struct apus_type *type, const void *payload,
		  size_t payload_bytes, bool may_run, void *sample)
{
	const bool key_only = d->key_only;
	int rc;

	if (!type || !payload || !sample || type->kind != APUS_KIND_STRUCT)
		return APUS_EINVAL;
	rc = apus_wire_cdr_open(&d->c, payload, payload_bytes);
	if (!rc && !apus_wire_cdr_fits(&d->c, type))
		rc = APUS_EENCODING;
	if (rc) {
		memset(sample, 0, type->size_bytes);
		return rc;
	}
	if (!key_only && decode_plain(d, type, sample))
		return 0;
	if (!key_only && may_run && run(d, type, sample))
		return (int)d->arena_used;
	return key_only ? decode_key_only(d, type, sample) : decode_once(d, type, sample);
}

int apus_wire_cdr_decode(const struct apus_type *type, const void *payload, size_t payload_bytes,
			 bool key_only, void *sample, void *arena, size_t arena_bytes)
{
	struct apus_wire_decoder d = {
		.arena = arena, .arena_bytes = arena ? arena_bytes : 0, .key_only = key_only};

	return decode(&d, type, payload, payload_bytes, false, sample);
}

int apus_type_decode(const struct apus_type *type, const void *payload, size_t payload_bytes,
		     bool key_only, void *sample, void *arena, size_t arena_bytes)
{
	struct apus_wire_decoder d = {
		.arena = arena, .arena_bytes = arena ? arena_bytes : 0, .key_only = key_only};

	return decode(&d, type, payload, payload_bytes, true, sample);
}

int apus_type_view(const struct apus_type *type, const void *payload, size_t payload_bytes,
		   bool key_only, void *sample, void *arena, size_t arena_bytes)
{
	struct apus_wire_decoder d = {.arena = arena,
				      .arena_bytes = arena ? arena_bytes : 0,
				      .key_only = key_only,
				      .borrow = true};

	return decode(&d, type, payload, payload_bytes, true, sample);
}
