/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: no wake-up is lost: a blocked worker does not miss a datagram or a timer, a waiting thread does not
 * miss a sample.
 * Method: ROUNDS round trips between two participants with idle = block, so that every hop needs a wake-up
 * of a worker and one of a waiting application thread; and bursts over FANOUT readers waited for in one
 * epoll. A lost wake-up costs up to half a second (the longest sleep of a worker), so some hundred of them
 * would break the alarm; how many hops were that slow is printed. The third test leaves the work to timers.
 */
#include "stress_util.h"

#include <sys/epoll.h>

#define ROUNDS  20000
#define FANOUT  200
#define BURSTS  50
#define SLOW_NS (400 * MSEC)
#define BOUND_S 300

static const char *const block[] = {"worker.idle", "block", NULL};

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * SEC + ts.tv_nsec;
}

static struct apus_writer *open_writer(struct apus_participant *p, const char *topic)
{
	struct apus_qos qos;
	struct apus_endpoint_options o = {.topic = topic, .type = &apus_shape_type, .qos = &qos};
	struct apus_writer *w;

	stress_qos(true, &qos);
	assert_int_equal(apus_writer_create(p, &o, &w), 0);
	return w;
}

static struct apus_reader *open_reader(struct apus_participant *p, const char *topic,
				       uint32_t samples)
{
	struct apus_qos qos;
	struct apus_endpoint_options o = {.topic = topic, .type = &apus_shape_type, .qos = &qos};
	struct apus_reader *r;

	stress_qos(false, &qos);
	qos.max_samples = qos.max_samples_per_instance = samples;
	assert_int_equal(apus_reader_create(p, &o, &r), 0);
	return r;
}

/* ---- ping-pong ------------------------------------------------------------------------------------------ */

struct end {
	struct apus_participant *participant;
	struct apus_writer *out;
	struct apus_reader *in;
};

static void open_end(struct end *e, const char *out, const char *in)
{
	e->participant = stress_participant("107", block);
	stress_check();
	e->out = open_writer(e->participant, out);
	e->in = open_reader(e->participant, in, 8);
}

static void await_matched(struct end *e)
{
	assert_int_equal(apus_writer_wait_matched(e->out, 1, 60 * SEC), 0);
	assert_int_equal(apus_reader_wait_matched(e->in, 1, 60 * SEC), 0);
}

/* Receives number x; false on failure. */
static bool receive(struct end *e, int32_t x)
{
	struct apus_sample s;
	struct apus_shape shape;
	int rc = apus_reader_wait(e->in, 60 * SEC), n;

	if (rc != 0) {
		stress_fail("round %d: %s", x, apus_strerror(rc));
		return false;
	}
	n = apus_take(e->in, &s, 1, NULL);
	if (n != 1) {
		stress_fail("round %d: take returned %d after the wait", x, n);
		return false;
	}
	if (stress_shape(&s, &shape) && shape.x != x)
		stress_fail("round %d: got %d", x, shape.x);
	apus_return(e->in, &s, 1);
	return !stress_has_failed();
}

static bool send_number(struct end *e, int32_t x)
{
	struct apus_shape shape = {.color = "BALL", .x = x};
	int rc = apus_write(e->out, &shape);

	if (rc != 0)
		stress_fail("round %d: %s", x, apus_strerror(rc));
	return rc == 0;
}

static void *echo(void *arg)
{
	struct end *e = arg;

	for (int32_t x = 1; x <= ROUNDS && receive(e, x) && send_number(e, x); x++)
		;
	return NULL;
}

static void test_ping_pong(void **state)
{
	struct end near, far;
	pthread_t thread;
	uint32_t slow = 0;
	int64_t begin;

	(void)state;
	open_end(&near, "ping", "pong");
	open_end(&far, "pong", "ping");
	await_matched(&near);
	await_matched(&far);
	assert_int_equal(pthread_create(&thread, NULL, echo, &far), 0);
	begin = now_ns();
	for (int32_t x = 1; x <= ROUNDS; x++) {
		int64_t sent = now_ns();

		if (!send_number(&near, x) || !receive(&near, x))
			break;
		slow += now_ns() - sent > SLOW_NS;
	}
	print_message("%d round trips in %.1f s, %u of them slow\n", ROUNDS,
		      (double)(now_ns() - begin) / 1e9, slow);
	pthread_join(thread, NULL);
	apus_participant_destroy(near.participant);
	apus_participant_destroy(far.participant);
	stress_check();
}

/* ---- epoll over many readers ------------------------------------------------------------------------------ */

struct fan {
	struct apus_reader *reader[FANOUT];
	int32_t next[FANOUT];
	int epoll_fd;
};

static void open_fan(struct fan *f, struct apus_participant *p)
{
	f->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	assert_true(f->epoll_fd >= 0);
	for (uint32_t i = 0; i < FANOUT; i++) {
		struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
		int fd;

		f->reader[i] = open_reader(p, "fan", 16);
		f->next[i] = 1;
		fd = apus_reader_fd(f->reader[i]);
		assert_true(fd >= 0);
		assert_int_equal(epoll_ctl(f->epoll_fd, EPOLL_CTL_ADD, fd, &event), 0);
	}
}

/* Takes from one reader, which epoll named, until it has nothing; returns how many. */
static int take_all(struct fan *f, uint32_t i)
{
	struct apus_sample s[3];
	struct apus_shape shape;
	int n, total = 0;

	do {
		n = apus_take(f->reader[i], s, 3, NULL);
		assert_true(n >= 0);
		for (int k = 0; k < n; k++) {
			assert_true(stress_shape(&s[k], &shape));
			assert_int_equal(shape.x, f->next[i]++);
		}
		assert_int_equal(apus_return(f->reader[i], s, (uint32_t)n), 0);
		total += n;
	} while (n == 3);
	return total;
}

/* One burst of `count` samples reaches all readers; level-triggered epoll alone leads to them. */
static void receive_burst(struct fan *f, int count)
{
	struct epoll_event events[32];
	int missing = count * FANOUT;

	while (missing > 0) {
		int n = epoll_wait(f->epoll_fd, events, 32, 60 * 1000);

		if (n <= 0)
			fail_msg("%d samples are missing and epoll names no reader", missing);
		for (int i = 0; i < n; i++)
			missing -= take_all(f, events[i].data.u32);
	}
	assert_int_equal(missing, 0);
	assert_int_equal(epoll_wait(f->epoll_fd, events, 32, 0), 0);
}

static void test_epoll(void **state)
{
	static struct fan fan;
	static const char *const many[] = {"worker.idle", "block", "limits.matches_per_endpoint",
					   "256", NULL};
	struct apus_participant *wp, *rp;
	struct apus_writer *w;
	struct apus_shape shape = {.color = "FAN"};

	(void)state;
	wp = stress_participant("108", many);
	rp = stress_participant("108", many);
	stress_check();
	open_fan(&fan, rp);
	w = open_writer(wp, "fan");
	assert_int_equal(apus_writer_wait_matched(w, FANOUT, 60 * SEC), 0);
	for (uint32_t i = 0; i < FANOUT; i++)
		assert_int_equal(apus_reader_wait_matched(fan.reader[i], 1, 60 * SEC), 0);
	for (int burst = 0; burst < BURSTS; burst++) {
		int count = 1 + burst % 7;

		for (int i = 0; i < count; i++) {
			shape.x++;
			assert_int_equal(apus_write(w, &shape), 0);
		}
		receive_burst(&fan, count);
	}
	close(fan.epoll_fd);
	apus_participant_destroy(wp);
	apus_participant_destroy(rp);
}

/* ---- timers ------------------------------------------------------------------------------------------------ */

/* A filter that rejects everything: no sample passes, so the reader hears of the numbers left out by the
 * writer's timer only, armed by a thread that is not the worker's while that one sleeps. */
static void test_timer_armed_by_another_thread(void **state)
{
	struct apus_participant *wp = stress_participant("109", block);
	struct apus_participant *rp = stress_participant("109", block);
	struct apus_qos qos;
	struct apus_endpoint_options o = {.topic = "Timer",
					  .type = &apus_shape_type,
					  .qos = &qos,
					  .filter_expression = "x < 0"};
	struct apus_shape shape = {.color = "RED"};
	struct apus_writer *w;
	struct apus_reader *r;

	(void)state;
	stress_check();
	stress_qos(false, &qos);
	assert_int_equal(apus_reader_create(rp, &o, &r), 0);
	w = open_writer(wp, "Timer");
	assert_int_equal(apus_writer_wait_matched(w, 1, 60 * SEC), 0);
	assert_int_equal(apus_reader_wait_matched(r, 1, 60 * SEC), 0);
	for (shape.x = 1; shape.x <= 200; shape.x++) {
		assert_int_equal(apus_write(w, &shape), 0);
		assert_int_equal(apus_writer_wait_acked(w, 60 * SEC), 0);
	}
	apus_participant_destroy(wp);
	apus_participant_destroy(rp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ping_pong),
		cmocka_unit_test(test_epoll),
		cmocka_unit_test(test_timer_armed_by_another_thread),
	};

	alarm(BOUND_S);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
