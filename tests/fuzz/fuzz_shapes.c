/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target: arbitrary bytes as samples of the types generated from tests/idlc/shapes.py, which
 * hold every construct in every extensibility.
 *
 * Input: one byte that picks the type, one of flags, then a payload with its encapsulation header. Flags:
 * 1 key-only; 2 the header is replaced by the one the type asks for, 4 in XCDR2, 8 big-endian; 16 all but
 * 256 bytes of the arena are withheld. Beyond the sanitizers these must hold: what decodes can be encoded
 * again in every representation and byte order and then decodes to the same bytes; the type's program, the
 * walk over its descriptor and a view give one verdict and one value; nothing is written behind the arena;
 * the key found in the payload is that of the sample; what is refused leaves a sample of zeros.
 */
#include <stdio.h>
#include <stdlib.h>
#include "wire/cdr.h"
#include "wire/key.h"

#define REQUIRE(condition)                                                              \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

#define SHAPE(name) extern const struct apus_type name##_type;
#include "shapes_table.h"
#undef SHAPE

static const struct apus_type *const types[] = {
#define SHAPE(name) &name##_type,
#include "shapes_table.h"
};
#define TYPE_COUNT (sizeof(types) / sizeof(types[0]))
_Static_assert(TYPE_COUNT <= 256, "a byte picks the type");

static _Alignas(16) uint8_t sample[4096], again[4096];
/* Members of a mutable type may come in an order that leaves fewer gaps than ours. */
static _Alignas(16) uint8_t arena[1 << 16], arena_again[1 << 18];
static uint8_t first[1 << 20], second[1 << 20];
static struct apus_wire_keyplan plans[TYPE_COUNT];

static void check_round_trip(const struct apus_type *type, bool key_only)
{
	for (int i = 0; i < 4; i++) {
		const int representation = i & 1 ? APUS_XCDR2 : APUS_XCDR1;
		int n = apus_wire_cdr_encode(type, sample, representation, key_only, i & 2, first,
					     sizeof(first));

		REQUIRE(n >= 4);
		REQUIRE(apus_type_decode(type, first, (size_t)n, key_only, again, arena_again,
					 sizeof(arena_again)) >= 0);
		REQUIRE(apus_wire_cdr_encode(type, again, representation, key_only, i & 2, second,
					     sizeof(second)) == n);
		REQUIRE(memcmp(first, second, (size_t)n) == 0);
	}
}

/* Any key can be hashed in each vendor's way, comes back from a hash in clear, and makes a key-only payload
 * that leads to it again; any bytes may claim to be a hash. */
static void check_hashes(const struct apus_wire_keyplan *plan, const uint8_t *payload, size_t bytes,
			 const uint8_t *key, int n)
{
	uint8_t other[APUS_WIRE_KEY_LIMIT_DEFAULT], hash[16] = {0};
	int m;

	memcpy(hash, payload, bytes < 16 ? bytes : 16);
	m = apus_wire_key_from_clear(plan, hash, other, sizeof(other));
	REQUIRE(m <= 16);
	if (m > 0)
		REQUIRE(apus_wire_key_hash_fast(plan, other, (size_t)m, hash));
	if (n <= 0)
		return;
	REQUIRE(apus_wire_key_hash_fast(plan, key, (size_t)n, hash));
	apus_wire_key_hash(plan, key, (size_t)n, hash);
	m = apus_wire_key_from_hash(plan, hash, other, sizeof(other));
	REQUIRE(m == APUS_ENOTSUP || (m == n && memcmp(key, other, (size_t)n) == 0));
	m = apus_wire_key_payload(plan, key, (size_t)n, bytes & 1 ? APUS_XCDR1 : APUS_XCDR2, second,
				  sizeof(second));
	REQUIRE(m >= 4);
	REQUIRE(apus_wire_key_extract(plan, second, (size_t)m, true, other, sizeof(other)) == n);
	REQUIRE(memcmp(key, other, (size_t)n) == 0);
}

static void check_key(const struct apus_wire_keyplan *plan, const uint8_t *payload, size_t bytes,
		      bool key_only, bool decoded)
{
	uint8_t key[APUS_WIRE_KEY_LIMIT_DEFAULT], other[APUS_WIRE_KEY_LIMIT_DEFAULT];
	int n = apus_wire_key_extract(plan, payload, bytes, key_only, key, sizeof(key)), m;

	REQUIRE(n <= (int)apus_wire_key_max(plan));
	check_hashes(plan, payload, bytes, key, n);
	if (!decoded || !plan->max_bytes)
		return;
	m = apus_wire_key_from_sample(plan, sample, other, sizeof(other));
	/* A sample that lacks members decodes without its keys, but has no identity. */
	REQUIRE(n == m || n == APUS_EENCODING);
	REQUIRE(n < 0 || memcmp(key, other, (size_t)n) == 0);
}

/* Values are compared as what they encode to: padding is nobody's. */
static void check_equal(const struct apus_type *type, const void *other)
{
	int n = apus_wire_cdr_encode(type, sample, APUS_XCDR2, false, true, first, sizeof(first));

	REQUIRE(n >= 4 && apus_wire_cdr_encode(type, other, APUS_XCDR2, false, true, second,
					       sizeof(second)) == n);
	REQUIRE(memcmp(first, second, (size_t)n) == 0);
}

/* `rc` is what apus_type_decode() said of these bytes; the arena's size may decide otherwise where it
 * is all but used up, since the ways align differently. */
static void check_other_ways(const struct apus_type *type, const uint8_t *data, size_t bytes,
			     int rc)
{
	int n = apus_wire_cdr_decode(type, data, bytes, false, again, arena_again,
				     sizeof(arena_again));

	REQUIRE((n < 0 && n == rc) || (n >= 0 && rc >= 0) || rc == APUS_ELIMIT);
	if (n >= 0 && rc >= 0)
		check_equal(type, again);
	n = apus_type_view(type, data, bytes, false, again, arena_again, sizeof(arena_again));
	REQUIRE((n < 0 && n == rc) || (n >= 0 && rc >= 0) || rc == APUS_ELIMIT);
	if (n >= 0 && rc >= 0)
		check_equal(type, again);
}

static uint8_t replaced[1 << 16];

/* The payload with the encapsulation header its type and the flags ask for. */
static const uint8_t *with_header(const struct apus_type *type, unsigned int flags,
				  const uint8_t *data, size_t bytes)
{
	if (!(flags & 2) || bytes < 4 || bytes > sizeof(replaced))
		return data;
	memcpy(replaced, data, bytes);
	replaced[0] = 0;
	replaced[1] = (uint8_t)(apus_wire_encap_of(type, flags & 4) - (flags & 8 ? 1 : 0));
	return replaced;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const struct apus_type *type;
	struct apus_wire_keyplan *plan;
	unsigned int flags;
	size_t room;
	bool key_only;
	int rc;

	if (bytes < 2)
		return 0;
	type = types[data[0] % TYPE_COUNT];
	plan = &plans[data[0] % TYPE_COUNT];
	flags = data[1];
	key_only = (flags & 1) && apus_type_is_keyed(type);
	room = flags & 16 ? 256 : sizeof(arena);
	data += 2;
	bytes -= 2;
	REQUIRE(type->size_bytes <= sizeof(sample));
	if (!plan->type)
		REQUIRE(apus_wire_keyplan_init(plan, type, 0) == 0);
	data = with_header(type, flags, data, bytes);
	memset(sample, 0xee, type->size_bytes);
	memset(arena + 256, 0xaa, 256);
	rc = apus_type_decode(type, data, bytes, key_only, sample, arena, room);
	for (size_t i = 256; i < 512 && room == 256; i++)
		REQUIRE(arena[i] == 0xaa);
	if (rc < 0)
		for (size_t i = 0; i < type->size_bytes; i++)
			REQUIRE(sample[i] == 0);
	if (!key_only)
		check_other_ways(type, data, bytes, rc);
	check_key(plan, data, bytes, key_only, rc >= 0);
	if (rc >= 0)
		check_round_trip(type, key_only);
	return 0;
}
