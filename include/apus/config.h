/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration of a participant: a table of named settings with defaults, ranges and units.
 * `apus config` prints the table; files hold one `name = value` a line, `#` starts a comment. Lines behind a line
 * `[application]` or `[worker]` are for participants or for the worker process only (enum apus_config_section).
 */
#ifndef APUS_CONFIG_H
#define APUS_CONFIG_H

#include <apus/core.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A set of settings. Not thread-safe; copied by apus_participant_create(). */
struct apus_config;

/** Description of one setting, for tools and documentation. Static storage. */
struct apus_setting {
	const char *name;          /**< "domain", "worker.cores", … */
	const char *unit;          /**< "ms", "bytes", "" … */
	const char *default_value; /**< as text */
	const char *range;         /**< "0…232", "poll | pause | block", … */
	const char *help;          /**< one sentence: meaning and reason of the default */
};

/** Creates a configuration holding the defaults. Returns NULL without memory. */
APUS_API struct apus_config *apus_config_create(void);
/** Destroys a configuration; NULL is allowed. */
APUS_API void apus_config_destroy(struct apus_config *config);

/**
 * Sets one setting from text. List settings (interfaces, peers, worker.cores) take comma-separated
 * values. error/error_bytes (may be NULL/0) receive a sentence that names the setting, the value and
 * the range. Returns 0, APUS_ENOENT (no such setting) or APUS_EINVAL; on failure nothing changed.
 */
APUS_API int apus_config_set(struct apus_config *config, const char *name, const char *value,
			     char *error, size_t error_bytes);

/** Who reads a file, so that one file can serve both sides of a worker process: lines above the first section are
 *  everybody's, those of another's section are checked and not applied. */
enum apus_config_section {
	APUS_CONFIG_APPLICATION = 0, /**< [application]: participants */
	APUS_CONFIG_WORKER = 1,      /**< [worker]: the worker process, <apus/relay.h> */
};

/**
 * Reads a file of settings for one reader. All lines are checked before any is applied.
 * Returns 0, APUS_ENOENT (cannot open), APUS_EINVAL (error names file, line and reason), APUS_ENOMEM.
 */
APUS_API int apus_config_load_section(struct apus_config *config, enum apus_config_section section,
				      const char *path, char *error, size_t error_bytes);

/**
 * Reads a file of settings for participants: apus_config_load_section() with APUS_CONFIG_APPLICATION.
 * Returns 0, APUS_ENOENT (cannot open), APUS_EINVAL (error names file, line and reason), APUS_ENOMEM.
 */
APUS_API int apus_config_load(struct apus_config *config, const char *path, char *error,
			      size_t error_bytes);

/** Writes the present value of a setting as text. Returns 0, APUS_ENOENT or APUS_ELIMIT. */
APUS_API int apus_config_get(const struct apus_config *config, const char *name, char *value_out,
			     size_t value_bytes);

/** Describes setting number `idx` (0…); NULL past the last. Any thread. */
APUS_API const struct apus_setting *apus_config_describe(size_t idx);

#ifdef __cplusplus
}
#endif

#endif
