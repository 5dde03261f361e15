/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing of RTPS messages, little-endian, version 2.3.
 *
 * Each function checks its numbers, works out the size, and only then reserves the room: what is
 * written afterwards cannot fail, so a refused call leaves the datagram as it was.
 */
#include "wire/message.h"

#include "wire/bytes.h"
#include "wire/coder.h"
#include "wire/record.h"

#define FLAG_LITTLE     0x01u
#define FLAG_DATA_Q     0x02u
#define FLAG_DATA_D     0x04u
#define FLAG_DATA_K     0x08u
#define FLAG_FRAG_Q     0x02u
#define FLAG_FRAG_K     0x04u
#define FLAG_FINAL      0x02u
#define FLAG_LIVELINESS 0x04u
#define FLAG_INVALIDATE 0x02u
#define FLAG_MULTICAST  0x02u

#define VERSION_MAJOR 2
#define VERSION_MINOR 3

#define PID_SENTINEL           0x0001u
#define PID_FILTER_INFO        0x0055u
#define PID_COHERENT_SET       0x0056u
#define PID_GROUP_COHERENT_SET 0x0063u
#define PID_GROUP_SEQ_NUM      0x0064u
#define PID_KEY_HASH           0x0070u
#define PID_STATUS_INFO        0x0071u
#define PID_RELATED_SAMPLE     0x0083u
#define PID_FASTDDS_RELATED    0x800fu

/* Bytes of the fields in front of inline QoS, counted from behind octetsToInlineQos. */
#define DATA_FIELD_BYTES 16
#define FRAG_FIELD_BYTES 28

/* A sink of `bytes` for one submessage whose header says bytes + external_bytes, or failed. */
static struct apus_wire_sink reserve(struct apus_wire_builder *b, uint8_t id, uint8_t flags,
				     size_t bytes, size_t external_bytes)
{
	struct apus_wire_sink w = {NULL, NULL, true};
	size_t total = APUS_WIRE_SUBHEADER_BYTES + bytes;

	if (total > b->capacity - b->length || bytes + external_bytes > UINT16_MAX)
		return w;
	w = apus_wire_sink_make(b->bytes + b->length, total);
	b->length += (uint32_t)total;
	b->external_bytes += (uint32_t)external_bytes;
	*apus_wire_sink_room(&w, 1) = id;
	*apus_wire_sink_room(&w, 1) = flags | FLAG_LITTLE;
	apus_wire_sink_u16(&w, (uint16_t)(bytes + external_bytes));
	return w;
}

static bool seq_valid(apus_seq seq)
{
	return seq > 0 && seq <= APUS_WIRE_SEQ_MAX;
}

static void sink_eid(struct apus_wire_sink *w, struct apus_eid eid)
{
	uint8_t *p = apus_wire_sink_room(w, 4);

	apus_wire_store_u32le(p, __builtin_bswap32(eid.value));
}

static void sink_seq(struct apus_wire_sink *w, apus_seq seq)
{
	apus_wire_sink_u32(w, (uint32_t)((uint64_t)seq >> 32));
	apus_wire_sink_u32(w, (uint32_t)seq);
}

static size_t bitmap_bytes(uint32_t num_bits)
{
	return 4 + (size_t)(num_bits + 31) / 32 * 4;
}

/* Bits beyond num_bits in the last word are written as 0. */
static void sink_bitmap(struct apus_wire_sink *w, uint32_t num_bits, const uint32_t *bitmap)
{
	apus_wire_sink_u32(w, num_bits);
	for (uint32_t bit = 0; bit < num_bits; bit += 32) {
		uint32_t beyond = num_bits - bit < 32 ? UINT32_MAX >> (num_bits - bit) : 0;

		apus_wire_sink_u32(w, bitmap[bit / 32] & ~beyond);
	}
}

static void sink_locator(struct apus_wire_sink *w, const struct apus_locator *locator)
{
	apus_wire_sink_u32(w, (uint32_t)locator->kind);
	apus_wire_sink_u32(w, locator->port);
	apus_wire_sink_bytes(w, locator->address, 16);
}

/* --- Header and interpreter submessages ----------------------------------------------------------- */

int apus_wire_begin(struct apus_wire_builder *b, uint8_t *buffer, size_t capacity,
		    const struct apus_prefix *own)
{
	if (capacity < APUS_WIRE_HEADER_BYTES)
		return APUS_ELIMIT;
	if (capacity > INT32_MAX)
		capacity = INT32_MAX;
	*b = (struct apus_wire_builder){buffer, (uint32_t)capacity, APUS_WIRE_HEADER_BYTES, 0};
	memcpy(buffer, "RTPS", 4);
	buffer[4] = VERSION_MAJOR;
	buffer[5] = VERSION_MINOR;
	buffer[6] = APUS_WIRE_VENDOR >> 8;
	buffer[7] = APUS_WIRE_VENDOR & 0xff;
	memcpy(buffer + 8, own->bytes, 12);
	return 0;
}

int apus_wire_info_ts(struct apus_wire_builder *b, struct apus_wall timestamp)
{
	struct apus_wire_time t = apus_wire_time_from_wall(timestamp);
	bool none = t.seconds == UINT32_MAX;
	struct apus_wire_sink w =
		reserve(b, APUS_WIRE_INFO_TS, none ? FLAG_INVALIDATE : 0, none ? 0 : 8, 0);

	if (w.failed)
		return APUS_ELIMIT;
	if (none)
		return 0;
	apus_wire_sink_u32(&w, t.seconds);
	apus_wire_sink_u32(&w, t.fraction);
	return 0;
}

int apus_wire_info_dst(struct apus_wire_builder *b, const struct apus_prefix *dest)
{
	struct apus_wire_sink w = reserve(b, APUS_WIRE_INFO_DST, 0, 12, 0);

	if (w.failed)
		return APUS_ELIMIT;
	if (dest)
		apus_wire_sink_bytes(&w, dest->bytes, 12);
	else
		apus_wire_sink_zeros(&w, 12);
	return 0;
}

int apus_wire_info_src(struct apus_wire_builder *b, const struct apus_prefix *source,
		       uint16_t vendor)
{
	struct apus_wire_sink w = reserve(b, APUS_WIRE_INFO_SRC, 0, 20, 0);
	uint8_t version_and_vendor[4] = {VERSION_MAJOR, VERSION_MINOR, (uint8_t)(vendor >> 8),
					 (uint8_t)vendor};

	if (w.failed)
		return APUS_ELIMIT;
	apus_wire_sink_zeros(&w, 4);
	apus_wire_sink_bytes(&w, version_and_vendor, 4);
	apus_wire_sink_bytes(&w, source->bytes, 12);
	return 0;
}

int apus_wire_info_reply(struct apus_wire_builder *b, const struct apus_locator *unicast,
			 const struct apus_locator *multicast)
{
	struct apus_wire_sink w = reserve(b, APUS_WIRE_INFO_REPLY, multicast ? FLAG_MULTICAST : 0,
					  multicast ? 56 : 28, 0);

	if (w.failed)
		return APUS_ELIMIT;
	apus_wire_sink_u32(&w, 1);
	sink_locator(&w, unicast);
	if (multicast) {
		apus_wire_sink_u32(&w, 1);
		sink_locator(&w, multicast);
	}
	return 0;
}

static void sink_locator_ip4(struct apus_wire_sink *w, const struct apus_locator *locator)
{
	apus_wire_sink_u32(w, apus_wire_load_u32(locator->address + 12, false));
	apus_wire_sink_u32(w, locator->port);
}

int apus_wire_info_reply_ip4(struct apus_wire_builder *b, const struct apus_locator *unicast,
			     const struct apus_locator *multicast)
{
	if (unicast->kind != APUS_LOCATOR_UDPV4 ||
	    (multicast && multicast->kind != APUS_LOCATOR_UDPV4))
		return APUS_EINVAL;
	struct apus_wire_sink w = reserve(b, APUS_WIRE_INFO_REPLY_IP4,
					  multicast ? FLAG_MULTICAST : 0, multicast ? 16 : 8, 0);

	if (w.failed)
		return APUS_ELIMIT;
	sink_locator_ip4(&w, unicast);
	if (multicast)
		sink_locator_ip4(&w, multicast);
	return 0;
}

int apus_wire_pad(struct apus_wire_builder *b, uint32_t bytes)
{
	if (bytes % 4)
		return APUS_EINVAL;
	struct apus_wire_sink w = reserve(b, APUS_WIRE_PAD, 0, bytes, 0);

	if (w.failed)
		return APUS_ELIMIT;
	apus_wire_sink_zeros(&w, bytes);
	return 0;
}

/* --- Data ----------------------------------------------------------------------------------------- */

#define QOS_LIST_BYTES_MAX 1024

static bool inline_valid(const struct apus_wire_inline_out *q)
{
	return q->filter_info_bytes % 4 == 0 && q->filter_info_bytes <= UINT16_MAX &&
	       q->qos_list_bytes % 4 == 0 && q->qos_list_bytes <= QOS_LIST_BYTES_MAX &&
	       q->related_seq <= APUS_WIRE_SEQ_MAX &&
	       (q->coherent_seq >= 0 || q->coherent_seq == APUS_WIRE_SEQ_UNKNOWN) &&
	       q->coherent_seq <= APUS_WIRE_SEQ_MAX && q->group_coherent_seq >= 0 &&
	       q->group_coherent_seq <= APUS_WIRE_SEQ_MAX && q->group_seq >= 0 &&
	       q->group_seq <= APUS_WIRE_SEQ_MAX;
}

/* Bytes of the parameter list with its sentinel, 0 if there is nothing to say. */
static size_t inline_bytes(const struct apus_wire_inline_out *q)
{
	size_t bytes = 0;

	bytes += q->qos_list_bytes;
	bytes += q->key_hash ? 4 + 16 : 0;
	bytes += q->status_info ? 4 + 4 : 0;
	bytes += q->related_guid ? 4 + 24 : 0;
	bytes += q->filter_info_bytes ? 4 + (size_t)q->filter_info_bytes : 0;
	bytes += q->coherent_seq ? 4 + 8 : 0;
	bytes += q->group_coherent_seq ? 4 + 8 : 0;
	bytes += q->group_seq ? 4 + 8 : 0;
	return bytes ? bytes + 4 : 0;
}

static void sink_parameter(struct apus_wire_sink *w, uint16_t pid, uint16_t bytes)
{
	apus_wire_sink_u16(w, pid);
	apus_wire_sink_u16(w, bytes);
}

static void sink_seq_parameter(struct apus_wire_sink *w, uint16_t pid, apus_seq seq)
{
	if (seq == 0)
		return;
	sink_parameter(w, pid, 8);
	sink_seq(w, seq);
}

static void sink_inline(struct apus_wire_sink *w, const struct apus_wire_inline_out *q)
{
	if (inline_bytes(q) == 0)
		return;
	if (q->qos_list_bytes)
		apus_wire_sink_bytes(w, q->qos_list, q->qos_list_bytes);
	if (q->filter_info_bytes) {
		sink_parameter(w, PID_FILTER_INFO, (uint16_t)q->filter_info_bytes);
		apus_wire_sink_bytes(w, q->filter_info, q->filter_info_bytes);
	}
	sink_seq_parameter(w, PID_COHERENT_SET, q->coherent_seq);
	sink_seq_parameter(w, PID_GROUP_COHERENT_SET, q->group_coherent_seq);
	sink_seq_parameter(w, PID_GROUP_SEQ_NUM, q->group_seq);
	if (q->related_guid) {
		sink_parameter(w, q->related_fastdds ? PID_FASTDDS_RELATED : PID_RELATED_SAMPLE,
			       24);
		apus_wire_sink_bytes(w, q->related_guid->bytes, 16);
		sink_seq(w, q->related_seq);
	}
	if (q->key_hash) {
		sink_parameter(w, PID_KEY_HASH, 16);
		apus_wire_sink_bytes(w, q->key_hash, 16);
	}
	if (q->status_info) {
		/* Octets, the flags in the last one: big-endian in either byte order. */
		sink_parameter(w, PID_STATUS_INFO, 4);
		apus_wire_sink_u32(w, __builtin_bswap32(q->status_info));
	}
	sink_parameter(w, PID_SENTINEL, 0);
}

/* What of a payload goes into the buffer, and what the caller gathers. */
struct payload_room {
	size_t internal_bytes;
	size_t external_bytes;
};

static struct payload_room payload_room(const uint8_t *payload, uint32_t payload_bytes)
{
	/* In size_t, because payload_bytes may be anything. */
	size_t padded = ((size_t)payload_bytes + 3) & ~(size_t)3;

	return payload ? (struct payload_room){padded, 0} : (struct payload_room){0, padded};
}

static void sink_payload(struct apus_wire_sink *w, const uint8_t *payload, uint32_t payload_bytes)
{
	if (!payload)
		return;
	apus_wire_sink_bytes(w, payload, payload_bytes);
	apus_wire_sink_zeros(w, -payload_bytes & 3);
}

int apus_wire_data(struct apus_wire_builder *b, const struct apus_wire_data_out *data)
{
	size_t list_bytes = inline_bytes(&data->qos);
	struct payload_room room = payload_room(data->payload, data->payload_bytes);
	uint8_t flags = list_bytes ? FLAG_DATA_Q : 0;

	if (!seq_valid(data->seq) || !inline_valid(&data->qos) ||
	    (data->payload_bytes > 0 && data->payload_bytes < 4) ||
	    (data->key_only && data->payload_bytes == 0))
		return APUS_EINVAL;
	if (data->payload_bytes)
		flags |= data->key_only ? FLAG_DATA_K : FLAG_DATA_D;
	struct apus_wire_sink w = reserve(b, APUS_WIRE_DATA, flags,
					  4 + DATA_FIELD_BYTES + list_bytes + room.internal_bytes,
					  room.external_bytes);

	if (w.failed)
		return APUS_ELIMIT;
	apus_wire_sink_u16(&w, 0);
	apus_wire_sink_u16(&w, DATA_FIELD_BYTES);
	sink_eid(&w, data->reader);
	sink_eid(&w, data->writer);
	sink_seq(&w, data->seq);
	sink_inline(&w, &data->qos);
	sink_payload(&w, data->payload, data->payload_bytes);
	return 0;
}

int apus_wire_plain_data(struct apus_wire_builder *b, struct apus_eid reader,
			 struct apus_eid writer, apus_seq seq, const uint8_t *payload,
			 uint32_t payload_bytes)
{
	const uint32_t front = 4 + DATA_FIELD_BYTES;
	uint32_t padded = apus_wire_padded(payload_bytes);
	uint8_t *p = b->bytes + b->length;

	if (!seq_valid(seq) || payload_bytes < 4)
		return APUS_EINVAL;
	if (payload_bytes > UINT16_MAX - 3 - front ||
	    APUS_WIRE_SUBHEADER_BYTES + front + padded > b->capacity - b->length)
		return APUS_ELIMIT;
	apus_wire_store_u32le(p, APUS_WIRE_DATA | (FLAG_LITTLE | FLAG_DATA_D) << 8 |
					 (front + padded) << 16);
	apus_wire_store_u32le(p + 4, (uint32_t)DATA_FIELD_BYTES << 16);
	apus_wire_store_u32le(p + 8, __builtin_bswap32(reader.value));
	apus_wire_store_u32le(p + 12, __builtin_bswap32(writer.value));
	apus_wire_store_u32le(p + 16, (uint32_t)((uint64_t)seq >> 32));
	apus_wire_store_u32le(p + 20, (uint32_t)seq);
	p += APUS_WIRE_SUBHEADER_BYTES + front;
	apus_wire_store_u32le(p + padded - 4, 0); /* padding, overwritten but for that */
	apus_wire_copy_short(p, payload, payload_bytes);
	b->length += APUS_WIRE_SUBHEADER_BYTES + front + padded;
	return 0;
}

/* Whether payload_bytes is exactly what fragments first … first + count - 1 cover. */
static bool frag_valid(const struct apus_wire_data_frag_out *f)
{
	if (!seq_valid(f->seq) || f->first == 0 || f->count == 0 || f->fragment_bytes == 0 ||
	    f->fragment_bytes % 4 || f->fragment_bytes > f->sample_bytes)
		return false;
	uint64_t start = (uint64_t)(f->first - 1) * f->fragment_bytes;
	uint64_t whole = (uint64_t)f->count * f->fragment_bytes;

	if (start + whole - f->fragment_bytes >= f->sample_bytes)
		return false;
	return f->payload_bytes ==
	       (start + whole > f->sample_bytes ? f->sample_bytes - start : whole);
}

int apus_wire_data_frag(struct apus_wire_builder *b, const struct apus_wire_data_frag_out *frag)
{
	size_t list_bytes = inline_bytes(&frag->qos);
	struct payload_room room = payload_room(frag->payload, frag->payload_bytes);
	uint8_t flags = (list_bytes ? FLAG_FRAG_Q : 0) | (frag->key_only ? FLAG_FRAG_K : 0);

	if (!frag_valid(frag) || !inline_valid(&frag->qos))
		return APUS_EINVAL;
	struct apus_wire_sink w = reserve(b, APUS_WIRE_DATA_FRAG, flags,
					  4 + FRAG_FIELD_BYTES + list_bytes + room.internal_bytes,
					  room.external_bytes);

	if (w.failed)
		return APUS_ELIMIT;
	apus_wire_sink_u16(&w, 0);
	apus_wire_sink_u16(&w, FRAG_FIELD_BYTES);
	sink_eid(&w, frag->reader);
	sink_eid(&w, frag->writer);
	sink_seq(&w, frag->seq);
	apus_wire_sink_u32(&w, frag->first);
	apus_wire_sink_u16(&w, frag->count);
	apus_wire_sink_u16(&w, frag->fragment_bytes);
	apus_wire_sink_u32(&w, frag->sample_bytes);
	sink_inline(&w, &frag->qos);
	sink_payload(&w, frag->payload, frag->payload_bytes);
	return 0;
}

/* --- Protocol of the reliable endpoints ----------------------------------------------------------- */

int apus_wire_heartbeat(struct apus_wire_builder *b, const struct apus_wire_heartbeat *heartbeat)
{
	uint8_t flags =
		(heartbeat->final ? FLAG_FINAL : 0) | (heartbeat->liveliness ? FLAG_LIVELINESS : 0);

	if (!seq_valid(heartbeat->first) || heartbeat->last < heartbeat->first - 1 ||
	    heartbeat->last > APUS_WIRE_SEQ_MAX)
		return APUS_EINVAL;
	struct apus_wire_sink w = reserve(b, APUS_WIRE_HEARTBEAT, flags, 28, 0);

	if (w.failed)
		return APUS_ELIMIT;
	sink_eid(&w, heartbeat->reader);
	sink_eid(&w, heartbeat->writer);
	sink_seq(&w, heartbeat->first);
	sink_seq(&w, heartbeat->last);
	apus_wire_sink_u32(&w, heartbeat->count);
	return 0;
}

int apus_wire_heartbeat_frag(struct apus_wire_builder *b,
			     const struct apus_wire_heartbeat_frag *heartbeat)
{
	if (!seq_valid(heartbeat->seq) || heartbeat->last == 0)
		return APUS_EINVAL;
	struct apus_wire_sink w = reserve(b, APUS_WIRE_HEARTBEAT_FRAG, 0, 24, 0);

	if (w.failed)
		return APUS_ELIMIT;
	sink_eid(&w, heartbeat->reader);
	sink_eid(&w, heartbeat->writer);
	sink_seq(&w, heartbeat->seq);
	apus_wire_sink_u32(&w, heartbeat->last);
	apus_wire_sink_u32(&w, heartbeat->count);
	return 0;
}

int apus_wire_gap(struct apus_wire_builder *b, const struct apus_wire_gap *gap)
{
	const struct apus_wire_seqset *set = &gap->set;

	if (!seq_valid(gap->start) || !seq_valid(set->base) || set->num_bits > APUS_WIRE_SET_BITS)
		return APUS_EINVAL;
	struct apus_wire_sink w =
		reserve(b, APUS_WIRE_GAP, 0, 8 + 8 + 8 + bitmap_bytes(set->num_bits), 0);

	if (w.failed)
		return APUS_ELIMIT;
	sink_eid(&w, gap->reader);
	sink_eid(&w, gap->writer);
	sink_seq(&w, gap->start);
	sink_seq(&w, set->base);
	sink_bitmap(&w, set->num_bits, set->bitmap);
	return 0;
}

int apus_wire_acknack(struct apus_wire_builder *b, const struct apus_wire_acknack *acknack)
{
	const struct apus_wire_seqset *set = &acknack->set;

	/* Base 0, not allowed by RTPS 2.5 §8.3.8.1, is Fast DDS' word for "from the beginning". */
	if (set->num_bits > APUS_WIRE_SET_BITS ||
	    (!seq_valid(set->base) && (set->base != 0 || set->num_bits > 0)))
		return APUS_EINVAL;
	struct apus_wire_sink w = reserve(b, APUS_WIRE_ACKNACK, acknack->final ? FLAG_FINAL : 0,
					  8 + 8 + bitmap_bytes(set->num_bits) + 4, 0);

	if (w.failed)
		return APUS_ELIMIT;
	sink_eid(&w, acknack->reader);
	sink_eid(&w, acknack->writer);
	sink_seq(&w, set->base);
	sink_bitmap(&w, set->num_bits, set->bitmap);
	apus_wire_sink_u32(&w, acknack->count);
	return 0;
}

int apus_wire_nack_frag(struct apus_wire_builder *b, const struct apus_wire_nack_frag *nack)
{
	const struct apus_wire_fragset *set = &nack->set;

	if (!seq_valid(nack->seq) || set->base == 0 ||
	    set->base > UINT32_MAX - APUS_WIRE_SET_BITS || set->num_bits > APUS_WIRE_SET_BITS)
		return APUS_EINVAL;
	struct apus_wire_sink w =
		reserve(b, APUS_WIRE_NACK_FRAG, 0, 8 + 8 + 4 + bitmap_bytes(set->num_bits) + 4, 0);

	if (w.failed)
		return APUS_ELIMIT;
	sink_eid(&w, nack->reader);
	sink_eid(&w, nack->writer);
	sink_seq(&w, nack->seq);
	apus_wire_sink_u32(&w, set->base);
	sink_bitmap(&w, set->num_bits, set->bitmap);
	apus_wire_sink_u32(&w, nack->count);
	return 0;
}
