/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: conditions, waitsets, listeners and descriptors as a careless application uses them: thousands of conditions
 * in several waitsets, loops told of edges, callbacks that delete what calls them, endpoints that go while somebody
 * waits, filters that change under a query, a driven worker that is polled only when its descriptor says so.
 * Method: participants on loopback. No wall time is asserted; where a thread must not be woken it is looked at
 * after something that comes later.
 */
#include <apus/apus.h>

#include "base/clock.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define MS          APUS_NS_PER_MS
#define PATIENCE    (20 * APUS_NS_PER_SEC)
#define PATIENCE_MS 20000

static struct apus_participant *participant(const char *mode)
{
	struct apus_config *c = apus_config_create();
	struct apus_participant *p = NULL;
	char why[256] = "";

	assert_non_null(c);
	assert_int_equal(apus_config_set(c, "interfaces", "lo", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "domain", "131", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "worker.mode", mode, NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "worker.idle", "block", NULL, 0), 0);
	if (apus_participant_create(c, &p, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	apus_config_destroy(c);
	return p;
}

/* Somebody else may run the same test on this machine. */
static const char *own(const char *topic)
{
	static char name[64];

	snprintf(name, sizeof(name), "%s-%d", topic, (int)getpid());
	return name;
}

static struct apus_writer *writer(struct apus_participant *p, const char *topic,
				  const struct apus_qos *qos)
{
	struct apus_endpoint_options o = {
		.topic = own(topic), .type = &apus_shape_type, .qos = qos};
	struct apus_writer *w = NULL;

	assert_int_equal(apus_writer_create(p, &o, &w), 0);
	return w;
}

static struct apus_reader *reader(struct apus_participant *p, const char *topic, uint32_t depth)
{
	struct apus_qos qos;
	struct apus_endpoint_options o = {
		.topic = own(topic), .type = &apus_shape_type, .qos = &qos};
	struct apus_reader *r = NULL;

	apus_qos_reader_default(&qos);
	qos.reliability = APUS_RELIABLE;
	qos.depth = depth;
	assert_int_equal(apus_reader_create(p, &o, &r), 0);
	return r;
}

static void put(struct apus_writer *w, const char *color, int x)
{
	struct apus_shape s = {.x = x, .shapesize = 1};

	snprintf(s.color, sizeof(s.color), "%s", color);
	assert_int_equal(apus_write(w, &s), 0);
}

static void drop_all(struct apus_reader *r)
{
	struct apus_sample s;

	while (apus_take(r, &s, 1, NULL) == 1)
		assert_int_equal(apus_return(r, &s, 1), 0);
}

/* ---- many conditions ----------------------------------------------------------------------- */

#define MANY 10000

static struct apus_condition *make(int i, struct apus_reader *r, struct apus_writer *w,
				   struct apus_observer *o)
{
	struct apus_select fresh = {.sample_states = 2};
	struct apus_condition *c = NULL;
	int rc = 0;

	switch (i % 5) {
	case 0: rc = apus_guard_condition(&c); break;
	case 1: rc = apus_reader_read_condition(r, &fresh, &c); break;
	case 2: rc = apus_reader_query_condition(r, NULL, "x > 100", NULL, 0, NULL, &c); break;
	case 3: rc = apus_reader_status_condition(r, APUS_STATUS_DATA_AVAILABLE, o, &c); break;
	default: rc = apus_writer_status_condition(w, APUS_STATUS_PUBLICATION_MATCHED, o + 1, &c);
	}
	assert_int_equal(rc, 0);
	return c;
}

static void ten_thousand_conditions(void **state)
{
	struct apus_participant *p = participant("driven");
	struct apus_condition **c = calloc(MANY, sizeof(*c)), **out = calloc(MANY, sizeof(*out));
	struct apus_writer *w = writer(p, "Many", NULL);
	struct apus_reader *r = reader(p, "Many", 8);
	struct apus_observer o[2] = {0};
	struct apus_available_status available;
	struct apus_matched_status matched;
	struct apus_waitset *ws[3];

	(void)state;
	assert_int_equal(apus_writer_wait_matched(w, 1, PATIENCE), 0);
	assert_int_equal(apus_writer_matched_status(w, o + 1, &matched), 1);
	for (int k = 0; k < 3; k++)
		assert_int_equal(apus_waitset_create(&ws[k]), 0);
	for (int i = 0; i < MANY; i++) {
		c[i] = make(i, r, w, o);
		for (int k = 0; k < 3; k++)
			assert_int_equal(apus_waitset_attach(ws[k], c[i]), 0);
		assert_int_equal(apus_waitset_attach(ws[i % 3], c[i]), APUS_EEXIST);
	}
	assert_int_equal(apus_waitset_wait(ws[0], out, MANY, MS), APUS_ETIMEDOUT);
	put(w, "RED", 1); /* two kinds: read, status of the reader */
	for (int k = 0; k < 3; k++)
		assert_int_equal(apus_waitset_wait(ws[k], out, MANY, PATIENCE), MANY / 5 * 2);
	put(w, "RED", 200); /* and the query */
	assert_int_equal(apus_waitset_wait(ws[0], out, MANY, PATIENCE), MANY / 5 * 3);
	for (int i = 0; i < MANY; i += 5)
		assert_int_equal(apus_guard_set(c[i], true), 0);
	assert_int_equal(apus_waitset_wait(ws[1], out, MANY, 0), MANY / 5 * 4);
	/* With one place, each is told once in as many waits. */
	for (int i = 0; i < MANY / 5 * 4; i++) {
		assert_int_equal(apus_waitset_wait(ws[1], out + i, 1, 0), 1);
		assert_ptr_not_equal(out[i], i ? out[i - 1] : NULL);
	}
	drop_all(r);
	assert_int_equal(apus_reader_available_status(r, o, &available), 1);
	assert_int_equal(apus_waitset_wait(ws[2], out, MANY, 0), MANY / 5);
	/* One is detached from one waitset: the others keep it. */
	assert_int_equal(apus_waitset_detach(ws[2], c[0]), 0);
	assert_int_equal(apus_waitset_detach(ws[2], c[0]), APUS_ENOENT);
	assert_int_equal(apus_waitset_wait(ws[2], out, MANY, 0), MANY / 5 - 1);
	assert_int_equal(apus_waitset_wait(ws[0], out, MANY, 0), MANY / 5);
	/* In every order: waitset, conditions, endpoints, waitset, conditions. */
	apus_waitset_destroy(ws[0]);
	for (int i = 0; i < MANY; i += 2)
		apus_condition_destroy(c[i]);
	apus_reader_destroy(r);
	assert_int_equal(apus_waitset_wait(ws[1], out, MANY, 0), MANY / 5);
	apus_waitset_destroy(ws[1]);
	apus_participant_destroy(p);
	assert_int_equal(apus_waitset_wait(ws[2], out, MANY, 0), MANY / 10);
	for (int i = 1; i < MANY; i += 2)
		apus_condition_destroy(c[i]);
	assert_int_equal(apus_waitset_wait(ws[2], out, MANY, 0), APUS_ETIMEDOUT);
	apus_waitset_destroy(ws[2]);
	free(c);
	free(out);
}

/* ---- one waits, others meddle --------------------------------------------------------------- */

static void *wait_long(void *arg)
{
	return (void *)(intptr_t)apus_waitset_wait(arg, NULL, 0, PATIENCE);
}

static void one_waits_at_a_time(void **state)
{
	struct apus_condition *g;
	struct apus_waitset *ws;
	pthread_t thread;
	void *result;
	int rc;

	(void)state;
	assert_int_equal(apus_waitset_create(&ws), 0);
	assert_int_equal(apus_guard_condition(&g), 0);
	assert_int_equal(apus_waitset_attach(ws, g), 0);
	assert_int_equal(pthread_create(&thread, NULL, wait_long, ws), 0);
	while ((rc = apus_waitset_wait(ws, NULL, 0, 0)) == APUS_ETIMEDOUT)
		;
	assert_int_equal(rc, APUS_EAGAIN);
	assert_int_equal(apus_guard_set(g, true), 0);
	pthread_join(thread, &result);
	assert_int_equal((intptr_t)result, 1);
	assert_int_equal(apus_waitset_wait(ws, NULL, 0, 0), 1);
	apus_condition_destroy(g);
	apus_waitset_destroy(ws);
}

/* The endpoint, its condition and its whole participant go while another thread waits, and polls their worker. */
static void endpoints_go_while_somebody_waits(void **state)
{
	(void)state;
	for (int round = 0; round < 20; round++) {
		struct apus_participant *p = participant(round % 2 ? "driven" : "spawned");
		struct apus_reader *r = reader(p, "Goes", 1);
		struct apus_condition *g, *c;
		struct apus_waitset *ws;
		pthread_t thread;
		void *result;

		assert_int_equal(apus_waitset_create(&ws), 0);
		assert_int_equal(apus_guard_condition(&g), 0);
		assert_int_equal(apus_reader_read_condition(r, NULL, &c), 0);
		assert_int_equal(apus_waitset_attach(ws, g), 0);
		assert_int_equal(apus_waitset_attach(ws, c), 0);
		assert_int_equal(pthread_create(&thread, NULL, wait_long, ws), 0);
		while (apus_waitset_wait(ws, NULL, 0, 0) != APUS_EAGAIN)
			;
		if (round % 4 < 2)
			apus_reader_destroy(r);
		assert_int_equal(apus_participant_destroy(p), 0);
		assert_int_equal(apus_guard_set(g, true), 0);
		pthread_join(thread, &result);
		assert_int_equal((intptr_t)result, 1);
		assert_false(apus_condition_triggered(c));
		apus_condition_destroy(c);
		apus_waitset_destroy(ws);
		apus_condition_destroy(g);
	}
}

/* ---- epoll ---------------------------------------------------------------------------------- */

static int ready(int set)
{
	struct epoll_event e;

	return epoll_wait(set, &e, 1, 0);
}

static void edges_and_levels(void **state)
{
	struct apus_participant *p = participant("driven");
	struct apus_writer *w = writer(p, "Edges", NULL);
	struct apus_reader *r = reader(p, "Edges", 8);
	int edge = epoll_create1(0), level = epoll_create1(0), data = epoll_create1(0), fd;
	struct epoll_event e = {.events = EPOLLIN | EPOLLET}, l = {.events = EPOLLIN};
	struct apus_condition *c, *out[1];
	struct apus_waitset *ws;

	(void)state;
	assert_int_equal(apus_writer_wait_matched(w, 1, PATIENCE), 0);
	assert_int_equal(apus_waitset_create(&ws), 0);
	assert_int_equal(apus_reader_read_condition(r, NULL, &c), 0);
	assert_int_equal(apus_waitset_attach(ws, c), 0);
	fd = apus_waitset_fd(ws);
	assert_int_equal(epoll_ctl(edge, EPOLL_CTL_ADD, fd, &e), 0);
	assert_int_equal(epoll_ctl(level, EPOLL_CTL_ADD, fd, &l), 0);
	assert_int_equal(epoll_ctl(data, EPOLL_CTL_ADD, apus_reader_fd(r), &l), 0);
	assert_int_equal(apus_waitset_wait(ws, out, 1, 0), APUS_ETIMEDOUT);
	ready(edge); /* the one of attaching */
	assert_int_equal(ready(level), 0);
	assert_int_equal(ready(data), 0);
	for (int i = 0; i < 1000; i++) {
		put(w, "RED", i);
		assert_int_equal(ready(edge), 1);
		assert_int_equal(ready(edge), 0); /* once an edge */
		for (int k = 0; k < 3; k++) {
			assert_int_equal(ready(level), 1); /* as long as there is something */
			assert_int_equal(ready(data), 1);
		}
		assert_int_equal(apus_waitset_wait(ws, out, 1, 0), 1);
		assert_int_equal(ready(level), 1);
		drop_all(r);
		assert_int_equal(apus_waitset_wait(ws, out, 1, 0), APUS_ETIMEDOUT);
		assert_int_equal(ready(level), 0);
		assert_int_equal(ready(data), 0);
		assert_int_equal(ready(edge), 0);
	}
	apus_condition_destroy(c);
	apus_waitset_destroy(ws);
	apus_participant_destroy(p);
	close(edge);
	close(level);
	close(data);
}

/* ---- filters that change --------------------------------------------------------------------- */

static void queries_follow_the_history(void **state)
{
	struct apus_participant *p = participant("driven");
	struct apus_writer *w = writer(p, "Query", NULL);
	struct apus_reader *r = reader(p, "Query", 8);
	struct apus_condition *big, *out[1];
	struct apus_sample s[4];
	struct apus_waitset *ws;

	(void)state;
	assert_int_equal(apus_writer_wait_matched(w, 1, PATIENCE), 0);
	assert_int_equal(apus_reader_query_condition(r, NULL, "x > 100", NULL, 0, NULL, &big), 0);
	assert_int_equal(apus_waitset_create(&ws), 0);
	assert_int_equal(apus_waitset_attach(ws, big), 0);
	for (int i = 0; i < 50; i++) {
		assert_int_equal(apus_waitset_wait(ws, out, 1, 0), APUS_ETIMEDOUT);
		put(w, "RED", 200);
		put(w, "BLUE", 3);
		assert_int_equal(apus_waitset_wait(ws, out, 1, 0), 1);
		/* The reader's filter takes away what the query stands for, and lets nothing in that does. */
		assert_true(apus_reader_set_filter(r, "x < 100", NULL, 0, NULL) > 0);
		assert_false(apus_condition_triggered(big));
		assert_int_equal(apus_take_where(big, s, 4), 0);
		put(w, "RED", 300);
		assert_int_equal(apus_waitset_wait(ws, out, 1, 0), APUS_ETIMEDOUT);
		assert_true(apus_reader_set_filter(r, NULL, NULL, 0, NULL) > 0);
		put(w, "RED", 400);
		assert_int_equal(apus_waitset_wait(ws, out, 1, 0), 1);
		assert_int_equal(apus_take_where(big, s, 4), 1);
		assert_int_equal(apus_return(r, s, 1), 0);
		assert_int_equal(apus_take(r, s, 4, NULL), 1); /* BLUE is still there */
		assert_int_equal(apus_return(r, s, 1), 0);
	}
	apus_waitset_destroy(ws);
	apus_condition_destroy(big);
	apus_participant_destroy(p);
}

/* ---- listeners ------------------------------------------------------------------------------- */

struct meddler {
	struct apus_participant *p;
	struct apus_writer *writer;
	struct apus_reader *reader, *other;
	enum apus_listen_on on;
	int calls;
	int refused; /* what deleting the participant returned */
};

static void on_data_delete_self(struct apus_reader *r, void *user)
{
	struct meddler *m = user;

	m->calls++;
	assert_int_equal(apus_participant_dispatch(m->p), APUS_EDEADLK);
	m->refused = apus_participant_destroy(m->p);
	drop_all(r);
	if (r == m->other)
		m->other = NULL;
	apus_reader_destroy(r);
	if (r == m->reader)
		m->reader = NULL;
}

static void on_data_delete_other(struct apus_reader *r, void *user)
{
	struct meddler *m = user;

	m->calls++;
	drop_all(r);
	apus_reader_destroy(m->other);
	m->other = NULL;
}

static void on_data_create(struct apus_reader *r, void *user)
{
	struct meddler *m = user;
	struct apus_listener l = {
		.user = m, .on = m->on, .on_data_available = on_data_delete_other};

	m->calls++;
	drop_all(r);
	/* A new one instead of this, a new listener for the old, and more to read for all. */
	m->other = reader(m->p, "Meddle", 1);
	assert_int_equal(apus_reader_set_listener(r, &l), 0);
	assert_int_equal(apus_reader_set_listener(m->other, &l), 0);
	put(m->writer, "BLUE", 2);
}

static void pass_time(struct meddler *m, bool worker)
{
	struct timespec nap = {0, 200000};

	if (worker)
		apus_worker_poll(m->p, 0);
	else
		apus_participant_dispatch(m->p);
	nanosleep(&nap, NULL);
}

static void meddle(bool worker)
{
	struct meddler m = {.p = participant("driven"),
			    .on = worker ? APUS_LISTEN_WORKER : APUS_LISTEN_DISPATCH};
	struct apus_listener self = {
		.user = &m, .on = m.on, .on_data_available = on_data_delete_self};
	struct apus_listener create = self;

	create.on_data_available = on_data_create;
	m.writer = writer(m.p, "Meddle", NULL);
	m.reader = reader(m.p, "Meddle", 1);
	m.other = reader(m.p, "Meddle", 1);
	assert_int_equal(apus_writer_wait_matched(m.writer, 2, PATIENCE), 0);
	/* Both are ready when the first deletes itself; the second does the same. */
	assert_int_equal(apus_reader_set_listener(m.reader, &self), 0);
	assert_int_equal(apus_reader_set_listener(m.other, &self), 0);
	put(m.writer, "RED", 1);
	while (m.reader || m.other)
		pass_time(&m, worker);
	assert_int_equal(m.calls, 2);
	assert_int_equal(m.refused, APUS_EDEADLK);
	/* One that makes another in its callback; whichever is called first then deletes that. */
	m.calls = 0;
	m.reader = reader(m.p, "Meddle", 1);
	assert_int_equal(apus_writer_wait_matched(m.writer, 1, PATIENCE), 0);
	assert_int_equal(apus_reader_set_listener(m.reader, &create), 0);
	put(m.writer, "RED", 1);
	while (m.calls < 2 || m.other) {
		if (m.calls >= 1 && m.other)
			put(m.writer, "BLUE", 3);
		pass_time(&m, worker);
	}
	assert_int_equal(apus_participant_destroy(m.p), 0);
	assert_int_equal(apus_participant_destroy(NULL), 0);
}

static void callbacks_that_delete_and_create(void **state)
{
	(void)state;
	meddle(false);
	meddle(true);
}

struct slow {
	struct apus_participant *p;
	_Atomic int calls, inside, worst;
	_Atomic bool stop;
	struct timespec nap;
};

static void on_data_slowly(struct apus_reader *r, void *user)
{
	struct slow *s = user;
	int inside = atomic_fetch_add(&s->inside, 1) + 1;

	if (inside > atomic_load(&s->worst))
		atomic_store(&s->worst, inside);
	drop_all(r);
	nanosleep(&s->nap, NULL);
	atomic_fetch_sub(&s->inside, 1);
	atomic_fetch_add(&s->calls, 1);
}

static void *dispatcher(void *arg)
{
	struct slow *s = arg;
	int fd = apus_participant_fd(s->p);

	while (!atomic_load(&s->stop)) {
		struct pollfd p = {.fd = fd, .events = POLLIN};

		if (poll(&p, 1, 10) > 0)
			assert_true(apus_participant_dispatch(s->p) >= 0);
	}
	return NULL;
}

/* Four threads dispatch, a worker calls besides; callbacks never overlap and none is lost. */
static void dispatch_from_several_threads(void **state)
{
	struct slow s = {.p = participant("spawned"), .nap = {0, 300000}};
	struct apus_listener l = {.user = &s, .on_data_available = on_data_slowly}, on_worker = l;
	struct apus_writer *w = writer(s.p, "Several", NULL);
	struct apus_reader *r = reader(s.p, "Several", 1), *q = reader(s.p, "Several", 1);
	pthread_t threads[4];

	(void)state;
	on_worker.on = APUS_LISTEN_WORKER;
	assert_int_equal(apus_writer_wait_matched(w, 2, PATIENCE), 0);
	assert_int_equal(apus_reader_set_listener(r, &l), 0);
	assert_int_equal(apus_reader_set_listener(q, &on_worker), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, dispatcher, &s), 0);
	for (int i = 0; i < 200; i++) {
		int before = atomic_load(&s.calls);
		struct apus_mono end = apus_mono_add(apus_mono_now(), PATIENCE);

		put(w, "RED", i);
		while (atomic_load(&s.calls) < before + 2) {
			const struct timespec nap = {0, 100000};

			assert_true(apus_mono_before(apus_mono_now(), end));
			nanosleep(&nap, NULL);
		}
	}
	atomic_store(&s.stop, true);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(atomic_load(&s.calls), 400);
	assert_int_equal(atomic_load(&s.worst), 1);
	apus_participant_destroy(s.p);
}

static int64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return ts.tv_sec * APUS_NS_PER_SEC + ts.tv_nsec;
}

/* A worker whose callback has to wait for another thread's sleeps meanwhile. */
static void a_long_callback_does_not_make_others_spin(void **state)
{
	struct slow s = {.p = participant("spawned"), .nap = {0, 400000000}};
	struct apus_listener l = {.user = &s, .on_data_available = on_data_slowly}, on_worker = l;
	struct apus_writer *w = writer(s.p, "Long", NULL);
	struct apus_reader *r = reader(s.p, "Long", 1), *q = reader(s.p, "Long", 1);
	int64_t before;

	(void)state;
	on_worker.on = APUS_LISTEN_WORKER;
	assert_int_equal(apus_writer_wait_matched(w, 2, PATIENCE), 0);
	assert_int_equal(apus_reader_set_listener(r, &l), 0);
	put(w, "RED", 1);
	assert_int_equal(apus_reader_set_listener(q, &on_worker), 0);
	before = cpu_ns();
	/* Dispatch takes 400 ms of sleep, and the worker's turn to call comes before or after it. */
	while (atomic_load(&s.calls) < 2)
		apus_participant_dispatch(s.p);
	put(w, "RED", 2);
	apus_participant_dispatch(s.p);
	/* Processor time of this process, not of the clock: a worker that spins would have used most of it. */
	assert_true(cpu_ns() - before < 300 * MS);
	apus_participant_destroy(s.p);
}

/* ---- a driven worker's descriptor ------------------------------------------------------------ */

struct told {
	int matched, unmatched, data, missed, lost;
	int wakes;
};

static void on_matched(struct apus_reader *r, const struct apus_matched_status *m, void *user)
{
	struct told *t = user;

	(void)r;
	t->matched += m->current_change > 0;
	t->unmatched += m->current_change < 0;
}

static void on_data(struct apus_reader *r, void *user)
{
	((struct told *)user)->data++;
	drop_all(r);
}

static void on_missed(struct apus_reader *r, const struct apus_deadline_status *s, void *user)
{
	(void)r;
	((struct told *)user)->missed += s->change > 0;
}

static void on_liveliness(struct apus_reader *r, const struct apus_liveliness_status *s, void *user)
{
	(void)r;
	((struct told *)user)->lost += s->losses_change > 0;
}

/* Polls the worker only when its descriptor says so. */
#define UNTIL_TOLD(t, p, condition)                                                   \
	do {                                                                          \
		struct pollfd fd_ = {.fd = apus_worker_fd((p), 0), .events = POLLIN}; \
		while (!(condition)) {                                                \
			assert_int_equal(poll(&fd_, 1, PATIENCE_MS), 1);              \
			(t)->wakes++;                                                 \
			while (apus_worker_poll((p), 0) > 0)                          \
				;                                                     \
		}                                                                     \
	} while (0)

static void a_driven_worker_sleeps_on_its_descriptor(void **state)
{
	struct apus_participant *a = participant("driven"), *b = participant("spawned");
	struct told t = {0};
	struct apus_listener l = {.user = &t,
				  .on = APUS_LISTEN_WORKER,
				  .on_subscription_matched = on_matched,
				  .on_data_available = on_data,
				  .on_requested_deadline_missed = on_missed,
				  .on_liveliness_changed = on_liveliness};
	struct apus_qos qos;
	struct apus_endpoint_options o = {
		.topic = own("Sleeps"), .type = &apus_shape_type, .qos = &qos};
	struct apus_observer seen = {0};
	struct pollfd quiet = {.events = POLLIN};
	struct apus_reader *r;
	struct apus_writer *w;

	(void)state;
	assert_int_equal(apus_worker_fd(b, 0), APUS_ENOTSUP);
	assert_int_equal(apus_worker_fd(a, 1), APUS_EINVAL);
	assert_int_equal(apus_worker_fd(a, 0), apus_worker_fd(a, 0));
	apus_qos_reader_default(&qos);
	qos.reliability = APUS_RELIABLE;
	qos.deadline_ns = 50 * MS;
	assert_int_equal(apus_reader_create(a, &o, &r), 0);
	assert_int_equal(apus_reader_set_listener(r, &l), 0);
	apus_qos_writer_default(&qos);
	qos.deadline_ns = 50 * MS;
	qos.liveliness = APUS_MANUAL_BY_TOPIC;
	qos.lease_ns = 100 * MS;
	assert_int_equal(apus_writer_create(b, &o, &w), 0);
	UNTIL_TOLD(&t, a, t.matched); /* control alone knows */
	quiet.fd = apus_worker_fd(a, 0);
	while (apus_writer_matched(w) == 0) /* its answer to the writer takes a few more polls */
		if (poll(&quiet, 1, 10) == 1)
			apus_worker_poll(a, 0);
	put(w, "RED", 1);
	UNTIL_TOLD(&t, a, t.data);   /* a datagram */
	UNTIL_TOLD(&t, a, t.missed); /* a timer of the alarm */
	UNTIL_TOLD(&t, a, t.lost);   /* likewise */
	/* Asking for a status from outside a turn starts timers that count, too. */
	assert_true(apus_reader_status_changes(r, &seen, 0) > 0);
	apus_writer_destroy(w);
	UNTIL_TOLD(&t, a, t.unmatched);
	/* Nothing is left to do: it becomes quiet. Timers may still run out, so not at once. */
	while (poll(&quiet, 1, 0) == 1)
		while (apus_worker_poll(a, 0) > 0)
			;
	apus_participant_destroy(a);
	apus_participant_destroy(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ten_thousand_conditions),
		cmocka_unit_test(one_waits_at_a_time),
		cmocka_unit_test(endpoints_go_while_somebody_waits),
		cmocka_unit_test(edges_and_levels),
		cmocka_unit_test(queries_follow_the_history),
		cmocka_unit_test(callbacks_that_delete_and_create),
		cmocka_unit_test(dispatch_from_several_threads),
		cmocka_unit_test(a_long_callback_does_not_make_others_spin),
		cmocka_unit_test(a_driven_worker_sleeps_on_its_descriptor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
