/* SPDX-License-Identifier: Apache-2.0 */
/* What relay_client.c and relay_queue.c share. Internal to dataplane/io. */
#ifndef APUS_DATAPLANE_IO_RELAY_CLIENT_H
#define APUS_DATAPLANE_IO_RELAY_CLIENT_H

#include "dataplane/io/relay.h"

/** Connects to a worker process; path_out: the directory. A descriptor, or as apus_shm_connect() and
 *  apus_dp_relay_directory(). */
int apus_dp_relay_connect(const char *directory, const char *name, char *path_out,
			  size_t path_bytes);
/** Waits for a message that is no bell, for two seconds. 0 (its descriptors are the caller's), APUS_ETIMEDOUT, or as
 *  apus_shm_receive(). */
int apus_dp_relay_await(int fd, struct apus_shm_message *message_out);
/** Says why a call about a worker process failed; returns `rc`. */
int apus_dp_relay_say_why(int rc, const char *name, char *why, size_t why_bytes);

#endif
