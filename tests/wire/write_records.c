/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a capture file (argument 1) with discovery traffic encoded by wire/: a participant, a writer, a
 * filtered reader, a plain reader, their disposes and liveliness assertions. check_records.py has tshark
 * judge it. The values stand there again.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/message.h"
#include "wire/record.h"

#define LINKTYPE_IPV4 228

static const struct apus_prefix prefix = {{1, 0xee, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}};
static FILE *file;

static void require(bool condition)
{
	if (!condition)
		abort();
}

static void write_packet(const uint8_t *datagram, uint32_t count)
{
	uint8_t headers[28] = {0x45, [8] = 64, 17, [12] = 127, 0, 0, 1, 239, 255, 0, 1};
	const uint32_t total = count + sizeof(headers);
	const uint32_t record[4] = {0, 0, total, total};
	const uint16_t fields[] = {htons((uint16_t)total), htons(40000), htons(7400),
				   htons((uint16_t)(count + 8))};

	memcpy(headers + 2, &fields[0], 2);
	memcpy(headers + 20, &fields[1], 6);
	require(fwrite(record, sizeof(record), 1, file) == 1);
	require(fwrite(headers, sizeof(headers), 1, file) == 1);
	require(fwrite(datagram, count, 1, file) == 1);
}

/* Sends one payload as the given builtin writer; key_only as a dispose with key hash. */
static void write_data(uint32_t writer, apus_seq seq, const uint8_t *payload, int count,
		       const struct apus_guid *key)
{
	static uint8_t buffer[60000];
	struct apus_wire_builder b;
	struct apus_wire_data_out data = {
		.writer = {writer},
		.seq = seq,
		.payload = payload,
		.payload_bytes = (uint32_t)count,
		.key_only = key != NULL,
	};

	require(count > 0);
	if (key) {
		data.qos.key_hash = key->bytes;
		data.qos.status_info = APUS_WIRE_STATUS_DISPOSED | APUS_WIRE_STATUS_UNREGISTERED;
	}
	require(apus_wire_begin(&b, buffer, sizeof(buffer), &prefix) == 0);
	require(apus_wire_data(&b, &data) == 0);
	write_packet(buffer, b.length);
}

static struct apus_locator locator(uint32_t port)
{
	return (struct apus_locator){1, port, {[12] = 127, [15] = 1}};
}

static void write_participant(uint8_t *payload, size_t capacity)
{
	struct apus_wire_participant_record record = {
		.prefix = prefix,
		.version_major = 2,
		.version_minor = 3,
		.vendor = APUS_WIRE_VENDOR,
		.has_domain = true,
		.domain = 7,
		.builtin_endpoints = APUS_WIRE_BUILTIN_ALL,
		.lease_ns = 10500000000,
		.metatraffic_unicast = {1, 0, {locator(9160)}},
		.metatraffic_multicast = {1, 0, {locator(9150)}},
		.default_unicast = {2, 0, {locator(9161), {2, 9161, {[15] = 1}}}},
		.default_multicast = {1, 0, {locator(9151)}},
		.name = "swift",
	};
	struct apus_guid guid = apus_guid_make(&prefix, (struct apus_eid){0x1c1});

	write_data(0x000100c2, 1, payload, apus_wire_participant_encode(&record, payload, capacity),
		   NULL);
	write_data(0x000100c2, 2, payload,
		   apus_wire_participant_key_encode(&guid, payload, capacity), &guid);
}

static void write_endpoint(const struct apus_wire_endpoint_source *source, apus_seq seq,
			   uint8_t *payload, size_t capacity)
{
	static struct apus_wire_endpoint_record record;
	uint32_t builtin = source->is_writer ? 0x000003c2 : 0x000004c2;

	require(apus_wire_endpoint_record_make(source, &record) == 0);
	record.locators.unicast.count = 1;
	record.locators.unicast.at[0] = locator(9161);
	write_data(builtin, seq, payload, apus_wire_endpoint_encode(&record, payload, capacity),
		   NULL);
	write_data(builtin, seq + 10, payload,
		   apus_wire_endpoint_key_encode(&source->guid, payload, capacity), &source->guid);
}

static void write_endpoints(uint8_t *payload, size_t capacity)
{
	static const char *const partitions[] = {"robot/*", "diagnostics"};
	static const char *const parameters[] = {"'RED'", "5"};
	struct apus_qos qos = {
		.reliability = APUS_RELIABLE,
		.durability = APUS_TRANSIENT_LOCAL,
		.depth = 3,
		.liveliness = APUS_MANUAL_BY_TOPIC,
		.ownership = APUS_EXCLUSIVE,
		.strength = -5,
		.max_blocking_ns = 100000000,
		.deadline_ns = 400000000,
		.lease_ns = APUS_INFINITE_NS,
		.lifespan_ns = 1500000000,
		.partitions = partitions,
		.partition_count = 2,
		.representations = {0, 2},
		.representation_count = 2,
	};
	struct apus_wire_endpoint_source source = {
		.guid = apus_guid_make(&prefix, (struct apus_eid){0x102}),
		.is_writer = true,
		.max_sample_bytes = 152,
		.topic = "Square",
		.type = "ShapeType",
		.qos = &qos,
	};

	write_endpoint(&source, 1, payload, capacity);
	source.is_writer = false;
	source.guid = apus_guid_make(&prefix, (struct apus_eid){0x207});
	qos.time_filter_ns = 200000000;
	qos.history = APUS_KEEP_ALL;
	write_endpoint(&source, 1, payload, capacity);
	source.guid = apus_guid_make(&prefix, (struct apus_eid){0x307});
	source.filter_name = "RedSquares";
	source.filter_class = "DDSSQL";
	source.filter_expression = "color = %0 AND x > %1";
	source.filter_parameters = parameters;
	source.filter_parameter_count = 2;
	write_endpoint(&source, 2, payload, capacity);
}

int main(int argc, char **argv)
{
	static uint8_t payload[APUS_WIRE_RECORD_PAYLOAD_MAX];
	const uint32_t header[6] = {0xa1b2c3d4, 2 | 4 << 16, 0, 0, 65535, LINKTYPE_IPV4};
	struct apus_wire_liveliness message = {prefix, APUS_WIRE_LIVELINESS_AUTOMATIC};

	if (argc != 2 || !(file = fopen(argv[1], "wb")))
		return 2;
	require(fwrite(header, sizeof(header), 1, file) == 1);
	write_participant(payload, sizeof(payload));
	write_endpoints(payload, sizeof(payload));
	write_data(0x000200c2, 1, payload,
		   apus_wire_liveliness_encode(&message, payload, sizeof(payload)), NULL);
	return fclose(file) == 0 ? 0 : 2;
}
