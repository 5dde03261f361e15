/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: discovery announces when it should, believes only what a participant may say, forgets whom it no
 * longer hears, answers newcomers within bounds, and amplifies nothing.
 * Method: the state machine runs on invented time; its ops record what it asks for. A small network of
 * three instances with lost, repeated and shuffled messages must converge on one graph.
 */
#include "control/discovery.h"
#include "dataplane/heard.h"
#include "tests/control/graph_fixture.h"

#define MS      APUS_NS_PER_MS
#define SEC     APUS_NS_PER_SEC
#define LOG_MAX 4096

/* What discovery asked for. */
struct sent {
	struct apus_dp_addr to; /* announcements */
	struct apus_eid writer; /* writes */
	struct apus_guid key;
	size_t bytes;
	bool gone;
};

struct world {
	struct apus_ctl_graph *graph;
	struct apus_ctl_discovery *d;
	struct sent log[LOG_MAX];
	uint32_t count;
	struct apus_mono traffic_at; /* what discovery is told of participant 1 */
	int write_result;
	uint32_t request_count; /* for what had been refused; and the latest */
	struct apus_guid requested;
	apus_seq requested_from;
	uint32_t greeted; /* participant 1's readers */
	uint8_t last[APUS_WIRE_RECORD_PAYLOAD_MAX];
};

static struct apus_mono at(int64_t ns)
{
	return (struct apus_mono){SEC + ns};
}

static void record_announcement(void *user, const struct apus_dp_addr *to,
				const struct apus_guid *key, const uint8_t *payload, size_t bytes,
				bool gone)
{
	struct world *w = user;

	assert_true(w->count < LOG_MAX && bytes <= sizeof(w->last));
	memcpy(w->last, payload, bytes);
	w->log[w->count++] = (struct sent){.to = *to, .key = *key, .bytes = bytes, .gone = gone};
}

static int record_write(void *user, struct apus_eid writer, const struct apus_guid *key,
			const uint8_t *payload, size_t bytes, bool gone)
{
	struct world *w = user;

	if (w->write_result)
		return w->write_result;
	assert_true(w->count < LOG_MAX && bytes <= sizeof(w->last));
	memcpy(w->last, payload, bytes);
	w->log[w->count++] =
		(struct sent){.writer = writer, .key = *key, .bytes = bytes, .gone = gone};
	return 0;
}

static void record_request(void *user, const struct apus_guid *writer, apus_seq from)
{
	struct world *w = user;

	w->request_count++;
	w->requested = *writer;
	w->requested_from = from;
}

/* When samples or acknowledgements of participant 1 were heard last. */
static struct apus_mono traffic(void *user, const struct apus_prefix *participant)
{
	const struct world *w = user;
	struct apus_prefix one = fixture_prefix(1);

	return apus_prefix_equal(participant, &one) ? w->traffic_at : (struct apus_mono){0};
}

static void record_greeting(void *user, const struct apus_prefix *participant)
{
	struct world *w = user;
	struct apus_prefix one = fixture_prefix(1);

	assert_true(apus_prefix_equal(participant, &one));
	w->greeted++;
}

static struct apus_dp_addr group(void)
{
	return apus_dp_addr_v4((uint8_t[]){239, 255, 0, 1}, 7400);
}

static struct apus_dp_addr loopback(uint16_t port)
{
	return apus_dp_addr_v4((uint8_t[]){127, 0, 0, 1}, port);
}

static void open_world_as(struct world *w, uint32_t self, bool multicast,
			  const struct apus_dp_addr *peers, uint32_t peer_count)
{
	struct apus_ctl_graph_config gc = fixture_config();
	struct apus_wire_participant_record record = fixture_participant(self);
	struct apus_ctl_discovery_ops ops = {record_announcement, record_write,
					     record_request,      w,
					     .heard = traffic,    .greet = record_greeting};
	struct apus_ctl_discovery_config dc = {.announce_period_ns = 3 * SEC,
					       .burst_period_ns = 100 * MS,
					       .burst_count = 3,
					       .peers = peers,
					       .peer_count = peer_count,
					       .seed = 7 + self};

	memset(w, 0, sizeof(*w));
	if (multicast)
		dc.multicast = group();
	gc.prefix = fixture_prefix(self);
	gc.participants = 64;
	assert_int_equal(apus_ctl_graph_create(&gc, &record, &w->graph), 0);
	assert_int_equal(apus_ctl_discovery_create(&dc, &ops, w->graph, &record, at(0), &w->d), 0);
}

static void open_world(struct world *w, bool multicast)
{
	open_world_as(w, 0, multicast, NULL, 0);
}

static void close_world(struct world *w)
{
	apus_ctl_discovery_destroy(w->d);
	apus_ctl_graph_destroy(w->graph);
}

static uint32_t sent_to(const struct world *w, struct apus_dp_addr to)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->count; i++)
		n += apus_dp_addr_equal(&w->log[i].to, &to);
	return n;
}

static int heard(struct apus_ctl_discovery *d, const struct apus_wire_participant_record *r,
		 const struct apus_prefix *source, const struct apus_dp_addr *from, uint32_t bytes,
		 struct apus_mono now)
{
	struct apus_ctl_heard h = {
		.source = *source, .from = *from, .bytes = bytes, .stamp = APUS_WALL_NONE};

	return apus_ctl_discovery_on_participant(d, r, &h, now);
}

/* Participant n announces itself in a datagram of `bytes`. */
static int hear_bytes(struct world *w, uint32_t n, bool multicast, size_t bytes,
		      struct apus_mono now)
{
	struct apus_wire_participant_record r = fixture_participant(n);
	struct apus_dp_addr from = loopback((uint16_t)(7410 + 2 * n));

	if (multicast) {
		r.metatraffic_multicast.count = 1;
		r.metatraffic_multicast.at[0] = fixture_locator(239, 255, 0, 1, 7400);
	}
	return heard(w->d, &r, &r.prefix, &from, bytes, now);
}

static int hear(struct world *w, uint32_t n, struct apus_mono now)
{
	return hear_bytes(w, n, false, 400, now);
}

static bool knows(const struct world *w, uint32_t n)
{
	struct apus_prefix prefix = fixture_prefix(n);

	return apus_ctl_graph_participant(w->graph, &prefix) != NULL;
}

/* ---- announcing --------------------------------------------------------------------------------- */

static void announcements_burst_and_then_keep_their_period(void **state)
{
	struct world w;
	struct apus_mono due;

	(void)state;
	open_world(&w, true);
	due = apus_ctl_discovery_turn(w.d, at(0));
	assert_int_equal(w.count, 1);
	assert_int_equal(due.ns, at(100 * MS).ns);
	due = apus_ctl_discovery_turn(w.d, at(99 * MS)); /* too early */
	assert_int_equal(w.count, 1);
	due = apus_ctl_discovery_turn(w.d, at(100 * MS));
	assert_int_equal(due.ns, at(200 * MS).ns);
	due = apus_ctl_discovery_turn(w.d, at(200 * MS));
	assert_int_equal(w.count, 3);
	assert_int_equal(due.ns, at(3200 * MS).ns);
	/* Held up for a minute: one announcement, not twenty. */
	due = apus_ctl_discovery_turn(w.d, at(63 * SEC));
	assert_int_equal(w.count, 4);
	assert_int_equal(due.ns, at(66 * SEC).ns);
	assert_int_equal(sent_to(&w, group()), 4);
	close_world(&w);
}

static void every_cycle_sends_the_same_bytes(void **state)
{
	struct apus_wire_participant_record decoded;
	struct apus_prefix own = fixture_prefix(0);
	uint8_t first[1024];
	struct world w;

	(void)state;
	open_world(&w, true);
	apus_ctl_discovery_turn(w.d, at(0));
	assert_true(w.log[0].bytes <= sizeof(first));
	memcpy(first, w.last, w.log[0].bytes);
	assert_int_equal(apus_wire_participant_decode(first, w.log[0].bytes, &decoded),
			 APUS_WIRE_ACCEPT);
	assert_true(apus_prefix_equal(&decoded.prefix, &own));
	apus_ctl_discovery_turn(w.d, at(10 * SEC));
	assert_int_equal(w.log[1].bytes, w.log[0].bytes);
	assert_memory_equal(first, w.last, w.log[0].bytes);
	close_world(&w);
}

static void configured_peers_get_every_cycle(void **state)
{
	const struct apus_dp_addr peers[] = {loopback(7412), loopback(7414)};
	struct apus_prefix one = fixture_prefix(1);
	struct world w;

	(void)state;
	open_world_as(&w, 0, false, peers, 2);
	apus_ctl_discovery_turn(w.d, at(0));
	assert_int_equal(sent_to(&w, peers[0]), 1);
	assert_int_equal(sent_to(&w, peers[1]), 1);
	/* Participant 1 is at 7412: it is not sent to twice in a cycle. */
	hear(&w, 1, at(50 * MS));
	apus_ctl_discovery_on_evidence(w.d, &one, 0, true, at(51 * MS));
	apus_ctl_discovery_turn(w.d, at(100 * MS));
	assert_int_equal(sent_to(&w, peers[0]), 2);
	apus_ctl_discovery_depart(w.d);
	assert_int_equal(sent_to(&w, peers[0]), 3);
	assert_int_equal(w.count, 6);
	assert_true(w.log[5].gone);
	close_world(&w);
}

static void whom_multicast_misses_is_sent_to_directly(void **state)
{
	struct apus_prefix one = fixture_prefix(1), two = fixture_prefix(2);
	struct world w;

	(void)state;
	open_world(&w, true);
	hear_bytes(&w, 1, true, 400, at(0));
	hear_bytes(&w, 2, false, 400, at(0));
	apus_ctl_discovery_on_evidence(w.d, &one, 0, true, at(1));
	apus_ctl_discovery_on_evidence(w.d, &two, 0, true, at(1));
	apus_ctl_discovery_turn(w.d, at(1));
	assert_int_equal(sent_to(&w, group()), 1);
	assert_int_equal(sent_to(&w, loopback(7412)), 0);
	assert_int_equal(sent_to(&w, loopback(7414)), 1);
	close_world(&w);
}

/* ---- answering ---------------------------------------------------------------------------------- */

/* Past the start burst, so that only answers are left to see. */
static void settle(struct world *w)
{
	apus_ctl_discovery_turn(w->d, at(0));
	apus_ctl_discovery_turn(w->d, at(100 * MS));
	apus_ctl_discovery_turn(w->d, at(200 * MS));
	w->count = 0;
}

static void a_newcomer_is_answered_soon_and_until_it_knows_us(void **state)
{
	struct apus_prefix one = fixture_prefix(1);
	struct apus_mono due;
	struct world w;

	(void)state;
	open_world(&w, false);
	settle(&w);
	assert_int_equal(hear(&w, 1, at(SEC)), APUS_CTL_ADMITTED);
	due = apus_ctl_discovery_turn(w.d, at(SEC));
	assert_int_equal(w.count, 0);
	assert_true(due.ns > at(SEC).ns && due.ns <= at(SEC + 10 * MS).ns);
	apus_ctl_discovery_turn(w.d, due);
	assert_int_equal(sent_to(&w, loopback(7412)), 1);
	/* It repeats itself without having noticed us: answered again. */
	assert_int_equal(hear(&w, 1, at(1500 * MS)), APUS_CTL_UNCHANGED);
	apus_ctl_discovery_turn(w.d, at(1600 * MS));
	assert_int_equal(sent_to(&w, loopback(7412)), 2);
	assert_false(apus_ctl_discovery_proved(w.d, apus_ctl_graph_participant(w.graph, &one)));
	apus_ctl_discovery_on_evidence(w.d, &one, 0, true, at(1700 * MS));
	assert_true(apus_ctl_discovery_proved(w.d, apus_ctl_graph_participant(w.graph, &one)));
	hear(&w, 1, at(1800 * MS));
	apus_ctl_discovery_turn(w.d, at(1900 * MS));
	assert_int_equal(w.count, 2);
	close_world(&w);
}

static void many_newcomers_share_one_multicast_answer(void **state)
{
	struct world w;

	(void)state;
	open_world(&w, true);
	settle(&w);
	for (uint32_t n = 1; n <= 40; n++)
		hear_bytes(&w, n, true, 400, at(SEC));
	apus_ctl_discovery_turn(w.d, at(SEC + 10 * MS));
	assert_int_equal(w.count, 1);
	assert_int_equal(sent_to(&w, group()), 1);
	close_world(&w);
}

static void answers_are_spread_where_multicast_is_off(void **state)
{
	struct apus_mono now = at(SEC), due;
	struct world w;

	(void)state;
	open_world(&w, false);
	settle(&w);
	for (uint32_t n = 1; n <= 40; n++)
		hear(&w, n, now);
	for (int turn = 0; turn < 10 && w.count < 40; turn++) {
		uint32_t before = w.count;

		now = apus_mono_add(now, 10 * MS);
		due = apus_ctl_discovery_turn(w.d, now);
		assert_true(w.count - before <= 8);
		assert_true(w.count == 40 || due.ns <= now.ns + 10 * MS);
	}
	assert_int_equal(w.count, 40);
	close_world(&w);
}

/* Whatever an unproved address makes us send stays below three times what came from it, counting 84 bytes of
 * headers (IPv4, UDP, RTPS, INFO_TS, DATA) for each announcement. */
static void an_unproved_address_gets_less_than_three_times_its_bytes(void **state)
{
	uint64_t received = 0, sent = 0;
	struct world w;

	(void)state;
	open_world(&w, false);
	settle(&w);
	for (int i = 0; i < 200; i++) {
		size_t bytes = 20 + (size_t)(i % 7) * 10;

		hear_bytes(&w, 1, false, bytes, at(SEC + i * 400 * MS));
		received += bytes;
		apus_ctl_discovery_turn(w.d, at(SEC + i * 400 * MS + 50 * MS));
		sent = 0;
		for (uint32_t s = 0; s < w.count; s++)
			sent += w.log[s].bytes + 84;
		assert_true(sent < 3 * received);
	}
	assert_true(w.count > 10); /* but it is answered */
	assert_true(apus_counter_get(&apus_ctl_discovery_counters(w.d)->answers_withheld) > 10);
	close_world(&w);
}

static void a_new_address_has_to_prove_itself_again(void **state)
{
	struct apus_wire_participant_record r = fixture_participant(1);
	struct apus_dp_addr from = loopback(1);
	struct world w;

	(void)state;
	open_world(&w, false);
	hear(&w, 1, at(0));
	apus_ctl_discovery_on_evidence(w.d, &r.prefix, 0, true, at(1));
	r.metatraffic_unicast.at[0].port = 9999;
	assert_int_equal(heard(w.d, &r, &r.prefix, &from, 10, at(2)), APUS_CTL_CHANGED);
	assert_false(
		apus_ctl_discovery_proved(w.d, apus_ctl_graph_participant(w.graph, &r.prefix)));
	apus_ctl_discovery_turn(w.d, at(50 * MS));
	assert_int_equal(sent_to(&w, loopback(9999)), 0);
	close_world(&w);
}

static void all_traffic_counts_until_there_is_proof(void **state)
{
	struct apus_prefix one = fixture_prefix(1), two = fixture_prefix(2);
	struct world w;
	uint64_t sent = 0;

	(void)state;
	open_world(&w, false);
	settle(&w);
	hear_bytes(&w, 1, false, 500, at(0));
	/* Heartbeats and acknowledgements every 100 ms for ever: only so many leave. */
	for (int i = 0; i < 1000; i++)
		if (apus_ctl_discovery_may_send(w.d, &one, 132))
			sent += 132 + 48;
	/* They leave room for our announcement, without which they mean nothing to it. */
	assert_in_range(sent, 900, 1499);
	apus_ctl_discovery_turn(w.d, at(20 * MS));
	assert_int_equal(sent_to(&w, loopback(7412)), 1);
	/* Traffic that may be forged raises the budget by itself and no more. */
	apus_ctl_discovery_on_evidence(w.d, &one, 100, false, at(1));
	for (int i = 0; i < 1000; i++)
		if (apus_ctl_discovery_may_send(w.d, &one, 132))
			sent += 132 + 48;
	assert_in_range(sent, 1080, 1799 - 48);
	assert_true(apus_counter_get(&apus_ctl_discovery_counters(w.d)->datagrams_withheld) > 1900);
	apus_ctl_discovery_on_evidence(w.d, &one, 0, true, at(2));
	assert_true(apus_ctl_discovery_may_send(w.d, &one, 60000));
	/* Somebody who is not known gets nothing. */
	assert_false(apus_ctl_discovery_may_send(w.d, &two, 1));
	close_world(&w);
}

/* What could not be sent to a newcomer, for too little had come from it, is sent when more has: not by a timer. */
static void a_greeting_withheld_follows_the_next_announcement(void **state)
{
	struct apus_prefix one = fixture_prefix(1);
	struct world w;

	(void)state;
	open_world(&w, false);
	settle(&w);
	hear_bytes(&w, 1, false, 100, at(0));
	assert_false(apus_ctl_discovery_may_send(w.d, &one, 336));
	assert_int_equal(w.greeted, 0);
	hear_bytes(&w, 1, false, 100, at(1 * MS));
	assert_int_equal(w.greeted, 1);
	/* Once; and not if nothing was withheld, or when it has proved itself. */
	hear_bytes(&w, 1, false, 500, at(2 * MS));
	assert_int_equal(w.greeted, 1);
	assert_true(apus_ctl_discovery_may_send(w.d, &one, 336));
	hear_bytes(&w, 1, false, 100, at(3 * MS));
	assert_false(apus_ctl_discovery_may_send(w.d, &one, 60000));
	apus_ctl_discovery_on_evidence(w.d, &one, 0, true, at(4 * MS));
	hear_bytes(&w, 1, false, 100, at(5 * MS));
	assert_int_equal(w.greeted, 1);
	close_world(&w);
}

/* Knowing us is no proof: the sender of a forged record can say whatever shows that. */
static void endpoints_match_only_after_proof(void **state)
{
	struct apus_wire_participant_record self = fixture_participant(0);
	struct apus_ctl_graph_config gc = fixture_config();
	struct apus_dp_writer_port port = {NULL};
	struct apus_ctl_local local = {.writer_port = &port};
	struct apus_wire_participant_record r = fixture_participant(1);
	struct apus_wire_endpoint_record e;
	struct apus_ctl_participant *p;
	struct apus_ctl_endpoint *reader;
	struct apus_ctl_graph *g;
	struct apus_guid guid = fixture_guid(1, 5, false);

	(void)state;
	gc.prefix = fixture_prefix(0);
	gc.await_proof = true;
	gc.locators.loopback_only = false;
	assert_int_equal(apus_ctl_graph_create(&gc, &self, &g), 0);
	fixture_record(&e, 0, 1, true, "t", "T", NULL);
	assert_int_equal(apus_ctl_graph_add_endpoint(g, &e, &local, 1, NULL), APUS_CTL_ADMITTED);
	assert_int_equal(apus_ctl_graph_add_participant(g, &r, true, &p), APUS_CTL_ADMITTED);
	fixture_record(&e, 1, 5, false, "t", "T", NULL);
	assert_int_equal(apus_ctl_graph_add_endpoint(g, &e, NULL, 1, NULL), APUS_CTL_ADMITTED);
	reader = apus_ctl_graph_endpoint(g, &guid);
	assert_int_equal(apus_ctl_graph_match_count(g), 0);
	assert_int_equal(reader->unicast.family, 0);
	apus_ctl_graph_prove(g, p);
	assert_int_equal(apus_ctl_graph_match_count(g), 1);
	assert_int_equal(reader->unicast.family, AF_INET);
	/* Said to be elsewhere: the match stays, but traffic stops until that is proved. */
	r.metatraffic_unicast.at[0] = r.default_unicast.at[0] = fixture_locator(192, 0, 2, 99, 7);
	r.default_unicast.count = r.metatraffic_unicast.count = 1;
	assert_int_equal(apus_ctl_graph_add_participant(g, &r, false, &p), APUS_CTL_CHANGED);
	assert_int_equal(apus_ctl_graph_match_count(g), 1);
	assert_int_equal(reader->unicast.family, 0);
	apus_ctl_graph_prove(g, p);
	assert_int_equal(reader->unicast.ip[15], 99);
	apus_ctl_graph_destroy(g);
}

/* ---- lives -------------------------------------------------------------------------------------- */

/* Participant 1, of a vendor that keeps its stamps, announces itself. */
static int announce_life(struct world *w, apus_seq seq, int64_t stamp_s, struct apus_mono now)
{
	struct apus_wire_participant_record r = fixture_participant(1);
	struct apus_ctl_heard h = {.source = r.prefix,
				   .from = loopback(7412),
				   .bytes = 400,
				   .seq = seq,
				   .stamp = {stamp_s * SEC}};

	r.vendor = 0x010f;
	return apus_ctl_discovery_on_participant(w->d, &r, &h, now);
}

static uint32_t endpoints_of(struct world *w)
{
	struct apus_prefix one = fixture_prefix(1);

	return apus_ctl_graph_participant(w->graph, &one)->endpoint_count;
}

static void announce_endpoint(struct world *w)
{
	struct apus_prefix one = fixture_prefix(1);
	struct apus_wire_endpoint_record e;

	fixture_record(&e, 1, 5, true, "t", "T", NULL);
	assert_int_equal(apus_ctl_discovery_on_endpoint(w->d, &e, &one, 1, at(0)),
			 APUS_CTL_ADMITTED);
}

static void a_restart_under_the_same_prefix_is_recognised(void **state)
{
	const struct apus_ctl_discovery_counters *c;
	struct world w;

	(void)state;
	open_world(&w, false);
	c = apus_ctl_discovery_counters(w.d);
	assert_int_equal(announce_life(&w, 1, 100, at(0)), APUS_CTL_ADMITTED);
	announce_endpoint(&w);
	/* Repetitions and changes of one life. */
	assert_int_equal(announce_life(&w, 1, 100, at(SEC)), APUS_CTL_UNCHANGED);
	assert_int_equal(announce_life(&w, 2, 101, at(SEC)), APUS_CTL_UNCHANGED);
	assert_int_equal(endpoints_of(&w), 1);
	/* An older announcement overtaken on the way. */
	assert_int_equal(announce_life(&w, 1, 100, at(SEC)), APUS_ENOENT);
	assert_int_equal(endpoints_of(&w), 1);
	assert_int_equal(apus_counter_get(&c->outdated), 1);
	/* The next life begins to count again; what the old one had is gone. */
	assert_int_equal(announce_life(&w, 1, 200, at(2 * SEC)), APUS_CTL_ADMITTED);
	assert_int_equal(endpoints_of(&w), 0);
	assert_int_equal(apus_counter_get(&c->restarted), 1);
	announce_endpoint(&w);
	/* A straggler of the old life does not bring it back. */
	assert_int_equal(announce_life(&w, 2, 101, at(2 * SEC)), APUS_ENOENT);
	assert_int_equal(announce_life(&w, 2, 101, at(2 * SEC + 400 * MS)), APUS_ENOENT);
	assert_int_equal(announce_life(&w, 1, 200, at(2 * SEC + 450 * MS)), APUS_CTL_UNCHANGED);
	assert_int_equal(announce_life(&w, 2, 101, at(3 * SEC)), APUS_ENOENT);
	assert_int_equal(endpoints_of(&w), 1);
	/* But a clock set back before the restart is no hindrance for long. */
	assert_int_equal(announce_life(&w, 1, 50, at(4 * SEC)), APUS_ENOENT);
	assert_int_equal(announce_life(&w, 1, 50, at(4 * SEC + 500 * MS)), APUS_CTL_ADMITTED);
	assert_int_equal(endpoints_of(&w), 0);
	assert_int_equal(apus_counter_get(&c->restarted), 2);
	close_world(&w);
}

static void vendors_that_may_stamp_repetitions_are_believed(void **state)
{
	struct apus_wire_participant_record r = fixture_participant(1);
	struct apus_ctl_heard h = {
		.source = r.prefix, .from = loopback(7412), .bytes = 400, .seq = 1};
	struct world w;

	(void)state;
	open_world(&w, false);
	r.vendor = 0x0101;
	for (int i = 0; i < 5; i++) {
		h.stamp.ns = (100 + i) * SEC;
		assert_int_equal(apus_ctl_discovery_on_participant(w.d, &r, &h, at(i * SEC)),
				 i ? APUS_CTL_UNCHANGED : APUS_CTL_ADMITTED);
	}
	assert_int_equal(apus_counter_get(&apus_ctl_discovery_counters(w.d)->restarted), 0);
	close_world(&w);
}

/* ---- believing ---------------------------------------------------------------------------------- */

static void only_its_own_word_counts(void **state)
{
	const struct apus_ctl_discovery_counters *c;
	struct apus_prefix one = fixture_prefix(1), two = fixture_prefix(2),
			   own = fixture_prefix(0);
	struct apus_guid guid = fixture_guid(1, 5, true);
	struct apus_guid builtin = apus_guid_make(&one, (struct apus_eid){0x3c2});
	struct apus_wire_participant_record r = fixture_participant(1);
	struct apus_wire_endpoint_record e;
	struct apus_dp_addr from = loopback(1);
	struct apus_ctl_local none = {0};
	struct world w;

	(void)state;
	open_world(&w, false);
	c = apus_ctl_discovery_counters(w.d);
	apus_ctl_graph_add_builtin(w.graph, (struct apus_eid){0x3c7}, &none, NULL);
	fixture_record(&e, 1, 5, true, "t", "T", NULL);
	assert_int_equal(heard(w.d, &r, &two, &from, 400, at(0)), APUS_EPERM);
	r.has_domain = true;
	r.domain = 1;
	assert_int_equal(heard(w.d, &r, &one, &from, 400, at(0)), APUS_EINVAL);
	assert_int_equal(apus_counter_get(&c->foreign), 2);
	r.domain = 0;
	r.prefix = own;
	assert_int_equal(heard(w.d, &r, &own, &from, 400, at(0)), APUS_EAGAIN);
	assert_int_equal(apus_counter_get(&c->own), 1);
	assert_false(knows(&w, 1));

	assert_int_equal(apus_ctl_discovery_on_endpoint(w.d, &e, &one, 1, at(0)), APUS_ENOENT);
	assert_int_equal(apus_counter_get(&c->orphans), 1);
	hear(&w, 1, at(0));
	hear(&w, 2, at(0));
	assert_int_equal(apus_ctl_discovery_on_endpoint(w.d, &e, &two, 1, at(0)), APUS_EPERM);
	assert_int_equal(apus_ctl_discovery_on_endpoint(w.d, &e, &one, 1, at(0)),
			 APUS_CTL_ADMITTED);
	assert_int_equal(apus_ctl_discovery_on_endpoint_gone(w.d, &guid, &two, at(0)), APUS_EPERM);
	assert_non_null(apus_ctl_graph_endpoint(w.graph, &builtin));
	assert_int_equal(apus_ctl_discovery_on_endpoint_gone(w.d, &builtin, &one, at(0)),
			 APUS_ENOENT);
	assert_non_null(apus_ctl_graph_endpoint(w.graph, &builtin));
	assert_int_equal(apus_ctl_discovery_on_endpoint_gone(w.d, &guid, &one, at(0)), 0);
	assert_int_equal(apus_ctl_discovery_on_endpoint_gone(w.d, &guid, &one, at(0)), APUS_ENOENT);
	assert_int_equal(apus_ctl_discovery_on_participant_gone(w.d, &guid, &two), APUS_EPERM);
	assert_int_equal(apus_ctl_discovery_on_participant_gone(w.d, &guid, &one), 0);
	assert_false(knows(&w, 1));
	assert_true(knows(&w, 2));
	guid = apus_guid_make(&own, (struct apus_eid){0x1c1});
	assert_int_equal(apus_ctl_discovery_on_participant_gone(w.d, &guid, &own), APUS_EPERM);
	assert_true(knows(&w, 0));
	close_world(&w);
}

static void a_lease_ends_at_its_instant(void **state)
{
	struct apus_prefix two = fixture_prefix(2);
	struct apus_wire_participant_record r = fixture_participant(3);
	struct apus_dp_addr from = loopback(1);
	struct world w;

	(void)state;
	open_world(&w, false);
	hear(&w, 1, at(0)); /* lease 10 s */
	hear(&w, 2, at(0));
	r.lease_ns = APUS_INFINITE_NS;
	heard(w.d, &r, &r.prefix, &from, 400, at(0));
	r = fixture_participant(4);
	r.lease_ns = 0;
	heard(w.d, &r, &r.prefix, &from, 400, at(0));
	apus_ctl_discovery_on_evidence(w.d, &two, 0, true, at(5 * SEC));
	apus_ctl_discovery_turn(w.d, at(10 * SEC - 1));
	assert_true(knows(&w, 1));
	apus_ctl_discovery_turn(w.d, at(10 * SEC));
	assert_false(knows(&w, 1));
	assert_true(knows(&w, 2));
	apus_ctl_discovery_turn(w.d, at(15 * SEC - 1));
	assert_true(knows(&w, 2));
	apus_ctl_discovery_turn(w.d, at(15 * SEC));
	assert_false(knows(&w, 2));
	apus_ctl_discovery_turn(w.d, at(1000000 * SEC));
	assert_true(knows(&w, 3));
	assert_true(knows(&w, 4));
	assert_int_equal(apus_counter_get(&apus_ctl_discovery_counters(w.d)->lapsed), 2);
	close_world(&w);
}

/* Announcements are lost, but samples come: the lease runs from the last of these. */
static void a_lease_goes_on_while_traffic_is_heard(void **state)
{
	struct world w;

	(void)state;
	open_world(&w, false);
	hear(&w, 1, at(0)); /* lease 10 s */
	hear(&w, 2, at(0));
	w.traffic_at = at(7 * SEC);
	apus_ctl_discovery_turn(w.d, at(10 * SEC));
	assert_true(knows(&w, 1));
	assert_false(knows(&w, 2));
	w.traffic_at = at(16 * SEC);
	apus_ctl_discovery_turn(w.d, at(17 * SEC));
	assert_true(knows(&w, 1));
	apus_ctl_discovery_turn(w.d, at(26 * SEC - 1));
	assert_true(knows(&w, 1));
	apus_ctl_discovery_turn(w.d, at(26 * SEC));
	assert_false(knows(&w, 1));
	assert_int_equal(apus_counter_get(&apus_ctl_discovery_counters(w.d)->lapsed), 2);
	close_world(&w);
}

/* What workers keep: who was heard, to within a tenth of a second, until somebody takes the place. */
static void workers_note_whom_they_hear(void **state)
{
	static struct apus_dp_heard table;
	struct apus_prefix one = fixture_prefix(1), other = one;

	(void)state;
	assert_int_equal(apus_dp_heard_at(&table, &one).ns, 0);
	apus_dp_heard_note(&table, &one, at(SEC));
	assert_int_equal(apus_dp_heard_at(&table, &one).ns, at(SEC).ns);
	apus_dp_heard_note(&table, &one, at(SEC + 99 * MS));
	assert_int_equal(apus_dp_heard_at(&table, &one).ns, at(SEC).ns);
	apus_dp_heard_note(&table, &one, at(SEC + 100 * MS));
	assert_int_equal(apus_dp_heard_at(&table, &one).ns, at(SEC + 100 * MS).ns);
	do
		other.bytes[6] += ++other.bytes[7] == 0;
	while (apus_dp_heard_hash(&other) / 2 % APUS_DP_HEARD_PLACES !=
	       apus_dp_heard_hash(&one) / 2 % APUS_DP_HEARD_PLACES);
	assert_int_equal(apus_dp_heard_at(&table, &other).ns, 0);
	apus_dp_heard_note(&table, &other, at(2 * SEC));
	assert_int_equal(apus_dp_heard_at(&table, &other).ns, at(2 * SEC).ns);
	assert_int_equal(apus_dp_heard_at(&table, &one).ns, 0);
}

/* The turn asks to be called no later than the first lease ends, also when a lease gets shorter. */
static void the_next_turn_is_not_after_the_first_lease(void **state)
{
	struct apus_wire_participant_record r = fixture_participant(1);
	struct apus_dp_addr from = loopback(1);
	struct world w;

	(void)state;
	open_world(&w, true);
	settle(&w);
	r.lease_ns = 2 * SEC;
	r.metatraffic_unicast.count = r.default_unicast.count = 0; /* nowhere to answer */
	heard(w.d, &r, &r.prefix, &from, 400, at(300 * MS));
	apus_ctl_discovery_turn(w.d, at(400 * MS));
	assert_int_equal(apus_ctl_discovery_turn(w.d, at(500 * MS)).ns, at(2300 * MS).ns);
	r.lease_ns = SEC;
	heard(w.d, &r, &r.prefix, &from, 400, at(600 * MS));
	apus_ctl_discovery_turn(w.d, at(700 * MS));
	assert_int_equal(apus_ctl_discovery_turn(w.d, at(800 * MS)).ns, at(1600 * MS).ns);
	close_world(&w);
}

static void a_restart_under_the_same_address_is_somebody_new(void **state)
{
	struct apus_wire_participant_record r = fixture_participant(2);
	struct apus_prefix one = fixture_prefix(1);
	struct apus_ctl_endpoint *writer;
	struct apus_wire_endpoint_record e;
	struct apus_ctl_local none = {0};
	struct apus_dp_addr from = loopback(7412);
	struct apus_ctl_match *m;
	uint64_t first;
	struct world w;

	(void)state;
	open_world(&w, false);
	fixture_record(&e, 0, 1, true, "t", "T", NULL);
	assert_int_equal(apus_ctl_discovery_add_local(w.d, &e, &none, &writer), 0);
	hear(&w, 1, at(0));
	fixture_record(&e, 1, 7, false, "t", "T", NULL);
	apus_ctl_discovery_on_endpoint(w.d, &e, &one, 1, at(0));
	first = apus_ctl_graph_next_match(w.graph, writer, NULL)->id;
	/* Killed, and started again at once: the same ports, another prefix. */
	r.metatraffic_unicast.at[0].port = 7412;
	r.default_unicast.at[0].port = 7413;
	assert_int_equal(heard(w.d, &r, &r.prefix, &from, 400, at(SEC)), APUS_CTL_ADMITTED);
	fixture_record(&e, 2, 7, false, "t", "T", NULL);
	apus_ctl_discovery_on_endpoint(w.d, &e, &r.prefix, 1, at(SEC));
	assert_int_equal(writer->match_count, 2);
	apus_ctl_discovery_turn(w.d, at(10 * SEC));
	assert_int_equal(writer->match_count, 1);
	m = apus_ctl_graph_next_match(w.graph, writer, NULL);
	assert_true(m->id > first);
	close_world(&w);
}

/* ---- room --------------------------------------------------------------------------------------- */

/* Writer `key` of participant 1, heard under a number. */
static int hear_writer(struct world *w, uint32_t key, apus_seq seq, struct apus_mono now)
{
	struct apus_prefix prefix = fixture_prefix(1);
	struct apus_wire_endpoint_record e;

	fixture_record(&e, 1, key, true, "t", "T", NULL);
	return apus_ctl_discovery_on_endpoint(w->d, &e, &prefix, seq, now);
}

/* Room for 64 writers: two more are refused. Nothing is asked for before something goes, then once, from the lower
 * number on, not again within a second, and not for ever. */
static void what_found_no_room_is_asked_for_once_there_is(void **state)
{
	struct apus_prefix prefix = fixture_prefix(1);
	struct apus_guid gone = fixture_guid(1, 3, true), other = fixture_guid(1, 4, true);
	struct world w;

	(void)state;
	open_world(&w, false);
	assert_true(hear(&w, 1, at(0)) > 0);
	for (uint32_t i = 1; i <= 64; i++)
		assert_int_equal(hear_writer(&w, i, 100 + i, at(0)), APUS_CTL_ADMITTED);
	assert_int_equal(hear_writer(&w, 66, 166, at(0)), APUS_ELIMIT);
	assert_int_equal(hear_writer(&w, 65, 165, at(0)), APUS_ELIMIT);
	apus_ctl_discovery_turn(w.d, at(MS));
	assert_int_equal(w.request_count, 0);

	assert_int_equal(apus_ctl_discovery_on_endpoint_gone(w.d, &gone, &prefix, at(2 * MS)), 0);
	apus_ctl_discovery_turn(w.d, at(2 * MS));
	assert_int_equal(w.request_count, 1);
	assert_int_equal(w.requested_from, 165);
	assert_int_equal(apus_guid_eid(&w.requested).value, APUS_CTL_EID_PUBLICATIONS_WRITER);
	assert_memory_equal(w.requested.bytes, prefix.bytes, sizeof(prefix.bytes));
	apus_ctl_discovery_turn(w.d, at(2 * SEC));
	assert_int_equal(w.request_count, 1);

	/* One found room; the other is refused once more, and asked for when another goes. */
	assert_int_equal(hear_writer(&w, 65, 165, at(2 * SEC)), APUS_CTL_ADMITTED);
	assert_int_equal(hear_writer(&w, 66, 166, at(2 * SEC)), APUS_ELIMIT);
	assert_int_equal(apus_ctl_discovery_on_endpoint_gone(w.d, &other, &prefix, at(2 * SEC)), 0);
	apus_ctl_discovery_turn(w.d, at(2 * SEC));
	assert_int_equal(w.request_count, 2);
	assert_int_equal(w.requested_from, 166);
	assert_int_equal(hear_writer(&w, 67, 167, at(2 * SEC)), APUS_CTL_ADMITTED);
	assert_int_equal(hear_writer(&w, 66, 166, at(2 * SEC)), APUS_ELIMIT);
	other = fixture_guid(1, 5, true);
	assert_int_equal(apus_ctl_discovery_on_endpoint_gone(w.d, &other, &prefix, at(2 * SEC)), 0);
	assert_true(apus_ctl_discovery_turn(w.d, at(2 * SEC + MS)).ns <= at(3 * SEC).ns);
	assert_int_equal(w.request_count, 2);
	apus_ctl_discovery_turn(w.d, at(3 * SEC));
	assert_int_equal(w.request_count, 3);
	assert_int_equal(apus_counter_get(&apus_ctl_discovery_counters(w.d)->asked_again), 3);
	close_world(&w);
}

/* ---- our own ------------------------------------------------------------------------------------ */

static void our_endpoints_are_written_changed_and_ended(void **state)
{
	struct apus_wire_endpoint_record e, decoded;
	struct apus_ctl_endpoint *endpoint;
	struct apus_ctl_local none = {0};
	struct apus_guid guid = fixture_guid(0, 1, false), key;
	struct world w;

	(void)state;
	open_world(&w, false);
	fixture_record(&e, 0, 1, false, "t", "T", NULL);
	assert_int_equal(apus_ctl_discovery_add_local(w.d, &e, &none, &endpoint), 0);
	assert_int_equal(w.log[0].writer.value, APUS_CTL_EID_SUBSCRIPTIONS_WRITER);
	assert_true(apus_guid_equal(&w.log[0].key, &guid) && !w.log[0].gone);
	assert_int_equal(apus_wire_endpoint_decode(w.last, w.log[0].bytes, false, &decoded),
			 APUS_WIRE_ACCEPT);
	assert_string_equal(apus_wire_record_text(&decoded, decoded.topic), "t");
	assert_int_equal(apus_ctl_discovery_add_local(w.d, &e, &none, &endpoint), APUS_EEXIST);

	e.qos.deadline_ns = 5 * SEC;
	assert_int_equal(apus_ctl_discovery_change_local(w.d, &e, 1), APUS_EINVAL);
	assert_int_equal(apus_ctl_discovery_change_local(w.d, &e, 2), 0);
	assert_int_equal(apus_wire_endpoint_decode(w.last, w.log[1].bytes, false, &decoded),
			 APUS_WIRE_ACCEPT);
	assert_int_equal(decoded.qos.deadline_ns, 5 * SEC);

	assert_int_equal(apus_ctl_discovery_remove_local(w.d, &endpoint->guid), 0);
	assert_int_equal(w.count, 3);
	assert_true(w.log[2].gone && apus_guid_equal(&w.log[2].key, &guid));
	assert_int_equal(apus_wire_endpoint_key_decode(w.last, w.log[2].bytes, &key),
			 APUS_WIRE_ACCEPT);
	assert_true(apus_guid_equal(&key, &guid));
	assert_int_equal(apus_ctl_discovery_remove_local(w.d, &guid), APUS_ENOENT);
	assert_int_equal(apus_ctl_discovery_change_local(w.d, &e, 9), APUS_ENOENT);

	fixture_record(&e, 0, 2, true, "t", "T", NULL);
	w.write_result = APUS_ELIMIT;
	assert_int_equal(apus_ctl_discovery_add_local(w.d, &e, &none, &endpoint), APUS_ELIMIT);
	guid = fixture_guid(0, 2, true);
	assert_null(apus_ctl_graph_endpoint(w.graph, &guid));
	w.write_result = 0;
	assert_int_equal(apus_ctl_discovery_add_local(w.d, &e, &none, &endpoint), 0);
	assert_int_equal(w.log[3].writer.value, APUS_CTL_EID_PUBLICATIONS_WRITER);
	close_world(&w);
}

/* ---- convergence -------------------------------------------------------------------------------- */

#define NODES 3
#define EACH  4

/* Endpoints of node n: even ones write, odd ones read, on topics that only some share. */
static void node_record(struct apus_wire_endpoint_record *out, uint32_t n, uint32_t i)
{
	static const char *const names[] = {"a", "b"};

	fixture_record(out, n + 1, i + 1, i % 2 == 0, names[(n + i / 2) % 2], "T", NULL);
}

/* One message of `from` reaches `to`: its announcement, or one of its endpoints. */
static void deliver(struct world *nodes, uint32_t from, uint32_t to, uint32_t what,
		    struct apus_mono now)
{
	struct apus_prefix source = fixture_prefix(from + 1);
	struct apus_wire_endpoint_record e;

	if (what == EACH) {
		hear(&nodes[to], from + 1, now);
		return;
	}
	node_record(&e, from, what);
	apus_ctl_discovery_on_endpoint(nodes[to].d, &e, &source, what + 1, now);
}

/* Offers every message again and again; each arrives with probability 1/3, in any order, often twice. */
static void lossy_shuffled_messages_converge_on_one_graph(void **state)
{
	static struct world nodes[NODES];
	uint64_t rng = 77;

	(void)state;
	for (int round = 0; round < 60; round++) {
		for (uint32_t n = 0; n < NODES; n++) {
			struct apus_ctl_local none = {0};
			struct apus_ctl_endpoint *e;
			struct apus_wire_endpoint_record r;

			open_world_as(&nodes[n], n + 1, false, NULL, 0);
			for (uint32_t i = 0; i < EACH; i++) {
				node_record(&r, n, i);
				assert_int_equal(
					apus_ctl_discovery_add_local(nodes[n].d, &r, &none, &e), 0);
			}
		}
		for (int message = 0; message < 4000; message++) {
			uint32_t from = fixture_below(&rng, NODES), to = fixture_below(&rng, NODES);

			if (from != to && fixture_below(&rng, 3) == 0)
				deliver(nodes, from, to, fixture_below(&rng, EACH + 1), at(0));
		}
		for (uint32_t n = 0; n < NODES; n++) {
			/* Every node has one writer and one reader a topic: with itself 2 matches, and
			 * 4 with each other node. */
			assert_int_equal(apus_ctl_graph_match_count(nodes[n].graph),
					 2 + 4 * (NODES - 1));
			close_world(&nodes[n]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(announcements_burst_and_then_keep_their_period),
		cmocka_unit_test(every_cycle_sends_the_same_bytes),
		cmocka_unit_test(configured_peers_get_every_cycle),
		cmocka_unit_test(whom_multicast_misses_is_sent_to_directly),
		cmocka_unit_test(a_newcomer_is_answered_soon_and_until_it_knows_us),
		cmocka_unit_test(many_newcomers_share_one_multicast_answer),
		cmocka_unit_test(answers_are_spread_where_multicast_is_off),
		cmocka_unit_test(an_unproved_address_gets_less_than_three_times_its_bytes),
		cmocka_unit_test(a_new_address_has_to_prove_itself_again),
		cmocka_unit_test(all_traffic_counts_until_there_is_proof),
		cmocka_unit_test(a_greeting_withheld_follows_the_next_announcement),
		cmocka_unit_test(endpoints_match_only_after_proof),
		cmocka_unit_test(a_restart_under_the_same_prefix_is_recognised),
		cmocka_unit_test(vendors_that_may_stamp_repetitions_are_believed),
		cmocka_unit_test(only_its_own_word_counts),
		cmocka_unit_test(a_lease_ends_at_its_instant),
		cmocka_unit_test(a_lease_goes_on_while_traffic_is_heard),
		cmocka_unit_test(workers_note_whom_they_hear),
		cmocka_unit_test(the_next_turn_is_not_after_the_first_lease),
		cmocka_unit_test(a_restart_under_the_same_address_is_somebody_new),
		cmocka_unit_test(our_endpoints_are_written_changed_and_ended),
		cmocka_unit_test(what_found_no_room_is_asked_for_once_there_is),
		cmocka_unit_test(lossy_shuffled_messages_converge_on_one_graph),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
