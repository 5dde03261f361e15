/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serialising and deserialising types generated from IDL, by Apus and by Cyclone DDS in one program
 * and into the same memory: a ShapeType, a tick of fixed layout, a robot's state of 1 KiB, an image of
 * 1 MB. Each side writes into a buffer that is large enough from the start. Reading includes the check
 * of the bytes: Apus has one pass for both, Cyclone normalises first. Names: <what>/<type>/<side>.
 */
#include "bench/micro/context.h"
#include "bench_types_apus.h"

#include <dds/dds.h>
#include <dds/ddsi/ddsi_cdrstream.h>
#include <dds/ddsi/ddsi_serdata_default.h>
#include <dds/ddsi/ddsi_sertype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/shim/bench.h"

#define ROOM        (2 * 1024 * 1024)
#define IMAGE_BYTES 1000000

extern const dds_topic_descriptor_t bench_Shape_desc, bench_Tick_desc, bench_Robot_desc,
	bench_Image_desc;

static struct bench_Shape shape = {"RED", 10, 20, 30};
static struct bench_Tick tick = {1700000000, 7, 1, 1.5, 1.75, 1.625, 100, 3, 42};
static struct bench_Joint joints[8];
static float ranges[128];
static char *warnings[] = {"battery low", "odometry drift above limit"};
static struct bench_Robot robot = {
	.name = "rover-7",
	.stamp_ns = 1,
	.state = 1,
	.joints = {.length = 8, .data = joints},
	.ranges = {.length = 128, .data = ranges},
	.warnings = {.length = 2, .data = warnings},
	.enabled = true,
};
static uint8_t pixels[IMAGE_BYTES];
static struct bench_Image image = {.camera = 1,
				   .stamp_ns = 2,
				   .width = 1000,
				   .height = 1000,
				   .encoding = "mono8",
				   .data = {.length = IMAGE_BYTES, .data = pixels}};

/* One type, and the sample both sides serialise. */
struct subject {
	const char *name;
	const struct apus_type *type;
	const void *sample;
	int representation;
	const dds_topic_descriptor_t *desc;
	struct ddsi_sertype_default sertype;
	void *theirs; /* the sample as Cyclone holds it */
	int batch;
};

static struct subject subjects[] = {
	{.name = "shape", &bench_Shape_type, &shape, APUS_XCDR1, &bench_Shape_desc, .batch = BATCH},
	{.name = "tick", &bench_Tick_type, &tick, APUS_XCDR1, &bench_Tick_desc, .batch = BATCH},
	{.name = "robot", &bench_Robot_type, &robot, APUS_XCDR2, &bench_Robot_desc, .batch = 100},
	{.name = "image", &bench_Image_type, &image, APUS_XCDR1, &bench_Image_desc, .batch = 1},
};

static _Alignas(64) uint8_t payload[ROOM], out[ROOM], arena[ROOM], back[4096];

static uint32_t xcdr_version(const struct subject *t)
{
	return t->representation == APUS_XCDR1 ? 1 : 2;
}

static int encoded(const struct subject *t)
{
	return apus_type_encode(t->type, t->sample, t->representation, false, payload, ROOM);
}

static uint32_t body_bytes(int n)
{
	return (uint32_t)n - 4 - (payload[3] & 3);
}

/* What of Cyclone's type representation its serialiser looks at. */
static void prepare(struct subject *t)
{
	struct ddsi_sertype_default *st = &t->sertype;
	int n = encoded(t);
	dds_istream_t in;

	st->type.size = t->desc->m_size;
	st->type.align = t->desc->m_align;
	st->type.flagset = t->desc->m_flagset;
	st->type.ops.ops = (uint32_t *)t->desc->m_ops;
	st->type.ops.nops = dds_stream_countops(t->desc->m_ops, t->desc->m_nkeys, t->desc->m_keys);
	st->opt_size_xcdr1 = dds_stream_check_optimize(&st->type, 1);
	st->opt_size_xcdr2 = dds_stream_check_optimize(&st->type, 2);
	t->theirs = calloc(1, t->desc->m_size);
	dds_istream_init(&in, body_bytes(n), payload + 4, xcdr_version(t));
	dds_stream_read_sample(&in, t->theirs, st);
}

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
	int n = encoded(t);

	while (bench_keep_running_batch(s, t->batch))
		for (int i = 0; i < t->batch; i++) {
			bench_use((uint64_t)apus_type_encode(t->type, t->sample, t->representation,
							     false, out, ROOM));
			bench_use_memory(out);
		}
	report(s, t, n, "apus");
}

static void encode_cyclone(struct bench_state *s)
{
	const struct subject *t = subject_of(s);
	dds_ostream_t os;

	dds_ostream_init(&os, ROOM, xcdr_version(t));
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
	int n = encoded(t);

	if (apus_type_decode(t->type, payload, (size_t)n, false, back, arena, ROOM) < 0) {
		bench_skip(s, "the payload is refused");
		return;
	}
	while (bench_keep_running_batch(s, t->batch))
		for (int i = 0; i < t->batch; i++) {
			bench_use((uint64_t)apus_type_decode(t->type, payload, (size_t)n, false,
							     back, arena, ROOM));
			bench_use_memory(back);
		}
	report(s, t, n, "apus");
}

static void decode_cyclone(struct bench_state *s)
{
	const struct subject *t = subject_of(s);
	uint32_t bytes = body_bytes(encoded(t)), actual;

	while (bench_keep_running_batch(s, t->batch))
		for (int i = 0; i < t->batch; i++) {
			dds_istream_t in;

			if (!dds_stream_normalize(payload + 4, bytes, false, xcdr_version(t),
						  &t->sertype, false, &actual)) {
				bench_skip(s, "the payload is refused");
				return;
			}
			dds_istream_init(&in, bytes, payload + 4, xcdr_version(t));
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
	} all[] = {{"encode/apus", encode_apus},
		   {"encode/cyclone", encode_cyclone},
		   {"decode/apus", decode_apus},
		   {"decode/cyclone", decode_cyclone}};

	for (int i = 0; i < 8; i++)
		joints[i] = (struct bench_Joint){"joint_of_arm", i, 0.5 * i, 0.25 * i};
	for (int64_t i = 0; i < (int64_t)(sizeof(subjects) / sizeof(subjects[0])); i++) {
		prepare(&subjects[i]);
		for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++)
			bench_args(bench_register(all[k].name, all[k].run), &i, 1);
	}
	return micro_main(argc, argv);
}
