/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shape_main: publishes or subscribes to moving shapes over the public API, with the command line and
 * the output that the OMG's DDS interoperability test drives every implementation by.
 *
 * Output is the contract: lines leave one by one, and nothing but a sample's line holds digits in
 * square brackets. A signal ends the run in order: instances end as asked, entities are deleted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/shape_main/shape.h"

/* The extra member has no bound: large samples of the test have 100,000 bytes. */
#define SAMPLES      256
#define SAMPLE_BYTES (1u << 17)

void shape_topic_name(const struct shape_options *options, uint32_t idx,
		      char name_out[SHAPE_NAME_BYTES])
{
	if (idx == 0)
		snprintf(name_out, SHAPE_NAME_BYTES, "%s", options->topic);
	else
		snprintf(name_out, SHAPE_NAME_BYTES, "%s%u", options->topic, idx);
}

void shape_print_sample(const char *topic, const struct apus_shape_extended *shape)
{
	const struct apus_sequence *extra = &shape->additional_payload_size;

	printf("%-10s %-10s %03d %03d [%d]", topic, shape->color, shape->x, shape->y,
	       shape->shapesize);
	if (extra->length)
		printf(" {%u}", ((const uint8_t *)extra->data)[extra->length - 1]);
	putchar('\n');
}

int shape_complain(const char *what, int result)
{
	if (result == APUS_ENOTSUP)
		printf("%s not supported\n", what);
	else
		fprintf(stderr, "shape_main: %s: %s\n", what, apus_strerror(result));
	return EXIT_FAILURE;
}

void shape_endpoint_options(const struct shape_options *options, const char *name,
			    struct apus_qos *qos, struct apus_endpoint_options *endpoint_out)
{
	*qos = options->qos;
	qos->max_samples = qos->max_samples_per_instance = SAMPLES;
	if (qos->history == APUS_KEEP_LAST && qos->depth > SAMPLES)
		qos->max_samples = qos->max_samples_per_instance = qos->depth;
	qos->max_sample_bytes = SAMPLE_BYTES;
	if (options->partition) {
		qos->partitions = &options->partition;
		qos->partition_count = 1;
	}
	memset(endpoint_out, 0, sizeof(*endpoint_out));
	endpoint_out->topic = name;
	endpoint_out->type = &apus_shape_extended_type;
	endpoint_out->type_name = "ShapeType";
	endpoint_out->qos = qos;
}

bool shape_pause(struct shape_run *run, int64_t ns)
{
	int64_t until_ns = session_now_ns() + ns;
	int fd = apus_participant_fd(run->session.participant);

	for (;;) {
		switch (session_wait(&run->session, fd, until_ns)) {
		case SESSION_READY: shape_print_events(run); break;
		case SESSION_TIME_OVER: return !session_stopped(&run->session);
		case SESSION_STOPPED: return false;
		}
	}
}

/* Policies that need a service Apus does not have are said in the words the test looks for. */
static bool supported(const struct shape_options *options)
{
	static const char *const names[] = {"VOLATILE", "TRANSIENT_LOCAL", "TRANSIENT",
					    "PERSISTENT"};

	if (options->qos.durability <= APUS_TRANSIENT_LOCAL)
		return true;
	printf("%s durability not supported\n", names[options->qos.durability]);
	return false;
}

/* Settings that the command line carries, as the library's own words. Returns 0 or an exit code. */
static int open_session(struct shape_run *run)
{
	const struct shape_options *options = run->options;
	static char announce[48], fragment[48];
	struct session_options session;

	session_options_default(&session);
	session.domain = options->domain;
	session.verbose = options->verbose;
	if (options->announcement_ms) {
		snprintf(announce, sizeof(announce), "announce.period=%ums",
			 options->announcement_ms);
		session.settings.items[session.settings.count++] = announce;
	}
	if (options->fragment_bytes) {
		snprintf(fragment, sizeof(fragment), "fragment.bytes=%u", options->fragment_bytes);
		session.settings.items[session.settings.count++] = fragment;
	}
	return session_open(&run->session, &session, "shape_main");
}

int main(int argc, char **argv)
{
	struct shape_options options;
	struct shape_run run = {.options = &options};
	int rc;

	setvbuf(stdout, NULL, _IOLBF, 0);
	rc = shape_options_parse(argc, argv, &options);
	if (rc >= 0)
		return rc;
	if (!supported(&options))
		return EXIT_FAILURE;
	rc = open_session(&run);
	if (rc != 0)
		return rc;
	rc = shape_listen(&run);
	if (rc == 0)
		rc = options.publish ? shape_publish(&run) : shape_subscribe(&run);
	session_close(&run.session);
	return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
