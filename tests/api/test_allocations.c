/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: between start and stop the data plane allocates nothing.
 * Method: every allocation function is wrapped at link time and counted while two participants on loopback
 * exchange 100,000 samples (reliable, KEEP_ALL, keyed, filtered); the count must be zero. A control shows
 * that the counter counts.
 */
#include <apus/apus.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
