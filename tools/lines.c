/* SPDX-License-Identifier: Apache-2.0 */
/* Lines from a slow descriptor; see lines.h. */
#include "tools/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/terminal.h"

#define FIRST_CAPACITY 65536u

/* Makes room for one byte at least, and one more for the NUL of a last line without newline. */
static bool make_room(struct lines *l)
{
	size_t capacity;
	char *buffer;

	if (l->start > 0) {
		memmove(l->buffer, l->buffer + l->start, l->end - l->start);
		l->end -= l->start;
		l->start = 0;
	}
	if (l->end + 1 < l->capacity)
		return true;
	capacity = l->capacity ? 2 * l->capacity : FIRST_CAPACITY;
	if (capacity > LINE_BYTES_MAX) {
		complain("stdin, line %llu: longer than %u bytes",
			 (unsigned long long)l->number + 1, LINE_BYTES_MAX / 2);
		return false;
	}
	buffer = realloc(l->buffer, capacity);
	if (!buffer) {
		complain_failed("no memory for a line of %zu bytes", capacity);
		return false;
	}
	l->buffer = buffer;
	l->capacity = capacity;
	return true;
}

static enum lines_result fill(struct lines *l, struct session *session)
{
	ssize_t n;

	if (!make_room(l))
		return LINES_FAILED;
	if (session_wait(session, l->fd, APUS_INFINITE_NS) == SESSION_STOPPED)
		return LINES_STOPPED;
	n = read(l->fd, l->buffer + l->end, l->capacity - l->end - 1);
	if (n < 0 && errno != EINTR && errno != EAGAIN) {
		complain_failed("stdin: %s", strerror(errno));
		return LINES_FAILED;
	}
	if (n > 0)
		l->end += (size_t)n;
	l->at_end = n == 0;
	return LINES_LINE;
}

/* Cuts off the first line of what is there; false if there is none yet. */
static bool cut(struct lines *l, char **line_out, size_t *bytes_out)
{
	size_t bytes = l->end - l->start;
	char *newline = bytes ? memchr(l->buffer + l->start, '\n', bytes) : NULL;

	if (!newline && !(l->at_end && bytes))
		return false;
	if (newline)
		bytes = (size_t)(newline - (l->buffer + l->start));
	*line_out = l->buffer + l->start;
	*bytes_out = bytes;
	(*line_out)[bytes] = '\0';
	l->start += bytes + (newline != NULL);
	l->number++;
	return true;
}

enum lines_result lines_next(struct lines *l, struct session *session, char **line_out)
{
	enum lines_result rc;
	size_t bytes;

	for (;;) {
		while (cut(l, line_out, &bytes)) {
			if (strlen(*line_out) != bytes) {
				complain("stdin, line %llu: holds a NUL byte",
					 (unsigned long long)l->number);
				return LINES_FAILED;
			}
			if ((*line_out)[strspn(*line_out, " \t\r")])
				return LINES_LINE;
		}
		if (l->at_end)
			return LINES_END;
		rc = fill(l, session);
		if (rc != LINES_LINE)
			return rc;
	}
}

void lines_fini(struct lines *lines)
{
	free(lines->buffer);
}
