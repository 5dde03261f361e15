/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the tree of Cyclone's IDL front end to Apus type descriptors in memory.
 *
 * The descriptors are complete and laid out for this host, so they can be used at once (at run time)
 * or printed as C (by the generator). They live until idl_free_all() (names.h). Whatever Apus cannot do is
 * refused here, by idl_error() with file, line and name; nothing is left out silently.
 */
#ifndef APUS_IDLC_TYPES_H
#define APUS_IDLC_TYPES_H

#include <apus/type.h>
#include <idl/processor.h>

/** Dimensions one array may have (choice; a typedef'd array may be an element of another). */
#define IDL_DIMENSIONS_MAX 8

/** A type with what printing it needs. */
struct idl_type_node {
	struct apus_type type;  /* first: members and elements point here */
	const idl_node_t *node; /* declaration of a struct, union, enum or bitmask; else NULL */
	const char *symbol;     /* C name of the descriptor, "apus_type_int32", "m_T_type" */
	const char *c_name;     /* C name of a declared type without its keyword, "m_T" */
	uint32_t dims[IDL_DIMENSIONS_MAX]; /* ARRAY: their product is type.bound */
	uint32_t dim_count;
	uint32_t depth;  /* levels of nesting below, 0 for scalars and strings */
	uint32_t weight; /* members below, counted at each place where they stand */
	bool foreign;    /* declared in an included file */
	bool predefined; /* one of libapus's own descriptors */
	bool building;   /* its members are being visited: meeting it again is recursion */
	bool topic;      /* not @nested: carries type information */
	bool used;       /* for the printer: something printed refers to it */
	struct idl_type_node *next;          /* all types, each behind those it uses */
	struct idl_type_node *next_declared; /* declared types, those being built included */
};

/** All types of one translation unit. */
struct idl_types {
	const idl_pstate_t *pstate;
	struct idl_type_node *first, *last;
	struct idl_type_node *declared;
	uint32_t anonymous_count;
	bool failed; /* an error has been reported */
};

/** The wrapper of a descriptor that idl_types_build() made. */
static inline const struct idl_type_node *idl_type_of(const struct apus_type *type)
{
	return (const struct idl_type_node *)(const void *)type;
}

/**
 * Builds descriptors for everything declared in the unit, included files too.
 * Returns false after reporting the first error.
 */
bool idl_types_build(struct idl_types *types, const idl_pstate_t *pstate);

/** The struct with this IDL name ("m::T"), NULL if there is none. */
const struct apus_type *idl_types_find(const struct idl_types *types, const char *name);

/** The built type of a declaration; NULL if it is none. */
const struct idl_type_node *idl_types_of_node(const struct idl_types *types, const void *node);

/** C identifier of a declaration: the names of its modules and its own, joined by "_". */
const char *idl_c_name(const void *node);

/** C identifier of a member: its own name, with "_" behind where C or C++ reserve that. */
const char *idl_c_identifier(const char *name);

/** True if a declaration is in the file being compiled, not in an included one. */
bool idl_in_main_file(const idl_pstate_t *pstate, const void *node);

#endif
