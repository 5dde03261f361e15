/* SPDX-License-Identifier: Apache-2.0 */
/* Start and idle memory; see routes_start.h. Nobody is pinned, and everything is as applications have it by default. */
#include "routes_start.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define IDLE_MS  500
#define LIMIT_NS (15 * NS_PER_SEC)

static void nothing(void *user, const void *sample)
{
	(void)user;
	(void)sample;
}

static void *open_end(const struct peer *peer, const char *route, uint32_t domain, uint32_t side,
		      bool writer)
{
	struct peer_options p = {.domain = domain,
				 .writer = writer,
				 .reliable = true,
				 .bytes = 64,
				 .history = 16,
				 .on_sample = nothing,
				 .route = route,
				 .topic = writer == (side == 0) ? "ping" : "pong",
				 .spawned = true};
	void *end = peer->open(&p);

	errno = 0;
	if (!end)
		die("an endpoint cannot be opened");
	return end;
}

/* Proportional set size of this process in KiB: all, and what no file is behind. */
static void memory_of_this(long *pss_out, long *anon_out)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	char line[256];

	*pss_out = *anon_out = -1;
	while (file && fgets(line, sizeof(line), file)) {
		(void)sscanf(line, "Pss: %ld", pss_out);
		(void)sscanf(line, "Pss_Anon: %ld", anon_out);
	}
	if (file)
		fclose(file);
}

static void pause_ms(long ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	nanosleep(&t, NULL);
}

int start_side(const struct peer *peer, const char *begin_ns, const char *spec)
{
	char route[32];
	unsigned domain, side;
	int64_t begin = strtoll(begin_ns, NULL, 10), matched;
	void *end[2];
	long pss, anon;

	if (sscanf(spec, "%31[^,],%u,%u", route, &domain, &side) != 3)
		return EXIT_USAGE;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(60);
	for (int i = 0; i < 2; i++)
		end[i] = open_end(peer, route, domain, side, i == 0);
	if (side == 0)
		printf("ready\n");
	fflush(stdout);
	while (!peer->matched(end[0]) || !peer->matched(end[1])) {
		if (now_ns() - begin > LIMIT_NS && side != 0)
			return EXIT_TIMED_OUT;
		usleep(100);
	}
	matched = now_ns();
	pause_ms(IDLE_MS);
	memory_of_this(&pss, &anon);
	if (side == 1) {
		printf("%lld %ld %ld\n", (long long)(matched - begin), pss, anon);
		fflush(stdout);
	}
	/* The other one stays until it is told to go. */
	if (side == 0)
		(void)getchar();
	if (peer->leave)
		peer->leave();
	return EXIT_DONE;
}

/* ---- the parent ---- */

struct child {
	pid_t pid;
	FILE *from;
	int to;
};

static struct child spawn(const struct peer *peer, const struct routes_options *o, uint32_t side)
{
	char begin[32], spec[96];
	int in[2], out[2];
	struct child c;

	if (pipe(in) != 0 || pipe(out) != 0)
		die("no pipe");
	snprintf(spec, sizeof(spec), "%s,%u,%u", o->route ? o->route : peer->routes[0], o->domain,
		 side);
	snprintf(begin, sizeof(begin), "%lld", (long long)now_ns());
	fflush(NULL);
	c.pid = fork();
	if (c.pid < 0)
		die("cannot fork");
	if (c.pid == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		for (int i = 0; i < 2; i++) {
			close(in[i]);
			close(out[i]);
		}
		execl("/proc/self/exe", "routes", START_SIDE, begin, spec, (char *)NULL);
		_exit(EXIT_FAILED);
	}
	close(in[0]);
	close(out[1]);
	c.to = in[1];
	c.from = fdopen(out[0], "r");
	return c;
}

static bool end_child(struct child *c)
{
	int status = -1;

	close(c->to);
	fclose(c->from);
	waitpid(c->pid, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_DONE;
}

static bool once(const struct peer *peer, const struct routes_options *o, bool first)
{
	struct child a = spawn(peer, o, 0), b;
	char line[256];
	long long ns;
	long pss, anon;
	bool good;

	/* Libraries may print lines of their own first. */
	while ((good = fgets(line, sizeof(line), a.from)) && strcmp(line, "ready\n") != 0)
		;
	if (!good) {
		end_child(&a);
		return false;
	}
	pause_ms(200);
	b = spawn(peer, o, 1);
	while ((good = fgets(line, sizeof(line), b.from)) &&
	       sscanf(line, "%lld %ld %ld", &ns, &pss, &anon) != 3)
		;
	good &= end_child(&b);
	good &= end_child(&a);
	if (good)
		printf("%s{\"start_to_matched_ns\":%lld,\"pss_kib\":%ld,\"anonymous_kib\":%ld}",
		       first ? "" : ",", ns, pss, anon);
	return good;
}

int start_main(const struct peer *peer, const struct routes_options *o)
{
	bool good = true;

	signal(SIGPIPE, SIG_IGN);
	printf("{\"peer\":\"%s\",\"version\":\"%s\",\"route\":\"%s\",\"mode\":\"start\",\"results\":[",
	       peer->name, peer->version(), o->route ? o->route : peer->routes[0]);
	for (uint32_t i = 0; i < o->repeats && good; i++)
		good = once(peer, o, i == 0);
	printf("]}\n");
	return good ? EXIT_DONE : EXIT_FAILED;
}
