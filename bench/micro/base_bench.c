/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the smallest building blocks cost: reading a clock, counting an event, hashing an identity.
 * They bound everything built from them, and are an example of a benchmark over the shim.
 */
#include "base/atomics.h"
#include "base/clock.h"
#include "base/guid.h"
#include "bench/micro/context.h"

static void clock_mono(struct bench_state *s)
{
	while (bench_keep_running_batch(s, BATCH))
		for (int i = 0; i < BATCH; i++)
			bench_use((uint64_t)apus_mono_now().ns);
}

static void counter_add(struct bench_state *s)
{
	struct apus_counter counter = {0};

	while (bench_keep_running_batch(s, BATCH))
		for (int i = 0; i < BATCH; i++)
			apus_counter_add(&counter, 1);
	if (apus_counter_get(&counter) != (uint64_t)bench_iterations(s))
		bench_skip(s, "the counter lost an event");
}

static void guid_hash(struct bench_state *s)
{
	struct apus_guid guid = {{1, 0xee}};

	while (bench_keep_running_batch(s, BATCH))
		for (int i = 0; i < BATCH; i++) {
			guid.bytes[15] = (uint8_t)i;
			bench_use(apus_guid_hash(&guid));
		}
}

int main(int argc, char **argv)
{
	bench_register("base/clock_mono", clock_mono);
	bench_register("base/counter_add", counter_add);
	bench_register("base/guid_hash", guid_hash);
	return micro_main(argc, argv);
}
