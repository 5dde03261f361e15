/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of shape_main share: one run, its pauses, its events, its lines. */
#ifndef APUS_SHAPE_MAIN_SHAPE_H
#define APUS_SHAPE_MAIN_SHAPE_H

#include <apus/apus.h>

#include "tools/session.h"
#include "tools/shape_main/options.h"

#define SHAPE_COLOR_BYTES sizeof(((struct apus_shape_extended *)0)->color)
#define SHAPE_NAME_BYTES  256

/** One run; each topic has one endpoint. */
struct shape_run {
	const struct shape_options *options;
	struct session session;
};

/** The topic's name: NAME, NAME1, NAME2 … */
void shape_topic_name(const struct shape_options *options, uint32_t idx,
		      char name_out[SHAPE_NAME_BYTES]);

/** Prints the lines of all statuses that changed, in the order the test needs. */
void shape_print_events(struct shape_run *run);

/** Has statuses of all endpoints to come printed by shape_print_events(). Returns 0 or APUS_E…. */
int shape_listen(struct shape_run *run);

/** Pauses for `ns`, printing events as they come. Returns false once a signal has asked for the end. */
bool shape_pause(struct shape_run *run, int64_t ns);

/** Prints one sample: topic, color, position, size, and the last extra byte if there is one. */
void shape_print_sample(const char *topic, const struct apus_shape_extended *shape);

/** Complains about a creation that failed; returns the exit code 1. Features this version lacks are
 *  named as the test expects. */
int shape_complain(const char *what, int result);

/** Fills the options of the endpoint of topic `name`. */
void shape_endpoint_options(const struct shape_options *options, const char *name,
			    struct apus_qos *qos, struct apus_endpoint_options *endpoint_out);

/** Run until the end; return an exit code. */
int shape_publish(struct shape_run *run);
int shape_subscribe(struct shape_run *run);

#endif
