/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CDR, shared parts: the encapsulation header, a bounds-checked cursor, and the walk over values of
 * a described type. apus_type_encode() and apus_type_decode() are built on it, as is key
 * extraction; filter programs may use the cursor directly.
 *
 * Reading invariant: `pos <= end` always, nothing at or beyond `end` is ever read, and every length
 * is proved against its bound and against `end - pos` before it moves `pos`. After the first
 * failure a cursor's position means nothing more.
 *
 * Depth of recursion is bounded by APUS_WIRE_TYPE_DEPTH_MAX, whatever the descriptor says.
 */
#ifndef APUS_WIRE_CDR_H
#define APUS_WIRE_CDR_H

#include <apus/type.h>
#include <string.h>

/** Bytes of the encapsulation header (RTPS 2.5 §10.2): 2 identifier, 2 options. */
#define APUS_WIRE_ENCAP_BYTES 4
/** Deepest nesting of constructed types (XTypes sets none; choice, ROS 2 messages need 6). */
#define APUS_WIRE_TYPE_DEPTH_MAX 16

/** Encapsulation identifiers, the little-endian ones; big-endian is one less
 *  (RTPS 2.5 §10.5, XTypes 1.3 §7.6.3.1.2). */
enum apus_wire_encap_id {
	APUS_WIRE_CDR_LE = 0x0001,
	APUS_WIRE_PL_CDR_LE = 0x0003,
	APUS_WIRE_CDR2_LE = 0x0007,
	APUS_WIRE_D_CDR2_LE = 0x0009,
	APUS_WIRE_PL_CDR2_LE = 0x000b,
};

/** Parameter ids of XCDR1 member headers (XTypes 1.3 §7.4.1.2): what they mean beyond member ids. */
enum apus_wire_member_pid {
	APUS_WIRE_PID_MEMBER_MAX = 0x3f00,      /**< largest member id a short header can hold */
	APUS_WIRE_PID_EXTENDED = 0x3f01,        /**< id and length follow as two uint32 */
	APUS_WIRE_PID_LIST_END = 0x3f02,        /**< end of a mutable struct */
	APUS_WIRE_PID_IGNORE = 0x3f03,          /**< skip */
	APUS_WIRE_PID_MASK = 0x3fff,            /**< without the flags */
	APUS_WIRE_PID_MUST_UNDERSTAND = 0x4000, /**< flag */
};

/** Largest XTypes member id plus one: EMHEADERs hold 28 bits. */
#define APUS_WIRE_MEMBER_ID_END (UINT32_C(1) << 28)

/** Cursor over the body of a payload: positions count from the byte after the encapsulation header,
 *  which is what CDR alignment refers to; within a member that has an XCDR1 header it refers to the
 *  member's first byte, `origin` (XTypes 1.3 §7.4.3.5.3, rules 24 and 29). */
struct apus_wire_cdr {
	const uint8_t *base;
	size_t pos;
	size_t end;
	size_t origin;
	uint8_t align_max; /* 8 under XCDR1, 4 under XCDR2 */
	bool xcdr2;
	bool delimited; /* DELIMITED_CDR2: the outermost struct has a DHEADER */
	bool members;   /* PL_CDR, PL_CDR2: the outermost struct is mutable */
	bool swap;      /* wire byte order is not the host's */
	bool big;       /* wire byte order is big-endian */
};

/**
 * Starts a cursor: reads the encapsulation header and takes the padding it declares off the end.
 * Returns 0 or APUS_EENCODING (shorter than the header, unknown encapsulation, more padding than
 * body). Pure.
 */
static inline int apus_wire_cdr_open(struct apus_wire_cdr *c, const uint8_t *payload,
				     size_t payload_bytes)
{
	unsigned int id, padding;

	if (payload_bytes < APUS_WIRE_ENCAP_BYTES)
		return APUS_EENCODING;
	id = (unsigned int)payload[0] << 8 | payload[1];
	/* The low two option bits count the padding at the end (XTypes 1.3 §7.6.3.1.2). */
	padding = payload[3] & 3;
	if (payload_bytes - APUS_WIRE_ENCAP_BYTES < padding)
		return APUS_EENCODING;
	switch (id | 1) {
	case APUS_WIRE_CDR_LE:
	case APUS_WIRE_PL_CDR_LE:
	case APUS_WIRE_CDR2_LE:
	case APUS_WIRE_D_CDR2_LE:
	case APUS_WIRE_PL_CDR2_LE: break;
	default: return APUS_EENCODING;
	}
	c->base = payload + APUS_WIRE_ENCAP_BYTES;
	c->pos = 0;
	c->end = payload_bytes - APUS_WIRE_ENCAP_BYTES - padding;
	c->origin = 0;
	c->xcdr2 = (id | 1) >= APUS_WIRE_CDR2_LE;
	c->delimited = (id | 1) == APUS_WIRE_D_CDR2_LE;
	c->members = (id | 1) == APUS_WIRE_PL_CDR_LE || (id | 1) == APUS_WIRE_PL_CDR2_LE;
	c->align_max = c->xcdr2 ? 4 : 8;
	c->big = !(id & 1);
	c->swap = c->big != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
	return 0;
}

/** True if the encapsulation is the one a type's extensibility asks for (XTypes 1.3 §7.6.3.1.2). */
static inline bool apus_wire_cdr_fits(const struct apus_wire_cdr *c, const struct apus_type *type)
{
	return c->members == (type->extensibility == APUS_MUTABLE) &&
	       (!c->xcdr2 || c->delimited == (type->extensibility == APUS_APPENDABLE));
}

/** Encapsulation identifier, little-endian, for a payload of `type`. */
static inline unsigned int apus_wire_encap_of(const struct apus_type *type, bool xcdr2)
{
	switch (type->extensibility) {
	case APUS_MUTABLE: return xcdr2 ? APUS_WIRE_PL_CDR2_LE : APUS_WIRE_PL_CDR_LE;
	case APUS_APPENDABLE: return xcdr2 ? APUS_WIRE_D_CDR2_LE : APUS_WIRE_CDR_LE;
	default: return xcdr2 ? APUS_WIRE_CDR2_LE : APUS_WIRE_CDR_LE;
	}
}

static inline size_t apus_wire_cdr_left(const struct apus_wire_cdr *c)
{
	return c->end - c->pos;
}

/** Moves to the next multiple of min(align, align_max). False if that passes the end. */
static inline bool apus_wire_cdr_align(struct apus_wire_cdr *c, size_t align)
{
	size_t mask = (align < c->align_max ? align : c->align_max) - 1;
	size_t pos = c->origin + ((c->pos - c->origin + mask) & ~mask);

	if (pos > c->end)
		return false;
	c->pos = pos;
	return true;
}

/** Reads one uint32 in host order, aligned. False if it is not all there. */
static inline bool apus_wire_cdr_u32(struct apus_wire_cdr *c, uint32_t *value_out)
{
	uint32_t v;

	if (!apus_wire_cdr_align(c, 4) || apus_wire_cdr_left(c) < 4)
		return false;
	memcpy(&v, c->base + c->pos, 4);
	c->pos += 4;
	*value_out = c->swap ? __builtin_bswap32(v) : v;
	return true;
}

/**
 * Reads a string: proved NUL-terminated, without another NUL, within `bound` characters (0 = none).
 * `*chars_out` points into the payload, `*length_out` is the number of characters without the NUL.
 */
static inline bool apus_wire_cdr_string(struct apus_wire_cdr *c, uint32_t bound,
					const char **chars_out, uint32_t *length_out)
{
	const char *chars;
	uint32_t bytes;

	if (!apus_wire_cdr_u32(c, &bytes) || bytes == 0 || bytes > apus_wire_cdr_left(c))
		return false;
	if (bound && bytes - 1 > bound)
		return false;
	chars = (const char *)c->base + c->pos;
	if (memchr(chars, 0, bytes) != chars + bytes - 1)
		return false;
	c->pos += bytes;
	*chars_out = chars;
	*length_out = bytes - 1;
	return true;
}

/** Reads an aligned DHEADER and returns in `*end_out` where its object ends. */
static inline bool apus_wire_cdr_dheader(struct apus_wire_cdr *c, size_t *end_out)
{
	uint32_t bytes;

	if (!apus_wire_cdr_u32(c, &bytes) || bytes > apus_wire_cdr_left(c))
		return false;
	*end_out = c->pos + bytes;
	return true;
}

/** What a member header says: an EMHEADER, or an XCDR1 parameter header. */
struct apus_wire_member_header {
	uint32_t id; /* UINT32_MAX: nobody's */
	size_t end;  /* of the value */
	bool must_understand;
	bool list_end; /* XCDR1: no member, the struct ends here */
};

/**
 * Reads a member header; the cursor stands at the value's first byte then. The value's length is
 * proved against the cursor's end. The caller narrows `end`, and under XCDR1 moves `origin`.
 */
bool apus_wire_cdr_member_header(struct apus_wire_cdr *c, struct apus_wire_member_header *out);

/**
 * In the body of a mutable struct: reads headers from `pos` until the member with this id and
 * stands at its value. False if there is none before the struct's end, or the bytes are malformed.
 */
bool apus_wire_cdr_find_member(struct apus_wire_cdr *c, uint32_t id,
			       struct apus_wire_member_header *out);

/**
 * Reads a union's discriminator. False if it is not all there, or no value of its type (BOOL).
 */
bool apus_wire_cdr_discriminator(struct apus_wire_cdr *c, const struct apus_type *type,
				 int64_t *value_out);

/** The case of a union that a discriminator value selects; NULL if none. */
const struct apus_member *apus_wire_select(const struct apus_type *type, int64_t discriminator);

/** An integer of a scalar's width and signedness in memory (BOOL, CHAR, OCTET, INT…, ENUM,
 *  BITMASK); uint64 values above INT64_MAX come out negative. */
int64_t apus_wire_load_integer(const struct apus_type *type, const void *value);

/** True for an unbounded string: its image is a `char *`. */
static inline bool apus_wire_is_open_string(const struct apus_type *type)
{
	return type->kind == APUS_KIND_STRING && type->bound == 0;
}

/** The value of a member of the object at `object` in memory; NULL if it is absent, or an external
 *  member has none. */
static inline const void *apus_wire_member_value(const struct apus_member *m, const void *object)
{
	const void *slot = (const uint8_t *)object + m->offset_bytes, *value;

	if (!m->optional && !m->external)
		return slot;
	memcpy(&value, slot, sizeof(value));
	if (apus_wire_is_open_string(m->type))
		return value || !m->optional ? slot : NULL;
	return value;
}

/**
 * Reads the length of a sequence of `type` (after its DHEADER, where the representation has one).
 * The length is proved against the bound and against the fewest bytes such elements can take.
 */
bool apus_wire_cdr_length(struct apus_wire_cdr *c, const struct apus_type *type,
			  uint32_t *length_out);

/**
 * Skips one value of `type`. depth: nesting so far, 0 at the top. Checks lengths and bounds, not
 * values. False if the bytes do not hold one. Cost linear in the bytes skipped.
 */
bool apus_wire_cdr_skip(struct apus_wire_cdr *c, const struct apus_type *type, int depth);

/** As apus_wire_cdr_skip(), one member of a struct that is not mutable, absent optionals included. */
bool apus_wire_cdr_skip_member(struct apus_wire_cdr *c, const struct apus_member *member,
			       int depth);

/** Wire size of a fixed-size scalar (primitive, enum, bitmask) of a checked type, which is its size
 *  in memory too; 0 for every other kind. */
static inline size_t apus_wire_scalar_bytes(const struct apus_type *type)
{
	return type->kind <= APUS_KIND_BITMASK ? type->size_bytes : 0;
}

/** True if a member's value is a scalar that lies in the object itself and any bits of which are a
 *  value: it can be copied without a look. */
static inline bool apus_wire_is_copied(const struct apus_member *m)
{
	return m->type->kind <= APUS_KIND_ENUM && m->type->kind != APUS_KIND_BOOL && !m->optional &&
	       !m->external;
}

/** True if the descriptor claims a fixed layout under this representation. */
static inline bool apus_wire_says_plain(const struct apus_type *type, bool xcdr2)
{
	return xcdr2 ? type->plain_xcdr2 : type->plain_xcdr1;
}

/** True if an open body is the memory image of the type, whole. */
static inline bool apus_wire_is_image(const struct apus_wire_cdr *c, const struct apus_type *type)
{
	return !c->swap && apus_wire_says_plain(type, c->xcdr2) && c->end >= type->size_bytes &&
	       c->end - type->size_bytes < 4;
}

/** True if collections of `type` carry a DHEADER under XCDR2: everything that is not a primitive
 *  (XTypes 1.3 §7.4.3.5.3, rule 12; enums and bitmasks are not primitives). */
static inline bool apus_wire_needs_dheader(const struct apus_type *type)
{
	return type->kind > APUS_KIND_FLOAT64;
}

/** True if some member of the struct is marked as key. */
bool apus_wire_has_keys(const struct apus_type *type);

/**
 * Iterates the members of a struct in ascending member id, as keys are serialised: returns the one
 * with the smallest id above `*last`, which starts at -1 and is advanced; NULL after the last.
 * all: not only members marked as key.
 */
const struct apus_member *apus_wire_next_by_id(const struct apus_type *type, bool all,
					       int64_t *last);

/**
 * If the memory image of a type equals its CDR body on this host (little-endian, final, no padding,
 * only numbers), returns the number of bytes, else 0. `*align_out` (may be NULL) is the alignment
 * such a value needs on the wire. Worth caching: it costs as much as encoding the type once.
 */
size_t apus_wire_plain_bytes(const struct apus_type *type, int representation, size_t *align_out);

/**
 * True if the memory image of a struct equals its body where that starts at a multiple of the
 * struct's alignment: what apus_type.plain_xcdr1 and plain_xcdr2 assert.
 */
bool apus_wire_is_plain(const struct apus_type *type, int representation);

/**
 * Writes the body of a key-only payload in big-endian XCDR2, not padded: the canonical key.
 * Returns its bytes, or what apus_type_encode() returns.
 */
int apus_wire_cdr_encode_key(const struct apus_type *type, const void *sample, uint8_t *out,
			     size_t out_bytes);

/**
 * apus_type_encode() by descriptor alone, whatever programs the type has, and with a choice of byte
 * order, for tests. Same results and errors.
 */
int apus_wire_cdr_encode(const struct apus_type *type, const void *sample, int representation,
			 bool key_only, bool big_endian, void *out, size_t out_bytes);

/** apus_type_decode() by descriptor alone, for tests. Same results and errors. */
int apus_wire_cdr_decode(const struct apus_type *type, const void *payload, size_t payload_bytes,
			 bool key_only, void *sample, void *arena, size_t arena_bytes);

#endif
