/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zero memory that costs pages only where it is used.
 *
 * calloc() clears what has been used before, and thereby brings all of it in: a table that is sized for thousands and
 * holds two would be in memory as a whole. Large requests are mappings of their own here, whatever the heap has to
 * offer; small ones come from the heap.
 */
#ifndef APUS_BASE_FRESH_H
#define APUS_BASE_FRESH_H

#include <stddef.h>
#include <stdint.h>

/** `count` items (0 counts as 1) of item_bytes (≥ 1), zero and aligned for any type; from 16 KiB on to pages. NULL
 *  without memory. Any thread. */
void *apus_fresh_alloc(size_t count, size_t item_bytes);
/** Gives it back; count and item_bytes as they were. NULL is allowed. Any thread. */
void apus_fresh_free(void *memory, size_t count, size_t item_bytes);
/** Bytes of address space that mappings of this process have now. For measurements. */
uint64_t apus_fresh_mapped(void);

#endif
