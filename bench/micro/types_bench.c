/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serialising and deserialising types generated from IDL, by Apus and by Cyclone DDS in one program
 * and into the same memory: a ShapeType, a tick of fixed layout, a robot's state of 1 KiB, an image of
 * 1 MB. Each side writes into a buffer that is large enough from the start. Reading includes the check
 * of the bytes: Apus has one pass for both, Cyclone normalises first. "straight" is the code a generator
 * would write for each type. Labels: <type>/<side>. Side by side, in turns: types_ratio.
 */
#include "bench/micro/context.h"
#include "bench/micro/types_subjects.h"

#include <stdio.h>
#include <string.h>

#include "bench/shim/bench.h"

static _Alignas(64) uint8_t out[SUBJECT_ROOM], arena[SUBJECT_ROOM], back[4096];

static const struct subject *subject_of(const struct bench_state *s)
{
	return &subjects[bench_range(s, 0)];
}

static void report(struct bench_state *s, const struct subject *t, int bytes, const char *side)
{
	char label[64];

	snprintf(label, sizeof(label), "%s/%s", t->name, side);
	bench_label(s, label);
	bench_counter(s, "payload_bytes", bytes, BENCH_PLAIN);
}

static void encode_apus(struct bench_state *s)
{
	const struct subject *t = subject_of(s);
	while (bench_keep_running_batch(s, t->batch))
		for (int i = 0; i < t->batch; i++) {
			bench_use((uint64_t)apus_type_encode(t->type, t->sample, t->representation,
							     false, out, SUBJECT_ROOM));
			bench_use_memory(out);
		}
	report(s, t, t->payload_bytes, "apus");
}

static void encode_straight(struct bench_state *s)
{
	const struct subject *t = subject_of(s);
	bool (*run)(struct straight *, const void *) = straight_encode[bench_range(s, 0)];
	struct straight o = {.base = out + 4, .end = SUBJECT_ROOM - 4};
	uint32_t bytes = subject_body_bytes(t);

	if (!run(&o, t->sample) || o.pos != bytes || memcmp(out + 4, t->payload + 4, bytes) != 0) {
		bench_skip(s, "the bytes differ");
		return;
	}
	while (bench_keep_running_batch(s, t->batch))
		for (int i = 0; i < t->batch; i++) {
			o.pos = 0;
			bench_use(run(&o, t->sample));
			bench_use_memory(out);
		}
	report(s, t, (int)bytes + 4, "straight");
}

static void encode_cyclone(struct bench_state *s)
{
	const struct subject *t = subject_of(s);
	dds_ostream_t os;

	dds_ostream_init(&os, SUBJECT_ROOM, subject_xcdr_version(t));
	while (bench_keep_running_batch(s, t->batch))
		for (int i = 0; i < t->batch; i++) {
			os.m_index = 0;
			bench_use(dds_stream_write_sample(&os, t->theirs, &t->sertype));
			bench_use_memory(os.m_buffer);
		}
	report(s, t, (int)os.m_index + 4, "cyclone");
	dds_ostream_fini(&os);
}

static void decode_apus(struct bench_state *s)
{
	const struct subject *t = subject_of(s);

	if (apus_type_decode(t->type, t->payload, (size_t)t->payload_bytes, false, back, arena,
			     SUBJECT_ROOM) < 0) {
		bench_skip(s, "the payload is refused");
		return;
	}
	while (bench_keep_running_batch(s, t->batch))
		for (int i = 0; i < t->batch; i++) {
			bench_use((uint64_t)apus_type_decode(t->type, t->payload,
							     (size_t)t->payload_bytes, false, back,
							     arena, SUBJECT_ROOM));
			bench_use_memory(back);
		}
	report(s, t, t->payload_bytes, "apus");
}

static void decode_straight(struct bench_state *s)
{
	const struct subject *t = subject_of(s);
	bool (*run)(struct straight *, void *, struct straight *) =
		straight_decode[bench_range(s, 0)];
	struct straight in = {.base = (uint8_t *)(uintptr_t)t->payload + 4,
			      .end = subject_body_bytes(t)};
	struct straight room = {.base = arena, .end = SUBJECT_ROOM};

	if (!run(&in, back, &room) || in.pos != in.end) {
		bench_skip(s, "the payload is refused");
		return;
	}
	while (bench_keep_running_batch(s, t->batch))
		for (int i = 0; i < t->batch; i++) {
			in.pos = room.pos = 0;
			bench_use(run(&in, back, &room));
			bench_use_memory(back);
		}
	report(s, t, t->payload_bytes, "straight");
}

static void decode_view(struct bench_state *s)
{
	const struct subject *t = subject_of(s);

	while (bench_keep_running_batch(s, t->batch))
		for (int i = 0; i < t->batch; i++) {
			bench_use((uint64_t)apus_type_view(t->type, t->payload,
							   (size_t)t->payload_bytes, false, back,
							   arena, SUBJECT_ROOM));
			bench_use_memory(back);
		}
	report(s, t, t->payload_bytes, "view");
}

static void decode_cyclone(struct bench_state *s)
{
	const struct subject *t = subject_of(s);
	uint32_t bytes = subject_body_bytes(t), actual;

	while (bench_keep_running_batch(s, t->batch))
		for (int i = 0; i < t->batch; i++) {
			dds_istream_t in;

			if (!dds_stream_normalize((void *)(uintptr_t)(t->payload + 4), bytes, false,
						  subject_xcdr_version(t), &t->sertype, false,
						  &actual)) {
				bench_skip(s, "the payload is refused");
				return;
			}
			dds_istream_init(&in, bytes, t->payload + 4, subject_xcdr_version(t));
			dds_stream_read_sample(&in, t->theirs, &t->sertype);
			bench_use_memory(t->theirs);
		}
	report(s, t, (int)bytes + 4, "cyclone");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(struct bench_state *);
	} all[] = {{"encode/apus", encode_apus},       {"encode/straight", encode_straight},
		   {"encode/cyclone", encode_cyclone}, {"decode/apus", decode_apus},
		   {"decode/view", decode_view},       {"decode/straight", decode_straight},
		   {"decode/cyclone", decode_cyclone}};

	subjects_prepare();
	for (int64_t i = 0; i < SUBJECT_COUNT; i++)
		for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++)
			if (i < SUBJECT_STRAIGHT_COUNT || !strstr(all[k].name, "straight"))
				bench_args(bench_register(all[k].name, all[k].run), &i, 1);
	return micro_main(argc, argv);
}
