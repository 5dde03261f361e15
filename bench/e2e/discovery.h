/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discovery in bulk: what the programs of the three implementations share.
 *
 * Two processes with N endpoints each, roles 0 and 1. Endpoint i is on topic Bulk<i>, a writer in one process
 * and a reader in the other, in turns: each matches exactly one. A process says that it runs and waits for a line
 * of input, which both are given at once: how long the other took to be loaded is not measured. It creates its
 * participant and endpoints, waits until every one has its match, prints {"seconds":…,"cpu_seconds":…,
 * "memory_kib":…}, the first since that line and the others since its beginning, stays until its input ends, so
 * that the other may finish, and leaves. Run by discovery.py.
 */
#ifndef APUS_BENCH_DISCOVERY_H
#define APUS_BENCH_DISCOVERY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/** Most endpoints of one process. */
#define BULK_MAX 20000
/** Give up after this time. */
#define BULK_TIMEOUT_S 60

struct bulk_options {
	uint32_t domain, endpoints, role;
};

static inline double bulk_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/** DOMAIN ENDPOINTS ROLE. */
static inline bool bulk_parse(int argc, char **argv, struct bulk_options *o)
{
	if (argc != 4)
		return false;
	o->domain = (uint32_t)strtoul(argv[1], NULL, 10);
	o->endpoints = (uint32_t)strtoul(argv[2], NULL, 10);
	o->role = (uint32_t)strtoul(argv[3], NULL, 10);
	return o->domain <= 232 && o->endpoints >= 1 && o->endpoints <= BULK_MAX && o->role <= 1;
}

/** Says that the process runs and waits for the start. Returns the time. */
static inline double bulk_begin(void)
{
	int c;

	printf("ready\n");
	fflush(stdout);
	do
		c = getchar();
	while (c != '\n' && c != EOF);
	return bulk_now();
}

static inline bool bulk_is_writer(const struct bulk_options *o, uint32_t i)
{
	return (i + o->role) % 2 == 0;
}

static inline void bulk_topic(uint32_t i, char name[32])
{
	snprintf(name, 32, "Bulk%u", i);
}

static inline void bulk_pause(void)
{
	struct timespec turn;

	turn.tv_sec = 0;
	turn.tv_nsec = 2000000;

	nanosleep(&turn, NULL);
}

/** A figure of /proc/self/status. VmHWM is the largest resident memory so far; ru_maxrss is not, because it
 *  begins with that of the program that started this one. */
static inline long bulk_status_kib(const char *name)
{
	char line[128], format[32];
	long kib = 0;
	FILE *file = fopen("/proc/self/status", "re");

	snprintf(format, sizeof(format), "%s: %%ld", name);
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, format, &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib;
}

/** Reports and waits for the end of the input. Returns the exit code. */
static inline int bulk_finish(double begun, bool complete)
{
	struct rusage usage;
	double seconds = bulk_now() - begun;

	getrusage(RUSAGE_SELF, &usage);
	printf("{\"complete\":%s,\"seconds\":%.4f,\"cpu_seconds\":%.4f,\"memory_kib\":%ld,"
	       "\"anonymous_kib\":%ld}\n",
	       complete ? "true" : "false", seconds,
	       (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
		       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6,
	       bulk_status_kib("VmHWM"), bulk_status_kib("RssAnon"));
	fflush(stdout);
	while (getchar() != EOF)
		;
	return complete ? 0 : 1;
}

#endif
