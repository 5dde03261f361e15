/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: an application's queue at a worker process moves datagrams both ways as a queue of its own would; ports, groups
 * and limits are each application's; what an application writes into its rings or says ends nothing but its own queue;
 * and a queue finds the successor of a process that ended.
 * Method: the process is a thread of the test with a directory of its own; peers are plain queues on 127.0.0.1.
 * What happens in other threads is waited for by polling with a generous end, never by a fixed time.
 */
#include "dataplane/io/relay.h"
#include "transport_util.h"

#include "base/clock.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PATIENCE_NS (20 * APUS_NS_PER_SEC)

struct host {
	char directory[64];
	struct apus_dp_relay_config config;
	struct apus_dp_relay *relay;
	pthread_t thread;
	_Atomic bool stop;
	_Atomic uint32_t detached, refused; /* events seen */
	char why[128];                      /* of the last of them */
};

static void *host_main(void *arg)
{
	struct host *h = arg;
	struct apus_dp_relay_event e;

	while (!h->stop) {
		apus_dp_relay_turn(h->relay, 5);
		while (apus_dp_relay_event(h->relay, &e)) {
			if (e.kind == APUS_DP_RELAY_DETACHED || e.kind == APUS_DP_RELAY_REFUSED)
				memcpy(h->why, e.text, sizeof(h->why));
			h->detached += e.kind == APUS_DP_RELAY_DETACHED;
			h->refused += e.kind == APUS_DP_RELAY_REFUSED;
		}
	}
	return NULL;
}

static void host_start(struct host *h)
{
	char why[128] = "";

	h->stop = false;
	if (apus_dp_relay_create(&h->config, why, sizeof(why), &h->relay) != 0)
		fail_msg("%s", why);
	assert_int_equal(pthread_create(&h->thread, NULL, host_main, h), 0);
}

static void host_stop(struct host *h)
{
	h->stop = true;
	pthread_join(h->thread, NULL);
	apus_dp_relay_destroy(h->relay);
	h->relay = NULL;
}

static void prepare(struct host *h, enum apus_dp_relay_idle idle)
{
	struct apus_dp_queue_config q;

	memset(h, 0, sizeof(*h));
	snprintf(h->directory, sizeof(h->directory), "/tmp/apus-relay-%d", (int)getpid());
	home_config(APUS_DP_QUEUE_SOCKET, &q);
	h->config = (struct apus_dp_relay_config){
		.directory = h->directory,
		.name = "test",
		.interface_count = q.interface_count,
		.thread_count = 1,
		.cores = {-1},
		.idle = idle,
		.applications = 2,
		.queues = 3,
		.ring_bytes = APUS_DP_RELAY_RING_MIN,
		.burst = 16,
	};
	memcpy(h->config.interfaces, q.interfaces, sizeof(q.interfaces));
	h->config.queue = q;
}

static int setup(void **state)
{
	struct host *h = malloc(sizeof(*h));

	prepare(h, APUS_DP_RELAY_BLOCK);
	host_start(h);
	*state = h;
	return 0;
}

static int teardown(void **state)
{
	struct host *h = *state;

	if (h->relay)
		host_stop(h);
	rmdir(h->directory);
	free(h);
	return 0;
}

static bool goes_on(struct apus_mono begin)
{
	return apus_mono_now().ns - begin.ns < PATIENCE_NS;
}

static void client_config(const struct host *h, struct apus_dp_queue_config *c)
{
	apus_dp_queue_config_default(c);
	c->rx_buffer_count = 16;
	c->interface_count = h->config.interface_count;
	memcpy(c->interfaces, h->config.interfaces, sizeof(c->interfaces));
}

static int try_open(struct host *h, const struct apus_dp_queue_config *c, char why[128],
		    struct apus_dp_queue **out)
{
	why[0] = '\0';
	return apus_dp_relay_queue_open(c, h->directory, "test", why, 128, out);
}

static struct apus_dp_queue *open_client(struct host *h)
{
	struct apus_dp_queue_config c;
	struct apus_dp_queue *q = NULL;
	char why[128];

	client_config(h, &c);
	if (try_open(h, &c, why, &q) != 0)
		fail_msg("open: %s", why);
	return q;
}

/* Receives until `n` are there; others' threads bring them. */
static int await(struct apus_dp_queue *q, int n, struct apus_dp_rx *out)
{
	struct apus_mono begin = apus_mono_now();
	int got = 0;

	while (got < n && goes_on(begin)) {
		int more = apus_dp_queue_rx(q, n - got, out + got);

		if (more == 0)
			sched_yield();
		got += more;
	}
	return got;
}

static void await_count(_Atomic uint32_t *count, uint32_t value)
{
	struct apus_mono begin = apus_mono_now();

	while (*count < value && goes_on(begin))
		sched_yield();
	assert_int_equal(*count, value);
}

static void exchange(struct apus_dp_queue *from, struct apus_dp_queue *to, uint32_t length, int n)
{
	static uint8_t bytes[16][65536];
	struct apus_dp_tx tx[16];
	struct apus_dp_rx rx[16];

	for (int i = 0; i < n; i++) {
		fill(bytes[i], (uint32_t)i, length);
		tx[i] = tx_of(addr_of(to), bytes[i], length);
	}
	assert_int_equal(apus_dp_queue_tx(from, tx, n), n);
	assert_int_equal(await(to, n, rx), n);
	for (int i = 0; i < n; i++) {
		struct apus_dp_addr source = addr_of(from);

		assert_pattern(&rx[i], (uint32_t)i, length);
		assert_true(apus_dp_addr_equal(&rx[i].from, &source));
	}
	apus_dp_queue_release(to, rx, n);
}

static void both_ways(struct host *h)
{
	struct apus_dp_queue *client = open_client(h), *peer = open_home(APUS_DP_QUEUE_SOCKET);

	assert_int_equal(client->kind, APUS_DP_QUEUE_WORKER);
	assert_true(client->unicast_port >= APUS_DP_RELAY_PORT_MIN);
	for (int i = 0; i < 3; i++) {
		exchange(client, peer, 100, 16);
		exchange(peer, client, 100, 16);
		exchange(client, peer, 0, 1);
		exchange(peer, client, 0, 1);
		exchange(client, peer, APUS_DP_DATAGRAM_MAX_BYTES, 2);
		exchange(peer, client, APUS_DP_DATAGRAM_MAX_BYTES, 2);
	}
	apus_dp_queue_close(client);
	apus_dp_queue_close(peer);
}

static void datagrams_pass(void **state)
{
	both_ways(*state);
}

static void datagrams_pass_a_polling_process(void **state)
{
	struct host *h = *state;

	host_stop(h);
	prepare(h, APUS_DP_RELAY_PAUSE);
	host_start(h);
	both_ways(h);
}

/* A sleeper is woken by its descriptor. */
static void a_sleeper_is_woken(void **state)
{
	struct apus_dp_queue *client = open_client(*state), *peer = open_home(APUS_DP_QUEUE_SOCKET);
	struct apus_dp_rx rx[1];
	uint8_t bytes[8] = {1};

	for (int i = 0; i < 20; i++) {
		struct pollfd p = {.fd = apus_dp_queue_fd(client), .events = POLLIN};
		struct apus_dp_tx tx = tx_of(addr_of(client), bytes, sizeof(bytes));
		struct apus_mono begin = apus_mono_now();

		assert_int_equal(apus_dp_queue_rx(client, 1, rx), 0);
		assert_int_equal(apus_dp_queue_tx(peer, &tx, 1), 1);
		while (apus_dp_queue_rx(client, 1, rx) == 0 && goes_on(begin))
			poll(&p, 1, 20000);
		assert_int_equal(rx[0].length, 8);
		apus_dp_queue_release(client, rx, 1);
	}
	apus_dp_queue_close(client);
	apus_dp_queue_close(peer);
}

/* What is held stays untouched, in any order of release. */
static void held_datagrams_stay(void **state)
{
	struct apus_dp_queue *client = open_client(*state), *peer = open_home(APUS_DP_QUEUE_SOCKET);
	struct apus_dp_rx rx[16];
	uint8_t bytes[1000];

	for (uint32_t i = 0; i < 8; i++) {
		struct apus_dp_tx tx = tx_of(addr_of(client), bytes, sizeof(bytes));

		fill(bytes, i, sizeof(bytes));
		assert_int_equal(apus_dp_queue_tx(peer, &tx, 1), 1);
	}
	assert_int_equal(await(client, 8, rx), 8);
	for (uint32_t i = 1; i < 8; i += 2)
		apus_dp_queue_release(client, &rx[i], 1);
	for (int i = 0; i < 40; i++)
		exchange(peer, client, 3000, 2);
	for (uint32_t i = 0; i < 8; i += 2) {
		assert_pattern(&rx[i], i, sizeof(bytes));
		apus_dp_queue_release(client, &rx[i], 1);
	}
	for (int i = 0; i < 100; i++)
		exchange(peer, client, 9000, 4);
	apus_dp_queue_close(client);
	apus_dp_queue_close(peer);
}

static void groups_are_joined(void **state)
{
	struct apus_dp_queue *client = open_client(*state), *peer = open_home(APUS_DP_QUEUE_SOCKET);
	struct apus_dp_group group = group_of(5, 17405), low = group_of(5, 405);
	struct apus_dp_rx rx[1];
	uint8_t bytes[8] = {7};
	struct apus_dp_tx tx = tx_of(group.group, bytes, sizeof(bytes));

	assert_int_equal(apus_dp_queue_join(client, &low), APUS_EINVAL);
	assert_int_equal(apus_dp_queue_join(client, &group), 0);
	assert_int_equal(apus_dp_queue_join(client, &group), APUS_EEXIST);
	assert_int_equal(apus_dp_queue_tx(peer, &tx, 1), 1);
	assert_int_equal(await(client, 1, rx), 1);
	assert_int_equal(rx[0].socket_idx, 1);
	apus_dp_queue_release(client, rx, 1);
	assert_int_equal(apus_dp_queue_leave(client, &group), 0);
	assert_int_equal(apus_dp_queue_leave(client, &group), APUS_ENOENT);
	/* And out: to a group that the peer has joined. */
	assert_int_equal(apus_dp_queue_join(peer, &group), 0);
	assert_int_equal(apus_dp_queue_tx(client, &tx, 1), 1);
	assert_int_equal(await(peer, 1, rx), 1);
	apus_dp_queue_release(peer, rx, 1);
	apus_dp_queue_close(client);
	apus_dp_queue_close(peer);
}

static void ports_and_limits(void **state)
{
	struct host *h = *state;
	struct apus_dp_queue *a = open_client(h), *b = open_client(h), *c = open_client(h);
	struct apus_dp_queue *none = NULL;
	struct apus_dp_queue_config config;
	char why[128];

	client_config(h, &config);
	assert_int_equal(try_open(h, &config, why, &none), APUS_ELIMIT);
	assert_string_equal(why, "this process has as many queues as worker.queues permits");
	apus_dp_queue_close(c);
	await_count(&h->detached, 1);
	/* A port of somebody else, and one that nobody may have. */
	config.unicast_port = a->unicast_port;
	assert_int_equal(try_open(h, &config, why, &none), APUS_EADDRINUSE);
	config.unicast_port = 80;
	assert_int_equal(try_open(h, &config, why, &none), APUS_EINVAL);
	assert_string_equal(why, "ports below 1024 are not for applications");
	config.unicast_port = 0;
	config.rx_buffer_count = 16384;
	assert_int_equal(try_open(h, &config, why, &none), APUS_EINVAL);
	assert_string_equal(why, "a larger ring (rx.buffers) than worker.ring_bytes permits");
	config.rx_buffer_count = 16;
	config.interfaces[0].ifindex = 9999;
	assert_int_equal(try_open(h, &config, why, &none), APUS_ENODEV);
	assert_null(none);
	assert_int_equal(apus_dp_relay_queue_open(&config, h->directory, "other", why, 128, &none),
			 APUS_ENOENT);
	assert_string_equal(why, "no worker process of the name 'other' runs (apus worker)");
	apus_dp_queue_close(a);
	apus_dp_queue_close(b);
}

static void interfaces_are_told(void **state)
{
	struct host *h = *state;
	struct apus_dp_netif found[APUS_DP_NETIF_MAX];
	char why[128] = "";
	size_t count = 0;

	assert_int_equal(apus_dp_relay_lookup(h->directory, "test", AF_INET, "auto", why, 128,
					      APUS_DP_NETIF_MAX, found, &count),
			 0);
	assert_int_equal(count, h->config.interface_count);
	assert_memory_equal(found, h->config.interfaces, count * sizeof(found[0]));
	assert_int_equal(apus_dp_relay_lookup(h->directory, "test", AF_INET, "127.0.0.1", why, 128,
					      APUS_DP_NETIF_MAX, found, &count),
			 0);
	assert_int_equal(apus_dp_relay_lookup(h->directory, "test", AF_INET, "eth77", why, 128,
					      APUS_DP_NETIF_MAX, found, &count),
			 APUS_ENODEV);
	assert_string_equal(why, "the worker process has no interface 'eth77'");
	assert_int_equal(apus_dp_relay_lookup(h->directory, "test", AF_INET6, NULL, why, 128,
					      APUS_DP_NETIF_MAX, found, &count),
			 APUS_ENODEV);
	assert_string_equal(why, "the worker process 'test' has no interface of IPv6");
}

/* --- hostile applications ------------------------------------------------------------------------ */

/* A connection with an open queue, and its memory, by hand. */
struct rogue {
	int fd;
	uint8_t *memory;
	size_t bytes;
	struct apus_shm_packets *in, *out;
	uint16_t port;
};

static void rogue_open(struct host *h, struct rogue *r)
{
	struct apus_dp_relay_open ask = {
		.head = apus_dp_relay_head(APUS_DP_RELAY_OPEN),
		.family = AF_INET,
		.ttl = 1,
		.loop = 1,
		.ring_bytes = APUS_DP_RELAY_RING_MIN,
		.interface_count = 1,
		.ifindex = {h->config.interfaces[0].ifindex},
	};
	struct apus_mono begin = apus_mono_now();
	struct apus_dp_relay_opened opened;
	struct apus_shm_message m;
	void *base;
	int rc;

	r->fd = apus_shm_connect(h->directory, "test");
	assert_true(r->fd >= 0);
	assert_int_equal(apus_shm_send(r->fd, &ask, sizeof(ask), NULL, 0), 0);
	while ((rc = apus_shm_receive(r->fd, &m)) == APUS_EAGAIN && goes_on(begin))
		sched_yield();
	assert_int_equal(rc, 0);
	memcpy(&opened, m.bytes, sizeof(opened));
	assert_int_equal(opened.result, 0);
	r->bytes = apus_dp_relay_memory_bytes(opened.ring_bytes);
	assert_int_equal(apus_shm_map(m.fds[0], r->bytes, true, &base), 0);
	apus_shm_message_close(&m);
	r->memory = base;
	r->in = base;
	r->out = (void *)(r->memory + r->bytes / 2);
	r->port = (uint16_t)opened.port;
}

static void rogue_close(struct rogue *r)
{
	close(r->fd);
	apus_shm_unmap(r->memory, r->bytes);
}

static void nudge(struct rogue *r)
{
	(void)apus_dp_relay_say(r->fd, APUS_DP_RELAY_BELL);
}

/* Garbage in a ring ends that queue, and nobody else's. */
static void a_broken_ring_ends_its_queue(void **state)
{
	struct host *h = *state;
	struct apus_dp_queue *client = open_client(h), *peer = open_home(APUS_DP_QUEUE_SOCKET);
	uint32_t gone = 0;

	srand(3);
	for (int kind = 0; kind < 24; kind++) {
		struct rogue r;
		uint64_t *words;

		rogue_open(h, &r);
		words = (uint64_t *)(void *)r.out->bytes;
		switch (kind) {
		case 0: r.out->tail = 1; break;
		case 1: r.out->tail = UINT64_MAX; break;
		case 2: r.out->tail = (uint64_t)APUS_DP_RELAY_RING_MIN * 2; break;
		case 3:
			words[0] = UINT32_MAX - 64;
			r.out->tail = 64;
			break;
		case 4:
			words[0] = UINT32_MAX;
			r.out->tail = APUS_DP_RELAY_RING_MIN;
			break;
		case 5: /* a consumer that lies is found out when there is something for it */
			r.in->head = 64;
			break;
		default:
			for (int i = 0; i < 2000; i++)
				words[i] = (uint64_t)rand() << (rand() % 33);
			r.out->tail = (uint64_t)(rand() % 4096) * 64;
			r.in->head = (uint64_t)rand() % 3 * 64;
			r.in->asleep = 1;
		}
		nudge(&r);
		if (kind < 5)
			await_count(&h->detached, ++gone);
		if (kind < 5)
			assert_string_equal(h->why, "its ring is broken");
		rogue_close(&r);
		if (kind >= 5)
			await_count(&h->detached, ++gone);
		exchange(client, peer, 500, 4);
		exchange(peer, client, 500, 4);
	}
	apus_dp_queue_close(client);
	apus_dp_queue_close(peer);
}

/* Datagrams that may not be sent are counted; the others of the same ring leave. */
static void bad_datagrams_are_dropped(void **state)
{
	struct host *h = *state;
	struct apus_dp_queue *peer = open_home(APUS_DP_QUEUE_SOCKET);
	struct apus_dp_addr to = addr_of(peer), bad[3] = {to, to, to};
	struct apus_shm_packet_producer p;
	struct apus_dp_rx rx[1];
	struct rogue r;

	rogue_open(h, &r);
	apus_shm_packet_producer_init(&p, r.out, APUS_DP_RELAY_RING_MIN);
	bad[0].family = AF_INET6;
	bad[1].port = 0;
	bad[2].family = 77;
	for (int i = 0; i < 5; i++) {
		struct apus_shm_packet packet = {.mark = i == 3 ? 9 : 0};

		assert_int_equal(apus_shm_packet_reserve(&p, 4, &packet), APUS_SHM_DONE);
		memcpy(packet.bytes, "abcd", 4);
		apus_dp_relay_put_addr(&packet, i < 3 ? &bad[i] : &to);
		apus_shm_packet_commit(&p, &packet);
	}
	apus_shm_packet_publish(&p);
	nudge(&r);
	assert_int_equal(await(peer, 1, rx), 1);
	assert_int_equal(rx[0].length, 4);
	/* From its own port, whatever it would like to be. */
	assert_int_equal(rx[0].from.port, r.port);
	apus_dp_queue_release(peer, rx, 1);
	assert_int_equal(apus_counter_get(&apus_dp_relay_thread_counters(h->relay, 0)->bad), 4);
	rogue_close(&r);
	apus_dp_queue_close(peer);
}

static void nonsense_is_refused(void **state)
{
	struct host *h = *state;
	struct apus_dp_queue *client = open_client(h), *peer = open_home(APUS_DP_QUEUE_SOCKET);
	uint8_t bytes[256];
	struct rogue r;

	srand(11);
	for (int i = 0; i < 40; i++) {
		int fd = apus_shm_connect(h->directory, "test");
		struct apus_dp_relay_head head =
			apus_dp_relay_head((enum apus_dp_relay_kind)(i % 12));

		for (size_t k = 0; k < sizeof(bytes); k++)
			bytes[k] = (uint8_t)rand();
		if (i >= 20)
			memcpy(bytes, &head, sizeof(head));
		assert_true(fd >= 0);
		(void)apus_shm_send(fd, bytes, 1 + (uint32_t)rand() % 256, NULL, 0);
		close(fd);
	}
	rogue_open(h, &r);
	(void)apus_shm_send(r.fd, "nonsense", 8, NULL, 0);
	await_count(&h->detached, 1);
	assert_string_equal(h->why, "it sent a message that is none");
	rogue_close(&r);
	exchange(client, peer, 500, 4);
	exchange(peer, client, 500, 4);
	apus_dp_queue_close(client);
	apus_dp_queue_close(peer);
}

/* One whose ring is full, and who takes nothing, holds nobody up. */
static void a_full_ring_stops_only_itself(void **state)
{
	struct host *h = *state;
	struct apus_dp_queue *client = open_client(h), *peer = open_home(APUS_DP_QUEUE_SOCKET);
	uint8_t bytes[1000] = {0};
	struct rogue r;

	rogue_open(h, &r);
	for (int i = 0; i < 600; i++) {
		struct apus_dp_tx tx = tx_of(apus_dp_addr_v4(home, r.port), bytes, sizeof(bytes));

		apus_dp_queue_tx(peer, &tx, 1);
		if (i % 100 == 0)
			exchange(peer, client, 100, 4);
	}
	for (int i = 0; i < 50; i++)
		exchange(client, peer, 2000, 4);
	rogue_close(&r);
	await_count(&h->detached, 1);
	exchange(peer, client, 2000, 4);
	apus_dp_queue_close(client);
	apus_dp_queue_close(peer);
}

/* --- the end of the process ---------------------------------------------------------------------- */

static void a_successor_is_found(void **state)
{
	struct host *h = *state;
	struct apus_dp_queue *client = open_client(h), *peer = open_home(APUS_DP_QUEUE_SOCKET);
	struct apus_dp_group group = group_of(6, 17406);
	struct apus_dp_tx tx = tx_of(addr_of(peer), "x", 1);
	uint16_t port = client->unicast_port;
	struct apus_mono begin;
	struct apus_dp_rx rx[4];

	assert_int_equal(apus_dp_queue_join(client, &group), 0);
	for (uint64_t round = 1; round <= 3; round++) {
		struct pollfd p = {.fd = apus_dp_queue_fd(client), .events = POLLIN};

		exchange(client, peer, 300, 4);
		host_stop(h);
		begin = apus_mono_now();
		/* As its owner would: it sleeps on the descriptor, which tells the end and keeps asking. */
		assert_true(poll(&p, 1, 20000) > 0);
		assert_int_equal(apus_dp_queue_rx(client, 4, rx), 0);
		assert_int_equal(apus_dp_queue_tx(client, &tx, 1), 0);
		host_start(h);
		while (count_of(&client->counters.reattached) < round && goes_on(begin)) {
			poll(&p, 1, 20000);
			assert_int_equal(apus_dp_queue_rx(client, 4, rx), 0);
		}
		assert_int_equal(count_of(&client->counters.reattached), round);
		assert_int_equal(client->unicast_port, port);
		assert_true(apus_dp_relay_queue_changed(client));
		exchange(client, peer, 300, 4);
		exchange(peer, client, 300, 4);
		tx = tx_of(group.group, "y", 1);
		assert_int_equal(apus_dp_queue_tx(peer, &tx, 1), 1);
		assert_int_equal(await(client, 1, rx), 1);
		apus_dp_queue_release(client, rx, 1);
		tx = tx_of(addr_of(peer), "x", 1);
	}
	apus_dp_queue_close(client);
	apus_dp_queue_close(peer);
}

static void a_second_process_is_refused(void **state)
{
	struct host *h = *state;
	struct apus_dp_relay *second = NULL;
	char why[160] = "";

	assert_int_equal(apus_dp_relay_create(&h->config, why, sizeof(why), &second),
			 APUS_EADDRINUSE);
	assert_null(second);
	h->config.thread_count = 0;
	assert_int_equal(apus_dp_relay_create(&h->config, why, sizeof(why), &second), APUS_EINVAL);
	h->config.thread_count = 1;
	h->config.ring_bytes = 100000;
	assert_int_equal(apus_dp_relay_create(&h->config, why, sizeof(why), &second), APUS_EINVAL);
}

#define WITH_HOST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_HOST(datagrams_pass),
		WITH_HOST(datagrams_pass_a_polling_process),
		WITH_HOST(a_sleeper_is_woken),
		WITH_HOST(held_datagrams_stay),
		WITH_HOST(groups_are_joined),
		WITH_HOST(ports_and_limits),
		WITH_HOST(interfaces_are_told),
		WITH_HOST(a_broken_ring_ends_its_queue),
		WITH_HOST(bad_datagrams_are_dropped),
		WITH_HOST(nonsense_is_refused),
		WITH_HOST(a_full_ring_stops_only_itself),
		WITH_HOST(a_successor_is_found),
		WITH_HOST(a_second_process_is_refused),
	};

	return cmocka_run_group_tests_name("relay", tests, NULL, NULL);
}
