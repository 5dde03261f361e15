/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Member paths and walks over CDR bytes: see access.h for the idea and the invariants.
 *
 * The builder visits the type in serialisation order. It knows the position modulo the alignment of
 * the run it is in, so following members of no larger alignment extend that run; after a member of
 * variable size, and at the start of loop bodies, nothing is known and a new run begins.
 */
#include "wire/access.h"

#include <string.h>

#include "base/atomics.h"
#include "wire/cdr.h"

/* ---- paths ------------------------------------------------------------------------------------- */

static const struct apus_member *find_member(const struct apus_type *type, const char *name,
					     size_t name_bytes)
{
	for (uint32_t i = 0; i < type->member_count; i++) {
		const char *candidate = type->members[i].name;

		if (strncmp(candidate, name, name_bytes) == 0 && candidate[name_bytes] == '\0')
			return &type->members[i];
	}
	return NULL;
}

int apus_wire_path_resolve(const struct apus_type *type, const char *path, size_t path_bytes,
			   struct apus_wire_path *path_out, struct apus_wire_path_error *error_out)
{
	struct apus_wire_path found = {.depth = 0, .leaf = type};
	size_t at = 0;

	for (;;) {
		const char *dot = at < path_bytes ? memchr(path + at, '.', path_bytes - at) : NULL;
		size_t length = (dot ? (size_t)(dot - path) : path_bytes) - at;
		const struct apus_member *member;

		*error_out = (struct apus_wire_path_error){at, length, found.leaf};
		if (length == 0)
			return APUS_EINVAL;
		if (found.leaf->kind != APUS_KIND_STRUCT)
			return APUS_ENOTSUP;
		if (found.depth == APUS_WIRE_PATH_DEPTH)
			return APUS_ELIMIT;
		member = find_member(found.leaf, path + at, length);
		if (!member)
			return APUS_ENOENT;
		found.members[found.depth++] = (uint16_t)(member - found.leaf->members);
		found.leaf = member->type;
		if (!dot)
			break;
		at += length + 1;
	}
	*path_out = found;
	return 0;
}

int apus_wire_path_compare(const struct apus_wire_path *a, const struct apus_wire_path *b)
{
	for (uint32_t i = 0; i < a->depth && i < b->depth; i++) {
		if (a->members[i] != b->members[i])
			return a->members[i] < b->members[i] ? -1 : 1;
	}
	return (a->depth > b->depth) - (a->depth < b->depth);
}

/* ---- building walks ---------------------------------------------------------------------------- */

#define RUN_NONE UINT32_MAX

struct builder {
	bool xcdr2;
	const struct apus_wire_path *paths; /* those not found yet */
	const uint16_t *slots;
	uint32_t path_count;
	struct apus_wire_step *steps;
	uint32_t step_count, step_capacity;
	uint32_t run;                      /* index of the run that may still grow, or RUN_NONE */
	uint32_t open;                     /* loops and delimited structs around us */
	uint32_t visits;                   /* members looked at, for the bound */
	uint16_t at[APUS_WIRE_PATH_DEPTH]; /* position in the type, as a path */
};

static int build_member(struct builder *b, const struct apus_type *type, uint32_t depth,
			bool wanted);

static int emit(struct builder *b, uint8_t op, uint32_t align, uint32_t bytes)
{
	uint32_t cap = b->xcdr2 ? 4 : 8; /* XTypes 1.3 §7.4.3.2.3: XCDR2 never aligns beyond 4 */

	if (b->step_count == b->step_capacity)
		return APUS_ELIMIT;
	b->steps[b->step_count] = (struct apus_wire_step){
		.op = op,
		.align_mask = (uint8_t)((align < cap ? align : cap) - 1),
		.slot = APUS_WIRE_NO_SLOT,
		.bytes = bytes,
	};
	b->run = op == APUS_WIRE_RUN ? b->step_count : RUN_NONE;
	b->step_count++;
	return 0;
}

/* A member that was asked for: the first of the sorted list is always the next to be met. */
static uint16_t take_slot(struct builder *b)
{
	uint16_t slot = b->slots[0];

	b->paths++;
	b->slots++;
	b->path_count--;
	return slot;
}

/* `count` elements of a fixed-size kind, back to back. */
static int build_fixed(struct builder *b, uint32_t align, uint64_t bytes, bool wanted)
{
	struct apus_wire_step *run = b->run == RUN_NONE ? NULL : &b->steps[b->run];
	uint32_t delta = 0;
	int result;

	if (bytes > INT32_MAX)
		return APUS_ELIMIT;
	if (b->xcdr2 && align > 4)
		align = 4;
	if (run && align <= run->align_mask + 1u && !(wanted && run->slot != APUS_WIRE_NO_SLOT)) {
		uint64_t padded = ((uint64_t)run->bytes + align - 1) & ~(uint64_t)(align - 1);

		if (padded + bytes > INT32_MAX)
			return APUS_ELIMIT;
		delta = (uint32_t)padded;
		run->bytes = (uint32_t)(padded + bytes);
	} else {
		/* Position 0 has every alignment: later members of the same run may rely on it. */
		result = emit(b, APUS_WIRE_RUN, b->step_count == 0 ? 8 : align, (uint32_t)bytes);
		if (result < 0)
			return result;
		run = &b->steps[b->run];
	}
	if (wanted) {
		run->slot = take_slot(b);
		run->delta = delta;
	}
	return 0;
}

static int build_string(struct builder *b, uint32_t bound, bool wanted)
{
	int result = emit(b, APUS_WIRE_STRING, 4, bound);

	if (result == 0 && wanted)
		b->steps[b->step_count - 1].slot = take_slot(b);
	return result;
}

/* Elements of variable or composite shape under XCDR1: a loop around one element. */
static int build_loop(struct builder *b, const struct apus_type *type, uint32_t depth)
{
	bool counted = type->kind == APUS_KIND_ARRAY;
	uint32_t loop = b->step_count;
	int result;

	if (++b->open > APUS_WIRE_WALK_DEPTH)
		return APUS_ELIMIT;
	result = emit(b, counted ? APUS_WIRE_LOOP : APUS_WIRE_LOOP_READ, counted ? 1 : 4,
		      type->bound);
	if (result == 0)
		result = build_member(b, type->element, depth + 1, false);
	if (result < 0)
		return result;
	b->open--;
	b->run = RUN_NONE;
	if (b->step_count == loop + 1) { /* elements without bytes: at most their count is there */
		b->step_count = loop;
		return counted ? 0 : emit(b, APUS_WIRE_SEQUENCE, 1, 0);
	}
	result = emit(b, APUS_WIRE_NEXT, 1, loop + 1);
	b->steps[loop].delta = b->step_count;
	return result;
}

static int build_collection(struct builder *b, const struct apus_type *type, uint32_t depth)
{
	const struct apus_type *element = type->element;
	uint32_t bytes = element ? (uint32_t)apus_wire_scalar_bytes(element) : 0;
	int result;

	if (!element || (type->kind == APUS_KIND_ARRAY && type->bound == 0))
		return APUS_EINVAL;
	/* XTypes 1.3 §7.4.3.5.3, rules 11 and 12: elements that are not primitive come with a DHEADER. */
	if (b->xcdr2 && apus_wire_needs_dheader(element))
		return emit(b, APUS_WIRE_DELIMITED, 4, 0);
	if (bytes && type->kind == APUS_KIND_ARRAY)
		return build_fixed(b, bytes, (uint64_t)bytes * type->bound, false);
	if (!bytes)
		return build_loop(b, type, depth);
	result = emit(b, APUS_WIRE_SEQUENCE, bytes, bytes);
	if (result == 0)
		b->steps[b->step_count - 1].delta = type->bound;
	return result;
}

/* True if the next wanted path goes through the member at `depth` of the current position. */
static bool on_path(const struct builder *b, uint32_t depth)
{
	return b->path_count > 0 && b->paths[0].depth > depth &&
	       memcmp(b->paths[0].members, b->at, (depth + 1) * sizeof(b->at[0])) == 0;
}

/* Alignment of the first byte of a value. */
static uint32_t leading_align(const struct builder *b, const struct apus_type *type)
{
	for (uint32_t depth = 0; type && depth < APUS_WIRE_PATH_DEPTH; depth++) {
		if (type->kind == APUS_KIND_STRUCT && type->member_count > 0 &&
		    !(b->xcdr2 && type->extensibility == APUS_APPENDABLE))
			type = type->members[0].type;
		else if (type->kind == APUS_KIND_ARRAY && type->element &&
			 !(b->xcdr2 && apus_wire_needs_dheader(type->element)))
			type = type->element;
		else
			break;
	}
	return type && apus_wire_scalar_bytes(type) ? (uint32_t)apus_wire_scalar_bytes(type) : 4;
}

/* Members of one struct. search: we are on the way to a wanted member, `at` holds where. An older
 * appendable sample may end early: under XCDR2 its DHEADER tells, under XCDR1 only the payload's end. */
static int build_members(struct builder *b, const struct apus_type *type, uint32_t depth,
			 bool search)
{
	bool optional_tail = type->extensibility == APUS_APPENDABLE && (b->xcdr2 || depth == 0);
	uint32_t first = b->step_count;
	int result;

	for (uint32_t i = 0; i < type->member_count; i++) {
		const struct apus_type *member = type->members[i].type;
		bool wanted = false;

		if (search && b->path_count == 0)
			return 0;
		if (!member)
			return APUS_EINVAL;
		if (type->members[i].optional) /* walks know no presence flags */
			return APUS_ENOTSUP;
		if (search) {
			b->at[depth] = (uint16_t)i;
			wanted = on_path(b, depth);
		}
		if (optional_tail) {
			result = emit(b, APUS_WIRE_MEMBER, leading_align(b, member), first);
			if (result < 0)
				return result;
		}
		result = build_member(b, member, depth + 1, wanted);
		if (result < 0)
			return result;
	}
	return 0;
}

/* Members that are not there jump to where their struct ends. */
static void aim_members(struct builder *b, uint32_t first, uint32_t target)
{
	for (uint32_t i = first; i < b->step_count; i++) {
		if (b->steps[i].op == APUS_WIRE_MEMBER && b->steps[i].bytes == first)
			b->steps[i].bytes = target;
	}
}

static int build_struct(struct builder *b, const struct apus_type *type, uint32_t depth,
			bool search)
{
	bool delimited = b->xcdr2 && type->extensibility == APUS_APPENDABLE;
	uint32_t first;
	int result;

	if (type->extensibility > APUS_APPENDABLE)
		return APUS_ENOTSUP; /* members with headers of their own */
	if (!delimited) {
		first = b->step_count;
		result = build_members(b, type, depth, search);
		aim_members(b, first, b->step_count);
		return result;
	}
	if (!search)
		return emit(b, APUS_WIRE_DELIMITED, 4, 0);
	if (++b->open > APUS_WIRE_WALK_DEPTH)
		return APUS_ELIMIT;
	result = emit(b, APUS_WIRE_ENTER, 4, 0);
	if (result < 0)
		return result;
	first = b->step_count;
	result = build_members(b, type, depth, true);
	if (result < 0)
		return result;
	aim_members(b, first, b->step_count);
	b->open--;
	return emit(b, APUS_WIRE_LEAVE, 1, 0);
}

static int build_member(struct builder *b, const struct apus_type *type, uint32_t depth,
			bool wanted)
{
	uint32_t bytes = (uint32_t)apus_wire_scalar_bytes(type);

	if (depth > APUS_WIRE_PATH_DEPTH || ++b->visits > APUS_WIRE_WALK_VISITS)
		return APUS_ELIMIT;
	if (bytes)
		return build_fixed(b, bytes, bytes, wanted);
	switch (type->kind) {
	case APUS_KIND_STRING: return build_string(b, type->bound, wanted);
	case APUS_KIND_ARRAY:
	case APUS_KIND_SEQUENCE: return build_collection(b, type, depth);
	case APUS_KIND_STRUCT: return build_struct(b, type, depth, wanted);
	default: return APUS_ENOTSUP;
	}
}

int apus_wire_walk_build(const struct apus_type *type, bool xcdr2,
			 const struct apus_wire_path *paths, const uint16_t *slots,
			 uint32_t path_count, struct apus_wire_step *steps_out,
			 uint32_t step_capacity)
{
	struct builder b = {
		.xcdr2 = xcdr2,
		.paths = paths,
		.slots = slots,
		.path_count = path_count,
		.steps = steps_out,
		.step_capacity = step_capacity,
		.run = RUN_NONE,
	};
	int result;

	if (type->kind != APUS_KIND_STRUCT)
		return APUS_EINVAL;
	result = build_struct(&b, type, 0, true);
	if (result < 0)
		return result;
	return b.path_count == 0 ? (int)b.step_count : APUS_EINVAL;
}

/* ---- running walks ----------------------------------------------------------------------------- */

/* Where a walk is: positions relative to the body, at <= limit <= body_bytes. Its address goes to
 * inlined functions only, so that it lives in registers. */
struct cursor {
	const uint8_t *body;
	uint32_t at, limit;
};

/* What a walk knows of its way beyond that. */
struct walker {
	struct cursor c;
	uint32_t depth;
	uint32_t saved[APUS_WIRE_WALK_DEPTH]; /* outer limits of ENTER, remaining rounds of LOOP */
};

static inline bool align_to(struct cursor *c, uint32_t mask)
{
	uint32_t pad = -c->at & mask;

	if (APUS_UNLIKELY(pad > c->limit - c->at))
		return false;
	c->at += pad;
	return true;
}

static inline bool take(struct cursor *c, uint64_t bytes)
{
	if (APUS_UNLIKELY(bytes > c->limit - c->at))
		return false;
	c->at += (uint32_t)bytes;
	return true;
}

static inline bool read_u32(struct cursor *c, bool swap, uint32_t *value_out)
{
	uint32_t v;

	if (!align_to(c, 3) || !take(c, 4))
		return false;
	memcpy(&v, c->body + c->at - 4, 4);
	*value_out = swap ? __builtin_bswap32(v) : v;
	return true;
}

static inline bool step_string(struct cursor *c, bool swap, const struct apus_wire_step *s,
			       struct apus_wire_slot *slots)
{
	uint32_t length;

	if (!read_u32(c, swap, &length) || length == 0 || !take(c, length))
		return false;
	/* `length` counts the NUL, a bound does not. */
	if ((s->bytes && length - 1 > s->bytes) || c->body[c->at - 1] != '\0')
		return false;
	if (s->slot != APUS_WIRE_NO_SLOT)
		slots[s->slot] = (struct apus_wire_slot){c->body + c->at - length, length - 1};
	return true;
}

static inline bool step_sequence(struct cursor *c, bool swap, const struct apus_wire_step *s)
{
	uint32_t count;

	if (!read_u32(c, swap, &count))
		return false;
	if (count == 0)
		return true;
	if (s->delta && count > s->delta)
		return false;
	return align_to(c, s->align_mask) && take(c, (uint64_t)count * s->bytes);
}

static inline bool step_enter(struct walker *w, bool swap)
{
	uint32_t bytes;

	if (!read_u32(&w->c, swap, &bytes) || bytes > w->c.limit - w->c.at)
		return false;
	w->saved[w->depth++] = w->c.limit;
	w->c.limit = w->c.at + bytes;
	return true;
}

static bool step_rare(struct walker *w, bool swap, const struct apus_wire_step *s, uint32_t *next)
{
	uint32_t n = s->bytes;

	switch (s->op) {
	case APUS_WIRE_DELIMITED: return read_u32(&w->c, swap, &n) && take(&w->c, n);
	case APUS_WIRE_ENTER: return step_enter(w, swap);
	case APUS_WIRE_LEAVE:
		w->c.at = w->c.limit;
		w->c.limit = w->saved[--w->depth];
		return true;
	case APUS_WIRE_MEMBER:
		if (((w->c.at + s->align_mask) & ~(uint32_t)s->align_mask) >= w->c.limit)
			*next = n;
		return true;
	case APUS_WIRE_LOOP_READ:
		if (!read_u32(&w->c, swap, &n) || (s->bytes && n > s->bytes))
			return false;
		/* fall through */
	case APUS_WIRE_LOOP:
		if (n == 0)
			*next = s->delta;
		else
			w->saved[w->depth++] = n;
		return true;
	case APUS_WIRE_NEXT:
		if (--w->saved[w->depth - 1] > 0)
			*next = n;
		else
			w->depth--;
		return true;
	default: return false;
	}
}

/* The common steps work on a cursor of their own; the rare ones get the walker. */
static inline __attribute__((always_inline)) bool walk(const struct apus_wire_step *steps,
						       uint32_t step_count, const uint8_t *body,
						       uint32_t body_bytes, const bool swap,
						       struct apus_wire_slot *slots)
{
	struct cursor c = {body, 0, body_bytes};
	struct walker w; /* `saved` stays unset: most walks never use it */

	w.depth = 0;
	for (uint32_t i = 0; i < step_count;) {
		const struct apus_wire_step *s = &steps[i++];

		if (s->op == APUS_WIRE_RUN) {
			if (!align_to(&c, s->align_mask) || !take(&c, s->bytes))
				return false;
			if (s->slot != APUS_WIRE_NO_SLOT)
				slots[s->slot].bytes = body + c.at - s->bytes + s->delta;
		} else if (s->op == APUS_WIRE_STRING) {
			if (!step_string(&c, swap, s, slots))
				return false;
		} else if (s->op == APUS_WIRE_SEQUENCE) {
			if (!step_sequence(&c, swap, s))
				return false;
		} else {
			w.c = c;
			if (!step_rare(&w, swap, s, &i))
				return false;
			c = w.c;
		}
	}
	return true;
}

bool apus_wire_walk(const struct apus_wire_step *steps, uint32_t step_count, const uint8_t *body,
		    size_t body_bytes, bool swap, struct apus_wire_slot *slots)
{
	/* Positions are 32 bits wide; no transport carries a sample that large. */
	if (body_bytes > INT32_MAX)
		return false;
	if (swap)
		return walk(steps, step_count, body, (uint32_t)body_bytes, true, slots);
	return walk(steps, step_count, body, (uint32_t)body_bytes, false, slots);
}
