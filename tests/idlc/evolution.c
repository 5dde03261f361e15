/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a writer of an older and a reader of a newer version of an appendable or mutable type understand
 * each other, and the reverse, with Cyclone DDS on either side: members both have arrive, others take
 * their defaults.
 * Method: random samples of each pair of evolutions.py, both directions.
 *   Apus -> Apus       in XCDR2 and XCDR1
 *   Cyclone -> Apus    Cyclone's serialiser reads and writes the writer's version, Apus reads the other
 *   Apus -> Cyclone    Cyclone reads the reader's version and writes what it understood, Apus reads that
 * Values are compared member by member, by id; defaults are held against descriptor and IDL. In the last
 * way members that Cyclone made up are left out: it does not know @default.
 *
 * Usage: evolution [SAMPLES]   for each pair, direction and representation, default 200
 *        evolution dump        XCDR1 payloads and what they are as the other version, for oracle.py
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cyclone.h"
#include "describe.h"
#include "sample.h"
#include "tools/json.h"
#include "wire/cdr.h"

enum { NESTED = 1, MADE_UP = 2, REFUSED = 4 };

#define EVOLUTION(old, new, flags, expected)                  \
	extern const struct apus_type old##_type, new##_type; \
	extern const dds_topic_descriptor_t old##_desc, new##_desc;
#include "evolutions_table.h"
#undef EVOLUTION

struct version {
	const struct apus_type *type;
	const dds_topic_descriptor_t *desc;
};

static const struct pair {
	struct version old, new;
	unsigned int flags;
	const char *expected;
} pairs[] = {
#define EVOLUTION(old, new, flags, expected) \
	{{&old##_type, &old##_desc}, {&new##_type, &new##_desc}, flags, expected},
#include "evolutions_table.h"
};
#define PAIR_COUNT (sizeof(pairs) / sizeof(pairs[0]))

#define ROOM 16384
static _Alignas(16) uint8_t fill_arena[ROOM], read_arena[ROOM];
static _Alignas(16) uint8_t sample[ROOM], copy[ROOM];
static _Alignas(16) uint8_t ours[ROOM], theirs[ROOM], scratch[ROOM];
static char text[4 * ROOM];
static unsigned int failures, checks;
static const struct version *from, *to;
static int representation;

static bool expect(bool good, const char *what)
{
	checks++;
	if (!good && failures++ < 40)
		fprintf(stderr, "%s as %s, XCDR%d: %s\n", from->type->name, to->type->name,
			representation == APUS_XCDR1 ? 1 : 2, what);
	return good;
}

static const struct apus_member *by_id(const struct apus_type *type, uint32_t id)
{
	for (uint32_t i = 0; i < type->member_count; i++)
		if (type->members[i].id == id)
			return &type->members[i];
	return NULL;
}

static bool same(const struct apus_type *a, const void *x, const struct apus_type *b, const void *y,
		 bool defaults);

static bool is_zero(const uint8_t *value, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (value[i])
			return false;
	return true;
}

/* What a member takes that the writer did not have. */
static bool is_default(const struct apus_member *m, const void *object)
{
	const void *value = apus_wire_member_value(m, object);
	const struct apus_type *t = m->type;

	if (m->optional)
		return value == NULL;
	if (m->default_value)
		return t->kind == APUS_KIND_STRING
			       ? sample_equal(t, value, m->default_value)
			       : memcmp(value, m->default_value, t->size_bytes) == 0;
	if (t->kind == APUS_KIND_ENUM)
		return apus_wire_load_integer(t, value) == t->labels[t->default_label].value;
	if (t->kind == APUS_KIND_STRING)
		return t->bound ? *(const char *)value == '\0'
				: !*(char *const *)value || **(char *const *)value == '\0';
	if (t->kind != APUS_KIND_STRUCT)
		return is_zero(value, t->size_bytes);
	for (uint32_t i = 0; i < t->member_count; i++)
		if (!is_default(&t->members[i], value))
			return false;
	return true;
}

static bool same_elements(const struct apus_type *a, const uint8_t *x, const struct apus_type *b,
			  const uint8_t *y, uint32_t count, bool defaults)
{
	for (uint32_t i = 0; i < count; i++)
		if (!same(a, x + (size_t)i * a->size_bytes, b, y + (size_t)i * b->size_bytes,
			  defaults))
			return false;
	return true;
}

/* Members of both by id; `y` is what was read. */
static bool same_members(const struct apus_type *a, const void *x, const struct apus_type *b,
			 const void *y, bool defaults)
{
	for (uint32_t i = 0; i < b->member_count; i++) {
		const struct apus_member *m = &b->members[i], *had = by_id(a, m->id);
		const void *p, *q = apus_wire_member_value(m, y);

		if (!had) {
			if (defaults && !is_default(m, y))
				return false;
			continue;
		}
		p = apus_wire_member_value(had, x);
		if (!p != !q || (p && !same(had->type, p, m->type, q, defaults)))
			return false;
	}
	return true;
}

/* True if `y`, of type b, is the value `x` of type a. defaults: members only b has hold theirs. */
static bool same(const struct apus_type *a, const void *x, const struct apus_type *b, const void *y,
		 bool defaults)
{
	const struct apus_sequence *s = x, *t = y;

	switch (a->kind) {
	case APUS_KIND_STRUCT: return same_members(a, x, b, y, defaults);
	case APUS_KIND_ARRAY:
		return same_elements(a->element, x, b->element, y, a->bound, defaults);
	case APUS_KIND_SEQUENCE:
		return s->length == t->length &&
		       same_elements(a->element, s->data, b->element, t->data, s->length, defaults);
	default: return sample_equal(a, x, y);
	}
}

static size_t body_bytes(const uint8_t *payload, int bytes)
{
	return (size_t)bytes - 4 - (payload[3] & 3);
}

/* The payload with this body, read as a type. Returns what apus_type_decode() does. */
static int read_body(const struct apus_type *type, const uint8_t *body, size_t bytes, bool big)
{
	uint8_t *payload = malloc(bytes + 4); /* exact, so that a sanitizer sees reads behind it */
	unsigned int id = apus_wire_encap_of(type, representation == APUS_XCDR2);
	int rc;

	payload[0] = payload[2] = payload[3] = 0;
	payload[1] = (uint8_t)(big ? id - 1 : id);
	memcpy(payload + 4, body, bytes);
	memset(copy, 0xee, type->size_bytes);
	rc = apus_type_decode(type, payload, bytes + 4, false, copy, read_arena, ROOM);
	free(payload);
	return rc;
}

static void check_read(const uint8_t *body, size_t bytes, bool big, const struct pair *pair,
		       const char *what)
{
	const bool newer = to == &pair->new;
	int rc = read_body(to->type, body, bytes, big);

	if ((pair->flags & REFUSED) && !newer) {
		expect(rc == APUS_EENCODING && is_zero(copy, to->type->size_bytes),
		       "a member that must be understood is skipped");
		return;
	}
	if (!expect(rc >= 0, what))
		return;
	if (!expect(same(from->type, sample, to->type, copy, true), what) || !newer)
		return;
	expect(sample_to_json(to->type, copy, false, text, sizeof(text)) > 0 &&
		       strstr(text, pair->expected),
	       "the defaults are not those of the IDL");
}

static void check_cyclone(const struct pair *pair, int bytes)
{
	size_t n = body_bytes(ours, bytes), out;
	const bool newer = to == &pair->new;

	memcpy(scratch, ours + 4, n);
	out = cyclone_relay(from->desc, 2, scratch, n, theirs, ROOM);
	if (expect(out > 0, "Cyclone refuses its own version"))
		check_read(theirs, out, false, pair, "Cyclone's version is not understood");
	if ((pair->flags & MADE_UP) && newer)
		return;
	memcpy(scratch, ours + 4, n);
	out = cyclone_relay(to->desc, 2, scratch, n, theirs, ROOM);
	if ((pair->flags & REFUSED) && !newer) {
		expect(out == 0, "Cyclone skips a member that must be understood");
		return;
	}
	if (expect(out > 0, "Cyclone refuses the other version") &&
	    expect(read_body(to->type, theirs, out, false) >= 0, "what Cyclone made is refused"))
		expect(same(from->type, sample, to->type, copy, false),
		       "Cyclone understands something else");
}

/* XCDR1 has nothing that tells where an appendable struct within another ends. */
static bool xcdr1_can(const struct pair *pair)
{
	return !(pair->flags & NESTED) || pair->old.type->extensibility == APUS_MUTABLE;
}

static void check_sample(const struct pair *pair)
{
	for (int i = 0; i < 4; i++) {
		const bool big = i & 1;
		int bytes;

		representation = i & 2 ? APUS_XCDR2 : APUS_XCDR1;
		if (representation == APUS_XCDR1 && !xcdr1_can(pair))
			continue;
		bytes = apus_wire_cdr_encode(from->type, sample, representation, false, big, ours,
					     ROOM);
		if (!expect(bytes > 0, "cannot be serialised"))
			continue;
		check_read(ours + 4, body_bytes(ours, bytes), big, pair,
			   "the other version is not understood");
		if (representation == APUS_XCDR2 && !big)
			check_cyclone(pair, bytes);
	}
}

static void fill(struct sample_random *random, const struct version *writer,
		 const struct version *reader)
{
	from = writer;
	to = reader;
	memset(sample, 0, from->type->size_bytes);
	sample_fill(random, from->type, sample);
}

static void dump_one(struct sample_random *random, const struct version *writer,
		     const struct version *reader)
{
	printf("from %s ", writer->type->name);
	describe_type(writer->type);
	printf("\nto %s ", reader->type->name);
	describe_type(reader->type);
	putchar('\n');
	for (int n = 0; n < 20; n++) {
		int bytes;

		fill(random, writer, reader);
		bytes = apus_wire_cdr_encode(from->type, sample, APUS_XCDR1, false, n & 1, ours,
					     ROOM);
		if (apus_type_decode(to->type, ours, (size_t)bytes, false, copy, read_arena, ROOM) <
		    0)
			abort();
		sample_to_json(to->type, copy, false, text, sizeof(text));
		printf("evolved ");
		for (int b = 0; b < bytes; b++)
			printf("%02x", ours[b]);
		printf(" %s\n", text);
	}
}

static void dump(struct sample_random *random)
{
	for (size_t i = 0; i < PAIR_COUNT; i++) {
		if (!xcdr1_can(&pairs[i]))
			continue;
		dump_one(random, &pairs[i].old, &pairs[i].new);
		if (!(pairs[i].flags & REFUSED))
			dump_one(random, &pairs[i].new, &pairs[i].old);
	}
}

int main(int argc, char **argv)
{
	struct sample_random random = {.state = 7, .arena = fill_arena, .bytes = ROOM};
	unsigned int samples = argc > 1 ? (unsigned int)atoi(argv[1]) : 200;

	if (argc > 1 && strcmp(argv[1], "dump") == 0) {
		dump(&random);
		return 0;
	}
	for (size_t i = 0; i < PAIR_COUNT; i++)
		for (unsigned int n = 0; n < samples; n++) {
			fill(&random, &pairs[i].old, &pairs[i].new);
			check_sample(&pairs[i]);
			fill(&random, &pairs[i].new, &pairs[i].old);
			check_sample(&pairs[i]);
		}
	printf("%zu evolutions in both directions, %u samples each: %u checks, %u failures\n",
	       PAIR_COUNT, samples, checks, failures);
	return failures ? 1 : 0;
}
