/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding members of a serialised sample without deserialising it.
 *
 * Two stages. When something is compiled (a filter), member paths are resolved against the type
 * descriptor and turned into a *walk*: a short list of steps that goes forward over the CDR bytes once,
 * only as far as the last wanted member, and notes where each wanted member lies. When a sample
 * arrives, apus_wire_walk() runs that list. Runs of fixed-size members are merged into one step, so
 * members at a constant offset cost one addition.
 *
 * A field is found, absent (an optional member that is not there, a case that is not selected, an
 * element behind a sequence's end) or missing (a member of an older sender's type), which reads as the
 * member's default (XTypes 1.3 §7.2.2.4.4.4.7). Steps set what a field reads as where it is not met
 * before they look for it.
 *
 * Invariants of every walk: jumps backwards only close a loop whose body consumes at least one byte,
 * so a walk costs at most its own length plus the payload's; no position leaves the payload.
 */
#ifndef APUS_WIRE_ACCESS_H
#define APUS_WIRE_ACCESS_H

#include <apus/type.h>

/** Parts of a path; apus_type_check() allows 16 levels of types, and each kind of part ends one. */
#define APUS_WIRE_PATH_DEPTH 18
/** Fields one walk may find. */
#define APUS_WIRE_WALK_FIELDS 64
/** Words of a walk's stack: open loops and delimited objects around one point of it. */
#define APUS_WIRE_WALK_DEPTH 64
/** Members a walk may look at while it is built: bounds the work for types that fan out. */
#define APUS_WIRE_WALK_VISITS 65536

/**
 * A field, named by its position at each level from the top-level type down: in a STRUCT the index of
 * the member; in a UNION 0 for the discriminator, or 1 + the index of the case; in an ARRAY the index of
 * the element (row-major); in a SEQUENCE 0 for the length, or 1 + the index of the element; in a STRING
 * 0 for the length.
 */
struct apus_wire_path {
	uint32_t parts[APUS_WIRE_PATH_DEPTH];
	uint16_t depth;               /**< entries of `parts`, 1… */
	const struct apus_type *leaf; /**< type of the field itself; lengths are UINT32 */
};

/** Where resolving a path failed: bytes of the path text. */
struct apus_wire_path_error {
	size_t position, length;
	const struct apus_type *type; /**< the type the offending part was looked up in */
	const char *reason;           /**< constant text, such as "no such member" */
};

/**
 * Resolves a path, not NUL-terminated, in a STRUCT. Parts are members of structs and cases of unions
 * ("pose.x"; `_d` is the discriminator, which no IDL name can be), elements ("a[3]", "m[1][2]" with all
 * dimensions of an array, "points[2].x") and `length` of sequences and strings ("points.length"). What
 * a typedef names and what a base struct declares is found like any other part.
 * Returns 0; APUS_ENOENT if a struct or union has no such member; APUS_ELIMIT if an index lies outside an
 * array or beyond a sequence's bound, or the path is too deep; APUS_ENOTSUP if a part does not go with
 * the kind of what it is looked up in; APUS_EINVAL if the text is no path. error_out is written on failure
 * only. Linear in the path times the members of the structs it goes through.
 */
int apus_wire_path_resolve(const struct apus_type *type, const char *path, size_t path_bytes,
			   struct apus_wire_path *path_out, struct apus_wire_path_error *error_out);

/** Orders paths by where they lie in the type; 0 = the same field. */
int apus_wire_path_compare(const struct apus_wire_path *a, const struct apus_wire_path *b);

/** Kinds of step; see apus_wire_walk() for what each does. */
enum apus_wire_step_op {
	APUS_WIRE_RUN, /**< align, take `bytes`, note a member at `delta` in it */
	APUS_WIRE_STRING, /**< take a string of at most `bytes` characters (0 = any), note it in `slot`,
			   *   its length in slot `delta` - 1 (0 = nowhere) */
	APUS_WIRE_SEQUENCE, /**< take a sequence of at most `delta` (0 = any) elements of `bytes` each,
			     *   note its length */
	APUS_WIRE_DELIMITED, /**< take whatever a DHEADER delimits */
	APUS_WIRE_ENTER,     /**< read a DHEADER and stay within it */
	APUS_WIRE_LEAVE,     /**< go to the end of the innermost ENTER */
	APUS_WIRE_MEMBER,    /**< nothing but padding left in the struct: go to `target` */
	APUS_WIRE_LOOP,      /**< do what follows `bytes` times; none: go to `target` */
	APUS_WIRE_LOOP_READ, /**< the same, the number read from the payload; at most `bytes` (0 = any) */
	APUS_WIRE_NEXT,       /**< once more from `target`, if the loop is not done */
	APUS_WIRE_SKIP_VALUE, /**< take a value of type `ref` */
	APUS_WIRE_OPTIONAL,   /**< take member `ref`, present or not */
	APUS_WIRE_PRESENT,    /**< XCDR2: read a presence flag; absent: go to `target` */
	APUS_WIRE_HEADER, /**< XCDR1: read the header of member `ref`; absent: go to `target`, else stay
			     *   within its value */
	APUS_WIRE_VALUE_END, /**< go to the end of the innermost HEADER or CASE of a LIST, then to `target` */
	APUS_WIRE_OPEN, /**< begin the members of a mutable struct */
	APUS_WIRE_LIST, /**< read headers of members of the mutable struct `ref` up to one that a CASE
			 *   behind this step names by id; at the end go to `target` */
	APUS_WIRE_CASE, /**< `bytes` leads to `target` */
	APUS_WIRE_SWITCH, /**< read the discriminator of union `ref`, note it; go where a CASE behind this
			   *   step leads for the selected member, else take that and go to `target` */
	APUS_WIRE_JUMP,  /**< go to `target` */
	APUS_WIRE_COUNT, /**< read the length of a sequence of at most `bytes` (0 = any), note it */
	APUS_WIRE_ELEMENTS, /**< there are `bytes` elements */
	APUS_WIRE_ADVANCE, /**< pass `bytes` elements of type `ref`; not one more there: go to `target` */
	APUS_WIRE_REST, /**< done with the elements; pass those left if `ref` says of which type */
	APUS_WIRE_ABSENT,  /**< until found, `slot` is absent */
	APUS_WIRE_DEFAULT, /**< until found, `slot` is the number `value` of `bytes` bytes */
	APUS_WIRE_TEXT,    /**< until found, `slot` is the string `ref` of `bytes` characters */
};

#define APUS_WIRE_NO_SLOT UINT16_MAX

/** One step of a walk. References are to the type descriptors the walk was built from. */
struct apus_wire_step {
	uint8_t op; /**< enum apus_wire_step_op */
	uint8_t align_mask; /**< alignment minus one; where types are skipped: 3 under XCDR2, 7 under XCDR1 */
	uint16_t slot; /**< index of the field to note, or APUS_WIRE_NO_SLOT */
	uint32_t bytes;
	uint32_t delta;
	uint32_t target; /**< a step, or the walk's end */
	union {
		const void *ref;
		uint64_t value; /**< in its first `bytes` bytes, in this machine's byte order */
	};
};

/**
 * Where a field lies. bytes: NULL if absent; a number in the payload's byte order, or the first
 * character of a string, proved free of NULs. They lie in the payload, in a descriptor, or in `value`
 * here: slots must not be copied.
 */
struct apus_wire_slot {
	const uint8_t *bytes;
	uint32_t length; /**< strings: characters, without the NUL */
	uint64_t value;
};

/**
 * Builds the walk that finds `path_count` fields in samples of a STRUCT.
 *
 * paths: sorted by apus_wire_path_compare(), without duplicates; slots[i] is the slot index to note
 * paths[i] in. xcdr2: for the encodings of XCDR2, else for those of XCDR1.
 * Returns the number of steps, 0 or more; APUS_ELIMIT if they exceed `step_capacity`, there are more than
 * APUS_WIRE_WALK_FIELDS paths, the type nests too deep, fans out too far or has fixed parts beyond 2 GiB; APUS_ENOTSUP if a path ends at something
 * that is neither number nor string, or a kind or extensibility is not known; APUS_EINVAL for a
 * malformed descriptor.
 * Recursion is bounded by APUS_WIRE_PATH_DEPTH. Does not allocate.
 */
int apus_wire_walk_build(const struct apus_type *type, bool xcdr2,
			 const struct apus_wire_path *paths, const uint16_t *slots,
			 uint32_t path_count, struct apus_wire_step *steps_out,
			 uint32_t step_capacity);

/**
 * Runs a walk. body: the payload *after* its 4-byte encapsulation header and without the padding that
 * header declares, untrusted; the encapsulation must be the one of the type. swap: its byte order is not
 * this machine's.
 *
 * Notes every field of the walk: where it is, that it is absent, or its default.
 * Returns false if the bytes end too early or contradict themselves: nothing in slots may be used then.
 * A payload that decodes walks, too; what lies behind the last field is not looked at.
 * Does not allocate; any thread.
 */
bool apus_wire_walk(const struct apus_wire_step *steps, uint32_t step_count, const uint8_t *body,
		    size_t body_bytes, bool swap, struct apus_wire_slot *slots);

#endif
