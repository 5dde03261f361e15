/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: filter classes of the application: registration and its refusals, the life of instances and compiled
 * forms, evaluation at the reader and at the writer, errors, and names of the limits.
 * Method: a class that counts what is called, judges by the first byte of the colour, and fails on demand; a
 * participant with reader and writer on loopback, and a second one for the writer's side.
 */
#include <apus/apus.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SEC INT64_C(1000000000)

/* What the class was asked. Workers call it, too. */
static _Atomic int created, destroyed, compiled, finalized, evaluated;
static struct apus_filter_limits told;
static bool no_instance;

static void *create(const struct apus_filter_limits *limits, void *user)
{
	told = *limits;
	if (no_instance)
		return NULL;
	created++;
	return user;
}

static void destroy(void *instance)
{
	(void)instance;
	destroyed++;
}

/* The expression is one letter; '?' fails at each sample. */
static int compile(void *instance, const struct apus_filter_source *source, void **compiled_out)
{
	(void)instance;
	assert_string_equal(source->type_name, "ShapeType");
	if (strlen(source->expression) != 1)
		return APUS_EFILTER;
	*compiled_out = (void *)(uintptr_t)(unsigned char)source->expression[0];
	compiled++;
	return 0;
}

static int evaluate(void *instance, const void *form, const struct apus_type *type,
		    const void *payload, size_t payload_bytes)
{
	struct apus_shape shape;

	(void)instance;
	evaluated++;
	if ((uintptr_t)form == '?' ||
	    apus_type_decode(type, payload, payload_bytes, false, &shape, NULL, 0) < 0)
		return APUS_EIO;
	return (uintptr_t)form == (unsigned char)shape.color[0];
}

static void finalize(void *instance, void *form)
{
	(void)instance;
	(void)form;
	finalized++;
}

static int user;
static const struct apus_filter_class letter = {"LETTER", create,   destroy, compile,
						evaluate, finalize, &user};

static struct apus_participant *open_one(const char *setting, const char *value)
{
	struct apus_config *c = apus_config_create();
	struct apus_participant *p = NULL;
	char why[256] = "";

	assert_int_equal(apus_config_set(c, "interfaces", "lo", why, sizeof(why)), 0);
	assert_int_equal(apus_config_set(c, "domain", "151", why, sizeof(why)), 0);
	if (setting && apus_config_set(c, setting, value, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	if (apus_participant_create(c, &p, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	apus_config_destroy(c);
	created = destroyed = compiled = finalized = evaluated = 0;
	return p;
}

static struct apus_reader *open_reader(struct apus_participant *p, const char *expression)
{
	struct apus_endpoint_options o = {.topic = "L",
					  .type = &apus_shape_type,
					  .filter_class = "LETTER",
					  .filter_expression = expression};
	struct apus_reader *r = NULL;
	struct apus_qos q;

	apus_qos_reader_default(&q);
	q.reliability = APUS_RELIABLE;
	q.history = APUS_KEEP_ALL;
	o.qos = &q;
	assert_int_equal(apus_reader_create(p, &o, &r), 0);
	return r;
}

static void put(struct apus_writer *w, const char *color)
{
	struct apus_shape v = {.x = 1};

	snprintf(v.color, sizeof(v.color), "%s", color);
	assert_int_equal(apus_write(w, &v), 0);
}

/* Until each knows the other. */
static void meet(struct apus_writer *w, struct apus_reader *r)
{
	assert_int_equal(apus_reader_wait_matched(r, 1, 10 * SEC), 0);
	assert_int_equal(apus_writer_wait_matched(w, 1, 10 * SEC), 0);
}

/* Takes until nothing comes within a moment; returns how many samples came. */
static int drain(struct apus_reader *r, int wanted)
{
	struct apus_sample s;
	int count = 0;

	while (apus_reader_wait(r, count < wanted ? SEC : SEC / 20) == 0)
		while (apus_take(r, &s, 1, NULL) == 1) {
			count++;
			apus_return(r, &s, 1);
		}
	return count;
}

static void registration_and_refusals(void **state)
{
	struct apus_participant *p = open_one("filter.class_max_count", "2");
	struct apus_filter_class other = letter, bad = letter;
	struct apus_endpoint_options o = {.topic = "L",
					  .type = &apus_shape_type,
					  .filter_class = "NONE",
					  .filter_expression = "R"};
	struct apus_reader *r = NULL;

	(void)state;
	assert_int_equal(apus_filter_class_register(p, &letter), 0);
	assert_int_equal(created, 1);
	assert_int_equal(told.expression_max_count, 1);
	assert_int_equal(told.parameter_max_count_per_expression, 100);
	assert_int_equal(apus_filter_class_register(p, &letter), APUS_EEXIST);
	other.name = "OTHER";
	assert_int_equal(apus_filter_class_register(p, &other), APUS_ELIMIT);
	other.name = "DDSSQL";
	assert_int_equal(apus_filter_class_register(p, &other), APUS_EEXIST);
	other.name = "";
	assert_int_equal(apus_filter_class_register(p, &other), APUS_EINVAL);
	other.name = "A name of more than sixty-four bytes, which is what the default allows";
	assert_int_equal(apus_filter_class_register(p, &other), APUS_ELIMIT);
	bad.name = "BAD";
	bad.evaluate = NULL;
	assert_int_equal(apus_filter_class_register(p, &bad), APUS_EINVAL);
	assert_int_equal(apus_filter_class_unregister(p, "OTHER"), APUS_ENOENT);
	assert_int_equal(apus_reader_create(p, &o, &r), APUS_ENOENT);
	o.filter_class = "LETTER";
	o.filter_expression = "RED";
	assert_int_equal(apus_reader_create(p, &o, &r), APUS_EFILTER);
	assert_null(r);
	assert_int_equal(compiled, finalized);
	assert_int_equal(apus_filter_class_unregister(p, "LETTER"), 0);
	assert_int_equal(destroyed, created);
	no_instance = true;
	assert_int_equal(apus_filter_class_register(p, &letter), APUS_ENOMEM);
	no_instance = false;
	apus_participant_destroy(p);
}

static void classes_in_use_stay(void **state)
{
	struct apus_participant *p = open_one(NULL, NULL);
	struct apus_filter_error error;
	struct apus_reader *r;

	(void)state;
	assert_int_equal(apus_filter_class_register(p, &letter), 0);
	r = open_reader(p, "R");
	assert_int_equal(apus_filter_class_unregister(p, "LETTER"), APUS_EAGAIN);
	memset(&error, 0xaa, sizeof(error));
	assert_int_equal(apus_reader_set_filter(r, "long", NULL, 0, &error), APUS_EFILTER);
	assert_int_equal(error.position, 0);
	assert_int_equal(error.length, 4);
	assert_string_equal(error.reason, "refused by filter class 'LETTER'");
	assert_int_equal(apus_reader_set_filter(r, "long", NULL, 0, NULL), APUS_EFILTER);
	assert_int_equal(apus_reader_set_filter(r, "B", NULL, 0, &error), 2);
	assert_int_equal(compiled, 2);
	apus_reader_destroy(r);
	assert_int_equal(apus_filter_class_unregister(p, "LETTER"), 0);
	assert_int_equal(finalized, 2);
	apus_participant_destroy(p);
	/* Deleting the participant unregisters. */
	p = open_one(NULL, NULL);
	assert_int_equal(apus_filter_class_register(p, &letter), 0);
	r = open_reader(p, "R");
	apus_participant_destroy(p);
	assert_int_equal(finalized, 1);
	assert_int_equal(destroyed, created);
}

static void readers_and_writers_ask_it(void **state)
{
	struct apus_participant *here = open_one(NULL, NULL), *there = open_one(NULL, NULL);
	struct apus_endpoint_options o = {.topic = "L", .type = &apus_shape_type};
	struct apus_writer *w;
	struct apus_reader *r;
	struct apus_qos q;

	(void)state;
	/* Only the reader knows the class: it gets everything and judges. */
	assert_int_equal(apus_filter_class_register(there, &letter), 0);
	apus_qos_writer_default(&q);
	q.history = APUS_KEEP_ALL;
	o.qos = &q;
	assert_int_equal(apus_writer_create(here, &o, &w), 0);
	r = open_reader(there, "R");
	meet(w, r);
	for (int i = 0; i < 10; i++)
		put(w, i % 2 ? "RED" : "BLUE");
	assert_int_equal(drain(r, 5), 5);
	assert_int_equal(evaluated, 10);
	apus_reader_destroy(r);
	for (int i = 0; i < 1000 && apus_writer_matched(w); i++)
		usleep(10000);
	/* Both: the writer judges first, and the reader what comes. */
	assert_int_equal(apus_filter_class_register(here, &letter), 0);
	r = open_reader(there, "B");
	meet(w, r);
	evaluated = 0;
	for (int i = 0; i < 10; i++)
		put(w, i % 2 ? "RED" : "BLUE");
	assert_int_equal(drain(r, 5), 5);
	assert_int_equal(evaluated, 15);
	assert_int_equal(apus_filter_class_unregister(here, "LETTER"),
			 APUS_EAGAIN); /* by a writer */
	/* An error lets a sample out of the writer and not into the reader. */
	assert_true(apus_reader_set_filter(r, "?", NULL, 0, NULL) > 0);
	for (int i = 0; i < 4; i++)
		put(w, "BLUE");
	assert_int_equal(drain(r, 0), 0);
	apus_participant_destroy(there);
	apus_participant_destroy(here);
	assert_int_equal(compiled, finalized);
}

/* Without the built-in class its name is free. */
static void the_builtin_name_can_be_taken(void **state)
{
	struct apus_participant *p = open_one("filter.disable_builtin_sql", "on");
	struct apus_filter_class sql = letter;
	struct apus_endpoint_options o = {
		.topic = "L", .type = &apus_shape_type, .filter_expression = "x = 5"};
	struct apus_reader *r = NULL;

	(void)state;
	assert_int_equal(apus_reader_create(p, &o, &r), APUS_ENOENT);
	sql.name = "DDSSQL";
	assert_int_equal(apus_filter_class_register(p, &sql), 0);
	assert_int_equal(apus_reader_create(p, &o, &r), APUS_EFILTER); /* by that class */
	o.filter_expression = "x";
	assert_int_equal(apus_reader_create(p, &o, &r), 0);
	apus_participant_destroy(p);
	p = open_one("filtering", "off");
	assert_int_equal(apus_filter_class_register(p, &letter), APUS_ENOTSUP);
	apus_participant_destroy(p);
}

static int open_sql(struct apus_participant *p, const char *expression, struct apus_reader **r_out)
{
	const struct apus_endpoint_options o = {
		.topic = "L", .type = &apus_shape_type, .filter_expression = expression};

	return apus_reader_create(p, &o, r_out);
}

/* What counts against the limit of expressions is how many different ones readers have, not how many readers. */
static void equal_expressions_count_once(void **state)
{
	struct apus_participant *p = open_one("filter.expression_max_count", "2");
	struct apus_reader *r[5] = {0};

	(void)state;
	assert_int_equal(open_sql(p, "x = 1", &r[0]), 0);
	assert_int_equal(open_sql(p, "x = 1", &r[1]), 0);
	assert_int_equal(open_sql(p, "x = 2", &r[2]), 0);
	assert_int_equal(open_sql(p, "x = 1", &r[3]), 0);
	assert_int_equal(open_sql(p, "x = 3", &r[4]), APUS_ELIMIT);
	/* Whoever goes, the others still have it; a change to what another has takes no place, and frees one. */
	apus_reader_destroy(r[0]);
	apus_reader_destroy(r[3]);
	assert_int_equal(open_sql(p, "x = 3", &r[4]), APUS_ELIMIT);
	assert_int_equal(apus_reader_set_filter(r[1], "x = 2", NULL, 0, NULL), 2);
	assert_int_equal(open_sql(p, "x = 3", &r[4]), 0);
	assert_int_equal(open_sql(p, "x = 1", &r[0]), APUS_ELIMIT);
	/* A change at the limit succeeds. */
	assert_int_equal(apus_reader_set_filter(r[4], "x = 5", NULL, 0, NULL), 2);
	apus_reader_destroy(r[1]);
	apus_reader_destroy(r[2]);
	assert_int_equal(open_sql(p, "x = 4", &r[0]), 0);
	apus_participant_destroy(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(registration_and_refusals),
		cmocka_unit_test(classes_in_use_stay),
		cmocka_unit_test(readers_and_writers_ask_it),
		cmocka_unit_test(the_builtin_name_can_be_taken),
		cmocka_unit_test(equal_expressions_count_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
