/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: descriptor rings and returned slots do what they say at their limits, and a peer that writes nonsense is found
 * out and stops only its own ring.
 * Method: both ends in one thread; the peer's half is overwritten by hand and at random.
 */
#include "shm/bell.h"
#include "shm/returns.h"
#include "shm/ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CAPACITY 8

struct pair {
	struct apus_shm_ring_out *out;
	struct apus_shm_ring_in in;
	struct apus_shm_ring_writer writer;
	struct apus_shm_ring_reader reader;
};

static int setup(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));

	p->out = calloc(1, apus_shm_ring_bytes(CAPACITY, 0));
	apus_shm_ring_writer_init(&p->writer, p->out, &p->in, CAPACITY, 0);
	apus_shm_ring_reader_init(&p->reader, p->out, &p->in, CAPACITY, 0);
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	struct pair *p = *state;

	free(p->out);
	free(p);
	return 0;
}

static struct apus_shm_desc desc(uint64_t n)
{
	return (struct apus_shm_desc){{n, n + 1, n + 2, n + 3}};
}

/* One attempt to claim. */
static enum apus_shm_ring_result claim(struct apus_shm_ring_reader *ring, struct apus_shm_desc *d,
				       uint64_t *lost)
{
	enum apus_shm_ring_result result = apus_shm_ring_look(ring, d);

	return result == APUS_SHM_DONE ? apus_shm_ring_claim(ring, lost) : result;
}

static void push(struct pair *p, uint64_t n)
{
	struct apus_shm_desc d = desc(n);

	assert_int_equal(apus_shm_ring_push(&p->writer, &d), APUS_SHM_DONE);
}

static void take(struct pair *p, uint64_t n)
{
	struct apus_shm_desc d, expected = desc(n);

	assert_int_equal(apus_shm_ring_peek(&p->reader, &d), APUS_SHM_DONE);
	assert_memory_equal(&d, &expected, sizeof(d));
	apus_shm_ring_advance(&p->reader);
	apus_shm_ring_give(&p->reader);
}

static void test_sizes(void **state)
{
	(void)state;
	assert_int_equal(apus_shm_ring_bytes(0, 0), 0);
	assert_int_equal(apus_shm_ring_bytes(3, 0), 0);
	assert_int_equal(apus_shm_ring_bytes((1u << 20) + 1, 0), 0);
	assert_int_equal(apus_shm_ring_bytes(1u << 21, 0), 0);
	assert_int_equal(apus_shm_ring_bytes(1, APUS_SHM_INLINE_MAX + 1), 0);
	assert_int_equal(apus_shm_ring_bytes(1, 0), 128 + 64);
	assert_int_equal(apus_shm_ring_bytes(1, 24), 128 + 64);
	assert_int_equal(apus_shm_ring_bytes(4, 25), 128 + 4 * 128);
	assert_int_equal(apus_shm_ring_bytes(1, APUS_SHM_INLINE_MAX), 128 + 512);
	assert_int_equal(apus_shm_ring_bytes(1u << 20, 0), 128 + ((size_t)64 << 20));
}

static void test_full_pushes_back(void **state)
{
	struct pair *p = *state;
	struct apus_shm_desc d = desc(99);

	assert_int_equal(apus_shm_ring_peek(&p->reader, &d), APUS_SHM_NOTHING);
	for (uint64_t round = 0; round < 5; round++) {
		for (uint64_t i = 0; i < CAPACITY; i++)
			push(p, round * 100 + i);
		assert_int_equal(apus_shm_ring_waiting(&p->writer), CAPACITY);
		assert_int_equal(apus_shm_ring_push(&p->writer, &d), APUS_SHM_NOTHING);
		/* What is looked at and not taken stays. */
		assert_int_equal(apus_shm_ring_peek(&p->reader, &d), APUS_SHM_DONE);
		assert_int_equal(apus_shm_ring_push(&p->writer, &d), APUS_SHM_NOTHING);
		for (uint64_t i = 0; i < CAPACITY; i++)
			take(p, round * 100 + i);
		assert_int_equal(apus_shm_ring_waiting(&p->writer), 0);
	}
}

static void test_full_displaces(void **state)
{
	struct pair *p = *state;
	struct apus_shm_desc d, old, expected;
	uint64_t lost;
	bool has;

	for (uint64_t i = 0; i < CAPACITY + 3; i++) {
		d = desc(i);
		assert_int_equal(apus_shm_ring_push_over(&p->writer, &d, &old, &has),
				 APUS_SHM_DONE);
		assert_int_equal(has, i >= CAPACITY);
		expected = desc(i - CAPACITY);
		if (has)
			assert_memory_equal(&old, &expected, sizeof(old));
	}
	assert_int_equal(claim(&p->reader, &d, &lost), APUS_SHM_DONE);
	assert_int_equal(d.word[0], 3);
	assert_int_equal(lost, 3);
	for (uint64_t i = 4; i < CAPACITY + 3; i++) {
		assert_int_equal(claim(&p->reader, &d, &lost), APUS_SHM_DONE);
		assert_int_equal(d.word[0], i);
		assert_int_equal(lost, 0);
	}
	assert_int_equal(claim(&p->reader, &d, &lost), APUS_SHM_NOTHING);
}

/* Heads beyond the tail, before where they were, or far away: the writer stops, and stays stopped. */
static void test_nonsense_head(void **state)
{
	static const uint64_t heads[] = {CAPACITY + 1, 1, UINT64_MAX, UINT64_C(1) << 63};
	struct pair *p = *state;
	struct apus_shm_desc d = desc(1), old;
	bool has;

	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		for (int displacing = 0; displacing < 2; displacing++) {
			apus_shm_ring_writer_init(&p->writer, p->out, &p->in, CAPACITY, 0);
			atomic_store(&p->in.head, 2);
			p->writer.tail = CAPACITY;
			assert_int_equal(apus_shm_ring_waiting(&p->writer), CAPACITY - 2);
			p->writer.tail = CAPACITY + 2;
			atomic_store(&p->in.head,
				     heads[i] == CAPACITY + 1 ? CAPACITY + 3 : heads[i]);
			for (int again = 0; again < 2; again++)
				assert_int_equal(displacing ? apus_shm_ring_push_over(
								      &p->writer, &d, &old, &has)
							    : apus_shm_ring_push(&p->writer, &d),
						 APUS_SHM_BROKEN);
			assert_int_equal(apus_shm_ring_waiting(&p->writer), CAPACITY);
		}
	}
}

/* Stamps of laps to come in a ring that pushes back: the reader stops, and stays stopped. One of another lap is none,
 * and so is any in a ring that displaces, whose writer may have overtaken. */
static void test_nonsense_stamp(void **state)
{
	static const uint64_t stamps[] = {3, CAPACITY + 2, UINT64_MAX};
	struct pair *p = *state;
	struct apus_shm_desc d;
	uint64_t lost;

	push(p, 1);
	take(p, 1);
	for (size_t i = 0; i < sizeof(stamps) / sizeof(stamps[0]); i++) {
		atomic_store(&p->out->cells[8], stamps[i]);
		assert_int_equal(apus_shm_ring_peek(&p->reader, &d), APUS_SHM_BROKEN);
		atomic_store(&p->out->cells[8], 2);
		assert_int_equal(apus_shm_ring_peek(&p->reader, &d), APUS_SHM_BROKEN);
		p->reader.broken = false;
		atomic_store(&p->out->cells[8], stamps[i]);
		assert_int_equal(claim(&p->reader, &d, &lost), APUS_SHM_NOTHING);
	}
	atomic_store(&p->out->cells[8], 1);
	assert_int_equal(apus_shm_ring_peek(&p->reader, &d), APUS_SHM_NOTHING);
	/* A head that goes back. */
	atomic_store(&p->in.head, 0);
	assert_int_equal(claim(&p->reader, &d, &lost), APUS_SHM_BROKEN);
	assert_int_equal(claim(&p->reader, &d, &lost), APUS_SHM_BROKEN);
}

/* Payloads of every size, round the ring some times; what is beyond a payload is not touched, what does not fit is not
 * read. */
static void test_payloads(void **state)
{
	enum { MAX = 88 };
	struct apus_shm_ring_out *out = calloc(1, apus_shm_ring_bytes(CAPACITY, MAX));
	struct apus_shm_ring_in in = {0};
	struct apus_shm_ring_writer w;
	struct apus_shm_ring_reader r;
	uint8_t sent[MAX];
	uint64_t words[MAX / 8 + 8];
	uint8_t *got = (uint8_t *)words;

	(void)state;
	assert_non_null(out);
	apus_shm_ring_writer_init(&w, out, &in, CAPACITY, MAX);
	apus_shm_ring_reader_init(&r, out, &in, CAPACITY, MAX);
	assert_int_equal(apus_shm_ring_inline_bytes(w.cell_words), MAX);
	for (uint32_t n = 0; n <= MAX; n++) {
		struct apus_shm_desc d = desc(n), seen;

		memset(sent, (int)n + 1, sizeof(sent));
		memset(words, 0xee, sizeof(words));
		assert_int_equal(apus_shm_ring_reserve(&w), APUS_SHM_DONE);
		apus_shm_ring_put(&w, &d, sent, n);
		/* Nobody sleeps, so nobody has to be told. */
		assert_int_equal(atomic_load(&out->tail), n / 2 * 2);
		if (n % 2)
			assert_true(apus_shm_ring_publish(&w));
		assert_int_equal(apus_shm_ring_peek(&r, &seen), APUS_SHM_DONE);
		assert_memory_equal(&seen, &d, sizeof(d));
		apus_shm_ring_payload(&r, words, n);
		assert_memory_equal(got, sent, n);
		assert_int_equal(got[(n + 7) / 8 * 8], 0xee);
		apus_shm_ring_advance(&r);
		/* The writer does not know yet. */
		assert_int_equal(apus_shm_ring_waiting(&w), 1);
		apus_shm_ring_give(&r);
		assert_int_equal(apus_shm_ring_waiting(&w), 0);
	}
	assert_true(apus_shm_ring_publish(&w));
	assert_false(apus_shm_ring_publish(&w));
	assert_false(apus_shm_ring_has_more(&r));
	memset(words, 0xee, sizeof(words));
	apus_shm_ring_payload(&r, words, UINT32_MAX);
	assert_int_equal(got[MAX], 0xee);
	free(out);
}

/* Several are put and told of together; a ring full of those is displaced from as any other. */
static void test_displaces_what_was_put(void **state)
{
	struct pair *p = *state;
	struct apus_shm_desc d, old;
	uint64_t lost;
	bool has;

	for (uint64_t i = 0; i < 3 * CAPACITY; i++) {
		d = desc(i);
		assert_int_equal(apus_shm_ring_reserve_over(&p->writer, &old, &has), APUS_SHM_DONE);
		assert_int_equal(has, i >= CAPACITY);
		if (has)
			assert_int_equal(old.word[0], i - CAPACITY);
		apus_shm_ring_put(&p->writer, &d, NULL, 0);
	}
	assert_false(apus_shm_ring_has_more(&p->reader)); /* but nobody has been told yet */
	for (uint64_t i = 2 * CAPACITY; i < 3 * CAPACITY; i++) {
		assert_int_equal(claim(&p->reader, &d, &lost), APUS_SHM_DONE);
		assert_int_equal(d.word[0], i);
	}
	assert_int_equal(claim(&p->reader, &d, &lost), APUS_SHM_NOTHING);
	assert_true(apus_shm_ring_publish(&p->writer));
	assert_false(apus_shm_ring_has_more(&p->reader));
}

/* A million operations beside somebody who scribbles into the head now and then: no access beyond the cells
 * (AddressSanitizer sees one), no endless loop. */
static void test_scribbler(void **state)
{
	struct pair *p = *state;
	struct apus_shm_desc d = desc(7), old;
	uint64_t lost;
	bool has;

	srand(1);
	for (int i = 0; i < 1000000; i++) {
		if (i % 64 == 0) {
			apus_shm_ring_writer_init(&p->writer, p->out, &p->in, CAPACITY, 0);
			apus_shm_ring_reader_init(&p->reader, p->out, &p->in, CAPACITY, 0);
			atomic_store(&p->in.head, 0);
			atomic_store(&p->out->tail, 0);
			for (int k = 0; k < CAPACITY; k++)
				atomic_store(&p->out->cells[8 * k], 0);
		}
		switch (rand() % 9) {
		case 0: atomic_store(&p->in.head, (uint64_t)rand() << (rand() % 40)); break;
		case 1: atomic_store(&p->out->tail, (uint64_t)rand() << (rand() % 40)); break;
		case 2:
			atomic_store(&p->out->cells[8 * (rand() % CAPACITY)],
				     (uint64_t)rand() % (4 * CAPACITY));
			break;
		case 3 ... 5: apus_shm_ring_push_over(&p->writer, &d, &old, &has); break;
		default: claim(&p->reader, &d, &lost);
		}
	}
}

/* --- slots that come back ------------------------------------------------------------------------ */

struct back {
	uint32_t count;
	uint8_t times[200];
};

static void came_back(void *user, uint32_t slot)
{
	struct back *b = user;

	b->count++;
	b->times[slot]++;
}

static void test_returns(void **state)
{
	apus_shm_word returned[APUS_SHM_RETURN_WORDS(200)] = {0};
	struct apus_shm_held held;
	struct back b = {0};
	uint64_t false_ones = 0;

	(void)state;
	assert_int_equal(apus_shm_held_init(&held, 200, returned), 0);
	assert_int_equal(held.words, 4);
	for (uint32_t slot = 0; slot < 200; slot += 2)
		apus_shm_held_add(&held, slot);
	assert_int_equal(held.count, 100);
	/* Twice, and one it never had: believed once, and not. */
	apus_shm_return(returned, 0);
	apus_shm_return(returned, 0);
	apus_shm_return(returned, 1);
	apus_shm_return(returned, 198);
	assert_int_equal(apus_shm_held_collect(&held, 1, came_back, &b, &false_ones), 1);
	assert_int_equal(apus_shm_held_collect(&held, 4, came_back, &b, &false_ones), 1);
	assert_int_equal(false_ones, 1);
	assert_int_equal(b.times[0], 1);
	assert_int_equal(b.times[1], 0);
	assert_int_equal(b.times[198], 1);
	apus_shm_return(returned, 0);
	assert_int_equal(apus_shm_held_collect(&held, 4, came_back, &b, &false_ones), 0);
	assert_int_equal(false_ones, 2);

	assert_true(apus_shm_held_remove(&held, 2));
	assert_false(apus_shm_held_remove(&held, 2));
	assert_false(apus_shm_held_remove(&held, 100000));
	apus_shm_return(returned, 4);
	assert_int_equal(apus_shm_held_drop(&held, came_back, &b), 97);
	assert_int_equal(held.count, 0);
	assert_int_equal(apus_shm_held_collect(&held, 4, came_back, &b, NULL), 0);
	for (uint32_t slot = 0; slot < 200; slot++)
		assert_int_equal(b.times[slot], slot % 2 == 0 && slot != 2);
	apus_shm_held_fini(&held);
}

static void test_bell(void **state)
{
	struct pair *p = *state;
	struct apus_shm_bell bell = {0};

	assert_false(apus_shm_bell_signal(&bell));
	assert_true(apus_shm_bell_doze(&bell, &p->reader));
	push(p, 1);
	/* One ring a sleep. */
	assert_true(apus_shm_bell_signal(&bell));
	assert_false(apus_shm_bell_signal(&bell));
	assert_false(apus_shm_bell_doze(&bell, &p->reader));
	apus_shm_bell_wake(&bell);
	assert_false(apus_shm_bell_signal(&bell));
	take(p, 1);
	assert_true(apus_shm_bell_doze(&bell, &p->reader));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test_setup_teardown(test_full_pushes_back, setup, teardown),
		cmocka_unit_test_setup_teardown(test_full_displaces, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nonsense_head, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nonsense_stamp, setup, teardown),
		cmocka_unit_test(test_payloads),
		cmocka_unit_test_setup_teardown(test_displaces_what_was_put, setup, teardown),
		cmocka_unit_test_setup_teardown(test_scribbler, setup, teardown),
		cmocka_unit_test(test_returns),
		cmocka_unit_test_setup_teardown(test_bell, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
