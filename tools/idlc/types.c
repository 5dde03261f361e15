/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building descriptors: see types.h. A declared type is built when it is first met, its own parts
 * before it, so the list is in dependency order and recursion shows as a type met while building.
 */
#include "types.h"
#include "names.h"
#include "refuse.h"
#include <string.h>

/* apus_type_check() allows 16 levels below the topic type. */
#define DEPTH_MAX   16
#define MEMBERS_MAX 256
#define LABELS_MAX  4096
/* Members of a type with those of nested types at each place they have: what walks over it cost (choice). */
#define WEIGHT_MAX 65536

static struct idl_type_node *build_spec(struct idl_types *t, const void *spec, const void *where);

static struct idl_type_node *append(struct idl_types *t, struct idl_type_node *n)
{
	if (t->last)
		t->last->next = n;
	else
		t->first = n;
	t->last = n;
	return n;
}

static void remember(struct idl_types *t, struct idl_type_node *n)
{
	n->next_declared = t->declared;
	t->declared = n;
}

static struct idl_type_node *recall(const struct idl_types *t, const void *node)
{
	struct idl_type_node *n;

	for (n = t->declared; n && n->node != node; n = n->next_declared)
		;
	return n;
}

/* A type without a name of its own: it gets a number. */
static struct idl_type_node *add_anonymous(struct idl_types *t, enum apus_kind kind)
{
	struct idl_type_node *n = idl_zalloc(sizeof(*n));

	n->type.kind = (uint8_t)kind;
	n->symbol = idl_printf("type_%u", ++t->anonymous_count);
	return n;
}

static struct idl_type_node *predefined(struct idl_types *t, const struct apus_type *type,
					const char *symbol)
{
	struct idl_type_node *n;

	for (n = t->first; n; n = n->next)
		if (n->predefined && n->type.kind == type->kind)
			return n;
	n = idl_zalloc(sizeof(*n));
	n->type = *type;
	n->symbol = symbol;
	n->predefined = true;
	return append(t, n);
}

static struct idl_type_node *build_base(struct idl_types *t, const void *spec, const void *where)
{
	switch (idl_type(spec)) {
	case IDL_BOOL: return predefined(t, &apus_type_bool, "apus_type_bool");
	case IDL_OCTET: return predefined(t, &apus_type_octet, "apus_type_octet");
	case IDL_CHAR: return predefined(t, &apus_type_char, "apus_type_char");
	case IDL_INT8: return predefined(t, &apus_type_int8, "apus_type_int8");
	case IDL_UINT8: return predefined(t, &apus_type_uint8, "apus_type_uint8");
	case IDL_SHORT:
	case IDL_INT16: return predefined(t, &apus_type_int16, "apus_type_int16");
	case IDL_USHORT:
	case IDL_UINT16: return predefined(t, &apus_type_uint16, "apus_type_uint16");
	case IDL_LONG:
	case IDL_INT32: return predefined(t, &apus_type_int32, "apus_type_int32");
	case IDL_ULONG:
	case IDL_UINT32: return predefined(t, &apus_type_uint32, "apus_type_uint32");
	case IDL_LLONG:
	case IDL_INT64: return predefined(t, &apus_type_int64, "apus_type_int64");
	case IDL_ULLONG:
	case IDL_UINT64: return predefined(t, &apus_type_uint64, "apus_type_uint64");
	case IDL_FLOAT: return predefined(t, &apus_type_float32, "apus_type_float32");
	case IDL_DOUBLE: return predefined(t, &apus_type_float64, "apus_type_float64");
	default: idl_refuse(t, where, "type not supported"); return NULL;
	}
}

static struct idl_type_node *build_string(struct idl_types *t, const void *spec, const void *where)
{
	struct idl_type_node *n;

	if (!idl_is_bounded_string(spec))
		return predefined(t, &apus_type_string, "apus_type_string");
	if (idl_bound(spec) == 0 || idl_bound(spec) > INT32_MAX) {
		idl_refuse(t, where, "bound of a string not supported");
		return NULL;
	}
	n = add_anonymous(t, APUS_KIND_STRING);
	n->type.bound = idl_bound(spec);
	n->type.size_bytes = n->type.bound + 1;
	n->type.align_bytes = 1;
	return append(t, n);
}

static struct idl_type_node *build_sequence(struct idl_types *t, const void *spec,
					    const void *where)
{
	struct idl_type_node *element = build_spec(t, idl_type_spec(spec), where), *n;

	if (!element)
		return NULL;
	n = add_anonymous(t, APUS_KIND_SEQUENCE);
	n->type.bound = idl_is_bounded(spec) ? idl_bound(spec) : 0;
	n->type.element = &element->type;
	n->type.size_bytes = sizeof(struct apus_sequence);
	n->type.align_bytes = _Alignof(struct apus_sequence);
	n->depth = element->depth + 1;
	n->weight = element->weight;
	return append(t, n);
}

/* An array of what a typedef says is an array is one of more dimensions, as if written so. Interop: with
 * XCDR2 it has no DHEADER then if the innermost elements have none; Cyclone DDS 0.10.2 has it the same.
 * Returns the innermost element. */
static struct idl_type_node *append_dimensions(struct idl_types *t, struct idl_type_node *n,
					       struct idl_type_node *element, const void *where)
{
	if (element->type.kind != APUS_KIND_ARRAY)
		return element;
	for (uint32_t i = 0; i < element->dim_count; i++) {
		if (n->dim_count == IDL_DIMENSIONS_MAX) {
			idl_refuse(t, where, "more dimensions than supported");
			return NULL;
		}
		n->dims[n->dim_count++] = element->dims[i];
	}
	n->type.bound *= element->type.bound;
	return (struct idl_type_node *)(uintptr_t)idl_type_of(element->type.element);
}

/* The array a declarator makes of its type, or the type itself. */
static struct idl_type_node *build_array(struct idl_types *t, const idl_declarator_t *declarator,
					 struct idl_type_node *element)
{
	struct idl_type_node *n;
	const idl_literal_t *literal;
	uint64_t total = 1;

	if (!element || !declarator->const_expr)
		return element;
	n = add_anonymous(t, APUS_KIND_ARRAY);
	IDL_FOREACH(literal, declarator->const_expr)
	{
		if (n->dim_count == IDL_DIMENSIONS_MAX) {
			idl_refuse(t, declarator, "more dimensions than supported");
			return NULL;
		}
		n->dims[n->dim_count++] = literal->value.uint32;
		total *= literal->value.uint32;
		if (total == 0 || total * element->type.size_bytes > INT32_MAX) {
			idl_refuse(t, declarator, "size of the array not supported");
			return NULL;
		}
	}
	n->type.bound = (uint32_t)total;
	n->type.size_bytes = (uint32_t)(total * element->type.size_bytes);
	element = append_dimensions(t, n, element, declarator);
	if (!element)
		return NULL;
	if (n->dim_count > 1) {
		n->type.dims = n->dims;
		n->type.dim_count = n->dim_count;
	}
	n->type.element = &element->type;
	n->type.align_bytes = element->type.align_bytes;
	n->depth = element->depth + 1;
	n->weight = element->weight;
	return append(t, n);
}

/* ---- declared types ---- */

static struct idl_type_node *begin_declared(struct idl_types *t, const void *node,
					    enum apus_kind kind)
{
	struct idl_type_node *n = idl_zalloc(sizeof(*n));

	n->type.kind = (uint8_t)kind;
	n->type.name = idl_scoped_text(node, "::");
	n->node = node;
	n->c_name = idl_c_name(node);
	n->symbol = idl_printf("%s_type", n->c_name);
	n->foreign = !idl_in_main_file(t->pstate, node);
	return n;
}

static uint32_t mask_bytes(uint32_t bits)
{
	return bits <= 8 ? 1 : bits <= 16 ? 2 : bits <= 32 ? 4 : 8;
}

static struct idl_type_node *build_enum(struct idl_types *t, const idl_enum_t *node)
{
	struct idl_type_node *n = begin_declared(t, node, APUS_KIND_ENUM);
	uint32_t bits = node->bit_bound.annotation ? node->bit_bound.value : 32, i = 0;
	struct apus_label *labels;
	const idl_enumerator_t *e;

	if (bits > 32) {
		idl_refuse(t, node, "bit_bound above 32 not supported");
		return NULL;
	}
	if (idl_degree(node->enumerators) > LABELS_MAX) {
		idl_refuse(t, node, "more than 4096 labels not supported");
		return NULL;
	}
	labels = idl_zalloc(idl_degree(node->enumerators) * sizeof(*labels));
	IDL_FOREACH(e, node->enumerators)
	{
		if ((uint64_t)e->value.value >> (bits - 1)) {
			idl_refuse(t, e, "value does not fit the enum's bit_bound as signed");
			return NULL;
		}
		if (e == node->default_enumerator)
			n->type.default_label = i;
		labels[i].name = idl_identifier(e);
		labels[i++].value = (int32_t)e->value.value;
	}
	n->type.bit_bound = bits == 32 ? 0 : (uint8_t)bits;
	n->type.labels = labels;
	n->type.label_count = i;
	n->type.size_bytes = n->type.align_bytes = mask_bytes(bits);
	return append(t, n);
}

static struct idl_type_node *build_bitmask(struct idl_types *t, const idl_bitmask_t *node)
{
	struct idl_type_node *n = begin_declared(t, node, APUS_KIND_BITMASK);
	struct apus_label *labels = idl_zalloc(idl_degree(node->bit_values) * sizeof(*labels));
	const idl_bit_value_t *bit;
	uint32_t i = 0;

	IDL_FOREACH(bit, node->bit_values)
	{
		labels[i].name = idl_identifier(bit);
		labels[i++].value = bit->position.value;
	}
	n->type.bit_bound = (uint8_t)(node->bit_bound.annotation ? node->bit_bound.value : 32);
	n->type.labels = labels;
	n->type.label_count = i;
	n->type.size_bytes = n->type.align_bytes = mask_bytes(n->type.bit_bound);
	return append(t, n);
}

static uint32_t round_up(uint32_t offset, uint32_t align)
{
	return (offset + align - 1) & ~(align - 1);
}

/* Puts a member where the C compiler will. Returns its end. */
static uint64_t place(struct idl_type_node *n, struct apus_member *m, uint32_t from)
{
	const bool held = m->optional || m->external;
	uint32_t align = held ? _Alignof(void *) : m->type->align_bytes;
	uint32_t bytes = held ? sizeof(void *) : m->type->size_bytes;

	m->offset_bytes = round_up(from, align);
	if (n->type.align_bytes < align)
		n->type.align_bytes = align;
	return (uint64_t)m->offset_bytes + bytes;
}

static bool is_key_kind(const struct apus_type *type)
{
	bool any = false;

	switch (type->kind) {
	case APUS_KIND_ARRAY: return type->element->kind <= APUS_KIND_BITMASK;
	case APUS_KIND_SEQUENCE:
	case APUS_KIND_UNION: return false;
	case APUS_KIND_STRUCT:
		for (uint32_t i = 0; i < type->member_count; i++)
			any |= type->members[i].key;
		for (uint32_t i = 0; i < type->member_count; i++)
			if ((!any || type->members[i].key) &&
			    (type->members[i].optional || !is_key_kind(type->members[i].type)))
				return false;
		return true;
	default: return true;
	}
}

/* The image of a default string: the characters themselves, or a pointer to them. */
static const void *default_string(struct idl_types *t, const struct apus_type *type,
				  const idl_literal_t *literal)
{
	const char *text = literal->value.str;
	char **held, *image;

	if (idl_type(literal) != IDL_STRING || (type->bound && strlen(text) > type->bound)) {
		idl_refuse(t, literal, "@default does not fit the string");
		return NULL;
	}
	if (type->bound) {
		image = idl_zalloc(type->size_bytes);
		memcpy(image, text, strlen(text));
		return image;
	}
	held = idl_zalloc(sizeof(*held));
	*held = idl_printf("%s", text);
	return held;
}

/* The image of a default value, as wide as the type. */
static const void *default_image(struct idl_types *t, const struct apus_type *type,
				 const idl_literal_t *literal)
{
	void *image;

	if (type->kind == APUS_KIND_STRING)
		return default_string(t, type, literal);
	if (type->kind > APUS_KIND_FLOAT64) {
		idl_refuse(t, literal,
			   "@default is supported for primitive types and strings only");
		return NULL;
	}
	image = idl_zalloc(8);
	memcpy(image, &literal->value, type->size_bytes);
	return image;
}

static bool build_member(struct idl_types *t, const idl_member_t *member,
			 const idl_declarator_t *declarator, struct idl_type_node *spec,
			 struct apus_member *out)
{
	struct idl_type_node *type = build_array(t, declarator, spec);

	if (!type)
		return false;
	*out = (struct apus_member){
		.name = idl_identifier(declarator),
		.type = &type->type,
		.id = declarator->id.value,
		.key = member->key.value,
		.optional = member->optional.value,
		.external = member->external.value,
		.must_understand = member->must_understand.value,
	};
	if (out->key && (out->optional || !is_key_kind(out->type))) {
		idl_refuse(t, declarator, "type of a key member not supported");
		return false;
	}
	if (member->value.annotation && !out->optional)
		out->default_value = default_image(t, out->type, member->value.value);
	return !t->failed;
}

/* Adds what a member's type means for its object. */
static bool count_weight(struct idl_types *t, struct idl_type_node *n,
			 const struct idl_type_node *member)
{
	if (n->depth <= member->depth)
		n->depth = member->depth + 1;
	n->weight += 1 + member->weight;
	if (n->weight <= WEIGHT_MAX)
		return true;
	idl_refuse(t, n->node, "more than 65536 members with those of nested types not supported");
	return false;
}

/* Number of members of a struct, those of its bases included. */
static uint32_t count_members(const idl_struct_t *node)
{
	uint32_t count = 0;
	const idl_member_t *member;

	for (; node; node = node->inherit_spec ? node->inherit_spec->base : NULL)
		IDL_FOREACH(member, node->members)
	count += (uint32_t)idl_degree(member->declarators);
	return count;
}

/* The members of a struct behind those of its base, laid out as C does. */
static bool build_members(struct idl_types *t, const idl_struct_t *node, struct idl_type_node *n,
			  struct apus_member *members, uint64_t *end)
{
	const idl_declarator_t *declarator;
	const idl_member_t *member;
	struct idl_type_node *spec;

	if (node->inherit_spec && !build_members(t, node->inherit_spec->base, n, members, end))
		return false;
	IDL_FOREACH(member, node->members)
	{
		if (!idl_annotations_known(t, member) ||
		    !(spec = build_spec(t, member->type_spec, member->declarators)))
			return false;
		IDL_FOREACH(declarator, member->declarators)
		{
			struct apus_member *m = &members[n->type.member_count];

			if (!build_member(t, member, declarator, spec, m))
				return false;
			*end = place(n, m, (uint32_t)*end);
			if (*end > INT32_MAX) {
				idl_refuse(t, declarator, "the type is too large");
				return false;
			}
			if (!count_weight(t, n, idl_type_of(m->type)))
				return false;
			n->type.member_count++;
		}
	}
	return true;
}

static bool limits_kept(struct idl_types *t, const void *node, const struct idl_type_node *n,
			uint32_t member_count)
{
	if (member_count == 0)
		idl_refuse(t, node, "no members");
	else if (member_count > MEMBERS_MAX)
		idl_refuse(t, node, "more than 256 members not supported");
	else if (n->depth > DEPTH_MAX)
		idl_refuse(t, node, "nested deeper than supported");
	return !t->failed;
}

/* A fixed layout is marked where the library itself confirms it. */
static void mark_plain(struct apus_type *type)
{
	type->plain_xcdr1 = true;
	if (apus_type_check(type))
		type->plain_xcdr1 = false;
	type->plain_xcdr2 = true;
	if (apus_type_check(type))
		type->plain_xcdr2 = false;
}

/* The steps of a topic type under a representation; NULL where there is no use for any. */
static const struct apus_op *make_program(const struct apus_type *type, int representation)
{
	struct apus_op *ops = idl_zalloc(APUS_OPS_MAX * sizeof(*ops));

	return apus_type_program(type, representation, ops) ? ops : NULL;
}

static struct idl_type_node *build_struct(struct idl_types *t, const idl_struct_t *node)
{
	struct idl_type_node *n = begin_declared(t, node, APUS_KIND_STRUCT);
	uint32_t count = count_members(node);
	struct apus_member *members;
	uint64_t end = 0;

	if (!limits_kept(t, node, n, count))
		return NULL;
	if (node->keylist) {
		idl_refuse(t, node, "#pragma keylist not supported, mark members with @key");
		return NULL;
	}
	n->building = true;
	remember(t, n);
	members = idl_zalloc(count * sizeof(*members));
	n->type.members = members;
	n->type.extensibility = (uint8_t)node->extensibility.value;
	n->topic = !node->nested.value;
	if (!build_members(t, node, n, members, &end) || !limits_kept(t, node, n, count))
		return NULL;
	n->type.size_bytes = round_up((uint32_t)end, n->type.align_bytes);
	n->building = false;
	if (apus_type_check(&n->type)) {
		idl_refuse(t, node, "not a type Apus can handle");
		return NULL;
	}
	mark_plain(&n->type);
	if (n->topic) {
		n->type.ops_xcdr1 = make_program(&n->type, APUS_XCDR1);
		n->type.ops_xcdr2 = make_program(&n->type, APUS_XCDR2);
	}
	return append(t, n);
}

static bool build_labels(struct idl_types *t, const idl_case_t *node, struct apus_member *m)
{
	int64_t *values = idl_zalloc(idl_degree(node->labels) * sizeof(*values));
	const idl_case_label_t *label;

	IDL_FOREACH(label, node->labels)
	{
		if (idl_mask(label) == IDL_DEFAULT_CASE_LABEL)
			m->is_default = true;
		else
			values[m->case_count++] = idl_case_label_intvalue(label);
	}
	m->cases = m->case_count ? values : NULL;
	return !t->failed;
}

static bool build_case(struct idl_types *t, const idl_case_t *node, struct idl_type_node *n,
		       struct apus_member *m)
{
	struct idl_type_node *type;

	if (!idl_annotations_known(t, node))
		return false;
	type = build_array(t, node->declarator, build_spec(t, node->type_spec, node->declarator));
	if (!type)
		return false;
	*m = (struct apus_member){.name = idl_identifier(node->declarator),
				  .type = &type->type,
				  .id = n->type.member_count + 1,
				  .external = node->external.value};
	return count_weight(t, n, type) && build_labels(t, node, m);
}

/* The cases share one place: behind the discriminator, aligned for the strictest of them. */
static bool place_cases(struct idl_types *t, struct idl_type_node *n, struct apus_member *members)
{
	uint64_t end = 0;
	uint32_t start;

	n->type.align_bytes = 1;
	for (uint32_t i = 0; i < n->type.member_count; i++)
		place(n, &members[i], 0);
	start = round_up(n->type.element->size_bytes, n->type.align_bytes);
	if (n->type.align_bytes < n->type.element->align_bytes)
		n->type.align_bytes = n->type.element->align_bytes;
	for (uint32_t i = 0; i < n->type.member_count; i++) {
		uint64_t member_end = place(n, &members[i], start);

		if (member_end > end)
			end = member_end;
	}
	if (end > INT32_MAX) {
		idl_refuse(t, n->node, "the type is too large");
		return false;
	}
	n->type.size_bytes = round_up((uint32_t)end, n->type.align_bytes);
	return true;
}

static struct idl_type_node *build_union(struct idl_types *t, const idl_union_t *node)
{
	struct idl_type_node *n = begin_declared(t, node, APUS_KIND_UNION), *discriminator;
	uint32_t count = (uint32_t)idl_degree(node->cases);
	struct apus_member *members;
	const idl_case_t *c;

	if (!limits_kept(t, node, n, count))
		return NULL;
	if (node->extensibility.value == IDL_MUTABLE || node->switch_type_spec->key.value) {
		idl_refuse(t, node,
			   node->switch_type_spec->key.value
				   ? "@key on a discriminator not supported"
				   : "mutable unions not supported");
		return NULL;
	}
	n->building = true;
	remember(t, n);
	discriminator = build_spec(t, node->switch_type_spec->type_spec, node);
	if (!discriminator)
		return NULL;
	members = idl_zalloc(count * sizeof(*members));
	n->type.extensibility = (uint8_t)node->extensibility.value;
	n->type.element = &discriminator->type;
	n->type.members = members;
	n->depth = 1;
	IDL_FOREACH(c, node->cases)
	{
		if (!build_case(t, c, n, &members[n->type.member_count]))
			return NULL;
		n->type.member_count++;
	}
	if (!place_cases(t, n, members) || !limits_kept(t, node, n, count))
		return NULL;
	n->building = false;
	return append(t, n);
}

static struct idl_type_node *build_declared(struct idl_types *t, const void *node)
{
	struct idl_type_node *n = recall(t, node);

	if (n) {
		if (!n->building)
			return n;
		idl_refuse(t, node, "recursive types not supported");
		return NULL;
	}
	if (!idl_annotations_known(t, node))
		return NULL;
	n = idl_is_struct(node)  ? build_struct(t, node)
	    : idl_is_union(node) ? build_union(t, node)
	    : idl_is_enum(node)  ? build_enum(t, node)
				 : build_bitmask(t, node);
	if (n && !recall(t, node))
		remember(t, n);
	return n;
}

/* A type as a member or element names it. where: the declaration to report errors at. */
static struct idl_type_node *build_spec(struct idl_types *t, const void *spec, const void *where)
{
	if (idl_is_forward(spec))
		spec = ((const idl_forward_t *)spec)->type_spec;
	if (!spec) {
		idl_refuse(t, where, "type is declared but not defined");
		return NULL;
	}
	if (idl_is_declarator(spec)) /* the name a typedef gives */
		return build_array(t, spec, build_spec(t, idl_type_spec(spec), where));
	if (idl_is_struct(spec) || idl_is_union(spec) || idl_is_enum(spec) || idl_is_bitmask(spec))
		return build_declared(t, spec);
	if (idl_is_sequence(spec))
		return build_sequence(t, spec, where);
	if (idl_is_string(spec))
		return build_string(t, spec, where);
	return build_base(t, spec, where);
}

static bool build_definitions(struct idl_types *t, const void *list)
{
	const idl_node_t *node;
	const idl_declarator_t *declarator;

	IDL_FOREACH(node, list)
	{
		if (idl_is_module(node)) {
			if (!idl_annotations_known(t, node) ||
			    !build_definitions(t, ((const idl_module_t *)node)->definitions))
				return false;
		} else if (idl_is_typedef(node)) {
			IDL_FOREACH(declarator, ((const idl_typedef_t *)node)->declarators)
			if (!build_spec(t, declarator, declarator))
				return false;
		} else if (!idl_is_forward(node) && idl_is_constr_type(node)) {
			if (!build_declared(t, node))
				return false;
		}
	}
	return true;
}

bool idl_types_build(struct idl_types *types, const idl_pstate_t *pstate)
{
	*types = (struct idl_types){.pstate = pstate};
	return build_definitions(types, pstate->root) && !types->failed;
}

const struct apus_type *idl_types_find(const struct idl_types *types, const char *name)
{
	for (const struct idl_type_node *n = types->first; n; n = n->next)
		if (n->type.kind == APUS_KIND_STRUCT && strcmp(n->type.name, name) == 0)
			return &n->type;
	return NULL;
}

const struct idl_type_node *idl_types_of_node(const struct idl_types *types, const void *node)
{
	for (const struct idl_type_node *n = types->first; n; n = n->next)
		if (n->node == node)
			return n;
	return NULL;
}
