/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What RTPS costs on the way in and out: typical datagrams of the recordings parsed to their last
 * submessage, discovery records decoded, and the datagrams we send built. Nothing is copied on either
 * way but the headers; the payload of a DATA is gathered by the transport.
 */
#include "bench/micro/context.h"
#include "tests/wire/pcapng.h"
#include "wire/message.h"
#include "wire/record.h"

#define CAPTURE          APUS_CAPTURES "/01a-cyclone-shape-reliable.pcapng"
#define EID_PUBLICATIONS 0x000003c2u
#define EID_PARTICIPANT  0x000100c2u
#define EID_USER_WRITER  0x02u /* kind of a writer with key */
#define EID_KIND_MASK    0xffu

/* A datagram of the recording, and what stands in it. */
struct sample {
	const uint8_t *bytes;
	size_t count;
	uint8_t payload[8192]; /* of the DATA looked for */
	uint32_t payload_bytes;
};

static struct pcapng capture;
static struct sample user, heartbeat, acknack, publication, participant;

/* ---- finding them ---- */

static bool has_data(const uint8_t *bytes, size_t count, uint32_t mask, uint32_t writer, bool beat,
		     struct sample *out)
{
	struct apus_wire_submessage sub;
	struct apus_wire_message m;
	enum apus_wire_verdict v;
	bool data = false, has_beat = false;

	if (apus_wire_open(&m, bytes, count) != APUS_WIRE_ACCEPT)
		return false;
	while ((v = apus_wire_next(&m, &sub)) != APUS_WIRE_END) {
		if (v != APUS_WIRE_ACCEPT)
			return false;
		has_beat |= sub.id == APUS_WIRE_HEARTBEAT;
		if (sub.id != APUS_WIRE_DATA || (sub.data.writer.value & mask) != writer ||
		    !sub.data.payload || sub.data.key_only ||
		    sub.data.payload_bytes > sizeof(out->payload))
			continue;
		data = true;
		memcpy(out->payload, sub.data.payload, sub.data.payload_bytes);
		out->payload_bytes = sub.data.payload_bytes;
	}
	return data && (has_beat || !beat);
}

static bool is_only(const uint8_t *bytes, size_t count, uint8_t id)
{
	struct apus_wire_submessage sub;
	struct apus_wire_message m;
	enum apus_wire_verdict v;
	int found = 0;

	if (apus_wire_open(&m, bytes, count) != APUS_WIRE_ACCEPT)
		return false;
	while ((v = apus_wire_next(&m, &sub)) != APUS_WIRE_END) {
		if (v != APUS_WIRE_ACCEPT)
			return false;
		found += sub.id == id;
		if (sub.id == APUS_WIRE_DATA)
			return false;
	}
	return found == 1;
}

static void keep_first(struct sample *s, bool fits, const uint8_t *bytes, size_t count)
{
	if (!fits || s->bytes)
		return;
	s->bytes = bytes;
	s->count = count;
}

static void load(void)
{
	const uint8_t *bytes;
	size_t count;

	if (!pcapng_open(&capture, CAPTURE))
		return;
	while ((bytes = pcapng_next(&capture, &count))) {
		if (!user.bytes)
			keep_first(
				&user,
				has_data(bytes, count, EID_KIND_MASK, EID_USER_WRITER, true, &user),
				bytes, count);
		if (!publication.bytes)
			keep_first(
				&publication,
				has_data(bytes, count, ~0u, EID_PUBLICATIONS, false, &publication),
				bytes, count);
		if (!participant.bytes)
			keep_first(
				&participant,
				has_data(bytes, count, ~0u, EID_PARTICIPANT, false, &participant),
				bytes, count);
		keep_first(&heartbeat, is_only(bytes, count, APUS_WIRE_HEARTBEAT), bytes, count);
		keep_first(&acknack, is_only(bytes, count, APUS_WIRE_ACKNACK), bytes, count);
	}
}

static bool missing(struct bench_state *s, const struct sample *sample)
{
	if (sample->bytes)
		return false;
	bench_skip(s, "no such datagram in " CAPTURE);
	return true;
}

/* ---- parsing ---- */

static uint64_t parse_all(const uint8_t *bytes, size_t count)
{
	struct apus_wire_submessage sub;
	struct apus_wire_message m;
	enum apus_wire_verdict v;
	uint64_t sum = 0;

	if (apus_wire_open(&m, bytes, count) != APUS_WIRE_ACCEPT)
		return 0;
	while ((v = apus_wire_next(&m, &sub)) != APUS_WIRE_END)
		sum += v == APUS_WIRE_ACCEPT ? sub.id : 0;
	return sum;
}

static void parse(struct bench_state *s, const struct sample *sample)
{
	if (missing(s, sample))
		return;
	while (bench_keep_running_batch(s, BATCH))
		for (int i = 0; i < BATCH; i++)
			bench_use(parse_all(sample->bytes, sample->count));
	bench_items(s, bench_iterations(s));
	bench_counter(s, "datagram_bytes", (double)sample->count, BENCH_PLAIN);
}

static void parse_data_heartbeat(struct bench_state *s)
{
	parse(s, &user);
}

static void parse_heartbeat(struct bench_state *s)
{
	parse(s, &heartbeat);
}

static void parse_acknack(struct bench_state *s)
{
	parse(s, &acknack);
}

static void parse_publication(struct bench_state *s)
{
	parse(s, &publication);
}

static void decode_publication(struct bench_state *s)
{
	static struct apus_wire_endpoint_record record;
	const struct sample *p = &publication;

	if (missing(s, p))
		return;
	if (apus_wire_endpoint_decode(p->payload, p->payload_bytes, true, &record) !=
	    APUS_WIRE_ACCEPT) {
		bench_skip(s, "the record is refused");
		return;
	}
	while (bench_keep_running_batch(s, BATCH))
		for (int i = 0; i < BATCH; i++)
			bench_use((uint64_t)apus_wire_endpoint_decode(p->payload, p->payload_bytes,
								      true, &record));
	bench_counter(s, "payload_bytes", p->payload_bytes, BENCH_PLAIN);
}

static void decode_participant(struct bench_state *s)
{
	static struct apus_wire_participant_record record;
	const struct sample *p = &participant;

	if (missing(s, p))
		return;
	if (apus_wire_participant_decode(p->payload, p->payload_bytes, &record) !=
	    APUS_WIRE_ACCEPT) {
		bench_skip(s, "the record is refused");
		return;
	}
	while (bench_keep_running_batch(s, BATCH))
		for (int i = 0; i < BATCH; i++)
			bench_use((uint64_t)apus_wire_participant_decode(
				p->payload, p->payload_bytes, &record));
	bench_counter(s, "payload_bytes", p->payload_bytes, BENCH_PLAIN);
}

/* ---- building ---- */

static const struct apus_prefix own = {{1, 2, 3}}, peer = {{4, 5, 6}};
static const struct apus_eid writer_eid = {0x00000102}, reader_eid = {0x00000207};

/* What a reliable writer puts before and behind a payload it does not copy. */
static int build_one(uint8_t *buffer, size_t room, apus_seq seq)
{
	struct apus_wire_data_out data = {
		.reader = reader_eid, .writer = writer_eid, .seq = seq, .payload_bytes = 64};
	struct apus_wire_heartbeat beat = {.reader = reader_eid,
					   .writer = writer_eid,
					   .first = 1,
					   .last = seq,
					   .count = (uint32_t)seq,
					   .final = true};
	struct apus_wire_builder b;
	int rc = apus_wire_begin(&b, buffer, room, &own);

	rc |= apus_wire_info_dst(&b, &peer);
	rc |= apus_wire_info_ts(&b, (struct apus_wall){1700000000 * APUS_NS_PER_SEC});
	rc |= apus_wire_data(&b, &data);
	rc |= apus_wire_heartbeat(&b, &beat);
	return rc == 0 ? (int)apus_wire_datagram_bytes(&b) : -1;
}

static void build_data_heartbeat(struct bench_state *s)
{
	uint8_t buffer[256];
	apus_seq seq = 0;

	if (build_one(buffer, sizeof(buffer), 1) < 0) {
		bench_skip(s, "building failed");
		return;
	}
	while (bench_keep_running_batch(s, BATCH))
		for (int i = 0; i < BATCH; i++) {
			bench_use((uint64_t)build_one(buffer, sizeof(buffer), ++seq));
			bench_use_memory(buffer);
		}
	bench_items(s, bench_iterations(s));
}

static void build_acknack(struct bench_state *s)
{
	struct apus_wire_acknack a = {.reader = reader_eid, .writer = writer_eid, .final = true};
	struct apus_wire_builder b;
	uint8_t buffer[256];
	int rc = 0;

	a.set.base = 1000;
	while (bench_keep_running_batch(s, BATCH))
		for (int i = 0; i < BATCH; i++) {
			a.count++;
			rc |= apus_wire_begin(&b, buffer, sizeof(buffer), &own);
			rc |= apus_wire_info_dst(&b, &peer);
			rc |= apus_wire_acknack(&b, &a);
			bench_use_memory(buffer);
		}
	if (rc != 0)
		bench_skip(s, "building failed");
}

static void encode_publication(struct bench_state *s)
{
	static struct apus_wire_endpoint_record record;
	static uint8_t out[APUS_WIRE_RECORD_PAYLOAD_MAX];
	int rc = 0;

	if (missing(s, &publication))
		return;
	rc = (int)apus_wire_endpoint_decode(publication.payload, publication.payload_bytes, true,
					    &record);
	if (rc != APUS_WIRE_ACCEPT || apus_wire_endpoint_encode(&record, out, sizeof(out)) <= 0) {
		bench_skip(s, "the record is refused");
		return;
	}
	while (bench_keep_running_batch(s, BATCH))
		for (int i = 0; i < BATCH; i++) {
			bench_use((uint64_t)apus_wire_endpoint_encode(&record, out, sizeof(out)));
			bench_use_memory(out);
		}
}

int main(int argc, char **argv)
{
	load();
	bench_register("wire/parse/data_heartbeat", parse_data_heartbeat);
	bench_register("wire/parse/heartbeat", parse_heartbeat);
	bench_register("wire/parse/acknack", parse_acknack);
	bench_register("wire/parse/publication", parse_publication);
	bench_register("wire/decode/publication", decode_publication);
	bench_register("wire/decode/participant", decode_participant);
	bench_register("wire/build/data_heartbeat", build_data_heartbeat);
	bench_register("wire/build/acknack", build_acknack);
	bench_register("wire/encode/publication", encode_publication);
	return micro_main(argc, argv);
}
