/* SPDX-License-Identifier: Apache-2.0 */
/* See sample.h. Trusted types only: recursion is as deep as the type. */
#include "sample.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

uint64_t sample_bits(struct sample_random *r)
{
	/* splitmix64 */
	uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static uint32_t below(struct sample_random *r, uint32_t limit)
{
	return (uint32_t)(sample_bits(r) % limit);
}

static void *take(struct sample_random *r, size_t bytes)
{
	void *p = r->arena + r->used;

	r->used = (r->used + bytes + 15) & ~(size_t)15;
	assert(r->used <= r->bytes);
	memset(p, 0, bytes);
	return p;
}

static void fill(struct sample_random *r, const struct apus_type *type, void *value);

static void fill_bits(struct sample_random *r, const struct apus_type *type, void *value,
		      uint64_t bits)
{
	(void)r;
	switch (type->size_bytes) {
	case 1: *(uint8_t *)value = (uint8_t)bits; break;
	case 2: *(uint16_t *)value = (uint16_t)bits; break;
	case 4: *(uint32_t *)value = (uint32_t)bits; break;
	default: *(uint64_t *)value = bits; break;
	}
}

static void fill_string(struct sample_random *r, const struct apus_type *type, void *value)
{
	uint32_t length = below(r, type->bound && type->bound < 12 ? type->bound + 1 : 13);
	char *chars = value;

	if (!type->bound) {
		chars = take(r, length + 1);
		*(char **)value = chars;
	}
	for (uint32_t i = 0; i < length; i++)
		chars[i] = (char)('!' + below(r, 94));
}

static void fill_sequence(struct sample_random *r, const struct apus_type *type,
			  struct apus_sequence *value)
{
	const struct apus_type *element = type->element;

	value->length = below(r, type->bound && type->bound < 6 ? type->bound + 1 : 7);
	if (!value->length)
		return;
	value->data = take(r, (size_t)value->length * element->size_bytes);
	for (uint32_t i = 0; i < value->length; i++)
		fill(r, element, (uint8_t *)value->data + (size_t)i * element->size_bytes);
}

static bool is_open_string(const struct apus_type *type)
{
	return type->kind == APUS_KIND_STRING && !type->bound;
}

static void fill_member(struct sample_random *r, const struct apus_member *m, uint8_t *object)
{
	void *slot = object + m->offset_bytes;

	if (m->optional && below(r, 2))
		return;
	if ((m->optional || m->external) && !is_open_string(m->type)) {
		void *held = take(r, m->type->size_bytes);

		*(void **)slot = held;
		slot = held;
	}
	fill(r, m->type, slot);
}

static void fill_union(struct sample_random *r, const struct apus_type *type, uint8_t *value)
{
	const struct apus_member *m = &type->members[below(r, type->member_count)];
	const bool any_value = type->element->kind != APUS_KIND_ENUM;
	int64_t discriminator;
	const struct apus_member *selected = NULL;

	if (m->case_count && (below(r, 4) || !any_value)) {
		discriminator = m->cases[below(r, m->case_count)];
	} else {
		fill(r, type->element, value);
		discriminator = 0;
		memcpy(&discriminator, value, type->element->size_bytes);
	}
	fill_bits(r, type->element, value, (uint64_t)discriminator);
	for (uint32_t i = 0; i < type->member_count; i++) {
		for (uint32_t j = 0; j < type->members[i].case_count; j++) {
			int64_t mine = 0;

			fill_bits(r, type->element, &mine, (uint64_t)type->members[i].cases[j]);
			if (memcmp(&mine, value, type->element->size_bytes) == 0)
				selected = &type->members[i];
		}
	}
	for (uint32_t i = 0; i < type->member_count && !selected; i++)
		if (type->members[i].is_default)
			selected = &type->members[i];
	if (selected)
		fill_member(r, selected, value);
}

static void fill(struct sample_random *r, const struct apus_type *type, void *value)
{
	switch (type->kind) {
	case APUS_KIND_BOOL: *(bool *)value = below(r, 2); break;
	case APUS_KIND_FLOAT32: *(float *)value = (float)(int32_t)sample_bits(r) / 1024; break;
	case APUS_KIND_FLOAT64: *(double *)value = (double)(int64_t)sample_bits(r) / 4096; break;
	case APUS_KIND_ENUM:
		fill_bits(r, type, value,
			  (uint64_t)type->labels[below(r, type->label_count)].value);
		break;
	case APUS_KIND_BITMASK: {
		uint64_t bits = 0;

		for (uint32_t i = 0; i < type->label_count; i++)
			bits |= (uint64_t)below(r, 2) << type->labels[i].value;
		fill_bits(r, type, value, bits);
		break;
	}
	case APUS_KIND_STRING: fill_string(r, type, value); break;
	case APUS_KIND_ARRAY:
		for (uint32_t i = 0; i < type->bound; i++)
			fill(r, type->element,
			     (uint8_t *)value + (size_t)i * type->element->size_bytes);
		break;
	case APUS_KIND_SEQUENCE: fill_sequence(r, type, value); break;
	case APUS_KIND_STRUCT:
		for (uint32_t i = 0; i < type->member_count; i++)
			fill_member(r, &type->members[i], value);
		break;
	case APUS_KIND_UNION: fill_union(r, type, value); break;
	default: fill_bits(r, type, value, sample_bits(r)); break;
	}
}

void sample_fill(struct sample_random *r, const struct apus_type *type, void *sample)
{
	r->used = 0;
	fill(r, type, sample);
}

static bool elements_equal(const struct apus_type *element, const uint8_t *a, const uint8_t *b,
			   uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (!sample_equal(element, a + (size_t)i * element->size_bytes,
				  b + (size_t)i * element->size_bytes))
			return false;
	return true;
}

static bool members_equal(const struct apus_member *m, const uint8_t *a, const uint8_t *b)
{
	const void *x = a + m->offset_bytes, *y = b + m->offset_bytes;

	if (m->optional || m->external) {
		const void *held_x = *(void *const *)x, *held_y = *(void *const *)y;

		if (!held_x || !held_y)
			return held_x == held_y;
		if (!is_open_string(m->type)) {
			x = held_x;
			y = held_y;
		}
	}
	return sample_equal(m->type, x, y);
}

static bool unions_equal(const struct apus_type *type, const uint8_t *a, const uint8_t *b)
{
	const struct apus_member *fallback = NULL, *selected = NULL;

	if (!sample_equal(type->element, a, b))
		return false;
	for (uint32_t i = 0; i < type->member_count; i++) {
		const struct apus_member *m = &type->members[i];

		if (m->is_default)
			fallback = m;
		for (uint32_t j = 0; j < m->case_count; j++)
			if (memcmp(&m->cases[j], a, type->element->size_bytes) == 0)
				selected = m; /* little-endian */
	}
	selected = selected ? selected : fallback;
	return !selected || members_equal(selected, a, b);
}

bool sample_equal(const struct apus_type *type, const void *a, const void *b)
{
	const struct apus_sequence *x = a, *y = b;

	switch (type->kind) {
	case APUS_KIND_STRING:
		return type->bound ? strcmp(a, b) == 0
				   : strcmp(*(char *const *)a ? *(char *const *)a : "",
					    *(char *const *)b ? *(char *const *)b : "") == 0;
	case APUS_KIND_ARRAY: return elements_equal(type->element, a, b, type->bound);
	case APUS_KIND_SEQUENCE:
		return x->length == y->length &&
		       elements_equal(type->element, x->data, y->data, x->length);
	case APUS_KIND_STRUCT:
		for (uint32_t i = 0; i < type->member_count; i++)
			if (!members_equal(&type->members[i], a, b))
				return false;
		return true;
	case APUS_KIND_UNION: return unions_equal(type, a, b);
	default: return memcmp(a, b, type->size_bytes) == 0;
	}
}
