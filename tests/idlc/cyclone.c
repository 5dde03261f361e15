/* SPDX-License-Identifier: Apache-2.0 */
/* See cyclone.h. */
#include "cyclone.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

void cyclone_sertype_init(struct ddsi_sertype_default *st, const dds_topic_descriptor_t *desc)
{
	memset(st, 0, sizeof(*st));
	st->type.size = desc->m_size;
	st->type.align = desc->m_align;
	st->type.flagset = desc->m_flagset;
	st->type.keys.nkeys = desc->m_nkeys;
	st->type.keys.keys = calloc(desc->m_nkeys + 1, sizeof(*st->type.keys.keys));
	for (uint32_t i = 0; i < desc->m_nkeys; i++) {
		st->type.keys.keys[i].ops_offs = desc->m_keys[i].m_offset;
		st->type.keys.keys[i].idx = desc->m_keys[i].m_idx;
	}
	st->type.ops.ops = (uint32_t *)desc->m_ops;
	st->type.ops.nops = dds_stream_countops(desc->m_ops, desc->m_nkeys, desc->m_keys);
	st->opt_size_xcdr1 = dds_stream_check_optimize(&st->type, 1);
	st->opt_size_xcdr2 = dds_stream_check_optimize(&st->type, 2);
}

void cyclone_sertype_fini(struct ddsi_sertype_default *st)
{
	free(st->type.keys.keys);
}

void *cyclone_read(const dds_topic_descriptor_t *desc, uint32_t version, uint8_t *body,
		   size_t bytes)
{
	struct ddsi_sertype_default st;
	dds_istream_t in;
	uint32_t actual;
	void *value = NULL;

	cyclone_sertype_init(&st, desc);
	if (dds_stream_normalize(body, (uint32_t)bytes, false, version, &st, false, &actual)) {
		value = calloc(1, desc->m_size);
		dds_istream_init(&in, actual, body, version);
		dds_stream_read_sample(&in, value, &st);
	}
	cyclone_sertype_fini(&st);
	return value;
}

size_t cyclone_write(const dds_topic_descriptor_t *desc, uint32_t version, const void *value,
		     uint8_t *out, size_t room)
{
	struct ddsi_sertype_default st;
	dds_ostream_t os;
	size_t written;

	cyclone_sertype_init(&st, desc);
	dds_ostream_init(&os, 0, version);
	dds_stream_write_sample(&os, value, &st);
	written = os.m_index;
	assert(written <= room);
	memcpy(out, os.m_buffer, written);
	dds_ostream_fini(&os);
	cyclone_sertype_fini(&st);
	return written;
}

size_t cyclone_relay(const dds_topic_descriptor_t *desc, uint32_t version, uint8_t *body,
		     size_t bytes, uint8_t *out, size_t room)
{
	void *value = cyclone_read(desc, version, body, bytes);
	size_t written;

	if (!value)
		return 0;
	written = cyclone_write(desc, version, value, out, room);
	dds_stream_free_sample(value, desc->m_ops);
	free(value);
	return written;
}
