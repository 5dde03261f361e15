/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagrams put together field by field, in either byte order and independently of the builder, and the
 * checks every submessage has in common. For the unit tests of wire/message.h; include after cmocka.h.
 */
#ifndef APUS_TESTS_WIRE_RAW_H
#define APUS_TESTS_WIRE_RAW_H

#include <stdlib.h>
#include <string.h>

#include "wire/message.h"

struct raw {
	uint8_t bytes[2048];
	size_t length;
	size_t submessage; /* offset of the open submessage */
	bool little;
};

static inline void raw_u8(struct raw *w, uint8_t v)
{
	w->bytes[w->length++] = v;
}

static inline void raw_u16(struct raw *w, uint16_t v)
{
	raw_u8(w, w->little ? v & 0xff : v >> 8);
	raw_u8(w, w->little ? v >> 8 : v & 0xff);
}

static inline void raw_u32(struct raw *w, uint32_t v)
{
	raw_u16(w, w->little ? v & 0xffff : v >> 16);
	raw_u16(w, w->little ? v >> 16 : v & 0xffff);
}

static inline void raw_seq(struct raw *w, int64_t v)
{
	raw_u32(w, (uint32_t)((uint64_t)v >> 32));
	raw_u32(w, (uint32_t)v);
}

/* Entity ids are octets: big-endian always. */
static inline void raw_eid(struct raw *w, uint32_t v)
{
	for (int shift = 24; shift >= 0; shift -= 8)
		raw_u8(w, (uint8_t)(v >> shift));
}

static inline void raw_fill(struct raw *w, uint8_t first, size_t count)
{
	while (count--)
		raw_u8(w, first++);
}

static inline void raw_pid(struct raw *w, uint16_t pid, uint16_t bytes)
{
	raw_u16(w, pid);
	raw_u16(w, bytes);
}

static inline void raw_begin(struct raw *w, bool little)
{
	static const uint8_t header[20] = {'R', 'T', 'P', 'S', 2,  3,  0x01, 0x0f, 10, 11,
					   12,  13,  14,  15,  16, 17, 18,   19,   20, 21};

	memset(w, 0, sizeof(*w));
	memcpy(w->bytes, header, 20);
	w->length = 20;
	w->little = little;
}

static inline void raw_open(struct raw *w, uint8_t id, uint8_t flags)
{
	w->submessage = w->length;
	raw_u8(w, id);
	raw_u8(w, (flags & 0xfe) | (w->little ? 1 : 0));
	raw_u16(w, 0);
}

/* Sets the length of the open submessage. */
static inline void raw_close(struct raw *w)
{
	size_t end = w->length;

	w->length = w->submessage + 2;
	raw_u16(w, (uint16_t)(end - w->submessage - 4));
	w->length = end;
}

/* First submessage of the datagram, which must be of `bytes` bytes in heap memory of just that size,
 * so that the sanitizers see any access beyond. */
static inline enum apus_wire_verdict first_of(const struct raw *w, size_t bytes,
					      struct apus_wire_submessage *out,
					      struct apus_wire_receiver *receiver_out)
{
	uint8_t *copy = malloc(bytes ? bytes : 1);
	struct apus_wire_message m;
	enum apus_wire_verdict verdict;

	assert_non_null(copy);
	memcpy(copy, w->bytes, bytes);
	verdict = apus_wire_open(&m, copy, bytes);
	if (verdict == APUS_WIRE_ACCEPT)
		verdict = apus_wire_next(&m, out);
	else
		assert_int_equal(apus_wire_next(&m, out), APUS_WIRE_END);
	if (verdict == APUS_WIRE_MALFORMED)
		assert_int_equal(apus_wire_next(&m, out), APUS_WIRE_END);
	if (receiver_out)
		*receiver_out = m.receiver;
	free(copy);
	return verdict;
}

static inline enum apus_wire_verdict verdict_of(const struct raw *w)
{
	struct apus_wire_submessage s;

	return first_of(w, w->length, &s, NULL);
}

/* Every shorter datagram is refused. The stated length stays, so each cut is noticed by it. */
static inline void check_truncated(const struct raw *w)
{
	struct apus_wire_submessage s;

	for (size_t n = 0; n < w->length; n++) {
		enum apus_wire_verdict expected = n < 4     ? APUS_WIRE_SKIP
						  : n == 20 ? APUS_WIRE_END
							    : APUS_WIRE_MALFORMED;

		assert_int_equal(first_of(w, n, &s, NULL), expected);
	}
}

/* The fields themselves cut: the submessage says it is shorter. No cut below `needed` bytes of body
 * may be accepted. */
static inline void check_short_body(const struct raw *w, size_t needed)
{
	struct apus_wire_submessage s;

	for (size_t n = 1; n < needed; n++) {
		struct raw cut = *w;

		cut.length = w->submessage + 4 + n;
		raw_close(&cut);
		assert_int_equal(first_of(&cut, cut.length, &s, NULL), APUS_WIRE_MALFORMED);
	}
}

#define FOR_BOTH_ORDERS(little) for (int little = 0; little < 2; little++)

#endif
