/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two peer programs (peer-cyclone, peer-fastdds) share: one command line, one output format,
 * one order of work. Only the vendor's own calls differ, so a test runs either with the same words.
 *
 * Output: one JSON object a line on stdout, flushed line by line:
 *   {"event":"ready","vendor":…,"role":…}
 *   {"event":"matched","current":n,"total":n}
 *   {"event":"incompatible_qos","policy":id,"total":n}
 *   {"event":"status","deadline":n,"lost":n,"alive":n,"not_alive":n}
 *   {"event":"sample","writer":guid,"color":…,"x":…,"y":…,"shapesize":…,"state":…,"t":ns,"source_time":ns}
 *   {"event":"join","n":n,"t":ns}      (--joins: the n-th reader is about to be created)
 *   {"event":"done","timed_out":bool,"samples":n,"acknowledged":bool}
 * Exit codes: 0 done (also after SIGTERM or SIGINT), 1 timed out, 2 wrong usage, 3 the vendor's library failed.
 *
 * Single-threaded; the signal flag is the only thing a handler touches.
 */
#ifndef INTEROP_PEER_H
#define INTEROP_PEER_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Capacities of the lists on the command line; more is wrong usage. */
#define PEER_LIST_MAX 16
/* Bound of ShapeType's key, with its NUL. */
#define PEER_COLOR_BYTES 129

/* The command line, decoded. Strings belong to argv or to storage that lives as long as the process. */
struct peer_options {
	bool publish;
	bool reliable;
	bool transient_local;
	bool keep_all;
	bool exclusive;
	bool multicast;
	const char *topic;
	const char *interface; /* name or address */
	const char *filter;    /* NULL = none; subscriber only */
	const char *dispose;   /* colour disposed after the last sample, or NULL */
	const char *unregister;
	const char *colors[PEER_LIST_MAX];
	const char *partitions[PEER_LIST_MAX];
	const char *params[PEER_LIST_MAX];
	const char *peers[PEER_LIST_MAX]; /* IPv4 addresses for unicast discovery */
	int color_count, partition_count, param_count, peer_count;
	int domain;
	int depth;
	int strength;
	int count;     /* publisher: samples to write; subscriber: samples to await; 0 = no end */
	int not_alive; /* subscriber: dispositions and departures to await besides */
	int wait_matched; /* publisher: matched readers to await before the first sample */
	int size;         /* shapesize written */
	int modulo;       /* x and y run through 1…modulo and back; 0 = x counts without end */
	int heartbeat_ms; /* 0 = the vendor's default */
	double rate_hz;   /* 0 = as fast as the writer accepts */
	double timeout_s;
	double settle_s; /* publisher: pause between the match and the first sample */
	double at_s;     /* publisher: and not before that second of CLOCK_REALTIME */
	double linger_s; /* publisher: stay for late joiners; subscriber: stay to see too many */
	double lease_s;  /* participant lease; 0 = the vendor's default */
	int64_t deadline_ms; /* 0 = infinite */
	int64_t lifespan_ms; /* 0 = infinite */
	int liveliness;      /* 0 automatic, 1 manual by participant, 2 manual by topic */
	int64_t live_ms;     /* liveliness lease; 0 = infinite */
	int64_t latency_ms;  /* latency budget */
	bool by_source;      /* destination order */
	int joins; /* subscriber: that many readers, one after the other, each for `count` samples */
	int pause_ms;              /* random pause before each, up to this */
	int64_t later_deadline_ms; /* Apus: once the first sample was written or taken; 0 = no change */
	int64_t assert_ms; /* publisher: in the first half of lingering, asserts its liveliness that often */
};

/* Fills *options from the command line. Prints to stderr and exits with 2 when it is wrong, or to
 * stdout and exits with 0 for --help. */
void peer_parse(int argc, char **argv, struct peer_options *options);

/* Installs SIGTERM and SIGINT handlers that only raise the flag peer_stopped() reports. */
void peer_catch_signals(void);
bool peer_stopped(void);

/* The x of the n-th sample (from 1), and its colour. */
int peer_x(const struct peer_options *options, int n);
const char *peer_color(const struct peer_options *options, int n);

/* Clocks in nanoseconds: CLOCK_REALTIME and CLOCK_MONOTONIC. */
int64_t peer_wall_ns(void);
int64_t peer_mono_ns(void);
/* Sleeps until a monotonic instant or a signal. */
void peer_sleep_until(int64_t mono_ns);

/* Waits settle_s, and until at_s, or until a signal: the other side may learn of a match later than this
 * one, and several publishers may be meant to start together. */
void peer_settle(const struct peer_options *options);

/* One sample or state change as the reader took it. writer: 16 GUID bytes, or NULL if unknown. */
struct peer_sample {
	const uint8_t *writer;
	const char *color;
	int32_t x, y, shapesize;
	const char *state; /* "alive", "disposed" or "no_writers" */
	bool valid;        /* false: only the key is meaningful */
	int64_t source_ns;
};

void peer_print_ready(const struct peer_options *options, const char *vendor);
/* Totals of the statuses of time; a publisher leaves the last two 0, a subscriber `lost`. */
struct peer_status {
	int deadline, lost, alive, not_alive;
};
/* Prints them if they differ from *last, which follows. */
void peer_print_status(const struct peer_status *status, struct peer_status *last);
void peer_print_matched(int current, int total);
void peer_print_incompatible(int policy, int total);
/* Pauses at random, the same every time, then prints that the n-th reader is about to join. */
void peer_join(const struct peer_options *options, int n);
void peer_print_sample(const struct peer_sample *sample);
/* Prints the last line and returns the exit code. */
int peer_print_done(int samples, bool timed_out, bool acknowledged);

#ifdef __cplusplus
}
#endif

#endif
