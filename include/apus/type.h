/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Type descriptors: how a C struct, its CDR image and its JSON form relate.
 *
 * A descriptor is immutable static data, generated or written by hand. The library reads it to
 * serialise, to find keys, to compile filters and to print samples; it never copies it, so it must
 * outlive every participant that uses it.
 *
 * In-memory shapes:
 *   primitives   the C type of the same width (`bool`, `char`, `uint8_t` for OCTET)
 *   ENUM         int8_t, int16_t or int32_t by bit_bound (0 is 32)
 *   BITMASK      unsigned of 8/16/32/64 bits by bit_bound
 *   STRING       bound > 0: char[bound + 1] inline, NUL-terminated;
 *                bound 0: char * (NULL reads as "")
 *   ARRAY        the elements inline, row-major; `bound` is the total number of elements, `dims`
 *                says how they are counted
 *   SEQUENCE     struct apus_sequence; `bound` is the maximum length, 0 = none but the sample's own
 *   STRUCT       the members at their `offset_bytes`; those of a base struct come first
 *   UNION        the discriminator at offset 0, the cases overlapping behind it
 *
 * An `optional` or `external` member is a pointer to such an image, NULL where an optional member is
 * absent; except that one of unbounded STRING is the `char *` itself, NULL where absent. In a
 * decoded sample it points into the caller's arena.
 */
#ifndef APUS_TYPE_H
#define APUS_TYPE_H

#include <apus/core.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Kinds of type (XTypes 1.3 §7.2.2). */
enum apus_kind {
	APUS_KIND_BOOL = 1,
	APUS_KIND_OCTET,
	APUS_KIND_CHAR,
	APUS_KIND_INT8,
	APUS_KIND_UINT8,
	APUS_KIND_INT16,
	APUS_KIND_UINT16,
	APUS_KIND_INT32,
	APUS_KIND_UINT32,
	APUS_KIND_INT64,
	APUS_KIND_UINT64,
	APUS_KIND_FLOAT32,
	APUS_KIND_FLOAT64,
	APUS_KIND_ENUM,
	APUS_KIND_BITMASK,
	APUS_KIND_STRING,
	APUS_KIND_ARRAY,
	APUS_KIND_SEQUENCE,
	APUS_KIND_STRUCT,
	APUS_KIND_UNION,
};

/** Extensibility of a struct or union (XTypes 1.3 §7.2.3). It decides the encapsulation used. */
enum apus_extensibility {
	APUS_FINAL = 0,
	APUS_APPENDABLE = 1,
	APUS_MUTABLE = 2, /**< STRUCT only */
};

/** In-memory image of a SEQUENCE. In a decoded sample `data` points into the caller's arena. */
struct apus_sequence {
	uint32_t length;   /**< elements in use */
	uint32_t capacity; /**< elements `data` has room for; 0 when borrowed */
	void *data;        /**< NULL only if length is 0 */
};

struct apus_type;

/** One member of a STRUCT, or one case of a UNION. What is not set is false, 0, NULL. */
struct apus_member {
	const char *name;             /**< IDL name, case-sensitive */
	const struct apus_type *type; /**< never NULL */
	uint32_t offset_bytes;        /**< in the C struct */
	uint32_t id;                  /**< XTypes member id, below 2^28 */
	bool key;                     /**< part of the instance identity; STRUCT only */
	bool optional;                /**< may be absent; STRUCT only, and never a key */
	bool external;                /**< held by pointer; the wire image is the same */
	bool must_understand;      /**< receivers that do not know the member refuse the sample */
	bool is_default;           /**< UNION: also selected by values no case lists */
	uint32_t case_count;       /**< UNION: number of `cases` */
	const int64_t *cases;      /**< UNION: discriminator values that select this member */
	const void *default_value; /**< image of `type` taken when the member is absent; NULL: zero,
				       *   or what `default_label` says; not for optional members */
};

/** One label of an ENUM, or one flag of a BITMASK (value = bit position). */
struct apus_label {
	const char *name;
	int32_t value;
};

/** Steps of a serialisation program. */
enum apus_op_code {
	APUS_OP_END = 0,
	APUS_OP_COPY,     /**< `bytes` of numbers that lie together in memory and on the wire */
	APUS_OP_BOOLS,    /**< `bytes` bools */
	APUS_OP_STRING,   /**< a STRING with bound `bytes`, 0 = none */
	APUS_OP_NUMBERS,  /**< a SEQUENCE of numbers, or structs of them, copied as a whole */
	APUS_OP_SEQUENCE, /**< a SEQUENCE of anything: the steps up to APUS_OP_NEXT are an element */
	APUS_OP_ARRAY,    /**< an ARRAY of `bytes` elements, as APUS_OP_SEQUENCE */
	APUS_OP_NEXT,     /**< the next element, `size` bytes on, or the end of the collection */
	APUS_OP_OBJECT,   /**< an appendable struct with its DHEADER begins; offset: none */
	APUS_OP_OBJECT_END, /**< and ends */
	APUS_OP_MEMBER, /**< member `index` of `parent`, which lies at `offset_bytes`: by descriptor */
};

/**
 * One step of a program that serialises a type: what apus_type_encode() and apus_type_decode() run
 * instead of walking the descriptor, where there is one. The IDL back-end makes them with the
 * descriptors; nobody writes them by hand.
 */
struct apus_op {
	uint8_t code;          /**< enum apus_op_code */
	uint8_t align;         /**< alignment on the wire */
	uint8_t dheader;       /**< collections: a DHEADER comes first */
	uint8_t index;         /**< MEMBER: which; sequences: alignment of an element in memory */
	uint16_t skip;         /**< SEQUENCE, ARRAY: steps to its NEXT; NEXT: back to the first */
	uint32_t offset_bytes; /**< in the object (the element, within a collection's body) */
	uint32_t bytes;        /**< see the codes; sequences: largest length, 0 = any */
	uint32_t size;         /**< collections, NEXT: bytes of an element in memory */
	const struct apus_type *parent; /**< MEMBER */
};

/** A type. Fields not named for a kind are 0. */
struct apus_type {
	const char *name;      /**< registered name ("ShapeType", "pkg::Type"); topic types only */
	uint8_t kind;          /**< enum apus_kind */
	uint8_t extensibility; /**< STRUCT, UNION: enum apus_extensibility */
	uint8_t bit_bound;     /**< BITMASK: 1…64; ENUM: 0…32, 0 means 32 */
	uint32_t size_bytes;   /**< sizeof the in-memory image */
	uint32_t align_bytes;  /**< its alignment */
	uint32_t bound;        /**< STRING, ARRAY, SEQUENCE: see the head of this file */
	const struct apus_type *element;   /**< ARRAY, SEQUENCE; UNION: the discriminator */
	const struct apus_member *members; /**< STRUCT, UNION: in declaration order */
	uint32_t member_count;
	const struct apus_label *labels; /**< ENUM, BITMASK */
	uint32_t label_count;
	uint32_t default_label; /**< ENUM: index in `labels` of the value an absent member takes */
	bool plain_xcdr1;       /**< the memory image is the XCDR1 body; see apus_type_check() */
	bool plain_xcdr2;       /**< the memory image is the XCDR2 body */
	const struct apus_op
		*ops_xcdr1; /**< STRUCT: serialisation program, up to its END, or NULL */
	const struct apus_op *ops_xcdr2; /**< the same for XCDR2 */
	const uint8_t *type_information; /**< topic types: XTypes TypeInformation, CDR2_LE body */
	const uint8_t *type_mapping;     /**< topic types: the TypeObjects it names, CDR2_LE body */
	uint32_t type_information_bytes; /**< 0: none */
	uint32_t type_mapping_bytes;     /**< 0: none */
	const uint32_t *dims; /**< ARRAY of several dimensions: their sizes; NULL: one dimension */
	uint32_t dim_count;   /**< entries of `dims`: 0, or 2 and more with the product `bound` */
};

/** Descriptors of the primitives, for use in member tables. */
extern APUS_API const struct apus_type apus_type_bool, apus_type_octet, apus_type_char,
	apus_type_int8, apus_type_uint8, apus_type_int16, apus_type_uint16, apus_type_int32,
	apus_type_uint32, apus_type_int64, apus_type_uint64, apus_type_float32, apus_type_float64,
	apus_type_string;

/** CDR data representations (XTypes 1.3 §7.6.3.1.1). */
enum apus_representation {
	APUS_XCDR1 = 0,
	APUS_XCDR2 = 2,
};

/**
 * Checks a descriptor: known kinds, sizes and alignments, members inside their struct and apart
 * from each other, bounds, acyclic nesting of at most 16 levels, 1 to 256 members a struct, unique
 * member names and ids, keys only where allowed: primitives, enums, bitmasks, strings, arrays of
 * them other than of strings, and structs of those (all members of a key struct count if none is
 * marked). A union's discriminator is a BOOL, CHAR, OCTET, integer or ENUM at offset 0, its cases
 * list each value once, in range, and at most one is the default. The type itself must be a struct
 * with a name. `plain_*` may only be set where memory and wire really agree: no padding, no bools,
 * bitmasks, strings, pointers, members in declaration order. `ops_*` must be the steps the library
 * itself would make of the type.
 * Returns 0 or APUS_EINVAL. Any thread; does not block or allocate.
 */
APUS_API int apus_type_check(const struct apus_type *type);

/**
 * Largest number of payload bytes (without the 4-byte encapsulation header) a sample of the type
 * can need under `representation` (enum apus_representation), padding to a multiple of 4 included.
 * Returns 0 if the type has an unbounded member or exceeds INT32_MAX, or on an invalid argument.
 */
APUS_API size_t apus_type_max_bytes(const struct apus_type *type, int representation);

/** Most steps of a program (choice: about 10 KiB; a type that needs more is walked). */
#define APUS_OPS_MAX 256

/**
 * Makes the serialisation program of a checked type, END included, for a descriptor that is built at
 * run time. `ops_out` has room for APUS_OPS_MAX steps. Returns their number; 0 where a program is of no
 * use: mutable types, and those too large. Pure; the cost is linear in the members, nested ones counted
 * at each place, up to a limit.
 */
APUS_API uint32_t apus_type_program(const struct apus_type *type, int representation,
				    struct apus_op *ops_out);

/** True if any member, at any depth of key nesting, is a key. */
APUS_API bool apus_type_is_keyed(const struct apus_type *type);

/**
 * Serialises `*sample` into `out`, little-endian, with its 4-byte encapsulation header
 * (RTPS 2.5 §10.5; padding count in the low option bits).
 *
 * key_only: write only the key members, as for dispose and unregister.
 * The payload is padded to a multiple of 4 bytes; `out` must have room for that.
 * Returns the number of bytes written (header included), APUS_ELIMIT if `out_bytes` is too small,
 * APUS_EENCODING if a string, sequence or bitmask exceeds its bound or is malformed, APUS_EINVAL
 * for an unknown representation. On failure the contents of `out` are unspecified. Any thread; does
 * not allocate.
 */
APUS_API int apus_type_encode(const struct apus_type *type, const void *sample, int representation,
			      bool key_only, void *out, size_t out_bytes);

/**
 * Deserialises `payload` (with encapsulation header; either byte order; XCDR1 or XCDR2) into
 * `*sample`, which must be `type->size_bytes` large. Unbounded strings, sequences and
 * optional and external members are placed in `arena` (NULL allowed for types that need none).
 * Members a shorter appendable or a mutable sample lacks take their default; members a longer one
 * adds are skipped, unless marked as must-understand. Strings with embedded NULs, bools other than 0 and 1
 * and bits beyond a bitmask's bound are refused; enum values are not checked against the labels.
 *
 * key_only: the payload holds only key members; the others become zero.
 * Returns the arena bytes used (0 or more), APUS_EENCODING if the bytes are not a sample of the
 * type, APUS_ELIMIT if the arena is too small. On failure `*sample` is all zero: a sample is never
 * half-filled. On success its padding, and what is behind the NUL of a bounded string, is
 * unspecified: nothing is cleared that will be written.
 */
APUS_API int apus_type_decode(const struct apus_type *type, const void *payload,
			      size_t payload_bytes, bool key_only, void *sample, void *arena,
			      size_t arena_bytes);

/**
 * apus_type_decode() without the copies: unbounded strings, and sequences of numbers that are in
 * host byte order and aligned there, stay in `payload`, and the sample points at them; an image is not
 * touched. What must be converted goes to the arena as ever. `payload` must outlive the sample's use
 * and not be changed through it: a taken sample's is there until apus_return(). Results as
 * apus_type_decode().
 */
APUS_API int apus_type_view(const struct apus_type *type, const void *payload, size_t payload_bytes,
			    bool key_only, void *sample, void *arena, size_t arena_bytes);

/**
 * Writes a type as IDL: the types it uses, each in its module, then itself. For people: it compiles to the same
 * layout, but typedefs are gone, and arrays have one dimension.
 * Returns the length without NUL, APUS_ELIMIT if text_bytes is too small (then the text is cut short),
 * APUS_EINVAL for a bad descriptor, APUS_ENOMEM. Any thread; allocates while it runs.
 */
APUS_API int apus_type_to_idl(const struct apus_type *type, char *text_out, size_t text_bytes);

/**
 * Finds a built-in topic type by registered name ("ShapeType", "ShapeTypeExtended", "Blob").
 * Returns NULL if there is none. Static storage; any thread.
 */
APUS_API const struct apus_type *apus_type_builtin(const char *name);

/** C image of the built-in "ShapeType" (final): @key string<128> color; long x, y, shapesize. */
struct apus_shape {
	char color[129];
	int32_t x;
	int32_t y;
	int32_t shapesize;
};

/** C image of the built-in "ShapeTypeExtended" (appendable): ShapeType with sequence<octet>
 *  additional_payload_size at its end, as the OMG interoperability test uses it. */
struct apus_shape_extended {
	char color[129];
	int32_t x;
	int32_t y;
	int32_t shapesize;
	struct apus_sequence additional_payload_size;
};

/** C image of the built-in "Blob" (final): @key unsigned long kid; sequence<octet> data. */
struct apus_blob {
	uint32_t kid;
	struct apus_sequence data;
};

/** Descriptors of the structs above; what apus_type_builtin() returns for their names. */
extern APUS_API const struct apus_type apus_shape_type, apus_shape_extended_type, apus_blob_type;

#ifdef __cplusplus
}
#endif

#endif
