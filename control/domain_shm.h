/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matches through shared memory, as the rest of the participant sees them: which route a match takes, and when
 * control has something to do for them. See domain_shm.c. All under the participant's lock.
 */
#ifndef APUS_CONTROL_DOMAIN_SHM_H
#define APUS_CONTROL_DOMAIN_SHM_H

#include "control/publish.h"

struct apus_participant;
struct apus_writer;

/** Begins to listen, if configured. Returns 0, APUS_ENOMEM, APUS_EPERM (the directory), APUS_EIO … with a reason. */
int apus_ctl_domain_shm_open(struct apus_participant *p, char *why, size_t why_bytes);
/** Frees everything; no worker and no endpoint is left. */
void apus_ctl_domain_shm_close(struct apus_participant *p);
/** A descriptor that becomes readable when apus_ctl_domain_shm_turn() has something to do, which includes what
 *  netwatch_fd tells; -1 if not configured. */
int apus_ctl_domain_shm_fd(const struct apus_participant *p);
/** Reads messages, gives up waiting. Returns when to call again. No turn held. */
struct apus_mono apus_ctl_domain_shm_turn(struct apus_participant *p, struct apus_mono now);
/** After everything dirty has been published: lets go of ended matches. True: call again soon. No turn held. */
bool apus_ctl_domain_shm_reclaim(struct apus_participant *p);

/** Slots a writer of such payloads is to have for readers of other processes; 0 if not configured. */
uint32_t apus_ctl_domain_shm_lent(const struct apus_participant *p, uint32_t payload_bytes);
/** A writer is about to be destroyed; its worker knows it no more. */
void apus_ctl_domain_shm_forget(struct apus_participant *p, const struct apus_writer *writer);

/** The publisher's questions; `user` is the participant. */
enum apus_ctl_route apus_ctl_domain_shm_out(void *user, const struct apus_ctl_match *match,
					    const struct apus_ctl_endpoint *writer,
					    const struct apus_ctl_endpoint *reader,
					    struct apus_dp_shm_out **out);
enum apus_ctl_route apus_ctl_domain_shm_in(void *user, const struct apus_ctl_match *match,
					   const struct apus_ctl_endpoint *writer,
					   const struct apus_ctl_endpoint *reader,
					   struct apus_dp_shm_in **in_out);
void apus_ctl_domain_shm_ended(void *user, const struct apus_ctl_match *match);

/** Whether a match takes this route. */
bool apus_ctl_domain_shm_has(const struct apus_participant *p, uint64_t match_id);
#endif
