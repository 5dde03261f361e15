/* SPDX-License-Identifier: Apache-2.0 */
/* Outgoing datagrams; see out.h. */
#include "dataplane/out.h"

/* INFO_DST (16), INFO_TS (12): what may precede a submessage. */
#define CONTEXT_BYTES 28
/* DATA without payload: header, ids, sequence number, inline QoS with key hash, status and sentinel. */
#define DATA_BYTES 96
/* What marks add to inline QoS: three numbers and a related sample. */
#define MARKS_BYTES (3 * 12 + 28)

void apus_dp_out_init(struct apus_dp_out *out, struct apus_dp_queue *queue,
		      const struct apus_prefix *own, uint32_t packet_bytes)
{
	out->queue = queue;
	out->own = *own;
	out->pack_bytes = packet_bytes >= APUS_DP_OUT_PACK_LARGE_BYTES
				  ? APUS_DP_OUT_PACK_LARGE_BYTES
				  : APUS_DP_OUT_PACK_BYTES;
	out->copy_bytes = packet_bytes >= APUS_DP_OUT_PACK_LARGE_BYTES
				  ? APUS_DP_OUT_COPY_LARGE_BYTES
				  : APUS_DP_OUT_COPY_BYTES;
	out->count = 0;
	out->used = 0;
	out->open = false;
	out->interface_idx = -1;
}

static void close_datagram(struct apus_dp_out *out)
{
	struct apus_dp_tx *tx = &out->tx[out->count];
	const struct apus_wire_builder *b = &out->builder;

	if (!out->open)
		return;
	out->open = false;
	if (out->may_send && out->has_dest && !apus_dp_addr_is_multicast(&tx->to) &&
	    !out->may_send(out->may_send_user, &out->dest, apus_wire_datagram_bytes(b))) {
		apus_counter_add(&out->withheld, 1);
		return;
	}
	out->used += (b->length + 7) & ~7u;
	tx->interface_idx = out->interface_idx;
	tx->iov_count = 1;
	tx->iov[0] = (struct iovec){b->bytes, b->length};
	if (out->split) {
		tx->iov[0].iov_len = out->split;
		tx->iov[1] = (struct iovec){(void *)out->external, b->external_bytes};
		tx->iov_count = 2;
		if (b->length > out->split)
			tx->iov[tx->iov_count++] =
				(struct iovec){b->bytes + out->split, b->length - out->split};
	}
	apus_counter_add(&out->datagrams, 1);
	apus_counter_add(&out->bytes, apus_wire_datagram_bytes(b));
	if (++out->count == APUS_DP_OUT_BURST)
		apus_dp_out_flush(out);
}

void apus_dp_out_interface(struct apus_dp_out *out, int16_t interface_idx)
{
	close_datagram(out);
	out->interface_idx = interface_idx;
}

void apus_dp_out_flush(struct apus_dp_out *out)
{
	uint32_t n;

	if (!out->open && out->count == 0)
		return;
	close_datagram(out);
	n = out->count;
	if (n == 0) /* closing filled the burst, which left */
		return;
	out->count = 0;
	out->used = 0;
	/* What the kernel refuses counts as lost on the way (the queue's tx_dropped): reliable streams
	 * repair it like any other loss. */
	(void)apus_dp_queue_tx(out->queue, out->tx, (int)n);
}

/* Bytes of the arena for one datagram. */
static uint32_t room_of(const struct apus_dp_out *out)
{
	return out->pack_bytes > APUS_DP_OUT_BUFFER_BYTES ? out->pack_bytes
							  : APUS_DP_OUT_BUFFER_BYTES;
}

static void open_datagram(struct apus_dp_out *out, const struct apus_dp_addr *to)
{
	uint32_t room = room_of(out);

	close_datagram(out);
	if (APUS_DP_OUT_ARENA_BYTES - out->used < room)
		apus_dp_out_flush(out);
	out->tx[out->count].to = *to;
	out->open = true;
	out->has_dest = false;
	out->timestamp = APUS_WALL_NONE;
	out->split = 0;
	apus_wire_begin(&out->builder, out->arena + out->used, room, &out->own);
}

/* May a submessage for `dest` join the open datagram? Under guard, only one for the same participant. */
static bool joins(const struct apus_dp_out *out, const struct apus_prefix *dest)
{
	if (!out->may_send)
		return true;
	return dest ? out->has_dest && apus_prefix_equal(&out->dest, dest) : !out->has_dest;
}

/* True if `bytes` more fit the open datagram. The first submessage may be as large as the buffer. */
static bool fits(const struct apus_dp_out *out, const struct apus_dp_addr *to,
		 const struct apus_prefix *dest, uint32_t bytes)
{
	return out->open && joins(out, dest) && apus_dp_addr_equal(&out->tx[out->count].to, to) &&
	       !out->split && out->builder.length + bytes + CONTEXT_BYTES <= out->pack_bytes;
}

static void set_dest(struct apus_dp_out *out, const struct apus_prefix *dest)
{
	if (!dest) {
		if (out->has_dest)
			apus_wire_info_dst(&out->builder, NULL);
		out->has_dest = false;
		return;
	}
	if (out->has_dest && apus_prefix_equal(&out->dest, dest))
		return;
	apus_wire_info_dst(&out->builder, dest);
	out->has_dest = true;
	out->dest = *dest;
}

struct apus_wire_builder *apus_dp_out_at(struct apus_dp_out *out, const struct apus_dp_addr *to,
					 const struct apus_prefix *dest, uint32_t bytes)
{
	/* Behind an external payload a heartbeat may still follow in the same datagram. */
	bool behind = out->open && out->split && joins(out, dest) &&
		      apus_dp_addr_equal(&out->tx[out->count].to, to) &&
		      out->builder.length + bytes + CONTEXT_BYTES <= out->builder.capacity &&
		      apus_wire_datagram_bytes(&out->builder) + bytes + CONTEXT_BYTES <=
			      APUS_DP_DATAGRAM_MAX_BYTES;

	if (!behind && !fits(out, to, dest, bytes))
		open_datagram(out, to);
	set_dest(out, dest);
	return &out->builder;
}

static void set_timestamp(struct apus_dp_out *out, struct apus_wall timestamp)
{
	if (out->timestamp.ns == timestamp.ns)
		return;
	apus_wire_info_ts(&out->builder, timestamp);
	out->timestamp = timestamp;
}

/* Begins a place for a payload of so many bytes; true if it is to be copied. */
static bool place_payload(struct apus_dp_out *out, const struct apus_dp_addr *to,
			  const struct apus_prefix *dest, struct apus_wall timestamp,
			  uint32_t payload_bytes, const struct apus_wire_inline_out *qos)
{
	bool marked = qos->coherent_seq || qos->group_seq || qos->related_guid;
	uint32_t bytes = DATA_BYTES + (marked ? MARKS_BYTES : 0) + qos->filter_info_bytes +
			 qos->qos_list_bytes + apus_wire_padded(payload_bytes);
	/* The longest inline QoS leaves no room to copy the longest payload. */
	bool copy = payload_bytes <= out->copy_bytes &&
		    APUS_WIRE_HEADER_BYTES + CONTEXT_BYTES + bytes <= room_of(out);

	if (!fits(out, to, dest, copy ? bytes : out->pack_bytes))
		open_datagram(out, to);
	set_dest(out, dest);
	set_timestamp(out, timestamp);
	return copy;
}

static void refer_payload(struct apus_dp_out *out, const uint8_t *payload)
{
	out->split = out->builder.length;
	out->external = payload;
}

void apus_dp_out_data(struct apus_dp_out *out, const struct apus_dp_addr *to,
		      const struct apus_prefix *dest, struct apus_wall timestamp,
		      struct apus_wire_data_out *data)
{
	bool copy = place_payload(out, to, dest, timestamp, data->payload_bytes, &data->qos);
	const uint8_t *payload = data->payload;

	if (!copy)
		data->payload = NULL;
	if (apus_wire_data(&out->builder, data) == 0 && !copy)
		refer_payload(out, payload);
}

void apus_dp_out_run(struct apus_dp_out *out, struct apus_dp_out_run *run,
		     struct apus_wall timestamp, apus_seq seq, const uint8_t *payload,
		     uint32_t payload_bytes)
{
	static const struct apus_wire_inline_out none;

	/* What the one before it has made sure of holds until the datagram is full. */
	if (!run->begun || !out->open || out->timestamp.ns != timestamp.ns ||
	    out->builder.length + DATA_BYTES + CONTEXT_BYTES + payload_bytes + 3 > out->pack_bytes)
		(void)place_payload(out, run->to, run->dest, timestamp, payload_bytes, &none);
	run->begun = true;
	(void)apus_wire_plain_data(&out->builder, run->reader, run->writer, seq, payload,
				   payload_bytes);
}

void apus_dp_out_frag(struct apus_dp_out *out, const struct apus_dp_addr *to,
		      const struct apus_prefix *dest, struct apus_wall timestamp,
		      struct apus_wire_data_frag_out *frag)
{
	bool copy = place_payload(out, to, dest, timestamp, frag->payload_bytes, &frag->qos);
	const uint8_t *payload = frag->payload;

	if (!copy)
		frag->payload = NULL;
	if (apus_wire_data_frag(&out->builder, frag) == 0 && !copy)
		refer_payload(out, payload);
}
