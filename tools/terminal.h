/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the command says to people: complaints, notes, colours.
 *
 * Complaints go to stderr and start with the name of the command. Colour is used on a terminal only,
 * and never if NO_COLOR is set. One thread.
 */
#ifndef APUS_TOOLS_TERMINAL_H
#define APUS_TOOLS_TERMINAL_H

#include <stddef.h>
#include <stdio.h>

/** Exit codes; scripts rely on them. */
enum {
	EXIT_DONE = 0,
	EXIT_TIMED_OUT = 1, /**< the time was over, or a signal came, before all was done */
	EXIT_USAGE = 2,     /**< a wrong word, setting, QoS, sample or expression */
	EXIT_FAILED = 3,    /**< the system, the network or a limit said no */
};

/** Colours by what they mean. */
enum ink {
	INK_NONE,
	INK_STRONG,
	INK_DIM,
	INK_GOOD,
	INK_BAD,
	INK_NAME,
};

/** Sets the name complaints start with; it must stay valid. */
void terminal_set_name(const char *name);

/** Prints one complaint as a line on stderr. Returns EXIT_USAGE, for `return complain(…)`. */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** As complain(), for what is not the caller's mistake. Returns EXIT_FAILED. */
int complain_failed(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Prints a line on stderr if a person reads it there; scripts see nothing. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Prints `text` on stderr and marks `length` bytes (at least one place) at `position` below it. */
void point_at(const char *text, size_t position, size_t length);

/** Escape sequence for a colour on `stream`, "" where colours are not wanted. Static storage. */
const char *ink(FILE *stream, enum ink colour);

#endif
