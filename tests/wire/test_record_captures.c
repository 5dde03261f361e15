/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: what Cyclone DDS 0.10.2 and Fast DDS 2.9.1 announce is understood, field by field.
 * Method: every SPDP, SEDP and participant-message payload of every capture is decoded and compared with
 * the facts beside the capture, which were made by another decoder. A fact that is absent must decode as
 * the default; every endpoint and participant of the facts must have been met. The argument is the
 * directory of captures.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <arpa/inet.h>
#include <dirent.h>
#include <jansson.h>
#include <cmocka.h>

#include "tests/wire/pcapng.h"
#include "wire/message.h"
#include "wire/record.h"

#define WRITER_SPDP      0x000100c2u
#define WRITER_PUB       0x000003c2u
#define WRITER_SUB       0x000004c2u
#define WRITER_WLP       0x000200c2u
#define PARTICIPANTS_MAX 16

static const char *captures_dir;

/* One capture under test: its facts, its participants in order of first message, what was met. */
struct run {
	json_t *facts;
	struct apus_prefix prefixes[PARTICIPANTS_MAX];
	size_t prefix_count;
	json_t *met; /* object: names of the facts that were compared */
	size_t keys, liveliness;
};

static json_t *participant_facts(struct run *run, const struct apus_prefix *prefix, size_t *idx_out)
{
	char name[16];
	size_t i = 0;

	while (i < run->prefix_count && !apus_prefix_equal(&run->prefixes[i], prefix))
		i++;
	if (i == run->prefix_count) {
		assert_true(i < PARTICIPANTS_MAX);
		run->prefixes[run->prefix_count++] = *prefix;
	}
	snprintf(name, sizeof(name), "P%zu", i + 1);
	*idx_out = i;
	return json_object_get(json_object_get(run->facts, "participants"), name);
}

/* --- Facts against fields ------------------------------------------------------------------------ */

static int64_t fact_duration(json_t *facts, const char *key, int64_t otherwise)
{
	json_t *v = json_object_get(facts, key);

	if (!v)
		return otherwise;
	if (json_is_string(v))
		return APUS_INFINITE_NS;
	return (int64_t)(json_number_value(v) * 1e9 + 0.5);
}

static int64_t fact_int(json_t *facts, const char *key, int64_t otherwise)
{
	json_t *v = json_object_get(facts, key);

	return v ? (int64_t)json_integer_value(v) : otherwise;
}

/* The index of the fact's word in a list of labels. */
static int fact_enum(json_t *facts, const char *key, const char *const *labels, int otherwise)
{
	const char *word = json_string_value(json_object_get(facts, key));

	if (!word)
		return otherwise;
	for (int i = 0; labels[i]; i++)
		if (strcmp(labels[i], word) == 0)
			return i;
	fail_msg("unknown word %s", word);
	return -1;
}

static void check_text_list(json_t *facts, const char *const *texts, size_t count)
{
	assert_int_equal(json_array_size(facts), count);
	for (size_t i = 0; i < count; i++)
		assert_string_equal(json_string_value(json_array_get(facts, i)), texts[i]);
}

static void check_filter(json_t *facts, const struct apus_wire_endpoint_record *record)
{
	const struct apus_wire_filter *filter = &record->filter;
	const char *parameters[APUS_WIRE_FILTER_PARAMETERS_MAX];
	uint32_t count = apus_wire_endpoint_record_parameters(record, parameters);

	assert_int_equal(filter->present, facts != NULL);
	assert_false(filter->over_limit);
	if (!facts)
		return;
	assert_string_equal(apus_wire_record_text(record, filter->name),
			    json_string_value(json_object_get(facts, "name")));
	assert_string_equal(apus_wire_record_text(record, filter->related),
			    json_string_value(json_object_get(facts, "related_topic")));
	assert_string_equal(apus_wire_record_text(record, filter->class_name),
			    json_string_value(json_object_get(facts, "filter_class")));
	assert_string_equal(apus_wire_record_text(record, filter->expression),
			    json_string_value(json_object_get(facts, "expression")));
	check_text_list(json_object_get(facts, "parameters"), parameters, count);
}

static void check_enums(json_t *facts, const struct apus_wire_endpoint_record *record)
{
	static const char *const reliability[] = {"best_effort", "reliable", NULL};
	static const char *const durability[] = {"volatile", "transient_local", "transient",
						 "persistent", NULL};
	static const char *const liveliness[] = {"automatic", "manual_by_participant",
						 "manual_by_topic", NULL};
	static const char *const ownership[] = {"shared", "exclusive", NULL};
	static const char *const order[] = {"by_reception", "by_source", NULL};
	static const char *const history[] = {"keep_last", "keep_all", NULL};
	const struct apus_qos *qos = &record->qos;
	json_t *h = json_object_get(facts, "history");

	assert_int_equal(qos->reliability,
			 fact_enum(facts, "reliability", reliability, record->is_writer));
	assert_int_equal(qos->durability, fact_enum(facts, "durability", durability, 0));
	assert_int_equal(qos->liveliness, fact_enum(facts, "liveliness", liveliness, 0));
	assert_int_equal(qos->ownership, fact_enum(facts, "ownership", ownership, 0));
	assert_int_equal(qos->destination_order, fact_enum(facts, "destination_order", order, 0));
	assert_int_equal(qos->history, fact_enum(h, "kind", history, 0));
	if (qos->history == APUS_KEEP_LAST)
		assert_int_equal(qos->depth, fact_int(h, "depth", 1));
}

static void check_qos(json_t *facts, const struct apus_wire_endpoint_record *record)
{
	static const char *const scopes[] = {"instance", "topic", "group", NULL};
	const struct apus_qos *qos = &record->qos;
	json_t *p = json_object_get(facts, "presentation");
	json_t *representations = json_object_get(facts, "data_representation");
	size_t count = representations ? json_array_size(representations) : 1;

	check_enums(facts, record);
	assert_int_equal(qos->max_blocking_ns, fact_duration(facts, "max_blocking_s", 100000000));
	assert_int_equal(qos->deadline_ns, fact_duration(facts, "deadline_s", APUS_INFINITE_NS));
	assert_int_equal(qos->latency_budget_ns, fact_duration(facts, "latency_budget_s", 0));
	assert_int_equal(qos->lease_ns,
			 fact_duration(facts, "liveliness_lease_s", APUS_INFINITE_NS));
	assert_int_equal(qos->lifespan_ns, fact_duration(facts, "lifespan_s", APUS_INFINITE_NS));
	assert_int_equal(qos->time_filter_ns, fact_duration(facts, "time_based_filter_s", 0));
	assert_int_equal(qos->strength, fact_int(facts, "ownership_strength", 0));
	assert_int_equal(qos->transport_priority, fact_int(facts, "transport_priority", 0));
	assert_int_equal(qos->access_scope, fact_enum(p, "scope", scopes, 0));
	assert_int_equal(qos->coherent_access, json_is_true(json_object_get(p, "coherent")));
	assert_int_equal(qos->ordered_access, json_is_true(json_object_get(p, "ordered")));
	assert_int_equal(qos->representation_count, count);
	for (size_t i = 0; representations && i < count; i++)
		assert_int_equal(qos->representations[i],
				 json_integer_value(json_array_get(representations, i)));
}

static void check_endpoint(json_t *facts, const struct apus_wire_endpoint_record *record)
{
	const char *partitions[APUS_WIRE_PARTITIONS_MAX];
	uint32_t count = apus_wire_endpoint_record_partitions(record, partitions);
	char eid[16];
	/* XTypes 1.3 information is seen from Cyclone, in sizes of the form's own; Fast DDS sends the
	 * older form (124 bytes for the same type) beside PID 0x0069. */
	bool has_hash = json_object_get(facts, "type_information_bytes") &&
			!json_object_get(facts, "type_identifier_v1_bytes");

	snprintf(eid, sizeof(eid), "%08x", apus_guid_eid(&record->guid).value);
	assert_string_equal(eid, json_string_value(json_object_get(facts, "entity_id")));
	assert_string_equal(apus_wire_record_text(record, record->topic),
			    json_string_value(json_object_get(facts, "topic")));
	assert_string_equal(apus_wire_record_text(record, record->type),
			    json_string_value(json_object_get(facts, "type")));
	assert_int_equal(record->max_sample_bytes, fact_int(facts, "type_max_size_serialized", 0));
	assert_int_equal(record->expects_inline_qos,
			 json_is_true(json_object_get(facts, "expects_inline_qos")));
	assert_int_equal(record->types.minimal.kind, has_hash ? APUS_WIRE_EK_MINIMAL : 0);
	assert_int_equal(record->types.complete.kind, has_hash ? APUS_WIRE_EK_COMPLETE : 0);
	assert_int_equal(record->qos.consistency.kind, APUS_ALLOW_TYPE_COERCION);
	assert_true(record->qos.consistency.ignore_string_bounds);
	check_text_list(json_object_get(facts, "partitions"), partitions, count);
	check_qos(facts, record);
	check_filter(json_object_get(facts, "content_filter"), record);
}

/* --- Participants -------------------------------------------------------------------------------- */

static bool has_locator(const struct apus_wire_locators *list, json_t *fact)
{
	char address[INET_ADDRSTRLEN];

	for (uint32_t i = 0; i < list->count; i++) {
		inet_ntop(AF_INET, list->at[i].address + 12, address, sizeof(address));
		if (list->at[i].kind == json_integer_value(json_array_get(fact, 1)) &&
		    list->at[i].port == json_integer_value(json_array_get(fact, 2)) &&
		    strcmp(address, json_string_value(json_array_get(fact, 3))) == 0)
			return true;
	}
	return false;
}

static const struct apus_wire_locators *
locators_of(const struct apus_wire_participant_record *record, const char *role)
{
	if (strcmp(role, "default_unicast") == 0)
		return &record->default_unicast;
	if (strcmp(role, "default_multicast") == 0)
		return &record->default_multicast;
	if (strcmp(role, "metatraffic_unicast") == 0)
		return &record->metatraffic_unicast;
	assert_string_equal(role, "metatraffic_multicast");
	return &record->metatraffic_multicast;
}

static bool locators_equal(json_t *facts, const struct apus_wire_participant_record *record)
{
	size_t usable = 0, skipped = 0, i;
	json_t *fact;

	json_array_foreach(facts, i, fact)
	{
		const char *role = json_string_value(json_array_get(fact, 0));

		if (json_integer_value(json_array_get(fact, 1)) > APUS_LOCATOR_UDPV6)
			skipped++;
		else if (has_locator(locators_of(record, role), fact))
			usable++;
		else
			return false;
	}
	return usable == record->default_unicast.count + record->default_multicast.count +
				 record->metatraffic_unicast.count +
				 record->metatraffic_multicast.count &&
	       skipped == record->default_unicast.skipped_count +
				  record->metatraffic_unicast.skipped_count;
}

static bool participant_equal(json_t *facts, const struct apus_wire_participant_record *record)
{
	char version[8], vendor[8], set[16];
	const char *name = json_string_value(json_object_get(facts, "entity_name"));

	snprintf(version, sizeof(version), "%u.%u", record->version_major, record->version_minor);
	snprintf(vendor, sizeof(vendor), "%04x", record->vendor);
	snprintf(set, sizeof(set), "0x%08x", record->builtin_endpoints);
	return strcmp(version, json_string_value(json_object_get(facts, "protocol_version"))) ==
		       0 &&
	       strcmp(vendor, json_string_value(json_object_get(facts, "vendor_id"))) == 0 &&
	       strcmp(set, json_string_value(json_object_get(facts, "builtin_endpoint_set"))) ==
		       0 &&
	       record->lease_ns == fact_duration(facts, "lease_s", -1) &&
	       record->has_domain == (json_object_get(facts, "domain_id") != NULL) &&
	       record->domain == fact_int(facts, "domain_id", 0) &&
	       strcmp(record->name, name ? name : "") == 0 &&
	       locators_equal(json_object_get(facts, "locators"), record);
}

static void meet(struct run *run, size_t participant, const char *what, size_t number)
{
	char name[64];

	snprintf(name, sizeof(name), "P%zu %s%zu", participant + 1, what, number);
	json_object_set_new(run->met, name, json_true());
}

static void on_spdp(struct run *run, json_t *facts, size_t participant,
		    const struct apus_wire_data *data)
{
	static struct apus_wire_participant_record record;
	struct apus_guid guid;
	json_t *list = json_object_get(facts, "participant_data"), *one;
	size_t i;

	assert_int_equal(apus_wire_participant_decode(data->payload, data->payload_bytes, &record),
			 APUS_WIRE_ACCEPT);
	assert_int_equal(
		apus_wire_participant_key_decode(data->payload, data->payload_bytes, &guid),
		APUS_WIRE_ACCEPT);
	assert_memory_equal(guid.bytes, record.prefix.bytes, 12);
	json_array_foreach(list, i, one)
	{
		if (participant_equal(one, &record)) {
			meet(run, participant, "participant ", i);
			return;
		}
	}
	fail_msg("a participant record is not among the facts");
}

/* --- Walking a capture --------------------------------------------------------------------------- */

static void on_sedp(struct run *run, json_t *facts, size_t participant,
		    const struct apus_wire_data *data, bool is_writer)
{
	static struct apus_wire_endpoint_record record;
	char name[32];
	json_t *fact;

	snprintf(name, sizeof(name), "%s sn%lld", is_writer ? "SEDP_PUB" : "SEDP_SUB",
		 (long long)data->seq);
	assert_int_equal(
		apus_wire_endpoint_decode(data->payload, data->payload_bytes, is_writer, &record),
		APUS_WIRE_ACCEPT);
	fact = json_object_get(json_object_get(facts, "endpoint_data"), name);
	assert_non_null(fact);
	check_endpoint(fact, &record);
	meet(run, participant, name, 0);
	/* The same bytes from the other writer describe an entity of the wrong kind. */
	assert_int_equal(
		apus_wire_endpoint_decode(data->payload, data->payload_bytes, !is_writer, &record),
		APUS_WIRE_MALFORMED);
}

static void on_key(struct run *run, const struct apus_wire_data *data,
		   const struct apus_prefix *source)
{
	struct apus_guid guid;
	enum apus_wire_verdict verdict =
		data->writer.value == WRITER_SPDP
			? apus_wire_participant_key_decode(data->payload, data->payload_bytes,
							   &guid)
			: apus_wire_endpoint_key_decode(data->payload, data->payload_bytes, &guid);

	assert_int_equal(verdict, APUS_WIRE_ACCEPT);
	assert_memory_equal(guid.bytes, source->bytes, 12);
	run->keys++;
}

static void on_liveliness(struct run *run, const struct apus_wire_data *data,
			  const struct apus_prefix *source)
{
	struct apus_wire_liveliness message;

	assert_int_equal(apus_wire_liveliness_decode(data->payload, data->payload_bytes, &message),
			 APUS_WIRE_ACCEPT);
	assert_memory_equal(message.prefix.bytes, source->bytes, 12);
	run->liveliness++;
}

static void on_data(struct run *run, const struct apus_wire_data *data,
		    const struct apus_prefix *source)
{
	size_t participant;
	json_t *facts = participant_facts(run, source, &participant);

	if (!data->payload)
		return;
	switch (data->writer.value) {
	case WRITER_SPDP:
	case WRITER_PUB:
	case WRITER_SUB:
		if (data->key_only)
			on_key(run, data, source);
		else if (data->writer.value == WRITER_SPDP)
			on_spdp(run, facts, participant, data);
		else
			on_sedp(run, facts, participant, data, data->writer.value == WRITER_PUB);
		return;
	case WRITER_WLP:
		if (!data->key_only)
			on_liveliness(run, data, source);
		return;
	default: return;
	}
}

static void on_datagram(struct run *run, const uint8_t *bytes, size_t count)
{
	struct apus_wire_message message;
	struct apus_wire_submessage sub;
	enum apus_wire_verdict verdict;
	size_t participant;

	if (apus_wire_open(&message, bytes, count) != APUS_WIRE_ACCEPT)
		return;
	participant_facts(run, &message.receiver.source, &participant);
	while ((verdict = apus_wire_next(&message, &sub)) == APUS_WIRE_ACCEPT ||
	       verdict == APUS_WIRE_SKIP)
		if (verdict == APUS_WIRE_ACCEPT && sub.id == APUS_WIRE_DATA)
			on_data(run, &sub.data, &message.receiver.source);
}

static void check_all_met(struct run *run)
{
	const char *name;
	json_t *facts;
	size_t expected = 0;

	json_object_foreach(json_object_get(run->facts, "participants"), name, facts) expected +=
		json_array_size(json_object_get(facts, "participant_data")) +
		json_object_size(json_object_get(facts, "endpoint_data"));
	assert_int_equal(json_object_size(run->met), expected);
}

static void run_capture(const char *name, struct run *total)
{
	struct run run = {0};
	struct pcapng file;
	char path[512];
	const uint8_t *datagram;
	size_t count;

	snprintf(path, sizeof(path), "%s/%s.json", captures_dir, name);
	run.facts = json_load_file(path, 0, NULL);
	run.met = json_object();
	assert_non_null(run.facts);
	snprintf(path, sizeof(path), "%s/%s.pcapng", captures_dir, name);
	assert_true(pcapng_open(&file, path));
	while ((datagram = pcapng_next(&file, &count)))
		on_datagram(&run, datagram, count);
	check_all_met(&run);
	total->keys += run.keys;
	total->liveliness += run.liveliness;
	pcapng_close(&file);
	json_decref(run.met);
	json_decref(run.facts);
}

static size_t run_all(struct run *total)
{
	DIR *dir = opendir(captures_dir);
	struct dirent *entry;
	size_t captures = 0;

	while (dir && (entry = readdir(dir))) {
		char name[256];
		char *end = strstr(entry->d_name, ".pcapng");

		if (!end)
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)(end - entry->d_name), entry->d_name);
		print_message("%s\n", name);
		run_capture(name, total);
		captures++;
	}
	if (dir)
		closedir(dir);
	return captures;
}

static void test_every_announcement_decodes_to_its_facts(void **state)
{
	struct run total = {0};

	(void)state;
	if (run_all(&total) == 0)
		skip();
	assert_true(total.keys > 20);
	assert_true(total.liveliness > 20);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_announcement_decodes_to_its_facts),
	};

	captures_dir = argc > 1 ? argv[1] : "tests/captures";
	return cmocka_run_group_tests(tests, NULL, NULL);
}
