/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `apus shm ls` and `apus shm gc`: what the processes of this host share memory for, and what dead ones have left.
 * Everybody is asked through the sockets of the user's directory; who does not answer is shown as silent. What is
 * told is text of others: nothing of it reaches a terminal unchecked.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <apus/host.h>

#include "tools/commands.h"
#include "tools/guid.h"
#include "tools/json.h"
#include "tools/terminal.h"

struct values {
	const char *directory;
	bool json, dry_run;
	int64_t timeout_ns;
};

static const char *const states[] = {"alive", "silent", "foreign", "dead"};
static const char *const kinds[] = {"process", "pool", "lent", "borrowed"};
static const enum ink state_inks[] = {INK_GOOD, INK_BAD, INK_BAD, INK_DIM};

/* ---- words ----------------------------------------------------------------------------------------- */

/* Prints text of others: what is not printable ASCII as a question mark. */
static void print_foreign(const char *text)
{
	for (; *text; text++)
		putchar(isprint((unsigned char)*text) ? *text : '?');
}

static void print_bytes(uint64_t bytes)
{
	if (bytes >= 1u << 20)
		printf("%.1f MiB", (double)bytes / (1 << 20));
	else if (bytes >= 1024)
		printf("%.1f KiB", (double)bytes / 1024);
	else
		printf("%" PRIu64 " B", bytes);
}

/* Name of the program of a process, "" if it is gone. */
static const char *program_of(uint32_t pid, char *text_out, size_t text_bytes)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	*text_out = '\0';
	file = pid ? fopen(path, "r") : NULL;
	if (file) {
		if (fgets(text_out, (int)text_bytes, file))
			text_out[strcspn(text_out, "\n")] = '\0';
		fclose(file);
	}
	return text_out;
}

static void print_process(uint32_t pid)
{
	char program[32];

	if (pid == 0)
		return;
	printf("pid %u", pid);
	if (*program_of(pid, program, sizeof(program))) {
		fputs(" (", stdout);
		print_foreign(program);
		fputs(")", stdout);
	}
}

static void print_guid(const char *before, const struct apus_guid *guid)
{
	char text[GUID_TEXT_BYTES];

	printf("%s%s", before, guid_to_text(guid, text));
}

static void print_topic(const char *topic)
{
	fputs(ink(stdout, INK_NAME), stdout);
	print_foreign(topic);
	fputs(ink(stdout, INK_NONE), stdout);
}

/* ---- apus shm ls ----------------------------------------------------------------------------------- */

static void print_head(const struct apus_host_row *row)
{
	fputs(ink(stdout, INK_STRONG), stdout);
	print_foreign(row->name);
	printf("%s  ", ink(stdout, INK_NONE));
	if (row->state != APUS_HOST_DEAD && row->pid) {
		print_process(row->pid);
		fputs("  ", stdout);
	}
	printf("%s%s%s", ink(stdout, state_inks[row->state]), states[row->state],
	       ink(stdout, INK_NONE));
	if (row->state == APUS_HOST_ALIVE && row->bytes) {
		fputs("  shares ", stdout);
		print_bytes(row->bytes);
	}
	putchar('\n');
}

static bool print_text(const struct apus_host_row *row, void *user)
{
	(void)user;
	switch (row->kind) {
	case APUS_HOST_PROCESS: print_head(row); return true;
	case APUS_HOST_POOL:
		print_guid("  writer ", &row->writer);
		fputs("  ", stdout);
		print_topic(row->name);
		printf("  %u of %u slots of %u bytes in use, ", row->slots_used, row->slots,
		       row->slot_bytes);
		print_bytes(row->bytes);
		putchar('\n');
		return true;
	case APUS_HOST_LENT:
		print_guid("    to ", &row->reader);
		fputs("  ", stdout);
		print_process(row->pid);
		printf("%s  has %u of %u slots, %u waiting, ring ",
		       row->state == APUS_HOST_DEAD ? "  gone" : "", row->slots_used, row->slots,
		       row->waiting);
		print_bytes(row->bytes);
		putchar('\n');
		return true;
	default:
		print_guid("  reader ", &row->reader);
		fputs("  ", stdout);
		print_topic(row->name);
		print_guid("  from ", &row->writer);
		fputs("  ", stdout);
		print_process(row->pid);
		puts(row->state == APUS_HOST_DEAD ? "  gone" : "");
		return true;
	}
}

static bool print_json(const struct apus_host_row *row, void *user)
{
	char name[6 * 256 + 3], program[32], program_json[6 * 32 + 3];

	(void)user;
	if (text_to_json(row->name, name, sizeof(name)) < 0 ||
	    text_to_json(program_of(row->pid, program, sizeof(program)), program_json,
			 sizeof(program_json)) < 0)
		return true;
	printf("{\"kind\":\"%s\",\"state\":\"%s\",\"%s\":%s,\"pid\":%u,\"program\":%s,\"bytes\":%" PRIu64,
	       kinds[row->kind], states[row->state],
	       row->kind == APUS_HOST_PROCESS ? "name" : "topic", name, row->pid, program_json,
	       row->bytes);
	if (row->kind != APUS_HOST_PROCESS)
		print_guid(",\"writer\":\"", &row->writer);
	if (row->kind == APUS_HOST_LENT || row->kind == APUS_HOST_BORROWED)
		print_guid("\",\"reader\":\"", &row->reader);
	if (row->kind == APUS_HOST_POOL || row->kind == APUS_HOST_LENT)
		printf("\",\"slots\":%u,\"slots_used\":%u", row->slots, row->slots_used);
	else if (row->kind == APUS_HOST_BORROWED)
		putchar('"');
	if (row->kind == APUS_HOST_POOL)
		printf(",\"slot_bytes\":%u", row->slot_bytes);
	if (row->kind == APUS_HOST_LENT)
		printf(",\"waiting\":%u", row->waiting);
	puts("}");
	return true;
}

/* ---- apus shm gc ----------------------------------------------------------------------------------- */

static void print_removed(const char *name, void *user)
{
	const struct values *v = user;
	char json[6 * 256 + 3];

	if (!v->json) {
		fputs(v->dry_run ? "would remove " : "removed ", stdout);
		print_foreign(name);
		putchar('\n');
	} else if (text_to_json(name, json, sizeof(json)) >= 0) {
		printf("{\"name\":%s,\"removed\":%s}\n", json, v->dry_run ? "false" : "true");
	}
}

/* ---- both ------------------------------------------------------------------------------------------ */

static int failure(const struct values *v, int rc)
{
	char path[108] = "";

	(void)apus_host_directory(v->directory, path, sizeof(path));
	return complain_failed("%s: %s", *path ? path : v->directory, apus_strerror(rc));
}

static int list(const struct values *v)
{
	char path[108];
	int rc = apus_host_directory(v->directory, path, sizeof(path));

	if (rc != 0)
		return failure(v, rc);
	rc = apus_host_visit(v->directory, v->timeout_ns, v->json ? print_json : print_text, NULL);
	if (rc < 0)
		return failure(v, rc);
	if (rc == 0 && !v->json)
		printf("nobody in %s (participants need the setting shm=on)\n", path);
	return EXIT_DONE;
}

static int clean(struct values *v)
{
	int rc = apus_host_clean(v->directory, v->dry_run, print_removed, v);

	if (rc < 0)
		return failure(v, rc);
	if (rc == 0 && !v->json)
		note("nothing to remove");
	return EXIT_DONE;
}

static int run(const struct command *command, int argc, char **argv)
{
	static struct values v = {.timeout_ns = INT64_C(500000000)};
	int words, rc = options_parse(command, argc, argv, &v, &words);

	if (rc != EXIT_DONE)
		return rc < 0 ? EXIT_DONE : rc;
	if (words != 1 || (strcmp(argv[0], "ls") != 0 && strcmp(argv[0], "gc") != 0))
		return complain("say what: `apus shm ls` or `apus shm gc`");
	if (v.timeout_ns < 1 || v.timeout_ns > INT64_C(60000000000))
		return complain("--timeout takes more than 0 and up to 60 seconds");
	if (strcmp(argv[0], "gc") == 0)
		return clean(&v);
	if (v.dry_run)
		return complain("--dry-run is for `apus shm gc`");
	return list(&v);
}

static const struct option options[] = {
	{"directory", "PATH", "where to look, as setting shm.directory (default: the user's)",
	 OPTION_TEXT, 0, offsetof(struct values, directory), 0, 0},
	{"timeout", "SECONDS", "how long to wait for an answer (default 0.5)", OPTION_SECONDS, 0,
	 offsetof(struct values, timeout_ns), 1, INT64_C(60000000000)},
	{"dry-run", NULL, "gc: say what would be removed, and remove nothing", OPTION_FLAG, 0,
	 offsetof(struct values, dry_run), 0, 0},
	{"json", NULL, "one JSON object a line", OPTION_FLAG, 0, offsetof(struct values, json), 0,
	 0},
};

const struct command cmd_shm = {
	"shm",
	"ls|gc [--directory PATH] [--json] [--timeout SECONDS] [--dry-run]",
	"Show what processes of this host share memory for, and remove what dead ones left.",
	"ls asks every participant of this user that has shm=on: its writers' slots, how many of them are in use, and\n"
	"which reader of which process has how many. Who listens but does not answer (a stopped process, for\n"
	"example) is silent; a name that nobody listens at is dead, and gc removes it. Memory itself needs no\n"
	"cleaning: it goes with the last process that has it.\n",
	options,
	sizeof(options) / sizeof(options[0]),
	run,
};
