/* SPDX-License-Identifier: Apache-2.0 */
/* The whole public API of Apus in one include. */
#ifndef APUS_APUS_H
#define APUS_APUS_H

#include <apus/config.h>
#include <apus/core.h>
#include <apus/filter.h>
#include <apus/filter_class.h>
#include <apus/group.h>
#include <apus/host.h>
#include <apus/participant.h>
#include <apus/predicate.h>
#include <apus/qos.h>
#include <apus/relay.h>
#include <apus/stats.h>
#include <apus/status.h>
#include <apus/type.h>
#include <apus/waitset.h>

#endif
