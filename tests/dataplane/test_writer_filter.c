/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: what a reader's filter rejects takes nothing of the window for small samples (writer_window.c), never
 * makes the reader ask, and is over with its acknowledgement; what passes still minds the window.
 * And: a DATA says what became of its reader's filter, and the reader takes that for an evaluation only under the
 * signature of its present filter.
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

static void open_signed_pair(const char *expression, uint8_t signature, uint8_t reader_signature)
{
	struct wire_options o = {.reliable = true,
				 .keep_all = true,
				 .max_samples = 4096,
				 .reader_max_samples = 4096,
				 .signature = signature,
				 .reader_signature = reader_signature};

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

static void open_pair(const char *expression)
{
	open_signed_pair(expression, 0, 0);
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

/* Writes rejected samples whose GAPs are all lost; time passes well beyond the flush delay. */
static void lose_gaps(void)
{
	uint64_t gaps = apus_counter_get(&ends.writer->counters.gaps);

	wire_set(&pair, 100, 0, 0);
	for (int i = 0; i < 10; i++) {
		write_one(-1);
		wire_run(&pair, 2 * APUS_NS_PER_MS);
	}
	assert_true(apus_counter_get(&ends.writer->counters.gaps) > gaps);
	wire_set(&pair, 0, 0, 0);
}

/* A lost GAP is not sent again by itself: nobody waits for what it says. As soon as it matters, behind it comes a
 * sample that passes, the reader asks and is told. */
static void lost_gaps_are_asked_for(void **state)
{
	const struct apus_dp_writer_state *s;
	uint64_t gaps;

	(void)state;
	open_pair("x >= 0");
	s = &ends.writer->states[ends.writer->order[0]];
	write_one(0);
	settle(1);
	lose_gaps();
	/* The last of all: the writer waits for nobody, and repeats nothing. */
	gaps = apus_counter_get(&ends.writer->counters.gaps);
	wire_run(&pair, APUS_NS_PER_SEC);
	assert_true(apus_dp_writer_acked(ends.writer, ends.writer->last));
	assert_int_equal(apus_counter_get(&ends.writer->counters.gaps), gaps);
	assert_int_equal(s->owing_at, 0);
	/* One round trip later. */
	write_one(1);
	wire_run(&pair, 2 * APUS_NS_PER_MS);
	take();
	assert_int_equal(taken, 2);
	settle(2);
	assert_true(apus_counter_get(&ends.writer->counters.gaps) > gaps);
	assert_int_equal(ends.reader->window_lost, 0);
	close_pair();
}

/* The passing sample is lost as well, and what is rejected behind it, with its GAPs: the writer asks until it is
 * acknowledged. */
static void lost_sample_among_lost_gaps(void **state)
{
	(void)state;
	open_pair("x >= 0");
	write_one(0);
	settle(1);
	lose_gaps();
	wire_set(&pair, 100, 0, 0);
	write_one(1);
	lose_gaps();
	for (int i = 0; i < 200 && taken < 2; i++) {
		wire_run(&pair, APUS_NS_PER_MS);
		take();
	}
	assert_int_equal(taken, 2);
	wire_run(&pair, 20 * APUS_NS_PER_MS);
	assert_true(apus_dp_writer_acked(ends.writer, ends.writer->last));
	assert_int_equal(ends.reader->window_lost, 0);
	close_pair();
}

/* Writes what passes and what does not, some of it lost. Returns how often the reader took the writer's word. */
static uint64_t with_info(uint8_t signature, uint8_t reader_signature)
{
	uint64_t believed;

	open_signed_pair("x >= 0", signature, reader_signature);
	wire_set(&pair, 10, 0, 0);
	for (int i = 0; i < 100; i++) {
		write_one(-1);
		write_one(i);
		wire_run(&pair, APUS_NS_PER_MS);
	}
	wire_set(&pair, 0, 0, 0);
	for (int i = 0; i < 200 && taken < 100; i++) {
		wire_run(&pair, APUS_NS_PER_MS);
		take();
	}
	assert_int_equal(taken, 100);
	if (signature)
		assert_true(apus_counter_get(&ends.writer->counters.filter_info) >= 100);
	else
		assert_int_equal(apus_counter_get(&ends.writer->counters.filter_info), 0);
	believed = apus_counter_get(&ends.reader->counters.filter_info);
	close_pair();
	return believed;
}

static void verdicts_go_with_samples(void **state)
{
	(void)state;
	/* Those that had to wait for others are evaluated when their turn comes. */
	assert_in_range(with_info(7, 7), 60, 100);
	assert_int_equal(with_info(7, 8), 0);
	assert_int_equal(with_info(0, 0), 0);
}

/* A large sample is told of with its first fragment; a reader believes that for the whole. */
static uint64_t with_large(uint8_t reader_signature)
{
	struct wire_options o = {.reliable = true,
				 .keep_all = true,
				 .max_samples = 64,
				 .reader_max_samples = 64,
				 .blob_bytes = 8000,
				 .assembly_max = 4,
				 .signature = 7,
				 .reader_signature = reader_signature};
	uint64_t believed;

	assert_int_equal(apus_ctl_filter_compile(&apus_blob_type, "kid = 1", NULL, 0, NULL,
						 &predicate, NULL),
			 0);
	o.predicate = predicate;
	wire_pair_init_as(&pair, 3, 0x01ee, 1344);
	wire_endpoints_init(&pair, &ends, &o);
	wire_match(&pair, &ends, true, &o);
	wire_run(&pair, 10 * APUS_NS_PER_MS);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(wire_write_blob(&pair, &ends, 8000), 0);
		wire_run(&pair, 10 * APUS_NS_PER_MS);
	}
	assert_int_equal(apus_counter_get(&ends.reader->counters.results[APUS_DP_STORED]), 8);
	assert_int_equal(apus_counter_get(&ends.writer->counters.filter_info), 8);
	believed = apus_counter_get(&ends.reader->counters.filter_info);
	close_pair();
	return believed;
}

static void verdicts_go_with_large_samples(void **state)
{
	(void)state;
	assert_int_equal(with_large(7), 8);
	assert_int_equal(with_large(8), 0);
}

/* What a writer says is input: words, results and signatures in any number. */
static void hostile_info(void **state)
{
	static const struct {
		uint32_t words, results, count, bytes;
		bool believed;
	} cases[] = {
		{1, 0x80000000, 1, 28, true},           {1, 0, 1, 28, true},
		{1, 0x80000000, 2, 28, false}, /* more signatures than bytes */
		{1, 0x80000000, UINT32_MAX, 28, false}, {UINT32_MAX, 0x80000000, 1, 28, false},
		{0, 0x80000000, 1, 28, false},          {2, 0x80000000, 1, 28, false},
		{1, 0x80000000, 0, 28, false},          {1, 0x80000000, 1, 24, false},
		{1, 0x80000000, 1, 12, false},          {1, 0x80000000, 1, 8, false},
	};

	(void)state;
	for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		struct apus_shape shape = {.color = "RED", .x = 5};
		uint8_t payload[256], *info = malloc(cases[k].bytes), whole[28];
		const struct apus_dp_addr from = {.family = 2};
		const struct apus_dp_origin origin = {.from = &from};
		struct apus_wire_data data = {.seq = 1, .payload = payload};

		open_signed_pair("x >= 0", 7, 7);
		memcpy(whole, &cases[k].words, 4);
		memcpy(whole + 4, &cases[k].results, 4);
		memcpy(whole + 8, &cases[k].count, 4);
		memset(whole + 12, 7, 16);
		memcpy(info, whole,
		       cases[k].bytes); /* exactly: a sanitizer sees what is read beyond */
		data.qos.filter_info = info;
		data.qos.filter_info_bytes = cases[k].bytes;
		data.payload_bytes = (uint32_t)apus_type_encode(
			&apus_shape_type, &shape, APUS_XCDR1, false, payload, sizeof(payload));
		apus_dp_worker_take_turn(pair.b.worker);
		apus_dp_reader_data(&ends.reader->states[ends.reader->order[0]], &data, &origin,
				    pair.now);
		apus_dp_worker_end_turn(pair.b.worker);
		assert_int_equal(apus_counter_get(&ends.reader->counters.filter_info),
				 cases[k].believed);
		/* The word of a writer that is believed wins; else the filter decides. */
		assert_int_equal(apus_counter_get(&ends.reader->counters.results[APUS_DP_STORED]),
				 cases[k].believed ? cases[k].results >> 31 : 1);
		free(info);
		close_pair();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rejected_samples_need_no_window),
		cmocka_unit_test(passing_samples_mind_it),
		cmocka_unit_test(lost_gaps_are_asked_for),
		cmocka_unit_test(lost_sample_among_lost_gaps),
		cmocka_unit_test(verdicts_go_with_samples),
		cmocka_unit_test(verdicts_go_with_large_samples),
		cmocka_unit_test(hostile_info),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
