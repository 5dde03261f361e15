/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: admission applies its rules in their order, and a sample it does not store leaves no trace but
 * ownership. Method: the worked examples (two robots, the table of admission results) and one test for
 * each rule; then random arrivals, with a copy of the state compared after each rejection.
 */
#include "dataplane/admit.h"

#include <apus/participant.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define MS APUS_NS_PER_MS

static struct apus_mono ms(int64_t t)
{
	return (struct apus_mono){1000000 * MS + t * MS};
}

struct fixture {
	struct apus_dp_inbox inbox;
	void *memory;
	size_t memory_bytes;
	uint32_t held; /* slots out */
	bool no_slots;
	struct apus_dp_admission out;
};

static uint32_t on_hold(void *context, const struct apus_dp_arrival *arrival)
{
	struct fixture *f = context;

	(void)arrival;
	if (f->no_slots)
		return APUS_DP_NONE;
	return f->held++;
}

static void on_release(void *context, uint32_t slot_ref)
{
	struct fixture *f = context;

	(void)slot_ref;
	f->held--;
}

static void fake_hash(const void *context, const uint8_t *key, size_t key_bytes,
		      uint8_t hash_out[16])
{
	(void)context;
	memset(hash_out, 0x11, 16);
	memcpy(hash_out, key, key_bytes);
}

static struct apus_dp_inbox_options options(struct fixture *f)
{
	return (struct apus_dp_inbox_options){
		.history =
			{
				.depth = 1,
				.max_samples = 8,
				.max_samples_per_instance = 2,
				.max_loans = 8,
				.instances = {.capacity = 3,
					      .key_bytes_max = 1,
					      .match_count_max = 4,
					      .key_hash = fake_hash},
				.release = on_release,
				.release_context = f,
			},
		.lifespan_ns = APUS_INFINITE_NS,
		.hold = on_hold,
		.hold_context = f,
	};
}

/** Writers 0 … 3 with GUIDs rising and strength 0, no lease, no lifespan. */
static void init(struct fixture *f, const struct apus_dp_inbox_options *o)
{
	memset(f, 0, sizeof(*f));
	f->memory_bytes = apus_dp_inbox_bytes(o);
	assert_int_not_equal(f->memory_bytes, 0);
	f->memory = malloc(f->memory_bytes);
	memset(f->memory, 0, f->memory_bytes);
	assert_int_equal(apus_dp_inbox_init(&f->inbox, o, f->memory), 0);
	for (uint8_t i = 0; i < 4; i++) {
		struct apus_guid guid = {{[0] = i + 1, [15] = 2}};

		assert_int_equal(apus_dp_inbox_match(&f->inbox, i, &guid, 0, APUS_INFINITE_NS,
						     APUS_INFINITE_NS, ms(0)),
				 0);
	}
}

static void fini(struct fixture *f)
{
	apus_dp_inbox_fini(&f->inbox);
	assert_int_equal(f->held, 0);
	free(f->memory);
}

static void set_writer(struct fixture *f, uint32_t slot, int32_t strength, int64_t lease_ns,
		       int64_t lifespan_ns, int64_t t)
{
	struct apus_guid guid = f->inbox.peers.peers[slot].guid;

	assert_int_equal(
		apus_dp_inbox_match(&f->inbox, slot, &guid, strength, lease_ns, lifespan_ns, ms(t)),
		0);
}

static struct apus_dp_arrival arrival(uint32_t writer, const char *key)
{
	return (struct apus_dp_arrival){.match_slot = writer,
					.seq = 1,
					.reliable = true,
					.has_data = true,
					.source_time = APUS_WALL_NONE,
					.wall_now = {1000},
					.payload = (const uint8_t *)key,
					.payload_bytes = 1,
					.key = (const uint8_t *)key,
					.key_bytes = 1};
}

static enum apus_dp_admit_result admit(struct fixture *f, uint32_t writer, const char *key,
				       int64_t t)
{
	struct apus_dp_arrival a = arrival(writer, key);

	return apus_dp_admit(&f->inbox, &a, ms(t), &f->out);
}

static enum apus_dp_admit_result notice(struct fixture *f, uint32_t writer, const char *key,
					uint8_t change, int64_t t)
{
	struct apus_dp_arrival a = arrival(writer, key);

	a.has_data = false;
	a.change = change;
	return apus_dp_admit(&f->inbox, &a, ms(t), &f->out);
}

static struct apus_dp_instance *instance(struct fixture *f, const char *key)
{
	return apus_dp_instances_find(&f->inbox.history.instances, (const uint8_t *)key, 1);
}

static uint32_t take_all(struct fixture *f, int64_t t)
{
	struct apus_dp_loan loans[8];
	int n = apus_dp_history_access(&f->inbox.history, NULL, true, ms(t), loans, 8);

	assert_true(n >= 0);
	for (int i = 0; i < n; i++)
		assert_int_equal(apus_dp_history_return(&f->inbox.history, loans[i].entry_idx), 0);
	return (uint32_t)n;
}

/* ---- worked examples ------------------------------------------------------------------------ */

static void two_robots_at_100_ms(void **state)
{
	struct fixture f;
	struct apus_dp_inbox_options o = options(&f);

	(void)state;
	o.separation_ns = 100 * MS;
	init(&f, &o);
	assert_int_equal(admit(&f, 0, "A", 0), APUS_DP_STORED);
	assert_int_equal(admit(&f, 1, "B", 10), APUS_DP_STORED);
	assert_int_equal(admit(&f, 0, "A", 40), APUS_DP_REJECTED_RATE);
	assert_int_equal(admit(&f, 0, "A", 120), APUS_DP_DISPLACED);
	assert_int_equal(admit(&f, 1, "B", 150), APUS_DP_DISPLACED);
	assert_int_equal(f.inbox.counters.results[APUS_DP_REJECTED_RATE], 1);
	/* The boundary: exactly the separation, and one nanosecond less; and out of order. */
	assert_int_equal(admit(&f, 0, "A", 220), APUS_DP_DISPLACED);
	instance(&f, "A")->last_accepted.ns++;
	assert_int_equal(admit(&f, 0, "A", 320), APUS_DP_REJECTED_RATE);
	assert_int_equal(admit(&f, 0, "A", 200), APUS_DP_REJECTED_RATE);
	fini(&f);
}

/** Stored: available +1. Replaced: lost +1, available +1. Refused: lost +1, rejected +1. */
static void admission_table(void **state)
{
	struct fixture f;
	struct apus_dp_inbox_options o = options(&f);
	const struct apus_dp_inbox_counters *c = &f.inbox.counters;
	struct apus_dp_arrival a = arrival(0, "A");

	(void)state;
	init(&f, &o);
	assert_int_equal(admit(&f, 0, "A", 0), APUS_DP_STORED);
	assert_true(f.out.available);
	assert_int_equal(c->available, 1);
	assert_int_equal(c->lost, 0);
	assert_int_equal(admit(&f, 0, "A", 1), APUS_DP_DISPLACED);
	assert_int_equal(c->available, 2);
	assert_int_equal(c->lost, 1);
	assert_int_equal(c->rejected, 0);
	fini(&f);

	o.history.keep_all = true;
	o.history.max_samples = 1;
	init(&f, &o);
	a.reliable = false;
	assert_int_equal(apus_dp_admit(&f.inbox, &a, ms(0), &f.out), APUS_DP_STORED);
	assert_int_equal(apus_dp_admit(&f.inbox, &a, ms(1), &f.out), APUS_DP_REFUSED);
	assert_int_equal(f.out.refusal, APUS_DP_REFUSED_SAMPLES);
	assert_false(f.out.available);
	assert_false(apus_dp_admit_settles(f.out.result));
	assert_int_equal(c->available, 1);
	assert_int_equal(c->lost, 1);
	assert_int_equal(c->rejected, 1);
	assert_int_equal(c->refusals[APUS_DP_REFUSED_SAMPLES].value, 1);
	/* Reliable: offered again, so not lost yet, and rejected once a number. */
	a.reliable = true;
	apus_dp_admit(&f.inbox, &a, ms(2), &f.out);
	assert_int_equal(c->lost, 1);
	assert_int_equal(c->rejected, 2);
	a.refused_before = true;
	apus_dp_admit(&f.inbox, &a, ms(3), &f.out);
	assert_int_equal(c->rejected, 2);
	assert_int_equal(take_all(&f, 4), 1);
	assert_int_equal(apus_dp_admit(&f.inbox, &a, ms(5), &f.out), APUS_DP_STORED);
	fini(&f);
}

/* ---- order and traces ----------------------------------------------------------------------- */

static enum apus_dp_verdict filter_by_context(const void *context, const uint8_t *payload,
					      size_t payload_bytes)
{
	(void)payload;
	assert_int_equal(payload_bytes, 1);
	return *(const enum apus_dp_verdict *)context;
}

static void the_filter_comes_first(void **state)
{
	struct fixture f;
	struct apus_dp_inbox_options o = options(&f);
	enum apus_dp_verdict verdict = APUS_DP_REJECT;

	(void)state;
	o.exclusive = true;
	init(&f, &o);
	set_writer(&f, 1, 9, APUS_INFINITE_NS, APUS_INFINITE_NS, 0);
	admit(&f, 0, "A", 0);
	apus_dp_inbox_set_filter(&f.inbox, filter_by_context, &verdict, 4, NULL, NULL);
	/* The stronger writer's sample does not pass: it does not take over. */
	assert_int_equal(admit(&f, 1, "A", 1), APUS_DP_REJECTED_FILTER);
	assert_int_equal(instance(&f, "A")->owner, 0);
	assert_int_equal(admit(&f, 1, "B", 1), APUS_DP_REJECTED_FILTER);
	assert_null(instance(&f, "B"));
	verdict = APUS_DP_ERROR;
	assert_int_equal(admit(&f, 1, "A", 2), APUS_DP_MALFORMED);
	verdict = APUS_DP_PASS;
	assert_int_equal(admit(&f, 1, "A", 3), APUS_DP_DISPLACED);
	assert_int_equal(f.inbox.history.entries[f.out.entry_idx].record.filter_generation, 4);
	fini(&f);
}

/** Decided at its test: a stronger writer owns, though rate or storage then refuse its sample. */
static void ownership_survives_a_later_rejection(void **state)
{
	struct fixture f;
	struct apus_dp_inbox_options o = options(&f);
	struct apus_dp_instance before;

	(void)state;
	o.exclusive = true;
	o.separation_ns = 100 * MS;
	init(&f, &o);
	set_writer(&f, 1, 9, APUS_INFINITE_NS, APUS_INFINITE_NS, 0);
	admit(&f, 0, "A", 0);
	before = *instance(&f, "A");
	assert_int_equal(admit(&f, 1, "A", 50), APUS_DP_REJECTED_RATE);
	assert_int_equal(instance(&f, "A")->owner, 1);
	before.owner = 1;
	assert_memory_equal(&before, instance(&f, "A"), sizeof(before)); /* nothing else */
	assert_int_equal(admit(&f, 0, "A", 150), APUS_DP_REJECTED_OWNERSHIP);
	assert_int_equal(admit(&f, 1, "A", 150), APUS_DP_DISPLACED);
	/* The same for a key never stored: without a slot nothing is stored, but 1 owns B. */
	f.no_slots = true;
	assert_int_equal(admit(&f, 1, "B", 160), APUS_DP_REFUSED);
	assert_int_equal(f.out.refusal, APUS_DP_REFUSED_SLOTS);
	f.no_slots = false;
	assert_int_equal(admit(&f, 0, "B", 170), APUS_DP_REJECTED_OWNERSHIP);
	assert_int_equal(notice(&f, 1, "B", APUS_DP_DISPOSE, 180), APUS_DP_IGNORED);
	/* That memory of an owner goes when its place is needed. */
	assert_int_equal(admit(&f, 1, "C", 190), APUS_DP_STORED);
	assert_int_equal(admit(&f, 1, "D", 190), APUS_DP_STORED);
	assert_null(instance(&f, "B"));
	assert_int_equal(admit(&f, 1, "E", 190), APUS_DP_REFUSED);
	assert_int_equal(f.out.refusal, APUS_DP_REFUSED_INSTANCES);
	fini(&f);
}

static void a_full_instance_table_refuses_whole(void **state)
{
	struct fixture f;
	struct apus_dp_inbox_options o = options(&f);

	(void)state;
	o.separation_ns = MS;
	init(&f, &o);
	admit(&f, 0, "A", 0);
	admit(&f, 0, "B", 0);
	admit(&f, 0, "C", 0);
	assert_int_equal(admit(&f, 0, "D", 5), APUS_DP_REFUSED);
	assert_int_equal(f.out.refusal, APUS_DP_REFUSED_INSTANCES);
	assert_null(instance(&f, "D"));
	assert_int_equal(f.inbox.history.instances.count, 3);
	fini(&f);
}

static void lifespan_on_arrival(void **state)
{
	struct fixture f;
	struct apus_dp_inbox_options o = options(&f);
	struct apus_dp_arrival a = arrival(0, "A");

	(void)state;
	o.lifespan_ns = 200;
	init(&f, &o);
	set_writer(&f, 0, 0, APUS_INFINITE_NS, 100, 0); /* the shorter one counts */
	a.wall_now.ns = 5000;
	a.source_time.ns = 4900;
	assert_int_equal(apus_dp_admit(&f.inbox, &a, ms(0), &f.out), APUS_DP_EXPIRED);
	assert_null(instance(&f, "A"));
	assert_int_equal(f.held, 0);
	a.source_time.ns = 4901;
	assert_int_equal(apus_dp_admit(&f.inbox, &a, ms(0), &f.out), APUS_DP_STORED);
	assert_int_equal(f.inbox.history.entries[f.out.entry_idx].record.expires_at.ns,
			 ms(0).ns + 1);
	/* A source ahead of our clock, and one without time: age 0. */
	a.source_time.ns = 6000;
	assert_int_equal(apus_dp_admit(&f.inbox, &a, ms(0), &f.out), APUS_DP_DISPLACED);
	assert_int_equal(f.inbox.history.entries[f.out.entry_idx].record.expires_at.ns,
			 ms(0).ns + 100);
	a.source_time = APUS_WALL_NONE;
	assert_int_equal(apus_dp_admit(&f.inbox, &a, ms(0), &f.out), APUS_DP_DISPLACED);
	assert_int_equal(f.inbox.history.entries[f.out.entry_idx].record.expires_at.ns,
			 ms(0).ns + 100);
	a.source_time.ns = -INT64_MAX; /* an age that overflows */
	a.wall_now.ns = INT64_MAX;
	assert_int_equal(apus_dp_admit(&f.inbox, &a, ms(0), &f.out), APUS_DP_EXPIRED);
	fini(&f);
}

/* ---- ownership ------------------------------------------------------------------------------ */

static void one_owner_an_instance(void **state)
{
	struct fixture f;
	struct apus_dp_inbox_options o = options(&f);

	(void)state;
	o.exclusive = true;
	init(&f, &o);
	set_writer(&f, 2, 5, APUS_INFINITE_NS, APUS_INFINITE_NS, 0);
	assert_int_equal(admit(&f, 1, "A", 0), APUS_DP_STORED);
	assert_int_equal(admit(&f, 0, "A", 1),
			 APUS_DP_DISPLACED); /* equal strength, smaller GUID */
	assert_int_equal(admit(&f, 1, "A", 2), APUS_DP_REJECTED_OWNERSHIP);
	assert_int_equal(admit(&f, 2, "B", 3), APUS_DP_STORED); /* strong on B owns nothing of A */
	assert_int_equal(admit(&f, 0, "A", 4), APUS_DP_DISPLACED);
	assert_int_equal(admit(&f, 0, "B", 5), APUS_DP_REJECTED_OWNERSHIP);
	assert_int_equal(admit(&f, 2, "A", 6), APUS_DP_DISPLACED);
	/* Strength changes at run time. */
	set_writer(&f, 0, 6, APUS_INFINITE_NS, APUS_INFINITE_NS, 7);
	assert_int_equal(admit(&f, 0, "A", 8), APUS_DP_DISPLACED);
	assert_int_equal(admit(&f, 2, "A", 9), APUS_DP_REJECTED_OWNERSHIP);
	fini(&f);
}

static void ownership_is_released(void **state)
{
	struct fixture f;
	struct apus_dp_inbox_options o = options(&f);

	(void)state;
	o.exclusive = true;
	o.history.deadline_ns = 1000 * MS;
	init(&f, &o);
	set_writer(&f, 1, 5, 100 * MS, APUS_INFINITE_NS, 0);
	/* by unregister */
	admit(&f, 1, "A", 0);
	assert_int_equal(admit(&f, 0, "A", 1), APUS_DP_REJECTED_OWNERSHIP);
	assert_int_equal(notice(&f, 1, "A", APUS_DP_UNREGISTER, 2), APUS_DP_NOTICE);
	assert_int_equal(admit(&f, 0, "A", 3), APUS_DP_DISPLACED);
	/* by a lapse of its lease, at the boundary */
	admit(&f, 1, "A", 10);
	assert_int_equal(admit(&f, 0, "A", 109), APUS_DP_REJECTED_OWNERSHIP);
	assert_int_equal(admit(&f, 0, "A", 110), APUS_DP_DISPLACED);
	assert_int_equal(f.inbox.peers.peers[1].lease.losses, 1);
	/* by departure */
	set_writer(&f, 1, 5, APUS_INFINITE_NS, APUS_INFINITE_NS, 110);
	admit(&f, 1, "A", 120);
	assert_int_equal(admit(&f, 0, "A", 121), APUS_DP_REJECTED_OWNERSHIP);
	apus_dp_inbox_unmatch(&f.inbox, 1, ms(122));
	assert_int_equal(admit(&f, 0, "A", 123), APUS_DP_DISPLACED);
	/* by a missed deadline */
	assert_int_equal(admit(&f, 3, "A", 1122), APUS_DP_REJECTED_OWNERSHIP);
	assert_int_equal(admit(&f, 3, "A", 1123), APUS_DP_DISPLACED);
	fini(&f);
}

static void a_weaker_writer_does_not_dispose(void **state)
{
	struct fixture f;
	struct apus_dp_inbox_options o = options(&f);

	(void)state;
	o.exclusive = true;
	init(&f, &o);
	admit(&f, 0, "A", 0);
	assert_int_equal(notice(&f, 1, "A", APUS_DP_DISPOSE, 1), APUS_DP_REJECTED_OWNERSHIP);
	assert_int_equal(instance(&f, "A")->state, APUS_STATE_ALIVE);
	assert_int_equal(notice(&f, 0, "A", APUS_DP_DISPOSE, 1), APUS_DP_NOTICE);
	assert_int_equal(instance(&f, "A")->state, APUS_STATE_DISPOSED);
	fini(&f);
}

/* ---- notices -------------------------------------------------------------------------------- */

static void notices_in_every_form(void **state)
{
	struct fixture f;
	struct apus_dp_inbox_options o = options(&f);
	struct apus_dp_arrival a = arrival(0, "A");
	uint8_t hash[16];

	(void)state;
	init(&f, &o);
	assert_int_equal(notice(&f, 0, "A", APUS_DP_DISPOSE, 0), APUS_DP_IGNORED);
	assert_null(instance(&f, "A"));
	/* Full payload and dispose in one: data, and the state; no separate notice. */
	a.change = APUS_DP_DISPOSE;
	assert_int_equal(apus_dp_admit(&f.inbox, &a, ms(0), &f.out), APUS_DP_STORED);
	assert_int_equal(instance(&f, "A")->state, APUS_STATE_DISPOSED);
	assert_int_equal(take_all(&f, 0), 1);
	/* Only the key hash, as Fast DDS sends it; dispose and unregister at once stays DISPOSED. */
	a.change = 0;
	apus_dp_admit(&f.inbox, &a, ms(1), &f.out);
	assert_int_equal(instance(&f, "A")->disposed_generation_count, 1);
	fake_hash(NULL, (const uint8_t *)"A", 1, hash);
	a = arrival(0, "A");
	a.has_data = false;
	a.key = NULL;
	a.key_bytes = 0;
	a.key_hash = hash;
	a.change = APUS_DP_DISPOSE | APUS_DP_UNREGISTER;
	assert_int_equal(apus_dp_admit(&f.inbox, &a, ms(2), &f.out), APUS_DP_NOTICE);
	assert_true(f.out.available);
	assert_int_equal(instance(&f, "A")->state, APUS_STATE_DISPOSED);
	assert_int_equal(take_all(&f, 2), 2);
	hash[3] ^= 1;
	assert_int_equal(apus_dp_admit(&f.inbox, &a, ms(3), &f.out), APUS_DP_IGNORED);
	a.key_hash = NULL;
	assert_int_equal(apus_dp_admit(&f.inbox, &a, ms(3), &f.out), APUS_DP_IGNORED);
	fini(&f);
}

/** Notices pass the minimum separation, and give nothing to measure from. */
static void notices_are_not_rate_limited(void **state)
{
	struct fixture f;
	struct apus_dp_inbox_options o = options(&f);

	(void)state;
	o.separation_ns = 100 * MS;
	init(&f, &o);
	admit(&f, 0, "A", 0);
	assert_int_equal(notice(&f, 0, "A", APUS_DP_DISPOSE, 60), APUS_DP_NOTICE);
	assert_int_equal(admit(&f, 0, "A", 100), APUS_DP_DISPLACED);
	fini(&f);
}

static void arrivals_that_make_no_sense(void **state)
{
	struct fixture f;
	struct apus_dp_inbox_options o = options(&f);
	struct apus_dp_arrival a = arrival(4, "A"); /* no such slot */

	(void)state;
	init(&f, &o);
	assert_int_equal(apus_dp_admit(&f.inbox, &a, ms(0), &f.out), APUS_DP_MALFORMED);
	apus_dp_inbox_unmatch(&f.inbox, 3, ms(0));
	a.match_slot = 3;
	assert_int_equal(apus_dp_admit(&f.inbox, &a, ms(0), &f.out), APUS_DP_MALFORMED);
	a.match_slot = 0;
	a.key_bytes = 2;
	assert_int_equal(apus_dp_admit(&f.inbox, &a, ms(0), &f.out), APUS_DP_MALFORMED);
	a.key = NULL;
	assert_int_equal(apus_dp_admit(&f.inbox, &a, ms(0), &f.out), APUS_DP_MALFORMED);
	assert_int_equal(f.inbox.counters.results[APUS_DP_MALFORMED], 4);
	fini(&f);
}

/* ---- activity ------------------------------------------------------------------------------- */

/** Only what enters visible history is activity, for deadline and lease. */
static void rejected_samples_are_no_activity(void **state)
{
	struct fixture f;
	struct apus_dp_inbox_options o = options(&f);
	enum apus_dp_verdict verdict = APUS_DP_REJECT;
	struct apus_dp_liveliness_cursor cursor = {0};
	struct apus_dp_liveliness alive;

	(void)state;
	o.history.deadline_ns = 100 * MS;
	init(&f, &o);
	set_writer(&f, 0, 0, 250 * MS, APUS_INFINITE_NS, 0);
	apus_dp_peers_observe(&f.inbox.peers, &cursor, ms(0), &alive);
	admit(&f, 0, "A", 0);
	apus_dp_inbox_set_filter(&f.inbox, filter_by_context, &verdict, 1, NULL, NULL);
	for (int64_t t = 10; t < 450; t += 10)
		assert_int_equal(admit(&f, 0, "A", t), APUS_DP_REJECTED_FILTER);
	/* It lapsed at 250: from there on the instance has no writer, and nobody promises anything. */
	assert_int_equal(apus_dp_history_deadlines_missed(&f.inbox.history, ms(450)), 2);
	verdict = APUS_DP_PASS;
	assert_int_equal(admit(&f, 0, "A", 450), APUS_DP_DISPLACED);
	assert_int_equal(apus_dp_history_deadlines_missed(&f.inbox.history, ms(450)), 2);
	/* It lapsed at 250 although nobody looked, and is alive again. */
	assert_false(apus_dp_peers_observe(&f.inbox.peers, &cursor, ms(450), &alive));
	assert_int_equal(alive.losses, 1);
	assert_int_equal(alive.alive_count, 4);
	fini(&f);
}

/** One sample at 0, then one every 10 ms that the reader does not show: at 400 four deadlines of 100 ms have passed,
 *  and a lease of 400 ms has lapsed, whatever it was that kept them from it. */
static void only_what_is_shown_is_activity(void **state)
{
	static const enum apus_dp_admit_result kinds[] = {
		APUS_DP_REJECTED_FILTER, APUS_DP_REJECTED_RATE, APUS_DP_REJECTED_OWNERSHIP,
		APUS_DP_EXPIRED,         APUS_DP_REFUSED,
	};
	enum apus_dp_verdict verdict = APUS_DP_REJECT;

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct fixture f;
		struct apus_dp_inbox_options o = options(&f);
		struct apus_dp_arrival a = arrival(0, "A");

		o.history.deadline_ns = 100 * MS;
		o.separation_ns = kinds[i] == APUS_DP_REJECTED_RATE ? APUS_INFINITE_NS : 0;
		o.exclusive = kinds[i] == APUS_DP_REJECTED_OWNERSHIP;
		init(&f, &o);
		set_writer(&f, 0, 0, 400 * MS, APUS_INFINITE_NS, 0);
		if (o.exclusive) /* nobody misses a deadline here: it would cost the ownership */
			f.inbox.options.history.deadline_ns = APUS_INFINITE_NS;
		set_writer(&f, 1, 9, APUS_INFINITE_NS, APUS_INFINITE_NS, 0);
		assert_int_equal(apus_dp_admit(&f.inbox, &a, ms(0), &f.out), APUS_DP_STORED);
		if (o.exclusive)
			admit(&f, 1, "A", 0);
		if (kinds[i] == APUS_DP_REJECTED_FILTER)
			apus_dp_inbox_set_filter(&f.inbox, filter_by_context, &verdict, 1, NULL,
						 NULL);
		if (kinds[i] == APUS_DP_EXPIRED) {
			f.inbox.options.lifespan_ns = 1;
			a.source_time.ns = a.wall_now.ns - 1;
		}
		f.no_slots = kinds[i] == APUS_DP_REFUSED;
		if (!o.exclusive)
			assert_int_equal(apus_dp_history_deadlines_missed(&f.inbox.history, ms(99)),
					 0);
		for (int64_t t = 10; t < 400; t += 10)
			assert_int_equal(apus_dp_admit(&f.inbox, &a, ms(t), &f.out), kinds[i]);
		if (!o.exclusive)
			assert_int_equal(
				apus_dp_history_deadlines_missed(&f.inbox.history, ms(399)), 3);
		assert_int_equal(f.inbox.peers.peers[0].lease.losses, 0);
		apus_dp_inbox_catch_up(&f.inbox, ms(400));
		assert_int_equal(f.inbox.peers.peers[0].lease.losses, 1);
		if (!o.exclusive)
			assert_int_equal(
				apus_dp_history_deadlines_missed(&f.inbox.history, ms(400)), 4);
		fini(&f);
	}
}

static void a_lapsed_writer_leaves_its_instances(void **state)
{
	struct fixture f;
	struct apus_dp_inbox_options o = options(&f);

	(void)state;
	init(&f, &o);
	set_writer(&f, 0, 0, 100 * MS, APUS_INFINITE_NS, 0);
	apus_dp_inbox_unmatch(&f.inbox, 0, ms(0));
	assert_int_equal(apus_dp_inbox_match(&f.inbox, 0, &(struct apus_guid){{9}}, 0, 100 * MS,
					     APUS_INFINITE_NS, ms(0)),
			 0);
	admit(&f, 0, "A", 0);
	admit(&f, 0, "B", 0);
	admit(&f, 1, "B", 0);
	assert_int_equal(apus_dp_inbox_catch_up(&f.inbox, ms(99)), 0);
	apus_dp_inbox_assert(&f.inbox, 0, ms(50));
	assert_int_equal(apus_dp_inbox_catch_up(&f.inbox, ms(149)), 0);
	assert_int_equal(apus_dp_inbox_catch_up(&f.inbox, ms(150)), 1); /* B has writer 1 */
	assert_int_equal(apus_dp_inbox_catch_up(&f.inbox, ms(160)), 0);
	assert_int_equal(instance(&f, "A")->state, APUS_STATE_NO_WRITERS);
	admit(&f, 0, "A", 200);
	assert_int_equal(instance(&f, "A")->no_writers_generation_count, 1);
	/* A second lapse is carried over again. */
	assert_int_equal(apus_dp_inbox_catch_up(&f.inbox, ms(300)), 1);
	/* Departure: what it wrote remains to be taken. */
	assert_int_equal(apus_dp_inbox_unmatch(&f.inbox, 1, ms(400)), 1);
	assert_int_equal(take_all(&f, 400), 4);
	fini(&f);
}

/* ---- random arrivals ------------------------------------------------------------------------ */

static bool leaves_no_trace(enum apus_dp_admit_result r)
{
	return r == APUS_DP_REJECTED_FILTER || r == APUS_DP_REJECTED_RATE || r == APUS_DP_EXPIRED ||
	       r == APUS_DP_REFUSED || r == APUS_DP_MALFORMED || r == APUS_DP_REJECTED_OWNERSHIP;
}

/** Shared ownership: after a rejection the whole memory of history, instances and peers is as before. */
static void random_rejections_leave_no_trace(void **state)
{
	struct fixture f;
	struct apus_dp_inbox_options o = options(&f);
	enum apus_dp_verdict verdict = APUS_DP_PASS;
	uint64_t x = 88172645463325252u, seen[APUS_DP_ADMIT_RESULTS] = {0};
	uint8_t *before;
	int64_t now = 0;

	(void)state;
	o.separation_ns = 3 * MS;
	o.history.keep_all = true;
	o.history.deadline_ns = 20 * MS;
	o.history.max_samples = 4;
	o.lifespan_ns = 2000;
	init(&f, &o);
	before = malloc(f.memory_bytes);
	apus_dp_inbox_set_filter(&f.inbox, filter_by_context, &verdict, 1, NULL, NULL);
	for (uint32_t step = 0; step < 100000; step++) {
		static const char *const keys[] = {"A", "B", "C", "D", "E"};
		struct apus_dp_arrival a;
		enum apus_dp_admit_result r;
		struct apus_dp_history history = f.inbox.history;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		a = arrival((uint32_t)(x >> 10) % 4, keys[(x >> 20) % 5]);
		a.source_time.ns = a.wall_now.ns - (int64_t)((x >> 30) % 2200);
		a.has_data = (x >> 42) % 8 != 0;
		a.change = a.has_data ? 0 : 1 + (x >> 45) % 3;
		verdict = (x >> 47) % 8 == 0   ? APUS_DP_REJECT
			  : (x >> 50) % 9 == 0 ? APUS_DP_ERROR
					       : APUS_DP_PASS;
		f.no_slots = (x >> 53) % 16 == 0;
		now += (int64_t)((x >> 57) % 3);
		memcpy(before, f.memory, f.memory_bytes);
		r = apus_dp_admit(&f.inbox, &a, ms(now), &f.out);
		seen[r]++;
		if (leaves_no_trace(r)) {
			assert_memory_equal(before, f.memory, f.memory_bytes);
			assert_memory_equal(&history, &f.inbox.history, sizeof(history));
			assert_false(f.out.available);
		}
		if (x % 5 == 0)
			take_all(&f, now);
	}
	assert_int_equal(f.inbox.counters.available, seen[APUS_DP_STORED]);
	for (int r = 0; r < APUS_DP_ADMIT_RESULTS; r++)
		assert_int_equal(f.inbox.counters.results[r], seen[r]);
	assert_true(seen[APUS_DP_STORED] > 1000 && seen[APUS_DP_REFUSED] > 1000 &&
		    seen[APUS_DP_REJECTED_RATE] > 1000 && seen[APUS_DP_EXPIRED] > 100);
	free(before);
	fini(&f);
}

/* ---- rules that change ---------------------------------------------------------------------- */

/** A deadline that changes banks what was missed, and begins anew only where one was running. */
static void a_deadline_changes(void **state)
{
	struct fixture f;
	struct apus_dp_inbox_options o = options(&f);
	struct apus_dp_history *h;

	(void)state;
	o.history.deadline_ns = 100 * MS;
	init(&f, &o);
	h = &f.inbox.history;
	admit(&f, 0, "A", 0);
	admit(&f, 0, "B", 50);
	assert_int_equal(notice(&f, 0, "B", APUS_DP_DISPOSE, 60), APUS_DP_NOTICE);
	assert_int_equal(apus_dp_history_deadlines_missed(h, ms(450)), 4);
	apus_dp_history_set_deadline(h, 1000 * MS, ms(450));
	assert_int_equal(apus_dp_history_deadlines_missed(h, ms(1449)), 4);
	assert_int_equal(apus_dp_history_deadlines_missed(h, ms(1450)), 5);
	apus_dp_history_set_deadline(h, APUS_INFINITE_NS, ms(1500));
	assert_int_equal(apus_dp_history_deadlines_missed(h, ms(100000)), 5);
	apus_dp_history_set_deadline(h, 10 * MS, ms(100000));
	assert_int_equal(apus_dp_history_deadlines_missed(h, ms(100500)), 5); /* none was running */
	admit(&f, 0, "A", 100500);
	assert_int_equal(apus_dp_history_deadlines_missed(h, ms(100525)), 7);
	fini(&f);
}

/** Separations at their ends: one sample for ever, and each of those a nanosecond apart. */
static void separations_at_their_ends(void **state)
{
	struct fixture f;
	struct apus_dp_inbox_options o = options(&f);
	struct apus_dp_arrival a = arrival(0, "A");

	(void)state;
	o.separation_ns = APUS_INFINITE_NS;
	init(&f, &o);
	assert_int_equal(admit(&f, 0, "A", 0), APUS_DP_STORED);
	assert_int_equal(apus_dp_admit(&f.inbox, &a, (struct apus_mono){INT64_MAX}, &f.out),
			 APUS_DP_REJECTED_RATE);
	f.inbox.options.separation_ns = 1;
	assert_int_equal(admit(&f, 0, "A", 0), APUS_DP_REJECTED_RATE);
	assert_int_equal(apus_dp_admit(&f.inbox, &a, (struct apus_mono){ms(0).ns + 1}, &f.out),
			 APUS_DP_DISPLACED);
	fini(&f);
}

/** Purge delays that come to instances that are dead already run from the change. */
static void purge_delays_change(void **state)
{
	struct fixture f;
	struct apus_dp_inbox_options o = options(&f);
	struct apus_dp_history *h;

	(void)state;
	o.history.purge_disposed_ns = o.history.purge_no_writers_ns = APUS_INFINITE_NS;
	init(&f, &o);
	h = &f.inbox.history;
	admit(&f, 0, "A", 0);
	notice(&f, 0, "A", APUS_DP_DISPOSE, 10);
	admit(&f, 0, "B", 0);
	notice(&f, 0, "B", APUS_DP_UNREGISTER, 10);
	apus_dp_history_purge(h, ms(1000));
	assert_int_equal(h->counters.purged, 0);
	apus_dp_history_set_purge(h, APUS_INFINITE_NS, 100 * MS, ms(1000));
	apus_dp_history_purge(h, ms(1099));
	assert_int_equal(h->counters.purged, 0);
	apus_dp_history_set_purge(h, 50 * MS, 500 * MS, ms(1099)); /* again from here */
	apus_dp_history_purge(h, ms(1149));
	assert_int_equal(h->counters.purged, 1); /* B's sample */
	assert_int_equal(h->sample_count, 1);
	apus_dp_history_set_purge(h, APUS_INFINITE_NS, APUS_INFINITE_NS, ms(1200));
	apus_dp_history_purge(h, ms(100000));
	assert_int_equal(h->counters.purged, 1);
	fini(&f);
}

/* ---- late delivery -------------------------------------------------------------------------- */

static void catch_up(struct fixture *f, int64_t t, uint64_t late)
{
	apus_dp_inbox_catch_up(&f->inbox, ms(t));
	assert_int_equal(f->inbox.counters.late.value, late);
}

/** The last suppressed sample of each instance is shown at its instant, and the separation starts there. */
static void the_last_suppressed_comes_late(void **state)
{
	struct fixture f;
	struct apus_dp_inbox_options o = options(&f);
	struct apus_dp_arrival a = arrival(0, "A");

	(void)state;
	o.separation_ns = 100 * MS;
	o.late = true;
	init(&f, &o);
	assert_int_equal(admit(&f, 0, "A", 0), APUS_DP_STORED);
	assert_int_equal(admit(&f, 1, "B", 10), APUS_DP_STORED);
	assert_int_equal(take_all(&f, 20), 2);
	a.seq = 7;
	assert_int_equal(admit(&f, 0, "A", 30), APUS_DP_REJECTED_RATE);
	assert_int_equal(apus_dp_admit(&f.inbox, &a, ms(40), &f.out), APUS_DP_REJECTED_RATE);
	assert_int_equal(f.held, 1); /* one slot an instance */
	assert_int_equal(instance(&f, "A")->last_accepted.ns, ms(0).ns);
	assert_int_equal(f.inbox.late.due_ns, ms(100).ns);
	catch_up(&f, 99, 0);
	/* Asked late, as of then. B waits for nothing. */
	catch_up(&f, 130, 1);
	assert_int_equal(instance(&f, "A")->last_accepted.ns, ms(100).ns);
	assert_int_equal(f.inbox.history.sample_count, 1);
	assert_int_equal(f.inbox.history.entries[f.inbox.history.first].record.seq, 7);
	assert_int_equal(f.inbox.history.entries[f.inbox.history.first].record.reception_time.ns,
			 ms(40).ns);
	assert_int_equal(f.inbox.late.due_ns, INT64_MAX);
	catch_up(&f, 1000, 1);
	/* From 100: 199 is too early, shown at 200, before what arrives then. */
	assert_int_equal(take_all(&f, 150), 1);
	assert_int_equal(admit(&f, 0, "A", 199), APUS_DP_REJECTED_RATE);
	assert_int_equal(admit(&f, 0, "A", 200), APUS_DP_REJECTED_RATE);
	assert_int_equal(f.inbox.counters.late.value, 2);
	fini(&f); /* gives back what waits */
}

/** A notice, a departure and a lapse are preceded by what waits; it does not refresh the lease. */
static void what_waits_precedes_the_end(void **state)
{
	struct fixture f;
	struct apus_dp_inbox_options o = options(&f);

	(void)state;
	o.separation_ns = 100 * MS;
	o.late = true;
	init(&f, &o);
	set_writer(&f, 2, 0, 60 * MS, APUS_INFINITE_NS, 0);
	admit(&f, 0, "A", 0);
	admit(&f, 1, "B", 0);
	admit(&f, 2, "C", 0);
	admit(&f, 0, "A", 10);
	admit(&f, 1, "B", 10);
	admit(&f, 2, "C", 10);
	assert_int_equal(take_all(&f, 20), 3);
	/* Another's unregistration is none of its business. */
	assert_int_equal(notice(&f, 3, "A", APUS_DP_UNREGISTER, 30), APUS_DP_NOTICE);
	assert_int_equal(f.inbox.counters.late.value, 0);
	assert_int_equal(notice(&f, 0, "A", APUS_DP_DISPOSE, 30), APUS_DP_NOTICE);
	assert_int_equal(f.inbox.counters.late.value, 1);
	assert_int_equal(instance(&f, "A")->state, APUS_STATE_DISPOSED);
	assert_int_equal(instance(&f, "A")->sample_count, 1);
	apus_dp_inbox_unmatch(&f.inbox, 1, ms(40));
	assert_int_equal(f.inbox.counters.late.value, 2);
	assert_int_equal(instance(&f, "B")->state, APUS_STATE_NO_WRITERS);
	assert_int_equal(instance(&f, "B")->sample_count, 1);
	/* The lease of C's writer ends 60 ms after the sample that was stored. */
	catch_up(&f, 59, 2);
	catch_up(&f, 200, 3);
	assert_int_equal(instance(&f, "C")->state, APUS_STATE_NO_WRITERS);
	assert_int_equal(instance(&f, "C")->last_accepted.ns, ms(60).ns);
	assert_int_equal(f.inbox.counters.lost, 0);
	fini(&f);
}

/** No room, lifespan, no slot. */
static void late_samples_may_come_to_nothing(void **state)
{
	struct fixture f;
	struct apus_dp_inbox_options o = options(&f);

	(void)state;
	o.separation_ns = 100 * MS;
	o.late = true;
	o.history.keep_all = true;
	o.history.max_samples = 1;
	o.history.max_samples_per_instance = 1;
	init(&f, &o);
	admit(&f, 0, "A", 0);
	admit(&f, 0, "A", 10);
	catch_up(&f, 150, 0); /* full: tried again a separation later */
	assert_int_equal(f.inbox.late.due_ns, ms(200).ns);
	assert_int_equal(take_all(&f, 160), 1);
	catch_up(&f, 199, 0);
	catch_up(&f, 200, 1);
	/* Full when its writer goes: lost and rejected, as any other. */
	admit(&f, 0, "A", 210);
	apus_dp_inbox_unmatch(&f.inbox, 0, ms(220));
	assert_int_equal(f.inbox.counters.late.value, 1);
	assert_int_equal(f.inbox.counters.lost, 1);
	assert_int_equal(f.inbox.counters.refusals[APUS_DP_REFUSED_SAMPLES].value, 1);
	fini(&f);

	o = options(&f);
	o.separation_ns = 100 * MS;
	o.late = true;
	init(&f, &o);
	admit(&f, 0, "A", 0);
	set_writer(&f, 0, 0, APUS_INFINITE_NS, 50 * MS, 0);
	admit(&f, 0, "A", 10); /* no source time: age 0, expires at 60 */
	f.no_slots = true;
	assert_int_equal(admit(&f, 0, "A", 20), APUS_DP_REFUSED); /* offered again */
	f.no_slots = false;
	assert_int_equal(f.held, 2);
	catch_up(&f, 100, 0);
	assert_int_equal(f.held, 1);
	assert_int_equal(f.inbox.counters.results[APUS_DP_EXPIRED], 1);
	assert_int_equal(admit(&f, 0, "A", 100), APUS_DP_DISPLACED);
	fini(&f);
}

static bool keep_none(void *context, const struct apus_dp_sample *entry)
{
	(void)context;
	return entry->record.seq == 99;
}

/** A new filter is applied to what waits; an instance for which something waits does not make room. */
static void what_waits_is_filtered_and_pinned(void **state)
{
	struct fixture f;
	struct apus_dp_inbox_options o = options(&f);
	enum apus_dp_verdict verdict = APUS_DP_PASS;

	(void)state;
	o.separation_ns = 100 * MS;
	o.late = true;
	init(&f, &o);
	admit(&f, 0, "A", 0);
	admit(&f, 0, "A", 10);
	assert_int_equal(take_all(&f, 10), 1);
	assert_int_equal(instance(&f, "A")->pins, 1);
	assert_false(instance(&f, "A")->idle);
	assert_int_equal(
		apus_dp_inbox_set_filter(&f.inbox, filter_by_context, &verdict, 2, keep_none, NULL),
		1);
	assert_int_equal(instance(&f, "A")->pins, 0);
	assert_int_equal(f.held, 0);
	catch_up(&f, 300, 0);
	fini(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_robots_at_100_ms),
		cmocka_unit_test(admission_table),
		cmocka_unit_test(the_filter_comes_first),
		cmocka_unit_test(ownership_survives_a_later_rejection),
		cmocka_unit_test(a_full_instance_table_refuses_whole),
		cmocka_unit_test(lifespan_on_arrival),
		cmocka_unit_test(one_owner_an_instance),
		cmocka_unit_test(ownership_is_released),
		cmocka_unit_test(a_weaker_writer_does_not_dispose),
		cmocka_unit_test(notices_in_every_form),
		cmocka_unit_test(notices_are_not_rate_limited),
		cmocka_unit_test(arrivals_that_make_no_sense),
		cmocka_unit_test(rejected_samples_are_no_activity),
		cmocka_unit_test(only_what_is_shown_is_activity),
		cmocka_unit_test(a_lapsed_writer_leaves_its_instances),
		cmocka_unit_test(random_rejections_leave_no_trace),
		cmocka_unit_test(a_deadline_changes),
		cmocka_unit_test(separations_at_their_ends),
		cmocka_unit_test(purge_delays_change),
		cmocka_unit_test(the_last_suppressed_comes_late),
		cmocka_unit_test(what_waits_precedes_the_end),
		cmocka_unit_test(late_samples_may_come_to_nothing),
		cmocka_unit_test(what_waits_is_filtered_and_pinned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
