/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One predicate of an expression to its test: operands typed by the member they meet, constants turned
 * into intervals of keys, lists sorted, patterns compiled. Which classes may be compared is decided here.
 */
#include "control/filter_internal.h"

#include <stdlib.h>
#include <string.h>

static const char *const class_names[] = {"a boolean",      "an integer", "a float", "a char",
					  "an enumeration", "a bitmask",  "a string"};

static struct apus_dp_test *add_test(struct apus_ctl_filter_compiler *c, uint8_t op, uint16_t field)
{
	struct apus_dp_test *t = &c->tests[c->test_count++];

	*t = (struct apus_dp_test){.op = op, .field = field};
	return t;
}

static struct apus_ctl_filter_range range_of(const struct apus_ctl_filter_compiler *c,
					     uint16_t field, uint8_t op,
					     const struct apus_ctl_filter_number *n)
{
	uint8_t load = c->operands.fields[field].load;
	unsigned int bits;

	if (load >= APUS_DP_F32)
		return apus_ctl_filter_range_float(op, n);
	if (load <= APUS_DP_U64)
		return apus_ctl_filter_range_integer(op, n, 0, ((__int128)1 << (8u << load)) - 1);
	bits = (8u << (load - APUS_DP_S8)) - 1;
	return apus_ctl_filter_range_integer(op, n, -((__int128)1 << bits),
					     ((__int128)1 << bits) - 1);
}

/* One interval test. `accept` 0 marks one that never holds, for aim_leaf(). */
static void add_range(struct apus_ctl_filter_compiler *c, uint16_t field,
		      struct apus_ctl_filter_range r)
{
	struct apus_dp_test *t = add_test(c, APUS_DP_RANGE, field);

	t->accept = !r.empty;
	t->low = r.low;
	t->span = r.high - r.low;
}

static uint8_t accept_of(uint8_t op)
{
	static const uint8_t accept[] = {
		[APUS_CTL_OP_LT] = APUS_DP_LESS,
		[APUS_CTL_OP_LE] = APUS_DP_LESS | APUS_DP_EQUAL,
		[APUS_CTL_OP_EQ] = APUS_DP_EQUAL,
		[APUS_CTL_OP_NE] = APUS_DP_EQUAL, /* negated by its targets */
		[APUS_CTL_OP_GE] = APUS_DP_GREATER | APUS_DP_EQUAL,
		[APUS_CTL_OP_GT] = APUS_DP_GREATER,
	};

	return accept[op];
}

static int compare_text(struct apus_ctl_filter_compiler *c, uint16_t field, uint8_t op,
			const struct apus_ctl_filter_token *constant)
{
	struct apus_ctl_filter_text text;
	struct apus_dp_test *t;
	int result = apus_ctl_filter_bind_text(&c->operands, constant, &text);

	if (result < 0)
		return result;
	t = add_test(c, APUS_DP_TEXT, field);
	t->accept = accept_of(op);
	t->low = text.at;
	t->span = text.length;
	return 0;
}

static int compare_number(struct apus_ctl_filter_compiler *c, uint16_t field, uint8_t op,
			  const struct apus_ctl_filter_token *constant)
{
	struct apus_ctl_filter_number n;
	int result = apus_ctl_filter_bind_number(&c->operands, constant, field, &n);

	if (op == APUS_CTL_OP_NE)
		op = APUS_CTL_OP_EQ; /* negated by its targets */
	if (result == 0)
		add_range(c, field, range_of(c, field, op, &n));
	return result;
}

/* Which classes of members may be compared with each other. */
static bool comparable(uint8_t a, uint8_t b)
{
	if (a == APUS_CTL_CLASS_INTEGER || b == APUS_CTL_CLASS_INTEGER) {
		uint8_t other = a == APUS_CTL_CLASS_INTEGER ? b : a;

		return other == APUS_CTL_CLASS_INTEGER || other == APUS_CTL_CLASS_FLOAT ||
		       other == APUS_CTL_CLASS_ENUM || other == APUS_CTL_CLASS_BITMASK;
	}
	return a == b && a != APUS_CTL_CLASS_BITMASK;
}

static int compare_members(struct apus_ctl_filter_compiler *c, uint16_t a, uint8_t op, uint16_t b,
			   const struct apus_ctl_filter_token *where)
{
	uint8_t a_class = c->operands.members[a].class, b_class = c->operands.members[b].class;
	struct apus_dp_test *t;

	if (!comparable(a_class, b_class))
		return apus_ctl_filter_fail(c->operands.error, where->position, where->length,
					    "%s cannot be compared with %s", class_names[a_class],
					    class_names[b_class]);
	t = add_test(c, a_class == APUS_CTL_CLASS_STRING ? APUS_DP_STRINGS : APUS_DP_NUMBERS, a);
	t->accept = accept_of(op);
	t->field_b = b;
	return 0;
}

/* `member op operand`. */
static int compare(struct apus_ctl_filter_compiler *c, uint16_t field, uint8_t op,
		   const struct apus_ctl_filter_token *operand)
{
	uint16_t other;
	int result;

	if (c->operands.members[field].class == APUS_CTL_CLASS_BOOL && op != APUS_CTL_OP_EQ &&
	    op != APUS_CTL_OP_NE)
		return apus_ctl_filter_fail_at(&c->operands, operand,
					       "a boolean has no order: only = and <> compare it");
	if (operand->kind != APUS_CTL_TOKEN_NAME)
		return c->operands.members[field].class == APUS_CTL_CLASS_STRING
			       ? compare_text(c, field, op, operand)
			       : compare_number(c, field, op, operand);
	result = apus_ctl_filter_use_member(&c->operands, operand, &other);
	return result < 0 ? result : compare_members(c, field, op, other, operand);
}

/* The operator with its sides exchanged. */
static uint8_t mirrored(uint8_t op)
{
	if (op == APUS_CTL_OP_EQ || op == APUS_CTL_OP_NE)
		return op;
	return (uint8_t)(APUS_CTL_OP_LT + APUS_CTL_OP_GT - op);
}

/* Two tests `>= low` and `<= high` on one member become one when both are intervals: the first reaches to
 * the end of all values, the second from their beginning. */
static void join_interval(struct apus_ctl_filter_compiler *c)
{
	struct apus_dp_test *low = &c->tests[c->test_count - 2], *high = low + 1;
	uint64_t end = high->low + high->span;

	if (low->op != APUS_DP_RANGE || high->op != APUS_DP_RANGE)
		return;
	low->accept = low->accept && high->accept && low->low <= end;
	low->span = end - low->low;
	c->test_count--;
}

static int compile_range(struct apus_ctl_filter_compiler *c, uint16_t field,
			 const struct apus_ctl_filter_leaf *leaf)
{
	int result;

	if (c->operands.members[field].class == APUS_CTL_CLASS_BOOL)
		return apus_ctl_filter_fail_at(&c->operands, &leaf->a, "a boolean has no range");
	result = compare(c, field, APUS_CTL_OP_GE, &leaf->b);
	if (result == 0)
		result = compare(c, field, APUS_CTL_OP_LE, &leaf->c);
	if (result == 0)
		join_interval(c);
	return result;
}

/* ---- lists ------------------------------------------------------------------------------------- */

static int compare_keys(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Sorts keys and drops repeated ones; returns how many are left. */
static uint32_t sort_keys(uint64_t *keys, uint32_t count)
{
	uint32_t kept = 0;

	qsort(keys, count, sizeof(*keys), compare_keys);
	for (uint32_t i = 0; i < count; i++)
		if (kept == 0 || keys[kept - 1] != keys[i])
			keys[kept++] = keys[i];
	return kept;
}

/* Appends the keys that equal one constant: none, one, or the two zeros of floats. */
static int list_number(struct apus_ctl_filter_compiler *c, uint16_t field,
		       const struct apus_ctl_filter_token *item, uint64_t *keys, uint32_t *count)
{
	struct apus_ctl_filter_number n;
	struct apus_ctl_filter_range r;
	int result = apus_ctl_filter_bind_number(&c->operands, item, field, &n);

	if (result < 0)
		return result;
	r = range_of(c, field, APUS_CTL_OP_EQ, &n);
	if (!r.empty)
		keys[(*count)++] = r.low;
	if (!r.empty && r.high != r.low)
		keys[(*count)++] = r.high;
	return 0;
}

static int compile_keys(struct apus_ctl_filter_compiler *c, uint16_t field,
			const struct apus_ctl_filter_leaf *leaf)
{
	int64_t at = apus_ctl_filter_blob_add(&c->data, 2 * leaf->item_count * sizeof(uint64_t));
	uint64_t *keys;
	uint32_t count = 0;
	struct apus_dp_test *t;

	if (at < 0)
		return (int)at;
	keys = (uint64_t *)(c->data.bytes + at);
	for (uint32_t i = 0; i < leaf->item_count; i++) {
		int result =
			list_number(c, field, &c->tree.items[leaf->first_item + i], keys, &count);

		if (result < 0)
			return result;
	}
	count = sort_keys(keys, count);
	c->data.count = (uint32_t)at + count * (uint32_t)sizeof(uint64_t);
	if (count < 2) {
		add_range(c, field, (struct apus_ctl_filter_range){!count, keys[0], keys[0]});
		return 0;
	}
	t = add_test(c, APUS_DP_SET, field);
	t->low = (uint64_t)at;
	t->span = count;
	return 0;
}

static int compare_texts(const void *a, const void *b, void *pool)
{
	const struct apus_dp_text *x = a, *y = b;
	uint32_t shorter = x->length < y->length ? x->length : y->length;
	int order = memcmp((char *)pool + x->at, (char *)pool + y->at, shorter);

	return order ? order : (x->length > y->length) - (x->length < y->length);
}

static int compile_texts(struct apus_ctl_filter_compiler *c, uint16_t field,
			 const struct apus_ctl_filter_leaf *leaf)
{
	int64_t at =
		apus_ctl_filter_blob_add(&c->data, leaf->item_count * sizeof(struct apus_dp_text));
	struct apus_dp_text *texts;
	struct apus_dp_test *t;

	if (at < 0)
		return (int)at;
	texts = (struct apus_dp_text *)(c->data.bytes + at);
	for (uint32_t i = 0; i < leaf->item_count; i++) {
		struct apus_ctl_filter_text text;
		int result = apus_ctl_filter_bind_text(&c->operands,
						       &c->tree.items[leaf->first_item + i], &text);

		if (result < 0)
			return result;
		texts[i] = (struct apus_dp_text){text.at, text.length};
	}
	qsort_r(texts, leaf->item_count, sizeof(*texts), compare_texts, c->operands.pool);
	t = add_test(c, leaf->item_count == 1 ? APUS_DP_TEXT : APUS_DP_TEXTS, field);
	t->accept = APUS_DP_EQUAL;
	t->low = leaf->item_count == 1 ? texts[0].at : (uint64_t)at;
	t->span = leaf->item_count == 1 ? texts[0].length : leaf->item_count;
	return 0;
}

static int compile_list(struct apus_ctl_filter_compiler *c, uint16_t field,
			const struct apus_ctl_filter_leaf *leaf)
{
	for (uint32_t i = 0; i < leaf->item_count; i++) {
		const struct apus_ctl_filter_token *item = &c->tree.items[leaf->first_item + i];

		if (item->kind == APUS_CTL_TOKEN_NAME)
			return apus_ctl_filter_fail_at(&c->operands, item,
						       "a list holds values and parameters only");
	}
	return c->operands.members[field].class == APUS_CTL_CLASS_STRING
		       ? compile_texts(c, field, leaf)
		       : compile_keys(c, field, leaf);
}

/* ---- patterns ---------------------------------------------------------------------------------- */

/* The character after ESCAPE; -1 for none. */
static int bind_escape(struct apus_ctl_filter_compiler *c, const struct apus_ctl_filter_leaf *leaf,
		       int *escape_out)
{
	struct apus_ctl_filter_text text;
	int result;

	*escape_out = -1;
	if (leaf->c.kind == APUS_CTL_TOKEN_END)
		return 0;
	if (leaf->c.kind == APUS_CTL_TOKEN_NAME)
		return apus_ctl_filter_fail_at(&c->operands, &leaf->c, "ESCAPE needs a constant");
	result = apus_ctl_filter_bind_text(&c->operands, &leaf->c, &text);
	if (result < 0)
		return result;
	if (text.length != 1)
		return apus_ctl_filter_fail_at(&c->operands, &leaf->c,
					       "ESCAPE needs one character");
	*escape_out = (uint8_t)c->operands.pool[text.at];
	return 0;
}

static void add_pattern(struct apus_ctl_filter_compiler *c, uint16_t field,
			const struct apus_ctl_filter_text *text,
			const struct apus_ctl_filter_pattern *pattern)
{
	struct apus_dp_test *t =
		add_test(c, pattern->plain ? APUS_DP_TEXT : APUS_DP_PATTERN, field);

	t->accept = APUS_DP_EQUAL;
	t->low = pattern->plain ? text->at : pattern->at;
	t->span = pattern->plain ? text->length : pattern->segment_count;
}

static int compile_pattern(struct apus_ctl_filter_compiler *c, uint16_t field,
			   const struct apus_ctl_filter_leaf *leaf)
{
	struct apus_ctl_filter_pattern pattern;
	struct apus_ctl_filter_text text;
	const char *reason = "";
	int escape = -1, result;

	if (leaf->b.kind == APUS_CTL_TOKEN_NAME)
		return apus_ctl_filter_fail_at(&c->operands, &leaf->b, "a pattern is a constant");
	if (c->operands.members[field].class != APUS_CTL_CLASS_STRING)
		return apus_ctl_filter_fail_at(&c->operands, &leaf->a,
					       "a pattern is for strings, not for this member");
	result = apus_ctl_filter_bind_text(&c->operands, &leaf->b, &text);
	if (result == 0)
		result = bind_escape(c, leaf, &escape);
	if (result < 0)
		return result;
	result = apus_ctl_filter_compile_pattern(&c->data, leaf->op == APUS_CTL_OP_MATCH, escape,
						 c->operands.pool + text.at, text.length, &pattern,
						 &reason);
	if (result == APUS_EFILTER)
		return apus_ctl_filter_fail_at(&c->operands, &leaf->b, reason);
	if (result < 0)
		return result;
	c->alternatives += pattern.alternatives - 1;
	if (c->tree.leaf_count + c->alternatives > c->tree.leaf_capacity)
		return apus_ctl_filter_fail_at(&c->operands, &leaf->b,
					       "more comparisons and alternatives than allowed");
	add_pattern(c, field, &text, &pattern);
	return 0;
}

/* ---- any leaf ---------------------------------------------------------------------------------- */

/* Predicates that have a member in front and no operator. */
static int compile_named(struct apus_ctl_filter_compiler *c,
			 const struct apus_ctl_filter_leaf *leaf)
{
	uint16_t field;
	int result;

	if (leaf->a.kind != APUS_CTL_TOKEN_NAME)
		return apus_ctl_filter_fail_at(
			&c->operands, &leaf->a,
			"a member is expected before the operator, not a value");
	result = leaf->op == APUS_CTL_OP_IS_NULL
			 ? apus_ctl_filter_use_presence(&c->operands, &leaf->a, &field)
			 : apus_ctl_filter_use_member(&c->operands, &leaf->a, &field);
	if (result < 0)
		return result;
	switch (leaf->op) {
	case APUS_CTL_OP_BETWEEN: return compile_range(c, field, leaf);
	case APUS_CTL_OP_IN: return compile_list(c, field, leaf);
	case APUS_CTL_OP_IS_NULL: add_test(c, APUS_DP_PRESENT, field); return 0;
	default: return compile_pattern(c, field, leaf);
	}
}

int apus_ctl_filter_compile_leaf(struct apus_ctl_filter_compiler *c,
				 const struct apus_ctl_filter_leaf *leaf)
{
	const struct apus_ctl_filter_token *a = &leaf->a, *b = &leaf->b;
	uint8_t op = leaf->op;
	uint16_t field;
	int result;

	if (op >= APUS_CTL_OP_BETWEEN)
		return compile_named(c, leaf);
	if (a->kind != APUS_CTL_TOKEN_NAME && b->kind != APUS_CTL_TOKEN_NAME)
		return apus_ctl_filter_fail(c->operands.error, a->position,
					    b->position + b->length - a->position,
					    "a comparison needs a member on one side");
	if (a->kind != APUS_CTL_TOKEN_NAME) {
		a = &leaf->b;
		b = &leaf->a;
		op = mirrored(op);
	}
	result = apus_ctl_filter_use_member(&c->operands, a, &field);
	return result < 0 ? result : compare(c, field, op, b);
}
