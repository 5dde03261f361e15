/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Type descriptors from complete TypeObjects, at run time: how tools read samples of types they were not
 * built with.
 *
 * A descriptor made here obeys every rule of <apus/type.h>, apus_type_check() included; what cannot be
 * expressed by one is refused by name. Sizes, depth and number of parts are bounded, whatever the objects
 * say.
 */
#ifndef APUS_CONTROL_TYPEBUILD_H
#define APUS_CONTROL_TYPEBUILD_H

#include "control/types.h"

/** Largest in-memory image of a type built at run time, in bytes. */
#define APUS_CTL_BUILD_IMAGE_MAX ((uint32_t)16 << 20)
/** Descriptors one type may consist of. */
#define APUS_CTL_BUILD_PARTS_MAX 4096
/** Members of a type, and of its members' types, and so on; n labels of a type count as n * n / 1024 of them. */
#define APUS_CTL_BUILD_WEIGHT_MAX 16384

struct apus_ctl_built;

/**
 * Builds the descriptor of a complete struct type, all of whose parts are known. information: what its
 * endpoints announce; it becomes the descriptor's type_information.
 * Returns 0; APUS_ENOENT (a part is not known), APUS_ENOTSUP (wstring, wchar, long double, map, bitset, types
 * that contain themselves, anything else a descriptor cannot say), APUS_ELIMIT, APUS_ENOMEM.
 */
int apus_ctl_type_build(const struct apus_ctl_types *types,
			const struct apus_wire_type_information *information,
			struct apus_ctl_built **built_out);
/** Its descriptor; lives as long as `built`. */
const struct apus_type *apus_ctl_built_type(const struct apus_ctl_built *built);
/** Frees a descriptor with all it is made of. NULL is allowed. */
void apus_ctl_built_free(struct apus_ctl_built *built);

#endif
