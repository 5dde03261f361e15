/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding of participant records, keys and liveliness messages, and the walk all record decoders
 * share. Endpoint records are in wire/record_endpoint.c.
 */
#include "wire/record_walk.h"

#define DEFAULT_LEASE_NS   (INT64_C(100) * 1000000000) /* RTPS 2.5 table 9.14 */
#define ENTITY_PARTICIPANT 0x000001c1u
#define RTPS_MAJOR         2

/* Calls fn for each parameter and applies the must-understand rule (RTPS 2.5 §9.6.3.1). */
enum apus_wire_verdict apus_wire_record_walk(const uint8_t *payload, size_t payload_bytes,
					     apus_wire_param_fn *fn, void *context)
{
	struct apus_wire_plist list;
	struct apus_wire_param param;
	enum apus_wire_plist_step step;
	enum apus_wire_verdict verdict = apus_wire_plist_open(&list, payload, payload_bytes);
	bool refused = false;

	if (verdict != APUS_WIRE_ACCEPT)
		return verdict;
	while ((step = apus_wire_plist_next(&list, &param)) == APUS_WIRE_PLIST_PARAM) {
		struct apus_wire_value value = apus_wire_value_of(&param);

		verdict = fn(context, apus_wire_param_id(&param), &value);
		if (verdict == APUS_WIRE_MALFORMED || apus_wire_value_bad(&value))
			return APUS_WIRE_MALFORMED;
		if (verdict == APUS_WIRE_SKIP && apus_wire_param_refuses(&param))
			refused = true;
	}
	if (step == APUS_WIRE_PLIST_BAD)
		return APUS_WIRE_MALFORMED;
	return refused ? APUS_WIRE_SKIP : APUS_WIRE_ACCEPT;
}

void apus_wire_record_guid(struct apus_wire_value *value, struct apus_guid *guid_out)
{
	const uint8_t *bytes = apus_wire_value_bytes(value, sizeof(guid_out->bytes));

	if (bytes)
		memcpy(guid_out->bytes, bytes, sizeof(guid_out->bytes));
}

bool apus_wire_prefix_is_unknown(const struct apus_guid *guid)
{
	static const struct apus_guid none;

	return memcmp(guid->bytes, none.bytes, sizeof(struct apus_prefix)) == 0;
}

bool apus_wire_is_participant_guid(const struct apus_guid *guid)
{
	return !apus_wire_prefix_is_unknown(guid) &&
	       apus_guid_eid(guid).value == ENTITY_PARTICIPANT;
}

/* True for a locator one could send to. Both vendors also announce kind 16 (shared memory). */
static bool locator_usable(const struct apus_locator *locator)
{
	static const uint8_t zeros[16];
	size_t skip = locator->kind == APUS_LOCATOR_UDPV4 ? 12 : 0;

	return (locator->kind == APUS_LOCATOR_UDPV4 || locator->kind == APUS_LOCATOR_UDPV6) &&
	       locator->port > 0 && locator->port <= UINT16_MAX &&
	       memcmp(locator->address + skip, zeros, sizeof(zeros) - skip) != 0;
}

enum apus_wire_verdict apus_wire_record_locator(struct apus_wire_value *value,
						struct apus_wire_locators *list)
{
	struct apus_locator locator = apus_wire_value_locator(value);

	if (apus_wire_value_bad(value))
		return APUS_WIRE_MALFORMED;
	if (!locator_usable(&locator) || list->count == APUS_WIRE_LOCATORS_MAX)
		list->skipped_count++;
	else
		list->at[list->count++] = locator;
	return APUS_WIRE_ACCEPT;
}

/* --- Participants -------------------------------------------------------------------------------- */

struct participant_walk {
	struct apus_wire_participant_record *record;
	struct apus_guid guid;
	bool has_guid;
	bool foreign; /* of a later protocol or of another domain tag */
};

static enum apus_wire_verdict read_entity_name(struct apus_wire_value *value,
					       struct apus_wire_participant_record *record)
{
	size_t bytes;
	const char *name = apus_wire_value_string(value, &bytes);

	if (!name)
		return APUS_WIRE_MALFORMED;
	if (bytes > APUS_WIRE_NAME_BYTES)
		bytes = APUS_WIRE_NAME_BYTES;
	memcpy(record->name, name, bytes);
	record->name[bytes] = '\0';
	return APUS_WIRE_ACCEPT;
}

static enum apus_wire_verdict participant_locator(struct apus_wire_participant_record *record,
						  uint16_t id, struct apus_wire_value *value)
{
	switch (id) {
	case APUS_PID_DEFAULT_UNICAST_LOCATOR:
		return apus_wire_record_locator(value, &record->default_unicast);
	case APUS_PID_DEFAULT_MULTICAST_LOCATOR:
		return apus_wire_record_locator(value, &record->default_multicast);
	case APUS_PID_METATRAFFIC_UNICAST_LOCATOR:
		return apus_wire_record_locator(value, &record->metatraffic_unicast);
	case APUS_PID_METATRAFFIC_MULTICAST_LOCATOR:
		return apus_wire_record_locator(value, &record->metatraffic_multicast);
	case APUS_PID_USER_DATA:
	case APUS_PID_PROPERTY_LIST:
	case APUS_PID_MANUAL_LIVELINESS_COUNT:
	case APUS_PID_BUILTIN_ENDPOINT_QOS:
	case APUS_PID_KEY_HASH: return APUS_WIRE_ACCEPT;
	default: return APUS_WIRE_SKIP;
	}
}

static enum apus_wire_verdict participant_param(void *context, uint16_t id,
						struct apus_wire_value *value)
{
	struct participant_walk *walk = context;
	struct apus_wire_participant_record *record = walk->record;
	size_t tag_bytes = 0;

	switch (id) {
	case APUS_PID_PARTICIPANT_GUID:
		apus_wire_record_guid(value, &walk->guid);
		walk->has_guid = true;
		return apus_wire_accept_if(apus_wire_is_participant_guid(&walk->guid));
	case APUS_PID_PROTOCOL_VERSION:
		record->version_major = apus_wire_value_u8(value);
		record->version_minor = apus_wire_value_u8(value);
		walk->foreign |= record->version_major != RTPS_MAJOR;
		return APUS_WIRE_ACCEPT;
	case APUS_PID_VENDOR_ID:
		record->vendor = (uint16_t)(apus_wire_value_u8(value) << 8);
		record->vendor |= apus_wire_value_u8(value);
		return APUS_WIRE_ACCEPT;
	case APUS_PID_DOMAIN_ID:
		record->domain = apus_wire_value_u32(value);
		record->has_domain = true;
		return APUS_WIRE_ACCEPT;
	case APUS_PID_DOMAIN_TAG:
		apus_wire_value_string(value, &tag_bytes);
		walk->foreign |= tag_bytes > 0;
		return APUS_WIRE_ACCEPT;
	case APUS_PID_PARTICIPANT_LEASE_DURATION:
		record->lease_ns = apus_wire_value_duration_ns(value);
		return APUS_WIRE_ACCEPT;
	case APUS_PID_BUILTIN_ENDPOINT_SET:
		record->builtin_endpoints = apus_wire_value_u32(value);
		return APUS_WIRE_ACCEPT;
	case APUS_PID_EXPECTS_INLINE_QOS:
		record->expects_inline_qos = apus_wire_value_bool(value);
		return APUS_WIRE_ACCEPT;
	case APUS_PID_ENTITY_NAME: return read_entity_name(value, record);
	default: return participant_locator(record, id, value);
	}
}

enum apus_wire_verdict apus_wire_participant_decode(const uint8_t *payload, size_t payload_bytes,
						    struct apus_wire_participant_record *record_out)
{
	struct participant_walk context = {.record = record_out};
	enum apus_wire_verdict verdict;

	memset(record_out, 0, sizeof(*record_out));
	record_out->lease_ns = DEFAULT_LEASE_NS;
	verdict = apus_wire_record_walk(payload, payload_bytes, participant_param, &context);
	if (verdict != APUS_WIRE_ACCEPT)
		return verdict;
	if (!context.has_guid)
		return APUS_WIRE_MALFORMED;
	record_out->prefix = apus_guid_prefix(&context.guid);
	return context.foreign ? APUS_WIRE_SKIP : APUS_WIRE_ACCEPT;
}

/* --- Keys and liveliness ------------------------------------------------------------------------- */

struct key_walk {
	uint16_t id;
	bool found;
	struct apus_guid guid;
};

static enum apus_wire_verdict key_param(void *context, uint16_t id, struct apus_wire_value *value)
{
	struct key_walk *walk = context;

	if (id != walk->id)
		return APUS_WIRE_ACCEPT; /* whatever it is, a key is still a key */
	apus_wire_record_guid(value, &walk->guid);
	walk->found = true;
	return APUS_WIRE_ACCEPT;
}

static enum apus_wire_verdict decode_key(const uint8_t *payload, size_t payload_bytes, uint16_t id,
					 struct apus_guid *guid_out)
{
	struct key_walk context = {.id = id};
	enum apus_wire_verdict verdict =
		apus_wire_record_walk(payload, payload_bytes, key_param, &context);

	if (verdict != APUS_WIRE_ACCEPT)
		return verdict;
	if (!context.found || apus_wire_prefix_is_unknown(&context.guid))
		return APUS_WIRE_MALFORMED;
	*guid_out = context.guid;
	return APUS_WIRE_ACCEPT;
}

enum apus_wire_verdict apus_wire_participant_key_decode(const uint8_t *payload,
							size_t payload_bytes,
							struct apus_guid *guid_out)
{
	return decode_key(payload, payload_bytes, APUS_PID_PARTICIPANT_GUID, guid_out);
}

enum apus_wire_verdict apus_wire_endpoint_key_decode(const uint8_t *payload, size_t payload_bytes,
						     struct apus_guid *guid_out)
{
	return decode_key(payload, payload_bytes, APUS_PID_ENDPOINT_GUID, guid_out);
}

enum apus_wire_verdict apus_wire_liveliness_decode(const uint8_t *payload, size_t payload_bytes,
						   struct apus_wire_liveliness *message_out)
{
	struct apus_wire_value value;
	struct apus_wire_liveliness message;
	const uint8_t *prefix, *kind;
	uint32_t data_bytes;

	if (payload_bytes < 4)
		return APUS_WIRE_MALFORMED;
	if (payload[0] != 0 || payload[1] > 3)
		return APUS_WIRE_SKIP;
	value = apus_wire_value_make(payload + 4, payload_bytes - 4, (payload[1] & 1) != 0);
	prefix = apus_wire_value_bytes(&value, sizeof(message.prefix.bytes));
	kind = apus_wire_value_bytes(&value, 4);
	data_bytes = apus_wire_value_u32(&value);
	apus_wire_value_bytes(&value, data_bytes);
	if (apus_wire_value_bad(&value))
		return APUS_WIRE_MALFORMED;
	memcpy(message.prefix.bytes, prefix, sizeof(message.prefix.bytes));
	message.kind = apus_wire_load_u32(kind, false);
	if (message.kind != APUS_WIRE_LIVELINESS_AUTOMATIC &&
	    message.kind != APUS_WIRE_LIVELINESS_MANUAL)
		return APUS_WIRE_SKIP;
	*message_out = message;
	return APUS_WIRE_ACCEPT;
}
