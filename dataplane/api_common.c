/* SPDX-License-Identifier: Apache-2.0 */
/* What the public data calls of writers and readers share: waiting and the fork guard. */
#include "dataplane/entity.h"

#include <pthread.h>
#include <time.h>

/* How long a waiting call sleeps between two looks: well below what a person or a lease notices, long
 * enough to burn no core. */
#define NAP_NS (100 * APUS_NS_PER_US)

/* Polls of a driven worker that find nothing, before the caller sleeps. */
#define POLLS_BEFORE_NAP 64

uint32_t apus_dp_fork_count;

static void in_child(void)
{
	/* The child has one thread now, so a plain increment is enough. */
	apus_dp_fork_count++;
}

static void install(void)
{
	pthread_atfork(NULL, NULL, in_child);
}

void apus_dp_fork_guard(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, install);
}

void apus_dp_pass_time(struct apus_dp_worker *worker)
{
	apus_dp_pass_time_until(worker, (struct apus_mono){INT64_MAX});
}

void apus_dp_pass_time_until(struct apus_dp_worker *worker, struct apus_mono until)
{
	struct timespec nap = {0, NAP_NS};
	int64_t left;
	int work = 0;

	/* What is waited for is often under way: an answer takes some 20 us, a nap three times its length. */
	for (int i = 0; i < POLLS_BEFORE_NAP && work == 0 && !worker->spawned; i++) {
		if (!apus_dp_worker_try_turn(worker))
			break;
		work = apus_dp_worker_poll(worker, apus_mono_now());
		apus_dp_worker_end_turn(worker);
	}
	if (work)
		return;
	left = until.ns - apus_mono_now().ns;
	if (left < NAP_NS)
		nap.tv_nsec = left;
	if (left > 0)
		nanosleep(&nap, NULL);
}
