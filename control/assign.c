/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of XTypes 1.3 §7.2.4.4, one function a kind of type; see the header. T1 is what is assigned to (the
 * reader's), T2 what is assigned (the writer's).
 *
 * Keys: inside a member that is no key, keys do not matter (KeyErased). A key member must be assignable as any
 * other, and its key part (KeyHolder) as well.
 */
#include "control/assign.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Members of a struct with those of its bases, literals, flags: as many as a descriptor may have. */
#define MEMBERS_MAX 256
#define DEPTH_MAX   32
/* Aliases of aliases, bases of bases. */
#define CHAIN_MAX 16
#define PAIRS_MAX 128
/* Comparisons of labels of unions, which are as many as they have times as many. */
#define LABEL_WORK_MAX ((uint64_t)1 << 24)

/* What the keys of a struct are to the comparison. */
enum keys {
	KEYS_COUNT, /* a topic type: keys must agree */
	KEYS_ERASED,
	KEYS_ONLY /* the key holder: other members do not matter */
};

/* Two types found assignable, or being compared right now: then the answer depends on the rest. */
struct pair {
	struct apus_wire_type_hash t1, t2;
	enum keys keys;
};

struct context {
	const struct apus_ctl_types *types;
	const struct apus_type_consistency *policy;
	bool missing;
	char *why;
	uint32_t path[DEPTH_MAX]; /* ids of the members that lead to the present place */
	uint32_t path_length;
	uint32_t depth;
	uint64_t label_work;
	uint32_t pair_count;
	struct pair pairs[PAIRS_MAX];
};

/* A type with aliases and the two forms of collections out of the way. */
struct view {
	uint8_t kind; /* enum apus_wire_tk */
	uint8_t dim_count;
	uint32_t bound;
	const uint32_t *dims;
	const struct apus_wire_type_ref *element, *key;
	const struct apus_wire_type_object *object; /* of hashed ones */
	struct apus_wire_type_hash hash;
};

/* ---- reasons ------------------------------------------------------------------------------------ */

/* Keeps the first reason, behind the path to it. Returns false, so that it can end a rule. */
__attribute__((format(printf, 2, 3))) static bool no(struct context *c, const char *format, ...)
{
	size_t at = 0;
	va_list args;

	if (!c->why || c->why[0] != '\0')
		return false;
	for (uint32_t i = 0; i < c->path_length && at < APUS_CTL_ASSIGN_WHY_BYTES; i++)
		at += (size_t)snprintf(c->why + at, APUS_CTL_ASSIGN_WHY_BYTES - at, "%s%u",
				       i ? "." : "member ", c->path[i]);
	if (c->path_length && at < APUS_CTL_ASSIGN_WHY_BYTES)
		at += (size_t)snprintf(c->why + at, APUS_CTL_ASSIGN_WHY_BYTES - at, ": ");
	if (at >= APUS_CTL_ASSIGN_WHY_BYTES)
		return false;
	va_start(args, format);
	vsnprintf(c->why + at, APUS_CTL_ASSIGN_WHY_BYTES - at, format, args);
	va_end(args);
	return false;
}

static const char *kind_name(uint8_t kind)
{
	switch (kind) {
	case APUS_TK_BOOLEAN: return "boolean";
	case APUS_TK_BYTE: return "octet";
	case APUS_TK_INT8: return "int8";
	case APUS_TK_UINT8: return "uint8";
	case APUS_TK_INT16: return "short";
	case APUS_TK_UINT16: return "unsigned short";
	case APUS_TK_INT32: return "long";
	case APUS_TK_UINT32: return "unsigned long";
	case APUS_TK_INT64: return "long long";
	case APUS_TK_UINT64: return "unsigned long long";
	case APUS_TK_FLOAT32: return "float";
	case APUS_TK_FLOAT64: return "double";
	case APUS_TK_FLOAT128: return "long double";
	case APUS_TK_CHAR8: return "char";
	case APUS_TK_CHAR16: return "wchar";
	case APUS_TK_STRING8: return "string";
	case APUS_TK_STRING16: return "wstring";
	case APUS_TK_ENUM: return "an enum";
	case APUS_TK_BITMASK: return "a bitmask";
	case APUS_TK_STRUCTURE: return "a struct";
	case APUS_TK_UNION: return "a union";
	case APUS_TK_SEQUENCE: return "a sequence";
	case APUS_TK_ARRAY: return "an array";
	case APUS_TK_MAP: return "a map";
	default: return "a type of unknown kind";
	}
}

/* ---- resolving ---------------------------------------------------------------------------------- */

static void view_object(const struct apus_wire_type_object *o, struct view *v)
{
	v->kind = o->kind;
	v->bound = o->bound;
	v->dim_count = o->dim_count;
	v->dims = o->dims;
	v->key = o->key;
	v->object = o;
	if (o->kind == APUS_TK_SEQUENCE || o->kind == APUS_TK_ARRAY || o->kind == APUS_TK_MAP)
		v->element = o->inner;
}

/* False if an object is missing, or aliases form a cycle. */
static bool resolve(struct context *c, const struct apus_wire_type_ref *ref, struct view *v)
{
	memset(v, 0, sizeof(*v));
	for (int i = 0; i < CHAIN_MAX; i++) {
		const struct apus_wire_type_object *o;

		if (ref->hash.kind == APUS_WIRE_EK_NONE) {
			v->kind = ref->kind;
			v->bound = ref->bound;
			v->dim_count = ref->dim_count;
			v->dims = ref->dims;
			v->element = ref->element;
			v->key = ref->key;
			return true;
		}
		o = apus_ctl_types_get(c->types, &ref->hash);
		if (!o) {
			c->missing = true;
			return no(c, "a part of the type is not known");
		}
		v->hash = ref->hash;
		if (o->kind != APUS_TK_ALIAS) {
			view_object(o, v);
			return true;
		}
		ref = o->inner;
	}
	return no(c, "too many aliases of aliases");
}

/* ---- comparing ---------------------------------------------------------------------------------- */

static bool assignable(struct context *c, const struct apus_wire_type_ref *r1,
		       const struct apus_wire_type_ref *r2, enum keys keys);

/* The same type for certain: equal by what the identifiers say. */
static bool same(const struct apus_wire_type_ref *r1, const struct apus_wire_type_ref *r2)
{
	for (; r1 && r2; r1 = r1->element, r2 = r2->element) {
		if (r1->kind != r2->kind || r1->bound != r2->bound ||
		    r1->dim_count != r2->dim_count ||
		    memcmp(r1->dims, r2->dims, sizeof(r1->dims)) != 0 ||
		    !apus_wire_type_hash_equal(&r1->hash, &r2->hash))
			return false;
		if ((r1->key || r2->key) && !(r1->key && r2->key && same(r1->key, r2->key)))
			return false;
	}
	return r1 == r2;
}

/* Can a receiver find the end of a value without knowing its type? (XTypes 1.3 §7.2.4.3, XCDR2) */
static bool is_delimited(struct context *c, const struct apus_wire_type_ref *ref)
{
	struct view v;

	for (int i = 0; i < CHAIN_MAX; i++) {
		if (!resolve(c, ref, &v))
			return false;
		if (v.kind == APUS_TK_STRUCTURE || v.kind == APUS_TK_UNION)
			return !(v.object->flags & APUS_TYPE_FINAL);
		if (!v.element)
			return true;
		ref = v.element;
	}
	return false;
}

static bool strongly_assignable(struct context *c, const struct apus_wire_type_ref *r1,
				const struct apus_wire_type_ref *r2, enum keys keys)
{
	if (same(r1, r2))
		return true;
	if (!assignable(c, r1, r2, keys))
		return false;
	return is_delimited(c, r2) || no(c, "a final type differs where its end must be found");
}

static bool bound_fits(uint32_t t1, uint32_t t2)
{
	return t1 == 0 || (t2 != 0 && t1 >= t2);
}

static bool strings(struct context *c, const struct view *t1, const struct view *t2)
{
	return c->policy->ignore_string_bounds || bound_fits(t1->bound, t2->bound) ||
	       no(c, "the reader's string bound %u is below the writer's (%u, 0 is none)",
		  t1->bound, t2->bound);
}

static bool sequences(struct context *c, const struct view *t1, const struct view *t2,
		      enum keys keys)
{
	if (!c->policy->ignore_sequence_bounds && !bound_fits(t1->bound, t2->bound))
		return no(c, "the reader's sequence bound %u is below the writer's (%u, 0 is none)",
			  t1->bound, t2->bound);
	if (t1->kind == APUS_TK_MAP && !strongly_assignable(c, t1->key, t2->key, keys))
		return false;
	return strongly_assignable(c, t1->element, t2->element, keys);
}

static bool arrays(struct context *c, const struct view *t1, const struct view *t2, enum keys keys)
{
	if (t1->dim_count != t2->dim_count ||
	    memcmp(t1->dims, t2->dims, t1->dim_count * sizeof(*t1->dims)) != 0)
		return no(c, "the dimensions of an array differ");
	return strongly_assignable(c, t1->element, t2->element, keys);
}

/* Bitmasks and the unsigned integers of the same size (XTypes 1.3 table 15). */
static bool is_bitmask_holder(uint8_t kind, uint16_t bit_bound)
{
	switch (kind) {
	case APUS_TK_UINT8: return bit_bound <= 8;
	case APUS_TK_UINT16: return bit_bound > 8 && bit_bound <= 16;
	case APUS_TK_UINT32: return bit_bound > 16 && bit_bound <= 32;
	case APUS_TK_UINT64: return bit_bound > 32;
	default: return false;
	}
}

static bool bitmasks(struct context *c, const struct view *t1, const struct view *t2)
{
	return t1->object->bit_bound == t2->object->bit_bound ||
	       no(c, "the bitmasks have %u and %u bits", t1->object->bit_bound,
		  t2->object->bit_bound);
}

static bool extensibility_agrees(struct context *c, const struct view *t1, const struct view *t2)
{
	uint16_t e1 = t1->object->flags & APUS_TYPE_EXTENSIBILITY;
	uint16_t e2 = t2->object->flags & APUS_TYPE_EXTENSIBILITY;

	return e1 == e2 || no(c, "the extensibility differs");
}

/* ---- enums -------------------------------------------------------------------------------------- */

static bool same_name(const struct apus_wire_type_member *a, const struct apus_wire_type_member *b)
{
	return memcmp(a->name_hash, b->name_hash, sizeof(a->name_hash)) == 0;
}

/* True if a literal of `from` has a counterpart of that value in `in`; *clash: one agrees in half. */
static bool has_literal(const struct apus_wire_type_object *in,
			const struct apus_wire_type_member *literal, bool *clash)
{
	bool found = false;

	for (uint32_t i = 0; i < in->member_count; i++) {
		const struct apus_wire_type_member *l = &in->members[i];
		bool value = l->value == literal->value;

		*clash |= value != same_name(l, literal);
		found |= value;
	}
	return found;
}

static bool too_many(struct context *c, const struct apus_wire_type_object *a,
		     const struct apus_wire_type_object *b)
{
	if (a->member_count <= MEMBERS_MAX && b->member_count <= MEMBERS_MAX)
		return false;
	no(c, "a type has more than %d members", MEMBERS_MAX);
	return true;
}

static bool enums(struct context *c, const struct view *t1, const struct view *t2)
{
	const struct apus_wire_type_object *a = t1->object, *b = t2->object;
	bool final = a->flags & APUS_TYPE_FINAL, clash = false, all = true;

	if (too_many(c, a, b) || !extensibility_agrees(c, t1, t2))
		return false;
	for (uint32_t i = 0; i < a->member_count; i++)
		all &= has_literal(b, &a->members[i], &clash);
	for (uint32_t i = 0; i < b->member_count; i++)
		all &= has_literal(a, &b->members[i], &clash);
	if (clash)
		return no(c,
			  "enum literals of one name have two values, or of one value two names");
	return all || !final || no(c, "final enums have different literals");
}

/* ---- structs ------------------------------------------------------------------------------------ */

/* The members of a struct, those of its bases first. */
struct members {
	const struct apus_wire_type_member *at[MEMBERS_MAX];
	uint32_t count;
};

/* A cycle of bases ends at the limit. */
static bool collect(struct context *c, const struct apus_wire_type_object *o, struct members *out)
{
	const struct apus_wire_type_object *chain[CHAIN_MAX];
	int length = 0;
	struct view base;

	out->count = 0;
	for (;; o = base.object) {
		if (length == CHAIN_MAX)
			return no(c, "too many bases of bases");
		chain[length++] = o;
		if (!o->inner)
			break;
		if (!resolve(c, o->inner, &base))
			return false;
		if (base.kind != APUS_TK_STRUCTURE)
			return no(c, "a base is no struct");
	}
	while (length-- > 0)
		for (uint32_t i = 0; i < chain[length]->member_count; i++) {
			if (out->count == MEMBERS_MAX)
				return no(c, "a struct has more than %d members", MEMBERS_MAX);
			out->at[out->count++] = &chain[length]->members[i];
		}
	return true;
}

/* Only the key members, if there are any. */
static void hold_keys(struct members *m)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < m->count; i++)
		if (m->at[i]->flags & APUS_MEMBER_KEY)
			m->at[count++] = m->at[i];
	if (count > 0)
		m->count = count;
}

static const struct apus_wire_type_member *find_id(const struct members *m, uint32_t id)
{
	for (uint32_t i = 0; i < m->count; i++)
		if (m->at[i]->id == id)
			return m->at[i];
	return NULL;
}

static bool names_agree(struct context *c, const struct members *t1, const struct members *t2)
{
	if (c->policy->ignore_member_names)
		return true;
	for (uint32_t i = 0; i < t1->count; i++)
		for (uint32_t j = 0; j < t2->count; j++)
			if ((t1->at[i]->id == t2->at[j]->id) != same_name(t1->at[i], t2->at[j]))
				return no(
					c,
					"members %u and %u agree in their id or their name, not in both",
					t1->at[i]->id, t2->at[j]->id);
	return true;
}

/* Members that must be there on both sides (keys; what must be understood and is not optional). */
static bool has_needed(struct context *c, const struct members *of, const struct members *in,
		       enum keys keys, const char *whose)
{
	for (uint32_t i = 0; i < of->count; i++) {
		const struct apus_wire_type_member *m = of->at[i];

		if (find_id(in, m->id))
			continue;
		if (keys != KEYS_ERASED && (m->flags & APUS_MEMBER_KEY))
			return no(c, "only the %s has key member %u", whose, m->id);
		if ((m->flags & APUS_MEMBER_MUST_UNDERSTAND) && !(m->flags & APUS_MEMBER_OPTIONAL))
			return no(c, "only the %s has member %u, which must be understood", whose,
				  m->id);
	}
	return true;
}

/* Appendable and final types: what is at one place is one member (XTypes 1.3 §7.2.4.4.8). */
static bool order_agrees(struct context *c, const struct members *t1, const struct members *t2,
			 bool final)
{
	uint32_t count = t1->count < t2->count ? t1->count : t2->count;

	if (final && t1->count != t2->count)
		return no(c, "final types have %u and %u members", t1->count, t2->count);
	for (uint32_t i = 0; i < count; i++) {
		if (t1->at[i]->id != t2->at[i]->id)
			return no(c, "at place %u there are members %u and %u", i, t1->at[i]->id,
				  t2->at[i]->id);
		if ((t1->at[i]->flags ^ t2->at[i]->flags) & APUS_MEMBER_OPTIONAL)
			return no(c, "member %u is optional on one side only", t1->at[i]->id);
	}
	return true;
}

/* What a key needs beyond assignability: nothing of it may be cut or unknown. */
static bool key_fits(struct context *c, const struct apus_wire_type_member *m1,
		     const struct apus_wire_type_member *m2)
{
	struct view t1, t2;
	bool ignored = false;

	if (!resolve(c, m1->type, &t1) || !resolve(c, m2->type, &t2))
		return false;
	switch (t2.kind) {
	case APUS_TK_STRING8:
	case APUS_TK_STRING16:
	case APUS_TK_SEQUENCE:
	case APUS_TK_MAP:
		return bound_fits(t1.bound, t2.bound) ||
		       no(c, "the bound %u of the reader's key is below the writer's (%u)",
			  t1.bound, t2.bound);
	case APUS_TK_ENUM:
		for (uint32_t i = 0; i < t2.object->member_count; i++)
			if (!has_literal(t1.object, &t2.object->members[i], &ignored))
				return no(c, "the reader's key enum lacks value %d",
					  t2.object->members[i].value);
		return true;
	case APUS_TK_STRUCTURE:
	case APUS_TK_UNION: return assignable(c, m1->type, m2->type, KEYS_ONLY);
	default: return true;
	}
}

static bool member_types(struct context *c, const struct apus_wire_type_member *m1,
			 const struct apus_wire_type_member *m2, bool strongly, enum keys keys)
{
	bool key = m2->flags & APUS_MEMBER_KEY;

	if (keys == KEYS_COUNT && !(m1->flags & APUS_MEMBER_KEY) != !key)
		return no(c, "it is a key on one side only");
	if (strongly ? !strongly_assignable(c, m1->type, m2->type, KEYS_ERASED)
		     : !assignable(c, m1->type, m2->type, KEYS_ERASED))
		return false;
	return !key || keys == KEYS_ERASED || key_fits(c, m1, m2);
}

static bool common_members(struct context *c, const struct members *t1, const struct members *t2,
			   bool strongly, enum keys keys)
{
	uint32_t common = 0;

	for (uint32_t i = 0; i < t1->count; i++) {
		const struct apus_wire_type_member *m2 = find_id(t2, t1->at[i]->id);

		if (!m2)
			continue;
		common++;
		c->path[c->path_length++] = m2->id;
		if (!member_types(c, t1->at[i], m2, strongly, keys))
			return false;
		c->path_length--;
	}
	return common > 0 || no(c, "the types have no member in common");
}

static bool compare_structs(struct context *c, const struct view *v1, const struct view *v2,
			    enum keys keys, struct members m[2])
{
	bool final = v1->object->flags & APUS_TYPE_FINAL;
	bool mutable = v1->object->flags & APUS_TYPE_MUTABLE;

	if (!extensibility_agrees(c, v1, v2) || !collect(c, v1->object, &m[0]) ||
	    !collect(c, v2->object, &m[1]))
		return false;
	if (keys == KEYS_ONLY) {
		hold_keys(&m[0]);
		hold_keys(&m[1]);
	}
	if (!names_agree(c, &m[0], &m[1]) || !has_needed(c, &m[0], &m[1], keys, "reader") ||
	    !has_needed(c, &m[1], &m[0], keys, "writer"))
		return false;
	if (!mutable && !order_agrees(c, &m[0], &m[1], final))
		return false;
	if (c->policy->prevent_type_widening)
		for (uint32_t i = 0; i < m[1].count; i++)
			if (!find_id(&m[0], m[1].at[i]->id))
				return no(c, "the writer's type is wider: member %u",
					  m[1].at[i]->id);
	return common_members(c, &m[0], &m[1], !mutable, keys);
}

static bool structs(struct context *c, const struct view *v1, const struct view *v2, enum keys keys)
{
	struct members *m = malloc(2 * sizeof(*m));
	bool good;

	if (!m) {
		c->missing = true;
		return false;
	}
	good = compare_structs(c, v1, v2, keys, m);
	free(m);
	return good;
}

/* ---- unions ------------------------------------------------------------------------------------- */

static bool has_label(const struct apus_wire_type_member *m, int32_t label)
{
	for (uint32_t i = 0; i < m->label_count; i++)
		if (m->labels[i] == label)
			return true;
	return false;
}

/* The member a discriminator value selects: by its label, else the default one, else none. */
static const struct apus_wire_type_member *select_member(const struct apus_wire_type_object *o,
							 int32_t label)
{
	const struct apus_wire_type_member *otherwise = NULL;

	for (uint32_t i = 0; i < o->member_count; i++) {
		if (has_label(&o->members[i], label))
			return &o->members[i];
		if (o->members[i].flags & APUS_MEMBER_DEFAULT)
			otherwise = &o->members[i];
	}
	return otherwise;
}

static bool selected_types(struct context *c, const struct apus_wire_type_member *m1,
			   const struct apus_wire_type_member *m2)
{
	if (!m1 || !m2)
		return true;
	c->path[c->path_length++] = m2->id;
	if (!assignable(c, m1->type, m2->type, KEYS_ERASED))
		return false;
	c->path_length--;
	return true;
}

/* For each label of `of`: what it selects on both sides. *common: some label selects no default. strictly: it
 * must be listed on the other side as well. */
static bool labels(struct context *c, const struct apus_wire_type_object *of, bool of_t1,
		   const struct apus_wire_type_object *other, bool strictly, bool *common)
{
	for (uint32_t i = 0; i < of->member_count; i++)
		for (uint32_t j = 0; j < of->members[i].label_count; j++) {
			int32_t label = of->members[i].labels[j];
			const struct apus_wire_type_member *m = &of->members[i];
			const struct apus_wire_type_member *o = select_member(other, label);

			if (o && has_label(o, label))
				*common = true;
			else if (strictly)
				return no(c, "only the %s's union has label %d",
					  of_t1 ? "reader" : "writer", label);
			if (!selected_types(c, of_t1 ? m : o, of_t1 ? o : m))
				return false;
		}
	return true;
}

static const struct apus_wire_type_member *default_of(const struct apus_wire_type_object *o)
{
	for (uint32_t i = 0; i < o->member_count; i++)
		if (o->members[i].flags & APUS_MEMBER_DEFAULT)
			return &o->members[i];
	return NULL;
}

static bool union_names(struct context *c, const struct apus_wire_type_object *a,
			const struct apus_wire_type_object *b)
{
	if (c->policy->ignore_member_names)
		return true;
	for (uint32_t i = 0; i < a->member_count; i++)
		for (uint32_t j = 0; j < b->member_count; j++)
			if ((a->members[i].id == b->members[j].id) !=
			    same_name(&a->members[i], &b->members[j]))
				return no(c, "union members %u and %u agree in id or name only",
					  a->members[i].id, b->members[j].id);
	return true;
}

static uint64_t label_count(const struct apus_wire_type_object *o)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < o->member_count; i++)
		count += o->members[i].label_count;
	return count;
}

static bool unions(struct context *c, const struct view *v1, const struct view *v2)
{
	const struct apus_wire_type_object *a = v1->object, *b = v2->object;
	bool final = a->flags & APUS_TYPE_FINAL, common = false;

	if (too_many(c, a, b) || !extensibility_agrees(c, v1, v2) ||
	    !strongly_assignable(c, a->inner, b->inner, KEYS_ERASED))
		return false;
	c->label_work += label_count(a) * label_count(b);
	if (c->label_work > LABEL_WORK_MAX)
		return no(c, "the types are too large to compare");
	if ((a->inner_flags ^ b->inner_flags) & APUS_MEMBER_KEY)
		return no(c, "the discriminator is a key on one side only");
	if (!union_names(c, a, b) || !labels(c, a, true, b, final, &common) ||
	    !labels(c, b, false, a, final || c->policy->prevent_type_widening, &common) ||
	    !selected_types(c, default_of(a), default_of(b)))
		return false;
	return common || no(c, "the unions have no label in common");
}

/* ---- any kind ----------------------------------------------------------------------------------- */

/* True if the pair is settled, or assumed while it is being compared; else notes it. */
static bool is_settled(struct context *c, const struct view *t1, const struct view *t2,
		       enum keys keys, bool *full)
{
	struct pair pair = {t1->hash, t2->hash, keys};

	*full = false;
	if (t1->hash.kind == APUS_WIRE_EK_NONE || t2->hash.kind == APUS_WIRE_EK_NONE)
		return false;
	if (apus_wire_type_hash_equal(&t1->hash, &t2->hash))
		return true;
	for (uint32_t i = 0; i < c->pair_count; i++)
		if (apus_wire_type_hash_equal(&c->pairs[i].t1, &pair.t1) &&
		    apus_wire_type_hash_equal(&c->pairs[i].t2, &pair.t2) &&
		    c->pairs[i].keys == keys)
			return true;
	*full = c->pair_count == PAIRS_MAX;
	if (!*full)
		c->pairs[c->pair_count++] = pair;
	return false;
}

static bool compare(struct context *c, const struct view *t1, const struct view *t2, enum keys keys)
{
	if (t1->kind == APUS_TK_BITMASK && t2->kind != APUS_TK_BITMASK &&
	    is_bitmask_holder(t2->kind, t1->object->bit_bound))
		return true;
	if (t2->kind == APUS_TK_BITMASK && t1->kind != APUS_TK_BITMASK &&
	    is_bitmask_holder(t1->kind, t2->object->bit_bound))
		return true;
	if (t1->kind != t2->kind)
		return no(c, "the reader has %s, the writer %s", kind_name(t1->kind),
			  kind_name(t2->kind));
	switch (t1->kind) {
	case APUS_TK_STRING8:
	case APUS_TK_STRING16: return strings(c, t1, t2);
	case APUS_TK_SEQUENCE:
	case APUS_TK_MAP: return sequences(c, t1, t2, keys);
	case APUS_TK_ARRAY: return arrays(c, t1, t2, keys);
	case APUS_TK_ENUM: return enums(c, t1, t2);
	case APUS_TK_BITMASK: return bitmasks(c, t1, t2);
	case APUS_TK_STRUCTURE: return structs(c, t1, t2, keys);
	case APUS_TK_UNION: return unions(c, t1, t2);
	case APUS_TK_COMPONENT: return no(c, "types that refer to each other are not compared");
	default: return true; /* primitives of one kind */
	}
}

static bool assignable(struct context *c, const struct apus_wire_type_ref *r1,
		       const struct apus_wire_type_ref *r2, enum keys keys)
{
	struct view t1, t2;
	bool full, good;

	if (!resolve(c, r1, &t1) || !resolve(c, r2, &t2))
		return false;
	if (is_settled(c, &t1, &t2, keys, &full))
		return true;
	if (full || c->depth == DEPTH_MAX)
		return no(c, "the types are too large to compare");
	c->depth++;
	good = compare(c, &t1, &t2, keys);
	c->depth--;
	return good;
}

enum apus_ctl_assignability apus_ctl_types_assignable(const struct apus_ctl_types *types,
						      const struct apus_wire_type_hash *reader,
						      const struct apus_wire_type_hash *writer,
						      const struct apus_type_consistency *policy,
						      char *why_out)
{
	struct apus_wire_type_ref r1 = {.kind = reader->kind, .hash = *reader};
	struct apus_wire_type_ref r2 = {.kind = writer->kind, .hash = *writer};
	struct context c = {.types = types, .policy = policy, .why = why_out};

	if (why_out)
		why_out[0] = '\0';
	if (assignable(&c, &r1, &r2, KEYS_COUNT))
		return APUS_CTL_ASSIGNABLE;
	return c.missing ? APUS_CTL_TYPES_MISSING : APUS_CTL_NOT_ASSIGNABLE;
}
