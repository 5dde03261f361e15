/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for slots: one region per pool, backed by a memfd so that it can later be handed to another
 * process, on 2 MiB pages where the host has reserved some.
 *
 * For the data path every page is written once before the region is handed out, because a first touch
 * costs 7 to 24 us a page on virtual machines. Control's pools are large and rarely used to the full:
 * they are left to be touched as needed.
 *
 * Small regions (up to 8 KiB) are pieces of a common one, 64 of a size: a process with thousands of endpoints
 * needs neither a page nor a descriptor for each. Whoever will hand a region to another process asks for one
 * of its own, because all pieces of a common one can be seen through it.
 */
#ifndef APUS_SHM_SEGMENT_H
#define APUS_SHM_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>

/** How to back a region; bits. */
#define APUS_SHM_HUGE \
	1u /* reserved 2 MiB pages where there are any and the region is at least 1 MiB */
#define APUS_SHM_TOUCH 2u /* write every page now */
#define APUS_SHM_OWN   4u /* no piece of a common region, however small */
#define APUS_SHM_LAZY  8u /* a piece that nobody has had before is not touched */

struct apus_shm_chunk;

/** A mapped region. Plain values; the owner unmaps it. */
struct apus_shm_segment {
	void *base;
	size_t bytes; /* a multiple of the page size, or of 512 for a piece */
	int fd;       /* the memfd, sealed against resizing; -1: a piece of a common region */
	bool huge;    /* backed by 2 MiB pages */
	struct apus_shm_chunk *chunk; /* what it is a piece of; NULL: of nothing */
};

/**
 * Creates a region of at least `bytes` bytes, zeroed.
 *
 * flags: bits above. Without reserved huge pages it falls back to ordinary ones, and `huge` in the
 * result says which.
 * Returns 0, APUS_EINVAL (0 bytes) or APUS_ENOMEM. Any thread.
 */
int apus_shm_segment_create(size_t bytes, unsigned flags, struct apus_shm_segment *segment_out);

/** Unmaps and closes; the struct becomes empty. An empty segment is allowed. */
void apus_shm_segment_destroy(struct apus_shm_segment *segment);

#endif
