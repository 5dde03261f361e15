/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serialisation programs: a type as a flat list of steps (enum apus_op_code), made once from its
 * descriptor. Nested structs are dissolved, numbers that lie together in memory and on the wire are
 * one copy, alignment is known where it can be.
 *
 * A program is an accelerator, never a second opinion: it writes the bytes the walk over the
 * descriptor writes; reading, it accepts only what the walk accepts, and whatever it does not accept
 * the walk judges from the start. Programs handle samples in the host's byte order, whole.
 */
#ifndef APUS_WIRE_PROGRAM_H
#define APUS_WIRE_PROGRAM_H

#include "wire/coder.h"

/** Most collections and appendable structs open at once: the type's own nesting. */
#define APUS_WIRE_OPS_DEPTH_MAX APUS_WIRE_TYPE_DEPTH_MAX

/** True if `ops` are the steps apus_type_program() makes of the type. Pure. */
bool apus_wire_program_is_of(const struct apus_op *ops, const struct apus_type *type,
			     int representation);

/**
 * Runs a program of a type that was checked: writes the body of `sample` from e->pos on. Returns 0
 * or what apus_type_encode() returns. `e` is in native order, not key-only, at the body's start.
 */
int apus_wire_program_encode(const struct apus_op *ops, struct apus_wire_encoder *e,
			     const void *sample);

/**
 * The same, reading the body from its start. False: not accepted, and the walk must judge; `sample`
 * and the arena are undefined then. True: everything but padding is written, and `d->c.pos` is
 * behind the last member.
 */
bool apus_wire_program_decode(const struct apus_op *ops, struct apus_wire_decoder *d, void *sample);

#endif
