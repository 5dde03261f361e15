/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target for wire/message.
 *
 * The input is a datagram. It is parsed to its end; each accepted submessage must lie inside the
 * datagram, is written again with the builder and read back, and has to come out with the same fields.
 * Seeds: tests/fuzz/seeds fuzz_message.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/message.h"

static const struct apus_prefix own = {{1}};

static void require(bool condition)
{
	if (!condition)
		abort();
}

/* A range that is claimed must be inside the datagram; reading its ends lets the sanitizer look. */
static void require_inside(const struct apus_wire_message *m, const uint8_t *p, uint32_t bytes)
{
	static volatile uint8_t sink;

	if (!p || bytes == 0)
		return;
	require(p >= m->bytes && p + bytes <= m->bytes + m->length);
	sink = p[0] ^ p[bytes - 1];
	(void)sink;
}

static bool seq_known(apus_seq seq)
{
	return seq > 0 && seq <= APUS_WIRE_SEQ_MAX;
}

/* What the builder can say of inline QoS. Numbers inside it are untrusted: impossible ones are left. */
static void copy_inline(const struct apus_wire_inline_qos *q, struct apus_wire_inline_out *out)
{
	memset(out, 0, sizeof(*out));
	if (q->has_key_hash)
		out->key_hash = q->key_hash;
	out->status_info = q->status_info;
	if (q->has_related && q->related_seq <= APUS_WIRE_SEQ_MAX) {
		out->related_guid = &q->related_guid;
		out->related_seq = q->related_seq;
	}
	out->filter_info = q->filter_info;
	out->filter_info_bytes = q->filter_info_bytes;
	out->coherent_seq = seq_known(q->coherent_seq) ? q->coherent_seq : 0;
	out->group_coherent_seq = seq_known(q->group_coherent_seq) ? q->group_coherent_seq : 0;
	out->group_seq = seq_known(q->group_seq) ? q->group_seq : 0;
}

static void require_inline(const struct apus_wire_inline_out *out,
			   const struct apus_wire_inline_qos *q)
{
	require(q->has_key_hash == (out->key_hash != NULL));
	require(!q->has_key_hash || memcmp(q->key_hash, out->key_hash, 16) == 0);
	require(q->status_info == out->status_info);
	require(q->has_related == (out->related_guid != NULL));
	require(!q->has_related || (apus_guid_equal(&q->related_guid, out->related_guid) &&
				    q->related_seq == out->related_seq));
	require(q->filter_info_bytes == out->filter_info_bytes);
	require(q->filter_info_bytes == 0 ||
		memcmp(q->filter_info, out->filter_info, q->filter_info_bytes) == 0);
	require(q->coherent_seq == out->coherent_seq);
	require(q->group_coherent_seq == out->group_coherent_seq);
	require(q->group_seq == out->group_seq);
}

static struct apus_wire_submessage read_back(const struct apus_wire_builder *b)
{
	struct apus_wire_message m;
	struct apus_wire_submessage s, none;

	require(apus_wire_open(&m, b->bytes, b->length) == APUS_WIRE_ACCEPT);
	require(apus_wire_next(&m, &s) == APUS_WIRE_ACCEPT);
	require(apus_wire_next(&m, &none) == APUS_WIRE_END);
	return s;
}

static void again_data(struct apus_wire_builder *b, const struct apus_wire_data *d)
{
	struct apus_wire_data_out out = {.reader = d->reader,
					 .writer = d->writer,
					 .seq = d->seq,
					 .payload = d->payload,
					 .payload_bytes = d->payload_bytes,
					 .key_only = d->key_only};

	copy_inline(&d->qos, &out.qos);
	int r = apus_wire_data(b, &out);

	/* One that takes all of a submessage may not fit with the padding. */
	require(r == 0 || (r == APUS_ELIMIT && d->payload_bytes > 60000));
	if (r)
		return;
	struct apus_wire_submessage s = read_back(b);

	require(s.id == APUS_WIRE_DATA && s.data.seq == d->seq);
	require(s.data.reader.value == d->reader.value && s.data.writer.value == d->writer.value);
	require(s.data.key_only == d->key_only);
	require(s.data.payload_bytes == apus_wire_padded(d->payload_bytes));
	require(!d->payload || memcmp(s.data.payload, d->payload, d->payload_bytes) == 0);
	require_inline(&out.qos, &s.data.qos);
}

static void again_data_frag(struct apus_wire_builder *b, const struct apus_wire_data_frag *f)
{
	struct apus_wire_data_frag_out out = {.reader = f->reader,
					      .writer = f->writer,
					      .seq = f->seq,
					      .first = f->first,
					      .count = f->count,
					      .fragment_bytes = f->fragment_bytes,
					      .sample_bytes = f->sample_bytes,
					      .payload = f->payload,
					      .payload_bytes = f->payload_bytes,
					      .key_only = f->key_only};

	copy_inline(&f->qos, &out.qos);
	int r = apus_wire_data_frag(b, &out);

	require((r == APUS_EINVAL) == (f->fragment_bytes % 4 != 0));
	require(r == 0 || r == APUS_EINVAL || f->payload_bytes > 60000);
	if (r)
		return;
	struct apus_wire_submessage s = read_back(b);

	require(s.id == APUS_WIRE_DATA_FRAG && s.data_frag.seq == f->seq);
	require(s.data_frag.first == f->first && s.data_frag.count == f->count);
	require(s.data_frag.sample_bytes == f->sample_bytes);
	require(s.data_frag.payload_bytes == f->payload_bytes);
	require(memcmp(s.data_frag.payload, f->payload, f->payload_bytes) == 0);
	require(s.data_frag.key_only == f->key_only);
	require_inline(&out.qos, &s.data_frag.qos);
}

static void require_seqset(const struct apus_wire_seqset *a, const struct apus_wire_seqset *b)
{
	require(a->base == b->base && a->num_bits == b->num_bits);
	require(memcmp(a->bitmap, b->bitmap, sizeof(a->bitmap)) == 0);
}

static void again_acknack(struct apus_wire_builder *b, const struct apus_wire_acknack *a)
{
	require(apus_wire_acknack(b, a) == 0);
	struct apus_wire_submessage s = read_back(b);

	require(s.id == APUS_WIRE_ACKNACK && s.acknack.count == a->count);
	require(s.acknack.final == a->final);
	require_seqset(&s.acknack.set, &a->set);
}

static void again_gap(struct apus_wire_builder *b, const struct apus_wire_gap *g)
{
	require(apus_wire_gap(b, g) == 0);
	struct apus_wire_submessage s = read_back(b);

	require(s.id == APUS_WIRE_GAP && s.gap.start == g->start);
	require_seqset(&s.gap.set, &g->set);
}

static void again_heartbeat(struct apus_wire_builder *b, const struct apus_wire_heartbeat *h)
{
	require(apus_wire_heartbeat(b, h) == 0);
	struct apus_wire_submessage s = read_back(b);

	require(s.id == APUS_WIRE_HEARTBEAT && s.heartbeat.first == h->first);
	require(s.heartbeat.last == h->last && s.heartbeat.count == h->count);
	require(s.heartbeat.final == h->final && s.heartbeat.liveliness == h->liveliness);
}

static void again_heartbeat_frag(struct apus_wire_builder *b,
				 const struct apus_wire_heartbeat_frag *h)
{
	require(apus_wire_heartbeat_frag(b, h) == 0);
	struct apus_wire_submessage s = read_back(b);

	require(s.id == APUS_WIRE_HEARTBEAT_FRAG && s.heartbeat_frag.seq == h->seq);
	require(s.heartbeat_frag.last == h->last && s.heartbeat_frag.count == h->count);
}

static void again_nack_frag(struct apus_wire_builder *b, const struct apus_wire_nack_frag *n)
{
	require(apus_wire_nack_frag(b, n) == 0);
	struct apus_wire_submessage s = read_back(b);

	require(s.id == APUS_WIRE_NACK_FRAG && s.nack_frag.seq == n->seq);
	require(s.nack_frag.set.base == n->set.base);
	require(s.nack_frag.set.num_bits == n->set.num_bits);
	require(memcmp(s.nack_frag.set.bitmap, n->set.bitmap, sizeof(n->set.bitmap)) == 0);
}

static void again_info_ts(struct apus_wire_builder *b, struct apus_wall timestamp)
{
	struct apus_wire_message m;
	struct apus_wire_submessage s;

	require(apus_wire_info_ts(b, timestamp) == 0);
	require(apus_wire_open(&m, b->bytes, b->length) == APUS_WIRE_ACCEPT);
	require(apus_wire_next(&m, &s) == APUS_WIRE_ACCEPT);
	/* The last second of Time_t is kept for TIME_INVALID and TIME_INFINITE. */
	require(m.receiver.timestamp.ns == timestamp.ns ||
		timestamp.ns / APUS_NS_PER_SEC >= (int64_t)UINT32_MAX);
}

/* Write what was read, and read that. */
static void again(const struct apus_wire_message *m, const struct apus_wire_submessage *s)
{
	static uint8_t buffer[70000];
	struct apus_wire_builder b;

	require(apus_wire_begin(&b, buffer, sizeof(buffer), &own) == 0);
	switch (s->id) {
	case APUS_WIRE_DATA: again_data(&b, &s->data); break;
	case APUS_WIRE_DATA_FRAG: again_data_frag(&b, &s->data_frag); break;
	case APUS_WIRE_HEARTBEAT: again_heartbeat(&b, &s->heartbeat); break;
	case APUS_WIRE_HEARTBEAT_FRAG: again_heartbeat_frag(&b, &s->heartbeat_frag); break;
	case APUS_WIRE_GAP: again_gap(&b, &s->gap); break;
	case APUS_WIRE_ACKNACK: again_acknack(&b, &s->acknack); break;
	case APUS_WIRE_NACK_FRAG: again_nack_frag(&b, &s->nack_frag); break;
	case APUS_WIRE_INFO_TS: again_info_ts(&b, m->receiver.timestamp); break;
	}
}

static void check_inline(const struct apus_wire_message *m, const struct apus_wire_inline_qos *q,
			 bool little)
{
	struct apus_wire_parameter p;
	uint32_t at = 0;

	require_inside(m, q->list, q->list_bytes);
	require_inside(m, q->filter_info, q->filter_info_bytes);
	require_inside(m, q->directed, q->directed_bytes);
	while (q->list && apus_wire_parameter_next(q->list, q->list_bytes, little, &at, &p))
		require_inside(m, p.value, p.bytes);
	require(!q->list || at + 4 == q->list_bytes); /* the sentinel is last */
}

/* A run is what the other iterator gives one by one. */
static void check_run(struct apus_wire_message m)
{
	struct apus_wire_message same = m;
	struct apus_wire_run run;
	struct apus_wire_submessage s;
	uint32_t n = apus_wire_next_run(&m, &run);

	for (uint32_t i = 0; i < n; i++) {
		require(apus_wire_next(&same, &s) == APUS_WIRE_ACCEPT && s.id == APUS_WIRE_DATA);
		require(s.data.seq == run.first + i && s.data.payload == run.payload[i]);
		require(s.data.payload_bytes == run.payload_bytes[i] && !s.data.key_only);
		require(s.data.reader.value == run.reader.value && !s.data.qos.list);
		require(s.data.writer.value == run.writer.value);
	}
	require(same.offset == m.offset);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	struct apus_wire_message m;
	struct apus_wire_submessage s;
	enum apus_wire_verdict verdict;
	uint32_t end = APUS_WIRE_HEADER_BYTES;

	if (apus_wire_open(&m, bytes, count) != APUS_WIRE_ACCEPT)
		return 0;
	for (;;) {
		check_run(m);
		verdict = apus_wire_next(&m, &s);
		if (verdict == APUS_WIRE_END)
			break;
		require(s.offset == end);
		if (verdict == APUS_WIRE_MALFORMED) {
			require(apus_wire_next(&m, &s) == APUS_WIRE_END);
			return 0;
		}
		end = s.offset + APUS_WIRE_SUBHEADER_BYTES + s.bytes;
		require(end <= count);
		if (verdict == APUS_WIRE_SKIP)
			continue;
		if (s.id == APUS_WIRE_DATA) {
			require_inside(&m, s.data.payload, s.data.payload_bytes);
			check_inline(&m, &s.data.qos, s.flags & 1);
		} else if (s.id == APUS_WIRE_DATA_FRAG) {
			require_inside(&m, s.data_frag.payload, s.data_frag.payload_bytes);
			check_inline(&m, &s.data_frag.qos, s.flags & 1);
		}
		again(&m, &s);
	}
	require(end == count);
	return 0;
}
