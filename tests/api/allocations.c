/* SPDX-License-Identifier: Apache-2.0 */
/* See allocations.h. */
#include "tests/api/allocations.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

static _Atomic bool counting;
static _Atomic unsigned long allocations;

static void note(void)
{
	if (atomic_load(&counting))
		atomic_fetch_add(&allocations, 1);
}

void *__real_malloc(size_t);
void *__real_calloc(size_t, size_t);
void *__real_realloc(void *, size_t);
void *__real_aligned_alloc(size_t, size_t);
int __real_posix_memalign(void **, size_t, size_t);
char *__real_strdup(const char *);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t m);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t a, size_t n);
int __wrap_posix_memalign(void **p, size_t a, size_t n);
char *__wrap_strdup(const char *s);

void *__wrap_malloc(size_t n)
{
	note();
	return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t m)
{
	note();
	return __real_calloc(n, m);
}

void *__wrap_realloc(void *p, size_t n)
{
	note();
	return __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t a, size_t n)
{
	note();
	return __real_aligned_alloc(a, n);
}

int __wrap_posix_memalign(void **p, size_t a, size_t n)
{
	note();
	return __real_posix_memalign(p, a, n);
}

char *__wrap_strdup(const char *s)
{
	note();
	return __real_strdup(s);
}

void allocations_begin(void)
{
	atomic_store(&allocations, 0);
	atomic_store(&counting, true);
}

unsigned long allocations_end(void)
{
	atomic_store(&counting, false);
	return atomic_load(&allocations);
}
