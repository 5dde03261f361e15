/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A type as IDL text, for people: what apus_type_to_idl() prints compiles to a type of the same layout,
 * though not of the same hash (typedefs are gone, arrays have one dimension).
 *
 * Named types are printed before what uses them, each once, in its module; a module is left only for another.
 */
#include <apus/type.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct printer {
	char *out;
	size_t bytes, used; /* used: as if there were room for all */
	const struct apus_type **done;
	uint32_t done_count, done_room;
	const char *modules; /* those open, as in the name they are from: with their colons */
	size_t modules_bytes;
	int depth; /* their number */
	bool failed;
};

__attribute__((format(printf, 2, 3))) static void put(struct printer *p, const char *format, ...)
{
	size_t left = p->used < p->bytes ? p->bytes - p->used : 0;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(left ? p->out + p->used : NULL, left, format, args);
	va_end(args);
	if (n > 0)
		p->used += (size_t)n;
}

/* ---- names -------------------------------------------------------------------------------------- */

static bool is_declared(const struct apus_type *type)
{
	return type->kind == APUS_KIND_STRUCT || type->kind == APUS_KIND_UNION ||
	       type->kind == APUS_KIND_ENUM || type->kind == APUS_KIND_BITMASK;
}

static int index_of(const struct printer *p, const struct apus_type *type)
{
	for (uint32_t i = 0; i < p->done_count; i++)
		if (p->done[i] == type)
			return (int)i;
	return -1;
}

/* Bounded strings are arrays in memory; arrays come behind the name. */
static const struct apus_type *behind_arrays(const struct apus_type *type)
{
	while (type->kind == APUS_KIND_ARRAY)
		type = type->element;
	return type;
}

static void put_type(struct printer *p, const struct apus_type *type)
{
	static const char *const names[] = {
		[APUS_KIND_BOOL] = "boolean",
		[APUS_KIND_OCTET] = "octet",
		[APUS_KIND_CHAR] = "char",
		[APUS_KIND_INT8] = "int8",
		[APUS_KIND_UINT8] = "uint8",
		[APUS_KIND_INT16] = "short",
		[APUS_KIND_UINT16] = "unsigned short",
		[APUS_KIND_INT32] = "long",
		[APUS_KIND_UINT32] = "unsigned long",
		[APUS_KIND_INT64] = "long long",
		[APUS_KIND_UINT64] = "unsigned long long",
		[APUS_KIND_FLOAT32] = "float",
		[APUS_KIND_FLOAT64] = "double",
	};

	if (is_declared(type)) {
		if (type->name)
			put(p, "%s", type->name);
		else
			put(p, "unnamed_%d", index_of(p, type));
	} else if (type->kind == APUS_KIND_STRING) {
		put(p, type->bound ? "string<%" PRIu32 ">" : "string", type->bound);
	} else if (type->kind == APUS_KIND_SEQUENCE) {
		put(p, "sequence<");
		put_type(p, type->element);
		put(p, type->bound ? ", %" PRIu32 ">" : ">", type->bound);
	} else if (type->kind == APUS_KIND_ARRAY) {
		/* An array in a sequence; IDL would want a typedef. */
		put_type(p, type->element);
		put(p, "[%" PRIu32 "]", type->bound);
	} else {
		put(p, "%s", names[type->kind]);
	}
}

static void indent(struct printer *p)
{
	put(p, "%*s", 2 * p->depth, "");
}

/* Closes the modules behind the first `keep` bytes of their names. */
static void close_modules(struct printer *p, size_t keep)
{
	const char *end = p->modules + p->modules_bytes, *at = p->modules + keep;

	while (at < end) {
		at = strstr(at, "::") + 2;
		p->depth--;
		indent(p);
		put(p, "};\n");
	}
	p->modules_bytes = keep;
}

/* Has the modules of a name open, and no others; returns its last part. */
static const char *enter_modules(struct printer *p, const char *name)
{
	const char *last = name, *colons;
	size_t common = 0;

	while ((colons = strstr(last, "::"))) {
		size_t bytes = (size_t)(colons + 2 - name);

		last = colons + 2;
		/* Equal so far: then equal parts, too. */
		if (bytes <= p->modules_bytes && memcmp(name, p->modules, bytes) == 0)
			common = bytes;
	}
	close_modules(p, common);
	if (p->used)
		put(p, "\n");
	for (const char *at = name + common; at < last; at = colons + 2) {
		colons = strstr(at, "::");
		indent(p);
		put(p, "module %.*s {\n", (int)(colons - at), at);
		p->depth++;
	}
	p->modules_bytes = (size_t)(last - name);
	p->modules = p->modules_bytes ? name : ""; /* an unnamed one's does not last */
	return last;
}

/* ---- declarations ------------------------------------------------------------------------------- */

static void put_member_name(struct printer *p, const struct apus_member *m)
{
	put_type(p, behind_arrays(m->type));
	put(p, " %s", m->name);
	for (const struct apus_type *t = m->type; t->kind == APUS_KIND_ARRAY; t = t->element)
		put(p, "[%" PRIu32 "]", t->bound);
	put(p, ";\n");
}

static void put_extensibility(struct printer *p, const struct apus_type *type)
{
	static const char *const words[] = {"@final", "@appendable", "@mutable"};

	indent(p);
	put(p, "%s ", words[type->extensibility]);
}

static void put_struct(struct printer *p, const struct apus_type *type, const char *name)
{
	put_extensibility(p, type);
	put(p, "struct %s {\n", name);
	for (uint32_t i = 0; i < type->member_count; i++) {
		const struct apus_member *m = &type->members[i];
		uint32_t expected = i ? type->members[i - 1].id + 1 : 0;

		indent(p);
		put(p, "  ");
		if (m->id != expected)
			put(p, "@id(%" PRIu32 ") ", m->id);
		put(p, "%s%s%s%s", m->key ? "@key " : "", m->optional ? "@optional " : "",
		    m->external ? "@external " : "", m->must_understand ? "@must_understand " : "");
		put_member_name(p, m);
	}
	indent(p);
	put(p, "};\n");
}

static void put_label(struct printer *p, const struct apus_type *discriminator, int64_t value)
{
	for (uint32_t i = 0; i < discriminator->label_count; i++)
		if (discriminator->labels[i].value == value) {
			put(p, "case %s: ", discriminator->labels[i].name);
			return;
		}
	if (discriminator->kind == APUS_KIND_BOOL)
		put(p, "case %s: ", value ? "TRUE" : "FALSE");
	else if (discriminator->kind == APUS_KIND_CHAR && value >= ' ' && value < 127)
		put(p, "case '%s%c': ", value == '\'' || value == '\\' ? "\\" : "", (int)value);
	else
		put(p, "case %" PRId64 ": ", value);
}

static void put_union(struct printer *p, const struct apus_type *type, const char *name)
{
	put_extensibility(p, type);
	put(p, "union %s switch (", name);
	put_type(p, type->element);
	put(p, ") {\n");
	for (uint32_t i = 0; i < type->member_count; i++) {
		const struct apus_member *m = &type->members[i];

		indent(p);
		put(p, "  ");
		for (uint32_t j = 0; j < m->case_count; j++)
			put_label(p, type->element, m->cases[j]);
		put(p, "%s%s", m->is_default ? "default: " : "", m->external ? "@external " : "");
		put_member_name(p, m);
	}
	indent(p);
	put(p, "};\n");
}

static void put_labels(struct printer *p, const struct apus_type *type, const char *name)
{
	bool is_enum = type->kind == APUS_KIND_ENUM;

	indent(p);
	if (type->bit_bound && type->bit_bound != 32)
		put(p, "@bit_bound(%u) ", type->bit_bound);
	put(p, "%s %s { ", is_enum ? "enum" : "bitmask", name);
	for (uint32_t i = 0; i < type->label_count; i++) {
		const struct apus_label *l = &type->labels[i];
		int64_t expected = i ? (int64_t)type->labels[i - 1].value + 1 : 0;

		if (is_enum && type->default_label && type->default_label == i)
			put(p, "@default_literal ");
		if (l->value != expected)
			put(p, "%s(%" PRId32 ") ", is_enum ? "@value" : "@position", l->value);
		put(p, "%s%s", l->name, i + 1 < type->label_count ? ", " : " ");
	}
	put(p, "};\n");
}

/* ---- order -------------------------------------------------------------------------------------- */

static bool remember(struct printer *p, const struct apus_type *type)
{
	if (p->done_count == p->done_room) {
		uint32_t room = p->done_room ? 2 * p->done_room : 32;
		const struct apus_type **more = reallocarray(p->done, room, sizeof(*p->done));

		if (!more) {
			p->failed = true;
			return false;
		}
		p->done = more;
		p->done_room = room;
	}
	p->done[p->done_count++] = type;
	return true;
}

/* What a type uses, then itself. A checked descriptor nests at most 16 deep. */
static void declare(struct printer *p, const struct apus_type *type)
{
	char unnamed[32];
	const char *name;

	if (!type || index_of(p, type) >= 0 || p->failed)
		return;
	declare(p, type->element);
	for (uint32_t i = 0; i < type->member_count; i++)
		declare(p, type->members[i].type);
	if (!is_declared(type) || !remember(p, type))
		return;
	snprintf(unnamed, sizeof(unnamed), "unnamed_%d", index_of(p, type));
	name = enter_modules(p, type->name ? type->name : unnamed);
	if (type->kind == APUS_KIND_STRUCT)
		put_struct(p, type, name);
	else if (type->kind == APUS_KIND_UNION)
		put_union(p, type, name);
	else
		put_labels(p, type, name);
}

int apus_type_to_idl(const struct apus_type *type, char *text_out, size_t text_bytes)
{
	struct printer p = {.out = text_out, .bytes = text_bytes, .modules = ""};

	if (apus_type_check(type) != 0 || (!text_out && text_bytes))
		return APUS_EINVAL;
	declare(&p, type);
	close_modules(&p, 0);
	free(p.done);
	if (p.failed)
		return APUS_ENOMEM;
	return p.used >= text_bytes || p.used > INT32_MAX ? APUS_ELIMIT : (int)p.used;
}
