/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a configured Discovery Server, and nobody else, is told that we are its client, is sought until it has
 * proved itself, and may then tell of others; whom it told of must prove and keep itself alive as everybody.
 * Method: the state machine runs on invented time; its ops record what it asks for. Participant 9 is the server,
 * at 127.0.0.1:11811, participant 8 a second one at :11821.
 */
#include "control/discovery.h"
#include "tests/control/graph_fixture.h"

#define MS      APUS_NS_PER_MS
#define SEC     APUS_NS_PER_SEC
#define LOG_MAX 1024
#define SERVER  9
#define SECOND  8

struct sent {
	struct apus_dp_addr to;
	bool as_client, gone;
};

struct world {
	struct apus_ctl_graph *graph;
	struct apus_ctl_discovery *d;
	struct sent log[LOG_MAX];
	uint32_t count;
	uint8_t last[2][APUS_WIRE_RECORD_PAYLOAD_MAX]; /* [as client] */
	size_t last_bytes[2];
};

static struct apus_mono at(int64_t ns)
{
	return (struct apus_mono){SEC + ns};
}

static void note(struct world *w, const struct apus_dp_addr *to, const uint8_t *payload,
		 size_t bytes, bool gone, bool as_client)
{
	assert_true(w->count < LOG_MAX && bytes <= sizeof(w->last[0]));
	memcpy(w->last[as_client], payload, bytes);
	w->last_bytes[as_client] = bytes;
	w->log[w->count++] = (struct sent){*to, as_client, gone};
}

static void on_announce(void *user, const struct apus_dp_addr *to, const struct apus_guid *key,
			const uint8_t *payload, size_t bytes, bool gone)
{
	(void)key;
	note(user, to, payload, bytes, gone, false);
}

static void on_announce_client(void *user, const struct apus_dp_addr *to,
			       const struct apus_guid *key, const uint8_t *payload, size_t bytes,
			       bool gone)
{
	(void)key;
	note(user, to, payload, bytes, gone, true);
}

static int on_write(void *user, struct apus_eid writer, const struct apus_guid *key,
		    const uint8_t *payload, size_t bytes, bool gone)
{
	(void)user, (void)writer, (void)key, (void)payload, (void)bytes, (void)gone;
	return 0;
}

static struct apus_dp_addr loopback(uint16_t port)
{
	return apus_dp_addr_v4((uint8_t[]){127, 0, 0, 1}, port);
}

static struct apus_dp_addr elsewhere(uint16_t port)
{
	return apus_dp_addr_v4((uint8_t[]){10, 9, 9, 9}, port);
}

static struct apus_dp_addr group(void)
{
	return apus_dp_addr_v4((uint8_t[]){239, 255, 0, 1}, 7400);
}

static void open_world(struct world *w, uint32_t server_count, bool multicast)
{
	static const uint32_t ours[] = {
		APUS_CTL_EID_SPDP_WRITER,          APUS_CTL_EID_SPDP_READER,
		APUS_CTL_EID_PUBLICATIONS_WRITER,  APUS_CTL_EID_PUBLICATIONS_READER,
		APUS_CTL_EID_SUBSCRIPTIONS_WRITER, APUS_CTL_EID_SUBSCRIPTIONS_READER,
		APUS_CTL_EID_MESSAGE_WRITER,       APUS_CTL_EID_MESSAGE_READER};
	const struct apus_dp_addr servers[2] = {loopback(11811), loopback(11821)};
	struct apus_ctl_graph_config gc = fixture_config();
	struct apus_wire_participant_record self = fixture_participant(0);
	struct apus_ctl_discovery_ops ops = {.announce = on_announce,
					     .write = on_write,
					     .user = w,
					     .announce_client = on_announce_client};
	struct apus_ctl_discovery_config dc = {.announce_period_ns = 3 * SEC,
					       .burst_period_ns = 100 * MS,
					       .burst_count = 1,
					       .servers = servers,
					       .server_count = server_count,
					       .seed = 7};
	const struct apus_ctl_local none = {0};

	memset(w, 0, sizeof(*w));
	if (multicast) {
		dc.multicast = group();
		self.metatraffic_multicast.count = 1;
		self.metatraffic_multicast.at[0] = fixture_locator(239, 255, 0, 1, 7400);
	}
	gc.participants = 16;
	gc.await_proof = true;
	gc.locators.loopback_only = false;
	assert_int_equal(apus_ctl_graph_create(&gc, &self, &w->graph), 0);
	assert_int_equal(apus_ctl_discovery_create(&dc, &ops, w->graph, &self, at(0), &w->d), 0);
	for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++)
		assert_int_equal(apus_ctl_graph_add_builtin(w->graph, (struct apus_eid){ours[i]},
							    &none, NULL),
				 0);
}

static void close_world(struct world *w)
{
	apus_ctl_discovery_destroy(w->d);
	apus_ctl_graph_destroy(w->graph);
}

static const struct apus_ctl_discovery_counters *counters(const struct world *w)
{
	return apus_ctl_discovery_counters(w->d);
}

static uint32_t sent_to(const struct world *w, struct apus_dp_addr to, bool as_client)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->count; i++)
		n += apus_dp_addr_equal(&w->log[i].to, &to) && w->log[i].as_client == as_client;
	return n;
}

static struct apus_ctl_participant *participant(const struct world *w, uint32_t n)
{
	struct apus_prefix prefix = fixture_prefix(n);

	return apus_ctl_graph_participant(w->graph, &prefix);
}

static bool has_builtin(const struct world *w, uint32_t n, uint32_t eid)
{
	struct apus_prefix prefix = fixture_prefix(n);
	struct apus_guid guid = apus_guid_make(&prefix, (struct apus_eid){eid});

	return apus_ctl_graph_endpoint(w->graph, &guid) != NULL;
}

static int hear(struct world *w, const struct apus_wire_participant_record *r, uint32_t source,
		struct apus_dp_addr from, struct apus_mono now)
{
	struct apus_ctl_heard h = {.source = fixture_prefix(source),
				   .from = from,
				   .bytes = 400,
				   .seq = 1,
				   .stamp = {100 * SEC}};

	return apus_ctl_discovery_on_participant(w->d, r, &h, now);
}

/* What a server says of itself. */
static struct apus_wire_participant_record server_record(uint32_t n)
{
	struct apus_wire_participant_record r = fixture_participant(n);

	r.metatraffic_unicast.at[0].port = n == SERVER ? 11811 : 11821;
	r.vendor = 0x010f;
	return r;
}

static void prove(struct world *w, uint32_t n, struct apus_mono now)
{
	struct apus_prefix prefix = fixture_prefix(n);

	apus_ctl_discovery_on_evidence(w->d, &prefix, 100, true, now);
}

/* The server announces itself and answers. */
static void meet(struct world *w, uint32_t n, struct apus_mono now)
{
	struct apus_wire_participant_record r = server_record(n);

	assert_true(hear(w, &r, n, loopback(40000), now) > 0);
	prove(w, n, now);
}

/* The server tells of participant n. */
static int tell(struct world *w, uint32_t server, uint32_t n, struct apus_mono now)
{
	struct apus_wire_participant_record r = fixture_participant(n);

	r.vendor = 0x010f;
	return hear(w, &r, server, (struct apus_dp_addr){0}, now);
}

static int tell_endpoint(struct world *w, uint32_t source, uint32_t n, apus_seq seq,
			 struct apus_mono now)
{
	struct apus_prefix prefix = fixture_prefix(source);
	struct apus_wire_endpoint_record e;

	fixture_record(&e, n, 5, true, "t", "T", NULL);
	return apus_ctl_discovery_on_endpoint(w->d, &e, &prefix, seq, now);
}

static struct apus_guid participant_guid(uint32_t n)
{
	struct apus_prefix prefix = fixture_prefix(n);

	return apus_guid_make(&prefix, (struct apus_eid){APUS_CTL_EID_PARTICIPANT});
}

static int tell_gone(struct world *w, uint32_t source, uint32_t n)
{
	struct apus_prefix prefix = fixture_prefix(source);
	struct apus_guid guid = participant_guid(n);

	return apus_ctl_discovery_on_participant_gone(w->d, &guid, &prefix);
}

/* Runs turns until `end`, whenever one has something to do. */
static void run(struct world *w, int64_t from, int64_t end)
{
	struct apus_mono now = at(from);

	while (!apus_mono_before(at(end), now)) {
		struct apus_mono next = apus_ctl_discovery_turn(w->d, now);

		now = apus_mono_before(now, next) ? next : apus_mono_add(now, MS);
	}
}

/* ---- announcing --------------------------------------------------------------------------------- */

static void only_servers_are_told_that_we_are_their_client(void **state)
{
	struct apus_wire_participant_record r;
	struct world w;

	(void)state;
	open_world(&w, 1, true);
	run(&w, 0, 0);
	assert_true(sent_to(&w, loopback(11811), true) >= 1);
	assert_int_equal(sent_to(&w, loopback(11811), false), 0);
	assert_int_equal(sent_to(&w, group(), false), 1);
	assert_int_equal(sent_to(&w, group(), true), 0);
	assert_true(w.log[0].as_client); /* its number is taken first */
	assert_int_equal(apus_wire_participant_decode(w.last[1], w.last_bytes[1], &r),
			 APUS_WIRE_ACCEPT);
	assert_int_equal(r.vendor, 0x010f);
	assert_int_equal(r.metatraffic_multicast.count, 0);
	assert_int_equal(apus_wire_participant_decode(w.last[0], w.last_bytes[0], &r),
			 APUS_WIRE_ACCEPT);
	assert_int_equal(r.vendor, APUS_WIRE_VENDOR);
	assert_int_equal(r.metatraffic_multicast.count, 1);
	assert_non_null(memmem(w.last[1], w.last_bytes[1], "PARTICIPANT_TYPE", 17));
	assert_non_null(memmem(w.last[1], w.last_bytes[1], "DS_VERSION", 11));
	assert_null(memmem(w.last[1], w.last_bytes[1], "SUPER_CLIENT", 13));
	assert_null(memmem(w.last[0], w.last_bytes[0], "PARTICIPANT_TYPE", 17));
	/* News goes to servers before anybody else. */
	w.count = 0;
	r = fixture_participant(0);
	assert_int_equal(apus_ctl_discovery_set_self(w.d, &r, at(1)), 0);
	apus_ctl_discovery_turn(w.d, at(1));
	assert_true(w.count >= 2 && w.log[0].as_client);
	/* Good-bye. */
	w.count = 0;
	apus_ctl_discovery_depart(w.d);
	assert_int_equal(sent_to(&w, loopback(11811), true), 1);
	assert_true(w.log[0].gone);
	close_world(&w);
}

static void a_server_is_sought_until_it_has_answered(void **state)
{
	struct apus_wire_participant_record r = server_record(SERVER);
	struct world w;
	uint32_t sought;

	(void)state;
	open_world(&w, 1, false);
	run(&w, 0, 9 * SEC - 1); /* every 450 ms, and 3 periods */
	sought = sent_to(&w, loopback(11811), true);
	assert_in_range(sought, 20, 20 + 3);
	/* Announcing itself is no answer. */
	hear(&w, &r, SERVER, loopback(40000), at(9 * SEC));
	assert_non_null(participant(&w, SERVER));
	assert_int_equal(participant(&w, SERVER)->role, APUS_CTL_SERVER);
	w.count = 0;
	run(&w, 9 * SEC, 10 * SEC);
	assert_true(sent_to(&w, loopback(11811), true) >= 2);
	assert_int_equal(sent_to(&w, loopback(11811), false), 0);
	prove(&w, SERVER, at(10 * SEC));
	run(&w, 10 * SEC, 11 * SEC);
	w.count = 0;
	run(&w, 11 * SEC, 19 * SEC);
	assert_in_range(sent_to(&w, loopback(11811), true), 2, 3); /* the period's */
	/* Its lease, renewed by the answer at 10 s, runs out. */
	w.count = 0;
	run(&w, 19 * SEC, 20 * SEC + 900 * MS);
	assert_null(participant(&w, SERVER));
	assert_true(sent_to(&w, loopback(11811), true) >= 2);
	close_world(&w);
}

/* ---- whom to believe ---------------------------------------------------------------------------- */

static void nobody_but_a_proved_server_tells_of_others(void **state)
{
	struct apus_wire_participant_record r = server_record(SERVER);
	struct world w;

	(void)state;
	open_world(&w, 1, false);
	/* From another host it is no server, whatever it says. */
	assert_true(hear(&w, &r, SERVER, elsewhere(11811), at(0)) > 0);
	assert_int_equal(participant(&w, SERVER)->role, APUS_CTL_PEER);
	prove(&w, SERVER, at(0));
	assert_int_equal(tell(&w, SERVER, 1, at(0)), APUS_EPERM);
	/* The server itself takes its name back from whoever used it. */
	assert_int_equal(hear(&w, &r, SERVER, loopback(40000), at(1)), APUS_CTL_ADMITTED);
	assert_int_equal(participant(&w, SERVER)->role, APUS_CTL_SERVER);
	assert_int_equal(tell(&w, SERVER, 1, at(1)), APUS_EPERM); /* unproved */
	prove(&w, SERVER, at(2));
	assert_int_equal(tell(&w, SERVER, 1, at(2)), APUS_CTL_ADMITTED);
	assert_int_equal(tell(&w, 1, 2, at(2)), APUS_EPERM);
	assert_int_equal(tell_endpoint(&w, 1, SERVER, 1, at(2)), APUS_EPERM);
	assert_int_equal(tell_gone(&w, 1, SERVER), APUS_EPERM);
	/* Of ourselves nobody tells us anything. */
	assert_int_equal(tell(&w, SERVER, 0, at(2)), APUS_EAGAIN);
	assert_int_equal(tell_endpoint(&w, SERVER, 0, 1, at(2)), APUS_EPERM);
	assert_int_equal(tell_gone(&w, SERVER, 0), APUS_EPERM);
	close_world(&w);
}

static void a_servers_word_comes_from_its_host_only(void **state)
{
	struct apus_prefix server = fixture_prefix(SERVER), other = fixture_prefix(3);
	struct apus_dp_addr near = loopback(50000), far = elsewhere(11811);
	struct world w;

	(void)state;
	open_world(&w, 1, false);
	assert_true(apus_ctl_discovery_may_hear(w.d, &server, &far)); /* unknown yet */
	meet(&w, SERVER, at(0));
	assert_true(apus_ctl_discovery_may_hear(w.d, &server, &near));
	assert_false(apus_ctl_discovery_may_hear(w.d, &server, &far));
	assert_true(apus_ctl_discovery_may_hear(w.d, &other, &far));
	assert_int_equal(apus_counter_get(&counters(&w)->impostors), 1);
	close_world(&w);
}

/* It is reached where the configuration says, whatever addresses it announces beside that. */
static void a_server_proves_itself_at_its_configured_address(void **state)
{
	struct apus_wire_participant_record r = server_record(SERVER);
	struct apus_dp_addr server = loopback(11811);
	struct world w;

	(void)state;
	open_world(&w, 1, false);
	r.metatraffic_unicast.count = 2;
	r.metatraffic_unicast.at[1] = r.metatraffic_unicast.at[0];
	r.metatraffic_unicast.at[0] = fixture_locator(127, 0, 0, 1, 6666);
	hear(&w, &r, SERVER, loopback(40000), at(0));
	assert_true(apus_dp_addr_equal(&participant(&w, SERVER)->metatraffic, &server));
	close_world(&w);
}

/* ---- whom a server tells of --------------------------------------------------------------------- */

static void relayed_participants_prove_themselves(void **state)
{
	struct apus_ctl_local local = {0};
	struct apus_prefix one = fixture_prefix(1);
	struct apus_wire_endpoint_record ours;
	struct apus_ctl_endpoint *e;
	struct world w;

	(void)state;
	open_world(&w, 1, false);
	meet(&w, SERVER, at(0));
	fixture_record(&ours, 0, 1, false, "t", "T", NULL);
	assert_int_equal(apus_ctl_discovery_add_local(w.d, &ours, &local, &e), 0);
	assert_int_equal(tell(&w, SERVER, 1, at(0)), APUS_CTL_ADMITTED);
	assert_int_equal(participant(&w, 1)->role, APUS_CTL_RELAYED);
	assert_true(participant(&w, 1)->same_host);
	assert_int_equal(participant(&w, 1)->record.vendor, APUS_WIRE_VENDOR); /* by its prefix */
	assert_int_equal(apus_counter_get(&counters(&w)->relayed), 1);
	assert_int_equal(tell_endpoint(&w, SERVER, 1, 1, at(0)), APUS_CTL_ADMITTED);
	/* Neither SPDP nor SEDP with it, but liveliness. */
	assert_false(has_builtin(&w, 1, APUS_CTL_EID_SPDP_READER));
	assert_false(has_builtin(&w, 1, APUS_CTL_EID_PUBLICATIONS_READER));
	assert_true(has_builtin(&w, 1, APUS_CTL_EID_MESSAGE_READER));
	assert_true(has_builtin(&w, SERVER, APUS_CTL_EID_SPDP_READER));
	assert_int_equal(e->match_count, 0);
	/* Less than three times what was told of it, packets' heads included. */
	for (uint32_t sent = 0; apus_ctl_discovery_may_send(w.d, &one, 52); sent += 80)
		assert_true(sent < 3 * 400);
	prove(&w, 1, at(1));
	assert_int_equal(e->match_count, 1);
	assert_true(apus_ctl_discovery_may_send(w.d, &one, 52));
	/* It is announced to by the server only. */
	w.count = 0;
	run(&w, 0, 7 * SEC);
	assert_int_equal(sent_to(&w, loopback(7412), false), 0);
	close_world(&w);
}

static void loopback_beside_other_addresses_is_not_ours(void **state)
{
	struct apus_wire_participant_record r = fixture_participant(1);
	struct world w;

	(void)state;
	open_world(&w, 1, false);
	meet(&w, SERVER, at(0));
	r.metatraffic_unicast.count = 2;
	r.metatraffic_unicast.at[1] = fixture_locator(10, 9, 9, 9, 7412);
	assert_int_equal(hear(&w, &r, SERVER, (struct apus_dp_addr){0}, at(0)), APUS_CTL_ADMITTED);
	assert_false(participant(&w, 1)->same_host);
	assert_int_equal(participant(&w, 1)->metatraffic.ip[12], 10);
	close_world(&w);
}

static void relayed_leases_last_as_long_as_they_answer(void **state)
{
	struct world w;

	(void)state;
	open_world(&w, 1, false);
	assert_int_equal(apus_ctl_discovery_probe_ns(w.d), 0);
	meet(&w, SERVER, at(0));
	tell(&w, SERVER, 1, at(0)); /* lease 10 s */
	tell(&w, SERVER, 2, at(0));
	assert_int_equal(apus_ctl_discovery_probe_ns(w.d), 10 * SEC / 3);
	prove(&w, 1, at(9 * SEC));
	/* The server lapses as well; that ends nobody else's lease. */
	run(&w, 9 * SEC, 10 * SEC);
	assert_null(participant(&w, SERVER));
	assert_null(participant(&w, 2));
	assert_non_null(participant(&w, 1));
	run(&w, 10 * SEC, 19 * SEC);
	assert_null(participant(&w, 1));
	assert_int_equal(apus_counter_get(&counters(&w)->lapsed), 3);
	assert_int_equal(apus_ctl_discovery_probe_ns(w.d), 0);
	close_world(&w);
}

static void what_a_server_ends_is_gone_when_none_knows_it(void **state)
{
	struct world w;

	(void)state;
	open_world(&w, 2, false);
	meet(&w, SERVER, at(0));
	meet(&w, SECOND, at(0));
	assert_int_equal(tell(&w, SERVER, 1, at(0)), APUS_CTL_ADMITTED);
	assert_int_equal(tell(&w, SECOND, 1, at(0)), APUS_CTL_UNCHANGED);
	assert_int_equal(tell_endpoint(&w, SERVER, 1, 7, at(0)), APUS_CTL_ADMITTED);
	assert_int_equal(tell_endpoint(&w, SECOND, 1, 7, at(0)), APUS_CTL_UNCHANGED);
	assert_int_equal(tell_gone(&w, SERVER, 1), 0);
	assert_non_null(participant(&w, 1));
	assert_int_equal(tell_gone(&w, SECOND, 1), 0);
	assert_null(participant(&w, 1));
	assert_int_equal(tell_gone(&w, SECOND, 1), APUS_ENOENT);
	assert_int_equal(tell_endpoint(&w, SECOND, 1, 8, at(0)), APUS_ENOENT);
	assert_int_equal(apus_counter_get(&counters(&w)->orphans), 1);
	/* It may say good-bye for itself, too. */
	tell(&w, SERVER, 2, at(0));
	assert_int_equal(tell_gone(&w, 2, 2), 0);
	assert_null(participant(&w, 2));
	close_world(&w);
}

static void a_restarted_server_is_somebody_new(void **state)
{
	struct apus_wire_participant_record r = server_record(SERVER);
	struct apus_ctl_heard h = {.source = fixture_prefix(SERVER),
				   .from = loopback(40001),
				   .bytes = 400,
				   .seq = 1,
				   .stamp = {200 * SEC}};
	struct world w;

	(void)state;
	open_world(&w, 1, false);
	meet(&w, SERVER, at(0));
	tell(&w, SERVER, 1, at(0));
	prove(&w, 1, at(0));
	run(&w, 0, SEC);
	w.count = 0;
	assert_int_equal(apus_ctl_discovery_on_participant(w.d, &r, &h, at(SEC)),
			 APUS_CTL_ADMITTED);
	assert_int_equal(apus_counter_get(&counters(&w)->restarted), 1);
	assert_false(apus_ctl_discovery_trusts(w.d, &h.source));
	assert_non_null(participant(&w, 1)); /* what it told stays */
	run(&w, SEC, SEC + 100 * MS);
	assert_int_equal(sent_to(&w, loopback(11811), true), 1); /* at once */
	prove(&w, SERVER, at(2 * SEC));
	assert_true(apus_ctl_discovery_trusts(w.d, &h.source));
	assert_int_equal(tell(&w, SERVER, 1, at(2 * SEC)), APUS_CTL_UNCHANGED);
	close_world(&w);
}

static void who_announces_itself_speaks_for_itself(void **state)
{
	struct apus_wire_participant_record r = fixture_participant(1);
	struct world w;

	(void)state;
	open_world(&w, 1, false);
	meet(&w, SERVER, at(0));
	tell(&w, SERVER, 1, at(0));
	assert_int_equal(tell_endpoint(&w, SERVER, 1, 1000, at(0)), APUS_CTL_ADMITTED);
	prove(&w, 1, at(0));
	assert_int_equal(hear(&w, &r, 1, loopback(7412), at(1)), APUS_CTL_CHANGED);
	assert_int_equal(participant(&w, 1)->role, APUS_CTL_PEER);
	assert_true(has_builtin(&w, 1, APUS_CTL_EID_PUBLICATIONS_READER));
	/* Its records are newer than the server's, whose word counts no more. */
	assert_int_equal(tell_endpoint(&w, 1, 1, 1, at(1)), APUS_CTL_UNCHANGED);
	assert_int_equal(tell_endpoint(&w, SERVER, 1, 2000, at(1)), APUS_CTL_UNCHANGED);
	assert_int_equal(tell(&w, SERVER, 1, at(1)), APUS_CTL_UNCHANGED);
	assert_int_equal(tell_gone(&w, SERVER, 1), 0);
	assert_non_null(participant(&w, 1));
	assert_int_equal(tell_gone(&w, 1, 1), 0);
	assert_null(participant(&w, 1));
	/* It is told of us directly, for it may know us by the server only. */
	run(&w, 0, 4 * SEC);
	close_world(&w);
}

static void a_server_that_counts_anew_is_met_afresh(void **state)
{
	struct apus_prefix server = fixture_prefix(SERVER), one = fixture_prefix(1);
	struct world w;

	(void)state;
	open_world(&w, 1, false);
	meet(&w, SERVER, at(0));
	tell(&w, SERVER, 1, at(0));
	apus_ctl_discovery_on_regress(w.d, &server, at(SEC));
	apus_ctl_discovery_on_regress(w.d, &server, at(SEC + 10 * MS));
	apus_ctl_discovery_on_regress(w.d, &one, at(SEC));
	apus_ctl_discovery_on_regress(w.d, &one, at(2 * SEC));
	assert_true(apus_ctl_discovery_trusts(w.d, &server));
	apus_ctl_discovery_on_regress(w.d, &server, at(SEC + 60 * MS));
	assert_false(apus_ctl_discovery_trusts(w.d, &server));
	assert_int_equal(participant(&w, SERVER)->role, APUS_CTL_SERVER);
	assert_true(apus_ctl_discovery_may_send(w.d, &server, 100));
	assert_non_null(participant(&w, 1));
	assert_int_equal(apus_counter_get(&counters(&w)->restarted), 1);
	prove(&w, SERVER, at(2 * SEC));
	assert_true(apus_ctl_discovery_trusts(w.d, &server));
	close_world(&w);
}

/* Servers number what they tell each for itself, and begin again after a restart. */
static void the_latest_word_counts_whatever_its_number(void **state)
{
	struct apus_prefix server = fixture_prefix(SERVER);
	struct apus_wire_endpoint_record e;
	struct apus_qos q;
	struct world w;

	(void)state;
	open_world(&w, 1, false);
	meet(&w, SERVER, at(0));
	tell(&w, SERVER, 1, at(0));
	apus_qos_writer_default(&q);
	fixture_record(&e, 1, 5, true, "t", "T", &q);
	assert_int_equal(apus_ctl_discovery_on_relayed_endpoint(w.d, &e, &server, 90, 0, at(0)),
			 APUS_CTL_ADMITTED);
	assert_int_equal(apus_ctl_discovery_on_relayed_endpoint(w.d, &e, &server, 2, 0, at(0)),
			 APUS_CTL_UNCHANGED);
	q.strength = 7;
	fixture_record(&e, 1, 5, true, "t", "T", &q);
	assert_int_equal(apus_ctl_discovery_on_relayed_endpoint(w.d, &e, &server, 3, 0, at(0)),
			 APUS_CTL_CHANGED);
	assert_int_equal(apus_ctl_graph_endpoint(w.graph, &e.guid)->record->qos.strength, 7);
	/* A number of its own decides, where there is one. */
	q.strength = 8;
	fixture_record(&e, 1, 5, true, "t", "T", &q);
	assert_int_equal(apus_ctl_discovery_on_relayed_endpoint(w.d, &e, &server, 4, 2, at(0)),
			 APUS_CTL_UNCHANGED);
	assert_int_equal(apus_ctl_discovery_on_relayed_endpoint(w.d, &e, &server, 5, 4, at(0)),
			 APUS_CTL_CHANGED);
	close_world(&w);
}

static void limits_hold_for_what_is_told(void **state)
{
	struct world w;

	(void)state;
	open_world(&w, 1, false);
	meet(&w, SERVER, at(0));
	for (uint32_t n = 20; n < 35; n++)
		assert_int_equal(tell(&w, SERVER, n, at(0)), APUS_CTL_ADMITTED);
	assert_int_equal(tell(&w, SERVER, 40, at(0)), APUS_ELIMIT);
	assert_null(participant(&w, 40));
	assert_int_equal(apus_counter_get(&apus_ctl_graph_counters(w.graph)->refused_participants),
			 1);
	close_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_servers_are_told_that_we_are_their_client),
		cmocka_unit_test(a_server_is_sought_until_it_has_answered),
		cmocka_unit_test(nobody_but_a_proved_server_tells_of_others),
		cmocka_unit_test(a_servers_word_comes_from_its_host_only),
		cmocka_unit_test(a_server_proves_itself_at_its_configured_address),
		cmocka_unit_test(relayed_participants_prove_themselves),
		cmocka_unit_test(loopback_beside_other_addresses_is_not_ours),
		cmocka_unit_test(relayed_leases_last_as_long_as_they_answer),
		cmocka_unit_test(what_a_server_ends_is_gone_when_none_knows_it),
		cmocka_unit_test(a_restarted_server_is_somebody_new),
		cmocka_unit_test(who_announces_itself_speaks_for_itself),
		cmocka_unit_test(a_server_that_counts_anew_is_met_afresh),
		cmocka_unit_test(the_latest_word_counts_whatever_its_number),
		cmocka_unit_test(limits_hold_for_what_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
