/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What participants of this host and user share memory with: asked of themselves, through the sockets of the directory
 * in which they meet (setting `shm.directory`), and what dead ones have left there. No participant is needed to ask.
 *
 * Whoever is asked may be stopped, hostile, or no Apus at all: nothing here waits beyond its time for it, and what it
 * says is bounded and printed, never believed.
 *
 * Thread rule: any thread.
 */
#ifndef APUS_HOST_H
#define APUS_HOST_H

#include <apus/core.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What stands behind a name in the directory. */
enum apus_host_state {
	APUS_HOST_ALIVE = 0,  /**< it has answered */
	APUS_HOST_SILENT = 1, /**< somebody listens, but did not answer in time: stopped, or busy */
	APUS_HOST_FOREIGN = 2, /**< what answered is no participant of this version */
	APUS_HOST_DEAD = 3,    /**< nobody listens: left by a process that was killed */
};

/** What a row is of. */
enum apus_host_kind {
	APUS_HOST_PROCESS =
		0, /**< a name in the directory; rows of its participant stand behind it */
	APUS_HOST_POOL =
		1, /**< the slots of a writer that readers of other processes can look at */
	APUS_HOST_LENT =
		2, /**< a reader of another process and what it has of the pool before it */
	APUS_HOST_BORROWED = 3, /**< a reader of this participant, of a writer of another process */
};

/** One row. Pointers are valid during the callback. */
struct apus_host_row {
	enum apus_host_kind kind;
	enum apus_host_state state; /**< of a process; of the other side's in LENT and BORROWED */
	const char *name;           /**< of a process: of the socket; else the topic */
	uint32_t pid;               /**< process; LENT, BORROWED: the other side's; 0: not known */
	struct apus_guid writer;    /**< POOL, LENT, BORROWED */
	struct apus_guid reader;    /**< LENT, BORROWED */
	uint64_t bytes; /**< of memory: mapped for a process, of the pool, of the ring and page */
	uint32_t slot_bytes; /**< POOL */
	uint32_t slots;      /**< POOL: all; LENT: that the reader may have at a time */
	uint32_t slots_used; /**< POOL: by history and readers; LENT: that the reader has */
	uint32_t waiting;    /**< LENT, BORROWED: samples in the ring that it has not taken */
};

/**
 * Asks everybody in the directory (NULL: the default one), each for up to timeout_ns (1…60 s; many at a time), and
 * visits the rows, by process, until `visit` returns false. Returns the number of names, APUS_EPERM (the directory is
 * not this user's alone), APUS_ELIMIT (its name is too long), APUS_EINVAL (timeout), APUS_ENOMEM, APUS_EIO.
 */
APUS_API int apus_host_visit(const char *directory, int64_t timeout_ns,
			     bool (*visit)(const struct apus_host_row *row, void *user),
			     void *user);

/**
 * Removes the names that nobody listens at; memory needs none, it goes with its last process. `removed` is
 * called for each, also if `dry_run`, where nothing is removed. What is no socket is left alone.
 * Returns their number, or as apus_host_visit().
 */
APUS_API int apus_host_clean(const char *directory, bool dry_run,
			     void (*removed)(const char *name, void *user), void *user);
/** The directory as the two calls use it. Returns 0 or as apus_host_visit(). */
APUS_API int apus_host_directory(const char *directory, char *path_out, size_t path_bytes);

#ifdef __cplusplus
}
#endif

#endif
