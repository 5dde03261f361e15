/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a DPDK port: see device.h. */
#include "dpdk/device.h"

#include "dpdk/eal.h"

#include <apus/core.h>

#include <errno.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <stdio.h>
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

static int set_up_queues(struct apus_dpdk_device *d, uint32_t frame_count, struct reason why)
{
	uint32_t count = frame_count + d->rx_descriptors + d->tx_descriptors;
	int rc;

	d->frame_bytes = d->mtu_bytes + LINK_BYTES + RTE_ETHER_CRC_LEN;
	d->frame_bytes = (d->frame_bytes < 2048 ? 2048 : (d->frame_bytes + 63) & ~63u) +
			 RTE_PKTMBUF_HEADROOM;
	d->pool = apus_dpdk_pool_create(count < FRAMES_MIN ? FRAMES_MIN : count,
					d->is_af_xdp ? AF_XDP_ROOM_BYTES : d->frame_bytes);
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

static int plug(const struct apus_dpdk_settings *s, struct apus_dpdk_device *d, struct reason why)
{
	int rc = 0;

	if (rte_eth_dev_get_port_by_name(s->device, &d->id) == 0) {
		if (!s->is_pci || rte_eth_dev_socket_id(d->id) == -2)
			return fail(why, "exists already", EEXIST);
		return 0; /* probed when EAL started */
	}
	rc = rte_eal_hotplug_add(s->is_pci ? "pci" : "vdev", s->device, s->arguments);
	if (rc == 0)
		rc = rte_eth_dev_get_port_by_name(s->device, &d->id);
	return rc == 0 ? 0 : fail(why, "cannot be opened", rc);
}

int apus_dpdk_device_open(const struct apus_dpdk_settings *s, uint32_t frame_count, char *why_text,
			  size_t why_bytes, struct apus_dpdk_device *device_out)
{
	struct reason why = {why_text, why_bytes, s->device};
	struct apus_dpdk_device d = {.is_pci = s->is_pci};
	int rc;

	if (strlen(s->device) >= sizeof(d.name)) {
		snprintf(why_text, why_bytes, "dpdk.port: a name of more than 63 bytes");
		return APUS_EINVAL;
	}
	strcpy(d.name, s->device);
	d.is_af_xdp = strncmp(d.name, "net_af_xdp", 10) == 0;
	apus_dpdk_eal_clear_log();
	rc = plug(s, &d, why);
	if (rc != 0)
		return rc;
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
}

bool apus_dpdk_device_is_up(const struct apus_dpdk_device *d)
{
	struct rte_eth_link link;

	return rte_eth_link_get_nowait(d->id, &link) != 0 || link.link_status;
}
