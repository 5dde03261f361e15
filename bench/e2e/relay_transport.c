/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the way through a worker process costs: round trips of one datagram between a queue and a plain socket that echoes,
 * both driven by one thread on the first core; and of one packet over the rings alone, echoed by a thread on the second.
 *
 *   direct   the queue is of sockets: what the kernel takes
 *   worker   the queue is at a worker process whose thread polls on the second core
 *   rings    two rings of packets, no kernel at all: what shared memory takes, beside DPDK's memif
 *
 * Variants take turns, because the speed of a shared machine drifts. Compare medians and minima of one run.
 * Usage: relay_transport [BYTES [ROUNDS [ROUND_TRIPS]]]
 */
#include "dataplane/io/relay.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define GIVE_UP_NS  (2 * APUS_NS_PER_SEC)
#define RING_BYTES  (UINT32_C(1) << 20)
#define BYTES_MAX   60000
#define VARIANTS    3
#define ROUND_TRIPS 20000
#define ROUNDS_MAX  64
#define WARM_UP     500

enum variant { DIRECT, WORKER, RINGS };
static const char *const names[VARIANTS] = {"direct", "worker", "rings"};
static const uint8_t home[4] = {127, 0, 0, 1};

static uint8_t bytes[BYTES_MAX];
static uint32_t length = 64, rounds = 9, round_trips = ROUND_TRIPS;
static char directory[64];

static void __attribute__((noreturn)) die(const char *what)
{
	fprintf(stderr, "relay_transport: %s\n", what);
	exit(3);
}

static void pin(int core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)core, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* --- datagrams ----------------------------------------------------------------------------------- */

static void queue_config(struct apus_dp_queue_config *config)
{
	size_t count = 0;

	apus_dp_queue_config_default(config);
	config->kind = APUS_DP_QUEUE_SOCKET;
	if (apus_dp_netif_lookup("lo", NULL, 0, 1, config->interfaces, &count) != 0)
		die("no loopback interface");
	config->interface_count = 1;
}

static struct apus_dp_relay *start_relay(void)
{
	struct apus_dp_relay_config c = {
		.directory = directory,
		.name = "bench",
		.interface_count = 1,
		.thread_count = 1,
		.cores = {1},
		.idle = APUS_DP_RELAY_POLL,
		.applications = 1,
		.queues = 1,
		.ring_bytes = 4 * RING_BYTES,
		.burst = 32,
	};
	struct apus_dp_relay *relay;
	char why[160] = "";

	queue_config(&c.queue);
	memcpy(c.interfaces, c.queue.interfaces, sizeof(c.interfaces));
	if (apus_dp_relay_create(&c, why, sizeof(why), &relay) != 0)
		die(why);
	return relay;
}

static void *open_relayed(void *out)
{
	struct apus_dp_queue_config config;
	char why[160] = "";

	queue_config(&config);
	if (apus_dp_relay_queue_open(&config, directory, "bench", why, sizeof(why), out) != 0)
		die(why);
	return NULL;
}

static struct apus_dp_queue *open_queue(enum variant v, struct apus_dp_relay *relay)
{
	struct apus_dp_queue *opened = NULL;
	struct apus_dp_queue_config config;
	pthread_t thread;

	if (v == DIRECT) {
		queue_config(&config);
		if (apus_dp_queue_open(&config, NULL, 0, &opened) != 0)
			die("cannot open a queue");
		return opened;
	}
	/* The relay answers in this thread, so that somebody else has to ask. */
	pthread_create(&thread, NULL, open_relayed, &opened);
	while (pthread_tryjoin_np(thread, NULL) != 0)
		apus_dp_relay_turn(relay, 1);
	return opened;
}

static int64_t one_trip(struct apus_dp_queue *q, int fd, const struct apus_dp_tx *tx)
{
	int64_t begin = apus_mono_now().ns;
	/* Not to where it came from: a queue sends to this host from sockets that nobody reads (dataplane/io/direct.c). */
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(q->unicast_port)};
	static uint8_t echo[BYTES_MAX];
	struct apus_dp_rx rx;
	ssize_t n;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	apus_dp_queue_tx(q, tx, 1);
	while ((n = recv(fd, echo, sizeof(echo), MSG_DONTWAIT)) < 0)
		if (apus_mono_now().ns - begin > GIVE_UP_NS)
			die(q->kind == APUS_DP_QUEUE_WORKER
				    ? "a datagram was lost by the worker process"
				    : "a datagram was lost");
	sendto(fd, echo, (size_t)n, 0, (struct sockaddr *)&to, sizeof(to));
	while (apus_dp_queue_rx(q, 1, &rx) == 0)
		if (apus_mono_now().ns - begin > GIVE_UP_NS)
			die("an echo was lost");
	apus_dp_queue_release(q, &rx, 1);
	return apus_mono_now().ns - begin;
}

static void datagrams(enum variant v, int64_t *ns)
{
	struct apus_dp_relay *relay = v == WORKER ? start_relay() : NULL;
	struct apus_dp_queue *q = open_queue(v, relay);
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct apus_dp_tx tx = {.interface_idx = -1, .iov_count = 1, .iov = {{bytes, length}}};

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &size) != 0)
		die("no socket");
	tx.to = apus_dp_addr_v4(home, ntohs(address.sin_port));
	for (uint32_t i = 0; i < WARM_UP; i++)
		one_trip(q, fd, &tx);
	for (uint32_t i = 0; i < round_trips; i++)
		ns[i] = one_trip(q, fd, &tx);
	apus_dp_queue_close(q);
	apus_dp_relay_destroy(relay);
	close(fd);
}

/* --- rings alone --------------------------------------------------------------------------------- */

struct echo {
	struct apus_shm_packets *to, *from;
	_Atomic bool stop;
};

static void pass(struct apus_shm_packet_producer *p, const void *from, uint32_t n)
{
	struct apus_shm_packet out = {.mark = 0};

	if (apus_shm_packet_reserve(p, n, &out) != APUS_SHM_DONE)
		die("a ring is full");
	memcpy(out.bytes, from, n);
	apus_shm_packet_commit(p, &out);
	apus_shm_packet_publish(p);
}

static void *echo_main(void *arg)
{
	struct echo *e = arg;
	struct apus_shm_packet_consumer c;
	struct apus_shm_packet_producer p;
	struct apus_shm_packet packet;

	pin(1);
	apus_shm_packet_consumer_init(&c, e->to, RING_BYTES);
	apus_shm_packet_producer_init(&p, e->from, RING_BYTES);
	while (!e->stop) {
		if (apus_shm_packet_take(&c, &packet) != APUS_SHM_DONE)
			continue;
		pass(&p, packet.bytes, packet.length);
		apus_shm_packet_give_back(&c, packet.end);
	}
	return NULL;
}

static void rings(int64_t *ns)
{
	size_t size = apus_shm_packets_bytes(RING_BYTES);
	struct echo e = {.to = aligned_alloc(128, size), .from = aligned_alloc(128, size)};
	struct apus_shm_packet_producer p;
	struct apus_shm_packet_consumer c;
	struct apus_shm_packet packet;
	pthread_t thread;

	memset(e.to, 0, size);
	memset(e.from, 0, size);
	apus_shm_packet_producer_init(&p, e.to, RING_BYTES);
	apus_shm_packet_consumer_init(&c, e.from, RING_BYTES);
	pthread_create(&thread, NULL, echo_main, &e);
	for (uint32_t i = 0; i < WARM_UP + round_trips; i++) {
		int64_t begin = apus_mono_now().ns;

		pass(&p, bytes, length);
		while (apus_shm_packet_take(&c, &packet) != APUS_SHM_DONE)
			;
		apus_shm_packet_give_back(&c, packet.end);
		if (i >= WARM_UP)
			ns[i - WARM_UP] = apus_mono_now().ns - begin;
	}
	e.stop = true;
	pthread_join(thread, NULL);
	free(e.to);
	free(e.from);
}

int main(int argc, char **argv)
{
	static int64_t medians[VARIANTS][ROUNDS_MAX], best[VARIANTS];
	int64_t *ns;

	length = argc > 1 ? (uint32_t)atoi(argv[1]) : length;
	rounds = argc > 2 ? (uint32_t)atoi(argv[2]) : rounds;
	round_trips = argc > 3 ? (uint32_t)atoi(argv[3]) : round_trips;
	if (argc > 4 || length > BYTES_MAX || rounds < 1 || rounds > ROUNDS_MAX ||
	    round_trips < 1) {
		fprintf(stderr, "usage: relay_transport [BYTES [ROUNDS [ROUND_TRIPS]]]\n");
		return 2;
	}
	ns = calloc(round_trips, sizeof(*ns));
	snprintf(directory, sizeof(directory), "/tmp/apus-bench-%d", (int)getpid());
	pin(0);
	for (uint32_t r = 0; r < rounds; r++)
		for (int v = 0; v < VARIANTS; v++) {
			if (v == RINGS)
				rings(ns);
			else
				datagrams((enum variant)v, ns);
			qsort(ns, round_trips, sizeof(*ns), compare);
			medians[v][r] = ns[round_trips / 2];
			if (best[v] == 0 || ns[0] < best[v])
				best[v] = ns[0];
		}
	rmdir(directory);
	printf("%u bytes, %u x %u round trips, us: median of medians, least median, least\n",
	       length, rounds, round_trips);
	for (int v = 0; v < VARIANTS; v++) {
		qsort(medians[v], rounds, sizeof(int64_t), compare);
		printf("%-7s %7.2f %7.2f %7.2f\n", names[v], (double)medians[v][rounds / 2] / 1e3,
		       (double)medians[v][0] / 1e3, (double)best[v] / 1e3);
	}
	free(ns);
	return 0;
}
