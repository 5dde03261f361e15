/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target: field accessors over arbitrary bytes as samples of the types generated from
 * tests/idlc/shapes.py.
 *
 * Input: one byte that picks the type, one of options. Bit 0: what follows is a payload as it is; else four
 * bytes that seed a valid sample, in the representation and byte order of bits 1 and 2, and then three bytes
 * for each change: where (16 bits), and which byte. Bit 3: the last change cuts the payload off there.
 * Beyond the sanitizers these must hold: every field of the type is found in a payload that decodes, equal to
 * what it decodes to; for what does not decode a walk comes back.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fields.h"
#include "sample.h"
#include "wire/cdr.h"

#define SHAPE(name) extern const struct apus_type name##_type;
#include "shapes_table.h"
#undef SHAPE

static const struct apus_type *const types[] = {
#define SHAPE(name) &name##_type,
#include "shapes_table.h"
};
#define TYPE_COUNT (sizeof(types) / sizeof(types[0]))
#define ROOM       65536
#define WALKS      (FIELDS_MAX / APUS_WIRE_WALK_FIELDS)

static _Alignas(16) uint8_t sample[ROOM], arena[ROOM], fill_arena[ROOM];
static uint8_t room[ROOM];

/* The fields of one type, and walks to all of them: made when first needed, kept. */
static struct access {
	struct fields *fields;
	uint32_t walk_count;
	uint32_t counts[WALKS];
	uint16_t which[WALKS][APUS_WIRE_WALK_FIELDS];
	struct apus_wire_step *steps[WALKS][2];
	int step_count[WALKS][2];
} accesses[TYPE_COUNT];

static void require(const char *wrong)
{
	if (!wrong)
		return;
	fprintf(stderr, "%s\n", wrong);
	abort();
}

static void add_walk(struct access *a, uint32_t first)
{
	static struct apus_wire_step steps[FIELDS_STEPS];
	uint32_t w = a->walk_count++;

	for (uint32_t i = first; i < a->fields->count && a->counts[w] < APUS_WIRE_WALK_FIELDS; i++)
		a->which[w][a->counts[w]++] = (uint16_t)i;
	for (int x = 0; x < 2; x++) {
		int n = fields_walk(a->fields, a->which[w], a->counts[w], x == 1, steps);

		require(n < 0 ? "no walk" : NULL);
		a->step_count[w][x] = n;
		a->steps[w][x] = malloc((size_t)n * sizeof(steps[0]));
		memcpy(a->steps[w][x], steps, (size_t)n * sizeof(steps[0]));
	}
}

static struct access *access_of(size_t index)
{
	struct access *a = &accesses[index];

	if (a->fields)
		return a;
	a->fields = malloc(sizeof(*a->fields));
	require(fields_find(a->fields, types[index]));
	for (uint32_t at = 0; at < a->fields->count; at += APUS_WIRE_WALK_FIELDS)
		add_walk(a, at);
	return a;
}

static void check(const struct access *a, const uint8_t *from, size_t bytes)
{
	uint8_t *payload = malloc(bytes + 1); /* exact, so that reads behind it are seen */
	bool xcdr2 = bytes > 1 && from[1] >= 6, decodes;

	memcpy(payload, from, bytes);
	decodes =
		apus_type_decode(a->fields->type, payload, bytes, false, sample, arena, ROOM) >= 0;
	for (uint32_t w = 0; w < a->walk_count; w++)
		require(fields_compare(a->fields, a->which[w], a->counts[w], a->steps[w][xcdr2],
				       (uint32_t)a->step_count[w][xcdr2], payload, bytes,
				       decodes ? sample : NULL));
	free(payload);
}

/* A valid payload with some changes. Returns its bytes. */
static size_t make(const struct apus_type *type, unsigned int options, const uint8_t *data,
		   size_t bytes)
{
	struct sample_random random = {.arena = fill_arena, .bytes = ROOM};
	size_t n, at = 0;

	memcpy(&random.state, data, 4);
	memset(sample, 0, type->size_bytes);
	sample_fill(&random, type, sample);
	n = (size_t)apus_wire_cdr_encode(type, sample, options & 2 ? APUS_XCDR2 : APUS_XCDR1, false,
					 options & 4, room, sizeof(room));
	for (data += 4, bytes -= 4; bytes >= 3; data += 3, bytes -= 3) {
		at = (data[0] | (size_t)data[1] << 8) % n;
		room[at] = data[2];
	}
	return options & 8 ? at : n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct access *a;

	if (bytes < 6)
		return 0;
	a = access_of(data[0] % TYPE_COUNT);
	if (data[1] & 1)
		check(a, data + 2, bytes - 2);
	else
		check(a, room, make(a->fields->type, data[1], data + 2, bytes - 2));
	return 0;
}
