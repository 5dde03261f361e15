/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each policy adds to admission: one sample admitted into KEEP_LAST 1 of one instance, with none of the
 * policies of time and ownership, with each alone, and with all. Subtract the first from the others. Besides:
 * what a look at the liveliness of 1,000 writers costs (items are writers).
 */
#include "bench/micro/context.h"
#include "dataplane/admit.h"

#include <stdlib.h>
#include <string.h>

#define WRITERS 1000

enum {
	OWNERSHIP = 1,
	SEPARATION = 2,
	LIFESPAN = 4,
	DEADLINE = 8,
	LEASE = 16,
	ALL = 31,
};

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

static bool open_fixture(struct fixture *f, int policies, uint32_t writers)
{
	struct apus_dp_inbox_options o = {
		.exclusive = policies & OWNERSHIP,
		.separation_ns = policies & SEPARATION ? 10 : 0,
		.lifespan_ns = APUS_INFINITE_NS,
		.hold = hold,
		.history = {.depth = 1,
			    .max_samples = 16,
			    .max_samples_per_instance = 1,
			    .max_loans = 4,
			    .deadline_ns = policies & DEADLINE ? APUS_NS_PER_SEC : APUS_INFINITE_NS,
			    .release = release,
			    .instances = {.capacity = 16,
					  .key_bytes_max = 4,
					  .match_count_max = writers,
					  .seed = 1}}};
	size_t bytes = apus_dp_inbox_bytes(&o);

	memset(f, 0, sizeof(*f));
	f->now.ns = APUS_NS_PER_SEC;
	f->memory = bytes ? aligned_alloc(16, (bytes + 15) & ~(size_t)15) : NULL;
	if (!f->memory || apus_dp_inbox_init(&f->inbox, &o, f->memory) != 0)
		return false;
	for (uint32_t i = 0; i < writers; i++) {
		struct apus_guid guid = {{(uint8_t)(i >> 8), (uint8_t)i, 1}};

		apus_dp_inbox_match(&f->inbox, i, &guid, 0,
				    policies & LEASE ? APUS_NS_PER_SEC : APUS_INFINITE_NS,
				    policies & LIFESPAN ? APUS_NS_PER_SEC : APUS_INFINITE_NS,
				    f->now);
	}
	return true;
}

static void admit(struct bench_state *s)
{
	static const uint8_t payload[64], key[4] = {1, 2, 3, 4};
	struct apus_dp_admission out;
	struct fixture f;

	if (!open_fixture(&f, (int)bench_range(s, 0), 4))
		abort();
	while (bench_keep_running_batch(s, 1000))
		for (int i = 0; i < 1000; i++) {
			struct apus_dp_arrival a = {.seq = ++f.seq,
						    .reliable = true,
						    .has_data = true,
						    .source_time = {1700000000},
						    .wall_now = {1700000000},
						    .payload = payload,
						    .payload_bytes = sizeof(payload),
						    .key = key,
						    .key_bytes = sizeof(key)};

			f.now.ns += 100;
			bench_use(apus_dp_admit(&f.inbox, &a, f.now, &out));
		}
	bench_items(s, bench_iterations(s));
	apus_dp_inbox_fini(&f.inbox);
	free(f.memory);
}

static void look(struct bench_state *s)
{
	struct apus_dp_liveliness_cursor cursor = {0, 0};
	struct apus_dp_liveliness l;
	struct fixture f;

	if (!open_fixture(&f, LEASE, WRITERS))
		abort();
	while (bench_keep_running_batch(s, 10))
		for (int i = 0; i < 10; i++) {
			f.now.ns += 1;
			bench_use(apus_dp_peers_observe(&f.inbox.peers, &cursor, f.now, &l));
		}
	bench_items(s, bench_iterations(s) * WRITERS);
	apus_dp_inbox_fini(&f.inbox);
	free(f.memory);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int64_t policies;
	} runs[] = {{"admit/none", 0},
		    {"admit/ownership", OWNERSHIP},
		    {"admit/separation", SEPARATION},
		    {"admit/lifespan", LIFESPAN},
		    {"admit/deadline", DEADLINE},
		    {"admit/lease", LEASE},
		    {"admit/all", ALL}};

	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)
		bench_args(bench_register(runs[i].name, admit), &runs[i].policies, 1);
	bench_register("liveliness/1000-writers", look);
	return micro_main(argc, argv);
}
