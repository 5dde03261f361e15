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

static int take_all(struct apus_participant *p, struct apus_reader *r)
{
	struct apus_sample s[8];
	int n;

	for (int i = 0; i < 50; i++)
		apus_worker_poll(p, 0);
	n = apus_take(r, s, 8, NULL);
	if (n > 0)
		assert_int_equal(apus_return(r, s, (uint32_t)n), 0);
	return n;
}

/* Nested and unbalanced sets and suspensions, and members that go in the middle of a set. */
static void test_misuse(void **state)
{
	struct apus_participant *p = participant("135");
	struct apus_group_options group = {.access_scope = APUS_SCOPE_GROUP,
					   .coherent_access = true};
	struct apus_shape v = {.color = "RED", .x = 1};
	struct apus_publisher *pub, *plain;
	struct apus_subscriber *sub;
	struct apus_endpoint_options wo = {.topic = "G", .type = &apus_shape_type}, ro = wo;
	struct apus_qos wq, rq;
	struct apus_writer *w;
	struct apus_reader *r, *list[2];

	(void)state;
	apus_qos_writer_default(&wq);
	apus_qos_reader_default(&rq);
	wq.history = rq.history = APUS_KEEP_ALL;
	rq.reliability = APUS_RELIABLE;
	wq.max_samples = rq.max_samples = 16;
	wq.max_instances = rq.max_instances = 4;
	assert_int_equal(apus_publisher_create(p, NULL, &plain), 0);
	assert_int_equal(apus_publisher_begin_coherent(plain), APUS_EQOS);
	assert_int_equal(apus_publisher_end_coherent(plain), APUS_EINVAL);
	assert_int_equal(apus_publisher_resume(plain), APUS_EINVAL);

	assert_int_equal(apus_publisher_create(p, &group, &pub), 0);
	assert_int_equal(apus_subscriber_create(p, &group, &sub), 0);
	wo.publisher = pub;
	wo.qos = &wq;
	ro.subscriber = sub;
	ro.qos = &rq;
	assert_int_equal(apus_writer_create(p, &wo, &w), 0);
	assert_int_equal(apus_reader_create(p, &ro, &r), 0);
	assert_int_equal(apus_writer_wait_matched(w, 1, INT64_C(5000000000)), 0);
	assert_int_equal(apus_subscriber_end_access(sub), APUS_EINVAL);
	assert_int_equal(apus_subscriber_readers(sub, NULL, list, 0), APUS_EINVAL);

	assert_int_equal(apus_publisher_begin_coherent(pub), 0);
	assert_int_equal(apus_publisher_begin_coherent(pub), 0);
	assert_int_equal(apus_write(w, &v), 0);
	assert_int_equal(apus_publisher_end_coherent(pub), 0);
	assert_int_equal(take_all(p, r), 0); /* the outermost pair counts */
	assert_int_equal(apus_publisher_suspend(pub), 0);
	assert_int_equal(apus_write(w, &v), 0);
	assert_int_equal(apus_publisher_resume(pub), 0);
	assert_int_equal(apus_publisher_resume(pub), APUS_EINVAL);
	assert_int_equal(take_all(p, r), 0);
	assert_int_equal(apus_publisher_end_coherent(pub), 0);
	assert_int_equal(apus_publisher_end_coherent(pub), APUS_EINVAL);
	assert_int_equal(take_all(p, r), 2);

	/* The writer goes in the middle of its set: none of it is shown, and the publisher goes on. */
	assert_int_equal(apus_publisher_begin_coherent(pub), 0);
	assert_int_equal(apus_write(w, &v), 0);
	apus_writer_destroy(w);
	assert_int_equal(apus_publisher_end_coherent(pub), 0);
	for (int n; (n = take_all(p, r)) > 0;)
		assert_int_equal(n, 1); /* at most the end of the instance */
	assert_int_equal(apus_writer_create(p, &wo, &w), 0);
	assert_int_equal(apus_writer_wait_matched(w, 1, INT64_C(5000000000)), 0);
	assert_int_equal(apus_write(w, &v), 0);
	assert_int_equal(take_all(p, r), 1);
	assert_int_equal(apus_subscriber_begin_access(sub), 0);
	apus_reader_destroy(r); /* under access, and under the noses of sets */
	assert_int_equal(apus_subscriber_readers(sub, NULL, list, 2), 0);
	assert_int_equal(apus_subscriber_end_access(sub), 0);
	apus_participant_destroy(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_members),
		cmocka_unit_test(test_misuse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
