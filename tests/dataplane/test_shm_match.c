/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: through shared memory a match keeps the promises it keeps on the network: all in order once where it is
 * reliable, pressure back on a writer that keeps all, displacement and a count where it is best effort, history for
 * late joiners, states of instances; every slot comes back; and what a peer scribbles stops its own match only.
 * Method: two workers without sockets, ends of a match over ordinary memory, injected time. Nothing of a sample
 * goes over the wire. All of it twice: payloads in slots, and in the cells of the ring.
 */
#include "control/filter.h"
#include "dataplane/shm_match.h"
#include "wire_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CAPACITY 8
#define QUOTA    6
#define LENT     8

/* Payloads in the ring: 0, or more than a shape takes. */
static uint32_t inline_bytes;

/* Samples on their way at a time. */
static uint32_t room(void)
{
	return inline_bytes ? CAPACITY : QUOTA;
}

static uint32_t slots_for(uint32_t samples)
{
	return inline_bytes ? 0 : samples;
}

struct fixture {
	struct wire_pair p;
	struct wire_endpoints e;
	struct wire_options o;
	struct apus_shm_ring_out *ring;
	struct apus_dp_shm_page *page;
	size_t page_bytes;
	struct apus_dp_shm_out out;
	struct apus_dp_shm_in in;
	uint32_t free_slots; /* of the writer's pool when nothing is written */
};

static void begin(struct fixture *f, const struct wire_options *o)
{
	struct apus_shm_pool *pool;

	memset(f, 0, sizeof(*f));
	f->o = *o;
	f->o.lent_slots = LENT;
	wire_pair_init(&f->p, 1);
	wire_endpoints_init(&f->p, &f->e, &f->o);
	pool = &f->e.writer->cache.pool;
	f->free_slots = pool->free_count;
	f->page_bytes = apus_dp_shm_page_bytes(pool->slot_count);
	f->ring = calloc(1, apus_shm_ring_bytes(CAPACITY, inline_bytes));
	f->page = calloc(1, f->page_bytes);
	assert_int_equal(apus_dp_shm_out_init(&f->out, f->ring, f->page, CAPACITY, inline_bytes,
					      pool, QUOTA, -1),
			 0);
	assert_int_equal(apus_dp_shm_in_init(&f->in, f->ring, f->page, CAPACITY, inline_bytes,
					     pool->segment.base, pool->segment.bytes,
					     pool->slot_bytes, pool->slot_count, QUOTA),
			 0);
	f->o.shm_out = &f->out;
	f->o.shm_in = &f->in;
}

static void match(struct fixture *f)
{
	wire_match(&f->p, &f->e, true, &f->o);
}

static void drop(struct fixture *f)
{
	apus_dp_worker_take_turn(f->p.a.worker);
	apus_dp_shm_out_drop(&f->out);
	apus_dp_worker_end_turn(f->p.a.worker);
}

static void end(struct fixture *f)
{
	wire_match(&f->p, &f->e, false, &f->o);
	drop(f);
	wire_endpoints_fini(&f->p, &f->e);
	wire_pair_fini(&f->p);
	apus_dp_shm_out_fini(&f->out);
	free(f->ring);
	free(f->page);
}

/* Takes up to `max` samples; checks that their x are next, next + 1, … . Returns how many. */
static int take(struct fixture *f, int max, int32_t *next)
{
	struct apus_sample s[64];
	int n;

	apus_dp_worker_take_turn(f->p.b.worker);
	n = apus_dp_reader_access(f->e.reader, NULL, true, f->p.now, s, (uint32_t)max);
	for (int i = 0; i < n; i++) {
		struct apus_shape shape;

		assert_true(s[i].info.valid_data);
		assert_int_equal(apus_type_decode(&apus_shape_type, s[i].payload,
						  s[i].payload_bytes, false, &shape, NULL, 0),
				 0);
		assert_int_equal(shape.x, (*next)++);
		apus_dp_reader_return(f->e.reader, &s[i]);
	}
	apus_dp_worker_end_turn(f->p.b.worker);
	return n;
}

static const struct wire_options keep_all = {.reliable = true, .keep_all = true, .max_samples = 32};

static void test_in_order_once(void **state)
{
	struct fixture f;
	int32_t next = 1, taken = 0;

	(void)state;
	begin(&f, &keep_all);
	match(&f);
	assert_int_equal(f.e.writer->matched, 1); /* nothing is awaited */
	for (int32_t x = 1; x <= 1000; x++) {
		assert_int_equal(wire_write(&f.p, &f.e, "RED", x, APUS_ALIVE), 0);
		if (x % 5 == 0) {
			wire_run(&f.p, APUS_NS_PER_MS);
			taken += take(&f, 64, &next);
		}
	}
	assert_int_equal(taken, 1000);
	assert_true(apus_dp_writer_acked(f.e.writer, 1000));
	assert_int_equal(f.p.a_to_b.sent, 0);
	assert_int_equal(f.p.b_to_a.sent, 0);
	assert_int_equal(f.out.held.count, 0);
	assert_int_equal(f.e.writer->cache.pool.free_count, f.free_slots);
	end(&f);
}

/* A reader without room leaves samples in the ring, the ring fills, then the history; then the write is refused.
 * Taking sets all of it in motion again. */
static void test_pushes_back(void **state)
{
	struct wire_options o = keep_all;
	struct fixture f;
	int32_t next = 1, x = 1;

	(void)state;
	o.reader_max_samples = 4;
	begin(&f, &o);
	match(&f);
	while (wire_write(&f.p, &f.e, "RED", x, APUS_ALIVE) == 0) {
		x++;
		wire_run(&f.p, APUS_NS_PER_MS);
		assert_true(x < 100);
	}
	/* 4 with the reader; 32 not acknowledged. */
	assert_int_equal(x - 1, 36);
	assert_int_equal(apus_shm_ring_waiting(&f.out.ring), room());
	assert_int_equal(f.out.held.count, slots_for(QUOTA));
	/* However often it is tried again, it is rejected once. */
	assert_int_equal(f.e.reader->inbox.counters.rejected, 1);
	for (int i = 0; i < 3; i++) {
		uint64_t refused = apus_counter_get(&f.e.reader->counters.results[APUS_DP_REFUSED]);

		f.e.reader->any_refused = true;
		apus_dp_worker_take_turn(f.p.b.worker);
		apus_dp_reader_ask_again(f.e.reader, false, f.p.now);
		apus_dp_worker_end_turn(f.p.b.worker);
		wire_run(&f.p, APUS_NS_PER_MS);
		assert_true(apus_counter_get(&f.e.reader->counters.results[APUS_DP_REFUSED]) >
			    refused);
	}
	assert_int_equal(f.e.reader->inbox.counters.rejected, 1);
	for (int i = 0; i < 200 && next < x; i++) {
		take(&f, 1, &next);
		wire_run(&f.p, APUS_NS_PER_MS);
	}
	assert_int_equal(next, x);
	/* All but the first four found no room when they came, and each got some in the end. */
	assert_int_equal(f.e.reader->inbox.counters.rejected, 32);
	assert_int_equal(f.e.reader->window_lost + f.e.reader->inbox.counters.lost, 0);
	assert_true(apus_dp_writer_acked(f.e.writer, 36));
	assert_int_equal(wire_write(&f.p, &f.e, "RED", x, APUS_ALIVE), 0);
	end(&f);
}

/* The reader of the same matches has another filter. */
static void set_filter(struct fixture *f, const struct apus_dp_predicate *filter)
{
	struct apus_dp_reader_snapshot *old = f->e.reader_snapshot;
	struct apus_dp_reader_snapshot *new = malloc(sizeof(*new) + sizeof(new->match[0]));
	uint64_t retired;

	assert_non_null(new);
	memcpy(new, old, sizeof(*new) + sizeof(new->match[0]));
	new->generation = ++f->e.generation;
	new->filter = filter;
	new->filter_generation++;
	apus_dp_reader_publish(&f->p.epoch, &f->e.reader->port, new, &retired);
	f->e.reader_snapshot = new;
	wire_run(&f->p, APUS_NS_PER_MS);
	free(old);
}

/* A change of the filter makes room, and nothing may be left that somebody could take. */
static void test_goes_on_when_pruned(void **state)
{
	struct wire_options o = keep_all;
	struct apus_dp_predicate *filter;
	struct fixture f;
	int32_t next = 21, x = 1;

	(void)state;
	assert_int_equal(
		apus_ctl_filter_compile(&apus_shape_type, "x > 20", NULL, 0, NULL, &filter, NULL),
		0);
	o.reader_max_samples = 4;
	begin(&f, &o);
	match(&f);
	while (wire_write(&f.p, &f.e, "RED", x, APUS_ALIVE) == 0) {
		x++;
		wire_run(&f.p, APUS_NS_PER_MS);
		assert_true(x < 100);
	}
	set_filter(&f, filter);
	wire_run(&f.p, 10 * APUS_NS_PER_MS);
	assert_true(apus_dp_writer_acked(f.e.writer, 24));
	for (int i = 0; i < 200 && next < x; i++) {
		take(&f, 1, &next);
		wire_run(&f.p, APUS_NS_PER_MS);
	}
	assert_int_equal(next, x);
	end(&f);
	apus_ctl_filter_free(filter);
}

static void test_best_effort_displaces(void **state)
{
	static const struct wire_options o = {.max_samples = 64, .depth = 1, .reader_depth = 64};
	struct fixture f;
	int32_t next, few = (int32_t)room();

	(void)state;
	begin(&f, &o);
	match(&f);
	for (int32_t x = 1; x <= 20; x++)
		assert_int_equal(wire_write(&f.p, &f.e, "RED", x, APUS_ALIVE), 0);
	wire_run(&f.p, APUS_NS_PER_MS);
	/* Its slots, or cells, are few: it has the latest. */
	next = 21 - few;
	assert_int_equal(take(&f, 64, &next), few);
	assert_int_equal(f.e.writer->counters.shm_displaced.value, 20 - few);
	assert_int_equal(wire_write(&f.p, &f.e, "RED", 21, APUS_ALIVE), 0);
	wire_run(&f.p, APUS_NS_PER_MS);
	next = 21;
	assert_int_equal(take(&f, 64, &next), 1);
	/* Those before the first one it saw were never its. */
	assert_int_equal(f.e.reader->window_lost, 0);
	for (int32_t x = 22; x <= 30; x++)
		assert_int_equal(wire_write(&f.p, &f.e, "RED", x, APUS_ALIVE), 0);
	wire_run(&f.p, APUS_NS_PER_MS);
	next = 31 - few;
	assert_int_equal(take(&f, 64, &next), few);
	assert_int_equal(f.e.reader->window_lost, 9 - few);
	end(&f);
}

static void test_late_joiner(void **state)
{
	static const struct wire_options o = {.reliable = true,
					      .transient_local = true,
					      .max_samples = 64,
					      .depth = 20,
					      .reader_depth = 64};
	struct fixture f;
	int32_t next = 31;

	(void)state;
	begin(&f, &o);
	for (int32_t x = 1; x <= 50; x++)
		assert_int_equal(wire_write(&f.p, &f.e, "RED", x, APUS_ALIVE), 0);
	match(&f);
	wire_run(&f.p, 10 * APUS_NS_PER_MS);
	assert_int_equal(wire_write(&f.p, &f.e, "RED", 51, APUS_ALIVE), 0);
	wire_run(&f.p, 10 * APUS_NS_PER_MS);
	assert_int_equal(take(&f, 64, &next), 21);
	assert_int_equal(f.p.a_to_b.sent, 0);
	end(&f);
}

static void test_instances(void **state)
{
	struct apus_sample s[8];
	struct fixture f;

	(void)state;
	begin(&f, &keep_all);
	match(&f);
	assert_int_equal(wire_write(&f.p, &f.e, "RED", 1, APUS_ALIVE), 0);
	assert_int_equal(wire_write(&f.p, &f.e, "BLUE", 2, APUS_ALIVE), 0);
	assert_int_equal(wire_write(&f.p, &f.e, "RED", 0, APUS_DISPOSE), 0);
	assert_int_equal(wire_write(&f.p, &f.e, "BLUE", 0, APUS_UNREGISTER), 0);
	wire_run(&f.p, APUS_NS_PER_MS);
	apus_dp_worker_take_turn(f.p.b.worker);
	assert_int_equal(apus_dp_reader_access(f.e.reader, NULL, true, f.p.now, s, 8), 4);
	for (int i = 0; i < 4; i++) {
		bool red = s[i].info.instance == s[0].info.instance;

		assert_int_equal(s[i].info.instance_state,
				 red ? APUS_STATE_DISPOSED : APUS_STATE_NO_WRITERS);
		apus_dp_reader_return(f.e.reader, &s[i]);
	}
	apus_dp_worker_end_turn(f.p.b.worker);
	end(&f);
}

/* A reader that dies with everything it was given: all of it comes back, and the writer goes on. */
static void test_death(void **state)
{
	struct fixture f;
	int32_t x = 1;

	(void)state;
	begin(&f, &keep_all);
	match(&f);
	for (; x <= 20; x++)
		assert_int_equal(wire_write(&f.p, &f.e, "RED", x, APUS_ALIVE), 0);
	assert_int_equal(f.out.held.count, slots_for(QUOTA));
	wire_match(&f.p, &f.e, false, &f.o);
	/* Until it is known to have let go, its slots are not written again. */
	assert_int_equal(f.e.writer->cache.count, 0);
	assert_int_equal(f.e.writer->cache.pool.free_count, f.free_slots - slots_for(QUOTA));
	drop(&f);
	assert_int_equal(f.e.writer->cache.pool.free_count, f.free_slots);
	for (int i = 0; i < 100; i++)
		assert_int_equal(wire_write(&f.p, &f.e, "RED", x++, APUS_ALIVE), 0);
	end(&f);
}

/* A writer that leaves while its reader is behind: nothing looks at it later (AddressSanitizer). */
static void test_writer_leaves(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, &keep_all);
	match(&f);
	for (int32_t x = 1; x <= 20; x++)
		assert_int_equal(wire_write(&f.p, &f.e, "RED", x, APUS_ALIVE), 0);
	assert_true(apus_dp_timer_armed(&f.e.writer->shm_timer));
	wire_match(&f.p, &f.e, false, &f.o);
	drop(&f);
	wire_endpoints_fini(&f.p, &f.e);
	wire_run(&f.p, 10 * APUS_NS_PER_MS);
	wire_pair_fini(&f.p);
	apus_dp_shm_out_fini(&f.out);
	free(f.ring);
	free(f.page);
}

/* Random bytes over everything a peer can write, while the stream goes on. */
static void scribble(struct fixture *f, void *at, size_t bytes, uint64_t *random)
{
	uint8_t *b = at;

	for (int i = 0; i < 16; i++)
		b[wire_random(random, (uint32_t)bytes)] = (uint8_t)wire_random(random, 256);
	(void)f;
}

static void test_scribbling_reader(void **state)
{
	uint64_t random = 7;

	(void)state;
	for (int round = 0; round < 200; round++) {
		struct fixture f;

		begin(&f, &keep_all);
		match(&f);
		for (int32_t x = 1; x <= 30; x++) {
			wire_write(&f.p, &f.e, "RED", x, APUS_ALIVE);
			scribble(&f, f.page, f.page_bytes, &random);
			wire_run(&f.p, APUS_NS_PER_MS);
		}
		wire_match(&f.p, &f.e, false, &f.o);
		drop(&f);
		/* Whatever it claimed to have returned: each slot is free once. */
		assert_int_equal(f.e.writer->cache.pool.free_count, f.free_slots);
		end(&f);
	}
}

static void test_scribbling_writer(void **state)
{
	uint64_t random = 9;
	uint32_t broken = 0;

	(void)state;
	for (int round = 0; round < 200; round++) {
		struct apus_sample s[64];
		struct fixture f;
		int n;

		begin(&f, &keep_all);
		match(&f);
		for (int32_t x = 1; x <= 30; x++) {
			wire_write(&f.p, &f.e, "RED", x, APUS_ALIVE);
			scribble(&f, f.ring, apus_shm_ring_bytes(CAPACITY, inline_bytes), &random);
			scribble(&f, f.e.writer->cache.pool.segment.base,
				 f.e.writer->cache.pool.segment.bytes, &random);
			wire_run(&f.p, APUS_NS_PER_MS);
		}
		apus_dp_worker_take_turn(f.p.b.worker);
		n = apus_dp_reader_access(f.e.reader, NULL, true, f.p.now, s, 64);
		for (int i = 0; i < n; i++)
			apus_dp_reader_return(f.e.reader, &s[i]);
		apus_dp_worker_end_turn(f.p.b.worker);
		broken += f.in.ring.broken;
		assert_int_equal(f.in.ring.broken, f.e.reader->counters.shm_broken.value);
		end(&f);
	}
	assert_true(broken > 50);
}

static void test_refuses_sizes(void **state)
{
	struct apus_shm_pool pool = {.slot_count = 4};
	struct apus_dp_shm_page *page = calloc(1, apus_dp_shm_page_bytes(4));
	struct apus_shm_ring_out *ring = calloc(1, apus_shm_ring_bytes(8, 0));
	struct apus_dp_shm_out out;
	struct apus_dp_shm_in in;
	uint8_t slots[512];

	(void)state;
	assert_int_equal(apus_dp_shm_out_init(&out, ring, page, 7, 0, &pool, 2, -1), APUS_EINVAL);
	assert_int_equal(apus_dp_shm_out_init(&out, ring, page, 8, 0, &pool, 0, -1), APUS_EINVAL);
	pool.slot_count = APUS_DP_SHM_SLOTS_MAX;
	assert_int_equal(apus_dp_shm_out_init(&out, ring, page, 8, 0, &pool, 2, -1), APUS_EINVAL);
	assert_int_equal(apus_dp_shm_in_init(&in, ring, page, 8, 0, slots, 512, 128, 4, 8), 0);
	assert_int_equal(apus_dp_shm_in_init(&in, ring, page, 8, 0, slots, 512, 128, 5, 8),
			 APUS_EINVAL);
	assert_int_equal(apus_dp_shm_in_init(&in, ring, page, 8, 0, slots, 512, 60, 4, 8),
			 APUS_EINVAL);
	assert_int_equal(apus_dp_shm_in_init(&in, ring, page, 8, 0, slots, 512, 128, 0, 8),
			 APUS_EINVAL);
	assert_int_equal(apus_dp_shm_in_init(&in, ring, page, 0, 0, slots, 512, 128, 4, 8),
			 APUS_EINVAL);
	free(page);
	free(ring);
}

static int in_the_ring(void **state)
{
	(void)state;
	inline_bytes = 200;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_order_once),
		cmocka_unit_test(test_pushes_back),
		cmocka_unit_test(test_goes_on_when_pruned),
		cmocka_unit_test(test_best_effort_displaces),
		cmocka_unit_test(test_late_joiner),
		cmocka_unit_test(test_instances),
		cmocka_unit_test(test_death),
		cmocka_unit_test(test_writer_leaves),
		cmocka_unit_test(test_scribbling_reader),
		cmocka_unit_test(test_scribbling_writer),
		cmocka_unit_test(test_refuses_sizes),
	};

	int failed = cmocka_run_group_tests_name("in slots", tests, NULL, NULL);

	return failed + cmocka_run_group_tests_name("in the ring", tests, in_the_ring, NULL);
}
