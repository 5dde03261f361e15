/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How two processes of one host find each other and pass memory: a sequenced-packet Unix socket in a directory of
 * the user's own. Each message is a fixed number of bytes with up to APUS_SHM_LINK_FDS descriptors.
 *
 * That a connection comes about proves one host and one user; what the other side sends is still bounded here: a
 * message has the length it claims, its descriptors are closed if nobody takes them, and memory is mapped only if
 * it is a memfd that can no longer shrink and is as large as it has to be (so no access ever faults).
 *
 * A process that is killed leaves a socket's name, nothing else; the next one of that name takes it over, and
 * apus_shm_sweep() removes those that nobody answers at.
 *
 * Thread rule: one thread at a time on one descriptor. Nothing blocks.
 */
#ifndef APUS_SHM_LINK_H
#define APUS_SHM_LINK_H

#include "shm/segment.h"

#include <stdbool.h>
#include <stdint.h>

/** Most descriptors in one message. */
#define APUS_SHM_LINK_FDS 4

/** Longest name of a socket in the directory. */
#define APUS_SHM_LINK_NAME 40

/** One message as received. */
struct apus_shm_message {
	uint8_t bytes[256];
	uint32_t length;
	int fds[APUS_SHM_LINK_FDS]; /* the receiver's to close, see apus_shm_message_close() */
	uint32_t fd_count;
};

/**
 * Finds or makes the directory: `configured` if not NULL, else $XDG_RUNTIME_DIR/apus, else /tmp/apus-<uid>.
 * It belongs to this user and nobody else may enter it (mode 0700), or APUS_EPERM. Also APUS_ELIMIT (name too
 * long), APUS_EIO.
 */
int apus_shm_directory(const char *configured, char *path_out, size_t path_bytes);

/** Removes a name that nobody answers at. Returns 0, also if there is none, APUS_EADDRINUSE if somebody does, APUS_EINVAL,
 *  APUS_EIO. */
int apus_shm_clear(const char *directory, const char *name);
/** Listens under a name, taking over what a dead process left. Returns a descriptor, or APUS_EADDRINUSE if somebody
 *  answers there, APUS_EINVAL (name), APUS_EIO. */
int apus_shm_listen(const char *directory, const char *name);
/** Removes the name and closes the descriptor. */
void apus_shm_unlisten(const char *directory, const char *name, int fd);
/** Connects to a name. Returns a descriptor, or APUS_ENOENT if nobody listens there, APUS_EAGAIN if its backlog is
 *  full, APUS_EINVAL, APUS_EIO. */
int apus_shm_connect(const char *directory, const char *name);
/** The next connection: a descriptor, or APUS_EAGAIN if there is none. A peer of another user is hung up on. */
int apus_shm_accept(int listener);

/** Sends one message with descriptors, which stay the caller's. Returns 0, APUS_EAGAIN (try later), APUS_ECLOSED
 *  (nobody is there any more), APUS_EINVAL. */
int apus_shm_send(int fd, const void *bytes, uint32_t length, const int *fds, uint32_t fd_count);
/** Receives one message. Returns 0, APUS_EAGAIN (none), APUS_ECLOSED (end of the connection), APUS_EENCODING (longer
 *  than a message, or too many descriptors; they are closed). */
int apus_shm_receive(int fd, struct apus_shm_message *message_out);
/** Closes the descriptors of a message that were not taken (those ≥ 0). */
void apus_shm_message_close(struct apus_shm_message *message);

/** A descriptor of this very process that becomes readable when it dies, for the peer. Or APUS_ENOTSUP. */
int apus_shm_self(void);
/** The same of the process that listened at the other end of a connection made by apus_shm_connect(), the caller's to
 *  close; APUS_ENOTSUP before Linux 6.5. */
int apus_shm_listener_process(int fd);
/** True if the process behind such a descriptor is dead. */
bool apus_shm_is_dead(int pidfd);

/**
 * Maps memory that came in a message: at least `bytes` bytes, read-only or writable. Takes no part of the descriptor,
 * which the caller may close. Returns 0, APUS_EPERM (it could still shrink, or is not a memfd), APUS_EINVAL (too
 * small), APUS_ENOMEM.
 */
int apus_shm_map(int fd, size_t bytes, bool writable, void **base_out);
void apus_shm_unmap(void *base, size_t bytes);

/** From now on the owner writes a region, and whoever receives its descriptor can only read it. Returns 0 or
 *  APUS_ENOTSUP. */
int apus_shm_seal(const struct apus_shm_segment *segment);

/** Calls `found` for each name in the directory, with whether somebody answers there. Returns how many, or as
 *  apus_shm_directory(). remove_dead: unlinks those where nobody does. */
int apus_shm_sweep(const char *directory, bool remove_dead,
		   void (*found)(void *user, const char *name, bool alive), void *user);

#endif
