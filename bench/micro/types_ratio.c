/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Apus' serialiser beside Cyclone's, in turns: for each type and direction every way takes its turn in
 * each round, so that whatever disturbs the machine disturbs all of them. Printed are the medians of
 * CPU time a sample, and the median and quartiles over the rounds of Cyclone's time by ours.
 *
 * Ways: apus        apus_type_encode() and apus_type_decode()
 *       fixed       what apus_write() does instead for a fixed layout: the comparison and the copy
 *       view        apus_type_view()
 *       straight    what generated code would do (types_straight.c)
 *       cyclone     dds_stream_write_sample() behind an encapsulation header; dds_stream_normalize() and dds_stream_read_sample()
 *       apus+key    serialised or read, and the key found: all that a write or take does of this
 *       cyclone+key ddsi_serdata_from_sample(); ddsi_serdata_from_ser_iov() and to_sample: the same there
 *
 * Usage: types_ratio [ROUNDS]     default 300
 */
#include "bench/cpu.h"
#include "bench/micro/types_subjects.h"
#include "wire/fixed.h"
#include "wire/key.h"

#include <dds/ddsi/q_freelist.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS_MAX 10000
#define WAYS_MAX   8

/* Payloads lie as in the slots of the data plane: what is behind the encapsulation header begins a cache line. */
static _Alignas(64) uint8_t slot[60 + SUBJECT_ROOM], arena[SUBJECT_ROOM], back[4096];
static uint8_t *const out = slot + 60;
static struct apus_wire_keyplan plan;
static struct apus_wire_fixed fixed;
static dds_ostream_t stream;
static uint8_t header[4]; /* of Cyclone's payloads */
static struct serdatapool pool;

/* Keeps the compiler from dropping what nobody reads. */
static inline void use_memory(const void *p)
{
	__asm__ volatile("" : : "r"(p) : "memory");
}

static void require(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "types_ratio: %s\n", what);
	exit(1);
}

static inline void encode_fixed_one(const struct subject *t)
{
	apus_wire_fixed_encode(&fixed, t->sample, out, SUBJECT_ROOM);
	use_memory(out);
}

static inline void encode_apus_one(const struct subject *t)
{
	apus_type_encode(t->type, t->sample, t->representation, false, out, SUBJECT_ROOM);
	use_memory(out);
}

static inline void encode_straight_one(const struct subject *t)
{
	struct straight o = {.base = out + 4, .end = SUBJECT_ROOM - 4};

	straight_encode[t - subjects](&o, t->sample);
	use_memory(out);
}

static inline void encode_cyclone_one(const struct subject *t)
{
	memcpy(header, t->payload, sizeof(header)); /* its serdata has it in front of the body */
	use_memory(header);
	stream.m_index = 0;
	stream.m_xcdr_version = subject_xcdr_version(t);
	dds_stream_write_sample(&stream, t->theirs, &t->sertype);
	use_memory(stream.m_buffer);
}

static inline void encode_apus_key_one(const struct subject *t)
{
	uint8_t key[256];

	encode_apus_one(t);
	apus_wire_key_from_sample(&plan, t->sample, key, sizeof(key));
	use_memory(key);
}

static inline void encode_cyclone_key_one(const struct subject *t)
{
	struct ddsi_serdata *d = ddsi_serdata_from_sample(&t->sertype.c, SDK_DATA, t->theirs);

	use_memory(d);
	ddsi_serdata_unref(d);
}

static inline void decode_apus_one(const struct subject *t)
{
	apus_type_decode(t->type, t->payload, (size_t)t->payload_bytes, false, back, arena,
			 SUBJECT_ROOM);
	use_memory(back);
}

static inline void decode_view_one(const struct subject *t)
{
	apus_type_view(t->type, t->payload, (size_t)t->payload_bytes, false, back, arena,
		       SUBJECT_ROOM);
	use_memory(back);
}

static inline void decode_straight_one(const struct subject *t)
{
	struct straight in = {.base = (uint8_t *)(uintptr_t)t->payload + 4,
			      .end = subject_body_bytes(t)};
	struct straight room = {.base = arena, .end = SUBJECT_ROOM};

	straight_decode[t - subjects](&in, back, &room);
	use_memory(back);
}

static inline void decode_cyclone_one(const struct subject *t)
{
	const uint32_t bytes = subject_body_bytes(t), version = subject_xcdr_version(t);
	void *body = (void *)(uintptr_t)(t->payload + 4);
	uint32_t actual;
	dds_istream_t in;

	if (!dds_stream_normalize(body, bytes, false, version, &t->sertype, false, &actual))
		return;
	dds_istream_init(&in, bytes, body, version);
	dds_stream_read_sample(&in, t->theirs, &t->sertype);
	use_memory(t->theirs);
}

static inline void decode_apus_key_one(const struct subject *t)
{
	uint8_t key[256];

	apus_wire_key_extract(&plan, t->payload, (size_t)t->payload_bytes, false, key, sizeof(key));
	use_memory(key);
	decode_apus_one(t);
}

static inline void decode_cyclone_key_one(const struct subject *t)
{
	ddsrt_iovec_t iov = {.iov_base = (void *)(uintptr_t)t->payload,
			     .iov_len = (size_t)t->payload_bytes};
	struct ddsi_serdata *d = ddsi_serdata_from_ser_iov(&t->sertype.c, SDK_DATA, 1, &iov,
							   (size_t)t->payload_bytes);

	ddsi_serdata_to_sample(d, t->theirs, NULL, NULL);
	use_memory(t->theirs);
	ddsi_serdata_unref(d);
}

/* One way, many times: the loop is part of the way, so that a call through a pointer is not. */
static void encode_fixed(const struct subject *t, int turns)
{
	while (turns-- > 0)
		encode_fixed_one(t);
}

static void encode_apus(const struct subject *t, int turns)
{
	while (turns-- > 0)
		encode_apus_one(t);
}

static void encode_straight(const struct subject *t, int turns)
{
	while (turns-- > 0)
		encode_straight_one(t);
}

static void encode_cyclone(const struct subject *t, int turns)
{
	while (turns-- > 0)
		encode_cyclone_one(t);
}

static void encode_apus_key(const struct subject *t, int turns)
{
	while (turns-- > 0)
		encode_apus_key_one(t);
}

static void encode_cyclone_key(const struct subject *t, int turns)
{
	while (turns-- > 0)
		encode_cyclone_key_one(t);
}

static void decode_apus(const struct subject *t, int turns)
{
	while (turns-- > 0)
		decode_apus_one(t);
}

static void decode_view(const struct subject *t, int turns)
{
	while (turns-- > 0)
		decode_view_one(t);
}

static void decode_straight(const struct subject *t, int turns)
{
	while (turns-- > 0)
		decode_straight_one(t);
}

static void decode_cyclone(const struct subject *t, int turns)
{
	while (turns-- > 0)
		decode_cyclone_one(t);
}

static void decode_apus_key(const struct subject *t, int turns)
{
	while (turns-- > 0)
		decode_apus_key_one(t);
}

static void decode_cyclone_key(const struct subject *t, int turns)
{
	while (turns-- > 0)
		decode_cyclone_key_one(t);
}

struct way {
	const char *name;
	void (*run)(const struct subject *t, int turns);
};

static const struct way encoders[] = {{"apus", encode_apus},
				      {"fixed", encode_fixed},
				      {"straight", encode_straight},
				      {"cyclone", encode_cyclone},
				      {"apus+key", encode_apus_key},
				      {"cyclone+key", encode_cyclone_key},
				      {NULL, NULL}};
static const struct way decoders[] = {{"apus", decode_apus},
				      {"view", decode_view},
				      {"straight", decode_straight},
				      {"cyclone", decode_cyclone},
				      {"apus+key", decode_apus_key},
				      {"cyclone+key", decode_cyclone_key},
				      {NULL, NULL}};

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double times[WAYS_MAX][ROUNDS_MAX];

static double median(const double *values, int rounds)
{
	static double sorted[ROUNDS_MAX];

	memcpy(sorted, values, sizeof(double) * (size_t)rounds);
	qsort(sorted, (size_t)rounds, sizeof(double), compare);
	return sorted[rounds / 2];
}

/* Of Cyclone's time by ours, round by round: median and quartiles. */
static void print_ratio(const struct way *ways, const char *ours, const char *theirs, int rounds)
{
	static double ratios[ROUNDS_MAX];
	int a = 0, b = 0;

	while (strcmp(ways[a].name, ours) != 0)
		a++;
	while (strcmp(ways[b].name, theirs) != 0)
		b++;
	for (int i = 0; i < rounds; i++)
		ratios[i] = times[b][i] / times[a][i];
	qsort(ratios, (size_t)rounds, sizeof(double), compare);
	printf("  %s/%s %.2f (%.2f-%.2f)", theirs, ours, ratios[rounds / 2], ratios[rounds / 4],
	       ratios[rounds * 3 / 4]);
}

/* True if the way is one for this type. */
static bool applies(const struct subject *t, const char *way)
{
	if (strcmp(way, "straight") == 0)
		return t - subjects < SUBJECT_STRAIGHT_COUNT;
	return strcmp(way, "fixed") != 0 || fixed.payload_bytes;
}

static void shuffle(int *order, int count)
{
	static uint64_t state = 1;

	for (int i = count - 1; i > 0; i--) {
		int j, t = order[i];

		state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		j = (int)((state >> 33) % (uint64_t)(i + 1));
		order[i] = order[j];
		order[j] = t;
	}
}

static void measure(const struct subject *t, const char *what, const struct way *ways, int rounds)
{
	const int turns = t->batch;
	const bool is_fixed = fixed.payload_bytes && ways == encoders;
	int count = 0, order[WAYS_MAX];

	while (ways[count].name) {
		order[count] = count;
		count++;
	}
	/* A new order each round: who comes after whom decides what the caches hold. */
	for (int round = -3; round < rounds; round++) {
		shuffle(order, count);
		for (int k = 0; k < count; k++) {
			int w = order[k];
			double start;

			if (!applies(t, ways[w].name))
				continue;
			start = now_ns();
			ways[w].run(t, turns);
			if (round >= 0)
				times[w][round] = (now_ns() - start) / turns;
		}
	}
	printf("%-6s %s:", t->name, what);
	for (int w = 0; ways[w].name; w++)
		if (applies(t, ways[w].name))
			printf("  %s %.1f", ways[w].name, median(times[w], rounds));
	printf(" ns\n             ");
	print_ratio(ways, "apus", "cyclone", rounds);
	print_ratio(ways, "apus+key", "cyclone+key", rounds);
	if (is_fixed) {
		printf("\n             ");
		print_ratio(ways, "fixed", "cyclone", rounds);
		print_ratio(ways, "fixed", "cyclone+key", rounds);
	}
	printf("\n");
}

/* A pool of serdata as ddsi_serdatapool_new() makes it, which the library does not export. */
static void init_pool(void)
{
	struct nn_freelist *f = &pool.freelist;

	for (int i = 0; i < NN_FREELIST_NPAR; i++) {
		ddsrt_mutex_init(&f->inner[i].lock);
		f->inner[i].m = calloc(1, sizeof(*f->inner[i].m));
	}
	ddsrt_mutex_init(&f->lock);
	f->max = 8192;
	f->linkoff = offsetof(struct ddsi_serdata_default, next);
}

static void init_sertype(struct subject *t)
{
	struct ddsi_sertype_default *st = &t->sertype;

	ddsi_sertype_init(&st->c, t->desc->m_typename, &ddsi_sertype_ops_default,
			  t->representation == APUS_XCDR1 ? &ddsi_serdata_ops_cdr
							  : &ddsi_serdata_ops_xcdr2,
			  false);
	st->serpool = &pool;
	st->write_encoding_version = (uint16_t)subject_xcdr_version(t);
	st->encoding_format = (uint16_t)t->type->extensibility; /* the same order */
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 300;
	char cpu[128];

	require(rounds > 0 && rounds <= ROUNDS_MAX, "1 to 10000 rounds");
	subjects_prepare();
	dds_ostream_init(&stream, SUBJECT_ROOM, 1);
	init_pool();
	cpu_model(cpu, sizeof(cpu));
	printf("CPU ns a sample, medians of %d rounds; ratios: median (quartiles). %s\n", rounds,
	       cpu);
	for (int i = 0; i < SUBJECT_COUNT; i++) {
		struct subject *t = &subjects[i];

		require(apus_wire_keyplan_init(&plan, t->type, 0) == 0, "no key plan");
		init_sertype(t);
		fixed = apus_wire_fixed_of(t->type, t->representation);
		measure(t, "write", encoders, rounds);
		measure(t, "read ", decoders, rounds);
	}
	return 0;
}
