/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grammar of the filter language: precedence NOT > AND > OR, parentheses, and the predicates.
 *
 * An operator-precedence parser with two explicit stacks. Open parentheses and pending NOTs are limited
 * by the declared depth, and between two of them at most one AND and one OR can wait, so both stacks
 * are bounded and the whole costs one step a token. The AND of a range is read with its range and
 * never reaches the operators.
 */
#include "control/filter_internal.h"

#define STACK_MAX (3 * APUS_CTL_FILTER_DEPTH_MAX + 4)

struct parser {
	struct apus_ctl_filter_lexer lexer;
	struct apus_ctl_filter_token token; /* the one looked at */
	struct apus_ctl_filter_tree *tree;
	struct apus_filter_error *error;
	uint32_t depth, depth_limit;
	struct apus_ctl_filter_token operators[STACK_MAX];
	uint32_t operator_count;
	uint16_t operands[STACK_MAX]; /* nodes */
	uint32_t operand_count;
};

static int next(struct parser *p)
{
	return apus_ctl_filter_lex(&p->lexer, &p->token, p->error);
}

/* Fails at a token, naming what stands there. */
static int unexpected(struct parser *p, const char *expected)
{
	const struct apus_ctl_filter_token *t = &p->token;

	if (t->kind == APUS_CTL_TOKEN_END)
		return apus_ctl_filter_fail(p->error, t->position, 0, "%s is expected at the end",
					    expected);
	return apus_ctl_filter_fail(p->error, t->position, t->length, "%s is expected, not '%.*s'",
				    expected, t->length < 40 ? (int)t->length : 40,
				    p->lexer.text + t->position);
}

static bool is_operand(const struct apus_ctl_filter_token *t)
{
	return t->kind >= APUS_CTL_TOKEN_NAME && t->kind <= APUS_CTL_TOKEN_FALSE;
}

static int take_operand(struct parser *p, struct apus_ctl_filter_token *operand_out)
{
	if (!is_operand(&p->token))
		return unexpected(p, "a member, a value or a parameter");
	*operand_out = p->token;
	return next(p);
}

/* What follows `a BETWEEN`. */
static int parse_range(struct parser *p, struct apus_ctl_filter_leaf *leaf)
{
	int result = next(p);

	if (result == 0)
		result = take_operand(p, &leaf->b);
	if (result < 0)
		return result;
	if (p->token.kind != APUS_CTL_TOKEN_AND)
		return unexpected(p, "the AND of the range");
	result = next(p);
	return result < 0 ? result : take_operand(p, &leaf->c);
}

/* What follows `a IN`: at least one value, in parentheses. */
static int parse_items(struct parser *p, struct apus_ctl_filter_leaf *leaf)
{
	struct apus_ctl_filter_tree *tree = p->tree;
	int result = next(p);

	leaf->first_item = tree->item_count;
	if (result == 0 && p->token.kind != APUS_CTL_TOKEN_OPEN)
		return unexpected(p, "the '(' of the list");
	do {
		if (result == 0)
			result = next(p);
		if (result == 0)
			result = take_operand(p, &tree->items[tree->item_count++]);
	} while (result == 0 && p->token.kind == APUS_CTL_TOKEN_COMMA);
	if (result < 0)
		return result;
	leaf->item_count = tree->item_count - leaf->first_item;
	if (p->token.kind != APUS_CTL_TOKEN_CLOSE)
		return unexpected(p, "',' or the ')' of the list");
	return next(p);
}

/* What follows `a LIKE` or `a MATCH`. */
static int parse_pattern(struct parser *p, struct apus_ctl_filter_leaf *leaf)
{
	int result = next(p);

	if (result == 0)
		result = take_operand(p, &leaf->b);
	if (result < 0 || p->token.kind != APUS_CTL_TOKEN_ESCAPE)
		return result;
	if (leaf->op == APUS_CTL_OP_MATCH)
		return unexpected(p, "AND, OR or the end (MATCH has no ESCAPE)");
	result = next(p);
	return result < 0 ? result : take_operand(p, &leaf->c);
}

/* What follows `a IS`. */
static int parse_null(struct parser *p, struct apus_ctl_filter_leaf *leaf)
{
	int result = next(p);

	leaf->negated = p->token.kind == APUS_CTL_TOKEN_NOT;
	if (result == 0 && leaf->negated)
		result = next(p);
	if (result < 0)
		return result;
	if (p->token.kind != APUS_CTL_TOKEN_NULL)
		return unexpected(p, leaf->negated ? "NULL" : "NULL or NOT NULL");
	return next(p);
}

/* What follows `a` or `a NOT`. */
static int parse_relation(struct parser *p, struct apus_ctl_filter_leaf *leaf)
{
	switch (p->token.kind) {
	case APUS_CTL_TOKEN_BETWEEN: leaf->op = APUS_CTL_OP_BETWEEN; return parse_range(p, leaf);
	case APUS_CTL_TOKEN_LIKE: leaf->op = APUS_CTL_OP_LIKE; return parse_pattern(p, leaf);
	case APUS_CTL_TOKEN_MATCH: leaf->op = APUS_CTL_OP_MATCH; return parse_pattern(p, leaf);
	case APUS_CTL_TOKEN_IN: leaf->op = APUS_CTL_OP_IN; return parse_items(p, leaf);
	default:
		return unexpected(p, leaf->negated ? "BETWEEN, LIKE, MATCH or IN" : "a comparison");
	}
}

static int parse_leaf(struct parser *p, struct apus_ctl_filter_leaf *leaf)
{
	int result = take_operand(p, &leaf->a);

	if (result < 0)
		return result;
	switch (p->token.kind) {
	case APUS_CTL_TOKEN_COMPARE:
		leaf->op = p->token.value;
		result = next(p);
		return result < 0 ? result : take_operand(p, &leaf->b);
	case APUS_CTL_TOKEN_IS: leaf->op = APUS_CTL_OP_IS_NULL; return parse_null(p, leaf);
	case APUS_CTL_TOKEN_NOT:
		leaf->negated = true;
		result = next(p);
		/* fall through */
	default: return result < 0 ? result : parse_relation(p, leaf);
	}
}

static void push_node(struct parser *p, struct apus_ctl_filter_node node)
{
	p->operands[p->operand_count++] = (uint16_t)p->tree->node_count;
	p->tree->nodes[p->tree->node_count++] = node;
}

/* A new leaf becomes an operand. */
static int add_leaf(struct parser *p)
{
	struct apus_ctl_filter_tree *tree = p->tree;
	struct apus_ctl_filter_leaf *leaf = &tree->leaves[tree->leaf_count];

	if (tree->leaf_count == tree->leaf_capacity)
		return apus_ctl_filter_fail(p->error, p->token.position, p->token.length,
					    "more than %u comparisons",
					    (unsigned int)tree->leaf_capacity);
	*leaf = (struct apus_ctl_filter_leaf){.c.kind = APUS_CTL_TOKEN_END};
	push_node(p, (struct apus_ctl_filter_node){.kind = APUS_CTL_NODE_LEAF,
						   .first_leaf = (uint16_t)tree->leaf_count++});
	return parse_leaf(p, leaf);
}

/* Joins the two topmost operands by the topmost operator. */
static void reduce(struct parser *p)
{
	uint8_t kind = p->operators[--p->operator_count].kind;
	uint16_t right = p->operands[--p->operand_count];
	uint16_t left = p->operands[--p->operand_count];

	push_node(p, (struct apus_ctl_filter_node){.kind = kind == APUS_CTL_TOKEN_AND
								   ? APUS_CTL_NODE_AND
								   : APUS_CTL_NODE_OR,
						   .left = left,
						   .right = right,
						   .first_leaf = p->tree->nodes[left].first_leaf});
}

static uint8_t top(const struct parser *p)
{
	return p->operator_count ? p->operators[p->operator_count - 1].kind : APUS_CTL_TOKEN_END;
}

/* An operand is complete: the NOTs in front of it apply. */
static void apply_nots(struct parser *p)
{
	struct apus_ctl_filter_node *node = &p->tree->nodes[p->operands[p->operand_count - 1]];

	while (top(p) == APUS_CTL_TOKEN_NOT) {
		node->negated = !node->negated;
		p->operator_count--;
		p->depth--;
	}
}

static int open_one(struct parser *p)
{
	if (p->depth == p->depth_limit)
		return apus_ctl_filter_fail(p->error, p->token.position, p->token.length,
					    "nested deeper than %u levels",
					    (unsigned int)p->depth_limit);
	p->depth++;
	p->operators[p->operator_count++] = p->token;
	return next(p);
}

/* NOTs and parentheses, then one leaf. */
static int parse_operand(struct parser *p)
{
	int result = 0;

	while (result == 0 &&
	       (p->token.kind == APUS_CTL_TOKEN_NOT || p->token.kind == APUS_CTL_TOKEN_OPEN))
		result = open_one(p);
	if (result < 0)
		return result;
	if (!is_operand(&p->token))
		return unexpected(p, "a condition");
	result = add_leaf(p);
	if (result == 0)
		apply_nots(p);
	return result;
}

static int close_one(struct parser *p)
{
	while (top(p) == APUS_CTL_TOKEN_AND || top(p) == APUS_CTL_TOKEN_OR)
		reduce(p);
	if (top(p) != APUS_CTL_TOKEN_OPEN)
		return apus_ctl_filter_fail(p->error, p->token.position, p->token.length,
					    "this ')' closes nothing");
	p->operator_count--;
	p->depth--;
	apply_nots(p);
	return next(p);
}

/* After an operand: closing parentheses, then AND, OR or the end. */
static int parse_operator(struct parser *p, bool *more_out)
{
	uint8_t kind;
	int result = 0;

	while (result == 0 && p->token.kind == APUS_CTL_TOKEN_CLOSE)
		result = close_one(p);
	if (result < 0)
		return result;
	kind = p->token.kind;
	*more_out = kind == APUS_CTL_TOKEN_AND || kind == APUS_CTL_TOKEN_OR;
	if (kind == APUS_CTL_TOKEN_END)
		return 0;
	if (!*more_out)
		return unexpected(p, "AND, OR or the end");
	while (top(p) == APUS_CTL_TOKEN_AND || top(p) == kind)
		reduce(p);
	p->operators[p->operator_count++] = p->token;
	return next(p);
}

static int finish(struct parser *p)
{
	while (top(p) == APUS_CTL_TOKEN_AND || top(p) == APUS_CTL_TOKEN_OR)
		reduce(p);
	if (p->operator_count > 0) {
		const struct apus_ctl_filter_token *open = &p->operators[p->operator_count - 1];

		return apus_ctl_filter_fail(p->error, open->position, open->length,
					    "this '(' is never closed");
	}
	return 0;
}

int apus_ctl_filter_parse(const char *text, uint32_t bytes, uint32_t depth,
			  struct apus_ctl_filter_tree *tree, struct apus_filter_error *error)
{
	struct parser p;
	bool more = true;
	int result;

	p.lexer = (struct apus_ctl_filter_lexer){.text = text, .bytes = bytes};
	p.tree = tree;
	p.error = error;
	p.depth = 0;
	p.depth_limit = depth;
	p.operator_count = 0;
	p.operand_count = 0;
	result = next(&p);
	if (result == 0 && p.token.kind == APUS_CTL_TOKEN_END)
		return apus_ctl_filter_fail(error, 0, 0, "the expression is empty");
	while (result == 0 && more) {
		result = parse_operand(&p);
		if (result == 0)
			result = parse_operator(&p, &more);
	}
	return result < 0 ? result : finish(&p);
}
