/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discovery records: what one SPDP, SEDP or participant-message payload says (RTPS 2.5 §8.5, §9.6.3).
 *
 * A record is a value in the caller's memory, sized once, without pointers into the packet or anywhere
 * else: it may be copied with memcpy and kept for ever. All variable text of an endpoint stands in one
 * area of its record, with nothing but the locators behind it, so that a table can keep only the used part
 * (apus_wire_endpoint_record_bytes()), and the locators of the few endpoints that announce any.
 *
 * The area also holds the serialised type information of local endpoints, which is bytes, not text.
 *
 * Invariants after ACCEPT, or after a successful apus_wire_endpoint_record_make():
 *   - every text reference lies inside text[0 … text_bytes) and is followed by a NUL there; text[0] is
 *     NUL and stands for every absent text; no text contains an inner NUL;
 *   - qos.partitions is NULL (the names are in the text area: apus_wire_endpoint_record_qos());
 *   - every policy holds a value inside its range, absent ones the specification's default.
 *
 * Rules of decoding: a policy that is absent means the default of that kind of endpoint, one that is
 * present and out of range rejects the whole record; unknown and vendor-specific parameters are passed
 * over, unknown must-understand ones (0x4000) make the record SKIP; a parameter given twice counts as
 * given last, locators accumulate; the list must end in PID_SENTINEL inside the payload.
 */
#ifndef APUS_WIRE_RECORD_H
#define APUS_WIRE_RECORD_H

#include <apus/core.h>
#include <apus/qos.h>
#include "base/guid.h"
#include "wire/typeid.h"
#include "wire/verdict.h"

/** Longest topic, type, partition, entity and filter name kept, in bytes without NUL. */
#define APUS_WIRE_NAME_BYTES 255
/** Partition names of one endpoint. */
#define APUS_WIRE_PARTITIONS_MAX 64
/** Locators kept of each kind of list. */
#define APUS_WIRE_LOCATORS_MAX 8
/** Parameters of one content filter. */
#define APUS_WIRE_FILTER_PARAMETERS_MAX 100
/** All texts of one content filter together, each with its NUL. */
#define APUS_WIRE_FILTER_TEXT_BYTES 15360
/** Longest TypeInformation announced as it is; of a longer one the dependencies are left out. */
#define APUS_WIRE_INFORMATION_BYTES 4096
/** The text area: the empty text, topic and type, all partition names, a filter, type information, at their
 *  limits. */
#define APUS_WIRE_RECORD_TEXT                                                                  \
	(1 + 2 * (APUS_WIRE_NAME_BYTES + 1) +                                                  \
	 APUS_WIRE_PARTITIONS_MAX * (APUS_WIRE_NAME_BYTES + 1) + APUS_WIRE_FILTER_TEXT_BYTES + \
	 APUS_WIRE_INFORMATION_BYTES)
/** A buffer of this size holds every record the encoders can produce. */
#define APUS_WIRE_RECORD_PAYLOAD_MAX 40960

/** Builtin endpoints that exist in a participant (RTPS 2.5 table 9.4, PID_BUILTIN_ENDPOINT_SET). */
#define APUS_WIRE_BUILTIN_SPDP_WRITER          0x00000001u
#define APUS_WIRE_BUILTIN_SPDP_READER          0x00000002u
#define APUS_WIRE_BUILTIN_PUBLICATIONS_WRITER  0x00000004u
#define APUS_WIRE_BUILTIN_PUBLICATIONS_READER  0x00000008u
#define APUS_WIRE_BUILTIN_SUBSCRIPTIONS_WRITER 0x00000010u
#define APUS_WIRE_BUILTIN_SUBSCRIPTIONS_READER 0x00000020u
#define APUS_WIRE_BUILTIN_MESSAGE_WRITER       0x00000400u
#define APUS_WIRE_BUILTIN_MESSAGE_READER       0x00000800u
/* The TypeLookup service (XTypes 1.3 §7.6.3.3.4). */
#define APUS_WIRE_BUILTIN_TYPE_REQUEST_WRITER 0x00001000u
#define APUS_WIRE_BUILTIN_TYPE_REQUEST_READER 0x00002000u
#define APUS_WIRE_BUILTIN_TYPE_REPLY_WRITER   0x00004000u
#define APUS_WIRE_BUILTIN_TYPE_REPLY_READER   0x00008000u
/** What an Apus participant announces: all of the above. */
#define APUS_WIRE_BUILTIN_ALL 0x0000fc3fu

/** Our vendor id on the wire. Not registered with the OMG; outside the range it has handed out. */
#define APUS_WIRE_VENDOR 0x01ee

/** Locators of one role, in the order announced. */
struct apus_wire_locators {
	uint32_t count;
	uint32_t
		skipped_count; /**< of other kinds than UDPv4 and UDPv6, invalid, or beyond the limit */
	struct apus_locator at[APUS_WIRE_LOCATORS_MAX];
};

/** Locators of an endpoint's own. */
struct apus_wire_endpoint_locators {
	struct apus_wire_locators unicast, multicast;
};

/** What a participant is to a Discovery Server of Fast DDS. */
enum apus_wire_client {
	APUS_WIRE_NO_CLIENT = 0,
	APUS_WIRE_CLIENT,       /**< is told what matches its endpoints */
	APUS_WIRE_SUPER_CLIENT, /**< is told everything */
};

/** SPDPdiscoveredParticipantData (RTPS 2.5 §8.5.3.2). */
struct apus_wire_participant_record {
	struct apus_prefix prefix;
	uint8_t version_major; /**< PID_PROTOCOL_VERSION */
	uint8_t version_minor;
	uint16_t vendor; /**< PID_VENDORID, e.g. 0x0110 */
	bool has_domain;
	bool expects_inline_qos;
	/** enum apus_wire_client. For a Discovery Server of Fast DDS only: encoded as its client, under the vendor
	 *  of Fast DDS. Never set by decoding. */
	uint8_t client;
	uint32_t domain;            /**< valid if has_domain */
	uint32_t builtin_endpoints; /**< APUS_WIRE_BUILTIN_… bits */
	int64_t lease_ns;           /**< absent: 100 s; APUS_INFINITE_NS: never lapses */
	struct apus_wire_locators metatraffic_unicast;
	struct apus_wire_locators metatraffic_multicast;
	struct apus_wire_locators default_unicast;
	struct apus_wire_locators default_multicast;
	char name[APUS_WIRE_NAME_BYTES +
		  1]; /**< PID_ENTITY_NAME, "" if absent; longer ones are cut */
};

/** A text in the record's text area. */
struct apus_wire_text {
	uint16_t offset; /**< from text[0] */
	uint16_t bytes;  /**< without the NUL behind it */
};

/** ContentFilterProperty_t (RTPS 2.5 §9.6.4.2). */
struct apus_wire_filter {
	bool present;
	/** One of our limits is exceeded: the endpoint is kept and gets everything, the texts that did
	 *  not fit are empty and there are no parameters. Never compile such a filter. */
	bool over_limit;
	uint16_t parameter_count;
	uint16_t parameters_offset;    /**< in the text area: the parameters, each with its NUL */
	struct apus_wire_text name;    /**< contentFilteredTopicName */
	struct apus_wire_text related; /**< relatedTopicName */
	struct apus_wire_text class_name; /**< filterClassName */
	struct apus_wire_text expression;
};

/** DiscoveredReaderData or DiscoveredWriterData (RTPS 2.5 §8.5.4.4). */
struct apus_wire_endpoint_record {
	struct apus_guid guid;
	bool is_writer;
	bool expects_inline_qos; /**< readers */
	struct apus_eid group;   /**< PID_GROUP_ENTITY_ID or of PID_GROUP_GUID; 0 if absent */
	struct apus_wire_type_information types; /**< PID_TYPE_INFORMATION; all 0 if absent */
	uint32_t max_sample_bytes;               /**< PID_TYPE_MAX_SIZE_SERIALIZED, 0 if absent */
	struct apus_qos qos;                     /**< without partitions, see the head */
	struct apus_wire_text topic;
	struct apus_wire_text type;
	uint16_t partition_count;   /**< 0 = the default partition */
	uint16_t partitions_offset; /**< in the text area: the names, each with its NUL */
	struct apus_wire_filter filter;
	/** Local endpoints: the serialised TypeInformation to announce, in the text area. No text. */
	uint16_t information_offset, information_bytes;
	uint32_t text_bytes; /**< bytes of text in use */
	char text[APUS_WIRE_RECORD_TEXT];
	struct apus_wire_endpoint_locators locators; /**< not in a compact copy */
};

/** ParticipantMessageData: an assertion of liveliness (RTPS 2.5 §8.4.13.5, §9.6.3.1). */
struct apus_wire_liveliness {
	struct apus_prefix prefix;
	uint32_t kind; /**< APUS_WIRE_LIVELINESS_…, the four octets in order */
};

#define APUS_WIRE_LIVELINESS_AUTOMATIC 1u
#define APUS_WIRE_LIVELINESS_MANUAL    2u

/** What a local endpoint consists of, as input of apus_wire_endpoint_record_make(). */
struct apus_wire_endpoint_source {
	struct apus_guid guid;
	bool is_writer;
	bool expects_inline_qos;
	uint32_t max_sample_bytes;       /**< 0 = not announced */
	struct apus_eid group;           /**< of its publisher; 0 = not announced */
	const char *topic;               /**< 1 … 255 bytes */
	const char *type;                /**< 1 … 255 bytes */
	const struct apus_qos *qos;      /**< checked by apus_qos_check() before; with partitions */
	const uint8_t *type_information; /**< XTypes TypeInformation, CDR2_LE body; NULL = none */
	uint32_t type_information_bytes;
	/* Content filter; filter_name NULL = none. */
	const char *filter_name;
	const char *filter_class;
	const char *filter_expression;
	const char *const *filter_parameters;
	uint32_t filter_parameter_count;
};

/* --- Reading a record ---------------------------------------------------------------------------- */

/** The NUL-terminated text of a reference; "" for an absent one. Lives as long as the record. */
static inline const char *apus_wire_record_text(const struct apus_wire_endpoint_record *record,
						struct apus_wire_text text)
{
	return record->text + text.offset;
}

/**
 * Bytes at the start of a record that are in use, but for its locators. That many bytes, copied to memory aligned
 * for int64_t, are a record for every function that takes a const record except apus_wire_endpoint_encode().
 */
static inline size_t apus_wire_endpoint_record_bytes(const struct apus_wire_endpoint_record *record)
{
	return offsetof(struct apus_wire_endpoint_record, text) + record->text_bytes;
}

/**
 * Fills pointers_out with the partition names. pointers_out must have room for
 * APUS_WIRE_PARTITIONS_MAX; the pointers live as long as the record. Returns the number of names.
 */
uint32_t apus_wire_endpoint_record_partitions(const struct apus_wire_endpoint_record *record,
					      const char **pointers_out);

/** Signature of the record's filter, which there must be: MD5 of its texts with their NULs, filter name, topic,
 *  class, expression and parameters in turn (RTPS 2.5 §9.6.4.1). */
void apus_wire_endpoint_record_signature(const struct apus_wire_endpoint_record *record,
					 uint8_t signature_out[16]);

/** Like the above for the parameters of the filter (room for APUS_WIRE_FILTER_PARAMETERS_MAX). */
uint32_t apus_wire_endpoint_record_parameters(const struct apus_wire_endpoint_record *record,
					      const char **pointers_out);

/**
 * The record's QoS with partitions, as apus_qos_mismatch() wants it. pointers_out (room for
 * APUS_WIRE_PARTITIONS_MAX) backs qos_out->partitions and must outlive it.
 */
void apus_wire_endpoint_record_qos(const struct apus_wire_endpoint_record *record,
				   const char **pointers_out, struct apus_qos *qos_out);

/* --- Decoding ------------------------------------------------------------------------------------ */

/**
 * Decodes an SPDP payload (RTPS 2.5 §8.5.3.2, §9.6.3) with its encapsulation header, PL_CDR in either
 * byte order. payload is hostile and need not be aligned. Cost: linear in payload_bytes.
 * ACCEPT: *record_out is complete. SKIP: other encapsulation, unknown must-understand parameter,
 * or another domain tag than "". MALFORMED: the rest. Except for ACCEPT *record_out is unspecified.
 */
enum apus_wire_verdict
apus_wire_participant_decode(const uint8_t *payload, size_t payload_bytes,
			     struct apus_wire_participant_record *record_out);

/**
 * Decodes an SEDP payload. is_writer: from the publications (true) or the subscriptions writer; an
 * entity id of the other kind is MALFORMED, as is one whose PID_PARTICIPANT_GUID has another prefix.
 * Otherwise as apus_wire_participant_decode().
 */
enum apus_wire_verdict apus_wire_endpoint_decode(const uint8_t *payload, size_t payload_bytes,
						 bool is_writer,
						 struct apus_wire_endpoint_record *record_out);

/**
 * Decodes the key of a participant: a dispose's key-only payload, or a full SPDP payload of which only
 * PID_PARTICIPANT_GUID is read. *guid_out is untouched unless ACCEPT.
 */
enum apus_wire_verdict apus_wire_participant_key_decode(const uint8_t *payload,
							size_t payload_bytes,
							struct apus_guid *guid_out);

/** Like the above for an endpoint (PID_ENDPOINT_GUID). */
enum apus_wire_verdict apus_wire_endpoint_key_decode(const uint8_t *payload, size_t payload_bytes,
						     struct apus_guid *guid_out);

/**
 * Decodes a ParticipantMessageData. Interop: Cyclone DDS 0.10.2 says encapsulation CDR_LE, Fast DDS
 * 2.9.1 PL_CDR_LE, for the same plain body; both byte orders of both are accepted.
 * SKIP: a kind other than the two of the specification. *message_out is untouched unless ACCEPT.
 */
enum apus_wire_verdict apus_wire_liveliness_decode(const uint8_t *payload, size_t payload_bytes,
						   struct apus_wire_liveliness *message_out);

/* --- Encoding (always PL_CDR_LE; the liveliness message CDR_LE) ----------------------------------- */

/**
 * Builds a local endpoint's record. Returns 0, APUS_EINVAL (a name missing, too long, or with a filter
 * on a writer, or type information that is none) or APUS_ELIMIT (partitions or filter over the limits above); then *record_out is
 * unspecified. Locators are empty; the caller sets them in the record.
 */
int apus_wire_endpoint_record_make(const struct apus_wire_endpoint_source *source,
				   struct apus_wire_endpoint_record *record_out);

/**
 * Encode a record into out. Return the payload bytes, encapsulation header included, a multiple of 4,
 * or APUS_ELIMIT if out_bytes is too small (APUS_WIRE_RECORD_PAYLOAD_MAX always suffices); then the
 * contents of out are unspecified. Every policy of the endpoint is written with its own value.
 */
int apus_wire_participant_encode(const struct apus_wire_participant_record *record, uint8_t *out,
				 size_t out_bytes);
int apus_wire_endpoint_encode(const struct apus_wire_endpoint_record *record, uint8_t *out,
			      size_t out_bytes);

/** Room for what apus_wire_inline_qos_encode() makes. */
#define APUS_WIRE_INLINE_QOS_BYTES 768

/**
 * Encodes what a reader that expects inline QoS and knows nothing of a writer is told with each sample (RTPS 2.5
 * §8.7.9): topic name and the writer's policies, as parameters without header and sentinel, for
 * apus_wire_inline_out.qos_list. The partitions are left out if they do not fit. Returns the bytes, a multiple of 4.
 */
uint32_t apus_wire_inline_qos_encode(const struct apus_wire_endpoint_record *writer,
				     uint8_t out[APUS_WIRE_INLINE_QOS_BYTES]);

/** Encode the key-only payload of a dispose: 28 bytes. Return as above. Interop: Fast DDS 2.9.1 needs
 *  PID_KEY_HASH in the inline QoS besides. */
int apus_wire_participant_key_encode(const struct apus_guid *guid, uint8_t *out, size_t out_bytes);
int apus_wire_endpoint_key_encode(const struct apus_guid *guid, uint8_t *out, size_t out_bytes);

/** Encodes a liveliness assertion with empty data: 24 bytes. Returns as above. */
int apus_wire_liveliness_encode(const struct apus_wire_liveliness *message, uint8_t *out,
				size_t out_bytes);

#endif
