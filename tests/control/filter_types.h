/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types for the filter tests, the oracle's driver and the fuzz target: every scalar kind, and members
 * that lie behind members of variable size in every shape the descriptors allow.
 * tests/control/filter_oracle.py describes the same types in its own words; keep both in step.
 */
#ifndef APUS_TESTS_FILTER_TYPES_H
#define APUS_TESTS_FILTER_TYPES_H

#include <apus/type.h>
#include <stdalign.h>

/* Member ids must differ; the offset is as good as any. */
#define FILTER_MEMBER(s, m, t)                                                  \
	{                                                                       \
		.name = #m, .type = (t), .offset_bytes = offsetof(struct s, m), \
		.id = offsetof(struct s, m)                                     \
	}
#define FILTER_STRUCT(s, label, ext, table)                                            \
	{                                                                              \
		.name = (label), .kind = APUS_KIND_STRUCT, .extensibility = (ext),     \
		.size_bytes = sizeof(struct s), .align_bytes = alignof(struct s),      \
		.members = (table), .member_count = sizeof(table) / sizeof((table)[0]) \
	}

static const struct apus_label filter_mood_labels[] = {
	{"CALM", 0}, {"BUSY", 1}, {"IDLE", 7}, {"ANGRY", -3}};
static const struct apus_type filter_mood = {.name = "Mood",
					     .kind = APUS_KIND_ENUM,
					     .size_bytes = 4,
					     .align_bytes = 4,
					     .labels = filter_mood_labels,
					     .label_count = 4};
static const struct apus_label filter_flag_labels[] = {{"A", 0}, {"B", 1}};
static const struct apus_type filter_flags8 = {.name = "Flags8",
					       .kind = APUS_KIND_BITMASK,
					       .bit_bound = 5,
					       .size_bytes = 1,
					       .align_bytes = 1,
					       .labels = filter_flag_labels,
					       .label_count = 2};
static const struct apus_type filter_flags64 = {.name = "Flags64",
						.kind = APUS_KIND_BITMASK,
						.bit_bound = 64,
						.size_bytes = 8,
						.align_bytes = 8,
						.labels = filter_flag_labels,
						.label_count = 2};
static const struct apus_type filter_string16 = {
	.kind = APUS_KIND_STRING, .size_bytes = 17, .align_bytes = 1, .bound = 16};

/* Every scalar kind; final. Members of different alignment alternate. */
struct filter_scalars {
	bool b;
	uint16_t u16;
	char c;
	uint64_t u64;
	int8_t i8;
	int32_t i32;
	uint8_t u8;
	double f64;
	uint8_t o;
	int16_t i16;
	uint32_t u32;
	float f32;
	int64_t i64;
	int32_t e;
	uint8_t m8;
	uint64_t m64;
	char s[17];
	char *t;
	bool b2;
};

static const struct apus_member filter_scalars_members[] = {
	FILTER_MEMBER(filter_scalars, b, &apus_type_bool),
	FILTER_MEMBER(filter_scalars, u16, &apus_type_uint16),
	FILTER_MEMBER(filter_scalars, c, &apus_type_char),
	FILTER_MEMBER(filter_scalars, u64, &apus_type_uint64),
	FILTER_MEMBER(filter_scalars, i8, &apus_type_int8),
	FILTER_MEMBER(filter_scalars, i32, &apus_type_int32),
	FILTER_MEMBER(filter_scalars, u8, &apus_type_uint8),
	FILTER_MEMBER(filter_scalars, f64, &apus_type_float64),
	FILTER_MEMBER(filter_scalars, o, &apus_type_octet),
	FILTER_MEMBER(filter_scalars, i16, &apus_type_int16),
	FILTER_MEMBER(filter_scalars, u32, &apus_type_uint32),
	FILTER_MEMBER(filter_scalars, f32, &apus_type_float32),
	FILTER_MEMBER(filter_scalars, i64, &apus_type_int64),
	FILTER_MEMBER(filter_scalars, e, &filter_mood),
	FILTER_MEMBER(filter_scalars, m8, &filter_flags8),
	FILTER_MEMBER(filter_scalars, m64, &filter_flags64),
	FILTER_MEMBER(filter_scalars, s, &filter_string16),
	FILTER_MEMBER(filter_scalars, t, &apus_type_string),
	FILTER_MEMBER(filter_scalars, b2, &apus_type_bool),
};
static const struct apus_type filter_scalars =
	FILTER_STRUCT(filter_scalars, "Scalars", APUS_FINAL, filter_scalars_members);

struct filter_inner {
	int32_t p;
	char *q;
	double r;
};

static const struct apus_member filter_inner_members[] = {
	FILTER_MEMBER(filter_inner, p, &apus_type_int32),
	FILTER_MEMBER(filter_inner, q, &apus_type_string),
	FILTER_MEMBER(filter_inner, r, &apus_type_float64),
};
static const struct apus_type filter_inner =
	FILTER_STRUCT(filter_inner, "Inner", APUS_FINAL, filter_inner_members);

struct filter_open {
	int16_t a;
	char *s;
	uint64_t u;
};

static const struct apus_member filter_open_members[] = {
	FILTER_MEMBER(filter_open, a, &apus_type_int16),
	FILTER_MEMBER(filter_open, s, &apus_type_string),
	FILTER_MEMBER(filter_open, u, &apus_type_uint64),
};
static const struct apus_type filter_open =
	FILTER_STRUCT(filter_open, "Open", APUS_APPENDABLE, filter_open_members);

#define FILTER_SEQUENCE(label, of, limit)                                                    \
	static const struct apus_type label = {.kind = APUS_KIND_SEQUENCE,                   \
					       .size_bytes = sizeof(struct apus_sequence),   \
					       .align_bytes = alignof(struct apus_sequence), \
					       .bound = (limit),                             \
					       .element = (of)}
#define FILTER_ARRAY(label, of, of_c, count)                                         \
	static const struct apus_type label = {.kind = APUS_KIND_ARRAY,              \
					       .size_bytes = sizeof(of_c) * (count), \
					       .align_bytes = alignof(of_c),         \
					       .bound = (count),                     \
					       .element = (of)}

FILTER_SEQUENCE(filter_seq_i16, &apus_type_int16, 0);
FILTER_SEQUENCE(filter_seq_f64, &apus_type_float64, 3);
FILTER_SEQUENCE(filter_seq_octet, &apus_type_octet, 8);
FILTER_SEQUENCE(filter_seq_inner, &filter_inner, 0);
FILTER_SEQUENCE(filter_seq_open, &filter_open, 4);
FILTER_SEQUENCE(filter_seq_string, &apus_type_string, 0);
FILTER_ARRAY(filter_arr_open, &filter_open, struct filter_open, 2);
FILTER_ARRAY(filter_arr_mood, &filter_mood, int32_t, 3);
FILTER_ARRAY(filter_arr_string, &apus_type_string, char *, 2);
FILTER_ARRAY(filter_arr_u64, &apus_type_uint64, uint64_t, 3);

/* Appendable: under XCDR2 delimited, and older samples may end early. */
struct filter_deep {
	char *head;
	struct filter_inner in;
	struct filter_open ina;
	struct apus_sequence v;
	int32_t e;
	struct filter_open arr[2];
	struct apus_sequence seq;
	struct apus_sequence names;
	int32_t moods[3];
	double last;
	int8_t tail;
};

static const struct apus_member filter_deep_members[] = {
	FILTER_MEMBER(filter_deep, head, &apus_type_string),
	FILTER_MEMBER(filter_deep, in, &filter_inner),
	FILTER_MEMBER(filter_deep, ina, &filter_open),
	FILTER_MEMBER(filter_deep, v, &filter_seq_i16),
	FILTER_MEMBER(filter_deep, e, &filter_mood),
	FILTER_MEMBER(filter_deep, arr, &filter_arr_open),
	FILTER_MEMBER(filter_deep, seq, &filter_seq_inner),
	FILTER_MEMBER(filter_deep, names, &filter_seq_string),
	FILTER_MEMBER(filter_deep, moods, &filter_arr_mood),
	FILTER_MEMBER(filter_deep, last, &apus_type_float64),
	FILTER_MEMBER(filter_deep, tail, &apus_type_int8),
};
static const struct apus_type filter_deep =
	FILTER_STRUCT(filter_deep, "Deep", APUS_APPENDABLE, filter_deep_members);

/* Final, with appendable structs inside. */
struct filter_mixed {
	struct apus_sequence raw;
	struct filter_inner in;
	struct filter_open ina;
	char *pair[2];
	int64_t after;
	uint64_t triple[3];
	float f;
	struct apus_sequence w;
	struct apus_sequence seqa;
	uint8_t z;
};

static const struct apus_member filter_mixed_members[] = {
	FILTER_MEMBER(filter_mixed, raw, &filter_seq_octet),
	FILTER_MEMBER(filter_mixed, in, &filter_inner),
	FILTER_MEMBER(filter_mixed, ina, &filter_open),
	FILTER_MEMBER(filter_mixed, pair, &filter_arr_string),
	FILTER_MEMBER(filter_mixed, after, &apus_type_int64),
	FILTER_MEMBER(filter_mixed, triple, &filter_arr_u64),
	FILTER_MEMBER(filter_mixed, f, &apus_type_float32),
	FILTER_MEMBER(filter_mixed, w, &filter_seq_f64),
	FILTER_MEMBER(filter_mixed, seqa, &filter_seq_open),
	FILTER_MEMBER(filter_mixed, z, &apus_type_uint8),
};
static const struct apus_type filter_mixed =
	FILTER_STRUCT(filter_mixed, "Mixed", APUS_FINAL, filter_mixed_members);

#define FILTER_OPTIONAL(s, m, t)                                                \
	{                                                                       \
		.name = #m, .type = (t), .offset_bytes = offsetof(struct s, m), \
		.id = offsetof(struct s, m) + 1, .optional = true               \
	}

/* A union of three cases and a default. */
struct filter_choice {
	int32_t d;
	union {
		int64_t i;
		char *s;
		struct filter_inner in;
		float f;
	};
};

static const int64_t filter_case_1[] = {1}, filter_case_2[] = {2, -2}, filter_case_3[] = {3};
static const struct apus_member filter_choice_members[] = {
	{.name = "i",
	 .type = &apus_type_int64,
	 .offset_bytes = offsetof(struct filter_choice, i),
	 .id = 1,
	 .case_count = 1,
	 .cases = filter_case_1},
	{.name = "s",
	 .type = &apus_type_string,
	 .offset_bytes = offsetof(struct filter_choice, s),
	 .id = 2,
	 .case_count = 2,
	 .cases = filter_case_2},
	{.name = "in",
	 .type = &filter_inner,
	 .offset_bytes = offsetof(struct filter_choice, in),
	 .id = 3,
	 .case_count = 1,
	 .cases = filter_case_3},
	{.name = "f",
	 .type = &apus_type_float32,
	 .offset_bytes = offsetof(struct filter_choice, f),
	 .id = 4,
	 .is_default = true},
};
static const struct apus_type filter_choice = {.name = "Choice",
					       .kind = APUS_KIND_UNION,
					       .size_bytes = sizeof(struct filter_choice),
					       .align_bytes = alignof(struct filter_choice),
					       .element = &apus_type_int32,
					       .members = filter_choice_members,
					       .member_count = 4};

FILTER_ARRAY(filter_arr_i16, &apus_type_int16, int16_t, 4);

/* What may be absent: optional members, union cases, elements. Final. */
struct filter_rich {
	int32_t *oi;
	char *os;
	struct filter_choice u;
	struct filter_inner *oin;
	struct apus_sequence names;
	struct apus_sequence points;
	int16_t arr[4];
	struct apus_sequence *ow;
	double *od;
	char *text;
};

static const struct apus_member filter_rich_members[] = {
	FILTER_OPTIONAL(filter_rich, oi, &apus_type_int32),
	FILTER_OPTIONAL(filter_rich, os, &apus_type_string),
	FILTER_MEMBER(filter_rich, u, &filter_choice),
	FILTER_OPTIONAL(filter_rich, oin, &filter_inner),
	FILTER_MEMBER(filter_rich, names, &filter_seq_string),
	FILTER_MEMBER(filter_rich, points, &filter_seq_inner),
	FILTER_MEMBER(filter_rich, arr, &filter_arr_i16),
	FILTER_OPTIONAL(filter_rich, ow, &filter_seq_f64),
	FILTER_OPTIONAL(filter_rich, od, &apus_type_float64),
	FILTER_MEMBER(filter_rich, text, &apus_type_string),
};
static const struct apus_type filter_rich =
	FILTER_STRUCT(filter_rich, "Rich", APUS_FINAL, filter_rich_members);

/* All of them, in the order the oracle numbers them. */
static const struct apus_type *const filter_types[] = {&apus_shape_type, &filter_scalars,
						       &filter_deep, &filter_mixed, &filter_rich};
#define FILTER_TYPE_COUNT (sizeof(filter_types) / sizeof(filter_types[0]))

#endif
