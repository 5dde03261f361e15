/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target: arbitrary bytes as samples of every type of the zoo, whole and key-only.
 *
 * Input: a payload with its encapsulation header, so that recorded payloads are seeds as they are;
 * it is tried as each type in turn. Beyond the sanitizers these must hold:
 *   - what decodes can be encoded again, and decodes to the same bytes once more;
 *   - what decodes has a key (or one too long), equal to the key of the sample in memory, and the
 *     key-only payload rebuilt from it gives the same key;
 *   - a clear-text hash gives the key back.
 */
#include <stdio.h>
#include <stdlib.h>
#include "tests/wire/zoo.h"
#include "wire/cdr.h"
#include "wire/key.h"

#define REQUIRE(condition)                                                              \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

static _Alignas(16) uint8_t sample[4096], again[4096];
static _Alignas(16) uint8_t arena[1 << 16], arena_again[1 << 16];
static uint8_t first[1 << 18], second[1 << 18];
static struct apus_wire_keyplan plans[ZOO_COUNT];

static void check_round_trip(const struct apus_type *type, bool key_only)
{
	for (int i = 0; i < 4; i++) {
		const int representation = i & 1 ? APUS_XCDR2 : APUS_XCDR1;
		int n = apus_wire_cdr_encode(type, sample, representation, key_only, i & 2, first,
					     sizeof(first));

		REQUIRE(n >= 4);
		/* XCDR1 and XCDR2 differ in padding at most: the arena needs no more room. */
		REQUIRE(apus_type_decode(type, first, n, key_only, again, arena_again,
					 sizeof(arena_again)) >= 0);
		REQUIRE(apus_wire_cdr_encode(type, again, representation, key_only, i & 2, second,
					     sizeof(second)) == n);
		REQUIRE(memcmp(first, second, n) == 0);
	}
}

static void check_key(const struct apus_wire_keyplan *plan, const uint8_t *payload, size_t bytes,
		      bool key_only, bool decoded)
{
	uint8_t key[APUS_WIRE_KEY_LIMIT_DEFAULT], other[APUS_WIRE_KEY_LIMIT_DEFAULT], hash[16];
	int n = apus_wire_key_extract(plan, payload, bytes, key_only, key, sizeof(key));
	int m;

	REQUIRE(n <= (int)apus_wire_key_max(plan));
	if (decoded && plan->max_bytes) {
		m = apus_wire_key_from_sample(plan, sample, other, sizeof(other));
		/* A shorter appendable sample decodes without its keys, but has no identity. */
		REQUIRE(n == m || n == APUS_EENCODING);
		REQUIRE(n < 0 || memcmp(key, other, n) == 0);
	}
	if (n <= 0)
		return;
	m = apus_wire_key_payload(plan, key, n, bytes & 1 ? APUS_XCDR1 : APUS_XCDR2, second,
				  sizeof(second));
	REQUIRE(m >= 4);
	REQUIRE(apus_wire_key_extract(plan, second, m, true, other, sizeof(other)) == n);
	REQUIRE(memcmp(key, other, n) == 0);
	apus_wire_key_hash(plan, key, n, hash);
	m = apus_wire_key_from_hash(plan, hash, other, sizeof(other));
	REQUIRE(m == APUS_ENOTSUP || (m == n && memcmp(key, other, n) == 0));
}

static void check_payload(size_t which, const uint8_t *payload, size_t bytes, bool key_only)
{
	int rc;

	if (!plans[which].type)
		REQUIRE(apus_wire_keyplan_init(&plans[which], zoo_all[which], 0) == 0);
	rc = apus_type_decode(zoo_all[which], payload, bytes, key_only, sample, arena,
			      sizeof(arena));
	REQUIRE(rc >= 0 || rc == APUS_EENCODING || rc == APUS_ELIMIT);
	check_key(&plans[which], payload, bytes, key_only, rc >= 0);
	if (rc >= 0)
		check_round_trip(zoo_all[which], key_only);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < ZOO_COUNT; i++) {
		check_payload(i, data, size, false);
		check_payload(i, data, size, true);
	}
	return 0;
}
