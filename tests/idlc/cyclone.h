/* SPDX-License-Identifier: Apache-2.0 */
/* Cyclone DDS' serialiser by itself, without a participant. */
#ifndef TESTS_IDLC_CYCLONE_H
#define TESTS_IDLC_CYCLONE_H

#include <dds/dds.h>
#include <dds/ddsi/ddsi_cdrstream.h>
#include <dds/ddsi/ddsi_serdata_default.h>
#include <dds/ddsi/ddsi_sertype.h>

/** Fills in what of Cyclone's type representation its serialiser looks at. */
void cyclone_sertype_init(struct ddsi_sertype_default *st, const dds_topic_descriptor_t *desc);
/** Frees what that took. */
void cyclone_sertype_fini(struct ddsi_sertype_default *st);

/**
 * A body in native order, checked and read: the sample, which is the caller's (dds_stream_free_sample(), free()),
 * NULL if Cyclone refuses it. `body` is changed.
 */
void *cyclone_read(const dds_topic_descriptor_t *desc, uint32_t version, uint8_t *body,
		   size_t bytes);

/** The body of a sample. Returns its bytes, at most `room`. */
size_t cyclone_write(const dds_topic_descriptor_t *desc, uint32_t version, const void *value,
		     uint8_t *out, size_t room);

/**
 * A body in native order as Cyclone hands it on: checked, read as this type, and written again, in XCDR
 * `version` 1 or 2. `body` is changed. Returns the bytes in `out`, 0 if it refuses.
 */
size_t cyclone_relay(const dds_topic_descriptor_t *desc, uint32_t version, uint8_t *body,
		     size_t bytes, uint8_t *out, size_t room);

#endif
