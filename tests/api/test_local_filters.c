/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: readers of the writer's own worker whose filters stand in its index get exactly what each would let pass, are
 * counted the same, lose nothing, and a filter that changes in the middle takes effect from the next sample on.
 * Method: one driven participant, so that what is written is there; many readers with random filters beside one
 * without, and a model that evaluates each filter by hand.
 */
#include <apus/apus.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dataplane/entity.h"
#include "dataplane/reader.h"
#include "dataplane/worker.h"
#include "dataplane/writer.h"

#define READERS 40
#define QUEUE   512
#define SEC     INT64_C(1000000000)

static const char *const colors[] = {"RED", "GREEN", "BLUE", "BLACK"};

/* What a filter says, and what its reader has to have. */
struct model {
	struct apus_reader *reader;
	int kind; /* 0: none; 1: colour; 2: range; 3: neither can be indexed; 4: both */
	int color, low, high;
	bool small;           /* its history holds four samples */
	int32_t queue[QUEUE]; /* 1000 * colour + x */
	int queued;
	uint64_t rejected, received;
};

static struct apus_participant *p;
static struct apus_writer *w;
static struct model models[READERS];
static struct apus_sample samples[QUEUE];

static uint32_t random_below(uint32_t n)
{
	static uint64_t seed = 7;

	seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t)(seed >> 33) % n;
}

static bool passes(const struct model *m, int color, int x)
{
	bool in = x >= m->low && x <= m->high;

	switch (m->kind) {
	case 1: return color == m->color;
	case 2: return in;
	case 3: return color != m->color || in;
	case 4: return color == m->color && in;
	default: return true;
	}
}

/* A few different filters only, so that readers share them. */
static const char *choose(struct model *m, int kind, char text[160])
{
	m->kind = kind;
	m->color = (int)random_below(4);
	m->low = 10 * (int)random_below(5);
	m->high = m->low + 19;
	switch (kind) {
	case 1: snprintf(text, 160, "color = '%s'", colors[m->color]); return text;
	case 2: snprintf(text, 160, "x BETWEEN %d AND %d", m->low, m->high); return text;
	case 3:
		snprintf(text, 160, "color <> '%s' OR x BETWEEN %d AND %d", colors[m->color],
			 m->low, m->high);
		return text;
	case 4:
		snprintf(text, 160, "color = '%s' AND x BETWEEN %d AND %d", colors[m->color],
			 m->low, m->high);
		return text;
	default: return NULL;
	}
}

static void open_all(const char *domain, bool reliable, uint32_t batch_bytes)
{
	struct apus_config *c = apus_config_create();
	struct apus_endpoint_options o = {.topic = "A", .type = &apus_shape_type};
	struct apus_qos q;
	char why[256] = "", text[160];

	assert_int_equal(apus_config_set(c, "interfaces", "lo", why, sizeof(why)), 0);
	assert_int_equal(apus_config_set(c, "domain", domain, why, sizeof(why)), 0);
	assert_int_equal(apus_config_set(c, "worker.mode", "driven", why, sizeof(why)), 0);
	if (apus_participant_create(c, &p, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	apus_config_destroy(c);
	apus_qos_writer_default(&q);
	q.history = APUS_KEEP_ALL;
	q.max_samples = q.max_samples_per_instance = QUEUE;
	q.max_matches = READERS + 4;
	q.batch_bytes = batch_bytes;
	q.batch_delay_ns = batch_bytes ? APUS_INFINITE_NS : 0;
	o.qos = &q;
	assert_int_equal(apus_writer_create(p, &o, &w), 0);
	apus_qos_reader_default(&q);
	q.reliability = reliable ? APUS_RELIABLE : APUS_BEST_EFFORT;
	q.history = APUS_KEEP_ALL;
	o.qos = &q;
	memset(models, 0, sizeof(models));
	for (int i = 0; i < READERS; i++) {
		struct model *m = &models[i];

		m->small = reliable && i % 5 == 4;
		q.max_samples = q.max_samples_per_instance = m->small ? 4 : QUEUE;
		q.max_instances = 4;
		o.filter_expression = choose(m, i % 5, text);
		assert_int_equal(apus_reader_create(p, &o, &m->reader), 0);
	}
	assert_int_equal(apus_writer_wait_matched(w, READERS, SEC), 0);
	for (int i = 0; i < READERS; i++)
		assert_int_equal(apus_reader_wait_matched(models[i].reader, 1, SEC), 0);
}

static void put(int color, int x)
{
	struct apus_shape v = {.x = x, .shapesize = 30};

	strcpy(v.color, colors[color]);
	assert_int_equal(apus_write(w, &v), 0);
	for (int i = 0; i < READERS; i++) {
		struct model *m = &models[i];

		m->received++;
		if (passes(m, color, x))
			m->queue[m->queued++] = 1000 * color + x;
		else
			m->rejected++;
	}
}

static int color_of(const char *name)
{
	int color = 0;

	while (strcmp(colors[color], name) != 0)
		color++;
	return color;
}

/* Takes everything, from small ones again and again. It comes by instances. */
static void check_queue(struct model *m)
{
	int next[4] = {0}, at = 0, color, n;

	while ((n = apus_take(m->reader, samples, QUEUE, NULL)) > 0) {
		for (int i = 0; i < n; i++) {
			struct apus_shape v = {0};

			if (!samples[i].info.valid_data)
				continue;
			assert_true(apus_type_decode(&apus_shape_type, samples[i].payload,
						     samples[i].payload_bytes, false, &v, NULL,
						     0) >= 0);
			color = color_of(v.color);
			while (next[color] < m->queued && m->queue[next[color]] / 1000 != color)
				next[color]++;
			assert_true(next[color] < m->queued);
			assert_int_equal(v.x, m->queue[next[color]++] % 1000);
			at++;
		}
		assert_int_equal(apus_return(m->reader, samples, (uint32_t)n), 0);
	}
	assert_int_equal(n, 0);
	assert_int_equal(at, m->queued);
	m->queued = 0;
}

static void check_queues(void)
{
	for (int i = 0; i < READERS; i++)
		check_queue(&models[i]);
}

struct seen {
	uint64_t rejected, received, lost;
};

static void look(const struct apus_stat *stat, void *user)
{
	struct seen *s = user;

	if (strcmp(stat->name, "reader.rejected.filter") == 0)
		s->rejected = stat->value;
	else if (strcmp(stat->name, "reader.received") == 0)
		s->received = stat->value;
}

static void check_counters(void)
{
	for (int i = 0; i < READERS; i++) {
		struct model *m = &models[i];
		struct seen s = {0};

		apus_visit_reader_stats(m->reader, look, &s);
		assert_int_equal(s.rejected, m->rejected);
		if (!m->small) /* what is refused comes more than once */
			assert_int_equal(s.received, m->received);
		assert_int_equal(m->reader->dp->inbox.counters.lost, 0);
		assert_int_equal(m->reader->dp->window_lost, 0);
	}
}

/* The number of readers that a sample which nobody lets pass would visit. */
static uint32_t visited_always(void)
{
	put(0, 999);
	assert_int_equal(apus_writer_flush(w) < 0, 0);
	return w->dp->filtering.open_local_count;
}

static void refilter(struct model *m)
{
	char text[160];
	const char *wanted = choose(m, (int)random_below(5), text);
	int kept = 0;

	/* What is queued is tested again. */
	for (int i = 0; i < m->queued; i++)
		if (passes(m, m->queue[i] / 1000, m->queue[i] % 1000))
			m->queue[kept++] = m->queue[i];
	m->queued = kept;
	assert_true(apus_reader_set_filter(m->reader, wanted, NULL, 0, NULL) > 0);
}

/* As if the writer had not heard yet of some readers' present filters. */
static void outdate(void)
{
	struct apus_dp_writer *dp = w->dp;

	apus_dp_worker_take_turn(w->worker);
	for (uint32_t i = 0; i < dp->match_count; i += 2)
		dp->states[dp->order[i]].local_generation += 5;
	dp->refilter = true;
	apus_dp_worker_end_turn(w->worker);
}

static void run(const char *domain, bool reliable, uint32_t batch_bytes)
{
	open_all(domain, reliable, batch_bytes);
	put(0, 5);
	assert_int_equal(apus_writer_flush(w) < 0, 0);
	/* Those without a filter, and nobody else. */
	assert_int_equal(visited_always(), READERS / 5);
	assert_int_equal(w->dp->indexed_count, READERS - READERS / 5);
	for (int round = 0; round < 150; round++) {
		if (round < 100 && round % 10 == 5)
			outdate();
		for (uint32_t n = 1 + random_below(20); n-- > 0;)
			put((int)random_below(4), (int)random_below(80));
		if (round % 7 == 3) {
			struct apus_shape v = {0};

			strcpy(v.color, colors[random_below(4)]);
			assert_int_equal(apus_dispose(w, &v), 0);
			for (int i = 0; i < READERS; i++)
				models[i].received++;
		}
		assert_int_equal(apus_writer_flush(w) < 0, 0);
		/* What a small one was refused it judges when it comes again. */
		for (int i = 0; round % 6 == 0 && i < 4; i++)
			refilter(&models[random_below(READERS / 5) * 5 + random_below(4)]);
		check_queues();
		for (int i = 0; round % 3 == 0 && i < 4; i++)
			refilter(&models[random_below(READERS)]);
		if (round % 10 == 0)
			check_counters();
	}
	check_counters();
	assert_int_equal(visited_always(), READERS - w->dp->indexed_count);
	assert_true(apus_writer_wait_acked(w, SEC) == 0 || !reliable);
	apus_participant_destroy(p);
}

static void test_reliable(void **state)
{
	(void)state;
	run("150", true, 0);
}

static void test_best_effort(void **state)
{
	(void)state;
	run("151", false, 0);
}

static void test_batches(void **state)
{
	(void)state;
	run("152", true, 1200);
}

/* Some readers leave in the middle: nothing is given to them, nothing waits for them. */
static void test_leave(void **state)
{
	(void)state;
	open_all("153", true, 0);
	put(0, 5);
	for (int i = 0; i < READERS; i += 2)
		apus_reader_destroy(models[i].reader);
	for (int i = 0; i < 100; i++)
		put(i % 4, i % 60);
	for (int i = 1; i < READERS; i += 2)
		check_queue(&models[i]);
	assert_int_equal(apus_writer_wait_acked(w, SEC), 0);
	apus_participant_destroy(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reliable),
		cmocka_unit_test(test_best_effort),
		cmocka_unit_test(test_batches),
		cmocka_unit_test(test_leave),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
