/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: large samples of a fixed layout, which leave from the application's memory and are received where they are put
 * together, are what the application wrote, although it uses its memory again at once: at once, later out of the history,
 * for late joiners, in streams, and beside readers that look at the writer's slot.
 * Method: driven participants of this process on loopback; 100,000 bytes in fragments of 16 KiB; each byte depends on the
 * sample's number and its place; the writer's memory is overwritten after each write.
 */
#include "route_pair.h"

#define DATA 99992

struct large {
	uint32_t id, number;
	uint8_t data[DATA];
};

static const struct apus_type octets = {.kind = APUS_KIND_ARRAY,
					.size_bytes = DATA,
					.align_bytes = 1,
					.bound = DATA,
					.element = &apus_type_octet};
static const struct apus_member members[] = {
	{.name = "id", .type = &apus_type_uint32, .offset_bytes = 0, .id = 0, .key = true},
	{.name = "number", .type = &apus_type_uint32, .offset_bytes = 4, .id = 1},
	{.name = "data", .type = &octets, .offset_bytes = 8, .id = 2},
};
static const struct apus_type large_type = {.name = "Large",
					    .kind = APUS_KIND_STRUCT,
					    .size_bytes = sizeof(struct large),
					    .align_bytes = 4,
					    .members = members,
					    .member_count = 3,
					    .plain_xcdr1 = true,
					    .plain_xcdr2 = true};

static const char *const settings[] = {"fragment.bytes", "16384", NULL};

static struct route_pair p;
static struct apus_writer *w;
static struct large memory;

static struct apus_qos qos_of(bool is_writer, bool reliable)
{
	struct apus_qos qos;

	if (is_writer)
		apus_qos_writer_default(&qos);
	else
		apus_qos_reader_default(&qos);
	qos.reliability = reliable ? APUS_RELIABLE : APUS_BEST_EFFORT;
	qos.history = APUS_KEEP_ALL;
	qos.max_samples = qos.max_samples_per_instance = 16;
	qos.max_instances = 4;
	qos.max_blocking_ns = 0;
	qos.max_sample_bytes = sizeof(struct large) + 8;
	return qos;
}

static struct apus_reader *make_reader(struct apus_participant *of, struct apus_qos *qos)
{
	struct apus_endpoint_options o = {.topic = "Large", .type = &large_type, .qos = qos};
	struct apus_reader *r = NULL;

	assert_int_equal(apus_reader_create(of, &o, &r), 0);
	return r;
}

static void begin(enum route route, struct apus_qos *qos)
{
	struct apus_endpoint_options o = {.topic = "Large", .type = &large_type, .qos = qos};

	route_open(&p, route, 103, settings);
	assert_int_equal(apus_writer_create(p.w, &o, &w), 0);
}

static uint8_t byte_of(uint32_t number, uint32_t place)
{
	return (uint8_t)(number * 31 + place * 7 + (place >> 8));
}

static int write_number(uint32_t number)
{
	int rc;

	memory.id = 1;
	memory.number = number;
	for (uint32_t i = 0; i < DATA; i++)
		memory.data[i] = byte_of(number, i);
	rc = apus_write(w, &memory);
	memset(&memory, 0xee, sizeof(memory));
	return rc;
}

/* Takes what is there, which must be whole and in order. Returns how many; *last is the number of the latest. */
static uint32_t take(struct apus_reader *r, uint32_t *last)
{
	struct apus_sample s;
	uint32_t n = 0;

	while (apus_take(r, &s, 1, NULL) == 1) {
		const uint8_t *bytes = s.payload;
		uint32_t number;

		assert_int_equal(s.payload_bytes, 4 + sizeof(struct large));
		memcpy(&number, bytes + 8, 4);
		assert_true(number > *last);
		for (uint32_t i = 0; i < DATA; i++)
			if (bytes[12 + i] != byte_of(number, i))
				fail_msg("byte %u of sample %u differs", i, number);
		*last = number;
		n++;
		assert_int_equal(apus_return(r, &s, 1), 0);
	}
	return n;
}

/* More than a window, so that most leave out of the history; the last one is refused and changes nothing. */
static void test_reliable(void **state)
{
	struct apus_qos writer = qos_of(true, true), reader = qos_of(false, true);
	struct apus_reader *r;
	uint32_t last = 0;

	(void)state;
	begin(ROUTE_UDP, &writer);
	r = make_reader(p.r, &reader);
	route_match(&p, w, 1, r, 1);
	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t i = 1; i <= 16; i++)
			assert_int_equal(write_number(round * 16 + i), 0);
		assert_int_equal(write_number(99), APUS_ETIMEDOUT);
		for (int64_t end = route_now() + 60 * SEC; last < round * 16 + 16;) {
			assert_true(route_now() < end);
			route_settle(&p);
			(void)take(r, &last);
		}
		route_settle(&p);
	}
	route_close(&p);
}

/* What a late joiner gets lies in the slots, all of it. */
static void test_late_joiner(void **state)
{
	struct apus_qos writer = qos_of(true, true), reader = qos_of(false, true);
	struct apus_reader *first, *second;
	uint32_t last = 0;

	(void)state;
	writer.durability = reader.durability = APUS_TRANSIENT_LOCAL;
	begin(ROUTE_UDP, &writer);
	first = make_reader(p.r, &reader);
	route_match(&p, w, 1, first, 1);
	for (uint32_t i = 1; i <= 5; i++) {
		assert_int_equal(write_number(i), 0);
		route_settle(&p);
	}
	assert_int_equal(take(first, &last), 5);
	second = make_reader(p.r, &reader);
	last = 0;
	for (int64_t end = route_now() + 60 * SEC; last < 5;) {
		assert_true(route_now() < end);
		route_settle(&p);
		(void)take(second, &last);
	}
	route_close(&p);
}

/* Best effort: the beginning at once and the rest of it out of the slot; in a stream all at once. */
static void test_best_effort(void **state)
{
	struct apus_qos writer = qos_of(true, false), reader = qos_of(false, false);
	struct apus_reader *r;
	uint32_t last = 0, taken = 0;

	(void)state;
	begin(ROUTE_UDP, &writer);
	r = make_reader(p.r, &reader);
	route_match(&p, w, 1, r, 1);
	for (uint32_t i = 1; i <= 3; i++) {
		assert_int_equal(write_number(i), 0);
		for (int64_t end = route_now() + 60 * SEC; last < i;) {
			assert_true(route_now() < end);
			route_settle(&p);
			taken += take(r, &last);
		}
	}
	assert_int_equal(taken, 3);
	for (uint32_t i = 4; i <= 60; i++) {
		assert_int_equal(write_number(i), 0);
		for (int k = 0; k < 12; k++)
			route_poll(&p);
		taken += take(r, &last);
	}
	route_settle(&p);
	taken += take(r, &last);
	assert_in_range(taken, 30, 60); /* a buffer may have been full */
	route_close(&p);
}

/* Readers of the same process look at the writer's slot while it is written. */
static void test_beside_local_reader(void **state)
{
	struct apus_qos writer = qos_of(true, true), reader = qos_of(false, true);
	struct apus_reader *remote, *local;
	uint32_t last[2] = {0, 0};

	(void)state;
	begin(ROUTE_UDP, &writer);
	remote = make_reader(p.r, &reader);
	local = make_reader(p.w, &reader);
	route_match(&p, w, 2, remote, 1);
	for (uint32_t i = 1; i <= 8; i++)
		assert_int_equal(write_number(i), 0);
	assert_int_equal(take(local, &last[1]), 8);
	for (int64_t end = route_now() + 60 * SEC; last[0] < 8;) {
		assert_true(route_now() < end);
		route_settle(&p);
		(void)take(remote, &last[0]);
	}
	route_close(&p);
}

/* A payload in wire format goes the same way. */
static void test_cdr(void **state)
{
	static uint8_t payload[4 + sizeof(struct large)] = {0, 1};
	struct apus_qos writer = qos_of(true, true), reader = qos_of(false, true);
	struct apus_reader *r;
	uint32_t last = 0, id = 1;

	(void)state;
	begin(ROUTE_UDP, &writer);
	r = make_reader(p.r, &reader);
	route_match(&p, w, 1, r, 1);
	for (uint32_t n = 1; n <= 4; n++) {
		memcpy(payload + 4, &id, 4);
		memcpy(payload + 8, &n, 4);
		for (uint32_t i = 0; i < DATA; i++)
			payload[12 + i] = byte_of(n, i);
		assert_int_equal(apus_write_cdr(w, payload, sizeof(payload)), 0);
		memset(payload + 4, 0xee, sizeof(payload) - 4);
	}
	for (int64_t end = route_now() + 60 * SEC; last < 4;) {
		assert_true(route_now() < end);
		route_settle(&p);
		(void)take(r, &last);
	}
	route_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reliable),    cmocka_unit_test(test_late_joiner),
		cmocka_unit_test(test_best_effort), cmocka_unit_test(test_beside_local_reader),
		cmocka_unit_test(test_cdr),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
