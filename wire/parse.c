/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parsing of RTPS messages. One function a submessage kind takes its fields with a bounded cursor and
 * ends in the validity rules of RTPS 2.5 §8.3.8; the iterator around them knows only headers and
 * lengths. Bytes behind the fields we know are passed over: later minor versions append there.
 */
#include "wire/message.h"

#include "wire/bytes.h"

#define FLAG_LITTLE     0x01u
#define FLAG_DATA_Q     0x02u
#define FLAG_DATA_D     0x04u
#define FLAG_DATA_K     0x08u
#define FLAG_DATA_N     0x10u
#define FLAG_FRAG_Q     0x02u
#define FLAG_FRAG_K     0x04u
#define FLAG_FRAG_N     0x08u
#define FLAG_FINAL      0x02u
#define FLAG_LIVELINESS 0x04u
#define FLAG_INVALIDATE 0x02u
#define FLAG_MULTICAST  0x02u

/* Parameter ids: 0x8000 marks a vendor's, 0x4000 is "must understand" (RTPS 2.5 §9.6.4.1). */
#define PID_VENDOR          0x8000u
#define PID_MUST_UNDERSTAND 0x4000u
#define PID_PAD             0x0000u
#define PID_SENTINEL        0x0001u
#define PID_FASTDDS_RELATED 0x800fu

static struct apus_eid take_eid(struct apus_wire_cursor *r)
{
	const uint8_t *p = apus_wire_take(r, 4);

	return (struct apus_eid){p ? apus_wire_load_u32(p, false) : 0};
}

/* High word signed, then low word (RTPS 2.5 §9.3.2.3). */
static apus_seq take_seq(struct apus_wire_cursor *r)
{
	uint64_t high = apus_wire_take_u32(r);

	return (apus_seq)(high << 32 | apus_wire_take_u32(r));
}

static bool seq_valid(apus_seq seq)
{
	return seq > 0 && seq <= APUS_WIRE_SEQ_MAX;
}

/* num_bits and the words behind it; whatever stands beyond num_bits in the last word is cleared. */
static void take_bitmap(struct apus_wire_cursor *r, uint32_t *num_bits, uint32_t *bitmap)
{
	uint32_t bits = apus_wire_take_u32(r);
	uint32_t words = (bits + 31) / 32;

	if (bits > APUS_WIRE_SET_BITS) {
		r->failed = true;
		return;
	}
	memset(bitmap, 0, APUS_WIRE_SET_BITS / 8);
	for (uint32_t i = 0; i < words; i++)
		bitmap[i] = apus_wire_take_u32(r);
	if (bits % 32)
		bitmap[words - 1] &= ~(UINT32_MAX >> bits % 32);
	*num_bits = bits;
}

static void take_seqset(struct apus_wire_cursor *r, struct apus_wire_seqset *set)
{
	set->base = take_seq(r);
	take_bitmap(r, &set->num_bits, set->bitmap);
}

static void take_fragset(struct apus_wire_cursor *r, struct apus_wire_fragset *set)
{
	set->base = apus_wire_take_u32(r);
	take_bitmap(r, &set->num_bits, set->bitmap);
}

static void take_locator(struct apus_wire_cursor *r, struct apus_locator *locator)
{
	locator->kind = (int32_t)apus_wire_take_u32(r);
	locator->port = apus_wire_take_u32(r);
	apus_wire_take_bytes(r, locator->address, 16);
}

/* --- Inline QoS ----------------------------------------------------------------------------------- */

bool apus_wire_parameter_next(const uint8_t *list, uint32_t list_bytes, bool little_endian,
			      uint32_t *offset_bytes, struct apus_wire_parameter *out)
{
	if (*offset_bytes > list_bytes)
		return false;
	struct apus_wire_cursor r = apus_wire_cursor_make(
		list + *offset_bytes, list_bytes - *offset_bytes, little_endian);
	struct apus_wire_parameter p;

	p.pid = apus_wire_take_u16(&r);
	p.bytes = apus_wire_take_u16(&r);
	p.value = apus_wire_take(&r, p.bytes);
	if (r.failed || p.pid == PID_SENTINEL)
		return false;
	*offset_bytes = (uint32_t)(r.at - list);
	*out = p;
	return true;
}

/*
 * The parameters of the specification that may stand in inline QoS (RTPS 2.5 table 9.18), by which
 * "must understand" is judged: those decoded below, and the policies of the writer, which a reader
 * knows from discovery already.
 */
static bool pid_known(uint16_t pid)
{
	switch (pid & ~PID_MUST_UNDERSTAND) {
	case PID_PAD:
	case 0x0005: /* topic name */
	case 0x0006: /* ownership strength */
	case 0x001a: /* reliability */
	case 0x001b: /* liveliness */
	case 0x001d: /* durability */
	case 0x001f: /* ownership */
	case 0x0021: /* presentation */
	case 0x0023: /* deadline */
	case 0x0025: /* destination order */
	case 0x0027: /* latency budget */
	case 0x0029: /* partition */
	case 0x002b: /* lifespan */
	case 0x0049: /* transport priority */
	case 0x0055: /* content filter info */
	case 0x0056: /* coherent set */
	case 0x0057: /* directed write */
	case 0x0061: /* original writer info */
	case 0x0063: /* group coherent set */
	case 0x0064: /* group sequence number */
	case 0x0070: /* key hash */
	case 0x0071: /* status info */
	case 0x0083: /* related sample identity */ return true;
	default: return false;
	}
}

static void take_related(struct apus_wire_cursor *r, struct apus_wire_inline_qos *qos)
{
	apus_wire_take_bytes(r, qos->related_guid.bytes, 16);
	qos->related_seq = take_seq(r);
	qos->has_related = true;
}

/* Decodes one parameter; a value too short for its kind fails the cursor. */
static void take_parameter(uint16_t pid, struct apus_wire_cursor *r, uint16_t vendor,
			   struct apus_wire_inline_qos *qos)
{
	if (pid & PID_VENDOR) {
		/* Interop: Fast DDS (2.9.1) has this number for what became 0x0083. */
		if (pid == PID_FASTDDS_RELATED && vendor == APUS_WIRE_VENDOR_FASTDDS)
			take_related(r, qos);
		return;
	}
	switch (pid & ~PID_MUST_UNDERSTAND) {
	case 0x0055:
		qos->filter_info = r->at;
		qos->filter_info_bytes = (uint32_t)apus_wire_cursor_left(r);
		break;
	case 0x0056: qos->coherent_seq = take_seq(r); break;
	case 0x0057:
		qos->directed = r->at;
		qos->directed_bytes = (uint32_t)apus_wire_cursor_left(r);
		break;
	case 0x0063: qos->group_coherent_seq = take_seq(r); break;
	case 0x0064: qos->group_seq = take_seq(r); break;
	case 0x0070:
		apus_wire_take_bytes(r, qos->key_hash, 16);
		qos->has_key_hash = true;
		break;
	case 0x0071:
		/* Four octets, flags in the last, whatever the byte order (RTPS 2.5 §9.6.4.9). */
		r->little = false;
		qos->status_info = apus_wire_take_u32(r);
		qos->has_status_info = true;
		break;
	case 0x0083: take_related(r, qos); break;
	}
}

/* Walks the list to its sentinel, which must be there; r ends behind it (RTPS 2.5 §9.4.2.11). */
static enum apus_wire_verdict take_inline_qos(struct apus_wire_cursor *r, uint16_t vendor,
					      struct apus_wire_inline_qos *qos)
{
	enum apus_wire_verdict verdict = APUS_WIRE_ACCEPT;

	qos->list = r->at;
	for (;;) {
		uint16_t pid = apus_wire_take_u16(r);
		uint16_t bytes = apus_wire_take_u16(r);

		if (r->failed)
			return APUS_WIRE_MALFORMED;
		if (pid == PID_SENTINEL)
			break;
		const uint8_t *value = apus_wire_take(r, bytes);

		if (!value || bytes % 4)
			return APUS_WIRE_MALFORMED;
		struct apus_wire_cursor v = apus_wire_cursor_make(value, bytes, r->little);

		take_parameter(pid, &v, vendor, qos);
		if (v.failed)
			return APUS_WIRE_MALFORMED;
		if ((pid & PID_MUST_UNDERSTAND) && !(pid & PID_VENDOR) && !pid_known(pid))
			verdict = APUS_WIRE_SKIP;
	}
	qos->list_bytes = (uint32_t)(r->at - qos->list);
	return verdict;
}

/* --- Data ----------------------------------------------------------------------------------------- */

static enum apus_wire_verdict parse_data(const struct apus_wire_message *m, uint8_t flags,
					 struct apus_wire_cursor *r, struct apus_wire_data *d)
{
	enum apus_wire_verdict verdict = APUS_WIRE_ACCEPT;
	uint16_t to_inline_qos;
	struct apus_wire_cursor fields;

	memset(&d->qos, 0, sizeof(d->qos));
	(void)apus_wire_take_u16(r); /* extra flags: none defined */
	to_inline_qos = apus_wire_take_u16(r);
	fields = *r;
	d->reader = take_eid(&fields);
	d->writer = take_eid(&fields);
	d->seq = take_seq(&fields);
	if (fields.failed || !seq_valid(d->seq) || to_inline_qos < 16 ||
	    !apus_wire_take(r, to_inline_qos) || ((flags & FLAG_DATA_D) && (flags & FLAG_DATA_K)))
		return APUS_WIRE_MALFORMED;
	if (flags & FLAG_DATA_Q)
		verdict = take_inline_qos(r, m->receiver.vendor, &d->qos);
	if (verdict == APUS_WIRE_MALFORMED)
		return verdict;
	d->key_only = (flags & FLAG_DATA_K) != 0;
	d->payload = NULL;
	d->payload_bytes = 0;
	if (flags & (FLAG_DATA_D | FLAG_DATA_K)) {
		d->payload = r->at;
		d->payload_bytes = (uint32_t)apus_wire_cursor_left(r);
		if (d->payload_bytes < 4 && !(flags & FLAG_DATA_N))
			return APUS_WIRE_MALFORMED;
	}
	return flags & FLAG_DATA_N ? APUS_WIRE_SKIP : verdict;
}

/* Fragment numbers against sample size, and the payload cut to exactly what the fragments cover. */
static bool fragments_valid(struct apus_wire_data_frag *f, size_t available_bytes)
{
	if (f->first == 0 || f->count == 0 || f->fragment_bytes == 0 ||
	    f->fragment_bytes > f->sample_bytes)
		return false;
	uint64_t start = (uint64_t)(f->first - 1) * f->fragment_bytes;
	uint64_t whole = (uint64_t)f->count * f->fragment_bytes;

	/* The last one named must begin inside the sample. */
	if (start + whole - f->fragment_bytes >= f->sample_bytes)
		return false;
	uint64_t covered = start + whole > f->sample_bytes ? f->sample_bytes - start : whole;

	/* Up to 3 bytes more are padding of the submessage (§8.3.8.3.3: not more than covered). */
	if (available_bytes < covered || available_bytes > covered + 3)
		return false;
	f->payload_bytes = (uint32_t)covered;
	return true;
}

static enum apus_wire_verdict parse_data_frag(const struct apus_wire_message *m, uint8_t flags,
					      struct apus_wire_cursor *r,
					      struct apus_wire_data_frag *f)
{
	enum apus_wire_verdict verdict = APUS_WIRE_ACCEPT;
	uint16_t to_inline_qos;
	struct apus_wire_cursor fields;

	memset(&f->qos, 0, sizeof(f->qos));
	(void)apus_wire_take_u16(r); /* extra flags: none defined */
	to_inline_qos = apus_wire_take_u16(r);
	fields = *r;
	f->reader = take_eid(&fields);
	f->writer = take_eid(&fields);
	f->seq = take_seq(&fields);
	f->first = apus_wire_take_u32(&fields);
	f->count = apus_wire_take_u16(&fields);
	f->fragment_bytes = apus_wire_take_u16(&fields);
	f->sample_bytes = apus_wire_take_u32(&fields);
	if (fields.failed || !seq_valid(f->seq) || to_inline_qos < 28 ||
	    !apus_wire_take(r, to_inline_qos))
		return APUS_WIRE_MALFORMED;
	if (flags & FLAG_FRAG_Q)
		verdict = take_inline_qos(r, m->receiver.vendor, &f->qos);
	if (verdict == APUS_WIRE_MALFORMED || !fragments_valid(f, apus_wire_cursor_left(r)))
		return APUS_WIRE_MALFORMED;
	f->key_only = (flags & FLAG_FRAG_K) != 0;
	f->payload = r->at;
	return flags & FLAG_FRAG_N ? APUS_WIRE_SKIP : verdict;
}

/* --- Protocol of the reliable endpoints ----------------------------------------------------------- */

static bool parse_heartbeat(uint8_t flags, struct apus_wire_cursor *r,
			    struct apus_wire_heartbeat *h)
{
	h->reader = take_eid(r);
	h->writer = take_eid(r);
	h->first = take_seq(r);
	h->last = take_seq(r);
	h->count = apus_wire_take_u32(r);
	h->final = (flags & FLAG_FINAL) != 0;
	h->liveliness = (flags & FLAG_LIVELINESS) != 0;
	return !r->failed && seq_valid(h->first) && h->last >= h->first - 1 &&
	       h->last <= APUS_WIRE_SEQ_MAX;
}

static bool parse_heartbeat_frag(struct apus_wire_cursor *r, struct apus_wire_heartbeat_frag *h)
{
	h->reader = take_eid(r);
	h->writer = take_eid(r);
	h->seq = take_seq(r);
	h->last = apus_wire_take_u32(r);
	h->count = apus_wire_take_u32(r);
	return !r->failed && seq_valid(h->seq) && h->last > 0;
}

static bool parse_gap(struct apus_wire_cursor *r, struct apus_wire_gap *g)
{
	g->reader = take_eid(r);
	g->writer = take_eid(r);
	g->start = take_seq(r);
	take_seqset(r, &g->set);
	return !r->failed && seq_valid(g->start) && seq_valid(g->set.base);
}

static bool parse_acknack(uint8_t flags, struct apus_wire_cursor *r, struct apus_wire_acknack *a)
{
	a->reader = take_eid(r);
	a->writer = take_eid(r);
	take_seqset(r, &a->set);
	a->count = apus_wire_take_u32(r);
	a->final = (flags & FLAG_FINAL) != 0;
	if (r->failed)
		return false;
	/* Interop: base 0 without bits is how Fast DDS (2.9.1) opens, against §8.3.8.1.3. */
	return seq_valid(a->set.base) || (a->set.base == 0 && a->set.num_bits == 0);
}

static bool parse_nack_frag(struct apus_wire_cursor *r, struct apus_wire_nack_frag *n)
{
	n->reader = take_eid(r);
	n->writer = take_eid(r);
	n->seq = take_seq(r);
	take_fragset(r, &n->set);
	n->count = apus_wire_take_u32(r);
	return !r->failed && seq_valid(n->seq) && n->set.base > 0 &&
	       n->set.base <= UINT32_MAX - APUS_WIRE_SET_BITS;
}

/* --- Interpreter submessages ---------------------------------------------------------------------- */

static bool parse_info_ts(uint8_t flags, struct apus_wire_cursor *r,
			  struct apus_wire_receiver *state)
{
	if (flags & FLAG_INVALIDATE) {
		state->timestamp = APUS_WALL_NONE;
		return true;
	}
	struct apus_wire_time t = {apus_wire_take_u32(r), 0};

	t.fraction = apus_wire_take_u32(r);
	if (r->failed)
		return false;
	state->timestamp = apus_wire_time_to_wall(t);
	return true;
}

static bool parse_info_dst(struct apus_wire_cursor *r, struct apus_wire_receiver *state)
{
	static const struct apus_prefix unknown;
	struct apus_prefix dest;

	apus_wire_take_bytes(r, dest.bytes, 12);
	if (r->failed)
		return false;
	state->dest = dest;
	state->has_dest = !apus_prefix_equal(&dest, &unknown);
	return true;
}

/* A new source: neither its time stamp nor where to reply is known (RTPS 2.5 §8.3.8.9.4). */
static bool parse_info_src(struct apus_wire_cursor *r, struct apus_wire_receiver *state)
{
	(void)apus_wire_take_u32(r); /* unused */
	const uint8_t *p = apus_wire_take(r, 16);

	if (!p)
		return false;
	state->version_major = p[0];
	state->version_minor = p[1];
	state->vendor = apus_wire_load_u16(p + 2, false);
	memcpy(state->source.bytes, p + 4, 12);
	state->timestamp = APUS_WALL_NONE;
	memset(&state->unicast_reply, 0, sizeof(state->unicast_reply));
	memset(&state->multicast_reply, 0, sizeof(state->multicast_reply));
	return true;
}

/* The first locator of a list, kind 0 for an empty list. */
static struct apus_locator take_locator_list(struct apus_wire_cursor *r)
{
	struct apus_locator first = {0};
	uint32_t count = apus_wire_take_u32(r);

	if (r->failed || count > apus_wire_cursor_left(r) / 24) {
		r->failed = true;
		return first;
	}
	if (count > 0) {
		take_locator(r, &first);
		(void)apus_wire_take(r, (size_t)(count - 1) * 24);
	}
	return first;
}

static bool parse_info_reply(uint8_t flags, struct apus_wire_cursor *r,
			     struct apus_wire_receiver *state)
{
	struct apus_locator multicast = {0};
	struct apus_locator unicast = take_locator_list(r);

	if (flags & FLAG_MULTICAST)
		multicast = take_locator_list(r);
	if (r->failed)
		return false;
	state->unicast_reply = unicast;
	state->multicast_reply = multicast;
	return true;
}

/* The address is a number in the byte order of the submessage (LocatorUDPv4_t, RTPS 2.5 §9.3.2.5). */
static struct apus_locator take_locator_ip4(struct apus_wire_cursor *r)
{
	struct apus_locator locator = {.kind = APUS_LOCATOR_UDPV4};
	uint32_t address = apus_wire_take_u32(r);

	locator.address[12] = (uint8_t)(address >> 24);
	locator.address[13] = (uint8_t)(address >> 16);
	locator.address[14] = (uint8_t)(address >> 8);
	locator.address[15] = (uint8_t)address;
	locator.port = apus_wire_take_u32(r);
	return locator;
}

static bool parse_info_reply_ip4(uint8_t flags, struct apus_wire_cursor *r,
				 struct apus_wire_receiver *state)
{
	struct apus_locator multicast = {0};
	struct apus_locator unicast = take_locator_ip4(r);

	if (flags & FLAG_MULTICAST)
		multicast = take_locator_ip4(r);
	if (r->failed)
		return false;
	state->unicast_reply = unicast;
	state->multicast_reply = multicast;
	return true;
}

/* --- The iterator --------------------------------------------------------------------------------- */

enum apus_wire_verdict apus_wire_open(struct apus_wire_message *m, const uint8_t *datagram,
				      size_t bytes)
{
	memset(m, 0, sizeof(*m));
	m->bytes = datagram;
	m->receiver.timestamp = APUS_WALL_NONE;
	if (bytes < 4 || memcmp(datagram, "RTPS", 4) != 0)
		return APUS_WIRE_SKIP;
	if (bytes < APUS_WIRE_HEADER_BYTES || bytes > UINT32_MAX)
		return APUS_WIRE_MALFORMED;
	if (datagram[4] != 2)
		return APUS_WIRE_SKIP;
	m->receiver.version_major = datagram[4];
	m->receiver.version_minor = datagram[5];
	m->receiver.vendor = apus_wire_load_u16(datagram + 6, false);
	memcpy(m->receiver.source.bytes, datagram + 8, 12);
	m->length = (uint32_t)bytes;
	m->offset = APUS_WIRE_HEADER_BYTES;
	return APUS_WIRE_ACCEPT;
}

static enum apus_wire_verdict malformed_unless(bool valid)
{
	return valid ? APUS_WIRE_ACCEPT : APUS_WIRE_MALFORMED;
}

static enum apus_wire_verdict dispatch(struct apus_wire_message *m, struct apus_wire_cursor *r,
				       struct apus_wire_submessage *s)
{
	struct apus_wire_receiver *state = &m->receiver;

	switch (s->id) {
	case APUS_WIRE_PAD: return APUS_WIRE_ACCEPT;
	case APUS_WIRE_DATA: return parse_data(m, s->flags, r, &s->data);
	case APUS_WIRE_DATA_FRAG: return parse_data_frag(m, s->flags, r, &s->data_frag);
	case APUS_WIRE_HEARTBEAT:
		return malformed_unless(parse_heartbeat(s->flags, r, &s->heartbeat));
	case APUS_WIRE_HEARTBEAT_FRAG:
		return malformed_unless(parse_heartbeat_frag(r, &s->heartbeat_frag));
	case APUS_WIRE_GAP: return malformed_unless(parse_gap(r, &s->gap));
	case APUS_WIRE_ACKNACK: return malformed_unless(parse_acknack(s->flags, r, &s->acknack));
	case APUS_WIRE_NACK_FRAG: return malformed_unless(parse_nack_frag(r, &s->nack_frag));
	case APUS_WIRE_INFO_TS: return malformed_unless(parse_info_ts(s->flags, r, state));
	case APUS_WIRE_INFO_DST: return malformed_unless(parse_info_dst(r, state));
	case APUS_WIRE_INFO_SRC: return malformed_unless(parse_info_src(r, state));
	case APUS_WIRE_INFO_REPLY: return malformed_unless(parse_info_reply(s->flags, r, state));
	case APUS_WIRE_INFO_REPLY_IP4:
		return malformed_unless(parse_info_reply_ip4(s->flags, r, state));
	default: return APUS_WIRE_SKIP;
	}
}

/*
 * Bytes behind the submessage header at m->offset. A length of 0 means "to the end of the message",
 * except for PAD and INFO_TS, which may be empty (RTPS 2.5 §9.4.5.1.3).
 */
static bool submessage_length(const struct apus_wire_message *m, struct apus_wire_submessage *s)
{
	uint32_t left = m->length - m->offset - APUS_WIRE_SUBHEADER_BYTES;
	uint16_t stated = apus_wire_load_u16(m->bytes + m->offset + 2, s->flags & FLAG_LITTLE);

	s->bytes = stated;
	if (stated == 0 && s->id != APUS_WIRE_PAD && s->id != APUS_WIRE_INFO_TS)
		s->bytes = left;
	/* All but the last end on a multiple of 4 (§9.4.1), so that the next header is aligned. */
	return s->bytes <= left && (s->bytes == left || s->bytes % 4 == 0);
}

enum apus_wire_verdict apus_wire_next(struct apus_wire_message *m, struct apus_wire_submessage *out)
{
	enum apus_wire_verdict verdict = APUS_WIRE_MALFORMED;
	uint32_t offset = m->offset;
	uint32_t left = m->length - offset;

	if (left == 0)
		return APUS_WIRE_END;
	out->id = m->bytes[offset];
	out->flags = left > 1 ? m->bytes[offset + 1] : 0;
	out->offset = offset;
	out->bytes = 0;
	if (left >= APUS_WIRE_SUBHEADER_BYTES && submessage_length(m, out)) {
		struct apus_wire_cursor r =
			apus_wire_cursor_make(m->bytes + offset + APUS_WIRE_SUBHEADER_BYTES,
					      out->bytes, out->flags & FLAG_LITTLE);

		verdict = dispatch(m, &r, out);
	}
	if (verdict == APUS_WIRE_MALFORMED)
		m->offset = m->length;
	else
		m->offset = offset + APUS_WIRE_SUBHEADER_BYTES + out->bytes;
	return verdict;
}

/* --- Runs of DATA --------------------------------------------------------------------------------- */

/* A DATA as plain as it can be: id, flags E and D alone, no extra flags, inline QoS (of which there is none)
 * right behind the sequence number. */
#define RUN_HEAD        (APUS_WIRE_DATA | (FLAG_LITTLE | FLAG_DATA_D) << 8)
#define RUN_FLAGS       (UINT32_C(16) << 16)
#define RUN_BYTES       24 /* in front of the payload, submessage header included */
#define RUN_BYTES_LEAST (RUN_BYTES + 4)

/* Bytes of the plain DATA that begins at `at`; 0: there is none. */
static inline uint32_t plain_bytes(const uint8_t *at, uint32_t left)
{
	uint32_t head, bytes;

	if (left < RUN_BYTES_LEAST)
		return 0;
	head = apus_wire_load_u32(at, true);
	bytes = (head >> 16) + APUS_WIRE_SUBHEADER_BYTES;
	if ((head & 0xffff) != RUN_HEAD || apus_wire_load_u32(at + 4, true) != RUN_FLAGS ||
	    bytes < RUN_BYTES_LEAST || bytes > left || (bytes % 4 && bytes != left))
		return 0;
	return bytes;
}

static inline apus_seq plain_seq(const uint8_t *at)
{
	return (apus_seq)((uint64_t)apus_wire_load_u32(at + 16, true) << 32 |
			  apus_wire_load_u32(at + 20, true));
}

uint32_t apus_wire_next_run(struct apus_wire_message *m, struct apus_wire_run *out)
{
	const uint8_t *first = m->bytes + m->offset, *at = first;
	uint32_t left = m->length - m->offset, n = 0, bytes = plain_bytes(at, left);

	if (bytes == 0)
		return 0;
	out->reader.value = apus_wire_load_u32(at + 8, false);
	out->writer.value = apus_wire_load_u32(at + 12, false);
	out->first = plain_seq(at);
	if (!seq_valid(out->first) || out->first > APUS_WIRE_SEQ_MAX - APUS_WIRE_RUN_MAX)
		return 0;
	do {
		out->payload[n] = at + RUN_BYTES;
		out->payload_bytes[n++] = bytes - RUN_BYTES;
		at += bytes;
		left -= bytes;
		bytes = n < APUS_WIRE_RUN_MAX ? plain_bytes(at, left) : 0;
	} while (bytes && memcmp(at + 8, first + 8, 8) == 0 && plain_seq(at) == out->first + n);
	m->offset = m->length - left;
	return out->count = n;
}

bool apus_wire_is_frag_payload(const uint8_t *datagram, uint32_t bytes, uint32_t head_bytes,
			       uint32_t payload_bytes)
{
	const uint32_t fixed = APUS_WIRE_SUBHEADER_BYTES + 4; /* extra flags, to inline QoS */

	if (head_bytes > bytes || payload_bytes > bytes - head_bytes)
		return false;
	for (uint32_t at = APUS_WIRE_HEADER_BYTES; at < head_bytes && head_bytes - at >= fixed;) {
		const uint8_t *sub = datagram + at;
		uint32_t left = bytes - at - APUS_WIRE_SUBHEADER_BYTES;
		uint32_t stated = apus_wire_load_u16(sub + 2, sub[1] & FLAG_LITTLE);
		bool is_frag = sub[0] == APUS_WIRE_DATA_FRAG;

		/* The last one may leave its length out; see submessage_length(). */
		if (stated == 0 && sub[0] != APUS_WIRE_PAD && sub[0] != APUS_WIRE_INFO_TS)
			stated = left;
		if (stated > left)
			return false;
		at += APUS_WIRE_SUBHEADER_BYTES + stated;
		if (is_frag)
			return !(sub[1] & FLAG_FRAG_Q) &&
			       sub + fixed + apus_wire_load_u16(sub + 6, sub[1] & FLAG_LITTLE) ==
				       datagram + head_bytes &&
			       at >= head_bytes + payload_bytes;
	}
	return false;
}
