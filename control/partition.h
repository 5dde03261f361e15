/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partition names and patterns (DDS 1.4 §2.2.3.13). Two endpoints share a partition if some name of one
 * equals a name of the other or is covered by a pattern of the other. Patterns are POSIX fnmatch with no
 * flags, as in Cyclone DDS and Fast DDS, so `*` also covers a slash, a leading dot and the empty name. A
 * pattern never matches a pattern, not even itself. An empty list is the default partition, which is
 * the empty name.
 */
#ifndef APUS_CONTROL_PARTITION_H
#define APUS_CONTROL_PARTITION_H

#include <stdbool.h>
#include <stdint.h>

/** Names one endpoint may have, and bytes of one name. More is refused locally and rejected remotely. */
#define APUS_CTL_PARTITIONS_MAX       64
#define APUS_CTL_PARTITION_NAME_BYTES 255

/** True if the name contains one of `*`, `?` and `[`. Any thread. */
bool apus_ctl_partition_is_pattern(const char *name);

/**
 * True if the lists overlap. NULL is allowed with count 0. Cost: at most a_count · b_count comparisons.
 * Any thread; does not allocate.
 */
bool apus_ctl_partitions_match(const char *const *a, uint32_t a_count, const char *const *b,
			       uint32_t b_count);

#endif
