/* SPDX-License-Identifier: Apache-2.0 */
/* Discovery in bulk, Cyclone DDS; see discovery.h. Configured for loopback, otherwise as it is by default. */
#include "discovery.h"

#include <dds/dds.h>

#include "bench_peer.h"

static const char xml[] =
	"<Domain Id=\"any\"><General><Interfaces><NetworkInterface address=\"127.0.0.1\" "
	"multicast=\"true\"/></Interfaces></General>"
	"<Discovery><ParticipantIndex>auto</ParticipantIndex></Discovery></Domain>";

static dds_entity_t create(dds_entity_t participant, const struct bulk_options *o, uint32_t i)
{
	dds_qos_t *qos = dds_create_qos();
	dds_entity_t topic, entity;
	char name[32];

	bulk_topic(i, name);
	dds_qset_reliability(qos, DDS_RELIABILITY_RELIABLE, DDS_SECS(1));
	dds_qset_history(qos, DDS_HISTORY_KEEP_LAST, 1);
	topic = dds_create_topic(participant, &Bench16_desc, name, NULL, NULL);
	entity = bulk_is_writer(o, i) ? dds_create_writer(participant, topic, qos, NULL)
				      : dds_create_reader(participant, topic, qos, NULL);
	dds_delete_qos(qos);
	return entity;
}

static bool matched(const struct bulk_options *o, uint32_t i, dds_entity_t entity)
{
	dds_publication_matched_status_t publication;
	dds_subscription_matched_status_t subscription;

	if (bulk_is_writer(o, i))
		return dds_get_publication_matched_status(entity, &publication) == 0 &&
		       publication.current_count > 0;
	return dds_get_subscription_matched_status(entity, &subscription) == 0 &&
	       subscription.current_count > 0;
}

int main(int argc, char **argv)
{
	static dds_entity_t entities[BULK_MAX];
	double begun;
	dds_entity_t participant;
	struct bulk_options o;
	uint32_t next = 0;

	if (!bulk_parse(argc, argv, &o))
		return 2;
	begun = bulk_begin();
	if (dds_create_domain((dds_domainid_t)o.domain, xml) < 0)
		return 3;
	participant = dds_create_participant((dds_domainid_t)o.domain, NULL, NULL);
	for (uint32_t i = 0; i < o.endpoints; i++) {
		entities[i] = create(participant, &o, i);
		if (entities[i] < 0)
			return 3;
	}
	while (next < o.endpoints && bulk_now() - begun < BULK_TIMEOUT_S) {
		if (matched(&o, next, entities[next]))
			next++;
		else
			bulk_pause();
	}
	return bulk_finish(begun, next == o.endpoints);
}
