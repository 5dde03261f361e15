/* SPDX-License-Identifier: Apache-2.0 */
/* Zero memory that costs pages only where it is used; see fresh.h. */
#include "base/fresh.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

/* From here on the rest of the last page is a fifth at most. */
#define MAPPED_BYTES_MIN ((size_t)16384)
#define PAGE_BYTES       ((size_t)4096)
/* More is a mistake, and no allocator need be asked; sanitizers end the process that does. */
#define BYTES_MAX ((size_t)1 << 39)

#if defined(__SANITIZE_ADDRESS__)
#define FROM_HEAP 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FROM_HEAP 1
#endif
#endif
/* The address sanitizer watches the heap only. */
#ifndef FROM_HEAP
#define FROM_HEAP 0
#endif

static _Atomic uint64_t mapped;

/* 0: too much. */
static size_t bytes_of(size_t count, size_t item_bytes)
{
	size_t bytes;

	if (__builtin_mul_overflow(count ? count : 1, item_bytes, &bytes) || bytes > BYTES_MAX)
		return 0;
	return bytes;
}

static bool is_mapped(size_t bytes)
{
	return !FROM_HEAP && bytes >= MAPPED_BYTES_MIN;
}

static size_t whole_pages(size_t bytes)
{
	return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

void *apus_fresh_alloc(size_t count, size_t item_bytes)
{
	size_t bytes = bytes_of(count, item_bytes);
	void *p;

	if (bytes == 0)
		return NULL;
	if (!is_mapped(bytes))
		return calloc(1, bytes);
	bytes = whole_pages(bytes);
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	/* Relaxed: a sum, which orders nothing. */
	atomic_fetch_add_explicit(&mapped, bytes, memory_order_relaxed);
	return p;
}

void apus_fresh_free(void *memory, size_t count, size_t item_bytes)
{
	size_t bytes = bytes_of(count, item_bytes);

	if (!memory)
		return;
	if (!is_mapped(bytes)) {
		free(memory);
		return;
	}
	bytes = whole_pages(bytes);
	munmap(memory, bytes);
	/* Relaxed: as above. */
	atomic_fetch_sub_explicit(&mapped, bytes, memory_order_relaxed);
}

uint64_t apus_fresh_mapped(void)
{
	/* Relaxed: as above. */
	return atomic_load_explicit(&mapped, memory_order_relaxed);
}
