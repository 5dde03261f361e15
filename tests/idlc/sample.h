/* SPDX-License-Identifier: Apache-2.0 */
/* Random samples of any described type, and their comparison. */
#ifndef TESTS_IDLC_SAMPLE_H
#define TESTS_IDLC_SAMPLE_H

#include <apus/type.h>

/** A generator's state; the same seed gives the same samples. */
struct sample_random {
	uint64_t state;
	uint8_t *arena; /* what members held by pointer, strings and sequences are taken from */
	size_t used, bytes;
};

/** Next 64 random bits. */
uint64_t sample_bits(struct sample_random *r);

/** Fills a sample, which must be zero, with values every peer accepts. Resets the arena. */
void sample_fill(struct sample_random *r, const struct apus_type *type, void *sample);

/** True if two samples have the same value. Floats are compared bit by bit. */
bool sample_equal(const struct apus_type *type, const void *a, const void *b);

#endif
