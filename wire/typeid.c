/* SPDX-License-Identifier: Apache-2.0 */
/* Type identity on the wire; see the header. */
#include "wire/typeid.h"

#include <md5.h>

#define MEMBER_MINIMAL  0x1001u /* of TypeInformation */
#define MEMBER_COMPLETE 0x1002u
#define EMHEADER_ID     0x0fffffffu

/* Opens the next `bytes` bytes as an object of their own. */
static bool enter_bytes(struct apus_wire_value *outer, size_t bytes,
			struct apus_wire_value *inner_out)
{
	const uint8_t *at;

	*inner_out = *outer;
	at = apus_wire_take(&outer->cursor, bytes);
	if (!at) {
		inner_out->cursor.failed = true;
		return false;
	}
	inner_out->cursor.at = at;
	inner_out->cursor.end = at + bytes;
	return true;
}

bool apus_wire_value_enter(struct apus_wire_value *outer, struct apus_wire_value *inner_out)
{
	return enter_bytes(outer, apus_wire_value_u32(outer), inner_out);
}

/* Length codes: 0 to 3 are 1, 2, 4, 8 bytes; with 4 a length follows; with 5 to 7 the member's own first
 * length serves, in units of 1, 4 and 8 bytes (XTypes 1.3 §7.4.3.4.2). */
bool apus_wire_value_member(struct apus_wire_value *object, uint32_t *id_out,
			    struct apus_wire_value *inner_out)
{
	struct apus_wire_value ahead;
	uint64_t bytes;
	uint32_t header, code;

	if (object->cursor.failed || object->cursor.at == object->cursor.end)
		return false;
	header = apus_wire_value_u32(object);
	code = header >> 28 & 7;
	*id_out = header & EMHEADER_ID;
	if (code < 4)
		return enter_bytes(object, (size_t)1 << code, inner_out);
	ahead = *object;
	bytes = apus_wire_value_u32(&ahead);
	if (code == 4) {
		*object = ahead;
	} else {
		bytes *= code == 5 ? 1 : code == 6 ? 4 : 8;
		bytes += 4;
	}
	return enter_bytes(object, bytes, inner_out);
}

/* TypeIdentifierWithDependencies: of TypeIdentifierWithSize only the identifier is wanted. */
static bool read_hash(struct apus_wire_value *member, struct apus_wire_type_hash *hash_out,
		      uint32_t *object_bytes_out)
{
	struct apus_wire_value with_dependencies, with_size;
	const uint8_t *bytes;
	uint8_t kind;

	if (!apus_wire_value_enter(member, &with_dependencies) ||
	    !apus_wire_value_enter(&with_dependencies, &with_size))
		return false;
	kind = apus_wire_value_u8(&with_size);
	if (kind != APUS_WIRE_EK_MINIMAL && kind != APUS_WIRE_EK_COMPLETE)
		return !apus_wire_value_bad(&with_size);
	bytes = apus_wire_value_bytes(&with_size, APUS_WIRE_TYPE_HASH_BYTES);
	*object_bytes_out = apus_wire_value_u32(&with_size);
	if (apus_wire_value_bad(&with_size))
		return false;
	hash_out->kind = kind;
	memcpy(hash_out->bytes, bytes, APUS_WIRE_TYPE_HASH_BYTES);
	return true;
}

static bool read_information(struct apus_wire_value *value,
			     struct apus_wire_type_information *information)
{
	struct apus_wire_value object, member;
	uint32_t id;

	if (!apus_wire_value_enter(value, &object))
		return false;
	while (apus_wire_value_member(&object, &id, &member)) {
		if (id == MEMBER_MINIMAL &&
		    !read_hash(&member, &information->minimal, &information->minimal_bytes))
			return false;
		if (id == MEMBER_COMPLETE &&
		    !read_hash(&member, &information->complete, &information->complete_bytes))
			return false;
	}
	return !apus_wire_value_bad(&object);
}

bool apus_wire_type_information_read(struct apus_wire_value *value,
				     struct apus_wire_type_information *information_out)
{
	struct apus_wire_type_information read = {0};
	bool good = read_information(value, &read);

	/* A hash of the other kind in a member says something about neither. */
	good = good && read.minimal.kind != APUS_WIRE_EK_COMPLETE &&
	       read.complete.kind != APUS_WIRE_EK_MINIMAL &&
	       (read.minimal.kind || read.complete.kind);
	memset(information_out, 0, sizeof(*information_out));
	if (good)
		*information_out = read;
	return good;
}

/* Member header with its own length, DHEADER, TypeIdentifierWithSize, -1 dependencies: not said which. */
static void write_hash(struct apus_wire_sink *w, uint32_t id,
		       const struct apus_wire_type_hash *hash, uint32_t object_bytes)
{
	if (hash->kind == APUS_WIRE_EK_NONE)
		return;
	apus_wire_sink_u32(w, 4u << 28 | id);
	apus_wire_sink_u32(w, 40); /* what follows */
	apus_wire_sink_u32(w, 36); /* DHEADER */
	apus_wire_sink_u32(w, 20); /* DHEADER of TypeIdentifierWithSize */
	apus_wire_sink_bytes(w, &hash->kind, 1);
	apus_wire_sink_bytes(w, hash->bytes, APUS_WIRE_TYPE_HASH_BYTES);
	apus_wire_sink_zeros(w, 1);
	apus_wire_sink_u32(w, object_bytes);
	apus_wire_sink_u32(w, UINT32_MAX);
	apus_wire_sink_u32(w, 4); /* DHEADER of the sequence */
	apus_wire_sink_u32(w, 0);
}

size_t apus_wire_type_information_write(const struct apus_wire_type_information *information,
					uint8_t *out, size_t out_bytes)
{
	struct apus_wire_sink w = apus_wire_sink_make(out, out_bytes);

	apus_wire_sink_zeros(&w, 4);
	write_hash(&w, MEMBER_MINIMAL, &information->minimal, information->minimal_bytes);
	write_hash(&w, MEMBER_COMPLETE, &information->complete, information->complete_bytes);
	if (w.failed)
		return 0;
	apus_wire_store_u32le(out, (uint32_t)(w.at - out) - 4);
	return (size_t)(w.at - out);
}

void apus_wire_type_hash_of(uint8_t kind, const uint8_t *object, size_t object_bytes,
			    struct apus_wire_type_hash *hash_out)
{
	uint8_t digest[MD5_DIGEST_LENGTH];
	MD5_CTX md5;

	MD5Init(&md5);
	MD5Update(&md5, object, object_bytes);
	MD5Final(digest, &md5);
	hash_out->kind = kind;
	memcpy(hash_out->bytes, digest, APUS_WIRE_TYPE_HASH_BYTES);
}
