/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a transport queue costs beside plain sockets doing the same work, on 127.0.0.1.
 *
 * Ping-pong: two pinned, polling processes; the echo process is new for every block, so that each
 * side opens (and for io_uring: issues) its own queue. Variants take turns within each round,
 * because the speed of a shared machine drifts; a cache-line ping-pong in every round tells how
 * far. Compare variants of one run, and medians; absolute values and tails belong to the machine.
 *
 * "ring only" never receives unicast by plain calls, as the io_uring kind otherwise does while
 * datagrams come singly.
 *
 * Batches: one thread sends a burst and receives it; send and receive are timed apart. Over
 * loopback a send includes the kernel's receive path.
 */
#include "dataplane/io/transport.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUND_TRIPS_MAX 10000000
#define GIVE_UP_NS      (2 * APUS_NS_PER_SEC)
#define BURST           64

struct options {
	uint32_t round_trips; /* in each block */
	uint32_t rounds;
	uint32_t bytes;
	int core[2];
	bool json;
};

static const uint8_t home[4] = {127, 0, 0, 1};

static void __attribute__((noreturn)) die(const char *what)
{
	fprintf(stderr, "pingpong_transport: %s%s%s\n", what, errno ? ": " : "",
		errno ? strerror(errno) : "");
	exit(3);
}

static void pin(int core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)core, &set);
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		die("cannot pin to the core");
}

/* ---- endpoints: a plain socket, or a queue ---- */

struct endpoint {
	int fd;                  /* plain socket; -1 for a queue */
	struct apus_dp_queue *q; /* NULL for a plain socket */
	struct apus_dp_rx held;
	uint16_t port;
};

enum { PLAIN = -1 };

struct variant {
	const char *name;
	int kind; /* PLAIN or enum apus_dp_queue_kind */
	uint32_t groups;
	bool segment;
	uint8_t ring_after;
};

static int plain_socket(uint16_t *port_out)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t bytes = sizeof(address);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, bytes) != 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &bytes) != 0)
		die("plain socket");
	*port_out = ntohs(address.sin_port);
	return fd;
}

static struct apus_dp_queue *open_queue(const struct variant *v)
{
	const uint8_t group[4] = {239, 255, 77, 99};
	struct apus_dp_queue_config config;
	struct apus_dp_queue *q;
	size_t count = 0;
	char why[160];

	apus_dp_queue_config_default(&config);
	config.kind = (enum apus_dp_queue_kind)v->kind;
	config.segment = v->segment;
	config.ring_after = v->ring_after;
	config.rx_buffer_bytes = 2048;
	if (apus_dp_netif_lookup("lo", NULL, 0, 1, config.interfaces, &count) != 0)
		die("no loopback interface");
	config.interface_count = 1;
	config.groups[0].group = apus_dp_addr_v4(group, 17499);
	config.group_count = v->groups;
	errno = 0;
	if (apus_dp_queue_open(&config, why, sizeof(why), &q) != 0)
		die(why);
	return q;
}

static void open_endpoint(const struct variant *v, struct endpoint *e)
{
	memset(e, 0, sizeof(*e));
	e->fd = -1;
	if (v->kind == PLAIN) {
		e->fd = plain_socket(&e->port);
		return;
	}
	e->q = open_queue(v);
	e->port = e->q->unicast_port;
	apus_dp_queue_rx(e->q, 1, &e->held); /* become the issuer before anything is timed */
}

static void close_endpoint(struct endpoint *e)
{
	if (e->q)
		apus_dp_queue_close(e->q);
	else
		close(e->fd);
}

static void send_to(struct endpoint *e, uint16_t port, void *bytes, size_t length)
{
	struct apus_dp_tx tx = {.to = apus_dp_addr_v4(home, port),
				.interface_idx = -1,
				.iov_count = 1,
				.iov = {{bytes, length}}};
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};

	if (e->q) {
		apus_dp_queue_tx(e->q, &tx, 1);
		return;
	}
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	sendto(e->fd, bytes, length, 0, (struct sockaddr *)&to, sizeof(to));
}

/* Polls for one datagram. False: nothing came for GIVE_UP_NS. Looks at the clock now and then
 * only. */
static bool receive(struct endpoint *e, uint8_t *bytes, size_t room, uint16_t *from_out)
{
	struct apus_mono give_up = {0};

	for (uint32_t polls = 0;; polls++) {
		struct sockaddr_in from;
		socklen_t from_bytes = sizeof(from);

		if (e->q && apus_dp_queue_rx(e->q, 1, &e->held) == 1) {
			bytes[0] = e->held.bytes[0];
			*from_out = e->held.from.port;
			apus_dp_queue_release(e->q, &e->held, 1);
			return true;
		}
		if (!e->q &&
		    recvfrom(e->fd, bytes, room, 0, (struct sockaddr *)&from, &from_bytes) >= 0) {
			*from_out = ntohs(from.sin_port);
			return true;
		}
		if ((polls & 0xffff) != 0xffff)
			continue;
		if (give_up.ns == 0)
			give_up = apus_mono_add(apus_mono_now(), GIVE_UP_NS);
		else if (apus_mono_before(give_up, apus_mono_now()))
			return false;
	}
}

/* ---- ping-pong ---- */

/* The echo process: tells its port through the pipe, then answers until nothing comes any more. */
static void __attribute__((noreturn))
echo(const struct variant *v, const struct options *o, int port_fd, uint32_t count)
{
	static uint8_t bytes[65536];
	struct endpoint e;
	uint16_t from;

	pin(o->core[1]);
	open_endpoint(v, &e);
	if (write(port_fd, &e.port, sizeof(e.port)) != sizeof(e.port))
		_exit(3);
	for (uint32_t i = 0; i < count; i++) {
		if (!receive(&e, bytes, sizeof(bytes), &from))
			_exit(3);
		send_to(&e, from, bytes, o->bytes);
	}
	close_endpoint(&e);
	_exit(0);
}

static uint32_t round_trip(struct endpoint *e, uint16_t to, uint8_t *bytes, const struct options *o)
{
	struct apus_mono start = apus_mono_now();
	uint16_t from;

	send_to(e, to, bytes, o->bytes);
	errno = 0;
	if (!receive(e, bytes, 65536, &from))
		die("no answer came");
	return (uint32_t)(apus_mono_now().ns - start.ns);
}

/* One block of one variant; appends `o->round_trips` times to `ns`. */
static void ping_pong(const struct variant *v, const struct options *o, uint32_t *ns)
{
	static uint8_t bytes[65536];
	uint32_t warm_up = o->round_trips / 20 + 10;
	struct endpoint e;
	uint16_t to = 0;
	int port_pipe[2];
	pid_t pid;

	if (pipe(port_pipe) != 0 || (pid = fork()) < 0)
		die("fork");
	if (pid == 0)
		echo(v, o, port_pipe[1], warm_up + o->round_trips);
	close(port_pipe[1]);
	pin(o->core[0]);
	open_endpoint(v, &e);
	if (read(port_pipe[0], &to, sizeof(to)) != sizeof(to))
		die("the echo process did not start");
	close(port_pipe[0]);
	for (uint32_t i = 0; i < warm_up; i++)
		round_trip(&e, to, bytes, o);
	for (uint32_t i = 0; i < o->round_trips; i++)
		ns[i] = round_trip(&e, to, bytes, o);
	close_endpoint(&e);
	waitpid(pid, NULL, 0);
}

/* One way between the two cores in ns, for 100,000 hand-overs of one cache line. */
static double cache_line_ns(const struct options *o)
{
	enum { TURNS = 100000 };
	_Atomic uint32_t *word =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct apus_mono start;
	double ns;
	pid_t pid;

	if (word == MAP_FAILED || (pid = fork()) < 0)
		die("fork");
	pin(o->core[pid == 0]);
	start = apus_mono_now();
	for (uint32_t i = pid == 0; i < 2 * TURNS; i += 2) {
		/* Acquire and release: each side's store pairs with the other's load of it. */
		while (atomic_load_explicit(word, memory_order_acquire) != i)
			apus_cpu_relax();
		atomic_store_explicit(word, i + 1, memory_order_release);
	}
	if (pid == 0)
		_exit(0);
	ns = (double)(apus_mono_now().ns - start.ns) / (2 * TURNS);
	waitpid(pid, NULL, 0);
	munmap((void *)(uintptr_t)word, 4096);
	return ns;
}

/* ---- batches ---- */

struct batch_cost {
	uint32_t *tx_ns; /* of each burst */
	uint32_t *rx_ns;
};

static void plain_burst(int tx_fd, int rx_fd, uint16_t port, uint8_t *bytes, uint32_t length,
			uint32_t *tx_ns, uint32_t *rx_ns)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct apus_mono start = apus_mono_now(), middle;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (int i = 0; i < BURST; i++)
		sendto(tx_fd, bytes, length, 0, (struct sockaddr *)&to, sizeof(to));
	middle = apus_mono_now();
	for (int i = 0; i < BURST; i++)
		if (recv(rx_fd, bytes, 65536, 0) < 0)
			die("a datagram was lost");
	*tx_ns = (uint32_t)(middle.ns - start.ns);
	*rx_ns = (uint32_t)(apus_mono_now().ns - middle.ns);
}

static void queue_burst(struct apus_dp_queue *a, struct apus_dp_queue *b, uint8_t *bytes,
			uint32_t length, uint32_t *tx_ns, uint32_t *rx_ns)
{
	static struct apus_dp_tx tx[BURST];
	static struct apus_dp_rx rx[BURST];
	struct apus_mono start, middle;

	for (int i = 0; i < BURST; i++)
		tx[i] = (struct apus_dp_tx){.to = apus_dp_addr_v4(home, b->unicast_port),
					    .interface_idx = -1,
					    .iov_count = 1,
					    .iov = {{bytes, length}}};
	start = apus_mono_now();
	if (apus_dp_queue_tx(a, tx, BURST) != BURST)
		die("a datagram was refused");
	middle = apus_mono_now();
	for (int got = 0, polls = 0; got < BURST; polls++) {
		int n = apus_dp_queue_rx(b, BURST, rx);

		apus_dp_queue_release(b, rx, n);
		got += n;
		if (polls > 100000)
			die("a datagram was lost");
	}
	*tx_ns = (uint32_t)(middle.ns - start.ns);
	*rx_ns = (uint32_t)(apus_mono_now().ns - middle.ns);
}

static void batches(const struct variant *v, const struct options *o, uint32_t count,
		    struct batch_cost cost)
{
	static uint8_t bytes[65536];
	struct endpoint a, b;

	pin(o->core[0]);
	open_endpoint(v, &a);
	open_endpoint(v, &b);
	errno = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (v->kind == PLAIN)
			plain_burst(a.fd, b.fd, b.port, bytes, o->bytes, &cost.tx_ns[i],
				    &cost.rx_ns[i]);
		else
			queue_burst(a.q, b.q, bytes, o->bytes, &cost.tx_ns[i], &cost.rx_ns[i]);
	}
	close_endpoint(&a);
	close_endpoint(&b);
}

/* ---- results ---- */

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static uint32_t quantile(const uint32_t *sorted, uint32_t count, double q)
{
	return sorted[(uint32_t)((count - 1) * q)];
}

static void print_context(const struct options *o)
{
	struct utsname uts;

	uname(&uts);
	if (o->json)
		printf("{\"benchmark\":\"pingpong_transport\",\"version\":\"%s\",\"kernel\":\"%s\","
		       "\"bytes\":%u,\"cores\":[%d,%d],\"rounds\":%u",
		       apus_version(), uts.release, o->bytes, o->core[0], o->core[1], o->rounds);
	else
		printf("%u bytes, cores %d and %d, kernel %s, %u rounds\n", o->bytes, o->core[0],
		       o->core[1], uts.release, o->rounds);
}

static const struct variant round_trip_variants[] = {
	{"plain", PLAIN, 0, true, 0},
	{"sockets", APUS_DP_QUEUE_SOCKET, 0, true, 0},
	{"sockets+group", APUS_DP_QUEUE_SOCKET, 1, true, 0},
	{"io_uring", APUS_DP_QUEUE_URING, 0, true, 64},
	{"io_uring+group", APUS_DP_QUEUE_URING, 1, true, 64},
	{"ring only", APUS_DP_QUEUE_URING, 0, true, 0},
};

static const struct variant batch_variants[] = {
	{"plain", PLAIN, 0, true, 0},
	{"sockets", APUS_DP_QUEUE_SOCKET, 0, false, 0},
	{"sockets+segment", APUS_DP_QUEUE_SOCKET, 0, true, 0},
	{"io_uring", APUS_DP_QUEUE_URING, 0, false, 64},
	{"io_uring+segment", APUS_DP_QUEUE_URING, 0, true, 64},
};

static void run_round_trips(const struct options *o)
{
	enum { VARIANTS = APUS_ARRAY_LENGTH(round_trip_variants) };
	uint32_t total = o->rounds * o->round_trips;
	uint32_t *ns[VARIANTS], plain_p50 = 0;

	for (int v = 0; v < VARIANTS; v++)
		if (!(ns[v] = calloc(total, sizeof(*ns[v]))))
			die("no memory");
	printf(o->json ? ",\"cache_line_one_way_ns\":[" : "cache line, one way, ns:");
	for (uint32_t r = 0; r < o->rounds; r++) {
		fflush(stdout); /* before each fork, or the child would print it again */
		printf("%s%.0f", !o->json ? " " : r ? "," : "", cache_line_ns(o));
		fflush(stdout);
		for (int v = 0; v < VARIANTS; v++)
			ping_pong(&round_trip_variants[v], o, ns[v] + r * o->round_trips);
	}
	printf(o->json ? "],\"round_trip\":["
		       : "\n\nround trip, us      p50     p99     min   of plain\n");
	for (int v = 0; v < VARIANTS; v++) {
		uint32_t p50, p99;

		qsort(ns[v], total, sizeof(*ns[v]), by_value);
		p50 = quantile(ns[v], total, 0.5);
		p99 = quantile(ns[v], total, 0.99);
		plain_p50 = v == 0 ? p50 : plain_p50;
		if (o->json)
			printf("%s{\"variant\":\"%s\",\"p50_ns\":%u,\"p99_ns\":%u,\"min_ns\":%u,"
			       "\"ratio_to_plain\":%.3f}",
			       v ? "," : "", round_trip_variants[v].name, p50, p99, ns[v][0],
			       (double)p50 / plain_p50);
		else
			printf("%-16s %7.2f %7.2f %7.2f   %.2f\n", round_trip_variants[v].name,
			       p50 / 1e3, p99 / 1e3, ns[v][0] / 1e3, (double)p50 / plain_p50);
		free(ns[v]);
	}
	if (o->json)
		printf("]");
}

static void run_batches(const struct options *o)
{
	enum { VARIANTS = APUS_ARRAY_LENGTH(batch_variants) };
	uint32_t bursts = o->round_trips / 20 + 1, total = bursts * o->rounds;
	struct batch_cost cost[VARIANTS];

	for (int v = 0; v < VARIANTS; v++) {
		cost[v].tx_ns = calloc(total, sizeof(uint32_t));
		cost[v].rx_ns = calloc(total, sizeof(uint32_t));
		if (!cost[v].tx_ns || !cost[v].rx_ns)
			die("no memory");
	}
	for (uint32_t r = 0; r < o->rounds; r++)
		for (int v = 0; v < VARIANTS; v++)
			batches(&batch_variants[v], o, bursts,
				(struct batch_cost){cost[v].tx_ns + r * bursts,
						    cost[v].rx_ns + r * bursts});
	printf(o->json ? ",\"batch\":[" : "\nbursts of 64, median ns a datagram   send  receive\n");
	for (int v = 0; v < VARIANTS; v++) {
		uint32_t tx, rx;

		qsort(cost[v].tx_ns, total, sizeof(uint32_t), by_value);
		qsort(cost[v].rx_ns, total, sizeof(uint32_t), by_value);
		tx = quantile(cost[v].tx_ns, total, 0.5) / BURST;
		rx = quantile(cost[v].rx_ns, total, 0.5) / BURST;
		if (o->json)
			printf("%s{\"variant\":\"%s\",\"tx_ns\":%u,\"rx_ns\":%u}", v ? "," : "",
			       batch_variants[v].name, tx, rx);
		else
			printf("%-34s %6u %8u\n", batch_variants[v].name, tx, rx);
		free(cost[v].tx_ns);
		free(cost[v].rx_ns);
	}
	printf(o->json ? "]}\n" : "");
}

static void usage(FILE *to)
{
	fprintf(to, "usage: pingpong_transport [--count N] [--rounds N] [--bytes N] [--cores A,B]"
		    " [--json]\n"
		    "  --count N    round trips in each block, 100 to 10000000 (default 20000)\n"
		    "  --rounds N   blocks of each variant, 1 to 100 (default 3)\n"
		    "  --bytes N    payload, 1 to 2048 (default 64)\n"
		    "  --cores A,B  where the two processes run (default 0,1)\n"
		    "  --json       one JSON object instead of tables\n"
		    "Times two transport queues beside plain sockets, on 127.0.0.1.\n");
}

static uint32_t number(const char *text, uint32_t low, uint32_t high)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end != '\0' || value < low || value > high) {
		fprintf(stderr, "pingpong_transport: '%s' is not a number from %u to %u\n", text,
			low, high);
		exit(2);
	}
	return (uint32_t)value;
}

static void cores(const char *text, struct options *o)
{
	char rest;

	if (sscanf(text, "%d,%d%c", &o->core[0], &o->core[1], &rest) != 2 || o->core[0] < 0 ||
	    o->core[1] < 0 || o->core[0] >= CPU_SETSIZE || o->core[1] >= CPU_SETSIZE) {
		fprintf(stderr, "pingpong_transport: '%s' is not two core numbers\n", text);
		exit(2);
	}
}

static void parse(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
		{"count", required_argument, NULL, 'c'},
		{"rounds", required_argument, NULL, 'r'},
		{"bytes", required_argument, NULL, 'b'},
		{"cores", required_argument, NULL, 'k'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		switch (c) {
		case 'c': o->round_trips = number(optarg, 100, ROUND_TRIPS_MAX); break;
		case 'r': o->rounds = number(optarg, 1, 100); break;
		case 'b': o->bytes = number(optarg, 1, 2048); break;
		case 'k': cores(optarg, o); break;
		case 'j': o->json = true; break;
		case 'h': usage(stdout); exit(0);
		default: usage(stderr); exit(2);
		}
	}
	if (optind < argc) {
		usage(stderr);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	struct options o = {.round_trips = 20000, .rounds = 3, .bytes = 64, .core = {0, 1}};

	parse(argc, argv, &o);
	print_context(&o);
	run_round_trips(&o);
	run_batches(&o);
	return 0;
}
