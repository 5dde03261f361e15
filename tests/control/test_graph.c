/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the graph holds exactly the matches the rule asks for, within its capacities, in a fixed order.
 * Method: 12,000 random sets of endpoints are added, repeated, changed and removed in random order and
 * compared after each phase with a rule written a second time, here, over all pairs; capacities, refusals
 * and refreshes are tried one by one with their exact consequences.
 */
#include "tests/control/graph_fixture.h"

#include <fnmatch.h>
#include <stdio.h>

/* ---- a second opinion --------------------------------------------------------------------------- */

static bool is_pattern(const char *name)
{
	return strpbrk(name, "*?[") != NULL;
}

static bool reference_partitions(const struct apus_qos *a, const struct apus_qos *b)
{
	static const char *const none[] = {""};
	const char *const *names_a = a->partition_count ? a->partitions : none;
	const char *const *names_b = b->partition_count ? b->partitions : none;

	for (uint32_t i = 0; i < (a->partition_count ? a->partition_count : 1); i++)
		for (uint32_t j = 0; j < (b->partition_count ? b->partition_count : 1); j++) {
			const char *x = names_a[i], *y = names_b[j];

			if (is_pattern(x) && is_pattern(y))
				continue;
			if (is_pattern(x)   ? !fnmatch(x, y, 0)
			    : is_pattern(y) ? !fnmatch(y, x, 0)
					    : !strcmp(x, y))
				return true;
		}
	return false;
}

static bool reference_presentation(const struct apus_qos *o, const struct apus_qos *r)
{
	return o->access_scope >= r->access_scope && o->coherent_access >= r->coherent_access &&
	       o->ordered_access >= r->ordered_access;
}

/* DDS 1.4 §2.2.3, the table of request/offer policies, in the fixed order. */
static int reference_qos(const struct apus_qos *o, const struct apus_qos *r)
{
	if (o->durability < r->durability)
		return APUS_POLICY_DURABILITY;
	if (!reference_presentation(o, r))
		return APUS_POLICY_PRESENTATION;
	if (o->deadline_ns > r->deadline_ns)
		return APUS_POLICY_DEADLINE;
	if (o->latency_budget_ns > r->latency_budget_ns)
		return APUS_POLICY_LATENCY_BUDGET;
	if (o->ownership != r->ownership)
		return APUS_POLICY_OWNERSHIP;
	if (o->liveliness < r->liveliness || o->lease_ns > r->lease_ns)
		return APUS_POLICY_LIVELINESS;
	if (o->reliability < r->reliability)
		return APUS_POLICY_RELIABILITY;
	if (o->destination_order < r->destination_order)
		return APUS_POLICY_DESTINATION_ORDER;
	return reference_partitions(o, r) ? APUS_POLICY_NONE : APUS_POLICY_PARTITION;
}

/* ---- random sets -------------------------------------------------------------------------------- */

#define SET_MAX      24
#define PARTICIPANTS 3 /* 0 is ours */

struct item {
	uint32_t participant, key;
	bool is_writer, present;
	int topic, type;
	struct apus_qos qos;
	const char *partitions[3];
	apus_seq generation;
};

static const char *const topics[] = {"Square", "Circle", "Triangle"};
static const char *const types[] = {"ShapeType", "Other"};
static const char *const partition_pool[] = {"",  "a", "ab",  "b/c",  "a*",
					     "*", "?", "b/*", "[ab]", "zz"};

static void random_partitions(struct item *it, uint64_t *rng)
{
	it->qos.partition_count = fixture_below(rng, 4);
	for (uint32_t i = 0; i < it->qos.partition_count; i++)
		it->partitions[i] = partition_pool[fixture_below(rng, 10)];
	it->qos.partitions = it->qos.partition_count ? it->partitions : NULL;
}

static void random_qos(struct item *it, uint64_t *rng)
{
	struct apus_qos *q = &it->qos;

	if (it->is_writer)
		apus_qos_writer_default(q);
	else
		apus_qos_reader_default(q);
	/* Mostly defaults, so that a good part of the pairs fits. */
	if (fixture_below(rng, 3) == 0)
		q->reliability = (uint8_t)fixture_below(rng, 2);
	if (fixture_below(rng, 3) == 0)
		q->durability = (uint8_t)fixture_below(rng, 2);
	if (fixture_below(rng, 6) == 0)
		q->ownership = (uint8_t)fixture_below(rng, 2);
	if (fixture_below(rng, 6) == 0)
		q->destination_order = (uint8_t)fixture_below(rng, 2);
	if (fixture_below(rng, 6) == 0)
		q->liveliness = (uint8_t)fixture_below(rng, 3);
	if (fixture_below(rng, 6) == 0)
		q->lease_ns = APUS_NS_PER_SEC * (1 + fixture_below(rng, 3));
	if (fixture_below(rng, 6) == 0)
		q->deadline_ns = APUS_NS_PER_SEC * (1 + fixture_below(rng, 3));
	if (fixture_below(rng, 8) == 0)
		q->latency_budget_ns = fixture_below(rng, 3);
	if (fixture_below(rng, 8) == 0)
		q->access_scope = (uint8_t)fixture_below(rng, 3);
	if (fixture_below(rng, 8) == 0)
		q->coherent_access = true;
	if (fixture_below(rng, 2) == 0)
		random_partitions(it, rng);
}

static uint32_t random_set(struct item *items, uint64_t *rng)
{
	uint32_t count = 2 + fixture_below(rng, SET_MAX - 1);

	for (uint32_t i = 0; i < count; i++) {
		struct item *it = &items[i];

		memset(it, 0, sizeof(*it));
		it->participant = fixture_below(rng, PARTICIPANTS);
		it->key = i + 1;
		it->is_writer = fixture_below(rng, 2);
		it->topic = (int)fixture_below(rng, 3);
		it->type = fixture_below(rng, 8) == 0;
		random_qos(it, rng);
	}
	return count;
}

static const struct apus_ctl_type_rule no_rule;

static int reference_mismatch(const struct item *w, const struct item *r)
{
	if (w->topic != r->topic)
		return APUS_POLICY_TOPIC;
	if (w->type != r->type)
		return APUS_POLICY_TYPE;
	return reference_qos(&w->qos, &r->qos);
}

static int announce(struct apus_ctl_graph *g, struct item *it)
{
	static const struct apus_ctl_local none;
	struct apus_wire_endpoint_record record;

	fixture_record(&record, it->participant, it->key, it->is_writer, topics[it->topic],
		       types[it->type], &it->qos);
	return apus_ctl_graph_add_endpoint(g, &record, it->participant ? NULL : &none,
					   it->generation, NULL);
}

static struct apus_ctl_endpoint *lookup(const struct apus_ctl_graph *g, const struct item *it)
{
	struct apus_guid guid = fixture_guid(it->participant, it->key, it->is_writer);

	return apus_ctl_graph_endpoint(g, &guid);
}

static void compare_pair(const struct apus_ctl_graph *g, const struct item *w, const struct item *r,
			 uint32_t *expected)
{
	struct apus_ctl_endpoint *writer = lookup(g, w), *reader = lookup(g, r);
	bool match;

	assert_int_equal(writer != NULL, w->present);
	assert_int_equal(reader != NULL, r->present);
	if (!writer || !reader)
		return;
	match = reference_mismatch(w, r) == APUS_POLICY_NONE &&
		(!w->participant || !r->participant);
	*expected += match;
	assert_int_equal(apus_ctl_graph_match(g, writer, reader) != NULL, match);
	assert_int_equal(apus_ctl_graph_mismatch(writer->record, reader->record, &no_rule),
			 reference_mismatch(w, r));
}

/* The lists of both directions hold each match once, with ids that grow along them. */
static uint32_t count_lists(const struct apus_ctl_graph *g)
{
	uint32_t total = 0;

	for (struct apus_ctl_endpoint *e = NULL; (e = apus_ctl_graph_next_endpoint(g, e));) {
		uint32_t count = 0;
		uint64_t last = 0;

		for (struct apus_ctl_match *m = NULL; (m = apus_ctl_graph_next_match(g, e, m));) {
			assert_true(m->id > last);
			assert_int_equal(e->is_writer ? m->writer : m->reader, e->idx);
			last = m->id;
			count++;
		}
		assert_int_equal(count, e->match_count);
		total += count;
	}
	return total;
}

static void compare(const struct apus_ctl_graph *g, const struct item *items, uint32_t count)
{
	uint32_t expected = 0;

	for (uint32_t i = 0; i < count; i++)
		for (uint32_t j = 0; j < count; j++)
			if (items[i].is_writer && !items[j].is_writer)
				compare_pair(g, &items[i], &items[j], &expected);
	assert_int_equal(apus_ctl_graph_match_count(g), expected);
	assert_int_equal(count_lists(g), 2 * expected);
}

/* Announces everything, shuffled, each item one to three times. */
static void announce_all(struct apus_ctl_graph *g, struct item *items, uint32_t count,
			 uint64_t *rng)
{
	uint32_t remaining[SET_MAX], left = 0;

	for (uint32_t i = 0; i < count; i++)
		left += remaining[i] = 1 + fixture_below(rng, 3);
	while (left) {
		uint32_t i = fixture_below(rng, count);
		int result;

		if (!remaining[i])
			continue;
		remaining[i]--;
		left--;
		items[i].generation += fixture_below(rng, 2) || !items[i].present;
		result = announce(g, &items[i]);
		assert_int_equal(result, items[i].present ? APUS_CTL_UNCHANGED : APUS_CTL_ADMITTED);
		items[i].present = true;
	}
}

static void random_sets_match_as_the_reference_says(void **state)
{
	uint64_t rng = 20240607;
	struct item items[SET_MAX];

	(void)state;
	for (int round = 0; round < 12000; round++) {
		struct apus_ctl_graph_config config = fixture_config();
		uint32_t count = random_set(items, &rng);
		struct apus_ctl_graph *g;

		config.hash_seed = fixture_random(&rng);
		g = fixture_graph(&config);
		for (uint32_t p = 1; p < PARTICIPANTS; p++)
			fixture_add_participant(g, p);
		announce_all(g, items, count, &rng);
		compare(g, items, count);
		for (uint32_t i = 0; i < count; i++)
			if (fixture_below(&rng, 3) == 0) {
				random_partitions(&items[i], &rng);
				items[i].generation++;
				assert_true(announce(g, &items[i]) > 0);
			}
		compare(g, items, count);
		for (uint32_t i = 0; i < count; i++)
			if (fixture_below(&rng, 3) == 0) {
				struct apus_guid guid = lookup(g, &items[i])->guid;

				assert_int_equal(apus_ctl_graph_remove_endpoint(g, &guid), 0);
				items[i].present = false;
			}
		compare(g, items, count);
		struct apus_prefix lost = fixture_prefix(1);
		assert_int_equal(apus_ctl_graph_remove_participant(g, &lost), 0);
		for (uint32_t i = 0; i < count; i++)
			items[i].present &= items[i].participant != 1;
		compare(g, items, count);
		apus_ctl_graph_destroy(g);
	}
}

/* ---- order and identity ------------------------------------------------------------------------- */

static void iteration_follows_admission_local_first(void **state)
{
	struct apus_ctl_graph_config config = fixture_config();
	struct apus_ctl_graph *g = fixture_graph(&config);
	static const struct {
		uint32_t participant, key;
	} expected[] = {{0, 2}, {0, 4}, {1, 1}, {2, 3}, {1, 6}};
	struct apus_guid removed = fixture_guid(1, 5, true);
	struct apus_ctl_endpoint *e = NULL;

	(void)state;
	fixture_add_participant(g, 1);
	fixture_add_participant(g, 2);
	fixture_add(g, 1, 1, true, "t", NULL, 1, NULL);
	fixture_add(g, 0, 2, true, "t", NULL, 1, NULL);
	fixture_add(g, 2, 3, true, "t", NULL, 1, NULL);
	fixture_add(g, 1, 5, true, "t", NULL, 1, NULL);
	fixture_add(g, 0, 4, true, "t", NULL, 1, NULL);
	assert_int_equal(apus_ctl_graph_remove_endpoint(g, &removed), 0);
	assert_int_equal(apus_ctl_graph_remove_endpoint(g, &removed), APUS_ENOENT);
	fixture_add(g, 1, 6, true, "t", NULL, 1, NULL);
	for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
		struct apus_guid guid =
			fixture_guid(expected[i].participant, expected[i].key, true);

		e = apus_ctl_graph_next_endpoint(g, e);
		assert_non_null(e);
		assert_memory_equal(&e->guid, &guid, sizeof(guid));
	}
	assert_null(apus_ctl_graph_next_endpoint(g, e));
	apus_ctl_graph_destroy(g);
}

static void a_match_id_is_never_used_again(void **state)
{
	struct apus_ctl_graph_config config = fixture_config();
	struct apus_ctl_graph *g = fixture_graph(&config);
	struct apus_ctl_endpoint *writer, *reader;
	uint64_t last = 0;

	(void)state;
	fixture_add_participant(g, 1);
	fixture_add(g, 0, 1, true, "t", NULL, 1, &writer);
	for (int i = 0; i < 100; i++) {
		struct apus_ctl_match *m;
		struct apus_guid guid = fixture_guid(1, 2, false);

		fixture_add(g, 1, 2, false, "t", NULL, 1, &reader);
		m = apus_ctl_graph_match(g, writer, reader);
		assert_true(m->id > last);
		last = m->id;
		apus_ctl_graph_remove_endpoint(g, &guid);
	}
	assert_int_equal(writer->matched_total, 100);
	assert_int_equal(writer->transitions, 200);
	assert_int_equal(writer->match_count, 0);
	apus_ctl_graph_destroy(g);
}

/* ---- admission ---------------------------------------------------------------------------------- */

/* What a refusal must leave as it was. */
struct image {
	uint32_t matches, participants;
	uint64_t bytes, last_id;
};

static struct image snapshot(const struct apus_ctl_graph *g)
{
	return (struct image){apus_ctl_graph_match_count(g), apus_ctl_graph_participant_count(g),
			      apus_ctl_graph_record_bytes(g), count_lists(g)};
}

static void assert_refused(struct apus_ctl_graph *g, int result, int expected, struct image before,
			   const struct apus_counter *reason, uint64_t times)
{
	struct image after = snapshot(g);
	uint32_t dirty;

	assert_int_equal(result, expected);
	assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(apus_counter_get(reason), times);
	assert_null(apus_ctl_graph_take_dirty(g, &dirty));
}

static void drain(struct apus_ctl_graph *g)
{
	uint32_t dirty;

	while (apus_ctl_graph_take_dirty(g, &dirty))
		;
}

static void full_tables_refuse_and_change_nothing(void **state)
{
	struct apus_ctl_graph_config config = fixture_config();
	const struct apus_ctl_graph_counters *c;
	struct apus_wire_participant_record r = fixture_participant(3);
	struct apus_ctl_graph *g;

	(void)state;
	config.participants = 2;
	config.local_endpoints = 2;
	config.remote_writers = config.remote_readers = 1;
	g = fixture_graph(&config);
	c = apus_ctl_graph_counters(g);
	fixture_add_participant(g, 1);
	fixture_add_participant(g, 2);
	fixture_add(g, 0, 1, true, "t", NULL, 1, NULL);
	fixture_add(g, 0, 2, false, "t", NULL, 1, NULL);
	fixture_add(g, 1, 3, true, "t", NULL, 1, NULL);
	fixture_add(g, 1, 4, false, "t", NULL, 1, NULL);
	assert_int_equal(apus_ctl_graph_match_count(g), 3);
	drain(g);

	struct image before = snapshot(g);
	assert_refused(g, apus_ctl_graph_add_participant(g, &r, true, NULL), APUS_ELIMIT, before,
		       &c->refused_participants, 1);
	assert_refused(g, fixture_add(g, 0, 9, true, "t", NULL, 1, NULL), APUS_ELIMIT, before,
		       &c->refused_local, 1);
	assert_refused(g, fixture_add(g, 2, 9, true, "t", NULL, 1, NULL), APUS_ELIMIT, before,
		       &c->refused_writers, 1);
	assert_refused(g, fixture_add(g, 2, 9, false, "t", NULL, 1, NULL), APUS_ELIMIT, before,
		       &c->refused_readers, 1);
	assert_refused(g, fixture_add(g, 7, 9, false, "t", NULL, 1, NULL), APUS_ENOENT, before,
		       &c->refused_orphans, 1);
	/* Known keys are refreshed in a full table all the same. */
	assert_int_equal(fixture_add(g, 1, 3, true, "t", NULL, 2, NULL), APUS_CTL_UNCHANGED);
	r = fixture_participant(2);
	assert_int_equal(apus_ctl_graph_add_participant(g, &r, true, NULL), APUS_CTL_UNCHANGED);
	apus_ctl_graph_destroy(g);
}

static void matches_are_counted_before_anything_is_written(void **state)
{
	struct apus_ctl_graph_config config = fixture_config();
	struct apus_ctl_graph *g;
	struct apus_ctl_endpoint *e;
	uint64_t id;

	(void)state;
	config.matches = 3;
	g = fixture_graph(&config);
	fixture_add_participant(g, 1);
	fixture_add(g, 0, 1, true, "t", NULL, 1, &e);
	fixture_add(g, 0, 2, true, "t", NULL, 1, NULL);
	fixture_add(g, 1, 3, false, "t", NULL, 1, NULL);
	id = apus_ctl_graph_next_match(g, e, NULL)->id;
	drain(g);
	struct image before = snapshot(g);
	assert_refused(g, fixture_add(g, 1, 4, false, "t", NULL, 1, NULL), APUS_ELIMIT, before,
		       &apus_ctl_graph_counters(g)->refused_matches, 1);
	struct apus_guid guid = fixture_guid(1, 3, false);
	apus_ctl_graph_remove_endpoint(g, &guid);
	assert_int_equal(fixture_add(g, 1, 4, false, "t", NULL, 1, NULL), APUS_CTL_ADMITTED);
	/* Two matches before, so the refused announcement spent no identity. */
	assert_int_equal(apus_ctl_graph_next_match(g, e, NULL)->id, id + 2);
	apus_ctl_graph_destroy(g);
}

static void records_stay_within_their_bytes(void **state)
{
	struct apus_ctl_graph_config config = fixture_config();
	struct apus_wire_endpoint_record record;
	const char *names[] = {"a much longer partition name than before"};
	struct apus_qos qos;
	struct apus_ctl_graph *g;

	(void)state;
	fixture_record(&record, 1, 1, true, "t", "T", NULL);
	config.record_bytes = (uint32_t)apus_wire_endpoint_record_bytes(&record);
	g = fixture_graph(&config);
	fixture_add_participant(g, 1);
	assert_int_equal(fixture_add(g, 1, 1, true, "t", NULL, 1, NULL), APUS_CTL_ADMITTED);
	assert_int_equal(apus_ctl_graph_record_bytes(g), config.record_bytes);
	struct image before = snapshot(g);
	assert_refused(g, fixture_add(g, 1, 2, true, "t", NULL, 1, NULL), APUS_ELIMIT, before,
		       &apus_ctl_graph_counters(g)->refused_bytes, 1);
	apus_qos_writer_default(&qos);
	qos.partitions = names;
	qos.partition_count = 1;
	assert_refused(g, fixture_add(g, 1, 1, true, "t", &qos, 2, NULL), APUS_ELIMIT, before,
		       &apus_ctl_graph_counters(g)->refused_bytes, 2);
	struct apus_guid guid = fixture_guid(1, 1, true);
	apus_ctl_graph_remove_endpoint(g, &guid);
	assert_int_equal(apus_ctl_graph_record_bytes(g), 0);
	apus_ctl_graph_destroy(g);
}

static void contradictions_are_refused_on_the_spot(void **state)
{
	struct apus_ctl_graph_config config = fixture_config();
	struct apus_ctl_graph *g = fixture_graph(&config);
	const struct apus_counter *reason = &apus_ctl_graph_counters(g)->refused_qos;
	struct apus_wire_endpoint_record record;
	struct image before;

	(void)state;
	fixture_add_participant(g, 1);
	before = snapshot(g);
	fixture_record(&record, 1, 1, true, "t", "T", NULL);
	record.qos.depth = 5;
	record.qos.max_samples_per_instance = 4;
	assert_refused(g, apus_ctl_graph_add_endpoint(g, &record, NULL, 1, NULL), APUS_EQOS, before,
		       reason, 1);
	record.qos.max_samples_per_instance = 6;
	record.qos.max_samples = 5;
	assert_refused(g, apus_ctl_graph_add_endpoint(g, &record, NULL, 1, NULL), APUS_EQOS, before,
		       reason, 2);
	record.qos.max_samples = 6;
	assert_int_equal(apus_ctl_graph_add_endpoint(g, &record, NULL, 1, NULL), APUS_CTL_ADMITTED);
	fixture_record(&record, 1, 2, false, "t", "T", NULL);
	record.qos.deadline_ns = 10;
	record.qos.time_filter_ns = 11;
	before = snapshot(g);
	assert_refused(g, apus_ctl_graph_add_endpoint(g, &record, NULL, 1, NULL), APUS_EQOS, before,
		       reason, 3);
	apus_ctl_graph_destroy(g);
}

static void an_endpoint_keeps_its_kind_and_names(void **state)
{
	struct apus_ctl_graph_config config = fixture_config();
	struct apus_ctl_graph *g = fixture_graph(&config);
	struct apus_wire_endpoint_record record;
	static const struct apus_ctl_local none;

	(void)state;
	fixture_add_participant(g, 1);
	fixture_add(g, 1, 1, true, "t", NULL, 5, NULL);
	assert_int_equal(fixture_add(g, 1, 1, true, "u", NULL, 6, NULL), APUS_EIMMUTABLE);
	fixture_record(&record, 1, 1, true, "t", "U", NULL);
	assert_int_equal(apus_ctl_graph_add_endpoint(g, &record, NULL, 6, NULL), APUS_EIMMUTABLE);
	/* Late ones are told apart by their sequence number. */
	assert_int_equal(fixture_add(g, 1, 1, true, "u", NULL, 5, NULL), APUS_CTL_UNCHANGED);
	assert_int_equal(apus_counter_get(&apus_ctl_graph_counters(g)->stale), 1);
	/* Ours only with our prefix, others' only with theirs; generations start at 1. */
	fixture_record(&record, 1, 2, true, "t", "T", NULL);
	assert_int_equal(apus_ctl_graph_add_endpoint(g, &record, &none, 1, NULL), APUS_EINVAL);
	assert_int_equal(apus_ctl_graph_add_endpoint(g, &record, NULL, 0, NULL), APUS_EINVAL);
	fixture_record(&record, 0, 2, true, "t", "T", NULL);
	assert_int_equal(apus_ctl_graph_add_endpoint(g, &record, NULL, 1, NULL), APUS_EINVAL);
	apus_ctl_graph_destroy(g);
}

/* ---- room that comes back, statuses, built-in endpoints ----------------------------------------- */

static void a_freed_place_goes_to_whoever_went_without(void **state)
{
	struct apus_ctl_graph_config config = fixture_config();
	struct apus_ctl_graph *g;
	struct apus_ctl_endpoint *writer, *third;
	struct apus_guid first = fixture_guid(1, 2, false);

	(void)state;
	config.matches_per_endpoint = 2;
	g = fixture_graph(&config);
	fixture_add_participant(g, 1);
	fixture_add(g, 0, 1, true, "t", NULL, 1, &writer);
	fixture_add(g, 1, 2, false, "t", NULL, 1, NULL);
	fixture_add(g, 1, 3, false, "t", NULL, 1, NULL);
	assert_int_equal(fixture_add(g, 1, 4, false, "t", NULL, 1, &third), APUS_CTL_ADMITTED);
	assert_int_equal(writer->match_count, 2);
	assert_null(apus_ctl_graph_match(g, writer, third));
	assert_int_equal(apus_counter_get(&apus_ctl_graph_counters(g)->unmatched_full), 1);
	apus_ctl_graph_remove_endpoint(g, &first);
	assert_int_equal(writer->match_count, 2);
	assert_non_null(apus_ctl_graph_match(g, writer, third));
	assert_false(writer->starved);
	apus_ctl_graph_destroy(g);
}

/* The same when the endpoint that is too small comes last. */
static void a_latecomer_takes_what_it_has_room_for(void **state)
{
	struct apus_ctl_graph_config config = fixture_config();
	struct apus_ctl_graph *g = fixture_graph(&config);
	struct apus_ctl_endpoint *writer, *remote[3];
	struct apus_qos qos;

	(void)state;
	fixture_add_participant(g, 1);
	for (uint32_t i = 0; i < 3; i++)
		fixture_add(g, 1, i + 1, false, "t", NULL, 1, &remote[i]);
	apus_qos_writer_default(&qos);
	qos.max_matches = 2;
	fixture_add(g, 0, 1, true, "t", &qos, 1, &writer);
	assert_int_equal(writer->match_count, 2);
	assert_non_null(apus_ctl_graph_match(g, writer, remote[0]));
	assert_null(apus_ctl_graph_match(g, writer, remote[2]));
	struct apus_guid guid = remote[1]->guid;
	apus_ctl_graph_remove_endpoint(g, &guid);
	assert_non_null(apus_ctl_graph_match(g, writer, remote[2]));
	apus_ctl_graph_destroy(g);
}

static void incompatible_qos_is_counted_once_a_version(void **state)
{
	struct apus_ctl_graph_config config = fixture_config();
	struct apus_ctl_graph *g = fixture_graph(&config);
	struct apus_ctl_endpoint *reader;
	struct apus_qos qos;
	uint32_t dirty;

	(void)state;
	fixture_add_participant(g, 1);
	apus_qos_reader_default(&qos);
	qos.reliability = APUS_RELIABLE;
	fixture_add(g, 0, 1, false, "t", &qos, 1, &reader);
	drain(g);
	apus_qos_writer_default(&qos);
	qos.reliability = APUS_BEST_EFFORT;
	fixture_add(g, 1, 2, true, "t", &qos, 1, NULL);
	fixture_add(g, 1, 2, true, "t", &qos, 1, NULL);
	assert_int_equal(reader->incompatible_total, 1);
	assert_int_equal(reader->incompatible_policy, APUS_POLICY_RELIABILITY);
	assert_ptr_equal(apus_ctl_graph_take_dirty(g, &dirty), reader);
	assert_int_equal(dirty, APUS_CTL_DIRTY_STATUS);
	qos.ownership = APUS_EXCLUSIVE;
	fixture_add(g, 1, 2, true, "t", &qos, 2, NULL);
	assert_int_equal(reader->incompatible_total, 2);
	assert_int_equal(reader->incompatible_policy, APUS_POLICY_OWNERSHIP);
	/* Another partition is no incompatible QoS. */
	apus_qos_writer_default(&qos);
	qos.partitions = (const char *[]){"elsewhere"};
	qos.partition_count = 1;
	fixture_add(g, 1, 3, true, "t", &qos, 1, NULL);
	assert_int_equal(reader->incompatible_total, 2);
	apus_ctl_graph_destroy(g);
}

/* As between two participants: a new version of the writer is news to the reader, and to the writer only what it
 * was matched with. */
static void incompatible_qos_of_our_own_is_counted_once_a_version(void **state)
{
	struct apus_ctl_graph_config config = fixture_config();
	struct apus_ctl_graph *g = fixture_graph(&config);
	struct apus_ctl_endpoint *reader, *writer;
	struct apus_qos qos;
	uint32_t dirty;

	(void)state;
	apus_qos_reader_default(&qos);
	qos.reliability = APUS_RELIABLE;
	qos.deadline_ns = 10 * APUS_NS_PER_SEC;
	fixture_add(g, 0, 1, false, "t", &qos, 1, &reader);
	apus_qos_writer_default(&qos);
	qos.reliability = APUS_BEST_EFFORT;
	fixture_add(g, 0, 2, true, "t", &qos, 1, &writer);
	assert_int_equal(reader->incompatible_total, 1);
	assert_int_equal(writer->incompatible_total, 1);
	assert_int_equal(reader->incompatible_policy, APUS_POLICY_DEADLINE);
	drain(g);
	qos.deadline_ns = 5 * APUS_NS_PER_SEC;
	fixture_add(g, 0, 2, true, "t", &qos, 2, NULL);
	assert_int_equal(reader->incompatible_total, 2);
	assert_int_equal(reader->incompatible_policy, APUS_POLICY_RELIABILITY);
	assert_int_equal(writer->incompatible_total, 1);
	assert_int_equal(writer->incompatible_policy, APUS_POLICY_DEADLINE);
	assert_ptr_equal(apus_ctl_graph_take_dirty(g, &dirty), writer);
	assert_ptr_equal(apus_ctl_graph_take_dirty(g, &dirty), reader);
	assert_int_equal(dirty, APUS_CTL_DIRTY_STATUS);
	/* Fits now; then parts again, which counts once on either side. */
	qos.reliability = APUS_RELIABLE;
	fixture_add(g, 0, 2, true, "t", &qos, 3, NULL);
	assert_int_equal(reader->match_count, 1);
	assert_int_equal(reader->incompatible_total, 2);
	qos.deadline_ns = 20 * APUS_NS_PER_SEC;
	fixture_add(g, 0, 2, true, "t", &qos, 4, NULL);
	assert_int_equal(reader->match_count, 0);
	assert_int_equal(reader->incompatible_total, 3);
	assert_int_equal(writer->incompatible_total, 2);
	assert_int_equal(writer->incompatible_policy, APUS_POLICY_DEADLINE);
	apus_ctl_graph_destroy(g);
}

static void another_type_on_the_topic_is_counted(void **state)
{
	struct apus_ctl_graph_config config = fixture_config();
	struct apus_ctl_graph *g = fixture_graph(&config);
	struct apus_wire_endpoint_record record;
	struct apus_ctl_endpoint *reader, *later;
	static const struct apus_ctl_local none;

	(void)state;
	fixture_add_participant(g, 1);
	fixture_add(g, 0, 1, false, "t", NULL, 1, &reader);
	fixture_record(&record, 1, 2, true, "t", "U", NULL);
	assert_int_equal(apus_ctl_graph_add_endpoint(g, &record, NULL, 1, NULL), APUS_CTL_ADMITTED);
	assert_int_equal(reader->inconsistent_topics, 1);
	assert_int_equal(reader->match_count, 0);
	assert_int_equal(reader->incompatible_total, 0);
	fixture_add(g, 0, 3, true, "t", NULL, 1, &later);
	assert_int_equal(later->inconsistent_topics, 1);
	/* Our own endpoints count as those of others do, in both directions. */
	fixture_record(&record, 0, 4, true, "t", "U", NULL);
	assert_int_equal(apus_ctl_graph_add_endpoint(g, &record, &none, 1, &later),
			 APUS_CTL_ADMITTED);
	assert_int_equal(later->inconsistent_topics, 2);
	assert_int_equal(reader->inconsistent_topics, 2);
	assert_int_equal(reader->incompatible_total, 0);
	apus_ctl_graph_destroy(g);
}

static void type_hashes_decide_where_both_have_them(void **state)
{
	const struct apus_ctl_type_rule by_names = {0}, strictly = {.strict = true};
	struct apus_wire_endpoint_record w, r;

	(void)state;
	fixture_record(&w, 0, 1, true, "t", "T", NULL);
	fixture_record(&r, 1, 1, false, "t", "T", NULL);
	assert_int_equal(apus_ctl_graph_mismatch(&w, &r, &by_names), APUS_POLICY_NONE);
	assert_int_equal(apus_ctl_graph_mismatch(&w, &r, &strictly), APUS_POLICY_TYPE);
	w.types.minimal.kind = APUS_WIRE_EK_MINIMAL;
	w.types.minimal.bytes[0] = 7;
	assert_int_equal(apus_ctl_graph_mismatch(&w, &r, &by_names), APUS_POLICY_NONE);
	r.types.minimal.kind = APUS_WIRE_EK_MINIMAL;
	assert_int_equal(apus_ctl_graph_mismatch(&w, &r, &by_names), APUS_POLICY_TYPE);
	r.types.minimal.bytes[0] = 7;
	assert_int_equal(apus_ctl_graph_mismatch(&w, &r, &strictly), APUS_POLICY_NONE);
}

static void builtin_endpoints_match_by_their_bits(void **state)
{
	struct apus_ctl_graph_config config = fixture_config();
	struct apus_ctl_graph *g = fixture_graph(&config);
	struct apus_wire_participant_record r = fixture_participant(1);
	struct apus_ctl_endpoint *pub, *sub_reader;
	struct apus_ctl_local none = {0};
	struct apus_prefix prefix = fixture_prefix(1);

	(void)state;
	assert_int_equal(apus_ctl_graph_add_builtin(g, (struct apus_eid){0x3c2}, &none, &pub), 0);
	assert_int_equal(apus_ctl_graph_add_builtin(g, (struct apus_eid){0x3c2}, &none, NULL),
			 APUS_EEXIST);
	assert_int_equal(apus_ctl_graph_add_builtin(g, (struct apus_eid){0x3c3}, &none, NULL),
			 APUS_EINVAL);
	r.builtin_endpoints = APUS_WIRE_BUILTIN_PUBLICATIONS_READER;
	assert_int_equal(apus_ctl_graph_add_participant(g, &r, true, NULL), APUS_CTL_ADMITTED);
	assert_int_equal(pub->match_count, 1);
	/* One of ours that comes later, and bits that come and go. */
	assert_int_equal(
		apus_ctl_graph_add_builtin(g, (struct apus_eid){0x4c7}, &none, &sub_reader), 0);
	assert_int_equal(sub_reader->match_count, 0);
	r.builtin_endpoints = APUS_WIRE_BUILTIN_ALL;
	assert_int_equal(apus_ctl_graph_add_participant(g, &r, true, NULL), APUS_CTL_CHANGED);
	assert_int_equal(sub_reader->match_count, 1);
	r.builtin_endpoints = 0;
	apus_ctl_graph_add_participant(g, &r, true, NULL);
	assert_int_equal(pub->match_count + sub_reader->match_count, 0);
	r.builtin_endpoints = APUS_WIRE_BUILTIN_ALL;
	apus_ctl_graph_add_participant(g, &r, true, NULL);
	assert_int_equal(pub->match_count + sub_reader->match_count, 2);
	/* They do not count as matches or endpoints, and go with their participant. */
	assert_int_equal(apus_ctl_graph_match_count(g), 0);
	assert_int_equal(apus_ctl_graph_participant(g, &prefix)->endpoint_count, 0);
	apus_ctl_graph_remove_participant(g, &prefix);
	assert_int_equal(pub->match_count + sub_reader->match_count, 0);
	assert_null(apus_ctl_graph_participant(g, &prefix));
	apus_ctl_graph_destroy(g);
}

static void addresses_follow_the_announcements(void **state)
{
	struct apus_ctl_graph_config config = fixture_config();
	struct apus_ctl_graph *g = fixture_graph(&config);
	struct apus_wire_participant_record p = fixture_participant(1);
	struct apus_wire_endpoint_record record;
	struct apus_ctl_endpoint *writer, *reader;
	uint32_t dirty;

	(void)state;
	apus_ctl_graph_add_participant(g, &p, true, NULL);
	fixture_add(g, 0, 1, true, "t", NULL, 1, &writer);
	fixture_add(g, 1, 2, false, "t", NULL, 1, &reader);
	drain(g);
	assert_int_equal(reader->unicast.port, 7413);
	p.default_unicast.at[0].port = 9999;
	assert_int_equal(apus_ctl_graph_add_participant(g, &p, true, NULL), APUS_CTL_CHANGED);
	assert_int_equal(reader->unicast.port, 9999);
	assert_ptr_equal(apus_ctl_graph_take_dirty(g, &dirty), writer);
	/* Its own address comes before its participant's. */
	fixture_record(&record, 1, 2, false, "t", "T", NULL);
	record.locators.unicast.count = 1;
	record.locators.unicast.at[0] = fixture_locator(127, 0, 0, 1, 5555);
	assert_int_equal(apus_ctl_graph_add_endpoint(g, &record, NULL, 2, NULL), APUS_CTL_CHANGED);
	assert_int_equal(reader->unicast.port, 5555);
	assert_ptr_equal(apus_ctl_graph_take_dirty(g, &dirty), writer);
	assert_int_equal(dirty, APUS_CTL_DIRTY_MATCHES);
	p.default_unicast.at[0].port = 9998;
	apus_ctl_graph_add_participant(g, &p, true, NULL);
	assert_null(apus_ctl_graph_take_dirty(g, &dirty));
	apus_ctl_graph_destroy(g);
}

static void ten_thousand_are_lost_in_one_pass(void **state)
{
	struct apus_ctl_graph_config config = fixture_config();
	struct apus_ctl_graph *g;
	struct apus_ctl_endpoint *writer;
	struct apus_prefix prefix = fixture_prefix(1);
	char topic[16];

	(void)state;
	config.remote_writers = config.remote_readers = 5000;
	config.record_bytes = 64 << 20;
	config.matches = 10000;
	config.matches_per_endpoint = 5000;
	g = fixture_graph(&config);
	fixture_add_participant(g, 1);
	fixture_add(g, 0, 1, true, "t7", NULL, 1, &writer);
	for (uint32_t i = 0; i < 10000; i++) {
		snprintf(topic, sizeof(topic), "t%u", i % 100);
		assert_int_equal(fixture_add(g, 1, i + 1, i % 2, topic, NULL, 1, NULL),
				 APUS_CTL_ADMITTED);
	}
	assert_int_equal(writer->match_count, 0); /* t7 comes with odd i, all writers */
	struct apus_guid guid = fixture_guid(0, 1, true);
	apus_ctl_graph_remove_endpoint(g, &guid);
	fixture_add(g, 0, 1, true, "t8", NULL, 1, &writer);
	assert_int_equal(writer->match_count, 100);
	assert_int_equal(apus_ctl_graph_remove_participant(g, &prefix), 0);
	assert_int_equal(writer->match_count, 0);
	assert_ptr_equal(apus_ctl_graph_next_endpoint(g, NULL), writer);
	assert_null(apus_ctl_graph_next_endpoint(g, writer));
	apus_ctl_graph_destroy(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_sets_match_as_the_reference_says),
		cmocka_unit_test(iteration_follows_admission_local_first),
		cmocka_unit_test(a_match_id_is_never_used_again),
		cmocka_unit_test(full_tables_refuse_and_change_nothing),
		cmocka_unit_test(matches_are_counted_before_anything_is_written),
		cmocka_unit_test(records_stay_within_their_bytes),
		cmocka_unit_test(contradictions_are_refused_on_the_spot),
		cmocka_unit_test(an_endpoint_keeps_its_kind_and_names),
		cmocka_unit_test(a_freed_place_goes_to_whoever_went_without),
		cmocka_unit_test(a_latecomer_takes_what_it_has_room_for),
		cmocka_unit_test(incompatible_qos_is_counted_once_a_version),
		cmocka_unit_test(incompatible_qos_of_our_own_is_counted_once_a_version),
		cmocka_unit_test(another_type_on_the_topic_is_counted),
		cmocka_unit_test(type_hashes_decide_where_both_have_them),
		cmocka_unit_test(builtin_endpoints_match_by_their_bits),
		cmocka_unit_test(addresses_follow_the_announcements),
		cmocka_unit_test(ten_thousand_are_lost_in_one_pass),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
