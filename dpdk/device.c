/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a DPDK port: see device.h. */
#include "dpdk/device.h"

#include "dpdk/eal.h"

#include <apus/core.h>

#include <errno.h>
#include <net/if.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <stdio.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

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
	rc = rte_eth_dev_configure(d->id, 1, 1, &conf);
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
	if (d->reassembles)
		return frame_count + 4 * APUS_DPDK_BURST;
	d->room_bytes = d->is_af_xdp ? AF_XDP_ROOM_BYTES : d->frame_bytes;
	return count < FRAMES_MIN ? FRAMES_MIN : count;
}

static int set_up_queues(struct apus_dpdk_device *d, uint32_t frame_count, struct reason why)
{
	uint32_t count = size_pool(d, frame_count);
	int rc;

	d->pool = apus_dpdk_pool_create(count, d->room_bytes);
	if (!d->pool)
		return fail(why, "frame buffers", rte_errno ? rte_errno : ENOMEM);
	rc = rte_eth_rx_queue_setup(d->id, 0, d->rx_descriptors, SOCKET_ID_ANY, NULL, d->pool);
	if (rc == 0)
		rc = rte_eth_tx_queue_setup(d->id, 0, d->tx_descriptors, SOCKET_ID_ANY, NULL);
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

/* Frames of AF_PACKET unless its arguments say otherwise: the kernel hands fragments over put together, as one frame
 * that must fit. 65,407 bytes are the most that a buffer of DPDK holds, and a block is made of whole pages. */
#define AF_PACKET_FRAME_BYTES 61440
#define AF_PACKET_ARGUMENTS   "blocksz=61440,framesz=61440,framecnt=128"

static int tune_af_packet(const struct apus_dpdk_settings *s, struct apus_dpdk_device *d,
			  char *arguments, size_t bytes, struct reason why)
{
	const char *given = strstr(s->arguments, "framesz=");
	bool given_blocks = strstr(s->arguments, "blocksz=") != NULL;
	unsigned long frame = AF_PACKET_FRAME_BYTES;

	if (given)
		frame = strtoul(given + 8, NULL, 10);
	else if (given_blocks)
		frame = 2048; /* the driver's own default */
	d->reassembles = true;
	d->room_bytes = (uint32_t)frame + RTE_PKTMBUF_HEADROOM;
	if (frame < 2048 || frame > UINT16_MAX - RTE_PKTMBUF_HEADROOM) {
		snprintf(why.text, why.bytes, "dpdk.port: framesz must be 2048…%d",
			 UINT16_MAX - RTE_PKTMBUF_HEADROOM);
		return APUS_EINVAL;
	}
	if (!given && !given_blocks)
		snprintf(arguments, bytes, "%s,%s", s->arguments, AF_PACKET_ARGUMENTS);
	return 0;
}

/* The arguments a device gets. */
static int tune(const struct apus_dpdk_settings *s, struct apus_dpdk_device *d, char *arguments,
		size_t bytes, struct reason why)
{
	snprintf(arguments, bytes, "%s", s->arguments);
	if (strncmp(d->name, "net_af_packet", 13) == 0)
		return tune_af_packet(s, d, arguments, bytes, why);
	return 0;
}

/* The value of one of a device's arguments, "" if it is not there. */
static void find_argument(const char *arguments, const char *key, char *value_out, size_t bytes)
{
	const char *at = strstr(arguments, key);

	snprintf(value_out, bytes, "%.*s", at ? (int)strcspn(at + strlen(key), ",") : 0,
		 at ? at + strlen(key) : "");
}

/* A process that is refused an AF_XDP socket takes the first one's program off the interface on its way out. So whoever
 * means to try must own a name in the network namespace first; the kernel frees it with its owner, however that ends. */
static int claim_queue(struct apus_dpdk_device *d, const char *interface, const char *queue,
		       struct reason why)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int bytes = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "apus/xdp/%s/%s",
			     interface, queue[0] ? queue : "0");

	d->claim_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (d->claim_fd < 0)
		return fail(why, "socket", errno);
	if (bind(d->claim_fd, (struct sockaddr *)&name,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)bytes)) == 0)
		return 0;
	if (errno != EADDRINUSE)
		return fail(why, "claim", errno);
	snprintf(why.text, why.bytes, "dpdk.port: another process has queue %s of %s",
		 queue[0] ? queue : "0", interface);
	return APUS_EEXIST;
}

/* What the drivers of the kernel's interfaces do not say, or not in time. */
static int check_interface(const struct apus_dpdk_settings *s, struct apus_dpdk_device *d,
			   struct reason why)
{
	char interface[IF_NAMESIZE], queue[12];

	d->is_af_xdp = strncmp(d->name, "net_af_xdp", 10) == 0;
	if (!d->is_af_xdp && strncmp(d->name, "net_af_packet", 13) != 0)
		return 0;
	find_argument(s->arguments, "iface=", interface, sizeof(interface));
	find_argument(s->arguments, "start_queue=", queue, sizeof(queue));
	if (if_nametoindex(interface) == 0) {
		snprintf(why.text, why.bytes, "dpdk.port: there is no interface '%s'", interface);
		return APUS_ENODEV;
	}
	return d->is_af_xdp ? claim_queue(d, interface, queue, why) : 0;
}

static int plug(const struct apus_dpdk_settings *s, struct apus_dpdk_device *d, struct reason why)
{
	char arguments[APUS_DPDK_DEVICE_BYTES + 64];
	int rc = tune(s, d, arguments, sizeof(arguments), why);

	if (rc != 0)
		return rc;

	if (rte_eth_dev_get_port_by_name(s->device, &d->id) == 0) {
		if (!s->is_pci)
			return fail(why, "exists already", EEXIST);
		return 0; /* probed when EAL started */
	}
	rc = rte_eal_hotplug_add(s->is_pci ? "pci" : "vdev", s->device, arguments);
	if (rc == 0)
		rc = rte_eth_dev_get_port_by_name(s->device, &d->id);
	return rc == 0 ? 0 : fail(why, "cannot be opened", rc);
}

static void give_up_claim(struct apus_dpdk_device *d)
{
	if (d->claim_fd >= 0)
		close(d->claim_fd);
}

int apus_dpdk_device_open(const struct apus_dpdk_settings *s, uint32_t frame_count, char *why_text,
			  size_t why_bytes, struct apus_dpdk_device *device_out)
{
	struct reason why = {why_text, why_bytes, s->device};
	struct apus_dpdk_device d = {.is_pci = s->is_pci, .claim_fd = -1};
	int rc;

	if (strlen(s->device) >= sizeof(d.name)) {
		snprintf(why_text, why_bytes, "dpdk.port: a name of more than 63 bytes");
		return APUS_EINVAL;
	}
	strcpy(d.name, s->device);
	apus_dpdk_eal_clear_log();
	rc = check_interface(s, &d, why);
	if (rc == 0)
		rc = plug(s, &d, why);
	if (rc != 0) {
		give_up_claim(&d);
		return rc;
	}
	read_mac(&d);
	rc = configure(&d, why);
	if (rc == 0)
		rc = settle_mtu(&d, s->mtu_bytes, why);
	if (rc == 0)
		rc = set_up_queues(&d, frame_count, why);
	if (rc == 0)
		rc = start(&d, why);
	if (rc != 0) {
		apus_dpdk_device_close(&d);
		return rc;
	}
	*device_out = d;
	return 0;
}

void apus_dpdk_device_close(struct apus_dpdk_device *d)
{
	if (d->is_promiscuous)
		rte_eth_promiscuous_disable(d->id);
	if (d->is_started)
		rte_eth_dev_stop(d->id);
	rte_eth_dev_close(d->id);
	rte_eal_hotplug_remove(d->is_pci ? "pci" : "vdev", d->name);
	rte_mempool_free(d->pool);
	give_up_claim(d);
}

bool apus_dpdk_device_is_up(const struct apus_dpdk_device *d)
{
	struct rte_eth_link link;

	return rte_eth_link_get_nowait(d->id, &link) != 0 || link.link_status;
}
