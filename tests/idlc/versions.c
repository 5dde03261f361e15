/* SPDX-License-Identifier: Apache-2.0 */
/* See versions.h. */
#include "versions.h"

#include <string.h>

#include "wire/cdr.h"

#define EVOLUTION(old, new, flags, expected)                  \
	extern const struct apus_type old##_type, new##_type; \
	extern const dds_topic_descriptor_t old##_desc, new##_desc;
#include "evolutions_table.h"
#undef EVOLUTION

const struct version_pair version_pairs[] = {
#define EVOLUTION(old, new, flags, expected) \
	{{&old##_type, &old##_desc}, {&new##_type, &new##_desc}, flags, expected},
#include "evolutions_table.h"
};
const size_t version_pair_count = sizeof(version_pairs) / sizeof(version_pairs[0]);

static const struct apus_member *by_id(const struct apus_type *type, uint32_t id)
{
	for (uint32_t i = 0; i < type->member_count; i++)
		if (type->members[i].id == id)
			return &type->members[i];
	return NULL;
}

bool versions_zero(const uint8_t *value, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (value[i])
			return false;
	return true;
}

/* What a member takes that the writer did not have. */
static bool is_default(const struct apus_member *m, const void *object, bool zero)
{
	const void *value = apus_wire_member_value(m, object);
	const struct apus_type *t = m->type;

	if (m->optional)
		return value == NULL;
	if (m->default_value && !zero)
		return t->kind == APUS_KIND_STRING
			       ? sample_equal(t, value, m->default_value)
			       : memcmp(value, m->default_value, t->size_bytes) == 0;
	if (t->kind == APUS_KIND_ENUM && !zero)
		return apus_wire_load_integer(t, value) == t->labels[t->default_label].value;
	if (t->kind == APUS_KIND_STRING)
		return t->bound ? *(const char *)value == '\0'
				: !*(char *const *)value || **(char *const *)value == '\0';
	if (t->kind != APUS_KIND_STRUCT)
		return versions_zero(value, t->size_bytes);
	for (uint32_t i = 0; i < t->member_count; i++)
		if (!is_default(&t->members[i], value, zero))
			return false;
	return true;
}

static bool same_elements(const struct apus_type *a, const uint8_t *x, const struct apus_type *b,
			  const uint8_t *y, uint32_t count, enum versions_added added)
{
	for (uint32_t i = 0; i < count; i++)
		if (!versions_same(a, x + (size_t)i * a->size_bytes, b,
				   y + (size_t)i * b->size_bytes, added))
			return false;
	return true;
}

/* Members of both by id; `y` is what was read. */
static bool same_members(const struct apus_type *a, const void *x, const struct apus_type *b,
			 const void *y, enum versions_added added)
{
	for (uint32_t i = 0; i < b->member_count; i++) {
		const struct apus_member *m = &b->members[i], *had = by_id(a, m->id);
		const void *p, *q = apus_wire_member_value(m, y);

		if (!had) {
			if (added != VERSIONS_ANY && !is_default(m, y, added == VERSIONS_ZERO))
				return false;
			continue;
		}
		p = apus_wire_member_value(had, x);
		if (!p != !q || (p && !versions_same(had->type, p, m->type, q, added)))
			return false;
	}
	return true;
}

bool versions_same(const struct apus_type *a, const void *x, const struct apus_type *b,
		   const void *y, enum versions_added added)
{
	const struct apus_sequence *s = x, *t = y;

	switch (a->kind) {
	case APUS_KIND_STRUCT: return same_members(a, x, b, y, added);
	case APUS_KIND_ARRAY: return same_elements(a->element, x, b->element, y, a->bound, added);
	case APUS_KIND_SEQUENCE:
		return s->length == t->length &&
		       same_elements(a->element, s->data, b->element, t->data, s->length, added);
	default: return sample_equal(a, x, y);
	}
}
