/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the TypeLookup service; see the header. */
#include "wire/typelookup.h"

#include <apus/core.h>
#include <stdalign.h>

#define ENCAP_CDR2_LE 7

/* Operations, and members of their arguments: first bytes of the MD5 of their names. */
#define GET_TYPES             0x018252d3u
#define GET_DEPENDENCIES      0x05aafb31u
#define MEMBER_TYPE_IDS       0x0c536065u
#define MEMBER_CONTINUATION   0x0508e3d2u
#define MEMBER_TYPES          0x02804ad1u
#define MEMBER_TO_MINIMAL     0x0b8e6577u
#define MEMBER_DEPENDENT_IDS  0x0ba4dfc9u
#define LENGTH_CODE_OWN       (5u << 28) /* the member begins with its own length */
#define CONTINUATION_BYTES    32
#define INSTANCE_PREFIX       "dds.builtin.TOS."
#define INSTANCE_PREFIX_BYTES (sizeof(INSTANCE_PREFIX) - 1)
#define IDENTITY_BYTES        24
#define HASH_ARENA            1024 /* of one identifier of a request; plain ones of plain ones fit */

/* ---- reading ------------------------------------------------------------------------------------ */

static enum apus_wire_verdict open_body(const uint8_t *payload, size_t payload_bytes,
					struct apus_wire_value *body_out)
{
	if (payload_bytes < 4)
		return APUS_WIRE_MALFORMED;
	if (payload[0] != 0 || payload[1] != ENCAP_CDR2_LE)
		return APUS_WIRE_SKIP;
	*body_out = apus_wire_value_make(payload + 4, payload_bytes - 4, true);
	return APUS_WIRE_ACCEPT;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* "dds.builtin.TOS." and the GUID of a participant, 32 digits. */
static bool read_instance(const char *text, size_t bytes, struct apus_prefix *server_out)
{
	if (bytes != INSTANCE_PREFIX_BYTES + 32 ||
	    memcmp(text, INSTANCE_PREFIX, INSTANCE_PREFIX_BYTES) != 0)
		return false;
	text += INSTANCE_PREFIX_BYTES;
	for (size_t i = 0; i < sizeof(server_out->bytes); i++) {
		int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		server_out->bytes[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static bool read_ids(struct apus_wire_value *member, struct apus_wire_type_request *r)
{
	struct apus_wire_value sequence;
	uint32_t count;

	if (!apus_wire_value_enter(member, &sequence))
		return false;
	count = apus_wire_value_u32(&sequence);
	/* Ends with the first identifier that is not there, so the count alone cannot make it long. */
	for (uint32_t i = 0; i < count; i++) {
		alignas(max_align_t) uint8_t memory[HASH_ARENA];
		struct apus_wire_type_arena arena = {memory, sizeof(memory), 0};
		const struct apus_wire_type_ref *ref = apus_wire_type_ref_read(&sequence, &arena);

		if (!ref)
			return false;
		if (ref->hash.kind && r->hash_count < APUS_WIRE_TYPE_REQUEST_IDS)
			r->hashes[r->hash_count++] = ref->hash;
		else
			r->ignored_count++;
	}
	return !apus_wire_value_bad(&sequence);
}

/* Ours are four bytes; anybody else's was not from us. */
static bool read_continuation(struct apus_wire_value *member, struct apus_wire_type_request *r)
{
	uint32_t count = apus_wire_value_u32(member);
	const uint8_t *bytes =
		count <= CONTINUATION_BYTES ? apus_wire_value_bytes(member, count) : NULL;

	if (!bytes)
		return false;
	if (count == 4)
		r->continuation = apus_wire_load_u32(bytes, true);
	return count == 0 || count == 4;
}

static bool read_arguments(struct apus_wire_value *call, struct apus_wire_type_request *r)
{
	struct apus_wire_value object, member;
	uint32_t id;

	if (!apus_wire_value_enter(call, &object))
		return false;
	while (apus_wire_value_member(&object, &id, &member)) {
		if (id == MEMBER_TYPE_IDS && !read_ids(&member, r))
			return false;
		if (id == MEMBER_CONTINUATION && r->dependencies && !read_continuation(&member, r))
			return false;
	}
	return !apus_wire_value_bad(&object);
}

enum apus_wire_verdict apus_wire_type_request_decode(const uint8_t *payload, size_t payload_bytes,
						     struct apus_wire_type_request *request_out)
{
	struct apus_wire_value body, call;
	enum apus_wire_verdict verdict = open_body(payload, payload_bytes, &body);
	const uint8_t *identity;
	const char *instance;
	uint32_t operation;
	size_t bytes = 0;

	if (verdict != APUS_WIRE_ACCEPT)
		return verdict;
	memset(request_out, 0, sizeof(*request_out));
	identity = apus_wire_value_bytes(&body, IDENTITY_BYTES);
	instance = apus_wire_value_string(&body, &bytes);
	if (!identity || !instance || !apus_wire_value_enter(&body, &call))
		return APUS_WIRE_MALFORMED;
	memcpy(request_out->identity, identity, IDENTITY_BYTES);
	request_out->has_server = read_instance(instance, bytes, &request_out->server);
	operation = apus_wire_value_u32(&call);
	request_out->dependencies = operation == GET_DEPENDENCIES;
	if (operation != GET_TYPES && operation != GET_DEPENDENCIES)
		return APUS_WIRE_SKIP;
	return read_arguments(&call, request_out) ? APUS_WIRE_ACCEPT : APUS_WIRE_MALFORMED;
}

enum apus_wire_verdict apus_wire_type_reply_decode(const uint8_t *payload, size_t payload_bytes,
						   struct apus_wire_type_pairs *pairs_out)
{
	struct apus_wire_value body, answer, result, object, member;
	enum apus_wire_verdict verdict = open_body(payload, payload_bytes, &body);
	uint32_t id;

	if (verdict != APUS_WIRE_ACCEPT)
		return verdict;
	apus_wire_value_bytes(&body, IDENTITY_BYTES);
	if (apus_wire_value_u32(&body) != 0) /* an exception */
		return apus_wire_value_bad(&body) ? APUS_WIRE_MALFORMED : APUS_WIRE_SKIP;
	if (!apus_wire_value_enter(&body, &answer))
		return APUS_WIRE_MALFORMED;
	if (apus_wire_value_u32(&answer) != GET_TYPES)
		return APUS_WIRE_SKIP;
	if (!apus_wire_value_enter(&answer, &result))
		return APUS_WIRE_MALFORMED;
	if (apus_wire_value_u32(&result) != 0)
		return apus_wire_value_bad(&result) ? APUS_WIRE_MALFORMED : APUS_WIRE_SKIP;
	if (!apus_wire_value_enter(&result, &object))
		return APUS_WIRE_MALFORMED;
	while (apus_wire_value_member(&object, &id, &member))
		if (id == MEMBER_TYPES)
			return apus_wire_type_pairs_open(&member, pairs_out) ? APUS_WIRE_ACCEPT
									     : APUS_WIRE_MALFORMED;
	return APUS_WIRE_MALFORMED;
}

/* ---- writing ------------------------------------------------------------------------------------ */

/* A message being written, with the places of lengths that are not known yet. */
struct message {
	struct apus_wire_sink out;
	uint8_t *body;
};

static void begin(struct message *m, uint8_t *out, size_t out_bytes)
{
	static const uint8_t header[4] = {0, ENCAP_CDR2_LE, 0, 0};

	m->out = apus_wire_sink_make(out, out_bytes);
	apus_wire_sink_bytes(&m->out, header, sizeof(header));
	m->body = m->out.at;
}

static void put_u32(struct message *m, uint32_t v)
{
	size_t pad = (size_t) - (m->out.at - m->body) % 4;
	uint8_t *p = apus_wire_sink_room(&m->out, pad + 4);

	if (!p)
		return;
	memset(p, 0, pad);
	apus_wire_store_u32le(p + pad, v);
}

/* Opens a length; closed by close_length(). */
static uint8_t *open_length(struct message *m)
{
	put_u32(m, 0);
	return m->out.at;
}

static void close_length(struct message *m, uint8_t *start)
{
	if (!m->out.failed)
		apus_wire_store_u32le(start - 4, (uint32_t)(m->out.at - start));
}

static void put_hash(struct message *m, const struct apus_wire_type_hash *hash)
{
	apus_wire_sink_bytes(&m->out, &hash->kind, 1);
	apus_wire_sink_bytes(&m->out, hash->bytes, sizeof(hash->bytes));
}

/* Pads the payload to a multiple of four, with the count of it in the options (RTPS 2.5 §10.5). */
static int finish(struct message *m, uint8_t *out)
{
	size_t pad = (size_t) - (m->out.at - m->body) % 4;

	apus_wire_sink_zeros(&m->out, pad);
	if (m->out.failed)
		return APUS_ELIMIT;
	out[3] = (uint8_t)pad;
	return (int)(m->out.at - out);
}

static void write_instance(const struct apus_prefix *server, char *out)
{
	static const char hex[] = "0123456789abcdef", participant[] = "000001c1";

	memcpy(out, INSTANCE_PREFIX, INSTANCE_PREFIX_BYTES);
	out += INSTANCE_PREFIX_BYTES;
	for (size_t i = 0; i < sizeof(server->bytes); i++) {
		*out++ = hex[server->bytes[i] >> 4];
		*out++ = hex[server->bytes[i] & 15];
	}
	memcpy(out, participant, sizeof(participant));
}

int apus_wire_type_request_encode(const struct apus_guid *writer, int64_t seq,
				  const struct apus_prefix *server,
				  const struct apus_wire_type_hash *hashes, uint32_t hash_count,
				  uint8_t *out, size_t out_bytes)
{
	char instance[INSTANCE_PREFIX_BYTES + 33];
	uint8_t *call, *arguments, *ids;
	struct message m;

	write_instance(server, instance);
	begin(&m, out, out_bytes);
	apus_wire_sink_bytes(&m.out, writer->bytes, sizeof(writer->bytes));
	put_u32(&m, (uint32_t)(seq >> 32));
	put_u32(&m, (uint32_t)seq);
	put_u32(&m, sizeof(instance));
	apus_wire_sink_bytes(&m.out, instance, sizeof(instance));
	call = open_length(&m);
	put_u32(&m, GET_TYPES);
	arguments = open_length(&m);
	put_u32(&m, LENGTH_CODE_OWN | MEMBER_TYPE_IDS);
	ids = open_length(&m);
	put_u32(&m, hash_count);
	for (uint32_t i = 0; i < hash_count; i++)
		put_hash(&m, &hashes[i]);
	close_length(&m, ids);
	close_length(&m, arguments);
	close_length(&m, call);
	return finish(&m, out);
}

/* The lengths around the contents of a reply. */
struct envelope {
	uint8_t *answer, *result, *object;
};

/* Not inlined: with -flto gcc 12 follows it into the callers and sees writes that are not there. */
static __attribute__((noinline)) void open_reply(struct message *m, const uint8_t identity[24],
						 uint32_t operation, struct envelope *e)
{
	apus_wire_sink_bytes(&m->out, identity, IDENTITY_BYTES);
	put_u32(m, 0); /* no exception */
	e->answer = open_length(m);
	put_u32(m, operation);
	e->result = open_length(m);
	put_u32(m, 0); /* DDS_RETCODE_OK */
	e->object = open_length(m);
}

static void close_reply(struct message *m, const struct envelope *e)
{
	close_length(m, e->object);
	close_length(m, e->result);
	close_length(m, e->answer);
}

/* How many answers fit in front of the rest of the reply and `each` bytes more for each. */
static uint32_t fitting(const struct message *m, const struct apus_wire_type_answer *answers,
			uint32_t answer_count)
{
	size_t left = (size_t)(m->out.end - m->out.at), n;
	uint32_t i;

	if (left < 32)
		return 0;
	left -= 32; /* heads of both sequences, padding at the end */
	for (i = 0; i < answer_count; i++) {
		/* Identifier, padding, the object, and the pair of hashes in the second sequence. */
		n = 15 + 4 + (size_t)answers[i].object_bytes + 30;
		if (n > left)
			break;
		left -= n;
	}
	return i;
}

static void put_to_minimal(struct message *m, const struct apus_wire_type_answer *answers,
			   const struct apus_wire_type_hash *minimal_of, uint32_t count)
{
	uint32_t linked = 0;
	uint8_t *pairs;

	for (uint32_t i = 0; i < count; i++)
		linked += minimal_of[i].kind != APUS_WIRE_EK_NONE;
	put_u32(m, LENGTH_CODE_OWN | MEMBER_TO_MINIMAL);
	pairs = open_length(m);
	put_u32(m, linked);
	for (uint32_t i = 0; i < count; i++) {
		if (minimal_of[i].kind == APUS_WIRE_EK_NONE)
			continue;
		put_hash(m, &answers[i].hash);
		put_hash(m, &minimal_of[i]);
	}
	close_length(m, pairs);
}

int apus_wire_type_reply_encode(const uint8_t identity[24],
				const struct apus_wire_type_answer *answers,
				const struct apus_wire_type_hash *minimal_of, uint32_t answer_count,
				uint8_t *out, size_t out_bytes)
{
	struct envelope envelope;
	struct message m;
	uint8_t *pairs;

	begin(&m, out, out_bytes);
	open_reply(&m, identity, GET_TYPES, &envelope);
	answer_count = fitting(&m, answers, answer_count);
	put_u32(&m, LENGTH_CODE_OWN | MEMBER_TYPES);
	pairs = open_length(&m);
	put_u32(&m, answer_count);
	for (uint32_t i = 0; i < answer_count; i++) {
		put_hash(&m, &answers[i].hash);
		apus_wire_sink_zeros(&m.out, (size_t) - (m.out.at - m.body) % 4);
		apus_wire_sink_bytes(&m.out, answers[i].object, answers[i].object_bytes);
	}
	close_length(&m, pairs);
	put_to_minimal(&m, answers, minimal_of, answer_count);
	close_reply(&m, &envelope);
	return finish(&m, out);
}

int apus_wire_type_dependencies_encode(const uint8_t identity[24],
				       const struct apus_wire_type_answer *answers,
				       uint32_t answer_count, uint32_t continuation, uint8_t *out,
				       size_t out_bytes)
{
	struct envelope envelope;
	struct message m;
	uint8_t *ids, *id;

	begin(&m, out, out_bytes);
	open_reply(&m, identity, GET_DEPENDENCIES, &envelope);
	put_u32(&m, LENGTH_CODE_OWN | MEMBER_DEPENDENT_IDS);
	ids = open_length(&m);
	put_u32(&m, answer_count);
	for (uint32_t i = 0; i < answer_count; i++) {
		id = open_length(&m);
		put_hash(&m, &answers[i].hash);
		put_u32(&m, answers[i].object_bytes);
		close_length(&m, id);
	}
	close_length(&m, ids);
	put_u32(&m, LENGTH_CODE_OWN | MEMBER_CONTINUATION);
	put_u32(&m, continuation ? 4 : 0);
	if (continuation)
		put_u32(&m, continuation);
	close_reply(&m, &envelope);
	return finish(&m, out);
}
