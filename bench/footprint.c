/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a reader and a writer by what is declared: bytes of the heap and of mapped pools, per matched peer,
 * per instance and per sample, from differences of two sizes each. Prints one line a figure; docs/limits.md
 * quotes them.
 */
#include "base/fresh.h"
#include "tests/dataplane/wire_pair.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

enum what { MATCHES, INSTANCES, SAMPLES };

struct sizes {
	uint32_t matches, instances, samples;
};

static struct wire_pair pair;

static uint64_t in_use(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd + apus_fresh_mapped();
}

static uint64_t reader_bytes(const struct sizes *z)
{
	struct apus_dp_reader_config c = {
		.guid = apus_guid_make(&pair.b.prefix, (struct apus_eid){0x207}),
		.reliable = true,
		.type = &apus_shape_type,
		.payload_bytes_max = 256,
		.match_max = z->matches,
		.held_max = 64,
		.assembly_max = 4,
		.inbox = {.lifespan_ns = APUS_INFINITE_NS,
			  .history = {.depth = 1,
				      .max_samples = z->samples,
				      .max_samples_per_instance = z->samples,
				      .max_loans = z->samples,
				      .deadline_ns = APUS_INFINITE_NS,
				      .instances = {.capacity = z->instances}}}};
	uint64_t before = in_use(), bytes;
	struct apus_dp_reader *r;

	if (apus_dp_reader_create(pair.b.worker, &c, &r) != 0)
		abort();
	bytes = in_use() - before + (uint64_t)r->pool.slot_bytes * r->pool.slot_count;
	apus_dp_reader_destroy(r);
	return bytes;
}

static uint64_t writer_bytes(const struct sizes *z)
{
	struct apus_dp_writer_config c = {
		.guid = apus_guid_make(&pair.a.prefix, (struct apus_eid){0x102}),
		.reliable = true,
		.match_max = z->matches,
		.cache = {.max_samples = z->samples,
			  .max_instances = z->instances,
			  .max_samples_per_instance = z->samples,
			  .payload_bytes_max = 256,
			  .key_bytes_max = 133}};
	uint64_t before = in_use(), bytes;
	struct apus_dp_writer *w;

	if (apus_dp_writer_create(pair.a.worker, &c, &w) != 0)
		abort();
	bytes = in_use() - before + (uint64_t)w->cache.pool.slot_bytes * w->cache.pool.slot_count;
	apus_dp_writer_destroy(w);
	return bytes;
}

static void report(const char *name, uint64_t (*bytes)(const struct sizes *), enum what what)
{
	static const char *const words[] = {"matched peer", "instance", "sample"};
	struct sizes small = {128, 128, 128}, large = small;

	*(what == MATCHES     ? &large.matches
	  : what == INSTANCES ? &large.instances
			      : &large.samples) = 8192;
	printf("%s: %llu bytes per %s\n", name,
	       (unsigned long long)((bytes(&large) - bytes(&small)) / (8192 - 128)), words[what]);
}

int main(void)
{
	wire_pair_init(&pair, 1);
	for (enum what what = MATCHES; what <= SAMPLES; what++) {
		report("reader", reader_bytes, what);
		report("writer", writer_bytes, what);
	}
	wire_pair_fini(&pair);
	return 0;
}
