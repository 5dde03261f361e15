/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types that types_bench and types_ratio measure, a sample of each, and what each side needs to
 * serialise it.
 */
#ifndef BENCH_MICRO_TYPES_SUBJECTS_H
#define BENCH_MICRO_TYPES_SUBJECTS_H

#include "bench_types_apus.h"

#include <dds/dds.h>
#include <dds/ddsi/ddsi_cdrstream.h>
#include <dds/ddsi/ddsi_serdata_default.h>
#include <dds/ddsi/ddsi_sertype.h>

/** Bytes of every buffer; more than the largest payload. */
#define SUBJECT_ROOM (2 * 1024 * 1024)
/** Shape, tick, robot, image. */
#define SUBJECT_COUNT 4
/** Those with straight-line code: all but the image. */
#define SUBJECT_STRAIGHT_COUNT 3

/** One type, and the sample both sides serialise. */
struct subject {
	const char *name;
	const struct apus_type *type;
	const void *sample;
	int representation;
	const dds_topic_descriptor_t *desc;
	struct ddsi_sertype_default sertype;
	void *theirs;           /* the sample as Cyclone holds it */
	int batch;              /* turns that take some microseconds at least */
	const uint8_t *payload; /* by Apus */
	int payload_bytes;
};

extern struct subject subjects[SUBJECT_COUNT];

/** Fills everything in. */
void subjects_prepare(void);

/** Bytes of a payload's body, and Cyclone's name of its representation. */
uint32_t subject_body_bytes(const struct subject *t);
uint32_t subject_xcdr_version(const struct subject *t);

/** Where straight-line code writes. */
struct straight {
	uint8_t *base;
	size_t pos, end;
};

/** Straight-line code of the first types, as a generator would write it: bounds checked, native order,
 *  the body only. */
extern bool (*const straight_encode[SUBJECT_STRAIGHT_COUNT])(struct straight *o,
							     const void *sample);
/** The same, reading: `o` is the body, `arena` what does not fit into the sample. */
extern bool (*const straight_decode[SUBJECT_STRAIGHT_COUNT])(struct straight *o, void *sample,
							     struct straight *arena);

#endif
