/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: with many threads on one worker, and endpoints and participants coming and going, reliable streams
 * stay complete and in order, nothing races, leaks or locks up.
 * Method: STREAMS threads write a reliable KEEP_ALL stream each, on one participant; for each stream one
 * thread takes it on the same participant and one on another (UDP). Meanwhile two threads create and delete
 * readers and writers, matched with the streams and unmatched, and one creates and destroys whole
 * participants with endpoints of both kinds. Once for each way to run a worker. Races are for
 * ThreadSanitizer to find, leaks for AddressSanitizer; an alarm ends what hangs.
 */
#include "stress_util.h"

#include <sched.h>

#define STREAMS  3
#define SAMPLES  6000
#define CHURNERS 2

struct arena {
	const char *domain;
	bool driven;
	struct apus_participant *near, *far;
	_Atomic bool done;
	_Atomic uint32_t endpoints_made, participants_made, foreign;
};

struct stream {
	struct arena *arena;
	int number;
	char topic[16];
	struct apus_writer *writer;
	struct apus_reader *near_reader, *far_reader;
	pthread_t write_thread, near_thread, far_thread;
};

static bool going_on(struct arena *a)
{
	/* Relaxed: only ends loops; the joins order the rest. */
	return !atomic_load_explicit(&a->done, memory_order_relaxed) && !stress_has_failed();
}

static void count(_Atomic uint32_t *counter)
{
	/* Relaxed: looked at after the joins only. */
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* ---- streams --------------------------------------------------------------------------------------------- */

static void *write_stream(void *arg)
{
	struct stream *s = arg;
	struct apus_shape shape = {.color = "RED"};

	for (shape.x = 1; shape.x <= SAMPLES && !stress_has_failed(); shape.x++) {
		int rc = apus_write(s->writer, &shape);

		if (rc != 0)
			stress_fail("stream %d, write %d: %s", s->number, shape.x,
				    apus_strerror(rc));
	}
	if (!stress_has_failed() && apus_writer_wait_acked(s->writer, 120 * SEC) != 0)
		stress_fail("stream %d was not acknowledged", s->number);
	return NULL;
}

/* Checks one sample; false: it is of another writer, which came and went. */
static bool check_next(struct stream *s, const struct apus_sample *sample, int32_t *next)
{
	struct apus_guid writer = apus_writer_guid(s->writer);
	struct apus_shape shape;

	if (memcmp(&writer, &sample->info.writer, sizeof(writer)) != 0 || !sample->info.valid_data)
		return false;
	if (stress_shape(sample, &shape) && shape.x != *next)
		stress_fail("stream %d: %d instead of %d", s->number, shape.x, *next);
	++*next;
	return true;
}

static void take_stream(struct stream *s, struct apus_reader *reader)
{
	struct apus_sample samples[16];
	int32_t next = 1;

	while (next <= SAMPLES && !stress_has_failed()) {
		int n = apus_take(reader, samples, 16, NULL);

		if (n < 0)
			stress_fail("take: %s", apus_strerror(n));
		for (int i = 0; i < n; i++)
			if (!check_next(s, &samples[i], &next))
				count(&s->arena->foreign);
		if (n > 0 && apus_return(reader, samples, (uint32_t)n) != 0)
			stress_fail("a taken sample was not lent");
		if (n == 0 && apus_reader_wait(reader, 60 * SEC) != 0)
			stress_fail("stream %d: nothing came after %d", s->number, next - 1);
	}
}

static void *take_near(void *arg)
{
	struct stream *s = arg;

	take_stream(s, s->near_reader);
	return NULL;
}

static void *take_far(void *arg)
{
	struct stream *s = arg;

	take_stream(s, s->far_reader);
	return NULL;
}

/* ---- what comes and goes --------------------------------------------------------------------------------- */

static void write_some(struct apus_writer *w)
{
	struct apus_shape shape = {.color = "GREEN"};

	for (shape.x = 0; shape.x < 3; shape.x++) {
		int rc = apus_write(w, &shape);

		if (rc != 0 && rc != APUS_ETIMEDOUT)
			stress_fail("a passing writer: %s", apus_strerror(rc));
	}
}

static void take_some(struct apus_reader *r)
{
	struct apus_sample s[4];
	int n = apus_take(r, s, 4, NULL);

	if (n < 0)
		stress_fail("a passing reader: %s", apus_strerror(n));
	if (n > 1) /* the other half is still lent when the reader goes */
		apus_return(r, s, (uint32_t)n / 2);
}

/* A writer and a reader of a topic, of all kinds in turn. The readers keep the last samples only: one that
 * keeps all and takes nothing would hold the streams up, as it should. */
static void one_pair(struct arena *a, struct apus_participant *p, const char *topic, uint32_t kind)
{
	struct apus_qos wq, rq;
	struct apus_endpoint_options o = {.topic = topic, .type = &apus_shape_type};
	struct apus_writer *w = NULL;
	struct apus_reader *r = NULL;
	int rc;

	stress_qos(true, &wq);
	stress_qos(false, &rq);
	rq.history = APUS_KEEP_LAST;
	rq.depth = 4;
	wq.max_blocking_ns = MSEC;
	wq.reliability = kind & 1 ? APUS_RELIABLE : APUS_BEST_EFFORT;
	rq.reliability = kind & 2 ? APUS_RELIABLE : APUS_BEST_EFFORT;
	wq.durability = kind & 4 ? APUS_TRANSIENT_LOCAL : APUS_VOLATILE;
	rq.durability = kind & 8 ? APUS_TRANSIENT_LOCAL : APUS_VOLATILE;
	o.qos = &wq;
	rc = apus_writer_create(p, &o, &w);
	o.qos = &rq;
	o.filter_expression = kind & 16 ? "x >= 1" : NULL;
	if (rc == 0)
		rc = apus_reader_create(p, &o, &r);
	if (rc != 0)
		stress_fail("a passing endpoint: %s", apus_strerror(rc));
	if (w)
		write_some(w);
	if (r)
		take_some(r);
	if (kind & 32) {
		apus_reader_destroy(r);
		apus_writer_destroy(w);
	} else {
		apus_writer_destroy(w);
		apus_reader_destroy(r);
	}
	count(&a->endpoints_made);
}

static void *churn(void *arg)
{
	static const char *const topics[] = {"stream0", "lonely", "stream1", "stream2"};
	struct arena *a = arg;

	for (uint32_t i = 0; going_on(a); i++) {
		one_pair(a, i % 3 ? a->near : a->far, topics[i % 4], i);
		stress_sleep(MSEC);
	}
	return NULL;
}

static void *churn_participants(void *arg)
{
	static const char *const idle[] = {"worker.idle", "block", NULL};
	struct arena *a = arg;

	for (uint32_t i = 0; going_on(a); i++) {
		struct apus_participant *p = stress_participant(a->domain, idle);

		if (!p)
			break;
		one_pair(a, p, i % 2 ? "stream0" : "stream1", i * 7);
		stress_sleep(i % 4 * 10 * MSEC);
		one_pair(a, p, "stream2", i * 5);
		apus_participant_destroy(p);
		count(&a->participants_made);
	}
	return NULL;
}

/* The application's loop around driven workers. */
static void *drive(void *arg)
{
	struct arena *a = arg;

	while (going_on(a)) {
		int work = apus_worker_poll(a->near, 0);

		if (work < 0 && work != APUS_EAGAIN)
			stress_fail("poll: %s", apus_strerror(work));
		work += apus_worker_poll(a->far, 0);
		if (work <= 0)
			sched_yield();
	}
	return NULL;
}

/* ---- one run --------------------------------------------------------------------------------------------- */

static void open_stream(struct arena *a, struct stream *s, int number)
{
	struct apus_qos wq, rq;
	struct apus_endpoint_options o = {.topic = s->topic, .type = &apus_shape_type};

	*s = (struct stream){.arena = a, .number = number};
	snprintf(s->topic, sizeof(s->topic), "stream%d", number);
	stress_qos(true, &wq);
	stress_qos(false, &rq);
	o.qos = &wq;
	assert_int_equal(apus_writer_create(a->near, &o, &s->writer), 0);
	o.qos = &rq;
	assert_int_equal(apus_reader_create(a->near, &o, &s->near_reader), 0);
	assert_int_equal(apus_reader_create(a->far, &o, &s->far_reader), 0);
}

static void start_stream(struct stream *s)
{
	assert_int_equal(apus_writer_wait_matched(s->writer, 2, 60 * SEC), 0);
	assert_int_equal(apus_reader_wait_matched(s->far_reader, 1, 60 * SEC), 0);
	assert_int_equal(pthread_create(&s->near_thread, NULL, take_near, s), 0);
	assert_int_equal(pthread_create(&s->far_thread, NULL, take_far, s), 0);
	assert_int_equal(pthread_create(&s->write_thread, NULL, write_stream, s), 0);
}

static void finish_stream(struct stream *s)
{
	pthread_join(s->write_thread, NULL);
	pthread_join(s->near_thread, NULL);
	pthread_join(s->far_thread, NULL);
}

static void run(const char *domain, const char *mode, const char *idle)
{
	const char *settings[] = {"worker.mode", mode, "worker.idle", idle, NULL};
	struct arena a = {.domain = domain, .driven = strcmp(mode, "driven") == 0};
	struct stream stream[STREAMS];
	pthread_t other[CHURNERS + 2];
	int others = 0;

	a.near = stress_participant(domain, settings);
	a.far = stress_participant(domain, settings);
	stress_check();
	for (int i = 0; i < STREAMS; i++)
		open_stream(&a, &stream[i], i);
	if (a.driven)
		assert_int_equal(pthread_create(&other[others++], NULL, drive, &a), 0);
	for (int i = 0; i < STREAMS; i++)
		start_stream(&stream[i]);
	for (int i = 0; i < CHURNERS; i++)
		assert_int_equal(pthread_create(&other[others++], NULL, churn, &a), 0);
	assert_int_equal(pthread_create(&other[others++], NULL, churn_participants, &a), 0);
	for (int i = 0; i < STREAMS; i++)
		finish_stream(&stream[i]);
	/* Relaxed: as in going_on(). */
	atomic_store_explicit(&a.done, true, memory_order_relaxed);
	for (int i = 0; i < others; i++)
		pthread_join(other[i], NULL);
	print_message("%s %s: %u pairs of endpoints and %u participants came and went, "
		      "%u samples of theirs\n",
		      mode, idle, a.endpoints_made, a.participants_made, a.foreign);
	apus_participant_destroy(a.near);
	apus_participant_destroy(a.far);
	stress_check();
	assert_true(a.endpoints_made > 10 && a.participants_made > 0);
}

static void test_block(void **state)
{
	(void)state;
	run("103", "spawned", "block");
}

static void test_pause(void **state)
{
	(void)state;
	run("104", "spawned", "pause");
}

static void test_poll(void **state)
{
	(void)state;
	run("105", "spawned", "poll");
}

static void test_driven(void **state)
{
	(void)state;
	run("106", "driven", "block");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_block),
		cmocka_unit_test(test_pause),
		cmocka_unit_test(test_poll),
		cmocka_unit_test(test_driven),
	};

	alarm(600);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
