/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding of endpoint records. The list is walked once; fixed-size values go straight into the record,
 * texts are validated where they stand, remembered as a place in the packet, and copied into the text
 * area after the walk. So a parameter given twice costs no text, and the text area cannot overflow: its
 * size is the sum of all limits checked here.
 */
#include <assert.h>

#include "wire/record_walk.h"

#define DEFAULT_BLOCKING_NS (INT64_C(100) * 1000000)
/* The longest expression kept of a filter that is over another limit. */
#define EXPRESSION_BYTES_MAX (APUS_WIRE_FILTER_TEXT_BYTES - 3 * (APUS_WIRE_NAME_BYTES + 1) - 1)

static_assert(APUS_WIRE_RECORD_TEXT <= UINT16_MAX, "text references are 16 bits");

/* --- Endpoints: policies ------------------------------------------------------------------------- */

/* Reads an enumeration whose labels are 0 … last. */
static enum apus_wire_verdict read_enum(struct apus_wire_value *value, uint32_t last, uint8_t *out)
{
	uint32_t v = apus_wire_value_u32(value);

	if (v > last)
		return APUS_WIRE_MALFORMED;
	*out = (uint8_t)v;
	return APUS_WIRE_ACCEPT;
}

/* Reliability is the one kind that does not start at 0 on the wire (RTPS 2.5 §9.6.3.2.4). */
static enum apus_wire_verdict read_reliability(struct apus_wire_value *value, struct apus_qos *qos)
{
	uint32_t kind = apus_wire_value_u32(value);

	if (kind != 1 && kind != 2)
		return APUS_WIRE_MALFORMED;
	qos->reliability = kind == 2 ? APUS_RELIABLE : APUS_BEST_EFFORT;
	qos->max_blocking_ns = apus_wire_value_duration_ns(value);
	return APUS_WIRE_ACCEPT;
}

/* LENGTH_UNLIMITED is -1 and becomes our 0; below it nothing is defined. */
static bool read_length(struct apus_wire_value *value, uint32_t *out)
{
	int32_t length = (int32_t)apus_wire_value_u32(value);

	if (length < -1)
		return false;
	*out = length == -1 ? 0 : (uint32_t)length;
	return true;
}

static enum apus_wire_verdict read_limits(struct apus_wire_value *value, struct apus_qos *qos)
{
	return apus_wire_accept_if(read_length(value, &qos->max_samples) &&
				   read_length(value, &qos->max_instances) &&
				   read_length(value, &qos->max_samples_per_instance));
}

/* The depth of KEEP_ALL has no meaning: Cyclone sends 0. */
static enum apus_wire_verdict read_history(struct apus_wire_value *value, struct apus_qos *qos)
{
	enum apus_wire_verdict verdict = read_enum(value, APUS_KEEP_ALL, &qos->history);
	int32_t depth = (int32_t)apus_wire_value_u32(value);

	if (verdict != APUS_WIRE_ACCEPT || qos->history == APUS_KEEP_ALL)
		return verdict;
	if (depth < 1)
		return APUS_WIRE_MALFORMED;
	qos->depth = (uint32_t)depth;
	return APUS_WIRE_ACCEPT;
}

/* Says nothing that matching needs, but a nonsensical one still condemns the record. */
static enum apus_wire_verdict check_durability_service(struct apus_wire_value *value)
{
	struct apus_qos scratch = {0};

	apus_wire_value_duration_ns(value);
	if (read_history(value, &scratch) != APUS_WIRE_ACCEPT)
		return APUS_WIRE_MALFORMED;
	return read_limits(value, &scratch);
}

static enum apus_wire_verdict read_presentation(struct apus_wire_value *value, struct apus_qos *qos)
{
	enum apus_wire_verdict verdict = read_enum(value, APUS_SCOPE_GROUP, &qos->access_scope);

	qos->coherent_access = apus_wire_value_bool(value);
	qos->ordered_access = apus_wire_value_bool(value);
	return verdict;
}

static enum apus_wire_verdict read_liveliness(struct apus_wire_value *value, struct apus_qos *qos)
{
	enum apus_wire_verdict verdict = read_enum(value, APUS_MANUAL_BY_TOPIC, &qos->liveliness);

	qos->lease_ns = apus_wire_value_duration_ns(value);
	return verdict;
}

static bool has_representation(const struct apus_qos *qos, int16_t id)
{
	for (uint32_t i = 0; i < qos->representation_count; i++)
		if (qos->representations[i] == id)
			return true;
	return false;
}

/*
 * Keeps the first entry whatever it is, since it is what a writer uses, and of the rest those we could
 * ever match on, once each: at most four. An empty list means XCDR1 (XTypes 1.3 §7.6.3.1.1).
 */
static enum apus_wire_verdict read_representations(struct apus_wire_value *value,
						   struct apus_qos *qos)
{
	uint32_t count = apus_wire_value_u32(value);

	qos->representation_count = 0;
	memset(qos->representations, 0, sizeof(qos->representations));
	for (uint32_t i = 0; i < count && !apus_wire_value_bad(value); i++) {
		int16_t id = (int16_t)apus_wire_value_u16(value);

		if ((i == 0 || (id >= 0 && id <= 2)) && !has_representation(qos, id))
			qos->representations[qos->representation_count++] = id;
	}
	if (count == 0)
		qos->representation_count = 1; /* of XCDR1, which is 0 */
	return APUS_WIRE_ACCEPT;
}

static enum apus_wire_verdict read_duration(struct apus_wire_value *value, int64_t *out)
{
	*out = apus_wire_value_duration_ns(value);
	return APUS_WIRE_ACCEPT;
}

static enum apus_wire_verdict read_i32(struct apus_wire_value *value, int32_t *out)
{
	*out = (int32_t)apus_wire_value_u32(value);
	return APUS_WIRE_ACCEPT;
}

static enum apus_wire_verdict qos_param(struct apus_qos *qos, uint16_t id,
					struct apus_wire_value *value)
{
	switch (id) {
	case APUS_PID_RELIABILITY: return read_reliability(value, qos);
	case APUS_PID_DURABILITY: return read_enum(value, APUS_PERSISTENT, &qos->durability);
	case APUS_PID_DURABILITY_SERVICE: return check_durability_service(value);
	case APUS_PID_HISTORY: return read_history(value, qos);
	case APUS_PID_RESOURCE_LIMITS: return read_limits(value, qos);
	case APUS_PID_OWNERSHIP: return read_enum(value, APUS_EXCLUSIVE, &qos->ownership);
	case APUS_PID_OWNERSHIP_STRENGTH: return read_i32(value, &qos->strength);
	case APUS_PID_PRESENTATION: return read_presentation(value, qos);
	case APUS_PID_LIVELINESS: return read_liveliness(value, qos);
	case APUS_PID_DEADLINE: return read_duration(value, &qos->deadline_ns);
	case APUS_PID_LATENCY_BUDGET: return read_duration(value, &qos->latency_budget_ns);
	case APUS_PID_LIFESPAN: return read_duration(value, &qos->lifespan_ns);
	case APUS_PID_TIME_BASED_FILTER: return read_duration(value, &qos->time_filter_ns);
	case APUS_PID_DESTINATION_ORDER:
		return read_enum(value, APUS_BY_SOURCE, &qos->destination_order);
	case APUS_PID_TRANSPORT_PRIORITY: return read_i32(value, &qos->transport_priority);
	case APUS_PID_DATA_REPRESENTATION: return read_representations(value, qos);
	default: return APUS_WIRE_SKIP;
	}
}

/* The defaults of a remote endpoint (RTPS 2.5 table 9.18, DDS 1.4 §2.2.3). */
static void qos_default(struct apus_qos *qos, bool is_writer)
{
	memset(qos, 0, sizeof(*qos));
	qos->reliability = is_writer ? APUS_RELIABLE : APUS_BEST_EFFORT;
	qos->autodispose = true;
	qos->depth = 1;
	qos->max_blocking_ns = DEFAULT_BLOCKING_NS;
	qos->deadline_ns = APUS_INFINITE_NS;
	qos->lease_ns = APUS_INFINITE_NS;
	qos->lifespan_ns = APUS_INFINITE_NS;
	qos->autopurge_no_writers_ns = APUS_INFINITE_NS;
	qos->autopurge_disposed_ns = APUS_INFINITE_NS;
	qos->representation_count = 1; /* absent means XCDR1, which is 0 */
	qos->consistency.kind = APUS_ALLOW_TYPE_COERCION;
	qos->consistency.ignore_sequence_bounds = true;
	qos->consistency.ignore_string_bounds = true;
}

/* --- Endpoints: identity and texts --------------------------------------------------------------- */

/* Where a string stands in the packet. */
struct view {
	const char *text;
	size_t bytes;
};

struct filter_view {
	struct view names[3]; /* filtered topic, related topic, class */
	struct view expression;
	struct apus_wire_value parameters; /* cursor at the first parameter */
	uint32_t parameter_count;
	bool over_limit;
};

struct endpoint_walk {
	struct apus_wire_endpoint_record *record;
	struct apus_guid participant;
	struct apus_guid key_hash;
	struct view topic, type;
	struct apus_wire_value partitions; /* cursor at the first name */
	uint32_t partition_count;
	struct filter_view filter;
	bool has_participant, has_guid, has_key_hash;
};

static enum apus_wire_verdict read_name(struct apus_wire_value *value, struct view *view_out)
{
	view_out->text = apus_wire_value_string(value, &view_out->bytes);
	return apus_wire_accept_if(view_out->text && view_out->bytes > 0 &&
				   view_out->bytes <= APUS_WIRE_NAME_BYTES);
}

static enum apus_wire_verdict read_partitions(struct apus_wire_value *value,
					      struct endpoint_walk *walk)
{
	uint32_t count = apus_wire_value_u32(value);
	size_t bytes;

	if (count > APUS_WIRE_PARTITIONS_MAX)
		return APUS_WIRE_MALFORMED;
	walk->partitions = *value;
	walk->partition_count = count;
	for (uint32_t i = 0; i < count; i++)
		if (!apus_wire_value_string(value, &bytes) || bytes > APUS_WIRE_NAME_BYTES)
			return APUS_WIRE_MALFORMED;
	return APUS_WIRE_ACCEPT;
}

/* Adds a string's share to the total; false once the string is malformed. */
static bool read_view(struct apus_wire_value *value, struct view *view_out, size_t *total)
{
	view_out->text = apus_wire_value_string(value, &view_out->bytes);
	if (!view_out->text)
		return false;
	*total += view_out->bytes + 1;
	return true;
}

/* RTPS 2.5 §9.6.4.2. All of it is walked even over a limit: malformed outweighs too large. */
static enum apus_wire_verdict read_filter(struct apus_wire_value *value, struct filter_view *filter)
{
	struct view parameter;
	size_t total = 0;

	filter->over_limit = false;
	for (size_t i = 0; i < 3; i++) {
		if (!read_view(value, &filter->names[i], &total))
			return APUS_WIRE_MALFORMED;
		filter->over_limit |= filter->names[i].bytes > APUS_WIRE_NAME_BYTES;
	}
	if (!read_view(value, &filter->expression, &total))
		return APUS_WIRE_MALFORMED;
	filter->parameter_count = apus_wire_value_u32(value);
	filter->parameters = *value;
	/* Ends with the first string that does not fit, so the count alone cannot make it long. */
	for (uint32_t i = 0; i < filter->parameter_count; i++)
		if (!read_view(value, &parameter, &total))
			return APUS_WIRE_MALFORMED;
	filter->over_limit |= filter->parameter_count > APUS_WIRE_FILTER_PARAMETERS_MAX ||
			      total > APUS_WIRE_FILTER_TEXT_BYTES;
	return apus_wire_accept_if(!apus_wire_value_bad(value) &&
				   apus_wire_value_rest_is_zero(value));
}

/* TypeConsistencyEnforcement (XTypes 1.3 §7.6.3.4); flags that an older sender leaves out are defaults. */
static enum apus_wire_verdict read_consistency(struct apus_wire_value *value,
					       struct apus_type_consistency *c)
{
	uint16_t kind = apus_wire_value_u16(value);

	if (kind > APUS_ALLOW_TYPE_COERCION)
		return APUS_WIRE_MALFORMED;
	c->kind = (uint8_t)kind;
	if (apus_wire_cursor_left(&value->cursor) < 5)
		return APUS_WIRE_ACCEPT;
	c->ignore_sequence_bounds = apus_wire_value_bool(value);
	c->ignore_string_bounds = apus_wire_value_bool(value);
	c->ignore_member_names = apus_wire_value_bool(value);
	c->prevent_type_widening = apus_wire_value_bool(value);
	c->force_type_validation = apus_wire_value_bool(value);
	return APUS_WIRE_ACCEPT;
}

/* Known, and nothing in it is for us. */
static enum apus_wire_verdict ignored_endpoint_param(uint16_t id)
{
	switch (id) {
	case APUS_PID_PROTOCOL_VERSION:
	case APUS_PID_VENDOR_ID:
	case APUS_PID_USER_DATA:
	case APUS_PID_TOPIC_DATA:
	case APUS_PID_GROUP_DATA:
	case APUS_PID_PROPERTY_LIST:
	case APUS_PID_ENTITY_NAME:
	case APUS_PID_STATUS_INFO: return APUS_WIRE_ACCEPT;
	default: return APUS_WIRE_SKIP;
	}
}

static enum apus_wire_verdict endpoint_param(void *context, uint16_t id,
					     struct apus_wire_value *value)
{
	struct endpoint_walk *walk = context;
	struct apus_wire_endpoint_record *record = walk->record;
	enum apus_wire_verdict verdict;

	switch (id) {
	case APUS_PID_ENDPOINT_GUID:
		apus_wire_record_guid(value, &record->guid);
		walk->has_guid = true;
		return APUS_WIRE_ACCEPT;
	case APUS_PID_PARTICIPANT_GUID:
		apus_wire_record_guid(value, &walk->participant);
		walk->has_participant = true;
		return apus_wire_accept_if(apus_wire_is_participant_guid(&walk->participant));
	case APUS_PID_KEY_HASH:
		apus_wire_record_guid(value, &walk->key_hash);
		walk->has_key_hash = true;
		return APUS_WIRE_ACCEPT;
	case APUS_PID_GROUP_GUID: {
		struct apus_guid group;

		apus_wire_record_guid(value, &group);
		record->group = apus_guid_eid(&group);
		return APUS_WIRE_ACCEPT;
	}
	case APUS_PID_GROUP_ENTITY_ID: {
		const uint8_t *eid = apus_wire_value_bytes(value, 4);

		if (eid)
			record->group.value = (uint32_t)eid[0] << 24 | (uint32_t)eid[1] << 16 |
					      (uint32_t)eid[2] << 8 | eid[3];
		return APUS_WIRE_ACCEPT;
	}
	case APUS_PID_TOPIC_NAME: return read_name(value, &walk->topic);
	case APUS_PID_TYPE_NAME: return read_name(value, &walk->type);
	case APUS_PID_PARTITION: return read_partitions(value, walk);
	case APUS_PID_CONTENT_FILTER: return read_filter(value, &walk->filter);
	case APUS_PID_UNICAST_LOCATOR:
		return apus_wire_record_locator(value, &record->locators.unicast);
	case APUS_PID_MULTICAST_LOCATOR:
		return apus_wire_record_locator(value, &record->locators.multicast);
	case APUS_PID_EXPECTS_INLINE_QOS:
		record->expects_inline_qos = apus_wire_value_bool(value);
		return APUS_WIRE_ACCEPT;
	case APUS_PID_TYPE_MAX_SIZE_SERIALIZED:
		record->max_sample_bytes = apus_wire_value_u32(value);
		return APUS_WIRE_ACCEPT;
	case APUS_PID_TYPE_CONSISTENCY: return read_consistency(value, &record->qos.consistency);
	case APUS_PID_TYPE_INFORMATION: {
		struct apus_wire_value copy = *value;

		/* Of no form we know: as if it were absent. */
		apus_wire_type_information_read(&copy, &record->types);
		return APUS_WIRE_ACCEPT;
	}
	default:
		verdict = qos_param(&record->qos, id, value);
		return verdict == APUS_WIRE_SKIP ? ignored_endpoint_param(id) : verdict;
	}
}

/* --- Endpoints: after the walk ------------------------------------------------------------------- */

static struct apus_wire_text store(struct apus_wire_endpoint_record *record, struct view view)
{
	struct apus_wire_text text = {(uint16_t)record->text_bytes, (uint16_t)view.bytes};

	assert(record->text_bytes + view.bytes + 1 <= sizeof(record->text));
	memcpy(record->text + record->text_bytes, view.text, view.bytes + 1);
	record->text_bytes += (uint32_t)view.bytes + 1;
	return text;
}

static uint16_t store_sequence(struct apus_wire_endpoint_record *record,
			       struct apus_wire_value value, uint32_t count)
{
	uint32_t offset = count > 0 ? record->text_bytes : 0;
	struct view view;

	for (uint32_t i = 0; i < count; i++) {
		view.text = apus_wire_value_string(&value, &view.bytes);
		store(record, view);
	}
	return (uint16_t)offset;
}

static struct apus_wire_text store_if_fits(struct apus_wire_endpoint_record *record,
					   struct view view, size_t limit)
{
	return view.bytes <= limit ? store(record, view) : (struct apus_wire_text){0, 0};
}

static void store_filter(struct apus_wire_endpoint_record *record, const struct filter_view *filter)
{
	struct apus_wire_filter *out = &record->filter;
	size_t expression_limit =
		filter->over_limit ? EXPRESSION_BYTES_MAX : APUS_WIRE_FILTER_TEXT_BYTES;

	if (!filter->expression.text)
		return;
	out->present = true;
	out->over_limit = filter->over_limit;
	out->name = store_if_fits(record, filter->names[0], APUS_WIRE_NAME_BYTES);
	out->related = store_if_fits(record, filter->names[1], APUS_WIRE_NAME_BYTES);
	out->class_name = store_if_fits(record, filter->names[2], APUS_WIRE_NAME_BYTES);
	out->expression = store_if_fits(record, filter->expression, expression_limit);
	if (filter->over_limit)
		return;
	out->parameter_count = (uint16_t)filter->parameter_count;
	out->parameters_offset =
		store_sequence(record, filter->parameters, filter->parameter_count);
}

/* Entity kinds: 2 and 3 are writers, 4 and 7 readers, whatever the two upper bits say
 * (RTPS 2.5 table 9.1). */
static bool entity_kind_is(const struct apus_guid *guid, bool is_writer)
{
	uint8_t kind = guid->bytes[15] & 0x3f;

	return is_writer ? kind == 2 || kind == 3 : kind == 4 || kind == 7;
}

static bool endpoint_identity_ok(struct endpoint_walk *walk)
{
	struct apus_guid *guid = &walk->record->guid;

	if (!walk->has_guid) {
		if (!walk->has_key_hash)
			return false;
		*guid = walk->key_hash;
	}
	if (walk->has_participant && memcmp(walk->participant.bytes, guid->bytes, 12) != 0)
		return false;
	return !apus_wire_prefix_is_unknown(guid) && entity_kind_is(guid, walk->record->is_writer);
}

enum apus_wire_verdict apus_wire_endpoint_decode(const uint8_t *payload, size_t payload_bytes,
						 bool is_writer,
						 struct apus_wire_endpoint_record *record_out)
{
	struct endpoint_walk context = {.record = record_out};
	enum apus_wire_verdict verdict;

	/* The text area is long and only its used part is ever read. */
	memset(record_out, 0, offsetof(struct apus_wire_endpoint_record, text) + 1);
	memset(&record_out->locators, 0, sizeof(record_out->locators));
	record_out->text_bytes = 1;
	record_out->is_writer = is_writer;
	qos_default(&record_out->qos, is_writer);
	verdict = apus_wire_record_walk(payload, payload_bytes, endpoint_param, &context);
	if (verdict != APUS_WIRE_ACCEPT)
		return verdict;
	if (!context.topic.text || !context.type.text || !endpoint_identity_ok(&context))
		return APUS_WIRE_MALFORMED;
	record_out->topic = store(record_out, context.topic);
	record_out->type = store(record_out, context.type);
	record_out->partition_count = (uint16_t)context.partition_count;
	record_out->partitions_offset =
		store_sequence(record_out, context.partitions, context.partition_count);
	store_filter(record_out, &context.filter);
	return APUS_WIRE_ACCEPT;
}
