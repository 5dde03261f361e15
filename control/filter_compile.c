/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filter expressions to predicates: tests made from typed operands, and their targets from the tree.
 *
 * Three passes, all linear: the parser's tree; each leaf to one test (two for ranges that are no
 * interval of constants); targets from the root down. Everything temporary lives in one scratch block
 * sized from the limits, so a refused expression leaves nothing, and the result is one block.
 */
#include "control/filter_index.h"
#include "control/filter_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- targets ----------------------------------------------------------------------------------- */

/* What a node's truth leads to. */
struct aim {
	uint16_t on_true, on_false;
};

static void aim_leaf(struct apus_ctl_filter_compiler *c, uint32_t leaf, struct aim aim)
{
	const struct apus_ctl_filter_leaf *l = &c->tree.leaves[leaf];
	uint32_t last = c->first_test[leaf + 1] - 1u;
	uint16_t absent;

	if (l->negated)
		aim = (struct aim){aim.on_false, aim.on_true};
	/* What an absent member makes of the leaf: false, but for IS NULL. */
	absent = l->op == APUS_CTL_OP_IS_NULL ? aim.on_true : aim.on_false;
	if (l->op == APUS_CTL_OP_NE || l->op == APUS_CTL_OP_IS_NULL)
		aim = (struct aim){aim.on_false, aim.on_true};
	for (uint32_t i = c->first_test[leaf]; i <= last; i++) {
		struct apus_dp_test *t = &c->tests[i];
		bool never = t->op == APUS_DP_RANGE && !t->accept;

		t->on_absent = absent;
		t->on_false = aim.on_false;
		t->on_true = never ? aim.on_false : i < last ? (uint16_t)(i + 1) : aim.on_true;
	}
}

/* From the root down: children stand before their parents, so one backward pass suffices. */
static void aim_nodes(struct apus_ctl_filter_compiler *c, struct aim *aims)
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

static int build_walks(struct apus_ctl_filter_compiler *c, struct apus_dp_program *program)
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
						 c->operands.field_count, c->steps[x],
						 APUS_CTL_FILTER_STEPS_MAX);

		if (steps == APUS_ELIMIT)
			return apus_ctl_filter_fail(c->operands.error, 0,
						    (uint32_t)strlen(c->operands.expression),
						    "too many members lie before those compared");
		if (steps == APUS_ENOTSUP)
			return apus_ctl_filter_fail(
				c->operands.error, 0, (uint32_t)strlen(c->operands.expression),
				"a member compared, or one before it, is of a kind filters do not know");
		if (steps < 0)
			return steps;
		program->steps[x] = c->steps[x];
		program->step_count[x] = (uint32_t)steps;
	}
	return 0;
}

static int compile_leaves(struct apus_ctl_filter_compiler *c)
{
	for (uint32_t i = 0; i < c->tree.leaf_count; i++) {
		int result;

		c->first_test[i] = (uint16_t)c->test_count;
		result = apus_ctl_filter_compile_leaf(c, &c->tree.leaves[i]);
		if (result < 0)
			return result;
	}
	c->first_test[c->tree.leaf_count] = (uint16_t)c->test_count;
	return 0;
}

/* term_out: NULL if not wanted. */
static int assemble(struct apus_ctl_filter_compiler *c, struct apus_dp_predicate **predicate_out,
		    struct apus_ctl_filter_term *term_out)
{
	struct apus_dp_program program = {
		.extensibility = c->operands.type->extensibility,
		.fields = c->operands.fields,
		.field_count = c->operands.field_count,
		.tests = c->tests,
		.test_count = c->test_count,
		.text = c->operands.pool,
		.text_bytes = c->operands.pool_bytes,
		.data = c->data.bytes,
		.data_bytes = c->data.count,
	};
	int result = build_walks(c, &program);
	uint16_t field;
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
	if (term_out && apus_ctl_filter_find_term(&program, term_out, &field)) {
		term_out->path = c->operands.members[field].path;
		term_out->load = c->operands.fields[field].load;
		term_out->value_bits = c->operands.fields[field].value_bits;
	}
	c->step_count[0] = program.step_count[0];
	c->step_count[1] = program.step_count[1];
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
static struct apus_ctl_filter_compiler *make_compiler(uint32_t leaves, uint32_t items,
						      size_t pool_bytes, struct aim **aims_out)
{
	size_t tests_at = (sizeof(struct apus_ctl_filter_compiler) + 7) & ~(size_t)7;
	size_t leaves_at = tests_at + 2 * leaves * sizeof(struct apus_dp_test);
	size_t nodes_at = leaves_at + leaves * sizeof(struct apus_ctl_filter_leaf);
	size_t items_at = nodes_at + 2 * leaves * sizeof(struct apus_ctl_filter_node);
	size_t first_at = items_at + items * sizeof(struct apus_ctl_filter_token);
	size_t aims_at = first_at + (leaves + 1) * sizeof(uint16_t);
	size_t pool_at = aims_at + 2 * leaves * sizeof(struct aim);
	char *block = malloc(pool_at + pool_bytes);
	struct apus_ctl_filter_compiler *c = (struct apus_ctl_filter_compiler *)block;

	if (!block)
		return NULL;
	memset(c, 0, offsetof(struct apus_ctl_filter_compiler, steps));
	c->tests = (struct apus_dp_test *)(block + tests_at);
	c->tree.leaves = (struct apus_ctl_filter_leaf *)(block + leaves_at);
	c->tree.nodes = (struct apus_ctl_filter_node *)(block + nodes_at);
	c->tree.items = (struct apus_ctl_filter_token *)(block + items_at);
	c->tree.leaf_capacity = leaves;
	c->first_test = (uint16_t *)(block + first_at);
	*aims_out = (struct aim *)(block + aims_at);
	c->operands.pool = block + pool_at;
	return c;
}

static int compile(struct apus_ctl_filter_compiler *c, uint32_t bytes, uint32_t depth,
		   struct aim *aims, struct apus_dp_predicate **predicate_out,
		   struct apus_ctl_filter_term *term_out)
{
	int result = apus_ctl_filter_parse(c->operands.expression, bytes, depth, &c->tree,
					   c->operands.error);

	if (result == 0)
		result = compile_leaves(c);
	if (result < 0)
		return result;
	aim_nodes(c, aims);
	return assemble(c, predicate_out, term_out);
}

/* description: text_bytes of room for one, or NULL. Returns 0, or the length of the description. */
static int compile_described(const struct apus_type *type, const char *expression,
			     const char *const *parameters, uint32_t parameter_count,
			     const struct apus_ctl_filter_limits *limits,
			     struct apus_dp_predicate **predicate_out,
			     struct apus_ctl_filter_term *term_out,
			     struct apus_filter_error *error_out, char *description,
			     size_t description_bytes)
{
	struct apus_ctl_filter_limits defaults;
	struct apus_filter_error unwanted;
	struct apus_filter_error *error = error_out ? error_out : &unwanted;
	size_t pool_bytes, bytes;
	uint32_t items;
	struct apus_ctl_filter_compiler *c;
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
	items = limits->predicate_count;
	for (const char *comma = strchr(expression, ','); comma; comma = strchr(comma + 1, ','))
		items++;
	c = make_compiler(limits->predicate_count, items, pool_bytes, &aims);
	if (!c)
		return APUS_ENOMEM;
	c->operands.type = type;
	c->operands.expression = expression;
	c->operands.parameters = parameters;
	c->operands.parameter_count = parameter_count;
	c->operands.error = error;
	result = compile(c, (uint32_t)bytes, limits->depth, aims, predicate_out, term_out);
	if (result == 0 && description)
		result = apus_ctl_filter_describe_to(c, term_out, c->step_count, description,
						     description_bytes);
	free(c->data.bytes);
	free(c);
	return result;
}

int apus_ctl_filter_compile_term(const struct apus_type *type, const char *expression,
				 const char *const *parameters, uint32_t parameter_count,
				 const struct apus_ctl_filter_limits *limits,
				 struct apus_dp_predicate **predicate_out,
				 struct apus_ctl_filter_term *term_out,
				 struct apus_filter_error *error_out)
{
	return compile_described(type, expression, parameters, parameter_count, limits,
				 predicate_out, term_out, error_out, NULL, 0);
}

int apus_filter_describe(const struct apus_type *type, const char *expression,
			 const char *const *parameters, uint32_t parameter_count, char *text_out,
			 size_t text_bytes, struct apus_filter_error *error_out)
{
	struct apus_dp_predicate *predicate = NULL;
	struct apus_ctl_filter_term term;
	int result;

	if (!type || apus_type_check(type) < 0 || !text_out || text_bytes == 0)
		return APUS_EINVAL;
	result = compile_described(type, expression, parameters, parameter_count, NULL, &predicate,
				   &term, error_out, text_out, text_bytes);
	apus_ctl_filter_free(predicate);
	return result < 0 ? result : 0;
}

int apus_ctl_filter_compile(const struct apus_type *type, const char *expression,
			    const char *const *parameters, uint32_t parameter_count,
			    const struct apus_ctl_filter_limits *limits,
			    struct apus_dp_predicate **predicate_out,
			    struct apus_filter_error *error_out)
{
	return apus_ctl_filter_compile_term(type, expression, parameters, parameter_count, limits,
					    predicate_out, NULL, error_out);
}

static uint16_t locate_term(struct apus_ctl_filter_operands *o,
			    const struct apus_ctl_filter_term *term)
{
	for (uint32_t i = 0; i < o->field_count; i++)
		if (apus_wire_path_compare(&o->members[i].path, &term->path) == 0)
			return (uint16_t)i;
	o->members[o->field_count].path = term->path;
	o->fields[o->field_count] = (struct apus_dp_field){term->load, term->value_bits};
	return (uint16_t)o->field_count++;
}

int apus_ctl_filter_compile_locator(const struct apus_type *type,
				    const struct apus_ctl_filter_term *const *terms, uint32_t count,
				    uint16_t *fields_out, struct apus_dp_predicate **predicate_out)
{
	struct apus_filter_error error;
	struct aim *aims;
	struct apus_ctl_filter_compiler *c = make_compiler(1, 1, 1, &aims);
	int result;

	if (!c)
		return APUS_ENOMEM;
	c->operands.type = type;
	c->operands.expression = "";
	c->operands.error = &error;
	for (uint32_t i = 0; i < count; i++)
		fields_out[i] = locate_term(&c->operands, terms[i]);
	c->test_count = 1;
	c->tests[0] = (struct apus_dp_test){
		.op = APUS_DP_PRESENT, .on_true = APUS_DP_TO_PASS, .on_false = APUS_DP_TO_REJECT};
	result = assemble(c, predicate_out, NULL);
	free(c);
	return result;
}

void apus_ctl_filter_free(struct apus_dp_predicate *predicate)
{
	apus_dp_predicate_free(predicate);
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
