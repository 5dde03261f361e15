/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Apus in the benchmark of routes, by its public API.
 *
 * Routes: "shm" (two processes, shared memory), "process" (two threads, one participant), "udp" (loopback). Polling:
 * the benchmark's loop drives the worker, as an application that owns its thread would; within one process each
 * thread has a worker of its own. Spawned: as applications have it by default. With settings given, those say which
 * interface and transport "udp" takes.
 */
#include "common.h"
#include "peer.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BURST       64
#define POLL_EVERY  16 /* takes, which look at shared memory themselves, to one poll of the worker */
#define LOANS       4
#define BATCH_BYTES 16384
#define HEAD_BYTES  4 /* of a payload: the encapsulation */

struct endpoint {
	struct peer_options options;
	struct sized_type type;
	struct apus_writer *writer;
	struct apus_reader *reader;
	uint32_t worker_idx;
	uint32_t takes;
	bool is_shm;
};

static struct apus_participant *participant;
static pthread_mutex_t joining = PTHREAD_MUTEX_INITIALIZER;

static bool is_route(const struct peer_options *o, const char *route)
{
	return strcmp(o->route ? o->route : "shm", route) == 0;
}

static void join(const struct peer_options *o)
{
	const char *settings[32];
	uint32_t n = 0;
	char directory[64];

	/* Of one process there are two sides, each in a thread. */
	pthread_mutex_lock(&joining);
	if (participant)
		goto joined;
	snprintf(directory, sizeof(directory), "shm.directory=/tmp/apus-bench-%u",
		 (unsigned)geteuid());
	settings[n++] = is_route(o, "shm") ? "shm=on" : "shm=off";
	settings[n++] = directory;
	settings[n++] = is_route(o, "process") ? "worker.count=2" : "worker.count=1";
	if (o->spawned)
		settings[n++] = "worker.mode=spawned";
	for (uint32_t i = 0; o->settings && o->settings[i]; i++)
		settings[n++] = o->settings[i];
	settings[n] = NULL;
	participant = open_participant(o->domain, o->settings ? NULL : "auto", settings);
joined:
	pthread_mutex_unlock(&joining);
}

static void set_qos(const struct peer_options *o, struct apus_qos *q)
{
	if (o->writer)
		apus_qos_writer_default(q);
	else
		apus_qos_reader_default(q);
	q->reliability = o->reliable ? APUS_RELIABLE : APUS_BEST_EFFORT;
	if (o->spawned)
		return;
	q->history = APUS_KEEP_ALL;
	q->max_samples = q->max_samples_per_instance = o->history;
	q->max_sample_bytes = o->bytes + 2 * HEAD_BYTES;
	q->max_blocking_ns = NS_PER_SEC;
	if (o->writer && o->batch && is_route(o, "udp")) {
		q->batch_bytes = BATCH_BYTES;
		q->batch_delay_ns = NS_PER_MS;
	}
}

static void *apus_open(const struct peer_options *o)
{
	struct endpoint *e = calloc(1, sizeof(*e));
	char topic[64];
	struct apus_qos qos;
	struct apus_endpoint_options options = {.topic = topic, .qos = &qos};
	int rc;

	if (!e)
		return NULL;
	join(o);
	e->options = *o;
	e->worker_idx = is_route(o, "process") ? o->side : 0;
	e->is_shm = is_route(o, "shm");
	sized_type_init(&e->type, o->bytes);
	snprintf(topic, sizeof(topic), "bench_%s_%u_%d_%d", o->topic ? o->topic : "peer", o->bytes,
		 o->reliable, o->batch);
	set_qos(o, &qos);
	options.type = &e->type.type;
	options.worker_idx = e->worker_idx;
	options.loans = o->writer && !o->spawned ? LOANS : 0;
	rc = o->writer ? apus_writer_create(participant, &options, &e->writer)
		       : apus_reader_create(participant, &options, &e->reader);
	if (rc != 0)
		fprintf(stderr, "routes: %s\n", apus_strerror(rc));
	return rc == 0 ? e : NULL;
}

static uint32_t apus_matched(void *endpoint)
{
	struct endpoint *e = endpoint;

	return e->writer ? apus_writer_matched(e->writer) : apus_reader_matched(e->reader);
}

static bool apus_write_one(void *endpoint, const void *sample)
{
	return apus_write(((struct endpoint *)endpoint)->writer, sample) == 0;
}

static uint32_t apus_write_some(void *endpoint, const void *samples, uint32_t count)
{
	int n = apus_write_many(((struct endpoint *)endpoint)->writer, samples, count);

	return n > 0 ? (uint32_t)n : 0;
}

static void *apus_lend(void *endpoint)
{
	void *sample;

	return apus_loan(((struct endpoint *)endpoint)->writer, &sample) == 0 ? sample : NULL;
}

static bool apus_write_lent(void *endpoint, void *loan)
{
	return apus_write_loaned(((struct endpoint *)endpoint)->writer, loan) == 0;
}

static uint32_t apus_poll(void *endpoint)
{
	struct endpoint *e = endpoint;
	struct apus_sample samples[BURST];
	int n;

	if (e->options.spawned)
		return 0;
	if (!e->is_shm || !e->reader || ++e->takes % POLL_EVERY == 0)
		(void)apus_worker_poll(participant, e->worker_idx);
	if (!e->reader)
		return 0;
	n = apus_take(e->reader, samples, e->options.batch || e->options.settings ? BURST : 1,
		      NULL);
	for (int i = 0; i < n; i++)
		if (samples[i].payload_bytes >= e->options.bytes + HEAD_BYTES)
			e->options.on_sample(e->options.user,
					     (const uint8_t *)samples[i].payload + HEAD_BYTES);
	if (n > 0)
		apus_return(e->reader, samples, (uint32_t)n);
	return n > 0 ? (uint32_t)n : 0;
}

static void apus_drain(void *endpoint)
{
	struct endpoint *e = endpoint;

	(void)apus_writer_flush(e->writer);
	if (e->options.reliable)
		(void)apus_writer_wait_acked(e->writer, 2 * NS_PER_SEC);
}

static void apus_leave(void)
{
	apus_participant_destroy(participant);
	participant = NULL;
}

static const char *const routes[] = {"shm", "process", "udp", NULL};

static const struct peer apus = {.name = "apus",
				 .batches = true,
				 .open = apus_open,
				 .matched = apus_matched,
				 .write = apus_write_one,
				 .drain = apus_drain,
				 .routes = routes,
				 .version = apus_version,
				 .poll = apus_poll,
				 .write_many = apus_write_some,
				 .loan = apus_lend,
				 .publish = apus_write_lent,
				 .leave = apus_leave};
const struct peer *const peer_apus = &apus;
