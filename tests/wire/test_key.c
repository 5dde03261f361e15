/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: one instance, one canonical key, whatever form it arrives in; hashes and key-only payloads
 * are those of the peers.
 * Method: hashes and payloads recorded from Cyclone DDS 0.10.2 and Fast DDS 2.9.1 (for KeyDeep
 * taken from Cyclone's serialiser); every path to the canonical key (full payload, key-only payload
 * in both forms, memory, hash) must give the same bytes; truncations and forgeries are refused.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include "zoo.h"
#include "wire/cdr.h"
#include "wire/key.h"

static int extract_hex(const struct apus_wire_keyplan *plan, const char *hex, bool key_only,
		       uint8_t *key, size_t room)
{
	uint8_t bytes[1024];
	size_t n = zoo_hex(hex, bytes);
	uint8_t *exact = malloc(n ? n : 1);
	int rc;

	memcpy(exact, bytes, n);
	rc = apus_wire_key_extract(plan, exact, n, key_only, key, room);
	free(exact);
	return rc;
}

static void expect_key(const struct apus_wire_keyplan *plan, const char *payload_hex, bool key_only,
		       const char *key_hex)
{
	uint8_t key[512], want[512];
	size_t n = zoo_hex(key_hex, want);

	assert_int_equal(extract_hex(plan, payload_hex, key_only, key, sizeof(key)), n);
	assert_memory_equal(key, want, n);
	assert_int_equal(extract_hex(plan, payload_hex, key_only, key, n), n);
	assert_int_equal(extract_hex(plan, payload_hex, key_only, key, n - 1), APUS_ELIMIT);
}

static void expect_hash(const struct apus_wire_keyplan *plan, const char *key_hex,
			const char *hash_hex)
{
	uint8_t key[512], hash[16], want[16];
	size_t n = zoo_hex(key_hex, key);

	assert_int_equal(zoo_hex(hash_hex, want), 16);
	apus_wire_key_hash(plan, key, n, hash);
	assert_memory_equal(hash, want, 16);
}

static void shape_key_and_fast_dds_hash(void **state)
{
	struct apus_wire_keyplan plan;

	(void)state;
	assert_int_equal(apus_wire_keyplan_init(&plan, &apus_shape_type, 0), 0);
	assert_int_equal(apus_wire_key_max(&plan), 133);
	expect_key(&plan, "0001000005000000424c5545000000000a000000140000001e000000", false,
		   "00000005424c554500");
	expect_key(&plan, "0000000000000005424c5545000000000000000a000000140000001e", false,
		   "00000005424c554500");
	expect_key(&plan, "0001000305000000424c554500000000", true, "00000005424c554500");
	expect_key(&plan, "000100000400000052454400", true, "0000000452454400");
	expect_hash(&plan, "00000005424c554500", "cac217c318363f8ef1160eeedef9e886");
	expect_hash(&plan, "0000000452454400", "d36de865fac295155f18df7157b217e6");
}

static void fixed_keys_and_hashes(void **state)
{
	struct apus_wire_keyplan plan;

	(void)state;
	assert_int_equal(apus_wire_keyplan_init(&plan, &zoo_key2_type, 0), 0);
	assert_int_equal(apus_wire_key_max(&plan), 10);
	expect_key(&plan, "0001000008070605040302010201000007000000", false,
		   "01020304050607080102");
	expect_key(&plan, "00010002080706050403020102010000", true, "01020304050607080102");
	expect_hash(&plan, "01020304050607080102", "01020304050607080102000000000000");
	assert_int_equal(apus_wire_keyplan_init(&plan, &zoo_keybig_type, 0), 0);
	assert_int_equal(apus_wire_key_max(&plan), 32);
	expect_key(
		&plan,
		"000100006400000065000000660000006700000068000000690000006a0000006b00000005000000",
		false, "0000006400000065000000660000006700000068000000690000006a0000006b");
	expect_hash(&plan, "0000006400000065000000660000006700000068000000690000006a0000006b",
		    "521196db48be1ac0ed87d0e9bfcad6f6");
	assert_int_equal(apus_wire_keyplan_init(&plan, &apus_blob_type, 0), 0);
	expect_key(&plan, "00010000785634120400000007264564", false, "12345678");
	expect_hash(&plan, "12345678", "12345678000000000000000000000000");
}

/* The key of KeyDeep: mood (id 3), tag (4), part (7) with r (0) and p (2). */
#define DEEP_KEY                           \
	"00000002000000047461670055660000" \
	"11223344"

static void keys_out_of_order_equal_cyclone(void **state)
{
	const char *full =
		"00090000400000000a000000736f6d6520746578740000001200000044332211020000006e"
		"006655020000006d00000003000000090909000200000004000000746167004d000000";
	const char *key_only = "000900000200000004000000746167006655000044332211";
	struct apus_wire_keyplan plan;
	struct zoo_keydeep deep;
	uint8_t payload[128], want[128], key[64], want_key[64];
	size_t n, key_bytes = zoo_hex(DEEP_KEY, want_key);

	(void)state;
	assert_int_equal(apus_wire_keyplan_init(&plan, &zoo_keydeep_type, 0), 0);
	assert_int_equal(apus_wire_key_max(&plan), 20);
	expect_key(&plan, full, false, DEEP_KEY);
	expect_key(&plan, key_only, true, DEEP_KEY);
	expect_hash(&plan, DEEP_KEY, "502f406f958b2b7bb9eaa1eaf4478863");
	zoo_fill_keydeep(&deep);
	assert_int_equal(apus_wire_key_from_sample(&plan, &deep, key, sizeof(key)), key_bytes);
	assert_memory_equal(key, want_key, key_bytes);
	n = zoo_hex(key_only, want);
	assert_int_equal(apus_wire_key_payload(&plan, key, key_bytes, APUS_XCDR2, payload, n), n);
	assert_memory_equal(payload, want, n);
	assert_int_equal(apus_wire_key_payload(&plan, key, key_bytes, APUS_XCDR2, payload, n - 1),
			 APUS_ELIMIT);
	assert_int_equal(apus_type_encode(&zoo_keydeep_type, &deep, APUS_XCDR2, true, payload, n),
			 n);
	assert_memory_equal(payload, want, n);
}

static void key_payload_with_dheaders_is_accepted(void **state)
{
	/* As XTypes has it: DHEADER 24 { part: DHEADER 6 {p, r}; padding; mood; tag } */
	const char *hex = "0009000018000000"
			  "06000000443322116655"
			  "0000"
			  "02000000"
			  "0400000074616700";
	struct apus_wire_keyplan plan;
	struct zoo_keydeep back;
	uint8_t payload[64], arena[64];
	size_t n = zoo_hex(hex, payload);

	(void)state;
	assert_int_equal(apus_wire_keyplan_init(&plan, &zoo_app_type, 0), 0);
	expect_key(&plan, "0009000001000000", true, "00000001");
	expect_key(&plan, "000900000400000001000000", true, "00000001");
	assert_int_equal(apus_wire_keyplan_init(&plan, &zoo_keydeep_type, 0), 0);
	expect_key(&plan, hex, true, DEEP_KEY);
	assert_true(apus_type_decode(&zoo_keydeep_type, payload, n, true, &back, arena,
				     sizeof(arena)) >= 0);
	assert_int_equal(back.part.p, 0x11223344);
	assert_int_equal(back.part.r, 0x5566);
	assert_int_equal(back.mood, ZOO_IDLE);
	assert_string_equal(back.tag, "tag");
	assert_null(back.text);
}

/* A newer sender's struct may end in keys we do not know: its DHEADER tells where the payload does. */
static void key_payload_of_a_newer_type_is_accepted(void **state)
{
	const char *hex = "000900001c000000"
			  "06000000443322116655"
			  "0000"
			  "02000000"
			  "0400000074616700"
			  "efbeadde";
	struct apus_wire_keyplan plan;
	struct zoo_keydeep back;
	uint8_t payload[64], arena[64], key[64], want[64];
	size_t n = zoo_hex(hex, payload), key_bytes = zoo_hex(DEEP_KEY, want);

	(void)state;
	assert_int_equal(apus_wire_keyplan_init(&plan, &zoo_keydeep_type, 0), 0);
	expect_key(&plan, hex, true, DEEP_KEY);
	assert_true(apus_type_decode(&zoo_keydeep_type, payload, n, true, &back, arena,
				     sizeof(arena)) >= 0);
	assert_int_equal(apus_wire_key_from_sample(&plan, &back, key, sizeof(key)), key_bytes);
	assert_memory_equal(key, want, key_bytes);
	payload[4] -= 5; /* the struct ends before the payload does: more than padding is left */
	assert_int_equal(apus_wire_key_extract(&plan, payload, n, true, key, sizeof(key)),
			 APUS_EENCODING);
}

static void every_form_gives_one_key(void **state)
{
	static const int representations[] = {APUS_XCDR1, APUS_XCDR2};
	struct zoo_keydeep deep;
	struct zoo_keyopen open = {1, "an open key"};
	struct apus_shape shape = {"", 1, 2, 3};
	const struct apus_type *types[] = {&zoo_keydeep_type, &zoo_keyopen_type, &apus_shape_type};
	const void *samples[] = {&deep, &open, &shape};

	(void)state;
	zoo_fill_keydeep(&deep);
	for (unsigned int i = 0; i < 24; i++) {
		const struct apus_type *type = types[i / 8];
		const bool big = i & 1, key_only = i & 2;
		const int representation = representations[i / 4 % 2];
		struct apus_wire_keyplan plan;
		uint8_t key[512], again[512], payload[512], rebuilt[512];
		int n, m, len;

		assert_int_equal(apus_wire_keyplan_init(&plan, type, 0), 0);
		n = apus_wire_key_from_sample(&plan, samples[i / 8], key, sizeof(key));
		assert_true(n > 0);
		len = apus_wire_cdr_encode(type, samples[i / 8], representation, key_only, big,
					   payload, sizeof(payload));
		m = apus_wire_key_extract(&plan, payload, len, key_only, again, sizeof(again));
		assert_int_equal(m, n);
		assert_memory_equal(key, again, n);
		if (key_only && !big) {
			m = apus_wire_key_payload(&plan, key, n, representation, rebuilt,
						  sizeof(rebuilt));
			assert_int_equal(m, len);
			assert_memory_equal(rebuilt, payload, len);
		}
		for (int cut = 0; key_only && cut < len - 4 - (payload[3] & 3); cut++) {
			uint8_t *exact = malloc(cut + 4);

			memcpy(exact, payload, cut + 4);
			exact[3] = 0;
			assert_int_equal(apus_wire_key_extract(&plan, exact, cut + 4, true, again,
							       sizeof(again)),
					 APUS_EENCODING);
			free(exact);
		}
	}
}

static void keys_come_back_from_clear_hashes_only(void **state)
{
	struct apus_wire_keyplan plan;
	uint8_t hash[16], key[16];

	(void)state;
	assert_int_equal(apus_wire_keyplan_init(&plan, &zoo_key2_type, 0), 0);
	zoo_hex("01020304050607080102000000000000", hash);
	assert_int_equal(apus_wire_key_from_hash(&plan, hash, key, sizeof(key)), 10);
	assert_memory_equal(key, hash, 10);
	assert_int_equal(apus_wire_key_from_hash(&plan, hash, key, 9), APUS_ELIMIT);
	hash[12] = 1;
	assert_int_equal(apus_wire_key_from_hash(&plan, hash, key, sizeof(key)), APUS_EENCODING);
	assert_int_equal(apus_wire_keyplan_init(&plan, &apus_shape_type, 0), 0);
	assert_int_equal(apus_wire_key_from_hash(&plan, hash, key, sizeof(key)), APUS_ENOTSUP);
	assert_int_equal(apus_wire_keyplan_init(&plan, &zoo_prims_type, 0), 0);
	assert_int_equal(apus_wire_key_max(&plan), 0);
	assert_int_equal(apus_wire_key_from_hash(&plan, hash, key, sizeof(key)), APUS_ENOTSUP);
	assert_int_equal(apus_wire_key_extract(&plan, hash, 16, false, key, sizeof(key)), 0);
}

static void limits_are_held(void **state)
{
	struct apus_wire_keyplan plan;
	struct zoo_keyopen open = {1, "12345"};
	uint8_t key[64], payload[64];
	int n;

	(void)state;
	assert_int_equal(apus_wire_keyplan_init(&plan, &zoo_keyopen_type, 0), 0);
	assert_int_equal(apus_wire_key_max(&plan), APUS_WIRE_KEY_LIMIT_DEFAULT);
	assert_int_equal(apus_wire_keyplan_init(&plan, &zoo_keyopen_type, 9), 0);
	n = apus_type_encode(&zoo_keyopen_type, &open, APUS_XCDR1, false, payload, sizeof(payload));
	/* 4 + 5 characters + NUL = 10 */
	assert_int_equal(apus_wire_key_extract(&plan, payload, n, false, key, sizeof(key)),
			 APUS_ELIMIT);
	assert_int_equal(apus_wire_key_from_sample(&plan, &open, key, sizeof(key)), APUS_ELIMIT);
	assert_int_equal(apus_wire_keyplan_init(&plan, &zoo_keyopen_type, 10), 0);
	assert_int_equal(apus_wire_key_extract(&plan, payload, n, false, key, sizeof(key)), 10);
	assert_int_equal(apus_wire_key_from_sample(&plan, &open, key, sizeof(key)), 10);
	/* a bounded key above an explicit limit is refused when the plan is made */
	assert_int_equal(apus_wire_keyplan_init(&plan, &apus_shape_type, 132), APUS_ELIMIT);
	assert_int_equal(apus_wire_keyplan_init(&plan, &apus_shape_type, 133), 0);
	assert_int_equal(apus_wire_keyplan_init(&plan, &apus_type_int32, 0), APUS_EINVAL);
}

static void forgeries_are_refused(void **state)
{
	struct apus_wire_keyplan plan;
	uint8_t key[256], out[256];

	(void)state;
	assert_int_equal(apus_wire_keyplan_init(&plan, &apus_shape_type, 0), 0);
	assert_int_equal(extract_hex(&plan, "00010000ffffffff424c5545", false, key, 256),
			 APUS_EENCODING);
	assert_int_equal(extract_hex(&plan, "0001000004000000424c5545", false, key, 256),
			 APUS_EENCODING);
	assert_int_equal(extract_hex(&plan, "0003000005000000424c554500000000", false, key, 256),
			 APUS_EENCODING);
	assert_int_equal(
		extract_hex(&plan, "000900000900000005000000424c554500000000", false, key, 256),
		APUS_EENCODING);
	/* key-only with a member behind the key */
	assert_int_equal(
		extract_hex(&plan, "0001000005000000424c5545000000000a000000", true, key, 256),
		APUS_EENCODING);
	/* canonical bytes that are none: trailing byte, no NUL, nothing */
	zoo_hex("00000005424c55450000", key);
	assert_int_equal(apus_wire_key_payload(&plan, key, 10, APUS_XCDR1, out, 256),
			 APUS_EENCODING);
	assert_int_equal(apus_wire_key_payload(&plan, key, 8, APUS_XCDR1, out, 256),
			 APUS_EENCODING);
	assert_int_equal(apus_wire_key_payload(&plan, key, 0, APUS_XCDR1, out, 256),
			 APUS_EENCODING);
	assert_int_equal(apus_wire_key_payload(&plan, key, 9, 1, out, 256), APUS_EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shape_key_and_fast_dds_hash),
		cmocka_unit_test(fixed_keys_and_hashes),
		cmocka_unit_test(keys_out_of_order_equal_cyclone),
		cmocka_unit_test(key_payload_with_dheaders_is_accepted),
		cmocka_unit_test(key_payload_of_a_newer_type_is_accepted),
		cmocka_unit_test(every_form_gives_one_key),
		cmocka_unit_test(keys_come_back_from_clear_hashes_only),
		cmocka_unit_test(limits_are_held),
		cmocka_unit_test(forgeries_are_refused),
	};

	return cmocka_run_group_tests_name("key", tests, NULL, NULL);
}
