/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a best-effort reader whose writer filters for it takes what was left out for irrelevant, and nothing else: it
 * counts as lost exactly what datagrams that did not come spoke of. One GAP goes in front of a passing sample, however
 * many samples and readers it is of; nothing leaves for rejected samples alone.
 * Method: fan.h; each reader is a sequence window that is fed what it hears, beside a table of what it should get.
 * Writers are best-effort or reliable with some best-effort readers; addresses are shared or not; samples leave one by
 * one or in batches; filters change; datagrams are lost.
 */
#include "dataplane/window.h"
#include "dataplane/writer_internal.h"
#include "fan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define READERS 60
#define SAMPLES 3000
#define VALUES  50

static struct fan fan;
static struct apus_dp_window_bits bits[READERS];
static struct apus_dp_window window[READERS];
static bool accepted[READERS][SAMPLES + 1], got[READERS][SAMPLES + 1], missed[READERS][SAMPLES + 1];
static apus_seq first[READERS];
static uint32_t loss_percent, era, acks;
static uint64_t seed, gaps, gaps_for_all;

static uint32_t dice(uint32_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)((seed >> 11) % n);
}

/* What reader r of an era takes: one value, a range, everything, nothing, or it has no filter. */
static bool passes(uint32_t r, int32_t x)
{
	uint32_t v = (3 * r + 7 * era) % VALUES;

	switch ((r / 3 + era) % 5) {
	case 0: return (uint32_t)x == v;
	case 1: return (uint32_t)x >= v && (uint32_t)x <= v + 5;
	case 2: return false;
	case 3: return r % 5 == 0 || (uint32_t)x == v;
	default: return r % 7 == 0 || (uint32_t)x == v;
	}
}

static const char *expression(void *user, uint32_t r, char text[128])
{
	uint32_t v = (3 * r + 7 * era) % VALUES;

	(void)user;
	switch ((r / 3 + era) % 5) {
	case 1: snprintf(text, 128, "x BETWEEN %u AND %u", v, v + 5); break;
	case 2: snprintf(text, 128, "x < 0"); break;
	case 3: snprintf(text, 128, r % 5 ? "x = %u" : "x >= 0 OR x = %u", v); break;
	case 4:
		if (r % 7 == 0)
			return NULL;
		/* fall through */
	default: snprintf(text, 128, "x = %u AND y = %u", v, 2 * v);
	}
	return text;
}

static bool is_best_effort(uint32_t r)
{
	return !fan.writer->config.reliable || r % fan.best_effort_every == 0;
}

static bool is_for(const struct apus_wire_message *m, struct apus_eid reader, uint32_t r)
{
	const struct apus_prefix *p = &m->receiver.dest;

	return (reader.value == 0 || reader.value == 0x207) &&
	       (!m->receiver.has_dest || ((uint32_t)p->bytes[9] << 16 |
					  (uint32_t)p->bytes[10] << 8 | p->bytes[11]) == r + 1);
}

static void hear_gap(uint32_t r, const struct apus_wire_gap *gap, bool lost)
{
	assert_int_equal(gap->set.num_bits, 0);
	assert_true(gap->set.base <= fan.writer->last + 1);
	gaps++;
	gaps_for_all += gap->reader.value == 0;
	for (apus_seq q = gap->start; q < gap->set.base; q++) {
		if (accepted[r][q] && !got[r][q] && !missed[r][q])
			fail_msg("reader %u is told that it does not want %lld", r, (long long)q);
		missed[r][q] |= lost;
	}
	if (!lost)
		apus_dp_window_gap(&window[r], gap->start, &gap->set);
}

static void hear_data(uint32_t r, apus_seq seq, bool lost)
{
	if (lost) {
		missed[r][seq] = true;
		return;
	}
	assert_int_equal(apus_dp_window_check(&window[r], seq), APUS_DP_SEQ_NEW_IN_ORDER);
	apus_dp_window_done(&window[r], seq);
	got[r][seq] = true;
	if (first[r] == 0)
		first[r] = seq;
}

static void hear(struct fan *f, uint32_t address, const uint8_t *bytes, uint32_t length)
{
	for (uint32_t i = 0; i < f->per_address; i++) {
		uint32_t r = address * f->per_address + i;
		struct apus_wire_message m;
		struct apus_wire_submessage s;
		bool lost = dice(100) < loss_percent;

		if (r >= f->count || !is_best_effort(r))
			continue;
		assert_int_equal(apus_wire_open(&m, bytes, length), APUS_WIRE_ACCEPT);
		while (apus_wire_next(&m, &s) == APUS_WIRE_ACCEPT) {
			if (s.id == APUS_WIRE_GAP && is_for(&m, s.gap.reader, r))
				hear_gap(r, &s.gap, lost);
			if (s.id == APUS_WIRE_DATA && is_for(&m, s.data.reader, r))
				hear_data(r, s.data.seq, lost);
		}
	}
}

static void begin(const struct fan_options *o, uint64_t with_seed)
{
	memset(accepted, 0, sizeof(accepted));
	memset(got, 0, sizeof(got));
	memset(missed, 0, sizeof(missed));
	memset(first, 0, sizeof(first));
	for (uint32_t r = 0; r < READERS; r++)
		apus_dp_window_init(&window[r], &bits[r], false, APUS_DP_FROM_MATCH);
	seed = with_seed * 2 + 1;
	era = loss_percent = 0;
	acks = 1;
	gaps = gaps_for_all = 0;
	fan_init(&fan, READERS, expression, NULL, o);
	fan.hear = hear;
}

static void write_one(void)
{
	int32_t x = (int32_t)dice(VALUES);
	apus_seq seq = fan.writer->last + 1;

	for (uint32_t r = 0; r < READERS; r++)
		accepted[r][seq] = passes(r, x);
	assert_int_equal(fan_write(&fan, "RED", x), 0);
}

/* The reliable readers have everything. */
static void acknowledge(void)
{
	acks++;
	for (uint32_t r = 0; fan.writer->config.reliable && r < READERS; r++)
		if (!is_best_effort(r))
			fan_ack(&fan, r, fan.writer->sent, 0, acks);
}

static void check(uint32_t r)
{
	uint64_t lost = 0;

	for (apus_seq q = first[r] ? first[r] : SAMPLES + 1; q < window[r].next; q++)
		lost += missed[r][q] && !got[r][q];
	assert_int_equal(window[r].lost, lost);
	for (apus_seq q = 1; q <= SAMPLES; q++)
		assert_true(got[r][q] || missed[r][q] || !accepted[r][q]);
}

static void stream(uint32_t loss, const struct fan_options *o, uint64_t with_seed)
{
	begin(o, with_seed);
	loss_percent = loss;
	while (fan.writer->last < SAMPLES) {
		write_one();
		if (dice(20) == 0)
			fan_run(&fan, (int64_t)dice(10) * APUS_NS_PER_MS / 10);
		if (dice(10) == 0)
			acknowledge();
		if (dice(200) == 0) {
			if (fan.writer->sent < fan.writer->last)
				fan_run(&fan, 2 * APUS_NS_PER_MS);
			acknowledge();
			era++;
			fan_refilter(&fan, expression);
		}
	}
	fan_run(&fan, 10 * APUS_NS_PER_MS);
	for (uint32_t r = 0; r < READERS; r++)
		if (is_best_effort(r))
			check(r);
	assert_true(gaps > 1000);
	fan_fini(&fan);
}

static void best_effort_writer(void **state)
{
	struct fan_options o = {.depth = 300, .max_samples = 300};

	(void)state;
	stream(0, &o, 1);
	assert_int_equal(gaps_for_all, 0);
	stream(20, &o, 2);
	o.batch_bytes = 600;
	stream(0, &o, 3);
	stream(20, &o, 4);
}

static void sharing_addresses(void **state)
{
	struct fan_options o = {.depth = 300, .max_samples = 300, .per_address = 3};

	(void)state;
	stream(0, &o, 1);
	assert_int_equal(gaps_for_all, gaps);
	stream(20, &o, 2);
	o.batch_bytes = 600;
	stream(20, &o, 3);
}

/* A reliable reader that is not served yet would believe a GAP for all: there is none. */
static void reliable_writer(void **state)
{
	struct fan_options o = {
		.reliable = true, .depth = 300, .max_samples = 300, .best_effort_every = 2};

	(void)state;
	stream(0, &o, 1);
	stream(20, &o, 2);
	o.per_address = 3;
	stream(0, &o, 3);
	assert_int_equal(gaps_for_all, 0);
	o.batch_bytes = 600;
	stream(20, &o, 4);
	assert_int_equal(gaps_for_all, 0);
}

static const char *one_value(void *user, uint32_t r, char text[128])
{
	(void)user;
	snprintf(text, 128, "x = %u", r);
	return text;
}

/* However much was left out, and for how many readers behind the address. */
static void one_gap_one_datagram(void **state)
{
	const struct fan_options o = {.depth = 1, .max_samples = 16, .per_address = READERS};

	(void)state;
	memset(accepted, 0, sizeof(accepted));
	fan_init(&fan, READERS, one_value, NULL, &o);
	fan.datagrams = 0;
	for (int i = 0; i < 20000; i++)
		assert_int_equal(fan_write(&fan, "RED", 1000), 0);
	fan_run(&fan, 10 * APUS_NS_PER_MS);
	assert_int_equal(fan.datagrams, 0);
	assert_int_equal(fan_write(&fan, "RED", 3), 0);
	assert_int_equal(fan_write(&fan, "RED", 4), 0);
	assert_int_equal(fan.datagrams, 2);
	assert_int_equal(apus_counter_get(&fan.writer->counters.gaps), 1);
	/* The filter goes, and what was left out before is told all the same. */
	assert_int_equal(fan_write(&fan, "RED", 1000), 0);
	fan_refilter(&fan, expression);
	assert_int_equal(fan.datagrams, 2);
	for (int x = 0; x < VALUES; x++)
		assert_int_equal(fan_write(&fan, "RED", x), 0);
	assert_int_equal(apus_counter_get(&fan.writer->counters.gaps), 2);
	fan_fini(&fan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_gap_one_datagram),
		cmocka_unit_test(best_effort_writer),
		cmocka_unit_test(sharing_addresses),
		cmocka_unit_test(reliable_writer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
