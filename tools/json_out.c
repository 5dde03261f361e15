/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples to JSON text. Written by hand rather than through a JSON library: no allocation a sample,
 * 64-bit integers exact, and the order of members that of the type.
 */
#include "base64.h"
#include "json.h"
#include "json_value.h"
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The line being written; once full, nothing more is added and `full` stays set. One byte is always
 * kept for the NUL. */
struct text_out {
	char *text;
	size_t pos;
	size_t end;
	bool full;
};

static void print_value(struct text_out *o, const struct apus_type *type, const void *value,
			bool key_only, int depth);

static void put(struct text_out *o, const char *text, size_t length)
{
	if (o->full || length >= o->end - o->pos) {
		o->full = true;
		return;
	}
	memcpy(o->text + o->pos, text, length);
	o->pos += length;
}

__attribute__((format(printf, 2, 3))) static void putf(struct text_out *o, const char *format, ...)
{
	char buffer[64];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(buffer, sizeof(buffer), format, args);
	va_end(args);
	put(o, buffer, (size_t)n);
}

/* Bytes of the well-formed UTF-8 sequence at `s` (RFC 3629), 0 if there is none. */
static size_t utf8_length(const uint8_t *s, size_t left)
{
	size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

	if (n == 0 || n > left || s[0] > 0xf4)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	/* overlong forms, surrogates, beyond U+10FFFF */
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

static void print_string(struct text_out *o, const char *chars, size_t length)
{
	const uint8_t *s = (const uint8_t *)chars;

	put(o, "\"", 1);
	for (size_t i = 0, n; i < length; i += n ? n : 1) {
		n = utf8_length(s + i, length - i);
		if (n == 0)
			put(o, "\\ufffd", 6);
		else if (s[i] == '"' || s[i] == '\\')
			putf(o, "\\%c", s[i]);
		else if (s[i] < 0x20 || s[i] == 0x7f)
			putf(o, "\\u%04x", s[i]);
		else
			put(o, chars + i, n);
	}
	put(o, "\"", 1);
}

/* The fewest digits that read back as the same number, with a point so that it stays a real. */
static void print_real(struct text_out *o, double value, bool single)
{
	char buffer[40];

	if (isnan(value) || isinf(value)) {
		putf(o, "\"%s\"", isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
		return;
	}
	for (int digits = single ? 6 : 15; digits <= 17; digits++) {
		snprintf(buffer, sizeof(buffer), "%.*g", digits, value);
		if (single ? strtof(buffer, NULL) == (float)value : strtod(buffer, NULL) == value)
			break;
	}
	putf(o, "%s%s", buffer, strpbrk(buffer, ".e") ? "" : ".0");
}

static uint64_t load_bits(const struct apus_type *type, const void *value)
{
	switch (type->size_bytes) {
	case 1: return *(const uint8_t *)value;
	case 2: return *(const uint16_t *)value;
	case 4: return *(const uint32_t *)value;
	default: return *(const uint64_t *)value;
	}
}

static void print_enum(struct text_out *o, const struct apus_type *type, int64_t value)
{
	for (uint32_t i = 0; i < type->label_count; i++) {
		if (type->labels[i].value == value) {
			print_string(o, type->labels[i].name, strlen(type->labels[i].name));
			return;
		}
	}
	putf(o, "%" PRId64, value);
}

static void print_bitmask(struct text_out *o, const struct apus_type *type, uint64_t value)
{
	uint64_t named = 0;
	const char *separator = "[";

	for (uint32_t i = 0; i < type->label_count; i++)
		named |= UINT64_C(1) << type->labels[i].value;
	if (value & ~named) {
		putf(o, "%" PRIu64, value);
		return;
	}
	for (uint32_t i = 0; i < type->label_count; i++) {
		if (value >> type->labels[i].value & 1) {
			put(o, separator, 1);
			print_string(o, type->labels[i].name, strlen(type->labels[i].name));
			separator = ",";
		}
	}
	putf(o, "%s]", value ? "" : "[");
}

static void print_octets(struct text_out *o, const uint8_t *data, uint32_t count)
{
	size_t length = base64_length(count);

	put(o, "\"", 1);
	if (o->full || length >= o->end - o->pos) {
		o->full = true;
		return;
	}
	base64_encode(data, count, o->text + o->pos);
	o->pos += length;
	put(o, "\"", 1);
}

static void print_elements(struct text_out *o, const struct apus_type *element, const uint8_t *data,
			   uint32_t count, int depth)
{
	if (element->kind == APUS_KIND_OCTET) {
		print_octets(o, data, count);
		return;
	}
	put(o, "[", 1);
	for (uint32_t i = 0; i < count && !o->full; i++) {
		if (i)
			put(o, ",", 1);
		print_value(o, element, data + (size_t)i * element->size_bytes, false, depth + 1);
	}
	put(o, "]", 1);
}

static void print_member(struct text_out *o, const struct apus_member *m, const uint8_t *object,
			 bool key_only, int depth)
{
	print_string(o, m->name, strlen(m->name));
	put(o, ":", 1);
	print_value(o, m->type, json_member_value(m, object), key_only, depth + 1);
}

static void print_struct(struct text_out *o, const struct apus_type *type, const uint8_t *value,
			 bool key_only, int depth)
{
	/* A nested key struct without marked members is key as a whole. */
	const bool keys = key_only && (depth == 0 || json_has_keys(type));
	const char *separator = "";

	put(o, "{", 1);
	for (uint32_t i = 0; i < type->member_count && !o->full; i++) {
		const struct apus_member *m = &type->members[i];

		if ((keys && !m->key) || !json_member_value(m, value))
			continue;
		put(o, separator, strlen(separator));
		print_member(o, m, value, keys, depth);
		separator = ",";
	}
	put(o, "}", 1);
}

static void print_union(struct text_out *o, const struct apus_type *type, const uint8_t *value,
			int depth)
{
	const struct apus_member *selected =
		json_select_case(type, json_load_integer(type->element, value));

	put(o, "{\"" JSON_DISCRIMINATOR "\":", sizeof("{\"" JSON_DISCRIMINATOR "\":") - 1);
	print_value(o, type->element, value, false, depth + 1);
	if (selected && json_member_value(selected, value)) {
		put(o, ",", 1);
		print_member(o, selected, value, false, depth);
	}
	put(o, "}", 1);
}

static void print_chars(struct text_out *o, const struct apus_type *type, const char *value)
{
	const char *chars = type->bound ? value : *(char *const *)(const void *)value;

	if (!chars)
		chars = "";
	print_string(o, chars, type->bound ? strnlen(chars, type->bound) : strlen(chars));
}

static void print_char(struct text_out *o, uint8_t c)
{
	char utf8[2] = {(char)(0xc0 | c >> 6), (char)(0x80 | (c & 0x3f))};

	if (c < 0x80)
		utf8[0] = (char)c;
	print_string(o, utf8, c < 0x80 ? 1 : 2);
}

static void print_value(struct text_out *o, const struct apus_type *type, const void *value,
			bool key_only, int depth)
{
	const struct apus_sequence *sequence = value;

	switch (type->kind) {
	case APUS_KIND_BOOL: putf(o, "%s", *(const uint8_t *)value ? "true" : "false"); break;
	case APUS_KIND_CHAR: print_char(o, *(const uint8_t *)value); break;
	case APUS_KIND_INT8: putf(o, "%d", *(const int8_t *)value); break;
	case APUS_KIND_INT16: putf(o, "%d", *(const int16_t *)value); break;
	case APUS_KIND_INT32: putf(o, "%" PRId32, *(const int32_t *)value); break;
	case APUS_KIND_INT64: putf(o, "%" PRId64, *(const int64_t *)value); break;
	case APUS_KIND_OCTET:
	case APUS_KIND_UINT8:
	case APUS_KIND_UINT16:
	case APUS_KIND_UINT32:
	case APUS_KIND_UINT64: putf(o, "%" PRIu64, load_bits(type, value)); break;
	case APUS_KIND_FLOAT32: print_real(o, *(const float *)value, true); break;
	case APUS_KIND_FLOAT64: print_real(o, *(const double *)value, false); break;
	case APUS_KIND_ENUM: print_enum(o, type, json_load_integer(type, value)); break;
	case APUS_KIND_BITMASK: print_bitmask(o, type, load_bits(type, value)); break;
	case APUS_KIND_STRING: print_chars(o, type, value); break;
	case APUS_KIND_ARRAY: print_elements(o, type->element, value, type->bound, depth); break;
	case APUS_KIND_SEQUENCE:
		print_elements(o, type->element, sequence->data, sequence->length, depth);
		break;
	case APUS_KIND_STRUCT: print_struct(o, type, value, key_only, depth); break;
	case APUS_KIND_UNION: print_union(o, type, value, depth); break;
	default: put(o, "null", 4);
	}
}

static int finish(struct text_out *o)
{
	if (o->full || o->pos > INT_MAX)
		return APUS_ELIMIT;
	o->text[o->pos] = '\0';
	return (int)o->pos;
}

int sample_to_json(const struct apus_type *type, const void *sample, bool key_only, char *out,
		   size_t out_bytes)
{
	struct text_out o = {.text = out, .end = out_bytes};

	print_value(&o, type, sample, key_only, 0);
	return finish(&o);
}

int text_to_json(const char *text, char *out, size_t out_bytes)
{
	struct text_out o = {.text = out, .end = out_bytes};

	print_string(&o, text, strlen(text));
	return finish(&o);
}
