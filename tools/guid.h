/* SPDX-License-Identifier: Apache-2.0 */
/* The text form of a GUID: three groups of the participant's prefix and the entity, in hexadecimal. */
#ifndef APUS_TOOLS_GUID_H
#define APUS_TOOLS_GUID_H

#include <stdio.h>

#include <apus/core.h>

/** Room for guid_to_text(), NUL included. */
#define GUID_TEXT_BYTES 36

/** Writes "01ee0102.03040506.0708090a:00000107". Returns text_out. */
static inline const char *guid_to_text(const struct apus_guid *guid, char text_out[GUID_TEXT_BYTES])
{
	size_t at = 0;

	for (size_t i = 0; i < sizeof(guid->bytes); i++)
		at += (size_t)snprintf(text_out + at, GUID_TEXT_BYTES - at, "%s%02x",
				       i == 12               ? ":"
				       : i > 0 && i % 4 == 0 ? "."
							     : "",
				       guid->bytes[i]);
	return text_out;
}

#endif
