/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outgoing datagrams of one worker: submessages are packed into datagrams, datagrams into bursts.
 *
 * A caller says where a submessage goes; as long as the address stays the same and there is room it
 * joins the datagram under construction, else that one is closed and the next begun. INFO_DST and
 * INFO_TS are written only when they change. Payloads up to `copy_bytes` are copied; larger
 * ones are referenced where they lie and sent before flush returns, which happens when the burst is
 * full and at the end of every turn. So a slot must stay untouched until the end of the turn, which the
 * turn guarantees.
 *
 * Owned by the holder of the worker's turn. Nothing allocates after init.
 */
#ifndef APUS_DATAPLANE_OUT_H
#define APUS_DATAPLANE_OUT_H

#include "dataplane/io/transport.h"
#include "wire/message.h"

/** Datagrams of one burst: what one system call takes. */
#define APUS_DP_OUT_BURST 64
/** Room for headers and copied payloads of a datagram that is not packed. */
#define APUS_DP_OUT_BUFFER_BYTES 2304
/** Room for headers and copied payloads of all datagrams of a burst. */
#define APUS_DP_OUT_ARENA_BYTES (192 * 1024)
/** Payloads up to this size are copied into the datagram: over links of the ordinary packet size … */
#define APUS_DP_OUT_COPY_BYTES 2048
/** … and of large packets: what a copy of so many costs is less than what a second part costs the kernel. */
#define APUS_DP_OUT_COPY_LARGE_BYTES 8192
/** Packing stops here, so that packed datagrams fit an Ethernet frame: 1500 less IPv4 and UDP headers. */
#define APUS_DP_OUT_PACK_BYTES 1472
/** The same over links that carry datagrams of at least this size: fewer, and still no large part of a
 *  receive buffer. */
#define APUS_DP_OUT_PACK_LARGE_BYTES 16384

struct apus_dp_out {
	struct apus_dp_queue *queue;
	/** Asked before a datagram for one participant leaves; false: it stays here, which is a loss like any
	 *  other. NULL: everything leaves. With it a datagram is for one participant only. */
	bool (*may_send)(void *user, const struct apus_prefix *dest, uint32_t bytes);
	void *may_send_user;
	struct apus_counter withheld; /* datagrams it refused */
	int16_t interface_idx;        /* through which multicast leaves; see apus_dp_tx */
	struct apus_prefix own;
	uint32_t count; /* closed datagrams waiting for flush */
	bool open;      /* one more is under construction in place `count` */
	bool has_dest;
	struct apus_prefix dest;    /* INFO_DST in force */
	struct apus_wall timestamp; /* INFO_TS in force */
	uint32_t split;             /* buffer bytes in front of an external payload; 0 = none */
	const uint8_t *external;
	struct apus_wire_builder builder;
	struct apus_counter datagrams, bytes;
	struct apus_dp_tx tx[APUS_DP_OUT_BURST];
	uint32_t copy_bytes; /* payloads up to this size are copied */
	uint32_t pack_bytes; /* a datagram takes no more submessages beyond it */
	uint32_t used;       /* bytes of the arena that closed datagrams take */
	_Alignas(8) uint8_t arena[APUS_DP_OUT_ARENA_BYTES];
};

/** Prepares an empty output on a queue. packet_bytes: payload of the largest datagram that the link carries
 *  in one piece. */
void apus_dp_out_init(struct apus_dp_out *out, struct apus_dp_queue *queue,
		      const struct apus_prefix *own, uint32_t packet_bytes);

/**
 * Returns a builder with room for `bytes` more bytes of submessages in a datagram to `to`, whose INFO_DST
 * says `dest` (NULL: everybody). Valid until the next call on `out`. bytes ≤ 1024.
 */
struct apus_wire_builder *apus_dp_out_at(struct apus_dp_out *out, const struct apus_dp_addr *to,
					 const struct apus_prefix *dest, uint32_t bytes);

/**
 * Adds a DATA whose payload (data->payload, payload_bytes) lies in a slot; see the head of this file for
 * when it is copied. timestamp is what INFO_TS must say. Afterwards data->payload may be NULL.
 */
void apus_dp_out_data(struct apus_dp_out *out, const struct apus_dp_addr *to,
		      const struct apus_prefix *dest, struct apus_wall timestamp,
		      struct apus_wire_data_out *data);

/** What the DATA of a run have in common: whom they are for, and whose they are. */
struct apus_dp_out_run {
	const struct apus_dp_addr *to;
	const struct apus_prefix *dest; /* NULL: everybody */
	struct apus_eid reader, writer;
	bool begun; /* false at first: nothing has been put */
};

/** Adds one as apus_dp_out_data() would, without inline QoS, of at most out->copy_bytes; between two calls for a run
 *  there must be no other on `out`. */
void apus_dp_out_run(struct apus_dp_out *out, struct apus_dp_out_run *run,
		     struct apus_wall timestamp, apus_seq seq, const uint8_t *payload,
		     uint32_t payload_bytes);

/** Adds a DATA_FRAG likewise; frag->payload is where its fragments start in the sample. */
void apus_dp_out_frag(struct apus_dp_out *out, const struct apus_dp_addr *to,
		      const struct apus_prefix *dest, struct apus_wall timestamp,
		      struct apus_wire_data_frag_out *frag);

/** Sets the interface through which multicast leaves from here on; -1, the default, is the first. */
void apus_dp_out_interface(struct apus_dp_out *out, int16_t interface_idx);

/** Sends everything. Called at the end of each turn and whenever the burst is full. */
void apus_dp_out_flush(struct apus_dp_out *out);

#endif
