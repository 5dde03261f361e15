/* SPDX-License-Identifier: Apache-2.0 */
/* Parameter lists: walking, reading values, writing. The invariants are in the header. */
#include "wire/plist.h"

#include "wire/time.h"

#define ENCAPSULATION_PL_CDR_BE 0x0002u
#define ENCAPSULATION_PL_CDR_LE 0x0003u
#define HEADER_BYTES            4

enum apus_wire_verdict apus_wire_plist_open(struct apus_wire_plist *list, const uint8_t *payload,
					    size_t payload_bytes)
{
	uint16_t kind;

	if (payload_bytes < HEADER_BYTES)
		return APUS_WIRE_MALFORMED;
	kind = apus_wire_load_u16(payload, false);
	if (kind != ENCAPSULATION_PL_CDR_BE && kind != ENCAPSULATION_PL_CDR_LE)
		return APUS_WIRE_SKIP;
	apus_wire_plist_init(list, payload + HEADER_BYTES, payload_bytes - HEADER_BYTES,
			     kind == ENCAPSULATION_PL_CDR_LE);
	return APUS_WIRE_ACCEPT;
}

enum apus_wire_plist_step apus_wire_plist_next(struct apus_wire_plist *list,
					       struct apus_wire_param *param_out)
{
	while (list->bytes_count - list->at >= HEADER_BYTES) {
		const uint8_t *p = list->bytes + list->at;
		uint16_t pid = apus_wire_load_u16(p, list->little);
		uint16_t value_bytes = apus_wire_load_u16(p + 2, list->little);

		list->at += HEADER_BYTES;
		if (pid == APUS_PID_SENTINEL)
			return APUS_WIRE_PLIST_END; /* its length means nothing */
		if (value_bytes % 4 != 0 || value_bytes > list->bytes_count - list->at)
			return APUS_WIRE_PLIST_BAD;
		list->at += value_bytes;
		if (pid == APUS_PID_PAD)
			continue;
		param_out->pid = pid;
		param_out->value_bytes = value_bytes;
		param_out->value = p + HEADER_BYTES;
		param_out->little = list->little;
		return APUS_WIRE_PLIST_PARAM;
	}
	return APUS_WIRE_PLIST_BAD;
}

const uint8_t *apus_wire_value_bytes(struct apus_wire_value *value, size_t count)
{
	return apus_wire_take(&value->cursor, count);
}

static void align(struct apus_wire_value *value, size_t alignment)
{
	size_t at = (size_t)(value->cursor.at - value->start);

	apus_wire_take(&value->cursor, -at & (alignment - 1));
}

uint8_t apus_wire_value_u8(struct apus_wire_value *value)
{
	const uint8_t *p = apus_wire_take(&value->cursor, 1);

	return p ? *p : 0;
}

uint16_t apus_wire_value_u16(struct apus_wire_value *value)
{
	align(value, 2);
	return apus_wire_take_u16(&value->cursor);
}

uint32_t apus_wire_value_u32(struct apus_wire_value *value)
{
	align(value, 4);
	return apus_wire_take_u32(&value->cursor);
}

bool apus_wire_value_bool(struct apus_wire_value *value)
{
	uint8_t v = apus_wire_value_u8(value);

	if (v > 1)
		value->cursor.failed = true;
	return v == 1;
}

int64_t apus_wire_value_duration_ns(struct apus_wire_value *value)
{
	struct apus_wire_time time;
	int64_t ns;

	time.seconds = apus_wire_value_u32(value);
	time.fraction = apus_wire_value_u32(value);
	/* By the sign of the seconds: -1 s and the largest fraction round to 0. */
	if (time.seconds > INT32_MAX) {
		value->cursor.failed = true;
		return 0;
	}
	/* What rounds up to the seconds of infinity could not be said again otherwise. */
	ns = apus_wire_duration_to_ns(time);
	return ns < INT32_MAX * APUS_NS_PER_SEC ? ns : APUS_INFINITE_NS;
}

struct apus_locator apus_wire_value_locator(struct apus_wire_value *value)
{
	struct apus_locator locator;

	locator.kind = (int32_t)apus_wire_value_u32(value);
	locator.port = apus_wire_value_u32(value);
	apus_wire_take_bytes(&value->cursor, locator.address, sizeof(locator.address));
	return locator;
}

const char *apus_wire_value_string(struct apus_wire_value *value, size_t *bytes_out)
{
	uint32_t length = apus_wire_value_u32(value);
	const uint8_t *p = apus_wire_take(&value->cursor, length);

	if (!p || length == 0 || memchr(p, 0, length) != p + length - 1) {
		value->cursor.failed = true;
		return NULL;
	}
	*bytes_out = length - 1;
	return (const char *)p;
}

bool apus_wire_value_rest_is_zero(const struct apus_wire_value *value)
{
	for (const uint8_t *p = value->cursor.at; p < value->cursor.end; p++)
		if (*p != 0)
			return false;
	return true;
}

void apus_wire_plist_put_bytes(struct apus_wire_plist_writer *w, const void *bytes, size_t count)
{
	apus_wire_sink_bytes(&w->out, bytes, count);
}

static void put_alignment(struct apus_wire_plist_writer *w, size_t alignment)
{
	size_t at = (size_t)(w->out.at - w->value);

	apus_wire_sink_zeros(&w->out, -at & (alignment - 1));
}

void apus_wire_plist_put_u8(struct apus_wire_plist_writer *w, uint8_t v)
{
	apus_wire_sink_bytes(&w->out, &v, 1);
}

void apus_wire_plist_put_u16(struct apus_wire_plist_writer *w, uint16_t v)
{
	put_alignment(w, 2);
	apus_wire_sink_u16(&w->out, v);
}

void apus_wire_plist_put_u32(struct apus_wire_plist_writer *w, uint32_t v)
{
	put_alignment(w, 4);
	apus_wire_sink_u32(&w->out, v);
}

void apus_wire_plist_put_duration(struct apus_wire_plist_writer *w, int64_t duration_ns)
{
	struct apus_wire_time time = apus_wire_duration_from_ns(duration_ns);

	apus_wire_plist_put_u32(w, time.seconds);
	apus_wire_plist_put_u32(w, time.fraction);
}

void apus_wire_plist_put_string(struct apus_wire_plist_writer *w, const char *text,
				size_t text_bytes)
{
	apus_wire_plist_put_u32(w, (uint32_t)text_bytes + 1);
	apus_wire_sink_bytes(&w->out, text, text_bytes);
	apus_wire_plist_put_u8(w, 0);
}

void apus_wire_plist_begin(struct apus_wire_plist_writer *w, uint8_t *out, size_t out_bytes)
{
	static const uint8_t header[HEADER_BYTES] = {0, ENCAPSULATION_PL_CDR_LE, 0, 0};

	w->out = apus_wire_sink_make(out, out_bytes);
	w->start = out;
	w->value = out;
	apus_wire_sink_bytes(&w->out, header, sizeof(header));
}

void apus_wire_plist_open_param(struct apus_wire_plist_writer *w, uint16_t pid)
{
	apus_wire_sink_u16(&w->out, pid);
	apus_wire_sink_u16(&w->out, 0);
	w->value = w->out.at;
}

void apus_wire_plist_close_param(struct apus_wire_plist_writer *w)
{
	size_t value_bytes;

	put_alignment(w, 4);
	value_bytes = (size_t)(w->out.at - w->value);
	if (value_bytes > UINT16_MAX)
		w->out.failed = true;
	if (!w->out.failed)
		apus_wire_store_u16le(w->value - 2, (uint16_t)value_bytes);
}

int apus_wire_plist_finish(struct apus_wire_plist_writer *w)
{
	apus_wire_plist_open_param(w, APUS_PID_SENTINEL);
	return w->out.failed ? APUS_ELIMIT : (int)(w->out.at - w->start);
}
