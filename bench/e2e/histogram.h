/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A histogram of durations with a relative error below 1 %: 64 linear steps in each power of two, as
 * HdrHistogram has it. Adding costs a few instructions and never allocates, so it can stand in a timed
 * loop; nothing is averaged away, and histograms of several runs can be added up.
 */
#ifndef BENCH_E2E_HISTOGRAM_H
#define BENCH_E2E_HISTOGRAM_H

#include <stdint.h>
#include <stdio.h>

#define HISTOGRAM_STEP_BITS 6
#define HISTOGRAM_BUCKETS   ((64 - HISTOGRAM_STEP_BITS) << HISTOGRAM_STEP_BITS)

/* All zero is empty. One thread. */
struct histogram {
	uint64_t count, min_ns, max_ns;
	uint32_t bucket[HISTOGRAM_BUCKETS];
};

/** Adds one duration. */
void histogram_add(struct histogram *h, uint64_t ns);
/** Adds all of another one's. */
void histogram_merge(struct histogram *h, const struct histogram *more);
/** The smallest duration that at least `share` (0…1) of all do not exceed; 0 if there are none. Exact for the
 *  ends, else the middle of its bucket. */
uint64_t histogram_quantile(const struct histogram *h, double share);
/** Prints the filled buckets as a JSON array of [lower bound in ns, count]. */
void histogram_json(const struct histogram *h, FILE *to);
/** Prints it as HdrHistogram's tools do (".hgrm"): value in us, share, count up to it, 1/(1-share). */
void histogram_hgrm(const struct histogram *h, FILE *to);

#endif
