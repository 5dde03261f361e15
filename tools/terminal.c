/* SPDX-License-Identifier: Apache-2.0 */
/* Complaints, notes and colours; see terminal.h. */
#include "tools/terminal.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
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

/* Bytes shown before and behind the place that is pointed at. */
#define SHOWN_BEFORE 48
#define SHOWN_BEHIND 64

/* Moves on to where a character starts. */
static size_t at_character(const char *text, size_t at)
{
	while (text[at] && !starts_character(text[at]))
		at++;
	return at;
}

/* Bytes are printed as they are but for control characters; marks count characters of UTF-8. Of a long text only what
 * is near is shown. */
void point_at(const char *text, size_t position, size_t length)
{
	const size_t all = strlen(text);
	const size_t at = position < all ? position : all;
	const size_t first = at > SHOWN_BEFORE ? at_character(text, at - SHOWN_BEFORE) : 0;
	const size_t end = at + SHOWN_BEHIND < all ? at_character(text, at + SHOWN_BEHIND) : all;
	const char *const cut = first ? "..." : "";

	fprintf(stderr, "  %s", cut);
	for (size_t i = first; i < end; i++)
		fputc((unsigned char)text[i] < ' ' || text[i] == 127 ? ' ' : text[i], stderr);
	fprintf(stderr, "%s\n  %*s", end < all ? "..." : "", (int)strlen(cut), "");
	for (size_t i = first; i < at; i++)
		if (starts_character(text[i]))
			fputc(' ', stderr);
	fprintf(stderr, "%s^", ink(stderr, INK_BAD));
	for (size_t i = at + 1; i < at + length && i < end; i++)
		if (starts_character(text[i]))
			fputc('~', stderr);
	fprintf(stderr, "%s\n", ink(stderr, INK_NONE));
}
