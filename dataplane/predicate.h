/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled content filters: an immutable flat program over CDR bytes.
 *
 * control/ compiles text into this form; the data plane only evaluates. A predicate is one block of
 * memory without pointers into anything mutable, so a snapshot can carry it and any number of threads
 * may evaluate it at once.
 */
#ifndef APUS_DATAPLANE_PREDICATE_H
#define APUS_DATAPLANE_PREDICATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct apus_dp_predicate;

/** Verdict of an evaluation. ERROR: the bytes do not hold the fields the program needs. */
enum apus_dp_verdict {
	APUS_DP_REJECT = 0,
	APUS_DP_PASS = 1,
	APUS_DP_ERROR = 2,
};

/**
 * Evaluates a predicate over one serialised sample.
 *
 * payload: CDR with its 4-byte encapsulation header, either byte order, XCDR1 or XCDR2; untrusted.
 * Does not allocate, lock or loop longer than the program and payload are. Any thread.
 */
enum apus_dp_verdict apus_dp_predicate_eval(const struct apus_dp_predicate *predicate,
					    const uint8_t *payload, size_t payload_bytes);

/**
 * Makes a predicate that asks `evaluate` instead of running a program; for filter classes of the application.
 * release: called once when it is freed. Returns NULL without memory; free with apus_dp_predicate_free().
 */
struct apus_dp_predicate *apus_dp_predicate_custom(
	enum apus_dp_verdict (*evaluate)(void *context, const uint8_t *payload, size_t bytes),
	void (*release)(void *context), void *context);

/** Releases and frees a predicate whose block was malloc'ed; NULL is allowed. Not on the data plane. */
void apus_dp_predicate_free(struct apus_dp_predicate *predicate);

#endif
