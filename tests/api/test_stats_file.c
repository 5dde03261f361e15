/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: another process sees a participant's counters, a file that lies hurts nobody who reads it, and what befalls the
 * file does not hurt its keeper.
 * Method: a participant that keeps a file is read through the public calls; then copies of the file are cut short,
 * and overwritten with random bytes behind a sound head. The file is cut short and replaced under its keeper, the
 * room for it is denied (posix_fallocate() is wrapped; RLIMIT_FSIZE), and a keeper with a child is killed.
 */
#include <apus/apus.h>

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char path[128], copy[128];
static int no_room; /* posix_fallocate() returns it */

int __real_posix_fallocate64(int fd, off_t at, off_t bytes);
int __wrap_posix_fallocate64(int fd, off_t at, off_t bytes);

int __wrap_posix_fallocate64(int fd, off_t at, off_t bytes)
{
	return no_room ? no_room : __real_posix_fallocate64(fd, at, bytes);
}

static struct apus_participant *participant(void)
{
	struct apus_config *c = apus_config_create();
	struct apus_participant *p = NULL;
	char why[256] = "";

	assert_int_equal(apus_config_set(c, "interfaces", "lo", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "domain", "133", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "limits.local_endpoints", "4", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "limits.matches", "8", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "stats.file", path, NULL, 0), 0);
	if (apus_participant_create(c, &p, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	apus_config_destroy(c);
	return p;
}

static void refused(int code, const char *reason)
{
	struct apus_config *c = apus_config_create();
	struct apus_participant *p = NULL;
	char why[256] = "";

	assert_int_equal(apus_config_set(c, "interfaces", "lo", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "domain", "133", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "limits.local_endpoints", "4", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "limits.matches", "4096", NULL, 0), 0);
	assert_int_equal(apus_config_set(c, "stats.file", path, NULL, 0), 0);
	assert_int_equal(apus_participant_create(c, &p, why, sizeof(why)), code);
	assert_non_null(strstr(why, path));
	assert_non_null(strstr(why, reason));
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
	assert_true(strlen(row->topic) < 256 && row->stat_count <= 160);
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
	refused(APUS_EEXIST, "kept by another"); /* it is not taken from one that lives */
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

static bool find_failed(const struct apus_stats_row *row, void *user)
{
	for (uint32_t i = 0; i < row->stat_count; i++)
		if (strcmp(row->stats[i].name, "stats.failed_updates") == 0)
			*(uint64_t *)user = row->stats[i].value;
	return false;
}

/* Waits for a sound file; returns how many updates it says have failed. */
static uint64_t updated(void)
{
	const struct timespec nap = {0, 20000000};
	struct apus_stats *stats;
	uint64_t failed = UINT64_MAX;

	for (int i = 0; i < 1000 && failed == UINT64_MAX; i++) {
		nanosleep(&nap, NULL);
		if (apus_stats_open(path, &stats) != 0)
			continue;
		apus_stats_visit(stats, find_failed, &failed);
		apus_stats_close(stats);
	}
	assert_true(failed != UINT64_MAX);
	return failed;
}

/* Neither the keeper nor a reader dies of it, and the next update mends the file. */
static void cut_short(void **state)
{
	struct apus_participant *p = participant();
	struct apus_stats *stats;
	struct seen s = {0};
	struct stat whole, st;

	(void)state;
	updated();
	assert_int_equal(stat(path, &whole), 0);
	assert_true(whole.st_blocks * 512 >= whole.st_size);
	assert_int_equal(apus_stats_open(path, &stats), 0);
	for (off_t size = 0; size < whole.st_size; size += 1 + 4 * size) {
		assert_int_equal(truncate(path, size), 0);
		apus_stats_visit(stats, look, &s);
		apus_stats_time_ns(stats);
		updated();
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_size, whole.st_size);
	}
	assert_int_equal(truncate(path, whole.st_size + 5), 0);
	updated();
	s.participants = 0;
	assert_true(apus_stats_visit(stats, look, &s) >= 1);
	assert_int_equal(s.participants, 1);
	apus_stats_close(stats);
	apus_participant_destroy(p);
	assert_int_equal(access(path, F_OK), -1);
}

static void no_room_for_it(void **state)
{
	const struct timespec nap = {0, 300000000}; /* longer than a period */
	struct rlimit old, small;
	struct apus_participant *p;
	uint64_t failed = 0;

	(void)state;
	no_room = ENOSPC;
	refused(APUS_EIO, "no room");
	no_room = 0;
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = (struct rlimit){4096 * 4096, old.rlim_max}; /* a row has more than 4096 bytes */
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	refused(APUS_EIO, "no room");
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(access(path, F_OK), -1);
	/* A limit that comes later costs updates, not the process: SIGXFSZ would end it. */
	small.rlim_cur = 4096;
	p = participant();
	assert_int_equal(updated(), 0);
	for (int i = 0; i < 50 && failed == 0; i++) {
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
		nanosleep(&nap, NULL);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
		nanosleep(&nap, NULL);
		failed = updated();
	}
	assert_true(failed > 0);
	apus_participant_destroy(p);
}

/* What has taken its name, or is found under it from another working directory, is not its own and stays. */
static void only_its_own(void **state)
{
	char here[96], there[96], whole[64], *was = getcwd(NULL, 0);
	struct apus_participant *p;

	(void)state;
	assert_non_null(was);
	snprintf(whole, sizeof(whole), "%.63s", path);
	snprintf(here, sizeof(here), "%s-here", whole);
	snprintf(there, sizeof(there), "%s-there", whole);
	assert_int_equal(mkdir(here, 0700), 0);
	assert_int_equal(mkdir(there, 0700), 0);
	snprintf(path, sizeof(path), "relative");
	assert_int_equal(chdir(here), 0);
	p = participant();
	assert_int_equal(chdir(there), 0);
	snprintf(copy, sizeof(copy), "relative");
	save("precious", 8);
	apus_participant_destroy(p);
	assert_int_equal(unlink("relative"), 0);
	assert_int_equal(chdir(here), 0);
	assert_int_equal(access("relative", F_OK), -1);

	p = participant();
	assert_int_equal(unlink("relative"), 0);
	save("precious", 8);
	apus_participant_destroy(p);
	assert_int_equal(unlink("relative"), 0);
	assert_int_equal(chdir(was), 0);
	free(was);
	assert_int_equal(rmdir(here), 0);
	assert_int_equal(rmdir(there), 0);
	snprintf(path, sizeof(path), "%s", whole);
	snprintf(copy, sizeof(copy), "%s-copy", whole);
}

/* Keeps the file, has a child that waits for the end of `go`, and waits to be killed. */
static void keep_with_child(int told, int go)
{
	char byte = 0;

	participant();
	if (fork() == 0) {
		ssize_t n = write(told, "x", 1);

		close(told);
		_exit(n == 1 && read(go, &byte, 1) == 0 ? 0 : 1);
	}
	for (;;)
		pause();
}

static bool count_row(const struct apus_stats_row *row, void *user)
{
	(void)row;
	++*(int *)user;
	return true;
}

/* As if it had been killed in the middle of an update: the number in front, at byte 24, is odd for good. */
static void leave_unfinished(struct apus_stats *stats)
{
	uint64_t odd = 999;
	int fd = open(path, O_WRONLY | O_CLOEXEC), rows = 0;

	assert_int_equal(pwrite(fd, &odd, sizeof(odd), 24), sizeof(odd));
	close(fd);
	assert_true(apus_stats_visit(stats, count_row, &rows) > 0);
	assert_true(rows > 0);
}

static void killed_with_child(void **state)
{
	struct apus_participant *p;
	struct apus_stats *stats;
	int rows = 0;
	int told[2], go[2];
	char byte = 0;
	pid_t keeper;

	(void)state;
	assert_int_equal(pipe(told), 0);
	assert_int_equal(pipe(go), 0);
	keeper = fork();
	assert_true(keeper >= 0);
	if (keeper == 0) {
		close(told[0]);
		close(go[1]);
		keep_with_child(told[1], go[0]);
	}
	close(told[1]);
	close(go[0]);
	assert_int_equal(read(told[0], &byte, 1), 1);
	assert_int_equal(apus_stats_open(path, &stats), 0);
	assert_int_equal(apus_stats_pid(stats), keeper);
	assert_false(apus_stats_is_stale(stats));
	refused(APUS_EEXIST, "kept by another");
	while (apus_stats_visit(stats, count_row, &rows) <= 0)
		usleep(1000); /* its first update */
	kill(keeper, SIGKILL);
	assert_int_equal(waitpid(keeper, NULL, 0), keeper);
	assert_true(apus_stats_is_stale(stats));
	leave_unfinished(stats);
	apus_stats_close(stats);
	p = participant(); /* takes it over, while the child lives */
	apus_participant_destroy(p);
	close(go[1]);
	assert_int_equal(access(path, F_OK), -1);
	close(told[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(seen_by_others), cmocka_unit_test(files_that_lie),
		cmocka_unit_test(cut_short),      cmocka_unit_test(no_room_for_it),
		cmocka_unit_test(only_its_own),   cmocka_unit_test(killed_with_child)};

	snprintf(path, sizeof(path), "/tmp/apus-stats-%d", (int)getpid());
	snprintf(copy, sizeof(copy), "/tmp/apus-stats-%d-copy", (int)getpid());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
