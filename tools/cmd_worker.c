/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `apus worker`: the process that owns the queues of the network for applications with `transport = worker`. It says
 * what it could not have (a core, a priority), and whom it serves. With --check it starts nothing and says what of this
 * host will cost latency (tools/host_check.h).
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <apus/relay.h>

#include "tools/commands.h"
#include "tools/host_check.h"
#include "tools/json.h"
#include "tools/session.h"
#include "tools/terminal.h"

/* How soon a signal is noticed. */
#define TURN_NS INT64_C(200000000)

struct values {
	struct session_options session;
	const char *root;
	bool check;
	bool json;
};

static const char *const event_words[] = {
	[APUS_RELAY_THREAD] = "thread",     [APUS_RELAY_ATTACHED] = "attached",
	[APUS_RELAY_DETACHED] = "detached", [APUS_RELAY_REFUSED] = "refused",
	[APUS_RELAY_NETWORK] = "network",
};

static void print_json(const struct apus_relay_event *e)
{
	char text[6 * 128 + 3];

	if (text_to_json(e->text, text, sizeof(text)) < 0)
		return;
	printf("{\"event\":\"%s\",\"pid\":%u,\"port\":%u,\"thread\":%u,\"text\":%s}\n",
	       event_words[e->kind], e->pid, e->port, e->thread, text);
}

static void print_text(const struct apus_relay_event *e)
{
	static const enum ink inks[] = {
		[APUS_RELAY_THREAD] = INK_DIM,     [APUS_RELAY_ATTACHED] = INK_GOOD,
		[APUS_RELAY_DETACHED] = INK_NONE,  [APUS_RELAY_REFUSED] = INK_BAD,
		[APUS_RELAY_NETWORK] = INK_STRONG,
	};

	printf("%s%-8s%s", ink(stdout, inks[e->kind]), event_words[e->kind], ink(stdout, INK_NONE));
	if (e->kind == APUS_RELAY_THREAD)
		printf("  %u", e->thread);
	if (e->pid)
		printf("  pid %u", e->pid);
	if (e->port)
		printf("  port %u", e->port);
	printf("%s%s\n", *e->text ? "  " : "", e->text);
}

static void on_event(const struct apus_relay_event *e, void *user)
{
	const struct values *v = user;

	if (v->json)
		print_json(e);
	else
		print_text(e);
}

static void print_stat(const struct apus_stat *stat, void *user)
{
	const struct values *v = user;

	if (v->json)
		printf(",\"%s\":%" PRIu64, stat->name, stat->value);
	else if (stat->value)
		printf("  %s %" PRIu64, stat->name, stat->value);
}

static void print_end(struct apus_relay *relay, struct values *v)
{
	fputs(v->json ? "{\"event\":\"end\"" : "end     ", stdout);
	apus_relay_visit(relay, print_stat, v);
	fputs(v->json ? "}\n" : "\n", stdout);
}

static void print_ready(const struct apus_config *config, const struct values *v)
{
	char name[64] = "", transport[32] = "", json[6 * 64 + 3];

	(void)apus_config_get(config, "worker.name", name, sizeof(name));
	(void)apus_config_get(config, "transport", transport, sizeof(transport));
	if (!v->json)
		printf("%sready%s     pid %d  worker.name = %s, transport %s\n",
		       ink(stdout, INK_STRONG), ink(stdout, INK_NONE), (int)getpid(), name,
		       transport);
	else if (text_to_json(name, json, sizeof(json)) >= 0)
		printf("{\"event\":\"ready\",\"pid\":%d,\"name\":%s,\"transport\":\"%s\"}\n",
		       (int)getpid(), json, transport);
}

static int serve(const struct apus_config *config, struct values *v)
{
	struct session signals = {.signal_fd = -1};
	struct apus_relay *relay;
	char why[256] = "";
	int rc = session_catch_signals(&signals);

	if (rc != EXIT_DONE)
		return rc;
	rc = apus_relay_create(config, &relay, why, sizeof(why));
	if (rc != 0) {
		session_close(&signals);
		return rc == APUS_EINVAL ? complain("%s", why) : complain_failed("%s", why);
	}
	if (!v->json)
		host_check(v->root, false, true);
	print_ready(config, v);
	while (!session_stopped(&signals)) {
		fflush(stdout);
		apus_relay_poll(relay, TURN_NS, on_event, v);
	}
	print_end(relay, v);
	apus_relay_destroy(relay);
	session_close(&signals);
	return EXIT_DONE;
}

static int run(const struct command *command, int argc, char **argv)
{
	struct values v = {.root = ""};
	struct apus_config *config;
	int words, rc;

	session_options_default(&v.session);
	v.session.section = APUS_CONFIG_WORKER;
	rc = options_parse(command, argc, argv, &v, &words);
	if (rc != EXIT_DONE)
		return rc < 0 ? EXIT_DONE : rc;
	if (words > 0)
		return complain("%s: no word is expected here", argv[0]);
	if (v.check)
		return host_check(v.root, v.json, false);
	rc = session_configure(&v.session, NULL, &config);
	if (rc != EXIT_DONE)
		return rc;
	rc = serve(config, &v);
	apus_config_destroy(config);
	return rc;
}

static const struct option options[] = {
	SETTING_OPTIONS(struct values),
	{"check", NULL, "only say what of this host costs latency, and what mends it", OPTION_FLAG,
	 0, offsetof(struct values, check), 0, 0},
	{"root", "PATH", "where --check looks for /proc and /sys (default: /)", OPTION_TEXT, 0,
	 offsetof(struct values, root), 0, 0},
	{"json", NULL, "one JSON object a line", OPTION_FLAG, 0, offsetof(struct values, json), 0,
	 0},
};

const struct command cmd_worker = {
	"worker",
	"[--config FILE] [--set NAME=VALUE] [--json] | --check [--json]",
	"Own the queues of the network for applications with transport = worker.",
	"Runs until a signal. Settings that count: worker.name and .directory, where applications look for it;\n"
	"interfaces, transport, transport.ipv6 and rx.buffers, what they get; with transport = dpdk the interface\n"
	"it drives itself, dpdk.port, dpdk.address and what else begins with dpdk (docs/dpdk.md); worker.applications,\n"
	".queues, .ring_bytes and .burst, their limits; worker.count, .cores, .priority and .idle, its threads;\n"
	"stats.file, its counters for `apus stats`, which are also printed at the end (docs/counters.md).\n"
	"A file may serve this process and its applications: lines behind [worker] are this process's only, those\n"
	"behind [application] theirs. Applications are given ports of their own, and lose what they have when they\n"
	"die. If this process dies, they wait for the next of its name.\n"
	"--check: exit code 0 if nothing was found, 1 if something was, 2 if there is nothing to look at.\n",
	options,
	sizeof(options) / sizeof(options[0]),
	run,
};
