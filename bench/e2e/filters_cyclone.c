/* SPDX-License-Identifier: Apache-2.0 */
/* Cyclone DDS in the comparison of content filters: its filters are functions of the application in C, set on the
 * topic. */
#include "filters.h"

#include <dds/dds.h>
#include <dds/ddsc/dds_public_impl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "filters_shape.h"

static dds_entity_t participant, topic[2], writer[2];
static uint64_t passed;

static dds_entity_t must(dds_entity_t result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "filters: Cyclone DDS: %s: %s\n", what, dds_strretcode(-result));
		exit(3);
	}
	return result;
}

static bool one_int(const void *sample, void *arg)
{
	const ShapeType *s = sample;
	bool holds = s->x > *(const int32_t *)arg;

	passed += holds;
	return holds;
}

static bool int_and_color(const void *sample, void *arg)
{
	const ShapeType *s = sample;
	bool holds = s->x > *(const int32_t *)arg && strcmp(s->color, "RED") == 0;

	passed += holds;
	return holds;
}

static bool ten_terms(const void *sample, void *arg)
{
	const ShapeType *s = sample;
	size_t n = strlen(s->color);
	bool holds = s->x > 0 && s->x < 1000 && s->y >= 1 && s->y <= 900 &&
		     (s->shapesize == 30 || s->shapesize == 40 ||
		      (s->shapesize >= *(const int32_t *)arg && s->shapesize <= 60)) &&
		     !(s->x == 7 || s->y == 8) && n >= 2 && s->color[0] == 'R' &&
		     s->color[n - 1] == 'D';

	passed += holds;
	return holds;
}

static void open_cyclone(uint32_t domain)
{
	static const char *const names[2] = {"FiltersPlain", "Filters"};
	dds_qos_t *qos = dds_create_qos();
	char xml[512];

	snprintf(xml, sizeof(xml),
		 "<Domain Id=\"any\"><General><Interfaces><NetworkInterface address=\"127.0.0.1\" "
		 "multicast=\"true\"/></Interfaces></General></Domain>");
	must(dds_create_domain((dds_domainid_t)domain, xml), "domain");
	participant =
		must(dds_create_participant((dds_domainid_t)domain, NULL, NULL), "participant");
	dds_qset_reliability(qos, DDS_RELIABILITY_BEST_EFFORT, 0);
	for (int i = 0; i < 2; i++) {
		topic[i] =
			must(dds_create_topic(participant, &ShapeType_desc, names[i], NULL, NULL),
			     "topic");
		must(dds_create_reader(participant, topic[i], qos, NULL), "reader");
		writer[i] = must(dds_create_writer(participant, topic[i], qos, NULL), "writer");
	}
	dds_delete_qos(qos);
}

static void set(int which)
{
	static int32_t parameter = 50;
	static const dds_topic_filter_arg_fn functions[FILTERS_COUNT] = {one_int, int_and_color,
									 ten_terms};

	must(dds_set_topic_filter_and_arg(topic[1], functions[which], &parameter), "filter");
}

static void write_one(int filtered, int32_t x)
{
	ShapeType shape = {"RED", x, 200, 30};

	must(dds_write(writer[filtered], &shape), "write");
}

static uint64_t received(void)
{
	return passed;
}

const struct filters_peer filters_cyclone = {"Cyclone DDS", open_cyclone, set, write_one,
					     received,      NULL,         NULL};
