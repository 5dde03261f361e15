/* SPDX-License-Identifier: Apache-2.0 */
/* Shared parts of the end-to-end benchmarks; see common.h. */
#include "common.h"

#include "bench/cpu.h"

#include <commit.h>
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>
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
	    strcmp(text, "socket") != 0)
		refuse(text, "not auto, io_uring or socket");
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

/* ---- endpoints ---- */

void sized_type_init(struct sized_type *t, uint32_t bytes)
{
	memset(t, 0, sizeof(*t));
	snprintf(t->name, sizeof(t->name), "Bench%u", bytes);
	t->octets = (struct apus_type){.kind = APUS_KIND_ARRAY,
				       .size_bytes = bytes - 8,
				       .align_bytes = 1,
				       .bound = bytes - 8,
				       .element = &apus_type_octet};
	t->members[0] = (struct apus_member){.name = "number", .type = &apus_type_uint64};
	t->members[1] = (struct apus_member){
		.name = "octets", .type = &t->octets, .offset_bytes = 8, .id = 1};
	t->type = (struct apus_type){.name = t->name,
				     .kind = APUS_KIND_STRUCT,
				     .extensibility = APUS_FINAL,
				     .size_bytes = bytes,
				     .align_bytes = 8,
				     .plain_xcdr1 = true, /* as a generator would say */
				     .plain_xcdr2 = true,
				     .members = t->members,
				     .member_count = 2};
	errno = 0;
	if (apus_type_check(&t->type) != 0)
		die("the sample type is refused");
}

static void set(struct apus_config *config, const char *name, const char *value)
{
	char error[256] = "";

	errno = 0;
	if (apus_config_set(config, name, value, error, sizeof(error)) != 0)
		die(error);
}

static void set_pair(struct apus_config *config, const char *pair)
{
	const char *equals = strchr(pair, '=');
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)(equals - pair), pair);
	set(config, name, equals + 1);
}

struct apus_participant *open_participant(uint32_t domain, const char *transport,
					  const char *const *settings)
{
	struct apus_config *config = apus_config_create();
	struct apus_participant *p = NULL;
	char text[16], why[256] = "";

	errno = 0;
	if (!config)
		die("no memory");
	snprintf(text, sizeof(text), "%u", domain);
	set(config, "domain", text);
	set(config, "interfaces", "lo");
	set(config, "worker.mode", "driven");
	set(config, "transport", transport);
	while (settings && *settings)
		set_pair(config, *settings++);
	errno = 0;
	if (apus_participant_create(config, &p, why, sizeof(why)) != 0)
		die(why);
	apus_config_destroy(config);
	return p;
}

static struct apus_endpoint_options options_for(char *topic, size_t topic_bytes, const char *name,
						const struct sized_type *type, uint32_t bytes,
						const struct apus_qos *qos)
{
	snprintf(topic, topic_bytes, "%s_%u_%s", name, bytes,
		 qos->reliability == APUS_RELIABLE ? "reliable" : "best_effort");
	return (struct apus_endpoint_options){.topic = topic, .type = &type->type, .qos = qos};
}

struct apus_writer *open_writer(struct apus_participant *p, const char *name,
				const struct sized_type *type, uint32_t bytes, struct apus_qos *qos)
{
	char topic[64];
	struct apus_endpoint_options o = options_for(topic, sizeof(topic), name, type, bytes, qos);
	struct apus_writer *w = NULL;
	int rc = apus_writer_create(p, &o, &w);

	errno = 0;
	if (rc != 0)
		die(apus_strerror(rc));
	return w;
}

struct apus_reader *open_reader(struct apus_participant *p, const char *name,
				const struct sized_type *type, uint32_t bytes, struct apus_qos *qos)
{
	char topic[64];
	struct apus_endpoint_options o = options_for(topic, sizeof(topic), name, type, bytes, qos);
	struct apus_reader *r = NULL;
	int rc = apus_reader_create(p, &o, &r);

	errno = 0;
	if (rc != 0)
		die(apus_strerror(rc));
	return r;
}

struct sockaddr_in loopback_address(uint16_t port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_port = htons(port),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

int open_socket(int receive_bytes, uint16_t *port_out)
{
	struct sockaddr_in address = loopback_address(0);
	socklen_t bytes = sizeof(address);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, bytes) != 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &bytes) != 0)
		die("plain socket");
	if (receive_bytes > 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
	*port_out = ntohs(address.sin_port);
	return fd;
}

/* ---- context ---- */

static void print_context_json(const char *benchmark, const int core[2])
{
	struct utsname uts;
	char model[256];

	uname(&uts);
	cpu_model(model, sizeof(model));
	printf("{\"benchmark\":\"%s\",\"apus\":\"%s\",\"commit\":\"%s\",\"cpu\":\"%s\","
	       "\"kernel\":\"%s\",\"cores\":[%d,%d]",
	       benchmark, apus_version(), BENCH_COMMIT, model, uts.release, core[0], core[1]);
}

static void print_context_text(const int core[2])
{
	struct utsname uts;
	char model[256];

	uname(&uts);
	cpu_model(model, sizeof(model));
	printf("Apus %s (%s), %s, kernel %s, cores %d and %d\n", apus_version(), BENCH_COMMIT,
	       model, uts.release, core[0], core[1]);
}

/* The part of the participant's report that tells of its worker's transport. */
static void transport_of(const struct apus_participant *p, char *text_out, size_t text_bytes)
{
	char report[4096], *line;

	snprintf(text_out, text_bytes, "unknown");
	if (apus_participant_report(p, report, sizeof(report)) != 0)
		return;
	line = strstr(report, "worker.0: ");
	if (!line)
		return;
	line += strlen("worker.0: ");
	line[strcspn(line, "\n\"\\")] = '\0';
	snprintf(text_out, text_bytes, "%s", line);
}

void print_head(const char *benchmark, const struct options *options,
		const struct apus_participant *participant, const double *line_ns,
		const char *columns)
{
	char transport[128];

	transport_of(participant, transport, sizeof(transport));
	if (options->json) {
		print_context_json(benchmark, options->core);
		printf(",\"transport\":\"%s\",\"rounds\":%u,\"cache_line_one_way_ns\":[", transport,
		       options->rounds);
	} else {
		print_context_text(options->core);
		printf("transport: %s\ncache line, one way, in each round, ns:", transport);
	}
	for (uint32_t i = 0; i < options->rounds; i++)
		printf("%s%.0f", !options->json ? " " : i ? "," : "", line_ns[i]);
	if (options->json)
		printf("],\"results\":[");
	else
		printf("\n\n%s\n", columns);
}
