/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: which kinds may be compared with which, exactly: what is allowed compiles either way round and with
 * every operator, what is not is refused as an expression, never by accident of the spelling.
 * Method: two matrices, field against field and field against constant (also as a parameter), each times
 * every operator and BETWEEN. A member stands for each of several types of its class.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "control/filter.h"

#include "filter_types.h"

enum { BOOL, INT, FLOAT, CHAR, ENUM, MASK, STRING, CLASSES };

/* Members of each class, by name, ended by NULL. */
static const char *const members[CLASSES][10] = {
	[BOOL] = {"b", "b2"},     [INT] = {"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"},
	[FLOAT] = {"f32", "f64"}, [CHAR] = {"c"},
	[ENUM] = {"e"},           [MASK] = {"m8", "m64"},
	[STRING] = {"s", "t"},
};

static const char *const operators[] = {"=", "==", "<>", "!=", "<", "<=", ">", ">="};
#define OPERATORS (sizeof(operators) / sizeof(operators[0]))

/* The first four ask for equality; Booleans have no order. */
static bool has_operator(int class, size_t operator)
{
	return class != BOOL || operator<4;
}

/* Rows and columns in the order of the classes. */
static const char *const field_by_field[CLASSES] = {
	[BOOL] = "x......", [INT] = ".xx.xx.",  [FLOAT] = ".xx....",  [CHAR] = "...x...",
	[ENUM] = ".x..x..", [MASK] = ".x.....", [STRING] = "......x",
};

static const char *const constants[] = {"TRUE", "5",      "-5",  "0x10",   "7L",
					"1.5",  "2.5e3F", "'A'", "'CALM'", "''"};
#define CONSTANTS (sizeof(constants) / sizeof(constants[0]))

/* Rows by class, columns by constant. */
static const char *const field_by_constant[CLASSES] = {
	[BOOL] = "x.........",   [INT] = ".xxxxxx...",  [FLOAT] = ".xxxxxx...",
	[CHAR] = ".......x..",   [ENUM] = ".xxxx...x.", [MASK] = ".xxxx.....",
	[STRING] = ".......xxx",
};

static void check(const char *expression, const char *parameter, bool valid)
{
	struct apus_filter_error error = {0};
	struct apus_filter *filter = NULL;
	int rc = apus_filter_open(&filter_scalars, expression, &parameter, parameter ? 1 : 0,
				  &filter, &error);

	if (rc != (valid ? 0 : APUS_EFILTER))
		print_error("%s with %s: %d, %s\n", expression, parameter ? parameter : "nothing",
			    rc, error.reason);
	assert_int_equal(rc, valid ? 0 : APUS_EFILTER);
	if (!valid)
		assert_true(error.reason[0] != 0 && error.length > 0);
	apus_filter_close(filter);
}

static void check_pair(const char *a, const char *b, int class, bool valid)
{
	char text[96];

	for (size_t op = 0; op < OPERATORS; op++) {
		bool ok = valid && has_operator(class, op);

		snprintf(text, sizeof(text), "%s %s %s", a, operators[op], b);
		check(text, NULL, ok);
		snprintf(text, sizeof(text), "%s %s %s", b, operators[op], a);
		check(text, NULL, ok);
	}
	snprintf(text, sizeof(text), "%s BETWEEN %s AND %s", a, b, b);
	check(text, NULL, valid && class != BOOL);
	snprintf(text, sizeof(text), "%s NOT BETWEEN %s AND %s", a, b, b);
	check(text, NULL, valid && class != BOOL);
}

static void fields_meet_fields(void **state)
{
	(void)state;
	for (int a = 0; a < CLASSES; a++)
		for (int b = 0; b < CLASSES; b++)
			for (int i = 0; members[a][i]; i++)
				for (int k = 0; members[b][k]; k++)
					check_pair(members[a][i], members[b][k], a,
						   field_by_field[a][b] == 'x');
}

static void fields_meet_constants(void **state)
{
	(void)state;
	for (int a = 0; a < CLASSES; a++)
		for (size_t k = 0; k < CONSTANTS; k++)
			for (int i = 0; members[a][i]; i++)
				check_pair(members[a][i], constants[k], a,
					   field_by_constant[a][k] == 'x');
}

/* A parameter's text needs no quotes where a string, a character or a label is expected. */
static bool parameter_fits(int class, size_t k)
{
	if (class == CHAR && strlen(constants[k]) == 1)
		return true;
	return class == STRING || field_by_constant[class][k] == 'x';
}

/* Else a parameter is what its text is, so the matrix is the same. */
static void fields_meet_parameters(void **state)
{
	char text[64];

	(void)state;
	for (int a = 0; a < CLASSES; a++)
		for (size_t k = 0; k < CONSTANTS; k++)
			for (int i = 0; members[a][i]; i++)
				for (size_t op = 0; op < OPERATORS; op++) {
					snprintf(text, sizeof(text), "%s %s %%0", members[a][i],
						 operators[op]);
					check(text, constants[k],
					      parameter_fits(a, k) && has_operator(a, op));
				}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_meet_fields),
		cmocka_unit_test(fields_meet_constants),
		cmocka_unit_test(fields_meet_parameters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
