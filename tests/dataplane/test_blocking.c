/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a write that finds a KEEP_ALL history full waits for room as long as max_blocking_ns says, to the
 * nanosecond and never longer, and goes on when room comes.
 * Method: the public calls over a writer of wire_pair.h. The linker puts this file's clock_gettime() and nanosleep() in
 * the place of the system's: time passes only in naps, by what was asked for, and an event of the test happens at
 * its instant. So nothing sleeps, and waiting times are exact.
 */
#include "dataplane/entity.h"
#include "wire_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS APUS_NS_PER_MS
#define US APUS_NS_PER_US

#define ROOM 4 /* samples of the history */

static int64_t clock_ns, nap_longest_ns;
static uint32_t nap_count;
static int64_t event_ns; /* when `event` happens; 0: never */
static void (*event)(void);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now_out);
int __wrap_nanosleep(const struct timespec *nap, struct timespec *left_out);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now_out)
{
	(void)clock;
	*now_out = (struct timespec){clock_ns / APUS_NS_PER_SEC, clock_ns % APUS_NS_PER_SEC};
	return 0;
}

int __wrap_nanosleep(const struct timespec *nap, struct timespec *left_out)
{
	int64_t ns = nap->tv_sec * APUS_NS_PER_SEC + nap->tv_nsec;

	(void)left_out;
	assert_true(ns > 0);
	nap_count++;
	nap_longest_ns = ns > nap_longest_ns ? ns : nap_longest_ns;
	clock_ns += ns;
	if (event_ns && clock_ns >= event_ns) {
		event_ns = 0;
		event();
	}
	return 0;
}

static struct wire_pair pair;
static struct wire_endpoints ends;
static struct wire_options options;
static struct apus_writer writer;
static uint32_t ack_count;

static void open_writer(bool reliable, int64_t max_blocking_ns)
{
	clock_ns = INT64_C(1000) * APUS_NS_PER_SEC;
	nap_count = 0;
	nap_longest_ns = 0;
	event_ns = 0;
	ack_count = 100;
	options = (struct wire_options){
		.reliable = reliable, .keep_all = true, .depth = 1, .max_samples = ROOM};
	wire_pair_init(&pair, 9);
	wire_endpoints_init(&pair, &ends, &options);
	wire_match(&pair, &ends, true, &options);
	wire_run(&pair, 20 * MS);
	clock_ns = pair.now.ns + 7;
	memset(&writer, 0, sizeof(writer));
	writer.dp = ends.writer;
	writer.worker = pair.a.worker;
	writer.type = &apus_shape_type;
	writer.plan = &ends.plan;
	writer.representation = APUS_XCDR1;
	writer.max_blocking_ns = max_blocking_ns;
	writer.fork_count = apus_dp_fork_count;
}

static void close_writer(void)
{
	wire_endpoints_fini(&pair, &ends);
	wire_pair_fini(&pair);
}

static int write_x(int32_t x)
{
	struct apus_shape shape = {.color = "RED", .x = x};

	return apus_write(&writer, &shape);
}

/* The history is full; side b is never polled, so nothing is acknowledged by itself. */
static void fill(void)
{
	for (int32_t x = 1; x <= ROOM; x++)
		assert_int_equal(write_x(x), 0);
	assert_int_equal(nap_count, 0);
}

/* The reader acknowledges all but the last three. */
static void acknowledge(void)
{
	struct apus_wire_acknack a = {
		.set = {.base = ends.writer->last - 2}, .count = ++ack_count, .final = true};

	apus_dp_worker_take_turn(pair.a.worker);
	assert_true(apus_dp_writer_acknack(ends.writer, &ends.reader->config.guid, &a, NULL,
					   (struct apus_mono){clock_ns}));
	apus_dp_worker_end_turn(pair.a.worker);
}

static void test_exactly(void **state)
{
	static const int64_t limits_ns[] = {1, 99 * US, 100 * US, 250 * US, 20 * MS + 1, 2000 * MS};

	(void)state;
	for (size_t i = 0; i < sizeof(limits_ns) / sizeof(limits_ns[0]); i++) {
		int64_t begun;

		open_writer(true, limits_ns[i]);
		fill();
		begun = clock_ns;
		assert_int_equal(write_x(9), APUS_ETIMEDOUT);
		assert_int_equal(clock_ns - begun, limits_ns[i]);
		assert_true(nap_longest_ns <= 100 * US);
		/* Nothing was written, and the next waits as long again. */
		assert_int_equal(ends.writer->last, ROOM);
		begun = clock_ns;
		assert_int_equal(write_x(9), APUS_ETIMEDOUT);
		assert_int_equal(clock_ns - begun, limits_ns[i]);
		close_writer();
	}
}

static void test_not_at_all(void **state)
{
	(void)state;
	open_writer(true, 0);
	fill();
	assert_int_equal(write_x(9), APUS_ETIMEDOUT);
	assert_int_equal(nap_count, 0);
	close_writer();
}

static void test_room_comes(void **state)
{
	int64_t begun;

	(void)state;
	open_writer(true, 50 * MS);
	fill();
	begun = clock_ns;
	event_ns = begun + 30 * MS + 30 * US;
	event = acknowledge;
	assert_int_equal(write_x(5), 0);
	/* With the first look behind it. */
	assert_int_equal(clock_ns - begun, 30 * MS + 100 * US);
	assert_int_equal(ends.writer->last, ROOM + 1);
	close_writer();
}

/* Just in time: what comes within the last nap is seen by a last attempt. */
static void test_room_comes_at_the_end(void **state)
{
	int64_t begun;

	(void)state;
	open_writer(true, 50 * MS + 10);
	fill();
	begun = clock_ns;
	event_ns = begun + 50 * MS + 10;
	event = acknowledge;
	assert_int_equal(write_x(5), 0);
	assert_int_equal(clock_ns - begun, 50 * MS + 10);
	close_writer();
}

static void test_infinite(void **state)
{
	int64_t begun;

	(void)state;
	open_writer(true, APUS_INFINITE_NS);
	fill();
	begun = clock_ns;
	event_ns = begun + 3000 * MS;
	event = acknowledge;
	assert_int_equal(write_x(5), 0);
	assert_int_equal(clock_ns - begun, 3000 * MS);
	close_writer();
}

/* Many samples in one call wait max_blocking_ns together, counted from the first that finds no room. */
static void test_many(void **state)
{
	struct apus_shape shapes[8];
	int64_t begun;

	(void)state;
	open_writer(true, 10 * MS);
	memset(shapes, 0, sizeof(shapes));
	begun = clock_ns;
	event_ns = begun + 4 * MS;
	event = acknowledge;
	assert_int_equal(apus_write_many(&writer, shapes, 8), ROOM + 1);
	assert_int_equal(clock_ns - begun, 10 * MS);
	assert_int_equal(apus_write_many(&writer, shapes, 8), APUS_ETIMEDOUT);
	assert_int_equal(clock_ns - begun, 20 * MS);
	close_writer();
}

/* A best-effort writer waits for nobody, and has no need to. */
static void test_best_effort(void **state)
{
	(void)state;
	open_writer(false, 50 * MS);
	for (int32_t x = 1; x <= 4 * ROOM; x++)
		assert_int_equal(write_x(x), 0);
	assert_int_equal(nap_count, 0);
	close_writer();
}

/* Waiting for acknowledgements ends to the nanosecond, too. */
static void test_wait_acked(void **state)
{
	int64_t begun;

	(void)state;
	open_writer(true, 0);
	fill();
	begun = clock_ns;
	assert_int_equal(apus_writer_wait_acked(&writer, 3 * MS + 1), APUS_ETIMEDOUT);
	assert_int_equal(clock_ns - begun, 3 * MS + 1);
	close_writer();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exactly),     cmocka_unit_test(test_not_at_all),
		cmocka_unit_test(test_room_comes),  cmocka_unit_test(test_room_comes_at_the_end),
		cmocka_unit_test(test_infinite),    cmocka_unit_test(test_many),
		cmocka_unit_test(test_best_effort), cmocka_unit_test(test_wait_acked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
