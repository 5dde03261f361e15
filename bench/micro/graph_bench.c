/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an endpoint costs the discovery graph when so many are known already: admission, with one match each,
 * and removal. The argument is the number known; the cost must not depend on it. Their topics are all
 * different, so what is measured is tables, not matching.
 */
#include "bench/micro/context.h"
#include "control/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <malloc.h>
#include <time.h>

/* Endpoints of one timed pass. */
#define PASS 1000u
/* Timed passes. */
#define PASSES 30u

/* As a record comes from the decoder: what is in use of it, not its largest extent, is in the caches. */
static struct apus_wire_endpoint_record *records[PASS];

static struct apus_prefix prefix_of(uint32_t n)
{
	struct apus_prefix p = {{1, 0xee, 'b', 'e'}};

	memcpy(p.bytes + 8, &n, sizeof(n));
	return p;
}

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void make(struct apus_wire_endpoint_record *out, uint32_t participant, uint32_t key,
		 bool writer)
{
	struct apus_prefix prefix = prefix_of(participant);
	char topic[32];
	struct apus_qos qos;
	struct apus_wire_endpoint_source source = {
		.guid = apus_guid_make(&prefix, (struct apus_eid){key << 8 | (writer ? 2 : 7)}),
		.is_writer = writer,
		.topic = topic,
		.type = "T",
		.qos = &qos};

	snprintf(topic, sizeof(topic), "Topic%u", key);
	if (writer)
		apus_qos_writer_default(&qos);
	else
		apus_qos_reader_default(&qos);
	memset(out, 0, sizeof(*out));
	must(apus_wire_endpoint_record_make(&source, out) == 0);
}

/* A graph with PASS local writers, and `known` remote readers of other topics. */
static struct apus_ctl_graph *fill(uint32_t known)
{
	struct apus_wire_participant_record r = {.prefix = prefix_of(0)};
	struct apus_ctl_graph_config c = {.prefix = r.prefix,
					  .participants = 4,
					  .local_endpoints = PASS,
					  .remote_writers = 16,
					  .remote_readers = known + PASS,
					  .record_bytes = 512u << 20,
					  .matches = 2 * PASS,
					  .matches_per_endpoint = 4,
					  .hash_seed = 1};
	static struct apus_wire_endpoint_record scratch;
	const struct apus_ctl_local local = {.owner = NULL};
	struct apus_ctl_graph *g;

	must(apus_ctl_graph_create(&c, &r, &g) == 0);
	r.prefix = prefix_of(1);
	must(apus_ctl_graph_add_participant(g, &r, true, NULL) > 0);
	for (uint32_t i = 0; i < PASS; i++) {
		make(&scratch, 0, i + 1, true);
		must(apus_ctl_graph_add_endpoint(g, &scratch, &local, 1, NULL) > 0);
		make(&scratch, 1, i + 1, false);
		records[i] = malloc(apus_wire_endpoint_record_bytes(&scratch));
		must(records[i] != NULL);
		memcpy(records[i], &scratch, apus_wire_endpoint_record_bytes(&scratch));
	}
	for (uint32_t i = 0; i < known; i++) {
		make(&scratch, 1, PASS + 1 + i, false);
		must(apus_ctl_graph_add_endpoint(g, &scratch, NULL, 1, NULL) > 0);
	}
	return g;
}

static void take_dirty(struct apus_ctl_graph *g)
{
	uint32_t dirty;

	while (apus_ctl_graph_take_dirty(g, &dirty))
		;
}

/* CPU time of this thread: on a shared machine it leaves out the time of others. */
static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* One pass: PASS admissions, then as many removals; the time of one kind is reported, and the median of all
 * passes beside the mean. */
static void pass(struct bench_state *s, bool insert)
{
	static struct apus_wire_endpoint_record whole; /* those kept for the pass are compact */
	double times[PASSES];
	struct apus_ctl_graph *g;
	size_t n = 0;

	g = fill((uint32_t)bench_range(s, 0));
	while (bench_keep_running(s)) {
		double begun = cpu_seconds(), added;

		for (uint32_t i = 0; i < PASS; i++) {
			memcpy(&whole, records[i], apus_wire_endpoint_record_bytes(records[i]));
			must(apus_ctl_graph_add_endpoint(g, &whole, NULL, 1, NULL) > 0);
		}
		added = cpu_seconds() - begun;
		must(apus_ctl_graph_match_count(g) == PASS);
		take_dirty(g);
		begun = cpu_seconds();
		for (uint32_t i = 0; i < PASS; i++)
			must(apus_ctl_graph_remove_endpoint(g, &records[i]->guid) == 0);
		times[n] = (insert ? added : cpu_seconds() - begun) / PASS;
		bench_iteration_time(s, times[n++]);
		take_dirty(g);
	}
	qsort(times, n, sizeof(times[0]), by_value);
	bench_counter(s, "median_ns", times[n / 2] * 1e9, 0);
	apus_ctl_graph_destroy(g);
	for (uint32_t i = 0; i < PASS; i++)
		free(records[i]);
}

static void insert(struct bench_state *s)
{
	pass(s, true);
}

static void remove_one(struct bench_state *s)
{
	pass(s, false);
}

static void add(const char *name, void (*run)(struct bench_state *))
{
	static const int64_t sizes[] = {1000, 10000, 100000};
	struct bench *b = bench_register(name, run);

	for (size_t i = 0; i < 3; i++)
		bench_args(b, &sizes[i], 1);
	bench_manual_time(b);
	bench_set_iterations(
		b,
		PASSES); /* the time of a turn is that of one endpoint: left alone it makes millions */
}

int main(int argc, char **argv)
{
	/* Among 100,000 endpoints that come and go the freed memory of records stays with the process. Here all
	 * would be at the end of the heap, and go back to the kernel with every pass. */
	mallopt(M_TRIM_THRESHOLD, 64 << 20);
	add("graph/insert", insert);
	add("graph/remove", remove_one);
	return micro_main(argc, argv);
}
