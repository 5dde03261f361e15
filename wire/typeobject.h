/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TypeObjects (XTypes 1.3 §7.3.4, annex B), minimal and complete, from XCDR2 bytes to plain structs.
 *
 * A parsed object lies in the caller's arena; names point into the bytes it was parsed from, which must
 * outlive it. Identifiers of other types are kept as hashes: resolving them, and thereby every cycle, is the
 * caller's affair. Annotations that say nothing about layout or matching are passed over.
 *
 * All input is hostile: each length and count is proved against what is there before anything is reserved,
 * the arena bounds memory, and identifiers nest at most APUS_WIRE_TYPE_NEST_MAX deep. Parsing is linear.
 */
#ifndef APUS_WIRE_TYPEOBJECT_H
#define APUS_WIRE_TYPEOBJECT_H

#include "wire/typeid.h"

/** Collections within collections in one TypeIdentifier. */
#define APUS_WIRE_TYPE_NEST_MAX 8
/** Dimensions of an array. */
#define APUS_WIRE_TYPE_DIMS_MAX 8
/** Longest member and type names (XTypes 1.3 annex B), without NUL. */
#define APUS_WIRE_TYPE_NAME_BYTES 256

/** Kinds (XTypes 1.3 annex B). Strings and plain collections of an identifier appear under the kind of type
 *  they are; a hashed identifier under its equivalence kind. */
enum apus_wire_tk {
	APUS_TK_NONE = 0x00,
	APUS_TK_BOOLEAN = 0x01,
	APUS_TK_BYTE = 0x02,
	APUS_TK_INT16 = 0x03,
	APUS_TK_INT32 = 0x04,
	APUS_TK_INT64 = 0x05,
	APUS_TK_UINT16 = 0x06,
	APUS_TK_UINT32 = 0x07,
	APUS_TK_UINT64 = 0x08,
	APUS_TK_FLOAT32 = 0x09,
	APUS_TK_FLOAT64 = 0x0a,
	APUS_TK_FLOAT128 = 0x0b,
	APUS_TK_INT8 = 0x0c,
	APUS_TK_UINT8 = 0x0d,
	APUS_TK_CHAR8 = 0x10,
	APUS_TK_CHAR16 = 0x11,
	APUS_TK_STRING8 = 0x20,
	APUS_TK_STRING16 = 0x21,
	APUS_TK_ALIAS = 0x30,
	APUS_TK_ENUM = 0x40,
	APUS_TK_BITMASK = 0x41,
	APUS_TK_ANNOTATION = 0x50,
	APUS_TK_STRUCTURE = 0x51,
	APUS_TK_UNION = 0x52,
	APUS_TK_BITSET = 0x53,
	APUS_TK_SEQUENCE = 0x60,
	APUS_TK_ARRAY = 0x61,
	APUS_TK_MAP = 0x62,
	APUS_TK_COMPONENT =
		0xb0, /**< of types that refer to each other; nothing more is kept of it */
};

/** Member flags (MemberFlag). */
#define APUS_MEMBER_EXTERNAL        0x0004u
#define APUS_MEMBER_OPTIONAL        0x0008u
#define APUS_MEMBER_MUST_UNDERSTAND 0x0010u
#define APUS_MEMBER_KEY             0x0020u
#define APUS_MEMBER_DEFAULT         0x0040u

/** Type flags (TypeFlag). */
#define APUS_TYPE_FINAL         0x0001u
#define APUS_TYPE_APPENDABLE    0x0002u
#define APUS_TYPE_MUTABLE       0x0004u
#define APUS_TYPE_NESTED        0x0008u
#define APUS_TYPE_EXTENSIBILITY (APUS_TYPE_FINAL | APUS_TYPE_APPENDABLE | APUS_TYPE_MUTABLE)

/** A TypeIdentifier. What its kind does not have is 0. */
struct apus_wire_type_ref {
	uint8_t kind;      /**< enum apus_wire_tk, APUS_WIRE_EK_MINIMAL or APUS_WIRE_EK_COMPLETE */
	uint8_t dim_count; /**< ARRAY */
	uint16_t element_flags;                   /**< SEQUENCE, ARRAY, MAP */
	uint32_t bound;                           /**< STRING8, SEQUENCE, MAP; 0 = none */
	uint32_t dims[APUS_WIRE_TYPE_DIMS_MAX];   /**< ARRAY, none of them 0 */
	const struct apus_wire_type_ref *element; /**< SEQUENCE, ARRAY, MAP */
	const struct apus_wire_type_ref *key;     /**< MAP */
	struct apus_wire_type_hash hash;          /**< hashed ones */
};

/** A member of a struct or union, a literal of an enum, a flag of a bitmask. */
struct apus_wire_type_member {
	const char *name;     /**< complete objects: NUL-terminated; minimal ones: NULL */
	uint8_t name_hash[4]; /**< first bytes of the MD5 of the name */
	uint16_t flags;       /**< APUS_MEMBER_… */
	uint32_t id;          /**< struct, union: the member id; bitmask: the position */
	int32_t value;        /**< enum */
	const struct apus_wire_type_ref *type; /**< struct, union */
	const int32_t *labels;                 /**< union */
	uint32_t label_count;
};

/** A TypeObject. What its kind does not have is 0. */
struct apus_wire_type_object {
	uint8_t equivalence; /**< APUS_WIRE_EK_MINIMAL or APUS_WIRE_EK_COMPLETE */
	uint8_t kind;        /**< enum apus_wire_tk, ALIAS and above */
	uint8_t dim_count;   /**< ARRAY */
	uint16_t flags;      /**< APUS_TYPE_… */
	uint16_t bit_bound;  /**< ENUM, BITMASK */
	uint16_t
		inner_flags; /**< UNION: of the discriminator; SEQUENCE, ARRAY, MAP: of the element */
	uint32_t bound;      /**< SEQUENCE, MAP; 0 = none */
	uint32_t dims[APUS_WIRE_TYPE_DIMS_MAX]; /**< ARRAY */
	const char *name; /**< complete objects with a name: NUL-terminated; else NULL */
	/** STRUCTURE: the base or NULL; UNION: the discriminator; ALIAS: the type meant; SEQUENCE, ARRAY,
	 *  MAP: the element. */
	const struct apus_wire_type_ref *inner;
	const struct apus_wire_type_ref *key;        /**< MAP */
	const struct apus_wire_type_member *members; /**< in the order of the object */
	uint32_t member_count;
};

/** Memory that objects are parsed into. */
struct apus_wire_type_arena {
	uint8_t *base; /**< aligned for any type */
	size_t bytes;
	size_t used;
};

/**
 * Parses a TypeObject that begins with its DHEADER. `object` need not be aligned.
 * Returns ACCEPT; SKIP for a kind that is well-formed as far as it goes but not understood (annotations,
 * bitsets, extended kinds); MALFORMED otherwise, and when the arena is too small. The size an object needs is
 * found by a first parse with a scratch arena: the same bytes always use the same amount.
 */
enum apus_wire_verdict apus_wire_type_object_parse(const uint8_t *object, size_t object_bytes,
						   struct apus_wire_type_arena *arena,
						   struct apus_wire_type_object *object_out);

/** Most arena bytes an object of so many bytes can need. */
size_t apus_wire_type_object_arena(size_t object_bytes);

/** Reads a TypeIdentifier from `value` into the arena; NULL if it is malformed. */
const struct apus_wire_type_ref *apus_wire_type_ref_read(struct apus_wire_value *value,
							 struct apus_wire_type_arena *arena);

/** A sequence of (TypeIdentifier, TypeObject), as in TypeMapping and in replies of the TypeLookup service. */
struct apus_wire_type_pairs {
	struct apus_wire_value value;
	uint32_t left;
};

/** Opens the sequence at `value`, which moves behind it. `value` is at its DHEADER. */
bool apus_wire_type_pairs_open(struct apus_wire_value *value,
			       struct apus_wire_type_pairs *pairs_out);

/**
 * Takes the next pair. *object_out points at the DHEADER of the object. An identifier that is no hash
 * leaves *hash_out with kind APUS_WIRE_EK_NONE. Returns false at the end, and if it is malformed
 * (then pairs->value is bad).
 */
bool apus_wire_type_pairs_next(struct apus_wire_type_pairs *pairs,
			       struct apus_wire_type_hash *hash_out, const uint8_t **object_out,
			       size_t *object_bytes_out);

/** First four bytes of the MD5 of a name (XTypes 1.3 annex B, NameHash). */
void apus_wire_type_name_hash(const char *name, uint8_t hash_out[4]);

#endif
