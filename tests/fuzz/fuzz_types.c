/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target for what others say about types: TypeInformation, TypeObjects, and messages of the
 * TypeLookup service.
 *
 * The input is tried as each of them. As a TypeObject it is learnt under its own hash, compared with itself,
 * built into a descriptor, and printed; whatever it refers to is not there, unless it is the input again: so a
 * type that contains itself is reachable. Seeds: tests/fuzz/seeds fuzz_types.
 */
#include <stdlib.h>

#include "control/assign.h"
#include "control/typebuild.h"

static void require(bool condition)
{
	if (!condition)
		abort();
}

static void try_information(const uint8_t *data, size_t size)
{
	struct apus_wire_value value = apus_wire_value_make(data, size, size % 2);
	struct apus_wire_type_information information;
	uint8_t out[128];

	if (!apus_wire_type_information_read(&value, &information))
		return;
	require(information.minimal.kind || information.complete.kind);
	require(apus_wire_type_information_write(&information, out, sizeof(out)) > 0);
}

static void try_build(const struct apus_ctl_types *types, const struct apus_wire_type_hash *hash)
{
	struct apus_wire_type_information information = {.complete = *hash};
	struct apus_ctl_built *built;
	char text[4096];

	if (apus_ctl_type_build(types, &information, &built) != 0)
		return;
	require(apus_type_check(apus_ctl_built_type(built)) == 0);
	require(apus_type_to_idl(apus_ctl_built_type(built), text, sizeof(text)) != APUS_EINVAL);
	apus_ctl_built_free(built);
}

static void try_object(const uint8_t *data, size_t size, uint8_t kind)
{
	struct apus_ctl_types_config config = {.entries = 64, .bytes = 1 << 20, .seed = 1};
	struct apus_type_consistency policy = {.kind = APUS_ALLOW_TYPE_COERCION};
	struct apus_prefix from = {{1}};
	struct apus_mono now = {1};
	struct apus_wire_type_hash hash;
	struct apus_ctl_types *types;
	char why[APUS_CTL_ASSIGN_WHY_BYTES];

	apus_wire_type_hash_of(kind, data, size, &hash);
	require(apus_ctl_types_create(&config, &types) == 0);
	require(apus_ctl_types_closure(types, &hash, &from, now) == APUS_CTL_CLOSURE_WANTED);
	if (apus_ctl_types_learn(types, &hash, data, size, &from, now)) {
		require(apus_ctl_types_get(types, &hash) != NULL);
		apus_ctl_types_closure(types, &hash, &from, now);
		require(apus_ctl_types_assignable(types, &hash, &hash, &policy, why) !=
			APUS_CTL_NOT_ASSIGNABLE);
		if (kind == APUS_WIRE_EK_COMPLETE)
			try_build(types, &hash);
	}
	apus_ctl_types_destroy(types);
}

static void try_messages(const uint8_t *data, size_t size)
{
	struct apus_wire_type_request request;
	struct apus_wire_type_pairs pairs;
	struct apus_wire_type_hash hash;
	const uint8_t *object;
	size_t bytes;

	if (apus_wire_type_request_decode(data, size, &request) == APUS_WIRE_ACCEPT)
		require(request.hash_count <= APUS_WIRE_TYPE_REQUEST_IDS);
	if (apus_wire_type_reply_decode(data, size, &pairs) != APUS_WIRE_ACCEPT)
		return;
	while (apus_wire_type_pairs_next(&pairs, &hash, &object, &bytes)) {
		require(object >= data && object + bytes <= data + size);
		try_object(object, bytes, APUS_WIRE_EK_MINIMAL);
	}
}

/* As the mapping of a local type: its pairs under whatever hashes it says. */
static void try_mapping(const uint8_t *data, size_t size)
{
	struct apus_ctl_types_config config = {.entries = 64, .bytes = 1 << 20, .seed = 1};
	struct apus_type type = {.type_mapping = data, .type_mapping_bytes = (uint32_t)size};
	struct apus_type_consistency policy = {.kind = APUS_ALLOW_TYPE_COERCION};
	struct apus_wire_value value = apus_wire_value_make(data, size, true);
	struct apus_wire_type_hash hash, first = {0};
	struct apus_wire_type_pairs pairs;
	struct apus_ctl_types *types;
	const uint8_t *object;
	size_t bytes;

	require(apus_ctl_types_create(&config, &types) == 0);
	apus_ctl_types_add_local(types, &type);
	for (int part = 0; part < 2 && apus_wire_type_pairs_open(&value, &pairs); part++)
		while (apus_wire_type_pairs_next(&pairs, &hash, &object, &bytes)) {
			if (!hash.kind)
				continue;
			if (!first.kind)
				first = hash;
			apus_ctl_types_assignable(types, &first, &hash, &policy, NULL);
			try_build(types, &hash);
		}
	apus_ctl_types_destroy(types);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 65536)
		return 0;
	try_information(data, size);
	try_object(data, size, APUS_WIRE_EK_MINIMAL);
	try_object(data, size, APUS_WIRE_EK_COMPLETE);
	try_messages(data, size);
	try_mapping(data, size);
	return 0;
}
