/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a content filter costs a sample: compiled expressions over the CDR bytes of a ShapeType, beside the
 * same predicates written by hand in C over the same bytes, with the same checks of every length. The
 * arguments turn passing into rejecting samples, since a filter may stop early. Compilation is timed too:
 * it happens when a filter is set, never when a sample comes. Last, many filters, one of which passes: the
 * index alone, and the whole write of a sample with such readers, each at an address of its own, without the
 * kernel: serialised, stored, judged, sent to the one, and, if reliable, acknowledged by it.
 */
#include "bench/micro/context.h"
#include "control/filter_index.h"
#include "dataplane/filter_index.h"
#include "tests/dataplane/fan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const parameters[] = {"50"};

#define ONE_INT       "x > 50"
#define INT_AND_COLOR "x > %0 AND color = 'RED'"
#define TEN_TERMS                                                            \
	"(x > 0 AND x < 1000 AND y >= 1 AND y <= 900) AND "                  \
	"(shapesize = 30 OR shapesize = 40 OR shapesize BETWEEN 50 AND 60) " \
	"AND NOT (x = 7 OR y = 8) AND color LIKE 'R%D'"

/* A payload that passes or does not; 50 < x only in the first. */
static int make_payload(bool passes, uint8_t *out, size_t room)
{
	struct apus_shape shape = {"RED", passes ? 100 : -100, 200, 30};

	return apus_type_encode(&apus_shape_type, &shape, APUS_XCDR1, false, out, room);
}

static void evaluate(struct bench_state *s, const char *expression)
{
	bool passes = bench_range(s, 0);
	struct apus_dp_predicate *p = NULL;
	uint8_t payload[256];
	int n = make_payload(passes, payload, sizeof(payload));

	if (n < 0 || apus_ctl_filter_compile(&apus_shape_type, expression, parameters, 1, NULL, &p,
					     NULL) != 0) {
		bench_skip(s, "the expression does not compile");
		return;
	}
	if (apus_dp_predicate_eval(p, payload, (size_t)n) !=
	    (passes ? APUS_DP_PASS : APUS_DP_REJECT))
		bench_skip(s, "wrong verdict");
	while (bench_keep_running_batch(s, BATCH))
		for (int i = 0; i < BATCH; i++) {
			bench_use_memory(payload);
			bench_use((uint64_t)apus_dp_predicate_eval(p, payload, (size_t)n));
		}
	bench_items(s, bench_iterations(s));
	apus_ctl_filter_free(p);
}

static void one_int(struct bench_state *s)
{
	evaluate(s, ONE_INT);
}

static void int_and_color(struct bench_state *s)
{
	evaluate(s, INT_AND_COLOR);
}

static void ten_terms(struct bench_state *s)
{
	evaluate(s, TEN_TERMS);
}

/* ---- by hand ---- */

/* Finds colour and the three integers in a little-endian XCDR1 payload. */
static bool find_shape(const uint8_t *p, size_t n, const char **color_out, uint32_t *length_out,
		       const uint8_t **ints_out)
{
	uint32_t length, at;

	if (n < 8 || p[0] != 0 || p[1] != 1)
		return false;
	memcpy(&length, p + 4, 4);
	if (length == 0 || length > 129 || length > n - 8)
		return false;
	if (memchr(p + 8, 0, length) != p + 8 + length - 1)
		return false;
	at = 8 + ((length + 3) & ~3u);
	if (at > n || n - at < 12)
		return false;
	*color_out = (const char *)p + 8;
	*length_out = length - 1;
	*ints_out = p + at;
	return true;
}

static int32_t int_at(const uint8_t *p)
{
	int32_t v;

	memcpy(&v, p, 4);
	return v;
}

typedef enum apus_dp_verdict by_hand_fn(const uint8_t *p, size_t n);

static enum apus_dp_verdict by_hand_int(const uint8_t *p, size_t n)
{
	const uint8_t *ints;
	const char *color;
	uint32_t length;

	if (!find_shape(p, n, &color, &length, &ints))
		return APUS_DP_ERROR;
	return int_at(ints) > 50 ? APUS_DP_PASS : APUS_DP_REJECT;
}

static enum apus_dp_verdict by_hand_int_and_color(const uint8_t *p, size_t n)
{
	const uint8_t *ints;
	const char *color;
	uint32_t length;

	if (!find_shape(p, n, &color, &length, &ints))
		return APUS_DP_ERROR;
	return int_at(ints) > 50 && length == 3 && memcmp(color, "RED", 3) == 0 ? APUS_DP_PASS
										: APUS_DP_REJECT;
}

static enum apus_dp_verdict by_hand_ten(const uint8_t *p, size_t n)
{
	const uint8_t *ints;
	const char *color;
	uint32_t length;
	int32_t x, y, size;

	if (!find_shape(p, n, &color, &length, &ints))
		return APUS_DP_ERROR;
	x = int_at(ints);
	y = int_at(ints + 4);
	size = int_at(ints + 8);
	return x > 0 && x < 1000 && y >= 1 && y <= 900 &&
			       (size == 30 || size == 40 || (size >= 50 && size <= 60)) &&
			       !(x == 7 || y == 8) && length >= 2 && color[0] == 'R' &&
			       color[length - 1] == 'D'
		       ? APUS_DP_PASS
		       : APUS_DP_REJECT;
}

static void by_hand(struct bench_state *s, by_hand_fn *fn)
{
	/* Called through a pointer, as a filter class would be. */
	by_hand_fn *volatile call = fn;
	bool passes = bench_range(s, 0);
	uint8_t payload[256];
	int n = make_payload(passes, payload, sizeof(payload));

	if (n < 0 || call(payload, (size_t)n) != (passes ? APUS_DP_PASS : APUS_DP_REJECT))
		bench_skip(s, "wrong verdict");
	while (bench_keep_running_batch(s, BATCH))
		for (int i = 0; i < BATCH; i++) {
			bench_use_memory(payload);
			bench_use((uint64_t)call(payload, (size_t)n));
		}
	bench_items(s, bench_iterations(s));
}

static void hand_int(struct bench_state *s)
{
	by_hand(s, by_hand_int);
}

static void hand_int_and_color(struct bench_state *s)
{
	by_hand(s, by_hand_int_and_color);
}

static void hand_ten(struct bench_state *s)
{
	by_hand(s, by_hand_ten);
}

/* ---- compiling ---- */

static void compile(struct bench_state *s, const char *expression)
{
	struct apus_dp_predicate *p;

	while (bench_keep_running(s)) {
		if (apus_ctl_filter_compile(&apus_shape_type, expression, parameters, 1, NULL, &p,
					    NULL) != 0) {
			bench_skip(s, "the expression does not compile");
			break;
		}
		apus_ctl_filter_free(p);
	}
}

static void compile_int_and_color(struct bench_state *s)
{
	compile(s, INT_AND_COLOR);
}

static void compile_ten(struct bench_state *s)
{
	compile(s, TEN_TERMS);
}

/* ---- many filters ---- */

/* A sample through the index of so many filters, of which exactly one passes. */
static void many(struct bench_state *s, const char *format, bool range)
{
	uint32_t count = (uint32_t)bench_range(s, 0), passed_count = 0;
	struct apus_ctl_index_filter *filters = calloc(count, sizeof(*filters));
	struct apus_ctl_filter_term *terms = calloc(count, sizeof(*terms));
	uint32_t *passed = calloc(count, sizeof(*passed));
	struct apus_dp_filter_index *index = NULL;
	uint8_t payloads[64][256];
	int bytes = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct apus_dp_predicate *p = NULL;
		char text[64];

		snprintf(text, sizeof(text), format, range ? 10 * i : i, 10 * i + 9);
		if (apus_ctl_filter_compile_term(&apus_shape_type, text, NULL, 0, NULL, &p,
						 &terms[i], NULL) != 0)
			bench_skip(s, "the expression does not compile");
		filters[i] = (struct apus_ctl_index_filter){p, &terms[i]};
	}
	if (apus_ctl_filter_index_build(&apus_shape_type, filters, count, &index) != 0)
		bench_skip(s, "no index");
	for (uint32_t i = 0; i < 64; i++) {
		struct apus_shape shape = {.x = (int32_t)(i * 7919 % count * 10 + i % 10)};

		snprintf(shape.color, sizeof(shape.color), "X%04u", i * 7919 % count);
		bytes = apus_type_encode(&apus_shape_type, &shape, APUS_XCDR1, false, payloads[i],
					 sizeof(payloads[i]));
		if (apus_dp_filter_index_match(index, payloads[i], (size_t)bytes, passed, NULL) !=
		    1)
			bench_skip(s, "not one filter passes");
	}
	while (bench_keep_running_batch(s, BATCH))
		for (int i = 0; i < BATCH; i++) {
			bench_use_memory(payloads);
			passed_count += apus_dp_filter_index_match(index, payloads[i % 64],
								   (size_t)bytes, passed, NULL);
			bench_use(passed_count);
		}
	bench_items(s, bench_iterations(s));
	apus_ctl_filter_index_free(index);
	for (uint32_t i = 0; i < count; i++)
		apus_ctl_filter_free((struct apus_dp_predicate *)(uintptr_t)filters[i].predicate);
	free(filters);
	free(terms);
	free(passed);
}

static void many_symbols(struct bench_state *s)
{
	many(s, "color = 'X%04u'", false);
}

static void many_ranges(struct bench_state *s)
{
	many(s, "x BETWEEN %u AND %u", true);
}

/* ---- many readers ---- */

static struct fan fan;

static const char *symbol_of(void *user, uint32_t reader, char text[128])
{
	(void)user;
	snprintf(text, 128, "color = 'X%04u'", reader);
	return text;
}

static const char *range_of(void *user, uint32_t reader, char text[128])
{
	(void)user;
	snprintf(text, 128, "x BETWEEN %u AND %u", 10 * reader, 10 * reader + 9);
	return text;
}

static const char *no_filter(void *user, uint32_t reader, char text[128])
{
	(void)user;
	(void)reader;
	(void)text;
	return NULL;
}

/* Whole writes, each of which one reader passes. A microsecond of injected time lies between two, so timers
 * run as they would at a million samples a second. */
static void write_to(struct bench_state *s, uint32_t count, fan_expression_fn *expression,
		     bool reliable, uint32_t colors)
{
	const struct fan_options o = {.reliable = reliable, .depth = 1, .max_samples = 1024};
	static uint32_t acks[10000];
	static char color[10000][8];
	static apus_seq latest;

	fan_init(&fan, count, expression, NULL, &o);
	for (uint32_t i = 0; i < 10000; i++) {
		snprintf(color[i], sizeof(color[i]), "X%04u", i);
		acks[i] = 1;
	}
	latest = 0;
	fan.datagrams = 0;
	for (uint32_t i = 0; i < count; i++) { /* the first touch of everything */
		fan_write(&fan, color[i % colors], (int32_t)(10 * i));
		if (reliable)
			fan_ack(&fan, i, fan.writer->last, 0, ++acks[i]);
	}
	while (bench_keep_running_batch(s, BATCH)) {
		for (uint32_t i = 0; i < BATCH; i++) {
			uint32_t n = (uint32_t)(latest++ * 7919 % 10000), r = n % count;

			fan.now.ns += 1000;
			if (fan_write(&fan, color[(count == 1 ? n : r) % colors],
				      (int32_t)(10 * r)) != 0)
				bench_skip(s, "a sample was refused");
			if (reliable)
				fan_ack(&fan, r, fan.writer->last, 0, ++acks[r]);
		}
		apus_dp_worker_take_turn(fan.worker);
		apus_dp_worker_poll(fan.worker, fan.now);
		apus_dp_worker_end_turn(fan.worker);
	}
	if (fan.datagrams < (uint64_t)latest)
		bench_skip(s, "samples are missing");
	bench_items(s, bench_iterations(s));
	fan_fini(&fan);
}

static void write_symbols(struct bench_state *s)
{
	write_to(s, (uint32_t)bench_range(s, 0), symbol_of, false, (uint32_t)bench_range(s, 0));
}

static void write_ranges(struct bench_state *s)
{
	write_to(s, (uint32_t)bench_range(s, 0), range_of, false, 1);
}

static void write_symbols_reliable(struct bench_state *s)
{
	write_to(s, (uint32_t)bench_range(s, 0), symbol_of, true, (uint32_t)bench_range(s, 0));
}

static void write_ranges_reliable(struct bench_state *s)
{
	write_to(s, (uint32_t)bench_range(s, 0), range_of, true, 1);
}

/* Whole writes to readers of the same worker, each of which one reader keeps. unaware: each reader evaluates. */
static void write_local(struct bench_state *s, fan_expression_fn *expression, bool unaware,
			bool one_color)
{
	const struct fan_options o = {
		.depth = 1, .max_samples = 1024, .local = true, .unaware = unaware};
	uint32_t count = (uint32_t)bench_range(s, 0), latest = 0;
	static char color[10000][16];
	uint64_t stored = 0;

	fan_init(&fan, count, expression, NULL, &o);
	for (uint32_t i = 0; i < count; i++) {
		snprintf(color[i], sizeof(color[i]), "X%04u", i);
		if (!unaware || i < 10)
			fan_write(&fan, color[one_color ? 0 : i], (int32_t)(10 * i));
	}
	if (fan.writer->indexed_count != (unaware ? 0 : count))
		bench_skip(s, "not the readers that should be are in the index");
	while (bench_keep_running(s)) {
		uint32_t r = latest++ * 7919 % count;

		fan.now.ns += 1000;
		if (fan_write(&fan, color[one_color ? 0 : r], (int32_t)(10 * r)) != 0)
			bench_skip(s, "a sample was refused");
	}
	for (uint32_t i = 0; i < count; i++)
		stored += apus_counter_get(&fan.readers[i]->counters.results[APUS_DP_STORED]) +
			  apus_counter_get(&fan.readers[i]->counters.results[APUS_DP_DISPLACED]);
	if (stored < latest)
		bench_skip(s, "samples are missing");
	bench_items(s, bench_iterations(s));
	fan_fini(&fan);
}

static void local_symbols(struct bench_state *s)
{
	write_local(s, symbol_of, false, false);
}

static void local_ranges(struct bench_state *s)
{
	write_local(s, range_of, false, true);
}

static void local_symbols_each(struct bench_state *s)
{
	write_local(s, symbol_of, true, false);
}

static void write_unfiltered(struct bench_state *s)
{
	write_to(s, 1, no_filter, false, 1);
}

/* Writes to one unfiltered reader over as many instances as write_symbols() has. */
static void write_instances(struct bench_state *s)
{
	write_to(s, 1, no_filter, false, 10000);
}

static void write_unfiltered_reliable(struct bench_state *s)
{
	write_to(s, 1, no_filter, true, 1);
}

static void sized(const char *name, void (*run)(struct bench_state *))
{
	struct bench *b = bench_register(name, run);

	for (int64_t count = 1; count <= 10000; count *= count == 1 ? 100 : 10)
		bench_args(b, &count, 1);
}

/* One run that passes and one that does not. */
static void both(const char *name, void (*run)(struct bench_state *))
{
	struct bench *b = bench_register(name, run);

	for (int64_t passes = 1; passes >= 0; passes--)
		bench_args(b, &passes, 1);
}

int main(int argc, char **argv)
{
	both("filter/eval/one_int", one_int);
	both("filter/by_hand/one_int", hand_int);
	both("filter/eval/int_and_color", int_and_color);
	both("filter/by_hand/int_and_color", hand_int_and_color);
	both("filter/eval/ten_terms", ten_terms);
	both("filter/by_hand/ten_terms", hand_ten);
	bench_register("filter/compile/int_and_color", compile_int_and_color);
	bench_register("filter/compile/ten_terms", compile_ten);
	sized("filter/many/symbols", many_symbols);
	sized("filter/many/ranges", many_ranges);
	bench_register("filter/write/unfiltered", write_unfiltered);
	bench_register("filter/write/unfiltered_instances", write_instances);
	sized("filter/write/symbols", write_symbols);
	sized("filter/write/ranges", write_ranges);
	sized("filter/write_local/symbols", local_symbols);
	sized("filter/write_local/ranges", local_ranges);
	sized("filter/write_local/evaluated_by_each", local_symbols_each);
	bench_register("filter/write_reliable/unfiltered", write_unfiltered_reliable);
	sized("filter/write_reliable/symbols", write_symbols_reliable);
	sized("filter/write_reliable/ranges", write_ranges_reliable);
	return micro_main(argc, argv);
}
