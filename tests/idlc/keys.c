/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of every keyed shape, for key_oracle.py.
 *
 * Usage: keys           prints each type and random samples of it, with what Apus makes of their keys
 *        keys extract   reads lines "SHAPE FORM HEX"; FORM is `full`, `key`, `hash` or `clear` (as
 *                       apus_wire_key_from_hash() and _from_clear()); prints each canonical key, or "-"
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "describe.h"
#include "sample.h"
#include "tools/json.h"
#include "wire/cdr.h"
#include "wire/key.h"

#define SHAPE(name) extern const struct apus_type name##_type;
#include "shapes_table.h"
#undef SHAPE

static const struct {
	const char *name;
	const struct apus_type *type;
} shapes[] = {
#define SHAPE(name) {#name, &name##_type},
#include "shapes_table.h"
};
#define SHAPE_COUNT (sizeof(shapes) / sizeof(shapes[0]))

#define ROOM 65536
static _Alignas(16) uint8_t arena[ROOM], sample[ROOM];
static uint8_t out[ROOM];
static char text[4 * ROOM];

static void print_hex(const char *name, const uint8_t *bytes, int count)
{
	printf(",\"%s\":\"", name);
	for (int i = 0; i < count; i++)
		printf("%02x", bytes[i]);
	printf("\"");
}

static void print_sample(const struct apus_type *type, const struct apus_wire_keyplan *plan)
{
	static const char *const names[] = {"full1", "full2", "key1", "key2"};
	uint8_t key[APUS_WIRE_KEY_LIMIT_DEFAULT], hash[16];
	int n = apus_wire_key_from_sample(plan, sample, key, sizeof(key));

	if (n <= 0 || sample_to_json(type, sample, false, text, sizeof(text)) <= 0)
		exit(1);
	printf("sample {\"value\":%s", text);
	for (int i = 0; i < 4; i++)
		print_hex(names[i], out,
			  apus_type_encode(type, sample, i & 1 ? APUS_XCDR2 : APUS_XCDR1, i > 1,
					   out, ROOM));
	print_hex("canonical", key, n);
	apus_wire_key_hash(plan, key, (size_t)n, hash);
	print_hex("hash", hash, 16);
	if (!apus_wire_key_hash_fast(plan, key, (size_t)n, hash))
		exit(1);
	print_hex("fast", hash, 16);
	printf("}\n");
}

static void dump(void)
{
	struct sample_random random = {.state = 3, .arena = arena, .bytes = ROOM};
	struct apus_wire_keyplan plan;

	for (size_t i = 0; i < SHAPE_COUNT; i++) {
		const struct apus_type *type = shapes[i].type;

		if (!apus_type_is_keyed(type))
			continue;
		if (apus_wire_keyplan_init(&plan, type, 0))
			exit(1);
		printf("type {\"name\":\"%s\",\"differs\":%d,\"type\":", shapes[i].name,
		       plan.fast_differs);
		describe_type(type);
		printf("}\n");
		for (int n = 0; n < 30; n++) {
			memset(sample, 0, type->size_bytes);
			sample_fill(&random, type, sample);
			print_sample(type, &plan);
		}
	}
}

static size_t from_hex(const char *hex, uint8_t *bytes)
{
	size_t n = 0;
	unsigned int byte;

	for (; n < ROOM && sscanf(hex + 2 * n, "%2x", &byte) == 1; n++)
		bytes[n] = (uint8_t)byte;
	return n;
}

static void extract(void)
{
	static char name[64], form[16], hex[2 * ROOM + 1];
	struct apus_wire_keyplan plan = {.type = NULL};
	uint8_t key[APUS_WIRE_KEY_LIMIT_DEFAULT];

	while (scanf("%63s %15s %131072s", name, form, hex) == 3) {
		size_t bytes = from_hex(hex, out);
		int n;

		for (size_t i = 0; i < SHAPE_COUNT; i++)
			if (strcmp(shapes[i].name, name) == 0 && plan.type != shapes[i].type &&
			    apus_wire_keyplan_init(&plan, shapes[i].type, 0))
				exit(1);
		if (form[0] == 'h')
			n = apus_wire_key_from_hash(&plan, out, key, sizeof(key));
		else if (form[0] == 'c')
			n = apus_wire_key_from_clear(&plan, out, key, sizeof(key));
		else
			n = apus_wire_key_extract(&plan, out, bytes, form[0] == 'k', key,
						  sizeof(key));
		for (int i = 0; i < n; i++)
			printf("%02x", key[i]);
		puts(n < 0 ? "-" : "");
	}
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "extract") == 0)
		extract();
	else
		dump();
	return 0;
}
