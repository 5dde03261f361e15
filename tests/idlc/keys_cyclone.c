/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: whatever Cyclone DDS 0.10.2 puts on the wire for a dispose or unregister, the Apus reader finds the
 * instance.
 * Method: both in one process, over the loopback of the namespace the test runs in.
 *
 * Usage: keys_cyclone SUFFIX    see keys_live_begin()
 */
#include <dds/dds.h>
#include <dds/ddsi/ddsi_cdrstream.h>
#include <dds/ddsi/ddsi_serdata_default.h>
#include <dds/ddsi/ddsi_sertype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keys_live.h"

#define SHAPE(name) extern const dds_topic_descriptor_t name##_desc;
#include "shapes_table.h"
#undef SHAPE

static const dds_topic_descriptor_t *const descs[] = {
#define SHAPE(name) &name##_desc,
#include "shapes_table.h"
};

static dds_entity_t must(dds_entity_t result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "keys_cyclone: %s: %s\n", what, dds_strretcode(-result));
		exit(3);
	}
	return result;
}

/* The sample as Cyclone holds it, through XCDR2. */
static void *to_cyclone(const dds_topic_descriptor_t *desc, const struct apus_type *type,
			const void *sample)
{
	static uint8_t payload[65536];
	struct ddsi_sertype_default st;
	void *value = calloc(1, desc->m_size);
	int bytes = apus_type_encode(type, sample, APUS_XCDR2, false, payload, sizeof(payload));
	dds_istream_t in;
	uint32_t actual;

	memset(&st, 0, sizeof(st));
	st.type.size = desc->m_size;
	st.type.align = desc->m_align;
	st.type.flagset = desc->m_flagset;
	st.type.ops.ops = (uint32_t *)desc->m_ops;
	st.type.ops.nops = dds_stream_countops(desc->m_ops, desc->m_nkeys, desc->m_keys);
	bytes -= 4 + (payload[3] & 3);
	if (!dds_stream_normalize(payload + 4, (uint32_t)bytes, false, 2, &st, false, &actual))
		must(DDS_RETCODE_BAD_PARAMETER, desc->m_typename);
	dds_istream_init(&in, (uint32_t)bytes, payload + 4, 2);
	dds_stream_read_sample(&in, value, &st);
	return value;
}

static dds_entity_t make_writer(dds_entity_t participant, unsigned int i)
{
	dds_qos_t *qos = dds_create_qos();
	dds_entity_t topic = must(dds_create_topic(participant, descs[keys_live_index(i)],
						   keys_live_topic(i), NULL, NULL),
				  "topic"),
		     writer;

	dds_qset_reliability(qos, DDS_RELIABILITY_RELIABLE, DDS_SECS(10));
	dds_qset_history(qos, DDS_HISTORY_KEEP_ALL, 0);
	writer = must(dds_create_writer(participant, topic, qos, NULL), "writer");
	dds_delete_qos(qos);
	return writer;
}

static void await_match(dds_entity_t writer)
{
	dds_publication_matched_status_t status = {.current_count = 0};

	for (int i = 0; i < 1000 && !status.current_count; i++) {
		dds_sleepfor(DDS_MSECS(10));
		dds_get_publication_matched_status(writer, &status);
	}
}

int main(int argc, char **argv)
{
	unsigned int count = keys_live_begin(argc > 1 ? argv[1][0] : 'f');
	dds_entity_t participant = must(dds_create_participant(0, NULL, NULL), "participant");
	dds_entity_t *writers = calloc(count, sizeof(*writers));
	int code;

	for (unsigned int i = 0; i < count; i++)
		writers[i] = make_writer(participant, i);
	for (unsigned int i = 0; i < count; i++)
		await_match(writers[i]);
	dds_sleepfor(DDS_MSECS(500)); /* the other side may learn of the match later */
	for (unsigned int i = 0; i < count; i++) {
		void *values[KEYS_LIVE_SAMPLES];

		for (unsigned int n = 0; n < KEYS_LIVE_SAMPLES; n++) {
			values[n] = to_cyclone(descs[keys_live_index(i)], keys_live_type(i),
					       keys_live_sample(i, n));
			must(dds_write(writers[i], values[n]), "write");
		}
		must(dds_dispose(writers[i], values[1]), "dispose");
		must(dds_unregister_instance(writers[i], values[2]), "unregister");
	}
	code = keys_live_finish();
	dds_delete(participant);
	return code;
}
