/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: what programs are shown of the domain is what was announced.
 * Method: a small graph with concrete values, visited whole and stopped early.
 */
#include "control/visit.h"
#include "tests/control/graph_fixture.h"

#include <stdio.h>

struct seen {
	uint32_t count, stop_after;
	char names[8][64], vendors[8][64], texts[8][400];
	bool local[8];
};

static bool see_participant(const struct apus_participant_info *info, void *user)
{
	struct seen *s = user;

	s->local[s->count] = info->local;
	strcpy(s->names[s->count], info->name);
	strcpy(s->vendors[s->count], info->vendor);
	for (uint32_t i = 0; i < info->locator_count; i++)
		strcat(strcat(s->texts[s->count], info->locators[i]), ";");
	return ++s->count != s->stop_after;
}

static void participants_are_shown_ourselves_first(void **state)
{
	struct apus_ctl_graph_config config = fixture_config();
	struct apus_ctl_graph *g = fixture_graph(&config);
	struct apus_wire_participant_record r = fixture_participant(1);
	struct seen s = {0};

	(void)state;
	strcpy(r.name, "other");
	r.vendor = 0x0110;
	r.default_multicast.count = 1;
	r.default_multicast.at[0] = fixture_locator(239, 255, 0, 1, 7401);
	apus_ctl_graph_add_participant(g, &r, true, NULL);
	r = fixture_participant(2);
	r.vendor = 0x7fa0;
	apus_ctl_graph_add_participant(g, &r, true, NULL);
	assert_int_equal(apus_ctl_visit_participants(g, see_participant, &s), 3);
	assert_true(s.local[0] && !s.local[1]);
	assert_string_equal(s.vendors[0], "Apus");
	assert_string_equal(s.names[1], "other");
	assert_string_equal(s.vendors[1], "Cyclone DDS");
	assert_string_equal(s.vendors[2], "vendor 7f.a0");
	assert_string_equal(s.texts[1], "udp4://127.0.0.1:7413 (default);"
					"udp4://239.255.0.1:7401 (default multicast);"
					"udp4://127.0.0.1:7412 (metatraffic);");
	memset(&s, 0, sizeof(s));
	s.stop_after = 2;
	assert_int_equal(apus_ctl_visit_participants(g, see_participant, &s), 2);
	apus_ctl_graph_destroy(g);
}

static bool see_endpoint(const struct apus_endpoint_info *info, void *user)
{
	struct seen *s = user;

	s->local[s->count] = info->local;
	strcpy(s->names[s->count], info->topic);
	if (info->filter_class)
		sprintf(s->texts[s->count], "%s|%s|%u|%s", info->filter_class,
			info->filter_expression, info->filter_parameter_count,
			info->filter_parameters[0]);
	if (info->qos->partition_count)
		strcpy(s->vendors[s->count], info->qos->partitions[info->qos->partition_count - 1]);
	return ++s->count != s->stop_after;
}

static void endpoints_are_shown_local_first_without_builtin_ones(void **state)
{
	struct apus_ctl_graph_config config = fixture_config();
	struct apus_ctl_graph *g = fixture_graph(&config);
	const char *partitions[] = {"a", "b*"}, *parameters[] = {"5"};
	struct apus_wire_endpoint_source source = {.guid = fixture_guid(1, 1, false),
						   .topic = "Square",
						   .type = "ShapeType",
						   .filter_name = "f",
						   .filter_class = "DDSSQL",
						   .filter_expression = "x > %0",
						   .filter_parameters = parameters,
						   .filter_parameter_count = 1};
	struct apus_wire_endpoint_record r;
	struct apus_ctl_local none = {0};
	struct apus_qos qos;
	struct seen s = {0};

	(void)state;
	apus_ctl_graph_add_builtin(g, (struct apus_eid){0x3c2}, &none, NULL);
	fixture_add_participant(g, 1);
	apus_qos_reader_default(&qos);
	qos.partitions = partitions;
	qos.partition_count = 2;
	source.qos = &qos;
	memset(&r, 0, sizeof(r));
	assert_int_equal(apus_wire_endpoint_record_make(&source, &r), 0);
	apus_ctl_graph_add_endpoint(g, &r, NULL, 1, NULL);
	fixture_add(g, 0, 2, true, "Circle", NULL, 1, NULL);
	assert_int_equal(apus_ctl_visit_endpoints(g, see_endpoint, &s), 2);
	assert_true(s.local[0] && !s.local[1]);
	assert_string_equal(s.names[0], "Circle");
	assert_string_equal(s.texts[0], "");
	assert_string_equal(s.names[1], "Square");
	assert_string_equal(s.texts[1], "DDSSQL|x > %0|1|5");
	assert_string_equal(s.vendors[1], "b*");
	s.count = 0;
	s.stop_after = 1;
	assert_int_equal(apus_ctl_visit_endpoints(g, see_endpoint, &s), 1);
	apus_ctl_graph_destroy(g);
}

static void the_public_rule_names_the_first_policy(void **state)
{
	struct apus_qos offered, requested;
	struct apus_endpoint_info w = {.topic = "t", .type_name = "T", .qos = &offered};
	struct apus_endpoint_info r = {.topic = "t", .type_name = "T", .qos = &requested};

	(void)state;
	apus_qos_writer_default(&offered);
	apus_qos_reader_default(&requested);
	assert_int_equal(apus_endpoint_mismatch(&w, &r), APUS_POLICY_NONE);
	requested.durability = APUS_TRANSIENT_LOCAL;
	requested.deadline_ns = 1;
	assert_int_equal(apus_endpoint_mismatch(&w, &r), APUS_POLICY_DURABILITY);
	r.type_name = "U";
	assert_int_equal(apus_endpoint_mismatch(&w, &r), APUS_POLICY_TYPE);
	r.topic = "u";
	assert_int_equal(apus_endpoint_mismatch(&w, &r), APUS_POLICY_TOPIC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(participants_are_shown_ourselves_first),
		cmocka_unit_test(endpoints_are_shown_local_first_without_builtin_ones),
		cmocka_unit_test(the_public_rule_names_the_first_policy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
