/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the stages of the filter compiler: text -> tokens -> leaves and nodes -> program.
 *
 * The parser knows grammar and no types, the compiler types and no grammar. A new predicate is a new
 * token, a new kind of leaf and its tests; nodes and targets stay as they are.
 */
#ifndef APUS_CONTROL_FILTER_INTERNAL_H
#define APUS_CONTROL_FILTER_INTERNAL_H

#include "control/filter.h"
#include "dataplane/predicate_program.h"

enum apus_ctl_filter_token_kind {
	APUS_CTL_TOKEN_END,
	APUS_CTL_TOKEN_NAME,      /* member path */
	APUS_CTL_TOKEN_INTEGER,   /* decimal or hexadecimal, with its sign and L */
	APUS_CTL_TOKEN_FLOAT,     /* with its sign and F */
	APUS_CTL_TOKEN_QUOTED,    /* with its quotes */
	APUS_CTL_TOKEN_PARAMETER, /* %n; `value` is n */
	APUS_CTL_TOKEN_TRUE,
	APUS_CTL_TOKEN_FALSE,
	APUS_CTL_TOKEN_COMPARE, /* `value` is an enum apus_ctl_filter_op */
	APUS_CTL_TOKEN_OPEN,
	APUS_CTL_TOKEN_CLOSE,
	APUS_CTL_TOKEN_AND,
	APUS_CTL_TOKEN_OR,
	APUS_CTL_TOKEN_NOT,
	APUS_CTL_TOKEN_BETWEEN,
	APUS_CTL_TOKEN_LIKE,
	APUS_CTL_TOKEN_MATCH,
	APUS_CTL_TOKEN_IN,
	APUS_CTL_TOKEN_IS,
	APUS_CTL_TOKEN_NULL,
	APUS_CTL_TOKEN_ESCAPE,
	APUS_CTL_TOKEN_COMMA,
};

enum apus_ctl_filter_op {
	APUS_CTL_OP_LT,
	APUS_CTL_OP_LE,
	APUS_CTL_OP_EQ,
	APUS_CTL_OP_NE,
	APUS_CTL_OP_GE,
	APUS_CTL_OP_GT,
	APUS_CTL_OP_BETWEEN,
	APUS_CTL_OP_LIKE,
	APUS_CTL_OP_MATCH,
	APUS_CTL_OP_IN,
	APUS_CTL_OP_IS_NULL,
};

struct apus_ctl_filter_token {
	uint8_t kind; /* enum apus_ctl_filter_token_kind */
	uint8_t value;
	uint32_t position, length; /* bytes of the text */
};

struct apus_ctl_filter_lexer {
	const char *text; /* NUL-terminated */
	uint32_t bytes;   /* without the NUL */
	uint32_t at;
};

/** One predicate: `a op b`, `a BETWEEN b AND c`, `a LIKE b [ESCAPE c]`, `a MATCH b`, `a IS NULL`,
 *  `a IN (items)`. */
struct apus_ctl_filter_leaf {
	uint8_t op;
	bool negated;                         /* NOT BETWEEN, NOT LIKE, …, IS NOT NULL */
	struct apus_ctl_filter_token a, b, c; /* c: END where there is none */
	uint32_t first_item, item_count;      /* IN: of the tree's items */
};

enum apus_ctl_filter_node_kind { APUS_CTL_NODE_LEAF, APUS_CTL_NODE_AND, APUS_CTL_NODE_OR };

/** A node of the condition. Children stand before their parent; the last node is the root. */
struct apus_ctl_filter_node {
	uint8_t kind;
	bool negated;
	uint16_t left, right; /* nodes */
	uint16_t first_leaf;  /* leftmost leaf below; the leaf itself for a LEAF */
};

/** What the parser fills. Capacities: `leaf_capacity` leaves, twice as many nodes, and items for each
 *  comma of the text and each leaf. */
struct apus_ctl_filter_tree {
	struct apus_ctl_filter_leaf *leaves;
	struct apus_ctl_filter_node *nodes;
	struct apus_ctl_filter_token *items;
	uint32_t leaf_capacity, leaf_count, node_count, item_count;
};

/**
 * Notes an error (printable, cut to fit) and returns APUS_EFILTER.
 */
int apus_ctl_filter_fail(struct apus_filter_error *error, uint32_t position, uint32_t length,
			 const char *format, ...) __attribute__((format(printf, 4, 5)));

/**
 * Reads the next token. Returns 0 or APUS_EFILTER (error filled). At the end of the text it returns END
 * again and again. Cost linear in the bytes it passes.
 */
int apus_ctl_filter_lex(struct apus_ctl_filter_lexer *lexer,
			struct apus_ctl_filter_token *token_out, struct apus_filter_error *error);

/**
 * Parses a whole expression with an explicit stack of bounded depth. limits: `depth` and the tree's
 * leaf capacity are the bounds. Returns 0 or APUS_EFILTER (error filled).
 */
int apus_ctl_filter_parse(const char *text, uint32_t bytes, uint32_t depth,
			  struct apus_ctl_filter_tree *tree, struct apus_filter_error *error);

/** A numeric constant, exact: the greatest integer not above it (beyond 2^66: ±2^66) and whether it is
 *  above that; and for floats a double next to it and where the constant lies from there. */
struct apus_ctl_filter_number {
	__int128 floor;
	bool fraction;
	uint64_t bits; /* of the double */
	int8_t beside; /* sign of constant - double; 0 for FLOAT literals, which *are* their double */
};

/** Values of a field that a comparison with a constant accepts, as ordered keys, ends included. */
struct apus_ctl_filter_range {
	bool empty;
	uint64_t low, high;
};

/**
 * Evaluates an INTEGER or FLOAT token of a NUL-terminated text.
 * Returns 0, or APUS_EFILTER with `*reason_out` a constant text: hexadecimal beyond 64 bits, a float with
 * F beyond the range of float. Independent of the locale.
 */
int apus_ctl_filter_number(const char *text, const struct apus_ctl_filter_token *token,
			   struct apus_ctl_filter_number *number_out, const char **reason_out);

/** The constant for a whole number. */
struct apus_ctl_filter_number apus_ctl_filter_whole(int64_t value);

/** Values v of an integer field with minimum..maximum for which `v op number`; not for NE, BETWEEN.
 *  Keys are signed ones if minimum < 0. */
struct apus_ctl_filter_range
apus_ctl_filter_range_integer(uint8_t op, const struct apus_ctl_filter_number *number,
			      __int128 minimum, __int128 maximum);

/** The same for float fields; NaN is never within. */
struct apus_ctl_filter_range
apus_ctl_filter_range_float(uint8_t op, const struct apus_ctl_filter_number *number);

/** What a member or value is, for the table of allowed comparisons. */
enum apus_ctl_filter_class {
	APUS_CTL_CLASS_BOOL,
	APUS_CTL_CLASS_INTEGER,
	APUS_CTL_CLASS_FLOAT,
	APUS_CTL_CLASS_CHAR,
	APUS_CTL_CLASS_ENUM,
	APUS_CTL_CLASS_BITMASK,
	APUS_CTL_CLASS_STRING,
};

/** A member the expression uses. Its index is the index of its field in the program. */
struct apus_ctl_filter_member {
	struct apus_wire_path path;
	uint8_t class;
};

/** A string constant in the pool. */
struct apus_ctl_filter_text {
	uint32_t at, length;
};

/** What operands resolve to, and what they resolve from. */
struct apus_ctl_filter_operands {
	const struct apus_type *type;
	const char *expression;
	const char *const *parameters;
	uint32_t parameter_count;
	struct apus_filter_error *error;

	struct apus_ctl_filter_member members[APUS_DP_FIELDS_MAX];
	struct apus_dp_field fields[APUS_DP_FIELDS_MAX];
	uint32_t field_count;

	/* String constants; the pool has room for the expression and all parameters, and a parameter
	 * stands there once however often it is used. */
	char *pool;
	uint32_t pool_bytes;
	struct apus_ctl_filter_text parameter_texts[APUS_CTL_FILTER_PARAMETERS_MAX];
	bool parameter_pooled[APUS_CTL_FILTER_PARAMETERS_MAX];
};

/** Resolves a NAME token to a field, the same member always to the same one. 0 or APUS_EFILTER. */
int apus_ctl_filter_use_member(struct apus_ctl_filter_operands *o,
			       const struct apus_ctl_filter_token *t, uint16_t *field_out);

/** Resolves a NAME token of any kind to a field that is absent exactly when it is. 0 or APUS_EFILTER. */
int apus_ctl_filter_use_presence(struct apus_ctl_filter_operands *o,
				 const struct apus_ctl_filter_token *t, uint16_t *field_out);

/** The number a literal or parameter stands for beside a field that is no string. 0 or APUS_EFILTER. */
int apus_ctl_filter_bind_number(struct apus_ctl_filter_operands *o,
				const struct apus_ctl_filter_token *t, uint16_t field,
				struct apus_ctl_filter_number *number_out);

/** The text a literal or parameter stands for beside a string field. 0 or APUS_EFILTER. */
int apus_ctl_filter_bind_text(struct apus_ctl_filter_operands *o,
			      const struct apus_ctl_filter_token *t,
			      struct apus_ctl_filter_text *text_out);

/** Growing bytes, for parts whose size is known only when they are made. */
struct apus_ctl_filter_blob {
	uint8_t *bytes; /* malloc'ed */
	uint32_t count, capacity;
};

/** Appends `bytes` zeroed bytes at a multiple of 8. Returns where, or APUS_ENOMEM. */
int64_t apus_ctl_filter_blob_add(struct apus_ctl_filter_blob *blob, size_t bytes);

/** A LIKE or MATCH pattern in compiled form: segments in a blob, or no more than plain text. */
struct apus_ctl_filter_pattern {
	bool plain; /* nothing varies: the text itself is all that matches */
	uint32_t at, segment_count, alternatives;
};

/**
 * Compiles a pattern. escape: of LIKE, -1 for none; MATCH has its own.
 * Returns 0; APUS_EFILTER with a constant text in `*reason_out`; APUS_ENOMEM. Linear in the text.
 */
int apus_ctl_filter_compile_pattern(struct apus_ctl_filter_blob *blob, bool match, int escape,
				    const char *text, uint32_t length,
				    struct apus_ctl_filter_pattern *pattern_out,
				    const char **reason_out);

/** Steps one walk may have: a bound on types that put very many members before the wanted one. */
#define APUS_CTL_FILTER_STEPS_MAX 2048

/** One compilation. Arrays lie behind it in one scratch block. */
struct apus_ctl_filter_compiler {
	struct apus_ctl_filter_operands operands;
	struct apus_ctl_filter_tree tree;
	struct apus_ctl_filter_blob data;
	struct apus_dp_test *tests;
	uint16_t *first_test; /* of each leaf, and of the end */
	uint32_t test_count;
	uint32_t alternatives; /* of all MATCH patterns; bounded like leaves */
	uint32_t step_count[2];
	struct apus_wire_step steps[2][APUS_CTL_FILTER_STEPS_MAX];
};

struct apus_ctl_filter_term;

/** Describes what was compiled (filter_describe.c). Returns the length of the text, or APUS_ELIMIT. */
int apus_ctl_filter_describe_to(const struct apus_ctl_filter_compiler *c,
				const struct apus_ctl_filter_term *term, const uint32_t *step_count,
				char *text_out, size_t text_bytes);

/** Appends the test of one leaf (two for a range that is no interval of constants), without targets.
 *  Returns 0, APUS_EFILTER (error filled) or APUS_ENOMEM. */
int apus_ctl_filter_compile_leaf(struct apus_ctl_filter_compiler *c,
				 const struct apus_ctl_filter_leaf *leaf);

/** Fails at a token of the expression: `what: 'token'`. Returns APUS_EFILTER. */
int apus_ctl_filter_fail_at(struct apus_ctl_filter_operands *o,
			    const struct apus_ctl_filter_token *t, const char *what);

#endif
