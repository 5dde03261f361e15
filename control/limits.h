/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of settings: name, unit, default, range and reason of each, and where its value stands in
 * struct apus_ctl_config. Parser, `apus config` and the documentation read this table and nothing else.
 */
#ifndef APUS_CONTROL_LIMITS_H
#define APUS_CONTROL_LIMITS_H

#include "control/config.h"

/** How the text of a setting is read. */
enum apus_ctl_kind {
	APUS_CTL_KIND_NUMBER,   /**< uint32_t */
	APUS_CTL_KIND_AUTO,     /**< int32_t; "auto" is APUS_CTL_AUTO */
	APUS_CTL_KIND_DURATION, /**< int64_t ns */
	APUS_CTL_KIND_SWITCH,   /**< bool; "on" or "off" */
	APUS_CTL_KIND_WORD,     /**< uint32_t, the index in `words` */
	APUS_CTL_KIND_TEXT,     /**< char[APUS_CTL_TEXT_BYTES + 1], any printable text */
	APUS_CTL_KIND_PEERS,    /**< likewise, and parsed into peer[] */
	APUS_CTL_KIND_SERVERS,  /**< likewise, and parsed into server[] */
	APUS_CTL_KIND_CORES,    /**< likewise, and parsed into worker_core[] */
	APUS_CTL_KIND_ALLOW,    /**< likewise, and parsed into allow */
	APUS_CTL_KIND_DENY,     /**< likewise, and parsed into deny */
};

/** One row. */
struct apus_ctl_setting {
	struct apus_setting shown;
	enum apus_ctl_kind kind;
	size_t offset;            /**< in struct apus_ctl_config */
	int64_t min, max;         /**< NUMBER, AUTO, and DURATION in ns */
	const char *const *words; /**< WORD: NULL-terminated */
};

extern const struct apus_ctl_setting apus_ctl_settings[];
extern const size_t apus_ctl_setting_count;

#endif
