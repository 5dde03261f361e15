/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameter lists (RTPS 2.5 §9.4.2.11): walking one, reading a parameter's value, writing one.
 *
 * Walking is pure cursor work over hostile bytes: every length is proved against what remains before
 * anything is touched, and each call consumes at least four bytes, so a walk is linear in the list.
 * Values are read and written through the failing cursors of wire/bytes.h with CDR's alignment added:
 * after the first access that does not fit everything gives 0, and a decoder asks once at its end.
 */
#ifndef APUS_WIRE_PLIST_H
#define APUS_WIRE_PLIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/guid.h"
#include "wire/bytes.h"
#include "wire/verdict.h"

/** Parameter ids (RTPS 2.5 §9.6.3, table 9.18; XTypes 1.3 §7.6.3.2), without the two flag bits. */
enum apus_wire_pid {
	APUS_PID_PAD = 0x0000,
	APUS_PID_SENTINEL = 0x0001,
	APUS_PID_PARTICIPANT_LEASE_DURATION = 0x0002,
	APUS_PID_TIME_BASED_FILTER = 0x0004,
	APUS_PID_TOPIC_NAME = 0x0005,
	APUS_PID_OWNERSHIP_STRENGTH = 0x0006,
	APUS_PID_TYPE_NAME = 0x0007,
	APUS_PID_DOMAIN_ID = 0x000f,
	APUS_PID_DOMAIN_TAG = 0x0014, /* always sent with the must-understand bit: 0x4014 */
	APUS_PID_PROTOCOL_VERSION = 0x0015,
	APUS_PID_VENDOR_ID = 0x0016,
	APUS_PID_RELIABILITY = 0x001a,
	APUS_PID_LIVELINESS = 0x001b,
	APUS_PID_DURABILITY = 0x001d,
	APUS_PID_DURABILITY_SERVICE = 0x001e,
	APUS_PID_OWNERSHIP = 0x001f,
	APUS_PID_PRESENTATION = 0x0021,
	APUS_PID_DEADLINE = 0x0023,
	APUS_PID_DESTINATION_ORDER = 0x0025,
	APUS_PID_LATENCY_BUDGET = 0x0027,
	APUS_PID_PARTITION = 0x0029,
	APUS_PID_LIFESPAN = 0x002b,
	APUS_PID_USER_DATA = 0x002c,
	APUS_PID_GROUP_DATA = 0x002d,
	APUS_PID_TOPIC_DATA = 0x002e,
	APUS_PID_UNICAST_LOCATOR = 0x002f,
	APUS_PID_MULTICAST_LOCATOR = 0x0030,
	APUS_PID_DEFAULT_UNICAST_LOCATOR = 0x0031,
	APUS_PID_METATRAFFIC_UNICAST_LOCATOR = 0x0032,
	APUS_PID_METATRAFFIC_MULTICAST_LOCATOR = 0x0033,
	APUS_PID_MANUAL_LIVELINESS_COUNT = 0x0034,
	APUS_PID_CONTENT_FILTER = 0x0035,
	APUS_PID_HISTORY = 0x0040,
	APUS_PID_RESOURCE_LIMITS = 0x0041,
	APUS_PID_EXPECTS_INLINE_QOS = 0x0043,
	APUS_PID_DEFAULT_MULTICAST_LOCATOR = 0x0048,
	APUS_PID_TRANSPORT_PRIORITY = 0x0049,
	APUS_PID_PARTICIPANT_GUID = 0x0050,
	APUS_PID_GROUP_GUID = 0x0052,
	APUS_PID_GROUP_ENTITY_ID = 0x0053,
	APUS_PID_CONTENT_FILTER_INFO = 0x0055,
	APUS_PID_COHERENT_SET = 0x0056,
	APUS_PID_DIRECTED_WRITE = 0x0057,
	APUS_PID_BUILTIN_ENDPOINT_SET = 0x0058,
	APUS_PID_PROPERTY_LIST = 0x0059,
	APUS_PID_ENDPOINT_GUID = 0x005a,
	APUS_PID_TYPE_MAX_SIZE_SERIALIZED = 0x0060,
	APUS_PID_ORIGINAL_WRITER_INFO = 0x0061,
	APUS_PID_ENTITY_NAME = 0x0062,
	APUS_PID_KEY_HASH = 0x0070,
	APUS_PID_STATUS_INFO = 0x0071,
	APUS_PID_DATA_REPRESENTATION = 0x0073,
	APUS_PID_TYPE_CONSISTENCY = 0x0074,
	APUS_PID_TYPE_INFORMATION = 0x0075,
	APUS_PID_BUILTIN_ENDPOINT_QOS = 0x0077,
	APUS_PID_RELATED_SAMPLE_IDENTITY = 0x0083,
};

/** The flag bits of a parameter id (RTPS 2.5 table 9.17) and the id without them. */
#define APUS_PID_VENDOR_FLAG     0x8000u
#define APUS_PID_UNDERSTAND_FLAG 0x4000u
#define APUS_PID_MASK            0x3fffu

/** A list being walked. */
struct apus_wire_plist {
	const uint8_t *bytes;
	size_t bytes_count;
	size_t at; /**< next parameter; after the sentinel: the first byte behind the list */
	bool little;
};

/** One parameter; value points into the list. */
struct apus_wire_param {
	uint16_t pid; /**< as sent, with flag bits */
	uint16_t value_bytes;
	const uint8_t *value;
	bool little;
};

/** What apus_wire_plist_next() found. */
enum apus_wire_plist_step {
	APUS_WIRE_PLIST_PARAM = 0, /**< *param_out is a parameter */
	APUS_WIRE_PLIST_END = 1,   /**< the sentinel */
	APUS_WIRE_PLIST_BAD = 2, /**< no sentinel, a length beyond the end or not a multiple of 4 */
};

/** Starts a walk over bare parameters, as in a submessage's inline QoS. */
static inline void apus_wire_plist_init(struct apus_wire_plist *list, const uint8_t *bytes,
					size_t bytes_count, bool little)
{
	list->bytes = bytes;
	list->bytes_count = bytes_count;
	list->at = 0;
	list->little = little;
}

/**
 * Starts a walk over a serialised payload with its encapsulation header (RTPS 2.5 §10.2).
 * ACCEPT for PL_CDR_BE and PL_CDR_LE, SKIP for other encapsulations, MALFORMED if there is no header.
 */
enum apus_wire_verdict apus_wire_plist_open(struct apus_wire_plist *list, const uint8_t *payload,
					    size_t payload_bytes);

/**
 * Takes the next parameter, passing over PID_PAD. Vendor-specific and unknown ones are returned like
 * any other: apus_wire_param_refuses() tells which of them forbid using the list.
 */
enum apus_wire_plist_step apus_wire_plist_next(struct apus_wire_plist *list,
					       struct apus_wire_param *param_out);

/** True if not understanding this parameter forbids using the list. A vendor can demand that only of
 *  its own products (RTPS 2.5 §9.6.3.1), so vendor-specific ids never refuse. */
static inline bool apus_wire_param_refuses(const struct apus_wire_param *param)
{
	return (param->pid & (APUS_PID_UNDERSTAND_FLAG | APUS_PID_VENDOR_FLAG)) ==
	       APUS_PID_UNDERSTAND_FLAG;
}

/** The id to look up: the must-understand flag says nothing about what a parameter means. */
static inline uint16_t apus_wire_param_id(const struct apus_wire_param *param)
{
	return (uint16_t)(param->pid & ~APUS_PID_UNDERSTAND_FLAG);
}

/** Cursor over one value. Alignment counts from the value's start (RTPS 2.5 §9.4.2.11). */
struct apus_wire_value {
	struct apus_wire_cursor cursor;
	const uint8_t *start;
};

/** Starts reading count bytes as one value. */
static inline struct apus_wire_value apus_wire_value_make(const uint8_t *bytes, size_t count,
							  bool little)
{
	return (struct apus_wire_value){apus_wire_cursor_make(bytes, count, little), bytes};
}

/** Starts reading a parameter's value. */
static inline struct apus_wire_value apus_wire_value_of(const struct apus_wire_param *param)
{
	return apus_wire_value_make(param->value, param->value_bytes, param->little);
}

/** True once anything read was outside the value or broke its type's rules. */
static inline bool apus_wire_value_bad(const struct apus_wire_value *value)
{
	return value->cursor.failed;
}

uint8_t apus_wire_value_u8(struct apus_wire_value *value);
/** Reads after aligning to 2. */
uint16_t apus_wire_value_u16(struct apus_wire_value *value);
/** Reads after aligning to 4. */
uint32_t apus_wire_value_u32(struct apus_wire_value *value);
/** A CDR boolean: anything but 0 and 1 is bad. */
bool apus_wire_value_bool(struct apus_wire_value *value);
/** A Duration_t (RTPS 2.5 §9.3.2.3) in ns, rounded to the nearest; seconds 0x7fffffff are infinite,
 *  negative ones bad. */
int64_t apus_wire_value_duration_ns(struct apus_wire_value *value);
/** A locator. Its kind and address are not judged. */
struct apus_locator apus_wire_value_locator(struct apus_wire_value *value);
/** count bytes where they are, or NULL and bad. */
const uint8_t *apus_wire_value_bytes(struct apus_wire_value *value, size_t count);
/**
 * A CDR string: a length that counts the NUL, then the bytes. Bad if the length is 0 or beyond the
 * value, the last byte is not NUL or an earlier one is. Returns the text inside the value (NUL-terminated
 * there) or NULL; *bytes_out is its length without NUL.
 */
const char *apus_wire_value_string(struct apus_wire_value *value, size_t *bytes_out);
/** True if every byte that was not read is 0. */
bool apus_wire_value_rest_is_zero(const struct apus_wire_value *value);

/** A list being written, little-endian. */
struct apus_wire_plist_writer {
	struct apus_wire_sink out;
	uint8_t *start;
	uint8_t *value; /**< start of the open parameter's value */
};

/** Starts a list in caller's memory with a PL_CDR_LE header. */
void apus_wire_plist_begin(struct apus_wire_plist_writer *w, uint8_t *out, size_t out_bytes);
/** Opens a parameter; its value follows with the put functions. */
void apus_wire_plist_open_param(struct apus_wire_plist_writer *w, uint16_t pid);
/** Pads the value with zeros to a multiple of 4 and stores its length. Beyond 65532 bytes it fails. */
void apus_wire_plist_close_param(struct apus_wire_plist_writer *w);
/** Writes the sentinel. Returns the payload bytes or APUS_ELIMIT if anything did not fit. */
int apus_wire_plist_finish(struct apus_wire_plist_writer *w);

void apus_wire_plist_put_bytes(struct apus_wire_plist_writer *w, const void *bytes, size_t count);
void apus_wire_plist_put_u8(struct apus_wire_plist_writer *w, uint8_t v);
/** Aligns with zeros to 2 from the value's start, then writes. */
void apus_wire_plist_put_u16(struct apus_wire_plist_writer *w, uint16_t v);
/** Aligns with zeros to 4 from the value's start, then writes. */
void apus_wire_plist_put_u32(struct apus_wire_plist_writer *w, uint32_t v);
/** Writes a Duration_t; what does not fit into 31 bits of seconds is infinite. */
void apus_wire_plist_put_duration(struct apus_wire_plist_writer *w, int64_t duration_ns);
/** Writes a CDR string; text_bytes without NUL. */
void apus_wire_plist_put_string(struct apus_wire_plist_writer *w, const char *text,
				size_t text_bytes);

#endif
