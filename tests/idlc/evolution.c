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
#include "tools/json.h"
#include "versions.h"
#include "wire/cdr.h"

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

static void check_read(const uint8_t *body, size_t bytes, bool big, const struct version_pair *pair,
		       const char *what)
{
	const bool newer = to == &pair->new;
	int rc = read_body(to->type, body, bytes, big);

	if ((pair->flags & VERSIONS_REFUSED) && !newer) {
		expect(rc == APUS_EENCODING && versions_zero(copy, to->type->size_bytes),
		       "a member that must be understood is skipped");
		return;
	}
	if (!expect(rc >= 0, what))
		return;
	if (!expect(versions_same(from->type, sample, to->type, copy, VERSIONS_DEFAULTS), what) ||
	    !newer)
		return;
	expect(sample_to_json(to->type, copy, false, text, sizeof(text)) > 0 &&
		       strstr(text, pair->expected),
	       "the defaults are not those of the IDL");
}

static void check_cyclone(const struct version_pair *pair, int bytes)
{
	size_t n = body_bytes(ours, bytes), out;
	const bool newer = to == &pair->new;

	memcpy(scratch, ours + 4, n);
	out = cyclone_relay(from->desc, 2, scratch, n, theirs, ROOM);
	if (expect(out > 0, "Cyclone refuses its own version"))
		check_read(theirs, out, false, pair, "Cyclone's version is not understood");
	if ((pair->flags & VERSIONS_MADE_UP) && newer)
		return;
	memcpy(scratch, ours + 4, n);
	out = cyclone_relay(to->desc, 2, scratch, n, theirs, ROOM);
	if ((pair->flags & VERSIONS_REFUSED) && !newer) {
		expect(out == 0, "Cyclone skips a member that must be understood");
		return;
	}
	if (expect(out > 0, "Cyclone refuses the other version") &&
	    expect(read_body(to->type, theirs, out, false) >= 0, "what Cyclone made is refused"))
		expect(versions_same(from->type, sample, to->type, copy, VERSIONS_ZERO),
		       "Cyclone understands something else");
}

/* XCDR1 has nothing that tells where an appendable struct within another ends. */
static bool xcdr1_can(const struct version_pair *pair)
{
	return !(pair->flags & VERSIONS_NESTED) || pair->old.type->extensibility == APUS_MUTABLE;
}

static void check_sample(const struct version_pair *pair)
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
	for (size_t i = 0; i < version_pair_count; i++) {
		if (!xcdr1_can(&version_pairs[i]))
			continue;
		dump_one(random, &version_pairs[i].old, &version_pairs[i].new);
		if (!(version_pairs[i].flags & VERSIONS_REFUSED))
			dump_one(random, &version_pairs[i].new, &version_pairs[i].old);
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
	for (size_t i = 0; i < version_pair_count; i++)
		for (unsigned int n = 0; n < samples; n++) {
			fill(&random, &version_pairs[i].old, &version_pairs[i].new);
			check_sample(&version_pairs[i]);
			fill(&random, &version_pairs[i].new, &version_pairs[i].old);
			check_sample(&version_pairs[i]);
		}
	printf("%zu evolutions in both directions, %u samples each: %u checks, %u failures\n",
	       version_pair_count, samples, checks, failures);
	return failures ? 1 : 0;
}
