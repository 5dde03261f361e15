/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: what a reader's filter rejects takes nothing of the window for small samples (writer_window.c), never
 * makes the reader ask, and is over with its acknowledgement; what passes still minds the window.
 * Method: writer and reader on a wire in memory (wire_pair.h), the filter compiled from text; datagrams,
 * requests and samples are counted. No time passes while a test writes.
 */
#include "control/filter.h"
#include "wire_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MANY 2000 /* many times what a window holds at first */

static struct wire_pair pair;
static struct wire_endpoints ends;
static struct apus_dp_predicate *predicate;
static int taken;

static void open_pair(const char *expression)
{
	struct wire_options o = {.reliable = true,
				 .keep_all = true,
				 .max_samples = 4096,
				 .reader_max_samples = 4096};

	taken = 0;
	assert_int_equal(apus_ctl_filter_compile(&apus_shape_type, expression, NULL, 0, NULL,
						 &predicate, NULL),
			 0);
	o.predicate = predicate;
	wire_pair_init_as(&pair, 3, 0x01ee, 1344);
	wire_endpoints_init(&pair, &ends, &o);
	wire_match(&pair, &ends, true, &o);
	wire_run(&pair, 10 * APUS_NS_PER_MS);
}

static void close_pair(void)
{
	wire_endpoints_fini(&pair, &ends);
	wire_pair_fini(&pair);
	apus_ctl_filter_free(predicate);
}

static void write_one(int32_t x)
{
	assert_int_equal(wire_write(&pair, &ends, "RED", x, APUS_ALIVE), 0);
}

/* What passes is numbered from 0. */
static void take(void)
{
	struct apus_sample s[32];
	int n;

	apus_dp_worker_take_turn(pair.b.worker);
	while ((n = apus_dp_reader_access(ends.reader, NULL, true, pair.now, s, 32)) > 0)
		for (int i = 0; i < n; i++) {
			struct apus_shape shape;

			assert_int_equal(apus_type_decode(&apus_shape_type, s[i].payload,
							  s[i].payload_bytes, false, &shape, NULL,
							  0),
					 0);
			assert_int_equal(shape.x, taken++);
			apus_dp_reader_return(ends.reader, &s[i]);
		}
	apus_dp_worker_end_turn(pair.b.worker);
}

static void settle(int wanted)
{
	for (int i = 0; i < 200 && taken < wanted; i++) {
		wire_run(&pair, APUS_NS_PER_MS);
		take();
	}
	wire_run(&pair, 20 * APUS_NS_PER_MS);
	assert_int_equal(taken, wanted);
	assert_int_equal(ends.writer->min_acked, ends.writer->last);
	assert_int_equal(ends.writer->states[ends.writer->order[0]].pending_bytes, 0);
	assert_int_equal(ends.writer->states[ends.writer->order[0]].waiting_seq, 0);
	assert_int_equal(apus_counter_get(&ends.writer->counters.repairs), 0);
}

static void rejected_samples_need_no_window(void **state)
{
	const struct apus_dp_writer_state *s;
	uint64_t sent;

	(void)state;
	open_pair("x >= 0");
	s = &ends.writer->states[ends.writer->order[0]];
	for (int i = 0; i < MANY; i++)
		write_one(-1);
	assert_int_equal(s->waiting_seq, 0);
	sent = pair.a_to_b.sent;
	write_one(0);
	assert_int_equal(pair.a_to_b.sent, sent + 1);
	assert_int_equal(s->waiting_seq, 0);
	settle(1);
	assert_int_equal(apus_counter_get(&ends.writer->counters.filtered), MANY);
	close_pair();
}

static void passing_samples_mind_it(void **state)
{
	const struct apus_dp_writer_state *s;
	uint32_t window;

	(void)state;
	open_pair("x >= 0");
	s = &ends.writer->states[ends.writer->order[0]];
	window = s->window_bytes;
	for (int i = 0; i < MANY / 2; i++) {
		write_one(-1);
		write_one(i);
	}
	assert_true(s->waiting_seq > 0);
	settle(MANY / 2);
	/* Nothing was lost, so it has only grown. */
	assert_true(s->window_bytes >= window);
	close_pair();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rejected_samples_need_no_window),
		cmocka_unit_test(passing_samples_mind_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
