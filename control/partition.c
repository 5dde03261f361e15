/* SPDX-License-Identifier: Apache-2.0 */
/* Partition names and patterns; the rules are in the header. */
#include "control/partition.h"

#include <fnmatch.h>
#include <stddef.h>
#include <string.h>

static const char *const default_partition[] = {""};

bool apus_ctl_partition_is_pattern(const char *name)
{
	return strpbrk(name, "*?[") != NULL;
}

static bool names_match(const char *a, bool a_is_pattern, const char *b)
{
	bool b_is_pattern = apus_ctl_partition_is_pattern(b);

	if (a_is_pattern == b_is_pattern)
		return !a_is_pattern && strcmp(a, b) == 0;
	return a_is_pattern ? fnmatch(a, b, 0) == 0 : fnmatch(b, a, 0) == 0;
}

bool apus_ctl_partitions_match(const char *const *a, uint32_t a_count, const char *const *b,
			       uint32_t b_count)
{
	if (a_count == 0) {
		a = default_partition;
		a_count = 1;
	}
	if (b_count == 0) {
		b = default_partition;
		b_count = 1;
	}
	for (uint32_t i = 0; i < a_count; i++) {
		bool is_pattern = apus_ctl_partition_is_pattern(a[i]);

		for (uint32_t j = 0; j < b_count; j++)
			if (names_match(a[i], is_pattern, b[j]))
				return true;
	}
	return false;
}
