/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a wall clock set an hour forward and back under traffic changes no status.
 * Method: clock_gettime() is wrapped, so that CLOCK_REALTIME jumps while two participants exchange samples with
 * finite deadlines and leases on both sides. CLOCK_MONOTONIC is the machine's.
 */
#include <apus/apus.h>

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#define MS   APUS_NS_PER_MS
#define HOUR (3600 * APUS_NS_PER_SEC)

static _Atomic int64_t step_ns;

int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	int rc = __real_clock_gettime(clock, ts);

	if (clock == CLOCK_REALTIME)
		ts->tv_sec += step_ns / APUS_NS_PER_SEC;
	return rc;
}

static struct apus_participant *participant(void)
{
	struct apus_config *c = apus_config_create();
	struct apus_participant *p = NULL;
	char why[256] = "";

	assert_int_equal(apus_config_set(c, "interfaces", "lo", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "domain", "130", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "worker.mode", "driven", NULL, 0), 0);
	if (apus_participant_create(c, &p, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	apus_config_destroy(c);
	return p;
}

static void an_hour_forward_and_back(void **state)
{
	struct apus_participant *a = participant(), *b = participant();
	struct apus_qos qos;
	char topic[64];
	struct apus_endpoint_options o = {.topic = topic, .type = &apus_shape_type, .qos = &qos};
	struct apus_deadline_status missed;
	struct apus_liveliness_status live;
	struct apus_liveliness_lost_status lapsed;
	struct apus_matched_status matched;
	struct apus_lost_status lost;
	struct apus_sample s;
	struct apus_writer *w;
	struct apus_reader *r;
	struct apus_mono end, last;
	int64_t late = 0;
	int written = 0, taken = 0;

	(void)state;
	snprintf(topic, sizeof(topic), "Clock-%d", (int)getpid());
	apus_qos_writer_default(&qos);
	qos.deadline_ns = 400 * MS;
	qos.liveliness = APUS_MANUAL_BY_TOPIC;
	qos.lease_ns = 400 * MS;
	qos.history = APUS_KEEP_ALL;
	assert_int_equal(apus_writer_create(a, &o, &w), 0);
	apus_qos_reader_default(&qos);
	qos.reliability = APUS_RELIABLE;
	qos.deadline_ns = 400 * MS;
	qos.lease_ns = 400 * MS;
	qos.history = APUS_KEEP_ALL;
	assert_int_equal(apus_reader_create(b, &o, &r), 0);
	end = apus_mono_add(apus_mono_now(), 20 * APUS_NS_PER_SEC);
	while (apus_writer_matched(w) == 0 || apus_reader_matched(r) == 0) {
		assert_true(apus_mono_before(apus_mono_now(), end));
		apus_worker_poll(a, 0);
		apus_worker_poll(b, 0);
		apus_writer_assert_liveliness(w);
	}
	last = apus_mono_now();
	end = apus_mono_add(last, 1500 * MS);
	while (apus_mono_before(apus_mono_now(), end)) {
		const struct timespec nap = {0, 2000000};
		struct apus_shape shape = {.color = "RED", .x = written};
		int64_t gap = apus_mono_now().ns - last.ns;

		late = gap > late ? gap : late;
		last = apus_mono_now();
		step_ns = written % 40 < 20 ? (written % 80 < 40 ? HOUR : -HOUR) : 0;
		written += apus_write(w, &shape) == 0;
		apus_worker_poll(a, 0);
		apus_worker_poll(b, 0);
		for (; apus_take(r, &s, 1, NULL) == 1; apus_return(r, &s, 1))
			taken += s.info.valid_data;
		nanosleep(&nap, NULL);
	}
	apus_writer_deadline_status(w, NULL, &missed);
	if (late < 200 * MS) /* else this thread itself was held up */
		assert_int_equal(missed.total, 0);
	apus_reader_deadline_status(r, NULL, &missed);
	if (late < 200 * MS)
		assert_int_equal(missed.total, 0);
	apus_writer_liveliness_status(w, NULL, &lapsed);
	apus_reader_liveliness_status(r, NULL, &live);
	if (late < 200 * MS) {
		assert_int_equal(live.alive, 1);
		assert_int_equal(live.not_alive, 0);
	}
	apus_reader_lost_status(r, NULL, &lost);
	assert_int_equal(lost.total, 0);
	apus_reader_matched_status(r, NULL, &matched);
	assert_int_equal(matched.transitions, 1);
	assert_true(written > 20 && taken >= written - 2);
	apus_participant_destroy(a);
	apus_participant_destroy(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(an_hour_forward_and_back)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
