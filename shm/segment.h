/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for slots: one region per pool, backed by a memfd so that it can later be handed to another
 * process, on 2 MiB pages where the host has reserved some.
 *
 * For the data path every page is written once before the region is handed out, because a first touch
 * costs 7 to 24 us a page on virtual machines. Control's pools are large and rarely used to the full:
 * they are left to be touched as needed.
 */
#ifndef APUS_SHM_SEGMENT_H
#define APUS_SHM_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>

/** How to back a region; bits. */
#define APUS_SHM_HUGE \
	1u /* reserved 2 MiB pages where there are any and the region is at least 1 MiB */
#define APUS_SHM_TOUCH 2u /* write every page now */

/** A mapped region. Plain values; the owner unmaps it. */
struct apus_shm_segment {
	void *base;
	size_t bytes; /* as mapped: a multiple of the page size */
	int fd;       /* the memfd, sealed against resizing */
	bool huge;    /* backed by 2 MiB pages */
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
