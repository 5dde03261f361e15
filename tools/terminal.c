/* SPDX-License-Identifier: Apache-2.0 */
/* Complaints, notes and colours; see terminal.h. */
#include "tools/terminal.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

static const char *name = "apus";

void terminal_set_name(const char *new_name)
{
	name = new_name;
}

static bool coloured(FILE *stream)
{
	const char *refused = getenv("NO_COLOR");

	return isatty(fileno(stream)) && !(refused && *refused);
}

const char *ink(FILE *stream, enum ink colour)
{
	static const char *const codes[] = {
		[INK_NONE] = "\033[0m",  [INK_STRONG] = "\033[1m", [INK_DIM] = "\033[2m",
		[INK_GOOD] = "\033[32m", [INK_BAD] = "\033[31m",   [INK_NAME] = "\033[36m",
	};

	return coloured(stream) ? codes[colour] : "";
}

static void say(enum ink colour, const char *format, va_list args)
{
	fprintf(stderr, "%s%s:%s ", ink(stderr, colour), name, ink(stderr, INK_NONE));
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
}

int complain(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(INK_BAD, format, args);
	va_end(args);
	return EXIT_USAGE;
}

int complain_failed(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(INK_BAD, format, args);
	va_end(args);
	return EXIT_FAILED;
}

void note(const char *format, ...)
{
	va_list args;

	if (!isatty(STDERR_FILENO))
		return;
	va_start(args, format);
	say(INK_DIM, format, args);
	va_end(args);
}

static bool starts_character(char byte)
{
	return ((unsigned char)byte & 0xc0) != 0x80;
}

/* Bytes are printed as they are but for control characters; marks count characters of UTF-8. */
void point_at(const char *text, size_t position, size_t length)
{
	size_t i;

	fputs("  ", stderr);
	for (i = 0; text[i]; i++)
		fputc((unsigned char)text[i] < ' ' || text[i] == 127 ? ' ' : text[i], stderr);
	fputs("\n  ", stderr);
	for (i = 0; i < position && text[i]; i++)
		if (starts_character(text[i]))
			fputc(' ', stderr);
	fprintf(stderr, "%s^", ink(stderr, INK_BAD));
	for (i++; i < position + length && text[i - 1] && text[i]; i++)
		if (starts_character(text[i]))
			fputc('~', stderr);
	fprintf(stderr, "%s\n", ink(stderr, INK_NONE));
}
