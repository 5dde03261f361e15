/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: another process sees a participant's counters, and a file that lies hurts nobody who reads it.
 * Method: a participant that keeps a file is read through the public calls; then copies of the file are cut short,
 * and overwritten with random bytes behind a sound head.
 */
#include <apus/apus.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char path[64], copy[64];

static struct apus_participant *participant(void)
{
	struct apus_config *c = apus_config_create();
	struct apus_participant *p = NULL;
	char why[256] = "";

	assert_int_equal(apus_config_set(c, "interfaces", "lo", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "domain", "95", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "limits.local_endpoints", "4", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "limits.matches", "8", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "stats.file", path, NULL, 0), 0);
	if (apus_participant_create(c, &p, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	apus_config_destroy(c);
	return p;
}

/* The file of one that lives is not taken from it. */
static void second_keeper(void)
{
	struct apus_config *c = apus_config_create();
	struct apus_participant *p = NULL;
	char why[256] = "";

	assert_int_equal(apus_config_set(c, "interfaces", "lo", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "domain", "95", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "stats.file", path, NULL, 0), 0);
	assert_int_equal(apus_participant_create(c, &p, why, sizeof(why)), APUS_EEXIST);
	assert_non_null(strstr(why, path));
	apus_config_destroy(c);
}

struct seen {
	int participants, writers, readers, matches;
	struct apus_guid of_writer, of_reader; /* the other side in the match behind each */
	uint64_t available;
};

static bool look(const struct apus_stats_row *row, void *user)
{
	struct seen *s = user;

	s->participants += row->kind == APUS_STATS_PARTICIPANT;
	s->writers += row->kind == APUS_STATS_WRITER;
	s->readers += row->kind == APUS_STATS_READER;
	s->matches += row->kind > APUS_STATS_READER;
	if (row->kind == APUS_STATS_MATCHED_READER)
		s->of_writer = row->guid;
	if (row->kind == APUS_STATS_MATCHED_WRITER)
		s->of_reader = row->guid;
	assert_true(strlen(row->topic) < 256 && row->stat_count <= 96);
	for (uint32_t i = 0; i < row->stat_count; i++) {
		assert_true(strlen(row->stats[i].name) < 40);
		/* Every counter has a place. */
		assert_string_not_equal(row->stats[i].name, "stats.dropped");
		if (row->kind == APUS_STATS_READER &&
		    strcmp(row->stats[i].name, "status.available") == 0)
			s->available = row->stats[i].value;
	}
	return true;
}

static void seen_by_others(void **state)
{
	const struct timespec nap = {0, 20000000};
	struct apus_participant *p = participant();
	char topic[64];
	struct apus_endpoint_options o = {.topic = topic, .type = &apus_shape_type};
	struct apus_shape shape = {.color = "RED"};
	struct apus_writer *w;
	struct apus_reader *r;
	struct apus_stats *stats;
	struct seen s = {0};
	struct apus_guid other;
	int n;

	(void)state;
	snprintf(topic, sizeof(topic), "Stats-%d", (int)getpid());
	assert_int_equal(apus_writer_create(p, &o, &w), 0);
	assert_int_equal(apus_reader_create(p, &o, &r), 0);
	assert_int_equal(apus_writer_wait_matched(w, 1, INT64_C(20000000000)), 0);
	assert_int_equal(apus_reader_wait_matched(r, 1, INT64_C(20000000000)), 0);
	assert_int_equal(apus_write(w, &shape), 0);
	second_keeper();
	assert_int_equal(apus_stats_open("/nonexistent", &stats), APUS_ENOENT);
	assert_int_equal(apus_stats_open(path, &stats), 0);
	assert_int_equal(apus_stats_pid(stats), getpid());
	for (int i = 0; i < 1000 && s.available == 0; i++) {
		memset(&s, 0, sizeof(s));
		n = apus_stats_visit(stats, look, &s);
		assert_true(n >= 1 || n == APUS_EAGAIN);
		nanosleep(&nap, NULL);
	}
	assert_int_equal(s.participants, 1);
	assert_int_equal(s.writers, 1);
	assert_int_equal(s.readers, 1);
	assert_int_equal(s.available, 1);
	assert_int_equal(s.matches, 2);
	other = apus_reader_guid(r);
	assert_memory_equal(&s.of_writer, &other, sizeof(other));
	other = apus_writer_guid(w);
	assert_memory_equal(&s.of_reader, &other, sizeof(other));
	apus_stats_close(stats);
	apus_participant_destroy(p);
	assert_int_equal(access(path, F_OK), -1); /* removed at the end */
}

static void save(const char *bytes, size_t n)
{
	FILE *f = fopen(copy, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	fclose(f);
}

static void files_that_lie(void **state)
{
	struct apus_participant *p = participant();
	static char bytes[1 << 20];
	struct apus_stats *stats;
	struct seen s = {0};
	size_t n;
	FILE *f;

	(void)state;
	f = fopen(path, "rb");
	assert_non_null(f);
	n = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	apus_participant_destroy(p);
	assert_true(n > 100 && n < sizeof(bytes));
	for (size_t cut = 0; cut < n; cut += 1 + cut) {
		save(bytes, cut);
		assert_int_equal(apus_stats_open(copy, &stats), APUS_EENCODING);
	}
	srand(7);
	for (int round = 0; round < 30; round++) {
		/* Magic, sizes and an even sequence number stand; the rest is noise. */
		for (size_t i = 20; i < n; i++)
			bytes[i] = (char)rand();
		memset(bytes + 24, 2, 1);
		memset(bytes + 25, 0, 7);
		save(bytes, n);
		if (apus_stats_open(copy, &stats) != 0)
			continue;
		apus_stats_visit(stats, look, &s);
		apus_stats_close(stats);
	}
	assert_true(s.participants > 0);
	unlink(copy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(seen_by_others),
					   cmocka_unit_test(files_that_lie)};

	snprintf(path, sizeof(path), "/tmp/apus-stats-%d", (int)getpid());
	snprintf(copy, sizeof(copy), "/tmp/apus-stats-%d-copy", (int)getpid());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
