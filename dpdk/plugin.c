/* SPDX-License-Identifier: Apache-2.0 */
/* The one symbol libapus-dpdk.so exports. */
#include "dpdk/port.h"

#include <apus/core.h>

APUS_API extern const struct apus_dp_plugin apus_dp_plugin_entry;

const struct apus_dp_plugin apus_dp_plugin_entry = {
	.version = APUS_DP_PLUGIN_VERSION,
	.queue_bytes = sizeof(struct apus_dp_queue),
	.config_bytes = sizeof(struct apus_dp_port_config),
	.name = "DPDK",
	.port_open = apus_dpdk_port_open,
	.port_close = apus_dpdk_port_close,
	.port_netif = apus_dpdk_port_netif,
	.port_reserve = apus_dpdk_port_reserve,
	.port_unreserve = apus_dpdk_port_unreserve,
	.queue_open = apus_dpdk_queue_open,
	.port_stat = apus_dpdk_port_stat,
	.port_warning = apus_dpdk_port_warning,
};
