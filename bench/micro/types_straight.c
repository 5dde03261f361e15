/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What generated code would be: straight-line, bounds checked, native order. The yardstick of the
 * programs that are run instead (docs/decisions/0008).
 */
#include "bench/micro/types_subjects.h"

#include <string.h>

static inline bool straight_align(struct straight *o, size_t align)
{
	size_t gap = -o->pos & (align - 1);

	if (gap > o->end - o->pos)
		return false;
	for (; gap; gap--)
		o->base[o->pos++] = 0;
	return true;
}

#define STRAIGHT(o, align, value)                                            \
	(straight_align(o, align) && sizeof(value) <= (o)->end - (o)->pos && \
	 (memcpy((o)->base + (o)->pos, &(value), sizeof(value)), (o)->pos += sizeof(value), true))

static inline bool straight_string(struct straight *o, const char *chars, size_t bound)
{
	size_t length = bound ? strnlen(chars, bound + 1) : strlen(chars);
	uint32_t bytes = (uint32_t)length + 1;

	if ((bound && length > bound) || !STRAIGHT(o, 4, bytes) || bytes > o->end - o->pos)
		return false;
	memcpy(o->base + o->pos, chars, bytes);
	o->pos += bytes;
	return true;
}

static bool straight_shape(struct straight *o, const void *sample)
{
	const struct bench_Shape *v = sample;

	return straight_string(o, v->color, 128) && STRAIGHT(o, 4, v->x) && STRAIGHT(o, 4, v->y) &&
	       STRAIGHT(o, 4, v->shapesize);
}

static bool straight_tick(struct straight *o, const void *sample)
{
	const struct bench_Tick *v = sample;

	return STRAIGHT(o, 8, *v);
}

static bool straight_joints(struct straight *o, const struct apus_sequence *v)
{
	const struct bench_Joint *j = v->data;
	uint32_t zero = 0, bytes;
	size_t start;

	if (v->length > 16 || !STRAIGHT(o, 4, zero))
		return false;
	start = o->pos;
	if (!STRAIGHT(o, 4, v->length))
		return false;
	for (uint32_t i = 0; i < v->length; i++)
		if (!straight_string(o, j[i].name, 0) || !STRAIGHT(o, 4, j[i].position) ||
		    !STRAIGHT(o, 4, j[i].velocity) || !STRAIGHT(o, 4, j[i].effort))
			return false;
	bytes = (uint32_t)(o->pos - start);
	memcpy(o->base + start - 4, &bytes, 4);
	return true;
}

static bool straight_floats(struct straight *o, const struct apus_sequence *v)
{
	if (!STRAIGHT(o, 4, v->length) || v->length > (o->end - o->pos) / 4)
		return false;
	memcpy(o->base + o->pos, v->data, v->length * (size_t)4);
	o->pos += v->length * (size_t)4;
	return true;
}

static bool straight_warnings(struct straight *o, const struct apus_sequence *v)
{
	char *const *strings = v->data;
	uint32_t zero = 0, bytes;
	size_t start;

	if (!STRAIGHT(o, 4, zero))
		return false;
	start = o->pos;
	if (!STRAIGHT(o, 4, v->length))
		return false;
	for (uint32_t i = 0; i < v->length; i++)
		if (!straight_string(o, strings[i], 0))
			return false;
	bytes = (uint32_t)(o->pos - start);
	memcpy(o->base + start - 4, &bytes, 4);
	return true;
}

static bool straight_robot(struct straight *o, const void *sample)
{
	const struct bench_Robot *v = sample;
	uint32_t zero = 0, bytes;
	uint8_t enabled = v->enabled;

	if (!STRAIGHT(o, 4, zero) || !straight_string(o, v->name, 32) ||
	    !STRAIGHT(o, 4, v->stamp_ns) || !STRAIGHT(o, 4, v->state) || !STRAIGHT(o, 4, v->base) ||
	    !straight_joints(o, &v->joints) || !straight_floats(o, &v->ranges) ||
	    !straight_warnings(o, &v->warnings) || !STRAIGHT(o, 1, enabled))
		return false;
	bytes = (uint32_t)o->pos - 4;
	memcpy(o->base, &bytes, 4);
	return true;
}

bool (*const straight_encode[SUBJECT_STRAIGHT_COUNT])(struct straight *, const void *) = {
	straight_shape, straight_tick, straight_robot};

/* ---- reading ---- */

static inline bool get(struct straight *in, size_t align, void *out, size_t bytes)
{
	size_t gap = -in->pos & (align - 1);

	if (gap > in->end - in->pos || bytes > in->end - in->pos - gap)
		return false;
	in->pos += gap;
	memcpy(out, in->base + in->pos, bytes);
	in->pos += bytes;
	return true;
}

#define GET(in, align, value) get(in, align, &(value), sizeof(value))

static inline void *room(struct straight *arena, size_t align, size_t bytes)
{
	size_t gap = -arena->pos & (align - 1);
	void *p;

	if (gap > arena->end - arena->pos || bytes > arena->end - arena->pos - gap)
		return NULL;
	arena->pos += gap;
	p = arena->base + arena->pos;
	arena->pos += bytes;
	return p;
}

/* bound 0: into the arena. */
static inline bool get_string(struct straight *in, void *value, size_t bound,
			      struct straight *arena)
{
	const char *chars;
	char *copy = value;
	uint32_t bytes;

	if (!GET(in, 4, bytes) || bytes == 0 || bytes > in->end - in->pos ||
	    (bound && bytes > bound + 1))
		return false;
	chars = (const char *)in->base + in->pos;
	if (memchr(chars, 0, bytes) != chars + bytes - 1)
		return false;
	if (!bound) {
		copy = room(arena, 1, bytes);
		if (!copy)
			return false;
		memcpy(value, &copy, sizeof(copy));
	}
	memcpy(copy, chars, bytes);
	in->pos += bytes;
	return true;
}

static bool get_shape(struct straight *in, void *sample, struct straight *arena)
{
	struct bench_Shape *v = sample;

	return get_string(in, v->color, 128, arena) && GET(in, 4, v->x) && GET(in, 4, v->y) &&
	       GET(in, 4, v->shapesize);
}

static bool get_tick(struct straight *in, void *sample, struct straight *arena)
{
	struct bench_Tick *v = sample;

	(void)arena;
	return GET(in, 8, *v);
}

/* A length, and memory for so many elements. */
static inline bool get_sequence(struct straight *in, struct apus_sequence *v, uint32_t bound,
				size_t align, size_t bytes, struct straight *arena)
{
	*v = (struct apus_sequence){0};
	if (!GET(in, 4, v->length) || (bound && v->length > bound) || v->length > in->end - in->pos)
		return false;
	if (v->length)
		v->data = room(arena, align, v->length * bytes);
	return !v->length || v->data;
}

static bool get_joints(struct straight *in, struct apus_sequence *v, struct straight *arena)
{
	size_t outer = in->end;
	struct bench_Joint *j;
	uint32_t bytes;

	if (!GET(in, 4, bytes) || bytes > in->end - in->pos)
		return false;
	in->end = in->pos + bytes;
	if (!get_sequence(in, v, 16, 8, sizeof(*j), arena))
		return false;
	j = v->data;
	for (uint32_t i = 0; i < v->length; i++)
		if (!get_string(in, &j[i].name, 0, arena) || !GET(in, 4, j[i].position) ||
		    !GET(in, 4, j[i].velocity) || !GET(in, 4, j[i].effort))
			return false;
	if (in->pos != in->end)
		return false;
	in->end = outer;
	return true;
}

static bool get_warnings(struct straight *in, struct apus_sequence *v, struct straight *arena)
{
	size_t outer = in->end;
	char **strings;
	uint32_t bytes;

	if (!GET(in, 4, bytes) || bytes > in->end - in->pos)
		return false;
	in->end = in->pos + bytes;
	if (!get_sequence(in, v, 0, 8, sizeof(*strings), arena))
		return false;
	strings = v->data;
	for (uint32_t i = 0; i < v->length; i++)
		if (!get_string(in, &strings[i], 0, arena))
			return false;
	if (in->pos != in->end)
		return false;
	in->end = outer;
	return true;
}

static bool get_robot(struct straight *in, void *sample, struct straight *arena)
{
	struct bench_Robot *v = sample;
	uint32_t bytes;
	uint8_t enabled;

	if (!GET(in, 4, bytes) || bytes > in->end - in->pos)
		return false;
	if (!get_string(in, v->name, 32, arena) || !GET(in, 4, v->stamp_ns) ||
	    !GET(in, 4, v->state) || !GET(in, 4, v->base) || !get_joints(in, &v->joints, arena) ||
	    !get_sequence(in, &v->ranges, 0, 4, 4, arena) ||
	    !get(in, 4, v->ranges.data, v->ranges.length * (size_t)4) ||
	    !get_warnings(in, &v->warnings, arena) || !GET(in, 1, enabled) || enabled > 1)
		return false;
	v->enabled = enabled;
	return true;
}

bool (*const straight_decode[SUBJECT_STRAIGHT_COUNT])(struct straight *, void *,
						      struct straight *) = {get_shape, get_tick,
									    get_robot};
