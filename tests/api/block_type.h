/* SPDX-License-Identifier: Apache-2.0 */
/* A keyed type of 4 KiB whose memory image is its CDR: samples of it can be lent. */
#ifndef APUS_TESTS_API_BLOCK_TYPE_H
#define APUS_TESTS_API_BLOCK_TYPE_H

#include <apus/type.h>

#define DATA 4088

struct block {
	uint32_t id, number;
	uint8_t data[DATA];
};

static const struct apus_type octets = {.kind = APUS_KIND_ARRAY,
					.size_bytes = DATA,
					.align_bytes = 1,
					.bound = DATA,
					.element = &apus_type_octet};
static const struct apus_member members[] = {
	{.name = "id", .type = &apus_type_uint32, .offset_bytes = 0, .id = 0, .key = true},
	{.name = "number", .type = &apus_type_uint32, .offset_bytes = 4, .id = 1},
	{.name = "data", .type = &octets, .offset_bytes = 8, .id = 2},
};
static const struct apus_type block_type = {.name = "Block",
					    .kind = APUS_KIND_STRUCT,
					    .size_bytes = sizeof(struct block),
					    .align_bytes = 4,
					    .members = members,
					    .member_count = 3,
					    .plain_xcdr1 = true,
					    .plain_xcdr2 = true};

#endif
