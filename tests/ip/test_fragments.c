/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: what is fragmented comes out whole in any order, once; overlaps, contradictions and floods never make a
 * datagram that was not sent, and take no more than their share.
 * Method: payloads of all sizes over IPv4 and IPv6, their frames shuffled and doubled; random pieces against a
 * plain reference that keeps a map of bytes; floods against the declared number of buffers.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/ip/link.h"

static uint8_t payload[APUS_IP_PAYLOAD_MAX_BYTES];
static uint64_t dice = 88172645463325252u;

static uint32_t roll(uint32_t below)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return (uint32_t)(dice >> 20) % below;
}

static int set_up(void **state)
{
	struct link *l = malloc(sizeof(*l));
	const uint8_t mac[6] = {2, 0, 0, 0, 0, 2};
	struct apus_ip_endpoint four = link_v4(10, 0, 0, 2, 0), six = link_v6(2, 0);

	link_init(l);
	for (uint8_t n = 1; n <= 2; n++) {
		struct apus_ip_config c = link_config6(n);

		c.announce = false;
		c.reassembly_count = 8;
		c.reassembly_per_source_count = 3;
		link_add(l, &c);
	}
	assert_int_equal(apus_ip_neighbour_set(l->host[0], &four, mac), 0);
	assert_int_equal(apus_ip_neighbour_set(l->host[0], &six, mac), 0);
	for (uint32_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i * 7 + i / 251);
	*state = l;
	return 0;
}

static int tear_down(void **state)
{
	link_fini(*state);
	free(*state);
	return 0;
}

static uint64_t count(const struct link *l, enum apus_ip_count counter)
{
	return apus_ip_count_get(l->host[1], counter);
}

/* Makes the frames of one datagram, without delivering them. */
static void make_frames(struct link *l, bool six, uint32_t payload_bytes)
{
	l->cut = true;
	l->frame_count = 0;
	l->rx_count = 0;
	assert_int_equal(link_send(l, 0, six ? link_v6(2, 7411) : link_v4(10, 0, 0, 2, 7411),
				   payload, payload_bytes),
			 0);
	l->cut = false;
}

static void expect_payload(const struct link *l, uint32_t payload_bytes)
{
	assert_int_equal(l->rx_count, 1);
	assert_int_equal(l->rx[0].bytes, payload_bytes);
	assert_memory_equal(l->rx[0].data, payload, payload_bytes);
	assert_int_equal(l->rx[0].from.port, 7400);
	assert_int_equal(l->rx[0].to.port, 7411);
}

static void deliver_shuffled(struct link *l, bool doubled)
{
	uint32_t order[2 * LINK_FRAME_MAX], n = l->frame_count;

	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	/* The very last piece completes the datagram: double all others. */
	for (uint32_t i = n; i-- > 1;) {
		uint32_t j = roll(i + 1), t = order[i];

		order[i] = order[j];
		order[j] = t;
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct link_frame *f = &l->frames[order[i]];

		link_input(l, 1, f->data, f->bytes);
		if (doubled && i + 1 < n)
			assert_int_equal(link_input(l, 1, f->data, f->bytes), APUS_IP_CONSUMED);
	}
}

static void any_size_any_order(void **state)
{
	struct link *l = *state;
	static const uint32_t sizes[] = {0,    1,    1472, 1473, 1474,  1452, 1453,
					 1448, 2952, 2953, 8192, 65506, 65507};

	for (uint32_t i = 0; i < 120; i++) {
		bool six = i & 1;
		uint32_t fixed = APUS_ARRAY_LENGTH(sizes);
		uint32_t bytes = i / 2 < fixed ? sizes[i / 2] : roll(65508);
		uint32_t room = six ? 1448 : 1480; /* of a fragment, in units of 8 */

		make_frames(l, six, bytes);
		bool whole = bytes + 8 <= (six ? 1460u : 1480u);

		assert_int_equal(l->frame_count, whole ? 1 : (bytes + 8 + room - 1) / room);
		for (uint32_t k = 0; k < l->frame_count; k++)
			assert_true(l->frames[k].bytes <= 1514);
		deliver_shuffled(l, i % 3 == 0);
		expect_payload(l, bytes);
	}
	assert_int_equal(count(l, APUS_IP_REASSEMBLY_EVICTED), 0);
	assert_int_equal(count(l, APUS_IP_DROP_FRAGMENT_OVERLAP), 0);
}

static void small_mtu(void **state)
{
	struct link *l = *state;
	struct apus_ip_config c = link_config(1);
	struct apus_ip_endpoint to = link_v4(10, 0, 0, 2, 7411);
	const uint8_t mac[6] = {2, 0, 0, 0, 0, 2};

	c.mtu_bytes = 577;
	c.vlan_id = 0;
	uint32_t host = link_add(l, &c);

	assert_int_equal(apus_ip_neighbour_set(l->host[host], &to, mac), 0);
	assert_int_equal(apus_ip_payload_bytes(l->host[host], AF_INET), 549);
	for (uint32_t bytes = 540; bytes < 1200; bytes++) {
		l->rx_count = 0;
		assert_int_equal(link_send(l, host, to, payload, bytes), 0);
		expect_payload(l, bytes);
	}
}

/* --- Against a reference -------------------------------------------------------------------------- */

struct reference {
	uint8_t data[65536];
	bool have[65536];
	uint32_t total, end, have_bytes;
	bool dead;
};

enum outcome { KEPT, COMPLETE, REFUSED };

static enum outcome reference_input(struct reference *r, uint32_t offset, uint32_t bytes, bool more,
				    const uint8_t *data)
{
	uint32_t end = offset + bytes, met = 0, same = 0;

	for (uint32_t i = offset; i < end; i++) {
		met += r->have[i];
		same += r->have[i] && r->data[i] == data[i - offset];
	}
	if (r->dead || (r->total && (more ? end > r->total : end != r->total)) ||
	    (!more && r->end > end) || (met && same < bytes)) {
		r->dead = true;
		return REFUSED;
	}
	if (met)
		return KEPT;
	memcpy(r->data + offset, data, bytes);
	memset(r->have + offset, 1, bytes);
	r->have_bytes += bytes;
	r->end = end > r->end ? end : r->end;
	if (!more)
		r->total = end;
	return r->total && r->have_bytes == r->total ? COMPLETE : KEPT;
}

/* A fragment of 10.0.0.1's datagram `id`; returns the frame's length. */
static uint32_t make_piece(uint8_t *frame, uint8_t from, uint16_t id, uint32_t offset,
			   uint32_t bytes, bool more, const uint8_t *data)
{
	uint32_t length = link_udp4(from, 2, 1, 1, data, bytes, frame);

	memmove(frame + 34, frame + 42, bytes);
	frame[16] = (uint8_t)((20 + bytes) >> 8);
	frame[17] = (uint8_t)(20 + bytes);
	frame[18] = (uint8_t)(id >> 8);
	frame[19] = (uint8_t)id;
	frame[20] = (uint8_t)(offset / 8 >> 8 | (more ? 0x20 : 0));
	frame[21] = (uint8_t)(offset / 8);
	link_reseal4(frame);
	return length - 8;
}

static void agrees_with_reference(void **state)
{
	struct link *l = *state;
	struct apus_ip_config c = link_config(2);
	static struct reference r;
	static uint8_t frame[2000];
	uint32_t complete = 0, refused = 0;

	c.fragment_min_bytes = 8;
	uint32_t host = link_add(l, &c);

	for (uint16_t id = 1; id < 4000; id++) {
		uint32_t total = 8 + roll(200);
		enum outcome outcome = KEPT;
		uint8_t data[256];

		memset(&r, 0, sizeof(r));
		/* A datagram without checksum and as long as it says, or it would not come out. */
		for (uint32_t i = 0; i < sizeof(data); i++)
			data[i] = (uint8_t)roll(256);
		memset(data, 0, 8);
		data[3] = 7;
		data[5] = (uint8_t)total;
		for (uint32_t i = 0; i < 40 && outcome != COMPLETE; i++) {
			uint32_t offset = roll(total / 8 + 1) * 8;
			uint32_t bytes = 8 * (1 + roll(6));
			bool more = offset + bytes < total;

			if (offset >= total)
				continue;
			if (!more)
				bytes = total - offset;
			/* Most are of one partition of the datagram, some are not. */
			if (id % 2) {
				offset = roll((total + 23) / 24) * 24;
				more = offset + 24 < total;
				bytes = more ? 24 : total - offset;
			}
			if (roll(50) == 0 && offset > 8)
				data[offset + roll(bytes)] ^= (uint8_t)(1 + roll(255));
			uint32_t length =
				make_piece(frame, 1, id, offset, bytes, more, data + offset);
			enum apus_ip_verdict verdict = link_input(l, host, frame, length);

			outcome = offset == 0 && !more
					  ? COMPLETE /* not a fragment */
					  : reference_input(&r, offset, bytes, more, data + offset);
			assert_int_equal(verdict, outcome == KEPT       ? APUS_IP_CONSUMED
						  : outcome == COMPLETE ? APUS_IP_UDP
									: APUS_IP_DROPPED);
			if (outcome == COMPLETE && more + offset) {
				const struct link_rx *rx = &l->rx[(l->rx_count - 1) % LINK_RX_MAX];

				assert_int_equal(rx->bytes, total - 8);
				assert_memory_equal(rx->data, r.data + 8, total - 8);
				complete++;
			}
			refused += outcome == REFUSED;
		}
		l->now.ns += 3 * APUS_NS_PER_SEC; /* nothing is left of it */
	}
	assert_true(complete > 500);
	assert_true(refused > 500);
}

/* --- Refused -------------------------------------------------------------------------------------- */

static void bad_pieces(void **state)
{
	struct link *l = *state;
	uint8_t frame[2000];

	/* Tiny, not a multiple of 8, empty, too long in the end. */
	link_input(l, 1, frame, make_piece(frame, 1, 1, 0, 248, true, payload));
	link_input(l, 1, frame, make_piece(frame, 1, 2, 0, 257, true, payload));
	link_input(l, 1, frame, make_piece(frame, 1, 3, 8, 0, false, payload));
	assert_int_equal(count(l, APUS_IP_DROP_FRAGMENT), 3);
	link_input(l, 1, frame, make_piece(frame, 1, 4, 65528, 8, false, payload));
	link_input(l, 1, frame, make_piece(frame, 1, 4, 65528, 1480, true, payload));
	link_input(l, 1, frame, make_piece(frame, 1, 4, 64512, 1024, false, payload));
	assert_int_equal(count(l, APUS_IP_DROP_FRAGMENT_LONG), 3);
	/* Not UDP. */
	uint32_t bytes = make_piece(frame, 1, 5, 0, 256, true, payload);

	frame[23] = 1;
	link_reseal4(frame);
	link_input(l, 1, frame, bytes);
	assert_int_equal(count(l, APUS_IP_DROP_FRAGMENT), 4);
	assert_int_equal(count(l, APUS_IP_RX_FRAGMENT), 0);
}

static void overlap_kills_the_rest_too(void **state)
{
	struct link *l = *state;
	uint8_t frame[2000];

	make_frames(l, false, 5000);
	link_input(l, 1, l->frames[0].data, l->frames[0].bytes);
	uint16_t id = (uint16_t)(l->frames[0].data[18] << 8 | l->frames[0].data[19]);

	link_input(l, 1, frame, make_piece(frame, 1, id, 1472, 264, true, payload));
	for (uint32_t i = 0; i < l->frame_count && i < 4; i++)
		assert_int_equal(link_input(l, 1, l->frames[i].data, l->frames[i].bytes),
				 APUS_IP_DROPPED);
	assert_int_equal(count(l, APUS_IP_DROP_FRAGMENT_OVERLAP), 1 + 4);
	assert_int_equal(l->rx_count, 0);
}

static void given_up_in_time(void **state)
{
	struct link *l = *state;

	make_frames(l, false, 5000);
	uint32_t n = l->frame_count;

	for (uint32_t i = 0; i + 1 < n; i++)
		link_input(l, 1, l->frames[i].data, l->frames[i].bytes);
	assert_int_equal(apus_ip_due(l->host[1]).ns, INT64_MIN);
	apus_ip_tick(l->host[1], l->now);
	l->now.ns += 2 * APUS_NS_PER_SEC - 1;
	apus_ip_tick(l->host[1], l->now);
	assert_int_equal(count(l, APUS_IP_REASSEMBLY_TIMEOUT), 0);
	l->now.ns++;
	assert_true(apus_ip_tick(l->host[1], l->now).ns > l->now.ns);
	assert_int_equal(count(l, APUS_IP_REASSEMBLY_TIMEOUT), 1);
	assert_int_equal(link_input(l, 1, l->frames[n - 1].data, l->frames[n - 1].bytes),
			 APUS_IP_CONSUMED);
	assert_int_equal(l->rx_count, 0);
}

static void one_source_has_its_share(void **state)
{
	struct link *l = *state;
	uint8_t frame[2000];

	make_frames(l, false, 5000);
	link_input(l, 1, l->frames[0].data, l->frames[0].bytes);
	/* 10.0.0.3 begins a thousand datagrams; 10.0.0.1's is not touched. */
	for (uint16_t id = 0; id < 1000; id++) {
		l->now.ns += 1000;
		link_input(l, 1, frame, make_piece(frame, 3, id, 0, 512, true, payload));
	}
	assert_int_equal(count(l, APUS_IP_REASSEMBLY_EVICTED), 1000 - 3);
	for (uint32_t i = 1; i < l->frame_count && i < 4; i++)
		link_input(l, 1, l->frames[i].data, l->frames[i].bytes);
	expect_payload(l, 5000);
}

static void forged_sources_take_the_oldest(void **state)
{
	struct link *l = *state;
	uint8_t frame[2000];

	make_frames(l, false, 30000);
	uint32_t n = l->frame_count;

	/* Between two pieces of ours, fewer forged datagrams than buffers; all at one time, as in a burst. */
	for (uint32_t i = 0; i < n; i++) {
		link_input(l, 1, l->frames[i].data, l->frames[i].bytes);
		for (uint8_t k = 0; k < 6; k++) {
			uint32_t bytes = make_piece(frame, (uint8_t)(3 + (i * 6 + k) % 200),
						    (uint16_t)(i * 6 + k), 0, 512, true, payload);

			l->now.ns += 1000;
			link_input(l, 1, frame, bytes);
		}
	}
	expect_payload(l, 30000);
}

static void lent_buffers_stay(void **state)
{
	struct link *l = *state;
	struct apus_ip_datagram d[9];
	uint32_t held = 0;

	for (uint32_t k = 0; k < 9; k++) {
		payload[100] = (uint8_t)k;
		make_frames(l, false, 3000);
		for (uint32_t i = 0; i < l->frame_count; i++) {
			const struct link_frame *f = &l->frames[i];

			held += apus_ip_input(l->host[1], f->data, f->bytes, 0, l->now, &d[held]) ==
				APUS_IP_UDP;
		}
	}
	assert_int_equal(held, 8);
	assert_int_equal(count(l, APUS_IP_DROP_FRAGMENT_FULL), 3);
	for (uint32_t k = 0; k < 8; k++) {
		assert_int_equal(d[k].payload[100], k);
		assert_int_equal((uintptr_t)d[k].payload % 8, 0);
	}
	apus_ip_release(l->host[1], d[3].buffer_idx);
	payload[100] = 99;
	make_frames(l, true, 3000);
	for (uint32_t i = 0; i < l->frame_count; i++)
		link_input(l, 1, l->frames[i].data, l->frames[i].bytes);
	expect_payload(l, 3000);
	assert_int_equal(d[4].payload[100], 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(any_size_any_order, set_up, tear_down),
		cmocka_unit_test_setup_teardown(small_mtu, set_up, tear_down),
		cmocka_unit_test_setup_teardown(agrees_with_reference, set_up, tear_down),
		cmocka_unit_test_setup_teardown(bad_pieces, set_up, tear_down),
		cmocka_unit_test_setup_teardown(overlap_kills_the_rest_too, set_up, tear_down),
		cmocka_unit_test_setup_teardown(given_up_in_time, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_source_has_its_share, set_up, tear_down),
		cmocka_unit_test_setup_teardown(forged_sources_take_the_oldest, set_up, tear_down),
		cmocka_unit_test_setup_teardown(lent_buffers_stay, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
