/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The built-in filter class DDSSQL: text to compiled predicate.
 *
 * Compilation is control-plane work: linear in the text, bounded by declared limits, and it either
 * yields a complete predicate or an error with position, length and reason, keeping nothing. The
 * predicate is one immutable block that borrows neither the text, the parameters nor the descriptor,
 * so snapshots can carry it to the data plane and free it after a grace period.
 */
#ifndef APUS_CONTROL_FILTER_H
#define APUS_CONTROL_FILTER_H

#include <apus/filter.h>

struct apus_dp_predicate;
struct apus_ctl_filter_term;

/** Filter class name of the built-in language, as announced (DDS 1.4 §2.2.2.3.3, RTPS 2.5 §9.6.3.1). */
#define APUS_CTL_FILTER_CLASS "DDSSQL"

/** Hard upper bounds of the limits below; a configuration above them is refused. */
#define APUS_CTL_FILTER_DEPTH_MAX      64
#define APUS_CTL_FILTER_PARAMETERS_MAX 100
#define APUS_CTL_FILTER_PREDICATES_MAX 1024
#define APUS_CTL_FILTER_BYTES_MAX      (1024 * 1024)

/** What one expression may cost. Exceeding any of them refuses the expression. */
struct apus_ctl_filter_limits {
	uint32_t expression_bytes; /**< length of the text without NUL; 1…1 MiB; default 4096 */
	uint32_t parameter_count;  /**< parameters passed; 0…100; default 100 */
	uint32_t parameter_bytes; /**< length of one parameter without NUL; 1…1 MiB; default 1024 */
	uint32_t predicate_count; /**< comparisons and ranges; 1…1024; default 64 */
	uint32_t depth;           /**< open parentheses and NOTs at one point; 1…64; default 64 */
};

/** Fills `*limits` with the defaults. */
void apus_ctl_filter_limits_default(struct apus_ctl_filter_limits *limits);

/**
 * Compiles an expression for a type.
 *
 * type: a STRUCT descriptor that apus_type_check() accepts. expression: NUL-terminated. parameters:
 * `parameter_count` NUL-terminated texts, bound as text; surplus ones are accepted, a missing one is
 * an error. limits: NULL for the defaults. error_out (may be NULL) is written only with APUS_EFILTER.
 * Returns 0 with `*predicate_out` owned by the caller (free with apus_ctl_filter_free());
 * APUS_EFILTER if the text is invalid, not supported or over a limit; APUS_EINVAL for NULL arguments,
 * a type that is no struct, or limits out of range; APUS_ENOMEM. On failure nothing is retained.
 * Any thread; does not block. Time and memory are linear in the text, counting each use of a parameter
 * with that parameter's length.
 */
int apus_ctl_filter_compile(const struct apus_type *type, const char *expression,
			    const char *const *parameters, uint32_t parameter_count,
			    const struct apus_ctl_filter_limits *limits,
			    struct apus_dp_predicate **predicate_out,
			    struct apus_filter_error *error_out);

/** As apus_ctl_filter_compile(), and tells what the filter can be indexed by. */
int apus_ctl_filter_compile_term(const struct apus_type *type, const char *expression,
				 const char *const *parameters, uint32_t parameter_count,
				 const struct apus_ctl_filter_limits *limits,
				 struct apus_dp_predicate **predicate_out,
				 struct apus_ctl_filter_term *term_out,
				 struct apus_filter_error *error_out);

/** Frees a predicate; NULL is allowed. No thread may still evaluate it. */
void apus_ctl_filter_free(struct apus_dp_predicate *predicate);

/**
 * Signature of a filter as it stands in content-filter-info (RTPS 2.5 §9.6.4.1): MD5 over the filtered
 * topic name, related topic name, class, expression and the parameters in order, each with its NUL.
 * Interop: this is the formula of Fast DDS 2.9.1. Any thread; does not allocate.
 */
void apus_ctl_filter_signature(const char *filtered_topic, const char *related_topic,
			       const char *filter_class, const char *expression,
			       const char *const *parameters, uint32_t parameter_count,
			       uint8_t signature_out[16]);

#endif
