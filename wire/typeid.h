/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Type identity on the wire (XTypes 1.3 §7.3.4): hashes of TypeObjects, and TypeInformation, which names
 * the two hashes of a topic type.
 *
 * Everything decoded here comes from outside. A decoder proves each length against what is there, allocates
 * nothing and does not recurse.
 */
#ifndef APUS_WIRE_TYPEID_H
#define APUS_WIRE_TYPEID_H

#include <string.h>

#include "wire/plist.h"

/** EquivalenceHash: the first bytes of the MD5 of a TypeObject. */
#define APUS_WIRE_TYPE_HASH_BYTES 14

/** Equivalence kinds: discriminators of hashed TypeIdentifiers and of TypeObjects (XTypes 1.3 annex B). */
#define APUS_WIRE_EK_NONE     0x00
#define APUS_WIRE_EK_MINIMAL  0xf1
#define APUS_WIRE_EK_COMPLETE 0xf2
#define APUS_WIRE_EK_BOTH     0xf3

/** Name of one TypeObject. kind APUS_WIRE_EK_NONE: none, and all bytes are 0. */
struct apus_wire_type_hash {
	uint8_t kind; /**< APUS_WIRE_EK_NONE, _MINIMAL or _COMPLETE */
	uint8_t bytes[APUS_WIRE_TYPE_HASH_BYTES];
};

/** What an endpoint says about its type. */
struct apus_wire_type_information {
	struct apus_wire_type_hash minimal;
	struct apus_wire_type_hash complete;
	uint32_t minimal_bytes; /**< size of the serialised TypeObject, as said */
	uint32_t complete_bytes;
};

static inline bool apus_wire_type_hash_equal(const struct apus_wire_type_hash *a,
					     const struct apus_wire_type_hash *b)
{
	return a->kind == b->kind && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

/**
 * Opens an object that begins with its length (DHEADER, XTypes 1.3 §7.4.3.5.3): `inner_out` reads its
 * content, with alignment still counted from the start of `outer`, which moves behind it. False, with both
 * failed, if the length is beyond what is left.
 */
bool apus_wire_value_enter(struct apus_wire_value *outer, struct apus_wire_value *inner_out);

/**
 * Opens the next member of a mutable object: its id, and its content as above; for length code 5 to 7 the
 * content begins with the length itself. False at the end of the object; failed if it is malformed.
 */
bool apus_wire_value_member(struct apus_wire_value *object, uint32_t *id_out,
			    struct apus_wire_value *inner_out);

/**
 * Reads a TypeInformation (XTypes 1.3 §7.6.3.2.2), XCDR2 without encapsulation header, from `value`.
 * Members not named here are passed over; a member whose identifier is no hash counts as absent.
 * Interop: Fast DDS 2.9.1 sends an older form under the same parameter id: it is refused. False if
 * malformed or if neither hash is there; then *information_out is all zero.
 */
bool apus_wire_type_information_read(struct apus_wire_value *value,
				     struct apus_wire_type_information *information_out);

/** Writes a TypeInformation (CDR2_LE body) that leaves open what the types depend on. Returns its bytes, at
 *  most 120, or 0 if out_bytes is too small. */
size_t apus_wire_type_information_write(const struct apus_wire_type_information *information,
					uint8_t *out, size_t out_bytes);

/** Hash of a serialised TypeObject, little-endian and with its DHEADER. kind: EK_MINIMAL or EK_COMPLETE. */
void apus_wire_type_hash_of(uint8_t kind, const uint8_t *object, size_t object_bytes,
			    struct apus_wire_type_hash *hash_out);

#endif
