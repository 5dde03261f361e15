/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON text to samples. The text is a person's or a script's: whatever does not fit the type is
 * refused with the path of the value and what was expected, and nothing is guessed.
 *
 * Integers above the range of the JSON library (int64) are kept exact by marking them before the
 * parse: a bare integer of 19 or more digits becomes a string that starts with BIG_MARK. A string of
 * the text that begins as a mark does gets that character twice, and text_of() takes one off again.
 */
#include "json.h"
#include "base64.h"
#include "json_value.h"
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIG_MARK      "\001#"
#define BIG_MARK_JSON "\\u0001#"
#define ESCAPED       "\001\001"
#define ESCAPE_JSON   "\\u0001"
#define BIG_DIGITS    19

/* State of one parse. `path` names the value being read ("in.v[2].p"), for messages. */
struct reader {
	uint8_t *arena;
	size_t used;
	size_t bytes;
	char path[256];
	size_t path_length;
	char *error;
	size_t error_bytes;
};

/* An integer of at most 64 bits and a sign. */
struct integer {
	uint64_t magnitude;
	bool negative;
};

static int read_value(struct reader *r, const struct apus_type *type, const json_t *json,
		      void *value, bool key_only, int depth);

__attribute__((format(printf, 2, 3))) static int refuse(struct reader *r, const char *format, ...)
{
	va_list args;
	int n = snprintf(r->error, r->error_bytes, "%s%s", r->path, r->path_length ? ": " : "");

	if (n < 0 || (size_t)n >= r->error_bytes)
		return APUS_EINVAL;
	va_start(args, format);
	vsnprintf(r->error + n, r->error_bytes - (size_t)n, format, args);
	va_end(args);
	return APUS_EINVAL;
}

/* Appends to the path and returns its former length for path_pop(). Long paths are cut off. */
__attribute__((format(printf, 2, 3))) static size_t path_push(struct reader *r, const char *format,
							      ...)
{
	size_t before = r->path_length;
	va_list args;

	va_start(args, format);
	vsnprintf(r->path + before, sizeof(r->path) - before, format, args);
	va_end(args);
	r->path_length += strlen(r->path + before);
	return before;
}

static void path_pop(struct reader *r, size_t length)
{
	r->path[length] = '\0';
	r->path_length = length;
}

static size_t push_member(struct reader *r, const char *name)
{
	return path_push(r, "%s%s", r->path_length ? "." : "", name);
}

static const char *kind_name(const struct apus_type *type)
{
	static const char *const names[] = {
		[APUS_KIND_BOOL] = "boolean",    [APUS_KIND_OCTET] = "octet",
		[APUS_KIND_CHAR] = "char",       [APUS_KIND_INT8] = "int8",
		[APUS_KIND_UINT8] = "uint8",     [APUS_KIND_INT16] = "int16",
		[APUS_KIND_UINT16] = "uint16",   [APUS_KIND_INT32] = "int32",
		[APUS_KIND_UINT32] = "uint32",   [APUS_KIND_INT64] = "int64",
		[APUS_KIND_UINT64] = "uint64",   [APUS_KIND_FLOAT32] = "float32",
		[APUS_KIND_FLOAT64] = "float64", [APUS_KIND_ENUM] = "enum",
		[APUS_KIND_BITMASK] = "bitmask", [APUS_KIND_STRING] = "string",
		[APUS_KIND_ARRAY] = "array",     [APUS_KIND_SEQUENCE] = "sequence",
		[APUS_KIND_STRUCT] = "struct",   [APUS_KIND_UNION] = "union",
	};

	return type->kind < sizeof(names) / sizeof(names[0]) && names[type->kind]
		       ? names[type->kind]
		       : "value";
}

static bool is_big(const json_t *json)
{
	return json_is_string(json) &&
	       strncmp(json_string_value(json), BIG_MARK, sizeof(BIG_MARK) - 1) == 0;
}

/* The characters of a string as the text has them; NULL if it is none. */
static const char *text_of(const json_t *json, size_t *length_out)
{
	const char *text = is_big(json) ? NULL : json_string_value(json);
	size_t skip = text && strncmp(text, ESCAPED, sizeof(ESCAPED) - 1) == 0;

	*length_out = text ? json_string_length(json) - skip : 0;
	return text ? text + skip : NULL;
}

static const char *json_kind(const json_t *json)
{
	if (is_big(json))
		return "an integer";
	switch (json_typeof(json)) {
	case JSON_OBJECT: return "an object";
	case JSON_ARRAY: return "an array";
	case JSON_STRING: return "a string";
	case JSON_INTEGER: return "an integer";
	case JSON_REAL: return "a real number";
	case JSON_TRUE:
	case JSON_FALSE: return "a boolean";
	default: return "null";
	}
}

static int mistyped(struct reader *r, const struct apus_type *type, const json_t *json)
{
	return refuse(r, "expected %s, found %s", kind_name(type), json_kind(json));
}

static void *arena_take(struct reader *r, size_t bytes, size_t align)
{
	size_t gap = -((uintptr_t)r->arena + r->used) & (align - 1);
	void *p;

	if (gap > r->bytes - r->used || bytes > r->bytes - r->used - gap) {
		refuse(r, "the sample is too large");
		return NULL;
	}
	p = r->arena + r->used + gap;
	r->used += gap + bytes;
	return p;
}

static int read_integer(struct reader *r, const struct apus_type *type, const json_t *json,
			struct integer *out)
{
	const char *digits;
	json_int_t v;

	if (json_is_integer(json)) {
		v = json_integer_value(json);
		out->negative = v < 0;
		out->magnitude = v < 0 ? -(uint64_t)v : (uint64_t)v;
		return 0;
	}
	if (!is_big(json))
		return mistyped(r, type, json);
	digits = json_string_value(json) + sizeof(BIG_MARK) - 1;
	out->negative = *digits == '-';
	errno = 0;
	out->magnitude = strtoull(digits + out->negative, NULL, 10);
	if (errno)
		return refuse(r, "%s out of range for %s", digits, kind_name(type));
	return 0;
}

static bool is_signed(const struct apus_type *type)
{
	return type->kind == APUS_KIND_INT8 || type->kind == APUS_KIND_INT16 ||
	       type->kind == APUS_KIND_INT32 || type->kind == APUS_KIND_INT64 ||
	       type->kind == APUS_KIND_ENUM;
}

/* Stores an integer of the type's width; bits: how many of them may be used. */
static int store_integer(struct reader *r, const struct apus_type *type, struct integer v,
			 unsigned int bits, void *value)
{
	uint64_t most = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
	uint64_t stored = v.negative ? -v.magnitude : v.magnitude;

	if (is_signed(type))
		most = v.negative ? (most >> 1) + 1 : most >> 1;
	else if (v.negative)
		most = 0;
	if (v.magnitude > most)
		return refuse(r, "%s%" PRIu64 " out of range for %s", v.negative ? "-" : "",
			      v.magnitude, kind_name(type));
	switch (type->size_bytes) {
	case 1: *(uint8_t *)value = (uint8_t)stored; break;
	case 2: *(uint16_t *)value = (uint16_t)stored; break;
	case 4: *(uint32_t *)value = (uint32_t)stored; break;
	default: *(uint64_t *)value = stored; break;
	}
	return 0;
}

static int read_int(struct reader *r, const struct apus_type *type, const json_t *json, void *value)
{
	struct integer v;
	int rc = read_integer(r, type, json, &v);

	return rc ? rc : store_integer(r, type, v, type->size_bytes * 8, value);
}

/* The number in any of its JSON forms. False if it is none. */
static bool real_value(const json_t *json, double *out)
{
	static const struct {
		const char *name;
		double value;
	} named[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};
	size_t length;
	const char *text = text_of(json, &length);

	if (json_is_number(json)) {
		*out = json_number_value(json);
		return true;
	}
	if (is_big(json)) {
		*out = strtod(json_string_value(json) + sizeof(BIG_MARK) - 1, NULL);
		return true;
	}
	for (size_t i = 0; text && i < sizeof(named) / sizeof(named[0]); i++) {
		if (strlen(named[i].name) == length && strcmp(text, named[i].name) == 0) {
			*out = named[i].value;
			return true;
		}
	}
	return false;
}

static int read_float(struct reader *r, const struct apus_type *type, const json_t *json,
		      void *value)
{
	double v;

	if (!real_value(json, &v))
		return mistyped(r, type, json);
	if (type->kind == APUS_KIND_FLOAT64) {
		*(double *)value = v;
		return 0;
	}
	if (isfinite(v) && isinf((float)v))
		return refuse(r, "%g out of range for float32", v);
	*(float *)value = (float)v;
	return 0;
}

static int read_bool(struct reader *r, const struct apus_type *type, const json_t *json,
		     void *value)
{
	if (!json_is_boolean(json))
		return mistyped(r, type, json);
	*(bool *)value = json_is_true(json);
	return 0;
}

static int read_char(struct reader *r, const struct apus_type *type, const json_t *json,
		     void *value)
{
	size_t length;
	const uint8_t *s = (const uint8_t *)text_of(json, &length);

	if (!s)
		return mistyped(r, type, json);
	if (length == 1)
		*(uint8_t *)value = s[0];
	else if (length == 2 && (s[0] == 0xc2 || s[0] == 0xc3))
		*(uint8_t *)value = (uint8_t)(s[0] << 6 | (s[1] & 0x3f));
	else
		return refuse(r, "expected one character up to U+00FF");
	return 0;
}

static const struct apus_label *find_label(const struct apus_type *type, const char *name)
{
	for (uint32_t i = 0; i < type->label_count; i++)
		if (strcmp(type->labels[i].name, name) == 0)
			return &type->labels[i];
	return NULL;
}

static int read_enum(struct reader *r, const struct apus_type *type, const json_t *json,
		     void *value)
{
	const struct apus_label *label;
	struct integer v;
	size_t length;
	const char *name = text_of(json, &length);
	int rc;

	if (name) {
		label = strlen(name) == length ? find_label(type, name) : NULL;
		if (!label)
			return refuse(r, "no such label \"%s\"", name);
		v.negative = label->value < 0;
		v.magnitude = v.negative ? -(uint64_t)label->value : (uint64_t)label->value;
		return store_integer(r, type, v, type->size_bytes * 8, value);
	}
	rc = read_integer(r, type, json, &v);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < type->label_count; i++) {
		int64_t have = type->labels[i].value;

		if (v.magnitude == (have < 0 ? -(uint64_t)have : (uint64_t)have) &&
		    v.negative == (have < 0))
			return store_integer(r, type, v, type->size_bytes * 8, value);
	}
	return refuse(r, "no label has the value %s%" PRIu64, v.negative ? "-" : "", v.magnitude);
}

static int read_bitmask(struct reader *r, const struct apus_type *type, const json_t *json,
			void *value)
{
	struct integer v = {0};
	size_t i;
	json_t *item;
	int rc;

	if (!json_is_array(json)) {
		rc = read_integer(r, type, json, &v);
		return rc ? rc : store_integer(r, type, v, type->bit_bound, value);
	}
	json_array_foreach(json, i, item)
	{
		size_t length;
		const char *name = text_of(item, &length);
		const struct apus_label *label =
			name && strlen(name) == length ? find_label(type, name) : NULL;

		if (!label)
			return refuse(r, "no such label \"%s\"", name ? name : json_kind(item));
		v.magnitude |= UINT64_C(1) << label->value;
	}
	return store_integer(r, type, v, type->bit_bound, value);
}

static int read_string(struct reader *r, const struct apus_type *type, const json_t *json,
		       void *value)
{
	size_t length;
	const char *text = text_of(json, &length);
	char *copy = value;

	if (!text)
		return mistyped(r, type, json);
	if (strlen(text) != length)
		return refuse(r, "a string cannot contain U+0000");
	if (type->bound && length > type->bound)
		return refuse(r, "%zu bytes, at most %" PRIu32 " allowed", length, type->bound);
	if (!type->bound) {
		copy = arena_take(r, length + 1, 1);
		if (!copy)
			return APUS_ELIMIT;
		*(char **)value = copy;
	}
	memcpy(copy, text, length + 1);
	return 0;
}

/* How many elements the JSON value holds, or a refusal: an array, or base64 for octets. */
static int count_elements(struct reader *r, const struct apus_type *type, const json_t *json,
			  size_t *count_out)
{
	size_t length;
	const char *text = text_of(json, &length);

	if (json_is_array(json)) {
		*count_out = json_array_size(json);
	} else if (text && type->element->kind == APUS_KIND_OCTET) {
		if (length % 4)
			return refuse(r, "not base64");
		*count_out = length / 4 * 3;
		if (length && text[length - 1] == '=')
			*count_out -= text[length - 2] == '=' ? 2 : 1;
	} else {
		return mistyped(r, type, json);
	}
	if (type->kind == APUS_KIND_ARRAY && *count_out != type->bound)
		return refuse(r, "%zu elements, expected %" PRIu32, *count_out, type->bound);
	if (*count_out > (type->bound ? type->bound : UINT32_MAX))
		return refuse(r, "%zu elements, at most %" PRIu32 " allowed", *count_out,
			      type->bound);
	return 0;
}

static int read_base64(struct reader *r, const json_t *json, uint8_t *data, size_t count)
{
	size_t length, bytes = 0;
	const char *text = text_of(json, &length);
	uint8_t *room = malloc(length / 4 * 3 + 1);
	bool good;

	if (!room)
		return APUS_ELIMIT;
	good = base64_decode(text, length, room, &bytes) && bytes == count;
	if (good && count)
		memcpy(data, room, count);
	free(room);
	return good ? 0 : refuse(r, "not base64");
}

static int read_elements(struct reader *r, const struct apus_type *element, const json_t *json,
			 uint8_t *data, size_t count, int depth)
{
	int rc = 0;

	if (json_is_string(json))
		return read_base64(r, json, data, count);
	for (size_t i = 0; i < count && !rc; i++) {
		size_t before = path_push(r, "[%zu]", i);

		rc = read_value(r, element, json_array_get(json, i), data + i * element->size_bytes,
				false, depth + 1);
		path_pop(r, before);
	}
	return rc;
}

static int read_collection(struct reader *r, const struct apus_type *type, const json_t *json,
			   void *value, int depth)
{
	struct apus_sequence *sequence = value;
	void *data = value;
	size_t count = 0;
	int rc = count_elements(r, type, json, &count);

	if (rc)
		return rc;
	if (type->kind == APUS_KIND_SEQUENCE && count) {
		data = arena_take(r, count * type->element->size_bytes, type->element->align_bytes);
		if (!data)
			return APUS_ELIMIT;
		memset(data, 0, count * type->element->size_bytes);
		sequence->data = data;
		sequence->length = (uint32_t)count;
	}
	return read_elements(r, type->element, json, data, count, depth);
}

static const struct apus_member *find_member(const struct apus_type *type, const char *name)
{
	for (uint32_t i = 0; i < type->member_count; i++)
		if (strcmp(type->members[i].name, name) == 0)
			return &type->members[i];
	return NULL;
}

static int refuse_extra_members(struct reader *r, const struct apus_type *type, const json_t *json)
{
	const char *name;
	json_t *item;

	json_object_foreach((json_t *)json, name, item)
	{
		if (!find_member(type, name)) {
			push_member(r, name);
			return refuse(r, "no such member");
		}
	}
	return 0;
}

/* A member's value, in the object or, where it is held by pointer, in the arena. */
static int read_member(struct reader *r, const struct apus_member *m, const json_t *json,
		       uint8_t *object, bool key_only, int depth)
{
	void *value = object + m->offset_bytes;

	if ((m->optional || m->external) && !json_is_open_string(m->type)) {
		void *held = arena_take(r, m->type->size_bytes, m->type->align_bytes);

		if (!held)
			return APUS_ELIMIT;
		memset(held, 0, m->type->size_bytes);
		*(void **)value = held;
		value = held;
	}
	return read_value(r, m->type, json, value, key_only, depth + 1);
}

static int read_struct(struct reader *r, const struct apus_type *type, const json_t *json,
		       uint8_t *value, bool key_only, int depth)
{
	const bool keys = key_only && (depth == 0 || json_has_keys(type));
	int rc;

	if (!json_is_object(json))
		return mistyped(r, type, json);
	rc = refuse_extra_members(r, type, json);
	for (uint32_t i = 0; i < type->member_count && !rc; i++) {
		const struct apus_member *m = &type->members[i];
		const json_t *item = json_object_get(json, m->name);
		size_t before;

		if ((keys && !m->key) || (m->optional && (!item || json_is_null(item))))
			continue;
		before = push_member(r, m->name);
		rc = item ? read_member(r, m, item, value, keys, depth) : refuse(r, "missing");
		path_pop(r, before);
	}
	return rc;
}

/* The one entry of the object that is not the discriminator; NULL if there is none or more. */
static const char *case_name(const json_t *json)
{
	const char *name, *found = NULL;
	json_t *item;

	json_object_foreach((json_t *)json, name, item)
	{
		if (strcmp(name, JSON_DISCRIMINATOR) == 0)
			continue;
		if (found)
			return NULL;
		found = name;
	}
	return found;
}

/* Without a discriminator the member's name decides, if that leaves no choice that matters. */
static int read_discriminator(struct reader *r, const struct apus_type *type, const json_t *json,
			      const char *name, void *value)
{
	const json_t *given = json_object_get(json, JSON_DISCRIMINATOR);
	const struct apus_member *m = name ? find_member(type, name) : NULL;
	size_t before;
	int rc;

	if (given) {
		before = push_member(r, JSON_DISCRIMINATOR);
		rc = read_value(r, type->element, given, value, false, 1);
		path_pop(r, before);
		return rc;
	}
	if (!m)
		return name ? refuse(r, "no such member: %s", name)
			    : refuse(r, "expected one member");
	if (m->case_count == 0)
		return refuse(r, "\"" JSON_DISCRIMINATOR "\" missing");
	memcpy(value, &m->cases[0], type->element->size_bytes); /* little-endian */
	return 0;
}

static int read_union(struct reader *r, const struct apus_type *type, const json_t *json,
		      uint8_t *value, int depth)
{
	const struct apus_member *selected;
	const char *name;
	size_t before;
	int rc;

	if (!json_is_object(json))
		return mistyped(r, type, json);
	name = case_name(json);
	if (!name && json_object_size(json) > 1)
		return refuse(r, "expected one member");
	rc = read_discriminator(r, type, json, name, value);
	if (rc)
		return rc;
	selected = json_select_case(type, json_load_integer(type->element, value));
	if (!selected && !name)
		return 0;
	if (!selected || !name || strcmp(selected->name, name) != 0)
		return refuse(r, "the discriminator selects %s, found %s",
			      selected ? selected->name : "nothing", name ? name : "nothing");
	before = push_member(r, name);
	rc = read_member(r, selected, json_object_get(json, name), value, false, depth);
	path_pop(r, before);
	return rc;
}

static int read_value(struct reader *r, const struct apus_type *type, const json_t *json,
		      void *value, bool key_only, int depth)
{
	switch (type->kind) {
	case APUS_KIND_BOOL: return read_bool(r, type, json, value);
	case APUS_KIND_CHAR: return read_char(r, type, json, value);
	case APUS_KIND_FLOAT32:
	case APUS_KIND_FLOAT64: return read_float(r, type, json, value);
	case APUS_KIND_ENUM: return read_enum(r, type, json, value);
	case APUS_KIND_BITMASK: return read_bitmask(r, type, json, value);
	case APUS_KIND_STRING: return read_string(r, type, json, value);
	case APUS_KIND_ARRAY:
	case APUS_KIND_SEQUENCE: return read_collection(r, type, json, value, depth);
	case APUS_KIND_STRUCT: return read_struct(r, type, json, value, key_only, depth);
	case APUS_KIND_UNION: return read_union(r, type, json, value, depth);
	default: return read_int(r, type, json, value);
	}
}

/* Length of the number token at `s`; `*big_out`: an integer too long for the JSON library. */
static size_t number_token(const char *s, bool *big_out)
{
	size_t length = strspn(s, "+-.0123456789eE");
	size_t sign = s[0] == '-';
	size_t digits = strspn(s + sign, "0123456789");

	*big_out = sign + digits == length && digits >= BIG_DIGITS && s[sign] != '0';
	return length;
}

/* A copy of the text with big integers marked (see the head of this file). The caller frees it. */
static char *mark_big_integers(const char *text)
{
	/* A marked token of n >= 19 characters grows to n + 9, an escaped string of n >= 8 to n + 6. */
	char *copy = malloc(2 * strlen(text) + 16), *out = copy;
	bool in_string = false, big;

	while (copy && *text) {
		size_t n = 1;

		if (in_string && text[0] == '\\' && text[1]) {
			n = 2;
		} else if (*text == '"') {
			in_string = !in_string;
			if (in_string &&
			    strncmp(text + 1, ESCAPE_JSON, sizeof(ESCAPE_JSON) - 1) == 0) {
				out += sprintf(out, "\"" ESCAPE_JSON);
				text++;
				continue;
			}
		} else if (!in_string && (*text == '-' || (*text >= '0' && *text <= '9'))) {
			n = number_token(text, &big);
			if (big) {
				out += sprintf(out, "\"" BIG_MARK_JSON "%.*s\"", (int)n, text);
				text += n;
				continue;
			}
		}
		memcpy(out, text, n);
		out += n;
		text += n;
	}
	if (copy)
		*out = '\0';
	return copy;
}

static json_t *parse(struct reader *r, const char *text)
{
	char *marked = mark_big_integers(text);
	json_error_t problem;
	json_t *json;

	if (!marked)
		return NULL;
	json = json_loads(marked, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
	free(marked);
	if (!json)
		refuse(r, "not JSON: %s", problem.text);
	return json;
}

int json_to_sample(const struct apus_type *type, const char *text, bool key_only, void *sample,
		   void *arena, size_t arena_bytes, char *error, size_t error_bytes)
{
	struct reader r = {.arena = arena,
			   .bytes = arena ? arena_bytes : 0,
			   .error = error,
			   .error_bytes = error_bytes};
	json_t *json;
	int rc;

	error[0] = '\0';
	memset(sample, 0, type->size_bytes);
	json = parse(&r, text);
	if (!json)
		return APUS_EINVAL;
	rc = read_value(&r, type, json, sample, key_only, 0);
	json_decref(json);
	if (!rc && r.used > INT_MAX)
		rc = APUS_ELIMIT;
	if (rc)
		memset(sample, 0, type->size_bytes);
	return rc ? rc : (int)r.used;
}
