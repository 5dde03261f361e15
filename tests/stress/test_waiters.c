/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: conditions, waitsets, endpoints, listeners and QoS go and change in different threads at the same time, while
 * others wait, and every guard that is set is seen. Method: threads that each do one of these for a while, on a
 * spawned and on a driven participant; meant for ThreadSanitizer and AddressSanitizer. At the end each waiter has
 * seen its last signal.
 */
#include "stress_util.h"

#include "base/clock.h"

#include <sched.h>

#define WAITERS  3
#define ROUNDS   150
#define PATIENCE (60 * APUS_NS_PER_SEC)

#define MUST(condition)                                                   \
	do {                                                              \
		if (!(condition))                                         \
			stress_fail("line %d: %s", __LINE__, #condition); \
	} while (0)

struct scene {
	struct apus_participant *p;
	struct apus_writer *w;
	struct apus_reader *r;
	struct apus_waitset *ws[WAITERS];
	struct apus_condition *guard[WAITERS]; /* one each, and … */
	struct apus_condition *shared;         /* … one in all of them */
	_Atomic int signals[WAITERS], seen[WAITERS];
	_Atomic bool stop;
	_Atomic int waiter_count;
	_Atomic uint64_t calls;
};

static struct apus_participant *participant(const char *mode)
{
	struct apus_config *c = apus_config_create();
	struct apus_participant *p = NULL;
	char why[256] = "";

	assert_non_null(c);
	assert_int_equal(apus_config_set(c, "interfaces", "lo", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "domain", "96", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "worker.mode", mode, NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "worker.idle", "block", NULL, 0), 0);
	if (apus_participant_create(c, &p, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	apus_config_destroy(c);
	return p;
}

static char topic[64]; /* set once: somebody else may run the same test on this machine */

static struct apus_endpoint_options options(const struct apus_qos *qos)
{
	return (struct apus_endpoint_options){.topic = topic, .type = &apus_shape_type, .qos = qos};
}

/* Waits; acknowledges each signal of its guard. */
static void *waiter(void *arg)
{
	struct scene *s = arg;
	int i = atomic_fetch_add(&s->waiter_count, 1);
	struct apus_condition *out[4];

	while (!atomic_load(&s->stop)) {
		int n = apus_waitset_wait(s->ws[i], out, 4, 20 * APUS_NS_PER_MS);

		for (int k = 0; k < n; k++) {
			if (out[k] != s->guard[i])
				continue;
			MUST((apus_guard_set(s->guard[i], false)) == 0);
			atomic_store(&s->seen[i], atomic_load(&s->signals[i]));
		}
	}
	return NULL;
}

/* Sets a guard, and waits until its waiter has seen it: a wake-up that is lost is not made good by the next. */
static void *signaller(void *arg)
{
	struct scene *s = arg;

	for (int round = 0; round < ROUNDS && !stress_has_failed(); round++) {
		int i = round % WAITERS;
		int mine = atomic_fetch_add(&s->signals[i], 1) + 1;
		struct apus_mono end = apus_mono_add(apus_mono_now(), PATIENCE);

		MUST((apus_guard_set(s->guard[i], true)) == 0);
		while (atomic_load(&s->seen[i]) < mine && !stress_has_failed()) {
			MUST(apus_mono_before(apus_mono_now(), end));
			sched_yield();
		}
		MUST((apus_guard_set(s->shared, round % 8 == 0)) == 0);
	}
	return NULL;
}

/* Deletes conditions in the order in which another deletes their endpoint. */
static void *destroyer(void *arg)
{
	struct apus_condition **c = arg;

	for (int i = 0; i < 6; i++)
		apus_condition_destroy(c[i]);
	return NULL;
}

static void *maker(void *arg)
{
	struct scene *s = arg;
	struct apus_qos qos;
	struct apus_endpoint_options o = options(&qos);

	apus_qos_reader_default(&qos);
	while (!atomic_load(&s->stop)) {
		struct apus_observer seen = {0};
		struct apus_condition *c[6];
		struct apus_waitset *ws;
		struct apus_reader *r;
		pthread_t thread;

		MUST((apus_reader_create(s->p, &o, &r)) == 0);
		MUST((apus_waitset_create(&ws)) == 0);
		for (int i = 0; i < 6; i++) {
			MUST((i % 2 ? apus_reader_read_condition(r, NULL, &c[i])
				    : apus_reader_status_condition(r,
								   APUS_STATUS_SUBSCRIPTION_MATCHED,
								   &seen, &c[i])) == 0);
			MUST((apus_waitset_attach(s->ws[i % WAITERS], c[i])) == 0);
			MUST((apus_waitset_attach(ws, c[i])) == 0);
		}
		apus_waitset_wait(ws, NULL, 0, 0);
		MUST((pthread_create(&thread, NULL, destroyer, c)) == 0);
		apus_reader_destroy(r);
		apus_waitset_destroy(ws);
		pthread_join(thread, NULL);
	}
	return NULL;
}

static void on_data(struct apus_reader *r, void *user)
{
	struct apus_sample sample;

	while (apus_take(r, &sample, 1, NULL) == 1)
		apus_return(r, &sample, 1);
	atomic_fetch_add(&((struct scene *)user)->calls, 1);
}

static void *changer(void *arg)
{
	struct scene *s = arg;
	struct apus_listener l = {.user = s, .on_data_available = on_data};
	struct apus_shape shape = {.color = "RED"};
	struct apus_deadline_status d;
	struct apus_qos qos;

	for (int i = 0; !atomic_load(&s->stop); i++) {
		MUST((apus_writer_qos(s->w, &qos, NULL, 0)) == 0);
		qos.lifespan_ns = 1 + i % 3 * APUS_NS_PER_SEC;
		MUST((apus_writer_set_qos(s->w, &qos, NULL)) == 0);
		MUST((apus_reader_qos(s->r, &qos, NULL, 0)) == 0);
		qos.time_filter_ns = i % 2 * APUS_NS_PER_MS;
		MUST((apus_reader_set_qos(s->r, &qos, NULL)) == 0);
		l.on = i % 2 ? APUS_LISTEN_WORKER : APUS_LISTEN_DISPATCH;
		MUST((apus_reader_set_listener(s->r, &l)) == 0);
		apus_write(s->w, &shape);
		apus_reader_deadline_status(s->r, NULL, &d);
		MUST(apus_participant_dispatch(s->p) >= 0);
	}
	return NULL;
}

static void *dispatcher(void *arg)
{
	struct scene *s = arg;
	const struct timespec nap = {0, 300000};

	while (!atomic_load(&s->stop)) {
		MUST(apus_participant_dispatch(s->p) >= 0);
		apus_worker_poll(s->p, 0);
		nanosleep(&nap, NULL);
	}
	return NULL;
}

static void play(const char *mode)
{
	static void *(*const roles[])(void *) = {maker, maker, changer, dispatcher, dispatcher};
	struct apus_qos qos;
	struct scene s = {.p = participant(mode)};
	struct apus_endpoint_options o = options(NULL);
	pthread_t waiters[WAITERS], others[5], signal;

	assert_int_equal(apus_writer_create(s.p, &o, &s.w), 0);
	apus_qos_reader_default(&qos);
	o.qos = &qos;
	assert_int_equal(apus_reader_create(s.p, &o, &s.r), 0);
	assert_int_equal(apus_guard_condition(&s.shared), 0);
	for (int i = 0; i < WAITERS; i++) {
		assert_int_equal(apus_waitset_create(&s.ws[i]), 0);
		assert_int_equal(apus_guard_condition(&s.guard[i]), 0);
		assert_int_equal(apus_waitset_attach(s.ws[i], s.guard[i]), 0);
		assert_int_equal(apus_waitset_attach(s.ws[i], s.shared), 0);
	}
	for (int i = 0; i < WAITERS; i++)
		assert_int_equal(pthread_create(&waiters[i], NULL, waiter, &s), 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(pthread_create(&others[i], NULL, roles[i], &s), 0);
	assert_int_equal(pthread_create(&signal, NULL, signaller, &s), 0);
	pthread_join(signal, NULL);
	while (atomic_load(&s.calls) < 10 && !stress_has_failed())
		sched_yield();
	atomic_store(&s.stop, true);
	for (int i = 0; i < 5; i++)
		pthread_join(others[i], NULL);
	for (int i = 0; i < WAITERS; i++)
		pthread_join(waiters[i], NULL);
	stress_check();
	/* The participant first: its waitsets and conditions outlive it. */
	assert_int_equal(apus_participant_destroy(s.p), 0);
	for (int i = 0; i < WAITERS; i++) {
		apus_condition_destroy(s.guard[i]);
		apus_waitset_destroy(s.ws[i]);
	}
	apus_condition_destroy(s.shared);
}

static void spawned(void **state)
{
	(void)state;
	play("spawned");
}

static void driven(void **state)
{
	(void)state;
	play("driven");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(spawned), cmocka_unit_test(driven)};

	snprintf(topic, sizeof(topic), "Waiters-%d", (int)getpid());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
