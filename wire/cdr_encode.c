/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serialisation of samples in memory into CDR payloads.
 *
 * The sample is the caller's own memory and its pointers are trusted, but lengths are held against
 * the type's bounds, so nothing that a peer must refuse ever leaves. Padding is written as zeros:
 * no memory contents leak onto the wire.
 */
#include "wire/program.h"
#include <limits.h>

static int encode_value(struct apus_wire_encoder *e, const struct apus_type *type,
			const void *value, int depth);

static void copy_swapped(uint8_t *dst, const uint8_t *src, size_t bytes, size_t count)
{
	for (size_t i = 0; i < count; i++, src += bytes, dst += bytes)
		for (size_t b = 0; b < bytes; b++)
			dst[b] = src[bytes - 1 - b];
}

/* Bools become 0 or 1 whatever the memory holds; bits of a bitmask beyond its bound are refused. */
static int normalise(const struct apus_wire_encoder *e, const struct apus_type *type,
		     const uint8_t *src, size_t count)
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

static int write_scalars(struct apus_wire_encoder *e, const struct apus_type *type, const void *src,
			 size_t count)
{
	size_t bytes = apus_wire_scalar_bytes(type);
	int rc;

	if (count == 0)
		return 0;
	rc = apus_wire_write_align(e, bytes);
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

/* One scalar: as write_scalars(), without its loops and calls. */
static inline int write_scalar(struct apus_wire_encoder *e, const struct apus_type *type,
			       const void *src)
{
	const size_t bytes = type->size_bytes;
	uint8_t *dst;

	if (e->swap || type->kind == APUS_KIND_BOOL || type->kind == APUS_KIND_BITMASK)
		return write_scalars(e, type, src, 1);
	if (apus_wire_write_align(e, bytes) || bytes > e->end - e->pos)
		return APUS_ELIMIT;
	dst = e->base + e->pos;
	e->pos += bytes;
	switch (bytes) {
	case 1: memcpy(dst, src, 1); break;
	case 2: memcpy(dst, src, 2); break;
	case 4: memcpy(dst, src, 4); break;
	default: memcpy(dst, src, 8); break;
	}
	return 0;
}

static int write_string(struct apus_wire_encoder *e, const struct apus_type *type,
			const void *value)
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
	rc = apus_wire_write_u32(e, (uint32_t)length + 1);
	if (rc)
		return rc;
	if (length + 1 > e->end - e->pos)
		return APUS_ELIMIT;
	apus_wire_copy_short(e->base + e->pos, chars, length + 1); /* with its NUL */
	e->pos += length + 1;
	return 0;
}

/* Structs whose memory is their CDR image go in one copy, unless there are too few to pay for
 * finding that out. */
static int write_elements(struct apus_wire_encoder *e, const struct apus_type *element,
			  const uint8_t *data, uint32_t count, int depth)
{
	int rc = 0;

	if (apus_wire_scalar_bytes(element))
		return write_scalars(e, element, data, count);
	if (element->kind == APUS_KIND_STRUCT && count >= 4 && !e->swap &&
	    element->extensibility == APUS_FINAL) {
		size_t align, plain = apus_wire_plain_bytes(
				      element, e->xcdr2 ? APUS_XCDR2 : APUS_XCDR1, &align);

		if (plain) {
			rc = apus_wire_write_align(e, align);
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
static int encode_collection(struct apus_wire_encoder *e, const struct apus_type *type,
			     const void *value, int depth)
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
		rc = apus_wire_write_u32(e, 0);
		if (rc)
			return rc;
	}
	start = e->pos;
	if (is_sequence) {
		rc = apus_wire_write_u32(e, count);
		if (rc)
			return rc;
	}
	rc = write_elements(e, type->element, data, count, depth);
	if (!rc && dheader)
		apus_wire_store_u32(e, start - 4, (uint32_t)(e->pos - start));
	return rc;
}

/* The value of a member that must be there. */
static int encode_present(struct apus_wire_encoder *e, const struct apus_member *m,
			  const uint8_t *object, int depth)
{
	const void *value = apus_wire_member_value(m, object);

	return value ? encode_value(e, m->type, value, depth + 1) : APUS_EENCODING;
}

/*
 * A struct of a key-only payload: its key members, or all if none is marked (XTypes 1.3
 * §7.2.2.4.4.3; a keyless outermost struct has none to write).
 * Interop: Cyclone 0.10.2 orders them by member id and writes neither DHEADER nor member headers,
 * even for appendable and mutable types.
 */
static int encode_key_struct(struct apus_wire_encoder *e, const struct apus_type *type,
			     const uint8_t *value, int depth)
{
	const bool all = depth > 0 && !apus_wire_has_keys(type);
	const struct apus_member *m;
	int64_t last = -1;
	int rc = 0;

	while (!rc && (m = apus_wire_next_by_id(type, all, &last)) != NULL)
		rc = encode_present(e, m, value, depth);
	return rc;
}

/* Writes a DHEADER to be completed by end_object(). `*start_out` is where the object begins. */
static int begin_object(struct apus_wire_encoder *e, size_t *start_out)
{
	int rc = apus_wire_write_u32(e, 0);

	*start_out = e->pos;
	return rc;
}

static void end_object(struct apus_wire_encoder *e, size_t start)
{
	apus_wire_store_u32(e, start - 4, (uint32_t)(e->pos - start));
}

/* EMHEADER length code of a value that starts with its own length in bytes or elements (XTypes 1.3
 * §7.4.3.4.2), or has a fixed size; 4 where a NEXTINT is needed. Interop: the codes Cyclone 0.10.2
 * chooses. */
static unsigned int length_code(const struct apus_type *type)
{
	static const uint8_t by_size[] = {[1] = 0, [2] = 1, [4] = 2, [8] = 3};
	static const uint8_t by_element[] = {[1] = 5, [2] = 4, [4] = 6, [8] = 7};
	size_t scalar = apus_wire_scalar_bytes(type);

	if (scalar)
		return by_size[scalar];
	switch (type->kind) {
	case APUS_KIND_STRING: return 5;
	case APUS_KIND_SEQUENCE:
	case APUS_KIND_ARRAY:
		if (apus_wire_needs_dheader(type->element))
			return 5;
		return type->kind == APUS_KIND_ARRAY
			       ? 4
			       : by_element[apus_wire_scalar_bytes(type->element)];
	default: return 4;
	}
}

static int write_xcdr2_member(struct apus_wire_encoder *e, const struct apus_member *m,
			      const void *value, int depth)
{
	const uint32_t must_understand = m->must_understand || m->key;
	const unsigned int code = length_code(m->type);
	size_t start;
	int rc;

	rc = apus_wire_write_u32(e, must_understand << 31 | code << 28 | m->id);
	if (rc)
		return rc;
	if (code != 4)
		return encode_value(e, m->type, value, depth + 1);
	rc = begin_object(e, &start);
	if (rc)
		return rc;
	rc = encode_value(e, m->type, value, depth + 1);
	if (!rc)
		end_object(e, start);
	return rc;
}

static void store_u16(const struct apus_wire_encoder *e, size_t pos, uint32_t value)
{
	uint16_t v = (uint16_t)value;

	if (e->swap)
		v = __builtin_bswap16(v);
	memcpy(e->base + pos, &v, 2);
}

/* Turns the short header before the value at `start` into an extended one. Alignment within the
 * value refers to its own start, so it can be moved. */
static int extend_header(struct apus_wire_encoder *e, size_t start, uint32_t id,
			 bool must_understand)
{
	size_t bytes = e->pos - start;

	if (e->end - e->pos < 8)
		return APUS_ELIMIT;
	memmove(e->base + start + 8, e->base + start, bytes);
	store_u16(e, start - 4,
		  APUS_WIRE_PID_EXTENDED | (must_understand ? APUS_WIRE_PID_MUST_UNDERSTAND : 0));
	store_u16(e, start - 2, 8);
	apus_wire_store_u32(e, start, id);
	apus_wire_store_u32(e, start + 4, (uint32_t)bytes);
	e->pos += 8;
	return 0;
}

/* A member with an XCDR1 parameter header; value NULL: absent, length 0. */
static int write_xcdr1_member(struct apus_wire_encoder *e, const struct apus_member *m,
			      const void *value, int depth)
{
	const bool must_understand = m->must_understand || m->key;
	size_t outer = e->origin, start;
	int rc = apus_wire_write_align(e, 4);

	if (!rc)
		rc = begin_object(e, &start);
	if (rc)
		return rc;
	e->origin = start;
	if (value)
		rc = encode_value(e, m->type, value, depth + 1);
	e->origin = outer;
	if (rc)
		return rc;
	if (m->id > APUS_WIRE_PID_MEMBER_MAX || e->pos - start > UINT16_MAX)
		return extend_header(e, start, m->id, must_understand);
	store_u16(e, start - 4, m->id | (must_understand ? APUS_WIRE_PID_MUST_UNDERSTAND : 0));
	store_u16(e, start - 2, (uint32_t)(e->pos - start));
	return 0;
}

static int encode_optional(struct apus_wire_encoder *e, const struct apus_member *m,
			   const uint8_t *object, int depth)
{
	const void *value = apus_wire_member_value(m, object);

	if (!e->xcdr2)
		return write_xcdr1_member(e, m, value, depth);
	if (e->pos == e->end)
		return APUS_ELIMIT;
	e->base[e->pos++] = value != NULL;
	return value ? encode_value(e, m->type, value, depth + 1) : 0;
}

/* Members with headers, in declaration order; XCDR1 closes the list. */
static int encode_mutable(struct apus_wire_encoder *e, const struct apus_type *type,
			  const uint8_t *object, int depth)
{
	int rc = 0;

	for (uint32_t i = 0; i < type->member_count && !rc; i++) {
		const struct apus_member *m = &type->members[i];
		const void *value = apus_wire_member_value(m, object);

		if (value)
			rc = e->xcdr2 ? write_xcdr2_member(e, m, value, depth)
				      : write_xcdr1_member(e, m, value, depth);
		else if (!m->optional)
			rc = APUS_EENCODING;
	}
	if (rc || e->xcdr2)
		return rc;
	rc = apus_wire_write_u32(e, 0);
	if (!rc)
		store_u16(e, e->pos - 4, APUS_WIRE_PID_LIST_END);
	return rc;
}

/* Fixed layout: the memory is the body. False where the position does not allow it. */
static bool write_plain(struct apus_wire_encoder *e, const struct apus_type *type,
			const void *value, int *rc)
{
	size_t align = type->align_bytes < e->align_max ? type->align_bytes : e->align_max;

	if (!apus_wire_says_plain(type, e->xcdr2) || e->swap ||
	    ((e->pos - e->origin) & (align - 1)))
		return false;
	*rc = APUS_ELIMIT;
	if (type->size_bytes > e->end - e->pos)
		return true;
	memcpy(e->base + e->pos, value, type->size_bytes);
	e->pos += type->size_bytes;
	*rc = 0;
	return true;
}

/* Scalars that follow each other, with the position in a register: a store of bytes might change *e
 * for all the compiler knows. Not inlined, or the recursion around it takes the registers. `*next` is
 * the first member, and then the one behind the run. */
static __attribute__((noinline)) int write_run(struct apus_wire_encoder *e,
					       const struct apus_type *type, const uint8_t *value,
					       uint32_t *next)
{
	const size_t origin = e->origin, align_max = e->align_max, end = e->end;
	uint8_t *const base = e->base;
	size_t pos = e->pos;
	uint32_t i;

	for (i = *next; i < type->member_count; i++) {
		const struct apus_member *m = &type->members[i];
		const uint8_t *src = value + m->offset_bytes;
		size_t bytes = m->type->size_bytes, gap;

		if (!apus_wire_is_copied(m))
			break;
		gap = -(pos - origin) & ((bytes < align_max ? bytes : align_max) - 1);
		if (gap + bytes > end - pos)
			return APUS_ELIMIT;
		for (; gap; gap--)
			base[pos++] = 0;
		switch (bytes) {
		case 1: memcpy(base + pos, src, 1); break;
		case 2: memcpy(base + pos, src, 2); break;
		case 4: memcpy(base + pos, src, 4); break;
		default: memcpy(base + pos, src, 8); break;
		}
		pos += bytes;
	}
	e->pos = pos;
	*next = i;
	return 0;
}

int apus_wire_encode_member(struct apus_wire_encoder *e, const struct apus_member *m,
			    const uint8_t *object, int depth)
{
	return m->optional ? encode_optional(e, m, object, depth)
			   : encode_present(e, m, object, depth);
}

static int encode_members(struct apus_wire_encoder *e, const struct apus_type *type,
			  const uint8_t *value, int depth)
{
	int rc = 0;

	for (uint32_t i = 0; i < type->member_count && !rc; i++) {
		const struct apus_member *m = &type->members[i];

		if (apus_wire_is_copied(m) && !e->swap) {
			rc = write_run(e, type, value, &i);
			i--;
		} else {
			rc = apus_wire_encode_member(e, m, value, depth);
		}
	}
	return rc;
}

static int encode_struct(struct apus_wire_encoder *e, const struct apus_type *type,
			 const uint8_t *value, int depth)
{
	const bool dheader = e->xcdr2 && type->extensibility != APUS_FINAL;
	size_t start = 0;
	int rc = 0;

	if (write_plain(e, type, value, &rc))
		return rc;
	if (dheader)
		rc = begin_object(e, &start);
	if (!rc)
		rc = type->extensibility == APUS_MUTABLE ? encode_mutable(e, type, value, depth)
							 : encode_members(e, type, value, depth);
	if (!rc && dheader)
		end_object(e, start);
	return rc;
}

static int encode_union(struct apus_wire_encoder *e, const struct apus_type *type,
			const uint8_t *value, int depth)
{
	const bool dheader = e->xcdr2 && type->extensibility != APUS_FINAL;
	const struct apus_member *selected;
	size_t start = 0;
	int rc = 0;

	if (dheader)
		rc = begin_object(e, &start);
	if (!rc)
		rc = write_scalars(e, type->element, value, 1);
	selected = apus_wire_select(type, apus_wire_load_integer(type->element, value));
	if (!rc && selected)
		rc = encode_present(e, selected, value, depth);
	if (!rc && dheader)
		end_object(e, start);
	return rc;
}

static int encode_value(struct apus_wire_encoder *e, const struct apus_type *type,
			const void *value, int depth)
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
	case APUS_KIND_UNION: return encode_union(e, type, value, depth);
	default: return write_scalar(e, type, value);
	}
}

static inline void write_encapsulation(uint8_t *out, const struct apus_type *type, bool xcdr2,
				       bool big_endian, unsigned int padding)
{
	unsigned int id = apus_wire_encap_of(type, xcdr2);
	const uint8_t header[4] = {0, (uint8_t)(big_endian ? id - 1 : id), 0, (uint8_t)padding};

	memcpy(out, header, sizeof(header));
}

/* Everything: by the program where the type has one and the caller allows it. */
static inline int encode(const struct apus_type *type, const void *sample, int representation,
			 bool key_only, bool big_endian, bool may_run, void *out, size_t out_bytes)
{
	struct apus_wire_encoder e = {
		.base = (uint8_t *)out + APUS_WIRE_ENCAP_BYTES,
		.xcdr2 = representation == APUS_XCDR2,
		.align_max = representation == APUS_XCDR2 ? 4 : 8,
		.swap = big_endian != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__),
		.key_only = key_only,
	};
	const struct apus_op *ops;
	size_t body;
	int rc;

	if (!type || !sample || !out || type->kind != APUS_KIND_STRUCT ||
	    (representation != APUS_XCDR1 && representation != APUS_XCDR2))
		return APUS_EINVAL;
	if (out_bytes < APUS_WIRE_ENCAP_BYTES)
		return APUS_ELIMIT;
	/* The result is an int and DHEADERs are 32 bits: larger payloads do not exist. */
	e.end = (out_bytes > INT_MAX ? INT_MAX : out_bytes) - APUS_WIRE_ENCAP_BYTES;
	ops = e.xcdr2 ? type->ops_xcdr2 : type->ops_xcdr1;
	if (ops && may_run && !key_only && !e.swap)
		rc = apus_wire_program_encode(ops, &e, sample);
	else
		rc = encode_value(&e, type, sample, 0);
	if (rc)
		return rc;
	body = e.pos;
	rc = apus_wire_write_align(&e, 4);
	if (rc)
		return rc;
	write_encapsulation(out, type, e.xcdr2, big_endian, (unsigned int)(e.pos - body));
	return (int)(APUS_WIRE_ENCAP_BYTES + e.pos);
}

int apus_wire_cdr_encode(const struct apus_type *type, const void *sample, int representation,
			 bool key_only, bool big_endian, void *out, size_t out_bytes)
{
	return encode(type, sample, representation, key_only, big_endian, false, out, out_bytes);
}

int apus_wire_cdr_encode_key(const struct apus_type *type, const void *sample, uint8_t *out,
			     size_t out_bytes)
{
	struct apus_wire_encoder e = {
		.base = out,
		.end = out_bytes > INT_MAX ? INT_MAX : out_bytes,
		.xcdr2 = true,
		.align_max = 4,
		.swap = __BYTE_ORDER__ != __ORDER_BIG_ENDIAN__,
		.key_only = true,
	};
	int rc = encode_value(&e, type, sample, 0);

	return rc ? rc : (int)e.pos;
}

/* True if the memory image is the body, padding included; such types are final. */
static inline bool is_copied_whole(const struct apus_type *type, int representation)
{
	bool plain = representation == APUS_XCDR1
			     ? type->plain_xcdr1
			     : representation == APUS_XCDR2 && type->plain_xcdr2;

	return plain && type->size_bytes % 4 == 0;
}

int apus_type_encode(const struct apus_type *type, const void *sample, int representation,
		     bool key_only, void *out, size_t out_bytes)
{
	/* A fixed layout whole: the copy, and nothing that comes before a walk. */
	if (type && sample && out && !key_only && is_copied_whole(type, representation) &&
	    out_bytes >= APUS_WIRE_ENCAP_BYTES + (size_t)type->size_bytes) {
		const uint8_t header[4] = {0, representation == APUS_XCDR1 ? APUS_WIRE_CDR_LE
									   : APUS_WIRE_CDR2_LE};

		memcpy(out, header, sizeof(header));
		apus_wire_copy_short((uint8_t *)out + sizeof(header), sample, type->size_bytes);
		return (int)(APUS_WIRE_ENCAP_BYTES + type->size_bytes);
	}
	return encode(type, sample, representation, key_only, false, true, out, out_bytes);
}
