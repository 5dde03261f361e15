/* SPDX-License-Identifier: Apache-2.0 */
/* The pairs of types of evolutions.py, and what a sample of one is as the other. */
#ifndef TESTS_IDLC_VERSIONS_H
#define TESTS_IDLC_VERSIONS_H

#include <dds/dds.h>

#include "sample.h"

/** Flags; see evolutions.py. */
enum { VERSIONS_NESTED = 1, VERSIONS_MADE_UP = 2, VERSIONS_REFUSED = 4 };

struct version {
	const struct apus_type *type;
	const dds_topic_descriptor_t *desc;
};

struct version_pair {
	struct version old, new;
	unsigned int flags;
	const char *expected; /* in the JSON of an older sample read as the newer version */
};

extern const struct version_pair version_pairs[];
extern const size_t version_pair_count;

/** What members that only the reader has must hold: anything; what its descriptor says; zero, which is what Cyclone
 *  DDS 0.10 fills in. */
enum versions_added { VERSIONS_ANY, VERSIONS_DEFAULTS, VERSIONS_ZERO };

/** True if `y`, of type b, is the value `x` of type a, members being compared by id. */
bool versions_same(const struct apus_type *a, const void *x, const struct apus_type *b,
		   const void *y, enum versions_added added);

/** True if these bytes are all zero. */
bool versions_zero(const uint8_t *value, size_t bytes);

#endif
