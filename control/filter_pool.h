/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled filters shared by reference count, one for each (type, class, expression, parameters), at most a
 * fixed number of them. Used by publish.c alone, under control's lock; a predicate lives until the last
 * reference is dropped, so whoever hands one to the data plane keeps a reference until the reclaim.
 */
#ifndef APUS_CONTROL_FILTER_POOL_H
#define APUS_CONTROL_FILTER_POOL_H

#include "control/filter.h"
#include "wire/record.h"

struct apus_filter_source;

/** A compiled filter with its references. */
struct apus_ctl_shared_filter {
	struct apus_dp_predicate *predicate;
	struct apus_ctl_filter_term *term; /* what an index holds it by; NULL with `type` */
	uint64_t stamp;                    /* the user's, with `id`: of the snapshot last built */
	uint32_t id;
	uint32_t refs;
	uint32_t users;               /* the user's: of the references, those of matches */
	const struct apus_type *type; /* NULL: not to be found by text */
	bool own;                     /* a local reader's, and nobody else's */
	uint32_t context;             /* custom classes: who evaluates it; else 0 */
	bool counted; /* against the pool's capacity; of own ones with one text, one is */
	uint64_t hash;
	struct apus_ctl_shared_filter *next;
	size_t text_bytes;
	char text[]; /* class, expression and parameters, each with its NUL */
};

/** Compiles a filter of a class that is not built in; context: who will evaluate it. Returns 0 or negative. */
typedef int apus_ctl_compile_custom_fn(void *user, const char *class_name,
				       const struct apus_filter_source *source, uint32_t context,
				       struct apus_dp_predicate **predicate_out);

struct apus_ctl_filter_pool {
	apus_ctl_compile_custom_fn *custom; /* NULL: none */
	void *custom_user;
	bool no_builtin; /* DDSSQL is no class, or one of the application's */
	struct apus_ctl_filter_limits limits;
	/* Of different filters of local readers; and a remote reader's is taken as long as all together are fewer. So what
	 * strangers announce takes no room from the application, and there are at most twice as many; three times,
	 * while changed ones wait for the last snapshot with what they replace to be reclaimed. */
	uint32_t capacity;
	uint32_t count, own; /* all that count; those of local readers among them */
	uint32_t bucket_mask;
	struct apus_ctl_shared_filter **buckets;
};

/** Prepares a pool for `capacity` filters (see there). Returns 0 or APUS_ENOMEM. */
int apus_ctl_filter_pool_init(struct apus_ctl_filter_pool *pool, uint32_t capacity,
			      const struct apus_ctl_filter_limits *limits);
/** Frees the table; every reference must have been dropped. */
void apus_ctl_filter_pool_fini(struct apus_ctl_filter_pool *pool);

/** A reference to the compiled filter of a record, compiling it if it is new. context: who
 *  will evaluate it, for custom classes. replaces: it takes the place of one that nobody else has, which leaves the
 *  pool soon: a change at the limit succeeds. NULL if the class is not known, the text does not compile, a limit is reached or memory is short. */
struct apus_ctl_shared_filter *
apus_ctl_filter_pool_get(struct apus_ctl_filter_pool *pool, const struct apus_type *type,
			 const struct apus_wire_endpoint_record *record, uint32_t context,
			 bool replaces);
/** The same for the filter of a local reader, as its writers' indexes want it. The reader's own form counts already,
 *  so this one does not. Built-in class only. */
struct apus_ctl_shared_filter *
apus_ctl_filter_pool_get_local(struct apus_ctl_filter_pool *pool, const struct apus_type *type,
			       const struct apus_wire_endpoint_record *record);
/** Wraps a local reader's predicate compiled elsewhere; takes it over on success. NULL without room or memory.
 *  record: with its text, by which those of the built-in class that say the same count once.
 *  replaces: one it stands in for, whose place it may use (NULL: none). */
struct apus_ctl_shared_filter *
apus_ctl_filter_pool_wrap(struct apus_ctl_filter_pool *pool, struct apus_dp_predicate *predicate,
			  const struct apus_type *type,
			  const struct apus_wire_endpoint_record *record,
			  const struct apus_ctl_shared_filter *replaces);
/** Takes another reference; NULL stays NULL. */
struct apus_ctl_shared_filter *apus_ctl_filter_pool_hold(struct apus_ctl_shared_filter *filter);
/** Drops a reference; NULL is allowed. */
void apus_ctl_filter_pool_drop(struct apus_ctl_filter_pool *pool,
			       struct apus_ctl_shared_filter *filter);

#endif
