/* SPDX-License-Identifier: Apache-2.0 */
/* Names: from IDL's scopes to C identifiers and registered type names. */
#include "names.h"
#include "types.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All that was allocated, so that it can be given back, or at least found. */
struct kept {
	struct kept *next;
	max_align_t memory[];
};
static struct kept *all_kept;

void *idl_zalloc(size_t bytes)
{
	struct kept *k = calloc(1, sizeof(*k) + bytes);

	if (!k) {
		fputs("out of memory\n", stderr);
		exit(1);
	}
	k->next = all_kept;
	all_kept = k;
	return k->memory;
}

char *idl_printf(const char *format, ...)
{
	char small[256], *text;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(small, sizeof(small), format, args);
	va_end(args);
	text = idl_zalloc(n < 0 ? 1 : (size_t)n + 1);
	va_start(args, format);
	if (n > 0)
		vsnprintf(text, (size_t)n + 1, format, args);
	va_end(args);
	return text;
}

void idl_free_all(void)
{
	while (all_kept) {
		struct kept *next = all_kept->next;

		free(all_kept);
		all_kept = next;
	}
}

static int compare(const void *a, const void *b)
{
	return strcmp(a, *(const char *const *)b);
}

/* Words of C to C23 and C++ to C++20 that are no IDL keywords as well, what compilers and the standard headers
 * define as macros, and the types the header itself uses; in order of strcmp(). */
static const char *const reserved[] = {
	"EOF",           "NULL",          "_Alignas",
	"_Alignof",      "_Atomic",       "_BitInt",
	"_Bool",         "_Complex",      "_Decimal128",
	"_Decimal32",    "_Decimal64",    "_Generic",
	"_Imaginary",    "_Noreturn",     "_Static_assert",
	"_Thread_local", "alignas",       "alignof",
	"and",           "and_eq",        "asm",
	"auto",          "bitand",        "bitor",
	"bool",          "break",         "case",
	"catch",         "char",          "char16_t",
	"char32_t",      "char8_t",       "class",
	"co_await",      "co_return",     "co_yield",
	"compl",         "concept",       "const",
	"const_cast",    "consteval",     "constexpr",
	"constinit",     "continue",      "decltype",
	"default",       "delete",        "do",
	"double",        "dynamic_cast",  "else",
	"enum",          "errno",         "explicit",
	"export",        "extern",        "false",
	"float",         "for",           "friend",
	"goto",          "i386",          "if",
	"inline",        "int",           "int16_t",
	"int32_t",       "int64_t",       "int8_t",
	"linux",         "long",          "mutable",
	"namespace",     "new",           "noexcept",
	"not",           "not_eq",        "nullptr",
	"offsetof",      "operator",      "or",
	"or_eq",         "private",       "protected",
	"public",        "register",      "reinterpret_cast",
	"requires",      "restrict",      "return",
	"short",         "signed",        "size_t",
	"sizeof",        "static",        "static_assert",
	"static_cast",   "stderr",        "stdin",
	"stdout",        "struct",        "switch",
	"template",      "this",          "thread_local",
	"throw",         "true",          "try",
	"typedef",       "typeid",        "typename",
	"typeof",        "typeof_unqual", "uint16_t",
	"uint32_t",      "uint64_t",      "uint8_t",
	"union",         "unix",          "unsigned",
	"using",         "virtual",       "void",
	"volatile",      "wchar_t",       "while",
	"xor",           "xor_eq",
};

/* The word at *name, of a list; then *name is behind it. */
static bool eat(const char **name, const char *const *words)
{
	for (; *words; words++)
		if (strncmp(*name, *words, strlen(*words)) == 0) {
			*name += strlen(*words);
			return true;
		}
	return false;
}

/* INT8_MAX, UINT_LEAST16_C, PTRDIFF_MIN and the like: the macros of <stdint.h>. */
static bool is_limit(const char *name)
{
	static const char *const kinds[] = {"INT", "UINT", NULL};
	static const char *const speeds[] = {"_LEAST", "_FAST", NULL};
	static const char *const sizes[] = {"8", "16", "32", "64", "PTR", "MAX", NULL};
	static const char *const others[] = {"PTRDIFF", "SIG_ATOMIC", "SIZE",
					     "WCHAR",   "WINT",       NULL};
	static const char *const ends[] = {"_MAX", "_MIN", "_C", "_WIDTH", NULL};

	if (eat(&name, kinds)) {
		eat(&name, speeds);
		if (!eat(&name, sizes))
			return false;
	} else if (!eat(&name, others)) {
		return false;
	}
	return eat(&name, ends) && !*name;
}

const char *idl_c_identifier(const char *name)
{
	if (is_limit(name) || bsearch(name, reserved, sizeof(reserved) / sizeof(reserved[0]),
				      sizeof(reserved[0]), compare))
		return idl_printf("%s_", name);
	return name;
}

char *idl_scoped_text(const void *node, const char *separator)
{
	const char *name = idl_identifier(node);
	char *text = idl_printf("%s", name ? name : "");

	for (const idl_node_t *up = idl_parent(node); up; up = idl_parent(up))
		if (idl_is_module(up))
			text = idl_printf("%s%s%s", idl_identifier(up), separator, text);
	return text;
}

const char *idl_safe_path(const char *path)
{
	return path[0] == '-' ? idl_printf("./%s", path) : path;
}

const char *idl_c_name(const void *node)
{
	return idl_c_identifier(idl_scoped_text(node, "_"));
}

bool idl_in_main_file(const idl_pstate_t *pstate, const void *node)
{
	const idl_location_t *location = idl_location(node);

	return location && location->first.source == pstate->sources;
}
