/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Type descriptors: their check, their bounds, and the built-in ones.
 *
 * Descriptors are static data of the program itself, so the check guards against mistakes (a wrong
 * offset in a hand-written table, a bound that disagrees with a size), not against attacks.
 */
#include "wire/program.h"

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
		/* An enum is a signed integer of bit_bound bits (XTypes 1.3 §7.3.1.2.1.5). */
		if (type->kind == APUS_KIND_ENUM && type->bit_bound &&
		    (int64_t)label->value >> (type->bit_bound - 1) != (label->value < 0 ? -1 : 0))
			return APUS_EINVAL;
		for (uint32_t j = 0; j < i; j++)
			if (type->labels[j].value == label->value ||
			    strcmp(type->labels[j].name, label->name) == 0)
				return APUS_EINVAL;
	}
	return 0;
}

/* The size a scalar must have, on the wire and in memory; 0 for what is none. */
static size_t scalar_bytes(const struct apus_type *type)
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
	case APUS_KIND_FLOAT32: return 4;
	case APUS_KIND_INT64:
	case APUS_KIND_UINT64:
	case APUS_KIND_FLOAT64: return 8;
	case APUS_KIND_ENUM:
		if (type->bit_bound == 0)
			return 4;
		/* fall through */
	case APUS_KIND_BITMASK:
		return type->bit_bound <= 8    ? 1
		       : type->bit_bound <= 16 ? 2
		       : type->bit_bound <= 32 ? 4
					       : 8;
	default: return 0;
	}
}

static int check_scalar(const struct apus_type *type)
{
	size_t bytes;

	if (type->kind == APUS_KIND_BITMASK && (type->bit_bound < 1 || type->bit_bound > 64))
		return APUS_EINVAL;
	if (type->kind == APUS_KIND_ENUM &&
	    (type->bit_bound > 32 || type->default_label >= type->label_count))
		return APUS_EINVAL;
	bytes = scalar_bytes(type);
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

static bool dims_valid(const struct apus_type *type)
{
	uint64_t product = 1;

	if (type->dim_count == 0)
		return true;
	if (!type->dims || type->dim_count < 2)
		return false;
	for (uint32_t i = 0; i < type->dim_count && product <= type->bound; i++)
		product *= type->dims[i];
	return product == type->bound;
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
	if (type->bound == 0 || type->align_bytes < element->align_bytes || !dims_valid(type) ||
	    type->size_bytes != (uint64_t)type->bound * element->size_bytes)
		return APUS_EINVAL;
	return 0;
}

static bool is_key_type(const struct apus_type *type)
{
	bool all;

	switch (type->kind) {
	case APUS_KIND_ARRAY: return apus_wire_scalar_bytes(type->element) != 0;
	case APUS_KIND_SEQUENCE:
	case APUS_KIND_UNION: return false;
	case APUS_KIND_STRUCT:
		all = !apus_wire_has_keys(type);
		for (uint32_t i = 0; i < type->member_count; i++)
			if ((all || type->members[i].key) &&
			    (type->members[i].optional || !is_key_type(type->members[i].type)))
				return false;
		return true;
	default: return true;
	}
}

/* A member as it lies in its object: a pointer, or the value itself. */
static uint32_t slot_bytes(const struct apus_member *m)
{
	return m->optional || m->external ? sizeof(void *) : m->type->size_bytes;
}

static uint32_t slot_align(const struct apus_member *m)
{
	return m->optional || m->external ? _Alignof(void *) : m->type->align_bytes;
}

static bool slots_overlap(const struct apus_member *a, const struct apus_member *b)
{
	return a->offset_bytes < (uint64_t)b->offset_bytes + slot_bytes(b) &&
	       b->offset_bytes < (uint64_t)a->offset_bytes + slot_bytes(a);
}

static int check_member(const struct apus_type *type, const struct apus_member *m, int depth)
{
	if (!is_name(m->name) || !m->type || check_type(m->type, depth + 1) ||
	    m->id >= APUS_WIRE_MEMBER_ID_END || (m->optional && m->default_value))
		return APUS_EINVAL;
	if (m->offset_bytes % slot_align(m) || type->align_bytes < slot_align(m) ||
	    (uint64_t)m->offset_bytes + slot_bytes(m) > type->size_bytes)
		return APUS_EINVAL;
	for (const struct apus_member *other = type->members; other < m; other++)
		if (m->id == other->id || strcmp(m->name, other->name) == 0)
			return APUS_EINVAL;
	return 0;
}

static bool has_layout(const struct apus_type *type)
{
	return type->members && type->member_count >= 1 && type->member_count <= MEMBERS_MAX &&
	       type->size_bytes % type->align_bytes == 0;
}

static int check_struct(const struct apus_type *type, int depth)
{
	if (type->extensibility > APUS_MUTABLE || !has_layout(type))
		return APUS_EINVAL;
	for (uint32_t i = 0; i < type->member_count; i++) {
		const struct apus_member *m = &type->members[i];

		if (check_member(type, m, depth) || m->is_default || m->case_count)
			return APUS_EINVAL;
		if (m->key && (m->optional || !is_key_type(m->type)))
			return APUS_EINVAL;
		for (uint32_t j = 0; j < i; j++)
			if (slots_overlap(m, &type->members[j]))
				return APUS_EINVAL;
	}
	if ((type->plain_xcdr1 && !apus_wire_is_plain(type, APUS_XCDR1)) ||
	    (type->plain_xcdr2 && !apus_wire_is_plain(type, APUS_XCDR2)))
		return APUS_EINVAL;
	if ((type->ops_xcdr1 && !apus_wire_program_is_of(type->ops_xcdr1, type, APUS_XCDR1)) ||
	    (type->ops_xcdr2 && !apus_wire_program_is_of(type->ops_xcdr2, type, APUS_XCDR2)))
		return APUS_EINVAL;
	return 0;
}

static bool is_discriminator(const struct apus_type *type)
{
	switch (type->kind) {
	case APUS_KIND_FLOAT32:
	case APUS_KIND_FLOAT64:
	case APUS_KIND_BITMASK: return false;
	default: return apus_wire_scalar_bytes(type) != 0;
	}
}

/* A discriminator value must survive being stored, and select one case only. */
static bool case_is_good(const struct apus_type *type, uint32_t member, uint32_t index)
{
	const struct apus_type *element = type->element;
	int64_t value = type->members[member].cases[index], stored = value;

	if (element->kind == APUS_KIND_BOOL && value != 0 && value != 1)
		return false;
	if (apus_wire_load_integer(element, &stored) != value)
		return false;
	for (uint32_t i = 0; i <= member; i++) {
		uint32_t count = i == member ? index : type->members[i].case_count;

		for (uint32_t j = 0; j < count; j++)
			if (type->members[i].cases[j] == value)
				return false;
	}
	return true;
}

static int check_union(const struct apus_type *type, int depth)
{
	uint32_t defaults = 0;

	if (type->extensibility > APUS_APPENDABLE || !has_layout(type) || !type->element ||
	    check_type(type->element, depth + 1) || !is_discriminator(type->element) ||
	    type->align_bytes < type->element->align_bytes)
		return APUS_EINVAL;
	for (uint32_t i = 0; i < type->member_count; i++) {
		const struct apus_member *m = &type->members[i];

		if (check_member(type, m, depth) || m->optional || m->key ||
		    m->offset_bytes < type->element->size_bytes || m->case_count > LABELS_MAX ||
		    (m->case_count && !m->cases) || (!m->case_count && !m->is_default))
			return APUS_EINVAL;
		for (uint32_t j = 0; j < m->case_count; j++)
			if (!case_is_good(type, i, j))
				return APUS_EINVAL;
		defaults += m->is_default;
	}
	return defaults <= 1 ? 0 : APUS_EINVAL;
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
	case APUS_KIND_UNION: return check_union(type, depth);
	default: return scalar_bytes(type) ? check_scalar(type) : APUS_EINVAL;
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

/* The furthest a member can move `pos`, its header included. */
static uint64_t member_end(const struct apus_type *type, const struct apus_member *m,
			   const struct advance *value, bool xcdr2, uint64_t pos)
{
	const bool listed = type->extensibility == APUS_MUTABLE;

	if (pos >= UNBOUNDED)
		return pos;
	if (xcdr2 && listed)
		pos = align_up(pos, 4, true) + 8; /* EMHEADER, NEXTINT */
	else if (xcdr2 && m->optional)
		pos += 1;
	else if (listed || m->optional) /* alignment starts anew behind an XCDR1 header */
		return align_up(pos, 4, false) +
		       (m->id > APUS_WIRE_PID_MEMBER_MAX || value->from[0] > UINT16_MAX ? 12 : 4) +
		       value->from[0];
	return pos + value->from[pos % 8];
}

static uint64_t object_start(const struct apus_type *type, bool xcdr2, uint64_t pos)
{
	return xcdr2 && type->extensibility != APUS_FINAL ? align_up(pos, 4, true) + 4 : pos;
}

static void struct_advance(const struct apus_type *type, bool xcdr2, int depth, struct advance *out)
{
	struct advance member;
	uint64_t pos[8];

	for (unsigned int r = 0; r < 8; r++)
		pos[r] = object_start(type, xcdr2, r);
	for (uint32_t i = 0; i < type->member_count; i++) {
		max_advance(type->members[i].type, xcdr2, depth + 1, &member);
		out->unbounded |= member.unbounded;
		for (unsigned int r = 0; r < 8; r++)
			pos[r] = member_end(type, &type->members[i], &member, xcdr2, pos[r]);
	}
	for (unsigned int r = 0; r < 8; r++) {
		if (!xcdr2 && type->extensibility == APUS_MUTABLE)
			pos[r] = align_up(pos[r], 4, false) + 4; /* the list's end */
		out->from[r] = pos[r] - r;
	}
}

static void union_advance(const struct apus_type *type, bool xcdr2, int depth, struct advance *out)
{
	size_t scalar = apus_wire_scalar_bytes(type->element);
	struct advance member;
	uint64_t start, end;

	for (uint32_t i = 0; i < type->member_count; i++) {
		max_advance(type->members[i].type, xcdr2, depth + 1, &member);
		out->unbounded |= member.unbounded;
		for (unsigned int r = 0; r < 8; r++) {
			start = align_up(object_start(type, xcdr2, r), scalar, xcdr2) + scalar;
			end = start + member.from[start % 8];
			if (end - r > out->from[r])
				out->from[r] = end - r;
		}
	}
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
	} else if (type->kind == APUS_KIND_UNION) {
		union_advance(type, xcdr2, depth, out);
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

/* Their programs; apus_type_check() holds them against what it would make itself. */
#define OP(code_, align_, ...)                                        \
	{                                                             \
		.code = APUS_OP_##code_, .align = align_, __VA_ARGS__ \
	}
#define OP_OCTETS(offset) OP(NUMBERS, 1, .index = 1, .size = 1, .offset_bytes = offset)
#define OP_END            OP(END, 1, .bytes = 0)

static const struct apus_op shape_ops[] = {
	OP(STRING, 4, .bytes = 128),
	OP(COPY, 4, .offset_bytes = offsetof(struct apus_shape, x), .bytes = 12),
	OP_END,
};
static const struct apus_op shape_extended_ops_xcdr2[] = {
	OP(OBJECT, 4, .bytes = 0),
	OP(STRING, 4, .bytes = 128),
	OP(COPY, 4, .offset_bytes = offsetof(struct apus_shape_extended, x), .bytes = 12),
	OP_OCTETS(offsetof(struct apus_shape_extended, additional_payload_size)),
	OP(OBJECT_END, 1, .bytes = 0),
	OP_END,
};
static const struct apus_op shape_extended_ops_xcdr1[] = {
	OP(STRING, 4, .bytes = 128),
	OP(COPY, 4, .offset_bytes = offsetof(struct apus_shape_extended, x), .bytes = 12),
	OP_OCTETS(offsetof(struct apus_shape_extended, additional_payload_size)),
	OP_END,
};
static const struct apus_op blob_ops[] = {
	OP(COPY, 4, .bytes = 4),
	OP_OCTETS(offsetof(struct apus_blob, data)),
	OP_END,
};

#define STRUCT_TYPE(name_, extensibility_, ctype, members_, ops1_, ops2_)                         \
	{                                                                                         \
		.name = name_, .kind = APUS_KIND_STRUCT, .extensibility = extensibility_,         \
		.size_bytes = sizeof(ctype), .align_bytes = _Alignof(ctype), .members = members_, \
		.member_count = sizeof(members_) / sizeof((members_)[0]), .ops_xcdr1 = ops1_,     \
		.ops_xcdr2 = ops2_                                                                \
	}

const struct apus_type apus_shape_type = STRUCT_TYPE("ShapeType", APUS_FINAL, struct apus_shape,
						     shape_members, shape_ops, shape_ops);
const struct apus_type apus_shape_extended_type =
	STRUCT_TYPE("ShapeTypeExtended", APUS_APPENDABLE, struct apus_shape_extended,
		    shape_extended_members, shape_extended_ops_xcdr1, shape_extended_ops_xcdr2);
const struct apus_type apus_blob_type =
	STRUCT_TYPE("Blob", APUS_FINAL, struct apus_blob, blob_members, blob_ops, blob_ops);

const struct apus_type *apus_type_builtin(const char *name)
{
	static const struct apus_type *const all[] = {&apus_shape_type, &apus_shape_extended_type,
						      &apus_blob_type};

	for (size_t i = 0; name && i < sizeof(all) / sizeof(all[0]); i++)
		if (strcmp(all[i]->name, name) == 0)
			return all[i];
	return NULL;
}
