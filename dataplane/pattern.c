/* SPDX-License-Identifier: Apache-2.0 */
/* Matching compiled patterns; see the header. */
#include "dataplane/pattern.h"

#include <string.h>

static uint16_t element_at(const uint8_t *elements, uint32_t index)
{
	uint16_t element;

	memcpy(&element, elements + 2 * (size_t)index, sizeof(element));
	return element;
}

static bool element_matches(const uint8_t *elements, uint32_t length, uint32_t index, uint8_t c)
{
	uint16_t element = element_at(elements, index);
	const uint8_t *set;

	if (element <= APUS_DP_ELEMENT_ANY)
		return element == c || element == APUS_DP_ELEMENT_ANY;
	set = elements + 2 * (size_t)length +
	      (size_t)(element - APUS_DP_ELEMENT_ANY - 1) * APUS_DP_SET_BYTES;
	return set[c >> 3] >> (c & 7) & 1;
}

/* `text` has at least the segment's length. */
static bool segment_at(const uint8_t *data, const struct apus_dp_segment *s, const uint8_t *text)
{
	if (!(s->flags & APUS_DP_SEGMENT_WILD))
		return memcmp(data + s->at, text, s->length) == 0;
	for (uint32_t i = 0; i < s->length; i++)
		if (!element_matches(data + s->at, s->length, i, text[i]))
			return false;
	return true;
}

/* The first place of a segment in [text, end), or NULL. */
static const uint8_t *find_segment(const uint8_t *data, const struct apus_dp_segment *s,
				   const uint8_t *text, const uint8_t *end)
{
	if (!(s->flags & APUS_DP_SEGMENT_WILD))
		return memmem(text, (size_t)(end - text), data + s->at, s->length);
	for (; (size_t)(end - text) >= s->length; text++)
		if (segment_at(data, s, text))
			return text;
	return NULL;
}

/* Matches one part against the whole of [text, end). */
static bool match_part(const uint8_t *data, const struct apus_dp_segment *s, const uint8_t *text,
		       const uint8_t *end)
{
	for (;; s++) {
		if ((size_t)(end - text) < s->length)
			return false;
		if (s->flags & APUS_DP_SEGMENT_PART_END) {
			if (!(s->flags & APUS_DP_SEGMENT_STAR) && text + s->length != end)
				return false;
			return segment_at(data, s, end - s->length);
		}
		if (s->flags & APUS_DP_SEGMENT_STAR)
			text = find_segment(data, s, text, end);
		else if (!segment_at(data, s, text))
			return false;
		if (!text)
			return false;
		text += s->length;
	}
}

static bool match_alternative(const uint8_t *data, const struct apus_dp_segment *s,
			      const uint8_t *text, const uint8_t *end)
{
	for (;;) {
		const uint8_t *slash = NULL;
		bool last;

		if ((s->flags & APUS_DP_SEGMENT_SLASHED) && text < end)
			slash = memchr(text, '/', (size_t)(end - text));
		if (!match_part(data, s, text, slash ? slash : end))
			return false;
		while (!(s->flags & APUS_DP_SEGMENT_PART_END))
			s++;
		last = s->flags & APUS_DP_SEGMENT_END;
		if (last || !slash)
			return last && !slash;
		text = slash + 1;
		s++;
	}
}

bool apus_dp_pattern_match(const uint8_t *data, const struct apus_dp_segment *segments,
			   uint32_t segment_count, const uint8_t *text, size_t text_bytes)
{
	uint32_t i = 0;

	while (i < segment_count) {
		if (match_alternative(data, &segments[i], text, text + text_bytes))
			return true;
		while (!(segments[i++].flags & APUS_DP_SEGMENT_END))
			;
	}
	return false;
}

static bool elements_valid(const uint8_t *data, uint32_t data_bytes,
			   const struct apus_dp_segment *s)
{
	uint64_t room = data_bytes - s->at, sets;

	if (s->length > APUS_DP_WILD_LENGTH_MAX || room < 2 * (uint64_t)s->length)
		return false;
	sets = (room - 2 * (uint64_t)s->length) / APUS_DP_SET_BYTES;
	for (uint32_t i = 0; i < s->length; i++) {
		uint16_t element = element_at(data + s->at, i);

		if (element > APUS_DP_ELEMENT_ANY + sets)
			return false;
	}
	return true;
}

bool apus_dp_pattern_valid(const uint8_t *data, uint32_t data_bytes,
			   const struct apus_dp_segment *segments, uint32_t segment_count)
{
	for (uint32_t i = 0; i < segment_count; i++) {
		const struct apus_dp_segment *s = &segments[i];

		if (s->at > data_bytes)
			return false;
		if (s->flags & APUS_DP_SEGMENT_WILD ? !elements_valid(data, data_bytes, s)
						    : s->length > data_bytes - s->at)
			return false;
		if ((s->flags & APUS_DP_SEGMENT_END) && !(s->flags & APUS_DP_SEGMENT_PART_END))
			return false;
	}
	return segment_count > 0 && segments[segment_count - 1].flags & APUS_DP_SEGMENT_END;
}
