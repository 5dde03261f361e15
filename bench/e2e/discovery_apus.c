/* SPDX-License-Identifier: Apache-2.0 */
/* Discovery in bulk, Apus; see discovery.h. */
#include "discovery.h"

#include <apus/apus.h>

static void must(int rc, const char *what)
{
	if (rc == 0)
		return;
	fprintf(stderr, "discovery_apus: %s: %s\n", what, apus_strerror(rc));
	exit(3);
}

/* Capacities as the run needs them; everything else as it is by default. */
static void set_limits(struct apus_config *c, const struct bulk_options *o)
{
	static const char *const limits[] = {"limits.local_endpoints", "limits.remote_writers",
					     "limits.remote_readers", "limits.matches"};
	char number[32];

	snprintf(number, sizeof(number), "%u", o->domain);
	must(apus_config_set(c, "domain", number, NULL, 0), "domain");
	snprintf(number, sizeof(number), "%u", o->endpoints + 16);
	for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++)
		must(apus_config_set(c, limits[i], number, NULL, 0), limits[i]);
	must(apus_config_set(c, "limits.participants", "8", NULL, 0), "participants");
}

static void create(struct apus_participant *p, const struct bulk_options *o, uint32_t i,
		   struct apus_writer **w, struct apus_reader **r)
{
	struct apus_endpoint_options e = {.type = &apus_shape_type};
	struct apus_qos qos;
	char topic[32];

	if (bulk_is_writer(o, i))
		apus_qos_writer_default(&qos);
	else
		apus_qos_reader_default(&qos);
	qos.reliability = APUS_RELIABLE;
	qos.depth = 1;
	qos.max_samples = qos.max_samples_per_instance = qos.max_instances = 1;
	qos.max_matches = 1;
	qos.max_sample_bytes = 64;
	bulk_topic(i, topic);
	e.topic = topic;
	e.qos = &qos;
	if (bulk_is_writer(o, i))
		must(apus_writer_create(p, &e, w), "writer");
	else
		must(apus_reader_create(p, &e, r), "reader");
}

int main(int argc, char **argv)
{
	static struct apus_writer *writers[BULK_MAX];
	static struct apus_reader *readers[BULK_MAX];
	double begun;
	struct apus_participant *p;
	struct apus_config *c = apus_config_create();
	struct bulk_options o;
	char why[256] = "";
	uint32_t next = 0;

	if (!bulk_parse(argc, argv, &o))
		return 2;
	begun = bulk_begin();
	set_limits(c, &o);
	must(apus_participant_create(c, &p, why, sizeof(why)), why);
	apus_config_destroy(c);
	for (uint32_t i = 0; i < o.endpoints; i++)
		create(p, &o, i, &writers[i], &readers[i]);
	while (next < o.endpoints && bulk_now() - begun < BULK_TIMEOUT_S) {
		if (writers[next] ? apus_writer_matched(writers[next])
				  : apus_reader_matched(readers[next]))
			next++;
		else
			bulk_pause();
	}
	return bulk_finish(begun, next == o.endpoints);
}
