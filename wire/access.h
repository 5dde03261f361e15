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
 * Invariants of every walk: jumps backwards only close a loop whose body consumes at least one byte,
 * so a walk costs at most its own length plus the payload's; no position leaves the payload.
 */
#ifndef APUS_WIRE_ACCESS_H
#define APUS_WIRE_ACCESS_H

#include <apus/type.h>

/** Deepest nesting a path or a walk may have; apus_type_check() allows 16 levels of types. */
#define APUS_WIRE_PATH_DEPTH 16
/** Open loops and delimited structs at one point of a walk. */
#define APUS_WIRE_WALK_DEPTH 32
/** Members a walk may look at while it is built: bounds the work for types that fan out. */
#define APUS_WIRE_WALK_VISITS 65536

/** A member, named by its position in each struct from the top-level type down. */
struct apus_wire_path {
	uint16_t members[APUS_WIRE_PATH_DEPTH];
	uint16_t depth;               /**< entries of `members`, 1… */
	const struct apus_type *leaf; /**< type of the member itself */
};

/** Where resolving a path failed: bytes of the path text. */
struct apus_wire_path_error {
	size_t position, length;
	const struct apus_type *type; /**< the type the offending name was looked up in */
};

/**
 * Resolves a dotted path ("pose.x"), not NUL-terminated, in a STRUCT.
 * Returns 0; APUS_ENOENT if a struct has no such member; APUS_ENOTSUP if the path goes into a member
 * that is no struct; APUS_EINVAL for an empty name; APUS_ELIMIT if it is too deep. error_out is written
 * on failure only. Linear in the path times the members of the structs it goes through.
 */
int apus_wire_path_resolve(const struct apus_type *type, const char *path, size_t path_bytes,
			   struct apus_wire_path *path_out, struct apus_wire_path_error *error_out);

/** Orders paths by where they lie in the serialised sample; 0 = the same member. */
int apus_wire_path_compare(const struct apus_wire_path *a, const struct apus_wire_path *b);

/** Kinds of step; see apus_wire_walk() for what each does. */
enum apus_wire_step_op {
	APUS_WIRE_RUN,    /**< align, take `bytes`, note a member at `delta` in it */
	APUS_WIRE_STRING, /**< take a string of at most `bytes` characters (0 = any), note it */
	APUS_WIRE_SEQUENCE, /**< take a sequence of at most `delta` (0 = any) elements of `bytes` each */
	APUS_WIRE_DELIMITED, /**< take whatever a DHEADER delimits */
	APUS_WIRE_ENTER,     /**< read a DHEADER and stay within it */
	APUS_WIRE_LEAVE,     /**< go to the end of the innermost ENTER */
	APUS_WIRE_MEMBER,    /**< nothing but padding left in the struct: go to step `bytes` */
	APUS_WIRE_LOOP,      /**< do what follows `bytes` times; none: go to step `delta` */
	APUS_WIRE_LOOP_READ, /**< the same, the number read from the payload; at most `bytes` (0 = any) */
	APUS_WIRE_NEXT, /**< once more from step `bytes`, if the loop is not done */
};

#define APUS_WIRE_NO_SLOT UINT16_MAX

/** One step of a walk. */
struct apus_wire_step {
	uint8_t op;         /**< enum apus_wire_step_op */
	uint8_t align_mask; /**< alignment minus one */
	uint16_t slot;      /**< index of the member to note, or APUS_WIRE_NO_SLOT */
	uint32_t bytes;
	uint32_t delta;
};

/** Where a member lies. Strings: `bytes` is the first character, `length` excludes the NUL. */
struct apus_wire_slot {
	const uint8_t *bytes;
	uint32_t length;
};

/**
 * Builds the walk that finds `path_count` members in samples of a STRUCT.
 *
 * paths: sorted by apus_wire_path_compare(), without duplicates; slots[i] is the slot index to note
 * paths[i] in. xcdr2: for PLAIN_CDR2/DELIMITED_CDR2 payloads, else for XCDR1.
 * Returns the number of steps, 0 or more; APUS_ELIMIT if they exceed `step_capacity`, the type nests
 * too deep, fans out too far or has fixed parts beyond 2 GiB; APUS_ENOTSUP if a kind, an extensibility
 * or an optional member lies on the way, which walks do not know; APUS_EINVAL for a malformed descriptor.
 * Recursion is bounded by APUS_WIRE_PATH_DEPTH. Does not allocate.
 */
int apus_wire_walk_build(const struct apus_type *type, bool xcdr2,
			 const struct apus_wire_path *paths, const uint16_t *slots,
			 uint32_t path_count, struct apus_wire_step *steps_out,
			 uint32_t step_capacity);

/**
 * Runs a walk. body: the payload *after* its 4-byte encapsulation header and without the padding that
 * header declares, untrusted. swap: its byte order is not this machine's.
 *
 * Members a shorter appendable sample lacks leave their slot as the caller set it before.
 * Returns false if the bytes end too early or contradict themselves: nothing in slots may be used then.
 * Does not allocate; any thread.
 */
bool apus_wire_walk(const struct apus_wire_step *steps, uint32_t step_count, const uint8_t *body,
		    size_t body_bytes, bool swap, struct apus_wire_slot *slots);

#endif
