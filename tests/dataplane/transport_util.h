/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers shared by the transport tests: queues on 127.0.0.1, bursts with a recognisable content,
 * and receiving until a count is reached. Delivery over loopback is part of the send, so a bounded
 * number of polls decides; nothing sleeps.
 */
#ifndef APUS_TESTS_TRANSPORT_UTIL_H
#define APUS_TESTS_TRANSPORT_UTIL_H

#include "dataplane/io/transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define POLLS 400

static const uint8_t home[4] = {127, 0, 0, 1};

static inline void home_config(enum apus_dp_queue_kind kind, struct apus_dp_queue_config *config)
{
	size_t count = 0;

	apus_dp_queue_config_default(config);
	config->kind = kind;
	/* io_uring: the ring only. AUTO: back and forth as often as possible. */
	config->ring_after = kind == APUS_DP_QUEUE_AUTO ? 2 : 0;
	assert_int_equal(
		apus_dp_netif_lookup("lo", NULL, 0, APUS_DP_NETIF_MAX, config->interfaces, &count),
		0);
	config->interface_count = (uint32_t)count;
}

static inline struct apus_dp_queue *open_queue(const struct apus_dp_queue_config *config)
{
	struct apus_dp_queue *q = NULL;
	char why[128] = "";

	if (apus_dp_queue_open(config, why, sizeof(why), &q) != 0)
		fail_msg("open: %s", why);
	return q;
}

static inline struct apus_dp_queue *open_home(enum apus_dp_queue_kind kind)
{
	struct apus_dp_queue_config config;

	home_config(kind, &config);
	return open_queue(&config);
}

static inline struct apus_dp_addr addr_of(const struct apus_dp_queue *q)
{
	return apus_dp_addr_v4(home, q->unicast_port);
}

static inline struct apus_dp_group group_of(uint8_t last, uint16_t port)
{
	const uint8_t ip[4] = {239, 255, 77, last};

	return (struct apus_dp_group){apus_dp_addr_v4(ip, port)};
}

/* Byte `at` of datagram `number`. */
static inline uint8_t pattern(uint32_t number, uint32_t at)
{
	return (uint8_t)(number * 31 + at * 7 + (at >> 8));
}

static inline void fill(uint8_t *bytes, uint32_t number, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++)
		bytes[i] = pattern(number, i);
}

static inline void assert_pattern(const struct apus_dp_rx *rx, uint32_t number, uint32_t length)
{
	assert_int_equal(rx->length, length);
	assert_false(rx->truncated);
	for (uint32_t i = 0; i < length; i++)
		if (rx->bytes[i] != pattern(number, i))
			fail_msg("datagram %u differs at byte %u", number, i);
}

static inline struct apus_dp_tx tx_of(struct apus_dp_addr to, void *bytes, size_t length)
{
	return (struct apus_dp_tx){
		.to = to, .interface_idx = -1, .iov_count = 1, .iov = {{bytes, length}}};
}

/* Receives until `n` are there or the polls are used up; all stay held. Returns how many came. */
static inline int receive(struct apus_dp_queue *q, int n, struct apus_dp_rx *out)
{
	int got = 0;

	for (int i = 0; i < POLLS && got < n; i++)
		got += apus_dp_queue_rx(q, n - got, out + got);
	return got;
}

static inline void assert_silent(struct apus_dp_queue *q)
{
	struct apus_dp_rx rx[4];

	for (int i = 0; i < 20; i++)
		assert_int_equal(apus_dp_queue_rx(q, 4, rx), 0);
}

static inline uint64_t count_of(const struct apus_counter *counter)
{
	return apus_counter_get(counter);
}

#endif
