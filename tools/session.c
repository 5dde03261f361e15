/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration, participant and signals of one run; see session.h. */
#include "tools/session.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "tools/terminal.h"
#include "tools/text.h"

#define REASON_BYTES  512
#define REPORT_BYTES  16384
#define SETTING_BYTES 64
#define NS_PER_SEC    INT64_C(1000000000)

void session_options_default(struct session_options *options)
{
	options->domain = -1;
	options->config_path = NULL;
	options->settings.count = 0;
	options->verbose = false;
	options->section = APUS_CONFIG_APPLICATION;
}

/* ---- configuration ------------------------------------------------------------------------------ */

static int complain_setting(const char *name, const char *reason)
{
	const struct apus_setting *setting;

	for (size_t i = 0; (setting = apus_config_describe(i)) != NULL; i++)
		if (strcmp(setting->name, name) == 0)
			return complain("--set %s: %s", name, reason);
	for (size_t i = 0; (setting = apus_config_describe(i)) != NULL; i++)
		if (words_are_near(name, setting->name))
			return complain("--set %s: no such setting; did you mean %s?", name,
					setting->name);
	return complain("--set %s: no such setting; `apus config` lists them", name);
}

static int apply_setting(struct apus_config *config, const char *text)
{
	char name[SETTING_BYTES], reason[REASON_BYTES] = "";
	size_t bytes = strcspn(text, "=");

	if (!text[bytes] || bytes == 0 || bytes >= sizeof(name))
		return complain("--set %s: not of the form NAME=VALUE", text);
	memcpy(name, text, bytes);
	name[bytes] = '\0';
	if (apus_config_set(config, name, text + bytes + 1, reason, sizeof(reason)) == 0)
		return EXIT_DONE;
	return complain_setting(name, reason);
}

static int apply_file(struct apus_config *config, const char *option,
		      enum apus_config_section section)
{
	const char *path = option ? option : getenv("APUS_CONFIG");
	char reason[REASON_BYTES] = "";
	int rc;

	if (!path || (!option && !*path))
		return EXIT_DONE;
	rc = apus_config_load_section(config, section, path, reason, sizeof(reason));
	if (rc == 0)
		return EXIT_DONE;
	return complain("%s: %s", option ? "--config" : "APUS_CONFIG",
			*reason ? reason : apus_strerror(rc));
}

static int apply_options(struct apus_config *config, const struct session_options *options)
{
	char domain[16];
	int rc = apply_file(config, options->config_path, options->section);

	if (rc != EXIT_DONE)
		return rc;
	if (options->domain >= 0) {
		snprintf(domain, sizeof(domain), "%d", (int)options->domain);
		apus_config_set(config, "domain", domain, NULL, 0);
	}
	for (uint32_t i = 0; i < options->settings.count && rc == EXIT_DONE; i++)
		rc = apply_setting(config, options->settings.items[i]);
	return rc;
}

int session_configure(const struct session_options *options, const char *name,
		      struct apus_config **config_out)
{
	struct apus_config *config = apus_config_create();
	int rc;

	if (!config)
		return complain_failed("no memory for the configuration");
	if (name)
		apus_config_set(config, "participant.name", name, NULL, 0);
	rc = apply_options(config, options);
	if (rc != EXIT_DONE)
		apus_config_destroy(config);
	else
		*config_out = config;
	return rc;
}

/* A file shared with an application may ask for driven workers; a command has no loop to drive them. */
static void spawn_workers(struct apus_config *config)
{
	char mode[16] = "";

	apus_config_get(config, "worker.mode", mode, sizeof(mode));
	if (strcmp(mode, "spawned") == 0)
		return;
	note("worker.mode = %s does not apply here: the library runs the workers", mode);
	apus_config_set(config, "worker.mode", "spawned", NULL, 0);
}

/* Servers tell a client only of what matches its endpoints, and a command that lists has none. */
static void ask_for_all(struct apus_config *config)
{
	char servers[1024] = "";

	apus_config_get(config, "discovery.servers", servers, sizeof(servers));
	if (*servers)
		apus_config_set(config, "discovery.super_client", "on", NULL, 0);
}

/* ---- the participant and its end ---------------------------------------------------------------- */

/* Before any thread exists, so that all inherit the mask. */
static int catch_signals(void)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int session_catch_signals(struct session *session)
{
	*session = (struct session){.signal_fd = catch_signals()};
	return session->signal_fd >= 0
		       ? EXIT_DONE
		       : complain_failed("cannot catch signals: %s", strerror(errno));
}

static int join(struct session *session, const struct apus_config *config)
{
	char why[REASON_BYTES] = "";
	int rc = apus_participant_create(config, &session->participant, why, sizeof(why));

	if (rc == 0)
		return EXIT_DONE;
	return complain_failed("cannot join the domain: %s%s%s", apus_strerror(rc),
			       *why ? ": " : "", why);
}

int session_open(struct session *session, const struct session_options *options, const char *name)
{
	struct apus_config *config;
	int rc = session_configure(options, name, &config);

	if (rc != EXIT_DONE)
		return rc;
	spawn_workers(config);
	if (options->see_all)
		ask_for_all(config);
	session->stopped = false;
	session->signal_fd = catch_signals();
	if (session->signal_fd < 0)
		rc = complain_failed("cannot catch signals: %s", strerror(errno));
	else
		rc = join(session, config);
	apus_config_destroy(config);
	if (rc != EXIT_DONE && session->signal_fd >= 0)
		close(session->signal_fd);
	return rc;
}

/* Only the lines that begin so. */
static void print_warnings(const char *text)
{
	for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
		if (strncmp(text, "warning: ", 9) == 0)
			fprintf(stderr, "%.*s\n", (int)strcspn(text, "\n"), text);
}

void session_report(const struct session *session, const struct session_options *options)
{
	char text[REPORT_BYTES];

	if (apus_participant_report(session->participant, text, sizeof(text)) != 0)
		return;
	if (options->verbose)
		fputs(text, stderr);
	else
		print_warnings(text);
}

void session_close(struct session *session)
{
	apus_participant_destroy(session->participant);
	close(session->signal_fd);
}

bool session_stopped(struct session *session)
{
	struct signalfd_siginfo info;

	if (read(session->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		session->stopped = true;
	return session->stopped;
}

enum session_event session_wait(struct session *session, int fd, int64_t deadline_ns)
{
	struct pollfd fds[2] = {{session->signal_fd, POLLIN, 0}, {fd, POLLIN, 0}};

	for (;;) {
		int64_t left_ns = deadline_ns - session_now_ns();
		struct timespec left = {left_ns / NS_PER_SEC, left_ns % NS_PER_SEC};
		int n;

		if (left_ns < 0)
			left = (struct timespec){0, 0};
		n = ppoll(fds, fd >= 0 ? 2 : 1, deadline_ns == APUS_INFINITE_NS ? NULL : &left,
			  NULL);
		if (session_stopped(session))
			return SESSION_STOPPED;
		if (n > 0 && fds[1].revents)
			return SESSION_READY;
		if (n == 0 && left_ns <= 0)
			return SESSION_TIME_OVER;
	}
}

int64_t session_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_SEC + now.tv_nsec;
}

int64_t session_deadline(int64_t ns)
{
	int64_t deadline;

	return __builtin_add_overflow(session_now_ns(), ns, &deadline) ? APUS_INFINITE_NS
								       : deadline;
}
