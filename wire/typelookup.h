/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of the TypeLookup service (XTypes 1.3 §7.6.3.3): requests for TypeObjects or for the names of what
 * a type depends on, and replies. CDR2 with encapsulation header; written little-endian.
 *
 * Interop: Cyclone DDS 0.10.2 writes the GUIDs of request identities with each group of four bytes turned
 * round, and puts its own GUID, not the request's, into replies. So an identity is echoed as it came, and a
 * reply is told by its contents and its sender.
 */
#ifndef APUS_WIRE_TYPELOOKUP_H
#define APUS_WIRE_TYPELOOKUP_H

#include "base/guid.h"
#include "wire/typeobject.h"

/** Identifiers of one request that are answered; a request for more is answered in part. */
#define APUS_WIRE_TYPE_REQUEST_IDS 64
/** Bytes of a request for that many types. */
#define APUS_WIRE_TYPE_REQUEST_BYTES (128 + 16 * APUS_WIRE_TYPE_REQUEST_IDS)

/** A request. */
struct apus_wire_type_request {
	uint8_t identity[24];      /**< SampleIdentity as it stands in the message */
	struct apus_prefix server; /**< the participant that is asked */
	bool has_server;   /**< false: the instance name has another form than XTypes gives it */
	bool dependencies; /**< getTypeDependencies; else getTypes */
	uint32_t continuation; /**< dependencies: how many were told already; 0 at first */
	uint32_t hash_count;
	uint32_t ignored_count; /**< identifiers that are no hashes, or beyond the limit */
	struct apus_wire_type_hash hashes[APUS_WIRE_TYPE_REQUEST_IDS];
};

/** A TypeObject of a reply. */
struct apus_wire_type_answer {
	struct apus_wire_type_hash hash;
	const uint8_t *object; /**< with DHEADER */
	uint32_t object_bytes;
};

/** A request decoded from a payload with encapsulation header. SKIP: another operation, or big-endian;
 *  MALFORMED. *request_out is unspecified unless ACCEPT. */
enum apus_wire_verdict apus_wire_type_request_decode(const uint8_t *payload, size_t payload_bytes,
						     struct apus_wire_type_request *request_out);

/** A getTypes request for up to APUS_WIRE_TYPE_REQUEST_IDS types. writer, seq: its identity. Returns its bytes
 *  or APUS_ELIMIT. */
int apus_wire_type_request_encode(const struct apus_guid *writer, int64_t seq,
				  const struct apus_prefix *server,
				  const struct apus_wire_type_hash *hashes, uint32_t hash_count,
				  uint8_t *out, size_t out_bytes);

/** Opens the types of a getTypes reply. SKIP: another operation, an exception, or big-endian. */
enum apus_wire_verdict apus_wire_type_reply_decode(const uint8_t *payload, size_t payload_bytes,
						   struct apus_wire_type_pairs *pairs_out);

/** The reply to a getTypes request. Answers that do not fit are left out, from the first one on that does
 *  not. minimal_of: for each answer the minimal hash of the same type where that is another, or kind NONE.
 *  Returns its bytes, or APUS_ELIMIT if not even an empty reply fits. */
int apus_wire_type_reply_encode(const uint8_t identity[24],
				const struct apus_wire_type_answer *answers,
				const struct apus_wire_type_hash *minimal_of, uint32_t answer_count,
				uint8_t *out, size_t out_bytes);

/** The reply to a getTypeDependencies request: which types (their sizes in object_bytes), and where to go
 *  on (0: that is all). Returns as above. */
int apus_wire_type_dependencies_encode(const uint8_t identity[24],
				       const struct apus_wire_type_answer *answers,
				       uint32_t answer_count, uint32_t continuation, uint8_t *out,
				       size_t out_bytes);

#endif
