/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the TypeLookup messages and the store of TypeObjects do what their headers say, whatever comes in.
 * Method: a request and a reply recorded from Cyclone DDS 0.10.2 (capture 07d), whole, cut short at every
 * byte and with every byte changed; our own messages read back; a store under an injected clock.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "control/types.h"

/* Payloads of frames 27 and 29 of 07d-cyclone-type-lookup-evolved-appendable. */
static const char request_hex[] =
	"00070001effe1001fe0bd931130d9586c300030000000000010000003100000064"
	"64732e6275696c74696e2e544f532e303131306138646539623030386163393665"
	"643137353266303030303031633100000000"
	"23000000d35282011b0000006560535c1300000001000000f19a667ca925b419cbee07084b635d00";
static const char reply_hex[] =
	"00070000dea81001c98a009b2f75d16ec3010300000000000100000000000000f4000000d3528201ec0000"
	"0000000000e4000000d14a8052cf00000001000000f19a667ca925b419cbee07084b635d00b7000000f151"
	"02000100000000000000a7000000070000000b000000000000003100077de007e4000b0000000100000001"
	"00020cc175b9000b0000000200000001000592eb5ffe0019000000030000000100f129a69ea16fc1962fdc"
	"f206bd752313b5bfe90000001e00000004000000010080f1010000f129a69ea16fc1962fdcf206bd75239e"
	"3669d1000019000000050000000100f181189515263febf7127682a3d5cd7b774eff0000000b0000000600"
	"0000090004d95679750077658e5b0400000000000000";

static uint8_t bytes[1024];
static const struct apus_prefix server = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}};

static size_t from_hex(const char *hex)
{
	size_t n = strlen(hex) / 2;

	for (size_t i = 0; i < n; i++) {
		char digits[3] = {hex[2 * i], hex[2 * i + 1], '\0'};

		bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
	}
	return n;
}

static struct apus_mono at(int64_t ms)
{
	return (struct apus_mono){APUS_NS_PER_SEC + ms * APUS_NS_PER_MS};
}

static struct apus_ctl_types *open_store(uint32_t entries, uint64_t budget)
{
	struct apus_ctl_types_config config = {.entries = entries, .bytes = budget, .seed = 9};
	struct apus_ctl_types *types;

	assert_int_equal(apus_ctl_types_create(&config, &types), 0);
	return types;
}

/* The pair of the recorded reply. */
static void recorded(struct apus_wire_type_hash *hash, const uint8_t **object, size_t *object_bytes)
{
	struct apus_wire_type_pairs pairs;
	struct apus_wire_type_hash next;
	const uint8_t *nothing;
	size_t n = from_hex(reply_hex), none;

	assert_int_equal(apus_wire_type_reply_decode(bytes, n, &pairs), APUS_WIRE_ACCEPT);
	assert_true(apus_wire_type_pairs_next(&pairs, hash, object, object_bytes));
	assert_int_equal(hash->kind, APUS_WIRE_EK_MINIMAL);
	assert_int_equal(hash->bytes[0], 0x9a);
	assert_int_equal(*object_bytes, 0xb7 + 4);
	assert_false(apus_wire_type_pairs_next(&pairs, &next, &nothing, &none));
	assert_false(apus_wire_value_bad(&pairs.value));
}

/* ---- messages ----------------------------------------------------------------------------------- */

static void test_recorded_request(void **state)
{
	static const struct apus_prefix asked = {
		{0x01, 0x10, 0xa8, 0xde, 0x9b, 0x00, 0x8a, 0xc9, 0x6e, 0xd1, 0x75, 0x2f}};
	struct apus_wire_type_request r;
	size_t n = from_hex(request_hex);

	(void)state;
	assert_int_equal(apus_wire_type_request_decode(bytes, n, &r), APUS_WIRE_ACCEPT);
	assert_true(r.has_server && apus_prefix_equal(&r.server, &asked));
	assert_false(r.dependencies);
	assert_int_equal(r.hash_count, 1);
	assert_int_equal(r.ignored_count, 0);
	assert_int_equal(r.hashes[0].kind, APUS_WIRE_EK_MINIMAL);
	assert_int_equal(r.hashes[0].bytes[13], 0x5d);
	/* Nothing but padding may be missing. */
	for (size_t cut = 0; cut < n - 1; cut++) {
		uint8_t *exact = malloc(cut ? cut : 1);

		memcpy(exact, bytes, cut);
		assert_int_not_equal(apus_wire_type_request_decode(exact, cut, &r),
				     APUS_WIRE_ACCEPT);
		free(exact);
	}
	bytes[1] = 6; /* big-endian */
	assert_int_equal(apus_wire_type_request_decode(bytes, n, &r), APUS_WIRE_SKIP);
}

static void test_damaged_messages_are_survived(void **state)
{
	struct apus_wire_type_request r;
	struct apus_wire_type_pairs pairs;
	struct apus_wire_type_hash hash;
	const uint8_t *object;
	size_t object_bytes;

	(void)state;
	for (int reply = 0; reply < 2; reply++) {
		size_t n = from_hex(reply ? reply_hex : request_hex);

		for (size_t i = 4; i < n; i++)
			for (int value = 0; value < 256; value += 17) {
				uint8_t before = bytes[i];

				bytes[i] = (uint8_t)value;
				apus_wire_type_request_decode(bytes, n, &r);
				if (apus_wire_type_reply_decode(bytes, n, &pairs) ==
				    APUS_WIRE_ACCEPT)
					while (apus_wire_type_pairs_next(&pairs, &hash, &object,
									 &object_bytes))
						assert_true(object + object_bytes <= bytes + n);
				bytes[i] = before;
			}
	}
}

static void test_own_messages_are_read_back(void **state)
{
	struct apus_wire_type_hash hashes[APUS_WIRE_TYPE_REQUEST_IDS], hash,
		complete = {.kind = APUS_WIRE_EK_COMPLETE, .bytes = {7}};
	uint8_t out[APUS_WIRE_TYPE_REQUEST_BYTES + 512];
	struct apus_wire_type_answer answers[2];
	struct apus_wire_type_hash minimal[2] = {{0}};
	struct apus_guid writer = {{5}};
	struct apus_wire_type_request r;
	struct apus_wire_type_pairs pairs;
	const uint8_t *object, *found;
	size_t object_bytes, found_bytes;
	int n;

	(void)state;
	for (uint32_t i = 0; i < APUS_WIRE_TYPE_REQUEST_IDS; i++)
		hashes[i] = (struct apus_wire_type_hash){APUS_WIRE_EK_COMPLETE, {(uint8_t)i, 1}};
	n = apus_wire_type_request_encode(&writer, 3, &server, hashes, APUS_WIRE_TYPE_REQUEST_IDS,
					  out, APUS_WIRE_TYPE_REQUEST_BYTES);
	assert_true(n > 0 && n % 4 == 0);
	assert_int_equal(apus_wire_type_request_decode(out, (size_t)n, &r), APUS_WIRE_ACCEPT);
	assert_true(apus_prefix_equal(&r.server, &server));
	assert_int_equal(r.hash_count, APUS_WIRE_TYPE_REQUEST_IDS);
	assert_memory_equal(r.hashes, hashes, sizeof(hashes));
	assert_int_equal(apus_wire_type_request_encode(&writer, 3, &server, hashes, 8, out, 100),
			 APUS_ELIMIT);

	recorded(&hash, &object, &object_bytes);
	answers[0] = (struct apus_wire_type_answer){hash, object, (uint32_t)object_bytes};
	answers[1] = (struct apus_wire_type_answer){complete, object, (uint32_t)object_bytes};
	minimal[1] = hash;
	n = apus_wire_type_reply_encode(r.identity, answers, minimal, 2, out, sizeof(out));
	assert_true(n > 0 && n % 4 == 0);
	assert_int_equal(apus_wire_type_reply_decode(out, (size_t)n, &pairs), APUS_WIRE_ACCEPT);
	for (int i = 0; i < 2; i++) {
		assert_true(apus_wire_type_pairs_next(&pairs, &hash, &found, &found_bytes));
		assert_true(apus_wire_type_hash_equal(&hash, &answers[i].hash));
		assert_int_equal(found_bytes, object_bytes);
		assert_memory_equal(found, object, object_bytes);
	}
	/* With room for one only, one is told. */
	n = apus_wire_type_reply_encode(r.identity, answers, minimal, 2, out, 400);
	assert_int_equal(apus_wire_type_reply_decode(out, (size_t)n, &pairs), APUS_WIRE_ACCEPT);
	assert_int_equal(pairs.left, 1);
	n = apus_wire_type_dependencies_encode(r.identity, answers, 2, 7, out, sizeof(out));
	assert_true(n > 0);
	assert_int_equal(apus_wire_type_reply_decode(out, (size_t)n, &pairs), APUS_WIRE_SKIP);
}

/* ---- objects ------------------------------------------------------------------------------------ */

static void test_recorded_object(void **state)
{
	static uint8_t memory[65536];
	struct apus_wire_type_arena arena = {memory, sizeof(memory), 0};
	struct apus_wire_type_object o;
	struct apus_wire_type_hash hash;
	const uint8_t *object;
	size_t n, used;

	(void)state;
	recorded(&hash, &object, &n);
	assert_int_equal(apus_wire_type_object_parse(object, n, &arena, &o), APUS_WIRE_ACCEPT);
	assert_int_equal(o.equivalence, APUS_WIRE_EK_MINIMAL);
	assert_int_equal(o.kind, APUS_TK_STRUCTURE);
	assert_int_equal(o.flags & APUS_TYPE_EXTENSIBILITY, APUS_TYPE_APPENDABLE);
	assert_int_equal(o.member_count, 7);
	assert_int_equal(o.members[0].type->kind, APUS_TK_UINT32);
	assert_int_equal(o.members[0].flags & APUS_MEMBER_KEY, APUS_MEMBER_KEY);
	assert_int_equal(o.members[4].type->kind, APUS_TK_SEQUENCE);
	assert_int_equal(o.members[4].type->element->hash.bytes[0], 0x29);
	assert_int_equal(o.members[6].id, 6);
	assert_int_equal(o.members[6].flags & APUS_MEMBER_OPTIONAL, APUS_MEMBER_OPTIONAL);
	assert_true(arena.used <= apus_wire_type_object_arena(n));
	/* Too little memory, and every cut, is refused. */
	used = arena.used;
	arena = (struct apus_wire_type_arena){memory, used - 1, 0};
	assert_int_equal(apus_wire_type_object_parse(object, n, &arena, &o), APUS_WIRE_MALFORMED);
	for (size_t cut = 0; cut < n; cut++) {
		arena = (struct apus_wire_type_arena){memory, sizeof(memory), 0};
		assert_int_equal(apus_wire_type_object_parse(object, cut, &arena, &o),
				 APUS_WIRE_MALFORMED);
	}
}

/* ---- the store ---------------------------------------------------------------------------------- */

static void test_only_what_was_wanted_is_learnt(void **state)
{
	struct apus_ctl_types *types = open_store(16, 65536);
	const struct apus_ctl_types_counters *counters = apus_ctl_types_counters(types);
	struct apus_wire_type_hash hash, asked[16];
	struct apus_prefix from;
	struct apus_mono due;
	const uint8_t *object;
	size_t n;

	(void)state;
	recorded(&hash, &object, &n);
	assert_int_equal(apus_ctl_types_learn(types, &hash, object, n, &server, at(0)), 0);
	assert_int_equal(apus_counter_get(&counters->unwanted), 1);
	assert_int_equal(apus_ctl_types_closure(types, &hash, NULL, at(0)),
			 APUS_CTL_CLOSURE_MISSING);
	assert_int_equal(apus_ctl_types_closure(types, &hash, &server, at(0)),
			 APUS_CTL_CLOSURE_WANTED);
	/* One byte different, one byte short: not what it is called. */
	bytes[object - bytes + 20] ^= 1;
	assert_int_equal(apus_ctl_types_learn(types, &hash, object, n, &server, at(0)), 0);
	bytes[object - bytes + 20] ^= 1;
	assert_int_equal(apus_ctl_types_learn(types, &hash, object, n - 1, &server, at(0)), 0);
	assert_int_equal(apus_counter_get(&counters->forged), 2);
	assert_null(apus_ctl_types_get(types, &hash));
	assert_int_equal(apus_ctl_types_learn(types, &hash, object, n, &server, at(0)), 1);
	assert_non_null(apus_ctl_types_get(types, &hash));
	assert_int_equal(apus_ctl_types_learn(types, &hash, object, n, &server, at(0)), 0);
	/* What it refers to is asked for in turn: one type, used twice, and another. */
	assert_int_equal(apus_ctl_types_closure(types, &hash, NULL, at(0)),
			 APUS_CTL_CLOSURE_WANTED);
	assert_int_equal(apus_ctl_types_next_request(types, at(0), &from, asked, 16, &due), 2);
	assert_true(apus_prefix_equal(&from, &server));
	apus_ctl_types_destroy(types);
}

static void test_asking_ends(void **state)
{
	struct apus_ctl_types *types = open_store(16, 65536);
	struct apus_wire_type_hash hash = {APUS_WIRE_EK_COMPLETE, {1}}, asked[4];
	struct apus_prefix from;
	struct apus_mono due;
	int64_t ms = 0;
	int times = 0;

	(void)state;
	apus_ctl_types_closure(types, &hash, &server, at(0));
	while (apus_ctl_types_next_request(types, at(ms), &from, asked, 4, &due) == 1) {
		times++;
		assert_int_equal(apus_ctl_types_next_request(types, at(ms), &from, asked, 4, &due),
				 0);
		ms = (due.ns - at(0).ns) / APUS_NS_PER_MS;
	}
	assert_int_equal(times, 5);
	assert_int_equal(ms, 200 * 31);
	assert_int_equal(due.ns, INT64_MAX);
	assert_int_equal(apus_counter_get(&apus_ctl_types_counters(types)->given_up), 1);
	/* Wanted again: not at once, but later. */
	assert_int_equal(apus_ctl_types_closure(types, &hash, &server, at(ms + 10)),
			 APUS_CTL_CLOSURE_MISSING);
	assert_int_equal(apus_ctl_types_closure(types, &hash, &server, at(ms + 5000)),
			 APUS_CTL_CLOSURE_WANTED);
	apus_ctl_types_destroy(types);
}

static void test_budgets(void **state)
{
	struct apus_ctl_types *types = open_store(2, 65536);
	struct apus_wire_type_hash hash, other = {APUS_WIRE_EK_COMPLETE, {0}};
	const uint8_t *object;
	size_t n;

	(void)state;
	recorded(&hash, &object, &n);
	for (uint8_t i = 1; i <= 3; i++) {
		other.bytes[0] = i;
		assert_int_equal(apus_ctl_types_closure(types, &other, &server, at(0)),
				 i < 3 ? APUS_CTL_CLOSURE_WANTED : APUS_CTL_CLOSURE_MISSING);
	}
	assert_true(apus_ctl_types_full(types));
	/* Only the first is still needed. */
	other.bytes[0] = 1;
	apus_ctl_types_keep_begin(types);
	apus_ctl_types_keep(types, &other);
	apus_ctl_types_keep_end(types);
	assert_false(apus_ctl_types_full(types));
	assert_int_equal(apus_ctl_types_closure(types, &hash, &server, at(0)),
			 APUS_CTL_CLOSURE_WANTED);
	apus_ctl_types_destroy(types);
	/* Too few bytes for the object: refused, counted, and wanted again only later, when there may be room. */
	types = open_store(4, 100);
	apus_ctl_types_closure(types, &hash, &server, at(0));
	assert_int_equal(apus_ctl_types_learn(types, &hash, object, n, &server, at(0)), 0);
	assert_int_equal(apus_counter_get(&apus_ctl_types_counters(types)->refused), 1);
	assert_int_equal(apus_ctl_types_closure(types, &hash, &server, at(4999)),
			 APUS_CTL_CLOSURE_MISSING);
	assert_int_equal(apus_ctl_types_closure(types, &hash, &server, at(5000)),
			 APUS_CTL_CLOSURE_WANTED);
	apus_ctl_types_destroy(types);
}

/* ---- text --------------------------------------------------------------------------------------- */

/* Modules are entered once where that can be, nothing trails, and text that has no room is refused. */
static void test_text(void **state)
{
	static const char expected[] = "module a {\n"
				       "  module b {\n"
				       "    @final struct P {\n"
				       "      long x;\n"
				       "    };\n"
				       "\n"
				       "    enum C { R, @value(5) G };\n"
				       "  };\n"
				       "\n"
				       "  @appendable struct Q {\n"
				       "    a::b::P p;\n"
				       "    sequence<a::b::C, 4> c;\n"
				       "  };\n"
				       "};\n"
				       "\n"
				       "@mutable struct T {\n"
				       "  @id(7) @key long k;\n"
				       "  a::Q q;\n"
				       "};\n";
	static const struct apus_label labels[] = {{"R", 0}, {"G", 5}};
	static const struct apus_type color = {.name = "a::b::C",
					       .kind = APUS_KIND_ENUM,
					       .size_bytes = 4,
					       .align_bytes = 4,
					       .labels = labels,
					       .label_count = 2};
	static const struct apus_type colors = {.kind = APUS_KIND_SEQUENCE,
						.element = &color,
						.bound = 4,
						.size_bytes = 16,
						.align_bytes = 8};
	static const struct apus_member p_members[] = {{.name = "x", .type = &apus_type_int32}};
	static const struct apus_type p = {.name = "a::b::P",
					   .kind = APUS_KIND_STRUCT,
					   .size_bytes = 4,
					   .align_bytes = 4,
					   .members = p_members,
					   .member_count = 1};
	static const struct apus_member q_members[] = {
		{.name = "p", .type = &p},
		{.name = "c", .type = &colors, .offset_bytes = 8, .id = 1}};
	static const struct apus_type q = {.name = "a::Q",
					   .kind = APUS_KIND_STRUCT,
					   .extensibility = APUS_APPENDABLE,
					   .size_bytes = 24,
					   .align_bytes = 8,
					   .members = q_members,
					   .member_count = 2};
	static const struct apus_member members[] = {
		{.name = "k", .type = &apus_type_int32, .id = 7, .key = true},
		{.name = "q", .type = &q, .offset_bytes = 8, .id = 8}};
	static const struct apus_type type = {.name = "T",
					      .kind = APUS_KIND_STRUCT,
					      .extensibility = APUS_MUTABLE,
					      .size_bytes = 32,
					      .align_bytes = 8,
					      .members = members,
					      .member_count = 2};
	char text[sizeof(expected)];

	(void)state;
	assert_int_equal(apus_type_check(&type), 0);
	assert_int_equal(apus_type_to_idl(&type, text, sizeof(text)), sizeof(expected) - 1);
	assert_string_equal(text, expected);
	for (size_t room = 1; room < sizeof(text); room++) {
		assert_int_equal(apus_type_to_idl(&type, text, room), APUS_ELIMIT);
		assert_memory_equal(text, expected, room - 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recorded_request),
		cmocka_unit_test(test_damaged_messages_are_survived),
		cmocka_unit_test(test_own_messages_are_read_back),
		cmocka_unit_test(test_recorded_object),
		cmocka_unit_test(test_only_what_was_wanted_is_learnt),
		cmocka_unit_test(test_asking_ends),
		cmocka_unit_test(test_budgets),
		cmocka_unit_test(test_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
