/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every field of a type, read from payloads through paths and walks and compared with the decoded
 * sample in memory.
 */
#ifndef TESTS_IDLC_FIELDS_H
#define TESTS_IDLC_FIELDS_H

#include "wire/access.h"

/** Fields of one type that are looked at (choice); types with more have those at their end left out. */
#define FIELDS_MAX 512
/** Steps of one walk. */
#define FIELDS_STEPS 4096

/** One step of the test's own way to a field in memory. */
struct field_part {
	enum { FIELD_MEMBER, FIELD_DISCRIMINATOR, FIELD_CASE, FIELD_ELEMENT, FIELD_LENGTH } what;
	uint32_t index;
};

struct field {
	char text[160];
	struct field_part parts[APUS_WIRE_PATH_DEPTH];
	uint32_t part_count;
	struct apus_wire_path path;
};

/** The fields of a type, in the order of their paths. */
struct fields {
	const struct apus_type *type;
	uint32_t count;
	struct field all[FIELDS_MAX];
};

/** Finds the fields; elements of arrays at both ends, of sequences the first three. NULL, or what is
 *  wrong: a path that does not resolve to what it names. */
const char *fields_find(struct fields *fields, const struct apus_type *type);

/** The walk for `count` fields that stand in `which` (indices in rising order), noted in slots 0…. */
int fields_walk(const struct fields *fields, const uint16_t *which, uint32_t count, bool xcdr2,
		struct apus_wire_step *steps);

/**
 * Compares what such a walk finds in a payload with the sample it decodes to. sample: NULL if it does
 * not decode; then only that the walk comes back. Returns NULL, or what is wrong, in static storage.
 */
const char *fields_compare(const struct fields *fields, const uint16_t *which, uint32_t count,
			   const struct apus_wire_step *steps, uint32_t step_count,
			   const uint8_t *payload, size_t bytes, const void *sample);

#endif
