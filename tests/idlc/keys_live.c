/* SPDX-License-Identifier: Apache-2.0 */
/* See keys_live.h. */
#include "keys_live.h"

#include <apus/apus.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sample.h"
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

#define ROOM 4096

/* One chosen shape. */
struct shape {
	unsigned int index;
	struct apus_wire_keyplan plan;
	struct apus_reader *reader;
	_Alignas(16) uint8_t samples[KEYS_LIVE_SAMPLES][ROOM];
	_Alignas(16) uint8_t arenas[KEYS_LIVE_SAMPLES][ROOM];
	apus_instance handles[KEYS_LIVE_SAMPLES];
	uint8_t states[KEYS_LIVE_SAMPLES];
};

static struct apus_participant *participant;
static struct shape *chosen[SHAPE_COUNT];
static unsigned int chosen_count, failures;

static void must(int result, const char *what)
{
	if (result >= 0)
		return;
	fprintf(stderr, "keys: %s: %s\n", what, apus_strerror(result));
	exit(3);
}

static void fail(const struct shape *s, const char *what)
{
	failures++;
	fprintf(stderr, "%s: %s\n", shapes[s->index].name, what);
}

static size_t key_of(const struct shape *s, unsigned int n, uint8_t *key)
{
	int bytes = apus_wire_key_from_sample(&s->plan, s->samples[n], key,
					      APUS_WIRE_KEY_LIMIT_DEFAULT);

	must(bytes, "key");
	return (size_t)bytes;
}

static bool key_is_new(const struct shape *s, unsigned int n)
{
	uint8_t mine[APUS_WIRE_KEY_LIMIT_DEFAULT], other[APUS_WIRE_KEY_LIMIT_DEFAULT];
	size_t bytes = key_of(s, n, mine);

	for (unsigned int i = 0; i < n; i++)
		if (key_of(s, i, other) == bytes && memcmp(mine, other, bytes) == 0)
			return false;
	return true;
}

static void fill(struct shape *s, struct sample_random *random)
{
	for (unsigned int n = 0; n < KEYS_LIVE_SAMPLES; n++) {
		random->arena = s->arenas[n];
		random->bytes = ROOM;
		do {
			memset(s->samples[n], 0, ROOM);
			sample_fill(random, shapes[s->index].type, s->samples[n]);
		} while (!key_is_new(s, n));
	}
}

static void choose(unsigned int index, struct sample_random *random)
{
	struct shape *s = calloc(1, sizeof(*s));
	struct apus_qos qos;
	struct apus_endpoint_options options = {
		.topic = shapes[index].name, .type = shapes[index].type, .qos = &qos};

	apus_qos_reader_default(&qos);
	qos.reliability = APUS_RELIABLE;
	qos.history = APUS_KEEP_ALL;
	qos.max_samples = qos.max_instances = qos.max_samples_per_instance = 16;
	qos.max_sample_bytes = ROOM;
	s->index = index;
	must(apus_wire_keyplan_init(&s->plan, shapes[index].type, 0), "plan");
	fill(s, random);
	must(apus_reader_create(participant, &options, &s->reader), shapes[index].name);
	chosen[chosen_count++] = s;
}

unsigned int keys_live_begin(char suffix)
{
	struct sample_random random = {.state = 11};
	char why[256] = "";

	must(apus_participant_create(NULL, &participant, why, sizeof(why)), why);
	for (unsigned int i = 0; i < SHAPE_COUNT; i++) {
		const char *name = shapes[i].name;

		if (apus_type_is_keyed(shapes[i].type) && name[strlen(name) - 1] == suffix)
			choose(i, &random);
	}
	return chosen_count;
}

const char *keys_live_topic(unsigned int i)
{
	return shapes[chosen[i]->index].name;
}

const struct apus_type *keys_live_type(unsigned int i)
{
	return shapes[chosen[i]->index].type;
}

unsigned int keys_live_index(unsigned int i)
{
	return chosen[i]->index;
}

const void *keys_live_sample(unsigned int i, unsigned int n)
{
	return chosen[i]->samples[n];
}

/* ---- taking ------------------------------------------------------------------------------------ */

static void note_data(struct shape *s, const struct apus_sample *taken)
{
	static _Alignas(16) uint8_t copy[ROOM], arena[ROOM];
	const struct apus_type *type = shapes[s->index].type;

	if (apus_type_decode(type, taken->payload, taken->payload_bytes, false, copy, arena, ROOM) <
	    0) {
		fail(s, "a sample does not decode");
		return;
	}
	for (unsigned int n = 0; n < KEYS_LIVE_SAMPLES; n++)
		if (sample_equal(type, copy, s->samples[n]))
			s->handles[n] = taken->info.instance;
}

static void note_state(struct shape *s, const struct apus_sample *taken)
{
	for (unsigned int n = 0; n < KEYS_LIVE_SAMPLES; n++) {
		if (s->handles[n] == taken->info.instance) {
			s->states[n] = taken->info.instance_state;
			return;
		}
	}
	fail(s, "a notice for an instance without a sample");
}

static void take(struct shape *s)
{
	struct apus_sample taken[8];
	int count = apus_take(s->reader, taken, 8, NULL);

	must(count, "take");
	for (int i = 0; i < count; i++) {
		if (taken[i].info.valid_data)
			note_data(s, &taken[i]);
		else
			note_state(s, &taken[i]);
	}
	if (count)
		must(apus_return(s->reader, taken, (uint32_t)count), "return");
}

static bool is_done(const struct shape *s)
{
	return s->handles[0] && s->states[1] && s->states[2];
}

static void print_hashes(const struct shape *s)
{
	for (unsigned int n = 0; n < KEYS_LIVE_SAMPLES; n++) {
		uint8_t key[APUS_WIRE_KEY_LIMIT_DEFAULT], hash[2][16];
		size_t bytes = key_of(s, n, key);

		apus_wire_key_hash(&s->plan, key, bytes, hash[0]);
		apus_wire_key_hash_fast(&s->plan, key, bytes, hash[1]);
		printf("{\"shape\":\"%s\",\"n\":%u,\"key_bytes\":%zu", shapes[s->index].name, n,
		       bytes);
		for (int form = 0; form < 2; form++) {
			printf(",\"%s\":\"", form ? "fast" : "rule");
			for (int i = 0; i < 16; i++)
				printf("%02x", hash[form][i]);
			printf("\"");
		}
		printf(",\"key\":\"");
		for (size_t i = 0; i < bytes; i++)
			printf("%02x", key[i]);
		printf("\"}\n");
	}
}

static void judge(const struct shape *s)
{
	for (unsigned int n = 0; n < KEYS_LIVE_SAMPLES; n++)
		if (!s->handles[n])
			fail(s, "a sample is missing");
	if (s->handles[0] == s->handles[1] || s->handles[1] == s->handles[2] ||
	    s->handles[0] == s->handles[2])
		fail(s, "two samples of one instance");
	if (s->states[0])
		fail(s, "a notice for the instance that has none");
	if (s->states[1] != APUS_STATE_DISPOSED)
		fail(s, "the dispose is missing");
	if (s->states[2] != APUS_STATE_DISPOSED && s->states[2] != APUS_STATE_NO_WRITERS)
		fail(s, "the unregister is missing");
	print_hashes(s);
}

int keys_live_finish(void)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	bool done = false;

	for (int turns = 0; turns < 1000 && !done; turns++) {
		done = true;
		for (unsigned int i = 0; i < chosen_count; i++) {
			take(chosen[i]);
			done &= is_done(chosen[i]);
		}
		nanosleep(&pause, NULL);
	}
	for (unsigned int i = 0; i < chosen_count; i++)
		judge(chosen[i]);
	apus_participant_destroy(participant);
	fprintf(stderr, "%u shapes, %u failures\n", chosen_count, failures);
	return failures ? 1 : 0;
}
