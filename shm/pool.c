/* SPDX-License-Identifier: Apache-2.0 */
/* Slot pools; see pool.h. */
#include "shm/pool.h"

#include <apus/core.h>

#include <stdlib.h>
#include <string.h>

#define SLOT_ALIGN 64u

int apus_shm_pool_init(struct apus_shm_pool *pool, uint32_t slot_bytes, uint32_t slot_count,
		       unsigned segment_flags)
{
	int rc;

	if (slot_bytes == 0 || slot_bytes > UINT32_MAX - SLOT_ALIGN || slot_count == 0 ||
	    slot_count >= APUS_SHM_NO_SLOT)
		return APUS_EINVAL;
	memset(pool, 0, sizeof(*pool));
	pool->slot_bytes = (slot_bytes + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN;
	pool->slot_count = slot_count;
	pool->free_slots = calloc(slot_count, sizeof(*pool->free_slots));
	pool->holds = calloc(slot_count, sizeof(*pool->holds));
	if (!pool->free_slots || !pool->holds) {
		rc = APUS_ENOMEM;
		goto fini;
	}
	rc = apus_shm_segment_create((size_t)pool->slot_bytes * slot_count, segment_flags,
				     &pool->segment);
	if (rc != 0)
		goto fini;
	/* The lowest index on top of the stack: a short-lived pool stays in few pages. */
	for (uint32_t i = 0; i < slot_count; i++)
		pool->free_slots[i] = slot_count - 1 - i;
	pool->free_count = slot_count;
	return 0;

fini:
	apus_shm_pool_fini(pool);
	return rc;
}

void apus_shm_pool_fini(struct apus_shm_pool *pool)
{
	apus_shm_segment_destroy(&pool->segment);
	free(pool->free_slots);
	free(pool->holds);
	memset(pool, 0, sizeof(*pool));
}
