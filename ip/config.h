/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of configurations and addresses. Pure; addresses in wire order.
 */
#ifndef APUS_IP_CONFIG_H
#define APUS_IP_CONFIG_H

#include "ip/bytes.h"
#include "ip/ip.h"

/** What is wrong with a configuration, as a sentence; NULL: nothing. */
const char *apus_ip_config_wrong(const struct apus_ip_config *config);

/** Whether an IPv4 address can be that of another host: not 0/8, 127/8, a group, or above. */
bool apus_ip_host4(const uint8_t address[4]);

/** Whether an IPv6 address can be that of another host: no group, not ::/96, no mapped IPv4. */
bool apus_ip_host6(const uint8_t address[16]);

/** Whether two addresses agree in their first `bits`. */
bool apus_ip_same_prefix(const uint8_t *a, const uint8_t *b, uint32_t bits);

#endif
