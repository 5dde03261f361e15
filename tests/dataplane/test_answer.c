/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: requests for samples are answered after the response delay, merged, and by multicast when enough readers of
 * a group ask for the same; what has just been sent again is not sent once more.
 * Method: a writer of wire_pair.h with a snapshot built by hand; the test sends the readers' ACKNACKs, lets injected
 * time pass, and compares each DATA and HEARTBEAT with where it went.
 */
#include "dataplane/writer_internal.h"
#include "wire_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS APUS_NS_PER_MS
#define US APUS_NS_PER_US

#define READERS    3
#define GROUP_PORT 7401
#define SAMPLES    8

static struct wire_pair pair;
static struct wire_endpoints ends;
static const uint8_t group_ip[4] = {239, 255, 0, 1}, ip[4] = {127, 0, 0, 1};
static uint32_t ack_counts[READERS];
static struct apus_dp_addr from; /* where ACKNACKs come from */

struct setup {
	int64_t delay_ns, group_delay_ns, suppression_ns;
	uint32_t group_readers;
	bool grouped;
	uint16_t vendor; /* of the readers; 0: no known one */
	uint32_t payload_bytes;
	uint64_t secret; /* readers have to prove themselves, and have not yet */
	bool moved;      /* the last reader is elsewhere */
};

static struct apus_guid guid_of(uint32_t reader, uint16_t vendor)
{
	struct apus_guid g;

	memset(g.bytes, (int)(0xc0 + reader), sizeof(g.bytes));
	if (vendor) {
		g.bytes[0] = (uint8_t)(vendor >> 8);
		g.bytes[1] = (uint8_t)vendor;
	}
	return g;
}

static void publish(uint32_t count, const struct setup *o)
{
	struct apus_dp_writer_snapshot *s = calloc(1, sizeof(*s) + count * sizeof(s->match[0]));
	uint64_t retired;

	assert_non_null(s);
	s->generation = ++ends.generation;
	s->match_count = count;
	for (uint32_t i = 0; i < count; i++) {
		struct apus_dp_reader_match *m = &s->match[i];

		m->guid = guid_of(i, o->vendor);
		m->match_id = 1 + i;
		m->reliable = true;
		m->unicast = apus_dp_addr_v4(
			ip, (uint16_t)(100 + i + (o->moved && i + 1 == count ? 50 : 0)));
		if (o->grouped)
			m->multicast = apus_dp_addr_v4(group_ip, GROUP_PORT);
	}
	apus_dp_writer_publish(&pair.epoch, &ends.writer->port, s, &retired);
	wire_run(&pair, MS);
	free(ends.writer_snapshot);
	ends.writer_snapshot = s;
}

/* An ACKNACK of a reader: everything before `base` acknowledged, the listed numbers (0 ends them) asked for. */
static void request(uint32_t reader, apus_seq base, const apus_seq *wanted)
{
	struct apus_wire_acknack a = {
		.set = {.base = base}, .count = ++ack_counts[reader], .final = true};

	for (; wanted && *wanted; wanted++)
		assert_true(apus_wire_seqset_add(&a.set, *wanted));
	apus_dp_worker_take_turn(pair.a.worker);
	assert_true(apus_dp_writer_acknack(ends.writer, &ends.writer_snapshot->match[reader].guid,
					   &a, from.family ? &from : NULL, pair.now) &
		    APUS_DP_ANSWER_MATCHED);
	apus_dp_worker_end_turn(pair.a.worker);
}

#define REQUEST(reader, base, ...) request(reader, base, (const apus_seq[]){__VA_ARGS__, 0})

static void open_writer(const struct setup *o)
{
	struct wire_options options = {.reliable = true, .keep_all = true, .max_samples = 64};
	struct apus_dp_worker_config *c;

	memset(ack_counts, 0, sizeof(ack_counts));
	memset(&from, 0, sizeof(from));
	options.proof_secret = o->secret;
	wire_pair_init(&pair, 5);
	c = &pair.a.worker->config;
	c->nack_delay_ns = o->delay_ns;
	c->nack_group_delay_ns = o->group_delay_ns;
	c->nack_group_readers = o->group_readers;
	c->nack_suppression_ns = o->suppression_ns;
	wire_endpoints_init(&pair, &ends, &options);
	publish(READERS, o);
	for (uint32_t i = 0; !o->secret && i < READERS; i++)
		request(i, 1, NULL); /* it listens */
	for (int32_t x = 1; x <= SAMPLES; x++)
		assert_int_equal(wire_write(&pair, &ends, "RED", x, APUS_ALIVE), 0);
	wire_run(&pair, MS);
	pair.a_to_b.head = pair.a_to_b.tail;
}

static void close_writer(void)
{
	wire_endpoints_fini(&pair, &ends);
	wire_pair_fini(&pair);
}

/* What has left since the last call: "number@port" of each DATA, "gap@port"; HEARTBEATs are left out. */
static const char *sent(void)
{
	static char text[512];
	struct apus_wire_message m;
	struct apus_wire_submessage sub;
	size_t at = 0;

	text[0] = '\0';
	for (; pair.a_to_b.head != pair.a_to_b.tail; pair.a_to_b.head++) {
		const struct wire_datagram *d =
			&pair.a_to_b.ring[pair.a_to_b.head % WIRE_DATAGRAMS];

		assert_int_equal(apus_wire_open(&m, d->bytes, d->length), APUS_WIRE_ACCEPT);
		while (apus_wire_next(&m, &sub) == APUS_WIRE_ACCEPT) {
			if (sub.id == APUS_WIRE_DATA)
				at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%d@%u",
						       at ? " " : "", (int)sub.data.seq,
						       d->to.port);
			else if (sub.id == APUS_WIRE_GAP)
				at += (size_t)snprintf(text + at, sizeof(text) - at, "%sgap@%u",
						       at ? " " : "", d->to.port);
			assert_true(at < sizeof(text));
		}
	}
	return text;
}

/* Side a alone gets time, so that the datagrams stay to be looked at. */
static void pass(int64_t ns)
{
	for (int64_t t = 0; t < ns; t += 100 * US) {
		pair.now.ns += 100 * US;
		apus_dp_worker_take_turn(pair.a.worker);
		apus_dp_worker_poll(pair.a.worker, pair.now);
		apus_dp_worker_end_turn(pair.a.worker);
	}
}

/* Until the answer has left, so that what follows comes right behind it; a tick of the wheel late at most. */
static void pass_to_answer(void)
{
	for (int i = 0; i < 12 && pair.a_to_b.head == pair.a_to_b.tail; i++)
		pass(100 * US);
}

static struct apus_dp_writer_state *state_of(uint32_t reader)
{
	return apus_dp_writer_find_state(ends.writer, &ends.writer_snapshot->match[reader].guid);
}

static uint64_t suppressed(void)
{
	return apus_counter_get(&ends.writer->counters.suppressed);
}

static uint64_t group_repairs(void)
{
	return apus_counter_get(&ends.writer->counters.group_repairs);
}

/* --- one reader ----------------------------------------------------------------------------------- */

static void test_at_once(void **state)
{
	static const struct setup o = {.suppression_ns = 500 * US};

	(void)state;
	open_writer(&o);
	REQUEST(0, 2, 3, 5);
	assert_string_equal(sent(), "3@100 5@100");
	/* It has crossed with the answer. */
	REQUEST(0, 2, 3, 5);
	assert_string_equal(sent(), "");
	assert_int_equal(suppressed(), 2);
	pass(500 * US);
	REQUEST(0, 2, 3, 5);
	assert_string_equal(sent(), "3@100 5@100");
	close_writer();
}

static void test_no_suppression(void **state)
{
	static const struct setup o = {0};

	(void)state;
	open_writer(&o);
	REQUEST(0, 2, 3);
	REQUEST(0, 2, 3);
	assert_string_equal(sent(), "3@100 3@100");
	assert_int_equal(suppressed(), 0);
	close_writer();
}

static void test_delay(void **state)
{
	static const struct setup o = {.delay_ns = 10 * MS, .suppression_ns = 500 * US};

	(void)state;
	open_writer(&o);
	REQUEST(0, 2, 3, 5);
	pass(5 * MS);
	assert_string_equal(sent(), "");
	/* Number 3 has come meanwhile, 6 lacks as well; another reader asks, too. */
	REQUEST(0, 4, 6);
	REQUEST(1, 2, 2);
	pass(4900 * US);
	assert_string_equal(sent(), "");
	/* Never early: all that waits, in one answer. */
	pass_to_answer();
	assert_string_equal(sent(), "5@100 6@100 2@101");
	/* Crossed with that: taken off when it comes, not when its own delay has passed. */
	REQUEST(0, 4, 5);
	assert_int_equal(suppressed(), 1);
	pass(20 * MS);
	assert_string_equal(sent(), "");
	close_writer();
}

/* What is acknowledged while it waits is not sent, and nothing at all if that was everything. */
static void test_acknowledged_meanwhile(void **state)
{
	static const struct setup o = {.delay_ns = 10 * MS};

	(void)state;
	open_writer(&o);
	REQUEST(0, 2, 3);
	pass(5 * MS);
	request(0, SAMPLES + 1, NULL);
	pass(10 * MS);
	assert_string_equal(sent(), "");
	close_writer();
}

/* The reader, or the writer, is gone when the delay is over. */
static void test_gone_meanwhile(void **state)
{
	static const struct setup o = {.delay_ns = 10 * MS};

	(void)state;
	open_writer(&o);
	REQUEST(0, 2, 3);
	REQUEST(2, 2, 4);
	pass(5 * MS);
	publish(1, &o); /* the third is no longer matched */
	pass(10 * MS);
	assert_string_equal(sent(), "3@100");
	REQUEST(0, 2, 3);
	close_writer(); /* its timer goes with it */
}

/* Numbers that were never written, and 256 of them, change nothing. */
static void test_nonsense(void **state)
{
	static const struct setup o = {
		.group_delay_ns = 5 * MS, .group_readers = 2, .grouped = true};
	struct apus_wire_acknack a = {.set = {.base = 1, .num_bits = 256}, .final = true};

	(void)state;
	open_writer(&o);
	memset(a.set.bitmap, 0xff, sizeof(a.set.bitmap));
	request(2, SAMPLES + 1, NULL);
	for (uint32_t i = 0; i < 2; i++) {
		a.count = ++ack_counts[i];
		a.set.base = SAMPLES - 1; /* of 256 numbers two exist */
		apus_dp_worker_take_turn(pair.a.worker);
		apus_dp_writer_acknack(ends.writer, &ends.writer_snapshot->match[i].guid, &a, NULL,
				       pair.now);
		apus_dp_worker_end_turn(pair.a.worker);
	}
	pass(7 * MS);
	assert_string_equal(sent(), "7@7401 8@7401");
	/* Lower than before: what a reader that has begun anew says counts as it is. */
	REQUEST(0, 1, 1);
	REQUEST(1, 1, 1);
	pass(7 * MS);
	assert_string_equal(sent(), "gap@100 gap@101");
	close_writer();
}

/* --- groups --------------------------------------------------------------------------------------- */

static const struct setup grouped = {
	.group_delay_ns = 2 * MS, .suppression_ns = 500 * US, .group_readers = 2, .grouped = true};

static void test_group(void **state)
{
	(void)state;
	open_writer(&grouped);
	REQUEST(0, 2, 2, 3);
	pass(500 * US);
	REQUEST(1, 3, 3, 4);
	assert_string_equal(sent(), "");
	pass(1400 * US);
	assert_string_equal(sent(), "");
	pass_to_answer();
	assert_string_equal(sent(), "3@7401 2@100 4@101");
	assert_int_equal(group_repairs(), 1);
	close_writer();
}

/* A third reader lacks it, too, and says so a little late; and once more, when it has not come. */
static void test_group_suppression(void **state)
{
	(void)state;
	open_writer(&grouped);
	REQUEST(0, 3, 3);
	REQUEST(1, 3, 3);
	pass(1900 * US);
	assert_string_equal(sent(), "");
	pass_to_answer();
	assert_string_equal(sent(), "3@7401");
	pass(300 * US);
	REQUEST(2, 3, 3);
	assert_int_equal(suppressed(), 1);
	pass(4 * MS);
	assert_string_equal(sent(), "");
	REQUEST(2, 3, 3);
	pass(4 * MS);
	assert_string_equal(sent(), "3@102");
	close_writer();
}

static void test_too_few(void **state)
{
	struct setup o = grouped;

	(void)state;
	o.group_readers = 3;
	open_writer(&o);
	REQUEST(0, 3, 3);
	REQUEST(1, 3, 3);
	pass(4 * MS);
	assert_string_equal(sent(), "3@100 3@101");
	pass(MS);
	REQUEST(0, 3, 3);
	REQUEST(1, 3, 3);
	REQUEST(2, 3, 3);
	pass(4 * MS);
	assert_string_equal(sent(), "3@7401");
	close_writer();
}

/* 0 readers: never, and then nothing waits for others. */
static void test_group_off(void **state)
{
	struct setup o = grouped;

	(void)state;
	o.group_readers = 0;
	open_writer(&o);
	REQUEST(0, 3, 3);
	REQUEST(1, 3, 3);
	assert_string_equal(sent(), "3@100 3@101");
	close_writer();
}

/* A reader of the group came later: it is not to hear samples from before its time. */
static void test_group_of_different_age(void **state)
{
	(void)state;
	open_writer(&grouped);
	ends.writer->states[2].relevant = 5;
	REQUEST(0, 3, 3, 6);
	REQUEST(1, 3, 3, 6);
	pass(4 * MS);
	assert_string_equal(sent(), "6@7401 3@100 3@101");
	close_writer();
}

/* Cyclone DDS readers ask again late: copies go to the group as well, in other datagrams. */
static void test_group_of_late_askers(void **state)
{
	struct setup o = grouped;

	(void)state;
	o.vendor = 0x0110;
	open_writer(&o);
	REQUEST(0, 3, 3);
	REQUEST(1, 3, 3);
	pass(4 * MS);
	assert_string_equal(sent(), "3@7401 3@7401 3@7401 3@7401");
	assert_int_equal(group_repairs(), 1);
	close_writer();
}

/* The most cautious reader's budget holds; what is beyond it is asked for again, and not sent aside. */
static void test_group_budget(void **state)
{
	(void)state;
	open_writer(&grouped);
	ends.writer->states[1].push_bytes = 300;
	REQUEST(0, 2, 2, 3, 4, 5, 6, 7);
	REQUEST(1, 2, 2, 3, 4, 5, 6, 7);
	pass(4 * MS);
	assert_string_equal(sent(), "2@7401 3@7401 4@7401 5@7401");
	close_writer();
}

/* The group is no more when the delay is over: each gets its own. */
static void test_group_dissolved(void **state)
{
	struct setup o = grouped;

	(void)state;
	open_writer(&o);
	REQUEST(0, 3, 3);
	REQUEST(1, 3, 3);
	o.grouped = false;
	publish(READERS, &o);
	pass(4 * MS);
	assert_string_equal(sent(), "3@100 3@101");
	close_writer();
}

/* Each request is one for the group; a delay of all is longer than the group's; what waits is less than its share. */
static void test_odd_settings(void **state)
{
	struct setup o = grouped;

	(void)state;
	o.group_readers = 1;
	open_writer(&o);
	REQUEST(0, 2, 2, 3);
	assert_string_equal(sent(), "");
	pass(4 * MS);
	assert_string_equal(sent(), "2@7401 3@7401");
	close_writer();

	o.group_readers = 65536;
	open_writer(&o);
	REQUEST(0, 3, 3);
	REQUEST(1, 3, 3);
	REQUEST(2, 3, 3);
	pass(4 * MS);
	assert_string_equal(sent(), "3@100 3@101 3@102");
	close_writer();

	o.group_readers = 2;
	o.delay_ns = 10 * MS;
	open_writer(&o);
	REQUEST(0, 3, 3);
	REQUEST(1, 3, 3);
	pass(9 * MS);
	assert_string_equal(sent(), "");
	pass(3 * MS);
	assert_string_equal(sent(), "3@7401");
	close_writer();

	/* No delay: nobody is waited for. */
	o.delay_ns = o.group_delay_ns = 0;
	open_writer(&o);
	REQUEST(0, 3, 3);
	REQUEST(1, 3, 3);
	assert_string_equal(sent(), "3@100 3@101");
	close_writer();

	/* The longest: all within the second is taken off, and then it is there for the asking. */
	o = grouped;
	o.suppression_ns = APUS_NS_PER_SEC;
	o.delay_ns = o.group_delay_ns = APUS_NS_PER_SEC;
	open_writer(&o);
	REQUEST(0, 3, 3);
	pass(500 * MS);
	REQUEST(1, 3, 3);
	pass(490 * MS);
	assert_string_equal(sent(), "");
	pass(20 * MS);
	assert_string_equal(sent(), "3@7401");
	for (int i = 0; i < 9; i++) {
		REQUEST(2, 3, 3);
		pass(100 * MS);
	}
	assert_string_equal(sent(), "");
	assert_int_equal(suppressed(), 9);
	pass(200 * MS);
	REQUEST(2, 3, 3);
	pass(1010 * MS);
	assert_string_equal(sent(), "3@102");
	close_writer();
}

/* Readers that announce a group have to prove their own addresses; until all have, nothing goes to the group,
 * whatever is asked for in the name of whom, and from where. */
static void test_group_unproved(void **state)
{
	static const uint8_t elsewhere[4] = {127, 0, 0, 9};
	struct setup o = grouped;
	struct apus_dp_writer *w;
	apus_seq first;

	(void)state;
	o.secret = UINT64_C(0x123456789abcdef1);
	open_writer(&o);
	w = ends.writer;
	first = w->first;
	for (uint32_t i = 0; i < READERS; i++)
		assert_true(apus_dp_writer_unproved(w, state_of(i)));
	/* Forged, with numbers that anybody can guess who has seen one sample. */
	from = apus_dp_addr_v4(elsewhere, 100);
	for (uint32_t i = 0; i < READERS; i++)
		REQUEST(i, first, first, first + 1, first + 2);
	pass(4 * MS);
	assert_string_equal(sent(), "");
	/* Two prove themselves. */
	request(0, state_of(0)->challenge + 1, NULL);
	request(1, state_of(1)->challenge + 1, NULL);
	assert_false(apus_dp_writer_unproved(w, state_of(0)));
	assert_false(apus_dp_writer_unproved(w, state_of(1)));
	assert_true(apus_dp_writer_unproved(w, state_of(2)));
	assert_int_equal(wire_write(&pair, &ends, "RED", 100, APUS_ALIVE), 0);
	pass(MS);
	(void)sent();
	for (uint32_t i = 0; i < READERS; i++)
		REQUEST(i, w->last, w->last);
	pass(4 * MS);
	assert_null(strstr(sent(), "@7401"));
	assert_int_equal(group_repairs(), 0);
	/* The last one as well. */
	request(2, state_of(2)->challenge + 1, NULL);
	assert_false(apus_dp_writer_unproved(w, state_of(2)));
	assert_int_equal(wire_write(&pair, &ends, "RED", 101, APUS_ALIVE), 0);
	pass(MS);
	(void)sent();
	REQUEST(0, w->last, w->last);
	REQUEST(2, w->last, w->last);
	pass(4 * MS);
	assert_non_null(strstr(sent(), "@7401"));
	assert_int_equal(group_repairs(), 1);
	/* One that moves is asked again: the group is off until it has answered. */
	o.moved = true;
	publish(READERS, &o);
	assert_true(apus_dp_writer_unproved(w, state_of(2)));
	(void)sent();
	REQUEST(0, w->last, w->last);
	REQUEST(2, w->last, w->last);
	pass(4 * MS);
	assert_null(strstr(sent(), "@7401"));
	close_writer();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_at_once),
		cmocka_unit_test(test_no_suppression),
		cmocka_unit_test(test_delay),
		cmocka_unit_test(test_acknowledged_meanwhile),
		cmocka_unit_test(test_gone_meanwhile),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_group),
		cmocka_unit_test(test_group_suppression),
		cmocka_unit_test(test_too_few),
		cmocka_unit_test(test_group_off),
		cmocka_unit_test(test_group_of_different_age),
		cmocka_unit_test(test_group_of_late_askers),
		cmocka_unit_test(test_group_budget),
		cmocka_unit_test(test_group_dissolved),
		cmocka_unit_test(test_odd_settings),
		cmocka_unit_test(test_group_unproved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
