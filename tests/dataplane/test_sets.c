/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: coherent sets at a reader: a set is seen whole or not at all, at topic and at group scope, whatever is
 * lost, refused or forged; order across the readers of a subscriber; the frozen view.
 * Method: one worker with one or two readers of ShapeType; the writers are datagrams made by hand.
 */
#include "dataplane/group.h"
#include "tests/dataplane/wire_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READERS = 2, WRITERS = 2, END = -1 /* of a set, in `first` */ };

static struct wire_pair p;
static struct apus_dp_subscriber sub;
static struct apus_dp_reader *reader[READERS];
static struct apus_dp_reader_snapshot *snapshot[READERS];
static uint64_t generation;
static struct apus_sample taken[32];

static struct apus_eid writer_eid(int w)
{
	return (struct apus_eid){(uint32_t)(w + 1) << 8 | 2};
}

/* Publishes which of the writers reader r is matched with: bit w. */
static void match(int r, unsigned writers, bool reliable)
{
	static const uint8_t ip[4] = {127, 0, 0, 1};
	struct apus_dp_reader_snapshot *s = calloc(1, sizeof(*s) + WRITERS * sizeof(s->match[0]));
	uint64_t retired;

	s->generation = ++generation;
	for (int w = 0; w < WRITERS; w++)
		if (writers >> w & 1)
			s->match[s->match_count++] = (struct apus_dp_writer_match){
				.guid = apus_guid_make(&p.a.prefix, writer_eid(w)),
				.match_id = (uint64_t)(10 * r + w + 1),
				.reliable = reliable,
				.publisher = {0x108},
				.lease_ns = APUS_INFINITE_NS,
				.lifespan_ns = APUS_INFINITE_NS,
				.unicast = apus_dp_addr_v4(ip, 1)};
	apus_dp_reader_publish(&p.epoch, &reader[r]->port, s, &retired);
	wire_run(&p, 100 * APUS_NS_PER_US);
	free(snapshot[r]);
	snapshot[r] = s;
}

struct setting {
	uint8_t scope;
	bool reliable, keep_all, ordered, plain;
	uint32_t max_samples;
	uint32_t depth;
};

static void open_readers(const struct setting *o)
{
	wire_pair_init(&p, 1);
	sub = (struct apus_dp_subscriber){.access_scope = o->scope,
					  .coherent_access = true,
					  .ordered_access = o->ordered,
					  .stamp = 1};
	for (int r = 0; r < READERS; r++) {
		struct apus_dp_reader_config c = {
			.guid = apus_guid_make(&p.b.prefix,
					       (struct apus_eid){(uint32_t)(r + 2) << 8 | 7}),
			.reliable = o->reliable,
			.type = &apus_shape_type,
			.payload_bytes_max = 256,
			.match_max = 4,
			.held_max = 16,
			.subscriber = &sub,
			.user = &reader[r],
			.inbox = {.lifespan_ns = APUS_INFINITE_NS,
				  .coherent = !o->plain,
				  .history = {.keep_all = o->keep_all,
					      .depth = o->depth ? o->depth : 8,
					      .max_samples = o->max_samples ? o->max_samples : 16,
					      .max_samples_per_instance = 16,
					      .max_loans = 32,
					      .deadline_ns = APUS_INFINITE_NS,
					      .instances = {.capacity = 4, .seed = 1}}}};

		assert_int_equal(apus_dp_reader_create(p.b.worker, &c, &reader[r]), 0);
		apus_dp_worker_take_turn(p.b.worker);
		assert_int_equal(apus_dp_worker_add_reader(p.b.worker, reader[r]), 0);
		apus_dp_worker_end_turn(p.b.worker);
		match(r, 1u << r, o->reliable);
	}
}

static void close_readers(void)
{
	for (int r = 0; r < READERS; r++) {
		apus_dp_worker_take_turn(p.b.worker);
		apus_dp_worker_remove_reader(p.b.worker, reader[r]);
		apus_dp_worker_end_turn(p.b.worker);
		assert_int_equal(reader[r]->inbox.history.withheld_count, 0);
		apus_dp_reader_destroy(reader[r]);
		free(snapshot[r]);
		snapshot[r] = NULL;
	}
	wire_pair_fini(&p);
}

static void feed(struct apus_wire_builder *b)
{
	struct apus_dp_addr from = {0};

	apus_dp_worker_take_turn(p.b.worker);
	apus_dp_worker_datagram(p.b.worker, b->bytes, b->length, &from, p.now);
	apus_dp_worker_end_turn(p.b.worker);
	wire_run(&p, 2 * APUS_NS_PER_MS);
}

/* One change of writer w. color NULL: a marker; kind: 0 data, else a notice. */
static void say(int w, apus_seq seq, const char *color, uint32_t kind, apus_seq first,
		apus_seq group_first, apus_seq group_seq)
{
	struct apus_shape shape = {.x = (int32_t)seq, .shapesize = 1};
	uint8_t buffer[512], payload[256], hash[16] = {0};
	struct apus_wire_builder b;
	struct apus_wire_data_out d = {
		.writer = writer_eid(w),
		.seq = seq,
		.qos = {.status_info = kind,
			.key_hash = kind ? hash : NULL,
			.coherent_seq = first == END ? APUS_WIRE_SEQ_UNKNOWN : first,
			.group_coherent_seq = group_first,
			.group_seq = group_seq}};

	assert_int_equal(apus_wire_begin(&b, buffer, sizeof(buffer), &p.a.prefix), 0);
	if (color) {
		snprintf(shape.color, sizeof(shape.color), "%s", color);
		d.key_only = kind != 0;
		d.payload = payload;
		d.payload_bytes = (uint32_t)apus_type_encode(&apus_shape_type, &shape, APUS_XCDR1,
							     d.key_only, payload, sizeof(payload));
	}
	assert_int_equal(apus_wire_data(&b, &d), 0);
	feed(&b);
}

static void send_gap(int w, apus_seq start, apus_seq end)
{
	uint8_t buffer[256];
	struct apus_wire_builder b;
	struct apus_wire_gap gap = {.writer = writer_eid(w), .start = start, .set.base = end};

	assert_int_equal(apus_wire_begin(&b, buffer, sizeof(buffer), &p.a.prefix), 0);
	assert_int_equal(apus_wire_gap(&b, &gap), 0);
	feed(&b);
}

static void send_heartbeat(int w, apus_seq first, apus_seq last)
{
	static uint32_t count;
	uint8_t buffer[256];
	struct apus_wire_builder b;
	struct apus_wire_heartbeat hb = {
		.writer = writer_eid(w), .first = first, .last = last, .count = ++count};

	assert_int_equal(apus_wire_begin(&b, buffer, sizeof(buffer), &p.a.prefix), 0);
	assert_int_equal(apus_wire_heartbeat(&b, &hb), 0);
	feed(&b);
}

static int take(int r, uint32_t max)
{
	int n;

	apus_dp_worker_take_turn(p.b.worker);
	n = apus_dp_reader_access(reader[r], NULL, true, p.now, taken, max);
	for (int i = 0; i < n; i++) {
		struct apus_sample lent = taken[i]; /* what was shown stays to be looked at */

		assert_int_equal(apus_dp_reader_return(reader[r], &lent), 0);
	}
	apus_dp_worker_end_turn(p.b.worker);
	return n;
}

/* What reader r has to take, by number; ends with 0. */
static void expect(int r, const apus_seq *seq)
{
	int n = take(r, 32), i = 0;

	for (; seq[i]; i++) {
		assert_true(i < n);
		assert_int_equal(taken[i].info.seq, seq[i]);
	}
	assert_int_equal(n, i);
}
#define EXPECT(r, ...) expect(r, (const apus_seq[]){__VA_ARGS__, 0})
#define NOTHING(r)     expect(r, (const apus_seq[]){0})

static const struct apus_dp_inbox_counters *counters(int r)
{
	return &reader[r]->inbox.counters;
}

/* ---- topic scope ---------------------------------------------------------------------------- */

static void a_set_comes_whole(void **state)
{
	(void)state;
	open_readers(&(struct setting){.scope = APUS_SCOPE_TOPIC, .reliable = true});
	say(0, 1, "RED", 0, 0, 0, 0); /* outside sets: at once */
	EXPECT(0, 1);
	say(0, 2, "RED", 0, 2, 0, 0);
	say(0, 3, "BLUE", 0, 2, 0, 0);
	NOTHING(0);
	assert_int_equal(reader[0]->inbox.history.withheld_count, 2);
	/* Withheld: nothing lost, nothing available; released, they are as if they had been stored then. */
	assert_int_equal(counters(0)->available, 1);
	assert_int_equal(counters(0)->lost, 0);
	assert_int_equal(counters(0)->rejected, 0);
	say(0, 4, NULL, 0, END, 0, 0);
	EXPECT(0, 2, 3);
	assert_int_equal(counters(0)->available, 3);
	assert_int_equal(counters(0)->lost, 0);
	assert_int_equal(counters(0)->sets_released.value, 1);
	assert_int_equal(counters(0)->results[APUS_DP_WITHHELD], 2);
	/* Without marker: the next set, or a change outside sets, ends one. */
	say(0, 5, "RED", 0, 5, 0, 0);
	say(0, 6, "RED", 0, 6, 0, 0);
	EXPECT(0, 5);
	say(0, 7, "RED", 0, 0, 0, 0);
	EXPECT(0, 6, 7);
	/* A set with dispose and unregister: the instance changes when the set is seen. */
	say(0, 8, "BLUE", 0, 8, 0, 0);
	say(0, 9, "BLUE", 1, 8, 0, 0);
	say(0, 10, "RED", 3, 8, 0, 0);
	NOTHING(0);
	say(0, 11, NULL, 0, END, 0, 0);
	EXPECT(0, 8, 9, 10);
	assert_int_equal(taken[1].info.instance_state, APUS_STATE_DISPOSED);
	/* An empty set, and a marker without any. */
	say(0, 12, NULL, 0, END, 0, 0);
	say(0, 13, "RED", 0, 0, 0, 0);
	EXPECT(0, 13);
	assert_int_equal(counters(0)->sets_dropped.value, 0);
	close_readers();
}

/* Late and doubled numbers do not matter; what is irrelevant is not missed. */
static void order_is_restored_first(void **state)
{
	(void)state;
	open_readers(&(struct setting){.scope = APUS_SCOPE_TOPIC, .reliable = true});
	say(0, 1, "RED", 0, 1, 0, 0);
	say(0, 4, NULL, 0, END, 0, 0);
	say(0, 3, "BLUE", 0, 1, 0, 0);
	say(0, 3, "BLUE", 0, 1, 0, 0);
	NOTHING(0);
	send_gap(0, 2, 3); /* filtered out by the writer */
	EXPECT(0, 1, 3);
	close_readers();
}

static void an_incomplete_set_is_dropped(void **state)
{
	(void)state;
	open_readers(&(struct setting){.scope = APUS_SCOPE_TOPIC, .reliable = true});
	say(0, 1, "RED", 0, 1, 0, 0);
	say(0, 3, "RED", 0, 1, 0, 0);
	send_heartbeat(0, 3, 3); /* 2 is gone for good */
	say(0, 4, "BLUE", 0, 1, 0, 0);
	say(0, 5, NULL, 0, END, 0, 0);
	NOTHING(0);
	assert_int_equal(counters(0)->sets_dropped.value, 1);
	assert_int_equal(counters(0)->results[APUS_DP_REJECTED_SET], 3);
	/* The end is lost: what came is not shown. The next set is whole. */
	say(0, 6, "RED", 0, 6, 0, 0);
	send_heartbeat(0, 8, 7);
	say(0, 8, "RED", 0, 8, 0, 0);
	NOTHING(0);
	say(0, 9, NULL, 0, END, 0, 0);
	EXPECT(0, 8);
	assert_int_equal(counters(0)->sets_dropped.value, 2);
	/* A set that begins in numbers never written, or before our time, is no set. */
	say(0, 10, "RED", 0, 99, 0, 0);
	say(0, 11, NULL, 0, END, 0, 0);
	NOTHING(0);
	assert_int_equal(counters(0)->sets_dropped.value, 3);
	close_readers();
}

static void best_effort_drops_what_loss_has_torn(void **state)
{
	(void)state;
	open_readers(&(struct setting){.scope = APUS_SCOPE_TOPIC});
	say(0, 5, "RED", 0, 4, 0, 0); /* began before the first number we have */
	say(0, 6, NULL, 0, END, 0, 0);
	NOTHING(0);
	say(0, 7, "RED", 0, 7, 0, 0);
	say(0, 8, "RED", 0, 7, 0, 0);
	say(0, 9, NULL, 0, END, 0, 0);
	EXPECT(0, 7, 8);
	say(0, 10, "RED", 0, 10, 0, 0);
	say(0, 12, "RED", 0, 10, 0, 0); /* 11 is lost */
	say(0, 13, NULL, 0, END, 0, 0);
	NOTHING(0);
	say(0, 14, "RED", 0, 14, 0, 0);
	send_gap(0, 15, 17); /* left out, not lost */
	say(0, 17, "RED", 0, 14, 0, 0);
	say(0, 18, NULL, 0, END, 0, 0);
	EXPECT(0, 14, 17);
	assert_int_equal(counters(0)->sets_dropped.value, 2);
	close_readers();
}

/* Withheld samples are charged to the limits; a set too large for an empty reader goes. */
static void sets_are_charged_to_the_limits(void **state)
{
	(void)state;
	open_readers(&(struct setting){
		.scope = APUS_SCOPE_TOPIC, .reliable = true, .keep_all = true, .max_samples = 4});
	say(0, 1, "RED", 0, 0, 0, 0);
	say(0, 2, "RED", 0, 0, 0, 0);
	for (apus_seq seq = 3; seq <= 5; seq++)
		say(0, seq, "BLUE", 0, 3, 0, 0);
	assert_int_equal(reader[0]->inbox.history.withheld_count, 2);
	assert_int_equal(counters(0)->rejected, 1); /* 5 has to wait */
	EXPECT(0, 1, 2);
	say(0, 5, "BLUE", 0, 3, 0, 0);
	say(0, 6, NULL, 0, END, 0, 0);
	EXPECT(0, 3, 4, 5);
	for (apus_seq seq = 7; seq <= 12; seq++)
		say(0, seq, "BLUE", 0, 7, 0, 0);
	assert_int_equal(reader[0]->inbox.history.withheld_count, 0);
	say(0, 13, NULL, 0, END, 0, 0);
	NOTHING(0);
	assert_int_equal(counters(0)->sets_dropped.value, 1);
	assert_int_equal(counters(0)->results[APUS_DP_REJECTED_SET], 6);
	say(0, 14, "RED", 0, 0, 0, 0);
	EXPECT(0, 14);
	close_readers();
}

/* KEEP_LAST shows the last of each instance, when the set is seen; the old ones stay until then. */
static void keep_last_applies_at_the_end(void **state)
{
	(void)state;
	open_readers(&(struct setting){.scope = APUS_SCOPE_TOPIC, .reliable = true, .depth = 1});
	say(0, 1, "RED", 0, 0, 0, 0);
	say(0, 2, "RED", 0, 2, 0, 0);
	say(0, 3, "RED", 0, 2, 0, 0);
	EXPECT(0, 1);
	say(0, 4, NULL, 0, END, 0, 0);
	EXPECT(0, 3);
	close_readers();
}

static void a_departure_drops_an_open_set(void **state)
{
	(void)state;
	open_readers(&(struct setting){.scope = APUS_SCOPE_TOPIC, .reliable = true});
	say(0, 1, "RED", 0, 1, 0, 0);
	match(0, 0, true);
	NOTHING(0);
	assert_int_equal(reader[0]->inbox.history.withheld_count, 0);
	assert_int_equal(counters(0)->sets_dropped.value, 1);
	close_readers();
}

/* ---- group scope ---------------------------------------------------------------------------- */

static const struct setting group = {.scope = APUS_SCOPE_GROUP, .reliable = true, .ordered = true};

static void a_group_set_waits_for_all_writers(void **state)
{
	(void)state;
	open_readers(&group);
	say(0, 1, "RED", 0, 1, 1, 1);
	say(1, 1, "BLUE", 0, 1, 1, 2);
	say(0, 2, "RED", 0, 1, 1, 3);
	say(0, 3, NULL, 0, END, 1, 4);
	NOTHING(0);
	NOTHING(1);
	/* What follows a set that waits is not taken yet, and asked for again. */
	say(0, 4, "RED", 0, 0, 0, 6);
	NOTHING(0);
	say(1, 2, NULL, 0, END, 1, 5);
	assert_int_equal(take(0, 8), 1); /* ordered at group scope: one at a time */
	assert_int_equal(taken[0].info.seq, 1);
	assert_int_equal(take(0, 8), 1);
	assert_int_equal(taken[0].info.seq, 2);
	EXPECT(1, 1);
	say(0, 4, "RED", 0, 0, 0, 6);
	EXPECT(0, 4);
	assert_int_equal(counters(0)->sets_released.value, 1);
	assert_int_equal(counters(1)->sets_released.value, 1);
	/* A writer without part in the set says so by its marker, or by a later number. */
	say(1, 3, "BLUE", 0, 3, 7, 7);
	say(1, 4, NULL, 0, END, 7, 8);
	NOTHING(1);
	say(0, 5, NULL, 0, END, 7, 9);
	EXPECT(1, 3);
	close_readers();
}

static void a_group_set_breaks_as_a_whole(void **state)
{
	(void)state;
	open_readers(&group);
	say(0, 1, "RED", 0, 1, 1, 1);
	say(1, 1, "BLUE", 0, 1, 1, 2);
	say(1, 3, "BLUE", 0, 1, 1, 4);
	say(0, 2, NULL, 0, END, 1, 5);
	send_heartbeat(1, 3, 3); /* its 2 is gone */
	say(1, 4, NULL, 0, END, 1, 6);
	NOTHING(0);
	NOTHING(1);
	assert_int_equal(counters(0)->sets_dropped.value, 1);
	assert_int_equal(counters(1)->sets_dropped.value, 1);
	/* The next one is whole. */
	say(0, 3, "RED", 0, 3, 7, 7);
	say(1, 5, "BLUE", 0, 5, 7, 8);
	say(0, 4, NULL, 0, END, 7, 9);
	say(1, 6, NULL, 0, END, 7, 10);
	EXPECT(0, 3);
	EXPECT(1, 5);
	/* A writer that leaves before it has ended its part takes the set with it. */
	say(0, 5, "RED", 0, 5, 11, 11);
	say(0, 6, NULL, 0, END, 11, 13);
	match(1, 0, true);
	NOTHING(0);
	assert_int_equal(counters(0)->sets_dropped.value, 2);
	close_readers();
}

static void readers_come_in_group_order(void **state)
{
	void *list[8];
	struct apus_dp_select all = {0};

	(void)state;
	open_readers(&group);
	say(1, 1, "BLUE", 0, 0, 0, 2); /* overtook its publisher's first */
	say(0, 1, "RED", 0, 0, 0, 1);
	say(0, 2, "RED", 0, 0, 0, 3);
	apus_dp_worker_take_turn(p.b.worker);
	assert_int_equal(apus_dp_group_list(&sub, &all, p.now, list, 8), 3);
	assert_ptr_equal(list[0], &reader[0]);
	assert_ptr_equal(list[1], &reader[1]);
	assert_ptr_equal(list[2], &reader[0]);
	assert_int_equal(apus_dp_group_list(&sub, &all, p.now, list, 2), 2);
	sub.ordered_access = false;
	assert_int_equal(apus_dp_group_list(&sub, &all, p.now, list, 8), 2);
	apus_dp_worker_end_turn(p.b.worker);
	close_readers();
}

static void the_view_is_frozen_between_begin_and_end(void **state)
{
	(void)state;
	open_readers(&group);
	say(0, 1, "RED", 0, 0, 0, 1);
	sub.access_depth = 1;
	sub.frozen = sub.stamp;
	say(1, 1, "BLUE", 0, 0, 0, 2);
	NOTHING(1);
	assert_false(apus_dp_reader_available(reader[1], p.now));
	EXPECT(0, 1);
	sub.access_depth = 0;
	apus_dp_group_thaw(&sub, p.now);
	EXPECT(1, 1);
	close_readers();
}

/* A reader that did not ask for sets is not bothered with them. */
static void others_ignore_sets(void **state)
{
	(void)state;
	open_readers(&(struct setting){.scope = APUS_SCOPE_GROUP, .reliable = true, .plain = true});
	say(0, 1, "RED", 0, 1, 1, 1);
	say(0, 2, NULL, 0, END, 1, 2);
	EXPECT(0, 1);
	NOTHING(0);
	assert_int_equal(counters(0)->results[APUS_DP_MALFORMED], 0);
	say(0, 3, "RED", 0, 0, 0, 3);
	EXPECT(0, 3);
	close_readers();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_set_comes_whole),
		cmocka_unit_test(order_is_restored_first),
		cmocka_unit_test(an_incomplete_set_is_dropped),
		cmocka_unit_test(best_effort_drops_what_loss_has_torn),
		cmocka_unit_test(sets_are_charged_to_the_limits),
		cmocka_unit_test(keep_last_applies_at_the_end),
		cmocka_unit_test(a_departure_drops_an_open_set),
		cmocka_unit_test(a_group_set_waits_for_all_writers),
		cmocka_unit_test(a_group_set_breaks_as_a_whole),
		cmocka_unit_test(readers_come_in_group_order),
		cmocka_unit_test(the_view_is_frozen_between_begin_and_end),
		cmocka_unit_test(others_ignore_sets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
