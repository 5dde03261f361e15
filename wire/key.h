/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instance keys: from a payload to canonical key bytes, from there to the key hash and back to a
 * key-only payload.
 *
 * The *canonical key* identifies an instance everywhere inside Apus: the key members in ascending
 * order of member id, as big-endian XCDR2 (alignment at most 4) without the DHEADERs of structs. It
 * is what RTPS 2.5 §9.6.4.8 and XTypes 1.3 §7.6.8 hash, and two samples are of one instance exactly
 * if these bytes are equal, whatever byte order or representation they came in. Interop: Cyclone
 * 0.10.2 hashes the same bytes for XCDR2 writers, those that XCDR1's alignment makes of the key for XCDR1
 * writers, and decides by the actual length whether in clear; but it never sends a hash without the key
 * (measured). Types for Fast DDS 2.9.1 serialise keys as XCDR1 in declaration order, so that their hash
 * differs where that form does: apus_wire_key_hash_fast(); it sends notices with nothing but that hash. A
 * hash is looked up by the form of the vendor it comes from.
 *
 * A plan is prepared once per type (apus_wire_keyplan_init) and immutable afterwards: any number of
 * threads may use it at once. No function here allocates. Payloads are untrusted.
 */
#ifndef APUS_WIRE_KEY_H
#define APUS_WIRE_KEY_H

#include <apus/type.h>

#include <stddef.h>

/** Key leaves (primitives, enums, bitmasks, strings, arrays of these) one type may have. */
#define APUS_WIRE_KEY_LEAVES_MAX 32
/** Steps of a plan: a skip before each leaf or a search around it, an entry and an exit for each
 *  nested struct. */
#define APUS_WIRE_KEY_STEPS_MAX 128
/** Default longest canonical key in bytes, where a string without bound leaves it open. */
#define APUS_WIRE_KEY_LIMIT_DEFAULT 512

/** One step of the walk over a payload in declaration order. Private to key.c. */
struct apus_wire_keystep {
	const struct apus_type *type; /* SKIP, OPEN: the struct; LEAF: the element's type */
	uint32_t count; /* LEAF: elements (1 unless an array); SKIP: members; FIND: member id */
	uint16_t first; /* SKIP: first member; LEAF: index in declaration order */
	uint8_t op;
	uint8_t wire_bytes;    /* LEAF: element size, 0 for strings */
	uint32_t offset_bytes; /* LEAF: in the outermost C struct */
	bool dheader;          /* LEAF: array of enums or bitmasks: has a DHEADER under XCDR2 */
};

/** Prepared key access for one type. Fields are private except `max_bytes`. */
struct apus_wire_keyplan {
	const struct apus_type *type;
	uint32_t max_bytes;        /* = apus_wire_key_max() */
	uint16_t step_count;       /* as far as the last key */
	uint16_t step_count_whole; /* to the end of the body: for payloads of keys alone */
	uint16_t leaf_count;
	bool use_md5;         /* the longest possible key exceeds 16 bytes */
	bool string_only;     /* final or appendable, the only key is a string as first member */
	bool indirect;        /* some key is held by pointer */
	bool fast_differs;    /* apus_wire_key_hash_fast() may differ from apus_wire_key_hash() */
	bool fast_md5;        /* the longest possible key of that form exceeds 16 bytes */
	uint8_t lone_bytes;   /* the only key is one number of this size, in place; else 0 */
	uint32_t lone_offset; /* and where it lies in the outermost C struct */
	uint16_t
		canonical[APUS_WIRE_KEY_LEAVES_MAX]; /* canonical[i]: step index of the i-th leaf */
	struct apus_wire_keystep
		steps[APUS_WIRE_KEY_STEPS_MAX]; /* of a copy: step_count_whole of them */
};

/** Bytes of a plan that matter: a copy need not hold more. */
static inline size_t apus_wire_keyplan_bytes(const struct apus_wire_keyplan *plan)
{
	return offsetof(struct apus_wire_keyplan, steps) +
	       plan->step_count_whole * sizeof(plan->steps[0]);
}

/**
 * Prepares a plan for a checked type (apus_type_check). A keyless type gives a plan with max 0.
 *
 * limit_bytes: longest canonical key accepted, where the type itself sets no smaller maximum;
 * 0 = APUS_WIRE_KEY_LIMIT_DEFAULT. The type must outlive the plan.
 * Returns 0, APUS_EINVAL (not a struct, a key of a kind that cannot be one) or APUS_ELIMIT (too
 * many key leaves, or a bounded key longer than the limit).
 */
int apus_wire_keyplan_init(struct apus_wire_keyplan *plan, const struct apus_type *type,
			   uint32_t limit_bytes);

/** Longest canonical key in bytes; 0 for a keyless type. Room of this size always suffices. */
static inline size_t apus_wire_key_max(const struct apus_wire_keyplan *plan)
{
	return plan->max_bytes;
}

/**
 * Extracts the canonical key from a payload with its 4-byte encapsulation header (any of XTypes'
 * encapsulations that fits the type, either byte order).
 *
 * key_only: the payload holds nothing but the key members (DATA with flag K).
 * Returns the key's length in bytes (0 for a keyless type), APUS_EENCODING if the bytes cannot be a
 * sample of the type, APUS_ELIMIT if the key exceeds `key_bytes_max` or the plan's limit. On
 * failure the contents of `key_out` are unspecified.
 */
int apus_wire_key_extract(const struct apus_wire_keyplan *plan, const uint8_t *payload,
			  size_t payload_bytes, bool key_only, uint8_t *key_out,
			  size_t key_bytes_max);

/**
 * As apus_wire_key_extract(), from a sample in memory. Returns the length, APUS_EENCODING (string
 * above its bound or not terminated) or APUS_ELIMIT.
 */
int apus_wire_key_from_sample(const struct apus_wire_keyplan *plan, const void *sample,
			      uint8_t *key_out, size_t key_bytes_max);

/**
 * Computes the 16-byte key hash (PID_KEY_HASH) of a canonical key: the key padded with zeros if the
 * type's *longest possible* key fits 16 bytes, else its MD5 (RTPS 2.5 §9.6.4.8). A keyless type
 * gives zeros.
 */
void apus_wire_key_hash(const struct apus_wire_keyplan *plan, const uint8_t *key, size_t key_bytes,
			uint8_t hash_out[16]);

/**
 * The key hash of types for Fast DDS, as its generator makes them: of the keys in declaration order in
 * big-endian XCDR1, that is 8-byte numbers aligned to 8 and arrays without DHEADER; in clear if the
 * longest possible such form fits 16 bytes. key: canonical. Returns false, with nothing written, if it
 * is not a canonical key of the type. Interop: Fast DDS 2.9.1.
 */
bool apus_wire_key_hash_fast(const struct apus_wire_keyplan *plan, const uint8_t *key,
			     size_t key_bytes, uint8_t hash_out[16]);

/**
 * As apus_wire_key_from_hash(), for a sender that writes a key in clear wherever it is short enough, even
 * if others of the type are not. What comes back is a guess: an MD5 may look like a key.
 * Interop: Cyclone DDS 0.10.2.
 */
int apus_wire_key_from_clear(const struct apus_wire_keyplan *plan, const uint8_t hash[16],
			     uint8_t *key_out, size_t key_bytes_max);

/**
 * Recovers the canonical key from a key hash that holds it in clear.
 * Returns the key's length, APUS_ENOTSUP if the type's hash is an MD5 (or the type keyless),
 * APUS_EENCODING if the hash cannot be a key of this type, APUS_ELIMIT if `key_bytes_max` is too
 * small.
 */
int apus_wire_key_from_hash(const struct apus_wire_keyplan *plan, const uint8_t hash[16],
			    uint8_t *key_out, size_t key_bytes_max);

/**
 * Rebuilds a key-only payload (little-endian, encapsulation header included, padded to 4 with the
 * padding count in the options) from a canonical key; the same bytes apus_type_encode(key_only)
 * gives. Interop: Cyclone 0.10.2 orders the members by id and writes no DHEADERs of structs; so do
 * we.
 * representation: enum apus_representation.
 * Returns bytes written, APUS_EINVAL (representation), APUS_EENCODING (not a canonical key of the
 * type) or APUS_ELIMIT (out too small: 4 + 2 * key length + 8 * leaves always suffices).
 */
int apus_wire_key_payload(const struct apus_wire_keyplan *plan, const uint8_t *key,
			  size_t key_bytes, int representation, uint8_t *out, size_t out_bytes);

#endif
