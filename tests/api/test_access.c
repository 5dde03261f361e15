/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: reading by instance, by related sample, with ranks and life cycle, through the public API. Method: one
 * participant on loopback, writer and reader on the same driven worker, so that what is written is there.
 */
#include <apus/apus.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SEC INT64_C(1000000000)

static struct apus_participant *p;
static struct apus_writer *w;
static struct apus_reader *r;
static struct apus_sample s[16];

static void open_pair(const char *domain, const struct apus_qos *writer_qos,
		      const struct apus_qos *reader_qos)
{
	struct apus_config *c = apus_config_create();
	struct apus_endpoint_options o = {.topic = "A", .type = &apus_shape_type};
	char why[256] = "";

	assert_int_equal(apus_config_set(c, "interfaces", "lo", why, sizeof(why)), 0);
	assert_int_equal(apus_config_set(c, "domain", domain, why, sizeof(why)), 0);
	assert_int_equal(apus_config_set(c, "worker.mode", "driven", why, sizeof(why)), 0);
	if (apus_participant_create(c, &p, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	apus_config_destroy(c);
	o.qos = writer_qos;
	assert_int_equal(apus_writer_create(p, &o, &w), 0);
	o.qos = reader_qos;
	assert_int_equal(apus_reader_create(p, &o, &r), 0);
	assert_int_equal(apus_writer_wait_matched(w, 1, SEC), 0);
	assert_int_equal(apus_reader_wait_matched(r, 1, SEC), 0);
}

static struct apus_shape shape(const char *color, int32_t x)
{
	struct apus_shape out = {.x = x, .shapesize = 30};

	snprintf(out.color, sizeof(out.color), "%s", color);
	return out;
}

static void put(const char *color, int32_t x)
{
	struct apus_shape v = shape(color, x);

	assert_int_equal(apus_write(w, &v), 0);
}

static int32_t x_of(const struct apus_sample *sample)
{
	struct apus_shape v = {0};

	assert_true(apus_type_decode(&apus_shape_type, sample->payload, sample->payload_bytes,
				     false, &v, NULL, 0) >= 0);
	return v.x;
}

static void test_next_instance(void **state)
{
	struct apus_select bad = {.instance = 1};
	struct apus_qos q;
	apus_instance previous = APUS_INSTANCE_NONE;
	struct apus_shape blue = shape("BLUE", 0), green = shape("GREEN", 0);
	uint8_t key[64];
	int n, instances = 0;

	(void)state;
	apus_qos_reader_default(&q);
	q.depth = 4;
	open_pair("143", NULL, &q);
	for (int i = 0; i < 6; i++)
		put(i % 2 ? "RED" : "BLUE", i);
	assert_int_equal(apus_take_next_instance(r, s, 16, APUS_INSTANCE_NONE, &bad), APUS_EINVAL);
	while ((n = apus_read_next_instance(r, s, 16, previous, NULL)) > 0) {
		assert_int_equal(n, 3);
		for (int i = 0; i < n; i++) {
			assert_int_equal(x_of(&s[i]), 2 * i + instances);
			assert_int_equal(s[i].info.sample_rank, 2 - i);
			assert_int_equal(s[i].info.generation_rank, 0);
		}
		previous = s[0].info.instance;
		instances++;
		assert_int_equal(apus_return(r, s, (uint32_t)n), 0);
	}
	assert_int_equal(instances, 2);

	/* Look-up by key, and the key of an instance that is dead, as color. */
	previous = apus_reader_lookup_instance(r, &blue);
	assert_int_not_equal(previous, APUS_INSTANCE_NONE);
	assert_int_equal(apus_reader_lookup_instance(r, &green), APUS_INSTANCE_NONE);
	assert_int_equal(apus_dispose(w, &blue), 0);
	n = apus_take_next_instance(r, s, 16, APUS_INSTANCE_NONE, NULL);
	assert_int_equal(n, 4);
	assert_int_equal(s[3].info.instance, previous);
	assert_false(s[3].info.valid_data);
	assert_int_equal(s[3].info.instance_state, APUS_STATE_DISPOSED);
	memset(&green, 0, sizeof(green));
	assert_true(apus_type_decode(&apus_shape_type, s[3].payload, s[3].payload_bytes, true,
				     &green, NULL, 0) >= 0);
	assert_string_equal(green.color, "BLUE");
	assert_int_equal(apus_return(r, s, (uint32_t)n), 0);
	n = apus_reader_instance_key(r, previous, key, sizeof(key));
	assert_true(n > 0);
	memset(&green, 0, sizeof(green));
	assert_true(apus_type_decode(&apus_shape_type, key, (size_t)n, true, &green, NULL, 0) >= 0);
	assert_string_equal(green.color, "BLUE");
	assert_int_equal(apus_reader_instance_key(r, previous, key, 4), APUS_ELIMIT);
	assert_int_equal(apus_reader_instance_key(r, 12345, key, sizeof(key)), APUS_ENOENT);
	apus_participant_destroy(p);
}

static void test_related(void **state)
{
	struct apus_guid client = {{1, 2, 3}}, other = {{9}};
	struct apus_select by = {.related_writer = &client};
	struct apus_shape v = shape("RED", 1);
	struct apus_qos q;
	int n;

	(void)state;
	apus_qos_reader_default(&q);
	q.depth = 8;
	open_pair("139", NULL, &q);
	assert_int_equal(apus_write_related(w, &v, APUS_ALIVE, INT64_MIN, NULL, 1), APUS_EINVAL);
	assert_int_equal(apus_write_related(w, &v, APUS_ALIVE, INT64_MIN, &client, 0), APUS_EINVAL);
	for (int i = 0; i < 4; i++) {
		v.x = i;
		assert_int_equal(apus_write_related(w, &v, APUS_ALIVE, INT64_MIN,
						    i == 2 ? &other : &client, 10 + i),
				 0);
	}
	put("RED", 4);
	n = apus_read(r, s, 16, &by);
	assert_int_equal(n, 3);
	assert_int_equal(s[2].info.related_seq, 13);
	assert_memory_equal(s[2].info.related_writer.bytes, client.bytes, 16);
	assert_int_equal(apus_return(r, s, 3), 0);
	by.related_seq = 11;
	n = apus_take(r, s, 16, &by);
	assert_int_equal(n, 1);
	assert_int_equal(x_of(&s[0]), 1);
	assert_int_equal(apus_return(r, s, 1), 0);
	assert_int_equal(apus_take(r, s, 16, &by), 0);
	n = apus_take(r, s, 16, NULL);
	assert_int_equal(n, 4);
	assert_int_equal(s[3].info.related_seq, 0);
	apus_participant_destroy(p);
}

/* A writer that unregisters disposes only if it is told to; what is dead is purged after its delay. */
static void test_life_cycle(void **state)
{
	struct apus_shape v = shape("RED", 1);
	struct apus_qos wq, rq;
	int n;

	(void)state;
	apus_qos_writer_default(&wq);
	apus_qos_reader_default(&rq);
	rq.autopurge_no_writers_ns = -1;
	assert_int_equal(apus_qos_check(&rq, false, &n), APUS_EQOS);
	assert_int_equal(n, APUS_POLICY_READER_DATA_LIFECYCLE);
	rq.autopurge_no_writers_ns = 1;
	assert_int_equal(apus_qos_check(&rq, true, NULL), APUS_EQOS);
	rq.autopurge_no_writers_ns = 3600 * SEC;
	wq.autodispose = false;
	open_pair("145", &wq, &rq);
	put("RED", 1);
	assert_int_equal(apus_unregister(w, &v), 0);
	n = apus_read(r, s, 16, NULL);
	assert_int_equal(n, 2);
	assert_int_equal(s[1].info.instance_state, APUS_STATE_NO_WRITERS);
	assert_int_equal(apus_return(r, s, 2), 0);
	assert_int_not_equal(apus_reader_lookup_instance(r, &v), APUS_INSTANCE_NONE);
	apus_participant_destroy(p);

	wq.autodispose = true; /* disposed of: another delay, which is infinite */
	rq.autopurge_no_writers_ns = 1;
	open_pair("147", &wq, &rq);
	put("RED", 1);
	assert_int_equal(apus_unregister(w, &v), 0);
	n = apus_take(r, s, 16, NULL);
	assert_int_equal(n, 2);
	assert_int_equal(s[1].info.instance_state, APUS_STATE_DISPOSED);
	assert_int_equal(apus_return(r, s, 2), 0);
	apus_participant_destroy(p);

	wq.autodispose = false;         /* the delay has passed before anybody looks */
	rq.autopurge_no_writers_ns = 0; /* none at all */
	open_pair("147", &wq, &rq);
	put("RED", 1);
	assert_int_equal(apus_unregister(w, &v), 0);
	assert_int_equal(apus_read(r, s, 16, NULL), 0);
	assert_int_equal(apus_reader_lookup_instance(r, &v), APUS_INSTANCE_NONE);
	apus_participant_destroy(p);
}

/* Written out of order, shown in order; the latest by source is what is kept. */
static void test_by_source(void **state)
{
	struct apus_shape v = shape("RED", 0);
	struct apus_qos wq, rq;
	static const int64_t times[] = {500, 300, 400, 100};
	int n;

	(void)state;
	apus_qos_writer_default(&wq);
	apus_qos_reader_default(&rq);
	wq.destination_order = rq.destination_order = APUS_BY_SOURCE;
	rq.depth = 3;
	open_pair("146", &wq, &rq);
	for (int i = 0; i < 4; i++) {
		v.x = (int32_t)times[i];
		assert_int_equal(apus_write_as(w, &v, APUS_ALIVE, times[i] * SEC), 0);
	}
	n = apus_take(r, s, 16, NULL);
	assert_int_equal(n, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(x_of(&s[i]), 300 + 100 * i);
	assert_int_equal(apus_return(r, s, 3), 0);
	apus_participant_destroy(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_next_instance),
		cmocka_unit_test(test_related),
		cmocka_unit_test(test_life_cycle),
		cmocka_unit_test(test_by_source),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
