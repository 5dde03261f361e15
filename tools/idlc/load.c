/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See load.h. The front end's library parses text without directives; `idlc -E` makes that of a file.
 * Where idlc is missing the file is taken as it is, and a directive in it is a syntax error.
 *
 * `idlc -E` ends with 0 whatever went wrong and leaves out what it did not understand, so that what is
 * left may well compile: whether it is the file is told by what it says alone. The library, for its part,
 * needs a marker that opens the file before any that opens an included one; `idlc -E` writes none.
 */
#include "load.h"
#include "identity.h"
#include "names.h"
#include "types.h"
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Longest preprocessed file (choice: far above any IDL, and it bounds memory). */
#define TEXT_BYTES_MAX ((size_t)16 << 20)

extern char **environ;

/* Everything a descriptor gives, NUL-terminated; NULL if it is too long or cannot be read. */
static char *read_all(int fd)
{
	size_t room = 65536, used = 0;
	char *text = malloc(room);
	ssize_t n;

	if (!text)
		return NULL;
	for (;;) {
		n = read(fd, text + used, room - used - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		used += (size_t)n;
		if (room - used < 2) {
			char *more = room < TEXT_BYTES_MAX ? realloc(text, room * 2) : NULL;

			if (!more) {
				n = -1;
				break;
			}
			text = more;
			room *= 2;
		}
	}
	if (n < 0) {
		free(text);
		return NULL;
	}
	text[used] = '\0';
	return text;
}

/* Starts `idlc -E path` with its output in a pipe, what it says to `messages`. Returns the read end, or -1. */
static int start_preprocessor(const char *path, int messages, pid_t *pid_out)
{
	char *const arguments[] = {"idlc", "-E", (char *)(uintptr_t)idl_safe_path(path), NULL};
	posix_spawn_file_actions_t actions;
	int ends[2], rc;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return -1;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, messages, STDERR_FILENO);
	rc = posix_spawnp(pid_out, "idlc", &actions, NULL, arguments, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	if (rc == 0)
		return ends[0];
	close(ends[0]);
	return -1;
}

static char *read_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *text;

	if (fd < 0)
		return NULL;
	text = read_all(fd);
	close(fd);
	return text;
}

/* Passes on what the preprocessor said, without the lines that go into detail (an include of itself has
 * 256). Returns whether there were errors: then the last line counts them. */
static bool tell_errors(int messages)
{
	static const char count[] = " in preprocessor.";
	char *text = lseek(messages, 0, SEEK_SET) == 0 ? read_all(messages) : NULL;
	bool failed = !text;

	for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
		if (strstr(line, count) && !strstr(line, count)[sizeof(count) - 1])
			failed = true;
		else if (*line && *line != ' ' && *line != '\t')
			fprintf(stderr, "%s\n", line);
	}
	free(text);
	return failed;
}

static char *preprocess_to(const char *path, int messages)
{
	pid_t pid;
	int fd = start_preprocessor(path, messages, &pid), status = 0;
	char *text;

	if (fd < 0)
		return read_file(path);
	text = read_all(fd);
	close(fd);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (tell_errors(messages) || status != 0) {
		free(text);
		return NULL;
	}
	return text;
}

static char *preprocess(const char *path)
{
	int messages = memfd_create("idlc", MFD_CLOEXEC);
	char *text;

	if (messages < 0)
		return NULL;
	text = preprocess_to(path, messages);
	close(messages);
	return text;
}

/* The marker that opens a file: line 1 of it, by its path. NULL if there is no such file. */
static const char *opening_marker(const char *path)
{
	char *real = realpath(path, NULL), *quoted, *to;

	if (!real)
		return NULL;
	to = quoted = idl_zalloc(2 * strlen(real) + 1);
	for (const char *from = real; *from; from++) {
		if (*from == '"' || *from == '\\')
			*to++ = '\\';
		*to++ = *from;
	}
	free(real);
	return idl_printf("# 1 \"%s\" 1 \"%s\"\n", quoted, quoted);
}

/* The front end's tree of the last file: descriptors use its names. */
static idl_pstate_t *kept_tree;

static void release(void)
{
	idl_free_all();
	if (kept_tree)
		idl_delete_pstate(kept_tree);
	kept_tree = NULL;
}

static bool parse(const char *text, struct idl_types *types)
{
	/* Names that differ in case alone ("T t") are common outside the letter of the IDL standard. */
	uint32_t flags = IDL_FLAG_EXTENDED_DATA_TYPES | IDL_FLAG_ANONYMOUS_TYPES |
			 IDL_FLAG_ANNOTATIONS | IDL_FLAG_CASE_SENSITIVE;

	if (idl_create_pstate(flags, NULL, &kept_tree) != IDL_RETCODE_OK)
		return false;
	kept_tree->config.default_extensibility = IDL_FINAL;
	return idl_parse_string(kept_tree, text) == IDL_RETCODE_OK &&
	       idl_types_build(types, kept_tree);
}

static const struct apus_type *only_topic(const struct idl_types *types, char *error,
					  size_t error_bytes)
{
	const struct apus_type *found = NULL;

	for (const struct idl_type_node *n = types->first; n; n = n->next) {
		if (n->type.kind != APUS_KIND_STRUCT || !n->topic || n->foreign)
			continue;
		if (found) {
			snprintf(error, error_bytes, "there are %s, %s and perhaps more: name one",
				 found->name, n->type.name);
			return NULL;
		}
		found = &n->type;
	}
	if (!found)
		snprintf(error, error_bytes, "there is no topic type in it");
	return found;
}

const struct apus_type *idl_load(const char *path, const char *name, char *error,
				 size_t error_bytes)
{
	const struct apus_type *type;
	struct idl_types types;
	const char *marker;
	char *text;

	error[0] = '\0';
	if (access(path, R_OK) != 0) {
		snprintf(error, error_bytes, "%s", strerror(errno));
		return NULL;
	}
	release();
	text = preprocess(path);
	marker = opening_marker(path);
	if (!text || !marker || !parse(idl_printf("%s%s", marker, text), &types)) {
		snprintf(error, error_bytes, "the file does not compile");
		free(text);
		return NULL;
	}
	free(text);
	type = name ? idl_types_find(&types, name) : only_topic(&types, error, error_bytes);
	if (type)
		idl_load_identity(path, (struct idl_type_node *)(void *)(uintptr_t)type);
	else if (name)
		snprintf(error, error_bytes, "there is no struct %s in it", name);
	return type;
}
