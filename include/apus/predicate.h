/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filters composed in code: typed pieces instead of text.
 *
 * A leaf names a member and the values it is compared with; names and types are checked when it is made.
 * Leaves are joined with both, either and not. A composed predicate has the text of the equivalent
 * expression, values written out exactly, so it compiles to the very program that text compiles to, can
 * be given to a reader as its filter and is announced to writers like any other.
 *
 * Predicates are immutable. They borrow the type descriptor and nothing else: values and operands are
 * copied. Any thread may call anything here; calls allocate and do not block.
 */
#ifndef APUS_PREDICATE_H
#define APUS_PREDICATE_H

#include <apus/filter.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A predicate made of typed pieces. */
struct apus_predicate;

/** How a member is compared. */
enum apus_compare_op {
	APUS_LESS,
	APUS_LESS_OR_EQUAL,
	APUS_EQUAL,
	APUS_NOT_EQUAL,
	APUS_GREATER_OR_EQUAL,
	APUS_GREATER,
};

/** Kinds of value. */
enum apus_value_kind {
	APUS_VALUE_SIGNED,   /**< `i` */
	APUS_VALUE_UNSIGNED, /**< `u` */
	APUS_VALUE_FLOAT,    /**< `f`, finite */
	APUS_VALUE_BOOL,     /**< `b` */
	APUS_VALUE_TEXT, /**< `text`: a string, a char, or the label of an enum, by the member it meets */
	APUS_VALUE_MEMBER, /**< `text`: the path of another member */
};

/** A value, or another member. */
struct apus_value {
	uint8_t kind; /**< enum apus_value_kind */
	union {
		int64_t i;
		uint64_t u;
		double f;
		bool b;
		const char *text; /**< NUL-terminated */
	};
};

/**
 * `member op value`. type: a STRUCT descriptor. member: a path as in expressions.
 * This and the following leaves return 0 with `*predicate_out` the caller's (free with
 * apus_predicate_free()); APUS_EFILTER with a reason in `*error_out` (may be NULL) if the member does not
 * exist, is no path, or the value does not fit it, positions being those of the text; APUS_EINVAL for NULL arguments, an
 * unknown op or kind, a float that is not finite; APUS_ENOMEM.
 */
APUS_API int apus_predicate_compare(const struct apus_type *type, const char *member,
				    enum apus_compare_op op, const struct apus_value *value,
				    struct apus_predicate **predicate_out,
				    struct apus_filter_error *error_out);
/** `member BETWEEN low AND high`, ends included. */
APUS_API int apus_predicate_between(const struct apus_type *type, const char *member,
				    const struct apus_value *low, const struct apus_value *high,
				    struct apus_predicate **predicate_out,
				    struct apus_filter_error *error_out);
/** `member IN (values)`; at least one, no members. They are copied and sorted: order does not matter. */
APUS_API int apus_predicate_in(const struct apus_type *type, const char *member,
			       const struct apus_value *values, uint32_t value_count,
			       struct apus_predicate **predicate_out,
			       struct apus_filter_error *error_out);
/** `member LIKE pattern`, with `ESCAPE escape` unless escape is NUL. */
APUS_API int apus_predicate_like(const struct apus_type *type, const char *member,
				 const char *pattern, char escape,
				 struct apus_predicate **predicate_out,
				 struct apus_filter_error *error_out);
/** `member MATCH pattern`. */
APUS_API int apus_predicate_match(const struct apus_type *type, const char *member,
				  const char *pattern, struct apus_predicate **predicate_out,
				  struct apus_filter_error *error_out);
/** `member IS NULL`. */
APUS_API int apus_predicate_is_null(const struct apus_type *type, const char *member,
				    struct apus_predicate **predicate_out,
				    struct apus_filter_error *error_out);

/** `a AND b`, evaluated in this order as far as needed. Both must be of one type and stay the caller's.
 *  Returns 0, APUS_EINVAL, APUS_ELIMIT (more than 1 MiB of text), APUS_ENOMEM. */
APUS_API int apus_predicate_both(const struct apus_predicate *a, const struct apus_predicate *b,
				 struct apus_predicate **predicate_out);
/** `a OR b`; as apus_predicate_both(). */
APUS_API int apus_predicate_either(const struct apus_predicate *a, const struct apus_predicate *b,
				   struct apus_predicate **predicate_out);
/** `NOT a`; as apus_predicate_both(). */
APUS_API int apus_predicate_not(const struct apus_predicate *a,
				struct apus_predicate **predicate_out);

/** The equivalent expression, valid as long as the predicate; what to give to a reader as its filter. */
APUS_API const char *apus_predicate_text(const struct apus_predicate *predicate);
/** Compiles a predicate; as apus_filter_open() on its text: more than 64 levels of nesting are refused here, too. */
APUS_API int apus_predicate_open(const struct apus_predicate *predicate,
				 struct apus_filter **filter_out,
				 struct apus_filter_error *error_out);
/** Frees a predicate; NULL is allowed. Others made from it are not affected. */
APUS_API void apus_predicate_free(struct apus_predicate *predicate);

#ifdef __cplusplus
}
#endif

#endif
