/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Type descriptors: their check, their bounds, and the built-in ones.
 *
 * Descriptors are static data of the program itself, so the check guards against mistakes (a wrong
 * offset in a hand-written table, a bound that disagrees with a size), not against attacks.
 */
#include "wire/cdr.h"

#define MEMBERS_MAX 256
#define LABELS_MAX  4096

#define PRIMITIVE(symbol, kind_, ctype)   \
	const struct apus_type symbol = { \
		.kind = kind_, .size_bytes = sizeof(ctype), .align_bytes = _Alignof(ctype)}

PRIMITIVE(apus_type_bool, APUS_KIND_BOOL, bool);
PRIMITIVE(apus_type_octet, APUS_KIND_OCTET, uint8_t);
PRIMITIVE(apus_type_char, APUS_KIND_CHAR, char);
PRIMITIVE(apus_type_int8, APUS_KIND_INT8, int8_t);
PRIMITIVE(apus_type_uint8, APUS_KIND_UINT8, uint8_t);
PRIMITIVE(apus_type_int16, APUS_KIND_INT16, int16_t);
PRIMITIVE(apus_type_uint16, APUS_KIND_UINT16, uint16_t);
PRIMITIVE(apus_type_int32, APUS_KIND_INT32, int32_t);
PRIMITIVE(apus_type_uint32, APUS_KIND_UINT32, uint32_t);
PRIMITIVE(apus_type_int64, APUS_KIND_INT64, int64_t);
PRIMITIVE(apus_type_uint64, APUS_KIND_UINT64, uint64_t);
PRIMITIVE(apus_type_float32, APUS_KIND_FLOAT32, float);
PRIMITIVE(apus_type_float64, APUS_KIND_FLOAT64, double);
PRIMITIVE(apus_type_string, APUS_KIND_STRING, char *);

static int check_type(const struct apus_type *type, int depth);

static bool is_name(const char *name)
{
	return name && name[0] != '\0';
}

static int check_labels(const struct apus_type *type)
{
	if (type->label_count > LABELS_MAX || (type->label_count && !type->labels))
		return APUS_EINVAL;
	for (uint32_t i = 0; i < type->label_count; i++) {
		const struct apus_label *label = &type->labels[i];

		if (!is_name(label->name))
			return APUS_EINVAL;
		if (type->kind == APUS_KIND_BITMASK &&
		    (label->value < 0 || label->value >= type->bit_bound))
			return APUS_EINVAL;
		for (uint32_t j = 0; j < i; j++)
			if (type->labels[j].value == label->value ||
			    strcmp(type->labels[j].name, label->name) == 0)
				return APUS_EINVAL;
	}
	return 0;
}

static int check_scalar(const struct apus_type *type)
{
	size_t bytes;

	if (type->kind == APUS_KIND_BITMASK && (type->bit_bound < 1 || type->bit_bound > 64))
		return APUS_EINVAL;
	if (type->kind == APUS_KIND_ENUM && type->label_count == 0)
		return APUS_EINVAL;
	bytes = apus_wire_scalar_bytes(type);
	if (type->size_bytes != bytes || type->align_bytes > bytes)
		return APUS_EINVAL;
	return check_labels(type);
}

static int check_string(const struct apus_type *type)
{
	if (type->bound == 0)
		return type->size_bytes == sizeof(char *) && type->align_bytes == _Alignof(char *)
			       ? 0
			       : APUS_EINVAL;
	/* uint64_t: the bound may be UINT32_MAX. */
	return type->size_bytes == (uint64_t)type->bound + 1 ? 0 : APUS_EINVAL;
}

static int check_collection(const struct apus_type *type, int depth)
{
	const struct apus_type *element = type->element;

	if (!element || check_type(element, depth + 1))
		return APUS_EINVAL;
	if (type->kind == APUS_KIND_SEQUENCE)
		return type->size_bytes == sizeof(struct apus_sequence) &&
				       type->align_bytes == _Alignof(struct apus_sequence)
			       ? 0
			       : APUS_EINVAL;
	if (type->bound == 0 || type->align_bytes < element->align_bytes ||
	    type->size_bytes != (uint64_t)type->bound * element->size_bytes)
		return APUS_EINVAL;
	return 0;
}

static bool is_key_type(const struct apus_type *type)
{
	bool all;

	switch (type->kind) {
	case APUS_KIND_ARRAY: return apus_wire_scalar_bytes(type->element) != 0;
	case APUS_KIND_SEQUENCE: return false;
	case APUS_KIND_STRUCT:
		all = !apus_wire_has_keys(type);
		for (uint32_t i = 0; i < type->member_count; i++)
			if ((all || type->members[i].key) && !is_key_type(type->members[i].type))
				return false;
		return true;
	default: return true;
	}
}

static bool members_clash(const struct apus_member *a, const struct apus_member *b)
{
	return a->id == b->id || strcmp(a->name, b->name) == 0 ||
	       (a->offset_bytes < (uint64_t)b->offset_bytes + b->type->size_bytes &&
		b->offset_bytes < (uint64_t)a->offset_bytes + a->type->size_bytes);
}

static int check_struct(const struct apus_type *type, int depth)
{
	if (type->extensibility > APUS_APPENDABLE || !type->members || type->member_count < 1 ||
	    type->member_count > MEMBERS_MAX || type->size_bytes % type->align_bytes)
		return APUS_EINVAL;
	for (uint32_t i = 0; i < type->member_count; i++) {
		const struct apus_member *m = &type->members[i];

		if (!is_name(m->name) || !m->type || check_type(m->type, depth + 1))
			return APUS_EINVAL;
		if (m->offset_bytes % m->type->align_bytes ||
		    type->align_bytes < m->type->align_bytes ||
		    (uint64_t)m->offset_bytes + m->type->size_bytes > type->size_bytes)
			return APUS_EINVAL;
		if (m->key && !is_key_type(m->type))
			return APUS_EINVAL;
		for (uint32_t j = 0; j < i; j++)
			if (members_clash(m, &type->members[j]))
				return APUS_EINVAL;
	}
	return 0;
}

/* Nesting beyond the limit, and so every cycle, ends here. */
static int check_type(const struct apus_type *type, int depth)
{
	if (depth > APUS_WIRE_TYPE_DEPTH_MAX || type->size_bytes == 0 || type->align_bytes == 0 ||
	    (type->align_bytes & (type->align_bytes - 1)))
		return APUS_EINVAL;
	switch (type->kind) {
	case APUS_KIND_STRING: return check_string(type);
	case APUS_KIND_ARRAY:
	case APUS_KIND_SEQUENCE: return check_collection(type, depth);
	case APUS_KIND_STRUCT: return check_struct(type, depth);
	default: return apus_wire_scalar_bytes(type) ? check_scalar(type) : APUS_EINVAL;
	}
}

int apus_type_check(const struct apus_type *type)
{
	if (!type || type->kind != APUS_KIND_STRUCT || !is_name(type->name))
		return APUS_EINVAL;
	return check_type(type, 0);
}

bool apus_type_is_keyed(const struct apus_type *type)
{
	return type && type->kind == APUS_KIND_STRUCT && apus_wire_has_keys(type);
}

/*
 * Largest size. Where a value ends depends on where it starts modulo 8, and alignment is monotone,
 * so a type is described by eight numbers: the most bytes it advances from each starting residue.
 */
#define UNBOUNDED UINT64_C(0x80000000)

struct advance {
	uint64_t from[8];
	bool unbounded;
};

static void max_advance(const struct apus_type *type, bool xcdr2, int depth, struct advance *out);

static uint64_t align_up(uint64_t pos, size_t align, bool xcdr2)
{
	size_t mask = (xcdr2 && align > 4 ? 4 : align) - 1;

	return (pos + mask) & ~(uint64_t)mask;
}

/* Where `count` elements end that start at `pos`: after eight elements a residue has come back, so
 * from there on whole cycles are added at once. */
static uint64_t advance_many(const struct advance *element, uint64_t pos, uint64_t count)
{
	uint64_t seen_at[8], seen_pos[8];
	bool seen[8] = {false};

	for (uint64_t i = 0; i < count && pos < UNBOUNDED; i++) {
		unsigned int r = pos % 8;

		if (seen[r] && count - i >= i - seen_at[r]) {
			uint64_t cycle = i - seen_at[r], turns = (count - i) / cycle;

			pos += turns * (pos - seen_pos[r]);
			i += turns * cycle;
			memset(seen, 0, sizeof(seen));
			if (i >= count)
				break;
			r = pos % 8;
		}
		seen[r] = true;
		seen_at[r] = i;
		seen_pos[r] = pos;
		pos += element->from[r];
	}
	return pos;
}

static void struct_advance(const struct apus_type *type, bool xcdr2, int depth, struct advance *out)
{
	struct advance member;
	uint64_t pos[8];

	for (unsigned int r = 0; r < 8; r++)
		pos[r] = xcdr2 && type->extensibility == APUS_APPENDABLE ? align_up(r, 4, true) + 4
									 : r;
	for (uint32_t i = 0; i < type->member_count; i++) {
		max_advance(type->members[i].type, xcdr2, depth + 1, &member);
		out->unbounded |= member.unbounded;
		for (unsigned int r = 0; r < 8; r++)
			pos[r] += pos[r] < UNBOUNDED ? member.from[pos[r] % 8] : 0;
	}
	for (unsigned int r = 0; r < 8; r++)
		out->from[r] = pos[r] - r;
}

static void collection_advance(const struct apus_type *type, bool xcdr2, int depth,
			       struct advance *out)
{
	struct advance element;

	max_advance(type->element, xcdr2, depth + 1, &element);
	out->unbounded = element.unbounded || type->bound == 0;
	for (unsigned int r = 0; r < 8; r++) {
		uint64_t pos = r;

		if (xcdr2 && apus_wire_needs_dheader(type->element))
			pos = align_up(pos, 4, xcdr2) + 4;
		if (type->kind == APUS_KIND_SEQUENCE)
			pos = align_up(pos, 4, xcdr2) + 4;
		out->from[r] = advance_many(&element, pos, type->bound) - r;
	}
}

static void max_advance(const struct apus_type *type, bool xcdr2, int depth, struct advance *out)
{
	size_t scalar = apus_wire_scalar_bytes(type);

	memset(out, 0, sizeof(*out));
	if (depth > APUS_WIRE_TYPE_DEPTH_MAX) {
		out->unbounded = true;
	} else if (type->kind == APUS_KIND_STRUCT) {
		struct_advance(type, xcdr2, depth, out);
	} else if (type->kind == APUS_KIND_ARRAY || type->kind == APUS_KIND_SEQUENCE) {
		collection_advance(type, xcdr2, depth, out);
	} else {
		out->unbounded = type->kind == APUS_KIND_STRING && type->bound == 0;
		for (unsigned int r = 0; r < 8; r++)
			out->from[r] = scalar ? align_up(r, scalar, xcdr2) + scalar - r
					      : align_up(r, 4, xcdr2) + 5 + type->bound - r;
	}
}

size_t apus_type_max_bytes(const struct apus_type *type, int representation)
{
	struct advance a;
	uint64_t bytes;

	if (!type || type->kind != APUS_KIND_STRUCT ||
	    (representation != APUS_XCDR1 && representation != APUS_XCDR2))
		return 0;
	max_advance(type, representation == APUS_XCDR2, 0, &a);
	bytes = align_up(a.from[0], 4, false);
	return a.unbounded || bytes >= UNBOUNDED ? 0 : bytes;
}

static const struct apus_type color_string = {
	.kind = APUS_KIND_STRING, .size_bytes = 129, .align_bytes = 1, .bound = 128};
static const struct apus_type octet_sequence = {.kind = APUS_KIND_SEQUENCE,
						.size_bytes = sizeof(struct apus_sequence),
						.align_bytes = _Alignof(struct apus_sequence),
						.element = &apus_type_octet};

static const struct apus_member shape_members[] = {
	{"color", &color_string, offsetof(struct apus_shape, color), 0, true},
	{"x", &apus_type_int32, offsetof(struct apus_shape, x), 1, false},
	{"y", &apus_type_int32, offsetof(struct apus_shape, y), 2, false},
	{"shapesize", &apus_type_int32, offsetof(struct apus_shape, shapesize), 3, false},
};

static const struct apus_member shape_extended_members[] = {
	{"color", &color_string, offsetof(struct apus_shape_extended, color), 0, true},
	{"x", &apus_type_int32, offsetof(struct apus_shape_extended, x), 1, false},
	{"y", &apus_type_int32, offsetof(struct apus_shape_extended, y), 2, false},
	{"shapesize", &apus_type_int32, offsetof(struct apus_shape_extended, shapesize), 3, false},
	{"additional_payload_size", &octet_sequence,
	 offsetof(struct apus_shape_extended, additional_payload_size), 4, false},
};

static const struct apus_member blob_members[] = {
	{"kid", &apus_type_uint32, offsetof(struct apus_blob, kid), 0, true},
	{"data", &octet_sequence, offsetof(struct apus_blob, data), 1, false},
};

#define STRUCT_TYPE(name_, extensibility_, ctype, members_)                                       \
	{                                                                                         \
		.name = name_, .kind = APUS_KIND_STRUCT, .extensibility = extensibility_,         \
		.size_bytes = sizeof(ctype), .align_bytes = _Alignof(ctype), .members = members_, \
		.member_count = sizeof(members_) / sizeof((members_)[0])                          \
	}

const struct apus_type apus_shape_type =
	STRUCT_TYPE("ShapeType", APUS_FINAL, struct apus_shape, shape_members);
const struct apus_type apus_shape_extended_type = STRUCT_TYPE(
	"ShapeTypeExtended", APUS_APPENDABLE, struct apus_shape_extended, shape_extended_members);
const struct apus_type apus_blob_type =
	STRUCT_TYPE("Blob", APUS_FINAL, struct apus_blob, blob_members);

const struct apus_type *apus_type_builtin(const char *name)
{
	static const struct apus_type *const all[] = {&apus_shape_type, &apus_shape_extended_type,
						      &apus_blob_type};

	for (size_t i = 0; name && i < sizeof(all) / sizeof(all[0]); i++)
		if (strcmp(all[i]->name, name) == 0)
			return all[i];
	return NULL;
}
