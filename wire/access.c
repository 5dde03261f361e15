/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Field paths: text resolved against a type descriptor. Walks are made in access_build.c and run in
 * access_walk.c.
 *
 * Invariant while resolving: `leaf` is the type found so far, and `parts` lead to it from the top.
 */
#include "wire/access.h"

#include <string.h>

/** Name of a union's discriminator in paths: IDL names do not begin with an underscore. */
#define DISCRIMINATOR "_d"

/* The text, and what has been made of it. */
struct resolver {
	const char *text;
	size_t bytes, at;
	struct apus_wire_path path;
	struct apus_wire_path_error error;
};

static int refuse(struct resolver *r, int result, size_t position, size_t end, const char *reason)
{
	r->error = (struct apus_wire_path_error){position, end - position, r->path.leaf, reason};
	return result;
}

/* Goes one part further down. */
static int descend(struct resolver *r, size_t position, uint32_t part, const struct apus_type *type)
{
	if (r->path.depth == APUS_WIRE_PATH_DEPTH)
		return refuse(r, APUS_ELIMIT, position, r->at, "the path is too deep");
	r->path.parts[r->path.depth++] = part;
	r->path.leaf = type;
	return 0;
}

static bool is_name(const char *candidate, const char *name, size_t bytes)
{
	return strncmp(candidate, name, bytes) == 0 && candidate[bytes] == '\0';
}

/* A member of a struct, or a case or the discriminator of a union. */
static int descend_member(struct resolver *r, size_t position, size_t bytes)
{
	const struct apus_type *type = r->path.leaf;
	const char *name = r->text + position;
	uint32_t first = type->kind == APUS_KIND_UNION;

	if (first && is_name(DISCRIMINATOR, name, bytes))
		return descend(r, position, 0, type->element);
	for (uint32_t i = 0; i < type->member_count; i++) {
		if (is_name(type->members[i].name, name, bytes))
			return descend(r, position, first + i, type->members[i].type);
	}
	return refuse(r, APUS_ENOENT, position, r->at, "no such member");
}

static int resolve_name(struct resolver *r)
{
	size_t position = r->at, bytes;

	while (r->at < r->bytes && r->text[r->at] != '.' && r->text[r->at] != '[')
		r->at++;
	bytes = r->at - position;
	if (bytes == 0)
		return refuse(r, APUS_EINVAL, position, r->at, "a name is missing");
	switch (r->path.leaf->kind) {
	case APUS_KIND_STRUCT:
	case APUS_KIND_UNION: return descend_member(r, position, bytes);
	case APUS_KIND_SEQUENCE:
	case APUS_KIND_STRING:
		if (is_name("length", r->text + position, bytes))
			return descend(r, position, 0, &apus_type_uint32);
		return refuse(r, APUS_ENOTSUP, position, r->at, "only its length has a name here");
	default:
		return refuse(r, APUS_ENOTSUP, position, r->at, "looked for in no struct or union");
	}
}

/* "[digits]": the number, which is below UINT32_MAX. */
static int read_index(struct resolver *r, uint32_t *index_out)
{
	size_t position = r->at++;
	uint64_t index = 0;

	if (r->at == r->bytes || r->text[r->at] < '0' || r->text[r->at] > '9')
		return refuse(r, APUS_EINVAL, position, r->at, "an index is missing");
	for (; r->at < r->bytes && r->text[r->at] >= '0' && r->text[r->at] <= '9'; r->at++) {
		if (index < UINT32_MAX)
			index = index * 10 + (uint32_t)(r->text[r->at] - '0');
	}
	if (r->at == r->bytes || r->text[r->at] != ']')
		return refuse(r, APUS_EINVAL, position, r->at, "an index is not closed");
	r->at++;
	if (index >= UINT32_MAX)
		return refuse(r, APUS_ELIMIT, position, r->at, "an index is too large");
	*index_out = (uint32_t)index;
	return 0;
}

/* One index for each dimension. */
static int resolve_array(struct resolver *r)
{
	const struct apus_type *type = r->path.leaf;
	uint32_t dims = type->dim_count ? type->dim_count : 1, at = 0;
	size_t position = r->at;

	for (uint32_t i = 0; i < dims; i++) {
		uint32_t size = type->dim_count ? type->dims[i] : type->bound, index;
		size_t start = r->at;
		int result;

		if (r->at == r->bytes || r->text[r->at] != '[')
			return refuse(r, APUS_ENOTSUP, position, r->at,
				      "the array has more dimensions");
		result = read_index(r, &index);
		if (result < 0)
			return result;
		if (index >= size)
			return refuse(r, APUS_ELIMIT, start, r->at, "outside the array");
		at = at * size + index;
	}
	return descend(r, position, at, type->element);
}

static int resolve_index(struct resolver *r)
{
	const struct apus_type *type = r->path.leaf;
	size_t position = r->at;
	uint32_t index;
	int result;

	if (type->kind == APUS_KIND_ARRAY)
		return resolve_array(r);
	if (type->kind != APUS_KIND_SEQUENCE)
		return refuse(r, APUS_ENOTSUP, position, r->at + 1, "no array or sequence");
	result = read_index(r, &index);
	if (result < 0)
		return result;
	if (type->bound && index >= type->bound)
		return refuse(r, APUS_ELIMIT, position, r->at, "beyond the sequence's bound");
	return descend(r, position, 1 + index, type->element);
}

int apus_wire_path_resolve(const struct apus_type *type, const char *path, size_t path_bytes,
			   struct apus_wire_path *path_out, struct apus_wire_path_error *error_out)
{
	struct resolver r = {.text = path, .bytes = path_bytes, .path = {.leaf = type}};
	int result = resolve_name(&r);

	while (result == 0 && r.at < r.bytes) {
		if (path[r.at] == '[') {
			result = resolve_index(&r);
		} else if (path[r.at] == '.') {
			r.at++;
			result = resolve_name(&r);
		} else {
			result = refuse(&r, APUS_EINVAL, r.at, r.bytes, "no '.' or '[' here");
		}
	}
	if (result < 0)
		*error_out = r.error;
	else
		*path_out = r.path;
	return result;
}

int apus_wire_path_compare(const struct apus_wire_path *a, const struct apus_wire_path *b)
{
	for (uint32_t i = 0; i < a->depth && i < b->depth; i++) {
		if (a->parts[i] != b->parts[i])
			return a->parts[i] < b->parts[i] ? -1 : 1;
	}
	return (a->depth > b->depth) - (a->depth < b->depth);
}
