/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From TypeObjects to descriptors; see the header.
 *
 * Every named type is built once and found again by its hash. One that is met while it is being built contains
 * itself and is refused. Layout is that of C on this host, as the IDL back-end and the compiler make it.
 */
#include "control/typebuild.h"

#include <stdlib.h>

#include "wire/cdr.h"

/* Aliases of aliases, bases of bases. */
#define CHAIN_MAX         16
#define INFORMATION_BYTES 128

/* Memory is taken in blocks that stay where they are. */
struct block {
	struct block *next;
	max_align_t memory[];
};

struct named {
	struct named *next;
	struct apus_wire_type_hash hash;
	struct apus_type *type; /* NULL while it is being built */
	uint32_t weight;        /* see struct build */
};

struct apus_ctl_built {
	struct block *blocks;
	const struct apus_type *type;
};

struct build {
	const struct apus_ctl_types *types;
	struct apus_ctl_built *built;
	struct named *named;
	uint32_t part_count;
	/* Parts with each counted as often as it is met on a walk without memory, as checks and the
	 * serialiser walk: a type of types of types may be small and yet too large for that. */
	uint32_t weight;
	int depth;
	int result; /* the first error */
};

static void *take(struct build *b, size_t bytes)
{
	struct block *block = b->result ? NULL : calloc(1, sizeof(*block) + bytes);

	if (!block) {
		if (!b->result)
			b->result = APUS_ENOMEM;
		return NULL;
	}
	block->next = b->built->blocks;
	b->built->blocks = block;
	return block->memory;
}

static const void *fail(struct build *b, int result)
{
	if (!b->result)
		b->result = result;
	return NULL;
}

static const char *copy_text(struct build *b, const char *text)
{
	size_t bytes = strlen(text) + 1;
	char *copy = take(b, bytes);

	return copy ? memcpy(copy, text, bytes) : NULL;
}

static struct apus_type *part(struct build *b, uint8_t kind)
{
	struct apus_type *type;

	if (++b->part_count > APUS_CTL_BUILD_PARTS_MAX) {
		fail(b, APUS_ELIMIT);
		return NULL;
	}
	type = take(b, sizeof(*type));
	if (type)
		type->kind = kind;
	return type;
}

/* Sets size and alignment, if the size is sane. */
static const struct apus_type *sized(struct build *b, struct apus_type *type, uint64_t bytes,
				     uint32_t align)
{
	if (bytes > APUS_CTL_BUILD_IMAGE_MAX)
		return fail(b, APUS_ELIMIT);
	type->size_bytes = (uint32_t)bytes;
	type->align_bytes = align;
	return type;
}

static const struct apus_type *build_ref(struct build *b, const struct apus_wire_type_ref *ref);

/* ---- scalars, strings, collections -------------------------------------------------------------- */

static const struct apus_type *primitive(uint8_t kind)
{
	switch (kind) {
	case APUS_TK_BOOLEAN: return &apus_type_bool;
	case APUS_TK_BYTE: return &apus_type_octet;
	case APUS_TK_INT8: return &apus_type_int8;
	case APUS_TK_UINT8: return &apus_type_uint8;
	case APUS_TK_INT16: return &apus_type_int16;
	case APUS_TK_UINT16: return &apus_type_uint16;
	case APUS_TK_INT32: return &apus_type_int32;
	case APUS_TK_UINT32: return &apus_type_uint32;
	case APUS_TK_INT64: return &apus_type_int64;
	case APUS_TK_UINT64: return &apus_type_uint64;
	case APUS_TK_FLOAT32: return &apus_type_float32;
	case APUS_TK_FLOAT64: return &apus_type_float64;
	case APUS_TK_CHAR8: return &apus_type_char;
	default: return NULL;
	}
}

static const struct apus_type *build_string(struct build *b, uint32_t bound)
{
	struct apus_type *type;

	if (bound == 0)
		return &apus_type_string;
	type = part(b, APUS_KIND_STRING);
	if (!type)
		return NULL;
	type->bound = bound;
	return sized(b, type, (uint64_t)bound + 1, 1);
}

static const struct apus_type *build_sequence(struct build *b, uint32_t bound,
					      const struct apus_wire_type_ref *element)
{
	struct apus_type *type = part(b, APUS_KIND_SEQUENCE);

	if (!type)
		return NULL;
	type->bound = bound;
	type->element = build_ref(b, element);
	return sized(b, type, sizeof(struct apus_sequence), _Alignof(struct apus_sequence));
}

/* All dimensions together, row-major. */
static const struct apus_type *build_array(struct build *b, const uint32_t *dims, uint8_t dim_count,
					   const struct apus_wire_type_ref *element)
{
	struct apus_type *type = part(b, APUS_KIND_ARRAY);
	uint64_t count = 1;

	if (!type)
		return NULL;
	type->element = build_ref(b, element);
	if (!type->element)
		return NULL;
	for (uint8_t i = 0; i < dim_count; i++) {
		count *= dims[i];
		if (count > APUS_CTL_BUILD_IMAGE_MAX)
			return fail(b, APUS_ELIMIT);
	}
	/* An array of arrays is one array: so it is serialised by Cyclone DDS, and by generated types. */
	if (type->element->kind == APUS_KIND_ARRAY) {
		count *= type->element->bound;
		type->element = type->element->element;
	}
	if (count > APUS_CTL_BUILD_IMAGE_MAX)
		return fail(b, APUS_ELIMIT);
	type->bound = (uint32_t)count;
	return sized(b, type, count * type->element->size_bytes, type->element->align_bytes);
}

/* Labels are checked each against each other, wherever the type is used: many weigh more than as many members.
 * False if it gets too much. */
static bool weigh_labels(struct build *b, uint64_t count)
{
	uint64_t weight = count * count / 1024;

	if (weight > APUS_CTL_BUILD_WEIGHT_MAX || b->weight + weight > APUS_CTL_BUILD_WEIGHT_MAX) {
		fail(b, APUS_ELIMIT);
		return false;
	}
	b->weight += (uint32_t)weight;
	return true;
}

/* ---- enums and bitmasks ------------------------------------------------------------------------- */

static uint32_t holder_bytes(uint32_t bit_bound)
{
	return bit_bound <= 8 ? 1 : bit_bound <= 16 ? 2 : bit_bound <= 32 ? 4 : 8;
}

static const struct apus_type *build_labels(struct build *b, const struct apus_wire_type_object *o)
{
	struct apus_type *type =
		part(b, o->kind == APUS_TK_ENUM ? APUS_KIND_ENUM : APUS_KIND_BITMASK);
	struct apus_label *labels = take(b, (size_t)o->member_count * sizeof(*labels));

	if (!type || !labels || !weigh_labels(b, o->member_count))
		return NULL;
	if (o->bit_bound < 1 || o->bit_bound > (o->kind == APUS_TK_ENUM ? 32 : 64))
		return fail(b, APUS_ENOTSUP);
	for (uint32_t i = 0; i < o->member_count; i++) {
		const struct apus_wire_type_member *m = &o->members[i];

		labels[i].name = copy_text(b, m->name);
		labels[i].value = o->kind == APUS_TK_ENUM ? m->value : (int32_t)m->id;
		if (m->flags & APUS_MEMBER_DEFAULT)
			type->default_label = i;
	}
	type->name = copy_text(b, o->name);
	type->labels = labels;
	type->label_count = o->member_count;
	type->bit_bound = (uint8_t)o->bit_bound;
	return sized(b, type, holder_bytes(o->bit_bound), holder_bytes(o->bit_bound));
}

/* ---- structs and unions ------------------------------------------------------------------------- */

static uint32_t slot_bytes(const struct apus_member *m)
{
	return m->optional || m->external ? sizeof(void *) : m->type->size_bytes;
}

static uint32_t slot_align(const struct apus_member *m)
{
	return m->optional || m->external ? _Alignof(void *) : m->type->align_bytes;
}

static uint64_t align_up(uint64_t at, uint32_t align)
{
	return (at + align - 1) & ~(uint64_t)(align - 1);
}

/* What structs and unions have in common of a member. False after an error. */
static bool build_member(struct build *b, const struct apus_wire_type_member *from,
			 struct apus_member *m)
{
	m->name = copy_text(b, from->name);
	m->type = build_ref(b, from->type);
	m->id = from->id;
	m->external = from->flags & APUS_MEMBER_EXTERNAL;
	m->must_understand = from->flags & APUS_MEMBER_MUST_UNDERSTAND;
	return !b->result;
}

static bool set_extensibility(struct build *b, const struct apus_wire_type_object *o,
			      struct apus_type *type)
{
	switch (o->flags & APUS_TYPE_EXTENSIBILITY) {
	case APUS_TYPE_FINAL: type->extensibility = APUS_FINAL; return true;
	case APUS_TYPE_APPENDABLE: type->extensibility = APUS_APPENDABLE; return true;
	case APUS_TYPE_MUTABLE: type->extensibility = APUS_MUTABLE; return true;
	default: fail(b, APUS_ENOTSUP); return false;
	}
}

/* The base a struct has, or NULL; an error is in b->result. */
static const struct apus_wire_type_object *base_of(struct build *b,
						   const struct apus_wire_type_object *o)
{
	const struct apus_wire_type_ref *ref = o->inner;

	for (int i = 0; ref && i < CHAIN_MAX; i++) {
		const struct apus_wire_type_object *base =
			ref->hash.kind ? apus_ctl_types_get(b->types, &ref->hash) : NULL;

		if (!base)
			return fail(b, APUS_ENOENT);
		if (base->kind == APUS_TK_STRUCTURE)
			return base;
		ref = base->kind == APUS_TK_ALIAS ? base->inner : NULL;
	}
	return o->inner ? fail(b, APUS_ENOTSUP) : NULL;
}

/* Members of the bases come first. */
static bool add_members(struct build *b, const struct apus_wire_type_object *o,
			struct apus_type *type, struct apus_member *members)
{
	for (uint32_t i = 0; i < o->member_count; i++) {
		const struct apus_wire_type_member *from = &o->members[i];
		struct apus_member *m = &members[type->member_count];

		if (!build_member(b, from, m))
			return false;
		m->optional = from->flags & APUS_MEMBER_OPTIONAL;
		m->key = from->flags & APUS_MEMBER_KEY;
		/* Keys must be understood anyway; descriptors say it of others only. */
		m->must_understand = m->must_understand && !m->key;
		type->member_count++;
	}
	return true;
}

static const struct apus_type *lay_out(struct build *b, struct apus_type *type,
				       struct apus_member *members)
{
	uint32_t align = 1;
	uint64_t at = 0;

	for (uint32_t i = 0; i < type->member_count; i++) {
		struct apus_member *m = &members[i];

		if (slot_align(m) > align)
			align = slot_align(m);
		at = align_up(at, slot_align(m));
		if (at > APUS_CTL_BUILD_IMAGE_MAX)
			return fail(b, APUS_ELIMIT);
		m->offset_bytes = (uint32_t)at;
		at += slot_bytes(m);
	}
	return sized(b, type, align_up(at, align), align);
}

static const struct apus_type *build_struct(struct build *b, const struct apus_wire_type_object *o)
{
	const struct apus_wire_type_object *chain[CHAIN_MAX], *up = o;
	struct apus_type *type = part(b, APUS_KIND_STRUCT);
	struct apus_member *members;
	uint64_t count = 0;
	int length = 0;

	for (; up; up = base_of(b, up)) {
		if (length == CHAIN_MAX)
			return fail(b, APUS_ENOTSUP);
		count += up->member_count;
		chain[length++] = up;
	}
	if (b->result)
		return NULL;
	members = take(b, (size_t)count * sizeof(*members));
	if (!members || !set_extensibility(b, o, type))
		return NULL;
	type->name = copy_text(b, o->name);
	type->members = members;
	while (length-- > 0)
		if (!add_members(b, chain[length], type, members))
			return NULL;
	if (!lay_out(b, type, members))
		return NULL;
	/* Only of a descriptor that is good can more be asked. */
	if (apus_type_check(type) != 0)
		return fail(b, APUS_ENOTSUP);
	type->plain_xcdr1 = apus_wire_is_plain(type, APUS_XCDR1);
	type->plain_xcdr2 = apus_wire_is_plain(type, APUS_XCDR2);
	return type;
}

static bool build_case(struct build *b, const struct apus_wire_type_member *from,
		       struct apus_member *m)
{
	int64_t *cases = take(b, (size_t)from->label_count * sizeof(*cases));

	if (!cases || !build_member(b, from, m))
		return false;
	for (uint32_t i = 0; i < from->label_count; i++)
		cases[i] = from->labels[i];
	m->must_understand = false;
	m->is_default = from->flags & APUS_MEMBER_DEFAULT;
	m->case_count = from->label_count;
	m->cases = from->label_count ? cases : NULL;
	return true;
}

/* The discriminator, then the cases, all at one place. */
static const struct apus_type *build_union(struct build *b, const struct apus_wire_type_object *o)
{
	struct apus_type *type = part(b, APUS_KIND_UNION);
	struct apus_member *members = take(b, (size_t)o->member_count * sizeof(*members));
	uint32_t align = 1, bytes = 0;
	uint64_t at, labels = 0;

	for (uint32_t i = 0; i < o->member_count; i++)
		labels += o->members[i].label_count;
	if (!weigh_labels(b, labels) || !type || !members || !set_extensibility(b, o, type))
		return NULL;
	type->name = copy_text(b, o->name);
	type->members = members;
	type->member_count = o->member_count;
	type->element = build_ref(b, o->inner);
	for (uint32_t i = 0; i < o->member_count && !b->result; i++) {
		if (!build_case(b, &o->members[i], &members[i]))
			return NULL;
		if (slot_align(&members[i]) > align)
			align = slot_align(&members[i]);
		if (slot_bytes(&members[i]) > bytes)
			bytes = slot_bytes(&members[i]);
	}
	if (b->result)
		return NULL;
	at = align_up(type->element->size_bytes, align);
	for (uint32_t i = 0; i < o->member_count; i++)
		members[i].offset_bytes = (uint32_t)at;
	if (type->element->align_bytes > align)
		align = type->element->align_bytes;
	return sized(b, type, align_up(at + bytes, align), align);
}

/* ---- by name ------------------------------------------------------------------------------------ */

static const struct apus_type *build_object(struct build *b, const struct apus_wire_type_object *o)
{
	switch (o->kind) {
	case APUS_TK_ALIAS: return build_ref(b, o->inner);
	case APUS_TK_ENUM:
	case APUS_TK_BITMASK: return build_labels(b, o);
	case APUS_TK_STRUCTURE: return build_struct(b, o);
	case APUS_TK_UNION: return build_union(b, o);
	case APUS_TK_SEQUENCE: return build_sequence(b, o->bound, o->inner);
	case APUS_TK_ARRAY: return build_array(b, o->dims, o->dim_count, o->inner);
	default: return fail(b, APUS_ENOTSUP);
	}
}

/* Each named type once; met again while unfinished, it contains itself. */
static const struct apus_type *build_hash(struct build *b, const struct apus_wire_type_hash *hash)
{
	const struct apus_wire_type_object *o = apus_ctl_types_get(b->types, hash);
	struct named *n;
	uint32_t weight;

	for (n = b->named; n; n = n->next)
		if (apus_wire_type_hash_equal(&n->hash, hash)) {
			b->weight += n->weight;
			if (b->weight > APUS_CTL_BUILD_WEIGHT_MAX)
				return fail(b, APUS_ELIMIT);
			return n->type ? n->type : fail(b, APUS_ENOTSUP);
		}
	if (!o)
		return fail(b, APUS_ENOENT);
	if (o->equivalence != APUS_WIRE_EK_COMPLETE)
		return fail(b, APUS_ENOTSUP);
	n = take(b, sizeof(*n));
	if (!n)
		return NULL;
	n->hash = *hash;
	n->next = b->named;
	b->named = n;
	weight = b->weight;
	n->type = (struct apus_type *)build_object(b, o);
	n->weight = b->weight - weight;
	return n->type;
}

static const struct apus_type *build_deeper(struct build *b, const struct apus_wire_type_ref *ref)
{
	const struct apus_type *type = primitive(ref->kind);

	if (type)
		return type;
	switch (ref->kind) {
	case APUS_TK_STRING8: return build_string(b, ref->bound);
	case APUS_TK_SEQUENCE: return build_sequence(b, ref->bound, ref->element);
	case APUS_TK_ARRAY: return build_array(b, ref->dims, ref->dim_count, ref->element);
	case APUS_WIRE_EK_COMPLETE: return build_hash(b, &ref->hash);
	default: return fail(b, APUS_ENOTSUP);
	}
}

/* Aliases count as levels too: the limit is there to end recursion. */
static const struct apus_type *build_ref(struct build *b, const struct apus_wire_type_ref *ref)
{
	const struct apus_type *type;

	if (b->result)
		return NULL;
	if (++b->weight > APUS_CTL_BUILD_WEIGHT_MAX)
		return fail(b, APUS_ELIMIT);
	if (b->depth == 2 * APUS_WIRE_TYPE_DEPTH_MAX)
		return fail(b, APUS_ENOTSUP);
	b->depth++;
	type = build_deeper(b, ref);
	b->depth--;
	return type;
}

static int finish(struct build *b, struct apus_type *type,
		  const struct apus_wire_type_information *information)
{
	uint8_t *bytes = take(b, INFORMATION_BYTES);

	if (!bytes || !type)
		return b->result;
	type->type_information = bytes;
	type->type_information_bytes =
		(uint32_t)apus_wire_type_information_write(information, bytes, INFORMATION_BYTES);
	b->built->type = type;
	return apus_type_check(type) == 0 ? 0 : APUS_ENOTSUP;
}

int apus_ctl_type_build(const struct apus_ctl_types *types,
			const struct apus_wire_type_information *information,
			struct apus_ctl_built **built_out)
{
	struct build b = {.types = types};
	struct apus_type *type;
	int rc;

	b.built = calloc(1, sizeof(*b.built));
	if (!b.built)
		return APUS_ENOMEM;
	type = (struct apus_type *)build_hash(&b, &information->complete);
	if (type && type->kind != APUS_KIND_STRUCT)
		fail(&b, APUS_ENOTSUP);
	rc = b.result ? b.result : finish(&b, type, information);
	if (rc != 0) {
		apus_ctl_built_free(b.built);
		return rc;
	}
	*built_out = b.built;
	return 0;
}

const struct apus_type *apus_ctl_built_type(const struct apus_ctl_built *built)
{
	return built->type;
}

void apus_ctl_built_free(struct apus_ctl_built *built)
{
	struct block *next;

	if (!built)
		return;
	for (struct block *b = built->blocks; b; b = next) {
		next = b->next;
		free(b);
	}
	free(built);
}
