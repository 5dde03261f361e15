/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a snapshot says exactly what the graph says, changes are coalesced, filters are shared, and nothing
 * is freed while a worker may still look at it.
 * Method: turn words are plain variables set by the test; snapshots are read through the ports as a worker
 * reads them. Under AddressSanitizer every read of a held snapshot is also a proof that it is not freed.
 */
#include "control/publish.h"
#include "tests/control/graph_fixture.h"

#include <stdio.h>

struct world {
	struct apus_ctl_graph *graph;
	struct apus_ctl_publisher *p;
	struct apus_dp_epoch epoch;
	struct apus_dp_turn turn[2];
	struct apus_dp_writer_port writer_port[3];
	struct apus_dp_reader_port reader_port[2];
	struct apus_ctl_publisher_config config;
	uint32_t hooks, hook_dirty;
	uint32_t readers_max; /* of others; 0: as the fixture has it */
};

static void on_published(void *user, struct apus_ctl_endpoint *endpoint, uint32_t dirty)
{
	struct world *w = user;

	(void)endpoint;
	w->hooks++;
	w->hook_dirty |= dirty;
}

static void start(struct world *w)
{
	const struct apus_dp_turn *turns[] = {&w->turn[0], &w->turn[1]};
	struct apus_ctl_graph_config gc = fixture_config();

	if (w->readers_max)
		gc.remote_readers = gc.matches_per_endpoint = w->readers_max;
	w->config.turns = turns;
	w->config.turn_count = 2;
	w->config.epoch = &w->epoch;
	w->config.published = on_published;
	w->config.user = w;
	atomic_init(&w->epoch.current, 1);
	w->graph = fixture_graph(&gc);
	assert_int_equal(apus_ctl_publisher_create(&w->config, w->graph, &w->p), 0);
	w->config.turns = NULL; /* copied: the array above ends here */
}

static void prepare(struct world *w)
{
	memset(w, 0, sizeof(*w));
	w->config.generations = 4;
	w->config.writer_filtering = true;
	w->config.filter_unique = 16;
	w->config.filter_remote_readers = 16;
	apus_ctl_filter_limits_default(&w->config.filter_limits);
}

static void open_world(struct world *w)
{
	prepare(w);
	start(w);
}

static void close_world(struct world *w)
{
	apus_ctl_publisher_destroy(w->p);
	apus_ctl_graph_destroy(w->graph);
}

static struct apus_ctl_endpoint *local_writer(struct world *w, uint32_t key,
					      const struct apus_qos *qos)
{
	struct apus_ctl_local local = {.writer_port = &w->writer_port[key - 1],
				       .type = &apus_shape_type};
	struct apus_wire_endpoint_record r;
	struct apus_ctl_endpoint *e;

	fixture_record(&r, 0, key, true, "Square", "ShapeType", qos);
	assert_int_equal(apus_ctl_graph_add_endpoint(w->graph, &r, &local, 1, &e),
			 APUS_CTL_ADMITTED);
	return e;
}

static struct apus_ctl_endpoint *local_reader(struct world *w, uint32_t key,
					      const struct apus_qos *qos)
{
	struct apus_ctl_local local = {.reader_port = &w->reader_port[key - 1],
				       .type = &apus_shape_type};
	struct apus_wire_endpoint_record r;
	struct apus_ctl_endpoint *e;

	fixture_record(&r, 0, key, false, "Square", "ShapeType", qos);
	assert_int_equal(apus_ctl_graph_add_endpoint(w->graph, &r, &local, 1, &e),
			 APUS_CTL_ADMITTED);
	return e;
}

/* A reader of participant 1; expression NULL: no filter. */
static struct apus_ctl_endpoint *remote_reader(struct world *w, uint32_t key, apus_seq generation,
					       const char *class_name, const char *expression,
					       const char *parameter)
{
	struct apus_wire_endpoint_source source = {
		.guid = fixture_guid(1, key, false), .topic = "Square", .type = "ShapeType"};
	struct apus_wire_endpoint_record r;
	struct apus_ctl_endpoint *e;
	struct apus_qos qos;

	apus_qos_reader_default(&qos);
	source.qos = &qos;
	if (expression) {
		source.filter_name = "f";
		source.filter_class = class_name;
		source.filter_expression = expression;
		source.filter_parameters = &parameter;
		source.filter_parameter_count = parameter ? 1 : 0;
	}
	memset(&r, 0, sizeof(r));
	assert_int_equal(apus_wire_endpoint_record_make(&source, &r), 0);
	assert_true(apus_ctl_graph_add_endpoint(w->graph, &r, NULL, generation, &e) > 0);
	return e;
}

static const struct apus_dp_writer_snapshot *seen(struct world *w, uint32_t key)
{
	/* seq_cst, as T3 of dataplane/snapshot.h. */
	return atomic_load(&w->writer_port[key - 1].snapshot);
}

static const struct apus_dp_reader_snapshot *seen_by_reader(struct world *w, uint32_t key)
{
	/* seq_cst, as above. */
	return atomic_load(&w->reader_port[key - 1].snapshot);
}

static void take_turn(struct world *w, int worker)
{
	/* Single-threaded: the orders of T1 and T2 do not matter here. */
	atomic_store(&w->turn[worker].word, atomic_load(&w->epoch.current));
}

static void end_turn(struct world *w, int worker)
{
	/* As above. */
	atomic_store(&w->turn[worker].word, 0);
}

static uint64_t reclaimed(const struct world *w)
{
	return apus_counter_get(&apus_ctl_publisher_counters(w->p)->reclaimed);
}

static uint64_t published(const struct world *w)
{
	return apus_counter_get(&apus_ctl_publisher_counters(w->p)->published);
}

/* ---- contents ----------------------------------------------------------------------------------- */

static void a_writers_snapshot_says_what_the_graph_says(void **state)
{
	struct apus_wire_participant_record fast = fixture_participant(2);
	struct apus_wire_endpoint_record r;
	const struct apus_dp_writer_snapshot *s;
	struct apus_qos qos;
	struct world w;

	(void)state;
	open_world(&w);
	fast.vendor = 0x010f;
	fixture_add_participant(w.graph, 1);
	apus_ctl_graph_add_participant(w.graph, &fast, true, NULL);
	apus_qos_writer_default(&qos);
	qos.durability = APUS_TRANSIENT_LOCAL;
	local_writer(&w, 1, &qos);
	/* Admitted in the reverse order of their GUIDs. */
	apus_qos_reader_default(&qos);
	qos.reliability = APUS_RELIABLE;
	qos.durability = APUS_TRANSIENT_LOCAL;
	fixture_record(&r, 2, 9, false, "Square", "ShapeType", &qos);
	r.expects_inline_qos = true;
	assert_int_equal(apus_ctl_graph_add_endpoint(w.graph, &r, NULL, 1, NULL), 1);
	remote_reader(&w, 8, 1, NULL, NULL, NULL);
	local_reader(&w, 1, NULL);
	assert_int_equal(apus_ctl_publisher_turn(w.p), 0);
	s = seen(&w, 1);
	assert_int_equal(s->generation, 1);
	assert_int_equal(s->match_count, 3);
	for (uint32_t i = 1; i < 3; i++)
		assert_true(apus_guid_compare(&s->match[i - 1].guid, &s->match[i].guid) < 0);
	assert_true(s->match[0].local && !s->match[0].reliable);
	assert_false(s->match[1].local || s->match[1].reliable || s->match[1].transient_local ||
		     s->match[1].inline_qos || s->match[1].hash_only_dispose);
	assert_int_equal(s->match[1].unicast.port, 7413);
	assert_true(s->match[2].reliable && s->match[2].transient_local && s->match[2].inline_qos &&
		    s->match[2].hash_only_dispose);
	assert_int_equal(s->match[2].unicast.port, 7415);
	/* For the one that expects it: PID_TOPIC_NAME, a string of 7 characters, first. */
	assert_in_range(s->inline_bytes, 100, APUS_WIRE_INLINE_QOS_BYTES);
	assert_memory_equal(s->inline_list, "\x05\0\x0c\0\x07\0\0\0Square\0\0", 16);
	assert_int_equal(s->match[2].multicast.family, 0);
	assert_true(s->match[0].match_id && s->match[0].match_id != s->match[1].match_id);
	close_world(&w);
}

static void a_readers_snapshot_says_what_the_graph_says(void **state)
{
	struct apus_wire_endpoint_record r;
	const struct apus_dp_reader_snapshot *s;
	struct apus_qos qos;
	struct world w;

	(void)state;
	open_world(&w);
	fixture_add_participant(w.graph, 1);
	apus_qos_reader_default(&qos);
	qos.reliability = APUS_RELIABLE;
	qos.ownership = APUS_EXCLUSIVE;
	local_reader(&w, 1, &qos);
	apus_qos_writer_default(&qos);
	qos.durability = APUS_TRANSIENT_LOCAL;
	qos.ownership = APUS_EXCLUSIVE;
	qos.strength = -7;
	qos.lease_ns = 5;
	qos.lifespan_ns = 6;
	fixture_record(&r, 1, 3, true, "Square", "ShapeType", &qos);
	assert_int_equal(apus_ctl_graph_add_endpoint(w.graph, &r, NULL, 1, NULL), 1);
	apus_ctl_publisher_turn(w.p);
	s = seen_by_reader(&w, 1);
	assert_int_equal(s->match_count, 1);
	assert_null(s->filter);
	assert_int_equal(s->filter_generation, 0);
	assert_true(s->match[0].reliable && !s->match[0].transient_local && !s->match[0].local);
	assert_int_equal(s->match[0].strength, -7);
	assert_int_equal(s->match[0].lease_ns, 5);
	assert_int_equal(s->match[0].lifespan_ns, 6);
	assert_int_equal(s->match[0].unicast.port, 7413);
	close_world(&w);
}

static void builtin_endpoints_are_served_too(void **state)
{
	struct apus_ctl_local local = {0};
	struct world w;

	(void)state;
	open_world(&w);
	local.writer_port = &w.writer_port[0];
	apus_ctl_graph_add_builtin(w.graph, (struct apus_eid){0x3c2}, &local, NULL);
	local.writer_port = NULL;
	local.reader_port = &w.reader_port[0];
	apus_ctl_graph_add_builtin(w.graph, (struct apus_eid){0x3c7}, &local, NULL);
	fixture_add_participant(w.graph, 1);
	apus_ctl_publisher_turn(w.p);
	assert_int_equal(seen(&w, 1)->match_count, 1);
	assert_true(seen(&w, 1)->match[0].reliable && seen(&w, 1)->match[0].transient_local);
	assert_int_equal(seen(&w, 1)->match[0].unicast.port, 7412);
	assert_int_equal(apus_guid_eid(&seen_by_reader(&w, 1)->match[0].guid).value, 0x3c2);
	close_world(&w);
}

/* ---- publishing and reclaiming ------------------------------------------------------------------ */

static void a_turn_publishes_an_endpoint_once(void **state)
{
	struct world w;

	(void)state;
	open_world(&w);
	fixture_add_participant(w.graph, 1);
	local_writer(&w, 1, NULL);
	for (uint32_t key = 1; key <= 10; key++)
		remote_reader(&w, key, 1, NULL, NULL, NULL);
	apus_ctl_publisher_turn(w.p);
	assert_int_equal(published(&w), 1);
	assert_int_equal(w.hooks, 1);
	assert_int_equal(seen(&w, 1)->match_count, 10);
	apus_ctl_publisher_turn(w.p);
	assert_int_equal(published(&w), 1);
	remote_reader(&w, 11, 1, NULL, NULL, NULL);
	apus_ctl_publisher_turn(w.p);
	assert_int_equal(seen(&w, 1)->generation, 2);
	close_world(&w);
}

/* A writer of `count` readers, published once at `now`. */
static void publish_many(struct world *w, uint32_t count, struct apus_mono now)
{
	struct apus_mono due;

	prepare(w);
	w->readers_max = 512;
	start(w);
	fixture_add_participant(w->graph, 1);
	local_writer(w, 1, NULL);
	for (uint32_t key = 1; key <= count; key++)
		remote_reader(w, key, 1, NULL, NULL, NULL);
	assert_int_equal(apus_ctl_publisher_turn_at(w->p, now, &due), 0);
	assert_int_equal(due.ns, 0);
	assert_int_equal(published(w), 1);
	assert_int_equal(seen(w, 1)->match_count, count);
}

/* Of a writer with many readers news of filters wait for 5 us a match after its last snapshot, however many there
 * are; a new match does not, and takes them along. */
static void news_of_filters_alone_wait(void **state)
{
	struct apus_mono now = {APUS_NS_PER_SEC}, due;
	struct world w;

	(void)state;
	publish_many(&w, 300, now);
	for (uint32_t key = 5; key <= 6; key++) {
		now.ns++;
		remote_reader(&w, key, 2, "DDSSQL", "x > 1", NULL);
		assert_int_equal(apus_ctl_publisher_turn_at(w.p, now, &due), 0);
		assert_int_equal(published(&w), 1);
		assert_int_equal(due.ns, APUS_NS_PER_SEC + 300 * 5000);
	}
	now = due;
	assert_int_equal(apus_ctl_publisher_turn_at(w.p, now, &due), 0);
	assert_int_equal(due.ns, 0);
	assert_int_equal(published(&w), 2);
	assert_non_null(seen(&w, 1)->match[4].predicate);
	assert_non_null(seen(&w, 1)->match[5].predicate);
	assert_null(seen(&w, 1)->match[6].predicate);
	remote_reader(&w, 7, 2, "DDSSQL", "x > 1", NULL);
	apus_ctl_publisher_turn_at(w.p, now, &due);
	assert_int_equal(published(&w), 2);
	remote_reader(&w, 301, 1, NULL, NULL, NULL);
	apus_ctl_publisher_turn_at(w.p, now, &due);
	assert_int_equal(due.ns, 0);
	assert_int_equal(published(&w), 3);
	assert_int_equal(seen(&w, 1)->match_count, 301);
	assert_non_null(seen(&w, 1)->match[6].predicate);
	/* Whoever does not say what time it is waits for nothing. */
	remote_reader(&w, 8, 2, "DDSSQL", "x > 1", NULL);
	apus_ctl_publisher_turn(w.p);
	assert_int_equal(published(&w), 4);
	close_world(&w);
}

static void filters_of_few_readers_do_not_wait(void **state)
{
	struct apus_mono now = {APUS_NS_PER_SEC}, due;
	struct world w;

	(void)state;
	publish_many(&w, 255, now);
	remote_reader(&w, 5, 2, "DDSSQL", "x > 1", NULL);
	apus_ctl_publisher_turn_at(w.p, now, &due);
	assert_int_equal(due.ns, 0);
	assert_int_equal(published(&w), 2);
	close_world(&w);
}

static void nothing_is_freed_while_a_word_is_older(void **state)
{
	const struct apus_dp_writer_snapshot *held;
	struct world w;

	(void)state;
	open_world(&w);
	fixture_add_participant(w.graph, 1);
	local_writer(&w, 1, NULL);
	apus_ctl_publisher_turn(w.p);
	take_turn(&w, 1);
	held = seen(&w, 1);
	remote_reader(&w, 1, 1, NULL, NULL, NULL);
	apus_ctl_publisher_turn(w.p);
	take_turn(&w, 0); /* a newer turn of another worker does not help */
	assert_int_equal(apus_ctl_publisher_reclaim(w.p), 1);
	assert_int_equal(reclaimed(&w), 0);
	assert_int_equal(held->match_count, 0);
	assert_int_equal(seen(&w, 1)->match_count, 1);
	take_turn(&w, 1); /* refreshed, not given up */
	assert_int_equal(apus_ctl_publisher_reclaim(w.p), 0);
	assert_int_equal(reclaimed(&w), 1);
	end_turn(&w, 0);
	end_turn(&w, 1);
	remote_reader(&w, 2, 1, NULL, NULL, NULL);
	apus_ctl_publisher_turn(w.p);
	assert_int_equal(apus_ctl_publisher_reclaim(w.p), 0);
	close_world(&w);
}

static void generations_are_bounded_and_later_changes_coalesce(void **state)
{
	struct world w;

	(void)state;
	prepare(&w);
	w.config.generations = 2;
	start(&w);
	fixture_add_participant(w.graph, 1);
	local_writer(&w, 1, NULL);
	apus_ctl_publisher_turn(w.p);
	take_turn(&w, 0);
	for (uint32_t key = 1; key <= 2; key++) {
		remote_reader(&w, key, 1, NULL, NULL, NULL);
		assert_int_equal(apus_ctl_publisher_turn(w.p), 0);
	}
	for (uint32_t key = 3; key <= 20; key++) {
		remote_reader(&w, key, 1, NULL, NULL, NULL);
		assert_int_equal(apus_ctl_publisher_turn(w.p), 1);
	}
	assert_int_equal(seen(&w, 1)->match_count, 2);
	end_turn(&w, 0);
	assert_int_equal(apus_ctl_publisher_turn(w.p), 0);
	assert_int_equal(seen(&w, 1)->match_count, 20);
	assert_int_equal(seen(&w, 1)->generation, 4);
	close_world(&w);
}

static void an_endpoint_that_goes_leaves_its_port_empty(void **state)
{
	struct apus_ctl_endpoint *e;
	struct apus_guid guid = fixture_guid(0, 1, true);
	uint64_t epoch;
	struct world w;

	(void)state;
	open_world(&w);
	fixture_add_participant(w.graph, 1);
	e = local_writer(&w, 1, NULL);
	remote_reader(&w, 1, 1, NULL, NULL, NULL);
	apus_ctl_publisher_turn(w.p);
	take_turn(&w, 0);
	epoch = apus_ctl_publisher_forget(w.p, e);
	assert_null(seen(&w, 1));
	assert_false(apus_ctl_publisher_passed(w.p, epoch));
	apus_ctl_graph_remove_endpoint(w.graph, &guid);
	/* The slot is used again at once; the old generation does not count against the new owner. */
	assert_int_equal(local_writer(&w, 1, NULL)->idx, e->idx);
	apus_ctl_publisher_turn(w.p);
	assert_int_equal(seen(&w, 1)->generation, 1);
	assert_int_equal(seen(&w, 1)->match_count, 1);
	end_turn(&w, 0);
	assert_true(apus_ctl_publisher_passed(w.p, epoch));
	assert_int_equal(apus_ctl_publisher_reclaim(w.p), 0);
	assert_int_equal(reclaimed(&w), 1);
	remote_reader(&w, 2, 1, NULL, NULL, NULL);
	assert_int_equal(apus_ctl_publisher_turn(w.p), 0);
	assert_int_equal(seen(&w, 1)->match_count, 2);
	close_world(&w);
}

static void statuses_reach_the_hook_without_a_snapshot(void **state)
{
	struct apus_wire_endpoint_record r;
	struct apus_qos qos;
	struct world w;

	(void)state;
	open_world(&w);
	fixture_add_participant(w.graph, 1);
	apus_qos_writer_default(&qos);
	qos.reliability = APUS_BEST_EFFORT;
	local_writer(&w, 1, &qos);
	apus_ctl_publisher_turn(w.p);
	w.hook_dirty = 0;
	apus_qos_reader_default(&qos);
	qos.reliability = APUS_RELIABLE;
	fixture_record(&r, 1, 3, false, "Square", "ShapeType", &qos);
	apus_ctl_graph_add_endpoint(w.graph, &r, NULL, 1, NULL);
	apus_ctl_publisher_turn(w.p);
	assert_int_equal(w.hook_dirty, APUS_CTL_DIRTY_STATUS);
	assert_int_equal(published(&w), 1);
	close_world(&w);
}

/* ---- filters ------------------------------------------------------------------------------------ */

static enum apus_dp_verdict eval(const struct apus_dp_predicate *predicate, int32_t x)
{
	struct apus_shape shape = {.color = "RED", .x = x};
	uint8_t payload[256];
	int bytes = apus_type_encode(&apus_shape_type, &shape, APUS_XCDR1, false, payload,
				     sizeof(payload));

	assert_true(bytes > 0);
	return apus_dp_predicate_eval(predicate, payload, (size_t)bytes);
}

static void filters_are_compiled_once_and_shared(void **state)
{
	const struct apus_dp_filter_index *index;
	const struct apus_dp_predicate *predicate;
	struct apus_guid guid = fixture_guid(1, 1, false);
	struct world w;

	(void)state;
	open_world(&w);
	fixture_add_participant(w.graph, 1);
	local_writer(&w, 1, NULL);
	local_writer(&w, 2, NULL);
	remote_reader(&w, 1, 5, "DDSSQL", "x = %0", "3");
	apus_ctl_publisher_turn(w.p);
	predicate = seen(&w, 1)->match[0].predicate;
	assert_non_null(predicate);
	assert_int_equal(eval(predicate, 3), APUS_DP_PASS);
	assert_int_equal(eval(predicate, 4), APUS_DP_REJECT);
	assert_int_equal(seen(&w, 1)->match[0].filter_generation, 5);
	assert_ptr_equal(seen(&w, 2)->match[0].predicate, predicate);
	index = seen(&w, 1)->index;
	assert_int_equal(index->filter_count, 1);
	assert_ptr_equal(index->filters[seen(&w, 1)->match[0].filter_id], predicate);
	/* Another reader with the same words, and a new generation of the writer's routes. */
	remote_reader(&w, 2, 6, "DDSSQL", "x = %0", "3");
	apus_ctl_publisher_turn(w.p);
	assert_ptr_equal(seen(&w, 1)->match[0].predicate, predicate);
	assert_ptr_equal(seen(&w, 1)->match[1].predicate, predicate);
	assert_int_equal(apus_ctl_publisher_filter_count(w.p), 1);
	assert_ptr_equal(seen(&w, 1)->index, index); /* the filters are the same */
	/* Other words, other filter; the old one goes with the last that holds it. */
	remote_reader(&w, 1, 7, "DDSSQL", "x = %0", "4");
	apus_ctl_publisher_turn(w.p);
	assert_int_equal(apus_ctl_publisher_filter_count(w.p), 2);
	assert_int_equal(seen(&w, 1)->match[0].filter_generation, 7);
	assert_int_equal(seen(&w, 1)->index->filter_count, 2);
	for (int i = 0; i < 2; i++)
		assert_ptr_equal(seen(&w, 1)->index->filters[seen(&w, 1)->match[i].filter_id],
				 seen(&w, 1)->match[i].predicate);
	remote_reader(&w, 2, 8, NULL, NULL, NULL);
	apus_ctl_publisher_turn(w.p);
	apus_ctl_publisher_reclaim(w.p);
	assert_null(seen(&w, 1)->match[1].predicate);
	assert_int_equal(seen(&w, 1)->match[1].filter_generation, 0);
	assert_int_equal(apus_ctl_publisher_filter_count(w.p), 1);
	apus_ctl_graph_remove_endpoint(w.graph, &guid);
	apus_ctl_publisher_turn(w.p);
	apus_ctl_publisher_reclaim(w.p);
	assert_int_equal(apus_ctl_publisher_filter_count(w.p), 0);
	close_world(&w);
}

static void a_held_snapshot_keeps_its_filter(void **state)
{
	const struct apus_dp_writer_snapshot *held;
	struct world w;

	(void)state;
	open_world(&w);
	fixture_add_participant(w.graph, 1);
	local_writer(&w, 1, NULL);
	remote_reader(&w, 1, 1, "DDSSQL", "x = 3", NULL);
	apus_ctl_publisher_turn(w.p);
	take_turn(&w, 0);
	held = seen(&w, 1);
	remote_reader(&w, 1, 2, "DDSSQL", "x = 4", NULL);
	apus_ctl_publisher_turn(w.p);
	apus_ctl_publisher_reclaim(w.p);
	assert_int_equal(eval(held->match[0].predicate, 3), APUS_DP_PASS);
	assert_int_equal(apus_ctl_publisher_filter_count(w.p), 2);
	end_turn(&w, 0);
	apus_ctl_publisher_reclaim(w.p);
	assert_int_equal(apus_ctl_publisher_filter_count(w.p), 1);
	close_world(&w);
}

/* What cannot be compiled is matched, shown, and sent everything. */
static void what_we_cannot_filter_gets_everything(void **state)
{
	struct apus_qos qos;
	struct world w;

	(void)state;
	open_world(&w);
	fixture_add_participant(w.graph, 1);
	local_writer(&w, 1, NULL);
	apus_qos_writer_default(&qos);
	qos.lease_ns = APUS_NS_PER_SEC;
	local_writer(&w, 2, &qos);
	remote_reader(&w, 1, 1, "OTHER", "x = 3", NULL);
	remote_reader(&w, 2, 1, "DDSSQL", "nonsense = 3", NULL);
	remote_reader(&w, 3, 1, "DDSSQL", "x = %0", NULL);
	remote_reader(&w, 4, 1, "DDSSQL", "x = 3", NULL);
	remote_reader(&w, 5, 1, "DDSSQL", "x = 3", NULL);
	apus_ctl_publisher_turn(w.p);
	assert_int_equal(seen(&w, 1)->match_count, 5);
	for (uint32_t i = 0; i < 3; i++)
		assert_null(seen(&w, 1)->match[i].predicate);
	assert_non_null(seen(&w, 1)->match[3].predicate);
	/* A writer with a finite lease does not filter: its readers count every sample as a sign of life. */
	for (uint32_t i = 0; i < 5; i++)
		assert_null(seen(&w, 2)->match[i].predicate);
	assert_int_equal(apus_counter_get(&apus_ctl_publisher_counters(w.p)->filters_refused), 3);
	close_world(&w);
}

static void writer_filtering_can_be_off(void **state)
{
	struct world w;

	(void)state;
	prepare(&w);
	w.config.writer_filtering = false;
	start(&w);
	fixture_add_participant(w.graph, 1);
	local_writer(&w, 1, NULL);
	remote_reader(&w, 1, 1, "DDSSQL", "x = 3", NULL);
	apus_ctl_publisher_turn(w.p);
	assert_null(seen(&w, 1)->match[0].predicate);
	assert_int_equal(apus_ctl_publisher_filter_count(w.p), 0);
	close_world(&w);
}

/* max_remote_reader_filters: the reader beyond it is never filtered, later ones are when a place frees. */
static void the_reader_beyond_the_limit_is_never_filtered(void **state)
{
	struct apus_guid first = fixture_guid(1, 1, false);
	struct world w;

	(void)state;
	prepare(&w);
	w.config.filter_remote_readers = 1;
	start(&w);
	fixture_add_participant(w.graph, 1);
	local_writer(&w, 1, NULL);
	remote_reader(&w, 1, 1, "DDSSQL", "x = 1", NULL);
	apus_ctl_publisher_turn(w.p);
	remote_reader(&w, 2, 1, "DDSSQL", "x = 2", NULL);
	apus_ctl_publisher_turn(w.p);
	assert_non_null(seen(&w, 1)->match[0].predicate);
	assert_null(seen(&w, 1)->match[1].predicate);
	apus_ctl_graph_remove_endpoint(w.graph, &first);
	remote_reader(&w, 2, 2, "DDSSQL", "x = 22", NULL);
	remote_reader(&w, 3, 1, "DDSSQL", "x = 3", NULL);
	apus_ctl_publisher_turn(w.p);
	assert_null(seen(&w, 1)->match[0].predicate);
	assert_non_null(seen(&w, 1)->match[1].predicate);
	close_world(&w);
}

static struct apus_dp_predicate *compiled(const char *expression)
{
	struct apus_dp_predicate *predicate;

	assert_int_equal(apus_ctl_filter_compile(&apus_shape_type, expression, NULL, 0, NULL,
						 &predicate, NULL),
			 0);
	return predicate;
}

static void a_readers_own_filter_is_published_with_its_generation(void **state)
{
	struct apus_ctl_endpoint *reader, *other;
	struct world w;

	(void)state;
	prepare(&w);
	w.config.filter_unique = 1;
	start(&w);
	reader = local_reader(&w, 1, NULL);
	other = local_reader(&w, 2, NULL);
	assert_int_equal(apus_ctl_publisher_set_filter(w.p, reader, compiled("x = 1"), 1), 0);
	apus_ctl_publisher_turn(w.p);
	assert_int_equal(seen_by_reader(&w, 1)->filter_generation, 1);
	assert_int_equal(eval(seen_by_reader(&w, 1)->filter, 1), APUS_DP_PASS);
	/* A change at the limit succeeds, one more filter does not, an older generation does not. */
	assert_int_equal(apus_ctl_publisher_set_filter(w.p, reader, compiled("x = 2"), 2), 0);
	assert_int_equal(apus_ctl_publisher_set_filter(w.p, other, compiled("x = 3"), 1),
			 APUS_ELIMIT);
	assert_int_equal(apus_ctl_publisher_set_filter(w.p, reader, compiled("x = 4"), 2),
			 APUS_EINVAL);
	apus_ctl_publisher_turn(w.p);
	assert_int_equal(seen_by_reader(&w, 1)->filter_generation, 2);
	assert_int_equal(eval(seen_by_reader(&w, 1)->filter, 2), APUS_DP_PASS);
	assert_int_equal(eval(seen_by_reader(&w, 1)->filter, 1), APUS_DP_REJECT);
	assert_int_equal(apus_ctl_publisher_set_filter(w.p, reader, NULL, 3), 0);
	apus_ctl_publisher_turn(w.p);
	apus_ctl_publisher_reclaim(w.p);
	assert_null(seen_by_reader(&w, 1)->filter);
	assert_int_equal(seen_by_reader(&w, 1)->filter_generation, 3);
	assert_int_equal(apus_ctl_publisher_filter_count(w.p), 0);
	close_world(&w);
}

/* Who has a place keeps it through a change; whoever shares one does not gain another by changing. */
static void a_remote_change_at_the_limit_succeeds(void **state)
{
	char expression[32];
	struct world w;

	(void)state;
	prepare(&w);
	w.config.filter_unique = 2;
	start(&w);
	fixture_add_participant(w.graph, 1);
	local_writer(&w, 1, NULL);
	local_writer(&w, 2, NULL);
	remote_reader(&w, 1, 1, "DDSSQL", "x = 1", NULL);
	remote_reader(&w, 2, 1, "DDSSQL", "x = 2", NULL);
	remote_reader(&w, 3, 1, "DDSSQL", "x = 2", NULL);
	apus_ctl_publisher_turn(w.p);
	for (uint32_t k = 2; k < 20; k++) {
		snprintf(expression, sizeof(expression), "x = %u", 100 + k);
		remote_reader(&w, 1, k, "DDSSQL", expression, NULL);
		apus_ctl_publisher_turn(w.p);
		apus_ctl_publisher_reclaim(w.p);
		for (uint32_t i = 1; i <= 2; i++) {
			assert_non_null(seen(&w, i)->match[0].predicate);
			assert_int_equal(eval(seen(&w, i)->match[0].predicate, (int32_t)(100 + k)),
					 APUS_DP_PASS);
		}
		assert_int_equal(apus_ctl_publisher_filter_count(w.p), 2);
	}
	/* Two have the other one. */
	remote_reader(&w, 2, 2, "DDSSQL", "x = 3", NULL);
	apus_ctl_publisher_turn(w.p);
	apus_ctl_publisher_reclaim(w.p);
	assert_null(seen(&w, 1)->match[1].predicate);
	assert_null(seen(&w, 2)->match[1].predicate);
	assert_non_null(seen(&w, 1)->match[2].predicate);
	/* Now one has. */
	remote_reader(&w, 3, 2, "DDSSQL", "x = 4", NULL);
	apus_ctl_publisher_turn(w.p);
	apus_ctl_publisher_reclaim(w.p);
	assert_int_equal(eval(seen(&w, 1)->match[2].predicate, 4), APUS_DP_PASS);
	assert_int_equal(eval(seen(&w, 2)->match[2].predicate, 4), APUS_DP_PASS);
	assert_int_equal(apus_ctl_publisher_filter_count(w.p), 2);
	/* While nothing can be reclaimed changes stop at three times the limit. */
	take_turn(&w, 0);
	for (uint32_t k = 20; k < 40; k++) {
		snprintf(expression, sizeof(expression), "x = %u", 100 + k);
		remote_reader(&w, 1, k, "DDSSQL", expression, NULL);
		apus_ctl_publisher_turn(w.p);
		apus_ctl_publisher_reclaim(w.p);
		assert_true(apus_ctl_publisher_filter_count(w.p) <= 6);
	}
	end_turn(&w, 0);
	apus_ctl_publisher_turn(w.p);
	apus_ctl_publisher_reclaim(w.p);
	close_world(&w);
}

/* What remote readers announce takes no room from local ones; theirs is taken as long as all are fewer. */
static void strangers_take_no_room_from_own_filters(void **state)
{
	struct apus_ctl_endpoint *reader, *other;
	struct world w;

	(void)state;
	prepare(&w);
	w.config.filter_unique = 2;
	start(&w);
	fixture_add_participant(w.graph, 1);
	local_writer(&w, 1, NULL);
	remote_reader(&w, 1, 1, "DDSSQL", "x = 1", NULL);
	remote_reader(&w, 2, 1, "DDSSQL", "x = 2", NULL);
	remote_reader(&w, 3, 1, "DDSSQL", "x = 3", NULL);
	apus_ctl_publisher_turn(w.p);
	assert_int_equal(apus_ctl_publisher_filter_count(w.p), 2);
	assert_null(seen(&w, 1)->match[2].predicate);
	reader = local_reader(&w, 2, NULL);
	other = local_reader(&w, 3, NULL);
	assert_int_equal(apus_ctl_publisher_set_filter(w.p, reader, compiled("x = 4"), 1), 0);
	assert_int_equal(apus_ctl_publisher_set_filter(w.p, other, compiled("x = 5"), 1), 0);
	assert_int_equal(apus_ctl_publisher_filter_count(w.p), 4);
	assert_int_equal(
		apus_ctl_publisher_set_filter(w.p, local_reader(&w, 1, NULL), compiled("x = 6"), 1),
		APUS_ELIMIT);
	/* Own ones count for a stranger's, and leave their places when they go. */
	remote_reader(&w, 3, 2, "DDSSQL", "x = 33", NULL);
	apus_ctl_publisher_turn(w.p);
	assert_null(seen(&w, 1)->match[2].predicate);
	assert_int_equal(apus_ctl_publisher_set_filter(w.p, reader, NULL, 2), 0);
	assert_int_equal(apus_ctl_publisher_set_filter(w.p, other, NULL, 2), 0);
	apus_ctl_publisher_turn(w.p);
	apus_ctl_publisher_reclaim(w.p);
	assert_int_equal(apus_ctl_publisher_filter_count(w.p), 2);
	close_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_writers_snapshot_says_what_the_graph_says),
		cmocka_unit_test(a_readers_snapshot_says_what_the_graph_says),
		cmocka_unit_test(builtin_endpoints_are_served_too),
		cmocka_unit_test(a_turn_publishes_an_endpoint_once),
		cmocka_unit_test(news_of_filters_alone_wait),
		cmocka_unit_test(filters_of_few_readers_do_not_wait),
		cmocka_unit_test(nothing_is_freed_while_a_word_is_older),
		cmocka_unit_test(generations_are_bounded_and_later_changes_coalesce),
		cmocka_unit_test(an_endpoint_that_goes_leaves_its_port_empty),
		cmocka_unit_test(statuses_reach_the_hook_without_a_snapshot),
		cmocka_unit_test(filters_are_compiled_once_and_shared),
		cmocka_unit_test(a_held_snapshot_keeps_its_filter),
		cmocka_unit_test(what_we_cannot_filter_gets_everything),
		cmocka_unit_test(writer_filtering_can_be_off),
		cmocka_unit_test(the_reader_beyond_the_limit_is_never_filtered),
		cmocka_unit_test(a_remote_change_at_the_limit_succeeds),
		cmocka_unit_test(a_readers_own_filter_is_published_with_its_generation),
		cmocka_unit_test(strangers_take_no_room_from_own_filters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
