/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a sample by a program; see program.h. The sample is the caller's own and its pointers are
 * trusted, its lengths are not.
 *
 * The position lives in a register: a store of bytes might change *e for all the compiler knows.
 */
#include "wire/program.h"

/* A collection or appendable struct that is open. */
struct frame {
	const uint8_t *object; /* the one around it */
	size_t start;          /* position behind its DHEADER; 0: it has none */
	uint32_t left;         /* elements to come, this one included */
};

/* What the steps share. */
struct writer {
	uint8_t *const base;
	const size_t end;
	size_t pos;
};

/* Room for `bytes` at a multiple of `align`. */
static inline bool reserve(struct writer *w, size_t align, size_t bytes)
{
	size_t gap = -w->pos & (align - 1);

	if (gap + bytes > w->end - w->pos)
		return false;
	for (; gap; gap--)
		w->base[w->pos++] = 0;
	return true;
}

static inline bool put_u32(struct writer *w, uint32_t value)
{
	if (!reserve(w, 4, 4))
		return false;
	memcpy(w->base + w->pos, &value, 4);
	w->pos += 4;
	return true;
}

static inline void close_object(struct writer *w, size_t start)
{
	uint32_t bytes = (uint32_t)(w->pos - start);

	if (start)
		memcpy(w->base + start - 4, &bytes, 4);
}

/* Nonzero if one of the eight bytes is zero; the lowest bit set is in the first of those. */
static inline uint64_t zero_bytes(uint64_t v)
{
	return (v - UINT64_C(0x0101010101010101)) & ~v & UINT64_C(0x8080808080808080);
}

/* strnlen() without the call for short ones: all of char[room] may be read. Little-endian. */
static inline size_t bounded_length(const char *chars, size_t room)
{
	uint64_t v;

	for (size_t i = 0; i < 16 && room - i >= 8; i += 8) {
		memcpy(&v, chars + i, 8);
		v = zero_bytes(v);
		if (v)
			return i + (size_t)__builtin_ctzll(v) / 8;
	}
	return strnlen(chars, room);
}

static inline int put_string(struct writer *w, const struct apus_op *op, const void *value)
{
	const char *chars = value;
	size_t length;

	if (op->bytes) {
		length = bounded_length(chars, (size_t)op->bytes + 1);
		if (length > op->bytes)
			return APUS_EENCODING;
	} else {
		memcpy(&chars, value, sizeof(chars));
		if (!chars)
			chars = "";
		length = strlen(chars);
	}
	if (length >= w->end - w->pos || !reserve(w, 4, length + 5))
		return APUS_ELIMIT;
	put_u32(w, (uint32_t)length + 1);
	apus_wire_copy_short(w->base + w->pos, chars, length + 1);
	w->pos += length + 1;
	return 0;
}

static inline int put_bools(struct writer *w, const uint8_t *value, uint32_t count)
{
	if (!reserve(w, 1, count))
		return APUS_ELIMIT;
	for (uint32_t i = 0; i < count; i++)
		w->base[w->pos++] = value[i] != 0;
	return 0;
}

static bool length_kept(const struct apus_op *op, const struct apus_sequence *s)
{
	return (!op->bytes || s->length <= op->bytes) && (!s->length || s->data);
}

static inline int put_numbers(struct writer *w, const struct apus_op *op,
			      const struct apus_sequence *s)
{
	const size_t bytes = (size_t)s->length * op->size;
	size_t start = 0;

	if (!length_kept(op, s))
		return APUS_EENCODING;
	if (op->dheader) {
		if (!put_u32(w, 0))
			return APUS_ELIMIT;
		start = w->pos;
	}
	if (!put_u32(w, s->length))
		return APUS_ELIMIT;
	if (bytes) {
		if (bytes > w->end - w->pos || !reserve(w, op->align, bytes))
			return APUS_ELIMIT;
		apus_wire_copy_short(w->base + w->pos, s->data, bytes);
		w->pos += bytes;
	}
	close_object(w, start);
	return 0;
}

/* Opens a collection at `*object`, and moves that to the first element. */
static int open_collection(struct writer *w, const struct apus_op *op, const uint8_t **object,
			   struct frame *out)
{
	const struct apus_sequence *s = (const void *)(*object + op->offset_bytes);
	const bool is_sequence = op->code == APUS_OP_SEQUENCE;

	if (is_sequence && !length_kept(op, s))
		return APUS_EENCODING;
	*out = (struct frame){.object = *object, .left = is_sequence ? s->length : op->bytes};
	if (op->dheader) {
		if (!put_u32(w, 0))
			return APUS_ELIMIT;
		out->start = w->pos;
	}
	if (is_sequence && !put_u32(w, s->length))
		return APUS_ELIMIT;
	*object = is_sequence ? s->data : *object + op->offset_bytes;
	return 0;
}

static int put_member(struct writer *w, struct apus_wire_encoder *e, const struct apus_op *op,
		      const uint8_t *object)
{
	int rc;

	e->pos = w->pos;
	rc = apus_wire_encode_member(e, &op->parent->members[op->index], object + op->offset_bytes,
				     0);
	w->pos = e->pos;
	return rc;
}

int apus_wire_program_encode(const struct apus_op *op, struct apus_wire_encoder *e,
			     const void *sample)
{
	struct frame frames[APUS_WIRE_OPS_DEPTH_MAX], *f = frames;
	struct writer w = {.base = e->base, .end = e->end, .pos = e->pos};
	const uint8_t *object = sample;
	int rc = 0;

	for (;; op++) {
		const void *value = object + op->offset_bytes;

		switch (op->code) {
		case APUS_OP_COPY:
			if (!reserve(&w, op->align, op->bytes))
				return APUS_ELIMIT;
			apus_wire_copy_short(w.base + w.pos, value, op->bytes);
			w.pos += op->bytes;
			break;
		case APUS_OP_BOOLS: rc = put_bools(&w, value, op->bytes); break;
		case APUS_OP_STRING: rc = put_string(&w, op, value); break;
		case APUS_OP_NUMBERS: rc = put_numbers(&w, op, value); break;
		case APUS_OP_SEQUENCE:
		case APUS_OP_ARRAY:
			rc = open_collection(&w, op, &object, f);
			if (rc || f++->left)
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
			close_object(&w, (--f)->start);
			object = f->object;
			break;
		case APUS_OP_OBJECT:
			if (!put_u32(&w, 0))
				return APUS_ELIMIT;
			f++->start = w.pos;
			break;
		case APUS_OP_OBJECT_END: close_object(&w, (--f)->start); break;
		case APUS_OP_MEMBER: rc = put_member(&w, e, op, object); break;
		default: e->pos = w.pos; return 0;
		}
		if (rc)
			return rc;
	}
}
