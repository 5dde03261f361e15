/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parsing of TypeObjects; see the header. Every reader takes a cursor and leaves it failed if anything is
 * wrong, so that errors need no path of their own; what a failed reader returns is never used.
 */
#include "wire/typeobject.h"

#include <md5.h>
#include <stdalign.h>

/* TypeIdentifier discriminators of strings and plain collections, small and large form. */
enum {
	TI_STRING8_SMALL = 0x70,
	TI_STRING8_LARGE = 0x71,
	TI_STRING16_SMALL = 0x72,
	TI_STRING16_LARGE = 0x73,
	TI_SEQUENCE_SMALL = 0x80,
	TI_SEQUENCE_LARGE = 0x81,
	TI_ARRAY_SMALL = 0x90,
	TI_ARRAY_LARGE = 0x91,
	TI_MAP_SMALL = 0xa0,
	TI_MAP_LARGE = 0xa1,
};

struct parse {
	struct apus_wire_type_arena *arena;
	bool complete;
	bool full; /* the arena is */
};

static void *reserve(struct parse *p, size_t bytes)
{
	struct apus_wire_type_arena *a = p->arena;
	size_t at = (a->used + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);

	if (at > a->bytes || bytes > a->bytes - at) {
		p->full = true;
		return NULL;
	}
	a->used = at + bytes;
	return memset(a->base + at, 0, bytes);
}

static void fail(struct apus_wire_value *v)
{
	v->cursor.failed = true;
}

/* ---- identifiers -------------------------------------------------------------------------------- */

static const struct apus_wire_type_ref *read_ref(struct parse *p, struct apus_wire_value *v,
						 int depth);

static uint32_t read_bound(struct apus_wire_value *v, bool large)
{
	return large ? apus_wire_value_u32(v) : apus_wire_value_u8(v);
}

/* An array has one to eight dimensions, none of them 0. */
static uint8_t read_dims(struct apus_wire_value *v, bool large, uint32_t *dims)
{
	uint32_t count = apus_wire_value_u32(v);

	if (count < 1 || count > APUS_WIRE_TYPE_DIMS_MAX)
		fail(v);
	for (uint32_t i = 0; !apus_wire_value_bad(v) && i < count; i++) {
		dims[i] = read_bound(v, large);
		if (dims[i] == 0)
			fail(v);
	}
	return (uint8_t)count;
}

static void read_collection(struct parse *p, struct apus_wire_value *v, bool large, int depth,
			    struct apus_wire_type_ref *ref)
{
	apus_wire_value_u8(v); /* equivalence kind: follows from the element */
	ref->element_flags = apus_wire_value_u16(v);
	if (ref->kind == APUS_TK_ARRAY)
		ref->dim_count = read_dims(v, large, ref->dims);
	else
		ref->bound = read_bound(v, large);
	ref->element = read_ref(p, v, depth + 1);
	if (ref->kind == APUS_TK_MAP) {
		apus_wire_value_u16(v);
		ref->key = read_ref(p, v, depth + 1);
	}
}

static bool is_primitive(uint8_t kind)
{
	return kind <= APUS_TK_UINT8 || kind == APUS_TK_CHAR8 || kind == APUS_TK_CHAR16;
}

static void read_hash(struct apus_wire_value *v, struct apus_wire_type_ref *ref)
{
	const uint8_t *bytes = apus_wire_value_bytes(v, APUS_WIRE_TYPE_HASH_BYTES);

	ref->hash.kind = ref->kind;
	if (bytes)
		memcpy(ref->hash.bytes, bytes, sizeof(ref->hash.bytes));
}

static void read_ref_of(struct parse *p, struct apus_wire_value *v, uint8_t code, int depth,
			struct apus_wire_type_ref *ref)
{
	struct apus_wire_value skipped;

	switch (code) {
	case TI_STRING8_SMALL:
	case TI_STRING8_LARGE:
	case TI_STRING16_SMALL:
	case TI_STRING16_LARGE:
		ref->kind = code <= TI_STRING8_LARGE ? APUS_TK_STRING8 : APUS_TK_STRING16;
		ref->bound = read_bound(v, code & 1);
		break;
	case TI_SEQUENCE_SMALL:
	case TI_SEQUENCE_LARGE:
	case TI_ARRAY_SMALL:
	case TI_ARRAY_LARGE:
	case TI_MAP_SMALL:
	case TI_MAP_LARGE:
		ref->kind = code < TI_ARRAY_SMALL ? APUS_TK_SEQUENCE
			    : code < TI_MAP_SMALL ? APUS_TK_ARRAY
						  : APUS_TK_MAP;
		read_collection(p, v, code & 1, depth, ref);
		break;
	case APUS_TK_COMPONENT:
		ref->kind = code;
		apus_wire_value_enter(v, &skipped);
		break;
	case APUS_WIRE_EK_MINIMAL:
	case APUS_WIRE_EK_COMPLETE:
		ref->kind = code;
		read_hash(v, ref);
		break;
	default:
		ref->kind = code;
		if (!is_primitive(code))
			fail(v);
	}
}

static const struct apus_wire_type_ref *read_ref(struct parse *p, struct apus_wire_value *v,
						 int depth)
{
	uint8_t code = apus_wire_value_u8(v);
	struct apus_wire_type_ref *ref;

	if (apus_wire_value_bad(v) || depth > APUS_WIRE_TYPE_NEST_MAX) {
		fail(v);
		return NULL;
	}
	ref = reserve(p, sizeof(*ref));
	if (!ref) {
		fail(v);
		return NULL;
	}
	read_ref_of(p, v, code, depth, ref);
	return apus_wire_value_bad(v) ? NULL : ref;
}

const struct apus_wire_type_ref *apus_wire_type_ref_read(struct apus_wire_value *value,
							 struct apus_wire_type_arena *arena)
{
	struct parse p = {.arena = arena};

	return read_ref(&p, value, 0);
}

/* An identifier where a type must be. */
static const struct apus_wire_type_ref *read_type(struct parse *p, struct apus_wire_value *v)
{
	const struct apus_wire_type_ref *ref = read_ref(p, v, 0);

	if (ref && ref->kind == APUS_TK_NONE)
		fail(v);
	return ref;
}

/* ---- names and details -------------------------------------------------------------------------- */

void apus_wire_type_name_hash(const char *name, uint8_t hash_out[4])
{
	uint8_t digest[MD5_DIGEST_LENGTH];
	MD5_CTX md5;

	MD5Init(&md5);
	MD5Update(&md5, (const uint8_t *)name, strlen(name));
	MD5Final(digest, &md5);
	memcpy(hash_out, digest, 4);
}

static const char *read_name(struct apus_wire_value *v)
{
	size_t bytes = 0;
	const char *name = apus_wire_value_string(v, &bytes);

	if (!name || bytes == 0 || bytes > APUS_WIRE_TYPE_NAME_BYTES)
		fail(v);
	return name;
}

/* MemberDetail: annotations that may follow the name end with the member. */
static void read_detail(struct parse *p, struct apus_wire_value *v, struct apus_wire_type_member *m)
{
	const uint8_t *hash;

	if (p->complete) {
		m->name = read_name(v);
		if (!apus_wire_value_bad(v))
			apus_wire_type_name_hash(m->name, m->name_hash);
		return;
	}
	hash = apus_wire_value_bytes(v, sizeof(m->name_hash));
	if (hash)
		memcpy(m->name_hash, hash, sizeof(m->name_hash));
}

/* An optional member with a DHEADER, not wanted. */
static void skip_optional(struct apus_wire_value *v)
{
	struct apus_wire_value skipped;

	if (apus_wire_value_bool(v))
		apus_wire_value_enter(v, &skipped);
}

/* CompleteTypeDetail; the minimal one is empty. */
static void read_type_detail(struct parse *p, struct apus_wire_value *v,
			     struct apus_wire_type_object *o)
{
	if (!p->complete)
		return;
	skip_optional(v);
	skip_optional(v);
	o->name = read_name(v);
}

/* ---- members ------------------------------------------------------------------------------------ */

typedef void member_fn(struct parse *p, struct apus_wire_value *v, struct apus_wire_type_member *m);

static void struct_member(struct parse *p, struct apus_wire_value *v,
			  struct apus_wire_type_member *m)
{
	m->id = apus_wire_value_u32(v);
	m->flags = apus_wire_value_u16(v);
	m->type = read_type(p, v);
	read_detail(p, v, m);
}

static void union_member(struct parse *p, struct apus_wire_value *v,
			 struct apus_wire_type_member *m)
{
	int32_t *labels;

	m->id = apus_wire_value_u32(v);
	m->flags = apus_wire_value_u16(v);
	m->type = read_type(p, v);
	m->label_count = apus_wire_value_u32(v);
	if (m->label_count > apus_wire_cursor_left(&v->cursor) / 4)
		fail(v);
	if (apus_wire_value_bad(v))
		return;
	labels = reserve(p, m->label_count * sizeof(*labels));
	if (!labels) {
		fail(v);
		return;
	}
	for (uint32_t i = 0; i < m->label_count; i++)
		labels[i] = (int32_t)apus_wire_value_u32(v);
	m->labels = labels;
	read_detail(p, v, m);
}

static void enum_literal(struct parse *p, struct apus_wire_value *v,
			 struct apus_wire_type_member *m)
{
	struct apus_wire_value common;

	if (!apus_wire_value_enter(v, &common))
		return;
	m->value = (int32_t)apus_wire_value_u32(&common);
	m->flags = apus_wire_value_u16(&common);
	if (apus_wire_value_bad(&common))
		fail(v);
	read_detail(p, v, m);
}

static void bit_flag(struct parse *p, struct apus_wire_value *v, struct apus_wire_type_member *m)
{
	m->id = apus_wire_value_u16(v);
	m->flags = apus_wire_value_u16(v);
	read_detail(p, v, m);
}

/* A sequence of members: DHEADER, count, and each with its own DHEADER. */
static void read_members(struct parse *p, struct apus_wire_value *v, member_fn *read,
			 struct apus_wire_type_object *o)
{
	struct apus_wire_type_member *members;
	struct apus_wire_value sequence, member;
	uint32_t count;

	if (!apus_wire_value_enter(v, &sequence))
		return;
	count = apus_wire_value_u32(&sequence);
	/* A member takes 12 bytes at least. */
	if (apus_wire_value_bad(&sequence) ||
	    count > apus_wire_cursor_left(&sequence.cursor) / 12) {
		fail(v);
		return;
	}
	members = reserve(p, count * sizeof(*members));
	if (!members)
		fail(v);
	for (uint32_t i = 0; !apus_wire_value_bad(v) && i < count; i++) {
		if (!apus_wire_value_enter(&sequence, &member)) {
			fail(v);
			return;
		}
		read(p, &member, &members[i]);
		if (apus_wire_value_bad(&member))
			fail(v);
	}
	o->members = members;
	o->member_count = count;
}

/* ---- objects by kind ---------------------------------------------------------------------------- */

/* Opens an appendable part; what it is read into fails with it. */
#define PART(v, part)                           \
	struct apus_wire_value part;            \
	if (!apus_wire_value_enter((v), &part)) \
	return

static void close_part(struct apus_wire_value *v, const struct apus_wire_value *part)
{
	if (apus_wire_value_bad(part))
		fail(v);
}

static void read_struct(struct parse *p, struct apus_wire_value *v, struct apus_wire_type_object *o)
{
	PART(v, header);
	o->inner = read_ref(p, &header, 0);
	if (o->inner && o->inner->kind == APUS_TK_NONE)
		o->inner = NULL;
	read_type_detail(p, &header, o);
	close_part(v, &header);
	read_members(p, v, struct_member, o);
}

static void read_header_detail(struct parse *p, struct apus_wire_value *v,
			       struct apus_wire_type_object *o)
{
	PART(v, header);
	read_type_detail(p, &header, o);
	close_part(v, &header);
}

/* Flags and type of a discriminator, an element or what an alias means, in a part of their own. */
static const struct apus_wire_type_ref *read_inner(struct parse *p, struct apus_wire_value *v,
						   uint16_t *flags_out)
{
	const struct apus_wire_type_ref *type;
	struct apus_wire_value part;

	if (!apus_wire_value_enter(v, &part))
		return NULL;
	*flags_out = apus_wire_value_u16(&part);
	type = read_type(p, &part);
	close_part(v, &part);
	return type;
}

static void read_union(struct parse *p, struct apus_wire_value *v, struct apus_wire_type_object *o)
{
	read_header_detail(p, v, o);
	o->inner = read_inner(p, v, &o->inner_flags);
	read_members(p, v, union_member, o);
}

static void read_alias(struct parse *p, struct apus_wire_value *v, struct apus_wire_type_object *o)
{
	read_header_detail(p, v, o);
	o->inner = read_inner(p, v, &o->inner_flags);
}

static void read_enumerated(struct parse *p, struct apus_wire_value *v, member_fn *read,
			    struct apus_wire_type_object *o)
{
	PART(v, header);
	o->bit_bound = apus_wire_value_u16(&header);
	read_type_detail(p, &header, o);
	close_part(v, &header);
	read_members(p, v, read, o);
}

static void read_collection_object(struct parse *p, struct apus_wire_value *v,
				   struct apus_wire_type_object *o)
{
	uint16_t ignored;
	PART(v, header);

	if (o->kind == APUS_TK_ARRAY)
		o->dim_count = read_dims(&header, true, o->dims);
	else
		o->bound = apus_wire_value_u32(&header);
	close_part(v, &header);
	if (o->kind == APUS_TK_MAP)
		o->key = read_inner(p, v, &ignored);
	o->inner = read_inner(p, v, &o->inner_flags);
}

/* Bitmasks, and arrays in complete objects, are appendable themselves. */
static bool has_length(const struct parse *p, uint8_t kind)
{
	return kind == APUS_TK_BITMASK || (kind == APUS_TK_ARRAY && p->complete);
}

static enum apus_wire_verdict read_object(struct parse *p, struct apus_wire_value *v,
					  struct apus_wire_type_object *o)
{
	struct apus_wire_value outer;

	if (has_length(p, o->kind)) {
		outer = *v;
		if (!apus_wire_value_enter(&outer, v))
			return APUS_WIRE_MALFORMED;
	}
	o->flags = apus_wire_value_u16(v);
	switch (o->kind) {
	case APUS_TK_STRUCTURE: read_struct(p, v, o); break;
	case APUS_TK_UNION: read_union(p, v, o); break;
	case APUS_TK_ALIAS: read_alias(p, v, o); break;
	case APUS_TK_ENUM: read_enumerated(p, v, enum_literal, o); break;
	case APUS_TK_BITMASK: read_enumerated(p, v, bit_flag, o); break;
	case APUS_TK_SEQUENCE:
	case APUS_TK_ARRAY:
	case APUS_TK_MAP: read_collection_object(p, v, o); break;
	default: return APUS_WIRE_SKIP;
	}
	return apus_wire_value_bad(v) ? APUS_WIRE_MALFORMED : APUS_WIRE_ACCEPT;
}

enum apus_wire_verdict apus_wire_type_object_parse(const uint8_t *object, size_t object_bytes,
						   struct apus_wire_type_arena *arena,
						   struct apus_wire_type_object *object_out)
{
	struct apus_wire_value whole = apus_wire_value_make(object, object_bytes, true), v;
	struct parse p = {.arena = arena};

	memset(object_out, 0, sizeof(*object_out));
	if (!apus_wire_value_enter(&whole, &v))
		return APUS_WIRE_MALFORMED;
	object_out->equivalence = apus_wire_value_u8(&v);
	object_out->kind = apus_wire_value_u8(&v);
	if (apus_wire_value_bad(&v) || (object_out->equivalence != APUS_WIRE_EK_MINIMAL &&
					object_out->equivalence != APUS_WIRE_EK_COMPLETE))
		return APUS_WIRE_MALFORMED;
	p.complete = object_out->equivalence == APUS_WIRE_EK_COMPLETE;
	return read_object(&p, &v, object_out);
}

/* The dearest byte is one of a collection within collections: five bytes on the wire, one reference here. A
 * member costs 12 there, a member and a reference here; one object more for rounding. */
size_t apus_wire_type_object_arena(size_t object_bytes)
{
	return object_bytes * (sizeof(struct apus_wire_type_ref) / 4 + 1) +
	       object_bytes / 12 *
		       (sizeof(struct apus_wire_type_member) + sizeof(struct apus_wire_type_ref) +
			2 * alignof(max_align_t)) +
	       1024;
}

/* ---- pairs -------------------------------------------------------------------------------------- */

bool apus_wire_type_pairs_open(struct apus_wire_value *value,
			       struct apus_wire_type_pairs *pairs_out)
{
	if (!apus_wire_value_enter(value, &pairs_out->value))
		return false;
	pairs_out->left = apus_wire_value_u32(&pairs_out->value);
	return !apus_wire_value_bad(&pairs_out->value);
}

/* Room for one identifier of any nesting, so that a pair under a plain one can be passed over. */
#define REF_ARENA ((2 << APUS_WIRE_TYPE_NEST_MAX) * 16)

bool apus_wire_type_pairs_next(struct apus_wire_type_pairs *pairs,
			       struct apus_wire_type_hash *hash_out, const uint8_t **object_out,
			       size_t *object_bytes_out)
{
	alignas(max_align_t) uint8_t memory[REF_ARENA];
	struct apus_wire_type_arena arena = {memory, sizeof(memory), 0};
	const struct apus_wire_type_ref *ref;
	struct apus_wire_value object;
	const uint8_t *start;

	if (pairs->left == 0)
		return false;
	pairs->left--;
	ref = apus_wire_type_ref_read(&pairs->value, &arena);
	if (!ref || !apus_wire_value_enter(&pairs->value, &object)) {
		pairs->value.cursor.failed = true;
		return false;
	}
	start = object.cursor.at - 4; /* at the DHEADER */
	*hash_out = ref->hash;
	*object_out = start;
	*object_bytes_out = (size_t)(object.cursor.end - start);
	return true;
}
