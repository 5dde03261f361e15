/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a worker that may be about to sleep learns of every publication.
 * Method: the test holds a worker's turn, as another thread's data call would, while control has something
 * to publish for it. Control cannot show the worker the new epoch then; it must leave a wake-up behind.
 */
#include "control/domain.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_MS 20000

static struct apus_participant *participant(void)
{
	struct apus_config *c = apus_config_create();
	struct apus_participant *p = NULL;
	char why[256] = "";

	assert_non_null(c);
	assert_int_equal(apus_config_set(c, "interfaces", "lo", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "domain", "90", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "worker.mode", "driven", NULL, 0), 0);
	if (apus_participant_create(c, &p, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	apus_config_destroy(c);
	return p;
}

static void test_publication_during_a_turn_wakes(void **state)
{
	struct apus_participant *a = participant(), *b = participant();
	struct apus_endpoint_options o = {.topic = "Wake", .type = &apus_shape_type};
	struct pollfd wake = {.fd = a->workers[0]->wake_fd, .events = POLLIN};
	struct apus_reader *r;
	struct apus_writer *w;
	uint64_t count;

	(void)state;
	assert_int_equal(apus_reader_create(a, &o, &r), 0);
	apus_dp_worker_take_turn(a->workers[0]);
	assert_int_equal(apus_writer_create(b, &o, &w), 0);
	/* Each publication for any endpoint of the participant wakes; the last is that of the match. */
	while (apus_reader_matched(r) == 0) {
		assert_int_equal(poll(&wake, 1, PATIENCE_MS), 1);
		apus_dp_worker_end_turn(a->workers[0]);
		assert_int_equal(read(wake.fd, &count, sizeof(count)), sizeof(count));
		apus_dp_worker_take_turn(a->workers[0]); /* what the woken thread does */
	}
	apus_dp_worker_end_turn(a->workers[0]);
	apus_participant_destroy(a);
	apus_participant_destroy(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_publication_during_a_turn_wakes)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
