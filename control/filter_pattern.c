/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns of LIKE and MATCH from text to segments (dataplane/pattern.h).
 *
 * LIKE knows `%`, `_` and the character its ESCAPE names, before one of these three. MATCH is what RTI
 * Connext calls by that name: alternatives separated by commas, `*` and `?` for any characters but the
 * slash, `[abc]`, `[a-z]`, `[!a-z]` or `[^a-z]`, and a backslash that takes the next character as it is;
 * slashes stand for themselves only. Characters are bytes.
 *
 * Two passes: the text becomes codes, one a character at most, and the codes become segments.
 */
#include "control/filter_internal.h"

#include <stdlib.h>
#include <string.h>

enum {
	CODE_ANY = APUS_DP_ELEMENT_ANY,
	CODE_RUN,
	CODE_SLASH,
	CODE_COMMA,
	CODE_SET, /* and above: sets by index */
};

struct patterns {
	const uint8_t *text;
	uint32_t length, at;
	uint16_t *codes;
	uint32_t code_count;
	uint8_t *sets;
	uint32_t set_count;
	bool escaped; /* the text holds characters that only protect others */
	const char *reason;
};

int64_t apus_ctl_filter_blob_add(struct apus_ctl_filter_blob *blob, size_t bytes)
{
	size_t at = ((size_t)blob->count + 7) & ~(size_t)7, end = at + bytes;
	size_t capacity = blob->capacity ? blob->capacity : 256;
	uint8_t *grown;

	if (end > INT32_MAX / 4)
		return APUS_ENOMEM;
	while (capacity < end)
		capacity *= 2;
	if (capacity > blob->capacity) {
		grown = realloc(blob->bytes, capacity);
		if (!grown)
			return APUS_ENOMEM;
		blob->bytes = grown;
		blob->capacity = (uint32_t)capacity;
	}
	memset(blob->bytes + blob->count, 0, end - blob->count);
	blob->count = (uint32_t)end;
	return (int64_t)at;
}

/* ---- text to codes ----------------------------------------------------------------------------- */

static bool fail(struct patterns *p, const char *reason)
{
	p->reason = reason;
	return false;
}

static void put(struct patterns *p, uint16_t code)
{
	p->codes[p->code_count++] = code;
}

static bool read_like(struct patterns *p, int escape)
{
	while (p->at < p->length) {
		uint8_t c = p->text[p->at++];

		if (c == escape) {
			if (p->at == p->length)
				return fail(p, "nothing follows the escape character in");
			c = p->text[p->at++];
			if (c != '%' && c != '_' && c != escape)
				return fail(
					p, "the escape character protects %, _ and itself only in");
			p->escaped = true;
			put(p, c);
		} else {
			put(p, c == '%' ? CODE_RUN : c == '_' ? CODE_ANY : c);
		}
	}
	return true;
}

/* One character of a MATCH pattern, a backslash taking the next one as it is. */
static bool read_protected(struct patterns *p, uint8_t *c_out)
{
	*c_out = p->text[p->at++];
	if (*c_out != '\\')
		return true;
	if (p->at == p->length)
		return fail(p, "nothing follows the backslash in");
	p->escaped = true;
	*c_out = p->text[p->at++];
	return true;
}

/* A character or a range of a set, noted in `bits`. */
static bool read_range(struct patterns *p, uint8_t *bits)
{
	uint8_t low, high;

	if (!read_protected(p, &low))
		return false;
	high = low;
	if (p->at + 1 < p->length && p->text[p->at] == '-' && p->text[p->at + 1] != ']') {
		p->at++;
		if (!read_protected(p, &high))
			return false;
		if (high < low)
			return fail(p, "a range of characters ends before it begins in");
	}
	for (unsigned int c = low; c <= high; c++)
		bits[c >> 3] |= (uint8_t)(1u << (c & 7));
	return true;
}

/* What follows '['. */
static bool read_set(struct patterns *p)
{
	uint8_t *bits = p->sets + (size_t)p->set_count * APUS_DP_SET_BYTES;
	bool inverted = p->at < p->length && (p->text[p->at] == '!' || p->text[p->at] == '^');
	uint32_t first = p->at += inverted;

	if (p->set_count == UINT16_MAX - CODE_SET)
		return fail(p, "too many lists of characters in");
	memset(bits, 0, APUS_DP_SET_BYTES);
	while (p->at < p->length && (p->text[p->at] != ']' || p->at == first))
		if (!read_range(p, bits))
			return false;
	if (p->at == p->length)
		return fail(p, "a '[' is never closed in");
	p->at++;
	for (uint32_t i = 0; inverted && i < APUS_DP_SET_BYTES; i++)
		bits[i] = (uint8_t)~bits[i];
	put(p, (uint16_t)(CODE_SET + p->set_count++));
	return true;
}

static bool read_match(struct patterns *p)
{
	uint8_t c;

	while (p->at < p->length) {
		switch (p->text[p->at]) {
		case '*': put(p, CODE_RUN); break;
		case '?': put(p, CODE_ANY); break;
		case '/': put(p, CODE_SLASH); break;
		case ',': put(p, CODE_COMMA); break;
		case '[':
			p->at++;
			if (!read_set(p))
				return false;
			continue;
		default:
			if (!read_protected(p, &c))
				return false;
			put(p, c == '/' ? CODE_SLASH : c);
			continue;
		}
		p->at++;
	}
	return true;
}

/* ---- codes to segments ------------------------------------------------------------------------- */

/* One segment: codes [first, end) and how it stands. */
struct span {
	uint32_t first, end, flags;
};

/* The next segment at or after code `*at`, which moves behind it. Always one before each part's end. */
static struct span next_span(const struct patterns *p, bool match, uint32_t *at, bool *part_end)
{
	struct span s = {*at, *at, match ? APUS_DP_SEGMENT_SLASHED : 0};
	uint32_t end = p->code_count;

	while (s.first < end && p->codes[s.first] == CODE_RUN) {
		s.flags |= APUS_DP_SEGMENT_STAR;
		s.first++;
	}
	s.end = s.first;
	while (s.end < end && (p->codes[s.end] <= CODE_ANY || p->codes[s.end] >= CODE_SET)) {
		if (p->codes[s.end] >= CODE_ANY)
			s.flags |= APUS_DP_SEGMENT_WILD;
		s.end++;
	}
	*part_end = s.end == end || p->codes[s.end] != CODE_RUN;
	if (*part_end) {
		s.flags |= APUS_DP_SEGMENT_PART_END;
		if (s.end == end || p->codes[s.end] == CODE_COMMA)
			s.flags |= APUS_DP_SEGMENT_END;
	}
	*at = s.end + (*part_end && s.end < end);
	return s;
}

static uint32_t count_segments(const struct patterns *p, bool match, uint32_t *alternatives_out)
{
	uint32_t at = 0, count = 0;
	bool part_end;
	struct span s;

	*alternatives_out = 0;
	do {
		s = next_span(p, match, &at, &part_end);
		count++;
		*alternatives_out += !!(s.flags & APUS_DP_SEGMENT_END);
	} while (!(s.flags & APUS_DP_SEGMENT_END) || s.end < p->code_count);
	return count;
}

/* Writes elements and the sets they name, renumbered within the segment. */
static void fill_elements(const struct patterns *p, const struct span *s, uint8_t *out)
{
	uint32_t length = s->end - s->first;
	uint16_t sets = 0;

	for (uint32_t i = 0; i < length; i++) {
		uint16_t code = p->codes[s->first + i];

		if (code >= CODE_SET) {
			memcpy(out + 2 * (size_t)length + (size_t)sets * APUS_DP_SET_BYTES,
			       p->sets + (size_t)(code - CODE_SET) * APUS_DP_SET_BYTES,
			       APUS_DP_SET_BYTES);
			code = (uint16_t)(APUS_DP_ELEMENT_ANY + 1 + sets++);
		}
		memcpy(out + 2 * (size_t)i, &code, sizeof(code));
	}
}

static size_t content_bytes(const struct patterns *p, const struct span *s)
{
	size_t length = s->end - s->first, sets = 0;

	if (!(s->flags & APUS_DP_SEGMENT_WILD))
		return length;
	for (uint32_t i = s->first; i < s->end; i++)
		sets += p->codes[i] >= CODE_SET;
	return 2 * length + sets * APUS_DP_SET_BYTES;
}

static int emit_segment(struct patterns *p, struct apus_ctl_filter_blob *blob, const struct span *s,
			uint32_t segment_at)
{
	bool searched = (s->flags & APUS_DP_SEGMENT_STAR) && !(s->flags & APUS_DP_SEGMENT_PART_END);
	uint32_t length = s->end - s->first;
	struct apus_dp_segment segment = {.length = length, .flags = s->flags};
	int64_t at;

	if ((s->flags & APUS_DP_SEGMENT_WILD) &&
	    length > (searched ? APUS_DP_WILD_MAX : APUS_DP_WILD_LENGTH_MAX)) {
		p->reason = "too many characters with some that vary between two runs in";
		return APUS_EFILTER;
	}
	at = apus_ctl_filter_blob_add(blob, content_bytes(p, s));
	if (at < 0)
		return (int)at;
	if (s->flags & APUS_DP_SEGMENT_WILD)
		fill_elements(p, s, blob->bytes + at);
	else
		for (uint32_t i = 0; i < length; i++)
			blob->bytes[at + i] = (uint8_t)p->codes[s->first + i];
	segment.at = (uint32_t)at;
	memcpy(blob->bytes + segment_at, &segment, sizeof(segment));
	return 0;
}

static int emit(struct patterns *p, struct apus_ctl_filter_blob *blob, bool match,
		struct apus_ctl_filter_pattern *out)
{
	int64_t at;
	uint32_t code = 0;
	bool part_end;

	out->segment_count = count_segments(p, match, &out->alternatives);
	at = apus_ctl_filter_blob_add(blob, out->segment_count * sizeof(struct apus_dp_segment));
	if (at < 0)
		return (int)at;
	out->at = (uint32_t)at;
	for (uint32_t i = 0; i < out->segment_count; i++) {
		struct span s = next_span(p, match, &code, &part_end);
		int result = emit_segment(p, blob, &s,
					  out->at + i * (uint32_t)sizeof(struct apus_dp_segment));

		if (result < 0)
			return result;
	}
	return 0;
}

static bool is_plain(const struct patterns *p)
{
	for (uint32_t i = 0; i < p->code_count; i++)
		if (p->codes[i] >= CODE_ANY && p->codes[i] != CODE_SLASH)
			return false;
	return !p->escaped;
}

int apus_ctl_filter_compile_pattern(struct apus_ctl_filter_blob *blob, bool match, int escape,
				    const char *text, uint32_t length,
				    struct apus_ctl_filter_pattern *pattern_out,
				    const char **reason_out)
{
	struct patterns p = {.text = (const uint8_t *)text, .length = length};
	size_t sets = 0;
	int result = 0;

	for (uint32_t i = 0; i < length; i++)
		sets += text[i] == '[';
	p.sets = malloc(sets * APUS_DP_SET_BYTES + length * sizeof(uint16_t) + 1);
	if (!p.sets)
		return APUS_ENOMEM;
	p.codes = (uint16_t *)(p.sets + sets * APUS_DP_SET_BYTES);
	*pattern_out = (struct apus_ctl_filter_pattern){.alternatives = 1};
	if (!(match ? read_match(&p) : read_like(&p, escape)))
		result = APUS_EFILTER;
	else if (is_plain(&p))
		pattern_out->plain = true;
	else
		result = emit(&p, blob, match, pattern_out);
	*reason_out = p.reason;
	free(p.sets);
	return result;
}
