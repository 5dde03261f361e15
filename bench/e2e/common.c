/* SPDX-License-Identifier: Apache-2.0 */
/* Shared parts of the end-to-end benchmarks; see common.h. */
#include "common.h"

#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

const char *program_name = "bench";

void die(const char *what)
{
	fprintf(stderr, "%s: %s%s%s\n", program_name, what, errno ? ": " : "",
		errno ? strerror(errno) : "");
	exit(EXIT_FAILED);
}

int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * NS_PER_SEC + ts.tv_nsec;
}

void pin(int core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)core, &set);
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		die("cannot pin to the core");
}

/* The first two cores this process may use; exits if there are fewer. */
static void default_cores(int core_out[2])
{
	cpu_set_t set;
	int found = 0;

	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		die("cannot tell the cores");
	for (int i = 0; i < CPU_SETSIZE && found < 2; i++)
		if (CPU_ISSET((size_t)i, &set))
			core_out[found++] = i;
	if (found < 2)
		die("two polling processes need two cores");
}

static void __attribute__((noreturn)) refuse(const char *text, const char *reason)
{
	fprintf(stderr, "%s: '%s': %s\n", program_name, text, reason);
	exit(EXIT_USAGE);
}

static uint32_t parse_number(const char *text, uint32_t low, uint32_t high)
{
	char *end, reason[64];
	unsigned long value = strtoul(text, &end, 10);

	if (*text >= '0' && *text <= '9' && *end == '\0' && value >= low && value <= high)
		return (uint32_t)value;
	snprintf(reason, sizeof(reason), "not a number from %u to %u", low, high);
	refuse(text, reason);
}

static void parse_cores(const char *text, int core_out[2])
{
	char rest;

	if (sscanf(text, "%d,%d%c", &core_out[0], &core_out[1], &rest) != 2 || core_out[0] < 0 ||
	    core_out[1] < 0 || core_out[0] >= CPU_SETSIZE || core_out[1] >= CPU_SETSIZE ||
	    core_out[0] == core_out[1])
		refuse(text, "not two different core numbers");
}

static void parse_sizes(const char *text, struct options *o)
{
	char copy[256], *rest = copy, *word;

	snprintf(copy, sizeof(copy), "%s", text);
	o->size_count = 0;
	while ((word = strsep(&rest, ","))) {
		uint32_t bytes = parse_number(word, 16, BYTES_MAX);

		if (bytes % 8 != 0 || o->size_count == SIZES_MAX)
			refuse(text, "not up to 8 sizes, each a multiple of 8");
		o->bytes[o->size_count++] = bytes;
	}
}

static const char *parse_transport(const char *text)
{
	if (strcmp(text, "auto") != 0 && strcmp(text, "io_uring") != 0 &&
	    strcmp(text, "socket") != 0 && strcmp(text, "worker") != 0)
		refuse(text, "not auto, io_uring, socket or worker");
	return text;
}

void parse_options(int argc, char **argv, const char *usage, struct options *options)
{
	static const struct option longs[] = {
		{"seconds", required_argument, NULL, 's'},
		{"rounds", required_argument, NULL, 'r'},
		{"bytes", required_argument, NULL, 'b'},
		{"cores", required_argument, NULL, 'k'},
		{"transport", required_argument, NULL, 't'},
		{"domain", required_argument, NULL, 'd'},
		{"json", no_argument, NULL, 'j'},
		{"peers", no_argument, NULL, 'p'},
		{"only", required_argument, NULL, 'o'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		switch (c) {
		case 's': options->seconds = parse_number(optarg, 1, 3600); break;
		case 'r': options->rounds = parse_number(optarg, 1, ROUNDS_MAX); break;
		case 'b': parse_sizes(optarg, options); break;
		case 'k': parse_cores(optarg, options->core); break;
		case 't': options->transport = parse_transport(optarg); break;
		case 'd': options->domain = parse_number(optarg, 0, 232); break;
		case 'j': options->json = true; break;
		case 'p': options->peers = true; break;
		case 'o': options->only = optarg; break;
		case 'h': fputs(usage, stdout); exit(EXIT_DONE);
		default: fputs(usage, stderr); exit(EXIT_USAGE);
		}
	}
	if (optind < argc)
		refuse(argv[optind], "no argument is expected (try --help)");
	if (options->core[0] < 0)
		default_cores(options->core);
}

/* ---- the other process ---- */

struct meeting *meeting_create(void)
{
	void *m = mmap(NULL, sizeof(struct meeting), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (m == MAP_FAILED)
		die("no shared memory");
	return m;
}

pid_t fork_follower(uint32_t limit_seconds)
{
	pid_t parent = getpid(), pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		die("cannot fork");
	alarm(limit_seconds);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(EXIT_FAILED);
	}
	return pid;
}

static struct apus_participant *polled;

void poll_while_waiting(struct apus_participant *participant)
{
	polled = participant;
}

static void idle_once(void)
{
	/* Nothing is measured meanwhile: threads of the libraries have work to do, maybe on this core. */
	if (polled && apus_worker_poll(polled, 0) <= 0)
		usleep(100);
}

void give_order(struct meeting *m, pid_t follower, uint32_t order)
{
	/* Release, pairs with next_order(). */
	atomic_store_explicit(&m->order, order, memory_order_release);
	/* Acquire, pairs with begin_order(). */
	for (uint32_t i = 1; atomic_load_explicit(&m->begun, memory_order_acquire) != order; i++) {
		errno = 0;
		idle_once();
		if (i % 100000 == 0 && waitpid(follower, NULL, WNOHANG) == follower)
			die("the other process has ended");
	}
}

uint32_t next_order(const struct meeting *m, uint32_t last)
{
	uint32_t order;

	/* Acquire, pairs with give_order(). */
	while ((order = atomic_load_explicit(&m->order, memory_order_acquire)) == last)
		idle_once();
	return order;
}

int await_follower(pid_t follower)
{
	int status;

	if (waitpid(follower, &status, 0) != follower || !WIFEXITED(status))
		return EXIT_FAILED;
	return WEXITSTATUS(status);
}

double hand_line_over(struct meeting *m, uint32_t side)
{
	int64_t start = 0;

	for (uint32_t i = side; i < 2 * LINE_TURNS; i += 2) {
		/* Acquire and release: each side's store pairs with the other's load of it. */
		while (atomic_load_explicit(&m->line, memory_order_acquire) != i)
			;
		if (start == 0)
			start = now_ns(); /* both are there */
		atomic_store_explicit(&m->line, i + 1, memory_order_release);
	}
	/* Relaxed and acquire: the last store of the other side, so that the word can be used again. */
	while (side == 0 && atomic_load_explicit(&m->line, memory_order_acquire) != 2 * LINE_TURNS)
		;
	if (side == 0)
		atomic_store_explicit(&m->line, 0, memory_order_relaxed);
	return (double)(now_ns() - start) / (2 * LINE_TURNS);
}
