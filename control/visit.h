/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph as the public API shows it. Pointers handed to a callback live during the call.
 * Thread rule: under control's lock.
 */
#ifndef APUS_CONTROL_VISIT_H
#define APUS_CONTROL_VISIT_H

#include <apus/participant.h>

#include "control/graph.h"

/** Implements apus_visit_participants(): ourselves first, then in order of discovery. */
int apus_ctl_visit_participants(const struct apus_ctl_graph *graph,
				bool (*visit)(const struct apus_participant_info *, void *),
				void *user);
/** Implements apus_visit_endpoints(): local ones first; built-in endpoints are left out. */
int apus_ctl_visit_endpoints(const struct apus_ctl_graph *graph,
			     bool (*visit)(const struct apus_endpoint_info *, void *), void *user);

/** Name of a vendor id: "Cyclone DDS", "Fast DDS", "Apus" …; NULL for unknown ones. Static storage. */
const char *apus_ctl_vendor_name(uint16_t vendor);

#endif
