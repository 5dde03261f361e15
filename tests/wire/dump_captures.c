/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints what the message parser makes of a recording, one JSON object a line: for each UDP datagram
 * one with its verdict and header, then one for each of its submessages. check_captures.py compares
 * the lines with another decoder. To show more of a submessage, add to its print_ function here and
 * to the function of the same name there.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/wire/pcap.h"
#include "wire/message.h"

static const char *const verdicts[] = {"accept", "skip", "malformed", "end"};

static void print_hex(const char *key, const uint8_t *bytes, size_t count)
{
	printf(",\"%s\":\"", key);
	for (size_t i = 0; i < count; i++)
		printf("%02x", bytes[i]);
	printf("\"");
}

static void print_ids(struct apus_eid reader, struct apus_eid writer)
{
	printf(",\"reader\":%" PRIu32 ",\"writer\":%" PRIu32, reader.value, writer.value);
}

static void print_bits(uint32_t num_bits, const uint32_t *bitmap)
{
	printf(",\"num_bits\":%" PRIu32 ",\"bitmap\":\"", num_bits);
	for (uint32_t i = 0; i < num_bits; i++)
		putchar(apus_wire_bit_test(bitmap, i) ? '1' : '0');
	printf("\"");
}

static void print_inline(const struct apus_wire_inline_qos *q, bool little)
{
	struct apus_wire_parameter p;
	uint32_t at = 0;
	const char *comma = "";

	if (!q->list)
		return;
	printf(",\"inline\":[");
	while (apus_wire_parameter_next(q->list, q->list_bytes, little, &at, &p)) {
		printf("%s[%d,%d]", comma, p.pid, p.bytes);
		comma = ",";
	}
	printf("]");
	if (q->has_key_hash)
		print_hex("key_hash", q->key_hash, 16);
	if (q->has_status_info)
		printf(",\"status_info\":%" PRIu32, q->status_info);
	if (q->filter_info_bytes)
		print_hex("filter_info", q->filter_info, q->filter_info_bytes);
}

/* base: the datagram, so that places can be compared. */
static void print_data(const uint8_t *base, const struct apus_wire_data *d, bool little)
{
	print_ids(d->reader, d->writer);
	printf(",\"seq\":%" PRId64, d->seq);
	if (d->payload)
		printf(",\"%s\":[%td,%" PRIu32 "]", d->key_only ? "key" : "payload",
		       d->payload - base, d->payload_bytes);
	print_inline(&d->qos, little);
}

static void print_data_frag(const uint8_t *base, const struct apus_wire_data_frag *f, bool little)
{
	print_ids(f->reader, f->writer);
	printf(",\"seq\":%" PRId64 ",\"first\":%" PRIu32 ",\"count\":%d,\"fragment_bytes\":%d"
	       ",\"sample_bytes\":%" PRIu32 ",\"payload\":[%td,%" PRIu32 "]",
	       f->seq, f->first, f->count, f->fragment_bytes, f->sample_bytes, f->payload - base,
	       f->payload_bytes);
	print_inline(&f->qos, little);
}

static void print_heartbeat(const struct apus_wire_heartbeat *h)
{
	print_ids(h->reader, h->writer);
	printf(",\"first\":%" PRId64 ",\"last\":%" PRId64 ",\"count\":%" PRIu32
	       ",\"final\":%d,\"liveliness\":%d",
	       h->first, h->last, h->count, h->final, h->liveliness);
}

static void print_heartbeat_frag(const struct apus_wire_heartbeat_frag *h)
{
	print_ids(h->reader, h->writer);
	printf(",\"seq\":%" PRId64 ",\"last\":%" PRIu32 ",\"count\":%" PRIu32, h->seq, h->last,
	       h->count);
}

static void print_gap(const struct apus_wire_gap *g)
{
	print_ids(g->reader, g->writer);
	printf(",\"start\":%" PRId64 ",\"base\":%" PRId64, g->start, g->set.base);
	print_bits(g->set.num_bits, g->set.bitmap);
}

static void print_acknack(const struct apus_wire_acknack *a)
{
	print_ids(a->reader, a->writer);
	printf(",\"base\":%" PRId64, a->set.base);
	print_bits(a->set.num_bits, a->set.bitmap);
	printf(",\"count\":%" PRIu32 ",\"final\":%d", a->count, a->final);
}

static void print_nack_frag(const struct apus_wire_nack_frag *n)
{
	print_ids(n->reader, n->writer);
	printf(",\"seq\":%" PRId64 ",\"base\":%" PRIu32, n->seq, n->set.base);
	print_bits(n->set.num_bits, n->set.bitmap);
	printf(",\"count\":%" PRIu32, n->count);
}

static void print_body(const struct apus_wire_message *m, const struct apus_wire_submessage *s)
{
	bool little = s->flags & 1;

	switch (s->id) {
	case APUS_WIRE_DATA: print_data(m->bytes, &s->data, little); break;
	case APUS_WIRE_DATA_FRAG: print_data_frag(m->bytes, &s->data_frag, little); break;
	case APUS_WIRE_HEARTBEAT: print_heartbeat(&s->heartbeat); break;
	case APUS_WIRE_HEARTBEAT_FRAG: print_heartbeat_frag(&s->heartbeat_frag); break;
	case APUS_WIRE_GAP: print_gap(&s->gap); break;
	case APUS_WIRE_ACKNACK: print_acknack(&s->acknack); break;
	case APUS_WIRE_NACK_FRAG: print_nack_frag(&s->nack_frag); break;
	case APUS_WIRE_INFO_TS: printf(",\"time_ns\":%" PRId64, m->receiver.timestamp.ns); break;
	case APUS_WIRE_INFO_DST: print_hex("dest", m->receiver.dest.bytes, 12); break;
	}
}

static void print_datagram(const struct pcap_datagram *d)
{
	struct apus_wire_message m;
	struct apus_wire_submessage s;
	enum apus_wire_verdict v = apus_wire_open(&m, d->payload, d->payload_bytes);

	printf("{\"frame\":%" PRIu32 ",\"verdict\":\"%s\"", d->frame, verdicts[v]);
	if (v == APUS_WIRE_ACCEPT) {
		printf(",\"version\":%d,\"vendor\":%d",
		       m.receiver.version_major << 8 | m.receiver.version_minor, m.receiver.vendor);
		print_hex("source", m.receiver.source.bytes, 12);
	}
	printf("}\n");
	while ((v = apus_wire_next(&m, &s)) != APUS_WIRE_END) {
		printf("{\"frame\":%" PRIu32 ",\"id\":%d,\"verdict\":\"%s\",\"flags\":%d"
		       ",\"offset\":%" PRIu32 ",\"bytes\":%" PRIu32,
		       d->frame, s.id, verdicts[v], s.flags, s.offset, s.bytes);
		if (v == APUS_WIRE_ACCEPT)
			print_body(&m, &s);
		printf("}\n");
	}
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct pcap p;
		struct pcap_datagram d;

		if (!pcap_open(&p, argv[i]))
			return 1;
		while (pcap_next(&p, &d))
			print_datagram(&d);
		pcap_close(&p);
	}
	return 0;
}
