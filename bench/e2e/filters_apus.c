/* SPDX-License-Identifier: Apache-2.0 */
/* Apus in the comparison of content filters. */
#include "common.h"
#include "filters.h"

#include <stdio.h>
#include <string.h>

static struct apus_participant *participant;
static struct apus_writer *writer[2];
static struct apus_reader *reader[2];
static const char *parameter[] = {"50"};
static int current;

static void create(int filtered)
{
	static const char *const topics[2] = {"FiltersPlain", "Filters"};
	struct apus_qos wq, rq;
	struct apus_endpoint_options o = {
		.topic = topics[filtered], .type = &apus_shape_type, .qos = &rq};

	apus_qos_writer_default(&wq);
	apus_qos_reader_default(&rq);
	wq.reliability = rq.reliability = APUS_BEST_EFFORT;
	if (filtered) {
		o.filter_expression = filters_expressions[0];
		o.filter_parameters = parameter;
		o.filter_parameter_count = 1;
	}
	if (apus_reader_create(participant, &o, &reader[filtered]) != 0)
		die("Apus: no reader");
	o = (struct apus_endpoint_options){
		.topic = topics[filtered], .type = &apus_shape_type, .qos = &wq};
	if (apus_writer_create(participant, &o, &writer[filtered]) != 0 ||
	    apus_writer_wait_matched(writer[filtered], 1, 10 * NS_PER_SEC) != 0)
		die("Apus: no writer");
}

static void open_apus(uint32_t domain)
{
	struct apus_config *config = apus_config_create();
	char text[16], why[128] = "";

	snprintf(text, sizeof(text), "%u", domain);
	if (apus_config_set(config, "domain", text, why, sizeof(why)) != 0 ||
	    apus_participant_create(config, &participant, why, sizeof(why)) != 0)
		die(why);
	apus_config_destroy(config);
	create(0);
	create(1);
}

static void set(int which)
{
	current = which;
	if (apus_reader_set_filter(reader[1], filters_expressions[which], parameter, 1, NULL) < 0)
		die("Apus refuses the filter");
}

static void set_parameter(const char *value)
{
	if (apus_reader_set_filter(reader[1], filters_expressions[current], &value, 1, NULL) < 0)
		die("Apus refuses the parameter");
}

static void write_one(int filtered, int32_t x)
{
	struct apus_shape shape = {"RED", x, 200, 30};

	if (apus_write(writer[filtered], &shape) != 0)
		die("Apus does not write");
}

static void add_stored(const struct apus_stat *stat, void *user)
{
	if (strcmp(stat->name, "reader.stored") == 0 || strcmp(stat->name, "reader.displaced") == 0)
		*(uint64_t *)user += stat->value;
}

static uint64_t received(void)
{
	uint64_t n = 0;

	apus_visit_reader_stats(reader[1], add_stored, &n);
	return n;
}

static void compile(int which)
{
	struct apus_filter *filter;

	if (apus_filter_open(&apus_shape_type, filters_expressions[which], parameter, 1, &filter,
			     NULL) != 0)
		die("Apus does not compile the filter");
	apus_filter_close(filter);
}

const struct filters_peer filters_apus = {"Apus",   open_apus, set,          write_one,
					  received, compile,   set_parameter};
