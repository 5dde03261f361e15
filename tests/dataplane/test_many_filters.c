/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a writer with many filtered readers sends each exactly what its filter passes, tells it sooner or later
 * that all else is irrelevant and never that anything else is, however datagrams are lost; who rejects
 * everything is touched by no sample; the history is free as soon as those who were sent something have it.
 * Method: fan.h; readers played by the test, which know by plain C what each should get. Random samples,
 * losses, answers and changes of filters; every datagram is checked against the model.
 */
#include "dataplane/writer_internal.h"
#include "fan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define READERS 150
#define SAMPLES 3000
#define VALUES  100

enum fate { UNKNOWN, DATA, GAP };

static struct fan fan;
static uint8_t fate[READERS][SAMPLES + 2];
static bool accepted[READERS][SAMPLES + 2];
static bool heard[READERS], asked[READERS];
static apus_seq told[READERS];
static uint32_t acks[READERS];
static uint32_t loss_percent, era, early_data;
static uint64_t seed;

static uint32_t dice(uint32_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)((seed >> 11) % n);
}

/* ---- filters ------------------------------------------------------------------------------------------ */

static const char *color_of(int32_t x)
{
	static const char *const colors[] = {"RED", "GREEN", "BLUE", "CYAN"};

	return colors[x % 4];
}

/* What reader r of an era takes: one value, a range, a colour, everything, nothing, or it has no filter. */
static bool passes(uint32_t r, int32_t x)
{
	uint32_t v = (r + 7 * era) % VALUES;

	switch ((r + era) % 6) {
	case 0: return (uint32_t)x == v;
	case 1: return (uint32_t)x >= v && (uint32_t)x <= v + 5;
	case 2: return x % 4 == (int32_t)(v % 4);
	case 3: return false;
	case 4: return r % 5 == 0 || (uint32_t)x == v;
	default: return r % 7 == 0 || (uint32_t)x == v;
	}
}

static const char *expression(void *user, uint32_t r, char text[128])
{
	uint32_t v = (r + 7 * era) % VALUES;

	(void)user;
	switch ((r + era) % 6) {
	case 1: snprintf(text, 128, "x BETWEEN %u AND %u", v, v + 5); break;
	case 2: snprintf(text, 128, "color = '%s'", color_of((int32_t)v)); break;
	case 3: snprintf(text, 128, "x < 0"); break;
	case 4: snprintf(text, 128, r % 5 ? "x = %u" : "x >= 0 OR x = %u", v); break;
	case 5:
		if (r % 7 == 0)
			return NULL;
		/* fall through */
	default: snprintf(text, 128, "x = %u AND y = %u", v, 2 * v);
	}
	return text;
}

/* ---- readers ------------------------------------------------------------------------------------------ */

static bool is_for(const struct apus_wire_message *m, uint32_t r)
{
	const struct apus_prefix *p = &m->receiver.dest;

	return !m->receiver.has_dest ||
	       ((uint32_t)p->bytes[9] << 16 | (uint32_t)p->bytes[10] << 8 | p->bytes[11]) == r + 1;
}

static void hear_one(struct fan *f, uint32_t r, const struct apus_wire_message *m,
		     const struct apus_wire_submessage *s)
{
	apus_seq end;

	if (!is_for(m, r))
		return;
	switch (s->id) {
	case APUS_WIRE_DATA:
		if (!accepted[r][s->data.seq])
			early_data++;
		fate[r][s->data.seq] = DATA;
		break;
	case APUS_WIRE_GAP:
		end = s->gap.set.base;
		assert_int_equal(s->gap.set.num_bits, 0);
		assert_true(end <= f->writer->last + 1);
		for (apus_seq q = s->gap.start; q < end; q++) {
			if (accepted[r][q] && fate[r][q] != DATA)
				fail_msg("reader %u is told that it does not want %lld", r,
					 (long long)q);
			if (fate[r][q] == UNKNOWN)
				fate[r][q] = GAP;
		}
		break;
	case APUS_WIRE_HEARTBEAT:
		/* Volatile readers start where they are told. */
		told[r] = s->heartbeat.last > told[r] ? s->heartbeat.last : told[r];
		heard[r] = true;
		asked[r] |= !s->heartbeat.final;
		break;
	default: break;
	}
}

static void hear(struct fan *f, uint32_t address, const uint8_t *bytes, uint32_t length)
{
	for (uint32_t i = 0; i < f->per_address; i++) {
		uint32_t r = address * f->per_address + i;
		struct apus_wire_message m;
		struct apus_wire_submessage s;

		if (r >= f->count || dice(100) < loss_percent)
			continue;
		assert_int_equal(apus_wire_open(&m, bytes, length), APUS_WIRE_ACCEPT);
		while (apus_wire_next(&m, &s) == APUS_WIRE_ACCEPT)
			hear_one(f, r, &m, &s);
	}
}

/* A reader answers a HEARTBEAT if it must, or if it lacks something. */
static void answer(uint32_t r)
{
	apus_seq have = 0;
	uint32_t missing = 0;

	while (have < told[r] && fate[r][have + 1] != UNKNOWN)
		have++;
	for (uint32_t i = 0; i < 32 && have + 1 + i <= told[r]; i++)
		missing |= (uint32_t)(fate[r][have + 1 + i] == UNKNOWN) << i;
	if (heard[r] && (asked[r] || missing) && dice(100) >= loss_percent)
		fan_ack(&fan, r, have, missing, ++acks[r] + 1);
	heard[r] = asked[r] = false;
}

static void answer_all(void)
{
	for (uint32_t r = 0; r < fan.count; r++)
		answer(r);
}

/* ---- tests -------------------------------------------------------------------------------------------- */

static void begin(const struct fan_options *o, uint64_t with_seed)
{
	memset(fate, 0, sizeof(fate));
	memset(accepted, 0, sizeof(accepted));
	memset(told, 0, sizeof(told));
	memset(acks, 0, sizeof(acks));
	memset(heard, 0, sizeof(heard));
	memset(asked, 0, sizeof(asked));
	seed = with_seed * 2 + 1;
	era = loss_percent = early_data = 0;
	fan_init(&fan, READERS, expression, NULL, o);
	fan.hear = hear;
}

/* False: the history is full. */
static bool write_one(void)
{
	int32_t x = (int32_t)dice(VALUES);
	apus_seq seq = fan.writer->last + 1;
	int rc;

	for (uint32_t r = 0; r < READERS; r++)
		accepted[r][seq] = passes(r, x);
	rc = fan_write(&fan, color_of(x), x);
	assert_true(rc == 0 || rc == APUS_EAGAIN);
	return rc == 0;
}

/* A reader may have missed the word that the newest samples are none of its business, which nobody repeats. */
static void check_fates(uint32_t r, bool lossy)
{
	bool wanted_more = !lossy;

	for (apus_seq q = fan.writer->last; q > 0; q--) {
		wanted_more |= accepted[r][q];
		if (accepted[r][q])
			assert_int_equal(fate[r][q], DATA);
		else if (wanted_more)
			assert_int_not_equal(fate[r][q], UNKNOWN);
	}
}

static void finish(void)
{
	bool lossy = loss_percent > 0;

	loss_percent = 0;
	for (int i = 0; i < 400; i++) {
		fan_run(&fan, APUS_NS_PER_MS);
		answer_all();
	}
	assert_int_equal(fan.writer->min_acked, fan.writer->last);
	assert_int_equal(fan.writer->owing_count, 0);
	for (uint32_t r = 0; r < READERS; r++)
		check_fates(r, lossy);
	fan_fini(&fan);
}

static void stream(uint32_t loss, bool change, const struct fan_options *o, uint64_t with_seed)
{
	uint32_t refused = 0;

	begin(o, with_seed);
	loss_percent = loss;
	while (fan.writer->last < SAMPLES) {
		if (!write_one()) {
			assert_true(++refused < 100 * SAMPLES);
			fan_run(&fan, APUS_NS_PER_MS);
		}
		if (dice(20) == 0)
			fan_run(&fan, (int64_t)dice(10) * APUS_NS_PER_MS / 10);
		if (dice(5) == 0)
			answer(dice(READERS));
		if (dice(100) == 0)
			answer_all();
		if (change && dice(200) == 0) {
			era++;
			/* What is held is judged when it is sent. */
			if (fan.writer->sent < fan.writer->last)
				fan_run(&fan, 2 * APUS_NS_PER_MS);
			fan_refilter(&fan, expression);
		}
	}
	finish();
}

static void each_gets_its_own(void **state)
{
	const struct fan_options o = {.reliable = true, .max_samples = 256};

	(void)state;
	for (uint64_t k = 1; k <= 3; k++) {
		stream(0, false, &o, k);
		assert_int_equal(early_data, 0);
	}
}

static void with_losses(void **state)
{
	const struct fan_options o = {.reliable = true, .max_samples = 256};

	(void)state;
	for (uint64_t k = 1; k <= 3; k++) {
		stream(10, false, &o, k);
		assert_int_equal(early_data, 0);
	}
}

static void with_changes(void **state)
{
	const struct fan_options o = {.reliable = true, .max_samples = 256};

	(void)state;
	for (uint64_t k = 1; k <= 3; k++)
		stream(5, true, &o, k);
}

static void in_batches(void **state)
{
	const struct fan_options o = {.reliable = true, .max_samples = 256, .batch_bytes = 600};

	(void)state;
	for (uint64_t k = 1; k <= 3; k++)
		stream(5, true, &o, k);
}

static void sharing_addresses(void **state)
{
	const struct fan_options o = {.reliable = true, .max_samples = 256, .per_address = 3};

	(void)state;
	for (uint64_t k = 1; k <= 3; k++)
		stream(5, true, &o, k);
	/* What one of them wants goes once, to all behind the address. */
	assert_true(early_data > 0);
}

static const char *one_value(void *user, uint32_t r, char text[128])
{
	(void)user;
	snprintf(text, 128, "x = %u", r);
	return text;
}

static void rejected_samples_cost_nothing(void **state)
{
	const struct fan_options o = {.reliable = true, .max_samples = 16};

	(void)state;
	fan_init(&fan, READERS, one_value, NULL, &o);
	fan.datagrams = 0;
	/* Far more than the history holds, and nobody acknowledges anything. */
	for (int i = 0; i < 1000; i++)
		assert_int_equal(fan_write(&fan, "RED", 1000), 0);
	assert_int_equal(fan.datagrams, 0);
	assert_int_equal(fan.writer->min_acked, 1000);
	assert_int_equal(apus_counter_get(&fan.writer->counters.filtered), 1000 * READERS);
	/* One reader's sample is one datagram: GAP, DATA, HEARTBEAT. */
	assert_int_equal(fan_write(&fan, "RED", 3), 0);
	assert_int_equal(fan.datagrams, 1);
	assert_int_equal(fan.writer->min_acked, 1000);
	assert_int_equal(fan.writer->owing_count, 1);
	/* The others are told once, some a millisecond. */
	while (fan.datagrams == 1)
		fan_run(&fan, APUS_NS_PER_MS / 10);
	assert_int_equal(fan.datagrams, 1 + APUS_DP_GAPS_A_TIME);
	fan_run(&fan, 6 * APUS_NS_PER_MS);
	assert_in_range(fan.datagrams, READERS, READERS + 3);
	fan_ack(&fan, 3, 1001, 0, 2);
	assert_int_equal(fan.writer->min_acked, 1001);
	fan.datagrams = 0;
	fan_run(&fan, 50 * APUS_NS_PER_MS);
	assert_int_equal(fan.datagrams, 0);
	fan_fini(&fan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rejected_samples_cost_nothing),
		cmocka_unit_test(each_gets_its_own),
		cmocka_unit_test(with_losses),
		cmocka_unit_test(with_changes),
		cmocka_unit_test(in_batches),
		cmocka_unit_test(sharing_addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
