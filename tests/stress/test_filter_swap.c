/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: while a filter changes a thousand times a second under full traffic, every sample taken
 * satisfies the filter of the generation it was admitted under, and after a change nothing is queued that
 * fails the new filter. On the direct route, over UDP and through shared memory.
 * Method: generation g means the window low(g) <= x <= high(g); low and high come from a hash of g, so that
 * a mixture of two generations (the expression of one, parameters of another) shows. One thread publishes
 * x = 0 … RANGE - 1 over and over, one changes the filter and reads what is queued right after, one takes.
 * The expression alternates between two forms, so expression and parameters change together. Changes keep to a
 * timetable, as far as the machine goes; what was reached is printed.
 */
#include "stress_util.h"

#include <sched.h>

#define CHANGES          2000
#define CHANGE_PERIOD_NS MSEC
#define RANGE            1000

struct arena {
	struct apus_writer *writer;
	struct apus_reader *reader;
	_Atomic bool done;
	_Atomic bool published; /* the publisher has ended */
	uint64_t written, generations_seen, queue_checked;
	_Atomic uint64_t taken; /* one thread writes, one looks whether something was tried */
	uint64_t last;          /* generation of the filter when the changes have ended */
	int64_t changing_ns;    /* spent in set_filter */
};

/* ---- generations ----------------------------------------------------------------------------------- */

struct window {
	int32_t low, high;
};

static struct window window_of(uint64_t generation)
{
	uint64_t h = (generation + 1) * UINT64_C(0x9e3779b97f4a7c15);
	struct window w = {.low = (int32_t)((h >> 33) % (RANGE - 100))};

	w.high = w.low + 20 + (int32_t)((h >> 13) % 80);
	return w;
}

static bool accepts(uint64_t generation, int32_t x)
{
	struct window w = window_of(generation);

	return x >= w.low && x <= w.high;
}

static const char *expression_of(uint64_t generation)
{
	return generation % 2 ? "x BETWEEN %0 AND %1" : "NOT (x > %0) AND x >= %1";
}

/* The values are in `text`; the second form has them the other way round. */
static void parameters_of(uint64_t generation, char text[2][16], const char *out[2])
{
	struct window w = window_of(generation);
	bool swap = generation % 2 == 0;

	snprintf(text[0], 16, "%d", swap ? w.high : w.low);
	snprintf(text[1], 16, "%d", swap ? w.low : w.high);
	out[0] = text[0];
	out[1] = text[1];
}

/* ---- threads ----------------------------------------------------------------------------------------- */

static bool going_on(struct arena *a)
{
	/* Relaxed: only ends loops; the joins order the rest. */
	return !atomic_load_explicit(&a->done, memory_order_relaxed) && !stress_has_failed();
}

static bool has_published(struct arena *a)
{
	/* Relaxed: as above. */
	return atomic_load_explicit(&a->published, memory_order_relaxed);
}

static void *publish(void *arg)
{
	struct arena *a = arg;
	struct apus_shape shape = {.color = "RED"};

	while (going_on(a)) {
		int rc;

		shape.x = (int32_t)(a->written % RANGE);
		rc = apus_write(a->writer, &shape);
		if (rc != 0)
			stress_fail("write: %s", apus_strerror(rc));
		a->written++;
	}
	/* Relaxed: as in going_on(). */
	atomic_store_explicit(&a->published, true, memory_order_relaxed);
	return NULL;
}

static void check_taken(struct arena *a, const struct apus_sample *s, uint64_t *last)
{
	struct apus_shape shape;

	if (!s->info.valid_data || !stress_shape(s, &shape))
		return;
	if (!accepts(s->info.filter_generation, shape.x))
		stress_fail("x = %d was admitted under generation %llu", shape.x,
			    (unsigned long long)s->info.filter_generation);
	if (s->info.filter_generation < *last)
		stress_fail("a generation went back");
	a->generations_seen += s->info.filter_generation != *last;
	*last = s->info.filter_generation;
	/* Relaxed: a number, with which nothing is published. */
	atomic_fetch_add_explicit(&a->taken, 1, memory_order_relaxed);
}

static void *take(void *arg)
{
	struct arena *a = arg;
	struct apus_sample s[32];
	uint64_t last = 0;

	/* The writer may be waiting for room until its very last sample. */
	while (!has_published(a)) {
		int n = apus_take(a->reader, s, 32, NULL);

		if (n == APUS_ELIMIT) {
			sched_yield(); /* the other thread reads everything there is just now */
			continue;
		}
		for (int i = 0; i < n; i++)
			check_taken(a, &s[i], &last);
		if (n > 0 && apus_return(a->reader, s, (uint32_t)n) != 0)
			stress_fail("a taken sample was not lent");
		stress_sleep(MSEC / 2); /* something is queued when a change comes */
	}
	return NULL;
}

/* What is queued right after a change satisfies the new filter, whatever it was admitted under. */
static void check_queue(struct arena *a, uint64_t generation)
{
	struct apus_sample s[64];
	int n = apus_read(a->reader, s, 64, NULL);

	for (int i = 0; i < n; i++) {
		struct apus_shape shape;

		if (s[i].info.valid_data && stress_shape(&s[i], &shape) &&
		    !accepts(generation, shape.x))
			stress_fail("x = %d of generation %llu is queued under generation %llu",
				    shape.x, (unsigned long long)s[i].info.filter_generation,
				    (unsigned long long)generation);
		a->queue_checked++;
	}
	if (n > 0)
		apus_return(a->reader, s, (uint32_t)n);
}

static int64_t change_filter(struct arena *a, uint64_t generation)
{
	char text[2][16];
	const char *parameters[2];

	parameters_of(generation, text, parameters);
	return apus_reader_set_filter(a->reader, expression_of(generation), parameters, 2, NULL);
}

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * SEC + ts.tv_nsec;
}

/* Else nothing was tried. A busy machine under a sanitizer does a twentieth of what an idle one does. */
static bool has_tried(struct arena *a)
{
	/* Relaxed: see check_taken(). */
	return atomic_load_explicit(&a->taken, memory_order_relaxed) > CHANGES / 20;
}

static void *change(void *arg)
{
	struct arena *a = arg;
	int64_t start = now_ns();

	/* On a busy machine as long as it takes, within reason. */
	for (uint64_t g = 2;
	     (g < CHANGES + 2 || (!has_tried(a) && g < 20 * CHANGES)) && !stress_has_failed();
	     g++) {
		int64_t begin = now_ns(), rc = change_filter(a, g);

		a->changing_ns += now_ns() - begin;
		a->last = g;
		if (rc != (int64_t)g)
			stress_fail("change to generation %llu: %lld", (unsigned long long)g,
				    (long long)rc);
		check_queue(a, g);
		begin = start + (int64_t)(g - 1) * CHANGE_PERIOD_NS - now_ns();
		if (begin > 0)
			stress_sleep(begin);
		/* Now and then traffic passes under one generation at length; what is missed comes back to back. */
		if (g % 100 == 0)
			stress_sleep(20 * CHANGE_PERIOD_NS);
	}
	/* Relaxed: as in going_on(). */
	atomic_store_explicit(&a->done, true, memory_order_relaxed);
	return NULL;
}

/* ---- tests ---------------------------------------------------------------------------------------------- */

static void make_endpoints(struct arena *a, struct apus_participant *wp,
			   struct apus_participant *rp)
{
	struct apus_qos wq, rq;
	struct apus_endpoint_options o = {.topic = "Swap", .type = &apus_shape_type, .qos = &rq};
	char text[2][16];
	const char *parameters[2];

	stress_qos(true, &wq);
	stress_qos(false, &rq);
	parameters_of(1, text, parameters);
	o.filter_expression = expression_of(1);
	o.filter_parameters = parameters;
	o.filter_parameter_count = 2;
	assert_int_equal(apus_reader_create(rp, &o, &a->reader), 0);
	o = (struct apus_endpoint_options){.topic = "Swap", .type = &apus_shape_type, .qos = &wq};
	assert_int_equal(apus_writer_create(wp, &o, &a->writer), 0);
	assert_int_equal(apus_writer_wait_matched(a->writer, 1, 30 * SEC), 0);
	assert_int_equal(apus_reader_wait_matched(a->reader, 1, 30 * SEC), 0);
}

static void find_published(const struct apus_stat *stat, void *user)
{
	if (strcmp(stat->name, "snapshots.published") == 0)
		*(uint64_t *)user = stat->value;
}

/* Snapshots a participant has published: one a generation of a filter, or of several that came together. */
static uint64_t published(struct apus_participant *p)
{
	uint64_t value = 0;

	apus_visit_stats(p, find_published, &value);
	return value;
}

static void run(struct arena *a, const char *route, struct apus_participant *wp)
{
	void *(*const body[])(void *) = {publish, take, change};
	pthread_t thread[3];
	int64_t begin = now_ns();
	uint64_t before = published(wp);

	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, body[i], a), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	print_message(
		"%s: %llu written, %llu taken under %llu generations, %llu seen queued, "
		"%.0f changes/s, %.0f us each; the writer's participant published %llu times\n",
		route, (unsigned long long)a->written, (unsigned long long)a->taken,
		(unsigned long long)a->generations_seen, (unsigned long long)a->queue_checked,
		CHANGES * 1e9 / (double)(now_ns() - begin), (double)a->changing_ns / CHANGES / 1e3,
		(unsigned long long)(published(wp) - before));
	stress_check();
	assert_true(has_tried(a) && a->generations_seen > CHANGES / 500);
}

/* One change with samples certainly queued, which the threads above cannot promise. */
static void finish_queue(struct arena *a)
{
	struct apus_shape shape = {.color = "RED"};
	int rc = APUS_ETIMEDOUT;

	/* A writer may still leave out what the former filter rejected. */
	for (int i = 0; rc == APUS_ETIMEDOUT && i < 300; i++) {
		for (shape.x = 0; shape.x < RANGE; shape.x++)
			assert_int_equal(apus_write(a->writer, &shape), 0);
		rc = apus_reader_wait(a->reader, SEC / 10);
	}
	assert_int_equal(rc, 0);
	assert_int_equal(change_filter(a, a->last + 1), a->last + 1);
	check_queue(a, a->last + 1);
	stress_check();
}

/* Everything the last filter accepts arrives, in order, and nothing else. Direct route only: a remote
 * writer may rightly leave out a little longer what the former filter rejected. */
static void finish_exactly(struct arena *a)
{
	struct window w = window_of(a->last);
	struct apus_shape shape = {.color = "RED"};
	struct apus_sample s[32];
	int32_t expected = w.low;
	int n;

	while ((n = apus_take(a->reader, s, 32, NULL)) > 0)
		apus_return(a->reader, s, (uint32_t)n);
	for (shape.x = 0; shape.x < RANGE; shape.x++)
		assert_int_equal(apus_write(a->writer, &shape), 0);
	while ((n = apus_take(a->reader, s, 32, NULL)) > 0) {
		for (int i = 0; i < n; i++) {
			assert_true(stress_shape(&s[i], &shape));
			assert_int_equal(shape.x, expected++);
			assert_int_equal(s[i].info.filter_generation, a->last);
		}
		apus_return(a->reader, s, (uint32_t)n);
	}
	assert_int_equal(expected, w.high + 1);
}

static void test_same_participant(void **state)
{
	static struct arena a;
	struct apus_participant *p = stress_participant("101", NULL);

	(void)state;
	stress_check();
	make_endpoints(&a, p, p);
	run(&a, "direct", p);
	finish_exactly(&a);
	finish_queue(&a);
	apus_participant_destroy(p);
}

static void test_over_udp(void **state)
{
	static struct arena a;
	struct apus_participant *wp = stress_participant("102", NULL);
	struct apus_participant *rp = stress_participant("102", NULL);

	(void)state;
	stress_check();
	make_endpoints(&a, wp, rp);
	run(&a, "udp", wp);
	finish_queue(&a);
	apus_participant_destroy(wp);
	apus_participant_destroy(rp);
}

/* The samples do go that way: else this is the test before it once more. */
static void check_route(const struct arena *a, struct apus_participant *wp)
{
	struct apus_guid writer = apus_writer_guid(a->writer);
	struct apus_guid reader = apus_reader_guid(a->reader);
	struct apus_route route;

	assert_int_equal(apus_pair_route(wp, &writer, &reader, &route), 0);
	assert_int_equal(route.data_reason, APUS_ROUTE_SHM);
}

static void test_through_shared_memory(void **state)
{
	static const char *const settings[] = {"shm", "on", NULL};
	static struct arena a;
	struct apus_participant *wp = stress_participant("103", settings);
	struct apus_participant *rp = stress_participant("103", settings);

	(void)state;
	stress_check();
	make_endpoints(&a, wp, rp);
	check_route(&a, wp);
	run(&a, "shm", wp);
	finish_queue(&a);
	apus_participant_destroy(wp);
	apus_participant_destroy(rp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_participant),
		cmocka_unit_test(test_over_udp),
		cmocka_unit_test(test_through_shared_memory),
	};

	alarm(300);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
