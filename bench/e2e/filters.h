/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an implementation has to do to take part in the comparison of content filters: two topics of ShapeType in
 * this process, each with a writer and a reader, best effort, depth 1; one of the readers has a filter.
 */
#ifndef BENCH_E2E_FILTERS_H
#define BENCH_E2E_FILTERS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One implementation. A function that cannot do its work ends the process. */
struct filters_peer {
	const char *name;
	void (*open)(uint32_t domain);
	/** Sets the condition, one of filters_expressions, with its parameter "50". */
	void (*set)(int which);
	/** Writes RED, x, 200, 30 to the reader without (0) or with the filter (1). */
	void (*write)(int filtered, int32_t x);
	/** Samples that the filtered reader has had, as far as it can be told. */
	uint64_t (*received)(void);
	/** Compiles the condition, and lets go of it; NULL: there is nothing to compile. */
	void (*compile)(int which);
	/** Changes the parameter alone; NULL likewise. */
	void (*set_parameter)(const char *value);
};

#define FILTERS_COUNT 3
extern const char *const filters_expressions[FILTERS_COUNT];

extern const struct filters_peer filters_apus, filters_cyclone, filters_fastdds;

#ifdef __cplusplus
}
#endif

#endif
