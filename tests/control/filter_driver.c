/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C side of filter_oracle.py: reads one case a line and prints the verdict.
 *
 *   TYPE EXPRESSION PARAMETERS PAYLOAD...
 *
 * TYPE indexes filter_types[]; the rest are hex, `-` for empty; PARAMETERS are joined by commas, `.` for
 * none. Prints `invalid POSITION LENGTH REASON`, or one letter for each payload: 1 pass, 0 reject,
 * E malformed.
 *
 * Every route a filter can take must give the same: text compiled; text announced as a reader does,
 * decoded and compiled by a writer; an index that holds the filter; and, where the values can be written
 * in C, the condition composed of typed pieces. A route that differs prints `route NAME` instead. At the end
 * the numbers of conditions announced, composed and found in a column of an index go to stderr.
 */
#include <apus/predicate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/filter_index.h"
#include "control/filter_internal.h"
#include "control/filter_pool.h"
#include "dataplane/filter_index.h"
#include "filter_types.h"

#define LINE_MAX_BYTES (1 << 20)
#define PARAMETERS_MAX 128
#define LEAVES_MAX     64

/* One condition by all routes. */
struct routes {
	const struct apus_type *type;
	struct apus_filter *filter;
	struct apus_ctl_shared_filter *announced; /* NULL: too large to announce */
	struct apus_dp_filter_index *index;
	struct apus_filter *composed; /* NULL: not to be said in C */
};

static struct apus_ctl_filter_pool pool;
static unsigned int announced, composed, indexed; /* how many conditions took each route */

/* Decodes hex in place, NUL-terminated; returns the number of bytes. */
static size_t unhex(char *text)
{
	size_t bytes = 0;

	for (char *from = text; from[0] && from[0] != '-'; from += 2) {
		char digits[3] = {from[0], from[1], '\0'};

		text[bytes++] = (char)strtoul(digits, NULL, 16);
	}
	text[bytes] = '\0';
	return bytes;
}

static uint32_t split_parameters(char *text, const char **parameters)
{
	uint32_t count = 0;
	char *save = NULL;

	if (text[0] == '.')
		return 0;
	for (char *p = strtok_r(text, ",", &save); p && count < PARAMETERS_MAX;
	     p = strtok_r(NULL, ",", &save)) {
		unhex(p);
		parameters[count++] = p;
	}
	return count;
}

/* ---- announced, decoded, compiled ---------------------------------------------------------------- */

static struct apus_ctl_shared_filter *announce(const struct apus_type *type, const char *expression,
					       const char *const *parameters, uint32_t count)
{
	static struct apus_wire_endpoint_record made, read;
	static uint8_t payload[APUS_WIRE_RECORD_PAYLOAD_MAX];
	struct apus_qos qos;
	struct apus_wire_endpoint_source source = {
		.guid = {{1, [15] = 7}},
		.topic = "T",
		.type = type->name,
		.qos = &qos,
		.filter_name = "F",
		.filter_class = APUS_CTL_FILTER_CLASS,
		.filter_expression = expression,
		.filter_parameters = parameters,
		.filter_parameter_count = count,
	};
	int n;

	apus_qos_reader_default(&qos);
	if (apus_wire_endpoint_record_make(&source, &made) != 0)
		return NULL;
	n = apus_wire_endpoint_encode(&made, payload, sizeof(payload));
	if (n < 0 ||
	    apus_wire_endpoint_decode(payload, (size_t)n, false, &read) != APUS_WIRE_ACCEPT)
		return NULL;
	return apus_ctl_filter_pool_get(&pool, type, &read, 0, false);
}

/* ---- composed in C ------------------------------------------------------------------------------- */

/* Where the tokens of a value are: the expression, or a parameter. */
struct composing {
	const struct apus_type *type;
	const char *expression;
	const char *const *parameters;
	char texts[3 * LEAVES_MAX][1024]; /* values of text */
	uint32_t text_count;
};

static const char *keep(struct composing *c, const char *from, size_t bytes, bool quoted)
{
	char *out = c->texts[c->text_count % (3 * LEAVES_MAX)];
	size_t n = 0;

	if (c->text_count++ >= 3 * LEAVES_MAX || bytes >= sizeof(c->texts[0]))
		return NULL;
	for (size_t i = 0; i < bytes; i++) {
		out[n++] = from[i];
		if (quoted && from[i] == '\'')
			i++;
	}
	out[n] = '\0';
	return out;
}

/* The value of a literal; false if it has none in C that is known to be the same. */
static bool value_of(struct composing *c, const struct apus_ctl_filter_token *t, const char *text,
		     struct apus_value *out)
{
	const char *at = text + t->position;
	uint32_t length = t->length;

	*out = (struct apus_value){.kind = APUS_VALUE_TEXT};
	switch (t->kind) {
	case APUS_CTL_TOKEN_NAME:
		out->kind = APUS_VALUE_MEMBER;
		out->text = keep(c, at, length, false);
		return out->text != NULL;
	case APUS_CTL_TOKEN_TRUE:
	case APUS_CTL_TOKEN_FALSE:
		out->kind = APUS_VALUE_BOOL;
		out->b = t->kind == APUS_CTL_TOKEN_TRUE;
		return true;
	case APUS_CTL_TOKEN_QUOTED:
		out->text = keep(c, at + 1, length - 2, true);
		return out->text != NULL;
	case APUS_CTL_TOKEN_INTEGER:
		out->kind = APUS_VALUE_SIGNED;
		out->i = strtoll(at, NULL, 10);
		return length < 19 && !memchr(at, 'x', length) && !memchr(at, 'X', length);
	case APUS_CTL_TOKEN_FLOAT:
		out->kind = APUS_VALUE_FLOAT;
		out->f = strtod(at, NULL);
		return out->f < 1e308 && out->f > -1e308 && at[length - 1] != 'F' &&
		       at[length - 1] != 'f';
	default: return false;
	}
}

/* Parameters are values where one token is all they are and quotes say that it is text. */
static bool operand_of(struct composing *c, const struct apus_ctl_filter_token *t,
		       struct apus_value *out)
{
	struct apus_ctl_filter_lexer lexer = {.at = 0};
	struct apus_ctl_filter_token token, end;
	struct apus_filter_error error;

	if (t->kind != APUS_CTL_TOKEN_PARAMETER)
		return value_of(c, t, c->expression, out);
	lexer.text = c->parameters[t->value];
	lexer.bytes = (uint32_t)strlen(lexer.text);
	return apus_ctl_filter_lex(&lexer, &token, &error) == 0 &&
	       apus_ctl_filter_lex(&lexer, &end, &error) == 0 && end.kind == APUS_CTL_TOKEN_END &&
	       token.kind != APUS_CTL_TOKEN_NAME && value_of(c, &token, lexer.text, out);
}

static enum apus_compare_op op_of(uint8_t op, bool mirrored)
{
	static const enum apus_compare_op ops[] = {
		APUS_LESS,      APUS_LESS_OR_EQUAL,    APUS_EQUAL,
		APUS_NOT_EQUAL, APUS_GREATER_OR_EQUAL, APUS_GREATER};

	if (mirrored && op != APUS_CTL_OP_EQ && op != APUS_CTL_OP_NE)
		op = (uint8_t)(APUS_CTL_OP_LT + APUS_CTL_OP_GT - op);
	return ops[op];
}

static struct apus_predicate *compose_list(struct composing *c,
					   const struct apus_ctl_filter_tree *tree,
					   const struct apus_ctl_filter_leaf *l, const char *member)
{
	struct apus_predicate *p = NULL;
	struct apus_value values[32];

	if (l->item_count > 32)
		return NULL;
	for (uint32_t i = 0; i < l->item_count; i++)
		if (!operand_of(c, &tree->items[l->first_item + i], &values[i]))
			return NULL;
	apus_predicate_in(c->type, member, values, l->item_count, &p, NULL);
	return p;
}

static struct apus_predicate *
compose_pattern(struct composing *c, const struct apus_ctl_filter_leaf *l, const char *member)
{
	struct apus_value pattern, escape = {.text = ""};
	struct apus_predicate *p = NULL;

	if (!operand_of(c, &l->b, &pattern) || pattern.kind != APUS_VALUE_TEXT)
		return NULL;
	if (l->c.kind != APUS_CTL_TOKEN_END && !operand_of(c, &l->c, &escape))
		return NULL;
	if (l->op == APUS_CTL_OP_LIKE)
		apus_predicate_like(c->type, member, pattern.text, escape.text[0], &p, NULL);
	else
		apus_predicate_match(c->type, member, pattern.text, &p, NULL);
	return p;
}

static struct apus_predicate *compose_leaf(struct composing *c,
					   const struct apus_ctl_filter_tree *tree,
					   const struct apus_ctl_filter_leaf *l)
{
	struct apus_predicate *p = NULL;
	struct apus_value a, b, high;
	bool mirrored = l->a.kind != APUS_CTL_TOKEN_NAME;

	if (!operand_of(c, mirrored ? &l->b : &l->a, &a) || a.kind != APUS_VALUE_MEMBER)
		return NULL;
	switch (l->op) {
	case APUS_CTL_OP_IS_NULL: apus_predicate_is_null(c->type, a.text, &p, NULL); return p;
	case APUS_CTL_OP_IN: return compose_list(c, tree, l, a.text);
	case APUS_CTL_OP_LIKE:
	case APUS_CTL_OP_MATCH: return compose_pattern(c, l, a.text);
	default: break;
	}
	if (!operand_of(c, mirrored ? &l->a : &l->b, &b))
		return NULL;
	if (l->op == APUS_CTL_OP_BETWEEN) {
		if (operand_of(c, &l->c, &high))
			apus_predicate_between(c->type, a.text, &b, &high, &p, NULL);
	} else {
		apus_predicate_compare(c->type, a.text, op_of(l->op, mirrored), &b, &p, NULL);
	}
	return p;
}

static struct apus_predicate *negated(struct apus_predicate *p)
{
	struct apus_predicate *result = NULL;

	apus_predicate_not(p, &result);
	apus_predicate_free(p);
	return result;
}

static struct apus_predicate *compose_node(struct composing *c,
					   const struct apus_ctl_filter_tree *tree, uint32_t idx)
{
	const struct apus_ctl_filter_node *n = &tree->nodes[idx];
	struct apus_predicate *p = NULL, *left, *right;

	if (n->kind == APUS_CTL_NODE_LEAF) {
		p = compose_leaf(c, tree, &tree->leaves[n->first_leaf]);
		if (tree->leaves[n->first_leaf].negated)
			p = negated(p);
	} else {
		left = compose_node(c, tree, n->left);
		right = compose_node(c, tree, n->right);
		if (n->kind == APUS_CTL_NODE_AND)
			apus_predicate_both(left, right, &p);
		else
			apus_predicate_either(left, right, &p);
		apus_predicate_free(left);
		apus_predicate_free(right);
	}
	return n->negated ? negated(p) : p;
}

static struct apus_filter *compose(const struct apus_type *type, const char *expression,
				   const char *const *parameters)
{
	static struct apus_ctl_filter_leaf leaves[LEAVES_MAX];
	static struct apus_ctl_filter_node nodes[2 * LEAVES_MAX];
	static struct apus_ctl_filter_token items[LINE_MAX_BYTES / 16];
	static struct composing c;
	struct apus_ctl_filter_tree tree = {
		.leaves = leaves, .nodes = nodes, .items = items, .leaf_capacity = LEAVES_MAX};
	struct apus_filter *filter = NULL;
	struct apus_filter_error error;
	struct apus_predicate *p;

	c.type = type;
	c.expression = expression;
	c.parameters = parameters;
	c.text_count = 0;
	if (apus_ctl_filter_parse(expression, (uint32_t)strlen(expression), 64, &tree, &error) < 0)
		return NULL;
	p = compose_node(&c, &tree, tree.node_count - 1);
	if (p)
		apus_predicate_open(p, &filter, NULL);
	apus_predicate_free(p);
	return filter;
}

/* ---- cases --------------------------------------------------------------------------------------- */

/* Evaluates over a copy of exactly the payload's size, so that sanitizers see any byte too many. Returns the
 * letter, or the name of a route that differs in *differs. */
static char verdict(const struct routes *r, const char *payload, size_t bytes, const char **differs)
{
	uint8_t *exact = malloc(bytes ? bytes : 1);
	uint32_t passed[1];
	int result;

	memcpy(exact, payload, bytes);
	result = apus_filter_match(r->filter, exact, bytes);
	if (r->announced && apus_filter_match((const struct apus_filter *)r->announced->predicate,
					      exact, bytes) != result)
		*differs = "announced";
	if (r->composed && apus_filter_match(r->composed, exact, bytes) != result)
		*differs = "composed";
	/* What cannot be evaluated passes at a writer; malformed elsewhere, it may be rejected unseen. */
	if (r->index && result >= 0 &&
	    (int)apus_dp_filter_index_match(r->index, exact, bytes, passed, NULL) != result)
		*differs = "index";
	free(exact);
	return result < 0 ? 'E' : (char)('0' + result);
}

static void close_routes(struct routes *r)
{
	apus_ctl_filter_index_free(r->index);
	apus_ctl_filter_pool_drop(&pool, r->announced);
	apus_filter_close(r->composed);
	apus_filter_close(r->filter);
}

static void open_routes(struct routes *r, const char *expression, const char *const *parameters,
			uint32_t count)
{
	struct apus_ctl_index_filter one;

	r->announced = announce(r->type, expression, parameters, count);
	r->composed = compose(r->type, expression, parameters);
	if (r->announced) {
		one = (struct apus_ctl_index_filter){r->announced->predicate, r->announced->term};
		apus_ctl_filter_index_build(r->type, &one, 1, &r->index);
	}
	announced += r->announced != NULL;
	composed += r->composed != NULL;
	indexed += r->index && r->index->column_count;
}

static void run_case(char *line)
{
	const char *parameters[PARAMETERS_MAX], *differs = NULL;
	struct apus_filter_error error;
	char *save = NULL, letters[256];
	size_t type = strtoul(strtok_r(line, " ", &save), NULL, 10), n = 0;
	char *expression = strtok_r(NULL, " ", &save);
	uint32_t count = split_parameters(strtok_r(NULL, " ", &save), parameters);
	struct routes r = {.type = filter_types[type % FILTER_TYPE_COUNT]};

	unhex(expression);
	if (apus_filter_open(r.type, expression, parameters, count, &r.filter, &error) < 0) {
		printf("invalid %u %u %s\n", error.position, error.length, error.reason);
		return;
	}
	open_routes(&r, expression, parameters, count);
	for (char *p = strtok_r(NULL, " ", &save); p && n < sizeof(letters) - 1;
	     p = strtok_r(NULL, " ", &save)) {
		size_t bytes = unhex(p);

		letters[n++] = verdict(&r, p, bytes, &differs);
	}
	letters[n] = '\0';
	printf("%s%s\n", differs ? "route " : letters, differs ? differs : "");
	close_routes(&r);
}

int main(void)
{
	char *line = malloc(LINE_MAX_BYTES);
	struct apus_ctl_filter_limits limits;

	apus_ctl_filter_limits_default(&limits);
	if (apus_ctl_filter_pool_init(&pool, 4, &limits) != 0)
		return 1;
	while (line && fgets(line, LINE_MAX_BYTES, stdin)) {
		line[strcspn(line, "\n")] = '\0';
		run_case(line);
	}
	fprintf(stderr, "%u %u %u\n", announced, composed, indexed);
	apus_ctl_filter_pool_fini(&pool);
	free(line);
	return 0;
}
