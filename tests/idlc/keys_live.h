/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Apus side of keys_cyclone and keys_fastdds: a reader for each keyed shape, the samples the peer is to
 * write, and the check that each notice leads to the instance of its sample.
 */
#ifndef TESTS_IDLC_KEYS_LIVE_H
#define TESTS_IDLC_KEYS_LIVE_H

#include <apus/type.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Samples of different instances for each shape: the second is to be disposed, the third unregistered. */
#define KEYS_LIVE_SAMPLES 3

/** Joins domain 0 and makes the readers. suffix: 'f', 'a' or 'm', which extensibility.
 *  Exits on failure. Returns the number of shapes. */
unsigned int keys_live_begin(char suffix);
/** Topic and type name of shape i (of those chosen), its descriptor, index among all shapes, and sample n. */
const char *keys_live_topic(unsigned int i);
const struct apus_type *keys_live_type(unsigned int i);
unsigned int keys_live_index(unsigned int i);
const void *keys_live_sample(unsigned int i, unsigned int n);
/** Takes until all notices are there, up to 10 s, and prints {"shape","n","rule","fast"} lines with the key
 *  hashes of the samples. Returns the exit code: 0 if every sample and notice came and fits, else 1. */
int keys_live_finish(void);

#ifdef __cplusplus
}
#endif

#endif
