/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C side of filter_oracle.py: reads one case a line and prints the verdict.
 *
 *   TYPE EXPRESSION PARAMETERS PAYLOAD...
 *
 * TYPE indexes filter_types[]; the rest are hex, `-` for empty; PARAMETERS are joined by commas, `.` for
 * none. Prints `invalid POSITION LENGTH REASON`, or one letter for each payload: 1 pass, 0 reject,
 * E malformed.
 */
#include <apus/filter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "filter_types.h"

#define LINE_MAX_BYTES (1 << 20)
#define PARAMETERS_MAX 128

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

/* Evaluates over a copy of exactly the payload's size, so that sanitizers see any byte too many. */
static char verdict(const struct apus_filter *filter, const char *payload, size_t bytes)
{
	char *exact = malloc(bytes ? bytes : 1);
	int result;

	memcpy(exact, payload, bytes);
	result = apus_filter_match(filter, exact, bytes);
	free(exact);
	return result < 0 ? 'E' : (char)('0' + result);
}

static void run_case(char *line)
{
	const char *parameters[PARAMETERS_MAX];
	struct apus_filter_error error;
	struct apus_filter *filter;
	char *save = NULL;
	size_t type = strtoul(strtok_r(line, " ", &save), NULL, 10);
	char *expression = strtok_r(NULL, " ", &save);
	uint32_t count = split_parameters(strtok_r(NULL, " ", &save), parameters);

	unhex(expression);
	if (apus_filter_open(filter_types[type % FILTER_TYPE_COUNT], expression, parameters, count,
			     &filter, &error) < 0) {
		printf("invalid %u %u %s\n", error.position, error.length, error.reason);
		return;
	}
	for (char *p = strtok_r(NULL, " ", &save); p; p = strtok_r(NULL, " ", &save))
		putchar(verdict(filter, p, unhex(p)));
	putchar('\n');
	apus_filter_close(filter);
}

int main(void)
{
	char *line = malloc(LINE_MAX_BYTES);

	while (line && fgets(line, LINE_MAX_BYTES, stdin)) {
		line[strcspn(line, "\n")] = '\0';
		run_case(line);
	}
	free(line);
	return 0;
}
