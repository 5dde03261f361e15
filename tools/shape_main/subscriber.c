/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shape_main -S: rounds of taking everything there is, instance by instance unless told otherwise.
 *
 * A round takes all in one go: with coherent or ordered access inside one access of the subscriber, so
 * a set that one round shows is shown whole.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/shape_main/shape.h"

#define BATCH       64
#define ARENA_BYTES (1u << 20)

struct subscriber {
	struct shape_run *run;
	const struct shape_options *options;
	struct apus_subscriber *group;
	struct apus_reader *readers[64];
	char topics[64][SHAPE_NAME_BYTES];
	struct apus_shape_extended shape;
	uint8_t *arena;
};

/* ---- creation ----------------------------------------------------------------------------------- */

/* -c is a filter with the color as its parameter; quotes in it are doubled by the library's rules. */
static void set_filter(struct subscriber *s, struct apus_endpoint_options *endpoint, char *name,
		       const char *topic)
{
	if (!s->options->color && !s->options->filter)
		return;
	snprintf(name, SHAPE_NAME_BYTES, "%.*s_filtered", SHAPE_NAME_BYTES - 10, topic);
	endpoint->filter_name = name;
	endpoint->filter_expression = s->options->filter ? s->options->filter : "color = %0";
}

static int create_reader(struct subscriber *s, uint32_t idx)
{
	char filtered[SHAPE_NAME_BYTES] = "", color[SHAPE_COLOR_BYTES + 2];
	struct apus_filter_error where = {0};
	struct apus_endpoint_options endpoint;
	const char *parameter = color;
	struct apus_qos qos;
	int rc;

	shape_topic_name(s->options, idx, s->topics[idx]);
	printf("Create topic: %s\n", s->topics[idx]);
	shape_endpoint_options(s->options, s->topics[idx], &qos, &endpoint);
	endpoint.subscriber = s->group;
	endpoint.filter_error = &where;
	set_filter(s, &endpoint, filtered, s->topics[idx]);
	if (s->options->color && !s->options->filter) {
		snprintf(color, sizeof(color), "'%s'", s->options->color);
		endpoint.filter_parameters = &parameter;
		endpoint.filter_parameter_count = 1;
	}
	printf("Create reader for topic: %s\n", *filtered ? filtered : s->topics[idx]);
	rc = apus_reader_create(s->run->session.participant, &endpoint, &s->readers[idx]);
	if (rc == APUS_EFILTER)
		printf("failed to create content filtered topic\n");
	return rc;
}

static int create(struct subscriber *s)
{
	const struct shape_options *options = s->options;
	const struct apus_group_options group = {
		.access_scope = options->qos.access_scope,
		.coherent_access = options->qos.coherent_access,
		.ordered_access = options->qos.ordered_access,
	};
	int rc = apus_subscriber_create(s->run->session.participant, &group, &s->group);

	if (rc != 0)
		return shape_complain("subscriber", rc);
	for (uint32_t i = 0; i < options->topics; i++) {
		rc = create_reader(s, i);
		if (rc != 0)
			return shape_complain("reader", rc);
	}
	return 0;
}

/* ---- one round ---------------------------------------------------------------------------------- */

static void print(struct subscriber *s, uint32_t topic, const struct apus_sample *sample)
{
	const struct apus_sample_info *info = &sample->info;
	int rc = apus_type_decode(&apus_shape_extended_type, sample->payload, sample->payload_bytes,
				  !info->valid_data, &s->shape, s->arena, ARENA_BYTES);

	if (rc < 0)
		fprintf(stderr, "shape_main: sample: %s\n", apus_strerror(rc));
	else if (info->valid_data)
		shape_print_sample(s->topics[topic], &s->shape);
	else if (info->instance_state == APUS_STATE_NO_WRITERS)
		printf("%-10s %-10s NOT_ALIVE_NO_WRITERS_INSTANCE_STATE\n", s->topics[topic],
		       s->shape.color);
	else if (info->instance_state == APUS_STATE_DISPOSED)
		printf("%-10s %-10s NOT_ALIVE_DISPOSED_INSTANCE_STATE\n", s->topics[topic],
		       s->shape.color);
}

/* Returns how many samples came, or a negative APUS_E…. */
static int print_all(struct subscriber *s, uint32_t topic, struct apus_sample *samples, int count)
{
	for (int i = 0; i < count; i++)
		print(s, topic, &samples[i]);
	if (count > 0)
		apus_return(s->readers[topic], samples, (uint32_t)count);
	return count;
}

/* What is in the history stays there with -R; only what has not been read yet is new to a round. */
static const struct apus_select *selection(const struct subscriber *s)
{
	static const struct apus_select unread = {.sample_states = 2};

	return s->options->keep_samples ? &unread : NULL;
}

static void drain(struct subscriber *s, uint32_t topic)
{
	struct apus_sample samples[BATCH];
	int count;

	do {
		count = s->options->keep_samples
				? apus_read(s->readers[topic], samples, BATCH, selection(s))
				: apus_take(s->readers[topic], samples, BATCH, selection(s));
		print_all(s, topic, samples, count);
	} while (count == BATCH);
}

static void drain_instances(struct subscriber *s, uint32_t topic)
{
	apus_instance previous = APUS_INSTANCE_NONE;
	struct apus_sample samples[BATCH];
	int count;

	do {
		count = s->options->keep_samples
				? apus_read_next_instance(s->readers[topic], samples, BATCH,
							  previous, selection(s))
				: apus_take_next_instance(s->readers[topic], samples, BATCH,
							  previous, selection(s));
		/* A full batch may have left samples of that instance: the same one again. */
		if (count > 0 && count < BATCH)
			previous = samples[0].info.instance;
		print_all(s, topic, samples, count);
	} while (count > 0);
}

/* Group order: the readers in the order in which to take from them, a sample each. */
static void drain_group(struct subscriber *s)
{
	struct apus_reader *list[BATCH];
	struct apus_sample sample;
	int count, got;

	do {
		got = 0;
		count = apus_subscriber_readers(s->group, selection(s), list, BATCH);
		for (int i = 0; i < count; i++) {
			uint32_t topic = 0;
			int n;

			while (s->readers[topic] != list[i])
				topic++;
			n = s->options->keep_samples ? apus_read(list[i], &sample, 1, selection(s))
						     : apus_take(list[i], &sample, 1, selection(s));
			got += print_all(s, topic, &sample, n) > 0;
		}
	} while (count == BATCH && got > 0);
}

static void read_round(struct subscriber *s, uint32_t round)
{
	const struct apus_qos *qos = &s->options->qos;
	bool access = qos->coherent_access || qos->ordered_access;
	bool in_order = qos->ordered_access && qos->access_scope == APUS_SCOPE_GROUP;

	if (qos->coherent_access)
		printf("Reading coherent sets, iteration %u\n", round);
	if (qos->ordered_access)
		printf("Reading with ordered access, iteration %u\n", round);
	if (access)
		apus_subscriber_begin_access(s->group);
	if (in_order)
		drain_group(s);
	for (uint32_t i = 0; i < s->options->topics && !in_order; i++)
		(s->options->take_all ? drain : drain_instances)(s, i);
	if (access)
		apus_subscriber_end_access(s->group);
}

/* ---- run ---------------------------------------------------------------------------------------- */

static void destroy(struct subscriber *s)
{
	for (uint32_t i = 0; i < s->options->topics; i++)
		if (s->readers[i])
			apus_reader_destroy(s->readers[i]);
	if (s->group)
		apus_subscriber_destroy(s->group);
	free(s->arena);
}

static void read_rounds(struct subscriber *s)
{
	uint32_t round = 0;

	do {
		shape_print_events(s->run);
		read_round(s, round++);
	} while (shape_pause(s->run, s->options->read_period_ns) &&
		 (s->options->iterations == 0 || round < s->options->iterations));
	shape_print_events(s->run);
}

int shape_subscribe(struct shape_run *run)
{
	struct subscriber *s = calloc(1, sizeof(*s));
	int rc = 0;

	if (!s)
		return shape_complain("subscriber", APUS_ENOMEM);
	s->run = run;
	s->options = run->options;
	s->arena = malloc(ARENA_BYTES);
	if (!s->arena)
		rc = shape_complain("arena", APUS_ENOMEM);
	if (rc == 0)
		rc = create(s);
	session_report(&run->session, &(struct session_options){.verbose = run->options->verbose});
	if (rc == 0)
		read_rounds(s);
	destroy(s);
	free(s);
	return rc;
}
