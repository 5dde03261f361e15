/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writers and readers of two participants, or of one, whose samples take a chosen route. The workers are driven by the
 * test, so that nothing happens between two of its steps but what control does.
 */
#ifndef APUS_TESTS_API_ROUTE_PAIR_H
#define APUS_TESTS_API_ROUTE_PAIR_H

#include <apus/apus.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define SEC  INT64_C(1000000000)
#define MSEC INT64_C(1000000)

enum route { ROUTE_SHM, ROUTE_SAME, ROUTE_UDP, ROUTES };

static const char *const route_names[ROUTES] = {"shared memory", "same process", "UDP"};

struct route_pair {
	enum route route;
	struct apus_participant *w, *r; /* of writers, of readers; the same one for ROUTE_SAME */
	char directory[64];
};

static inline int64_t route_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * SEC + ts.tv_nsec;
}

static inline struct apus_participant *route_participant(const struct route_pair *p, int domain,
							 const char *const *settings)
{
	struct apus_config *c = apus_config_create();
	struct apus_participant *participant = NULL;
	char why[256] = "", text[8];
	int rc;

	/* Two runs of the tests at a time rarely meet; tests of one run use other numbers, or topics. */
	snprintf(text, sizeof(text), "%d", domain + 12 * ((int)getpid() % 11));
	rc = apus_config_set(c, "domain", text, why, sizeof(why));
	if (rc == 0)
		rc = apus_config_set(c, "interfaces", "lo", why, sizeof(why));
	if (rc == 0)
		rc = apus_config_set(c, "worker.mode", "driven", why, sizeof(why));
	if (rc == 0)
		rc = apus_config_set(c, "shm", p->route == ROUTE_SHM ? "on" : "off", why,
				     sizeof(why));
	if (rc == 0 && p->route == ROUTE_SHM)
		rc = apus_config_set(c, "shm.directory", p->directory, why, sizeof(why));
	for (; rc == 0 && settings && *settings; settings += 2)
		rc = apus_config_set(c, settings[0], settings[1], why, sizeof(why));
	if (rc == 0)
		rc = apus_participant_create(c, &participant, why, sizeof(why));
	if (rc != 0)
		print_message("%s\n", why);
	apus_config_destroy(c);
	assert_int_equal(rc, 0);
	return participant;
}

/** settings: pairs of name and value for all participants, ended by NULL; or NULL. */
static inline void route_open(struct route_pair *p, enum route route, int domain,
			      const char *const *settings)
{
	p->route = route;
	snprintf(p->directory, sizeof(p->directory), "/tmp/apus-test-route-%d", (int)getpid());
	p->w = route_participant(p, domain, settings);
	p->r = route == ROUTE_SAME ? p->w : route_participant(p, domain, settings);
}

static inline void route_close(struct route_pair *p)
{
	if (p->r != p->w)
		apus_participant_destroy(p->r);
	apus_participant_destroy(p->w);
	if (p->route == ROUTE_SHM)
		assert_int_equal(rmdir(p->directory), 0); /* nothing is left in it */
}

/** One turn of each. Returns what they have done. */
static inline int route_poll(const struct route_pair *p)
{
	int work = apus_worker_poll(p->w, 0);

	return work + (p->r == p->w ? 0 : apus_worker_poll(p->r, 0));
}

/** Until nothing has been done for a while, and often; who is behind is asked for ever, so that ends, too. */
static inline void route_settle(const struct route_pair *p)
{
	struct timespec ts = {0, 200000};
	int64_t begun = route_now(), quiet = begun;
	int idle = 0, all = 0;

	while ((idle < 30 || route_now() - quiet < 16 * MSEC) &&
	       (all++ < 100 || route_now() - begun < 50 * MSEC)) {
		if (route_poll(p)) {
			quiet = route_now();
			idle = 0;
		} else {
			nanosleep(&ts, NULL);
			idle++;
		}
	}
}

/** Until a writer has `readers` matches and a reader `writers`; either may be NULL. */
static inline void route_match(const struct route_pair *p, struct apus_writer *w, uint32_t readers,
			       struct apus_reader *r, uint32_t writers)
{
	struct timespec ts = {0, 200000};
	int64_t end = route_now() + 60 * SEC;

	while ((w && apus_writer_matched(w) != readers) ||
	       (r && apus_reader_matched(r) != writers)) {
		assert_true(route_now() < end);
		route_poll(p);
		nanosleep(&ts, NULL);
	}
}

/** A counter of a reader or writer. */
struct route_stat {
	const char *name;
	uint64_t value;
};

static inline void route_find_stat(const struct apus_stat *stat, void *user)
{
	struct route_stat *wanted = user;

	if (strcmp(stat->name, wanted->name) == 0)
		wanted->value = stat->value;
}

static inline uint64_t route_reader_stat(struct apus_reader *r, const char *name)
{
	struct route_stat s = {name, UINT64_MAX};

	apus_visit_reader_stats(r, route_find_stat, &s);
	assert_true(s.value != UINT64_MAX);
	return s.value;
}

static inline uint64_t route_writer_stat(struct apus_writer *w, const char *name)
{
	struct route_stat s = {name, UINT64_MAX};

	apus_visit_writer_stats(w, route_find_stat, &s);
	assert_true(s.value != UINT64_MAX);
	return s.value;
}

#endif
