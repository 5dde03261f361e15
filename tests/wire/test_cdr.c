/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: samples become exactly the bytes that peers write, and only well-formed bytes become
 * samples.
 * Method: payloads recorded from Cyclone DDS 0.10.2 and Fast DDS 2.9.1 (and, for the Nest
 * type, taken from Cyclone's serialiser) are compared byte for byte; round trips in both byte
 * orders; every truncation and a set of forged lengths must be refused without a pointer left
 * behind.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include "zoo.h"
#include "wire/cdr.h"
#include "wire/fixed.h"

#define FINAL_BODY                                                                             \
	"01000000a50000000807060504030201000000000000f83f0600000066696e616c000000030000000100" \
	"feff03000000"
/* Recorded: Cyclone's AppT has a union and an optional member behind v; ours ends with v. */
#define APP_RECORDED                                                                           \
	"000900035100000001000000a5000000fbffffffffffffff0b0000000b00000003000000696e00002400" \
	"0000020000000b0000001500000003000000763000000c00000016000000040000007631780001000000" \
	"6300000000000000"
#define APP_HEAD                                                                               \
	"000900004800000001000000a5000000fbffffffffffffff0b0000000b00000003000000696e00002400" \
	"0000020000000b0000001500000003000000763000000c000000160000000400000076317800"
#define NEST_XCDR1                                                                             \
	"000100030100000000000000000000000000f0bf0a0000000b00000000000000000000c0140000001500" \
	"00000500000000000000000000000000f03f01000000ffffffff000000000000004002000000feffffff" \
	"000000000000084003000000fdffffff000000000000104004000000fcffffff00000000000014400500" \
	"0000fbffffff020000000200000000000000000000000200000003000000010000000000000003000000" \
	"616200000500000078797a21000000000200000003000000070008000900000000000000090000003132" \
	"33343536373800000000020000000100000801fe71f8c800c0f9a0f00000001efbff00286bee00000000" \
	"0000000000000080ffffffffffffffffcdcccc3d00000000039300aa4bdd4dfe01000000090801000100" \
	"0000"
#define NEST_XCDR2                                                                             \
	"000700030100000020000000000000000000f0bf0a0000000b00000000000000000000c0140000001500" \
	"00005400000005000000000000000000f03f01000000ffffffff000000000000004002000000feffffff" \
	"000000000000084003000000fdffffff000000000000104004000000fcffffff00000000000014400500" \
	"0000fbffffff0c0000000200000002000000000000000800000000000000020000001d00000003000000" \
	"010000000000000003000000616200000500000078797a21000000001400000002000000030000000700" \
	"080009000000000000000900000031323334353637380000000008000000020000000100000801fe71f8" \
	"c800c0f9a0f00000001efbff00286bee0000000000000080ffffffffffffffffcdcccc3d039300aa4bdd" \
	"4dfe010000000908010001000000"

static _Alignas(16) uint8_t arena[65536];
static _Alignas(16) uint8_t sample_memory[4096];

static void expect_payload(const struct apus_type *type, const void *sample, int representation,
			   bool key_only, const char *hex)
{
	uint8_t want[1024], got[1024];
	size_t want_bytes = zoo_hex(hex, want);
	int n = apus_type_encode(type, sample, representation, key_only, got, sizeof(got));

	assert_int_equal(n, want_bytes);
	assert_memory_equal(got, want, want_bytes);
	/* Exactly the room needed suffices, one byte less does not. */
	assert_int_equal(apus_type_encode(type, sample, representation, key_only, got, want_bytes),
			 n);
	assert_int_equal(
		apus_type_encode(type, sample, representation, key_only, got, want_bytes - 1),
		APUS_ELIMIT);
}

static int decode_hex(const struct apus_type *type, const char *hex, bool key_only, void *sample)
{
	uint8_t bytes[1024];
	size_t n = zoo_hex(hex, bytes);
	uint8_t *exact = malloc(n ? n : 1); /* so that a sanitizer sees any read beyond the end */
	int rc;

	memcpy(exact, bytes, n);
	rc = apus_type_decode(type, exact, n, key_only, sample, arena, sizeof(arena));
	free(exact);
	return rc;
}

static void shape_bytes_equal_both_peers(void **state)
{
	struct apus_shape shape = {.color = "BLUE", .x = 10, .y = 20, .shapesize = 30};

	(void)state;
	expect_payload(&apus_shape_type, &shape, APUS_XCDR1, false,
		       "0001000005000000424c5545000000000a000000140000001e000000");
	expect_payload(&apus_shape_type, &shape, APUS_XCDR2, false,
		       "0007000005000000424c5545000000000a000000140000001e000000");
	expect_payload(&apus_shape_type, &shape, APUS_XCDR1, true,
		       "0001000305000000424c554500000000");
	strcpy(shape.color, "RED");
	expect_payload(&apus_shape_type, &shape, APUS_XCDR1, true, "000100000400000052454400");
}

static void blob_and_key_types_equal_peers(void **state)
{
	uint8_t data[] = {0x07, 0x26, 0x45, 0x64};
	struct apus_blob blob = {0x12345678, {.length = 4, .data = data}};
	struct zoo_key2 key2 = {0x0102030405060708, 0x0102, 7};
	struct zoo_keybig big = {{100, 101, 102, 103, 104, 105, 106, 107}, 5};

	(void)state;
	expect_payload(&apus_blob_type, &blob, APUS_XCDR1, false,
		       "00010000785634120400000007264564");
	expect_payload(&zoo_key2_type, &key2, APUS_XCDR1, false,
		       "0001000008070605040302010201000007000000");
	expect_payload(&zoo_key2_type, &key2, APUS_XCDR1, true, "00010002080706050403020102010000");
	expect_payload(
		&zoo_keybig_type, &big, APUS_XCDR1, false,
		"000100006400000065000000660000006700000068000000690000006a0000006b00000005000000");
	expect_payload(&zoo_keybig_type, &big, APUS_XCDR1, true,
		       "000100006400000065000000660000006700000068000000690000006a0000006b000000");
}

static void final_type_equals_cyclone(void **state)
{
	struct zoo_final s;

	(void)state;
	zoo_fill_final(&s);
	expect_payload(&zoo_final_type, &s, APUS_XCDR1, false, "00010002" FINAL_BODY);
	expect_payload(&zoo_final_type, &s, APUS_XCDR2, false, "00070002" FINAL_BODY);
	expect_payload(&zoo_final_type, &s, APUS_XCDR2, true, "0007000001000000");
}

static void nested_type_equals_cyclone(void **state)
{
	struct zoo_nest s, *back = (void *)sample_memory;
	const struct zoo_point *path;

	(void)state;
	zoo_fill_nest(&s);
	expect_payload(&zoo_nest_type, &s, APUS_XCDR1, false, NEST_XCDR1);
	expect_payload(&zoo_nest_type, &s, APUS_XCDR2, false, NEST_XCDR2);
	assert_true(decode_hex(&zoo_nest_type, NEST_XCDR2, false, back) > 0);
	path = back->path.data;
	assert_int_equal(back->path.length, 5);
	assert_true(path[4].x == 5.0 && path[4].y == 5 && path[4].z == -5);
	assert_string_equal(((char **)back->names.data)[2], "xyz!");
	assert_int_equal(((uint16_t *)((struct apus_sequence *)back->table.data)[0].data)[2], 9);
	assert_string_equal(back->code, "12345678");
	assert_int_equal(back->prims.i64, INT64_MIN);
	assert_true(back->prims.f32 == 0.1f && back->prims.f64 == -2.5e300);
	assert_true(back->prims.bits[0] && !back->prims.bits[1] && back->prims.bits[2]);
}

static void appendable_type_equals_cyclone(void **state)
{
	struct zoo_app s, *back = (void *)sample_memory;
	struct zoo_inner *v;

	(void)state;
	zoo_fill_app(&s);
	expect_payload(&zoo_app_type, &s, APUS_XCDR2, false, APP_HEAD);
	expect_payload(&zoo_app_type, &s, APUS_XCDR2, true, "0009000001000000");
	/* The recorded sample is of a newer version of the type: what ours lacks is skipped. */
	assert_true(decode_hex(&zoo_app_type, APP_RECORDED, false, back) > 0);
	v = back->v.data;
	assert_int_equal(back->b, -5);
	assert_string_equal(back->in.q, "in");
	assert_int_equal(back->v.length, 2);
	assert_int_equal(v[1].p, 22);
	assert_string_equal(v[1].q, "v1x");
}

static void appendable_types_evolve(void **state)
{
	struct zoo_app app;
	struct zoo_app_long *longer = (void *)sample_memory;
	struct zoo_app_short *shorter = (void *)sample_memory;
	uint8_t payload[512];

	(void)state;
	zoo_fill_app(&app);
	for (int r = APUS_XCDR1; r <= APUS_XCDR2; r += 2) {
		int n = apus_type_encode(&zoo_app_type, &app, r, false, payload, sizeof(payload));

		assert_true(n > 0);
		assert_true(apus_type_decode(&zoo_app_long_type, payload, n, false, longer, arena,
					     sizeof(arena)) > 0);
		assert_int_equal(longer->head.v.length, 2);
		assert_null(longer->added);
		assert_int_equal(longer->tail, 0);
		assert_int_equal(
			apus_type_decode(&zoo_app_short_type, payload, n, false, shorter, NULL, 0),
			0);
		assert_int_equal(shorter->a, 0xa5);
	}
	/* Undeclared padding after a shorter XCDR1 sample is no member. */
	assert_true(decode_hex(&zoo_app_type, "0001000007000000a5000000", false, sample_memory) >=
		    0);
	assert_int_equal(((struct zoo_app *)(void *)sample_memory)->b, 0);
	/* A nested struct under XCDR1 has no end of its own and must be whole. */
	assert_int_equal(decode_hex(&zoo_app_type,
				    "0001000007000000a500000000000000000000000000000001000000",
				    false, sample_memory),
			 APUS_EENCODING);
}

/* Encodes, decodes and encodes again; the two payloads must be equal. */
static void round_trip(const struct apus_type *type, const void *sample)
{
	uint8_t first[2048], second[2048];

	for (int i = 0; i < 8; i++) {
		const int representation = i & 1 ? APUS_XCDR2 : APUS_XCDR1;
		const bool big = i & 2, key_only = i & 4;
		int n = apus_wire_cdr_encode(type, sample, representation, key_only, big, first,
					     sizeof(first));
		int m;

		assert_true(n >= 4);
		assert_true(apus_type_decode(type, first, n, key_only, sample_memory, arena,
					     sizeof(arena)) >= 0);
		m = apus_wire_cdr_encode(type, sample_memory, representation, key_only, big, second,
					 sizeof(second));
		assert_int_equal(m, n);
		assert_memory_equal(first, second, n);
		/* No proper prefix of the body is a sample, but where members may be missing;
		 * padding is not part of the body. */
		for (int cut = n - 4 - 1; cut >= 0; cut--) {
			uint8_t *exact = malloc(cut + 4);

			memcpy(exact, first, cut + 4);
			exact[3] = 0;
			m = apus_type_decode(type, exact, cut + 4, key_only, sample_memory, arena,
					     sizeof(arena));
			free(exact);
			if (m < 0)
				for (size_t b = 0; b < type->size_bytes; b++)
					assert_int_equal(sample_memory[b], 0);
			if (type->extensibility == APUS_FINAL && cut < n - 4 - (first[3] & 3))
				assert_int_equal(m, APUS_EENCODING);
		}
	}
}

static void round_trips_in_both_orders(void **state)
{
	struct apus_shape shape = {"GREEN", 1, -2, INT32_MAX};
	uint8_t extra[] = {255, 255};
	struct apus_shape_extended extended = {"", 1, -2, INT32_MIN, {.length = 2, .data = extra}};
	struct zoo_final f;
	struct zoo_app a;
	struct zoo_nest nest;
	struct zoo_keydeep deep;
	struct zoo_keyopen open = {3, NULL};

	(void)state;
	zoo_fill_final(&f);
	zoo_fill_app(&a);
	zoo_fill_nest(&nest);
	zoo_fill_keydeep(&deep);
	round_trip(&apus_shape_type, &shape);
	round_trip(&apus_shape_extended_type, &extended);
	round_trip(&zoo_final_type, &f);
	round_trip(&zoo_app_type, &a);
	round_trip(&zoo_nest_type, &nest);
	round_trip(&zoo_prims_type, &nest.prims);
	round_trip(&zoo_keydeep_type, &deep);
	round_trip(&zoo_keyopen_type, &open);
}

static void big_endian_is_read(void **state)
{
	struct apus_shape *s = (void *)sample_memory;

	(void)state;
	assert_int_equal(decode_hex(&apus_shape_type,
				    "0000000000000005424c5545000000000000000afffffffe0000001e",
				    false, s),
			 0);
	assert_string_equal(s->color, "BLUE");
	assert_int_equal(s->x, 10);
	assert_int_equal(s->y, -2);
	assert_int_equal(decode_hex(&apus_shape_type,
				    "0006000000000005424c5545000000000000000afffffffe0000001e",
				    false, s),
			 0);
	assert_int_equal(s->shapesize, 30);
}

static void refuse(const struct apus_type *type, const char *hex, bool key_only, int rc)
{
	memset(sample_memory, 0x5a, sizeof(sample_memory));
	assert_int_equal(decode_hex(type, hex, key_only, sample_memory), rc);
	for (size_t i = 0; i < type->size_bytes; i++)
		assert_int_equal(sample_memory[i], 0);
}

static void malformed_payloads_are_refused(void **state)
{
	(void)state;
	refuse(&apus_blob_type, "", false, APUS_EENCODING);
	refuse(&apus_blob_type, "000100", false, APUS_EENCODING);
	/* more padding than body; unknown, parameter-list and mismatched encapsulations */
	refuse(&apus_blob_type, "00010001", false, APUS_EENCODING);
	refuse(&apus_blob_type, "000400000100000000000000", false, APUS_EENCODING);
	refuse(&apus_blob_type, "000300000100000000000000", false, APUS_EENCODING);
	refuse(&apus_blob_type, "010100000100000000000000", false, APUS_EENCODING);
	refuse(&apus_blob_type, "00090000080000000100000000000000", false, APUS_EENCODING);
	refuse(&zoo_app_type, "000700000100000000000000", false, APUS_EENCODING);
	/* sequence longer than the bytes there are, or than the address space */
	refuse(&apus_blob_type, "00010000010000000500000001020304", false, APUS_EENCODING);
	refuse(&apus_blob_type, "0001000001000000ffffffff01020304", false, APUS_EENCODING);
	/* a whole word behind a final sample */
	refuse(&apus_blob_type, "00010000010000000000000000000000", false, APUS_EENCODING);
	/* strings: no NUL, length 0, NUL within, longer than the payload */
	refuse(&apus_shape_type, "0001000004000000424c55450a000000140000001e000000", false,
	       APUS_EENCODING);
	refuse(&apus_shape_type, "00010000000000000a000000140000001e000000", false, APUS_EENCODING);
	refuse(&apus_shape_type, "0001000004000000420055000a000000140000001e000000", false,
	       APUS_EENCODING);
	refuse(&zoo_final_type,
	       "00010000010000000a00000000000000000000000000000000000000ffffffff61000000", false,
	       APUS_EENCODING);
	/* DHEADERs beyond the end, and one that disagrees with what is inside */
	refuse(&zoo_app_type, "00090000ffffffff01000000", false, APUS_EENCODING);
	refuse(&zoo_app_type, "000900000900000001000000a5000000", false, APUS_EENCODING);
	/* key-only payloads with more than keys */
	refuse(&zoo_app_type, "000900000100000002000000", true, APUS_EENCODING);
	refuse(&apus_blob_type, "000100000100000000000000", true, APUS_EENCODING);
}

static void string_bound_is_held_both_ways(void **state)
{
	struct apus_shape s = {.x = 1};
	uint8_t payload[256];
	int n;

	(void)state;
	memset(s.color, 'c', 128);
	n = apus_type_encode(&apus_shape_type, &s, APUS_XCDR1, false, payload, sizeof(payload));
	assert_int_equal(n, 4 + 4 + 132 + 12);
	assert_int_equal(
		apus_type_decode(&apus_shape_type, payload, n, false, sample_memory, NULL, 0), 0);
	/* 130 bytes with the NUL: one character above the bound, though the bytes are there */
	payload[4] = 130;
	payload[8 + 128] = 'c';
	assert_int_equal(
		apus_type_decode(&apus_shape_type, payload, n, false, sample_memory, NULL, 0),
		APUS_EENCODING);
	s.color[128] = 'c';
	assert_int_equal(
		apus_type_encode(&apus_shape_type, &s, APUS_XCDR1, false, payload, sizeof(payload)),
		APUS_EENCODING);
}

static void sequence_bound_is_held_on_reading(void **state)
{
	static const struct apus_type octets3 = {.kind = APUS_KIND_SEQUENCE,
						 .size_bytes = sizeof(struct apus_sequence),
						 .align_bytes = _Alignof(struct apus_sequence),
						 .element = &apus_type_octet,
						 .bound = 3};
	static const struct apus_member member = {"s", &octets3, 0, 0, false};
	static const struct apus_type type = {.name = "T",
					      .kind = APUS_KIND_STRUCT,
					      .size_bytes = sizeof(struct apus_sequence),
					      .align_bytes = _Alignof(struct apus_sequence),
					      .members = &member,
					      .member_count = 1};

	(void)state;
	assert_int_equal(decode_hex(&type, "000100000300000001020300", false, sample_memory), 3);
	refuse(&type, "000100000400000001020304", false, APUS_EENCODING);
}

static void dheader_of_a_sequence_must_agree(void **state)
{
	static const uint8_t moods[] = {12, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0};
	uint8_t payload[512], *at;
	size_t n = zoo_hex(NEST_XCDR2, payload);

	(void)state;
	at = memmem(payload, n, moods, sizeof(moods));
	assert_non_null(at);
	for (uint8_t bytes = 0; bytes <= 20; bytes += 4) {
		*at = bytes;
		if (bytes == 12)
			continue;
		assert_int_equal(apus_type_decode(&zoo_nest_type, payload, n, false, sample_memory,
						  arena, sizeof(arena)),
				 APUS_EENCODING);
	}
}

static void values_outside_their_type_are_refused(void **state)
{
	struct zoo_nest nest;
	struct zoo_prims p;
	uint8_t payload[512];
	int n;

	(void)state;
	zoo_fill_prims(&p);
	n = apus_type_encode(&zoo_prims_type, &p, APUS_XCDR1, false, payload, sizeof(payload));
	payload[4] = 2; /* the first bool */
	assert_int_equal(
		apus_type_decode(&zoo_prims_type, payload, n, false, sample_memory, NULL, 0),
		APUS_EENCODING);
	p.flags = 0x1000; /* bit 12 of a 12-bit mask */
	assert_int_equal(
		apus_type_encode(&zoo_prims_type, &p, APUS_XCDR1, false, payload, sizeof(payload)),
		APUS_EENCODING);
	zoo_fill_nest(&nest);
	nest.moods.length = 4; /* bound 3 */
	assert_int_equal(apus_type_encode(&zoo_nest_type, &nest, APUS_XCDR1, false, payload,
					  sizeof(payload)),
			 APUS_EENCODING);
	zoo_fill_nest(&nest);
	nest.path.data = NULL;
	assert_int_equal(apus_type_encode(&zoo_nest_type, &nest, APUS_XCDR1, false, payload,
					  sizeof(payload)),
			 APUS_EENCODING);
	assert_int_equal(apus_type_encode(&zoo_prims_type, &p, 1, false, payload, sizeof(payload)),
			 APUS_EINVAL);
}

static void arena_too_small_is_a_limit(void **state)
{
	uint8_t payload[512];
	struct zoo_nest s;
	int n, used;

	(void)state;
	zoo_fill_nest(&s);
	n = apus_type_encode(&zoo_nest_type, &s, APUS_XCDR2, false, payload, sizeof(payload));
	used = apus_type_decode(&zoo_nest_type, payload, n, false, sample_memory, arena,
				sizeof(arena));
	assert_true(used > 0);
	assert_int_equal(
		apus_type_decode(&zoo_nest_type, payload, n, false, sample_memory, arena, used),
		used);
	for (int room = 0; room < used; room++)
		assert_int_equal(apus_type_decode(&zoo_nest_type, payload, n, false, sample_memory,
						  arena, room),
				 APUS_ELIMIT);
	/* an arena at an odd address still yields aligned elements */
	n = apus_type_decode(&zoo_nest_type, payload, n, false, sample_memory, arena + 1,
			     sizeof(arena) - 1);
	assert_true(n > 0);
	assert_int_equal((uintptr_t)((struct zoo_nest *)(void *)sample_memory)->path.data % 8, 0);
}

static void plain_types_are_recognised(void **state)
{
	size_t align = 0;

	(void)state;
	assert_int_equal(apus_wire_plain_bytes(&zoo_point_type, APUS_XCDR1, &align), 16);
	assert_int_equal(align, 8);
	assert_int_equal(apus_wire_plain_bytes(&zoo_point_type, APUS_XCDR2, &align), 16);
	assert_int_equal(align, 4);
	assert_int_equal(apus_wire_plain_bytes(&zoo_keybig_type, APUS_XCDR1, NULL), 36);
	/* padding inside or behind, bools, strings, DHEADERs */
	assert_int_equal(apus_wire_plain_bytes(&zoo_key2_type, APUS_XCDR1, NULL), 0);
	assert_int_equal(apus_wire_plain_bytes(&zoo_prims_type, APUS_XCDR1, NULL), 0);
	assert_int_equal(apus_wire_plain_bytes(&apus_shape_type, APUS_XCDR1, NULL), 0);
	assert_int_equal(apus_wire_plain_bytes(&zoo_app_short_type, APUS_XCDR1, NULL), 0);
}

/* Of every size up to 300 bytes: the payload apus_type_encode() writes, nothing behind it, nothing if it has no
 * room. */
static void fixed_layouts_are_copied(void **state)
{
	uint8_t sample[300], out[320], expected[320];

	(void)state;
	for (size_t i = 0; i < sizeof(sample); i++)
		sample[i] = (uint8_t)(i * 7 + 1);
	for (uint32_t count = 1; count <= 75; count++) {
		struct apus_type array = {.kind = APUS_KIND_ARRAY,
					  .element = &apus_type_uint32,
					  .bound = count,
					  .size_bytes = 4 * count,
					  .align_bytes = 4};
		struct apus_member member = {.name = "a", .type = &array};
		struct apus_type type = {.name = "T",
					 .kind = APUS_KIND_STRUCT,
					 .size_bytes = 4 * count,
					 .align_bytes = 4,
					 .members = &member,
					 .member_count = 1,
					 .plain_xcdr1 = true,
					 .plain_xcdr2 = true};
		int bytes = 4 + 4 * (int)count;

		assert_int_equal(apus_type_check(&type), 0);
		for (int r = APUS_XCDR1; r <= APUS_XCDR2; r += APUS_XCDR2) {
			struct apus_wire_fixed fixed = apus_wire_fixed_of(&type, r);

			assert_int_equal(fixed.payload_bytes, bytes);
			memset(out, 0xee, sizeof(out));
			memset(expected, 0xee, sizeof(expected));
			assert_int_equal(
				apus_wire_fixed_encode(&fixed, sample, out, (size_t)bytes - 1),
				APUS_ELIMIT);
			assert_memory_equal(out, expected, sizeof(out));
			assert_int_equal(apus_wire_fixed_encode(&fixed, sample, out, (size_t)bytes),
					 bytes);
			assert_int_equal(apus_wire_cdr_encode(&type, sample, r, false, false,
							      expected, sizeof(expected)),
					 bytes);
			assert_memory_equal(out, expected, sizeof(out));
		}
	}
	/* Not fixed: a string, padding, padding behind. */
	assert_int_equal(apus_wire_fixed_of(&apus_shape_type, APUS_XCDR1).payload_bytes, 0);
	assert_int_equal(apus_wire_fixed_of(&zoo_prims_type, APUS_XCDR1).payload_bytes, 0);
	assert_int_equal(apus_wire_fixed_of(&zoo_key2_type, APUS_XCDR1).payload_bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shape_bytes_equal_both_peers),
		cmocka_unit_test(blob_and_key_types_equal_peers),
		cmocka_unit_test(final_type_equals_cyclone),
		cmocka_unit_test(nested_type_equals_cyclone),
		cmocka_unit_test(appendable_type_equals_cyclone),
		cmocka_unit_test(appendable_types_evolve),
		cmocka_unit_test(round_trips_in_both_orders),
		cmocka_unit_test(big_endian_is_read),
		cmocka_unit_test(malformed_payloads_are_refused),
		cmocka_unit_test(string_bound_is_held_both_ways),
		cmocka_unit_test(sequence_bound_is_held_on_reading),
		cmocka_unit_test(dheader_of_a_sequence_must_agree),
		cmocka_unit_test(values_outside_their_type_are_refused),
		cmocka_unit_test(arena_too_small_is_a_limit),
		cmocka_unit_test(plain_types_are_recognised),
		cmocka_unit_test(fixed_layouts_are_copied),
	};

	return cmocka_run_group_tests_name("cdr", tests, NULL, NULL);
}
