/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shape_main -P: shapes that move, one sample an instance, topic and round.
 *
 * A coherent set spans --coherent-sample-count rounds over all topics of the publisher, so that with
 * group scope a set has samples of each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/shape_main/shape.h"

#define WIDTH      240
#define HEIGHT     270
#define ACK_WAIT   INT64_C(1000000000)
#define EXTRA_BYTE 255

struct publisher {
	struct shape_run *run;
	const struct shape_options *options;
	struct apus_publisher *group;
	struct apus_writer *writers[64];
	char topics[64][SHAPE_NAME_BYTES];
	struct apus_shape_extended shape;
	int32_t x_step, y_step;
	bool in_set;
};

/* ---- creation ----------------------------------------------------------------------------------- */

static const char *base_color(const struct shape_options *options)
{
	return options->color ? options->color : "BLUE";
}

static int create_writer(struct publisher *p, uint32_t idx)
{
	struct apus_endpoint_options endpoint;
	struct apus_qos qos;

	shape_topic_name(p->options, idx, p->topics[idx]);
	printf("Create topic: %s\n", p->topics[idx]);
	shape_endpoint_options(p->options, p->topics[idx], &qos, &endpoint);
	endpoint.publisher = p->group;
	printf("Create writer for topic: %s color: %s\n", p->topics[idx], base_color(p->options));
	return apus_writer_create(p->run->session.participant, &endpoint, &p->writers[idx]);
}

static int create(struct publisher *p)
{
	const struct shape_options *options = p->options;
	const struct apus_group_options group = {
		.access_scope = options->qos.access_scope,
		.coherent_access = options->qos.coherent_access,
		.ordered_access = options->qos.ordered_access,
	};
	int rc = apus_publisher_create(p->run->session.participant, &group, &p->group);

	if (rc != 0)
		return shape_complain("publisher", rc);
	for (uint32_t i = 0; i < options->topics; i++) {
		rc = create_writer(p, i);
		if (rc != 0)
			return shape_complain("writer", rc);
	}
	return 0;
}

static int create_shape(struct publisher *p)
{
	struct apus_sequence *extra = &p->shape.additional_payload_size;

	p->shape.shapesize = p->options->size;
	p->shape.x = rand() % WIDTH;
	p->shape.y = rand() % HEIGHT;
	p->x_step = rand() % 2 ? 3 : -3;
	p->y_step = rand() % 2 ? 2 : -2;
	if (p->options->extra_bytes == 0)
		return 0;
	extra->data = malloc(p->options->extra_bytes);
	if (!extra->data)
		return shape_complain("extra payload", APUS_ENOMEM);
	memset(extra->data, EXTRA_BYTE, p->options->extra_bytes);
	extra->length = extra->capacity = p->options->extra_bytes;
	return 0;
}

/* ---- one round ---------------------------------------------------------------------------------- */

static void move_axis(int32_t *at, int32_t *step, int32_t limit)
{
	*at += *step;
	if (*at < 0 || *at > limit) {
		*step = -*step;
		*at = *at < 0 ? 0 : limit;
	}
}

static void move(struct publisher *p)
{
	const struct shape_options *options = p->options;

	move_axis(&p->shape.x, &p->x_step, WIDTH);
	move_axis(&p->shape.y, &p->y_step, HEIGHT);
	if (options->size)
		return;
	p->shape.shapesize = options->size_modulo ? p->shape.shapesize % options->size_modulo + 1
						  : p->shape.shapesize + 1;
}

static void name_instance(struct publisher *p, uint32_t idx)
{
	if (idx == 0)
		snprintf(p->shape.color, SHAPE_COLOR_BYTES, "%s", base_color(p->options));
	else
		snprintf(p->shape.color, SHAPE_COLOR_BYTES, "%s%u", base_color(p->options), idx);
}

/* A sample that does not go out (a full history, for one) is missed, not fatal: the next one follows. */
static void write_instances(struct publisher *p, uint32_t topic)
{
	for (uint32_t i = 0; i < p->options->instances; i++) {
		int rc;

		name_instance(p, i);
		rc = apus_write(p->writers[topic], &p->shape);
		if (rc != 0)
			fprintf(stderr, "shape_main: write: %s\n", apus_strerror(rc));
		else if (p->options->print_written)
			shape_print_sample(p->topics[topic], &p->shape);
	}
}

static void set_begin(struct publisher *p, uint32_t round)
{
	uint32_t rounds = p->options->coherent_rounds;

	if (!p->options->qos.coherent_access || rounds == 0 || round % rounds != 0)
		return;
	p->in_set = apus_publisher_begin_coherent(p->group) == 0;
}

static void set_end(struct publisher *p)
{
	if (p->in_set)
		apus_publisher_end_coherent(p->group);
	p->in_set = false;
}

static void write_round(struct publisher *p, uint32_t round)
{
	uint32_t rounds = p->options->coherent_rounds;

	set_begin(p, round);
	move(p);
	for (uint32_t i = 0; i < p->options->topics; i++)
		write_instances(p, i);
	if (rounds && round % rounds == rounds - 1)
		set_end(p);
}

/* ---- the end ------------------------------------------------------------------------------------ */

static void end_instances(struct publisher *p)
{
	if (p->options->final_state == FINAL_NONE)
		return;
	for (uint32_t topic = 0; topic < p->options->topics; topic++)
		for (uint32_t i = 0; i < p->options->instances; i++) {
			name_instance(p, i);
			if (p->options->final_state == FINAL_DISPOSE)
				apus_dispose(p->writers[topic], &p->shape);
			else
				apus_unregister(p->writers[topic], &p->shape);
		}
}

static void wait_acked(struct publisher *p)
{
	int64_t until_ns = session_now_ns() + ACK_WAIT;

	for (uint32_t i = 0; i < p->options->topics; i++) {
		int64_t left_ns = until_ns - session_now_ns();

		apus_writer_wait_acked(p->writers[i], left_ns > 0 ? left_ns : 0);
	}
}

static void destroy(struct publisher *p)
{
	for (uint32_t i = 0; i < p->options->topics; i++)
		if (p->writers[i])
			apus_writer_destroy(p->writers[i]);
	if (p->group)
		apus_publisher_destroy(p->group);
	free(p->shape.additional_payload_size.data);
}

static void write_rounds(struct publisher *p)
{
	uint32_t round = 0;

	do {
		shape_print_events(p->run);
		write_round(p, round++);
	} while (shape_pause(p->run, p->options->write_period_ns) &&
		 (p->options->iterations == 0 || round < p->options->iterations));
	set_end(p);
	end_instances(p);
	wait_acked(p);
	shape_print_events(p->run);
}

int shape_publish(struct shape_run *run)
{
	struct publisher *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return shape_complain("publisher", APUS_ENOMEM);
	p->run = run;
	p->options = run->options;
	srand((unsigned)session_now_ns());
	rc = create_shape(p);
	if (rc == 0)
		rc = create(p);
	session_report(&run->session, &(struct session_options){.verbose = run->options->verbose});
	if (rc == 0)
		write_rounds(p);
	destroy(p);
	free(p);
	return rc;
}
