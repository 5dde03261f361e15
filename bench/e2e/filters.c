/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a content filter costs a sample, of Apus beside Fast DDS (DDSSQL) and Cyclone DDS (a function in C), in one
 * run: the difference of a write to a filtered reader and to an unfiltered one in the same process, both of which
 * take the sample. Processor time of the writing thread, in which all three deliver. The implementations take
 * turns, round by round; medians are printed, and beside them what compiling a filter costs, and a change of its
 * parameter. Traffic: loopback; give it a network namespace of its own.
 *
 * filters [--rounds N] [--domain N]
 */
#include "common.h"
#include "filters.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WRITES   2000
#define COMPILES 50

const char *const filters_expressions[FILTERS_COUNT] = {
	"x > %0",
	"x > %0 AND color = 'RED'",
	"(x > 0 AND x < 1000 AND y >= 1 AND y <= 900) AND "
	"(shapesize = 30 OR shapesize = 40 OR shapesize BETWEEN %0 AND 60) AND "
	"NOT (x = 7 OR y = 8) AND color LIKE 'R%D'",
};
static const char *const what[FILTERS_COUNT] = {"one integer", "integer and colour",
						"ten terms with LIKE"};

static const struct filters_peer *const peers[] = {
	&filters_apus,
#ifdef BENCH_FASTDDS
	&filters_fastdds,
#endif
#ifdef BENCH_CYCLONE
	&filters_cyclone,
#endif
};
#define PEERS ((int)(sizeof(peers) / sizeof(peers[0])))

static double thread_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static double time_writes(const struct filters_peer *p, int filtered)
{
	double begin = thread_ns();

	for (int i = 0; i < WRITES; i++)
		p->write(filtered, 100 + i % 100);
	return (thread_ns() - begin) / WRITES;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, int count)
{
	qsort(values, (size_t)count, sizeof(*values), compare);
	return values[count / 2];
}

static void compare_writes(int which, int rounds)
{
	static double plain[8][ROUNDS_MAX], filtered[8][ROUNDS_MAX], added[8][ROUNDS_MAX];

	for (int k = 0; k < PEERS; k++)
		peers[k]->set(which);
	for (int r = 0; r < rounds; r++) {
		for (int k = 0; k < PEERS; k++) {
			uint64_t before = peers[k]->received();

			plain[k][r] = time_writes(peers[k], 0);
			filtered[k][r] = time_writes(peers[k], 1);
			added[k][r] = filtered[k][r] - plain[k][r];
			if (peers[k]->received() - before < WRITES) {
				fprintf(stderr, "filters: %s: samples did not pass\n",
					peers[k]->name);
				exit(EXIT_FAILED);
			}
		}
	}
	for (int k = 0; k < PEERS; k++)
		printf("%-20s %-12s %10.0f %10.0f %10.0f\n", what[which], peers[k]->name,
		       median(plain[k], rounds), median(filtered[k], rounds),
		       median(added[k], rounds));
}

static void compare_compiling(int rounds)
{
	static double compiled[8][ROUNDS_MAX], changed[8][ROUNDS_MAX];
	static const char *const values[] = {"41", "42"};

	for (int r = 0; r < rounds; r++) {
		for (int k = 0; k < PEERS; k++) {
			double begin = thread_ns();

			for (int i = 0; peers[k]->compile && i < COMPILES; i++)
				peers[k]->compile(FILTERS_COUNT - 1);
			compiled[k][r] = (thread_ns() - begin) / COMPILES;
			begin = thread_ns();
			for (int i = 0; peers[k]->set_parameter && i < COMPILES; i++)
				peers[k]->set_parameter(values[i % 2]);
			changed[k][r] = (thread_ns() - begin) / COMPILES;
		}
	}
	printf("\n%-20s %-12s %10s %10s\n", "us, ten terms", "", "compile", "parameter");
	for (int k = 0; k < PEERS; k++)
		if (peers[k]->compile)
			printf("%-20s %-12s %10.1f %10.1f\n", "", peers[k]->name,
			       median(compiled[k], rounds) / 1e3, median(changed[k], rounds) / 1e3);
}

static long number(const char *text)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (*end || n < 1 || n > ROUNDS_MAX) {
		fprintf(stderr, "filters: a number from 1 to %d\n", ROUNDS_MAX);
		exit(EXIT_USAGE);
	}
	return n;
}

int main(int argc, char **argv)
{
	long rounds = 21, domain = 47;

	program_name = "filters";
	for (int i = 1; i < argc; i += 2) {
		if (i + 1 < argc && strcmp(argv[i], "--rounds") == 0)
			rounds = number(argv[i + 1]);
		else if (i + 1 < argc && strcmp(argv[i], "--domain") == 0)
			domain = number(argv[i + 1]);
		else {
			fprintf(stderr, "usage: filters [--rounds N] [--domain N]\n");
			return EXIT_USAGE;
		}
	}
	for (int k = 0; k < PEERS; k++)
		peers[k]->open((uint32_t)(domain + k));
	sleep(1); /* endpoints of one process find each other */
	printf("%-20s %-12s %10s %10s %10s\n", "ns a write", "", "plain", "filtered", "filter");
	for (int which = 0; which < FILTERS_COUNT; which++)
		compare_writes(which, (int)rounds);
	compare_compiling((int)rounds);
	/* The others' threads and destructors are not what is measured. */
	fflush(stdout);
	_exit(EXIT_DONE);
}
