/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every micro-benchmark shares: its main function, which says with each result on what machine
 * and of what sources it was made, and the batch size of the loops.
 */
#ifndef BENCH_MICRO_CONTEXT_H
#define BENCH_MICRO_CONTEXT_H

#include "bench/shim/bench.h"

/** Turns between two looks at the clock; see bench_keep_running_batch(). */
#define BATCH 1000

/** bench_main() with the context: CPU, kernel, commit and versions. Returns its exit code. */
int micro_main(int argc, char **argv);

#endif
