/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: publishers and subscribers through the public API: who may join, what members get, who may go.
 * Method: participants on loopback in one process, driven workers, each test in a domain of its own.
 */
#include <apus/apus.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct apus_participant *participant(const char *domain)
{
	struct apus_config *c = apus_config_create();
	struct apus_participant *p = NULL;
	char why[256] = "";

	assert_non_null(c);
	assert_int_equal(apus_config_set(c, "interfaces", "lo", why, sizeof(why)), 0);
	assert_int_equal(apus_config_set(c, "domain", domain, why, sizeof(why)), 0);
	assert_int_equal(apus_config_set(c, "worker.mode", "driven", why, sizeof(why)), 0);
	if (apus_participant_create(c, &p, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	apus_config_destroy(c);
	return p;
}

/* What an endpoint of topic "G" announces for presentation. */
struct seen {
	struct apus_qos writer, reader;
	int count;
};

static bool see(const struct apus_endpoint_info *info, void *user)
{
	struct seen *s = user;

	if (strcmp(info->topic, "G") == 0) {
		*(info->is_writer ? &s->writer : &s->reader) = *info->qos;
		s->count++;
	}
	return true;
}

static void test_refusals(void **state)
{
	struct apus_participant *p = participant("141"), *other = participant("141");
	struct apus_publisher *pub, *foreign;
	struct apus_subscriber *sub;
	struct apus_group_options bad = {.access_scope = 3};
	struct apus_endpoint_options o = {.topic = "G", .type = &apus_shape_type};
	struct apus_qos qos;
	struct apus_writer *w;
	struct apus_reader *r;

	(void)state;
	assert_int_equal(apus_publisher_create(p, &bad, &pub), APUS_EINVAL);
	assert_int_equal(apus_subscriber_create(p, &bad, &sub), APUS_EINVAL);
	bad = (struct apus_group_options){.worker_idx = 1};
	assert_int_equal(apus_publisher_create(p, &bad, &pub), APUS_EINVAL);
	assert_int_equal(apus_publisher_create(p, NULL, &pub), 0);
	assert_int_equal(apus_subscriber_create(p, NULL, &sub), 0);
	assert_int_equal(apus_publisher_create(other, NULL, &foreign), 0);

	o.subscriber = sub;
	assert_int_equal(apus_writer_create(p, &o, &w), APUS_EINVAL);
	o.subscriber = NULL;
	o.publisher = pub;
	assert_int_equal(apus_reader_create(p, &o, &r), APUS_EINVAL);
	o.publisher = foreign;
	assert_int_equal(apus_writer_create(p, &o, &w), APUS_EINVAL);
	/* A member that contradicts its group. */
	apus_qos_writer_default(&qos);
	qos.access_scope = APUS_SCOPE_TOPIC;
	o.publisher = pub;
	o.qos = &qos;
	assert_int_equal(apus_writer_create(p, &o, &w), APUS_EINVAL);
	apus_participant_destroy(other);
	apus_participant_destroy(p);
}

static void test_members(void **state)
{
	struct apus_participant *p = participant("142");
	struct apus_group_options topic = {.access_scope = APUS_SCOPE_TOPIC};
	struct apus_publisher *pub;
	struct apus_subscriber *sub;
	struct apus_endpoint_options o = {.topic = "G", .type = &apus_shape_type};
	struct seen seen = {.count = 0};
	struct apus_writer *w;
	struct apus_reader *r;

	(void)state;
	assert_int_equal(apus_publisher_create(p, &topic, &pub), 0);
	assert_int_equal(apus_subscriber_create(p, &topic, &sub), 0);
	o.publisher = pub;
	assert_int_equal(apus_writer_create(p, &o, &w), 0);
	o.publisher = NULL;
	o.subscriber = sub;
	assert_int_equal(apus_reader_create(p, &o, &r), 0);
	apus_visit_endpoints(p, see, &seen);
	assert_int_equal(seen.count, 2);
	assert_int_equal(seen.writer.access_scope, APUS_SCOPE_TOPIC);
	assert_int_equal(seen.reader.access_scope, APUS_SCOPE_TOPIC);

	/* A group stays as long as it has members; what is left goes with the participant. */
	assert_int_equal(apus_publisher_destroy(pub), APUS_EINVAL);
	assert_int_equal(apus_subscriber_destroy(sub), APUS_EINVAL);
	apus_writer_destroy(w);
	assert_int_equal(apus_publisher_destroy(pub), 0);
	assert_int_equal(apus_publisher_destroy(NULL), 0);
	apus_participant_destroy(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_members),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
