/* SPDX-License-Identifier: Apache-2.0 */
/* See types_subjects.h. */
#include "bench/micro/types_subjects.h"

#include <stdlib.h>
#include <string.h>

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

struct subject subjects[SUBJECT_COUNT] = {
	{"shape", &bench_Shape_type, &shape, APUS_XCDR1, &bench_Shape_desc, .batch = 1000},
	{"tick", &bench_Tick_type, &tick, APUS_XCDR1, &bench_Tick_desc, .batch = 1000},
	{"robot", &bench_Robot_type, &robot, APUS_XCDR2, &bench_Robot_desc, .batch = 100},
	{"image", &bench_Image_type, &image, APUS_XCDR1, &bench_Image_desc, .batch = 1},
};

uint32_t subject_xcdr_version(const struct subject *t)
{
	return t->representation == APUS_XCDR1 ? 1 : 2;
}

uint32_t subject_body_bytes(const struct subject *t)
{
	return (uint32_t)t->payload_bytes - 4 - (t->payload[3] & 3);
}

/* What of Cyclone's type representation its serialiser looks at, and its own copy of the sample. */
static void prepare(struct subject *t)
{
	struct ddsi_sertype_default *st = &t->sertype;
	/* As in a slot of the data plane: the body begins a cache line. */
	uint8_t *payload = (uint8_t *)aligned_alloc(64, 64 + SUBJECT_ROOM) + 60;
	dds_istream_t in;

	t->payload = payload;
	t->payload_bytes = apus_type_encode(t->type, t->sample, t->representation, false, payload,
					    SUBJECT_ROOM);
	st->type.size = t->desc->m_size;
	st->type.align = t->desc->m_align;
	st->type.flagset = t->desc->m_flagset;
	st->type.keys.nkeys = t->desc->m_nkeys;
	st->type.keys.keys = calloc(t->desc->m_nkeys, sizeof(*st->type.keys.keys));
	for (uint32_t i = 0; i < t->desc->m_nkeys; i++) {
		st->type.keys.keys[i].ops_offs = t->desc->m_keys[i].m_offset;
		st->type.keys.keys[i].idx = t->desc->m_keys[i].m_idx;
	}
	st->type.ops.ops = (uint32_t *)t->desc->m_ops;
	st->type.ops.nops = dds_stream_countops(t->desc->m_ops, t->desc->m_nkeys, t->desc->m_keys);
	st->opt_size_xcdr1 = dds_stream_check_optimize(&st->type, 1);
	st->opt_size_xcdr2 = dds_stream_check_optimize(&st->type, 2);
	t->theirs = calloc(1, t->desc->m_size);
	dds_istream_init(&in, subject_body_bytes(t), t->payload + 4, subject_xcdr_version(t));
	dds_stream_read_sample(&in, t->theirs, st);
}

void subjects_prepare(void)
{
	for (int i = 0; i < 8; i++)
		joints[i] = (struct bench_Joint){"joint_of_arm", i, 0.5 * i, 0.25 * i};
	for (int i = 0; i < SUBJECT_COUNT; i++)
		prepare(&subjects[i]);
}
