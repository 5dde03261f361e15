/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: content filters are kept whole, flagged when over a limit, and reject the record when malformed;
 * what we encode decodes to itself; no cut or damaged record is ever read outside its bytes.
 * Method: filters at and beyond each limit; random local endpoints through make, encode and decode;
 * truncation of a full record at every byte, in memory of exactly that size; random damage.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "tests/wire/record_util.h"

static struct apus_wire_endpoint_record record, second;
static struct raw_list list;
static uint8_t payload[APUS_WIRE_RECORD_PAYLOAD_MAX];

/* --- Filters ------------------------------------------------------------------------------------- */

struct filter_case {
	size_t name_bytes, expression_bytes, parameter_bytes;
	uint32_t parameters, said;
	uint32_t trailing; /* a word behind the filter */
};

static enum apus_wire_verdict decode_filter(const struct filter_case *c)
{
	static char name[40000], expression[40000], parameter[40000];

	memset(name, 'n', c->name_bytes);
	name[c->name_bytes] = '\0';
	memset(expression, 'e', c->expression_bytes);
	expression[c->expression_bytes] = '\0';
	memset(parameter, 'p', c->parameter_bytes);
	parameter[c->parameter_bytes] = '\0';
	raw_begin_endpoint(&list, false, false);
	raw_open(&list, APUS_PID_CONTENT_FILTER);
	raw_string(&list, name);
	raw_string(&list, "Square");
	raw_string(&list, "DDSSQL");
	raw_string(&list, expression);
	raw_u32(&list, c->said);
	for (uint32_t i = 0; i < c->parameters; i++)
		raw_string(&list, parameter);
	raw_u32(&list, c->trailing);
	raw_close(&list);
	raw_end(&list);
	return decode_endpoint(list.bytes, list.count, false, &record);
}

/* The names and the signature of a Fast DDS 2.9.1 reader (tests/captures/04a). */
static void test_signature(void **state)
{
	static const uint8_t expected[16] = {0x42, 0x34, 0x20, 0xab, 0x57, 0x2b, 0xd5, 0xf5,
					     0x2d, 0x70, 0xf6, 0x24, 0x46, 0x6a, 0x08, 0x19};
	uint8_t signature[16];

	(void)state;
	raw_begin_endpoint(&list, false, false);
	raw_open(&list, APUS_PID_CONTENT_FILTER);
	raw_string(&list, "SquareF");
	raw_string(&list, "Square");
	raw_string(&list, "DDSSQL");
	raw_string(&list, "x > %0 AND color = %1");
	raw_u32(&list, 2);
	raw_string(&list, "5");
	raw_string(&list, "'GREEN'");
	raw_close(&list);
	raw_end(&list);
	assert_int_equal(decode_endpoint(list.bytes, list.count, false, &record), APUS_WIRE_ACCEPT);
	apus_wire_endpoint_record_signature(&record, signature);
	assert_memory_equal(signature, expected, 16);
}

static void test_filter_at_its_limits(void **state)
{
	/* "Square" and "DDSSQL" take 14 bytes with NULs. */
	const struct filter_case hundred = {255, 1000, 100, 100, 100, 0};
	const struct filter_case longest = {10, APUS_WIRE_FILTER_TEXT_BYTES - 14 - 11 - 1, 0, 0, 0,
					    0};
	const char *parameters[APUS_WIRE_FILTER_PARAMETERS_MAX];

	(void)state;
	assert_int_equal(decode_filter(&hundred), APUS_WIRE_ACCEPT);
	assert_true(record.filter.present);
	assert_false(record.filter.over_limit);
	assert_int_equal(record.filter.name.bytes, 255);
	assert_int_equal(record.filter.expression.bytes, 1000);
	assert_int_equal(apus_wire_endpoint_record_parameters(&record, parameters), 100);
	assert_int_equal(strlen(parameters[0]), 100);
	assert_int_equal(strlen(parameters[99]), 100);
	assert_string_equal(apus_wire_record_text(&record, record.filter.class_name), "DDSSQL");
	assert_int_equal(decode_filter(&longest), APUS_WIRE_ACCEPT);
	assert_false(record.filter.over_limit);
	assert_int_equal(strlen(apus_wire_record_text(&record, record.filter.expression)),
			 longest.expression_bytes);
}

static void test_filter_over_a_limit_keeps_the_endpoint(void **state)
{
	const struct filter_case cases[] = {
		{256, 10, 1, 1, 1, 0},    {10, 10, 1, 101, 101, 0}, {10, 15350, 1, 0, 0, 0},
		{10, 40, 200, 77, 77, 0}, {10, 30000, 1, 1, 1, 0},  {300, 14500, 0, 0, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(decode_filter(&cases[i]), APUS_WIRE_ACCEPT);
		assert_true(record.filter.present);
		assert_true(record.filter.over_limit);
		assert_int_equal(record.filter.parameter_count, 0);
		assert_int_equal(record.filter.name.bytes,
				 cases[i].name_bytes > 255 ? 0 : cases[i].name_bytes);
		assert_int_equal(record.filter.expression.bytes,
				 cases[i].expression_bytes < 14592 ? cases[i].expression_bytes : 0);
		assert_string_equal(apus_wire_record_text(&record, record.topic), "Square");
		/* What is known only in part is not passed on. */
		assert_true(apus_wire_endpoint_encode(&record, payload, sizeof(payload)) > 0);
	}
}

static void test_malformed_filter_rejects_the_record(void **state)
{
	const struct filter_case cases[] = {
		{10, 10, 1, 1, 1, 1},          /* trailing bytes */
		{10, 10, 1, 0, 0, 0x01000000}, /* the last of them */
		{10, 10, 1, 3, 5, 0},          /* fewer parameters than said */
		{10, 10, 1, 3, UINT32_MAX, 0}, {300, 10, 1, 200, 200, 7},
		{10, 40000 - 1, 1, 1, 2, 0}, /* over a limit and malformed */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(decode_filter(&cases[i]), APUS_WIRE_MALFORMED);
}

enum damage {
	TOO_LONG, /* the length goes beyond the property */
	LONGEST,  /* … beyond any memory */
	HALF,     /* … and is negative as a signed number */
	NO_NUL,
	DAMAGES
};

static void raw_damaged(struct raw_list *l, const char *text, enum damage how)
{
	size_t bytes = strlen(text) + 1, at = l->count;

	raw_u32(l, how == TOO_LONG  ? 4096
		   : how == LONGEST ? UINT32_MAX
		   : how == HALF    ? UINT32_C(0x80000000)
				    : (uint32_t)bytes);
	raw_bytes(l, text, bytes);
	if (how == NO_NUL)
		l->bytes[at + 4 + bytes - 1] = 'x';
	raw_pad(l);
}

/* A filter whose string number `which` is damaged: the four names and texts, then two parameters. */
static enum apus_wire_verdict decode_damaged(int which, enum damage how, uint32_t said, bool big)
{
	static const char *const text[] = {"Filtered", "Square", "DDSSQL", "x > %0", "1", "'RED'"};

	raw_begin_endpoint(&list, false, big);
	raw_open(&list, APUS_PID_CONTENT_FILTER);
	for (int i = 0; i < 6; i++) {
		if (i == 4)
			raw_u32(&list, said);
		if (i == which)
			raw_damaged(&list, text[i], how);
		else
			raw_string(&list, text[i]);
	}
	raw_close(&list);
	raw_end(&list);
	return decode_endpoint(list.bytes, list.count, false, &record);
}

static void test_hostile_lengths_reject_the_record(void **state)
{
	(void)state;
	for (int big = 0; big < 2; big++) {
		assert_int_equal(decode_damaged(-1, TOO_LONG, 2, big), APUS_WIRE_ACCEPT);
		for (int which = 0; which < 6; which++)
			for (enum damage how = TOO_LONG; how < DAMAGES; how++)
				assert_int_equal(decode_damaged(which, how, 2, big),
						 APUS_WIRE_MALFORMED);
		for (int bit = 2; bit < 32; bit++)
			assert_int_equal(decode_damaged(-1, TOO_LONG, UINT32_C(1) << bit, big),
					 APUS_WIRE_MALFORMED);
		assert_int_equal(decode_damaged(-1, TOO_LONG, UINT32_MAX, big),
				 APUS_WIRE_MALFORMED);
	}
}

/* --- Local endpoints ----------------------------------------------------------------------------- */

static uint64_t random_state = 0x9e3779b97f4a7c15u;

static uint32_t draw(uint32_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 33) % below;
}

static int64_t draw_duration(void)
{
	if (draw(4) == 0)
		return APUS_INFINITE_NS;
	return (int64_t)draw(2000000000) * (draw(2) ? 1 : 1000000007) / (1 + draw(1000));
}

static const char *draw_text(char *out, uint32_t least, uint32_t most)
{
	uint32_t bytes = least + draw(most - least + 1);

	for (uint32_t i = 0; i < bytes; i++)
		out[i] = (char)(1 + draw(255));
	out[bytes] = '\0';
	return out;
}

static void draw_qos(struct apus_qos *qos, bool is_writer)
{
	memset(qos, 0, sizeof(*qos));
	qos->reliability = (uint8_t)draw(2);
	qos->durability = (uint8_t)draw(4);
	qos->history = (uint8_t)draw(2);
	qos->depth = qos->history == APUS_KEEP_LAST ? 1 + draw(INT32_MAX) : 1;
	qos->liveliness = (uint8_t)draw(3);
	qos->ownership = (uint8_t)draw(2);
	qos->destination_order = (uint8_t)draw(2);
	qos->access_scope = (uint8_t)draw(3);
	qos->coherent_access = draw(2);
	qos->ordered_access = draw(2);
	qos->autodispose = true;
	qos->max_blocking_ns = draw_duration();
	qos->deadline_ns = draw_duration();
	qos->latency_budget_ns = draw_duration();
	qos->lease_ns = draw_duration();
	qos->lifespan_ns = is_writer ? draw_duration() : APUS_INFINITE_NS;
	qos->autopurge_no_writers_ns = APUS_INFINITE_NS; /* never on the wire */
	qos->autopurge_disposed_ns = APUS_INFINITE_NS;
	qos->time_filter_ns = is_writer ? 0 : draw_duration();
	qos->strength = is_writer ? (int32_t)(draw(INT32_MAX) * 2u) : 0;
	qos->transport_priority = is_writer ? (int32_t)draw(100) - 50 : 0;
	qos->consistency = (struct apus_type_consistency){
		.kind = is_writer ? APUS_ALLOW_TYPE_COERCION : (uint8_t)draw(2),
		.ignore_sequence_bounds = is_writer || draw(2),
		.ignore_string_bounds = is_writer || draw(2),
		.ignore_member_names = !is_writer && draw(2),
		.prevent_type_widening = !is_writer && draw(2),
		.force_type_validation = !is_writer && draw(2),
	};
	qos->representation_count = draw(3);
	qos->representations[0] = qos->representation_count ? (int16_t)(draw(2) * 2) : 0;
	qos->representations[1] =
		qos->representation_count > 1 ? (int16_t)(2 - qos->representations[0]) : 0;
}

static struct apus_wire_locators draw_locators(void)
{
	struct apus_wire_locators out = {.count = draw(APUS_WIRE_LOCATORS_MAX + 1)};

	for (uint32_t i = 0; i < out.count; i++) {
		out.at[i].kind = 1 + (int32_t)draw(2);
		out.at[i].port = 1 + draw(65535);
		for (size_t b = out.at[i].kind == 1 ? 12 : 0; b < 16; b++)
			out.at[i].address[b] = (uint8_t)(1 + draw(255));
	}
	return out;
}

/* Texts of one random endpoint. */
struct texts {
	char topic[256], type[256], filter[256], class_name[256], expression[5001];
	char partitions[64][256], parameters[100][100];
	const char *partition_list[64], *parameter_list[100];
};

static void draw_endpoint(struct texts *t, struct apus_qos *qos,
			  struct apus_wire_endpoint_source *source)
{
	memset(source, 0, sizeof(*source));
	source->is_writer = draw(2);
	memcpy(source->guid.bytes, test_prefix, 12);
	source->guid.bytes[15] = source->is_writer ? 2 : 7;
	draw_qos(qos, source->is_writer);
	qos->partition_count = draw(65);
	qos->partitions = t->partition_list;
	for (uint32_t i = 0; i < qos->partition_count; i++)
		t->partition_list[i] = draw_text(t->partitions[i], 0, 255);
	source->qos = qos;
	source->topic = draw_text(t->topic, 1, 255);
	source->type = draw_text(t->type, 1, 255);
	source->max_sample_bytes = source->is_writer ? draw(100000) : 0;
	source->group.value = source->is_writer && draw(2) ? draw(0xffffff) << 8 | 8 : 0;
	source->expects_inline_qos = !source->is_writer && draw(2);
	if (source->is_writer || draw(2))
		return;
	source->filter_name = draw_text(t->filter, 1, 255);
	source->filter_class = draw_text(t->class_name, 1, 255);
	source->filter_expression = draw_text(t->expression, 1, 4000);
	source->filter_parameter_count = draw(101);
	source->filter_parameters = t->parameter_list;
	for (uint32_t i = 0; i < source->filter_parameter_count; i++)
		t->parameter_list[i] = draw_text(t->parameters[i], 0, 99);
}

static int make_random(struct apus_wire_endpoint_record *record_out)
{
	static struct texts texts;
	struct apus_wire_endpoint_source source;
	struct apus_qos qos;

	draw_endpoint(&texts, &qos, &source);
	assert_int_equal(apus_wire_endpoint_record_make(&source, record_out), 0);
	record_out->locators.unicast = draw_locators();
	record_out->locators.multicast = draw_locators();
	return apus_wire_endpoint_encode(record_out, payload, sizeof(payload));
}

static void test_random_endpoints_survive_the_round_trip(void **state)
{
	(void)state;
	for (int i = 0; i < 2000; i++) {
		int bytes = make_random(&record);

		assert_true(bytes > 0 && bytes % 4 == 0);
		assert_int_equal(decode_endpoint(payload, (size_t)bytes, record.is_writer, &second),
				 APUS_WIRE_ACCEPT);
		assert_int_equal(apus_wire_endpoint_record_bytes(&record),
				 apus_wire_endpoint_record_bytes(&second));
		assert_memory_equal(&record, &second, apus_wire_endpoint_record_bytes(&record));
		assert_memory_equal(&record.locators, &second.locators, sizeof(record.locators));
	}
}

/* A TypeInformation of so many bytes: both hashes, and a member nobody knows for the rest. */
static void make_information(uint8_t *out, uint32_t bytes)
{
	struct apus_wire_type_information information = {
		.minimal = {.kind = APUS_WIRE_EK_MINIMAL, .bytes = {1, 2}},
		.complete = {.kind = APUS_WIRE_EK_COMPLETE, .bytes = {3, 4}},
		.minimal_bytes = 500,
		.complete_bytes = 900,
	};
	size_t used = apus_wire_type_information_write(&information, out, bytes);

	assert_int_equal(used, 4 + 2 * 48);
	memset(out + used, 0, bytes - used);
	apus_wire_store_u32le(out, bytes - 4);
	apus_wire_store_u32le(out + used, 4u << 28 | 0x2000);
	apus_wire_store_u32le(out + used + 4, bytes - (uint32_t)used - 8);
}

static void test_type_information_is_announced(void **state)
{
	static uint8_t information[APUS_WIRE_INFORMATION_BYTES + 4];
	struct apus_qos qos = {.depth = 1, .consistency = {.kind = APUS_ALLOW_TYPE_COERCION}};
	struct apus_wire_endpoint_source source = {.topic = "t", .type = "T", .qos = &qos};

	(void)state;
	memcpy(source.guid.bytes, test_prefix, 12);
	source.guid.bytes[15] = 7;
	source.type_information = information;
	/* As it is; then, one word too long, without what is not needed. */
	for (uint32_t more = 0; more <= 4; more += 4) {
		int bytes;

		source.type_information_bytes = APUS_WIRE_INFORMATION_BYTES + more;
		make_information(information, source.type_information_bytes);
		assert_int_equal(apus_wire_endpoint_record_make(&source, &record), 0);
		assert_int_equal(record.information_bytes, more ? 100 : 4096);
		bytes = apus_wire_endpoint_encode(&record, payload, sizeof(payload));
		assert_true(bytes > 0);
		assert_int_equal(decode_endpoint(payload, (size_t)bytes, false, &second),
				 APUS_WIRE_ACCEPT);
		assert_memory_equal(&second.types, &record.types, sizeof(second.types));
		assert_int_equal(second.types.complete.bytes[1], 4);
		assert_int_equal(second.types.complete_bytes, 900);
	}
	source.type_information_bytes = 60;
	assert_int_equal(apus_wire_endpoint_record_make(&source, &record), APUS_EINVAL);
}

static void test_every_limit_at_once_fits(void **state)
{
	static uint8_t information[APUS_WIRE_INFORMATION_BYTES];
	static struct texts t;
	static char expression[APUS_WIRE_FILTER_TEXT_BYTES], longest[256];
	struct apus_qos qos = {.partition_count = 64, .partitions = t.partition_list, .depth = 1};
	struct apus_wire_endpoint_source source = {
		.topic = longest,
		.type = longest,
		.qos = &qos,
		.filter_name = longest,
		.filter_class = longest,
		.filter_expression = expression,
		.filter_parameters = t.parameter_list,
		.filter_parameter_count = 100,
		.type_information = information,
		.type_information_bytes = sizeof(information),
	};
	int bytes;

	(void)state;
	make_information(information, sizeof(information));
	memset(longest, 'x', 255);
	memset(expression, 'e', APUS_WIRE_FILTER_TEXT_BYTES - 3 * 256 - 1 - 100);
	for (size_t i = 0; i < 64; i++)
		t.partition_list[i] = longest;
	for (size_t i = 0; i < 100; i++)
		t.parameter_list[i] = "";
	memcpy(source.guid.bytes, test_prefix, 12);
	source.guid.bytes[15] = 7;
	assert_int_equal(apus_wire_endpoint_record_make(&source, &record), 0);
	assert_int_equal(record.text_bytes, APUS_WIRE_RECORD_TEXT);
	for (uint32_t i = 0; i < 16; i++)
		(i < 8 ? &record.locators.unicast : &record.locators.multicast)->at[i % 8] =
			(struct apus_locator){1, 7400, {[15] = 1}};
	record.locators.unicast.count = record.locators.multicast.count = 8;
	bytes = apus_wire_endpoint_encode(&record, payload, sizeof(payload));
	assert_true(bytes > 37000);
	assert_int_equal(decode_endpoint(payload, (size_t)bytes, false, &second), APUS_WIRE_ACCEPT);
	assert_memory_equal(record.text, second.text, record.information_offset);
	assert_false(second.filter.over_limit);

	strcat(expression, "e");
	assert_int_equal(apus_wire_endpoint_record_make(&source, &record), APUS_ELIMIT);
}

static void test_make_refuses(void **state)
{
	static char too_long[257];
	const char *const long_list[] = {too_long}, *const null_list[] = {NULL};
	const struct apus_qos plain = {.depth = 1};
	struct apus_qos qos = plain;
	const struct apus_wire_endpoint_source good = {.topic = "T", .type = "Y", .qos = &qos};
	struct apus_wire_endpoint_source bad = good;

	(void)state;
	memset(too_long, 'x', 256);
	assert_int_equal(apus_wire_endpoint_record_make(&good, &record), 0);
	bad.topic = NULL;
	assert_int_equal(apus_wire_endpoint_record_make(&bad, &record), APUS_EINVAL);
	bad.topic = "";
	assert_int_equal(apus_wire_endpoint_record_make(&bad, &record), APUS_EINVAL);
	bad.topic = too_long;
	assert_int_equal(apus_wire_endpoint_record_make(&bad, &record), APUS_EINVAL);
	bad = good;
	bad.type = too_long;
	assert_int_equal(apus_wire_endpoint_record_make(&bad, &record), APUS_EINVAL);

	bad = good;
	qos.partition_count = 65;
	assert_int_equal(apus_wire_endpoint_record_make(&bad, &record), APUS_ELIMIT);
	qos.partition_count = 1;
	qos.partitions = long_list;
	assert_int_equal(apus_wire_endpoint_record_make(&bad, &record), APUS_ELIMIT);
	qos.partitions = null_list;
	assert_int_equal(apus_wire_endpoint_record_make(&bad, &record), APUS_EINVAL);
	qos = plain;

	bad.filter_name = "F";
	bad.filter_class = "DDSSQL";
	bad.filter_expression = "x > 1";
	assert_int_equal(apus_wire_endpoint_record_make(&bad, &record), 0);
	bad.is_writer = true;
	assert_int_equal(apus_wire_endpoint_record_make(&bad, &record), APUS_EINVAL);
	bad.is_writer = false;
	bad.filter_expression = "";
	assert_int_equal(apus_wire_endpoint_record_make(&bad, &record), APUS_EINVAL);
	bad.filter_expression = "x > 1";
	bad.filter_class = too_long;
	assert_int_equal(apus_wire_endpoint_record_make(&bad, &record), APUS_EINVAL);
	bad.filter_class = "DDSSQL";
	bad.filter_parameter_count = 101;
	assert_int_equal(apus_wire_endpoint_record_make(&bad, &record), APUS_ELIMIT);
	bad.filter_parameter_count = 1;
	bad.filter_parameters = null_list;
	assert_int_equal(apus_wire_endpoint_record_make(&bad, &record), APUS_EINVAL);
}

static void test_default_representations_are_said(void **state)
{
	const struct apus_qos qos = {.depth = 1};
	struct apus_wire_endpoint_source source = {.topic = "T", .type = "Y", .qos = &qos};

	(void)state;
	assert_int_equal(apus_wire_endpoint_record_make(&source, &record), 0);
	assert_int_equal(record.qos.representation_count, 2);
	assert_int_equal(record.qos.representations[0], 0);
	assert_int_equal(record.qos.representations[1], 2);
	source.is_writer = true;
	assert_int_equal(apus_wire_endpoint_record_make(&source, &record), 0);
	assert_int_equal(record.qos.representation_count, 1);
	assert_int_equal(record.qos.representations[0], 0);
}

static void test_compact_copy_is_a_record(void **state)
{
	const char *a[64], *b[64];
	struct apus_wire_endpoint_record *compact;
	size_t bytes;

	(void)state;
	do
		make_random(&record);
	while (record.partition_count == 0);
	bytes = apus_wire_endpoint_record_bytes(&record);
	/* The whole struct for the sake of sanitizers, poisoned behind the used part. */
	compact = malloc(sizeof(*compact));
	memset(compact, 0x7e, sizeof(*compact));
	memcpy(compact, &record, bytes);
	compact->locators = record.locators; /* which encoding alone needs */
	memset(&second, 0, sizeof(second));
	assert_int_equal(apus_wire_endpoint_record_partitions(&record, a),
			 apus_wire_endpoint_record_partitions(compact, b));
	assert_string_equal(a[record.partition_count - 1], b[record.partition_count - 1]);
	assert_true(apus_wire_endpoint_encode(compact, payload, sizeof(payload)) > 0);
	free(compact);
}

/* --- Damage -------------------------------------------------------------------------------------- */

static void test_no_prefix_of_a_record_is_a_record(void **state)
{
	int bytes;

	(void)state;
	do
		bytes = make_random(&record);
	while (!record.filter.present || bytes > 12000);
	for (int count = 0; count < bytes; count++)
		assert_int_not_equal(
			decode_endpoint(payload, (size_t)count, record.is_writer, &second),
			APUS_WIRE_ACCEPT);
	for (int capacity = 0; capacity < bytes; capacity += 7) {
		uint8_t *exact = malloc(capacity ? (size_t)capacity : 1);

		assert_int_equal(apus_wire_endpoint_encode(&record, exact, (size_t)capacity),
				 APUS_ELIMIT);
		free(exact);
	}
}

/* All that the invariants promise of an accepted record. */
static void check_invariants(const struct apus_wire_endpoint_record *r)
{
	const char *pointers[APUS_WIRE_FILTER_PARAMETERS_MAX];
	const struct apus_wire_text texts[] = {r->topic,
					       r->type,
					       r->filter.name,
					       r->filter.related,
					       r->filter.class_name,
					       r->filter.expression};

	assert_true(r->text_bytes >= 1 && r->text_bytes <= APUS_WIRE_RECORD_TEXT);
	assert_int_equal(r->text[0], 0);
	assert_int_equal(r->text[r->text_bytes - 1], 0);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_true(texts[i].offset + (uint32_t)texts[i].bytes < r->text_bytes);
		assert_int_equal(strlen(r->text + texts[i].offset), texts[i].bytes);
	}
	for (uint32_t i = 0, n = apus_wire_endpoint_record_partitions(r, pointers); i < n; i++)
		assert_true(pointers[i] + strlen(pointers[i]) < r->text + r->text_bytes);
	for (uint32_t i = 0, n = apus_wire_endpoint_record_parameters(r, pointers); i < n; i++)
		assert_true(pointers[i] + strlen(pointers[i]) < r->text + r->text_bytes);
	assert_true(r->qos.deadline_ns >= 0 && r->qos.lease_ns >= 0 && r->qos.depth >= 1);
	assert_true(r->qos.representation_count >= 1 && r->qos.representation_count <= 4);
	assert_true(r->locators.unicast.count <= APUS_WIRE_LOCATORS_MAX);
}

static void test_damaged_records_keep_the_invariants(void **state)
{
	size_t accepted = 0;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		static int bytes;

		if (i % 100 == 0)
			bytes = make_random(&record);
		for (uint32_t n = 1 + draw(3); n > 0; n--)
			payload[4 + draw((uint32_t)(bytes < 800 || draw(4) ? bytes : 800) - 4)] =
				(uint8_t)(draw(2) ? draw(256) : draw(2) * 255);
		if (decode_endpoint(payload, (size_t)bytes, record.is_writer, &second) ==
		    APUS_WIRE_ACCEPT) {
			check_invariants(&second);
			accepted++;
		}
	}
	assert_true(accepted > 100 && accepted < 19900);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_signature),
		cmocka_unit_test(test_filter_at_its_limits),
		cmocka_unit_test(test_filter_over_a_limit_keeps_the_endpoint),
		cmocka_unit_test(test_malformed_filter_rejects_the_record),
		cmocka_unit_test(test_hostile_lengths_reject_the_record),
		cmocka_unit_test(test_random_endpoints_survive_the_round_trip),
		cmocka_unit_test(test_every_limit_at_once_fits),
		cmocka_unit_test(test_type_information_is_announced),
		cmocka_unit_test(test_make_refuses),
		cmocka_unit_test(test_default_representations_are_said),
		cmocka_unit_test(test_compact_copy_is_a_record),
		cmocka_unit_test(test_no_prefix_of_a_record_is_a_record),
		cmocka_unit_test(test_damaged_records_keep_the_invariants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
