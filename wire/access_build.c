/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building walks: see access.h for what they are.
 *
 * The builder visits the type in serialisation order. It knows the position modulo the alignment of
 * the run it is in, so following members of no larger alignment extend that run; after a member of
 * variable size, where branches meet and at the start of loop bodies nothing is known and a new run
 * begins. Paths are sorted as the builder meets their fields: the first one left is always the next.
 *
 * `parts` holds the position in the type as a path: `depth` entries of it lead to the value at hand.
 */
#include <string.h>

#include "wire/access.h"
#include "wire/cdr.h"

#define RUN_NONE UINT32_MAX
#define UNAIMED  UINT32_MAX
/** Elements' scalars that are laid out one by one to reach an element at a constant offset. */
#define UNROLL_MAX 4096

struct builder {
	bool xcdr2;
	const struct apus_wire_path *paths; /* those not found yet */
	const uint16_t *slots;
	uint32_t path_count;
	struct apus_wire_step *steps;
	uint32_t step_count, step_capacity;
	uint32_t run;    /* index of the run that may still grow, or RUN_NONE */
	bool at_origin;  /* the next byte is one that alignment refers to */
	bool preset;     /* fields below already read as their defaults where they are missing */
	uint32_t open;   /* words of the walk's stack in use */
	uint32_t visits; /* members looked at, for the bound */
	uint32_t parts[APUS_WIRE_PATH_DEPTH];
};

static int build_value(struct builder *b, const struct apus_type *type, uint32_t depth);
static int build_flat(struct builder *b, const struct apus_type *type, uint32_t depth);

/* ---- steps ------------------------------------------------------------------------------------- */

static int emit_step(struct builder *b, struct apus_wire_step step)
{
	if (b->step_count == b->step_capacity)
		return APUS_ELIMIT;
	b->run = step.op == APUS_WIRE_RUN ? b->step_count : RUN_NONE;
	b->at_origin = false;
	b->steps[b->step_count++] = step;
	return 0;
}

static int emit(struct builder *b, uint8_t op, uint32_t align, uint32_t bytes)
{
	uint32_t cap = b->xcdr2 ? 4 : 8; /* XTypes 1.3 §7.4.3.2.3: XCDR2 never aligns beyond 4 */

	return emit_step(b, (struct apus_wire_step){
				    .op = op,
				    .align_mask = (uint8_t)((align < cap ? align : cap) - 1),
				    .slot = APUS_WIRE_NO_SLOT,
				    .bytes = bytes,
			    });
}

/* A step about a type or a member. */
static int emit_ref(struct builder *b, uint8_t op, const void *ref, uint32_t bytes)
{
	return emit_step(b, (struct apus_wire_step){
				    .op = op,
				    .align_mask = b->xcdr2 ? 3 : 7,
				    .slot = APUS_WIRE_NO_SLOT,
				    .bytes = bytes,
				    .target = UNAIMED,
				    .ref = ref,
			    });
}

static struct apus_wire_step *last_step(struct builder *b)
{
	return &b->steps[b->step_count - 1];
}

/* Lets steps of a kind that have no target yet lead to what comes next. */
static void aim(struct builder *b, uint32_t first, uint8_t op)
{
	for (uint32_t i = first; i < b->step_count; i++) {
		if (b->steps[i].op == op && b->steps[i].target == UNAIMED)
			b->steps[i].target = b->step_count;
	}
	b->run = RUN_NONE;
	b->at_origin = false;
}

/* Takes words of the walk's stack, to be given back by subtraction. */
static int open_words(struct builder *b, uint32_t words)
{
	b->open += words;
	return b->open > APUS_WIRE_WALK_DEPTH ? APUS_ELIMIT : 0;
}

/* ---- paths ------------------------------------------------------------------------------------- */

static bool is_below(const struct builder *b, const struct apus_wire_path *path, uint32_t depth)
{
	return path->depth >= depth &&
	       memcmp(path->parts, b->parts, depth * sizeof(b->parts[0])) == 0;
}

/* True if the value at hand, or something in it, is wanted. */
static bool wanted(const struct builder *b, uint32_t depth)
{
	return b->path_count > 0 && is_below(b, &b->paths[0], depth);
}

/* The same for the part of it with this number. */
static bool part_wanted(struct builder *b, uint32_t depth, uint32_t part)
{
	b->parts[depth] = part;
	return wanted(b, depth + 1);
}

static uint16_t take_slot(struct builder *b)
{
	uint16_t slot = b->slots[0];

	b->paths++;
	b->slots++;
	b->path_count--;
	return slot;
}

/* ---- what fields read as where they are missing ------------------------------------------------- */

/* A value in memory: at `image`, or the default of its type. */
struct image {
	const struct apus_type *type; /* NULL: absent */
	const uint8_t *image;
	bool is_length; /* not the value, its length */
};

static uint64_t load_bits(const struct image *v)
{
	const int32_t label =
		v->type->kind == APUS_KIND_ENUM && v->type->label_count > v->type->default_label
			? v->type->labels[v->type->default_label].value
			: 0;
	const int8_t label8 = (int8_t)label;
	const int16_t label16 = (int16_t)label;
	uint64_t bits = 0;

	if (v->image)
		memcpy(&bits, v->image, v->type->size_bytes);
	else if (v->type->size_bytes == 1)
		memcpy(&bits, &label8, 1);
	else if (v->type->size_bytes == 2)
		memcpy(&bits, &label16, 2);
	else
		memcpy(&bits, &label, 4);
	return bits;
}

static struct image image_of_member(const struct image *v, const struct apus_member *m)
{
	const void *held;

	if (!v->image)
		return m->optional ? (struct image){0}
				   : (struct image){m->type, m->default_value, false};
	held = apus_wire_member_value(m, v->image);
	return held ? (struct image){m->type, held, false} : (struct image){0};
}

static struct image image_of_union(const struct image *v, uint32_t part)
{
	struct image discriminator = {v->type->element, v->image, false};
	const struct apus_member *selected;
	uint64_t bits;

	if (part == 0)
		return discriminator;
	bits = load_bits(&discriminator);
	selected = apus_wire_select(v->type, apus_wire_load_integer(v->type->element, &bits));
	if (selected != &v->type->members[part - 1])
		return (struct image){0};
	return image_of_member(v, selected);
}

static struct image image_of_element(const struct image *v, uint32_t part)
{
	const struct apus_type *element = v->type->element;
	const struct apus_sequence *sequence = (const void *)v->image;
	const uint8_t *data = v->image;

	if (v->type->kind == APUS_KIND_SEQUENCE) {
		if (part == 0)
			return (struct image){v->type, v->image, true};
		if (!sequence || --part >= sequence->length)
			return (struct image){0};
		data = sequence->data;
	}
	return (struct image){element, data ? data + (size_t)part * element->size_bytes : NULL,
			      false};
}

/* What a path reads as if the value of `type` that `depth` of its parts lead to is missing. */
static struct image missing(const struct apus_type *type, const struct apus_wire_path *path,
			    uint32_t depth)
{
	struct image v = {type, NULL, false};

	for (; depth < path->depth && v.type; depth++) {
		uint32_t part = path->parts[depth];

		switch (v.type->kind) {
		case APUS_KIND_STRUCT: v = image_of_member(&v, &v.type->members[part]); break;
		case APUS_KIND_UNION: v = image_of_union(&v, part); break;
		case APUS_KIND_STRING: v.is_length = true; break;
		default: v = image_of_element(&v, part); break;
		}
	}
	return v;
}

static const char *text_of(const struct image *v)
{
	const char *text = (const char *)v->image;

	if (text && v->type->bound == 0)
		memcpy(&text, v->image, sizeof(text));
	return text ? text : "";
}

static struct apus_wire_step preset_of(const struct image *v, uint16_t slot)
{
	struct apus_wire_step step = {.op = APUS_WIRE_DEFAULT, .slot = slot};
	uint32_t length = 0;

	if (!v->type)
		return (struct apus_wire_step){.op = APUS_WIRE_ABSENT, .slot = slot};
	if (v->is_length) {
		if (v->type->kind == APUS_KIND_STRING)
			length = (uint32_t)strlen(text_of(v));
		else if (v->image)
			length = ((const struct apus_sequence *)(const void *)v->image)->length;
		step.bytes = sizeof(length);
		memcpy(&step.value, &length, sizeof(length));
	} else if (v->type->kind == APUS_KIND_STRING) {
		step.op = APUS_WIRE_TEXT;
		step.ref = text_of(v);
		step.bytes = (uint32_t)strlen(step.ref);
	} else {
		step.bytes = v->type->size_bytes;
		step.value = load_bits(v);
	}
	return step;
}

/* Fields in the value at hand read from here on as if it were missing; absent: as if it were absent.
 * Its own number 0, a length or a discriminator, is left alone then. */
static int preset(struct builder *b, const struct apus_type *type, uint32_t depth, bool absent)
{
	bool at_origin = b->at_origin;

	for (uint32_t i = 0; i < b->path_count && is_below(b, &b->paths[i], depth); i++) {
		const struct apus_wire_path *path = &b->paths[i];
		struct image v = {0};
		int result;

		if (absent && type && path->depth > depth && path->parts[depth] == 0)
			continue;
		if (!absent)
			v = missing(type, path, depth);
		if (v.type && !v.is_length && v.type->kind > APUS_KIND_STRING)
			return APUS_ENOTSUP; /* a path to something that is no field */
		result = emit_step(b, preset_of(&v, b->slots[i]));
		if (result < 0)
			return result;
	}
	b->at_origin = at_origin;
	return 0;
}

/* ---- numbers and strings ------------------------------------------------------------------------ */

/* `bytes` of a fixed-size kind, back to back. is_wanted: they are the field that comes next. */
static int build_fixed(struct builder *b, uint32_t align, uint64_t bytes, bool is_wanted)
{
	struct apus_wire_step *run = b->run == RUN_NONE ? NULL : &b->steps[b->run];
	uint32_t delta = 0;
	int result;

	if (bytes > INT32_MAX)
		return APUS_ELIMIT;
	if (b->xcdr2 && align > 4)
		align = 4;
	if (run && align <= run->align_mask + 1u &&
	    !(is_wanted && run->slot != APUS_WIRE_NO_SLOT)) {
		uint64_t padded = ((uint64_t)run->bytes + align - 1) & ~(uint64_t)(align - 1);

		if (padded + bytes > INT32_MAX)
			return APUS_ELIMIT;
		delta = (uint32_t)padded;
		run->bytes = (uint32_t)(padded + bytes);
	} else {
		/* Position 0 has every alignment: later members of the same run may rely on it. */
		result = emit(b, APUS_WIRE_RUN, b->at_origin ? 8 : align, (uint32_t)bytes);
		if (result < 0)
			return result;
		run = &b->steps[b->run];
	}
	if (is_wanted) {
		run->slot = take_slot(b);
		run->delta = delta;
	}
	return 0;
}

static int build_string(struct builder *b, uint32_t bound, uint32_t depth)
{
	int result = emit(b, APUS_WIRE_STRING, 4, bound);

	while (result == 0 && wanted(b, depth)) {
		if (b->paths[0].depth == depth)
			last_step(b)->slot = take_slot(b);
		else
			last_step(b)->delta = 1u + take_slot(b);
	}
	return result;
}

/* Counts a visit. */
static int visit(struct builder *b, uint32_t depth)
{
	return depth > APUS_WIRE_PATH_DEPTH || ++b->visits > APUS_WIRE_WALK_VISITS ? APUS_ELIMIT
										   : 0;
}

/* ---- values nothing of which is wanted ----------------------------------------------------------- */

/* Elements of variable or composite shape under XCDR1: a loop around one element. */
static int build_loop(struct builder *b, const struct apus_type *type, uint32_t depth)
{
	bool counted = type->kind == APUS_KIND_ARRAY;
	uint32_t loop = b->step_count;
	int result = open_words(b, 1);

	if (result == 0)
		result = emit(b, counted ? APUS_WIRE_LOOP : APUS_WIRE_LOOP_READ, counted ? 1 : 4,
			      type->bound);
	if (result == 0)
		result = build_flat(b, type->element, depth + 1);
	if (result < 0)
		return result;
	b->open--;
	b->run = RUN_NONE;
	if (b->step_count == loop + 1) { /* elements without bytes: at most their count is there */
		b->step_count = loop;
		if (counted)
			return 0;
		result = emit(b, APUS_WIRE_SEQUENCE, 1, 0);
		return result;
	}
	result = emit(b, APUS_WIRE_NEXT, 1, 0);
	if (result == 0) {
		last_step(b)->target = loop + 1;
		b->steps[loop].target = b->step_count;
	}
	return result;
}

static int build_flat_collection(struct builder *b, const struct apus_type *type, uint32_t depth)
{
	const struct apus_type *element = type->element;
	uint32_t bytes = (uint32_t)apus_wire_scalar_bytes(element);
	int result;

	/* XTypes 1.3 §7.4.3.5.3, rules 11 and 12: elements that are not primitive come with a DHEADER. */
	if (b->xcdr2 && apus_wire_needs_dheader(element))
		return emit(b, APUS_WIRE_DELIMITED, 4, 0);
	if (bytes && type->kind == APUS_KIND_ARRAY)
		return build_fixed(b, bytes, (uint64_t)bytes * type->bound, false);
	if (!bytes)
		return build_loop(b, type, depth);
	result = emit(b, APUS_WIRE_SEQUENCE, bytes, bytes);
	if (result == 0)
		last_step(b)->delta = type->bound;
	return result;
}

static int build_flat_struct(struct builder *b, const struct apus_type *type, uint32_t depth)
{
	int result = 0;

	if (type->extensibility > APUS_MUTABLE)
		return APUS_ENOTSUP;
	if (b->xcdr2 && type->extensibility != APUS_FINAL)
		return emit(b, APUS_WIRE_DELIMITED, 4, 0);
	if (type->kind == APUS_KIND_UNION || type->extensibility == APUS_MUTABLE)
		return emit_ref(b, APUS_WIRE_SKIP_VALUE, type, 0);
	for (uint32_t i = 0; i < type->member_count && result == 0; i++) {
		const struct apus_member *m = &type->members[i];

		if (!m->type)
			return APUS_EINVAL;
		result = m->optional ? emit_ref(b, APUS_WIRE_OPTIONAL, m, 0)
				     : build_flat(b, m->type, depth + 1);
	}
	return result;
}

/* Steps that pass a value. */
static int build_flat(struct builder *b, const struct apus_type *type, uint32_t depth)
{
	uint32_t bytes = (uint32_t)apus_wire_scalar_bytes(type);
	int result = visit(b, depth);

	if (result < 0)
		return result;
	if (bytes)
		return build_fixed(b, bytes, bytes, false);
	switch (type->kind) {
	case APUS_KIND_STRING: return emit(b, APUS_WIRE_STRING, 4, type->bound);
	case APUS_KIND_ARRAY:
	case APUS_KIND_SEQUENCE:
		if (!type->element || (type->kind == APUS_KIND_ARRAY && type->bound == 0))
			return APUS_EINVAL;
		return build_flat_collection(b, type, depth);
	case APUS_KIND_STRUCT:
	case APUS_KIND_UNION: return build_flat_struct(b, type, depth);
	default: return APUS_ENOTSUP;
	}
}

/* ---- structs and unions -------------------------------------------------------------------------- */

/* Alignment of the first byte of a value. */
static uint32_t leading_align(const struct builder *b, const struct apus_type *type)
{
	for (uint32_t depth = 0; type && depth < APUS_WIRE_PATH_DEPTH; depth++) {
		if (type->kind == APUS_KIND_STRUCT || type->kind == APUS_KIND_UNION) {
			if (type->extensibility == APUS_MUTABLE ||
			    (b->xcdr2 && type->extensibility == APUS_APPENDABLE))
				return 4;
			if (type->kind == APUS_KIND_STRUCT && type->members[0].optional)
				return b->xcdr2 ? 1 : 4;
			type = type->kind == APUS_KIND_UNION ? type->element
							     : type->members[0].type;
		} else if (type->kind == APUS_KIND_ARRAY) {
			if (b->xcdr2 && type->element && apus_wire_needs_dheader(type->element))
				return 4;
			type = type->element;
		} else {
			break;
		}
	}
	return type && apus_wire_scalar_bytes(type) ? (uint32_t)apus_wire_scalar_bytes(type) : 4;
}

/* A member some field of which is wanted. */
static int build_wanted_member(struct builder *b, const struct apus_member *m, uint32_t depth)
{
	bool was_preset = b->preset;
	int result;

	/* An optional member is absent where it is missing, but complete or short where it is there. */
	if (m->optional || m->default_value)
		b->preset = false;
	result = build_value(b, m->type, depth);
	b->preset = was_preset;
	return result;
}

static int build_optional(struct builder *b, const struct apus_member *m, uint32_t depth)
{
	uint32_t first;
	int result = preset(b, NULL, depth, true);

	if (result == 0)
		result = open_words(b, 2);
	if (result == 0)
		result = emit_ref(b, b->xcdr2 ? APUS_WIRE_PRESENT : APUS_WIRE_HEADER, m, 0);
	if (result < 0)
		return result;
	first = b->step_count - 1;
	b->at_origin = !b->xcdr2;
	result = build_wanted_member(b, m, depth);
	if (result == 0 && !b->xcdr2) {
		result = emit_ref(b, APUS_WIRE_VALUE_END, NULL, 0);
		if (result == 0)
			last_step(b)->target = b->step_count;
	}
	if (result < 0)
		return result;
	b->open -= 2;
	b->steps[first].target = b->step_count;
	b->run = RUN_NONE;
	return 0;
}

static int build_member(struct builder *b, const struct apus_member *m, uint32_t depth)
{
	if (!m->type)
		return APUS_EINVAL;
	if (wanted(b, depth))
		return m->optional ? build_optional(b, m, depth) : build_wanted_member(b, m, depth);
	return m->optional ? emit_ref(b, APUS_WIRE_OPTIONAL, m, 0) : build_flat(b, m->type, depth);
}

/* Members of one struct in order. delimited: its end is known, so what is behind the last wanted one
 * need not be passed. may_end: an older sample may have fewer. */
static int build_members(struct builder *b, const struct apus_type *type, uint32_t depth,
			 bool delimited, bool may_end)
{
	uint32_t first = b->step_count;
	int result = 0;

	for (uint32_t i = 0; i < type->member_count && result == 0; i++) {
		const struct apus_member *m = &type->members[i];

		if (b->path_count == 0 || (delimited && !wanted(b, depth)))
			break;
		b->parts[depth] = i;
		if (may_end) {
			result = emit(b, APUS_WIRE_MEMBER,
				      m->optional ? (b->xcdr2 ? 1 : 4) : leading_align(b, m->type),
				      0);
			if (result < 0)
				return result;
			last_step(b)->target = UNAIMED;
		}
		result = build_member(b, m, depth + 1);
	}
	if (may_end)
		aim(b, first, APUS_WIRE_MEMBER);
	return result;
}

/* The branches of a LIST or SWITCH. */
static int emit_cases(struct builder *b, const struct apus_type *type, uint32_t depth)
{
	struct builder ahead = *b; /* its paths are used up while looking ahead */
	uint32_t first = type->kind == APUS_KIND_UNION;
	int result = 0;

	for (uint32_t i = 0; i < type->member_count && result == 0; i++) {
		if (!part_wanted(&ahead, depth, first + i))
			continue;
		while (wanted(&ahead, depth + 1))
			take_slot(&ahead);
		result = emit_ref(b, APUS_WIRE_CASE, NULL, first ? i : type->members[i].id);
	}
	return result;
}

/* Aims the CASE of a member at what comes next, which begins where alignment is known or not. */
static void begin_case(struct builder *b, uint32_t fork, uint32_t value, bool at_origin)
{
	uint32_t i = fork + 1;

	while (b->steps[i].bytes != value)
		i++;
	b->steps[i].target = b->step_count;
	b->run = RUN_NONE;
	b->at_origin = at_origin;
}

/* Members with headers, in any order. */
static int build_list(struct builder *b, const struct apus_type *type, uint32_t depth)
{
	uint32_t list = b->step_count + 1;
	int result = open_words(b, 4);

	if (result == 0)
		result = emit_ref(b, APUS_WIRE_OPEN, NULL, 0);
	if (result == 0)
		result = emit_ref(b, APUS_WIRE_LIST, type, 0);
	if (result == 0)
		result = emit_cases(b, type, depth);
	for (uint32_t i = 0; i < type->member_count && result == 0; i++) {
		if (!part_wanted(b, depth, i))
			continue;
		begin_case(b, list, type->members[i].id, true);
		result = build_wanted_member(b, &type->members[i], depth + 1);
		if (result == 0)
			result = emit_ref(b, APUS_WIRE_VALUE_END, NULL, 0);
		if (result == 0)
			last_step(b)->target = list;
	}
	b->open -= 4;
	if (result == 0)
		aim(b, list, APUS_WIRE_LIST);
	return result;
}

static int build_struct(struct builder *b, const struct apus_type *type, uint32_t depth)
{
	bool delimited = b->xcdr2 && type->extensibility != APUS_FINAL;
	/* An older appendable sample may end early: under XCDR2 its DHEADER tells, under XCDR1 only
	 * the payload's end. */
	bool may_end = type->extensibility == APUS_APPENDABLE && (b->xcdr2 || depth == 0);
	bool was_preset = b->preset;
	int result = 0;

	if (type->extensibility > APUS_MUTABLE)
		return APUS_ENOTSUP;
	if ((may_end || type->extensibility == APUS_MUTABLE) && !b->preset) {
		result = preset(b, type, depth, false);
		b->preset = true;
	}
	if (result == 0 && delimited) {
		result = open_words(b, 1);
		if (result == 0)
			result = emit(b, APUS_WIRE_ENTER, 4, 0);
	}
	if (result == 0)
		result = type->extensibility == APUS_MUTABLE
				 ? build_list(b, type, depth)
				 : build_members(b, type, depth, delimited, may_end);
	b->preset = was_preset;
	if (result == 0 && delimited) {
		b->open--;
		result = emit(b, APUS_WIRE_LEAVE, 1, 0);
	}
	return result;
}

/* The discriminator, and each case of which something is wanted. */
static int build_cases(struct builder *b, const struct apus_type *type, uint32_t depth)
{
	uint32_t fork = b->step_count;
	int result = emit_ref(b, APUS_WIRE_SWITCH, type, 0);

	if (result == 0 && part_wanted(b, depth, 0))
		last_step(b)->slot = take_slot(b);
	if (result == 0)
		result = emit_cases(b, type, depth);
	for (uint32_t i = 0; i < type->member_count && result == 0; i++) {
		if (!part_wanted(b, depth, 1 + i))
			continue;
		begin_case(b, fork, i, false);
		result = build_value(b, type->members[i].type, depth + 1);
		if (result == 0)
			result = emit_ref(b, APUS_WIRE_JUMP, NULL, 0);
	}
	if (result == 0) {
		aim(b, fork, APUS_WIRE_JUMP);
		aim(b, fork, APUS_WIRE_SWITCH);
	}
	return result;
}

static int build_union(struct builder *b, const struct apus_type *type, uint32_t depth)
{
	bool delimited = b->xcdr2 && type->extensibility != APUS_FINAL, was_preset = b->preset;
	int result = type->element ? preset(b, type, depth, true) : APUS_EINVAL;

	b->preset = false;
	if (result == 0 && delimited) {
		result = open_words(b, 1);
		if (result == 0)
			result = emit(b, APUS_WIRE_ENTER, 4, 0);
	}
	if (result == 0)
		result = build_cases(b, type, depth);
	b->preset = was_preset;
	if (result == 0 && delimited) {
		b->open--;
		result = emit(b, APUS_WIRE_LEAVE, 1, 0);
	}
	return result;
}

/* ---- arrays and sequences ------------------------------------------------------------------------ */

/* Number of scalars in a value whose every offset is constant; 0 if it has none such, or too many. */
static uint64_t fixed_scalars(const struct builder *b, const struct apus_type *type, uint32_t depth)
{
	uint64_t count = 0;

	if (apus_wire_scalar_bytes(type))
		return 1;
	if (depth == APUS_WIRE_PATH_DEPTH)
		return 0;
	if (type->kind == APUS_KIND_ARRAY && type->element &&
	    !(b->xcdr2 && apus_wire_needs_dheader(type->element)))
		count = fixed_scalars(b, type->element, depth + 1) * type->bound;
	if (type->kind != APUS_KIND_STRUCT || type->extensibility != APUS_FINAL)
		return count <= UNROLL_MAX ? count : 0;
	for (uint32_t i = 0; i < type->member_count; i++) {
		const struct apus_member *m = &type->members[i];
		uint64_t more = m->type && !m->optional ? fixed_scalars(b, m->type, depth + 1) : 0;

		count += more;
		if (more == 0 || count > UNROLL_MAX)
			return 0;
	}
	return count;
}

/* Elements of an array of scalars: passed in one piece between those wanted. */
static int build_scalars(struct builder *b, const struct apus_type *type, uint32_t depth)
{
	uint32_t bytes = (uint32_t)apus_wire_scalar_bytes(type->element), at = 0;
	int result = 0;

	while (result == 0 && wanted(b, depth)) {
		uint32_t next = b->paths[0].parts[depth];

		if (next > at)
			result = build_fixed(b, bytes, (uint64_t)bytes * (next - at), false);
		if (result == 0)
			result = build_fixed(b, bytes, bytes, true);
		at = next + 1;
	}
	if (result == 0 && at < type->bound)
		result = build_fixed(b, bytes, (uint64_t)bytes * (type->bound - at), false);
	return result;
}

/* Elements of constant size, laid out one by one. */
static int build_unrolled(struct builder *b, const struct apus_type *type, uint32_t depth)
{
	int result = 0;

	for (uint32_t i = 0; i < type->bound && result == 0 && b->path_count > 0; i++)
		result = part_wanted(b, depth, i) ? build_value(b, type->element, depth + 1)
						  : build_flat(b, type->element, depth + 1);
	return result;
}

/* Passes from one wanted element to the next. pass_rest: nothing else tells where the elements end.
 * After the last field of all the walk is not at the end of an element, but done. */
static int build_elements(struct builder *b, const struct apus_type *type, uint32_t depth,
			  bool pass_rest)
{
	uint32_t base = type->kind == APUS_KIND_SEQUENCE, at = 0, first = b->step_count;
	bool was_preset = b->preset;
	int result = open_words(b, 1);

	b->preset = false;
	while (result == 0 && wanted(b, depth)) {
		uint32_t part = b->paths[0].parts[depth];

		result = emit_ref(b, APUS_WIRE_ADVANCE, type->element, part - base - at);
		b->parts[depth] = part;
		if (result == 0)
			result = build_value(b, type->element, depth + 1);
		at = part - base + 1;
	}
	b->preset = was_preset;
	b->open--;
	aim(b, first, APUS_WIRE_ADVANCE);
	return result < 0 ? result
			  : emit_ref(b, APUS_WIRE_REST,
				     pass_rest && b->path_count > 0 ? type->element : NULL, 0);
}

static int build_sequence(struct builder *b, const struct apus_type *type, uint32_t depth,
			  bool delimited)
{
	uint32_t bytes = (uint32_t)apus_wire_scalar_bytes(type->element);
	uint16_t slot = APUS_WIRE_NO_SLOT;
	int result = preset(b, type, depth, true);

	if (result < 0)
		return result;
	if (part_wanted(b, depth, 0))
		slot = take_slot(b);
	if (bytes && !delimited && !wanted(b, depth)) {
		result = emit(b, APUS_WIRE_SEQUENCE, bytes, bytes);
		if (result == 0)
			last_step(b)->delta = type->bound;
	} else {
		result = emit(b, APUS_WIRE_COUNT, 4, type->bound);
	}
	if (result < 0)
		return result;
	last_step(b)->slot = slot;
	return last_step(b)->op == APUS_WIRE_COUNT ? build_elements(b, type, depth, !delimited) : 0;
}

static int build_array(struct builder *b, const struct apus_type *type, uint32_t depth,
		       bool delimited)
{
	int result;

	if (apus_wire_scalar_bytes(type->element))
		return build_scalars(b, type, depth);
	if (!delimited && fixed_scalars(b, type, 0))
		return build_unrolled(b, type, depth);
	result = emit(b, APUS_WIRE_ELEMENTS, 1, type->bound);
	return result < 0 ? result : build_elements(b, type, depth, !delimited);
}

static int build_collection(struct builder *b, const struct apus_type *type, uint32_t depth)
{
	bool delimited;
	int result = 0;

	if (!type->element || (type->kind == APUS_KIND_ARRAY && type->bound == 0))
		return APUS_EINVAL;
	delimited = b->xcdr2 && apus_wire_needs_dheader(type->element);
	if (delimited) {
		result = open_words(b, 1);
		if (result == 0)
			result = emit(b, APUS_WIRE_ENTER, 4, 0);
	}
	if (result == 0)
		result = type->kind == APUS_KIND_ARRAY ? build_array(b, type, depth, delimited)
						       : build_sequence(b, type, depth, delimited);
	if (result == 0 && delimited) {
		b->open--;
		result = emit(b, APUS_WIRE_LEAVE, 1, 0);
	}
	return result;
}

/* ---- the whole ----------------------------------------------------------------------------------- */

/* A value that is wanted, or something in it. */
static int build_value(struct builder *b, const struct apus_type *type, uint32_t depth)
{
	uint32_t bytes = (uint32_t)apus_wire_scalar_bytes(type);
	int result = visit(b, depth);

	if (result < 0)
		return result;
	if (bytes)
		return build_fixed(b, bytes, bytes, true);
	if (type->kind == APUS_KIND_STRING)
		return build_string(b, type->bound, depth);
	if (b->paths[0].depth == depth)
		return APUS_ENOTSUP; /* nothing that a slot could hold */
	switch (type->kind) {
	case APUS_KIND_ARRAY:
	case APUS_KIND_SEQUENCE: return build_collection(b, type, depth);
	case APUS_KIND_STRUCT: return build_struct(b, type, depth);
	case APUS_KIND_UNION: return build_union(b, type, depth);
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
		.at_origin = true,
	};
	int result;

	if (type->kind != APUS_KIND_STRUCT)
		return APUS_EINVAL;
	if (path_count > APUS_WIRE_WALK_FIELDS)
		return APUS_ELIMIT;
	result = build_struct(&b, type, 0);
	if (result < 0)
		return result;
	return b.path_count == 0 ? (int)b.step_count : APUS_EINVAL;
}
