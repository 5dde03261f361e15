/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Key plans: the walk from a payload, a sample or canonical bytes to the key's leaves, and back
 * out.
 *
 * A plan is the declaration-order walk to the last key leaf, flattened: skip these members, enter
 * this struct, note this leaf. Whatever the source, the walk yields one reference a leaf; one
 * emitter turns references into canonical bytes or into a key-only payload.
 */
#include "wire/key.h"
#include "wire/cdr.h"
#include <md5.h>

enum step_op {
	STEP_SKIP,  /* members first … first + count - 1 of a struct */
	STEP_OPEN,  /* an appendable or mutable struct begins: DHEADER under XCDR2 */
	STEP_CLOSE, /* … and ends */
	STEP_FIND,  /* go to the member of a mutable struct with the id `count` … */
	STEP_FOUND, /* … and back to where the members begin */
	STEP_LEAF,  /* a key */
};

/* Where the bytes of one leaf are: its elements, or a string's characters without the NUL. */
struct leaf_ref {
	const uint8_t *data;
	uint32_t bytes;
};

/* ---- preparing a plan ---- */

/* The plan being built and the first error met; once rc is set nothing more is added. */
struct compiler {
	struct apus_wire_keyplan *plan;
	int rc;
};

static struct apus_wire_keystep *add_step(struct compiler *k, enum step_op op,
					  const struct apus_type *type)
{
	struct apus_wire_keystep *step;

	if (k->plan->step_count == APUS_WIRE_KEY_STEPS_MAX) {
		k->rc = APUS_ELIMIT;
		return NULL;
	}
	step = &k->plan->steps[k->plan->step_count++];
	memset(step, 0, sizeof(*step));
	step->op = (uint8_t)op;
	step->type = type;
	return step;
}

static void add_leaf(struct compiler *k, const struct apus_type *type, uint32_t offset_bytes)
{
	const bool array = type->kind == APUS_KIND_ARRAY;
	const struct apus_type *element = array ? type->element : type;
	struct apus_wire_keystep *step;

	if (element->kind != APUS_KIND_STRING && !apus_wire_scalar_bytes(element)) {
		k->rc = APUS_EINVAL;
		return;
	}
	if (array && element->kind == APUS_KIND_STRING) {
		k->rc = APUS_EINVAL;
		return;
	}
	if (k->plan->leaf_count == APUS_WIRE_KEY_LEAVES_MAX) {
		k->rc = APUS_ELIMIT;
		return;
	}
	step = add_step(k, STEP_LEAF, element);
	if (!step)
		return;
	step->count = array ? type->bound : 1;
	step->first = k->plan->leaf_count++;
	step->wire_bytes = (uint8_t)apus_wire_scalar_bytes(element);
	step->offset_bytes = offset_bytes;
	step->dheader = array && apus_wire_needs_dheader(element);
}

static void add_skip(struct compiler *k, const struct apus_type *type, uint32_t first, uint32_t end)
{
	struct apus_wire_keystep *step;

	if (first == end)
		return;
	step = add_step(k, STEP_SKIP, type);
	if (!step)
		return;
	step->first = (uint16_t)first;
	step->count = end - first;
}

static void compile_struct(struct compiler *k, const struct apus_type *type, uint32_t offset_bytes,
			   bool all, int depth)
{
	const bool listed = type->extensibility == APUS_MUTABLE;
	struct apus_wire_keystep *step;
	uint32_t skip_from = 0;

	if (depth > APUS_WIRE_TYPE_DEPTH_MAX) {
		k->rc = APUS_EINVAL;
		return;
	}
	if (type->extensibility != APUS_FINAL)
		add_step(k, STEP_OPEN, type);
	for (uint32_t i = 0; i < type->member_count && !k->rc; i++) {
		const struct apus_member *m = &type->members[i];

		if (!m->key && !all)
			continue;
		if (listed && (step = add_step(k, STEP_FIND, type)) != NULL)
			step->count = m->id;
		if (!listed)
			add_skip(k, type, skip_from, i);
		skip_from = i + 1;
		k->plan->indirect |= m->external;
		if (m->type->kind == APUS_KIND_STRUCT)
			compile_struct(k, m->type, offset_bytes + m->offset_bytes,
				       !apus_wire_has_keys(m->type), depth + 1);
		else
			add_leaf(k, m->type, offset_bytes + m->offset_bytes);
		if (listed)
			add_step(k, STEP_FOUND, type);
	}
	if (!listed)
		add_skip(k, type, skip_from, type->member_count);
	if (type->extensibility != APUS_FINAL)
		add_step(k, STEP_CLOSE, type);
}

/* Leaves below one key member. */
static uint16_t count_leaves(const struct apus_type *type, int depth)
{
	const bool all = !apus_wire_has_keys(type);
	uint16_t count = 0;

	if (type->kind != APUS_KIND_STRUCT || depth > APUS_WIRE_TYPE_DEPTH_MAX)
		return 1;
	for (uint32_t i = 0; i < type->member_count; i++)
		if (all || type->members[i].key)
			count += count_leaves(type->members[i].type, depth + 1);
	return count;
}

static uint16_t find_leaf(const struct apus_wire_keyplan *plan, uint16_t leaf)
{
	uint16_t i;

	for (i = 0; i < plan->step_count; i++)
		if (plan->steps[i].op == STEP_LEAF && plan->steps[i].first == leaf)
			break;
	return i;
}

/* Fills plan->canonical: leaves in ascending member id at each level. first: number of the struct's
 * first leaf in declaration order. */
static void rank_struct(struct apus_wire_keyplan *plan, const struct apus_type *type,
			uint16_t first, bool all, uint16_t *rank)
{
	const struct apus_member *m;
	int64_t last = -1;

	while ((m = apus_wire_next_by_id(type, all, &last)) != NULL) {
		uint16_t leaf = first;

		for (const struct apus_member *before = type->members; before < m; before++)
			if (all || before->key)
				leaf += count_leaves(before->type, 0);
		if (m->type->kind == APUS_KIND_STRUCT)
			rank_struct(plan, m->type, leaf, !apus_wire_has_keys(m->type), rank);
		else if (*rank < plan->leaf_count)
			plan->canonical[(*rank)++] = find_leaf(plan, leaf);
	}
}

/* Longest canonical key; UINT64_MAX if a string has no bound. */
static uint64_t longest_key(const struct apus_wire_keyplan *plan)
{
	uint64_t pos = 0;

	for (uint16_t i = 0; i < plan->leaf_count; i++) {
		const struct apus_wire_keystep *step = &plan->steps[plan->canonical[i]];
		uint64_t mask =
			(step->wire_bytes && step->wire_bytes < 4 ? step->wire_bytes : 4) - 1;

		if (step->dheader)
			pos = ((pos + 3) & ~UINT64_C(3)) + 4;
		pos = (pos + mask) & ~mask;
		if (step->wire_bytes)
			pos += (uint64_t)step->wire_bytes * step->count;
		else if (step->type->bound)
			pos += 5 + (uint64_t)step->type->bound;
		else
			return UINT64_MAX;
	}
	return pos;
}

/* Longest XCDR1 form in declaration order, for apus_wire_key_hash_fast(); UINT64_MAX if a string has no
 * bound. `*differs_out`: it may have other bytes than the canonical key. */
static uint64_t longest_fast(const struct apus_wire_keyplan *plan, bool *differs_out)
{
	uint64_t pos = 0;
	bool open = false, strings = false;

	*differs_out = false;
	for (uint16_t i = 0, leaf = 0; i < plan->step_count; i++) {
		const struct apus_wire_keystep *step = &plan->steps[i];
		uint64_t mask = (step->wire_bytes ? step->wire_bytes : 4) - 1;

		if (step->op != STEP_LEAF)
			continue;
		*differs_out |= plan->canonical[leaf++] != i || step->dheader ||
				(mask == 7 && (strings || ((pos + 3) & 4)));
		pos = (pos + mask) & ~mask;
		if (step->wire_bytes) {
			pos += (uint64_t)step->wire_bytes * step->count;
			continue;
		}
		strings = true;
		open |= step->type->bound == 0;
		pos += 5 + (uint64_t)step->type->bound;
	}
	return open ? UINT64_MAX : pos;
}

static void finish_plan(struct apus_wire_keyplan *plan)
{
	const struct apus_wire_keystep *steps = plan->steps;
	uint16_t rank = 0;

	/* Nothing after the last leaf is of interest, but to a key-only payload, which has to end there. */
	plan->step_count_whole = plan->step_count;
	while (plan->step_count && steps[plan->step_count - 1].op != STEP_LEAF)
		plan->step_count--;
	rank_struct(plan, plan->type, 0, false, &rank);
	if (plan->leaf_count == 1) {
		const struct apus_wire_keystep *leaf = &steps[plan->step_count - 1];

		plan->string_only = leaf->wire_bytes == 0 &&
				    (plan->step_count == 1 ||
				     (plan->step_count == 2 && steps[0].op == STEP_OPEN));
		if (leaf->count == 1 && !plan->indirect && leaf->type->kind <= APUS_KIND_ENUM &&
		    leaf->type->kind != APUS_KIND_BOOL) {
			plan->lone_bytes = leaf->wire_bytes;
			plan->lone_offset = leaf->offset_bytes;
		}
	}
}

int apus_wire_keyplan_init(struct apus_wire_keyplan *plan, const struct apus_type *type,
			   uint32_t limit_bytes)
{
	struct compiler k = {.plan = plan};
	uint64_t longest;

	if (!type || type->kind != APUS_KIND_STRUCT)
		return APUS_EINVAL;
	memset(plan, 0, sizeof(*plan));
	plan->type = type;
	if (!apus_wire_has_keys(type))
		return 0;
	compile_struct(&k, type, 0, false, 0);
	if (k.rc)
		return k.rc;
	finish_plan(plan);
	longest = longest_key(plan);
	if (!limit_bytes)
		limit_bytes = APUS_WIRE_KEY_LIMIT_DEFAULT;
	if (longest != UINT64_MAX && longest > limit_bytes)
		return APUS_ELIMIT;
	plan->use_md5 = longest > 16;
	plan->fast_md5 = longest_fast(plan, &plan->fast_differs) > 16;
	plan->fast_differs |= plan->fast_md5 != plan->use_md5;
	plan->max_bytes = longest == UINT64_MAX ? limit_bytes : (uint32_t)longest;
	return 0;
}

/* ---- finding the leaves ---- */

static bool leaf_from_cdr(struct apus_wire_cdr *c, const struct apus_wire_keystep *step,
			  struct leaf_ref *ref)
{
	size_t bytes = (size_t)step->wire_bytes * step->count, object_end;
	const char *chars;

	if (step->wire_bytes == 0) {
		if (!apus_wire_cdr_string(c, step->type->bound, &chars, &ref->bytes))
			return false;
		ref->data = (const uint8_t *)chars;
		return true;
	}
	if (c->xcdr2 && step->dheader &&
	    (!apus_wire_cdr_dheader(c, &object_end) || object_end - c->pos != bytes))
		return false;
	if (!apus_wire_cdr_align(c, step->wire_bytes) || bytes > apus_wire_cdr_left(c))
		return false;
	ref->data = c->base + c->pos;
	ref->bytes = (uint32_t)bytes;
	c->pos += bytes;
	return true;
}

/* Members an older sender of an appendable struct lacks are not there to be skipped. */
static bool skip_members(struct apus_wire_cdr *c, const struct apus_wire_keystep *step,
			 bool delimited)
{
	for (uint32_t i = 0; i < step->count; i++) {
		if (delimited && c->pos == c->end)
			return true;
		if (!apus_wire_cdr_skip_member(c, &step->type->members[step->first + i], 1))
			return false;
	}
	return true;
}

/* Walks a body that holds the keys alone, in ascending member id and without structs' DHEADERs. */
static bool leaves_by_id(const struct apus_wire_keyplan *plan, struct apus_wire_cdr *c,
			 struct leaf_ref *refs)
{
	for (uint16_t i = 0; i < plan->leaf_count; i++) {
		const struct apus_wire_keystep *step = &plan->steps[plan->canonical[i]];

		if (!leaf_from_cdr(c, step, &refs[step->first]))
			return false;
	}
	return true;
}

/* Where a walk came from: what CLOSE and FOUND go back to. */
struct outer {
	size_t pos, end, origin;
};

/* A struct that is not final begins, or ends. XCDR1 delimits none but has a list's end. */
static bool step_open(struct apus_wire_cdr *c, struct outer *outer)
{
	outer->end = c->end;
	return !c->xcdr2 || apus_wire_cdr_dheader(c, &c->end);
}

static bool step_close(struct apus_wire_cdr *c, const struct apus_wire_keystep *step,
		       const struct outer *outer)
{
	struct apus_wire_member_header header = {.list_end = false};

	if (c->xcdr2) {
		c->pos = c->end;
		c->end = outer->end;
		return true;
	}
	if (step->type->extensibility != APUS_MUTABLE)
		return true;
	return !apus_wire_cdr_find_member(c, APUS_WIRE_MEMBER_ID_END, &header) && header.list_end;
}

static bool step_find(struct apus_wire_cdr *c, uint32_t id, struct outer *outer)
{
	struct apus_wire_member_header header;

	*outer = (struct outer){c->pos, c->end, c->origin};
	if (!apus_wire_cdr_find_member(c, id, &header))
		return false;
	c->end = header.end;
	if (!c->xcdr2)
		c->origin = c->pos;
	return true;
}

/* Walks a body in declaration order, or by id where a struct is mutable. key_only: as XTypes has it,
 * where the members that are no keys are missing and everything else is in place. */
static bool leaves_by_declaration(const struct apus_wire_keyplan *plan, struct apus_wire_cdr *c,
				  bool key_only, struct leaf_ref *refs)
{
	struct outer outer[2 * (APUS_WIRE_TYPE_DEPTH_MAX + 2)];
	const uint16_t step_count = key_only ? plan->step_count_whole : plan->step_count;
	bool good = true;
	int open = 0;

	for (uint16_t i = 0; i < step_count && good; i++) {
		const struct apus_wire_keystep *step = &plan->steps[i];

		switch (step->op) {
		case STEP_OPEN: good = step_open(c, &outer[open++]); break;
		case STEP_CLOSE: good = step_close(c, step, &outer[--open]); break;
		case STEP_FIND: good = step_find(c, step->count, &outer[open++]); break;
		case STEP_FOUND:
			open--;
			c->pos = outer[open].pos;
			c->end = outer[open].end;
			c->origin = outer[open].origin;
			break;
		case STEP_SKIP:
			good = key_only || skip_members(c, step, open > 0 && c->xcdr2);
			break;
		default: good = leaf_from_cdr(c, step, &refs[step->first]);
		}
	}
	return good;
}

/*
 * Key-only payloads come in two forms. Interop: Cyclone 0.10.2 orders the keys by member id and
 * omits the DHEADERs of structs; XTypes keeps declaration order and DHEADERs. The one that ends exactly
 * where the payload does is taken, Cyclone's if both do; then one that leaves what may be padding.
 */
static bool leaves_from_key_payload(const struct apus_wire_keyplan *plan, struct apus_wire_cdr *c,
				    struct leaf_ref *refs)
{
	struct apus_wire_cdr by_id = *c, declared = *c;
	bool may_declare = c->xcdr2 || c->members;

	if (leaves_by_id(plan, &by_id, refs) && apus_wire_cdr_left(&by_id) == 0)
		return true;
	if (may_declare && leaves_by_declaration(plan, &declared, true, refs) &&
	    apus_wire_cdr_left(&declared) == 0)
		return true;
	by_id = declared = *c;
	if (leaves_by_id(plan, &by_id, refs) && apus_wire_cdr_left(&by_id) < 4)
		return true;
	return may_declare && leaves_by_declaration(plan, &declared, true, refs) &&
	       apus_wire_cdr_left(&declared) < 4;
}

/* The bytes of a canonical key as a cursor: a key-only XCDR2 body in big-endian order. */
static struct apus_wire_cdr canonical_cursor(const uint8_t *key, size_t key_bytes)
{
	return (struct apus_wire_cdr){.base = key,
				      .end = key_bytes,
				      .align_max = 4,
				      .xcdr2 = true,
				      .big = true,
				      .swap = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__};
}

static bool leaves_from_canonical(const struct apus_wire_keyplan *plan, const uint8_t *key,
				  size_t key_bytes, struct leaf_ref *refs, size_t *length_out)
{
	struct apus_wire_cdr c = canonical_cursor(key, key_bytes);

	if (!leaves_by_id(plan, &c, refs))
		return false;
	*length_out = c.pos;
	return true;
}

static bool leaves_from_sample(const struct apus_wire_keyplan *plan, const uint8_t *sample,
			       struct leaf_ref *refs)
{
	for (uint16_t i = 0; i < plan->step_count; i++) {
		const struct apus_wire_keystep *step = &plan->steps[i];
		const void *value = sample + step->offset_bytes;
		struct leaf_ref *ref = &refs[step->first];
		const char *chars = value;
		size_t length;

		if (step->op != STEP_LEAF)
			continue;
		if (step->wire_bytes) {
			*ref = (struct leaf_ref){value, step->wire_bytes * step->count};
			continue;
		}
		if (!step->type->bound) {
			memcpy(&chars, value, sizeof(chars));
			chars = chars ? chars : "";
		}
		/* An unbounded string of max_bytes or more fails in the emitter. */
		length = strnlen(chars, step->type->bound ? (size_t)step->type->bound + 1
							  : plan->max_bytes);
		if (step->type->bound && length > step->type->bound)
			return false;
		*ref = (struct leaf_ref){(const uint8_t *)chars, (uint32_t)length};
	}
	return true;
}

/* ---- writing them out ---- */

/* How the emitter writes: the form of its output, and whether the references are in that order. */
struct emitter {
	uint8_t *out;
	size_t pos;
	size_t end;
	uint8_t align_max;
	bool big;      /* byte order of the output */
	bool swap;     /* the references have the other order */
	bool dheaders; /* arrays of non-primitives under XCDR2 */
};

static bool emit_align(struct emitter *e, size_t align)
{
	size_t mask = (align < e->align_max ? align : e->align_max) - 1;
	size_t gap = -e->pos & mask;

	if (gap > e->end - e->pos)
		return false;
	memset(e->out + e->pos, 0, gap);
	e->pos += gap;
	return true;
}

static bool emit_u32(struct emitter *e, uint32_t value)
{
	if (!emit_align(e, 4) || e->end - e->pos < 4)
		return false;
	if (e->big != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__))
		value = __builtin_bswap32(value);
	memcpy(e->out + e->pos, &value, 4);
	e->pos += 4;
	return true;
}

static bool emit_leaf(struct emitter *e, const struct apus_wire_keystep *step,
		      const struct leaf_ref *ref)
{
	const size_t width = step->wire_bytes;
	uint8_t *dst;

	if (width == 0) {
		if (!emit_u32(e, ref->bytes + 1) || ref->bytes >= e->end - e->pos)
			return false;
		memcpy(e->out + e->pos, ref->data, ref->bytes);
		e->out[e->pos + ref->bytes] = 0;
		e->pos += (size_t)ref->bytes + 1;
		return true;
	}
	if (e->dheaders && step->dheader && !emit_u32(e, ref->bytes))
		return false;
	if (!emit_align(e, width) || ref->bytes > e->end - e->pos)
		return false;
	dst = e->out + e->pos;
	e->pos += ref->bytes;
	if (step->type->kind == APUS_KIND_BOOL) {
		for (size_t i = 0; i < ref->bytes; i++)
			dst[i] = ref->data[i] != 0;
		return true;
	}
	if (!e->swap || width == 1) {
		memcpy(dst, ref->data, ref->bytes);
		return true;
	}
	for (size_t i = 0; i < ref->bytes; i += width)
		for (size_t b = 0; b < width; b++)
			dst[i + b] = ref->data[i + width - 1 - b];
	return true;
}

/* Writes the canonical key from references. src_big: their byte order. */
static int emit_canonical(const struct apus_wire_keyplan *plan, const struct leaf_ref *refs,
			  bool src_big, uint8_t *key_out, size_t key_bytes_max)
{
	struct emitter e = {
		.out = key_out, .align_max = 4, .big = true, .swap = !src_big, .dheaders = true};

	e.end = key_bytes_max < plan->max_bytes ? key_bytes_max : plan->max_bytes;
	for (uint16_t i = 0; i < plan->leaf_count; i++) {
		const struct apus_wire_keystep *step = &plan->steps[plan->canonical[i]];

		if (!emit_leaf(&e, step, &refs[step->first]))
			return APUS_ELIMIT;
	}
	return (int)e.pos;
}

/* The common case of a string at the start and no DHEADER before it. */
static int extract_string(const struct apus_wire_keyplan *plan, struct apus_wire_cdr *c,
			  bool key_only, uint8_t *key_out, size_t key_bytes_max)
{
	const struct apus_wire_keystep *step = &plan->steps[plan->step_count - 1];
	const char *chars;
	uint32_t length, bytes;

	if (!apus_wire_cdr_string(c, step->type->bound, &chars, &length) ||
	    (key_only && apus_wire_cdr_left(c) >= 4))
		return APUS_EENCODING;
	bytes = length + 1;
	if ((size_t)bytes + 4 > key_bytes_max || (size_t)bytes + 4 > plan->max_bytes)
		return APUS_ELIMIT;
	key_out[0] = (uint8_t)(bytes >> 24);
	key_out[1] = (uint8_t)(bytes >> 16);
	key_out[2] = (uint8_t)(bytes >> 8);
	key_out[3] = (uint8_t)bytes;
	memcpy(key_out + 4, chars, bytes);
	return (int)bytes + 4;
}

/* The key of a sample in memory where that is one number: no list of leaves to make. */
static inline int lone_key(const struct apus_wire_keyplan *plan, const void *sample,
			   uint8_t *key_out)
{
	const uint8_t *src = (const uint8_t *)sample + plan->lone_offset;
	const bool swap = __BYTE_ORDER__ != __ORDER_BIG_ENDIAN__;
	uint16_t v16;
	uint32_t v32;
	uint64_t v64;

	switch (plan->lone_bytes) {
	case 1: key_out[0] = src[0]; break;
	case 2:
		memcpy(&v16, src, 2);
		v16 = swap ? __builtin_bswap16(v16) : v16;
		memcpy(key_out, &v16, 2);
		break;
	case 4:
		memcpy(&v32, src, 4);
		v32 = swap ? __builtin_bswap32(v32) : v32;
		memcpy(key_out, &v32, 4);
		break;
	default:
		memcpy(&v64, src, 8);
		v64 = swap ? __builtin_bswap64(v64) : v64;
		memcpy(key_out, &v64, 8);
		break;
	}
	return plan->lone_bytes;
}

int apus_wire_key_extract(const struct apus_wire_keyplan *plan, const uint8_t *payload,
			  size_t payload_bytes, bool key_only, uint8_t *key_out,
			  size_t key_bytes_max)
{
	struct leaf_ref refs[APUS_WIRE_KEY_LEAVES_MAX];
	struct apus_wire_cdr c;
	bool found;

	if (plan->leaf_count == 0)
		return 0;
	if (apus_wire_cdr_open(&c, payload, payload_bytes) || !apus_wire_cdr_fits(&c, plan->type))
		return APUS_EENCODING;
	if (plan->string_only && !c.delimited)
		return extract_string(plan, &c, key_only, key_out, key_bytes_max);
	if (plan->lone_bytes && !key_only && key_bytes_max >= plan->lone_bytes &&
	    apus_wire_is_image(&c, plan->type))
		return lone_key(plan, c.base, key_out);
	found = key_only ? leaves_from_key_payload(plan, &c, refs)
			 : leaves_by_declaration(plan, &c, false, refs);
	if (!found)
		return APUS_EENCODING;
	return emit_canonical(plan, refs, c.big, key_out, key_bytes_max);
}

int apus_wire_key_from_sample(const struct apus_wire_keyplan *plan, const void *sample,
			      uint8_t *key_out, size_t key_bytes_max)
{
	struct leaf_ref refs[APUS_WIRE_KEY_LEAVES_MAX];

	if (plan->lone_bytes && key_bytes_max >= plan->lone_bytes)
		return lone_key(plan, sample, key_out);
	if (plan->indirect) {
		if (key_bytes_max > plan->max_bytes)
			key_bytes_max = plan->max_bytes;
		return apus_wire_cdr_encode_key(plan->type, sample, key_out, key_bytes_max);
	}
	if (!leaves_from_sample(plan, sample, refs))
		return APUS_EENCODING;
	return emit_canonical(plan, refs, __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__, key_out,
			      key_bytes_max);
}

void apus_wire_key_hash(const struct apus_wire_keyplan *plan, const uint8_t *key, size_t key_bytes,
			uint8_t hash_out[16])
{
	MD5_CTX md5;

	if (!plan->use_md5) {
		memset(hash_out, 0, 16);
		memcpy(hash_out, key, key_bytes < 16 ? key_bytes : 16);
		return;
	}
	MD5Init(&md5);
	MD5Update(&md5, key, key_bytes);
	MD5Final(hash_out, &md5);
}

/* Bytes on their way into a hash: MD5 of all, and the first 16 in clear. */
struct hash_stream {
	MD5_CTX md5;
	uint8_t clear[16];
	size_t pos;
};

static void stream(struct hash_stream *s, const void *bytes, size_t count)
{
	if (s->pos < sizeof(s->clear))
		memcpy(s->clear + s->pos, bytes,
		       count < sizeof(s->clear) - s->pos ? count : sizeof(s->clear) - s->pos);
	MD5Update(&s->md5, bytes, count);
	s->pos += count;
}

static void stream_leaf(struct hash_stream *s, const struct apus_wire_keystep *step,
			const struct leaf_ref *ref)
{
	static const uint8_t zeros[8];
	const size_t align = step->wire_bytes ? step->wire_bytes : 4;
	const uint32_t chars = ref->bytes + 1;
	const uint8_t length[4] = {(uint8_t)(chars >> 24), (uint8_t)(chars >> 16),
				   (uint8_t)(chars >> 8), (uint8_t)chars};

	stream(s, zeros, -s->pos & (align - 1));
	if (step->wire_bytes == 0)
		stream(s, length, sizeof(length));
	stream(s, ref->data, ref->bytes);
	if (step->wire_bytes == 0)
		stream(s, zeros, 1);
}

bool apus_wire_key_hash_fast(const struct apus_wire_keyplan *plan, const uint8_t *key,
			     size_t key_bytes, uint8_t hash_out[16])
{
	struct leaf_ref refs[APUS_WIRE_KEY_LEAVES_MAX];
	struct hash_stream s = {.pos = 0};
	size_t length;

	if (plan->leaf_count == 0 || !leaves_from_canonical(plan, key, key_bytes, refs, &length) ||
	    length != key_bytes)
		return false;
	MD5Init(&s.md5);
	for (uint16_t i = 0; i < plan->step_count; i++)
		if (plan->steps[i].op == STEP_LEAF)
			stream_leaf(&s, &plan->steps[i], &refs[plan->steps[i].first]);
	if (plan->fast_md5)
		MD5Final(hash_out, &s.md5);
	else
		memcpy(hash_out, s.clear, sizeof(s.clear));
	return true;
}

int apus_wire_key_from_hash(const struct apus_wire_keyplan *plan, const uint8_t hash[16],
			    uint8_t *key_out, size_t key_bytes_max)
{
	if (plan->use_md5)
		return APUS_ENOTSUP;
	return apus_wire_key_from_clear(plan, hash, key_out, key_bytes_max);
}

int apus_wire_key_from_clear(const struct apus_wire_keyplan *plan, const uint8_t hash[16],
			     uint8_t *key_out, size_t key_bytes_max)
{
	struct leaf_ref refs[APUS_WIRE_KEY_LEAVES_MAX];
	size_t length;

	if (plan->leaf_count == 0)
		return APUS_ENOTSUP;
	if (!leaves_from_canonical(plan, hash, 16, refs, &length))
		return APUS_EENCODING;
	for (size_t i = length; i < 16; i++)
		if (hash[i] != 0)
			return APUS_EENCODING;
	if (length > key_bytes_max)
		return APUS_ELIMIT;
	memcpy(key_out, hash, length);
	return (int)length;
}

static void put_encapsulation(uint8_t *out, const struct apus_type *type, int representation,
			      size_t padding)
{
	out[0] = 0;
	out[1] = (uint8_t)apus_wire_encap_of(type, representation == APUS_XCDR2);
	out[2] = 0;
	out[3] = (uint8_t)padding;
}

int apus_wire_key_payload(const struct apus_wire_keyplan *plan, const uint8_t *key,
			  size_t key_bytes, int representation, uint8_t *out, size_t out_bytes)
{
	const bool xcdr2 = representation == APUS_XCDR2;
	struct emitter e = {.align_max = xcdr2 ? 4 : 8, .swap = true, .dheaders = xcdr2};
	struct leaf_ref refs[APUS_WIRE_KEY_LEAVES_MAX];
	size_t length, body;

	if (representation != APUS_XCDR1 && !xcdr2)
		return APUS_EINVAL;
	if (!leaves_from_canonical(plan, key, key_bytes, refs, &length) || length != key_bytes)
		return APUS_EENCODING;
	if (out_bytes < APUS_WIRE_ENCAP_BYTES)
		return APUS_ELIMIT;
	e.out = out + APUS_WIRE_ENCAP_BYTES;
	e.end = out_bytes - APUS_WIRE_ENCAP_BYTES;
	for (uint16_t i = 0; i < plan->leaf_count; i++) {
		const struct apus_wire_keystep *step = &plan->steps[plan->canonical[i]];

		if (!emit_leaf(&e, step, &refs[step->first]))
			return APUS_ELIMIT;
	}
	body = e.pos;
	if (!emit_align(&e, 4))
		return APUS_ELIMIT;
	put_encapsulation(out, plan->type, representation, e.pos - body);
	return (int)(APUS_WIRE_ENCAP_BYTES + e.pos);
}
