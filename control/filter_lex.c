/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens of the filter language (DDS 1.4 Annex B, with the literal forms of Connext Micro).
 *
 * Every byte is passed once. Classification is by explicit ASCII ranges: the C library's ctype depends
 * on the locale, and an expression must mean the same on every host.
 */
#include "control/filter_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/atomics.h"

int apus_ctl_filter_fail(struct apus_filter_error *error, uint32_t position, uint32_t length,
			 const char *format, ...)
{
	va_list args;

	error->position = position;
	error->length = length;
	va_start(args, format);
	vsnprintf(error->reason, sizeof(error->reason), format, args);
	va_end(args);
	for (char *c = error->reason; *c; c++)
		if (*c < 0x20 || *c > 0x7e)
			*c = '?';
	return APUS_EFILTER;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_name_start(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_name(char c)
{
	return is_name_start(c) || is_digit(c);
}

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static const struct keyword {
	const char *name;
	uint8_t length, kind;
} keywords[] = {
	{"AND", 3, APUS_CTL_TOKEN_AND},   {"OR", 2, APUS_CTL_TOKEN_OR},
	{"NOT", 3, APUS_CTL_TOKEN_NOT},   {"BETWEEN", 7, APUS_CTL_TOKEN_BETWEEN},
	{"TRUE", 4, APUS_CTL_TOKEN_TRUE}, {"FALSE", 5, APUS_CTL_TOKEN_FALSE},
	{"LIKE", 4, APUS_CTL_TOKEN_LIKE}, {"MATCH", 5, APUS_CTL_TOKEN_MATCH},
	{"IN", 2, APUS_CTL_TOKEN_IN},     {"IS", 2, APUS_CTL_TOKEN_IS},
	{"NULL", 4, APUS_CTL_TOKEN_NULL}, {"ESCAPE", 6, APUS_CTL_TOKEN_ESCAPE},
};

static bool same_word(const char *text, const char *upper)
{
	for (uint32_t i = 0; upper[i]; i++) {
		char c = text[i];

		if (c >= 'a' && c <= 'z')
			c = (char)(c - 'a' + 'A');
		if (c != upper[i])
			return false;
	}
	return true;
}

/* [3] of a member path: decimal, nothing else within the brackets. */
static int skip_index(struct apus_ctl_filter_lexer *lx, struct apus_filter_error *error)
{
	uint32_t open = lx->at++;

	while (is_digit(lx->text[lx->at]))
		lx->at++;
	if (lx->text[lx->at] != ']' || lx->at == open + 1)
		return apus_ctl_filter_fail(error, open, lx->at - open,
					    "an index is a number in brackets, as in [0]");
	lx->at++;
	return 0;
}

static int lex_name(struct apus_ctl_filter_lexer *lx, struct apus_ctl_filter_token *t,
		    struct apus_filter_error *error)
{
	const char *text = lx->text;
	bool closed = false; /* by an index, behind which no name goes on */

	while (is_name(text[lx->at]) && !closed) {
		while (is_name(text[lx->at]))
			lx->at++;
		while (text[lx->at] == '[') {
			if (skip_index(lx, error) < 0)
				return APUS_EFILTER;
			closed = true;
		}
		if (text[lx->at] == '.' && is_name_start(text[lx->at + 1])) {
			lx->at++;
			closed = false;
		}
	}
	if (text[lx->at] == '.')
		return apus_ctl_filter_fail(error, lx->at, 1,
					    "a member name is expected after '.'");
	t->kind = APUS_CTL_TOKEN_NAME;
	for (size_t i = 0; i < APUS_ARRAY_LENGTH(keywords); i++)
		if (keywords[i].length == lx->at - t->position &&
		    same_word(text + t->position, keywords[i].name))
			t->kind = keywords[i].kind;
	return 0;
}

static void skip_digits(struct apus_ctl_filter_lexer *lx)
{
	while (is_digit(lx->text[lx->at]))
		lx->at++;
}

/* [eE][+-]?digits, only if complete. */
static bool skip_exponent(struct apus_ctl_filter_lexer *lx)
{
	const char *p = lx->text + lx->at;
	uint32_t sign = p[0] && (p[1] == '+' || p[1] == '-');

	if ((p[0] != 'e' && p[0] != 'E') || !is_digit(p[1 + sign]))
		return false;
	lx->at += 1 + sign;
	skip_digits(lx);
	return true;
}

static void lex_decimal(struct apus_ctl_filter_lexer *lx, struct apus_ctl_filter_token *t)
{
	const char *text = lx->text;

	t->kind = APUS_CTL_TOKEN_INTEGER;
	skip_digits(lx);
	if (text[lx->at] == '.') {
		t->kind = APUS_CTL_TOKEN_FLOAT;
		lx->at++;
		skip_digits(lx);
	}
	if (skip_exponent(lx))
		t->kind = APUS_CTL_TOKEN_FLOAT;
	if (text[lx->at] == 'f' || text[lx->at] == 'F') {
		t->kind = APUS_CTL_TOKEN_FLOAT;
		lx->at++;
	} else if (t->kind == APUS_CTL_TOKEN_INTEGER &&
		   (text[lx->at] == 'L' || text[lx->at] == 'l')) {
		lx->at++;
	}
}

static int lex_number(struct apus_ctl_filter_lexer *lx, struct apus_ctl_filter_token *t,
		      struct apus_filter_error *error)
{
	const char *text = lx->text;

	if (text[lx->at] == '+' || text[lx->at] == '-')
		lx->at++;
	if (text[lx->at] == '0' && (text[lx->at + 1] == 'x' || text[lx->at + 1] == 'X') &&
	    is_hex(text[lx->at + 2])) {
		t->kind = APUS_CTL_TOKEN_INTEGER;
		for (lx->at += 2; is_hex(text[lx->at]);)
			lx->at++;
		if (text[lx->at] == 'L' || text[lx->at] == 'l')
			lx->at++;
	} else {
		lex_decimal(lx, t);
	}
	if (!is_name(text[lx->at]) && text[lx->at] != '.')
		return 0;
	while (is_name(text[lx->at]) || text[lx->at] == '.')
		lx->at++;
	return apus_ctl_filter_fail(error, t->position, lx->at - t->position, "malformed number");
}

/* 'text' with doubled quotes; Interop: the older `text' form of DDS 1.0 too. */
static int lex_quoted(struct apus_ctl_filter_lexer *lx, struct apus_ctl_filter_token *t,
		      struct apus_filter_error *error)
{
	const char *text = lx->text;

	t->kind = APUS_CTL_TOKEN_QUOTED;
	for (lx->at++; lx->at < lx->bytes; lx->at++) {
		if (text[lx->at] != '\'')
			continue;
		if (text[lx->at + 1] != '\'') {
			lx->at++;
			return 0;
		}
		lx->at++;
	}
	return apus_ctl_filter_fail(error, t->position, lx->bytes - t->position,
				    "the quote is never closed");
}

static int lex_parameter(struct apus_ctl_filter_lexer *lx, struct apus_ctl_filter_token *t,
			 struct apus_filter_error *error)
{
	uint32_t digits;

	t->kind = APUS_CTL_TOKEN_PARAMETER;
	lx->at++;
	skip_digits(lx);
	digits = lx->at - t->position - 1;
	if (digits == 1 || digits == 2) {
		const char *p = lx->text + t->position + 1;

		t->value = (uint8_t)(digits == 1 ? p[0] - '0' : (p[0] - '0') * 10 + p[1] - '0');
		if (!is_name_start(lx->text[lx->at]))
			return 0;
	}
	return apus_ctl_filter_fail(error, t->position, lx->at - t->position,
				    "a parameter is %%0 to %%99");
}

static int lex_operator(struct apus_ctl_filter_lexer *lx, struct apus_ctl_filter_token *t,
			struct apus_filter_error *error)
{
	static const struct {
		char text[3];
		uint8_t op;
	} operators[] = {
		/* longer ones first */
		{"<=", APUS_CTL_OP_LE}, {">=", APUS_CTL_OP_GE}, {"<>", APUS_CTL_OP_NE},
		{"!=", APUS_CTL_OP_NE}, {"==", APUS_CTL_OP_EQ}, {"=", APUS_CTL_OP_EQ},
		{"<", APUS_CTL_OP_LT},  {">", APUS_CTL_OP_GT},
	};

	t->kind = APUS_CTL_TOKEN_COMPARE;
	for (size_t i = 0; i < APUS_ARRAY_LENGTH(operators); i++) {
		size_t length = strlen(operators[i].text);

		if (strncmp(lx->text + lx->at, operators[i].text, length) == 0) {
			t->value = operators[i].op;
			lx->at += (uint32_t)length;
			return 0;
		}
	}
	return apus_ctl_filter_fail(error, t->position, 1, "unexpected character '%c'",
				    lx->text[lx->at]);
}

static int lex_one(struct apus_ctl_filter_lexer *lx, struct apus_ctl_filter_token *t,
		   struct apus_filter_error *error)
{
	const char *p = lx->text + lx->at;

	if (is_name_start(p[0]))
		return lex_name(lx, t, error);
	if (is_digit(p[0]) || (p[0] == '.' && is_digit(p[1])) ||
	    ((p[0] == '+' || p[0] == '-') && (is_digit(p[1]) || (p[1] == '.' && is_digit(p[2])))))
		return lex_number(lx, t, error);
	switch (p[0]) {
	case '\'':
	case '`': return lex_quoted(lx, t, error);
	case '%': return lex_parameter(lx, t, error);
	case '(':
	case ')':
		t->kind = p[0] == '(' ? APUS_CTL_TOKEN_OPEN : APUS_CTL_TOKEN_CLOSE;
		lx->at++;
		return 0;
	case ',':
		t->kind = APUS_CTL_TOKEN_COMMA;
		lx->at++;
		return 0;
	default: return lex_operator(lx, t, error);
	}
}

int apus_ctl_filter_lex(struct apus_ctl_filter_lexer *lexer,
			struct apus_ctl_filter_token *token_out, struct apus_filter_error *error)
{
	int result = 0;

	while (is_space(lexer->text[lexer->at]))
		lexer->at++;
	*token_out =
		(struct apus_ctl_filter_token){.kind = APUS_CTL_TOKEN_END, .position = lexer->at};
	if (lexer->at < lexer->bytes)
		result = lex_one(lexer, token_out, error);
	token_out->length = lexer->at - token_out->position;
	return result;
}
