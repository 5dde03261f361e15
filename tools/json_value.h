/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What reading and printing JSON both have to know about samples in memory. Private to the JSON
 * code, which sees the library through its public headers alone.
 */
#ifndef APUS_TOOLS_JSON_VALUE_H
#define APUS_TOOLS_JSON_VALUE_H

#include <apus/type.h>

/** True if some member of the struct is marked as key. */
static inline bool json_has_keys(const struct apus_type *type)
{
	for (uint32_t i = 0; i < type->member_count; i++)
		if (type->members[i].key)
			return true;
	return false;
}

/** True for an unbounded string: its image is a `char *`, held or not. */
static inline bool json_is_open_string(const struct apus_type *type)
{
	return type->kind == APUS_KIND_STRING && type->bound == 0;
}

/** Where a member's value is; NULL if it is absent. */
static inline const void *json_member_value(const struct apus_member *m, const void *object)
{
	const void *slot = (const uint8_t *)object + m->offset_bytes, *held;

	if (!m->optional && !m->external)
		return slot;
	held = *(const void *const *)slot;
	if (json_is_open_string(m->type))
		return held || !m->optional ? slot : NULL;
	return held;
}

/** The value of an integer, char, bool or enum; uint64 above INT64_MAX comes out negative. */
static inline int64_t json_load_integer(const struct apus_type *type, const void *value)
{
	const bool is_signed = type->kind == APUS_KIND_ENUM || type->kind == APUS_KIND_INT8 ||
			       type->kind == APUS_KIND_INT16 || type->kind == APUS_KIND_INT32;

	switch (type->size_bytes) {
	case 1: return is_signed ? *(const int8_t *)value : *(const uint8_t *)value;
	case 2: return is_signed ? *(const int16_t *)value : *(const uint16_t *)value;
	case 4: return is_signed ? *(const int32_t *)value : (int64_t) * (const uint32_t *)value;
	default: return *(const int64_t *)value;
	}
}

/** The case of a union that a discriminator value selects; NULL if none. */
static inline const struct apus_member *json_select_case(const struct apus_type *type,
							 int64_t discriminator)
{
	const struct apus_member *fallback = NULL;

	for (uint32_t i = 0; i < type->member_count; i++) {
		const struct apus_member *m = &type->members[i];

		for (uint32_t j = 0; j < m->case_count; j++)
			if (m->cases[j] == discriminator)
				return m;
		if (m->is_default)
			fallback = m;
	}
	return fallback;
}

#endif
