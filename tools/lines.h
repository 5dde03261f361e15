/* SPDX-License-Identifier: Apache-2.0 */
/* Lines from a descriptor that may be a pipe somebody writes to slowly: waiting ends with the session. */
#ifndef APUS_TOOLS_LINES_H
#define APUS_TOOLS_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/session.h"

/** Longest line read. */
#define LINE_BYTES_MAX (4u << 20)

/** Reading position. Zero-initialise, then set fd. */
struct lines {
	int fd;
	char *buffer;
	size_t capacity, start, end;
	bool at_end;
	uint64_t number; /**< of the last line returned, 1… */
};

enum lines_result { LINES_LINE, LINES_END, LINES_STOPPED, LINES_FAILED };

/**
 * Reads the next line that is not blank, without its newline, NUL-terminated; `*line_out` stays valid
 * until the next call. Sleeps as long as none comes and no signal asks for the end.
 * LINES_FAILED: after a complaint (line too long, embedded NUL, no memory, read error).
 */
enum lines_result lines_next(struct lines *lines, struct session *session, char **line_out);

/** Frees the buffer; the descriptor stays open. */
void lines_fini(struct lines *lines);

#endif
