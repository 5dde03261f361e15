/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a sample by a program; see program.h.
 *
 * Payloads are hostile. Every length is proved against what is left before it is used; memory is
 * taken from the arena before it is filled, and only what the bytes there back is filled. Whatever
 * is unusual (a shorter version of the type, a value out of range, too few bytes) is not judged here:
 * the answer is false, and the walk begins anew.
 */
#include "wire/program.h"

/* A collection or appendable struct that is open. */
struct frame {
	uint8_t *object; /* the one around it */
	size_t end;      /* the end around it */
	uint32_t left;   /* elements to come, this one included */
};

struct reader {
	const uint8_t *const base;
	size_t end;
	size_t pos;
};

/* Stands at a multiple of `align` with `bytes` ahead. */
static inline bool ahead(struct reader *r, size_t align, size_t bytes)
{
	size_t gap = -r->pos & (align - 1), left = r->end - r->pos;

	if (gap > left || bytes > left - gap)
		return false;
	r->pos += gap;
	return true;
}

static inline bool get_u32(struct reader *r, uint32_t *out)
{
	if (!ahead(r, 4, 4))
		return false;
	memcpy(out, r->base + r->pos, 4);
	r->pos += 4;
	return true;
}

/* A DHEADER: what follows ends where it says. */
static inline bool narrow(struct reader *r)
{
	uint32_t bytes;

	if (!get_u32(r, &bytes) || bytes > r->end - r->pos)
		return false;
	r->end = r->pos + bytes;
	return true;
}

static inline uint64_t zero_bytes(uint64_t v)
{
	return (v - UINT64_C(0x0101010101010101)) & ~v & UINT64_C(0x8080808080808080);
}

/* True if the first NUL is the last of the bytes (there is at least one); reads no others.
 * Little-endian: the lowest bit set is in the first zero byte. */
static inline bool ends_at_nul(const char *chars, size_t bytes)
{
	uint64_t first, last;

	if (bytes < 8 || bytes > 16)
		return memchr(chars, 0, bytes) == chars + bytes - 1;
	memcpy(&first, chars, 8);
	memcpy(&last, chars + bytes - 8, 8);
	first = zero_bytes(first);
	last = zero_bytes(last);
	return last && __builtin_ctzll(last) >= 56 && (bytes == 8 || !first);
}

static inline bool get_string(struct reader *r, struct apus_wire_decoder *d,
			      const struct apus_op *op, void *value)
{
	uint32_t bytes;
	const char *chars;
	char *copy = value;

	if (!get_u32(r, &bytes) || bytes == 0 || bytes > r->end - r->pos ||
	    (op->bytes && bytes - 1 > op->bytes))
		return false;
	chars = (const char *)r->base + r->pos;
	if (!ends_at_nul(chars, bytes))
		return false;
	r->pos += bytes;
	if (!op->bytes) {
		if (d->borrow) {
			memcpy(value, &chars, sizeof(chars));
			return true;
		}
		copy = apus_wire_arena_take(d, bytes, 1);
		if (!copy)
			return false;
		memcpy(value, &copy, sizeof(copy));
	}
	apus_wire_copy_short(copy, chars, bytes);
	return true;
}

static inline bool get_bools(struct reader *r, uint8_t *value, uint32_t count)
{
	if (!ahead(r, 1, count))
		return false;
	for (uint32_t i = 0; i < count; i++) {
		if (r->base[r->pos] > 1)
			return false;
		value[i] = r->base[r->pos++];
	}
	return true;
}

static inline bool get_length(struct reader *r, const struct apus_op *op, uint32_t *length_out)
{
	return get_u32(r, length_out) && (!op->bytes || *length_out <= op->bytes);
}

static inline bool get_numbers(struct reader *r, struct apus_wire_decoder *d,
			       const struct apus_op *op, void *value)
{
	struct apus_sequence s = {0};
	const size_t outer_end = r->end;
	size_t bytes;

	if ((op->dheader && !narrow(r)) || !get_length(r, op, &s.length))
		return false;
	bytes = (size_t)s.length * op->size;
	if (bytes) {
		if (!ahead(r, op->align, bytes))
			return false;
		s.data = (uint8_t *)(uintptr_t)r->base + r->pos;
		if (!d->borrow || !apus_wire_is_aligned(s.data, op->index)) {
			s.data = apus_wire_arena_take(d, bytes, op->index);
			if (!s.data)
				return false;
			apus_wire_copy_short(s.data, r->base + r->pos, bytes);
		}
		r->pos += bytes;
	}
	if (op->dheader && r->pos != r->end)
		return false;
	r->end = outer_end;
	memcpy(value, &s, sizeof(s));
	return true;
}

/* Opens a collection in `*object`, and moves that to the first element. */
static bool open_collection(struct reader *r, struct apus_wire_decoder *d, const struct apus_op *op,
			    uint8_t **object, struct frame *out)
{
	struct apus_sequence s = {0};
	uint8_t *value = *object + op->offset_bytes;

	*out = (struct frame){.object = *object, .end = r->end, .left = op->bytes};
	*object = value;
	if (op->dheader && !narrow(r))
		return false;
	if (op->code == APUS_OP_ARRAY)
		return true;
	/* An element takes a byte at least: a forged length goes no further than here. */
	if (!get_length(r, op, &s.length) || s.length > r->end - r->pos)
		return false;
	out->left = s.length;
	if (s.length) {
		s.data = apus_wire_arena_take(d, (size_t)s.length * op->size, op->index);
		if (!s.data)
			return false;
		*object = s.data;
	}
	memcpy(value, &s, sizeof(s));
	return true;
}

static bool get_member(struct reader *r, struct apus_wire_decoder *d, const struct apus_op *op,
		       uint8_t *object)
{
	const struct apus_member *m = &op->parent->members[op->index];
	int rc;

	object += op->offset_bytes;
	memset(object + m->offset_bytes, 0,
	       m->optional || m->external ? sizeof(void *) : m->type->size_bytes);
	d->c.pos = r->pos;
	d->c.end = r->end;
	rc = apus_wire_decode_member(d, m, object, 0);
	r->pos = d->c.pos;
	return rc == 0;
}

bool apus_wire_program_decode(const struct apus_op *op, struct apus_wire_decoder *d, void *sample)
{
	struct frame frames[APUS_WIRE_OPS_DEPTH_MAX], *f = frames;
	struct reader r = {.base = d->c.base, .end = d->c.end};
	const size_t whole = r.end;
	uint8_t *object = sample;
	bool good = true;

	d->arena_used = 0;
	for (;; op++) {
		void *value = object + op->offset_bytes;

		switch (op->code) {
		case APUS_OP_COPY:
			good = ahead(&r, op->align, op->bytes);
			if (!good)
				break;
			apus_wire_copy_short(value, r.base + r.pos, op->bytes);
			r.pos += op->bytes;
			break;
		case APUS_OP_BOOLS: good = get_bools(&r, value, op->bytes); break;
		case APUS_OP_STRING: good = get_string(&r, d, op, value); break;
		case APUS_OP_NUMBERS: good = get_numbers(&r, d, op, value); break;
		case APUS_OP_SEQUENCE:
		case APUS_OP_ARRAY:
			good = open_collection(&r, d, op, &object, f);
			if (!good || f++->left)
				break;
			op += op->skip; /* empty: at its NEXT */
					/* fall through */
		case APUS_OP_NEXT:
			if (f[-1].left > 1) {
				f[-1].left--;
				object += op->size;
				op -= op->skip + 1; /* and ++ */
				break;
			}
			good = !op->dheader || r.pos == r.end;
			r.end = (--f)->end;
			object = f->object;
			break;
		case APUS_OP_OBJECT:
			f++->end = r.end;
			good = narrow(&r);
			break;
		case APUS_OP_OBJECT_END:
			r.pos = r.end;
			r.end = (--f)->end;
			break;
		case APUS_OP_MEMBER: good = get_member(&r, d, op, object); break;
		default:
			d->c.pos = r.pos;
			d->c.end = whole;
			return true;
		}
		if (!good)
			break;
	}
	d->c.end = whole;
	return false;
}
