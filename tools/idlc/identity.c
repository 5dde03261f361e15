/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See identity.h. In the C file the compiler writes, the bytes stand as
 *   #define TYPE_INFO_CDR_m_T (unsigned char []){ \
 *     0x60, 0x00, … \
 *   }
 * with TYPE_MAP_CDR_ for the mapping and the type's C name behind. Nothing else of the file is looked at.
 */
#include "identity.h"
#include "names.h"
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Longest file read (choice). */
#define FILE_BYTES_MAX ((size_t)64 << 20)

extern char **environ;

static bool compile(const char *path, const char *directory)
{
	char *const arguments[] = {"idlc",
				   "-l",
				   "c",
				   "-f",
				   "case-sensitive",
				   "-o",
				   (char *)(uintptr_t)directory,
				   (char *)(uintptr_t)path,
				   NULL};
	posix_spawn_file_actions_t actions;
	int status = 0, rc;
	pid_t pid;

	/* What there is to say about the file has been said. */
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	rc = posix_spawnp(&pid, "idlc", &actions, NULL, arguments, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (rc != 0)
		return false;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status == 0;
}

/* The whole file, NUL-terminated; the caller frees it. */
static char *read_text(const char *name)
{
	FILE *file = fopen(name, "re");
	char *text = NULL;
	long bytes;

	if (!file)
		return NULL;
	if (fseek(file, 0, SEEK_END) == 0 && (bytes = ftell(file)) > 0 &&
	    (size_t)bytes <= FILE_BYTES_MAX && fseek(file, 0, SEEK_SET) == 0)
		text = calloc(1, (size_t)bytes + 1);
	if (text && fread(text, 1, (size_t)bytes, file) != (size_t)bytes) {
		free(text);
		text = NULL;
	}
	fclose(file);
	return text;
}

/* The bytes of one array, in memory that idl_free_all() frees; NULL if it is not there. */
static const uint8_t *find_bytes(const char *text, const char *what, const char *c_name,
				 uint32_t *count_out)
{
	const char *at =
		strstr(text, idl_printf("#define %s_%s (unsigned char []){", what, c_name));
	const char *end = at ? strchr(at, '}') : NULL;
	uint8_t *bytes;
	uint32_t count = 0;

	if (!end)
		return NULL;
	bytes = idl_zalloc((size_t)(end - at) / 4 + 1);
	for (at = strchr(at, '{'); (at = strstr(at, "0x")) && at < end; at += 2)
		bytes[count++] = (uint8_t)strtoul(at, NULL, 16);
	*count_out = count;
	return count ? bytes : NULL;
}

static void set_identity(const char *text, struct idl_type_node *node)
{
	/* Without the "_" that node->c_name has behind a word of C. */
	const char *c_name = idl_scoped_text(node->node, "_");
	uint32_t information_bytes, mapping_bytes;
	const uint8_t *information = find_bytes(text, "TYPE_INFO_CDR", c_name, &information_bytes);
	const uint8_t *mapping = find_bytes(text, "TYPE_MAP_CDR", c_name, &mapping_bytes);

	if (!information || !mapping)
		return;
	node->type.type_information = information;
	node->type.type_information_bytes = information_bytes;
	node->type.type_mapping = mapping;
	node->type.type_mapping_bytes = mapping_bytes;
}

/* "dir/x.idl" becomes "<directory>/x<extension>". */
static char *output_name(const char *path, const char *directory, const char *extension)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	const char *dot = strrchr(base, '.');
	int length = dot && dot != base ? (int)(dot - base) : (int)strlen(base);

	return idl_printf("%s/%.*s%s", directory, length, base, extension);
}

void idl_load_identity(const char *path, struct idl_type_node *node)
{
	const char *tmp = getenv("TMPDIR");
	char *directory = idl_printf("%s/apus-idl-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	const char *source, *header;
	char *text;

	if (!mkdtemp(directory))
		return;
	path = idl_safe_path(path);
	source = output_name(path, directory, ".c");
	header = output_name(path, directory, ".h");
	text = compile(path, directory) ? read_text(source) : NULL;
	if (text)
		set_identity(text, node);
	free(text);
	unlink(source);
	unlink(header);
	rmdir(directory);
}
