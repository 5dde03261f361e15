/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One implementation on one route, between two pinned sides of this host: round trips, streams, fan-out, and what
 * starting takes. Built once for each implementation (routes_apus, routes_iceoryx …), so that memory and start are
 * one implementation's; scripts/bench runs them in turns and puts them beside each other.
 */
#include "routes.h"

#include "routes_start.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef ROUTES_PEER
#define ROUTES_PEER peer_apus
#endif

#define MATCH_NS (20 * NS_PER_SEC)
#define IDLE_US  200

static const struct {
	const char *name;
	void (*open)(struct side *s);
	void (*lead)(struct side *s);
	void (*follow)(struct side *s, uint32_t order);
} modes[MODES] = {
	[MODE_LATENCY] = {"latency", latency_open, latency_lead, latency_follow},
	[MODE_STREAM] = {"stream", stream_open, stream_lead, stream_follow},
	[MODE_FANOUT] = {"fanout", stream_open, stream_lead, stream_follow},
	[MODE_START] = {"start", NULL, NULL, NULL},
};

/* ---- both sides ---- */

void routes_poll(struct side *s)
{
	if (!s->peer->poll) {
		usleep(IDLE_US);
		return;
	}
	for (uint32_t i = 0; i < READERS_MAX && s->in[s->size_idx][i].end; i++)
		s->peer->poll(s->in[s->size_idx][i].end);
	if (s->out[s->size_idx] && !s->in[s->size_idx][0].end)
		s->peer->poll(s->out[s->size_idx]);
}

/* Nothing is measured: other threads may have this core. */
static void wait_a_little(struct side *s)
{
	routes_poll(s);
	if (s->peer->poll)
		sched_yield();
}

void routes_order(struct side *s, uint32_t order)
{
	/* Release, pairs with await_order(): what the order needs is there. */
	atomic_store_explicit(&s->shared->order, order, memory_order_release);
	/* Acquire, pairs with follow(): what the last order left is there. */
	while (atomic_load_explicit(&s->shared->begun, memory_order_acquire) != order)
		wait_a_little(s);
}

bool routes_order_stands(const struct side *s, uint32_t order)
{
	/* Relaxed: a flag to stop at. */
	return atomic_load_explicit(&s->shared->order, memory_order_relaxed) == order;
}

static uint32_t await_order(struct side *s, uint32_t last)
{
	uint32_t order;

	/* Acquire, pairs with routes_order(). */
	while ((order = atomic_load_explicit(&s->shared->order, memory_order_acquire)) == last)
		wait_a_little(s);
	return order;
}

bool routes_put(struct side *s)
{
	void *loan;

	s->number++;
	if (!s->o->lent) {
		memcpy(s->source, &s->number, sizeof(s->number));
		if (s->peer->write(s->out[s->size_idx], s->source))
			return true;
	} else {
		loan = s->peer->loan(s->out[s->size_idx]);
		if (loan) {
			memcpy(loan, &s->number, sizeof(s->number));
			return s->peer->publish(s->out[s->size_idx], loan);
		}
	}
	s->number--;
	return false;
}

void *routes_open(struct side *s, uint32_t size_idx, bool writer, const char *topic,
		  void (*on_sample)(void *user, const void *sample), void *user)
{
	const struct routes_options *o = s->o;
	uint32_t history = (32u << 20) / o->bytes[size_idx];
	struct peer_options p = {.domain = o->domain,
				 .writer = writer,
				 .reliable = o->reliable,
				 .batch = o->batch,
				 .bytes = o->bytes[size_idx],
				 .history = history < 1024 ? history : 1024,
				 .on_sample = on_sample,
				 .user = user,
				 .route = o->route,
				 .topic = topic,
				 .echoes = o->mode == MODE_LATENCY,
				 .side = s->idx,
				 .address = o->address[s->idx & 1],
				 .other = o->address[!(s->idx & 1)],
				 .settings = o->setting_count ? o->settings[s->idx & 1] : NULL};
	void *end;

	if (s->idx == 2) { /* before there are sides */
		s->peer->prepare(&p);
		return NULL;
	}
	errno = 0;
	end = s->peer->open(&p);
	if (!end)
		die("an endpoint cannot be opened");
	return end;
}

/* True once every endpoint has the counterparts it needs. */
static bool is_matched(const struct side *s)
{
	uint32_t readers = s->o->mode == MODE_LATENCY ? 1 : s->o->readers;

	for (uint32_t i = 0; i < s->o->size_count; i++) {
		if (s->out[i] && s->peer->matched(s->out[i]) < readers)
			return false;
		for (uint32_t k = 0; k < READERS_MAX && s->in[i][k].end; k++)
			if (!s->peer->matched(s->in[i][k].end))
				return false;
	}
	return true;
}

/* Before anything of this side is opened. */
static void enter_netns(const char *name)
{
	char path[128];
	int fd;

	if (!name)
		return;
	snprintf(path, sizeof(path), "/run/netns/%s", name);
	errno = 0;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET) != 0)
		die(path);
	close(fd);
}

static void open_side(struct side *s)
{
	size_t room = (size_t)BATCH * 65536;
	int64_t limit = now_ns() + MATCH_NS;

	enter_netns(s->o->netns[s->idx]);
	pin(s->o->core[s->idx]); /* first: threads of libraries inherit it */
	s->source = aligned_alloc(4096, room);
	s->sink = aligned_alloc(4096, room);
	if (!s->source || !s->sink)
		die("no memory");
	memset(s->source, 1, room);
	memset(s->sink, 1, room);
	/* The client of a memif finds its server, or fails. Acquire, pairs with the release below. */
	while (s->o->setting_count && s->idx == 1 &&
	       atomic_load_explicit(&s->shared->opened, memory_order_acquire) == 0)
		usleep(1000);
	modes[s->o->mode].open(s);
	if (s->idx == 0)
		/* Release: this side can be found. */
		atomic_store_explicit(&s->shared->opened, 1, memory_order_release);
	while (!is_matched(s)) {
		wait_a_little(s);
		if (s->peer->poll)
			for (uint32_t i = 0; i < s->o->size_count; i++)
				if (s->out[i])
					s->peer->poll(s->out[i]);
		if (now_ns() > limit) {
			errno = 0;
			die("the two sides did not find each other");
		}
	}
}

static void *follow(void *arg)
{
	struct side *s = arg;
	uint32_t order = 0;

	open_side(s);
	for (;;) {
		order = await_order(s, order);
		s->size_idx = (order - ORDER_BLOCK) % SIZES_MAX;
		if (order < ORDER_BLOCK)
			s->size_idx = 0;
		/* Release, pairs with routes_order(). */
		atomic_store_explicit(&s->shared->begun, order, memory_order_release);
		if (order == ORDER_END)
			break;
		if (order == ORDER_LINE)
			hand_line_over(&s->shared->meeting, 1);
		else
			modes[s->o->mode].follow(s, order);
	}
	return NULL;
}

/* ---- results ---- */

void routes_print_histogram(const struct side *s, const struct histogram *h)
{
	static const struct {
		const char *name;
		double share;
	} marks[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}};
	char path[256];
	FILE *file;

	printf("\"count\":%llu,\"min_ns\":%llu,", (unsigned long long)h->count,
	       (unsigned long long)h->min_ns);
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		printf("\"%s_ns\":%llu,", marks[i].name,
		       (unsigned long long)histogram_quantile(h, marks[i].share));
	printf("\"max_ns\":%llu,\"histogram\":", (unsigned long long)h->max_ns);
	histogram_json(h, stdout);
	if (!s->o->hgrm)
		return;
	snprintf(path, sizeof(path), "%s%s_%s_%u.hgrm", s->o->hgrm, s->peer->name,
		 s->o->route ? s->o->route : s->peer->routes[0], s->o->bytes[s->size_idx]);
	errno = 0;
	file = fopen(path, "w");
	if (!file)
		die(path);
	histogram_hgrm(h, file);
	fclose(file);
}

static void lead(struct side *s)
{
	uint32_t order = ORDER_BLOCK;
	double line_ns;

	open_side(s);
	routes_order(s, ORDER_LINE);
	line_ns = hand_line_over(&s->shared->meeting, 0);
	printf("{\"peer\":\"%s\",\"version\":\"%s\",\"route\":\"%s\",\"mode\":\"%s\",\"reliable\":%s,"
	       "\"batch\":%s,\"lent\":%s,\"rate\":%u,\"readers\":%u,\"cache_line_one_way_ns\":%.1f,"
	       "\"results\":[",
	       s->peer->name, s->peer->version(), s->o->route ? s->o->route : s->peer->routes[0],
	       modes[s->o->mode].name, s->o->reliable ? "true" : "false",
	       s->o->batch ? "true" : "false", s->o->lent ? "true" : "false", s->o->rate,
	       s->o->readers, line_ns);
	for (uint32_t i = 0; i < s->o->size_count; i++, order += SIZES_MAX) {
		s->size_idx = i;
		printf("%s{\"bytes\":%u,", i ? "," : "", s->o->bytes[i]);
		routes_order(s, order + i);
		modes[s->o->mode].lead(s);
		printf("}");
	}
	routes_order(s, ORDER_END);
	printf("]}\n");
}

/* ---- the two sides ---- */

static struct shared *share(void)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (shared == MAP_FAILED)
		die("no shared memory");
	return shared;
}

static int run_pair(const struct routes_options *o, const struct peer *peer)
{
	static struct side leader, follower;
	struct shared *shared = share();
	bool threads = o->route && strcmp(o->route, "process") == 0;
	uint32_t limit_s = 60 + o->size_count * o->block_ms / 250;
	pthread_t thread;
	pid_t pid = -1;
	int rc = 0;

	leader = (struct side){.o = o, .peer = peer, .shared = shared, .idx = 2};
	if (peer->prepare)
		modes[o->mode].open(&leader);
	leader = (struct side){.o = o, .peer = peer, .shared = shared, .idx = 0};
	follower = (struct side){.o = o, .peer = peer, .shared = shared, .idx = 1};
	if (threads) {
		alarm(limit_s);
		rc = pthread_create(&thread, NULL, follow, &follower);
		if (rc != 0)
			die("no thread");
	} else {
		pid = fork_follower(limit_s);
		if (pid == 0) {
			follow(&follower);
			if (peer->leave)
				peer->leave();
			exit(EXIT_DONE);
		}
	}
	lead(&leader);
	fflush(stdout);
	if (threads)
		pthread_join(thread, NULL);
	else
		rc = await_follower(pid);
	if (peer->leave)
		peer->leave();
	return rc == 0 ? EXIT_DONE : EXIT_FAILED;
}

/* ---- the command line ---- */

static void __attribute__((noreturn)) refuse(const char *text, const char *reason)
{
	fprintf(stderr, "routes: '%s': %s\n", text, reason);
	exit(EXIT_USAGE);
}

static uint32_t number_of(const char *text, uint32_t low, uint32_t high)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || n < low || n > high)
		refuse(text, "not a number in range (try --help)");
	return (uint32_t)n;
}

static void parse_sizes(const char *text, struct routes_options *o)
{
	static const uint32_t sizes[] = PEER_SIZES;
	char copy[128], *rest = copy, *word;

	snprintf(copy, sizeof(copy), "%s", text);
	o->size_count = 0;
	while ((word = strsep(&rest, ","))) {
		uint32_t bytes = number_of(word, 16, BYTES_MAX), known = 0;

		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
			known |= sizes[i] == bytes;
		if (!known || o->size_count == SIZES_MAX)
			refuse(text, "not up to 8 of the sizes there are (try --help)");
		o->bytes[o->size_count++] = bytes;
	}
}

static void parse_route(const char *text, const struct peer *peer, struct routes_options *o)
{
	for (uint32_t i = 0; peer->routes[i]; i++)
		if (strcmp(peer->routes[i], text) == 0) {
			o->route = peer->routes[i];
			return;
		}
	refuse(text, "no route of this implementation");
}

static void parse_mode(const char *text, struct routes_options *o)
{
	for (uint32_t i = 0; i < MODES; i++)
		if (strcmp(modes[i].name, text) == 0) {
			o->mode = (enum mode)i;
			return;
		}
	refuse(text, "no mode");
}

/* "A,B", cut in place: one for each side. */
static void parse_two(char *text, const char *out[2])
{
	char *comma = strchr(text, ',');

	if (!comma || comma == text || !comma[1] || strchr(comma + 1, ','))
		refuse(text, "not two, with a comma between them");
	*comma = '\0';
	out[0] = text;
	out[1] = comma + 1;
}

/* "NAME=VALUE" for both sides, or "NAME=LEADER'S|FOLLOWER'S". */
static void parse_setting(const char *text, struct routes_options *o)
{
	const char *equals = strchr(text, '='), *bar = strchr(text, '|');
	char *both[2];

	if (!equals || equals == text || o->setting_count == SETTINGS_MAX)
		refuse(text, "not up to 16 of the form NAME=VALUE");
	if (asprintf(&both[0], "%.*s", (int)(bar ? bar - text : (long)strlen(text)), text) < 0 ||
	    asprintf(&both[1], "%.*s=%s", (int)(equals - text), text, bar ? bar + 1 : equals + 1) <
		    0)
		die("no memory");
	for (int i = 0; i < 2; i++)
		o->settings[i][o->setting_count] = both[i];
	o->setting_count++;
}

static const char usage[] =
	"usage: routes_NAME [options]\n"
	"  --mode MODE        latency (round trips), stream, fanout (cost of a write), start\n"
	"  --route NAME       which way samples take; the first of: %s\n"
	"  --bytes N[,N]...   of 16, 64, 256, 1024, 4096, 65536, 1048576 (default 64)\n"
	"  --ms N             time measured for each size, 1 to 60000 (default 100)\n"
	"  --rate N           latency: so many a second, timed from when each was due (default: as fast as\n"
	"                     they return)\n"
	"  --readers N        stream, fanout: 1 to 8 readers (default 1)\n"
	"  --repeats N        start: how often, 1 to 100 (default 5)\n"
	"  --batch            stream: 64 samples a call, where that exists\n"
	"  --lent             payloads are lent, and only their first 8 bytes touched\n"
	"  --best-effort      instead of reliable\n"
	"  --cores A,B        where the two sides run (default 0,1)\n"
	"  --domain N         0 to 230 (default 179)\n"
	"  --netns A,B        network namespaces (of /run/netns) that the two sides enter\n"
	"  --address A,B      their addresses there, instead of 127.0.0.1\n"
	"  --set NAME=V[|W]   a setting of both sides, or V of the leading one and W of the other\n"
	"  --hgrm PREFIX      writes histograms as PREFIXname_route_bytes.hgrm, too\n"
	"Prints one JSON object. Exit codes: 0 done, 2 wrong usage, 3 failure.\n";

static void print_usage(FILE *to, const struct peer *peer)
{
	char routes[128] = "";

	for (uint32_t i = 0; peer->routes[i]; i++) {
		strncat(routes, i ? ", " : "", sizeof(routes) - strlen(routes) - 1);
		strncat(routes, peer->routes[i], sizeof(routes) - strlen(routes) - 1);
	}
	fprintf(to, usage, routes);
}

static void parse(int argc, char **argv, const struct peer *peer, struct routes_options *o)
{
	static const struct option longs[] = {
		{"mode", required_argument, NULL, 'm'},
		{"route", required_argument, NULL, 'r'},
		{"bytes", required_argument, NULL, 'b'},
		{"ms", required_argument, NULL, 't'},
		{"rate", required_argument, NULL, 'f'},
		{"readers", required_argument, NULL, 'n'},
		{"repeats", required_argument, NULL, 'c'},
		{"batch", no_argument, NULL, 'B'},
		{"lent", no_argument, NULL, 'l'},
		{"best-effort", no_argument, NULL, 'e'},
		{"cores", required_argument, NULL, 'k'},
		{"domain", required_argument, NULL, 'd'},
		{"hgrm", required_argument, NULL, 'g'},
		{"netns", required_argument, NULL, 'N'},
		{"address", required_argument, NULL, 'A'},
		{"set", required_argument, NULL, 'S'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	char rest;
	int c;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		switch (c) {
		case 'm': parse_mode(optarg, o); break;
		case 'r': parse_route(optarg, peer, o); break;
		case 'b': parse_sizes(optarg, o); break;
		case 't': o->block_ms = number_of(optarg, 1, 60000); break;
		case 'f': o->rate = number_of(optarg, 1, 1000000); break;
		case 'n': o->readers = number_of(optarg, 1, READERS_MAX); break;
		case 'c': o->repeats = number_of(optarg, 1, 100); break;
		case 'B': o->batch = true; break;
		case 'l': o->lent = true; break;
		case 'e': o->reliable = false; break;
		case 'k':
			if (sscanf(optarg, "%d,%d%c", &o->core[0], &o->core[1], &rest) != 2 ||
			    o->core[0] < 0 || o->core[1] < 0)
				refuse(optarg, "not two cores");
			break;
		case 'd': o->domain = number_of(optarg, 0, 230); break;
		case 'g': o->hgrm = optarg; break;
		case 'N': parse_two(optarg, o->netns); break;
		case 'A': parse_two(optarg, o->address); break;
		case 'S': parse_setting(optarg, o); break;
		case 'h': print_usage(stdout, peer); exit(EXIT_DONE);
		default: print_usage(stderr, peer); exit(EXIT_USAGE);
		}
	}
	if (optind < argc)
		refuse(argv[optind], "no argument is expected (try --help)");
	if (o->lent && !peer->loan)
		refuse("--lent", "this implementation has no such thing");
	if (o->netns[0] &&
	    (o->mode == MODE_START || (o->route && strcmp(o->route, "process") == 0)))
		refuse("--netns", "only where the sides are processes, and not for their start");
	if (o->batch && o->mode != MODE_STREAM)
		refuse("--batch", "only streams are batched");
}

int main(int argc, char **argv)
{
	struct routes_options o = {.bytes = {64},
				   .size_count = 1,
				   .block_ms = 100,
				   .readers = 1,
				   .repeats = 5,
				   .reliable = true,
				   .domain = 179,
				   .core = {0, 1}};

	program_name = "routes";
	if (argc == 4 && strcmp(argv[1], START_SIDE) == 0)
		return start_side(ROUTES_PEER, argv[2], argv[3]);
	parse(argc, argv, ROUTES_PEER, &o);
	return o.mode == MODE_START ? start_main(ROUTES_PEER, &o) : run_pair(&o, ROUTES_PEER);
}
