/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: between start and stop the data plane allocates nothing.
 * Method: every allocation function is wrapped at link time and counted while two participants on loopback
 * exchange 100,000 samples (reliable, KEEP_ALL, keyed, filtered); the count must be zero. The same with many
 * readers whose filters the writer has in its index, composed ones and a class of the test's own among them,
 * each of which must get exactly its samples. A control shows that the counter counts.
 */
#include <apus/apus.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/api/allocations.h"

static struct apus_participant *participant(const char *transport)
{
	struct apus_config *c = apus_config_create();
	struct apus_participant *p = NULL;
	char why[256] = "";

	assert_non_null(c);
	assert_int_equal(apus_config_set(c, "interfaces", "lo", why, sizeof(why)), 0);
	assert_int_equal(apus_config_set(c, "domain", "144", why, sizeof(why)), 0);
	assert_int_equal(apus_config_set(c, "transport", transport, why, sizeof(why)), 0);
	if (apus_participant_create(c, &p, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	apus_config_destroy(c);
	return p;
}

#define SAMPLES 100000

static uint32_t drain(struct apus_reader *r, int32_t *next)
{
	struct apus_sample s[64];
	uint32_t total = 0;
	int n;

	while ((n = apus_take(r, s, 64, NULL)) > 0) {
		for (int i = 0; i < n; i++) {
			struct apus_shape shape;

			assert_int_equal(apus_type_decode(&apus_shape_type, s[i].payload,
							  s[i].payload_bytes, false, &shape, NULL,
							  0),
					 0);
			assert_int_equal(shape.x, (*next)++);
		}
		assert_int_equal(apus_return(r, s, (uint32_t)n), 0);
		total += (uint32_t)n;
	}
	return total;
}

/* Matched is not the end of discovery: control goes on until each side has heard all there is of the other. */
static void await_quiet(void)
{
	const struct timespec pause = {.tv_nsec = 50 * 1000000};

	for (int i = 0; i < 100; i++) {
		allocations_begin();
		nanosleep(&pause, NULL);
		if (allocations_end() == 0)
			return;
	}
	fail_msg("control allocates for ever");
}

static void run(const char *transport)
{
	struct apus_participant *a = participant(transport), *b = participant(transport);
	struct apus_qos wq, rq;
	struct apus_endpoint_options wo = {.topic = "T", .type = &apus_shape_type, .qos = &wq};
	struct apus_endpoint_options ro = {.topic = "T",
					   .type = &apus_shape_type,
					   .qos = &rq,
					   .filter_expression = "x >= 0 AND color = 'RED'"};
	struct apus_writer *w;
	struct apus_reader *r;
	struct apus_shape shape = {.color = "RED", .shapesize = 30};
	uint32_t got = 0;
	int32_t next = 0;
	unsigned long count;

	apus_qos_writer_default(&wq);
	apus_qos_reader_default(&rq);
	wq.history = rq.history = APUS_KEEP_ALL;
	wq.max_blocking_ns = 5 * INT64_C(1000000000);
	rq.reliability = APUS_RELIABLE;
	assert_int_equal(apus_writer_create(a, &wo, &w), 0);
	assert_int_equal(apus_reader_create(b, &ro, &r), 0);
	assert_int_equal(apus_writer_wait_matched(w, 1, 5 * INT64_C(1000000000)), 0);
	assert_int_equal(apus_reader_wait_matched(r, 1, 5 * INT64_C(1000000000)), 0);
	await_quiet();

	allocations_begin();
	for (int32_t x = 0; x < SAMPLES; x++) {
		shape.x = x;
		assert_int_equal(apus_write(w, &shape), 0);
		if (x % 32 == 0)
			got += drain(r, &next);
	}
	for (int i = 0; i < 2000 && got < SAMPLES; i++) {
		apus_reader_wait(r, 10 * 1000000);
		got += drain(r, &next);
	}
	assert_int_equal(apus_writer_wait_acked(w, 5 * INT64_C(1000000000)), 0);
	count = allocations_end();
	assert_int_equal(got, SAMPLES);
	assert_int_equal(count, 0);
	apus_participant_destroy(a);
	apus_participant_destroy(b);
}

static void test_sockets(void **state)
{
	(void)state;
	run("socket");
}

static void test_auto(void **state)
{
	(void)state;
	run("auto");
}

/* ---- many filters ------------------------------------------------------------------------------- */

#define READERS 12
#define ROUNDS  400 /* of as many samples as there are readers */

static void *create(const struct apus_filter_limits *limits, void *user)
{
	(void)limits;
	return user;
}

static void destroy(void *instance)
{
	(void)instance;
}

static int compile(void *instance, const struct apus_filter_source *source, void **compiled_out)
{
	(void)source;
	*compiled_out = instance;
	return 0;
}

static int is_sized_11(void *instance, const void *form, const struct apus_type *type,
		       const void *payload, size_t payload_bytes)
{
	struct apus_shape shape;

	(void)instance;
	(void)form;
	if (apus_type_decode(type, payload, payload_bytes, false, &shape, NULL, 0) < 0)
		return APUS_EIO;
	return shape.shapesize == 11;
}

static void finalize(void *instance, void *form)
{
	(void)instance;
	(void)form;
}

static int user;
static const struct apus_filter_class own_class = {"OWN",       create,   destroy, compile,
						   is_sized_11, finalize, &user};

/* `shapesize = 10 AND NOT x < 0`, composed. */
static struct apus_predicate *compose(void)
{
	const struct apus_value ten = {.kind = APUS_VALUE_SIGNED, .i = 10};
	const struct apus_value zero = {.kind = APUS_VALUE_SIGNED, .i = 0};
	struct apus_predicate *a, *b, *c, *d;

	assert_int_equal(
		apus_predicate_compare(&apus_shape_type, "shapesize", APUS_EQUAL, &ten, &a, NULL),
		0);
	assert_int_equal(apus_predicate_compare(&apus_shape_type, "x", APUS_LESS, &zero, &b, NULL),
			 0);
	assert_int_equal(apus_predicate_not(b, &c), 0);
	assert_int_equal(apus_predicate_both(a, c, &d), 0);
	apus_predicate_free(a);
	apus_predicate_free(b);
	apus_predicate_free(c);
	return d;
}

/* Reader i wants the samples with shapesize = i, and says so in a way of its own. */
static struct apus_reader *one_of_many(struct apus_participant *p, int i,
				       const struct apus_predicate *composed)
{
	struct apus_qos q;
	struct apus_endpoint_options o = {.topic = "M", .type = &apus_shape_type, .qos = &q};
	struct apus_reader *r = NULL;
	char text[64];

	apus_qos_reader_default(&q);
	q.history = APUS_KEEP_ALL;
	q.reliability = APUS_RELIABLE;
	snprintf(text, sizeof(text),
		 i < 3   ? "shapesize = %d"
		 : i < 6 ? "color = 'C%d'"
		 : i < 8 ? "shapesize BETWEEN %d AND %d"
			 : "color LIKE '%%%d' AND x >= 0",
		 i, i);
	o.filter_expression = i == 10 ? apus_predicate_text(composed) : text;
	o.filter_class = i == 11 ? "OWN" : NULL;
	assert_int_equal(apus_reader_create(p, &o, &r), 0);
	return r;
}

static uint32_t drain_one(struct apus_reader *r, int i)
{
	struct apus_sample s[16];
	uint32_t total = 0;
	int n;

	while ((n = apus_take(r, s, 16, NULL)) > 0) {
		for (int k = 0; k < n; k++) {
			struct apus_shape shape;

			assert_int_equal(apus_type_decode(&apus_shape_type, s[k].payload,
							  s[k].payload_bytes, false, &shape, NULL,
							  0),
					 0);
			assert_int_equal(shape.shapesize, i);
		}
		assert_int_equal(apus_return(r, s, (uint32_t)n), 0);
		total += (uint32_t)n;
	}
	return total;
}

static void test_many_filters(void **state)
{
	struct apus_participant *a = participant("socket"), *b = participant("socket");
	struct apus_predicate *composed = compose();
	struct apus_reader *r[READERS];
	uint32_t got[READERS] = {0};
	struct apus_qos q;
	struct apus_endpoint_options o = {.topic = "M", .type = &apus_shape_type, .qos = &q};
	struct apus_writer *w;

	(void)state;
	assert_int_equal(apus_filter_class_register(a, &own_class), 0);
	assert_int_equal(apus_filter_class_register(b, &own_class), 0);
	apus_qos_writer_default(&q);
	q.history = APUS_KEEP_ALL;
	q.max_blocking_ns = 5 * INT64_C(1000000000);
	assert_int_equal(apus_writer_create(a, &o, &w), 0);
	for (int i = 0; i < READERS; i++)
		r[i] = one_of_many(b, i, composed);
	assert_int_equal(apus_writer_wait_matched(w, READERS, 10 * INT64_C(1000000000)), 0);
	for (int i = 0; i < READERS; i++)
		assert_int_equal(apus_reader_wait_matched(r[i], 1, 10 * INT64_C(1000000000)), 0);

	allocations_begin();
	for (int k = 0; k < ROUNDS * READERS; k++) {
		struct apus_shape shape = {.x = k, .shapesize = k % READERS};

		snprintf(shape.color, sizeof(shape.color), "C%d", shape.shapesize);
		assert_int_equal(apus_write(w, &shape), 0);
		for (int i = 0; k % 64 == 0 && i < READERS; i++)
			got[i] += drain_one(r[i], i);
	}
	assert_int_equal(apus_writer_wait_acked(w, 10 * INT64_C(1000000000)), 0);
	for (int i = 0; i < READERS; i++)
		got[i] += drain_one(r[i], i);
	assert_int_equal(allocations_end(), 0);
	for (int i = 0; i < READERS; i++)
		assert_int_equal(got[i], ROUNDS);
	apus_participant_destroy(a);
	apus_participant_destroy(b);
	apus_predicate_free(composed);
}

static void test_counter_counts(void **state)
{
	void *volatile p;

	(void)state;
	allocations_begin();
	p = malloc(10);
	assert_int_equal(allocations_end(), 1);
	free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counter_counts),
		cmocka_unit_test(test_sockets),
		cmocka_unit_test(test_auto),
		cmocka_unit_test(test_many_filters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
