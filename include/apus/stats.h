/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counters of a running participant or worker process, read by another process: it keeps them in a file (setting
 * `stats.file`) that is read here. Nothing the reader does can disturb it.
 *
 * Thread rule: one thread at a time for each handle.
 */
#ifndef APUS_STATS_H
#define APUS_STATS_H

#include <apus/core.h>
#include <apus/participant.h>

#ifdef __cplusplus
extern "C" {
#endif

struct apus_stats;

/** What a row is of. The matches of a writer or reader stand behind it. */
enum apus_stats_kind {
	APUS_STATS_PARTICIPANT = 0,
	APUS_STATS_WRITER = 1,
	APUS_STATS_READER = 2,
	APUS_STATS_MATCHED_READER = 3, /**< of the writer before it */
	APUS_STATS_MATCHED_WRITER = 4, /**< of the reader before it */
	APUS_STATS_RELAY = 5, /**< a worker process (`apus worker`): the only row of its file */
};

/** One participant, endpoint or match. Pointers are valid during the callback. */
struct apus_stats_row {
	enum apus_stats_kind kind;
	struct apus_guid guid; /**< of a match: the other side's */
	const char *topic;     /**< of a participant or a worker process: its name */
	const char
		*problem; /**< "" or what stands out: "behind", "not alive", "silent" (demoted) */
	uint32_t
		matched; /**< endpoints matched; of a participant: with all its endpoints together; of a
			    worker process: queues it serves */
	const struct apus_stat *stats;
	uint32_t stat_count;
};

/** Opens a file. Returns 0, APUS_ENOENT, APUS_ENOMEM, APUS_EENCODING (not such a file, or of another version). */
APUS_API int apus_stats_open(const char *path, struct apus_stats **stats_out);
/** Closes it, with all that its rows point to; NULL is allowed. */
APUS_API void apus_stats_close(struct apus_stats *stats);
/** True if its keeper has ended without removing it: these are its last counters. A participant that is given the
 *  same file takes it over. */
APUS_API bool apus_stats_is_stale(const struct apus_stats *stats);
/** Process that keeps it. */
APUS_API uint32_t apus_stats_pid(const struct apus_stats *stats);
/** When it was brought up to date: monotonic ns of this machine. */
APUS_API int64_t apus_stats_time_ns(const struct apus_stats *stats);
/** Visits all rows of one update, the participant first, until `visit` returns false. Returns their number,
 *  APUS_EAGAIN (it is being written all the time, or has been cut short: try again), APUS_ENOMEM. */
APUS_API int apus_stats_visit(struct apus_stats *stats,
			      bool (*visit)(const struct apus_stats_row *, void *), void *user);

#ifdef __cplusplus
}
#endif

#endif
