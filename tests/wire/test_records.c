/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: an endpoint record says what its bytes say; absent policies are defaults, wrong ones reject.
 * Method: hand-made payloads with one property each, over a minimal valid endpoint.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/wire/record_util.h"

static struct apus_wire_endpoint_record record;
static struct raw_list list;

/* Verdict of the minimal endpoint with one more parameter of whole words. */
static enum apus_wire_verdict with_words(bool is_writer, uint16_t pid, const uint32_t *words,
					 size_t count)
{
	raw_begin_endpoint(&list, is_writer, false);
	raw_words(&list, pid, words, count);
	raw_end(&list);
	return decode_endpoint(list.bytes, list.count, is_writer, &record);
}

static enum apus_wire_verdict finish(bool is_writer)
{
	raw_end(&list);
	return decode_endpoint(list.bytes, list.count, is_writer, &record);
}

static void test_absent_policies_are_defaults(void **state)
{
	(void)state;
	for (int is_writer = 0; is_writer <= 1; is_writer++) {
		raw_begin_endpoint(&list, is_writer, false);
		assert_int_equal(finish(is_writer), APUS_WIRE_ACCEPT);
		assert_int_equal(record.is_writer, is_writer);
		assert_int_equal(record.qos.reliability,
				 is_writer ? APUS_RELIABLE : APUS_BEST_EFFORT);
		assert_int_equal(record.qos.durability, APUS_VOLATILE);
		assert_int_equal(record.qos.history, APUS_KEEP_LAST);
		assert_int_equal(record.qos.depth, 1);
		assert_int_equal(record.qos.deadline_ns, APUS_INFINITE_NS);
		assert_int_equal(record.qos.lease_ns, APUS_INFINITE_NS);
		assert_int_equal(record.qos.lifespan_ns, APUS_INFINITE_NS);
		assert_int_equal(record.qos.latency_budget_ns, 0);
		assert_int_equal(record.qos.max_blocking_ns, 100000000);
		assert_int_equal(record.qos.representation_count, 1);
		assert_int_equal(record.qos.representations[0], 0);
		assert_null(record.qos.partitions);
		assert_int_equal(record.partition_count, 0);
		assert_false(record.filter.present);
		assert_string_equal(apus_wire_record_text(&record, record.topic), "Square");
		assert_string_equal(apus_wire_record_text(&record, record.type), "ShapeType");
		assert_string_equal(apus_wire_record_text(&record, record.filter.name), "");
	}
}

#define INF  0x7fffffffu, 0xffffffffu
#define NEG  0x80000000u, 0u
#define NONE 0xffffffffu

static void test_policies_out_of_range_reject_the_record(void **state)
{
	static const struct {
		uint16_t pid;
		uint32_t words[7];
		size_t good_words;
		uint32_t bad[7];
	} cases[] = {
		{APUS_PID_RELIABILITY, {2, 0, 0}, 3, {3, 0, 0}},
		{APUS_PID_RELIABILITY, {1, INF}, 3, {0, 0, 0}},
		{APUS_PID_RELIABILITY, {1, 1, 0}, 3, {1, NEG}},
		{APUS_PID_DURABILITY, {3}, 1, {4}},
		{APUS_PID_DURABILITY, {0}, 1, {NONE}},
		{APUS_PID_OWNERSHIP, {1}, 1, {2}},
		{APUS_PID_DESTINATION_ORDER, {1}, 1, {2}},
		{APUS_PID_LIVELINESS, {2, INF}, 3, {3, INF}},
		{APUS_PID_LIVELINESS, {0, 1, 0}, 3, {0, NEG}},
		{APUS_PID_DEADLINE, {INF}, 2, {NEG}},
		{APUS_PID_LATENCY_BUDGET, {0, 0}, 2, {NEG}},
		{APUS_PID_LIFESPAN, {INF}, 2, {NONE, NONE}},
		{APUS_PID_TIME_BASED_FILTER, {0, 1}, 2, {NEG}},
		{APUS_PID_PRESENTATION, {2, 0x0101}, 2, {3, 0}},
		{APUS_PID_PRESENTATION, {0, 0x0001}, 2, {0, 0x0002}},
		{APUS_PID_PRESENTATION, {0, 0x0100}, 2, {0, 0x0200}},
		{APUS_PID_HISTORY, {0, 1}, 2, {0, 0}},
		{APUS_PID_HISTORY, {1, 0}, 2, {2, 1}},
		{APUS_PID_HISTORY, {1, NONE}, 2, {0, NONE}},
		{APUS_PID_RESOURCE_LIMITS, {NONE, NONE, NONE}, 3, {0xfffffffeu, 1, 1}},
		{APUS_PID_RESOURCE_LIMITS, {1, 1, 1}, 3, {1, 1, NEG}},
		{APUS_PID_DURABILITY_SERVICE, {0, 0, 0, 1, NONE, NONE, NONE}, 7, {NEG, 0, 1}},
		{APUS_PID_DURABILITY_SERVICE, {INF, 1, 0, 1, 1, 1}, 7, {0, 0, 2, 1, 1, 1, 1}},
		{APUS_PID_EXPECTS_INLINE_QOS, {1}, 1, {2}},
		{APUS_PID_TYPE_CONSISTENCY, {1, 0}, 2, {2, 0}},
		{APUS_PID_OWNERSHIP_STRENGTH, {NONE}, 1, {0}},
		{APUS_PID_TRANSPORT_PRIORITY, {7}, 1, {0}},
		{APUS_PID_TYPE_MAX_SIZE_SERIALIZED, {NONE}, 1, {0}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint16_t pid = cases[i].pid;
		size_t words = cases[i].good_words;
		/* Three kinds of value have no wrong ones. */
		bool any_value = pid == APUS_PID_OWNERSHIP_STRENGTH ||
				 pid == APUS_PID_TRANSPORT_PRIORITY ||
				 pid == APUS_PID_TYPE_MAX_SIZE_SERIALIZED;

		assert_int_equal(with_words(true, pid, cases[i].words, words), APUS_WIRE_ACCEPT);
		assert_int_equal(with_words(false, pid, cases[i].words, words), APUS_WIRE_ACCEPT);
		/* A longer value is a later version's. */
		assert_int_equal(with_words(true, pid, cases[i].words, 7), APUS_WIRE_ACCEPT);
		for (size_t less = 0; less < words; less++)
			if (!(pid == APUS_PID_TYPE_CONSISTENCY && less == 1))
				assert_int_equal(with_words(true, pid, cases[i].words, less),
						 APUS_WIRE_MALFORMED);
		if (!any_value)
			assert_int_equal(with_words(true, pid, cases[i].bad, words),
					 APUS_WIRE_MALFORMED);
	}
}

static void test_policies_present_are_kept(void **state)
{
	(void)state;
	raw_begin_endpoint(&list, true, true);
	raw_words(&list, APUS_PID_RELIABILITY, (uint32_t[]){1, 2, 0x80000000u}, 3);
	raw_words(&list, APUS_PID_DURABILITY, (uint32_t[]){1}, 1);
	raw_words(&list, APUS_PID_HISTORY, (uint32_t[]){0, 17}, 2);
	raw_words(&list, APUS_PID_RESOURCE_LIMITS, (uint32_t[]){100, NONE, 20}, 3);
	raw_words(&list, APUS_PID_LIVELINESS, (uint32_t[]){2, 3, 0}, 3);
	raw_words(&list, APUS_PID_OWNERSHIP, (uint32_t[]){1}, 1);
	raw_words(&list, APUS_PID_OWNERSHIP_STRENGTH, (uint32_t[]){0xfffffff6u}, 1);
	raw_words(&list, APUS_PID_DEADLINE, (uint32_t[]){1, 0x40000000u}, 2);
	raw_words(&list, APUS_PID_LIFESPAN, (uint32_t[]){9, 0}, 2);
	assert_int_equal(finish(true), APUS_WIRE_ACCEPT);
	assert_int_equal(record.qos.reliability, APUS_BEST_EFFORT);
	assert_int_equal(record.qos.max_blocking_ns, 2500000000);
	assert_int_equal(record.qos.durability, APUS_TRANSIENT_LOCAL);
	assert_int_equal(record.qos.depth, 17);
	assert_int_equal(record.qos.max_samples, 100);
	assert_int_equal(record.qos.max_instances, 0);
	assert_int_equal(record.qos.max_samples_per_instance, 20);
	assert_int_equal(record.qos.liveliness, APUS_MANUAL_BY_TOPIC);
	assert_int_equal(record.qos.lease_ns, 3000000000);
	assert_int_equal(record.qos.ownership, APUS_EXCLUSIVE);
	assert_int_equal(record.qos.strength, -10);
	assert_int_equal(record.qos.deadline_ns, 1250000000);
	assert_int_equal(record.qos.lifespan_ns, 9000000000);
}

static enum apus_wire_verdict with_representations(const int16_t *ids, uint32_t count,
						   uint32_t said)
{
	raw_begin_endpoint(&list, true, false);
	raw_open(&list, APUS_PID_DATA_REPRESENTATION);
	raw_u32(&list, said);
	for (uint32_t i = 0; i < count; i++)
		raw_u16(&list, (uint16_t)ids[i]);
	raw_close(&list);
	return finish(true);
}

static void test_representations(void **state)
{
	const int16_t many[] = {77, 2, 2, 5, 0, -1, 1, 0, 2, 1};

	(void)state;
	assert_int_equal(with_representations(many, 10, 10), APUS_WIRE_ACCEPT);
	assert_int_equal(record.qos.representation_count, 4);
	assert_int_equal(record.qos.representations[0], 77);
	assert_int_equal(record.qos.representations[1], 2);
	assert_int_equal(record.qos.representations[2], 0);
	assert_int_equal(record.qos.representations[3], 1);
	assert_int_equal(with_representations(many, 0, 0), APUS_WIRE_ACCEPT);
	assert_int_equal(record.qos.representation_count, 1);
	assert_int_equal(record.qos.representations[0], 0);
	assert_int_equal(with_representations(many, 4, 5), APUS_WIRE_MALFORMED);
	assert_int_equal(with_representations(many, 4, UINT32_MAX), APUS_WIRE_MALFORMED);
}

static void test_last_parameter_counts_and_locators_accumulate(void **state)
{
	(void)state;
	raw_begin_endpoint(&list, false, false);
	raw_words(&list, APUS_PID_DURABILITY, (uint32_t[]){1}, 1);
	raw_words(&list, APUS_PID_DURABILITY, (uint32_t[]){0}, 1);
	raw_name(&list, APUS_PID_TOPIC_NAME, "Circle");
	for (uint32_t i = 0; i < 10; i++)
		raw_locator(&list, APUS_PID_UNICAST_LOCATOR, 1, 7411 + i, 1);
	raw_locator(&list, APUS_PID_MULTICAST_LOCATOR, 16, 7411, 1);
	raw_locator(&list, APUS_PID_MULTICAST_LOCATOR, 1, 0, 1);
	raw_locator(&list, APUS_PID_MULTICAST_LOCATOR, 1, 65536, 1);
	raw_locator(&list, APUS_PID_MULTICAST_LOCATOR, 2, 65535, 1);
	assert_int_equal(finish(false), APUS_WIRE_ACCEPT);
	assert_int_equal(record.qos.durability, APUS_VOLATILE);
	assert_string_equal(apus_wire_record_text(&record, record.topic), "Circle");
	assert_int_equal(record.locators.unicast.count, 8);
	assert_int_equal(record.locators.unicast.skipped_count, 2);
	assert_int_equal(record.locators.unicast.at[7].port, 7418);
	assert_int_equal(record.locators.unicast.at[7].address[12], 127);
	assert_int_equal(record.locators.multicast.count, 1);
	assert_int_equal(record.locators.multicast.skipped_count, 3);
	assert_int_equal(record.locators.multicast.at[0].kind, APUS_LOCATOR_UDPV6);
}

static void test_unknown_parameters(void **state)
{
	static const struct {
		uint16_t pid;
		enum apus_wire_verdict verdict;
	} cases[] = {
		{0x3f00, APUS_WIRE_ACCEPT}, {0x7f00, APUS_WIRE_SKIP},   {0x8042, APUS_WIRE_ACCEPT},
		{0xc042, APUS_WIRE_ACCEPT}, {0x4014, APUS_WIRE_SKIP},   {0x402c, APUS_WIRE_ACCEPT},
		{0x401d, APUS_WIRE_ACCEPT}, {0x0075, APUS_WIRE_ACCEPT},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(with_words(true, cases[i].pid, (uint32_t[]){1}, 1),
				 cases[i].verdict);
	assert_int_equal(with_words(true, 0x401d, (uint32_t[]){1}, 1), APUS_WIRE_ACCEPT);
	assert_int_equal(record.qos.durability, APUS_TRANSIENT_LOCAL);
	/* Malformed outweighs not understood. */
	raw_begin_endpoint(&list, true, false);
	raw_words(&list, 0x7f00, (uint32_t[]){1}, 1);
	raw_words(&list, APUS_PID_DURABILITY, (uint32_t[]){9}, 1);
	assert_int_equal(finish(true), APUS_WIRE_MALFORMED);
}

/* An endpoint whose identity is given by the arguments; 0 leaves a parameter out. */
static enum apus_wire_verdict identity(uint32_t eid, uint32_t hash_eid, const uint8_t *participant,
				       bool is_writer)
{
	raw_begin(&list, false);
	raw_name(&list, APUS_PID_TOPIC_NAME, "Square");
	raw_name(&list, APUS_PID_TYPE_NAME, "ShapeType");
	if (eid)
		raw_guid(&list, APUS_PID_ENDPOINT_GUID, test_prefix, eid);
	if (hash_eid)
		raw_guid(&list, APUS_PID_KEY_HASH, test_prefix, hash_eid);
	if (participant)
		raw_guid(&list, APUS_PID_PARTICIPANT_GUID, participant, 0x000001c1);
	return finish(is_writer);
}

static void test_identity(void **state)
{
	static const uint8_t other[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13}, zero[12];

	(void)state;
	assert_int_equal(identity(0x102, 0, NULL, true), APUS_WIRE_ACCEPT);
	assert_int_equal(identity(0x103, 0, test_prefix, true), APUS_WIRE_ACCEPT);
	assert_int_equal(identity(0x107, 0, test_prefix, false), APUS_WIRE_ACCEPT);
	assert_int_equal(identity(0x104, 0, NULL, false), APUS_WIRE_ACCEPT);
	assert_int_equal(identity(0, 0x102, NULL, true), APUS_WIRE_ACCEPT);
	assert_int_equal(apus_guid_eid(&record.guid).value, 0x102);
	assert_int_equal(identity(0x107, 0, NULL, true), APUS_WIRE_MALFORMED);
	assert_int_equal(identity(0x102, 0, NULL, false), APUS_WIRE_MALFORMED);
	assert_int_equal(identity(0x1c1, 0, NULL, true), APUS_WIRE_MALFORMED);
	assert_int_equal(identity(0, 0, test_prefix, true), APUS_WIRE_MALFORMED);
	assert_int_equal(identity(0x102, 0, other, true), APUS_WIRE_MALFORMED);
	assert_int_equal(identity(0x102, 0, zero, true), APUS_WIRE_MALFORMED);
	raw_begin(&list, false);
	raw_guid(&list, APUS_PID_ENDPOINT_GUID, zero, 0x102);
	raw_name(&list, APUS_PID_TOPIC_NAME, "Square");
	raw_name(&list, APUS_PID_TYPE_NAME, "ShapeType");
	assert_int_equal(finish(true), APUS_WIRE_MALFORMED);
}

static void test_names(void **state)
{
	char name[257];

	(void)state;
	memset(name, 'n', sizeof(name));
	name[255] = '\0';
	raw_begin_endpoint(&list, true, false);
	raw_name(&list, APUS_PID_TOPIC_NAME, name);
	raw_name(&list, APUS_PID_TYPE_NAME, name);
	assert_int_equal(finish(true), APUS_WIRE_ACCEPT);
	assert_int_equal(record.topic.bytes, 255);
	name[255] = 'n';
	name[256] = '\0';
	for (uint16_t pid = APUS_PID_TOPIC_NAME; pid <= APUS_PID_TYPE_NAME; pid += 2) {
		raw_begin_endpoint(&list, true, false);
		raw_name(&list, pid, name);
		assert_int_equal(finish(true), APUS_WIRE_MALFORMED);
		raw_begin_endpoint(&list, true, false);
		raw_name(&list, pid, "");
		assert_int_equal(finish(true), APUS_WIRE_MALFORMED);
		raw_begin(&list, false);
		raw_guid(&list, APUS_PID_ENDPOINT_GUID, test_prefix, 0x102);
		raw_name(&list, pid, "Only");
		assert_int_equal(finish(true), APUS_WIRE_MALFORMED);
	}
}

static enum apus_wire_verdict with_partitions(uint32_t count, uint32_t said, size_t name_bytes)
{
	char name[300];

	memset(name, 'p', name_bytes);
	name[name_bytes] = '\0';
	raw_begin_endpoint(&list, false, false);
	raw_open(&list, APUS_PID_PARTITION);
	raw_u32(&list, said);
	for (uint32_t i = 0; i < count; i++)
		raw_string(&list, name);
	raw_close(&list);
	return finish(false);
}

static void test_partitions(void **state)
{
	const char *names[APUS_WIRE_PARTITIONS_MAX];
	struct apus_qos qos;

	(void)state;
	assert_int_equal(with_partitions(64, 64, 255), APUS_WIRE_ACCEPT);
	apus_wire_endpoint_record_qos(&record, names, &qos);
	assert_int_equal(qos.partition_count, 64);
	assert_int_equal(strlen(qos.partitions[63]), 255);
	assert_int_equal(with_partitions(1, 1, 0), APUS_WIRE_ACCEPT);
	assert_int_equal(apus_wire_endpoint_record_partitions(&record, names), 1);
	assert_string_equal(names[0], "");
	assert_int_equal(with_partitions(0, 0, 0), APUS_WIRE_ACCEPT);
	apus_wire_endpoint_record_qos(&record, names, &qos);
	assert_int_equal(qos.partition_count, 0);
	assert_null(qos.partitions);
	assert_int_equal(with_partitions(65, 65, 1), APUS_WIRE_MALFORMED);
	assert_int_equal(with_partitions(1, 1, 256), APUS_WIRE_MALFORMED);
	assert_int_equal(with_partitions(2, 3, 1), APUS_WIRE_MALFORMED);
	assert_int_equal(with_partitions(2, UINT32_MAX, 1), APUS_WIRE_MALFORMED);
}

static void test_type_information(void **state)
{
	/* XTypes 1.3: both forms of the member header, then what must be passed over. */
	static const uint32_t good4[] = {0x30,       0x40001001, 0x28,       0x24,       0x14,
					 0x030201f1, 0x07060504, 0x0b0a0908, 0x000e0d0c, 200,
					 0,          4,          0};
	static const uint32_t good5[] = {0x2c,       0x50001001, 0x24, 0x14, 0x030201f1, 0x07060504,
					 0x0b0a0908, 0x000e0d0c, 200,  0,    4,          0};
	static const uint32_t complete[] = {0x30,       0x40001002, 0x28,       0x24,       0x14,
					    0x030201f2, 0x07060504, 0x0b0a0908, 0x000e0d0c, 200,
					    0,          4,          0};
	static const uint8_t hash[14] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
	uint32_t changed[13];

	(void)state;
	assert_int_equal(with_words(true, APUS_PID_TYPE_INFORMATION, good4, 13), APUS_WIRE_ACCEPT);
	assert_int_equal(record.types.minimal.kind, APUS_WIRE_EK_MINIMAL);
	assert_memory_equal(record.types.minimal.bytes, hash, 14);
	assert_int_equal(record.types.minimal_bytes, 200);
	assert_int_equal(record.types.complete.kind, APUS_WIRE_EK_NONE);
	assert_int_equal(with_words(true, APUS_PID_TYPE_INFORMATION, good5, 12), APUS_WIRE_ACCEPT);
	assert_memory_equal(record.types.minimal.bytes, hash, 14);
	assert_int_equal(with_words(true, APUS_PID_TYPE_INFORMATION, complete, 13),
			 APUS_WIRE_ACCEPT);
	assert_int_equal(record.types.minimal.kind, APUS_WIRE_EK_NONE);
	assert_int_equal(record.types.complete.kind, APUS_WIRE_EK_COMPLETE);
	assert_memory_equal(record.types.complete.bytes, hash, 14);
	for (size_t words = 0; words < 13; words++) {
		assert_int_equal(with_words(true, APUS_PID_TYPE_INFORMATION, good4, words),
				 APUS_WIRE_ACCEPT);
		assert_int_equal(record.types.minimal.kind, APUS_WIRE_EK_NONE);
	}
	/* A length one too long, a hash of the wrong kind, an identifier that is no hash. */
	for (size_t i = 0; i < 5; i++) {
		memcpy(changed, good4, sizeof(changed));
		changed[i] += i == 1 ? 0 : 0x100;
		if (i == 1)
			changed[5] = 0x030201f2;
		assert_int_equal(with_words(true, APUS_PID_TYPE_INFORMATION, changed, 13),
				 APUS_WIRE_ACCEPT);
		assert_int_equal(record.types.minimal.kind, APUS_WIRE_EK_NONE);
		assert_int_equal(record.types.complete.kind, APUS_WIRE_EK_NONE);
	}
}

static void test_type_consistency(void **state)
{
	static const uint32_t strict[] = {0x00000000, 0x00010100};
	static const uint32_t every[] = {0x01010001, 0x00010101};
	static const uint32_t kind_only[] = {0x00000000};
	static const uint32_t bad_kind[] = {0x00000002, 0}, bad_flag[] = {0x02000001, 0};
	const struct apus_type_consistency *c = &record.qos.consistency;

	(void)state;
	assert_int_equal(with_words(false, APUS_PID_TYPE_CONSISTENCY, strict, 2), APUS_WIRE_ACCEPT);
	assert_int_equal(c->kind, APUS_DISALLOW_TYPE_COERCION);
	assert_false(c->ignore_sequence_bounds || c->ignore_string_bounds ||
		     c->ignore_member_names);
	assert_true(c->prevent_type_widening && c->force_type_validation);
	assert_int_equal(with_words(false, APUS_PID_TYPE_CONSISTENCY, every, 2), APUS_WIRE_ACCEPT);
	assert_int_equal(c->kind, APUS_ALLOW_TYPE_COERCION);
	assert_true(c->ignore_sequence_bounds && c->ignore_string_bounds &&
		    c->ignore_member_names && c->prevent_type_widening && c->force_type_validation);
	assert_int_equal(with_words(false, APUS_PID_TYPE_CONSISTENCY, kind_only, 1),
			 APUS_WIRE_ACCEPT);
	assert_true(c->kind == APUS_DISALLOW_TYPE_COERCION && c->ignore_string_bounds);
	assert_int_equal(with_words(false, APUS_PID_TYPE_CONSISTENCY, bad_kind, 2),
			 APUS_WIRE_MALFORMED);
	assert_int_equal(with_words(false, APUS_PID_TYPE_CONSISTENCY, bad_flag, 2),
			 APUS_WIRE_MALFORMED);
}

/* What goes with samples, read back as part of a record. */
static void read_inline(uint32_t partition_count, uint32_t *bytes_out)
{
	static const char long_name[] =
		"a partition with a name of its own that is long enough to fill the list soon";
	const char *partitions[APUS_WIRE_PARTITIONS_MAX];
	static struct apus_wire_endpoint_record writer;
	uint8_t bytes[APUS_WIRE_INLINE_QOS_BYTES];
	struct apus_wire_endpoint_source source = {
		.is_writer = true, .topic = "Circle", .type = "T"};
	struct apus_qos qos;

	apus_qos_writer_default(&qos);
	qos.ownership = APUS_EXCLUSIVE;
	qos.strength = 9;
	qos.deadline_ns = 1500000000;
	qos.lifespan_ns = 2500000000;
	qos.durability = APUS_TRANSIENT_LOCAL;
	for (uint32_t i = 0; i < partition_count; i++)
		partitions[i] = long_name;
	qos.partitions = partitions;
	qos.partition_count = partition_count;
	source.qos = &qos;
	source.guid = apus_guid_make(&(struct apus_prefix){{1}}, (struct apus_eid){0x102});
	assert_int_equal(apus_wire_endpoint_record_make(&source, &writer), 0);
	*bytes_out = apus_wire_inline_qos_encode(&writer, bytes);
	assert_in_range(*bytes_out, 100, sizeof(bytes));
	assert_int_equal(*bytes_out % 4, 0);
	raw_begin_endpoint(&list, true, false);
	memcpy(list.bytes + list.count, bytes, *bytes_out);
	list.count += *bytes_out;
	assert_int_equal(finish(true), APUS_WIRE_ACCEPT);
	assert_string_equal(apus_wire_record_text(&record, record.topic), "Circle");
	assert_int_equal(record.qos.ownership, APUS_EXCLUSIVE);
	assert_int_equal(record.qos.strength, 9);
	assert_int_equal(record.qos.deadline_ns, 1500000000);
	assert_int_equal(record.qos.lifespan_ns, 2500000000);
	assert_int_equal(record.qos.durability, APUS_TRANSIENT_LOCAL);
}

static void test_inline_qos(void **state)
{
	uint32_t bytes;

	(void)state;
	read_inline(0, &bytes);
	assert_int_equal(record.partition_count, 0);
	read_inline(3, &bytes);
	assert_int_equal(record.partition_count, 3);
	/* Too long for every sample: left out as a whole. */
	read_inline(APUS_WIRE_PARTITIONS_MAX, &bytes);
	assert_int_equal(record.partition_count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_absent_policies_are_defaults),
		cmocka_unit_test(test_policies_out_of_range_reject_the_record),
		cmocka_unit_test(test_policies_present_are_kept),
		cmocka_unit_test(test_representations),
		cmocka_unit_test(test_last_parameter_counts_and_locators_accumulate),
		cmocka_unit_test(test_unknown_parameters),
		cmocka_unit_test(test_identity),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_partitions),
		cmocka_unit_test(test_type_information),
		cmocka_unit_test(test_type_consistency),
		cmocka_unit_test(test_inline_qos),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
