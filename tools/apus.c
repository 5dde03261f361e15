/* SPDX-License-Identifier: Apache-2.0 */
/* The `apus` command: finds the command named by the first word and hands it the others. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <apus/core.h>

#include "tools/commands.h"
#include "tools/terminal.h"
#include "tools/text.h"

static const struct command *const commands[] = {&cmd_pub,    &cmd_sub,    &cmd_ls,
						 &cmd_filter, &cmd_stats,  &cmd_top,
						 &cmd_shm,    &cmd_worker, &cmd_config};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static void help(FILE *to)
{
	fputs("Usage: apus COMMAND [WORDS]\n\nPublishes, subscribes and looks around in DDS "
	      "domains.\n\nCommands:\n",
	      to);
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		fprintf(to, "  %s%-8s%s %s\n", ink(to, INK_STRONG), commands[i]->name,
			ink(to, INK_NONE), commands[i]->summary);
	fputs("\n`apus COMMAND --help` tells more. The file that APUS_CONFIG names holds settings for "
	      "all commands.\n",
	      to);
}

static int unknown(const char *word)
{
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		if (words_are_near(word, commands[i]->name))
			return complain("%s: no such command; did you mean %s?", word,
					commands[i]->name);
	return complain("%s: no such command; `apus --help` lists them", word);
}

/* What a full disk or a closed pipe swallowed was not done. */
static int written(int rc)
{
	bool lost = fflush(stdout) != 0 || ferror(stdout);

	return lost && rc == EXIT_DONE ? complain_failed("cannot write to the standard output")
				       : rc;
}

static int run(const struct command *command, int argc, char **argv)
{
	static char name[32];

	snprintf(name, sizeof(name), "apus %s", command->name);
	terminal_set_name(name);
	return written(command->run(command, argc, argv));
}

/* A standard descriptor that the caller closed would become the next socket, which would then be read as
 * stdin or printed into. What stands in for it refuses that instead; for stderr it swallows. */
static void occupy_standard_descriptors(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_WRONLY) != fd)
			exit(EXIT_FAILED);
}

int main(int argc, char **argv)
{
	occupy_standard_descriptors();
	if (argc < 2) {
		help(stderr);
		return EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		help(stdout);
		return written(EXIT_DONE);
	}
	if (strcmp(argv[1], "--version") == 0) {
		printf("apus %s\n", apus_version());
		return written(EXIT_DONE);
	}
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		if (strcmp(argv[1], commands[i]->name) == 0)
			return run(commands[i], argc - 1, argv + 1);
	return unknown(argv[1]);
}
