/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content filters as text: checking them, and evaluating them over serialised samples.
 *
 * A reader's filter is given with its QoS; this header is for programs that want to check an expression
 * before they use it, or to apply one outside a reader (tools, tests, replays). The language is the
 * filter part of DDS 1.4 Annex B with what RTI Connext adds:
 *
 *   a op b                         = == <> != < <= > >=; members, literals, parameters, on either side
 *   m [NOT] BETWEEN a AND b        both ends included
 *   m [NOT] IN (a, b, …)           literals and parameters
 *   m [NOT] LIKE p [ESCAPE c]      strings: % any characters, _ one; c before one of them takes it as it is
 *   m [NOT] MATCH p                strings: patterns separated by commas, of * ? [abc] [a-z] [!a-z] and \c;
 *                                  only a slash matches a slash
 *   m IS [NOT] NULL                whether the sample lacks the member
 *   NOT, AND, OR, parentheses      in this order of precedence
 *   %0 … %99                       parameters, bound as text
 *
 * A member m is a path: `pose.x`, elements `a[3]`, `grid[1][2]`, `points[0].x`, what `length` a sequence or
 * string has (`points.length`), a case of a union, or its discriminator (`u._d`). An optional member that
 * is not there, a case not selected and an element behind the end are absent; a member that an older
 * sender's type lacks has its default.
 *
 * Logic is two-valued: every predicate but IS NULL is false where a member is absent, also <>; and
 * `m NOT LIKE p` is `NOT (m LIKE p)`. Characters are bytes. Keywords are case-insensitive, member names
 * are not. Whatever the compiler does not fully understand is refused; nothing is approximated.
 */
#ifndef APUS_FILTER_H
#define APUS_FILTER_H

#include <apus/type.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Where and why an expression was refused. */
struct apus_filter_error {
	uint32_t
		position; /**< byte offset into the expression; its length if the end was unexpected */
	uint32_t length;  /**< bytes concerned, 0 at the end of the expression */
	char reason[160]; /**< English, printable, without a final full stop */
};

/** A compiled filter; immutable after apus_filter_open(). */
struct apus_filter;

/**
 * Tells whether an expression compiles for a type.
 *
 * type: a STRUCT descriptor. expression: NUL-terminated. parameters: `parameter_count` NUL-terminated
 * texts; string and enum values may be quoted or not; surplus ones are accepted.
 * error_out (may be NULL) is written only when APUS_EFILTER is returned.
 * Returns 0; APUS_EFILTER if the expression is invalid or over a limit; APUS_EINVAL for NULL arguments
 * or a malformed descriptor; APUS_ENOMEM. Any thread; allocates and frees; does not block.
 */
APUS_API int apus_filter_check(const struct apus_type *type, const char *expression,
			       const char *const *parameters, uint32_t parameter_count,
			       struct apus_filter_error *error_out);

/**
 * Says what an expression compiles to, for people: a line for each field, each test with where it leads, how
 * the cost of a sample grows, and what an index of many filters would hold it by. Otherwise as
 * apus_filter_check(); APUS_ELIMIT if `text_bytes` is too small (the text is cut then).
 */
APUS_API int apus_filter_describe(const struct apus_type *type, const char *expression,
				  const char *const *parameters, uint32_t parameter_count,
				  char *text_out, size_t text_bytes,
				  struct apus_filter_error *error_out);

/**
 * Compiles an expression. Arguments and errors as apus_filter_check().
 * On success `*filter_out` is the caller's and must be closed; it borrows the type, nothing else.
 */
APUS_API int apus_filter_open(const struct apus_type *type, const char *expression,
			      const char *const *parameters, uint32_t parameter_count,
			      struct apus_filter **filter_out, struct apus_filter_error *error_out);

/**
 * Evaluates a filter over one serialised sample (CDR with its 4-byte encapsulation header; either byte
 * order; XCDR1 or XCDR2).
 * Returns 1 if the sample passes, 0 if not, APUS_EENCODING if the bytes do not hold the fields the
 * filter needs. Any number of threads at once; does not allocate or block.
 */
APUS_API int apus_filter_match(const struct apus_filter *filter, const void *payload,
			       size_t payload_bytes);

/** Frees a filter; NULL is allowed. No evaluation may be in progress. */
APUS_API void apus_filter_close(struct apus_filter *filter);

#ifdef __cplusplus
}
#endif

#endif
