/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header: constants, enumerations and structs in the order of the IDL file, then the
 * descriptors' declarations. In-memory shapes are those of <apus/type.h>.
 */
#include "names.h"
#include "print.h"
#include <inttypes.h>
#include <string.h>

static const char *const scalar_types[] = {
	[APUS_KIND_BOOL] = "bool",       [APUS_KIND_OCTET] = "uint8_t",
	[APUS_KIND_CHAR] = "char",       [APUS_KIND_INT8] = "int8_t",
	[APUS_KIND_UINT8] = "uint8_t",   [APUS_KIND_INT16] = "int16_t",
	[APUS_KIND_UINT16] = "uint16_t", [APUS_KIND_INT32] = "int32_t",
	[APUS_KIND_UINT32] = "uint32_t", [APUS_KIND_INT64] = "int64_t",
	[APUS_KIND_UINT64] = "uint64_t", [APUS_KIND_FLOAT32] = "float",
	[APUS_KIND_FLOAT64] = "double",
};

struct idl_c_type idl_c_type(const struct apus_type *type)
{
	const struct idl_type_node *n = idl_type_of(type);
	struct idl_c_type c = {"", ""};

	switch (type->kind) {
	case APUS_KIND_ENUM: c.before = idl_printf("int%u_t ", type->size_bytes * 8); break;
	case APUS_KIND_BITMASK: c.before = idl_printf("uint%u_t ", type->size_bytes * 8); break;
	case APUS_KIND_STRING:
		c.before = type->bound ? "char " : "char *";
		if (type->bound)
			c.behind = idl_printf("[%" PRIu32 " + 1]", type->bound);
		break;
	case APUS_KIND_SEQUENCE: c.before = "struct apus_sequence "; break;
	case APUS_KIND_STRUCT: c.before = idl_printf("struct %s ", n->c_name); break;
	case APUS_KIND_UNION: c.before = idl_printf("struct %s ", n->c_name); break;
	case APUS_KIND_ARRAY:
		c = idl_c_type(type->element);
		for (uint32_t i = n->dim_count; i-- > 0;)
			c.behind = idl_printf("[%" PRIu32 "]%s", n->dims[i], c.behind);
		break;
	default: c.before = idl_printf("%s ", scalar_types[type->kind]);
	}
	return c;
}

/* What a reader of the header cannot see from the C type. */
static const char *describe(const struct apus_type *type)
{
	const struct idl_type_node *n = idl_type_of(type);

	switch (type->kind) {
	case APUS_KIND_ENUM:
	case APUS_KIND_BITMASK: return n->c_name;
	case APUS_KIND_SEQUENCE: {
		struct idl_c_type c = idl_c_type(type->element);
		size_t length = strlen(c.before);

		while (length && c.before[length - 1] == ' ')
			length--;
		return type->bound ? idl_printf("of %.*s%s, at most %" PRIu32, (int)length,
						c.before, c.behind, type->bound)
				   : idl_printf("of %.*s%s", (int)length, c.before, c.behind);
	}
	default: return NULL;
	}
}

static void print_member(FILE *out, const struct apus_member *m, const char *indent)
{
	struct idl_c_type c = idl_c_type(m->type);
	const bool open_string = m->type->kind == APUS_KIND_STRING && !m->type->bound;
	const bool held = (m->optional || m->external) && !open_string;
	const char *name = idl_c_identifier(m->name), *note = describe(m->type);

	if (held && *c.behind)
		fprintf(out, "%s%s(*%s)%s;", indent, c.before, name, c.behind);
	else
		fprintf(out, "%s%s%s%s%s;", indent, c.before, held ? "*" : "", name, c.behind);
	if (note || m->optional)
		fprintf(out, " /* %s%s%s */", m->optional ? "optional" : "",
			note && m->optional ? ", " : "", note ? note : "");
	fputc('\n', out);
}

static void print_struct(FILE *out, const struct idl_type_node *n)
{
	fprintf(out, "\n/* %s */\nstruct %s {\n", n->type.name, n->c_name);
	for (uint32_t i = 0; i < n->type.member_count; i++)
		print_member(out, &n->type.members[i], "\t");
	fputs("};\n", out);
}

static void print_union(FILE *out, const struct idl_type_node *n)
{
	struct apus_member discriminator = {.name = "_d", .type = n->type.element};

	fprintf(out, "\n/* %s */\nstruct %s {\n", n->type.name, n->c_name);
	print_member(out, &discriminator, "\t");
	fputs("\tunion {\n", out);
	for (uint32_t i = 0; i < n->type.member_count; i++)
		print_member(out, &n->type.members[i], "\t\t");
	fputs("\t} _u;\n};\n", out);
}

static void print_enum(FILE *out, const idl_enum_t *node)
{
	const idl_enumerator_t *e;

	fprintf(out, "\nenum %s {\n", idl_c_name(node));
	IDL_FOREACH(e, node->enumerators)
	fprintf(out, "\t%s = %" PRIu32 ",\n", idl_c_name(e), e->value.value);
	fputs("};\n", out);
}

static void print_bitmask(FILE *out, const idl_bitmask_t *node, const struct idl_type_node *n)
{
	const idl_bit_value_t *bit;

	fputc('\n', out);
	IDL_FOREACH(bit, node->bit_values)
	fprintf(out, "#define %s_%s (UINT%" PRIu32 "_C(1) << %u)\n", n->c_name, idl_identifier(bit),
		n->type.size_bytes * 8, bit->position.value);
}

void idl_print_text(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		/* Two question marks may begin a trigraph. */
		if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\' || (c == '?' && text[1] == '?'))
			fprintf(out, "\\%03o", c);
		else
			fputc(c, out);
	}
	fputc('"', out);
}

/* A floating-point constant, never one that reads as an integer: "3" would divide as one, "3f" is none. */
static void print_number(FILE *out, double value, int digits, const char *suffix)
{
	char text[40];

	snprintf(text, sizeof(text), "%.*g", digits, value);
	fprintf(out, "%s%s%s", text, strpbrk(text, ".e") ? "" : ".0", suffix);
}

static void print_literal(FILE *out, const idl_literal_t *literal)
{
	switch (idl_type(literal)) {
	case IDL_BOOL: fputs(literal->value.bln ? "true" : "false", out); break;
	case IDL_CHAR: fprintf(out, "'\\%03o'", (unsigned char)literal->value.chr); break;
	case IDL_OCTET:
	case IDL_UINT8: fprintf(out, "%" PRIu8, literal->value.uint8); break;
	case IDL_INT8: fprintf(out, "(%" PRId8 ")", literal->value.int8); break;
	case IDL_SHORT:
	case IDL_INT16: fprintf(out, "(%" PRId16 ")", literal->value.int16); break;
	case IDL_USHORT:
	case IDL_UINT16: fprintf(out, "%" PRIu16, literal->value.uint16); break;
	case IDL_LONG:
	case IDL_INT32:
		fprintf(out, "((int32_t)INT64_C(%" PRId32 "))", literal->value.int32);
		break;
	case IDL_ULONG:
	case IDL_UINT32: fprintf(out, "UINT32_C(%" PRIu32 ")", literal->value.uint32); break;
	case IDL_LLONG:
	case IDL_INT64:
		if (literal->value.int64 == INT64_MIN)
			fputs("INT64_MIN", out);
		else
			fprintf(out, "INT64_C(%" PRId64 ")", literal->value.int64);
		break;
	case IDL_ULLONG:
	case IDL_UINT64: fprintf(out, "UINT64_C(%" PRIu64 ")", literal->value.uint64); break;
	case IDL_FLOAT: print_number(out, (double)literal->value.flt, 9, "f"); break;
	case IDL_DOUBLE: print_number(out, literal->value.dbl, 17, ""); break;
	case IDL_STRING: idl_print_text(out, literal->value.str); break;
	default: break;
	}
}

static void print_const(FILE *out, const idl_const_t *node)
{
	fprintf(out, "\n#define %s ", idl_c_name(node));
	if (idl_is_enumerator(node->const_expr))
		fputs(idl_c_name(node->const_expr), out);
	else
		print_literal(out, node->const_expr);
	fputc('\n', out);
}

static void print_definitions(FILE *out, struct idl_types *t, const void *list)
{
	const idl_node_t *node;

	IDL_FOREACH(node, list)
	{
		const struct idl_type_node *n = idl_types_of_node(t, node);

		if (idl_is_module(node))
			print_definitions(out, t, ((const idl_module_t *)node)->definitions);
		else if (!idl_in_main_file(t->pstate, node))
			continue;
		else if (idl_is_const(node))
			print_const(out, (const idl_const_t *)node);
		else if (n && n->type.kind == APUS_KIND_STRUCT)
			print_struct(out, n);
		else if (n && n->type.kind == APUS_KIND_UNION)
			print_union(out, n);
		else if (n && n->type.kind == APUS_KIND_ENUM)
			print_enum(out, (const idl_enum_t *)node);
		else if (n && n->type.kind == APUS_KIND_BITMASK)
			print_bitmask(out, (const idl_bitmask_t *)node, n);
	}
}

/* "dir/shape.idl" becomes "dir/shape.h". */
static void print_includes(FILE *out, const idl_pstate_t *pstate)
{
	const idl_source_t *include;

	for (include = pstate->sources->includes; include; include = include->next) {
		const char *name = include->file->name, *dot = strrchr(name, '.');
		int length = dot ? (int)(dot - name) : (int)strlen(name);

		if (include->additional_directory && strrchr(name, '/')) {
			length -= (int)(strrchr(name, '/') + 1 - name);
			name = strrchr(name, '/') + 1;
		}
		fprintf(out, "#include \"%.*s.h\"\n", length, name);
	}
}

void idl_print_header(FILE *out, struct idl_types *types, const char *guard)
{
	const struct idl_type_node *n;

	fprintf(out,
		"/* Made from IDL by the Apus back-end of idlc. Do not edit. */\n"
		"#ifndef %s\n#define %s\n\n#include <apus/type.h>\n",
		guard, guard);
	print_includes(out, types->pstate);
	fputs("\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n", out);
	print_definitions(out, types, types->pstate->root);
	fputc('\n', out);
	for (n = types->first; n; n = n->next)
		if (n->node && !n->foreign)
			fprintf(out, "extern const struct apus_type %s; /* %s */\n", n->symbol,
				n->type.name);
	fputs("\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n", out);
}
