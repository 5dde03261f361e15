/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: while filters and routes change, a worker that takes turns sees one generation as a whole in each
 * turn, never a mix of two, and never memory that was freed.
 * Method: one thread replaces the filter of a local reader and of a remote reader thousands of times, always
 * so that generation g means the expression x = g; two threads take turns by the protocol of
 * dataplane/snapshot.h and check within each turn that the generation they see accepts x = g and rejects
 * x = g + 1, that routes are whole and sorted, and that generations only grow. Built with ThreadSanitizer
 * (races, use after free) by the test command; with AddressSanitizer it finds a premature free as well.
 */
#include "control/publish.h"
#include "tests/control/graph_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#define WORKERS    2
#define CHANGES    4000
#define TURNS_MIN  2000
#define ROUTES_MAX 8

struct arena {
	struct apus_dp_epoch epoch;
	struct apus_dp_turn turn[WORKERS];
	struct apus_dp_writer_port writer_port;
	struct apus_dp_reader_port reader_port;
	struct apus_ctl_graph *graph;
	struct apus_ctl_publisher *publisher;
	struct apus_ctl_endpoint *reader;
	_Atomic bool done;
};

struct worker {
	struct arena *arena;
	int number;
	pthread_t thread;
	uint64_t turns, generations_seen;
	const char *failure; /* cmocka's assertions belong to the main thread */
};

/* ---- workers ------------------------------------------------------------------------------------ */

static bool accepts_only(const struct apus_dp_predicate *predicate, uint64_t generation)
{
	struct apus_shape shape = {.color = "RED", .x = (int32_t)generation};
	uint8_t payload[64];
	enum apus_dp_verdict same, next;
	int bytes = apus_type_encode(&apus_shape_type, &shape, APUS_XCDR1, false, payload,
				     sizeof(payload));

	same = apus_dp_predicate_eval(predicate, payload, (size_t)bytes);
	shape.x++;
	apus_type_encode(&apus_shape_type, &shape, APUS_XCDR1, false, payload, sizeof(payload));
	next = apus_dp_predicate_eval(predicate, payload, (size_t)bytes);
	return same == APUS_DP_PASS && next == APUS_DP_REJECT;
}

static const char *check_reader(const struct apus_dp_reader_snapshot *s)
{
	if (!s)
		return "a reader's snapshot is missing";
	if ((s->filter_generation == 0) != (s->filter == NULL))
		return "a filter without its generation";
	if (s->filter && !accepts_only(s->filter, s->filter_generation))
		return "a reader's filter of another generation";
	return NULL;
}

static const char *check_writer(const struct apus_dp_writer_snapshot *s)
{
	if (!s)
		return "a writer's snapshot is missing";
	if (s->match_count > ROUTES_MAX + 2)
		return "more routes than there are readers";
	for (uint32_t i = 0; i < s->match_count; i++) {
		const struct apus_dp_reader_match *m = &s->match[i];

		if (i && apus_guid_compare(&s->match[i - 1].guid, &m->guid) >= 0)
			return "routes out of order";
		if (!m->match_id)
			return "a route without its match";
		if (m->predicate && !accepts_only(m->predicate, m->filter_generation))
			return "a route's filter of another generation";
	}
	return NULL;
}

static const char *one_turn(struct worker *w, uint64_t last[2])
{
	struct arena *a = w->arena;
	_Atomic uint64_t *word = &a->turn[w->number].word;
	const struct apus_dp_reader_snapshot *rs;
	const struct apus_dp_writer_snapshot *ws;
	const char *failure;
	uint64_t free_word = 0;

	/* T1: acquire, pairs with S2; an epoch that is too old only delays a reclaim. */
	uint64_t epoch = atomic_load_explicit(&a->epoch.current, memory_order_acquire);

	/* T2: seq_cst, pairs with S3. Nobody else takes this word, so it cannot fail. */
	if (!atomic_compare_exchange_strong(word, &free_word, epoch))
		return "the turn was taken";
	/* T3: seq_cst, pairs with S1. */
	rs = atomic_load(&a->reader_port.snapshot);
	/* T3, likewise. */
	ws = atomic_load(&a->writer_port.snapshot);
	failure = check_reader(rs);
	if (!failure)
		failure = check_writer(ws);
	if (!failure && (rs->generation < last[0] || ws->generation < last[1]))
		failure = "a generation went back";
	if (!failure) {
		w->generations_seen += rs->generation != last[0];
		last[0] = rs->generation;
		last[1] = ws->generation;
	}
	/* Release: whatever was read in this turn is read before the reclaim that S3 allows. */
	atomic_store_explicit(word, 0, memory_order_release);
	return failure;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	uint64_t last[2] = {0, 0};

	/* Acquire: pairs with the release in main's thread; only ends the loop. */
	while (!w->failure && (w->turns < TURNS_MIN ||
			       !atomic_load_explicit(&w->arena->done, memory_order_acquire))) {
		w->failure = one_turn(w, last);
		if (++w->turns % 64 == 0)
			sched_yield();
	}
	return NULL;
}

/* ---- the publisher ------------------------------------------------------------------------------ */

static void set_remote_filter(struct arena *a, apus_seq generation)
{
	static struct apus_wire_endpoint_record record;
	char value[16];
	const char *parameter = value;
	struct apus_qos qos;
	struct apus_wire_endpoint_source source = {.guid = fixture_guid(1, 1, false),
						   .topic = "Square",
						   .type = "ShapeType",
						   .qos = &qos,
						   .filter_name = "f",
						   .filter_class = "DDSSQL",
						   .filter_expression = "x = %0",
						   .filter_parameters = &parameter,
						   .filter_parameter_count = 1};

	snprintf(value, sizeof(value), "%lld", (long long)generation);
	apus_qos_reader_default(&qos);
	assert_int_equal(apus_wire_endpoint_record_make(&source, &record), 0);
	assert_true(apus_ctl_graph_add_endpoint(a->graph, &record, NULL, generation, NULL) > 0);
}

static void set_local_filter(struct arena *a, uint64_t generation)
{
	struct apus_dp_predicate *predicate;
	char value[16];
	const char *parameter = value;

	snprintf(value, sizeof(value), "%llu", (unsigned long long)generation);
	assert_int_equal(apus_ctl_filter_compile(&apus_shape_type, "x = %0", &parameter, 1, NULL,
						 &predicate, NULL),
			 0);
	assert_int_equal(
		apus_ctl_publisher_set_filter(a->publisher, a->reader, predicate, generation), 0);
}

/* Readers of participant 1 come and go, so that routes change too. */
static void toggle_route(struct arena *a, uint32_t key)
{
	static struct apus_wire_endpoint_record record;
	struct apus_guid guid = fixture_guid(1, key, false);

	if (apus_ctl_graph_remove_endpoint(a->graph, &guid) == 0)
		return;
	fixture_record(&record, 1, key, false, "Square", "ShapeType", NULL);
	assert_int_equal(apus_ctl_graph_add_endpoint(a->graph, &record, NULL, 1, NULL),
			 APUS_CTL_ADMITTED);
}

static void open_arena(struct arena *a)
{
	const struct apus_dp_turn *turns[WORKERS];
	struct apus_ctl_graph_config gc = fixture_config();
	struct apus_ctl_publisher_config pc = {.epoch = &a->epoch,
					       .turns = turns,
					       .turn_count = WORKERS,
					       .generations = 4,
					       .writer_filtering = true,
					       .filter_unique = 64,
					       .filter_remote_readers = 8};
	struct apus_ctl_local local = {.type = &apus_shape_type};
	static struct apus_wire_endpoint_record record;

	memset(a, 0, sizeof(*a));
	atomic_init(&a->epoch.current, 1);
	for (int i = 0; i < WORKERS; i++)
		turns[i] = &a->turn[i];
	apus_ctl_filter_limits_default(&pc.filter_limits);
	a->graph = fixture_graph(&gc);
	assert_int_equal(apus_ctl_publisher_create(&pc, a->graph, &a->publisher), 0);
	fixture_add_participant(a->graph, 1);
	local.reader_port = &a->reader_port;
	fixture_record(&record, 0, 1, false, "Square", "ShapeType", NULL);
	apus_ctl_graph_add_endpoint(a->graph, &record, &local, 1, &a->reader);
	local.reader_port = NULL;
	local.writer_port = &a->writer_port;
	fixture_record(&record, 0, 2, true, "Square", "ShapeType", NULL);
	apus_ctl_graph_add_endpoint(a->graph, &record, &local, 1, NULL);
	apus_ctl_publisher_turn(a->publisher);
}

static void one_generation_a_turn_and_none_freed(void **state)
{
	static struct arena a;
	struct worker workers[WORKERS] = {0};

	(void)state;
	open_arena(&a);
	for (int i = 0; i < WORKERS; i++) {
		workers[i].arena = &a;
		workers[i].number = i;
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (uint64_t change = 1; change <= CHANGES; change++) {
		set_local_filter(&a, change);
		set_remote_filter(&a, (apus_seq)change);
		toggle_route(&a, 2 + (uint32_t)(change % ROUTES_MAX));
		/* Mostly one try, so that changes coalesce; now and then until it is out. */
		while (apus_ctl_publisher_turn(a.publisher) && change % 8 == 0)
			sched_yield();
		if (change % 16 == 0)
			sched_yield();
	}
	while (apus_ctl_publisher_turn(a.publisher))
		sched_yield();
	/* Release: pairs with the acquire in work(). */
	atomic_store_explicit(&a.done, true, memory_order_release);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i].thread, NULL);
	for (int i = 0; i < WORKERS; i++) {
		if (workers[i].failure)
			fail_msg("worker %d, turn %llu: %s", i,
				 (unsigned long long)workers[i].turns, workers[i].failure);
		assert_true(workers[i].turns >= TURNS_MIN);
	}
	assert_int_equal(apus_ctl_publisher_reclaim(a.publisher), 0);
	/* Seen in the end: the last one. Freed: everything but the two that stand in the ports. */
	assert_int_equal(atomic_load(&a.reader_port.snapshot)->filter_generation, CHANGES);
	assert_int_equal(apus_counter_get(&apus_ctl_publisher_counters(a.publisher)->published) - 2,
			 apus_counter_get(&apus_ctl_publisher_counters(a.publisher)->reclaimed));
	print_message("%llu and %llu turns saw %llu and %llu generations\n",
		      (unsigned long long)workers[0].turns, (unsigned long long)workers[1].turns,
		      (unsigned long long)workers[0].generations_seen,
		      (unsigned long long)workers[1].generations_seen);
	apus_ctl_publisher_destroy(a.publisher);
	apus_ctl_graph_destroy(a.graph);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_generation_a_turn_and_none_freed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
