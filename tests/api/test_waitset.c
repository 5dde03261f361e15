/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: conditions are levels, and no wait misses one. Each kind of condition is made true and false again;
 * then threads that wait are woken by others, thousands of times, and the count must come out.
 * Method: one participant on loopback, endpoints of one worker (delivery is then a matter of the call), driven for
 * the rules and spawned for the threads.
 */
#include <apus/apus.h>

#include "base/clock.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define MS       APUS_NS_PER_MS
#define PATIENCE (20 * APUS_NS_PER_SEC)

static struct apus_participant *participant(const char *mode)
{
	struct apus_config *c = apus_config_create();
	struct apus_participant *p = NULL;
	char why[256] = "";

	assert_non_null(c);
	assert_int_equal(apus_config_set(c, "interfaces", "lo", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "domain", "134", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "worker.mode", mode, NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "worker.idle", "block", NULL, 0), 0);
	if (apus_participant_create(c, &p, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	apus_config_destroy(c);
	return p;
}

struct ends {
	struct apus_participant *p;
	struct apus_writer *w;
	struct apus_reader *r;
};

static struct ends ends(const char *mode)
{
	struct apus_qos qos;
	char topic[64]; /* somebody else may run the same test on this machine */
	struct apus_endpoint_options o = {.topic = topic, .type = &apus_shape_type, .qos = &qos};
	struct ends e = {.p = participant(mode)};

	snprintf(topic, sizeof(topic), "Wait-%d", (int)getpid());

	apus_qos_writer_default(&qos);
	assert_int_equal(apus_writer_create(e.p, &o, &e.w), 0);
	apus_qos_reader_default(&qos);
	qos.reliability = APUS_RELIABLE;
	qos.depth = 8;
	assert_int_equal(apus_reader_create(e.p, &o, &e.r), 0);
	assert_int_equal(apus_writer_wait_matched(e.w, 1, PATIENCE), 0);
	assert_int_equal(apus_reader_wait_matched(e.r, 1, PATIENCE), 0);
	return e;
}

static void put(struct ends *e, const char *color, int x)
{
	struct apus_shape s = {.x = x, .shapesize = 1};

	snprintf(s.color, sizeof(s.color), "%s", color);
	assert_int_equal(apus_write(e->w, &s), 0);
}

static int readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0);
}

static void guard_conditions(void **state)
{
	struct apus_condition *g, *h, *out[2];
	struct apus_waitset *ws, *other;
	int fd;

	(void)state;
	assert_int_equal(apus_guard_condition(&g), 0);
	assert_int_equal(apus_guard_condition(&h), 0);
	assert_int_equal(apus_waitset_create(&ws), 0);
	assert_int_equal(apus_waitset_create(&other), 0);
	assert_int_equal(apus_waitset_attach(ws, g), 0);
	assert_int_equal(apus_waitset_attach(ws, g), APUS_EEXIST);
	assert_int_equal(apus_waitset_attach(ws, h), 0);
	assert_int_equal(apus_waitset_attach(other, g), 0);
	assert_int_equal(apus_waitset_wait(ws, out, 2, 0), APUS_ETIMEDOUT);
	assert_int_equal(apus_waitset_wait(ws, out, 2, MS), APUS_ETIMEDOUT);
	assert_int_equal(apus_guard_set(g, true), 0);
	/* A level: true again and again, in both waitsets, until it is lowered. */
	for (int i = 0; i < 3; i++) {
		assert_int_equal(apus_waitset_wait(ws, out, 2, PATIENCE), 1);
		assert_ptr_equal(out[0], g);
		assert_int_equal(apus_waitset_wait(other, NULL, 0, 0), 1);
	}
	fd = apus_waitset_fd(ws);
	assert_int_equal(readable(fd), 1);
	assert_int_equal(apus_guard_set(h, true), 0);
	assert_int_equal(apus_waitset_wait(ws, out, 2, 0), 2);
	/* Fewer places than conditions: each gets its turn. */
	assert_int_equal(apus_waitset_wait(ws, out, 1, 0), 1);
	assert_int_equal(apus_waitset_wait(ws, out + 1, 1, 0), 1);
	assert_ptr_not_equal(out[0], out[1]);
	assert_int_equal(apus_guard_set(g, false), 0);
	assert_int_equal(apus_guard_set(h, false), 0);
	assert_int_equal(apus_waitset_wait(ws, out, 2, 0), APUS_ETIMEDOUT);
	assert_int_equal(readable(fd), 0);
	assert_int_equal(apus_guard_set(h, true), 0);
	assert_int_equal(readable(fd), 1);
	assert_int_equal(apus_waitset_detach(ws, h), 0);
	assert_int_equal(apus_waitset_detach(ws, h), APUS_ENOENT);
	assert_int_equal(apus_waitset_wait(ws, out, 2, 0), APUS_ETIMEDOUT);
	assert_int_equal(apus_waitset_wait(ws, NULL, 1, 0), APUS_EINVAL);
	apus_condition_destroy(g); /* attached to two */
	apus_condition_destroy(h);
	apus_waitset_destroy(ws);
	apus_waitset_destroy(other);
}

static void read_and_query_conditions(void **state)
{
	struct ends e = ends("driven");
	struct apus_select not_read = {.sample_states = 2}, read = {.sample_states = 1};
	struct apus_condition *any, *fresh, *seen, *big, *out[4];
	struct apus_filter_error error;
	struct apus_sample s[4];
	struct apus_waitset *ws;
	int fd;

	(void)state;
	assert_int_equal(apus_reader_read_condition(e.r, NULL, &any), 0);
	assert_int_equal(apus_reader_read_condition(e.r, &not_read, &fresh), 0);
	assert_int_equal(apus_reader_read_condition(e.r, &read, &seen), 0);
	assert_int_equal(apus_reader_query_condition(e.r, NULL, "x >", NULL, 0, &error, &big),
			 APUS_EFILTER);
	assert_int_equal(apus_reader_query_condition(e.r, NULL, "x > 100", NULL, 0, &error, &big),
			 0);
	assert_int_equal(apus_guard_set(any, true), APUS_EINVAL);
	assert_int_equal(apus_waitset_create(&ws), 0);
	fd = apus_waitset_fd(ws);
	assert_int_equal(apus_waitset_attach(ws, any), 0);
	assert_int_equal(apus_waitset_attach(ws, fresh), 0);
	assert_int_equal(apus_waitset_attach(ws, seen), 0);
	assert_int_equal(apus_waitset_attach(ws, big), 0);
	assert_int_equal(apus_waitset_wait(ws, out, 4, MS), APUS_ETIMEDOUT);
	assert_int_equal(readable(fd), 0);
	put(&e, "RED", 1);
	assert_int_equal(readable(fd), 1);
	assert_int_equal(apus_waitset_wait(ws, out, 4, PATIENCE), 2);
	assert_true(apus_condition_triggered(any) && apus_condition_triggered(fresh));
	assert_false(apus_condition_triggered(seen) || apus_condition_triggered(big));
	put(&e, "BLUE", 200);
	assert_int_equal(apus_waitset_wait(ws, out, 4, 0), 3);
	/* Reading makes one condition true and another false. */
	assert_int_equal(apus_read_where(big, s, 4), 1);
	assert_int_equal(apus_return(e.r, s, 1), 0);
	assert_int_equal(apus_waitset_wait(ws, out, 4, 0), 4);
	assert_int_equal(apus_take_where(big, s, 4), 1);
	assert_int_equal(s[0].info.read_before, true);
	assert_int_equal(apus_return(e.r, s, 1), 0);
	assert_false(apus_condition_triggered(big) || apus_condition_triggered(seen));
	assert_int_equal(apus_take_where(fresh, s, 4), 1);
	assert_int_equal(apus_return(e.r, s, 1), 0);
	assert_int_equal(apus_waitset_wait(ws, out, 4, 0), APUS_ETIMEDOUT);
	assert_int_equal(readable(fd), 0);
	/* Without its endpoint a condition is never true. */
	put(&e, "RED", 300);
	assert_true(apus_condition_triggered(big));
	apus_reader_destroy(e.r);
	assert_false(apus_condition_triggered(big));
	assert_int_equal(apus_take_where(big, s, 4), APUS_ECLOSED);
	assert_int_equal(apus_waitset_wait(ws, out, 4, 0), APUS_ETIMEDOUT);
	apus_condition_destroy(any);
	apus_waitset_destroy(ws);
	apus_condition_destroy(big);
	apus_condition_destroy(fresh);
	apus_condition_destroy(seen);
	apus_participant_destroy(e.p);
}

static void status_conditions(void **state)
{
	struct ends e = ends("driven");
	struct apus_observer o = {0}, q = {0};
	struct apus_condition *w, *r, *out[2];
	struct apus_matched_status m;
	struct apus_available_status a;
	struct apus_waitset *ws;

	(void)state;
	assert_int_equal(apus_writer_status_condition(e.w, APUS_STATUS_SAMPLE_LOST, &o, &w),
			 APUS_EINVAL);
	assert_int_equal(apus_writer_status_condition(e.w, 0, &o, &w), APUS_EINVAL);
	assert_int_equal(apus_writer_status_condition(e.w, APUS_STATUS_PUBLICATION_MATCHED, &o, &w),
			 0);
	assert_int_equal(apus_reader_status_condition(e.r, APUS_STATUS_DATA_AVAILABLE, &q, &r), 0);
	assert_int_equal(apus_waitset_create(&ws), 0);
	assert_int_equal(apus_waitset_attach(ws, w), 0);
	assert_int_equal(apus_waitset_attach(ws, r), 0);
	assert_int_equal(apus_waitset_wait(ws, out, 2, PATIENCE), 1);
	assert_ptr_equal(out[0], w);
	/* A look with that observer lowers it; a look with another does not. */
	assert_int_equal(apus_writer_matched_status(e.w, NULL, &m), 1);
	assert_int_equal(apus_waitset_wait(ws, out, 2, 0), 1);
	assert_int_equal(apus_writer_matched_status(e.w, &o, &m), 1);
	assert_int_equal(apus_waitset_wait(ws, out, 2, 0), APUS_ETIMEDOUT);
	put(&e, "RED", 1);
	assert_int_equal(apus_waitset_wait(ws, out, 2, PATIENCE), 1);
	assert_ptr_equal(out[0], r);
	assert_int_equal(apus_reader_available_status(e.r, &q, &a), 1);
	assert_int_equal(apus_waitset_wait(ws, out, 2, 0), APUS_ETIMEDOUT);
	/* Control's side wakes a waiting thread, too: the reader goes. */
	apus_reader_destroy(e.r);
	assert_int_equal(apus_waitset_wait(ws, out, 2, PATIENCE), 1);
	assert_ptr_equal(out[0], w);
	apus_condition_destroy(w);
	apus_condition_destroy(r);
	apus_waitset_destroy(ws);
	apus_participant_destroy(e.p);
}

/* As many rounds as a busy machine gets done in the time, at least one. */
#define ROUNDS   3000
#define ROUND_NS (4 * APUS_NS_PER_SEC)

/* A writer that waits for its sample to be taken before it writes the next one: a wake-up that is lost is never
 * made good by another sample, and no sample is replaced by a later one (the reader keeps eight) while the taker
 * is not running. Acknowledgements would not do, the reader's worker makes them without the taker. */
struct rally {
	struct ends ends;
	sem_t taken;       /* posted for each sample */
	_Atomic(int) last; /* as many samples there will be */
};

static void *publish(void *arg)
{
	struct rally *rally = arg;
	struct apus_mono end = apus_mono_add(apus_mono_now(), ROUND_NS);
	bool over = false;

	for (int i = 0; !over; i++) {
		const struct timespec nap = {0, 100000};

		over = i == ROUNDS - 1 || !apus_mono_before(apus_mono_now(), end);
		if (over)
			/* release: pairs with the acquire of the taker, who sees it with the sample. */
			atomic_store_explicit(&rally->last, i + 1, memory_order_release);
		put(&rally->ends, "RED", i);
		while (sem_wait(&rally->taken) != 0)
			;
		/* Let the taker fall asleep now and then. */
		if (i % 7 == 0)
			nanosleep(&nap, NULL);
	}
	return NULL;
}

static void no_wake_up_is_lost(void **state)
{
	struct rally rally = {.ends = ends("spawned"), .last = ROUNDS};
	struct apus_reader *r = rally.ends.r;
	struct apus_condition *c, *out[1];
	struct apus_waitset *ws;
	struct apus_sample s;
	pthread_t thread;
	int taken = 0;

	(void)state;
	assert_int_equal(sem_init(&rally.taken, 0, 0), 0);
	assert_int_equal(apus_reader_read_condition(r, NULL, &c), 0);
	assert_int_equal(apus_waitset_create(&ws), 0);
	assert_int_equal(apus_waitset_attach(ws, c), 0);
	assert_int_equal(pthread_create(&thread, NULL, publish, &rally), 0);
	/* acquire: pairs with the release of the writer. */
	while (taken < atomic_load_explicit(&rally.last, memory_order_acquire)) {
		assert_int_equal(apus_waitset_wait(ws, out, 1, PATIENCE), 1);
		while (apus_take(r, &s, 1, NULL) == 1) {
			apus_return(r, &s, 1);
			taken++;
			sem_post(&rally.taken);
		}
	}
	pthread_join(thread, NULL);
	assert_int_equal(apus_waitset_wait(ws, out, 1, 0), APUS_ETIMEDOUT);
	apus_condition_destroy(c);
	apus_waitset_destroy(ws);
	apus_participant_destroy(rally.ends.p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(guard_conditions),
		cmocka_unit_test(read_and_query_conditions),
		cmocka_unit_test(status_conditions),
		cmocka_unit_test(no_wake_up_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
