/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evaluation of compiled predicates over CDR bytes, and the block they live in.
 *
 * The payload is untrusted, the program is ours: its invariants are checked once, when it is assembled.
 * One walk locates all fields before any test, so the verdict on malformed bytes does not depend on
 * which tests short-circuit evaluation would have reached. No recursion, no allocation; cost at most
 * the steps of the walk, the payload and the tests, each once.
 */
#include "dataplane/predicate.h"

#include <stdlib.h>
#include <string.h>

#include "base/atomics.h"
#include "dataplane/predicate_program.h"
#include "dataplane/predicate_quick.h"
#include "wire/cdr.h"

/** The block: this header, then tests, steps, fields, data and text at the offsets it names. */
struct apus_dp_predicate {
	uint16_t test_count, field_count;
	uint16_t step_count[2];
	uint32_t steps_at[2], fields_at, data_at, text_at;
	uint8_t extensibility; /* of the type */
	bool has_checked;      /* some field has value_bits */
	/* Encapsulation of payloads find_plain() may walk: the type's in this machine's byte order, if the
	 * walk is nothing but runs and strings; else 0, which is none. As loaded from the payload. */
	uint16_t plain_id[2];
	uint32_t quick_at[2]; /* short form for those; 0: none */
	struct apus_dp_brief brief[2];
	/* Set: there is no program, this is asked instead. */
	enum apus_dp_verdict (*custom)(void *context, const uint8_t *payload, size_t bytes);
	void (*release)(void *context);
	void *context;
	struct apus_dp_test tests[];
};

/* ---- loading fields ---------------------------------------------------------------------------- */

static inline uint64_t load_u16(const uint8_t *p, bool swap)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return swap ? __builtin_bswap16(v) : v;
}

static inline uint64_t load_u32(const uint8_t *p, bool swap)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return swap ? __builtin_bswap32(v) : v;
}

static inline uint64_t load_u64(const uint8_t *p, bool swap)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return swap ? __builtin_bswap64(v) : v;
}

/* The value of a field: sign-extended integer, or the bits of a double. */
static inline uint64_t load_value(uint8_t load, const uint8_t *p, bool swap)
{
	switch (load) {
	case APUS_DP_U8: return *p;
	case APUS_DP_U16: return load_u16(p, swap);
	case APUS_DP_U32: return load_u32(p, swap);
	case APUS_DP_S8: return (uint64_t)(int64_t)(int8_t)*p;
	case APUS_DP_S16: return (uint64_t)(int64_t)(int16_t)load_u16(p, swap);
	case APUS_DP_S32: return (uint64_t)(int64_t)(int32_t)load_u32(p, swap);
	case APUS_DP_F32: return apus_dp_double_bits((uint32_t)load_u32(p, swap));
	default: return load_u64(p, swap);
	}
}

static inline uint64_t load_key(uint8_t load, const uint8_t *p, bool swap)
{
	uint64_t value = load_value(load, p, swap);

	if (load <= APUS_DP_U64)
		return value;
	if (load <= APUS_DP_S64)
		return apus_dp_key_signed((int64_t)value);
	return apus_dp_key_double(value);
}

/* ---- comparing fields with each other ---------------------------------------------------------- */

/* A number as the greatest integer not above it and "there is more". */
struct number {
	__int128 floor;
	bool fraction, is_float;
	uint64_t key; /* floats only */
};

void apus_dp_split_double(uint64_t bits, __int128 *floor_out, bool *fraction_out)
{
	bool negative = bits >> 63, fraction = false;
	int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
	uint64_t mantissa = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
	__int128 whole;

	if (exponent >= 66) {
		whole = APUS_DP_FAR;
	} else if (exponent >= 52) {
		whole = (__int128)mantissa << (exponent - 52);
	} else {
		whole = exponent < 0 ? 0 : mantissa >> (52 - exponent);
		fraction = exponent < 0 ? bits << 1 != 0
					: (uint64_t)whole << (52 - exponent) != mantissa;
	}
	*floor_out = negative ? -whole - fraction : whole;
	*fraction_out = fraction;
}

static struct number load_number(uint8_t load, const uint8_t *p, bool swap)
{
	uint64_t value = load_value(load, p, swap);
	struct number n = {.is_float = load >= APUS_DP_F32};

	if (n.is_float) {
		n.key = apus_dp_key_double(value);
		apus_dp_split_double(value, &n.floor, &n.fraction);
	} else {
		n.floor = load <= APUS_DP_U64 ? (__int128)value : (__int128)(int64_t)value;
	}
	return n;
}

static bool is_nan(const struct number *n)
{
	const uint64_t infinity = UINT64_C(0x7ff) << 52;

	return n->is_float && (n->key > apus_dp_key_double(infinity) ||
			       n->key < apus_dp_key_double(infinity | UINT64_C(1) << 63));
}

static inline unsigned int outcome(bool greater, bool less)
{
	return greater ? APUS_DP_GREATER : less ? APUS_DP_LESS : APUS_DP_EQUAL;
}

/* One of APUS_DP_LESS, _EQUAL, _GREATER; 0 if a side is NaN. */
static unsigned int compare_numbers(const struct number *a, const struct number *b)
{
	const uint64_t zero = UINT64_C(1) << 63;

	if (is_nan(a) || is_nan(b))
		return 0;
	if (a->is_float && b->is_float) {
		/* -0 has the key just below that of +0 and equals it. */
		uint64_t x = a->key == zero - 1 ? zero : a->key,
			 y = b->key == zero - 1 ? zero : b->key;

		return outcome(x > y, x < y);
	}
	if (a->floor != b->floor)
		return outcome(a->floor > b->floor, true);
	return outcome(a->fraction, b->fraction);
}

static unsigned int compare_bytes(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
	int order = memcmp(a, b, a_bytes < b_bytes ? a_bytes : b_bytes);

	if (order == 0)
		return outcome(a_bytes > b_bytes, a_bytes < b_bytes);
	return outcome(order > 0, true);
}

/* ---- evaluation -------------------------------------------------------------------------------- */

static const struct apus_dp_field *fields_of(const struct apus_dp_predicate *p)
{
	return (const struct apus_dp_field *)((const char *)p + p->fields_at);
}

static bool in_set(const uint64_t *keys, uint64_t count, uint64_t key)
{
	while (count > 1) { /* the answer, if any, is in keys[0 … count) */
		uint64_t half = count / 2;

		keys = keys[half] <= key ? keys + half : keys;
		count -= half;
	}
	return *keys == key;
}

static bool in_texts(const struct apus_dp_text *texts, uint64_t count, const char *text,
		     const struct apus_wire_slot *s)
{
	uint64_t low = 0;

	while (low < count) {
		uint64_t middle = low + (count - low) / 2;
		unsigned int order = compare_bytes(s->bytes, s->length, text + texts[middle].at,
						   texts[middle].length);

		if (order == APUS_DP_EQUAL)
			return true;
		if (order == APUS_DP_LESS)
			count = middle;
		else
			low = middle + 1;
	}
	return false;
}

static bool holds(const struct apus_dp_predicate *p, const struct apus_dp_test *t,
		  const struct apus_wire_slot *slots, bool swap)
{
	const struct apus_wire_slot *a = &slots[t->field], *b = &slots[t->field_b];
	const char *text = (const char *)p + p->text_at;
	const uint8_t *data = (const uint8_t *)p + p->data_at;
	struct number x, y;

	switch (t->op) {
	case APUS_DP_RANGE:
		return load_key(fields_of(p)[t->field].load, a->bytes, swap) - t->low <= t->span;
	case APUS_DP_TEXT:
		if (t->accept == APUS_DP_EQUAL)
			return a->length == t->span &&
			       memcmp(a->bytes, text + t->low, t->span) == 0;
		return compare_bytes(a->bytes, a->length, text + t->low, t->span) & t->accept;
	case APUS_DP_STRINGS:
		return compare_bytes(a->bytes, a->length, b->bytes, b->length) & t->accept;
	case APUS_DP_PRESENT: return true;
	case APUS_DP_SET:
		return in_set((const uint64_t *)(data + t->low), t->span,
			      load_key(fields_of(p)[t->field].load, a->bytes, swap));
	case APUS_DP_TEXTS:
		return in_texts((const struct apus_dp_text *)(data + t->low), t->span, text, a);
	case APUS_DP_PATTERN:
		return apus_dp_pattern_match(data, (const struct apus_dp_segment *)(data + t->low),
					     (uint32_t)t->span, a->bytes, a->length);
	default:
		x = load_number(fields_of(p)[t->field].load, a->bytes, swap);
		y = load_number(fields_of(p)[t->field_b].load, b->bytes, swap);
		return compare_numbers(&x, &y) & t->accept;
	}
}

/* True if the sample lacks a field of the test. */
static inline bool lacks(const struct apus_dp_test *t, const struct apus_wire_slot *slots)
{
	return !slots[t->field].bytes || !slots[t->field_b].bytes;
}

/* True if a string has a NUL among its characters. In a payload at least eight bytes stand in front of
 * them, encapsulation header and length, so short strings are looked at as one word ending with their
 * last character. */
static inline bool has_nul(const struct apus_wire_slot *s)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	const uint64_t ones = UINT64_C(0x0101010101010101);
	uint64_t word;

	if (s->length == 0)
		return false;
	if (APUS_LIKELY(s->length <= 8)) {
		memcpy(&word, s->bytes + s->length - 8, 8);
		/* What stands in front counts as no NUL. */
		word |= s->length == 8 ? 0 : ~UINT64_C(0) >> (8 * s->length);
		return ((word - ones) & ~word & ones << 7) != 0;
	}
#endif
	return s->length && memchr(s->bytes, 0, s->length);
}

/* Values that are none of their type make the sample malformed, as decoding it would. */
static bool values_valid(const struct apus_dp_predicate *p, const struct apus_wire_slot *slots,
			 bool swap)
{
	const struct apus_dp_field *fields = fields_of(p);

	for (uint32_t i = 0; i < p->field_count; i++) {
		if (!slots[i].bytes)
			continue;
		if (fields[i].value_bits &&
		    load_value(fields[i].load, slots[i].bytes, swap) >> fields[i].value_bits)
			return false;
	}
	return true;
}

static bool locate(const struct apus_dp_predicate *p, const struct apus_wire_cdr *c,
		   struct apus_wire_slot *slots)
{
	const struct apus_wire_step *steps =
		(const struct apus_wire_step *)((const char *)p + p->steps_at[c->xcdr2]);

	return apus_wire_walk(steps, p->step_count[c->xcdr2], c->base, c->end, c->swap, slots);
}

static enum apus_dp_verdict run(const struct apus_dp_predicate *p,
				const struct apus_wire_slot *slots, bool swap)
{
	uint32_t at = 0;

	while (at < p->test_count) {
		const struct apus_dp_test *t = &p->tests[at];

		if (APUS_UNLIKELY(lacks(t, slots)))
			at = t->on_absent;
		else
			at = holds(p, t, slots, swap) ? t->on_true : t->on_false;
	}
	return at == APUS_DP_TO_PASS ? APUS_DP_PASS : APUS_DP_REJECT;
}

/* ---- evaluation of the common case ------------------------------------------------------------- */

/*
 * Most types are flat, and most senders have this machine's byte order: then fields are found by one
 * short loop, none is absent, and the frequent tests are done in place. The results are the same.
 */
static inline bool find_plain(const struct apus_dp_predicate *p, bool xcdr2, const uint8_t *base,
			      uint64_t end, struct apus_wire_slot *slots)
{
	const struct apus_wire_step *s =
		(const struct apus_wire_step *)((const char *)p + p->steps_at[xcdr2]);
	const struct apus_wire_step *last = s + p->step_count[xcdr2];
	uint64_t at = 0;

	for (; s < last; s++) {
		uint32_t length;

		at = (at + s->align_mask) & ~(uint64_t)s->align_mask;
		if (s->op == APUS_WIRE_RUN) {
			if (s->slot != APUS_WIRE_NO_SLOT)
				slots[s->slot].bytes = base + at + s->delta;
			at += s->bytes;
			if (APUS_UNLIKELY(at > end))
				return false;
			continue;
		}
		if (APUS_UNLIKELY(at + sizeof(length) > end))
			return false;
		memcpy(&length, base + at, sizeof(length));
		at += sizeof(length);
		if (APUS_UNLIKELY(length == 0 || length > end - at || base[at + length - 1] ||
				  (s->bytes && length - 1 > s->bytes)))
			return false;
		if (s->slot != APUS_WIRE_NO_SLOT) {
			slots[s->slot] = (struct apus_wire_slot){base + at, length - 1};
			if (APUS_UNLIKELY(has_nul(&slots[s->slot])))
				return false;
		}
		at += length;
	}
	return true;
}

/* Equality of a string of the payload with a short constant. At least eight bytes stand in front of a
 * string, and as many behind the constants (lay_out()), so each is one word. */
static inline bool equals_short(const struct apus_wire_slot *s, const char *text, uint32_t length)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	unsigned int others = 64 - 8 * length;
	uint64_t here, wanted;

	memcpy(&here, s->bytes + length - 8, 8);
	memcpy(&wanted, text, 8);
	return here >> others == wanted << others >> others;
#else
	return memcmp(s->bytes, text, length) == 0;
#endif
}

static inline bool holds_plain(const struct apus_dp_predicate *p, const struct apus_dp_test *t,
			       const struct apus_wire_slot *slots)
{
	const struct apus_wire_slot *a = &slots[t->field];

	if (t->op == APUS_DP_RANGE) {
		if (t->load == APUS_DP_S32)
			return apus_dp_key_signed((int32_t)load_u32(a->bytes, false)) - t->low <=
			       t->span;
		return load_key(t->load, a->bytes, false) - t->low <= t->span;
	}
	if (t->op == APUS_DP_TEXT && t->accept == APUS_DP_EQUAL && t->span - 1 < 8)
		return a->length == t->span &&
		       equals_short(a, (const char *)p + p->text_at + t->low, (uint32_t)t->span);
	return holds(p, t, slots, false);
}

static inline enum apus_dp_verdict run_plain(const struct apus_dp_predicate *p,
					     const struct apus_wire_slot *slots)
{
	uint32_t at = 0;

	do {
		const struct apus_dp_test *t = &p->tests[at];

		at = holds_plain(p, t, slots) ? t->on_true : t->on_false;
	} while (at < APUS_DP_TO_REJECT);
	return at == APUS_DP_TO_PASS ? APUS_DP_PASS : APUS_DP_REJECT;
}

/* The same for any payload. */
static bool find_any(const struct apus_dp_predicate *p, const uint8_t *payload,
		     size_t payload_bytes, struct apus_wire_slot *slots, bool *swap_out)
{
	struct apus_wire_cdr c;

	/* The encapsulation must be the one of the type (apus_wire_cdr_fits()). */
	if (apus_wire_cdr_open(&c, payload, payload_bytes) < 0 ||
	    c.members != (p->extensibility == APUS_MUTABLE) ||
	    (c.xcdr2 && c.delimited != (p->extensibility == APUS_APPENDABLE)) ||
	    !locate(p, &c, slots))
		return false;
	*swap_out = c.swap;
	return !p->has_checked || values_valid(p, slots, c.swap);
}

/* True if find_plain() may walk the payload; then also under which encoding, and where it ends. */
static inline bool is_plain(const struct apus_dp_predicate *p, const uint8_t *payload,
			    size_t payload_bytes, bool *xcdr2_out, size_t *end_out)
{
	uint32_t padding;
	uint16_t id;

	if (APUS_UNLIKELY(payload_bytes < APUS_WIRE_ENCAP_BYTES || payload_bytes > INT32_MAX))
		return false;
	memcpy(&id, payload, sizeof(id));
	padding = payload[3] & 3u;
	*xcdr2_out = id != p->plain_id[0];
	*end_out = payload_bytes - APUS_WIRE_ENCAP_BYTES - padding;
	return APUS_LIKELY(id != 0 && id == p->plain_id[*xcdr2_out] &&
			   payload_bytes - APUS_WIRE_ENCAP_BYTES >= padding);
}

static inline bool find_fields_plain(const struct apus_dp_predicate *p, bool xcdr2,
				     const uint8_t *payload, size_t end,
				     struct apus_wire_slot *slots)
{
	return find_plain(p, xcdr2, payload + APUS_WIRE_ENCAP_BYTES, end, slots) &&
	       (!p->has_checked || values_valid(p, slots, false));
}

/* Aside, for it needs much of the stack. */
static enum apus_dp_verdict __attribute__((noinline))
eval_any(const struct apus_dp_predicate *predicate, const uint8_t *payload, size_t payload_bytes)
{
	struct apus_wire_slot slots[APUS_DP_FIELDS_MAX];
	bool xcdr2, swap;
	size_t end;

	if (APUS_LIKELY(is_plain(predicate, payload, payload_bytes, &xcdr2, &end)))
		return find_fields_plain(predicate, xcdr2, payload, end, slots)
			       ? run_plain(predicate, slots)
			       : APUS_DP_ERROR;
	if (predicate->custom)
		return predicate->custom(predicate->context, payload, payload_bytes);
	if (!find_any(predicate, payload, payload_bytes, slots, &swap))
		return APUS_DP_ERROR;
	return run(predicate, slots, swap);
}

enum apus_dp_verdict apus_dp_predicate_eval(const struct apus_dp_predicate *predicate,
					    const uint8_t *payload, size_t payload_bytes)
{
	enum apus_dp_verdict verdict;
	bool xcdr2;
	size_t end;

	if (apus_dp_brief_eval(&predicate->brief[0], payload, payload_bytes, &verdict) ||
	    apus_dp_brief_eval(&predicate->brief[1], payload, payload_bytes, &verdict))
		return verdict;
	if (APUS_LIKELY(is_plain(predicate, payload, payload_bytes, &xcdr2, &end)) &&
	    predicate->quick_at[xcdr2])
		return apus_dp_quick_eval(
			(const struct apus_dp_quick *)((const char *)predicate +
						       predicate->quick_at[xcdr2]),
			payload + APUS_WIRE_ENCAP_BYTES, end);
	return eval_any(predicate, payload, payload_bytes);
}

struct apus_dp_predicate *apus_dp_predicate_custom(
	enum apus_dp_verdict (*evaluate)(void *context, const uint8_t *payload, size_t bytes),
	void (*release)(void *context), void *context)
{
	struct apus_dp_predicate *p = calloc(1, sizeof(*p));

	if (p) {
		for (int x = 0; x < 2; x++)
			apus_dp_brief_make(NULL, 0, &p->brief[x]);
		p->custom = evaluate;
		p->release = release;
		p->context = context;
	}
	return p;
}

void apus_dp_predicate_free(struct apus_dp_predicate *predicate)
{
	if (predicate && predicate->release)
		predicate->release(predicate->context);
	free(predicate);
}

bool apus_dp_predicate_locate(const struct apus_dp_predicate *predicate, const uint8_t *payload,
			      size_t payload_bytes, struct apus_wire_slot *slots_out,
			      bool *swap_out)
{
	bool xcdr2;
	size_t end;

	*swap_out = false;
	if (APUS_LIKELY(is_plain(predicate, payload, payload_bytes, &xcdr2, &end)))
		return find_fields_plain(predicate, xcdr2, payload, end, slots_out);
	return find_any(predicate, payload, payload_bytes, slots_out, swap_out);
}

uint64_t apus_dp_predicate_key(uint8_t load, const uint8_t *bytes, bool swap)
{
	return load_key(load, bytes, swap);
}

const struct apus_dp_test *apus_dp_predicate_tests(const struct apus_dp_predicate *predicate,
						   uint32_t *count_out)
{
	*count_out = predicate->test_count;
	return predicate->tests;
}

const uint8_t *apus_dp_predicate_data(const struct apus_dp_predicate *predicate)
{
	return (const uint8_t *)predicate + predicate->data_at;
}

const char *apus_dp_predicate_text(const struct apus_dp_predicate *predicate)
{
	return (const char *)predicate + predicate->text_at;
}

/* ---- assembling -------------------------------------------------------------------------------- */

static bool targets_valid(const struct apus_dp_program *p, uint32_t index)
{
	const struct apus_dp_test *t = &p->tests[index];
	const uint16_t targets[] = {t->on_true, t->on_false,
				    t->on_absent ? t->on_absent : APUS_DP_TO_REJECT};

	for (size_t i = 0; i < APUS_ARRAY_LENGTH(targets); i++) {
		if (targets[i] < APUS_DP_TO_REJECT &&
		    (targets[i] <= index || targets[i] >= p->test_count))
			return false;
	}
	return true;
}

/* True if `count` things of `bytes` each, aligned to 8, lie within the data from `at` on. */
static bool data_holds(const struct apus_dp_program *p, uint64_t at, uint64_t count, size_t bytes)
{
	return at % 8 == 0 && at <= p->data_bytes && count <= (p->data_bytes - at) / bytes;
}

static bool texts_valid(const struct apus_dp_program *p, const struct apus_dp_test *t)
{
	const struct apus_dp_text *texts;

	if (!data_holds(p, t->low, t->span, sizeof(*texts)))
		return false;
	texts = (const struct apus_dp_text *)(p->data + t->low);
	for (uint64_t i = 0; i < t->span; i++)
		if (texts[i].at > p->text_bytes || texts[i].length > p->text_bytes - texts[i].at)
			return false;
	return true;
}

static bool operand_valid(const struct apus_dp_program *p, const struct apus_dp_test *t)
{
	switch (t->op) {
	case APUS_DP_TEXT: return t->low <= p->text_bytes && t->span <= p->text_bytes - t->low;
	case APUS_DP_SET: return t->span > 0 && data_holds(p, t->low, t->span, sizeof(uint64_t));
	case APUS_DP_TEXTS: return texts_valid(p, t);
	case APUS_DP_PATTERN:
		return data_holds(p, t->low, t->span, sizeof(struct apus_dp_segment)) &&
		       apus_dp_pattern_valid(p->data, p->data_bytes,
					     (const struct apus_dp_segment *)(p->data + t->low),
					     (uint32_t)t->span);
	default: return true;
	}
}

static bool test_valid(const struct apus_dp_program *p, uint32_t index)
{
	const struct apus_dp_test *t = &p->tests[index];
	bool string = t->op == APUS_DP_TEXT || t->op == APUS_DP_STRINGS || t->op == APUS_DP_TEXTS ||
		      t->op == APUS_DP_PATTERN;
	bool second = t->op == APUS_DP_NUMBERS || t->op == APUS_DP_STRINGS;

	if (t->op > APUS_DP_PATTERN || t->field >= p->field_count || t->field_b >= p->field_count)
		return false;
	if (t->op != APUS_DP_PRESENT && (p->fields[t->field].load == APUS_DP_STRING) != string)
		return false;
	if (second && (p->fields[t->field_b].load == APUS_DP_STRING) != string)
		return false;
	return targets_valid(p, index) && operand_valid(p, t);
}

static bool slots_valid(const struct apus_dp_program *p, const struct apus_wire_step *s)
{
	if (s->slot != APUS_WIRE_NO_SLOT && s->slot >= p->field_count)
		return false;
	return s->op != APUS_WIRE_STRING || s->delta <= p->field_count;
}

static bool program_valid(const struct apus_dp_program *p)
{
	if (p->field_count == 0 || p->field_count > APUS_DP_FIELDS_MAX || p->test_count == 0 ||
	    p->test_count > APUS_DP_TESTS_MAX || p->text_bytes > INT32_MAX / 2 ||
	    p->data_bytes > INT32_MAX / 2)
		return false;
	for (int x = 0; x < 2; x++) {
		if (p->step_count[x] > UINT16_MAX)
			return false;
		for (uint32_t i = 0; i < p->step_count[x]; i++)
			if (!slots_valid(p, &p->steps[x][i]))
				return false;
	}
	for (uint32_t i = 0; i < p->field_count; i++)
		if (p->fields[i].load > APUS_DP_STRING || p->fields[i].value_bits >= 64)
			return false;
	for (uint32_t i = 0; i < p->test_count; i++)
		if (!test_valid(p, i))
			return false;
	return true;
}

static size_t quick_bytes(const struct apus_dp_quick *quick)
{
	return offsetof(struct apus_dp_quick, test) +
	       quick->test_count * sizeof(struct apus_dp_quick_test);
}

/* Places the parts behind the header; returns where the block ends. */
static size_t lay_out(const struct apus_dp_program *program, struct apus_dp_predicate *header)
{
	size_t at = sizeof(*header) + program->test_count * sizeof(struct apus_dp_test);

	for (int x = 0; x < 2; x++) {
		header->steps_at[x] = (uint32_t)at;
		at += program->step_count[x] * sizeof(struct apus_wire_step);
	}
	header->fields_at = (uint32_t)at;
	at += program->field_count * sizeof(struct apus_dp_field);
	at = (at + 7) & ~(size_t)7;
	header->data_at = (uint32_t)at;
	at += program->data_bytes;
	header->text_at = (uint32_t)at;
	at += program->text_bytes + sizeof(uint64_t); /* equals_short() */
	for (int x = 0; x < 2; x++) {
		struct apus_dp_quick quick;

		header->quick_at[x] = 0;
		if (!apus_dp_quick_make(program, x, &quick))
			continue;
		at = (at + 7) & ~(size_t)7;
		header->quick_at[x] = (uint32_t)at;
		at += quick_bytes(&quick);
	}
	return at;
}

size_t apus_dp_predicate_bytes(const struct apus_dp_program *program)
{
	struct apus_dp_predicate header;

	return program_valid(program) ? lay_out(program, &header) : 0;
}

/* memcpy() that accepts no source for no bytes. */
static void place(struct apus_dp_predicate *p, uint32_t at, const void *from, size_t bytes)
{
	if (bytes)
		memcpy((char *)p + at, from, bytes);
}

/* The encapsulation identifier of the type in this machine's byte order, as it loads from a payload. */
static uint16_t plain_id(bool xcdr2, bool delimited)
{
	uint8_t little = !xcdr2      ? APUS_WIRE_CDR_LE
			 : delimited ? APUS_WIRE_D_CDR2_LE
				     : APUS_WIRE_CDR2_LE;
	uint8_t bytes[2] = {0, little - (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)};
	uint16_t id;

	memcpy(&id, bytes, sizeof(id));
	return id;
}

/* What a maker may leave out. */
static void complete_test(const struct apus_dp_field *fields, struct apus_dp_test *t)
{
	t->load = fields[t->field].load;
	if (t->op != APUS_DP_NUMBERS && t->op != APUS_DP_STRINGS)
		t->field_b = t->field;
	if (!t->on_absent)
		t->on_absent = APUS_DP_TO_REJECT;
}

struct apus_dp_predicate *apus_dp_predicate_assemble(const struct apus_dp_program *program,
						     void *block)
{
	struct apus_dp_predicate *p = block;
	bool plain[2] = {true, true};

	memset(p, 0, sizeof(*p));
	lay_out(program, p);
	p->test_count = (uint16_t)program->test_count;
	p->field_count = (uint16_t)program->field_count;
	p->extensibility = program->extensibility;
	for (int x = 0; x < 2; x++) {
		p->step_count[x] = (uint16_t)program->step_count[x];
		for (uint32_t i = 0; i < program->step_count[x]; i++) {
			const struct apus_wire_step *s = &program->steps[x][i];

			plain[x] &=
				s->op == APUS_WIRE_RUN || (s->op == APUS_WIRE_STRING && !s->delta);
		}
		p->plain_id[x] =
			plain[x] ? plain_id(x == 1, program->extensibility == APUS_APPENDABLE) : 0;
		place(p, p->steps_at[x], program->steps[x],
		      program->step_count[x] * sizeof(struct apus_wire_step));
	}
	for (uint32_t i = 0; i < program->field_count; i++)
		p->has_checked |= program->fields[i].value_bits != 0;
	memcpy(p->tests, program->tests, program->test_count * sizeof(struct apus_dp_test));
	for (uint32_t i = 0; i < program->test_count; i++)
		complete_test(program->fields, &p->tests[i]);
	place(p, p->data_at, program->data, program->data_bytes);
	place(p, p->fields_at, program->fields,
	      program->field_count * sizeof(struct apus_dp_field));
	place(p, p->text_at, program->text, program->text_bytes);
	for (int x = 0; x < 2; x++) {
		struct apus_dp_quick quick;

		apus_dp_brief_make(NULL, 0, &p->brief[x]);
		if (!p->quick_at[x] || !apus_dp_quick_make(program, x, &quick))
			continue;
		place(p, p->quick_at[x], &quick, quick_bytes(&quick));
		apus_dp_brief_make(&quick, p->plain_id[x], &p->brief[x]);
	}
	return p;
}
