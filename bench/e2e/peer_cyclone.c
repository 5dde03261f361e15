/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cyclone DDS in the benchmarks. Configured for loopback as we are: messages and fragments as large
 * as a datagram carries, 1 MB of receive buffer. Samples are taken in its own receive thread, by a listener:
 * that saves it a thread switch.
 */
#include "peer.h"

#include <dds/dds.h>
#include <dds/version.h>
#include <dds/ddsc/dds_public_impl.h>

#include <stdio.h>
#include <stdlib.h>

#include "bench_peer.h"

#define TAKE_MAX 64

struct endpoint {
	dds_entity_t entity;
	struct peer_options options;
};

static dds_entity_t participant;

/* Who writes in a listener keeps acknowledgements from being read meanwhile: nothing may wait for one there. */
#define ROOMY                                                                                  \
	"<Watermarks><WhcHigh>64MB</WhcHigh><WhcHighInit>64MB</WhcHighInit><WhcAdaptive>false" \
	"</WhcAdaptive></Watermarks>"
#define XML                                                                         \
	"<Domain Id=\"any\"><General><Interfaces><NetworkInterface address=\"%s\" " \
	"multicast=\"true\"/></Interfaces><MaxMessageSize>65500B</MaxMessageSize>"  \
	"<FragmentSize>64000B</FragmentSize></General>"                             \
	"<Internal><SocketReceiveBufferSize min=\"1MB\"/>%s</Internal>"             \
	"<Discovery><ParticipantIndex>auto</ParticipantIndex></Discovery></Domain>"

static const dds_topic_descriptor_t *descriptor(uint32_t bytes)
{
	switch (bytes) {
	case 16: return &Bench16_desc;
	case 64: return &Bench64_desc;
	case 256: return &Bench256_desc;
	case 1024: return &Bench1024_desc;
	case 4096: return &Bench4096_desc;
	case 65536: return &Bench65536_desc;
	default: return bytes == 1048576 ? &Bench1048576_desc : NULL;
	}
}

static void on_data(dds_entity_t reader, void *arg)
{
	struct endpoint *e = arg;
	void *samples[TAKE_MAX] = {NULL};
	dds_sample_info_t info[TAKE_MAX];
	int n;

	while ((n = dds_take(reader, samples, info, TAKE_MAX, TAKE_MAX)) > 0) {
		for (int i = 0; i < n; i++)
			if (info[i].valid_data)
				e->options.on_sample(e->options.user, samples[i]);
		dds_return_loan(reader, samples, n);
	}
}

static dds_qos_t *make_qos(const struct peer_options *o)
{
	dds_qos_t *qos = dds_create_qos();

	dds_qset_reliability(qos,
			     o->reliable ? DDS_RELIABILITY_RELIABLE : DDS_RELIABILITY_BEST_EFFORT,
			     DDS_SECS(1));
	dds_qset_history(qos, DDS_HISTORY_KEEP_ALL, 0);
	/* The limit of a reader would drop samples of its best-effort writer. */
	if (o->writer)
		dds_qset_resource_limits(qos, (int32_t)o->history, DDS_LENGTH_UNLIMITED,
					 DDS_LENGTH_UNLIMITED);
	return qos;
}

static bool join(const struct peer_options *o)
{
	dds_domainid_t domain = o->domain;
	char xml[1024];

	if (participant > 0)
		return true;
	snprintf(xml, sizeof(xml), XML, o->address ? o->address : "127.0.0.1",
		 o->echoes ? ROOMY : "");
	if (dds_create_domain(domain, xml) < 0)
		return false;
	participant = dds_create_participant(domain, NULL, NULL);
	return participant > 0;
}

static void *cyclone_open(const struct peer_options *o)
{
	struct endpoint *e = calloc(1, sizeof(*e));
	dds_listener_t *listener = dds_create_listener(e);
	dds_qos_t *qos = make_qos(o);
	char name[64];
	dds_entity_t topic;

	snprintf(name, sizeof(name), "bench_%s_%u_%d_%d", o->topic ? o->topic : "peer", o->bytes,
		 o->reliable, o->batch);
	if (!e || !descriptor(o->bytes) || !join(o))
		return NULL;
	e->options = *o;
	topic = dds_create_topic(participant, descriptor(o->bytes), name, NULL, NULL);
	dds_lset_data_available(listener, on_data);
	dds_write_set_batch(o->batch); /* what writers created from now on do */
	e->entity = o->writer ? dds_create_writer(participant, topic, qos, NULL)
			      : dds_create_reader(participant, topic, qos, listener);
	dds_delete_qos(qos);
	dds_delete_listener(listener);
	return e->entity > 0 ? e : NULL;
}

static uint32_t cyclone_matched(void *endpoint)
{
	struct endpoint *e = endpoint;
	dds_publication_matched_status_t written = {0};
	dds_subscription_matched_status_t read = {0};

	if (e->options.writer)
		dds_get_publication_matched_status(e->entity, &written);
	else
		dds_get_subscription_matched_status(e->entity, &read);
	return written.current_count + read.current_count;
}

static bool cyclone_write(void *endpoint, const void *sample)
{
	return dds_write(((struct endpoint *)endpoint)->entity, sample) == 0;
}

static void cyclone_drain(void *endpoint)
{
	struct endpoint *e = endpoint;

	dds_write_flush(e->entity);
	if (e->options.reliable)
		dds_wait_for_acks(e->entity, DDS_SECS(2));
}

static const char *cyclone_version(void)
{
	return DDS_VERSION;
}

static void cyclone_leave(void)
{
	dds_delete(DDS_CYCLONEDDS_HANDLE);
}

static const char *const cyclone_routes[] = {"udp", NULL};
static const struct peer cyclone = {.name = "cyclone",
				    .batches = true,
				    .open = cyclone_open,
				    .matched = cyclone_matched,
				    .write = cyclone_write,
				    .drain = cyclone_drain,
				    .routes = cyclone_routes,
				    .version = cyclone_version,
				    .leave = cyclone_leave};
const struct peer *const peer_cyclone = &cyclone;
