/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a filter compiles to, in words for people: apus_filter_describe(), which `apus filter` prints.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/atomics.h"
#include "control/filter_index.h"
#include "control/filter_internal.h"

/* Text that stops growing at its capacity. */
struct writing {
	char *text;
	size_t bytes, capacity;
};

static void __attribute__((format(printf, 2, 3))) put(struct writing *w, const char *format, ...)
{
	size_t room = w->bytes < w->capacity ? w->capacity - w->bytes : 0;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(room ? w->text + w->bytes : NULL, room, format, args);
	va_end(args);
	w->bytes += n > 0 ? (size_t)n : 0;
}

/* The path as it would be written in an expression. */
static void put_path(struct writing *w, const struct apus_type *type,
		     const struct apus_wire_path *path)
{
	for (uint32_t i = 0; i < path->depth; i++) {
		uint32_t part = path->parts[i];
		const char *dot = i ? "." : "";

		switch (type->kind) {
		case APUS_KIND_STRUCT:
			put(w, "%s%s", dot, type->members[part].name);
			type = type->members[part].type;
			break;
		case APUS_KIND_UNION:
			put(w, "%s%s", dot, part ? type->members[part - 1].name : "_d");
			type = part ? type->members[part - 1].type : type->element;
			break;
		case APUS_KIND_ARRAY:
			put(w, "[%u]", (unsigned int)part);
			type = type->element;
			break;
		default:
			if (part == 0)
				put(w, ".length");
			else
				put(w, "[%u]", (unsigned int)part - 1);
			type = part && type->element ? type->element : &apus_type_uint32;
			break;
		}
	}
}

static const char *kind_name(const struct apus_ctl_filter_member *m)
{
	static const char *const names[] = {"boolean",     "integer", "float", "char",
					    "enumeration", "bitmask", "string"};

	return names[m->class];
}

static void put_fields(struct writing *w, const struct apus_ctl_filter_compiler *c)
{
	for (uint32_t i = 0; i < c->operands.field_count; i++) {
		put(w, "field %u: ", (unsigned int)i);
		put_path(w, c->operands.type, &c->operands.members[i].path);
		put(w, " (%s)\n", kind_name(&c->operands.members[i]));
	}
}

static void put_target(struct writing *w, const char *when, uint16_t target)
{
	if (target == APUS_DP_TO_PASS)
		put(w, ", %s pass", when);
	else if (target == APUS_DP_TO_REJECT)
		put(w, ", %s reject", when);
	else
		put(w, ", %s test %u", when, (unsigned int)target);
}

static void put_tests(struct writing *w, const struct apus_ctl_filter_compiler *c)
{
	static const char *const names[] = {
		[APUS_DP_RANGE] = "range",        [APUS_DP_NUMBERS] = "compare numbers",
		[APUS_DP_TEXT] = "text",          [APUS_DP_STRINGS] = "compare strings",
		[APUS_DP_PRESENT] = "present",    [APUS_DP_SET] = "set of numbers",
		[APUS_DP_TEXTS] = "set of texts", [APUS_DP_PATTERN] = "pattern",
	};

	for (uint32_t i = 0; i < c->test_count; i++) {
		const struct apus_dp_test *t = &c->tests[i];

		put(w, "test %u: %s of field %u", (unsigned int)i, names[t->op],
		    (unsigned int)t->field);
		if (t->op == APUS_DP_NUMBERS || t->op == APUS_DP_STRINGS)
			put(w, " with field %u", (unsigned int)t->field_b);
		put_target(w, "true:", t->on_true);
		put_target(w, "false:", t->on_false);
		put(w, "\n");
	}
}

/* How the cost of one sample grows. */
static const char *cost_of(const struct apus_ctl_filter_compiler *c, const uint32_t *step_count)
{
	bool pattern = false, fixed = true;

	for (uint32_t i = 0; i < c->test_count; i++)
		pattern |= c->tests[i].op == APUS_DP_PATTERN;
	for (int x = 0; x < 2; x++)
		for (uint32_t i = 0; i < step_count[x]; i++)
			fixed &= c->steps[x][i].op == APUS_WIRE_RUN;
	if (pattern)
		return "pattern (a pass over a string of the sample)";
	return fixed ? "constant (fields at fixed offsets)"
		     : "walk (fields behind members of variable size)";
}

static void put_index(struct writing *w, const struct apus_ctl_filter_compiler *c,
		      const struct apus_ctl_filter_term *term)
{
	static const char *const kinds[] = {"", "range", "values", "texts"};

	if (term->kind == APUS_CTL_TERM_NONE) {
		put(w, "index: none, evaluated for each sample\n");
		return;
	}
	put(w, "index: %s of ", kinds[term->kind]);
	put_path(w, c->operands.type, &term->path);
	put(w, "\n");
}

int apus_ctl_filter_describe_to(const struct apus_ctl_filter_compiler *c,
				const struct apus_ctl_filter_term *term, const uint32_t *step_count,
				char *text_out, size_t text_bytes)
{
	struct writing w = {text_out, 0, text_bytes};

	put_fields(&w, c);
	put_tests(&w, c);
	put(&w, "cost: %s, %u tests at most\n", cost_of(c, step_count),
	    (unsigned int)c->test_count);
	put_index(&w, c, term);
	return w.bytes < text_bytes ? (int)w.bytes : APUS_ELIMIT;
}
