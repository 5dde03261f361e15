/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serialising and deserialising types generated from IDL, by Apus and by Cyclone DDS in one program
 * and into the same memory: a ShapeType, a tick of fixed layout, a robot's state of 1 KiB, an image of
 * 1 MB. Each side writes into a buffer that is large enough from the start. Reading includes the check
 * of the bytes: Apus has one pass for both, Cyclone normalises first. encode/straight is the code a
 * generator would write for each type instead of walking a descriptor. Labels: <type>/<side>.
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

/* ---- what generated code would be: straight-line, bounds checked, native order ---- */

struct straight {
	uint8_t *base;
	size_t pos, end;
};

static inline bool straight_align(struct straight *o, size_t align)
{
	size_t gap = -o->pos & (align - 1);

	if (gap > o->end - o->pos)
		return false;
	for (; gap; gap--)
		o->base[o->pos++] = 0;
	return true;
}

#define STRAIGHT(o, align, value)                                            \
	(straight_align(o, align) && sizeof(value) <= (o)->end - (o)->pos && \
	 (memcpy((o)->base + (o)->pos, &(value), sizeof(value)), (o)->pos += sizeof(value), true))

static inline bool straight_string(struct straight *o, const char *chars, size_t bound)
{
	size_t length = bound ? strnlen(chars, bound + 1) : strlen(chars);
	uint32_t bytes = (uint32_t)length + 1;

	if ((bound && length > bound) || !STRAIGHT(o, 4, bytes) || bytes > o->end - o->pos)
		return false;
	memcpy(o->base + o->pos, chars, bytes);
	o->pos += bytes;
	return true;
}

static bool straight_shape(struct straight *o, const void *sample)
{
	const struct bench_Shape *v = sample;

	return straight_string(o, v->color, 128) && STRAIGHT(o, 4, v->x) && STRAIGHT(o, 4, v->y) &&
	       STRAIGHT(o, 4, v->shapesize);
}

static bool straight_tick(struct straight *o, const void *sample)
{
	const struct bench_Tick *v = sample;

	return STRAIGHT(o, 8, *v);
}

static bool straight_joints(struct straight *o, const struct apus_sequence *v)
{
	const struct bench_Joint *j = v->data;
	uint32_t zero = 0, bytes;
	size_t start;

	if (v->length > 16 || !STRAIGHT(o, 4, zero))
		return false;
	start = o->pos;
	if (!STRAIGHT(o, 4, v->length))
		return false;
	for (uint32_t i = 0; i < v->length; i++)
		if (!straight_string(o, j[i].name, 0) || !STRAIGHT(o, 4, j[i].position) ||
		    !STRAIGHT(o, 4, j[i].velocity) || !STRAIGHT(o, 4, j[i].effort))
			return false;
	bytes = (uint32_t)(o->pos - start);
	memcpy(o->base + start - 4, &bytes, 4);
	return true;
}

static bool straight_floats(struct straight *o, const struct apus_sequence *v)
{
	if (!STRAIGHT(o, 4, v->length) || v->length > (o->end - o->pos) / 4)
		return false;
	memcpy(o->base + o->pos, v->data, v->length * (size_t)4);
	o->pos += v->length * (size_t)4;
	return true;
}

static bool straight_warnings(struct straight *o, const struct apus_sequence *v)
{
	char *const *strings = v->data;
	uint32_t zero = 0, bytes;
	size_t start;

	if (!STRAIGHT(o, 4, zero))
		return false;
	start = o->pos;
	if (!STRAIGHT(o, 4, v->length))
		return false;
	for (uint32_t i = 0; i < v->length; i++)
		if (!straight_string(o, strings[i], 0))
			return false;
	bytes = (uint32_t)(o->pos - start);
	memcpy(o->base + start - 4, &bytes, 4);
	return true;
}

static bool straight_robot(struct straight *o, const void *sample)
{
	const struct bench_Robot *v = sample;
	uint32_t zero = 0, bytes;
	uint8_t enabled = v->enabled;

	if (!STRAIGHT(o, 4, zero) || !straight_string(o, v->name, 32) ||
	    !STRAIGHT(o, 4, v->stamp_ns) || !STRAIGHT(o, 4, v->state) || !STRAIGHT(o, 4, v->base) ||
	    !straight_joints(o, &v->joints) || !straight_floats(o, &v->ranges) ||
	    !straight_warnings(o, &v->warnings) || !STRAIGHT(o, 1, enabled))
		return false;
	bytes = (uint32_t)o->pos - 4;
	memcpy(o->base, &bytes, 4);
	return true;
}

static void encode_straight(struct bench_state *s)
{
	static bool (*const all[])(struct straight *,
				   const void *) = {straight_shape, straight_tick, straight_robot};
	const struct subject *t = subject_of(s);
	bool (*run)(struct straight *, const void *) = all[bench_range(s, 0)];
	struct straight o = {.base = out + 4, .end = ROOM - 4};
	uint32_t bytes = body_bytes(encoded(t));

	if (!run(&o, t->sample) || o.pos != bytes || memcmp(out + 4, payload + 4, bytes) != 0) {
		bench_skip(s, "the bytes differ");
		return;
	}
	while (bench_keep_running_batch(s, t->batch))
		for (int i = 0; i < t->batch; i++) {
			o.pos = 0;
			out[0] = out[2] = 0;
			out[1] = (uint8_t)(t->representation == APUS_XCDR1 ? 1 : 9);
			bench_use(run(&o, t->sample));
			out[3] = (uint8_t)(-o.pos & 3);
			bench_use(straight_align(&o, 4));
			bench_use_memory(out);
		}
	report(s, t, (int)bytes + 4, "straight");
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
		   {"encode/straight", encode_straight},
		   {"encode/cyclone", encode_cyclone},
		   {"decode/apus", decode_apus},
		   {"decode/cyclone", decode_cyclone}};

	for (int i = 0; i < 8; i++)
		joints[i] = (struct bench_Joint){"joint_of_arm", i, 0.5 * i, 0.25 * i};
	for (int64_t i = 0; i < (int64_t)(sizeof(subjects) / sizeof(subjects[0])); i++) {
		prepare(&subjects[i]);
		for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++)
			if (all[k].run != encode_straight || i < 3)
				bench_args(bench_register(all[k].name, all[k].run), &i, 1);
	}
	return micro_main(argc, argv);
}
