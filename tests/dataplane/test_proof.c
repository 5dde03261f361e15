/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a writer that asks for proof sends nothing but challenges before it has been given, cannot be fooled
 * by numbers that others may know, and afterwards serves the reader completely.
 * Method: a writer and a reader over a wire in memory; answers of third parties are handed to the writer
 * directly. The output guard of a worker refuses and admits by turns.
 */
#include "dataplane/writer_internal.h"
#include "tests/dataplane/wire_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct wire_options options = {.reliable = true,
					    .transient_local = true,
					    .keep_all = true,
					    .depth = 1,
					    .max_samples = 64,
					    .proof_secret = UINT64_C(0x123456789abcdef1)};

static uint64_t count(const struct apus_counter *c)
{
	return apus_counter_get(c);
}

static struct apus_dp_writer_state *state_of(struct wire_endpoints *e)
{
	return apus_dp_writer_find_state(e->writer, &e->reader->config.guid);
}

/* An ACKNACK of the reader with a base, from a host of 127.0.0.0/8. */
static unsigned answer(struct wire_pair *p, struct wire_endpoints *e, apus_seq base, uint8_t host)
{
	static uint32_t number = 1000;
	struct apus_dp_addr from = apus_dp_addr_v4((uint8_t[]){127, 0, 0, host}, 7);
	struct apus_wire_acknack a = {.reader = e->reader->eid,
				      .writer = e->writer->eid,
				      .set = {.base = base, .num_bits = 1, .bitmap = {0x80000000u}},
				      .count = ++number,
				      .final = true};
	unsigned result;

	apus_dp_worker_take_turn(p->a.worker);
	result = apus_dp_writer_acknack(e->writer, &e->reader->config.guid, &a, &from, p->now);
	apus_dp_worker_end_turn(p->a.worker);
	return result;
}

static void begin(struct wire_pair *p, struct wire_endpoints *e, uint64_t seed)
{
	wire_pair_init(p, seed);
	wire_endpoints_init(p, e, &options);
	for (int x = 1; x <= 20; x++)
		assert_int_equal(wire_write(p, e, "RED", x, APUS_ALIVE), 0);
}

static void an_honest_reader_gets_everything(void **state)
{
	static struct wire_pair p;
	struct wire_endpoints e;

	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		begin(&p, &e, seed);
		wire_set(&p, seed % 2 ? 30 : 0, 10, 10);
		wire_match(&p, &e, true, &options);
		wire_run(&p, 3 * APUS_NS_PER_SEC);
		assert_false(apus_dp_writer_unproved(e.writer, state_of(&e)));
		assert_true(apus_dp_writer_acked(e.writer, e.writer->last));
		assert_int_equal(count(&e.reader->counters.results[APUS_DP_STORED]), 20);
		wire_endpoints_fini(&p, &e);
		wire_pair_fini(&p);
	}
}

static void without_an_answer_only_challenges_leave(void **state)
{
	static struct wire_pair p;
	struct wire_endpoints e;

	(void)state;
	begin(&p, &e, 2);
	wire_set(&p, 100, 0, 0);
	wire_match(&p, &e, true, &options);
	wire_run(&p, APUS_NS_PER_SEC);
	assert_int_equal(count(&e.writer->counters.data_sent), 0);
	assert_in_range(count(&e.writer->counters.heartbeats), 5, 20);
	assert_true(apus_dp_writer_unproved(e.writer, state_of(&e)));
	/* Requests for real numbers and for none come to nothing but another challenge. */
	for (apus_seq base = 0; base <= 1; base++)
		assert_int_equal(answer(&p, &e, base, 9), APUS_DP_ANSWER_MATCHED);
	assert_int_equal(answer(&p, &e, e.writer->first, 9), APUS_DP_ANSWER_MATCHED);
	assert_int_equal(count(&e.writer->counters.data_sent), 0);
	assert_int_equal(count(&e.writer->counters.gaps), 0);
	assert_true(state_of(&e)->acked < e.writer->first);
	wire_endpoints_fini(&p, &e);
	wire_pair_fini(&p);
}

static void the_challenge_is_proof_from_anywhere(void **state)
{
	static struct wire_pair p;
	struct wire_endpoints e;

	(void)state;
	begin(&p, &e, 3);
	wire_set(&p, 100, 0, 0);
	wire_match(&p, &e, true, &options);
	wire_run(&p, APUS_NS_PER_MS);
	assert_in_range(state_of(&e)->challenge, 2, APUS_DP_PROOF_FIRST - 2);
	assert_int_equal(answer(&p, &e, state_of(&e)->challenge + 1, 9),
			 APUS_DP_ANSWER_MATCHED | APUS_DP_ANSWER_PROVED);
	/* Once is enough; what follows is an ordinary request. */
	assert_int_equal(answer(&p, &e, e.writer->first, 9), APUS_DP_ANSWER_MATCHED);
	assert_int_equal(count(&e.writer->counters.data_sent), 1);
	wire_endpoints_fini(&p, &e);
	wire_pair_fini(&p);
}

static void a_written_number_is_proof_from_its_host_only(void **state)
{
	static struct wire_pair p;
	struct wire_endpoints e;
	uint8_t host;

	(void)state;
	begin(&p, &e, 4);
	wire_set(&p, 100, 0, 0);
	wire_match(&p, &e, true, &options);
	wire_run(&p, APUS_NS_PER_MS);
	host = state_of(&e)->addr.ip[15];
	assert_int_equal(answer(&p, &e, e.writer->first + 1, host + 1), APUS_DP_ANSWER_MATCHED);
	assert_int_equal(answer(&p, &e, e.writer->first + 1, host),
			 APUS_DP_ANSWER_MATCHED | APUS_DP_ANSWER_PROVED);
	wire_endpoints_fini(&p, &e);
	wire_pair_fini(&p);
}

static void guessing_ends_soon(void **state)
{
	static struct wire_pair p;
	struct wire_endpoints e;
	apus_seq challenge;

	(void)state;
	begin(&p, &e, 5);
	wire_set(&p, 100, 0, 0);
	wire_match(&p, &e, true, &options);
	wire_run(&p, APUS_NS_PER_MS);
	challenge = state_of(&e)->challenge;
	for (apus_seq guess = 0; guess < APUS_DP_WRONG_ANSWERS; guess++)
		assert_int_equal(answer(&p, &e, challenge + 2 + guess, 9), APUS_DP_ANSWER_MATCHED);
	assert_int_equal(answer(&p, &e, challenge + 1, 9), APUS_DP_ANSWER_MATCHED);
	assert_true(apus_dp_writer_unproved(e.writer, state_of(&e)));
	wire_endpoints_fini(&p, &e);
	wire_pair_fini(&p);
}

/* ---- the guard at the output -------------------------------------------------------------------- */

struct guard {
	struct apus_prefix asked[64];
	uint32_t bytes[64], count;
	bool admit;
};

static bool may_send(void *user, const struct apus_prefix *dest, uint32_t bytes)
{
	struct guard *g = user;

	assert_true(g->count < 64);
	g->asked[g->count] = *dest;
	g->bytes[g->count++] = bytes;
	return g->admit;
}

static void add_acknack(struct apus_dp_out *out, const struct apus_dp_addr *to,
			const struct apus_prefix *dest)
{
	struct apus_wire_acknack a = {.set = {.base = 1}};

	assert_int_equal(apus_wire_acknack(apus_dp_out_at(out, to, dest, 64), &a), 0);
}

static void nothing_leaves_that_the_guard_refuses(void **state)
{
	const struct apus_prefix one = {{1}}, two = {{2}};
	struct apus_dp_addr to = apus_dp_addr_v4((uint8_t[]){127, 0, 0, 1}, 7410);
	struct apus_dp_addr group = apus_dp_addr_v4((uint8_t[]){239, 255, 0, 1}, 7400);
	static struct wire_pair p;
	struct guard g = {.admit = false};
	struct apus_dp_out *out;

	(void)state;
	wire_pair_init(&p, 6);
	apus_dp_worker_take_turn(p.a.worker);
	out = &p.a.worker->out;
	out->may_send = may_send;
	out->may_send_user = &g;
	add_acknack(out, &to, &one);
	add_acknack(out, &to, &one); /* same datagram */
	add_acknack(out, &to, &two); /* same address, but another participant's business */
	apus_dp_out_flush(out);
	assert_int_equal(g.count, 2);
	assert_true(apus_prefix_equal(&g.asked[0], &one) && apus_prefix_equal(&g.asked[1], &two));
	assert_int_equal(g.bytes[0], 20 + 16 + 2 * 28);
	assert_int_equal(g.bytes[1], 20 + 16 + 28);
	assert_int_equal(p.a_to_b.sent, 0);
	assert_int_equal(count(&out->withheld), 2);
	/* The group and what is for everybody are not asked about. */
	add_acknack(out, &group, &one);
	add_acknack(out, &to, NULL);
	apus_dp_out_flush(out);
	assert_int_equal(g.count, 2);
	assert_int_equal(p.a_to_b.sent, 2);
	g.admit = true;
	add_acknack(out, &to, &one);
	apus_dp_worker_end_turn(p.a.worker);
	assert_int_equal(g.count, 3);
	assert_int_equal(p.a_to_b.sent, 3);
	wire_pair_fini(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_honest_reader_gets_everything),
		cmocka_unit_test(without_an_answer_only_challenges_leave),
		cmocka_unit_test(the_challenge_is_proof_from_anywhere),
		cmocka_unit_test(a_written_number_is_proof_from_its_host_only),
		cmocka_unit_test(guessing_ends_soon),
		cmocka_unit_test(nothing_leaves_that_the_guard_refuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
