/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filter expressions to predicates: tests made from typed operands, and their targets from the tree.
 *
 * Three passes, all linear: the parser's tree; each leaf to one test (two for ranges that are no
 * interval of constants); targets from the root down. Everything temporary lives in one scratch block
 * sized from the limits, so a refused expression leaves nothing, and the result is one block.
 */
#include "control/filter_internal.h"

#include <stdlib.h>
#include <string.h>

/** Steps one walk may have: a bound on types that put very many members before the wanted one. */
#define STEPS_MAX 2048

static const char *const class_names[] = {"a boolean",      "an integer", "a float", "a char",
					  "an enumeration", "a bitmask",  "a string"};

struct compiler {
	struct apus_ctl_filter_operands operands;
	struct apus_ctl_filter_tree tree;
	struct apus_dp_test *tests;
	uint16_t *first_test; /* of each leaf, and of the end */
	uint32_t test_count;
	struct apus_wire_step steps[2][STEPS_MAX];
};

/* ---- leaves ------------------------------------------------------------------------------------ */

static struct apus_dp_test *add_test(struct compiler *c, uint8_t op, uint16_t field)
{
	struct apus_dp_test *t = &c->tests[c->test_count++];

	*t = (struct apus_dp_test){.op = op, .field = field};
	return t;
}

static struct apus_ctl_filter_range range_of(const struct compiler *c, uint16_t field, uint8_t op,
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
static void add_range(struct compiler *c, uint16_t field, struct apus_ctl_filter_range r)
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

static int compare_text(struct compiler *c, uint16_t field, uint8_t op,
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

static int compare_number(struct compiler *c, uint16_t field, uint8_t op,
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

static int compare_members(struct compiler *c, uint16_t a, uint8_t op, uint16_t b,
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
static int compare(struct compiler *c, uint16_t field, uint8_t op,
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
static void join_interval(struct compiler *c)
{
	struct apus_dp_test *low = &c->tests[c->test_count - 2], *high = low + 1;
	uint64_t end = high->low + high->span;

	if (low->op != APUS_DP_RANGE || high->op != APUS_DP_RANGE)
		return;
	low->accept = low->accept && high->accept && low->low <= end;
	low->span = end - low->low;
	c->test_count--;
}

static int compile_range(struct compiler *c, const struct apus_ctl_filter_leaf *leaf)
{
	uint16_t field;
	int result;

	if (leaf->a.kind != APUS_CTL_TOKEN_NAME)
		return apus_ctl_filter_fail_at(&c->operands, &leaf->a,
					       "BETWEEN needs a member before it");
	result = apus_ctl_filter_use_member(&c->operands, &leaf->a, &field);
	if (result < 0)
		return result;
	if (c->operands.members[field].class == APUS_CTL_CLASS_BOOL)
		return apus_ctl_filter_fail_at(&c->operands, &leaf->a, "a boolean has no range");
	result = compare(c, field, APUS_CTL_OP_GE, &leaf->b);
	if (result == 0)
		result = compare(c, field, APUS_CTL_OP_LE, &leaf->c);
	if (result == 0)
		join_interval(c);
	return result;
}

static int compile_leaf(struct compiler *c, const struct apus_ctl_filter_leaf *leaf)
{
	const struct apus_ctl_filter_token *a = &leaf->a, *b = &leaf->b;
	uint8_t op = leaf->op;
	uint16_t field;
	int result;

	if (op == APUS_CTL_OP_BETWEEN)
		return compile_range(c, leaf);
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

/* ---- targets ----------------------------------------------------------------------------------- */

/* What a node's truth leads to. */
struct aim {
	uint16_t on_true, on_false;
};

static void aim_leaf(struct compiler *c, uint32_t leaf, struct aim aim)
{
	const struct apus_ctl_filter_leaf *l = &c->tree.leaves[leaf];
	uint32_t last = c->first_test[leaf + 1] - 1u;

	if (l->negated != (l->op == APUS_CTL_OP_NE))
		aim = (struct aim){aim.on_false, aim.on_true};
	for (uint32_t i = c->first_test[leaf]; i <= last; i++) {
		struct apus_dp_test *t = &c->tests[i];
		bool never = t->op == APUS_DP_RANGE && !t->accept;

		t->on_false = aim.on_false;
		t->on_true = never ? aim.on_false : i < last ? (uint16_t)(i + 1) : aim.on_true;
	}
}

/* From the root down: children stand before their parents, so one backward pass suffices. */
static void aim_nodes(struct compiler *c, struct aim *aims)
{
	uint32_t count = c->tree.node_count;

	aims[count - 1] = (struct aim){APUS_DP_TO_PASS, APUS_DP_TO_REJECT};
	for (uint32_t i = count; i-- > 0;) {
		const struct apus_ctl_filter_node *n = &c->tree.nodes[i];
		struct aim aim = aims[i];
		uint16_t right;

		if (n->negated)
			aim = (struct aim){aim.on_false, aim.on_true};
		if (n->kind == APUS_CTL_NODE_LEAF) {
			aim_leaf(c, n->first_leaf, aim);
			continue;
		}
		right = c->first_test[c->tree.nodes[n->right].first_leaf];
		aims[n->right] = aim;
		aims[n->left] = n->kind == APUS_CTL_NODE_AND ? (struct aim){right, aim.on_false}
							     : (struct aim){aim.on_true, right};
	}
}

/* ---- the whole --------------------------------------------------------------------------------- */

static int build_walks(struct compiler *c, struct apus_dp_program *program)
{
	struct apus_wire_path paths[APUS_DP_FIELDS_MAX];
	uint16_t slots[APUS_DP_FIELDS_MAX];

	for (uint32_t i = 0; i < c->operands.field_count; i++) {
		uint32_t at = i;

		for (; at > 0 &&
		       apus_wire_path_compare(&paths[at - 1], &c->operands.members[i].path) > 0;
		     at--) {
			paths[at] = paths[at - 1];
			slots[at] = slots[at - 1];
		}
		paths[at] = c->operands.members[i].path;
		slots[at] = (uint16_t)i;
	}
	for (int x = 0; x < 2; x++) {
		int steps = apus_wire_walk_build(c->operands.type, x == 1, paths, slots,
						 c->operands.field_count, c->steps[x], STEPS_MAX);

		if (steps == APUS_ELIMIT)
			return apus_ctl_filter_fail(c->operands.error, 0,
						    (uint32_t)strlen(c->operands.expression),
						    "too many members lie before those compared");
		if (steps == APUS_ENOTSUP)
			return apus_ctl_filter_fail(
				c->operands.error, 0, (uint32_t)strlen(c->operands.expression),
				"a member compared, or one before it, is optional or of a kind filters do not know");
		if (steps < 0)
			return steps;
		program->steps[x] = c->steps[x];
		program->step_count[x] = (uint32_t)steps;
	}
	return 0;
}

static int compile_leaves(struct compiler *c)
{
	for (uint32_t i = 0; i < c->tree.leaf_count; i++) {
		int result;

		c->first_test[i] = (uint16_t)c->test_count;
		result = compile_leaf(c, &c->tree.leaves[i]);
		if (result < 0)
			return result;
	}
	c->first_test[c->tree.leaf_count] = (uint16_t)c->test_count;
	return 0;
}

static int assemble(struct compiler *c, struct apus_dp_predicate **predicate_out)
{
	struct apus_dp_program program = {
		.delimited = c->operands.type->extensibility == APUS_APPENDABLE,
		.fields = c->operands.fields,
		.field_count = c->operands.field_count,
		.tests = c->tests,
		.test_count = c->test_count,
		.text = c->operands.pool,
		.text_bytes = c->operands.pool_bytes,
	};
	int result = build_walks(c, &program);
	size_t bytes;
	void *block;

	if (result < 0)
		return result;
	bytes = apus_dp_predicate_bytes(&program);
	if (bytes == 0)
		return APUS_EINVAL; /* a descriptor that contradicts itself */
	block = malloc(bytes);
	if (!block)
		return APUS_ENOMEM;
	*predicate_out = apus_dp_predicate_assemble(&program, block);
	return 0;
}

static int check_limits(const struct apus_ctl_filter_limits *l, const char *expression,
			const char *const *parameters, uint32_t parameter_count,
			struct apus_filter_error *error)
{
	size_t bytes = strnlen(expression, (size_t)l->expression_bytes + 1);

	if (bytes > l->expression_bytes)
		return apus_ctl_filter_fail(error, l->expression_bytes, 0,
					    "the expression is longer than %u bytes",
					    (unsigned int)l->expression_bytes);
	if (parameter_count > l->parameter_count)
		return apus_ctl_filter_fail(error, 0, 0, "%u parameters are more than %u",
					    (unsigned int)parameter_count,
					    (unsigned int)l->parameter_count);
	for (uint32_t i = 0; i < parameter_count; i++) {
		if (!parameters[i])
			return APUS_EINVAL;
		if (strnlen(parameters[i], (size_t)l->parameter_bytes + 1) > l->parameter_bytes)
			return apus_ctl_filter_fail(
				error, 0, 0, "parameter %u is longer than %u bytes",
				(unsigned int)i, (unsigned int)l->parameter_bytes);
	}
	return 0;
}

static bool limits_valid(const struct apus_ctl_filter_limits *l)
{
	return l->expression_bytes >= 1 && l->expression_bytes <= APUS_CTL_FILTER_BYTES_MAX &&
	       l->parameter_count <= APUS_CTL_FILTER_PARAMETERS_MAX && l->parameter_bytes >= 1 &&
	       l->parameter_bytes <= APUS_CTL_FILTER_BYTES_MAX && l->predicate_count >= 1 &&
	       l->predicate_count <= APUS_CTL_FILTER_PREDICATES_MAX && l->depth >= 1 &&
	       l->depth <= APUS_CTL_FILTER_DEPTH_MAX;
}

/* One scratch block: the compiler, then its arrays by falling alignment. */
static struct compiler *make_compiler(uint32_t leaves, size_t pool_bytes, struct aim **aims_out)
{
	size_t tests_at = (sizeof(struct compiler) + 7) & ~(size_t)7;
	size_t leaves_at = tests_at + 2 * leaves * sizeof(struct apus_dp_test);
	size_t nodes_at = leaves_at + leaves * sizeof(struct apus_ctl_filter_leaf);
	size_t first_at = nodes_at + 2 * leaves * sizeof(struct apus_ctl_filter_node);
	size_t aims_at = first_at + (leaves + 1) * sizeof(uint16_t);
	size_t pool_at = aims_at + 2 * leaves * sizeof(struct aim);
	char *block = malloc(pool_at + pool_bytes);
	struct compiler *c = (struct compiler *)block;

	if (!block)
		return NULL;
	memset(c, 0, offsetof(struct compiler, steps));
	c->tests = (struct apus_dp_test *)(block + tests_at);
	c->tree.leaves = (struct apus_ctl_filter_leaf *)(block + leaves_at);
	c->tree.nodes = (struct apus_ctl_filter_node *)(block + nodes_at);
	c->tree.leaf_capacity = leaves;
	c->first_test = (uint16_t *)(block + first_at);
	*aims_out = (struct aim *)(block + aims_at);
	c->operands.pool = block + pool_at;
	return c;
}

static int compile(struct compiler *c, uint32_t bytes, uint32_t depth, struct aim *aims,
		   struct apus_dp_predicate **predicate_out)
{
	int result = apus_ctl_filter_parse(c->operands.expression, bytes, depth, &c->tree,
					   c->operands.error);

	if (result == 0)
		result = compile_leaves(c);
	if (result < 0)
		return result;
	aim_nodes(c, aims);
	return assemble(c, predicate_out);
}

int apus_ctl_filter_compile(const struct apus_type *type, const char *expression,
			    const char *const *parameters, uint32_t parameter_count,
			    const struct apus_ctl_filter_limits *limits,
			    struct apus_dp_predicate **predicate_out,
			    struct apus_filter_error *error_out)
{
	struct apus_ctl_filter_limits defaults;
	struct apus_filter_error unwanted;
	struct apus_filter_error *error = error_out ? error_out : &unwanted;
	size_t pool_bytes, bytes;
	struct compiler *c;
	struct aim *aims;
	int result;

	apus_ctl_filter_limits_default(&defaults);
	if (!limits)
		limits = &defaults;
	if (!type || !expression || !predicate_out || (parameter_count > 0 && !parameters) ||
	    type->kind != APUS_KIND_STRUCT || !limits_valid(limits))
		return APUS_EINVAL;
	result = check_limits(limits, expression, parameters, parameter_count, error);
	if (result < 0)
		return result;
	bytes = pool_bytes = strlen(expression);
	for (uint32_t i = 0; i < parameter_count; i++)
		pool_bytes += strlen(parameters[i]);
	c = make_compiler(limits->predicate_count, pool_bytes, &aims);
	if (!c)
		return APUS_ENOMEM;
	c->operands.type = type;
	c->operands.expression = expression;
	c->operands.parameters = parameters;
	c->operands.parameter_count = parameter_count;
	c->operands.error = error;
	result = compile(c, (uint32_t)bytes, limits->depth, aims, predicate_out);
	free(c);
	return result;
}

void apus_ctl_filter_free(struct apus_dp_predicate *predicate)
{
	free(predicate);
}

void apus_ctl_filter_limits_default(struct apus_ctl_filter_limits *limits)
{
	*limits = (struct apus_ctl_filter_limits){
		.expression_bytes = 4096,
		.parameter_count = APUS_CTL_FILTER_PARAMETERS_MAX,
		.parameter_bytes = 1024,
		.predicate_count = 64,
		.depth = APUS_CTL_FILTER_DEPTH_MAX,
	};
}
