/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Predicates composed in code (apus/predicate.h): pieces of text that are known to compile.
 *
 * Values are written so that the compiler reads back exactly the same value; a leaf is compiled once when
 * it is made, which checks names and types, and the result thrown away. Joining adds parentheses only
 * where precedence needs them, so chains of both and either do not nest.
 */
#include <apus/predicate.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomics.h"
#include "control/filter.h"

/* How tightly the outermost operator of a text binds. */
enum binding { BINDS_OR, BINDS_AND, BINDS_NOT, BINDS_LEAF };

struct apus_predicate {
	const struct apus_type *type;
	enum binding binding;
	size_t bytes; /* of the text, without the NUL */
	char text[];
};

/* A text being written; `failed` once memory was short or the text too long. */
struct writing {
	char *text;
	size_t bytes, capacity;
	int failed;
	struct apus_filter_error error; /* if that is APUS_EFILTER */
};

static void put_bytes(struct writing *w, const char *from, size_t bytes)
{
	size_t capacity = w->capacity ? w->capacity : 128;
	char *grown;

	if (w->failed)
		return;
	while (capacity < w->bytes + bytes + 1)
		capacity *= 2;
	if (w->bytes + bytes > APUS_CTL_FILTER_BYTES_MAX) {
		w->failed = APUS_ELIMIT;
		return;
	}
	if (capacity > w->capacity) {
		grown = realloc(w->text, capacity);
		if (!grown) {
			w->failed = APUS_ENOMEM;
			return;
		}
		w->text = grown;
		w->capacity = capacity;
	}
	memcpy(w->text + w->bytes, from, bytes);
	w->bytes += bytes;
	w->text[w->bytes] = '\0';
}

static void put(struct writing *w, const char *text)
{
	put_bytes(w, text, strlen(text));
}

static void put_quoted(struct writing *w, const char *text)
{
	put(w, "'");
	for (const char *c = text; *c; c++)
		put_bytes(w, *c == '\'' ? "''" : c, *c == '\'' ? 2 : 1);
	put(w, "'");
}

/* 17 digits name one double. The decimal point is '.', whatever the application's locale says. */
static void put_float(struct writing *w, double value)
{
	char text[64];
	bool point = false;

	if (!isfinite(value)) {
		w->failed = APUS_EINVAL;
		return;
	}
	snprintf(text, sizeof(text), "%.17g", value);
	for (const char *c = text; *c; c++) {
		if (strchr("+-0123456789e", *c))
			put_bytes(w, c, 1);
		else if (!point)
			put(w, ".");
		point |= !strchr("+-0123456789e", *c);
	}
}

/* The character of a member path that cannot be there; none: it is empty. */
static void refuse_member(struct writing *w, size_t at, bool any)
{
	w->failed = APUS_EFILTER;
	w->error = (struct apus_filter_error){.position = (uint32_t)(w->bytes + at), .length = any};
	snprintf(w->error.reason, sizeof(w->error.reason), "%s",
		 any ? "a member's path is made of names, '.', and '[index]'"
		     : "a member's path is empty");
}

/* A member path is put as it is: nothing but names, dots and indices, so that it cannot be more. */
static void put_member(struct writing *w, const char *member)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_.[]";

	size_t good;

	if (!member) {
		w->failed = APUS_EINVAL;
		return;
	}
	good = strspn(member, allowed);
	if (*member && strchr("0123456789.[]", *member))
		good = 0;
	if (good > 0 && member[good] == '\0')
		put(w, member);
	else if (!w->failed)
		refuse_member(w, good, member[good] != '\0');
}

static void put_value(struct writing *w, const struct apus_value *v)
{
	char text[32];

	if (!v) {
		w->failed = APUS_EINVAL;
		return;
	}
	switch (v->kind) {
	case APUS_VALUE_SIGNED:
		snprintf(text, sizeof(text), "%" PRId64, v->i);
		put(w, text);
		break;
	case APUS_VALUE_UNSIGNED:
		snprintf(text, sizeof(text), "%" PRIu64, v->u);
		put(w, text);
		break;
	case APUS_VALUE_FLOAT: put_float(w, v->f); break;
	case APUS_VALUE_BOOL: put(w, v->b ? "TRUE" : "FALSE"); break;
	case APUS_VALUE_TEXT:
		if (v->text)
			put_quoted(w, v->text);
		else
			w->failed = APUS_EINVAL;
		break;
	case APUS_VALUE_MEMBER: put_member(w, v->text); break;
	default: w->failed = APUS_EINVAL; break;
	}
}

static int finish(struct writing *w, const struct apus_type *type, enum binding binding,
		  struct apus_predicate **predicate_out)
{
	struct apus_predicate *p = NULL;
	int result = w->failed;

	if (!result) {
		p = malloc(sizeof(*p) + w->bytes + 1);
		result = p ? 0 : APUS_ENOMEM;
	}
	if (p) {
		*p = (struct apus_predicate){.type = type, .binding = binding, .bytes = w->bytes};
		memcpy(p->text, w->text, w->bytes + 1);
		*predicate_out = p;
	}
	free(w->text);
	return result;
}

/* ---- leaves ------------------------------------------------------------------------------------ */

static int begin_leaf(struct writing *w, const struct apus_type *type, const char *member,
		      struct apus_predicate **predicate_out)
{
	*w = (struct writing){.text = NULL};
	if (!type || apus_type_check(type) < 0 || !predicate_out)
		return APUS_EINVAL;
	put_member(w, member);
	return 0;
}

static int end_leaf(struct writing *w, const struct apus_type *type,
		    struct apus_predicate **predicate_out, struct apus_filter_error *error_out)
{
	struct apus_filter_error unwanted;
	struct apus_filter *filter;
	struct apus_predicate *p = NULL;
	int result = finish(w, type, BINDS_LEAF, &p);

	if (result == APUS_EFILTER && error_out)
		*error_out = w->error;
	if (result < 0)
		return result;
	result = apus_predicate_open(p, &filter, error_out ? error_out : &unwanted);
	if (result < 0) {
		apus_predicate_free(p);
		return result;
	}
	apus_filter_close(filter);
	*predicate_out = p;
	return 0;
}

int apus_predicate_compare(const struct apus_type *type, const char *member,
			   enum apus_compare_op op, const struct apus_value *value,
			   struct apus_predicate **predicate_out,
			   struct apus_filter_error *error_out)
{
	static const char *const operators[] = {" < ", " <= ", " = ", " <> ", " >= ", " > "};
	struct writing w;
	int result = begin_leaf(&w, type, member, predicate_out);

	if (result < 0)
		return result;
	if ((unsigned int)op < APUS_ARRAY_LENGTH(operators))
		put(&w, operators[op]);
	else
		w.failed = APUS_EINVAL;
	put_value(&w, value);
	return end_leaf(&w, type, predicate_out, error_out);
}

int apus_predicate_between(const struct apus_type *type, const char *member,
			   const struct apus_value *low, const struct apus_value *high,
			   struct apus_predicate **predicate_out,
			   struct apus_filter_error *error_out)
{
	struct writing w;
	int result = begin_leaf(&w, type, member, predicate_out);

	if (result < 0)
		return result;
	put(&w, " BETWEEN ");
	put_value(&w, low);
	put(&w, " AND ");
	put_value(&w, high);
	return end_leaf(&w, type, predicate_out, error_out);
}

int apus_predicate_in(const struct apus_type *type, const char *member,
		      const struct apus_value *values, uint32_t value_count,
		      struct apus_predicate **predicate_out, struct apus_filter_error *error_out)
{
	struct writing w;
	int result = begin_leaf(&w, type, member, predicate_out);

	if (result < 0)
		return result;
	if (!values || value_count == 0)
		w.failed = APUS_EINVAL;
	for (uint32_t i = 0; !w.failed && i < value_count; i++) {
		put(&w, i ? ", " : " IN (");
		put_value(&w, &values[i]);
	}
	put(&w, ")");
	return end_leaf(&w, type, predicate_out, error_out);
}

static int pattern(const struct apus_type *type, const char *member, const char *op,
		   const char *text, char escape, struct apus_predicate **predicate_out,
		   struct apus_filter_error *error_out)
{
	struct writing w;
	int result = begin_leaf(&w, type, member, predicate_out);

	if (result < 0)
		return result;
	put(&w, op);
	put_value(&w, &(struct apus_value){.kind = APUS_VALUE_TEXT, .text = text});
	if (escape) {
		put(&w, " ESCAPE ");
		put_quoted(&w, (const char[]){escape, '\0'});
	}
	return end_leaf(&w, type, predicate_out, error_out);
}

int apus_predicate_like(const struct apus_type *type, const char *member, const char *text,
			char escape, struct apus_predicate **predicate_out,
			struct apus_filter_error *error_out)
{
	return pattern(type, member, " LIKE ", text, escape, predicate_out, error_out);
}

int apus_predicate_match(const struct apus_type *type, const char *member, const char *text,
			 struct apus_predicate **predicate_out, struct apus_filter_error *error_out)
{
	return pattern(type, member, " MATCH ", text, '\0', predicate_out, error_out);
}

int apus_predicate_is_null(const struct apus_type *type, const char *member,
			   struct apus_predicate **predicate_out,
			   struct apus_filter_error *error_out)
{
	struct writing w;
	int result = begin_leaf(&w, type, member, predicate_out);

	if (result < 0)
		return result;
	put(&w, " IS NULL");
	return end_leaf(&w, type, predicate_out, error_out);
}

/* ---- joining ----------------------------------------------------------------------------------- */

/* An operand of an operator that binds as tightly as `binding`. */
static void put_operand(struct writing *w, const struct apus_predicate *p, enum binding binding)
{
	bool parentheses = p->binding < binding;

	put(w, parentheses ? "(" : "");
	put_bytes(w, p->text, p->bytes);
	put(w, parentheses ? ")" : "");
}

static int join(const struct apus_predicate *a, const struct apus_predicate *b,
		enum binding binding, struct apus_predicate **predicate_out)
{
	struct writing w = {.text = NULL};

	if (!a || !b || !predicate_out || a->type != b->type)
		return APUS_EINVAL;
	put_operand(&w, a, binding);
	put(&w, binding == BINDS_AND ? " AND " : " OR ");
	put_operand(&w, b, binding);
	return finish(&w, a->type, binding, predicate_out);
}

int apus_predicate_both(const struct apus_predicate *a, const struct apus_predicate *b,
			struct apus_predicate **predicate_out)
{
	return join(a, b, BINDS_AND, predicate_out);
}

int apus_predicate_either(const struct apus_predicate *a, const struct apus_predicate *b,
			  struct apus_predicate **predicate_out)
{
	return join(a, b, BINDS_OR, predicate_out);
}

int apus_predicate_not(const struct apus_predicate *a, struct apus_predicate **predicate_out)
{
	struct writing w = {.text = NULL};

	if (!a || !predicate_out)
		return APUS_EINVAL;
	put(&w, "NOT ");
	put_operand(&w, a, BINDS_LEAF);
	return finish(&w, a->type, BINDS_NOT, predicate_out);
}

/* ---- use --------------------------------------------------------------------------------------- */

const char *apus_predicate_text(const struct apus_predicate *predicate)
{
	return predicate ? predicate->text : NULL;
}

int apus_predicate_open(const struct apus_predicate *predicate, struct apus_filter **filter_out,
			struct apus_filter_error *error_out)
{
	struct apus_ctl_filter_limits limits;
	struct apus_dp_predicate *compiled;
	int result;

	if (!predicate || !filter_out)
		return APUS_EINVAL;
	apus_ctl_filter_limits_default(&limits);
	limits.expression_bytes = APUS_CTL_FILTER_BYTES_MAX;
	limits.predicate_count = APUS_CTL_FILTER_PREDICATES_MAX;
	result = apus_ctl_filter_compile(predicate->type, predicate->text, NULL, 0, &limits,
					 &compiled, error_out);
	if (result == 0)
		*filter_out = (struct apus_filter *)compiled;
	return result;
}

void apus_predicate_free(struct apus_predicate *predicate)
{
	free(predicate);
}
