/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A filter class of one's own: shapes whose x + y is at least what the expression says, which no
 * expression of the built-in language can ask for.
 *
 * Two participants on this host know the class SUM, so the writer leaves out what the reader would drop.
 * The program writes ten shapes and prints those that come; it fails unless they are the right four.
 * Usage: sum_filter [INTERFACE [DOMAIN]]   (default lo, 77)
 */
#include <apus/apus.h>
#include <stdio.h>
#include <stdlib.h>

#define SECOND  INT64_C(1000000000)
#define SAMPLES 10

/* A compiled expression. */
struct form {
	bool used;
	long minimum;
};

/* One instance of the class: everything it needs is allocated here, once. */
struct sum {
	uint32_t form_count;
	struct form forms[];
};

static void *sum_create(const struct apus_filter_limits *limits, void *user)
{
	uint32_t count = limits->expression_max_count;
	struct sum *sum = calloc(1, sizeof(*sum) + count * sizeof(sum->forms[0]));

	(void)user;
	if (sum)
		sum->form_count = count;
	return sum;
}

static void sum_destroy(void *instance)
{
	free(instance);
}

static int sum_compile(void *instance, const struct apus_filter_source *source, void **compiled_out)
{
	struct sum *sum = instance;
	char *end;
	long minimum = strtol(source->expression, &end, 10);

	if (end == source->expression || *end != '\0' || source->type != &apus_shape_type)
		return APUS_EFILTER;
	for (uint32_t i = 0; i < sum->form_count; i++) {
		if (sum->forms[i].used)
			continue;
		sum->forms[i] = (struct form){true, minimum};
		*compiled_out = &sum->forms[i];
		return 0;
	}
	return APUS_ELIMIT;
}

static int sum_evaluate(void *instance, const void *compiled, const struct apus_type *type,
			const void *payload, size_t payload_bytes)
{
	const struct form *form = compiled;
	struct apus_shape shape;

	(void)instance;
	if (apus_type_decode(type, payload, payload_bytes, false, &shape, NULL, 0) < 0)
		return APUS_EENCODING;
	return (long)shape.x + shape.y >= form->minimum;
}

static void sum_finalize(void *instance, void *compiled)
{
	struct form *form = compiled;

	(void)instance;
	form->used = false;
}

static const struct apus_filter_class sum_class = {
	.name = "SUM",
	.create = sum_create,
	.destroy = sum_destroy,
	.compile = sum_compile,
	.evaluate = sum_evaluate,
	.finalize = sum_finalize,
};

static struct apus_participant *join(const char *interface, const char *domain)
{
	struct apus_config *config = apus_config_create();
	struct apus_participant *participant = NULL;
	char why[256] = "";

	if (!config || apus_config_set(config, "interfaces", interface, why, sizeof(why)) != 0 ||
	    apus_config_set(config, "domain", domain, why, sizeof(why)) != 0 ||
	    apus_participant_create(config, &participant, why, sizeof(why)) != 0 ||
	    apus_filter_class_register(participant, &sum_class) != 0) {
		fprintf(stderr, "sum_filter: cannot join: %s\n", why);
		exit(1);
	}
	apus_config_destroy(config);
	return participant;
}

/* Takes what comes until `count` samples are there or none has come for a second; returns their x added up. */
static int receive(struct apus_reader *reader, int count)
{
	struct apus_sample sample;
	struct apus_shape shape;
	int total = 0;

	while (count > 0 && apus_reader_wait(reader, SECOND) == 0) {
		while (apus_take(reader, &sample, 1, NULL) == 1) {
			if (sample.info.valid_data &&
			    apus_type_decode(&apus_shape_type, sample.payload, sample.payload_bytes,
					     false, &shape, NULL, 0) >= 0) {
				printf("%s x %d y %d\n", shape.color, shape.x, shape.y);
				total += shape.x;
				count--;
			}
			apus_return(reader, &sample, 1);
		}
	}
	return total;
}

int main(int argc, char **argv)
{
	const char *interface = argc > 1 ? argv[1] : "lo", *domain = argc > 2 ? argv[2] : "77";
	struct apus_participant *here = join(interface, domain), *there = join(interface, domain);
	struct apus_endpoint_options options = {.topic = "Square", .type = &apus_shape_type};
	struct apus_qos reader_qos;
	struct apus_writer *writer;
	struct apus_reader *reader;
	int total;

	apus_qos_reader_default(&reader_qos);
	reader_qos.reliability = APUS_RELIABLE;
	reader_qos.history = APUS_KEEP_ALL;
	if (apus_writer_create(here, &options, &writer) != 0)
		return 1;
	options.qos = &reader_qos;
	options.filter_class = "SUM";
	options.filter_expression = "12";
	if (apus_reader_create(there, &options, &reader) != 0 ||
	    apus_reader_wait_matched(reader, 1, 10 * SECOND) != 0 ||
	    apus_writer_wait_matched(writer, 1, 10 * SECOND) != 0)
		return 1;
	for (int i = 0; i < SAMPLES; i++) {
		struct apus_shape shape = {.color = "RED", .x = i, .y = i, .shapesize = 30};

		if (apus_write(writer, &shape) != 0)
			return 1;
	}
	total = receive(reader, 4); /* x = 6 … 9 */
	apus_participant_destroy(there);
	apus_participant_destroy(here);
	return total == 6 + 7 + 8 + 9 ? 0 : 1;
}
