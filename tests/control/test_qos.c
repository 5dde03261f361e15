/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: contradictory QoS is refused with the right policy named; compatibility follows DDS 1.4 §2.2.3
 * in its fixed order.
 * Method: one change at a time from the defaults, each with the value just inside and just outside.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <apus/qos.h>
#include <apus/type.h>

static struct apus_qos w, r;

static int reset(void **state)
{
	(void)state;
	memset(&w, 0x5a, sizeof(w));
	memset(&r, 0x5a, sizeof(r));
	apus_qos_writer_default(&w);
	apus_qos_reader_default(&r);
	return 0;
}

/* The policy apus_qos_check() names, NONE if it accepts. */
static int offends(const struct apus_qos *qos, bool is_writer)
{
	int policy = -77;
	int result = apus_qos_check(qos, is_writer, &policy);

	assert_int_equal(apus_qos_check(qos, is_writer, NULL), result);
	if (result == 0) {
		assert_int_equal(policy, -77);
		return APUS_POLICY_NONE;
	}
	assert_int_equal(result, APUS_EQOS);
	return policy;
}

static void test_defaults(void **state)
{
	(void)state;
	assert_int_equal(w.reliability, APUS_RELIABLE);
	assert_int_equal(r.reliability, APUS_BEST_EFFORT);
	assert_int_equal(w.depth, 1);
	assert_int_equal(w.max_blocking_ns, 100000000);
	assert_int_equal(r.deadline_ns, APUS_INFINITE_NS);
	assert_int_equal(w.lease_ns, APUS_INFINITE_NS);
	assert_int_equal(w.lifespan_ns, APUS_INFINITE_NS);
	assert_int_equal(r.time_filter_ns, 0);
	assert_int_equal(w.representation_count, 0);
	assert_null(w.partitions);
	assert_true(w.autodispose);
	assert_int_equal(offends(&w, true), APUS_POLICY_NONE);
	assert_int_equal(offends(&r, false), APUS_POLICY_NONE);
	assert_int_equal(apus_qos_mismatch(&w, &r), APUS_POLICY_NONE);
}

#define ACCEPTS(field, value)                                           \
	do {                                                            \
		reset(NULL);                                            \
		w.field = r.field = (value);                            \
		assert_int_equal(offends(&w, true), APUS_POLICY_NONE);  \
		assert_int_equal(offends(&r, false), APUS_POLICY_NONE); \
	} while (0)

#define REFUSES(field, value, policy)                         \
	do {                                                  \
		reset(NULL);                                  \
		w.field = r.field = (value);                  \
		assert_int_equal(offends(&w, true), policy);  \
		assert_int_equal(offends(&r, false), policy); \
	} while (0)

static void test_enumerations(void **state)
{
	(void)state;
	ACCEPTS(reliability, APUS_RELIABLE);
	REFUSES(reliability, 2, APUS_POLICY_RELIABILITY);
	ACCEPTS(durability, APUS_TRANSIENT_LOCAL);
	REFUSES(durability, APUS_TRANSIENT, APUS_POLICY_DURABILITY);
	REFUSES(durability, APUS_PERSISTENT, APUS_POLICY_DURABILITY);
	REFUSES(durability, 4, APUS_POLICY_DURABILITY);
	ACCEPTS(history, APUS_KEEP_ALL);
	REFUSES(history, 2, APUS_POLICY_HISTORY);
	ACCEPTS(liveliness, APUS_MANUAL_BY_TOPIC);
	REFUSES(liveliness, 3, APUS_POLICY_LIVELINESS);
	ACCEPTS(ownership, APUS_EXCLUSIVE);
	REFUSES(ownership, 2, APUS_POLICY_OWNERSHIP);
	ACCEPTS(destination_order, APUS_BY_SOURCE);
	REFUSES(destination_order, 2, APUS_POLICY_DESTINATION_ORDER);
	ACCEPTS(access_scope, APUS_SCOPE_GROUP);
	REFUSES(access_scope, 3, APUS_POLICY_PRESENTATION);
}

static void test_durations_mean_something(void **state)
{
	(void)state;
	ACCEPTS(deadline_ns, 1);
	REFUSES(deadline_ns, 0, APUS_POLICY_DEADLINE);
	REFUSES(deadline_ns, -1, APUS_POLICY_DEADLINE);
	ACCEPTS(latency_budget_ns, APUS_INFINITE_NS);
	REFUSES(latency_budget_ns, -1, APUS_POLICY_LATENCY_BUDGET);
	ACCEPTS(lease_ns, 1);
	REFUSES(lease_ns, 0, APUS_POLICY_LIVELINESS);
	REFUSES(lease_ns, -1, APUS_POLICY_LIVELINESS);
	ACCEPTS(lifespan_ns, 1);
	REFUSES(lifespan_ns, 0, APUS_POLICY_LIFESPAN);
	REFUSES(lifespan_ns, INT64_MIN, APUS_POLICY_LIFESPAN);
	ACCEPTS(max_blocking_ns, 0);
	REFUSES(max_blocking_ns, -1, APUS_POLICY_RELIABILITY);
}

static void test_depth_and_limits(void **state)
{
	(void)state;
	REFUSES(depth, 0, APUS_POLICY_HISTORY);
	ACCEPTS(depth, INT32_MAX);
	REFUSES(depth, (uint32_t)INT32_MAX + 1, APUS_POLICY_HISTORY);
	reset(NULL);
	w.depth = 5;
	w.max_samples_per_instance = 5;
	assert_int_equal(offends(&w, true), APUS_POLICY_NONE);
	w.max_samples_per_instance = 4;
	assert_int_equal(offends(&w, true), APUS_POLICY_RESOURCE_LIMITS);
	w.history = APUS_KEEP_ALL;
	assert_int_equal(offends(&w, true), APUS_POLICY_NONE);
	w.depth = 0;
	assert_int_equal(offends(&w, true), APUS_POLICY_NONE);
	w.max_samples = 4;
	assert_int_equal(offends(&w, true), APUS_POLICY_NONE);
	w.max_samples = 3;
	assert_int_equal(offends(&w, true), APUS_POLICY_RESOURCE_LIMITS);
	w.max_samples_per_instance = 0;
	assert_int_equal(offends(&w, true), APUS_POLICY_NONE);
}

static void test_deadline_against_time_filter(void **state)
{
	(void)state;
	r.time_filter_ns = 10;
	r.deadline_ns = 10;
	assert_int_equal(offends(&r, false), APUS_POLICY_NONE);
	r.deadline_ns = 9;
	assert_int_equal(offends(&r, false), APUS_POLICY_DEADLINE);
	reset(NULL);
	r.time_filter_ns = -1;
	assert_int_equal(offends(&r, false), APUS_POLICY_TIME_BASED_FILTER);
}

static void test_fields_of_the_other_kind(void **state)
{
	(void)state;
	w.strength = -3;
	w.transport_priority = 9;
	w.autodispose = false;
	assert_int_equal(offends(&w, true), APUS_POLICY_NONE);
	/* Late delivery: a reliable reader's with a finite separation, and not of parts of coherent sets. */
	r.time_filter_ns = 10;
	r.time_filter_late = true;
	assert_int_equal(offends(&r, false), APUS_POLICY_TIME_BASED_FILTER);
	r.reliability = APUS_RELIABLE;
	assert_int_equal(offends(&r, false), APUS_POLICY_NONE);
	r.time_filter_ns = 0;
	assert_int_equal(offends(&r, false), APUS_POLICY_TIME_BASED_FILTER);
	w.time_filter_late = true;
	assert_int_equal(offends(&w, true), APUS_POLICY_TIME_BASED_FILTER);
	w.time_filter_late = false;
	w.time_filter_ns = 1;
	assert_int_equal(offends(&w, true), APUS_POLICY_TIME_BASED_FILTER);
	r.strength = 1;
	assert_int_equal(offends(&r, false), APUS_POLICY_OWNERSHIP_STRENGTH);
	reset(NULL);
	r.transport_priority = 1;
	assert_int_equal(offends(&r, false), APUS_POLICY_TRANSPORT_PRIORITY);
	reset(NULL);
	r.autodispose = false;
	assert_int_equal(offends(&r, false), APUS_POLICY_WRITER_DATA_LIFECYCLE);
}

/* A batch has both bounds or neither, and is a writer's. */
static void test_batch(void **state)
{
	(void)state;
	REFUSES(batch_bytes, 1000, APUS_POLICY_BATCH);
	REFUSES(batch_delay_ns, 1000000, APUS_POLICY_BATCH);
	reset(NULL);
	w.batch_bytes = 65536;
	w.batch_delay_ns = APUS_INFINITE_NS;
	assert_int_equal(offends(&w, true), APUS_POLICY_NONE);
	assert_int_equal(offends(&w, false), APUS_POLICY_BATCH);
	w.batch_bytes = 65537;
	assert_int_equal(offends(&w, true), APUS_POLICY_BATCH);
	w.batch_bytes = 3;
	assert_int_equal(offends(&w, true), APUS_POLICY_BATCH);
	w.batch_bytes = 4;
	w.batch_delay_ns = -1;
	assert_int_equal(offends(&w, true), APUS_POLICY_BATCH);
}

static void test_partitions_have_limits(void **state)
{
	static char name[257];
	const char *names[65];

	(void)state;
	memset(name, 'p', 255);
	for (size_t i = 0; i < 65; i++)
		names[i] = name;
	r.partitions = names;
	r.partition_count = 64;
	assert_int_equal(offends(&r, false), APUS_POLICY_NONE);
	r.partition_count = 65;
	assert_int_equal(offends(&r, false), APUS_POLICY_PARTITION);
	r.partition_count = 2;
	name[255] = 'p';
	assert_int_equal(offends(&r, false), APUS_POLICY_PARTITION);
	name[255] = '\0';
	names[1] = NULL;
	assert_int_equal(offends(&r, false), APUS_POLICY_PARTITION);
	r.partitions = NULL;
	assert_int_equal(offends(&r, false), APUS_POLICY_PARTITION);
}

static void test_representations_are_known_and_distinct(void **state)
{
	(void)state;
	w.representation_count = 2;
	w.representations[0] = APUS_XCDR2;
	w.representations[1] = APUS_XCDR1;
	assert_int_equal(offends(&w, true), APUS_POLICY_NONE);
	w.representations[1] = APUS_XCDR2;
	assert_int_equal(offends(&w, true), APUS_POLICY_DATA_REPRESENTATION);
	w.representations[1] = 1; /* XML */
	assert_int_equal(offends(&w, true), APUS_POLICY_DATA_REPRESENTATION);
	w.representation_count = APUS_REPRESENTATIONS_MAX + 1;
	assert_int_equal(offends(&w, true), APUS_POLICY_DATA_REPRESENTATION);
}

/* --- Compatibility ------------------------------------------------------------------------------- */

/* Ordered policies: offered below, equal to and above the requested value. */
#define ORDERED(field, low, high, low_offer_ok, policy)                         \
	do {                                                                    \
		reset(NULL);                                                    \
		w.field = r.field = (high);                                     \
		assert_int_equal(apus_qos_mismatch(&w, &r), APUS_POLICY_NONE);  \
		w.field = (low);                                                \
		assert_int_equal(apus_qos_mismatch(&w, &r),                     \
				 (low_offer_ok) ? APUS_POLICY_NONE : (policy)); \
		w.field = (high);                                               \
		r.field = (low);                                                \
		assert_int_equal(apus_qos_mismatch(&w, &r),                     \
				 (low_offer_ok) ? (policy) : APUS_POLICY_NONE); \
	} while (0)

static void test_ordered_policies(void **state)
{
	(void)state;
	ORDERED(durability, APUS_VOLATILE, APUS_TRANSIENT_LOCAL, false, APUS_POLICY_DURABILITY);
	ORDERED(durability, APUS_TRANSIENT, APUS_PERSISTENT, false, APUS_POLICY_DURABILITY);
	ORDERED(access_scope, APUS_SCOPE_INSTANCE, APUS_SCOPE_TOPIC, false,
		APUS_POLICY_PRESENTATION);
	ORDERED(coherent_access, false, true, false, APUS_POLICY_PRESENTATION);
	ORDERED(ordered_access, false, true, false, APUS_POLICY_PRESENTATION);
	ORDERED(deadline_ns, 99, 100, true, APUS_POLICY_DEADLINE);
	ORDERED(deadline_ns, 99, APUS_INFINITE_NS, true, APUS_POLICY_DEADLINE);
	ORDERED(latency_budget_ns, 0, 1, true, APUS_POLICY_LATENCY_BUDGET);
	ORDERED(liveliness, APUS_AUTOMATIC, APUS_MANUAL_BY_PARTICIPANT, false,
		APUS_POLICY_LIVELINESS);
	ORDERED(liveliness, APUS_MANUAL_BY_PARTICIPANT, APUS_MANUAL_BY_TOPIC, false,
		APUS_POLICY_LIVELINESS);
	ORDERED(lease_ns, 99, 100, true, APUS_POLICY_LIVELINESS);
	ORDERED(reliability, APUS_BEST_EFFORT, APUS_RELIABLE, false, APUS_POLICY_RELIABILITY);
	ORDERED(destination_order, APUS_BY_RECEPTION, APUS_BY_SOURCE, false,
		APUS_POLICY_DESTINATION_ORDER);
}

static void test_ownership_must_be_equal(void **state)
{
	(void)state;
	w.ownership = APUS_EXCLUSIVE;
	assert_int_equal(apus_qos_mismatch(&w, &r), APUS_POLICY_OWNERSHIP);
	r.ownership = APUS_EXCLUSIVE;
	assert_int_equal(apus_qos_mismatch(&w, &r), APUS_POLICY_NONE);
	w.ownership = APUS_SHARED;
	assert_int_equal(apus_qos_mismatch(&w, &r), APUS_POLICY_OWNERSHIP);
}

static int representation_mismatch(int16_t w0, int16_t w1, int16_t r0, int16_t r1)
{
	reset(NULL);
	w.representations[0] = w0;
	w.representations[1] = w1;
	w.representation_count = w0 < 0 ? 0 : w1 < 0 ? 1 : 2;
	r.representations[0] = r0;
	r.representations[1] = r1;
	r.representation_count = r0 < 0 ? 0 : r1 < 0 ? 1 : 2;
	return apus_qos_mismatch(&w, &r);
}

static void test_the_writers_first_representation_counts(void **state)
{
	const int bad = APUS_POLICY_DATA_REPRESENTATION;

	(void)state;
	assert_int_equal(representation_mismatch(-1, -1, -1, -1), APUS_POLICY_NONE);
	assert_int_equal(representation_mismatch(2, -1, -1, -1), APUS_POLICY_NONE);
	assert_int_equal(representation_mismatch(-1, -1, 2, -1), bad);
	assert_int_equal(representation_mismatch(0, 2, 2, -1), bad);
	assert_int_equal(representation_mismatch(0, 2, 2, 0), APUS_POLICY_NONE);
	assert_int_equal(representation_mismatch(2, 0, 0, -1), bad);
	assert_int_equal(representation_mismatch(2, 0, 0, 2), APUS_POLICY_NONE);
	assert_int_equal(representation_mismatch(1, 0, -1, -1), bad);
}

static void test_partitions_must_overlap(void **state)
{
	const char *const a[] = {"A1", "q"}, *const pattern[] = {"A*"}, *const b[] = {"B"};

	(void)state;
	w.partitions = a;
	w.partition_count = 2;
	assert_int_equal(apus_qos_mismatch(&w, &r), APUS_POLICY_PARTITION);
	r.partitions = pattern;
	r.partition_count = 1;
	assert_int_equal(apus_qos_mismatch(&w, &r), APUS_POLICY_NONE);
	r.partitions = b;
	assert_int_equal(apus_qos_mismatch(&w, &r), APUS_POLICY_PARTITION);
}

/* Everything is wrong at first; each repair uncovers the next policy. */
static void test_order_of_policies(void **state)
{
	const char *const a[] = {"A"};

	(void)state;
	r.durability = APUS_TRANSIENT_LOCAL;
	r.coherent_access = true;
	r.deadline_ns = 1;
	w.latency_budget_ns = 1;
	r.ownership = APUS_EXCLUSIVE;
	r.lease_ns = 1;
	w.reliability = APUS_BEST_EFFORT;
	r.reliability = APUS_RELIABLE;
	r.destination_order = APUS_BY_SOURCE;
	r.representations[0] = APUS_XCDR2;
	r.representation_count = 1;
	r.partitions = a;
	r.partition_count = 1;
	assert_int_equal(apus_qos_mismatch(&w, &r), APUS_POLICY_DURABILITY);
	w.durability = APUS_TRANSIENT_LOCAL;
	assert_int_equal(apus_qos_mismatch(&w, &r), APUS_POLICY_PRESENTATION);
	w.coherent_access = true;
	assert_int_equal(apus_qos_mismatch(&w, &r), APUS_POLICY_DEADLINE);
	w.deadline_ns = 1;
	assert_int_equal(apus_qos_mismatch(&w, &r), APUS_POLICY_LATENCY_BUDGET);
	r.latency_budget_ns = 1;
	assert_int_equal(apus_qos_mismatch(&w, &r), APUS_POLICY_OWNERSHIP);
	w.ownership = APUS_EXCLUSIVE;
	assert_int_equal(apus_qos_mismatch(&w, &r), APUS_POLICY_LIVELINESS);
	w.lease_ns = 1;
	assert_int_equal(apus_qos_mismatch(&w, &r), APUS_POLICY_RELIABILITY);
	w.reliability = APUS_RELIABLE;
	assert_int_equal(apus_qos_mismatch(&w, &r), APUS_POLICY_DESTINATION_ORDER);
	w.destination_order = APUS_BY_SOURCE;
	assert_int_equal(apus_qos_mismatch(&w, &r), APUS_POLICY_DATA_REPRESENTATION);
	w.representations[0] = APUS_XCDR2;
	w.representation_count = 1;
	assert_int_equal(apus_qos_mismatch(&w, &r), APUS_POLICY_PARTITION);
	w.partitions = a;
	w.partition_count = 1;
	assert_int_equal(apus_qos_mismatch(&w, &r), APUS_POLICY_NONE);
}

static void test_policy_names(void **state)
{
	(void)state;
	assert_string_equal(apus_policy_name(APUS_POLICY_RELIABILITY), "reliability");
	assert_string_equal(apus_policy_name(APUS_POLICY_DATA_REPRESENTATION),
			    "data representation");
	assert_string_equal(apus_policy_name(APUS_POLICY_TYPE), "type");
	assert_string_equal(apus_policy_name(APUS_POLICY_NONE), "none");
	assert_string_equal(apus_policy_name(-1), "unknown");
	assert_string_equal(apus_policy_name(15), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_defaults, reset),
		cmocka_unit_test_setup(test_enumerations, reset),
		cmocka_unit_test_setup(test_durations_mean_something, reset),
		cmocka_unit_test_setup(test_depth_and_limits, reset),
		cmocka_unit_test_setup(test_deadline_against_time_filter, reset),
		cmocka_unit_test_setup(test_fields_of_the_other_kind, reset),
		cmocka_unit_test_setup(test_batch, reset),
		cmocka_unit_test_setup(test_partitions_have_limits, reset),
		cmocka_unit_test_setup(test_representations_are_known_and_distinct, reset),
		cmocka_unit_test_setup(test_ordered_policies, reset),
		cmocka_unit_test_setup(test_ownership_must_be_equal, reset),
		cmocka_unit_test_setup(test_the_writers_first_representation_counts, reset),
		cmocka_unit_test_setup(test_partitions_must_overlap, reset),
		cmocka_unit_test_setup(test_order_of_policies, reset),
		cmocka_unit_test_setup(test_policy_names, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
