/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: what a writer changes piece by piece when readers of its worker change their filters, are indexed again or go
 * away is what deriving everything anew would make of it.
 * Method: random changes, samples and publications, many times over; after each the tables are noted, everything is
 * derived anew, and the tables are compared.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fan.h"

#define READERS 24
#define STEPS   60000 /* of each of two runs */

struct table {
	uint32_t indexed_count, open_count, owing_count, local_count;
	apus_seq min_acked;
	bool indexed[READERS], open[READERS], owes[READERS];
	apus_seq acked[READERS];
};

static struct fan fan;
static uint64_t seed, match_id;
static uint32_t filter[READERS]; /* of each reader; READERS: none */
static struct apus_dp_writer_snapshot *spare;

static uint32_t random_below(uint32_t n)
{
	seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t)(seed >> 33) % n;
}

static const char *range_of(void *user, uint32_t reader, char text[128])
{
	(void)user;
	snprintf(text, 128, "x BETWEEN %u AND %u", reader, reader + 3);
	return text;
}

/* Also proves that places lead back, and that the heap is one. */
static void note(struct table *out)
{
	struct apus_dp_writer *w = fan.writer;
	const struct apus_dp_writer_filtering *f = &w->filtering;

	memset(out, 0, sizeof(*out));
	out->indexed_count = w->indexed_count;
	out->open_count = f->open_local_count;
	out->owing_count = w->owing_count;
	out->local_count = w->local_count;
	apus_dp_writer_settle(w);
	out->min_acked = w->min_acked;
	for (uint32_t i = 0; i < w->match_count; i++) {
		const struct apus_dp_writer_state *s = &w->states[w->order[i]];

		out->indexed[i] = s->indexed;
		out->owes[i] = s->owing_at != 0;
		if (s->reliable)
			out->acked[i] = apus_dp_writer_acked_by(w, s);
		if (s->owing_at) {
			assert_int_equal(w->owing[s->owing_at - 1], w->order[i]);
			assert_true(s->acked >=
				    w->states[w->owing[(s->owing_at - 1 - (s->owing_at > 1)) / 2]]
					    .acked);
		}
		for (uint32_t k = 0; k < f->open_local_count; k++)
			out->open[i] |= f->local_visits[k] == w->order[i];
		assert_int_equal(out->open[i], s->local && !s->indexed);
	}
}

static void compare(void)
{
	struct table before, after;

	apus_dp_worker_take_turn(fan.worker);
	note(&before);
	/* What has to be derived at the next sample may differ until then. */
	if (!fan.writer->refilter) {
		apus_dp_writer_derive(fan.writer);
		note(&after);
		assert_memory_equal(&before, &after, sizeof(before));
	}
	apus_dp_worker_end_turn(fan.worker);
}

static void look(void)
{
	apus_dp_worker_take_turn(fan.worker);
	apus_dp_worker_end_turn(fan.worker);
}

/* The writer learns of all there is; of some filters only what was. */
static void publish_writer(uint32_t known)
{
	struct apus_dp_writer_snapshot *s = spare;
	uint64_t retired;

	spare = fan.snapshot;
	*s = (struct apus_dp_writer_snapshot){.generation = spare->generation + 1,
					      .index = fan.index};
	for (uint32_t i = 0; i < READERS; i++) {
		struct apus_dp_reader_match *m = &s->match[s->match_count];
		const struct apus_dp_reader_snapshot *r = fan.reader_snapshots[i];

		if (!fan.readers[i])
			continue;
		s->match_count++;
		*m = (struct apus_dp_reader_match){.guid = fan.readers[i]->config.guid,
						   .match_id = r->match[0].match_id,
						   .reliable = fan.writer->config.reliable,
						   .local = true};
		if (filter[i] == READERS)
			continue;
		m->filter_id = filter[i];
		m->local_generation =
			r->filter_generation + (random_below(100) < known ? 0 : 1000000);
	}
	fan.snapshot = s;
	apus_dp_writer_publish(&fan.epoch, &fan.writer->port, s, &retired);
	look();
}

/* The reader's snapshot is another one, so it is adopted. */
static void publish_reader(uint32_t i, bool change)
{
	struct apus_dp_reader_snapshot *old = fan.reader_snapshots[i];
	struct apus_dp_reader_snapshot *s = malloc(sizeof(*s) + sizeof(s->match[0]));
	uint64_t retired;

	assert_non_null(s);
	memcpy(s, old, sizeof(*s) + sizeof(s->match[0]));
	s->generation++;
	if (change) {
		filter[i] = random_below(READERS + 4);
		filter[i] = filter[i] > READERS ? READERS : filter[i];
		s->filter_generation++;
		s->filter = filter[i] < READERS ? fan.predicates[filter[i]] : NULL;
	}
	fan.reader_snapshots[i] = s;
	apus_dp_reader_publish(&fan.epoch, &fan.readers[i]->port, s, &retired);
	look();
	free(old);
}

static void join(uint32_t i)
{
	fan_join(&fan, i);
	fan.reader_snapshots[i]->match[0].match_id = ++match_id;
	filter[i] = i;
	if (random_below(2)) /* either may know the match first */
		look();
	publish_writer(100);
}

static void step(void)
{
	uint32_t i = random_below(READERS), what = random_below(20);

	if (what < 8)
		fan_write(&fan, "RED", (int32_t)random_below(READERS + 4));
	else if (!fan.readers[i])
		join(i);
	else if (what < 9)
		fan_leave(&fan, i);
	else if (what < 16)
		publish_reader(i, true);
	else if (what < 17)
		publish_reader(i, false);
	else
		publish_writer(80);
}

static void run(bool reliable)
{
	const struct fan_options o = {
		.reliable = reliable, .depth = 1, .max_samples = 64, .local = true};

	seed = 11;
	fan_init(&fan, READERS, range_of, NULL, &o);
	spare = calloc(1, sizeof(*spare) + READERS * sizeof(spare->match[0]));
	assert_non_null(spare);
	for (uint32_t i = 0; i < READERS; i++)
		filter[i] = i;
	match_id = READERS;
	for (uint32_t n = 0; n < STEPS; n++) {
		step();
		compare();
	}
	assert_true(apus_counter_get(&fan.writer->counters.written) > STEPS / 4);
	fan_fini(&fan);
	free(spare);
}

static void test_reliable(void **state)
{
	(void)state;
	run(true);
}

static void test_best_effort(void **state)
{
	(void)state;
	run(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reliable),
		cmocka_unit_test(test_best_effort),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
