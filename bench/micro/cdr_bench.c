/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What serialising costs, by the descriptor and without generated code: the ShapeType of the demos, a
 * 64-byte tick of fixed size (its memory is its CDR image but for the header), and a nested type with
 * every kind of member. Beside them a plain memcpy of the tick, which nothing can beat, and what finding
 * an instance's key and hash costs.
 */
#include "bench/micro/context.h"
#include "tests/wire/zoo.h"
#include "wire/cdr.h"
#include "wire/key.h"

#include <stdalign.h>

struct tick {
	int64_t time_ns;
	uint32_t instrument; /* key */
	uint32_t flags;
	double bid, ask, last;
	uint64_t volume, trades, sequence;
};

#define MEMBER(member, of, is_key)                                                             \
	{                                                                                      \
		.name = #member, .type = &(of), .offset_bytes = offsetof(struct tick, member), \
		.id = offsetof(struct tick, member), .key = (is_key)                           \
	}

static const struct apus_member tick_members[] = {
	MEMBER(time_ns, apus_type_int64, false),   MEMBER(instrument, apus_type_uint32, true),
	MEMBER(flags, apus_type_uint32, false),    MEMBER(bid, apus_type_float64, false),
	MEMBER(ask, apus_type_float64, false),     MEMBER(last, apus_type_float64, false),
	MEMBER(volume, apus_type_uint64, false),   MEMBER(trades, apus_type_uint64, false),
	MEMBER(sequence, apus_type_uint64, false),
};
static const struct apus_type tick_type = {
	.name = "Tick",
	.kind = APUS_KIND_STRUCT,
	.size_bytes = sizeof(struct tick),
	.align_bytes = alignof(struct tick),
	.members = tick_members,
	.member_count = sizeof(tick_members) / sizeof(tick_members[0]),
};
static const struct apus_type tick_plain_type = {
	.name = "Tick",
	.kind = APUS_KIND_STRUCT,
	.size_bytes = sizeof(struct tick),
	.align_bytes = alignof(struct tick),
	.plain_xcdr1 = true, /* as a generator would say */
	.plain_xcdr2 = true,
	.members = tick_members,
	.member_count = sizeof(tick_members) / sizeof(tick_members[0]),
};
_Static_assert(sizeof(struct tick) == 64, "a tick is meant to be 64 bytes");

static struct tick tick = {1700000000, 7, 1, 1.5, 1.75, 1.625, 100, 3, 42};
static struct apus_shape shape = {"RED", 10, 20, 30};
static struct zoo_nest nest;

static void encode(struct bench_state *s, const struct apus_type *type, const void *sample,
		   int representation)
{
	uint8_t out[2048];
	int n = apus_type_encode(type, sample, representation, false, out, sizeof(out));

	if (n < 0) {
		bench_skip(s, "the sample is refused");
		return;
	}
	while (bench_keep_running_batch(s, BATCH))
		for (int i = 0; i < BATCH; i++) {
			bench_use((uint64_t)apus_type_encode(type, sample, representation, false,
							     out, sizeof(out)));
			bench_use_memory(out);
		}
	bench_counter(s, "payload_bytes", n, BENCH_PLAIN);
}

static void decode(struct bench_state *s, const struct apus_type *type, const void *sample,
		   int representation)
{
	static _Alignas(16) uint8_t arena[4096], back[1024];
	uint8_t payload[2048];
	int n = apus_type_encode(type, sample, representation, false, payload, sizeof(payload));

	if (n < 0 || type->size_bytes > sizeof(back) ||
	    apus_type_decode(type, payload, (size_t)n, false, back, arena, sizeof(arena)) < 0) {
		bench_skip(s, "the payload is refused");
		return;
	}
	while (bench_keep_running_batch(s, BATCH))
		for (int i = 0; i < BATCH; i++) {
			bench_use((uint64_t)apus_type_decode(type, payload, (size_t)n, false, back,
							     arena, sizeof(arena)));
			bench_use_memory(back);
		}
	bench_counter(s, "payload_bytes", n, BENCH_PLAIN);
}

static void encode_shape(struct bench_state *s)
{
	encode(s, &apus_shape_type, &shape, APUS_XCDR1);
}

static void decode_shape(struct bench_state *s)
{
	decode(s, &apus_shape_type, &shape, APUS_XCDR1);
}

static void encode_tick(struct bench_state *s)
{
	encode(s, &tick_type, &tick, APUS_XCDR1);
}

static void decode_tick(struct bench_state *s)
{
	decode(s, &tick_type, &tick, APUS_XCDR1);
}

static void encode_plain(struct bench_state *s)
{
	encode(s, &tick_plain_type, &tick, APUS_XCDR1);
}

static void decode_plain(struct bench_state *s)
{
	decode(s, &tick_plain_type, &tick, APUS_XCDR1);
}

static void encode_nest(struct bench_state *s)
{
	encode(s, &zoo_nest_type, &nest, APUS_XCDR1);
}

static void decode_nest(struct bench_state *s)
{
	decode(s, &zoo_nest_type, &nest, APUS_XCDR1);
}

static void encode_nest_xcdr2(struct bench_state *s)
{
	encode(s, &zoo_nest_type, &nest, APUS_XCDR2);
}

static void decode_nest_xcdr2(struct bench_state *s)
{
	decode(s, &zoo_nest_type, &nest, APUS_XCDR2);
}

static void copy_tick(struct bench_state *s)
{
	uint8_t out[64];

	while (bench_keep_running_batch(s, BATCH))
		for (int i = 0; i < BATCH; i++) {
			bench_use_memory(&tick);
			memcpy(out, &tick, sizeof(tick));
			bench_use_memory(out);
		}
}

/* ---- keys ---- */

static void extract(struct bench_state *s, const struct apus_type *type, const void *sample)
{
	static struct apus_wire_keyplan plan;
	uint8_t payload[256], key[256];
	int n = apus_type_encode(type, sample, APUS_XCDR1, false, payload, sizeof(payload));

	if (n < 0 || apus_wire_keyplan_init(&plan, type, 0) != 0 ||
	    apus_wire_key_extract(&plan, payload, (size_t)n, false, key, sizeof(key)) <= 0) {
		bench_skip(s, "no key");
		return;
	}
	while (bench_keep_running_batch(s, BATCH))
		for (int i = 0; i < BATCH; i++) {
			bench_use((uint64_t)apus_wire_key_extract(&plan, payload, (size_t)n, false,
								  key, sizeof(key)));
			bench_use_memory(key);
		}
}

static void extract_shape(struct bench_state *s)
{
	extract(s, &apus_shape_type, &shape);
}

static void extract_tick(struct bench_state *s)
{
	extract(s, &tick_type, &tick);
}

static void from_sample_shape(struct bench_state *s)
{
	static struct apus_wire_keyplan plan;
	uint8_t key[256];

	if (apus_wire_keyplan_init(&plan, &apus_shape_type, 0) != 0) {
		bench_skip(s, "no key plan");
		return;
	}
	while (bench_keep_running_batch(s, BATCH))
		for (int i = 0; i < BATCH; i++) {
			bench_use((uint64_t)apus_wire_key_from_sample(&plan, &shape, key,
								      sizeof(key)));
			bench_use_memory(key);
		}
}

static void hash_shape(struct bench_state *s)
{
	static struct apus_wire_keyplan plan;
	uint8_t key[256], hash[16];
	int n = 0;

	if (apus_wire_keyplan_init(&plan, &apus_shape_type, 0) == 0)
		n = apus_wire_key_from_sample(&plan, &shape, key, sizeof(key));
	if (n <= 0) {
		bench_skip(s, "no key");
		return;
	}
	while (bench_keep_running_batch(s, BATCH))
		for (int i = 0; i < BATCH; i++) {
			apus_wire_key_hash(&plan, key, (size_t)n, hash);
			bench_use_memory(hash);
		}
}

int main(int argc, char **argv)
{
	zoo_fill_nest(&nest);
	bench_register("cdr/encode/shape", encode_shape);
	bench_register("cdr/encode/tick64", encode_tick);
	bench_register("cdr/encode/tick64_plain", encode_plain);
	bench_register("cdr/encode/nest", encode_nest);
	bench_register("cdr/encode/nest_xcdr2", encode_nest_xcdr2);
	bench_register("cdr/decode/shape", decode_shape);
	bench_register("cdr/decode/tick64", decode_tick);
	bench_register("cdr/decode/tick64_plain", decode_plain);
	bench_register("cdr/decode/nest", decode_nest);
	bench_register("cdr/decode/nest_xcdr2", decode_nest_xcdr2);
	bench_register("cdr/memcpy/tick64", copy_tick);
	bench_register("key/extract/shape", extract_shape);
	bench_register("key/extract/tick64", extract_tick);
	bench_register("key/from_sample/shape", from_sample_shape);
	bench_register("key/hash_md5/shape", hash_shape);
	return micro_main(argc, argv);
}
