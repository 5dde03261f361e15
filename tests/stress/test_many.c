/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: many endpoints and many descriptors cost nothing while nothing happens, and lose nothing when it does.
 *
 * idle: 10,000 endpoints with finite deadlines and leases; no timer stands for any of them, and the process uses as
 * much CPU as with the same endpoints without.
 * epoll: 2,000 readers behind one epoll descriptor, a million samples, consumers that take a random part each time:
 * every sample is taken (a wake-up that is missed would leave some) and hardly any wake-up is in vain (a descriptor
 * that stays up would spin). With an argument, the number of samples to each reader (500 make the million).
 */
#include "control/domain.h"

#include <apus/apus.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#define MS        APUS_NS_PER_MS
#define ENDPOINTS 5000 /* of each kind */
#define READERS   2000
#define CONSUMERS 2
#define PATIENCE  (120 * APUS_NS_PER_SEC)

static uint32_t samples_each = 25;

static struct apus_participant *participant(void)
{
	static const char *const settings[][2] = {
		{"interfaces", "lo"},        {"domain", "94"},
		{"worker.idle", "block"},    {"limits.local_endpoints", "10100"},
		{"limits.matches", "20000"}, {"limits.matches_per_endpoint", "2100"},
	};
	struct apus_config *c = apus_config_create();
	struct apus_participant *p = NULL;
	char why[256] = "";

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		if (apus_config_set(c, settings[i][0], settings[i][1], why, sizeof(why)) != 0)
			fail_msg("%s", why);
	if (apus_participant_create(c, &p, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	apus_config_destroy(c);
	return p;
}

static void small(struct apus_qos *q)
{
	q->max_samples = q->max_samples_per_instance = 1;
	q->max_instances = 1;
	q->max_matches = 1;
}

static void make(struct apus_participant *p, bool timed)
{
	char topic[64];
	struct apus_qos qos;
	struct apus_endpoint_options o = {.topic = topic, .type = &apus_shape_type, .qos = &qos};
	struct apus_reader *r;
	struct apus_writer *w;

	for (int i = 0; i < ENDPOINTS; i++) {
		/* Nobody matches: what is measured is what stands still. */
		snprintf(topic, sizeof(topic), "Idle-%d-%d", (int)getpid(), i);
		apus_qos_reader_default(&qos);
		small(&qos);
		if (timed)
			qos.deadline_ns = qos.lease_ns = 100 * MS;
		assert_int_equal(apus_reader_create(p, &o, &r), 0);
		snprintf(topic, sizeof(topic), "Else-%d-%d", (int)getpid(), i);
		apus_qos_writer_default(&qos);
		small(&qos);
		if (timed) {
			qos.deadline_ns = qos.lease_ns = 100 * MS;
			qos.liveliness = APUS_MANUAL_BY_TOPIC;
		}
		assert_int_equal(apus_writer_create(p, &o, &w), 0);
		if (timed) {
			struct apus_shape s = {.color = "RED"};

			assert_int_equal(apus_write(w, &s),
					 0); /* its deadline runs, and is missed */
		}
	}
}

static int64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return ts.tv_sec * APUS_NS_PER_SEC + ts.tv_nsec;
}

/* CPU of two idle seconds. */
static int64_t idle_ns(bool timed, uint32_t *timers_out)
{
	struct apus_participant *p = participant();
	const struct timespec settle = {0, 500000000}, window = {2, 0};
	int64_t before;

	make(p, timed);
	nanosleep(&settle, NULL);
	before = cpu_ns();
	nanosleep(&window, NULL);
	before = cpu_ns() - before;
	apus_dp_worker_take_turn(p->workers[0]);
	*timers_out = p->workers[0]->wheel.armed_count;
	apus_dp_worker_end_turn(p->workers[0]);
	apus_participant_destroy(p);
	return before;
}

static void ten_thousand_idle_endpoints(void **state)
{
	uint32_t timers;
	int64_t without = idle_ns(false, &timers), with;

	(void)state;
	assert_int_equal(timers, 0);
	with = idle_ns(true, &timers);
	assert_int_equal(timers, 0);
	printf("idle: %.3f %% of a CPU without, %.3f %% with deadlines and leases\n",
	       (double)without / 2e7, (double)with / 2e7);
	/* 0.1 % of two seconds, and what a busy machine adds to either. */
	assert_true(with - without < 2 * MS + without / 2);
}

/* --- epoll ----------------------------------------------------------------------------------------- */

struct crowd {
	struct apus_participant *p;
	struct apus_writer *w;
	struct apus_reader *r[READERS];
	int epoll;
	_Atomic uint64_t taken, wakes, vain;
	uint64_t wanted;
};

static void *consume(void *arg)
{
	struct crowd *c = arg;
	struct apus_sample s[16];
	struct epoll_event events[32];
	unsigned seed = (unsigned)(uintptr_t)&seed;

	while (c->taken < c->wanted) {
		int n = epoll_wait(c->epoll, events, 32, 50);

		for (int i = 0; i < n; i++) {
			struct apus_reader *r = c->r[events[i].data.u32];
			struct epoll_event again = {.events = EPOLLIN | EPOLLONESHOT,
						    .data.u32 = events[i].data.u32};
			int got = apus_take(r, s, 1 + (uint32_t)rand_r(&seed) % 16, NULL);

			c->wakes++;
			c->vain += got <= 0;
			if (got > 0)
				apus_return(r, s, (uint32_t)got);
			c->taken += got > 0 ? (uint64_t)got : 0;
			/* One consumer at a time for each reader; the level brings it back. */
			epoll_ctl(c->epoll, EPOLL_CTL_MOD, apus_reader_fd(r), &again);
		}
	}
	return NULL;
}

static void two_thousand_readers_in_epoll(void **state)
{
	static struct crowd c;
	char topic[64];
	struct apus_qos qos;
	struct apus_endpoint_options o = {.topic = topic, .type = &apus_shape_type, .qos = &qos};
	pthread_t threads[CONSUMERS];

	(void)state;
	c.p = participant();
	c.epoll = epoll_create1(EPOLL_CLOEXEC);
	c.wanted = (uint64_t)samples_each * READERS;
	snprintf(topic, sizeof(topic), "Epoll-%d", (int)getpid());
	for (uint32_t i = 0; i < READERS; i++) {
		struct epoll_event e = {.events = EPOLLIN | EPOLLONESHOT, .data.u32 = i};

		apus_qos_reader_default(&qos);
		qos.reliability = APUS_RELIABLE;
		qos.history = APUS_KEEP_ALL;
		qos.max_samples = qos.max_samples_per_instance = 64;
		qos.max_instances = qos.max_matches = 1;
		assert_int_equal(apus_reader_create(c.p, &o, &c.r[i]), 0);
		assert_int_equal(epoll_ctl(c.epoll, EPOLL_CTL_ADD, apus_reader_fd(c.r[i]), &e), 0);
	}
	apus_qos_writer_default(&qos);
	qos.history = APUS_KEEP_ALL;
	qos.max_samples = qos.max_samples_per_instance = 64;
	qos.max_blocking_ns = PATIENCE;
	assert_int_equal(apus_writer_create(c.p, &o, &c.w), 0);
	assert_int_equal(apus_writer_wait_matched(c.w, READERS, PATIENCE), 0);
	for (int i = 0; i < CONSUMERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, consume, &c), 0);
	for (uint32_t i = 0; i < samples_each; i++) {
		struct apus_shape s = {.color = "RED", .x = (int32_t)i};

		assert_int_equal(apus_write(c.w, &s), 0);
	}
	for (int i = 0; i < CONSUMERS; i++)
		pthread_join(threads[i], NULL);
	printf("epoll: %llu samples, %llu wake-ups, %llu of them in vain\n",
	       (unsigned long long)c.taken, (unsigned long long)c.wakes,
	       (unsigned long long)c.vain);
	assert_int_equal(c.taken, c.wanted);
	assert_true(c.vain * 10 < c.wakes);
	close(c.epoll);
	apus_participant_destroy(c.p);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(ten_thousand_idle_endpoints),
					   cmocka_unit_test(two_thousand_readers_in_epoll)};
	struct rlimit limit;

	if (argc > 1)
		samples_each = (uint32_t)atoi(argv[1]);
	/* A descriptor a reader. */
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < 12000)
		return 77;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
