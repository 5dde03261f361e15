/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `apus stats` and `apus top`: the counters of running participants and worker processes, from the files they keep (setting `stats.file`).
 * Reading disturbs nobody.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <apus/stats.h>

#include "tools/commands.h"
#include "tools/guid.h"
#include "tools/json.h"
#include "tools/terminal.h"

#define ROWS_MAX 4096

struct values {
	bool json, prometheus;
	int64_t count, interval_ms;
};

static const char *const kinds[] = {"participant",    "writer",         "reader",
				    "matched_reader", "matched_writer", "worker"};

/* Rows that have a name in place of a topic, and head their file. */
static bool is_head(const struct apus_stats_row *row)
{
	return row->kind == APUS_STATS_PARTICIPANT || row->kind == APUS_STATS_RELAY;
}

static void print_guid(const struct apus_guid *guid)
{
	char text[GUID_TEXT_BYTES];

	fputs(guid_to_text(guid, text), stdout);
}

/* --- apus stats ---------------------------------------------------------------------------------- */

static bool print_json(const struct apus_stats_row *row, void *user)
{
	const bool *stale = user;
	char topic[6 * 256 + 3];

	if (text_to_json(row->topic, topic, sizeof(topic)) < 0)
		return true;
	printf("{\"kind\":\"%s\",\"guid\":\"", kinds[row->kind]);
	print_guid(&row->guid);
	printf("\",\"%s\":%s,\"matched\":%u,\"problem\":\"%s\",\"counters\":{",
	       is_head(row) ? "name" : "topic", topic, row->matched,
	       *stale && is_head(row) ? "stale" : row->problem);
	for (uint32_t i = 0; i < row->stat_count; i++)
		printf("%s\"%s\":%" PRIu64, i ? "," : "", row->stats[i].name, row->stats[i].value);
	puts("}}");
	return true;
}

/* Metric names hold letters, digits and underscores; label values escape three characters. */
static void print_label(const char *text)
{
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			printf("\\%c", *text);
		else if (*text == '\n')
			fputs("\\n", stdout);
		else
			putchar(*text);
	}
}

static bool print_prometheus(const struct apus_stats_row *row, void *user)
{
	(void)user;
	for (uint32_t i = 0; i < row->stat_count; i++) {
		fputs("apus_", stdout);
		for (const char *c = row->stats[i].name; *c; c++)
			putchar(*c == '.' || *c == '-' ? '_' : *c);
		printf("{kind=\"%s\",guid=\"", kinds[row->kind]);
		print_guid(&row->guid);
		fputs(is_head(row) ? "\",name=\"" : "\",topic=\"", stdout);
		print_label(row->topic);
		printf("\"} %" PRIu64 "\n", row->stats[i].value);
	}
	return true;
}

static bool print_text(const struct apus_stats_row *row, void *user)
{
	(void)user;
	printf("%s ", kinds[row->kind]);
	print_guid(&row->guid);
	printf(" %s matched %u%s%s\n", row->topic, row->matched, *row->problem ? ", " : "",
	       row->problem);
	for (uint32_t i = 0; i < row->stat_count; i++)
		if (row->stats[i].value)
			printf("  %-32s %" PRIu64 "\n", row->stats[i].name, row->stats[i].value);
	return true;
}

static int open_file(const char *path, struct apus_stats **stats)
{
	int rc = apus_stats_open(path, stats);

	if (rc == APUS_EENCODING)
		return complain_failed("%s: not a counter file of this version", path);
	if (rc != 0)
		return complain_failed("%s: %s", path, apus_strerror(rc));
	return EXIT_DONE;
}

/* What a participant that was killed left behind is told from what is kept, and no monitor is given it. */
static int show_once(const char *path, const struct values *v)
{
	struct apus_stats *stats;
	int rc = open_file(path, &stats);
	bool stale;

	if (rc != EXIT_DONE)
		return rc;
	stale = apus_stats_is_stale(stats);
	if (stale)
		fprintf(stderr, "%s: stale: process %u ended without removing it\n", path,
			apus_stats_pid(stats));
	rc = stale && v->prometheus ? 0
				    : apus_stats_visit(stats,
						       v->json         ? print_json
						       : v->prometheus ? print_prometheus
								       : print_text,
						       &stale);
	apus_stats_close(stats);
	return rc < 0 ? complain_failed("%s: %s", path, apus_strerror(rc)) : EXIT_DONE;
}

static int show_live(const char *path, bool (*print)(const struct apus_stats_row *, void *),
		     void *user)
{
	struct apus_stats *stats;
	int rc = open_file(path, &stats);

	if (rc != EXIT_DONE)
		return rc;
	if (apus_stats_is_stale(stats)) {
		printf("%s: stale: process %u ended without removing it\n", path,
		       apus_stats_pid(stats));
		apus_stats_close(stats);
		return EXIT_DONE;
	}
	rc = apus_stats_visit(stats, print, user);
	apus_stats_close(stats);
	return rc < 0 ? complain_failed("%s: %s", path, apus_strerror(rc)) : EXIT_DONE;
}

static int run_stats(const struct command *command, int argc, char **argv)
{
	static struct values v;
	int words, rc = options_parse(command, argc, argv, &v, &words);

	if (rc != EXIT_DONE)
		return rc < 0 ? EXIT_DONE : rc;
	if (words == 0)
		return complain("name the counter files: those of the setting stats.file");
	if (v.json && v.prometheus)
		return complain("--json and --prometheus exclude each other");
	for (int i = 0; i < words && rc == EXIT_DONE; i++)
		rc = show_once(argv[i], &v);
	return rc;
}

static const struct option stats_options[] = {
	{"json", NULL, "one JSON object a line", OPTION_FLAG, 0, offsetof(struct values, json), 0,
	 0},
	{"prometheus", NULL, "the text format of Prometheus", OPTION_FLAG, 0,
	 offsetof(struct values, prometheus), 0, 0},
};

const struct command cmd_stats = {
	"stats",
	"FILE... [--json | --prometheus]",
	"Print the counters of running participants once.",
	"FILE is what the participant's setting stats.file names. Nothing is sent, and the participant\n"
	"does not notice.\n",
	stats_options,
	sizeof(stats_options) / sizeof(stats_options[0]),
	run_stats,
};

/* --- apus top ------------------------------------------------------------------------------------ */

struct last {
	struct apus_guid guid;
	uint64_t samples;
};

struct top {
	struct last last[ROWS_MAX];
	size_t row;
	double seconds; /* since the last look; 0 at first */
};

static uint64_t value_of(const struct apus_stats_row *row, const char *name)
{
	for (uint32_t i = 0; i < row->stat_count; i++)
		if (strcmp(row->stats[i].name, name) == 0)
			return row->stats[i].value;
	return 0;
}

/* Rows keep their order while nothing is made or deleted; else a rate starts over. */
static double rate(struct top *t, const struct apus_stats_row *row, uint64_t samples)
{
	struct last *l = &t->last[t->row % ROWS_MAX];
	bool same = memcmp(&l->guid, &row->guid, sizeof(l->guid)) == 0 && samples >= l->samples;
	double per_second =
		same && t->seconds > 0 ? (double)(samples - l->samples) / t->seconds : 0;

	l->guid = row->guid;
	l->samples = samples;
	t->row++;
	return per_second;
}

/* One match, below its endpoint: who it is, how far behind, whether alive. */
static void print_match(const struct apus_stats_row *row)
{
	fputs("       ", stdout);
	print_guid(&row->guid);
	if (row->kind == APUS_STATS_MATCHED_READER)
		printf("  behind %" PRIu64, value_of(row, "match.behind"));
	else
		printf("  losses %" PRIu64, value_of(row, "match.losses"));
	printf("  %s\n", *row->problem ? row->problem : "ok");
}

static bool print_top(const struct apus_stats_row *row, void *user)
{
	struct top *t = user;
	bool writer = row->kind == APUS_STATS_WRITER;
	uint64_t samples = value_of(row, writer ? "writer.written" : "status.available");

	if (row->kind == APUS_STATS_MATCHED_READER || row->kind == APUS_STATS_MATCHED_WRITER) {
		print_match(row);
		return true;
	}
	if (is_head(row)) {
		printf("%s%s%s\n", ink(stdout, INK_STRONG), row->topic, ink(stdout, INK_NONE));
		return true;
	}
	printf("%-6s %-16.16s %3u %9.0f %7" PRIu64 " %7" PRIu64 " %6" PRIu64 " %6" PRIu64
	       " %4" PRIu64 " %s\n",
	       kinds[row->kind], row->topic, row->matched, rate(t, row, samples),
	       value_of(row, writer ? "status.behind" : "status.waiting"),
	       writer ? value_of(row, "writer.repairs") : value_of(row, "status.lost"),
	       writer ? value_of(row, "writer.refused_full") : value_of(row, "status.rejected"),
	       value_of(row, "status.deadline_missed"), value_of(row, "status.not_alive"),
	       row->problem);
	return true;
}

static int run_top(const struct command *command, int argc, char **argv)
{
	static struct values v;
	static struct top t[8];
	int words, rc = options_parse(command, argc, argv, &v, &words);
	int64_t interval_ms = v.interval_ms ? v.interval_ms : 1000;
	struct timespec nap = {interval_ms / 1000, interval_ms % 1000 * 1000000};

	if (rc != EXIT_DONE)
		return rc < 0 ? EXIT_DONE : rc;
	if (words == 0 || words > 8)
		return complain("name 1 to 8 counter files: those of the setting stats.file");
	for (int64_t n = 0; rc == EXIT_DONE && (v.count == 0 || n < v.count); n++) {
		if (n)
			nanosleep(&nap, NULL);
		if (n && isatty(STDOUT_FILENO))
			fputs("\033[H\033[J", stdout);
		printf("%-6s %-16s %3s %9s %7s %7s %6s %6s %4s\n", "", "topic", "of", "samples/s",
		       "waiting", "lost", "reject", "missed", "dead");
		for (int i = 0, gone = 0; i < words && rc == EXIT_DONE; i++) {
			/* One that ends takes its file along; the others go on. */
			if (n && access(argv[i], F_OK) != 0 && ++gone < words)
				continue;
			t[i].row = 0;
			rc = show_live(argv[i], print_top, &t[i]);
			t[i].seconds = (double)interval_ms / 1e3;
		}
		fflush(stdout);
	}
	return rc;
}

static const struct option top_options[] = {
	{"count", "N", "end after N looks", OPTION_NUMBER, 0, offsetof(struct values, count), 1,
	 1000000},
	{"interval", "MS", "time between two looks (default 1000)", OPTION_NUMBER, 0,
	 offsetof(struct values, interval_ms), 10, 3600000},
};

const struct command cmd_top = {
	"top",
	"FILE... [--interval MS] [--count N]",
	"Show rates, backlogs and losses of running participants, live.",
	"FILE is what the participant's setting stats.file names; the column \"of\" counts matches. Of a\n"
	"writer, waiting counts samples not acknowledged by all, lost counts repairs, rejected counts writes\n"
	"refused. Below each endpoint stand its matches: how many samples a reader is behind, whether a\n"
	"writer is alive.\n",
	top_options,
	sizeof(top_options) / sizeof(top_options[0]),
	run_top,
};
