/* SPDX-License-Identifier: Apache-2.0 */
/* What `apus pub` and `apus sub` share: from words to a topic, a type, a QoS and a filter, with
 * complaints that name the word. */
#ifndef APUS_TOOLS_ENDPOINT_H
#define APUS_TOOLS_ENDPOINT_H

#include <stdbool.h>

#include <apus/filter.h>
#include <apus/type.h>

#include "tools/options.h"
#include "tools/qos_words.h"

/** What help says of QoS. */
#define ENDPOINT_QOS_HELP                                                                        \
	"QoS words, separated by commas:\n"                                                      \
	"  reliability=reliable|best_effort  durability=volatile|transient_local\n"              \
	"  history=keep_last:N|keep_all  deadline=100ms  liveliness=automatic:2s\n"              \
	"  ownership=shared|exclusive  strength=N (pub)  lifespan=5s  time_filter=100ms (sub)\n" \
	"  partition=A;B  max_samples=N  max_instances=N  representation=xcdr1|xcdr2\n"

/**
 * Finds the type the options name: in an IDL file, or among the built-in ones if `idl_path` is NULL.
 * name NULL: the only topic type of the file, or ShapeType. Complains and returns NULL if there is none.
 * To be called before threads exist.
 */
const struct apus_type *endpoint_type(const char *idl_path, const char *name);

/** Complains about a topic name if it is unfit; returns an exit code. */
int endpoint_check_topic(const char *topic);

/** Builds the QoS of words ("" = defaults) and --partition options; returns an exit code. */
int endpoint_qos(const char *text, const struct option_list *partitions, bool is_writer,
		 struct qos_words *words);

/** Complains about a filter: reason, position, and a mark below the expression. Returns EXIT_USAGE. */
int endpoint_complain_filter(const char *expression, const struct apus_filter_error *error);

/** Complains that a writer or reader could not be created; returns an exit code. */
int endpoint_complain_create(const char *what, int result);

#endif
