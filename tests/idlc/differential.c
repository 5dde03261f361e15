/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: for every type shape Apus and Cyclone DDS 0.10.2 agree on bytes, values, keys and type
 * identity.
 * Method: one IDL file goes through both back-ends of idlc. A random sample is serialised by Apus,
 * checked, read and written again by Cyclone's serialiser (no network), and read by Apus: equal
 * bytes and equal values. The same for big-endian, for keys and key-only payloads; the serialised
 * TypeInformation and TypeMapping are compared with those in Cyclone's topic descriptors. Cyclone
 * has no XCDR1 for types that are not final or have optional members: there Apus reads what Apus
 * wrote (and oracle.py reads it as well).
 * Each payload, spoiled and truncated ones too, is also read by the program, by the walk over the
 * descriptor and as a view: one verdict, one value.
 *
 * Usage: differential [SAMPLES]   random samples for each shape and representation, default 200
 *        differential dump        XCDR1 payloads and JSON of every shape, for oracle.py
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "describe.h"
#include "cyclone.h"
#include "sample.h"
#include "tools/json.h"
#include "wire/cdr.h"
#include "wire/key.h"

#define SHAPE(name)                                \
	extern const struct apus_type name##_type; \
	extern const dds_topic_descriptor_t name##_desc;
#include "shapes_table.h"
#undef SHAPE

struct shape {
	const char *name;
	const struct apus_type *type;
	const dds_topic_descriptor_t *desc;
};

static const struct shape shapes[] = {
#define SHAPE(name) {#name, &name##_type, &name##_desc},
#include "shapes_table.h"
};
#define SHAPE_COUNT (sizeof(shapes) / sizeof(shapes[0]))

#define ROOM 65536
static _Alignas(16) uint8_t fill_arena[ROOM], read_arena[ROOM];
static _Alignas(16) uint8_t sample[ROOM], copy[ROOM];
static _Alignas(16) uint8_t ours[ROOM], theirs[ROOM], scratch[ROOM];
static char text[4 * ROOM], error[256];
static unsigned int failures, checks;

/* The shape at hand, for messages. */
static const struct shape *shape;
static int representation;

static bool expect(bool good, const char *what)
{
	checks++;
	if (good)
		return true;
	if (failures++ < 40)
		fprintf(stderr, "%s, XCDR%d: %s\n", shape->name,
			representation == APUS_XCDR1 ? 1 : 2, what);
	return false;
}

static void print_hex(const char *what, const uint8_t *bytes, size_t count)
{
	if (failures > 10)
		return;
	fprintf(stderr, "  %s", what);
	for (size_t i = 0; i < count && i < 400; i++)
		fprintf(stderr, "%s%02x", i % 4 ? "" : " ", bytes[i]);
	fputc('\n', stderr);
}

static size_t body_bytes(const uint8_t *payload, int bytes)
{
	return (size_t)bytes - 4 - (payload[3] & 3);
}

/* A payload around a body in `scratch`, exact, so that a sanitizer sees reads behind it. */
static void decode_body(const struct apus_type *type, const uint8_t *body, size_t bytes, bool big,
			const char *what)
{
	uint8_t *payload = malloc(bytes + 4);
	unsigned int id = apus_wire_encap_of(type, representation == APUS_XCDR2);
	int rc;

	payload[0] = payload[2] = payload[3] = 0;
	payload[1] = (uint8_t)(big ? id - 1 : id);
	memcpy(payload + 4, body, bytes);
	memset(copy, 0xee, type->size_bytes);
	rc = apus_type_decode(type, payload, bytes + 4, false, copy, read_arena, ROOM);
	if (expect(rc >= 0, what))
		expect(sample_equal(type, sample, copy), "values differ after reading");
	free(payload);
}

/* Whatever bytes: the program and the walk over the descriptor give one verdict and one value, and so
 * does a view. Their arenas may differ by alignment. Returns the verdict. */
static int decode_both_ways(const struct apus_type *type, const uint8_t *bytes, size_t count)
{
	static _Alignas(16) uint8_t other[ROOM], other_arena[ROOM];
	static uint8_t zero[ROOM];
	uint8_t *payload = malloc(count + 1); /* exact, so that a sanitizer sees reads behind it */
	int rc, walked, viewed;

	memcpy(payload, bytes, count);
	memset(copy, 0xee, type->size_bytes);
	rc = apus_type_decode(type, payload, count, false, copy, read_arena, ROOM);
	walked = apus_wire_cdr_decode(type, payload, count, false, other, other_arena, ROOM);
	if (expect(rc < 0 ? rc == walked : walked >= 0, "program and walk differ in the verdict"))
		expect(rc < 0 ? memcmp(copy, zero, type->size_bytes) == 0
			      : sample_equal(type, copy, other),
		       "program and walk differ in the value");
	memset(other, 0xee, type->size_bytes);
	viewed = apus_type_view(type, payload, count, false, other, other_arena, ROOM);
	expect(rc < 0 ? viewed == rc && memcmp(other, zero, type->size_bytes) == 0
		      : viewed >= 0 && viewed <= rc && sample_equal(type, copy, other),
	       "a view differs");
	free(payload);
	return rc;
}

/* Single bytes spoiled at random. */
static void check_spoiled(struct sample_random *random, const struct apus_type *type, int bytes)
{
	static uint8_t spoiled[ROOM];

	for (int i = 0; i < 20; i++) {
		uint64_t r = sample_bits(random);

		memcpy(spoiled, ours, (size_t)bytes);
		spoiled[4 + (r >> 16) % (uint64_t)(bytes - 4)] ^= (uint8_t)(r | 1);
		decode_both_ways(type, spoiled, (size_t)bytes);
	}
}

/* Every truncation is refused, or (an appendable type, a member list's head) read without harm. */
static void check_truncations(const struct apus_type *type, int bytes)
{
	for (int n = 0; n < bytes - (ours[3] & 3); n++) {
		memcpy(scratch, ours, (size_t)n);
		if (n > 3)
			scratch[3] = 0;
		if (decode_both_ways(type, scratch, (size_t)n) >= 0)
			expect(type->extensibility != APUS_FINAL || bytes - (ours[3] & 3) - n < 4,
			       "truncated payload accepted");
	}
}

static bool cyclone_supports(const struct shape *s)
{
	if (strncmp(s->name, "s_union_wide", 12) == 0)
		return false; /* it aborts on discriminators of 8 bytes */
	return representation == APUS_XCDR2 || dds_stream_minimum_xcdr_version(s->desc->m_ops) == 1;
}

/* What Cyclone writes for a dispose, and what it hashes. (Its extraction of keys from XCDR1 payloads
 * keeps declaration order instead: that form never leaves it, and is not compared.) */
static void check_cyclone_keys(const struct shape *s, const struct ddsi_sertype_default *st,
			       const struct apus_wire_keyplan *plan, const void *value)
{
	int n = apus_type_encode(s->type, sample, representation, true, scratch, ROOM);
	uint8_t key[512];
	dds_ostream_t out;
	dds_ostreamBE_t big;

	dds_ostream_init(&out, 0, representation == APUS_XCDR1 ? 1 : 2);
	dds_stream_write_key(&out, value, st);
	if (!expect(n > 0 && out.m_index == body_bytes(scratch, n) &&
			    memcmp(out.m_buffer, scratch + 4, out.m_index) == 0,
		    "key-only payload differs from Cyclone's")) {
		print_hex("ours  ", scratch, (size_t)n);
		print_hex("theirs", out.m_buffer, out.m_index);
	}
	n = apus_wire_key_from_sample(plan, sample, key, sizeof(key));
	dds_ostreamBE_init(&big, 0, 2);
	dds_stream_write_keyBE(&big, value, st);
	if (!expect(big.x.m_index == (uint32_t)n && memcmp(big.x.m_buffer, key, (size_t)n) == 0,
		    "canonical key differs from Cyclone's")) {
		print_hex("ours  ", key, (size_t)n);
		print_hex("theirs", big.x.m_buffer, big.x.m_index);
	}
	dds_ostream_fini(&out);
	dds_ostreamBE_fini(&big);
}

static void check_cyclone(const struct shape *s, const struct ddsi_sertype_default *st,
			  const struct apus_wire_keyplan *plan, size_t body)
{
	const uint32_t version = representation == APUS_XCDR1 ? 1 : 2;
	void *value = calloc(1, s->desc->m_size);
	dds_istream_t in;
	dds_ostream_t out;
	dds_ostreamBE_t big;
	uint32_t actual;

	memcpy(theirs, ours + 4, body);
	if (!expect(dds_stream_normalize(theirs, (uint32_t)body, false, version, st, false,
					 &actual) &&
			    actual == body,
		    "Cyclone refuses our bytes")) {
		print_hex("ours", ours, body + 4);
		free(value);
		return;
	}
	dds_istream_init(&in, (uint32_t)body, theirs, version);
	dds_stream_read_sample(&in, value, st);
	dds_ostream_init(&out, 0, version);
	dds_stream_write_sample(&out, value, st);
	if (!expect(out.m_index == body && memcmp(out.m_buffer, ours + 4, body) == 0,
		    "bytes differ from Cyclone's")) {
		print_hex("ours  ", ours + 4, body);
		print_hex("theirs", out.m_buffer, out.m_index);
	}
	decode_body(s->type, out.m_buffer, out.m_index, false, "Cyclone's bytes refused");
	if (apus_type_is_keyed(s->type))
		check_cyclone_keys(s, st, plan, value);
	dds_ostreamBE_init(&big, 0, version);
	dds_stream_write_sampleBE(&big, value, st);
	decode_body(s->type, big.x.m_buffer, big.x.m_index, true,
		    "Cyclone's big-endian bytes refused");
	if (apus_wire_cdr_encode(s->type, sample, representation, false, true, scratch, ROOM) > 0)
		expect(memcmp(scratch + 4, big.x.m_buffer, big.x.m_index) == 0,
		       "big-endian bytes differ");
	dds_stream_free_sample(value, s->desc->m_ops);
	dds_ostream_fini(&out);
	dds_ostreamBE_fini(&big);
	free(value);
}

/* Keys: from the sample, from the payload, from key-only payloads. */
static void check_keys(const struct shape *s, const struct apus_wire_keyplan *plan, int bytes)
{
	uint8_t key[512], other[512];
	int n = apus_wire_key_from_sample(plan, sample, key, sizeof(key)), m;

	if (!expect(n > 0, "no key from the sample"))
		return;
	m = apus_wire_key_extract(plan, ours, (size_t)bytes, false, other, sizeof(other));
	expect(m == n && memcmp(key, other, (size_t)n) == 0, "key from the payload differs");
	m = apus_type_encode(s->type, sample, representation, true, scratch, ROOM);
	if (!expect(m > 0, "no key-only payload"))
		return;
	expect(apus_wire_key_payload(plan, key, (size_t)n, representation, theirs, ROOM) == m &&
		       memcmp(theirs, scratch, (size_t)m) == 0,
	       "key-only payload made from the key differs");
	expect(apus_wire_key_extract(plan, scratch, (size_t)m, true, other, sizeof(other)) == n &&
		       memcmp(key, other, (size_t)n) == 0,
	       "key from the key-only payload differs");
}

static void check_json(const struct apus_type *type)
{
	if (!expect(sample_to_json(type, sample, false, text, sizeof(text)) > 0, "no JSON"))
		return;
	if (expect(json_to_sample(type, text, false, copy, read_arena, ROOM, error,
				  sizeof(error)) >= 0,
		   error))
		expect(sample_equal(type, sample, copy), "values differ after JSON");
}

static void check_sample(struct sample_random *random, const struct shape *s,
			 const struct ddsi_sertype_default *st,
			 const struct apus_wire_keyplan *plan)
{
	size_t most = apus_type_max_bytes(s->type, representation);
	int bytes = apus_type_encode(s->type, sample, representation, false, ours, ROOM);

	if (!expect(bytes > 0, "cannot be serialised"))
		return;
	expect(most == 0 || (size_t)bytes - 4 <= most, "larger than the declared maximum");
	expect(apus_wire_cdr_encode(s->type, sample, representation, false, false, scratch, ROOM) ==
			       bytes &&
		       memcmp(ours, scratch, (size_t)bytes) == 0,
	       "program and walk write different bytes");
	expect(apus_type_encode(s->type, sample, representation, false, scratch,
				(size_t)bytes - 1) == APUS_ELIMIT,
	       "too little room is not noticed");
	decode_body(s->type, ours + 4, body_bytes(ours, bytes), false, "own bytes refused");
	decode_both_ways(s->type, ours, (size_t)bytes);
	check_spoiled(random, s->type, bytes);
	expect(apus_wire_cdr_encode(s->type, sample, representation, false, true, scratch, ROOM) ==
		       bytes,
	       "big-endian size differs");
	decode_body(s->type, scratch + 4, body_bytes(scratch, bytes), true,
		    "own big-endian bytes refused");
	if (cyclone_supports(s))
		check_cyclone(s, st, plan, body_bytes(ours, bytes));
	if (apus_type_is_keyed(s->type))
		check_keys(s, plan, bytes);
	check_json(s->type);
}

static void check_identity(const struct shape *s)
{
	const dds_topic_descriptor_t *desc = s->desc;

	expect(s->type->type_information_bytes == desc->type_information.sz &&
		       memcmp(s->type->type_information, desc->type_information.data,
			      desc->type_information.sz) == 0,
	       "type information differs");
	expect(s->type->type_mapping_bytes == desc->type_mapping.sz &&
		       memcmp(s->type->type_mapping, desc->type_mapping.data,
			      desc->type_mapping.sz) == 0,
	       "type mapping differs");
	expect(strcmp(s->type->name, desc->m_typename) == 0, "type name differs");
	expect(apus_type_is_keyed(s->type) == (desc->m_nkeys > 0), "keys differ");
}

static void check_shape(struct sample_random *random, unsigned int samples)
{
	struct ddsi_sertype_default st;
	struct apus_wire_keyplan plan;

	if (!expect(apus_type_check(shape->type) == 0, "descriptor refused") ||
	    !expect(apus_wire_keyplan_init(&plan, shape->type, 0) == 0, "no key plan"))
		return;
	check_identity(shape);
	cyclone_sertype_init(&st, shape->desc);
	for (unsigned int i = 0; i < samples; i++) {
		memset(sample, 0, shape->type->size_bytes);
		sample_fill(random, shape->type, sample);
		representation = APUS_XCDR1;
		check_sample(random, shape, &st, &plan);
		if (i == 0)
			check_truncations(shape->type,
					  apus_type_encode(shape->type, sample, APUS_XCDR1, false,
							   ours, ROOM));
		representation = APUS_XCDR2;
		check_sample(random, shape, &st, &plan);
		if (i == 0)
			check_truncations(shape->type,
					  apus_type_encode(shape->type, sample, APUS_XCDR2, false,
							   ours, ROOM));
	}
	cyclone_sertype_fini(&st);
}

static const struct shape *find_shape(const char *name)
{
	for (size_t i = 0; i < SHAPE_COUNT; i++)
		if (strcmp(shapes[i].name, name) == 0)
			return &shapes[i];
	abort();
}

static const void *member_of(const struct apus_type *type, const void *object, const char *name)
{
	for (uint32_t i = 0; i < type->member_count; i++)
		if (strcmp(type->members[i].name, name) == 0)
			return (const uint8_t *)object + type->members[i].offset_bytes;
	abort();
}

static int32_t long_of(const struct apus_type *type, const void *object, const char *name)
{
	return *(const int32_t *)member_of(type, object, name);
}

static const struct apus_type *type_of(const struct apus_type *type, const char *name)
{
	for (uint32_t i = 0; i < type->member_count; i++)
		if (strcmp(type->members[i].name, name) == 0)
			return type->members[i].type;
	abort();
}

/* What both versions have is there; what only the newer has takes its default, in parts too. */
static void check_version(const struct apus_type *from, const struct apus_type *to, bool to_newer)
{
	const struct apus_type *part = type_of(to, "part");
	const struct apus_sequence *had = member_of(from, sample, "parts"),
				   *have = member_of(to, copy, "parts");

	expect(long_of(from, sample, "k") == long_of(to, copy, "k"), "k differs");
	expect(strcmp(*(char *const *)member_of(from, sample, "note"),
		      *(char *const *)member_of(to, copy, "note")) == 0,
	       "note differs");
	expect(long_of(type_of(from, "part"), member_of(from, sample, "part"), "a") ==
		       long_of(part, member_of(to, copy, "part"), "a"),
	       "part.a differs");
	expect(had->length == have->length, "number of parts differs");
	if (!to_newer)
		return;
	expect(long_of(to, copy, "added") == 42, "added has no default");
	expect(*(const int16_t *)member_of(part, member_of(to, copy, "part"), "b") == 3,
	       "part.b has no default");
	for (uint32_t i = 0; i < have->length; i++)
		expect(*(const int16_t *)member_of(
			       part, (const uint8_t *)have->data + (size_t)i * part->size_bytes,
			       "b") == 3,
		       "parts[].b has no default");
	expect(long_of(to, copy, "color") == 2, "color does not default to BLUE");
	expect(!*(void *const *)member_of(to, copy, "maybe"), "maybe is there");
}

/* A writer of one version and a reader of the other: Apus alone, and with Cyclone as the reader that
 * writes on what it understood. */
static void check_evolution(struct sample_random *random, const char *from_name,
			    const char *to_name, unsigned int samples)
{
	const struct shape *from = find_shape(from_name), *to = find_shape(to_name);
	const bool to_newer = strstr(to_name, "new") != NULL;

	shape = to;
	representation = APUS_XCDR2;
	for (unsigned int i = 0; i < samples; i++) {
		uint8_t payload[4096];
		size_t body;
		int n;

		memset(sample, 0, from->type->size_bytes);
		sample_fill(random, from->type, sample);
		n = apus_type_encode(from->type, sample, APUS_XCDR2, false, ours, ROOM);
		if (expect(apus_type_decode(to->type, ours, (size_t)n, false, copy, read_arena,
					    ROOM) >= 0,
			   "other version refused"))
			check_version(from->type, to->type, to_newer);
		memcpy(scratch, ours + 4, body_bytes(ours, n));
		body = cyclone_relay(to->desc, 2, scratch, body_bytes(ours, n), theirs, ROOM);
		if (!expect(body > 0 && body + 4 <= sizeof(payload),
			    "Cyclone refuses the other version"))
			continue;
		memcpy(payload, ours, 4);
		payload[3] = 0;
		memcpy(payload + 4, theirs, body);
		if (expect(apus_type_decode(from->type, payload, body + 4, false, copy, read_arena,
					    ROOM) >= 0,
			   "Cyclone's version refused"))
			check_version(from->type, from->type, false);
	}
}

static void dump(struct sample_random *random)
{
	for (size_t i = 0; i < SHAPE_COUNT; i++) {
		const struct apus_type *type = shapes[i].type;

		printf("type %s ", shapes[i].name);
		describe_type(type);
		putchar('\n');
		for (int n = 0; n < 20; n++) {
			int bytes;

			memset(sample, 0, type->size_bytes);
			sample_fill(random, type, sample);
			bytes = apus_wire_cdr_encode(type, sample, APUS_XCDR1, false, n & 1, ours,
						     ROOM);
			sample_to_json(type, sample, false, text, sizeof(text));
			printf("sample ");
			for (int b = 0; b < bytes; b++)
				printf("%02x", ours[b]);
			printf(" %s\n", text);
		}
	}
}

int main(int argc, char **argv)
{
	struct sample_random random = {.state = 1, .arena = fill_arena, .bytes = ROOM};
	unsigned int samples = argc > 1 ? (unsigned int)atoi(argv[1]) : 200, cyclone = 0;

	if (argc > 1 && strcmp(argv[1], "dump") == 0) {
		dump(&random);
		return 0;
	}
	for (size_t i = 0; i < SHAPE_COUNT; i++) {
		shape = &shapes[i];
		representation = APUS_XCDR1;
		cyclone += 1 + cyclone_supports(shape);
		check_shape(&random, samples);
	}
	check_evolution(&random, "s_old_a", "s_new_a", samples);
	check_evolution(&random, "s_new_a", "s_old_a", samples);
	check_evolution(&random, "s_old_m", "s_new_m", samples);
	check_evolution(&random, "s_new_m", "s_old_m", samples);
	printf("%zu shapes, %u of %zu with Cyclone, %u samples each: %u checks, %u failures\n",
	       SHAPE_COUNT, cyclone, 2 * SHAPE_COUNT, samples, checks, failures);
	return failures ? 1 : 0;
}
