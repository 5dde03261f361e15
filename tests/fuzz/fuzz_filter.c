/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target: arbitrary text as filter expression and parameters, and arbitrary bytes as sample.
 *
 * Input: one byte that selects the type, the expression, parameters, each up to its NUL (at most 4),
 * and after them the payload. Beyond the sanitizers these must hold:
 *   - a refusal points into the expression and has a printable reason;
 *   - what compiles compiles again, and both predicates agree;
 *   - a payload that decodes as the type is no error for any filter.
 * Fixed filters over all members of each type see every payload as well. A share of the inputs brings a type
 * of its own: members of the kinds that some bytes name, nested, optional, of all extensibilities.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/filter.h"
#include "dataplane/predicate.h"
#include "tests/control/filter_types.h"

#define PARAMETERS_MAX 4
#define REQUIRE(condition)                                                              \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

static const char *const fixed_expressions[FILTER_TYPE_COUNT] = {
	"color > 'B' AND x < y OR shapesize BETWEEN 3 AND %0",
	"b = b2 AND u16 > i8 OR c < 'A' AND u64 > f64 OR f32 <> 0.1 AND e = 'BUSY' OR s < t OR m8 = 1",
	"head = in.q OR in.r < ina.u AND ina.s <> '' OR e = 7 AND last > 0.5 OR tail < ina.a",
	"in.q < ina.s OR in.r = f AND after > ina.u OR z BETWEEN 3 AND 9",
	("oi = 3 OR os LIKE 'a%' OR u.i > 3 OR u.s <> '' OR u._d = 2 OR oin IS NULL AND oin.p < 2 OR "
	 "names[1] = 'x' OR points[2].r > 1 OR points.length > arr[3] OR ow[1] IN (1, 2) OR od > %0"),
};
static const char *const fixed_parameters[] = {"12"};
static struct apus_filter *fixed[FILTER_TYPE_COUNT];

/* Copies the text up to the next NUL, or the rest, with a NUL of its own. */
static char *take_text(const uint8_t **data, size_t *bytes)
{
	size_t length = strnlen((const char *)*data, *bytes);
	char *text = malloc(length + 1);

	REQUIRE(text);
	memcpy(text, *data, length);
	text[length] = '\0';
	if (length < *bytes)
		length++;
	*data += length;
	*bytes -= length;
	return text;
}

static bool decodes(const struct apus_type *type, const uint8_t *payload, size_t bytes)
{
	static _Alignas(16) uint8_t sample[4096], arena[1 << 18];

	return apus_type_decode(type, payload, bytes, false, sample, arena, sizeof(arena)) >= 0;
}

static void check_match(const struct apus_type *type, const struct apus_filter *a,
			const struct apus_filter *b, const uint8_t *payload, size_t bytes)
{
	int result = apus_filter_match(a, payload, bytes);

	REQUIRE(result == 0 || result == 1 || result == APUS_EENCODING);
	REQUIRE(apus_filter_match(b, payload, bytes) == result);
	if (result < 0)
		REQUIRE(!decodes(type, payload, bytes));
}

static void check_error(const struct apus_filter_error *error, const char *expression)
{
	size_t bytes = strlen(expression);

	REQUIRE(error->position <= bytes && error->length <= bytes - error->position);
	REQUIRE(error->reason[0]);
	for (const char *c = error->reason; *c; c++)
		REQUIRE(*c >= 0x20 && *c <= 0x7e);
}

static void check_filter(const struct apus_type *type, const char *expression,
			 const char *const *parameters, uint32_t count, const uint8_t *payload,
			 size_t bytes)
{
	struct apus_filter_error error;
	struct apus_filter *a, *b;

	if (apus_filter_open(type, expression, parameters, count, &a, &error) < 0) {
		check_error(&error, expression);
		return;
	}
	REQUIRE(apus_filter_open(type, expression, parameters, count, &b, NULL) == 0);
	check_match(type, a, b, payload, bytes);
	apus_filter_close(a);
	apus_filter_close(b);
}

/* ---- types made of bytes ------------------------------------------------------------------------- */

#define MEMBERS_MAX 8

static const struct apus_type *const member_types[] = {
	&apus_type_bool,   &apus_type_octet,   &apus_type_char,    &apus_type_int8,
	&apus_type_int16,  &apus_type_uint16,  &apus_type_int32,   &apus_type_uint32,
	&apus_type_int64,  &apus_type_uint64,  &apus_type_float32, &apus_type_float64,
	&apus_type_string, &filter_mood,       &filter_flags8,     &filter_flags64,
	&filter_string16,  &filter_inner,      &filter_open,       &filter_seq_i16,
	&filter_seq_f64,   &filter_seq_inner,  &filter_seq_string, &filter_arr_open,
	&filter_arr_mood,  &filter_arr_string, &filter_choice,     &filter_rich,
};

/* A struct whose members a, b, … are named by up to MEMBERS_MAX bytes: the kind, and above that whether it is
 * optional. NULL if it is no valid descriptor. */
static const struct apus_type *make_type(const uint8_t **data, size_t *bytes)
{
	static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
	static struct apus_member members[MEMBERS_MAX];
	static struct apus_type type;
	uint32_t count, at = 0, align = 8;

	if (*bytes < 1)
		return NULL;
	count = 1 + **data % MEMBERS_MAX;
	if (*bytes < 1 + count)
		return NULL;
	type = (struct apus_type){.name = "Made",
				  .kind = APUS_KIND_STRUCT,
				  .extensibility = **data / MEMBERS_MAX % 3,
				  .align_bytes = align,
				  .members = members,
				  .member_count = count};
	for (uint32_t i = 0; i < count; i++) {
		uint8_t byte = (*data)[1 + i];
		const struct apus_type *t =
			member_types[byte % (sizeof(member_types) / sizeof(member_types[0]))];
		bool optional = byte >= 192;

		members[i] = (struct apus_member){.name = names[i],
						  .type = t,
						  .offset_bytes = at,
						  .id = i,
						  .optional = optional};
		at += (optional ? 8 : t->size_bytes) + align - 1;
		at -= at % align;
	}
	type.size_bytes = at;
	*data += 1 + count;
	*bytes -= 1 + count;
	return apus_type_check(&type) == 0 ? &type : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *parameters[PARAMETERS_MAX], *expression;
	const struct apus_type *type;
	uint32_t index, count;
	bool made;

	if (bytes < 1)
		return 0;
	index = data[0] % FILTER_TYPE_COUNT;
	count = data[0] / FILTER_TYPE_COUNT % (PARAMETERS_MAX + 1);
	made = data[0] >= 200;
	type = filter_types[index];
	if (!fixed[index])
		REQUIRE(apus_filter_open(type, fixed_expressions[index], fixed_parameters, 1,
					 &fixed[index], NULL) == 0);
	data++;
	bytes--;
	if (made) {
		type = make_type(&data, &bytes);
		if (!type)
			return 0;
	}
	if (!made)
		check_match(type, fixed[index], fixed[index], data, bytes);
	expression = take_text(&data, &bytes);
	for (uint32_t i = 0; i < count; i++)
		parameters[i] = take_text(&data, &bytes);
	check_filter(type, expression, (const char *const *)parameters, count, data, bytes);
	if (!made)
		check_match(type, fixed[index], fixed[index], data, bytes);
	for (uint32_t i = 0; i < count; i++)
		free(parameters[i]);
	free(expression);
	return 0;
}
