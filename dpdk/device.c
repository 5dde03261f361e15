/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a DPDK port: see device.h. */
#include "dpdk/device.h"

#include "dpdk/eal.h"
#include "dpdk/fanout.h"

#include <apus/core.h>

#include <errno.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

/* Link header and tag in front of an IP packet. */
#define LINK_BYTES (RTE_ETHER_HDR_LEN + RTE_VLAN_HLEN)
/* The AF_XDP driver wants so many buffers to be free when it starts. */
#define FRAMES_MIN 4096
/* It also takes the pool for one run of buffers without gaps, while a pool without huge pages never lets a buffer cross
 * a page: buffers outside what it thinks is the pool are lost. So a buffer with its heads (64 + 128 bytes) fills a page. */
#define AF_XDP_ROOM_BYTES (4096 - 64 - 128)

struct reason {
	char *text;
	size_t bytes;
	const char *device;
};

/* Says what failed, and what DPDK said last. */
static int fail(struct reason why, const char *what, int error)
{
	const char *log = apus_dpdk_eal_last_log();

	snprintf(why.text, why.bytes, "%.100s: %s: %s%s%s", why.device, what,
		 rte_strerror(error < 0 ? -error : error), log[0] ? ": " : "", log);
	switch (error < 0 ? -error : error) {
	case ENODEV:
	case ENOENT: return APUS_ENODEV;
	case ENOMEM: return APUS_ENOMEM;
	case EPERM:
	case EACCES: return APUS_EPERM;
	default: return APUS_EIO;
	}
}

/* --- pools ---------------------------------------------------------------------------------------- */

struct rte_mempool *apus_dpdk_pool_create(uint32_t count, uint32_t room_bytes)
{
	static unsigned serial; /* creation is serialised */
	struct rte_pktmbuf_pool_private private = {.mbuf_data_room_size = (uint16_t)room_bytes};
	char name[RTE_MEMPOOL_NAMESIZE];
	struct rte_mempool *pool;

	snprintf(name, sizeof(name), "apus_%u", serial++);
	pool = rte_mempool_create_empty(name, count, sizeof(struct rte_mbuf) + room_bytes, 0,
					sizeof(private), SOCKET_ID_ANY, RTE_MEMPOOL_F_NO_SPREAD);
	if (!pool)
		return NULL;
	if (rte_mempool_set_ops_byname(pool, "ring_sp_sc", NULL) != 0) {
		rte_mempool_free(pool);
		return NULL;
	}
	rte_pktmbuf_pool_init(pool, &private);
	if (rte_mempool_populate_default(pool) < 0) {
		rte_mempool_free(pool);
		return NULL;
	}
	rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
	return pool;
}

/* --- configuration -------------------------------------------------------------------------------- */

/* Interfaces made of memory have none: a local, random one then. */
static void read_mac(struct apus_dpdk_device *d)
{
	struct rte_ether_addr mac = {0};

	(void)rte_eth_macaddr_get(d->id, &mac);
	if (!rte_is_valid_assigned_ether_addr(&mac)) {
		(void)!getrandom(mac.addr_bytes, sizeof(mac.addr_bytes), GRND_NONBLOCK);
		mac.addr_bytes[0] = 0x02;
	}
	memcpy(d->mac, mac.addr_bytes, sizeof(d->mac));
}

/* The device's MTU, or what is wanted instead: smaller is our affair, larger the driver's. */
static int settle_mtu(struct apus_dpdk_device *d, uint32_t wanted, struct reason why)
{
	uint16_t mtu = 1500;
	int rc;

	(void)rte_eth_dev_get_mtu(d->id, &mtu);
	if (mtu > 9000)
		mtu = 9000;
	d->mtu_bytes = wanted ? wanted : mtu;
	if (d->mtu_bytes < 576) {
		snprintf(why.text, why.bytes, "dpdk.mtu: %u is below 576", d->mtu_bytes);
		return APUS_EINVAL;
	}
	if (d->mtu_bytes <= mtu)
		return 0;
	rc = rte_eth_dev_set_mtu(d->id, (uint16_t)d->mtu_bytes);
	if (rc == 0)
		return 0;
	fail(why, "dpdk.mtu: larger than the device's, which refuses to change it", rc);
	return APUS_EINVAL;
}

/* Several queues: by addresses and ports where the device can, so that each stream stays in its queue and in order. A device
 * that does not tell spreads by itself, as those of several sockets do. */
static void spread(const struct apus_dpdk_device *d, const struct rte_eth_dev_info *info,
		   struct rte_eth_conf *conf)
{
	const uint64_t wanted = RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP;

	if (d->queue_count == 1 || !(info->flow_type_rss_offloads & wanted))
		return;
	conf->rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
	conf->rx_adv_conf.rss_conf.rss_hf = info->flow_type_rss_offloads & wanted;
}

static int configure(struct apus_dpdk_device *d, struct reason why)
{
	const uint64_t sums = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
	const uint64_t checks = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
	struct rte_eth_conf conf = {0};
	struct rte_eth_dev_info info;
	int rc = rte_eth_dev_info_get(d->id, &info);

	if (rc != 0)
		return fail(why, "no information", rc);
	/* Both or none: what a driver does to half a header is not worth knowing. */
	d->tx_offloads = (info.tx_offload_capa & sums) == sums ? sums : 0;
	conf.txmode.offloads = d->tx_offloads;
	conf.rxmode.offloads = info.rx_offload_capa & checks;
	if (d->queue_count > info.max_rx_queues || d->queue_count > info.max_tx_queues) {
		snprintf(why.text, why.bytes, "dpdk.queues: %s has %u queue pairs at most", d->name,
			 info.max_rx_queues < info.max_tx_queues ? info.max_rx_queues
								 : info.max_tx_queues);
		return APUS_EINVAL;
	}
	spread(d, &info, &conf);
	rc = rte_eth_dev_configure(d->id, (uint16_t)d->queue_count, (uint16_t)d->queue_count,
				   &conf);
	if (rc != 0)
		return fail(why, "configuration refused", rc);
	d->rx_descriptors = d->tx_descriptors = APUS_DPDK_DESCRIPTORS;
	rc = rte_eth_dev_adjust_nb_rx_tx_desc(d->id, &d->rx_descriptors, &d->tx_descriptors);
	return rc == 0 ? 0 : fail(why, "number of descriptors", rc);
}

/* Room of received frames, and buffers for as many as are held, in the device's hands and under way. */
static uint32_t size_pool(struct apus_dpdk_device *d, uint32_t frame_count)
{
	uint32_t count = frame_count + d->rx_descriptors + d->tx_descriptors;

	d->frame_bytes = d->mtu_bytes + LINK_BYTES + RTE_ETHER_CRC_LEN;
	d->frame_bytes = (d->frame_bytes < 2048 ? 2048 : (d->frame_bytes + 63) & ~63u) +
			 RTE_PKTMBUF_HEADROOM;
	/* AF_PACKET's ring is the kernel's: none of our buffers wait there. */
	if (d->is_af_packet)
		return frame_count + 4 * APUS_DPDK_BURST;
	d->room_bytes = d->is_af_xdp ? AF_XDP_ROOM_BYTES : d->frame_bytes;
	return count < FRAMES_MIN ? FRAMES_MIN : count;
}

/* Queues share a pool, all of it being under one claim; but AF_XDP's have their frames in one of their own. */
static int set_up_queues(struct apus_dpdk_device *d, uint32_t frame_count, struct reason why)
{
	uint32_t count = size_pool(d, frame_count);
	int rc = 0;

	if (!d->is_af_xdp && !d->is_af_packet)
		count += (d->queue_count - 1) * d->rx_descriptors;
	for (uint16_t i = 0; i < d->queue_count && rc == 0; i++) {
		uint32_t pool = d->is_af_xdp ? i : 0;

		if (!d->pools[pool])
			d->pools[pool] = apus_dpdk_pool_create(count, d->room_bytes);
		if (!d->pools[pool])
			return fail(why, "frame buffers", rte_errno ? rte_errno : ENOMEM);
		rc = rte_eth_rx_queue_setup(d->id, i, d->rx_descriptors, SOCKET_ID_ANY, NULL,
					    d->pools[pool]);
		if (rc == 0)
			rc = rte_eth_tx_queue_setup(d->id, i, d->tx_descriptors, SOCKET_ID_ANY,
						    NULL);
	}
	return rc == 0 ? 0 : fail(why, "queues", rc);
}

/* Groups are filtered by the IP layer: all of them must get there. */
static int start(struct apus_dpdk_device *d, struct reason why)
{
	int rc = rte_eth_dev_start(d->id);

	if (rc != 0)
		return fail(why, "start", rc);
	d->is_started = true;
	if (rte_eth_allmulticast_enable(d->id) != 0)
		d->is_promiscuous = rte_eth_promiscuous_enable(d->id) == 0;
	return 0;
}

/* --- opening -------------------------------------------------------------------------------------- */

/* Frames of AF_PACKET unless its arguments say otherwise. Where the kernel hands fragments over put together they must
 * fit, too: 65,407 bytes are the most that a buffer of DPDK holds. A block is made of whole pages, and the driver takes
 * frames to lie without a gap: blocks must hold a whole number of them. */
#define AF_PACKET_ARGUMENTS       "blocksz=65536,framesz=2048,framecnt=4096"
#define AF_PACKET_JUMBO_ARGUMENTS "blocksz=65536,framesz=16384,framecnt=1024"
#define AF_PACKET_WHOLE_ARGUMENTS "blocksz=61440,framesz=61440,framecnt=128"
/* What the kernel puts in front of a frame, and a link header with its tag behind that. */
#define AF_PACKET_HEADER_BYTES 128

static const char *af_packet_arguments(const struct apus_dpdk_settings *s,
				       const struct apus_dpdk_device *d)
{
	unsigned mtu = s->mtu_bytes;

	if (d->reassembles)
		return AF_PACKET_WHOLE_ARGUMENTS;
	if (!mtu)
		mtu = apus_dpdk_host_mtu(&d->host);
	return mtu + AF_PACKET_HEADER_BYTES > 2048 ? AF_PACKET_JUMBO_ARGUMENTS
						   : AF_PACKET_ARGUMENTS;
}

static int tune_af_packet(const struct apus_dpdk_settings *s, struct apus_dpdk_device *d,
			  char *arguments, size_t bytes, struct reason why)
{
	unsigned long frame = 2048; /* the driver's own default */
	char given[16];

	apus_dpdk_argument(s->arguments, "blocksz=", given, sizeof(given));
	if (!given[0])
		apus_dpdk_argument(s->arguments, "framesz=", given, sizeof(given));
	if (!given[0]) {
		size_t used = strlen(arguments);

		snprintf(arguments + used, bytes - used, ",%s", af_packet_arguments(s, d));
	}
	apus_dpdk_argument(arguments, "framesz=", given, sizeof(given));
	if (given[0])
		frame = strtoul(given, NULL, 10);
	d->room_bytes = (uint32_t)frame + RTE_PKTMBUF_HEADROOM;
	if (frame >= 2048 && frame <= UINT16_MAX - RTE_PKTMBUF_HEADROOM)
		return 0;
	snprintf(why.text, why.bytes, "dpdk.port: framesz must be 2048…%d",
		 UINT16_MAX - RTE_PKTMBUF_HEADROOM);
	return APUS_EINVAL;
}

/* The arguments a device gets: ours, those of several queues, and what makes the driver do. */
static int tune(const struct apus_dpdk_settings *s, struct apus_dpdk_device *d, char *arguments,
		size_t bytes, struct reason why)
{
	const char *queues = d->is_af_packet ? "qpairs=" : d->is_af_xdp ? "queue_count=" : "";
	char given[16] = "";
	size_t used;

	snprintf(arguments, bytes, "%s", s->arguments);
	if (*queues)
		apus_dpdk_argument(s->arguments, queues, given, sizeof(given));
	if (given[0]) {
		snprintf(why.text, why.bytes,
			 "dpdk.port: %s is not set here: dpdk.queues says how many", queues);
		return APUS_EINVAL;
	}
	used = strlen(arguments);
	if (*queues && s->queue_count > 1)
		snprintf(arguments + used, bytes - used, ",%s%u", queues, s->queue_count);
	return d->is_af_packet ? tune_af_packet(s, d, arguments, bytes, why) : 0;
}

static int plug(const struct apus_dpdk_settings *s, struct apus_dpdk_device *d, struct reason why)
{
	char arguments[APUS_DPDK_DEVICE_BYTES + 128];
	int rc = tune(s, d, arguments, sizeof(arguments), why);

	if (rc != 0)
		return rc;
	if (rte_eth_dev_get_port_by_name(s->device, &d->id) == 0) {
		if (!s->is_pci)
			return fail(why, "exists already", EEXIST);
		return 0; /* probed when EAL started */
	}
	apus_dpdk_quiet_begin();
	rc = rte_eal_hotplug_add(s->is_pci ? "pci" : "vdev", s->device, arguments);
	apus_dpdk_quiet_end();
	if (rc == 0)
		rc = rte_eth_dev_get_port_by_name(s->device, &d->id);
	return rc == 0 ? 0 : fail(why, "cannot be opened", rc);
}

struct plugging {
	const struct apus_dpdk_settings *settings;
	struct apus_dpdk_device *device;
	struct reason why;
	int result;
};

static void plug_without_fanout(void *arg, bool ignored)
{
	struct plugging *p = arg;

	p->device->reassembles = !ignored;
	p->result = plug(p->settings, p->device, p->why);
}

/* As plug(); AF_PACKET with one queue gets fragments as they come, if the kernel permits it (fanout.h). */
static int plug_kind(const struct apus_dpdk_settings *s, struct apus_dpdk_device *d,
		     struct reason why)
{
	struct plugging p = {s, d, why, APUS_EIO};

	d->reassembles = d->is_af_packet;
	if (!d->is_af_packet || s->queue_count > 1)
		return plug(s, d, why);
	if (!apus_dpdk_without_fanout(plug_without_fanout, &p))
		snprintf(why.text, why.bytes, "no thread to open %s on", s->device);
	return p.result;
}

int apus_dpdk_device_open(const struct apus_dpdk_settings *s, uint32_t frame_count, char *why_text,
			  size_t why_bytes, struct apus_dpdk_device *device_out)
{
	struct reason why = {why_text, why_bytes, s->device};
	struct apus_dpdk_device d = {.is_pci = s->is_pci, .queue_count = s->queue_count};
	int rc;

	if (strlen(s->device) >= sizeof(d.name)) {
		snprintf(why_text, why_bytes, "dpdk.port: a name of more than 63 bytes");
		return APUS_EINVAL;
	}
	strcpy(d.name, s->device);
	d.is_af_xdp = strncmp(d.name, "net_af_xdp", 10) == 0;
	d.is_af_packet = strncmp(d.name, "net_af_packet", 13) == 0;
	apus_dpdk_eal_clear_log();
	rc = apus_dpdk_host_claim(s, why_text, why_bytes, &d.host);
	if (rc == 0)
		rc = plug_kind(s, &d, why);
	if (rc != 0) {
		apus_dpdk_host_release(&d.host);
		return rc;
	}
	read_mac(&d);
	apus_dpdk_quiet_begin();
	rc = configure(&d, why);
	if (rc == 0)
		rc = settle_mtu(&d, s->mtu_bytes, why);
	if (rc == 0)
		rc = set_up_queues(&d, frame_count, why);
	if (rc == 0)
		rc = start(&d, why);
	apus_dpdk_quiet_end();
	if (rc != 0) {
		apus_dpdk_device_close(&d);
		return rc;
	}
	*device_out = d;
	return 0;
}

void apus_dpdk_device_close(struct apus_dpdk_device *d)
{
	apus_dpdk_quiet_begin();
	if (d->is_promiscuous)
		rte_eth_promiscuous_disable(d->id);
	if (d->is_started)
		rte_eth_dev_stop(d->id);
	rte_eth_dev_close(d->id);
	rte_eal_hotplug_remove(d->is_pci ? "pci" : "vdev", d->name);
	apus_dpdk_quiet_end();
	for (uint32_t i = 0; i < APUS_DPDK_QUEUES_MAX; i++)
		rte_mempool_free(d->pools[i]);
	apus_dpdk_host_release(&d->host);
}

bool apus_dpdk_device_is_up(const struct apus_dpdk_device *d)
{
	struct rte_eth_link link;

	return rte_eth_link_get_nowait(d->id, &link) != 0 || link.link_status;
}
