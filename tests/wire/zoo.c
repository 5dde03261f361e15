/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors and sample values of the type zoo; see zoo.h. */
#include "zoo.h"
#include <stdio.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define STRUCT(name_, ext, ctype, members_)                                                       \
	{                                                                                         \
		.name = name_, .kind = APUS_KIND_STRUCT, .extensibility = ext,                    \
		.size_bytes = sizeof(ctype), .align_bytes = _Alignof(ctype), .members = members_, \
		.member_count = COUNT(members_)                                                   \
	}
#define SEQUENCE(element_, bound_)                                                      \
	{                                                                               \
		.kind = APUS_KIND_SEQUENCE, .size_bytes = sizeof(struct apus_sequence), \
		.align_bytes = _Alignof(struct apus_sequence), .element = element_,     \
		.bound = bound_                                                         \
	}
#define ARRAY(element_, ctype, bound_)                                               \
	{                                                                            \
		.kind = APUS_KIND_ARRAY, .size_bytes = sizeof(ctype[bound_]),        \
		.align_bytes = _Alignof(ctype), .element = element_, .bound = bound_ \
	}
#define STRING(bound_)                                                                  \
	{                                                                               \
		.kind = APUS_KIND_STRING, .size_bytes = (bound_) + 1, .align_bytes = 1, \
		.bound = bound_                                                         \
	}

static const struct apus_type octets = SEQUENCE(&apus_type_octet, 0);
static const struct apus_type shorts = SEQUENCE(&apus_type_int16, 0);
static const struct apus_type ushorts = SEQUENCE(&apus_type_uint16, 0);
static const struct apus_type string5 = STRING(5);
static const struct apus_type string8 = STRING(8);

static const struct apus_label mood_labels[] = {{"CALM", 0}, {"BUSY", 1}, {"IDLE", 2}};
const struct apus_type zoo_mood_type = {.name = "Mood",
					.kind = APUS_KIND_ENUM,
					.size_bytes = 4,
					.align_bytes = 4,
					.labels = mood_labels,
					.label_count = COUNT(mood_labels)};
static const struct apus_label flag_labels[] = {{"A", 0}, {"B", 3}, {"C", 11}};
const struct apus_type zoo_flags_type = {.name = "Flags",
					 .kind = APUS_KIND_BITMASK,
					 .bit_bound = 12,
					 .size_bytes = 2,
					 .align_bytes = 2,
					 .labels = flag_labels,
					 .label_count = COUNT(flag_labels)};

#define M(ctype, field, type, id, key)                        \
	{                                                     \
#field, type, offsetof(ctype, field), id, key \
	}

static const struct apus_member final_members[] = {
	M(struct zoo_final, kid, &apus_type_uint32, 0, true),
	M(struct zoo_final, a, &apus_type_octet, 1, false),
	M(struct zoo_final, b, &apus_type_uint64, 2, false),
	M(struct zoo_final, c, &apus_type_float64, 3, false),
	M(struct zoo_final, s, &apus_type_string, 4, false),
	M(struct zoo_final, v, &shorts, 5, false),
};
const struct apus_type zoo_final_type =
	STRUCT("FinalT", APUS_FINAL, struct zoo_final, final_members);

static const struct apus_member inner_members[] = {
	M(struct zoo_inner, p, &apus_type_int32, 0, false),
	M(struct zoo_inner, q, &apus_type_string, 1, false),
};
const struct apus_type zoo_inner_type =
	STRUCT("InnerA", APUS_APPENDABLE, struct zoo_inner, inner_members);
static const struct apus_type inners = SEQUENCE(&zoo_inner_type, 0);

static const struct apus_member app_members[] = {
	M(struct zoo_app, kid, &apus_type_uint32, 0, true),
	M(struct zoo_app, a, &apus_type_octet, 1, false),
	M(struct zoo_app, b, &apus_type_int64, 2, false),
	M(struct zoo_app, in, &zoo_inner_type, 3, false),
	M(struct zoo_app, v, &inners, 4, false),
};
const struct apus_type zoo_app_type = STRUCT("AppT", APUS_APPENDABLE, struct zoo_app, app_members);

static const struct apus_member app_short_members[] = {
	M(struct zoo_app_short, kid, &apus_type_uint32, 0, true),
	M(struct zoo_app_short, a, &apus_type_octet, 1, false),
};
const struct apus_type zoo_app_short_type =
	STRUCT("AppT", APUS_APPENDABLE, struct zoo_app_short, app_short_members);

static const struct apus_member app_long_members[] = {
	M(struct zoo_app_long, head.kid, &apus_type_uint32, 0, true),
	M(struct zoo_app_long, head.a, &apus_type_octet, 1, false),
	M(struct zoo_app_long, head.b, &apus_type_int64, 2, false),
	M(struct zoo_app_long, head.in, &zoo_inner_type, 3, false),
	M(struct zoo_app_long, head.v, &inners, 4, false),
	M(struct zoo_app_long, added, &apus_type_string, 5, false),
	M(struct zoo_app_long, tail, &apus_type_uint16, 6, false),
};
const struct apus_type zoo_app_long_type =
	STRUCT("AppT", APUS_APPENDABLE, struct zoo_app_long, app_long_members);

static const struct apus_member key2_members[] = {
	M(struct zoo_key2, k1, &apus_type_int64, 0, true),
	M(struct zoo_key2, k2, &apus_type_int16, 1, true),
	M(struct zoo_key2, v, &apus_type_int32, 2, false),
};
const struct apus_type zoo_key2_type = STRUCT("Key2", APUS_FINAL, struct zoo_key2, key2_members);

static const struct apus_type long8 = ARRAY(&apus_type_int32, int32_t, 8);
static const struct apus_member keybig_members[] = {
	M(struct zoo_keybig, k, &long8, 0, true),
	M(struct zoo_keybig, v, &apus_type_int32, 1, false),
};
const struct apus_type zoo_keybig_type =
	STRUCT("KeyBig", APUS_FINAL, struct zoo_keybig, keybig_members);

static const struct apus_type bool3 = ARRAY(&apus_type_bool, bool, 3);
static const struct apus_member prims_members[] = {
	M(struct zoo_prims, b, &apus_type_bool, 0, false),
	M(struct zoo_prims, o, &apus_type_octet, 1, false),
	M(struct zoo_prims, c, &apus_type_char, 2, false),
	M(struct zoo_prims, i8, &apus_type_int8, 3, false),
	M(struct zoo_prims, u8, &apus_type_uint8, 4, false),
	M(struct zoo_prims, i16, &apus_type_int16, 5, false),
	M(struct zoo_prims, u16, &apus_type_uint16, 6, false),
	M(struct zoo_prims, i32, &apus_type_int32, 7, false),
	M(struct zoo_prims, u32, &apus_type_uint32, 8, false),
	M(struct zoo_prims, i64, &apus_type_int64, 9, false),
	M(struct zoo_prims, u64, &apus_type_uint64, 10, false),
	M(struct zoo_prims, f32, &apus_type_float32, 11, false),
	M(struct zoo_prims, f64, &apus_type_float64, 12, false),
	M(struct zoo_prims, mood, &zoo_mood_type, 13, false),
	M(struct zoo_prims, flags, &zoo_flags_type, 14, false),
	M(struct zoo_prims, bits, &bool3, 15, false),
};
const struct apus_type zoo_prims_type =
	STRUCT("Prims", APUS_FINAL, struct zoo_prims, prims_members);

static const struct apus_member point_members[] = {
	M(struct zoo_point, x, &apus_type_float64, 0, false),
	M(struct zoo_point, y, &apus_type_int32, 1, false),
	M(struct zoo_point, z, &apus_type_int32, 2, false),
};
const struct apus_type zoo_point_type =
	STRUCT("Point", APUS_FINAL, struct zoo_point, point_members);

static const struct apus_type grid2 = ARRAY(&zoo_point_type, struct zoo_point, 2);
static const struct apus_type points = SEQUENCE(&zoo_point_type, 0);
static const struct apus_type moods3 = SEQUENCE(&zoo_mood_type, 3);
static const struct apus_type mood2 = ARRAY(&zoo_mood_type, int32_t, 2);
static const struct apus_type strings = SEQUENCE(&apus_type_string, 0);
static const struct apus_type table = SEQUENCE(&ushorts, 0);
static const struct apus_type flags = SEQUENCE(&zoo_flags_type, 0);
static const struct apus_member nest_members[] = {
	M(struct zoo_nest, pad, &apus_type_octet, 0, false),
	M(struct zoo_nest, grid, &grid2, 1, false),
	M(struct zoo_nest, path, &points, 2, false),
	M(struct zoo_nest, moods, &moods3, 3, false),
	M(struct zoo_nest, pair, &mood2, 4, false),
	M(struct zoo_nest, names, &strings, 5, false),
	M(struct zoo_nest, table, &table, 6, false),
	M(struct zoo_nest, code, &string8, 7, false),
	M(struct zoo_nest, flags, &flags, 8, false),
	M(struct zoo_nest, prims, &zoo_prims_type, 9, false),
};
const struct apus_type zoo_nest_type = STRUCT("Nest", APUS_FINAL, struct zoo_nest, nest_members);

static const struct apus_member keypart_members[] = {
	M(struct zoo_keypart, p, &apus_type_int32, 2, true),
	M(struct zoo_keypart, note, &apus_type_string, 1, false),
	M(struct zoo_keypart, r, &apus_type_int16, 0, true),
	M(struct zoo_keypart, more, &apus_type_string, 3, false),
};
static const struct apus_type keypart =
	STRUCT("KeyPart", APUS_APPENDABLE, struct zoo_keypart, keypart_members);
static const struct apus_member keydeep_members[] = {
	M(struct zoo_keydeep, text, &apus_type_string, 9, false),
	M(struct zoo_keydeep, part, &keypart, 7, true),
	M(struct zoo_keydeep, junk, &octets, 5, false),
	M(struct zoo_keydeep, mood, &zoo_mood_type, 3, true),
	M(struct zoo_keydeep, tag, &string5, 4, true),
	M(struct zoo_keydeep, after, &apus_type_int32, 8, false),
};
const struct apus_type zoo_keydeep_type =
	STRUCT("KeyDeep", APUS_APPENDABLE, struct zoo_keydeep, keydeep_members);

static const struct apus_member keyopen_members[] = {
	M(struct zoo_keyopen, x, &apus_type_int32, 0, false),
	M(struct zoo_keyopen, name, &apus_type_string, 1, true),
};
const struct apus_type zoo_keyopen_type =
	STRUCT("KeyOpen", APUS_FINAL, struct zoo_keyopen, keyopen_members);

const struct apus_type *const zoo_all[ZOO_COUNT] = {
	&apus_shape_type,  &apus_shape_extended_type, &apus_blob_type,    &zoo_final_type,
	&zoo_app_type,     &zoo_app_short_type,       &zoo_app_long_type, &zoo_key2_type,
	&zoo_keybig_type,  &zoo_prims_type,           &zoo_nest_type,     &zoo_keydeep_type,
	&zoo_keyopen_type,
};

void zoo_fill_final(struct zoo_final *s)
{
	static int16_t v[] = {1, -2, 3};

	*s = (struct zoo_final){.kid = 1,
				.a = 0xa5,
				.b = UINT64_C(0x0102030405060708),
				.c = 1.5,
				.s = "final",
				.v = {.length = 3, .data = v}};
}

void zoo_fill_app(struct zoo_app *s)
{
	static struct zoo_inner v[] = {{21, "v0"}, {22, "v1x"}};

	*s = (struct zoo_app){
		.kid = 1, .a = 0xa5, .b = -5, .in = {11, "in"}, .v = {.length = 2, .data = v}};
}

void zoo_fill_prims(struct zoo_prims *s)
{
	memset(s, 0, sizeof(*s));
	*s = (struct zoo_prims){.b = true,
				.o = 0xfe,
				.c = 'q',
				.i8 = -8,
				.u8 = 200,
				.i16 = -1600,
				.u16 = 61600,
				.i32 = -320000,
				.u32 = 4000000000u,
				.i64 = INT64_MIN,
				.u64 = UINT64_MAX,
				.f32 = 0.1f,
				.f64 = -2.5e300,
				.mood = ZOO_BUSY,
				.flags = 0x809,
				.bits = {true, false, true}};
}

void zoo_fill_nest(struct zoo_nest *s)
{
	static struct zoo_point path[] = {
		{1.0, 1, -1}, {2.0, 2, -2}, {3.0, 3, -3}, {4.0, 4, -4}, {5.0, 5, -5}};
	static int32_t moods[] = {ZOO_IDLE, ZOO_CALM};
	static char *names[] = {"", "ab", "xyz!"};
	static uint16_t row[] = {7, 8, 9};
	static struct apus_sequence rows[] = {{.length = 3, .data = row}, {.length = 0}};
	static uint16_t masks[] = {1, 0x800};

	memset(s, 0, sizeof(*s));
	s->pad = 1;
	s->grid[0] = (struct zoo_point){-1.0, 10, 11};
	s->grid[1] = (struct zoo_point){-2.0, 20, 21};
	s->path = (struct apus_sequence){.length = 5, .data = path};
	s->moods = (struct apus_sequence){.length = 2, .data = moods};
	s->pair[1] = ZOO_IDLE;
	s->names = (struct apus_sequence){.length = 3, .data = names};
	s->table = (struct apus_sequence){.length = 2, .data = rows};
	strcpy(s->code, "12345678");
	s->flags = (struct apus_sequence){.length = 2, .data = masks};
	zoo_fill_prims(&s->prims);
}

void zoo_fill_keydeep(struct zoo_keydeep *s)
{
	static uint8_t junk[] = {9, 9, 9};

	*s = (struct zoo_keydeep){.text = "some text",
				  .part = {.p = 0x11223344, .note = "n", .r = 0x5566, .more = "m"},
				  .junk = {.length = 3, .data = junk},
				  .mood = ZOO_IDLE,
				  .tag = "tag",
				  .after = 77};
}

size_t zoo_hex(const char *hex, uint8_t *out)
{
	size_t n = 0;
	unsigned int byte;

	for (; sscanf(hex, "%2x", &byte) == 1; hex += 2)
		out[n++] = (uint8_t)byte;
	return n;
}
