/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the stress tests of the public API share: participants on loopback and failures noted by threads,
 * because cmocka's assertions belong to the main thread.
 */
#ifndef APUS_TESTS_STRESS_STRESS_UTIL_H
#define APUS_TESTS_STRESS_STRESS_UTIL_H

#include <apus/apus.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define SEC  INT64_C(1000000000)
#define MSEC INT64_C(1000000)

/* The first failure of any thread; later ones are its consequences. */
static char stress_failure[256];
static _Atomic int stress_failed; /* 0: none, 1: being written, 2: written */

/** Notes a failure; any thread. */
__attribute__((format(printf, 1, 2))) static inline void stress_fail(const char *format, ...)
{
	int none = 0;
	va_list list;

	if (!atomic_compare_exchange_strong(&stress_failed, &none, 1))
		return;
	va_start(list, format);
	vsnprintf(stress_failure, sizeof(stress_failure), format, list);
	va_end(list);
	/* Release: pairs with the acquire in stress_check(). */
	atomic_store_explicit(&stress_failed, 2, memory_order_release);
}

static inline bool stress_has_failed(void)
{
	/* Relaxed: only ends loops early. */
	return atomic_load_explicit(&stress_failed, memory_order_relaxed) != 0;
}

/** Reports what threads noted; main thread, after they were joined. */
static inline void stress_check(void)
{
	/* Acquire: pairs with the release in stress_fail(). */
	if (atomic_load_explicit(&stress_failed, memory_order_acquire) == 2)
		fail_msg("%s", stress_failure);
}

static inline void stress_sleep(int64_t ns)
{
	struct timespec ts = {ns / SEC, ns % SEC};

	nanosleep(&ts, NULL);
}

/**
 * The domain for a test's number, "101" … "111": one of eleven, by process, so that a second run of the
 * tests on the same host rarely meets this one, and tests running at a time never meet.
 */
static inline void stress_domain(const char *number, char domain_out[8])
{
	snprintf(domain_out, 8, "%d", atoi(number) % 100 + 100 + 12 * ((int)getpid() % 11));
}

/**
 * A participant on loopback; domain: the test's number as above. settings: pairs of name and value, ended by NULL.
 * NULL on failure, which is noted. Any thread.
 */
static inline struct apus_participant *stress_participant(const char *domain,
							  const char *const *settings)
{
	struct apus_config *c = apus_config_create();
	struct apus_participant *p = NULL;
	char why[256] = "", actual[8];
	int rc = c ? 0 : APUS_ENOMEM;

	stress_domain(domain, actual);
	if (rc == 0)
		rc = apus_config_set(c, "interfaces", "lo", why, sizeof(why));
	if (rc == 0)
		rc = apus_config_set(c, "domain", actual, why, sizeof(why));
	for (; rc == 0 && settings && *settings; settings += 2)
		rc = apus_config_set(c, settings[0], settings[1], why, sizeof(why));
	if (rc == 0)
		rc = apus_participant_create(c, &p, why, sizeof(why));
	apus_config_destroy(c);
	if (rc != 0)
		stress_fail("participant: %s: %s", apus_strerror(rc), why);
	return rc ? NULL : p;
}

/** Reliable, keep all, for both kinds; a writer waits long for room. */
static inline void stress_qos(bool is_writer, struct apus_qos *qos)
{
	if (is_writer)
		apus_qos_writer_default(qos);
	else
		apus_qos_reader_default(qos);
	qos->reliability = APUS_RELIABLE;
	qos->history = APUS_KEEP_ALL;
	qos->max_samples = qos->max_samples_per_instance = 256;
	qos->max_instances = 16;
	qos->max_blocking_ns = 60 * SEC;
}

/** The shape in a sample; false (noted) if it does not decode. */
static inline bool stress_shape(const struct apus_sample *s, struct apus_shape *shape_out)
{
	if (apus_type_decode(&apus_shape_type, s->payload, s->payload_bytes, !s->info.valid_data,
			     shape_out, NULL, 0) == 0)
		return true;
	stress_fail("a sample does not decode");
	return false;
}

#endif
