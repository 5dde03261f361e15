/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: both kinds of UDP queue carry datagrams exactly, hold and release buffers as promised, and
 * work from any thread. Method: two queues on 127.0.0.1 in one process, each test run for each
 * kind.
 */
#include "transport_util.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

/* Counts allocations, of the C library's own too. Sanitizers bring their own allocator. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS_ALLOCATIONS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
	__has_feature(memory_sanitizer)
#define COUNTS_ALLOCATIONS 0
#endif
#endif
#ifndef COUNTS_ALLOCATIONS
#define COUNTS_ALLOCATIONS 1
#endif

#if COUNTS_ALLOCATIONS
static uint64_t allocations;
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);

void *malloc(size_t bytes)
{
	allocations++;
	return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
	allocations++;
	return __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes)
{
	allocations++;
	return __libc_realloc(old, bytes);
}
#endif

static enum apus_dp_queue_kind kind_of(void **state)
{
	return *(enum apus_dp_queue_kind *)*state;
}

/* 64 datagrams of different sizes, so none can form a run, arrive whole, in order, from our
 * port. */
static void burst_of_64_arrives_in_order(void **state)
{
	static uint8_t bytes[64][200];
	struct apus_dp_queue *a = open_home(kind_of(state)), *b = open_home(kind_of(state));
	struct apus_dp_addr from = addr_of(a);
	struct apus_dp_tx tx[64];
	struct apus_dp_rx rx[64];

	for (uint32_t i = 0; i < 64; i++) {
		fill(bytes[i], i, 100 + i);
		tx[i] = tx_of(addr_of(b), bytes[i], 100 + i);
	}
	assert_int_equal(apus_dp_queue_tx(a, tx, 64), 64);
	assert_int_equal(receive(b, 64, rx), 64);
	for (uint32_t i = 0; i < 64; i++) {
		assert_pattern(&rx[i], i, 100 + i);
		assert_int_equal(rx[i].socket_idx, 0);
		assert_true(apus_dp_addr_equal(&rx[i].from, &from));
	}
	assert_int_equal(count_of(&a->counters.tx), 64);
	assert_int_equal(count_of(&a->counters.tx_segmented), 0);
	assert_int_equal(count_of(&b->counters.rx), 64);
	assert_int_equal(count_of(&b->counters.rx_bytes), 64 * 100 + 63 * 64 / 2);
	apus_dp_queue_release(b, rx, 64);
	assert_silent(b);
	apus_dp_queue_close(a);
	apus_dp_queue_close(b);
}

static void sizes_from_0_to_the_largest(void **state)
{
	static const uint32_t size[] = {0,    1,    2,    3,    7,    8,     63,    64,   65,
					1471, 1472, 1473, 4096, 9000, 32768, 65000, 65507};
	static uint8_t bytes[65508];
	struct apus_dp_queue *a = open_home(kind_of(state)), *b = open_home(kind_of(state));
	struct apus_dp_tx tx;
	struct apus_dp_rx rx;

	for (uint32_t i = 0; i < APUS_ARRAY_LENGTH(size); i++) {
		fill(bytes, i, size[i]);
		tx = tx_of(addr_of(b), bytes, size[i]);
		assert_int_equal(apus_dp_queue_tx(a, &tx, 1), 1);
		assert_int_equal(receive(b, 1, &rx), 1);
		assert_pattern(&rx, i, size[i]);
		assert_int_equal((uintptr_t)rx.bytes % 8, 0);
		apus_dp_queue_release(b, &rx, 1);
	}
	tx = tx_of(addr_of(b), bytes, 65508);
	assert_int_equal(apus_dp_queue_tx(a, &tx, 1), 0);
	assert_int_equal(count_of(&a->counters.tx_dropped), 1);
	assert_silent(b);
	apus_dp_queue_close(a);
	apus_dp_queue_close(b);
}

/* Sends datagram `number` alone; it arrives at b, if that is a queue. Returns the port it came from. */
static uint16_t one_arrives(struct apus_dp_queue *a, struct apus_dp_queue *b,
			    const struct apus_dp_addr *to, uint32_t number)
{
	uint8_t bytes[40];
	struct apus_dp_tx tx = tx_of(*to, bytes, sizeof(bytes));
	struct apus_dp_rx rx;

	fill(bytes, number, sizeof(bytes));
	assert_int_equal(apus_dp_queue_tx(a, &tx, 1), 1);
	if (!b)
		return 0;
	assert_int_equal(receive(b, 1, &rx), 1);
	assert_pattern(&rx, number, sizeof(bytes));
	assert_memory_equal(rx.from.ip, to->ip, sizeof(to->ip));
	apus_dp_queue_release(b, &rx, 1);
	return rx.from.port;
}

/* Who gets one single datagram after another gets them through a socket of its own: nothing is lost at the change, when
 * the receiver ends and its successor has the same port, or when two destinations want the same place. */
static void often_sent_to_have_a_socket(void **state)
{
	struct apus_dp_queue *a = open_home(kind_of(state)), *b = open_home(kind_of(state)), *c;
	struct apus_dp_addr to = addr_of(b), other;
	struct apus_dp_queue_config config;
	uint32_t n = 0;
	uint16_t port = 0;

	for (; n < 63; n++)
		assert_int_equal(one_arrives(a, b, &to, n), a->unicast_port);
	for (; n < 200; n++) {
		port = one_arrives(a, b, &to, n);
		assert_int_not_equal(port, a->unicast_port);
	}
	home_config(kind_of(state), &config);
	config.unicast_port = to.port;
	for (int gone = 1; gone <= 3; gone++) { /* so many are sent meanwhile */
		apus_dp_queue_close(b);
		for (int i = 0; i < gone; i++)
			one_arrives(a, NULL, &to, n++);
		b = open_queue(&config);
		for (int i = 0; i < 100; i++)
			port = one_arrives(a, b, &to, n++);
		assert_int_not_equal(port, a->unicast_port); /* again */
	}
	do /* one whose port meets the same place */
		c = open_home(kind_of(state));
	while (c->unicast_port % 4 != to.port % 4 && (apus_dp_queue_close(c), true));
	other = addr_of(c);
	for (int i = 0; i < 300; i++) {
		one_arrives(a, c, &other, n++);
		one_arrives(a, b, &to, n++);
		one_arrives(a, c, &other, n++);
	}
	assert_int_equal(count_of(&a->counters.tx_dropped), 0);
	assert_silent(b);
	assert_silent(c);
	apus_dp_queue_close(a);
	apus_dp_queue_close(b);
	apus_dp_queue_close(c);
}

/* A gather of four parts is one datagram with the parts in order. */
static void gathers_are_joined(void **state)
{
	struct apus_dp_queue *a = open_home(kind_of(state)), *b = open_home(kind_of(state));
	struct apus_dp_tx tx = {.to = addr_of(b),
				.interface_idx = -1,
				.iov_count = 4,
				.iov = {{"RTPS", 4}, {"", 0}, {"ab", 2}, {"c", 1}}};
	struct apus_dp_rx rx;

	assert_int_equal(apus_dp_queue_tx(a, &tx, 1), 1);
	assert_int_equal(receive(b, 1, &rx), 1);
	assert_int_equal(rx.length, 7);
	assert_memory_equal(rx.bytes, "RTPSabc", 7);
	apus_dp_queue_close(a);
	apus_dp_queue_close(b);
}

/*
 * Two receivers b and c. The burst: 5 × 100 to b and a last one of 40 (a run of 6), one of 100 to b
 * (a new run of one, since the next goes to c), 3 × 100 to c (a run), then 50, 60 to b (growing: no
 * run).
 */
static void equal_neighbours_leave_as_runs(void **state)
{
	static const uint32_t size[] = {100, 100, 100, 100, 100, 40, 100, 100, 100, 100, 50, 60};
	static const uint32_t b_numbers[] = {0, 1, 2, 3, 4, 5, 6, 10, 11};
	static uint8_t bytes[12][100];
	struct apus_dp_queue *a = open_home(kind_of(state)), *b = open_home(kind_of(state));
	struct apus_dp_queue *c = open_home(kind_of(state));
	struct apus_dp_tx tx[12];
	struct apus_dp_rx rx[12];

	for (uint32_t i = 0; i < 12; i++) {
		fill(bytes[i], i, size[i]);
		tx[i] = tx_of(addr_of(i >= 7 && i <= 9 ? c : b), bytes[i], size[i]);
	}
	assert_int_equal(apus_dp_queue_tx(a, tx, 12), 12);
	assert_int_equal(count_of(&a->counters.tx_segmented), 9);
	assert_int_equal(count_of(&a->counters.syscalls), 1);
	assert_int_equal(receive(b, 9, rx), 9);
	for (uint32_t i = 0; i < 9; i++)
		assert_pattern(&rx[i], b_numbers[i], size[b_numbers[i]]);
	assert_int_equal(receive(c, 3, rx), 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_pattern(&rx[i], 7 + i, 100);
	apus_dp_queue_close(a);
	apus_dp_queue_close(b);
	apus_dp_queue_close(c);
}

/* 200 datagrams of 1,400 bytes exceed both 64 pieces and 65,000 bytes a run: 46 pieces each. */
static void long_runs_are_split(void **state)
{
	static uint8_t bytes[200][1400];
	static struct apus_dp_tx tx[200];
	static struct apus_dp_rx rx[200];
	struct apus_dp_queue_config config;
	struct apus_dp_queue *a = open_home(kind_of(state)), *b;

	home_config(kind_of(state), &config);
	config.rx_buffer_count = 256;
	config.rcvbuf_bytes = 1 << 21;
	b = open_queue(&config);
	for (uint32_t i = 0; i < 200; i++) {
		fill(bytes[i], i, 1400);
		tx[i] = tx_of(addr_of(b), bytes[i], 1400);
	}
	for (int at = 0; at < 200; at += 50) {
		assert_int_equal(apus_dp_queue_tx(a, &tx[at], 50), 50);
		assert_int_equal(receive(b, 50, &rx[at]), 50);
	}
	for (uint32_t i = 0; i < 200; i++)
		assert_pattern(&rx[i], i, 1400);
	assert_int_equal(count_of(&a->counters.tx_segmented), 200);
	assert_int_equal(count_of(&a->counters.segment_refusals), 0);
	apus_dp_queue_close(a);
	apus_dp_queue_close(b);
}

static void segmentation_can_be_switched_off(void **state)
{
	static uint8_t bytes[32][64];
	struct apus_dp_queue_config config;
	struct apus_dp_queue *a, *b = open_home(kind_of(state));
	struct apus_dp_tx tx[32];
	struct apus_dp_rx rx[32];

	home_config(kind_of(state), &config);
	config.segment = false;
	a = open_queue(&config);
	assert_int_equal(apus_dp_queue_rx(a, 32, rx), 0); /* become the issuer: use the send ring */
	for (uint32_t i = 0; i < 32; i++) {
		fill(bytes[i], i, 64);
		tx[i] = tx_of(addr_of(b), bytes[i], 64);
	}
	assert_int_equal(apus_dp_queue_tx(a, tx, 32), 32);
	assert_int_equal(count_of(&a->counters.tx_segmented), 0);
	assert_int_equal(receive(b, 32, rx), 32);
	for (uint32_t i = 0; i < 32; i++)
		assert_pattern(&rx[i], i, 64);
	apus_dp_queue_close(a);
	apus_dp_queue_close(b);
}

/* What cannot be sent is dropped and counted, and harms none of its neighbours. */
static void malformed_sends_are_dropped(void **state)
{
	uint8_t bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	struct apus_dp_queue *a = open_home(kind_of(state)), *b = open_home(kind_of(state));
	struct apus_dp_tx tx[8];
	struct apus_dp_rx rx[8];

	for (uint32_t i = 0; i < 8; i++)
		tx[i] = tx_of(addr_of(b), bytes, i + 1);
	tx[1].iov_count = 0;
	tx[2].iov_count = 5;
	tx[3].to.port = 0;
	tx[4].to.family = 0;
	tx[5].interface_idx = 1;
	tx[6].iov[0].iov_len = SIZE_MAX;
	assert_int_equal(apus_dp_queue_tx(a, tx, 8), 2);
	assert_int_equal(count_of(&a->counters.tx), 2);
	assert_int_equal(count_of(&a->counters.tx_dropped), 6);
	assert_int_equal(receive(b, 3, rx), 2);
	assert_int_equal(rx[0].length, 1);
	assert_int_equal(rx[1].length, 8);
	assert_int_equal(apus_dp_queue_tx(a, tx, 0), 0);
	apus_dp_queue_close(a);
	apus_dp_queue_close(b);
}

static void too_long_datagrams_are_marked(void **state)
{
	uint8_t bytes[65];
	struct apus_dp_queue_config config;
	struct apus_dp_queue *a = open_home(kind_of(state)), *b;
	struct apus_dp_tx tx[2];
	struct apus_dp_rx rx[2];

	home_config(kind_of(state), &config);
	config.rx_buffer_bytes = 64;
	b = open_queue(&config);
	fill(bytes, 9, 65);
	tx[0] = tx_of(addr_of(b), bytes, 65);
	tx[1] = tx_of(addr_of(b), bytes, 64);
	assert_int_equal(apus_dp_queue_tx(a, tx, 2), 2);
	assert_int_equal(receive(b, 2, rx), 2);
	assert_true(rx[0].truncated);
	assert_int_equal(rx[0].length, 64);
	assert_pattern(&rx[1], 9, 64);
	assert_int_equal(count_of(&b->counters.rx_truncated), 1);
	apus_dp_queue_close(a);
	apus_dp_queue_close(b);
}

/*
 * 8 buffers, 20 datagrams. The first 8 are held: nothing more comes, which is counted once. Then
 * they are released one at a time, out of order: each release lets exactly one more in, none is
 * lost, and the ones still held do not change. Twice over, so that recovery itself can be repeated.
 */
static void holding_all_buffers_loses_nothing(void **state)
{
	static const int order[8] = {3, 0, 7, 1, 6, 2, 5, 4};
	struct apus_dp_queue_config config;
	struct apus_dp_queue *a = open_home(kind_of(state)), *b;
	uint8_t bytes[20][48];
	struct apus_dp_tx tx[20];
	struct apus_dp_rx held[8], rx[12];

	home_config(kind_of(state), &config);
	config.rx_buffer_count = 8;
	b = open_queue(&config);
	for (uint64_t round = 1; round <= 2; round++) {
		for (uint32_t i = 0; i < 20; i++) {
			fill(bytes[i], i, 48);
			tx[i] = tx_of(addr_of(b), bytes[i], 48);
		}
		assert_int_equal(apus_dp_queue_tx(a, tx, 20), 20);
		assert_int_equal(receive(b, 20, held), 8);
		assert_int_equal(count_of(&b->counters.rx_starved), 9 * round - 8);
		for (uint32_t i = 0; i < 8; i++) {
			apus_dp_queue_release(b, &held[order[i]], 1);
			assert_int_equal(receive(b, 12, &rx[i]), 1);
			assert_pattern(&rx[i], 8 + i, 48);
			for (uint32_t j = i + 1; j < 8; j++)
				assert_pattern(&held[order[j]], (uint32_t)order[j], 48);
		}
		apus_dp_queue_release(b, rx, 8);
		assert_int_equal(receive(b, 4, rx), 4);
		for (uint32_t i = 0; i < 4; i++)
			assert_pattern(&rx[i], 16 + i, 48);
		apus_dp_queue_release(b, rx, 4);
		assert_silent(b);
	}
	apus_dp_queue_close(a);
	apus_dp_queue_close(b);
}

/* Sends datagrams number first..first+n-1, of 4 bytes each. */
static void send_numbered(struct apus_dp_queue *a, struct apus_dp_queue *b, uint32_t first,
			  uint32_t n)
{
	uint8_t bytes[64][4];
	struct apus_dp_tx tx[64];

	for (uint32_t i = 0; i < n; i++) {
		fill(bytes[i], first + i, 4);
		tx[i] = tx_of(addr_of(b), bytes[i], 4);
	}
	assert_int_equal(apus_dp_queue_tx(a, tx, (int)n), n);
}

/* Receives those, at most `max` a call. */
static void receive_numbered(struct apus_dp_queue *b, uint32_t first, uint32_t n, int max)
{
	struct apus_dp_rx rx[64];
	uint32_t got = 0;

	for (int polls = 0; got < n && polls < POLLS; polls++) {
		int left = (int)(n - got);
		int k = apus_dp_queue_rx(b, left < max ? left : max, rx);

		for (int i = 0; i < k; i++)
			assert_pattern(&rx[i], first + got + (uint32_t)i, 4);
		apus_dp_queue_release(b, rx, k);
		got += (uint32_t)k;
	}
	assert_int_equal(got, n);
}

/* After 3 dense calls unicast is received through the ring, after 3 sparse ones by plain calls again,
 * each time with a backlog, and on the way back with more arriving: none lost, none out of order. */
static void unicast_moves_to_the_ring_and_back(void **state)
{
	struct apus_dp_queue_config config;
	struct apus_dp_queue *a = open_home(kind_of(state)), *b;
	uint64_t switches;

	home_config(kind_of(state), &config);
	config.ring_after = 3;
	b = open_queue(&config);
	for (uint32_t round = 0; round < 20; round++) {
		switches = count_of(&b->counters.ring_switches);
		send_numbered(a, b, round, 60);
		receive_numbered(b, round, 40, 8);
		if (b->kind == APUS_DP_QUEUE_URING)
			assert_int_equal(count_of(&b->counters.ring_switches), switches + 1);
		for (uint32_t i = 0; i < 20; i++) {
			send_numbered(a, b, round + 60 + i, 1);
			receive_numbered(b, round + 40 + i, 1, 1);
		}
		if (b->kind == APUS_DP_QUEUE_URING)
			assert_int_equal(count_of(&b->counters.ring_switches), switches + 2);
		receive_numbered(b, round + 60, 20, 1);
		assert_silent(b);
	}
	apus_dp_queue_close(a);
	apus_dp_queue_close(b);
}

/* A thread that does something to a queue, alone, while the test waits for it. */
struct helper {
	struct apus_dp_queue *q;
	struct apus_dp_tx *tx;
	struct apus_dp_rx *rx;
	int n;
	int result;
};

static void *send_in_thread(void *arg)
{
	struct helper *h = arg;

	h->result = apus_dp_queue_tx(h->q, h->tx, h->n);
	return NULL;
}

static void *receive_in_thread(void *arg)
{
	struct helper *h = arg;

	h->result = receive(h->q, h->n, h->rx);
	return NULL;
}

static int run(void *(*what)(void *), struct helper *h)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, what, h), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	return h->result;
}

/* The test's thread is issuer of both queues; another sends and receives, then the first again.
 * What the first had left in the completion queue is not lost to the second. */
static void other_threads_may_send_and_receive(void **state)
{
	uint8_t bytes[40][40];
	struct apus_dp_queue *a = open_home(kind_of(state)), *b = open_home(kind_of(state));
	struct apus_dp_tx tx[40];
	struct apus_dp_rx rx[40];
	struct helper helper = {.q = a, .tx = tx, .n = 40};

	assert_int_equal(apus_dp_queue_rx(a, 1, rx) + apus_dp_queue_rx(b, 1, rx), 0);
	for (uint32_t i = 0; i < 40; i++) {
		fill(bytes[i], i, i + 1);
		tx[i] = tx_of(addr_of(b), bytes[i], i + 1);
	}
	assert_int_equal(run(send_in_thread, &helper), 40);
	assert_int_equal(receive(b, 5, rx), 5);
	helper = (struct helper){.q = b, .rx = rx + 5, .n = 35};
	assert_int_equal(run(receive_in_thread, &helper), 35);
	for (uint32_t i = 0; i < 40; i++)
		assert_pattern(&rx[i], i, i + 1);
	apus_dp_queue_release(b, rx, 40);
	assert_int_equal(apus_dp_queue_tx(a, tx, 40), 40);
	assert_int_equal(receive(b, 40, rx), 40);
	for (uint32_t i = 0; i < 40; i++)
		assert_pattern(&rx[i], i, i + 1);
	if (b->kind == APUS_DP_QUEUE_URING)
		assert_true(count_of(&b->counters.foreign_calls) >= 1);
	apus_dp_queue_close(a);
	apus_dp_queue_close(b);
}

/* The issuer ends; the queue goes on in this thread, and its port is free right after the close. */
static void the_issuer_may_end(void **state)
{
	struct apus_dp_queue_config config;
	struct apus_dp_queue *a = open_home(kind_of(state)), *b = open_home(kind_of(state));
	uint8_t bytes[4];
	struct apus_dp_tx tx = tx_of(addr_of(b), bytes, 4);
	struct apus_dp_rx rx[3];
	struct helper helper = {.q = b, .rx = rx, .n = 1};

	fill(bytes, 1, 4);
	assert_int_equal(apus_dp_queue_tx(a, &tx, 1), 1);
	assert_int_equal(run(receive_in_thread, &helper), 1);
	for (uint32_t i = 0; i < 100; i++) {
		fill(bytes, i, 4);
		assert_int_equal(apus_dp_queue_tx(a, &tx, 1), 1);
		assert_int_equal(receive(b, 1, &rx[1]), 1);
		assert_pattern(&rx[1], i, 4);
		apus_dp_queue_release(b, &rx[1], 1);
	}
	assert_pattern(&rx[0], 1, 4);
	home_config(kind_of(state), &config);
	config.unicast_port = b->unicast_port;
	apus_dp_queue_close(b);
	b = open_queue(&config);
	apus_dp_queue_close(a);
	apus_dp_queue_close(b);
}

static bool is_readable(struct apus_dp_queue *q)
{
	struct pollfd pollfd = {.fd = apus_dp_queue_fd(q), .events = POLLIN};

	assert_true(pollfd.fd >= 0);
	return poll(&pollfd, 1, 0) == 1;
}

/* Unicast and a group joined later both make the descriptor readable, until all has been
 * received. */
static void the_descriptor_says_when_to_wake(void **state)
{
	struct apus_dp_group group = group_of(1, 17411);
	struct apus_dp_queue *a = open_home(kind_of(state)), *b = open_home(kind_of(state));
	struct apus_dp_tx tx = tx_of(addr_of(b), "x", 1);
	struct apus_dp_rx rx;

	assert_int_equal(apus_dp_queue_rx(b, 1, &rx), 0);
	assert_false(is_readable(b));
	assert_int_equal(apus_dp_queue_join(b, &group), 0);
	assert_int_equal(apus_dp_queue_rx(b, 1, &rx), 0);
	for (int i = 0; i < 10; i++) {
		tx.to = i % 2 ? group.group : addr_of(b);
		assert_int_equal(apus_dp_queue_tx(a, &tx, 1), 1);
		assert_true(is_readable(b));
		assert_int_equal(apus_dp_queue_rx(b, 1, &rx), 1);
		assert_int_equal(rx.socket_idx, i % 2);
		apus_dp_queue_release(b, &rx, 1);
		assert_int_equal(apus_dp_queue_rx(b, 1, &rx), 0);
		assert_false(is_readable(b));
	}
	apus_dp_queue_close(a);
	apus_dp_queue_close(b);
}

static void nothing_is_allocated_after_open(void **state)
{
#if COUNTS_ALLOCATIONS
	static uint8_t bytes[64][300];
	struct apus_dp_queue *a = open_home(kind_of(state)), *b = open_home(kind_of(state));
	struct apus_dp_group group = group_of(2, 17412);
	struct apus_dp_tx tx[64];
	struct apus_dp_rx rx[64];
	uint64_t before = allocations;
	int got = 0;

	assert_true(before > 0); /* the hook works */
	for (int i = 0; i < 64; i++)
		tx[i] = tx_of(addr_of(b), bytes[i], i % 16 ? 300 : 200);
	for (int round = 0; round < 200; round++) {
		apus_dp_queue_tx(a, tx, 64);
		for (int polls = 0; polls < 8; polls++) {
			int n = apus_dp_queue_rx(b, 64, rx);

			got += n;
			apus_dp_queue_release(b, rx, n);
		}
	}
	apus_dp_queue_join(b, &group);
	apus_dp_queue_fd(b);
	apus_dp_queue_leave(b, &group);
	assert_int_equal(allocations, before);
	assert_int_equal(got, 200 * 64);
	apus_dp_queue_close(a);
	apus_dp_queue_close(b);
#else
	(void)state;
	skip();
#endif
}

static enum apus_dp_queue_kind uring = APUS_DP_QUEUE_URING, sockets = APUS_DP_QUEUE_SOCKET;
static enum apus_dp_queue_kind automatic = APUS_DP_QUEUE_AUTO;

/* Each test for each kind; sockets stand in for io_uring where this kernel or build refuses it. */
#define EACH(f)                                                                                \
	{#f " (sockets)", f, NULL, NULL, &sockets}, {#f " (io_uring)", f, NULL, NULL, &uring}, \
	{                                                                                      \
#f " (auto)", f, NULL, NULL, &automatic                                        \
	}

static const struct CMUnitTest tests[] = {
	EACH(burst_of_64_arrives_in_order),
	EACH(sizes_from_0_to_the_largest),
	EACH(often_sent_to_have_a_socket),
	EACH(gathers_are_joined),
	EACH(equal_neighbours_leave_as_runs),
	EACH(long_runs_are_split),
	EACH(segmentation_can_be_switched_off),
	EACH(malformed_sends_are_dropped),
	EACH(too_long_datagrams_are_marked),
	{"holding_all_buffers_loses_nothing (sockets)", holding_all_buffers_loses_nothing, NULL,
	 NULL, &sockets},
	{"holding_all_buffers_loses_nothing (io_uring)", holding_all_buffers_loses_nothing, NULL,
	 NULL, &uring},
	{"unicast_moves_to_the_ring_and_back", unicast_moves_to_the_ring_and_back, NULL, NULL,
	 &uring},
	EACH(other_threads_may_send_and_receive),
	EACH(the_issuer_may_end),
	EACH(the_descriptor_says_when_to_wake),
	EACH(nothing_is_allocated_after_open),
};

/* Tries whether this host permits io_uring; if not its half of the tests makes no sense. */
static int choose_kinds(void **state)
{
	struct apus_dp_queue *q = open_home(APUS_DP_QUEUE_AUTO);

	(void)state;
	if (q->kind != APUS_DP_QUEUE_URING) {
		print_message("io_uring is refused here (%s): sockets only\n", q->fallback_reason);
		uring = APUS_DP_QUEUE_SOCKET;
	}
	apus_dp_queue_close(q);
	return 0;
}

int main(void)
{
	return cmocka_run_group_tests(tests, choose_kinds, NULL);
}
