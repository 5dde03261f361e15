/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: participant records, keys and liveliness messages are read as they are and written so that they
 * read back the same; foreign and wrong ones are told apart.
 * Method: hand-made payloads with one property each; random participants through encode and decode;
 * truncation at every byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/wire/record_util.h"

static struct apus_wire_participant_record record, second;
static struct raw_list list;
static uint8_t payload[4096];

static void begin(bool big)
{
	raw_begin(&list, big);
	raw_guid(&list, APUS_PID_PARTICIPANT_GUID, test_prefix, 0x000001c1);
}

static enum apus_wire_verdict finish(void)
{
	raw_end(&list);
	return decode_participant(list.bytes, list.count, &record);
}

static enum apus_wire_verdict with_words(uint16_t pid, const uint32_t *words, size_t count)
{
	begin(false);
	raw_words(&list, pid, words, count);
	return finish();
}

static void test_minimal_participant(void **state)
{
	(void)state;
	begin(false);
	assert_int_equal(finish(), APUS_WIRE_ACCEPT);
	assert_memory_equal(record.prefix.bytes, test_prefix, 12);
	assert_int_equal(record.lease_ns, INT64_C(100000000000));
	assert_false(record.has_domain);
	assert_int_equal(record.vendor, 0);
	assert_int_equal(record.builtin_endpoints, 0);
	assert_string_equal(record.name, "");
	assert_int_equal(record.default_unicast.count, 0);
}

static void test_full_participant_in_big_endian(void **state)
{
	(void)state;
	begin(true);
	raw_open(&list, APUS_PID_PROTOCOL_VERSION);
	raw_bytes(&list, "\x02\x05", 2);
	raw_close(&list);
	raw_open(&list, APUS_PID_VENDOR_ID);
	raw_bytes(&list, "\x01\x10", 2);
	raw_close(&list);
	raw_words(&list, APUS_PID_DOMAIN_ID, (uint32_t[]){7}, 1);
	raw_words(&list, APUS_PID_PARTICIPANT_LEASE_DURATION, (uint32_t[]){3, 0x80000000u}, 2);
	raw_words(&list, APUS_PID_BUILTIN_ENDPOINT_SET, (uint32_t[]){0xfc3f}, 1);
	raw_words(&list, APUS_PID_EXPECTS_INLINE_QOS, (uint32_t[]){0x01000000}, 1);
	raw_name(&list, APUS_PID_ENTITY_NAME, "swift");
	raw_locator(&list, APUS_PID_DEFAULT_UNICAST_LOCATOR, 1, 7411, 1);
	raw_locator(&list, APUS_PID_DEFAULT_MULTICAST_LOCATOR, 1, 7401, 2);
	raw_locator(&list, APUS_PID_METATRAFFIC_UNICAST_LOCATOR, 1, 7410, 3);
	raw_locator(&list, APUS_PID_METATRAFFIC_UNICAST_LOCATOR, 16, 7410, 3);
	raw_locator(&list, APUS_PID_METATRAFFIC_MULTICAST_LOCATOR, 1, 7400, 4);
	assert_int_equal(finish(), APUS_WIRE_ACCEPT);
	assert_int_equal(record.version_major, 2);
	assert_int_equal(record.version_minor, 5);
	assert_int_equal(record.vendor, 0x0110);
	assert_true(record.has_domain);
	assert_int_equal(record.domain, 7);
	assert_int_equal(record.lease_ns, INT64_C(3500000000));
	assert_int_equal(record.builtin_endpoints, APUS_WIRE_BUILTIN_ALL);
	assert_true(record.expects_inline_qos);
	assert_string_equal(record.name, "swift");
	assert_int_equal(record.default_unicast.at[0].port, 7411);
	assert_int_equal(record.default_multicast.at[0].port, 7401);
	assert_int_equal(record.metatraffic_unicast.count, 1);
	assert_int_equal(record.metatraffic_unicast.skipped_count, 1);
	assert_int_equal(record.metatraffic_unicast.at[0].address[15], 3);
	assert_int_equal(record.metatraffic_multicast.at[0].port, 7400);
}

static void test_wrong_participants(void **state)
{
	static const uint8_t zero[12];
	static const uint16_t fixed[] = {APUS_PID_PROTOCOL_VERSION,
					 APUS_PID_VENDOR_ID,
					 APUS_PID_DOMAIN_ID,
					 APUS_PID_PARTICIPANT_LEASE_DURATION,
					 APUS_PID_BUILTIN_ENDPOINT_SET,
					 APUS_PID_EXPECTS_INLINE_QOS,
					 APUS_PID_ENTITY_NAME,
					 APUS_PID_DEFAULT_UNICAST_LOCATOR,
					 APUS_PID_PARTICIPANT_GUID,
					 APUS_PID_METATRAFFIC_MULTICAST_LOCATOR};

	(void)state;
	assert_int_equal(
		with_words(APUS_PID_PARTICIPANT_LEASE_DURATION, (uint32_t[]){0x80000000u, 0}, 2),
		APUS_WIRE_MALFORMED);
	assert_int_equal(with_words(APUS_PID_EXPECTS_INLINE_QOS, (uint32_t[]){2}, 1),
			 APUS_WIRE_MALFORMED);
	assert_int_equal(with_words(APUS_PID_ENTITY_NAME, (uint32_t[]){UINT32_MAX, 0}, 2),
			 APUS_WIRE_MALFORMED);
	assert_int_equal(
		with_words(APUS_PID_DEFAULT_UNICAST_LOCATOR, (uint32_t[]){1, 7411, 0, 0, 0}, 5),
		APUS_WIRE_MALFORMED);
	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		assert_int_equal(with_words(fixed[i], NULL, 0), APUS_WIRE_MALFORMED);

	raw_begin(&list, false);
	assert_int_equal(finish(), APUS_WIRE_MALFORMED);
	raw_begin(&list, false);
	raw_guid(&list, APUS_PID_PARTICIPANT_GUID, zero, 0x000001c1);
	assert_int_equal(finish(), APUS_WIRE_MALFORMED);
	raw_begin(&list, false);
	raw_guid(&list, APUS_PID_PARTICIPANT_GUID, test_prefix, 0x00000102);
	assert_int_equal(finish(), APUS_WIRE_MALFORMED);
}

static void test_foreign_participants_are_skipped(void **state)
{
	(void)state;
	begin(false);
	raw_name(&list, 0x4014, "");
	assert_int_equal(finish(), APUS_WIRE_ACCEPT);
	begin(false);
	raw_name(&list, 0x4014, "other");
	assert_int_equal(finish(), APUS_WIRE_SKIP);
	assert_int_equal(with_words(APUS_PID_PROTOCOL_VERSION, (uint32_t[]){0x0003}, 1),
			 APUS_WIRE_SKIP);
	assert_int_equal(with_words(0x7f00, (uint32_t[]){1}, 1), APUS_WIRE_SKIP);
	assert_int_equal(with_words(0xff00, (uint32_t[]){1}, 1), APUS_WIRE_ACCEPT);
	begin(false);
	list.bytes[1] = 1; /* CDR_LE */
	assert_int_equal(finish(), APUS_WIRE_SKIP);
}

static void test_long_entity_name_is_cut(void **state)
{
	char name[301];

	(void)state;
	memset(name, 'n', 300);
	name[300] = '\0';
	begin(false);
	raw_name(&list, APUS_PID_ENTITY_NAME, name);
	assert_int_equal(finish(), APUS_WIRE_ACCEPT);
	assert_int_equal(strlen(record.name), 255);
}

static void fill(struct apus_wire_participant_record *r)
{
	struct apus_wire_locators *lists[] = {&r->metatraffic_unicast, &r->metatraffic_multicast,
					      &r->default_unicast, &r->default_multicast};

	memset(r, 0, sizeof(*r));
	memcpy(r->prefix.bytes, test_prefix, 12);
	r->version_major = 2;
	r->version_minor = 3;
	r->vendor = APUS_WIRE_VENDOR;
	r->has_domain = true;
	r->domain = 232;
	r->builtin_endpoints = APUS_WIRE_BUILTIN_ALL;
	r->lease_ns = 12345678901;
	r->expects_inline_qos = true;
	memset(r->name, 'n', 255);
	for (uint32_t i = 0; i < 4; i++) {
		lists[i]->count = 8;
		for (uint32_t j = 0; j < 8; j++)
			lists[i]->at[j] = (struct apus_locator){1, 7400 + 8 * i + j, {[15] = 1}};
	}
}

static void test_round_trip_and_truncation(void **state)
{
	int bytes;

	(void)state;
	fill(&record);
	bytes = apus_wire_participant_encode(&record, payload, sizeof(payload));
	assert_true(bytes > 1000 && bytes % 4 == 0);
	assert_int_equal(decode_participant(payload, (size_t)bytes, &second), APUS_WIRE_ACCEPT);
	assert_memory_equal(&record, &second, sizeof(record));
	for (int count = 0; count < bytes; count++) {
		uint8_t *exact = malloc(count ? (size_t)count : 1);

		assert_int_equal(decode_participant(payload, (size_t)count, &second),
				 APUS_WIRE_MALFORMED);
		assert_int_equal(apus_wire_participant_encode(&record, exact, (size_t)count),
				 APUS_ELIMIT);
		free(exact);
	}
	record.lease_ns = APUS_INFINITE_NS;
	bytes = apus_wire_participant_encode(&record, payload, sizeof(payload));
	assert_int_equal(decode_participant(payload, (size_t)bytes, &second), APUS_WIRE_ACCEPT);
	assert_int_equal(second.lease_ns, APUS_INFINITE_NS);
}

static void test_keys(void **state)
{
	struct apus_guid guid, out = {{0}};
	int bytes;

	(void)state;
	memcpy(guid.bytes, test_prefix, 12);
	memcpy(guid.bytes + 12, "\x00\x00\x01\xc1", 4);
	bytes = apus_wire_participant_key_encode(&guid, payload, sizeof(payload));
	assert_int_equal(bytes, 28);
	assert_int_equal(apus_wire_participant_key_decode(payload, 28, &out), APUS_WIRE_ACCEPT);
	assert_memory_equal(out.bytes, guid.bytes, 16);
	memset(&out, 0, sizeof(out));
	assert_int_equal(apus_wire_endpoint_key_decode(payload, 28, &out), APUS_WIRE_MALFORMED);
	guid.bytes[15] = 2;
	assert_int_equal(apus_wire_endpoint_key_encode(&guid, payload, 27), APUS_ELIMIT);
	assert_int_equal(apus_wire_endpoint_key_encode(&guid, payload, 28), 28);
	for (size_t count = 0; count < 28; count++)
		assert_int_equal(apus_wire_endpoint_key_decode(payload, count, &out),
				 APUS_WIRE_MALFORMED);
	assert_int_equal(out.bytes[0], 0);
	assert_int_equal(apus_wire_endpoint_key_decode(payload, 28, &out), APUS_WIRE_ACCEPT);
	assert_memory_equal(out.bytes, guid.bytes, 16);
	payload[1] = 1;
	assert_int_equal(apus_wire_endpoint_key_decode(payload, 28, &out), APUS_WIRE_SKIP);
}

static void test_liveliness(void **state)
{
	struct apus_wire_liveliness message = {.kind = APUS_WIRE_LIVELINESS_MANUAL}, out;
	const uint8_t tail[] = {0, 0, 0, 2, 0, 0, 0, 0};

	(void)state;
	memcpy(message.prefix.bytes, test_prefix, 12);
	assert_int_equal(apus_wire_liveliness_encode(&message, payload, 23), APUS_ELIMIT);
	assert_int_equal(apus_wire_liveliness_encode(&message, payload, 24), 24);
	assert_memory_equal(payload, "\x00\x01\x00\x00", 4);
	assert_memory_equal(payload + 16, tail, sizeof(tail));
	for (size_t count = 0; count < 24; count++)
		assert_int_equal(apus_wire_liveliness_decode(payload, count, &out),
				 APUS_WIRE_MALFORMED);
	for (uint8_t kind = 0; kind < 4; kind++) {
		payload[1] = kind;
		memset(&out, 0, sizeof(out));
		assert_int_equal(apus_wire_liveliness_decode(payload, 24, &out), APUS_WIRE_ACCEPT);
		assert_int_equal(out.kind, APUS_WIRE_LIVELINESS_MANUAL);
		assert_memory_equal(out.prefix.bytes, test_prefix, 12);
	}
	payload[1] = 7;
	assert_int_equal(apus_wire_liveliness_decode(payload, 24, &out), APUS_WIRE_SKIP);
	payload[1] = 1;
	payload[16] = 0x80; /* a vendor's kind */
	assert_int_equal(apus_wire_liveliness_decode(payload, 24, &out), APUS_WIRE_SKIP);
	payload[16] = 0;
	payload[20] = 1; /* one octet of data is said, none is there */
	assert_int_equal(apus_wire_liveliness_decode(payload, 24, &out), APUS_WIRE_MALFORMED);
	memset(payload + 20, 0xff, 4);
	assert_int_equal(apus_wire_liveliness_decode(payload, 24, &out), APUS_WIRE_MALFORMED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_minimal_participant),
		cmocka_unit_test(test_full_participant_in_big_endian),
		cmocka_unit_test(test_wrong_participants),
		cmocka_unit_test(test_foreign_participants_are_skipped),
		cmocka_unit_test(test_long_entity_name_is_cut),
		cmocka_unit_test(test_round_trip_and_truncation),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_liveliness),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
