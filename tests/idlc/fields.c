/* SPDX-License-Identifier: Apache-2.0 */
/* See fields.h. Trusted types: recursion is as deep as the type. */
#include "fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/cdr.h"

static char complaint[512];

/* ---- finding ----------------------------------------------------------------------------------- */

static void collect(struct fields *fields, const struct apus_type *type, struct field at);

static struct field extended(const struct field *at, int what, uint32_t index, const char *text)
{
	struct field next = *at;
	size_t used = strlen(at->text);

	next.parts[next.part_count++] = (struct field_part){what, index};
	snprintf(next.text + used, sizeof(next.text) - used, "%s%s",
		 used && text[0] != '[' ? "." : "", text);
	return next;
}

/* "[i]" for each dimension. */
static const char *subscript(const struct apus_type *type, uint32_t index)
{
	static char text[128];
	uint32_t dims = type->dim_count ? type->dim_count : 1, below = type->bound;
	size_t used = 0;

	for (uint32_t i = 0; i < dims; i++) {
		below = type->dim_count ? below / type->dims[i] : 1;
		used += (size_t)snprintf(text + used, sizeof(text) - used, "[%u]", index / below);
		index %= below;
	}
	return text;
}

static void collect_elements(struct fields *fields, const struct apus_type *type, struct field at)
{
	bool array = type->kind == APUS_KIND_ARRAY;
	uint32_t count = array ? type->bound : type->bound && type->bound < 3 ? type->bound : 3;

	if (!array)
		collect(fields, &apus_type_uint32, extended(&at, FIELD_LENGTH, 0, "length"));
	for (uint32_t i = 0; i < count; i++) {
		if (array && i > 1 && i < count - 2 && count > 12)
			continue;
		collect(fields, type->element, extended(&at, FIELD_ELEMENT, i, subscript(type, i)));
	}
}

static void collect(struct fields *fields, const struct apus_type *type, struct field at)
{
	if (type->kind <= APUS_KIND_STRING && fields->count < FIELDS_MAX)
		fields->all[fields->count++] = at;
	switch (type->kind) {
	case APUS_KIND_STRING:
		collect(fields, &apus_type_uint32, extended(&at, FIELD_LENGTH, 0, "length"));
		break;
	case APUS_KIND_ARRAY:
	case APUS_KIND_SEQUENCE: collect_elements(fields, type, at); break;
	case APUS_KIND_UNION:
		collect(fields, type->element, extended(&at, FIELD_DISCRIMINATOR, 0, "_d"));
		/* fall through */
	case APUS_KIND_STRUCT:
		for (uint32_t i = 0; i < type->member_count; i++)
			collect(fields, type->members[i].type,
				extended(&at,
					 type->kind == APUS_KIND_UNION ? FIELD_CASE : FIELD_MEMBER,
					 i, type->members[i].name));
		break;
	default: break;
	}
}

const char *fields_find(struct fields *fields, const struct apus_type *type)
{
	struct apus_wire_path_error error;

	fields->type = type;
	fields->count = 0;
	collect(fields, type, (struct field){.text = ""});
	for (uint32_t i = 0; i < fields->count; i++) {
		struct field *f = &fields->all[i];

		if (apus_wire_path_resolve(type, f->text, strlen(f->text), &f->path, &error) < 0) {
			snprintf(complaint, sizeof(complaint), "%s does not resolve: %s", f->text,
				 error.reason);
			return complaint;
		}
		if (i > 0 && apus_wire_path_compare(&f[-1].path, &f->path) >= 0) {
			snprintf(complaint, sizeof(complaint), "%s is not behind %s", f->text,
				 f[-1].text);
			return complaint;
		}
	}
	return NULL;
}

int fields_walk(const struct fields *fields, const uint16_t *which, uint32_t count, bool xcdr2,
		struct apus_wire_step *steps)
{
	struct apus_wire_path paths[APUS_WIRE_WALK_FIELDS];
	uint16_t slots[APUS_WIRE_WALK_FIELDS];

	for (uint32_t i = 0; i < count; i++) {
		paths[i] = fields->all[which[i]].path;
		slots[i] = (uint16_t)i;
	}
	return apus_wire_walk_build(fields->type, xcdr2, paths, slots, count, steps, FIELDS_STEPS);
}

/* ---- comparing --------------------------------------------------------------------------------- */

static const void *held(const struct apus_member *m, const void *object)
{
	const void *slot = (const uint8_t *)object + m->offset_bytes, *value;

	if (!m->optional && !m->external)
		return slot;
	memcpy(&value, slot, sizeof(value));
	if (m->type->kind == APUS_KIND_STRING && !m->type->bound)
		return value || !m->optional ? slot : NULL;
	return value;
}

/* Which case a discriminator selects, by the letter: the one that lists it, else the default. */
static bool selects(const struct apus_type *type, const void *object, uint32_t index)
{
	int64_t value = apus_wire_load_integer(type->element, object);

	for (uint32_t i = 0; i < type->member_count; i++)
		for (uint32_t j = 0; j < type->members[i].case_count; j++)
			if (type->members[i].cases[j] == value)
				return i == index;
	return type->members[index].is_default;
}

static const char *chars_of(const struct apus_type *type, const void *value)
{
	const char *chars = value;

	if (type->bound == 0)
		memcpy(&chars, value, sizeof(chars));
	return chars ? chars : "";
}

/* The field in memory; NULL if absent. A length goes to `*length`. */
static const void *in_memory(const struct fields *fields, const struct field *f, const void *object,
			     uint32_t *length)
{
	const struct apus_type *type = fields->type;

	for (uint32_t i = 0; i < f->part_count && object; i++) {
		uint32_t index = f->parts[i].index;
		const struct apus_sequence *sequence = object;

		switch (f->parts[i].what) {
		case FIELD_DISCRIMINATOR: type = type->element; break;
		case FIELD_CASE:
			if (!selects(type, object, index))
				return NULL;
			/* fall through */
		case FIELD_MEMBER:
			object = held(&type->members[index], object);
			type = type->members[index].type;
			break;
		case FIELD_LENGTH:
			*length = type->kind == APUS_KIND_STRING
					  ? (uint32_t)strlen(chars_of(type, object))
					  : sequence->length;
			return length;
		default:
			if (type->kind == APUS_KIND_SEQUENCE) {
				if (index >= sequence->length)
					return NULL;
				object = sequence->data;
			}
			type = type->element;
			object = (const uint8_t *)object + (size_t)index * type->size_bytes;
		}
	}
	return object;
}

static bool same(const struct apus_type *leaf, const struct apus_wire_slot *slot, const void *value,
		 bool swap)
{
	if (!slot->bytes || !value)
		return !slot->bytes && !value;
	if (leaf->kind == APUS_KIND_STRING)
		return slot->length == strlen(chars_of(leaf, value)) &&
		       memcmp(slot->bytes, chars_of(leaf, value), slot->length) == 0;
	for (uint32_t i = 0; i < leaf->size_bytes; i++)
		if (slot->bytes[swap ? leaf->size_bytes - 1 - i : i] != ((const uint8_t *)value)[i])
			return false;
	return true;
}

const char *fields_compare(const struct fields *fields, const uint16_t *which, uint32_t count,
			   const struct apus_wire_step *steps, uint32_t step_count,
			   const uint8_t *payload, size_t bytes, const void *sample)
{
	struct apus_wire_slot slots[APUS_WIRE_WALK_FIELDS];
	struct apus_wire_cdr c;

	if (apus_wire_cdr_open(&c, payload, bytes) < 0 || !apus_wire_cdr_fits(&c, fields->type))
		return sample ? "no payload of the type" : NULL;
	memset(slots, 0xee, sizeof(slots)); /* every slot must be written */
	if (!apus_wire_walk(steps, step_count, c.base, c.end, c.swap, slots)) {
		snprintf(complaint, sizeof(complaint), "the walk to %s and %u more fails",
			 fields->all[which[0]].text, count - 1);
		return sample ? complaint : NULL;
	}
	for (uint32_t i = 0; i < count && sample; i++) {
		const struct field *f = &fields->all[which[i]];
		uint32_t length;
		const void *value = in_memory(fields, f, sample, &length);

		if (!same(f->path.leaf, &slots[i], value, c.swap)) {
			snprintf(complaint, sizeof(complaint), "%s, read with %u more, is %s",
				 f->text, count - 1,
				 !value            ? "not absent"
				 : !slots[i].bytes ? "absent"
						   : "another value");
			return complaint;
		}
	}
	return NULL;
}
