/* SPDX-License-Identifier: Apache-2.0 */
/* See host_check.h. One table: where a point is read, when it is well, what it costs, what mends it. */
#include "tools/host_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/json.h"
#include "tools/terminal.h"

#define VALUE_BYTES 128
/* Processors looked at for settings each has of its own. */
#define CPUS_MAX 1024

/* When a value is well. */
enum test {
	IS_TEXT,     /* it is `bound`, as a word */
	HAS_NOT,     /* it does not contain `bound` */
	NOT_EMPTY,   /* it names something */
	NOT_ALL,     /* a mask of processors that leaves one out */
	AT_LEAST,    /* as a number */
	AT_MOST,     /* as a number */
	IS_NEGATIVE, /* as a number */
};

static const struct point {
	const char *name;
	const char *path; /* with %d: of each processor */
	enum test test;
	const char *bound;
	const char *cost;
	const char *mend;
} points[] = {
	{"isolated cores", "/sys/devices/system/cpu/isolated", NOT_EMPTY, "",
	 "the scheduler puts other tasks on the cores of polling threads",
	 "scripts/isolate --cpus LIST --apply"},
	{"tickless cores", "/sys/devices/system/cpu/nohz_full", NOT_EMPTY, "",
	 "the tick interrupts polling threads 100 to 1000 times a second",
	 "scripts/isolate --cpus LIST (kernel command line: nohz_full=LIST)"},
	{"interrupts", "/proc/irq/default_smp_affinity", NOT_ALL, "",
	 "interrupts of devices land on the cores of polling threads",
	 "scripts/isolate --cpus LIST --apply"},
	{"governor", "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", IS_TEXT,
	 "performance", "a core needs up to milliseconds to reach its frequency",
	 "cpupower frequency-set -g performance"},
	{"hyper-threads", "/sys/devices/system/cpu/smt/active", IS_TEXT, "0",
	 "a sibling thread takes up to half of a polling core",
	 "echo off > /sys/devices/system/cpu/smt/control"},
	{"idle states", "/sys/devices/system/cpu/cpu%d/cpuidle/state3/disable", IS_TEXT, "1",
	 "a core that sleeps deeply wakes late", "cpupower idle-set -D 10"},
	{"huge pages", "/proc/sys/vm/nr_hugepages", AT_LEAST, "16",
	 "large pools miss the TLB; DPDK ports want them", "scripts/hugepages reserve 64"},
	{"transparent huge pages", "/sys/kernel/mm/transparent_hugepage/enabled", HAS_NOT,
	 "[always]", "the kernel stops threads to merge pages",
	 "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"},
	{"NUMA balancing", "/proc/sys/kernel/numa_balancing", IS_TEXT, "0",
	 "the kernel unmaps pages to see who uses them", "sysctl -w kernel.numa_balancing=0"},
	{"receive buffers", "/proc/sys/net/core/rmem_max", AT_LEAST, "4194304",
	 "bursts are lost in sockets (not with CAP_NET_ADMIN)",
	 "sysctl -w net.core.rmem_max=8388608"},
	{"send buffers", "/proc/sys/net/core/wmem_max", AT_LEAST, "4194304",
	 "large samples wait for the socket (not with CAP_NET_ADMIN)",
	 "sysctl -w net.core.wmem_max=8388608"},
	{"real-time throttling", "/proc/sys/kernel/sched_rt_runtime_us", IS_NEGATIVE, "",
	 "threads with worker.priority that poll stop 50 ms in each second",
	 "sysctl -w kernel.sched_rt_runtime_us=-1"},
	{"timer slack", "/proc/self/timerslack_ns", AT_MOST, "50000",
	 "threads that sleep wake so many ns late (not with worker.priority)",
	 "echo 1 > /proc/PID/timerslack_ns"},
	{"clock", "/sys/devices/system/clocksource/clocksource0/current_clocksource", HAS_NOT,
	 "hpet", "reading the time is a system call", "kernel command line: clocksource=tsc"},
};

static bool read_value(const char *root, const char *path, char value[VALUE_BYTES])
{
	char whole[512];
	FILE *file;
	bool read;

	snprintf(whole, sizeof(whole), "%s%s", root, path);
	file = fopen(whole, "re");
	if (!file)
		return false;
	memset(value, 0, VALUE_BYTES);
	read = fread(value, 1, VALUE_BYTES - 1, file) > 0 || !ferror(file);
	fclose(file);
	value[strcspn(value, "\n")] = '\0';
	return read;
}

/* A mask in groups of eight digits, "ff" or "ffffffff,ffffffff", that has every bit of its length. */
static bool is_all(const char *mask)
{
	while (*mask == '0' || *mask == ',')
		mask++;
	/* The first digit may be partly set: of six processors it is "3f". */
	if (!*mask || !strchr("137f", *mask))
		return false;
	for (mask++; *mask; mask++)
		if (*mask != 'f' && *mask != ',')
			return false;
	return true;
}

static bool is_well(const struct point *p, const char *value)
{
	switch (p->test) {
	case IS_TEXT: return strcmp(value, p->bound) == 0;
	case HAS_NOT: return !strstr(value, p->bound);
	case NOT_EMPTY: return *value && strcmp(value, "(null)") != 0;
	case NOT_ALL: return !is_all(value);
	case AT_LEAST: return strtoll(value, NULL, 10) >= strtoll(p->bound, NULL, 10);
	case AT_MOST: return strtoll(value, NULL, 10) <= strtoll(p->bound, NULL, 10);
	case IS_NEGATIVE: return strtoll(value, NULL, 10) < 0;
	}
	return true;
}

/* The value of a point; of processors the first that is not well. False: the kernel does not tell. */
static bool find_value(const char *root, const struct point *p, char value[VALUE_BYTES])
{
	bool found = false;

	if (!strstr(p->path, "%d"))
		return read_value(root, p->path, value);
	for (int cpu = 0; cpu < CPUS_MAX; cpu++) {
		size_t before = (size_t)(strstr(p->path, "%d") - p->path);
		char path[256], one[VALUE_BYTES];

		snprintf(path, sizeof(path), "%.*s%d%s", (int)before, p->path, cpu,
			 p->path + before + 2);
		if (!read_value(root, path, one))
			break;
		found = true;
		memcpy(value, one, VALUE_BYTES);
		if (!is_well(p, one))
			break;
	}
	return found;
}

static void print_json(const struct point *p, const char *value, bool well)
{
	char text[6 * VALUE_BYTES + 3], mend[512], cost[512];

	if (text_to_json(value, text, sizeof(text)) < 0 ||
	    text_to_json(p->mend, mend, sizeof(mend)) < 0 ||
	    text_to_json(p->cost, cost, sizeof(cost)) < 0)
		return;
	printf("{\"event\":\"check\",\"name\":\"%s\",\"value\":%s,\"ok\":%s", p->name, text,
	       well ? "true" : "false");
	if (!well)
		printf(",\"cost\":%s,\"mend\":%s", cost, mend);
	puts("}");
}

static void print_text(const struct point *p, const char *value, bool well)
{
	printf("%s%-7s%s  %-22s  %s\n", ink(stdout, well ? INK_GOOD : INK_BAD),
	       well ? "ok" : "mend", ink(stdout, INK_NONE), p->name, *value ? value : "none");
	if (!well)
		printf("         %s%s%s\n         %s\n", ink(stdout, INK_DIM), p->cost,
		       ink(stdout, INK_NONE), p->mend);
}

int host_check(const char *root, bool json, bool findings_only)
{
	int findings = 0;
	char proc[512];

	snprintf(proc, sizeof(proc), "%.500s/proc", root);
	if (access(proc, R_OK | X_OK) != 0)
		return complain("--root %s: there is no %s to look at", root, proc);
	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		char value[VALUE_BYTES];
		bool well;

		if (!find_value(root, &points[i], value))
			continue;
		well = is_well(&points[i], value);
		findings += !well;
		if (well && findings_only)
			continue;
		if (json)
			print_json(&points[i], value, well);
		else
			print_text(&points[i], value, well);
	}
	return findings > 0;
}
