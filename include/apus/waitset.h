/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for several things at once (DDS 1.4 §2.2.2.1.6): conditions, and a waitset that sleeps until one of
 * those attached to it is true. No system call is made on the data path unless somebody waits.
 *
 * Conditions are levels: a condition is true as long as what it stands for is, and a waitset reports it until
 * then. A waitset's descriptor fits poll(), epoll and io_uring loops; when it is readable, call
 * apus_waitset_wait() with a timeout of 0, which says what is true and lowers the descriptor if nothing is.
 * Loops that are told of edges only (EPOLLET) go on until it returns APUS_ETIMEDOUT.
 *
 * Thread rule: any thread may call; one thread at a time waits on one waitset. A condition is destroyed by the
 * one who made it, before, after or while its endpoint is deleted: without its endpoint it is never true.
 * Conditions, waitsets and endpoints may be deleted by different threads at the same time, also while another
 * thread waits; but nobody may use what is deleted, nor wait on a waitset that is.
 */
#ifndef APUS_WAITSET_H
#define APUS_WAITSET_H

#include <apus/core.h>
#include <apus/filter.h>
#include <apus/participant.h>
#include <apus/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct apus_condition;
struct apus_waitset;

/** True while some status of `mask` differs from what `observer` has seen: a look with that observer at the
 *  status makes it false again. `observer` is the caller's and outlives the condition; the thread that waits
 *  owns it. Returns 0, APUS_EINVAL (mask empty, or not of this kind of endpoint), APUS_ENOMEM, APUS_ECLOSED. */
APUS_API int apus_writer_status_condition(struct apus_writer *writer, uint32_t mask,
					  const struct apus_observer *observer,
					  struct apus_condition **condition_out);
/** The same of a reader. */
APUS_API int apus_reader_status_condition(struct apus_reader *reader, uint32_t mask,
					  const struct apus_observer *observer,
					  struct apus_condition **condition_out);
/** True while a read with `select` (copied; NULL = all samples) would return something. Returns 0,
 *  APUS_ENOMEM, APUS_ECLOSED. */
APUS_API int apus_reader_read_condition(struct apus_reader *reader,
					const struct apus_select *select,
					struct apus_condition **condition_out);
/** The same for samples that satisfy a filter expression (<apus/filter.h>) besides. Returns as above, or
 *  APUS_EFILTER with *error_out (may be NULL). */
APUS_API int apus_reader_query_condition(struct apus_reader *reader,
					 const struct apus_select *select, const char *expression,
					 const char *const *parameters, uint32_t parameter_count,
					 struct apus_filter_error *error_out,
					 struct apus_condition **condition_out);
/** True when the application says so. */
APUS_API int apus_guard_condition(struct apus_condition **condition_out);
/** Sets a guard condition; any thread. Returns 0, or APUS_EINVAL if it is no guard condition. */
APUS_API int apus_guard_set(struct apus_condition *guard, bool triggered);

/** Detaches it from every waitset and frees it; NULL is allowed. */
APUS_API void apus_condition_destroy(struct apus_condition *condition);
/** Whether it is true now. */
APUS_API bool apus_condition_triggered(struct apus_condition *condition);

/** Takes or reads the samples a read or query condition stands for; otherwise as apus_take(), apus_read().
 *  APUS_EINVAL if it is neither. */
APUS_API int apus_take_where(struct apus_condition *condition, struct apus_sample *samples_out,
			     uint32_t max);
/** The same, reading. */
APUS_API int apus_read_where(struct apus_condition *condition, struct apus_sample *samples_out,
			     uint32_t max);

/** Creates an empty waitset. Returns 0, APUS_ENOMEM, APUS_EIO (no descriptor left). */
APUS_API int apus_waitset_create(struct apus_waitset **waitset_out);
/** Detaches everything and frees it; nobody may be waiting. NULL is allowed. */
APUS_API void apus_waitset_destroy(struct apus_waitset *waitset);
/** Attaches a condition; one may be attached to several waitsets. Returns 0, APUS_EEXIST, APUS_ENOMEM. */
APUS_API int apus_waitset_attach(struct apus_waitset *waitset, struct apus_condition *condition);
/** Detaches one. Returns 0 or APUS_ENOENT. */
APUS_API int apus_waitset_detach(struct apus_waitset *waitset, struct apus_condition *condition);

/**
 * Waits until a condition is true, up to timeout_ns (0: looks once; APUS_INFINITE_NS). Returns how many are
 * true (1…max, stored in conditions_out, which may be NULL if max is 0), APUS_ETIMEDOUT, APUS_EAGAIN (another
 * thread waits on it), APUS_EDEADLK (on a worker's thread, with a timeout other than 0). Sleeps; if a condition belongs to a driven worker, polls that
 * worker instead.
 */
APUS_API int apus_waitset_wait(struct apus_waitset *waitset, struct apus_condition **conditions_out,
			       uint32_t max, int64_t timeout_ns);
/** An eventfd that is readable while a condition may be true. Owned by the waitset. It costs the data path
 *  one system call for each time it rises. */
APUS_API int apus_waitset_fd(struct apus_waitset *waitset);

#ifdef __cplusplus
}
#endif

#endif
