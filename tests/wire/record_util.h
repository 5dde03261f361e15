/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hand-made SEDP and SPDP payloads for tests, in either byte order, valid or not. Unlike the encoder
 * this checks nothing, so that a test can say anything.
 */
#ifndef APUS_TESTS_WIRE_RECORD_UTIL_H
#define APUS_TESTS_WIRE_RECORD_UTIL_H

#include <stdlib.h>
#include <string.h>

#include "wire/plist.h"
#include "wire/record.h"

/** A payload being made. */
struct raw_list {
	uint8_t bytes[65536];
	size_t count;
	size_t value_at;
	bool big;
};

static const uint8_t test_prefix[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

static inline void raw_u8(struct raw_list *l, uint8_t v)
{
	l->bytes[l->count++] = v;
}

static inline void raw_u16(struct raw_list *l, uint16_t v)
{
	raw_u8(l, l->big ? (uint8_t)(v >> 8) : (uint8_t)v);
	raw_u8(l, l->big ? (uint8_t)v : (uint8_t)(v >> 8));
}

static inline void raw_u32(struct raw_list *l, uint32_t v)
{
	raw_u16(l, l->big ? (uint16_t)(v >> 16) : (uint16_t)v);
	raw_u16(l, l->big ? (uint16_t)v : (uint16_t)(v >> 16));
}

static inline void raw_pad(struct raw_list *l)
{
	while ((l->count - l->value_at) % 4 != 0)
		raw_u8(l, 0);
}

static inline void raw_bytes(struct raw_list *l, const void *bytes, size_t count)
{
	memcpy(l->bytes + l->count, bytes, count);
	l->count += count;
}

/** A string, padded to 4. */
static inline void raw_string(struct raw_list *l, const char *text)
{
	raw_u32(l, (uint32_t)strlen(text) + 1);
	raw_bytes(l, text, strlen(text) + 1);
	raw_pad(l);
}

static inline void raw_open(struct raw_list *l, uint16_t pid)
{
	raw_u16(l, pid);
	raw_u16(l, 0);
	l->value_at = l->count;
}

static inline void raw_close(struct raw_list *l)
{
	size_t end, value_bytes;

	raw_pad(l);
	end = l->count;
	value_bytes = end - l->value_at;
	l->count = l->value_at - 2;
	raw_u16(l, (uint16_t)value_bytes);
	l->count = end;
}

/** A parameter of whole words. */
static inline void raw_words(struct raw_list *l, uint16_t pid, const uint32_t *words, size_t count)
{
	raw_open(l, pid);
	for (size_t i = 0; i < count; i++)
		raw_u32(l, words[i]);
	raw_close(l);
}

static inline void raw_guid(struct raw_list *l, uint16_t pid, const uint8_t *prefix, uint32_t eid)
{
	raw_open(l, pid);
	raw_bytes(l, prefix, 12);
	for (int shift = 24; shift >= 0; shift -= 8)
		raw_u8(l, (uint8_t)(eid >> shift));
	raw_close(l);
}

static inline void raw_name(struct raw_list *l, uint16_t pid, const char *text)
{
	raw_open(l, pid);
	raw_string(l, text);
	raw_close(l);
}

static inline void raw_locator(struct raw_list *l, uint16_t pid, uint32_t kind, uint32_t port,
			       uint8_t last)
{
	const uint8_t address[16] = {[12] = 127, [15] = last};

	raw_open(l, pid);
	raw_u32(l, kind);
	raw_u32(l, port);
	raw_bytes(l, address, sizeof(address));
	raw_close(l);
}

static inline void raw_begin(struct raw_list *l, bool big)
{
	l->count = 0;
	l->big = big;
	raw_u8(l, 0);
	raw_u8(l, big ? 2 : 3);
	raw_u8(l, 0);
	raw_u8(l, 0);
}

/** Begins an endpoint with what no record can lack. */
static inline void raw_begin_endpoint(struct raw_list *l, bool is_writer, bool big)
{
	raw_begin(l, big);
	raw_guid(l, APUS_PID_ENDPOINT_GUID, test_prefix, is_writer ? 0x00000102 : 0x00000107);
	raw_name(l, APUS_PID_TOPIC_NAME, "Square");
	raw_name(l, APUS_PID_TYPE_NAME, "ShapeType");
}

static inline void raw_end(struct raw_list *l)
{
	raw_u16(l, APUS_PID_SENTINEL);
	raw_u16(l, 0);
}

/** Decodes from memory of exactly the payload's size, so that sanitizers see a read beyond it. */
static inline enum apus_wire_verdict decode_endpoint(const uint8_t *bytes, size_t count,
						     bool is_writer,
						     struct apus_wire_endpoint_record *record_out)
{
	uint8_t *exact = malloc(count ? count : 1);
	enum apus_wire_verdict verdict;

	if (count)
		memcpy(exact, bytes, count);
	verdict = apus_wire_endpoint_decode(exact, count, is_writer, record_out);
	free(exact);
	return verdict;
}

/** Likewise a participant. */
static inline enum apus_wire_verdict
decode_participant(const uint8_t *bytes, size_t count,
		   struct apus_wire_participant_record *record_out)
{
	uint8_t *exact = malloc(count ? count : 1);
	enum apus_wire_verdict verdict;

	if (count)
		memcpy(exact, bytes, count);
	verdict = apus_wire_participant_decode(exact, count, record_out);
	free(exact);
	return verdict;
}

#endif
