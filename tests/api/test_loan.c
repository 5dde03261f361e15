/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: samples filled and read in place, by apus_loan() and by loans of readers through shared memory: nothing is
 * copied, limits are declared, and whatever is kept while matches, writers and processes' memory go stays readable.
 * Method: two driven participants of this process that meet through shared memory, or through the network; a type of
 * 4 KiB whose memory is its CDR.
 */
#include "block_type.h"
#include "route_pair.h"

struct fixture {
	struct route_pair p;
	struct apus_writer *w;
	struct apus_reader *r;
};

static void qos_of(struct apus_qos *qos, bool is_writer, uint32_t max_samples)
{
	if (is_writer)
		apus_qos_writer_default(qos);
	else
		apus_qos_reader_default(qos);
	qos->reliability = APUS_RELIABLE;
	qos->history = APUS_KEEP_ALL;
	qos->max_samples = qos->max_samples_per_instance = max_samples;
	qos->max_instances = 4;
	qos->max_blocking_ns = 0;
}

static int make_writer(struct fixture *f, uint32_t loans)
{
	struct apus_qos qos;
	struct apus_endpoint_options o = {
		.topic = "Blocks", .type = &block_type, .qos = &qos, .loans = loans};

	qos_of(&qos, true, 8);
	return apus_writer_create(f->p.w, &o, &f->w);
}

static void begin(struct fixture *f, enum route route, const char *const *settings)
{
	struct apus_qos qos;
	struct apus_endpoint_options o = {.topic = "Blocks", .type = &block_type, .qos = &qos};

	route_open(&f->p, route, 112, settings);
	assert_int_equal(make_writer(f, 2), 0);
	qos_of(&qos, false, 64);
	assert_int_equal(apus_reader_create(f->p.r, &o, &f->r), 0);
	route_match(&f->p, f->w, 1, f->r, 1);
}

static void fill(struct block *b, uint32_t number)
{
	b->id = 1;
	b->number = number;
	memset(b->data, (int)(number & 0xff), DATA);
}

static void write_copy(struct fixture *f, uint32_t number)
{
	struct block b;

	fill(&b, number);
	assert_int_equal(apus_write(f->w, &b), 0);
	route_poll(&f->p);
}

static void write_loan(struct fixture *f, uint32_t number)
{
	void *b;

	assert_int_equal(apus_loan(f->w, &b), 0);
	fill(b, number);
	assert_int_equal(apus_write_loaned(f->w, b), 0);
	route_poll(&f->p);
}

/* A whole block of that number, and aligned. */
static void check(struct fixture *f, const struct apus_sample *s, uint32_t number)
{
	const struct block *b = apus_sample_image(f->r, s);

	assert_non_null(b);
	assert_int_equal((uintptr_t)b % 8, 0);
	assert_ptr_equal((const uint8_t *)s->payload + 4, b);
	assert_int_equal(b->number, number);
	assert_int_equal(b->id, 1);
	for (int i = 0; i < DATA; i++)
		assert_int_equal(b->data[i], number & 0xff);
}

static int take(struct fixture *f, struct apus_sample *out, uint32_t max)
{
	route_settle(&f->p);
	return apus_take(f->r, out, max, NULL);
}

/* Whatever the route, what was filled in a loan is what is read, among copies. */
static void test_every_route(void **state)
{
	struct apus_sample s[8];
	struct fixture f;

	(void)state;
	for (enum route route = 0; route < ROUTES; route++) {
		begin(&f, route, NULL);
		for (uint32_t i = 1; i <= 6; i++)
			(i % 2 ? write_loan : write_copy)(&f, i);
		assert_int_equal(take(&f, s, 8), 6);
		for (uint32_t i = 0; i < 6; i++)
			check(&f, &s[i], i + 1);
		assert_int_equal(route_reader_stat(f.r, "reader.lent"), route == ROUTE_SHM ? 6 : 0);
		assert_int_equal(apus_return(f.r, s, 6), 0);
		route_close(&f.p);
	}
}

static void test_loans_are_counted(void **state)
{
	struct fixture f;
	void *a, *b, *c;
	int other;

	(void)state;
	begin(&f, ROUTE_SHM, NULL);
	assert_int_equal(apus_loan(f.w, NULL), APUS_EINVAL);
	assert_int_equal(apus_loan(f.w, &a), 0);
	assert_int_equal(apus_loan(f.w, &b), 0);
	assert_int_equal(apus_loan(f.w, &c), APUS_ELIMIT);
	assert_ptr_not_equal(a, b);
	/* What is not lent is not written, nor given back. */
	assert_int_equal(apus_write_loaned(f.w, NULL), APUS_EINVAL);
	assert_int_equal(apus_write_loaned(f.w, &other), APUS_EINVAL);
	assert_int_equal(apus_write_loaned(f.w, (uint8_t *)a + 8), APUS_EINVAL);
	assert_int_equal(apus_write_loaned(f.w, (uint8_t *)a + 64 * 64), APUS_EINVAL);
	assert_int_equal(apus_discard_loan(f.w, &other), APUS_EINVAL);
	assert_int_equal(apus_discard_loan(f.w, a), 0);
	assert_int_equal(apus_discard_loan(f.w, a), APUS_EINVAL);
	assert_int_equal(apus_write_loaned(f.w, a), APUS_EINVAL);
	assert_int_equal(apus_loan(f.w, &a), 0);
	fill(a, 1);
	fill(b, 2);
	assert_int_equal(apus_write_loaned(f.w, b), 0);
	assert_int_equal(apus_write_loaned(f.w, b), APUS_EINVAL);
	assert_int_equal(apus_write_loaned(f.w, a), 0);
	assert_int_equal(apus_loan(f.w, &a), 0);
	assert_int_equal(apus_loan(f.w, &b), 0);
	route_close(&f.p);
}

/* A full history refuses a loan as it refuses a copy; it is lent as before. */
static void test_refused_stays_lent(void **state)
{
	struct apus_sample s[64];
	struct fixture f;
	uint32_t n = 0;
	void *loan, *more;
	int rc;

	(void)state;
	begin(&f, ROUTE_SHM, NULL);
	do {
		assert_int_equal(apus_loan(f.w, &loan), 0);
		fill(loan, n + 1);
		rc = apus_write_loaned(f.w, loan); /* nobody polls the reader */
		n += rc == 0;
	} while (rc == 0 && n < 3000);
	assert_int_equal(rc, APUS_ETIMEDOUT);
	assert_int_equal(n, 8);
	assert_int_equal(apus_loan(f.w, &more), 0);
	assert_int_equal(apus_loan(f.w, &more), APUS_ELIMIT);
	assert_int_equal(take(&f, s, 64), 8);
	assert_int_equal(apus_write_loaned(f.w, loan), 0);
	assert_int_equal(apus_return(f.r, s, 8), 0);
	assert_int_equal(take(&f, s, 64), 1);
	check(&f, &s[0], 9);
	assert_int_equal(apus_return(f.r, s, 1), 0);
	route_close(&f.p);
}

static void test_refusals(void **state)
{
	struct apus_endpoint_options o = {.topic = "Shapes", .type = &apus_shape_type, .loans = 1};
	struct apus_reader *r;
	struct apus_writer *w;
	struct fixture f;
	void *sample;

	(void)state;
	begin(&f, ROUTE_SAME, NULL);
	assert_int_equal(apus_writer_create(f.p.w, &o, &w), APUS_ENOTSUP);
	assert_int_equal(apus_reader_create(f.p.w, &o, &r), APUS_EINVAL);
	o.loans = 0;
	assert_int_equal(apus_writer_create(f.p.w, &o, &w), 0);
	assert_int_equal(apus_loan(w, &sample), APUS_ENOTSUP);
	assert_int_equal(make_writer(&f, 65537), APUS_EINVAL);
	assert_int_equal(make_writer(&f, 0), 0);
	assert_int_equal(apus_loan(f.w, &sample), APUS_ELIMIT);
	route_close(&f.p);
}

/* A reader that keeps what it is lent has as much in place as is granted, and copies of the others; the stream goes on,
 * and its writer has its slots again when it returns them. */
static void test_quota(void **state)
{
	static const char *const settings[] = {"shm.slots", "64", "shm.readers", "4", NULL};
	struct apus_sample s[64];
	struct fixture f;
	int n = 0;

	(void)state;
	begin(&f, ROUTE_SHM, settings); /* 16 slots a reader, of which 8 may stay */
	for (uint32_t i = 1; i <= 60; i++) {
		write_loan(&f, i);
		n += take(&f, s + n, 1);
	}
	assert_int_equal(n, 60);
	assert_int_equal(route_reader_stat(f.r, "reader.lent"), 8);
	for (uint32_t i = 0; i < 60; i++)
		check(&f, &s[i], i + 1);
	assert_int_equal(apus_return(f.r, s, 60), 0);
	for (uint32_t i = 61; i <= 76; i++) {
		write_loan(&f, i);
		assert_int_equal(take(&f, s, 1), 1);
		check(&f, &s[0], i);
		assert_int_equal(apus_return(f.r, s, 1), 0);
	}
	assert_int_equal(route_reader_stat(f.r, "reader.lent"), 24);
	route_close(&f.p);
}

/* What is in the history when the writer goes is copied; what is lent stays where it is; both are whole, also when the
 * writer's participant is gone. */
static void outlive(bool destroy_participant)
{
	struct apus_sample kept[3], s[8];
	struct fixture f;

	begin(&f, ROUTE_SHM, NULL);
	for (uint32_t i = 1; i <= 6; i++)
		write_loan(&f, i);
	route_settle(&f.p);
	assert_int_equal(apus_take(f.r, kept, 2, NULL), 2);
	assert_int_equal(apus_read(f.r, kept + 2, 1, NULL), 1); /* stays in the history as well */
	assert_int_equal(route_reader_stat(f.r, "reader.lent"), 6);
	if (destroy_participant) {
		apus_participant_destroy(f.p.w);
		f.p.w = f.p.r;
	} else {
		apus_writer_destroy(f.w);
	}
	route_match(&f.p, NULL, 0, f.r, 0);
	route_settle(&f.p);
	for (uint32_t i = 0; i < 3; i++)
		check(&f, &kept[i], i + 1);
	assert_int_equal(apus_return(f.r, kept, 3), 0);
	assert_int_equal(apus_take(f.r, s, 8, NULL), 5); /* 3, which was read, to 6; no writers */
	for (uint32_t i = 0; i < 4; i++)
		check(&f, &s[i], i + 3);
	assert_false(s[4].info.valid_data);
	assert_int_equal(apus_return(f.r, s, 5), 0);
	if (!destroy_participant) {
		/* Another writer takes the places of the one that has gone. */
		assert_int_equal(make_writer(&f, 2), 0);
		route_match(&f.p, f.w, 1, f.r, 1);
		write_loan(&f, 7);
		assert_int_equal(take(&f, s, 8), 1);
		check(&f, &s[0], 7);
	}
	route_close(&f.p);
}

static void test_outlives_writer(void **state)
{
	(void)state;
	outlive(false);
}

static void test_outlives_participant(void **state)
{
	(void)state;
	outlive(true);
}

/* A reader deleted with loans out and samples in place gives all slots back: its successors find them. */
static void test_reader_goes(void **state)
{
	static const char *const settings[] = {"shm.slots", "16", "shm.readers", "2", NULL};
	struct apus_qos qos;
	struct apus_endpoint_options o = {.topic = "Blocks", .type = &block_type, .qos = &qos};
	struct apus_sample s[8];
	struct fixture f;

	(void)state;
	begin(&f, ROUTE_SHM, settings);
	qos_of(&qos, false, 64);
	for (int round = 0; round < 6; round++) {
		for (uint32_t i = 1; i <= 4; i++)
			write_loan(&f, i);
		route_settle(&f.p);
		assert_int_equal(apus_take(f.r, s, 2, NULL), 2);
		check(&f, &s[1], 2);
		assert_int_equal(route_reader_stat(f.r, "reader.lent"), 4);
		apus_reader_destroy(f.r);
		route_match(&f.p, f.w, 0, NULL, 0);
		route_settle(&f.p);
		assert_int_equal(apus_reader_create(f.p.r, &o, &f.r), 0);
		route_match(&f.p, f.w, 1, f.r, 1);
	}
	route_close(&f.p);
}

/* The setting says what stays in place. */
static void test_setting(void **state)
{
	static const char *const words[] = {"off", "fixed", "all"};
	struct apus_sample s[4];
	struct fixture f;

	(void)state;
	for (int i = 0; i < 3; i++) {
		const char *const settings[] = {"shm.lend", words[i], NULL};

		begin(&f, ROUTE_SHM, settings);
		write_copy(&f, 1);
		assert_int_equal(take(&f, s, 4), 1);
		check(&f, &s[0], 1);
		assert_int_equal(route_reader_stat(f.r, "reader.lent"), i == 0 ? 0 : 1);
		route_close(&f.p);
	}
}

/* A filter is applied, and a sample that it rejects gives its slot back. */
static void test_filter(void **state)
{
	static const char *const settings[] = {"shm.slots", "16", "shm.readers", "2", NULL};
	struct apus_filter_error error;
	struct apus_sample s[64];
	struct fixture f;

	(void)state;
	begin(&f, ROUTE_SHM, settings);
	assert_true(apus_reader_set_filter(f.r, "number > 50", NULL, 0, &error) > 0);
	for (uint32_t i = 1; i <= 53; i++)
		write_loan(&f, i);
	assert_int_equal(take(&f, s, 64), 3);
	for (uint32_t i = 0; i < 3; i++)
		check(&f, &s[i], i + 51);
	assert_int_equal(apus_return(f.r, s, 3), 0);
	for (uint32_t i = 54; i <= 57; i++)
		write_loan(&f, i);
	/* Queued ones are tested again. */
	route_settle(&f.p);
	assert_true(apus_reader_set_filter(f.r, "number > 55", NULL, 0, &error) > 0);
	assert_int_equal(take(&f, s, 64), 2);
	check(&f, &s[0], 56);
	route_close(&f.p);
}

/* All samples of a type whose memory is its CDR are of one size: who has no room for it has room for none. */
static void test_types_have_to_fit(void **state)
{
	struct apus_qos qos;
	struct apus_endpoint_options o = {.topic = "Blocks", .type = &block_type, .qos = &qos};
	struct apus_reader *r;
	struct fixture f;

	(void)state;
	begin(&f, ROUTE_UDP, NULL);
	qos_of(&qos, false, 4);
	qos.max_sample_bytes = sizeof(struct block) + 3;
	assert_int_equal(apus_reader_create(f.p.r, &o, &r), APUS_ELIMIT);
	qos.max_sample_bytes++;
	assert_int_equal(apus_reader_create(f.p.r, &o, &r), 0);
	qos_of(&qos, true, 4);
	qos.max_sample_bytes = sizeof(struct block) + 3;
	assert_int_equal(apus_writer_create(f.p.w, &o, &f.w), APUS_ELIMIT);
	o.loans = 1;
	assert_int_equal(apus_writer_create(f.p.w, &o, &f.w), APUS_ELIMIT);
	qos.max_sample_bytes++;
	assert_int_equal(apus_writer_create(f.p.w, &o, &f.w), 0);
	route_close(&f.p);
}

/* What a reader has no room for is acknowledged, for it would be offered for ever, and lost. */
static void too_large_is_lost(enum route route)
{
	struct apus_qos qos;
	struct apus_endpoint_options o = {.topic = "Shapes", .type = &apus_shape_type, .qos = &qos};
	const struct apus_shape large = {"A LONG COLOUR", 1, 2, 3}, small = {"RED", 1, 2, 3};
	struct apus_lost_status lost;
	struct apus_sample s[4];
	struct fixture f;

	route_open(&f.p, route, 112, NULL);
	qos_of(&qos, true, 8);
	assert_int_equal(apus_writer_create(f.p.w, &o, &f.w), 0);
	qos_of(&qos, false, 8);
	qos.max_sample_bytes = 24;
	assert_int_equal(apus_reader_create(f.p.r, &o, &f.r), 0);
	route_match(&f.p, f.w, 1, f.r, 1);
	assert_int_equal(apus_write(f.w, &large), 0);
	assert_int_equal(apus_write(f.w, &small), 0);
	assert_int_equal(apus_write(f.w, &large), 0);
	route_settle(&f.p);
	assert_int_equal(apus_take(f.r, s, 4, NULL), 1);
	assert_int_equal(apus_return(f.r, s, 1), 0);
	assert_int_equal(apus_reader_lost_status(f.r, NULL, &lost), 1);
	assert_int_equal(lost.total, 2);
	route_close(&f.p);
}

static void test_too_large_is_lost(void **state)
{
	(void)state;
	for (enum route route = 0; route < ROUTES; route++)
		too_large_is_lost(route);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types_have_to_fit),
		cmocka_unit_test(test_too_large_is_lost),
		cmocka_unit_test(test_every_route),
		cmocka_unit_test(test_loans_are_counted),
		cmocka_unit_test(test_refused_stays_lent),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_quota),
		cmocka_unit_test(test_outlives_writer),
		cmocka_unit_test(test_outlives_participant),
		cmocka_unit_test(test_reader_goes),
		cmocka_unit_test(test_setting),
		cmocka_unit_test(test_filter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
