/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the one admission path and the history behind it cost: a sample admitted and stored, displaced by
 * the next (keep last), or taken and given back. Payloads are slot numbers here; copying one is the
 * reader's affair (stream_bench). The argument is the number of instances the samples go round.
 */
#include "bench/micro/context.h"
#include "dataplane/admit.h"

#include <stdlib.h>
#include <string.h>

#define INSTANCES_MAX 4096
#define KEY_BYTES     4
#define DEPTH         4

struct fixture {
	struct apus_dp_inbox inbox;
	void *memory;
	struct apus_mono now;
	apus_seq seq;
};

static uint32_t hold(void *context, const struct apus_dp_arrival *arrival)
{
	(void)context;
	return (uint32_t)arrival->seq & 0xffff;
}

static void release(void *context, uint32_t slot_ref)
{
	(void)context;
	bench_use(slot_ref);
}

static bool open_fixture(struct fixture *f, bool keep_all, int64_t separation_ns)
{
	struct apus_dp_inbox_options o = {.separation_ns = separation_ns,
					  .lifespan_ns = APUS_INFINITE_NS,
					  .hold = hold,
					  .history = {.keep_all = keep_all,
						      .depth = DEPTH,
						      .max_samples = DEPTH * INSTANCES_MAX,
						      .max_samples_per_instance = DEPTH,
						      .max_loans = 64,
						      .deadline_ns = APUS_INFINITE_NS,
						      .release = release,
						      .instances = {.capacity = INSTANCES_MAX,
								    .key_bytes_max = KEY_BYTES,
								    .match_count_max = 4,
								    .seed = 1}}};
	struct apus_guid writer = {{1}};
	size_t bytes = apus_dp_inbox_bytes(&o);

	memset(f, 0, sizeof(*f));
	f->now.ns = APUS_NS_PER_SEC;
	f->memory = bytes ? aligned_alloc(16, (bytes + 15) & ~(size_t)15) : NULL;
	if (f->memory && apus_dp_inbox_init(&f->inbox, &o, f->memory) == 0 &&
	    apus_dp_inbox_match(&f->inbox, 0, &writer, 0, APUS_INFINITE_NS, APUS_INFINITE_NS,
				f->now) == 0)
		return true;
	free(f->memory);
	return false;
}

static void close_fixture(struct fixture *f)
{
	apus_dp_inbox_fini(&f->inbox);
	free(f->memory);
}

static enum apus_dp_admit_result admit(struct fixture *f, uint32_t instance)
{
	static const uint8_t payload[64];
	uint8_t key[KEY_BYTES];
	struct apus_dp_admission admission;
	struct apus_dp_arrival a = {.seq = ++f->seq,
				    .reliable = true,
				    .has_data = true,
				    .source_time = {1700000000},
				    .wall_now = APUS_WALL_NONE,
				    .payload = payload,
				    .payload_bytes = sizeof(payload),
				    .key = key,
				    .key_bytes = KEY_BYTES};

	memcpy(key, &instance, sizeof(key));
	f->now.ns += 1000;
	return apus_dp_admit(&f->inbox, &a, f->now, &admission);
}

static void displace(struct bench_state *s)
{
	uint32_t count = (uint32_t)bench_range(s, 0);
	struct fixture f;

	if (!open_fixture(&f, false, 0)) {
		bench_skip(s, "no inbox");
		return;
	}
	for (uint32_t i = 0; i < count * DEPTH; i++)
		admit(&f, i % count);
	while (bench_keep_running_batch(s, BATCH))
		for (uint32_t i = 0; i < BATCH; i++)
			bench_use(admit(&f, (uint32_t)f.seq % count));
	if (f.inbox.counters.results[APUS_DP_DISPLACED] < (uint64_t)bench_iterations(s))
		bench_skip(s, "samples were not displaced");
	close_fixture(&f);
}

static void store_and_take(struct bench_state *s)
{
	static const struct apus_dp_select all;
	uint32_t count = (uint32_t)bench_range(s, 0);
	struct apus_dp_loan loan;
	struct fixture f;
	int64_t taken = 0;

	if (!open_fixture(&f, true, 0)) {
		bench_skip(s, "no inbox");
		return;
	}
	while (bench_keep_running_batch(s, BATCH))
		for (uint32_t i = 0; i < BATCH; i++) {
			admit(&f, (uint32_t)f.seq % count);
			taken += apus_dp_history_access(&f.inbox.history, &all, true, f.now, &loan,
							1);
			apus_dp_history_return(&f.inbox.history, loan.entry_idx);
		}
	if (taken != bench_iterations(s))
		bench_skip(s, "samples are missing");
	close_fixture(&f);
}

static void reject_rate(struct bench_state *s)
{
	struct fixture f;

	if (!open_fixture(&f, false, INT64_C(1000000) * APUS_NS_PER_SEC)) {
		bench_skip(s, "no inbox");
		return;
	}
	admit(&f, 0);
	while (bench_keep_running_batch(s, BATCH))
		for (uint32_t i = 0; i < BATCH; i++)
			bench_use(admit(&f, 0));
	if (f.inbox.counters.results[APUS_DP_REJECTED_RATE] != (uint64_t)bench_iterations(s))
		bench_skip(s, "samples were not rejected");
	close_fixture(&f);
}

int main(int argc, char **argv)
{
	static const int64_t counts[] = {1, 64, INSTANCES_MAX};
	struct bench *d = bench_register("history/displace", displace);
	struct bench *t = bench_register("history/store_and_take", store_and_take);

	for (int i = 0; i < 3; i++) {
		bench_args(d, &counts[i], 1);
		bench_args(t, &counts[i], 1);
	}
	bench_register("history/reject_rate", reject_rate);
	return micro_main(argc, argv);
}
