/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building, reading and encoding of discovery records. Every policy that applies to the kind of endpoint
 * is written with the endpoint's own value, defaults too: no receiver has to share our idea of them.
 * Resource limits and the durability service are local matters and are not announced.
 * Type information goes out as the front end serialised it (Interop: Cyclone DDS 0.10.2 drops a record whose
 * type information it cannot read).
 */
#include "wire/message.h"
#include "wire/plist.h"
#include "wire/record.h"

#include <md5.h>

#define ENTITY_PARTICIPANT 0x000001c1u

static const uint8_t protocol_version[2] = {2, 3};

/* --- Reading a record ---------------------------------------------------------------------------- */

static uint32_t fill_pointers(const char *text, uint32_t count, const char **pointers_out)
{
	for (uint32_t i = 0; i < count; i++) {
		pointers_out[i] = text;
		text += strlen(text) + 1;
	}
	return count;
}

uint32_t apus_wire_endpoint_record_partitions(const struct apus_wire_endpoint_record *record,
					      const char **pointers_out)
{
	return fill_pointers(record->text + record->partitions_offset, record->partition_count,
			     pointers_out);
}

uint32_t apus_wire_endpoint_record_parameters(const struct apus_wire_endpoint_record *record,
					      const char **pointers_out)
{
	return fill_pointers(record->text + record->filter.parameters_offset,
			     record->filter.parameter_count, pointers_out);
}

static void add_text(MD5_CTX *md5, const struct apus_wire_endpoint_record *record,
		     struct apus_wire_text text)
{
	MD5Update(md5, (const uint8_t *)apus_wire_record_text(record, text), text.bytes + 1u);
}

void apus_wire_endpoint_record_signature(const struct apus_wire_endpoint_record *record,
					 uint8_t signature_out[16])
{
	const char *parameter[APUS_WIRE_FILTER_PARAMETERS_MAX];
	uint32_t count = apus_wire_endpoint_record_parameters(record, parameter);
	MD5_CTX md5;

	MD5Init(&md5);
	add_text(&md5, record, record->filter.name);
	add_text(&md5, record, record->topic);
	add_text(&md5, record, record->filter.class_name);
	add_text(&md5, record, record->filter.expression);
	for (uint32_t i = 0; i < count; i++)
		MD5Update(&md5, (const uint8_t *)parameter[i], strlen(parameter[i]) + 1);
	MD5Final(signature_out, &md5);
}

void apus_wire_endpoint_record_qos(const struct apus_wire_endpoint_record *record,
				   const char **pointers_out, struct apus_qos *qos_out)
{
	*qos_out = record->qos;
	qos_out->partition_count = apus_wire_endpoint_record_partitions(record, pointers_out);
	qos_out->partitions = qos_out->partition_count > 0 ? pointers_out : NULL;
}

/* --- Building a record --------------------------------------------------------------------------- */

static bool name_ok(const char *name)
{
	return name && name[0] != '\0' &&
	       strnlen(name, APUS_WIRE_NAME_BYTES + 1) <= APUS_WIRE_NAME_BYTES;
}

static int check_filter(const struct apus_wire_endpoint_source *source)
{
	size_t total;

	if (!source->filter_name)
		return 0;
	if (source->is_writer || !name_ok(source->filter_name) || !name_ok(source->filter_class) ||
	    !source->filter_expression || source->filter_expression[0] == '\0')
		return APUS_EINVAL;
	if (source->filter_parameter_count > APUS_WIRE_FILTER_PARAMETERS_MAX)
		return APUS_ELIMIT;
	total = strlen(source->filter_name) + strlen(source->topic) + strlen(source->filter_class) +
		3;
	total += strnlen(source->filter_expression, APUS_WIRE_FILTER_TEXT_BYTES) + 1;
	for (uint32_t i = 0; i < source->filter_parameter_count; i++) {
		if (!source->filter_parameters[i])
			return APUS_EINVAL;
		total += strnlen(source->filter_parameters[i], APUS_WIRE_FILTER_TEXT_BYTES) + 1;
	}
	return total <= APUS_WIRE_FILTER_TEXT_BYTES ? 0 : APUS_ELIMIT;
}

static int check_partitions(const struct apus_qos *qos)
{
	if (qos->partition_count > APUS_WIRE_PARTITIONS_MAX)
		return APUS_ELIMIT;
	for (uint32_t i = 0; i < qos->partition_count; i++) {
		if (!qos->partitions[i])
			return APUS_EINVAL;
		if (strnlen(qos->partitions[i], APUS_WIRE_NAME_BYTES + 1) > APUS_WIRE_NAME_BYTES)
			return APUS_ELIMIT;
	}
	return 0;
}

/* Room is proved: all texts passed their limits, and the area is the sum of the limits. */
static struct apus_wire_text store(struct apus_wire_endpoint_record *record, const char *text)
{
	size_t bytes = strlen(text);
	struct apus_wire_text stored = {(uint16_t)record->text_bytes, (uint16_t)bytes};

	memcpy(record->text + record->text_bytes, text, bytes + 1);
	record->text_bytes += (uint32_t)bytes + 1;
	return stored;
}

static uint16_t store_all(struct apus_wire_endpoint_record *record, const char *const *texts,
			  uint32_t count)
{
	uint32_t offset = count > 0 ? record->text_bytes : 0;

	for (uint32_t i = 0; i < count; i++)
		store(record, texts[i]);
	return (uint16_t)offset;
}

static void store_filter(const struct apus_wire_endpoint_source *source,
			 struct apus_wire_endpoint_record *record)
{
	struct apus_wire_filter *filter = &record->filter;

	if (!source->filter_name)
		return;
	filter->present = true;
	filter->name = store(record, source->filter_name);
	filter->related = store(record, source->topic);
	filter->class_name = store(record, source->filter_class);
	filter->expression = store(record, source->filter_expression);
	filter->parameter_count = (uint16_t)source->filter_parameter_count;
	filter->parameters_offset =
		store_all(record, source->filter_parameters, source->filter_parameter_count);
}

/* A count of 0 is a local convenience (apus/qos.h); a record says what it means. */
static void resolve_representations(struct apus_qos *qos, bool is_writer)
{
	if (qos->representation_count > 0)
		return;
	qos->representations[0] = 0;
	qos->representations[1] = is_writer ? 0 : 2;
	qos->representation_count = is_writer ? 1 : 2;
}

/* Takes the type information over, without the lists of dependencies where these make it too long. */
static bool store_information(const struct apus_wire_endpoint_source *source,
			      struct apus_wire_endpoint_record *record)
{
	char *out = record->text + record->text_bytes;
	struct apus_wire_value value;

	if (source->type_information_bytes == 0)
		return true;
	value = apus_wire_value_make(source->type_information, source->type_information_bytes,
				     true);
	if (!apus_wire_type_information_read(&value, &record->types))
		return false;
	record->information_offset = (uint16_t)record->text_bytes;
	record->information_bytes = (uint16_t)source->type_information_bytes;
	if (source->type_information_bytes <= APUS_WIRE_INFORMATION_BYTES)
		memcpy(out, source->type_information, source->type_information_bytes);
	else
		record->information_bytes = (uint16_t)apus_wire_type_information_write(
			&record->types, (uint8_t *)out, APUS_WIRE_INFORMATION_BYTES);
	record->text_bytes += record->information_bytes;
	return true;
}

int apus_wire_endpoint_record_make(const struct apus_wire_endpoint_source *source,
				   struct apus_wire_endpoint_record *record_out)
{
	int result;

	if (!name_ok(source->topic) || !name_ok(source->type))
		return APUS_EINVAL;
	result = check_partitions(source->qos);
	if (result == 0)
		result = check_filter(source);
	if (result < 0)
		return result;

	memset(record_out, 0, offsetof(struct apus_wire_endpoint_record, text) + 1);
	memset(&record_out->locators, 0, sizeof(record_out->locators));
	record_out->text_bytes = 1;
	record_out->guid = source->guid;
	record_out->is_writer = source->is_writer;
	record_out->expects_inline_qos = source->expects_inline_qos;
	record_out->max_sample_bytes = source->max_sample_bytes;
	record_out->group = source->group;
	record_out->qos = *source->qos;
	record_out->qos.partitions = NULL;
	record_out->qos.partition_count = 0;
	resolve_representations(&record_out->qos, source->is_writer);
	record_out->topic = store(record_out, source->topic);
	record_out->type = store(record_out, source->type);
	record_out->partition_count = (uint16_t)source->qos->partition_count;
	record_out->partitions_offset =
		store_all(record_out, source->qos->partitions, source->qos->partition_count);
	store_filter(source, record_out);
	return store_information(source, record_out) ? 0 : APUS_EINVAL;
}

/* --- Parameters of one value --------------------------------------------------------------------- */

static void put_u32_param(struct apus_wire_plist_writer *w, uint16_t pid, uint32_t v)
{
	apus_wire_plist_open_param(w, pid);
	apus_wire_plist_put_u32(w, v);
	apus_wire_plist_close_param(w);
}

static void put_bool_param(struct apus_wire_plist_writer *w, uint16_t pid, bool v)
{
	apus_wire_plist_open_param(w, pid);
	apus_wire_plist_put_u8(w, v);
	apus_wire_plist_close_param(w);
}

static void put_bytes_param(struct apus_wire_plist_writer *w, uint16_t pid, const void *bytes,
			    size_t count)
{
	apus_wire_plist_open_param(w, pid);
	apus_wire_plist_put_bytes(w, bytes, count);
	apus_wire_plist_close_param(w);
}

static void put_duration_param(struct apus_wire_plist_writer *w, uint16_t pid, int64_t duration_ns)
{
	apus_wire_plist_open_param(w, pid);
	apus_wire_plist_put_duration(w, duration_ns);
	apus_wire_plist_close_param(w);
}

/* A kind followed by a duration: reliability and liveliness. */
static void put_kind_param(struct apus_wire_plist_writer *w, uint16_t pid, uint32_t kind,
			   int64_t duration_ns)
{
	apus_wire_plist_open_param(w, pid);
	apus_wire_plist_put_u32(w, kind);
	apus_wire_plist_put_duration(w, duration_ns);
	apus_wire_plist_close_param(w);
}

static void put_string_param(struct apus_wire_plist_writer *w, uint16_t pid, const char *text)
{
	apus_wire_plist_open_param(w, pid);
	apus_wire_plist_put_string(w, text, strlen(text));
	apus_wire_plist_close_param(w);
}

static void put_locators(struct apus_wire_plist_writer *w, uint16_t pid,
			 const struct apus_wire_locators *list)
{
	for (uint32_t i = 0; i < list->count; i++) {
		apus_wire_plist_open_param(w, pid);
		apus_wire_plist_put_u32(w, (uint32_t)list->at[i].kind);
		apus_wire_plist_put_u32(w, list->at[i].port);
		apus_wire_plist_put_bytes(w, list->at[i].address, sizeof(list->at[i].address));
		apus_wire_plist_close_param(w);
	}
}

static void put_version_and_vendor(struct apus_wire_plist_writer *w, const uint8_t version[2],
				   uint16_t vendor)
{
	const uint8_t vendor_bytes[2] = {(uint8_t)(vendor >> 8), (uint8_t)vendor};

	put_bytes_param(w, APUS_PID_PROTOCOL_VERSION, version, 2);
	put_bytes_param(w, APUS_PID_VENDOR_ID, vendor_bytes, sizeof(vendor_bytes));
}

static void put_guid_param(struct apus_wire_plist_writer *w, uint16_t pid,
			   const struct apus_guid *guid)
{
	put_bytes_param(w, pid, guid->bytes, sizeof(guid->bytes));
}

/* --- Records ------------------------------------------------------------------------------------- */

static struct apus_guid participant_guid(const uint8_t prefix[12])
{
	struct apus_prefix p;

	memcpy(p.bytes, prefix, sizeof(p.bytes));
	return apus_guid_make(&p, (struct apus_eid){ENTITY_PARTICIPANT});
}

/* Interop: a Discovery Server of Fast DDS 2.9.1 passes over participants that do not say what they are to it, or
 * are of another vendor. */
static void put_client(struct apus_wire_plist_writer *w, bool super_client)
{
	const char *const pairs[] = {"PARTICIPANT_TYPE", super_client ? "SUPER_CLIENT" : "CLIENT",
				     "DS_VERSION", "2.0"};

	apus_wire_plist_open_param(w, APUS_PID_PROPERTY_LIST);
	apus_wire_plist_put_u32(w, 2);
	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++)
		apus_wire_plist_put_string(w, pairs[i], strlen(pairs[i]));
	apus_wire_plist_close_param(w);
}

int apus_wire_participant_encode(const struct apus_wire_participant_record *record, uint8_t *out,
				 size_t out_bytes)
{
	const struct apus_guid guid = participant_guid(record->prefix.bytes);
	const uint8_t version[2] = {record->version_major, record->version_minor};
	struct apus_wire_plist_writer w;

	apus_wire_plist_begin(&w, out, out_bytes);
	put_version_and_vendor(&w, version,
			       record->client ? APUS_WIRE_VENDOR_FASTDDS : record->vendor);
	put_guid_param(&w, APUS_PID_PARTICIPANT_GUID, &guid);
	if (record->has_domain)
		put_u32_param(&w, APUS_PID_DOMAIN_ID, record->domain);
	put_locators(&w, APUS_PID_METATRAFFIC_UNICAST_LOCATOR, &record->metatraffic_unicast);
	put_locators(&w, APUS_PID_METATRAFFIC_MULTICAST_LOCATOR, &record->metatraffic_multicast);
	put_locators(&w, APUS_PID_DEFAULT_UNICAST_LOCATOR, &record->default_unicast);
	put_locators(&w, APUS_PID_DEFAULT_MULTICAST_LOCATOR, &record->default_multicast);
	put_duration_param(&w, APUS_PID_PARTICIPANT_LEASE_DURATION, record->lease_ns);
	put_u32_param(&w, APUS_PID_BUILTIN_ENDPOINT_SET, record->builtin_endpoints);
	if (record->expects_inline_qos)
		put_bool_param(&w, APUS_PID_EXPECTS_INLINE_QOS, true);
	if (record->name[0] != '\0')
		put_string_param(&w, APUS_PID_ENTITY_NAME, record->name);
	if (record->client)
		put_client(&w, record->client == APUS_WIRE_SUPER_CLIENT);
	return apus_wire_plist_finish(&w);
}

static void put_presentation(struct apus_wire_plist_writer *w, const struct apus_qos *qos)
{
	apus_wire_plist_open_param(w, APUS_PID_PRESENTATION);
	apus_wire_plist_put_u32(w, qos->access_scope);
	apus_wire_plist_put_u8(w, qos->coherent_access);
	apus_wire_plist_put_u8(w, qos->ordered_access);
	apus_wire_plist_close_param(w);
}

static void put_history(struct apus_wire_plist_writer *w, const struct apus_qos *qos)
{
	apus_wire_plist_open_param(w, APUS_PID_HISTORY);
	apus_wire_plist_put_u32(w, qos->history);
	apus_wire_plist_put_u32(w, qos->history == APUS_KEEP_ALL ? 0 : qos->depth);
	apus_wire_plist_close_param(w);
}

static void put_representations(struct apus_wire_plist_writer *w, const struct apus_qos *qos)
{
	apus_wire_plist_open_param(w, APUS_PID_DATA_REPRESENTATION);
	apus_wire_plist_put_u32(w, qos->representation_count);
	for (uint32_t i = 0; i < qos->representation_count; i++)
		apus_wire_plist_put_u16(w, (uint16_t)qos->representations[i]);
	apus_wire_plist_close_param(w);
}

/* The policies of both kinds of endpoint. */
static void put_common_qos(struct apus_wire_plist_writer *w, const struct apus_qos *qos)
{
	put_u32_param(w, APUS_PID_DURABILITY, qos->durability);
	put_presentation(w, qos);
	put_duration_param(w, APUS_PID_DEADLINE, qos->deadline_ns);
	put_duration_param(w, APUS_PID_LATENCY_BUDGET, qos->latency_budget_ns);
	put_u32_param(w, APUS_PID_OWNERSHIP, qos->ownership);
	put_kind_param(w, APUS_PID_LIVELINESS, qos->liveliness, qos->lease_ns);
	put_kind_param(w, APUS_PID_RELIABILITY, qos->reliability == APUS_RELIABLE ? 2 : 1,
		       qos->max_blocking_ns);
	put_u32_param(w, APUS_PID_DESTINATION_ORDER, qos->destination_order);
	put_history(w, qos);
	put_representations(w, qos);
}

static void put_group(struct apus_wire_plist_writer *w, struct apus_eid group)
{
	const uint8_t bytes[4] = {(uint8_t)(group.value >> 24), (uint8_t)(group.value >> 16),
				  (uint8_t)(group.value >> 8), (uint8_t)group.value};

	apus_wire_plist_open_param(w, APUS_PID_GROUP_ENTITY_ID);
	apus_wire_plist_put_bytes(w, bytes, sizeof(bytes));
	apus_wire_plist_close_param(w);
}

static void put_writer_qos(struct apus_wire_plist_writer *w,
			   const struct apus_wire_endpoint_record *record)
{
	put_u32_param(w, APUS_PID_OWNERSHIP_STRENGTH, (uint32_t)record->qos.strength);
	put_u32_param(w, APUS_PID_TRANSPORT_PRIORITY, (uint32_t)record->qos.transport_priority);
	put_duration_param(w, APUS_PID_LIFESPAN, record->qos.lifespan_ns);
	if (record->group.value)
		put_group(w, record->group);
	if (record->max_sample_bytes > 0)
		put_u32_param(w, APUS_PID_TYPE_MAX_SIZE_SERIALIZED, record->max_sample_bytes);
}

/* TypeConsistencyEnforcement (XTypes 1.3 §7.6.3.4). */
static void put_type_consistency(struct apus_wire_plist_writer *w,
				 const struct apus_type_consistency *c)
{
	const uint8_t flags[5] = {c->ignore_sequence_bounds, c->ignore_string_bounds,
				  c->ignore_member_names, c->prevent_type_widening,
				  c->force_type_validation};

	apus_wire_plist_open_param(w, APUS_PID_TYPE_CONSISTENCY);
	apus_wire_plist_put_u16(w, c->kind);
	apus_wire_plist_put_bytes(w, flags, sizeof(flags));
	apus_wire_plist_close_param(w);
}

static void put_type_information(struct apus_wire_plist_writer *w,
				 const struct apus_wire_endpoint_record *record)
{
	if (record->information_bytes == 0)
		return;
	apus_wire_plist_open_param(w, APUS_PID_TYPE_INFORMATION);
	apus_wire_plist_put_bytes(w, record->text + record->information_offset,
				  record->information_bytes);
	apus_wire_plist_close_param(w);
}

static void put_reader_qos(struct apus_wire_plist_writer *w,
			   const struct apus_wire_endpoint_record *record)
{
	put_duration_param(w, APUS_PID_TIME_BASED_FILTER, record->qos.time_filter_ns);
	put_bool_param(w, APUS_PID_EXPECTS_INLINE_QOS, record->expects_inline_qos);
	put_type_consistency(w, &record->qos.consistency);
}

static void put_string_sequence(struct apus_wire_plist_writer *w, const char *text, uint32_t count)
{
	apus_wire_plist_put_u32(w, count);
	for (uint32_t i = 0; i < count; i++) {
		size_t bytes = strlen(text);

		apus_wire_plist_put_string(w, text, bytes);
		text += bytes + 1;
	}
}

static void put_filter(struct apus_wire_plist_writer *w,
		       const struct apus_wire_endpoint_record *record)
{
	const struct apus_wire_filter *filter = &record->filter;
	const struct apus_wire_text texts[] = {filter->name, filter->related, filter->class_name,
					       filter->expression};

	/* An over-limit filter of somebody else is known only in part. */
	if (!filter->present || filter->over_limit)
		return;
	apus_wire_plist_open_param(w, APUS_PID_CONTENT_FILTER);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		apus_wire_plist_put_string(w, record->text + texts[i].offset, texts[i].bytes);
	put_string_sequence(w, record->text + filter->parameters_offset, filter->parameter_count);
	apus_wire_plist_close_param(w);
}

static void put_partitions(struct apus_wire_plist_writer *w,
			   const struct apus_wire_endpoint_record *record)
{
	apus_wire_plist_open_param(w, APUS_PID_PARTITION);
	put_string_sequence(w, record->text + record->partitions_offset, record->partition_count);
	apus_wire_plist_close_param(w);
}

int apus_wire_endpoint_encode(const struct apus_wire_endpoint_record *record, uint8_t *out,
			      size_t out_bytes)
{
	const struct apus_guid participant = participant_guid(record->guid.bytes);
	struct apus_wire_plist_writer w;

	apus_wire_plist_begin(&w, out, out_bytes);
	put_guid_param(&w, APUS_PID_ENDPOINT_GUID, &record->guid);
	put_guid_param(&w, APUS_PID_PARTICIPANT_GUID, &participant);
	put_version_and_vendor(&w, protocol_version, APUS_WIRE_VENDOR);
	put_string_param(&w, APUS_PID_TOPIC_NAME, apus_wire_record_text(record, record->topic));
	put_string_param(&w, APUS_PID_TYPE_NAME, apus_wire_record_text(record, record->type));
	put_common_qos(&w, &record->qos);
	if (record->is_writer)
		put_writer_qos(&w, record);
	else
		put_reader_qos(&w, record);
	put_partitions(&w, record);
	put_locators(&w, APUS_PID_UNICAST_LOCATOR, &record->locators.unicast);
	put_locators(&w, APUS_PID_MULTICAST_LOCATOR, &record->locators.multicast);
	put_filter(&w, record);
	put_type_information(&w, record);
	return apus_wire_plist_finish(&w);
}

/* Encapsulation header in front, sentinel behind. */
#define LIST_HEAD_BYTES 4
#define LIST_TAIL_BYTES 4

static int encode_inline(const struct apus_wire_endpoint_record *writer, bool partitions,
			 uint8_t *out, size_t out_bytes)
{
	const struct apus_qos *qos = &writer->qos;
	struct apus_wire_plist_writer w;

	apus_wire_plist_begin(&w, out, out_bytes);
	put_string_param(&w, APUS_PID_TOPIC_NAME, apus_wire_record_text(writer, writer->topic));
	put_u32_param(&w, APUS_PID_DURABILITY, qos->durability);
	put_presentation(&w, qos);
	put_duration_param(&w, APUS_PID_DEADLINE, qos->deadline_ns);
	put_duration_param(&w, APUS_PID_LATENCY_BUDGET, qos->latency_budget_ns);
	put_u32_param(&w, APUS_PID_OWNERSHIP, qos->ownership);
	put_u32_param(&w, APUS_PID_OWNERSHIP_STRENGTH, (uint32_t)qos->strength);
	put_kind_param(&w, APUS_PID_LIVELINESS, qos->liveliness, qos->lease_ns);
	put_kind_param(&w, APUS_PID_RELIABILITY, qos->reliability == APUS_RELIABLE ? 2 : 1,
		       qos->max_blocking_ns);
	put_u32_param(&w, APUS_PID_TRANSPORT_PRIORITY, (uint32_t)qos->transport_priority);
	put_duration_param(&w, APUS_PID_LIFESPAN, qos->lifespan_ns);
	put_u32_param(&w, APUS_PID_DESTINATION_ORDER, qos->destination_order);
	if (partitions)
		put_partitions(&w, writer);
	return apus_wire_plist_finish(&w);
}

uint32_t apus_wire_inline_qos_encode(const struct apus_wire_endpoint_record *writer,
				     uint8_t out[APUS_WIRE_INLINE_QOS_BYTES])
{
	uint8_t list[LIST_HEAD_BYTES + APUS_WIRE_INLINE_QOS_BYTES + LIST_TAIL_BYTES];
	int bytes = encode_inline(writer, writer->partition_count > 0, list, sizeof(list));

	if (bytes < 0) /* what is left always fits: a name is 255 bytes at most */
		bytes = encode_inline(writer, false, list, sizeof(list));
	if (bytes < LIST_HEAD_BYTES + LIST_TAIL_BYTES)
		return 0;
	bytes -= LIST_HEAD_BYTES + LIST_TAIL_BYTES;
	memcpy(out, list + LIST_HEAD_BYTES, (size_t)bytes);
	return (uint32_t)bytes;
}

/* --- Keys and liveliness ------------------------------------------------------------------------- */

static int encode_key(const struct apus_guid *guid, uint16_t pid, uint8_t *out, size_t out_bytes)
{
	struct apus_wire_plist_writer w;

	apus_wire_plist_begin(&w, out, out_bytes);
	put_guid_param(&w, pid, guid);
	return apus_wire_plist_finish(&w);
}

int apus_wire_participant_key_encode(const struct apus_guid *guid, uint8_t *out, size_t out_bytes)
{
	return encode_key(guid, APUS_PID_PARTICIPANT_GUID, out, out_bytes);
}

int apus_wire_endpoint_key_encode(const struct apus_guid *guid, uint8_t *out, size_t out_bytes)
{
	return encode_key(guid, APUS_PID_ENDPOINT_GUID, out, out_bytes);
}

int apus_wire_liveliness_encode(const struct apus_wire_liveliness *message, uint8_t *out,
				size_t out_bytes)
{
	static const uint8_t header[4] = {0, 1, 0, 0}; /* CDR_LE */
	const uint8_t kind[4] = {(uint8_t)(message->kind >> 24), (uint8_t)(message->kind >> 16),
				 (uint8_t)(message->kind >> 8), (uint8_t)message->kind};
	struct apus_wire_sink sink = apus_wire_sink_make(out, out_bytes);

	apus_wire_sink_bytes(&sink, header, sizeof(header));
	apus_wire_sink_bytes(&sink, message->prefix.bytes, sizeof(message->prefix.bytes));
	apus_wire_sink_bytes(&sink, kind, sizeof(kind));
	apus_wire_sink_u32(&sink, 0);
	return sink.failed ? APUS_ELIMIT : (int)(sink.at - out);
}
