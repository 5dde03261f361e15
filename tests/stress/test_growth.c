/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: what comes and goes leaves nothing behind. Endpoints made and deleted by the thousand, and crowds of
 * participants beyond the declared limits, cost neither descriptors nor growing memory; limits hold and what
 * is refused is counted.
 * Method: resident memory and open descriptors of this process after a warm-up and at the end. The crowd is
 * forged: SPDP and SEDP datagrams sent to the metatraffic port of a participant on 127.0.0.1, in the name of
 * participants whose locators lead to a socket of the test. Resident memory is not compared under sanitizers,
 * which keep freed memory.
 */
#include "stress_util.h"

#include "control/domain.h"
#include "wire/message.h"
#include "wire/record.h"

#include <arpa/inet.h>
#include <dirent.h>

#define PAIRS        1000
#define WARM_UP      100
#define GROWTH_BYTES ((int64_t)8 << 20)
#define CROWD        200
#define ROUNDS       5
#define PEOPLE       50 /* limits.participants */
#define WRITERS      40 /* limits.remote_writers */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* ---- what this process holds ------------------------------------------------------------------------------ */

static int64_t resident_bytes(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	long long size, resident = 0;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lld %lld", &size, &resident), 2);
	fclose(f);
	return resident * sysconf(_SC_PAGESIZE);
}

static int open_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void check_growth(const char *what, int64_t before)
{
	int64_t growth = resident_bytes() - before;

	print_message("%s: %.1f MiB resident, %+.2f MiB since the warm-up\n", what,
		      (double)resident_bytes() / (1 << 20), (double)growth / (1 << 20));
	if (!SANITIZED)
		assert_true(growth < GROWTH_BYTES);
}

static uint64_t wanted_value;
static const char *wanted_name;

static void pick(const struct apus_stat *stat, void *user)
{
	(void)user;
	if (strcmp(stat->name, wanted_name) == 0)
		wanted_value = stat->value;
}

static uint64_t counter(struct apus_participant *p, const char *name)
{
	wanted_name = name;
	wanted_value = UINT64_MAX;
	apus_visit_stats(p, pick, NULL);
	assert_true(wanted_value != UINT64_MAX);
	return wanted_value;
}

/* ---- endpoints that come and go --------------------------------------------------------------------------- */

static void one_pair(struct apus_participant *p, uint32_t i)
{
	struct apus_qos wq, rq;
	struct apus_endpoint_options o = {.type = &apus_shape_type};
	struct apus_shape shape = {.color = "RED", .x = (int32_t)i};
	struct apus_sample s[4];
	struct apus_writer *w;
	struct apus_reader *r;
	char topic[32];
	int n;

	snprintf(topic, sizeof(topic), "topic%u", i % 7 ? i : 0);
	o.topic = topic;
	stress_qos(true, &wq);
	stress_qos(false, &rq);
	o.qos = &wq;
	assert_int_equal(apus_writer_create(p, &o, &w), 0);
	o.qos = &rq;
	o.filter_expression = i % 2 ? "x >= 0" : NULL;
	assert_int_equal(apus_reader_create(p, &o, &r), 0);
	assert_int_equal(apus_writer_wait_matched(w, 1, 30 * SEC), 0);
	assert_int_equal(apus_write(w, &shape), 0);
	n = apus_take(r, s, 4, NULL);
	assert_int_equal(n, 1);
	apus_reader_fd(r);
	if (i % 3)
		apus_return(r, s, 1); /* else it is lent when the reader goes */
	apus_writer_destroy(w);
	apus_reader_destroy(r);
}

static void test_endpoints(void **state)
{
	struct apus_participant *p = stress_participant("110", NULL);
	struct apus_participant *peer = stress_participant("110", NULL); /* hears of all of them */
	int64_t before;
	int descriptors;

	(void)state;
	stress_check();
	for (uint32_t i = 0; i < WARM_UP; i++)
		one_pair(p, i);
	before = resident_bytes();
	descriptors = open_descriptors();
	for (uint32_t i = WARM_UP; i < PAIRS; i++)
		one_pair(p, i);
	/* Sockets for who is sent to often may yet come: four a queue, of two participants with two each. */
	assert_true(open_descriptors() <= descriptors + 4 * 4);
	check_growth("endpoints", before);
	apus_participant_destroy(p);
	apus_participant_destroy(peer);
}

/* ---- a crowd ---------------------------------------------------------------------------------------------- */

struct crowd {
	struct apus_participant *target;
	int socket;
	uint16_t port; /* of the socket */
	struct sockaddr_in to;
};

static struct apus_prefix prefix_of(uint32_t round, uint32_t i)
{
	struct apus_prefix prefix = {
		.bytes = {0x01, 0x10, 'c', 'r', 'o', 'w', 'd', (uint8_t)round}};

	prefix.bytes[8] = (uint8_t)(i >> 8);
	prefix.bytes[9] = (uint8_t)i;
	return prefix;
}

static void open_crowd(struct crowd *c, struct apus_participant *target)
{
	socklen_t length = sizeof(c->to);

	c->target = target;
	c->socket = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_true(c->socket >= 0);
	c->to = (struct sockaddr_in){.sin_family = AF_INET,
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	assert_int_equal(bind(c->socket, (struct sockaddr *)&c->to, sizeof(c->to)), 0);
	assert_int_equal(getsockname(c->socket, (struct sockaddr *)&c->to, &length), 0);
	c->port = ntohs(c->to.sin_port);
	c->to.sin_port = htons(target->control->config.queue->unicast_port);
}

static void send_data(struct crowd *c, const struct apus_prefix *from,
		      const struct apus_wire_data_out *data)
{
	uint8_t bytes[4096];
	struct apus_wire_builder b;

	assert_int_equal(apus_wire_begin(&b, bytes, sizeof(bytes), from), 0);
	assert_int_equal(apus_wire_data(&b, data), 0);
	assert_int_equal(
		sendto(c->socket, bytes, b.length, 0, (struct sockaddr *)&c->to, sizeof(c->to)),
		b.length);
}

static void locator_of(const struct crowd *c, struct apus_wire_locators *out)
{
	static const uint8_t loopback[4] = {127, 0, 0, 1};

	out->count = 1;
	out->at[0] = (struct apus_locator){.kind = APUS_LOCATOR_UDPV4, .port = c->port};
	memcpy(out->at[0].address + 12, loopback, 4);
}

static void announce(struct crowd *c, const struct apus_prefix *prefix)
{
	struct apus_wire_participant_record r = {.prefix = *prefix,
						 .version_major = 2,
						 .version_minor = 3,
						 .vendor = 0x0110,
						 .has_domain = true,
						 .domain = c->target->config.domain,
						 .builtin_endpoints = APUS_WIRE_BUILTIN_ALL,
						 .lease_ns = 100 * SEC,
						 .name = "one of many"};
	uint8_t payload[1024];
	struct apus_wire_data_out data = {
		.writer = {APUS_CTL_EID_SPDP_WRITER}, .seq = 1, .payload = payload};
	int n;

	locator_of(c, &r.metatraffic_unicast);
	locator_of(c, &r.default_unicast);
	n = apus_wire_participant_encode(&r, payload, sizeof(payload));
	assert_true(n > 0);
	data.payload_bytes = (uint32_t)n;
	send_data(c, prefix, &data);
}

static void publish_writer(struct crowd *c, const struct apus_prefix *prefix)
{
	static struct apus_wire_endpoint_record record;
	struct apus_qos qos;
	struct apus_wire_endpoint_source source = {
		.guid = apus_guid_make(prefix, (struct apus_eid){0x00000102}),
		.is_writer = true,
		.topic = "Crowd",
		.type = "ShapeType",
		.qos = &qos};
	uint8_t payload[2048];
	struct apus_wire_data_out data = {.reader = {APUS_CTL_EID_PUBLICATIONS_READER},
					  .writer = {APUS_CTL_EID_PUBLICATIONS_WRITER},
					  .seq = 1,
					  .payload = payload};
	int n;

	apus_qos_writer_default(&qos);
	assert_int_equal(apus_wire_endpoint_record_make(&source, &record), 0);
	n = apus_wire_endpoint_encode(&record, payload, sizeof(payload));
	assert_true(n > 0);
	data.payload_bytes = (uint32_t)n;
	send_data(c, prefix, &data);
}

static void depart(struct crowd *c, const struct apus_prefix *prefix)
{
	struct apus_guid guid = apus_guid_make(prefix, (struct apus_eid){APUS_CTL_EID_PARTICIPANT});
	uint8_t payload[64];
	struct apus_wire_data_out data = {
		.writer = {APUS_CTL_EID_SPDP_WRITER},
		.seq = 2,
		.payload = payload,
		.key_only = true,
		.qos = {.key_hash = guid.bytes,
			.status_info = APUS_WIRE_STATUS_DISPOSED | APUS_WIRE_STATUS_UNREGISTERED}};
	int n = apus_wire_participant_key_encode(&guid, payload, sizeof(payload));

	assert_true(n > 0);
	data.payload_bytes = (uint32_t)n;
	send_data(c, prefix, &data);
}

/* What the target answers is read and forgotten, so that the socket does not fill up. */
static void drain(struct crowd *c)
{
	uint8_t bytes[65536];

	while (recv(c->socket, bytes, sizeof(bytes), 0) > 0)
		;
}

static bool count_remote(const struct apus_participant_info *info, void *user)
{
	*(uint32_t *)user += !info->local;
	return true;
}

static bool count_remote_writer(const struct apus_endpoint_info *info, void *user)
{
	*(uint32_t *)user += !info->local && info->is_writer;
	return true;
}

static uint32_t known(struct apus_participant *p)
{
	uint32_t n = 0;

	assert_true(apus_visit_participants(p, count_remote, &n) >= 0);
	return n;
}

static uint32_t known_writers(struct apus_participant *p)
{
	uint32_t n = 0;

	assert_true(apus_visit_endpoints(p, count_remote_writer, &n) >= 0);
	return n;
}

/* Until the target has read `count` more submessages since `before`. */
static void await_heard(struct crowd *c, uint64_t before, uint32_t count)
{
	for (int i = 0; counter(c->target, "rx.submessages") < before + count; i++) {
		assert_true(i < 60000);
		drain(c);
		stress_sleep(MSEC);
	}
}

/* Calls one of the senders above for the whole crowd, in portions a socket buffer holds. */
static void everybody(struct crowd *c, uint32_t round,
		      void (*send)(struct crowd *, const struct apus_prefix *))
{
	for (uint32_t i = 0; i < CROWD; i += 20) {
		uint64_t before = counter(c->target, "rx.submessages");

		for (uint32_t k = i; k < i + 20; k++) {
			struct apus_prefix prefix = prefix_of(round, k);

			send(c, &prefix);
		}
		await_heard(c, before, 20);
	}
}

static void one_round(struct crowd *c, struct apus_reader *reader, uint32_t round)
{
	everybody(c, round, announce);
	assert_int_equal(known(c->target), PEOPLE);
	assert_int_equal(counter(c->target, "discovery.refused.participants"),
			 (round + 1) * (CROWD - PEOPLE));
	everybody(c, round, publish_writer);
	assert_int_equal(known_writers(c->target), WRITERS);
	assert_int_equal(counter(c->target, "discovery.refused.writers"),
			 (round + 1) * (PEOPLE - WRITERS));
	/* None of them has answered at the address it names: heard of, but no match yet. */
	assert_int_equal(apus_reader_matched(reader), 0);
	everybody(c, round, depart);
	assert_int_equal(known(c->target), 0);
	assert_int_equal(known_writers(c->target), 0);
}

static void test_crowd(void **state)
{
	static const char *const settings[] = {"limits.participants", "50", "limits.remote_writers",
					       "40", NULL};
	struct apus_participant *p = stress_participant("111", settings);
	struct apus_endpoint_options o = {.topic = "Crowd", .type = &apus_shape_type};
	struct apus_reader *reader;
	struct crowd crowd;
	int64_t before;
	int descriptors;

	(void)state;
	stress_check();
	assert_int_equal(apus_reader_create(p, &o, &reader), 0);
	open_crowd(&crowd, p);
	one_round(&crowd, reader, 0);
	before = resident_bytes();
	descriptors = open_descriptors();
	for (uint32_t round = 1; round < ROUNDS; round++)
		one_round(&crowd, reader, round);
	assert_int_equal(open_descriptors(), descriptors);
	check_growth("crowd", before);
	close(crowd.socket);
	apus_participant_destroy(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_endpoints),
		cmocka_unit_test(test_crowd),
	};

	alarm(300);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
