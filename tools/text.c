/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and durations as text; see text.h. */
#include "tools/text.h"

#include <apus/core.h>

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define NS_PER_SEC INT64_C(1000000000)

/** Longest word words_are_near() looks at; longer ones are near nothing. */
#define WORD_BYTES_MAX 40

bool text_to_number(const char *text, int64_t min, int64_t max, int64_t *value_out)
{
	bool negative = *text == '-';
	int64_t value = 0;

	if (negative)
		text++;
	if (!*text)
		return false;
	for (; *text; text++) {
		int digit = *text - '0';

		if (digit < 0 || digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, negative ? -digit : digit, &value))
			return false;
	}
	if (value < min || value > max)
		return false;
	*value_out = value;
	return true;
}

/* Reads "12.345" in units of unit_ns; `rest` receives what follows. A fraction of a nanosecond and what
 * exceeds 64 bits are refused. */
static bool read_decimal(const char *text, int64_t unit_ns, const char **rest, int64_t *ns_out)
{
	int64_t whole = 0, billionths = 0, scale = NS_PER_SEC;
	__int128 total;

	if (!isdigit((unsigned char)*text))
		return false;
	for (; isdigit((unsigned char)*text); text++)
		if (__builtin_mul_overflow(whole, 10, &whole) ||
		    __builtin_add_overflow(whole, *text - '0', &whole))
			return false;
	if (*text == '.') {
		if (!isdigit((unsigned char)*++text))
			return false;
		for (; isdigit((unsigned char)*text); text++) {
			scale /= 10;
			billionths += scale * (*text - '0');
			if (scale == 0)
				return false;
		}
	}
	total = (__int128)billionths * unit_ns;
	if (total % NS_PER_SEC)
		return false;
	total = total / NS_PER_SEC + (__int128)whole * unit_ns;
	if (total >= APUS_INFINITE_NS)
		return false;
	*rest = text;
	*ns_out = (int64_t)total;
	return true;
}

bool text_to_seconds(const char *text, int64_t *ns_out)
{
	const char *rest;
	int64_t ns;

	if (!read_decimal(text, NS_PER_SEC, &rest, &ns) || *rest)
		return false;
	*ns_out = ns;
	return true;
}

/* Largest first, as duration_to_text() tries them. */
static const struct {
	const char *name;
	int64_t ns;
} units[] = {
	{"h", 3600 * NS_PER_SEC},
	{"min", 60 * NS_PER_SEC},
	{"s", NS_PER_SEC},
	{"ms", 1000000},
	{"us", 1000},
	{"ns", 1},
};

#define UNIT_COUNT (sizeof(units) / sizeof(units[0]))

bool text_to_duration(const char *text, int64_t *ns_out)
{
	const char *unit = text + strspn(text, "0123456789."), *rest;
	int64_t ns;

	if (strcmp(text, "inf") == 0) {
		*ns_out = APUS_INFINITE_NS;
		return true;
	}
	for (size_t i = 0; i < UNIT_COUNT; i++) {
		if (strcmp(unit, units[i].name) != 0)
			continue;
		if (!read_decimal(text, units[i].ns, &rest, &ns) || rest != unit)
			return false;
		*ns_out = ns;
		return true;
	}
	return false;
}

const char *duration_to_text(int64_t ns, char text_out[DURATION_TEXT_BYTES])
{
	size_t i = 0;

	if (ns == APUS_INFINITE_NS)
		return strcpy(text_out, "inf");
	if (ns == 0)
		return strcpy(text_out, "0s");
	while (ns % units[i].ns != 0)
		i++;
	snprintf(text_out, DURATION_TEXT_BYTES, "%lld%s", (long long)(ns / units[i].ns),
		 units[i].name);
	return text_out;
}

/* Levenshtein's distance, one row at a time. */
static size_t distance(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
	size_t row[WORD_BYTES_MAX + 1];

	for (size_t j = 0; j <= b_bytes; j++)
		row[j] = j;
	for (size_t i = 1; i <= a_bytes; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= b_bytes; j++) {
			size_t best = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			best = row[j] + 1 < best ? row[j] + 1 : best;
			row[j] = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
		}
	}
	return row[b_bytes];
}

bool words_are_near(const char *a, const char *b)
{
	size_t a_bytes = strlen(a), b_bytes = strlen(b);

	if (a_bytes > WORD_BYTES_MAX || b_bytes > WORD_BYTES_MAX || a_bytes == 0)
		return false;
	return distance(a, a_bytes, b, b_bytes) <= (b_bytes <= 4 ? 1 : 2);
}
