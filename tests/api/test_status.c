/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: statuses as the application sees them, through observers and listeners: matches, incompatible QoS,
 * inconsistent topics, lost and rejected samples, deadlines, three kinds of liveliness.
 * Method: two participants on loopback with driven workers, polled until what must happen has happened; what must
 * not is shown by totals. No wall time is asserted; deadlines and leases are waited for with polling.
 */
#include <apus/apus.h>

#include "base/clock.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MS          APUS_NS_PER_MS
#define PATIENCE_NS (20 * APUS_NS_PER_SEC)

struct pair {
	struct apus_participant *a, *b;
};

static struct apus_participant *participant(const char *mode)
{
	struct apus_config *c = apus_config_create();
	struct apus_participant *p = NULL;
	char why[256] = "";

	assert_non_null(c);
	assert_int_equal(apus_config_set(c, "interfaces", "lo", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "domain", "91", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "worker.mode", mode, NULL, 0), 0);
	if (apus_participant_create(c, &p, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	apus_config_destroy(c);
	return p;
}

static int setup(void **state)
{
	static struct pair p;

	p.a = participant("driven");
	p.b = participant("driven");
	*state = &p;
	return 0;
}

static int teardown(void **state)
{
	struct pair *p = *state;

	apus_participant_destroy(p->a);
	apus_participant_destroy(p->b);
	return 0;
}

static void turn(struct pair *p)
{
	const struct timespec nap = {0, 200000};

	if (apus_worker_poll(p->a, 0) + apus_worker_poll(p->b, 0) <= 0)
		nanosleep(&nap, NULL);
}

/* Polls both sides until `condition` holds. */
#define UNTIL(p, condition)                                                          \
	do {                                                                         \
		struct apus_mono end_ = apus_mono_add(apus_mono_now(), PATIENCE_NS); \
		while (!(condition)) {                                               \
			assert_true(apus_mono_before(apus_mono_now(), end_));        \
			turn(p);                                                     \
		}                                                                    \
	} while (0)

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

static struct apus_reader *reader(struct apus_participant *p, const char *topic,
				  const struct apus_qos *qos)
{
	struct apus_endpoint_options o = {
		.topic = own(topic), .type = &apus_shape_type, .qos = qos};
	struct apus_reader *r = NULL;

	assert_int_equal(apus_reader_create(p, &o, &r), 0);
	return r;
}

static int put(struct apus_writer *w, const char *color, int x)
{
	struct apus_shape s = {.x = x, .shapesize = 1};

	snprintf(s.color, sizeof(s.color), "%s", color);
	return apus_write(w, &s);
}

static void matches_and_their_end(void **state)
{
	struct pair *p = *state;
	struct apus_writer *w = writer(p->a, "Matches", NULL);
	struct apus_reader *r = reader(p->b, "Matches", NULL);
	struct apus_observer mine = {0}, other = {0};
	struct apus_matched_status m;
	struct apus_guid guid = apus_reader_guid(r);

	UNTIL(p, apus_writer_status_changes(w, &mine, APUS_STATUS_PUBLICATION_MATCHED));
	assert_int_equal(apus_writer_matched_status(w, &mine, &m), 1);
	assert_int_equal(m.current, 1);
	assert_int_equal(m.current_change, 1);
	assert_int_equal(m.total, 1);
	assert_int_equal(m.transitions_change, 1);
	assert_memory_equal(&m.last, &guid, sizeof(guid));
	/* Nothing changed: nothing is reported. */
	assert_int_equal(apus_writer_matched_status(w, &mine, &m), 0);
	assert_int_equal(m.current_change, 0);
	assert_int_equal(apus_writer_status_changes(w, &mine, 0), 0);
	UNTIL(p, apus_reader_matched_status(r, NULL, &m) == 1);
	apus_reader_destroy(r);
	UNTIL(p, apus_writer_status_changes(w, &mine, 0));
	assert_int_equal(apus_writer_matched_status(w, &mine, &m), 1);
	assert_int_equal(m.current, 0);
	assert_int_equal(m.current_change, -1);
	assert_int_equal(m.total, 1);
	assert_int_equal(m.total_change, 0);
	assert_int_equal(m.transitions, 2);
	/* Another observer sees the whole churn, which nets to zero. */
	assert_int_equal(apus_writer_matched_status(w, &other, &m), 1);
	assert_int_equal(m.current_change, 0);
	assert_int_equal(m.transitions_change, 2);
	apus_writer_destroy(w);
}

static void incompatible_and_inconsistent(void **state)
{
	struct pair *p = *state;
	struct apus_qos qos;
	struct apus_observer o = {0};
	struct apus_incompatible_status s;
	struct apus_inconsistent_status n;
	struct apus_endpoint_options other = {.topic = own("Strict"), .type = &apus_blob_type};
	struct apus_writer *w;
	struct apus_reader *r;

	apus_qos_writer_default(&qos);
	qos.reliability = APUS_BEST_EFFORT;
	w = writer(p->a, "Strict", &qos);
	apus_qos_reader_default(&qos);
	qos.reliability = APUS_RELIABLE;
	r = reader(p->b, "Strict", &qos);
	UNTIL(p, apus_writer_status_changes(w, &o, 0));
	assert_int_equal(apus_writer_status_changes(w, &o, 0),
			 APUS_STATUS_OFFERED_INCOMPATIBLE_QOS);
	assert_int_equal(apus_writer_incompatible_status(w, &o, &s), 1);
	assert_int_equal(s.total, 1);
	assert_int_equal(s.last_policy, APUS_POLICY_RELIABILITY);
	assert_int_equal(s.by_policy[APUS_POLICY_RELIABILITY], 1);
	UNTIL(p, apus_reader_incompatible_status(r, NULL, &s) == 1);
	assert_int_equal(s.last_policy, APUS_POLICY_RELIABILITY);
	apus_reader_destroy(r);
	/* Another type: an inconsistent topic, and no incompatible QoS. */
	assert_int_equal(apus_reader_create(p->b, &other, &r), 0);
	UNTIL(p, apus_writer_status_changes(w, &o, 0));
	assert_int_equal(apus_writer_inconsistent_status(w, &o, &n), 1);
	assert_int_equal(n.total, 1);
	assert_int_equal(apus_writer_incompatible_status(w, &o, &s), 0);
	apus_reader_destroy(r);
	apus_writer_destroy(w);
}

static void stored_replaced_rejected(void **state)
{
	struct pair *p = *state;
	struct apus_qos qos;
	struct apus_observer o = {0};
	struct apus_lost_status lost;
	struct apus_rejected_status rejected;
	struct apus_available_status available;
	struct apus_writer *w;
	struct apus_reader *r;

	apus_qos_reader_default(&qos);
	r = reader(p->a, "Keep", &qos); /* KEEP_LAST 1, same worker: delivered at once */
	w = writer(p->a, "Keep", NULL);
	UNTIL(p, apus_writer_matched(w) == 1 && apus_reader_matched(r) == 1);
	assert_int_equal(put(w, "RED", 1), 0); /* stored */
	assert_int_equal(apus_reader_lost_status(r, &o, &lost), 0);
	assert_int_equal(apus_reader_available_status(r, &o, &available), 1);
	assert_int_equal(available.change, 1);
	assert_int_equal(put(w, "RED", 2), 0); /* replaced */
	assert_int_equal(apus_reader_lost_status(r, &o, &lost), 1);
	assert_int_equal(lost.change, 1);
	assert_int_equal(apus_reader_available_status(r, &o, &available), 1);
	assert_int_equal(available.change, 1);
	apus_reader_destroy(r);
	qos.history = APUS_KEEP_ALL;
	qos.max_samples = qos.max_samples_per_instance = 2;
	r = reader(p->a, "Keep", &qos);
	memset(&o, 0, sizeof(o));
	UNTIL(p, apus_writer_matched(w) == 1 && apus_reader_matched(r) == 1);
	for (int i = 0; i < 3; i++)
		assert_int_equal(put(w, "RED", i), 0);
	assert_int_equal(apus_reader_rejected_status(r, &o, &rejected), 1);
	assert_int_equal(rejected.total, 1);
	assert_int_equal(rejected.last_reason, APUS_REJECTED_SAMPLES);
	assert_int_equal(rejected.by_reason[APUS_REJECTED_SAMPLES], 1);
	/* Polling rejections has consumed no loss. */
	assert_int_equal(apus_reader_lost_status(r, &o, &lost), 1);
	assert_int_equal(lost.total, 1);
	assert_int_equal(apus_reader_available_status(r, &o, &available), 1);
	assert_int_equal(available.total, 2);
	apus_writer_destroy(w);
	apus_reader_destroy(r);
}

/* Offered again and again, a sample is rejected once; given up by a writer that keeps the last, it is lost. The
 * same for a reader of the writer's participant and for another's. */
static void rejected_once_then_lost(struct pair *p, struct apus_participant *readers)
{
	struct apus_qos qos;
	struct apus_lost_status lost;
	struct apus_rejected_status rejected;
	struct apus_available_status available;
	struct apus_sample sample;
	struct apus_writer *w;
	struct apus_reader *r;

	apus_qos_reader_default(&qos);
	qos.reliability = APUS_RELIABLE;
	qos.history = APUS_KEEP_ALL;
	qos.max_samples = qos.max_samples_per_instance = 1;
	r = reader(readers, "Once", &qos);
	w = writer(p->a, "Once", NULL);
	UNTIL(p, apus_writer_matched(w) == 1 && apus_reader_matched(r) == 1);
	assert_int_equal(put(w, "RED", 1), 0);
	UNTIL(p, apus_reader_available_status(r, NULL, &available) == 1);
	for (uint64_t i = 1; i <= 3; i++) {
		assert_int_equal(put(w, "RED", 1 + (int)i), 0);
		UNTIL(p, (apus_reader_rejected_status(r, NULL, &rejected), rejected.total == i));
		UNTIL(p, (apus_reader_lost_status(r, NULL, &lost), lost.total == i - 1));
		for (int turns = 0; turns < 200; turns++)
			turn(p);
		apus_reader_rejected_status(r, NULL, &rejected);
		assert_int_equal(rejected.total, i);
		assert_int_equal(rejected.by_reason[APUS_REJECTED_SAMPLES], i);
	}
	assert_int_equal(apus_take(r, &sample, 1, NULL), 1);
	assert_int_equal(sample.info.seq, 1);
	apus_return(r, &sample, 1);
	UNTIL(p, apus_take(r, &sample, 1, NULL) == 1);
	assert_int_equal(sample.info.seq, 4);
	apus_return(r, &sample, 1);
	apus_reader_lost_status(r, NULL, &lost);
	assert_int_equal(lost.total, 2);
	apus_writer_destroy(w);
	apus_reader_destroy(r);
}

static void rejected_once_a_sample(void **state)
{
	struct pair *p = *state;

	rejected_once_then_lost(p, p->b);
	rejected_once_then_lost(p, p->a);
}

/* Reader and writer of one participant see what they would see in two. */
static void within_one_participant(void **state)
{
	struct pair *p = *state;
	struct apus_qos wanted, offered;
	struct apus_incompatible_status s;
	struct apus_inconsistent_status n;
	struct apus_endpoint_options other = {.topic = own("Within"), .type = &apus_blob_type};
	struct apus_reader *r, *blob;
	struct apus_writer *w;

	apus_qos_writer_default(&offered);
	offered.reliability = APUS_BEST_EFFORT;
	w = writer(p->a, "Within", &offered);
	apus_qos_reader_default(&wanted);
	wanted.reliability = APUS_RELIABLE;
	wanted.deadline_ns = 10 * APUS_NS_PER_SEC;
	r = reader(p->a, "Within", &wanted);
	UNTIL(p, apus_reader_incompatible_status(r, NULL, &s) == 1 && s.total == 1);
	assert_int_equal(s.last_policy, APUS_POLICY_DEADLINE);
	offered.deadline_ns = 5 * APUS_NS_PER_SEC;
	assert_int_equal(apus_writer_set_qos(w, &offered, NULL), 0);
	UNTIL(p, apus_reader_incompatible_status(r, NULL, &s) == 1 && s.total == 2);
	assert_int_equal(s.last_policy, APUS_POLICY_RELIABILITY);
	assert_int_equal(s.by_policy[APUS_POLICY_DEADLINE], 1);
	assert_int_equal(s.by_policy[APUS_POLICY_RELIABILITY], 1);
	assert_int_equal(apus_writer_incompatible_status(w, NULL, &s), 1);
	assert_int_equal(s.total, 1);
	assert_int_equal(apus_writer_inconsistent_status(w, NULL, &n), 0);
	other.topic = own("Within");
	assert_int_equal(apus_reader_create(p->a, &other, &blob), 0);
	UNTIL(p, apus_writer_inconsistent_status(w, NULL, &n) == 1);
	assert_int_equal(n.total, 1);
	UNTIL(p, apus_reader_inconsistent_status(blob, NULL, &n) == 1 && n.total == 2);
	apus_reader_destroy(blob);
	apus_reader_destroy(r);
	apus_writer_destroy(w);
}

static void dispatch_needs_a_participant(void **state)
{
	(void)state;
	assert_int_equal(apus_participant_dispatch(NULL), APUS_EINVAL);
	assert_int_equal(apus_participant_fd(NULL), APUS_EINVAL);
}

/* What the listener saw. */
struct seen {
	char order[256];
	struct apus_matched_status matched;
	struct apus_incompatible_status incompatible;
	struct apus_liveliness_status liveliness;
	struct apus_deadline_status deadline;
	uint64_t lapses, offered_missed;
	struct apus_reader *destroy;
};

static void note(struct seen *s, const char *what)
{
	strncat(s->order, what, sizeof(s->order) - strlen(s->order) - 1);
}

static void on_publication_matched(struct apus_writer *w, const struct apus_matched_status *m,
				   void *user)
{
	struct seen *s = user;

	(void)w;
	s->matched = *m;
	note(s, m->current_change > 0 ? "M" : "m");
}

static void on_offered_incompatible(struct apus_writer *w, const struct apus_incompatible_status *i,
				    void *user)
{
	struct seen *s = user;

	(void)w;
	s->incompatible = *i;
	note(s, "I");
}

static void on_data(struct apus_reader *r, void *user)
{
	struct seen *s = user;
	struct apus_sample sample;

	note(s, "D");
	while (apus_take(r, &sample, 1, NULL) == 1) /* callbacks hold no turn */
		apus_return(r, &sample, 1);
	if (s->destroy == r)
		apus_reader_destroy(r);
}

static void on_liveliness(struct apus_reader *r, const struct apus_liveliness_status *l, void *user)
{
	struct seen *s = user;

	(void)r;
	s->liveliness = *l;
	note(s, l->alive_change > 0 ? "A" : "a");
}

static void on_requested_missed(struct apus_reader *r, const struct apus_deadline_status *d,
				void *user)
{
	struct seen *s = user;

	(void)r;
	s->deadline = *d;
	note(s, "R");
}

static void on_lost(struct apus_writer *w, const struct apus_liveliness_lost_status *l, void *user)
{
	struct seen *s = user;

	(void)w;
	s->lapses = l->total;
	note(s, "L");
}

static void on_offered_missed(struct apus_writer *w, const struct apus_deadline_status *d,
			      void *user)
{
	struct seen *s = user;

	(void)w;
	s->offered_missed = d->total;
	note(s, "O");
}

static int work(struct pair *p)
{
	return apus_participant_dispatch(p->a) + apus_participant_dispatch(p->b);
}

static void listeners_are_called_from_dispatch(void **state)
{
	struct pair *p = *state;
	struct seen s = {.order = ""}, t = {.order = ""};
	struct apus_listener l = {.user = &s,
				  .on_publication_matched = on_publication_matched,
				  .on_offered_incompatible_qos = on_offered_incompatible},
			     d = {.user = &t, .on_data_available = on_data};
	struct apus_qos qos;
	struct apus_writer *w;
	struct apus_reader *r, *bad;

	apus_qos_writer_default(&qos);
	qos.reliability = APUS_BEST_EFFORT;
	w = writer(p->a, "Listen", &qos);
	apus_qos_reader_default(&qos);
	qos.reliability = APUS_RELIABLE;
	bad = reader(p->b, "Listen", &qos);
	r = reader(p->b, "Listen", NULL);
	UNTIL(p, apus_writer_matched(w) == 1 && apus_reader_matched(r) == 1);
	/* Set late, it still hears of both, incompatible QoS first. */
	assert_int_equal(apus_writer_set_listener(w, &l), 0);
	assert_int_equal(apus_participant_dispatch(p->a), 2);
	assert_string_equal(s.order, "IM");
	assert_int_equal(s.incompatible.total, 1);
	assert_int_equal(s.matched.current, 1);
	assert_int_equal(apus_participant_dispatch(p->a), 0);
	/* What an entity never calls is refused, and so is a worker that does not exist. */
	assert_int_equal(apus_writer_set_listener(w, &d), APUS_EINVAL);
	assert_int_equal(apus_reader_set_listener(r, &l), APUS_EINVAL);
	d.on = APUS_LISTEN_WORKER;
	d.worker_idx = 7;
	assert_int_equal(apus_reader_set_listener(r, &d), APUS_EINVAL);
	d.on = APUS_LISTEN_DISPATCH;
	d.worker_idx = 0;
	assert_int_equal(apus_reader_set_listener(r, &d), 0);
	{
		struct pollfd fd = {.fd = apus_participant_fd(p->b), .events = POLLIN};

		apus_participant_dispatch(p->b);
		assert_int_equal(poll(&fd, 1, 0), 0);
		assert_int_equal(put(w, "RED", 1), 0);
		UNTIL(p, poll(&fd, 1, 0) == 1);
		assert_int_equal(apus_participant_dispatch(p->b), 1);
		assert_int_equal(poll(&fd, 1, 0), 0);
		assert_string_equal(t.order, "D");
	}
	/* A callback may delete its own reader. */
	t.destroy = r;
	assert_int_equal(put(w, "RED", 2), 0);
	UNTIL(p, work(p) > 0 && strcmp(t.order, "DD") == 0);
	UNTIL(p, work(p) > 0 && strcmp(s.order, "IMm") == 0);
	apus_writer_set_listener(w, NULL);
	apus_writer_destroy(w);
	apus_reader_destroy(bad);
}

/* The participant's listener hears of endpoints made later, from the worker's own calls. */
static void participant_listener_on_a_worker(void **state)
{
	struct pair *p = *state;
	struct seen s = {.order = ""};
	struct apus_listener l = {.user = &s,
				  .on = APUS_LISTEN_WORKER,
				  .on_data_available = on_data,
				  .on_publication_matched = on_publication_matched};
	struct apus_writer *w;
	struct apus_reader *r;

	assert_int_equal(apus_participant_set_listener(p->a, &l), 0);
	w = writer(p->a, "Heard", NULL);
	r = reader(p->a, "Heard", NULL);
	UNTIL(p, s.order[0]);
	assert_string_equal(s.order, "M");
	assert_int_equal(put(w, "RED", 1), 0);
	UNTIL(p, s.order[1]);
	assert_string_equal(s.order, "MD");
	assert_int_equal(apus_participant_set_listener(p->a, NULL), 0);
	assert_int_equal(put(w, "RED", 1), 0);
	for (int i = 0; i < 10; i++)
		turn(p);
	assert_string_equal(s.order, "MD");
	apus_writer_destroy(w);
	apus_reader_destroy(r);
}

static void deadlines_on_both_sides(void **state)
{
	struct pair *p = *state;
	struct seen s = {.order = ""};
	struct apus_listener wl = {.user = &s, .on_offered_deadline_missed = on_offered_missed};
	struct apus_listener rl = {.user = &s, .on_requested_deadline_missed = on_requested_missed};
	struct apus_qos qos;
	struct apus_writer *w;
	struct apus_reader *r;
	struct apus_observer o = {0};
	struct apus_deadline_status d;

	apus_qos_writer_default(&qos);
	qos.deadline_ns = 20 * MS;
	w = writer(p->a, "Deadline", &qos);
	apus_qos_reader_default(&qos);
	qos.deadline_ns = 20 * MS;
	r = reader(p->b, "Deadline", &qos);
	assert_int_equal(apus_writer_set_listener(w, &wl), 0);
	assert_int_equal(apus_reader_set_listener(r, &rl), 0);
	UNTIL(p, apus_writer_matched(w) == 1 && apus_reader_matched(r) == 1);
	assert_int_equal(apus_reader_deadline_status(r, &o, &d), 0); /* no instance: no promise */
	assert_int_equal(put(w, "RED", 1), 0);
	UNTIL(p, work(p) >= 0 && s.offered_missed >= 3 && s.deadline.total >= 3);
	assert_int_not_equal(s.deadline.last, APUS_INSTANCE_NONE);
	assert_int_equal(apus_reader_deadline_status(r, &o, &d), 1);
	assert_true(d.total >= 3 && d.change == d.total);
	apus_writer_set_listener(w, NULL);
	apus_reader_set_listener(r, NULL);
	apus_writer_destroy(w);
	apus_reader_destroy(r);
}

static void liveliness(struct pair *p, uint8_t kind, struct apus_participant *of_reader)
{
	struct seen s = {.order = ""};
	struct apus_listener wl = {.user = &s, .on_liveliness_lost = on_lost};
	struct apus_listener rl = {.user = &s, .on_liveliness_changed = on_liveliness};
	struct apus_qos qos;
	struct apus_writer *w;
	struct apus_reader *r;
	struct apus_mono end, last;
	uint64_t lapses, losses;
	bool late = false;

	apus_qos_writer_default(&qos);
	qos.liveliness = kind;
	qos.lease_ns = 300 * MS;
	w = writer(p->a, "Live", &qos);
	apus_qos_reader_default(&qos);
	qos.liveliness = kind;
	qos.lease_ns = 400 * MS;
	qos.reliability = APUS_RELIABLE;
	r = reader(of_reader, "Live", &qos);
	assert_int_equal(apus_writer_set_listener(w, &wl), 0);
	assert_int_equal(apus_reader_set_listener(r, &rl), 0);
	UNTIL(p, work(p) >= 0 && s.liveliness.alive == 1);
	/* Asserted without a sample, it stays alive for several leases; unless the machine is so busy that we
	 * were late ourselves. */
	last = apus_mono_now();
	end = apus_mono_add(last, 900 * MS);
	while (apus_mono_before(apus_mono_now(), end)) {
		late |= apus_mono_now().ns - last.ns > 50 * MS;
		last = apus_mono_now();
		assert_int_equal(apus_writer_assert_liveliness(w),
				 kind == APUS_AUTOMATIC ? APUS_EINVAL : 0);
		turn(p);
		work(p);
	}
	if (!late)
		assert_string_equal(s.order, "A");
	lapses = s.lapses;
	losses = s.liveliness.losses;
	if (!late)
		assert_int_equal(losses, 0);
	if (kind != APUS_AUTOMATIC) {
		/* Silent, it lapses once on both sides, however long that is watched. */
		UNTIL(p, work(p) >= 0 && s.lapses > lapses && s.liveliness.not_alive);
		end = apus_mono_add(apus_mono_now(), 700 * MS);
		while (apus_mono_before(apus_mono_now(), end)) {
			turn(p);
			work(p);
		}
		assert_int_equal(s.lapses, lapses + 1);
		assert_int_equal(s.liveliness.alive, 0);
		losses = s.liveliness.losses;
		assert_int_equal(losses, late ? losses : 1);
		assert_int_equal(put(w, "RED", 1), 0);
		UNTIL(p, work(p) >= 0 && s.liveliness.alive == 1);
	}
	apus_writer_set_listener(w, NULL);
	apus_writer_destroy(w);
	/* It left in order: no longer alive, and not lost. */
	UNTIL(p, work(p) >= 0 && s.liveliness.alive == 0);
	assert_int_equal(s.liveliness.not_alive, 0);
	if (!late)
		assert_int_equal(s.liveliness.losses, losses);
	apus_reader_set_listener(r, NULL);
	apus_reader_destroy(r);
}

static void liveliness_automatic(void **state)
{
	struct pair *p = *state;

	liveliness(p, APUS_AUTOMATIC, p->b);
	liveliness(p, APUS_AUTOMATIC, p->a);
}

static void liveliness_manual_by_participant(void **state)
{
	struct pair *p = *state;

	liveliness(p, APUS_MANUAL_BY_PARTICIPANT, p->b);
	liveliness(p, APUS_MANUAL_BY_PARTICIPANT, p->a);
}

static void liveliness_manual_by_topic(void **state)
{
	struct pair *p = *state;

	liveliness(p, APUS_MANUAL_BY_TOPIC, p->b);
	liveliness(p, APUS_MANUAL_BY_TOPIC, p->a);
}

static int32_t take_x(struct apus_reader *r)
{
	struct apus_shape shape;
	struct apus_sample s;
	int32_t x = -1;

	while (apus_take(r, &s, 1, NULL) == 1) {
		if (s.info.valid_data &&
		    apus_type_decode(&apus_shape_type, s.payload, s.payload_bytes, false, &shape,
				     NULL, 0) >= 0)
			x = shape.x;
		apus_return(r, &s, 1);
	}
	return x;
}

/* The stronger writer owns the instance; strengths that change at run time are followed; a shared writer has
 * none to change. */
static void strength_is_followed(void **state)
{
	struct pair *p = *state;
	struct apus_qos qos;
	struct apus_writer *a, *b, *shared;
	struct apus_reader *r;
	int32_t x = -1;

	apus_qos_writer_default(&qos);
	qos.ownership = APUS_EXCLUSIVE;
	qos.strength = 5;
	a = writer(p->a, "Own", &qos);
	qos.strength = 3;
	b = writer(p->a, "Own", &qos);
	shared = writer(p->a, "Shared", NULL);
	apus_qos_reader_default(&qos);
	qos.ownership = APUS_EXCLUSIVE;
	qos.reliability = APUS_RELIABLE;
	r = reader(p->b, "Own", &qos);
	UNTIL(p, apus_writer_matched(a) == 1 && apus_writer_matched(b) == 1 &&
			 apus_reader_matched(r) == 2);
	assert_int_equal(put(b, "RED", 30), 0);
	UNTIL(p, take_x(r) == 30);
	assert_int_equal(put(a, "RED", 50), 0); /* takes over on the sample that proves it exists */
	UNTIL(p, take_x(r) == 50);
	assert_int_equal(put(b, "RED", 31), 0);
	assert_int_equal(put(a, "RED", 51), 0);
	UNTIL(p, (x = take_x(r)) != -1);
	assert_int_equal(x, 51);
	assert_int_equal(apus_writer_set_strength(b, 9), 0);
	for (int i = 100; x != i - 1; i++) { /* until the reader has heard of it */
		assert_int_equal(put(b, "RED", i), 0);
		for (int k = 0; k < 5; k++)
			turn(p);
		x = take_x(r);
	}
	assert_int_equal(put(a, "RED", 52), 0);
	assert_int_equal(put(b, "RED", 99), 0);
	UNTIL(p, (x = take_x(r)) != -1);
	assert_int_equal(x, 99);
	/* The owner departs: the other is heard again. */
	apus_writer_destroy(b);
	UNTIL(p, apus_reader_matched(r) == 1);
	assert_int_equal(put(a, "RED", 53), 0);
	UNTIL(p, take_x(r) == 53);
	assert_int_equal(apus_writer_set_strength(shared, 1), APUS_EINVAL);
	apus_writer_destroy(shared);
	apus_writer_destroy(a);
	apus_reader_destroy(r);
}

/* A reader that comes when the writer has lapsed long ago: its own view begins with the match, and each lapse after
 * that counts once, on both sides, however short the lease. */
static void a_reader_after_the_lapse(void **state)
{
	struct pair *p = *state;
	struct apus_liveliness_lost_status lost;
	struct apus_liveliness_status live;
	struct apus_observer seen = {0};
	struct apus_writer *w;
	struct apus_reader *r;
	struct apus_qos qos;

	apus_qos_writer_default(&qos);
	qos.liveliness = APUS_MANUAL_BY_TOPIC;
	qos.lease_ns = 1;
	w = writer(p->a, "After", &qos);
	UNTIL(p, apus_writer_liveliness_status(w, NULL, &lost) == 1);
	assert_int_equal(lost.total, 1);
	apus_qos_reader_default(&qos);
	qos.reliability = APUS_RELIABLE;
	r = reader(p->b, "After", &qos);
	UNTIL(p, apus_writer_matched(w) == 1 && apus_reader_matched(r) == 1);
	UNTIL(p, apus_reader_liveliness_status(r, &seen, &live) >= 0 && live.losses == 1);
	assert_int_equal(live.alive, 0);
	assert_int_equal(live.not_alive, 1);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(apus_reader_liveliness_status(r, &seen, &live), 0);
	/* Each sample is a life of its own. */
	for (int i = 1; i <= 3; i++) {
		assert_int_equal(put(w, "RED", i), 0);
		UNTIL(p, take_x(r) == i);
		assert_int_equal(apus_writer_liveliness_status(w, NULL, &lost), 1);
		assert_int_equal(lost.total, (uint64_t)i + 1);
		assert_int_equal(apus_reader_liveliness_status(r, &seen, &live), 1);
		assert_int_equal(live.losses, (uint64_t)i + 1);
		assert_int_equal(live.alive, 0);
		assert_int_equal(live.alive_change, 0);
		assert_int_equal(live.losses_change, 1);
	}
	apus_writer_destroy(w);
	UNTIL(p, apus_reader_matched(r) == 0);
	assert_int_equal(apus_reader_liveliness_status(r, &seen, &live), 1);
	assert_int_equal(live.not_alive_change, -1);
	assert_int_equal(live.losses, 4);
	apus_reader_destroy(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reader_after_the_lapse),
		cmocka_unit_test(matches_and_their_end),
		cmocka_unit_test(incompatible_and_inconsistent),
		cmocka_unit_test(stored_replaced_rejected),
		cmocka_unit_test(rejected_once_a_sample),
		cmocka_unit_test(within_one_participant),
		cmocka_unit_test(dispatch_needs_a_participant),
		cmocka_unit_test(listeners_are_called_from_dispatch),
		cmocka_unit_test(participant_listener_on_a_worker),
		cmocka_unit_test(deadlines_on_both_sides),
		cmocka_unit_test(strength_is_followed),
		cmocka_unit_test(liveliness_automatic),
		cmocka_unit_test(liveliness_manual_by_participant),
		cmocka_unit_test(liveliness_manual_by_topic),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
