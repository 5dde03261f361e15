/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a reader gives values of every kind of type, in memory declared when it was created, and neither
 * writing nor taking them allocates; what is no value, or too large, is refused, counted, and leaves zeros.
 * Method: two participants on loopback exchange samples of the benchmarks' types and of keyed and unbounded
 * ones, by copy and by view; values are compared by what they encode to. All allocation functions are
 * counted meanwhile.
 */
#include <apus/apus.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/api/allocations.h"
#ifdef HAVE_IDL
#include "value_types.h"
#endif

#define SECOND_NS INT64_C(1000000000)
#define BIG_BYTES 1000000

static uint8_t octets[BIG_BYTES];
static struct apus_shape shape = {"RED", 10, 20, 30};
static struct apus_shape_extended extended = {
	"GREEN", 1, 2, 3, {.length = 300, .capacity = 300, .data = octets}};
static struct apus_blob blob = {7, {.length = BIG_BYTES, .capacity = BIG_BYTES, .data = octets}};
#ifdef HAVE_IDL
static struct bench_Tick tick = {1700000000, 7, 1, 1.5, 1.75, 1.625, 100, 3, 42};
static float ranges[128] = {1.5f, 2.5f};
static struct bench_Joint joints[3] = {{"shoulder", 1, 2, 3}, {"elbow", 4, 5, 6}, {"", 7, 8, 9}};
static char *warnings[] = {"battery low", "odometry drift above limit"};
static struct bench_Robot robot = {
	.name = "rover-7",
	.state = 1,
	.joints = {.length = 3, .data = joints},
	.ranges = {.length = 128, .data = ranges},
	.warnings = {.length = 2, .data = warnings},
	.enabled = true,
};
static struct bench_Image image = {.camera = 1,
				   .width = 1000,
				   .height = 1000,
				   .encoding = "mono8",
				   .data = {.length = BIG_BYTES, .data = octets}};
#endif

static const struct {
	const struct apus_type *type;
	const void *sample;
	uint32_t value_bytes; /* what its unbounded members take, rounded up */
	uint32_t count;
} subjects[] = {
	{&apus_shape_type, &shape, 0, 2000},
	{&apus_shape_extended_type, &extended, 512, 2000},
	{&apus_blob_type, &blob, BIG_BYTES, 20},
#ifdef HAVE_IDL
	{&bench_Tick_type, &tick, 0, 2000},
	{&bench_Robot_type, &robot, 2048, 2000},
	{&bench_Image_type, &image, BIG_BYTES, 20},
#endif
};

static struct apus_participant *participant(void)
{
	static const char *const settings[][2] = {{"interfaces", "lo"}, {"domain", "136"}};
	struct apus_config *c = apus_config_create();
	struct apus_participant *p = NULL;
	char why[256] = "";

	assert_non_null(c);
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		assert_int_equal(
			apus_config_set(c, settings[i][0], settings[i][1], why, sizeof(why)), 0);
	if (apus_participant_create(c, &p, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	apus_config_destroy(c);
	return p;
}

struct pair {
	struct apus_participant *a, *b;
	struct apus_writer *w;
	struct apus_reader *r;
};

static struct pair connect(const struct apus_type *wt, const struct apus_type *rt,
			   uint32_t value_bytes)
{
	struct pair p = {.a = participant(), .b = participant()};
	struct apus_qos wq, rq;
	struct apus_endpoint_options wo = {.topic = "V", .type = wt, .qos = &wq};
	struct apus_endpoint_options ro = {
		.topic = "V", .type = rt, .qos = &rq, .value_bytes = value_bytes};

	apus_qos_writer_default(&wq);
	apus_qos_reader_default(&rq);
	wq.history = rq.history = APUS_KEEP_ALL;
	wq.max_samples = rq.max_samples = 8;
	wq.max_samples_per_instance = rq.max_samples_per_instance = 8;
	wq.max_instances = rq.max_instances = 4;
	wq.max_sample_bytes = rq.max_sample_bytes = BIG_BYTES + 1024;
	wq.max_blocking_ns = 5 * SECOND_NS;
	rq.reliability = APUS_RELIABLE;
	assert_int_equal(apus_writer_create(p.a, &wo, &p.w), 0);
	assert_int_equal(apus_reader_create(p.b, &ro, &p.r), 0);
	assert_int_equal(apus_writer_wait_matched(p.w, 1, 5 * SECOND_NS), 0);
	assert_int_equal(apus_reader_wait_matched(p.r, 1, 5 * SECOND_NS), 0);
	return p;
}

static void disconnect(struct pair *p)
{
	apus_participant_destroy(p->a);
	apus_participant_destroy(p->b);
}

static uint8_t expected[BIG_BYTES + 1024], got[BIG_BYTES + 1024];

static void check_value(const struct apus_type *type, const void *value, int expected_bytes)
{
	assert_int_equal(apus_type_encode(type, value, APUS_XCDR2, false, got, sizeof(got)),
			 expected_bytes);
	assert_memory_equal(got, expected, (size_t)expected_bytes);
}

/* A value through one of the two ways. */
static void receive(struct pair *p, const struct apus_type *type, bool view, int expected_bytes)
{
	static _Alignas(16) uint8_t value[4096];
	struct apus_sample s;

	memset(value, 0xee, sizeof(value));
	assert_int_equal(apus_reader_wait(p->r, 5 * SECOND_NS), 0);
	if (!view) {
		assert_int_equal(apus_take_next(p->r, value, NULL, NULL), 1);
		check_value(type, value, expected_bytes);
		return;
	}
	assert_int_equal(apus_take(p->r, &s, 1, NULL), 1);
	assert_int_equal(apus_sample_value(p->r, &s, value), 0);
	check_value(type, value, expected_bytes);
	assert_int_equal(apus_return(p->r, &s, 1), 0);
}

static void exchange(size_t i)
{
	const struct apus_type *type = subjects[i].type;
	struct pair p = connect(type, type, subjects[i].value_bytes);
	int bytes = apus_type_encode(type, subjects[i].sample, APUS_XCDR2, false, expected,
				     sizeof(expected));
	unsigned long count;

	assert_true(bytes > 0);
	allocations_begin();
	for (uint32_t n = 0; n < subjects[i].count; n++) {
		assert_int_equal(apus_write(p.w, subjects[i].sample), 0);
		receive(&p, type, n & 1, bytes);
	}
	assert_int_equal(apus_writer_wait_acked(p.w, 5 * SECOND_NS), 0);
	count = allocations_end();
	assert_int_equal(count, 0);
	disconnect(&p);
}

static void test_all_types(void **state)
{
	(void)state;
	for (size_t i = 0; i < BIG_BYTES; i++)
		octets[i] = (uint8_t)(i * 7 + (i >> 8));
	for (size_t i = 0; i < sizeof(subjects) / sizeof(subjects[0]); i++)
		exchange(i);
}

static void find_refused(const struct apus_stat *stat, void *user)
{
	if (strcmp(stat->name, "reader.values_refused") == 0)
		*(uint64_t *)user = stat->value;
}

static uint64_t refused(struct apus_reader *r)
{
	uint64_t value = UINT64_MAX;

	apus_visit_reader_stats(r, find_refused, &value);
	return value;
}

static void assert_zero(const void *value, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		assert_int_equal(((const uint8_t *)value)[i], 0);
}

/* An arena that is too small: refused, counted, nothing in the value; the view needs none. */
static void test_arena_too_small(void **state)
{
	struct pair p =
		connect(&apus_shape_extended_type, &apus_shape_extended_type, 299); /* of 300 */
	struct apus_shape_extended value;
	struct apus_sample_info info;
	struct apus_sample s;

	(void)state;
	assert_int_equal(apus_write(p.w, &extended), 0);
	assert_int_equal(apus_reader_wait(p.r, 5 * SECOND_NS), 0);
	memset(&value, 0xee, sizeof(value));
	assert_int_equal(apus_read_next(p.r, &value, &info, NULL), APUS_ELIMIT);
	assert_zero(&value, sizeof(value));
	assert_true(info.valid_data);
	assert_int_equal(refused(p.r), 1);
	/* read_next() left it, and what is lent can be had as a view. */
	assert_int_equal(apus_take(p.r, &s, 1, NULL), 1);
	assert_int_equal(apus_sample_value(p.r, &s, &value), 0);
	assert_int_equal(value.additional_payload_size.length, 300);
	assert_ptr_equal((const uint8_t *)s.payload + s.payload_bytes - 300,
			 value.additional_payload_size.data);
	assert_int_equal(apus_return(p.r, &s, 1), 0);
	assert_int_equal(apus_take_next(p.r, &value, &info, NULL), 0);
	assert_int_equal(refused(p.r), 1);
	disconnect(&p);
}

/* Without data only the key members are there. */
static void test_key_only(void **state)
{
	struct pair p = connect(&apus_shape_type, &apus_shape_type, 0);
	struct apus_shape value;
	struct apus_sample_info info;

	(void)state;
	assert_int_equal(apus_write(p.w, &shape), 0);
	assert_int_equal(apus_reader_wait(p.r, 5 * SECOND_NS), 0);
	assert_int_equal(apus_read_next(p.r, &value, &info, NULL), 1);
	assert_int_equal(value.shapesize, 30);
	assert_int_equal(apus_take_next(p.r, &value, &info, NULL), 1);
	assert_true(info.valid_data && info.read_before);
	assert_int_equal(apus_dispose(p.w, &shape), 0);
	assert_int_equal(apus_reader_wait(p.r, 5 * SECOND_NS), 0);
	memset(&value, 0xee, sizeof(value));
	assert_int_equal(apus_take_next(p.r, &value, &info, NULL), 1);
	assert_false(info.valid_data);
	assert_string_equal(value.color, "RED");
	assert_int_equal(value.x, 0);
	assert_int_equal(value.shapesize, 0);
	assert_int_equal(refused(p.r), 0);
	disconnect(&p);
}

/* A writer whose type has the name only: its samples are too short for ours. */
static const struct apus_type colour = {
	.kind = APUS_KIND_STRING, .size_bytes = 129, .align_bytes = 1, .bound = 128};
static const struct apus_member stub_members[] = {
	{.name = "color", .type = &colour, .offset_bytes = 0, .key = true},
};
static const struct apus_type stub_type = {
	.name = "ShapeType",
	.kind = APUS_KIND_STRUCT,
	.size_bytes = 129,
	.align_bytes = 1,
	.members = stub_members,
	.member_count = 1,
};

static void test_not_of_the_type(void **state)
{
	struct pair p = connect(&stub_type, &apus_shape_type, 0);
	struct apus_shape value;
	struct apus_sample s;

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(apus_write(p.w, "RED\0\0"), 0);
		assert_int_equal(apus_reader_wait(p.r, 5 * SECOND_NS), 0);
		memset(&value, 0xee, sizeof(value));
		if (i == 0) {
			assert_int_equal(apus_take_next(p.r, &value, NULL, NULL), APUS_EENCODING);
		} else {
			assert_int_equal(apus_take(p.r, &s, 1, NULL), 1);
			assert_int_equal(apus_sample_value(p.r, &s, &value), APUS_EENCODING);
			assert_int_equal(apus_return(p.r, &s, 1), 0);
		}
		assert_zero(&value, sizeof(value));
		assert_int_equal(refused(p.r), i + 1);
	}
	disconnect(&p);
}

/* A writer sends no payload in a representation that it does not offer: its readers matched the other. */
static void test_representation_of_payload(void **state)
{
	struct pair p = connect(&apus_shape_type, &apus_shape_type, 0);
	struct apus_shape in = {"RED", 1, 2, 3}, out;
	uint8_t payload[256];
	int n = apus_type_encode(&apus_shape_type, &in, APUS_XCDR2, false, payload,
				 sizeof(payload));

	(void)state;
	assert_true(n > 0);
	assert_int_equal(apus_write_cdr(p.w, payload, (size_t)n), APUS_EENCODING);
	n = apus_type_encode(&apus_shape_type, &in, APUS_XCDR1, false, payload, sizeof(payload));
	assert_true(n > 0);
	assert_int_equal(apus_write_cdr(p.w, payload, 3), APUS_EENCODING);
	assert_int_equal(apus_write_cdr(p.w, payload, (size_t)n - 4), APUS_EENCODING);
	assert_int_equal(apus_write_cdr(p.w, payload, (size_t)n), 0);
	assert_int_equal(apus_reader_wait(p.r, 5 * SECOND_NS), 0);
	assert_int_equal(apus_take_next(p.r, &out, NULL, NULL), 1);
	assert_int_equal(out.shapesize, 3);
	assert_int_equal(apus_take_next(p.r, &out, NULL, NULL),
			 0); /* those refused have left nothing */
	disconnect(&p);
}

static void test_refused_arguments(void **state)
{
	struct apus_participant *p = participant();
	struct apus_endpoint_options o = {.topic = "V", .type = &apus_shape_type, .value_bytes = 1};
	struct apus_writer *w;
	struct apus_reader *r;

	(void)state;
	assert_int_equal(apus_writer_create(p, &o, &w), APUS_EINVAL); /* it would have no effect */
	assert_int_equal(apus_reader_create(p, &o, &r), 0);
	assert_int_equal(apus_take_next(r, NULL, NULL, NULL), APUS_EINVAL);
	assert_int_equal(apus_read_next(r, NULL, NULL, NULL), APUS_EINVAL);
	assert_int_equal(apus_sample_value(r, NULL, &shape), APUS_EINVAL);
	assert_int_equal(refused(r), 0);
	apus_participant_destroy(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_types),
		cmocka_unit_test(test_arena_too_small),
		cmocka_unit_test(test_key_only),
		cmocka_unit_test(test_not_of_the_type),
		cmocka_unit_test(test_refused_arguments),
		cmocka_unit_test(test_representation_of_payload),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
