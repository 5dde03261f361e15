/* SPDX-License-Identifier: Apache-2.0 */
/* Builders of participants, endpoints and graphs for the tests of control/. */
#ifndef APUS_TESTS_CONTROL_GRAPH_FIXTURE_H
#define APUS_TESTS_CONTROL_GRAPH_FIXTURE_H

#include "control/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/** xorshift64*: the same sequence on every machine. */
static inline uint64_t fixture_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(2685821657736338717);
}

static inline uint32_t fixture_below(uint64_t *state, uint32_t n)
{
	return (uint32_t)(fixture_random(state) >> 33) % n;
}

/** Prefix number n; 0 is our own. */
static inline struct apus_prefix fixture_prefix(uint32_t n)
{
	struct apus_prefix p = {{1, 0xee, 'a', 'p', 'u', 's'}};

	p.bytes[8] = (uint8_t)(n >> 24);
	p.bytes[9] = (uint8_t)(n >> 16);
	p.bytes[10] = (uint8_t)(n >> 8);
	p.bytes[11] = (uint8_t)n;
	return p;
}

/** Entity id of user endpoint `key` (RTPS 2.5 §9.3.1.2: kinds 0x02 writer and 0x07 reader with key). */
static inline struct apus_guid fixture_guid(uint32_t participant, uint32_t key, bool is_writer)
{
	struct apus_prefix p = fixture_prefix(participant);

	return apus_guid_make(&p, (struct apus_eid){key << 8 | (is_writer ? 0x02 : 0x07)});
}

static inline struct apus_locator fixture_locator(uint8_t a, uint8_t b, uint8_t c, uint8_t d,
						  uint16_t port)
{
	struct apus_locator l = {.kind = APUS_LOCATOR_UDPV4, .port = port};

	l.address[12] = a;
	l.address[13] = b;
	l.address[14] = c;
	l.address[15] = d;
	return l;
}

/** Participant n at 127.0.0.1, metatraffic port 7410 + 2n, default port 7411 + 2n. */
static inline struct apus_wire_participant_record fixture_participant(uint32_t n)
{
	struct apus_wire_participant_record r;

	memset(&r, 0, sizeof(r));
	r.prefix = fixture_prefix(n);
	r.version_major = 2;
	r.version_minor = 3;
	r.vendor = APUS_WIRE_VENDOR;
	r.builtin_endpoints = APUS_WIRE_BUILTIN_ALL;
	r.lease_ns = 10 * APUS_NS_PER_SEC;
	r.metatraffic_unicast.count = r.default_unicast.count = 1;
	r.metatraffic_unicast.at[0] = fixture_locator(127, 0, 0, 1, (uint16_t)(7410 + 2 * n));
	r.default_unicast.at[0] = fixture_locator(127, 0, 0, 1, (uint16_t)(7411 + 2 * n));
	return r;
}

/** An endpoint with default QoS, which the caller may have changed in *qos (NULL: the defaults). */
static inline void fixture_record(struct apus_wire_endpoint_record *record_out,
				  uint32_t participant, uint32_t key, bool is_writer,
				  const char *topic, const char *type, const struct apus_qos *qos)
{
	struct apus_wire_endpoint_source source = {
		.guid = fixture_guid(participant, key, is_writer),
		.is_writer = is_writer,
		.topic = topic,
		.type = type};
	struct apus_qos defaults;

	if (is_writer)
		apus_qos_writer_default(&defaults);
	else
		apus_qos_reader_default(&defaults);
	source.qos = qos ? qos : &defaults;
	memset(record_out, 0, sizeof(*record_out));
	assert_int_equal(apus_wire_endpoint_record_make(&source, record_out), 0);
}

static inline struct apus_ctl_graph_config fixture_config(void)
{
	struct apus_ctl_graph_config c = {.prefix = fixture_prefix(0),
					  .participants = 8,
					  .local_endpoints = 32,
					  .remote_writers = 64,
					  .remote_readers = 64,
					  .record_bytes = 4 << 20,
					  .matches = 2048,
					  .matches_per_endpoint = 128,
					  .hash_seed = 42};

	c.locators.own_count = 1;
	c.locators.own[0] = apus_dp_addr_v4((uint8_t[]){127, 0, 0, 1}, 0);
	c.locators.loopback_only = true;
	return c;
}

static inline struct apus_ctl_graph *fixture_graph(const struct apus_ctl_graph_config *config)
{
	struct apus_wire_participant_record self = fixture_participant(0);
	struct apus_ctl_graph *g;

	assert_int_equal(apus_ctl_graph_create(config, &self, &g), 0);
	return g;
}

static inline struct apus_ctl_participant *fixture_add_participant(struct apus_ctl_graph *g,
								   uint32_t n)
{
	struct apus_wire_participant_record r = fixture_participant(n);
	struct apus_ctl_participant *p;

	assert_true(apus_ctl_graph_add_participant(g, &r, true, &p) > 0);
	return p;
}

/** Adds an endpoint of participant n (0: ours); returns what the graph said. */
static inline int fixture_add(struct apus_ctl_graph *g, uint32_t n, uint32_t key, bool is_writer,
			      const char *topic, const struct apus_qos *qos, apus_seq generation,
			      struct apus_ctl_endpoint **endpoint_out)
{
	static const struct apus_ctl_local none;
	struct apus_wire_endpoint_record record;

	fixture_record(&record, n, key, is_writer, topic, "T", qos);
	return apus_ctl_graph_add_endpoint(g, &record, n ? NULL : &none, generation, endpoint_out);
}

#endif
