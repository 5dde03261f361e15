/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filter classes of the application: conditions that the built-in language cannot say, such as the sum of
 * two members, or a polygon.
 *
 * A class is registered with a participant under a name. A reader names it (filter_class of its options) and
 * gives an expression, which Apus hands on as it stands. Writers in participants where a class of that name
 * is registered filter for the reader; others send it everything, and the reader filters.
 *
 * An instance of a class has one compiled form at a time, and only one worker evaluates it; a filter that several
 * workers evaluate is compiled by an instance for each. The callbacks of an instance follow one another, though not
 * all in the same thread, so a class needs no locks for what an instance owns, and none is taken around them; those of
 * several instances run at the same time. Callbacks must be quick, must not call Apus (but for
 * apus_type_decode() and apus_type_view()), and `evaluate` should not allocate: everything can be allocated
 * by `create` from the limits it is given.
 */
#ifndef APUS_FILTER_CLASS_H
#define APUS_FILTER_CLASS_H

#include <apus/participant.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What an instance has to hold at once, and how large it may be. */
struct apus_filter_limits {
	uint32_t expression_max_count;  /**< compiled forms alive: 1 */
	uint32_t expression_max_length; /**< bytes, without the NUL */
	uint32_t parameter_max_count_per_expression;
	uint32_t parameter_max_length; /**< bytes, without the NUL */
};

/** What `compile` is given; valid during the call, but for `type`, which outlives the compiled form. */
struct apus_filter_source {
	const char *expression;
	const char *const *parameters;
	uint32_t parameter_count;
	const struct apus_type *type; /**< may be NULL */
	const char *type_name;        /**< registered name */
};

/** A filter class. All callbacks are needed. */
struct apus_filter_class {
	const char *name; /**< not empty; unique within the participant */
	/** Makes an instance; any thread. NULL fails the registration, for which one is made, or the filter that
	 *  needs one more. */
	void *(*create)(const struct apus_filter_limits *limits, void *user);
	/** Ends one; no compiled form of it is left. */
	void (*destroy)(void *instance);
	/** Compiles; returns 0 with the compiled form, or a negative APUS_E…: the reader is refused with
	 *  it, a writer does not filter for that reader. */
	int (*compile)(void *instance, const struct apus_filter_source *source,
		       void **compiled_out);
	/** Judges a sample given as CDR with its encapsulation header: positive: it passes, 0: not; negative:
	 *  an error, which drops it at a reader and lets it pass at a writer. */
	int (*evaluate)(void *instance, const void *compiled, const struct apus_type *type,
			const void *payload, size_t payload_bytes);
	/** Ends a compiled form: the filter was changed, or its endpoint is gone. The instance may be given
	 *  another one then. */
	void (*finalize)(void *instance, void *compiled);
	void *user; /**< handed to `create` */
};

/**
 * Registers a class (copied). The name "DDSSQL" is taken, unless filter.disable_builtin_sql is set. Readers
 * already known are not filtered for by it before they announce themselves anew.
 * Returns 0, APUS_EINVAL, APUS_EEXIST (the name is taken), APUS_ELIMIT (filter.class_max_count or
 * filter.class_max_length), APUS_ENOMEM (`create` returned NULL), APUS_ENOTSUP (filtering is off).
 */
APUS_API int apus_filter_class_register(struct apus_participant *participant,
					const struct apus_filter_class *filter_class);

/**
 * Unregisters a class and destroys its instances. Deleting the participant does that, too.
 * Returns 0, APUS_ENOENT, or APUS_EAGAIN: a reader or writer still uses it. Waits up to 100 ms for those who
 * have just ended to let go of it.
 */
APUS_API int apus_filter_class_unregister(struct apus_participant *participant, const char *name);

#ifdef __cplusplus
}
#endif

#endif
