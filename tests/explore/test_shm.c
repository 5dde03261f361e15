/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the shared-memory protocol is right under the C11 memory model: no descriptor is lost, duplicated, torn or
 * out of order, no slot is written while a reader reads it, every slot has exactly one owner, and no wake-up
 * is lost.
 * Method: the sources themselves, run in every order by explore.c, on rings of two cells. Then each order of
 * an operation that carries weight is weakened, and the explorer must find what that breaks. (Not the release of the
 * compare-exchanges of a ring that displaces: it keeps reads of a cell in front of it, and the explorer lets no
 * read see the future.)
 */
#include "explore.h"

#define APUS_SHM_DESC_WORDS 1
#define APUS_SHM_CELL_ALIGN 1

#include "shm/bell.h"
#include "shm/returns.h"
#include "shm/ring.h"

/* Compiled here once more, with the explorer's operations. */
#include "../../shm/returns.c"
#include "../../shm/ring.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define CAPACITY 2
#define SLOTS    3
#define SAMPLES  4
#define LOOKS    4 /* of a thread that polls */
#define WORDS    3 /* of a cell: stamp, descriptor, and as many of payload as asked for */

static struct {
	struct apus_shm_ring_writer writer;
	struct apus_shm_ring_reader reader;
	struct apus_shm_held held;
	uint64_t held_bits[1];
	uint32_t free_slots;      /* bits; the writer's */
	uint32_t sent, displaced; /* the writer's */
	uint32_t last, received;  /* the reader's */
	uint64_t lost;
} run;

static union {
	struct apus_shm_ring_out out;
	apus_shm_word room[16 + CAPACITY * WORDS];
} half;
static struct apus_shm_ring_in in;
static apus_shm_word returned[1];
static apus_shm_word payload[SLOTS];

/* A fixed order of words makes equal states look equal. */
static void begin(void)
{
	memset(&run, 0, sizeof(run));
	apus_shm_ring_writer_init(&run.writer, &half.out, &in, CAPACITY, 8);
	apus_shm_ring_reader_init(&run.reader, &half.out, &in, CAPACITY, 8);
	run.held = (struct apus_shm_held){.bits = run.held_bits, .returned = returned, .words = 1};
	run.free_slots = (1u << SLOTS) - 1;
	apus_shm_store(&half.out.tail, 0, relaxed);
	apus_shm_store(&in.head, 0, relaxed);
	apus_shm_store(&returned[0], 0, relaxed);
	for (int i = 0; i < CAPACITY * WORDS; i++)
		apus_shm_store(&half.out.cells[i], 0, relaxed);
	for (int i = 0; i < SLOTS; i++) {
		apus_shm_store(&payload[i], 0, relaxed);
		explore_watch(&payload[i]);
	}
}

/* In a ring that pushes back nobody reads a cell that is being written. */
static void begin_push_back(void)
{
	begin();
	for (int i = 0; i < CAPACITY * WORDS; i++)
		if (i % WORDS) /* a stamp is read whenever anybody looks */
			explore_watch(&half.out.cells[i]);
}

static void slot_back(void *user, uint32_t slot)
{
	(void)user;
	explore_check(!(run.free_slots & 1u << slot), "a slot came back twice");
	run.free_slots |= 1u << slot;
}

/* Fills a free slot with the next sample; the descriptor says both. */
static struct apus_shm_desc fill(uint32_t *slot_out)
{
	uint32_t slot = (uint32_t)__builtin_ctz(run.free_slots);

	/* Relaxed: plain memory of the slot; the ring orders it. */
	apus_shm_store(&payload[slot], run.sent + 1, relaxed);
	*slot_out = slot;
	return (struct apus_shm_desc){{(run.sent + 1) << 8 | slot}};
}

static void sent(uint32_t slot)
{
	run.free_slots &= ~(1u << slot);
	apus_shm_held_add(&run.held, slot);
	run.sent++;
}

/* The reader's view of a sample it has: still what was written, and newer than the one before. */
static void check_sample(const struct apus_shm_desc *desc, uint32_t slot)
{
	uint32_t number = (uint32_t)(desc->word[0] >> 8);

	explore_check(slot < SLOTS && number >= 1 && number <= SAMPLES, "a torn descriptor");
	if (slot >= SLOTS)
		return;
	explore_check(number > run.last, "out of order or twice");
	/* Relaxed: as the writer's. */
	explore_check(apus_shm_load(&payload[slot], relaxed) == number,
		      "the payload is not this sample's");
	run.last = number;
	run.received++;
}

/* The payload in the cell is the sample's number, too. */
static void put(const struct apus_shm_desc *desc)
{
	uint64_t number = run.sent + 1;

	apus_shm_ring_put(&run.writer, desc, &number, sizeof(number));
	(void)apus_shm_ring_publish(&run.writer);
}

static uint64_t payload_in_cell(void)
{
	uint64_t number;

	apus_shm_ring_payload(&run.reader, &number, sizeof(number));
	return number;
}

/* --- a ring that pushes back --------------------------------------------------------------------- */

static void push_all(void)
{
	for (int look = 0; look < SAMPLES + LOOKS && run.sent < SAMPLES; look++) {
		struct apus_shm_desc desc;
		uint32_t slot;

		apus_shm_held_collect(&run.held, 1, slot_back, NULL, NULL);
		if (run.free_slots == 0)
			continue;
		desc = fill(&slot);
		if (apus_shm_ring_reserve(&run.writer) != APUS_SHM_DONE)
			continue;
		put(&desc);
		sent(slot);
	}
	explore_check(!run.writer.broken, "the writer found the ring broken");
}

static bool take_one(void)
{
	struct apus_shm_desc desc;
	uint32_t slot, before = run.last;

	if (apus_shm_ring_peek(&run.reader, &desc) != APUS_SHM_DONE)
		return false;
	slot = (uint32_t)desc.word[0] & 0xff;
	check_sample(&desc, slot);
	explore_check(payload_in_cell() == run.last, "a torn payload");
	explore_check(run.last == before + 1, "a sample was skipped");
	apus_shm_ring_advance(&run.reader);
	apus_shm_ring_give(&run.reader);
	if (slot < SLOTS)
		apus_shm_return(returned, slot);
	return true;
}

static void take_some(void)
{
	for (int look = 0; look < LOOKS; look++)
		take_one();
	explore_check(!run.reader.broken, "the reader found the ring broken");
}

static void end_push_back(void)
{
	while (take_one())
		;
	explore_check(run.received == run.sent, "a sample was lost");
	apus_shm_held_collect(&run.held, 1, slot_back, NULL, NULL);
	explore_check(run.free_slots == (1u << SLOTS) - 1 && run.held.count == 0,
		      "a slot did not come back");
}

static const struct explore_program pushes_back = {
	"pushes back", begin_push_back, {push_all, take_some}, end_push_back};

/* --- a ring that displaces ----------------------------------------------------------------------- */

static void push_over_all(void)
{
	for (int look = 0; look < SAMPLES + 1 && run.sent < SAMPLES; look++) {
		struct apus_shm_desc desc, old;
		uint32_t slot;
		bool displaced;

		apus_shm_held_collect(&run.held, 1, slot_back, NULL, NULL);
		if (run.free_slots == 0)
			continue;
		desc = fill(&slot);
		if (apus_shm_ring_reserve_over(&run.writer, &old, &displaced) != APUS_SHM_DONE)
			continue;
		put(&desc);
		sent(slot);
		if (!displaced)
			continue;
		run.displaced++;
		explore_check(apus_shm_held_remove(&run.held, (uint32_t)old.word[0] & 0xff),
			      "displaced what the reader did not have");
		slot_back(NULL, (uint32_t)old.word[0] & 0xff);
	}
	explore_check(!run.writer.broken, "the writer found the ring broken");
}

static bool claim_one(void)
{
	struct apus_shm_desc desc;
	uint64_t lost, number;
	uint32_t slot;

	if (apus_shm_ring_look(&run.reader, &desc) != APUS_SHM_DONE)
		return false;
	number = payload_in_cell();
	if (apus_shm_ring_claim(&run.reader, &lost) != APUS_SHM_DONE)
		return false;
	run.lost += lost;
	slot = (uint32_t)desc.word[0] & 0xff;
	check_sample(&desc, slot);
	explore_check(number == run.last, "a torn payload");
	if (slot < SLOTS)
		apus_shm_return(returned, slot);
	return true;
}

static void claim_some(void)
{
	for (int look = 0; look < 2; look++)
		claim_one();
	explore_check(!run.reader.broken, "the reader found the ring broken");
}

static void end_displacing(void)
{
	while (claim_one())
		;
	explore_check(run.received + run.displaced == run.sent, "a sample was lost or taken twice");
	explore_check(run.lost == run.displaced,
		      "the reader does not know how many were displaced");
	apus_shm_held_collect(&run.held, 1, slot_back, NULL, NULL);
	explore_check(run.free_slots == (1u << SLOTS) - 1, "a slot did not come back");
}

static const struct explore_program displaces = {
	"displaces", begin, {push_over_all, claim_some}, end_displacing};

/* --- a reader killed at any instruction ---------------------------------------------------------- */

/* The writer learns of the death and drops what the reader held; some of it may have come back already. */
static void end_killed(void)
{
	apus_shm_held_drop(&run.held, slot_back, NULL);
	explore_check(run.free_slots == (1u << SLOTS) - 1 && run.held.count == 0,
		      "a slot of the dead did not come back");
	apus_shm_held_collect(&run.held, 1, slot_back, NULL, NULL);
}

static const struct explore_program killed = {
	"killed", begin_push_back, {push_all, take_some}, end_killed, 1};
static const struct explore_program killed_displacing = {
	"killed, displacing", begin, {push_over_all, claim_some}, end_killed, 1};

/* --- the bell ------------------------------------------------------------------------------------ */

static struct apus_shm_bell bell;
static bool slept;
static uint32_t rung, dozes;

static void begin_bell(void)
{
	begin();
	slept = false;
	rung = dozes = 0;
	apus_shm_store(&bell.asleep, 0, relaxed);
}

static void push_and_signal(void)
{
	for (int i = 0; i < 2; i++) {
		struct apus_shm_desc desc;
		uint32_t slot;

		desc = fill(&slot);
		put(&desc);
		sent(slot);
		rung += apus_shm_bell_signal(&bell);
	}
}

/* Drains what is ready, then goes to sleep for good. */
static void drain_and_sleep(void)
{
	for (int look = 0; look < 3; look++) {
		while (take_one())
			;
		dozes++;
		if (apus_shm_bell_doze(&bell, &run.reader)) {
			slept = true;
			return;
		}
		apus_shm_bell_wake(&bell);
	}
}

static void end_bell(void)
{
	if (slept && run.received < run.sent)
		explore_check(rung > 0, "it sleeps and nobody rang");
	explore_check(rung <= dozes, "rung twice for one sleep");
	while (take_one())
		;
	explore_check(run.received == run.sent, "a sample was lost");
}

static const struct explore_program bells = {
	"bell", begin_bell, {push_and_signal, drain_and_sleep}, end_bell};

/* --- tests --------------------------------------------------------------------------------------- */

static void test_holds(void **state)
{
	static const struct explore_program *const programs[] = {&pushes_back, &displaces, &killed,
								 &killed_displacing, &bells};

	(void)state;
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		struct explore_result r = explore(programs[i]);

		print_message("%s: %llu states, %llu executions\n", programs[i]->name,
			      (unsigned long long)r.states, (unsigned long long)r.runs);
		if (r.failed)
			fail_msg("%s: %s", programs[i]->name, r.why);
		assert_true(r.states > 500);
	}
}

static void test_broken(void **state)
{
	static const struct {
		const struct explore_program *program;
		const char *function;
		enum explore_kind kind;
		enum explore_order order;
	} variants[] = {
		{&pushes_back, "apus_shm_ring_put", EXPLORE_STORE, EXPLORE_relaxed},
		{&pushes_back, "apus_shm_ring_peek", EXPLORE_LOAD, EXPLORE_relaxed},
		{&pushes_back, "apus_shm_ring_give", EXPLORE_STORE, EXPLORE_relaxed},
		{&pushes_back, "refresh_head", EXPLORE_LOAD, EXPLORE_relaxed},
		{&pushes_back, "apus_shm_return", EXPLORE_OR, EXPLORE_relaxed},
		{&pushes_back, "apus_shm_held_collect", EXPLORE_EXCHANGE, EXPLORE_relaxed},
		{&displaces, "apus_shm_ring_put", EXPLORE_STORE, EXPLORE_relaxed},
		{&displaces, "apus_shm_ring_look", EXPLORE_LOAD, EXPLORE_relaxed},
		{&displaces, "apus_shm_return", EXPLORE_OR, EXPLORE_relaxed},
		{&bells, "apus_shm_ring_has_more", EXPLORE_LOAD, EXPLORE_acquire},
		{&bells, "apus_shm_ring_publish", EXPLORE_EXCHANGE, EXPLORE_release},
		{&bells, "apus_shm_bell_signal", EXPLORE_LOAD, EXPLORE_acquire},
		{&bells, "apus_shm_bell_doze", EXPLORE_EXCHANGE, EXPLORE_acq_rel},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
		struct explore_result r;

		explore_weaken(variants[i].function, variants[i].kind, variants[i].order);
		r = explore(variants[i].program);
		explore_weaken(NULL, EXPLORE_LOAD, EXPLORE_relaxed);
		print_message("%s, %s weaker: %s (%llu states)\n", variants[i].program->name,
			      variants[i].function, r.failed ? r.why : "holds",
			      (unsigned long long)r.states);
		if (!r.failed)
			fail_msg("%s: a weaker %s is not noticed", variants[i].program->name,
				 variants[i].function);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_holds),
		cmocka_unit_test(test_broken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
