/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `apus config`: every setting with its present value, default, range, unit and meaning. The text form
 * is itself a file of settings: save it, edit it, give it to --config.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/json.h"
#include "tools/session.h"
#include "tools/terminal.h"

#define VALUE_BYTES_MAX 8192

struct values {
	struct session_options session;
	bool json;
};

static const struct option options[] = {
	CONFIG_OPTIONS(struct values),
	{"json", NULL, "one JSON object a line", OPTION_FLAG, 0, offsetof(struct values, json), 0,
	 0},
};

static void print_text(const struct apus_setting *s, const char *value)
{
	bool changed = strcmp(value, s->default_value) != 0;
	/* A unit of "duration" says what the values look like; the others are units. */
	bool unit = *s->unit && strcmp(s->unit, "duration") != 0;

	printf("%s# %s%s\n%s# default %s; %s%s%s%s\n", ink(stdout, INK_DIM), s->help,
	       ink(stdout, INK_NONE), ink(stdout, INK_DIM),
	       *s->default_value ? s->default_value : "empty", s->range, unit ? " " : "",
	       unit ? s->unit : "", ink(stdout, INK_NONE));
	printf("%s%s = %s%s\n\n", ink(stdout, changed ? INK_GOOD : INK_STRONG), s->name, value,
	       ink(stdout, INK_NONE));
}

static int print_json(const struct apus_setting *s, const char *value)
{
	static const char *const names[] = {"name", "value", "default", "range", "unit", "help"};
	const char *texts[] = {s->name, value, s->default_value, s->range, s->unit, s->help};
	char json[6 * VALUE_BYTES_MAX];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (text_to_json(texts[i], json, sizeof(json)) < 0)
			return complain_failed("%s is too long to print", s->name);
		printf("%s\"%s\":%s", i ? "," : "{", names[i], json);
	}
	fputs("}\n", stdout);
	return EXIT_DONE;
}

static int print_all(const struct apus_config *config, bool json)
{
	const struct apus_setting *s;
	char value[VALUE_BYTES_MAX];

	for (size_t i = 0; (s = apus_config_describe(i)) != NULL; i++) {
		if (apus_config_get(config, s->name, value, sizeof(value)) != 0)
			return complain_failed("%s is too long to print", s->name);
		if (!json)
			print_text(s, value);
		else if (print_json(s, value) != EXIT_DONE)
			return EXIT_FAILED;
	}
	return EXIT_DONE;
}

static int run(const struct command *command, int argc, char **argv)
{
	static struct values values;
	struct apus_config *config;
	int word_count, rc;

	session_options_default(&values.session);
	rc = options_parse(command, argc, argv, &values, &word_count);
	if (rc != EXIT_DONE)
		return rc < 0 ? EXIT_DONE : rc;
	if (word_count > 0)
		return complain("%s: `apus config` takes no further word", argv[0]);
	rc = session_configure(&values.session, "apus", &config);
	if (rc != EXIT_DONE)
		return rc;
	rc = print_all(config, values.json);
	apus_config_destroy(config);
	return rc;
}

const struct command cmd_config = {
	"config",
	"[--config FILE] [--set NAME=VALUE]... [--json]",
	"List every setting with its value, default, range and meaning.",
	"The listing is a file of settings: save it, edit it, name it by --config or APUS_CONFIG.\n"
	"With --config the file is checked, and its values are shown.\n",
	options,
	sizeof(options) / sizeof(options[0]),
	run,
};
