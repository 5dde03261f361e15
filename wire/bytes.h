/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounded access to bytes from outside: a reading and a writing cursor.
 *
 * A cursor never moves past its end. The first access that does not fit marks it failed, and from then
 * on it yields zeros and moves no more, so that a decoder may take several fields and ask once. A
 * decoder must ask before it uses a value as a length. Nothing here needs alignment.
 */
#ifndef APUS_WIRE_BYTES_H
#define APUS_WIRE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t apus_wire_load_u16(const uint8_t *p, bool little)
{
	return little ? (uint16_t)(p[0] | p[1] << 8) : (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t apus_wire_load_u32(const uint8_t *p, bool little)
{
	uint32_t v;

	memcpy(&v, p, 4);
	return little == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) ? v : __builtin_bswap32(v);
}

static inline void apus_wire_store_u16le(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
}

static inline void apus_wire_store_u32le(uint8_t *p, uint32_t v)
{
	if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
		v = __builtin_bswap32(v);
	memcpy(p, &v, 4);
}

/* --- Reading -------------------------------------------------------------------------------------- */

/** Reading cursor over [at, end). */
struct apus_wire_cursor {
	const uint8_t *at;
	const uint8_t *end;
	bool little; /**< byte order of the numbers */
	bool failed; /**< some access did not fit */
};

static inline struct apus_wire_cursor apus_wire_cursor_make(const uint8_t *bytes, size_t count,
							    bool little)
{
	return (struct apus_wire_cursor){bytes, bytes + count, little, false};
}

static inline size_t apus_wire_cursor_left(const struct apus_wire_cursor *r)
{
	return (size_t)(r->end - r->at);
}

/** The next `count` bytes, or NULL with the cursor failed. */
static inline const uint8_t *apus_wire_take(struct apus_wire_cursor *r, size_t count)
{
	const uint8_t *p = r->at;

	if (r->failed || count > apus_wire_cursor_left(r)) {
		r->failed = true;
		return NULL;
	}
	r->at += count;
	return p;
}

static inline uint16_t apus_wire_take_u16(struct apus_wire_cursor *r)
{
	const uint8_t *p = apus_wire_take(r, 2);

	return p ? apus_wire_load_u16(p, r->little) : 0;
}

static inline uint32_t apus_wire_take_u32(struct apus_wire_cursor *r)
{
	const uint8_t *p = apus_wire_take(r, 4);

	return p ? apus_wire_load_u32(p, r->little) : 0;
}

/** Copies `count` bytes to out; zeros if the cursor failed. */
static inline void apus_wire_take_bytes(struct apus_wire_cursor *r, uint8_t *out, size_t count)
{
	const uint8_t *p = apus_wire_take(r, count);

	if (p)
		memcpy(out, p, count);
	else
		memset(out, 0, count);
}

/* --- Writing (little-endian) ---------------------------------------------------------------------- */

/** Writing cursor over [at, end). */
struct apus_wire_sink {
	uint8_t *at;
	uint8_t *end;
	bool failed;
};

static inline struct apus_wire_sink apus_wire_sink_make(uint8_t *bytes, size_t count)
{
	return (struct apus_wire_sink){bytes, bytes + count, false};
}

/** Room for `count` bytes, or NULL with the cursor failed. */
static inline uint8_t *apus_wire_sink_room(struct apus_wire_sink *w, size_t count)
{
	uint8_t *p = w->at;

	if (w->failed || count > (size_t)(w->end - w->at)) {
		w->failed = true;
		return NULL;
	}
	w->at += count;
	return p;
}

static inline void apus_wire_sink_u16(struct apus_wire_sink *w, uint16_t v)
{
	uint8_t *p = apus_wire_sink_room(w, 2);

	if (p)
		apus_wire_store_u16le(p, v);
}

static inline void apus_wire_sink_u32(struct apus_wire_sink *w, uint32_t v)
{
	uint8_t *p = apus_wire_sink_room(w, 4);

	if (p)
		apus_wire_store_u32le(p, v);
}

static inline void apus_wire_sink_bytes(struct apus_wire_sink *w, const void *bytes, size_t count)
{
	uint8_t *p = apus_wire_sink_room(w, count);

	if (p && count)
		memcpy(p, bytes, count);
}

static inline void apus_wire_sink_zeros(struct apus_wire_sink *w, size_t count)
{
	uint8_t *p = apus_wire_sink_room(w, count);

	if (p && count)
		memset(p, 0, count);
}

#endif
