/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the brief and the short form of a program say what the program says, of any bytes.
 * Method: random conjunctions over a string and two integers, and the same with a first test that always holds but
 * that no form knows; both over random payloads, most of them damaged a little, in memory of exactly their size.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "dataplane/predicate_program.h"

#define ROUNDS   4000
#define PAYLOADS 60

static uint64_t seed = 20260101;

static uint32_t below(uint32_t n)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)((seed >> 33) % n);
}

/* Slot 0 is the string, 1 a signed and 2 an unsigned integer. */
static const struct apus_dp_field fields[] = {
	{APUS_DP_STRING, 0}, {APUS_DP_S32, 0}, {APUS_DP_U32, 0}};

/* Which of them stand before the string, whether anybody looks at it, its bound. */
struct layout {
	bool front[3], seen;
	uint8_t bound;
};

static uint32_t lay_steps(const struct layout *l, struct apus_wire_step *steps)
{
	uint32_t n = 0;
	const struct apus_wire_step string = {APUS_WIRE_STRING, 3, APUS_WIRE_NO_SLOT, l->bound, 0};

	for (uint16_t i = 1; i < 3; i++)
		if (l->front[i])
			steps[n++] = (struct apus_wire_step){APUS_WIRE_RUN, 3, i, 4, 0};
	steps[n] = string;
	if (l->seen)
		steps[n].slot = 0;
	n++;
	for (uint16_t i = 1; i < 3; i++)
		if (!l->front[i])
			steps[n++] = (struct apus_wire_step){APUS_WIRE_RUN, 3, i, 4, 0};
	return n;
}

/* Integers around the ends that the tests use. */
static uint32_t some_integer(void)
{
	static const uint32_t values[] = {
		0, 1, 49, 50, 51, 0x7fffffff, 0x80000000, 0x80000001, 0xffffffff, 0xffffffce};

	return values[below(10)];
}

static const char text[] = "REDGREENBLUEMAGENTA";

static struct apus_dp_test some_test(const struct layout *l, uint16_t index, uint16_t count)
{
	struct apus_dp_test t = {.op = APUS_DP_RANGE,
				 .field = (uint16_t)(1 + below(2)),
				 .on_true = index + 1 < count ? (uint16_t)(index + 1)
							      : APUS_DP_TO_PASS,
				 .on_false = APUS_DP_TO_REJECT};

	if (l->seen && below(2)) {
		t.op = APUS_DP_TEXT;
		t.accept = APUS_DP_EQUAL;
		t.field = 0;
		t.low = below(4) ? 0 : below(10);
		t.span = below(4) ? 3 : below(9);
		return t;
	}
	t.low = t.field == 1 ? apus_dp_key_signed((int32_t)some_integer()) : some_integer();
	t.span = below(2) ? some_integer() : below(2) ? 1 : UINT64_MAX - t.low;
	if (below(4) == 0) { /* from far below */
		t.span = t.low;
		t.low = 0;
	}
	if (below(8) == 0) { /* no conjunction */
		t.on_false = below(2) ? t.on_true : APUS_DP_TO_PASS;
		t.on_true = below(2) ? t.on_true : APUS_DP_TO_REJECT;
	}
	return t;
}

static struct apus_dp_predicate *assemble(const struct apus_dp_program *program)
{
	size_t bytes = apus_dp_predicate_bytes(program);

	assert_true(bytes > 0);
	return apus_dp_predicate_assemble(program, malloc(bytes));
}

static void put_u32(uint8_t *at, uint32_t value)
{
	memcpy(at, &value, 4);
}

/* A payload of the layout; the string has `length` bytes with its NUL. Returns its size. */
static size_t some_payload(const struct layout *l, uint8_t *p)
{
	static const char *const words[] = {"RED", "REDG",    "GREEN",    "RE",
					    "",    "MAGENTA", "DGREENBL", "XRED"};
	const char *word = words[below(4) ? 0 : below(8)];
	uint32_t length = (uint32_t)strlen(word) + 1;
	size_t at = 4;

	memset(p, 0, 64);
	p[1] = below(8) ? 1 : 7; /* CDR or CDR2, little-endian */
	for (int i = 1; i < 3; i++)
		if (l->front[i]) {
			put_u32(p + at, some_integer());
			at += 4;
		}
	put_u32(p + at, length);
	memcpy(p + at + 4, word, length);
	at += 4 + ((length + 3) & ~3u);
	for (int i = 1; i < 3; i++)
		if (!l->front[i]) {
			put_u32(p + at, some_integer());
			at += 4;
		}
	return at;
}

/* Returns the new size. */
static size_t damage(uint8_t *p, size_t n)
{
	switch (below(12)) {
	case 0: return below((uint32_t)n + 1);
	case 1: return n + below(9);
	case 2: p[below((uint32_t)n)] = 0; break;
	case 3: p[below((uint32_t)n)] = 0xff; break;
	case 4: p[below((uint32_t)n)]++; break;
	case 5: p[3] = (uint8_t)below(8); break;
	case 6: put_u32(p + 4, below(2) ? below(16) : UINT32_MAX - below(16)); break;
	default: break;
	}
	return n;
}

static void compare(const struct apus_dp_predicate *some, const struct apus_dp_predicate *plain,
		    const struct layout *l, uint32_t verdicts[3])
{
	for (int i = 0; i < PAYLOADS; i++) {
		uint8_t bytes[96] = {0}, *exact;
		size_t n = damage(bytes, some_payload(l, bytes));
		enum apus_dp_verdict wanted;

		exact = malloc(n + 1); /* never of 0 bytes */
		memcpy(exact + 1, bytes, n);
		wanted = apus_dp_predicate_eval(plain, exact + 1, n);
		verdicts[wanted]++;
		assert_int_equal(apus_dp_predicate_eval(some, exact + 1, n), wanted);
		free(exact);
	}
}

static void forms_agree(void **state)
{
	uint32_t verdicts[3] = {0};

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		struct layout l = {{false, below(2), below(2)}, below(4) != 0, below(3) ? 0 : 5};
		struct apus_wire_step steps[3];
		struct apus_dp_test tests[7];
		uint16_t count = (uint16_t)(1 + below(6));
		struct apus_dp_program p = {.fields = fields,
					    .field_count = 3,
					    .tests = tests + 1,
					    .test_count = count,
					    .steps = {steps, steps},
					    .text = text,
					    .text_bytes = sizeof(text)};
		struct apus_dp_predicate *some, *plain;

		p.step_count[0] = p.step_count[1] = lay_steps(&l, steps);
		for (uint16_t i = 0; i < count; i++)
			tests[1 + i] = some_test(&l, i, count);
		some = assemble(&p);
		for (uint16_t i = 1; i <= count; i++) {
			tests[i].on_true += tests[i].on_true < APUS_DP_TO_REJECT;
			tests[i].on_false += tests[i].on_false < APUS_DP_TO_REJECT;
		}
		tests[0] = (struct apus_dp_test){.op = APUS_DP_NUMBERS,
						 .accept = APUS_DP_EQUAL,
						 .field = 1,
						 .field_b = 1,
						 .on_true = 1,
						 .on_false = APUS_DP_TO_REJECT};
		p.tests = tests;
		p.test_count++;
		plain = assemble(&p);
		compare(some, plain, &l, verdicts);
		apus_dp_predicate_free(some);
		apus_dp_predicate_free(plain);
	}
	for (int i = 0; i < 3; i++)
		assert_true(verdicts[i] > ROUNDS * PAYLOADS / 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forms_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
