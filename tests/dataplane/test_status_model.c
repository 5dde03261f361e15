/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: what is derived when asked equals what one timer an endpoint would have counted, whoever asks, however
 * often, and whatever becomes of a sample after the tests.
 * Method: a million random steps of injected time, without and with late delivery of what is suppressed: arrivals of several writers and instances, polls by
 * three observers, storage that fails after the tests have passed, assertions, departures. The reference moves a
 * clock from tick to tick and fires timers; it shares no code with what is tested.
 */
#include "dataplane/admit.h"

#include <apus/participant.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define MS         APUS_NS_PER_MS
#define STEPS      1000000
#define WRITERS    4
#define INSTANCES  3
#define OBSERVERS  3
#define DEADLINE   7
#define SEPARATION 5
#define LIFESPAN   9

static uint64_t rng = 88172645463325252u;

static uint32_t any(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng >> 32) % n;
}

static struct apus_mono at(int64_t tick)
{
	return (struct apus_mono){1000 * MS + tick * MS};
}

/* --- the reference: one timer for each promise ---------------------------------------------------- */

struct model_writer {
	bool matched, alive;
	int64_t lease, timer; /* ticks; timer 0: not running */
	int64_t strength;
	uint64_t lapses;
};

struct model_instance {
	int64_t deadline_timer; /* 0: not running */
	uint64_t missed;
	bool missed_since; /* since its last stored sample */
	int64_t accepted;  /* tick of the last accepted sample; -1 none */
	int owner;         /* -1 none */
	int late_timer;    /* 0: nothing waits for the separation to pass */
	int late_writer;
	int64_t late_expires;
	bool registered[WRITERS];
};

struct model {
	struct model_writer writers[WRITERS];
	struct model_instance instances[INSTANCES];
	bool late_delivery;
	uint64_t missed, lapses, late;
	uint64_t stored, lost, rejected, rate, ownership, expired;
};

/* A writer is gone: what it owned is free, and an instance without writers promises nothing. */
static void release(struct model *m, int writer)
{
	for (int i = 0; i < INSTANCES; i++) {
		struct model_instance *x = &m->instances[i];
		bool was = x->registered[writer], others = false;

		if (x->owner == writer)
			x->owner = -1;
		x->registered[writer] = false;
		for (int w = 0; w < WRITERS; w++)
			others |= x->registered[w];
		if (was && !others) {
			x->deadline_timer = 0;
			x->missed_since = false;
		}
	}
}

/* The suppressed sample is shown; it says nothing of its writer being alive. */
static void show_late(struct model *m, struct model_instance *x, int64_t now)
{
	x->late_timer = 0;
	if (x->late_expires <= now) {
		m->expired++;
		return;
	}
	x->accepted = now;
	x->deadline_timer = DEADLINE;
	x->missed_since = false;
	x->registered[x->late_writer] = true;
	m->stored++;
	m->late++;
	m->lost++; /* the one before it was not taken */
}

static void leave(struct model *m, int writer, int64_t now)
{
	for (int i = 0; i < INSTANCES; i++)
		if (m->instances[i].late_timer && m->instances[i].late_writer == writer)
			show_late(m, &m->instances[i], now);
	release(m, writer);
}

/* One tick passes, to `now`: timers fire. */
static void tick(struct model *m, int64_t now)
{
	for (int i = 0; i < INSTANCES; i++) {
		struct model_instance *x = &m->instances[i];

		if (x->deadline_timer && --x->deadline_timer == 0) {
			x->deadline_timer = DEADLINE;
			x->missed++;
			m->missed++;
			x->missed_since = true;
		}
	}
	for (int i = 0; i < INSTANCES; i++) {
		struct model_instance *x = &m->instances[i];

		if (x->late_timer && --x->late_timer == 0)
			show_late(m, x, now);
	}
	for (int w = 0; w < WRITERS; w++) {
		struct model_writer *x = &m->writers[w];

		if (x->matched && x->alive && x->timer && --x->timer == 0) {
			x->alive = false;
			x->lapses++;
			m->lapses++;
			leave(m, w, now);
		}
	}
}

static void revive(struct model *m, int w)
{
	m->writers[w].alive = true;
	m->writers[w].timer = m->writers[w].lease;
}

static bool outranks(const struct model *m, int a, int b)
{
	if (m->writers[a].strength != m->writers[b].strength)
		return m->writers[a].strength > m->writers[b].strength;
	return a < b; /* GUIDs rise with the number */
}

static enum apus_dp_admit_result model_admit(struct model *m, int w, int i, int64_t now,
					     int64_t age, bool full, bool displaces)
{
	struct model_instance *x = &m->instances[i];
	bool fast;

	/* A writer that lapsed may have become owner since by a sample that was then rejected: it holds nothing. */
	if (x->owner != w && x->owner >= 0 && m->writers[x->owner].alive && !x->missed_since &&
	    !outranks(m, w, x->owner)) {
		m->ownership++;
		return APUS_DP_REJECTED_OWNERSHIP;
	}
	x->owner = w;
	fast = x->accepted >= 0 && now - x->accepted < SEPARATION;
	if (fast && !m->late_delivery) {
		m->rate++;
		return APUS_DP_REJECTED_RATE;
	}
	if (age >= LIFESPAN) {
		m->expired++;
		return APUS_DP_EXPIRED;
	}
	if (full) {
		m->rejected++;
		m->lost++;
		return APUS_DP_REFUSED;
	}
	if (fast) {
		m->rate++;
		x->late_timer = (int)(x->accepted + SEPARATION - now);
		x->late_writer = w;
		x->late_expires = now + LIFESPAN - age;
		return APUS_DP_REJECTED_RATE;
	}
	x->accepted = now;
	x->deadline_timer = DEADLINE;
	x->missed_since = false;
	x->registered[w] = true;
	m->stored++;
	m->lost += displaces;
	revive(m, w);
	return displaces ? APUS_DP_DISPLACED : APUS_DP_STORED;
}

/* --- what is tested ------------------------------------------------------------------------------- */

struct observer {
	struct apus_dp_cursor missed, lost, rejected, available;
	struct apus_dp_liveliness_cursor live;
	uint64_t seen_missed, seen_lost, seen_rejected, seen_available;
	int64_t alive, not_alive;
};

struct fixture {
	struct apus_dp_inbox inbox;
	void *memory;
	uint32_t held;
	bool fail;
};

static uint32_t on_hold(void *context, const struct apus_dp_arrival *a)
{
	struct fixture *f = context;

	(void)a;
	return f->fail ? APUS_DP_NONE : f->held++;
}

static void on_release(void *context, uint32_t slot)
{
	struct fixture *f = context;

	(void)slot;
	f->held--;
}

static void match(struct fixture *f, struct model *m, int w, int64_t now)
{
	struct apus_guid guid = {{[0] = (uint8_t)(w + 1), [15] = 2}};
	static const int64_t leases[WRITERS] = {11, 17, 23, 0};
	struct model_writer *x = &m->writers[w];

	assert_int_equal(apus_dp_inbox_match(&f->inbox, (uint32_t)w, &guid, (int32_t)x->strength,
					     leases[w] ? leases[w] * MS : APUS_INFINITE_NS,
					     LIFESPAN * MS, at(now)),
			 0);
	x->lease = leases[w];
	if (x->matched)
		return;
	x->matched = true;
	revive(m, w);
}

static void setup(struct fixture *f, struct model *m, bool late)
{
	struct apus_dp_inbox_options o = {
		.exclusive = true,
		.separation_ns = SEPARATION * MS,
		.late = late,
		.lifespan_ns = APUS_INFINITE_NS,
		.hold = on_hold,
		.hold_context = f,
		.history = {.depth = 1,
			    .max_samples = 8,
			    .max_samples_per_instance = 1,
			    .max_loans = 4,
			    .deadline_ns = DEADLINE * MS,
			    .instances = {.capacity = INSTANCES,
					  .key_bytes_max = 1,
					  .match_count_max = WRITERS},
			    .release = on_release,
			    .release_context = f},
	};

	memset(f, 0, sizeof(*f));
	memset(m, 0, sizeof(*m));
	m->late_delivery = late;
	f->memory = calloc(1, apus_dp_inbox_bytes(&o));
	assert_int_equal(apus_dp_inbox_init(&f->inbox, &o, f->memory), 0);
	for (int i = 0; i < INSTANCES; i++) {
		m->instances[i].accepted = -1;
		m->instances[i].owner = -1;
	}
	for (int w = 0; w < WRITERS; w++)
		match(f, m, w, 0);
}

static void arrive(struct fixture *f, struct model *m, int64_t now)
{
	int w = (int)any(WRITERS), i = (int)any(INSTANCES);
	int64_t age = any(4) ? 0 : any(2 * LIFESPAN);
	uint8_t key = (uint8_t)('A' + i);
	struct apus_dp_arrival a = {.match_slot = (uint32_t)w,
				    .seq = 1,
				    .has_data = true,
				    .source_time = {1000000 * MS},
				    .wall_now = {(1000000 + age) * MS},
				    .payload = &key,
				    .payload_bytes = 1,
				    .key = &key,
				    .key_bytes = 1};
	struct apus_dp_instance *known;
	struct apus_dp_admission out;
	enum apus_dp_admit_result expected;

	if (!m->writers[w].matched)
		return;
	known = apus_dp_instances_find(&f->inbox.history.instances, &key, 1);
	f->fail = any(5) == 0;
	expected = model_admit(m, w, i, now, age, f->fail, known && known->sample_count > 0);
	assert_int_equal(apus_dp_admit(&f->inbox, &a, at(now), &out), expected);
}

static void look(struct fixture *f, const struct model *m, struct observer *o, int64_t now)
{
	const struct apus_dp_inbox_counters *c = &f->inbox.counters;
	struct apus_dp_liveliness l;
	uint32_t alive = 0, dead = 0;

	apus_dp_inbox_catch_up(&f->inbox, at(now));
	o->seen_missed += apus_dp_observe(
		&o->missed, apus_dp_history_deadlines_missed(&f->inbox.history, at(now)));
	assert_int_equal(o->seen_missed, m->missed);
	o->seen_lost += apus_dp_observe(&o->lost, c->lost);
	o->seen_rejected += apus_dp_observe(&o->rejected, c->rejected);
	o->seen_available += apus_dp_observe(&o->available, c->available);
	assert_int_equal(o->seen_lost, m->lost);
	assert_int_equal(o->seen_rejected, m->rejected);
	assert_int_equal(o->seen_available, m->stored);
	apus_dp_peers_observe(&f->inbox.peers, &o->live, at(now), &l);
	o->alive += l.alive_change;
	o->not_alive += l.not_alive_change;
	for (int w = 0; w < WRITERS; w++) {
		alive += m->writers[w].matched && m->writers[w].alive;
		dead += m->writers[w].matched && !m->writers[w].alive;
	}
	assert_int_equal(o->alive, alive);
	assert_int_equal(o->not_alive, dead);
	assert_int_equal(l.losses, m->lapses);
}

static void change(struct fixture *f, struct model *m, int64_t now)
{
	int w = (int)any(WRITERS);

	if (!m->writers[w].matched) {
		match(f, m, w, now);
	} else if (any(2)) {
		m->writers[w].strength = any(4);
		match(f, m, w, now);
	} else {
		apus_dp_inbox_unmatch(&f->inbox, (uint32_t)w, at(now));
		m->writers[w].matched = false;
		leave(m, w, now);
	}
}

static void a_million_steps(bool late)
{
	struct observer observers[OBSERVERS] = {0};
	struct fixture f;
	struct model m;
	int64_t now = 0;

	setup(&f, &m, late);
	for (int step = 0; step < STEPS; step++) {
		uint32_t op = any(100);

		for (int64_t ticks = any(8) ? any(3) : any(60); ticks > 0; ticks--, now++)
			tick(&m, now + 1);
		if (op < 60) {
			arrive(&f, &m, now);
		} else if (op < 80) {
			look(&f, &m, &observers[any(OBSERVERS)], now);
		} else if (op < 92) {
			int w = (int)any(WRITERS);

			if (m.writers[w].matched) {
				apus_dp_inbox_assert(&f.inbox, (uint32_t)w, at(now));
				revive(&m, w);
			}
		} else if (op < 94) {
			change(&f, &m, now);
		}
	}
	for (int i = 0; i < OBSERVERS; i++)
		look(&f, &m, &observers[i], now);
	/* It was no idle walk. */
	assert_true(m.missed > 10000 && m.lapses > 10000 && m.rate > 10000 && m.ownership > 10000 &&
		    m.expired > 1000 && m.rejected > 1000 && m.stored > 10000);
	assert_int_equal(f.inbox.counters.late.value, m.late);
	assert_true(late ? m.late > 10000 : m.late == 0);
	apus_dp_inbox_fini(&f.inbox);
	assert_int_equal(f.held, 0);
	free(f.memory);
}

static void without_late_delivery(void **state)
{
	(void)state;
	a_million_steps(false);
}

static void with_late_delivery(void **state)
{
	(void)state;
	a_million_steps(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(without_late_delivery),
					   cmocka_unit_test(with_late_delivery)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
