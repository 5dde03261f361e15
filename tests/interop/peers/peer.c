/* SPDX-License-Identifier: Apache-2.0 */
/* Command line, clocks and output of the peer programs. See peer.h. */
#include "peer.h"

#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static volatile sig_atomic_t stopped;

static const char help[] =
	"usage: %s pub|sub --topic T [options]\n"
	"  --domain N               domain id, 0…230 (0)\n"
	"  --reliable|--best-effort reliability (reliable)\n"
	"  --transient-local        durability (volatile)\n"
	"  --depth N|--keep-all     history (keep last 1)\n"
	"  --partition P            repeatable\n"
	"  --ownership shared|exclusive   --strength N\n"
	"  --deadline MS  --lifespan MS   (infinite)   --latency MS (0)   --by-source\n"
	"  --liveliness automatic|participant|topic   --live MS   (automatic, infinite)\n"
	"  --later-deadline MS      apus: change the deadline to this when the first sample has passed\n"
	"  --assert MS              pub: assert liveliness that often, half of the lingering\n"
	"  --lease S                participant lease (the vendor's default)\n"
	"  --count N                samples to write, or to await (0: no end)\n"
	"  --not-alive N            sub: also await N not-alive states (0)\n"
	"  --joins N  --pause MS    sub: N readers one after the other, each for --count samples and\n"
	"                           --timeout, with random pauses of up to MS between them (20)\n"
	"  --rate HZ                pub: samples a second (0: as fast as accepted)\n"
	"  --colors A,B,…           pub: keys, in turn (RED)\n"
	"  --size N                 pub: shapesize (30)\n"
	"  --modulo N               pub: x swings between 1 and N (0: counts up)\n"
	"  --wait-matched N         pub: readers to await first (0)\n"
	"  --settle S               pub: pause between the match and the first sample (0)\n"
	"  --at S                   pub: no sample before that second of the wall clock\n"
	"  --dispose C  --unregister C    pub: after the last sample, in this order\n"
	"  --filter EXPR  --param V sub: content filter and its parameters (Fast DDS only)\n"
	"  --heartbeat MS           pub: heartbeat period (the vendor's default)\n"
	"  --linger S               stay that long when finished (0)\n"
	"  --timeout S              give up after (60)\n"
	"  --interface NAME|ADDR    (127.0.0.1)   --multicast|--peer ADDR   discovery (multicast)\n";

static void wrong_usage(const char *program, const char *what, const char *value)
{
	fprintf(stderr, "%s: %s '%s' (try --help)\n", program, what, value);
	exit(2);
}

static long number(char **argv, const char *text, long low, long high)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (end == text || *end || value < low || value > high)
		wrong_usage(argv[0], "not a number in range:", text);
	return value;
}

static double seconds(char **argv, const char *text)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= 0 && value <= 1e6))
		wrong_usage(argv[0], "not a number in range:", text);
	return value;
}

static double wall_second(char **argv, const char *text)
{
	char *end;
	double value = strtod(text, &end), now = (double)peer_wall_ns() / 1e9;

	if (end == text || *end || !(value >= 0 && value <= now + 1e4))
		wrong_usage(argv[0], "not a second soon:", text);
	return value;
}

static void append(char **argv, const char **list, int *count, const char *value)
{
	if (*count == PEER_LIST_MAX)
		wrong_usage(argv[0], "too many values, at", value);
	list[(*count)++] = value;
}

static void split(char **argv, const char **list, int *count, char *text)
{
	*count = 0;
	for (char *word = strtok(text, ","); word; word = strtok(NULL, ",")) {
		if (strlen(word) >= PEER_COLOR_BYTES)
			wrong_usage(argv[0], "too long:", word);
		append(argv, list, count, word);
	}
	if (*count == 0)
		wrong_usage(argv[0], "empty list", "--colors");
}

/* Option codes; those below 256 would be short options, of which there are none. */
enum {
	OPT_TOPIC = 256,
	OPT_DOMAIN,
	OPT_RELIABLE,
	OPT_BEST_EFFORT,
	OPT_TRANSIENT_LOCAL,
	OPT_DEPTH,
	OPT_KEEP_ALL,
	OPT_PARTITION,
	OPT_OWNERSHIP,
	OPT_STRENGTH,
	OPT_DEADLINE,
	OPT_LIFESPAN,
	OPT_LEASE,
	OPT_LIVELINESS,
	OPT_LIVE,
	OPT_LATENCY,
	OPT_BY_SOURCE,
	OPT_ASSERT,
	OPT_LATER_DEADLINE,
	OPT_COUNT,
	OPT_NOT_ALIVE,
	OPT_JOINS,
	OPT_PAUSE,
	OPT_RATE,
	OPT_COLORS,
	OPT_SIZE,
	OPT_MODULO,
	OPT_WAIT_MATCHED,
	OPT_DISPOSE,
	OPT_UNREGISTER,
	OPT_FILTER,
	OPT_PARAM,
	OPT_HEARTBEAT,
	OPT_LINGER,
	OPT_SETTLE,
	OPT_AT,
	OPT_TIMEOUT,
	OPT_INTERFACE,
	OPT_MULTICAST,
	OPT_PEER,
	OPT_HELP,
};

static const struct option long_options[] = {
	{"topic", required_argument, NULL, OPT_TOPIC},
	{"domain", required_argument, NULL, OPT_DOMAIN},
	{"reliable", no_argument, NULL, OPT_RELIABLE},
	{"best-effort", no_argument, NULL, OPT_BEST_EFFORT},
	{"transient-local", no_argument, NULL, OPT_TRANSIENT_LOCAL},
	{"depth", required_argument, NULL, OPT_DEPTH},
	{"keep-all", no_argument, NULL, OPT_KEEP_ALL},
	{"partition", required_argument, NULL, OPT_PARTITION},
	{"ownership", required_argument, NULL, OPT_OWNERSHIP},
	{"strength", required_argument, NULL, OPT_STRENGTH},
	{"deadline", required_argument, NULL, OPT_DEADLINE},
	{"lifespan", required_argument, NULL, OPT_LIFESPAN},
	{"lease", required_argument, NULL, OPT_LEASE},
	{"liveliness", required_argument, NULL, OPT_LIVELINESS},
	{"live", required_argument, NULL, OPT_LIVE},
	{"latency", required_argument, NULL, OPT_LATENCY},
	{"by-source", no_argument, NULL, OPT_BY_SOURCE},
	{"assert", required_argument, NULL, OPT_ASSERT},
	{"later-deadline", required_argument, NULL, OPT_LATER_DEADLINE},
	{"count", required_argument, NULL, OPT_COUNT},
	{"not-alive", required_argument, NULL, OPT_NOT_ALIVE},
	{"joins", required_argument, NULL, OPT_JOINS},
	{"pause", required_argument, NULL, OPT_PAUSE},
	{"rate", required_argument, NULL, OPT_RATE},
	{"colors", required_argument, NULL, OPT_COLORS},
	{"size", required_argument, NULL, OPT_SIZE},
	{"modulo", required_argument, NULL, OPT_MODULO},
	{"wait-matched", required_argument, NULL, OPT_WAIT_MATCHED},
	{"dispose", required_argument, NULL, OPT_DISPOSE},
	{"unregister", required_argument, NULL, OPT_UNREGISTER},
	{"filter", required_argument, NULL, OPT_FILTER},
	{"param", required_argument, NULL, OPT_PARAM},
	{"heartbeat", required_argument, NULL, OPT_HEARTBEAT},
	{"at", required_argument, NULL, OPT_AT},
	{"settle", required_argument, NULL, OPT_SETTLE},
	{"linger", required_argument, NULL, OPT_LINGER},
	{"timeout", required_argument, NULL, OPT_TIMEOUT},
	{"interface", required_argument, NULL, OPT_INTERFACE},
	{"multicast", no_argument, NULL, OPT_MULTICAST},
	{"peer", required_argument, NULL, OPT_PEER},
	{"help", no_argument, NULL, OPT_HELP},
	{NULL, 0, NULL, 0},
};

/* The options that choose QoS. Returns false if the code is not one of them. */
static bool parse_qos(char **argv, int code, struct peer_options *o)
{
	switch (code) {
	case OPT_RELIABLE: o->reliable = true; break;
	case OPT_BEST_EFFORT: o->reliable = false; break;
	case OPT_TRANSIENT_LOCAL: o->transient_local = true; break;
	case OPT_DEPTH: o->depth = (int)number(argv, optarg, 1, 1000000); break;
	case OPT_KEEP_ALL: o->keep_all = true; break;
	case OPT_PARTITION: append(argv, o->partitions, &o->partition_count, optarg); break;
	case OPT_OWNERSHIP:
		o->exclusive = strcmp(optarg, "exclusive") == 0;
		if (!o->exclusive && strcmp(optarg, "shared") != 0)
			wrong_usage(argv[0], "unknown ownership", optarg);
		break;
	case OPT_STRENGTH: o->strength = (int)number(argv, optarg, INT_MIN, INT_MAX); break;
	case OPT_DEADLINE: o->deadline_ms = number(argv, optarg, 1, INT_MAX); break;
	case OPT_LIFESPAN: o->lifespan_ms = number(argv, optarg, 1, INT_MAX); break;
	case OPT_LIVELINESS: o->liveliness = optarg[0] == 'a' ? 0 : optarg[0] == 'p' ? 1 : 2; break;
	case OPT_LIVE: o->live_ms = number(argv, optarg, 1, INT_MAX); break;
	case OPT_LATENCY: o->latency_ms = number(argv, optarg, 1, INT_MAX); break;
	case OPT_BY_SOURCE: o->by_source = true; break;
	case OPT_LATER_DEADLINE: o->later_deadline_ms = number(argv, optarg, 1, INT_MAX); break;
	case OPT_ASSERT: o->assert_ms = number(argv, optarg, 1, INT_MAX); break;
	case OPT_LEASE: o->lease_s = seconds(argv, optarg); break;
	case OPT_HEARTBEAT: o->heartbeat_ms = (int)number(argv, optarg, 1, 60000); break;
	default: return false;
	}
	return true;
}

/* The options that choose what is written or awaited, and where. */
static void parse_work(char **argv, int code, struct peer_options *o)
{
	switch (code) {
	case OPT_TOPIC: o->topic = optarg; break;
	case OPT_DOMAIN: o->domain = (int)number(argv, optarg, 0, 230); break;
	case OPT_COUNT: o->count = (int)number(argv, optarg, 0, INT_MAX); break;
	case OPT_NOT_ALIVE: o->not_alive = (int)number(argv, optarg, 0, INT_MAX); break;
	case OPT_JOINS: o->joins = (int)number(argv, optarg, 1, 1000000); break;
	case OPT_PAUSE: o->pause_ms = (int)number(argv, optarg, 0, 60000); break;
	case OPT_RATE: o->rate_hz = seconds(argv, optarg); break;
	case OPT_COLORS: split(argv, o->colors, &o->color_count, optarg); break;
	case OPT_SIZE: o->size = (int)number(argv, optarg, 0, INT_MAX); break;
	case OPT_MODULO: o->modulo = (int)number(argv, optarg, 0, INT_MAX / 4); break;
	case OPT_WAIT_MATCHED: o->wait_matched = (int)number(argv, optarg, 0, 1000); break;
	case OPT_DISPOSE: o->dispose = optarg; break;
	case OPT_UNREGISTER: o->unregister = optarg; break;
	case OPT_FILTER: o->filter = optarg; break;
	case OPT_PARAM: append(argv, o->params, &o->param_count, optarg); break;
	case OPT_AT: o->at_s = wall_second(argv, optarg); break;
	case OPT_SETTLE: o->settle_s = seconds(argv, optarg); break;
	case OPT_LINGER: o->linger_s = seconds(argv, optarg); break;
	case OPT_TIMEOUT: o->timeout_s = seconds(argv, optarg); break;
	case OPT_INTERFACE: o->interface = optarg; break;
	case OPT_MULTICAST: o->multicast = true; break;
	case OPT_PEER:
		o->multicast = false;
		append(argv, o->peers, &o->peer_count, optarg);
		break;
	case OPT_HELP: printf(help, argv[0]); exit(0);
	default: exit(2); /* getopt has said why */
	}
}

void peer_parse(int argc, char **argv, struct peer_options *options)
{
	struct peer_options o = {.reliable = true,
				 .multicast = true,
				 .interface = "127.0.0.1",
				 .colors = {"RED"},
				 .color_count = 1,
				 .depth = 1,
				 .size = 30,
				 .pause_ms = 20,
				 .timeout_s = 60};
	int code;

	while ((code = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		if (!parse_qos(argv, code, &o))
			parse_work(argv, code, &o);
	if (argc - optind != 1 ||
	    (strcmp(argv[optind], "pub") != 0 && strcmp(argv[optind], "sub") != 0))
		wrong_usage(argv[0], "expected one word, pub or sub, at",
			    optind < argc ? argv[argc - 1] : "end");
	o.publish = strcmp(argv[optind], "pub") == 0;
	if (!o.topic)
		wrong_usage(argv[0], "missing option", "--topic");
	if (o.joins && (o.publish || !o.count))
		wrong_usage(argv[0], "only a subscriber with --count:", "--joins");
	*options = o;
}

static void on_signal(int signal)
{
	(void)signal;
	stopped = 1;
}

void peer_catch_signals(void)
{
	struct sigaction action = {.sa_handler = on_signal};

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
}

bool peer_stopped(void)
{
	return stopped;
}

int peer_x(const struct peer_options *options, int n)
{
	int period = 2 * options->modulo - 2;

	if (options->modulo < 2)
		return n;
	n = (n - 1) % period;
	return n < options->modulo ? n + 1 : period - n + 1;
}

const char *peer_color(const struct peer_options *options, int n)
{
	return options->colors[(n - 1) % options->color_count];
}

static int64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t peer_wall_ns(void)
{
	return now_ns(CLOCK_REALTIME);
}

int64_t peer_mono_ns(void)
{
	return now_ns(CLOCK_MONOTONIC);
}

void peer_sleep_until(int64_t mono_ns)
{
	struct timespec until = {.tv_sec = mono_ns / 1000000000, .tv_nsec = mono_ns % 1000000000};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

void peer_settle(const struct peer_options *options)
{
	int64_t wait_ns = (int64_t)(options->settle_s * 1e9);
	int64_t at_ns = (int64_t)(options->at_s * 1e9) - peer_wall_ns();

	if (options->at_s > 0 && at_ns > wait_ns)
		wait_ns = at_ns;
	if (wait_ns > 0 && !stopped)
		peer_sleep_until(peer_mono_ns() + wait_ns);
}

/* Colours come from the network: whatever JSON would not take literally is escaped. */
static void print_string(const char *text)
{
	putchar('"');
	for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
		if (*c == '"' || *c == '\\')
			printf("\\%c", *c);
		else if (*c < 0x20 || *c > 0x7e)
			printf("\\u%04x", *c);
		else
			putchar(*c);
	}
	putchar('"');
}

static void end_line(void)
{
	puts("}");
	fflush(stdout);
}

void peer_print_ready(const struct peer_options *options, const char *vendor)
{
	printf("{\"event\":\"ready\",\"vendor\":\"%s\",\"role\":\"%s\"", vendor,
	       options->publish ? "pub" : "sub");
	end_line();
}

void peer_print_status(const struct peer_status *status, struct peer_status *last)
{
	if (memcmp(status, last, sizeof(*status)) == 0)
		return;
	*last = *status;
	printf("{\"event\":\"status\",\"deadline\":%d,\"lost\":%d,\"alive\":%d,\"not_alive\":%d",
	       status->deadline, status->lost, status->alive, status->not_alive);
	end_line();
}

void peer_print_matched(int current, int total)
{
	printf("{\"event\":\"matched\",\"current\":%d,\"total\":%d", current, total);
	end_line();
}

void peer_print_incompatible(int policy, int total)
{
	printf("{\"event\":\"incompatible_qos\",\"policy\":%d,\"total\":%d", policy, total);
	end_line();
}

void peer_join(const struct peer_options *options, int n)
{
	static uint64_t random = 1;

	random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	if (options->pause_ms > 0)
		peer_sleep_until(peer_mono_ns() +
				 (int64_t)((random >> 33) % (uint64_t)options->pause_ms * 1000000));
	printf("{\"event\":\"join\",\"n\":%d,\"t\":%lld", n, (long long)peer_wall_ns());
	end_line();
}

void peer_print_sample(const struct peer_sample *sample)
{
	printf("{\"event\":\"sample\",\"writer\":");
	if (sample->writer) {
		putchar('"');
		for (int i = 0; i < 16; i++)
			printf("%02x", sample->writer[i]);
		putchar('"');
	} else {
		printf("null");
	}
	printf(",\"color\":");
	print_string(sample->color);
	if (sample->valid)
		printf(",\"x\":%d,\"y\":%d,\"shapesize\":%d", sample->x, sample->y,
		       sample->shapesize);
	printf(",\"state\":\"%s\",\"t\":%lld,\"source_time\":%lld", sample->state,
	       (long long)peer_wall_ns(), (long long)sample->source_ns);
	end_line();
}

int peer_print_done(int samples, bool timed_out, bool acknowledged)
{
	printf("{\"event\":\"done\",\"timed_out\":%s,\"samples\":%d,\"acknowledged\":%s",
	       timed_out ? "true" : "false", samples, acknowledged ? "true" : "false");
	end_line();
	return timed_out ? 1 : 0;
}
