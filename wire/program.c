/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making programs from descriptors; see program.h.
 *
 * Invariant while building: the wire position in front of the next step is `residue` modulo
 * `modulus`, a power of two; modulus 1 says nothing.
 */
#include "wire/program.h"

/* Members looked at, however many times a nested struct occurs (choice: as many as fit 16 full
 * structs; types beyond are walked). */
#define VISITS_MAX 4096

struct builder {
	struct apus_op *ops;
	uint32_t count;
	uint32_t visits;
	uint32_t nesting;
	size_t modulus, residue;
	bool xcdr2;
	bool failed;
};

static bool build_value(struct builder *b, const struct apus_type *type, uint32_t offset);

static struct apus_op *add(struct builder *b, enum apus_op_code code, uint32_t offset)
{
	static struct apus_op nowhere;
	struct apus_op *op = &nowhere;

	if (b->count < APUS_OPS_MAX)
		op = &b->ops[b->count++];
	else
		b->failed = true;
	*op = (struct apus_op){.code = (uint8_t)code, .align = 1, .offset_bytes = offset};
	return op;
}

static void forget_position(struct builder *b)
{
	b->modulus = 1;
	b->residue = 0;
}

/* The position after something aligned and so many bytes. */
static void advance(struct builder *b, size_t align, size_t bytes)
{
	if (b->modulus < align) {
		b->modulus = align;
		b->residue = 0;
	}
	b->residue = (b->residue + align - 1) & ~(align - 1);
	b->residue = (b->residue + bytes) & (b->modulus - 1);
}

static size_t wire_align(const struct builder *b, size_t bytes)
{
	return b->xcdr2 && bytes > 4 ? 4 : bytes;
}

static bool is_number(const struct apus_type *type)
{
	return type->kind <= APUS_KIND_ENUM && type->kind != APUS_KIND_BOOL;
}

/* Adds numbers to the copy before them if they follow it without a gap in both images. */
static void build_copy(struct builder *b, uint32_t offset, size_t scalar, uint32_t bytes)
{
	struct apus_op *last = b->count ? &b->ops[b->count - 1] : NULL;
	const size_t align = wire_align(b, scalar);

	if (last && last->code == APUS_OP_COPY && last->offset_bytes + last->bytes == offset &&
	    b->modulus >= align && (b->residue & (align - 1)) == 0) {
		last->bytes += bytes;
	} else {
		struct apus_op *op = add(b, APUS_OP_COPY, offset);

		op->align = (uint8_t)align;
		op->bytes = bytes;
	}
	advance(b, align, bytes);
}

static void build_string(struct builder *b, const struct apus_type *type, uint32_t offset)
{
	struct apus_op *op = add(b, APUS_OP_STRING, offset);

	op->align = 4;
	op->bytes = type->bound;
	forget_position(b);
}

static void build_numbers(struct builder *b, const struct apus_type *type, uint32_t offset,
			  size_t align, bool dheader)
{
	struct apus_op *op = add(b, APUS_OP_NUMBERS, offset);

	op->align = (uint8_t)align;
	op->dheader = dheader;
	op->index = (uint8_t)type->element->align_bytes;
	op->bytes = type->bound;
	op->size = type->element->size_bytes;
	forget_position(b);
	/* An empty one has its length only. */
	advance(b, align < 4 ? align : 4, 0);
}

/* A sequence whose elements are one copy each, without a gap in either image, is one copy. */
static bool fuse_elements(struct builder *b, const struct apus_type *type, uint32_t start)
{
	const struct apus_op *body = &b->ops[start + 1], whole = b->ops[start];

	if (b->failed || type->kind != APUS_KIND_SEQUENCE || b->count != start + 2 ||
	    body->code != APUS_OP_COPY || body->offset_bytes || body->bytes != whole.size ||
	    body->bytes % body->align)
		return false;
	b->count = start;
	build_numbers(b, type, whole.offset_bytes, body->align, whole.dheader);
	return true;
}

/* The body of a collection comes between its step and a NEXT. */
static bool build_elements(struct builder *b, const struct apus_type *type, uint32_t offset)
{
	const bool is_sequence = type->kind == APUS_KIND_SEQUENCE;
	const uint32_t start = b->count;
	struct apus_op *op = add(b, is_sequence ? APUS_OP_SEQUENCE : APUS_OP_ARRAY, offset);
	uint32_t skip;

	op->align = 4;
	op->index = (uint8_t)type->element->align_bytes;
	op->dheader = b->xcdr2 && apus_wire_needs_dheader(type->element);
	op->bytes = type->bound;
	op->size = type->element->size_bytes;
	if (b->nesting++ == APUS_WIRE_OPS_DEPTH_MAX)
		b->failed = true;
	forget_position(b);
	if (!build_value(b, type->element, 0))
		return false;
	b->nesting--;
	if (fuse_elements(b, type, start))
		return true;
	forget_position(b);
	skip = b->count - start;
	op->skip = (uint16_t)skip;
	op = add(b, APUS_OP_NEXT, 0);
	op->skip = (uint16_t)(skip - 1);
	op->dheader = b->xcdr2 && apus_wire_needs_dheader(type->element);
	op->size = type->element->size_bytes;
	return true;
}

static bool build_collection(struct builder *b, const struct apus_type *type, uint32_t offset)
{
	const struct apus_type *element = type->element;
	const bool dheader = b->xcdr2 && apus_wire_needs_dheader(element);

	if (is_number(element) && !dheader) {
		if (type->kind == APUS_KIND_ARRAY)
			build_copy(b, offset, element->size_bytes, type->size_bytes);
		else
			build_numbers(b, type, offset, wire_align(b, element->size_bytes), false);
		return true;
	}
	if (element->kind == APUS_KIND_BOOL && type->kind == APUS_KIND_ARRAY) {
		add(b, APUS_OP_BOOLS, offset)->bytes = type->bound;
		advance(b, 1, type->bound);
		return true;
	}
	return build_elements(b, type, offset);
}

static void build_member(struct builder *b, const struct apus_type *parent, uint32_t index,
			 uint32_t offset)
{
	const struct apus_member *m = &parent->members[index];
	const struct builder before = *b;
	struct apus_op *op, last = {0};

	if (b->count)
		last = b->ops[b->count - 1];
	if (++b->visits > VISITS_MAX)
		b->failed = true;
	if (b->failed)
		return;
	if (!m->optional && !m->external && build_value(b, m->type, offset + m->offset_bytes))
		return;
	/* No steps for all of it: take back those made, which may have grown the copy before them. */
	b->count = before.count;
	b->nesting = before.nesting;
	if (b->count)
		b->ops[b->count - 1] = last;
	op = add(b, APUS_OP_MEMBER, offset);
	op->index = (uint8_t)index;
	op->parent = parent;
	forget_position(b);
}

static bool build_struct(struct builder *b, const struct apus_type *type, uint32_t offset)
{
	const bool dheader = b->xcdr2 && type->extensibility == APUS_APPENDABLE;

	if (type->extensibility == APUS_MUTABLE)
		return false;
	if (dheader) {
		add(b, APUS_OP_OBJECT, 0)->align = 4;
		if (b->nesting++ == APUS_WIRE_OPS_DEPTH_MAX)
			b->failed = true;
		advance(b, 4, 4);
	}
	for (uint32_t i = 0; i < type->member_count && !b->failed; i++)
		build_member(b, type, i, offset);
	if (dheader) {
		add(b, APUS_OP_OBJECT_END, 0);
		b->nesting--;
		forget_position(b);
	}
	return true;
}

/* False: there are no steps for such values. */
static bool build_value(struct builder *b, const struct apus_type *type, uint32_t offset)
{
	switch (type->kind) {
	case APUS_KIND_BOOL:
		add(b, APUS_OP_BOOLS, offset)->bytes = 1;
		advance(b, 1, 1);
		return true;
	case APUS_KIND_STRING: build_string(b, type, offset); return true;
	case APUS_KIND_ARRAY:
	case APUS_KIND_SEQUENCE: return build_collection(b, type, offset);
	case APUS_KIND_STRUCT: return build_struct(b, type, offset);
	case APUS_KIND_UNION:
	case APUS_KIND_BITMASK: return false;
	default: build_copy(b, offset, type->size_bytes, type->size_bytes); return true;
	}
}

uint32_t apus_type_program(const struct apus_type *type, int representation,
			   struct apus_op *ops_out)
{
	struct builder b = {.ops = ops_out, .modulus = 8, .xcdr2 = representation == APUS_XCDR2};

	if (!build_value(&b, type, 0))
		return 0;
	add(&b, APUS_OP_END, 0);
	return b.failed ? 0 : b.count;
}

static bool same_op(const struct apus_op *a, const struct apus_op *b)
{
	return a->code == b->code && a->align == b->align && a->dheader == b->dheader &&
	       a->index == b->index && a->skip == b->skip && a->offset_bytes == b->offset_bytes &&
	       a->bytes == b->bytes && a->size == b->size && a->parent == b->parent;
}

bool apus_wire_program_is_of(const struct apus_op *ops, const struct apus_type *type,
			     int representation)
{
	struct apus_op mine[APUS_OPS_MAX];
	uint32_t count = apus_type_program(type, representation, mine);

	for (uint32_t i = 0; i < count; i++)
		if (!same_op(&ops[i], &mine[i]))
			return false;
	return count > 0;
}
