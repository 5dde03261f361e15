/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source file: one descriptor a type, in dependency order. Sizes and offsets are left to the C
 * compiler; what was computed while building is asserted against them.
 */
#include "names.h"
#include "print.h"
#include <inttypes.h>
#include <string.h>

static const char *const kinds[] = {
	[APUS_KIND_BOOL] = "BOOL",       [APUS_KIND_OCTET] = "OCTET",
	[APUS_KIND_CHAR] = "CHAR",       [APUS_KIND_INT8] = "INT8",
	[APUS_KIND_UINT8] = "UINT8",     [APUS_KIND_INT16] = "INT16",
	[APUS_KIND_UINT16] = "UINT16",   [APUS_KIND_INT32] = "INT32",
	[APUS_KIND_UINT32] = "UINT32",   [APUS_KIND_INT64] = "INT64",
	[APUS_KIND_UINT64] = "UINT64",   [APUS_KIND_FLOAT32] = "FLOAT32",
	[APUS_KIND_FLOAT64] = "FLOAT64", [APUS_KIND_ENUM] = "ENUM",
	[APUS_KIND_BITMASK] = "BITMASK", [APUS_KIND_STRING] = "STRING",
	[APUS_KIND_ARRAY] = "ARRAY",     [APUS_KIND_SEQUENCE] = "SEQUENCE",
	[APUS_KIND_STRUCT] = "STRUCT",   [APUS_KIND_UNION] = "UNION",
};

static const char *const extensibilities[] = {"APUS_FINAL", "APUS_APPENDABLE", "APUS_MUTABLE"};

static void mark_used(struct idl_types *t)
{
	struct idl_type_node *n;
	bool again = true;

	for (n = t->first; n; n = n->next)
		n->used = n->node && !n->foreign;
	/* The list is in dependency order, so one pass from behind would do; passes are cheap. */
	while (again) {
		again = false;
		for (n = t->first; n; n = n->next) {
			const struct apus_type *type = &n->type;

			if (!n->used || n->foreign)
				continue;
			for (uint32_t i = 0; i <= type->member_count; i++) {
				const struct apus_type *part = i < type->member_count
								       ? type->members[i].type
								       : type->element;

				if (part && !idl_type_of(part)->used) {
					((struct idl_type_node *)(void *)part)->used = true;
					again = true;
				}
			}
		}
	}
}

static void print_labels(FILE *out, const struct idl_type_node *n)
{
	fprintf(out, "\nstatic const struct apus_label %s_labels[] = {\n", n->symbol);
	for (uint32_t i = 0; i < n->type.label_count; i++)
		fprintf(out, "\t{\"%s\", %" PRId32 "},\n", n->type.labels[i].name,
			n->type.labels[i].value);
	fputs("};\n", out);
}

static void print_int64(FILE *out, int64_t value)
{
	if (value == INT64_MIN)
		fputs("INT64_MIN", out);
	else
		fprintf(out, "INT64_C(%" PRId64 ")", value);
}

/* A default of any whole-number kind; the cast says that the bits are meant as they are. */
static void print_number_default(FILE *out, const struct idl_type_node *n, uint32_t i)
{
	const struct apus_member *m = &n->type.members[i];
	const char *type = idl_c_type(m->type).before; /* ends with a space */
	uint64_t bits = 0;

	for (uint32_t k = m->type->size_bytes; k > 0; k--)
		bits = bits << 8 | ((const uint8_t *)m->default_value)[k - 1];
	fprintf(out, "\nstatic const %s%s_default_%" PRIu32 " = (%.*s)UINT64_C(0x%" PRIx64 ");\n",
		type, n->symbol, i, (int)strlen(type) - 1, type, bits);
}

/* Case values and defaults: constants the members point to. */
static void print_member_constants(FILE *out, const struct idl_type_node *n, uint32_t i)
{
	const struct apus_member *m = &n->type.members[i];

	if (m->case_count) {
		fprintf(out, "\nstatic const int64_t %s_cases_%" PRIu32 "[] = {", n->symbol, i);
		for (uint32_t j = 0; j < m->case_count; j++) {
			fputs(j ? ", " : "", out);
			print_int64(out, m->cases[j]);
		}
		fputs("};\n", out);
	}
	if (!m->default_value)
		return;
	if (m->type->kind == APUS_KIND_STRING) {
		fprintf(out, "\nstatic const char %s%s_default_%" PRIu32,
			m->type->bound ? "" : "*const ", n->symbol, i);
		if (m->type->bound)
			fprintf(out, "[%" PRIu32 "]", m->type->size_bytes);
		fputs(" = ", out);
		idl_print_text(out, m->type->bound ? (const char *)m->default_value
						   : *(const char *const *)m->default_value);
		fputs(";\n", out);
		return;
	}
	if (m->type->kind == APUS_KIND_FLOAT32)
		fprintf(out, "\nstatic const float %s_default_%" PRIu32 " = %af;\n", n->symbol, i,
			(double)*(const float *)m->default_value);
	else if (m->type->kind == APUS_KIND_FLOAT64)
		fprintf(out, "\nstatic const double %s_default_%" PRIu32 " = %a;\n", n->symbol, i,
			*(const double *)m->default_value);
	else
		print_number_default(out, n, i);
}

static void print_member(FILE *out, const struct idl_type_node *n, uint32_t i)
{
	const struct apus_member *m = &n->type.members[i];

	fprintf(out,
		"\t{.name = \"%s\", .type = &%s, .offset_bytes = offsetof(struct %s, %s%s), "
		".id = %" PRIu32,
		m->name, idl_type_of(m->type)->symbol, n->c_name,
		n->type.kind == APUS_KIND_UNION ? "_u." : "", idl_c_identifier(m->name), m->id);
	if (m->key)
		fputs(", .key = true", out);
	if (m->optional)
		fputs(", .optional = true", out);
	if (m->external)
		fputs(", .external = true", out);
	if (m->must_understand)
		fputs(", .must_understand = true", out);
	if (m->is_default)
		fputs(", .is_default = true", out);
	if (m->case_count)
		fprintf(out, ", .case_count = %" PRIu32 ", .cases = %s_cases_%" PRIu32,
			m->case_count, n->symbol, i);
	if (m->default_value)
		fprintf(out, ", .default_value = &%s_default_%" PRIu32, n->symbol, i);
	fputs("},\n", out);
}

static void print_members(FILE *out, const struct idl_type_node *n)
{
	for (uint32_t i = 0; i < n->type.member_count; i++)
		print_member_constants(out, n, i);
	fprintf(out, "\nstatic const struct apus_member %s_members[] = {\n", n->symbol);
	for (uint32_t i = 0; i < n->type.member_count; i++)
		print_member(out, n, i);
	fputs("};\n", out);
}

static void print_bytes(FILE *out, const struct idl_type_node *n, const char *what,
			const unsigned char *bytes, size_t count)
{
	fprintf(out, "\nstatic const uint8_t %s_%s[] = {", n->symbol, what);
	for (size_t i = 0; i < count; i++)
		fprintf(out, "%s0x%02x,", i % 16 ? " " : "\n\t", bytes[i]);
	fputs("\n};\n", out);
}

/* Type information of a topic type, from the front end's own generator. */
static bool print_information(FILE *out, struct idl_types *t, const struct idl_type_node *n,
			      const idlc_generator_config_t *config, bool *printed_out)
{
	idl_typeinfo_typemap_t made = {0};

	*printed_out = false;
	if (n->type.kind != APUS_KIND_STRUCT || !n->topic || !config->generate_type_info ||
	    !config->generate_typeinfo_typemap)
		return true;
	if (config->generate_typeinfo_typemap(t->pstate, n->node, &made) != IDL_RETCODE_OK)
		return false;
	print_bytes(out, n, "information", made.typeinfo, made.typeinfo_size);
	print_bytes(out, n, "mapping", made.typemap, made.typemap_size);
	*printed_out = true;
	return true;
}

/* The program of a topic type, as steps; offsets are this host's, see print_program_use(). */
static void print_program(FILE *out, const struct idl_type_node *n, const struct apus_op *op,
			  int version)
{
	static const char *const codes[] = {
		[APUS_OP_END] = "END",         [APUS_OP_COPY] = "COPY",
		[APUS_OP_BOOLS] = "BOOLS",     [APUS_OP_STRING] = "STRING",
		[APUS_OP_NUMBERS] = "NUMBERS", [APUS_OP_SEQUENCE] = "SEQUENCE",
		[APUS_OP_ARRAY] = "ARRAY",     [APUS_OP_NEXT] = "NEXT",
		[APUS_OP_OBJECT] = "OBJECT",   [APUS_OP_OBJECT_END] = "OBJECT_END",
		[APUS_OP_MEMBER] = "MEMBER",
	};

	if (!op)
		return;
	fprintf(out, "\nstatic const struct apus_op %s_ops%d[] = {\n", n->symbol, version);
	for (;; op++) {
		fprintf(out, "\t{APUS_OP_%s, %u, %u, %u, %u, %" PRIu32 ", %" PRIu32 ", %" PRIu32,
			codes[op->code], op->align, op->dheader, op->index, op->skip,
			op->offset_bytes, op->bytes, op->size);
		if (op->parent)
			fprintf(out, ", &%s},\n", idl_type_of(op->parent)->symbol);
		else
			fputs(", NULL},\n", out);
		if (op->code == APUS_OP_END)
			break;
	}
	fputs("};\n", out);
}

/* Programs were laid out for this host: elsewhere the type does without, and apus_type_check() makes
 * sure. */
static void print_program_use(FILE *out, const struct idl_type_node *n, const struct apus_op *op,
			      int version)
{
	if (op)
		fprintf(out,
			"\t.ops_xcdr%d = sizeof(struct %s) == %" PRIu32 " && sizeof(void *) == %zu "
			"? %s_ops%d : NULL,\n",
			version, n->c_name, n->type.size_bytes, sizeof(void *), n->symbol, version);
}

static void print_c_type(FILE *out, const struct apus_type *type)
{
	struct idl_c_type c = idl_c_type(type);
	size_t length = strlen(c.before);

	while (length && c.before[length - 1] == ' ')
		length--;
	fprintf(out, "%.*s%s", (int)length, c.before, c.behind);
}

static void print_descriptor(FILE *out, const struct idl_type_node *n, bool informed)
{
	const struct apus_type *type = &n->type, *aligned = type;

	fprintf(out, "\n%sconst struct apus_type %s = {\n", n->node ? "" : "static ", n->symbol);
	if (type->name)
		fprintf(out, "\t.name = \"%s\",\n", type->name);
	fprintf(out, "\t.kind = APUS_KIND_%s,\n", kinds[type->kind]);
	if (type->kind == APUS_KIND_STRUCT || type->kind == APUS_KIND_UNION)
		fprintf(out, "\t.extensibility = %s,\n", extensibilities[type->extensibility]);
	if (type->bit_bound)
		fprintf(out, "\t.bit_bound = %u,\n", type->bit_bound);
	fputs("\t.size_bytes = sizeof(", out);
	print_c_type(out, type);
	while (aligned->kind == APUS_KIND_ARRAY)
		aligned = aligned->element;
	fputs("),\n\t.align_bytes = _Alignof(", out);
	if (aligned->kind == APUS_KIND_STRING && aligned->bound)
		fputs("char", out);
	else
		print_c_type(out, aligned);
	fputs("),\n", out);
	if (type->bound)
		fprintf(out, "\t.bound = %" PRIu32 ",\n", type->bound);
	if (type->element)
		fprintf(out, "\t.element = &%s,\n", idl_type_of(type->element)->symbol);
	if (type->member_count)
		fprintf(out, "\t.members = %s_members,\n\t.member_count = %" PRIu32 ",\n",
			n->symbol, type->member_count);
	if (type->label_count)
		fprintf(out, "\t.labels = %s_labels,\n\t.label_count = %" PRIu32 ",\n", n->symbol,
			type->label_count);
	if (type->default_label)
		fprintf(out, "\t.default_label = %" PRIu32 ",\n", type->default_label);
	if (type->plain_xcdr1 || type->plain_xcdr2)
		fputs("#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__\n", out);
	if (type->plain_xcdr1)
		fprintf(out, "\t.plain_xcdr1 = sizeof(struct %s) == %" PRIu32 ",\n", n->c_name,
			type->size_bytes);
	if (type->plain_xcdr2)
		fprintf(out, "\t.plain_xcdr2 = sizeof(struct %s) == %" PRIu32 ",\n", n->c_name,
			type->size_bytes);
	if (type->plain_xcdr1 || type->plain_xcdr2)
		fputs("#endif\n", out);
	print_program_use(out, n, type->ops_xcdr1, 1);
	print_program_use(out, n, type->ops_xcdr2, 2);
	if (type->dim_count) {
		fputs("\t.dims = (const uint32_t[]){", out);
		for (uint32_t i = 0; i < type->dim_count; i++)
			fprintf(out, "%s%" PRIu32, i ? ", " : "", type->dims[i]);
		fprintf(out, "},\n\t.dim_count = %" PRIu32 ",\n", type->dim_count);
	}
	if (informed)
		fprintf(out,
			"\t.type_information = %s_information,\n\t.type_mapping = %s_mapping,\n"
			"\t.type_information_bytes = sizeof(%s_information),\n"
			"\t.type_mapping_bytes = sizeof(%s_mapping),\n",
			n->symbol, n->symbol, n->symbol, n->symbol);
	fputs("};\n", out);
}

bool idl_print_source(FILE *out, struct idl_types *types, const char *header,
		      const idlc_generator_config_t *config)
{
	const struct idl_type_node *n;
	bool informed;

	mark_used(types);
	fprintf(out,
		"/* Made from IDL by the Apus back-end of idlc. Do not edit. */\n#include \"%s\"\n",
		header);
	for (n = types->first; n; n = n->next) {
		if (!n->used || n->foreign || n->predefined)
			continue;
		if (n->type.label_count)
			print_labels(out, n);
		if (n->type.member_count)
			print_members(out, n);
		if (!print_information(out, types, n, config, &informed))
			return false;
		print_program(out, n, n->type.ops_xcdr1, 1);
		print_program(out, n, n->type.ops_xcdr2, 2);
		print_descriptor(out, n, informed);
	}
	return true;
}
