/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 (RFC 4648 §4) for octet sequences in JSON. Pure functions. */
#ifndef APUS_TOOLS_BASE64_H
#define APUS_TOOLS_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Characters that `bytes` bytes take, padding included, without a NUL. */
static inline size_t base64_length(size_t bytes)
{
	return (bytes + 2) / 3 * 4;
}

/** Writes base64_length(bytes) characters, no NUL. */
void base64_encode(const uint8_t *data, size_t bytes, char *out);

/**
 * Decodes exactly `length` characters. out: room for length / 4 * 3 bytes.
 * False unless the text is canonical: padded, no other characters, unused bits zero.
 */
bool base64_decode(const char *text, size_t length, uint8_t *out, size_t *bytes_out);

#endif
