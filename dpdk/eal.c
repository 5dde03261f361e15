/* SPDX-License-Identifier: Apache-2.0 */
/* Starting DPDK's environment from inside a library: see eal.h. */
#include "dpdk/eal.h"

#include "base/atomics.h"

#include <apus/core.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARGUMENTS_MAX 64
#define CORES_BYTES   4096
/* Memory taken at once without huge pages, where DPDK cannot take more later. */
#define MEMORY_MB "128"
/* Free pages of 2 MiB that make huge pages worth trying: a port's pools and DPDK's own tables. */
#define HUGE_PAGES_MIN 48

static bool started, with_pci;
static char last_log[256];

struct start {
	int argc;
	char *argv[ARGUMENTS_MAX + 1];
	int result, error;
};

/* --- what DPDK says ------------------------------------------------------------------------------- */

static ssize_t keep_line(void *cookie, const char *text, size_t bytes)
{
	size_t length = bytes;

	(void)cookie;
	while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == ' '))
		length--;
	if (length > 0)
		snprintf(last_log, sizeof(last_log), "%.*s", (int)(length < 255 ? length : 255),
			 text);
	return (ssize_t)bytes;
}

static void catch_log(void)
{
	FILE *log = fopencookie(NULL, "w", (cookie_io_functions_t){.write = keep_line});

	if (!log)
		return;
	setvbuf(log, NULL, _IOLBF, 1024);
	rte_openlog_stream(log);
}

const char *apus_dpdk_eal_last_log(void)
{
	return last_log;
}

void apus_dpdk_eal_clear_log(void)
{
	last_log[0] = '\0';
}

/* --- what the driver's libraries say -------------------------------------------------------------- */

/* libxdp.h and libbpf.h are not needed to build: `level` is an enum of either, 0 a warning. */
typedef int (*print_fn)(int level, const char *format, va_list args);
typedef print_fn (*set_print_fn)(print_fn);

static struct {
	const char *file, *setter;
	print_fn before;
	set_print_fn set; /* NULL: not loaded */
} noisy[] = {{"libxdp.so.1", "libxdp_set_print", NULL, NULL},
	     {"libbpf.so.1", "libbpf_set_print", NULL, NULL},
	     {"libbpf.so.0", "libbpf_set_print", NULL, NULL}};

__attribute__((format(printf, 2, 0))) static int keep_warning(int level, const char *format,
							      va_list args)
{
	char text[sizeof(last_log)];
	int bytes = vsnprintf(text, sizeof(text), format, args);

	if (level == 0 && bytes > 0)
		keep_line(NULL, text, strlen(text));
	return bytes;
}

void apus_dpdk_quiet_begin(void)
{
	for (size_t i = 0; i < APUS_ARRAY_LENGTH(noisy); i++) {
		/* Drivers are loaded by EAL, where these are not global: looked for, never loaded. */
		void *library = dlopen(noisy[i].file, RTLD_LAZY | RTLD_NOLOAD);

		noisy[i].set = library ? (set_print_fn)dlsym(library, noisy[i].setter) : NULL;
		if (noisy[i].set)
			noisy[i].before = noisy[i].set(keep_warning);
		if (library)
			dlclose(library);
	}
}

void apus_dpdk_quiet_end(void)
{
	for (size_t i = 0; i < APUS_ARRAY_LENGTH(noisy); i++)
		if (noisy[i].set)
			noisy[i].set(noisy[i].before);
}

/* --- arguments ------------------------------------------------------------------------------------ */

static unsigned free_huge_pages(void)
{
	FILE *file = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "re");
	unsigned count = 0;

	if (file) {
		if (fscanf(file, "%u", &count) != 1)
			count = 0;
		fclose(file);
	}
	return count;
}

/* "0@(0,1)": one lcore that may run wherever the caller may, so that nothing is pinned. */
static void core_list(char *out, size_t bytes)
{
	size_t used = (size_t)snprintf(out, bytes, "0@(");
	const char *comma = "";
	cpu_set_t set;

	CPU_ZERO(&set);
	sched_getaffinity(0, sizeof(set), &set);
	for (int i = 0; i < CPU_SETSIZE && used + 8 < bytes; i++) {
		if (!CPU_ISSET(i, &set))
			continue;
		used += (size_t)snprintf(out + used, bytes - used, "%s%d", comma, i);
		comma = ",";
	}
	snprintf(out + used, bytes - used, ")");
}

static void add(struct start *s, const char *word)
{
	if (s->argc < ARGUMENTS_MAX)
		s->argv[s->argc++] = (char *)(uintptr_t)word;
}

static bool has(const char *extra, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = extra; (at = strstr(at, word)); at += length)
		if ((at == extra || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
			return true;
	return false;
}

/* extra is cut up in place. */
static void make_arguments(struct start *s, const struct apus_dpdk_eal_config *config, char *extra,
			   const char *cores)
{
	bool huge = config->hugepages && free_huge_pages() >= HUGE_PAGES_MIN;
	char *rest = extra, *word;

	add(s, "apus");
	if (huge && !has(config->extra, "--no-huge")) {
		add(s, "--in-memory");
	} else {
		if (!has(config->extra, "--no-huge"))
			add(s, "--no-huge");
		add(s, "--no-shconf");
		if (!has(config->extra, "-m")) {
			add(s, "-m");
			add(s, MEMORY_MB);
		}
	}
	add(s, "--no-telemetry");
	add(s, "--lcores");
	add(s, cores);
	add(s, "--iova-mode=va");
	add(s, "--log-level=error");
	if (config->pci) {
		add(s, "-a");
		add(s, config->pci);
	} else {
		add(s, "--no-pci");
	}
	while ((word = strsep(&rest, " ")))
		if (*word)
			add(s, word);
}

/* --- the start ------------------------------------------------------------------------------------ */

static void *start_thread(void *arg)
{
	struct start *s = arg;

	s->result = rte_eal_init(s->argc, s->argv);
	s->error = rte_errno;
	return NULL;
}

/* Threads that EAL starts inherit the mask: no signal of the application is ever handled there. */
static int run(struct start *s)
{
	sigset_t all, before;
	pthread_t thread;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, NULL, start_thread, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc == 0)
		pthread_join(thread, NULL);
	return rc;
}

static int result_of(int error)
{
	switch (error) {
	case EACCES:
	case EPERM: return APUS_EPERM;
	case ENOMEM: return APUS_ENOMEM;
	case EINVAL:
	case ENOEXEC: return APUS_EINVAL;
	default: return APUS_EIO;
	}
}

/* What EAL points to; it starts once. Volatile, or nobody would store what nobody reads. */
static char *volatile kept[2];

static int first_start(const struct apus_dpdk_eal_config *config, char *why, size_t why_bytes)
{
	struct start s = {.result = -1};
	char *extra = strdup(config->extra), *cores = malloc(CORES_BYTES);
	int rc = APUS_ENOMEM;

	if (!extra || !cores)
		goto free_texts;
	catch_log();
	core_list(cores, CORES_BYTES);
	make_arguments(&s, config, extra, cores);
	if (s.argc == ARGUMENTS_MAX) {
		snprintf(why, why_bytes, "dpdk.eal: more than %d arguments", ARGUMENTS_MAX);
		rc = APUS_EINVAL;
		goto free_texts;
	}
	rc = run(&s) == 0 ? 0 : APUS_EIO;
	if (rc == 0 && s.result < 0 && s.error != EALREADY)
		rc = result_of(s.error);
	if (rc != 0)
		snprintf(why, why_bytes, "DPDK does not start: %s%s%s", rte_strerror(s.error),
			 last_log[0] ? ": " : "", last_log);
	/* EAL keeps pointers into its arguments, for as long as the process runs. */
	if (rc == 0) {
		kept[0] = extra;
		kept[1] = cores;
		return 0;
	}
free_texts:
	free(extra);
	free(cores);
	return rc;
}

int apus_dpdk_eal_start(const struct apus_dpdk_eal_config *config, char *why, size_t why_bytes)
{
	int rc;

	if (!started) {
		rc = first_start(config, why, why_bytes);
		if (rc != 0)
			return rc;
		started = true;
		with_pci = rte_eal_has_pci() != 0;
	}
	if (!config->pci || with_pci)
		return 0;
	snprintf(why, why_bytes, "this process runs DPDK without PCI: open %s before other ports",
		 config->pci);
	return APUS_ENOTSUP;
}
