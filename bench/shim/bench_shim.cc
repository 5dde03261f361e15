/* SPDX-License-Identifier: Apache-2.0 */
/* The only C++ in the benchmarks: forwards the calls of bench.h to Google Benchmark. */
#include "bench/shim/bench.h"

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstring>
#include <vector>

/* Stands before the C library's for the benchmark library: a result names the machine by its CPU and kernel
 * (see bench_context()), never by the name its owner gave it. */
extern "C" int gethostname(char *name, size_t length)
{
	std::strncpy(name, "-", length);
	return 0;
}

namespace
{
benchmark::State &of(struct bench_state *s)
{
	return *reinterpret_cast<benchmark::State *>(s);
}

const benchmark::State &of(const struct bench_state *s)
{
	return *reinterpret_cast<const benchmark::State *>(s);
}

benchmark::internal::Benchmark &of(struct bench *b)
{
	return *reinterpret_cast<benchmark::internal::Benchmark *>(b);
}

benchmark::Counter::Flags flags_of(unsigned flags)
{
	unsigned result = benchmark::Counter::kDefaults;

	if (flags & BENCH_RATE)
		result |= benchmark::Counter::kIsRate;
	if (flags & BENCH_AVG_THREADS)
		result |= benchmark::Counter::kAvgThreads;
	if (flags & BENCH_PER_ITERATION)
		result |= benchmark::Counter::kAvgIterations;
	if (flags & BENCH_INVERT)
		result |= benchmark::Counter::kInvert;
	return static_cast<benchmark::Counter::Flags>(result);
}
} // namespace

struct bench *bench_register(const char *name, void (*run)(struct bench_state *))
{
	auto *made = benchmark::RegisterBenchmark(name, [run](benchmark::State &state) {
		run(reinterpret_cast<struct bench_state *>(&state));
	});

	return reinterpret_cast<struct bench *>(made);
}

void bench_args(struct bench *b, const int64_t *values, size_t count)
{
	of(b).Args(std::vector<int64_t>(values, values + count));
}

void bench_threads(struct bench *b, int count)
{
	of(b).Threads(count);
}

void bench_real_time(struct bench *b)
{
	of(b).UseRealTime();
}

void bench_manual_time(struct bench *b)
{
	of(b).UseManualTime();
}

void bench_min_time(struct bench *b, double seconds)
{
	of(b).MinTime(seconds);
}

void bench_repetitions(struct bench *b, int count)
{
	of(b).Repetitions(count);
}

void bench_set_iterations(struct bench *b, int64_t count)
{
	of(b).Iterations(count);
}

bool bench_keep_running(struct bench_state *s)
{
	return of(s).KeepRunning();
}

bool bench_keep_running_batch(struct bench_state *s, int64_t count)
{
	return of(s).KeepRunningBatch(count);
}

int64_t bench_range(const struct bench_state *s, size_t idx)
{
	return of(s).range(idx);
}

int64_t bench_iterations(const struct bench_state *s)
{
	return of(s).iterations();
}

int bench_thread_index(const struct bench_state *s)
{
	return of(s).thread_index();
}

void bench_counter(struct bench_state *s, const char *name, double value, unsigned flags)
{
	of(s).counters[name] = benchmark::Counter(value, flags_of(flags));
}

void bench_bytes(struct bench_state *s, int64_t bytes)
{
	of(s).SetBytesProcessed(bytes);
}

void bench_items(struct bench_state *s, int64_t items)
{
	of(s).SetItemsProcessed(items);
}

void bench_iteration_time(struct bench_state *s, double seconds)
{
	of(s).SetIterationTime(seconds);
}

void bench_pause(struct bench_state *s)
{
	of(s).PauseTiming();
}

void bench_resume(struct bench_state *s)
{
	of(s).ResumeTiming();
}

void bench_skip(struct bench_state *s, const char *reason)
{
	of(s).SkipWithError(reason);
}

void bench_label(struct bench_state *s, const char *text)
{
	of(s).SetLabel(text);
}

void bench_context(const char *key, const char *value)
{
	benchmark::AddCustomContext(key, value);
}

int bench_main(int argc, char **argv)
{
	benchmark::Initialize(&argc, argv);
	if (benchmark::ReportUnrecognizedArguments(argc, argv))
		return 1;
	benchmark::RunSpecifiedBenchmarks();
	benchmark::Shutdown();
	return 0;
}
