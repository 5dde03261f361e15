/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of shape_main: one struct, filled once. */
#ifndef APUS_SHAPE_MAIN_OPTIONS_H
#define APUS_SHAPE_MAIN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <apus/qos.h>
#include <apus/type.h>

/** How a writer ends its instances before it leaves (--final-instance-state). */
enum final_state { FINAL_NONE = 0, FINAL_UNREGISTER, FINAL_DISPOSE };

/** What was asked for. Times in nanoseconds. */
struct shape_options {
	bool publish, subscribe;
	uint32_t domain;
	const char *topic;
	const char *color; /**< NULL: not given */
	const char *partition;
	const char *filter;  /**< --cft */
	struct apus_qos qos; /**< of the writer or the reader, whichever runs */
	bool print_written, keep_samples /**< -R: read */, take_all /**< --take-read */, verbose;
	int32_t size;         /**< -z; 0: start at 1, add 1 a round */
	int32_t size_modulo;  /**< 0: none */
	uint32_t extra_bytes; /**< --additional-payload-size */
	uint32_t iterations;  /**< 0: endless */
	uint32_t instances, topics;
	enum final_state final_state;
	uint32_t coherent_rounds; /**< --coherent-sample-count; 0: not given */
	uint32_t announcement_ms; /**< 0: as configured */
	uint32_t fragment_bytes;  /**< 0: as configured */
	int64_t write_period_ns, read_period_ns;
};

/**
 * Parses the command line. Returns -1 to go on, or an exit code: 0 after --help, 1 after a complaint
 * on stderr.
 */
int shape_options_parse(int argc, char **argv, struct shape_options *options_out);

#endif
