/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bare Ethernet frames over a DPDK port in the benchmark of routes: the floor of `transport = dpdk`. No IP, no
 * protocol. For round trips the following side does what testpmd does: a burst received, its addresses exchanged,
 * the same buffers sent. The port is the setting dpdk.port, as of Apus.
 */
#include "common.h"
#include "peer.h"

#include <errno.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BURST       64
#define ENDS_MAX    32
#define FRAMES      8192
#define ROOM_BYTES  (4096 - 64 - 128) /* what AF_XDP's pool wants */
#define DESCRIPTORS 1024
#define ETHER_TYPE  0x88b5 /* for experiments */

/* In front of the sample. */
struct head {
	struct rte_ether_hdr ether;
	uint16_t topic;
};

struct endpoint {
	struct peer_options options;
	struct head head;
};

static struct endpoint *ends[ENDS_MAX];
static uint32_t end_count;
static struct rte_mempool *pool;
static uint16_t port;
static bool is_open;

/* ---- opening ---- */

static const char *setting(const struct peer_options *o, const char *name)
{
	size_t length = strlen(name);

	for (uint32_t i = 0; o->settings && o->settings[i]; i++)
		if (strncmp(o->settings[i], name, length) == 0 && o->settings[i][length] == '=')
			return o->settings[i] + length + 1;
	return NULL;
}

static void start_eal(const struct peer_options *o)
{
	char cores[32];
	char *argv[] = {"frames",
			"--no-huge",
			"--no-shconf",
			"-m",
			"128",
			"--no-telemetry",
			"--no-pci",
			"--iova-mode=va",
			"--log-level=error",
			"--lcores",
			cores,
			NULL};

	snprintf(cores, sizeof(cores), "0@%u", o->side); /* where this side is pinned by default */
	if (rte_eal_init((int)(sizeof(argv) / sizeof(argv[0])) - 1, argv) < 0)
		die("DPDK does not start");
}

/* AF_XDP wants buffers without gaps between them. */
static struct rte_mempool *make_pool(void)
{
	struct rte_pktmbuf_pool_private about = {.mbuf_data_room_size = ROOM_BYTES};
	struct rte_mempool *p =
		rte_mempool_create_empty("frames", FRAMES, sizeof(struct rte_mbuf) + ROOM_BYTES, 0,
					 sizeof(about), SOCKET_ID_ANY, RTE_MEMPOOL_F_NO_SPREAD);

	if (!p || rte_mempool_set_ops_byname(p, "ring_sp_sc", NULL) != 0)
		return NULL;
	rte_pktmbuf_pool_init(p, &about);
	if (rte_mempool_populate_default(p) < 0)
		return NULL;
	rte_mempool_obj_iter(p, rte_pktmbuf_init, NULL);
	return p;
}

static void start_port(const char *device)
{
	struct rte_eth_conf conf = {0};
	uint16_t rx = DESCRIPTORS, tx = DESCRIPTORS;
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(device, ","), device);
	pool = make_pool();
	errno = 0;
	if (!pool ||
	    rte_eal_hotplug_add("vdev", name, strchr(device, ',') ? strchr(device, ',') + 1 : "") !=
		    0 ||
	    rte_eth_dev_get_port_by_name(name, &port) != 0 ||
	    rte_eth_dev_configure(port, 1, 1, &conf) != 0 ||
	    rte_eth_dev_adjust_nb_rx_tx_desc(port, &rx, &tx) != 0 ||
	    rte_eth_rx_queue_setup(port, 0, rx, SOCKET_ID_ANY, NULL, pool) != 0 ||
	    rte_eth_tx_queue_setup(port, 0, tx, SOCKET_ID_ANY, NULL) != 0 ||
	    rte_eth_dev_start(port) != 0)
		die("the port cannot be opened");
}

static void *frames_open(const struct peer_options *o)
{
	const char *device = setting(o, "dpdk.port");
	struct endpoint *e = calloc(1, sizeof(*e));
	uint32_t hash = o->bytes;

	if (!e || !device || end_count == ENDS_MAX)
		return NULL;
	if (!is_open) {
		start_eal(o);
		start_port(device);
		is_open = true;
	}
	for (const char *c = o->topic; *c; c++)
		hash = hash * 33 + (uint8_t)*c;
	e->options = *o;
	e->head.topic = (uint16_t)hash;
	e->head.ether.ether_type = rte_cpu_to_be_16(ETHER_TYPE);
	memset(&e->head.ether.dst_addr, 0xff, 6);
	(void)rte_eth_macaddr_get(port, &e->head.ether.src_addr);
	ends[end_count++] = e;
	return e;
}

static uint32_t frames_matched(void *endpoint)
{
	struct rte_eth_link link;

	(void)endpoint;
	return rte_eth_link_get_nowait(port, &link) == 0 && link.link_status;
}

/* ---- sending ---- */

static struct rte_mbuf *frame_of(const struct endpoint *e, const void *sample)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	char *at = m ? rte_pktmbuf_append(m, (uint16_t)(sizeof(e->head) + e->options.bytes)) : NULL;

	if (!at)
		die("no frame");
	memcpy(at, &e->head, sizeof(e->head));
	memcpy(at + sizeof(e->head), sample, e->options.bytes);
	return m;
}

static uint32_t frames_write_many(void *endpoint, const void *samples, uint32_t count)
{
	struct endpoint *e = endpoint;
	struct rte_mbuf *frames[BURST];
	uint32_t n = count < BURST ? count : BURST, sent;

	for (uint32_t i = 0; i < n; i++)
		frames[i] = frame_of(e, (const uint8_t *)samples + (size_t)i * e->options.bytes);
	sent = rte_eth_tx_burst(port, 0, frames, (uint16_t)n);
	for (uint32_t i = sent; i < n; i++)
		rte_pktmbuf_free(frames[i]);
	return sent;
}

static bool frames_write(void *endpoint, const void *sample)
{
	return frames_write_many(endpoint, sample, 1) == 1;
}

/* ---- receiving ---- */

/* As testpmd does: what was received leaves. */
static uint32_t send_back(struct rte_mbuf **frames, uint16_t n)
{
	uint16_t sent = 0;

	for (uint16_t i = 0; i < n; i++) {
		struct rte_ether_hdr *h = rte_pktmbuf_mtod(frames[i], struct rte_ether_hdr *);
		struct rte_ether_addr from = h->src_addr;

		h->src_addr = h->dst_addr;
		h->dst_addr = from;
	}
	while (sent < n)
		sent += rte_eth_tx_burst(port, 0, frames + sent, (uint16_t)(n - sent));
	return n;
}

static void deliver(const struct endpoint *e, const struct rte_mbuf *m)
{
	const struct head *h = rte_pktmbuf_mtod(m, const struct head *);

	/* Round trips: what comes back has the topic it left with. */
	if (m->data_len >= sizeof(*h) + e->options.bytes &&
	    h->ether.ether_type == e->head.ether.ether_type &&
	    (h->topic == e->head.topic || e->options.echoes))
		e->options.on_sample(e->options.user, h + 1);
}

static uint32_t frames_poll(void *endpoint)
{
	struct endpoint *e = endpoint;
	struct rte_mbuf *frames[BURST];
	uint16_t n = rte_eth_rx_burst(port, 0, frames, BURST);

	if (n == 0)
		return 0;
	if (e->options.echoes && e->options.side == 1)
		return send_back(frames, n);
	for (uint16_t i = 0; i < n; i++) {
		if (!e->options.writer)
			deliver(e, frames[i]);
		rte_pktmbuf_free(frames[i]);
	}
	return n;
}

static void frames_drain(void *endpoint)
{
	(void)endpoint;
}

static const char *frames_version(void)
{
	return rte_version();
}

static void frames_leave(void)
{
	rte_eth_dev_stop(port);
	rte_eth_dev_close(port);
}

static const char *const routes[] = {"port", NULL};

static const struct peer frames = {.name = "frames",
				   .batches = true,
				   .open = frames_open,
				   .matched = frames_matched,
				   .write = frames_write,
				   .drain = frames_drain,
				   .routes = routes,
				   .version = frames_version,
				   .poll = frames_poll,
				   .write_many = frames_write_many,
				   .leave = frames_leave};
const struct peer *const peer_frames = &frames;
