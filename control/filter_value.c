/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numeric constants of filter expressions, and the range of field values a comparison with one accepts.
 *
 * Everything is exact. An integer literal denotes that integer, however long it is; a float literal the
 * double nearest to it (with F: the float nearest to it). Where a constant cannot be a value of the
 * field (an integer between two doubles, 3.5 against integers, 300 against an octet), the range is what
 * mathematics says. Floating-point hardware is used for conversion only, and its result is compared
 * with the literal again, so rounding modes and flushed denormals do not matter.
 */
#include "control/filter_internal.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOUBLE_INFINITY (UINT64_C(0x7ff) << 52)
#define SIGN_BIT        (UINT64_C(1) << 63)

static uint64_t bits_of(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/* strtod() that reads '.' whatever locale the application has set. glibc and musl answer a request for
 * the C locale with a static object. */
static uint64_t parse_double(const char *text)
{
	locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	double value = c_locale ? strtod_l(text, NULL, c_locale) : strtod(text, NULL);

	if (c_locale)
		freelocale(c_locale);
	return bits_of(value);
}

static uint64_t parse_float(const char *text)
{
	locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	float value = c_locale ? strtof_l(text, NULL, c_locale) : strtof(text, NULL);
	uint32_t bits;

	if (c_locale)
		freelocale(c_locale);
	memcpy(&bits, &value, sizeof(bits));
	return apus_dp_double_bits(bits);
}

/* Magnitude of an INTEGER token, APUS_DP_FAR if that or more. */
static unsigned __int128 magnitude_of(const char *digits, uint32_t length, bool *hex_out)
{
	bool hex = length > 2 && (digits[1] == 'x' || digits[1] == 'X');
	unsigned __int128 value = 0;

	*hex_out = hex;
	for (uint32_t i = hex ? 2 : 0; i < length; i++) {
		char c = digits[i];
		uint32_t digit = c <= '9' ? (uint32_t)(c - '0') : (uint32_t)((c | 0x20) - 'a' + 10);

		value = value * (hex ? 16 : 10) + digit;
		if (value > (unsigned __int128)APUS_DP_FAR)
			value = (unsigned __int128)APUS_DP_FAR;
	}
	return value;
}

/* Sign of (digits - value) for a decimal integer and the finite whole double nearest to it. */
static int8_t compare_decimal(const char *digits, uint32_t length, double value)
{
	char image[400]; /* the largest double has 309 digits */
	int order;
	uint32_t image_length = (uint32_t)snprintf(image, sizeof(image), "%.0f", value);

	if (length != image_length)
		return length < image_length ? -1 : 1;
	order = memcmp(digits, image, length);
	return (int8_t)((order > 0) - (order < 0));
}

/* An integer beyond 2^66: the double next to it, and on which side of that it lies. */
static void place_far(const char *digits, uint32_t length, struct apus_ctl_filter_number *n)
{
	double value;

	while (length > 1 && *digits == '0') {
		digits++;
		length--;
	}
	n->bits = parse_double(digits);
	n->beside = -1;
	if (n->bits == DOUBLE_INFINITY)
		return;
	memcpy(&value, &n->bits, sizeof(value));
	n->beside = compare_decimal(digits, length, value);
}

/* An integer of magnitude below 2^66. */
static void place_near(unsigned __int128 magnitude, struct apus_ctl_filter_number *n)
{
	__int128 floor;
	bool fraction;

	n->bits = bits_of((double)magnitude);
	apus_dp_split_double(n->bits, &floor, &fraction);
	n->beside = (int8_t)(((__int128)magnitude > floor) - ((__int128)magnitude < floor));
}

static int parse_integer(const char *text, uint32_t length, struct apus_ctl_filter_number *n,
			 const char **reason_out)
{
	bool negative = text[0] == '-', hex;
	uint32_t sign = negative || text[0] == '+';
	unsigned __int128 magnitude;

	if (text[length - 1] == 'L' || text[length - 1] == 'l')
		length--;
	text += sign;
	length -= sign;
	magnitude = magnitude_of(text, length, &hex);
	if (hex && magnitude > UINT64_MAX) {
		*reason_out = "a hexadecimal number has at most 64 bits";
		return APUS_EFILTER;
	}
	if (magnitude < (unsigned __int128)APUS_DP_FAR)
		place_near(magnitude, n);
	else
		place_far(text, length, n);
	n->floor = (__int128)magnitude;
	n->fraction = false;
	if (negative) {
		n->floor = -n->floor;
		n->beside = (int8_t)-n->beside;
		n->bits |= SIGN_BIT;
	}
	return 0;
}

static int parse_real(const char *text, uint32_t length, struct apus_ctl_filter_number *n,
		      const char **reason_out)
{
	bool single = text[length - 1] == 'F' || text[length - 1] == 'f';

	n->bits = single ? parse_float(text) : parse_double(text);
	n->beside = 0;
	if ((n->bits & ~SIGN_BIT) == DOUBLE_INFINITY) {
		if (single) {
			*reason_out = "the number does not fit a float";
			return APUS_EFILTER;
		}
		/* A literal is finite: it lies between the largest double and infinity. */
		n->beside = n->bits & SIGN_BIT ? 1 : -1;
	}
	apus_dp_split_double(n->bits, &n->floor, &n->fraction);
	return 0;
}

int apus_ctl_filter_number(const char *text, const struct apus_ctl_filter_token *token,
			   struct apus_ctl_filter_number *number_out, const char **reason_out)
{
	const char *start = text + token->position;

	if (token->kind == APUS_CTL_TOKEN_INTEGER)
		return parse_integer(start, token->length, number_out, reason_out);
	return parse_real(start, token->length, number_out, reason_out);
}

struct apus_ctl_filter_number apus_ctl_filter_whole(int64_t value)
{
	return (struct apus_ctl_filter_number){.floor = value};
}

static const struct apus_ctl_filter_range nothing = {.empty = true};

struct apus_ctl_filter_range
apus_ctl_filter_range_integer(uint8_t op, const struct apus_ctl_filter_number *number,
			      __int128 minimum, __int128 maximum)
{
	__int128 low = minimum, high = maximum;
	__int128 below = number->floor;                    /* greatest integer <= number */
	__int128 above = number->floor + number->fraction; /* smallest integer >= number */

	switch (op) {
	case APUS_CTL_OP_LT: high = above - 1; break;
	case APUS_CTL_OP_LE: high = below; break;
	case APUS_CTL_OP_GE: low = above; break;
	case APUS_CTL_OP_GT: low = below + 1; break;
	default:
		low = above;
		high = below;
		break;
	}
	low = low < minimum ? minimum : low;
	high = high > maximum ? maximum : high;
	if (low > high)
		return nothing;
	if (minimum < 0)
		return (struct apus_ctl_filter_range){false, apus_dp_key_signed((int64_t)low),
						      apus_dp_key_signed((int64_t)high)};
	return (struct apus_ctl_filter_range){false, (uint64_t)low, (uint64_t)high};
}

/* Greatest key of doubles <= number. Zero has two keys: the number covers both. */
static uint64_t key_at_most(const struct apus_ctl_filter_number *n)
{
	uint64_t bits = n->bits == SIGN_BIT ? 0 : n->bits;

	return apus_dp_key_double(bits) - (n->beside < 0);
}

/* Smallest key of doubles >= number. */
static uint64_t key_at_least(const struct apus_ctl_filter_number *n)
{
	uint64_t bits = n->bits == 0 ? SIGN_BIT : n->bits;

	return apus_dp_key_double(bits) + (n->beside > 0);
}

struct apus_ctl_filter_range
apus_ctl_filter_range_float(uint8_t op, const struct apus_ctl_filter_number *number)
{
	uint64_t low = apus_dp_key_double(DOUBLE_INFINITY | SIGN_BIT);
	uint64_t high = apus_dp_key_double(DOUBLE_INFINITY);

	switch (op) {
	case APUS_CTL_OP_LT: high = key_at_least(number) - 1; break;
	case APUS_CTL_OP_LE: high = key_at_most(number); break;
	case APUS_CTL_OP_GE: low = key_at_least(number); break;
	case APUS_CTL_OP_GT: low = key_at_most(number) + 1; break;
	default:
		low = key_at_least(number);
		high = key_at_most(number);
		break;
	}
	return low > high ? nothing : (struct apus_ctl_filter_range){false, low, high};
}
