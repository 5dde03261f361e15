/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target for the discovery records.
 *
 * The input is a payload with its encapsulation header, offered to every decoder. What is accepted must
 * keep the promises of wire/record.h, and encoding it must give a record that decodes to the same again.
 * Seeds: tests/fuzz/seeds fuzz_plist.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/record.h"

static uint8_t payload[APUS_WIRE_RECORD_PAYLOAD_MAX];

static void require(bool condition)
{
	if (!condition)
		abort();
}

static void require_text(const struct apus_wire_endpoint_record *r, struct apus_wire_text text)
{
	require((uint32_t)text.offset + text.bytes < r->text_bytes);
	require(strlen(r->text + text.offset) == text.bytes);
}

static void require_list(const struct apus_wire_endpoint_record *r, const char *const *list,
			 uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		require(list[i] + strlen(list[i]) < r->text + r->text_bytes);
}

static void require_invariants(const struct apus_wire_endpoint_record *r)
{
	const char *list[APUS_WIRE_FILTER_PARAMETERS_MAX];

	require(r->text_bytes >= 1 && r->text_bytes <= APUS_WIRE_RECORD_TEXT && r->text[0] == '\0');
	require_text(r, r->topic);
	require_text(r, r->type);
	require_text(r, r->filter.name);
	require_text(r, r->filter.related);
	require_text(r, r->filter.class_name);
	require_text(r, r->filter.expression);
	require_list(r, list, apus_wire_endpoint_record_partitions(r, list));
	require_list(r, list, apus_wire_endpoint_record_parameters(r, list));
	require(r->locators.unicast.count <= APUS_WIRE_LOCATORS_MAX);
	require(r->locators.multicast.count <= APUS_WIRE_LOCATORS_MAX);
	require(r->qos.depth >= 1 && r->qos.representation_count >= 1);
	require(r->qos.deadline_ns >= 0 && r->qos.lease_ns >= 0 && r->qos.lifespan_ns >= 0);
}

/* What the encoder does not announce, or not of this kind of endpoint. */
static void forget_local(struct apus_wire_endpoint_record *r)
{
	r->locators.unicast.skipped_count = 0;
	r->locators.multicast.skipped_count = 0;
	memset(&r->types, 0, sizeof(r->types));
	r->qos.max_samples = 0;
	r->qos.max_instances = 0;
	r->qos.max_samples_per_instance = 0;
	if (r->qos.history == APUS_KEEP_ALL)
		r->qos.depth = 1;
	if (r->is_writer) {
		r->qos.time_filter_ns = 0;
		r->expects_inline_qos = false;
		memset(&r->qos.consistency, 0, sizeof(r->qos.consistency));
		r->qos.consistency.kind = APUS_ALLOW_TYPE_COERCION;
		r->qos.consistency.ignore_sequence_bounds = true;
		r->qos.consistency.ignore_string_bounds = true;
	} else {
		r->group.value = 0; /* of a subscriber: nobody needs it */
		r->qos.strength = 0;
		r->qos.transport_priority = 0;
		r->qos.lifespan_ns = APUS_INFINITE_NS;
		r->max_sample_bytes = 0;
	}
}

static void fuzz_endpoint(const uint8_t *data, size_t size, bool is_writer)
{
	static struct apus_wire_endpoint_record first, again;
	int bytes;

	if (apus_wire_endpoint_decode(data, size, is_writer, &first) != APUS_WIRE_ACCEPT)
		return;
	require_invariants(&first);
	/* A filter over a limit is not passed on; the record then differs in more than the filter. */
	if (first.filter.over_limit)
		return;
	forget_local(&first);
	bytes = apus_wire_endpoint_encode(&first, payload, sizeof(payload));
	require(bytes > 0);
	require(apus_wire_endpoint_decode(payload, (size_t)bytes, is_writer, &again) ==
		APUS_WIRE_ACCEPT);
	require(apus_wire_endpoint_record_bytes(&first) == apus_wire_endpoint_record_bytes(&again));
	require(memcmp(&first, &again, apus_wire_endpoint_record_bytes(&first)) == 0);
	require(memcmp(&first.locators, &again.locators, sizeof(first.locators)) == 0);
}

static void fuzz_participant(const uint8_t *data, size_t size)
{
	static struct apus_wire_participant_record first, again;
	int bytes;

	if (apus_wire_participant_decode(data, size, &first) != APUS_WIRE_ACCEPT)
		return;
	require(strnlen(first.name, sizeof(first.name)) < sizeof(first.name));
	require(first.lease_ns >= 0);
	/* An absent version was not refused, but a written 0.0 would be. */
	if (first.version_major == 0)
		first.version_major = 2;
	first.metatraffic_unicast.skipped_count = 0;
	first.metatraffic_multicast.skipped_count = 0;
	first.default_unicast.skipped_count = 0;
	first.default_multicast.skipped_count = 0;
	memset(first.name + strlen(first.name), 0, sizeof(first.name) - strlen(first.name));
	bytes = apus_wire_participant_encode(&first, payload, sizeof(payload));
	require(bytes > 0);
	require(apus_wire_participant_decode(payload, (size_t)bytes, &again) == APUS_WIRE_ACCEPT);
	require(memcmp(&first, &again, sizeof(first)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct apus_wire_liveliness message;
	struct apus_guid guid;

	fuzz_participant(data, size);
	fuzz_endpoint(data, size, false);
	fuzz_endpoint(data, size, true);
	apus_wire_participant_key_decode(data, size, &guid);
	apus_wire_endpoint_key_decode(data, size, &guid);
	apus_wire_liveliness_decode(data, size, &message);
	return 0;
}
