/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: DATA, DATA_FRAG and their inline QoS are read as RTPS 2.5 §8.3.8.2, §8.3.8.3 and §9.6.4 say, and
 * refused or skipped where those sections say so.
 *
 * Method: as in test_message.c; the rules are tables of one deviation a row.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/wire/raw.h"

/* --- DATA ----------------------------------------------------------------------------------------- */

/* DATA up to where inline QoS or payload start; extra: bytes a later version put in between. */
static void raw_data(struct raw *w, bool little, uint8_t flags, int64_t seq, size_t extra)
{
	raw_begin(w, little);
	raw_open(w, APUS_WIRE_DATA, flags);
	raw_u16(w, 0);
	raw_u16(w, (uint16_t)(16 + extra));
	raw_eid(w, 0x00000107);
	raw_eid(w, 0x000001c2);
	raw_seq(w, seq);
	raw_fill(w, 0xee, extra);
}

static void test_data(void **state)
{
	(void)state;
	FOR_BOTH_ORDERS(little)
	{
		struct raw w;
		struct apus_wire_submessage s;

		raw_data(&w, little, 0x04, 0x1ffffffff, 4);
		raw_fill(&w, 0, 13);
		raw_close(&w);
		assert_int_equal(first_of(&w, w.length, &s, NULL), APUS_WIRE_ACCEPT);
		assert_int_equal(s.data.reader.value, 0x107);
		assert_int_equal(s.data.writer.value, 0x1c2);
		assert_int_equal(s.data.seq, 0x1ffffffff);
		assert_int_equal(s.data.payload_bytes, 13);
		assert_false(s.data.key_only);
		assert_null(s.data.qos.list);
		assert_false(s.data.qos.has_key_hash);
		assert_int_equal(s.data.qos.status_info, 0);
		check_truncated(&w);
		check_short_body(&w, 28);
	}
}

/* Where the payload starts: the pointer itself, in the caller's datagram. */
static void test_data_payload_place(void **state)
{
	(void)state;
	struct raw w;
	struct apus_wire_message m;
	struct apus_wire_submessage s;

	raw_data(&w, true, 0x08, 1, 0);
	raw_fill(&w, 7, 8);
	raw_close(&w);
	assert_int_equal(apus_wire_open(&m, w.bytes, w.length), APUS_WIRE_ACCEPT);
	assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_ACCEPT);
	assert_ptr_equal(s.data.payload, w.bytes + 20 + 4 + 20);
	assert_int_equal(s.data.payload_bytes, 8);
	assert_true(s.data.key_only);
}

static void test_data_rules(void **state)
{
	(void)state;
	static const struct {
		uint8_t flags;
		int64_t seq;
		size_t payload_bytes;
		enum apus_wire_verdict verdict;
	} rows[] = {
		{0x00, 1, 0, APUS_WIRE_ACCEPT},    /* neither data nor key */
		{0x04, 0, 8, APUS_WIRE_MALFORMED}, /* §8.3.8.2.3 */
		{0x04, -1, 8, APUS_WIRE_MALFORMED},
		{0x04, (int64_t)0xffffffff00000000u, 8, APUS_WIRE_MALFORMED}, /* UNKNOWN */
		{0x04, APUS_WIRE_SEQ_MAX + 1, 8, APUS_WIRE_MALFORMED},
		{0x0c, 1, 8, APUS_WIRE_MALFORMED}, /* both D and K */
		{0x04, 1, 4, APUS_WIRE_ACCEPT},
		{0x04, 1, 3, APUS_WIRE_MALFORMED}, /* no room for the encapsulation header */
		{0x04, 1, 0, APUS_WIRE_MALFORMED},
		{0x08, 1, 0, APUS_WIRE_MALFORMED},
		{0x14, 1, 8, APUS_WIRE_SKIP},      /* non-standard payload */
		{0x02, 1, 0, APUS_WIRE_MALFORMED}, /* inline QoS that is not there */
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct raw w;

		raw_data(&w, i % 2, rows[i].flags, rows[i].seq, 0);
		raw_fill(&w, 0, rows[i].payload_bytes);
		raw_close(&w);
		assert_int_equal(verdict_of(&w), rows[i].verdict);
	}
}

static void test_data_octets_to_inline_qos(void **state)
{
	(void)state;
	static const uint16_t refused[] = {0, 4, 12, 15, 25, 1000, UINT16_MAX};

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct raw w;

		raw_data(&w, true, 0x04, 1, 0);
		raw_fill(&w, 0, 8);
		raw_close(&w);
		w.bytes[26] = (uint8_t)refused[i];
		w.bytes[27] = (uint8_t)(refused[i] >> 8);
		assert_int_equal(verdict_of(&w), APUS_WIRE_MALFORMED);
	}
}

/* --- Inline QoS ----------------------------------------------------------------------------------- */

static void test_inline_qos(void **state)
{
	(void)state;
	FOR_BOTH_ORDERS(little)
	{
		struct raw w;
		struct apus_wire_message m;
		struct apus_wire_submessage s;
		const struct apus_wire_inline_qos *q = &s.data.qos;

		raw_data(&w, little, 0x06, 1, 0);
		size_t list_at = w.length;

		raw_pid(&w, 0x0000, 4); /* PAD with content */
		raw_fill(&w, 0xff, 4);
		raw_pid(&w, 0x0070, 16);
		raw_fill(&w, 0x30, 16);
		raw_pid(&w, 0x0071, 4);
		raw_eid(&w, 0x0000000b); /* octets: the same in both byte orders */
		raw_pid(&w, 0x4083, 24); /* known, so "must understand" is met */
		raw_fill(&w, 0x50, 16);
		raw_seq(&w, 0x200000005);
		size_t filter_at = w.length + 4;

		raw_pid(&w, 0x0055, 12);
		raw_fill(&w, 0x60, 12);
		raw_pid(&w, 0x0056, 8);
		raw_seq(&w, 41);
		raw_pid(&w, 0x0063, 8);
		raw_seq(&w, 42);
		raw_pid(&w, 0x0064, 8);
		raw_seq(&w, 43);
		size_t directed_at = w.length + 4;

		raw_pid(&w, 0x0057, 20);
		raw_fill(&w, 0x70, 20);
		raw_pid(&w, 0xc123, 4); /* a vendor's must-understand is no business of ours */
		raw_fill(&w, 0, 4);
		raw_pid(&w, 0x3123, 0);      /* unknown, may be ignored */
		raw_pid(&w, 0x0001, 0xfff0); /* the length of the sentinel means nothing */
		size_t payload_at = w.length;

		raw_fill(&w, 0, 8);
		raw_close(&w);
		assert_int_equal(apus_wire_open(&m, w.bytes, w.length), APUS_WIRE_ACCEPT);
		assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_ACCEPT);
		assert_ptr_equal(q->list, w.bytes + list_at);
		assert_int_equal(q->list_bytes, payload_at - list_at);
		assert_ptr_equal(s.data.payload, w.bytes + payload_at);
		assert_true(q->has_key_hash);
		assert_int_equal(q->key_hash[0], 0x30);
		assert_int_equal(q->key_hash[15], 0x3f);
		assert_true(q->has_status_info);
		assert_int_equal(q->status_info, APUS_WIRE_STATUS_DISPOSED |
							 APUS_WIRE_STATUS_UNREGISTERED |
							 APUS_WIRE_STATUS_FILTERED);
		assert_true(q->has_related);
		assert_int_equal(q->related_guid.bytes[15], 0x5f);
		assert_int_equal(q->related_seq, 0x200000005);
		assert_ptr_equal(q->filter_info, w.bytes + filter_at);
		assert_int_equal(q->filter_info_bytes, 12);
		assert_int_equal(q->coherent_seq, 41);
		assert_int_equal(q->group_coherent_seq, 42);
		assert_int_equal(q->group_seq, 43);
		assert_ptr_equal(q->directed, w.bytes + directed_at);
		assert_int_equal(q->directed_bytes, 20);
		check_truncated(&w);
	}
}

/* 0x800f is Fast DDS's older number for the related sample; from others it means something else. */
static void test_inline_qos_legacy_related(void **state)
{
	(void)state;
	struct raw w;
	struct apus_wire_submessage s;

	raw_data(&w, true, 0x06, 1, 0);
	raw_pid(&w, 0x800f, 24);
	raw_fill(&w, 0x50, 16);
	raw_seq(&w, 6);
	raw_pid(&w, 0x0001, 0);
	raw_fill(&w, 0, 8);
	raw_close(&w);
	assert_int_equal(first_of(&w, w.length, &s, NULL), APUS_WIRE_ACCEPT);
	assert_true(s.data.qos.has_related);
	assert_int_equal(s.data.qos.related_seq, 6);
	w.bytes[7] = 0x10;
	assert_int_equal(first_of(&w, w.length, &s, NULL), APUS_WIRE_ACCEPT);
	assert_false(s.data.qos.has_related);
}

static void test_inline_qos_rules(void **state)
{
	(void)state;
	static const struct {
		uint16_t pid, bytes;
		size_t present;
		enum apus_wire_verdict verdict;
	} rows[] = {
		{0x3abc, 8, 8, APUS_WIRE_ACCEPT},
		{0x7abc, 8, 8, APUS_WIRE_SKIP}, /* unknown and must be understood */
		{0xfabc, 8, 8, APUS_WIRE_ACCEPT},
		{0x4070, 16, 16, APUS_WIRE_ACCEPT},
		{0x0070, 12, 12, APUS_WIRE_MALFORMED}, /* too short for its kind */
		{0x0071, 0, 0, APUS_WIRE_MALFORMED},
		{0x0083, 20, 20, APUS_WIRE_MALFORMED},
		{0x0056, 4, 4, APUS_WIRE_MALFORMED},
		{0x0064, 4, 4, APUS_WIRE_MALFORMED},
		{0x800f, 8, 8, APUS_WIRE_MALFORMED},
		{0x0070, 20, 20, APUS_WIRE_ACCEPT},  /* longer is tolerated */
		{0x3abc, 6, 6, APUS_WIRE_MALFORMED}, /* §9.4.2.11: multiples of 4 */
		{0x3abc, 0xfffc, 8, APUS_WIRE_MALFORMED},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct raw w;

		raw_data(&w, i % 2, 0x06, 1, 0);
		raw_pid(&w, rows[i].pid, rows[i].bytes);
		raw_fill(&w, 0, rows[i].present);
		raw_pid(&w, 0x0001, 0);
		raw_fill(&w, 0, 8);
		raw_close(&w);
		assert_int_equal(verdict_of(&w), rows[i].verdict);
	}
}

/* Skipping costs only that submessage; a defect behind the unknown parameter is still found. */
static void test_must_understand_goes_on(void **state)
{
	(void)state;
	struct raw w;
	struct apus_wire_message m;
	struct apus_wire_submessage s;

	raw_data(&w, true, 0x02, 1, 0);
	raw_pid(&w, 0x7abc, 0);
	raw_pid(&w, 0x0001, 0);
	raw_close(&w);
	raw_open(&w, APUS_WIRE_PAD, 0);
	assert_int_equal(apus_wire_open(&m, w.bytes, w.length), APUS_WIRE_ACCEPT);
	assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_SKIP);
	assert_int_equal(s.id, APUS_WIRE_DATA);
	assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_ACCEPT);
	assert_int_equal(s.id, APUS_WIRE_PAD);
	assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_END);

	raw_data(&w, true, 0x02, 1, 0);
	raw_pid(&w, 0x7abc, 0);
	raw_pid(&w, 0x0070, 4);
	raw_fill(&w, 0, 4);
	raw_pid(&w, 0x0001, 0);
	raw_close(&w);
	assert_int_equal(verdict_of(&w), APUS_WIRE_MALFORMED);
}

static void test_parameter_iterator(void **state)
{
	(void)state;
	static const uint8_t list[] = {0x70, 0, 4, 0, 1, 2, 3, 4, 0x71, 0, 0, 0, 1, 0, 0, 0};
	struct apus_wire_parameter p;
	uint32_t at = 0;

	assert_true(apus_wire_parameter_next(list, sizeof(list), true, &at, &p));
	assert_int_equal(p.pid, 0x70);
	assert_int_equal(p.bytes, 4);
	assert_ptr_equal(p.value, list + 4);
	assert_true(apus_wire_parameter_next(list, sizeof(list), true, &at, &p));
	assert_int_equal(p.pid, 0x71);
	assert_int_equal(p.bytes, 0);
	assert_false(apus_wire_parameter_next(list, sizeof(list), true, &at, &p));
	at = 0;
	assert_false(apus_wire_parameter_next(list, 7, true, &at, &p)); /* value cut */
	assert_int_equal(at, 0);
	at = 100;
	assert_false(apus_wire_parameter_next(list, sizeof(list), true, &at, &p));
}

/* --- DATA_FRAG ------------------------------------------------------------------------------------ */

struct frag_row {
	int64_t seq;
	uint32_t first;
	uint16_t count;
	uint16_t fragment_bytes;
	uint32_t sample_bytes;
	size_t present;
	enum apus_wire_verdict verdict;
	uint32_t payload_bytes; /* expected if accepted */
};

static void raw_data_frag(struct raw *w, bool little, uint8_t flags, const struct frag_row *f)
{
	raw_begin(w, little);
	raw_open(w, APUS_WIRE_DATA_FRAG, flags);
	raw_u16(w, 0);
	raw_u16(w, 28);
	raw_eid(w, 0x107);
	raw_eid(w, 0x102);
	raw_seq(w, f->seq);
	raw_u32(w, f->first);
	raw_u16(w, f->count);
	raw_u16(w, f->fragment_bytes);
	raw_u32(w, f->sample_bytes);
	if (flags & 0x02) {
		raw_pid(w, 0x0071, 4);
		raw_eid(w, 1);
		raw_pid(w, 0x0001, 0);
	}
	raw_fill(w, 0, f->present);
	raw_close(w);
}

static void test_data_frag(void **state)
{
	(void)state;
	static const struct frag_row row = {7, 2, 2, 100, 350, 200, APUS_WIRE_ACCEPT, 200};

	FOR_BOTH_ORDERS(little)
	{
		struct raw w;
		struct apus_wire_message m;
		struct apus_wire_submessage s;
		const struct apus_wire_data_frag *f = &s.data_frag;

		raw_data_frag(&w, little, 0x06, &row);
		assert_int_equal(apus_wire_open(&m, w.bytes, w.length), APUS_WIRE_ACCEPT);
		assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_ACCEPT);
		assert_int_equal(f->reader.value, 0x107);
		assert_int_equal(f->writer.value, 0x102);
		assert_int_equal(f->seq, 7);
		assert_int_equal(f->first, 2);
		assert_int_equal(f->count, 2);
		assert_int_equal(f->fragment_bytes, 100);
		assert_int_equal(f->sample_bytes, 350);
		assert_true(f->key_only);
		assert_int_equal(f->qos.status_info, 1);
		assert_ptr_equal(f->payload, w.bytes + 20 + 4 + 32 + 12);
		assert_int_equal(f->payload_bytes, 200);
		check_truncated(&w);
		check_short_body(&w, w.length - 24);
		raw_data_frag(&w, little, 0x08, &row); /* non-standard payload */
		assert_int_equal(verdict_of(&w), APUS_WIRE_SKIP);
	}
}

/* §8.3.8.3.3. */
static void test_data_frag_rules(void **state)
{
	(void)state;
	static const struct frag_row rows[] = {
		{1, 4, 1, 100, 350, 50, APUS_WIRE_ACCEPT, 50},   /* the short last one */
		{1, 4, 1, 100, 350, 52, APUS_WIRE_ACCEPT, 50},   /* padded */
		{1, 4, 1, 100, 350, 54, APUS_WIRE_MALFORMED, 0}, /* more than padding */
		{1, 4, 1, 100, 350, 49, APUS_WIRE_MALFORMED, 0}, /* less than stated */
		{1, 1, 4, 100, 350, 350, APUS_WIRE_ACCEPT, 350}, /* all at once */
		{1, 1, 1, 350, 350, 350, APUS_WIRE_ACCEPT, 350},
		{0, 1, 1, 100, 350, 100, APUS_WIRE_MALFORMED, 0},
		{1, 0, 1, 100, 350, 100, APUS_WIRE_MALFORMED, 0},
		{1, 1, 0, 100, 350, 0, APUS_WIRE_MALFORMED, 0},
		{1, 1, 1, 0, 350, 0, APUS_WIRE_MALFORMED, 0},
		{1, 5, 1, 100, 350, 100, APUS_WIRE_MALFORMED, 0}, /* starts behind the sample */
		{1, 4, 2, 100, 350, 50, APUS_WIRE_MALFORMED, 0},  /* the second would */
		{1, 5, 1, 100, 400, 0, APUS_WIRE_MALFORMED, 0},   /* starts at its very end */
		{1, 1, 1, 351, 350, 350, APUS_WIRE_MALFORMED, 0}, /* larger than the sample */
		{1, 1, 1, 100, 0, 0, APUS_WIRE_MALFORMED, 0},
		{1, UINT32_MAX, 65535, 65535, UINT32_MAX, 100, APUS_WIRE_MALFORMED, 0},
		{1, 42949673, 1, 100, UINT32_MAX, 95, APUS_WIRE_ACCEPT, 95},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct raw w;
		struct apus_wire_submessage s;

		raw_data_frag(&w, i % 2, 0, &rows[i]);
		assert_int_equal(first_of(&w, w.length, &s, NULL), rows[i].verdict);
		if (rows[i].verdict == APUS_WIRE_ACCEPT)
			assert_int_equal(s.data_frag.payload_bytes, rows[i].payload_bytes);
	}
}

/* The fields up to the sample size take 28 bytes. */
static void test_data_frag_octets_to_inline_qos(void **state)
{
	(void)state;
	static const struct frag_row row = {1, 1, 1, 100, 350, 100, APUS_WIRE_ACCEPT, 100};
	static const uint16_t refused[] = {0, 24, 27, 32, 1000};

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct raw w;

		raw_data_frag(&w, true, 0, &row);
		assert_int_equal(verdict_of(&w), APUS_WIRE_ACCEPT);
		if (refused[i] < 28) { /* so that the payload's size is no reason */
			w.length -= 28 - refused[i];
			raw_close(&w);
		}
		w.bytes[26] = (uint8_t)refused[i];
		w.bytes[27] = (uint8_t)(refused[i] >> 8);
		assert_int_equal(verdict_of(&w), APUS_WIRE_MALFORMED);
	}
}

/* Fragment 2 of 2 between INFO_TS and HEARTBEAT: payload is what lies from where it begins to where it ends. */
static void test_is_frag_payload(void **state)
{
	struct raw w;
	struct apus_wire_message m;
	struct apus_wire_submessage s;
	static const struct frag_row row = {1, 2, 1, 100, 180, 80, APUS_WIRE_ACCEPT, 80};
	uint32_t head, length;

	(void)state;
	for (int i = 0; i < 4; i++) {
		bool little = i & 1, empty_ts = i & 2;
		struct raw frag;

		raw_begin(&w, little);
		raw_open(&w, APUS_WIRE_INFO_TS, empty_ts ? 2 : 0);
		raw_fill(&w, 1, empty_ts ? 0 : 8);
		raw_close(&w);
		raw_data_frag(&frag, little, 0, &row);
		memcpy(w.bytes + w.length, frag.bytes + 20, frag.length - 20);
		w.length += frag.length - 20;
		length = (uint32_t)w.length;
		head = length - 80;
		for (uint32_t h = 0; h <= length + 4; h++)
			for (uint32_t n = 0; n <= 84; n++)
				assert_int_equal(apus_wire_is_frag_payload(w.bytes, length, h, n),
						 h == head && n <= 80);
		/* With another submessage behind it, which is no payload. */
		raw_open(&w, APUS_WIRE_HEARTBEAT, 0);
		raw_fill(&w, 1, 28);
		raw_close(&w);
		length = (uint32_t)w.length;
		assert_true(apus_wire_is_frag_payload(w.bytes, length, head, 80));
		assert_false(apus_wire_is_frag_payload(w.bytes, length, head, 81));
		memset(w.bytes + head, 0xff, 80); /* may be anything */
		assert_int_equal(apus_wire_open(&m, w.bytes, w.length), APUS_WIRE_ACCEPT);
		assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_ACCEPT);
		assert_int_equal(apus_wire_next(&m, &s), APUS_WIRE_ACCEPT);
		assert_ptr_equal(s.data_frag.payload, w.bytes + head);
	}
	raw_data_frag(&w, true, 0x02, &row); /* inline QoS is not */
	for (uint32_t h = 0; h <= w.length; h++)
		assert_false(apus_wire_is_frag_payload(w.bytes, (uint32_t)w.length, h, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_data),
		cmocka_unit_test(test_data_payload_place),
		cmocka_unit_test(test_data_rules),
		cmocka_unit_test(test_data_octets_to_inline_qos),
		cmocka_unit_test(test_inline_qos),
		cmocka_unit_test(test_inline_qos_legacy_related),
		cmocka_unit_test(test_inline_qos_rules),
		cmocka_unit_test(test_must_understand_goes_on),
		cmocka_unit_test(test_parameter_iterator),
		cmocka_unit_test(test_data_frag),
		cmocka_unit_test(test_data_frag_rules),
		cmocka_unit_test(test_data_frag_octets_to_inline_qos),
		cmocka_unit_test(test_is_frag_payload),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
