/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: statuses are totals derived from stored instants, so that asking often, seldom or by several
 * observers gives the same answer. Method: the worked examples and boundaries; random activity and polls
 * against a reference that counts period by period.
 */
#include "dataplane/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <string.h>

#define MS APUS_NS_PER_MS

static struct apus_mono ms(int64_t t)
{
	return (struct apus_mono){1000000 * MS + t * MS};
}

static struct apus_guid guid(uint8_t n)
{
	return (struct apus_guid){{[11] = n, [15] = 2}};
}

static void observers_do_not_disturb_each_other(void **state)
{
	struct apus_dp_cursor a = {0}, b = {0};

	(void)state;
	assert_int_equal(apus_dp_observe(&a, 3), 3);
	assert_int_equal(apus_dp_observe(&a, 3), 0);
	assert_int_equal(apus_dp_observe(&a, 7), 4);
	assert_int_equal(apus_dp_observe(&b, 7), 7);
}

static void four_missed_deadlines_then_a_publish_reports_four(void **state)
{
	struct apus_dp_deadline d = {0};
	const int64_t period = 100 * MS;

	(void)state;
	assert_int_equal(apus_dp_deadline_missed(&d, period, ms(5000)), 0); /* not running yet */
	apus_dp_deadline_activity(&d, period, ms(0));
	assert_int_equal(apus_dp_deadline_missed(&d, period, ms(99)), 0);
	assert_int_equal(apus_dp_deadline_missed(&d, period, ms(100)), 1);
	assert_int_equal(apus_dp_deadline_missed(&d, period, ms(450)), 4);
	apus_dp_deadline_activity(&d, period, ms(450));
	assert_int_equal(apus_dp_deadline_missed(&d, period, ms(450)), 4);
	assert_int_equal(apus_dp_deadline_missed(&d, period, ms(549)), 4);
	assert_int_equal(apus_dp_deadline_missed(&d, period, ms(550)), 5);
	assert_int_equal(apus_dp_deadline_missed(&d, period, ms(10)), 4); /* clock before `since` */
	apus_dp_deadline_stop(&d, period, ms(650));
	assert_int_equal(apus_dp_deadline_missed(&d, period, ms(100000)), 6);
	assert_int_equal(apus_dp_deadline_missed(&d, 0, ms(100000)), 6);
	apus_dp_deadline_activity(&d, APUS_INFINITE_NS, ms(0));
	assert_int_equal(apus_dp_deadline_missed(&d, APUS_INFINITE_NS, ms(100000)), 6);
}

static void a_lapse_polled_a_thousand_times_counts_once(void **state)
{
	struct apus_dp_lease l;

	(void)state;
	apus_dp_lease_init(&l, 100 * MS, ms(0));
	assert_int_equal(apus_dp_lease_due(&l).ns, ms(100).ns);
	assert_false(apus_dp_lease_expire(&l, (struct apus_mono){ms(100).ns - 1}));
	assert_true(l.alive);
	assert_true(apus_dp_lease_expire(&l, ms(100))); /* silence equal to the lease */
	for (int i = 0; i < 1000; i++)
		assert_false(apus_dp_lease_expire(&l, ms(100 + i)));
	assert_int_equal(l.losses, 1);
	assert_int_equal(apus_dp_lease_due(&l).ns, INT64_MAX);
	apus_dp_lease_assert(&l, ms(2000));
	assert_true(l.alive);
	assert_int_equal(l.losses, 1);
	/* Nobody polled: the lapse before this assertion still counts. */
	apus_dp_lease_assert(&l, ms(3000));
	assert_true(l.alive);
	assert_int_equal(l.losses, 2);
}

static void leases_that_never_lapse(void **state)
{
	struct apus_dp_lease l;

	(void)state;
	apus_dp_lease_init(&l, 0, ms(0));
	assert_false(apus_dp_lease_expire(&l, ms(INT32_MAX)));
	apus_dp_lease_init(&l, APUS_INFINITE_NS, ms(0));
	assert_false(apus_dp_lease_expire(&l, (struct apus_mono){INT64_MAX}));
	assert_int_equal(apus_dp_lease_due(&l).ns, INT64_MAX);
	apus_dp_lease_init(&l, 1, ms(500));
	assert_false(apus_dp_lease_expire(&l, ms(499)));
	assert_true(l.alive);
}

static void liveliness_over_many_writers(void **state)
{
	struct apus_dp_peer memory[4];
	struct apus_dp_peers p;
	struct apus_dp_liveliness_cursor c = {0, 0}, other = {0, 0};
	struct apus_dp_liveliness out;
	struct apus_guid g[3] = {guid(1), guid(2), guid(3)};

	(void)state;
	apus_dp_peers_init(&p, memory, 4);
	assert_int_equal(apus_dp_peers_set(&p, 0, &g[0], 0, 100 * MS, 0, ms(0)), 0);
	assert_int_equal(apus_dp_peers_set(&p, 2, &g[1], 0, 200 * MS, 0, ms(0)), 0);
	assert_int_equal(apus_dp_peers_set(&p, 3, &g[2], 0, APUS_INFINITE_NS, 0, ms(0)), 0);
	assert_int_equal(apus_dp_peers_set(&p, 3, &g[0], 0, 1, 0, ms(0)), APUS_EINVAL);
	assert_int_equal(apus_dp_peers_set(&p, 4, &g[0], 0, 1, 0, ms(0)), APUS_EINVAL);
	assert_true(apus_dp_peers_observe(&p, &c, ms(1), &out));
	assert_int_equal(out.alive_change, 3);
	assert_false(apus_dp_peers_observe(&p, &c, ms(99), &out));
	assert_true(apus_dp_peers_observe(&p, &c, ms(150), &out));
	assert_int_equal(out.alive_count, 2);
	assert_int_equal(out.not_alive_count, 1);
	assert_int_equal(out.alive_change, -1);
	assert_int_equal(out.not_alive_change, 1);
	assert_int_equal(out.losses, 1);
	/* The second leaves in order: no loss of its lease. The first, lapsed, leaves: its loss stays. */
	apus_dp_peers_remove(&p, 2, ms(160));
	apus_dp_peers_remove(&p, 0, ms(160));
	assert_true(apus_dp_peers_observe(&p, &c, ms(1000), &out));
	assert_int_equal(out.alive_count, 1);
	assert_int_equal(out.not_alive_count, 0);
	assert_int_equal(out.alive_change, -1);
	assert_int_equal(out.not_alive_change, -1);
	assert_int_equal(out.losses, 1);
	assert_true(apus_dp_peers_observe(&p, &other, ms(1000), &out));
	assert_int_equal(out.alive_change, 1);
	/* A lease changed in place keeps the last activity, and books by the old promise first. */
	assert_int_equal(apus_dp_peers_set(&p, 3, &g[2], 9, 100 * MS, 0, ms(2000)), 0);
	assert_int_equal(memory[3].strength, 9);
	apus_dp_peers_observe(&p, &c, ms(2000), &out);
	assert_int_equal(out.not_alive_count, 1);
	assert_int_equal(out.losses, 2);
}

static void stronger_is_total_and_the_same_everywhere(void **state)
{
	struct apus_dp_peer a = {.guid = guid(1), .strength = 5},
			    b = {.guid = guid(2), .strength = 5};

	(void)state;
	assert_true(apus_dp_peer_stronger(&a, &b)); /* equal strength: the smaller GUID */
	assert_false(apus_dp_peer_stronger(&b, &a));
	assert_false(apus_dp_peer_stronger(&a, &a));
	b.strength = 6;
	assert_true(apus_dp_peer_stronger(&b, &a));
	a.strength = -1;
	b.strength = -2;
	assert_true(apus_dp_peer_stronger(&a, &b));
}

static void matches_show_churn_and_are_silent_otherwise(void **state)
{
	struct apus_dp_matches m = {0};
	struct apus_dp_matches_cursor c = {0};
	struct apus_dp_match_report r = {.current = 77};

	(void)state;
	assert_false(apus_dp_matches_observe(&m, &c, &r));
	assert_int_equal(r.current, 77);
	apus_dp_matches_arrive(&m);
	apus_dp_matches_arrive(&m);
	assert_true(apus_dp_matches_observe(&m, &c, &r));
	assert_int_equal(r.change, 2);
	assert_false(apus_dp_matches_observe(&m, &c, &r));
	/* Two arrive and two leave: the count nets to zero, four transitions show. */
	apus_dp_matches_arrive(&m);
	apus_dp_matches_arrive(&m);
	apus_dp_matches_depart(&m);
	apus_dp_matches_depart(&m);
	assert_true(apus_dp_matches_observe(&m, &c, &r));
	assert_int_equal(r.current, 2);
	assert_int_equal(r.change, 0);
	assert_int_equal(r.transitions, 6);
	assert_int_equal(r.total, 4);
}

/** Random activity and polls; the reference ticks through every millisecond. */
static void random_activity(void **state)
{
	const int64_t period = 7, lease = 11;
	struct apus_dp_deadline d = {0};
	struct apus_dp_lease l;
	struct apus_dp_cursor c[2] = {{0}, {0}};
	uint64_t seen[2] = {0, 0}, missed = 0, lapses = 0, x = 88172645463325252u;
	int64_t quiet = 0, silent = 0;
	bool alive = true;

	(void)state;
	apus_dp_deadline_activity(&d, period * MS, ms(0));
	apus_dp_lease_init(&l, lease * MS, ms(0));
	for (int64_t t = 1; t <= 300000; t++) {
		uint32_t op;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		op = (uint32_t)(x >> 32) % 20;
		missed += ++quiet % period == 0;
		if (++silent >= lease && alive) {
			alive = false;
			lapses++;
		}
		if (op == 0) {
			apus_dp_deadline_activity(&d, period * MS, ms(t));
			quiet = 0;
		} else if (op == 1) {
			apus_dp_lease_assert(&l, ms(t));
			silent = 0;
			alive = true;
		} else if (op < 4) {
			seen[op - 2] += apus_dp_observe(
				&c[op - 2], apus_dp_deadline_missed(&d, period * MS, ms(t)));
			assert_int_equal(seen[op - 2], missed);
		} else if (op == 4) {
			apus_dp_lease_expire(&l, ms(t));
			assert_int_equal(l.alive, alive);
			assert_int_equal(l.losses, lapses);
		}
	}
	assert_true(missed > 1000 && lapses > 1000);
}

static void durations_at_their_ends(void **state)
{
	const struct apus_mono end = {INT64_MAX};
	struct apus_dp_deadline d = {0};
	struct apus_dp_lease l;

	(void)state;
	/* A nanosecond: each is a period, and a lapse. */
	apus_dp_deadline_activity(&d, 1, ms(0));
	assert_int_equal(apus_dp_deadline_missed(&d, 1, ms(0)), 0);
	assert_int_equal(apus_dp_deadline_missed(&d, 1, (struct apus_mono){ms(0).ns + 1}), 1);
	assert_int_equal(apus_dp_deadline_missed(&d, 1, end), (uint64_t)(INT64_MAX - ms(0).ns));
	assert_int_equal(apus_dp_deadline_due(&d, 1, ms(0)).ns, ms(0).ns + 1);
	assert_int_equal(apus_dp_deadline_due(&d, 1, end).ns, INT64_MAX);
	apus_dp_lease_init(&l, 1, ms(0));
	assert_false(apus_dp_lease_expire(&l, ms(0)));
	apus_dp_lease_assert(&l, ms(1)); /* late by most of a millisecond */
	assert_int_equal(l.losses, 1);
	assert_true(apus_dp_lease_expire(&l, end));
	/* The longest there is below "never", at the end of time. */
	memset(&d, 0, sizeof(d));
	apus_dp_deadline_activity(&d, INT64_MAX - 1, (struct apus_mono){1});
	assert_int_equal(
		apus_dp_deadline_missed(&d, INT64_MAX - 1, (struct apus_mono){INT64_MAX - 1}), 0);
	assert_int_equal(apus_dp_deadline_missed(&d, INT64_MAX - 1, end), 1);
	assert_int_equal(apus_dp_deadline_due(&d, INT64_MAX - 1, ms(0)).ns, INT64_MAX);
	apus_dp_lease_init(&l, INT64_MAX - 1, ms(0));
	assert_false(apus_dp_lease_expire(&l, end));
	assert_int_equal(apus_dp_lease_due(&l).ns, INT64_MAX);
}

static void strengths_at_their_ends(void **state)
{
	struct apus_dp_peer a = {.guid = guid(1), .strength = INT32_MIN},
			    b = {.guid = guid(2), .strength = INT32_MAX};

	(void)state;
	assert_true(apus_dp_peer_stronger(&b, &a));
	assert_false(apus_dp_peer_stronger(&a, &b));
	b.strength = INT32_MIN;
	assert_true(apus_dp_peer_stronger(&a, &b));
	a.strength = 0;
	assert_true(apus_dp_peer_stronger(&a, &b));
}

/** 2,000 writers with leases of 1 … 2,000 ms: whoever looks, whenever, sees as many lapsed as have. */
static void two_thousand_leases(void **state)
{
	static struct apus_dp_peer memory[2000];
	struct apus_dp_liveliness_cursor often = {0, 0}, seldom = {0, 0};
	struct apus_dp_liveliness out;
	struct apus_dp_peers p;
	int32_t gone = 0;

	(void)state;
	apus_dp_peers_init(&p, memory, 2000);
	for (uint32_t i = 0; i < 2000; i++) {
		struct apus_guid g = {{[0] = (uint8_t)i, [1] = (uint8_t)(i >> 8), [15] = 2}};

		assert_int_equal(apus_dp_peers_set(&p, i, &g, 0, (1 + i) * MS, 0, ms(0)), 0);
	}
	assert_int_equal(p.due_ns, ms(1).ns); /* the first */
	assert_true(apus_dp_peers_observe(&p, &often, ms(0), &out));
	assert_int_equal(out.alive_count, 2000);
	for (int t = 1; t <= 2000; t++) {
		if (t % 2 == 0) /* the last writer keeps itself alive */
			apus_dp_peer_assert(&p, &memory[1999], ms(t));
		assert_int_equal(apus_dp_peers_observe(&p, &often, ms(t), &out), t < 2000);
		gone += out.not_alive_change;
		assert_int_equal(out.not_alive_count, t < 2000 ? t : 1999);
		assert_int_equal(out.losses, out.not_alive_count);
		if (t % 500 == 0)
			apus_dp_peers_observe(&p, &seldom, ms(t), &out);
	}
	assert_int_equal(gone, 1999);
	assert_int_equal(seldom.not_alive, 1999);
	/* Half of them leave: no losses, and none is forgotten. */
	for (uint32_t i = 0; i < 1000; i++)
		apus_dp_peers_remove(&p, i, ms(2001));
	assert_true(apus_dp_peers_observe(&p, &seldom, ms(2001), &out));
	assert_int_equal(out.not_alive_change, -1000);
	assert_int_equal(out.losses, 1999);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(durations_at_their_ends),
		cmocka_unit_test(strengths_at_their_ends),
		cmocka_unit_test(two_thousand_leases),
		cmocka_unit_test(observers_do_not_disturb_each_other),
		cmocka_unit_test(four_missed_deadlines_then_a_publish_reports_four),
		cmocka_unit_test(a_lapse_polled_a_thousand_times_counts_once),
		cmocka_unit_test(leases_that_never_lapse),
		cmocka_unit_test(liveliness_over_many_writers),
		cmocka_unit_test(stronger_is_total_and_the_same_everywhere),
		cmocka_unit_test(matches_show_churn_and_are_silent_otherwise),
		cmocka_unit_test(random_activity),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
