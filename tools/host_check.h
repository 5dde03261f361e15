/* SPDX-License-Identifier: Apache-2.0 */
/* What of this host costs latency, and the command that mends it; for `apus worker`. Reads /proc and /sys, changes nothing. */
#ifndef APUS_TOOLS_HOST_CHECK_H
#define APUS_TOOLS_HOST_CHECK_H

#include <stdbool.h>

/**
 * Prints one line a point: what it is, what was found, and of a finding what it costs and what mends it.
 * root: "" or a directory in front of /proc and /sys. json: one object a line. findings_only: what is well is passed
 * over. A point that this kernel does not tell about is passed over, too.
 * Returns 0 if nothing was found, else 1: exit codes.
 */
int host_check(const char *root, bool json, bool findings_only);

#endif
