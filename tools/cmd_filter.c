/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `apus filter`: checks a filter expression, and evaluates it over samples given as JSON, without any
 * domain: what it answers is what a reader with that filter would do.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
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
	bool check;
};

static const struct option options[] = {
	{"type", "NAME", "type of the samples (default ShapeType)", OPTION_TEXT, 0,
	 offsetof(struct values, type), 0, 0},
	{"idl", "FILE", "IDL file that declares the type", OPTION_TEXT, 0,
	 offsetof(struct values, idl), 0, 0},
	{"param", "V", "value of %0, then of %1 …", OPTION_LIST, 0,
	 offsetof(struct values, parameters), 0, 0},
	{"check", NULL, "only check the expression, read no samples", OPTION_FLAG, 0,
	 offsetof(struct values, check), 0, 0},
};

/* Working memory for one sample at a time. */
struct room {
	void *sample, *arena, *payload;
};

static int evaluate(const struct apus_type *type, const struct apus_filter *filter,
		    const struct room *room, const char *line, uint64_t number)
{
	char reason[REASON_BYTES];
	int bytes, verdict;

	if (json_to_sample(type, line, false, room->sample, room->arena, ARENA_BYTES, reason,
			   sizeof(reason)) < 0)
		return complain("stdin, line %" PRIu64 ": %s", number, reason);
	bytes = apus_type_encode(type, room->sample, APUS_XCDR1, false, room->payload,
				 PAYLOAD_BYTES);
	if (bytes < 0)
		return complain("stdin, line %" PRIu64 ": %s", number, apus_strerror(bytes));
	verdict = apus_filter_match(filter, room->payload, (size_t)bytes);
	if (verdict < 0)
		return complain_failed("stdin, line %" PRIu64 ": %s", number,
				       apus_strerror(verdict));
	puts(verdict ? "true" : "false");
	return EXIT_DONE;
}

static int evaluate_lines(const struct apus_type *type, const struct apus_filter *filter,
			  const struct room *room)
{
	struct session none = {.signal_fd = -1}; /* no domain is joined; signals end the program */
	struct lines lines = {.fd = STDIN_FILENO};
	enum lines_result got;
	char *line;
	int rc = EXIT_DONE;

	while (rc == EXIT_DONE && (got = lines_next(&lines, &none, &line)) != LINES_END)
		rc = got == LINES_LINE ? evaluate(type, filter, room, line, lines.number)
				       : EXIT_USAGE;
	lines_fini(&lines);
	return rc;
}

static int evaluate_all(const struct apus_type *type, const struct apus_filter *filter)
{
	struct room room = {calloc(1, type->size_bytes), malloc(ARENA_BYTES),
			    malloc(PAYLOAD_BYTES)};
	int rc;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (room.sample && room.arena && room.payload)
		rc = evaluate_lines(type, filter, &room);
	else
		rc = complain_failed("no memory");
	free(room.sample);
	free(room.arena);
	free(room.payload);
	return rc;
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
	rc = values.check ? EXIT_DONE : evaluate_all(type, filter);
	apus_filter_close(filter);
	return rc;
}

const struct command cmd_filter = {
	"filter",
	"EXPR [--type NAME] [--param V]... [--check]",
	"Check a filter expression, and tell which samples it lets through.",
	"Samples are read as one JSON object a line on stdin; each is answered by true or false.\n",
	options,
	sizeof(options) / sizeof(options[0]),
	run,
};
