/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: one reader that dies and one that hangs do not disturb a third, nor the writer.
 * Method: a reliable KEEP_ALL writer and three readers, a process each. After a while the first is killed
 * (SIGKILL) and the second stopped; later the second is continued. What each has received, in what order, how
 * long the longest write took and how many failed is printed as JSON; cases_writer.py judges it.
 *
 * Usage: three_readers DOMAIN RATE BEFORE_S STOPPED_S AFTER_S HISTORY
 * Exit codes: 0 printed, 2 wrong usage, 3 failure. Everything is on loopback.
 */
#include <apus/apus.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define READERS     3
#define MS          INT64_C(1000000)
#define SEC         (1000 * MS)
#define BLOCKING_NS (100 * MS)

/* What a reader has seen; written by its process, read by the writer's. */
struct seen {
	_Atomic uint64_t received, gaps, disordered;
	_Atomic int32_t last, gap_end; /* number behind the latest gap */
};

static struct seen *seen;

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * SEC + ts.tv_nsec;
}

static void must(int result, const char *what)
{
	if (result == 0)
		return;
	fprintf(stderr, "three_readers: %s: %s\n", what, apus_strerror(result));
	exit(3);
}

static struct apus_participant *join(const char *domain)
{
	static const char *const settings[][2] = {
		{"interfaces", "lo"}, {"lease", "10min"}, {"demote.after", "200ms"}};
	struct apus_config *config = apus_config_create();
	struct apus_participant *p;
	char why[256] = "";

	must(apus_config_set(config, "domain", domain, NULL, 0), "domain");
	for (int i = 0; i < 3; i++)
		must(apus_config_set(config, settings[i][0], settings[i][1], NULL, 0),
		     settings[i][0]);
	must(apus_participant_create(config, &p, why, sizeof(why)), why);
	apus_config_destroy(config);
	return p;
}

static struct apus_endpoint_options options_for(struct apus_qos *qos, bool writer, uint32_t history)
{
	if (writer)
		apus_qos_writer_default(qos);
	else
		apus_qos_reader_default(qos);
	qos->reliability = APUS_RELIABLE;
	qos->history = APUS_KEEP_ALL;
	qos->max_samples = qos->max_samples_per_instance = history;
	qos->max_instances = 2;
	qos->max_blocking_ns = BLOCKING_NS;
	return (struct apus_endpoint_options){
		.topic = "Three", .type = &apus_shape_type, .qos = qos};
}

static void note(struct seen *s, int32_t x)
{
	int32_t last = atomic_load(&s->last);

	if (x <= last) {
		atomic_fetch_add(&s->disordered, 1);
	} else if (x != last + 1) {
		atomic_fetch_add(&s->gaps, 1);
		atomic_store(&s->gap_end, x);
	}
	atomic_store(&s->last, x);
	atomic_fetch_add(&s->received, 1);
}

static void __attribute__((noreturn))
reader_main(const char *domain, uint32_t history, struct seen *mine)
{
	struct apus_participant *p = join(domain);
	struct apus_qos qos;
	struct apus_endpoint_options o = options_for(&qos, false, history);
	struct apus_reader *reader;
	struct apus_sample samples[64];
	struct apus_shape shape;
	int n;

	must(apus_reader_create(p, &o, &reader), "reader");
	for (;;) {
		apus_reader_wait(reader, SEC);
		while ((n = apus_take(reader, samples, 64, NULL)) > 0) {
			for (int i = 0; i < n; i++)
				if (samples[i].info.valid_data &&
				    apus_type_decode(&apus_shape_type, samples[i].payload,
						     samples[i].payload_bytes, false, &shape, NULL,
						     0) >= 0)
					note(mine, shape.x);
			apus_return(reader, samples, (uint32_t)n);
		}
	}
}

struct writing {
	struct apus_writer *writer;
	int32_t x; /* last number written */
	uint64_t failed;
	int64_t longest_ns;
};

static void write_next(struct writing *w)
{
	struct apus_shape shape = {.color = "RED", .x = w->x + 1};
	int64_t begun = now_ns(), took;
	int rc = apus_write(w->writer, &shape);

	took = now_ns() - begun;
	if (took > w->longest_ns)
		w->longest_ns = took;
	if (rc == 0)
		w->x++;
	else if (rc == APUS_ETIMEDOUT)
		w->failed++;
	else
		must(rc, "write");
}

/* A phase: samples at the rate, ten a millisecond at 10,000; prints what came of it. */
static void phase(struct writing *w, const char *name, double rate, double seconds)
{
	int64_t begun = now_ns(), end = begun + (int64_t)(seconds * 1e9), now = begun;
	uint64_t received = atomic_load(&seen[2].received), failed = w->failed;
	int32_t first = w->x;
	struct timespec nap = {0, MS};

	while (now < end) {
		int64_t due = (int64_t)((double)(now - begun) * rate / 1e9);

		while (w->x - first < due && now < end) {
			write_next(w);
			now = now_ns();
		}
		nanosleep(&nap, NULL);
		now = now_ns();
	}
	printf("{\"phase\":\"%s\",\"seconds\":%.3f,\"written\":%d,\"failed\":%llu,\"third\":%llu}\n",
	       name, (double)(now - begun) / 1e9, w->x - first,
	       (unsigned long long)(w->failed - failed),
	       (unsigned long long)(atomic_load(&seen[2].received) - received));
}

static void print_stat(const struct apus_stat *stat, void *user)
{
	(void)user;
	if (strstr(stat->name, "demot") || strstr(stat->name, "returns"))
		printf("{\"stat\":\"%s\",\"value\":%llu}\n", stat->name,
		       (unsigned long long)stat->value);
}

static void print_end(struct writing *w, int32_t continued)
{
	printf("{\"end\":true,\"last\":%d,\"continued\":%d,\"longest_us\":%lld,\"blocking_us\":%lld,"
	       "\"readers\":[",
	       w->x, continued, (long long)(w->longest_ns / 1000), (long long)(BLOCKING_NS / 1000));
	for (int i = 0; i < READERS; i++)
		printf("%s{\"received\":%llu,\"gaps\":%llu,\"gap_end\":%d,\"disordered\":%llu,\"last\":%d}",
		       i ? "," : "", (unsigned long long)atomic_load(&seen[i].received),
		       (unsigned long long)atomic_load(&seen[i].gaps),
		       atomic_load(&seen[i].gap_end),
		       (unsigned long long)atomic_load(&seen[i].disordered),
		       atomic_load(&seen[i].last));
	printf("]}\n");
}

static void start_readers(const char *domain, uint32_t history, pid_t *pids)
{
	for (int i = 0; i < READERS; i++) {
		pids[i] = fork();
		if (pids[i] < 0)
			exit(3);
		if (pids[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			alarm(600);
			reader_main(domain, history, &seen[i]);
		}
	}
}

int main(int argc, char **argv)
{
	struct writing w = {0};
	struct apus_participant *p;
	struct apus_qos qos;
	struct apus_endpoint_options o;
	pid_t pids[READERS];
	uint32_t history;
	int32_t continued;

	if (argc != 7) {
		fprintf(stderr,
			"usage: three_readers DOMAIN RATE BEFORE_S STOPPED_S AFTER_S HISTORY\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	history = (uint32_t)atoi(argv[6]);
	seen = mmap(NULL, READERS * sizeof(*seen), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	start_readers(argv[1], history, pids);
	p = join(argv[1]);
	o = options_for(&qos, true, history);
	must(apus_writer_create(p, &o, &w.writer), "writer");
	must(apus_writer_wait_matched(w.writer, READERS, 20 * SEC), "match");
	phase(&w, "before", atof(argv[2]), atof(argv[3]));
	kill(pids[0], SIGKILL);
	kill(pids[1], SIGSTOP);
	phase(&w, "stopped", atof(argv[2]), atof(argv[4]));
	apus_visit_writer_stats(w.writer, print_stat, NULL);
	continued = w.x;
	kill(pids[1], SIGCONT);
	phase(&w, "continued", atof(argv[2]), atof(argv[5]));
	for (int i = 0;
	     i < 100 && (atomic_load(&seen[1].last) < w.x || atomic_load(&seen[2].last) < w.x); i++)
		usleep(50000);
	apus_visit_writer_stats(w.writer, print_stat, NULL);
	print_end(&w, continued);
	for (int i = 1; i < READERS; i++)
		kill(pids[i], SIGKILL);
	apus_participant_destroy(p);
	return 0;
}
