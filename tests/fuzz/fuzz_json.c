/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target: JSON text to samples of the types generated from tests/idlc/shapes.py.
 *
 * Input: one byte that picks the type, one of options. Bit 0: what follows is the text as it is; else four
 * bytes that seed a sample whose text is taken, and then three bytes for each change: where (16 bits), and
 * which character; bit 1: inserted instead of replaced. Bit 2: only keys are needed.
 * Beyond the sanitizers these must hold: what is accepted can be serialised, prints, and reads back as what
 * prints the same; what is refused says why and leaves zeros.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample.h"
#include "tools/json.h"

#define REQUIRE(condition)                                                              \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

#define SHAPE(name) extern const struct apus_type name##_type;
#include "shapes_table.h"
#undef SHAPE

static const struct apus_type *const types[] = {
#define SHAPE(name) &name##_type,
#include "shapes_table.h"
};
#define TYPE_COUNT (sizeof(types) / sizeof(types[0]))
#define ROOM       65536

static _Alignas(16) uint8_t sample[ROOM], again[ROOM], arena[ROOM], other_arena[2 * ROOM];
static uint8_t payload[4 * ROOM];
static char printed[16 * ROOM], reprinted[16 * ROOM], room[16 * ROOM];

static void check(const struct apus_type *type, const char *text, bool key_only)
{
	char error[64];
	int rc = json_to_sample(type, text, key_only, sample, arena, sizeof(arena), error,
				sizeof(error));

	REQUIRE(rc >= 0 || rc == APUS_EINVAL || rc == APUS_ELIMIT);
	if (rc < 0) {
		REQUIRE(error[0] != '\0' && strlen(error) < sizeof(error));
		for (size_t i = 0; i < type->size_bytes; i++)
			REQUIRE(sample[i] == 0);
		return;
	}
	REQUIRE(apus_type_encode(type, sample, APUS_XCDR2, key_only, payload, sizeof(payload)) > 0);
	REQUIRE(sample_to_json(type, sample, key_only, printed, sizeof(printed)) > 0);
	REQUIRE(json_to_sample(type, printed, key_only, again, other_arena, sizeof(other_arena),
			       error, sizeof(error)) >= 0);
	REQUIRE(sample_to_json(type, again, key_only, reprinted, sizeof(reprinted)) > 0);
	REQUIRE(strcmp(printed, reprinted) == 0);
}

/* The text of a sample with some changes, in `room`. */
static void make(const struct apus_type *type, unsigned int options, const uint8_t *data,
		 size_t bytes)
{
	struct sample_random random = {.arena = arena, .bytes = sizeof(arena)};
	size_t n;

	memcpy(&random.state, data, 4);
	memset(sample, 0, type->size_bytes);
	sample_fill(&random, type, sample);
	n = (size_t)sample_to_json(type, sample, false, room, sizeof(room) / 2);
	for (data += 4, bytes -= 4; bytes >= 3 && n < sizeof(room) - 1; data += 3, bytes -= 3) {
		size_t at = (data[0] | (size_t)data[1] << 8) % n;

		if (options & 2)
			memmove(room + at + 1, room + at, ++n - at);
		room[at] = (char)data[2];
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const struct apus_type *type;
	char *text;

	if (bytes < 6)
		return 0;
	type = types[data[0] % TYPE_COUNT];
	REQUIRE(type->size_bytes <= sizeof(sample));
	if (data[1] & 1) {
		text = malloc(bytes - 1);
		memcpy(text, data + 2, bytes - 2);
		text[bytes - 2] = '\0';
	} else {
		make(type, data[1], data + 2, bytes - 2);
		text = strdup(room);
	}
	check(type, text, (data[1] & 4) && apus_type_is_keyed(type));
	free(text);
	return 0;
}
