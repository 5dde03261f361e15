/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: packets of all lengths pass a ring in order and unchanged, a full ring changes nothing, a sleeping consumer is
 * woken exactly once, and whatever the other side writes into the shared memory never leads outside of it.
 * Method: both ends in one thread; the shared half overwritten by hand, then at random under bounds checks of each
 * packet handed out.
 */
#include "shm/packets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CAPACITY 4096

struct pair {
	struct apus_shm_packets *shared;
	struct apus_shm_packet_producer p;
	struct apus_shm_packet_consumer c;
};

static void begin(struct pair *pair)
{
	memset(pair->shared, 0, apus_shm_packets_bytes(CAPACITY));
	apus_shm_packet_producer_init(&pair->p, pair->shared, CAPACITY);
	apus_shm_packet_consumer_init(&pair->c, pair->shared, CAPACITY);
}

static int setup(void **state)
{
	struct pair *pair = calloc(1, sizeof(*pair));

	pair->shared = calloc(1, apus_shm_packets_bytes(CAPACITY));
	begin(pair);
	*state = pair;
	return 0;
}

static int teardown(void **state)
{
	struct pair *pair = *state;

	free(pair->shared);
	free(pair);
	return 0;
}

static enum apus_shm_ring_result put(struct pair *pair, uint32_t length, uint8_t seed)
{
	struct apus_shm_packet packet = {.mark = seed, .word = {seed, ~(uint64_t)seed, 7}};
	enum apus_shm_ring_result rc = apus_shm_packet_reserve(&pair->p, length, &packet);

	if (rc != APUS_SHM_DONE)
		return rc;
	memset(packet.bytes, seed, length);
	apus_shm_packet_commit(&pair->p, &packet);
	return APUS_SHM_DONE;
}

static uint64_t get(struct pair *pair, uint32_t length, uint8_t seed)
{
	struct apus_shm_packet packet;

	assert_int_equal(apus_shm_packet_take(&pair->c, &packet), APUS_SHM_DONE);
	assert_int_equal(packet.length, length);
	assert_int_equal(packet.mark, seed);
	assert_true(packet.word[0] == seed && packet.word[1] == ~(uint64_t)seed &&
		    packet.word[2] == 7);
	for (uint32_t i = 0; i < length; i++)
		assert_int_equal(packet.bytes[i], seed);
	return packet.end;
}

static void sizes(void **state)
{
	(void)state;
	assert_int_equal(apus_shm_packets_bytes(0), 0);
	assert_int_equal(apus_shm_packets_bytes(2048), 0);
	assert_int_equal(apus_shm_packets_bytes(5000), 0);
	assert_int_equal(apus_shm_packets_bytes(UINT64_C(1) << 31), 0);
	assert_int_equal(apus_shm_packets_bytes(4096), 4096 + 384);
}

static void passes_in_order(void **state)
{
	struct pair *pair = *state;
	struct apus_shm_packet packet;

	assert_int_equal(put(pair, 0, 1), APUS_SHM_DONE);
	assert_int_equal(put(pair, 1000, 2), APUS_SHM_DONE);
	/* Not visible before it is published. */
	assert_int_equal(apus_shm_packet_take(&pair->c, &packet), APUS_SHM_NOTHING);
	assert_false(apus_shm_packet_publish(&pair->p));
	get(pair, 0, 1);
	apus_shm_packet_give_back(&pair->c, get(pair, 1000, 2));
	assert_int_equal(apus_shm_packet_take(&pair->c, &packet), APUS_SHM_NOTHING);
}

/* Every length, so that each place of the ring is a beginning and an end. */
static void every_length_wraps(void **state)
{
	struct pair *pair = *state;

	for (uint32_t length = 0; length <= 2016; length += 7) {
		for (int i = 0; i < 5; i++) {
			assert_int_equal(put(pair, length, (uint8_t)(length + i)), APUS_SHM_DONE);
			apus_shm_packet_publish(&pair->p);
			apus_shm_packet_give_back(&pair->c,
						  get(pair, length, (uint8_t)(length + i)));
		}
	}
}

static void full_changes_nothing(void **state)
{
	struct pair *pair = *state;
	uint64_t first;

	for (uint8_t i = 0; i < 4; i++)
		assert_int_equal(put(pair, 1024 - 32, i), APUS_SHM_DONE);
	assert_int_equal(put(pair, 0, 9), APUS_SHM_NOTHING);
	apus_shm_packet_publish(&pair->p);
	assert_int_equal(put(pair, 0, 9), APUS_SHM_NOTHING);
	first = get(pair, 1024 - 32, 0);
	/* Taken is not given back. */
	assert_int_equal(put(pair, 0, 9), APUS_SHM_NOTHING);
	apus_shm_packet_give_back(&pair->c, first);
	assert_int_equal(put(pair, 1024 - 32, 4), APUS_SHM_DONE);
	apus_shm_packet_publish(&pair->p);
	for (uint8_t i = 1; i < 5; i++)
		get(pair, 1024 - 32, i);
	assert_int_equal(
		apus_shm_packet_reserve(&pair->p, CAPACITY - 31, &(struct apus_shm_packet){0}),
		APUS_SHM_NOTHING);
	assert_int_equal(
		apus_shm_packet_reserve(&pair->p, UINT32_MAX, &(struct apus_shm_packet){0}),
		APUS_SHM_NOTHING);
}

static void a_sleeper_is_woken_once(void **state)
{
	struct pair *pair = *state;

	assert_true(apus_shm_packet_doze(&pair->c));
	put(pair, 8, 1);
	assert_true(apus_shm_packet_publish(&pair->p));
	put(pair, 8, 2);
	assert_false(apus_shm_packet_publish(&pair->p));
	/* Nothing new: no bell either. */
	assert_true(!apus_shm_packet_doze(&pair->c));
	assert_false(apus_shm_packet_publish(&pair->p));
	get(pair, 8, 1);
	apus_shm_packet_give_back(&pair->c, get(pair, 8, 2));
	assert_true(apus_shm_packet_doze(&pair->c));
	apus_shm_packet_wake(&pair->c);
	put(pair, 8, 3);
	assert_false(apus_shm_packet_publish(&pair->p));
}

static void consumer_breaks(struct pair *pair, const char *what)
{
	struct apus_shm_packet packet;

	if (apus_shm_packet_take(&pair->c, &packet) != APUS_SHM_BROKEN)
		fail_msg("not found out: %s", what);
	/* For good, even if the memory is mended. */
	memset(pair->shared, 0, apus_shm_packets_bytes(CAPACITY));
	assert_int_equal(apus_shm_packet_take(&pair->c, &packet), APUS_SHM_BROKEN);
	assert_true(apus_shm_packet_has_more(&pair->c));
	begin(pair);
}

static void a_lying_producer(void **state)
{
	struct pair *pair = *state;
	apus_shm_word *first = (apus_shm_word *)(void *)pair->shared->bytes;

	pair->shared->tail = CAPACITY + 64;
	consumer_breaks(pair, "a tail a ring ahead");
	pair->shared->tail = 65;
	consumer_breaks(pair, "a tail between records");
	put(pair, 8, 1);
	apus_shm_packet_publish(&pair->p);
	get(pair, 8, 1);
	pair->shared->tail = 0;
	consumer_breaks(pair, "a tail that goes back");
	pair->shared->tail = 64;
	first[0] = 33;
	consumer_breaks(pair, "a packet longer than what was published");
	pair->shared->tail = CAPACITY;
	first[0] = UINT32_MAX - 1;
	consumer_breaks(pair, "a packet longer than the ring");
	pair->shared->tail = CAPACITY;
	first[0] = UINT32_MAX;
	consumer_breaks(pair, "a whole ring passed over");
	put(pair, 8, 1);
	apus_shm_packet_publish(&pair->p);
	apus_shm_packet_give_back(&pair->c, get(pair, 8, 1));
	pair->shared->tail = CAPACITY;
	first[8] = UINT32_MAX;
	consumer_breaks(pair, "passed over to where nothing is");
	put(pair, 8, 1);
	apus_shm_packet_publish(&pair->p);
	apus_shm_packet_give_back(&pair->c, get(pair, 8, 1));
	pair->shared->tail = CAPACITY + 64;
	first[8] = CAPACITY - 32;
	consumer_breaks(pair, "a packet that leaves the ring");
}

static void a_lying_consumer(void **state)
{
	static const uint64_t heads[] = {65, 8192, UINT64_MAX - 63, 4096 + 64};
	struct pair *pair = *state;

	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		begin(pair);
		assert_int_equal(put(pair, 4000, 1), APUS_SHM_DONE);
		apus_shm_packet_publish(&pair->p);
		pair->shared->head = heads[i];
		assert_int_equal(put(pair, 100, 9), APUS_SHM_BROKEN);
		pair->shared->head = 0;
		assert_int_equal(put(pair, 100, 9), APUS_SHM_BROKEN);
	}
}

/* Words of the shared memory change at random; every packet handed out lies inside of it. */
static void random_garbage(void **state)
{
	struct pair *pair = *state;
	const uint8_t *low = pair->shared->bytes, *high = low + CAPACITY;
	uint64_t *words = (uint64_t *)(void *)pair->shared->bytes;
	uint32_t broken = 0, taken = 0;

	srand(7);
	for (int round = 0; round < 20000; round++) {
		struct apus_shm_packet packet;
		enum apus_shm_ring_result rc;

		put(pair, (uint32_t)rand() % 700, 1);
		apus_shm_packet_publish(&pair->p);
		if (rand() % 4 == 0)
			words[rand() % (CAPACITY / 8)] =
				rand() % 2 ? (uint64_t)(rand() % 5000) : (uint64_t)rand() << 20;
		if (rand() % 64 == 0)
			pair->shared->tail = (uint64_t)(rand() % 256) * 64;
		if (rand() % 64 == 0)
			pair->shared->head = (uint64_t)(rand() % 256) * 64;
		while ((rc = apus_shm_packet_take(&pair->c, &packet)) == APUS_SHM_DONE) {
			assert_true(packet.bytes >= low && packet.bytes <= high &&
				    packet.length <= (size_t)(high - packet.bytes));
			taken++;
			apus_shm_packet_give_back(&pair->c, packet.end);
		}
		if (rc == APUS_SHM_BROKEN || pair->p.broken) {
			broken++;
			begin(pair);
		}
	}
	assert_true(broken > 100 && taken > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes),
		cmocka_unit_test_setup_teardown(passes_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(every_length_wraps, setup, teardown),
		cmocka_unit_test_setup_teardown(full_changes_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(a_sleeper_is_woken_once, setup, teardown),
		cmocka_unit_test_setup_teardown(a_lying_producer, setup, teardown),
		cmocka_unit_test_setup_teardown(a_lying_consumer, setup, teardown),
		cmocka_unit_test_setup_teardown(random_garbage, setup, teardown),
	};

	return cmocka_run_group_tests_name("packets", tests, NULL, NULL);
}
