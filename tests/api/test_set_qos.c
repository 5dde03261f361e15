/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the changeable policies change, here and at the peers; the others are refused, and a refused change leaves
 * nothing behind. Extremes of durations and strengths are taken as they are.
 * Method: two participants on loopback with driven workers, polled until what must happen has happened. No wall
 * time is asserted.
 */
#include <apus/apus.h>

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define MS          APUS_NS_PER_MS
#define PATIENCE_NS (20 * APUS_NS_PER_SEC)

static struct apus_participant *a, *b;

static struct apus_participant *participant(void)
{
	struct apus_config *c = apus_config_create();
	struct apus_participant *p = NULL;
	char why[256] = "";

	assert_non_null(c);
	assert_int_equal(apus_config_set(c, "interfaces", "lo", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "domain", "132", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "worker.mode", "driven", NULL, 0), 0);
	if (apus_participant_create(c, &p, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	apus_config_destroy(c);
	return p;
}

static int setup(void **state)
{
	(void)state;
	a = participant();
	b = participant();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	apus_participant_destroy(a);
	apus_participant_destroy(b);
	return 0;
}

static void turn(void)
{
	const struct timespec nap = {0, 200000};

	if (apus_worker_poll(a, 0) + apus_worker_poll(b, 0) <= 0)
		nanosleep(&nap, NULL);
}

/* Polls both sides until `condition` holds. */
#define UNTIL(condition)                                                             \
	do {                                                                         \
		struct apus_mono end_ = apus_mono_add(apus_mono_now(), PATIENCE_NS); \
		while (!(condition)) {                                               \
			assert_true(apus_mono_before(apus_mono_now(), end_));        \
			turn();                                                      \
		}                                                                    \
	} while (0)

/* Somebody else may run the same test on this machine. */
static const char *own(const char *topic)
{
	static char name[64];

	snprintf(name, sizeof(name), "%s-%d", topic, (int)getpid());
	return name;
}

struct ends {
	struct apus_writer *w;
	struct apus_reader *r;
	struct apus_qos offers, requests;
};

static struct ends begin(const char *topic, void (*change)(struct apus_qos *, bool is_writer))
{
	struct ends e;
	struct apus_endpoint_options o = {
		.topic = own(topic), .type = &apus_shape_type, .qos = &e.offers};

	apus_qos_writer_default(&e.offers);
	apus_qos_reader_default(&e.requests);
	e.requests.reliability = APUS_RELIABLE;
	e.requests.depth = 8;
	if (change) {
		change(&e.offers, true);
		change(&e.requests, false);
	}
	assert_int_equal(apus_writer_create(a, &o, &e.w), 0);
	o.qos = &e.requests;
	assert_int_equal(apus_reader_create(b, &o, &e.r), 0);
	return e;
}

static void end(struct ends *e)
{
	apus_writer_destroy(e->w);
	apus_reader_destroy(e->r);
}

static void meet(struct ends *e)
{
	UNTIL(apus_writer_matched(e->w) == 1 && apus_reader_matched(e->r) == 1);
}

static void put(struct apus_writer *w, const char *color, int x)
{
	struct apus_shape s = {.x = x, .shapesize = 1};

	snprintf(s.color, sizeof(s.color), "%s", color);
	assert_int_equal(apus_write(w, &s), 0);
}

/* Takes one sample with data; its x, or -1. */
static int take_x(struct apus_reader *r)
{
	struct apus_shape shape;
	struct apus_sample_info info;

	while (apus_take_next(r, &shape, &info, NULL) == 1)
		if (info.valid_data)
			return shape.x;
	return -1;
}

/* ---- refusals ------------------------------------------------------------------------------- */

#define IMMUTABLE(e, side, field, value, policy)                                               \
	do {                                                                                   \
		struct apus_qos qos_ = (e)->side;                                              \
		int policy_ = 0;                                                               \
		qos_.field = (value);                                                          \
		assert_int_equal(SET(e, side)(OF(e, side), &qos_, &policy_), APUS_EIMMUTABLE); \
		assert_int_equal(policy_, (policy));                                           \
	} while (0)
#define SET(e, side)   SET_##side
#define SET_offers     apus_writer_set_qos
#define SET_requests   apus_reader_set_qos
#define OF(e, side)    OF_##side(e)
#define OF_offers(e)   (e)->w
#define OF_requests(e) (e)->r

static void what_may_not_change(void **state)
{
	struct ends e = begin("Immutable", NULL);
	struct apus_matched_status m;
	struct apus_qos qos;
	int policy = 0;

	(void)state;
	meet(&e);
	IMMUTABLE(&e, offers, durability, APUS_TRANSIENT_LOCAL, APUS_POLICY_DURABILITY);
	IMMUTABLE(&e, offers, access_scope, APUS_SCOPE_TOPIC, APUS_POLICY_PRESENTATION);
	IMMUTABLE(&e, offers, ownership, APUS_EXCLUSIVE, APUS_POLICY_OWNERSHIP);
	IMMUTABLE(&e, offers, liveliness, APUS_MANUAL_BY_TOPIC, APUS_POLICY_LIVELINESS);
	IMMUTABLE(&e, offers, lease_ns, APUS_NS_PER_SEC, APUS_POLICY_LIVELINESS);
	IMMUTABLE(&e, offers, reliability, APUS_BEST_EFFORT, APUS_POLICY_RELIABILITY);
	IMMUTABLE(&e, offers, max_blocking_ns, 1, APUS_POLICY_RELIABILITY);
	IMMUTABLE(&e, offers, destination_order, APUS_BY_SOURCE, APUS_POLICY_DESTINATION_ORDER);
	IMMUTABLE(&e, offers, depth, 2, APUS_POLICY_HISTORY);
	IMMUTABLE(&e, offers, max_samples, 7, APUS_POLICY_RESOURCE_LIMITS);
	IMMUTABLE(&e, offers, max_matches, 3, APUS_POLICY_RESOURCE_LIMITS);
	IMMUTABLE(&e, offers, representation_count, 1, APUS_POLICY_DATA_REPRESENTATION);
	IMMUTABLE(&e, requests, history, APUS_KEEP_ALL, APUS_POLICY_HISTORY);
	IMMUTABLE(&e, requests, consistency.kind, APUS_DISALLOW_TYPE_COERCION,
		  APUS_POLICY_TYPE_CONSISTENCY);
	/* It contradicts itself: that comes first. */
	qos = e.requests;
	qos.time_filter_ns = 20;
	qos.deadline_ns = 10;
	assert_int_equal(apus_reader_set_qos(e.r, &qos, &policy), APUS_EQOS);
	assert_int_equal(policy, APUS_POLICY_DEADLINE);
	qos = e.offers;
	qos.deadline_ns = 0;
	assert_int_equal(apus_writer_set_qos(e.w, &qos, NULL), APUS_EQOS);
	assert_int_equal(apus_writer_set_qos(e.w, NULL, NULL), APUS_EINVAL);
	assert_int_equal(apus_writer_set_qos(NULL, &qos, NULL), APUS_EINVAL);
	/* Nothing of all that was announced, or stayed. */
	assert_int_equal(apus_writer_qos(e.w, &qos, NULL, 0), 0);
	assert_int_equal(qos.deadline_ns, APUS_INFINITE_NS);
	assert_int_equal(qos.lease_ns, APUS_INFINITE_NS);
	assert_int_equal(qos.depth, 1);
	assert_int_not_equal(qos.max_samples, 0); /* completed */
	assert_int_equal(apus_writer_set_qos(e.w, &qos, NULL), 0);
	assert_int_equal(apus_writer_set_qos(e.w, &e.offers, NULL), 0);
	put(e.w, "RED", 5);
	UNTIL(take_x(e.r) == 5);
	assert_int_equal(apus_reader_matched_status(e.r, NULL, &m), 1);
	assert_int_equal(m.transitions, 1);
	end(&e);
}

/* ---- what matching depends on ----------------------------------------------------------------- */

static void deadline_makes_and_breaks_a_match(void **state)
{
	struct ends e = begin("Deadline", NULL);
	struct apus_incompatible_status s;
	struct apus_qos qos = e.requests;

	(void)state;
	meet(&e);
	qos.deadline_ns = 3600 * APUS_NS_PER_SEC;
	assert_int_equal(apus_reader_set_qos(e.r, &qos, NULL), 0);
	UNTIL(apus_writer_matched(e.w) == 0 && apus_reader_matched(e.r) == 0);
	UNTIL(apus_writer_incompatible_status(e.w, NULL, &s) == 1);
	assert_int_equal(s.total, 1);
	assert_int_equal(s.last_policy, APUS_POLICY_DEADLINE);
	UNTIL(apus_reader_incompatible_status(e.r, NULL, &s) == 1);
	assert_int_equal(s.total, 1);
	assert_int_equal(s.by_policy[APUS_POLICY_DEADLINE], 1);
	e.offers.deadline_ns = 3599 * APUS_NS_PER_SEC;
	assert_int_equal(apus_writer_set_qos(e.w, &e.offers, NULL), 0);
	meet(&e);
	e.offers.latency_budget_ns = 2;
	assert_int_equal(apus_writer_set_qos(e.w, &e.offers, NULL), 0);
	UNTIL(apus_reader_incompatible_status(e.r, NULL, &s) == 1 &&
	      s.by_policy[APUS_POLICY_LATENCY_BUDGET] == 1);
	qos.latency_budget_ns = 2;
	assert_int_equal(apus_reader_set_qos(e.r, &qos, NULL), 0);
	meet(&e);
	put(e.w, "RED", 1);
	UNTIL(take_x(e.r) == 1);
	end(&e);
}

static void partitions_change(void **state)
{
	struct ends e = begin("Partition", NULL);
	const char *left[] = {"left", "both"}, *right[] = {"right"}, *any[] = {"*th"}, *names[2];
	struct apus_incompatible_status s;
	struct apus_qos qos;

	(void)state;
	meet(&e);
	e.offers.partitions = left;
	e.offers.partition_count = 2;
	assert_int_equal(apus_writer_set_qos(e.w, &e.offers, NULL), 0);
	UNTIL(apus_writer_matched(e.w) == 0 && apus_reader_matched(e.r) == 0);
	assert_int_equal(apus_writer_qos(e.w, &qos, names, 1), APUS_ELIMIT);
	assert_int_equal(apus_writer_qos(e.w, &qos, names, 2), 0);
	assert_int_equal(qos.partition_count, 2);
	assert_string_equal(qos.partitions[0], "left");
	assert_string_equal(qos.partitions[1], "both");
	e.requests.partitions = right;
	e.requests.partition_count = 1;
	assert_int_equal(apus_reader_set_qos(e.r, &e.requests, NULL), 0);
	e.requests.partitions = any;
	assert_int_equal(apus_reader_set_qos(e.r, &e.requests, NULL), 0);
	meet(&e);
	put(e.w, "RED", 1);
	UNTIL(take_x(e.r) == 1);
	/* Strength is changed beside them, and they stay. */
	assert_int_equal(apus_writer_set_strength(e.w, 4), APUS_EINVAL);
	assert_int_equal(apus_reader_qos(e.r, &qos, names, 2), 0);
	assert_string_equal(qos.partitions[0], "*th");
	assert_int_equal(apus_reader_incompatible_status(e.r, NULL, &s), 0); /* never was */
	end(&e);
}

/* ---- what the data plane does ----------------------------------------------------------------- */

static void misses_are_kept(void **state)
{
	struct ends e = begin("Misses", NULL);
	struct apus_deadline_status offered, requested;
	uint64_t before;

	(void)state;
	meet(&e);
	put(e.w, "RED", 1);
	UNTIL(take_x(e.r) == 1);
	assert_int_equal(apus_writer_deadline_status(e.w, NULL, &offered), 0);
	/* One nanosecond: each is a period. It begins with the next sample where none was running. */
	e.offers.deadline_ns = e.requests.deadline_ns = 1;
	assert_int_equal(apus_writer_set_qos(e.w, &e.offers, NULL), 0);
	assert_int_equal(apus_reader_set_qos(e.r, &e.requests, NULL), 0);
	assert_int_equal(apus_writer_deadline_status(e.w, NULL, &offered), 0);
	meet(&e);
	put(e.w, "RED", 2);
	UNTIL(take_x(e.r) == 2);
	UNTIL(apus_writer_deadline_status(e.w, NULL, &offered) == 1 && offered.total > 1000000 &&
	      apus_reader_deadline_status(e.r, NULL, &requested) == 1 && requested.total > 1000000);
	/* Back to none: what was missed stays, and no more comes. */
	e.offers.deadline_ns = e.requests.deadline_ns = APUS_INFINITE_NS;
	assert_int_equal(apus_reader_set_qos(e.r, &e.requests, NULL), 0);
	assert_int_equal(apus_writer_set_qos(e.w, &e.offers, NULL), 0);
	assert_int_equal(apus_writer_deadline_status(e.w, NULL, &offered), 1);
	assert_true(offered.total > 1000000);
	before = offered.total;
	assert_int_equal(apus_reader_deadline_status(e.r, NULL, &requested), 1);
	assert_true(requested.total > 1000000);
	meet(&e);
	put(e.w, "RED", 3);
	UNTIL(take_x(e.r) == 3);
	assert_int_equal(apus_writer_deadline_status(e.w, NULL, &offered), 1);
	assert_int_equal(offered.total, before);
	/* An hour: runs from the next sample, and counts nothing yet. */
	e.offers.deadline_ns = 3600 * APUS_NS_PER_SEC;
	assert_int_equal(apus_writer_set_qos(e.w, &e.offers, NULL), 0);
	put(e.w, "RED", 4);
	UNTIL(take_x(e.r) == 4);
	assert_int_equal(apus_writer_deadline_status(e.w, NULL, &offered), 1);
	assert_int_equal(offered.total, before);
	end(&e);
}

static void separation_changes(void **state)
{
	struct ends e = begin("Separation", NULL);

	(void)state;
	meet(&e);
	e.requests.time_filter_ns = APUS_INFINITE_NS;
	assert_int_equal(apus_reader_set_qos(e.r, &e.requests, NULL), 0);
	for (int i = 1; i <= 5; i++) {
		put(e.w, "RED", i);
		put(e.w, "BLUE", 10 * i);
	}
	UNTIL(take_x(e.r) == 1); /* the first of each, and no other for ever */
	UNTIL(take_x(e.r) == 10);
	e.requests.time_filter_ns = 0;
	assert_int_equal(apus_reader_set_qos(e.r, &e.requests, NULL), 0);
	put(e.w, "RED", 6);
	UNTIL(take_x(e.r) == 6);
	e.requests.time_filter_ns = APUS_INFINITE_NS;
	assert_int_equal(apus_reader_set_qos(e.r, &e.requests, NULL), 0);
	put(e.w, "RED", 7);
	put(e.w, "GREEN", 8);
	/* RED's last was accepted when nothing was limited: it leaves nothing to measure from but its first. */
	UNTIL(take_x(e.r) == 8);
	end(&e);
}

static void lifespans_change(void **state)
{
	struct ends e = begin("Lifespan", NULL);

	(void)state;
	meet(&e);
	e.requests.lifespan_ns = 1;
	assert_int_equal(apus_reader_set_qos(e.r, &e.requests, NULL), 0);
	put(e.w, "RED", 1); /* too old when it comes */
	e.requests.lifespan_ns = INT64_MAX - 1;
	UNTIL(apus_writer_wait_acked(e.w, 0) == 0);
	assert_int_equal(apus_reader_set_qos(e.r, &e.requests, NULL), 0);
	put(e.w, "RED", 2);
	UNTIL(take_x(e.r) == 2);
	/* The writer's own goes with each sample. */
	e.offers.lifespan_ns = 1;
	assert_int_equal(apus_writer_set_qos(e.w, &e.offers, NULL), 0);
	for (int i = 0; i < 200; i++)
		turn(); /* the reader hears of it; nothing more is asserted of when */
	put(e.w, "RED", 3);
	UNTIL(apus_writer_wait_acked(e.w, 0) == 0);
	e.offers.lifespan_ns = APUS_INFINITE_NS;
	assert_int_equal(apus_writer_set_qos(e.w, &e.offers, NULL), 0);
	for (int i = 0; i < 200; i++)
		turn();
	put(e.w, "BLUE", 4);
	for (int x = 0; x != 4;) {
		UNTIL((x = take_x(e.r)) != -1);
		assert_true(x == 3 || x == 4); /* 3 only if the record was slower */
	}
	end(&e);
}

static void a_filter_survives(void **state)
{
	struct ends e = begin("Filter", NULL);

	(void)state;
	meet(&e);
	assert_true(apus_reader_set_filter(e.r, "x < 10", NULL, 0, NULL) > 0);
	e.requests.latency_budget_ns = 5;
	assert_int_equal(apus_reader_set_qos(e.r, &e.requests, NULL), 0);
	put(e.w, "RED", 20);
	put(e.w, "RED", 2);
	UNTIL(take_x(e.r) == 2);
	/* As announced, too: the writer goes on filtering. */
	for (int i = 0; i < 50; i++)
		turn();
	put(e.w, "RED", 30);
	put(e.w, "RED", 3);
	UNTIL(take_x(e.r) == 3);
	assert_true(apus_reader_set_filter(e.r, NULL, NULL, 0, NULL) > 0);
	for (int x = -1; x != 40; x = take_x(e.r)) { /* until the writer has heard of it */
		put(e.w, "RED", 40);
		for (int k = 0; k < 5; k++)
			turn();
	}
	end(&e);
}

static void exclusive(struct apus_qos *qos, bool is_writer)
{
	qos->ownership = APUS_EXCLUSIVE;
	if (is_writer)
		qos->strength = INT32_MIN;
}

/* From the weakest to the strongest there is, against one in the middle. */
static void strength_from_end_to_end(void **state)
{
	struct ends e = begin("Strength", exclusive);
	struct apus_endpoint_options o = {
		.topic = own("Strength"), .type = &apus_shape_type, .qos = &e.offers};
	struct apus_qos qos = e.offers;
	struct apus_writer *other;
	int x = -1;

	(void)state;
	qos.strength = 0;
	o.qos = &qos;
	assert_int_equal(apus_writer_create(a, &o, &other), 0);
	UNTIL(apus_writer_matched(e.w) == 1 && apus_writer_matched(other) == 1 &&
	      apus_reader_matched(e.r) == 2);
	put(other, "RED", 1);
	UNTIL(take_x(e.r) == 1);
	put(e.w, "RED", 100);
	put(other, "RED", 2);
	UNTIL((x = take_x(e.r)) != -1);
	assert_int_equal(x, 2);
	e.offers.strength = INT32_MAX;
	assert_int_equal(apus_writer_set_qos(e.w, &e.offers, NULL), 0);
	for (int i = 101; x < 100; i++) { /* until the reader has heard of it */
		put(e.w, "RED", i);
		for (int k = 0; k < 5; k++)
			turn();
		x = take_x(e.r);
	}
	put(other, "RED", 3);
	put(e.w, "RED", 500);
	for (x = 0; x != 500;) {
		UNTIL((x = take_x(e.r)) != -1);
		assert_int_not_equal(x, 3);
	}
	assert_int_equal(apus_writer_set_strength(e.w, INT32_MIN), 0);
	for (int i = 4; x > 100; i++) {
		put(other, "RED", i);
		for (int k = 0; k < 5; k++)
			turn();
		UNTIL((x = take_x(e.r)) != -1 || apus_writer_wait_acked(other, 0) == 0);
		x = x == -1 ? 500 : x;
	}
	apus_writer_destroy(other);
	end(&e);
}

static uint8_t last_state(struct apus_reader *r)
{
	struct apus_sample s;
	uint8_t found = 0;

	while (apus_take(r, &s, 1, NULL) == 1) {
		found = s.info.instance_state;
		apus_return(r, &s, 1);
	}
	return found;
}

static void life_cycles_change(void **state)
{
	struct ends e = begin("LifeCycle", NULL);
	struct apus_shape red = {.color = "RED"};
	uint8_t seen = 0;

	(void)state;
	meet(&e);
	put(e.w, "RED", 1);
	UNTIL(take_x(e.r) == 1);
	e.offers.autodispose = false;
	assert_int_equal(apus_writer_set_qos(e.w, &e.offers, NULL), 0);
	assert_int_equal(apus_unregister(e.w, &red), 0);
	UNTIL((seen = last_state(e.r)) != 0);
	assert_int_equal(seen, APUS_STATE_NO_WRITERS);
	e.offers.autodispose = true;
	assert_int_equal(apus_writer_set_qos(e.w, &e.offers, NULL), 0);
	put(e.w, "RED", 2);
	UNTIL(take_x(e.r) == 2);
	assert_int_equal(apus_unregister(e.w, &red), 0);
	UNTIL((seen = last_state(e.r)) != 0);
	assert_int_equal(seen, APUS_STATE_DISPOSED);
	/* What is not taken of a disposed instance goes once the delay says so, which it did not before. */
	put(e.w, "RED", 3);
	assert_int_equal(apus_dispose(e.w, &red), 0);
	UNTIL(apus_writer_wait_acked(e.w, 0) == 0);
	UNTIL(apus_reader_wait(e.r, 0) == 0);
	e.requests.autopurge_disposed_ns = 0;
	assert_int_equal(apus_reader_set_qos(e.r, &e.requests, NULL), 0);
	UNTIL(last_state(e.r) == 0);
	assert_int_equal(take_x(e.r), -1);
	end(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_may_not_change),
		cmocka_unit_test(deadline_makes_and_breaks_a_match),
		cmocka_unit_test(partitions_change),
		cmocka_unit_test(misses_are_kept),
		cmocka_unit_test(separation_changes),
		cmocka_unit_test(lifespans_change),
		cmocka_unit_test(a_filter_survives),
		cmocka_unit_test(strength_from_end_to_end),
		cmocka_unit_test(life_cycles_change),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
