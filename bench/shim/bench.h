/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Google Benchmark for C: two opaque handles and plain functions that forward to it.
 *
 *	static void parse(struct bench_state *s)
 *	{
 *		while (bench_keep_running_batch(s, 1000))
 *			for (int i = 0; i < 1000; i++)
 *				bench_use(work(i));
 *		bench_items(s, bench_iterations(s));
 *	}
 *	int main(int argc, char **argv)
 *	{
 *		bench_register("parse", parse);
 *		return bench_main(argc, argv);
 *	}
 *
 * bench_keep_running() costs 1.6 ns a turn here, bench_keep_running_batch(1000) 0.3: use batches for
 * anything below 50 ns. The usual --benchmark_* options apply; --benchmark_format=json gives JSON.
 *
 * Registering and bench_main() belong to one thread; a callback runs in as many as were asked for,
 * each with its own state.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One run of a benchmark, valid during its callback. */
struct bench_state;
/** A registered benchmark; lives as long as the process. */
struct bench;

/** How a counter is printed; values may be or-ed together. */
enum bench_counter_flags {
	BENCH_PLAIN = 0,         /**< as it is */
	BENCH_RATE = 1,          /**< divided by the elapsed seconds */
	BENCH_AVG_THREADS = 2,   /**< divided by the number of threads */
	BENCH_PER_ITERATION = 4, /**< divided by the iterations */
	BENCH_INVERT = 8,        /**< the reciprocal, after the divisions */
};

/** Registers `run` under `name` (copied). The handle is for the setters below. */
struct bench *bench_register(const char *name, void (*run)(struct bench_state *));
/** Adds one run with these arguments, which bench_range() gives back. count: 1…8. */
void bench_args(struct bench *b, const int64_t *values, size_t count);
/** Runs in that many threads at once. */
void bench_threads(struct bench *b, int count);
/** Measures wall time instead of the CPU time of the main thread. */
void bench_real_time(struct bench *b);
/** The callback reports each turn's time with bench_iteration_time(). */
void bench_manual_time(struct bench *b);
/** Shortest total time, in seconds. */
void bench_min_time(struct bench *b, double seconds);
/** Repeats the whole measurement, with mean, median and standard deviation. */
void bench_repetitions(struct bench *b, int count);
/** Fixes the number of turns. */
void bench_set_iterations(struct bench *b, int64_t count);

/** True while one more turn is wanted. */
bool bench_keep_running(struct bench_state *s);
/** True while `count` more turns are wanted; the callback makes all of them. */
bool bench_keep_running_batch(struct bench_state *s, int64_t count);
/** Argument number `idx` of this run (bench_args()). */
int64_t bench_range(const struct bench_state *s, size_t idx);
/** Turns made; meaningful after the loop. */
int64_t bench_iterations(const struct bench_state *s);
/** This thread's number, 0…threads-1. */
int bench_thread_index(const struct bench_state *s);
/** Adds a figure to the result. flags: enum bench_counter_flags. */
void bench_counter(struct bench_state *s, const char *name, double value, unsigned flags);
/** Bytes and items handled in all turns together; printed per second. */
void bench_bytes(struct bench_state *s, int64_t bytes);
void bench_items(struct bench_state *s, int64_t items);
/** Manual time: the seconds this turn took. */
void bench_iteration_time(struct bench_state *s, double seconds);
/** Stops and restarts the clock around set-up inside the loop. Costs about 100 ns. */
void bench_pause(struct bench_state *s);
void bench_resume(struct bench_state *s);
/** Reports the run as failed. The exit code stays 0: readers of the JSON must look at error_occurred. */
void bench_skip(struct bench_state *s, const char *reason);
/** A remark beside the result. */
void bench_label(struct bench_state *s, const char *text);

/** Adds a line to the context of the output ("transport", "io_uring"). */
void bench_context(const char *key, const char *value);
/** Parses the options and runs what they select. Returns the exit code (1: unknown option). */
int bench_main(int argc, char **argv);

/** Keeps the compiler from dropping the computation of `value`, and from assuming what memory holds. */
static inline void bench_use(uint64_t value)
{
	__asm__ volatile("" : : "r"(value) : "memory");
}

/** The same for what a pointer points to. */
static inline void bench_use_memory(const void *pointer)
{
	__asm__ volatile("" : : "r"(pointer) : "memory");
}

#ifdef __cplusplus
}
#endif

#endif
