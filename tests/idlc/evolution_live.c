/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: samples of an older version of a type arrive at a reader of the newer one and the reverse, over the
 * network, with Cyclone DDS on either side.
 * Method: two processes in a network namespace of their own (tests/interop starts them there), one writing, one
 * reading, one Apus, one Cyclone. Each pair of evolutions.py has a topic; both sides have the
 * type under one name and must find each other by asking for the types. The reader makes the same random
 * samples and compares by member id. Members only the reader has hold their defaults: those of the IDL where
 * Apus reads, zero where Cyclone does, which does not know @default.
 *
 * Usage: evolution-live apus|cyclone write older|newer    what it writes: once all have matched; then says so, and
 *                                                      stays until it is stopped
 *        evolution-live apus|cyclone read older|newer     what is written; prints
 *                                                      {"topics":N,"samples":N,"learnt":N,"failures":N}
 * A process knows one version of each type only, so that it must ask for the other.
 */
#include <apus/apus.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cyclone.h"
#include "versions.h"

#define TYPE_NAME   "w::evolving"
#define SAMPLES     3
#define ROOM        4096
#define TOPICS_MAX  128
#define GIVE_UP     DDS_SECS(40)
#define TAKE_PERIOD DDS_MSECS(20)

/* A pair in one direction. */
struct topic {
	char name[64];
	const struct version_pair *pair;
	const struct version *from, *to;
	bool refused; /* must not match */
	dds_topic_descriptor_t desc;
	dds_entity_t theirs;
	struct apus_writer *writer;
	struct apus_reader *reader;
	_Alignas(16) uint8_t samples[SAMPLES][ROOM];
	_Alignas(16) uint8_t arenas[SAMPLES][ROOM];
	unsigned int seen; /* a bit for each sample */
	unsigned int taken;
};

static struct topic topics[TOPICS_MAX];
static size_t topic_count;
static struct apus_participant *apus;
static dds_entity_t cyclone;
static unsigned int failures;
static bool writes, is_cyclone;

static void must(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "evolution-live: %s\n", what);
	exit(2);
}

static void fail(const struct topic *t, const char *what)
{
	failures++;
	fprintf(stderr, "%s: %s\n", t->name, what);
}

/* ---- topics ------------------------------------------------------------------------------------- */

static void add_topic(const struct version_pair *pair, const struct version *from,
		      const struct version *to)
{
	const bool newer = to == &pair->new, cyclone_reads = is_cyclone != writes;
	struct sample_random random = {.state = 2 * (uint64_t)(pair - version_pairs) + newer,
				       .bytes = ROOM};
	struct topic *t = &topics[topic_count];

	/* Interop: Cyclone DDS 0.10.2 aborts where it has to make up a struct. */
	if ((pair->flags & VERSIONS_MADE_UP) && newer && cyclone_reads)
		return;
	must(topic_count++ < TOPICS_MAX, "too many topics");
	snprintf(t->name, sizeof(t->name), "%s_as_%s", from->type->name + strlen("w::"),
		 newer ? "newer" : "older");
	t->pair = pair;
	t->from = from;
	t->to = to;
	t->refused = (pair->flags & VERSIONS_REFUSED) != 0; /* needed on either side */
	for (int n = 0; n < SAMPLES; n++) {
		random.arena = t->arenas[n];
		sample_fill(&random, from->type, t->samples[n]);
	}
}

static void add_topics(bool from_newer)
{
	for (size_t i = 0; i < version_pair_count; i++) {
		const struct version_pair *p = &version_pairs[i];

		if (from_newer)
			add_topic(p, &p->new, &p->old);
		else
			add_topic(p, &p->old, &p->new);
	}
}

/* ---- Apus --------------------------------------------------------------------------------------- */

static void open_apus(void)
{
	static const char *const settings[][2] = {{"limits.local_endpoints", "1024"},
						  {"worker.idle", "block"},
						  {"history.samples", "8"},
						  {"history.instances", "8"},
						  {"history.samples_per_instance", "8"}};
	struct apus_config *config = apus_config_create();
	char why[256] = "";

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		must(apus_config_set(config, settings[i][0], settings[i][1], why, sizeof(why)) == 0,
		     why);
	must(apus_participant_create(config, &apus, why, sizeof(why)) == 0, why);
	apus_config_destroy(config);
}

static void open_apus_endpoint(struct topic *t)
{
	struct apus_qos qos;
	struct apus_endpoint_options o = {.topic = t->name,
					  .type = writes ? t->from->type : t->to->type,
					  .type_name = TYPE_NAME,
					  .qos = &qos,
					  .value_bytes = writes ? 0 : ROOM};

	if (writes)
		apus_qos_writer_default(&qos);
	else
		apus_qos_reader_default(&qos);
	qos.reliability = APUS_RELIABLE;
	qos.history = APUS_KEEP_ALL;
	qos.max_samples = qos.max_instances = qos.max_samples_per_instance = 8;
	qos.max_sample_bytes = ROOM;
	qos.representations[0] = APUS_XCDR2;
	qos.representation_count = 1;
	must((writes ? apus_writer_create(apus, &o, &t->writer)
		     : apus_reader_create(apus, &o, &t->reader)) == 0,
	     t->name);
}

static void note(struct topic *t, const void *value, enum versions_added added)
{
	t->taken++;
	for (unsigned int n = 0; n < SAMPLES; n++)
		if (!(t->seen & 1U << n) &&
		    versions_same(t->from->type, t->samples[n], t->to->type, value, added)) {
			t->seen |= 1U << n;
			return;
		}
	fail(t, "another value, or another default");
}

static void take_apus(struct topic *t)
{
	static _Alignas(16) uint8_t value[ROOM];
	struct apus_sample_info info;
	int rc;

	while ((rc = apus_take_next(t->reader, value, &info, NULL)) != 0) {
		if (rc < 0)
			fail(t, apus_strerror(rc));
		else if (info.valid_data)
			note(t, value, VERSIONS_DEFAULTS);
	}
}

/* ---- Cyclone ------------------------------------------------------------------------------------ */

static void open_cyclone_endpoint(struct topic *t)
{
	const dds_topic_descriptor_t *desc = writes ? t->from->desc : t->to->desc;
	dds_qos_t *qos = dds_create_qos();
	dds_entity_t topic;

	dds_qset_reliability(qos, DDS_RELIABILITY_RELIABLE, DDS_SECS(10));
	dds_qset_history(qos, DDS_HISTORY_KEEP_ALL, 0);
	memcpy((void *)&t->desc, desc, sizeof(*desc)); /* it has constant members */
	t->desc.m_typename = TYPE_NAME;
	topic = dds_create_topic(cyclone, &t->desc, t->name, NULL, NULL);
	must(topic > 0, t->name);
	t->theirs = writes ? dds_create_writer(cyclone, topic, qos, NULL)
			   : dds_create_reader(cyclone, topic, qos, NULL);
	must(t->theirs > 0, t->name);
	dds_delete_qos(qos);
}

static void write_cyclone(struct topic *t, const void *sample)
{
	static uint8_t payload[ROOM];
	int bytes = apus_type_encode(t->from->type, sample, APUS_XCDR2, false, payload, ROOM);
	void *value;

	must(bytes > 0, t->name);
	value = cyclone_read(&t->desc, 2, payload + 4, (size_t)bytes - 4 - (payload[3] & 3));
	must(value != NULL, t->name);
	must(dds_write(t->theirs, value) == 0, t->name);
	dds_stream_free_sample(value, t->desc.m_ops);
	free(value);
}

/* What Cyclone's application gets, as Apus has it. */
static void note_cyclone(struct topic *t, const void *value)
{
	static _Alignas(16) uint8_t payload[ROOM], copy[ROOM], arena[ROOM];
	size_t bytes = cyclone_write(&t->desc, 2, value, payload + 4, ROOM - 4);

	memset(payload, 0, 4);
	payload[1] = t->to->type->extensibility == APUS_MUTABLE ? 0x0b : 0x09;
	if (apus_type_decode(t->to->type, payload, bytes + 4, false, copy, arena, ROOM) < 0)
		fail(t, "Cyclone has something that is no value");
	else
		note(t, copy, VERSIONS_ZERO);
}

static void take_cyclone(struct topic *t)
{
	dds_sample_info_t info;
	void *sample = NULL;
	int n;

	while ((n = dds_take(t->theirs, &sample, &info, 1, 1)) == 1) {
		if (info.valid_data)
			note_cyclone(t, sample);
		dds_return_loan(t->theirs, &sample, 1);
	}
	if (n < 0)
		fail(t, dds_strretcode(-n));
}

/* ---- both --------------------------------------------------------------------------------------- */

static uint32_t matched(const struct topic *t)
{
	dds_publication_matched_status_t p = {0};
	dds_subscription_matched_status_t s = {0};

	if (!is_cyclone)
		return writes ? apus_writer_matched(t->writer) : apus_reader_matched(t->reader);
	if (writes)
		dds_get_publication_matched_status(t->theirs, &p);
	else
		dds_get_subscription_matched_status(t->theirs, &s);
	return writes ? p.current_count : s.current_count;
}

struct remote {
	const char *topic;
	struct apus_guid guid;
	bool found;
};

static bool find(const struct apus_endpoint_info *e, void *user)
{
	struct remote *r = user;

	if (e->local || strcmp(e->topic, r->topic) != 0)
		return true;
	r->guid = e->guid;
	r->found = true;
	return false;
}

/* Says why there is no match, as far as this side knows. */
static void explain(const struct topic *t)
{
	struct remote r = {.topic = t->name};
	struct apus_guid own;
	char why[256] = "";
	int policy = 0;

	if (!is_cyclone)
		apus_visit_endpoints(apus, find, &r);
	if (r.found) {
		own = writes ? apus_writer_guid(t->writer) : apus_reader_guid(t->reader);
		policy = apus_pair_mismatch(apus, writes ? &own : &r.guid, writes ? &r.guid : &own,
					    why, sizeof(why));
	}
	failures++;
	fprintf(stderr, "%s: no match: %u, %s, %d %s\n", t->name, matched(t),
		r.found ? "found" : "not found", policy, why);
}

static void note_learnt(const struct apus_stat *stat, void *user)
{
	if (strcmp(stat->name, "types.learnt") == 0)
		*(uint64_t *)user = stat->value;
}

static void await_matches(void)
{
	const dds_time_t end = dds_time() + GIVE_UP;
	size_t missing;

	do {
		dds_sleepfor(TAKE_PERIOD);
		missing = 0;
		for (size_t i = 0; i < topic_count; i++)
			missing += !topics[i].refused && matched(&topics[i]) != 1;
	} while (missing && dds_time() < end);
	for (size_t i = 0; i < topic_count; i++) {
		if (!topics[i].refused && matched(&topics[i]) != 1)
			explain(&topics[i]);
		if (topics[i].refused && matched(&topics[i]) != 0)
			fail(&topics[i], "a match");
	}
}

static void write_all(void)
{
	await_matches();
	dds_sleepfor(DDS_SECS(1)); /* the other side may learn of the match later */
	for (size_t i = 0; i < topic_count; i++) {
		struct topic *t = &topics[i];

		for (int n = 0; n < SAMPLES; n++) {
			if (is_cyclone)
				write_cyclone(t, t->samples[n]);
			else
				must(apus_write(t->writer, t->samples[n]) == 0, t->name);
		}
	}
	printf("{\"event\":\"written\",\"topics\":%zu,\"failures\":%u}\n", topic_count, failures);
	fflush(stdout);
	dds_sleepfor(GIVE_UP);
}

static void read_all(void)
{
	const dds_time_t end = dds_time() + GIVE_UP;
	unsigned int samples = 0;
	uint64_t learnt = 0;
	size_t missing;

	do {
		dds_sleepfor(TAKE_PERIOD);
		missing = 0;
		for (size_t i = 0; i < topic_count; i++) {
			if (is_cyclone)
				take_cyclone(&topics[i]);
			else
				take_apus(&topics[i]);
			missing += !topics[i].refused && topics[i].taken < SAMPLES;
		}
	} while (missing && dds_time() < end);
	for (size_t i = 0; i < topic_count; i++) {
		const struct topic *t = &topics[i];

		samples += t->taken;
		if (!t->refused && matched(t) != 1)
			explain(t);
		if (t->taken != (t->refused ? 0 : SAMPLES))
			fail(t, t->refused ? "samples of a type it must not understand"
					   : "samples are missing");
	}
	if (apus)
		apus_visit_stats(apus, note_learnt, &learnt);
	printf("{\"topics\":%zu,\"samples\":%u,\"learnt\":%llu,\"failures\":%u}\n", topic_count,
	       samples, (unsigned long long)learnt, failures);
}

int main(int argc, char **argv)
{
	must(argc == 4, "apus or cyclone, write or read, older or newer?");
	is_cyclone = strcmp(argv[1], "cyclone") == 0;
	writes = strcmp(argv[2], "write") == 0;
	add_topics(strcmp(argv[3], "newer") == 0);
	if (is_cyclone) {
		cyclone = dds_create_participant(0, NULL, NULL);
		must(cyclone > 0, "cannot create a Cyclone participant");
	} else {
		open_apus();
	}
	for (size_t i = 0; i < topic_count; i++) {
		if (is_cyclone)
			open_cyclone_endpoint(&topics[i]);
		else
			open_apus_endpoint(&topics[i]);
	}
	if (writes)
		write_all();
	else
		read_all();
	if (apus) {
		apus_participant_destroy(apus);
	} else {
		dds_delete(cyclone);
	}
	return failures ? 1 : 0;
}
