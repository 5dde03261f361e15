/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: through shared memory, within a process and over UDP an application sees the same: samples, order, states,
 * refusals, statuses.
 * Method: each case is a dialogue of writers and readers that writes down what it sees, as a text; it is run over
 * each route, and the text must be the one that stands beside it. Workers are driven by the test and everything is let
 * come to rest between two steps, so that the texts do not depend on time. Samples are large enough to be lent in place.
 */
#include "route_pair.h"

#define DATA    600
#define TEXT    4096
#define WRITERS 4
#define READERS 4

struct item {
	uint32_t id;
	int32_t x;
	uint8_t data[DATA];
};

static const struct apus_type octets = {.kind = APUS_KIND_ARRAY,
					.size_bytes = DATA,
					.align_bytes = 1,
					.bound = DATA,
					.element = &apus_type_octet};
static const struct apus_member members[] = {
	{.name = "id", .type = &apus_type_uint32, .offset_bytes = 0, .id = 0, .key = true},
	{.name = "x", .type = &apus_type_int32, .offset_bytes = 4, .id = 1},
	{.name = "data", .type = &octets, .offset_bytes = 8, .id = 2},
};
static const struct apus_type item_type = {.name = "Item",
					   .kind = APUS_KIND_STRUCT,
					   .size_bytes = sizeof(struct item),
					   .align_bytes = 4,
					   .members = members,
					   .member_count = 3,
					   .plain_xcdr1 = true,
					   .plain_xcdr2 = true};

/* One run of a case. */
struct run {
	struct route_pair p;
	struct apus_qos wq, rq; /* of the next writer, the next reader */
	struct apus_publisher *publisher;
	struct apus_subscriber *subscriber;
	const char *topic, *filter;
	struct apus_writer *w[WRITERS];
	struct apus_reader *r[READERS];
	struct apus_observer seen[READERS], seen_w[WRITERS];
	int writers, readers;
	char text[TEXT];
	size_t length;
};

__attribute__((format(printf, 2, 3))) static void say(struct run *c, const char *format, ...)
{
	va_list list;
	int n;

	va_start(list, format);
	n = vsnprintf(c->text + c->length, TEXT - c->length, format, list);
	va_end(list);
	assert_true(n >= 0 && (size_t)n < TEXT - c->length);
	c->length += (size_t)n;
}

static void settle(struct run *c)
{
	route_settle(&c->p);
}

/* A writer as wq says; the next one, too. */
static struct apus_writer *writer(struct run *c)
{
	struct apus_endpoint_options o = {
		.topic = c->topic, .type = &item_type, .qos = &c->wq, .publisher = c->publisher};
	struct apus_writer **w = &c->w[c->writers++];

	assert_int_equal(apus_writer_create(c->p.w, &o, w), 0);
	return *w;
}

static struct apus_reader *reader(struct run *c)
{
	struct apus_endpoint_options o = {.topic = c->topic,
					  .type = &item_type,
					  .qos = &c->rq,
					  .subscriber = c->subscriber,
					  .filter_expression = c->filter};
	struct apus_reader **r = &c->r[c->readers++];

	assert_int_equal(apus_reader_create(c->p.r, &o, r), 0);
	return *r;
}

/* All that there are have each other, if they are on one topic. */
static void matched(struct run *c)
{
	for (int i = 0; i < c->writers; i++)
		route_match(&c->p, c->w[i], (uint32_t)c->readers, NULL, 0);
	for (int i = 0; i < c->readers; i++)
		route_match(&c->p, NULL, 0, c->r[i], (uint32_t)c->writers);
	settle(c);
}

static void destroy_writer(struct run *c, int i)
{
	apus_writer_destroy(c->w[i]);
	c->w[i] = NULL;
}

static int put(struct apus_writer *w, uint32_t id, int32_t x)
{
	struct item item = {.id = id, .x = x};

	memset(item.data, x & 0xff, sizeof(item.data));
	return apus_write(w, &item);
}

static void write_all(struct run *c, struct apus_writer *w, uint32_t id, int32_t first,
		      int32_t last)
{
	for (int32_t x = first; x <= last; x++) {
		int rc = put(w, id, x);

		if (rc != 0)
			say(c, "[%d:%s]", x, apus_strerror(rc));
	}
}

/* id:x of a sample, its state if that is not alive, and n: of a new instance. */
static void show(struct run *c, const struct apus_reader *r, const struct apus_sample *s)
{
	static const char *const states[] = {"?", "", " disposed", "?", " no writers"};
	const struct item *item = apus_sample_image(r, s);
	struct item key;

	if (item) {
		for (size_t i = 0; i < DATA; i++)
			assert_int_equal(item->data[i], item->x & 0xff);
		say(c, " %u:%d", item->id, item->x);
	} else {
		assert_false(s->info.valid_data);
		assert_true(apus_type_decode(&item_type, s->payload, s->payload_bytes, true, &key,
					     NULL, 0) >= 0);
		say(c, " %u:-", key.id);
	}
	say(c, "%s%s%s", s->info.view_new ? "n" : "", s->info.read_before ? "r" : "",
	    states[s->info.instance_state]);
	if (s->info.disposed_generation_count || s->info.no_writers_generation_count)
		say(c, " (%d,%d)", s->info.disposed_generation_count,
		    s->info.no_writers_generation_count);
	if (s->info.related_seq)
		say(c, " answers %lld", (long long)s->info.related_seq);
}

static void show_all(struct run *c, struct apus_reader *r, struct apus_sample *s, int n)
{
	assert_true(n >= 0);
	for (int i = 0; i < n; i++)
		show(c, r, &s[i]);
	say(c, n ? ";" : " none;");
	assert_int_equal(apus_return(r, s, (uint32_t)n), 0);
}

static void take(struct run *c, struct apus_reader *r)
{
	struct apus_sample s[64];

	settle(c);
	show_all(c, r, s, apus_take(r, s, 64, NULL));
}

static void statuses(struct run *c, int i)
{
	struct apus_lost_status lost;
	struct apus_rejected_status rejected;
	struct apus_available_status available;

	settle(c);
	assert_int_equal(apus_reader_lost_status(c->r[i], &c->seen[i], &lost) < 0, 0);
	assert_int_equal(apus_reader_rejected_status(c->r[i], &c->seen[i], &rejected) < 0, 0);
	assert_int_equal(apus_reader_available_status(c->r[i], &c->seen[i], &available) < 0, 0);
	say(c, " lost %llu rejected %llu available %llu;", (unsigned long long)lost.total,
	    (unsigned long long)rejected.total, (unsigned long long)available.total);
}

/* --- cases --------------------------------------------------------------------------------------- */

static void in_order(struct run *c)
{
	struct apus_writer *w = writer(c);
	struct apus_reader *r = reader(c);

	matched(c);
	write_all(c, w, 1, 1, 5);
	write_all(c, w, 2, 6, 8);
	take(c, r);
	write_all(c, w, 1, 9, 9);
	take(c, r);
	statuses(c, 0);
	say(c, " acked %d", apus_writer_wait_acked(w, 0));
}

static void best_effort(struct run *c)
{
	struct apus_writer *w;
	struct apus_reader *r;

	c->wq.reliability = c->rq.reliability = APUS_BEST_EFFORT;
	w = writer(c);
	r = reader(c);
	matched(c);
	write_all(c, w, 1, 1, 4);
	take(c, r);
	statuses(c, 0);
}

static void keep_last(struct run *c)
{
	struct apus_writer *w;

	c->wq.history = c->rq.history = APUS_KEEP_LAST;
	c->wq.depth = 4;
	c->rq.depth = 3;
	w = writer(c);
	reader(c);
	matched(c);
	for (int32_t x = 1; x <= 6; x++) {
		write_all(c, w, 1, x, x);
		write_all(c, w, 2, 10 + x, 10 + x);
		settle(c);
	}
	take(c, c->r[0]);
	statuses(c, 0);
}

static void keep_all_pushes_back(struct run *c)
{
	struct apus_writer *w;
	struct apus_reader *r;
	struct apus_sample s[2];
	int32_t x = 1;

	c->wq.max_samples = c->wq.max_samples_per_instance = 8;
	c->rq.max_samples = c->rq.max_samples_per_instance = 4;
	c->wq.max_blocking_ns = 2 * MSEC;
	w = writer(c);
	r = reader(c);
	matched(c);
	for (; put(w, 1, x) == 0 && x < 100; x++)
		settle(c);
	say(c, " %d written, then: %s;", x - 1, apus_strerror(put(w, 1, x)));
	/* Place for two. */
	assert_int_equal(apus_take(r, s, 2, NULL), 2);
	show_all(c, r, s, 2);
	settle(c);
	write_all(c, w, 1, x, x + 2);
	for (int i = 0; i < 4; i++)
		take(c, r);
	statuses(c, 0);
}

static void waits_for_room(struct run *c)
{
	struct apus_writer *w;

	c->wq.max_samples = c->wq.max_samples_per_instance = 2;
	c->wq.max_blocking_ns = 5 * MSEC;
	w = writer(c);
	reader(c);
	matched(c);
	if (c->p.r == c->p.w) {
		/* Here nothing is ever behind. */
		write_all(c, w, 1, 1, 3);
		settle(c);
		say(c, "[3:%s]", apus_strerror(APUS_ETIMEDOUT));
	} else {
		write_all(c, w, 1, 1, 3); /* nobody turns the reader's worker meanwhile */
		settle(c);
		write_all(c, w, 1, 3, 3);
	}
	take(c, c->r[0]);
}

static void filter(struct run *c)
{
	struct apus_filter_error error;
	struct apus_writer *w;
	struct apus_reader *r;

	c->filter = "x > 5";
	r = reader(c);
	c->filter = NULL;
	reader(c);
	w = writer(c);
	matched(c);
	write_all(c, w, 1, 1, 9);
	take(c, r);
	take(c, c->r[1]);
	/* Queued samples are tested again, and what comes by the new one. */
	write_all(c, w, 1, 10, 14);
	settle(c);
	assert_true(apus_reader_set_filter(r, "x > 11 AND id = 1", NULL, 0, &error) > 0);
	settle(c);
	write_all(c, w, 2, 15, 15);
	write_all(c, w, 1, 3, 3);
	write_all(c, w, 1, 16, 16);
	take(c, r);
	take(c, c->r[1]);
	assert_true(apus_reader_set_filter(r, NULL, NULL, 0, NULL) > 0);
	settle(c);
	write_all(c, w, 1, 1, 2);
	take(c, r);
	statuses(c, 0);
	say(c, " acked %d", apus_writer_wait_acked(w, 0));
}

static void filter_best_effort(struct run *c)
{
	struct apus_writer *w;

	c->wq.reliability = c->rq.reliability = APUS_BEST_EFFORT;
	c->filter = "x = 2 OR x = 7 OR x > 100";
	reader(c);
	w = writer(c);
	matched(c);
	write_all(c, w, 1, 1, 9);
	take(c, c->r[0]);
	write_all(c, w, 1, 8, 9);
	take(c, c->r[0]);
	write_all(c, w, 1, 101, 102);
	take(c, c->r[0]);
	statuses(c, 0);
}

static void query(struct run *c)
{
	struct apus_condition *q;
	struct apus_sample s[16];
	struct apus_writer *w = writer(c);
	struct apus_reader *r = reader(c);

	matched(c);
	assert_int_equal(
		apus_reader_query_condition(r, NULL, "x BETWEEN 3 AND 4", NULL, 0, NULL, &q), 0);
	say(c, " %d;", apus_condition_triggered(q));
	write_all(c, w, 1, 1, 6);
	settle(c);
	say(c, " %d;", apus_condition_triggered(q));
	show_all(c, r, s, apus_read_where(q, s, 16));
	show_all(c, r, s, apus_take_where(q, s, 16));
	say(c, " %d;", apus_condition_triggered(q));
	take(c, r);
	apus_condition_destroy(q);
}

static void late_joiner(struct run *c)
{
	struct item key = {.id = 3};
	struct apus_writer *w;

	c->wq.durability = c->rq.durability = APUS_TRANSIENT_LOCAL;
	c->wq.history = APUS_KEEP_LAST;
	c->wq.depth = 3;
	w = writer(c);
	write_all(c, w, 1, 1, 5);
	write_all(c, w, 2, 6, 7);
	write_all(c, w, 3, 8, 8);
	assert_int_equal(apus_dispose(w, &key), 0);
	settle(c);
	reader(c);
	matched(c);
	take(c, c->r[0]);
	c->rq.durability = APUS_VOLATILE;
	reader(c);
	matched(c);
	write_all(c, w, 1, 9, 9);
	take(c, c->r[1]);
	take(c, c->r[0]);
	c->rq.durability = APUS_TRANSIENT_LOCAL;
	c->filter = "x > 5";
	reader(c);
	matched(c);
	write_all(c, w, 2, 4, 4);
	write_all(c, w, 2, 10, 10);
	take(c, c->r[2]);
	statuses(c, 2);
}

static void lifecycle(struct run *c)
{
	struct item one = {.id = 1}, two = {.id = 2};
	struct apus_writer *w;

	c->wq.autodispose = false;
	w = writer(c);
	reader(c);
	matched(c);
	write_all(c, w, 1, 1, 2);
	write_all(c, w, 2, 3, 3);
	assert_int_equal(apus_dispose(w, &one), 0);
	assert_int_equal(apus_unregister(w, &two), 0);
	take(c, c->r[0]);
	write_all(c, w, 1, 4, 4);
	write_all(c, w, 2, 5, 5);
	take(c, c->r[0]);
	assert_int_equal(apus_write_as(w, &two, APUS_DISPOSE_UNREGISTER, INT64_MIN), 0);
	take(c, c->r[0]);
	say(c, " %d", apus_write_as(w, &two, APUS_UNREGISTER, INT64_MIN));
	take(c, c->r[0]);
}

static void writer_leaves(struct run *c)
{
	struct apus_matched_status m;
	struct apus_liveliness_status l;
	struct apus_writer *w = writer(c);

	reader(c);
	writer(c);
	matched(c);
	write_all(c, w, 1, 1, 2);
	settle(c);
	write_all(c, c->w[1], 2, 3, 3);
	settle(c);
	destroy_writer(c, 0);
	route_match(&c->p, NULL, 0, c->r[0], 1);
	take(c, c->r[0]);
	assert_true(apus_reader_matched_status(c->r[0], &c->seen[0], &m) >= 0);
	assert_true(apus_reader_liveliness_status(c->r[0], &c->seen[0], &l) >= 0);
	say(c, " matched %u total %llu transitions %llu alive %u not %u", m.current,
	    (unsigned long long)m.total, (unsigned long long)m.transitions, l.alive, l.not_alive);
	apus_reader_destroy(c->r[0]);
	c->r[0] = NULL;
	do {
		settle(c);
		assert_true(apus_writer_matched_status(c->w[1], &c->seen_w[1], &m) >= 0);
	} while (m.current);
	say(c, "; matched %u total %llu", m.current, (unsigned long long)m.total);
	say(c, " %s", apus_strerror(put(c->w[1], 2, 4)));
}

static void ownership(struct run *c)
{
	struct apus_writer *weak, *strong;

	c->wq.ownership = c->rq.ownership = APUS_EXCLUSIVE;
	c->wq.strength = 1;
	weak = writer(c);
	c->wq.strength = 5;
	strong = writer(c);
	reader(c);
	matched(c);
	write_all(c, weak, 1, 1, 2);
	settle(c);
	write_all(c, strong, 1, 11, 12);
	settle(c);
	write_all(c, weak, 1, 3, 4);
	write_all(c, weak, 2, 5, 5);
	take(c, c->r[0]);
	assert_int_equal(apus_writer_set_strength(weak, 9), 0);
	settle(c);
	route_match(&c->p, NULL, 0, c->r[0], 2);
	settle(c);
	write_all(c, weak, 1, 6, 6);
	settle(c);
	write_all(c, strong, 1, 13, 13);
	take(c, c->r[0]);
	destroy_writer(c, 0);
	route_match(&c->p, NULL, 0, c->r[0], 1);
	write_all(c, strong, 1, 14, 14);
	take(c, c->r[0]);
}

static void many(struct run *c)
{
	reader(c);
	c->filter = "id = 2";
	reader(c);
	c->filter = "x < 0";
	reader(c);
	for (int i = 0; i < 3; i++)
		writer(c);
	matched(c);
	for (int32_t x = 1; x <= 3; x++)
		for (int i = 0; i < 3; i++) {
			write_all(c, c->w[i], (uint32_t)i, 10 * i + x, 10 * i + x);
			settle(c);
		}
	for (int i = 0; i < 3; i++) {
		take(c, c->r[i]);
		statuses(c, i);
	}
}

static void lifespan(struct run *c)
{
	struct timespec ts = {0, 60 * MSEC};
	struct apus_writer *w;

	c->wq.lifespan_ns = 20 * MSEC;
	w = writer(c);
	c->wq.lifespan_ns = APUS_INFINITE_NS;
	writer(c);
	reader(c);
	matched(c);
	write_all(c, w, 1, 1, 2);
	write_all(c, c->w[1], 1, 3, 3);
	settle(c);
	nanosleep(&ts, NULL);
	take(c, c->r[0]);
	statuses(c, 0);
}

static void deadline(struct run *c)
{
	struct timespec ts = {0, 40 * MSEC};
	struct apus_deadline_status offered, requested;
	struct apus_writer *w;

	c->wq.deadline_ns = c->rq.deadline_ns = 15 * MSEC;
	w = writer(c);
	reader(c);
	matched(c);
	assert_true(apus_reader_deadline_status(c->r[0], &c->seen[0], &requested) >= 0);
	say(c, " %llu;", (unsigned long long)requested.total);
	write_all(c, w, 1, 1, 1);
	settle(c);
	nanosleep(&ts, NULL);
	settle(c);
	assert_true(apus_reader_deadline_status(c->r[0], &c->seen[0], &requested) >= 0);
	assert_true(apus_writer_deadline_status(w, &c->seen_w[0], &offered) >= 0);
	say(c, " missed %s %s;", offered.total >= 2 ? "yes" : "no",
	    requested.total >= 2 ? "yes" : "no");
	take(c, c->r[0]);
}

static void separation(struct run *c)
{
	struct apus_writer *w;

	c->rq.time_filter_ns = 3600 * SEC;
	w = writer(c);
	reader(c);
	matched(c);
	write_all(c, w, 1, 1, 3);
	write_all(c, w, 2, 4, 5);
	take(c, c->r[0]);
	statuses(c, 0);
}

static void by_source(struct run *c)
{
	struct item item = {.id = 1};
	struct apus_writer *w;

	c->wq.destination_order = c->rq.destination_order = APUS_BY_SOURCE;
	w = writer(c);
	reader(c);
	matched(c);
	for (int i = 0; i < 4; i++) {
		static const int64_t times[] = {1000, 3000, 2000, 2500};

		item.x = i + 1;
		memset(item.data, item.x, sizeof(item.data));
		assert_int_equal(apus_write_as(w, &item, APUS_ALIVE, times[i] * SEC), 0);
	}
	take(c, c->r[0]);
	item.x = 5;
	memset(item.data, item.x, sizeof(item.data));
	assert_int_equal(apus_write_as(w, &item, APUS_ALIVE, 2900 * SEC), 0);
	take(c, c->r[0]);
}

static void related(struct run *c)
{
	struct item item = {.id = 1, .x = 7};
	struct apus_guid asked = {{9, 8, 7}};
	struct apus_select select = {.related_writer = &asked};
	struct apus_sample s[8];
	struct apus_writer *w = writer(c);

	reader(c);
	matched(c);
	memset(item.data, item.x, sizeof(item.data));
	write_all(c, w, 1, 1, 2);
	assert_int_equal(apus_write_related(w, &item, APUS_ALIVE, INT64_MIN, &asked, 41), 0);
	assert_int_equal(apus_write_related(w, &item, APUS_ALIVE, INT64_MIN, &asked, 42), 0);
	settle(c);
	select.related_seq = 42;
	show_all(c, c->r[0], s, apus_take(c->r[0], s, 8, &select));
	take(c, c->r[0]);
}

static const char *const others[ROUTES] = {"Others0", "Others1", "Others2"};

static void groups(struct run *c, uint8_t scope, bool ordered)
{
	struct apus_group_options o = {
		.access_scope = scope, .coherent_access = true, .ordered_access = ordered};

	assert_int_equal(apus_publisher_create(c->p.w, &o, &c->publisher), 0);
	assert_int_equal(apus_subscriber_create(c->p.r, &o, &c->subscriber), 0);
	c->wq.access_scope = c->rq.access_scope = scope;
	c->wq.coherent_access = c->rq.coherent_access = true;
	c->wq.ordered_access = c->rq.ordered_access = ordered;
}

static void coherent_topic(struct run *c)
{
	struct apus_writer *w;

	groups(c, APUS_SCOPE_TOPIC, false);
	w = writer(c);
	reader(c);
	matched(c);
	write_all(c, w, 1, 1, 1);
	assert_int_equal(apus_publisher_begin_coherent(c->publisher), 0);
	write_all(c, w, 1, 2, 3);
	write_all(c, w, 2, 4, 4);
	take(c, c->r[0]);
	assert_int_equal(apus_publisher_end_coherent(c->publisher), 0);
	take(c, c->r[0]);
	/* A set that what follows ends, and one of which the writer goes in the middle. */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(apus_publisher_begin_coherent(c->publisher), 0);
		write_all(c, w, 1, 5 + i, 5 + i);
		assert_int_equal(apus_publisher_end_coherent(c->publisher), 0);
	}
	take(c, c->r[0]);
	assert_int_equal(apus_publisher_begin_coherent(c->publisher), 0);
	write_all(c, w, 1, 8, 9);
	settle(c);
	destroy_writer(c, 0);
	route_match(&c->p, NULL, 0, c->r[0], 0);
	take(c, c->r[0]);
	statuses(c, 0);
}

static void coherent_filtered(struct run *c)
{
	struct apus_writer *w;

	groups(c, APUS_SCOPE_TOPIC, false);
	w = writer(c);
	c->filter = "x <> 3 AND x <> 5";
	reader(c);
	matched(c);
	for (int32_t x = 1; x <= 5; x += 2) {
		assert_int_equal(apus_publisher_begin_coherent(c->publisher), 0);
		write_all(c, w, 1, x, x + 1);
		assert_int_equal(apus_publisher_end_coherent(c->publisher), 0);
	}
	assert_int_equal(apus_publisher_begin_coherent(c->publisher), 0);
	write_all(c, w, 1, 3, 3);
	write_all(c, w, 1, 5, 5);
	assert_int_equal(apus_publisher_end_coherent(c->publisher), 0);
	write_all(c, w, 1, 7, 7);
	take(c, c->r[0]);
	statuses(c, 0);
}

/* Best effort: what is left out in front of a set, in it and behind it does not make the set one with losses. */
static void coherent_filtered_best_effort(struct run *c)
{
	c->wq.reliability = c->rq.reliability = APUS_BEST_EFFORT;
	coherent_filtered(c);
}

/* Changes of state pass whatever the filter; in batches, with a filter that changes in the middle of one. */
static void filter_lifecycle(struct run *c)
{
	struct item one = {.id = 1}, two = {.id = 2};
	struct apus_writer *w;

	c->wq.reliability = c->rq.reliability = APUS_BEST_EFFORT;
	c->wq.batch_bytes = 6000;
	c->wq.batch_delay_ns = APUS_INFINITE_NS;
	c->wq.autodispose = false;
	w = writer(c);
	c->filter = "x > 5";
	reader(c);
	matched(c);
	write_all(c, w, 1, 4, 7);
	assert_int_equal(apus_dispose(w, &one), 0);
	write_all(c, w, 2, 1, 2);
	assert_int_equal(apus_writer_flush(w), 0);
	take(c, c->r[0]);
	write_all(c, w, 2, 3, 8);
	assert_int_equal(apus_unregister(w, &two), 0);
	write_all(c, w, 1, 3, 3);
	assert_int_equal(apus_writer_flush(w), 0);
	take(c, c->r[0]);
	write_all(c, w, 1, 1, 2);
	assert_true(apus_reader_set_filter(c->r[0], "x < 3", NULL, 0, NULL) > 0);
	settle(c);
	write_all(c, w, 1, 3, 3);
	write_all(c, w, 1, 1, 1);
	assert_int_equal(apus_writer_flush(w), 0);
	take(c, c->r[0]);
	statuses(c, 0);
}

/* Who owns an instance is decided among samples that pass. */
static void filter_ownership(struct run *c)
{
	struct apus_writer *weak, *strong;

	c->wq.ownership = c->rq.ownership = APUS_EXCLUSIVE;
	c->wq.reliability = c->rq.reliability = APUS_BEST_EFFORT;
	c->wq.strength = 1;
	weak = writer(c);
	c->wq.strength = 5;
	strong = writer(c);
	c->filter = "x > 10";
	reader(c);
	matched(c);
	write_all(c, weak, 1, 11, 12);
	settle(c);
	write_all(c, strong, 1, 1, 9);
	settle(c);
	write_all(c, weak, 1, 13, 13);
	take(c, c->r[0]);
	write_all(c, strong, 1, 14, 14);
	settle(c);
	write_all(c, weak, 1, 15, 16);
	settle(c);
	write_all(c, strong, 1, 2, 3);
	write_all(c, strong, 1, 17, 17);
	take(c, c->r[0]);
	statuses(c, 0);
}

static void coherent_group(struct run *c)
{
	struct apus_writer *a, *b;

	groups(c, APUS_SCOPE_GROUP, false);
	a = writer(c);
	reader(c);
	c->topic = others[c->p.route];
	b = writer(c);
	reader(c);
	for (int i = 0; i < 2; i++)
		route_match(&c->p, c->w[i], 1, c->r[i], 1);
	settle(c);
	for (int32_t x = 1; x <= 2; x++) {
		assert_int_equal(apus_publisher_begin_coherent(c->publisher), 0);
		write_all(c, a, 1, 10 * x, 10 * x + 1);
		take(c, c->r[0]);
		write_all(c, b, 1, 10 * x + 2, 10 * x + 2);
		settle(c);
		take(c, c->r[1]);
		assert_int_equal(apus_publisher_end_coherent(c->publisher), 0);
		take(c, c->r[0]);
		take(c, c->r[1]);
	}
	write_all(c, b, 1, 30, 30);
	take(c, c->r[1]);
	statuses(c, 0);
	statuses(c, 1);
}

static void ordered_group(struct run *c)
{
	struct apus_reader *list[16];
	struct apus_sample s[1];
	struct apus_writer *a, *b;
	int n;

	groups(c, APUS_SCOPE_GROUP, true);
	a = writer(c);
	reader(c);
	c->topic = others[c->p.route];
	b = writer(c);
	reader(c);
	for (int i = 0; i < 2; i++)
		route_match(&c->p, c->w[i], 1, c->r[i], 1);
	settle(c);
	assert_int_equal(apus_publisher_suspend(c->publisher), 0);
	write_all(c, b, 1, 1, 2);
	write_all(c, a, 1, 3, 3);
	write_all(c, b, 1, 4, 4);
	write_all(c, a, 1, 5, 6);
	settle(c);
	say(c, " %d;", apus_subscriber_readers(c->subscriber, NULL, list, 16));
	assert_int_equal(apus_publisher_resume(c->publisher), 0);
	settle(c);
	assert_int_equal(apus_subscriber_begin_access(c->subscriber), 0);
	n = apus_subscriber_readers(c->subscriber, NULL, list, 16);
	for (int i = 0; i < n; i++)
		show_all(c, list[i], s, apus_take(list[i], s, 1, NULL));
	assert_int_equal(apus_subscriber_end_access(c->subscriber), 0);
}

static void batches(struct run *c)
{
	struct item items[10] = {0};
	struct apus_writer *w;

	c->wq.batch_bytes = 2000;
	c->wq.batch_delay_ns = APUS_INFINITE_NS;
	w = writer(c);
	c->filter = "x <> 4";
	reader(c);
	matched(c);
	write_all(c, w, 1, 1, 2);
	take(c, c->r[0]);
	write_all(c, w, 1, 3, 5);
	take(c, c->r[0]);
	assert_int_equal(apus_writer_flush(w), 0);
	take(c, c->r[0]);
	for (int i = 0; i < 10; i++) {
		items[i] = (struct item){.id = 2, .x = 20 + i};
		memset(items[i].data, 20 + i, DATA);
	}
	say(c, " %d;", apus_write_many(w, items, 10));
	assert_int_equal(apus_writer_flush(w), 0);
	take(c, c->r[0]);
}

static void incompatible(struct run *c)
{
	struct apus_incompatible_status i, o;
	struct apus_writer *w;

	c->wq.reliability = APUS_BEST_EFFORT;
	w = writer(c);
	reader(c);
	for (int k = 0; k < 200; k++) {
		settle(c);
		assert_true(apus_reader_incompatible_status(c->r[0], &c->seen[0], &i) >= 0);
		assert_true(apus_writer_incompatible_status(w, &c->seen_w[0], &o) >= 0);
		if (i.total && o.total)
			break;
	}
	say(c, " %llu %d %llu %d;", (unsigned long long)i.total, i.last_policy,
	    (unsigned long long)o.total, o.last_policy);
	write_all(c, w, 1, 1, 1);
	take(c, c->r[0]);
}

static const struct {
	const char *name;
	void (*run)(struct run *c);
	const char *text;
} cases[] = {
#include "routes_expected.inc"
};

/* Deletes what is left. */
static void end(struct run *c)
{
	for (int i = 0; i < c->writers; i++)
		apus_writer_destroy(c->w[i]);
	for (int i = 0; i < c->readers; i++)
		apus_reader_destroy(c->r[i]);
	if (c->publisher)
		assert_int_equal(apus_publisher_destroy(c->publisher), 0);
	if (c->subscriber)
		assert_int_equal(apus_subscriber_destroy(c->subscriber), 0);
}

static void test_routes(void **state)
{
	/* Whatever is asked for again is asked for within the time that is let pass. */
	static const char *const settings[] = {"heartbeat.period", "4ms", NULL};
	static struct run c;
	struct route_pair pairs[ROUTES];
	char topic[32];
	int wrong = 0;

	(void)state;
	for (enum route route = 0; route < ROUTES; route++)
		route_open(&pairs[route], route, 112, settings);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *only = getenv("ROUTES_ONLY");

		if (only && !strstr(cases[i].name, only))
			continue;
		for (enum route route = 0; route < ROUTES; route++) {
			memset(&c, 0, sizeof(c));
			c.p = pairs[route];
			snprintf(topic, sizeof(topic), "Items%u-%u", (unsigned)i, route);
			c.topic = topic;
			apus_qos_writer_default(&c.wq);
			apus_qos_reader_default(&c.rq);
			c.rq.reliability = APUS_RELIABLE;
			c.wq.history = c.rq.history = APUS_KEEP_ALL;
			c.wq.max_samples = c.wq.max_samples_per_instance = 32;
			c.rq.max_samples = c.rq.max_samples_per_instance = 64;
			c.wq.max_instances = c.rq.max_instances = 4;
			c.wq.max_blocking_ns = 0;
			cases[i].run(&c);
			if (strcmp(c.text, cases[i].text) != 0) {
				print_message("%s, %s:\n is     %s\n not    %s\n", cases[i].name,
					      route_names[route], c.text, cases[i].text);
				wrong++;
			}
			end(&c);
		}
	}
	for (enum route route = 0; route < ROUTES; route++)
		route_close(&pairs[route]);
	assert_int_equal(wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_routes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
