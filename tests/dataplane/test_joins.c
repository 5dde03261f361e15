/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a reader that joins a transient-local KEEP_LAST(5) keyed writer at any time gets the last five of each
 * instance, in order, then everything that follows, and nothing twice.
 * Method: a writer that never stops, over the wire in memory; 1,000 readers, one after the other, at random times.
 * What each may get is known from what had been written when it matched and when it took its first sample.
 * Without faults what it gets is known exactly. The writer's pace leaves a repair several round trips before
 * KEEP_LAST gives the sample up.
 */
#include "wire_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KEYS  3
#define DEPTH 5
#define LIVE  4

static const char *const colors[KEYS] = {"BLUE", "GREEN", "RED"};

struct run {
	struct wire_pair p;
	struct wire_endpoints e;
	struct wire_options o;
	uint64_t random;
	int32_t written[KEYS]; /* x of the latest of each instance; they count from 1 */
	int64_t next_write_ns;
	/* Of the present join. */
	int32_t at_match[KEYS], first[KEYS], last[KEYS];
	uint64_t
		past_ms; /* of simulated time, summed: from the match to the fifth of the slowest instance */
};

static uint32_t key_of(const struct apus_shape *shape)
{
	for (uint32_t k = 0; k < KEYS; k++)
		if (strcmp(shape->color, colors[k]) == 0)
			return k;
	fail();
	return 0;
}

static void check_sample(struct run *r, const struct apus_sample *s)
{
	struct apus_shape shape;
	uint32_t k;

	assert_true(s->info.valid_data);
	assert_int_equal(apus_type_decode(&apus_shape_type, s->payload, s->payload_bytes, false,
					  &shape, NULL, 0),
			 0);
	k = key_of(&shape);
	assert_int_equal(shape.y, 2 * shape.x);
	if (r->first[k] == 0) {
		/* Not older than the last five at the match, nor younger than the last five now. */
		assert_in_range(shape.x, r->at_match[k] - DEPTH + 1, r->written[k] - DEPTH + 1);
		r->first[k] = shape.x;
	} else {
		assert_int_equal(shape.x, r->last[k] + 1);
	}
	r->last[k] = shape.x;
}

static void take_all(struct run *r)
{
	struct apus_sample s[32];
	int n;

	apus_dp_worker_take_turn(r->p.b.worker);
	while ((n = apus_dp_reader_access(r->e.reader, NULL, true, r->p.now, s, 32)) > 0)
		for (int i = 0; i < n; i++) {
			check_sample(r, &s[i]);
			assert_int_equal(apus_dp_reader_return(r->e.reader, &s[i]), 0);
		}
	assert_int_equal(n, 0);
	apus_dp_worker_end_turn(r->p.b.worker);
}

/* A millisecond passes; perhaps a sample is written before or after it. */
static void step(struct run *r)
{
	uint32_t k = wire_random(&r->random, KEYS);

	if (r->p.now.ns >= r->next_write_ns) {
		assert_int_equal(wire_write(&r->p, &r->e, colors[k], ++r->written[k], APUS_ALIVE),
				 0);
		r->next_write_ns = r->p.now.ns + (1 + wire_random(&r->random, 40)) * APUS_NS_PER_MS;
	}
	wire_run(&r->p, APUS_NS_PER_MS);
}

static bool has_all(const struct run *r, int32_t count)
{
	for (uint32_t k = 0; k < KEYS; k++)
		if (r->first[k] == 0 || r->last[k] - r->first[k] + 1 < count)
			return false;
	return true;
}

static void join(struct run *r, bool perfect)
{
	bool past = false;

	for (uint32_t ms = wire_random(&r->random, 60); ms; ms--)
		step(r);
	r->o.number++;
	wire_renew_reader(&r->p, &r->e, &r->o);
	memcpy(r->at_match, r->written, sizeof(r->at_match));
	memset(r->first, 0, sizeof(r->first));
	wire_match(&r->p, &r->e, true, &r->o);
	if (perfect) /* time to ask before anything is given up for new samples */
		wire_run(&r->p, APUS_NS_PER_MS);
	for (uint32_t ms = 0; !has_all(r, DEPTH + LIVE); ms++) {
		assert_in_range(ms, 0, 3000);
		step(r);
		take_all(r);
		past |= has_all(r, DEPTH);
		r->past_ms += !past;
	}
	for (uint32_t k = 0; perfect && k < KEYS; k++)
		assert_int_equal(r->first[k], r->at_match[k] - DEPTH + 1);
	wire_match(&r->p, &r->e, false, &r->o);
}

static void run_joins(uint32_t loss, uint32_t duplicate, uint32_t reorder, uint32_t joins)
{
	static struct run r;

	memset(&r, 0, sizeof(r));
	r.o = (struct wire_options){.reliable = true,
				    .transient_local = true,
				    .depth = DEPTH,
				    .max_samples = 16,
				    .reader_depth = 64,
				    .reader_max_samples = 256};
	r.random = 4711;
	wire_pair_init(&r.p, 31);
	wire_set(&r.p, loss, duplicate, reorder);
	wire_endpoints_init(&r.p, &r.e, &r.o);
	for (uint32_t k = 0; k < KEYS; k++)
		while (r.written[k] < DEPTH)
			assert_int_equal(
				wire_write(&r.p, &r.e, colors[k], ++r.written[k], APUS_ALIVE), 0);
	for (uint32_t n = 0; n < joins; n++)
		join(&r, loss + duplicate + reorder == 0);
	print_message("%u joins: the past after %.1f ms on average\n", joins,
		      (double)r.past_ms / joins);
	wire_endpoints_fini(&r.p, &r.e);
	wire_pair_fini(&r.p);
}

static void test_clean_wire(void **state)
{
	(void)state;
	run_joins(0, 0, 0, 1000);
}

static void test_bad_wire(void **state)
{
	(void)state;
	run_joins(20, 5, 10, 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clean_wire),
		cmocka_unit_test(test_bad_wire),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
