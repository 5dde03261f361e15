/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operands of filter expressions: members resolved against the type, literals and parameters typed by
 * the member they meet ('A' is a char, a string or an enum label; 5 a number or an enum value).
 *
 * Parameters are bound as text. Beside strings, chars and enums their quotes may be left out (vendors
 * differ); text that begins with a quote must then be one whole quoted text.
 */
#include "control/filter_internal.h"

#include <string.h>

#include "wire/cdr.h"

/* ---- members ----------------------------------------------------------------------------------- */

static int token_length(const struct apus_ctl_filter_token *t)
{
	return t->length < 40 ? (int)t->length : 40;
}

int apus_ctl_filter_fail_at(struct apus_ctl_filter_operands *o,
			    const struct apus_ctl_filter_token *t, const char *what)
{
	return apus_ctl_filter_fail(o->error, t->position, t->length, "%s: '%.*s'", what,
				    token_length(t), o->expression + t->position);
}

static int class_of(const struct apus_type *type)
{
	switch (type->kind) {
	case APUS_KIND_BOOL: return APUS_CTL_CLASS_BOOL;
	case APUS_KIND_CHAR: return APUS_CTL_CLASS_CHAR;
	case APUS_KIND_FLOAT32:
	case APUS_KIND_FLOAT64: return APUS_CTL_CLASS_FLOAT;
	case APUS_KIND_ENUM: return APUS_CTL_CLASS_ENUM;
	case APUS_KIND_BITMASK: return APUS_CTL_CLASS_BITMASK;
	case APUS_KIND_STRING: return APUS_CTL_CLASS_STRING;
	default: return type->kind < APUS_KIND_ARRAY ? APUS_CTL_CLASS_INTEGER : -1;
	}
}

static uint8_t load_of(const struct apus_type *type)
{
	size_t bytes = apus_wire_scalar_bytes(type);
	uint8_t width = bytes == 8 ? 3 : bytes == 4 ? 2 : bytes == 2 ? 1 : 0;

	switch (type->kind) {
	case APUS_KIND_STRING: return APUS_DP_STRING;
	case APUS_KIND_FLOAT32: return APUS_DP_F32;
	case APUS_KIND_FLOAT64: return APUS_DP_F64;
	case APUS_KIND_ENUM:
	case APUS_KIND_INT8:
	case APUS_KIND_INT16:
	case APUS_KIND_INT32:
	case APUS_KIND_INT64: return APUS_DP_S8 + width;
	default: return APUS_DP_U8 + width;
	}
}

static uint8_t value_bits_of(const struct apus_type *type)
{
	if (type->kind == APUS_KIND_BOOL)
		return 1;
	return type->kind == APUS_KIND_BITMASK && type->bit_bound < 64 ? type->bit_bound : 0;
}

static int fail_path(struct apus_ctl_filter_operands *o, const struct apus_ctl_filter_token *t,
		     int result, const struct apus_wire_path_error *e)
{
	uint32_t position = t->position + (uint32_t)e->position;
	int length = e->length < 40 ? (int)e->length : 40;
	const char *name = o->expression + position;

	if (result == APUS_ENOENT)
		return apus_ctl_filter_fail(
			o->error, position, (uint32_t)e->length, "%.64s has no member '%.*s'",
			e->type->name ? e->type->name : "the struct", length, name);
	return apus_ctl_filter_fail(o->error, position, (uint32_t)e->length, "'%.*s': %s", length,
				    name, e->reason);
}

static int add_field(struct apus_ctl_filter_operands *o, const struct apus_ctl_filter_token *t,
		     const struct apus_wire_path *path, uint16_t *field_out)
{
	for (uint32_t i = 0; i < o->field_count; i++) {
		if (apus_wire_path_compare(path, &o->members[i].path) == 0) {
			*field_out = (uint16_t)i;
			return 0;
		}
	}
	if (o->field_count == APUS_DP_FIELDS_MAX)
		return apus_ctl_filter_fail_at(o, t,
					       "more different members than one filter may use");
	o->members[o->field_count] =
		(struct apus_ctl_filter_member){*path, (uint8_t)class_of(path->leaf)};
	o->fields[o->field_count] =
		(struct apus_dp_field){load_of(path->leaf), value_bits_of(path->leaf)};
	*field_out = (uint16_t)o->field_count++;
	return 0;
}

static int resolve(struct apus_ctl_filter_operands *o, const struct apus_ctl_filter_token *t,
		   struct apus_wire_path *path_out)
{
	struct apus_wire_path_error e;
	int result = apus_wire_path_resolve(o->type, o->expression + t->position, t->length,
					    path_out, &e);

	return result < 0 ? fail_path(o, t, result, &e) : 0;
}

int apus_ctl_filter_use_member(struct apus_ctl_filter_operands *o,
			       const struct apus_ctl_filter_token *t, uint16_t *field_out)
{
	struct apus_wire_path path;
	int result = resolve(o, t, &path);

	if (result < 0)
		return result;
	if (class_of(path.leaf) < 0)
		return apus_ctl_filter_fail_at(
			o, t, "a struct, union, array or sequence cannot be compared");
	return add_field(o, t, &path, field_out);
}

/* Goes on from a composite to a part that is there whenever the whole is: the length of a sequence, a
 * discriminator, the first element, a member that is not optional. */
static bool descend(struct apus_wire_path *path)
{
	const struct apus_type *type = path->leaf;
	uint32_t part = 0;

	if (path->depth == APUS_WIRE_PATH_DEPTH)
		return false;
	switch (type->kind) {
	case APUS_KIND_SEQUENCE: path->leaf = &apus_type_uint32; break;
	case APUS_KIND_UNION:
	case APUS_KIND_ARRAY: path->leaf = type->element; break;
	default:
		while (part < type->member_count && type->members[part].optional)
			part++;
		if (part == type->member_count)
			return false;
		path->leaf = type->members[part].type;
		break;
	}
	path->parts[path->depth++] = part;
	return true;
}

int apus_ctl_filter_use_presence(struct apus_ctl_filter_operands *o,
				 const struct apus_ctl_filter_token *t, uint16_t *field_out)
{
	struct apus_wire_path path;
	int result = resolve(o, t, &path);

	if (result < 0)
		return result;
	while (class_of(path.leaf) < 0)
		if (!descend(&path))
			return apus_ctl_filter_fail_at(
				o, t, "nothing but optional members tells whether this is there");
	return add_field(o, t, &path, field_out);
}

/* ---- constants --------------------------------------------------------------------------------- */

/* A constant as it stands: a literal of the expression, or a parameter's text as one token. */
struct constant {
	const struct apus_ctl_filter_token *where; /* in the expression, for errors */
	const char *text;                          /* what `token` refers to */
	struct apus_ctl_filter_token token;
	bool parameter;
	bool bare; /* a parameter that is one token: any text */
};

static int fail_constant(struct apus_ctl_filter_operands *o, const struct constant *k,
			 const char *what)
{
	const struct apus_ctl_filter_token *t = k->where;

	if (!k->parameter)
		return apus_ctl_filter_fail(o->error, t->position, t->length, "'%.*s' is no %s",
					    token_length(t), o->expression + t->position, what);
	return apus_ctl_filter_fail(o->error, t->position, t->length,
				    "parameter %u, '%.40s', is no %s", (unsigned int)t->value,
				    k->text, what);
}

static bool is_quote(char ch)
{
	return ch == '\'' || ch == '`';
}

/* Finds what a token stands for. A parameter that starts with a quote must be one quoted text. */
static int open_constant(struct apus_ctl_filter_operands *o, const struct apus_ctl_filter_token *t,
			 struct constant *k)
{
	struct apus_ctl_filter_token end = {.kind = APUS_CTL_TOKEN_END};
	struct apus_filter_error ignored;
	struct apus_ctl_filter_lexer lexer = {0};
	bool one;

	*k = (struct constant){.where = t, .text = o->expression, .token = *t};
	if (t->kind != APUS_CTL_TOKEN_PARAMETER)
		return 0;
	if (t->value >= o->parameter_count)
		return apus_ctl_filter_fail(
			o->error, t->position, t->length, "parameter %u is missing: %u given",
			(unsigned int)t->value, (unsigned int)o->parameter_count);
	k->text = o->parameters[t->value];
	k->parameter = true;
	lexer.text = k->text;
	lexer.bytes = (uint32_t)strlen(k->text);
	one = apus_ctl_filter_lex(&lexer, &k->token, &ignored) == 0 &&
	      apus_ctl_filter_lex(&lexer, &end, &ignored) == 0 && end.kind == APUS_CTL_TOKEN_END;
	if (is_quote(k->text[0]) && !(one && k->token.length == lexer.bytes))
		return fail_constant(o, k, "well-formed quoted text");
	k->bare = !is_quote(k->text[0]);
	if (!one)
		k->token.kind = APUS_CTL_TOKEN_END; /* useful as bare text only */
	return 0;
}

/* The characters of a quoted constant, or of a bare parameter, appended to the pool; doubled quotes
 * become one. The pool holds every constant of the expression and every parameter once. */
static struct apus_ctl_filter_text pool_text(struct apus_ctl_filter_operands *o,
					     const struct constant *k)
{
	const char *from = k->bare ? k->text : k->text + k->token.position + 1;
	uint32_t bytes = k->bare ? (uint32_t)strlen(k->text) : k->token.length - 2;
	struct apus_ctl_filter_text text = {.at = o->pool_bytes};

	if (k->parameter && o->parameter_pooled[k->where->value])
		return o->parameter_texts[k->where->value];
	for (uint32_t i = 0; i < bytes; i++) {
		o->pool[o->pool_bytes++] = from[i];
		if (!k->bare && from[i] == '\'')
			i++;
	}
	text.length = o->pool_bytes - text.at;
	if (k->parameter) {
		o->parameter_texts[k->where->value] = text;
		o->parameter_pooled[k->where->value] = true;
	}
	return text;
}

static bool is_number(const struct constant *k)
{
	return k->token.kind == APUS_CTL_TOKEN_INTEGER || k->token.kind == APUS_CTL_TOKEN_FLOAT;
}

static bool is_text(const struct constant *k)
{
	return k->bare || k->token.kind == APUS_CTL_TOKEN_QUOTED;
}

static int evaluate_number(struct apus_ctl_filter_operands *o, const struct constant *k,
			   struct apus_ctl_filter_number *out)
{
	const char *reason = "";
	int result = apus_ctl_filter_number(k->text, &k->token, out, &reason);

	return result < 0 ? apus_ctl_filter_fail(o->error, k->where->position, k->where->length,
						 "%s", reason)
			  : 0;
}

static int bind_label(struct apus_ctl_filter_operands *o, const struct constant *k,
		      const struct apus_type *type, struct apus_ctl_filter_number *out)
{
	const char *from = k->bare ? k->text : k->text + k->token.position + 1;
	size_t bytes = k->bare ? strlen(k->text) : k->token.length - 2;

	for (uint32_t i = 0; i < type->label_count; i++) {
		const char *name = type->labels[i].name;

		if (strncmp(name, from, bytes) == 0 && name[bytes] == '\0') {
			*out = apus_ctl_filter_whole(type->labels[i].value);
			return 0;
		}
	}
	return fail_constant(o, k, "label of this enumeration");
}

static int bind_char(struct apus_ctl_filter_operands *o, const struct constant *k,
		     struct apus_ctl_filter_number *out)
{
	struct apus_ctl_filter_text text;

	if (!is_text(k))
		return fail_constant(o, k, "char");
	text = pool_text(o, k);
	if (text.length != 1)
		return fail_constant(o, k, "single char");
	*out = apus_ctl_filter_whole((uint8_t)o->pool[text.at]);
	return 0;
}

static int bind_bool(struct apus_ctl_filter_operands *o, const struct constant *k,
		     struct apus_ctl_filter_number *out)
{
	if (k->token.kind != APUS_CTL_TOKEN_TRUE && k->token.kind != APUS_CTL_TOKEN_FALSE)
		return fail_constant(o, k, "boolean (TRUE or FALSE)");
	*out = apus_ctl_filter_whole(k->token.kind == APUS_CTL_TOKEN_TRUE);
	return 0;
}

int apus_ctl_filter_bind_number(struct apus_ctl_filter_operands *o,
				const struct apus_ctl_filter_token *t, uint16_t field,
				struct apus_ctl_filter_number *number_out)
{
	const struct apus_ctl_filter_member *member = &o->members[field];
	struct constant k;
	int result = open_constant(o, t, &k);

	if (result < 0)
		return result;
	switch (member->class) {
	case APUS_CTL_CLASS_BOOL: return bind_bool(o, &k, number_out);
	case APUS_CTL_CLASS_CHAR: return bind_char(o, &k, number_out);
	case APUS_CTL_CLASS_ENUM:
		if (k.token.kind == APUS_CTL_TOKEN_INTEGER)
			return evaluate_number(o, &k, number_out);
		return is_text(&k) ? bind_label(o, &k, member->path.leaf, number_out)
				   : fail_constant(o, &k, "label or integer");
	case APUS_CTL_CLASS_BITMASK:
		return k.token.kind == APUS_CTL_TOKEN_INTEGER ? evaluate_number(o, &k, number_out)
							      : fail_constant(o, &k, "integer");
	default:
		return is_number(&k) ? evaluate_number(o, &k, number_out)
				     : fail_constant(o, &k, "number");
	}
}

int apus_ctl_filter_bind_text(struct apus_ctl_filter_operands *o,
			      const struct apus_ctl_filter_token *t,
			      struct apus_ctl_filter_text *text_out)
{
	struct constant k;
	int result = open_constant(o, t, &k);

	if (result < 0)
		return result;
	if (!is_text(&k))
		return fail_constant(o, &k, "string");
	*text_out = pool_text(o, &k);
	return 0;
}
