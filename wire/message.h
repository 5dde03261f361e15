/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RTPS messages (RTPS 2.5 §8.3, §9.4): an iterator over the submessages of a received datagram, and a
 * builder that writes one.
 *
 * Both are values in the caller's memory and pure: no I/O, allocation, clock or global, any thread.
 *
 * Parsing. apus_wire_open() checks the header, each apus_wire_next() one submessage. Pointers in a
 * submessage lead into the datagram and live as long as it does. Every length was proved against what
 * remains; sequence and fragment numbers obey §8.3.8, sequence numbers also APUS_WIRE_SEQ_MAX. After MALFORMED the rest of the datagram is not
 * trusted and the iterator is at its end. Cost: linear in the datagram.
 *
 * Building. Always little-endian, protocol version 2.3. A payload may stay outside the builder's
 * buffer: the submessage header accounts for it and the caller gathers it (see apus_wire_data()).
 *
 * Left out on purpose: HEADER_EXTENSION (0x00) and secure submessages (0x30 … 0x34) are skipped.
 */
#ifndef APUS_WIRE_MESSAGE_H
#define APUS_WIRE_MESSAGE_H

#include "base/clock.h"
#include "base/guid.h"
#include "wire/time.h"
#include "wire/verdict.h"

/* --- Submessages (RTPS 2.5 §9.4.5.1.1) ------------------------------------------------------------ */

enum apus_wire_id {
	APUS_WIRE_PAD = 0x01,
	APUS_WIRE_ACKNACK = 0x06,
	APUS_WIRE_HEARTBEAT = 0x07,
	APUS_WIRE_GAP = 0x08,
	APUS_WIRE_INFO_TS = 0x09,
	APUS_WIRE_INFO_SRC = 0x0c,
	APUS_WIRE_INFO_REPLY_IP4 = 0x0d,
	APUS_WIRE_INFO_DST = 0x0e,
	APUS_WIRE_INFO_REPLY = 0x0f,
	APUS_WIRE_NACK_FRAG = 0x12,
	APUS_WIRE_HEARTBEAT_FRAG = 0x13,
	APUS_WIRE_DATA = 0x15,
	APUS_WIRE_DATA_FRAG = 0x16,
};

#define APUS_WIRE_HEADER_BYTES    20
#define APUS_WIRE_SUBHEADER_BYTES 4
/** Highest sequence number accepted: sums with a set's 256 bits never overflow (our limit). */
#define APUS_WIRE_SEQ_MAX (INT64_MAX - APUS_WIRE_SET_BITS)
/** SEQUENCENUMBER_UNKNOWN (RTPS 2.5 §9.4.2.5 {-1, 0}): as PID_COHERENT_SET it marks the end of a set. */
#define APUS_WIRE_SEQ_UNKNOWN (-(INT64_C(1) << 32))
/** Bits of a sequence-number or fragment-number set (RTPS 2.5 §9.4.2.6). */
#define APUS_WIRE_SET_BITS 256

/** Status info bits (RTPS 2.5 §9.6.4.9). */
#define APUS_WIRE_STATUS_DISPOSED     0x1u
#define APUS_WIRE_STATUS_UNREGISTERED 0x2u
#define APUS_WIRE_STATUS_FILTERED     0x8u

/** Vendors whose habits matter here. */
#define APUS_WIRE_VENDOR_FASTDDS 0x010f
#define APUS_WIRE_VENDOR_CYCLONE 0x0110

/** Sequence numbers base + i for each set bit i < num_bits; bit 0 is the most significant of word 0. */
struct apus_wire_seqset {
	apus_seq base;
	uint32_t num_bits; /**< 0 … 256; words beyond it are 0 */
	uint32_t bitmap[APUS_WIRE_SET_BITS / 32];
};

/** Fragment numbers, likewise. */
struct apus_wire_fragset {
	uint32_t base;
	uint32_t num_bits;
	uint32_t bitmap[APUS_WIRE_SET_BITS / 32];
};

static inline bool apus_wire_bit_test(const uint32_t *bitmap, uint32_t bit_idx)
{
	return bitmap[bit_idx / 32] >> (31 - bit_idx % 32) & 1;
}

static inline void apus_wire_bit_set(uint32_t *bitmap, uint32_t bit_idx)
{
	bitmap[bit_idx / 32] |= UINT32_C(1) << (31 - bit_idx % 32);
}

/** Whether seq is in the set. */
static inline bool apus_wire_seqset_test(const struct apus_wire_seqset *set, apus_seq seq)
{
	return seq >= set->base && seq - set->base < (apus_seq)set->num_bits &&
	       apus_wire_bit_test(set->bitmap, (uint32_t)(seq - set->base));
}

/** Adds seq, growing num_bits. False if it lies outside base … base + 255: the set is unchanged. */
static inline bool apus_wire_seqset_add(struct apus_wire_seqset *set, apus_seq seq)
{
	if (seq < set->base || seq - set->base >= APUS_WIRE_SET_BITS)
		return false;
	uint32_t bit_idx = (uint32_t)(seq - set->base);

	apus_wire_bit_set(set->bitmap, bit_idx);
	if (bit_idx >= set->num_bits)
		set->num_bits = bit_idx + 1;
	return true;
}

/** Whether fragment number frag is in the set. */
static inline bool apus_wire_fragset_test(const struct apus_wire_fragset *set, uint32_t frag)
{
	return frag >= set->base && frag - set->base < set->num_bits &&
	       apus_wire_bit_test(set->bitmap, frag - set->base);
}

/** Adds frag like apus_wire_seqset_add(). */
static inline bool apus_wire_fragset_add(struct apus_wire_fragset *set, uint32_t frag)
{
	if (frag < set->base || frag - set->base >= APUS_WIRE_SET_BITS)
		return false;
	uint32_t bit_idx = frag - set->base;

	apus_wire_bit_set(set->bitmap, bit_idx);
	if (bit_idx >= set->num_bits)
		set->num_bits = bit_idx + 1;
	return true;
}

/* --- Receiving ------------------------------------------------------------------------------------ */

/** State of the Receiver that submessages are interpreted under (RTPS 2.5 §8.3.4). */
struct apus_wire_receiver {
	uint8_t version_major;
	uint8_t version_minor;
	uint16_t vendor;            /**< of the source, e.g. 0x0110 */
	struct apus_prefix source;  /**< participant the following submessages come from */
	struct apus_prefix dest;    /**< valid if has_dest */
	bool has_dest;              /**< false: for every participant that gets the datagram */
	struct apus_wall timestamp; /**< APUS_WALL_NONE: the sender gave none */
	struct apus_locator unicast_reply;   /**< kind 0: none given, reply to the known locators */
	struct apus_locator multicast_reply; /**< kind 0: none given */
};

/** Inline QoS of DATA and DATA_FRAG (RTPS 2.5 §8.7, §9.6.4), decoded as far as it concerns us. */
struct apus_wire_inline_qos {
	const uint8_t *list; /**< the raw parameter list with its sentinel; NULL: no inline QoS */
	uint32_t list_bytes;
	bool has_key_hash;
	bool has_status_info;
	bool has_related;
	uint8_t key_hash[16];
	uint32_t status_info;          /**< APUS_WIRE_STATUS_… bits; 0 unless has_status_info */
	struct apus_guid related_guid; /**< PID_RELATED_SAMPLE_IDENTITY: the writer … */
	apus_seq related_seq; /**< … and its sample, valid if has_related; untrusted value */
	const uint8_t *filter_info; /**< raw ContentFilterInfo_t (byte order of the submessage) … */
	uint32_t filter_info_bytes; /**< … 0: none */
	const uint8_t *directed;    /**< PID_DIRECTED_WRITE: raw list of reader GUIDs, NULL: none */
	uint32_t directed_bytes;
	/** PID_COHERENT_SET: first sample of the set; APUS_WIRE_SEQ_UNKNOWN: the set ends; 0: none. Untrusted,
	 *  as the next two. */
	apus_seq coherent_seq;
	apus_seq group_coherent_seq; /**< PID_GROUP_COHERENT_SET; 0: none */
	apus_seq group_seq;          /**< PID_GROUP_SEQ_NUM; 0: none */
};

/** DATA (RTPS 2.5 §8.3.8.2). */
struct apus_wire_data {
	struct apus_eid reader; /**< 0: every matched reader */
	struct apus_eid writer;
	apus_seq seq; /**< > 0 */
	const uint8_t *
		payload; /**< with its encapsulation header, ≥ 4 bytes; NULL: none (no flag D, K) */
	uint32_t payload_bytes;
	bool key_only; /**< flag K: the payload is the serialised key */
	struct apus_wire_inline_qos qos;
};

/** DATA_FRAG (RTPS 2.5 §8.3.8.3): fragments first … first + count - 1 of one sample. */
struct apus_wire_data_frag {
	struct apus_eid reader;
	struct apus_eid writer;
	apus_seq seq;            /**< > 0 */
	uint32_t first;          /**< fragment number, ≥ 1 */
	uint16_t count;          /**< ≥ 1; first + count - 1 ≤ fragments of the sample */
	uint16_t fragment_bytes; /**< size of every fragment but the last, 1 … sample_bytes */
	uint32_t sample_bytes;   /**< whole serialised sample, encapsulation header included */
	const uint8_t *payload; /**< goes to offset (first - 1) * fragment_bytes of the sample … */
	uint32_t payload_bytes; /**< … and fits it exactly: never beyond sample_bytes */
	bool key_only;
	struct apus_wire_inline_qos qos;
};

/** HEARTBEAT (RTPS 2.5 §8.3.8.6). Group information behind it is passed over. */
struct apus_wire_heartbeat {
	struct apus_eid reader;
	struct apus_eid writer;
	apus_seq first; /**< > 0 */
	apus_seq last;  /**< ≥ first - 1; first - 1: nothing available */
	uint32_t count; /**< compare modulo 2^32: apus_wire_count_newer() */
	bool final;
	bool liveliness;
};

/** HEARTBEAT_FRAG (RTPS 2.5 §8.3.8.7): fragments 1 … last of seq are available. */
struct apus_wire_heartbeat_frag {
	struct apus_eid reader;
	struct apus_eid writer;
	apus_seq seq;  /**< > 0 */
	uint32_t last; /**< ≥ 1 */
	uint32_t count;
};

/** GAP (RTPS 2.5 §8.3.8.4): start … set.base - 1 and the members of set are irrelevant. set.base may
 *  be ≤ start, then only the members are. start - set.base may be huge: never loop over it. */
struct apus_wire_gap {
	struct apus_eid reader;
	struct apus_eid writer;
	apus_seq start;              /**< > 0 */
	struct apus_wire_seqset set; /**< base > 0 */
};

/** ACKNACK (RTPS 2.5 §8.3.8.1): all below set.base is acknowledged, the members are wanted again.
 *  Interop: Fast DDS opens with base 0 and no bits; passed on as it is and acknowledges nothing. */
struct apus_wire_acknack {
	struct apus_eid reader;
	struct apus_eid writer;
	struct apus_wire_seqset set;
	uint32_t count;
	bool final;
};

/** NACK_FRAG (RTPS 2.5 §8.3.8.10): the members of set are wanted again. */
struct apus_wire_nack_frag {
	struct apus_eid reader;
	struct apus_eid writer;
	apus_seq seq;                 /**< > 0 */
	struct apus_wire_fragset set; /**< base > 0 */
	uint32_t count;
};

/** One submessage. Valid after ACCEPT; after SKIP and MALFORMED only id, flags, offset and bytes. The
 *  INFO_… kinds have no member: what they said stands in the message's receiver. */
struct apus_wire_submessage {
	uint8_t id;      /**< enum apus_wire_id, or anything else with SKIP */
	uint8_t flags;   /**< as on the wire; bit 0: little-endian */
	uint32_t offset; /**< of the submessage header in the datagram */
	uint32_t bytes;  /**< behind the submessage header */
	union {
		struct apus_wire_data data;
		struct apus_wire_data_frag data_frag;
		struct apus_wire_heartbeat heartbeat;
		struct apus_wire_heartbeat_frag heartbeat_frag;
		struct apus_wire_gap gap;
		struct apus_wire_acknack acknack;
		struct apus_wire_nack_frag nack_frag;
	};
};

/** Most samples of a run. */
#define APUS_WIRE_RUN_MAX 64

/** DATA of one writer to the same reader one behind the other, of consecutive numbers and without inline QoS: what
 *  batches of samples are, and single samples mostly. */
struct apus_wire_run {
	struct apus_eid reader; /**< 0: every matched reader */
	struct apus_eid writer;
	apus_seq first; /**< > 0; first + count - 1 ≤ APUS_WIRE_SEQ_MAX */
	uint32_t count;
	/** With encapsulation header, ≥ 4 bytes each, as in struct apus_wire_data. */
	const uint8_t *payload[APUS_WIRE_RUN_MAX];
	uint32_t payload_bytes[APUS_WIRE_RUN_MAX];
};

/** One sample of a run as apus_wire_next() gives it. */
static inline void apus_wire_run_data(const struct apus_wire_run *run, uint32_t idx,
				      struct apus_wire_data *out)
{
	*out = (struct apus_wire_data){.reader = run->reader,
				       .writer = run->writer,
				       .seq = run->first + idx,
				       .payload = run->payload[idx],
				       .payload_bytes = run->payload_bytes[idx]};
}

/** Iterator over one datagram. Only receiver is for the caller. */
struct apus_wire_message {
	struct apus_wire_receiver receiver;
	const uint8_t *bytes;
	uint32_t length;
	uint32_t offset; /* of the next submessage header; == length: at the end */
};

/**
 * Starts on a datagram of `bytes` bytes, which must stay unchanged until the last use of a submessage.
 * Cuts nothing, copies nothing. datagram is hostile and need not be aligned.
 *
 * ACCEPT: m is ready. SKIP: not RTPS (first four bytes; Cyclone DDS sends such datagrams of one byte)
 * or another major version (§8.3.6.3). MALFORMED: a header cut short, or 4 GiB and more. Except for
 * ACCEPT apus_wire_next(m) gives END.
 */
enum apus_wire_verdict apus_wire_open(struct apus_wire_message *m, const uint8_t *datagram,
				      size_t bytes);

/**
 * Takes the next submessage and, where it is an INFO_… kind, applies it to m->receiver.
 *
 * ACCEPT: *out is complete. SKIP: unknown or vendor submessage, one with a must-understand parameter
 * we do not know, or a payload format that is not ours (flag N); go on. MALFORMED: as said at the top,
 * the next call gives END. END: nothing left, *out is untouched.
 */
enum apus_wire_verdict apus_wire_next(struct apus_wire_message *m,
				      struct apus_wire_submessage *out);

/**
 * Takes a run from where the iterator is, in one go. Returns how many samples it has; 0: what comes next is something
 * else (or the end), is for apus_wire_next(), and neither *m nor *out mean anything new. Never needed: whatever it
 * takes, apus_wire_next() would have taken as so many DATA with the same contents. O(what is taken).
 */
uint32_t apus_wire_next_run(struct apus_wire_message *m, struct apus_wire_run *out);

/**
 * Is all from head_bytes to head_bytes + payload_bytes of a datagram of `bytes` bytes payload of one DATA_FRAG without
 * inline QoS? Only the first head_bytes are read; if true, apus_wire_next() reads nothing of the rest in question,
 * which may be anything. For receivers that scatter.
 */
bool apus_wire_is_frag_payload(const uint8_t *datagram, uint32_t bytes, uint32_t head_bytes,
			       uint32_t payload_bytes);

/** Whether count a is newer than b (Count_t wraps: RTPS 2.5 §8.4.15.7). */
static inline bool apus_wire_count_newer(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0;
}

/** Iterator over the raw parameters of a list that apus_wire_next() has accepted (tools and tests). */
struct apus_wire_parameter {
	uint16_t pid;
	uint16_t bytes;
	const uint8_t *value;
};

/**
 * Takes the parameter at *offset_bytes (0 at first) of an inline QoS list and advances it. False at the
 * sentinel, or where the list does not hold up. little_endian: bit 0 of the submessage's flags.
 */
bool apus_wire_parameter_next(const uint8_t *list, uint32_t list_bytes, bool little_endian,
			      uint32_t *offset_bytes, struct apus_wire_parameter *out);

/* --- Sending -------------------------------------------------------------------------------------- */

/** Builder of one datagram in the caller's buffer. Read-only for the caller. */
struct apus_wire_builder {
	uint8_t *bytes;
	uint32_t capacity;
	uint32_t length;         /**< bytes in use in the buffer */
	uint32_t external_bytes; /**< payload bytes accounted for that the caller gathers */
};

/** Bytes of the datagram so far, external payloads included. */
static inline size_t apus_wire_datagram_bytes(const struct apus_wire_builder *b)
{
	return (size_t)b->length + b->external_bytes;
}

/** A payload's bytes on the wire: submessages are multiples of 4. */
static inline uint32_t apus_wire_padded(uint32_t payload_bytes)
{
	return (payload_bytes + 3) & ~UINT32_C(3);
}

/** Inline QoS to write; a NULL or 0 member is left out. An all-zero struct writes none. */
struct apus_wire_inline_out {
	const uint8_t *key_hash;              /**< 16 bytes */
	uint32_t status_info;                 /**< APUS_WIRE_STATUS_… bits */
	const struct apus_guid *related_guid; /**< PID_RELATED_SAMPLE_IDENTITY (0x0083) */
	apus_seq related_seq;                 /**< with related_guid */
	const uint8_t *filter_info;           /**< little-endian ContentFilterInfo_t */
	uint32_t filter_info_bytes;           /**< multiple of 4, ≤ 65532 */
	apus_seq coherent_seq;                /**< PID_COHERENT_SET, > 0 or …_UNKNOWN */
	apus_seq group_coherent_seq;          /**< PID_GROUP_COHERENT_SET, > 0 */
	apus_seq group_seq;                   /**< PID_GROUP_SEQ_NUM, > 0 */
	const uint8_t *qos_list; /**< little-endian parameters to be put first, as they are */
	uint32_t qos_list_bytes; /**< multiple of 4, ≤ 1024 */
	/** Interop: the related sample stands in PID 0x800f instead, which Fast DDS 2.9.1 knows. */
	bool related_fastdds;
};

/** DATA to write. */
struct apus_wire_data_out {
	struct apus_eid reader;
	struct apus_eid writer;
	apus_seq seq;           /**< > 0 */
	const uint8_t *payload; /**< copied into the buffer; NULL: the caller gathers it */
	uint32_t payload_bytes; /**< 0: no payload at all; else ≥ 4 with its encapsulation header */
	bool key_only;          /**< flag K instead of D */
	struct apus_wire_inline_out qos;
};

/** DATA_FRAG to write: fragments first … first + count - 1. payload is where they start in the sample
 *  (copied), or NULL: the caller gathers. payload_bytes is what those fragments cover. */
struct apus_wire_data_frag_out {
	struct apus_eid reader;
	struct apus_eid writer;
	apus_seq seq;            /**< > 0 */
	uint32_t first;          /**< ≥ 1 */
	uint16_t count;          /**< ≥ 1 */
	uint16_t fragment_bytes; /**< multiple of 4 */
	uint32_t sample_bytes;
	const uint8_t *payload;
	uint32_t payload_bytes;
	bool key_only;
	struct apus_wire_inline_out qos;
};

/*
 * All of the following return 0, APUS_ELIMIT (does not fit the capacity, or 64 KiB a submessage) or
 * APUS_EINVAL (a number outside the range its struct states: our own mistake). On failure nothing is
 * written and the builder is as before.
 */

/** Starts a datagram in buffer (capacity bytes, any alignment) with the header of participant `own`. */
int apus_wire_begin(struct apus_wire_builder *b, uint8_t *buffer, size_t capacity,
		    const struct apus_prefix *own);

/** INFO_TS; APUS_WALL_NONE (or a time before 1970 or after 2106) writes the invalidating form. */
int apus_wire_info_ts(struct apus_wire_builder *b, struct apus_wall timestamp);

/** INFO_DST; NULL writes GUIDPREFIX_UNKNOWN, that is for everybody. */
int apus_wire_info_dst(struct apus_wire_builder *b, const struct apus_prefix *dest);

/** INFO_SRC: what follows comes from another participant (version 2.3, given vendor). */
int apus_wire_info_src(struct apus_wire_builder *b, const struct apus_prefix *source,
		       uint16_t vendor);

/** INFO_REPLY with one unicast and, if not NULL, one multicast locator. */
int apus_wire_info_reply(struct apus_wire_builder *b, const struct apus_locator *unicast,
			 const struct apus_locator *multicast);

/** INFO_REPLY_IP4, likewise; both must be of kind UDPv4. */
int apus_wire_info_reply_ip4(struct apus_wire_builder *b, const struct apus_locator *unicast,
			     const struct apus_locator *multicast);

/** PAD of `bytes` zero bytes behind its header, a multiple of 4. */
int apus_wire_pad(struct apus_wire_builder *b, uint32_t bytes);

/**
 * DATA (RTPS 2.5 §9.4.5.4).
 *
 * Payload outside (payload NULL, payload_bytes > 0): the caller sends a gather of the buffer up to
 * b->length at this point, then apus_wire_padded(payload_bytes) bytes of payload, then whatever is
 * built later. So the memory behind an external payload must be readable up to the next multiple of
 * 4; whoever serialised it has zeroed those bytes and set the padding bits of the encapsulation options.
 * A copied payload is padded with zeros here.
 */
int apus_wire_data(struct apus_wire_builder *b, const struct apus_wire_data_out *data);

/** The same as apus_wire_data() for what most samples are, in less time: no inline QoS, `payload` (≥ 4 bytes with its
 *  encapsulation header, no key) is copied. */
int apus_wire_plain_data(struct apus_wire_builder *b, struct apus_eid reader,
			 struct apus_eid writer, apus_seq seq, const uint8_t *payload,
			 uint32_t payload_bytes);

/** DATA_FRAG (RTPS 2.5 §9.4.5.5); payload as for apus_wire_data(). */
int apus_wire_data_frag(struct apus_wire_builder *b, const struct apus_wire_data_frag_out *frag);

int apus_wire_heartbeat(struct apus_wire_builder *b, const struct apus_wire_heartbeat *heartbeat);
int apus_wire_heartbeat_frag(struct apus_wire_builder *b,
			     const struct apus_wire_heartbeat_frag *heartbeat);
int apus_wire_gap(struct apus_wire_builder *b, const struct apus_wire_gap *gap);
int apus_wire_acknack(struct apus_wire_builder *b, const struct apus_wire_acknack *acknack);
int apus_wire_nack_frag(struct apus_wire_builder *b, const struct apus_wire_nack_frag *nack);

#endif
