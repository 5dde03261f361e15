/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the public calls do what their comments say, on the success and on the refusal side.
 * Method: participants on loopback in one process, each test in a domain of its own.
 */
#include <apus/apus.h>

#include <net/if.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SEC INT64_C(1000000000)

static struct apus_participant *participant(const char *domain, const char *mode)
{
	struct apus_config *c = apus_config_create();
	struct apus_participant *p = NULL;
	char why[256] = "";

	assert_non_null(c);
	assert_int_equal(apus_config_set(c, "interfaces", "lo", why, sizeof(why)), 0);
	assert_int_equal(apus_config_set(c, "domain", domain, why, sizeof(why)), 0);
	assert_int_equal(apus_config_set(c, "worker.mode", mode, why, sizeof(why)), 0);
	if (apus_participant_create(c, &p, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	apus_config_destroy(c);
	return p;
}

static struct apus_writer *writer(struct apus_participant *p, const struct apus_qos *qos)
{
	struct apus_endpoint_options o = {.topic = "T", .type = &apus_shape_type, .qos = qos};
	struct apus_writer *w;

	assert_int_equal(apus_writer_create(p, &o, &w), 0);
	return w;
}

static struct apus_reader *reader(struct apus_participant *p, const struct apus_qos *qos,
				  const char *filter)
{
	struct apus_endpoint_options o = {
		.topic = "T", .type = &apus_shape_type, .qos = qos, .filter_expression = filter};
	struct apus_reader *r;

	assert_int_equal(apus_reader_create(p, &o, &r), 0);
	return r;
}

static void write_x(struct apus_writer *w, const char *color, int32_t x)
{
	struct apus_shape s = {.x = x, .shapesize = 30};

	snprintf(s.color, sizeof(s.color), "%s", color);
	assert_int_equal(apus_write(w, &s), 0);
}

/* Takes until `count` samples with data have come or a second has passed. */
static int take_x(struct apus_reader *r, int32_t *x, int count)
{
	struct apus_sample s[16];
	int got = 0;

	while (got < count && apus_reader_wait(r, SEC) == 0) {
		int n = apus_take(r, s, 16, NULL);

		assert_true(n >= 0);
		for (int i = 0; i < n; i++) {
			struct apus_shape shape;

			if (!s[i].info.valid_data)
				continue;
			assert_int_equal(apus_type_decode(&apus_shape_type, s[i].payload,
							  s[i].payload_bytes, false, &shape, NULL,
							  0),
					 0);
			x[got++] = shape.x;
		}
		assert_int_equal(apus_return(r, s, (uint32_t)n), 0);
	}
	return got;
}

static void reliable_qos(struct apus_qos *wq, struct apus_qos *rq)
{
	apus_qos_writer_default(wq);
	apus_qos_reader_default(rq);
	wq->history = rq->history = APUS_KEEP_ALL;
	rq->reliability = APUS_RELIABLE;
}

/* Writer and reader of one participant and worker: the direct route, through the same admission. */
static void test_same_participant(void **state)
{
	struct apus_participant *p = participant("92", "spawned");
	struct apus_qos wq, rq;
	struct apus_writer *w;
	struct apus_reader *r, *f;
	int32_t x[8];

	(void)state;
	reliable_qos(&wq, &rq);
	w = writer(p, &wq);
	r = reader(p, &rq, NULL);
	f = reader(p, &rq, "x > 2");
	assert_int_equal(apus_writer_wait_matched(w, 2, SEC), 0);
	for (int i = 1; i <= 4; i++)
		write_x(w, "RED", i);
	assert_int_equal(take_x(r, x, 4), 4);
	assert_int_equal(x[3], 4);
	assert_int_equal(take_x(f, x, 2), 2);
	assert_int_equal(x[0], 3);
	assert_int_equal(apus_writer_wait_acked(w, SEC), 0);
	apus_participant_destroy(p);
}

/* A driven worker runs only in the application's calls. */
/* Goal: where a pair's traffic goes is told, and what is no pair is refused. */
static void test_route(void **state)
{
	struct apus_participant *p = participant("71", "spawned");
	struct apus_writer *w = writer(p, NULL);
	struct apus_reader *r = reader(p, NULL, NULL);
	struct apus_guid wg = apus_writer_guid(w), rg = apus_reader_guid(r);
	struct apus_route route;
	(void)state;

	memset(&route, 0xff, sizeof(route));
	assert_int_equal(apus_pair_route(p, &wg, &rg, &route), 0);
	assert_true(route.matched);
	assert_int_equal(route.data_reason, APUS_ROUTE_PROCESS);
	assert_int_equal(route.acks_reason, APUS_ROUTE_PROCESS);
	assert_string_equal(route.data, "");
	assert_string_equal(route.multicast, "");
	assert_string_equal(route.acks, "");
	assert_int_equal(apus_pair_route(p, &rg, &wg, &route), APUS_EINVAL);
	assert_int_equal(apus_pair_route(p, &wg, &wg, &route), APUS_EINVAL);
	assert_int_equal(apus_pair_route(p, NULL, &rg, &route), APUS_EINVAL);
	apus_reader_destroy(r);
	assert_int_equal(apus_pair_route(p, &wg, &rg, &route), APUS_ENOENT);
	assert_string_equal(apus_route_reason_text(APUS_ROUTE_PROCESS),
			    "handed over inside the participant");
	assert_string_equal(apus_route_reason_text(-1), "unknown");
	apus_participant_destroy(p);
}

static void test_driven(void **state)
{
	struct apus_participant *a = participant("93", "driven"), *b = participant("93", "driven");
	struct apus_qos wq, rq;
	struct apus_writer *w;
	struct apus_reader *r;
	int32_t x[4];

	(void)state;
	reliable_qos(&wq, &rq);
	w = writer(a, &wq);
	r = reader(b, &rq, NULL);
	/* Each side answers only in its own polls. */
	for (int i = 0; i < 5000 && apus_writer_matched(w) + apus_reader_matched(r) < 2; i++) {
		assert_int_equal(apus_reader_wait_matched(r, 2, SEC / 1000), APUS_ETIMEDOUT);
		apus_worker_poll(a, 0);
	}
	assert_int_equal(apus_writer_matched(w), 1);
	write_x(w, "RED", 1);
	write_x(w, "BLUE", 2);
	assert_int_equal(take_x(r, x, 2), 2);
	assert_true(apus_worker_poll(a, 0) >= 0);
	assert_int_equal(apus_worker_poll(a, 1), APUS_EINVAL);
	for (int i = 0; i < 1000 && apus_writer_wait_acked(w, SEC / 1000) != 0; i++)
		apus_worker_poll(b, 0);
	assert_int_equal(apus_writer_wait_acked(w, 0), 0);
	apus_participant_destroy(a);
	apus_participant_destroy(b);
}

/* Replacing a filter prunes what is queued and takes effect for what follows; a bad one changes nothing. */
static void test_set_filter(void **state)
{
	struct apus_participant *p = participant("94", "spawned");
	struct apus_qos wq, rq;
	struct apus_writer *w;
	struct apus_reader *r;
	struct apus_filter_error error;
	const char *five = "5";
	int32_t x[8];

	(void)state;
	reliable_qos(&wq, &rq);
	w = writer(p, &wq);
	r = reader(p, &rq, "x < 100");
	assert_int_equal(apus_writer_wait_matched(w, 1, SEC), 0);
	for (int i = 1; i <= 6; i++)
		write_x(w, "RED", i);
	assert_int_equal(apus_reader_set_filter(r, "x > ", NULL, 0, &error), APUS_EFILTER);
	assert_true(apus_reader_set_filter(r, "x >= %0", &five, 1, &error) > 1);
	write_x(w, "RED", 4);
	write_x(w, "RED", 7);
	assert_int_equal(take_x(r, x, 3), 3);
	assert_int_equal(x[0], 5);
	assert_int_equal(x[1], 6);
	assert_int_equal(x[2], 7);
	assert_true(apus_reader_set_filter(r, NULL, NULL, 0, &error) > 2);
	write_x(w, "RED", 1);
	assert_int_equal(take_x(r, x, 1), 1);
	assert_int_equal(x[0], 1);
	apus_participant_destroy(p);
}

static void test_life_cycle(void **state)
{
	struct apus_participant *p = participant("95", "spawned");
	struct apus_qos wq, rq;
	struct apus_writer *w;
	struct apus_reader *r;
	struct apus_shape shape = {.color = "RED"};
	struct apus_sample s[8];
	int n;

	(void)state;
	reliable_qos(&wq, &rq);
	w = writer(p, &wq);
	r = reader(p, &rq, NULL);
	assert_int_equal(apus_writer_wait_matched(w, 1, SEC), 0);
	write_x(w, "RED", 1);
	assert_int_equal(apus_dispose(w, &shape), 0);
	n = apus_take(r, s, 8, NULL);
	assert_int_equal(n, 2);
	assert_true(s[0].info.valid_data && !s[1].info.valid_data);
	assert_int_equal(s[1].info.instance_state, APUS_STATE_DISPOSED);
	assert_int_equal(apus_type_decode(&apus_shape_type, s[1].payload, s[1].payload_bytes, true,
					  &shape, NULL, 0),
			 0);
	assert_string_equal(shape.color, "RED");
	assert_int_equal(apus_return(r, s, 2), 0);
	assert_int_equal(apus_return(r, s, 2), APUS_EINVAL);
	apus_writer_destroy(w);
	apus_participant_destroy(p);
}

static void test_refusals(void **state)
{
	struct apus_participant *p = participant("96", "spawned");
	struct apus_endpoint_options o = {.topic = "T", .type = &apus_shape_type};
	struct apus_filter_error error = {0};
	struct apus_writer *w = (void *)1;
	struct apus_reader *r = (void *)1;
	struct apus_qos qos;
	char topic[300];

	(void)state;
	memset(topic, 'a', sizeof(topic));
	topic[299] = '\0';
	o.topic = topic;
	assert_int_equal(apus_writer_create(p, &o, &w), APUS_EINVAL);
	o.topic = "";
	assert_int_equal(apus_writer_create(p, &o, &w), APUS_EINVAL);
	o.topic = "T";
	o.worker_idx = 1;
	assert_int_equal(apus_writer_create(p, &o, &w), APUS_EINVAL);
	o.worker_idx = 0;
	o.filter_expression = "x > 1";
	assert_int_equal(apus_writer_create(p, &o, &w), APUS_EINVAL);
	o.filter_expression = "nosuch > 1";
	o.filter_error = &error;
	assert_int_equal(apus_reader_create(p, &o, &r), APUS_EFILTER);
	assert_int_equal(error.position, 0);
	assert_int_equal(error.length, 6);
	o.filter_expression = NULL;
	apus_qos_reader_default(&qos);
	qos.depth = 10;
	qos.max_samples_per_instance = 5;
	o.qos = &qos;
	assert_int_equal(apus_reader_create(p, &o, &r), APUS_EQOS);
	apus_qos_reader_default(&qos);
	qos.durability = APUS_PERSISTENT;
	assert_true(apus_reader_create(p, &o, &r) < 0);
	assert_ptr_equal(w, (void *)1);
	assert_ptr_equal(r, (void *)1);
	apus_participant_destroy(p);
}

/* In a child every handle is dead, and the parent goes on. */
static void test_fork(void **state)
{
	struct apus_participant *p = participant("97", "spawned");
	struct apus_qos wq, rq;
	struct apus_writer *w;
	struct apus_reader *r;
	struct apus_shape shape = {.color = "RED"};
	struct apus_sample s;
	int32_t x;
	int status;
	pid_t child;

	(void)state;
	reliable_qos(&wq, &rq);
	w = writer(p, &wq);
	r = reader(p, &rq, NULL);
	assert_int_equal(apus_writer_wait_matched(w, 1, SEC), 0);
	child = fork();
	if (child == 0)
		_exit(apus_write(w, &shape) == APUS_ECLOSED &&
				      apus_take(r, &s, 1, NULL) == APUS_ECLOSED
			      ? 0
			      : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	write_x(w, "RED", 3);
	assert_int_equal(take_x(r, &x, 1), 1);
	apus_participant_destroy(p);
}

/* A full KEEP_ALL writer waits max_blocking_ns and then says so; the sample is not written. */
static void test_blocking(void **state)
{
	struct apus_participant *p = participant("98", "spawned");
	struct apus_qos wq, rq;
	struct apus_writer *w;
	struct apus_reader *r;
	struct apus_shape shape = {.color = "RED"};
	int32_t x[16];

	(void)state;
	reliable_qos(&wq, &rq);
	wq.max_samples = wq.max_samples_per_instance = 4;
	wq.max_blocking_ns = SEC / 50;
	rq.max_samples = rq.max_samples_per_instance = 2;
	w = writer(p, &wq);
	r = reader(p, &rq, NULL);
	assert_int_equal(apus_writer_wait_matched(w, 1, SEC), 0);
	for (int i = 1; i <= 6; i++)
		write_x(w, "RED", i);
	assert_int_equal(apus_write(w, &shape), APUS_ETIMEDOUT);
	assert_int_equal(take_x(r, x, 6), 6);
	for (int i = 0; i < 6; i++)
		assert_int_equal(x[i], i + 1);
	assert_int_equal(apus_write(w, &shape), 0);
	apus_participant_destroy(p);
}

/* Own network namespace with its loopback up: 0, or 77 where that is not permitted. */
static int leave_network(void)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	int fd, rc;

	if (unshare(CLONE_NEWNET) != 0)
		return 77;
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	rc = ioctl(fd, SIOCSIFFLAGS, &lo);
	close(fd);
	return rc == 0 ? 0 : 77;
}

/* Without a configuration the defaults hold. In a child of its own: they take every interface. */
static void test_default_config(void **state)
{
	int status = 0;
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		struct apus_participant *p = NULL;
		int rc = leave_network();

		if (rc == 0) {
			rc = apus_participant_create(NULL, &p, NULL, 0) == 0 && p ? 0 : 1;
			apus_participant_destroy(p);
		}
		_exit(rc);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(apus_participant_create(NULL, NULL, NULL, 0), APUS_EINVAL);
}

/* Waits until so many of two readers are matched; ten seconds at most. */
static uint32_t await_matched(struct apus_reader *const r[2], uint32_t wanted)
{
	uint32_t matched = 0;

	for (int i = 0; i < 10000 && matched != wanted; i++) {
		usleep(1000);
		matched = apus_reader_matched(r[0]) + apus_reader_matched(r[1]);
	}
	return matched;
}

/* With room for one writer of others, the second of two is refused, and its record acknowledged. It is asked for
 * again, and matched, when the first has gone. */
static void test_room_for_what_was_refused(void **state)
{
	struct apus_config *c = apus_config_create();
	struct apus_participant *p, *other = participant("99", "spawned");
	struct apus_endpoint_options a = {.topic = "A", .type = &apus_shape_type};
	struct apus_endpoint_options b = {.topic = "B", .type = &apus_shape_type};
	struct apus_writer *w[2];
	struct apus_reader *r[2];
	int first;

	(void)state;
	assert_int_equal(apus_config_set(c, "interfaces", "lo", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "domain", "99", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "limits.remote_writers", "1", NULL, 0), 0);
	assert_int_equal(apus_participant_create(c, &p, NULL, 0), 0);
	apus_config_destroy(c);
	assert_int_equal(apus_reader_create(p, &a, &r[0]), 0);
	assert_int_equal(apus_reader_create(p, &b, &r[1]), 0);
	assert_int_equal(apus_writer_create(other, &a, &w[0]), 0);
	assert_int_equal(apus_writer_create(other, &b, &w[1]), 0);
	assert_int_equal(await_matched(r, 1), 1);
	first = apus_reader_matched(r[0]) ? 0 : 1;
	apus_writer_destroy(w[first]);
	for (int i = 0; i < 10000 && apus_reader_matched(r[!first]) == 0; i++)
		usleep(1000);
	assert_int_equal(apus_reader_matched(r[!first]), 1);
	assert_int_equal(apus_reader_matched(r[first]), 0);
	assert_int_equal(apus_participant_destroy(other), 0);
	assert_int_equal(apus_participant_destroy(p), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_participant),
		cmocka_unit_test(test_driven),
		cmocka_unit_test(test_set_filter),
		cmocka_unit_test(test_life_cycle),
		cmocka_unit_test(test_route),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_blocking),
		cmocka_unit_test(test_default_config),
		cmocka_unit_test(test_room_for_what_was_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
