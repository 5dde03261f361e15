/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: however the messages of a real discovery exchange arrive, the same graph comes of them.
 * Method: announcements and endpoint records of captures are replayed, shuffled, duplicated and cut, round after
 * round as their senders would repeat them, in 1,000 random orders each. SEDP passes a window of one number, as
 * the reliable protocol keeps each writer's order; what comes before its participant is known is not matched.
 */
#include "control/discovery.h"
#include "tests/control/graph_fixture.h"
#include "tests/wire/pcapng.h"
#include "wire/message.h"

#define MESSAGES 256
#define ROUNDS   400

struct message {
	struct apus_prefix source;
	uint32_t writer;
	apus_seq seq;
	struct apus_wall stamp;
	uint32_t bytes;
	uint8_t payload[2048];
};

static struct message messages[MESSAGES];
static uint32_t message_count;

static void keep(const struct apus_wire_message *m, const struct apus_wire_data *d)
{
	struct message *out = &messages[message_count];

	if (d->writer.value != APUS_CTL_EID_SPDP_WRITER &&
	    d->writer.value != APUS_CTL_EID_PUBLICATIONS_WRITER &&
	    d->writer.value != APUS_CTL_EID_SUBSCRIPTIONS_WRITER)
		return;
	if (d->key_only || !d->payload || d->payload_bytes > sizeof(out->payload))
		return;
	for (uint32_t i = 0; i < message_count; i++)
		if (apus_prefix_equal(&messages[i].source, &m->receiver.source) &&
		    messages[i].writer == d->writer.value && messages[i].seq == d->seq)
			return;
	assert_true(message_count < MESSAGES);
	*out = (struct message){.source = m->receiver.source,
				.writer = d->writer.value,
				.seq = d->seq,
				.stamp = m->receiver.timestamp,
				.bytes = d->payload_bytes};
	memcpy(out->payload, d->payload, d->payload_bytes);
	message_count++;
}

static void load(const char *name)
{
	struct apus_wire_submessage sub;
	struct apus_wire_message m;
	enum apus_wire_verdict v;
	const uint8_t *datagram;
	struct pcapng file;
	char path[512];
	size_t bytes;

	snprintf(path, sizeof(path), "%s/%s.pcapng", APUS_CAPTURES, name);
	assert_true(pcapng_open(&file, path));
	message_count = 0;
	while ((datagram = pcapng_next(&file, &bytes))) {
		if (apus_wire_open(&m, datagram, bytes) != APUS_WIRE_ACCEPT)
			continue;
		while ((v = apus_wire_next(&m, &sub)) != APUS_WIRE_END && v != APUS_WIRE_MALFORMED)
			if (v == APUS_WIRE_ACCEPT && sub.id == APUS_WIRE_DATA)
				keep(&m, &sub.data);
	}
	pcapng_close(&file);
}

/* ---- a replay ----------------------------------------------------------------------------------- */

static void no_announcement(void *user, const struct apus_dp_addr *to, const struct apus_guid *key,
			    const uint8_t *payload, size_t bytes, bool gone)
{
	(void)user, (void)to, (void)key, (void)payload, (void)bytes, (void)gone;
}

struct replay {
	struct apus_ctl_graph *graph;
	struct apus_ctl_discovery *discovery;
	bool done[MESSAGES];
};

static const struct apus_mono now = {APUS_NS_PER_SEC};

/* Is there an earlier sample of the same writer that has not been delivered? */
static bool is_early(const struct replay *r, const struct message *m)
{
	for (uint32_t i = 0; i < message_count; i++)
		if (!r->done[i] && messages[i].writer == m->writer && messages[i].seq < m->seq &&
		    apus_prefix_equal(&messages[i].source, &m->source))
			return true;
	return false;
}

static void deliver(struct replay *r, uint32_t i)
{
	static struct apus_wire_participant_record participant;
	static struct apus_wire_endpoint_record endpoint;
	const struct message *m = &messages[i];

	if (m->writer == APUS_CTL_EID_SPDP_WRITER) {
		struct apus_ctl_heard h = {.source = m->source,
					   .from = apus_dp_addr_v4((uint8_t[]){127, 0, 0, 1}, 4000),
					   .bytes = m->bytes,
					   .seq = m->seq,
					   .stamp = m->stamp};

		assert_int_equal(apus_wire_participant_decode(m->payload, m->bytes, &participant),
				 APUS_WIRE_ACCEPT);
		apus_ctl_discovery_on_participant(r->discovery, &participant, &h, now);
		r->done[i] = true;
		return;
	}
	if (!apus_ctl_graph_participant(r->graph, &m->source) || is_early(r, m))
		return;
	assert_int_equal(apus_wire_endpoint_decode(m->payload, m->bytes,
						   m->writer == APUS_CTL_EID_PUBLICATIONS_WRITER,
						   &endpoint),
			 APUS_WIRE_ACCEPT);
	assert_true(apus_ctl_discovery_on_endpoint(r->discovery, &endpoint, &m->source, m->seq,
						   now) > 0);
	r->done[i] = true;
}

static uint64_t mix(uint64_t h, const void *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		h = (h ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
	return h;
}

/* Order does not count: the parts are added up. */
static uint64_t digest(const struct apus_ctl_graph *g)
{
	struct apus_ctl_participant *p = NULL;
	struct apus_ctl_endpoint *e = NULL;
	uint64_t sum = 0;

	while ((p = apus_ctl_graph_next_participant(g, p)))
		sum += mix(1, &p->record, sizeof(p->record));
	while ((e = apus_ctl_graph_next_endpoint(g, e))) {
		uint64_t h = mix(2, &e->guid, sizeof(e->guid));

		if (e->record)
			h = mix(h, e->record, apus_wire_endpoint_record_bytes(e->record));
		if (e->locators)
			h = mix(h, e->locators, sizeof(*e->locators));
		sum += mix(h, &e->match_count, sizeof(e->match_count));
	}
	return sum;
}

static void begin(struct replay *r)
{
	const struct apus_ctl_discovery_ops ops = {no_announcement, NULL, NULL};
	struct apus_wire_participant_record self = fixture_participant(0);
	struct apus_ctl_discovery_config dc = {.announce_period_ns = APUS_NS_PER_SEC,
					       .burst_period_ns = APUS_NS_PER_SEC};
	struct apus_ctl_graph_config gc = fixture_config();

	memset(r, 0, sizeof(*r));
	r->graph = fixture_graph(&gc);
	assert_int_equal(apus_ctl_discovery_create(&dc, &ops, r->graph, &self, now, &r->discovery),
			 0);
	assert_true(fixture_add(r->graph, 0, 1, true, "Square", NULL, 1, NULL) > 0);
	assert_true(fixture_add(r->graph, 0, 2, false, "Square", NULL, 1, NULL) > 0);
}

static uint64_t finish(struct replay *r)
{
	uint64_t result = digest(r->graph);

	for (uint32_t i = 0; i < message_count; i++)
		assert_true(r->done[i]);
	apus_ctl_discovery_destroy(r->discovery);
	apus_ctl_graph_destroy(r->graph);
	return result;
}

static bool all_done(const struct replay *r)
{
	for (uint32_t i = 0; i < message_count; i++)
		if (!r->done[i])
			return false;
	return true;
}

static uint64_t in_order(void)
{
	struct replay r;

	begin(&r);
	for (int round = 0; round < 3; round++)
		for (uint32_t i = 0; i < message_count; i++)
			deliver(&r, i);
	return finish(&r);
}

static uint64_t at_random(uint64_t *rng)
{
	uint32_t order[MESSAGES];
	struct replay r;

	begin(&r);
	for (int round = 0; round < ROUNDS && !all_done(&r); round++) {
		for (uint32_t i = 0; i < message_count; i++)
			order[i] = i;
		for (uint32_t i = message_count - 1; i > 0; i--) {
			uint32_t j = fixture_below(rng, i + 1), swap = order[i];

			order[i] = order[j];
			order[j] = swap;
		}
		for (uint32_t i = 0; i < message_count; i++)
			for (uint32_t n = fixture_below(rng, 3); n > 0; n--) /* cut, once, twice */
				deliver(&r, order[i]);
	}
	return finish(&r);
}

static void the_same_graph_comes_of_any_order(void **state)
{
	static const char *const captures[] = {
		"01a-cyclone-shape-reliable", "02a-fastdds-shape-reliable",
		"03a-cyclone-writer-fastdds-reader", "08e-three-participants-participant-index"};
	uint64_t rng = 5;

	(void)state;
	for (size_t c = 0; c < sizeof(captures) / sizeof(*captures); c++) {
		uint64_t expected;

		load(captures[c]);
		assert_in_range(message_count, 4, MESSAGES);
		expected = in_order();
		for (int i = 0; i < 1000; i++)
			assert_true(at_random(&rng) == expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_graph_comes_of_any_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
