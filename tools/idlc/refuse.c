/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors and the annotations that cause some; see refuse.h. The front end itself warns about
 * annotations it does not know and drops them from its tree.
 */
#include "refuse.h"
#include "names.h"
#include <string.h>

/* The name to blame: of the node, or of the first declarator of a member. */
static const char *name_of(const void *node)
{
	if (idl_is_member(node))
		return idl_identifier(((const idl_member_t *)node)->declarators);
	if (idl_is_case(node))
		return idl_identifier(((const idl_case_t *)node)->declarator);
	return idl_identifier(node);
}

void idl_refuse(struct idl_types *types, const void *node, const char *why)
{
	const char *name = name_of(node);

	idl_error(types->pstate, idl_location(node), "%s%s%s", name ? name : "", name ? ": " : "",
		  why);
	types->failed = true;
}

static bool is_one_of(const char *name, const char *const *list)
{
	for (; *list; list++)
		if (strcmp(name, *list) == 0)
			return true;
	return false;
}

bool idl_annotations_known(struct idl_types *types, const void *node)
{
	static const char *const honoured[] = {"key",
					       "id",
					       "hashid",
					       "autoid",
					       "optional",
					       "final",
					       "appendable",
					       "mutable",
					       "extensibility",
					       "default",
					       "default_literal",
					       "external",
					       "must_understand",
					       "bit_bound",
					       "value",
					       "nested",
					       "default_nested",
					       "topic",
					       "position",
					       "unit",
					       "verbatim",
					       NULL};
	static const char *const ranges[] = {"min", "max", "range", NULL};
	const idl_annotation_appl_t *a;

	IDL_FOREACH(a, ((const idl_node_t *)node)->annotations)
	{
		const char *name = idl_identifier(a->annotation);

		if (is_one_of(name, honoured))
			continue;
		if (is_one_of(name, ranges)) {
			idl_warning(types->pstate, IDL_WARN_GENERIC, idl_location(node),
				    "@%s is not enforced", name);
			continue;
		}
		idl_refuse(types, node, idl_printf("@%s not supported", name));
		return false;
	}
	return true;
}
