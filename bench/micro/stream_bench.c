/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one sample costs Apus itself, without any kernel: from the application's struct through writer,
 * wire format, reader, admission and history until it has been taken and given back. Two workers in one
 * thread, joined by a queue in memory (one copy each way, the one the kernel would make).
 *
 * The argument is the burst: samples written between two looks of the receiving side. A burst of 1 is
 * what a ping-pong pays, 32 what a stream pays.
 */
#include "bench/micro/context.h"
#include "tests/dataplane/wire_pair.h"

#include <string.h>

#define SAMPLE_NS 1000 /* injected time between two samples: timers run as they would */

static struct wire_pair pair;
static struct wire_endpoints ends;

/* apus_write() as it works below the handle: the key hash is wanted only once an instance. */
static int write_one(struct apus_shape *shape)
{
	struct apus_dp_cache *cache = &ends.writer->cache;
	uint8_t key[256], hash[16];
	struct apus_dp_write change = {.source = {pair.now.ns}, .key = key};
	uint32_t slot;
	int rc;

	apus_dp_worker_take_turn(pair.a.worker);
	slot = apus_dp_cache_acquire(cache);
	if (slot == APUS_SHM_NO_SLOT) {
		apus_dp_worker_end_turn(pair.a.worker);
		return APUS_EAGAIN;
	}
	change.payload_bytes =
		(uint32_t)apus_type_encode(&apus_shape_type, shape, APUS_XCDR1, false,
					   apus_dp_cache_payload(cache, slot), 256);
	change.key_bytes = (uint32_t)apus_wire_key_from_sample(&ends.plan, shape, key, sizeof(key));
	if (apus_dp_keytable_find(&cache->keys, key, change.key_bytes) == APUS_DP_NO_KEY) {
		apus_wire_key_hash(&ends.plan, key, change.key_bytes, hash);
		change.key_hash = hash;
	}
	rc = apus_dp_writer_write(ends.writer, slot, &change, pair.now);
	if (rc != 0)
		apus_dp_cache_abandon(cache, slot);
	apus_dp_worker_end_turn(pair.a.worker);
	return rc;
}

static void poll_worker(struct apus_dp_worker *w)
{
	apus_dp_worker_take_turn(w);
	apus_dp_worker_poll(w, pair.now);
	apus_dp_worker_end_turn(w);
}

static int take_all(void)
{
	struct apus_sample s[32];
	int n, total = 0;

	apus_dp_worker_take_turn(pair.b.worker);
	while ((n = apus_dp_reader_access(ends.reader, NULL, true, pair.now, s, 32)) > 0) {
		for (int i = 0; i < n; i++)
			apus_dp_reader_return(ends.reader, &s[i]);
		total += n;
	}
	apus_dp_worker_end_turn(pair.b.worker);
	return total;
}

static int64_t burst(struct apus_shape *shape, int64_t count)
{
	for (int64_t i = 0; i < count; i++) {
		pair.now.ns += SAMPLE_NS;
		shape->x++;
		if (write_one(shape) != 0)
			return -1;
	}
	poll_worker(pair.b.worker);
	poll_worker(pair.a.worker);
	return take_all();
}

static void stream(struct bench_state *s, bool reliable)
{
	struct wire_options o = {
		.reliable = reliable, .keep_all = true, .depth = 1, .max_samples = 256};
	struct apus_shape shape = {"RED", 0, 20, 30};
	int64_t count = bench_range(s, 0), taken = 0;

	wire_pair_init(&pair, 1);
	wire_endpoints_init(&pair, &ends, &o);
	wire_match(&pair, &ends, true, &o);
	for (int i = 0; i < 100; i++) /* greetings, and the first touch of everything */
		burst(&shape, count);
	while (bench_keep_running_batch(s, count)) {
		int64_t n = burst(&shape, count);

		if (n < 0) {
			bench_skip(s, "a sample was refused");
			break;
		}
		taken += n;
	}
	if (taken != bench_iterations(s))
		bench_skip(s, "samples are missing");
	bench_items(s, taken);
	wire_endpoints_fini(&pair, &ends);
	wire_pair_fini(&pair);
}

static void best_effort(struct bench_state *s)
{
	stream(s, false);
}

static void reliable(struct bench_state *s)
{
	stream(s, true);
}

int main(int argc, char **argv)
{
	static const int64_t bursts[] = {1, 32};
	struct bench *b = bench_register("stream/best_effort", best_effort);
	struct bench *r = bench_register("stream/reliable", reliable);

	for (int i = 0; i < 2; i++) {
		bench_args(b, &bursts[i], 1);
		bench_args(r, &bursts[i], 1);
	}
	return micro_main(argc, argv);
}
