/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running walks over CDR bytes: see access.h for what they are and promise.
 *
 * The steps are ours, the bytes are not: every length is proved against what is left of the innermost
 * object before it moves the position. The stack cannot overflow: its depth is known when a walk is built.
 */
#include <string.h>

#include "base/atomics.h"
#include "wire/access.h"
#include "wire/cdr.h"

/* Where a walk is: positions relative to `body`, at <= limit. `body` is what alignment refers to: the
 * payload's body, or the first byte of a member with a header. Its address goes to inlined functions
 * only, so that it lives in registers. */
struct cursor {
	const uint8_t *body;
	uint32_t at, limit;
};

/* What a walk knows of its way beyond that. */
struct walker {
	struct cursor c;
	bool swap;
	const struct apus_wire_step *steps, *steps_end;
	struct apus_wire_slot *slots;
	uint32_t depth;
	/* Outer limits of ENTER; positions and outer limits of HEADER and CASE; remaining rounds of
	 * LOOP; elements left; members seen of OPEN. */
	uint32_t saved[APUS_WIRE_WALK_DEPTH];
};

static inline bool align_to(struct cursor *c, uint32_t mask)
{
	uint32_t pad = -c->at & mask;

	if (APUS_UNLIKELY(pad > c->limit - c->at))
		return false;
	c->at += pad;
	return true;
}

static inline bool take(struct cursor *c, uint64_t bytes)
{
	if (APUS_UNLIKELY(bytes > c->limit - c->at))
		return false;
	c->at += (uint32_t)bytes;
	return true;
}

static inline bool read_u32(struct cursor *c, bool swap, uint32_t *value_out)
{
	uint32_t v;

	if (!align_to(c, 3) || !take(c, 4))
		return false;
	memcpy(&v, c->body + c->at - 4, 4);
	*value_out = swap ? __builtin_bswap32(v) : v;
	return true;
}

/* A number that is nowhere in the payload, in the payload's byte order as those are. */
static void note_number(struct apus_wire_slot *slot, uint64_t value, uint32_t bytes, bool swap)
{
	uint8_t *to = (uint8_t *)&slot->value;

	slot->bytes = to;
	memcpy(to, &value, sizeof(value));
	for (uint32_t i = 0; swap && i < bytes / 2; i++) {
		uint8_t byte = to[i];

		to[i] = to[bytes - 1 - i];
		to[bytes - 1 - i] = byte;
	}
}

static inline void note_length(struct apus_wire_slot *slots, uint32_t slot, uint32_t length,
			       bool swap)
{
	uint64_t value = 0;

	if (APUS_LIKELY(slot == APUS_WIRE_NO_SLOT))
		return;
	memcpy(&value, &length, sizeof(length));
	note_number(&slots[slot], value, sizeof(length), swap);
}

/* True if the string whose NUL is the last byte passed has another one among its `length` characters.
 * Short strings are looked at as one word ending with their last character. */
static inline bool has_nul(const struct cursor *c, uint32_t length)
{
	const uint8_t *end = c->body + c->at - 1;

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	const uint64_t ones = UINT64_C(0x0101010101010101);
	uint64_t word;

	if (length == 0)
		return false;
	if (APUS_LIKELY(length <= 8 && c->at > 8)) {
		memcpy(&word, end - 8, 8);
		/* What stands in front counts as no NUL. */
		word |= length == 8 ? 0 : ~UINT64_C(0) >> (8 * length);
		return ((word - ones) & ~word & ones << 7) != 0;
	}
#endif
	return length && memchr(end - length, 0, length);
}

static inline bool step_string(struct cursor *c, bool swap, const struct apus_wire_step *s,
			       struct apus_wire_slot *slots)
{
	uint32_t length;

	if (!read_u32(c, swap, &length) || length == 0 || !take(c, length))
		return false;
	/* `length` counts the NUL, a bound does not. */
	if ((s->bytes && length - 1 > s->bytes) || c->body[c->at - 1] != '\0')
		return false;
	if (s->slot != APUS_WIRE_NO_SLOT) {
		if (has_nul(c, length - 1))
			return false;
		slots[s->slot].bytes = c->body + c->at - length;
		slots[s->slot].length = length - 1;
	}
	if (APUS_UNLIKELY(s->delta))
		note_length(slots, s->delta - 1, length - 1, swap);
	return true;
}

static inline bool step_sequence(struct cursor *c, bool swap, const struct apus_wire_step *s,
				 struct apus_wire_slot *slots)
{
	uint32_t count;

	if (!read_u32(c, swap, &count) || (s->delta && count > s->delta))
		return false;
	note_length(slots, s->slot, count, swap);
	return count == 0 || (align_to(c, s->align_mask) && take(c, (uint64_t)count * s->bytes));
}

static bool step_enter(struct walker *w)
{
	uint32_t bytes;

	if (!read_u32(&w->c, w->swap, &bytes) || bytes > w->c.limit - w->c.at)
		return false;
	w->saved[w->depth++] = w->c.limit;
	w->c.limit = w->c.at + bytes;
	return true;
}

/* ---- members with headers ---------------------------------------------------------------------- */

/* The place of the walk as a cursor of the general kind. */
static struct apus_wire_cdr cdr_of(const struct walker *w, const struct apus_wire_step *s)
{
	return (struct apus_wire_cdr){
		.base = w->c.body,
		.pos = w->c.at,
		.end = w->c.limit,
		.align_max = s->align_mask + 1,
		.xcdr2 = s->align_mask == 3,
		.swap = w->swap,
	};
}

static bool skip_value(struct walker *w, const struct apus_wire_step *s,
		       const struct apus_type *type)
{
	struct apus_wire_cdr c = cdr_of(w, s);

	if (!apus_wire_cdr_skip(&c, type, 0))
		return false;
	w->c.at = (uint32_t)c.pos;
	return true;
}

/* Stays within a value from `begin` to `end`, from which positions count until value_end(). */
static void value_begin(struct walker *w, uint32_t begin, uint32_t end)
{
	w->saved[w->depth++] = begin;
	w->saved[w->depth++] = w->c.limit;
	w->c.body += begin;
	w->c.at = 0;
	w->c.limit = end - begin;
}

static void value_end(struct walker *w)
{
	uint32_t begin = w->saved[w->depth - 2];

	w->c.body -= begin;
	w->c.at = begin + w->c.limit;
	w->c.limit = w->saved[w->depth - 1];
	w->depth -= 2;
}

/* XTypes 1.3 §7.4.1.1.5.3: an optional member of XCDR1 has a header even where it is absent. */
static bool step_header(struct walker *w, const struct apus_wire_step *s, uint32_t *next)
{
	const struct apus_member *member = s->ref;
	struct apus_wire_cdr c = cdr_of(w, s);
	struct apus_wire_member_header header;

	if (!apus_wire_cdr_member_header(&c, &header) || header.id != member->id)
		return false;
	w->c.at = (uint32_t)c.pos;
	if (header.end == c.pos)
		*next = s->target;
	else
		value_begin(w, w->c.at, (uint32_t)header.end);
	return true;
}

/* The CASE behind a LIST or SWITCH that is for `value`; NULL if none is. */
static const struct apus_wire_step *find_case(const struct walker *w, uint32_t first,
					      uint32_t value)
{
	const struct apus_wire_step *s = &w->steps[first];

	for (; s < w->steps_end && s->op == APUS_WIRE_CASE; s++)
		if (s->bytes == value)
			return s;
	return NULL;
}

static bool has_member(const struct apus_type *type, uint32_t id)
{
	for (uint32_t i = 0; i < type->member_count; i++)
		if (type->members[i].id == id)
			return true;
	return false;
}

/* Sets the bit of a case in the mask that OPEN began; false if it is set. */
static bool first_of_its_kind(struct walker *w, uint32_t case_idx)
{
	uint32_t *seen = &w->saved[w->depth - 2 + case_idx / 32], bit = 1u << case_idx % 32;

	if (*seen & bit)
		return false;
	*seen |= bit;
	return true;
}

static bool step_list(struct walker *w, const struct apus_wire_step *s, uint32_t *next)
{
	struct apus_wire_cdr c = cdr_of(w, s);
	struct apus_wire_member_header header;
	const struct apus_wire_step *found;

	while (!(c.xcdr2 && c.pos == c.end)) {
		if (!apus_wire_cdr_member_header(&c, &header))
			return false;
		if (header.list_end)
			break;
		found = find_case(w, *next, header.id);
		if (found) {
			if (!first_of_its_kind(w, (uint32_t)(found - &w->steps[*next])))
				return false;
			value_begin(w, (uint32_t)c.pos, (uint32_t)header.end);
			*next = found->target;
			return true;
		}
		if (header.must_understand && !has_member(s->ref, header.id))
			return false;
		c.pos = header.end;
	}
	w->c.at = (uint32_t)c.pos;
	w->depth -= 2;
	*next = s->target;
	return true;
}

static bool step_switch(struct walker *w, const struct apus_wire_step *s, uint32_t *next)
{
	const struct apus_type *type = s->ref;
	struct apus_wire_cdr c = cdr_of(w, s);
	const struct apus_wire_step *found;
	const struct apus_member *selected;
	int64_t value;

	if (!apus_wire_cdr_discriminator(&c, type, &value))
		return false;
	if (s->slot != APUS_WIRE_NO_SLOT)
		w->slots[s->slot].bytes = c.base + c.pos - type->element->size_bytes;
	w->c.at = (uint32_t)c.pos;
	selected = apus_wire_select(type, value);
	found = selected ? find_case(w, *next, (uint32_t)(selected - type->members)) : NULL;
	*next = found ? found->target : s->target;
	return found || !selected || skip_value(w, s, selected->type);
}

/* ---- elements ---------------------------------------------------------------------------------- */

static bool skip_elements(struct walker *w, const struct apus_wire_step *s, uint32_t count)
{
	const struct apus_type *type = s->ref;
	uint32_t scalar = (uint32_t)apus_wire_scalar_bytes(type);

	if (count == 0)
		return true;
	if (scalar)
		return align_to(&w->c, (scalar - 1) & s->align_mask) &&
		       take(&w->c, (uint64_t)count * scalar);
	for (uint32_t i = 0; i < count; i++)
		if (!skip_value(w, s, type))
			return false;
	return true;
}

static bool step_elements(struct walker *w, const struct apus_wire_step *s, uint32_t *next)
{
	uint32_t n = s->bytes, *left;

	switch (s->op) {
	case APUS_WIRE_COUNT:
		if (!read_u32(&w->c, w->swap, &n) || (s->bytes && n > s->bytes))
			return false;
		note_length(w->slots, s->slot, n, w->swap);
		/* fall through */
	case APUS_WIRE_ELEMENTS: w->saved[w->depth++] = n; return true;
	case APUS_WIRE_ADVANCE:
		left = &w->saved[w->depth - 1];
		if (*left <= n) {
			*next = s->target;
			return true;
		}
		*left -= n + 1;
		return skip_elements(w, s, n);
	default: n = w->saved[--w->depth]; return !s->ref || skip_elements(w, s, n);
	}
}

/* ---- the walk ---------------------------------------------------------------------------------- */

static void step_preset(struct walker *w, const struct apus_wire_step *s)
{
	struct apus_wire_slot *slot = &w->slots[s->slot];

	if (s->op == APUS_WIRE_DEFAULT)
		note_number(slot, s->value, s->bytes, w->swap);
	else
		*slot = (struct apus_wire_slot){.bytes = s->op == APUS_WIRE_TEXT ? s->ref : NULL,
						.length = s->bytes};
}

/* LOOP, LOOP_READ, NEXT. */
static bool step_loop(struct walker *w, const struct apus_wire_step *s, uint32_t *next)
{
	uint32_t n = s->bytes;

	if (s->op == APUS_WIRE_NEXT) {
		if (--w->saved[w->depth - 1] > 0)
			*next = s->target;
		else
			w->depth--;
		return true;
	}
	if (s->op == APUS_WIRE_LOOP_READ &&
	    (!read_u32(&w->c, w->swap, &n) || (s->bytes && n > s->bytes)))
		return false;
	if (n == 0)
		*next = s->target;
	else
		w->saved[w->depth++] = n;
	return true;
}

static bool step_optional(struct walker *w, const struct apus_wire_step *s)
{
	struct apus_wire_cdr c = cdr_of(w, s);

	if (!apus_wire_cdr_skip_member(&c, s->ref, 0))
		return false;
	w->c.at = (uint32_t)c.pos;
	return true;
}

static bool step_present(struct walker *w, const struct apus_wire_step *s, uint32_t *next)
{
	if (!take(&w->c, 1) || w->c.body[w->c.at - 1] > 1)
		return false;
	if (w->c.body[w->c.at - 1] == 0)
		*next = s->target;
	return true;
}

static bool step_rare(struct walker *w, const struct apus_wire_step *s, uint32_t *next)
{
	uint32_t n;

	switch (s->op) {
	case APUS_WIRE_DELIMITED: return read_u32(&w->c, w->swap, &n) && take(&w->c, n);
	case APUS_WIRE_ENTER: return step_enter(w);
	case APUS_WIRE_LEAVE:
		w->c.at = w->c.limit;
		w->c.limit = w->saved[--w->depth];
		return true;
	case APUS_WIRE_MEMBER:
		if (((w->c.at + s->align_mask) & ~(uint32_t)s->align_mask) >= w->c.limit)
			*next = s->target;
		return true;
	case APUS_WIRE_LOOP:
	case APUS_WIRE_LOOP_READ:
	case APUS_WIRE_NEXT: return step_loop(w, s, next);
	case APUS_WIRE_SKIP_VALUE: return skip_value(w, s, s->ref);
	case APUS_WIRE_OPTIONAL: return step_optional(w, s);
	case APUS_WIRE_PRESENT: return step_present(w, s, next);
	case APUS_WIRE_HEADER: return step_header(w, s, next);
	case APUS_WIRE_VALUE_END:
		value_end(w);
		*next = s->target;
		return true;
	case APUS_WIRE_OPEN:
		w->saved[w->depth++] = 0;
		w->saved[w->depth++] = 0;
		return true;
	case APUS_WIRE_LIST: return step_list(w, s, next);
	case APUS_WIRE_SWITCH: return step_switch(w, s, next);
	case APUS_WIRE_JUMP: *next = s->target; return true;
	case APUS_WIRE_COUNT:
	case APUS_WIRE_ELEMENTS:
	case APUS_WIRE_ADVANCE:
	case APUS_WIRE_REST: return step_elements(w, s, next);
	case APUS_WIRE_ABSENT:
	case APUS_WIRE_DEFAULT:
	case APUS_WIRE_TEXT: step_preset(w, s); return true;
	default: return false;
	}
}

/* The common steps work on a cursor of their own; the rare ones get the walker. */
static inline __attribute__((always_inline)) bool walk(const struct apus_wire_step *steps,
						       uint32_t step_count, const uint8_t *body,
						       uint32_t body_bytes, const bool swap,
						       struct apus_wire_slot *slots)
{
	struct cursor c = {body, 0, body_bytes};
	struct walker w; /* `saved` stays unset: most walks never use it */

	w.swap = swap;
	w.steps = steps;
	w.steps_end = steps + step_count;
	w.slots = slots;
	w.depth = 0;
	for (uint32_t i = 0; i < step_count;) {
		const struct apus_wire_step *s = &steps[i++];

		if (s->op == APUS_WIRE_RUN) {
			if (!align_to(&c, s->align_mask) || !take(&c, s->bytes))
				return false;
			if (s->slot != APUS_WIRE_NO_SLOT)
				slots[s->slot].bytes = c.body + c.at - s->bytes + s->delta;
		} else if (s->op == APUS_WIRE_STRING) {
			if (!step_string(&c, swap, s, slots))
				return false;
		} else if (s->op == APUS_WIRE_SEQUENCE) {
			if (!step_sequence(&c, swap, s, slots))
				return false;
		} else {
			w.c = c;
			if (!step_rare(&w, s, &i))
				return false;
			c = w.c;
		}
	}
	return true;
}

bool apus_wire_walk(const struct apus_wire_step *steps, uint32_t step_count, const uint8_t *body,
		    size_t body_bytes, bool swap, struct apus_wire_slot *slots)
{
	/* Positions are 32 bits wide; no transport carries a sample that large. */
	if (body_bytes > INT32_MAX)
		return false;
	if (swap)
		return walk(steps, step_count, body, (uint32_t)body_bytes, true, slots);
	return walk(steps, step_count, body, (uint32_t)body_bytes, false, slots);
}
