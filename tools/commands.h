/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of the program; tools/apus.c dispatches to them. */
#ifndef APUS_TOOLS_COMMANDS_H
#define APUS_TOOLS_COMMANDS_H

#include "tools/options.h"

extern const struct command cmd_pub, cmd_sub, cmd_ls, cmd_config, cmd_filter, cmd_stats, cmd_top,
	cmd_shm, cmd_worker;

#endif
