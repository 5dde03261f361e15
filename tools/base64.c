/* SPDX-License-Identifier: Apache-2.0 */
/* Base64, both ways; see base64.h. */
#include "base64.h"
#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(const uint8_t *data, size_t bytes, char *out)
{
	for (size_t i = 0; i < bytes; i += 3, out += 4) {
		const size_t n = bytes - i < 3 ? bytes - i : 3;
		uint32_t bits = (uint32_t)data[i] << 16;

		bits |= n > 1 ? (uint32_t)data[i + 1] << 8 : 0;
		bits |= n > 2 ? data[i + 2] : 0;
		out[0] = alphabet[bits >> 18];
		out[1] = alphabet[bits >> 12 & 63];
		out[2] = n > 1 ? alphabet[bits >> 6 & 63] : '=';
		out[3] = n > 2 ? alphabet[bits & 63] : '=';
	}
}

static int digit_value(char c)
{
	const char *p = c ? strchr(alphabet, c) : NULL;

	return p ? (int)(p - alphabet) : -1;
}

/* Four characters to three bytes; `padding` of the characters are '='. */
static bool decode_group(const char *text, size_t padding, uint8_t *out)
{
	uint32_t bits = 0;

	for (size_t i = 0; i < 4; i++) {
		int v = i < 4 - padding ? digit_value(text[i]) : 0;

		if (v < 0)
			return false;
		bits = bits << 6 | (uint32_t)v;
	}
	if ((padding == 1 && bits & 0xff) || (padding == 2 && bits & 0xffff))
		return false;
	out[0] = (uint8_t)(bits >> 16);
	if (padding < 2)
		out[1] = (uint8_t)(bits >> 8);
	if (padding < 1)
		out[2] = (uint8_t)bits;
	return true;
}

bool base64_decode(const char *text, size_t length, uint8_t *out, size_t *bytes_out)
{
	size_t padding = 0;

	if (length % 4)
		return false;
	if (length && text[length - 1] == '=')
		padding = text[length - 2] == '=' ? 2 : 1;
	for (size_t i = 0; i < length; i += 4)
		if (!decode_group(text + i, i + 4 == length ? padding : 0, out + i / 4 * 3))
			return false;
	*bytes_out = length / 4 * 3 - padding;
	return true;
}
