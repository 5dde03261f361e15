/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it costs that the two planes meet in published snapshots: taking and giving up a worker's turn
 * (which is the read side, and the data plane's lock as well), and publishing. liburcu's QSBR flavour,
 * where it is installed, is the yardstick for both: its read side costs next to nothing, but it needs
 * every reader registered and never asleep, and its writer waits.
 */
#include "bench/micro/context.h"
#include "tests/dataplane/wire_pair.h"

#include <stdlib.h>

#ifdef BENCH_URCU
/* Without it the packaged 0.13.2 makes function calls of the read side, and its dereference a racy load. */
#define URCU_INLINE_SMALL_FUNCTIONS
#include <urcu-qsbr.h>
#endif

static struct wire_pair pair;

static void turn(struct bench_state *s)
{
	wire_pair_init(&pair, 1);
	while (bench_keep_running_batch(s, BATCH))
		for (int i = 0; i < BATCH; i++) {
			bench_use(apus_dp_worker_try_turn(pair.a.worker));
			apus_dp_worker_end_turn(pair.a.worker);
		}
	wire_pair_fini(&pair);
}

/* A turn that finds nothing to do, as a polling worker makes them. */
static void empty_poll(struct bench_state *s)
{
	wire_pair_init(&pair, 1);
	while (bench_keep_running_batch(s, BATCH))
		for (int i = 0; i < BATCH; i++) {
			apus_dp_worker_take_turn(pair.a.worker);
			bench_use((uint64_t)apus_dp_worker_poll(pair.a.worker, pair.now));
			apus_dp_worker_end_turn(pair.a.worker);
		}
	wire_pair_fini(&pair);
}

/* Publishing, the check that the old generation may go, and the turn that adopts the new one. */
static void publish(struct bench_state *s)
{
	static struct apus_dp_reader_snapshot two[2];
	struct apus_dp_epoch epoch = {1};
	struct apus_dp_reader_port port = {&two[0]};
	struct apus_dp_turn idle = {0};
	uint64_t retired;
	bool passed = true;

	while (bench_keep_running_batch(s, BATCH))
		for (int i = 0; i < BATCH; i++) {
			bench_use_memory(
				apus_dp_reader_publish(&epoch, &port, &two[i & 1], &retired));
			passed &= apus_dp_turn_passed(&idle, retired);
		}
	if (!passed)
		bench_skip(s, "a free turn held a generation back");
}

#ifdef BENCH_URCU
static int value = 1;
static int *shared = &value;

static void urcu_read(struct bench_state *s)
{
	rcu_register_thread();
	while (bench_keep_running_batch(s, BATCH))
		for (int i = 0; i < BATCH; i++) {
			rcu_read_lock();
			bench_use((uint64_t)*rcu_dereference(shared));
			rcu_read_unlock();
			rcu_quiescent_state();
		}
	rcu_unregister_thread();
}

static void urcu_publish(struct bench_state *s)
{
	static int other;

	while (bench_keep_running(s)) {
		rcu_assign_pointer(shared, &other);
		synchronize_rcu();
	}
	shared = &value;
}
#endif

int main(int argc, char **argv)
{
	bench_register("snapshot/turn", turn);
	bench_register("snapshot/empty_poll", empty_poll);
	bench_register("snapshot/publish", publish);
#ifdef BENCH_URCU
	bench_register("yardstick/urcu_qsbr/read_and_quiescent", urcu_read);
	bench_register("yardstick/urcu_qsbr/publish_no_readers", urcu_publish);
#endif
	return micro_main(argc, argv);
}
