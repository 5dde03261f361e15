/* SPDX-License-Identifier: Apache-2.0 */
/* Short forms of predicates; see the header. */
#include "dataplane/predicate_quick.h"

#include <string.h>

#include "base/atomics.h"
#include "wire/cdr.h"

enum quick_op { QUICK_S32, QUICK_NUMBER, QUICK_TEXT };

/* ---- making ------------------------------------------------------------------------------------ */

/* Where a field is. */
struct place {
	uint32_t offset;
	uint8_t behind;
	bool found;
};

/* A run before the string has a fixed place; so has one behind it, from the first one there, as long as none is
 * aligned more strictly than that. */
static bool walk_run(const struct apus_wire_step *s, struct apus_dp_quick *q, struct place *places)
{
	uint32_t *at = q->has_string ? &q->tail_bytes : &q->head_bytes;

	if (q->has_string && *at == 0 && q->tail_mask == 0)
		q->tail_mask = s->align_mask;
	if (q->has_string && s->align_mask > q->tail_mask)
		return false;
	*at = (*at + s->align_mask) & ~(uint32_t)s->align_mask;
	if (s->bytes > INT32_MAX / 2 || *at > INT32_MAX / 2)
		return false;
	if (s->slot != APUS_WIRE_NO_SLOT)
		places[s->slot] = (struct place){*at + (uint32_t)s->delta, q->has_string, true};
	*at += (uint32_t)s->bytes;
	return true;
}

static bool walk_string(const struct apus_wire_step *s, struct apus_dp_quick *q, uint32_t *slot_out)
{
	if (q->has_string || s->delta)
		return false;
	q->has_string = true;
	q->head_bytes = ((q->head_bytes + s->align_mask) & ~(uint32_t)s->align_mask) + 4;
	q->string_bound = (uint32_t)s->bytes;
	q->looks_at_string = s->slot != APUS_WIRE_NO_SLOT;
	*slot_out = s->slot;
	return s->bytes <= UINT32_MAX;
}

static bool make_text(const struct apus_dp_program *p, const struct apus_dp_test *t,
		      struct apus_dp_quick_test *out)
{
	if (t->accept != APUS_DP_EQUAL || t->span - 1 >= 8)
		return false;
	out->op = QUICK_TEXT;
	out->text_bits = (uint8_t)(64 - 8 * t->span);
	memcpy((char *)&out->low + 8 - t->span, p->text + t->low, t->span);
	out->low >>= out->text_bits;
	out->span = t->span;
	return true;
}

static bool make_test(const struct apus_dp_program *p, const struct apus_dp_test *t,
		      const struct place *places, uint32_t string_slot,
		      struct apus_dp_quick_test *out)
{
	const struct place *place = &places[t->field];

	*out = (struct apus_dp_quick_test){.on_true = t->on_true, .on_false = t->on_false};
	if (t->op == APUS_DP_TEXT)
		return t->field == string_slot && make_text(p, t, out);
	if (t->op != APUS_DP_RANGE || !place->found)
		return false;
	out->load = p->fields[t->field].load;
	out->op = out->load == APUS_DP_S32 ? QUICK_S32 : QUICK_NUMBER;
	out->offset = place->offset;
	out->behind = place->behind;
	/* A signed key is the value with its sign bit flipped: the same distance from a flipped `low`. */
	out->low = out->op == QUICK_S32 ? t->low ^ UINT64_C(1) << 63 : t->low;
	out->span = t->span;
	return true;
}

bool apus_dp_quick_make(const struct apus_dp_program *p, int encoding, struct apus_dp_quick *q)
{
	struct place places[APUS_DP_FIELDS_MAX];
	uint32_t string_slot = APUS_WIRE_NO_SLOT;

	memset(q, 0, offsetof(struct apus_dp_quick, test));
	if (p->test_count > APUS_DP_QUICK_TESTS || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
		return false;
	for (uint32_t i = 0; i < p->field_count; i++) {
		if (p->fields[i].value_bits)
			return false;
		places[i].found = false;
	}
	for (uint32_t i = 0; i < p->step_count[encoding]; i++) {
		const struct apus_wire_step *s = &p->steps[encoding][i];

		if (s->op != APUS_WIRE_RUN && s->op != APUS_WIRE_STRING)
			return false;
		if (!(s->op == APUS_WIRE_RUN ? walk_run(s, q, places)
					     : walk_string(s, q, &string_slot)))
			return false;
	}
	q->test_count = (uint8_t)p->test_count;
	for (uint32_t i = 0; i < p->test_count; i++)
		if (!make_test(p, &p->tests[i], places, string_slot, &q->test[i]))
			return false;
	return true;
}

/* ---- the brief form ---------------------------------------------------------------------------- */

/* The part of an interval of keys that 32 bits can have. False: there is none. */
static bool narrow(const struct apus_dp_quick_test *t, uint32_t *low_out, uint32_t *span_out)
{
	/* Both kinds as unsigned distances from the least value of the type. */
	uint64_t least = t->load == APUS_DP_S32 ? (uint64_t)INT32_MIN ^ UINT64_C(1) << 63 : 0;
	uint64_t low = t->op == QUICK_S32 ? t->low ^ UINT64_C(1) << 63 : t->low;
	uint64_t high = low + t->span;

	if (high < low || high < least || low > least + UINT32_MAX)
		return false;
	low = low < least ? 0 : low - least;
	high = high - least > UINT32_MAX ? UINT32_MAX : high - least;
	*low_out = (uint32_t)(low + least);
	*span_out = (uint32_t)(high - low);
	return true;
}

static bool brief_text(const struct apus_dp_quick_test *t, struct apus_dp_brief *b)
{
	if (b->text_bytes || t->span > 7)
		return false;
	b->text_bytes = (uint32_t)t->span + 1;
	b->text = t->low << (8 * (7 - t->span)) | UINT64_MAX >> (8 * t->span) >> 8;
	return apus_dp_brief_ends(b->text);
}

static bool brief_number(const struct apus_dp_quick_test *t, struct apus_dp_brief *b)
{
	uint32_t i = b->number_count;

	if ((t->load != APUS_DP_S32 && t->load != APUS_DP_U32) || i == APUS_DP_BRIEF_NUMBERS ||
	    (i && b->behind != t->behind))
		return false;
	b->behind = t->behind;
	b->number[i].offset = t->offset;
	b->number_count++;
	return narrow(t, &b->number[i].low, &b->number[i].span);
}

/* True if the brief form says it all: tests that must all hold, in whatever order. */
static bool brief_tests(const struct apus_dp_quick *q, struct apus_dp_brief *b)
{
	for (uint32_t i = 0; i < q->test_count; i++) {
		const struct apus_dp_quick_test *t = &q->test[i];
		uint16_t next = i + 1 < q->test_count ? (uint16_t)(i + 1) : APUS_DP_TO_PASS;

		if (t->on_true != next || t->on_false != APUS_DP_TO_REJECT ||
		    !(t->op == QUICK_TEXT ? brief_text(t, b) : brief_number(t, b)))
			return false;
	}
	return q->looks_at_string == (b->text_bytes > 0);
}

void apus_dp_brief_make(const struct apus_dp_quick *q, uint16_t encapsulation,
			struct apus_dp_brief *b)
{
	memset(b, 0, sizeof(*b));
	if (q && encapsulation && brief_tests(q, b)) {
		b->encapsulation = encapsulation;
		b->head_bytes = q->head_bytes;
		b->tail_bytes = q->tail_bytes;
		b->tail_mask = q->tail_mask;
		b->least_bytes = APUS_WIRE_ENCAP_BYTES + q->head_bytes;
		if (q->has_string)
			b->string_limit = q->string_bound && q->string_bound < UINT32_MAX
						  ? q->string_bound + 1
						  : UINT32_MAX;
		return;
	}
	b->encapsulation = UINT32_MAX;
	b->least_bytes = APUS_WIRE_ENCAP_BYTES;
}

/* ---- evaluation -------------------------------------------------------------------------------- */

static uint64_t number_at(const struct apus_dp_quick_test *t, const uint8_t *p)
{
	return apus_dp_predicate_key(t->load, p, false);
}

/* True if one of the characters is NUL. At least eight bytes stand in front of them in a payload. */
static inline bool has_nul(const uint8_t *text, uint32_t length)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	uint64_t word;

	if (length > 8)
		return memchr(text, 0, length);
	if (length == 0)
		return false;
	memcpy(&word, text + length - 8, 8);
	word |= length == 8 ? 0 : ~UINT64_C(0) >> (8 * length); /* not a NUL in front of them */
	return ((word - ones) & ~word & ones << 7) != 0;
}

enum apus_dp_verdict apus_dp_quick_eval(const struct apus_dp_quick *q, const uint8_t *bytes,
					uint64_t byte_count)
{
	const uint8_t *base[2] = {bytes, bytes};
	uint64_t at = q->head_bytes;
	const uint8_t *text = bytes + at;
	uint32_t length = 1, i = 0;

	if (APUS_UNLIKELY(at > byte_count))
		return APUS_DP_ERROR;
	if (q->has_string) {
		memcpy(&length, text - 4, sizeof(length));
		if (APUS_UNLIKELY(length == 0 || length > byte_count - at || text[length - 1] ||
				  (q->string_bound && length - 1 > q->string_bound) ||
				  (q->looks_at_string && has_nul(text, length - 1))))
			return APUS_DP_ERROR;
		at = (at + length + q->tail_mask) & ~(uint64_t)q->tail_mask;
		base[1] = bytes + at;
		if (APUS_UNLIKELY(at + q->tail_bytes > byte_count && q->tail_bytes))
			return APUS_DP_ERROR;
	}
	do {
		const struct apus_dp_quick_test *t = &q->test[i];
		const uint8_t *field = base[t->behind] + t->offset;
		uint64_t word;
		int32_t number;
		bool holds;

		if (t->op == QUICK_S32) {
			memcpy(&number, field, sizeof(number));
			holds = (uint64_t)(int64_t)number - t->low <= t->span;
		} else if (t->op == QUICK_TEXT) {
			memcpy(&word, text + length - 9, sizeof(word));
			holds = length - 1 == t->span && word >> t->text_bits == t->low;
		} else {
			holds = number_at(t, field) - t->low <= t->span;
		}
		i = holds ? t->on_true : t->on_false;
	} while (i < APUS_DP_TO_REJECT);
	return i == APUS_DP_TO_PASS ? APUS_DP_PASS : APUS_DP_REJECT;
}
