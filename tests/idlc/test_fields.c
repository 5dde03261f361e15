/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: every field of every type shape is read from its CDR bytes as it is in memory: elements, lengths,
 * cases, discriminators, optional members, defaults of members that an older sender lacks.
 * Method: random samples in XCDR1 and XCDR2 and both byte orders; each field alone, all of them in walks of
 * 64, and random sets. Then payloads of an older type version, truncated and damaged payloads: what
 * decodes must be found equal to what it decodes to, what does not must do no harm.
 *
 * Usage: test_fields [ROUNDS [SEED]]   random samples a shape, default 6
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

static const struct {
	const char *name;
	const struct apus_type *type;
} shapes[] = {
#define SHAPE(name) {#name, &name##_type},
#include "shapes_table.h"
};
#define SHAPE_COUNT (sizeof(shapes) / sizeof(shapes[0]))

#define ROOM      65536
#define WALKS_MAX (FIELDS_MAX + FIELDS_MAX / APUS_WIRE_WALK_FIELDS + 9)
static _Alignas(16) uint8_t fill_arena[ROOM], read_arena[ROOM];
static _Alignas(16) uint8_t sample[ROOM], copy[ROOM];
static uint8_t bytes_out[ROOM];
static struct fields fields;
static struct sample_random rng = {.state = 7, .arena = fill_arena, .bytes = ROOM};
static unsigned int failures;
static unsigned long checks;

/* One walk, for both representations. */
static struct walk {
	uint16_t which[APUS_WIRE_WALK_FIELDS];
	uint32_t count;
	struct apus_wire_step *steps[2];
	int step_count[2];
} walks[WALKS_MAX];
static uint32_t walk_count;

static void expect(const char *name, const char *wrong)
{
	checks++;
	if (wrong && failures++ < 40)
		fprintf(stderr, "%s: %s\n", name, wrong);
}

static void add_walk(const char *name, const uint16_t *which, uint32_t count)
{
	static struct apus_wire_step steps[FIELDS_STEPS];
	struct walk *w = &walks[walk_count++];

	memcpy(w->which, which, count * sizeof(which[0]));
	w->count = count;
	for (int x = 0; x < 2; x++) {
		size_t n;

		w->step_count[x] = fields_walk(&fields, which, count, x == 1, steps);
		expect(name, w->step_count[x] < 0 ? "no walk" : NULL);
		n = w->step_count[x] < 0 ? 0 : (size_t)w->step_count[x];
		/* Exact, so that a sanitizer sees steps behind the end. */
		w->steps[x] = malloc(n * sizeof(steps[0]) + 1);
		memcpy(w->steps[x], steps, n * sizeof(steps[0]));
	}
}

static void make_walks(const char *name)
{
	uint16_t which[APUS_WIRE_WALK_FIELDS];

	walk_count = 0;
	for (uint32_t i = 0; i < fields.count; i++) {
		which[0] = (uint16_t)i;
		add_walk(name, which, 1);
	}
	for (uint32_t at = 0; at < fields.count; at += APUS_WIRE_WALK_FIELDS) {
		uint32_t n = 0;

		for (; n < APUS_WIRE_WALK_FIELDS && at + n < fields.count; n++)
			which[n] = (uint16_t)(at + n);
		add_walk(name, which, n);
	}
	for (int set = 0; set < 8; set++) {
		uint32_t n = 0, one_in = 1 + fields.count / 8;

		for (uint32_t i = 0; i < fields.count && n < APUS_WIRE_WALK_FIELDS; i++)
			if (sample_bits(&rng) % one_in == 0)
				which[n++] = (uint16_t)i;
		if (n)
			add_walk(name, which, n);
	}
}

static void free_walks(void)
{
	for (uint32_t i = 0; i < walk_count; i++) {
		free(walks[i].steps[0]);
		free(walks[i].steps[1]);
	}
}

/* All walks over one payload, which lies exactly in memory. must_decode: it is whole. */
static void check_payload(const char *name, const uint8_t *from, size_t bytes, bool must_decode)
{
	uint8_t *payload = malloc(bytes + 1);
	bool xcdr2 = bytes > 1 && from[1] >= 6, decodes;

	memcpy(payload, from, bytes);
	decodes = apus_type_decode(fields.type, payload, bytes, false, copy, read_arena, ROOM) >= 0;
	expect(name, must_decode && !decodes ? "does not decode" : NULL);
	for (uint32_t i = 0; i < walk_count; i++) {
		const struct walk *w = &walks[i];

		expect(name, fields_compare(&fields, w->which, w->count, w->steps[xcdr2],
					    (uint32_t)w->step_count[xcdr2], payload, bytes,
					    decodes ? copy : NULL));
	}
	free(payload);
}

/* Cut short, with bytes changed, with bytes taken out. */
static void check_damaged(const char *name, size_t bytes)
{
	for (int i = 0; i < 12; i++) {
		uint8_t damaged[ROOM];
		size_t n = bytes, at = 4 + sample_bits(&rng) % (bytes - 3);

		memcpy(damaged, bytes_out, bytes);
		if (i < 4) {
			n = at;
		} else if (i < 10) {
			damaged[at < n ? at : n - 1] =
				(uint8_t)(sample_bits(&rng) % 3 ? sample_bits(&rng) % 5
								: sample_bits(&rng));
		} else {
			n -= n > 8 ? 4 : 0;
			memmove(damaged + 4, damaged + 8, n - 4);
		}
		damaged[3] = 0;
		check_payload(name, damaged, n, false);
	}
}

static void check_samples(const char *name, const struct apus_type *from, unsigned int rounds)
{
	for (unsigned int i = 0; i < rounds; i++) {
		memset(sample, 0, from->size_bytes);
		sample_fill(&rng, from, sample);
		for (int e = 0; e < 4; e++) {
			int n = apus_wire_cdr_encode(from, sample, e & 1 ? APUS_XCDR2 : APUS_XCDR1,
						     false, e & 2, bytes_out, ROOM);

			/* XCDR1 cannot tell where an older nested struct ends. */
			check_payload(name, bytes_out, (size_t)n,
				      from == fields.type || (e & 1) ||
					      from->extensibility == APUS_MUTABLE);
			check_damaged(name, (size_t)n);
		}
	}
}

static const struct apus_type *find_shape(const char *name)
{
	for (size_t i = 0; i < SHAPE_COUNT; i++)
		if (strcmp(shapes[i].name, name) == 0)
			return shapes[i].type;
	abort();
}

static void check_shape(const char *name, const struct apus_type *type, unsigned int rounds)
{
	expect(name, fields_find(&fields, type));
	make_walks(name);
	check_samples(name, type, rounds);
	if (strstr(name, "s_new_"))
		check_samples("an older sample", find_shape(name[6] == 'a' ? "s_old_a" : "s_old_m"),
			      rounds);
	if (strstr(name, "s_old_"))
		check_samples("a newer sample", find_shape(name[6] == 'a' ? "s_new_a" : "s_new_m"),
			      rounds);
	free_walks();
}

int main(int argc, char **argv)
{
	unsigned int rounds = argc > 1 ? (unsigned int)atoi(argv[1]) : 6;
	unsigned long all = 0;

	if (argc > 2)
		rng.state = strtoull(argv[2], NULL, 0);
	for (size_t i = 0; i < SHAPE_COUNT; i++) {
		check_shape(shapes[i].name, shapes[i].type, rounds);
		all += fields.count;
	}
	printf("%zu shapes, %lu fields, %u samples each: %lu checks, %u failures\n", SHAPE_COUNT,
	       all, rounds, checks, failures);
	return failures ? 1 : 0;
}
