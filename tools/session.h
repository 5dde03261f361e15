/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every command that joins a domain needs: its options, its participant, its end by a signal.
 *
 * SIGINT and SIGTERM are blocked in all threads and read from a descriptor, so that a command sleeps in
 * one place, loses no signal, and leaves the domain in order. One thread uses a session.
 */
#ifndef APUS_TOOLS_SESSION_H
#define APUS_TOOLS_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include <apus/participant.h>

#include "tools/options.h"

/** Options common to all commands with a configuration; fill with session_options_default(). */
struct session_options {
	int64_t domain; /**< -1 = as configured */
	const char *config_path;
	struct option_list settings; /**< "name=value" */
	bool verbose;
	enum apus_config_section section; /**< not an option: whose part of a file counts */
	bool see_all; /**< not an option: Discovery Servers, if any, are to tell all they know */
};

/** Rows of an option table for a struct with a member `session` of the type above: what makes a
 *  configuration, and what all commands that join a domain have besides. */
#define CONFIG_OPTIONS(type)                                                               \
	OPTION_ROW("domain", "N", "DDS domain, 0 to 232 (default: as configured, else 0)", \
		   OPTION_NUMBER, 0, offsetof(type, session.domain), 0, 232),              \
		SETTING_OPTIONS(type)

/** Those of a command that joins no domain. */
#define SETTING_OPTIONS(type)                                                                     \
	OPTION_ROW("config", "FILE",                                                              \
		   "read settings (default: the file APUS_CONFIG names, if any)", OPTION_TEXT, 0, \
		   offsetof(type, session.config_path), 0, 0),                                    \
		OPTION_ROW("set", "NAME=VALUE", "change one setting; `apus config` lists them",   \
			   OPTION_LIST, 's', offsetof(type, session.settings), 0, 0)

#define SESSION_OPTIONS(type)                                                                     \
	CONFIG_OPTIONS(type),                                                                     \
		OPTION_ROW("verbose", NULL, "tell on stderr what was chosen: transport, ports …", \
			   OPTION_FLAG, 'v', offsetof(type, session.verbose), 0, 0)

struct session {
	struct apus_participant *participant;
	int signal_fd; /**< -1: signals are not waited for */
	bool stopped;  /**< a signal has asked for the end */
};

/** What session_wait() saw first. */
enum session_event { SESSION_READY, SESSION_TIME_OVER, SESSION_STOPPED };

/** Fills the defaults. */
void session_options_default(struct session_options *options);

/**
 * Builds the configuration: defaults, the file, --domain, --set, later ones winning.
 * name: what the participant is called unless a setting says otherwise; NULL: there is none.
 * Returns EXIT_DONE and the caller's `*config_out`, else an exit code after a complaint.
 */
int session_configure(const struct session_options *options, const char *name,
		      struct apus_config **config_out);

/** Joins the domain. Returns EXIT_DONE or an exit code after a complaint; then nothing is open. */
int session_open(struct session *session, const struct session_options *options, const char *name);

/** Only catches signals, for a command without a participant: session_stopped() and session_close(). Before any thread
 *  is started. Returns EXIT_DONE or an exit code after a complaint. */
int session_catch_signals(struct session *session);

/** Prints warnings on stderr, with --verbose also what the library chose and why; once the endpoints exist. */
void session_report(const struct session *session, const struct session_options *options);

/** Leaves the domain and deletes all entities. */
void session_close(struct session *session);

/** Sleeps until `fd` is readable (-1: none), a signal asks for the end, or the monotonic clock reads
 *  deadline_ns (APUS_INFINITE_NS: never). */
enum session_event session_wait(struct session *session, int fd, int64_t deadline_ns);

/** True once a signal has asked for the end. Does not block. */
bool session_stopped(struct session *session);

/** The monotonic clock. */
int64_t session_now_ns(void);

/** session_now_ns() + ns, APUS_INFINITE_NS if that is beyond all time. */
int64_t session_deadline(int64_t ns);

#endif
