/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command lines: a table of options a command, parsed into a struct of the command's own.
 *
 * Options may stand anywhere: `--name VALUE`, `--name=VALUE`, `-n VALUE`; `--` ends them. An option
 * that wants a value takes the next word whatever it looks like. Given twice, the last one counts;
 * lists collect. Nothing is abbreviated: a script must not change its meaning with a new option.
 */
#ifndef APUS_TOOLS_OPTIONS_H
#define APUS_TOOLS_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

/** Most values of one list option. */
#define OPTION_LIST_MAX 128

/** Values of an option that may be repeated, in the order given; they point into argv. */
struct option_list {
	const char *items[OPTION_LIST_MAX];
	char tags[OPTION_LIST_MAX]; /**< `tag` of the option that gave it */
	uint32_t count;
};

enum option_kind {
	OPTION_FLAG,    /**< bool */
	OPTION_TEXT,    /**< const char * */
	OPTION_LIST,    /**< struct option_list; several options may share one */
	OPTION_NUMBER,  /**< int64_t in min…max */
	OPTION_SECONDS, /**< int64_t, nanoseconds */
	OPTION_RATE,    /**< int64_t, nanoseconds of one period; from a number per second */
};

/** One option. `offset` is that of its value in the struct the command passes. */
struct option {
	const char *name;     /**< without the dashes */
	const char *argument; /**< what help calls the value; NULL for a flag */
	const char *help;
	enum option_kind kind;
	char tag; /**< short form, and the mark in lists; 0 = none */
	size_t offset;
	int64_t min, max;
};

/** One row of a table, for macros that make rows. */
#define OPTION_ROW(name, argument, help, kind, tag, offset, min, max) \
	{                                                             \
		name, argument, help, kind, tag, offset, min, max     \
	}

/** One command of the program. */
struct command {
	const char *name;
	const char *words; /**< what help shows after the name */
	const char *summary;
	const char *details; /**< further lines of help, or NULL */
	const struct option *options;
	size_t option_count;
	int (*run)(const struct command *command, int argc, char **argv);
};

/**
 * Parses argv[1…argc) into `*values`, which holds the defaults. The words that are no options are
 * moved to argv[0…word_count).
 * Returns EXIT_DONE, EXIT_USAGE after a complaint that names the word and its position, or -1 if help
 * was asked for and has been printed.
 */
int options_parse(const struct command *command, int argc, char **argv, void *values,
		  int *word_count_out);

/** Prints the help of a command on stdout. */
void options_help(const struct command *command);

#endif
