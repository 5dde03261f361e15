/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A zoo of types for the tests of CDR, keys and JSON: every kind, nesting, both extensibilities,
 * keys in awkward places. The IDL of each stands beside its struct.
 */
#ifndef APUS_TESTS_WIRE_ZOO_H
#define APUS_TESTS_WIRE_ZOO_H

#include <apus/type.h>

/* @final struct FinalT { @key unsigned long kid; octet a; unsigned long long b; double c; string s;
 *                        sequence<short> v; }; */
struct zoo_final {
	uint32_t kid;
	uint8_t a;
	uint64_t b;
	double c;
	char *s;
	struct apus_sequence v;
};

/* @appendable struct InnerA { long p; string q; }; */
struct zoo_inner {
	int32_t p;
	char *q;
};

/* @appendable struct AppT { @key unsigned long kid; octet a; long long b; InnerA in;
 *                           sequence<InnerA> v; };   and shorter and longer versions of it */
struct zoo_app {
	uint32_t kid;
	uint8_t a;
	int64_t b;
	struct zoo_inner in;
	struct apus_sequence v;
};

struct zoo_app_short {
	uint32_t kid;
	uint8_t a;
};

struct zoo_app_long {
	struct zoo_app head;
	char *added;
	uint16_t tail;
};

/* @final struct Key2 { @key long long k1; @key short k2; long v; }; */
struct zoo_key2 {
	int64_t k1;
	int16_t k2;
	int32_t v;
};

/* @final struct KeyBig { @key long k[8]; long v; }; */
struct zoo_keybig {
	int32_t k[8];
	int32_t v;
};

/* enum Mood { CALM, BUSY, IDLE };  @bit_bound(12) bitmask Flags { @position(0) A, @position(3) B,
 * @position(11) C }; */
enum zoo_mood { ZOO_CALM, ZOO_BUSY, ZOO_IDLE };

/* @final struct Prims { boolean b; octet o; char c; int8 i8; uint8 u8; short i16;
 *   unsigned short u16;
 *   long i32; unsigned long u32; long long i64; unsigned long long u64; float f32; double f64;
 *   Mood mood; Flags flags; boolean bits[3]; }; */
struct zoo_prims {
	bool b;
	uint8_t o;
	char c;
	int8_t i8;
	uint8_t u8;
	int16_t i16;
	uint16_t u16;
	int32_t i32;
	uint32_t u32;
	int64_t i64;
	uint64_t u64;
	float f32;
	double f64;
	int32_t mood;
	uint16_t flags;
	bool bits[3];
};

/* @final struct Point { double x; long y; long z; };   plain: its memory is its CDR image */
struct zoo_point {
	double x;
	int32_t y;
	int32_t z;
};

/* @final struct Nest { octet pad; Point grid[2]; sequence<Point> path; sequence<Mood, 3> moods;
 *   Mood pair[2]; sequence<string> names; sequence<sequence<unsigned short>> table; string<8> code;
 *   sequence<Flags> flags; Prims prims; }; */
struct zoo_nest {
	uint8_t pad;
	struct zoo_point grid[2];
	struct apus_sequence path;
	struct apus_sequence moods;
	int32_t pair[2];
	struct apus_sequence names;
	struct apus_sequence table;
	char code[9];
	struct apus_sequence flags;
	struct zoo_prims prims;
};

/* @appendable struct KeyPart { @key @id(2) long p; @id(1) string note; @key @id(0) short r;
 *                              @id(3) string more; };
 * @appendable struct KeyDeep { @id(9) string text; @key @id(7) KeyPart part;
 *   @id(5) sequence<octet> junk; @key @id(3) Mood mood; @key @id(4) string<5> tag;
 *   @id(8) long after; }; */
struct zoo_keypart {
	int32_t p;
	char *note;
	int16_t r;
	char *more;
};

struct zoo_keydeep {
	char *text;
	struct zoo_keypart part;
	struct apus_sequence junk;
	int32_t mood;
	char tag[6];
	int32_t after;
};

/* @final struct KeyOpen { long x; @key string name; };   a key without bound */
struct zoo_keyopen {
	int32_t x;
	char *name;
};

extern const struct apus_type zoo_final_type, zoo_inner_type, zoo_app_type, zoo_app_short_type,
	zoo_app_long_type, zoo_key2_type, zoo_keybig_type, zoo_mood_type, zoo_flags_type,
	zoo_prims_type, zoo_point_type, zoo_nest_type, zoo_keydeep_type, zoo_keyopen_type;

/* All topic types of the zoo and the built-in ones, for tests that visit each. */
#define ZOO_COUNT 13
extern const struct apus_type *const zoo_all[ZOO_COUNT];

/* Fill a sample with fixed values; pointers go to static storage that must not be changed. */
void zoo_fill_final(struct zoo_final *s);
void zoo_fill_app(struct zoo_app *s);
void zoo_fill_prims(struct zoo_prims *s);
void zoo_fill_nest(struct zoo_nest *s);
void zoo_fill_keydeep(struct zoo_keydeep *s);

/* Parses hex digits into out; returns the number of bytes. */
size_t zoo_hex(const char *hex, uint8_t *out);

#endif
