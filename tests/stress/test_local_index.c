/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the writer's index of the readers of its own worker loses nothing and gives nobody too much while readers come
 * and go, change their filters and refuse samples for want of room, in the middle of writes, batches and suspensions.
 * Method: one thread writes numbered samples one by one, together, suspended, with disposals between them; one creates
 * and destroys readers; one changes filters; one takes from readers with small histories and filters that stay, which
 * must get every sample they let pass, in order.
 */
#include "stress_util.h"

#include <sched.h>

#define STEADY   5
#define CHANGING 4
#define FLEETING 6
#define ROUNDS   60
#define RANGE    100
#define COLORS   4

static const char *const colors[COLORS] = {"RED", "GREEN", "BLUE", "BLACK"};

/* The filters of steady readers; the last two are alike. */
static const struct steady {
	const char *expression;
	int32_t low, high, color; /* -1: any */
} steady[STEADY] = {{"x BETWEEN 10 AND 40", 10, 40, -1},
		    {"color = 'RED'", 0, RANGE, 0},
		    {"color = 'BLUE' AND x < 60", 0, 59, 2},
		    {"x = 77", 77, 77, -1},
		    {"x = 77", 77, 77, -1}};

struct arena {
	struct apus_participant *p;
	struct apus_publisher *publisher;
	struct apus_writer *writer;
	struct apus_reader *steady[STEADY], *changing[CHANGING];
	_Atomic bool done, published;
	uint32_t written; /* numbers 0 … written - 1 */
	uint32_t taken[STEADY];
	int64_t last[STEADY][COLORS]; /* numbers; -1: none */
};

static bool passes(const struct steady *s, uint32_t number)
{
	int32_t x = (int32_t)(number / COLORS % RANGE);

	return x >= s->low && x <= s->high &&
	       (s->color < 0 || s->color == (int32_t)(number % COLORS));
}

static struct apus_shape shape_of(uint32_t number)
{
	struct apus_shape s = {.x = (int32_t)(number / COLORS % RANGE),
			       .shapesize = (int32_t)number};

	strncpy(s.color, colors[number % COLORS], sizeof(s.color) - 1);
	return s;
}

static uint32_t dice(uint64_t *seed, uint32_t n)
{
	*seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t)(*seed >> 33) % n;
}

/* ---- threads ----------------------------------------------------------------------------------------- */

static bool going_on(struct arena *a)
{
	/* Relaxed: only ends loops; the joins order the rest. */
	return !atomic_load_explicit(&a->done, memory_order_relaxed) && !stress_has_failed();
}

static void write_some(struct arena *a, uint32_t count, bool together)
{
	struct apus_shape s[8];
	int rc = 0;

	for (uint32_t i = 0; i < count; i++)
		s[i] = shape_of(a->written + i);
	if (together) {
		rc = apus_write_many(a->writer, s, count);
		rc = rc == (int)count ? 0 : rc < 0 ? rc : APUS_ETIMEDOUT;
	}
	for (uint32_t i = 0; !together && rc == 0 && i < count; i++)
		rc = apus_write(a->writer, &s[i]);
	if (rc != 0)
		stress_fail("write: %s", apus_strerror(rc));
	a->written += count;
}

static void *publish(void *arg)
{
	struct arena *a = arg;
	uint64_t seed = 1;

	while (going_on(a)) {
		uint32_t count = 1 + dice(&seed, 8);

		switch (dice(&seed, 8)) {
		case 0: {
			struct apus_shape s = shape_of(dice(&seed, COLORS));
			int rc = apus_dispose(a->writer, &s);

			if (rc != 0 && rc != APUS_ENOENT)
				stress_fail("dispose: %s", apus_strerror(rc));
			break;
		}
		case 1:
			apus_publisher_suspend(a->publisher);
			write_some(a, count, false);
			apus_publisher_resume(a->publisher);
			break;
		case 2:
		case 3: write_some(a, count, true); break;
		default: write_some(a, count, false); break;
		}
	}
	/* Relaxed: as above. */
	atomic_store_explicit(&a->published, true, memory_order_relaxed);
	return NULL;
}

static void check(struct arena *a, int i, const struct apus_shape *s)
{
	uint32_t number = (uint32_t)s->shapesize, color = number % COLORS;
	int64_t next = a->last[i][color] < 0 ? color : a->last[i][color] + COLORS;

	while (!passes(&steady[i], (uint32_t)next))
		next += COLORS;
	if ((int64_t)number != next)
		stress_fail("reader %d ('%s') got %u instead of %lld", i, steady[i].expression,
			    number, (long long)next);
	a->last[i][color] = number;
	a->taken[i]++;
}

static uint32_t take_all(struct arena *a)
{
	struct apus_sample s[32];
	struct apus_shape shape;
	uint32_t count = 0;

	for (int i = 0; i < STEADY; i++) {
		int n = apus_take(a->steady[i], s, 32, NULL);

		for (int k = 0; k < n; k++)
			if (s[k].info.valid_data && stress_shape(&s[k], &shape))
				check(a, i, &shape);
		if (n > 0 && apus_return(a->steady[i], s, (uint32_t)n) != 0)
			stress_fail("a taken sample was not lent");
		count += n > 0 ? (uint32_t)n : 0;
	}
	for (int i = 0; i < CHANGING; i++) {
		int n = apus_take(a->changing[i], s, 32, NULL);

		if (n > 0)
			apus_return(a->changing[i], s, (uint32_t)n);
	}
	return count;
}

static void *take(void *arg)
{
	struct arena *a = arg;

	/* The writer may be waiting for room until its very last sample. */
	/* Relaxed: as in going_on(). */
	while (!atomic_load_explicit(&a->published, memory_order_relaxed))
		if (take_all(a) == 0)
			stress_sleep(MSEC / 10);
	while (take_all(a))
		;
	return NULL;
}

static void *change(void *arg)
{
	struct arena *a = arg;
	uint64_t seed = 2;
	char text[64];

	while (going_on(a)) {
		struct apus_reader *r = a->changing[dice(&seed, CHANGING)];
		bool filtered = dice(&seed, 8) != 0;
		int64_t rc;

		snprintf(text, sizeof(text), "x = %u", dice(&seed, RANGE));
		rc = apus_reader_set_filter(r, filtered ? text : NULL, NULL, 0, NULL);
		if (rc < 0)
			stress_fail("change: %s", apus_strerror((int)rc));
		stress_sleep(MSEC / 4);
	}
	return NULL;
}

static struct apus_reader *reader(struct arena *a, const char *expression, bool reliable,
				  uint32_t samples)
{
	struct apus_reader *r = NULL;
	struct apus_qos q;
	struct apus_endpoint_options o = {.topic = "Local",
					  .type = &apus_shape_type,
					  .qos = &q,
					  .filter_expression = expression};
	int rc;

	stress_qos(false, &q);
	q.max_samples = q.max_samples_per_instance = samples;
	if (!reliable)
		q.reliability = APUS_BEST_EFFORT;
	rc = apus_reader_create(a->p, &o, &r);
	if (rc != 0)
		stress_fail("reader: %s", apus_strerror(rc));
	return r;
}

/* Readers that nobody takes from: reliable ones with room for what comes meanwhile, or the writer would wait. */
static void *churn(void *arg)
{
	struct arena *a = arg;
	uint64_t seed = 3;
	char text[64];

	for (int round = 0; round < ROUNDS && !stress_has_failed(); round++) {
		struct apus_reader *r[FLEETING];

		for (int i = 0; i < FLEETING; i++) {
			snprintf(text, sizeof(text), i % 2 ? "x = %u" : "x > %u AND x < 0",
				 dice(&seed, RANGE));
			r[i] = reader(a, text, i % 2 == 0, 64);
		}
		stress_sleep((int64_t)dice(&seed, 10) * MSEC);
		for (int i = 0; i < FLEETING; i++)
			apus_reader_destroy(r[i]);
	}
	/* Relaxed: as in going_on(). */
	atomic_store_explicit(&a->done, true, memory_order_relaxed);
	return NULL;
}

/* ---- test ------------------------------------------------------------------------------------------------ */

static void run(uint32_t batch_bytes)
{
	void *(*const body[])(void *) = {publish, take, change, churn};
	static struct arena a;
	pthread_t thread[4];
	struct apus_qos q;
	struct apus_group_options group = {.access_scope = APUS_SCOPE_INSTANCE};
	struct apus_endpoint_options o = {.topic = "Local", .type = &apus_shape_type, .qos = &q};

	memset(&a, 0, sizeof(a));
	a.p = stress_participant("107", NULL);
	stress_check();
	for (int i = 0; i < STEADY; i++)
		a.steady[i] = reader(&a, steady[i].expression, true, 16);
	for (int i = 0; i < CHANGING; i++)
		a.changing[i] = reader(&a, "x = 1", i % 2, 16);
	stress_qos(true, &q);
	q.batch_bytes = batch_bytes;
	q.batch_delay_ns = batch_bytes ? MSEC : 0;
	assert_int_equal(apus_publisher_create(a.p, &group, &a.publisher), 0);
	o.publisher = a.publisher;
	assert_int_equal(apus_writer_create(a.p, &o, &a.writer), 0);
	assert_int_equal(apus_writer_wait_matched(a.writer, STEADY + CHANGING, 30 * SEC), 0);
	for (int i = 0; i < STEADY; i++)
		for (int k = 0; k < COLORS; k++)
			a.last[i][k] = -1;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, body[i], &a), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	apus_writer_flush(a.writer);
	for (int i = 0; i < 50 || take_all(&a); i++) {
		take_all(&a);
		stress_sleep(MSEC);
	}
	stress_check();
	for (int i = 0; i < STEADY; i++) {
		uint32_t wanted = 0;

		for (uint32_t n = 0; n < a.written; n++)
			wanted += passes(&steady[i], n);
		print_message("'%s': %u of %u\n", steady[i].expression, a.taken[i], a.written);
		assert_int_equal(a.taken[i], wanted);
	}
	apus_participant_destroy(a.p);
}

static void test_one_by_one(void **state)
{
	(void)state;
	run(0);
}

static void test_in_batches(void **state)
{
	(void)state;
	run(600);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_by_one),
		cmocka_unit_test(test_in_batches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
