/* SPDX-License-Identifier: Apache-2.0 */
/* Cyclone DDS (0.10) publisher or subscriber of Blob; command line and output in blob.h. */
#include "blob.h"

#include <stdio.h>
#include <stdlib.h>

#include <dds/dds.h>

#include "blob_type.h"

static dds_entity_t must(dds_entity_t result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "blob-cyclone: %s: %s\n", what, dds_strretcode(-result));
		exit(3);
	}
	return result;
}

static void create_domain(const struct blob_options *o)
{
	char xml[1024];

	snprintf(
		xml, sizeof(xml),
		"<Domain Id=\"any\"><General><Interfaces><NetworkInterface address=\"%s\" "
		"multicast=\"true\"/></Interfaces><MaxMessageSize>14720B</MaxMessageSize></General>"
		"<Discovery><ParticipantIndex>auto</ParticipantIndex></Discovery>"
		"<Internal><NackDelay>%d ms</NackDelay></Internal></Domain>",
		o->interface, o->nack_delay_ms);
	must(dds_create_domain((dds_domainid_t)o->domain, xml), "domain");
}

static dds_entity_t open_endpoint(const struct blob_options *o)
{
	dds_qos_t *qos = dds_create_qos();
	dds_entity_t participant, topic, endpoint;

	create_domain(o);
	dds_qset_reliability(qos,
			     o->reliable ? DDS_RELIABILITY_RELIABLE : DDS_RELIABILITY_BEST_EFFORT,
			     DDS_SECS(60));
	if (o->reliable)
		dds_qset_history(qos, DDS_HISTORY_KEEP_ALL, 0);
	else
		dds_qset_history(qos, DDS_HISTORY_KEEP_LAST, o->depth);
	participant =
		must(dds_create_participant((dds_domainid_t)o->domain, NULL, NULL), "participant");
	topic = must(dds_create_topic(participant, &Blob_desc, o->topic, NULL, NULL), "topic");
	endpoint = o->publish ? dds_create_writer(participant, topic, qos, NULL)
			      : dds_create_reader(participant, topic, qos, NULL);
	dds_delete_qos(qos);
	return must(endpoint, "endpoint");
}

static bool matched(dds_entity_t writer)
{
	dds_publication_matched_status_t status = {0};

	dds_get_publication_matched_status(writer, &status);
	return status.current_count > 0;
}

static int publish(const struct blob_options *o, dds_entity_t writer)
{
	int64_t give_up_ns = blob_now_ns() + (int64_t)(o->timeout_s * 1e9), begun_ns;
	uint8_t *pattern = blob_pattern(o);
	bool acked = !o->reliable;
	int code;

	while (!matched(writer)) {
		if (blob_stopped() || blob_now_ns() > give_up_ns)
			return blob_print_done(0, true, 0);
		blob_sleep(0.01);
	}
	blob_sleep(0.5); /* the other side may learn of the match later */
	begun_ns = blob_now_ns();
	for (int i = 0; i < o->size_count && !blob_stopped(); i++) {
		Blob blob = {.kid = 1, .data = {o->sizes[i], o->sizes[i], pattern, false}};

		must(dds_write(writer, &blob), "write");
		if (o->rate_hz > 0)
			blob_sleep(1 / o->rate_hz);
	}
	while (!acked && !blob_stopped() && blob_now_ns() < give_up_ns)
		acked = dds_wait_for_acks(writer, DDS_MSECS(100)) == DDS_RETCODE_OK;
	code = blob_print_done(o->size_count, !acked, begun_ns);
	blob_sleep(o->linger_s);
	return code;
}

static int subscribe(const struct blob_options *o, dds_entity_t reader)
{
	int64_t give_up_ns = blob_now_ns() + (int64_t)(o->timeout_s * 1e9), begun_ns = 0;
	uint8_t *pattern = blob_pattern(o);
	int taken = 0, code;

	while (taken < o->size_count && !blob_stopped() && blob_now_ns() < give_up_ns) {
		void *sample[1] = {NULL};
		dds_sample_info_t info;

		if (dds_take(reader, sample, &info, 1, 1) < 1) {
			blob_sleep(0.001);
			continue;
		}
		if (info.valid_data) {
			const Blob *blob = sample[0];

			begun_ns = begun_ns ? begun_ns : blob_now_ns();
			blob_print_sample(o, pattern, blob->data._buffer, blob->data._length);
			taken++;
		}
		dds_return_loan(reader, sample, 1);
	}
	code = blob_print_done(taken, taken < o->size_count && !blob_stopped(), begun_ns);
	blob_sleep(o->linger_s);
	return code;
}

int main(int argc, char **argv)
{
	static struct blob_options options;
	dds_entity_t endpoint;
	int code;

	blob_parse(argc, argv, &options);
	endpoint = open_endpoint(&options);
	code = options.publish ? publish(&options, endpoint) : subscribe(&options, endpoint);
	dds_delete(dds_get_participant(endpoint));
	return code;
}
