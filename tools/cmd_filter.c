/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `apus filter`: checks a filter expression, and evaluates it over samples given as JSON, without any
 * domain: what it answers is what a reader with that filter would do.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/commands.h"
#include "tools/json.h"
#include "tools/endpoint.h"
#include "tools/lines.h"
#include "tools/session.h"
#include "tools/terminal.h"

#define ARENA_BYTES   (1u << 20)
#define PAYLOAD_BYTES (1u << 20)
#define REASON_BYTES  512

struct values {
	const char *type, *idl;
	struct option_list parameters;
	bool check, cdr;
};

static const struct option options[] = {
	{"type", "NAME", "type of the samples (default ShapeType)", OPTION_TEXT, 0,
	 offsetof(struct values, type), 0, 0},
	{"idl", "FILE", "IDL file that declares the type", OPTION_TEXT, 0,
	 offsetof(struct values, idl), 0, 0},
	{"param", "V", "value of %0, then of %1 …", OPTION_LIST, 0,
	 offsetof(struct values, parameters), 0, 0},
	{"check", NULL, "print what the expression compiles to, read no samples", OPTION_FLAG, 0,
	 offsetof(struct values, check), 0, 0},
	{"cdr", NULL, "samples are CDR in hex, encapsulation header first", OPTION_FLAG, 0,
	 offsetof(struct values, cdr), 0, 0},
};

/* Working memory for one sample at a time. */
struct room {
	void *sample, *arena, *payload;
};

static int digit_of(char c)
{
	const char *digits = "0123456789abcdef", *at;

	c = c >= 'A' && c <= 'F' ? (char)(c - 'A' + 'a') : c;
	at = c ? strchr(digits, c) : NULL;
	return at ? (int)(at - digits) : -1;
}

/* Reads a line of hex, spaces allowed between bytes. Returns the bytes, or -1. */
static int read_hex(const char *line, uint8_t *out)
{
	int bytes = 0;

	for (const char *c = line; *c; c++) {
		int high = digit_of(*c), low;

		if (*c == ' ' || *c == '\t' || *c == '\r')
			continue;
		low = high < 0 ? -1 : digit_of(c[1]);
		if (low < 0 || bytes == (int)PAYLOAD_BYTES)
			return -1;
		out[bytes++] = (uint8_t)(high << 4 | low);
		c++;
	}
	return bytes;
}

static int judge(const struct apus_filter *filter, const void *payload, int bytes, uint64_t number)
{
	int verdict = apus_filter_match(filter, payload, (size_t)bytes);

	if (verdict < 0)
		return complain_failed("stdin, line %" PRIu64 ": %s", number,
				       apus_strerror(verdict));
	puts(verdict ? "true" : "false");
	return EXIT_DONE;
}

static int evaluate_hex(const struct apus_filter *filter, const struct room *room, const char *line,
			uint64_t number)
{
	int bytes = read_hex(line, room->payload);

	if (bytes < 0)
		return complain("stdin, line %" PRIu64 ": not hex, or more than %u bytes", number,
				PAYLOAD_BYTES);
	return judge(filter, room->payload, bytes, number);
}

static int evaluate(const struct apus_type *type, const struct apus_filter *filter,
		    const struct room *room, const char *line, uint64_t number)
{
	char reason[REASON_BYTES];
	int bytes;

	if (json_to_sample(type, line, false, room->sample, room->arena, ARENA_BYTES, reason,
			   sizeof(reason)) < 0)
		return complain("stdin, line %" PRIu64 ": %s", number, reason);
	bytes = apus_type_encode(type, room->sample, APUS_XCDR1, false, room->payload,
				 PAYLOAD_BYTES);
	if (bytes < 0)
		return complain("stdin, line %" PRIu64 ": %s", number, apus_strerror(bytes));
	return judge(filter, room->payload, bytes, number);
}

static int evaluate_lines(const struct apus_type *type, const struct apus_filter *filter,
			  const struct room *room, bool cdr)
{
	struct session none = {.signal_fd = -1}; /* no domain is joined; signals end the program */
	struct lines lines = {.fd = STDIN_FILENO};
	enum lines_result got;
	char *line;
	int rc = EXIT_DONE;

	while (rc == EXIT_DONE && (got = lines_next(&lines, &none, &line)) != LINES_END)
		rc = got != LINES_LINE ? EXIT_USAGE
		     : cdr             ? evaluate_hex(filter, room, line, lines.number)
				       : evaluate(type, filter, room, line, lines.number);
	lines_fini(&lines);
	return rc;
}

static int evaluate_all(const struct apus_type *type, const struct apus_filter *filter, bool cdr)
{
	struct room room = {calloc(1, type->size_bytes), malloc(ARENA_BYTES),
			    malloc(PAYLOAD_BYTES)};
	int rc;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (room.sample && room.arena && room.payload)
		rc = evaluate_lines(type, filter, &room, cdr);
	else
		rc = complain_failed("no memory");
	free(room.sample);
	free(room.arena);
	free(room.payload);
	return rc;
}

/* Prints the program of an expression that compiles. */
static int describe(const struct apus_type *type, const char *expression,
		    const struct values *values)
{
	static char text[1 << 16];
	int rc = apus_filter_describe(type, expression, values->parameters.items,
				      values->parameters.count, text, sizeof(text), NULL);

	if (rc != 0)
		return complain_failed("cannot describe the filter: %s", apus_strerror(rc));
	fputs(text, stdout);
	return EXIT_DONE;
}

static int run(const struct command *command, int argc, char **argv)
{
	static struct values values;
	const struct apus_type *type;
	struct apus_filter_error error;
	struct apus_filter *filter;
	int word_count, rc;

	rc = options_parse(command, argc, argv, &values, &word_count);
	if (rc != EXIT_DONE)
		return rc < 0 ? EXIT_DONE : rc;
	if (word_count != 1)
		return complain("one expression is wanted, as one word; %d words given",
				word_count);
	type = endpoint_type(values.idl, values.type);
	if (!type)
		return EXIT_USAGE;
	rc = apus_filter_open(type, argv[0], values.parameters.items, values.parameters.count,
			      &filter, &error);
	if (rc == APUS_EFILTER)
		return endpoint_complain_filter(argv[0], &error);
	if (rc != 0)
		return complain_failed("cannot compile the filter: %s", apus_strerror(rc));
	rc = values.check ? describe(type, argv[0], &values)
			  : evaluate_all(type, filter, values.cdr);
	apus_filter_close(filter);
	return rc;
}

const struct command cmd_filter = {
	"filter",
	"EXPR [--idl FILE] [--type NAME] [--param V]... [--check] [--cdr]",
	"Check a filter expression, and tell which samples it lets through.",
	"Samples are read as one JSON object a line on stdin, or with --cdr as hex; each is answered by\n"
	"true or false. With --check the fields, tests, cost and index term are printed instead.\n",
	options,
	sizeof(options) / sizeof(options[0]),
	run,
};
