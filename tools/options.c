/* SPDX-License-Identifier: Apache-2.0 */
/* The parser of command lines; see options.h. */
#include "tools/options.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/terminal.h"
#include "tools/text.h"

#define HELP_COLUMN 24
#define NS_PER_SEC  INT64_C(1000000000)

/* What is being parsed, for complaints. */
struct parse {
	const struct command *command;
	void *values;
	int position; /* of the word, 1… */
};

static bool rate_to_period(const char *text, int64_t *period_ns_out)
{
	int64_t billionths;

	/* Hertz have the form of seconds; at most one a nanosecond, at least one in 31 years. */
	if (!text_to_seconds(text, &billionths) || billionths <= 0 ||
	    billionths > NS_PER_SEC * NS_PER_SEC)
		return false;
	*period_ns_out = (int64_t)((__int128)NS_PER_SEC * NS_PER_SEC / billionths);
	return true;
}

static int wrong(const struct parse *p, const struct option *option, const char *value)
{
	const char *name = option->name;

	switch (option->kind) {
	case OPTION_NUMBER:
		if (option->max == INT64_MAX)
			return complain("--%s %s (word %d): not a whole number from %lld on", name,
					value, p->position, (long long)option->min);
		return complain("--%s %s (word %d): not a whole number from %lld to %lld", name,
				value, p->position, (long long)option->min, (long long)option->max);
	case OPTION_SECONDS:
		return complain("--%s %s (word %d): not a number of seconds such as 2 or 0.5", name,
				value, p->position);
	case OPTION_RATE:
		return complain("--%s %s (word %d): not a number per second such as 10 or 0.5",
				name, value, p->position);
	default:
		return complain("--%s (word %d): given more than %d times", name, p->position,
				OPTION_LIST_MAX);
	}
}

static bool append(struct option_list *list, const char *value, char tag)
{
	if (list->count == OPTION_LIST_MAX)
		return false;
	list->tags[list->count] = tag;
	list->items[list->count++] = value;
	return true;
}

static int store(const struct parse *p, const struct option *option, const char *value)
{
	void *place = (char *)p->values + option->offset;
	bool ok = true;

	switch (option->kind) {
	case OPTION_FLAG: *(bool *)place = true; break;
	case OPTION_TEXT: *(const char **)place = value; break;
	case OPTION_LIST: ok = append(place, value, option->tag); break;
	case OPTION_NUMBER: ok = text_to_number(value, option->min, option->max, place); break;
	case OPTION_SECONDS: ok = text_to_seconds(value, place); break;
	case OPTION_RATE: ok = rate_to_period(value, place); break;
	}
	return ok ? EXIT_DONE : wrong(p, option, value);
}

/* Finds "--name", "--name=value" or "-t". */
static const struct option *find(const struct command *command, const char *word)
{
	for (size_t i = 0; i < command->option_count; i++) {
		const struct option *option = &command->options[i];
		size_t bytes = strlen(option->name);

		if (word[1] != '-') {
			if (option->tag && word[1] == option->tag && !word[2])
				return option;
		} else if (strncmp(word + 2, option->name, bytes) == 0 &&
			   (!word[2 + bytes] || word[2 + bytes] == '=')) {
			return option;
		}
	}
	return NULL;
}

static int unknown(const struct parse *p, const char *word)
{
	for (size_t i = 0; i < p->command->option_count; i++)
		if (words_are_near(word + strspn(word, "-"), p->command->options[i].name))
			return complain("%s (word %d): no such option; did you mean --%s?", word,
					p->position, p->command->options[i].name);
	return complain("%s (word %d): no such option; `apus %s --help` lists them", word,
			p->position, p->command->name);
}

/* Takes the option at argv[*i], and the value behind it. */
static int take(struct parse *p, int argc, char **argv, int *i)
{
	const struct option *option = find(p->command, argv[*i]);
	const char *value = argv[*i][1] == '-' ? strchr(argv[*i], '=') : NULL;

	if (!option)
		return unknown(p, argv[*i]);
	if (option->kind == OPTION_FLAG)
		return value ? complain("%s (word %d): takes no value", argv[*i], p->position)
			     : store(p, option, NULL);
	if (value)
		return store(p, option, value + 1);
	if (++*i == argc)
		return complain("--%s (word %d): wants a value: %s", option->name, p->position,
				option->argument);
	p->position++;
	return store(p, option, argv[*i]);
}

/* No option begins with a digit: "-5 < x" is an expression. */
static bool is_word(const char *text)
{
	return text[0] != '-' || !text[1] || (text[1] >= '0' && text[1] <= '9');
}

int options_parse(const struct command *command, int argc, char **argv, void *values,
		  int *word_count_out)
{
	struct parse p = {.command = command, .values = values};
	bool options_end = false;
	int words = 0;

	for (int i = 1; i < argc; i++) {
		p.position = i;
		if (options_end || is_word(argv[i])) {
			argv[words++] = argv[i];
		} else if (strcmp(argv[i], "--") == 0) {
			options_end = true;
		} else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			options_help(command);
			return -1;
		} else {
			int rc = take(&p, argc, argv, &i);

			if (rc != EXIT_DONE)
				return rc;
		}
	}
	*word_count_out = words;
	return EXIT_DONE;
}

static void help_line(const struct option *option)
{
	char left[64], tag[8] = "";

	if (option->tag)
		snprintf(tag, sizeof(tag), "-%c, ", option->tag);
	snprintf(left, sizeof(left), "%s--%s%s%s", tag, option->name, option->argument ? " " : "",
		 option->argument ? option->argument : "");
	printf("  %-*s %s\n", HELP_COLUMN, left, option->help);
}

void options_help(const struct command *command)
{
	printf("Usage: apus %s %s\n\n%s\n\nOptions:\n", command->name, command->words,
	       command->summary);
	for (size_t i = 0; i < command->option_count; i++)
		help_line(&command->options[i]);
	printf("  %-*s %s\n", HELP_COLUMN, "-h, --help", "print this text");
	if (command->details)
		printf("\n%s", command->details);
	fputs("\nExit codes: 0 done; 1 timed out or stopped early; 2 wrong usage, QoS, sample or "
	      "expression;\n3 run-time failure.\n",
	      stdout);
}
