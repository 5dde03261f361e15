/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: apus_wire_next_run() takes nothing that apus_wire_next() would not take as the same DATA, and takes batches
 * whole; that apus_wire_plain_data() writes what apus_wire_data() writes. Method: datagrams of random submessages, whole and with bytes changed, go through both iterators side by
 * side; then what ends a run, by example.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "wire/message.h"

static const struct apus_prefix own = {{1}};
static uint8_t buffer[8192];
static uint64_t random_state = 7;

static uint32_t random_below(uint32_t n)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(random_state >> 33) % n;
}

static void put_data(struct apus_wire_builder *b, uint32_t reader, uint32_t writer, apus_seq seq,
		     uint32_t payload_bytes, bool key_only)
{
	static const uint8_t payload[64] = {0, 1, 0, 0, 5, 6, 7};
	struct apus_wire_data_out d = {.reader = {reader},
				       .writer = {writer},
				       .seq = seq,
				       .payload = payload,
				       .payload_bytes = payload_bytes,
				       .key_only = key_only};

	assert_int_equal(apus_wire_data(b, &d), 0);
}

/* What a run says is what the other iterator says of the next submessage. */
static void check_next(struct apus_wire_message *m, const struct apus_wire_run *run, uint32_t idx)
{
	struct apus_wire_submessage s;
	struct apus_wire_data d;

	assert_int_equal(apus_wire_next(m, &s), APUS_WIRE_ACCEPT);
	assert_int_equal(s.id, APUS_WIRE_DATA);
	apus_wire_run_data(run, idx, &d);
	assert_int_equal(s.data.reader.value, d.reader.value);
	assert_int_equal(s.data.writer.value, d.writer.value);
	assert_true(s.data.seq == d.seq);
	assert_ptr_equal(s.data.payload, d.payload);
	assert_int_equal(s.data.payload_bytes, d.payload_bytes);
	assert_false(s.data.key_only);
	assert_null(s.data.qos.list);
	assert_int_equal(s.data.qos.status_info, 0);
	assert_true(d.payload_bytes >= 4);
}

/* Returns the samples that came in runs. */
static uint32_t side_by_side(uint32_t length)
{
	struct apus_wire_message a, b;
	struct apus_wire_submessage of_a, of_b;
	struct apus_wire_run run;
	enum apus_wire_verdict v;
	uint32_t total = 0, n;

	v = apus_wire_open(&a, buffer, length);
	assert_int_equal(apus_wire_open(&b, buffer, length), v);
	if (v != APUS_WIRE_ACCEPT)
		return 0;
	for (;;) {
		n = apus_wire_next_run(&a, &run);
		assert_true(n <= APUS_WIRE_RUN_MAX);
		for (uint32_t i = 0; i < n; i++)
			check_next(&b, &run, i);
		total += n;
		assert_int_equal(a.offset, b.offset);
		if (n)
			continue;
		v = apus_wire_next(&a, &of_a);
		assert_int_equal(apus_wire_next(&b, &of_b), v);
		assert_int_equal(a.offset, b.offset);
		if (v == APUS_WIRE_END)
			return total;
	}
}

static void put_random(struct apus_wire_builder *b, apus_seq *seq)
{
	static const struct apus_prefix dest = {{9}};

	switch (random_below(12)) {
	case 0: apus_wire_info_dst(b, &dest); break;
	case 1: apus_wire_info_ts(b, (struct apus_wall){1000000000}); break;
	case 2: put_data(b, random_below(2), 0x103, *seq, 20, true); break;
	case 3: *seq += random_below(3); break;
	case 4: put_data(b, 0, 0x203, *seq, 20, false); break;
	default: put_data(b, 0, 0x103, (*seq)++, 4 + random_below(40), false); break;
	}
}

static void both_iterators_agree(void **state)
{
	uint32_t in_runs = 0;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		struct apus_wire_builder b;
		apus_seq seq = 1 + random_below(100);
		uint32_t n = random_below(40), length;

		assert_int_equal(apus_wire_begin(&b, buffer, sizeof(buffer), &own), 0);
		for (uint32_t i = 0; i < n; i++)
			put_random(&b, &seq);
		length = b.length;
		for (uint32_t i = random_below(3); i > 0 && round % 2; i--)
			buffer[20 % length + random_below(length - 20 % length)] =
				(uint8_t)random_below(256);
		if (round % 4 == 3 && length > 24)
			length -= random_below(24);
		in_runs += side_by_side(length);
	}
	assert_true(in_runs > 100000);
}

/* The short way to write a DATA writes the same, and refuses the same. */
static void plain_data_is_data(void **state)
{
	uint8_t payload[64], other[256];

	(void)state;
	for (uint32_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i + 1);
	for (uint32_t bytes = 0; bytes <= sizeof(payload); bytes++) {
		for (uint32_t capacity = 20; capacity < 120; capacity++) {
			struct apus_wire_builder a, b;
			struct apus_wire_data_out d = {.reader = {0x107},
						       .writer = {0x203},
						       .seq = INT64_C(0x123456789a),
						       .payload = payload,
						       .payload_bytes = bytes};
			int rc;

			memset(buffer, 0xee, sizeof(other));
			memset(other, 0xee, sizeof(other));
			apus_wire_begin(&a, buffer, capacity, &own);
			apus_wire_begin(&b, other, capacity, &own);
			rc = apus_wire_plain_data(&b, d.reader, d.writer, d.seq, payload, bytes);
			if (bytes == 0) { /* without payload it is not so plain */
				assert_int_equal(rc, APUS_EINVAL);
				continue;
			}
			assert_int_equal(apus_wire_data(&a, &d), rc);
			assert_int_equal(a.length, b.length);
			assert_memory_equal(buffer, other, sizeof(other));
		}
	}
	for (uint32_t bytes = 65000; bytes < 66000; bytes++) {
		struct apus_wire_builder b = {other, UINT32_MAX, 0, 0};

		if (apus_wire_padded(bytes) + 20 > UINT16_MAX)
			assert_int_equal(apus_wire_plain_data(&b, (struct apus_eid){0},
							      (struct apus_eid){1}, 1, other,
							      bytes),
					 APUS_ELIMIT);
	}
}

static uint32_t run_of(struct apus_wire_builder *b, struct apus_wire_run *run)
{
	struct apus_wire_message m;

	assert_int_equal(apus_wire_open(&m, buffer, b->length), APUS_WIRE_ACCEPT);
	return apus_wire_next_run(&m, run);
}

static void what_ends_a_run(void **state)
{
	struct apus_wire_builder b;
	struct apus_wire_run run;

	(void)state;
	apus_wire_begin(&b, buffer, sizeof(buffer), &own);
	assert_int_equal(run_of(&b, &run), 0); /* the end of the datagram */
	for (uint32_t i = 0; i < APUS_WIRE_RUN_MAX + 3; i++)
		put_data(&b, 0, 0x103, (INT64_C(1) << 32) - 2 + i, 20, false);
	assert_int_equal(run_of(&b, &run), APUS_WIRE_RUN_MAX);
	assert_true(run.first == (INT64_C(1) << 32) - 2); /* both halves of numbers count */
	assert_int_equal(run.payload_bytes[APUS_WIRE_RUN_MAX - 1], 20);

	apus_wire_begin(&b, buffer, sizeof(buffer), &own);
	put_data(&b, 0, 0x103, 5, 8, false);
	put_data(&b, 0, 0x103, 6, 12, false);
	put_data(&b, 0x107, 0x103, 7, 8, false); /* for another reader */
	assert_int_equal(run_of(&b, &run), 2);
	assert_int_equal(run.payload_bytes[1], 12);

	apus_wire_begin(&b, buffer, sizeof(buffer), &own);
	put_data(&b, 0, 0x103, 5, 8, false);
	put_data(&b, 0, 0x103, 7, 8, false); /* a number is missing */
	assert_int_equal(run_of(&b, &run), 1);

	apus_wire_begin(&b, buffer, sizeof(buffer), &own);
	put_data(&b, 0, 0x103, APUS_WIRE_SEQ_MAX - 3, 8, false); /* sums would pass the limit */
	assert_int_equal(run_of(&b, &run), 0);

	apus_wire_begin(&b, buffer, sizeof(buffer), &own);
	put_data(&b, 0, 0x103, 5, 8, true); /* a key */
	assert_int_equal(run_of(&b, &run), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_iterators_agree),
		cmocka_unit_test(plain_data_is_data),
		cmocka_unit_test(what_ends_a_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
