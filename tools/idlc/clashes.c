/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See clashes.h. Every name goes into one list, sorted; equal ones stand together then, and what they are decides
 * whether C can tell them apart. Members are listed per struct, so that two structs may have one each.
 */
#include "clashes.h"
#include "names.h"
#include "refuse.h"
#include <stdlib.h>
#include <string.h>

/* What a name is in C, in the order of a sorted list: a macro clashes with everything behind it. */
enum name_kind {
	NAME_MACRO,
	NAME_TAG,
	NAME_ORDINARY,
	NAME_MEMBER,
};

struct entry {
	const char *text;
	enum name_kind kind;
	const void *scope; /* MEMBER: the struct or union */
	const void *node;  /* declaration to blame */
	uint32_t order;
};

struct names {
	struct entry *entries; /* NULL while they are counted */
	uint32_t count;
};

static void add(struct names *names, enum name_kind kind, const char *text, const void *scope,
		const void *node)
{
	if (names->entries)
		names->entries[names->count] =
			(struct entry){text, kind, scope, node, names->count};
	names->count++;
}

/* `_d` and `_u` of unions are in a scope of their own: cases are members of `_u`. */
static void add_members(struct names *names, const struct idl_type_node *n)
{
	for (uint32_t i = 0; i < n->type.member_count; i++)
		add(names, NAME_MEMBER, idl_c_identifier(n->type.members[i].name), n, n->node);
}

static void add_labels(struct names *names, const struct idl_type_node *n)
{
	const idl_enumerator_t *e;
	const idl_bit_value_t *bit;

	if (n->type.kind == APUS_KIND_ENUM) {
		IDL_FOREACH(e, ((const idl_enum_t *)n->node)->enumerators)
		add(names, NAME_ORDINARY, idl_c_name(e), NULL, e);
	} else {
		IDL_FOREACH(bit, ((const idl_bitmask_t *)n->node)->bit_values)
		add(names, NAME_MACRO, idl_printf("%s_%s", n->c_name, idl_identifier(bit)), NULL,
		    bit);
	}
}

static void add_type(struct names *names, const struct idl_type_node *n)
{
	if (n->type.kind != APUS_KIND_BITMASK) /* which have no tag */
		add(names, NAME_TAG, n->c_name, NULL, n->node);
	add(names, NAME_ORDINARY, n->symbol, NULL, n->node);
	if (n->type.kind == APUS_KIND_STRUCT || n->type.kind == APUS_KIND_UNION)
		add_members(names, n);
	else
		add_labels(names, n);
}

static void add_constants(struct names *names, const void *list)
{
	const idl_node_t *node;

	IDL_FOREACH(node, list)
	{
		if (idl_is_module(node))
			add_constants(names, ((const idl_module_t *)node)->definitions);
		else if (idl_is_const(node))
			add(names, NAME_MACRO, idl_c_name(node), NULL, node);
	}
}

static void add_all(struct names *names, const struct idl_types *types)
{
	names->count = 0;
	add_constants(names, types->pstate->root);
	for (const struct idl_type_node *n = types->first; n; n = n->next)
		if (n->node)
			add_type(names, n);
}

static int compare(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int by_text = strcmp(x->text, y->text);

	if (by_text)
		return by_text;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->scope != y->scope)
		return (uintptr_t)x->scope < (uintptr_t)y->scope ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

/* a stands before b in the list and has its text; first: the first entry with that text. */
static bool clash(const struct entry *first, const struct entry *a, const struct entry *b)
{
	return first->kind == NAME_MACRO || (a->kind == b->kind && a->scope == b->scope);
}

/* What <apus/type.h> declares, or may come to: macros are in the way of members too. A flag's name has been
 * put together after names that C has already were told apart. */
static bool is_taken(const struct entry *e)
{
	return strncmp(e->text, "APUS_", 5) == 0 ||
	       (e->kind != NAME_MEMBER && strncmp(e->text, "apus_", 5) == 0) ||
	       (e->kind == NAME_MACRO && idl_c_identifier(e->text) != e->text);
}

static bool refuse_taken(struct idl_types *types, const struct names *names)
{
	for (const struct entry *e = names->entries; e < names->entries + names->count; e++) {
		if (!is_taken(e))
			continue;
		idl_refuse(types, e->node,
			   idl_printf("in C its %s has a name of the headers': %s",
				      e->kind == NAME_MEMBER ? "member" : "declaration", e->text));
		return true;
	}
	return false;
}

bool idl_names_distinct(struct idl_types *types)
{
	struct names names = {0};
	const struct entry *first;

	add_all(&names, types);
	if (names.count == 0)
		return true;
	names.entries = idl_zalloc(names.count * sizeof(*names.entries));
	add_all(&names, types);
	if (refuse_taken(types, &names))
		return false;
	qsort(names.entries, names.count, sizeof(*names.entries), compare);
	first = names.entries;
	for (const struct entry *e = first + 1; e < names.entries + names.count; e++) {
		if (strcmp(first->text, e->text) != 0) {
			first = e;
			continue;
		}
		if (!clash(first, e - 1, e))
			continue;
		idl_refuse(types, e->node,
			   idl_printf("in C its %s has the name of another: %s",
				      e->kind == NAME_MEMBER ? "member" : "declaration", e->text));
		return false;
	}
	return true;
}
